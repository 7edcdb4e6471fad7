//! Atomics as the rest of the crate names them, so that a test build can put a scheduler behind them.
//!
//! * Ordinarily these are core's types.
//! * Under `cfg(shuttle)` each access is a point where the scheduler may switch threads. The types keep the
//!   size and alignment of core's, so the real layouts run under the scheduler unchanged.
//! * Under `cfg(fanread_tsan)`, for the thread sanitizer, which does not know fences, every load is an Acquire load and every store a
//!   Release store at least. That is more than the fences order, so it can hide a fence that is missing, which is the business of
//!   the loom models; memory that is read beside a writer, or given back too early, is seen.
//! * Under `cfg(loom)` layouts stay core's too; the protocols in this module are generic over [`Word`] and the
//!   loom models run the same code on loom's atomics.

pub(crate) use core::sync::atomic::Ordering;

#[cfg(not(any(shuttle, fanread_tsan)))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence};

#[cfg(any(shuttle, fanread_tsan))]
pub(crate) use scheduled::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence};

/// The words of one cache line.
pub(crate) type LineWords = [AtomicU64; 8];

/// Returns the words of a line, or some of them, as core's atomics, for the kernels of `arch`.
#[cfg(not(any(shuttle, fanread_tsan)))]
#[inline(always)]
pub(crate) fn line<const N: usize>(words: &[AtomicU64; N]) -> &[core::sync::atomic::AtomicU64; N] {
    words
}

#[cfg(any(shuttle, fanread_tsan))]
pub(crate) use scheduled::line;

/// Gives the scheduler of a model run a chance to switch.
#[cfg(any(shuttle, fanread_tsan))]
fn point() {
    #[cfg(shuttle)]
    // Not a yield: the scheduler takes a yield as a wish to wait, and would put every thread last at every access.
    shuttle::thread::sleep(core::time::Duration::ZERO);
}

/// Tells the scheduler of a model run that this thread waits for another; nothing in an ordinary build.
#[inline(always)]
pub(crate) fn wait_for_others() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

/// Runs a unit's scene under random schedules, and under as many of probabilistic concurrency testing: `times` as often each as
/// `FANREAD_SCHEDULES` says.
#[cfg(all(test, shuttle))]
pub(crate) fn explore(times: usize, scene: impl Fn() + Send + Sync + Clone + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, Runner};

    let count = times * testkit::effort::amount("FANREAD_SCHEDULES", 2000);
    Runner::new(RandomScheduler::new(count), Config::new()).run(scene.clone());
    Runner::new(PctScheduler::new(4, count), Config::new()).run(scene);
}

/// A 64-bit atomic as the protocols of `sync` use it: core's, or loom's in a model.
pub(crate) trait Word {
    /// Loads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Stores `value`.
    fn store(&self, value: u64, order: Ordering);
    /// Replaces `old` by `new`; may fail although the word is `old`.
    ///
    /// # Errors
    ///
    /// The word that was there instead.
    fn compare_exchange_weak(
        &self,
        old: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
    /// A fence of the same memory model.
    fn fence(order: Ordering);
}

macro_rules! word {
    ($atomic:ty, $fence:path) => {
        impl Word for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> u64 {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: u64, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline(always)]
            fn compare_exchange_weak(
                &self,
                old: u64,
                new: u64,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u64, u64> {
                <$atomic>::compare_exchange_weak(self, old, new, success, failure)
            }
            #[inline(always)]
            fn fence(order: Ordering) {
                $fence(order);
            }
        }
    };
}

word!(AtomicU64, fence);
#[cfg(all(test, loom))]
word!(loom::sync::atomic::AtomicU64, loom::sync::atomic::fence);

#[cfg(any(shuttle, fanread_tsan))]
mod scheduled {
    //! Core's atomics with a scheduling point before each access, or with orders that the thread sanitizer understands.

    use super::{LineWords, Ordering, point};
    use core::sync::atomic as real;

    /// The order of a load.
    fn loads(order: Ordering) -> Ordering {
        match order {
            // ORDER: Acquire, pairs with `stores`, in place of the fences.
            Ordering::Relaxed if cfg!(fanread_tsan) => Ordering::Acquire,
            order => order,
        }
    }

    /// The order of a store.
    fn stores(order: Ordering) -> Ordering {
        match order {
            // ORDER: Release, pairs with `loads`, in place of the fences.
            Ordering::Relaxed if cfg!(fanread_tsan) => Ordering::Release,
            order => order,
        }
    }

    /// The order of a load and a store.
    fn swaps(order: Ordering) -> Ordering {
        match order {
            Ordering::SeqCst => order,
            // ORDER: AcqRel, pairs with `loads` and `stores`, in place of the fences.
            _ if cfg!(fanread_tsan) => Ordering::AcqRel,
            order => order,
        }
    }

    macro_rules! scheduled {
        ($name:ident, $real:ty, $value:ty) => {
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub(crate) struct $name($real);

            impl $name {
                pub(crate) const fn new(value: $value) -> Self {
                    Self(<$real>::new(value))
                }
                pub(crate) fn load(&self, order: Ordering) -> $value {
                    point();
                    self.0.load(loads(order))
                }
                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    point();
                    self.0.store(value, stores(order));
                }
                pub(crate) fn compare_exchange_weak(
                    &self,
                    old: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    point();
                    self.0.compare_exchange(old, new, swaps(success), loads(failure))
                }
                pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.fetch_add(value, swaps(order))
                }
                pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.fetch_sub(value, swaps(order))
                }
                pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.fetch_or(value, swaps(order))
                }
                pub(crate) fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.fetch_and(value, swaps(order))
                }
                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.swap(value, swaps(order))
                }
                pub(crate) fn get_mut(&mut self) -> &mut $value {
                    self.0.get_mut()
                }
            }
        };
    }

    scheduled!(AtomicU8, real::AtomicU8, u8);
    scheduled!(AtomicU32, real::AtomicU32, u32);
    scheduled!(AtomicU64, real::AtomicU64, u64);

    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct AtomicPtr<T>(real::AtomicPtr<T>);

    impl<T> AtomicPtr<T> {
        pub(crate) const fn new(value: *mut T) -> Self {
            Self(real::AtomicPtr::new(value))
        }
        pub(crate) fn load(&self, order: Ordering) -> *mut T {
            point();
            self.0.load(loads(order))
        }
        pub(crate) fn store(&self, value: *mut T, order: Ordering) {
            point();
            self.0.store(value, stores(order));
        }
        pub(crate) fn compare_exchange(
            &self,
            old: *mut T,
            new: *mut T,
            success: Ordering,
            failure: Ordering,
        ) -> Result<*mut T, *mut T> {
            point();
            self.0.compare_exchange(old, new, swaps(success), loads(failure))
        }
        pub(crate) fn get_mut(&mut self) -> &mut *mut T {
            self.0.get_mut()
        }
    }

    pub(crate) fn fence(order: Ordering) {
        real::fence(order);
    }

    /// Returns words of a line as core's atomics, after one scheduling point.
    #[expect(unsafe_code, reason = "a view of a transparent wrapper as what it wraps")]
    pub(crate) fn line<const N: usize>(words: &[AtomicU64; N]) -> &[real::AtomicU64; N] {
        point();
        // SAFETY: `AtomicU64` is a transparent wrapper of core's, so arrays of both have one layout.
        unsafe { &*core::ptr::from_ref(words).cast() }
    }
}
