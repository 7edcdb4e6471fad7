// Included for each map by `maps/mod.rs`, in the suites and in the fuzz target `maps`: operations that are spelled by bytes.

use self::common::Ordered;
use testkit::model::agree_on;
use testkit::spelled::{self, Takes};

/// Carries out what the bytes spell, and compares the map with the model.
pub(crate) fn run(bytes: &[u8]) {
    let ops = spelled::ops(bytes, Takes { numbers: NUMBERS, points: false });
    match spelled::kind_of(bytes, 3) {
        0 | 1 => agree_on(Ordered::<Map<u64>>::default(), ops),
        _ => agree_on(Ordered::<Map<Box<u64>>>::default(), ops),
    }
}

#[test]
fn operations_that_fuzzing_found_agree_with_a_btreemap() {
    let of_this = |bytes: &Vec<u8>| spelled::map_of(bytes) == NAME;
    for bytes in spelled::regressions("maps").filter(of_this) {
        run(&bytes);
    }
    // And some that nobody looked for.
    let mut rng = testkit::Rng::new(testkit::effort::seed(31));
    for len in (0..3_000).step_by(150) {
        run(&rng.bytes(len));
    }
}
