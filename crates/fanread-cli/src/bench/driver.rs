//! The timed loops, compiled once for each map.
//!
//! One loop serves all workloads and all maps ([`drive`]): take the next query, call the map,
//! compare the answer. It costs a few nanoseconds a query beside the call; the test
//! `the_loop_itself_costs_little` shows it with a map that does nothing. Its instructions cost more than their time: where calls
//! overlap, the processor looks some hundreds of instructions ahead, and those of the loop are among them. Only who scans beside
//! the others, and is not timed, goes on until they are done.
//!
//! # Independent and dependent queries
//!
//! Independent queries may overlap: while one waits for memory, the processor starts the next.
//! Dependent ones cannot: (answer - right answer) goes into the place of the next query by
//! exclusive or. It is 0, but the processor learns that only from the answer.
//!
//! PAPER: the dependent mode is the idea of "Cuckoo Trie" (2021), section 4.4.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use workload::keyset::KeySet;
use workload::mix::{Fold, Op, SPARE, Stream, Workload, difference, value_of, with_version};
use workload::subject::{Handle, Subject};

use crate::bench::clock::Latency;
use crate::bench::job::Percentiles;
use crate::failure::tell;

/// Operations between two calls of [`Handle::repin`].
///
/// Rarer, and a map's memory waits longer for its readers; more often, and the cost of a pin
/// shows in what is measured. Every map is treated alike.
pub(crate) const REPIN_EVERY: usize = 256;

/// The largest batch.
pub(crate) const LONGEST_BATCH: usize = 1024;

/// One in how many lookups is timed by itself, and one in how many calls that do more.
const TIME_ONE_LOOKUP_IN: usize = 256;
const TIME_ONE_LONG_CALL_IN: usize = 16;

/// What one thread found out.
#[derive(Debug)]
pub(crate) struct Tally {
    /// How many calls were made.
    pub(crate) calls: usize,
    /// How many answers were wrong.
    pub(crate) wrong: u64,
    pub(crate) latency: Latency,
}

/// One thread's tally, with when it ran and how long it had a core.
#[derive(Debug)]
pub(crate) struct Share {
    start: Instant,
    end: Instant,
    cpu_seconds: f64,
    tally: Tally,
}

/// What all threads found out together.
#[derive(Debug)]
pub(crate) struct Timing {
    /// From the first start to the last end.
    pub(crate) seconds: f64,
    /// How much of a core the thread had that had least.
    pub(crate) core_share: f64,
    pub(crate) calls: usize,
    pub(crate) wrong: u64,
    pub(crate) latency: Option<Percentiles>,
}

/// What a thread does between the start and the end of the clock.
///
/// A trait, not a closure: it must be compiled for the handle of each map.
pub(crate) trait Work: Sync {
    /// Does the share of one thread.
    fn run<H: Handle>(&self, handle: &mut H, thread: usize) -> Tally;
}

/// Runs `work` on `threads` threads and takes the time of the slowest.
pub(crate) fn timed<S: Subject>(map: &mut S, threads: usize, work: &impl Work) -> Timing {
    Timing::of(shares(map, threads, work))
}

/// Runs `work` on `threads` threads, each on a core of its own as far as there are so many.
pub(crate) fn shares<S: Subject>(map: &mut S, threads: usize, work: &impl Work) -> Vec<Share> {
    if threads == 1 {
        return vec![share_of(&mut map.own(), 0, work)];
    }
    let (map, barrier) = (&*map, Barrier::new(threads));
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let one = |thread: usize| {
        if let Some(core) = cores.get(thread) {
            core_affinity::set_for_current(*core);
        }
        let mut handle = map.share();
        barrier.wait();
        share_of(&mut handle, thread, work)
    };
    std::thread::scope(|scope| {
        let one = &one;
        let all: Vec<_> = (0..threads).map(|t| start(scope, move || one(t))).collect();
        all.into_iter().map(|t| t.join().expect("a measuring thread panicked")).collect()
    })
}

/// Starts one of several threads that wait for each other. Where the system has no room for it the process ends: those that have
/// started would wait for ever.
pub(crate) fn start<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    work: impl FnOnce() -> T + Send + 's,
) -> ScopedJoinHandle<'s, T> {
    Builder::new().spawn_scoped(scope, work).unwrap_or_else(|e| {
        tell(format_args!("fanread: cannot start a thread: {e}"));
        std::process::exit(1)
    })
}

fn share_of<H: Handle>(handle: &mut H, thread: usize, work: &impl Work) -> Share {
    let cpu = cpu_seconds();
    let start = Instant::now();
    let tally = work.run(handle, thread);
    let end = Instant::now();
    Share { start, end, cpu_seconds: cpu_seconds() - cpu, tally }
}

/// Returns how long this thread has had a core.
pub(crate) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Share {
    /// Returns what [`Latency::clock_ns`] does, for this thread.
    pub(crate) fn clock_ns(&self) -> u64 {
        self.tally.latency.clock_ns()
    }
}

impl Timing {
    /// Puts together what threads found out that ran at the same time.
    pub(crate) fn of(shares: Vec<Share>) -> Self {
        let start = shares.iter().map(|share| share.start).min().expect("there are threads");
        let end = shares.iter().map(|share| share.end).max().expect("there are threads");
        let wall = |share: &Share| (share.end - share.start).as_secs_f64();
        let core_share = shares.iter().map(|share| share.cpu_seconds / wall(share));
        let core_share = core_share.fold(1.0, f64::min);
        let calls = shares.iter().map(|share| share.tally.calls).sum();
        let wrong = shares.iter().map(|share| share.tally.wrong).sum();
        let mut latencies = shares.into_iter().map(|share| share.tally.latency);
        let mut latency = latencies.next().expect("there are threads");
        latencies.for_each(|other| latency.add(&other));
        let latency = latency.percentiles();
        Self { seconds: (end - start).as_secs_f64(), core_share, calls, wrong, latency }
    }
}

/// Counts a wrong answer: a call, so that right ones cost a branch that is never taken.
#[cold]
fn one_more(wrong: u64) -> u64 {
    wrong + 1
}

/// Calls `step` with 0, 1, 2, ... `calls - 1`; it returns 0 if the answer was right.
///
/// If `DEPENDENT`, the number may step up to seven past a multiple of eight when an answer was
/// wrong, so there must be [`SPARE`] queries behind the last.
#[inline]
fn drive<H: Handle, const DEPENDENT: bool>(
    handle: &mut H,
    calls: usize,
    mut latency: Latency,
    mut step: impl FnMut(&mut H, usize) -> u64,
) -> Tally {
    let (mut wrong, mut carry) = (0, 0);
    for first in (0..calls).step_by(REPIN_EVERY) {
        handle.repin();
        let end = calls.min(first + REPIN_EVERY);
        let mut next = first;
        while next < end {
            // One call that is timed, or all before it: they need not ask, each, whether they are.
            let start = latency.start(next);
            let until = if start.is_some() { next + 1 } else { end.min(latency.next()) };
            for i in next..until {
                let answer = step(handle, if DEPENDENT { i ^ carry } else { i });
                if DEPENDENT {
                    // The compiler must not conclude from `answer == 0` what `carry` is.
                    let answer = black_box(answer);
                    carry = answer as usize & (SPARE - 1);
                    wrong += u64::from(answer != 0);
                } else if answer != 0 {
                    wrong = one_more(wrong);
                }
            }
            latency.stop(start);
            next = until;
        }
    }
    Tally { calls, wrong, latency }
}

/// Inserts the keys, each thread a share.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) keys: &'a KeySet,
    pub(crate) threads: usize,
}

impl Work for Load<'_> {
    fn run<H: Handle>(&self, handle: &mut H, thread: usize) -> Tally {
        let n = self.keys.present();
        let (first, end) = (n * thread / self.threads, n * (thread + 1) / self.threads);
        let latency = Latency::one_in(TIME_ONE_LOOKUP_IN);
        let tally = drive::<H, false>(handle, end - first, latency, |handle, i| {
            let index = first + i;
            u64::from(!handle.insert(self.keys.key(index), value_of(index)))
        });
        handle.loaded();
        tally
    }
}

/// Queries of one kind on a loaded map, one stream for each thread.
#[derive(Debug)]
pub(crate) struct Queries<'a> {
    pub(crate) workload: Workload,
    pub(crate) streams: &'a [Stream],
    /// Whether scans and batches wait for each other.
    pub(crate) dependent: bool,
    pub(crate) batch: usize,
    /// Threads that have not done their share yet, without one that scans beside them.
    busy: AtomicUsize,
}

impl<'a> Queries<'a> {
    pub(crate) fn new(
        workload: Workload,
        streams: &'a [Stream],
        dependent: bool,
        batch: usize,
    ) -> Self {
        let busy = AtomicUsize::new(streams.len() - usize::from(workload.has_scanner()));
        Self { workload, streams, dependent, batch, busy }
    }

    /// Returns how many operations all threads do together, without one that scans beside them.
    pub(crate) fn operations(&self) -> usize {
        let whole_batches = |stream: &Stream| stream.len() / self.batch * self.batch;
        let scanners = usize::from(self.workload.has_scanner());
        self.streams[..self.streams.len() - scanners].iter().map(whole_batches).sum()
    }

    /// Runs the queries. The time is that of all threads, without one that scans beside them, whose answers count.
    pub(crate) fn timed<S: Subject>(&self, map: &mut S) -> Timing {
        let mut shares = shares(map, self.streams.len(), self);
        let scanner = if self.workload.has_scanner() { shares.pop() } else { None };
        let mut timing = Timing::of(shares);
        timing.wrong += scanner.map_or(0, |share| share.tally.wrong);
        timing
    }

    /// Scans until the other threads have done their shares; once at least.
    fn scan_beside<H: Handle>(&self, handle: &mut H, stream: &Stream) -> Tally {
        let mut scan = scan(stream);
        let (mut calls, mut wrong) = (0, 0);
        while calls == 0 || self.busy.load(Ordering::Relaxed) > 0 {
            if calls % REPIN_EVERY == 0 {
                handle.repin();
            }
            wrong += u64::from(scan(handle, calls % stream.len()) != 0);
            calls += 1;
        }
        Tally { calls, wrong, latency: Latency::one_in(TIME_ONE_LONG_CALL_IN) }
    }
}

/// Counts a thread as done, also if a call panics: another one waits for it.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Work for Queries<'_> {
    fn run<H: Handle>(&self, handle: &mut H, thread: usize) -> Tally {
        let stream = &self.streams[thread];
        if self.workload.has_scanner() && thread + 1 == self.streams.len() {
            return self.scan_beside(handle, stream);
        }
        let _done = Done(&self.busy);
        let lookups = || Latency::one_in(TIME_ONE_LOOKUP_IN);
        let long_calls = || Latency::one_in(TIME_ONE_LONG_CALL_IN);
        let n = stream.len();
        match (self.workload, self.dependent) {
            (Workload::GetDependent, _) => drive::<H, true>(handle, n, lookups(), present(stream)),
            (Workload::Get, _) => drive::<H, false>(handle, n, lookups(), present(stream)),
            (Workload::Miss, _) => drive::<H, false>(handle, n, lookups(), absent(stream)),
            (Workload::LowerBound, _) => drive::<H, false>(handle, n, lookups(), above(stream)),
            (Workload::LowerBoundDependent, _) => {
                drive::<H, true>(handle, n, lookups(), above(stream))
            }
            (Workload::Scan | Workload::ScanFirst, true) => {
                drive::<H, true>(handle, n, long_calls(), scan(stream))
            }
            (Workload::Scan | Workload::ScanFirst, false) => {
                drive::<H, false>(handle, n, long_calls(), scan(stream))
            }
            (Workload::Batch, dependent) => {
                let step = batch(stream, self.batch);
                let calls = n / self.batch;
                if dependent {
                    drive::<H, true>(handle, calls, long_calls(), step)
                } else {
                    drive::<H, false>(handle, calls, long_calls(), step)
                }
            }
            (Workload::YcsbE, _) => drive::<H, false>(handle, n, long_calls(), mixed(stream)),
            _ => drive::<H, false>(handle, n, lookups(), mixed(stream)),
        }
    }
}

#[inline]
fn present<H: Handle>(stream: &Stream) -> impl FnMut(&mut H, usize) -> u64 {
    move |handle, i| {
        let query = stream.query(i);
        answer_of(handle.get(stream.key(&query)), query.expect)
    }
}

/// Returns 0 for the right value; the lowest bit of anything else is set for a missing one.
#[inline]
fn answer_of(found: Option<u64>, expect: u64) -> u64 {
    match found {
        Some(value) => difference(value, expect),
        None => 1,
    }
}

#[inline]
fn absent<H: Handle>(stream: &Stream) -> impl FnMut(&mut H, usize) -> u64 {
    move |handle, i| u64::from(handle.get(stream.key(&stream.query(i))).is_some())
}

#[inline]
fn above<H: Handle>(stream: &Stream) -> impl FnMut(&mut H, usize) -> u64 {
    move |handle, i| {
        let query = stream.query(i);
        let mut fold = Fold::default();
        handle.lower_bound(stream.key(&query), |key, value| fold.add(key, value));
        fold.0 ^ query.expect
    }
}

#[inline]
fn scan<H: Handle>(stream: &Stream) -> impl FnMut(&mut H, usize) -> u64 {
    move |handle, i| {
        let query = stream.query(i);
        let mut fold = Fold::default();
        let visit = |key: &[u8], value| fold.add(key, value);
        handle.scan(stream.key(&query), query.entries.into(), visit);
        fold.0 ^ query.expect
    }
}

#[inline]
fn batch<H: Handle>(stream: &Stream, size: usize) -> impl FnMut(&mut H, usize) -> u64 {
    let mut keys = [&[][..]; LONGEST_BATCH];
    let mut found = [None; LONGEST_BATCH];
    move |handle, call| {
        // After a wrong answer a dependent call may name a batch behind the last.
        let first = (call * size).min(stream.len() - size);
        let queries = &stream.queries()[first..first + size];
        for (key, query) in keys[..size].iter_mut().zip(queries) {
            *key = stream.key(query);
        }
        handle.get_batch(&keys[..size], &mut found[..size]);
        let answers = found[..size].iter().zip(queries);
        answers.fold(0, |wrong, (found, query)| wrong | answer_of(*found, query.expect))
    }
}

#[inline]
fn mixed<H: Handle>(stream: &Stream) -> impl FnMut(&mut H, usize) -> u64 {
    let (mut scan, mut above) = (scan(stream), above(stream));
    move |handle, i| {
        let query = stream.query(i);
        let key = stream.key(&query);
        let newer = || with_version(query.expect, version_at(i));
        match query.op {
            Op::Read => answer_of(handle.get(key), query.expect),
            Op::Update => u64::from(!handle.update(key, newer())),
            Op::ReadUpdate => {
                let read = answer_of(handle.get(key), query.expect);
                read | u64::from(!handle.update(key, newer()))
            }
            Op::Insert => u64::from(!handle.insert(key, query.expect)),
            // Another thread's insertions may be seen or not: no one answer is right.
            Op::Scan if query.expect == 0 => {
                scan(handle, i);
                0
            }
            Op::Scan => scan(handle, i),
            Op::LowerBound => above(handle, i),
        }
    }
}

/// Returns the version that the update of query `i` writes.
#[inline]
pub(crate) fn version_at(i: usize) -> u8 {
    2 + (i.wrapping_mul(0x9e37_79b1) >> 7) as u8 % 250
}

/// Returns how many queries of a workload cost about as much as `lookups` lookups.
pub(crate) fn queries_of(workload: Workload, lookups: usize) -> usize {
    match workload {
        Workload::Scan | Workload::ScanFirst => lookups / 16,
        Workload::YcsbE => lookups / 8,
        _ => lookups,
    }
}
