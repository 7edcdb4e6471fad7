//! Every map through the same suites, as one program: each map is compiled once for all of them.
//!
//! | suite | says |
//! | --- | --- |
//! | `model` | a map answers as std's `BTreeMap` does, one call after another |
//! | `linear` | threads on one map leave histories that are linearizable, and scans that keep their promise |
//! | `faults` | what other implementations got wrong, and what users do to a map, does no harm |
//! | `panics` | user code that panics wherever a map calls it leaves the map usable, and each value dropped once |
//! | `spelled` | what fuzzing found stays found |
//! | `api` | where types may go, how long they live, what compiles and what does not |
//!
//! `cargo test --test suites wormhole::` runs those of one map, `cargo test --test suites ::linear::` one suite of all. How much
//! memory a map takes has a program of its own, `memory.rs`. Failing allocations and colliding hashes need the inside of the
//! crate: the `tests.rs` of each map.
//!
//! # More of it
//!
//! * `FANREAD_SEED` replays a run against the model, `FANREAD_SEEDS` makes more of them. A seed is about a million operations for a
//!   map on byte strings and 400,000 for one on numbers, so that `FANREAD_SEEDS=16 cargo test --release -p fanread
//!   --test suites model` is more than ten million.
//! * Beside the threads of a history, which meet on a few keys, a map is under churn: each call also inserts and removes
//!   keys that lie between those of the test, so that leaves grow, split and merge under the calls that are checked.
//!   `FANREAD_HISTORIES` sets how many histories each test makes; 7,500 make 10^5 in all.
//! * `RUSTFLAGS="--cfg small_leaves"` makes leaves of 7 entries, so that nearly every call meets a split or a merge.

// Where they have run with tiny leaves just before, which takes as long to compile again as all else.
#![cfg(not(suites_ran))]

#[macro_use]
mod maps;

for_each_map! {
    model: "model.rs", strings: "strings/model.rs";
    linear: "linear.rs", strings: "strings/linear.rs", numbers: "numbers/linear.rs", typed: "typed/linear.rs";
    faults: "faults.rs", strings: "strings/faults.rs", numbers: "numbers/faults.rs", typed: "strings/faults.rs";
    panics: "panics.rs", strings: "strings/panics.rs";
    spelled: "spelled.rs";
    api: "api.rs", strings: "strings/api.rs", numbers: "numbers/api.rs", typed: "typed/api.rs";
}

for_each_map! {
    bytes, [model ["model.rs", "strings/model.rs"] linear ["linear.rs", "strings/linear.rs"]]
}

#[test]
fn a_call_that_cannot_be_is_told_by_the_line_of_who_called() {
    use std::panic::{Location, UnwindSafe, catch_unwind, set_hook, take_hook};

    thread_local! { static PLACE: std::cell::RefCell<String> = std::cell::RefCell::default() }
    fn assert_here(call: impl FnOnce() + UnwindSafe) {
        assert!(catch_unwind(call).is_err());
        let place = PLACE.take();
        assert!(place.starts_with(Location::caller().file()), "{place}");
    }
    let before = take_hook();
    set_hook(Box::new(move |info| {
        PLACE.set(info.location().map(ToString::to_string).unwrap_or_default());
        before(info);
    }));
    let long = vec![0; 65_536];
    let (map, bytes) = (fanread::Wormhole::new(), fanread::BytesMap::new());
    let (pinned, words) = (map.pin(), bytes.pin());
    assert_here(|| _ = pinned.insert(&long, 1));
    assert_here(|| pinned.insert_batch([(&*long, 1)]));
    assert_here(|| _ = pinned.insert_if_absent(&long, 1));
    assert_here(|| _ = pinned.get_or_insert_with(&long, || 1));
    assert_here(|| fanread::Wormhole::new().extend([(&long, 1)]));
    assert_here(|| pinned.get_batch(&[b"a key"], &mut []));
    assert_here(|| pinned.contains_batch(&[b"a key"], &mut []));
    assert_here(|| _ = words.insert(&long, b""));
    assert_here(|| words.get_batch(&[b"a key"], &mut []));
    assert_here(|| fanread::U64Map::<u64>::new().pin().get_batch(&[7], &mut []));
    assert_here(|| fanread::SkipList::<u64, u64>::new().pin().get_batch(&[&7], &mut []));
    #[cfg(unix)]
    {
        let file = fanread::Cceh::in_memory(fanread::persist::cceh::CcehOptions::new()).unwrap();
        assert_here(|| file.get_batch(&[7], &mut []));
        assert_here(|| file.contains_batch(&[7], &mut []));
    }
}

#[test]
fn a_map_that_is_extended_has_what_came_before_a_panic() {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// Numbers up to one at which it panics.
    fn up_to(most: u64) -> impl Iterator<Item = u64> {
        (0..=most).map(move |n| if n < most { n } else { resume_unwind(Box::new("as planned")) })
    }
    fn key(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }
    macro_rules! extend {
        ($map:ident, $entry:expr, $most:expr) => {
            let mut map = fanread::$map::new();
            let extend = AssertUnwindSafe(|| map.extend(up_to($most).map($entry)));
            assert!(catch_unwind(extend).is_err());
            let pinned = map.pin();
            pinned.check().unwrap();
            assert_eq!(pinned.iter().count() as u64, $most, stringify!($map));
        };
    }
    for most in [0, 3, 255, 256, 700] {
        extend!(Wormhole, |n| (key(n), n), most);
        extend!(CuckooTrie, |n| (key(n), n), most);
        extend!(OrderedMap, |n| (key(n), n), most);
        extend!(BytesMap, |n| (key(n), key(n)), most);
        extend!(SkipList, |n| (n, n), most);
        extend!(MlpIndex, |n| (n, n), most);
        extend!(U64Map, |n| (n, n), most);
    }
}

#[test]
fn a_small_value_that_changes_as_it_is_looked_at_is_replaced_and_removed() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    macro_rules! look {
        ($map:ident, $key:expr) => {
            let map = fanread::$map::new();
            let pinned = map.pin();
            pinned.insert($key, AtomicU64::new(1));
            let mut calls = 0;
            pinned.update($key, |value| {
                calls += 1;
                assert_eq!(calls, 1, stringify!($map));
                AtomicU64::new(value.fetch_add(1, Relaxed) + 7)
            });
            assert_eq!(pinned.get($key).map(|value| value.load(Relaxed)), Some(8));
            pinned.retain(|_, value| value.fetch_add(1, Relaxed) == 0);
            assert!(pinned.is_empty(), stringify!($map));
        };
    }
    look!(Wormhole, b"key");
    look!(CuckooTrie, b"key");
    look!(OrderedMap, b"key");
    look!(MlpIndex, 7);
    look!(U64Map, 7);
    let map = fanread::SkipList::new();
    let pinned = map.pin();
    pinned.insert(7, AtomicU64::new(1));
    pinned.update(&7, |value| AtomicU64::new(value.fetch_add(1, Relaxed) + 7));
    assert_eq!(pinned.get(&7).map(|value| value.load(Relaxed)), Some(8));
    pinned.retain(|_, value| value.fetch_add(1, Relaxed) == 0);
    assert!(pinned.is_empty());
}
