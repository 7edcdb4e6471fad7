//! A record: a value, the length of a key, and the key, in one piece of memory.
//!
//! ```text
//! byte 0            VALUE_BYTES    +2              +2 + length
//!      +------------+--------------+---------------+
//!      | value      | length (u16) | key           |     padded to 8 bytes
//!      +------------+--------------+---------------+
//! ```
//!
//! The value part is the word of an inline value (an atomic, so that it can be updated in place), the value
//! itself, or, for values over 1 KB or with a large alignment, the address of a box. It is absent for values
//! without bytes.
//!
//! # Invariants
//!
//! * **D1** Length and key never change after `write`. Nor does the value part, unless the value is inline.
//! * **D2** A record that can be found is not freed while the finder is pinned.

use core::marker::PhantomData;
use core::mem::{align_of, size_of};

use super::AllocError;
use super::boxed::{boxed, unboxed};
use super::word::{self, Read, Word};
use crate::sync::shim::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

/// Values up to this size lie in the record. Larger ones would make the key's line a far one, and the allocator
/// has no size classes for them.
const IN_PLACE_BYTES: usize = 1024;

/// A record of a map of `V`, somewhere in memory that the map's readers may read.
#[derive(Debug)]
pub(crate) struct Record<'g, V> {
    at: *mut u8,
    lives: PhantomData<&'g V>,
}

impl<V> Clone for Record<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Record<'_, V> {}

impl<'g, V> Record<'g, V> {
    const IN_PLACE: bool =
        size_of::<V>() <= IN_PLACE_BYTES && align_of::<V>() <= align_of::<Word>();

    /// Bytes before the length.
    const VALUE_BYTES: usize = if size_of::<V>() == 0 && align_of::<V>() <= align_of::<Word>() {
        0
    } else if Self::IN_PLACE {
        size_of::<V>().next_multiple_of(size_of::<Word>())
    } else {
        size_of::<Word>()
    };

    /// How many units of 8 bytes a record takes.
    #[inline]
    pub(crate) const fn units(key_bytes: usize) -> u64 {
        (Self::VALUE_BYTES + 2 + key_bytes).div_ceil(8) as u64
    }

    /// Fills fresh memory.
    ///
    /// # Safety
    ///
    /// `at` is the start of `units(key.len())` units that belong to the caller, aligned to 8 bytes.
    /// The key has at most 65,535 bytes.
    ///
    /// # Errors
    ///
    /// The value, if it needs a box and the system gives no memory; the units are as they were.
    #[inline]
    pub(crate) unsafe fn write(at: *mut u8, key: &[u8], value: V) -> Result<(), (AllocError, V)> {
        debug_assert!(u16::try_from(key.len()).is_ok());
        // SAFETY: both parts lie in the caller's units, the value part is aligned to 8.
        unsafe {
            if word::is_inline::<V>() {
                Self::write_packed(at, key, word::pack(value), PhantomData);
                return Ok(());
            }
            if Self::IN_PLACE {
                at.cast::<V>().write(value);
            } else {
                at.cast::<Word>().write(boxed(value)?);
            }
            Self::write_key(at, key);
        }
        Ok(())
    }

    /// Fills fresh memory with an inline value that is packed already.
    ///
    /// # Safety
    ///
    /// As `write`; `value` was packed as a `V`.
    #[inline]
    pub(crate) unsafe fn write_packed(at: *mut u8, key: &[u8], value: Word, _: PhantomData<V>) {
        // SAFETY: as in `write`. A plain store, as nobody else can reach the record yet.
        unsafe {
            if Self::VALUE_BYTES != 0 {
                at.cast::<Word>().write(value);
            }
            Self::write_key(at, key);
        }
    }

    /// Writes length and key.
    ///
    /// # Safety
    ///
    /// As `write`.
    #[inline(always)]
    unsafe fn write_key(at: *mut u8, key: &[u8]) {
        // SAFETY: both lie in the caller's units; the length is at an even address, as the value part is whole words.
        unsafe {
            at.add(Self::VALUE_BYTES).cast::<u16>().write(key.len() as u16);
            core::ptr::copy_nonoverlapping(key.as_ptr(), at.add(Self::VALUE_BYTES + 2), key.len());
        }
    }

    /// Names a record.
    ///
    /// # Safety
    ///
    /// `at` was filled by `write` for the same `V`, the caller's view of it is ordered behind that, and D2 holds
    /// for `'g`.
    #[inline(always)]
    pub(crate) unsafe fn new(at: *mut u8) -> Self {
        Self { at, lives: PhantomData }
    }

    /// The key.
    #[inline(always)]
    pub(crate) fn key(self) -> &'g [u8] {
        // SAFETY: written by `write`, unchanged since (D1), and there for 'g (`new`).
        unsafe {
            let bytes = self.at.add(Self::VALUE_BYTES).cast::<u16>().read();
            core::slice::from_raw_parts(self.at.add(Self::VALUE_BYTES + 2), usize::from(bytes))
        }
    }

    /// The word of an inline value.
    #[inline(always)]
    fn cell(self) -> &'g AtomicPtr<()> {
        debug_assert!(word::is_inline::<V>() && Self::VALUE_BYTES == size_of::<Word>());
        // SAFETY: the value part of an inline value is one aligned word, and after `write` it is only touched as
        // an atomic.
        unsafe { &*self.at.cast::<AtomicPtr<()>>() }
    }

    /// The value as a word: packed if it is inline, else its address.
    #[inline(always)]
    pub(crate) fn word(self) -> Word {
        if word::is_inline::<V>() {
            if Self::VALUE_BYTES == 0 {
                return core::ptr::null_mut();
            }
            // ORDER: Acquire, pairs with the Release store in `set_word`: a value may be a pointer, and who reads it reads what it
            // points to.
            self.cell().load(Acquire)
        } else if Self::IN_PLACE {
            self.at.cast()
        } else {
            // SAFETY: the value part is the address of the box (D1).
            unsafe { self.at.cast::<Word>().read() }
        }
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn value(self) -> Read<'g, V> {
        // SAFETY: `word` is packed for inline values; else the value lives as long as the record and is not
        // changed (D1, D2).
        unsafe { Read::new(self.word()) }
    }

    /// Replaces an inline value. The caller excludes other writers.
    #[inline(always)]
    pub(crate) fn set_word(self, new: Word) {
        if Self::VALUE_BYTES != 0 {
            // ORDER: Release, pairs with `word`: whatever the value points to was written before.
            self.cell().store(new, Release);
        }
    }

    /// Drops the value of a record that is about to be freed.
    ///
    /// # Safety
    ///
    /// Nobody reads the record any more, and it is not used again.
    pub(crate) unsafe fn drop_value(self) {
        if word::is_inline::<V>() {
            return;
        }
        // SAFETY: the caller owns the record; the value was moved in by `write` and never out.
        unsafe {
            if Self::IN_PLACE {
                self.at.cast::<V>().drop_in_place();
            } else {
                drop(unboxed::<V>(self.at.cast::<Word>().read()));
            }
        }
    }

    /// Takes the value out of a record that is about to be freed.
    ///
    /// # Safety
    ///
    /// As `drop_value`.
    pub(crate) unsafe fn take_value(self) -> V {
        let word = self.word();
        // SAFETY: the caller owns the record; the value was moved in by `write` and is moved out here.
        unsafe {
            if word::is_inline::<V>() {
                core::ptr::from_ref(&word).cast::<V>().read()
            } else if Self::IN_PLACE {
                self.at.cast::<V>().read()
            } else {
                unboxed(word)
            }
        }
    }

    /// Where the record starts, for prefetching.
    #[inline(always)]
    pub(crate) fn at(self) -> *const u8 {
        self.at
    }
}
