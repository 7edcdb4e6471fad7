use std::collections::BTreeSet;

use super::*;
use crate::arch;
use crate::index::cuckoo_trie::build::tests::{ALL, Bench, key_sets};
use testkit::Rng;

/// Walks from `start` on, `part` records at a time, and goes on behind the last one of each part.
fn walk(ground: &Ground<'_>, direction: Direction, start: Start<'_>, part: usize) -> Vec<u64> {
    let mut walk = Walk::default();
    let (mut all, mut start) = (Vec::new(), start);
    loop {
        let mut records = vec![17];
        let progress = match arch::Avx512::detect() {
            Some(lanes) => walk.collect::<u64>(ground, lanes, direction, start, part, &mut records),
            None => walk.collect::<u64>(ground, Baseline, direction, start, part, &mut records),
        };
        assert_eq!(records.remove(0), 17, "what was there stays");
        assert!(records.len() <= part);
        all.extend_from_slice(&records);
        match progress.expect("nobody writes") {
            Progress::End => return all,
            Progress::More => {
                assert_eq!(records.len(), part);
                let key = ground.memory.record::<u64>(records[part - 1]).key();
                start = Start::Key { key, inclusive: false };
            }
        }
    }
}

/// Bounds: all keys, and others near them.
fn bounds(keys: &BTreeSet<Vec<u8>>, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut bounds = vec![Vec::new(), vec![0], vec![255; 20]];
    let every = keys.len() / 50 + 1;
    for key in keys.iter().skip(rng.below(every)).step_by(every) {
        bounds.push(key.clone());
        bounds.push([&key[..], &[0]].concat());
        bounds.push([&key[..], &[255, 3]].concat());
        bounds.push(key[..rng.below(key.len() + 1)].to_vec());
        let mut other = key.clone();
        if let Some(byte) = other.last_mut() {
            *byte = byte.wrapping_add(1 << rng.below(8));
            bounds.push(other);
        }
    }
    bounds.into_iter().filter(|key| key.len() <= 65_535).collect()
}

#[test]
fn a_walk_yields_what_is_beyond_its_bound_in_order() {
    for seed in testkit::seeds().take(2) {
        let mut rng = Rng::new(seed);
        for keys in key_sets(seed) {
            let mut bench = Bench::new(seed);
            let run = bench.run(&keys);
            let Bench { memory, secret, free, .. } = &mut bench;
            let built = run.build::<u64>(memory, secret, free, &ALL, 0..keys.len());
            let Ok(trie) = built else { continue };
            let ground = Ground { memory, secret, trie };
            let units: Vec<u64> = run.entries().iter().map(|entry| entry.unit).collect();
            let keys: Vec<&Vec<u8>> = keys.iter().collect();
            let expect = |direction, from: usize, found: Vec<u64>, about: &str| {
                let mut expected = match direction {
                    Direction::Up => units[from..].to_vec(),
                    Direction::Down => units[..from].to_vec(),
                };
                if direction == Direction::Down {
                    expected.reverse();
                }
                assert!(found == expected, "seed {seed:#x}, {direction:?} {about}");
            };
            let set = keys.iter().map(|key| (*key).clone()).collect();
            let mut bounds = bounds(&set, &mut rng);
            let mut parts = vec![1, 2, 3, 7, 100, 1000, 1 << 20];
            if keys.iter().map(|key| key.len()).sum::<usize>() > 1 << 19 {
                // Paths are long.
                bounds.truncate(40);
                parts.drain(..4);
            }
            for direction in [Direction::Up, Direction::Down] {
                let edge = if direction == Direction::Up { 0 } else { keys.len() };
                for part in &parts {
                    let found = walk(&ground, direction, Start::Edge, *part);
                    expect(direction, edge, found, "from the edge");
                }
                for bound in &bounds {
                    for inclusive in [false, true] {
                        let part = *rng.pick(&parts) + 10;
                        let start = Start::Key { key: bound, inclusive };
                        let found = walk(&ground, direction, start, part);
                        let below = keys.partition_point(|key| *key < bound);
                        let at_most = keys.partition_point(|key| *key <= bound);
                        let from = match (direction, inclusive) {
                            (Direction::Up, true) | (Direction::Down, false) => below,
                            _ => at_most,
                        };
                        expect(direction, from, found, &format!("from {bound:?}, {inclusive}"));
                    }
                }
            }
        }
    }
}
