//! Values that are pointers, against every map that keeps them as words.
//!
//! A reference to what lives for good has eight bytes and nothing to drop, so it is kept where a number would be, and a writer replaces
//! it there. Who reads it reads what it points to: the store that brings it must bring that along. Where processors store in order
//! nobody would notice if it did not, so these are tests for Miri, which knows what any processor may do
//! (`MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks" ci/miri.sh pointers`: it does not see what the epochs keep).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// One thread replaces the value of a key again and again, by `put`; another one reads what the value points to.
fn run(put: impl Fn(&'static [u64; 2]) + Sync, get: impl Fn() -> Option<&'static [u64; 2]> + Sync) {
    let is_done = AtomicBool::new(false);
    put(numbered(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            while !is_done.load(Relaxed) {
                let [a, b] = *get().unwrap();
                assert!(a == b && a >= last, "{a}, {b} after {last}");
                last = a;
                thread::yield_now();
            }
        });
        for n in 1..=ROUNDS {
            put(numbered(n));
            thread::yield_now();
        }
        is_done.store(true, Relaxed);
    });
}

/// Tests of a key in a map of others.
macro_rules! tests {
    ($($name:ident: $map:ident, $key:expr, |$n:ident| $other:expr;)+) => {
        $(
            #[test]
            fn $name() {
                let map = $map::new();
                for $n in 0..20_u64 {
                    map.pin().insert($other, numbered($n));
                }
                run(
                    |value| _ = map.pin().insert($key, value),
                    || map.pin().get($key).map(|value| *value),
                );
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
    let map = SkipList::new();
    run(|value| _ = map.pin().insert(7, value), || map.pin().get(&7).map(|value| *value));
}
