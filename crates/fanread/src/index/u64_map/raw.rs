//! The shared memory: buckets, runs of keys, and values in boxes.
//!
//! # Invariants
//!
//! * **M2** The memory of a run is a [`Run`] and, behind it, as many words as the run says; they are made of atomics.
//! * **M4** A value word of a map whose values are not inline is the address of a box; the word is taken out of the map
//!   once, and the box freed when nobody can be reading it.
//!
//! The sanitizer runs and the drop-counting tests watch them.

#![expect(unsafe_code, reason = "views memory as runs, and follows pointers")]
#![expect(clippy::cast_ptr_alignment, reason = "blocks of memory are aligned to a line")]

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::layout::{FREE, GONE, MOST_BLOCKS, SLOTS};
use super::order::{Chunk, Top};
use super::run::Run;
use super::table::Table;
use crate::directory;
use crate::mem::boxed::Boxed;
use crate::mem::pages::Pages;
use crate::mem::word::{self, Read, Word};
use crate::mem::{AllocError, LINE_BYTES};
use crate::sync::shared::{Owned, Place, Retired};
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
}

// SAFETY: a line of atomics, whose slots are free if their words are 0.
unsafe impl directory::Bucket for Bucket {
    type Entry = Word;
    const SLOTS: usize = SLOTS;
    const LEAST_BUCKETS: usize = 4;
    const MOST_BLOCKS: usize = MOST_BLOCKS;

    #[inline(always)]
    fn free(&self) -> u32 {
        self.matches(FREE)
    }

    #[inline(always)]
    fn gone(&self) -> u32 {
        self.matches(GONE)
    }

    #[inline(always)]
    fn fill(&self, slot: usize, hash: u64, filler: u64, value: Word) {
        self.set_value(slot, value);
        self.set_word(slot, hash ^ filler);
    }

    fn empty(&self, slot: usize, gone: bool) {
        self.set_word(slot, if gone { GONE } else { FREE });
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

impl Place for Top {}
impl Place for Chunk {}
impl Place for Run {
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: alive until here.
        let bytes = Self::bytes(unsafe { this.as_ref() }.capacity());
        // SAFETY: made in `Run::place` with as many bytes; a run has nothing to drop.
        drop(unsafe { Pages::from_raw(this.cast(), bytes) });
    }
}

impl Run {
    /// Puts a run into memory, with its words behind it.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn put(self) -> Result<Owned<Self>, AllocError> {
        let pages = Pages::zeroed(Self::bytes(self.capacity()))?;
        let place = NonNull::new(pages.into_raw().cast::<Self>()).expect("a block of memory");
        // SAFETY: the block has room for the run and its words, and is aligned to a line.
        unsafe { place.write(self) };
        // SAFETY: it is ours alone, and freed as it was made.
        Ok(unsafe { Owned::from_raw(place) })
    }
}

impl Run {
    /// Bytes of a run with its words.
    pub(super) fn bytes(capacity: usize) -> usize {
        size_of::<Self>() + capacity * size_of::<u64>()
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
    Run(#[expect(dead_code, reason = "kept to be dropped")] Retired<Run>),
    Chunk(#[expect(dead_code, reason = "kept to be dropped")] Retired<Chunk>),
    Top(#[expect(dead_code, reason = "kept to be dropped")] Retired<Top>),
    Value(#[expect(dead_code, reason = "kept to be dropped")] Boxed<V>),
}

impl<V> Garbage<V> {
    /// Frees it. Nobody reads it any more.
    pub(super) fn free(self, table: &Table) {
        if let Self::Table(garbage) = self {
            table.free(garbage);
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
