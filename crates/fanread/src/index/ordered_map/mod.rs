//! An ordered map on byte strings that answers points by a hash directory and ranges by a list of leaves.
//!
//! Each entry is a record, which has key, value and *state*. A directory of hashes names it, for points: a line of tags, then
//! the record, two waits. A leaf names it too, for ranges: leaves are sorted lists of records' numbers, found by a prefix table.
//! **The record is the truth**: it says by itself whether it is an entry. So directory and leaves need not change at the same
//! moment; each has all entries, and now and then a record that is not one yet or no longer.
//!
//! | file | what |
//! | --- | --- |
//! | `layout.rs` | the bytes of a bucket, a record and a leaf |
//! | `bucket.rs`, `leaf.rs`, `raw.rs` | views over these |
//! | `search.rs` | points |
//! | `insert.rs`, `remove.rs` | writes |
//! | `resize.rs` | new leaves, splits and merges; growth of the directory |
//! | `iter.rs`, `guides.rs` | ranges, and where they begin |
//! | `check.rs` | the verifier |
//! | `bytes.rs` | the map whose values are byte strings in the records |
//! | `alone.rs`, `recent.rs` | what who has it for himself can do; records that were written lately, found without the directory |
//!
//! Invariants, the protocol and the budget of line fetches are in `docs/design/ordered-map.md`.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "inside, the error is that there is no memory")]

mod alone;
mod bucket;
pub mod bytes;
mod check;
mod guides;
mod insert;
mod iter;
mod layout;
mod leaf;
mod raw;
mod recent;
mod remove;
mod resize;
mod search;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;

use core::marker::PhantomData;

pub use crate::api::{Broken, Ref};
use crate::api::{MemoryUsage, Options};
use crate::batch::lengths::Lengths;
use crate::hash::prefix::Seed;
use crate::list::{Leaf as _, Leaves as _, List};
use crate::mem;
use crate::mem::heap::LINE_UNITS;
use crate::shards::{LeftBehind, Replacing, Shards};
use crate::sync::epoch::{self, Guard};

pub use iter::Range;
use layout::State;
pub use raw::Stored;
use raw::{Garbage, Leaf, Memory, left_of};
use recent::Recent;
use search::Table;

/// Longest key of a map, in bytes.
pub const MAX_KEY_BYTES: usize = layout::MAX_KEY_BYTES;

/// An ordered map on byte strings: two waits for a point, order for a range.
///
/// A [`get`](Pinned::get) waits for a line of a hash directory and for the key's record, a miss for the former alone; a scan
/// has the records of many entries in flight. Keys have up to [`MAX_KEY_BYTES`] bytes of any kind; there are at most 32 GB of
/// them and their values. Values of up to 8 bytes without anything to drop are kept beside the key, others in boxes of their own.
///
/// All operations go through [`pin`](Self::pin). `V` is any type whose size is known: each is `Stored`, which is a trait of the crate's
/// own.
///
/// # Concurrency
///
/// Readers take no lock, store nothing, and wait for nobody, not even while the directory grows. Writers lock a few buckets and
/// a leaf. Point operations are linearizable.
///
/// # Examples
///
/// ```
/// use fanread::OrderedMap;
///
/// let map = OrderedMap::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| map.pin().insert(b"ant", 1).is_none());
///     scope.spawn(|| map.pin().insert(b"bee", 2).is_none());
/// });
/// let pinned = map.pin();
/// let all: Vec<_> = pinned.iter().map(|(key, value)| (key.to_vec(), *value)).collect();
/// assert_eq!(all, [(b"ant".to_vec(), 1), (b"bee".to_vec(), 2)]);
/// ```
pub struct OrderedMap<V: ?Sized + Stored> {
    memory: Memory,
    table: Table,
    list: List,
    replacing: Replacing,
    shards: Shards<FreeLeaves, Garbage<V>>,
    /// What walks have left for writers to free.
    left: LeftBehind,
    recent: Recent,
    lengths: Lengths<{ iter::PIECE }, { iter::LONG }>,
    apart: V::Apart,
    values: PhantomData<V::Owns>,
}

/// Leaves that are free, and a count of all.
#[derive(Debug, Default)]
struct FreeLeaves {
    /// Where they are, by how many lines they have; no lists before the first is free.
    units: Vec<Vec<u64>>,
    /// Lines of these.
    idle_lines: usize,
    /// Lines of the leaves that were handed out here, less those that came back here: one part alone may be below zero.
    lines: i64,
}

impl FreeLeaves {
    /// A free leaf of so many lines, or up to so many more; returns how many, too.
    fn take(&mut self, lines: usize, more: usize) -> Option<(u64, usize)> {
        if self.idle_lines == 0 {
            return None;
        }
        let mut sizes = lines..self.units.len().min(lines.saturating_add(more).saturating_add(1));
        let found = sizes.find_map(|lines| self.units[lines].pop().map(|unit| (unit, lines)));
        found.inspect(|(_, lines)| self.idle_lines -= lines)
    }

    /// Whether there is a free leaf to be given away that has so many units.
    fn may_give(&self, units: u64) -> bool {
        let lines = units.div_ceil(LINE_UNITS) as usize;
        self.idle_lines >= lines && self.units.iter().skip(lines).any(|units| !units.is_empty())
    }

    /// Whether there is a free leaf of so many lines, or some more.
    fn has(&self, lines: usize) -> bool {
        let sizes = lines..self.units.len().min(lines + layout::SPARE_LINES + 1);
        self.idle_lines > 0 && sizes.into_iter().any(|lines| !self.units[lines].is_empty())
    }

    /// A free leaf of so many lines, or some more, that is a leaf again.
    fn pop(&mut self, lines: usize) -> Option<(u64, usize)> {
        self.take(lines, layout::SPARE_LINES).inspect(|(_, lines)| self.count(*lines))
    }

    fn push(&mut self, lines: usize, unit: u64) {
        if self.units.len() <= lines {
            self.units.resize_with(lines + 1, Vec::new);
        }
        self.units[lines].push(unit);
        self.idle_lines += lines;
        self.lines -= lines.cast_signed() as i64;
    }

    /// Counts a leaf that was handed out.
    fn count(&mut self, lines: usize) {
        self.lines += lines.cast_signed() as i64;
    }

    /// Gives a free leaf away that has so many units; the smallest, which the others may have outgrown.
    fn give(&mut self, units: u64) -> Option<(u64, u64)> {
        let found = self.take(units.div_ceil(LINE_UNITS) as usize, usize::MAX);
        found.map(|(unit, lines)| (unit, lines as u64 * LINE_UNITS))
    }

    fn idle_bytes(&self) -> usize {
        self.idle_lines * mem::LINE_BYTES
    }
}

/// Bytes of records and leaves from which a map is worth its own shards for threads.
const SHARDS_FROM_BYTES: usize = 1 << 20;

impl<V: ?Sized + Stored> OrderedMap<V> {
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
            table: Table::new(options.capacity),
            list,
            replacing: Replacing::new(),
            shards: Shards::new(),
            left: LeftBehind::default(),
            recent: Recent::default(),
            lengths: Lengths::new(),
            apart: V::Apart::default(),
            values: PhantomData,
        }
    }

    /// Returns what the map takes in memory.
    pub fn memory_usage(&self) -> MemoryUsage {
        let guard = epoch::pin();
        let (mut idle_bytes, mut leaf_lines) = (0, 0);
        for shard in self.shards.lock_each() {
            idle_bytes += shard.heap.idle_bytes() + shard.free.idle_bytes();
            leaf_lines += shard.free.lines;
        }
        // Below zero if others took and freed meanwhile.
        let leaf_bytes = usize::try_from(leaf_lines).unwrap_or(0) * mem::LINE_BYTES;
        let apart = V::apart(&self.apart, self.shards.entries()).unwrap_or(0);
        let (directory, _) = self.table.bytes(&guard);
        idle_bytes += self.table.idle_bytes(&guard);
        MemoryUsage {
            leaf_bytes,
            record_bytes: self.memory.units.resident_bytes().saturating_sub(leaf_bytes) + apart,
            table_bytes: self.list.table.memory_bytes(&guard) + directory + self.recent.bytes(),
            idle_bytes,
        }
    }

    /// Gives a map that has grown its shards, and slots for what is written.
    fn add_shards(&self) {
        if self.memory.units.used_bytes() >= SHARDS_FROM_BYTES {
            self.shards.grow();
        }
        if V::MOVES {
            self.recent.grow(|| self.shards.entries());
        }
    }

    /// Takes what has been unlinked, and takes back into use what nobody can be reading any more.
    fn retire(&self, pinned: &Pinned<'_, V>, garbage: impl IntoIterator<Item = Garbage<V>>) {
        // User code runs here, in `Drop` of values: no lock is held.
        let items = self.shards.exchange(pinned.thread, &pinned.guard, garbage);
        Recycle { map: self, thread: pinned.thread, items }.run();
    }

    /// Takes back into use what walks have left.
    #[cold]
    fn free_left(&self, pinned: &Pinned<'_, V>) {
        let items = self.shards.take_left(&self.left, &pinned.guard);
        Recycle { map: self, thread: pinned.thread, items }.run();
    }
}

/// Garbage on its way back into use.
struct Recycle<'m, V: ?Sized + Stored> {
    map: &'m OrderedMap<V>,
    thread: usize,
    items: Vec<Garbage<V>>,
}

impl<V: ?Sized + Stored> Recycle<'_, V> {
    fn run(&mut self) {
        let OrderedMap { memory, shards, table, .. } = self.map;
        while let Some(item) = self.items.pop() {
            let (unit, units) = match item {
                Garbage::Leaf(lines, unit) => {
                    shards.lock(self.thread).free.push(lines, unit);
                    continue;
                }
                Garbage::Directory(piece) => {
                    table.free(piece);
                    continue;
                }
                Garbage::Prefixes(_) | Garbage::Value(_) => continue,
                Garbage::Record(number) => memory.piece::<V>(number),
                Garbage::Border(unit) => {
                    (unit, mem::record::Record::<()>::units(memory.border(unit).len()))
                }
            };
            shards.lock(self.thread).heap.free(&memory.units, unit, units);
        }
    }
}

impl<V: ?Sized + Stored> Drop for Recycle<'_, V> {
    fn drop(&mut self) {
        // After a panic of one value: the rest. A second panic aborts, as in std's collections.
        self.run();
    }
}

impl<V: ?Sized + Stored> Drop for OrderedMap<V> {
    fn drop(&mut self) {
        let guard = epoch::pin();
        // What was unlinked still holds values; the arenas free all other memory at once.
        let items = self.shards.drain();
        let directory = self.table.take(&guard, |_| ());
        // As they come: a map may be dropped because there is no memory.
        let items = items.chain(directory.into_iter().map(Garbage::Directory));
        let mut left = Left { map: self, items, leaf: None, at: 0 };
        if V::apart(&self.apart, 0).is_some() {
            left.leaf = self.list.first(&self.memory);
        }
        left.run();
    }
}

/// What a map that nobody uses any more still has, each thing dropped once, even if one panics.
struct Left<'m, V: ?Sized + Stored, I: Iterator<Item = Garbage<V>>> {
    map: &'m OrderedMap<V>,
    items: I,
    leaf: Option<Leaf<'m>>,
    at: usize,
}

impl<V: ?Sized + Stored, I: Iterator<Item = Garbage<V>>> Left<'_, V, I> {
    fn run(&mut self) {
        for item in self.items.by_ref() {
            if let Garbage::Directory(piece) = item {
                self.map.table.free(piece);
            }
        }
        while let Some(leaf) = self.leaf {
            while self.at < leaf.sorted() + leaf.fresh() {
                let at = self.at;
                self.at += 1;
                let number = match at.checked_sub(leaf.sorted()) {
                    Some(fresh) => leaf.fresh_at(fresh),
                    None => leaf.sorted_at(at),
                };
                let record = self.map.record(number);
                if record.state() == State::Live {
                    drop(left_of(&self.map.apart, record, record.word()));
                }
            }
            self.at = 0;
            self.leaf = leaf.header().next().map(|next| self.map.memory.leaf(next));
        }
    }
}

impl<V: ?Sized + Stored, I: Iterator<Item = Garbage<V>>> Drop for Left<'_, V, I> {
    fn drop(&mut self) {
        // After a panic of one value: the rest. A second panic aborts, as in std's collections.
        if std::thread::panicking() {
            self.run();
        }
    }
}

/// The handle through which an [`OrderedMap`] is used; see [`OrderedMap::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct Pinned<'m, V: ?Sized + Stored> {
    map: &'m OrderedMap<V>,
    guard: Guard,
    thread: usize,
}

crate::api::ordered_map_methods! {
    OrderedMap,
    insert: "The line of the key's bucket; of the key's leaf, which waits for a node of the prefix table that is mostly cached, \
             four lines, at the same time: one to two waits. One insertion in some dozens copies a leaf, and reads its \
             records.",
    range: "The fetches of [`lower_bound`](Self::lower_bound) to begin; then a record for each entry, those of the next 32 asked for \
            ahead, and a line for 16 entries.",
    bound: "Four waits: a node of the prefix table, mostly cached; three lines of a leaf; two to four lines of its numbers and codes, and \
            those of keys that were added lately; the entry's record, and with it those of such keys that may come before it. Where \
            many keys of a leaf share the eight bytes behind what all share, one or two waits more, for up to eight records each. \
            One bound of 25 or so in a leaf to which some forty keys were added brings them into order.",
}
