//! Maps on a medium that crashes: after every store, flush and fence of a run, every state that a crash could have left is
//! opened, and has to be the map before the call in flight, or after it.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use super::layout::{Geometry, Spelling};
use super::{Cceh, CcehError, CcehOptions, Map, SplitPolicy};
use crate::hash::mix::stream;
use crate::persist::medium::sim::{Event, Fault, Image, Kind, Replay, Sim, Site};
use crate::persist::medium::{Medium, WordAt};

const POLICIES: [SplitPolicy; 2] = [SplitPolicy::InPlace, SplitPolicy::CopyOnWrite];

/// Small segments, which split, merge and overflow all the time.
fn tiny(policy: SplitPolicy, probed: usize) -> CcehOptions {
    CcehOptions { geometry: Geometry { bits: 2, probed }, seed: SEED, policy }
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

impl Op {
    fn apply<M: Medium>(self, map: &Map<M>) -> Option<u64> {
        match self {
            Self::Insert(key, value) => map.insert(key, value).unwrap(),
            Self::Remove(key) => map.remove(key),
        }
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
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

/// A key of a number. Every second one has a hash that begins with zeros, so that some segments are much deeper than others.
fn key(number: u64) -> u64 {
    let special = [0, 1, u64::MAX, u64::MAX - 1];
    let hash = stream(number, 0) >> if number % 2 == 0 { 0 } else { 2 };
    let spelling = Spelling::new(SEED);
    special.get(number as usize).copied().unwrap_or_else(|| spelling.key(hash))
}

/// Calls on `keys` keys, which first mostly come, then mostly go, and so on.
fn script(seed: u64, keys: u64, count: usize) -> Vec<Op> {
    let mut random = Random(seed);
    let special = [0, 1, u64::MAX, u64::MAX - 1];
    let mut op = |n: usize| {
        let key = key(random.below(keys));
        let grows = n * 4 / count % 2 == 0;
        let inserts = random.below(10) < if grows { 9 } else { 1 };
        let value = special.get(random.below(30) as usize).copied().unwrap_or(n as u64 + 1000);
        if inserts { Op::Insert(key, value) } else { Op::Remove(key) }
    };
    (0..count).map(&mut op).collect()
}

fn contents<M: Medium>(map: &Map<M>) -> BTreeMap<u64, u64> {
    map.walk().collect()
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
    let map = Cceh::in_memory(CcehOptions::new()).unwrap();
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
}

impl Scene {
    /// All of the kinds of maps that crash.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for policy in POLICIES {
            for is_ordered in [true, false] {
                for probed in [2, 4] {
                    all.push(Self { options: tiny(policy, probed), is_ordered, fault: None });
                }
            }
        }
        all
    }

    fn medium(&self, image: &[u64]) -> Sim {
        let medium = Sim::of(image, LINES, self.is_ordered);
        if let Some(fault) = self.fault {
            medium.plant(fault);
        }
        medium
    }

    /// Opens a state that a crash left, and compares it with what may be there. Returns how many states were opened: opening
    /// may crash too, and the states of that are opened again, `nested` times.
    fn open(&self, image: &Image, nested: u32, may_be: &[&BTreeMap<u64, u64>], sites: &mut Sites) -> u64 {
        let map = Map::open(self.medium(image), self.options.policy).unwrap();
        map.check().unwrap();
        let found = contents(&map);
        assert!(may_be.contains(&&found), "{found:?}\nis none of {may_be:?}");
        let mut opened = 1;
        sites.extend(map.medium.sites());
        let events = map.medium.take_events();
        if nested > 0 && !events.is_empty() {
            let mut replay = Replay::new(image.clone(), self.is_ordered);
            for (thread, event) in events {
                replay.step(thread, event);
                replay.images(NESTED, 9, |image| opened += self.open(image, nested - 1, &[&found], sites));
            }
            // What recovery has written it relies on: some go on from there, and crash once more.
            let sum = image.iter().fold(0_u64, |sum, word| sum.rotate_left(5) ^ word);
            if stream(sum, 0) % 32 == 0 {
                opened += self.go_on(&map, replay, found, sites);
            }
        }
        opened
    }

    /// Lets the segments of a map that was opened split, and crashes now and then.
    fn go_on(&self, map: &Map<Sim>, mut replay: Replay, mut model: BTreeMap<u64, u64>, sites: &mut Sites) -> u64 {
        let mut opened = 0;
        // By another thread, whose fences do nothing for those of recovery.
        let call = || {
            for n in 0..120 {
                let op = Op::Insert(key(1000 + n), n);
                assert_eq!(op.apply(map), op.model(&mut model));
                if n % 8 == 0 {
                    for (thread, event) in map.medium.take_events() {
                        replay.step(thread, event);
                    }
                    replay.images(2, 9, |image| opened += self.open(image, 0, &[&model], sites));
                }
            }
        };
        thread::scope(|scope| scope.spawn(call).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        opened
    }

    /// Runs a script and crashes it everywhere. Returns how many states were opened.
    fn crash_everywhere(&self, seed: u64, keys: u64, count: usize, sites: &mut Sites) -> u64 {
        let good = Self { fault: None, ..*self };
        let map = Map::create(good.medium(&[]), self.options).unwrap();
        if let Some(fault) = self.fault {
            map.medium.plant(fault);
        }
        map.medium.take_events();
        let start = map.medium.image();
        let script = script(seed, keys, count);
        for (n, op) in (0..).zip(&script) {
            map.medium.note(n);
            op.apply(&map);
        }
        map.check().unwrap();
        sites.extend(map.medium.sites());
        let mut replay = Replay::new(start, self.is_ordered);
        let mut before = BTreeMap::new();
        let mut after = BTreeMap::new();
        let mut opened = 0;
        for (thread, event) in map.medium.take_events() {
            if let Event::Note(n) = event {
                before.clone_from(&after);
                script[n as usize].model(&mut after);
                // The call before has returned: it is safe.
                replay.images(40, seed, |image| opened += self.open(image, 2, &[&before], sites));
                continue;
            }
            replay.step(thread, event);
            replay.images(40, seed, |image| opened += self.open(image, 2, &[&before, &after], sites));
        }
        opened
    }

    /// Makes maps, and crashes that everywhere.
    fn crash_while_made(&self, sites: &mut Sites) {
        let map = Map::create(self.medium(&[]), self.options).unwrap();
        sites.extend(map.medium.sites());
        let mut replay = Replay::new(Vec::new(), self.is_ordered);
        let open = |image: &Image| match Map::open(self.medium(image), self.options.policy) {
            Ok(map) => {
                map.check().unwrap();
                assert_eq!(contents(&map).len(), 0);
                true
            }
            Err(CcehError::NotAMap { .. }) => false,
            Err(other) => panic!("{other}"),
        };
        for (thread, event) in map.medium.take_events() {
            replay.step(thread, event);
            replay.images(64, 3, |image| _ = open(image));
        }
        replay.images(64, 3, |image| assert!(open(image), "a map that was made is there"));
    }
}

type Sites = BTreeSet<Site>;

fn seeds() -> u64 {
    std::env::var("FANREAD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn a_crash_after_any_store_flush_or_fence_leaves_the_map_before_or_after_a_call() {
    let mut opened = 0;
    for seed in 0..seeds() {
        for scene in Scene::all() {
            opened += scene.crash_everywhere(seed, 150, 300, &mut Sites::new());
        }
    }
    eprintln!("{opened} states");
    assert!(opened > 100_000 * seeds(), "{opened}");
}

#[test]
fn a_crash_while_a_map_is_made_leaves_no_map_or_an_empty_one() {
    Scene::all().iter().for_each(|scene| scene.crash_while_made(&mut Sites::new()));
}

#[test]
fn every_flush_and_every_fence_is_needed_and_stands_where_it_has_to() {
    let mut sites = Sites::new();
    for scene in Scene::all() {
        scene.crash_while_made(&mut sites);
        scene.crash_everywhere(1, 150, 250, &mut sites);
    }
    let faults = sites.into_iter().flat_map(|site| match site.0 {
        Kind::Store | Kind::Flush => vec![Fault::Missing(site)],
        Kind::Fence => vec![Fault::Missing(site), Fault::Late(site)],
    });
    let faults: Vec<_> = faults.collect();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let is_caught = |fault: &Fault| {
        Scene::all().into_iter().any(|scene| {
            let scene = Scene { fault: Some(*fault), ..scene };
            let run = || {
                scene.crash_while_made(&mut Sites::new());
                scene.crash_everywhere(1, 150, 250, &mut Sites::new());
            };
            std::panic::catch_unwind(run).is_err()
        })
    };
    let missed: Vec<_> = faults.iter().filter(|fault| {let t=std::time::Instant::now(); let c = is_caught(fault); eprintln!("{} {:?} {c} {fault:?}", 1, t.elapsed()); !c}).collect();
    std::panic::set_hook(hook);
    eprintln!("{} faults planted", faults.len());
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(faults.len() >= 40, "{}", faults.len());
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
