// Included for each map on numbers by `maps/mod.rs`, behind `../faults.rs`.

use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;

/// Keys in an order in which neighbours of the list are seldom neighbours as numbers.
fn shuffled(numbers: impl IntoIterator<Item = u64>, seed: u64) -> Vec<Vec<u8>> {
    let numbers: BTreeSet<u64> = numbers.into_iter().collect();
    let mut keys: Vec<_> = numbers.into_iter().map(|n| n.to_be_bytes().to_vec()).collect();
    let mut rng = Rng::new(seed);
    (1..keys.len()).rev().for_each(|at| keys.swap(at, rng.below(at + 1)));
    keys
}

/// Inserts and removes numbers in ascending, descending and random order, with each kind of value.
fn come_and_go_in_every_order(numbers: impl IntoIterator<Item = u64>, seed: u64) {
    let keys = shuffled(numbers, seed);
    come_and_go::<u64>(&keys, seed);
    come_and_go::<[u64; 3]>(&keys, seed + 1);
    let mut keys = keys;
    keys.sort();
    come_and_go::<Box<u64>>(&keys, seed + 2);
    keys.reverse();
    come_and_go::<u64>(&keys, seed + 3);
}

#[test]
fn the_smallest_and_the_largest_number_are_keys_like_others() {
    let ends = [0, u64::MAX].map(u64::to_be_bytes);
    let [low, high] = ends.each_ref().map(|key| &key[..]);
    for middle in [None, Some(1), Some(u64::MAX - 1), Some(1 << 63)] {
        let map = Map::<u64>::new();
        let pinned = map.pin();
        let middle = middle.map(u64::to_be_bytes);
        if let Some(key) = &middle {
            assert!(pinned.insert(key, 5).is_none());
        }
        let between = usize::from(middle.is_some());
        assert!(pinned.get(low).is_none() && pinned.get(high).is_none());
        assert!(pinned.upper_bound(Included(low)).is_none());
        assert!(pinned.lower_bound(Included(high)).is_none());
        assert!(pinned.insert(low, 1).is_none() && pinned.insert(high, 2).is_none());
        assert_eq!(pinned.get(low).as_deref(), Some(&1));
        assert_eq!(pinned.get(high).as_deref(), Some(&2));
        let count = |from, to| {
            let forth = pinned.range((from, to)).count();
            assert_eq!(pinned.range((from, to)).rev().count(), forth);
            forth
        };
        // Nothing is above the largest number or below the smallest, not even by a step too far.
        assert_eq!(count(Excluded(high), Unbounded), 0);
        assert_eq!(count(Unbounded, Excluded(low)), 0);
        assert_eq!(count(Included(high), Unbounded), 1);
        assert_eq!(count(Unbounded, Included(low)), 1);
        assert_eq!(count(Excluded(low), Excluded(high)), between);
        assert_eq!(count(Included(low), Included(high)), between + 2);
        assert_eq!(count(Included(high), Included(low)), 0);
        assert!(pinned.lower_bound(Excluded(high)).is_none());
        assert!(pinned.upper_bound(Excluded(low)).is_none());
        pinned.check().unwrap();
        assert_eq!(
            pinned.pop_first().map(|(key, value)| (key.to_vec(), *value)),
            Some((low.to_vec(), 1))
        );
        assert_eq!(
            pinned.pop_last().map(|(key, value)| (key.to_vec(), *value)),
            Some((high.to_vec(), 2))
        );
        assert_eq!(pinned.len(), between);
        pinned.check().unwrap();
    }
}

#[test]
fn runs_across_multiples_of_powers_of_two_come_and_go() {
    for bits in [6, 8, 9, 12, 16, 24, 32, 48, 63] {
        let around = |multiple: u64| {
            let middle = multiple << bits;
            (0..300).map(move |n| middle.wrapping_add(n).wrapping_sub(150))
        };
        come_and_go_in_every_order((0..4).flat_map(around), bits);
    }
}

#[test]
fn nodes_of_every_number_of_children_grow_and_shrink_at_every_level() {
    for at in 0..8 {
        let stem = 0x8180_7f01_00ff_fe40_u64;
        let child = |n: u64| stem & !(0xff << (8 * at)) | n << (8 * at);
        // All children of one node, and of a few of them a key that differs further down or up.
        let beside = (0..256).step_by(5).map(|n| child(n) ^ 1 << (8 * ((at + 1) % 8)));
        come_and_go_in_every_order((0..256).map(child).chain(beside), at);
    }
}

#[test]
fn keys_that_differ_in_one_byte_come_and_go() {
    for seed in 0..4 {
        let keys = testkit::ops::pool(seed, Keys::U64OneByte, 2_000);
        come_and_go_in_every_order(keys.iter().map(|key| testkit::ops::as_u64(key)), seed);
        let keys = testkit::ops::pool(seed, Keys::U64Clusters, 2_000);
        come_and_go_in_every_order(keys.iter().map(|key| testkit::ops::as_u64(key)), seed);
    }
}

#[test]
fn a_node_that_grows_and_shrinks_by_turns_keeps_every_key() {
    // Around the numbers of children at which a node changes its form: each count is entered from both sides, many times.
    let map = Map::<u64>::new();
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(9);
    let key = |n: u64| (0x0102_0304_0500_0000 | n << 16).to_be_bytes().to_vec();
    for most in 1..=256 {
        for turn in 0..40_u64 {
            let n = rng.below(most) as u64;
            let pinned = map.pin();
            if model.len() < most && rng.one_in(2) || model.is_empty() {
                let old = pinned.insert(&key(n), turn).as_deref().copied();
                assert_eq!(old, model.insert(key(n), turn));
            } else {
                assert_eq!(pinned.remove(&key(n)).as_deref().copied(), model.remove(&key(n)));
            }
        }
        while model.len() < most {
            let n = (0..256).find(|n| !model.contains_key(&key(*n))).unwrap();
            map.pin().insert(&key(n), n);
            model.insert(key(n), n);
        }
        if most.is_power_of_two() || most % 16 == 0 {
            assert_same(&map, &model);
        }
    }
    while let Some((key, value)) = model.pop_first() {
        assert_eq!(map.pin().remove(&key).as_deref(), Some(&value));
        assert_eq!(map.len(), model.len());
    }
    assert_same(&map, &model);
}

#[test]
fn the_neighbour_of_an_absent_key_is_found_wherever_the_paths_part() {
    // Present keys part from the one that is asked for at every bit, on either side of it.
    let mut rng = Rng::new(4);
    for round in 0..300 {
        let asked = [0, u64::MAX, 1 << 63, rng.next_u64()][round % 4];
        let mut model = BTreeMap::new();
        let map = Map::<u64>::new();
        let pinned = map.pin();
        for value in 0..rng.below(12) as u64 {
            let bit = rng.below(64);
            // The bits below the one at which it parts are all set, all clear, or random.
            let below = [0, u64::MAX, rng.next_u64()][rng.below(3)] & ((1 << bit) - 1);
            let key = (asked ^ 1 << bit) & !((1 << bit) - 1) | below;
            pinned.insert(&key.to_be_bytes(), value);
            model.insert(key, value);
        }
        for key in [asked, asked ^ 1, asked.wrapping_add(256), asked.wrapping_sub(65_536)] {
            let bytes = key.to_be_bytes();
            let number = |found: Option<(Key<'_>, Ref<'_, u64>)>| {
                found.map(|(key, value)| (testkit::ops::as_u64(&key), *value))
            };
            let right = |found: Option<(&u64, &u64)>| found.map(|(key, value)| (*key, *value));
            for bound in [Included(key), Excluded(key)] {
                let ours = bound.map(|_| &bytes[..]);
                let above = right(model.range((bound, Unbounded)).next());
                let below = right(model.range((Unbounded, bound)).next_back());
                assert_eq!(number(pinned.lower_bound(ours)), above, "{key:#x} in {model:x?}");
                assert_eq!(number(pinned.upper_bound(ours)), below, "{key:#x} in {model:x?}");
                let range = pinned.range((ours, Unbounded)).map(Some).map(number);
                assert!(range.flatten().eq(model.range((bound, Unbounded)).map(|(k, v)| (*k, *v))));
            }
        }
        pinned.check().unwrap();
    }
}
