//! A value of a large map, as one word: up to seven bytes in the word itself, more in an allocation of their own.
//!
//! ```text
//! bit  63                              8 7        1  0
//!     +---------------------------------+----------+---+
//!     | bytes 6 to 0                    | length   | 1 |   at most 7 bytes
//!     +---------------------------------+----------+---+
//!     | address of an allocation                     0 |   more: length (u32), then the bytes
//!     +------------------------------------------------+
//! ```
//!
//! A word does not own: whoever keeps words frees each of them once. Only `large.rs` does.

#![allow(clippy::cast_ptr_alignment, reason = "allocations are aligned for their header")]

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Deref;
use std::ptr;

use crate::size;

/// Bytes that fit beside the length in a word.
const INLINE_BYTES: usize = 7;

/// Bytes of the length in front of an allocation. Its alignment keeps the lowest bit of an address zero.
const HEADER_BYTES: usize = size_of::<u32>();

/// Longest value of a map.
pub(crate) const MAX_VALUE_BYTES: usize = u32::MAX as usize;

/// A value, or where it is.
#[derive(Clone, Copy)]
pub(crate) struct Word(u64);

impl Word {
    /// Makes a word that holds `value`, of at most [`MAX_VALUE_BYTES`]; `None` if there is no memory.
    pub(crate) fn new(value: &[u8]) -> Option<Self> {
        assert!(value.len() <= MAX_VALUE_BYTES, "the caller has checked the length");
        if value.len() <= INLINE_BYTES {
            let mut bytes = [0; 8];
            bytes[0] = (value.len() as u8) << 1 | 1;
            bytes[1..=value.len()].copy_from_slice(value);
            return Some(Self(u64::from_le_bytes(bytes)));
        }
        // SAFETY: the layout has at least the bytes of the header.
        let at = unsafe { alloc(layout(value.len())) };
        if at.is_null() {
            return None;
        }
        // SAFETY: the allocation has room for the header and, behind it, the value; it is new, so nothing overlaps.
        unsafe {
            at.cast::<u32>().write(value.len() as u32);
            ptr::copy_nonoverlapping(value.as_ptr(), at.add(HEADER_BYTES), value.len());
        }
        Some(Self(at.expose_provenance() as u64))
    }

    /// Takes back what [`raw`](Self::raw) gave.
    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The word as a number.
    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    /// The value.
    ///
    /// # Safety
    ///
    /// The word came from [`new`](Self::new) and is not freed while `'a` lasts.
    pub(crate) unsafe fn bytes<'a>(self) -> Bytes<'a> {
        if self.0 & 1 == 1 {
            let [head, bytes @ ..] = self.0.to_le_bytes();
            return Bytes::Short(bytes, head >> 1);
        }
        let at = ptr::with_exposed_provenance::<u8>(self.0 as usize);
        // SAFETY: the lowest bit is 0, so `new` has stored an address whose allocation starts with a length and has as many
        // bytes behind it; the caller keeps it for 'a.
        unsafe {
            let len = at.cast::<u32>().read() as usize;
            Bytes::Long(std::slice::from_raw_parts(at.add(HEADER_BYTES), len))
        }
    }

    /// Writes `value` over the one that is there, if that has an allocation and as many bytes; returns whether it did.
    ///
    /// # Safety
    ///
    /// The word came from [`new`](Self::new), is not freed, and nobody has its bytes.
    pub(crate) unsafe fn overwrite(self, value: &[u8]) -> bool {
        // SAFETY: the caller's promise; the bytes are gone before they are written to.
        let as_long = unsafe { self.bytes() }.len() == value.len();
        if self.0 & 1 == 1 || !as_long {
            return false;
        }
        let at = ptr::with_exposed_provenance_mut::<u8>(self.0 as usize);
        // SAFETY: the allocation has as many bytes behind its header, and the caller has nobody else look at them.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), at.add(HEADER_BYTES), value.len()) };
        true
    }

    /// Gives the value's memory back.
    ///
    /// # Safety
    ///
    /// The word came from [`new`](Self::new), is freed once, and nobody uses its bytes any more.
    pub(crate) unsafe fn free(self) {
        if self.0 & 1 == 1 {
            return;
        }
        let at = ptr::with_exposed_provenance_mut::<u8>(self.0 as usize);
        // SAFETY: as in `bytes`; the layout is the one of `new`, since the length is the same.
        unsafe {
            let len = at.cast::<u32>().read() as usize;
            dealloc(at, layout(len));
        }
    }

    /// What a value of `len` bytes takes beside its word.
    pub(crate) fn heap_bytes(len: usize) -> usize {
        if len <= INLINE_BYTES { 0 } else { size::of(HEADER_BYTES + len) }
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(HEADER_BYTES + len, align_of::<u32>()).expect("a length of 32 bits")
}

/// A value that was found.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'a> {
    /// Was in the word.
    Short([u8; INLINE_BYTES], u8),
    /// Is where the map keeps it.
    Long(&'a [u8]),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
