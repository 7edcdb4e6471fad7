//! Which segment has a hash, and which segments a map begins with.

use super::layout::Part;
use super::raw::{Bucket, Table};
use super::{Geometry, Segment};
use crate::sync::epoch::Guard;
use crate::sync::shared::{Owned, Place, Shared};
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};
use crate::sync::thread;

/// How much smaller the largest segments of a map with few of them are.
const EARLY: usize = 8;

/// How many bits of a hash name a segment that is made in advance, at most.
const MOST_BITS: u32 = 20;

/// The segments by the top bits of a hash.
#[derive(Debug)]
pub(crate) struct Names<B: Bucket> {
    segments: Table<B>,
    /// How many different ones there are.
    count: AtomicU64,
}

impl<B: Bucket> Place for Names<B> {}

impl<B: Bucket> Names<B> {
    /// Those of a map's first segments, as many as there are values of some top bits. For a single one two, so that a hash is looked
    /// at as where there are more.
    pub(super) fn of(segments: Vec<Segment<B>>) -> Self {
        let count = AtomicU64::new(segments.len() as u64);
        let mut names: Vec<_> =
            segments.into_iter().map(|segment| Shared::new(Owned::new(segment))).collect();
        if let [only] = &*names {
            names.push(only.alias());
        }
        Self { segments: Table::new(names.into()), count }
    }

    /// The parts and sizes of a map's first segments, for so many entries in all.
    pub(super) fn parts(expected: usize) -> impl Iterator<Item = Geometry> {
        let size = move |part: Part| Geometry::for_expected::<B>(expected >> part.bits, part);
        let mut first = Part::ALL;
        while first.bits < MOST_BITS && size(first).blocks() > Self::most_blocks_of(1 << first.bits)
        {
            [first, _] = first.halves();
        }
        Part::all_of(first.bits).map(size)
    }

    /// How many bits of a hash are looked at.
    fn bits(&self) -> u32 {
        self.segments.bits()
    }

    /// The segment of a hash.
    #[inline(always)]
    pub(crate) fn segment<'g>(&self, hash: u64, guard: &'g Guard) -> &'g Segment<B> {
        self.segments.get(hash, guard)
    }

    /// Each segment once.
    pub(crate) fn all<'g>(&self, guard: &'g Guard) -> impl Iterator<Item = &'g Segment<B>> {
        self.places().map(|place| place.get(guard).expect("S2"))
    }

    /// Each segment once, from the one behind a part on; the part's is the last.
    pub(super) fn all_behind<'g>(
        &self,
        part: Part,
        guard: &'g Guard,
    ) -> impl Iterator<Item = &'g Segment<B>> {
        let (before, behind) = self.segments.all().split_at(self.segments.index(part.last()) + 1);
        once_each(behind).chain(once_each(before)).map(|place| place.get(guard).expect("S2"))
    }

    /// One pointer to each segment.
    pub(super) fn places(&self) -> impl Iterator<Item = &Shared<Segment<B>>> {
        once_each(self.segments.all())
    }

    /// Whether a segment may become two: if names would not be many more than segments, as chosen hashes could make them.
    pub(super) fn may_split(&self, geometry: Geometry) -> bool {
        geometry.part.bits < 31
            && (geometry.part.bits < self.bits() || self.segments.all().len() < 8 * self.count())
    }

    /// Blocks of the largest segment, which is small as long as there are fewer segments than a copy for each writer leaves them.
    pub(super) fn most_blocks(&self) -> usize {
        Self::most_blocks_of(self.count())
    }

    /// The same where there are so many segments.
    fn most_blocks_of(segments: usize) -> usize {
        if segments < 4 * thread::at_once() {
            B::MOST_BLOCKS.div_ceil(EARLY)
        } else {
            B::MOST_BLOCKS
        }
    }

    /// Whether the names are too few for a segment of `bits`.
    pub(super) fn is_short(&self, bits: u32) -> bool {
        bits > self.bits()
    }

    /// Twice as many names.
    pub(super) fn doubled(&self) -> Self {
        let names = self.segments.all().iter();
        let segments = names.flat_map(|name| [name.alias(), name.alias()]).collect();
        Self { segments: Table::new(segments), count: AtomicU64::new(self.count() as u64) }
    }

    fn count(&self) -> usize {
        // Relaxed: a figure to decide by.
        self.count.load(Relaxed) as usize
    }

    /// Counts a segment more.
    pub(super) fn count_more(&self) {
        // Relaxed: as above.
        self.count.fetch_add(1, Relaxed);
    }

    /// Names `new` for all hashes of a part. The caller is the only one who does such things.
    pub(super) fn name(&self, part: Part, new: &Shared<Segment<B>>) {
        let names = 1 << (self.bits() - part.bits);
        let first = self.segments.index(part.first());
        self.segments.all()[first..first + names].iter().for_each(|name| name.point_to(new));
    }

    pub(super) fn place(&self, hash: u64) -> &Shared<Segment<B>> {
        &self.segments.all()[self.segments.index(hash)]
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(self.segments.all())
    }
}

/// One of those that stand together for each segment.
fn once_each<B: Bucket>(names: &[Shared<Segment<B>>]) -> impl Iterator<Item = &Shared<Segment<B>>> {
    let is_first = move |at: &usize| *at == 0 || !names[*at].is_same(&names[*at - 1]);
    (0..names.len()).filter(is_first).map(move |at| &names[at])
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::super::raw::tests::Four;
    use super::*;

    #[test]
    fn segments_made_in_advance_are_as_large_as_those_that_grew() {
        for expected in [0, 1, 1000, 100_000, 3_000_000, 100_000_000, usize::MAX] {
            let sizes = Names::<Four>::parts(expected);
            let (mut count, mut blocks, mut limit) = (0, 0, 0_usize);
            for size in sizes {
                count += 1;
                blocks = blocks.max(size.blocks());
                limit = limit.saturating_add(size.limit::<Four>());
            }
            assert!(count == 1 << MOST_BITS || blocks <= Names::<Four>::most_blocks_of(count));
            assert!(count == 1 << MOST_BITS || limit >= expected);
        }
    }
}
