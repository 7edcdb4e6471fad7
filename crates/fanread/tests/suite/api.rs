// Included for each map by `maps/mod.rs`; `../api.rs` says what is tested.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;

use self::common::Spelling;
use self::map::{IntoIter, Iter, Pinned};
use fanread::{InsertError, LoadError, MemoryUsage, Options, Ref};
use testkit::dummy::Census;

fn send<T: Send>() {}
fn sync<T: Sync>() {}

#[test]
fn a_map_goes_to_any_thread_and_serves_all_of_them() {
    send::<Map<u64>>();
    sync::<Map<u64>>();
    send::<Map<String>>();
    sync::<Map<String>>();
    send::<Ref<'_, String>>();
    sync::<Ref<'_, String>>();
    send::<Key<'_>>();
    sync::<Key<'_>>();
    send::<(Options, MemoryUsage, LoadError, InsertError<u64>)>();
}

#[test]
fn a_map_and_its_handle_may_be_used_where_panics_are_caught() {
    let map = Map::new();
    map.pin().insert(b"a number", 1_u64);
    let update = || _ = map.pin().update(b"a number", |_| resume_unwind(Box::new(())));
    assert!(catch_unwind(update).is_err());
    let pinned = map.pin();
    assert!(catch_unwind(|| pinned.retain(|_, _| resume_unwind(Box::new(())))).is_err());
    assert_eq!(pinned.get(b"a number").as_deref(), Some(&1));
}

#[test]
fn an_owned_iterator_goes_to_another_thread() {
    send::<IntoIter<String>>();
    let map = Arc::new(Map::new());
    for n in 0..500_u64 {
        map.pin().insert(&n.to_be_bytes(), Box::new(n));
    }
    let mut all = map.iter_owned();
    let first = all.next();
    drop(map);
    let rest = std::thread::spawn(move || all.map(|(_, value)| value).collect::<Vec<_>>());
    assert_eq!(first.map(|(_, value)| *value), Some(0));
    let expected: Vec<_> = (1..500_u64).map(Box::new).collect();
    assert_eq!(rest.join().unwrap(), expected);
}

#[test]
fn an_iterator_that_has_ended_stays_so() {
    let key = |n: u64| n.to_be_bytes();
    // From none to several leaves, and as many walks as teach a map to expect others of that length.
    for count in [0, 1, 2, 30, 700] {
        let map = Arc::new(Map::new());
        let pinned = map.pin();
        (0..count).for_each(|n| assert!(pinned.insert(&key(3 * n + 1), n).is_none()));
        for _ in 0..70 {
            assert_eq!(pinned.iter().count() as u64, count);
        }
        let (mut up, mut down, mut both) = (pinned.iter(), pinned.iter(), pinned.iter());
        let mut owned = map.iter_owned();
        assert_eq!(up.by_ref().count() as u64, count);
        assert_eq!(down.by_ref().rev().count() as u64, count);
        assert_eq!(owned.by_ref().count() as u64, count);
        let mut met = 0;
        while (if met % 2 == 0 { both.next() } else { both.next_back() }).is_some() {
            met += 1;
        }
        assert_eq!(met, count);
        (0..3 * count + 3).for_each(|n| _ = pinned.insert(&key(n), n));
        assert!(owned.next().is_none());
        for ended in [&mut up, &mut down, &mut both] {
            for _ in 0..3 {
                assert!(ended.next().is_none(), "{count} entries");
                assert!(ended.next_back().is_none(), "{count} entries");
            }
        }
    }
}

#[test]
fn an_owned_iterator_that_has_ended_lets_go_of_its_map() {
    let (value, map) = (Arc::new(()), Map::new());
    (0..100_u64).for_each(|n| _ = map.pin().insert(&n.to_be_bytes(), Arc::clone(&value)));
    let mut all = Arc::new(map).iter_owned();
    assert_eq!(all.by_ref().count(), 100);
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(all.next().is_none());
}

#[test]
fn a_ref_stays_as_it_was_found() {
    let map = Map::new();
    let pinned = map.pin();
    pinned.insert(b"in place", 1_u64);
    let found = pinned.get(b"in place").unwrap();
    pinned.insert(b"in place", 2);
    pinned.remove(b"in place");
    assert_eq!((*found, format!("{found:?} {found}")), (1, "1 1".to_owned()));

    let map = Map::new();
    let pinned = map.pin();
    pinned.insert(b"a record", Box::new(1_u64));
    let found = pinned.get(b"a record").unwrap();
    let again = pinned.get(b"a record").unwrap();
    for n in 0..1_000 {
        pinned.insert(b"a record", Box::new(n));
    }
    pinned.clear();
    assert_eq!((**found, found == again), (1, true));
}

#[test]
fn of_threads_that_insert_an_absent_key_one_does() {
    let map = Map::<u64>::new();
    let insert = |thread: u64| {
        let inserted = |n: &u32| {
            let pinned = map.pin();
            match pinned.insert_if_absent(&Spelling::ALL[1].key(*n), thread) {
                Ok(new) => *new == thread,
                Err((there, back)) => {
                    assert!(*there != thread && back == thread);
                    false
                }
            }
        };
        (0..2_000).filter(inserted).count()
    };
    let inserted: usize = std::thread::scope(|scope| {
        let insert = &insert;
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || insert(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((inserted, map.pin().len()), (2_000, 2_000));
}

#[test]
fn values_of_every_size_and_alignment_come_back() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Padded(u8, u32);

    // One in a leaf and one in a record, where there are such.
    fn keys(n: u8) -> [Vec<u8>; 2] {
        [Spelling::ALL[0].key(n.into()), Spelling::ALL[1].key(n.into())]
    }
    fn round<V: Clone + PartialEq + std::fmt::Debug + Send + Sync>(values: &[V; 2]) {
        let map = Map::new();
        let pinned = map.pin();
        for n in 0..200_u8 {
            for key in keys(n) {
                pinned.insert(&key, values[usize::from(n % 2)].clone());
            }
        }
        for n in 0..200_u8 {
            let [kept, removed] = keys(n);
            assert_eq!(pinned.get(&kept).as_deref(), Some(&values[usize::from(n % 2)]));
            let old = pinned.remove(&removed);
            assert_eq!(old.as_deref(), Some(&values[usize::from(n % 2)]));
        }
        assert_eq!(pinned.len(), 200);
        pinned.check().unwrap();
    }
    // One of each form, since each compiles all of each map once more; `mem/word.rs` has others that fit a word.
    round(&[(), ()]);
    round(&[Padded(1, 2), Padded(3, 4)]);
    round(&[[1_u64; 3], [2; 3]]);
    let aligned = [1, 2].map(|content| Census::new().value(content));
    assert_eq!(align_of_val(&aligned), 64);
    round(&aligned);
}

#[test]
fn two_handles_of_one_thread_do_not_disturb_each_other() {
    let map = Map::new();
    let outer: Pinned<'_, u64> = map.pin();
    outer.insert(b"an older", 1);
    let found: Iter<'_, u64> = outer.iter();
    {
        let mut inner = map.pin();
        inner.insert(b"the next", 2);
        inner.repin();
        inner.remove(b"an older");
    }
    assert_eq!(found.map(|(_, value)| *value).collect::<Vec<_>>(), [2]);
}
