//! Random keys go into the map the quick way, most of them, and are replaced in it, and what that leaves to the other way stays as it
//! was.

use std::collections::BTreeMap;

use testkit::Rng;

use super::*;
use crate::api::Options;
use crate::sync::epoch;

const COUNT: usize = if cfg!(miri) { 60 } else { 40_000 };

const SEEDS: u64 = if cfg!(miri) { 1 } else { 6 };

/// Writes a key the quick way, if that can be.
fn quickly(map: &CuckooTrie<u64>, key: u64, value: u64, rule: Rule) -> Option<Outcome> {
    let guard = epoch::pin();
    let pinned = map.pin();
    let (done, word) =
        map.write_quickly(&guard, pinned.thread, &key.to_be_bytes(), &value, rule)?;
    assert_eq!(word, word::pack(value));
    Some(done)
}

/// That this value was replaced.
fn replaced(value: u64) -> Outcome {
    Outcome::Replaced(word::pack(value))
}

/// A map of random keys.
fn random(rng: &mut Rng) -> CuckooTrie<u64> {
    let map = CuckooTrie::new();
    for i in 0..COUNT as u64 {
        map.pin().insert(&rng.next_u64().to_be_bytes(), i);
    }
    map
}

/// The next random key that goes in the quick way.
fn next_quick(map: &CuckooTrie<u64>, rng: &mut Rng) -> u64 {
    let guard = epoch::pin();
    (0..1_000)
        .map(|_| rng.next_u64())
        .find(|key| {
            let Some(trie) = map.trie_of_eight(Baseline, &guard, *key) else { return false };
            let Some(spots) = trie.ask_around(&map.secret, *key) else { return false };
            let is_there = trie.place_of(&key.to_be_bytes(), &map.memory) == Order::Equal;
            is_there && !CuckooTrie::<u64>::is_full(trie) && spots.stop(trie, Baseline).is_some()
        })
        .expect("nearly every one")
}

#[test]
fn most_random_keys_are_inserted_quickly_and_all_are_found() {
    // Which nodes move is chance: in six maps of sixteen none moved while its child was being placed.
    for seed in 0..SEEDS {
        insert_and_find(seed);
    }
}

fn insert_and_find(seed: u64) {
    let map = CuckooTrie::with_options(Options::new().seed(seed));
    let (mut rng, mut model) = (Rng::new(7 + seed), BTreeMap::new());
    let mut quick = 0;
    for i in 0..COUNT as u64 {
        // Some differ in one of their first symbols only, or in the last.
        let key = match i % 16 {
            0 => rng.next_u64() & !0xffff_ffff,
            1 => model.keys().next_back().copied().unwrap_or(0_u64) ^ 1,
            _ => rng.next_u64(),
        };
        let old = model.insert(key, i);
        if let Some(done) = quickly(&map, key, i, Rule::Always) {
            assert_eq!(done, old.map_or(Outcome::New, replaced), "{key:#x}");
            quick += 1;
        } else {
            assert_eq!(map.pin().insert(&key.to_be_bytes(), i).as_deref(), old.as_ref());
        }
        if i.is_power_of_two() || i % 8_192 == 0 {
            map.pin().check().unwrap();
        }
    }
    let pinned = map.pin();
    pinned.check().unwrap();
    assert_eq!(pinned.len(), model.len());
    let all: Vec<_> = pinned.iter().map(|(key, value)| (key.to_vec(), *value)).collect();
    let expected: Vec<_> =
        model.iter().map(|(key, value)| (key.to_be_bytes().to_vec(), *value)).collect();
    assert_eq!(all, expected);
    for (key, value) in &model {
        assert_eq!(pinned.get(&key.to_be_bytes()).as_deref(), Some(value));
    }
    let mut there = 0;
    for (key, value) in &mut model {
        if let Some(done) = quickly(&map, *key, 0, Rule::Absent) {
            assert_eq!(done, Outcome::Refused(Some(word::pack(*value))), "{key:#x}");
            assert_eq!(quickly(&map, *key, *value + 1, Rule::Always), Some(replaced(*value)));
            *value += 1;
            there += 1;
        }
        assert_eq!(pinned.get(&key.to_be_bytes()).as_deref(), Some(&*value));
    }
    pinned.check().unwrap();
    assert_eq!(pinned.len(), model.len());
    if !cfg!(any(miri, small_leaves)) {
        assert!(quick.min(there) > COUNT / 2, "{quick} and {there} of {COUNT}");
    }
}

#[test]
fn a_quick_write_changes_the_version_of_its_trie() {
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    let mut rng = Rng::new(8);
    let (map, guard) = (random(&mut rng), epoch::pin());
    for _ in 0..100 {
        let key = next_quick(&map, &mut rng);
        let trie = map.trie_of_eight(Baseline, &guard, key).unwrap();
        let seen = trie.version().begin();
        if quickly(&map, key, 1, Rule::Always).is_some() {
            assert!(trie.version().end(seen).is_none(), "{key:#x}");
            let seen = trie.version().begin();
            if quickly(&map, key, 2, Rule::Always).is_some() {
                assert!(trie.version().end(seen).is_none(), "{key:#x}");
            }
        }
    }
    map.pin().check().unwrap();
}

#[test]
fn a_batch_asks_for_no_name_that_is_not_short() {
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    // Leaves of all of these are on the fourth level.
    let key = |symbols: [u64; 6]| {
        symbols.iter().fold(0, |key, symbol| key << SYMBOL_BITS | symbol) << (u64::BITS - 36)
    };
    let mut model = BTreeMap::new();
    for i in 0..16 * 8 * 8 * 8_u64 {
        let [first, rest] = [i / 512, i % 512];
        model.insert(key([first, rest / 64, rest / 8 % 8, rest % 8, 0, 0]), i);
    }
    let map = CuckooTrie::from_sorted(model.iter().map(|(key, i)| (key.to_be_bytes(), *i)));
    let map = map.unwrap();
    // One that parts from another on the fifth level, and one that goes on with it.
    for symbols in [[0, 0, 0, 1, 5, 0], [0, 0, 0, 1, 5, 7]] {
        let (bytes, value) = (key(symbols).to_be_bytes(), 1 << 20 | symbols[5]);
        map.pin().insert_batch([(&bytes[..], value)]);
        model.insert(key(symbols), value);
    }
    let pinned = map.pin();
    pinned.check().unwrap();
    let all: Vec<_> = pinned.iter().map(|(key, value)| (key.to_vec(), *value)).collect();
    assert!(all.into_iter().eq(model.iter().map(|(key, i)| (key.to_be_bytes().to_vec(), *i))));
}

#[test]
fn no_key_goes_into_a_trie_that_is_dead() {
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    let mut rng = Rng::new(9);
    let (map, guard) = (random(&mut rng), epoch::pin());
    let key = next_quick(&map, &mut rng);
    let trie = map.trie_of_eight(Baseline, &guard, key).unwrap();
    trie.version().lock().retire();
    assert_eq!(quickly(&map, key, 1, Rule::Always), None);
}
