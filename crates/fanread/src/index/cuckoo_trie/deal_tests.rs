use super::*;
use crate::index::cuckoo_trie::CuckooTrie;
use crate::index::cuckoo_trie::build::tests::Bench;
use std::collections::{BTreeMap, BTreeSet};
use testkit::Rng;

/// Whether tables are too small here to know the states of their nodes, or tests too slow for such that are not.
const TOO_SMALL: bool = cfg!(any(miri, shuttle, small_leaves));

/// Random numbers that share so many bits, with some pairs that share five symbols more.
fn keys(rng: &mut Rng, shared: u32, count: usize) -> (BTreeSet<Vec<u8>>, [Vec<u8>; 2]) {
    let low = rng.next_u64() & !(u64::MAX >> shared);
    let mut keys = BTreeSet::new();
    while keys.len() < count {
        let key = low | rng.next_u64() >> shared;
        keys.insert(key);
        if keys.len() % 400 == 0 {
            let skip_bits = shared / SYMBOL_BITS * SYMBOL_BITS;
            keys.insert(key ^ 1 << (u64::BITS - skip_bits - 6 * SYMBOL_BITS));
        }
    }
    let high = low | u64::MAX >> shared;
    let bytes = |key: u64| key.to_be_bytes().to_vec();
    (keys.into_iter().map(bytes).collect(), [bytes(low), bytes(high)])
}

/// Splits the trie of `keys`, and its halves again. Returns how many were split.
fn split(bench: &mut Bench, keys: &[&Vec<u8>], plan: Plan<'_>) -> usize {
    let run = bench.run(keys.iter().copied());
    let Bench { memory, secret, free, .. } = &mut *bench;
    let count = keys.len();
    let trie = run.build::<u64>(memory, secret, free, &plan, 0..count).unwrap();
    let (name, secret) = (trie.name(), secret.clone());
    let found = Deal::of(&secret, bench.memory.trie(name)).and_then(|deal| deal.cut(&plan));
    let Some(border) = found else {
        bench.memory.free(&mut bench.free, name);
        return 0;
    };
    let anchor = border.anchor().to_vec();
    assert!(middle(count).contains(&border.before), "{} of {count}", border.before);
    assert!(*keys[border.before - 1] < anchor && anchor <= *keys[border.before]);
    let shorter = &anchor[..anchor.len() - 1];
    assert!(shorter <= &keys[border.before - 1][..], "the shortest border");
    let unit = bench.border(&anchor);
    let plans =
        [Plan { high: Some((unit, &anchor)), ..plan }, Plan { low: (unit, &anchor), ..plan }];
    let mut free = FreeLines::default();
    let deal = Deal::of(&secret, bench.memory.trie(name)).unwrap();
    let built = deal.build(&bench.memory, &mut free, &plans, &border).unwrap();
    let halves = built.expect("no two states are the same").map(Trie::name);
    let mut splits = 1;
    for (half, (plan, part)) in
        halves.into_iter().zip(plans.into_iter().zip([0..border.before, border.before..count]))
    {
        let half = bench.memory.trie(half);
        let buckets = half.buckets();
        bench.verify(half, &run.entries()[part.clone()]);
        assert_eq!(half.keys(), part.len());
        assert_eq!(half.weight(), run.count_weight(part.clone(), plan.skip_bits()));
        assert_eq!(half.skip_bits(), plan.skip_bits());
        let (level, entry, is_uneven) = (half.leaf_level(), half.entry(), half.is_uneven());
        let Bench { memory, secret, free, .. } = &mut *bench;
        let other = run.build::<u64>(memory, secret, free, &plan, part.clone()).unwrap();
        if other.buckets() == buckets {
            assert_eq!((other.leaf_level(), other.entry()), (level, entry));
            assert_eq!(other.is_uneven(), is_uneven);
        }
        let other = other.name();
        bench.memory.free(&mut bench.free, other);
        splits += split(bench, &keys[part], plan);
    }
    for half in halves {
        bench.memory.free(&mut free, half);
    }
    bench.memory.free(&mut bench.free, name);
    splits
}

#[test]
fn halves_are_what_their_keys_would_be_built_into() {
    if TOO_SMALL {
        return;
    }
    for seed in testkit::seeds().take(2) {
        let mut rng = Rng::new(seed);
        for shared in [0, 2, 5, 6, 8, 11, 13] {
            let mut bench = Bench::new(seed);
            let (keys, [low, high]) = keys(&mut rng, shared, 6_000);
            let keys: Vec<_> = keys.iter().collect();
            let borders = [&low, &high].map(|border| (bench.border(border), &border[..]));
            let plan = Plan { low: borders[0], high: Some(borders[1]), round: 0 };
            let splits = split(&mut bench, &keys, plan);
            assert!(splits > 0, "{shared} bits shared, seed {seed:#x}");
        }
    }
}

#[test]
fn what_does_not_tell_where_it_belongs_is_left_to_a_walk() {
    if TOO_SMALL {
        return;
    }
    let numbers = |step: u64| (0..6_000).map(move |i: u64| (i * step).to_be_bytes().to_vec());
    let mut rng = Rng::new(1);
    let mut mixed = keys(&mut rng, 0, 6_000).0;
    mixed.insert(vec![1; 9]);
    // Names of these are short, and no leaf is.
    let three_bytes = (0..6_000_u32).map(|i| i.to_be_bytes()[1..].to_vec());
    let sets: [BTreeSet<Vec<u8>>; 4] =
        [numbers(1).collect(), numbers(1 << 20).collect(), mixed, three_bytes.collect()];
    for keys in sets {
        let mut bench = Bench::new(1);
        let run = bench.run(&keys);
        let Bench { memory, secret, free, .. } = &mut bench;
        let plan = Plan { low: (0, &[]), high: None, round: 0 };
        let trie = run.build::<u64>(memory, secret, free, &plan, 0..keys.len()).unwrap();
        assert!(Deal::of(secret, trie).is_none());
    }
}

/// Inserts keys in their order, and removes every other one.
fn come_and_go(keys: impl Iterator<Item = Vec<u8>>) {
    let map = CuckooTrie::new();
    let mut pinned = map.pin();
    let mut model = BTreeMap::new();
    for (i, key) in keys.enumerate() {
        assert!(pinned.insert(&key, i).is_none());
        model.insert(key, i);
        if i % 256 == 0 {
            pinned.repin();
        }
    }
    let agree = |model: &BTreeMap<Vec<u8>, usize>| {
        pinned.check().unwrap();
        let all = pinned.iter().map(|(key, value)| (key.to_vec(), *value));
        assert!(all.eq(model.iter().map(|(key, value)| (key.clone(), *value))));
        assert!(model.iter().all(|(key, value)| pinned.get(key).as_deref() == Some(value)));
    };
    agree(&model);
    let gone: Vec<_> = model.keys().step_by(2).cloned().collect();
    for key in gone {
        assert_eq!(pinned.remove(&key).map(|value| *value), model.remove(&key));
    }
    agree(&model);
}

#[test]
fn dense_keys_of_few_bytes_may_come_in_any_order() {
    if TOO_SMALL {
        return;
    }
    let two = |i: u16| i.to_be_bytes().to_vec();
    come_and_go((0..=u16::MAX).map(two));
    come_and_go((0..=u16::MAX).rev().map(two));
    let mut rng = Rng::new(5);
    for len in 2..=6 {
        // All numbers of two bytes; of three and more all below this, then one in three of more.
        for (count, step) in [(60_000, 1), (60_000, 3)] {
            let step = if len == 2 { 1 } else { step };
            let mut numbers: Vec<u64> = (0..count).map(|i| i * step).collect();
            for i in (1..numbers.len()).rev() {
                numbers.swap(i, rng.below(i + 1));
            }
            come_and_go(numbers.iter().map(|number| number.to_be_bytes()[8 - len..].to_vec()));
        }
    }
    // Two ranges that grow by turns.
    let both = (0..50_000_u32).flat_map(|i| [i, 1 << 23 | i]);
    come_and_go(both.map(|number| number.to_be_bytes().to_vec()));
}

#[test]
fn a_map_whose_tries_are_dealt_out_agrees_with_a_btreemap() {
    if TOO_SMALL {
        return;
    }
    let (map, mut model, mut rng) = (CuckooTrie::new(), BTreeMap::new(), Rng::new(7));
    let mut pinned = map.pin();
    for i in 0..60_000_u64 {
        // Some keys are close to others: their leaves are further down, behind jumps.
        let near = i % 500 == 0 && !model.is_empty();
        let key = if near { rng.next_u64() >> 40 | 5 << 60 } else { rng.next_u64() };
        let key = key.to_be_bytes();
        assert_eq!(pinned.insert(&key, i).map(|old| *old), model.insert(key, i));
        if i % 1024 == 0 {
            pinned.repin();
        }
    }
    pinned.check().unwrap();
    assert!(
        pinned
            .iter()
            .map(|(key, value)| (key.to_vec(), *value))
            .eq(model.iter().map(|(key, value)| (key.to_vec(), *value)))
    );
}
