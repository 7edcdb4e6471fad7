//! An ordered map on byte strings: hashed prefixes lead to one of many small sorted leaves.
//!
//! Take [`Wormhole`] for byte strings, or for anything that [`crate::key`] turns into byte strings, when
//! keys are looked up one by one *and* scanned in order. A `get` waits for memory twice, or three times where the
//! key is in a record; a scan reads leaves of some 170 entries part by part, prefetched ahead.
//!
//! How it works, its invariants and its budget of line fetches are in `docs/design/wormhole.md`.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "inside, the one error is that there is no memory")]
#![allow(clippy::single_match_else, reason = "the two forms of an entry stand side by side")]

mod check;
mod insert;
mod iter;
mod layout;
mod raw;
mod remove;
mod resize;
mod search;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;

use core::marker::PhantomData;

use self::raw::{Leaf, Memory};
use crate::api::{MemoryUsage, Options, OwnsAndTakes, Ref};
use crate::arch::Avx512;
use crate::hash::prefix::Seed;
use crate::list::{Leaf as _, Leaves as _, List};
use crate::mem::{self, word};
use crate::prefix;
use crate::shards::Shards;
use crate::sync::epoch::{self, Guard, Unlinked};

pub use self::iter::Range;
pub use crate::api::Broken;

/// Longest key of a map, in bytes.
pub const MAX_KEY_BYTES: usize = layout::MAX_KEY_BYTES;

/// An ordered map on byte strings, for any number of threads.
///
/// All operations go through [`pin`](Self::pin). Keys have up to [`MAX_KEY_BYTES`] bytes of any kind and are
/// ordered as byte strings. Values of up to 8 bytes without anything to drop are kept beside the key.
///
/// Take another type when keys are never asked for in order: a hash map needs one wait less.
///
/// # Concurrency
///
/// Readers take no lock, store nothing, and wait for nobody: not for writers, splits, or growth of the table.
/// Writers lock the one leaf they change. Point operations are linearizable. A sleeping reader or iterator delays
/// the reuse of memory and nothing else.
///
/// # Examples
///
/// ```
/// use fanread::Wormhole;
///
/// let map = Wormhole::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| map.pin().insert(b"ant", 1).is_none());
///     scope.spawn(|| map.pin().insert(b"bee", 2).is_none());
/// });
/// let pinned = map.pin();
/// let all: Vec<_> = pinned.iter().map(|(key, value)| (key.to_vec(), *value)).collect();
/// assert_eq!(all, [(b"ant".to_vec(), 1), (b"bee".to_vec(), 2)]);
/// ```
///
/// # Paper
///
/// Wu, Ni and Jiang, "Wormhole: A Fast Ordered Index for In-memory Data Management", EuroSys 2019.
pub struct Wormhole<V> {
    memory: Memory,
    /// The kernels this processor has beyond the baseline.
    avx512: Option<Avx512>,
    /// The leaves, and the prefix table that finds them.
    list: List,
    shards: Shards<FreeLeaves, Garbage>,
    values: PhantomData<OwnsAndTakes<V>>,
}

/// Leaves that are free.
#[derive(Debug, Default)]
struct FreeLeaves {
    /// Their units, by how many lines they have; no lists before the first is free.
    units: Vec<Vec<u64>>,
}

impl FreeLeaves {
    /// A free leaf of so many lines, or half of one that has twice as many, as a page has for leaves without values.
    fn take(&mut self, lines: usize) -> Option<u64> {
        let of_size = |units: &mut [Vec<u64>], lines: usize| units.get_mut(lines)?.pop();
        of_size(&mut self.units, lines).or_else(|| {
            let unit = of_size(&mut self.units, 2 * lines)?;
            self.put(lines, unit + lines as u64);
            Some(unit)
        })
    }

    /// Whether there is such a leaf.
    fn has(&self, lines: usize) -> bool {
        let is_there = |lines: usize| self.units.get(lines).is_some_and(|units| !units.is_empty());
        is_there(lines) || is_there(2 * lines)
    }

    fn put(&mut self, lines: usize, unit: u64) {
        if self.units.len() <= lines {
            self.units.resize_with(lines + 1, Vec::new);
        }
        self.units[lines].push(unit);
    }

    fn bytes(&self) -> usize {
        let lines = (0..).zip(&self.units).map(|(lines, units)| lines * units.len());
        lines.sum::<usize>() * mem::LINE_BYTES
    }
}

/// What a writer has unlinked.
#[derive(Debug)]
enum Garbage {
    /// A leaf of so many lines.
    Leaf(u8, u64),
    /// A record of an entry.
    Record(u64),
    /// A record of an entry whose value now lives in a leaf.
    Husk(u64),
    /// A record of a border.
    Border(u64),
    /// A piece of the prefix table, freed by being dropped.
    Table(prefix::Garbage),
}

impl Unlinked for Garbage {
    fn is_large(&self) -> bool {
        matches!(self, Self::Table(_))
    }
}

/// Bytes of leaves from which a map is worth its own shards for threads.
const SHARDS_FROM_BYTES: usize = 256 << 10;

impl<V> Wormhole<V> {
    /// Makes an empty map.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options are made for one map and handed over"
    )]
    pub fn with_options(options: Options) -> Self {
        let list = List::new(options.seed.map_or_else(Seed::random, Seed::fixed));
        if let Some(lengths) = options.probe_width {
            list.table.set_fan(lengths);
        }
        Self {
            memory: Memory::new(),
            avx512: Avx512::detect(),
            list,
            shards: Shards::new(),
            values: PhantomData,
        }
    }

    /// Returns what the map takes in memory.
    pub fn memory_usage(&self) -> MemoryUsage {
        let mut idle_bytes = 0;
        for shard in self.shards.lock_each() {
            idle_bytes += shard.heap.idle_bytes();
            idle_bytes += shard.free.bytes();
        }
        MemoryUsage {
            leaf_bytes: self.memory.leaves.resident_bytes(),
            record_bytes: self.memory.records.resident_bytes(),
            table_bytes: self.list.table.memory_bytes(&epoch::pin()),
            idle_bytes,
        }
    }

    /// The secret of the map's hash function.
    #[inline(always)]
    fn seed(&self) -> &Seed {
        self.list.table.seed()
    }

    /// Gives a map that has grown its shards.
    fn add_shards(&self) {
        if self.memory.leaves.used_bytes() >= SHARDS_FROM_BYTES {
            self.shards.grow();
        }
    }

    /// Takes what has been unlinked, and takes back into use what nobody can be reading any more.
    fn retire(&self, pinned: &Pinned<'_, V>, garbage: impl IntoIterator<Item = Garbage>) {
        // User code runs here, in `Drop` of values: no lock is held.
        self.exchange(pinned, garbage).run();
    }

    /// Takes what has been unlinked; returns what nobody can be reading any more. The caller drops its locks before it
    /// runs that.
    fn exchange(
        &self,
        pinned: &Pinned<'_, V>,
        garbage: impl IntoIterator<Item = Garbage>,
    ) -> Recycle<'_, V> {
        let items = self.shards.exchange(pinned.thread, &pinned.guard, garbage);
        Recycle { map: self, thread: pinned.thread, items }
    }

    fn record_units(&self, unit: u64) -> u64 {
        mem::record::Record::<V>::units(self.memory.record::<V>(unit).key().len())
    }
}

/// Garbage on its way back into use.
struct Recycle<'m, V> {
    map: &'m Wormhole<V>,
    thread: usize,
    items: Vec<Garbage>,
}

impl<V> Recycle<'_, V> {
    fn run(&mut self) {
        let Wormhole { memory, shards, .. } = self.map;
        while let Some(item) = self.items.pop() {
            let (unit, units) = match item {
                Garbage::Leaf(lines, unit) => {
                    shards.lock(self.thread).free.put(usize::from(lines), unit);
                    continue;
                }
                Garbage::Table(piece) => {
                    drop(piece);
                    continue;
                }
                Garbage::Record(unit) => {
                    let units = self.map.record_units(unit);
                    memory.drop_record::<V>(unit);
                    (unit, units)
                }
                Garbage::Husk(unit) => (unit, self.map.record_units(unit)),
                Garbage::Border(unit) => {
                    (unit, mem::record::Record::<()>::units(memory.border(unit).len()))
                }
            };
            shards.lock(self.thread).heap.free(&memory.records, unit, units);
        }
    }
}

impl<V> Drop for Recycle<'_, V> {
    fn drop(&mut self) {
        // After a panic of one value: the rest. A second panic aborts, as in std's collections.
        if std::thread::panicking() {
            self.run();
        }
    }
}

impl<V> Drop for Wormhole<V> {
    fn drop(&mut self) {
        if const { word::is_inline::<V>() } {
            // Nothing to drop, and the arenas free all memory at once.
            return;
        }
        // What was unlinked still holds values.
        let limbos = self.shards.drain().collect();
        let mut values =
            DropValues { map: self, limbos, leaf: self.list.first(&self.memory), at: 0 };
        values.run();
    }
}

/// Drops the values of a map that nobody uses any more, each once, even if one panics.
struct DropValues<'m, V> {
    map: &'m Wormhole<V>,
    limbos: Vec<Garbage>,
    leaf: Option<Leaf<'m>>,
    at: usize,
}

impl<V> DropValues<'_, V> {
    fn run(&mut self) {
        while let Some(garbage) = self.limbos.pop() {
            if let Garbage::Record(unit) = garbage {
                self.map.memory.drop_record::<V>(unit);
            }
        }
        while let Some(leaf) = self.leaf {
            while self.at < leaf.lines() * layout::LINE_WORDS {
                let word = leaf.word::<V>(self.at);
                self.at += 1;
                if let Some(unit) = word.record() {
                    self.map.memory.drop_record::<V>(unit);
                }
            }
            self.at = 0;
            self.leaf = leaf.header().next().map(|next| self.map.memory.leaf(next));
        }
    }
}

impl<V> Drop for DropValues<'_, V> {
    fn drop(&mut self) {
        // After a panic of one value: the rest. A second panic aborts, as in std's collections.
        if std::thread::panicking() {
            self.run();
        }
    }
}

/// The handle through which a [`Wormhole`] is used; see [`Wormhole::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct Pinned<'m, V> {
    map: &'m Wormhole<V>,
    guard: Guard,
    thread: usize,
}

crate::api::ordered_map_methods! {
    Wormhole,
    insert: "The line fetches of [`get`](Self::get) and one locked leaf; one insertion in some 100 splits a leaf. Other \
             leaves stay readable and writable meanwhile, and the leaf itself stays readable.",
    range: "A `get`'s fetches to find the first leaf, and its order; then the lines of the entries that are read, at most \
            52 or 58 for a leaf of some 150 entries, 32 entries ahead and in the next leaf; where keys are in records, \
            one or two lines for each, 16 ahead. Reads backwards fetch a leaf when they come to it.",
    bound: "Three waits to begin: a node of the prefix table, mostly cached; the leaf's first line and the four of its order; and up to \
            eight of its lines at once. Another round of up to eight or, where keys are in records, mostly two more, of which \
            each is a wait for lines and one for records. A bound that is a key in a record is found as by a [`get`](Self::get). \
            If entries were added since the leaf was last in order, all of it is read.",
}
