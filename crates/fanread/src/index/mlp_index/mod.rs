//! An ordered map on `u64` whose searches ask for all levels at once.
//!
//! A trie over the bytes of its keys. Every node, and every group of up to three keys that share a prefix, is found in a
//! hash table under its prefix, so nothing has to be followed: a search computes where all of them would be and asks for
//! them together. Groups and nodes have a table each.
//!
//! | file | what |
//! | --- | --- |
//! | `layout.rs`, `words.rs` | the bytes of a bucket, and how they are read |
//! | `raw.rs` | shared memory: buckets, segments, the directory, boxes |
//! | `edit.rs` | several buckets at one instant: trails of readers, edits of writers |
//! | `search.rs` | a key, its place, its neighbours |
//! | `batch.rs` | several keys |
//! | `insert.rs`, `remove.rs` | writes |
//! | `quick.rs` | the simple ones of them |
//! | `load.rs` | a map of keys that ascend |
//! | `bound.rs` | the next key |
//! | `resize.rs` | copies of segments |
//! | `iter.rs`, `children.rs` | walks |
//! | `check.rs` | the verifier |
//!
//! Invariants, the protocol and the budget of line fetches are in `docs/design/mlp-index.md`; B1 to B4 and T1 to T3 are tested
//! by `check.rs`.
//!
//! PAPER: Xu, "Efficient Data Structures via Memory Level Parallelism", sections 4.1 to 4.4.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "inside, the errors are: begin again, and no room")]

mod batch;
mod bound;
mod check;
mod children;
mod edit;
mod insert;
mod iter;
mod layout;
mod load;
mod quick;
mod raw;
mod remove;
mod resize;
mod search;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;
mod words;

use core::marker::PhantomData;
use std::hash::{BuildHasher, RandomState};

pub use crate::api::Ref;
use crate::api::{LoadError, MemoryUsage, Options, OwnsAndTakes};
use crate::arch::Avx512;
use crate::batch::lengths::Lengths;
use crate::mem;
use crate::mem::word;
use crate::shards::Shards;
use crate::sync::epoch::{self, Guard};
use crate::sync::lock::Lock;
use crate::sync::shim::{AtomicU32, AtomicU64};

pub use crate::api::Broken;
pub use iter::Range;
use layout::{Entry, LEVELS, SLOTS};
use load::Loader;
use raw::{Garbage, Root, Spare, Table, Tables};
use search::Secret;
use words::Words;

/// An ordered map on `u64`: all levels of a search at once.
///
/// A [`get`](Pinned::get) waits once, and so does the search for a key's place; the next key behind an absent one is one more
/// wait away. Typed keys come through [`key::U64Key`](crate::key::U64Key). For byte strings take
/// [`Wormhole`](crate::Wormhole).
///
/// Shared by threads through a shared reference; see [`pin`](Self::pin).
///
/// # Examples
///
/// ```
/// use fanread::MlpIndex;
///
/// let map = MlpIndex::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| map.pin().insert(30, 'c').is_none());
///     scope.spawn(|| map.pin().insert(10, 'a').is_none());
/// });
/// let pinned = map.pin();
/// let all: Vec<_> = pinned.iter().map(|(key, value)| (key, *value)).collect();
/// assert_eq!(all, [(10, 'a'), (30, 'c')]);
/// ```
///
/// # Paper
///
/// Xu, "Efficient Data Structures via Memory Level Parallelism", section 4.
pub struct MlpIndex<V> {
    leaves: Root,
    nodes: Root,
    /// The levels where most keys are, a bit for each.
    usual: AtomicU32,
    /// The level where more keys are than on any other.
    most: AtomicU32,
    /// The same if nearly all keys are there; else 0.
    dense: AtomicU32,
    secret: Secret,
    kernel: Option<Avx512>,
    lengths: Lengths<{ iter::PIECE }, { iter::LONG }>,
    rate: iter::Rate,
    /// Held by who changes a directory; the memory of segments that are no more.
    structure: Lock<Vec<Spare>>,
    /// How many of the counted keys are on each level.
    counts: [AtomicU64; LEVELS + 1],
    shards: Shards<(), Garbage<V>>,
    /// How many entries the first insertion makes room for.
    expected: usize,
    values: PhantomData<OwnsAndTakes<V>>,
}

impl<V> MlpIndex<V> {
    /// Makes an empty map.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options are made for one map and handed over"
    )]
    pub fn with_options(options: Options) -> Self {
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64));
        Self {
            leaves: Root::none(),
            nodes: Root::none(),
            usual: AtomicU32::new(0),
            most: AtomicU32::new(0),
            dense: AtomicU32::new(0),
            secret: Secret::new(seed),
            kernel: Avx512::detect(),
            lengths: Lengths::new(),
            rate: iter::Rate::new(),
            structure: Lock::new(Vec::new()),
            counts: [const { AtomicU64::new(0) }; LEVELS + 1],
            shards: Shards::new(),
            expected: options.capacity,
            values: PhantomData,
        }
    }

    /// Makes a map of entries whose keys ascend.
    ///
    /// # Cost
    ///
    /// No searches: the first bucket of each entry and of each inner node, seldom the second, those of 32 at once. The size hint says how much
    /// room is made at first; parts of the table are copied if that was too little.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAscending`] if a key is not above the one before it, [`LoadError::OutOfMemory`] if there is no memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::MlpIndex;
    ///
    /// let map = MlpIndex::from_sorted([(1, 'a'), (2, 'b')])?;
    /// assert_eq!(map.len(), 2);
    /// assert!(MlpIndex::from_sorted([(2, 'b'), (1, 'a')]).is_err());
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn from_sorted(entries: impl IntoIterator<Item = (u64, V)>) -> Result<Self, LoadError>
    where
        V: Send + Sync,
    {
        let entries = entries.into_iter();
        let map = Self::with_options(Options::new().capacity(entries.size_hint().0));
        let mut loader = Loader::new(&map);
        let mut last = None;
        for (index, (key, value)) in entries.enumerate() {
            if last.is_some_and(|last| last >= key) {
                return Err(LoadError::NotAscending { index });
            }
            last = Some(key);
            loader.add(key, value)?;
        }
        loader.finish()?;
        Ok(map)
    }

    /// Returns what the map takes in memory.
    pub fn memory_usage(&self) -> MemoryUsage {
        let guard = epoch::pin();
        let boxes = if const { word::is_inline::<V>() } { 0 } else { self.len() * size_of::<V>() };
        let kept: usize = self.structure.lock().iter().map(Spare::bytes).sum();
        MemoryUsage {
            leaf_bytes: 0,
            record_bytes: boxes,
            table_bytes: self.table_bytes(&guard) + kept,
            idle_bytes: self.free_slots(&guard) * (mem::LINE_BYTES / (SLOTS + 2)) + kept,
        }
    }

    /// The tables; `None` in a map that never had an entry.
    #[inline(always)]
    fn tables<'g>(&self, guard: &'g Guard) -> Option<Tables<'g>> {
        // That of the nodes is made first.
        Some(Tables { leaves: self.leaves.get(guard)?, nodes: self.nodes.get(guard)? })
    }

    fn root(&self, table: Table) -> &Root {
        match table {
            Table::Leaves => &self.leaves,
            Table::Nodes => &self.nodes,
        }
    }

    /// Takes what has been unlinked, and frees what nobody can be reading any more.
    fn retire(&self, pinned: &Pinned<'_, V>, garbage: impl IntoIterator<Item = Garbage<V>>) {
        // User code runs here, in `Drop` of values: no lock is held.
        self.exchange(pinned, garbage).run();
    }

    /// Takes what has been unlinked; returns what nobody can be reading any more. The caller drops its locks before it
    /// runs that.
    fn exchange(
        &self,
        pinned: &Pinned<'_, V>,
        garbage: impl IntoIterator<Item = Garbage<V>>,
    ) -> Recycle<V> {
        Recycle(self.shards.exchange(pinned.thread, &pinned.guard, garbage))
    }

    /// As `exchange`, of segments.
    fn exchange_segments(
        &self,
        pinned: &Pinned<'_, V>,
        garbage: impl IntoIterator<Item = Garbage<V>>,
    ) -> Recycle<V> {
        // All are in one shard: who replaces one takes back what any thread has, and not only when he comes by again.
        self.reuse(self.shards.exchange(0, &pinned.guard, garbage))
    }

    /// Takes back what segments have left, if nobody can be reading it.
    #[cold]
    fn tidy(&self, pinned: &Pinned<'_, V>) -> Recycle<V> {
        self.reuse(self.shards.tidy(0, &pinned.guard))
    }

    /// Keeps the memory of segments for others.
    fn reuse(&self, mut free: Vec<Garbage<V>>) -> Recycle<V> {
        // The next copies have the memory of the last, which saves the system clearing it.
        while let Some(at) = free.iter().position(|item| matches!(item, Garbage::Segment(_))) {
            if let Some(spare) = free.swap_remove(at).into_spare() {
                let mut spares = self.structure.lock();
                if spares.len() < SPARES {
                    spares.push(spare);
                }
            }
        }
        Recycle(free)
    }
}

/// Garbage that nobody reads any more: dropped one by one, all of it even if one panics.
struct Recycle<V>(Vec<Garbage<V>>);

impl<V> Recycle<V> {
    fn run(&mut self) {
        while let Some(item) = self.0.pop() {
            drop(item);
        }
    }
}

impl<V> Drop for Recycle<V> {
    fn drop(&mut self) {
        // After a panic of one value: the rest. A second panic aborts, as in std's collections.
        self.run();
    }
}

impl<V> Drop for MlpIndex<V> {
    fn drop(&mut self) {
        let unlinked = Recycle(self.shards.drain().collect());
        self.nodes.take();
        let mut segments = self.leaves.take();
        if const { word::is_inline::<V>() } {
            return;
        }
        let mut values = Vec::new();
        for segment in &mut segments {
            for bucket in segment.get_mut().buckets() {
                let words = Words::of(bucket);
                for slot in words.kinds.heads() {
                    if let Entry::Leaf { value, .. } = words.entry(slot, Self::HAS_VALUES) {
                        values.extend(raw::garbage_of::<V>(value));
                    }
                }
            }
        }
        let mut values = Recycle(values);
        values.run();
        drop(unlinked);
    }
}

/// Blocks of segments that are no more, which a map keeps for the next ones at most.
///
/// A segment that is split takes two and gives one back, so with one for each of a few threads hardly any is given to the system that
/// is wanted again.
const SPARES: usize = 4;

/// The handle through which an [`MlpIndex`] is used; see [`MlpIndex::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct Pinned<'m, V> {
    map: &'m MlpIndex<V>,
    guard: Guard,
    thread: usize,
}
crate::api::u64_map_methods! {
    MlpIndex,
    insert: "The line fetches of [`get`](Self::get) for an absent key. A full bucket moves another entry to its other bucket, \
             which is one more wait; one insertion in many copies a segment of the table to make room.",
    range: "The fetches of [`lower_bound`](Self::lower_bound) to begin; then a line, seldom two, for each group of keys that \
            share a prefix, those of the next 24 groups asked for ahead, and as far as the longest of the ranges before it went. Each \
            group is seen as it was at one instant.",
    bound: "The nodes above the key, mostly cached; then the lines of the keys that share its longest prefix, and of the next \
            ones, asked for at once: one wait, seldom two. Takes effect at one instant.",
}
