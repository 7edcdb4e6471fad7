//! Views over the bytes of buckets, records and leaves: the only unsafe code of this map.
//!
//! # Invariants
//!
//! * **M1** The number of a record is found in a bucket or a leaf only after the record was written, and the record is not freed
//!   while the finder is pinned. Length and key never change.
//! * **M2** A leaf is formatted before its name is found, and not freed while the finder is pinned (`list` L8). It has as
//!   many numbers as its shape says.
//! * **M3** A value word of a map whose values are not inline is the address of a box; the word is taken out of the map
//!   once, and the box freed when nobody can be reading it.

#![allow(clippy::cast_ptr_alignment, reason = "leaves start at a line, records at 8 bytes")]
#![expect(unsafe_code, reason = "views over the arenas' bytes; every block cites an invariant")]

use core::marker::PhantomData;

use super::layout::{
    FILLED, FIXED_LINES, FREE, GONE, LINE_NUMBERS, Leaves, MOST_BLOCKS, SLOTS, Shape, State,
    passer, tag_of,
};
use crate::arch::{self, prefetch};
use crate::directory::{self, Spelling};
use crate::list::{self, Border, Header, Limits};
use crate::mem::LINE_BYTES;
use crate::mem::boxed::Boxed;
use crate::mem::heap::Records;
use crate::mem::record;
use crate::mem::word::{self, Read, Word};
use crate::prefix::{self, LeafRef};
use crate::sync::epoch::Unlinked;
use crate::sync::shim::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The number of a record.
pub(super) type Number = u32;

/// A bucket of the directory; see `layout.rs` for what is in it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    /// Eight tags, then four and passers.
    tags: [AtomicU64; 2],
    numbers: [AtomicU32; SLOTS],
}

impl Bucket {
    /// The slots with this tag.
    #[inline(always)]
    pub(super) fn tagged(&self, tag: u8) -> u32 {
        // ORDER: Acquire, pairs with the Release store in `set_tag`: the numbers are there.
        let tags = self.tags.each_ref().map(|tags| tags.load(Acquire));
        arch::match_sixteen(tags, tag) & ((1 << SLOTS) - 1)
    }

    /// The number in a slot that had a tag.
    #[inline(always)]
    pub(super) fn number(&self, slot: usize) -> Number {
        // ORDER: Acquire, pairs with the Release store in `fill`: the record is there.
        self.numbers[slot].load(Acquire)
    }

    /// The slots that are taken.
    #[inline(always)]
    pub(super) fn taken(&self) -> u32 {
        !(self.tagged(FREE) | self.tagged(GONE)) & ((1 << SLOTS) - 1)
    }

    /// Who calls this holds the bucket's lock, or has not published the bucket.
    #[inline(always)]
    fn set_tag(&self, slot: usize, tag: u8) {
        let (tags, at) = (&self.tags[slot / 8], 8 * (slot % 8));
        let now = tags.load(Relaxed) & !(0xff << at);
        // ORDER: Release, pairs with `tagged`.
        tags.store(now | u64::from(tag) << at, Release);
    }
}

// SAFETY: a line of atomics, whose slots are free if their tags are 0.
unsafe impl directory::Bucket for Bucket {
    type Entry = Number;
    const SLOTS: usize = SLOTS;
    const LEAST_BUCKETS: usize = 1;
    const FILLED: [usize; 2] = FILLED;
    const SPARE_BITS: u32 = 0;
    const MOST_BLOCKS: usize = MOST_BLOCKS;

    #[inline(always)]
    fn free(&self) -> u32 {
        self.tagged(FREE)
    }

    #[inline(always)]
    fn gone(&self, _: u64) -> u32 {
        self.tagged(GONE)
    }

    #[inline(always)]
    fn fill(&self, slot: usize, hash: u64, _: Spelling, number: Number) {
        // ORDER: Release, pairs with `number`.
        self.numbers[slot].store(number, Release);
        self.set_tag(slot, tag_of(hash));
    }

    fn empty(&self, slot: usize, gone: bool, _: Spelling) {
        self.set_tag(slot, if gone { GONE } else { FREE });
    }

    fn pass(&self, hash: u64, _: Spelling) {
        let now = self.tags[1].load(Relaxed);
        // ORDER: Release, pairs with `is_passed` and `tagged`.
        self.tags[1].store(now | passer(hash), Release);
    }

    #[inline(always)]
    fn is_passed(&self, hash: u64, _: u64) -> bool {
        // ORDER: Acquire, pairs with the Release store in `pass`.
        self.tags[1].load(Acquire) & passer(hash) != 0
    }

    fn note(&self) -> u64 {
        self.tags[0].load(Relaxed)
    }

    fn set_note(&self, note: u64) {
        self.tags[0].store(note, Relaxed);
    }

    fn clear(&self) {
        // Relaxed: a block between two owners is nobody's.
        self.tags.iter().for_each(|tags| tags.store(0, Relaxed));
    }
}

/// Where leaves and records live.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) leaves: Leaves,
    pub(super) records: Records,
}

impl Memory {
    pub(super) const fn new() -> Self {
        Self { leaves: Leaves::new(), records: Records::new() }
    }

    /// Makes the name of a leaf.
    pub(super) fn name(unit: u64) -> Option<LeafRef> {
        LeafRef::new(u32::try_from(unit).ok()?)
    }

    /// The unit of a leaf.
    #[inline(always)]
    pub(super) fn unit(name: LeafRef) -> u64 {
        u64::from(name.get())
    }

    /// The record behind a number that was found in a bucket or a leaf.
    #[inline(always)]
    pub(super) fn record<V>(&self, number: Number) -> Record<'_, V> {
        Record { at: self.records.at(u64::from(number)), lives: PhantomData }
    }

    /// Fills a fresh record, which is coming.
    ///
    /// The caller has it from the heap, with room for `Record::<V>::units(key.len())`, and has not shared it.
    #[inline(always)]
    pub(super) fn write_record<V>(&self, number: Number, key: &[u8], value: Word) {
        debug_assert!(u16::try_from(key.len()).is_ok());
        let at = self.records.at(u64::from(number));
        // SAFETY: the units are the caller's alone (heap H1), aligned to 8 bytes, and have room for all three parts.
        unsafe {
            if Record::<V>::VALUE_BYTES != 0 {
                at.cast::<Word>().write(value);
            }
            at.add(Record::<V>::VALUE_BYTES).cast::<u32>().write(key.len() as u32);
            let place = at.add(Record::<V>::VALUE_BYTES + HEAD_BYTES);
            core::ptr::copy_nonoverlapping(key.as_ptr(), place, key.len());
        }
    }

    /// Fills a fresh record of a border; as `write_record`.
    pub(super) fn write_border(&self, unit: u64, border: &[u8]) {
        // SAFETY: as in `write_record`.
        unsafe { record::Record::write(self.records.at(unit), border, ()) };
    }

    /// Fills fresh or reused lines with a leaf of sorted numbers, without neighbours.
    pub(super) fn format(
        &self,
        name: LeafRef,
        shape: Shape,
        limits: Limits<'_>,
        sorted: impl Iterator<Item = Number>,
    ) -> Leaf<'_> {
        let leaf = list::Leaves::leaf(self, name);
        let (header, border) = Header::new(limits, shape);
        // SAFETY: the leaf's lines are the caller's alone until it is published: fresh, or freed by the epochs.
        unsafe {
            leaf.at.cast::<Header<Shape>>().write(header);
            leaf.at.add(LINE_BYTES).cast::<Border>().write(border);
            let rest = shape.lines() - FIXED_LINES;
            leaf.at.add(FIXED_LINES * LINE_BYTES).write_bytes(0, rest * LINE_BYTES);
        }
        for (place, number) in leaf.numbers()[usize::from(shape.fresh)..].iter().zip(sorted) {
            // Relaxed: published with the leaf.
            place.store(number, Relaxed);
        }
        leaf
    }
}

impl list::Leaves for Memory {
    type Leaf<'g> = Leaf<'g>;

    #[inline(always)]
    fn leaf(&self, name: LeafRef) -> Leaf<'_> {
        Leaf { at: self.leaves.at(Self::unit(name)), name, lives: PhantomData }
    }

    #[inline]
    fn border(&self, unit: u64) -> &[u8] {
        if unit == 0 {
            return &[];
        }
        // SAFETY: written by `write_border` before the leaf that names it, and freed after that leaf (M2).
        unsafe { record::Record::<()>::new(self.records.at(unit)) }.key()
    }
}

/// Bytes of length and state.
const HEAD_BYTES: usize = size_of::<u32>();

/// Where the state is in a head.
const STATE_AT: u32 = 16;

/// A key with its value and state.
#[derive(Debug)]
pub(super) struct Record<'g, V> {
    at: *mut u8,
    lives: PhantomData<&'g V>,
}

impl<V> Clone for Record<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Record<'_, V> {}

impl<'g, V> Record<'g, V> {
    /// Bytes of the value.
    const VALUE_BYTES: usize =
        if size_of::<V>() == 0 && word::is_inline::<V>() { 0 } else { size_of::<Word>() };

    /// How many units of 8 bytes a record takes.
    #[inline]
    pub(super) const fn units(key_bytes: usize) -> u64 {
        (Self::VALUE_BYTES + HEAD_BYTES + key_bytes).div_ceil(8) as u64
    }

    /// Asks for the lines of a record whose key has so many bytes.
    #[inline(always)]
    pub(super) fn ask(self, key_bytes: usize) {
        prefetch(self.at);
        // The last byte of the record is in the second line, most often, or already asked for.
        prefetch(self.at.wrapping_add(Self::VALUE_BYTES + HEAD_BYTES + key_bytes - 1));
        if key_bytes > LINE_BYTES {
            prefetch(self.at.wrapping_add(LINE_BYTES));
        }
    }

    #[inline(always)]
    fn head(self) -> &'g AtomicU32 {
        // SAFETY: written by `write_record`, and from then on only touched as an atomic (M1).
        unsafe { &*self.at.add(Self::VALUE_BYTES).cast::<AtomicU32>() }
    }

    /// The key.
    #[inline(always)]
    pub(super) fn key(self) -> &'g [u8] {
        // Relaxed: the length never changes.
        let bytes = usize::from(self.head().load(Relaxed) as u16);
        // SAFETY: written by `write_record`, unchanged since (M1).
        unsafe { core::slice::from_raw_parts(self.at.add(Self::VALUE_BYTES + HEAD_BYTES), bytes) }
    }

    #[inline(always)]
    pub(super) fn state(self) -> State {
        // ORDER: Acquire, pairs with the Release store in `set_state`: who sees a record gone sees what its writer did before.
        State::of(self.head().load(Acquire) >> STATE_AT)
    }

    /// Goes on to a state. The caller holds the lock of the key's window.
    #[inline(always)]
    pub(super) fn set_state(self, state: State) {
        let bytes = self.head().load(Relaxed) & 0xffff;
        // ORDER: Release, pairs with `state`.
        self.head().store(bytes | (state as u32) << STATE_AT, Release);
    }

    /// The value as a word: packed if it is inline, else the address of its box.
    #[inline(always)]
    pub(super) fn word(self) -> Word {
        if Self::VALUE_BYTES == 0 {
            return core::ptr::null_mut();
        }
        // ORDER: Acquire, pairs with the Release store in `set_word`: the box is filled.
        self.cell().load(Acquire)
    }

    /// Replaces the value. The caller holds the lock of the key's window.
    #[inline(always)]
    pub(super) fn set_word(self, word: Word) {
        if Self::VALUE_BYTES != 0 {
            // ORDER: Release, pairs with `word`.
            self.cell().store(word, Release);
        }
    }

    #[inline(always)]
    fn cell(self) -> &'g AtomicPtr<()> {
        // SAFETY: as `head`; only called if there is a value part.
        unsafe { &*self.at.cast::<AtomicPtr<()>>() }
    }
}

/// A leaf that is live, or dead and not yet freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'g> {
    at: *mut u8,
    name: LeafRef,
    lives: PhantomData<&'g ()>,
}

impl PartialEq for Leaf<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<'g> list::Leaf<'g> for Leaf<'g> {
    type Shape = Shape;

    #[inline(always)]
    fn name(self) -> LeafRef {
        self.name
    }

    #[inline(always)]
    fn header(self) -> &'g Header<Shape> {
        // SAFETY: a name leads to a formatted leaf that is not freed for 'g (M2). What changes in it is atomic.
        unsafe { &*self.at.cast::<Header<Shape>>() }
    }

    #[inline(always)]
    fn border(self) -> &'g Border {
        // SAFETY: as `header`; line 1 never changes.
        unsafe { &*self.at.add(LINE_BYTES).cast::<Border>() }
    }
}

/// A removed record in a leaf's counts.
const ONE_REMOVED: u64 = 1 << 32;

impl<'g> Leaf<'g> {
    #[inline(always)]
    fn shape(self) -> Shape {
        list::Leaf::header(self).shape
    }

    /// Fresh numbers, then sorted ones.
    #[inline(always)]
    fn numbers(self) -> &'g [AtomicU32] {
        // SAFETY: a leaf has as many numbers behind its first two lines as its shape says (M2), only touched as atomics.
        unsafe {
            core::slice::from_raw_parts(
                self.at.add(FIXED_LINES * LINE_BYTES).cast::<AtomicU32>(),
                self.shape().numbers(),
            )
        }
    }

    /// How many numbers are sorted.
    #[inline(always)]
    pub(super) fn sorted(self) -> usize {
        usize::from(self.shape().sorted)
    }

    /// How many are fresh.
    #[inline(always)]
    pub(super) fn fresh(self) -> usize {
        // ORDER: Acquire, pairs with the Release addition in `push`: the numbers counted are there.
        list::Leaf::header(self).counts.load(Acquire) as u32 as usize
    }

    /// The sorted numbers.
    #[inline(always)]
    pub(super) fn sorted_numbers(self) -> &'g [AtomicU32] {
        let shape = self.shape();
        &self.numbers()[usize::from(shape.fresh)..][..usize::from(shape.sorted)]
    }

    /// A sorted number.
    #[inline(always)]
    pub(super) fn sorted_at(self, at: usize) -> Number {
        // Relaxed: published with the leaf.
        self.sorted_numbers()[at].load(Relaxed)
    }

    /// A fresh number that was counted.
    #[inline(always)]
    pub(super) fn fresh_at(self, at: usize) -> Number {
        // Relaxed: published by the count.
        self.numbers()[at].load(Relaxed)
    }

    /// Adds a fresh number, if there is room. The caller holds the leaf's lock.
    #[inline]
    pub(super) fn push(self, number: Number) -> bool {
        let counts = &list::Leaf::header(self).counts;
        // Relaxed: only the holder of the lock adds to it.
        let at = counts.load(Relaxed) as u32 as usize;
        if at == usize::from(self.shape().fresh) {
            return false;
        }
        self.numbers()[at].store(number, Relaxed);
        // ORDER: Release, pairs with `fresh`. An addition, as others count what they removed.
        counts.fetch_add(1, Release);
        true
    }

    /// Counts a record that was removed; returns how many.
    pub(super) fn count_removed(self) -> usize {
        // Relaxed: a figure to decide by.
        (list::Leaf::header(self).counts.fetch_add(ONE_REMOVED, Relaxed) >> 32) as usize + 1
    }

    /// How many records were removed since the leaf was made.
    pub(super) fn removed(self) -> usize {
        // Relaxed: as above.
        (list::Leaf::header(self).counts.load(Relaxed) >> 32) as usize
    }

    /// Asks for the lines that an insertion needs: the header, and those of fresh numbers.
    #[inline(always)]
    pub(super) fn ask(self) {
        let line = |line: usize| prefetch(self.at.wrapping_add(line * LINE_BYTES));
        line(0);
        line(FIXED_LINES);
        line(FIXED_LINES + 1);
        line(FIXED_LINES + 2);
    }

    /// Asks for the lines that a walk needs that comes in at the start of a large leaf.
    pub(super) fn ask_start(self) {
        self.ask();
        prefetch(self.at.wrapping_add((FIXED_LINES + 3) * LINE_BYTES));
    }

    /// Asks for the sorted number and the fifteen behind it.
    #[inline(always)]
    pub(super) fn ask_sorted(self, at: usize) {
        let number = usize::from(self.shape().fresh) + at;
        prefetch(self.at.wrapping_add((FIXED_LINES + number / LINE_NUMBERS) * LINE_BYTES));
    }

    /// Where a number is among the sorted ones.
    pub(super) fn position(self, number: Number) -> Option<usize> {
        // Relaxed: published with the leaf.
        self.sorted_numbers().iter().position(|place| place.load(Relaxed) == number)
    }
}

/// What a writer has unlinked.
#[derive(Debug)]
pub(super) enum Garbage<V> {
    /// A leaf of one of the sizes.
    Leaf(usize, u64),
    /// A record whose value was taken out before.
    Record(Number),
    /// A record of a border.
    Border(u64),
    /// A piece of the prefix table.
    Prefixes(#[expect(dead_code, reason = "kept to be dropped")] prefix::Garbage),
    Directory(directory::Garbage<Bucket>),
    Value(#[expect(dead_code, reason = "kept to be dropped")] Boxed<V>),
}

impl<V> Unlinked for Garbage<V> {
    fn is_large(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::Prefixes(_))
    }
}

/// The value behind a word that was read from the map.
#[inline(always)]
pub(super) fn read_value<'g, V>(word: Word) -> Read<'g, V> {
    // SAFETY: a value word was made by `word_of_value`, and its box is not freed while the reader is pinned (M3).
    unsafe { Read::new(word) }
}

/// What is to become of a value word that was taken out of the map.
pub(super) fn garbage_of<V>(word: Word) -> Option<Garbage<V>> {
    // SAFETY: the word was made by `word_of_value` and is taken back once, when nobody can be reading it (M3).
    (!const { word::is_inline::<V>() }).then(|| Garbage::Value(unsafe { Boxed::new(word) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{Bucket as _, Spelling};

    #[test]
    fn the_slots_with_a_tag_are_found_and_no_others() {
        let bucket = Bucket {
            tags: Default::default(),
            numbers: core::array::from_fn(|_| AtomicU32::new(0)),
        };
        assert_eq!(bucket.free(), 0xfff);
        for (slot, hash) in [(0, 7), (3, 0x80), (7, 0xff), (8, 7), (11, 0x81)] {
            bucket.fill(slot, hash, Spelling::NONE, slot as u32 + 100);
        }
        bucket.empty(4, true, Spelling::NONE);
        assert_eq!(bucket.tagged(7), 1 | 1 << 8);
        assert_eq!(bucket.tagged(0x80), 1 << 3);
        assert_eq!(bucket.tagged(0xff), 1 << 7);
        assert_eq!(bucket.tagged(0x81), 1 << 11);
        assert_eq!((bucket.tagged(6), bucket.gone(Spelling::WHOLE)), (0, 1 << 4));
        assert_eq!(bucket.free(), 0xfff & !(1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 8 | 1 << 11));
        assert_eq!(bucket.number(11), 111);
    }
}
