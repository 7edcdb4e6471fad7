//! Time: of a whole run, and of single calls picked from it.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::bench::job::Percentiles;

/// The longest latency that is told apart, 10 s.
const LONGEST_NS: u64 = 10_000_000_000;

/// Latencies of single calls.
///
/// Where rates count, only every n-th call is timed: reading the clock twice costs some 50 ns, and
/// it keeps the processor from working on the next call meanwhile.
#[derive(Debug)]
pub(crate) struct Latency {
    histogram: Histogram<u32>,
    every: usize,
    /// The first call from this one on is timed.
    next: usize,
    clock_ns: u64,
}

impl Latency {
    /// Times one call in `every`.
    pub(crate) fn one_in(every: usize) -> Self {
        let histogram = Histogram::new_with_max(LONGEST_NS, 2).expect("bounds in order");
        // Not the first call, which still warms up.
        Self { histogram, every, next: every / 2, clock_ns: cost_of_clock() }
    }

    /// Starts the clock if call `number` is to be timed; numbers ascend.
    #[inline]
    pub(crate) fn start(&mut self, number: usize) -> Option<Instant> {
        if number < self.next {
            return None;
        }
        self.next = number + self.every;
        Some(Instant::now())
    }

    /// The number of the next call that is timed, if there is one.
    #[inline]
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Records the call that began at `start`, and returns how many nanoseconds it took.
    #[inline]
    pub(crate) fn stop(&mut self, start: Option<Instant>) -> Option<u64> {
        start.map(|start| self.record(start.elapsed()))
    }

    /// Records a time between two readings of the clock, and returns it in nanoseconds, without that of the clock.
    #[inline]
    pub(crate) fn record(&mut self, time: Duration) -> u64 {
        let ns = (time.as_nanos() as u64).saturating_sub(self.clock_ns);
        self.record_ns(ns);
        ns
    }

    /// Records a latency from which the time of the clock was taken.
    #[inline]
    pub(crate) fn record_ns(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Returns the shortest time between two readings of the clock, which is taken off every
    /// latency.
    pub(crate) fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// Takes in what another thread recorded.
    pub(crate) fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("equal bounds");
    }

    /// Returns the percentiles, if a call was timed.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        let h = &self.histogram;
        (!h.is_empty()).then(|| Percentiles {
            p50: h.value_at_quantile(0.5) as f64,
            p99: h.value_at_quantile(0.99) as f64,
            p999: h.value_at_quantile(0.999) as f64,
            p9999: h.value_at_quantile(0.9999) as f64,
            p99999: h.value_at_quantile(0.99999) as f64,
            p999999: h.value_at_quantile(0.999_999) as f64,
            max: h.max() as f64,
        })
    }
}

/// Returns the shortest time between two readings of the clock.
fn cost_of_clock() -> u64 {
    let once = || Instant::now().elapsed().as_nanos() as u64;
    (0..100).map(|_| once()).min().expect("a hundred readings")
}
