//! The checkers accept what is right and find what was planted.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, RwLock};
use std::time::Instant;

use testkit::Rng;
use testkit::history::{Call, Event, History, Violation};
use testkit::scan::{Scan, ScanChecker, ScanViolation};
use testkit::stress::{Plan, Shared, run};

fn event(began: u64, ended: u64, call: Call) -> Event {
    Event { began, ended, key: 1, call }
}

fn insert(value: u64, old: Option<u64>) -> Call {
    Call::Insert { value, old }
}

fn get(found: Option<u64>) -> Call {
    Call::Get { found }
}

fn history(threads: impl Into<Vec<Vec<Event>>>) -> History {
    History { initial: BTreeMap::new(), threads: threads.into() }
}

fn is_rejected(history: &History) -> bool {
    matches!(history.check(), Err(Violation::NotLinearizable { key: 1, .. }))
}

#[test]
fn a_read_beside_a_write_may_see_either_value() {
    for found in [None, Some(5)] {
        let threads = [vec![event(0, 3, insert(5, None))], vec![event(1, 2, get(found))]];
        history(threads).check().unwrap();
    }
}

#[test]
fn a_stale_read_is_rejected() {
    let threads = [vec![event(0, 1, insert(5, None))], vec![event(2, 3, get(None))]];
    assert!(is_rejected(&history(threads)));
}

#[test]
fn two_readers_that_see_a_write_come_and_go_are_rejected() {
    let threads = [
        vec![event(0, 9, insert(5, None))],
        vec![event(1, 2, get(Some(5)))],
        vec![event(3, 4, get(None))],
    ];
    assert!(is_rejected(&history(threads)));
}

#[test]
fn a_lost_update_is_rejected() {
    let threads = [vec![event(0, 3, insert(5, None))], vec![event(1, 4, insert(6, None))]];
    assert!(is_rejected(&history(threads)));
}

#[test]
fn a_phantom_is_rejected() {
    assert!(is_rejected(&history([vec![event(0, 1, get(Some(8)))]])));
}

#[test]
fn a_value_removed_twice_is_rejected() {
    let remove = Call::Remove { old: Some(5) };
    let threads =
        [vec![event(0, 1, insert(5, None)), event(2, 5, remove)], vec![event(3, 4, remove)]];
    assert!(is_rejected(&history(threads)));
}

#[test]
fn an_exchange_that_two_threads_win_is_rejected() {
    let exchange =
        |value| Call::CompareExchange { expected: Some(5), value: Some(value), found: Some(5) };
    let one = [
        vec![event(0, 1, insert(5, None)), event(2, 5, exchange(6))],
        vec![event(3, 4, exchange(7))],
    ];
    assert!(is_rejected(&history(one)));
}

#[test]
fn a_value_written_twice_is_refused() {
    let threads = [vec![event(0, 1, insert(5, None)), event(2, 3, insert(5, Some(5)))]];
    assert_eq!(history(threads).check(), Err(Violation::ValueReused { value: 5 }));
}

/// Plays calls on one register at instants that overlap, as a right map would answer.
fn play(seed: u64, threads: usize, calls: usize, keys: usize) -> History {
    let mut rng = Rng::new(seed);
    let mut now: Vec<Option<u64>> = vec![None; keys];
    let mut lists = vec![Vec::new(); threads];
    let mut free_at = vec![0; threads];
    for step in 0..threads * calls {
        // Takes effect at `instant`; began before it, ends after it.
        let instant = 100 * (step as u64 + 1);
        let thread = (0..threads).filter(|&t| free_at[t] < instant).min_by_key(|&t| lists[t].len());
        let Some(thread) = thread else { continue };
        let began = instant - rng.below((instant - free_at[thread]).min(400) as usize) as u64;
        let ended = instant + rng.below(400) as u64;
        free_at[thread] = ended + 1;
        let key = rng.below(keys);
        let value = step as u64 + 1_000;
        let call = match rng.below(4) {
            0 => insert(value, now[key].replace(value)),
            1 => Call::Remove { old: now[key].take() },
            2 => Call::GetOrInsert { value, now: *now[key].get_or_insert(value) },
            _ => get(now[key]),
        };
        lists[thread].push(Event { began, ended, key: key as u32, call });
    }
    history(lists)
}

#[test]
fn every_history_of_a_right_map_is_accepted() {
    for seed in 0..2_000 {
        let history = play(seed, 4, 60, 1 + (seed % 3) as usize);
        history.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}

#[test]
fn a_changed_answer_is_found_where_no_call_overlaps() {
    for seed in 0..500 {
        let mut history = play(seed, 1, 60, 2);
        let at = Rng::new(seed).below(history.threads[0].len());
        let changed = match history.threads[0][at].call {
            Call::Get { found } => get(if found.is_some() { None } else { Some(1) }),
            Call::Insert { value, old } => {
                insert(value, if old.is_some() { None } else { Some(1) })
            }
            Call::Remove { .. } => Call::Remove { old: Some(1) },
            other => other,
        };
        let unchanged = changed == history.threads[0][at].call;
        history.threads[0][at].call = changed;
        assert_eq!(history.check().is_ok(), unchanged, "seed {seed}, call {at}");
    }
}

#[test]
fn many_calls_at_once_on_one_key_are_checked() {
    // All overlap all: the search has to choose at every step.
    let threads: Vec<Vec<Event>> = (0..6)
        .map(|t| (0..40).map(|i| event(i * 10 + t, i * 10 + 9, insert(i * 10 + t, None))).collect())
        .collect();
    assert!(is_rejected(&history(threads)));
}

/// A map that is right, and one for each fault.
struct Locked {
    map: RwLock<BTreeMap<u32, u64>>,
    stale: Mutex<BTreeMap<u32, u64>>,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// An insert reads and writes in two steps.
    TornInsert,
    /// A get answers from a copy that is renewed only by gets of other keys.
    StaleGet,
    /// A scan yields from a copy taken at the start of time.
    StaleScan,
}

impl Locked {
    fn new(initial: &BTreeMap<u32, u64>, fault: Fault) -> Self {
        Self { map: RwLock::new(initial.clone()), stale: Mutex::new(initial.clone()), fault }
    }
}

impl Shared for Locked {
    fn insert(&self, key: u32, value: u64) -> Option<u64> {
        if self.fault == Fault::TornInsert {
            let old = self.map.read().unwrap().get(&key).copied();
            std::thread::yield_now();
            self.map.write().unwrap().insert(key, value);
            return old;
        }
        self.map.write().unwrap().insert(key, value)
    }

    fn remove(&self, key: u32) -> Option<u64> {
        self.map.write().unwrap().remove(&key)
    }

    fn get(&self, key: u32) -> Option<u64> {
        if self.fault == Fault::StaleGet {
            return self.stale.lock().unwrap().get(&key).copied();
        }
        self.map.read().unwrap().get(&key).copied()
    }

    fn update(&self, key: u32, value: u64) -> Option<Option<u64>> {
        let mut map = self.map.write().unwrap();
        Some(map.get_mut(&key).map(|old| std::mem::replace(old, value)))
    }

    fn scan(&self, keys: RangeInclusive<u32>, back: bool) -> Option<Vec<(u32, u64)>> {
        let map = if self.fault == Fault::StaleScan {
            self.stale.lock().unwrap().clone()
        } else {
            self.map.read().unwrap().clone()
        };
        let entries = map.range(keys).map(|(&key, &value)| (key, value));
        Some(if back { entries.rev().collect() } else { entries.collect() })
    }
}

#[test]
fn threads_on_a_locked_map_leave_right_histories() {
    let plan = Plan { scan_one_in: 8, ..Plan::new(3_000) };
    let started = Instant::now();
    let stats = run(&plan, |initial| Locked::new(initial, Fault::None));
    assert_eq!(stats.histories, 3_000);
    assert!(stats.calls + stats.scans == 3_000 * 3 * 40 && stats.scans > 30_000, "{stats:?}");
    println!("{stats:?} in {:?}", started.elapsed());
}

#[test]
#[should_panic(expected = "no order explains")]
fn threads_on_a_map_with_a_torn_insert_are_caught() {
    run(&Plan::new(20_000), |initial| Locked::new(initial, Fault::TornInsert));
}

#[test]
#[should_panic(expected = "no order explains")]
fn threads_on_a_map_with_stale_reads_are_caught() {
    run(&Plan::new(1_000), |initial| Locked::new(initial, Fault::StaleGet));
}

#[test]
#[should_panic(expected = "key")]
fn scans_of_a_stale_copy_are_caught() {
    let plan = Plan { scan_one_in: 4, ..Plan::new(1_000) };
    run(&plan, |initial| Locked::new(initial, Fault::StaleScan));
}

#[test]
#[should_panic(expected = "a call panicked: told to")]
fn a_call_that_panics_ends_the_run_and_is_named() {
    struct Panics;
    impl Shared for Panics {
        fn insert(&self, _: u32, _: u64) -> Option<u64> {
            panic!("told to")
        }
        fn remove(&self, _: u32) -> Option<u64> {
            None
        }
        fn get(&self, _: u32) -> Option<u64> {
            None
        }
    }
    run(&Plan { preload_of_8: 0, ..Plan::new(10) }, |_| Panics);
}

fn scan(entries: &[(u32, u64)]) -> Scan {
    Scan { began: 10, ended: 20, keys: 1..=5, back: false, entries: entries.to_vec() }
}

/// Key 1 has 10 throughout, key 3 is removed during the scan, key 5 was removed before.
fn beside() -> History {
    let remove = |key, began, ended, old| {
        vec![Event { began, ended, key, call: Call::Remove { old: Some(old) } }]
    };
    let initial = BTreeMap::from([(1, 10), (3, 30), (5, 50)]);
    History { initial, threads: vec![remove(3, 12, 13, 30), remove(5, 2, 3, 50)] }
}

#[test]
fn a_scan_may_see_or_miss_what_changes_meanwhile() {
    let history = beside();
    let checker = ScanChecker::new(&history);
    checker.check(&scan(&[(1, 10), (3, 30)])).unwrap();
    checker.check(&scan(&[(1, 10)])).unwrap();
}

#[test]
fn a_scan_that_breaks_its_promises_is_rejected() {
    let history = beside();
    let checker = ScanChecker::new(&history);
    let cases = [
        (vec![(3, 30), (1, 10)], ScanViolation::OutOfOrder { first: 3, next: 1 }),
        (vec![(1, 10), (1, 10)], ScanViolation::OutOfOrder { first: 1, next: 1 }),
        (vec![(1, 10), (9, 1)], ScanViolation::OutOfBounds { key: 9 }),
        (vec![(1, 11)], ScanViolation::NeverWritten { key: 1, value: 11 }),
        (vec![(1, 10), (5, 50)], ScanViolation::NotThere { key: 5, value: 50 }),
        (vec![(3, 30)], ScanViolation::Missed { key: 1 }),
    ];
    for (entries, violation) in cases {
        assert_eq!(checker.check(&scan(&entries)), Err(violation));
    }
}
