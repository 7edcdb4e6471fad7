//! Maps of byte strings: the same crashes, and what is theirs alone.

use super::*;
use crate::persist::cceh::Store;
use crate::persist::cceh::strings::Strings;

/// Lines that the small maps of these tests may take.
const LINES: usize = 2048;

/// A key of a number: one in eight is longer than a cell of a small map.
pub(super) fn text(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if number > 0 {
        bytes.extend_from_slice(&number.to_le_bytes());
        let more = if number % 8 == 5 { 150 } else { number % 3 * 13 };
        bytes.extend((0..more).map(|n| (n ^ number) as u8));
    }
    bytes
}

/// A value of a number: some are empty, some take several blocks of a small map.
pub(super) fn body(number: u64) -> Vec<u8> {
    let mut bytes = text(number);
    if number.is_multiple_of(6) {
        bytes.extend((0..number % 5 * 130).map(|n| (n ^ number) as u8));
    }
    bytes
}

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

pub(super) fn body_number(bytes: &[u8]) -> u64 {
    assert_eq!(bytes, body(number(bytes)), "a value is whole");
    number(bytes)
}

fn contents_of<M: Medium>(strings: &Strings<M>) -> BTreeMap<u64, u64> {
    let entries = strings.map.walk().map(|(hash, name)| strings.entry(hash, name).unwrap());
    let mut all = BTreeMap::new();
    for (key, value) in entries {
        assert_eq!(key, text(number(&key)), "a key is whole");
        assert_eq!(strings.get(&key).as_ref(), Some(&value));
        assert_eq!(all.insert(number(&key), body_number(&value)), None);
    }
    all
}

impl Subject for Strings<Sim> {
    fn create(medium: Sim, options: CcehOptions) -> Result<Self, CcehError> {
        Strings::create(medium, options)
    }

    fn open(medium: Sim, policy: SplitPolicy) -> Result<Self, CcehError> {
        Strings::open(medium, policy)
    }

    fn table(&self) -> &Map<Sim> {
        &self.map
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, CcehError> {
        Ok(Strings::insert(self, &text(key), &body(value))?.map(|value| body_number(&value)))
    }

    fn remove(&self, key: u64) -> Option<u64> {
        Strings::remove(self, &text(key)).map(|value| body_number(&value))
    }

    #[cfg(shuttle)]
    fn get(&self, key: u64) -> Option<u64> {
        Strings::get(self, &text(key)).map(|value| body_number(&value))
    }

    fn check(&self) -> Result<(), Broken> {
        Strings::check(self)
    }

    fn contents(&self) -> BTreeMap<u64, u64> {
        contents_of(self)
    }
}

fn twins(policy: SplitPolicy, probed: usize) -> CcehOptions {
    CcehOptions { seed: Spelling::TWINS, ..tiny(policy, probed) }
}

/// Maps that crash; some with many keys of one hash.
fn scenes() -> Vec<Scene> {
    let options = [
        tiny(SplitPolicy::InPlace, 4),
        twins(SplitPolicy::InPlace, 4),
        tiny(SplitPolicy::CopyOnWrite, 2),
    ];
    let of = |options| {
        [true, false].map(|is_ordered| Scene {
            options,
            is_ordered,
            fault: None,
            lines: LINES,
            images: 3,
        })
    };
    options.into_iter().flat_map(of).collect()
}

/// A script whose keys are small numbers.
fn small_script(seed: u64, keys: u64, count: usize) -> Vec<Op> {
    let small = |key: u64| key % keys;
    let calls = script(seed, keys, count).into_iter().map(|op| match op {
        Op::Insert(key, value) => Op::Insert(small(key), value % 10_000),
        Op::Remove(key) => Op::Remove(small(key)),
    });
    calls.collect()
}

#[test]
fn strings_agree_with_a_btreemap() {
    for (seed, options) in [
        (1, tiny(SplitPolicy::InPlace, 4)),
        (2, tiny(SplitPolicy::CopyOnWrite, 2)),
        (3, twins(SplitPolicy::InPlace, 4)),
        (4, CcehOptions { seed: SEED, ..CcehOptions::new() }),
    ] {
        let keys = if seed == 3 { 120 } else { 1500 };
        let map = Strings::create(Sim::new(1 << 16, true), options).unwrap();
        let mut model = BTreeMap::new();
        for (step, op) in small_script(seed, keys, 10_000).into_iter().enumerate() {
            assert_eq!(op.apply(&map), op.model(&mut model), "step {step}: {op:?}");
            if step.is_power_of_two() || step % 1000 == 0 {
                map.check().unwrap();
                assert_eq!(map.map.len(), model.len());
                assert_eq!(contents_of(&map), model);
            }
        }
        map.check().unwrap();
    }
}

#[test]
fn any_bytes_of_any_length_are_a_key_and_a_value() {
    let map = Store::in_memory(CcehOptions::new()).unwrap();
    let lengths = [0, 1, 7, 8, 9, 63, 64, 65, 4000, 8184, 8185, 16_376, 16_377, 1 << 16, 1 << 20];
    let of = |length: usize, salt: usize| -> Vec<u8> {
        (0..length).map(|at| (at * 31 + salt) as u8).collect()
    };
    for round in 0..3 {
        for (at, length) in lengths.into_iter().enumerate() {
            let key = of(length, 1);
            let old = (round > 0).then(|| of(lengths[(at + round - 1) % lengths.len()], round - 1));
            let value = of(lengths[(at + round) % lengths.len()], round);
            assert_eq!(map.insert(&key, &value).unwrap(), old);
            assert_eq!(map.get(&key), Some(value));
        }
        map.check().unwrap();
    }
    // What differs in zeros at its end only is not the same.
    for count in 0..20 {
        assert_eq!(map.insert(&vec![0; count], &[count as u8]).unwrap().is_some(), count == 0);
    }
    assert!((1..20).all(|count| map.get(&vec![0; count]) == Some(vec![count as u8])));
    assert!(matches!(map.insert(&vec![0; 1 << 24], b""), Err(CcehError::TooLong { .. })));
    for (key, value) in &map {
        assert_eq!(map.remove(&key), Some(value));
    }
    assert!(map.is_empty());
    map.check().unwrap();
}

#[test]
fn a_batch_finds_what_single_searches_find() {
    for options in [tiny(SplitPolicy::InPlace, 4), twins(SplitPolicy::InPlace, 4)] {
        let map = Strings::create(Sim::new(1 << 16, true), options).unwrap();
        (0..60).for_each(|n| assert!(map.insert(&text(n), &body(n)).unwrap().is_none()));
        let keys: Vec<_> = (0..120).map(|n| text(n * 7 % 120)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for count in [0, 1, 15, 16, 17, keys.len()] {
            let keys = &keys[..count];
            let mut values = vec![Some(vec![1]); count];
            map.get_batch(keys, &mut values);
            let mut found = vec![false; count];
            map.contains_batch(keys, &mut found);
            for ((key, value), found) in keys.iter().zip(values).zip(found) {
                assert_eq!((value.is_some(), &value), (found, &map.get(key)));
            }
        }
    }
}

#[test]
fn keys_of_one_hash_are_told_apart_until_there_is_no_slot_for_more() {
    let map = Strings::create(Sim::new(1 << 14, true), twins(SplitPolicy::InPlace, 4)).unwrap();
    // All begin with the same byte.
    let key = |n: u64| text(n << 8 | 1);
    let mut taken = 0;
    let refused = loop {
        match map.insert(&key(taken), &body(taken)) {
            Ok(None) => taken += 1,
            other => break other,
        }
    };
    assert!(matches!(refused, Err(CcehError::Crowded)), "{refused:?}");
    assert_eq!(taken, 16);
    map.check().unwrap();
    assert!((0..taken).all(|n| map.get(&key(n)) == Some(body(n))));
    assert_eq!(map.get(&key(taken)), None);
    assert_eq!(map.remove(&key(taken)), None);
    assert_eq!(map.remove(&key(3)), Some(body(3)));
    assert!((0..taken).all(|n| map.get(&key(n)) == (n != 3).then(|| body(n))));
    map.check().unwrap();
}

/// Lets large records go, and segments take their blocks while no list is written to; crashes everywhere there.
fn extents_become_segments(scene: &Scene) {
    let good = Scene { fault: None, ..*scene };
    let map = Strings::create(good.medium(&[]), scene.options).unwrap();
    let small = |n: u64| (n + 100).to_le_bytes();
    let mut model = BTreeMap::new();
    (1..8_u64).for_each(|n| Op::Insert(n, 24).both(&map, &mut model));
    (0..60).for_each(|n| assert!(map.insert(&small(n), b"").unwrap().is_none()));
    // Of each block of cells one stays, so that no list is written to when the others come back.
    let comes_back = |n: &u64| !n.is_multiple_of(10);
    (0..60).filter(comes_back).for_each(|n| assert!(map.remove(&small(n)).is_some()));
    map.map.medium.take_events();
    let mut replay = Replay::new(map.map.medium.image(), scene.is_ordered);
    if let Some(fault) = scene.fault {
        map.map.medium.plant(fault);
    }
    // All cells come back at the end, behind the fences of all removals.
    let reader = crate::sync::epoch::pin();
    (1..8_u64).for_each(|n| Op::Remove(n).both(&map, &mut model));
    drop(reader);
    // Until nobody can be reading them any more.
    while map.heap.lock().used().1 > 0 {
        map.reuse(&mut map.heap.lock());
        drop(crate::sync::epoch::pin());
        thread::yield_now();
    }
    // By another thread, whose fences do nothing for those of this one.
    let come_back = || {
        (0..60).filter(comes_back).for_each(|n| _ = map.insert(&small(n), b"").unwrap());
    };
    thread::scope(|scope| scope.spawn(come_back).join()).unwrap();
    for (thread, event) in map.map.medium.take_events() {
        replay.step(thread, event);
        replay.images(scene.images, 3, |image| {
            let map = Strings::open(good.medium(image), scene.options.policy).unwrap();
            map.check().unwrap();
        });
    }
}

/// Lets another thread fill a cell of an extent whose maker has fenced nothing since; crashes when it is done.
fn a_neighbour_is_first(scene: &Scene) {
    let map = Strings::create(scene.medium(&[]), scene.options).unwrap();
    map.map.medium.take_events();
    let mut replay = Replay::new(map.map.medium.image(), scene.is_ordered);
    map.allocate(2).unwrap();
    thread::scope(|scope| _ = scope.spawn(|| map.insert(&[1, 2, 3], b"").unwrap()));
    for (thread, event) in map.map.medium.take_events() {
        replay.step(thread, event);
    }
    replay.images(64, 3, |image| {
        let good = Scene { fault: None, ..*scene };
        let map = Strings::open(good.medium(image), scene.options.policy).unwrap();
        map.check().unwrap();
        assert_eq!(map.get(&[1, 2, 3]), Some(Vec::new()));
    });
}

#[test]
fn a_crash_after_any_store_flush_or_fence_leaves_the_strings_before_or_after_a_call() {
    for seed in effort::seeds_or(1) {
        let mut opened = 0;
        for scene in scenes() {
            scene.crash_while_made::<Strings<Sim>>(&mut Sites::new());
            extents_become_segments(&scene);
            a_neighbour_is_first(&scene);
            opened += scene.crash_everywhere::<Strings<Sim>>(seed, 20, 80, &mut Sites::new());
        }
        report("store", opened);
        assert!(opened > 50_000, "{opened}");
    }
}

#[test]
fn every_flush_and_every_fence_of_strings_is_needed() {
    let mut sites = Sites::new();
    for scene in scenes() {
        let map = Strings::create(scene.medium(&[]), scene.options).unwrap();
        for op in script(1, 30, 120) {
            op.apply(&map);
        }
        sites.extend(map.map.medium.sites());
    }
    // Those of the table are tried by maps of numbers.
    let ours = ["heap.rs", "record.rs", "strings.rs"];
    sites.retain(|(_, place)| ours.iter().any(|file| place.file().ends_with(file)));
    // What the heap fences is not named by what comes next, but some stores later.
    let is_late_wrong = |site: &Site| site.1.file().ends_with("strings.rs");
    let count = all_are_caught(sites, is_late_wrong, |fault| {
        scenes().into_iter().any(|scene| {
            let scene = Scene { fault: Some(fault), ..scene };
            fails(|| {
                extents_become_segments(&scene);
                a_neighbour_is_first(&scene);
                scene.crash_everywhere::<Strings<Sim>>(1, 30, 120, &mut Sites::new());
            })
        })
    });
    assert!(count >= 10, "{count}");
}

#[test]
fn a_map_that_is_opened_again_and_again_uses_its_free_cells() {
    for options in [tiny(SplitPolicy::InPlace, 4), twins(SplitPolicy::InPlace, 4)] {
        let mut image = Strings::create(Sim::new(LINES, true), options).unwrap().map.medium.image();
        let mut model = BTreeMap::new();
        let mut lines = 0;
        // Most lives are too short to examine all extents: what these leave is found in a longer one.
        let script = small_script(9, 40, 12_000);
        let lives = script.chunks(105).flat_map(|calls| {
            let (short, long) = calls.split_at(calls.len().min(45));
            short.chunks(5).chain([long])
        });
        for (n, calls) in lives.enumerate() {
            let map = Strings::open(Sim::of(&image, LINES, true), options.policy).unwrap();
            for op in calls {
                op.both(&map, &mut model);
            }
            if n % 10 == 0 {
                map.check().unwrap();
                assert_eq!(contents_of(&map), model);
            }
            image = map.map.medium.image();
            lines = lines.max(image.len() / 8);
        }
        assert!(lines < LINES, "{lines}");
    }
}

#[test]
fn a_full_medium_refuses_strings_and_loses_none() {
    let map = Strings::create(Sim::new(LINES, true), tiny(SplitPolicy::InPlace, 4)).unwrap();
    let mut model = BTreeMap::new();
    map.map.medium.set_full(true);
    let mut refused = 0;
    for key in 0..100 {
        match Subject::insert(&map, key, key) {
            Ok(old) => assert_eq!(old, model.insert(key, key)),
            Err(CcehError::Io(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        map.check().unwrap();
    }
    assert!(refused > 0);
    assert_eq!(contents_of(&map), model);
    map.map.medium.set_full(false);
    assert!((0..100).all(|key| Subject::insert(&map, key, key).is_ok()));
    map.check().unwrap();
}

#[test]
fn a_file_of_any_bytes_is_refused_or_a_map_of_strings() {
    let map = Strings::create(Sim::new(LINES, true), tiny(SplitPolicy::InPlace, 4)).unwrap();
    (0..24).for_each(|key| assert_eq!(Subject::insert(&map, key, key).unwrap(), None));
    let image = map.map.medium.image();
    let try_open = |image: &[u64]| {
        if let Ok(map) = Strings::open(Sim::of(image, LINES, true), SplitPolicy::InPlace) {
            // Whatever it is, it can be used.
            for key in 0..40 {
                let _ = map.get(&text(key));
                let _ = map.insert(&text(key), &text(key));
            }
            map.map.walk().for_each(|(hash, name)| _ = map.entry(hash, name));
            (0..40).for_each(|key| _ = map.remove(&text(key)));
            let _ = map.check();
        }
    };
    for at in 0..image.len() {
        for byte in 0..8 {
            for change in [0x01, 0xff] {
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

#[cfg(not(any(loom, shuttle)))]
struct Shared(Strings<Mapped>);

#[cfg(not(any(loom, shuttle)))]
impl testkit::stress::Shared for Shared {
    fn insert(&self, key: u32, value: u64) -> Option<u64> {
        self.0.insert(&text(key.into()), &body(value)).unwrap().map(|value| body_number(&value))
    }

    fn remove(&self, key: u32) -> Option<u64> {
        self.0.remove(&text(key.into())).map(|value| body_number(&value))
    }

    fn get(&self, key: u32) -> Option<u64> {
        self.0.get(&text(key.into())).map(|value| body_number(&value))
    }

    fn check(&self) -> Result<(), String> {
        self.0.check().map_err(|broken| broken.to_string())
    }
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn histories_of_threads_with_strings_are_linearizable() {
    use testkit::stress::{Plan, run};
    let histories = effort::amount("FANREAD_HISTORIES", 400);
    for options in [twins(SplitPolicy::InPlace, 4), tiny(SplitPolicy::CopyOnWrite, 1)] {
        let plan = Plan { threads: 4, keys: 16, seed: effort::seed(4), ..Plan::new(histories) };
        let stats = run(&plan, |initial| {
            let shared = Shared(Strings::create(Mapped::memory(false).unwrap(), options).unwrap());
            for (number, value) in initial {
                shared.0.insert(&text((*number).into()), &body(*value)).unwrap();
            }
            shared
        });
        println!("{options:?}: {stats:?}");
        effort::done("histories", "store", stats.histories as u64);
    }
}

#[cfg(not(any(loom, shuttle)))]
#[test]
fn a_value_that_is_read_while_others_come_and_go_is_whole() {
    let map =
        Strings::create(Mapped::memory(true).unwrap(), tiny(SplitPolicy::InPlace, 4)).unwrap();
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let map = &map;
                scope.spawn(move || {
                    for n in 0..rounds {
                        let key = (n * 7 + writer) % 10 * 2 + writer;
                        if n % 5 == 0 {
                            map.remove(&text(key));
                        } else {
                            map.insert(&text(key), &body(n)).unwrap();
                        }
                    }
                })
            })
            .collect();
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            for key in 0..20 {
                // Which asserts that it is what somebody wrote.
                let _ = map.get(&text(key)).map(|value| body_number(&value));
            }
        }
    });
    map.check().unwrap();
}
