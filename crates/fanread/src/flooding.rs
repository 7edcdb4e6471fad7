//! Keys that somebody has made to collide, against every map that hashes.
//!
//! Whoever knows the key of a map's hash function can compute such keys; it is drawn from the system's randomness, and only
//! tests and who asks for it by `Options::seed` know it. So two maps are filled with the same keys: the *victim*, whose seed the
//! attacker knows, and a *stranger*, whose seed it does not. The victim has to answer rightly in bounded memory. For the
//! stranger the keys are as any others: neither the memory nor the fullest place of a table is twice that of random keys.
//!
//! Files of `Cceh` have their key in the header, and are filled likewise.

use std::collections::HashMap;
use std::{env, fs, process};

use testkit::Rng;

use crate::hash::mix::{fold, stream};
use crate::hash::permute::Permutation;
use crate::hash::prefix::Seed;
use crate::persist::cceh::{CcehError, CcehOptions};
use crate::{Cceh, CuckooTrie, InsertError, MlpIndex, Options, OrderedMap, U64Map, Wormhole};

/// The seed that is known, and another.
const KNOWN: u64 = 42;
const OTHER: u64 = 43;

/// Keys of a flood.
const KEYS: usize = 3_000;

/// What a map takes less than in any case: large pieces are taken from the system at once.
const PIECE: usize = 1 << 20;

fn random_numbers() -> impl Iterator<Item = u64> {
    let mut rng = Rng::new(1);
    core::iter::from_fn(move || Some(rng.next_u64()))
}

fn random_strings() -> impl Iterator<Item = Vec<u8>> {
    random_numbers().map(|n| n.to_be_bytes().to_vec())
}

/// Numbers whose hashes begin, and whose hashes end alike.
fn floods_of_numbers() -> [Vec<u64>; 2] {
    let hashes = Permutation::new(KNOWN);
    [0, 44].map(|shift| (0..KEYS as u64).map(|n| hashes.number(n << shift)).collect())
}

/// Strings whose hashes begin alike, end alike, and are the same in all bits.
fn floods_of_strings() -> [Vec<Vec<u8>>; 3] {
    let seed = Seed::fixed(KNOWN);
    let alike = |alike: fn(u64) -> bool| {
        random_strings().filter(|key| alike(seed.hash(key))).take(KEYS).collect()
    };
    // A block that equals the state before it makes the state 0, whatever the secret step is.
    let (start, step) = (stream(KNOWN, 8), stream(KNOWN, 9) | 1);
    let same: Vec<Vec<u8>> = random_numbers()
        .map(|n| [start, n, fold(n, step)].map(u64::to_le_bytes).concat())
        .take(KEYS)
        .collect();
    assert!(same.iter().all(|key| seed.hash(key) == seed.hash(&same[0])), "a full collision");
    [alike(|hash| hash >> 52 == 0), alike(|hash| hash & 0xfff == 7), same]
}

/// Strings that make a list of leaves have borders that begin with those of a flood: many of them behind each.
fn behind(stems: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let keys = stems.iter().take(100);
    keys.flat_map(|stem| (0..60_u8).map(move |tail| [&stem[..], &[tail; 9]].concat())).collect()
}

/// How many hashes the fullest of as many places has as there are hashes: by where they begin, or by where they end.
fn fullest(hashes: &[u64]) -> usize {
    let places = hashes.len() as u128;
    let of_place = |place: &dyn Fn(u64) -> u64| {
        let mut counts = HashMap::new();
        for hash in hashes {
            *counts.entry(place(*hash)).or_insert(0) += 1;
        }
        counts.into_values().max().unwrap_or(0)
    };
    let scaled = |hash: u64| ((u128::from(hash) * places) >> 64) as u64;
    of_place(&scaled).max(of_place(&|hash| scaled(hash.rotate_left(48))))
}

#[test]
fn a_flood_under_one_seed_fills_no_place_of_another_more_than_random_keys_do() {
    let (known, other) = (Permutation::new(KNOWN), Permutation::new(OTHER));
    let random: Vec<u64> = random_numbers().map(|key| other.hash(key)).take(KEYS).collect();
    for flood in floods_of_numbers() {
        let hashes = |function: &Permutation| -> Vec<u64> {
            flood.iter().map(|key| function.hash(*key)).collect()
        };
        assert!(fullest(&hashes(&known)) > 10 * fullest(&random), "the flood is none");
        assert!(fullest(&hashes(&other)) <= 2 * fullest(&random));
    }
    let (known, other) = (Seed::fixed(KNOWN), Seed::fixed(OTHER));
    let random: Vec<u64> = random_strings().map(|key| other.hash(&key)).take(KEYS).collect();
    for flood in floods_of_strings() {
        let hashes = |seed: &Seed| -> Vec<u64> { flood.iter().map(|key| seed.hash(key)).collect() };
        assert!(fullest(&hashes(&known)) > 10 * fullest(&random), "the flood is none");
        assert!(fullest(&hashes(&other)) <= 2 * fullest(&random));
    }
}

/// Fills maps of a kind with floods, and looks at what they take. `$key` makes a key of what is in a `$list`.
macro_rules! flooded {
    ($($name:ident: $map:ident, $list:ty, $floods:expr, $random:expr, |$of:ident| $key:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let filled = |seed, keys: &$list| {
                    let map = $map::with_options(Options::new().seed(seed));
                    let pinned = map.pin();
                    for (n, $of) in (0..).zip(keys) {
                        assert!(pinned.insert($key, n).is_none());
                    }
                    pinned.check().unwrap();
                    for (n, $of) in (0_usize..).zip(keys) {
                        assert_eq!(pinned.get($key).as_deref(), Some(&n));
                    }
                    let bytes = map.memory_usage().total_bytes();
                    for $of in keys {
                        assert!(pinned.remove($key).is_some());
                    }
                    pinned.check().unwrap();
                    assert!(pinned.is_empty());
                    bytes
                };
                for flood in $floods {
                    // As long as those of the flood.
                    let random: $list = $random(&flood);
                    let usual = filled(OTHER, &random).max(PIECE);
                    let (victim, stranger) = (filled(KNOWN, &flood), filled(OTHER, &flood));
                    assert!(stranger <= 2 * usual, "{stranger} bytes for {usual}");
                    assert!(victim <= 4 * usual, "{victim} bytes for {usual}");
                }
            }
        )*
    };
}

/// As many random strings, each as long as one of these.
fn like(flood: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(2);
    flood.iter().map(|key| key.iter().map(|_| rng.next_u64() as u8).collect()).collect()
}

/// The floods, and keys behind those of each.
fn all_floods_of_strings() -> impl Iterator<Item = Vec<Vec<u8>>> {
    floods_of_strings().into_iter().flat_map(|flood| [behind(&flood), flood])
}

flooded! {
    a_flooded_ordered_map_answers_in_bounded_memory: OrderedMap, Vec<Vec<u8>>,
        all_floods_of_strings(), like, |key| &key[..];
    a_flooded_wormhole_answers_in_bounded_memory: Wormhole, Vec<Vec<u8>>,
        all_floods_of_strings(), like, |key| &key[..];
    a_flooded_cuckoo_trie_answers_in_bounded_memory: CuckooTrie, Vec<Vec<u8>>,
        all_floods_of_strings(), like, |key| &key[..];
    a_flooded_u64_map_answers_in_bounded_memory: U64Map, Vec<u64>,
        floods_of_numbers(), |_: &Vec<u64>| random_numbers().take(KEYS).collect(), |key| *key;
}

/// Numbers whose prefixes of four bytes, under which they are found, have both of their buckets in a sixteenth of a table.
fn flood_of_prefixes() -> Vec<u64> {
    let start = stream(KNOWN, 4);
    let steps = [98, 99].map(|at| stream(KNOWN, at) | 1);
    let hash = |prefix: u64| fold(fold(prefix ^ start, steps[0]), steps[1]);
    let mut flood = Vec::new();
    for above in 0..1_u64 << 16 {
        let children = (0..=255).map(|byte| (above << 8 | byte) << 32);
        let alike = children.filter(|key| hash(*key) & 0xf000_0000_f000_0000 == 0);
        let alike: Vec<u64> = alike.collect();
        // Four share no group: each has one of its own, under its prefix.
        if alike.len() > 3 {
            flood.extend(alike);
        }
        if flood.len() >= KEYS {
            break;
        }
    }
    flood
}

#[test]
fn a_flooded_mlp_index_answers_and_refuses_in_bounded_memory() {
    let flood = flood_of_prefixes();
    assert!(flood.len() > 1_000, "{} keys", flood.len());
    let filled = |seed, keys: &[u64]| {
        let map = MlpIndex::with_options(Options::new().seed(seed));
        let pinned = map.pin();
        let mut refused = 0;
        let all: Vec<(u64, bool)> = (keys.iter())
            .map(|key| match pinned.try_insert(*key, *key) {
                Ok(old) => (*key, old.is_none()),
                Err(InsertError::OutOfMemory { value, .. }) => {
                    assert_eq!(value, *key);
                    refused += 1;
                    (*key, false)
                }
                Err(error) => panic!("{error}"),
            })
            .collect();
        pinned.check().unwrap();
        for (key, is_there) in &all {
            assert_eq!(pinned.get(*key).is_some(), *is_there);
        }
        let bytes = map.memory_usage().total_bytes();
        assert!(all.iter().all(|(key, is_there)| pinned.remove(*key).is_some() == *is_there));
        pinned.check().unwrap();
        (bytes, refused)
    };
    // As many that share as much, under the seed that nobody knew.
    let random: Vec<u64> = flood.iter().map(|key| key ^ 0x5a5a << 40).collect();
    let (usual, none) = filled(OTHER, &random);
    let (stranger, refused) = filled(OTHER, &flood);
    assert!(stranger <= 2 * usual.max(PIECE), "{stranger} bytes for {usual}");
    assert_eq!((none, refused), (0, 0));
    let (victim, _) = filled(KNOWN, &flood);
    assert!(victim <= 64 * usual.max(PIECE), "{victim} bytes for {usual}");
}

#[test]
fn a_flooded_cceh_answers_and_refuses_in_a_bounded_file() {
    use std::os::unix::fs::MetadataExt;

    let folder = env::temp_dir().join(format!("fanread-flood-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let filled = |seed, keys: &[u64]| {
        let path = folder.join("flood.cceh");
        let map = Cceh::create(&path, CcehOptions::new().seed(seed)).unwrap();
        let is_there = |key: &u64| match map.insert(*key, !*key) {
            Ok(old) => old.is_none(),
            Err(CcehError::Crowded) => false,
            Err(error) => panic!("{error}"),
        };
        let there: Vec<bool> = keys.iter().map(is_there).collect();
        map.check().unwrap();
        for (key, is_there) in keys.iter().zip(&there) {
            assert_eq!(map.get(*key), is_there.then_some(!*key));
        }
        let bytes = fs::metadata(&path).unwrap().blocks() as usize * 512;
        drop(map);
        fs::remove_file(&path).unwrap();
        (bytes, there.iter().filter(|there| !**there).count())
    };
    let random: Vec<u64> = random_numbers().take(KEYS).collect();
    let (usual, _) = filled(OTHER, &random);
    // All in one place of one segment, whatever its depth; and all at one end of all hashes.
    let hashes = Permutation::new(KNOWN);
    let one_place: Vec<u64> = (0..KEYS as u64).map(|n| hashes.number(n << 24)).collect();
    for flood in floods_of_numbers().into_iter().chain([one_place]) {
        let (stranger, refused) = filled(OTHER, &flood);
        assert!(stranger <= 2 * usual.max(PIECE) && refused == 0, "{stranger} bytes for {usual}");
        let (victim, _) = filled(KNOWN, &flood);
        assert!(victim <= 64 * usual.max(PIECE), "{victim} bytes for {usual}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
