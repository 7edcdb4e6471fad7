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

/// Keys of a shape, some of them twice, in no order.
fn keys_of(shape: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    let count = if cfg!(small_leaves) { 2_000 } else { 40_000 };
    let (len, step) = (2 + rng.below(7), [1, 2, 3, 64, 255, 256][rng.below(6)]);
    let base = rng.bytes(20);
    let sizes: Vec<_> = (0..len)
        .map(|_| {
            let most = *rng.pick(&[2, 4, 16, 256]);
            1 + rng.below(most)
        })
        .collect();
    let words: Vec<_> = (1..=50).map(|i| rng.bytes(1 + i % 12)).collect();
    let starts: Vec<_> = (0..30).map(|_| rng.next_u64()).collect();
    let key = |i: u64| match shape {
        // Numbers of few bytes, side by side.
        0 => (i * step).to_be_bytes()[8 - len..].to_vec(),
        // At each place some bytes of all.
        1 => sizes.iter().zip(&base).map(|(size, byte)| byte ^ rng.below(*size) as u8).collect(),
        // Words.
        2 => (0..=rng.below(4)).flat_map(|_| rng.pick(&words).clone()).collect(),
        // Numbers, and what is a byte longer or some shorter.
        3 => [&rng.next_u64().to_be_bytes()[..8 - rng.below(3)], &base[..rng.below(2)]].concat(),
        // Clusters behind what all share.
        _ => {
            let number = rng.pick(&starts).wrapping_add(rng.below(5_000) as u64);
            [&base[..step as usize % 20], &number.to_be_bytes()[8 - len..]].concat()
        }
    };
    (0..count).map(key).collect()
}

#[test]
fn keys_of_all_shapes_come_and_go() {
    for seed in testkit::seeds() {
        for shape in 0..5 {
            let mut rng = Rng::new(seed + shape as u64);
            let mut keys = keys_of(shape, &mut rng);
            keys.sort();
            keys.dedup();
            match rng.below(4) {
                0 => {}
                1 => keys.reverse(),
                // Two ranges that grow by turns.
                2 => {
                    let upper = keys.split_off(keys.len() / 2);
                    keys = keys.into_iter().zip(upper).flat_map(|(a, b)| [a, b]).collect();
                }
                _ => (1..keys.len()).rev().for_each(|at| keys.swap(at, rng.below(at + 1))),
            }
            come_and_go::<u64>(&keys, seed);
        }
    }
}
