//! What cannot be seen or brought about from outside: memory that runs out at any moment, keys that are made to collide.

use testkit::dummy::Counted;

use super::layout::Tag;
use super::{FreeLeaves, Pinned, Wormhole, Wormhole as Map};
use crate::api::Options;
use crate::list::{Leaf as _, Leaves as _};

/// Whether keys are numbers.
const NUMBERS: bool = false;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

/// Keys of 8 bytes whose hashes under the map's seed are all `alike`.
fn colliding_keys(map: &Wormhole<u64>, count: usize, alike: fn(u64) -> bool) -> Vec<Vec<u8>> {
    (0_u64..)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec())
        .filter(|key| alike(map.seed().hash(key)))
        .take(count)
        .collect()
}

#[test]
fn keys_that_share_a_home_line_are_found_and_take_no_more_memory() {
    let map = Wormhole::with_options(Options::new().seed(42));
    let pinned = map.pin();
    let flood = colliding_keys(&map, 3_000, |hash| Tag::of(hash).home(1 << 12) == 0);
    for (n, key) in (0..).zip(&flood) {
        assert!(pinned.insert(key, n).is_none());
    }
    pinned.check().unwrap();
    assert!((0..).zip(&flood).all(|(n, key)| pinned.get(key).is_some_and(|value| *value == n)));
    let ordinary = Wormhole::with_options(Options::new().seed(43));
    for (n, key) in (0..).zip(&flood) {
        ordinary.pin().insert(key, n);
    }
    let bytes = [&map, &ordinary].map(|map| map.memory_usage().total_bytes());
    assert!(bytes[0] <= 2 * bytes[1], "{bytes:?}");
    for key in &flood {
        assert!(pinned.remove(key).is_some());
    }
    pinned.check().unwrap();
}

#[test]
fn a_free_page_becomes_two_leaves_of_half_a_page() {
    let mut free = FreeLeaves::default();
    free.put(64, 128);
    free.put(5, 7);
    assert_eq!([32, 32, 32].map(|lines| free.take(lines)), [Some(128), Some(160), None]);
    free.put(32, 128);
    free.put(64, 192);
    assert_eq!(free.bytes(), (5 + 32 + 64) * 64);
    assert_eq!(
        [64, 64, 32, 5].map(|lines| free.take(lines)),
        [Some(192), None, Some(128), Some(7)]
    );
}

/// The keys that come late are below, among and above those in order; short ones are in slots and long ones in records.
#[test]
fn few_keys_that_come_late_are_put_into_the_order_where_they_belong() {
    for long in [&b""[..], b" and so on"] {
        let key = |n: u64| [&n.to_be_bytes()[4..], long].concat();
        for late in [&[0, 1][..], &[98, 49], &[51, 0, 50, 99], &[9, 7, 5, 3, 1, 8, 6]] {
            let map = Wormhole::new();
            let pinned = map.pin();
            let are_sorted = || {
                let meta = map.list.first(&map.memory).unwrap().meta();
                (meta.sorted(), meta.count())
            };
            for n in (0..100).filter(|n| !late.contains(n)) {
                pinned.insert(&key(n), n);
            }
            assert_eq!(pinned.iter().count(), 100 - late.len());
            assert_eq!(are_sorted(), (100 - late.len(), 100 - late.len()));
            for n in late {
                pinned.insert(&key(*n), *n);
            }
            assert_eq!(are_sorted(), (100 - late.len(), 100));
            assert_eq!(pinned.first_key_value().map(|(key, _)| key.to_vec()), Some(key(0)));
            assert_eq!(are_sorted(), (100, 100), "{late:?}");
            assert!(pinned.iter().map(|(_, value)| *value).eq(0..100), "{late:?}");
        }
    }
}

/// The table is no way to the end: many leaves have keys above any that one could ask it for.
#[test]
fn the_last_leaf_is_known_whatever_keys_begin_with() {
    let key =
        |n: u64| [&[0xff; 80][..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat();
    let map = Wormhole::new();
    let pinned = map.pin();
    let mut keys: Vec<Vec<u8>> = (0..3_000).map(key).collect();
    for key in &keys {
        pinned.insert(key, 0_u64);
    }
    pinned.check().unwrap();
    keys.sort_unstable();
    while let Some(last) = keys.pop() {
        assert_eq!(pinned.pop_last().map(|(key, _)| key.to_vec()), Some(last));
    }
    pinned.check().unwrap();
    let loaded = Wormhole::from_sorted((0..3_000_u64).map(|n| (n.to_be_bytes(), n))).unwrap();
    loaded.pin().check().unwrap();
}

#[test]
fn anchors_that_share_a_place_in_the_table_cost_no_entry_and_no_more_memory() {
    let flooded = Wormhole::with_options(Options::new().seed(42));
    let ordinary = Wormhole::with_options(Options::new().seed(43));
    // Prefixes of 8 bytes are stored; the top bits of these, which choose a place, are zero under the first seed.
    let stems = colliding_keys(&flooded, 300, |hash| hash >> 52 == 0);
    let keys: Vec<Vec<u8>> = (stems.iter())
        .flat_map(|stem| (0..100_u8).map(move |tail| [&stem[..], &[tail; 9]].concat()))
        .collect();
    for map in [&flooded, &ordinary] {
        let pinned = map.pin();
        for (n, key) in (0..).zip(&keys) {
            assert!(pinned.insert(key, n).is_none());
        }
        pinned.check().unwrap();
        assert!((0..).zip(&keys).all(|(n, key)| pinned.get(key).is_some_and(|value| *value == n)));
    }
    let bytes = [&flooded, &ordinary].map(|map| map.memory_usage().total_bytes());
    assert!(bytes[0] <= 2 * bytes[1], "{bytes:?}");
    let pinned = flooded.pin();
    assert!(keys.iter().all(|key| pinned.remove(key).is_some()));
    pinned.check().unwrap();
}

#[cfg(not(small_leaves))]
#[test]
fn few_searches_of_random_keys_have_two_leaves_to_try() {
    let map = Wormhole::with_options(Options::new().seed(1));
    let pinned = map.pin();
    let count: u64 = if cfg!(miri) { 400 } else { 40_000 };
    let key = |n: u64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93).to_be_bytes()
    };
    for n in 0..count {
        assert!(pinned.insert(&key(n), n).is_none());
    }
    let has_two = |n: &u64| {
        let hint = map.hint(&key(*n), &pinned.guard);
        hint.is_some_and(|(_, hint)| hint.second.is_some())
    };
    let with_two = (0..count).filter(has_two).count();
    assert!(with_two <= count as usize / 50, "{with_two}");
}

/// The last leaf begins with values beside its words, for which it has a page; the half that is cut off where the map grows has
/// most of its keys in records, and half a page.
#[test]
fn keys_that_ascend_and_become_long_split_the_last_leaf() {
    let map = Wormhole::new();
    let pinned = map.pin();
    let key = |n: u64| match n {
        0..80 => format!("a{n:05}"),
        _ => format!("b{n:020}"),
    };
    for n in 0..600 {
        assert!(pinned.insert(key(n).as_bytes(), n).is_none());
    }
    pinned.check().unwrap();
    assert!((0..600).all(|n| pinned.get(key(n).as_bytes()).is_some_and(|value| *value == n)));
}

/// A leaf of half a page that is full is split behind its largest key but one where the map grows.
#[test]
fn a_stack_that_comes_and_goes_where_its_last_leaf_was_split_copies_no_leaf_again() {
    let map = Wormhole::<()>::new();
    let pinned = map.pin();
    let key = |n: u32| n.to_be_bytes();
    let last = || map.list.last(&map.memory).unwrap();
    assert!(pinned.insert(&key(0), ()).is_none());
    let mut count = 1;
    while last().header().prev().is_none() {
        assert!(pinned.insert(&key(count), ()).is_none());
        count += 1;
    }
    let name = last().name();
    for _ in 0..3 {
        let bottom = count - last().meta().count() as u32;
        for n in (bottom..count).rev() {
            assert!(pinned.remove(&key(n)).is_some());
        }
        for n in bottom..count {
            assert!(pinned.insert(&key(n), ()).is_none());
        }
        assert_eq!(last().name(), name);
    }
    // As it goes on, nothing of it is left behind.
    for n in (0..count).rev() {
        assert!(pinned.remove(&key(n)).is_some());
    }
    assert_eq!(map.list.first(&map.memory), map.list.last(&map.memory));
    pinned.check().unwrap();
}

/// A key that is a longer one from the so manieth time on that it is asked for its bytes.
struct Growing(core::cell::Cell<u32>);

impl AsRef<[u8]> for Growing {
    fn as_ref(&self) -> &[u8] {
        static BYTES: [u8; super::MAX_KEY_BYTES + 9] = [b'k'; super::MAX_KEY_BYTES + 9];
        let left = self.0.get().saturating_sub(1);
        self.0.set(left);
        if left > 0 { b"k" } else { &BYTES }
    }
}

#[test]
fn a_key_that_grows_while_it_is_loaded_is_not_longer_than_a_record_may_be() {
    for times in 1..9 {
        let loaded = Wormhole::from_sorted([(Growing(times.into()), "value")]);
        let Ok(map) = loaded else { continue };
        assert!(map.pin().iter().all(|(key, _)| key.len() <= super::MAX_KEY_BYTES));
        map.pin().check().unwrap();
    }
}

#[test]
fn values_with_something_to_drop_are_never_copied_into_words() {
    assert!(
        !super::insert::is_inline_map::<Counted>() && !super::insert::is_inline_map::<Box<u8>>()
    );
    assert!(super::insert::is_inline_map::<u64>() && super::insert::is_inline_map::<()>());
}

/// A range that has yielded all of an outer leaf comes into the leaf that this one was merged into, and an entry leaves
/// that one before anything was copied from it: the range starts over.
fn start_over_in_a_merged_leaf(backwards: bool) {
    let map = Wormhole::new();
    let pinned = map.pin();
    let keys: Vec<[u8; 4]> = (0..600_u32).map(u32::to_be_bytes).collect();
    for (n, key) in (0_u64..).zip(&keys) {
        assert!(pinned.insert(key, n).is_none());
    }
    let mut leaf = map.list.first(&map.memory).unwrap();
    while backwards && let Some(next) = leaf.header().next() {
        leaf = map.memory.leaf(next);
    }
    let count = leaf.meta().count();
    let mut range = pinned.iter();
    let next = |range: &mut super::Iter<'_, u64>| {
        let entry = if backwards { range.next_back() } else { range.next() };
        entry.map(|(key, _)| key.to_vec())
    };
    let first: Vec<_> = (0..count).map_while(|_| next(&mut range)).collect();
    // What was yielded goes, and some more, until the leaf is merged with its neighbour.
    let mut inwards: Vec<_> = keys.iter().collect();
    if backwards {
        inwards.reverse();
    }
    let gone = inwards.iter().take_while(|key| {
        let merged = leaf.header().version.begin().is_dead();
        !merged && pinned.remove(**key).is_some()
    });
    let gone = gone.count();
    assert!(count <= gone && gone < keys.len() - 2, "the leaf was not merged in time");
    let course = &mut range.course;
    let entered = if backwards {
        course.back.as_mut().unwrap().go_back(&map)
    } else {
        course.front.as_mut().unwrap().go_on(&map)
    };
    assert!(entered);
    // One comes back, and another entry leaves.
    assert!(pinned.insert(inwards[0], 0).is_none());
    assert!(pinned.remove(inwards[gone]).is_some());
    let mut all = first;
    all.extend(core::iter::from_fn(|| next(&mut range)));
    if backwards {
        all.reverse();
    }
    assert!(all.len() > count && all.is_sorted_by(|a, b| a < b), "a key was yielded again");
}

#[test]
fn a_range_that_starts_over_in_a_merged_leaf_yields_no_key_again() {
    start_over_in_a_merged_leaf(false);
    start_over_in_a_merged_leaf(true);
}
