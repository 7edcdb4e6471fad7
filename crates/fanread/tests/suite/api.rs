// Included for each map by `maps/mod.rs`; `../api.rs` says what is tested.

use std::collections::HashSet;
use std::sync::Arc;

use self::map::{IntoIter, Iter, Pinned};
use fanread::{InsertError, Key, LoadError, MemoryUsage, Options, Ref};

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
fn an_owned_iterator_goes_to_another_thread() {
    send::<IntoIter<String>>();
    let map = Arc::new(Map::new());
    for n in 0..500_u32 {
        map.pin().insert(&n.to_be_bytes(), n.to_string());
    }
    let mut all = map.iter_owned();
    let first = all.next();
    drop(map);
    let rest = std::thread::spawn(move || all.map(|(_, text)| text).collect::<Vec<_>>());
    assert_eq!(first.map(|(_, text)| text).as_deref(), Some("0"));
    let expected: Vec<_> = (1..500).map(|n: u32| n.to_string()).collect();
    assert_eq!(rest.join().unwrap(), expected);
}

#[test]
fn a_key_behaves_as_its_bytes() {
    let map = Map::new();
    let pinned = map.pin();
    let long = [b'x'; 100];
    pinned.insert(b"short", 1);
    pinned.insert(&long, 2);
    let keys: Vec<Key<'_>> = pinned.iter().map(|(key, _)| key).collect();
    assert_eq!(keys[0], b"short"[..]);
    assert_eq!(keys[1].as_ref(), long);
    assert!(keys[0] < keys[1] && keys[0] != keys[1]);
    assert_eq!(keys[0].len(), 5);
    // A hash of the bytes, so that a set of keys is asked by bytes.
    let set: HashSet<Key<'_>> = keys.iter().copied().collect();
    assert!(set.contains(&b"short"[..]) && set.contains(&long[..]) && !set.contains(&b"s"[..]));
    assert_eq!(format!("{:?}", keys[0]), "\"short\"");
    let (empty, nul) = (Map::new(), Map::new());
    empty.pin().insert(b"", ());
    nul.pin().insert(b"\0", ());
    let pins = (empty.pin(), nul.pin());
    let both = (pins.0.first_key_value().unwrap().0, pins.1.first_key_value().unwrap().0);
    assert!(both.0 < both.1 && both.0.is_empty());
}

#[test]
fn a_ref_stays_as_it_was_found() {
    let map = Map::new();
    let pinned = map.pin();
    pinned.insert(b"inline", 1_u64);
    let found = pinned.get(b"inline").unwrap();
    pinned.insert(b"inline", 2);
    pinned.remove(b"inline");
    assert_eq!((*found, format!("{found:?}")), (1, "1".to_owned()));

    let map = Map::new();
    let pinned = map.pin();
    pinned.insert(b"record", "one".to_owned());
    let found = pinned.get(b"record").unwrap();
    let again = found;
    for n in 0..1_000 {
        pinned.insert(b"record", n.to_string());
    }
    pinned.clear();
    assert_eq!((found.as_str(), found == again), ("one", true));
}

#[test]
fn values_of_every_size_and_alignment_come_back() {
    #[repr(align(64))]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Aligned(u8);
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Padded(u8, u32);

    fn round<V: Clone + PartialEq + std::fmt::Debug + Send + Sync>(values: &[V; 2]) {
        let map = Map::new();
        let pinned = map.pin();
        for n in 0..200_u8 {
            pinned.insert(&[n], values[usize::from(n % 2)].clone());
            pinned.insert(
                &[&[n; 30][..], b"a long key"].concat(),
                values[usize::from(n % 2)].clone(),
            );
        }
        for n in 0..200_u8 {
            assert_eq!(pinned.get(&[n]).as_deref(), Some(&values[usize::from(n % 2)]));
            let old = pinned.remove(&[&[n; 30][..], b"a long key"].concat());
            assert_eq!(old.as_deref(), Some(&values[usize::from(n % 2)]));
        }
        assert_eq!(pinned.len(), 200);
        pinned.check().unwrap();
    }
    round(&[(), ()]);
    round(&[1_u8, 2]);
    round(&[Padded(1, 2), Padded(3, 4)]);
    round(&[Some('a'), None]);
    round(&[f64::MAX, -0.5]);
    round(&["borrowed", "text"]);
    round(&[[1_u64; 3], [2; 3]]);
    round(&[1_u128 << 100, 7]);
    round(&[[1_u8; 1_500], [2; 1_500]]);
    round(&[Aligned(1), Aligned(2)]);
    round(&[vec![1], vec![2, 3]]);
}

#[test]
fn two_handles_of_one_thread_do_not_disturb_each_other() {
    let map = Map::new();
    let outer: Pinned<'_, u64> = map.pin();
    outer.insert(b"a", 1);
    let found: Iter<'_, u64> = outer.iter();
    {
        let mut inner = map.pin();
        inner.insert(b"b", 2);
        inner.repin();
        inner.remove(b"a");
    }
    assert_eq!(found.map(|(_, value)| *value).collect::<Vec<_>>(), [2]);
}

#[test]
fn errors_say_what_was_wrong_and_hand_the_value_back() {
    let map = Map::new();
    let pinned = map.pin();
    let error = pinned.try_insert(&vec![0; 65_536], "kept".to_owned()).unwrap_err();
    let text = "the key has 65536 bytes, the longest possible one 65535";
    assert_eq!(error.to_string(), text);
    assert_eq!(error.into_value(), "kept");
    assert!(pinned.is_empty());
    pinned.check().unwrap();

    let long = vec![0; 65_536];
    let error = Map::from_sorted([(&[][..], 0), (&long, 1)]).unwrap_err();
    assert_eq!(error, LoadError::KeyTooLong { index: 1, key_bytes: 65_536, max_bytes: 65_535 });
}
