//! A medium that is slower than the one at hand: a wait after each flushed line, and counts of lines and fences.

use std::time::{Duration, Instant};

use super::Flushes;
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};

/// What makes a medium slower; see the module.
#[derive(Debug)]
pub(super) struct Slow {
    latency: Duration,
    lines: AtomicU64,
    fences: AtomicU64,
}

impl Slow {
    pub(super) fn new(latency: Duration) -> Self {
        Self { latency, lines: AtomicU64::new(0), fences: AtomicU64::new(0) }
    }

    /// After a line was flushed: counts it, and waits without giving the processor away.
    ///
    /// PAPER: section 6.1 adds stall cycles after each flush in the same way.
    #[cold]
    pub(super) fn line(&self) {
        // Relaxed, here and below: counts that nothing depends on.
        self.lines.fetch_add(1, Relaxed);
        if !self.latency.is_zero() {
            let start = Instant::now();
            while start.elapsed() < self.latency {
                core::hint::spin_loop();
            }
        }
    }

    /// At a fence: counts it.
    #[cold]
    pub(super) fn fence(&self) {
        self.fences.fetch_add(1, Relaxed);
    }

    pub(super) fn flushes(&self) -> Flushes {
        Flushes { lines: self.lines.load(Relaxed), fences: self.fences.load(Relaxed) }
    }
}
