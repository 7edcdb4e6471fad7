//! What a map remembers of its segments in memory: which hashes each stands for, locks, and counts. None of it is in the file.
//!
//! ```text
//! byte 0      8     16    24    32    40    48    56    64
//!      +------+-----+-----+-----+-----+-----+-----+-----+
//!      | name | versions of 4 stripes | live| away       |     one line for each block
//!      +------+-----+-----+-----+-----+-----+-----+-----+
//! ```
//!
//! A stripe is a quarter of a segment's buckets. A reader takes the versions of the stripes it reads, then the name, then slots,
//! and compares the versions: then all were of one moment.
//!
//! # Invariants
//!
//! * **N1** At every moment outside of changes each hash is covered by the name of one block.
//! * **N2** A name changes only while all stripes of its block are changing.
//! * **N3** The bit of `away` for a hash's bucket is set if its entry is in another bucket than that one.
//! * **N4** `live` is the number of entries, or `UNKNOWN`.

use std::sync::OnceLock;

use super::layout::{Block, MAX_DEPTH, Name};
use crate::mem::AllocError;
use crate::sync::shim::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::version::{Seen, Version};

/// Stripes of a segment.
pub(super) const STRIPES: usize = 4;

/// Buckets that share a bit of `away`, of a segment of `lines`.
fn away_bits(bits: u32) -> u32 {
    bits.saturating_sub(7)
}

/// What `live` is before anybody has counted.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// The memory of a block; see the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Shadow {
    name: AtomicU64,
    versions: [Version; STRIPES],
    live: AtomicU64,
    away: [AtomicU64; 2],
}

const _: () = assert!(size_of::<Shadow>() == 64);

impl Default for Shadow {
    fn default() -> Self {
        let away = [const { AtomicU64::new(0) }; 2];
        let name = AtomicU64::new(Name::NONE.0);
        Self { name, versions: Default::default(), live: AtomicU64::new(UNKNOWN), away }
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
        &self.versions[stripe]
    }

    /// Whether an entry of this bucket may be in another one; to be validated, or read under a lock.
    #[inline(always)]
    pub(super) fn may_be_away(&self, bucket: usize, bits: u32) -> bool {
        let at = bucket >> away_bits(bits);
        self.away[at >> 6 & 1].load(Relaxed) >> (at & 63) & 1 != 0
    }

    /// Notes that an entry of this bucket is in another one. The caller has all the bucket's stripes locked.
    pub(super) fn note_away(&self, bucket: usize, bits: u32) {
        let at = bucket >> away_bits(bits);
        let word = &self.away[at >> 6 & 1];
        // Who shares the word may be at it with another stripe locked.
        let mut now = word.load(Relaxed);
        while let Err(other) =
            word.compare_exchange_weak(now, now | 1 << (at & 63), Relaxed, Relaxed)
        {
            now = other;
        }
    }

    /// Forgets, or assumes, all entries that are away.
    pub(super) fn set_away(&self, may_be: bool) {
        let bits = if may_be { u64::MAX } else { 0 };
        self.away.iter().for_each(|word| word.store(bits, Relaxed));
    }

    /// How many entries there are, if that is known. Relaxed: a figure.
    pub(super) fn live(&self) -> Option<u64> {
        let live = self.live.load(Relaxed);
        (live != UNKNOWN).then_some(live)
    }

    pub(super) fn set_live(&self, live: u64) {
        self.live.store(live, Relaxed);
    }

    /// Counts entries that came, or went. A stripe of the block is locked.
    #[inline]
    pub(super) fn count(&self, change: i64) {
        if self.live.load(Relaxed) != UNKNOWN {
            // Nobody makes it known or unknown meanwhile: that takes all stripes.
            self.live.fetch_add(change.cast_unsigned(), Relaxed);
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
        let shift = bits - 2;
        let first = bucket >> shift;
        let last = (bucket + probed - 1) >> shift;
        if first == last {
            return Self(1 << first);
        }
        (first..=last.min(first + STRIPES - 1))
            .fold(Self(0), |all, at| Self(all.0 | 1 << (at % STRIPES)))
    }

    /// The stripes in ascending order.
    #[inline(always)]
    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..STRIPES).filter(move |at| self.0 >> at & 1 != 0)
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
    chunks: [OnceLock<Box<[Shadow]>>; CHUNKS],
}

/// Blocks of the first chunk; each further one has twice as many.
const FIRST: usize = 64;
const CHUNKS: usize = 27;

impl Shadows {
    pub(super) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    #[inline(always)]
    fn place(block: Block) -> (usize, usize) {
        let at = block.0 as usize + FIRST;
        let chunk = at.ilog2() - FIRST.ilog2();
        (chunk as usize, at - (FIRST << chunk))
    }

    /// The shadow of a block that `make` was called for.
    #[inline(always)]
    pub(super) fn get(&self, block: Block) -> &Shadow {
        let (chunk, at) = Self::place(block);
        &self.chunks[chunk].get().expect("blocks have shadows before they have names")[at]
    }

    /// Makes the shadow of a block, if there is memory for it. Blocks come in ascending order; `next` is what was made of the next
    /// chunk so far, some with each block, so that no call makes all of a large chunk.
    pub(super) fn make(&self, block: Block, next: &mut Vec<Shadow>) -> Result<(), AllocError> {
        let (chunk, _) = Self::place(block);
        if self.chunks[chunk].get().is_none() {
            Self::make_some(next, chunk, usize::MAX)?;
            let made = self.chunks[chunk].set(core::mem::take(next).into_boxed_slice());
            debug_assert!(made.is_ok(), "whoever calls this holds the lock of the space");
        } else if chunk + 1 < CHUNKS {
            // Whose block comes first will say if there is no memory. A chunk has twice the blocks of the one before.
            let _ = Self::make_some(next, chunk + 1, 3);
        }
        Ok(())
    }

    /// Makes so many more shadows of a chunk, or all that are missing.
    fn make_some(next: &mut Vec<Shadow>, chunk: usize, count: usize) -> Result<(), AllocError> {
        let all = FIRST << chunk;
        let bytes = all * size_of::<Shadow>();
        next.try_reserve_exact(all - next.len()).map_err(|_| AllocError { bytes })?;
        next.resize_with(next.len().saturating_add(count).min(all), Shadow::default);
        Ok(())
    }
}

/// Where the segments of hashes are, in memory: hints, which the names of blocks confirm.
#[derive(Debug)]
pub(super) struct Hints {
    depth: AtomicU32,
    arrays: [OnceLock<Box<[AtomicU32]>>; MAX_DEPTH as usize + 1],
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
    pub(super) fn set_all(&self, depth: u32, hints: Vec<AtomicU32>) {
        debug_assert_eq!(hints.len(), 1 << depth);
        let place = &self.arrays[depth as usize];
        if let Some(array) = place.get() {
            for (old, new) in array.iter().zip(&hints) {
                old.store(new.load(Relaxed), Relaxed);
            }
        } else {
            let _ = place.set(hints.into_boxed_slice());
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
