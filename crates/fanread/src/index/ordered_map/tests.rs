//! What cannot be seen or brought about from outside: memory that runs out at any moment, keys that are made to collide.

use core::ops::Bound::Included;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::Rng;

use super::bytes::BytesMap;
use super::layout::{FEW_FRESH, HASHED_FROM};
use super::{OrderedMap, OrderedMap as Map, Pinned};
use crate::api::Options;
use crate::mem::bytes::PIECES;
use crate::sync::epoch;

/// Whether keys are numbers.
const NUMBERS: bool = false;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

/// Keys of 8 bytes whose hashes under the map's seed are all `alike`.
fn colliding_keys(map: &OrderedMap<u64>, count: usize, alike: fn(u64) -> bool) -> Vec<Vec<u8>> {
    (0_u64..)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec())
        .filter(|key| alike(map.hash(key)))
        .take(count)
        .collect()
}

#[test]
fn keys_whose_hashes_collide_are_found_and_take_no_more_memory() {
    // The same bucket, however large the segment; and the same tag.
    let alike: [fn(u64) -> bool; 2] = [|hash| hash >> 52 == 0, |hash| hash & 0xfff == 7];
    for alike in alike {
        let map = OrderedMap::with_options(Options::new().seed(42));
        let pinned = map.pin();
        let flood = colliding_keys(&map, 2_000, alike);
        for (n, key) in (0..).zip(&flood) {
            assert!(pinned.insert(key, n).is_none());
        }
        pinned.check().unwrap();
        assert!((0..).zip(&flood).all(|(n, key)| pinned.get(key).is_some_and(|v| *v == n)));
        let ordinary = OrderedMap::with_options(Options::new().seed(43));
        for (n, key) in (0..).zip(&flood) {
            ordinary.pin().insert(key, n);
        }
        let bytes = [&map, &ordinary].map(|map| map.memory_usage().total_bytes());
        // Smaller blocks are closer to what the ordinary one holds.
        let times = if cfg!(feature = "global-alloc") { 3 } else { 2 };
        assert!(bytes[0] <= times * bytes[1], "{bytes:?}");
        for key in &flood {
            assert!(pinned.remove(key).is_some());
        }
        pinned.check().unwrap();
    }
}

#[test]
fn a_map_with_room_copies_no_segment_of_its_directory() {
    let most: u64 = if cfg!(miri) { 1_000 } else { 400_000 };
    for entries in [0, 10, 1_000, most] {
        let map = OrderedMap::with_options(Options::new().seed(3).capacity(entries as usize));
        map.pin().insert(&0_u64.to_be_bytes(), 0);
        let bytes = map.table.bytes(&epoch::pin());
        for key in 1..entries {
            map.pin().insert(&key.to_be_bytes(), key);
        }
        // Tiny segments are full by chance now and then.
        if !cfg!(any(small_leaves, miri)) {
            assert_eq!(map.table.bytes(&epoch::pin()), bytes, "{entries}");
        }
        map.pin().check().unwrap();
    }
}

#[test]
fn keys_that_come_and_go_leave_no_trace() {
    let map = OrderedMap::<u64>::new();
    testkit::stress::stops_growing(|round| {
        let keys = (0..2000_u64).map(|n| (n * 7919 + round * 1_000_003).to_be_bytes());
        for (n, key) in (0..).zip(keys.clone()) {
            map.pin().insert(&key, n);
        }
        if round % 16 == 0 {
            map.pin().check().unwrap();
        }
        for key in keys {
            assert!(map.pin().remove(&key).is_some());
        }
        map.memory_usage().total_bytes()
    });
    map.pin().check().unwrap();
    assert!(map.is_empty());
}

#[test]
fn leaves_that_walks_replace_do_not_pile_up() {
    let map = OrderedMap::new();
    let mut pinned = map.pin();
    let waiting = || map.shards.lock_each().map(|shard| shard.limbo.len()).sum::<usize>();
    let (least, most) = if cfg!(miri) { (500, 20_000) } else { (20_000, 2_000_000) };
    for n in 0..most {
        let key = u64::to_be_bytes(n);
        pinned.insert(&key, n);
        assert_eq!(pinned.range(..=&key[..]).rev().take(10).count(), 10.min(n as usize + 1));
        pinned.repin();
        // While other tests hold a pin, more may wait.
        if n > least && waiting() < 200 {
            return;
        }
    }
    panic!("{} items wait", waiting());
}

#[test]
fn bounds_bring_leaves_into_order_whose_keys_begin_alike() {
    // The first leaf has no border to share bytes with: that its keys begin alike, it does not know.
    let map = OrderedMap::with_options(Options::new().seed(42));
    let pinned = map.pin();
    let key = |n: u64| format!("what all keys begin with, {n:04}").into_bytes();
    let fresh = || map.list.first(&map.memory).expect("the map has entries").fresh();
    let mut model = BTreeSet::new();
    while model.len() < 50 || fresh() <= FEW_FRESH {
        let new = key(model.len() as u64 * 97 % 100 * 20);
        pinned.insert(&new, 0);
        model.insert(new);
    }
    // Behind the last key a walk begins, which brings its leaf into order in any case.
    for bound in (0..2_000).map(key).filter(|bound| model.last() >= Some(bound)) {
        let next = pinned.lower_bound(Included(&bound)).map(|(key, _)| key.to_vec());
        assert_eq!(next.as_ref(), model.range(bound..).next());
    }
    assert!(fresh() <= FEW_FRESH, "{} fresh keys", fresh());
}

/// Keys come and go at both ends, so that those found there are mostly fresh ones, behind others that are gone.
#[test]
fn the_ends_are_found_among_fresh_records_that_are_gone() {
    let map = OrderedMap::new();
    let pinned = map.pin();
    let key = |n: u64| format!("{n:04}").into_bytes();
    let mut model: BTreeSet<_> = (100..150).collect();
    for n in &model {
        pinned.insert(&key(*n), *n);
    }
    for round in 0..400_u64 {
        // Two come in for one that leaves, then the other way round.
        let is_growing = round / 20 % 2 == 0;
        let new = if round % 2 == 0 { 99 - round % 40 } else { 150 + round % 40 };
        if is_growing || round % 3 == 0 {
            assert_eq!(pinned.insert(&key(new), new).is_none(), model.insert(new));
        }
        if !is_growing || round % 3 == 0 {
            let gone = if round % 4 < 2 { pinned.pop_first() } else { pinned.pop_last() };
            let expected = if round % 4 < 2 { model.pop_first() } else { model.pop_last() };
            assert_eq!(gone.map(|(_, value)| *value), expected);
        }
        assert_eq!(pinned.first_key_value().map(|(_, value)| *value), model.first().copied());
        assert_eq!(pinned.last_key_value().map(|(_, value)| *value), model.last().copied());
    }
}

#[test]
fn a_bound_that_would_read_many_fresh_records_brings_them_into_order() {
    for seed in 0..16 {
        let map = OrderedMap::with_options(Options::new().seed(seed));
        let pinned = map.pin();
        let fresh = || map.list.first(&map.memory).expect("the map has entries").fresh();
        let key = |n: u64| format!("what all keys begin with, {:02}", n * 37 % 100).into_bytes();
        // Fresh ones become sorted now and then. Of tiny leaves there may never be so many.
        let last = (0..100).find(|n| {
            pinned.insert(&key(*n), *n);
            fresh() > super::iter::MOST_READ
        });
        if last.is_none() && cfg!(any(small_leaves, miri)) {
            continue;
        }
        let last = last.expect("so many are fresh at once");
        // Whatever its hash.
        let next = pinned.lower_bound(Included(&key(0))).map(|(key, value)| (key.to_vec(), *value));
        assert_eq!(next, Some((key(0), 0)));
        assert!(fresh() <= FEW_FRESH, "{} fresh keys of {last}", fresh());
    }
}

#[test]
fn what_was_removed_under_one_pin_is_used_again_by_who_only_inserts() {
    let keys = if cfg!(miri) { 2_000 } else { 20_000_u64 };
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let is_used_again = |_| {
        let map = OrderedMap::new();
        for n in 0..keys {
            map.pin().insert(&key(n), n);
        }
        map.pin().retain(|_, n| n % 2 == 0);
        let before = map.memory_usage().leaf_bytes;
        let mut pinned = map.pin();
        for n in (1..keys).step_by(2) {
            pinned.insert(&key(n), n);
            if n % 128 == 127 {
                pinned.repin();
            }
        }
        2 * map.memory_usage().leaf_bytes < before
    };
    // While other tests hold a pin, it waits.
    assert!((0..100).any(is_used_again));
}

#[test]
fn an_emptied_map_says_that_its_memory_is_idle() {
    let map = OrderedMap::new();
    let keys: u64 = if cfg!(miri) { 2_000 } else { 200_000 };
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for n in 0..keys {
        map.pin().insert(&key(n), n);
    }
    let taken = || {
        let usage = map.pin().memory_usage();
        (usage.total_bytes() - usage.idle_bytes, usage.total_bytes())
    };
    let (full, _) = taken();
    for n in 0..keys {
        map.pin().remove(&key(n));
    }
    // While other tests hold a pin, more may wait.
    for n in 0..200_000 {
        if taken().0 < full / 4 {
            return;
        }
        map.pin().insert(&key(0), n);
        map.pin().remove(&key(0));
    }
    panic!("{:?} bytes, {full} before", taken());
}

#[test]
fn a_loaded_map_takes_no_more_memory_than_one_with_insertions() {
    let keys = (0..200_000_u64).map(u64::to_be_bytes);
    let inserted = OrderedMap::new();
    for (n, key) in keys.clone().enumerate() {
        inserted.pin().insert(&key, n);
    }
    let most = inserted.memory_usage().total_bytes() * 21 / 20;
    // Readers in other tests may keep what is given up from being used again.
    let fits = |_| {
        let map = OrderedMap::from_sorted(keys.clone().zip(0_usize..)).unwrap();
        map.memory_usage().total_bytes() <= most
    };
    let usage = OrderedMap::from_sorted(keys.clone().zip(0_usize..)).unwrap().memory_usage();
    assert!((0..30).any(fits), "{usage:?} {:?}", inserted.memory_usage());
}

#[test]
fn one_key_that_comes_and_goes_fills_no_leaf() {
    let map = OrderedMap::<u64>::new();
    let pinned = map.pin();
    for key in [b"a", b"b", b"c"] {
        pinned.insert(key, 0);
    }
    for round in 0..20_000 {
        assert!(pinned.insert(b"bb", round).is_none());
        assert_eq!(pinned.remove(b"bb").as_deref(), Some(&round));
    }
    pinned.check().unwrap();
    assert_eq!(pinned.iter().map(|(key, _)| key.to_vec()).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
}

#[test]
fn a_small_map_takes_less_than_a_kilobyte() {
    let map = OrderedMap::<u64>::new();
    assert_eq!(map.memory_usage().total_bytes(), 0);
    for n in 0..10_u64 {
        map.pin().insert(&(n * 7).to_be_bytes(), n);
    }
    let usage = map.memory_usage();
    assert!(usage.total_bytes() <= 1024, "{usage:?}");
}

/// Lengths of values on both sides of what goes into a record, in unit tests and in others.
const LENGTHS: [usize; 9] = [0, 1, 63, 64, 65, 1_023, 1_025, 5_000, 1 << 20];

#[test]
fn byte_strings_of_any_length_replace_each_other() {
    let map = BytesMap::new();
    let pinned = map.pin();
    for key in [&b""[..], b"k", &[7; 300]] {
        let mut before: Option<Vec<u8>> = None;
        for len in LENGTHS.into_iter().chain(LENGTHS.into_iter().rev()) {
            let value: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            assert_eq!(pinned.insert(key, &value).as_deref(), before.as_deref());
            assert_eq!(pinned.get(key).as_deref(), Some(&value[..]));
            let shown = pinned.lower_bound(std::ops::Bound::Included(key));
            assert_eq!(shown.map(|(_, value)| value.to_vec()), Some(value.clone()));
            before = Some(value);
        }
    }
    assert_eq!(pinned.len(), 3);
    pinned.check().unwrap();
}

#[test]
fn what_was_found_stays_while_it_is_replaced_and_removed() {
    let map = BytesMap::new();
    let reader = map.pin();
    for len in LENGTHS {
        reader.insert(b"key", &vec![1; len]);
        let found = reader.get(b"key").unwrap();
        for round in 0..200 {
            map.pin().insert(b"key", &vec![2; round]);
        }
        let removed = map.pin().remove(b"key").map(|value| value.to_vec());
        assert_eq!(removed, Some(vec![2; 199]));
        assert!(found.len() == len && found.iter().all(|byte| *byte == 1));
    }
    reader.check().unwrap();
}

#[test]
fn a_byte_string_is_written_over_where_it_fits() {
    let mut map = BytesMap::new();
    map.pin().insert(b"key", &[1; 40]);
    assert!(map.overwrite(b"key", &[2; 40]) && map.overwrite(b"key", &[3; 30]));
    assert_eq!(map.pin().get(b"key").as_deref(), Some(&[3; 30][..]));
    assert!(map.overwrite(b"key", &[4; 40]), "there is room for what was there before");
    assert!(!map.overwrite(b"key", &[5; 80]) && !map.overwrite(b"key", b""));
    assert!(!map.overwrite(b"other", &[5; 40]) && map.get_mut(b"other").is_none());
    map.get_mut(b"key").unwrap()[39] = 9;
    assert_eq!(map.pin().get(b"key").unwrap()[38..], [4, 9]);
    map.pin().insert(b"key", &[6; 5_000]);
    assert!(!map.overwrite(b"key", &[7; 5_000]), "it is apart");
    map.get_mut(b"key").unwrap().fill(7);
    assert_eq!(map.pin().get(b"key").as_deref(), Some(&[7; 5_000][..]));
    map.pin().remove(b"key");
    assert!(map.get_mut(b"key").is_none());
    map.pin().check().unwrap();
}

#[test]
fn what_was_found_or_written_lately_is_found_as_it_is_now() {
    let mut map = BytesMap::new();
    map.keep_recent();
    let mut model = std::collections::BTreeMap::new();
    let mut rng = testkit::Rng::new(1);
    // What was asked of another map, or of this one when it was another, or for another key, misleads nobody.
    let mut asked = BytesMap::new().ask(b"key");
    for step in 0..20_000_u32 {
        let key = (rng.next_u64() as u32 % 50).to_be_bytes();
        let value = vec![step as u8; rng.next_u64() as usize % 40];
        match rng.next_u64() % 7 {
            0 => {
                let removed = map.pin().remove(&key).map(|value| value.to_vec());
                assert_eq!(removed, model.remove(&key));
            }
            1 => {
                map.pin().insert(&key, &value);
                model.insert(key, value);
            }
            2 => {
                if map.overwrite(&key, &value) {
                    model.insert(key, value);
                }
            }
            3 => {
                map.ask_to_set(&key);
                let is_new = map.set(&key, &value).unwrap();
                assert_eq!(is_new, model.insert(key, value).is_none());
            }
            4 => {
                if let Some(value) = map.get_mut(&key) {
                    value.reverse();
                }
            }
            5 => {
                if rng.next_u64().is_multiple_of(2) {
                    asked = map.ask(&key);
                }
                let mut waited = 0;
                let found = map.get_asked(&key, asked, || waited += 1).map(<[u8]>::to_vec);
                assert_eq!((found.as_ref(), waited), (model.get(&key), 1));
            }
            _ => {
                map.ask(&key);
                let mut waited = 0;
                let found = map.get_while(&key, || waited += 1).map(<[u8]>::to_vec);
                assert_eq!((found.as_ref(), waited), (model.get(&key), 1));
            }
        }
        if step % 256 == 0 {
            map.pin().check().unwrap();
        }
    }
}

#[test]
fn what_many_threads_have_written_is_found_as_it_is_when_they_are_done() {
    let mut map = BytesMap::new();
    map.keep_recent();
    for round in 0..100 {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let map = &map;
                scope.spawn(move || {
                    let mut rng = testkit::Rng::new(round * 3 + thread);
                    for _ in 0..200 {
                        let key = (rng.next_u64() % 20).to_be_bytes();
                        let value = vec![thread as u8; rng.next_u64() as usize % 40];
                        if rng.next_u64().is_multiple_of(3) {
                            map.pin().remove(&key);
                        } else {
                            map.pin().insert(&key, &value);
                        }
                    }
                });
            }
        });
        map.pin().check().unwrap();
        // Whose record is found from then on has the slot of its key.
        for key in (0..20_u64).chain(0..20).map(u64::to_be_bytes) {
            let expected = map.pin().get(&key).map(|value| value.to_vec());
            assert_eq!(map.get_while(&key, || ()).map(<[u8]>::to_vec), expected);
        }
        map.pin().check().unwrap();
    }
}

#[test]
fn a_map_of_byte_strings_without_memory_stays_as_it_was() {
    for nth in 0..40 {
        let mut map = BytesMap::new();
        map.keep_recent();
        let mut model = std::collections::BTreeMap::new();
        crate::mem::failing::after(nth);
        let mut failures = 0;
        for n in 0..400_u32 {
            let (key, value) = ((n % 150).to_be_bytes(), vec![n as u8; n as usize % 130]);
            match map.pin().try_insert(&key, &value) {
                Ok(old) => assert_eq!(old.map(|old| old.to_vec()), model.insert(key, value)),
                Err(_) => failures += 1,
            }
        }
        // A batch stops where memory does.
        let batch: Vec<_> = (150..200_u32).map(u32::to_be_bytes).collect();
        let entries = batch.iter().map(|key| (&key[..], &key[..]));
        failures += u32::from(map.pin().try_insert_batch(entries).is_err());
        for key in batch.into_iter().take_while(|key| map.pin().contains_key(key)) {
            model.insert(key, key.to_vec());
        }
        crate::mem::failing::never();
        assert!(failures > 0);
        let all =
            map.pin().iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>();
        assert!(
            all.iter()
                .map(|(key, value)| (&key[..], value))
                .eq(model.iter().map(|(key, value)| (&key[..], value)))
        );
        map.pin().check().unwrap();
        map.pin().insert(b"now", b"there is some");
        assert_eq!(map.len(), model.len() + 1);
    }
}

/// A value to be copied, which may panic when it is dropped.
struct Copied {
    bytes: [u8; 100],
    panics: bool,
}

impl AsRef<[u8]> for Copied {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        assert!(!self.panics, "as planned");
    }
}

#[test]
fn a_load_whose_value_panics_on_drop_gives_all_copies_back() {
    for nth in [0, 1, 5, 300] {
        let before = PIECES.get();
        let entries =
            (0..400_u32).map(|n| (n.to_be_bytes(), Copied { bytes: [1; 100], panics: n == nth }));
        assert!(catch_unwind(AssertUnwindSafe(|| BytesMap::from_sorted(entries))).is_err());
        assert_eq!(PIECES.get(), before, "value {nth}");
    }
}

#[test]
fn byte_strings_that_come_go_and_change_leave_no_trace() {
    let mut map = BytesMap::new();
    map.keep_recent();
    testkit::stress::stops_growing(|round| {
        let keys = (0..2_000_u64).map(|n| (n * 7919 + round * 1_000_003).to_be_bytes());
        for (n, key) in keys.clone().enumerate() {
            map.pin().insert(&key, &key.repeat(n % 12));
            map.pin().insert(&key, &key.repeat((n + 1) % 12));
        }
        if round % 16 == 0 {
            map.pin().check().unwrap();
        }
        for key in keys {
            assert!(map.pin().remove(&key).is_some());
        }
        map.memory_usage().total_bytes()
    });
    assert!(map.is_empty());
}

#[test]
fn a_long_key_whose_value_changes_takes_no_more_memory() {
    let map = BytesMap::new();
    let key = vec![7; 65_500];
    testkit::stress::stops_growing(|_| {
        for len in [0, crate::mem::bytes::MOST_INSIDE, 0, 1, 0] {
            map.pin().insert(&key, &vec![1; len]);
            assert_eq!(map.pin().get(&key).map(|value| value.len()), Some(len));
        }
        map.memory_usage().total_bytes()
    });
}

#[test]
fn long_keys_that_begin_alike_are_in_order_and_leave_no_trace() {
    let count = if cfg!(miri) { 30 } else { 700_u64 };
    // On both sides of where records have hashes in front, and some that the common bytes end.
    let key = |n: u64| {
        let mut key = vec![b'k'; HASHED_FROM + 300];
        key.extend(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key.split_off(n as usize * 31 % (HASHED_FROM + 300))
    };
    let map = OrderedMap::new();
    testkit::stress::stops_growing(|_| {
        let mut model = BTreeMap::new();
        for n in 0..count {
            map.pin().insert(&key(n), n);
            model.insert(key(n), n);
            if n % 40 == 0 {
                let all = map.pin();
                let up = all.iter().map(|(key, n)| (key.to_vec(), *n));
                assert!(up.eq(model.clone()));
                let down = all.iter().rev().map(|(key, n)| (key.to_vec(), *n));
                assert!(down.eq(model.clone().into_iter().rev()));
            }
        }
        map.pin().check().unwrap();
        for n in 0..count {
            assert_eq!(map.pin().remove(&key(n)).as_deref(), Some(&n));
        }
        map.memory_usage().total_bytes()
    });
    map.pin().check().unwrap();
}

#[test]
fn walks_of_any_length_show_the_next_entries_whatever_walks_before_took() {
    let count = if cfg!(miri) { 60 } else { 3000 };
    let (map, mut model, mut rng) = (OrderedMap::new(), BTreeMap::new(), Rng::new(5));
    let pinned = map.pin();
    for round in 0..10 {
        for _ in 0..count / 10 {
            // Of one line and of several, one behind another.
            let long = rng.next_u64() % 300;
            let mut key = (rng.next_u64() >> 44).to_be_bytes()[5..].to_vec();
            key.resize(key.len() + if long < 200 { 0 } else { long as usize }, b'x');
            pinned.insert(&key, round);
            model.insert(key, round);
        }
        for len in [1, 100, 99, 8, 9, 500, 1, 21, 1000, 3] {
            // The longest of late is what is expected.
            for len in [3, 3, 40, len] {
                let from = (rng.next_u64() >> 44).to_be_bytes()[5..].to_vec();
                let up = pinned.range(&from[..]..).take(len);
                let next = model.range(from.clone()..).take(len);
                assert!(up.map(|(k, v)| (k.to_vec(), *v)).eq(next.map(|(k, v)| (k.clone(), *v))));
                let down = pinned.range(..&from[..]).rev().take(len);
                let next = model.range(..from).rev().take(len);
                assert!(down.map(|(k, v)| (k.to_vec(), *v)).eq(next.map(|(k, v)| (k.clone(), *v))));
            }
        }
    }
}
