// Included for each map by `maps/mod.rs`; `../model.rs` says what is tested.

use std::collections::BTreeMap;

use self::common::Ordered;
use testkit::model::agree_at_size;
use testkit::{Keys, Rng, seeds};

/// A run for each shape: how many keys its pool has, at most `pool`, and how many operations it makes.
fn runs(pool: usize, steps: usize) -> impl Iterator<Item = (Keys, usize, usize)> {
    let shapes = Keys::ALL.into_iter().filter(|keys| !NUMBERS || keys.is_u64());
    shapes.map(move |keys| match keys {
        // An operation copies keys of 64 KB a few times, for us and for the model.
        Keys::Long => (keys, 96, steps / 50),
        Keys::Short => (keys, 85, steps),
        // Key number `n` has `n` bytes: a large pool is one of long keys.
        Keys::NulBytes | Keys::PrefixesOfEachOther => (keys, pool.min(1_000), steps),
        _ => (keys, pool, steps),
    })
}

#[test]
fn agrees_with_a_btreemap_on_small_pools() {
    for seed in seeds() {
        for (keys, pool, steps) in runs(1_000, 25_000) {
            agree_at_size(Ordered::<Map<u64>>::default, seed, keys, pool, steps);
        }
    }
}

#[test]
fn agrees_with_a_btreemap_on_large_pools() {
    for seed in seeds() {
        // A pool is large beside the leaves.
        let (pool, steps) = if cfg!(small_leaves) { (2_000, 5_000) } else { (10_000, 40_000) };
        for (keys, pool, steps) in runs(pool, steps) {
            agree_at_size(Ordered::<Map<u64>>::default, seed, keys, pool, steps);
        }
    }
}

#[test]
fn with_large_values_agrees_with_a_btreemap() {
    for seed in seeds() {
        for (keys, pool, steps) in runs(1_000, 12_500) {
            agree_at_size(Ordered::<Map<Box<u64>>>::default, seed, keys, pool, steps);
            agree_at_size(Ordered::<Map<[u64; 3]>>::default, seed, keys, pool, steps);
        }
    }
}

#[test]
fn ranges_that_were_to_have_one_entry_go_on_as_others() {
    let (map, mut model, mut rng) = (Map::new(), BTreeMap::new(), Rng::new(6));
    let pinned = map.pin();
    for round in 0..400_u64 {
        // Keys at both ends of all numbers, close together.
        let mut key = || {
            let near = rng.next_u64() % 400;
            if rng.next_u64().is_multiple_of(2) { near } else { u64::MAX - near }
        };
        for _ in 0..10 {
            let (new, old) = (key().to_be_bytes(), key().to_be_bytes());
            pinned.insert(&new, round);
            model.insert(new, round);
            assert_eq!(pinned.remove(&old).as_deref().copied(), model.remove(&old));
        }
        // Many of one entry, until that is what a map expects.
        for _ in 0..200 {
            let from = key().to_be_bytes();
            let (next, last) =
                (pinned.range(&from[..]..).next(), pinned.range(..&from[..]).next_back());
            let value = |entry: Option<(Key<'_>, Ref<'_, u64>)>| entry.map(|(_, value)| *value);
            assert_eq!(value(next), model.range(from..).next().map(|(_, value)| *value));
            assert_eq!(value(last), model.range(..from).next_back().map(|(_, value)| *value));
        }
        let (low, high) = (key(), key());
        let (low, high) = (low.min(high).to_be_bytes(), low.max(high).to_be_bytes());
        let mut range = pinned.range(&low[..]..=&high[..]);
        let mut expected = model.range(low..=high);
        for step in 0..rng.next_u64() % 5 {
            let (found, next) = if rng.next_u64().is_multiple_of(3) {
                (range.next_back(), expected.next_back())
            } else {
                (range.next(), expected.next())
            };
            let found = found.as_ref().map(|(key, value)| (&key[..], **value));
            let next = next.map(|(key, value)| (&key[..], *value));
            assert_eq!(found, next, "step {step} of {low:?} to {high:?}");
        }
    }
}
