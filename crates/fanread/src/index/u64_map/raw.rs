//! The shared memory: buckets in segments, runs of keys, pointers to both, and values in boxes.
//!
//! # Invariants
//!
//! * **M1** The memory of a segment is zeroed at first, made of whole buckets, lives as long as the segment, and is only accessed
//!   as [`Bucket`]s, which are made of atomics.
//! * **M2** The memory of a run is a [`Run`] and, behind it, as many words as the run says; they are made of atomics. It is a
//!   piece of a [`Heap`], which has one owner at a time and is given back by `Garbage::free`, or a block of its own if it is small.
//! * **M3** What a [`Shared`] points to was handed over to it, or to another it is an alias of. It is handed out once, as
//!   [`Retired`], after nobody can find it any more, and freed when every guard of that time is gone.
//! * **M4** A value word of a map whose values are not inline is the address of a box; the word is taken out of the map
//!   once, and the box freed when nobody can be reading it.
//!
//! The sanitizer runs and the drop-counting tests watch M2 to M4.

#![expect(unsafe_code, reason = "views memory as buckets and runs, and follows pointers")]

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::layout::{BLOCK_BUCKETS, BLOCK_SHIFT, FREE, SLOTS};
use super::order::{Chunk, Top};
use super::run::{MOST_WORDS, Run};
use super::table::{Names, Segment};
use crate::mem::arena::Arena;
use crate::mem::boxed::Boxed;
use crate::mem::pages::Pages;
use crate::mem::word::{self, Read, Word};
use crate::mem::{AllocError, LINE_BYTES};
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shim::{AtomicPtr, AtomicU64};

/// A bucket in shared memory; see `layout.rs` for what is in it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    words: [AtomicU64; SLOTS],
    values: [AtomicPtr<()>; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == LINE_BYTES && align_of::<Bucket>() == LINE_BYTES);

impl Bucket {
    #[inline(always)]
    pub(super) fn word(&self, slot: usize) -> u64 {
        // ORDER: Acquire, pairs with the Release store in `set_word`: the value of this word is there.
        self.words[slot].load(Acquire)
    }

    #[inline(always)]
    pub(super) fn set_word(&self, slot: usize, word: u64) {
        // ORDER: Release, pairs with `word`.
        self.words[slot].store(word, Release);
    }

    #[inline(always)]
    pub(super) fn value(&self, slot: usize) -> Word {
        // ORDER: Acquire, pairs with the Release store in `set_value`: the box behind it is filled.
        self.values[slot].load(Acquire)
    }

    #[inline(always)]
    pub(super) fn set_value(&self, slot: usize, value: Word) {
        // ORDER: Release, pairs with `value`.
        self.values[slot].store(value, Release);
    }

    /// The slots whose word this is, a bit for each.
    #[inline(always)]
    pub(super) fn matches(&self, word: u64) -> u32 {
        (0..SLOTS).fold(0, |found, slot| found | u32::from(self.word(slot) == word) << slot)
    }

    fn clear(&self) {
        for slot in 0..SLOTS {
            // Relaxed: a block between two owners is nobody's.
            self.words[slot].store(FREE, Relaxed);
        }
    }
}

/// Blocks of buckets: fresh ones, or used before.
#[derive(Debug)]
pub(super) struct Blocks {
    arena: Arena<BLOCK_SHIFT, 0>,
    /// The first of those that were given back; each names the next in its first word, 0 at the end.
    free: Lock<u64>,
}

impl Blocks {
    pub(super) const fn new() -> Self {
        Self { arena: Arena::new(), free: Lock::new(0) }
    }

    fn first_bucket(&self, unit: u64) -> NonNull<Bucket> {
        NonNull::new(self.arena.at(unit).cast()).expect("a unit that was handed out")
    }

    /// The buckets of a block.
    fn buckets(&self, unit: u64) -> &[Bucket] {
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
            return self.arena.grow(1);
        }
        *free = self.buckets(unit)[0].word(0);
        drop(free);
        self.buckets(unit).iter().for_each(Bucket::clear);
        Ok(unit)
    }

    /// Takes a block back that nobody reads any more.
    fn give_back(&self, unit: u64) {
        let mut free = self.free.lock();
        self.buckets(unit)[0].set_word(0, *free);
        *free = unit;
    }

    /// Bytes of all blocks, those that wait included.
    pub(super) fn bytes(&self) -> usize {
        self.arena.resident_bytes()
    }
}

/// The memory of a segment.
#[derive(Debug)]
pub(super) struct Memory {
    /// Where each [`BLOCK_BUCKETS`] buckets are.
    blocks: Box<[NonNull<Bucket>]>,
    /// The blocks' units, or the one piece of a small segment.
    units: Vec<u64>,
    own: Option<Pages>,
    buckets: usize,
}

// SAFETY: memory without thread affinity, that is only accessed as buckets (M1).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes memory for so many buckets.
    ///
    /// # Errors
    ///
    /// If the system gives none.
    pub(super) fn new(blocks: &Blocks, buckets: usize) -> Result<Self, AllocError> {
        if buckets <= BLOCK_BUCKETS {
            let own = Pages::zeroed(buckets * LINE_BYTES)?;
            let blocks = Box::new([own.base().cast()]);
            return Ok(Self { blocks, units: Vec::new(), own: Some(own), buckets });
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
        let places = units.iter().map(|unit| blocks.first_bucket(*unit)).collect();
        Ok(Self { blocks: places, units, own: None, buckets })
    }

    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> &Bucket {
        debug_assert!(at < self.buckets);
        // SAFETY: `at` is below `buckets`, for which there are as many blocks as it takes.
        let block = unsafe { self.blocks.get_unchecked(at / BLOCK_BUCKETS) };
        // SAFETY: a bucket of a block, initialised, shared as buckets only (M1).
        unsafe { block.add(at % BLOCK_BUCKETS).as_ref() }
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets
    }

    pub(super) fn own_bytes(&self) -> usize {
        let own = self.own.as_ref().map_or(0, |_| self.buckets * LINE_BYTES);
        own + size_of_val(&*self.blocks) + size_of_val(&*self.units)
    }

    /// Gives the blocks back.
    pub(super) fn give_back(&mut self, blocks: &Blocks) {
        self.units.drain(..).for_each(|unit| blocks.give_back(unit));
    }
}

/// The base-2 logarithm of the bytes of a heap's unit.
const UNIT_SHIFT: u32 = if cfg!(any(shuttle, small_leaves, miri)) { 6 } else { 10 };

/// Units of the largest piece.
const MOST_UNITS: usize = 4;

const _: () = assert!(Run::bytes(MOST_WORDS) <= MOST_UNITS << UNIT_SHIFT);

/// Memory for runs that are not small: on large pages, which the allocator's are not.
#[derive(Debug)]
pub(super) struct Heap {
    arena: Arena<UNIT_SHIFT, 2>,
    /// Pieces that were given back, by their size.
    free: [Lock<Vec<Piece>>; MOST_UNITS],
}

/// A piece of a heap that nobody uses.
#[derive(Debug)]
struct Piece(NonNull<u8>);

// SAFETY: memory without thread affinity, that belongs to who has the piece (M2).
unsafe impl Send for Piece {}

impl Heap {
    pub(super) const fn new() -> Self {
        Self { arena: Arena::new(), free: [const { Lock::new(Vec::new()) }; MOST_UNITS] }
    }

    /// How many units a run has; `None` if it is too small to be in a heap.
    const fn units(bytes: usize) -> Option<usize> {
        if bytes < 1 << UNIT_SHIFT { None } else { Some(bytes.div_ceil(1 << UNIT_SHIFT)) }
    }

    /// Hands out a piece: zeroed, or used before by another run.
    fn take(&self, units: usize) -> Result<NonNull<u8>, AllocError> {
        #[cfg(test)]
        if crate::mem::failing::fails_now() {
            return Err(AllocError { bytes: units << UNIT_SHIFT });
        }
        if let Some(piece) = self.free[units - 1].lock().pop() {
            return Ok(piece.0);
        }
        let unit = self.arena.grow(units as u64)?;
        Ok(NonNull::new(self.arena.at(unit)).expect("a unit that was handed out"))
    }

    /// Bytes of all pieces, those that wait included. What was never handed out was never touched.
    pub(super) fn bytes(&self) -> usize {
        self.arena.used_bytes()
    }
}

/// Something that lies in memory by itself.
pub(super) trait Place: Sized {
    /// Frees the memory.
    ///
    /// # Safety
    ///
    /// It was put there for a [`Shared`], nobody uses it any more, and it is freed once (M3).
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: everything but runs is put into a box.
        drop(unsafe { Box::from_raw(this.as_ptr()) });
    }
}

impl Place for Segment {}
impl Place for Names {}
impl Place for Top {}
impl Place for Chunk {}
impl Place for Run {
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: alive until here.
        let bytes = Self::bytes(unsafe { this.as_ref() }.capacity());
        if Heap::units(bytes).is_none() {
            // SAFETY: made in `Owned::run` with as many bytes; a run has nothing to drop.
            drop(unsafe { Pages::from_raw(this.cast(), bytes) });
        }
        // A piece of the heap that was not given back goes with the heap.
    }
}

/// Something that nobody else knows yet.
#[derive(Debug)]
pub(super) struct Owned<T: Place>(NonNull<T>);

// SAFETY: as a box would be.
unsafe impl<T: Place + Send> Send for Owned<T> {}

impl<T: Place> Owned<T> {
    pub(super) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    pub(super) fn get(&self) -> &T {
        // SAFETY: alive, and ours.
        unsafe { self.0.as_ref() }
    }

    fn into_raw(self) -> *mut T {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }
}

impl Owned<Run> {
    /// Puts a run into memory, with its words behind it.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn run(heap: &Heap, run: Run) -> Result<Self, AllocError> {
        let bytes = Run::bytes(run.capacity());
        let place = match Heap::units(bytes) {
            Some(units) => heap.take(units)?,
            None => NonNull::new(Pages::zeroed(bytes)?.into_raw()).expect("a block of memory"),
        };
        let place = place.cast::<Run>();
        // SAFETY: the memory has room for the run and its words, is aligned to a line, and nobody else's.
        unsafe { place.write(run) };
        Ok(Self(place))
    }

    /// Gives the memory back to the heap it is from.
    pub(super) fn give_back(self, heap: &Heap) {
        Retired(NonNull::new(self.into_raw()).expect("a run")).give_back(heap);
    }
}

impl<T: Place> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: ours alone (M3).
        unsafe { T::free(self.0) };
    }
}

impl Run {
    /// Bytes of a run with its words.
    pub(super) const fn bytes(capacity: usize) -> usize {
        size_of::<Self>() + capacity * size_of::<u64>()
    }

    /// The same without those of the heap.
    pub(super) fn own_bytes(&self) -> usize {
        let bytes = Self::bytes(self.capacity());
        if Heap::units(bytes).is_some() { 0 } else { bytes }
    }

    /// How many words there is room for where so many are.
    pub(super) fn whole(capacity: usize) -> usize {
        let bytes = Heap::units(Self::bytes(capacity)).map(|units| units << UNIT_SHIFT);
        bytes.map_or(capacity, |bytes| (bytes - size_of::<Self>()) / size_of::<u64>())
    }

    /// The words.
    #[inline(always)]
    pub(super) fn words(&self) -> &[AtomicU64] {
        let first = ptr::from_ref(self).wrapping_add(1).cast::<AtomicU64>();
        // SAFETY: every run is in memory with as many words behind it (M2); one that is not yet is not asked.
        unsafe { core::slice::from_raw_parts(first, self.capacity()) }
    }
}

/// A pointer that threads share; null, or to something that lives as long as a reader is pinned (M3).
#[derive(Debug)]
pub(super) struct Shared<T>(AtomicPtr<T>);

impl<T: Place> Shared<T> {
    pub(super) const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) fn new(value: Owned<T>) -> Self {
        Self(AtomicPtr::new(value.into_raw()))
    }

    /// Another pointer to the same. The caller excludes stores.
    pub(super) fn alias(&self) -> Self {
        // Relaxed: who excludes stores has seen the last one.
        Self(AtomicPtr::new(self.0.load(Relaxed)))
    }

    #[inline(always)]
    pub(super) fn get<'g>(&self, _pinned: &'g Guard) -> Option<&'g T> {
        // ORDER: Acquire, pairs with the Release store in `point_to`: what it points to is filled.
        let place = self.0.load(Acquire);
        // SAFETY: null, or something that could be found after the guard was made (M3).
        unsafe { place.as_ref() }
    }

    /// Whether both point to the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        // Relaxed: only the addresses are looked at.
        ptr::eq(self.0.load(Relaxed), other.0.load(Relaxed))
    }

    /// Whether this points to `value`.
    pub(super) fn is(&self, value: &T) -> bool {
        // Relaxed: only the address is looked at.
        ptr::eq(self.0.load(Relaxed), value)
    }

    /// Points to where another pointer does. The caller excludes other stores.
    pub(super) fn point_to(&self, other: &Self) {
        // ORDER: Release, pairs with `get`.
        self.0.store(other.0.load(Relaxed), Release);
    }

    /// Takes out what this points to, of which the caller knows that it is the last pointer that can be found. It excludes
    /// other stores.
    pub(super) fn retire(&self) -> Option<Retired<T>> {
        NonNull::new(self.0.load(Relaxed)).map(Retired)
    }

    /// Points to `value` and returns what was pointed to before, to which no other pointer leads. The caller excludes other
    /// stores.
    pub(super) fn replace(&self, value: Owned<T>) -> Option<Retired<T>> {
        let old = self.retire();
        self.point_to(&Self::new(value));
        old
    }
}

/// Something that nobody can find any more, but may still be read.
#[derive(Debug)]
#[must_use = "readers may still be there: put it into the limbo"]
pub(super) struct Retired<T: Place>(NonNull<T>);

// SAFETY: it is freed by one thread, when nobody else uses it.
unsafe impl<T: Place + Send> Send for Retired<T> {}

impl<T: Place> Retired<T> {
    /// What it is, for who frees it.
    fn get_mut(&mut self) -> &mut T {
        // SAFETY: only asked when nobody reads it any more.
        unsafe { self.0.as_mut() }
    }
}

impl Retired<Run> {
    /// Gives the memory back to the heap it is from.
    fn give_back(self, heap: &Heap) {
        // SAFETY: alive until here; only asked when nobody reads it any more.
        let bytes = Run::bytes(unsafe { self.0.as_ref() }.capacity());
        if let Some(units) = Heap::units(bytes) {
            let piece = Piece(self.0.cast());
            // From here on it is the heap's.
            core::mem::forget(self);
            heap.free[units - 1].lock().push(piece);
        }
    }
}

impl<T: Place> Drop for Retired<T> {
    fn drop(&mut self) {
        // SAFETY: dropped when nobody can be reading it (M3).
        unsafe { T::free(self.0) };
    }
}

/// What a map no longer uses, to be freed when nobody can be reading it.
#[derive(Debug)]
#[must_use = "readers may still be there: put it into the limbo"]
pub(super) enum Garbage<V> {
    Segment(Retired<Segment>),
    Names(#[expect(dead_code, reason = "kept to be dropped")] Retired<Names>),
    Run(Retired<Run>),
    Chunk(#[expect(dead_code, reason = "kept to be dropped")] Retired<Chunk>),
    Top(#[expect(dead_code, reason = "kept to be dropped")] Retired<Top>),
    Value(#[expect(dead_code, reason = "kept to be dropped")] Boxed<V>),
}

impl<V> Garbage<V> {
    /// Frees it. Nobody reads it any more.
    pub(super) fn free(self, blocks: &Blocks, heap: &Heap) {
        match self {
            Self::Segment(mut segment) => segment.get_mut().memory.give_back(blocks),
            Self::Run(run) => run.give_back(heap),
            other => drop(other),
        }
    }
}

/// The value behind a word that was read from the map.
#[inline(always)]
pub(super) fn read_value<'g, V>(word: Word) -> Read<'g, V> {
    // SAFETY: a validated value word was made by `word_of_value`, and its box is not freed while the reader is pinned (M4).
    unsafe { Read::new(word) }
}

/// What is to become of a value word that was taken out of the map.
pub(super) fn garbage_of<V>(word: Word) -> Option<Garbage<V>> {
    // SAFETY: the word was made by `word_of_value` and is taken back once, when nobody can be reading it (M4).
    (!const { word::is_inline::<V>() }).then(|| Garbage::Value(unsafe { Boxed::new(word) }))
}
