//! Maps on a medium that crashes: after every store, flush and fence of a run, every state that a crash could have left is
//! opened, and has to be the map before the call in flight, or after it.

#[cfg(not(shuttle))]
mod checkpoints;
#[cfg(not(any(shuttle, miri)))]
mod files;
#[cfg(shuttle)]
mod scenes;
mod strings;
#[cfg(shuttle)]
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use super::layout::{Geometry, Spelling};
use super::{Broken, Cceh, CcehError, CcehOptions, Map, SplitPolicy};
use crate::hash::mix::stream;
use crate::persist::medium::sim::{Event, Fault, Image, Kind, Replay, Sim, Site};
use crate::persist::medium::{Mapped, Medium, WordAt};
use testkit::effort;

const POLICIES: [SplitPolicy; 2] = [SplitPolicy::InPlace, SplitPolicy::CopyOnWrite];

/// Small segments, which split, merge and overflow all the time.
fn tiny(policy: SplitPolicy, probed: usize) -> CcehOptions {
    CcehOptions { geometry: Geometry { bits: 2, probed }, seed: SEED, policy, ..CcehOptions::new() }
}

/// How many states of a crash of recovery are looked at.
const NESTED: usize = 8;

/// The hash key of the tests' maps.
const SEED: u64 = 5;

/// Lines that the small maps of the tests may take.
const LINES: usize = 1024;

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64, u64),
    Remove(u64),
}

/// A map whose keys and values can be written as numbers.
trait Subject: Sized {
    fn create(medium: Sim, options: CcehOptions) -> Result<Self, CcehError>;
    fn open(medium: Sim, policy: SplitPolicy) -> Result<Self, CcehError>;
    fn table(&self) -> &Map<Sim>;
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, CcehError>;
    fn remove(&self, key: u64) -> Option<u64>;
    #[cfg(shuttle)]
    fn get(&self, key: u64) -> Option<u64>;
    fn check(&self) -> Result<(), Broken>;
    fn contents(&self) -> BTreeMap<u64, u64>;

    /// Whether these are the contents of a map in which [`check`](Subject::check) has found no key twice.
    fn is_like(&self, model: &BTreeMap<u64, u64>) -> bool {
        self.contents() == *model
    }
}

impl Subject for Map<Sim> {
    fn create(medium: Sim, options: CcehOptions) -> Result<Self, CcehError> {
        Map::create(medium, options)
    }

    fn open(medium: Sim, policy: SplitPolicy) -> Result<Self, CcehError> {
        Map::open(medium, policy)
    }

    fn table(&self) -> &Map<Sim> {
        self
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, CcehError> {
        Map::insert(self, key, value)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        Map::remove(self, key)
    }

    #[cfg(shuttle)]
    fn get(&self, key: u64) -> Option<u64> {
        Map::get(self, key)
    }

    fn check(&self) -> Result<(), Broken> {
        Map::check(self)
    }

    fn contents(&self) -> BTreeMap<u64, u64> {
        contents(self)
    }

    fn is_like(&self, model: &BTreeMap<u64, u64>) -> bool {
        let is_there = |(hash, value)| model.get(&self.spelling.key(hash)) == Some(&value);
        self.walk().count() == model.len() && self.walk().all(is_there)
    }
}

impl Op {
    fn apply(self, map: &impl Subject) -> Option<u64> {
        match self {
            Self::Insert(key, value) => map.insert(key, value).unwrap(),
            Self::Remove(key) => map.remove(key),
        }
    }

    fn both(self, map: &impl Subject, model: &mut BTreeMap<u64, u64>) {
        assert_eq!(self.apply(map), self.model(model));
    }

    fn model(self, model: &mut BTreeMap<u64, u64>) -> Option<u64> {
        match self {
            Self::Insert(key, value) => model.insert(key, value),
            Self::Remove(key) => model.remove(&key),
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        stream(self.0, 0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A key of a number. Every second one has a hash that begins with zeros, so that some segments are much deeper than others.
fn key(number: u64) -> u64 {
    let special = [0, 1, u64::MAX, u64::MAX - 1];
    let hash = stream(number, 0) >> if number.is_multiple_of(2) { 0 } else { 2 };
    let spelling = Spelling::new(SEED);
    special.get(number as usize).copied().unwrap_or_else(|| spelling.key(hash))
}

/// Calls on `keys` keys, which first mostly come, then mostly go, and so on.
fn script(seed: u64, keys: u64, count: usize) -> Vec<Op> {
    let mut random = Random(seed);
    let special = [0, 1, u64::MAX, u64::MAX - 1];
    let mut op = |n: usize| {
        let key = key(random.below(keys));
        let grows = (n * 4 / count).is_multiple_of(2);
        let inserts = random.below(10) < if grows { 9 } else { 1 };
        let value = special.get(random.below(30) as usize).copied().unwrap_or(n as u64 + 1000);
        if inserts { Op::Insert(key, value) } else { Op::Remove(key) }
    };
    (0..count).map(&mut op).collect()
}

fn contents<M: Medium>(map: &Map<M>) -> BTreeMap<u64, u64> {
    map.walk().map(|(hash, value)| (map.spelling.key(hash), value)).collect()
}

#[test]
fn agrees_with_a_btreemap() {
    for policy in POLICIES {
        for (seed, probed) in [(1, 1), (2, 2), (3, 4), (4, 3)] {
            let map = Map::create(Sim::new(1 << 16, true), tiny(policy, probed)).unwrap();
            let mut model = BTreeMap::new();
            for (step, op) in script(seed, 3000, 20_000).into_iter().enumerate() {
                assert_eq!(op.apply(&map), op.model(&mut model), "step {step}: {op:?}");
                if step.is_power_of_two() || step % 2000 == 0 {
                    map.check().unwrap();
                    assert_eq!(map.len(), model.len());
                    assert_eq!(contents(&map), model);
                }
            }
            assert!((0..3000).map(key).all(|key| map.get(key) == model.get(&key).copied()));
            map.check().unwrap();
        }
    }
}

#[test]
fn a_large_map_finds_every_key_and_no_other() {
    for huge_pages in [true, false] {
        finds_every_key_and_no_other(CcehOptions::new().huge_pages(huge_pages));
    }
}

fn finds_every_key_and_no_other(options: CcehOptions) {
    let map = Cceh::in_memory(options).unwrap();
    let count = if cfg!(miri) { 300 } else { 200_000 };
    for key in 0..count {
        assert_eq!(map.insert(key, !key).unwrap(), None);
    }
    map.check().unwrap();
    let keys: Vec<u64> = (0..2 * count).collect();
    let mut values = vec![None; keys.len()];
    map.get_batch(&keys, &mut values);
    for (key, value) in keys.into_iter().zip(values) {
        assert_eq!(value, (key < count).then_some(!key));
        assert_eq!(map.get(key), value);
    }
    assert_eq!(map.len(), count as usize);
    assert!((0..count).all(|key| map.remove(key) == Some(!key)));
    map.check().unwrap();
    assert!(map.is_empty());
}

#[test]
fn one_key_that_is_inserted_again_and_again_is_there_once() {
    let map = Map::create(Sim::new(LINES, true), tiny(SplitPolicy::InPlace, 4)).unwrap();
    let lines = map.medium.lines();
    for n in 0..10_000 {
        assert_eq!(map.insert(u64::MAX, n).unwrap(), n.checked_sub(1));
    }
    map.check().unwrap();
    assert_eq!((map.len(), map.medium.lines()), (1, lines));
}

/// Maps that crash.
#[derive(Clone, Copy, Debug)]
struct Scene {
    options: CcehOptions,
    is_ordered: bool,
    fault: Option<Fault>,
    lines: usize,
    /// How many states are looked at of a moment.
    images: usize,
}

impl Scene {
    /// All of the kinds of maps that crash.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for policy in POLICIES {
            // Where stores reach the medium in any order, more faults are caught.
            for is_ordered in [false, true] {
                for probed in [2, 4] {
                    let options = tiny(policy, probed);
                    all.push(Self { options, is_ordered, fault: None, lines: LINES, images: 40 });
                }
            }
        }
        all
    }

    fn medium(&self, image: &[u64]) -> Sim {
        let medium = Sim::of(image, self.lines, self.is_ordered);
        if let Some(fault) = self.fault {
            medium.plant(fault);
        }
        medium
    }

    /// Opens a state that a crash left, and compares it with what may be there. Returns how many states were opened: opening
    /// may crash too, and the states of that are opened again, `nested` times.
    fn open<S: Subject>(
        &self,
        image: &Image,
        nested: u32,
        may_be: &[&BTreeMap<u64, u64>],
        sites: &mut Sites,
    ) -> u64 {
        let map = S::open(self.medium(image), self.options.policy).unwrap();
        map.check().unwrap();
        let found = may_be.iter().find(|model| map.is_like(model));
        let found = *found.unwrap_or_else(|| panic!("{:?}\nis none of {may_be:?}", map.contents()));
        let mut opened = 1;
        sites.extend(map.table().medium.sites());
        let events = map.table().medium.take_events();
        if nested > 0 && !events.is_empty() {
            let mut replay = Replay::new(image.clone(), self.is_ordered);
            for (thread, event) in events {
                replay.step(thread, event);
                replay.images(NESTED, 9, |image| {
                    opened += self.open::<S>(image, nested - 1, &[found], sites);
                });
            }
        }
        opened
    }

    /// Crashes in the split of a segment that has half of the directory, and lets the new half, once it was mended, split
    /// again by another thread, whose fences do nothing for those of recovery; and crashes once more.
    fn split_what_was_mended(&self, sites: &mut Sites) -> u64 {
        let good = Self { fault: None, ..*self };
        let map = Map::create(good.medium(&[]), self.options).unwrap();
        let mut model = BTreeMap::new();
        let mut random = Random(3);
        // With five bits the pointers to that segment are in two lines.
        let mut key = |is_low: bool| {
            let hash = random.next();
            map.spelling.key(if is_low { hash >> 5 } else { hash | 1 << 63 })
        };
        while map.hints.depth() < 5 {
            Op::Insert(key(true), 1).both(&map, &mut model);
        }
        let others: Vec<_> = (0..20).map(|_| key(false)).collect();
        map.medium.take_events();
        let mut replay = Replay::new(map.medium.image(), self.is_ordered);
        let mut opened = 0;
        for other in others {
            let before = model.clone();
            Op::Insert(other, 2).both(&map, &mut model);
            for (thread, event) in map.medium.take_events() {
                replay.step(thread, event);
                replay.images(NESTED, 5, |image| {
                    let map = Map::open(self.medium(image), self.options.policy).unwrap();
                    let found = contents(&map);
                    assert!([&before, &model].contains(&&found));
                    sites.extend(map.medium.sites());
                    let events = map.medium.take_events();
                    if events.iter().any(|(_, event)| !matches!(event, Event::Fence)) {
                        let mut replay = Replay::new(image.clone(), self.is_ordered);
                        for (thread, event) in events {
                            replay.step(thread, event);
                        }
                        opened += self.split_right(&map, replay, found, sites);
                    }
                });
            }
        }
        opened
    }

    fn split_right(
        &self,
        map: &Map<Sim>,
        mut replay: Replay,
        mut model: BTreeMap<u64, u64>,
        sites: &mut Sites,
    ) -> u64 {
        let depth = map.hints.depth();
        let mut random = Random(11);
        let call = || {
            let mut opened = 0;
            for n in 0..40 {
                let key = map.spelling.key(random.next() >> 2 | 3 << 62);
                Op::Insert(key, n).both(map, &mut model);
                for (thread, event) in map.medium.take_events() {
                    replay.step(thread, event);
                }
                replay.images(2, 9, |image| {
                    opened += self.open::<Map<Sim>>(image, 0, &[&model], sites);
                });
                if map.hints.depth() > depth {
                    break;
                }
            }
            opened
        };
        let opened = thread::scope(|scope| scope.spawn(call).join());
        opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs a script and crashes it everywhere. Returns how many states were opened.
    fn crash_everywhere<S: Subject>(
        &self,
        seed: u64,
        keys: u64,
        count: usize,
        sites: &mut Sites,
    ) -> u64 {
        let good = Self { fault: None, ..*self };
        let map = S::create(good.medium(&[]), self.options).unwrap();
        if let Some(fault) = self.fault {
            map.table().medium.plant(fault);
        }
        map.table().medium.take_events();
        let start = map.table().medium.image();
        let script = script(seed, keys, count);
        for (n, op) in (0..).zip(&script) {
            map.table().medium.note(n);
            op.apply(&map);
        }
        map.check().unwrap();
        sites.extend(map.table().medium.sites());
        let mut replay = Replay::new(start, self.is_ordered);
        let mut before = BTreeMap::new();
        let mut after = BTreeMap::new();
        let mut opened = 0;
        for (thread, event) in map.table().medium.take_events() {
            if let Event::Note(n) = event {
                before.clone_from(&after);
                script[n as usize].model(&mut after);
                // The call before has returned: it is safe.
                replay.images(self.images, seed, |image| {
                    opened += self.open::<S>(image, 2, &[&before], sites);
                });
                continue;
            }
            replay.step(thread, event);
            replay.images(self.images, seed, |image| {
                opened += self.open::<S>(image, 2, &[&before, &after], sites);
            });
        }
        opened
    }

    /// Makes maps, and crashes that everywhere.
    fn crash_while_made<S: Subject>(&self, sites: &mut Sites) {
        let map = S::create(self.medium(&[]), self.options).unwrap();
        sites.extend(map.table().medium.sites());
        let mut replay = Replay::new(Vec::new(), self.is_ordered);
        let open = |image: &Image| match S::open(self.medium(image), self.options.policy) {
            Ok(map) => {
                map.check().unwrap();
                assert_eq!(map.contents().len(), 0);
                true
            }
            Err(CcehError::NotAMap { .. }) => false,
            Err(other) => panic!("{other}"),
        };
        for (thread, event) in map.table().medium.take_events() {
            replay.step(thread, event);
            replay.images(64, 3, |image| _ = open(image));
        }
        replay.images(64, 3, |image| assert!(open(image), "a map that was made is there"));
    }
}

type Sites = BTreeSet<Site>;

/// Says how many states of which kind of map were opened.
fn report(of: &str, opened: u64) {
    eprintln!("{opened} states");
    effort::done("crash-images", of, opened);
}

#[test]
fn a_crash_after_any_store_flush_or_fence_leaves_the_map_before_or_after_a_call() {
    for seed in effort::seeds_or(1) {
        let mut opened = 0;
        for scene in Scene::all() {
            // Many states of few moments, as below, or few of many: more of both are for nights.
            let scene = Scene { images: 2, ..scene };
            opened += scene.crash_everywhere::<Map<Sim>>(seed, 150, 300, &mut Sites::new());
        }
        report("cceh", opened);
        assert!(opened > 10_000, "{opened}");
    }
}

#[test]
fn a_crash_while_a_map_is_made_leaves_no_map_or_an_empty_one() {
    for scene in Scene::all() {
        scene.crash_while_made::<Map<Sim>>(&mut Sites::new());
    }
}

#[test]
fn what_was_mended_may_split_again_at_once() {
    let opened = Scene::all()
        .iter()
        .map(|scene| scene.split_what_was_mended(&mut Sites::new()))
        .sum::<u64>();
    assert!(opened > 100, "{opened}");
}

#[test]
fn every_flush_and_every_fence_is_needed_and_stands_where_it_has_to() {
    let mut sites = Sites::new();
    for scene in Scene::all() {
        scene.crash_while_made::<Map<Sim>>(&mut sites);
        scene.split_what_was_mended(&mut sites);
        let map = Map::create(scene.medium(&[]), scene.options).unwrap();
        for op in script(1, 150, 250) {
            op.apply(&map);
        }
        sites.extend(map.medium.sites());
    }
    let count = all_are_caught(
        sites,
        |_| true,
        |fault| {
            Scene::all().into_iter().any(|scene| {
                let scene = Scene { fault: Some(fault), ..scene };
                fails(|| {
                    scene.crash_while_made::<Map<Sim>>(&mut Sites::new());
                    scene.split_what_was_mended(&mut Sites::new());
                    scene.crash_everywhere::<Map<Sim>>(1, 150, 250, &mut Sites::new());
                })
            })
        },
    );
    assert!(count >= 40, "{count}");
}

fn fails(run: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    std::panic::catch_unwind(run).is_err()
}

/// Plants a fault at every place, and asserts that each is caught. Returns how many there are.
/// Fences are also moved behind what comes next where `is_late_wrong`.
fn all_are_caught(
    sites: Sites,
    is_late_wrong: impl Fn(&Site) -> bool,
    is_caught: impl Fn(Fault) -> bool,
) -> usize {
    let faults = sites.into_iter().flat_map(|site| match site.0 {
        Kind::Fence if is_late_wrong(&site) => vec![Fault::Missing(site), Fault::Late(site)],
        _ => vec![Fault::Missing(site)],
    });
    let faults: Vec<_> = faults.collect();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<_> = faults.iter().filter(|fault| !is_caught(**fault)).collect();
    std::panic::set_hook(hook);
    for fault in &faults {
        println!("planted: {fault}");
    }
    eprintln!("{} faults planted", faults.len());
    assert!(missed.is_empty(), "{missed:#?}");
    faults.len()
}

#[test]
fn a_full_medium_refuses_and_loses_nothing() {
    for policy in POLICIES {
        let map = Map::create(Sim::new(LINES, true), tiny(policy, 4)).unwrap();
        let mut model = BTreeMap::new();
        map.medium.set_full(true);
        for key in 0..200 {
            match map.insert(key, key) {
                Ok(old) => assert_eq!(old, model.insert(key, key)),
                Err(CcehError::Io(_)) => assert_eq!(map.get(key), None),
                Err(other) => panic!("{other}"),
            }
            map.check().unwrap();
        }
        assert!(model.len() < 200);
        assert_eq!(contents(&map), model);
        map.medium.set_full(false);
        assert!((0..200).all(|key| map.insert(key, key).is_ok()));
        map.check().unwrap();
    }
}

#[test]
fn a_file_of_any_bytes_is_refused_or_opened() {
    let map = Map::create(Sim::new(LINES, true), tiny(SplitPolicy::InPlace, 4)).unwrap();
    (0..60).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    let image = map.medium.image();
    let try_open = |image: &[u64]| {
        if let Ok(map) = Map::open(Sim::of(image, LINES, true), SplitPolicy::InPlace) {
            // Whatever it is, it can be used.
            let _ = map.check();
            let all = contents(&map).len();
            assert!((0..60).filter(|key| map.get(*key).is_some()).count() <= all);
            (100..160).for_each(|key| _ = map.insert(key, key));
            (0..160).for_each(|key| _ = map.remove(key));
        }
    };
    for at in 0..image.len() {
        for byte in 0..8 {
            for change in [0x01, 0x80, 0xff, 0x10] {
                let mut image = image.clone();
                image[at] ^= change << (8 * byte);
                try_open(&image);
            }
        }
    }
    for lines in 0..image.len() / 8 {
        try_open(&image[..lines * 8]);
    }
}

#[test]
fn hashes_that_agree_in_all_that_matters_end_in_an_error() {
    let map = Map::create(Sim::new(1 << 16, true), tiny(SplitPolicy::InPlace, 4)).unwrap();
    let keys = (0..100).map(|n| map.spelling.key(n << 4 << 3));
    let mut refused = 0;
    for key in keys {
        match map.insert(key, 1) {
            Ok(_) => {}
            Err(CcehError::Crowded) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    map.check().unwrap();
    assert!(refused > 0 && map.len() + refused == 100);
    assert_eq!(map.insert(7, 7).unwrap(), None);
}

#[test]
fn locks_and_counts_are_not_in_the_file() {
    // All that the medium holds is written by stores that the record knows; none of them is a lock's.
    let map = Map::create(Sim::new(LINES, true), tiny(SplitPolicy::InPlace, 4)).unwrap();
    map.insert(1, 2).unwrap();
    map.medium.take_events();
    assert_eq!((map.get(1), map.get(2)), (Some(2), None));
    assert!(map.medium.take_events().is_empty(), "a reader stores nothing");
    map.insert(1, 3).unwrap();
    let events = map.medium.take_events();
    assert_eq!(events.len(), 3, "one store, one flush, one fence: {events:?}");
    let stores = events.iter().filter_map(|(_, event)| match event {
        Event::Store(WordAt(at), value) => Some((*at, *value)),
        _ => None,
    });
    assert_eq!(stores.map(|(_, value)| value).collect::<Vec<_>>(), [3]);
}

/// A map whose keys' hashes are all in one bucket of four slots and differ in their leading bits, so that segments split and merge
/// with nearly every call.
#[cfg(not(any(loom, shuttle)))]
struct Shared(Map<Mapped>);

#[cfg(not(any(loom, shuttle)))]
impl Shared {
    fn key(&self, number: u32) -> u64 {
        self.0.spelling.key(u64::from(number) << 60)
    }
}

#[cfg(not(any(loom, shuttle)))]
impl testkit::stress::Shared for Shared {
    fn insert(&self, key: u32, value: u64) -> Option<u64> {
        self.0.insert(self.key(key), value).unwrap()
    }

    fn remove(&self, key: u32) -> Option<u64> {
        self.0.remove(self.key(key))
    }

    fn get(&self, key: u32) -> Option<u64> {
        self.0.get(self.key(key))
    }

    fn check(&self) -> Result<(), String> {
        self.0.check().map_err(|broken| broken.to_string())
    }
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn histories_of_threads_are_linearizable_while_segments_split_and_merge() {
    use testkit::stress::{Plan, run};
    let histories = effort::amount("FANREAD_HISTORIES", 400);
    for policy in POLICIES {
        let plan = Plan { threads: 4, keys: 16, seed: effort::seed(4), ..Plan::new(histories) };
        let stats = run(&plan, |initial| {
            let map = Map::create(Mapped::memory(false).unwrap(), tiny(policy, 1)).unwrap();
            let shared = Shared(map);
            for (number, value) in initial {
                shared.0.insert(shared.key(*number), *value).unwrap();
            }
            shared
        });
        println!("{policy:?}: {stats:?}");
        effort::done("histories", "cceh", stats.histories as u64);
    }
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn keys_that_stay_are_found_and_walked_over_while_others_come_and_go() {
    for policy in POLICIES {
        let map = Map::create(Mapped::memory(true).unwrap(), tiny(policy, 4)).unwrap();
        let stays = 0..200_u64;
        stays.clone().for_each(|key| assert!(map.insert(key, !key).unwrap().is_none()));
        let rounds = if cfg!(miri) { 1 } else { 40 };
        thread::scope(|scope| {
            let writer = |from: u64| {
                let map = &map;
                move || {
                    for _ in 0..rounds {
                        (from..from + 1000)
                            .for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
                        (from..from + 1000).for_each(|key| assert_eq!(map.remove(key), Some(key)));
                    }
                }
            };
            let writers = [scope.spawn(writer(1000)), scope.spawn(writer(2000))];
            while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
                stays.clone().for_each(|key| assert_eq!(map.get(key), Some(!key)));
                let mut seen = BTreeSet::new();
                assert!(
                    map.walk().all(|(hash, _)| seen.insert(map.spelling.key(hash))),
                    "a key comes once"
                );
                assert!(stays.clone().all(|key| seen.contains(&key)), "what stays is seen");
            }
        });
        map.check().unwrap();
        assert_eq!(contents(&map), stays.map(|key| (key, !key)).collect());
    }
}
