// Included for each map by `maps/mod.rs`; `../faults.rs` says what is tested.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use self::common::{Spelling, Value};
use fanread::Ref;
use testkit::{Keys, Rng};

/// Asks a map for everything the model holds, in every way.
fn assert_same<V: Value>(map: &Map<V>, model: &BTreeMap<Vec<u8>, u64>) {
    let pinned = map.pin();
    pinned.check().unwrap();
    assert_eq!(pinned.len(), model.len());
    let entry = |(key, value): (&Vec<u8>, &u64)| (key.clone(), *value);
    // Bounds first: walks bring entries into order that bounds find as they came.
    let keys: Vec<_> = model.keys().collect();
    for at in (0..keys.len()).step_by(1 + keys.len() / 64) {
        let key = keys[at];
        let found = |found: Option<(Key<'_>, Ref<'_, V>)>| found.map(|(key, _)| key.to_vec());
        let [before, behind] = [at.checked_sub(1), Some(at + 1)].map(|at| keys.get(at?).copied());
        assert_eq!(found(pinned.lower_bound(Included(&key[..]))).as_ref(), Some(key));
        assert_eq!(found(pinned.upper_bound(Included(&key[..]))).as_ref(), Some(key));
        assert_eq!(
            found(pinned.lower_bound(Excluded(&key[..]))).as_ref(),
            behind,
            "behind {key:?}"
        );
        assert_eq!(
            found(pinned.upper_bound(Excluded(&key[..]))).as_ref(),
            before,
            "before {key:?}"
        );
    }
    let all = pinned.iter().map(|(key, value)| (key.to_vec(), value.number()));
    assert!(all.eq(model.iter().map(entry)), "from the front");
    let all = pinned.iter().rev().map(|(key, value)| (key.to_vec(), value.number()));
    assert!(all.eq(model.iter().rev().map(entry)), "from the back");
    for (key, value) in model {
        assert_eq!(pinned.get(key).map(|found| found.number()), Some(*value));
    }
}

/// Inserts `keys` in their order, and removes them in another, comparing on the way.
fn come_and_go<V: Value>(keys: &[Vec<u8>], seed: u64) {
    let map = Map::<V>::new();
    let mut model = BTreeMap::new();
    let often = (keys.len() / 8).max(1);
    for (n, key) in (0..).zip(keys) {
        let old = map.pin().insert(key, V::of(n)).map(|old| old.number());
        assert_eq!(old, model.insert(key.clone(), n));
        if (n as usize).is_multiple_of(often) {
            assert_same(&map, &model);
        }
    }
    assert_same(&map, &model);
    let mut order: Vec<_> = keys.iter().collect();
    let mut rng = Rng::new(seed);
    (1..order.len()).rev().for_each(|at| order.swap(at, rng.below(at + 1)));
    for (n, key) in order.into_iter().enumerate() {
        let old = map.pin().remove(key).map(|old| old.number());
        assert_eq!(old, model.remove(key));
        if n.is_multiple_of(often) {
            assert_same(&map, &model);
        }
    }
    assert!(map.is_empty());
    assert_same(&map, &model);
}

// Threads.

#[test]
fn a_split_under_parallel_insert_loses_nothing() {
    const THREADS: u32 = 4;
    const KEYS: u32 = 4_000;
    for round in 0..8 {
        // Keys of NUL bytes only would be as long as there are keys.
        let spelling = Spelling::ALL[round % if NUMBERS { 3 } else { 2 }];
        let map = Map::<u64>::new();
        let start = Barrier::new(THREADS as usize);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (map, start) = (&map, &start);
                scope.spawn(move || {
                    start.wait();
                    // Neighbouring keys belong to different threads, so all of them split the same leaves.
                    for n in (thread..KEYS).step_by(THREADS as usize) {
                        assert!(map.pin().insert(&spelling.key(n), n.into()).is_none());
                        for back in [n, n / 2 / THREADS * THREADS + thread] {
                            let key = spelling.key(back.min(n));
                            assert!(map.pin().get(&key).is_some(), "{back} of {n} is gone");
                        }
                    }
                });
            }
        });
        let model = (0..KEYS).map(|n| (spelling.key(n), n.into())).collect();
        assert_same(&map, &model);
    }
}

#[test]
fn an_open_iterator_blocks_no_writer_not_even_its_own_thread() {
    for back in [false, true] {
        let map = Map::<u64>::new();
        let pinned = map.pin();
        for n in 0..1_000_u64 {
            pinned.insert(&(2 * n).to_be_bytes(), n);
        }
        let mut all = pinned.iter();
        let mut seen = Vec::new();
        while let Some((key, _)) = if back { all.next_back() } else { all.next() } {
            let n = u64::from_be_bytes((*key).try_into().unwrap());
            if n % 2 == 1 {
                continue;
            }
            seen.push(n);
            // The leaf that the iterator stands in is filled, split and emptied by its own thread and by another.
            pinned.insert(&(n + 1).to_be_bytes(), n);
            pinned.remove(&(n + 1).to_be_bytes());
            pinned.remove(&n.to_be_bytes());
            thread::scope(|scope| {
                scope.spawn(|| map.pin().insert(&(n + 1).to_be_bytes(), n).is_none());
            });
        }
        if back {
            seen.reverse();
        }
        assert!(seen.into_iter().eq((0..1_000).map(|n| 2 * n)));
        assert_eq!(pinned.len(), 1_000);
        pinned.check().unwrap();
    }
}

/// A key of eight bytes, each of which has so many values: where those are few, keys share long prefixes.
fn shaped(rng: &mut Rng, values: [usize; 8]) -> Vec<u8> {
    values.map(|values| rng.below(values) as u8).to_vec()
}

#[test]
fn a_walk_goes_on_from_where_it_is_whatever_was_removed_behind_it() {
    let mut rng = Rng::new(11);
    for round in 0..if cfg!(small_leaves) { 300 } else { 2_000 } {
        let values = core::array::from_fn(|_| [1, 2, 3, 20][rng.below(4)]);
        let map = Map::<u64>::new();
        let pinned = map.pin();
        let mut model = std::collections::BTreeSet::new();
        for n in 0..10 + rng.below(150) as u64 {
            let key = shaped(&mut rng, values);
            pinned.insert(&key, n);
            model.insert(key);
        }
        // Whoever is removed, before the walk or behind it, those that stay are met once, in order.
        let (back, keep) = (round % 2 == 1, rng.below(4));
        let mut all = pinned.iter();
        let mut met: Vec<Vec<u8>> = Vec::new();
        let mut gone = std::collections::BTreeSet::new();
        while let Some((key, _)) = if back { all.next_back() } else { all.next() } {
            met.push(key.to_vec());
            if met.len().is_multiple_of(16) || rng.below(20) == 0 {
                for key in model.iter().filter(|_| rng.below(4) >= keep) {
                    if pinned.remove(key).is_some() {
                        gone.insert(key.clone());
                    }
                }
            }
        }
        drop(all);
        if back {
            met.reverse();
        }
        assert!(met.is_sorted_by(|a, b| a < b), "{round}: {met:?}");
        let missed: Vec<_> =
            model.iter().filter(|key| !gone.contains(*key) && !met.contains(key)).collect();
        assert!(missed.is_empty(), "{round}: {missed:?}");
        pinned.clear();
        assert!(pinned.is_empty(), "{round}: cleared");
        pinned.check().unwrap();
    }
}

#[test]
fn a_value_is_never_seen_half_replaced() {
    fn run<V: Value>(spelling: Spelling) {
        const KEYS: u32 = 40;
        let map = Map::<V>::new();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (map, done) = (&map, &done);
                scope.spawn(move || {
                    let mut rng = Rng::new(writer);
                    for turn in 0..20_000_u64 {
                        let n = rng.below(KEYS as usize) as u32;
                        // A value names its key: a reader recognizes a foreign one.
                        let value = turn << 32 | u64::from(n);
                        let pinned = map.pin();
                        match rng.below(4) {
                            0 => _ = pinned.remove(&spelling.key(n)),
                            1 => _ = pinned.update(&spelling.key(n), |_| V::of(value)),
                            _ => _ = pinned.insert(&spelling.key(n), V::of(value)),
                        }
                    }
                    done.store(true, SeqCst);
                });
            }
            let (map, done) = (&map, &done);
            scope.spawn(move || {
                while !done.load(SeqCst) {
                    let pinned = map.pin();
                    for n in 0..KEYS {
                        let found = pinned.get(&spelling.key(n)).map(|found| found.number());
                        assert!(found.is_none_or(|value| value as u32 == n));
                    }
                    for (key, value) in &pinned {
                        assert_eq!(value.number() as u32, spelling.number(&key));
                    }
                }
            });
        });
        map.pin().check().unwrap();
    }
    for spelling in Spelling::ALL {
        run::<u64>(spelling);
        run::<[u64; 3]>(spelling);
        run::<Box<u64>>(spelling);
    }
}

#[test]
fn iterators_step_over_leaves_that_are_emptied_and_merged() {
    for spelling in [Spelling::ALL[0], Spelling::ALL[1]] {
        const KEYS: u32 = 2_000;
        let map = Map::<u64>::new();
        // Every tenth key stays; the others come and go in stretches.
        for n in 0..KEYS {
            map.pin().insert(&spelling.key(n), n.into());
        }
        let readers_left = AtomicUsize::new(3);
        thread::scope(|scope| {
            for direction in 0..3 {
                let (map, readers_left) = (&map, &readers_left);
                scope.spawn(move || {
                    for _ in 0..60 {
                        let pinned = map.pin();
                        let mut range = pinned.iter();
                        let (mut front, mut back) = (Vec::new(), Vec::new());
                        for step in 0.. {
                            let from_back = [false, true, step % 3 == 0][direction];
                            let next = if from_back { range.next_back() } else { range.next() };
                            let Some((key, value)) = next else { break };
                            let n = spelling.number(&key);
                            assert_eq!(*value, u64::from(n));
                            if from_back { back.push(n) } else { front.push(n) }
                        }
                        front.extend(back.into_iter().rev());
                        assert!(front.is_sorted_by(|a, b| a < b), "out of order or twice");
                        let stayed = front.into_iter().filter(|n| n % 10 == 0);
                        assert!(stayed.eq((0..KEYS).step_by(10)), "a key that stayed is missing");
                    }
                    readers_left.fetch_sub(1, SeqCst);
                });
            }
            let (map, readers_left) = (&map, &readers_left);
            scope.spawn(move || {
                let mut rng = Rng::new(5);
                while readers_left.load(SeqCst) > 0 {
                    let start = rng.below(KEYS as usize) as u32;
                    let stretch = start..(start + 400).min(KEYS);
                    stretch.clone().filter(|n| n % 10 != 0).for_each(|n| {
                        map.pin().remove(&spelling.key(n));
                    });
                    for n in stretch {
                        map.pin().insert(&spelling.key(n), n.into());
                    }
                }
            });
        });
        map.pin().check().unwrap();
    }
}

#[test]
fn everything_may_be_deleted_under_iterators() {
    let map = Map::<Box<u64>>::new();
    for _ in 0..10 {
        for n in 0..3_000_u64 {
            map.pin().insert(&n.to_be_bytes(), Box::new(n));
        }
        thread::scope(|scope| {
            for back in [false, true] {
                let map = &map;
                scope.spawn(move || {
                    let pinned = map.pin();
                    let next = |(key, value): (Key<'_>, Ref<'_, Box<u64>>)| {
                        let n = u64::from_be_bytes((*key).try_into().unwrap());
                        assert_eq!(**value, n);
                        n
                    };
                    let all: Vec<u64> = if back {
                        pinned.iter().rev().map(next).map(|n| u64::MAX - n).collect()
                    } else {
                        pinned.iter().map(next).collect()
                    };
                    assert!(all.is_sorted_by(|a, b| a < b));
                });
            }
            scope.spawn(|| map.pin().clear());
            scope.spawn(|| map.pin().retain(|key, _| key[7] % 2 == 0));
        });
        assert!(map.is_empty());
        map.pin().check().unwrap();
    }
}

// Keys.

#[test]
fn a_batch_is_as_many_calls_one_after_another() {
    let shape = if NUMBERS { Keys::U64OneByte } else { Keys::Mixed };
    let keys: Vec<Vec<u8>> = testkit::ops::pool(11, shape, 3_000);
    let map = Map::<u64>::new();
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(1);
    for round in 0..60 {
        let batch: Vec<(&[u8], u64)> = (0..rng.below(200))
            .map(|n| (rng.pick(&keys).as_slice(), round << 16 | n as u64))
            .collect();
        map.pin().insert_batch(batch.iter().copied());
        model.extend(batch.iter().map(|(key, value)| (key.to_vec(), *value)));
        let pinned = map.pin();
        let asked: Vec<&[u8]> = (0..rng.below(100)).map(|_| rng.pick(&keys).as_slice()).collect();
        let mut found: Vec<_> = asked.iter().map(|_| None).collect();
        let mut there = vec![false; asked.len()];
        pinned.get_batch(&asked, &mut found);
        pinned.contains_batch(&asked, &mut there);
        for ((key, found), there) in asked.iter().zip(&found).zip(there) {
            assert_eq!(found.as_deref(), model.get(*key));
            assert_eq!(there, found.is_some());
        }
        for _ in 0..rng.below(100) {
            let key = rng.pick(&keys);
            assert_eq!(pinned.remove(key).as_deref().copied(), model.remove(key));
        }
    }
    assert_same(&map, &model);
}

#[test]
fn an_iterator_whose_last_key_is_gone_goes_on_behind_it() {
    for at in [0, 1, 30, 31, 32, 500, 998_u64] {
        let map = Map::<u64>::new();
        let pinned = map.pin();
        let key = |n: u64| (2 * n).to_be_bytes();
        for n in 0..1_000 {
            pinned.insert(&key(n), n);
        }
        let mut all = pinned.iter();
        assert_eq!(all.nth(at as usize).map(|(_, value)| *value), Some(at));
        // The key it stands at goes, and so do all behind it but the last; others come behind it and before it.
        for n in at..999 {
            pinned.remove(&key(n));
        }
        for n in [2 * at + 1, 2 * at + 3] {
            pinned.insert(&n.to_be_bytes(), 5_000);
        }
        pinned.insert(&(2 * at).saturating_sub(1).to_be_bytes(), 6_000);
        let rest: Vec<Vec<u8>> = all.map(|(key, _)| key.to_vec()).collect();
        assert!(
            rest.is_sorted_by(|a, b| a < b) && rest.iter().all(|found| found[..] > key(at)[..])
        );
        assert!(rest.contains(&key(999).to_vec()), "at {at}");
    }
}
