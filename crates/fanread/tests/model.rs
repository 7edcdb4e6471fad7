//! Every map against the model: one suite for all of them.
//!
//! `FANREAD_SEED` replays a run, `FANREAD_SEEDS` makes more of them.

mod common;

use common::Ordered;
use fanread::{Options, Wormhole};
use testkit::model::{agree, agree_at_size};
use testkit::{Keys, seeds};

const SHAPES: [Keys; 9] = [
    Keys::SharedPrefixes,
    Keys::Short,
    Keys::NulBytes,
    Keys::PrefixesOfEachOther,
    Keys::U64Random,
    Keys::U64Dense,
    Keys::Urls,
    Keys::Long,
    Keys::Mixed,
];

#[test]
fn wormhole_agrees_with_a_btreemap_on_small_pools() {
    for seed in seeds() {
        for keys in SHAPES {
            agree(|| Ordered::<Wormhole<u64>>::default(), seed, keys, 20_000);
        }
    }
}

#[test]
fn wormhole_agrees_with_a_btreemap_on_large_pools() {
    for seed in seeds() {
        for keys in SHAPES {
            let (pool, steps) = if keys == Keys::Long { (400, 5_000) } else { (30_000, 200_000) };
            agree_at_size(|| Ordered::<Wormhole<u64>>::default(), seed, keys, pool, steps);
        }
    }
}

#[test]
fn wormhole_with_large_values_agrees_with_a_btreemap() {
    for seed in seeds() {
        for keys in SHAPES {
            agree(|| Ordered::<Wormhole<Box<u64>>>::default(), seed, keys, 10_000);
            agree(|| Ordered::<Wormhole<[u64; 3]>>::default(), seed, keys, 10_000);
        }
    }
}

#[test]
fn wormhole_with_the_papers_binary_search_agrees_with_a_btreemap() {
    for seed in seeds() {
        for keys in SHAPES {
            let map = || Wormhole::<u64>::with_options(Options::new().probe_width(1).seed(seed));
            agree_at_size(|| Ordered(map()), seed, keys, 3_000, 20_000);
        }
    }
}
