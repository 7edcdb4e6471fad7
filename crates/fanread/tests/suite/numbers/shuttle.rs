// Included for each map on numbers by `maps/mod.rs`, behind `../shuttle.rs`.

use std::sync::Arc;

use crate::scenes::explore;
use shuttle::thread;

/// Neighbours under one node, which holds them as a list.
fn list() -> Vec<u32> {
    (0..6).map(|n| 2 * n).collect()
}

/// As many as make a node a bitmap.
fn many() -> Vec<u32> {
    (0..40).collect()
}

/// What to take out of these so that a few remain.
fn all_but_4() -> Vec<u32> {
    (4..40).collect()
}

scenarios! {
    a_node_that_grows_hides_no_key: Dense, list - nothing,
        [[Insert(1), Insert(3), Insert(5)], [Get(1), Get(8), Get(10)], [Get(0), Get(5), Get(4)]];
    a_node_that_grows_loses_no_write: Dense, list - nothing,
        [[Insert(1), Insert(3), Get(7)], [Insert(7), Remove(2), Get(1)], [Update(6), Insert(5)]];
    a_node_that_shrinks_hides_no_key: Dense, many - all_but_4,
        [[Remove(0), Remove(1)], [Get(2), Get(3), Get(0)], [Insert(9), Get(3)]];
    a_node_that_empties_takes_no_new_key_with_it: Dense, two - nothing,
        [[Remove(4), Remove(8)], [Insert(5), Get(5)], [Insert(9), Get(9), Get(4)]];
    the_smallest_key_of_a_node_may_go_while_others_come: Dense, list - nothing,
        [[Remove(0), Walk], [Insert(1), Remove(2)], [ScanBack, Get(1)]];
    a_scan_sees_all_of_a_node_that_grows: Dense, list - nothing,
        [[Insert(1), Insert(3), Insert(5)], [Walk], [ScanBack]];
    paths_that_part_far_up_lose_no_write: Ends, two - nothing,
        [[Insert(100), Remove(100)], [Insert(101), Get(101)], [Get(4), Remove(8), Walk]];
    growth_at_both_ends_hides_no_key: Ends, two - nothing,
        [[Insert(100), Insert(200), Insert(1)], [Get(4), Get(8), Get(200)], [Insert(300), Walk]];
}

/// Of the keys 5 and 6 one is always there, so whoever asks what comes from 5 on is never told 8. (A walk promises less.)
#[test]
fn a_bound_tells_what_came_next_at_one_instant() {
    if NAME != "mlp_index" {
        return;
    }
    let scene = || {
        let initial: BTreeMap<u32, u64> = list().into_iter().map(|key| (key, 0)).collect();
        let map = Arc::new(Threads::<u64>::new(&initial, Spelling::Dense, 1));
        let writer = {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                for _ in 0..2 {
                    assert_eq!(map.insert(5, 1), None);
                    assert!(map.remove(6).is_some());
                    assert_eq!(map.insert(6, 1), None);
                    assert!(map.remove(5).is_some());
                }
            })
        };
        for _ in 0..3 {
            let next = map.next_of(5, &[5, 6]);
            assert!(next.is_some(), "neither, at some instant");
        }
        writer.join().unwrap();
    };
    explore(NAME, scene);
}
