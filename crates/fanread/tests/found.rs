//! What fuzz targets once failed on, and a few inputs that nobody looked for, without a fuzzer.
//!
//! Inputs for the ordered maps are run by the suite `spelled` of each of them.

mod fuzzed;

use testkit::{Rng, effort, spelled};

/// Runs the regressions of a target, and inputs of random bytes.
fn replay(target: &str, of_this: impl Fn(&[u8]) -> bool, run: impl Fn(&[u8])) {
    spelled::regressions(target).filter(|bytes| of_this(bytes)).for_each(|bytes| run(&bytes));
    let mut rng = Rng::new(effort::seed(41));
    for _ in 0..300 {
        let len = rng.below(400);
        let bytes = rng.bytes(len);
        if of_this(&bytes) {
            run(&bytes);
        }
    }
}

#[test]
fn operations_that_fuzzing_found_agree_with_a_btreemap_on_persistent_maps() {
    let of_this = |bytes: &[u8]| matches!(spelled::map_of(bytes), "cceh" | "store");
    replay("maps", of_this, fuzzed::persistent::run);
}

#[test]
fn damaged_files_of_maps_are_refused_or_opened() {
    replay("persist_open", |_| true, fuzzed::files::run);
}

#[test]
fn files_that_are_no_tables_are_refused_or_answer() {
    replay("table_reader", |_| true, fuzzed::tables::run);
}

#[test]
fn bytes_that_are_no_keys_are_refused_or_in_order() {
    replay("key_order", |_| true, fuzzed::key_order::run);
}
