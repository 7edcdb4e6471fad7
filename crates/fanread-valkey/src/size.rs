//! What an allocation takes: the size classes of jemalloc, which is the allocator of the server.
//!
//! Classes are 8, the multiples of 16 up to 128, and then four to each doubling. With another allocator the figures of
//! `MEMORY USAGE` are off by some percent, and nothing else is.

/// Bytes that an allocation of `bytes` takes.
pub(crate) fn of(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => {
            let step = 1 << ((bytes - 1).ilog2() - 2);
            bytes.next_multiple_of(step)
        }
    }
}
