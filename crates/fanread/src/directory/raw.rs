//! The memory of segments, and the table of their names.
//!
//! # Invariants
//!
//! * **M1** The memory of a segment is zeroed at first, made of whole buckets, lives as long as the segment, and is only accessed
//!   as buckets, which are made of atomics.
//! * **M2** A table of names has two to the power of `64 - shift` of them, none of which is ever null.

#![expect(unsafe_code, reason = "views memory as buckets, and looks at names unchecked")]

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::OnceLock;

use super::layout::{BLOCK_BUCKETS, Spelling};
use super::segment::Segment;
use crate::mem::arena::Arena;
use crate::mem::pages::Pages;
use crate::mem::{AllocError, LINE_BYTES};
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shared::Shared;
use crate::sync::version::Version;

/// The base-2 logarithm of a block's bytes.
const BLOCK_SHIFT: u32 = (BLOCK_BUCKETS * LINE_BYTES).ilog2();

/// A line of slots. A slot is *free* before it is ever taken, and *gone* after an entry was removed behind which others may
/// have gone.
///
/// # Safety
///
/// It takes a line, is aligned to one, and is made of atomics; if all of its bytes are 0, all of its slots are free.
pub(crate) unsafe trait Bucket: Send + Sync + Sized + 'static {
    /// What is kept for a hash.
    type Entry: Copy;

    /// How many slots there are, at most 32.
    const SLOTS: usize;

    /// Buckets of the smallest segment: one, or at least four if fillers are used.
    const LEAST_BUCKETS: usize;

    /// How many of 64 slots are taken in a new segment, about, and in one that is full.
    const FILLED: [usize; 2];

    /// How many top bits of a hash words leave out where a bucket tells them.
    const SPARE_BITS: u32;

    /// Blocks of 32 KB of a segment that is split rather than made larger.
    ///
    /// Writers of a segment wait while it is copied; smaller ones make the list of names longer, which is to stay in L1 and L2.
    const MOST_BLOCKS: usize;

    /// The free slots, a bit for each.
    fn free(&self) -> u32;

    /// The slots that are gone.
    fn gone(&self, mask: u64) -> u32;

    /// Puts an entry into a slot that is free or gone.
    fn fill(&self, slot: usize, hash: u64, spelling: Spelling, entry: Self::Entry);

    /// As `fill`, of a bucket that was all free slots, which no entry went past yet.
    fn fill_first(&self, slot: usize, hash: u64, spelling: Spelling, entry: Self::Entry) {
        self.fill(slot, hash, spelling, entry);
    }

    /// Makes a slot free, or gone.
    fn empty(&self, slot: usize, gone: bool, spelling: Spelling);

    /// Notes that an entry of this hash is in one of the buckets behind.
    fn pass(&self, hash: u64, spelling: Spelling);

    /// Whether an entry of this hash may be in one of the buckets behind.
    fn is_passed(&self, hash: u64, mask: u64) -> bool;

    /// A number that was kept in a bucket which nobody uses.
    fn note(&self) -> u64;

    /// Keeps a number in a bucket that nobody uses.
    fn set_note(&self, note: u64);

    /// Makes all slots of a bucket free that nobody uses.
    fn clear(&self);
}

/// Blocks of buckets: fresh ones, or used before.
#[derive(Debug)]
pub(super) struct Blocks<B> {
    /// Made when the first block is: most maps have none.
    arena: OnceLock<Box<Arena<BLOCK_SHIFT, 0>>>,
    /// The first of those that were given back; each names the next in its first bucket, 0 at the end.
    free: Lock<u64>,
    buckets: PhantomData<fn() -> B>,
}

impl<B: Bucket> Blocks<B> {
    pub(super) const fn new() -> Self {
        Self { arena: OnceLock::new(), free: Lock::new(0), buckets: PhantomData }
    }

    fn arena(&self) -> &Arena<BLOCK_SHIFT, 0> {
        self.arena.get_or_init(|| Box::new(Arena::new()))
    }

    fn first_bucket(&self, unit: u64) -> NonNull<B> {
        const { assert!(size_of::<B>() == LINE_BYTES && align_of::<B>() == LINE_BYTES) };
        NonNull::new(self.arena().at(unit).cast()).expect("a unit that was handed out")
    }

    /// The buckets of a block.
    fn buckets(&self, unit: u64) -> &[B] {
        // SAFETY: a unit is a zeroed block that stays in its place while the arena lives (M1).
        unsafe { core::slice::from_raw_parts(self.first_bucket(unit).as_ptr(), BLOCK_BUCKETS) }
    }

    /// Hands out a block of free slots.
    fn take(&self) -> Result<u64, AllocError> {
        let mut free = self.free.lock();
        let unit = *free;
        if unit == 0 {
            drop(free);
            #[cfg(test)]
            if crate::mem::failing::fails_now() {
                return Err(AllocError { bytes: 1 << BLOCK_SHIFT });
            }
            return self.arena().grow(1);
        }
        *free = self.buckets(unit)[0].note();
        drop(free);
        self.buckets(unit).iter().for_each(B::clear);
        Ok(unit)
    }

    /// Takes a block back that nobody reads any more.
    fn give_back(&self, unit: u64) {
        let mut free = self.free.lock();
        self.buckets(unit)[0].set_note(*free);
        *free = unit;
    }

    /// Bytes of all blocks, those that wait included.
    pub(super) fn bytes(&self) -> usize {
        self.arena.get().map_or(0, |arena| arena.resident_bytes())
    }
}

/// Segments by the top bits of a hash.
#[derive(Debug)]
pub(super) struct Table<B: Bucket> {
    names: Box<[Shared<Segment<B>>]>,
    /// How many bits of a hash are not looked at.
    shift: u32,
}

impl<B: Bucket> Table<B> {
    /// One of names of which none is null; two, or four, or eight, and so on.
    pub(super) fn new(names: Box<[Shared<Segment<B>>]>) -> Self {
        assert!(names.len() > 1 && names.len().is_power_of_two(), "M2");
        let shift = 64 - names.len().ilog2();
        Self { names, shift }
    }

    /// How many bits of a hash are looked at.
    pub(super) fn bits(&self) -> u32 {
        64 - self.shift
    }

    #[inline(always)]
    pub(super) fn index(&self, hash: u64) -> usize {
        (hash >> (self.shift & 63)) as usize
    }

    /// The segment of a hash.
    #[inline(always)]
    pub(super) fn get<'g>(&self, hash: u64, guard: &'g Guard) -> &'g Segment<B> {
        // SAFETY: so many bits of a hash number the names (M2).
        let name = unsafe { self.names.get_unchecked(self.index(hash)) };
        // SAFETY: none is null (M2).
        unsafe { name.get(guard).unwrap_unchecked() }
    }

    /// All names. Who stores one stores no null.
    pub(super) fn all(&self) -> &[Shared<Segment<B>>] {
        &self.names
    }
}

/// As many of something as a segment has blocks, of which a search keeps no length.
#[derive(Debug)]
struct Each<T>(NonNull<T>);

impl<T> Each<T> {
    fn new(all: impl Iterator<Item = T>) -> Self {
        let all: Box<[T]> = all.collect();
        Self(NonNull::from(Box::leak(all)).cast())
    }

    /// That of a block.
    ///
    /// # Safety
    ///
    /// There are more of them.
    #[inline(always)]
    unsafe fn get(&self, block: usize) -> &T {
        // SAFETY: the caller's promise; they live as long as we do.
        unsafe { self.0.add(block).as_ref() }
    }

    /// All of them.
    ///
    /// # Safety
    ///
    /// So many were made.
    unsafe fn all(&self, blocks: usize) -> &[T] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr(), blocks) }
    }

    /// Drops them.
    ///
    /// # Safety
    ///
    /// So many were made, and none is used any more.
    unsafe fn free(&mut self, blocks: usize) {
        // SAFETY: this is what `new` has leaked.
        drop(unsafe {
            Box::from_raw(core::ptr::slice_from_raw_parts_mut(self.0.as_ptr(), blocks))
        });
    }
}

/// The memory of a segment.
///
/// The two addresses that every search needs come first, so that they are in a line with what leads to them.
///
/// # Invariants
///
/// * **M3** There are `blocks` firsts, and versions.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Memory<B> {
    /// For each block of [`BLOCK_BUCKETS`] buckets, where the segment's first bucket would be if all were in one piece with these: the
    /// address of memory that is not ours, but for what is in this block.
    firsts: Each<*const B>,
    /// What a block's writers lock. Not beside its address, which every search waits for: a line that another core has just written
    /// comes from there, which takes as long as one from memory.
    versions: Each<Version>,
    blocks: usize,
    /// The blocks' units, or the one piece of a small segment.
    units: Box<[u64]>,
    own: Option<Pages>,
}

// SAFETY: memory without thread affinity, that is only accessed as buckets (M1).
unsafe impl<B: Bucket> Send for Memory<B> {}
// SAFETY: as above.
unsafe impl<B: Bucket> Sync for Memory<B> {}

impl<B> Drop for Memory<B> {
    fn drop(&mut self) {
        // SAFETY: so many of both were made (M3), and nobody has the segment any more.
        unsafe {
            self.firsts.free(self.blocks);
            self.versions.free(self.blocks);
        }
    }
}

impl<B: Bucket> Memory<B> {
    /// Takes memory for so many buckets.
    ///
    /// # Errors
    ///
    /// If the system gives none.
    pub(super) fn new(blocks: &Blocks<B>, buckets: usize) -> Result<Self, AllocError> {
        if buckets <= BLOCK_BUCKETS {
            let own = Pages::zeroed(buckets * LINE_BYTES)?;
            let first = own.base().as_ptr().cast::<B>().cast_const();
            return Ok(Self::of([first].into_iter(), Box::new([]), Some(own)));
        }
        let mut units = Vec::with_capacity(buckets.div_ceil(BLOCK_BUCKETS));
        for _ in 0..units.capacity() {
            match blocks.take() {
                Ok(unit) => units.push(unit),
                Err(error) => {
                    for unit in units {
                        blocks.give_back(unit);
                    }
                    return Err(error);
                }
            }
        }
        let units: Box<[u64]> = units.into();
        let first = |(number, unit): (usize, &u64)| {
            let buckets = blocks.first_bucket(*unit).as_ptr().cast_const();
            buckets.wrapping_sub(number * BLOCK_BUCKETS)
        };
        let firsts: Vec<_> = units.iter().enumerate().map(first).collect();
        Ok(Self::of(firsts.into_iter(), units, None))
    }

    fn of(
        firsts: impl ExactSizeIterator<Item = *const B>,
        units: Box<[u64]>,
        own: Option<Pages>,
    ) -> Self {
        let blocks = firsts.len();
        let versions = Each::new((0..blocks).map(|_| Version::default()));
        Self { firsts: Each::new(firsts), versions, blocks, units, own }
    }

    /// A bucket.
    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> &B {
        debug_assert!(at / BLOCK_BUCKETS < self.blocks);
        // SAFETY: `at` is below the number of buckets that were asked for, and there are as many blocks as these take (M3).
        let first = unsafe { *self.firsts.get(at / BLOCK_BUCKETS) };
        // SAFETY: `at` is in this block, so this is a bucket of it, initialised, shared as buckets only (M1).
        unsafe { &*first.wrapping_add(at) }
    }

    /// The version that a bucket shares with others.
    #[inline(always)]
    pub(super) fn version_of(&self, at: usize) -> &Version {
        debug_assert!(at / BLOCK_BUCKETS < self.blocks);
        // SAFETY: as in `bucket`; there is a version for each block.
        unsafe { self.versions.get(at / BLOCK_BUCKETS) }
    }

    /// All versions, by the numbers of their blocks.
    pub(super) fn versions(&self) -> &[Version] {
        // SAFETY: M3.
        unsafe { self.versions.all(self.blocks) }
    }

    /// Bytes of what is not in blocks, of so many buckets.
    pub(super) fn own_bytes(&self, buckets: usize) -> usize {
        let own = self.own.as_ref().map_or(0, |_| buckets * LINE_BYTES);
        let of_each = size_of::<*const B>() + size_of::<Version>();
        own + self.blocks * of_each + size_of_val(&*self.units)
    }

    /// Bytes of the blocks.
    pub(super) fn block_bytes(&self) -> usize {
        self.units.len() << BLOCK_SHIFT
    }

    /// Gives the blocks back.
    pub(super) fn give_back(&mut self, blocks: &Blocks<B>) {
        let units = core::mem::take(&mut self.units);
        units.iter().for_each(|unit| blocks.give_back(*unit));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Bucket, Spelling};
    use crate::sync::shim::AtomicU64;

    /// Four slots, for tests of sizes alone.
    #[repr(C, align(64))]
    pub(in super::super) struct Four([AtomicU64; 8]);

    // SAFETY: a line of atomics; no slot of it is ever taken.
    unsafe impl Bucket for Four {
        type Entry = ();
        const SLOTS: usize = 4;
        const LEAST_BUCKETS: usize = 4;
        const FILLED: [usize; 2] = [43, 53];
        const SPARE_BITS: u32 = 9;
        const MOST_BLOCKS: usize = 4;

        fn free(&self) -> u32 {
            0b1111
        }
        fn gone(&self, _: u64) -> u32 {
            0
        }
        fn fill(&self, _: usize, _: u64, _: Spelling, (): ()) {}
        fn empty(&self, _: usize, _: bool, _: Spelling) {}
        fn pass(&self, _: u64, _: Spelling) {}
        fn is_passed(&self, _: u64, _: u64) -> bool {
            false
        }
        fn note(&self) -> u64 {
            0
        }
        fn set_note(&self, _: u64) {}
        fn clear(&self) {}
    }
}
