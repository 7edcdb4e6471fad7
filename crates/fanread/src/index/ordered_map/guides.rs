//! Guides and codes: what a leaf itself says of its sorted keys, so that a walk finds where it comes in without reading their records.
//!
//! ```text
//! sorted    0 .. step-1 | step .. 2 step-1 | 2 step ..     |  ..
//! guides                0                  1               2  ..        the slice of the key that begins a group
//! codes     0 .. step-1 | step .. 2 step-1 | 2 step ..     |  ..        a byte for each key: how far it is behind its group's guide
//! ```
//!
//! A *slice* is what it is of a leaf's borders: eight bytes behind the prefix that all keys of the leaf share, big-endian. A walk that
//! comes in at a key counts the guides below it, and so knows its group; there it counts the codes below its own. Only keys of the
//! same code have to be read, one in eight bounds or so if keys are spread evenly within groups. *Fresh* keys have a code in the leaf as if
//! it were one group.
//!
//! # Invariants
//!
//! * **O5** Guide `i` is the slice of the sorted key `(i + 1) * step`; guides of groups that are not there have all bits set.
//! * **O6** The code of a sorted key is what [`Group::code`] makes of its slice, in its group; that of a fresh key, in the whole leaf.
//!
//! `check.rs` verifies them.

use core::ops::Range;

use super::layout::MOST_SORTED;
use crate::mem::LINE_BYTES;

/// How many guides a leaf has: those of a line, so that there are 32 keys to a group at most. With two lines an entry takes a quarter of a
/// byte more.
pub(super) const GUIDES: usize = LINE_BYTES / size_of::<u64>();

/// Sorted keys beyond which a leaf has guides and codes: of fewer, the records are read.
pub(super) const LEAST_GUIDED: usize = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 16 };

/// How many sorted keys a group has.
#[inline(always)]
const fn step(sorted: usize) -> usize {
    sorted.div_ceil(GUIDES + 1)
}

/// The guides of a leaf.
#[derive(PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub(super) struct Guides([u64; GUIDES]);

const _: () = assert!(size_of::<Guides>() == LINE_BYTES);
const _: () =
    assert!(step(2 * MOST_SORTED) <= u8::MAX as usize, "keys of a group are counted in a byte");

/// A group of keys, between two guides or borders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    low: u64,
    /// How far the group's last possible slice is from the first, and how many of the upper bits of that are 0.
    reach: u64,
    unused: u32,
}

impl Group {
    #[inline(always)]
    pub(super) fn new(low: u64, high: u64) -> Self {
        let reach = high.saturating_sub(low);
        Self { low, reach, unused: (reach | u64::from(u8::MAX)).leading_zeros() }
    }

    /// The byte for a slice: the upper bits of how far it is behind the guide. A higher slice has no lower code.
    #[inline(always)]
    pub(super) fn code(self, slice: u64) -> u8 {
        let behind = slice.saturating_sub(self.low).min(self.reach);
        (behind << self.unused >> (u64::BITS - u8::BITS)) as u8
    }

    /// The lowest and the highest slice of this code that a key of the group can have.
    #[inline(always)]
    fn slices(self, code: u8) -> (u64, u64) {
        let bits = u64::BITS - u8::BITS - self.unused;
        let least = u64::from(code) << bits;
        let [least, most] = [least, least | ((1 << bits) - 1)].map(|behind| behind.min(self.reach));
        (self.low + least, self.low + most)
    }
}

/// What a leaf with guides says of its sorted keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guided<'g> {
    pub(super) guides: &'g Guides,
    /// One for each sorted key.
    pub(super) codes: &'g [u8],
    /// The slices of the leaf's borders.
    pub(super) limits: (u64, u64),
}

impl Guides {
    /// Those of so many sorted keys, whose slices these are.
    pub(super) fn of(sorted: usize, slice: impl Fn(usize) -> u64) -> Self {
        let key = |guide: usize| (guide + 1) * step(sorted);
        Self(core::array::from_fn(|guide| match key(guide) {
            at if at < sorted => slice(at),
            _ => u64::MAX,
        }))
    }

    /// The group between guide `group - 1` and the next.
    #[inline(always)]
    fn group(&self, group: usize, limits: (u64, u64)) -> Group {
        let low = group.checked_sub(1).map_or(limits.0, |guide| self.0[guide]);
        Group::new(low, self.0.get(group).map_or(limits.1, |high| (*high).min(limits.1)))
    }

    /// The codes of so many sorted keys, whose slices these are, in a leaf with these borders.
    pub(super) fn codes(
        &self,
        sorted: usize,
        limits: (u64, u64),
        slice: impl Fn(usize) -> u64 + Copy,
    ) -> impl Iterator<Item = u8> {
        let step = step(sorted).max(1);
        (0..sorted).step_by(step).enumerate().flat_map(move |(group, start)| {
            let group = self.group(group, limits);
            (start..sorted.min(start + step)).map(move |at| group.code(slice(at)))
        })
    }
}

impl Guided<'_> {
    /// The sorted keys that a key of this slice can be among: those before are below, those behind are not.
    #[inline(always)]
    pub(super) fn around(&self, slice: u64) -> Range<usize> {
        let Self { guides, codes, limits } = *self;
        let sorted = codes.len();
        let step = step(sorted);
        // Without a branch: nobody can guess where a key belongs.
        let below = guides.0.iter().map(|guide| usize::from(*guide < slice)).sum::<usize>();
        let up_to = guides.0.iter().map(|guide| usize::from(*guide <= slice)).sum::<usize>();
        let places = |group: usize| (group * step).min(sorted)..((group + 1) * step).min(sorted);
        let edge = |group: usize, is_before: fn(u8, u8) -> bool| {
            let code = guides.group(group, limits).code(slice);
            let places = places(group);
            let codes = codes[places.clone()].iter();
            let before = codes.map(|other| u8::from(is_before(*other, code))).sum::<u8>();
            places.start + usize::from(before)
        };
        // A key of a lower slice is below, one of a higher slice is not.
        edge(below, |other, code| other < code)..edge(up_to, |other, code| other <= code)
    }

    /// Between which slices that of a sorted key is, both included.
    #[inline(always)]
    pub(super) fn slices(&self, at: usize) -> (u64, u64) {
        self.guides.group(at / step(self.codes.len()), self.limits).slices(self.codes[at])
    }

    /// The places of the sorted keys and codes that [`around`](Self::around) looks at, nearly.
    #[inline(always)]
    pub(super) fn near(&self, slice: u64) -> Range<usize> {
        let (sorted, step) = (self.codes.len(), step(self.codes.len()));
        let below = self.guides.0.iter().map(|guide| usize::from(*guide < slice)).sum::<usize>();
        let up_to = self.guides.0.iter().map(|guide| usize::from(*guide <= slice)).sum::<usize>();
        (below * step).min(sorted)..((up_to + 1) * step).min(sorted)
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    /// The places of the first of `slices` that is not below `slice`, and of the first above it.
    fn places(slices: &[u64], slice: u64) -> Range<usize> {
        slices.partition_point(|key| *key < slice)..slices.partition_point(|key| *key <= slice)
    }

    /// Calls `test` for leaves of all sizes, of keys that are spread in several ways, and keys at and beside them.
    fn for_each(test: impl Fn(&[u64], u64, Range<usize>)) {
        for sorted in 1..=400_usize {
            for spread in [1_u64, 3, 1 << 40, u64::MAX / 401] {
                // Several keys of one slice, at the start and at the end.
                let slices: Vec<u64> =
                    (0..sorted).map(|at| (at.clamp(4, 300) as u64) * spread).collect();
                for limits in [(0, u64::MAX), (4 * spread, 300 * spread)] {
                    let guides = Guides::of(sorted, |at| slices[at]);
                    let codes: Vec<u8> = guides.codes(sorted, limits, |at| slices[at]).collect();
                    let guided = Guided { guides: &guides, codes: &codes, limits };
                    let asked =
                        slices.iter().flat_map(|key| [key.saturating_sub(1), *key, key + 1]);
                    for slice in asked.chain([0, u64::MAX]) {
                        test(&slices, slice, guided.around(slice));
                    }
                    for (at, key) in slices.iter().enumerate() {
                        let (least, most) = guided.slices(at);
                        let key = (*key).clamp(limits.0, limits.1);
                        assert!(least <= key && key <= most, "{key}: {least} to {most}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_key_belongs_where_its_guides_and_codes_say() {
        for_each(|slices, slice, found| {
            let expected = places(slices, slice);
            let sorted = slices.len();
            assert!(
                found.start <= expected.start && expected.end <= found.end,
                "{sorted} {slice}: {found:?}, not {expected:?}"
            );
        });
    }

    #[test]
    fn of_keys_that_are_spread_evenly_few_have_to_be_read() {
        let slices: Vec<u64> = (0..256).map(|at| at << 52).collect();
        let guides = Guides::of(256, |at| slices[at]);
        let limits = (0, 256 << 52);
        let codes: Vec<u8> = guides.codes(256, limits, |at| slices[at]).collect();
        let guided = Guided { guides: &guides, codes: &codes, limits };
        for (at, slice) in slices.iter().enumerate() {
            let found = guided.around(slice + (1 << 51));
            assert_eq!(found, at + 1..at + 1, "{at}");
            let found = guided.around(*slice);
            assert_eq!(found, at..at + 1, "{at}");
        }
    }
}
