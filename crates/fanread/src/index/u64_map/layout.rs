//! The bytes of a bucket, and which buckets of a segment a hash may be in.
//!
//! ```text
//! byte 0       8      16     24     32     40     48     56     64
//!      +-------+------+------+------+------+------+------+------+
//!      | word 0|  1   |  2   |  3   |value0|  1   |  2   |  3   |
//!      +-------+------+------+------+------+------+------+------+
//! ```
//!
//! Hashes are keys in another spelling (`hash/permute.rs`), so a slot needs no key beside its hash. A word is the hash
//! combined with the bucket's *filler*, a hash that can never be in that bucket. So a word of 0, which would be the filler
//! itself, says that the slot is free, a word of 1 that an entry was removed, and no key is reserved.
//!
//! An entry is in the first bucket that had a free slot from its *home* on, at most `window - 1` buckets further; behind the last
//! bucket comes the first. So a search ends at a bucket that has a word of 0.
//!
//! # Invariants
//!
//! * **B1** The entry of a hash is in one of the `window` buckets from its home on, once, and no bucket before it, from its home
//!   on, has a word of 0.
//!
//! `check.rs` tests it.

use crate::mem::LINE_BYTES;

/// Slots of a bucket.
pub(super) const SLOTS: usize = 4;

/// Buckets in which an entry may be, at first.
///
/// Few are ever more than four from their home. But who comes last goes to the end of a row of full buckets, and rows of a
/// hundred are there in large segments that are nearly full; such a row makes a segment with a smaller window grow early.
const WINDOW: usize = if SMALL { 8 } else { 128 };

/// Whether sizes are such that short tests reach everything.
const SMALL: bool = cfg!(any(shuttle, small_leaves, miri));

/// Homes of the smallest segment.
const LEAST_HOMES: usize = 4;

/// Buckets of a block, 64 KB. Larger segments are made of blocks, which fit segments of any size when they are used again.
pub(super) const BLOCK_BUCKETS: usize = if SMALL { 16 } else { 1024 };

/// The base-2 logarithm of a block's bytes.
pub(super) const BLOCK_SHIFT: u32 = (BLOCK_BUCKETS * LINE_BYTES).ilog2();

/// Blocks of a segment that is split rather than made larger.
///
/// A copy of 2 MB is a millisecond for which the writers of one segment wait; smaller ones make the directory longer, which is
/// to stay in L1 and L2.
const MOST_BLOCKS: usize = if SMALL { 4 } else { 32 };

/// Buckets that share a version.
pub(super) const REGION: usize = if SMALL { 8 } else { 512 };

/// The word of a free slot.
pub(super) const FREE: u64 = 0;
/// The word of a slot whose entry was removed, in a bucket behind which others may have gone.
pub(super) const GONE: u64 = 1;

/// Which buckets of a segment a hash may be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry {
    /// By how many top bits of a hash the segment is named.
    pub(super) bits: u32,
    homes: u32,
    window: u32,
}

impl Geometry {
    /// That of a segment with room for `entries` and half as many more.
    pub(super) fn with_room_for(entries: usize, bits: u32) -> Self {
        // Two thirds full.
        Self::of((entries * 3 / (2 * SLOTS) + 1).max(LEAST_HOMES), WINDOW, bits)
    }

    /// The same with so many homes, or some more where whole blocks are taken.
    fn of(homes: usize, window: usize, bits: u32) -> Self {
        let homes =
            if homes > BLOCK_BUCKETS { homes.next_multiple_of(BLOCK_BUCKETS) } else { homes };
        assert!(homes >> 31 == 0, "a segment names a bucket by 31 bits of a hash");
        Self { bits, homes: homes as u32, window: window.min(homes / 2) as u32 }
    }

    /// One with a quarter more homes.
    pub(super) fn larger(self) -> Self {
        Self::of(self.homes as usize * 5 / 4 + 1, WINDOW, self.bits)
    }

    /// One with a wider window, or more homes if it is as wide as it can be: for hashes that were chosen to collide.
    pub(super) fn widened(self) -> Self {
        let (homes, window) = (self.homes as usize, self.window as usize);
        Self::of(if window < homes / 2 { homes } else { 2 * homes }, 2 * window, self.bits)
    }

    /// Whether a segment of this size is to become two.
    pub(super) fn is_too_large(self) -> bool {
        self.buckets() > MOST_BLOCKS * BLOCK_BUCKETS
    }

    #[inline(always)]
    pub(super) fn buckets(self) -> usize {
        self.homes as usize
    }

    /// How many slots there are.
    #[inline(always)]
    pub(super) fn slots(self) -> usize {
        self.homes as usize * SLOTS
    }

    /// How many slots may be taken before the segment grows: five sixths.
    ///
    /// A search for an absent key looks at 1.6 buckets on average where two thirds are taken, and at 4 where five sixths are.
    #[inline(always)]
    pub(super) fn limit(self) -> usize {
        self.slots() * 5 / 6
    }

    /// The first bucket of a hash.
    #[inline(always)]
    pub(super) fn home(self, hash: u64) -> usize {
        (((hash << self.bits >> 32) * u64::from(self.homes)) >> 32) as usize
    }

    /// The buckets of a hash whose home this is.
    #[inline(always)]
    pub(super) fn window(self, home: usize) -> impl Iterator<Item = usize> + Clone {
        let homes = self.homes as usize;
        (home..home + self.window as usize).map(move |at| if at < homes { at } else { at - homes })
    }

    /// What hashes are combined with in a bucket: one that cannot be there, of the first home, or of the one in the middle.
    #[inline(always)]
    pub(super) fn filler(self, bucket: usize) -> u64 {
        if bucket < self.window as usize { 1 << 63 >> self.bits } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_fills_a_bucket_can_never_be_in_it() {
        for (entries, bits) in [(0, 0), (4, 1), (20, 0), (100, 5), (5000, 12), (100_000, 30)] {
            let mut geometry = Geometry::with_room_for(entries, bits);
            for _ in 0..5 {
                for bucket in (0..geometry.buckets()).rev().take(3000) {
                    for word in [FREE, GONE] {
                        let hash = word ^ geometry.filler(bucket);
                        let mut window = geometry.window(geometry.home(hash));
                        assert!(window.all(|at| at != bucket), "{geometry:?} {bucket}");
                    }
                }
                geometry = geometry.widened();
            }
        }
    }

    #[test]
    fn windows_lie_inside_of_the_segment() {
        for entries in (0..100).chain([1000, 3000, 100_000]) {
            let geometry = Geometry::with_room_for(entries, 3);
            assert!(geometry.slots() * 2 >= entries * 3 && geometry.limit() > entries + 1);
            for hash in [0, u64::MAX, u64::MAX >> 3, 1 << 60, 12345 << 40] {
                let window: HashSet<_> = geometry.window(geometry.home(hash)).collect();
                assert!(window.iter().all(|at| *at < geometry.buckets()));
                assert_eq!(window.len(), geometry.window as usize);
            }
            let buckets = geometry.buckets();
            assert!(buckets <= BLOCK_BUCKETS || buckets.is_multiple_of(BLOCK_BUCKETS));
        }
    }
}
