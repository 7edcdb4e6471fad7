//! Memory that grows without moving, named by small integers.
//!
//! An arena is a row of chunks, each four times as large as the one before, so that a small map owns a small
//! chunk and a large map has nearly all of its memory in a few mappings on huge pages. A *unit* number names a
//! place; the chunk follows from the number's magnitude, and chunk addresses are a short table that stays in L1.
//!
//! ```text
//! chunk      0        1            2                     ...
//! units  0 .. F   F .. 5F     5F .. 21F                  F = FIRST_UNITS
//! ```
//!
//! Pages that were never touched cost nothing, unless an allocator counts them: with the feature `global-alloc` a chunk is at
//! most a fourth of all before it, or for what has most of the bytes a sixteenth, and the table is longer.
//!
//! # Invariants
//!
//! * **A1** A chunk, once there, stays at its address until the arena is dropped.
//! * **A2** Units handed out by `grow` are handed out once, lie in one chunk and are zero.
//! * **A3** Unit 0 is never handed out: a reference of 0 means "none".

use core::ptr::NonNull;

use super::{AllocError, pages::Pages};
use crate::sync::backoff::Backoff;
use crate::sync::shim::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Whether chunks grow in steps of less than all before them.
const IN_STEPS: bool = super::pages::FROM_ALLOCATOR;

/// How often an arena can double.
const DOUBLINGS: usize = 29;

/// Entries of the chunk table: a power of two, so that a number of a few bits needs no check.
pub(crate) const TABLE: usize = if IN_STEPS { 4 * 32 } else { 16 };

/// The same for arenas that have most of a map's bytes.
pub(crate) const FINE_TABLE: usize = if IN_STEPS { 16 * 32 } else { 16 };

/// Pieces for which that was asked do not go from one page to the next.
pub(crate) const PAGE_BYTES: usize = 4096;

/// An arena of units of `1 << UNIT_SHIFT` bytes whose first chunk has `1 << FIRST_SHIFT` units, with so large a table.
#[derive(Debug)]
pub(crate) struct Arena<const UNIT_SHIFT: u32, const FIRST_SHIFT: u32, const ENTRIES: usize = TABLE>
{
    /// For each chunk, where unit 0 would lie if the chunk went on to the left: that much less than its address.
    chunks: [AtomicPtr<u8>; ENTRIES],
    /// The first unit that was never handed out.
    top: AtomicU64,
}

impl<const UNIT_SHIFT: u32, const FIRST_SHIFT: u32, const ENTRIES: usize>
    Arena<UNIT_SHIFT, FIRST_SHIFT, ENTRIES>
{
    /// Bytes of a unit.
    pub(crate) const UNIT_BYTES: usize = 1 << UNIT_SHIFT;

    /// The steps of a doubling, as a power of two.
    const STEPS: u32 = if IN_STEPS { (ENTRIES / 32).ilog2() } else { 0 };

    /// Chunks of an arena. The last one alone is 4^14, or 2^28, times as large as the first.
    const CHUNKS: usize = if IN_STEPS { DOUBLINGS << Self::STEPS } else { DOUBLINGS / 2 + 1 };

    /// An arena without memory.
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES],
            top: AtomicU64::new(1),
        }
    }

    /// The chunk of a unit.
    #[inline(always)]
    fn chunk_of(unit: u64) -> usize {
        if IN_STEPS {
            let behind = unit + (1 << (Self::STEPS + FIRST_SHIFT));
            let doubled = behind.ilog2() - FIRST_SHIFT - Self::STEPS;
            let step = (behind >> (FIRST_SHIFT + doubled)) as usize % (1 << Self::STEPS);
            return (doubled as usize) << Self::STEPS | step;
        }
        ((unit * 3 + (1 << FIRST_SHIFT)).ilog2() - FIRST_SHIFT) as usize / 2
    }

    /// The first unit of a chunk.
    #[inline(always)]
    fn chunk_start(chunk: usize) -> u64 {
        if IN_STEPS {
            let steps = 1 << Self::STEPS;
            let behind = (steps + chunk as u64 % steps) << (chunk >> Self::STEPS);
            return (behind - steps) << FIRST_SHIFT;
        }
        (((1_u64 << (2 * chunk)) - 1) / 3) << FIRST_SHIFT
    }

    /// Whether `unit` is the first of its chunk, and so does not continue the unit before.
    pub(crate) fn starts_chunk(unit: u64) -> bool {
        Self::chunk_start(Self::chunk_of(unit)) == unit
    }

    fn chunk_bytes(chunk: usize) -> usize {
        let doubled = if IN_STEPS { chunk >> Self::STEPS } else { 2 * chunk };
        1 << (UNIT_SHIFT + FIRST_SHIFT + doubled as u32)
    }

    /// Where `unit` lies, which has been handed out.
    ///
    /// The address is that of the chunk plus an offset inside it, so it is good for any access that stays in
    /// the units handed out together.
    #[inline(always)]
    pub(crate) fn at(&self, unit: u64) -> *mut u8 {
        let chunk = Self::chunk_of(unit) % ENTRIES;
        // ORDER: Acquire, pairs with the Release store in `chunk_ready`: the chunk is zeroed. (A unit that was
        // read from shared memory already brings that; Acquire costs nothing more on x86-64.)
        let origin = self.chunks[chunk].load(Acquire);
        origin.wrapping_add((unit as usize) << UNIT_SHIFT)
    }

    /// How far a chunk's address is from its entry in the table.
    fn offset(chunk: usize) -> usize {
        (Self::chunk_start(chunk) as usize) << UNIT_SHIFT
    }

    /// How many units are left in the chunk that fresh ones come from now.
    pub(crate) fn left_in_chunk(&self) -> u64 {
        let top = self.top.load(Relaxed);
        Self::chunk_start(Self::chunk_of(top) + 1) - top
    }

    /// Hands out `units` fresh zeroed units in one piece.
    pub(crate) fn grow(&self, units: u64) -> Result<u64, AllocError> {
        self.grow_from(units, |top| top)
    }

    /// The same, in one page of [`PAGE_BYTES`] if they fit into one.
    pub(crate) fn grow_in_page(&self, units: u64) -> Result<u64, AllocError> {
        let page = (PAGE_BYTES >> UNIT_SHIFT) as u64;
        self.grow_from(units, |top| {
            // Chunks of a page or more begin at one.
            let chunk = Self::chunk_of(top);
            let left = page - (top - Self::chunk_start(chunk)) % page;
            if units > page || units <= left {
                return top;
            }
            (top + left).min(Self::chunk_start(chunk + 1))
        })
    }

    /// Hands out units, not before the one that `first` makes of the first that is free.
    fn grow_from(&self, units: u64, first: impl Fn(u64) -> u64) -> Result<u64, AllocError> {
        let bytes = (units as usize) << UNIT_SHIFT;
        loop {
            let top = self.top.load(Relaxed);
            let mut unit = first(top);
            let mut chunk = Self::chunk_of(unit);
            // A piece that does not fit behind `top` starts the next chunk that can hold it.
            while unit + units > Self::chunk_start(chunk + 1) {
                chunk += 1;
                if chunk >= Self::CHUNKS {
                    return Err(AllocError { bytes });
                }
                unit = Self::chunk_start(chunk);
            }
            self.chunk_ready(chunk)?;
            // Relaxed: the number is all that is shared; the bytes were published by `chunk_ready`.
            if self.top.compare_exchange_weak(top, unit + units, Relaxed, Relaxed).is_ok() {
                return Ok(unit);
            }
        }
    }

    /// Makes sure that `chunk` exists.
    fn chunk_ready(&self, chunk: usize) -> Result<(), AllocError> {
        // A pointer that can belong to no chunk marks one that is being made.
        let making = NonNull::<u8>::dangling().as_ptr();
        let mut backoff = Backoff::new();
        loop {
            // ORDER: Acquire, pairs with the Release store below.
            let now = self.chunks[chunk].load(Acquire);
            if now == making {
                backoff.wait();
                continue;
            }
            if !now.is_null() {
                return Ok(());
            }
            let null = core::ptr::null_mut();
            if self.chunks[chunk].compare_exchange(null, making, Relaxed, Relaxed).is_ok() {
                let pages = Pages::zeroed(Self::chunk_bytes(chunk));
                // ORDER: Release, pairs with the Acquire load in `at`.
                return match pages {
                    Ok(pages) => {
                        let origin = pages.into_raw().wrapping_sub(Self::offset(chunk));
                        self.chunks[chunk].store(origin, Release);
                        Ok(())
                    }
                    Err(error) => {
                        self.chunks[chunk].store(null, Release);
                        Err(error)
                    }
                };
            }
        }
    }

    /// Bytes handed out so far.
    pub(crate) fn used_bytes(&self) -> usize {
        (self.top.load(Relaxed) as usize - 1) << UNIT_SHIFT
    }

    /// Bytes that chunks take in memory: small ones in full, those on pages as far as they were handed out.
    pub(crate) fn resident_bytes(&self) -> usize {
        let top = self.top.load(Relaxed);
        (0..Self::CHUNKS)
            .filter(|chunk| !self.chunks[*chunk].load(Relaxed).is_null())
            .map(|chunk| {
                let all = Self::chunk_bytes(chunk);
                if all < super::pages::MAPPED_FROM {
                    return all;
                }
                let used = top.saturating_sub(Self::chunk_start(chunk)) as usize;
                (used << UNIT_SHIFT).next_multiple_of(super::pages::HUGE_BYTES).min(all)
            })
            .sum()
    }
}

impl<const UNIT_SHIFT: u32, const FIRST_SHIFT: u32, const ENTRIES: usize> Drop
    for Arena<UNIT_SHIFT, FIRST_SHIFT, ENTRIES>
{
    fn drop(&mut self) {
        for (chunk, base) in self.chunks.iter_mut().enumerate() {
            let origin = *base.get_mut();
            if origin.is_null() {
                continue;
            }
            if let Some(base) = NonNull::new(origin.wrapping_add(Self::offset(chunk))) {
                // SAFETY: the chunk was made by `chunk_ready` with this size (A1), and nobody uses an arena
                // that is being dropped.
                drop(unsafe { Pages::from_raw(base, Self::chunk_bytes(chunk)) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    type Small = Arena<3, 5>;

    #[test]
    fn chunks_follow_each_other_without_a_gap() {
        fn check<const ENTRIES: usize>() {
            const { assert!(Arena::<3, 5, ENTRIES>::CHUNKS < ENTRIES) };
            for chunk in 0..Arena::<3, 5, ENTRIES>::CHUNKS {
                let start = Arena::<3, 5, ENTRIES>::chunk_start(chunk);
                assert_eq!(Arena::<3, 5, ENTRIES>::chunk_of(start), chunk);
                let next = Arena::<3, 5, ENTRIES>::chunk_start(chunk + 1);
                assert_eq!(Arena::<3, 5, ENTRIES>::chunk_of(next - 1), chunk);
                assert_eq!(
                    ((next - start) as usize) << 3,
                    Arena::<3, 5, ENTRIES>::chunk_bytes(chunk)
                );
            }
        }
        check::<TABLE>();
        check::<FINE_TABLE>();
    }

    #[test]
    fn pieces_do_not_overlap_and_stay_where_they_are() {
        let arena = Small::new();
        let mut pieces = Vec::new();
        for size in (1..200).chain([1000, 3, 70_000, 1]) {
            let unit = arena.grow(size).unwrap();
            let at = arena.at(unit);
            assert_eq!(arena.at(unit + size - 1).addr() - at.addr(), (size as usize - 1) * 8);
            pieces.push((unit, size, at));
        }
        let mut seen = BTreeSet::new();
        for (unit, size, at) in pieces {
            assert_eq!(arena.at(unit), at);
            assert!(unit > 0);
            assert!((unit..unit + size).all(|unit| seen.insert(unit)), "{unit} twice");
        }
    }

    #[test]
    fn pieces_of_up_to_a_page_lie_in_one() {
        type Lines = Arena<6, 3>;
        let arena = Lines::new();
        for units in (0..3).flat_map(|_| (1..=64).rev()) {
            let unit = arena.grow_in_page(units).unwrap();
            let (first, last) = (arena.at(unit).addr(), arena.at(unit + units - 1).addr());
            assert_eq!(last - first, (units as usize - 1) * 64);
            if !IN_STEPS && Lines::chunk_bytes(Lines::chunk_of(unit)) >= PAGE_BYTES {
                assert_eq!(first / PAGE_BYTES, last / PAGE_BYTES, "{units} units");
            }
        }
        assert!(arena.grow_in_page(65).is_ok());
    }

    #[test]
    fn an_empty_arena_owns_nothing() {
        assert_eq!(Small::new().resident_bytes(), 0);
    }

    #[test]
    fn a_failed_chunk_can_be_tried_again() {
        let arena = Small::new();
        crate::mem::failing::after(0);
        assert!(arena.grow(1).is_err());
        crate::mem::failing::never();
        assert!(arena.grow(1).is_ok());
    }

    #[test]
    fn threads_get_different_units() {
        let arena = Small::new();
        let all: Vec<u64> = std::thread::scope(|scope| {
            let grow = || (0..1000).map(|_| arena.grow(3).unwrap()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(grow)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 4000);
    }
}
