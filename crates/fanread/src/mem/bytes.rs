//! A byte string as a value: its length, then its bytes, wherever they lie.
//!
//! ```text
//! +----------+----------------------------------------+-------+
//! | length 4 | length 8, if the first one is u32::MAX | bytes |     at any address
//! +----------+----------------------------------------+-------+
//! ```
//!
//! The word of such a value is the address of its length.
//!
//! # Invariants
//!
//! * **Y1** A word names a piece that was written by [`write`] and is not changed while anybody reads it.
//! * **Y2** A piece of its own, from [`Apart::new`], is given back once, by the drop of an [`Apart`].

use core::ptr;
use std::alloc::{Layout, alloc, dealloc};

use super::AllocError;
use super::word::{Form, Word};
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};

/// In place of a length that takes eight bytes.
const LONG: u32 = u32::MAX;

/// Bytes of a value with its length.
pub(crate) const fn piece_bytes(value: usize) -> usize {
    if value < LONG as usize { 4 + value } else { 12 + value }
}

/// Writes a value with its length.
///
/// # Safety
///
/// There is room for [`piece_bytes`] at `at`, which is the caller's alone.
#[inline(always)]
pub(crate) unsafe fn write(at: *mut u8, value: &[u8]) {
    // SAFETY: the caller promises the room; nothing is assumed of its alignment.
    unsafe {
        let place = if value.len() < LONG as usize {
            at.cast::<u32>().write_unaligned(value.len() as u32);
            at.add(4)
        } else {
            at.cast::<u32>().write_unaligned(LONG);
            at.add(4).cast::<u64>().write_unaligned(value.len() as u64);
            at.add(12)
        };
        ptr::copy_nonoverlapping(value.as_ptr(), place, value.len());
    }
}

/// Where the bytes of a written value are, and how many.
///
/// # Safety
///
/// `at` was written by [`write`].
#[inline(always)]
pub(crate) unsafe fn place(at: *mut u8) -> (*mut u8, usize) {
    // SAFETY: the caller promises that a length is there, and a second one behind `LONG`.
    unsafe {
        match at.cast::<u32>().read_unaligned() {
            LONG => (at.add(12), at.add(4).cast::<u64>().read_unaligned() as usize),
            len => (at.add(4), len as usize),
        }
    }
}

impl Form for [u8] {
    #[inline(always)]
    unsafe fn behind<'w>(word: *const Word) -> &'w [u8] {
        // SAFETY: the caller promises that the word names a written piece that stays as it is (Y1).
        unsafe {
            let (bytes, len) = place(word.read().cast());
            core::slice::from_raw_parts(bytes, len)
        }
    }
}

/// A value in a piece of memory of its own.
#[derive(Debug)]
pub struct Apart(Word);

// SAFETY: bytes that belong to nobody else.
unsafe impl Send for Apart {}

impl Apart {
    /// Copies a value.
    pub(crate) fn new(value: &[u8]) -> Result<Self, AllocError> {
        let layout = layout(value.len());
        let failed = AllocError { bytes: layout.size() };
        #[cfg(test)]
        if super::failing::fails_now() {
            return Err(failed);
        }
        // SAFETY: the layout has at least the bytes of a length.
        let at = unsafe { alloc(layout) };
        if at.is_null() {
            return Err(failed);
        }
        // SAFETY: fresh, and as large as it has to be.
        unsafe { write(at, value) };
        #[cfg(test)]
        PIECES.set(PIECES.get() + 1);
        Ok(Self(at.cast()))
    }

    /// Gives the piece up; its word is its address.
    pub(crate) fn into_word(self) -> Word {
        core::mem::ManuallyDrop::new(self).0
    }

    /// Takes a piece back.
    ///
    /// # Safety
    ///
    /// The word came from [`into_word`](Self::into_word) and is taken back here alone (Y2); nobody reads the value when the
    /// result is dropped.
    pub(crate) unsafe fn from_word(word: Word) -> Self {
        Self(word)
    }

    /// Bytes of the piece.
    pub(crate) fn bytes(&self) -> usize {
        // SAFETY: written by `new`.
        piece_bytes(unsafe { place(self.0.cast()) }.1)
    }
}

#[cfg(test)]
thread_local! {
    /// How many pieces this thread has made more than it has given back.
    pub(crate) static PIECES: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

impl Drop for Apart {
    fn drop(&mut self) {
        #[cfg(test)]
        PIECES.set(PIECES.get() - 1);
        // SAFETY: the layout is that of `new`, as the length is, and the piece is given back once (Y2).
        unsafe { dealloc(self.0.cast(), layout(place(self.0.cast()).1)) };
    }
}

fn layout(value: usize) -> Layout {
    // A value is in memory already, so this much is not too much for a layout.
    Layout::from_size_align(piece_bytes(value), 1).expect("a little more than a slice has")
}

/// Longest byte string that is kept in its record. One wait more is little beside what a longer one takes to be read.
pub(crate) const MOST_INSIDE: usize =
    if cfg!(any(test, shuttle, small_leaves, miri)) { 64 } else { 1024 };

/// A count of the bytes of values that are not in their records.
#[derive(Debug, Default)]
pub struct BytesApart(AtomicU64);

impl BytesApart {
    /// How many there are.
    pub(crate) fn get(&self) -> usize {
        // Relaxed: a figure; who drops the map has seen all writers end.
        self.0.load(Relaxed) as usize
    }
}

/// A byte string on its way into a record.
#[derive(Clone, Copy, Debug)]
pub enum NewBytes<'a> {
    /// It goes into the record.
    Inside(&'a [u8]),
    /// It has a piece of its own, with this word.
    Apart(Word),
}

impl<'a> NewBytes<'a> {
    /// Gets a string ready. `apart` is the count of bytes in such pieces.
    pub(crate) fn of(apart: &BytesApart, value: &'a [u8]) -> Result<Self, AllocError> {
        if value.len() <= MOST_INSIDE {
            return Ok(Self::Inside(value));
        }
        let piece = Apart::new(value)?;
        // Relaxed: a figure.
        apart.0.fetch_add(piece.bytes() as u64, Relaxed);
        Ok(Self::Apart(piece.into_word()))
    }

    /// Gives back what was never put into the map.
    pub(crate) fn discard(self, apart: &BytesApart) {
        if let Self::Apart(word) = self {
            // SAFETY: the word was made by `of`, and nobody has seen it.
            drop(unsafe { take_apart(apart, word) });
        }
    }
}

/// Takes back a piece that was made by [`NewBytes::of`].
///
/// # Safety
///
/// As [`Apart::from_word`].
pub(crate) unsafe fn take_apart(apart: &BytesApart, word: Word) -> Apart {
    // SAFETY: the caller's promise.
    let piece = unsafe { Apart::from_word(word) };
    // Relaxed: a figure.
    apart.0.fetch_sub(piece.bytes() as u64, Relaxed);
    piece
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_any_address() {
        let mut room = [0_u8; 64];
        for (at, value) in [(0, &b""[..]), (1, b"a"), (3, b"of any length"), (8, &[7; 40])] {
            // SAFETY: there is room, and nobody else.
            let word: Word = unsafe {
                let at = room.as_mut_ptr().add(at);
                write(at, value);
                at.cast()
            };
            // SAFETY: written just now.
            assert_eq!(unsafe { <[u8]>::behind(&raw const word) }, value);
        }
    }

    #[test]
    fn values_apart_are_given_back() {
        for len in [0, 1, 5_000, 1 << 20] {
            let value = vec![3; len];
            let apart = Apart::new(&value).unwrap();
            assert_eq!(apart.bytes(), 4 + len);
            let word = apart.into_word();
            // SAFETY: it lives, and is taken back here.
            unsafe {
                assert_eq!(<[u8]>::behind(&raw const word), value);
                drop(Apart::from_word(word));
            }
        }
    }
}
