//! Shapes of keys that make every entry change its form, against `BTreeMap`, and memory that runs out at any moment.

use self::map::{Map, Pinned, Whole, library};
use super::layout::{Entry, word_of};
use super::raw::Segment;
use super::words::Words;

/// The map behind keys of eight bytes.
#[allow(dead_code, reason = "the tests here use a part")]
#[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
mod map {
    use crate::api::{InsertError, LoadError, MemoryUsage, Options, Ref};
    pub(super) use crate::index::mlp_index::{self as library, MlpIndex as Whole};

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/numbers.rs"));
}

/// Whether keys are numbers.
const NUMBERS: bool = true;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

#[path = "../shapes.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map on numbers")]
mod shapes;

/// Who meets a segment that is being copied copies another one that will be full soon.
#[test]
fn who_waits_for_a_copy_copies_what_is_full_soon() {
    use super::raw::Table;
    use crate::sync::backoff::Backoff;

    let (map, mut rng, mut keys) = (Whole::<u64>::new(), testkit::Rng::new(1), Vec::new());
    let pinned = map.pin();
    let (busy, soon) = loop {
        keys.push(rng.next_u64());
        pinned.insert(keys[keys.len() - 1], 1);
        if keys.len() % 64 == 0 || cfg!(any(small_leaves, miri)) {
            let tables = map.tables(&pinned.guard).unwrap();
            let all: Vec<_> = tables.of(Table::Leaves).all().collect();
            if let Some(at) = all.iter().position(|segment| segment.is_full_soon())
                && all.len() > 1
            {
                break (all[(at + 1) % all.len()], all[at]);
            }
        }
    };
    let is_named = || map.tables(&pinned.guard).unwrap().of(Table::Leaves).all();
    let mut backoff = Backoff::new();
    assert!(map.wait_for(&pinned, &mut backoff).is_none(), "nobody copies anything");
    assert!(busy.claim());
    let mut backoff = Backoff::new();
    drop(map.wait_for(&pinned, &mut backoff).unwrap());
    assert!(!is_named().any(|named| core::ptr::eq(named, soon)), "replaced");
    assert!(map.wait_for(&pinned, &mut backoff).is_none(), "once a call");
    busy.open();
    pinned.check().unwrap();
    assert!(keys.iter().all(|key| pinned.contains_key(*key)));
}

/// What a map keeps for its next segments is memory that it takes.
#[test]
#[cfg(not(any(small_leaves, miri, feature = "global-alloc")))]
fn a_block_that_is_kept_for_a_later_segment_is_counted_as_idle() {
    use super::raw::{Garbage, Segment};
    use crate::mem::pages::HUGE_BYTES;
    use crate::sync::shared::{Owned, Shared};

    let map = Whole::<u64>::new();
    map.pin().insert(1, 1);
    let before = map.memory_usage();
    let segment = Segment::new(HUGE_BYTES / 64, 0, None).unwrap();
    let replaced = Shared::new(Owned::new(segment)).retire().unwrap();
    drop(map.reuse(vec![Garbage::Segment(replaced)]));
    let after = map.memory_usage();
    assert_eq!(after.total_bytes(), before.total_bytes() + HUGE_BYTES);
    assert_eq!(after.idle_bytes, before.idle_bytes + HUGE_BYTES);
}

/// A walk comes to the end of a node of sixteen keys, each a group, which has a sibling. Then all of these are removed, so that a node of
/// other keys, which branches at the same byte as their parent did, comes up to where that was.
fn walk_past_a_parent_that_is_gone(walked: u64, others: u64, up: bool) {
    let map = Whole::<()>::new();
    let pinned = map.pin();
    let key = |bytes: [u64; 3]| bytes[0] << 56 | bytes[1] << 48 | bytes[2] << 40;
    let node = (0..16).map(|last| key([walked, 5, last]));
    let sibling = key([walked, if up { 9 } else { 1 }, 0]);
    let going: Vec<u64> = node.clone().chain([sibling]).collect();
    let staying: Vec<u64> = (1..=9).map(|middle| key([others, middle, 0])).collect();
    for key in going.iter().chain(&staying) {
        pinned.insert(*key, ());
    }
    let mut range = if up {
        pinned.range(key([walked, 5, 0])..)
    } else {
        pinned.range(..=key([walked, 5, 15]))
    };
    let mut next = || if up { range.next() } else { range.next_back() }.map(|entry| entry.0);
    for expected in 0..16 {
        let last = if up { expected } else { 15 - expected };
        assert_eq!(next(), Some(key([walked, 5, last])));
    }
    for key in &going {
        assert!(pinned.remove(*key).is_some());
    }
    pinned.check().unwrap();
    let mut rest: Vec<u64> = core::iter::from_fn(next).collect();
    let are_ahead = up == (walked < others);
    if !up {
        rest.reverse();
    }
    assert_eq!(rest, if are_ahead { staying } else { Vec::new() });
}

#[test]
fn a_walk_takes_no_node_of_other_keys_for_the_parent_of_what_is_gone() {
    for (walked, others) in [(1, 2), (2, 1)] {
        for up in [true, false] {
            walk_past_a_parent_that_is_gone(walked, others, up);
        }
    }
}

/// All entries of both tables, but for values.
fn entries(map: &Whole<u64>) -> Vec<(usize, Entry)> {
    let guard = crate::sync::epoch::pin();
    let Some(tables) = map.tables(&guard) else { return Vec::new() };
    let segments = tables.leaves.all().chain(tables.nodes.all());
    let of = |bucket| {
        let words = Words::of(bucket);
        let entry = move |slot| match words.entry(slot, true) {
            Entry::Leaf { level, key, .. } => Entry::Leaf { level, key, value: word_of(0) },
            node @ Entry::Node(_) => node,
        };
        words.kinds.heads().map(entry).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = segments.flat_map(Segment::buckets).flat_map(of).collect();
    all.sort_unstable_by_key(|entry| (entry.home(), entry.number()));
    all.into_iter().map(|entry| (entry.home().0, entry)).collect()
}

/// Sets of keys, of 0 to 9 and of many, that share few bytes or many with each other.
fn sets_of_keys() -> impl Iterator<Item = Vec<u64>> {
    let mut rng = testkit::Rng::new(5);
    let few = (0..10).flat_map(|count| core::iter::repeat_n(count, 40));
    let many = if cfg!(miri) { 30 } else { 3000 };
    few.chain(core::iter::repeat_n(many, 20)).map(move |count| {
        let differing = rng.next_u64() & rng.next_u64();
        let mut keys: Vec<u64> = (0..count)
            .map(|_| {
                // Some of the bits that differ at all, from the lowest byte up.
                let bytes = rng.below(8) as u32;
                rng.next_u64() & differing & (u64::MAX >> (8 * bytes))
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    })
}

#[test]
fn a_map_of_ascending_keys_is_the_trie_that_insertions_make() {
    for keys in sets_of_keys() {
        let loaded = Whole::from_sorted(keys.iter().map(|key| (*key, !key))).unwrap();
        let inserted = Whole::new();
        for key in keys.iter().rev() {
            inserted.pin().insert(*key, !key);
        }
        loaded.pin().check().unwrap();
        assert_eq!(entries(&loaded), entries(&inserted), "{keys:x?}");
        assert_eq!(loaded.len(), keys.len());
        assert!(
            loaded
                .pin()
                .iter()
                .map(|(key, value)| (key, *value))
                .eq(keys.iter().map(|key| (*key, !key)))
        );
        // It can be written as any other.
        for key in keys.iter().step_by(2) {
            assert_eq!(loaded.pin().remove(*key).as_deref(), Some(&!key));
        }
        loaded.pin().check().unwrap();
        for key in &keys {
            loaded.pin().insert(*key, *key);
        }
        assert_eq!(entries(&loaded), entries(&inserted), "{keys:x?}");
    }
}

/// An iterator that says nothing of its length, or says too little.
#[test]
fn a_map_of_more_keys_than_were_expected_grows() {
    let count = if cfg!(miri) { 100 } else { 30_000 };
    for expected in [0, count / 100, count / 2] {
        let keys = (0..expected).chain((expected..count).filter(|_| true));
        let map = Whole::<u64>::from_sorted(keys.map(|key| (key * 0x1234_5678_9abc, key))).unwrap();
        map.pin().check().unwrap();
        assert!(
            (0..count).all(|key| map.pin().get(key * 0x1234_5678_9abc).as_deref() == Some(&key))
        );
    }
}

#[test]
fn a_map_with_room_copies_no_segment_of_leaves() {
    let most: usize = if cfg!(miri) { 1_000 } else { 300_000 };
    for count in [0, 10, 1_000, most] {
        let map = Whole::<u64>::with_options(crate::api::Options::new().seed(3).capacity(count));
        let mut rng = testkit::Rng::new(1);
        map.pin().insert(rng.next_u64(), 0);
        let leaves = || {
            let guard = crate::sync::epoch::pin();
            let tables = map.tables(&guard).unwrap();
            tables.leaves.all().map(|segment| segment.buckets().len()).collect::<Vec<_>>()
        };
        let first = leaves();
        for at in 1..count as u64 {
            map.pin().insert(rng.next_u64(), at);
        }
        // Tiny segments are full by chance now and then.
        if count >= 1_000 && !cfg!(any(small_leaves, miri)) {
            assert_eq!(leaves(), first, "{count}");
        }
        map.pin().check().unwrap();
        // It goes on to grow.
        for at in 0..count as u64 {
            map.pin().insert(rng.next_u64(), at);
        }
        assert!(count < 1_000 || leaves().iter().sum::<usize>() > first.iter().sum(), "{count}");
        map.pin().check().unwrap();
    }
}

/// Segments of a small map are as large as they have to be.
#[test]
#[cfg(not(any(small_leaves, miri)))]
fn a_map_of_ten_to_a_hundred_thousand_entries_takes_few_bytes_for_each() {
    let (map, mut rng, mut count) = (Whole::<u64>::new(), testkit::Rng::new(1), 0);
    for entries in (10_000..=100_000).step_by(10_000) {
        while count < entries {
            map.pin().insert(rng.next_u64(), 1);
            count += 1;
        }
        // Key and value are 16 of them.
        let bytes = map.memory_usage().total_bytes() / count;
        println!("{bytes} bytes for each of {count}");
        assert!(bytes <= 52, "{bytes} bytes for each of {count}: {:?}", map.memory_usage());
    }
}
