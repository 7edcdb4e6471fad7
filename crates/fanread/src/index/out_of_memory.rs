//! Memory that runs out at any moment, for every ordered map: each map's `tests.rs` has this file as a module.
//!
//! That one names the map `Map` and says whether it is one on `NUMBERS`. Such a map stands behind `tests/maps/numbers.rs`, which
//! takes byte strings of eight bytes, as the integration tests see it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::dummy::Census;
use testkit::ops::{Keys, pool};

use super::*;
use crate::api::{InsertError, LoadError, Options};
use crate::mem::failing;

/// The shapes of short keys that the map takes.
fn shapes() -> impl Iterator<Item = Keys> {
    let all = [
        Keys::U64Dense,
        Keys::U64OneByte,
        Keys::U64Clusters,
        Keys::SharedPrefixes,
        Keys::Urls,
        Keys::Short,
    ];
    all.into_iter().filter(|keys| !NUMBERS || keys.is_u64())
}

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
    let map = Map::with_options(Options::new().seed(7));
    let mut model = BTreeMap::new();
    let mut failures = 0_usize;
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
            // What one has damaged stays so; in some maps every insertion asks for memory.
            if failures < 100 || failures.is_multiple_of(10) {
                assert_same(&pinned, &model, &number);
            }
        }
    }
    assert_same(&map.pin(), &model, number);
    failures
}

#[test]
fn an_insertion_without_memory_leaves_the_map_as_it_was() {
    let mut failures = 0;
    for keys in shapes() {
        failures += insert_all_against_failures(&pool(3, keys, 3_000), |n| n, |n| *n);
        failures += insert_all_against_failures(&pool(4, keys, 3_000), Box::new, |n| **n);
    }
    if !NUMBERS {
        let long = pool(5, Keys::Long, 150);
        failures += insert_all_against_failures(&long, |n| n, |n| *n);
    }
    assert!(failures > 60, "only {failures} allocations were asked for");
}

#[test]
fn a_value_too_large_for_a_record_needs_memory_that_may_fail() {
    for keys in shapes() {
        let keys = pool(6, keys, 300);
        let failures = insert_all_against_failures(&keys, |n| [n; 160], |n| n[0]);
        assert!(failures >= keys.len(), "only {failures} allocations were asked for");
    }
}

#[test]
fn room_for_which_there_is_no_memory_is_asked_for_again() {
    for capacity in [100, 50_000] {
        let map = Map::with_options(Options::new().seed(7).capacity(capacity));
        let pinned = map.pin();
        for allocations in 0.. {
            failing::after(allocations);
            let result = pinned.try_insert(&[0; 8], 1);
            failing::never();
            if result.is_ok() {
                break;
            }
            assert_same(&pinned, &BTreeMap::new(), |n: &u64| *n);
        }
        assert_same(&pinned, &BTreeMap::from([(vec![0; 8], 1)]), |n| *n);
    }
    // More than there is; a map that takes no notice of it has its entry.
    let map = Map::with_options(Options::new().capacity(usize::MAX));
    let pinned = map.pin();
    let result = pinned.try_insert(&[0; 8], 1);
    assert!(matches!(result, Ok(None) | Err(InsertError::OutOfMemory { value: 1, .. })));
    let model = result.map(|_| BTreeMap::from([(vec![0; 8], 1)])).unwrap_or_default();
    assert_same(&pinned, &model, |n| *n);
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
    for keys in shapes().chain([Keys::U64Random]) {
        let keys = pool(8, keys, 3_000);
        let map = Map::with_options(Options::new().seed(7));
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
        pinned.insert(&keys[0], 1);
        assert_eq!(pinned.len(), 1);
    }
}

#[test]
fn a_map_that_cannot_be_loaded_drops_every_value_once() {
    let keys = {
        let mut keys = pool(9, if NUMBERS { Keys::U64Random } else { Keys::Urls }, 1_500);
        keys.sort();
        keys.dedup();
        keys
    };
    let mut failures = 0;
    for allocations in 0.. {
        let census = Census::new();
        failing::after(allocations);
        let entries = keys.iter().zip(0..).map(|(key, n)| (key, census.value(n)));
        let loaded = Map::from_sorted(entries);
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
    let map = Map::with_options(Options::new().seed(7));
    let mut model = BTreeMap::new();
    let mut panics = 0;
    for n in 0..400_u64 {
        let key = if NUMBERS { n.to_be_bytes().to_vec() } else { n.to_string().into_bytes() };
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

#[test]
fn what_a_map_takes_is_told_without_asking_the_kernel() {
    use crate::mem::pages::asked;
    let map = Map::<u64>::new();
    map.pin().insert(&[1; 8], 1);
    assert!(map.memory_usage().total_bytes() > 0);
    assert_eq!(asked::COUNT.get(), 0);
    let _ = crate::api::MemoryUsage::process_huge_page_bytes();
    assert_eq!(asked::COUNT.get(), 1);
}
