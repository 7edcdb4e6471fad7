// Included for each map on byte strings by `maps/mod.rs`, behind `../api.rs`.

use std::collections::HashSet;

#[test]
fn a_key_behaves_as_its_bytes() {
    let map = Map::new();
    let pinned = map.pin();
    let long = [b'x'; 100];
    pinned.insert(b"short", 1_u64);
    pinned.insert(&long, 2);
    let keys: Vec<Key<'_>> = pinned.iter().map(|(key, _)| key).collect();
    assert_eq!(keys[0], b"short"[..]);
    assert_eq!(keys[0], *b"short");
    assert_eq!(keys[0], b"short");
    assert_eq!(keys[1], &long[..]);
    assert_eq!(keys[1], long.to_vec());
    assert_eq!(keys[1].as_ref(), long);
    assert!(keys[0] < keys[1] && keys[0] != keys[1]);
    assert_eq!(keys[0].len(), 5);
    // A hash of the bytes, so that a set of keys is asked by bytes.
    let set: HashSet<Key<'_>> = keys.iter().copied().collect();
    assert!(set.contains(&b"short"[..]) && set.contains(&long[..]) && !set.contains(&b"s"[..]));
    assert_eq!(format!("{:?}", keys[0]), "\"short\"");
    let (empty, nul) = (Map::new(), Map::new());
    empty.pin().insert(b"", 1_u64);
    nul.pin().insert(b"\0", 1_u64);
    let pins = (empty.pin(), nul.pin());
    let both = (pins.0.first_key_value().unwrap().0, pins.1.first_key_value().unwrap().0);
    assert!(both.0 < both.1 && both.0.is_empty());
}

#[test]
fn errors_say_what_was_wrong_and_hand_the_value_back() {
    let map = Map::new();
    let pinned = map.pin();
    let error = pinned.try_insert(&vec![0; 65_536], Box::new(7_u64)).unwrap_err();
    let text = "the key has 65536 bytes, the longest possible one 65535";
    assert_eq!(error.to_string(), text);
    assert_eq!(*error.into_value(), 7);
    assert!(pinned.is_empty());
    pinned.check().unwrap();

    let long = vec![0; 65_536];
    let error = Map::from_sorted([(&[][..], 0_u64), (&long, 1)]).unwrap_err();
    assert_eq!(error, LoadError::KeyTooLong { index: 1, key_bytes: 65_536, max_bytes: 65_535 });
}

#[test]
fn a_map_is_collected_from_entries_in_any_order() {
    let keys = |numbers: std::ops::Range<u64>| numbers.map(|n| (n * 7 % 1_000).to_string());
    let mut map: Map<u64> = keys(0..2_000).zip(0..).collect();
    map.extend(keys(500..600).zip(5_000..));
    let pinned = map.pin();
    for (key, n) in keys(0..1_000).zip(0..) {
        let last = if (500..600).contains(&n) { n + 4_500 } else { n + 1_000 };
        assert_eq!(pinned.get(key.as_bytes()).as_deref(), Some(&last));
    }
    assert_eq!(pinned.len(), 1_000);
    pinned.check().unwrap();
}
