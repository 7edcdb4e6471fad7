//! Shapes of keys against `BTreeMap`, hashes that were chosen to collide, and memory that runs out at any moment.

use self::map::{Map, Pinned, Whole, library};

/// The map behind keys of eight bytes.
#[allow(dead_code, reason = "the tests here use a part")]
#[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
mod map {
    use crate::api::{InsertError, LoadError, MemoryUsage, Options, Ref};
    pub(super) use crate::index::u64_map::{self as library, U64Map as Whole};

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/numbers.rs"));
}

/// Whether keys are numbers.
const NUMBERS: bool = true;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

#[path = "../shapes.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map on numbers")]
mod shapes;

mod collisions {
    //! Keys whose hashes were chosen by who knows the map's seed.

    use crate::api::Options;
    use crate::hash::permute::Scrambler;
    use crate::index::u64_map::U64Map;

    /// Keys whose hashes agree but for their last bits.
    fn keys(seed: u64, bits: u32, count: u64) -> impl Iterator<Item = u64> {
        let spelling = Scrambler::new(seed);
        (0..count).map(move |i| spelling.number(0x5a5a_5a5a_5a5a_5a5a >> bits << bits | i))
    }

    #[test]
    fn keys_with_one_home_stay_in_bounded_memory() {
        for bits in [12, 20] {
            let map = U64Map::<u64>::with_options(Options::new().seed(9));
            for (i, key) in (0..).zip(keys(9, bits, 4000)) {
                assert!(map.pin().insert(key, i).is_none());
            }
            map.pin().check().unwrap();
            for (i, key) in (0..).zip(keys(9, bits, 4000)) {
                assert_eq!(map.pin().get(key).as_deref(), Some(&i));
            }
            // Blocks are taken from the system some at a time.
            let usage = map.memory_usage();
            assert!(usage.table_bytes + usage.leaf_bytes < 4 << 20, "{usage:?}");
            for key in keys(9, bits, 4000) {
                assert!(map.pin().remove(key).is_some());
            }
            map.pin().check().unwrap();
        }
    }

    #[test]
    fn keys_that_come_and_go_leave_no_trace() {
        let map = U64Map::<u64>::new();
        testkit::stress::stops_growing(|round| {
            for key in 0..2000 {
                map.pin().insert(key * 7919 + round * 1_000_003, key);
            }
            if round % 16 == 0 {
                map.pin().check().unwrap();
            }
            for key in 0..2000 {
                assert!(map.pin().remove(key * 7919 + round * 1_000_003).is_some());
            }
            map.memory_usage().total_bytes()
        });
        map.pin().check().unwrap();
        assert!(map.is_empty());
    }
}

mod room {
    //! Tables that are made in advance.

    use crate::api::Options;
    use crate::index::u64_map::U64Map;
    use crate::sync::epoch;

    #[test]
    fn a_map_with_room_copies_no_segment() {
        let most = if cfg!(miri) { 1_000 } else { 300_000 };
        for entries in [0, 10, 1_000, most] {
            let map = U64Map::with_options(Options::new().seed(3).capacity(entries as usize));
            map.pin().insert(0, 0);
            let bytes = map.table.bytes(&epoch::pin());
            for key in 1..entries {
                map.pin().insert(key, key);
            }
            // Tiny segments are full by chance now and then.
            if !cfg!(any(small_leaves, miri)) {
                assert_eq!(map.table.bytes(&epoch::pin()), bytes, "{entries}");
            }
            map.pin().check().unwrap();
            // It goes on to grow, and shrinks.
            for key in entries..entries + entries / 2 {
                map.pin().insert(key, key);
            }
            let (_, grown) = map.table.bytes(&epoch::pin());
            assert!(entries < 1_000 || grown > bytes.1, "{entries}");
            for key in 0..entries + entries / 2 {
                map.pin().remove(key);
            }
            let (_, left) = map.table.bytes(&epoch::pin());
            assert!(entries < 1_000 || left < bytes.1 / 2, "{left} of {bytes:?}");
            map.pin().check().unwrap();
        }
    }

    #[test]
    fn threads_that_make_the_first_segments_make_them_once() {
        for round in 0..if cfg!(miri) { 2 } else { 200 } {
            let map = U64Map::with_options(Options::new().capacity(1_000 << (round % 8)));
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let map = &map;
                    scope.spawn(move || {
                        for n in 0..50 {
                            assert!(map.pin().insert(4 * n + thread, n).is_none());
                        }
                    });
                }
            });
            map.pin().check().unwrap();
            assert_eq!(map.len(), 200);
        }
    }
}

mod order {
    //! Walks and bounds where runs have fresh keys, and keys that are gone.

    use std::collections::BTreeMap;
    use std::ops::Bound::{self, Excluded, Included, Unbounded};

    use testkit::Rng;

    use crate::index::u64_map::U64Map;
    use crate::index::u64_map::run::MOST_WORDS;

    fn key(rng: &mut Rng, shape: usize) -> u64 {
        match shape {
            0 => rng.next_u64(),
            1 => rng.next_u64() % 3000,
            2 => u64::MAX - rng.next_u64() % 3000,
            _ => (1 << (rng.next_u64() % 64)) | (rng.next_u64() % 300),
        }
    }

    fn bound(rng: &mut Rng, shape: usize) -> Bound<u64> {
        let key = key(rng, shape);
        [Included(key), Included(key), Excluded(key), Unbounded][rng.next_u64() as usize % 4]
    }

    #[test]
    fn bounds_and_walks_from_both_ends_are_those_of_a_btree_map() {
        for shape in 0..4 {
            let mut rng = Rng::new(shape as u64);
            let (map, mut model) = (U64Map::new(), BTreeMap::new());
            for step in 0..20_000_u64 {
                let pinned = map.pin();
                match rng.next_u64() % 8 {
                    0..3 => {
                        let key = key(&mut rng, shape);
                        pinned.insert(key, step);
                        model.insert(key, step);
                    }
                    3 => {
                        let from = key(&mut rng, shape);
                        let found = model.range(from..).next().map(|(key, _)| *key);
                        for key in found.into_iter().chain([from]) {
                            assert_eq!(pinned.remove(key).as_deref().copied(), model.remove(&key));
                        }
                    }
                    4..6 => {
                        let bound = bound(&mut rng, shape);
                        let first = model.range((bound, Unbounded)).next();
                        let found = pinned.lower_bound(bound);
                        assert_eq!(found.as_ref().map(|(key, value)| (key, &**value)), first);
                        let last = model.range((Unbounded, bound)).next_back();
                        let found = pinned.upper_bound(bound);
                        assert_eq!(found.as_ref().map(|(key, value)| (key, &**value)), last);
                    }
                    _ => {
                        let (low, high) = (key(&mut rng, shape), key(&mut rng, shape));
                        let (low, high) = (low.min(high), low.max(high));
                        let mut range = pinned.range(low..=high);
                        let mut expected = model.range(low..=high);
                        for _ in 0..rng.next_u64() % 100 {
                            let (found, next) = if rng.next_u64().is_multiple_of(2 + low % 3) {
                                (range.next_back(), expected.next_back())
                            } else {
                                (range.next(), expected.next())
                            };
                            assert_eq!(found.as_ref().map(|(key, value)| (key, &**value)), next);
                        }
                    }
                }
            }
            map.pin().check().unwrap();
        }
    }

    #[test]
    fn a_bound_finds_the_end_of_a_queue() {
        let map = U64Map::new();
        let pinned = map.pin();
        for key in 0..3000_u64 {
            pinned.insert(key * 7, key);
        }
        for key in 0..3000_u64 {
            assert_eq!(pinned.first_key_value().map(|(key, _)| key), Some(key * 7));
            assert_eq!(pinned.upper_bound(Excluded(key * 7)).map(|(key, _)| key), None);
            pinned.remove(key * 7);
        }
        assert!(pinned.first_key_value().is_none() && pinned.last_key_value().is_none());
    }

    /// How many runs there are, and keys in them.
    fn size(map: &U64Map<u64>) -> (usize, usize) {
        let guard = crate::sync::epoch::pin();
        map.order.runs(&guard).fold((0, 0), |(runs, keys), run| (runs + 1, keys + run.len()))
    }

    /// Runs of so many keys, none of which is left behind without keys.
    fn most_runs(keys: usize) -> usize {
        16 + 8 * keys / MOST_WORDS
    }

    #[test]
    fn a_queue_leaves_no_run_behind() {
        for down in [false, true] {
            let map = U64Map::new();
            let pinned = map.pin();
            let key = |n: u64| if down { u64::MAX - n } else { n };
            for n in 0..20_000 {
                pinned.insert(key(n), n);
                if n >= 500 {
                    pinned.remove(key(n - 500));
                }
            }
            let (runs, keys) = size(&map);
            assert!(runs <= most_runs(500) && keys <= 1_500, "{runs} runs, {keys} keys");
        }
        let map = U64Map::from_sorted((0..20_000).map(|n| (n, n))).unwrap();
        map.pin().clear();
        let (runs, keys) = size(&map);
        assert!(runs <= most_runs(0) && keys <= 200, "{runs} runs, {keys} keys");
    }

    #[test]
    fn queues_of_many_threads_leave_no_run_behind() {
        let map = U64Map::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let map = &map;
                scope.spawn(move || {
                    for n in 0..20_000_u64 {
                        map.pin().insert(4 * n + thread, n);
                        if n >= 100 {
                            assert!(map.pin().remove(4 * (n - 100) + thread).is_some());
                        }
                    }
                });
            }
        });
        let (runs, keys) = size(&map);
        assert!(runs <= most_runs(1_000) && keys <= 3_000, "{runs} runs, {keys} keys");
    }

    #[test]
    fn keys_that_are_gone_do_not_pile_up_beside_walks() {
        let (map, mut rng) = (U64Map::new(), Rng::new(9));
        let pinned = map.pin();
        (0..1_000).for_each(|n| assert!(pinned.insert(n << 32, n).is_none()));
        for _ in 0..100 {
            for _ in 0..100 {
                let key = (rng.next_u64() % (1_000 << 32)) | 1;
                pinned.insert(key, 0);
                pinned.remove(key);
            }
            assert_eq!(pinned.iter().count(), 1_000);
        }
        let (_, keys) = size(&map);
        assert!(keys <= 2_500, "{keys} keys");
    }
}

mod walks {
    //! Walks of many lengths, one after another, over runs with fresh keys.

    use std::collections::BTreeMap;
    use std::ops::Bound::{Excluded, Unbounded};

    use testkit::Rng;

    use crate::index::u64_map::U64Map;

    #[test]
    fn walks_of_any_length_show_the_next_entries() {
        let count = if cfg!(miri) { 40 } else { 3000 };
        let (map, mut model, mut rng) = (U64Map::new(), BTreeMap::new(), Rng::new(5));
        let pinned = map.pin();
        for round in 0..20 {
            for _ in 0..count / 20 {
                let key = rng.next_u64() >> 32;
                pinned.insert(key, round);
                model.insert(key, round);
            }
            // Keys that come back are in a run twice.
            let keys: Vec<_> = model.keys().copied().step_by(7).collect();
            for key in keys {
                assert!(pinned.remove(key).is_some());
                pinned.insert(key, key);
                model.insert(key, key);
            }
            for len in [1, 100, 99, 8, 9, 500, 1, 20, 20, 20, 20, 20, 21, 1000, 3] {
                let from = rng.next_u64() >> 32;
                let ahead = pinned.range(from..).take(len).map(|(key, value)| (key, *value));
                let right = model.range(from..).take(len).map(|(key, value)| (*key, *value));
                assert!(ahead.eq(right), "{len} from {from}");
                let back = pinned.range(..from).rev().take(len).map(|(key, value)| (key, *value));
                let right = model.range((Unbounded, Excluded(from))).rev().take(len);
                assert!(back.eq(right.map(|(key, value)| (*key, *value))), "{len} below {from}");
            }
        }
    }
}

#[test]
fn an_emptied_map_says_that_its_memory_is_idle() {
    let map = super::U64Map::new();
    let keys: u64 = if cfg!(miri) { 2_000 } else { 200_000 };
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for n in 0..keys {
        map.pin().insert(key(n), n);
    }
    let taken = || {
        let usage = map.pin().memory_usage();
        (usage.total_bytes() - usage.idle_bytes, usage.total_bytes())
    };
    let (full, _) = taken();
    for n in 0..keys {
        map.pin().remove(key(n));
    }
    // While other tests hold a pin, more may wait.
    for n in 0..200_000 {
        if taken().0 < full / 4 {
            return;
        }
        map.pin().insert(key(0), n);
        map.pin().remove(key(0));
    }
    panic!("{:?} bytes, {full} before", taken());
}

#[test]
fn runs_that_walks_replace_do_not_pile_up() {
    let map = super::U64Map::new();
    let mut pinned = map.pin();
    let waiting = || map.shards.lock_each().map(|shard| shard.limbo.len()).sum::<usize>();
    let (least, most) = if cfg!(miri) { (500, 20_000) } else { (100_000, 2_000_000) };
    for n in 0..most {
        pinned.insert(n, n);
        assert_eq!(pinned.range(..=n).rev().take(10).count(), 10.min(n as usize + 1));
        pinned.repin();
        // While other tests hold a pin, more may wait.
        if n > least && waiting() < 100 {
            return;
        }
    }
    panic!("{} items wait", waiting());
}

#[test]
fn bounds_that_pass_over_keys_that_are_gone_make_their_run_anew() {
    use core::ops::Bound::{Excluded, Included};

    let map = super::U64Map::new();
    let pinned = map.pin();
    (0..10_000_u64).for_each(|key| assert!(pinned.insert(key, key).is_none()));
    let is_named = |key: u64| {
        map.order.run(key, &pinned.guard).is_some_and(|run| run.collect().contains(&key))
    };
    // So few of a run that removals leave them there.
    let few = super::run::MOST_WORDS.div_ceil(10) as u64;
    for band in [0..few, 5_000..5_000 + few] {
        band.clone().for_each(|key| assert!(pinned.remove(key).is_some()));
        assert!(band.clone().any(is_named));
        for _ in 0..300 {
            let next = pinned.lower_bound(Included(band.start)).map(|(key, _)| key);
            assert_eq!(next, Some(band.end));
            let last = pinned.upper_bound(Excluded(band.end)).map(|(key, _)| key);
            assert_eq!(last, band.start.checked_sub(1));
        }
        assert!(!is_named(band.start));
        pinned.check().unwrap();
    }
}

mod copies {
    //! Segments that are copied: what their writers do meanwhile, and by which figures it is decided.

    use testkit::Rng;

    use crate::index::u64_map::U64Map;
    use crate::sync::backoff::Backoff;

    #[test]
    fn who_waits_for_a_copy_copies_what_is_full_soon() {
        let (map, mut rng, mut keys) = (U64Map::new(), Rng::new(1), Vec::new());
        let pinned = map.pin();
        let (busy, soon) = loop {
            keys.push(rng.next_u64());
            pinned.insert(keys[keys.len() - 1], 1);
            let all: Vec<_> = map.table.names(&pinned.guard).unwrap().all(&pinned.guard).collect();
            if let Some(at) = all.iter().position(|segment| segment.is_full_soon())
                && all.len() > 1
            {
                break (all[(at + all.len() - 1) % all.len()], all[at]);
            }
        };
        assert!(busy.freeze());
        let (mut backoff, mut garbage) = (Backoff::new(), Vec::new());
        map.wait_for(&pinned.guard, (busy, &mut backoff), &mut garbage);
        assert!(soon.is_frozen(), "replaced");
        let left =
            |map: &U64Map<u64>| map.table.names(&pinned.guard).unwrap().all(&pinned.guard).count();
        let count = left(&map);
        map.wait_for(&pinned.guard, (busy, &mut backoff), &mut garbage);
        assert_eq!(left(&map), count, "once a call");
        busy.thaw();
        map.retire(&pinned, garbage);
        pinned.check().unwrap();
        assert!(keys.iter().all(|key| pinned.contains_key(*key)));
    }

    #[test]
    fn threads_that_copy_segments_lose_nothing() {
        let map = U64Map::new();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let map = &map;
                scope.spawn(move || {
                    let (pinned, mut rng) = (map.pin(), Rng::new(thread));
                    for n in 0..if cfg!(miri) { 100 } else { 50_000 } {
                        pinned.insert(rng.next_u64(), n);
                    }
                });
            }
        });
        let pinned = map.pin();
        pinned.check().unwrap();
        for thread in 0..4 {
            let mut rng = Rng::new(thread);
            for n in 0..if cfg!(miri) { 100 } else { 50_000 } {
                assert_eq!(pinned.get(rng.next_u64()).as_deref(), Some(&n));
            }
        }
    }

    #[test]
    fn large_segments_know_how_many_entries_they_have_about() {
        let (map, mut rng) = (U64Map::new(), Rng::new(2));
        let pinned = map.pin();
        let mut large = 0;
        for n in 0..if cfg!(miri) { 500 } else { 200_000 } {
            pinned.insert(rng.next_u64(), n);
            if n % 3 == 0 {
                let key = Rng::new(n).next_u64();
                pinned.insert(key, n);
                pinned.remove(key);
            }
        }
        for segment in map.table.names(&pinned.guard).unwrap().all(&pinned.guard) {
            let (entries, counted) = (segment.entries().count(), segment.counts().entries);
            let may_be_off = if segment.buckets() < 4096 { 0 } else { entries / 10 };
            large += usize::from(may_be_off > 0);
            if !cfg!(any(small_leaves, miri)) {
                assert!(entries.abs_diff(counted) <= may_be_off, "{counted} of {entries}");
            }
            assert!(segment.counts_right());
        }
        // With smaller blocks segments of so many entries are smaller.
        assert!(large > 0 || cfg!(any(small_leaves, miri, feature = "global-alloc")));
    }
}

/// Two threads remove everything, every other key each. Of a key whose buckets one of them had locked the other one cannot tell whether it is
/// gone, so it looks at the run again.
#[test]
fn nothing_is_left_in_the_order_of_a_map_that_was_emptied() {
    for round in 0..if cfg!(miri) { 1 } else { 100 } {
        let map = super::U64Map::<u64>::with_options(crate::api::Options::new().seed(round));
        let mut keys: Vec<u64> =
            (0..2_000).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for key in &keys {
            map.pin().insert(*key, 0);
        }
        keys.sort_unstable();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (map, keys) = (&map, &keys);
                scope.spawn(move || {
                    keys.iter().skip(thread).step_by(2).for_each(|key| _ = map.pin().remove(*key));
                });
            }
        });
        let guard = crate::sync::epoch::pin();
        assert_eq!(
            map.order.runs(&guard).map(super::run::Run::len).sum::<usize>(),
            0,
            "round {round}"
        );
        assert!(map.is_empty());
        map.pin().check().unwrap();
    }
}
