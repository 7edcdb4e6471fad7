//! Leaves that are made anew, split and merged; segments of the directory that grow and shrink.
//!
//! A leaf is replaced by one or two whose entries are sorted. The old one is locked meanwhile, so nothing is added to it; readers
//! stay in it, and what they find there is as true as ever, since each record says by itself whether it is an entry. Numbers of
//! records that are *unnamed* are left out, and so their memory comes back.

use core::ops::Range;

use super::bucket::Bucket;
use super::layout::{MERGE_AT, MOST_SORTED, SLOTS, Shape};
use super::raw::{Garbage, Leaf, Memory, Number, Stored};
use super::search::Segment;
use super::{OrderedMap, Pinned, State};
use crate::arch::common_prefix;
use crate::directory::Entries;
use crate::hash::mix::stream;
use crate::list::{Leaf as _, Leaves as _, Limits, slice_at};
use crate::mem::record;
use crate::mem::{AllocError, make_room};
use crate::sync::backoff::Backoff;
use crate::sync::epoch::Guard;
use crate::sync::version::Locked;

/// Which part of a leaf's entries, either way from the middle, a cut may be off it for a shorter border. Short borders
/// make few nodes of the prefix table, and few keys that could be before or behind a border.
const CUT_REACH: usize = 5;

/// Records whose lines are asked for ahead, all at once: a record is on a page of its own, most often, and a processor that meets one of
/// these requests at a time, among the instructions for another record, has few page walks on their way.
const AHEAD: usize = 16;

/// An entry of a leaf on its way into another.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Eight bytes of the key behind the leaf's prefix.
    slice: u64,
    pub(super) number: Number,
}

/// A list with room for so many entries: a leaf's are some kilobytes.
fn room(count: usize) -> Result<Vec<Entry>, AllocError> {
    let mut entries = Vec::new();
    make_room(&mut entries, count).map(|()| entries)
}

impl<V: ?Sized + Stored> OrderedMap<V> {
    /// Orders two entries of one leaf, whose keys have so many bytes in common.
    #[inline]
    fn compare(&self, a: &Entry, b: &Entry, common: usize) -> core::cmp::Ordering {
        let key = |entry: &Entry| &self.record(entry.number).key()[common..];
        a.slice.cmp(&b.slice).then_with(|| key(a).cmp(key(b)))
    }

    /// Sorts entries of one leaf; returns how many bytes their keys are known to have in common.
    ///
    /// A leaf without borders on both sides knows of none. Where all keys begin alike, they would be compared from their start, which of
    /// keys of 64 KB takes milliseconds.
    fn sort(&self, entries: &mut [Entry]) -> usize {
        let common = match entries {
            [first, rest @ ..] if rest.iter().all(|entry| entry.slice == first.slice) => {
                let key = |entry: &Entry| self.record(entry.number).key();
                let with_first = rest.iter().map(|entry| common_prefix(key(first), key(entry)));
                with_first.min().unwrap_or(0)
            }
            _ => 0,
        };
        entries.sort_unstable_by(|a, b| self.compare(a, b, common));
        common
    }

    /// Puts the entries of these numbers into a list that has room for them, with their lines asked for ahead; those that `keep` refuses
    /// are left out.
    fn entries(
        &self,
        mut entries: Vec<Entry>,
        prefix_bytes: usize,
        count: usize,
        number: impl Fn(usize) -> Number,
        mut keep: impl FnMut(Number, State) -> bool,
    ) -> Vec<Entry> {
        let ask = |at: usize| self.record(number(at)).ask_key(prefix_bytes + 8);
        (0..count.min(AHEAD)).for_each(ask);
        for at in 0..count {
            if at % AHEAD == 0 {
                (at + AHEAD..count.min(at + 2 * AHEAD)).for_each(ask);
            }
            let number = number(at);
            let record = self.record(number);
            if keep(number, record.state()) {
                entries.push(Entry { slice: slice_at(record.key(), prefix_bytes), number });
            }
        }
        entries
    }

    /// Asks for the keys of the first `count` fresh entries of a leaf, as far as the slice that they are sorted by.
    #[inline]
    pub(super) fn ask_fresh(&self, leaf: Leaf<'_>, count: usize) {
        let key_bytes = leaf.header().prefix_bytes() + 8;
        leaf.fresh_numbers(count).for_each(|number| self.record(number).ask_key(key_bytes));
    }

    /// The fresh entries of a leaf, the first `count` of them, sorted.
    pub(super) fn fresh_entries(&self, leaf: Leaf<'_>, count: usize) -> Vec<Entry> {
        let at = leaf.header().prefix_bytes();
        let numbers: Vec<Number> = leaf.fresh_numbers(count).collect();
        let mut fresh =
            self.entries(Vec::with_capacity(count), at, count, |at| numbers[at], |_, _| true);
        self.sort(&mut fresh);
        fresh
    }

    /// All entries of a locked leaf, sorted, but for those that are unnamed, which are garbage once the leaf is.
    ///
    /// A key has one record at most that is not: its window is locked while one comes or goes, and the leaf while one takes the
    /// place of another.
    ///
    /// # Errors
    ///
    /// If there is no memory for them.
    fn all_entries(
        &self,
        leaf: Leaf<'_>,
        unnamed: &mut Vec<Number>,
    ) -> Result<Vec<Entry>, AllocError> {
        let mut keep = |number, state: State| {
            if state.is_over() {
                unnamed.push(number);
            }
            !state.is_over()
        };
        let at = leaf.header().prefix_bytes();
        let numbers: Vec<Number> = leaf.fresh_numbers(leaf.fresh()).collect();
        let mut fresh =
            self.entries(room(numbers.len())?, at, numbers.len(), |at| numbers[at], &mut keep);
        let sorted =
            self.entries(room(leaf.sorted())?, at, leaf.sorted(), |at| leaf.sorted_at(at), keep);
        let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
            self.sort(&mut fresh);
            return Ok(fresh);
        };
        let common = match (self.sort(&mut fresh), fresh.first()) {
            (_, None) => return Ok(sorted),
            (0, _) => 0,
            (common, Some(fresh)) => {
                let key = |entry: &Entry| self.record(entry.number).key();
                let ends = [first, last].map(|end| common_prefix(key(end), key(fresh)));
                common.min(ends[0]).min(ends[1])
            }
        };
        let mut all = room(sorted.len() + fresh.len())?;
        let mut sorted = sorted.iter();
        for entry in fresh {
            while let Some(next) = sorted.as_slice().first()
                && self.compare(next, &entry, common).is_lt()
            {
                all.push(*next);
                sorted.next();
            }
            all.push(entry);
        }
        all.extend_from_slice(sorted.as_slice());
        Ok(all)
    }

    /// Makes a leaf of sorted entries, which come from a leaf with such a prefix; nobody else can see it.
    fn new_leaf(
        &self,
        thread: usize,
        limits: Limits<'_>,
        (prefix_bytes, sorted): (usize, &[Entry]),
    ) -> Result<Leaf<'_>, AllocError> {
        let number = |at: usize| sorted[at].number;
        if limits.prefix_bytes() == prefix_bytes {
            return self.new_leaf_of(thread, limits, (sorted.len(), number), |at| sorted[at].slice);
        }
        self.new_leaf_of_numbers(thread, limits, sorted.len(), number)
    }

    /// Makes a leaf of so many sorted numbers; as [`new_leaf`](Self::new_leaf).
    pub(super) fn new_leaf_of_numbers(
        &self,
        thread: usize,
        limits: Limits<'_>,
        sorted: usize,
        number: impl Fn(usize) -> Number + Copy,
    ) -> Result<Leaf<'_>, AllocError> {
        let prefix_bytes = limits.prefix_bytes();
        let slice = |at| slice_at(self.record(number(at)).key(), prefix_bytes);
        self.new_leaf_of(thread, limits, (sorted, number), slice)
    }

    fn new_leaf_of(
        &self,
        thread: usize,
        limits: Limits<'_>,
        (sorted, number): (usize, impl Fn(usize) -> Number),
        slice: impl Fn(usize) -> u64,
    ) -> Result<Leaf<'_>, AllocError> {
        let mut shape = Shape::of(sorted);
        let mut shard = self.shards.lock(thread);
        let mut lines = shape.lines();
        self.shards.trade_free(&mut shard, |free| free.has(lines));
        let unit = if let Some((unit, found)) = shard.free.pop(lines) {
            lines = found;
            unit
        } else {
            let unit = shard.heap.allocate_lines(&self.memory.units, lines as u64)?;
            shard.free.count(lines);
            unit
        };
        drop(shard);
        shape = shape.in_lines(lines);
        let bytes = lines * crate::mem::LINE_BYTES;
        let name = Memory::name(unit).ok_or(AllocError { bytes })?;
        Ok(self.memory.format(name, shape, limits, number, slice))
    }

    /// Gives back a leaf that nobody else has seen.
    pub(super) fn discard_leaf(&self, thread: usize, leaf: Leaf<'_>) {
        let lines = leaf.header().shape.lines();
        self.shards.lock(thread).free.push(lines, Memory::unit(leaf.name()));
    }

    /// A record for a border.
    pub(super) fn new_border(&self, thread: usize, border: &[u8]) -> Result<u64, AllocError> {
        let units = record::Record::<()>::units(border.len());
        let unit = self.shards.allocate(thread, &self.memory.units, units)?;
        self.memory.write_border(unit, border);
        Ok(unit)
    }

    fn discard_border(&self, thread: usize, unit: u64) {
        let units = record::Record::<()>::units(self.memory.border(unit).len());
        self.shards.lock(thread).heap.free(&self.memory.units, unit, units);
    }

    /// Makes a leaf anew: its entries sorted, in two leaves if they are too many for one.
    ///
    /// # Errors
    ///
    /// If there is no memory; the leaf is as it was.
    pub(super) fn renew(
        &self,
        pinned: &Pinned<'_, V>,
        leaf: Leaf<'_>,
        locked: Locked<'_>,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        let mut unnamed = Vec::new();
        let all = self.all_entries(leaf, &mut unnamed)?;
        let limits = self.memory.limits(leaf);
        if all.len() <= MOST_SORTED {
            let before = leaf.header().prefix_bytes();
            let new = self.new_leaf(pinned.thread, limits, (before, &all))?;
            self.list.renew(&self.memory, (leaf, locked), new);
        } else {
            self.split(pinned, (leaf, locked), &all, garbage)?;
        }
        retire_leaf(leaf, unnamed, garbage);
        Ok(())
    }

    /// Makes two leaves of one.
    fn split(
        &self,
        pinned: &Pinned<'_, V>,
        (leaf, locked): (Leaf<'_>, Locked<'_>),
        all: &[Entry],
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        let thread = pinned.thread;
        let limits = self.memory.limits(leaf);
        let key = |at: usize| self.record(all[at].number).key();
        let cut = self.cut(leaf, all);
        let common = common_prefix(key(cut - 1), key(cut));
        let anchor = &key(cut)[..=common];
        let border = self.new_border(thread, anchor)?;
        let halves = || {
            let left = Limits { high: Some((border, anchor)), ..limits };
            let right = Limits { low: (border, anchor), ..limits };
            let before = leaf.header().prefix_bytes();
            let left = self.new_leaf(thread, left, (before, &all[..cut]))?;
            let right = self.new_leaf(thread, right, (before, &all[cut..]));
            right.map(|right| (left, right)).inspect_err(|_| self.discard_leaf(thread, left))
        };
        let piece = halves().and_then(|(left, right)| {
            self.list.split(&self.memory, (leaf, locked), (left, right)).inspect_err(|_| {
                self.discard_leaf(thread, left);
                self.discard_leaf(thread, right);
            })
        });
        let piece = piece.inspect_err(|_| self.discard_border(thread, border))?;
        garbage.extend(piece.map(Garbage::Prefixes));
        Ok(())
    }

    /// Where to cut the entries of a leaf: about the middle, where the separating border is shortest; near the end if the map
    /// grows there.
    fn cut(&self, leaf: Leaf<'_>, all: &[Entry]) -> usize {
        let count = all.len();
        let last_sorted = leaf.sorted().checked_sub(1).map(|at| leaf.sorted_at(at));
        let ascends = !leaf.header().bounded
            && last_sorted.is_some_and(|last| {
                all.get(count - 1 - leaf.fresh()).is_some_and(|entry| entry.number == last)
            });
        if ascends {
            return MOST_SORTED.min(count - 1);
        }
        let reach = count / CUT_REACH;
        // Leaves of random keys that are all parted in the middle would all be full at the same time.
        let near = count * 3 / 8 + stream(all[count / 2].slice, 0) as usize % (count / 4).max(1);
        // Not read again for each pair.
        let key = |at: usize| self.record(all[at].number).key();
        let of_all = common_prefix(key(0), key(count - 1));
        let common = |at: usize| {
            let differ = all[at - 1].slice ^ all[at].slice;
            if differ != 0 {
                (differ.leading_zeros() / 8) as usize
            } else {
                of_all + common_prefix(&key(at - 1)[of_all..], &key(at)[of_all..])
            }
        };
        (count / 2 - reach..=count / 2 + reach)
            .min_by_key(|at| (common(*at), at.abs_diff(near)))
            .unwrap_or(count / 2)
    }

    /// Makes a leaf anew of which many records were removed, or merges it with a neighbour.
    pub(super) fn clean(
        &self,
        pinned: &Pinned<'_, V>,
        leaf: Leaf<'_>,
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let locked = leaf.header().version.lock();
        if locked.is_dead() {
            return;
        }
        let left = live(leaf);
        let fits = |other: Leaf<'_>| match left {
            0 => live(other) <= MOST_SORTED * 3 / 4,
            _ => live(other) + left <= MERGE_AT,
        };
        // Locks are taken from left to right, so the next one may be waited for, and the one before may not.
        if let Some(next) = leaf.header().next().map(|next| self.memory.leaf(next))
            && fits(next)
        {
            let other = next.header().version.lock();
            if leaf.header().next() == Some(next.name()) && !other.is_dead() {
                self.merge(pinned, (leaf, locked), (next, other), garbage);
                return;
            }
        } else if let Some(prev) = leaf.header().prev().map(|prev| self.memory.leaf(prev))
            && fits(prev)
            && let Some(other) = prev.header().version.try_lock()
            && prev.header().next() == Some(leaf.name())
            && !other.is_dead()
        {
            self.merge(pinned, (prev, other), (leaf, locked), garbage);
            return;
        }
        // Without memory the leaf stays as it is.
        let _ = self.renew(pinned, leaf, locked, garbage);
    }

    /// Makes one leaf of two neighbours.
    fn merge(
        &self,
        pinned: &Pinned<'_, V>,
        left: (Leaf<'_>, Locked<'_>),
        right: (Leaf<'_>, Locked<'_>),
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let mut unnamed = [Vec::new(), Vec::new()];
        let both =
            [(left.0, 0), (right.0, 1)].map(|(leaf, of)| self.all_entries(leaf, &mut unnamed[of]));
        let [Ok(mut all), Ok(more)] = both else { return };
        if make_room(&mut all, more.len()).is_err() {
            return;
        }
        all.extend(more);
        let gone = right.0.border().low;
        let limits =
            Limits { high: self.memory.limits(right.0).high, ..self.memory.limits(left.0) };
        if all.len() > MOST_SORTED {
            return;
        }
        let number = |at: usize| all[at].number;
        let merged = self.new_leaf_of_numbers(pinned.thread, limits, all.len(), number);
        let Ok(merged) = merged else { return };
        let leaves = [left.0, right.0];
        let piece = self.list.merge(&self.memory, left, right, merged);
        garbage.extend(piece.map(Garbage::Prefixes));
        for (leaf, unnamed) in leaves.into_iter().zip(unnamed) {
            retire_leaf(leaf, unnamed, garbage);
        }
        garbage.push(Garbage::Border(gone));
    }

    /// Makes room for a hash whose segment is full, unless somebody is at it.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    #[cold]
    pub(super) fn rebuild<'g>(
        &self,
        guard: &'g Guard,
        full: (&'g Segment, &mut Backoff),
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        self.add_shards();
        let retire = |retired| garbage.push(Garbage::Directory(retired));
        self.table.make_room(guard, full, self, retire)
    }

    /// Waits for who copies a segment, or copies another one.
    #[cold]
    pub(super) fn wait_for<'g>(
        &self,
        guard: &'g Guard,
        frozen: (&'g Segment, &mut Backoff),
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let retire = |retired| garbage.push(Garbage::Directory(retired));
        self.table.wait_for(guard, frozen, self, retire);
    }

    /// Makes a segment smaller that has few entries left, if there is memory for that.
    pub(super) fn shrink<'g>(
        &self,
        guard: &'g Guard,
        large: &'g Segment,
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let retire = |retired| garbage.push(Garbage::Directory(retired));
        self.table.make_smaller(guard, large, self, retire);
    }

    /// The numbers in a bucket, if nobody is writing.
    pub(super) fn numbers_in(bucket: &Bucket) -> impl Iterator<Item = Number> {
        let mut taken = bucket.taken();
        core::iter::from_fn(move || {
            let slot = taken.trailing_zeros() as usize;
            taken &= taken.wrapping_sub(1);
            (slot < SLOTS).then(|| bucket.number(slot))
        })
    }
}

impl<V: ?Sized + Stored> Entries<Bucket> for OrderedMap<V> {
    /// A slot does not tell the whole hash of its key: the records are read again, of long keys a line.
    #[inline]
    fn each(
        &self,
        of: &Segment,
        buckets: Range<usize>,
        mut each: impl FnMut(u64, Number) -> bool,
    ) -> bool {
        // Of longer keys these are most of the first line.
        let ask = |number| self.record(number).ask_key(16);
        let mut ahead = buckets.clone().flat_map(|at| Self::numbers_in(of.bucket(at)));
        ahead.by_ref().take(AHEAD).for_each(ask);
        let mut entries = 0_usize;
        for at in buckets {
            for number in Self::numbers_in(of.bucket(at)) {
                if entries.is_multiple_of(AHEAD) {
                    ahead.by_ref().take(AHEAD).for_each(ask);
                }
                entries += 1;
                if !each(self.hash_of(self.record(number)), number) {
                    return false;
                }
            }
        }
        true
    }
}

/// How many entries a leaf has, about.
fn live(leaf: Leaf<'_>) -> usize {
    (leaf.sorted() + leaf.fresh()).saturating_sub(leaf.removed())
}

/// Hands over a replaced leaf, and the records that only it named.
fn retire_leaf<V: ?Sized + Stored>(
    leaf: Leaf<'_>,
    unnamed: Vec<Number>,
    garbage: &mut Vec<Garbage<V>>,
) {
    garbage.push(Garbage::Leaf(leaf.header().shape.lines(), Memory::unit(leaf.name())));
    garbage.extend(unnamed.into_iter().map(Garbage::Record));
}
