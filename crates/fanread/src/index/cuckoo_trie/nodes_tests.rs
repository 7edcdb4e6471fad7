//! Pairs and branches in a single trie: what becomes of two leaves of one name, and of a label with children, when keys come and go.

use super::*;
use crate::index::cuckoo_trie::layout::WIDE_WEIGHT;

/// Keys that agree as far as this many bits.
fn parting(bits: [usize; 2]) -> [Vec<u8>; 3] {
    let trunk: Vec<u8> = (0..14).map(|i| i * 13 + 5).collect();
    let flipped = |bit: usize| {
        let mut key = trunk.clone();
        key[bit / 8] ^= 0x80 >> (bit % 8);
        key
    };
    [trunk.clone(), flipped(bits[0]), flipped(bits[1])]
}

#[test]
fn two_keys_are_one_node() {
    let mut single = Single::new(1, 4, UNBOUNDED);
    let [a, b, c] = parting([90, 7]);
    for key in [&b, &a] {
        single.insert(key, 1);
    }
    assert_eq!(single.trie().weight(), WIDE_WEIGHT as usize);
    single.insert(&a, 2);
    single.insert(&b, 3);
    single.check();
    single.check_gets(&[c, a[..5].to_vec(), vec![]]);
    assert_eq!(single.remove(&a), Some(2));
    assert_eq!(single.trie().weight(), INNER_WEIGHT);
    single.check();
    single.check_gets(&[a]);
}

#[test]
fn a_third_key_parts_from_a_pair_at_every_symbol_in_every_order() {
    for first in (0..112).step_by(5) {
        for second in (0..112).step_by(3).filter(|second| *second != first) {
            let keys = parting([first, second]);
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let mut single = Single::new(first as u64, 1, UNBOUNDED);
                for at in order {
                    single.insert(&keys[at], at as u64);
                    single.check();
                }
                single.check_gets(&[]);
                let of_three = single.trie().weight();
                for at in order {
                    single.remove(&keys[at]);
                    single.check();
                    single.check_gets(&keys);
                    single.insert(&keys[at], 3 + at as u64);
                    single.check();
                    assert!(single.trie().weight() <= of_three + 4 * INNER_WEIGHT);
                }
                for at in order {
                    single.remove(&keys[at]);
                    single.check();
                }
                assert_eq!(single.trie().weight(), 0);
            }
        }
        if cfg!(miri) {
            return;
        }
    }
}

#[test]
fn keys_that_end_within_each_other_are_pairs_too() {
    let long: Vec<u8> = (0..12).map(|i| i * 7).chain([0, 0, 0]).collect();
    for lens in [[3, 9, 15], [0, 12, 13], [12, 13, 14], [1, 2, 15]] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            let mut single = Single::new(2, 1, UNBOUNDED);
            for at in order {
                single.insert(&long[..lens[at]], at as u64);
                single.check();
            }
            single.check_gets(&[long[..7].to_vec()]);
            for at in order {
                single.remove(&long[..lens[at]]);
                single.check();
            }
        }
    }
}

/// Two keys of one hash that agree in their first bytes.
fn of_one_hash(single: &Single) -> [Vec<u8>; 2] {
    let mut seen = BTreeMap::new();
    for number in 0..1_u32 << 20 {
        let key = [&b"behind the same start "[..], &number.to_be_bytes()].concat();
        if let Some(other) = seen.insert(single.hash(&key), key.clone()) {
            return [other, key];
        }
    }
    panic!("2^39 pairs for each of 2^20 hashes");
}

#[test]
fn keys_of_one_hash_are_no_pair() {
    let mut single = Single::new(3, 32.min(MAX_BUCKETS), UNBOUNDED);
    let [a, b] = of_one_hash(&single);
    let near = [&a[..], b"!"].concat();
    let far = b"behind another".to_vec();
    let all = [&a, &b, &near, &far];
    for order in [[0, 1, 2, 3], [3, 0, 1, 2], [0, 3, 1, 2], [1, 2, 0, 3], [2, 0, 3, 1]] {
        for at in order {
            single.insert(all[at], at as u64);
            single.check();
            single.check_gets(&all.map(Clone::clone));
        }
        for at in order {
            single.remove(all[at]);
            single.check();
        }
    }
    // One of a pair has the hash of the third key, which agrees with it further than with the other.
    for (there, key) in [(&a, &b), (&b, &a)] {
        single.insert(there, 1);
        single.insert(&far, 2);
        assert_eq!(single.trie().weight(), WIDE_WEIGHT as usize);
        single.insert(key, 3);
        single.check();
        single.check_gets(core::slice::from_ref(&near));
        single.rebuild(single.trie().lines(), 1).unwrap();
        single.check();
        for key in all {
            single.remove(key);
        }
    }
}

#[test]
fn a_record_that_is_replaced_stays_in_its_pair() {
    let mut single = Single::new(4, 4, UNBOUNDED);
    let [a, b, _] = parting([50, 3]);
    single.insert(&a, 1);
    single.insert(&b, 2);
    for value in 3..20 {
        single.insert(if value % 2 == 0 { &a } else { &b }, value);
        assert_eq!(single.trie().weight(), WIDE_WEIGHT as usize);
        single.check();
    }
}

/// Keys that share `len` symbols behind the first, and then have each of the 64 that there are; and one that parts before.
fn fan(len: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let with = |first: u64, last: u64| {
        let trunk = 0x0fed_cba9_8765_4321 >> 4 & ((1 << (6 * len)) - 1);
        let symbols = (first << (6 * len) | trunk) << 6 | last;
        [&(symbols << (64 - 6 * (len + 2))).to_be_bytes()[..], b"leaf"].concat()
    };
    (with(1, 0), (0..64).map(|last| with(0, last)).collect())
}

#[test]
fn a_branch_takes_children_as_long_as_they_fit() {
    for len in 0..=8 {
        let (other, keys) = fan(len);
        let mut single = Single::new(len as u64, 32.min(MAX_BUCKETS), UNBOUNDED);
        single.insert(&other, 0);
        let mut rng = Rng::new(len as u64);
        let mut order: Vec<usize> = (0..if cfg!(miri) { 12 } else { 64 }).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at + 1));
        }
        for (count, at) in order.iter().enumerate() {
            single.insert(&keys[*at], 1);
            single.check();
            let leaves = (count + 1) * INNER_WEIGHT;
            let fork = match count + 1 {
                // Alone, and a pair.
                1 => 0,
                2 => continue,
                count if len + count <= 9 && count <= 8 && len <= 7 => 1,
                _ if len == 0 => 1,
                _ => 2,
            };
            // The other key, and the root above both.
            let weight = (fork + 2) * INNER_WEIGHT + leaves;
            assert_eq!(
                single.trie().weight(),
                if count == 0 { 7 } else { weight },
                "{len} {count}"
            );
        }
        single.check_gets(&[]);
        for at in order {
            single.remove(&keys[at]);
            single.check();
        }
        assert_eq!(single.trie().weight(), INNER_WEIGHT);
        single.check_gets(&keys);
    }
}

#[test]
fn a_child_without_room_leaves_its_branch_as_it_was() {
    let (mut refused, mut added) = (0, 0);
    for seed in 0..if cfg!(miri) { 2 } else { 60 } {
        for len in [5, 6, 7] {
            let (other, keys) = fan(len);
            let mut single = Single::new(seed, 2, UNBOUNDED);
            single.insert(&other, 0);
            // Others take some of the ten slots.
            for other in 0..seed as u8 % 6 {
                let _full = single.try_insert(&[200 + 8 * other; 5], 2);
            }
            for key in &keys[..8] {
                let (weight, keys) = (single.trie().weight(), single.trie().keys());
                if single.try_insert(key, 1).is_ok() {
                    added += 1;
                } else {
                    refused += 1;
                    assert_eq!((single.trie().weight(), single.trie().keys()), (weight, keys));
                }
                single.check();
            }
            single.check_gets(&keys);
        }
    }
    assert!(refused > 0 && added > 0);
}

/// A trunk of forty jumps, three keys behind it, and keys that leave it at all symbols, or end there.
#[test]
fn a_row_of_jumps_is_followed_to_where_a_key_leaves_it() {
    if cfg!(small_leaves) {
        // The table that it takes is none of the small ones.
        return;
    }
    let trunk: Vec<u8> = (0..300_u32).map(|i| (i * i / 7 + i) as u8).collect();
    let behind = [0, 100, 200].map(|last| [&trunk[..], &[last]].concat());
    // Rows of all lengths, each within the row before it: what leaves the trunk last cuts it first, or the other way round.
    let step = if cfg!(miri) { 400 } else { 9 };
    let mut leaving: Vec<Vec<u8>> = (0..8 * trunk.len())
        .step_by(step)
        .map(|bit| {
            let mut key = behind[bit % 3].clone();
            key[bit / 8] ^= 0x80 >> (bit % 8);
            key.truncate(key.len().min(bit / 8 + 1 + bit % 120));
            key
        })
        .chain((0..trunk.len()).step_by(step).map(|len| trunk[..len].to_vec()))
        .collect();
    for (seed, lines) in [(1, 64), (2, 2 * BLOCK_BUCKETS), (3, 3 * BLOCK_BUCKETS)] {
        let mut single = Single::new(seed, lines, UNBOUNDED);
        for key in &behind {
            single.insert(key, 7);
        }
        single.check();
        single.check_gets(&leaving);
        for (i, key) in leaving.iter().enumerate() {
            single.insert(key, i as u64);
            if i % 16 == 0 {
                single.check();
                single.check_gets(&leaving);
            }
        }
        leaving.rotate_left(seed as usize * 50);
        for (i, key) in leaving.iter().enumerate() {
            assert!(single.remove(key).is_some());
            if i % 16 == 0 {
                single.check();
                single.check_gets(&leaving);
            }
        }
        single.check();
        leaving.reverse();
    }
}
