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
//! Pages that were never touched cost nothing, unless an allocator counts them: with the feature `global-alloc` chunks are small
//! parts of the whole, from a quarter of a small arena to a 128th of one of some MB, and the table has a second level. Its
//! *rows* each name the chunks, of one size, by which the arena doubles:
//!
//! ```text
//! row        0               1                         2
//! chunks     0  1  2  3      0    1    2    3          0        1        2        3     ...
//! units      1 F each        2 F each                  4 F each
//! ```
//!
//! # Invariants
//!
//! * **A1** A chunk, and a row, once there, stays at its address until the arena is dropped.
//! * **A2** Units handed out by `grow` are handed out once, lie in one chunk and are zero.
//! * **A3** Unit 0 is never handed out: a reference of 0 means "none".
//! * **A4** A row was zeroed memory for an entry of each of its chunks; entries are read and written as atomics.

use core::ptr::NonNull;

use super::{AllocError, pages::Pages};
use crate::sync::backoff::Backoff;
use crate::sync::shim::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Whether chunks are small parts of the whole, in rows, where nothing else is said. (Tests try both.)
const COUNTED: bool = super::pages::FROM_ALLOCATOR;

/// How often an arena can double.
const DOUBLINGS: usize = 29;

/// Entries of the table, rows or chunks: a power of two, so that a number of a few bits needs no check.
const TABLE: usize = if COUNTED || cfg!(test) { 32 } else { 16 };

/// Chunks of a row, at least and at most, as powers of two.
const LEAST_SHIFT: u32 = 2;
const MOST_SHIFT: u32 = 7;

/// Pieces for which that was asked do not go from one page to the next.
pub(crate) const PAGE_BYTES: usize = 4096;

/// A chunk: where its entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Chunk {
    /// Of the table.
    row: usize,
    /// Of the row, if there are such.
    step: usize,
}

/// An arena of units of `1 << UNIT_SHIFT` bytes whose first chunk has `1 << FIRST_SHIFT` units.
#[derive(Debug)]
pub(crate) struct Arena<
    const UNIT_SHIFT: u32,
    const FIRST_SHIFT: u32,
    const IN_ROWS: bool = COUNTED,
> {
    /// For each chunk, where unit 0 would lie if the chunk went on to the left: that much less than its address. Or the
    /// rows of such.
    table: [AtomicPtr<u8>; TABLE],
    /// The first unit that was never handed out.
    top: AtomicU64,
}

impl<const UNIT_SHIFT: u32, const FIRST_SHIFT: u32, const IN_ROWS: bool>
    Arena<UNIT_SHIFT, FIRST_SHIFT, IN_ROWS>
{
    /// Bytes of a unit.
    pub(crate) const UNIT_BYTES: usize = 1 << UNIT_SHIFT;

    /// Rows of an arena. The last one is 4^14, or 2^28, times as large as the first.
    const ROWS: usize = if IN_ROWS { DOUBLINGS } else { DOUBLINGS / 2 + 1 };

    /// Units of the first row, as a power of two.
    const ROW_SHIFT: u32 = FIRST_SHIFT + LEAST_SHIFT;

    /// An arena without memory.
    pub(crate) const fn new() -> Self {
        Self {
            table: [const { AtomicPtr::new(core::ptr::null_mut()) }; TABLE],
            top: AtomicU64::new(1),
        }
    }

    /// How many chunks a row has, as a power of two. What the last chunk has left and what is lost at the end of each are
    /// least together if every other row has twice as many.
    #[inline(always)]
    const fn steps(row: usize) -> u32 {
        let shift = 1 + row as u32 / 2;
        match shift {
            _ if !IN_ROWS => 0,
            0..LEAST_SHIFT => LEAST_SHIFT,
            LEAST_SHIFT..=MOST_SHIFT => shift,
            _ => MOST_SHIFT,
        }
    }

    /// Bytes of a row.
    const fn row_bytes(row: usize) -> usize {
        size_of::<AtomicPtr<u8>>() << Self::steps(row)
    }

    /// The chunk of a unit.
    #[inline(always)]
    fn chunk_of(unit: u64) -> Chunk {
        if IN_ROWS {
            let behind = unit + (1 << Self::ROW_SHIFT);
            let row = behind.ilog2() - Self::ROW_SHIFT;
            let steps = Self::steps(row as usize);
            let step = (behind >> (Self::ROW_SHIFT + row - steps)) as usize % (1 << steps);
            return Chunk { row: row as usize, step };
        }
        let row = ((unit * 3 + (1 << FIRST_SHIFT)).ilog2() - FIRST_SHIFT) as usize / 2;
        Chunk { row, step: 0 }
    }

    /// The first unit of a chunk.
    #[inline(always)]
    fn chunk_start(chunk: Chunk) -> u64 {
        if IN_ROWS {
            let steps = Self::steps(chunk.row);
            let behind =
                ((1 << steps) + chunk.step as u64) << (chunk.row as u32 + Self::ROW_SHIFT - steps);
            return behind - (1 << Self::ROW_SHIFT);
        }
        (((1_u64 << (2 * chunk.row)) - 1) / 3) << FIRST_SHIFT
    }

    /// The chunk behind another.
    fn next(chunk: Chunk) -> Chunk {
        if chunk.step + 1 < 1 << Self::steps(chunk.row) {
            return Chunk { step: chunk.step + 1, ..chunk };
        }
        Chunk { row: chunk.row + 1, step: 0 }
    }

    /// Whether `unit` is the first of its chunk, and so does not continue the unit before.
    pub(crate) fn starts_chunk(unit: u64) -> bool {
        Self::chunk_start(Self::chunk_of(unit)) == unit
    }

    fn chunk_bytes(chunk: Chunk) -> usize {
        let units = if IN_ROWS {
            Self::ROW_SHIFT + chunk.row as u32 - Self::steps(chunk.row)
        } else {
            FIRST_SHIFT + 2 * chunk.row as u32
        };
        1 << (UNIT_SHIFT + units)
    }

    /// The entry of a chunk; `None` if its row was never made, or there is no such row.
    #[inline(always)]
    fn entry(&self, chunk: Chunk) -> Option<&AtomicPtr<u8>> {
        let entry = &self.table[chunk.row % TABLE];
        if !IN_ROWS {
            return Some(entry);
        }
        // A unit that was read beside a writer may be of no row.
        if chunk.row >= Self::ROWS {
            return None;
        }
        // ORDER: Acquire, pairs with the Release in `make_entry`: the row is zeroed.
        let row = entry.load(Acquire).cast::<AtomicPtr<u8>>();
        if row.is_null() {
            return None;
        }
        // SAFETY: a row, which stays as long as the arena (A1) and has an entry for each of its chunks (A4).
        Some(unsafe { &*row.add(chunk.step) })
    }

    /// The entry of a chunk, in a row that is there now.
    fn make_entry(&self, chunk: Chunk) -> Result<&AtomicPtr<u8>, AllocError> {
        let bytes = Self::row_bytes(chunk.row);
        if let Some(entry) = self.entry(chunk) {
            return Ok(entry);
        }
        let fresh = Pages::zeroed(bytes)?.into_raw();
        // ORDER: Release, pairs with the Acquire in `entry`: the row is zeroed.
        let null = core::ptr::null_mut();
        if self.table[chunk.row].compare_exchange(null, fresh, Release, Relaxed).is_err()
            && let Some(fresh) = NonNull::new(fresh)
        {
            // SAFETY: made above with this size, and nobody has seen it.
            drop(unsafe { Pages::from_raw(fresh, bytes) });
        }
        self.entry(chunk).ok_or(AllocError { bytes })
    }

    /// Where `unit` lies.
    ///
    /// If it has been handed out, the address is that of the chunk plus an offset inside it, so it is good for any access that stays
    /// in the units handed out together. If not, the address is good for nothing but to be asked for.
    #[inline(always)]
    pub(crate) fn at(&self, unit: u64) -> *mut u8 {
        // ORDER: Acquire, pairs with the Release store in `chunk_ready`: the chunk is zeroed. (A unit that was
        // read from shared memory already brings that; Acquire costs nothing more on x86-64.)
        let origin = self
            .entry(Self::chunk_of(unit))
            .map_or(core::ptr::null_mut(), |entry| entry.load(Acquire));
        origin.wrapping_add((unit as usize) << UNIT_SHIFT)
    }

    /// How far a chunk's address is from its entry in the table.
    fn offset(chunk: Chunk) -> usize {
        (Self::chunk_start(chunk) as usize) << UNIT_SHIFT
    }

    /// How many units are left in the chunk that fresh ones come from now.
    pub(crate) fn left_in_chunk(&self) -> u64 {
        let top = self.top.load(Relaxed);
        Self::chunk_start(Self::next(Self::chunk_of(top))) - top
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
            (top + left).min(Self::chunk_start(Self::next(chunk)))
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
            while unit + units > Self::chunk_start(Self::next(chunk)) {
                chunk = Self::next(chunk);
                if chunk.row >= Self::ROWS {
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
    fn chunk_ready(&self, chunk: Chunk) -> Result<(), AllocError> {
        // A pointer that can belong to no chunk marks one that is being made.
        let making = NonNull::<u8>::dangling().as_ptr();
        let entry = self.make_entry(chunk)?;
        let mut backoff = Backoff::new();
        loop {
            // ORDER: Acquire, pairs with the Release store below.
            let now = entry.load(Acquire);
            if now == making {
                backoff.wait();
                continue;
            }
            if !now.is_null() {
                return Ok(());
            }
            let null = core::ptr::null_mut();
            if entry.compare_exchange(null, making, Relaxed, Relaxed).is_ok() {
                let pages = Pages::zeroed(Self::chunk_bytes(chunk));
                // ORDER: Release, pairs with the Acquire load in `at`.
                return match pages {
                    Ok(pages) => {
                        let origin = pages.into_raw().wrapping_sub(Self::offset(chunk));
                        entry.store(origin, Release);
                        Ok(())
                    }
                    Err(error) => {
                        entry.store(null, Release);
                        Err(error)
                    }
                };
            }
        }
    }

    /// All chunks that there may be.
    fn chunks() -> impl Iterator<Item = Chunk> {
        let first = Chunk { row: 0, step: 0 };
        core::iter::successors(Some(first), |chunk| Some(Self::next(*chunk)))
            .take_while(|chunk| chunk.row < Self::ROWS)
    }

    /// Bytes handed out so far.
    pub(crate) fn used_bytes(&self) -> usize {
        (self.top.load(Relaxed) as usize - 1) << UNIT_SHIFT
    }

    /// Bytes that chunks take in memory: small ones in full, others as far as they were handed out.
    pub(crate) fn resident_bytes(&self) -> usize {
        let top = self.top.load(Relaxed);
        // Relaxed: figures.
        let rows = (0..Self::ROWS)
            .filter(|row| IN_ROWS && !self.table[*row].load(Relaxed).is_null())
            .map(Self::row_bytes);
        let chunks = Self::chunks()
            .filter(|chunk| self.entry(*chunk).is_some_and(|entry| !entry.load(Relaxed).is_null()))
            .map(|chunk| {
                let used = top.saturating_sub(Self::chunk_start(chunk)) as usize;
                Pages::resident_bytes(Self::chunk_bytes(chunk), used << UNIT_SHIFT)
            });
        rows.chain(chunks).sum()
    }
}

impl<const UNIT_SHIFT: u32, const FIRST_SHIFT: u32, const IN_ROWS: bool> Drop
    for Arena<UNIT_SHIFT, FIRST_SHIFT, IN_ROWS>
{
    fn drop(&mut self) {
        for chunk in Self::chunks() {
            // Relaxed: nobody else uses the arena.
            let origin =
                self.entry(chunk).map_or(core::ptr::null_mut(), |entry| entry.load(Relaxed));
            if origin.is_null() {
                continue;
            }
            if let Some(base) = NonNull::new(origin.wrapping_add(Self::offset(chunk))) {
                // SAFETY: the chunk was made by `chunk_ready` with this size (A1), and nobody uses an arena
                // that is being dropped.
                drop(unsafe { Pages::from_raw(base, Self::chunk_bytes(chunk)) });
            }
        }
        for (number, row) in self.table.iter_mut().enumerate().filter(|_| IN_ROWS) {
            if let Some(row) = NonNull::new(*row.get_mut()) {
                // SAFETY: as above; `make_entry` made the row with this size.
                drop(unsafe { Pages::from_raw(row, Self::row_bytes(number)) });
            }
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    type Small<const IN_ROWS: bool> = Arena<3, 5, IN_ROWS>;

    #[test]
    fn chunks_follow_each_other_without_a_gap() {
        fn check<const IN_ROWS: bool>() {
            let first = Chunk { row: 0, step: 0 };
            assert_eq!(Small::<IN_ROWS>::chunk_start(first), 0);
            for chunk in Small::<IN_ROWS>::chunks() {
                let start = Small::<IN_ROWS>::chunk_start(chunk);
                let next = Small::<IN_ROWS>::next(chunk);
                let end = Small::<IN_ROWS>::chunk_start(next);
                assert_eq!(Small::<IN_ROWS>::chunk_of(start), chunk);
                assert_eq!(Small::<IN_ROWS>::chunk_of(end - 1), chunk);
                assert_eq!(((end - start) as usize) << 3, Small::<IN_ROWS>::chunk_bytes(chunk));
                assert!(chunk.row < TABLE);
                assert!(chunk.step * size_of::<usize>() < Small::<IN_ROWS>::row_bytes(chunk.row));
            }
        }
        check::<false>();
        check::<true>();
    }

    #[test]
    fn pieces_do_not_overlap_and_stay_where_they_are() {
        fn check<const IN_ROWS: bool>() {
            let arena = Small::<IN_ROWS>::new();
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
            assert!(arena.resident_bytes() >= seen.len() << 3);
        }
        check::<false>();
        check::<true>();
    }

    #[test]
    fn pieces_of_up_to_a_page_lie_in_one() {
        type Lines = Arena<6, 3>;
        let arena = Lines::new();
        for units in (0..3).flat_map(|_| (1..=64).rev()) {
            let unit = arena.grow_in_page(units).unwrap();
            let (first, last) = (arena.at(unit).addr(), arena.at(unit + units - 1).addr());
            assert_eq!(last - first, (units as usize - 1) * 64);
            if !COUNTED && Lines::chunk_bytes(Lines::chunk_of(unit)) >= PAGE_BYTES {
                assert_eq!(first / PAGE_BYTES, last / PAGE_BYTES, "{units} units");
            }
        }
        assert!(arena.grow_in_page(65).is_ok());
    }

    #[test]
    fn a_unit_that_was_never_handed_out_is_no_access() {
        fn check<const IN_ROWS: bool>() {
            let arena = Small::<IN_ROWS>::new();
            let unit = arena.grow(1).unwrap();
            let address = arena.at(unit);
            for bit in 0..=40 {
                let _ = arena.at((1 << bit) - 1);
                let _ = arena.at((1_u64 << bit).saturating_sub(200));
            }
            assert_eq!(arena.at(unit), address);
        }
        check::<false>();
        check::<true>();
    }

    #[test]
    fn an_empty_arena_owns_nothing() {
        assert_eq!(Small::<false>::new().resident_bytes(), 0);
        assert_eq!(Small::<true>::new().resident_bytes(), 0);
    }

    #[test]
    fn a_failed_chunk_or_row_can_be_tried_again() {
        fn check<const IN_ROWS: bool>(fails_after: u64) {
            let arena = Small::<IN_ROWS>::new();
            crate::mem::failing::after(fails_after);
            assert!(arena.grow(1).is_err());
            crate::mem::failing::never();
            assert!(arena.grow(1).is_ok());
        }
        check::<false>(0);
        check::<true>(0);
        check::<true>(1);
    }

    #[test]
    fn threads_get_different_units() {
        fn check<const IN_ROWS: bool>() {
            let arena = Small::<IN_ROWS>::new();
            let all: Vec<u64> = std::thread::scope(|scope| {
                let grow = || (0..1000).map(|_| arena.grow(3).unwrap()).collect::<Vec<_>>();
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(grow)).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 4000);
        }
        check::<false>();
        check::<true>();
    }
}
