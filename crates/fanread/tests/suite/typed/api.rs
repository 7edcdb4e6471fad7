// Included for each map on keys of any type by `maps/mod.rs`, behind `../api.rs`.

#[test]
fn a_map_is_collected_from_entries_in_any_order() {
    let keys = |numbers: std::ops::Range<u64>| {
        numbers.map(|n| (n * 7 % 1_000).to_string().into_bytes().into_boxed_slice())
    };
    let mut map: Whole<u64> = keys(0..2_000).zip(0..).collect();
    map.extend(keys(500..600).zip(5_000..));
    let pinned = map.pin();
    for (key, n) in keys(0..1_000).zip(0..) {
        let last = if (500..600).contains(&n) { n + 4_500 } else { n + 1_000 };
        assert_eq!(pinned.get(&*key).as_deref(), Some(&last));
    }
    assert_eq!(pinned.len(), 1_000);
    pinned.check().unwrap();
}
