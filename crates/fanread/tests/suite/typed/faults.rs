// Included for each map on keys of any type by `maps/mod.rs`, behind `../faults.rs`.

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
