//! How long walks were lately, by which the next one knows how much to ask for ahead.
//!
//! Which entry is the last one a walk is not told, but most walks are as long as others before them. A walk asks for lines up to there,
//! and behind that only when it comes there.

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::shim::AtomicU32;

/// How many of the walks that are shorter than those before it takes to expect one piece less.
///
/// With 4, one in ten of walks of one to a hundred entries came to the end of what was expected and waited there; such walks were a
/// twentieth slower. With 64 it would be one in 300. With more it takes longer until walks are expected to be short again after a
/// long one.
const PATIENCE: u32 = 64;

/// As long as the longest of the last walks, nearly, in pieces of `PIECE` entries; those of `LONG` pieces or more are taken for walks without an end: what they
/// ask for in vain is little beside what they take. In a line of its own, as walks store to it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lengths<const PIECE: usize, const LONG: u32>(AtomicU32);

impl<const PIECE: usize, const LONG: u32> Lengths<PIECE, LONG> {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// How many entries a walk is likely to take at most, a whole number of pieces; 0 if nothing is known.
    #[inline(always)]
    pub(crate) fn expected(&self) -> usize {
        // Relaxed, here and below: a guess; if one walk is not noted, another will be.
        let pieces = self.0.load(Relaxed).div_ceil(PATIENCE);
        if pieces == LONG { 0 } else { PIECE * pieces as usize }
    }

    /// Takes notice of a walk of so many entries.
    #[inline(always)]
    pub(crate) fn note(&self, entries: usize) {
        if entries == 0 {
            return;
        }
        let pieces = entries.div_ceil(PIECE);
        let expected = self.0.load(Relaxed);
        let new = (pieces.min(LONG as usize) as u32 * PATIENCE).max(expected.saturating_sub(1));
        // Walks of one length have nothing to store.
        if new != expected {
            self.0.store(new, Relaxed);
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
        lengths.note(13);
        for pieces in (0..PATIENCE).map(|i| if i == 5 { 0 } else { 5 }) {
            lengths.note(pieces as usize);
            assert_eq!(lengths.expected(), 13);
        }
        lengths.note(5);
        assert_eq!(lengths.expected(), 12);
        (0..13 * PATIENCE).for_each(|_| lengths.note(5));
        assert_eq!(lengths.expected(), 5);
        lengths.note(1000);
        assert_eq!(lengths.expected(), 0);
    }
}
