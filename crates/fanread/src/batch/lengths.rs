//! How long walks were lately, by which the next one knows how much to ask for ahead.
//!
//! Which entry is the last one a walk is not told, but most walks are as long as others before them. A walk asks for lines up to there,
//! and behind that only when it comes there. Where ranges were asked for one entry each, that is found as a bound is ([`Lone`]).

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::shim::AtomicU32;

/// How many walks in a row that are shorter than expected it takes to expect no more than the longest of those.
///
/// Of walks of one to a hundred entries, whose longest are one in twelve or so, one row of that length in 250 has none of these. With fewer,
/// more walks come to the end of what was expected and wait there: with 4, which a piece less was expected after, one in ten did,
/// and such walks were a twentieth slower. With more, more short walks ask for lines in vain after a long one.
const PATIENCE: u32 = 64;

/// As long as the longest of the last walks: one entry, or pieces of `PIECE` entries. Those of `LONG` pieces or more are taken for
/// walks without an end: what they ask for in vain is little beside what they take. In a line of its own, as walks store to it.
///
/// ```text
/// bit  0 ...... 11   12 ............................ 23   24 ........... 31
///      expected      longest of the shorter ones since    how many of them
/// ```
///
/// A length is 0 if nothing is known, 1 for one entry, and one more than there are pieces.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lengths<const PIECE: usize, const LONG: u32>(AtomicU32);

const LENGTH_BITS: u32 = 12;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;
const ONE_SHORTER: u32 = 1 << (2 * LENGTH_BITS);

impl<const PIECE: usize, const LONG: u32> Lengths<PIECE, LONG> {
    pub(crate) const fn new() -> Self {
        const { assert!(LONG < LENGTH_MASK && PATIENCE <= u32::MAX >> (2 * LENGTH_BITS)) };
        Self(AtomicU32::new(0))
    }

    /// How many entries a walk is likely to take at most, one or a whole number of pieces; 0 if nothing is known.
    #[inline(always)]
    pub(crate) fn expected(&self) -> usize {
        // Relaxed, here and below: a guess; if one walk is not noted, another will be.
        match self.0.load(Relaxed) & LENGTH_MASK {
            0 => 0,
            1 => 1,
            length if length > LONG => 0,
            length => PIECE * (length - 1) as usize,
        }
    }

    /// Takes notice of a walk of so many entries.
    #[inline(always)]
    pub(crate) fn note(&self, entries: usize) {
        if entries == 0 {
            return;
        }
        let pieces = entries.div_ceil(PIECE).min(LONG as usize) as u32;
        let length = if entries == 1 { 1 } else { pieces + 1 };
        let old = self.0.load(Relaxed);
        let expected = old & LENGTH_MASK;
        let new = if length >= expected {
            length
        } else {
            let longest = (old >> LENGTH_BITS & LENGTH_MASK).max(length);
            let count = (old / ONE_SHORTER + 1) * ONE_SHORTER;
            if count == PATIENCE * ONE_SHORTER {
                longest
            } else {
                count | longest << LENGTH_BITS | expected
            }
        };
        // Walks of one length have nothing to store.
        if new != old {
            self.0.store(new, Relaxed);
        }
    }
}

/// Whether a range is expected to be asked for one entry. The first call finds that as a bound is found, and leaves to the walks what
/// is behind it.
#[derive(Debug)]
pub(crate) struct Lone {
    is_expected: bool,
    was_found: bool,
}

impl Lone {
    /// For a range, if ranges before it had as many entries at most.
    #[inline(always)]
    pub(crate) fn new(expected: usize) -> Self {
        Self { is_expected: expected == 1, was_found: false }
    }

    /// Whether the entry that is asked for is to be found as a bound is.
    #[inline(always)]
    pub(crate) fn is_next(&mut self) -> bool {
        self.is_expected && self.is_first()
    }

    /// Out of line, as most ranges have more entries.
    #[inline(never)]
    fn is_first(&mut self) -> bool {
        self.is_expected = !self.was_found;
        self.was_found = true;
        self.is_expected
    }

    /// How many entries the range had, to be noted: so many, and that one. If more was asked for there were two at least, in vain or not.
    #[inline(always)]
    pub(crate) fn length(&self, walked: usize) -> usize {
        match (self.was_found, self.is_expected) {
            (false, _) => walked,
            (true, true) => 1,
            (true, false) => 1 + walked.max(1),
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_last_walks_is_expected() {
        let lengths = Lengths::<4, 32>::new();
        assert_eq!(lengths.expected(), 0);
        lengths.note(5);
        assert_eq!(lengths.expected(), 8);
        let lengths = Lengths::<1, 32>::new();
        lengths.note(1);
        assert_eq!(lengths.expected(), 1);
        lengths.note(13);
        for pieces in (0..PATIENCE).map(|i| if i == 5 { 0 } else { 5 }) {
            assert_eq!(lengths.expected(), 13);
            lengths.note(pieces as usize);
        }
        assert_eq!(lengths.expected(), 13, "one of them was no walk");
        lengths.note(4);
        assert_eq!(lengths.expected(), 5, "the longest of the shorter ones");
        for n in 1..4 * PATIENCE {
            lengths.note(if n % (PATIENCE - 1) == 0 { 5 } else { 1 });
            assert_eq!(lengths.expected(), 5, "one as long begins a new row");
        }
        (0..PATIENCE).for_each(|_| lengths.note(1));
        assert_eq!(lengths.expected(), 1);
        lengths.note(31);
        assert_eq!(lengths.expected(), 31);
        lengths.note(1000);
        assert_eq!(lengths.expected(), 0);
        (0..PATIENCE).for_each(|_| lengths.note(3));
        assert_eq!(lengths.expected(), 3, "however long the long one was");
    }

    #[test]
    fn a_range_that_is_asked_for_more_than_one_entry_is_no_lone_one() {
        let mut lone = Lone::new(8);
        assert!(!lone.is_next() && !lone.is_next());
        assert_eq!([0, 1, 9].map(|walked| lone.length(walked)), [0, 1, 9]);
        let mut lone = Lone::new(1);
        assert_eq!(lone.length(0), 0);
        assert!(lone.is_next());
        assert_eq!(lone.length(0), 1);
        assert!(!lone.is_next() && !lone.is_next());
        assert_eq!([0, 1, 9].map(|walked| lone.length(walked)), [2, 2, 10]);
    }
}
