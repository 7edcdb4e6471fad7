//! A small number for each thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

thread_local! {
    static INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns this thread's number. Numbers are given out in turn, so threads that start together differ in them
/// modulo any number of shards.
#[inline]
pub(crate) fn index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    INDEX.with(|index| {
        if index.get() == usize::MAX {
            // Relaxed: only the number matters. It wraps long after any program ends.
            index.set(NEXT.fetch_add(1, Relaxed) & (usize::MAX >> 1));
        }
        index.get()
    })
}
