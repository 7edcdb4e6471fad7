//! Threads on maps in memory, where the scheduler decides at every access of a shared word who goes on.

use std::sync::Arc;

use shuttle::{Config, MaxSteps, Runner, scheduler};

use super::strings::{body, body_number, text};
use super::*;
use crate::persist::cceh::strings::Strings;

/// Runs a scene of a map under both schedulers.
pub(super) fn schedules(of: &str, scene: impl Fn() + Send + Sync + Clone + 'static) {
    let count = effort::amount("FANREAD_SCHEDULES", 2000);
    let config = || {
        let mut config = Config::new();
        // Maps have their arrays of chunks in them, and these are moved.
        config.stack_size = 1 << 18;
        // No scene takes as many, though some open states of crashes; who waits for ever does, and fails.
        config.max_steps = MaxSteps::FailAfter(1_000_000);
        config
    };
    Runner::new(scheduler::RandomScheduler::new(count), config()).run(scene.clone());
    Runner::new(scheduler::PctScheduler::new(4, count), config()).run(scene);
    effort::done("schedules", of, 2 * count as u64);
}

/// A map of small segments, one of which is about to split, or, together with its neighbour, to merge.
fn start(policy: SplitPolicy, count: u64) -> (Arc<Map<Mapped>>, Vec<u64>) {
    let map = Map::create(Mapped::memory(false).unwrap(), tiny(policy, 1)).unwrap();
    // All in one bucket of the segments whose hashes begin with 1: four of them fill it.
    let keys: Vec<_> = (0..6).map(|n: u64| map.spelling.key(n << 60 | 1 << 63)).collect();
    keys[..count as usize].iter().for_each(|key| assert!(map.insert(*key, 1).unwrap().is_none()));
    (Arc::new(map), keys)
}

fn splits(policy: SplitPolicy) {
    schedules("cceh", move || {
        let (map, keys) = start(policy, 4);
        let writer = |at: usize| {
            let (map, key) = (map.clone(), keys[at]);
            shuttle::thread::spawn(move || assert_eq!(map.insert(key, 2).unwrap(), None))
        };
        let reader = {
            let (map, keys) = (map.clone(), keys.clone());
            shuttle::thread::spawn(move || {
                assert!(keys[..4].iter().all(|key| map.get(*key) == Some(1)));
                let first = map.get(keys[4]);
                assert!(map.get(keys[4]) >= first, "what was seen stays");
            })
        };
        let writers = [writer(4), writer(5)];
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        reader.join().unwrap();
        map.check().unwrap();
        assert_eq!(contents(&map).len(), 6);
    });
}

#[test]
fn shuttle_a_key_whose_segment_was_split_meanwhile_is_put_where_it_belongs() {
    schedules("cceh", || {
        let (map, _) = start(SplitPolicy::InPlace, 0);
        // Half of those that fill the bucket are in the new segment, so the old one has room again.
        let keys = [0, 1, 4, 5, 6, 2].map(|n: u64| map.spelling.key(n << 60 | 1 << 63));
        keys[..4].iter().for_each(|key| assert!(map.insert(*key, 1).unwrap().is_none()));
        let writers = [keys[4], keys[5]].map(|key| {
            let map = map.clone();
            shuttle::thread::spawn(move || assert_eq!(map.insert(key, 2).unwrap(), None))
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        map.check().unwrap();
        assert_eq!(contents(&map).len(), 6);
    });
}

#[test]
fn shuttle_a_slot_used_again_gives_no_foreign_value() {
    schedules("cceh", || {
        let (map, keys) = start(SplitPolicy::InPlace, 3);
        let writer = {
            let (map, keys) = (map.clone(), keys.clone());
            shuttle::thread::spawn(move || {
                assert_eq!(map.remove(keys[0]), Some(1));
                assert_eq!(map.insert(keys[4], 2).unwrap(), None);
                assert_eq!(map.remove(keys[4]), Some(2));
                assert_eq!(map.insert(keys[0], 3).unwrap(), None);
            })
        };
        assert!([None, Some(1), Some(3)].contains(&map.get(keys[0])));
        assert!([None, Some(2)].contains(&map.get(keys[4])));
        writer.join().unwrap();
        map.check().unwrap();
    });
}

#[test]
fn shuttle_readers_and_writers_beside_a_split_in_place() {
    splits(SplitPolicy::InPlace);
}

#[test]
fn shuttle_readers_and_writers_beside_a_split_by_copies() {
    splits(SplitPolicy::CopyOnWrite);
}

#[test]
fn shuttle_readers_and_writers_beside_a_merge() {
    schedules("cceh", || {
        let (map, keys) = start(SplitPolicy::InPlace, 6);
        keys[1..4].iter().for_each(|key| assert_eq!(map.remove(*key), Some(1)));
        let remover = {
            let (map, key) = (map.clone(), keys[4]);
            shuttle::thread::spawn(move || assert_eq!(map.remove(key), Some(1)))
        };
        let writer = {
            let (map, key) = (map.clone(), keys[1]);
            shuttle::thread::spawn(move || assert_eq!(map.insert(key, 3).unwrap(), None))
        };
        let reader = {
            let (map, keys) = (map.clone(), keys.clone());
            shuttle::thread::spawn(move || {
                for _ in 0..2 {
                    assert_eq!((map.get(keys[0]), map.get(keys[5])), (Some(1), Some(1)));
                }
            })
        };
        [remover, writer, reader].into_iter().for_each(|thread| thread.join().unwrap());
        map.check().unwrap();
        assert_eq!(contents(&map).len(), 3);
    });
}

/// A thread that joins two segments has looked at both and is about to lock one, when another thread splits this one and then its
/// neighbour, for whose halves it takes the block that has just become free.
#[test]
fn shuttle_a_merge_and_a_split_do_not_wait_for_each_other() {
    for halves in [[0, 1], [1, 0]] {
        schedules("cceh", move || {
            let options = tiny(SplitPolicy::CopyOnWrite, 1);
            let options =
                CcehOptions { geometry: Geometry { bits: 3, ..options.geometry }, ..options };
            let map = Map::create(Mapped::memory(false).unwrap(), options).unwrap();
            // Of the halves of those that begin with 1: the first bucket of the left one and the second of the right one become full.
            let key = |half: u64, n: u64, bucket: u64| {
                map.spelling.key(1 << 63 | half << 62 | n << 59 | bucket)
            };
            let of_half = |half: u64| (0..4).map(move |n| (half, n, half));
            let insert = |(half, n, bucket)| {
                assert_eq!(map.insert(key(half, n, bucket), 1).unwrap(), None);
            };
            of_half(0).chain(of_half(1)).for_each(insert);
            // One more that splits them, and one that keeps the halves from being joined until it goes.
            insert((1, 4, 0));
            insert((0, 4, 2));
            assert_eq!(map.remove(key(1, 4, 0)), Some(1));
            assert_eq!(map.structure.lock().segments[..4], [0, 1, 2, 0]);
            let last = key(0, 4, 2);
            let more = halves.map(|half| key(half, 5, half));
            let map = Arc::new(map);
            let remover = {
                let map = map.clone();
                shuttle::thread::spawn(move || assert_eq!(map.remove(last), Some(1)))
            };
            more.into_iter().for_each(|key| assert_eq!(map.insert(key, 2).unwrap(), None));
            remover.join().unwrap();
            map.check().unwrap();
            assert_eq!(contents(&map).len(), 10);
        });
    }
}

/// Keys of a bucket whose second place is in another stripe: an insertion that finds room at home takes one lock, one that does not
/// takes both, and a key that is away is not put in again where there is room by now.
#[test]
fn shuttle_a_key_that_is_away_is_not_put_into_its_own_bucket_too() {
    schedules("cceh", || {
        let map = Map::create(Mapped::memory(false).unwrap(), tiny(SplitPolicy::InPlace, 2));
        let map = Arc::new(map.unwrap());
        // The last one of a stripe.
        let keys = (0..6).map(|n: u64| map.spelling.key(n << 60 | 1 << 63 | 1));
        let keys: Arc<[u64]> = keys.collect();
        keys[..4].iter().for_each(|key| assert!(map.insert(*key, 1).unwrap().is_none()));
        let start = |run: fn(&Map<Mapped>, &[u64])| {
            let (map, keys) = (map.clone(), keys.clone());
            shuttle::thread::spawn(move || run(&map, &keys))
        };
        let threads = [
            start(|map, keys| {
                assert!([None, Some(3)].contains(&map.insert(keys[4], 2).unwrap()));
            }),
            start(|map, keys| {
                assert_eq!(map.remove(keys[0]), Some(1));
                assert!([None, Some(2)].contains(&map.insert(keys[4], 3).unwrap()));
                assert_eq!(map.insert(keys[5], 4).unwrap(), None);
            }),
            start(|map, keys| {
                let first = map.get(keys[4]);
                assert!(first.is_none() || map.get(keys[4]).is_some(), "what was seen stays");
                assert_eq!(map.get(keys[1]), Some(1));
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        map.check().unwrap();
        assert_eq!(contents(&map).len(), 5);
        assert!([Some(2), Some(3)].contains(&map.get(keys[4])));
    });
}

/// A map of strings with a full bucket, and six keys of this bucket, of which the first four are there.
fn strings(policy: SplitPolicy) -> (Arc<Strings<Mapped>>, Vec<u64>) {
    let options = tiny(policy, 1);
    let map = Strings::create(Mapped::memory(false).unwrap(), options).unwrap();
    let is_crowded = |n: &u64| {
        let hash = map.map.spelling.hash_bytes(&text(*n));
        hash >> 63 == 1 && options.geometry.bucket(hash) == 0
    };
    let keys: Vec<_> = (1..).filter(is_crowded).take(6).collect();
    keys[..4].iter().for_each(|n| assert!(map.insert(&text(*n), &body(*n)).unwrap().is_none()));
    (Arc::new(map), keys)
}

/// A record that is replaced or removed gives its place to the next one, while a reader may still look at it. The
/// fifth key of the bucket splits its segment, and when two are gone it merges again.
fn records_come_and_go(policy: SplitPolicy) {
    schedules("store", move || {
        let (map, keys) = strings(policy);
        let writers = [(12, 13), (14, 15)].into_iter().enumerate().map(|(at, (first, second))| {
            let (map, old, new) = (map.clone(), keys[at], keys[4 + at]);
            shuttle::thread::spawn(move || {
                assert_eq!(map.insert(&text(old), &body(first)).unwrap(), Some(body(old)));
                assert_eq!(map.insert(&text(new), &body(second)).unwrap(), None);
                assert_eq!(map.remove(&text(old)), Some(body(first)));
            })
        });
        let writers: Vec<_> = writers.collect();
        let found = |at: usize| map.get(&text(keys[at])).map(|value| body_number(&value));
        assert!([Some(keys[0]), Some(12), None].contains(&found(0)));
        assert_eq!(found(2), Some(keys[2]));
        assert!([None, Some(15)].contains(&found(5)));
        writers.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((found(0), found(1)), (None, None));
        assert_eq!((found(2), found(3)), (Some(keys[2]), Some(keys[3])));
        assert_eq!((found(4), found(5)), (Some(13), Some(15)));
        map.check().unwrap();
    });
}

#[test]
fn shuttle_records_come_and_go_beside_a_split_in_place() {
    records_come_and_go(SplitPolicy::InPlace);
}

#[test]
fn shuttle_records_come_and_go_beside_a_split_by_copies() {
    records_come_and_go(SplitPolicy::CopyOnWrite);
}
