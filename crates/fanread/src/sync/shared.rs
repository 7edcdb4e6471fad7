//! Pointers that threads share: to something that is made by one, found by many, and replaced while they look.
//!
//! # Invariants
//!
//! * **P1** What a [`Shared`] points to was handed over to it, or to another it is an alias of. It is handed out once, as
//!   [`Retired`], after nobody can find it any more, and freed when every guard of that time is gone.

#![expect(unsafe_code, reason = "follows pointers; every block cites P1")]

use core::ptr::{self, NonNull};

use super::epoch::Guard;
use super::shim::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

/// Something that lies in memory by itself: in a box, if it does not say otherwise.
pub(crate) trait Place: Sized {
    /// Frees the memory.
    ///
    /// # Safety
    ///
    /// It was put there for a [`Shared`], nobody uses it any more, and it is freed once (P1).
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: whatever has no memory of another kind is put into a box, by `Owned::new`.
        drop(unsafe { Box::from_raw(this.as_ptr()) });
    }
}

/// Something that nobody else knows yet.
#[derive(Debug)]
pub(crate) struct Owned<T: Place>(NonNull<T>);

// SAFETY: as a box would be.
unsafe impl<T: Place + Send> Send for Owned<T> {}

impl<T: Place> Owned<T> {
    /// Puts it into a box. Not for what frees itself otherwise.
    pub(crate) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    /// Takes over what lies in memory already.
    ///
    /// # Safety
    ///
    /// It is the caller's alone, and [`Place::free`] may free it.
    pub(crate) unsafe fn from_raw(place: NonNull<T>) -> Self {
        Self(place)
    }

    pub(crate) fn get(&self) -> &T {
        // SAFETY: alive, and ours.
        unsafe { self.0.as_ref() }
    }

    /// Where it lies, for who gives the memory back in another way.
    pub(crate) fn into_raw(self) -> NonNull<T> {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }
}

impl<T: Place> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: ours alone (P1).
        unsafe { T::free(self.0) };
    }
}

/// A pointer that threads share; null, or to something that lives as long as a reader is pinned (P1).
#[derive(Debug)]
pub(crate) struct Shared<T>(AtomicPtr<T>);

impl<T: Place> Shared<T> {
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn new(value: Owned<T>) -> Self {
        Self(AtomicPtr::new(value.into_raw().as_ptr()))
    }

    /// Another pointer to the same. The caller excludes stores.
    pub(crate) fn alias(&self) -> Self {
        // Relaxed: who excludes stores has seen the last one.
        Self(AtomicPtr::new(self.0.load(Relaxed)))
    }

    #[inline(always)]
    pub(crate) fn get<'g>(&self, _pinned: &'g Guard) -> Option<&'g T> {
        // ORDER: Acquire, pairs with the Release store in `point_to`: what it points to is filled.
        let place = self.0.load(Acquire);
        // SAFETY: null, or something that could be found after the guard was made (P1).
        unsafe { place.as_ref() }
    }

    /// The same without a guard, for who knows that it points to something.
    ///
    /// # Safety
    ///
    /// It is not null, and the caller is pinned, or excludes stores, as long as the result lives.
    #[inline(always)]
    pub(crate) unsafe fn get_unguarded(&self) -> &T {
        // ORDER: Acquire, as in `get`.
        let place = self.0.load(Acquire);
        // SAFETY: not null, and alive while the caller is pinned (P1).
        unsafe { &*place }
    }

    /// Whether both point to the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // Relaxed: only the addresses are looked at.
        ptr::eq(self.0.load(Relaxed), other.0.load(Relaxed))
    }

    /// Whether this points to `value`.
    pub(crate) fn is(&self, value: &T) -> bool {
        // Relaxed: only the address is looked at.
        ptr::eq(self.0.load(Relaxed), value)
    }

    /// Points to where another pointer does. The caller excludes other stores.
    pub(crate) fn point_to(&self, other: &Self) {
        // ORDER: Release, pairs with `get`.
        self.0.store(other.0.load(Relaxed), Release);
    }

    /// Takes out what this points to, of which the caller knows that it is the last pointer that can be found. It excludes
    /// other stores.
    pub(crate) fn retire(&self) -> Option<Retired<T>> {
        NonNull::new(self.0.load(Relaxed)).map(Retired)
    }

    /// Points to `value` and returns what was pointed to before, to which no other pointer leads. The caller excludes other
    /// stores.
    pub(crate) fn replace(&self, value: Owned<T>) -> Option<Retired<T>> {
        let old = self.retire();
        self.point_to(&Self::new(value));
        old
    }
}

/// Something that nobody can find any more, but may still be read.
#[derive(Debug)]
#[must_use = "readers may still be there: put it into the limbo"]
pub(crate) struct Retired<T: Place>(NonNull<T>);

// SAFETY: it is freed by one thread, when nobody else uses it.
unsafe impl<T: Place + Send> Send for Retired<T> {}

impl<T: Place> Retired<T> {
    /// What it is, for who frees it: only asked when nobody reads it any more.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: the caller is the only one left.
        unsafe { self.0.as_mut() }
    }

    /// As [`Owned::into_raw`].
    pub(crate) fn into_raw(self) -> NonNull<T> {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }
}

impl<T: Place> Drop for Retired<T> {
    fn drop(&mut self) {
        // SAFETY: dropped when nobody can be reading it (P1).
        unsafe { T::free(self.0) };
    }
}
