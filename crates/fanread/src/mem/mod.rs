//! Memory: where the bytes of the indexes live and how they are named.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "the one error is that there is no memory")]
#![allow(clippy::cast_ptr_alignment, reason = "each place says how it is aligned")]
#![expect(unsafe_code, reason = "hands out raw memory; every block says what it relies on")]

pub(crate) mod arena;
pub(crate) mod boxed;
pub(crate) mod bytes;
pub(crate) mod file;
pub(crate) mod fixed;
pub(crate) mod heap;
pub(crate) mod pages;
pub(crate) mod record;
pub(crate) mod temporary;
pub(crate) mod word;

/// Bytes of a cache line on all machines this crate is for.
pub(crate) const LINE_BYTES: usize = 64;

/// Whether memory is worth more than time.
pub(crate) const COMPACT: bool = cfg!(feature = "compact");

/// The system gave no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AllocError {
    /// How many bytes were asked for.
    pub(crate) bytes: usize,
}

/// Asks the system whether it would give so many bytes in one piece, and touches none.
pub(crate) fn may_have(bytes: usize) -> Result<(), AllocError> {
    let mut all = Vec::<u8>::new();
    let given = all.try_reserve_exact(bytes);
    // Nobody writes there, so the compiler might take it for granted.
    core::hint::black_box(&mut all);
    given.map_err(|_| AllocError { bytes })
}

/// Makes room for so many items more in a list that a call makes for itself and that may be large.
pub(crate) fn make_room<T>(list: &mut Vec<T>, more: usize) -> Result<(), AllocError> {
    if list.capacity() - list.len() >= more {
        return Ok(());
    }
    let failed = AllocError { bytes: more.saturating_mul(size_of::<T>()) };
    #[cfg(test)]
    if failing::fails_now() {
        return Err(failed);
    }
    list.try_reserve(more).map_err(|_| failed)
}

#[cfg(test)]
pub(crate) mod failing {
    //! Makes the n-th allocation from the system fail, for tests.

    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    /// Lets `n` allocations of this thread succeed and fails all later ones.
    pub(crate) fn after(n: u64) {
        LEFT.set(n);
    }

    /// Lets all allocations of this thread succeed again.
    pub(crate) fn never() {
        LEFT.set(u64::MAX);
    }

    pub(crate) fn fails_now() -> bool {
        LEFT.with(|left| match left.get() {
            u64::MAX => false,
            0 => true,
            n => {
                left.set(n - 1);
                false
            }
        })
    }
}
