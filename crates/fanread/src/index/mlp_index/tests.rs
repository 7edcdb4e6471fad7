//! Shapes of keys that make every entry change its form, against `BTreeMap`, and memory that runs out at any moment.

mod shapes {
    //! Keys of all shapes.

    use std::collections::BTreeMap;
    use std::ops::Bound;

    use testkit::Rng;

    use crate::api::Options;
    use crate::index::mlp_index::{MlpIndex, Pinned, Range};

    fn put<V: Send + Sync>(pinned: &Pinned<'_, V>, key: u64, value: V) -> bool {
        pinned.insert(key, value).is_none()
    }

    /// Keys of a shape, all different.
    fn keys(shape: usize, count: usize, rng: &mut Rng) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..count as u64)
            .map(|i| match shape {
                0 => rng.next_u64(),
                // Dense runs around multiples of 64 and 256.
                1 => (i / 100) * 256 + i % 100 + 30,
                // One byte of eight differs.
                2 => 0x0102_0304_0506_0708 ^ ((i / 8 + 1) % 256) << (i % 8 * 8),
                // Dense.
                3 => i,
                // Clusters.
                4 => (rng.next_u64() & 0xff) << 40 | (rng.next_u64() & 0xfff),
                // The ends.
                5 => {
                    if i % 2 == 0 {
                        i / 2
                    } else {
                        u64::MAX - i / 2
                    }
                }
                // A prefix and a key are one number.
                _ => rng.next_u64() & 0xff00_ff00_0000_0000,
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        for at in (1..keys.len()).rev() {
            keys.swap(at, rng.below(at + 1));
        }
        keys
    }

    fn assert_same(pinned: &Pinned<'_, u64>, model: &BTreeMap<u64, u64>, rng: &mut Rng) {
        pinned.check().unwrap();
        let up = Range::new(pinned, Bound::Unbounded, Bound::Unbounded);
        assert!(up.map(|(key, value)| (key, *value)).eq(model.iter().map(|(k, v)| (*k, *v))));
        let down = Range::new(pinned, Bound::Unbounded, Bound::Unbounded).rev();
        assert!(down.map(|(key, _)| key).eq(model.keys().rev().copied()));
        for _ in 0..200 {
            let near = model.keys().nth(rng.below(model.len().max(1))).copied().unwrap_or(0);
            let key = near.wrapping_add(rng.next_u64() % 5).wrapping_sub(2);
            for key in [key, rng.next_u64()] {
                assert_eq!(pinned.get(key).map(|v| *v), model.get(&key).copied());
                let next = Range::new(pinned, Bound::Included(key), Bound::Unbounded).next();
                assert_eq!(
                    next.map(|(k, _)| k),
                    model.range(key..).next().map(|(k, _)| *k),
                    "{key:#x}"
                );
                let last = Range::new(pinned, Bound::Unbounded, Bound::Excluded(key)).next_back();
                assert_eq!(last.map(|(k, _)| k), model.range(..key).next_back().map(|(k, _)| *k));
            }
        }
    }

    #[test]
    fn keys_of_all_shapes_come_and_go() {
        for shape in 0..7 {
            for count in [1, 5, 17, 300, 5_000, 60_000] {
                let mut rng = Rng::new(shape as u64 * 7 + count as u64);
                let keys = keys(shape, count, &mut rng);
                let map = MlpIndex::<u64>::with_options(Options::new());
                let mut model = BTreeMap::new();
                for (n, key) in keys.iter().enumerate() {
                    assert!(put(&map.pin(), *key, n as u64), "{shape} {count} {n} {key:#x}");
                    model.insert(*key, n as u64);
                    if n.is_power_of_two() {
                        assert_same(&map.pin(), &model, &mut rng);
                    }
                }
                assert_same(&map.pin(), &model, &mut rng);
                for (n, key) in keys.iter().rev().enumerate() {
                    assert_eq!(map.pin().remove(*key).map(|v| *v), model.remove(key));
                    if n.is_power_of_two() {
                        assert_same(&map.pin(), &model, &mut rng);
                    }
                }
                assert!(map.is_empty());
                assert_same(&map.pin(), &model, &mut rng);
            }
        }
    }

    #[test]
    fn a_replaced_segment_waits_for_no_other_to_be_freed() {
        let map = MlpIndex::new();
        for key in 0..100_u64 {
            map.pin().insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key);
        }
        // Other tests of this process are pinned too, each for a short while only.
        for _ in 0..1_000_000 {
            let pinned = map.pin();
            map.retire(&pinned, None);
            if map.shards.lock(pinned.thread).limbo.len() == 0 {
                return;
            }
            std::thread::yield_now();
        }
        panic!("some segments are kept for ever");
    }

    #[test]
    fn sets_and_boxes_are_kept_too() {
        let mut rng = Rng::new(5);
        let keys = keys(0, 20_000, &mut rng);
        let (set, boxes) = (MlpIndex::<()>::new(), MlpIndex::<Box<u64>>::new());
        for key in &keys {
            assert!(put(&set.pin(), *key, ()) && put(&boxes.pin(), *key, Box::new(!key)));
        }
        set.pin().check().unwrap();
        boxes.pin().check().unwrap();
        for key in &keys {
            assert!(set.pin().get(*key).is_some());
            assert_eq!(boxes.pin().get(*key).map(|v| **v), Some(!key));
            if key % 3 == 0 {
                assert!(set.pin().remove(*key).is_some() && boxes.pin().remove(*key).is_some());
            }
        }
        set.pin().check().unwrap();
        boxes.pin().check().unwrap();
    }
}

use self::map::{Map, Pinned};

/// The map behind keys of eight bytes.
#[allow(dead_code, reason = "the tests here use a part")]
#[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
mod map {
    use crate::api::{InsertError, LoadError, MemoryUsage, Options, Ref};
    use crate::index::mlp_index::{self as library, MlpIndex as Whole};

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/numbers.rs"));
}

/// Whether keys are numbers.
const NUMBERS: bool = true;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;
