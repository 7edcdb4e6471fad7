// Included for each map by `maps/mod.rs`; `../model.rs` says what is tested.

use self::common::Ordered;
use testkit::model::agree_at_size;
use testkit::{Keys, seeds};

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
