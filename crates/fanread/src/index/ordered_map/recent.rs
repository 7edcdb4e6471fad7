//! Records that were found or written lately, found again without the directory.
//!
//! What was written is often what is asked for next. In a large map the line of a key's bucket is one of many thousands, each on a page
//! of its own; the slots here are on few pages, which stay in the cache, and so are records that were written one after another.
//!
//! ```text
//! line   +-----------------+--------+------------------------------+
//!        | tags 12 x 8 bit | turn 4 | 12 numbers of records, 32 bit|     a bucket whose passers are a turn; 0 names no record
//!        +-----------------+--------+------------------------------+
//! ```
//!
//! A hash says which line is its own. A new name takes the slot whose turn it is, so the last twelve of a line are there. Only who has the
//! map for himself goes by slots, and puts there what he has found; all who write keep them right. Others may ask for lines by them, of
//! addresses that are good for ever.
//!
//! # Invariants
//!
//! * **O4** A slot names a live record whose key has a hash of this line, unless its writer is at work. He holds the key's buckets, and takes
//!   the name away when the record is *gone*, or puts that of its successor there.
//!
//! So who has the map for himself finds a live record or none. Numbers are true, tags and turns are hints: where several write to a line at
//! a time, one may be lost, and a record is found by the directory. `check` tests O4 on a map at rest, as the histories and scenes of
//! `BytesMap` leave it; there is one line of two slots then.

use std::sync::OnceLock;

use super::bucket::Bucket;
use super::layout::{FREE, tag_of};
use super::raw::Number;
use crate::sync::shim::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Whether sizes are such that short tests reach everything.
const SMALL: bool = cfg!(any(test, shuttle, small_leaves, miri));

/// How many lines there are: 128 KB of them.
///
/// More push others out of the second-level cache. With half as many, one lookup in eighty of what was written a thousand writes ago, and of
/// what is written anew, finds its slot taken, and now one in a thousand.
const LINES: usize = if SMALL { 2 } else { 1 << 11 };

/// Slots of a line that are used: all.
///
/// With one for each hash, and 16,384 of them, one such lookup in twelve found its slot taken; the directory then takes as long as ten by slots.
const WAYS: usize = if SMALL { 2 } else { super::layout::SLOTS };

/// Entries from which a map has slots, so that they are a byte an entry at most. The directory of a small map stays in the cache.
const FROM_ENTRIES: usize = if SMALL { 1 } else { 1 << 17 };

/// Slots for records that were found or written lately; see the module.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Whether there are to be any.
    pub(super) is_kept: bool,
    /// Who reads them has the map for himself, and so comes behind all who wrote.
    lines: OnceLock<Box<[Bucket; LINES]>>,
}

/// Where the turn is in the word of the last tags.
const TURN_AT: u32 = 32;

/// A slot that may name the record of a hash, and in the lower half the number that was there; 0 if there was no such slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named(u64);

/// Slots that may name the record of a hash.
pub(super) struct AllNamed<'m> {
    line: Option<&'m Bucket>,
    left: u32,
}

impl Iterator for AllNamed<'_> {
    type Item = Named;

    #[inline(always)]
    fn next(&mut self) -> Option<Named> {
        while self.left != 0 {
            let slot = self.left.trailing_zeros() as usize;
            self.left &= self.left - 1;
            // Relaxed: see `Recent`.
            let number = self.line?.numbers[slot].load(Relaxed);
            // A tag may be left over.
            if number != 0 {
                return Some(Named((slot as u64) << Number::BITS | u64::from(number)));
            }
        }
        None
    }
}

impl Named {
    /// No slot.
    pub(super) const NONE: Self = Self(0);

    /// The number of the record.
    #[inline(always)]
    pub(super) fn number(self) -> Number {
        self.0 as Number
    }
}

impl Recent {
    /// Makes slots for a map of as many entries, if there are to be any, and if there is memory for that.
    pub(super) fn grow(&self, entries: impl FnOnce() -> usize) {
        if !self.is_kept || self.lines.get().is_some() || entries() < FROM_ENTRIES {
            return;
        }
        #[cfg(test)]
        if crate::mem::failing::fails_now() {
            return;
        }
        let mut lines = Vec::new();
        if lines.try_reserve_exact(LINES).is_ok() {
            lines.resize_with(LINES, || Bucket {
                tags: [const { AtomicU64::new(0) }; 2],
                numbers: [const { AtomicU32::new(0) }; super::layout::SLOTS],
            });
            // Others may have been first.
            let _ = lines.into_boxed_slice().try_into().map(|lines| self.lines.set(lines));
        }
    }

    /// The number of a hash's line. Its low bits are the tag.
    #[inline(always)]
    fn line_of(hash: u64) -> usize {
        (hash >> 8) as usize % LINES
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> Option<&Bucket> {
        Some(&self.lines.get()?[Self::line_of(hash)])
    }

    /// The slots whose records may have this hash; to be looked at by who has the map for himself.
    #[inline(always)]
    pub(super) fn named(&self, hash: u64) -> AllNamed<'_> {
        let line = self.line(hash);
        AllNamed { line, left: line.map_or(0, |line| line.tagged(tag_of(hash))) }
    }

    /// Whether a slot of a hash's line, in whatever map it was looked at, names its record in this one.
    #[inline(always)]
    pub(super) fn names(&self, hash: u64, named: Named) -> bool {
        let slot = (named.0 >> Number::BITS) as usize;
        let place = self.line(hash).and_then(|line| line.numbers.get(slot));
        // Relaxed: see `Recent`.
        named.0 != 0 && place.is_some_and(|place| place.load(Relaxed) == named.number())
    }

    /// Names a record that is live. The caller holds its key's buckets, or has the map for himself.
    #[inline]
    pub(super) fn put(&self, hash: u64, number: Number) {
        if let Some(line) = self.line(hash) {
            // Relaxed: a hint.
            let slot = (line.tags[1].load(Relaxed) >> TURN_AT) as usize % WAYS;
            // Relaxed: see `Recent`.
            line.numbers[slot].store(number, Relaxed);
            line.set_tag(slot, tag_of(hash));
            // Relaxed: as above.
            let tags = line.tags[1].load(Relaxed) as u32;
            line.tags[1].store(u64::from(tags) | (slot as u64 + 1) << TURN_AT, Relaxed);
        }
    }

    /// Names a record that is live instead of one that it has replaced. The caller holds its key's buckets.
    pub(super) fn renew(&self, hash: u64, old: Number, number: Number) {
        let mut is_named = false;
        for (_, place) in self.naming(hash, old) {
            // Relaxed: see `forget`.
            place.store(number, Relaxed);
            is_named = true;
        }
        if !is_named {
            self.put(hash, number);
        }
    }

    /// Forgets a record that is gone. The caller holds its key's buckets.
    pub(super) fn forget(&self, hash: u64, number: Number) {
        for (slot, place) in self.naming(hash, number) {
            // Relaxed: see `Recent`. What another puts there meanwhile is lost, and found by the directory.
            place.store(0, Relaxed);
            if let Some(line) = self.line(hash) {
                line.set_tag(slot, FREE);
            }
        }
    }

    /// The slots that name a record: one, or more where a tag was lost.
    fn naming(&self, hash: u64, number: Number) -> impl Iterator<Item = (usize, &AtomicU32)> {
        let places = self.line(hash).into_iter().flat_map(|line| line.numbers.iter().enumerate());
        // Relaxed: its names are put there by who holds its key's buckets, as the caller does, or has had the map for himself.
        places.filter(move |(_, place)| place.load(Relaxed) == number)
    }

    /// What is named, by the numbers of the lines.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, Number)> {
        let lines = self.lines.get().into_iter().flat_map(|lines| lines.iter().enumerate());
        let all = lines.flat_map(|(at, line)| line.numbers.iter().map(move |place| (at, place)));
        // Relaxed: see `Recent`.
        all.map(|(at, place)| (at, place.load(Relaxed))).filter(|(_, number)| *number != 0)
    }

    /// Whether a line may name a record with this hash.
    pub(super) fn fits(line: usize, hash: u64) -> bool {
        Self::line_of(hash) == line
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.get().map_or(0, |lines| size_of_val(&**lines))
    }
}
