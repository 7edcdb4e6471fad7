// Included for each map by `maps/mod.rs`; `../memory.rs` says what is tested.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use self::common::{Spelling, Value};
use crate::alone;
#[cfg(not(small_leaves))]
use testkit::Rng;

#[test]
fn a_sleeping_reader_stops_no_split_and_its_memory_comes_back() {
    let _alone = alone();
    let map = Map::<Box<u64>>::new();
    let key = |n: u64| (n << 16).to_be_bytes();
    let churn = |rounds| {
        for round in 0..rounds {
            for n in 1..3_000 {
                map.pin().insert(&key(n), Box::new(round));
            }
            for n in 1..3_000 {
                assert!(map.pin().remove(&key(n)).is_some());
            }
        }
        map.memory_usage().total_bytes()
    };
    map.pin().insert(&key(0), Box::new(7));
    let (asleep, wait_asleep) = mpsc::channel();
    let (wake, wait_wake) = mpsc::channel::<()>();
    let retained = thread::scope(|scope| {
        let map = &map;
        let reader = scope.spawn(move || {
            let pinned = map.pin();
            let found = pinned.get(&key(0)).unwrap();
            let mut all = pinned.iter();
            assert!(all.next().is_some());
            asleep.send(()).unwrap();
            wait_wake.recv().unwrap();
            // What it holds is as it was, although the key has been removed and its leaf replaced.
            assert_eq!(**found, 7);
            assert_eq!(all.count(), 0);
        });
        wait_asleep.recv().unwrap();
        assert!(map.pin().remove(&key(0)).is_some());
        // Nobody waits for the reader: all of this happens while it sleeps.
        let retained = churn(20);
        wake.send(()).unwrap();
        reader.join().unwrap();
        retained
    });
    // The memory is not lost: much more churn is served from what had to be kept, but for a few pieces of other sizes. If it were,
    // there would be four times as much.
    assert!(churn(60) <= retained + retained / 16, "memory grew after the reader was gone");
    assert!(map.memory_usage().idle_bytes > 0);
    map.pin().check().unwrap();
}

/// Counts how many of its kind were dropped.
struct Told(Arc<AtomicUsize>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn what_a_thread_that_is_gone_has_left_is_dropped_while_others_go_on() {
    let _alone = alone();
    let map = Map::<Told>::new();
    let key = |n: u64| (n << 40).to_be_bytes();
    let (left, others) = (Arc::default(), Arc::default());
    let insert = |n, dropped| {
        map.pin().insert(&key(n), Told(Arc::clone(dropped)));
    };
    // Enough for shards for the threads.
    (0..50_000).for_each(|n| insert(n, &others));
    let reader = map.pin();
    // Nothing of that can be dropped as long as the thread lives.
    thread::scope(|scope| scope.spawn(|| (0..2_000).for_each(|_| insert(0, &left))).join())
        .unwrap();
    drop(reader);
    // All but the last value, which is in the map, and those that wait for more of them.
    let is_done = || left.load(Relaxed) >= 2_000 - 64;
    let done = (0..1_000_000).find(|_| {
        insert(1, &others);
        is_done()
    });
    assert!(done.is_some(), "only {} were dropped", left.load(Relaxed));
}

#[test]
fn ten_thousand_threads_may_come_and_go() {
    let _alone = alone();
    let map = Arc::new(Map::<Box<u64>>::new());
    let mut running = VecDeque::new();
    for n in 0..10_000_u64 {
        let map = Arc::clone(&map);
        running.push_back(thread::spawn(move || {
            let pinned = map.pin();
            pinned.insert(&n.to_be_bytes(), Box::new(n));
            assert_eq!(pinned.get(&n.to_be_bytes()).as_deref().map(|n| **n), Some(n));
            if n % 3 > 0 {
                assert!(pinned.remove(&n.to_be_bytes()).is_some());
            }
        }));
        if running.len() > 8 {
            running.pop_front().into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
    for thread in running {
        thread.join().unwrap();
    }
    let pinned = map.pin();
    pinned.check().unwrap();
    let all = pinned.iter().map(|(_, value)| **value);
    assert!(all.eq((0..10_000).step_by(3)));
    // Retired memory is used again although the threads that retired it are gone.
    assert!(map.memory_usage().total_bytes() < 4 << 20, "{:?}", map.memory_usage());
}

#[test]
fn an_empty_map_allocates_nothing() {
    let map = Map::<u64>::new();
    let pinned = map.pin();
    assert!(pinned.get(&[1; 8]).is_none() && pinned.remove(&[1; 8]).is_none());
    assert!(pinned.iter().next().is_none() && pinned.iter().next_back().is_none());
    assert_eq!(map.memory_usage().total_bytes(), 0);
}

#[test]
#[cfg(not(small_leaves))]
fn a_map_of_ten_short_entries_is_small() {
    let usage = || {
        let map = Map::<u64>::new();
        for n in 0..10_u64 {
            let (number, text) = (n.to_be_bytes(), format!("key {n}"));
            map.pin().insert(if NUMBERS { &number } else { text.as_bytes() }, n);
        }
        map.memory_usage()
    };
    // One map in hundreds has keys that need more room, by chance.
    let mut maps: Vec<_> = (0..9).map(|_| usage()).collect();
    maps.sort_by_key(fanread::MemoryUsage::total_bytes);
    let bytes = maps[4].total_bytes();
    println!("ten entries take {bytes} bytes");
    assert!(bytes <= 1_024, "{:?}", maps[4]);
}

#[test]
fn a_map_itself_is_small() {
    let bytes = size_of::<Whole<u64>>();
    println!("the map itself takes {bytes} bytes");
    assert!(bytes <= 1_280);
}

#[test]
#[cfg(not(small_leaves))]
fn a_map_of_any_size_takes_few_bytes_for_each_entry() {
    let _alone = alone();
    let map = Map::<u64>::new();
    let (mut rng, mut count) = (Rng::new(5), 0);
    // Beyond key and value.
    for (entries, most) in
        [(100, 224), (1_000, 160), (3_000, 128), (10_000, 112), (30_000, 112), (100_000, 64)]
    {
        while count < entries {
            map.pin().insert(&rng.next_u64().to_be_bytes(), count as u64);
            count += 1;
        }
        let bytes = map.memory_usage().total_bytes() / count - 16;
        println!("{bytes} bytes for each of {entries}");
        assert!(bytes <= most, "{bytes} bytes for each of {entries}: {:?}", map.memory_usage());
    }
}

#[test]
fn a_map_that_comes_and_goes_takes_no_more_memory_in_the_end() {
    fn run<V: Value>(spelling: Spelling) {
        let map = Map::<V>::new();
        let mut most = [0; 2];
        for round in 0..200 {
            for n in 0..2_000 {
                map.pin().insert(&spelling.key(n), V::of(n.into()));
            }
            for n in 0..2_000 {
                map.pin().remove(&spelling.key(n));
            }
            let half = &mut most[round / 100];
            *half = map.memory_usage().total_bytes().max(*half);
        }
        assert!(most[1] <= 2 * most[0], "{spelling:?}: {most:?}");
    }
    let _alone = alone();
    run::<u64>(Spelling::Integers);
    run::<Box<u64>>(Spelling::ALL[1]);
}

/// What a map takes as one thread writes some entries a round and another one does something after each: the most of the first
/// quarter of the rounds, and of all.
fn most_of_two_threads(
    write: impl Fn(&Map<Box<u64>>, u32),
    after: impl Fn(&Map<Box<u64>>, u32) + Sync,
) -> [usize; 2] {
    const ROUNDS: u32 = 32;
    let (map, meet) = (Map::new(), Barrier::new(2));
    let mut most = [0; 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                meet.wait();
                after(&map, round);
                meet.wait();
            }
        });
        for round in 0..ROUNDS {
            write(&map, round);
            meet.wait();
            meet.wait();
            let bytes = map.memory_usage().total_bytes();
            let first = if round < ROUNDS / 4 { &mut most[..] } else { &mut most[1..] };
            for most in first {
                *most = bytes.max(*most);
            }
        }
    });
    map.pin().check().unwrap();
    most
}

#[test]
fn what_one_thread_inserts_and_another_removes_takes_no_more_memory_in_the_end() {
    // So many that threads have shards of their own.
    const QUEUE: u32 = 30_000;
    let _alone = alone();
    for spelling in [Spelling::Integers, Spelling::ALL[1]] {
        let keys = |round: u32| (round * QUEUE..(round + 1) * QUEUE).map(|n| spelling.key(n));
        let insert = |map: &Map<Box<u64>>, round| {
            for key in keys(round) {
                assert!(map.pin().insert(&key, Box::new(0)).is_none());
            }
        };
        let remove = |map: &Map<Box<u64>>, round| {
            for key in keys(round) {
                assert!(map.pin().remove(&key).is_some());
            }
        };
        let most = most_of_two_threads(insert, remove);
        assert!(most[1] <= 2 * most[0], "{spelling:?}: {most:?}");
    }
}

#[test]
fn a_map_that_another_thread_walks_along_takes_no_more_memory_in_the_end() {
    const QUEUE: u32 = 60_000;
    const ROUND: u32 = QUEUE / 4;
    let _alone = alone();
    // Far from each other.
    let key = |n: u32| u64::from(n.wrapping_mul(0x9e37_79b1).reverse_bits()).to_be_bytes();
    let write = |map: &Map<Box<u64>>, round: u32| {
        for n in round * ROUND..(round + 1) * ROUND {
            assert!(map.pin().insert(&key(n), Box::new(0)).is_none());
            if let Some(n) = n.checked_sub(QUEUE) {
                assert!(map.pin().remove(&key(n)).is_some());
            }
        }
    };
    let walk = |map: &Map<Box<u64>>, _| assert_eq!(map.pin().iter().count(), map.len());
    let most = most_of_two_threads(write, walk);
    assert!(most[1] <= 2 * most[0], "{most:?}");
}
