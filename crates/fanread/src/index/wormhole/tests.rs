//! What cannot be seen or brought about from outside: memory that runs out at any moment, keys that are made to collide.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::dummy::{Census, Counted};
use testkit::ops::{Keys, pool};

use super::layout::Tag;
use super::{Pinned, Wormhole};
use crate::api::{InsertError, LoadError, Options};
use crate::mem::failing;

/// Compares a map with the model, entry by entry.
fn assert_same<V: Send + Sync>(
    pinned: &Pinned<'_, V>,
    model: &BTreeMap<Vec<u8>, u64>,
    number: impl Fn(&V) -> u64,
) {
    pinned.check().unwrap();
    assert_eq!(pinned.len(), model.len());
    let all = pinned.iter().map(|(key, value)| (key.to_vec(), number(&value)));
    assert!(all.eq(model.iter().map(|(key, value)| (key.clone(), *value))));
    assert!(model.iter().all(|(key, value)| pinned.get(key).is_some_and(|v| number(&v) == *value)));
}

/// Inserts keys while the n-th allocation of every insertion fails, for n = 0, 1, ... until it succeeds. Returns how many
/// attempts failed.
fn insert_all_against_failures<V: Send + Sync>(
    keys: &[Vec<u8>],
    make: impl Fn(u64) -> V,
    number: impl Fn(&V) -> u64,
) -> usize {
    let map = Wormhole::with_options(Options::new().seed(7));
    let mut model = BTreeMap::new();
    let mut failures = 0;
    for (at, key) in keys.iter().enumerate() {
        let at = at as u64;
        let pinned = map.pin();
        let mut value = make(at);
        for allocations in 0.. {
            failing::after(allocations);
            let result = pinned.try_insert(key, value);
            failing::never();
            match result {
                Ok(old) => {
                    assert_eq!(old.map(|old| number(&old)), model.insert(key.clone(), at));
                    break;
                }
                Err(InsertError::OutOfMemory { value: back, bytes }) => {
                    assert!(bytes > 0 && allocations < 20);
                    assert_eq!(number(&back), at, "another value came back");
                    value = back;
                }
                Err(error) => panic!("{error}"),
            }
            failures += 1;
            assert_same(&pinned, &model, &number);
        }
    }
    assert_same(&map.pin(), &model, number);
    failures
}

#[test]
fn an_insertion_without_memory_leaves_the_map_as_it_was() {
    let mut failures = 0;
    for keys in [Keys::U64Dense, Keys::SharedPrefixes, Keys::Urls, Keys::Short] {
        failures += insert_all_against_failures(&pool(3, keys, 3_000), |n| n, |n| *n);
        failures += insert_all_against_failures(&pool(4, keys, 3_000), Box::new, |n| **n);
    }
    let long = pool(5, Keys::Long, 150);
    failures += insert_all_against_failures(&long, |n| n, |n| *n);
    assert!(failures > 100, "only {failures} allocations were asked for");
}

#[test]
fn an_insertion_without_memory_loses_no_value() {
    let census = Census::new();
    let keys = pool(6, Keys::U64Random, 2_000);
    insert_all_against_failures(&keys, |n| census.value(n), |value| value.content);
    census.verify(0).unwrap();
}

#[test]
fn removal_needs_no_memory() {
    for keys in [Keys::U64Random, Keys::Urls] {
        let keys = pool(8, keys, 3_000);
        let map = Wormhole::with_options(Options::new().seed(7));
        let pinned = map.pin();
        let mut model = BTreeMap::new();
        for (n, key) in (0..).zip(&keys) {
            assert_eq!(pinned.insert(key, n).as_deref().copied(), model.insert(key.clone(), n));
        }
        // Merges are put off as long as there is nothing to make a leaf of.
        failing::after(0);
        for key in keys.iter().step_by(2).chain(keys.iter().skip(1).step_by(4)) {
            assert_eq!(pinned.remove(key).as_deref().copied(), model.remove(key));
        }
        failing::never();
        assert_same(&pinned, &model, |n| *n);
        for key in &keys {
            assert_eq!(pinned.remove(key).as_deref().copied(), model.remove(key));
        }
        assert_same(&pinned, &model, |n| *n);
        pinned.insert(b"again", 1);
        assert_eq!(pinned.len(), 1);
    }
}

#[test]
fn a_map_that_cannot_be_loaded_drops_every_value_once() {
    let keys = {
        let mut keys = pool(9, Keys::Urls, 1_500);
        keys.sort();
        keys.dedup();
        keys
    };
    let mut failures = 0;
    for allocations in 0.. {
        let census = Census::new();
        failing::after(allocations);
        let entries = keys.iter().zip(0..).map(|(key, n)| (key, census.value(n)));
        let loaded = Wormhole::from_sorted(entries);
        failing::never();
        match loaded {
            Err(error) => {
                assert!(matches!(error, LoadError::OutOfMemory { .. }));
                census.verify(0).unwrap();
                failures += 1;
            }
            Ok(map) => {
                census.verify(keys.len()).unwrap();
                map.pin().check().unwrap();
                drop(map);
                census.verify(0).unwrap();
                break;
            }
        }
    }
    assert!(failures > 5, "only {failures} allocations were asked for");
}

#[test]
fn a_write_that_panics_for_want_of_memory_changes_nothing() {
    let map = Wormhole::with_options(Options::new().seed(7));
    let mut model = BTreeMap::new();
    let mut panics = 0;
    for n in 0..400_u64 {
        let key = n.to_string().into_bytes();
        let pinned = map.pin();
        failing::after(0);
        let inserted = catch_unwind(AssertUnwindSafe(|| {
            pinned.get_or_insert_with(&key, || Box::new(n));
        }));
        let updated =
            catch_unwind(AssertUnwindSafe(|| pinned.update(&key, Clone::clone).is_some()));
        failing::never();
        if inserted.is_err() {
            panics += 1;
            assert!(!updated.unwrap_or(true));
            assert_same(&pinned, &model, |n| **n);
            pinned.insert(&key, Box::new(n));
        }
        model.insert(key, n);
    }
    assert!(panics > 0);
    assert_same(&map.pin(), &model, |n| **n);
}

/// Keys of 8 bytes whose hashes under the map's seed are all `alike`.
fn colliding_keys(map: &Wormhole<u64>, count: usize, alike: fn(u64) -> bool) -> Vec<Vec<u8>> {
    (0_u64..)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec())
        .filter(|key| alike(map.seed().hash(key)))
        .take(count)
        .collect()
}

#[test]
fn keys_that_share_a_home_line_are_found_and_take_no_more_memory() {
    let map = Wormhole::with_options(Options::new().seed(42));
    let pinned = map.pin();
    let flood = colliding_keys(&map, 3_000, |hash| Tag::of(hash).home(1 << 12) == 0);
    for (n, key) in (0..).zip(&flood) {
        assert!(pinned.insert(key, n).is_none());
    }
    pinned.check().unwrap();
    assert!((0..).zip(&flood).all(|(n, key)| pinned.get(key).is_some_and(|value| *value == n)));
    let ordinary = Wormhole::with_options(Options::new().seed(43));
    for (n, key) in (0..).zip(&flood) {
        ordinary.pin().insert(key, n);
    }
    let bytes = [&map, &ordinary].map(|map| map.memory_usage().total_bytes());
    assert!(bytes[0] <= 2 * bytes[1], "{bytes:?}");
    for key in &flood {
        assert!(pinned.remove(key).is_some());
    }
    pinned.check().unwrap();
}

#[test]
fn anchors_that_share_a_place_in_the_table_cost_no_entry_and_no_more_memory() {
    let flooded = Wormhole::with_options(Options::new().seed(42));
    let ordinary = Wormhole::with_options(Options::new().seed(43));
    // Prefixes of 8 bytes are stored; the top bits of these, which choose a place, are zero under the first seed.
    let stems = colliding_keys(&flooded, 300, |hash| hash >> 52 == 0);
    let keys: Vec<Vec<u8>> = (stems.iter())
        .flat_map(|stem| (0..100_u8).map(move |tail| [&stem[..], &[tail; 9]].concat()))
        .collect();
    for map in [&flooded, &ordinary] {
        let pinned = map.pin();
        for (n, key) in (0..).zip(&keys) {
            assert!(pinned.insert(key, n).is_none());
        }
        pinned.check().unwrap();
        assert!((0..).zip(&keys).all(|(n, key)| pinned.get(key).is_some_and(|value| *value == n)));
    }
    let bytes = [&flooded, &ordinary].map(|map| map.memory_usage().total_bytes());
    assert!(bytes[0] <= 2 * bytes[1], "{bytes:?}");
    let pinned = flooded.pin();
    assert!(keys.iter().all(|key| pinned.remove(key).is_some()));
    pinned.check().unwrap();
}

#[test]
fn values_with_something_to_drop_are_never_copied_into_words() {
    assert!(
        !super::insert::is_inline_map::<Counted>() && !super::insert::is_inline_map::<Box<u8>>()
    );
    assert!(super::insert::is_inline_map::<u64>() && super::insert::is_inline_map::<()>());
}

/// A range that has yielded all of an outer leaf comes into the leaf that this one was merged into, and an entry leaves
/// that one before anything was copied from it: the range starts over.
fn start_over_in_a_merged_leaf(backwards: bool) {
    let map = Wormhole::new();
    let pinned = map.pin();
    let keys: Vec<[u8; 4]> = (0..600_u32).map(u32::to_be_bytes).collect();
    for (n, key) in (0_u64..).zip(&keys) {
        assert!(pinned.insert(key, n).is_none());
    }
    let mut leaf = map.first_leaf().unwrap();
    while backwards && let Some(next) = leaf.next() {
        leaf = map.memory.leaf(next);
    }
    let count = leaf.meta().count();
    let mut range = pinned.iter();
    let next = |range: &mut super::Iter<'_, u64>| {
        let entry = if backwards { range.next_back() } else { range.next() };
        entry.map(|(key, _)| key.to_vec())
    };
    let first: Vec<_> = (0..count).map_while(|_| next(&mut range)).collect();
    // What was yielded goes, and some more, until the leaf is merged with its neighbour.
    let mut inwards: Vec<_> = keys.iter().collect();
    if backwards {
        inwards.reverse();
    }
    let gone = inwards.iter().take_while(|key| {
        let merged = leaf.header().version.begin().is_dead();
        !merged && pinned.remove(**key).is_some()
    });
    let gone = gone.count();
    assert!(count <= gone && gone < keys.len() - 2, "the leaf was not merged in time");
    let course = &mut range.course;
    let entered = if backwards {
        course.back.as_mut().unwrap().go_back(&map)
    } else {
        course.front.as_mut().unwrap().go_on(&map)
    };
    assert!(entered);
    // One comes back, and another entry leaves.
    assert!(pinned.insert(inwards[0], 0).is_none());
    assert!(pinned.remove(inwards[gone]).is_some());
    let mut all = first;
    all.extend(core::iter::from_fn(|| next(&mut range)));
    if backwards {
        all.reverse();
    }
    assert!(all.len() > count && all.is_sorted_by(|a, b| a < b), "a key was yielded again");
}

#[test]
fn a_range_that_starts_over_in_a_merged_leaf_yields_no_key_again() {
    start_over_in_a_merged_leaf(false);
    start_over_in_a_merged_leaf(true);
}
