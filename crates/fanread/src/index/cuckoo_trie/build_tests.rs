use std::collections::{BTreeSet, HashSet};

use super::*;
use crate::hash::prefix::Seed;
use crate::index::cuckoo_trie::check::check_trie;
use crate::index::cuckoo_trie::layout::{BLOCK_BUCKETS, BUCKET_WEIGHT, MAX_BUCKETS, is_size};
use crate::index::cuckoo_trie::raw::Memory;
use crate::index::cuckoo_trie::search::leaf_hash;
use crate::index::cuckoo_trie::split::middle;
use crate::mem::heap;
use crate::mem::record::Record;
use testkit::ops::pool;
use testkit::{Keys, Rng};

/// A memory with records, and the constants of one map.
pub(in crate::index::cuckoo_trie) struct Bench {
    pub(in crate::index::cuckoo_trie) memory: Memory,
    pub(in crate::index::cuckoo_trie) secret: Secret,
    pub(in crate::index::cuckoo_trie) free: FreeLines,
    seed: Seed,
    heap: heap::Shard,
}

impl Bench {
    pub(in crate::index::cuckoo_trie) fn new(seed: u64) -> Self {
        let seed = Seed::fixed(seed);
        Self {
            memory: Memory::new(),
            secret: Secret::new(&seed),
            free: FreeLines::default(),
            seed,
            heap: heap::Shard::new(),
        }
    }

    pub(in crate::index::cuckoo_trie) fn entry(&mut self, key: &[u8]) -> Leaf {
        if let Some(leaf) = Memory::short_leaf(key, &0_u64) {
            return leaf;
        }
        let units = Record::<u64>::units(key.len());
        let unit = self.heap.allocate(&self.memory.records, units).unwrap();
        self.memory.write_record::<u64>(unit, key, 0).unwrap();
        Leaf::Record { unit, hash: hash(&self.seed, key) }
    }

    pub(in crate::index::cuckoo_trie) fn border(&mut self, key: &[u8]) -> u64 {
        let units = Record::<()>::units(key.len());
        let unit = self.heap.allocate(&self.memory.records, units).unwrap();
        self.memory.write_border(unit, key);
        unit
    }

    pub(in crate::index::cuckoo_trie) fn run<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k Vec<u8>>,
    ) -> Run {
        let mut run = Run::new();
        for key in keys {
            let entry = self.entry(key);
            run.push(entry);
        }
        run.measure::<u64>(&self.memory, 0);
        run
    }

    /// Verifies a trie, and that it has exactly these entries.
    pub(in crate::index::cuckoo_trie) fn verify(&self, trie: Trie<'_>, entries: &[Leaf]) {
        let leaves =
            check_trie::<u64>(trie, &self.secret, &self.memory, |key| hash(&self.seed, key))
                .unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!(leaves, entries);
        let mut copy = Run::new();
        copy.push_trie(&self.secret, trie).unwrap();
        assert_eq!(copy.entries(), entries);
    }
}

impl Run {
    /// Whether the entries before and behind a place are a pair.
    pub(in crate::index::cuckoo_trie) fn parts_a_pair(&self, at: usize) -> bool {
        let mut units = self.units(0..self.entries.len(), 0);
        units.any(|unit| (unit.entries.start + 1..unit.entries.end).contains(&at))
    }
}

fn hash(seed: &Seed, key: &[u8]) -> u32 {
    leaf_hash(seed.hash(key))
}

/// The whole range of keys.
pub(in crate::index::cuckoo_trie) const ALL: Plan<'static> =
    Plan { low: (0, &[]), high: None, round: 0 };

/// Key sets of all shapes, sorted.
pub(in crate::index::cuckoo_trie) fn key_sets(seed: u64) -> Vec<BTreeSet<Vec<u8>>> {
    let mut rng = Rng::new(seed);
    let sizes = if cfg!(miri) { [1, 2, 3, 20, 30] } else { [1, 2, 3, 20, 400] };
    let mut sets: Vec<BTreeSet<Vec<u8>>> = Keys::ALL
        .into_iter()
        .flat_map(|shape| sizes.map(|len| pool(seed, shape, len).into_iter().collect()))
        .collect();
    // The longest keys there are, of which one is a prefix of the other, and which differ at the end.
    let long = vec![7; 65_535];
    let mut other = long.clone();
    other[65_534] = 6;
    sets.push(BTreeSet::from([long[..65_534].to_vec(), long, other]));
    sets.push(BTreeSet::new());
    sets.push(BTreeSet::from([Vec::new()]));
    if !cfg!(miri) {
        sets.push((0..3000_u32).map(|i| i.to_be_bytes().to_vec()).collect());
        sets.push((0..3000).map(|_| rng.bytes(8)).collect());
    }
    sets
}

#[test]
fn a_trie_built_of_sorted_keys_is_sound_and_has_them_all() {
    for seed in testkit::seeds().take(3) {
        for keys in key_sets(seed) {
            let mut bench = Bench::new(seed);
            let run = bench.run(&keys);
            let Bench { memory, secret, free, .. } = &mut bench;
            let all = 0..keys.len();
            let weight = run.count_weight(all.clone(), 0);
            match run.build::<u64>(memory, secret, free, &ALL, all) {
                Ok(trie) => {
                    // Where a key ends no label is part of the node, which is not counted before.
                    let ends = keys.iter().zip(keys.iter().skip(1)).any(|(a, b)| b.starts_with(a));
                    assert!(trie.weight() == weight || trie.weight() > weight && ends, "{weight}");
                    let name = trie.name();
                    bench.verify(bench.memory.trie(name), run.entries());
                }
                Err(error) => {
                    assert_eq!(error, BuildError::NoRoom(NoRoom::Full));
                    assert!(weight > MAX_BUCKETS as usize * BUCKET_WEIGHT * 3 / 4, "{weight}");
                }
            }
        }
    }
}

#[test]
fn both_sides_of_a_cut_are_tries_between_their_borders() {
    for seed in testkit::seeds().take(3) {
        for keys in key_sets(seed).into_iter().filter(|keys| keys.len() > 1) {
            let mut bench = Bench::new(seed);
            let run = bench.run(&keys);
            let keys: Vec<&Vec<u8>> = keys.iter().collect();
            let mut cuts = vec![0, run.cut(middle(run.entries().len())), keys.len()];
            let window = middle(keys.len());
            assert!(window.contains(&cuts[1]), "{} in {window:?}", cuts[1]);
            // And the sides again, wherever that may be.
            cuts.extend([run.cut(0..2), run.cut(keys.len() - 1..keys.len())]);
            cuts.sort_unstable();
            cuts.dedup();
            let mut borders = vec![(0, Vec::new())];
            for at in &cuts[1..cuts.len() - 1] {
                let border = run.border::<u64>(&bench.memory, *at).to_vec();
                assert!(*keys[at - 1] < border && border <= *keys[*at]);
                let shorter = &border[..border.len() - 1];
                assert!(shorter <= keys[at - 1].as_slice(), "the shortest border");
                borders.push((bench.border(&border), border));
            }
            for (i, part) in cuts.windows(2).enumerate() {
                let high = borders.get(i + 1).map(|high| (high.0, &high.1[..]));
                let plan = Plan { low: (borders[i].0, &borders[i].1), high, round: 3 };
                let part = part[0]..part[1];
                let Bench { memory, secret, free, .. } = &mut bench;
                let built = run.build::<u64>(memory, secret, free, &plan, part.clone());
                let Ok(trie) = built else { continue };
                let name = trie.name();
                bench.verify(bench.memory.trie(name), &run.entries()[part]);
            }
        }
    }
}

/// Two states that differ in what a table leaves out would be one there: only a build finds that out.
#[test]
fn a_table_that_knows_less_of_states_is_no_copy() {
    let mut bench = Bench::new(2);
    let keys: BTreeSet<_> = [vec![1], vec![2, 3], vec![2, 4]].into();
    let mut run = bench.run(&keys);
    for lines in
        [8, 16, BLOCK_BUCKETS, 2 * BLOCK_BUCKETS].into_iter().filter(|lines| is_size(*lines))
    {
        run.want_lines(lines);
        let Bench { memory, secret, free, .. } = &mut bench;
        let name = run.build::<u64>(memory, secret, free, &ALL, 0..3).unwrap().name();
        let trie = memory.trie(name);
        let bits = |lines: u32| (TAG_BITS + lines.ilog2()).min(STATE_BITS);
        for other in core::iter::successors(Some(1), |lines| larger(*lines)).take(12) {
            assert_eq!(can_copy(trie, other), bits(other) == bits(lines), "{lines} to {other}");
        }
        memory.free(free, name);
    }
}

#[test]
fn a_copy_in_a_table_of_any_size_is_the_same_trie() {
    let mut rng = Rng::new(1);
    let keys: BTreeSet<Vec<u8>> = (0..if cfg!(miri) { 40 } else { 5000 })
        .map(|i| rng.bytes(if i % 9 == 0 { 30 } else { 4 }))
        .collect();
    let mut bench = Bench::new(1);
    let run = bench.run(&keys);
    let (mut buckets, mut copies, mut full) = (1, 0, 0);
    loop {
        let Bench { memory, secret, free, .. } = &mut bench;
        let mut some = Run::new();
        // As many keys as the table holds at all.
        let count = (buckets as usize * 3).min(keys.len());
        some.entries.extend(&run.entries()[..count]);
        some.measure::<u64>(memory, 0);
        let Ok(trie) = some.build::<u64>(memory, secret, free, &ALL, 0..count) else { break };
        let name = trie.name();
        let mut to = Some(1);
        while let Some(size) = to {
            let Bench { memory, free, .. } = &mut bench;
            let old = memory.trie(name);
            if can_copy(old, size) {
                match copy(memory, free, &ALL, old, size) {
                    Ok(copied) => {
                        let copied = copied.name();
                        bench.verify(bench.memory.trie(copied), some.entries());
                        bench.memory.free(&mut bench.free, copied);
                        copies += 1;
                    }
                    Err(error) => {
                        assert_eq!(error, BuildError::NoRoom(NoRoom::Full));
                        let weight = bench.memory.trie(name).weight();
                        assert!(weight > size as usize * BUCKET_WEIGHT * 3 / 4);
                        full += 1;
                    }
                }
            }
            to = larger(size);
        }
        bench.verify(bench.memory.trie(name), some.entries());
        match larger(buckets) {
            Some(next) => buckets = next,
            None => break,
        }
    }
    assert!(copies > 20 && full > 5, "{copies} copies, {full} failures");
}

#[test]
fn a_new_root_and_a_joined_run_hold_the_same_keys() {
    let mut bench = Bench::new(4);
    let keys: BTreeSet<Vec<u8>> = pool(4, Keys::Mixed, 60).into_iter().collect();
    let run = bench.run(&keys);
    let half = run.cut(middle(run.entries().len()));
    let border = run.border::<u64>(&bench.memory, half).to_vec();
    let border = (bench.border(&border), &border[..]);
    let Bench { memory, secret, free, .. } = &mut bench;
    let mut joined = Run::new();
    for (plan, part) in [
        (Plan { high: Some(border), ..ALL }, 0..half),
        (Plan { low: border, ..ALL }, half..keys.len()),
    ] {
        let trie = run.build::<u64>(memory, secret, free, &plan, part).unwrap();
        joined.push_trie(secret, trie).unwrap();
    }
    assert_eq!(joined.entries(), run.entries());
    joined.measure::<u64>(memory, 0);
    assert_eq!(joined.shared, run.shared);
    for round in 0..3 {
        let Bench { memory, secret, free, .. } = &mut bench;
        let plan = Plan { round, ..ALL };
        let trie = joined.build::<u64>(memory, secret, free, &plan, 0..keys.len()).unwrap();
        assert_eq!(trie.round(), round);
        let name = trie.name();
        bench.verify(bench.memory.trie(name), run.entries());
    }
}

#[test]
fn levels_are_counted_as_the_paths_have_them() {
    for kind in [Keys::U64Random, Keys::Mixed] {
        let mut bench = Bench::new(5);
        let keys: BTreeSet<Vec<u8>> = pool(5, kind, 300).into_iter().collect();
        let run = bench.run(&keys);
        let keys: Vec<_> = keys.iter().collect();
        for part in [0..0, 0..1, 0..2, 7..40, 0..keys.len()] {
            let all: Vec<_> = keys[part.clone()].iter().map(|key| Symbols::new(key, 0)).collect();
            // For each level, the keys that part from another one there that they are no pair with.
            let is_pair = |a: &Symbols<'_>, b: &Symbols<'_>| {
                let at = |key: &Symbols<'_>| {
                    part.start + all.iter().position(|x| x.key() == key.key()).unwrap()
                };
                let (first, last) = (at(a).min(at(b)), at(a).max(at(b)));
                last == first + 1
                    && run.units(part.clone(), 0).any(|unit| unit.entries == (first..last + 1))
            };
            let with_node = |level: usize| {
                let parts = |key: &&Symbols<'_>| {
                    let parts = |other: &&Symbols<'_>| {
                        other.key() != key.key() && key.common(other) == level
                    };
                    all.iter().filter(parts).any(|other| !is_pair(key, other))
                };
                all.iter().filter(parts).count()
            };
            let Levels { usual, entry, leaves, .. } = run.levels(part.clone(), 0);
            let model = (0..LEVELS - 1).filter(|level| with_node(*level) * 64 > all.len());
            assert_eq!(usual, model.fold(1, |usual, level| usual | 2 << level), "{part:?}");
            // What is before a fork and fits in belongs to its node.
            let begins = |level: usize| {
                let begins = |key: &&Symbols<'_>| {
                    let forks: BTreeSet<usize> = all
                        .iter()
                        .filter(|other| other.key() != key.key() && !is_pair(key, other))
                        .map(|other| key.common(other))
                        .collect();
                    let mut behind = 0;
                    forks.into_iter().any(|fork| {
                        let row = fork - core::mem::replace(&mut behind, fork + 1);
                        let below = |other: &&Symbols<'_>| key.common(other) >= fork;
                        let children: HashSet<u8> =
                            all.iter().filter(below).map(|other| other.symbol(fork).0).collect();
                        fork - Branch::symbols_before(row, children.len()) == level
                    })
                };
                all.iter().filter(begins).count()
            };
            let is_entry =
                |level: &usize| begins(*level) > 0 && begins(*level) * 16 >= all.len() * 15;
            assert_eq!(entry as usize, (0..=5).rev().find(is_entry).unwrap_or(0), "{part:?}");
            // Random numbers have their leaves behind the last symbol that they share with another one.
            if kind == Keys::U64Random && part.len() > 2 {
                let leaf = |key: &&Symbols<'_>| {
                    let others = all.iter().filter(|other| other.key() != key.key());
                    others.map(|other| key.common(other)).max().unwrap_or(0) + 1
                };
                let there = |level: usize| {
                    all.iter().filter(|key| [level, level + 1].contains(&leaf(key))).count()
                };
                let most = (1..5).map(there).max().unwrap_or(0);
                assert_eq!(leaves > 0, most * 4 > all.len() * 3, "{part:?}");
                assert!(leaves == 0 || there(leaves as usize) == most, "{part:?}");
            }
        }
    }
}
