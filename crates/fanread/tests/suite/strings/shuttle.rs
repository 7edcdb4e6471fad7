// Included for each map on byte strings by `maps/mod.rs`, behind `../shuttle.rs`.

scenarios! {
    a_split_of_long_keys_loses_no_write: LongPrefix, full_leaf - nothing,
        [[Insert(7), Get(3)], [Insert(3), Remove(6), Get(7)], [Update(6), Get(6)]];
    a_split_of_nul_bytes_loses_no_write: Nuls, full_leaf - nothing,
        [[Insert(1), Remove(2)], [Get(0), Get(1), Insert(2)], [Update(4), Walk]];
    a_merge_of_long_keys_loses_no_write: LongPrefix, split - all_but_5,
        [[Remove(0), Get(3)], [Insert(3), Remove(10), Get(2)], [Update(12), Get(12)]];
    two_neighbours_may_merge_at_once: Nuls, split - all_but_5,
        [[Remove(0), Insert(0)], [Remove(10), Insert(10)], [Remove(12), Get(2)]];
    a_scan_of_long_keys_sees_all_of_a_leaf_that_splits: LongPrefix, full_leaf - nothing,
        [[Insert(7), Remove(4)], [Walk], [ScanBack]];
    a_scan_from_both_ends_sees_all_of_leaves_that_merge: Nuls, split - all_but_5,
        [[Remove(10)], [Walk, Walk], [Walk, ScanBack]];
    growth_with_long_keys_loses_no_write: LongPrefix, two - nothing,
        [[Insert(1), Insert(2), Insert(3), Insert(5)], [GetOrInsert(4), Remove(8), Get(8)],
            [Insert(9), Get(9), Insert(8)]];
    a_scan_of_long_keys_sees_all_of_a_map_that_grows: LongPrefix, two - nothing,
        [[Insert(1), Insert(2), Insert(3), Insert(5)], [Update(4), ScanBack],
            [Remove(8), Walk, Walk]];
    a_scan_sees_all_of_a_map_that_shrinks: Nuls, two_full_leaves - all_but_9,
        [[Remove(1), Remove(3), Remove(5), Remove(7)], [Insert(4), Walk], [Remove(9), ScanBack]];
    a_short_key_in_a_slot_used_again_has_no_foreign_value: Nuls, two - nothing,
        [[Remove(4), Insert(6), Remove(6), Insert(4)], [Get(4), Get(6)], [Get(8), Get(6)]];
    a_scan_that_sorts_records_loses_no_write: LongPrefix, two - nothing,
        [[Insert(6), Remove(4)], [Walk, ScanBack], [Insert(2), Remove(8), Get(6)]];
    what_was_inserted_in_a_record_is_what_is_returned: LongPrefix, two - nothing,
        [[GetOrInsert(6), Get(6)], [Update(6), Insert(6)], [Remove(6), GetOrInsert(6)]];
    an_update_in_a_record_does_not_revive_what_is_removed: LongPrefix, two - nothing,
        [[Update(4), Update(8)], [Remove(4), Insert(8)], [Remove(8), Get(4)]];
}
