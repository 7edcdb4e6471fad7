// Included for each map by `maps/mod.rs`; `../shuttle.rs` says what is tested.

use std::collections::BTreeMap;

use self::common::{Spelling, Threads, Value};
use crate::scenes::{Do, Scenario};
use testkit::stress::Shared;

/// Runs a scenario with the value in the leaf and with the value in a record.
fn explore_both(scenario: Scenario, spelling: Spelling) {
    fn make<V: Value>(initial: &BTreeMap<u32, u64>, spelling: Spelling) -> Box<dyn Shared> {
        Box::new(Threads::<V>::new(initial, spelling, 1))
    }
    scenario.explore(NAME, Box::new(move |initial| make::<u64>(initial, spelling)));
    scenario.explore(NAME, Box::new(move |initial| make::<Box<u64>>(initial, spelling)));
}

fn nothing() -> Vec<u32> {
    Vec::new()
}

fn two() -> Vec<u32> {
    vec![4, 8]
}

/// A leaf, full: under the scheduler a leaf has one line, and 7 entries fill it.
fn full_leaf() -> Vec<u32> {
    (0..7).map(|n| 2 * n).collect()
}

/// As many entries as a hash directory has room for, but for some three to six: the first segment grows.
fn full_table() -> Vec<u32> {
    (0..8).map(|n| 2 * n).collect()
}

/// A leaf of six sorted entries and three fresh ones, as an `OrderedMap` has it: the next entry cuts it.
fn sorted_leaf() -> Vec<u32> {
    (0..9).map(|n| 2 * n).collect()
}

/// Two such leaves, cut between 10 and 12.
fn sorted_leaves() -> Vec<u32> {
    (0..10).map(|n| 2 * n).collect()
}

/// What to take out of these so that 2 keys remain in the left leaf and 3 in the right one.
fn all_but_these_5() -> Vec<u32> {
    vec![4, 6, 8, 10, 16]
}

/// Two leaves: the eighth entry has cut the full one between 4 and 8.
fn split() -> Vec<u32> {
    full_leaf().into_iter().chain([7]).collect()
}

/// What to take out of these so that 2 keys remain in the left leaf and 3 in the right one: the next removal merges
/// them.
fn all_but_5() -> Vec<u32> {
    vec![4, 6, 7]
}

/// Two leaves, both full.
fn two_full_leaves() -> Vec<u32> {
    split().into_iter().chain([1, 3, 5, 9, 11, 13, 15, 17]).collect()
}

/// What to take out of these so that 9 keys remain: 4 more, and a leaf is merged and a trie is made smaller.
fn all_but_9() -> Vec<u32> {
    vec![4, 6, 11, 12, 13, 15, 17]
}

macro_rules! scenarios {
    ($($name:ident: $spelling:ident, $first:ident - $without:ident, [$($calls:expr),*];)*) => {
        $(
            #[test]
            fn $name() {
                const THREADS: &[&[Do]] = &[$(&$calls),*];
                let scenario = Scenario { first: $first, without: $without, threads: THREADS };
                explore_both(scenario, Spelling::$spelling);
            }
        )*
    };
}

#[allow(unused_imports, reason = "not every map is asked for a `Find`")]
use Do::{Find, Get, GetOrInsert, Insert, Remove, Scan as Walk, ScanBack, Update};

scenarios! {
    a_split_hides_no_key_from_readers: Integers, full_leaf - nothing,
        [[Insert(7), Insert(9)], [Get(6), Get(7), Get(12)], [Get(7), Get(0), Get(8)]];
    a_split_loses_no_write: Integers, full_leaf - nothing,
        [[Insert(7), Get(3)], [Insert(3), Remove(6), Get(7)], [Update(6), Insert(6)]];
    the_first_leaf_is_made_once: Integers, nothing - nothing,
        [[Insert(1), Get(2)], [Insert(2), Get(1)], [GetOrInsert(1), Walk]];
    what_was_inserted_into_an_empty_map_is_met_from_both_ends: Integers, nothing - nothing,
        [[Insert(1)], [Insert(2), ScanBack, Walk]];
    a_merge_hides_no_key_from_readers: Integers, split - all_but_5,
        [[Remove(0), Remove(2)], [Get(2), Get(12), Get(0)], [Get(8), Get(2), Get(12)]];
    a_merge_loses_no_write: Integers, split - all_but_5,
        [[Remove(0), Get(3)], [Insert(3), Remove(10), Get(2)], [Update(12), Insert(12)]];
    a_writer_that_comes_late_does_not_overtake_a_merge: Integers, full_leaf - nothing,
        [[Insert(14), Remove(12), Remove(14)], [Insert(16), Get(16)]];
    a_leaf_may_split_while_its_halves_merge: Integers, full_leaf - nothing,
        [[Insert(14), Remove(12), Remove(14)], [Insert(16), Get(16)], [Insert(18), Get(16)]];
    two_neighbours_may_split_at_once: Integers, two_full_leaves - nothing,
        [[Insert(19), Get(21)], [Insert(21), Get(19)], [Remove(5), Insert(5), Get(2)]];
    a_scan_sees_what_its_own_thread_has_inserted: Integers, two - nothing,
        [[Walk, ScanBack], [Insert(50), Walk]];
    a_scan_sees_all_of_a_leaf_that_splits: Integers, full_leaf - nothing,
        [[Insert(7), Insert(3)], [Walk], [ScanBack]];
    a_scan_sees_all_of_leaves_that_merge: Integers, split - all_but_5,
        [[Remove(0), Insert(3)], [Walk], [ScanBack]];
    growth_hides_no_key_from_readers: Integers, two - nothing,
        [[Insert(1), Insert(2), Insert(3), Insert(5)], [Insert(6), Get(6), Get(4)],
            [Get(8), Get(1), Get(6)]];
    growth_loses_no_write: Integers, two - nothing,
        [[Insert(1), Insert(2), Insert(3), Insert(5)], [Remove(4), Get(4), Update(8), Get(8)],
            [Insert(9), Get(9), Insert(10)]];
    a_table_that_grows_hides_no_key_from_readers: Integers, full_table - nothing,
        [[Insert(1), Insert(3), Insert(5)], [Insert(7), Insert(9), Insert(11), Get(1)],
            [Get(7), Get(0), Get(14), Get(3)]];
    a_table_that_grows_loses_no_write: Integers, full_table - nothing,
        [[Insert(1), Insert(3), Get(9)], [Insert(7), Insert(9), Remove(0), Get(0)],
            [Insert(11), Insert(13), Update(14), Get(14)]];
    a_split_of_a_sorted_leaf_loses_no_write: Integers, sorted_leaf - nothing,
        [[Insert(7), Get(3)], [Insert(3), Remove(6), Get(7)], [Update(6), Insert(6), Walk]];
    a_merge_of_sorted_leaves_loses_no_write: Integers, sorted_leaves - all_but_these_5,
        [[Remove(0), Get(3)], [Insert(3), Remove(12), Get(2)], [Update(14), Remove(18), Walk]];
    two_sorted_neighbours_may_merge_at_once: Integers, sorted_leaves - all_but_these_5,
        [[Remove(0), Insert(0)], [Remove(12), Insert(12)], [Remove(14), Get(2)]];
    a_scan_sees_all_of_a_map_that_grows: Integers, two - nothing,
        [[Insert(1), Insert(2), Insert(3), Insert(5)], [Insert(6), Walk, Remove(4)],
            [Remove(8), ScanBack]];
    a_map_that_shrinks_hides_no_key: Integers, two_full_leaves - all_but_9,
        [[Remove(1), Remove(3), Remove(5), Remove(7)], [Insert(4), Get(4), Get(9)],
            [Remove(9), Get(9), Walk]];
    a_scan_that_sorts_a_leaf_loses_no_write: Integers, two - nothing,
        [[Insert(6), Remove(4)], [Walk, ScanBack], [Insert(2), Remove(8), Get(6)]];
    an_update_does_not_revive_what_is_removed: Integers, two - nothing,
        [[Update(4), Update(8)], [Remove(4), Insert(8)], [Remove(8), Get(4)]];
    a_scan_meets_a_key_once_whose_value_is_replaced: Integers, two - nothing,
        [[Insert(4), Insert(8), Insert(4)], [Walk, Get(4), Walk], [ScanBack, Get(8)]];
    a_scan_meets_no_key_that_is_replaced_and_then_removed: Integers, two - nothing,
        [[Insert(4), Remove(4), Insert(8)], [Insert(8), Walk, Get(4)], [ScanBack, Remove(8)]];
    what_was_inserted_is_what_is_returned: Integers, two - nothing,
        [[GetOrInsert(6), Get(6)], [Update(6), Insert(6)], [Remove(6), GetOrInsert(6)]];
    a_slot_used_again_gives_no_foreign_value: Integers, two - nothing,
        [[Remove(4), Insert(6), Remove(6), Insert(4)], [Get(4), Get(6)], [Get(8), Get(6)]];
}
