//! A small number for each thread, and how many may run at once.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::OnceLock;
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

/// How many threads can run at once, as far as anybody knows, rounded up to a power of two; at most 64.
///
/// What is kept apart for them, or parted among them, is of so many parts.
pub(crate) fn at_once() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    let count = || std::thread::available_parallelism().map_or(1, NonZero::get);
    // Tests find the same everywhere.
    let known = cfg!(any(test, shuttle, small_leaves, miri)).then_some(2);
    known.unwrap_or_else(|| *COUNT.get_or_init(|| count().next_power_of_two().min(64)))
}
