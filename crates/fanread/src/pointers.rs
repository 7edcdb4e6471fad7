//! Values that are pointers, and values that change as they are looked at, against every map that keeps them as words.
//!
//! A reference to what lives for good has eight bytes and nothing to drop, so it is kept where a number would be, and a writer replaces
//! it there. Who reads it reads what it points to: the store that brings it must bring that along. Where processors store in order
//! nobody would notice if it did not, so these are tests for Miri, which knows what any processor may do:
//!
//! ```text
//! MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-preemption-rate=0.05" ci/miri.sh pointers
//! ```
//!
//! Leaks are ignored, as it does not see what the epochs keep.
//!
//! An atomic is kept so, too, and found as a copy that is changed where it is: in a plain word that may not be.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::{CuckooTrie, MlpIndex, OrderedMap, SkipList, U64Map, Wormhole};

const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2_000 };

/// Something to point to, which writers alone have in their hands.
fn numbered(n: u64) -> &'static [u64; 2] {
    /// So that nothing is lost.
    static ALL: Mutex<Vec<&[u64; 2]>> = Mutex::new(Vec::new());

    let new = Box::leak(Box::new([n; 2]));
    ALL.lock().unwrap().push(new);
    new
}

/// One thread replaces the value of a key again and again; another one reads what the value points to. `others` are first put beside
/// it. Both keep their pins: to pin anew is a fence.
macro_rules! run {
    ($map:ident, others: |$n:ident| $other:expr, put: $key:expr, get: $found:expr) => {{
        let (map, is_done) = ($map::new(), AtomicBool::new(false));
        for $n in 0..20_u64 {
            map.pin().insert($other, numbered($n));
        }
        map.pin().insert($key, numbered(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let (pinned, mut last) = (map.pin(), 0);
                while !is_done.load(Relaxed) {
                    let [a, b] = **pinned.get($found).unwrap();
                    assert!(a == b && a >= last, "{a}, {b} after {last}");
                    last = a;
                }
            });
            let pinned = map.pin();
            for n in 1..=ROUNDS {
                pinned.insert($key, numbered(n));
            }
            is_done.store(true, Relaxed);
        });
    }};
}

macro_rules! tests {
    ($($name:ident: $map:ident, $key:expr, |$n:ident| $other:expr;)+) => {
        $(
            #[test]
            fn $name() {
                run!($map, others: |$n| $other, put: $key, get: $key);
            }
        )+
    };
}

/// Numbers here and there.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Keys that need a record.
fn long(n: u64) -> Vec<u8> {
    format!("a key that needs a record, {n}").into_bytes()
}

tests! {
    a_pointer_in_a_leaf_of_a_cuckoo_trie_brings_what_it_points_to: CuckooTrie, b"8 bytes.", |n| &spread(n).to_be_bytes();
    a_pointer_in_a_record_of_a_cuckoo_trie_brings_what_it_points_to: CuckooTrie, b"a key that needs a record", |n| &long(n);
    a_pointer_in_a_leaf_of_a_wormhole_brings_what_it_points_to: Wormhole, b"8 bytes.", |n| &spread(n).to_be_bytes();
    a_pointer_in_a_record_of_a_wormhole_brings_what_it_points_to: Wormhole, b"a key that needs a record", |n| &long(n);
    a_pointer_in_an_ordered_map_brings_what_it_points_to: OrderedMap, b"a key that needs a record", |n| &long(n);
    a_pointer_in_a_u64_map_brings_what_it_points_to: U64Map, 7, |n| spread(n);
    a_pointer_in_an_mlp_index_brings_what_it_points_to: MlpIndex, 7, |n| spread(n);
}

#[test]
fn a_pointer_in_a_skip_list_brings_what_it_points_to() {
    run!(SkipList, others: |n| spread(n), put: 7, get: &7);
}

#[test]
fn what_was_found_may_change_as_threads_look_at_it() {
    macro_rules! look {
        ($map:ident, $key:expr) => {
            let map = $map::new();
            let pinned = map.pin();
            pinned.insert($key, AtomicU64::new(1));
            let found = pinned.get($key).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| found.fetch_add(2, Relaxed));
                found.fetch_add(4, Relaxed);
            });
            assert_eq!(found.load(Relaxed), 7);
            assert_eq!(pinned.get($key).map(|value| value.load(Relaxed)), Some(1), "a copy");
        };
    }
    look!(Wormhole, b"key");
    look!(CuckooTrie, b"key");
    look!(OrderedMap, b"key");
    look!(MlpIndex, 7);
    look!(U64Map, 7);
    let map = SkipList::new();
    map.pin().insert(7, AtomicU64::new(1));
    let pinned = map.pin();
    let found = pinned.get(&7).unwrap();
    found.fetch_add(6, Relaxed);
    assert_eq!(found.load(Relaxed), 7);
}
