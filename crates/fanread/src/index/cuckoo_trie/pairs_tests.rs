//! Pairs in a single trie: two leaves of one name, and what becomes of them when a third key comes or one of them goes.

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
        single.check_gets(&[near.clone()]);
        single.rebuild(single.trie().lines(), 1).unwrap();
        single.check();
        all.map(|key| single.remove(key));
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
