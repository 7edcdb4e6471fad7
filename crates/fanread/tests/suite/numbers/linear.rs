// Included for each map on numbers by `maps/mod.rs`, behind `../linear.rs`.

for_each_spelling! {
    points_on_neighbours_are_linearizable: points::<u64>, Dense, 15;
    points_on_neighbours_in_records_are_linearizable: points::<Box<u64>>, Dense, 16;
    points_at_both_ends_are_linearizable: points::<u64>, Ends, 17;
    points_at_both_ends_in_records_are_linearizable: points::<Box<u64>>, Ends, 18;
    splits_and_merges_of_neighbours_hide_nothing: churned::<u64>, Dense, 19;
    splits_and_merges_of_neighbours_in_records_hide_nothing: churned::<Box<u64>>, Dense, 20;
    splits_and_merges_at_both_ends_hide_nothing: churned::<u64>, Ends, 21;
    splits_and_merges_at_both_ends_in_records_hide_nothing: churned::<Box<u64>>, Ends, 22;
    splits_and_merges_of_neighbours_with_wide_values_hide_nothing: churned::<[u64; 3]>, Dense, 23;
}
