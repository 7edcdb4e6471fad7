use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;
use crate::api::Key;
use crate::arch::{Avx512, Baseline};
use crate::index::cuckoo_trie::build::Run;
use crate::index::cuckoo_trie::build::tests::{ALL, Bench, key_sets};
use crate::index::cuckoo_trie::edit::Edit;
use crate::index::cuckoo_trie::layout::{Hinting, lines_for};
use crate::prefix::LeafRef;
use testkit::ops::pool;
use testkit::{Keys, Rng};

/// Collects `limit` records with the best kernel that there is, from `start` on or where the walk is.
fn collect(
    walk: &mut Walk,
    ground: &Ground<'_>,
    direction: Direction,
    start: Option<Start<'_>>,
    limit: usize,
    records: &mut Vec<Leaf>,
) -> Result<Progress, Disturbed> {
    match (Avx512::detect(), start) {
        (Some(lanes), Some(start)) => {
            walk.collect::<u64>(ground, lanes, direction, start, limit, records)
        }
        (None, Some(start)) => {
            walk.collect::<u64>(ground, Baseline, direction, start, limit, records)
        }
        (Some(lanes), None) => walk.collect_on(ground, lanes, direction, limit, records),
        (None, None) => walk.collect_on(ground, Baseline, direction, limit, records),
    }
}

/// Walks from `start` on, `part` records at a time or more. Goes on where it was, or behind the last record of each part.
fn walk(
    ground: &Ground<'_>,
    direction: Direction,
    start: Start<'_>,
    part: usize,
    on: bool,
) -> Vec<Leaf> {
    let mut walk = Walk::default();
    if on {
        walk.look_ahead(part % 5 * 10);
    }
    let (mut all, mut start, mut last) = (Vec::new(), Some(start), None);
    let other = Leaf::Short { key: 17, value: 17 };
    loop {
        let mut records = vec![other];
        let progress = collect(&mut walk, ground, direction, start, part, &mut records);
        assert_eq!(records.remove(0), other, "what was there stays");
        all.extend_from_slice(&records);
        match progress.expect("nobody writes") {
            Progress::End => return all,
            Progress::More => {
                assert!(records.len() >= part);
                let key = &**last.insert(ground.memory.key::<u64>(records[records.len() - 1]));
                start = (!on).then_some(Start::Key { key, inclusive: false });
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
            let ground = Ground { memory, secret, trie, reach_bytes: 8 };
            let leaves = run.entries().to_vec();
            let keys: Vec<&Vec<u8>> = keys.iter().collect();
            let expect = |direction, from: usize, found: Vec<Leaf>, about: &str| {
                let mut expected = match direction {
                    Direction::Up => leaves[from..].to_vec(),
                    Direction::Down => leaves[..from].to_vec(),
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
                    let found = walk(&ground, direction, Start::Edge, *part, rng.one_in(2));
                    expect(direction, edge, found, "from the edge");
                }
                for bound in &bounds {
                    for inclusive in [false, true] {
                        let part = *rng.pick(&parts) + 10;
                        let start = Start::Key { key: bound, inclusive };
                        let found = walk(&ground, direction, start, part, rng.one_in(2));
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

/// A trie in which some keys stay while others come and go.
struct Busy {
    memory: Memory,
    secret: Secret,
    name: LeafRef,
    /// Keys in order, and whether they stay.
    all: Vec<(Vec<u8>, Leaf, bool)>,
}

impl Busy {
    /// `None` if not even the keys that stay fit into one trie.
    fn new(seed: u64) -> Option<Self> {
        let mut bench = Bench::new(seed);
        let mut keys = pool(seed, Keys::Mixed, if cfg!(miri) { 20 } else { 300 });
        keys.sort_unstable();
        keys.dedup();
        let mut rng = Rng::part(seed, 0);
        let all: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let entry = bench.entry(&key);
                (key, entry, rng.one_in(3))
            })
            .collect();
        let mut run = Run::new();
        all.iter().filter(|(_, _, stays)| *stays).for_each(|(_, entry, _)| run.push(*entry));
        run.measure::<u64>(&bench.memory, 0);
        let stay = run.entries().len();
        // Room for all: the writer does not replace the trie.
        run.want_lines(lines_for(4 * all.len(), Hinting::Byte));
        let Bench { memory, secret, free, .. } = &mut bench;
        let name = run.build::<u64>(memory, secret, free, &ALL, 0..stay).ok()?.name();
        let Bench { memory, secret, .. } = bench;
        Some(Self { memory, secret, name, all })
    }

    fn key(&self, leaf: Leaf) -> Key<'_> {
        self.memory.key::<u64>(leaf)
    }

    /// Inserts or removes a key that does not stay.
    fn change(&self, rng: &mut Rng) {
        let (key, entry, stays) = rng.pick(&self.all);
        if *stays {
            return;
        }
        let trie = self.memory.trie(self.name);
        let mut locked = trie.version().lock();
        let edit = Edit::find(trie, &self.secret, Baseline, key, true);
        if edit.leaves().any(|leaf| leaf == *entry) {
            locked.change(|| edit.remove(*entry));
        } else {
            // Without room, the key stays away.
            let _ = locked.change(|| edit.insert(*entry, 7, |leaf| self.key(leaf)));
        }
    }

    /// Walks from a key on in pieces, starting over where it was disturbed, and checks what it yields. Returns how often
    /// it was disturbed.
    fn walk(&self, rng: &mut Rng, mut between: impl FnMut()) -> usize {
        let Self { memory, secret, .. } = self;
        let ground = Ground { memory, secret, trie: memory.trie(self.name), reach_bytes: 8 };
        let from = rng.below(self.all.len());
        let is_up = rng.one_in(2);
        let direction = if is_up { Direction::Up } else { Direction::Down };
        let first = Start::Key { key: &self.all[from].0, inclusive: true };
        let (mut records, limit) = (Vec::new(), 1 + rng.below(40));
        let mut walk = Walk::default();
        walk.look_ahead(rng.below(3) * 20);
        let (mut last, mut disturbed);
        let mut start = Some(first);
        disturbed = 0;
        loop {
            match collect(&mut walk, &ground, direction, start, limit, &mut records) {
                Ok(Progress::End) => break,
                Ok(Progress::More) => start = None,
                Err(Disturbed) => {
                    disturbed += 1;
                    last = records.last().map(|last| self.key(*last));
                    let behind = |key| Start::Key { key, inclusive: false };
                    start = Some(last.as_deref().map_or(first, behind));
                }
            }
            between();
        }
        let found: Vec<Key<'_>> = records.iter().map(|leaf| self.key(*leaf)).collect();
        assert!(found.is_sorted_by(|a, b| if is_up { a < b } else { a > b }));
        let known = |leaf: &Leaf| self.all.iter().any(|(_, entry, _)| entry == leaf);
        assert!(records.iter().all(known));
        let range = if is_up { &self.all[from..] } else { &self.all[..=from] };
        let stay: Vec<_> = range.iter().filter(|(_, _, stays)| *stays).collect();
        let mut rest = found.iter();
        for i in 0..stay.len() {
            let key = &stay[if is_up { i } else { stay.len() - 1 - i }].0;
            assert!(rest.any(|found| **found == **key), "{key:?} is left out");
        }
        disturbed
    }
}

#[test]
fn a_walk_with_changes_between_its_pieces_misses_nothing_that_stays() {
    for seed in testkit::seeds().take(3) {
        let Some(busy) = Busy::new(seed) else { continue };
        let (mut rng, mut changes) = (Rng::part(seed, 1), Rng::part(seed, 2));
        let walks = if cfg!(miri) { 4 } else { 500 };
        let disturbed: usize =
            (0..walks).map(|_| busy.walk(&mut rng, || busy.change(&mut changes))).sum();
        assert!(disturbed > 0, "seed {seed:#x}: no change was in the way");
    }
}

#[test]
fn a_walk_beside_a_writer_misses_nothing_that_stays() {
    for seed in testkit::seeds().take(3) {
        let Some(busy) = Busy::new(seed) else { continue };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Rng::part(seed, 1);
                while !done.load(Relaxed) {
                    busy.change(&mut rng);
                }
            });
            let mut rng = Rng::part(seed, 2);
            for _ in 0..if cfg!(miri) { 3 } else { 2000 } {
                busy.walk(&mut rng, || {});
            }
            done.store(true, Relaxed);
        });
    }
}
