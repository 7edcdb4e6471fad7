//! One generation of the table's memory, and the pointer to the current one.
//!
//! # Invariants
//!
//! * **M1** The three areas of a [`Table`] are zeroed memory of their own, made of whole lines. Tags and nodes are only
//!   accessed as [`Line`]s, blocks only as refs. Any bits are valid ones, because both are atomics.
//! * **M2** The number of buckets is positive, below 2^32, and never changes. There are 31 nodes for each, and the
//!   root behind them.
//! * **M3** The pointer of a [`Current`] is null or comes from `Box::into_raw` of a table that no other `Current`
//!   names. Only the holder of its one [`Exclusive`] replaces it.
//! * **M4** A table that was replaced is handed out once, as [`Garbage`], and dropped only when every guard that
//!   existed at that time is gone: `Garbage` goes into the limbo of the map.

#![expect(
    unsafe_code,
    reason = "views memory as lines and follows the pointer to the current table"
)]

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Exclusive;
use super::layout::{BLOCK_LINES, LANES, LINE_REFS, Line, bucket_of};
use crate::arch::Avx512;
use crate::mem::AllocError;
use crate::mem::pages::Pages;
use crate::sync::epoch::{Guard, Unlinked};
use crate::sync::shim::{AtomicPtr, AtomicU32};

/// A piece of zeroed memory, as lines.
#[derive(Debug)]
struct Area {
    pages: Pages,
    lines: usize,
}

impl Area {
    /// Allocates an area.
    ///
    /// # Errors
    ///
    /// If the system gives no memory.
    fn new(lines: usize) -> Result<Self, AllocError> {
        let bytes = lines.checked_mul(size_of::<Line>());
        let bytes = bytes.ok_or(AllocError { bytes: usize::MAX })?;
        Ok(Self { pages: Pages::zeroed(bytes)?, lines })
    }

    #[inline(always)]
    fn lines(&self) -> &[Line] {
        let base: NonNull<Line> = self.pages.base().cast();
        // SAFETY: the area has room for `lines` lines, is aligned to a line, initialised, and shared as lines
        // only, whose words are atomics (M1).
        unsafe { core::slice::from_raw_parts(base.as_ptr(), self.lines) }
    }

    #[inline(always)]
    fn refs(&self) -> &[AtomicU32] {
        let base: NonNull<AtomicU32> = self.pages.base().cast();
        // SAFETY: the area has room for `lines` lines of so many refs, is initialised, and shared as refs only, which
        // are atomics (M1).
        unsafe { core::slice::from_raw_parts(base.as_ptr(), self.lines * LINE_REFS) }
    }
}

/// One generation: buckets, the node of each lane and the root, and wide blocks, the first of which is the root's.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Table {
    tags: Area,
    nodes: Area,
    blocks: Area,
    /// Length of the longest stored prefix.
    deepest: AtomicU32,
    /// How many landmarks the longest anchor has.
    landmarks: AtomicU32,
    /// Bit `r` for each remainder `r` that the length of a stored prefix leaves when divided by 8; never bit 0.
    rests: AtomicU32,
    /// The number of the last ref in the area of blocks.
    last_ref: usize,
    /// The better kernel, if the machine has it.
    pub(super) avx512: Option<Avx512>,
}

/// In a set of lanes: the root is the node. No node has this lane of a bucket, the mark's.
pub(super) const ROOT_LANE: u32 = 1 << LANES;
/// With `ROOT_LANE`: the hash of the root. Its bucket is the last one, whose lanes the root's node follows.
pub(super) const ROOT_HASH: u64 = u64::MAX;

impl Table {
    /// Allocates a table with room for `31 * buckets` nodes and `block_lines` lines of blocks behind the root's.
    ///
    /// # Errors
    ///
    /// If the system gives no memory.
    pub(super) fn new(buckets: usize, block_lines: usize) -> Result<Box<Self>, AllocError> {
        assert!(buckets > 0 && buckets >> 32 == 0, "M2");
        Ok(Box::new(Self {
            tags: Area::new(buckets)?,
            nodes: Area::new(buckets * LANES + 1)?,
            blocks: Area::new(BLOCK_LINES + block_lines)?,
            deepest: AtomicU32::new(0),
            landmarks: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            last_ref: (BLOCK_LINES + block_lines) * LINE_REFS - 1,
            avx512: Avx512::detect(),
        }))
    }

    /// The bucket at which the search for `hash` starts, and its index.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> (usize, &Line) {
        let i = bucket_of(hash, self.tags.lines);
        // SAFETY: `i` is the upper half of a product of a 64-bit number and the number of buckets (M2), so it is less
        // than the latter.
        (i, unsafe { self.tags.lines().get_unchecked(i) })
    }

    /// The bucket at which the search goes on that found bucket `i` marked.
    pub(super) fn after(&self, i: usize) -> usize {
        if i + 1 < self.tags.lines { i + 1 } else { 0 }
    }

    #[inline(always)]
    pub(super) fn buckets(&self) -> &[Line] {
        self.tags.lines()
    }

    /// The nodes of all lanes.
    #[inline(always)]
    pub(super) fn nodes(&self) -> &[Line] {
        &self.nodes.lines()[..self.tags.lines * LANES]
    }

    /// The root's node.
    pub(super) fn root(&self) -> &Line {
        self.node(ROOT_HASH, ROOT_LANE)
    }

    /// The node in the first of `lanes` of the home bucket of `hash`; or the root, see `ROOT_LANE`.
    #[inline(always)]
    pub(super) fn node(&self, hash: u64, lanes: u32) -> &Line {
        let bucket = bucket_of(hash, self.tags.lines);
        let slot = bucket * LANES + (lanes | ROOT_LANE).trailing_zeros() as usize;
        // SAFETY: `bucket` is less than the number of buckets, see `home`, and the lane is at most 31, so `slot` is at
        // most 31 times that number, which is the root's (M2).
        unsafe { self.nodes.lines().get_unchecked(slot) }
    }

    /// Ref `i - 1` and ref `i` of the area of blocks, if it has both.
    #[inline(always)]
    pub(super) fn refs(&self, i: usize) -> Option<(u32, u32)> {
        let before = i.wrapping_sub(1);
        if before >= self.last_ref {
            return None;
        }
        let refs = self.blocks.refs();
        // SAFETY: so `i` is at least 1 and at most `last_ref`, the last index.
        let (before, this) = unsafe { (refs.get_unchecked(before), refs.get_unchecked(i)) };
        // Relaxed: as in `Line::word`.
        Some((before.load(Relaxed), this.load(Relaxed)))
    }

    /// All refs of the area of blocks.
    #[inline(always)]
    pub(super) fn blocks(&self) -> &[AtomicU32] {
        self.blocks.refs()
    }

    /// Length of the longest stored prefix, and how many landmarks the longest anchor has. Relaxed: limits of
    /// a search that is a guess anyway.
    #[inline(always)]
    pub(super) fn limits(&self) -> (usize, usize) {
        (self.deepest.load(Relaxed) as usize, self.landmarks.load(Relaxed) as usize)
    }

    pub(super) fn raise_limits(&self, deepest: usize, landmarks: usize) {
        let (old_deepest, old_landmarks) = self.limits();
        self.deepest.store(old_deepest.max(deepest) as u32, Relaxed);
        self.landmarks.store(old_landmarks.max(landmarks) as u32, Relaxed);
    }

    /// The remainders that lengths of stored prefixes leave when divided by 8, a bit for each. Relaxed: as `limits`.
    #[inline(always)]
    pub(super) fn rests(&self) -> u32 {
        self.rests.load(Relaxed)
    }

    pub(super) fn set_rests(&self, rests: u32) {
        self.rests.store(rests, Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        let areas = self.tags.lines + self.nodes.lines + self.blocks.lines;
        size_of::<Self>() + areas * size_of::<Line>()
    }
}

/// A replaced table, to be dropped when nobody can still be reading it (M4).
#[derive(Debug)]
#[must_use = "readers may still be in the old table: put it into the limbo"]
pub(crate) struct Garbage(#[expect(dead_code, reason = "kept to be dropped")] Box<Table>);

impl Unlinked for Garbage {
    fn is_large(&self) -> bool {
        true
    }
}

/// The pointer to the current table, null while there is none.
#[derive(Debug)]
pub(super) struct Current(AtomicPtr<Table>);

impl Current {
    pub(super) const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the table for a reader, who keeps the guard for as long.
    #[inline(always)]
    pub(super) fn get<'g>(&self, _pinned: &'g Guard) -> Option<&'g Table> {
        // ORDER: Acquire, pairs with the Release store in `replace`: the table is complete.
        let table = self.0.load(Acquire);
        // SAFETY: null, or a table that was current after the guard was made and is not dropped before the
        // guard is (M3, M4).
        unsafe { table.as_ref() }
    }

    /// Returns the table for the writer, who cannot replace it while borrowed.
    pub(super) fn get_for_writer<'w>(&self, _exclusive: &'w Exclusive) -> Option<&'w Table> {
        // Relaxed: only the writer stores here, and a new writer took over by a lock.
        let table = self.0.load(Relaxed);
        // SAFETY: null, or the current table; replacing it takes the writer mutably (M3).
        unsafe { table.as_ref() }
    }

    /// Makes `table` the current one and returns the one before.
    pub(super) fn replace(
        &self,
        table: Option<Box<Table>>,
        _exclusive: &mut Exclusive,
    ) -> Option<Garbage> {
        // Relaxed: as in `get_for_writer`.
        let old = self.0.load(Relaxed);
        // ORDER: Release, pairs with the Acquire load in `get`.
        self.0.store(table.map_or(ptr::null_mut(), Box::into_raw), Release);
        // SAFETY: not null, so it came from `Box::into_raw`, and it is taken back once, here (M3).
        NonNull::new(old).map(|old| Garbage(unsafe { Box::from_raw(old.as_ptr()) }))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(table) = NonNull::new(*self.0.get_mut()) {
            // SAFETY: the pointer came from `Box::into_raw` (M3); nobody reads a table that is being dropped.
            drop(unsafe { Box::from_raw(table.as_ptr()) });
        }
    }
}
