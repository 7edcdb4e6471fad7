//! Keys of eight bytes, most of whose leaves are on two levels: found by themselves, and found to be missing.

use std::collections::{BTreeMap, BTreeSet};

use testkit::Rng;

use super::*;
use crate::api::Options;
use crate::sync::epoch;

/// A map of random keys, and what is in it. If it is uneven, few keys begin with zero bits, and none with six.
fn random(count: usize, is_uneven: bool) -> (CuckooTrie<u64>, BTreeMap<u64, u64>) {
    let (map, mut rng) = (CuckooTrie::new(), Rng::new(11));
    let bit = |i: u64| if is_uneven { 1 << 63 >> (i % 6) } else { 0 };
    let pinned = map.pin();
    let mut model = BTreeMap::new();
    // In no order: a trie that began with few keys of a range stays uneven until it is split.
    for i in 0..count as u64 {
        let key = rng.next_u64() | bit(i);
        pinned.insert(&key.to_be_bytes(), i);
        model.insert(key, i);
    }
    drop(pinned);
    (map, model)
}

/// Asks for keys one by one and together, with some of other lengths among them.
fn check(map: &CuckooTrie<u64>, model: &BTreeMap<u64, u64>, keys: &[u64]) {
    let pinned = map.pin();
    for key in keys {
        let found = pinned.get(&key.to_be_bytes()).map(|value| *value);
        assert_eq!(found, model.get(key).copied(), "{key:#x}");
    }
    let bytes: Vec<_> = keys.iter().map(|key| key.to_be_bytes()).collect();
    for len in [1, 7, 8, 9, 16, 17, 24, 25, 63, 64, 65, 130] {
        for (keys, bytes) in keys.chunks(len).zip(bytes.chunks(len)) {
            let mut given: Vec<&[u8]> = bytes.iter().map(|key| &key[..]).collect();
            for other in [None, Some(&b"another"[..])] {
                given.extend(other);
                let mut found: Vec<_> = given.iter().map(|_| None).collect();
                pinned.get_batch(&given, &mut found);
                for (i, key) in keys.iter().enumerate() {
                    let found = found[i].as_deref().copied();
                    assert_eq!(found, model.get(key).copied(), "{key:#x}");
                }
                let mut found = vec![false; given.len()];
                pinned.contains_batch(&given, &mut found);
                assert!(
                    keys.iter().zip(&found).all(|(key, found)| model.contains_key(key) == *found)
                );
            }
        }
    }
}

#[test]
fn most_random_keys_are_found_in_first_buckets() {
    let (map, model) = random(if cfg!(miri) { 50 } else { 30_000 }, false);
    let mut rng = Rng::new(12);
    let keys: Vec<u64> = model.keys().copied().step_by(7).collect();
    let others: Vec<u64> = keys.iter().map(|_| rng.next_u64()).collect();
    check(&map, &model, &keys);
    check(&map, &model, &others);
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    let guard = epoch::pin();
    let is_there = |key: &&u64| {
        let trie = map.trie_of_eight(Baseline, &guard, **key).unwrap();
        let pair = trie.ask_first(crate::arch::prefetch, &map.secret, **key);
        pair.is_some_and(|pair| pair.look(trie, Baseline, **key).is_some())
    };
    let found = keys.iter().filter(is_there).count();
    assert!(found > keys.len() * 3 / 4, "{found} of {}", keys.len());
}

#[test]
fn most_missing_keys_are_known_by_first_buckets_alone() {
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    let guard = epoch::pin();
    // Where eight keys share a name of two symbols, some are alone there: most tries are uneven. Where 70 do, none is.
    for (count, most_are_uneven) in [(30_000, true), (300_000, false)] {
        let (map, model) = random(count, false);
        check(&map, &model, &model.keys().copied().step_by(19).collect::<Vec<_>>());
        let (mut rng, mut known, mut uneven) = (Rng::new(13), 0, 0);
        for key in (0..4_000).map(|_| rng.next_u64()) {
            let trie = map.trie_of_eight(Baseline, &guard, key).unwrap();
            let pair = trie.ask_first(crate::arch::prefetch, &map.secret, key).unwrap();
            let above = || trie.ends_above(&map.secret, Baseline, key, pair.seen);
            known += usize::from(pair.lacks(trie, Baseline, key) || trie.is_uneven() && above());
            uneven += usize::from(trie.is_uneven());
        }
        assert!(known > 3_400, "{known} of {count}");
        assert_eq!(uneven > 2_000, most_are_uneven, "{uneven} of {count}");
        map.pin().check().unwrap();
    }
}

#[test]
fn what_is_found_beside_a_writer_is_not_believed() {
    let (map, model) = random(if cfg!(miri) { 50 } else { 30_000 }, false);
    let guard = epoch::pin();
    let mut tried = 0;
    for key in model.keys().copied().step_by(100) {
        let Some(trie) = map.trie_of_eight(Baseline, &guard, key) else { continue };
        let finds = |pair: Option<Pair<'_>>| {
            pair.is_some_and(|pair| pair.look(trie, Baseline, key).is_some())
        };
        let before = trie.ask_first(crate::arch::prefetch, &map.secret, key);
        if !finds(before) {
            continue;
        }
        // A key that is missing, as its name leads to the other's leaf.
        let lacks = || before.is_some_and(|pair| pair.lacks(trie, Baseline, key ^ 1));
        let was_lacking = lacks();
        let mut locked = trie.version().lock();
        locked.begin_change();
        assert!(
            !finds(before)
                && !finds(trie.ask_first(crate::arch::prefetch, &map.secret, key))
                && !lacks()
        );
        locked.end_change();
        drop(locked);
        assert!(!finds(before) && finds(trie.ask_first(crate::arch::prefetch, &map.secret, key)));
        tried += usize::from(was_lacking);
    }
    assert!(tried > 50 || cfg!(any(miri, small_leaves)), "{tried}");
}

#[test]
fn a_key_whose_leaf_is_above_the_leaf_level_is_found() {
    let (map, model) = random(if cfg!(miri) { 50 } else { 20_000 }, true);
    check(&map, &model, &model.keys().copied().collect::<Vec<_>>());
    map.pin().check().unwrap();
}

#[test]
fn a_key_below_a_jump_over_the_leaf_level_is_found() {
    let (map, mut model) = random(6_000, true);
    let pinned = map.pin();
    // These share so many bits that jumps lead to their forks from far above the leaf level.
    let deep = [0x1_0000_0000, 0x2_0000_0000, 0x1_0000_0001, 0x3_0000, 0x30_0000_0000_0000_u64];
    for (i, key) in deep.into_iter().enumerate() {
        pinned.insert(&key.to_be_bytes(), i as u64);
        model.insert(key, i as u64);
        check(&map, &model, &deep);
        pinned.check().unwrap();
    }
    for key in deep {
        pinned.remove(&key.to_be_bytes());
        model.remove(&key);
        check(&map, &model, &deep);
        pinned.check().unwrap();
    }
}

#[test]
fn what_looks_like_a_key_beside_it_is_no_leaf() {
    // Bitmaps and free slots: a key of few bits, and the key of zeros.
    let (map, mut model) = random(6_000, true);
    let odd: Vec<u64> = (0..64).map(|bit| 1 << bit).chain([0, u64::MAX]).collect();
    check(&map, &model, &odd);
    let pinned = map.pin();
    for key in &odd {
        pinned.insert(&key.to_be_bytes(), *key);
        model.insert(*key, *key);
    }
    check(&map, &model, &odd);
    pinned.check().unwrap();
}

#[test]
fn a_number_beside_a_pair_that_looks_like_it_is_found() {
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    let (mut rng, mut tried) = (Rng::new(14), 0);
    for seed in 0..40 {
        let map = CuckooTrie::with_options(Options::new().seed(seed));
        let pinned = map.pin();
        let starts: Vec<_> = (0..40_000).map(|_| rng.next_u64()).collect();
        for (i, start) in starts.iter().enumerate() {
            let bytes = start.to_be_bytes();
            // One of eight has two keys in its place that agree in more than numbers have: a pair.
            if i % 8 == 0 {
                pinned.insert(&[&bytes[..], &[1]].concat(), 1);
                pinned.insert(&[&bytes[..], &[2]].concat(), 2);
            } else {
                pinned.insert(&bytes, *start);
            }
        }
        let guard = epoch::pin();
        let alike = |key: &u64| {
            let trie = map.trie_of_eight(Baseline, &guard, *key)?;
            let pair = trie.ask_first(crate::arch::prefetch, &map.secret, *key)?;
            let slots = pair.upper.find_key(Baseline, *key);
            (slots != 0 && !pair.upper.head(slots.trailing_zeros()).is_short()).then_some(pair)
        };
        let mut bodies = BTreeSet::new();
        for start in starts.iter().step_by(200) {
            let Some(trie) = map.trie_of_eight(Baseline, &guard, *start) else { continue };
            for bucket in (0..trie.buckets()).map(|number| trie.bucket(number)) {
                let (wides, _) = bucket.sorts();
                let pairs = (0..wides).filter(|slot| !bucket.head(*slot).is_short());
                bodies.extend(pairs.map(|slot| bucket.body(slot)));
            }
        }
        for key in bodies.into_iter().filter(|key| alike(key).is_some()) {
            let bytes = key.to_be_bytes();
            pinned.insert(&bytes, key);
            // Its own leaf is behind the pair, in the same bucket.
            let is_behind = alike(&key)
                .is_some_and(|pair| pair.upper.find_key(Baseline, key).count_ones() == 2);
            tried += usize::from(is_behind);
            let mut found = [None];
            pinned.get_batch(&[&bytes], &mut found);
            let found = [found[0].as_deref().copied(), pinned.get(&bytes).as_deref().copied()];
            assert_eq!(found, [Some(key); 2], "{key:#x}");
        }
    }
    assert!(tried > 0);
}
