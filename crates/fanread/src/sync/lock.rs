//! A lock around data that only writers touch.
//!
//! Holders run for tens of instructions (an allocation) to some microseconds (a split's turn at the prefix
//! table) and never call user code, so waiting is spinning that soon gives the processor away. Unlike std's
//! mutex it takes four bytes, works under the test scheduler, and cannot be poisoned.
//!
//! # Invariants
//!
//! * **K1** `data` is touched only by the thread that holds `state` = 1.

#![expect(unsafe_code, reason = "a lock lends its data from behind a cell")]

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use super::backoff::Backoff;
use super::shim::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Data behind a lock; see the module.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    state: AtomicU32,
    data: UnsafeCell<T>,
}

// SAFETY: the data is lent to one thread at a time (K1), which asks of it to be `Send`.
unsafe impl<T: Send> Sync for Lock<T> {}

// Holders call no user code, so what panics there never finds the data half changed.
impl<T> core::panic::UnwindSafe for Lock<T> {}
impl<T> core::panic::RefUnwindSafe for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(data: T) -> Self {
        Self { state: AtomicU32::new(0), data: UnsafeCell::new(data) }
    }

    /// Waits for the lock and holds it until the result is dropped.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let mut backoff = Backoff::new();
        // ORDER: Acquire, pairs with the Release store in `Held::drop`.
        while self.state.load(Relaxed) != 0
            || self.state.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err()
        {
            backoff.wait();
        }
        Held { lock: self }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        // ORDER: Acquire, as in `lock`.
        self.state.compare_exchange_weak(0, 1, Acquire, Relaxed).ok().map(|_| Held { lock: self })
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock (K1), and the borrow ends before `self` unlocks.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` makes it the only borrow.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // ORDER: Release, pairs with the Acquire exchange in `lock`.
        self.lock.state.store(0, Release);
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_not_taken_by_trying() {
        let lock = Lock::new(0_u64);
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        // May fail although the lock is free.
        assert!((0..1_000).any(|_| lock.try_lock().is_some()));
    }

    #[test]
    fn holders_exclude_each_other() {
        let lock = Lock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..10_000 {
                        let mut held = lock.lock();
                        let before = *held;
                        if turn % 100 == 0 {
                            // Whoever else gets in now sees the same.
                            std::thread::yield_now();
                        }
                        *held = before + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }
}
