//! Runs threads against a map, over and over with new maps, and checks every
//! history they leave.
//!
//! Short histories on few keys find more than one long run: each has its own
//! start, where all threads meet on an empty or full leaf, and a violation
//! names a few calls that a person can read. The threads stay alive between
//! histories and meet at a spinning gate, so that a history of some
//! microseconds still overlaps.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::hint;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::history::{Call, Clock, Event, History, Recorder};
use crate::rng::Rng;
use crate::scan::{Scan, ScanChecker};

/// A map that threads share, with keys by number; their order is that of the numbers.
///
/// The wrapper decides what bytes number `n` stands for. What a map lacks
/// returns `None` and is replaced by a `get`.
pub trait Shared: Send + Sync {
    /// Maps `key` to `value`; returns the value it replaced.
    fn insert(&self, key: u32, value: u64) -> Option<u64>;

    /// Removes `key`; returns the value it had.
    fn remove(&self, key: u32) -> Option<u64>;

    /// Returns the value of `key`.
    fn get(&self, key: u32) -> Option<u64>;

    /// Returns the value of `key`, found by a walk.
    fn find(&self, key: u32) -> Option<u64> {
        self.get(key)
    }

    /// Replaces the value of `key` if it has one; returns it.
    fn update(&self, _key: u32, _value: u64) -> Option<Option<u64>> {
        None
    }

    /// Returns the value of `key`, which is `value` if it had none.
    fn get_or_insert(&self, _key: u32, _value: u64) -> Option<u64> {
        None
    }

    /// Replaces the value of `key` if it is `expected`; returns what it was.
    fn compare_exchange(&self, _key: u32, _expected: u64, _value: u64) -> Option<Option<u64>> {
        None
    }

    /// Returns the entries of `keys`, from the back if `back`.
    fn scan(&self, _keys: RangeInclusive<u32>, _back: bool) -> Option<Vec<(u32, u64)>> {
        None
    }

    /// Verifies the map's structure once all threads rest.
    ///
    /// # Errors
    ///
    /// What is broken.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// How many threads do how much.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many histories are made.
    pub histories: usize,
    /// How many threads each has, at most 8.
    pub threads: usize,
    /// How many calls each thread makes.
    pub calls: usize,
    /// How many keys there are.
    pub keys: u32,
    /// How many of the keys, of 8, the map holds at first.
    pub preload_of_8: u32,
    /// One call in this many is a scan; 0 for none.
    pub scan_one_in: usize,
    /// Where all choices come from; the interleaving is the machine's.
    pub seed: u64,
}

impl Plan {
    /// Plans `histories` of 3 threads with 40 calls each on 6 keys.
    pub fn new(histories: usize) -> Self {
        Self { histories, threads: 3, calls: 40, keys: 6, preload_of_8: 4, scan_one_in: 0, seed: 1 }
    }
}

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many histories were checked.
    pub histories: usize,
    /// How many calls they hold.
    pub calls: usize,
    /// How many of the calls overlapped another thread's call on the same key.
    pub overlaps: usize,
    /// How many scans were checked.
    pub scans: usize,
}

/// What one thread leaves of one history.
#[derive(Default)]
struct Trace {
    events: Vec<Event>,
    scans: Vec<Scan>,
    panic: Option<Box<dyn Any + Send>>,
}

/// Makes and checks histories as planned; `make` builds a map of the entries it is given.
///
/// # Panics
///
/// At the first history that is not right, with the history's number and the
/// calls concerned; and if a call panics.
pub fn run<'m, M: Shared + 'm>(plan: &Plan, make: impl Fn(&BTreeMap<u32, u64>) -> M) -> Stats {
    run_boxed(plan, &|initial| Box::new(make(initial)))
}

/// What threads share in one history: the map and the clock of its calls.
type Scene<'m> = (Box<dyn Shared + 'm>, Clock);

/// Makes a map of the entries it is given.
type Make<'m, 'f> = dyn Fn(&BTreeMap<u32, u64>) -> Box<dyn Shared + 'm> + 'f;

/// As [`run`], compiled once for all maps.
fn run_boxed<'m>(plan: &Plan, make: &Make<'m, '_>) -> Stats {
    let gate =
        Gate { threads: plan.threads, waiting: AtomicUsize::new(0), turn: AtomicUsize::new(0) };
    let slot: Mutex<Option<Arc<Scene<'m>>>> = Mutex::new(None);
    let traces: Mutex<Vec<(usize, Trace)>> = Mutex::new(Vec::new());
    let take_part = |number: usize, round: usize| {
        gate.wait();
        let Some(shared) = lock(&slot).clone() else { return false };
        let trace = work(plan, number, round, &*shared.0, &shared.1, &gate);
        lock(&traces).push((number, trace));
        // The map goes with its last user, which may be any thread.
        drop(shared);
        gate.wait();
        true
    };
    thread::scope(|scope| {
        for number in 1..plan.threads {
            scope.spawn(move || {
                let mut round = 0;
                while take_part(number, round) {
                    round += 1;
                }
            });
        }
        let mut stats = Stats::default();
        for round in 0..plan.histories {
            let mut rng = Rng::part(plan.seed, round as u64);
            let initial: BTreeMap<u32, u64> = (0..plan.keys)
                .filter(|_| rng.below(8) < plan.preload_of_8 as usize)
                .map(|key| (key, u64::from(key)))
                .collect();
            let made = catch_unwind(AssertUnwindSafe(|| Arc::new((make(&initial), Clock::new()))));
            let (map, failed) = match made {
                Ok(shared) => (Some(shared), None),
                Err(cause) => (None, Some(cause)),
            };
            lock(&slot).clone_from(&map);
            take_part(0, round);
            *lock(&slot) = None;
            if let Some(cause) = failed {
                resume_unwind(cause);
            }
            let mut all = std::mem::take(&mut *lock(&traces));
            all.sort_by_key(|(number, _)| *number);
            let verdict = verify(all, initial, map.as_deref().map(|shared| &*shared.0), &mut stats);
            if let Err(text) = verdict {
                // Lets the other threads end before the panic.
                gate.wait();
                panic!("history {round} of seed {:#x}: {text}", plan.seed);
            }
        }
        gate.wait();
        stats
    })
}

/// Checks one history with its scans, and the map that is left.
///
/// # Errors
///
/// What is wrong, in words.
fn verify(
    traces: Vec<(usize, Trace)>,
    initial: BTreeMap<u32, u64>,
    map: Option<&dyn Shared>,
    stats: &mut Stats,
) -> Result<(), String> {
    let mut history = History { initial, threads: Vec::new() };
    let mut scans = Vec::new();
    for (_, trace) in traces {
        if let Some(cause) = trace.panic {
            let text = cause.downcast_ref::<String>().map(String::as_str);
            let text = text.or(cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
            return Err(format!("a call panicked: {text}"));
        }
        history.threads.push(trace.events);
        scans.extend(trace.scans);
    }
    history.check().map_err(|violation| violation.to_string())?;
    let checker = ScanChecker::new(&history);
    for scan in &scans {
        checker.check(scan).map_err(|violation| format!("{violation}\nin {scan:?}"))?;
    }
    map.map_or(Ok(()), Shared::check)?;
    stats.histories += 1;
    stats.calls += history.threads.iter().map(Vec::len).sum::<usize>();
    stats.overlaps += history.overlaps();
    stats.scans += scans.len();
    Ok(())
}

/// Makes the calls of one thread.
fn work(
    plan: &Plan,
    number: usize,
    round: usize,
    map: &dyn Shared,
    clock: &Clock,
    gate: &Gate,
) -> Trace {
    let mut rng = Rng::part(plan.seed ^ ((number as u64 + 1) << 48), round as u64);
    let mut recorder = Recorder::new(clock);
    let mut scans = Vec::new();
    gate.wait();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let mut seen: HashMap<u32, u64> = HashMap::new();
        for call in 0..plan.calls {
            pause(&mut rng);
            if plan.scan_one_in > 0 && rng.one_in(plan.scan_one_in) {
                scans.extend(scan(plan, &mut rng, map, clock));
                continue;
            }
            let key = rng.below(plan.keys as usize) as u32;
            // Above every initial value, and of this call alone.
            let value = (number as u64 + 1) << 32 | call as u64;
            let expected = seen.get(&key).copied().unwrap_or(u64::from(key));
            let kind = rng.below(16);
            recorder.record(key, || {
                let known = match kind {
                    0..=3 => Some(Call::Insert { value, old: map.insert(key, value) }),
                    4..=7 => Some(Call::Remove { old: map.remove(key) }),
                    8 | 9 => map.update(key, value).map(|old| Call::Update { value, old }),
                    10 => map.get_or_insert(key, value).map(|now| Call::GetOrInsert { value, now }),
                    11 => map.compare_exchange(key, expected, value).map(|found| {
                        let (expected, value) = (Some(expected), Some(value));
                        Call::CompareExchange { expected, value, found }
                    }),
                    _ => None,
                };
                known.unwrap_or_else(|| {
                    let found = map.get(key);
                    found.and_then(|value| seen.insert(key, value));
                    Call::Get { found }
                })
            });
        }
    }))
    .err();
    Trace { events: recorder.finish(), scans, panic }
}

fn scan(plan: &Plan, rng: &mut Rng, map: &dyn Shared, clock: &Clock) -> Option<Scan> {
    let (a, b) = (rng.below(plan.keys as usize) as u32, rng.below(plan.keys as usize) as u32);
    let keys = if rng.one_in(2) { 0..=plan.keys - 1 } else { a.min(b)..=a.max(b) };
    let back = rng.one_in(2);
    let began = clock.tick();
    let entries = map.scan(keys.clone(), back)?;
    let ended = clock.tick();
    Some(Scan { began, ended, keys, back, entries })
}

/// Lets the threads drift, and change places where they outnumber the cores.
fn pause(rng: &mut Rng) {
    match rng.below(32) {
        0 => thread::yield_now(),
        1..=6 => (0..rng.below(60)).for_each(|_| hint::spin_loop()),
        _ => {}
    }
}

/// Where all threads wait for each other.
struct Gate {
    threads: usize,
    waiting: AtomicUsize,
    turn: AtomicUsize,
}

impl Gate {
    fn wait(&self) {
        // ORDER: SeqCst throughout, pairs with itself: what a thread did before
        // the gate is seen behind it. Nothing here is worth a weaker order.
        let turn = self.turn.load(SeqCst);
        if self.waiting.fetch_add(1, SeqCst) + 1 == self.threads {
            self.waiting.store(0, SeqCst);
            self.turn.store(turn + 1, SeqCst);
            return;
        }
        let mut spins = 0_u32;
        while self.turn.load(SeqCst) == turn {
            spins += 1;
            if spins < 200 { hint::spin_loop() } else { thread::yield_now() }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs rounds until memory has not grown for thirty of them, of which each says how many bytes there are after it.
///
/// What a map gives up waits for all readers of the process, those of other tests too. So how much there is depends on
/// what else runs, but not how it goes on.
///
/// # Panics
///
/// If memory still grows after 4,000 rounds.
pub fn stops_growing(mut round: impl FnMut(u64) -> usize) {
    let (mut most, mut rounds_without_more) = (0, 0);
    for number in 0..4000 {
        let bytes = round(number);
        rounds_without_more = if bytes > most { 0 } else { rounds_without_more + 1 };
        most = most.max(bytes);
        if rounds_without_more == 30 {
            return;
        }
    }
    panic!("memory grows for ever, and is {most} bytes now");
}
