// Included for each map on keys of any type by `maps/mod.rs`, behind `../shuttle.rs`.

use std::sync::Arc;

use crate::scenes::explore;
use shuttle::thread;

fn key(n: u64) -> Box<[u8]> {
    n.to_be_bytes().into()
}

/// One thread inserts a node of several levels while another removes it as soon as it is there, and a third one inserts the
/// key again.
#[test]
fn a_late_link_revives_no_node() {
    // With these, nodes are tall.
    for seed in [6, 17, 22] {
        explore(NAME, move || late_link(seed));
    }
}

fn late_link(seed: u64) {
    let map = Arc::new(map::Whole::<Box<u64>>::with_options(fanread::Options::new().seed(seed)));
    (0..6).for_each(|n| _ = map.pin().insert(key(4 * n), Box::new(n)));
    let inserter = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            (0..4).for_each(|n| _ = map.pin().insert(key(4 * n + 1), Box::new(n)))
        })
    };
    let remover = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            for n in (0..4).chain(0..4) {
                map.pin().remove(&key(4 * n + 1)[..]);
            }
        })
    };
    (0..3).for_each(|n| _ = map.pin().insert(key(4 * n + 1), Box::new(9)));
    inserter.join().unwrap();
    remover.join().unwrap();
    map.pin().check().unwrap();
}

/// A snapshot is read twice while others replace, remove and insert, and another snapshot comes and goes.
#[test]
fn a_snapshot_keeps_what_it_saw() {
    explore(NAME, || {
        let map = Arc::new(map::Whole::<Box<u64>>::with_options(fanread::Options::new().seed(3)));
        (0..3).for_each(|n| _ = map.pin().insert(key(n), Box::new(n)));
        let writer = {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                // In this order: who sees one of these sees all before it.
                map.pin().insert(key(0), Box::new(10));
                map.pin().remove(&key(1)[..]);
                map.pin().insert(key(3), Box::new(13));
                map.pin().insert(key(1), Box::new(11));
                map.pin().insert(key(0), Box::new(20));
            })
        };
        let other = {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                let snapshot = map.snapshot();
                assert!(snapshot.pin().get(&key(2)[..]).is_some());
            })
        };
        let snapshot = map.snapshot();
        let scan = || -> Vec<(u64, u64)> {
            let view = snapshot.pin();
            let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
            view.iter().map(|(key, value)| (number(key), **value)).collect()
        };
        let first = scan();
        let states: [&[(u64, u64)]; 6] = [
            &[(0, 0), (1, 1), (2, 2)],
            &[(0, 10), (1, 1), (2, 2)],
            &[(0, 10), (2, 2)],
            &[(0, 10), (2, 2), (3, 13)],
            &[(0, 10), (1, 11), (2, 2), (3, 13)],
            &[(0, 20), (1, 11), (2, 2), (3, 13)],
        ];
        assert!(states.contains(&&first[..]), "{first:?} was never there");
        writer.join().unwrap();
        assert_eq!(scan(), first);
        drop(snapshot);
        other.join().unwrap();
        map.pin().check().unwrap();
    });
}

/// Two snapshots go while a writer replaces, removes and inserts: whoever of them is last frees the old versions, each once.
#[test]
fn old_versions_go_once_with_the_last_snapshot_that_sees_them() {
    explore(NAME, || {
        let census = testkit::dummy::Census::new();
        let map = Arc::new(map::Whole::<testkit::dummy::Counted>::with_options(
            fanread::Options::new().seed(3),
        ));
        (0..3).for_each(|n| _ = map.pin().insert(key(n), census.value(n)));
        let first = map.snapshot();
        map.pin().insert(key(0), census.value(10));
        let holder = {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                let snapshot = map.snapshot();
                assert_eq!(snapshot.pin().get(&key(2)[..]).map(|value| value.content), Some(2));
            })
        };
        let writer = {
            let (map, census) = (Arc::clone(&map), census.clone());
            thread::spawn(move || {
                map.pin().insert(key(0), census.value(20));
                map.pin().remove(&key(1)[..]);
                map.pin().remove(&key(0)[..]);
                map.pin().insert(key(1), census.value(11));
            })
        };
        assert_eq!(first.pin().get(&key(0)[..]).map(|value| value.content), Some(0));
        drop(first);
        writer.join().unwrap();
        holder.join().unwrap();
        map.pin().check().unwrap();
        assert_eq!(map.len(), 2);
        drop(map);
        census.verify(0).unwrap();
    });
}

/// Two threads remove and insert neighbours of several levels: a search that takes a node out of a level meets links that
/// are being set and marked beside it.
#[test]
fn neighbours_of_several_levels_come_and_go() {
    explore(NAME, || {
        let census = testkit::dummy::Census::new();
        let map = Arc::new(map::Whole::<testkit::dummy::Counted>::with_options(
            fanread::Options::new().seed(5),
        ));
        (0..6).for_each(|n| _ = map.pin().insert(key(n), census.value(n)));
        let threads: Vec<_> = [[2, 3, 4], [3, 4, 2]]
            .into_iter()
            .map(|keys| {
                let (map, census) = (Arc::clone(&map), census.clone());
                thread::spawn(move || {
                    keys.into_iter().for_each(|n| _ = map.pin().remove(&key(n)[..]));
                    keys.into_iter().for_each(|n| _ = map.pin().insert(key(n), census.value(9)));
                })
            })
            .collect();
        let seen: Vec<u64> = map.pin().iter().map(|(key, _)| u64::from(key[7])).collect();
        assert!(seen.is_sorted_by(|a, b| a < b));
        assert!([0, 1, 5].iter().all(|stays| seen.contains(stays)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        map.pin().check().unwrap();
        assert_eq!(map.len(), 6);
        drop(map);
        census.verify(0).unwrap();
    });
}

/// The last key of the levels it is on goes while another thread looks where to insert it: a search that met it on an upper
/// level, and no more on the one below, does not take it for a greater key on the lowest one.
#[test]
fn the_last_key_of_several_levels_goes_while_it_comes() {
    explore(NAME, || {
        // By this seed the last key has several levels.
        let map = Arc::new(map::Whole::<u64>::with_options(fanread::Options::new().seed(22)));
        (0..4).for_each(|n| _ = map.pin().insert(key(n), n));
        let inserter = {
            let map = Arc::clone(&map);
            thread::spawn(move || _ = map.pin().insert(key(3), 4))
        };
        map.pin().remove(&key(3)[..]);
        inserter.join().unwrap();
        map.pin().check().unwrap();
    });
}
