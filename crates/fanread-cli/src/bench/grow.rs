//! A map that grows from empty under readers: how long the longest insertion takes, and the longest
//! lookup meanwhile.
//!
//! The first thread inserts all keys; the others look up keys that are in, chosen at random, until
//! it is done. Each answer is compared. With one thread there are insertions only.
//!
//! # What is timed
//!
//! Every call, by itself: one that is left out may be the one that stalls. A call's time includes
//! the [`Handle::repin`] before it, if there is one, since memory may be given back there; it does
//! not include the choice of the key, whose bytes are in the cache when the clock starts. The time
//! the clock takes is taken off the latencies, but not off the rates: those are lower than the ones
//! of `load` and `get`.
//!
//! # What the machine does
//!
//! A thread is also held up by interrupts, by other programs and by the host of a virtual machine.
//! So as many threads spin for as long afterwards, on the same cores, and the longest time between
//! two of their readings of the clock stands beside the figures ([`Spin`]). What a map does by itself
//! it does in each of several equal runs: [`crate::bench::least`].

use std::hint::spin_loop;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use workload::Rng;
use workload::keyset::KeySet;
use workload::mix::value_of;
use workload::subject::{Handle, Subject};

use crate::bench::clock::Latency;
use crate::bench::driver::{REPIN_EVERY, Tally, Timing, Work, shares};
use crate::bench::job::{Case, GROW, GROW_GET, Job, Line};
use crate::bench::worker::Context;
use crate::bench::{least, verify};

/// Insertions after which the readers learn of the new keys.
///
/// Their number lies in a line that all threads share: after each insertion, and passing it on
/// would show in what is measured; much rarer, and nobody reads what has just come in.
const PUBLISH_EVERY: usize = 16;

const _: () = assert!(REPIN_EVERY.is_multiple_of(PUBLISH_EVERY));

/// The growth of a map.
#[derive(Debug)]
pub(crate) struct Grow<'a> {
    keys: &'a KeySet,
    seed: u64,
    /// How many keys are in, the first ones of `keys`.
    inserted: AtomicUsize,
    over: AtomicBool,
    /// Nanoseconds of each insertion, if they are wanted.
    calls: Option<Mutex<Vec<u32>>>,
}

impl<'a> Grow<'a> {
    pub(crate) fn new(keys: &'a KeySet, seed: u64) -> Self {
        let (inserted, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { keys, seed, inserted, over, calls: None }
    }

    /// Keeps the latency of each insertion.
    fn keep_calls(mut self) -> Self {
        self.calls = Some(Mutex::default());
        self
    }

    fn insert_all<H: Handle>(&self, handle: &mut H) -> Tally {
        /// Lets the readers end, also if an insertion panics.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }

        let _end = End(&self.over);
        let (mut latency, mut wrong) = (Latency::one_in(1), 0);
        let calls = self.keys.present();
        let mut kept = self.calls.as_ref().map(|calls| calls.lock().expect("one thread inserts"));
        for first in (0..calls).step_by(PUBLISH_EVERY) {
            let end = calls.min(first + PUBLISH_EVERY);
            for index in first..end {
                let key = self.keys.key(index);
                let start = latency.start(index);
                if index.is_multiple_of(REPIN_EVERY) {
                    handle.repin();
                }
                let new = handle.insert(key, value_of(index));
                let ns = latency.stop(start);
                if let Some((kept, ns)) = kept.as_mut().zip(ns) {
                    kept.push(u32::try_from(ns).unwrap_or(u32::MAX));
                }
                wrong += u64::from(!new);
            }
            // ORDER: Release, pairs with the Acquire load in `look_up`: whoever learns of the keys
            // comes after their insertion.
            self.inserted.store(end, Ordering::Release);
        }
        Tally { calls, wrong, latency }
    }

    fn look_up<H: Handle>(&self, handle: &mut H, thread: usize) -> Tally {
        let (mut latency, mut calls, mut wrong) = (Latency::one_in(1), 0_usize, 0);
        let mut rng = Rng::new(self.seed.wrapping_mul(7919).wrapping_add(thread as u64));
        let mut key = Vec::with_capacity(self.keys.longest());
        loop {
            let over = self.over.load(Ordering::Relaxed);
            // ORDER: Acquire, pairs with the Release store in `insert_all`.
            let inserted = self.inserted.load(Ordering::Acquire);
            // Of few keys all may be in before the first lookup: there is one in any case.
            if over && (calls > 0 || inserted == 0) {
                return Tally { calls, wrong, latency };
            }
            if inserted == 0 {
                spin_loop();
                continue;
            }
            let index = rng.index(inserted);
            key.clear();
            key.extend_from_slice(self.keys.key(index));
            let start = latency.start(calls);
            if calls.is_multiple_of(REPIN_EVERY) {
                handle.repin();
            }
            let found = handle.get(&key);
            latency.stop(start);
            wrong += u64::from(found != Some(value_of(index)));
            calls += 1;
        }
    }
}

impl Work for Grow<'_> {
    fn run<H: Handle>(&self, handle: &mut H, thread: usize) -> Tally {
        if thread == 0 { self.insert_all(handle) } else { self.look_up(handle, thread) }
    }
}

/// Threads that do nothing but read the clock, and record the longest time between two readings.
#[derive(Debug)]
struct Spin(Duration);

impl Work for Spin {
    fn run<H: Handle>(&self, _: &mut H, _: usize) -> Tally {
        let mut latency = Latency::one_in(1);
        let (first, mut longest) = (Instant::now(), Duration::ZERO);
        let (mut calls, mut last) = (0, first);
        while last - first < self.0 {
            let now = Instant::now();
            longest = longest.max(now - last);
            (calls, last) = (calls + 1, now);
        }
        latency.record(longest);
        Tally { calls, wrong: 0, latency }
    }
}

/// Returns what is measured.
pub(crate) fn cases(job: &Job) -> Vec<Case> {
    let readers = job.threads > 1;
    [GROW].into_iter().chain(readers.then_some(GROW_GET)).map(Case::plain).collect()
}

/// Measures the growth of one map.
pub(crate) fn measure<S: Subject>(context: &mut Context<'_>) -> io::Result<()> {
    let (job, keys) = (context.job, context.keys);
    if S::STATIC {
        return context.none("made once, then only read");
    }
    if job.threads > 1 && !S::SHARED_WRITES {
        return context.none("one thread writes");
    }
    let mut map = S::with_room(keys.present());
    let mut grow = Grow::new(keys, job.seed);
    if job.calls.is_some() {
        grow = grow.keep_calls();
    }
    let mut writer = shares(&mut map, job.threads, &grow);
    if let Some((path, calls)) = job.calls.as_ref().zip(grow.calls) {
        least::keep(path, &calls.into_inner().expect("its thread has ended"))?;
    }
    let readers = writer.split_off(1);
    let clock_ns = writer[0].clock_ns();
    let timings: Vec<_> =
        [writer, readers].into_iter().filter(|shares| !shares.is_empty()).map(Timing::of).collect();
    let mut remark = map.remark();
    let spin = Spin(Duration::from_secs_f64(timings[0].seconds));
    let pause_ns = Timing::of(shares(&mut map, job.threads, &spin)).latency.map(|p| p.max);
    for (case, timing) in cases(job).into_iter().zip(timings) {
        let Timing { seconds, core_share, calls, wrong, latency } = timing;
        if wrong > 0 {
            return (context.out)(Line::Wrong {
                case,
                what: format!("{wrong} of {calls} answers"),
            });
        }
        let mops = calls as f64 / seconds / 1e6;
        let note = format!(
            "all {calls} calls timed; {clock_ns} ns, the time of the clock, taken off each latency"
        );
        // What the map says is said once, with the insertions.
        let note = remark.take().map_or_else(|| note.clone(), |remark| format!("{note}; {remark}"));
        let note = Some(note);
        (context.out)(Line::Measured { case, mops, core_share, latency, pause_ns, note })?;
    }
    let order = context.order.filter(|_| S::ORDERED);
    let mut checked = verify::present(&mut map.own(), keys);
    if checked.is_ok() {
        checked = verify::loaded(&mut map, keys, order, job.seed);
    }
    if let Err(what) = checked {
        return (context.out)(Line::Wrong { case: Case::plain(GROW), what });
    }
    (context.out)(Line::Done)
}
