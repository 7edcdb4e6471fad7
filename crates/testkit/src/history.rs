//! What threads did to a map, and whether one order of it explains all answers.
//!
//! Each call is recorded with a number drawn from one counter before it and one
//! after it. A history is **linearizable** if every call can be given an
//! instant between its two numbers such that all answers are right in the
//! order of the instants. Calls on different keys do not affect each other's
//! answers, so each key is checked alone (Herlihy and Wing, locality).
//!
//! PAPER: the search is that of Wing and Gong (1993) with Lowe's memory of
//! configurations (2017). A thread has one call at a time, so the set of calls
//! already placed is a position in each thread's list, and a configuration is
//! those positions and the key's value. A call that changes nothing and whose
//! answer is right now is placed at once: placing it later gains nothing.
//!
//! # Invariants
//!
//! * **H1** No two writes of a history write the same value, initial values
//!   included; [`History::check`] refuses a history that breaks it.
//! * **H2** The calls of a thread do not overlap, and are listed in their order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The most threads that a history has.
pub const MAX_THREADS: usize = 8;

/// A call on one key, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads the value.
    Get {
        /// What it found.
        found: Option<u64>,
    },
    /// Writes `value`.
    Insert {
        /// What it wrote.
        value: u64,
        /// What it says it replaced.
        old: Option<u64>,
    },
    /// Writes `value` if there is one already.
    Update {
        /// What it wrote, if it did.
        value: u64,
        /// What it says it replaced; `None` if it wrote nothing.
        old: Option<u64>,
    },
    /// Writes `value` if there is none.
    GetOrInsert {
        /// What it wrote, if it did.
        value: u64,
        /// What it says is there now.
        now: u64,
    },
    /// Writes `value` if `expected` is there.
    CompareExchange {
        /// What must be there.
        expected: Option<u64>,
        /// What it wrote, if it did; `None` removes.
        value: Option<u64>,
        /// What it says was there.
        found: Option<u64>,
    },
    /// Removes the value.
    Remove {
        /// What it says was there.
        old: Option<u64>,
    },
}

impl Call {
    /// Returns whether the answer is right on the value `now`, and the value afterwards.
    fn step(self, now: Option<u64>) -> (bool, Option<u64>) {
        match self {
            Self::Get { found } => (found == now, now),
            Self::Insert { value, old } => (old == now, Some(value)),
            Self::Update { value, old } => (old == now, now.map(|_| value)),
            Self::GetOrInsert { value, now: answer } => {
                let then = now.unwrap_or(value);
                (answer == then, Some(then))
            }
            Self::CompareExchange { expected, value, found } => {
                (found == now, if now == expected { value } else { now })
            }
            Self::Remove { old } => (old == now, None),
        }
    }

    /// Returns the value that this call wrote, going by its own answer.
    pub fn wrote(self) -> Option<u64> {
        match self {
            Self::Insert { value, .. } => Some(value),
            Self::Update { value, old } => old.and(Some(value)),
            Self::GetOrInsert { value, now } => (now == value).then_some(value),
            Self::CompareExchange { expected, value, found } => {
                if found == expected {
                    value
                } else {
                    None
                }
            }
            Self::Get { .. } | Self::Remove { .. } => None,
        }
    }

    /// Returns the value that this call took away or replaced, going by its own answer.
    pub fn displaced(self) -> Option<u64> {
        match self {
            Self::Insert { old, .. } | Self::Update { old, .. } | Self::Remove { old } => old,
            Self::CompareExchange { expected, found, .. } if found == expected => found,
            _ => None,
        }
    }

    /// Returns whether this call left the key without a value that it had.
    pub fn removed(self) -> bool {
        match self {
            Self::Remove { old } => old.is_some(),
            Self::CompareExchange { expected, value: None, found } => {
                found == expected && found.is_some()
            }
            _ => false,
        }
    }
}

/// A recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Drawn before the call.
    pub began: u64,
    /// Drawn after it.
    pub ended: u64,
    /// The key, by its number.
    pub key: u32,
    /// What was called and answered.
    pub call: Call,
}

/// Draws the numbers that order events of different threads.
#[derive(Debug, Default)]
pub struct Clock {
    next: AtomicU64,
}

impl Clock {
    /// Makes a clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Draws the next number.
    pub fn tick(&self) -> u64 {
        // ORDER: SeqCst, pairs with itself: the numbers of two calls that did
        // not overlap must agree with real time, and the compiler and the
        // processor must not move a call's accesses across its ticks.
        self.next.fetch_add(1, SeqCst)
    }
}

/// The list of one thread.
#[derive(Debug)]
pub struct Recorder<'a> {
    clock: &'a Clock,
    events: Vec<Event>,
}

impl<'a> Recorder<'a> {
    /// Starts the list of a thread.
    pub fn new(clock: &'a Clock) -> Self {
        Self { clock, events: Vec::new() }
    }

    /// Runs `call` and records what it says it did to `key`.
    pub fn record(&mut self, key: u32, call: impl FnOnce() -> Call) {
        let began = self.clock.tick();
        let call = call();
        let ended = self.clock.tick();
        self.events.push(Event { began, ended, key, call });
    }

    /// Ends the list.
    pub fn finish(self) -> Vec<Event> {
        self.events
    }
}

/// Everything that threads did to one map.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What the map held before, by key.
    pub initial: BTreeMap<u32, u64>,
    /// The calls of each thread, in its order.
    pub threads: Vec<Vec<Event>>,
}

/// Why a history is not right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// No order of the calls on a key explains their answers.
    NotLinearizable {
        /// The key, by its number.
        key: u32,
        /// What it held at first.
        initial: Option<u64>,
        /// All calls on it with their threads, by their beginning.
        calls: Vec<(usize, Event)>,
        /// How many of the calls the best order explained.
        explained: usize,
    },
    /// Two writes wrote the same value: the history proves nothing.
    ValueReused {
        /// The value.
        value: u64,
    },
    /// There are more threads than a configuration has room for.
    TooManyThreads {
        /// How many.
        threads: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinearizable { key, initial, calls, explained } => {
                write!(
                    f,
                    "key {key}, at first {initial:?}: no order explains more than \
                     {explained} of {} calls",
                    calls.len()
                )?;
                // The trouble is near where the best order stopped.
                for (thread, e) in calls.iter().skip(explained.saturating_sub(8)).take(24) {
                    write!(f, "\n  thread {thread} [{}, {}] {:?}", e.began, e.ended, e.call)?;
                }
                Ok(())
            }
            Self::ValueReused { value } => write!(f, "value {value} was written twice"),
            Self::TooManyThreads { threads } => {
                write!(f, "{threads} threads, more than {MAX_THREADS}")
            }
        }
    }
}

impl std::error::Error for Violation {}

impl History {
    /// Checks that one order of the calls explains all answers.
    ///
    /// # Errors
    ///
    /// The first key whose calls have no such order, with those calls.
    pub fn check(&self) -> Result<(), Violation> {
        if self.threads.len() > MAX_THREADS {
            return Err(Violation::TooManyThreads { threads: self.threads.len() });
        }
        self.check_unique()?;
        let mut by_key: BTreeMap<u32, [Vec<Event>; MAX_THREADS]> = BTreeMap::new();
        for (thread, events) in self.threads.iter().enumerate() {
            for event in events {
                by_key.entry(event.key).or_default()[thread].push(*event);
            }
        }
        for (key, lists) in by_key {
            let initial = self.initial.get(&key).copied();
            if let Err(explained) = search(&lists, initial) {
                let mut calls: Vec<_> = (0..MAX_THREADS)
                    .flat_map(|thread| lists[thread].iter().map(move |event| (thread, *event)))
                    .collect();
                calls.sort_by_key(|(_, event)| event.began);
                return Err(Violation::NotLinearizable { key, initial, calls, explained });
            }
        }
        Ok(())
    }

    /// Checks H1.
    ///
    /// # Errors
    ///
    /// A value that was written twice.
    fn check_unique(&self) -> Result<(), Violation> {
        let mut seen = HashSet::new();
        let written = self.threads.iter().flatten().filter_map(|event| event.call.wrote());
        match self.initial.values().copied().chain(written).find(|value| !seen.insert(*value)) {
            Some(value) => Err(Violation::ValueReused { value }),
            None => Ok(()),
        }
    }

    /// Returns how many calls overlap a call of another thread on the same key.
    ///
    /// A run in which this is small has tested little.
    pub fn overlaps(&self) -> usize {
        let mut last: HashMap<u32, (usize, u64)> = HashMap::new();
        let mut events: Vec<_> = (self.threads.iter().enumerate())
            .flat_map(|(thread, events)| events.iter().map(move |event| (thread, event)))
            .collect();
        events.sort_unstable_by_key(|(_, event)| event.began);
        let mut overlaps = 0;
        for (thread, event) in events {
            let (by, until) = last.entry(event.key).or_insert((thread, 0));
            overlaps += usize::from(*by != thread && event.began < *until);
            if event.ended > *until {
                (*by, *until) = (thread, event.ended);
            }
        }
        overlaps
    }
}

/// Positions in the lists of all threads, and the value of the key there.
type Configuration = ([u16; MAX_THREADS], Option<u64>);

/// Looks for an order of the calls in `lists`.
///
/// # Errors
///
/// If there is none: how many calls the longest correct beginning has.
fn search(lists: &[Vec<Event>; MAX_THREADS], initial: Option<u64>) -> Result<(), usize> {
    let total: usize = lists.iter().map(Vec::len).sum();
    assert!(lists.iter().all(|list| list.len() < usize::from(u16::MAX)), "a short history");
    let mut seen: HashSet<Configuration> = HashSet::new();
    let mut open: Vec<Configuration> = vec![([0; MAX_THREADS], initial)];
    let mut best = 0;
    while let Some((mut at, mut now)) = open.pop() {
        // Goes on without looking back while there is nothing to choose.
        loop {
            let next = |thread: usize| lists[thread].get(usize::from(at[thread]));
            // A call that ended must be placed before one that began later.
            let horizon = (0..MAX_THREADS).filter_map(next).map(|e| e.ended).min();
            let Some(horizon) = horizon else { return Ok(()) };
            let mut fitting = [(0, None); MAX_THREADS];
            let mut choices = 0;
            for thread in 0..MAX_THREADS {
                let Some(event) = next(thread).filter(|event| event.began <= horizon) else {
                    continue;
                };
                let (right, then) = event.call.step(now);
                if !right {
                    continue;
                }
                if then == now {
                    // Changes nothing and is right now: the only choice needed.
                    (fitting[0], choices) = ((thread, then), 1);
                    break;
                }
                fitting[choices] = (thread, then);
                choices += 1;
            }
            if choices == 0 {
                best = best.max(at.iter().map(|&n| usize::from(n)).sum());
                break;
            }
            if choices > 1 && !seen.insert((at, now)) {
                break;
            }
            for &(thread, then) in &fitting[1..choices] {
                let mut other = at;
                other[thread] += 1;
                open.push((other, then));
            }
            at[fitting[0].0] += 1;
            now = fitting[0].1;
        }
    }
    debug_assert!(best < total);
    Err(best)
}
