//! A bucket of the directory: twelve tags, and the numbers of as many records. What it is to the directory is in `raw.rs`.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]

use super::layout::{FREE, GONE, SLOTS};
use super::raw::Number;
use crate::arch;
use crate::sync::shim::{
    self, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// A bucket of the directory; see `layout.rs` for what is in it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    /// Eight tags, then four and passers.
    pub(super) tags: [AtomicU64; 2],
    pub(super) numbers: [AtomicU32; SLOTS],
}

impl Bucket {
    /// The slots with this tag.
    #[inline(always)]
    pub(super) fn tagged(&self, tag: u8) -> u32 {
        let found = arch::match_sixteen(shim::line(&self.tags), tag);
        // ORDER: Acquire fence, pairs with the Release store in `set_tag`: the number of a tag that was found is there.
        fence(Acquire);
        found & ((1 << SLOTS) - 1)
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
    pub(super) fn set_tag(&self, slot: usize, tag: u8) {
        let (tags, at) = (&self.tags[slot / 8], 8 * (slot % 8));
        let now = tags.load(Relaxed) & !(0xff << at);
        // ORDER: Release, pairs with `tagged`.
        tags.store(now | u64::from(tag) << at, Release);
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
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
