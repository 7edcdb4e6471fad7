//! How long walks were lately, by which the next one knows how much to ask for ahead.
//!
//! Which entry is the last one a walk is not told, but most walks are as long as others before them. A walk asks for lines up to there,
//! and behind that only when it comes there. Where ranges were asked for one entry each, that is found as a bound is ([`Lone`]).

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::shim::AtomicU32;

/// How many of the walks that are shorter than those before it takes to expect one piece less.
///
/// With 4, one in ten of walks of one to a hundred entries came to the end of what was expected and waited there; such walks were a
/// twentieth slower. With 64 it would be one in 300. With more it takes longer until walks are expected to be short again after a
/// long one.
const PATIENCE: u32 = 64;

/// As long as the longest of the last walks, nearly: one entry, or pieces of `PIECE` entries. Those of `LONG` pieces or more are taken for
/// walks without an end: what they ask for in vain is little beside what they take. In a line of its own, as walks store to it.
///
/// Times `PATIENCE`, rounded up: 0 if nothing is known, 1 for one entry, and one more than there are pieces.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lengths<const PIECE: usize, const LONG: u32>(AtomicU32);

impl<const PIECE: usize, const LONG: u32> Lengths<PIECE, LONG> {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// How many entries a walk is likely to take at most, one or a whole number of pieces; 0 if nothing is known.
    #[inline(always)]
    pub(crate) fn expected(&self) -> usize {
        // Relaxed, here and below: a guess; if one walk is not noted, another will be.
        match self.0.load(Relaxed).div_ceil(PATIENCE) {
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
        let expected = self.0.load(Relaxed);
        let new = (length * PATIENCE).max(expected.saturating_sub(1));
        // Walks of one length have nothing to store.
        if new != expected {
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
            lengths.note(pieces as usize);
            assert_eq!(lengths.expected(), 13);
        }
        lengths.note(5);
        assert_eq!(lengths.expected(), 12);
        (0..13 * PATIENCE).for_each(|_| lengths.note(5));
        assert_eq!(lengths.expected(), 5);
        (0..5 * PATIENCE).for_each(|_| lengths.note(1));
        assert_eq!(lengths.expected(), 1);
        lengths.note(31);
        assert_eq!(lengths.expected(), 31);
        lengths.note(1000);
        assert_eq!(lengths.expected(), 0);
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
