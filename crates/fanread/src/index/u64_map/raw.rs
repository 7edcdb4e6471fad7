//! The shared memory: buckets, runs of keys, and values in boxes.
//!
//! # Invariants
//!
//! * **M2** The memory of a run is a [`Run`] and, behind it, as many words as the run says; they are made of atomics. It is a
//!   piece of a [`Heap`], which has one owner at a time and is given back by `Garbage::free`, or a block of its own if it is small.
//! * **M4** A value word of a map whose values are not inline is the address of a box; the word is taken out of the map
//!   once, and the box freed when nobody can be reading it.
//!
//! The sanitizer runs and the drop-counting tests watch them.

#![expect(unsafe_code, reason = "views memory as runs, and follows pointers")]

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::layout::{FILLED, FREE, GONE, MOST_BLOCKS, SLOTS, SPARE_BITS, passer};
use super::order::{Chunk, Top};
use super::run::{MOST_WORDS, Run};
use super::table::Table;
use crate::arch;
use crate::directory::{self, Spelling};
use crate::mem::arena::Arena;
use crate::mem::boxed::Boxed;
use crate::mem::pages::Pages;
use crate::mem::word::{self, Read, Word};
use crate::mem::{AllocError, LINE_BYTES};
use crate::sync::epoch::Unlinked;
use crate::sync::lock::Lock;
use crate::sync::shared::{Owned, Place, Retired};
use crate::sync::shim::{self, AtomicPtr, AtomicU64, fence};
use crate::sync::version::Version;

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

    /// The slots whose word is this, as far as the bits of `mask` go; a bit for each.
    #[inline(always)]
    pub(super) fn matches(&self, word: u64, mask: u64) -> u32 {
        let found = arch::match_four(shim::line(&self.words), word & mask, mask);
        // ORDER: Acquire fence, pairs with the Release store in `set_word`: the value of a word that was found is there.
        fence(Acquire);
        found.into()
    }

    /// The first slot that half a word says may be a hash's, in a large table, whose words leave bits out.
    ///
    /// Of keys that nobody has chosen it is the hash's, but for one of 2^30.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u64) -> Option<usize> {
        let found = arch::match_low_halves(shim::line(&self.words), hash as u32);
        (found != 0).then(|| found.trailing_zeros() as usize % SLOTS)
    }

    /// The value in a slot, if the slot is the hash's in such a table.
    #[inline(always)]
    pub(super) fn value_told(&self, slot: usize, hash: u64) -> Option<Word> {
        let told = Spelling::told::<Self>();
        ((self.word(slot) ^ told.word(hash)) & told.mask == 0).then(|| self.value(slot))
    }
}

/// Buckets and their versions, as kernels take them.
#[inline(always)]
pub(super) fn shelves<'a>(
    buckets: &'a [&Bucket; 8],
    versions: &'a [&Version; 8],
) -> arch::Shelves<'a> {
    // SAFETY: a bucket is a line of eight atomics of eight bytes, of which kernels take the last four for words, too: they only copy
    // them. A reference to one is a reference to the other.
    let lines = unsafe { &*ptr::from_ref(buckets).cast::<[&[_; 8]; 8]>() };
    // SAFETY: a version is a transparent wrapper of its word, and that of core's atomic.
    let guards = unsafe { &*ptr::from_ref(versions).cast::<[&_; 8]>() };
    arch::Shelves { lines, guards }
}

/// Words, as kernels take them.
#[inline(always)]
pub(super) fn plain(words: &[AtomicU64]) -> &[core::sync::atomic::AtomicU64] {
    // SAFETY: our atomics are core's, or transparent wrappers of them.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
}

// SAFETY: a line of atomics, whose slots are free if their words are 0.
unsafe impl directory::Bucket for Bucket {
    type Entry = Word;
    const SLOTS: usize = SLOTS;
    const LEAST_BUCKETS: usize = 4;
    const FILLED: [usize; 2] = FILLED;
    const SPARE_BITS: u32 = SPARE_BITS;
    const MOST_BLOCKS: usize = MOST_BLOCKS;

    #[inline(always)]
    fn free(&self) -> u32 {
        self.matches(FREE, Spelling::WHOLE)
    }

    #[inline(always)]
    fn gone(&self, mask: u64) -> u32 {
        self.matches(GONE, mask)
    }

    #[inline(always)]
    fn fill(&self, slot: usize, hash: u64, spelling: Spelling, value: Word) {
        self.set_value(slot, value);
        let passers = self.word(slot) & !spelling.mask;
        self.set_word(slot, spelling.word(hash) & spelling.mask | passers);
    }

    #[inline(always)]
    fn fill_first(&self, slot: usize, hash: u64, spelling: Spelling, value: Word) {
        self.set_value(slot, value);
        self.set_word(slot, spelling.word(hash) & spelling.mask);
    }

    fn empty(&self, slot: usize, gone: bool, spelling: Spelling) {
        let passers = self.word(slot) & !spelling.mask;
        self.set_word(slot, if gone { GONE | passers } else { FREE });
    }

    #[inline(always)]
    fn pass(&self, hash: u64, spelling: Spelling) {
        let (slot, bit) = passer(hash);
        self.set_word(slot, self.word(slot) | 1 << bit & !spelling.mask);
    }

    /// The same for a hash and for its word.
    #[inline(always)]
    fn is_passed(&self, hash: u64, mask: u64) -> bool {
        if mask == Spelling::WHOLE {
            return self.matches(FREE, mask) == 0;
        }
        let (slot, bit) = passer(hash);
        self.word(slot) >> bit & 1 != 0
    }

    fn note(&self) -> u64 {
        self.word(0)
    }

    fn set_note(&self, note: u64) {
        self.set_word(0, note);
    }

    fn clear(&self) {
        for word in &self.words {
            // Relaxed: a block between two owners is nobody's.
            word.store(FREE, Relaxed);
        }
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

    /// Bytes of the pieces that wait.
    pub(super) fn idle_bytes(&self) -> usize {
        let waiting = self.free.iter().map(|free| free.lock().len());
        waiting.zip(1..).map(|(pieces, units)| (pieces * units) << UNIT_SHIFT).sum()
    }
}

impl Place for Top {}
impl Place for Chunk {}
impl Place for Run {
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: alive until here.
        let bytes = Self::bytes(unsafe { this.as_ref() }.capacity());
        if Heap::units(bytes).is_none() {
            // SAFETY: made in `Run::put` with as many bytes; a run has nothing to drop.
            drop(unsafe { Pages::from_raw(this.cast(), bytes) });
        }
        // A piece of the heap that was not given back goes with the heap.
    }
}

impl Run {
    /// Puts a run into memory, with its words behind it.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn put(self, heap: &Heap) -> Result<Owned<Self>, AllocError> {
        let bytes = Self::bytes(self.capacity());
        let place = match Heap::units(bytes) {
            Some(units) => heap.take(units)?,
            None => NonNull::new(Pages::zeroed(bytes)?.into_raw()).expect("a block of memory"),
        };
        let place = place.cast::<Self>();
        // SAFETY: the memory has room for the run and its words, is aligned to a line, and nobody else's.
        unsafe { place.write(self) };
        // SAFETY: it is ours alone, and freed as it was made.
        Ok(unsafe { Owned::from_raw(place) })
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

/// What a map no longer uses, to be freed when nobody can be reading it.
#[derive(Debug)]
#[must_use = "readers may still be there: put it into the limbo"]
pub(super) enum Garbage<V> {
    Table(directory::Garbage<Bucket>),
    Run(Retired<Run>),
    Chunk(#[expect(dead_code, reason = "kept to be dropped")] Retired<Chunk>),
    Top(#[expect(dead_code, reason = "kept to be dropped")] Retired<Top>),
    Value(#[expect(dead_code, reason = "kept to be dropped")] Boxed<V>),
}

impl<V> Unlinked for Garbage<V> {
    fn is_large(&self) -> bool {
        matches!(self, Self::Table(_))
    }
}

/// Gives the memory of a run, which nobody uses any more, back to the heap it is from.
fn give_back(run: NonNull<Run>, heap: &Heap) {
    // SAFETY: alive until here.
    let bytes = Run::bytes(unsafe { run.as_ref() }.capacity());
    match Heap::units(bytes) {
        Some(units) => heap.free[units - 1].lock().push(Piece(run.cast())),
        // SAFETY: made in `Run::put` and freed once; a small run has a block of its own.
        None => unsafe { Run::free(run) },
    }
}

/// Gives the memory of a run back that nobody else has seen.
pub(super) fn discard(run: Owned<Run>, heap: &Heap) {
    give_back(run.into_raw(), heap);
}

impl<V> Garbage<V> {
    /// Frees it. Nobody reads it any more.
    pub(super) fn free(self, table: &Table, heap: &Heap) {
        match self {
            Self::Table(garbage) => table.free(garbage),
            Self::Run(run) => give_back(run.into_raw(), heap),
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
