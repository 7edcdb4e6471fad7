//! The driver against maps that lie, and against one that does nothing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

use workload::dataset::Dataset;
use workload::distribution::Distribution;
use workload::keyset::KeySet;
use workload::mix::{Plan, ScanReference, Workload};
use workload::order::Order;
use workload::subject::{Handle, Subject};

use crate::bench::cceh::Settings;
use crate::bench::driver::{Load, Queries, timed};
use crate::bench::job::{Job, Line, Task};
use crate::bench::ours;
use crate::bench::worker::{Context, measure};

/// What a map does wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    None,
    /// Gives another key's value.
    Value,
    /// Finds keys that were never inserted.
    Phantom,
    /// Forgets some keys.
    Lost,
    /// Gives two neighbours of a scan in the wrong order.
    Unsorted,
    /// Leaves an entry of a scan out.
    Skips,
    /// Starts scans from absent keys one entry late.
    LateStart,
    /// Gives right values under wrong keys.
    WrongKeys,
    /// Takes a repeated insert for a new one.
    Repeats,
    /// Does not keep updates.
    DropsUpdates,
    /// Keeps what is removed.
    KeepsRemoved,
    /// Mixes up the answers of a batch.
    MixesBatch,
    /// Gives the entry behind the first one above an absent key.
    LateBound,
}

thread_local! {
    /// What the next map of this thread does wrong: subjects are made without arguments.
    static NEXT: Cell<Lie> = const { Cell::new(Lie::None) };
}

/// A sorted map that lies.
struct Liar {
    map: BTreeMap<Box<[u8]>, u64>,
    lie: Lie,
}

impl Subject for Liar {
    const NAME: &'static str = "liar";
    const SHARED_WRITES: bool = false;

    type Owned<'a> = LiarHandle<'a>;
    type Shared<'a> = Nothing;

    fn new() -> Self {
        Self { map: BTreeMap::new(), lie: NEXT.get() }
    }

    fn own(&mut self) -> LiarHandle<'_> {
        LiarHandle(self)
    }

    fn share(&self) -> Nothing {
        Nothing
    }
}

struct LiarHandle<'a>(&'a mut Liar);

impl Handle for LiarHandle<'_> {
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.0.map.insert(key.into(), value).is_none() || self.0.lie == Lie::Repeats
    }

    fn update(&mut self, key: &[u8], value: u64) -> bool {
        let Some(slot) = self.0.map.get_mut(key) else { return false };
        if self.0.lie != Lie::DropsUpdates {
            *slot = value;
        }
        true
    }

    fn get(&mut self, key: &[u8]) -> Option<u64> {
        let found = self.0.map.get(key).copied();
        match self.0.lie {
            Lie::Value if key.ends_with(b"0") => found.map(|value| value ^ 0x100),
            Lie::Phantom => found.or(Some(1)),
            Lie::Lost if key.ends_with(b"0") => None,
            _ => found,
        }
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        if self.0.lie == Lie::KeepsRemoved {
            return self.0.map.contains_key(key);
        }
        self.0.map.remove(key).is_some()
    }

    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        for (key, out) in keys.iter().zip(&mut *out) {
            *out = self.get(key);
        }
        if self.0.lie == Lie::MixesBatch {
            out.reverse();
        }
    }

    fn lower_bound(&mut self, from: &[u8], mut visit: impl FnMut(&[u8], u64)) {
        if self.0.lie != Lie::LateBound || self.0.map.contains_key(from) {
            return self.scan(from, 1, visit);
        }
        let mut second = None;
        self.scan(from, 2, |key, value| second = Some((key.to_vec(), value)));
        if let Some((key, value)) = second {
            visit(&key, value);
        }
    }

    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let from_key = (Included(from), Unbounded);
        let map = &self.0.map;
        let mut entries: Vec<_> = map.range::<[u8], _>(from_key).take(count + 1).collect();
        match self.0.lie {
            Lie::Unsorted if entries.len() > 9 => entries.swap(7, 8),
            Lie::Skips if entries.len() > 9 => drop(entries.remove(7)),
            Lie::LateStart if !self.0.map.contains_key(from) && !entries.is_empty() => {
                entries.remove(0);
            }
            _ => {}
        }
        for (key, value) in entries.into_iter().take(count) {
            if self.0.lie == Lie::WrongKeys {
                let mut key = key.clone();
                *key.last_mut().expect("keys are not empty") ^= 1;
                visit(&key, *value);
            } else {
                visit(key, *value);
            }
        }
    }
}

/// A map that does nothing.
struct Nothing;

impl Handle for Nothing {
    fn insert(&mut self, _: &[u8], _: u64) -> bool {
        true
    }

    fn update(&mut self, _: &[u8], _: u64) -> bool {
        true
    }

    fn get(&mut self, key: &[u8]) -> Option<u64> {
        Some(u64::from(key[0]))
    }

    fn remove(&mut self, _: &[u8]) -> bool {
        true
    }

    fn scan(&mut self, _: &[u8], _: usize, _: impl FnMut(&[u8], u64)) {}
}

impl Subject for Nothing {
    const NAME: &'static str = "nothing";

    type Owned<'a> = Nothing;
    type Shared<'a> = Nothing;

    fn new() -> Self {
        Nothing
    }

    fn own(&mut self) -> Nothing {
        Nothing
    }

    fn share(&self) -> Nothing {
        Nothing
    }
}

fn keys(count: usize) -> (KeySet, Order) {
    let set: Dataset = "reddit".parse().unwrap();
    let keys = set.load(count, 1).unwrap().0;
    let order = Order::of(&keys);
    (keys, order)
}

/// Runs all workloads and returns what was said.
fn findings<S: Subject>(workloads: &[Workload], threads: usize) -> Vec<Line> {
    said_by::<S>(workloads, threads, false)
}

/// Grows a map and returns what was said.
fn growth<S: Subject>(threads: usize) -> Vec<Line> {
    said_by::<S>(&[], threads, true)
}

fn said_by<S: Subject>(workloads: &[Workload], threads: usize, grow: bool) -> Vec<Line> {
    let (keys, order) = keys(3000);
    let job = Job {
        index: S::NAME.into(),
        workloads: workloads.to_vec(),
        task: if grow { Task::Grow } else { Task::Query },
        distributions: vec![Distribution::Uniform, Distribution::Zipf],
        threads,
        batches: vec![1, 7],
        dependent: false,
        queries: 5000,
        seed: 1,
        settings: Settings::default(),
        calls: None,
    };
    let mut lines = Vec::new();
    let mut out = |line| {
        lines.push(line);
        Ok(())
    };
    let order = Some(&order);
    measure::<S>(&mut Context { job: &job, keys: &keys, order, out: &mut out }).unwrap();
    lines
}

fn wrong(lines: &[Line]) -> Option<&str> {
    lines.iter().find_map(|line| match line {
        Line::Wrong { case, .. } => Some(&*case.workload),
        _ => None,
    })
}

#[test]
fn an_honest_map_passes_every_workload() {
    let all = Workload::ALL.map(|(workload, _)| workload);
    let lines = findings::<Liar>(&all, 1);
    assert_eq!(wrong(&lines), None);
    assert_eq!(lines.last(), Some(&Line::Done));
    let measured = lines.iter().filter(|line| matches!(line, Line::Measured { .. })).count();
    // Two distributions and two batch sizes, where they mean something.
    assert_eq!(measured, 25);
}

#[test]
fn every_lie_is_caught_where_it_is_told() {
    use Workload as W;
    let cases: [(Lie, &[Workload], &str); 16] = [
        (Lie::Value, &[W::Get], "get"),
        (Lie::Value, &[W::GetDependent], "get"),
        (Lie::Value, &[W::YcsbC], "ycsb-c"),
        (Lie::Phantom, &[W::Load], "load"),
        (Lie::Lost, &[W::Get], "get"),
        (Lie::Lost, &[W::YcsbD], "ycsb-d"),
        (Lie::Unsorted, &[W::ScanFirst], "scan-first"),
        (Lie::Skips, &[W::ScanFirst], "scan-first"),
        (Lie::LateStart, &[W::Load], "load"),
        (Lie::WrongKeys, &[W::ScanFirst], "scan-first"),
        (Lie::Repeats, &[W::Load], "load"),
        (Lie::DropsUpdates, &[W::YcsbA], "ycsb-a"),
        (Lie::KeepsRemoved, &[W::Load], "load"),
        (Lie::MixesBatch, &[W::Batch], "batch"),
        (Lie::LateBound, &[W::LowerBound], "lower-bound"),
        (Lie::LateBound, &[W::LowerBoundDependent], "lower-bound"),
    ];
    for (lie, workloads, place) in cases {
        NEXT.set(lie);
        assert_eq!(wrong(&findings::<Liar>(workloads, 1)), Some(place), "{lie:?}");
    }
    NEXT.set(Lie::None);
}

#[test]
fn a_map_for_one_writer_is_not_written_by_two() {
    let lines = findings::<Liar>(&[Workload::Load, Workload::YcsbA], 2);
    let unsupported = lines.iter().filter(|l| matches!(l, Line::Unsupported { .. })).count();
    assert_eq!(unsupported, 3);
}

/// Returns what was measured, and how many calls were timed.
fn measured(lines: &[Line]) -> Vec<(&str, &str)> {
    let mut measured = Vec::new();
    for line in lines {
        if let Line::Measured { case, latency, pause_ns, note, .. } = line {
            let times = latency.expect("calls are timed");
            assert!(
                [
                    times.p50,
                    times.p99,
                    times.p999,
                    times.p9999,
                    times.p99999,
                    times.p999999,
                    times.max
                ]
                .is_sorted()
            );
            assert!(pause_ns.is_some());
            let note = note.as_deref().expect("a note");
            measured.push((&*case.workload, note.split_once(" calls timed").expect("calls").0));
        }
    }
    measured
}

#[test]
fn a_map_grows_alone_and_under_readers() {
    let alone = growth::<Liar>(1);
    assert_eq!(measured(&alone), [("grow", "all 3000")]);
    assert_eq!(alone.last(), Some(&Line::Done));
    for grow in
        [growth::<ours::wormhole::Measured<false>>, growth::<ours::cuckoo_trie::Measured<false>>]
    {
        for threads in [2, 4] {
            let lines = grow(threads);
            let measured = measured(&lines);
            assert_eq!(measured[0], ("grow", "all 3000"));
            assert_eq!((measured.len(), measured[1].0), (2, "grow-get"));
            assert_ne!(measured[1].1, "all 0");
            assert_eq!(lines.last(), Some(&Line::Done));
        }
    }
}

#[test]
fn a_map_that_lies_while_it_grows_is_caught() {
    for lie in [Lie::Value, Lie::Phantom, Lie::Lost, Lie::Skips, Lie::Repeats] {
        NEXT.set(lie);
        assert_eq!(wrong(&growth::<Liar>(1)), Some("grow"), "{lie:?}");
    }
    NEXT.set(Lie::None);
    // It says that each key is new, and finds none.
    assert_eq!(wrong(&growth::<Nothing>(2)), Some("grow-get"));
    let refused = growth::<Liar>(2);
    let unsupported = refused.iter().filter(|line| matches!(line, Line::Unsupported { .. }));
    assert_eq!((unsupported.count(), refused.len()), (2, 3));
}

#[test]
fn the_loop_itself_costs_little() {
    let (keys, _) = keys(20_000);
    let plan = Plan {
        keys: &keys,
        distribution: Distribution::Uniform,
        queries: 200_000,
        thread: (0, 1),
        seed: 1,
    };
    let stream = plan.stream(Workload::Get, None).unwrap();
    let streams = [stream];
    let work = Queries::new(Workload::Get, &streams, false, 1);
    let timings: Vec<_> = (0..10).map(|_| timed(&mut Nothing, 1, &work)).collect();
    assert_eq!(work.operations(), 200_000);
    // Nothing is right about a map that does nothing, and every answer was looked at.
    assert!(timings.iter().all(|timing| timing.wrong > 199_000));
    let least = timings.iter().map(|timing| timing.seconds).fold(f64::MAX, f64::min);
    let each = least * 1e9 / 200_000.0;
    println!("{each:.2} ns a query in the loop itself");
}

#[test]
fn a_dependent_run_over_wrong_answers_stays_inside_its_queries() {
    let (keys, _) = keys(2000);
    for queries in [1, 7, 8, 9, 255, 256, 1001] {
        let distribution = Distribution::Uniform;
        let plan = Plan { keys: &keys, distribution, queries, thread: (0, 1), seed: 2 };
        for (workload, batch) in [(Workload::GetDependent, 1), (Workload::Batch, 5)] {
            let streams = [plan.stream(workload, None).unwrap()];
            let work = Queries::new(workload, &streams, true, batch);
            timed(&mut Nothing, 1, &work);
        }
    }
}

#[test]
fn threads_share_the_load_and_have_queries_of_their_own() {
    let (keys, order) = keys(2000);
    let mut scans = ScanReference::new(&keys, &order, keys.present());
    let plan = |thread| Plan {
        keys: &keys,
        distribution: Distribution::Uniform,
        queries: 100,
        thread: (thread, 2),
        seed: 1,
    };
    let [a, b] = [0, 1].map(|t| plan(t).stream(Workload::YcsbE, Some(&mut scans)).unwrap());
    assert!((0..a.len()).any(|i| a.index(i) != b.index(i)));
    let newcomers = [0, 1].map(|t| plan(t).newcomers(Workload::YcsbD));
    assert!(newcomers[0].end <= newcomers[1].start);
    let work = Load { keys: &keys, threads: 2 };
    assert_eq!(timed(&mut Nothing, 2, &work).wrong, 0);
}
