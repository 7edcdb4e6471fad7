//! A value as the address of a box of its own, in a word that threads can share.
//!
//! # Invariants
//!
//! * **X1** A word from [`boxed`] is the address of a box, which is taken back once: by [`unboxed`], or by a [`Boxed`].

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::alloc::Layout;

use super::AllocError;
use super::word::{Word, is_inline, pack};

/// Puts a value into a box.
///
/// # Errors
///
/// The value, if the system gives no memory.
pub(crate) fn boxed<V>(value: V) -> Result<Word, (AllocError, V)> {
    let layout = Layout::new::<V>();
    if layout.size() == 0 {
        // A value that is dropped and has no bytes: its box allocates nothing.
        return Ok(Box::into_raw(Box::new(value)).cast());
    }
    let failed = AllocError { bytes: layout.size() };
    #[cfg(test)]
    if super::failing::fails_now() {
        return Err((failed, value));
    }
    // SAFETY: the layout is not empty.
    let Some(place) = NonNull::new(unsafe { std::alloc::alloc(layout) }) else {
        return Err((failed, value));
    };
    let place = place.cast::<V>();
    // SAFETY: fresh memory of the type's layout.
    unsafe { place.write(value) };
    Ok(place.as_ptr().cast())
}

/// Takes a value out of its box.
///
/// # Safety
///
/// The word came from [`boxed`] for this type, nobody reads the value any more, and it is taken back here (X1).
pub(crate) unsafe fn unboxed<V>(word: Word) -> V {
    // SAFETY: the caller promises that the word is that of a box, which is taken back once.
    *unsafe { Box::from_raw(word.cast::<V>()) }
}

/// Makes the word of a value: the value itself if it is inline, else the address of a box.
///
/// # Errors
///
/// The value, if the system gives no memory.
#[inline(always)]
pub(crate) fn word_of_value<V>(value: V) -> Result<Word, (AllocError, V)> {
    if const { is_inline::<V>() } {
        return Ok(pack(value));
    }
    boxed(value)
}

/// Takes a value back that was never put into the map.
pub(crate) fn value_of_word<V>(word: Word) -> V {
    if const { is_inline::<V>() } {
        // SAFETY: the word was packed from a `V`, which has nothing to drop and is read once.
        unsafe { core::ptr::from_ref(&word).cast::<V>().read() }
    } else {
        // SAFETY: made by `word_of_value`, and taken back once (X1).
        unsafe { unboxed(word) }
    }
}

/// A box that was in a map as a word.
#[derive(Debug)]
pub struct Boxed<V>(Word, PhantomData<V>);

impl<V> Boxed<V> {
    /// Takes a box over, to be dropped with the result.
    ///
    /// # Safety
    ///
    /// As [`unboxed`], from when the result is dropped.
    pub(crate) unsafe fn new(word: Word) -> Self {
        Self(word, PhantomData)
    }
}

// SAFETY: it is an owned `V`.
unsafe impl<V: Send> Send for Boxed<V> {}

impl<V> Drop for Boxed<V> {
    fn drop(&mut self) {
        // SAFETY: whoever made this promised it.
        drop(unsafe { unboxed::<V>(self.0) });
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_or_is_dropped_once() {
        let text = std::sync::Arc::new(7);
        let word = boxed(text.clone()).unwrap();
        // SAFETY: taken back here, once.
        assert_eq!(*unsafe { unboxed::<std::sync::Arc<i32>>(word) }, 7);
        let word = boxed(text.clone()).unwrap();
        // SAFETY: as above.
        drop(unsafe { Boxed::<std::sync::Arc<i32>>::new(word) });
        assert_eq!(std::sync::Arc::strong_count(&text), 1);
    }
}
