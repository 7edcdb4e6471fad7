//! The only way to the bytes of a map that outlives its process: stores of words, flushes of lines, and fences.
//!
//! ```text
//! word   8 bytes, stored at once
//! line   8 words, flushed at once
//! ```
//!
//! A stored word reaches the medium at any time after its store. `flush` asks for a line to be written, and after the next
//! `fence` of the same thread all that had been stored there before the flush is safe.
//!
//! # Invariants
//!
//! * **M1** Lines `0..lines()` are there, at the same place, until the medium is dropped. Their number only grows.
//! * **M2** Words change only by `store`.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "the errors are those of the system")]

mod checkpoint;
#[cfg(all(test, not(loom), not(shuttle)))]
pub(crate) mod disk;
mod journal;
mod mapped;
mod marks;
mod owner;
#[cfg(all(test, not(loom)))]
pub(crate) mod sim;
mod slow;
mod storage;

#[cfg(all(test, not(loom), not(shuttle)))]
pub(crate) use checkpoint::Origin;
pub(crate) use checkpoint::{Call, Checkpoints, Home, boot};
pub(crate) use journal::Boot;
#[cfg(all(test, not(loom), not(shuttle)))]
pub(crate) use journal::faults::TRUSTS;
pub(crate) use mapped::Mapped;
pub(crate) use owner::Forked;
pub(crate) use storage::{Storage, fill};

use std::io;

#[cfg(test)]
use crate::sync::shim::AtomicU64;
use crate::sync::shim::{LineWords, Ordering};

/// What a map's contents survive; each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: they are memory of the process.
    None,
    /// The end of the process, whatever ends it. They are in the system's page cache; a power cut, or an end of the system that is
    /// not orderly, may lose or tear them.
    Process,
    /// That, and of a power cut, at any moment, what the last checkpoint has: the map's `sync`, or the end of its use.
    Checkpoint,
    /// All that a call had returned survives a power cut too: they are in persistent memory, whose mapping the system has granted as such.
    Persistent,
}

/// What a map has asked its medium for since it was made, if that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Flushes {
    /// Lines that were flushed.
    pub lines: u64,
    /// Fences that were waited for.
    pub fences: u64,
}

/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;

/// A line of a medium, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LineAt(pub(crate) usize);

impl LineAt {
    /// The line `count` lines behind.
    #[inline(always)]
    pub(crate) fn plus(self, count: usize) -> Self {
        Self(self.0 + count)
    }

    /// A word of the line.
    #[inline(always)]
    pub(crate) fn word(self, index: usize) -> WordAt {
        debug_assert!(index < LINE_WORDS);
        WordAt(self.0 * LINE_WORDS + index)
    }
}

/// A word of a medium, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct WordAt(pub(crate) usize);

impl WordAt {
    /// The word `count` words behind.
    #[inline(always)]
    pub(crate) fn plus(self, count: usize) -> Self {
        Self(self.0 + count)
    }

    /// The line it is in.
    #[inline(always)]
    pub(crate) fn line(self) -> LineAt {
        LineAt(self.0 / LINE_WORDS)
    }

    /// Which word of its line it is.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0 % LINE_WORDS
    }
}

/// The words of a line, to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRef<'m>(&'m LineWords);

impl LineRef<'_> {
    /// Loads a word.
    #[inline(always)]
    pub(crate) fn load(self, index: usize, order: Ordering) -> u64 {
        self.0[index].load(order)
    }

    /// Which of the first half of the words agree with `want` where `mask` has ones: bit `i` for word `i`.
    #[inline(always)]
    pub(crate) fn matching_low(self, want: u64, mask: u64) -> u8 {
        let words = self.0.first_chunk::<{ LINE_WORDS / 2 }>().expect("a line has two halves");
        crate::arch::match_four(crate::sync::shim::line(words), want, mask)
    }

    /// Asks for the line without waiting for it.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        crate::arch::prefetch(self.0);
    }

    /// The same for one of many lines.
    #[inline(always)]
    pub(crate) fn prefetch_many(self) {
        crate::arch::prefetch_many(self.0);
    }
}

/// Bytes that a map is kept in; see the module.
pub(crate) trait Medium: Send + Sync {
    /// Whether the words of one line become durable in the order of their stores, as far as they do.
    fn is_ordered(&self) -> bool;

    /// How many lines there are.
    fn lines(&self) -> usize;

    /// Whether what a map keeps beside it in memory is to be in small pages, since the first touch of a huge one takes long.
    fn wants_small_pages(&self) -> bool {
        false
    }

    /// A line to read from.
    ///
    /// # Panics
    ///
    /// If there is no such line.
    fn line(&self, at: LineAt) -> LineRef<'_>;

    /// Stores a word.
    #[cfg_attr(test, track_caller)]
    fn store(&self, at: WordAt, value: u64, order: Ordering);

    /// Stores a word of a line that the caller has at hand.
    #[inline(always)]
    #[cfg_attr(test, track_caller)]
    fn store_in(
        &self,
        _words: LineRef<'_>,
        line: LineAt,
        index: usize,
        value: u64,
        order: Ordering,
    ) {
        self.store(line.word(index), value, order);
    }

    /// Stores all words of a line, one after the other, as Relaxed stores.
    #[inline(always)]
    #[cfg_attr(test, track_caller)]
    fn store_line(&self, line: LineAt, words: &[u64; LINE_WORDS]) {
        for (at, word) in words.iter().enumerate() {
            self.store(line.word(at), *word, Ordering::Relaxed);
        }
    }

    /// Asks for a line to be made durable as it is now.
    #[cfg_attr(test, track_caller)]
    fn flush(&self, at: LineAt);

    /// Waits for all flushes of this thread.
    #[cfg_attr(test, track_caller)]
    fn fence(&self);

    /// Makes the medium at least so many lines long; new lines have any contents.
    ///
    /// # Errors
    ///
    /// That of the system; the medium is as long as before.
    fn grow(&self, lines: usize) -> io::Result<()>;

    /// Takes note, before anybody else uses the medium, that only its first lines are in use: others may have no room yet.
    ///
    /// # Errors
    ///
    /// That of the system, if there is no room for those that are in use.
    fn trim(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    /// Begins a call of the map that may store. Checkpoints are taken between such calls.
    ///
    /// # Errors
    ///
    /// [`Forked`], in a process that was forked from the one whose files these are.
    #[inline(always)]
    fn enter(&self) -> io::Result<Call<'_>> {
        Ok(Call::free())
    }

    /// Loads a word.
    #[inline(always)]
    fn load(&self, at: WordAt, order: Ordering) -> u64 {
        self.line(at.line()).load(at.index(), order)
    }

    /// Makes what this thread stored in a line durable.
    #[inline(always)]
    #[cfg_attr(test, track_caller)]
    fn persist(&self, at: LineAt) {
        self.flush(at);
        self.fence();
    }
}

/// The words of a line, from an array of words.
#[cfg(test)]
pub(crate) fn line_of(words: &[AtomicU64], at: LineAt) -> LineRef<'_> {
    let words = &words[at.0 * LINE_WORDS..];
    LineRef(words.first_chunk().expect("an array of words has whole lines"))
}
