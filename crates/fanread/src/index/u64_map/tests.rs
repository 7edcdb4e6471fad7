//! Shapes of keys against `BTreeMap`, hashes that were chosen to collide, and memory that runs out at any moment.

use self::map::{Map, Pinned, Whole, library};

/// The map behind keys of eight bytes.
#[allow(dead_code, reason = "the tests here use a part")]
#[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
mod map {
    use crate::api::{InsertError, LoadError, MemoryUsage, Options, Ref};
    pub(super) use crate::index::u64_map::{self as library, U64Map as Whole};

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/numbers.rs"));
}

/// Whether keys are numbers.
const NUMBERS: bool = true;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

#[path = "../shapes.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map on numbers")]
mod shapes;

mod collisions {
    //! Keys whose hashes were chosen by who knows the map's seed.

    use crate::api::Options;
    use crate::hash::permute::Permutation;
    use crate::index::u64_map::U64Map;

    /// Keys whose hashes agree but for their last bits.
    fn keys(seed: u64, bits: u32, count: u64) -> impl Iterator<Item = u64> {
        let spelling = Permutation::new(seed);
        (0..count).map(move |i| spelling.number(0x5a5a_5a5a_5a5a_5a5a >> bits << bits | i))
    }

    #[test]
    fn keys_with_one_home_stay_in_bounded_memory() {
        for bits in [12, 20] {
            let map = U64Map::<u64>::with_options(Options::new().seed(9));
            for (i, key) in (0..).zip(keys(9, bits, 4000)) {
                assert!(map.pin().insert(key, i).is_none());
            }
            map.pin().check().unwrap();
            for (i, key) in (0..).zip(keys(9, bits, 4000)) {
                assert_eq!(map.pin().get(key).as_deref(), Some(&i));
            }
            // Blocks are taken from the system some at a time.
            let usage = map.memory_usage();
            assert!(usage.table_bytes + usage.leaf_bytes < 4 << 20, "{usage:?}");
            for key in keys(9, bits, 4000) {
                assert!(map.pin().remove(key).is_some());
            }
            map.pin().check().unwrap();
        }
    }

    #[test]
    fn keys_that_come_and_go_leave_no_trace() {
        let map = U64Map::<u64>::new();
        for round in 0..40_u64 {
            for key in 0..2000 {
                map.pin().insert(key * 7919 + round * 1_000_003, key);
            }
            map.pin().check().unwrap();
            for key in 0..2000 {
                assert!(map.pin().remove(key * 7919 + round * 1_000_003).is_some());
            }
        }
        map.pin().check().unwrap();
        assert!(map.is_empty());
        let usage = map.memory_usage();
        assert!(usage.leaf_bytes + usage.table_bytes < 1_000_000, "{usage:?}");
    }
}
