//! Which buckets of a segment a hash may be in, and how large segments are.

use super::raw::Bucket;

/// Whether sizes are such that short tests reach everything.
const SMALL: bool = cfg!(any(shuttle, small_leaves, miri));

/// Buckets in which an entry may be, at first.
///
/// Few are ever more than four from their home. But who comes last goes to the end of a row of full buckets, and rows of a
/// hundred are there in large segments that are nearly full; such a row makes a segment with a smaller window grow early.
const WINDOW: usize = if SMALL { 8 } else { 128 };

/// Buckets of a block, 32 KB. Larger segments are made of blocks, which fit segments of any size when they are used again.
pub(super) const BLOCK_BUCKETS: usize = if SMALL { 16 } else { 512 };

/// Buckets that share a version.
pub(super) const REGION: usize = if SMALL { 8 } else { 512 };

/// Which buckets of a segment a hash may be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    /// By how many top bits of a hash the segment is named.
    pub(crate) bits: u32,
    homes: u32,
    window: u32,
}

impl Geometry {
    /// That of a segment with room for `entries` and half as many more.
    pub(crate) fn with_room_for<B: Bucket>(entries: usize, bits: u32) -> Self {
        // Two thirds full.
        let homes = entries * 3 / (2 * B::SLOTS) + 1;
        Self::of(homes.max(B::LEAST_BUCKETS), WINDOW, bits)
    }

    /// The same with so many homes, or some more where whole blocks are taken.
    fn of(homes: usize, window: usize, bits: u32) -> Self {
        let homes =
            if homes > BLOCK_BUCKETS { homes.next_multiple_of(BLOCK_BUCKETS) } else { homes };
        assert!(homes >> 31 == 0, "a segment names a bucket by 31 bits of a hash");
        Self { bits, homes: homes as u32, window: window.min(homes / 2).max(1) as u32 }
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
    pub(super) fn is_too_large<B: Bucket>(self) -> bool {
        self.buckets() > B::MOST_BLOCKS * BLOCK_BUCKETS
    }

    #[inline(always)]
    pub(crate) fn buckets(self) -> usize {
        self.homes as usize
    }

    /// How many slots may be taken before the segment grows: five sixths.
    ///
    /// Of buckets of four, a search for an absent key looks at 1.6 on average where two thirds are taken, and at 4 where five
    /// sixths are.
    #[inline(always)]
    pub(super) fn limit<B: Bucket>(self) -> usize {
        self.buckets() * B::SLOTS * 5 / 6
    }

    /// The first bucket of a hash.
    #[inline(always)]
    pub(crate) fn home(self, hash: u64) -> usize {
        (((hash << self.bits >> 32) * u64::from(self.homes)) >> 32) as usize
    }

    /// The buckets of a hash whose home this is.
    #[inline(always)]
    pub(crate) fn window(self, home: usize) -> impl Iterator<Item = usize> + Clone {
        let homes = self.homes as usize;
        (home..home + self.window as usize).map(move |at| if at < homes { at } else { at - homes })
    }

    /// A hash that cannot be in a bucket, if there are at least four: one of the first home, or of the one in the middle.
    #[inline(always)]
    pub(crate) fn filler(self, bucket: usize) -> u64 {
        if bucket < self.window as usize { 1 << 63 >> self.bits } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw::tests::Four;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_filler_can_never_be_in_its_bucket() {
        for (entries, bits) in [(0, 0), (4, 1), (20, 0), (100, 5), (5000, 12), (100_000, 30)] {
            let mut geometry = Geometry::with_room_for::<Four>(entries, bits);
            for _ in 0..5 {
                for bucket in (0..geometry.buckets()).rev().take(3000) {
                    for word in [0, 1] {
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
            let geometry = Geometry::with_room_for::<Four>(entries, 3);
            let slots = geometry.buckets() * Four::SLOTS;
            assert!(slots * 2 >= entries * 3 && geometry.limit::<Four>() > entries + 1);
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
