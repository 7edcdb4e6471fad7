// Included for each map by `maps/mod.rs`; `../linear.rs` says what is tested.

use self::common::{Churned, Spelling, Threads, Value};
use testkit::effort;
use testkit::stress::{Plan, Stats, run};

/// How many histories a test makes.
fn histories() -> usize {
    effort::amount("FANREAD_HISTORIES", 300)
}

/// Prints what was run (`--nocapture` shows it). How many calls overlapped is the machine's doing, so it is not asserted.
fn report(what: &str, stats: Stats) {
    println!("{what}: {stats:?}");
    effort::done("histories", NAME, stats.histories as u64);
}

/// Point calls only, on a map that holds nothing but the keys of the test: one leaf, which grows from nothing.
fn points<V: Value>(spelling: Spelling, seed: u64) {
    let plan = Plan { seed: effort::seed(seed), ..Plan::new(histories()) };
    let stats = run(&plan, |initial| Threads::<V>::new(initial, spelling, 1));
    report("points", stats);
}

/// Point calls and scans, with four threads, while leaves split and merge.
fn churned<V: Value>(spelling: Spelling, seed: u64) {
    let seed = effort::seed(seed);
    let plan =
        Plan { threads: 4, calls: 30, keys: 8, scan_one_in: 8, seed, ..Plan::new(histories()) };
    let stats = run(&plan, |initial| Churned::<V>::new(initial, spelling, seed));
    report("churned", stats);
    assert!(stats.scans > 0);
}

macro_rules! for_each_spelling {
    ($($name:ident: $test:ident::<$value:ty>, $spelling:ident, $seed:literal;)*) => {
        $(
            #[test]
            fn $name() {
                $test::<$value>(Spelling::$spelling, $seed);
            }
        )*
    };
}

for_each_spelling! {
    points_on_integers_in_a_leaf_are_linearizable: points::<u64>, Integers, 1;
    points_on_integers_in_records_are_linearizable: points::<Box<u64>>, Integers, 2;
    points_with_wide_values_are_linearizable: points::<[u64; 3]>, Integers, 7;
    splits_and_merges_of_integers_in_leaves_hide_nothing: churned::<u64>, Integers, 8;
    splits_and_merges_of_integers_in_records_hide_nothing: churned::<Box<u64>>, Integers, 9;
}
