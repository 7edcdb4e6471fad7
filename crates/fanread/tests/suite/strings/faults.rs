// Included for each map on byte strings by `maps/mod.rs`, behind `../faults.rs`.

use self::map::MAX_KEY_BYTES;

#[test]
fn the_empty_key_and_keys_of_only_nul_bytes_are_keys_like_others() {
    let mut keys: Vec<_> = (0..700).map(|len| vec![0; len]).collect();
    come_and_go::<u64>(&keys, 1);
    come_and_go::<Box<u64>>(&keys, 2);
    keys.reverse();
    come_and_go::<u64>(&keys, 3);
    keys.extend((0..300).map(|len| [&vec![0; len][..], &[1]].concat()));
    keys.extend((0..300).map(|len| [&[1][..], &vec![0; len]].concat()));
    come_and_go::<u64>(&keys, 4);
}

#[test]
fn a_key_may_be_a_border_and_borders_may_be_prefixes_of_each_other() {
    // A border is the shortest string that separates two keys: here it is often a key, and a prefix of the next one.
    let mut keys: Vec<Vec<u8>> = (0..500).map(|len| vec![b'a'; len]).collect();
    come_and_go::<u64>(&keys, 1);
    for last in [0, 1, b'a' - 1, b'b', 255] {
        keys.extend((0..200).map(|len| [&vec![b'a'; len][..], &[last]].concat()));
    }
    come_and_go::<u64>(&keys, 2);
    come_and_go::<[u64; 3]>(&keys, 3);
    // Every string of up to 7 bytes of two letters: each is a prefix of two others.
    let words = |len: u32| (0..1_u32 << len).map(move |bits| (len, bits));
    let keys: Vec<Vec<u8>> = (0..8)
        .flat_map(words)
        .map(|(len, bits)| (0..len).map(|at| if bits >> at & 1 == 1 { 255 } else { 0 }).collect())
        .collect();
    come_and_go::<u64>(&keys, 4);
}

#[test]
fn more_keys_than_a_leaf_holds_may_share_a_prefix_of_almost_64_kb() {
    let count: u16 = if cfg!(small_leaves) { 60 } else { 600 };
    for shared in [MAX_KEY_BYTES - 2, MAX_KEY_BYTES - 3] {
        let stem = vec![b'x'; shared];
        let keys: Vec<_> =
            (0..count).map(|n| [&stem[..], &[(n / 32) as u8, (n % 32) as u8]].concat()).collect();
        come_and_go::<u64>(&keys, 1);
        come_and_go::<Box<u64>>(&keys, 2);
    }
}

#[test]
fn a_key_of_65_536_bytes_is_refused_and_the_map_unchanged() {
    if !LIMITED {
        // Keys of any type are as long as they like.
        return;
    }
    let map = Map::<Box<u64>>::new();
    let model: BTreeMap<_, _> = (0..600_u64).map(|n| (vec![b'k'; n as usize * 100], n)).collect();
    for (key, n) in &model {
        map.pin().insert(key, Box::new(*n));
    }
    let long = vec![b'k'; MAX_KEY_BYTES + 1];
    let pinned = map.pin();
    assert_eq!(*pinned.try_insert(&long, Box::new(1)).unwrap_err().into_value(), 1);
    assert!(pinned.get(&long).is_none() && pinned.remove(&long).is_none());
    assert!(pinned.update(&long, |_| Box::new(1)).is_none());
    assert!(pinned.compare_exchange(&long, &Box::new(1), Box::new(2)).is_err());
    assert_eq!(pinned.range(&long[..]..).count(), 0);
    assert_same(&map, &model);
    // Of a batch, what comes before it is in, and nothing behind it.
    let batch = [(&b"before"[..], 2_u64), (&long, 3), (b"behind", 4)];
    let batch = batch.map(|(key, value)| (key, Box::new(value)));
    assert_eq!(*pinned.try_insert_batch(batch).unwrap_err().into_value(), 3);
    assert_eq!(pinned.remove(b"before").as_deref().map(|value| **value), Some(2));
    assert_same(&map, &model);
    // The longest key there is.
    assert!(pinned.try_insert(&long[1..], Box::new(1)).unwrap().is_none());
    assert_eq!(pinned.range(&long[1..]..).count(), 1);
}

#[test]
fn the_empty_key_and_keys_with_equal_prefixes_are_keys_like_others() {
    // The prefix of a short key has NULs behind it, as those of these keys have.
    let mut keys: Vec<_> = (0..300).map(|len| vec![0; len]).collect();
    come_and_go::<u64>(&keys, 1);
    come_and_go::<Box<u64>>(&keys, 2);
    keys.extend((0..300).map(|len| [&vec![0; len][..], &[1]].concat()));
    keys.extend((0..300).map(|len| [&b"eight and more"[..], &vec![0; len]].concat()));
    come_and_go::<[u64; 3]>(&keys, 3);
}
