//! What writes did lately, by which the next one knows what to ask for ahead.
//!
//! A new key needs lines that a key which is there does not, and which of the two it is shows when the first line has come. Most writes are
//! as the ones before them: loads bring keys, and who counts or refreshes finds them. A wrong guess costs a wait, or lines in vain.

use crate::sync::shim::{AtomicU8, Ordering::Relaxed};

/// Writes of one key in so many are noted, by its hash: all writers read what is stored then. With few keys that may be none, and all
/// goes on as guessed before.
const NOTED: u32 = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 64 };

/// Whether writes replaced values lately.
#[derive(Debug)]
pub(crate) struct Replacing(AtomicU8);

impl Replacing {
    pub(crate) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Whether the next write is likely to replace a value.
    #[inline]
    pub(crate) fn is_likely(&self) -> bool {
        // Relaxed, here and below: a guess.
        self.0.load(Relaxed) != 0
    }

    /// Takes notice of whether the key of a write, with such a hash, was there. The lower bits of it have to be chance.
    #[inline]
    pub(crate) fn note(&self, hash: u32, was_there: bool) {
        if hash.is_multiple_of(NOTED) && self.is_likely() != was_there {
            self.0.store(was_there.into(), Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle, small_leaves, miri))))]
mod tests {
    use super::*;

    #[test]
    fn the_next_write_is_expected_to_be_as_one_that_was_noted() {
        let replacing = Replacing::new();
        assert!(!replacing.is_likely());
        for (hash, was_there, expected) in
            [(1, true, false), (2 * NOTED, true, true), (63, false, true), (0, false, false)]
        {
            replacing.note(hash, was_there);
            assert_eq!(replacing.is_likely(), expected, "{hash}");
        }
    }
}
