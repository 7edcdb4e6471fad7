//! A value as one word that threads can share: the value itself if it fits, else its address.
//!
//! A value is kept *inline* if it has at most 8 bytes and nothing to drop. The word is a pointer type although
//! it mostly holds plain bytes, because a value may *be* a pointer, and an integer would forget what it points
//! into.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, align_of, needs_drop, size_of};

/// A value or the address of one; see the module.
pub(crate) type Word = *mut ();

/// Whether values of this type are kept inline.
pub(crate) const fn is_inline<V>() -> bool {
    !needs_drop::<V>()
        && size_of::<V>() <= size_of::<Word>()
        && align_of::<V>() <= align_of::<Word>()
}

/// Packs an inline value.
#[inline(always)]
pub(crate) fn pack<V>(value: V) -> Word {
    assert!(is_inline::<V>(), "only inline values are packed");
    let mut word = MaybeUninit::<Word>::new(core::ptr::null_mut());
    // SAFETY: an inline value fits the word in size and alignment. It has nothing to drop, so moving it into
    // bytes forgets nothing.
    unsafe { word.as_mut_ptr().cast::<V>().write(value) };
    settle(&mut word)
}

/// Gives every byte of `word` some value: a value with padding leaves bytes without one behind, and those must
/// not reach an atomic.
#[inline(always)]
fn settle(word: &mut MaybeUninit<Word>) -> Word {
    // SAFETY: the block does nothing. To the compiler it may have written any bytes through the address it is
    // given, so what was undefined before is some fixed value after.
    #[cfg(not(miri))]
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) word.as_mut_ptr(), options(nostack, preserves_flags));
    }
    // SAFETY: all bytes are initialised, see above. (Miri runs no assembly; its tests use types without padding.)
    unsafe { word.assume_init() }
}

/// What a word can stand for: a value of any sized type, or a byte string (`bytes.rs`).
pub trait Form {
    /// The value behind a word.
    ///
    /// # Safety
    ///
    /// R1, and the word stays in its place for the lifetime of the result, through which alone it may change.
    #[doc(hidden)]
    unsafe fn behind<'w>(word: *const Word) -> &'w Self;
}

impl<V> Form for V {
    #[inline(always)]
    unsafe fn behind<'w>(word: *const Word) -> &'w V {
        if const { is_inline::<V>() } {
            // SAFETY: the word's bytes are those of a `V` (R1), and stay in place while they are borrowed.
            unsafe { &*word.cast::<V>() }
        } else {
            // SAFETY: the address of a living `V` (R1).
            unsafe { &*word.read().cast::<V>() }
        }
    }
}

/// A value that was read from a map: a copy of an inline one, else a reference.
///
/// # Invariants
///
/// * **R1** `word` came from `pack::<V>` if `V` is inline, else it is the address of a `V` that lives and is not
///   changed for `'g`; of a byte string, as `bytes.rs` writes it.
pub(crate) struct Read<'g, V: ?Sized> {
    word: Word,
    lives: PhantomData<&'g V>,
}

// SAFETY: a `Read` is a shared reference to a `V`, or a copy that `Lent` lends as one.
unsafe impl<V: ?Sized + Sync> Send for Read<'_, V> {}
// SAFETY: as above.
unsafe impl<V: ?Sized + Sync> Sync for Read<'_, V> {}

impl<V: ?Sized> Clone for Read<'_, V> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized> Copy for Read<'_, V> {}

impl<V: ?Sized> Read<'_, V> {
    /// Wraps a word.
    ///
    /// # Safety
    ///
    /// R1.
    #[inline(always)]
    pub(crate) unsafe fn new(word: Word) -> Self {
        Self { word, lives: PhantomData }
    }

    /// The word, which is the same for the same value in the same place.
    #[inline(always)]
    pub(crate) fn word(self) -> Word {
        self.word
    }
}

/// A value that was read, to be looked at.
///
/// A copy of a value may be one that changes as it is looked at, an atomic say. So the word is in a cell and only lent as a `V`: it is
/// neither `Copy` nor `Clone`, as nobody may copy it while somebody looks.
pub(crate) struct Lent<'g, V: ?Sized> {
    /// As that of a [`Read`] (R1).
    word: UnsafeCell<Word>,
    lives: PhantomData<&'g V>,
}

// SAFETY: as a `Read`.
unsafe impl<V: ?Sized + Sync> Send for Lent<'_, V> {}
// SAFETY: as a `Read`; all that can be had of a shared one is a shared `V`.
unsafe impl<V: ?Sized + Sync> Sync for Lent<'_, V> {}

impl<'g, V: ?Sized> Lent<'g, V> {
    #[inline(always)]
    pub(crate) fn new(read: Read<'g, V>) -> Self {
        Self { word: UnsafeCell::new(read.word), lives: PhantomData }
    }

    /// The word that was read, unless somebody has looked at the value since, and that has changed.
    #[inline(always)]
    pub(crate) fn word(&mut self) -> Word {
        *self.word.get_mut()
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn get(&self) -> &V
    where
        V: Form,
    {
        // SAFETY: R1; `self` keeps the word in place, and as long as it is borrowed the word is only lent as a `V`.
        unsafe { V::behind(self.word.get()) }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    fn round<V: Copy + PartialEq + core::fmt::Debug>(value: V) {
        // SAFETY: packed as the type it is read as.
        let read = unsafe { Read::<V>::new(pack(value)) };
        assert_eq!(*Lent::new(read).get(), value);
    }

    #[test]
    fn inline_values_come_back() {
        round(7_u64);
        round(-1_i8);
        round(());
        round((1_u8, 2_u32));
        round(1.5_f64);
        round(Some('x'));
        round([1_u8, 2, 3]);
        let text = String::from("a pointer keeps what it points into");
        round(&text);
    }

    #[test]
    fn what_must_be_dropped_or_is_large_is_not_inline() {
        assert!(is_inline::<u64>() && is_inline::<()>() && is_inline::<&u8>());
        assert!(!is_inline::<Box<u8>>() && !is_inline::<[u64; 2]>() && !is_inline::<&str>());
    }
}
