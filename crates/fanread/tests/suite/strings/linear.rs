// Included for each map on byte strings by `maps/mod.rs`, behind `../linear.rs`.

for_each_spelling! {
    points_on_long_keys_are_linearizable: points::<u64>, LongPrefix, 3;
    points_on_long_keys_in_records_are_linearizable: points::<Box<u64>>, LongPrefix, 4;
    points_on_nul_bytes_are_linearizable: points::<u64>, Nuls, 5;
    points_on_nul_bytes_in_records_are_linearizable: points::<Box<u64>>, Nuls, 6;
    splits_and_merges_of_long_keys_hide_nothing: churned::<u64>, LongPrefix, 10;
    splits_and_merges_of_long_keys_in_records_hide_nothing: churned::<Box<u64>>, LongPrefix, 11;
    splits_and_merges_of_nul_bytes_hide_nothing: churned::<u64>, Nuls, 12;
    splits_and_merges_of_nul_bytes_in_records_hide_nothing: churned::<Box<u64>>, Nuls, 13;
    splits_and_merges_with_wide_values_hide_nothing: churned::<[u64; 3]>, LongPrefix, 14;
}
