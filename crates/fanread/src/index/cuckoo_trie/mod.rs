//! An ordered map on byte strings: a forest of small tries, each in a cuckoo hash table of its own.
//!
//! The buckets of all nodes on a key's path are known before the first is read, and asked for together; then the
//! record of the key. A key of eight bytes, as numbers have, with a value of up to eight has no record.
//! [`Wormhole`](crate::Wormhole) has the same methods and reads several keys from a line in scans: take it unless you have
//! measured that this one suits your keys better.
//!
//! How it works, its invariants and its budget of line fetches are in `docs/design/cuckoo-trie.md`.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "inside, the one error is that there is no memory")]

mod ahead;
mod away;
mod borders;
mod bucket;
mod build;
mod chain;
mod check;
mod deal;
mod descend;
mod draft;
mod edit;
mod eights;
mod ends;
mod free;
mod header;
mod hints;
mod insert;
mod iter;
mod label;
mod layout;
mod leaf_level;
mod place;
mod quick;
mod raw;
mod remove;
mod resize;
mod search;
mod split;
mod state;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;
#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod twins_tests;
mod walk;

use core::marker::PhantomData;

use self::free::FreeLines;
use self::layout::Leaf;
use self::raw::{Memory, Trie};
use self::state::Secret;
use crate::api::{MemoryUsage, Options, OwnsAndTakes};
use crate::arch::Avx512;
use crate::batch::lengths::Lengths;
use crate::hash::prefix::Seed;
use crate::mem::word;
use crate::prefix::{self, LeafRef, PrefixTable};
use crate::shards::{Replacing, Shards};
use crate::sync::epoch::{self, Guard, Unlinked};
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

pub use self::iter::Range;
pub use crate::api::Broken;

/// Longest key of a map, in bytes.
pub const MAX_KEY_BYTES: usize = layout::MAX_KEY_BYTES;

/// An ordered map on byte strings, for any number of threads.
///
/// All operations go through [`pin`](Self::pin). Keys have up to [`MAX_KEY_BYTES`] bytes of any kind and are
/// ordered as byte strings.
///
/// Take another type when keys are never asked for in order: a hash map needs a wait or two less.
///
/// # Concurrency
///
/// Readers take no lock and store nothing. They wait for no growth, split, or new hash function, and for a writer only while that
/// stores into a bucket that they read.
/// Writers lock the trie they change, one of many in a large map. Point operations are linearizable. A sleeping reader
/// or iterator delays the reuse of memory and nothing else.
///
/// # Examples
///
/// ```
/// use fanread::CuckooTrie;
///
/// let map = CuckooTrie::new();
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
/// Zeitak and Morrison, "Cuckoo Trie: Exploiting Memory-Level Parallelism for Efficient DRAM Indexing", SOSP 2021.
pub struct CuckooTrie<V> {
    memory: Memory,
    /// The kernels this processor has beyond the baseline.
    avx512: Option<Avx512>,
    /// How long ranges were lately.
    lengths: Lengths<{ iter::COUNTED }, { iter::LONG }>,
    secret: Secret,
    table: PrefixTable,
    /// Whoever holds it changes links between tries, and the table.
    structure: Lock<prefix::Writer>,
    /// The leftmost live trie; 0 in a map that never had an entry.
    first: AtomicU32,
    /// Whether writes of keys with records replaced values lately.
    replacing: Replacing,
    shards: Shards<FreeLines, Garbage>,
    values: PhantomData<OwnsAndTakes<V>>,
}

/// What a writer has unlinked.
#[derive(Debug)]
enum Garbage {
    Trie(LeafRef),
    /// A record of an entry.
    Record(u64),
    /// A record of a border.
    Border(u64),
    /// A piece of the prefix table, freed by being dropped.
    Table(prefix::Garbage),
}

impl Unlinked for Garbage {
    fn is_large(&self) -> bool {
        matches!(self, Self::Trie(_) | Self::Table(_))
    }
}

impl<V> CuckooTrie<V> {
    /// Makes an empty map.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options are made for one map and handed over"
    )]
    pub fn with_options(options: Options) -> Self {
        let (table, writer) = PrefixTable::new(options.seed.map_or_else(Seed::random, Seed::fixed));
        if let Some(lengths) = options.probe_width {
            table.set_fan(lengths);
        }
        Self {
            memory: Memory::new(),
            avx512: Avx512::detect(),
            lengths: Lengths::new(),
            secret: Secret::new(table.seed()),
            table,
            structure: Lock::new(writer),
            first: AtomicU32::new(0),
            replacing: Replacing::new(),
            shards: Shards::new(),
            values: PhantomData,
        }
    }

    /// Returns what the map takes in memory.
    pub fn memory_usage(&self) -> MemoryUsage {
        let mut idle_bytes = 0;
        for shard in self.shards.lock_each() {
            idle_bytes += shard.heap.idle_bytes();
            idle_bytes += shard.free.idle_bytes();
        }
        MemoryUsage {
            leaf_bytes: self.memory.lines.resident_bytes(),
            record_bytes: self.memory.records.resident_bytes(),
            table_bytes: self.table.memory_bytes(&epoch::pin()),
            idle_bytes,
        }
    }

    /// The leftmost trie.
    #[inline]
    fn first_trie(&self) -> Option<Trie<'_>> {
        // ORDER: Acquire, pairs with the Release store in `set_first_trie`: the trie is formatted.
        LeafRef::new(self.first.load(Acquire)).map(|name| self.memory.trie(name))
    }

    fn set_first_trie(&self, name: LeafRef) {
        // ORDER: Release, pairs with `first_trie`.
        self.first.store(name.get(), Release);
    }

    /// Gives a map that has grown its shards.
    fn add_shards(&self) {
        if self.memory.is_large() {
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
}

/// Garbage on its way back into use.
struct Recycle<'m, V> {
    map: &'m CuckooTrie<V>,
    thread: usize,
    items: Vec<Garbage>,
}

impl<V> Recycle<'_, V> {
    fn run(&mut self) {
        let CuckooTrie { memory, shards, .. } = self.map;
        while let Some(item) = self.items.pop() {
            match item {
                Garbage::Trie(name) => memory.free(&mut shards.lock(self.thread).free, name),
                Garbage::Table(piece) => drop(piece),
                Garbage::Record(unit) => {
                    memory.drop_record::<V>(unit);
                    self.map.free_record::<V>(self.thread, unit);
                }
                Garbage::Border(unit) => self.map.free_record::<()>(self.thread, unit),
            }
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

impl<V> Drop for CuckooTrie<V> {
    fn drop(&mut self) {
        if const { word::is_inline::<V>() } {
            // Nothing to drop, and the arenas free all memory at once.
            return;
        }
        // What was unlinked still holds values.
        let limbo = self.shards.drain().collect();
        DropValues { map: self, limbo, trie: self.first_trie(), bucket: 0, units: Vec::new() }
            .run();
    }
}

/// Drops the values of a map that nobody uses any more, each once, even if one panics.
struct DropValues<'m, V> {
    map: &'m CuckooTrie<V>,
    limbo: Vec<Garbage>,
    trie: Option<Trie<'m>>,
    bucket: u32,
    /// Records of the bucket before.
    units: Vec<u64>,
}

impl<V> DropValues<'_, V> {
    fn run(&mut self) {
        let memory = &self.map.memory;
        loop {
            while let Some(unit) = self.units.pop() {
                memory.drop_record::<V>(unit);
            }
            if let Some(garbage) = self.limbo.pop() {
                if let Garbage::Record(unit) = garbage {
                    self.units.push(unit);
                }
                continue;
            }
            let Some(trie) = self.trie else { return };
            if self.bucket < trie.buckets() {
                let at = self.bucket;
                self.bucket += 1;
                let bucket = trie.bucket(at);
                self.units.extend(
                    bucket
                        .nodes()
                        .flat_map(|(slot, _)| bucket.node(slot).leaves().filter_map(Leaf::unit)),
                );
            } else {
                self.bucket = 0;
                self.trie = trie.next().map(|next| memory.trie(next));
            }
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

/// The handle through which a [`CuckooTrie`] is used; see [`CuckooTrie::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct Pinned<'m, V> {
    map: &'m CuckooTrie<V>,
    guard: Guard,
    thread: usize,
}

crate::api::ordered_map_methods! {
    CuckooTrie,
    insert: "The line fetches of [`get`](Self::get) and one locked trie of up to some 16,000 keys. One insertion in some \
             1,000 makes a trie larger, and one in some 8,000 splits it, in one to four milliseconds: keys of that trie \
             stay readable meanwhile, all others writable.",
    range: "A `get`'s fetches to find the first key; then two lines for each node, all children of a node at once, and one \
            to three for each record, ahead of its turn, and mostly no further than the ranges before it went.",
    bound: "The usual levels of the key's path, two lines each, all at once; then a line for each node between the path and the \
            entry, one wait each, and the entry's record, if it has one.",
}

#[cfg(all(test, not(loom)))]
mod trie_tests;
