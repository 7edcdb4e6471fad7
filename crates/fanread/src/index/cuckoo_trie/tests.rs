//! What cannot be seen or brought about from outside: memory that runs out at any moment, buckets that are worn out.

use super::{CuckooTrie as Map, Pinned};

/// Whether keys are numbers.
const NUMBERS: bool = false;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

/// Every bucket's version ends some day; a trie is replaced before one of its own does.
#[test]
#[cfg(small_leaves)]
fn a_trie_with_a_worn_bucket_is_replaced() {
    let map = Map::<Box<u64>>::new();
    let pinned = map.pin();
    let keys: [&[u8]; 3] = [b"ant", b"bee", b"cat"];
    for key in keys {
        pinned.insert(key, Box::new(0));
    }
    let mut names = std::collections::HashSet::new();
    for n in 1..1_000 {
        // A value of its own record: the leaf is stored again.
        assert_eq!(pinned.insert(keys[n as usize % 3], Box::new(n)).is_some(), true);
        let trie = map.first_trie().unwrap();
        names.insert(trie.name().get());
        for bucket in 0..trie.buckets() {
            assert!(trie.bucket(bucket).begin().number() < 2 * super::layout::WORN);
        }
    }
    assert!(names.len() > 1, "the trie was never replaced");
    pinned.check().unwrap();
}
