//! A map before its threads start, and what they do, while a scheduler decides at every atomic access who goes on. Compiled once for
//! all maps, which stand behind a trait here.

use std::collections::BTreeMap;
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use testkit::effort;
use testkit::history::{Call, Clock, Event, History, Recorder};
use testkit::scan::{Scan, ScanChecker};
use testkit::stress::Shared;

/// How many schedules of each kind of value a scene runs under.
fn schedules() -> usize {
    effort::amount("FANREAD_SCHEDULES", 10_000)
}

/// Runs a scene of the map of this name under many schedules of both kinds.
pub(crate) fn explore(name: &str, scene: impl Fn() + Send + Sync + 'static) {
    explore_shared(name, Arc::new(scene));
}

/// As [`explore`], compiled once for all scenes.
fn explore_shared(name: &str, scene: Arc<dyn Fn() + Send + Sync>) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    let half = schedules() / 2;
    let again = Arc::clone(&scene);
    Runner::new(RandomScheduler::new(half), config.clone()).run(move || scene());
    Runner::new(PctScheduler::new(4, half), config).run(move || again());
    effort::done("schedules", name, 2 * half as u64);
}

/// What one thread does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    Get(u32),
    /// The same by a walk, in a map that promises more of one than to show what was there at some instant of it.
    Find(u32),
    Insert(u32),
    Remove(u32),
    Update(u32),
    GetOrInsert(u32),
    Scan,
    ScanBack,
}

/// The keys that a map has before its threads start, and what these do.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// The keys that are inserted at first, in order.
    pub(crate) first: fn() -> Vec<u32>,
    /// The keys that are removed from these again, before the threads start.
    pub(crate) without: fn() -> Vec<u32>,
    pub(crate) threads: &'static [&'static [Do]],
}

/// Makes a map of the entries it is given.
type Make = dyn Fn(&BTreeMap<u32, u64>) -> Box<dyn Shared> + Send + Sync;

impl Scenario {
    /// Runs the scenario under many schedules.
    pub(crate) fn explore(self, name: &str, make: Box<Make>) {
        explore(name, move || self.run(&make));
    }

    fn run(self, make: &Make) {
        let initial: BTreeMap<u32, u64> =
            (self.first)().into_iter().map(|key| (key, u64::from(key))).collect();
        let map = make(&initial);
        let mut initial = initial;
        for key in (self.without)() {
            assert_eq!(map.remove(key), initial.remove(&key));
        }
        let shared = Arc::new((map, Clock::new()));
        let running: Vec<_> = (self.threads.iter().enumerate())
            .map(|(number, calls)| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&*shared.0, &shared.1, number, calls))
            })
            .collect();
        let mut history = History { initial, threads: Vec::new() };
        let mut scans = Vec::new();
        for thread in running {
            let (events, seen) = thread.join().unwrap();
            history.threads.push(events);
            scans.extend(seen);
        }
        history.check().unwrap_or_else(|violation| panic!("{violation}"));
        let checker = ScanChecker::new(&history);
        for scan in &scans {
            checker.check(scan).unwrap_or_else(|violation| panic!("{violation}\nin {scan:?}"));
        }
        shared.0.check().unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// Makes the calls of one thread.
fn work(map: &dyn Shared, clock: &Clock, number: usize, calls: &[Do]) -> (Vec<Event>, Vec<Scan>) {
    let mut recorder = Recorder::new(clock);
    let mut scans = Vec::new();
    for (turn, call) in calls.iter().enumerate() {
        let value = (number as u64 + 1) << 32 | turn as u64;
        match *call {
            Do::Get(key) => recorder.record(key, || Call::Get { found: map.get(key) }),
            Do::Find(key) => recorder.record(key, || Call::Get { found: map.find(key) }),
            Do::Insert(key) => {
                recorder.record(key, || Call::Insert { value, old: map.insert(key, value) });
            }
            Do::Remove(key) => recorder.record(key, || Call::Remove { old: map.remove(key) }),
            Do::Update(key) => recorder.record(key, || {
                let old = map.update(key, value).flatten();
                Call::Update { value, old }
            }),
            Do::GetOrInsert(key) => recorder.record(key, || {
                let now = map.get_or_insert(key, value).unwrap();
                Call::GetOrInsert { value, now }
            }),
            Do::Scan | Do::ScanBack => {
                let (keys, back) = (0..=1_000, matches!(call, Do::ScanBack));
                let began = clock.tick();
                let entries = map.scan(keys.clone(), back).unwrap();
                let ended = clock.tick();
                scans.push(Scan { began, ended, keys, back, entries });
            }
        }
    }
    (recorder.finish(), scans)
}
