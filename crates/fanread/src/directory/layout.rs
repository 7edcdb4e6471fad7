//! Which buckets of a segment a hash may be in, and how large segments are.

use core::ops::Range;

use super::raw::Bucket;
use super::segment::counted_step;
use crate::hash::mix::stream;
use crate::mem::pages::FROM_ALLOCATOR;

/// Whether sizes are such that short tests reach everything.
pub(super) const SMALL: bool = cfg!(any(shuttle, small_leaves, miri));

/// Buckets in which an entry may be, at first.
///
/// Few are ever more than four from their home. But who comes last goes to the end of a row of full buckets, and rows of a
/// hundred are there in large segments that are nearly full; such a row makes a segment with a smaller window grow early.
const WINDOW: usize = if SMALL { 8 } else { 128 };

/// Buckets of a block, which share a version: 32 KB. Larger segments are made of blocks, which fit segments of any size when
/// they are used again.
///
/// Where an allocator counts the bytes it is 4 KB: segments are closer to what they have to hold.
pub(crate) const BLOCK_BUCKETS: usize = match (SMALL, FROM_ALLOCATOR) {
    (true, _) => 8,
    (false, true) => 64,
    (false, false) => 512,
};

/// Homes of the largest segment that is made in advance: whole blocks, and fewer than 31 bits name.
const MOST_HOMES: usize = 1 << 30;

/// All hashes that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Part {
    /// How many bits these are.
    pub(crate) bits: u32,
    /// The first of the hashes.
    first: u64,
}

impl Part {
    /// All hashes.
    pub(crate) const ALL: Self = Self { bits: 0, first: 0 };

    /// All parts whose hashes begin with so many equal bits.
    pub(super) fn all_of(bits: u32) -> impl Iterator<Item = Self> {
        let shift = 64 - bits;
        (0..1_u64 << bits).map(move |at| Self { bits, first: at.checked_shl(shift).unwrap_or(0) })
    }

    /// The first of the hashes.
    pub(super) fn first(self) -> u64 {
        self.first
    }

    /// The last of them.
    pub(super) fn last(self) -> u64 {
        self.first | u64::MAX >> self.bits
    }

    /// Those whose next bit is 0, and those where it is 1.
    pub(super) fn halves(self) -> [Self; 2] {
        let bits = self.bits + 1;
        [0, 1 << (64 - bits)].map(|bit| Self { bits, first: self.first | bit })
    }

    pub(super) fn has(self, hash: u64) -> bool {
        (hash ^ self.first) >> 1 >> (63 - self.bits) == 0
    }
}

/// How a bucket that keeps whole hashes writes them into words, whose own bits (`mask`) are never 0 nor 1.
///
/// Where a bucket is tells the top bits of the hashes in it. In a large table these are enough bits to leave some of them out: the
/// lowest of these then says that the slot is taken, and the others (`!mask`) are free for the bucket's use. In a small one the words
/// are hashes combined with the bucket's *filler*, a hash that can never be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spelling {
    /// The bits of a word that are the hash's.
    pub(crate) mask: u64,
    taken: u64,
    filler: u64,
}

impl Spelling {
    /// The mask of words that have no bits to spare.
    pub(crate) const WHOLE: u64 = !0;

    /// That of buckets that keep no hashes.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { mask: Self::WHOLE, taken: 0, filler: 0 };

    /// That of a table which is large enough for words that leave bits out.
    #[inline(always)]
    pub(crate) const fn told<B: Bucket>() -> Self {
        // Buckets that keep no hashes do not look at it.
        let spare = if B::SPARE_BITS == 0 { 1 } else { B::SPARE_BITS };
        Self { mask: !0 >> (spare - 1), taken: 1 << (64 - spare), filler: 0 }
    }

    /// The bit that says that a slot is taken, in a table whose words leave bits out.
    #[inline(always)]
    pub(crate) const fn taken(self) -> u64 {
        self.taken
    }

    /// The word of a hash, in the bits of `mask`.
    #[inline(always)]
    pub(crate) fn word(self, hash: u64) -> u64 {
        (hash | self.taken) ^ self.filler
    }
}

/// Which buckets of a segment a hash may be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Geometry {
    /// As many homes as there were in all if every part of this size had so many, and how many are those of parts before: so a hash
    /// finds its home by a product.
    scale: u64,
    before: u64,
    /// What the first `window` buckets combine hashes with, the others with 0; itself 0 if words leave bits out.
    filler: u64,
    /// The hashes of the segment.
    pub(crate) part: Part,
    homes: u32,
    window: u32,
}

impl Geometry {
    /// That of a new segment of so many entries, and with room for more.
    pub(crate) fn with_room_for<B: Bucket>(entries: usize, part: Part) -> Self {
        // Segments that always took the same step would all be full at the same time: up to a quarter of it more or less.
        let [first, last] = B::FILLED;
        let step = last - first;
        let filled =
            first * 8 + stream(part.first, entries as u64) as usize % (4 * step) - 2 * step;
        let homes = entries * 8 * 64 / (filled * B::SLOTS) + 1;
        Self::of::<B>(homes.max(B::LEAST_BUCKETS), WINDOW, part)
    }

    /// That of a new segment which takes so many entries before it is full; some more or less of all that are expected come here, and its
    /// count of them is an estimate.
    pub(super) fn for_expected<B: Bucket>(entries: usize, part: Part) -> Self {
        let homes = |entries: usize| entries.saturating_mul(64).div_ceil(B::FILLED[1] * B::SLOTS);
        let step = counted_step(homes(entries));
        let chance = if step == 1 && part.bits == 0 {
            0
        } else {
            // Four times the standard deviation.
            entries.saturating_mul(step).isqrt() * 4
        };
        let homes = homes(entries.saturating_add(chance)).saturating_add(1);
        Self::of::<B>(homes.clamp(B::LEAST_BUCKETS, MOST_HOMES), WINDOW, part)
    }

    /// The same with so many homes, or some more where whole blocks are taken.
    fn of<B: Bucket>(homes: usize, window: usize, part: Part) -> Self {
        let homes =
            if homes > BLOCK_BUCKETS { homes.next_multiple_of(BLOCK_BUCKETS) } else { homes };
        assert!(homes >> 31 == 0, "a segment names a bucket by 31 bits of a hash");
        assert!(part.bits < 32, "so the product with a hash has room");
        let window = window.min(homes / 2).max(1);
        let untold = B::SPARE_BITS.saturating_sub(part.bits);
        let tells = B::SPARE_BITS > 0 && (untold == 0 || homes >> untold > window + 1);
        // A hash of the home in the middle. The first bucket's is 0.
        let filler = if tells { 0 } else { 1 << 63 >> part.bits };
        let scale = (homes as u64) << part.bits;
        let before = part.first.checked_shr(64 - part.bits).unwrap_or(0) * homes as u64;
        Self { scale, before, filler, part, homes: homes as u32, window: window as u32 }
    }

    /// One with a quarter more homes.
    pub(super) fn larger<B: Bucket>(self) -> Self {
        Self::of::<B>(self.homes as usize * 5 / 4 + 1, WINDOW, self.part)
    }

    /// One with a wider window, or more homes if it is as wide as it can be: for hashes that were chosen to collide.
    pub(super) fn widened<B: Bucket>(self) -> Self {
        let (homes, window) = (self.homes as usize, self.window as usize);
        let more = if window < homes / 2 { homes } else { 2 * homes };
        Self::of::<B>(more, 2 * window, self.part)
    }

    /// How many blocks these are, the last one not full in a small segment.
    pub(super) fn blocks(self) -> usize {
        self.buckets().div_ceil(BLOCK_BUCKETS)
    }

    #[inline(always)]
    pub(crate) fn buckets(self) -> usize {
        self.homes as usize
    }

    /// The buckets all of whose hashes are of a part, this one or half of it, and those that may have some.
    pub(super) fn buckets_of(self, part: Part) -> (Range<usize>, [Range<usize>; 2]) {
        let (homes, window) = (self.homes as usize, self.window as usize);
        if part == self.part {
            return (0..homes, [0..0, 0..0]);
        }
        // An entry is behind its home, so both halves are where they meet, and at the beginning, where windows of the last homes go on.
        let lower = window.min(homes / 2)..homes / 2;
        let upper = (homes.div_ceil(2) + window).min(homes)..homes;
        let both = [0..lower.start, lower.end..upper.start];
        (if part.first == self.part.first { lower } else { upper }, both)
    }

    /// How many slots may be taken before the segment grows.
    #[inline(always)]
    pub(super) fn limit<B: Bucket>(self) -> usize {
        self.buckets() * B::SLOTS * B::FILLED[1] / 64
    }

    /// The first bucket of a hash of this part.
    #[inline(always)]
    pub(crate) fn home(self, hash: u64) -> usize {
        debug_assert!(self.part.has(hash), "S2");
        ((u128::from(hash) * u128::from(self.scale)) >> 64) as usize - self.before as usize
    }

    /// The buckets of a hash whose home this is.
    #[inline(always)]
    pub(crate) fn window(self, home: usize) -> impl Iterator<Item = usize> + Clone {
        let homes = self.homes as usize;
        (home..home + self.window as usize).map(move |at| if at < homes { at } else { at - homes })
    }

    /// How a bucket writes hashes, of at least four buckets.
    #[inline(always)]
    pub(crate) fn spelling<B: Bucket>(self, bucket: usize) -> Spelling {
        if const { B::SPARE_BITS > 0 } && self.tells() {
            return Spelling::told::<B>();
        }
        // The first buckets are those whose window may reach around the end.
        let filler = if bucket >= self.window as usize { 0 } else { self.filler };
        Spelling { mask: Spelling::WHOLE, taken: 0, filler }
    }

    /// Whether all buckets write hashes as [`Spelling::told`] says.
    #[inline(always)]
    pub(crate) fn tells(self) -> bool {
        self.filler == 0
    }

    /// A number that is 0 if they do: for a test of many at once.
    #[inline(always)]
    pub(crate) fn untold(self) -> u64 {
        self.filler
    }

    /// How many numbers of 63 bits name one home, rounded down: a division that [`hashes`](Self::hashes) is spared.
    pub(crate) fn places(self) -> u64 {
        (1 << 63) / u64::from(self.homes)
    }

    /// What finds the hashes of the words in a bucket.
    #[inline(always)]
    pub(crate) fn hashes<B: Bucket>(self, bucket: usize, places: u64) -> impl Fn(u64) -> u64 {
        let (filler, is_whole) = (self.spelling::<B>(bucket).filler, !self.tells());
        let bits = self.part.bits;
        // Behind the part's own bits a word lacks some. They follow from which homes there can be: of all hashes of the part that end
        // as the word does, it is the first behind `start`.
        let known = !0_u64 >> B::SPARE_BITS.saturating_sub(bits);
        let homes = u64::from(self.homes);
        let first_home = (bucket as u64 + 1).wrapping_sub(u64::from(self.window));
        let first_home =
            if first_home < homes { first_home } else { first_home.wrapping_add(homes) };
        // Where the first home begins, or a little before that: there is a home's width to spare.
        let start = (first_home * places) << 1;
        move |word| {
            if is_whole {
                return word ^ filler;
            }
            let behind = (word << bits).wrapping_sub(start) & known;
            self.part.first | start.wrapping_add(behind) >> bits
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::super::raw::tests::Four;
    use super::*;
    use std::collections::HashSet;

    use testkit::Rng;

    /// A part of all hashes, some of a geometry, and a number that never comes again.
    fn some() -> impl Iterator<Item = (Geometry, Rng)> {
        let mut rng = Rng::new(1);
        let sizes = [(0, 0), (4, 1), (20, 0), (100, 5), (5000, 6), (9000, 4), (20_000, 3)];
        let sizes =
            sizes.into_iter().chain([(5000, 12), (100_000, 1), (100_000, 2), (100_000, 30)]);
        sizes.flat_map(move |(entries, bits)| {
            let mut part = Part::ALL;
            while part.bits < bits {
                part = part.halves()[rng.next_u64() as usize % 2];
            }
            let mut geometry = Geometry::with_room_for::<Four>(entries, part);
            let rng = Rng::new(rng.next_u64());
            (0..4).map(move |_| {
                geometry = geometry.widened::<Four>();
                (geometry, rng.clone())
            })
        })
    }

    /// Hashes whose first or last bits agree, in part of a geometry's.
    fn hashes(geometry: Geometry, rng: &mut Rng) -> Vec<u64> {
        let end = !0 >> 1 >> geometry.part.bits.saturating_sub(1);
        let of_part = |hash: u64| geometry.part.first | hash & end;
        let low = rng.next_u64();
        let alike = (0..1 << Four::SPARE_BITS).map(|top| top << (64 - Four::SPARE_BITS) ^ low);
        let near = (0..64).map(|bit| low ^ 1 << bit);
        let ends = [0, 1, !0, !1];
        let hashes = alike.chain(near).chain(ends).chain((0..500).map(|_| rng.next_u64()));
        hashes.map(of_part).collect()
    }

    #[test]
    fn a_hash_comes_back_from_its_word_in_every_bucket_of_its_window() {
        let mut with_room = 0;
        for (geometry, mut rng) in some() {
            with_room += usize::from(geometry.tells());
            for hash in hashes(geometry, &mut rng) {
                for bucket in geometry.window(geometry.home(hash)) {
                    let spelling = geometry.spelling::<Four>(bucket);
                    let word = spelling.word(hash) & spelling.mask;
                    assert!(word > 1, "{geometry:?} {bucket}");
                    let others = rng.next_u64() & !spelling.mask;
                    assert_eq!(
                        geometry.hashes::<Four>(bucket, geometry.places())(word | others),
                        hash,
                        "{geometry:?}"
                    );
                }
            }
        }
        assert!((5..40).contains(&with_room), "{with_room} of both kinds");
    }

    #[test]
    fn no_hash_of_a_window_is_written_as_a_free_slot() {
        for (geometry, _) in some().filter(|(geometry, _)| !geometry.tells()) {
            let end = !0 >> geometry.part.bits;
            for bucket in (0..geometry.buckets()).rev().take(3000) {
                for word in [0, 1] {
                    let hash = word ^ geometry.spelling::<Four>(bucket).filler;
                    let hash = geometry.part.first | hash & end;
                    let mut window = geometry.window(geometry.home(hash));
                    assert!(window.all(|at| at != bucket), "{geometry:?} {bucket}");
                }
            }
        }
    }

    #[test]
    fn a_copy_of_a_part_meets_each_bucket_that_may_have_some_of_it_once() {
        for (geometry, mut rng) in some() {
            let (all, none) = geometry.buckets_of(geometry.part);
            assert!(all == (0..geometry.buckets()) && none.iter().all(Range::is_empty));
            for part in geometry.part.halves() {
                let (own, both) = geometry.buckets_of(part);
                let mut met = vec![0; geometry.buckets()];
                both.iter().cloned().chain([own.clone()]).flatten().for_each(|at| met[at] += 1);
                assert!(met.iter().all(|times| *times <= 1), "{geometry:?}");
                for hash in hashes(geometry, &mut rng) {
                    for bucket in geometry.window(geometry.home(hash)) {
                        let is_met =
                            if part.has(hash) { met[bucket] == 1 } else { !own.contains(&bucket) };
                        assert!(is_met, "{geometry:?} {hash:x} {bucket}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_segment_made_in_advance_takes_what_was_expected() {
        for bits in [0, 1, 5, 16] {
            let parts: Vec<_> = Part::all_of(bits).collect();
            assert_eq!(parts.len(), 1 << bits);
            assert!(parts[0].first == 0 && parts.last().is_some_and(|last| last.last() == !0));
            let follow = |pair: &[Part]| pair[0].last() + 1 == pair[1].first;
            assert!(parts.windows(2).all(follow), "{bits} bits");
            for entries in (0..200).chain([1000, 100_000]) {
                let geometry = Geometry::for_expected::<Four>(entries, parts[parts.len() / 2]);
                let (limit, slots) = (geometry.limit::<Four>(), geometry.buckets() * Four::SLOTS);
                assert!(limit > entries, "{entries}: {geometry:?}");
                let chance = entries.isqrt() * if slots < 16_384 { 5 } else { 17 };
                let most = 64 * (entries + chance) / Four::FILLED[1] + 4 * Four::SLOTS;
                assert!(slots <= most.next_multiple_of(BLOCK_BUCKETS * Four::SLOTS));
            }
        }
    }

    #[test]
    fn windows_lie_inside_of_the_segment() {
        for entries in (0..100).chain([1000, 3000, 100_000]) {
            let geometry = Geometry::with_room_for::<Four>(entries, Part::ALL.halves()[1]);
            let slots = geometry.buckets() * Four::SLOTS;
            assert!(slots * 10 >= entries * 14 && geometry.limit::<Four>() > entries + 1);
            for hash in [0, u64::MAX, u64::MAX >> 3, 1 << 60, 12345 << 40] {
                let hash = 1 << 63 | hash;
                let window: HashSet<_> = geometry.window(geometry.home(hash)).collect();
                assert!(window.iter().all(|at| *at < geometry.buckets()));
                assert_eq!(window.len(), geometry.window as usize);
            }
            let buckets = geometry.buckets();
            assert!(buckets <= BLOCK_BUCKETS || buckets.is_multiple_of(BLOCK_BUCKETS));
        }
    }
}
