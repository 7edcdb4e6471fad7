// Included for each map by `maps/mod.rs`; `../panics.rs` says what is tested.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use self::common::Spelling;
use self::map::Pinned;
use fanread::LoadError;
use testkit::dummy::{Census, Counted, bangs, be_patient, be_patient_for, lose_patience};
use testkit::{Rng, effort};

/// Up to which call the n-th call of a closure panics.
fn most_calls() -> u32 {
    effort::amount("FANREAD_CALLS", 200) as u32
}

/// Runs `f` and returns whether it panicked.
fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// Fills a map with entries `0..keys`.
fn fill(pinned: &Pinned<'_, Counted>, census: &Census, spelling: Spelling, keys: u32) {
    for n in 0..keys {
        pinned.insert(&spelling.key(n), census.value(n.into()));
    }
}

#[test]
fn a_value_that_panics_on_drop_is_dropped_once_and_harms_nobody() {
    for spelling in Spelling::ALL {
        let census = Census::new();
        let map = Map::<Counted>::new();
        let mut rng = Rng::new(3);
        let mut model = BTreeMap::new();
        let mut bombs = 0;
        // Other tests of this process may hold back what was retired, so the run is as long as it takes.
        for turn in 0_u64.. {
            if turn >= 8_000 && bombs > 20 {
                break;
            }
            let n = rng.below(300) as u32;
            let key = spelling.key(n);
            let before = map.pin().get(&key).map(|value| value.content);
            assert_eq!(before, model.get(&n).copied());
            // The bombs that go off are those retired earlier: the call itself takes effect or changes nothing.
            // The map grows and shrinks by turns, so that leaves are split and merged.
            let bang = if rng.below(4) < [1, 3][turn as usize / 1_000 % 2] {
                bangs(|| assert_eq!(map.pin().remove(&key).is_some(), before.is_some()))
            } else {
                bangs(|| {
                    let old = map.pin().insert(&key, census.bomb(turn)).map(|old| old.content);
                    assert_eq!(old, before);
                })
            };
            bombs += usize::from(bang);
            let after = map.pin().get(&key).map(|value| value.content);
            assert!(bang || after != before || before.is_none());
            assert!(after.is_none_or(|content| content == turn || Some(content) == before));
            match after {
                Some(content) => drop(model.insert(n, content)),
                None => drop(model.remove(&n)),
            }
            if turn.is_power_of_two() {
                map.pin().check().unwrap();
            }
        }
        let pinned = map.pin();
        pinned.check().unwrap();
        assert_eq!(pinned.len(), model.len());
        let all = pinned.iter().map(|(key, value)| (spelling.number(&key), value.content));
        assert!(all.eq(model));
        drop(pinned);
        // Of a map that is dropped, the first bomb goes off and the others are dropped all the same.
        assert!(bangs(|| drop(map)));
        census.verify(0).unwrap();
    }
}

#[test]
fn a_load_that_fails_drops_each_value_once_whichever_panics() {
    for spelling in Spelling::ALL {
        for count in [1, 2, 40, 700] {
            let census = Census::new();
            let mut keys: Vec<_> = (0..count).map(|n| spelling.key(n)).collect();
            keys.sort_unstable();
            let mut entries: Vec<_> =
                (0..).zip(&keys).map(|(n, key)| (key.clone(), census.bomb(n))).collect();
            // The last one comes twice, and what is refused does not go off.
            entries.extend(keys.pop().map(|key| (key, census.value(0))));
            assert!(bangs(|| assert!(Map::from_sorted(entries).is_err())));
            census.verify(0).unwrap();
        }
    }
}

#[test]
fn what_an_iterator_gave_before_it_panicked_is_in_the_map() {
    for spelling in Spelling::ALL {
        for nth in [0, 1, 5, 31, 32, 100] {
            let (census, map) = (Census::new(), Map::new());
            let keys: Vec<_> = (0..nth + 9).map(|n| spelling.key(n)).collect();
            let entries = (0..).zip(&keys).map(|(n, key)| {
                assert!(n < nth, "as planned");
                (&key[..], census.value(n.into()))
            });
            let pinned = map.pin();
            assert!(panics(|| pinned.insert_batch(entries)));
            pinned.check().unwrap();
            assert!(pinned.iter().map(|(key, _)| spelling.number(&key)).eq(0..nth));
            drop(pinned);
            drop(map);
            census.verify(0).unwrap();
        }
    }
}

#[test]
fn a_closure_of_retain_may_panic_at_any_call() {
    for spelling in Spelling::ALL {
        for nth in 0..most_calls() {
            let census = Census::new();
            let map = Map::new();
            fill(&map.pin(), &census, spelling, most_calls());
            let calls = Cell::new(0);
            let pinned = map.pin();
            assert!(panics(|| pinned.retain(|_, value| {
                assert!(calls.replace(calls.get() + 1) < nth, "as planned");
                value.content % 2 == 0
            })));
            pinned.check().unwrap();
            // Those refused before the panic are gone, all others are there.
            let left = pinned.iter().map(|(key, _)| spelling.number(&key));
            assert!(left.eq((0..most_calls()).filter(|n| *n >= nth || n % 2 == 0)));
            fill(&pinned, &census, spelling, most_calls());
            assert_eq!(pinned.len(), most_calls() as usize);
            drop(pinned);
            drop(map);
            census.verify(0).unwrap();
        }
        effort::done("panics", NAME, most_calls().into());
    }
}

#[test]
fn a_closure_of_a_write_may_panic_at_any_size_of_the_map() {
    let census = Census::new();
    let map = Map::new();
    let spelling = Spelling::ALL[1];
    for n in 0..most_calls() {
        let pinned = map.pin();
        let key = spelling.key(n);
        assert!(panics(|| _ = pinned.get_or_insert_with(&key, || panic!("as planned"))));
        assert!(pinned.get(&key).is_none());
        pinned.insert(&key, census.value(n.into()));
        assert!(panics(|| _ = pinned.update(&key, |_| panic!("as planned"))));
        let same = pinned.get_or_insert_with(&key, || panic!("there is a value"));
        assert_eq!(same.content, u64::from(n));
        pinned.check().unwrap();
    }
    assert_eq!(map.len(), most_calls() as usize);
    drop(map);
    census.verify(0).unwrap();
    effort::done("panics", NAME, 2 * u64::from(most_calls()));
}

/// A key whose bytes cost patience, as a comparison and a clone of a [`Counted`] do.
struct Touchy(Vec<u8>);

impl AsRef<[u8]> for Touchy {
    fn as_ref(&self) -> &[u8] {
        lose_patience();
        &self.0
    }
}

#[test]
fn a_comparison_may_panic() {
    let census = Census::new();
    let map = Map::new();
    for n in 0..most_calls() {
        let key = Spelling::Integers.key(n);
        let pinned = map.pin();
        let value = |content: u32| census.value(content.into());
        pinned.insert(&key, value(n));
        be_patient_for(0);
        assert!(panics(|| _ = pinned.compare_exchange(&key, &value(n), value(n + 1))));
        be_patient();
        assert_eq!(pinned.get(&key).map(|value| value.content), Some(n.into()));
        assert!(pinned.compare_exchange(&key, &value(n), value(n + 1)).is_ok());
    }
    map.pin().check().unwrap();
    drop(map);
    census.verify(0).unwrap();
    effort::done("panics", NAME, most_calls().into());
}

#[test]
fn a_clone_of_an_owned_iterator_may_panic_and_the_iterator_goes_on() {
    let census = Census::new();
    let map = Arc::new(Map::new());
    (0..most_calls()).for_each(|n| {
        map.pin().insert(&Spelling::Integers.key(n), census.value(n.into()));
    });
    for nth in 0..most_calls() {
        be_patient_for(nth);
        let mut all = map.iter_owned();
        let mut seen = Vec::new();
        let panicked = panics(|| seen.extend(all.by_ref().map(|(_, value)| value.content)));
        assert!(panicked);
        be_patient();
        seen.extend(all.map(|(_, value)| value.content));
        assert!(seen.into_iter().eq((0..most_calls()).map(u64::from)));
    }
    drop(map);
    census.verify(0).unwrap();
    effort::done("panics", NAME, most_calls().into());
}

#[test]
fn entries_that_cannot_be_loaded_are_dropped_once() {
    let spelling = Spelling::ALL[1];
    for nth in (0..most_calls()).chain([1_000]) {
        let census = Census::new();
        let entries = |bad: Vec<u8>| {
            let census = census.clone();
            (0..nth + 3).map(move |n| {
                let key = if n == nth + 1 { bad.clone() } else { spelling.key(n) };
                (key, census.value(n.into()))
            })
        };
        let error = Map::from_sorted(entries(spelling.key(nth))).unwrap_err();
        assert_eq!(error, LoadError::NotAscending { index: nth as usize + 1 });
        census.verify(0).unwrap();
        if !NUMBERS && LIMITED {
            let error = Map::from_sorted(entries(vec![b'z'; 70_000])).unwrap_err();
            let expected = nth as usize + 1;
            assert!(matches!(error, LoadError::KeyTooLong { index, .. } if index == expected));
        }
        census.verify(0).unwrap();
        // The source of the entries panics.
        let broken = entries(Vec::new()).inspect(|(key, _)| assert!(!key.is_empty(), "as planned"));
        assert!(panics(|| drop(Map::from_sorted(broken))));
        census.verify(0).unwrap();
        // A key does.
        be_patient_for(2 * nth);
        let touchy = (0..2 * nth + 3).map(|n| (Touchy(spelling.key(n)), census.value(n.into())));
        assert!(panics(|| drop(Map::from_sorted(touchy))));
        be_patient();
        census.verify(0).unwrap();
    }
}

#[test]
fn every_value_is_dropped_once_after_threads_have_used_a_map() {
    for spelling in Spelling::ALL {
        let census = Census::new();
        let map = Arc::new(Map::new());
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (map, census) = (Arc::clone(&map), census.clone());
                thread::spawn(move || {
                    let mut rng = Rng::new(number);
                    for turn in 0..10_000 {
                        let pinned = map.pin();
                        let key = spelling.key(rng.below(600) as u32);
                        match rng.below(8) {
                            0..=2 => _ = pinned.insert(&key, census.value(turn)),
                            3..=5 => _ = pinned.remove(&key),
                            6 => _ = pinned.update(&key, Clone::clone),
                            _ => {
                                _ = pinned.compare_exchange(
                                    &key,
                                    &census.value(3),
                                    census.value(turn),
                                );
                            }
                        }
                        if turn == 5_000 {
                            pinned.clear();
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let pinned = map.pin();
        pinned.check().unwrap();
        assert_eq!(pinned.iter().count(), pinned.len());
        drop(pinned);
        // Copies of an owned iterator that is left half-way are dropped too.
        let mut all = map.iter_owned();
        all.next();
        drop(map);
        drop(all);
        census.verify(0).unwrap();
    }
}
