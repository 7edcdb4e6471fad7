//! What a map remembers of its segments in memory: which hashes each stands for, locks, and counts. None of it is in the file.
//!
//! ```text
//! byte 0      8     16    24    32    40    48    56    64
//!      +------+-----+-----+-----+-----+-----+-----+-----+
//!      | name | versions  |live | away                  |     one line for each block; for each of 2 stripes
//!      +------+-----+-----+-----+-----+-----+-----+-----+     a version, a count of 32 bits, 128 bits of away
//! ```
//!
//! A stripe is half of a segment's buckets. A reader takes the versions of the stripes it reads, then the name, then slots,
//! and compares the versions: then all were of one moment.
//!
//! # Invariants
//!
//! * **N1** At every moment outside of changes each hash is covered by the name of one block.
//! * **N2** A name changes only while all stripes of its block are changing.
//! * **N3** The bit of `away` for a hash's bucket is set if its entry is in another bucket than that one.
//! * **N4** `live` of a stripe is the number of its entries, or `UNKNOWN`.
//! * **N5** A stripe's `live` and `away` change only under its lock. So a call that writes has one exchange, that of the lock:
//!   each more would keep a processor from asking for the lines of the next call while it waits for those of this one.
//! * **N6** Whoever brings or takes an entry of a bucket, or sets the bucket's bit of `away`, has the stripe of that bucket locked,
//!   wherever the entry is. So who holds only that one and finds neither the hash nor the bit may put the entry into the bucket.
//! * **N7** Who waits for a block while he holds one, waits for a free one that he took (a split), or holds one that has a name and waits
//!   for one of a higher number (a merge). Who else holds a free block waits for nobody. So nobody waits in a circle.

use core::iter;
use std::sync::OnceLock;

use super::layout::{Block, MAX_DEPTH, Name};
use crate::mem::AllocError;
use crate::mem::fixed::Fixed;
use crate::sync::shim::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::version::{Seen, Version};

/// Stripes of a segment.
pub(super) const STRIPES: usize = 2;

/// Bits of `away`, as many for each stripe.
const AWAY_BITS: usize = 256;
const AWAY_WORDS: usize = AWAY_BITS / 64;

/// Which word of `away`, and which bit of it, a bucket has in a segment of `2^bits` buckets. Large ones share bits, small ones leave
/// some between them.
#[inline(always)]
fn away_of(bucket: usize, bits: u32) -> (usize, u64) {
    let at = (bucket * AWAY_BITS) >> bits;
    (at / 64 % AWAY_WORDS, 1 << (at % 64))
}

/// What `live` is before anybody has counted.
const UNKNOWN: u32 = u32::MAX;

/// The memory of a block; see the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Shadow {
    name: AtomicU64,
    versions: [Version; STRIPES],
    live: [AtomicU32; STRIPES],
    away: [AtomicU64; AWAY_WORDS],
}

const _: () = assert!(size_of::<Shadow>() == 64);

impl Default for Shadow {
    fn default() -> Self {
        Self {
            name: AtomicU64::new(Name::NONE.0),
            versions: Default::default(),
            live: [const { AtomicU32::new(UNKNOWN) }; STRIPES],
            away: [const { AtomicU64::new(0) }; AWAY_WORDS],
        }
    }
}

impl Shadow {
    /// The name; to be validated by a version.
    #[inline(always)]
    pub(super) fn name(&self) -> Name {
        // Relaxed: validated by the versions (N2), or read under a lock.
        Name(self.name.load(Relaxed))
    }

    /// Gives the block another name (N2).
    pub(super) fn set_name(&self, name: Name) {
        self.name.store(name.0, Relaxed);
    }

    #[inline(always)]
    pub(super) fn version(&self, stripe: usize) -> &Version {
        &self.versions[stripe % STRIPES]
    }

    /// Whether an entry of this bucket may be in another one; to be validated, or read under a lock.
    #[inline(always)]
    pub(super) fn may_be_away(&self, bucket: usize, bits: u32) -> bool {
        let (word, bit) = away_of(bucket, bits);
        self.away[word].load(Relaxed) & bit != 0
    }

    /// Notes that an entry of this bucket is in another one. The caller has the bucket's stripe locked.
    #[inline]
    pub(super) fn note_away(&self, bucket: usize, bits: u32) {
        let (word, bit) = away_of(bucket, bits);
        // Relaxed: N5.
        let away = self.away[word].load(Relaxed);
        self.away[word].store(away | bit, Relaxed);
    }

    /// Forgets, or assumes, all entries that are away.
    pub(super) fn set_away(&self, may_be: bool) {
        let bits = if may_be { u64::MAX } else { 0 };
        self.away.iter().for_each(|word| word.store(bits, Relaxed));
    }

    /// How many entries there are, if that is known. Relaxed: a figure.
    pub(super) fn live(&self) -> Option<u64> {
        self.live.iter().try_fold(0, |sum, live| {
            let live = live.load(Relaxed);
            (live != UNKNOWN).then_some(sum + u64::from(live))
        })
    }

    /// Says how many entries each stripe has.
    pub(super) fn set_live(&self, live: [usize; STRIPES]) {
        for (place, live) in self.live.iter().zip(live) {
            place.store(live as u32, Relaxed);
        }
    }

    /// Says that nobody has counted.
    pub(super) fn set_live_unknown(&self) {
        self.set_live([UNKNOWN as usize; STRIPES]);
    }

    /// Counts an entry of a stripe that came, or went. The stripe is locked.
    #[inline]
    pub(super) fn count(&self, stripe: usize, change: i32) {
        // Relaxed: N5.
        let place = &self.live[stripe % STRIPES];
        let live = place.load(Relaxed);
        if live != UNKNOWN {
            place.store(live.wrapping_add_signed(change), Relaxed);
        }
    }
}

/// Stripes of a segment, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stripes(u8);

impl Stripes {
    pub(super) const ALL: Self = Self((1 << STRIPES) - 1);

    /// The stripes of `probed` buckets from `bucket` on, of a segment of `2^bits` buckets.
    #[inline(always)]
    pub(super) fn of(bucket: usize, probed: usize, bits: u32) -> Self {
        let shift = bits - STRIPES.ilog2();
        let first = bucket >> shift;
        let count = ((bucket + probed - 1) >> shift) - first + 1;
        // Those behind the last one are the first ones.
        let all = ((1_u32 << count.min(STRIPES)) - 1) << first;
        Self((all | all >> STRIPES) as u8 & Self::ALL.0)
    }

    /// Their numbers, ascending.
    #[inline(always)]
    pub(super) fn iter(mut self) -> impl Iterator<Item = usize> {
        iter::from_fn(move || {
            let at = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
            self.0 &= self.0 - 1;
            Some(at)
        })
    }
}

/// What a reader saw of the stripes it reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    stripes: Stripes,
    seen: [Option<Seen>; STRIPES],
}

impl Shadow {
    /// Starts a read of some stripes; `None` if they are being changed.
    #[inline(always)]
    pub(super) fn begin(&self, stripes: Stripes) -> Option<Look> {
        let mut seen = [None; STRIPES];
        for at in stripes.iter() {
            let now = self.versions[at].begin();
            if now.is_changing() {
                return None;
            }
            seen[at] = Some(now);
        }
        Some(Look { stripes, seen })
    }

    /// Whether all that was read since `begin` was of one moment.
    #[inline(always)]
    pub(super) fn holds(&self, look: &Look) -> bool {
        look.stripes
            .iter()
            .all(|at| look.seen[at].is_some_and(|seen| self.versions[at].end(seen).is_some()))
    }
}

/// The shadows of all blocks; they never move and are never freed before the map is.
#[derive(Debug)]
pub(super) struct Shadows {
    chunks: [OnceLock<Fixed<Shadow>>; CHUNKS],
    in_small_pages: bool,
}

/// Blocks of the first chunk; each further one has twice as many.
const FIRST: usize = 64;
const CHUNKS: usize = 27;

impl Shadows {
    pub(super) fn new(in_small_pages: bool) -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS], in_small_pages }
    }

    #[inline(always)]
    fn place(block: Block) -> (usize, usize) {
        let at = block.0 as usize + FIRST;
        let bits = at.ilog2();
        ((bits - FIRST.ilog2()) as usize, at ^ 1 << bits)
    }

    /// The shadow of a block that `make` was called for.
    #[inline(always)]
    pub(super) fn get(&self, block: Block) -> &Shadow {
        let (chunk, at) = Self::place(block);
        &self.chunks[chunk].get().expect("blocks have shadows before they have names")[at]
    }

    /// Makes the shadow of a block, if there is memory for it. Blocks come in ascending order; `next` is what was made of the next
    /// chunk so far, some with each block, so that no call makes all of a large chunk.
    pub(super) fn make(
        &self,
        block: Block,
        next: &mut Option<Fixed<Shadow>>,
    ) -> Result<(), AllocError> {
        let (chunk, _) = Self::place(block);
        if self.chunks[chunk].get().is_none() {
            self.make_some(next, chunk, usize::MAX)?;
            let made = next.take().map(|all| self.chunks[chunk].set(all));
            debug_assert!(made.is_some_and(|made| made.is_ok()), "whoever calls this has the lock");
        } else if chunk + 1 < CHUNKS {
            // Whose block comes first will say if there is no memory. A chunk has twice the blocks of the one before.
            let _ = self.make_some(next, chunk + 1, 3);
        }
        Ok(())
    }

    /// Makes so many more shadows of a chunk, or all that are missing.
    fn make_some(
        &self,
        next: &mut Option<Fixed<Shadow>>,
        chunk: usize,
        count: usize,
    ) -> Result<(), AllocError> {
        let made = match next {
            Some(made) => made,
            None => next.insert(Fixed::with_room(FIRST << chunk, self.in_small_pages)?),
        };
        for _ in 0..count.min(made.room() - made.len()) {
            made.push(Shadow::default());
        }
        Ok(())
    }
}

/// Where the segments of hashes are, in memory: hints, which the names of blocks confirm.
#[derive(Debug)]
pub(super) struct Hints {
    depth: AtomicU32,
    arrays: [OnceLock<Fixed<AtomicU32>>; MAX_DEPTH as usize + 1],
}

impl Hints {
    pub(super) fn new() -> Self {
        Self { depth: AtomicU32::new(0), arrays: [const { OnceLock::new() }; _] }
    }

    /// The block that stood for a hash a moment ago.
    #[inline(always)]
    pub(super) fn get(&self, hash: u64) -> Block {
        // ORDER: Acquire, pairs with the Release store in `set_all`: the array of that depth is there.
        let depth = self.depth.load(Acquire);
        let array = self.arrays[depth as usize].get().expect("there is an array of the depth");
        // Relaxed: what it names is confirmed by the block's own name.
        Block(array[(hash >> (64 - depth)) as usize].load(Relaxed))
    }

    /// Sets all hints of a depth, and makes it that in use. Whoever calls this holds the lock of the structure.
    pub(super) fn set_all(&self, depth: u32, hints: Fixed<AtomicU32>) {
        debug_assert_eq!(hints.len(), 1 << depth);
        let place = &self.arrays[depth as usize];
        if let Some(array) = place.get() {
            for (old, new) in array.iter().zip(&*hints) {
                old.store(new.load(Relaxed), Relaxed);
            }
        } else {
            let _ = place.set(hints);
        }
        // ORDER: Release, pairs with the Acquire load in `get`.
        self.depth.store(depth, Release);
    }

    /// The depth in use.
    pub(super) fn depth(&self) -> u32 {
        self.depth.load(Relaxed)
    }

    /// Names another block for all hashes of a name.
    pub(super) fn set(&self, name: Name, block: Block) {
        let depth = self.depth();
        let array = self.arrays[depth as usize].get().expect("there is an array of the depth");
        let first = (name.first() >> (64 - depth)) as usize;
        for hint in &array[first..][..1 << (depth - name.depth())] {
            hint.store(block.0, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_bit_of_away_is_changed_under_one_lock_only() {
        for bits in 2..=16 {
            for bucket in 0..1_usize << bits {
                let (word, bit) = away_of(bucket, bits);
                let stripe = word / (AWAY_WORDS / STRIPES);
                assert_eq!(Stripes::of(bucket, 1, bits), Stripes(1 << stripe));
                let is_alone = |other: usize| away_of(other, bits) != (word, bit);
                assert!(bits > 8 || (0..bucket).all(is_alone), "{bucket} of 2^{bits}");
            }
        }
    }

    #[test]
    fn the_stripes_of_a_key_are_those_of_its_buckets() {
        for (bits, probed) in (2..=9).flat_map(|bits| (1..=1 << bits).map(move |n| (bits, n))) {
            for bucket in 0..1_usize << bits {
                let buckets = (bucket..bucket + probed).map(|at| at % (1 << bits));
                let all = buckets.fold(0, |all, at| all | 1 << (at >> (bits - STRIPES.ilog2())));
                assert_eq!(Stripes::of(bucket, probed, bits), Stripes(all));
            }
        }
    }
}
