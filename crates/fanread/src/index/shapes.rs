//! Keys of all shapes, for every map on numbers: each map's `tests.rs` has this file as a module, and names the map `Whole` and
//! its module `library`.

use std::collections::BTreeMap;

use testkit::Rng;

use super::*;
use crate::api::Options;

fn put<V: Send + Sync>(pinned: &library::Pinned<'_, V>, key: u64, value: V) -> bool {
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

fn assert_same(pinned: &library::Pinned<'_, u64>, model: &BTreeMap<u64, u64>, rng: &mut Rng) {
    pinned.check().unwrap();
    let up = pinned.range(..);
    assert!(up.map(|(key, value)| (key, *value)).eq(model.iter().map(|(k, v)| (*k, *v))));
    let down = pinned.range(..).rev();
    assert!(down.map(|(key, _)| key).eq(model.keys().rev().copied()));
    for _ in 0..200 {
        let near = model.keys().nth(rng.below(model.len().max(1))).copied().unwrap_or(0);
        let key = near.wrapping_add(rng.next_u64() % 5).wrapping_sub(2);
        for key in [key, rng.next_u64()] {
            assert_eq!(pinned.get(key).map(|v| *v), model.get(&key).copied());
            let next = pinned.range(key..).next();
            assert_eq!(
                next.map(|(k, _)| k),
                model.range(key..).next().map(|(k, _)| *k),
                "{key:#x}"
            );
            let last = pinned.range(..key).next_back();
            assert_eq!(last.map(|(k, _)| k), model.range(..key).next_back().map(|(k, _)| *k));
        }
    }
}

#[test]
fn keys_of_all_shapes_come_and_go() {
    for shape in 0..7 {
        for count in [1, 5, 17, 300, 5_000, 20_000] {
            let mut rng = Rng::new(shape as u64 * 7 + count as u64);
            let keys = keys(shape, count, &mut rng);
            let map = Whole::<u64>::with_options(Options::new());
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
fn sets_and_boxes_are_kept_too() {
    let mut rng = Rng::new(5);
    let keys = keys(0, 20_000, &mut rng);
    let (set, boxes) = (Whole::<()>::new(), Whole::<Box<u64>>::new());
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
