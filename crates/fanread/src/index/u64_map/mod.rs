//! An ordered map on `u64` that answers points by a hash table and ranges by a list of sorted keys.
//!
//! The table has every entry where the hash of its key says: a point operation waits once. The order has the keys alone, as
//! runs of some hundreds, and point operations do not touch it, but that an insertion leaves its key at the end of a run.
//! Who walks along the order asks the table for the value of each key, many at once; keys that the table no longer has are
//! passed over.
//!
//! | file | what |
//! | --- | --- |
//! | `layout.rs` | the bytes of a bucket |
//! | `raw.rs` | shared memory: buckets, runs, boxes |
//! | `table.rs` | the table, a `directory` of such buckets |
//! | `run.rs`, `order.rs` | keys of an interval, and the list of these |
//! | `row.rs` | keys that are looked for together |
//! | `search.rs` | points |
//! | `insert.rs`, `remove.rs` | writes |
//! | `resize.rs` | copies of segments |
//! | `iter.rs` | walks |
//! | `check.rs` | the verifier |
//!
//! Invariants, the protocol and the budget of line fetches are in `docs/design/u64-map.md`.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "inside, the error is that there is no memory")]

mod check;
mod guide;
mod insert;
mod iter;
mod layout;
mod order;
mod raw;
mod remove;
mod resize;
mod row;
mod run;
mod search;
mod table;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;

use core::marker::PhantomData;
use std::hash::{BuildHasher, RandomState};

pub use crate::api::{Broken, Ref};
use crate::api::{LoadError, MemoryUsage, Options, OwnsAndTakes};
use crate::arch::Avx512;
use crate::batch::lengths::Lengths;
use crate::hash::permute::Scrambler;
use crate::mem;
use crate::mem::word;
use crate::shards::{LeftBehind, Replacing, Shards};
use crate::sync::epoch::{self, Guard};

pub use iter::Range;
use layout::SLOTS;
use order::{Builder, Order};
use raw::{Garbage, Heap};
use table::Table;

/// An ordered map on `u64`: one wait for a point, order for a range.
///
/// A [`get`](Pinned::get) waits once, an [`insert`](Pinned::insert) about once, and a scan has the lines of many values in
/// flight. Typed keys come through [`key::U64Key`](crate::key::U64Key). Where the next key behind an absent one is asked for
/// most, take [`MlpIndex`](crate::MlpIndex).
///
/// Shared by threads through a shared reference; see [`pin`](Self::pin).
///
/// # Examples
///
/// ```
/// use fanread::U64Map;
///
/// let map = U64Map::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| map.pin().insert(30, 'c').is_none());
///     scope.spawn(|| map.pin().insert(10, 'a').is_none());
/// });
/// let pinned = map.pin();
/// let all: Vec<_> = pinned.iter().map(|(key, value)| (key, *value)).collect();
/// assert_eq!(all, [(10, 'a'), (30, 'c')]);
/// ```
pub struct U64Map<V> {
    table: Table,
    spelling: Scrambler,
    kernel: Option<Avx512>,
    order: Order,
    lengths: Lengths<{ row::ROW }, { iter::LONG }>,
    replacing: Replacing,
    shards: Shards<(), Garbage<V>>,
    /// What walks have left for writers to free.
    left: LeftBehind,
    values: PhantomData<OwnsAndTakes<V>>,
}

impl<V> U64Map<V> {
    /// Makes an empty map.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options are made for one map and handed over"
    )]
    pub fn with_options(options: Options) -> Self {
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64));
        let kernel = Avx512::detect();
        Self {
            table: Table::new(options.capacity),
            spelling: Scrambler::new(seed),
            kernel,
            order: Order::new(kernel),
            lengths: Lengths::new(),
            replacing: Replacing::new(),
            shards: Shards::new(),
            left: LeftBehind::default(),
            values: PhantomData,
        }
    }

    /// Makes a map of entries whose keys ascend.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`get`](Pinned::get)s, those of 32 entries at once.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAscending`] if a key is not above the one before it, [`LoadError::OutOfMemory`] if there is no memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::U64Map;
    ///
    /// let map = U64Map::from_sorted([(1, 'a'), (2, 'b')])?;
    /// assert_eq!(map.len(), 2);
    /// assert!(U64Map::from_sorted([(2, 'b'), (1, 'a')]).is_err());
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn from_sorted(entries: impl IntoIterator<Item = (u64, V)>) -> Result<Self, LoadError>
    where
        V: Send + Sync,
    {
        let entries = entries.into_iter();
        let map = Self::with_options(Options::new().capacity(entries.size_hint().0));
        let mut order = Builder::new(&map.order);
        let mut last = None;
        let mut some = Vec::with_capacity(search::WRITES);
        for (index, (key, value)) in entries.enumerate() {
            if last.is_some_and(|last| last >= key) {
                return Err(LoadError::NotAscending { index });
            }
            last = Some(key);
            order.add(key)?;
            some.push((key, value));
            if some.len() == search::WRITES {
                map.pin().load(&mut some)?;
            }
        }
        map.pin().load(&mut some)?;
        if last.is_some() {
            order.finish()?;
        } else {
            drop(order);
        }
        Ok(map)
    }

    /// Returns what the map takes in memory.
    pub fn memory_usage(&self) -> MemoryUsage {
        let guard = epoch::pin();
        let boxes = if const { word::is_inline::<V>() } { 0 } else { self.len() * size_of::<V>() };
        let (table, slots) = self.table.bytes(&guard);
        let runs: usize = self.order.runs(&guard).map(run::Run::own_bytes).sum();
        let free_slots = slots.saturating_sub(self.len() * (mem::LINE_BYTES / SLOTS));
        MemoryUsage {
            leaf_bytes: runs + self.order.heap.bytes() + self.order.list_bytes(&guard),
            record_bytes: boxes,
            table_bytes: table,
            idle_bytes: free_slots + self.table.idle_bytes(&guard) + self.order.heap.idle_bytes(),
        }
    }

    /// Takes what has been unlinked, and frees what nobody can be reading any more.
    fn retire(&self, pinned: &Pinned<'_, V>, garbage: impl IntoIterator<Item = Garbage<V>>) {
        // User code runs here, in `Drop` of values: no lock is held.
        self.exchange(pinned, garbage).run();
    }

    /// Frees what walks have left.
    #[cold]
    fn free_left(&self, pinned: &Pinned<'_, V>) {
        let free = self.shards.take_left(&self.left, &pinned.guard);
        Recycle { table: &self.table, heap: &self.order.heap, free }.run();
    }

    /// Takes what has been unlinked; returns what nobody can be reading any more. The caller drops its locks before it
    /// runs that.
    fn exchange(
        &self,
        pinned: &Pinned<'_, V>,
        garbage: impl IntoIterator<Item = Garbage<V>>,
    ) -> Recycle<'_, V> {
        let free = self.shards.exchange(pinned.thread, &pinned.guard, garbage);
        Recycle { table: &self.table, heap: &self.order.heap, free }
    }
}

/// Garbage that nobody reads any more: freed one by one, all of it even if the drop of a value panics.
struct Recycle<'m, V> {
    table: &'m Table,
    heap: &'m Heap,
    free: Vec<Garbage<V>>,
}

impl<V> Recycle<'_, V> {
    fn run(&mut self) {
        while let Some(item) = self.free.pop() {
            item.free(self.table, self.heap);
        }
    }
}

impl<V> Drop for Recycle<'_, V> {
    fn drop(&mut self) {
        // After a panic of one value: the rest. A second panic aborts, as in std's collections.
        self.run();
    }
}

impl<V> Drop for U64Map<V> {
    fn drop(&mut self) {
        let guard = epoch::pin();
        let mut free: Vec<_> = self.shards.drain().collect();
        free.extend(self.order.take(&guard));
        let mut values = Vec::new();
        let table = self.table.take(&guard, |segment| {
            if !const { word::is_inline::<V>() } {
                values.extend(segment.entries().filter_map(|(_, word)| raw::garbage_of(word)));
            }
        });
        free.extend(table.into_iter().map(Garbage::Table));
        free.append(&mut values);
        Recycle { table: &self.table, heap: &self.order.heap, free }.run();
    }
}

/// The handle through which a [`U64Map`] is used; see [`U64Map::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct Pinned<'m, V> {
    map: &'m U64Map<V>,
    guard: Guard,
    thread: usize,
}

crate::api::u64_map_methods! {
    U64Map,
    insert: "The line of the key's hash, and the lines of the end of a run of keys, which are mostly cached: one wait. One \
             insertion in some hundreds copies a run, and one in many a segment of the table.",
    range: "The lines of a run of keys to begin; then a line for each entry, those of the next 32 to 48 entries asked for \
            ahead, and one for eight keys. If the ranges before it were asked for one entry each, that of a bound for the first.",
    bound: "The line of the key itself and some lines of a run of keys, all at once, and if the key is not there, the line of \
            its neighbour's value: one wait or two.",
}
