//! One trie by itself: descents and edits against a `BTreeMap`, with nobody else, between each other's steps, and with
//! threads.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use testkit::ops::{Keys, pool, seeds};
use testkit::rng::Rng;

use super::check::check_trie;
use super::descend::{Descent, Look};
use super::edit::Edit;
use super::free::FreeLines;
use super::hints::Hinted;
use super::label::Symbol;
use super::layout::{
    BLOCK_BUCKETS, BUCKET_WEIGHT, Hinting, INNER_WEIGHT, Leaf, MAX_BUCKETS, NoRoom, larger,
};
use super::raw::{Memory, Shape, Trie};
use super::search::leaf_hash;
use super::state::Secret;
use crate::arch::{Baseline, common_prefix};
use crate::hash::prefix::Seed;
use crate::mem::heap::Shard;
use crate::mem::record::Record;
use crate::prefix::LeafRef;

/// A trie, what it is made of, and what should be in it.
struct Single {
    memory: Memory,
    free: FreeLines,
    heap: Shard,
    seed: Seed,
    secret: Secret,
    borders: (Vec<u8>, Option<Vec<u8>>),
    name: LeafRef,
    model: BTreeMap<Vec<u8>, u64>,
}

/// What readers need of a trie.
#[derive(Clone, Copy)]
struct View<'a> {
    memory: &'a Memory,
    seed: &'a Seed,
    secret: &'a Secret,
    name: LeafRef,
}

fn hash_of(seed: &Seed, key: &[u8]) -> u32 {
    leaf_hash(seed.hash(key))
}

impl<'a> View<'a> {
    fn trie(self) -> Trie<'a> {
        self.memory.trie(self.name)
    }

    /// The value of `key`, if the record found is that key's.
    fn value(self, key: &[u8], look: Look) -> Option<u64> {
        let unit = match look {
            Look::Record(unit) => unit,
            Look::Short(value) => return Some(value),
            Look::Absent => return None,
        };
        let record = self.memory.record::<u64>(unit);
        (record.key() == key).then(|| *crate::api::Ref::new(record.value()))
    }

    fn get(self, key: &[u8]) -> Option<u64> {
        let hash = hash_of(self.seed, key);
        self.value(key, self.trie().look(self.secret, Baseline, key, hash))
    }

    /// The same by the key's hint, if that says something.
    fn get_by_hint(self, key: &[u8]) -> ControlFlow<Option<u64>> {
        let trie = self.trie();
        if !trie.is_hinted_for::<u64>(key) {
            return ControlFlow::Continue(());
        }
        match trie.look_by_hint(self.secret, Baseline, key, hash_of(self.seed, key)) {
            Hinted::Record(unit) => match self.value(key, Look::Record(unit)) {
                None => ControlFlow::Continue(()),
                found => ControlFlow::Break(found),
            },
            Hinted::Absent => ControlFlow::Break(None),
            Hinted::Unknown => ControlFlow::Continue(()),
        }
    }

    /// The same in pieces, as in a batch.
    fn get_in_pieces(self, key: &[u8]) -> Option<u64> {
        let (trie, hash) = (self.trie(), hash_of(self.seed, key));
        if let Some(guess) = trie.guess_first(self.secret, key)
            && let Some(look) = guess
                .look_first(trie, Baseline, key, hash)
                .or_else(|| guess.look_second(trie, Baseline, key, hash))
        {
            return self.value(key, look);
        }
        let mut descent = trie.descent(self.secret, key);
        descent.ask_first(self.secret);
        loop {
            if let Some(look) = descent.look_on(self.secret, Baseline, hash, 2) {
                return self.value(key, look);
            }
        }
    }

    fn edit<'k>(self, key: &'k [u8], to_remove: bool) -> Edit<'a, 'k>
    where
        'a: 'k,
    {
        Edit::find(self.trie(), self.secret, Baseline, key, to_remove)
    }

    /// Makes a change under the trie's lock.
    fn change<T>(self, change: impl FnOnce() -> T) -> T {
        self.trie().version().lock().change(change)
    }

    /// The leaf of a key that is there.
    fn leaf(self, edit: &Edit<'_, '_>, key: &[u8]) -> Option<Leaf> {
        edit.leaf(hash_of(self.seed, key)).filter(|leaf| *self.memory.key::<u64>(*leaf) == *key)
    }

    /// A new leaf.
    fn new_leaf(self, heap: &mut Shard, key: &[u8], value: u64) -> Leaf {
        Memory::short_leaf(key, &value).unwrap_or_else(|| {
            let units = Record::<u64>::units(key.len());
            let unit = heap.allocate(&self.memory.records, units).unwrap();
            self.memory.write_record(unit, key, value).unwrap();
            Leaf::Record { unit, hash: hash_of(self.seed, key) }
        })
    }
}

impl Single {
    fn new(seed: u64, buckets: u32, borders: (&[u8], Option<&[u8]>)) -> Self {
        let seed = Seed::fixed(seed);
        let (memory, free, secret) = (Memory::new(), FreeLines::default(), Secret::new(&seed));
        let borders = (borders.0.to_vec(), borders.1.map(<[u8]>::to_vec));
        let name = LeafRef::new(1).unwrap();
        let (heap, model) = (Shard::new(), BTreeMap::new());
        let mut single = Self { memory, free, heap, seed, secret, borders, name, model };
        single.name = single.empty(buckets, 0);
        single
    }

    fn view(&self) -> View<'_> {
        View { memory: &self.memory, seed: &self.seed, secret: &self.secret, name: self.name }
    }

    fn trie(&self) -> Trie<'_> {
        self.memory.trie(self.name)
    }

    fn hash(&self, key: &[u8]) -> u32 {
        hash_of(&self.seed, key)
    }

    fn new_leaf(&mut self, key: &[u8], value: u64) -> Leaf {
        let mut heap = core::mem::replace(&mut self.heap, Shard::new());
        let leaf = self.view().new_leaf(&mut heap, key, value);
        self.heap = heap;
        leaf
    }

    /// Makes a trie with a table of so many lines.
    fn empty(&mut self, lines: u32, round: u32) -> LeafRef {
        let (low, high) = self.borders.clone();
        let border = |single: &mut Self, key: &[u8]| {
            let unit = single.heap.allocate(&single.memory.records, 1 + key.len() as u64).unwrap();
            single.memory.write_border(unit, key);
            unit
        };
        let low_unit = if low.is_empty() { 0 } else { border(self, &low) };
        let high_unit = high.as_ref().map(|high| border(self, high));
        let skip_bits = high.as_ref().map_or(0, |high| {
            let bytes = common_prefix(&low, high);
            let rest = low.get(bytes).map_or(0, |byte| (byte ^ high[bytes]).leading_zeros());
            8 * bytes as u32 + rest
        });
        // Half of the tables that are large enough have hints of a byte.
        let hinting = match lines / BLOCK_BUCKETS {
            0 | 1 => Hinting::None,
            blocks if blocks % 2 == 0 => Hinting::Byte,
            _ => Hinting::Half(0),
        };
        let buckets = lines - hinting.lines();
        let shape = Shape {
            buckets,
            skip_bits,
            round,
            levels: 1,
            // Not always where the paths have a node.
            entry: buckets.ilog2() % 6,
            leaf_level: (buckets.ilog2() + 1) % 5,
            hinting,
            low: (low_unit, &low),
            high: high_unit.zip(high.as_deref()),
        };
        self.memory.allocate(&mut self.free, &shape).unwrap().name()
    }

    /// Inserts a key that is not there, and leaves the table as it is.
    ///
    /// # Errors
    ///
    /// As `Edit::insert`.
    fn try_insert(&mut self, key: &[u8], value: u64) -> Result<(), NoRoom> {
        let leaf = self.new_leaf(key, value);
        let view = self.view();
        let edit = view.edit(key, false);
        assert!(view.leaf(&edit, key).is_none());
        let key_of = |leaf| view.memory.key::<u64>(leaf);
        view.change(|| edit.insert(leaf, self.hash(key), key_of))?;
        self.model.insert(key.to_vec(), value);
        Ok(())
    }

    /// Inserts or replaces, in a larger table if need be. Returns whether there was one large enough.
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        if self.model.contains_key(key) {
            let leaf = self.new_leaf(key, value);
            let view = self.view();
            view.change(|| view.edit(key, false).replace(leaf));
            self.model.insert(key.to_vec(), value);
            return true;
        }
        let (mut lines, mut round) = (self.trie().lines(), self.trie().round());
        let mut tried = self.try_insert(key, value);
        while let Err(error) = tried {
            match error {
                NoRoom::Collision => round += 1,
                NoRoom::Full => match larger(lines) {
                    Some(next) => lines = next,
                    None => return false,
                },
            }
            tried = self.rebuild(lines, round).and_then(|()| self.try_insert(key, value));
        }
        true
    }

    /// Builds the trie anew. If that fails, it stays as it is: in another order the keys may need more room.
    fn rebuild(&mut self, lines: u32, round: u32) -> Result<(), NoRoom> {
        let old = core::mem::replace(&mut self.name, LeafRef::new(1).unwrap());
        self.name = self.empty(lines, round);
        let model = core::mem::take(&mut self.model);
        let built = model.iter().try_for_each(|(key, value)| self.try_insert(key, *value));
        let gone = if built.is_ok() { old } else { core::mem::replace(&mut self.name, old) };
        self.model = model;
        self.memory.free(&mut self.free, gone);
        built
    }

    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        let view = self.view();
        let edit = view.edit(key, true);
        let leaf = view.leaf(&edit, key);
        if let Some(leaf) = leaf {
            view.change(|| edit.remove(leaf));
        }
        let expected = self.model.remove(key);
        assert_eq!(leaf.is_some(), expected.is_some());
        expected
    }

    /// Compares with the model, and verifies the invariants.
    fn check(&self) {
        let leaves =
            check_trie::<u64>(self.trie(), &self.secret, &self.memory, |key| self.hash(key));
        let leaves = leaves.unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!(leaves.len(), self.model.len());
        for (leaf, (key, value)) in leaves.into_iter().zip(&self.model) {
            assert_eq!(*self.memory.key::<u64>(leaf), **key);
            assert_eq!(*crate::api::Ref::new(self.memory.value::<u64>(leaf)), *value);
        }
    }

    fn check_gets(&self, others: &[Vec<u8>]) {
        let view = self.view();
        for key in self.model.keys().chain(others) {
            assert_eq!(view.get(key), self.model.get(key).copied(), "{key:?}");
            assert_eq!(view.get_in_pieces(key), self.model.get(key).copied(), "{key:?}");
            if let ControlFlow::Break(found) = view.get_by_hint(key) {
                assert_eq!(found, self.model.get(key).copied(), "{key:?}");
            }
        }
    }
}

#[path = "hints_tests.rs"]
mod hints;
#[path = "nodes_tests.rs"]
mod nodes;

/// Grows, churns and shrinks a trie, and compares it with the model all the time.
fn run(seed: u64, keys: &[Vec<u8>], buckets: u32, borders: (&[u8], Option<&[u8]>)) {
    let mut single = Single::new(seed, buckets, borders);
    let mut rng = Rng::part(seed, 7);
    let steps = keys.len() * if cfg!(miri) { 2 } else { 6 };
    let every = (keys.len() / 50).max(1);
    single.check();
    for step in 0..steps {
        let grows = step % (steps / 2) < steps / 3;
        let key = rng.pick(keys).clone();
        if rng.below(10) < if grows { 7 } else { 2 } {
            single.insert(&key, step as u64);
        } else {
            single.remove(&key);
        }
        let found = single.view().get(&key);
        assert_eq!(found, single.model.get(&key).copied(), "seed {seed:#x}, step {step}, {key:?}");
        if single.trie().keys() < 20 || step % every == 0 {
            single.check();
        }
    }
    single.check();
    single.check_gets(keys);
    while let Some(key) = single.model.keys().next().cloned() {
        single.remove(&key);
        if single.trie().keys() < 20 || single.trie().keys().is_multiple_of(every) {
            single.check();
        }
    }
    assert_eq!((single.trie().weight(), single.trie().keys()), (0, 0));
}

const UNBOUNDED: (&[u8], Option<&[u8]>) = (&[], None);

#[test]
fn one_trie_agrees_with_a_btreemap() {
    for (i, seed) in seeds().take(if cfg!(miri) { 1 } else { 4 }).enumerate() {
        for shape in Keys::ALL {
            let len = match shape {
                // Slow: thousands of nodes each.
                Keys::Long if cfg!(miri) || i > 0 => continue,
                Keys::Long => 16,
                _ if cfg!(miri) => 30,
                _ => 400,
            };
            run(seed, &pool(seed, shape, len), 1, UNBOUNDED);
            run(seed, &pool(seed, shape, len), (1 << (seed % 8)).min(MAX_BUCKETS), UNBOUNDED);
        }
    }
}

#[test]
fn a_root_lies_behind_what_the_borders_share() {
    let borders: [(&[u8], &[u8]); 7] = [
        (b"user", b"uses"),
        (b"a", b"ab"),
        (b"a", b"a\0"),
        (b"ab\x10", b"ab\x1f\xff"),
        (&[7; 60], &[7, 7, 7, 7, 8]),
        (&[9; 70], &[9; 71]),
        (b"", b"\x80"),
    ];
    for (i, (low, high)) in borders.into_iter().enumerate() {
        let mut rng = Rng::part(17, i as u64);
        // Keys that begin like one of the borders, and lie between them.
        let mut keys = vec![low.to_vec()];
        for _ in 0..20_000 {
            let border = if rng.one_in(2) { low } else { high };
            let mut key = border[..rng.below(border.len() + 1)].to_vec();
            key.extend((0..rng.below(4)).map(|_| rng.next_u64() as u8 & 0x81));
            if *key >= *low && *key < *high {
                keys.push(key);
            }
        }
        keys.truncate(if cfg!(miri) { 20 } else { 150 });
        run(i as u64, &keys, 1, (low, Some(high)));
    }
}

/// Keys that share the first `shared` symbols, and one that leaves them after `early`.
fn fork_keys(rng: &mut Rng, shared: usize, early: usize) -> [Vec<u8>; 3] {
    let trunk: Vec<u8> = (0..=shared).map(|_| rng.next_u64() as u8).collect();
    let mut first = trunk.clone();
    first.push(1);
    let mut second = trunk.clone();
    second.push(250);
    let mut third = trunk[..early].to_vec();
    third.push(trunk[early].wrapping_add(1));
    [first, second, third]
}

#[test]
fn a_failed_insertion_leaves_the_trie_unchanged() {
    let mut failures = [0_u32; 12];
    for seed in 0..if cfg!(miri) { 3 } else { 40 } {
        for buckets in [1, 2, 4, 8, 16] {
            let mut single = Single::new(seed, buckets, UNBOUNDED);
            let mut rng = Rng::part(seed, buckets.into());
            let [first, second, third] = fork_keys(&mut rng, 60, 10);
            assert!(single.insert(&third, 0) && single.trie().lines() == buckets);
            // The path of these two has up to nine jumps, which find room or do not.
            let mut keys = pool(seed, Keys::U64Random, buckets as usize * 5);
            keys.insert(rng.below(keys.len()), first);
            keys.push(second);
            for (i, key) in keys.iter().enumerate() {
                if single.model.contains_key(key) {
                    continue;
                }
                let weight = single.trie().weight();
                if single.try_insert(key, i as u64).is_err() {
                    assert_eq!(single.trie().weight(), weight);
                    assert_eq!(single.trie().keys(), single.model.len());
                    single.check();
                    single.check_gets(&keys);
                    let all = single.trie().buckets() as usize * BUCKET_WEIGHT;
                    failures[(all.saturating_sub(weight) / INNER_WEIGHT).min(11)] += 1;
                }
            }
            single.check();
        }
    }
    // With no room left, and with some.
    assert!(failures[0] > 0 && failures[1..].iter().any(|count| *count > 0), "{failures:?}");
}

#[test]
fn a_key_whose_name_has_the_state_of_another_waits_for_another_root() {
    let mut single = Single::new(11, if MAX_BUCKETS < 256 { 8 } else { 4 }, UNBOUNDED);
    let key = |[a, b, c]: [u8; 3]| {
        let bits = u32::from(a) << 18 | u32::from(b) << 12 | u32::from(c) << 6;
        bits.to_be_bytes()[1..].to_vec()
    };
    // Of the names of three symbols, two that are one state to this table.
    let (mut seen, mut found) = (BTreeMap::new(), None);
    let shift = single.trie().header().shift;
    for number in 0..1_u32 << 18 {
        let name = [number >> 12, number >> 6, number].map(|symbol| symbol as u8 & 63);
        let step = |state, symbol: &u8| single.secret.step(state, Symbol(*symbol));
        let state = name.iter().fold(single.secret.root(0), step);
        if let Some(other) = seen.insert(state.0 >> shift, name)
            && other[0] != name[0]
        {
            found = Some([other, name]);
            break;
        }
    }
    let names = found.expect("2^17 pairs for each of 2^30 states");
    // Two neighbours of each key make that name the key's.
    for ([a, b, c], by) in names.into_iter().flat_map(|name| [(name, 1), (name, 2)]) {
        single.try_insert(&key([a, b, c ^ by]), 1).unwrap();
    }
    let [first, second] = names.map(key);
    single.try_insert(&first, 2).unwrap();
    let weight = single.trie().weight();
    assert_eq!(single.try_insert(&second, 3), Err(NoRoom::Collision));
    assert_eq!((single.trie().weight(), single.trie().keys()), (weight, 5));
    single.check();
    single.check_gets(core::slice::from_ref(&second));
    assert!(single.insert(&second, 3) && single.trie().round() == 1);
    single.check();
    single.check_gets(&[]);
}

#[test]
fn a_label_splits_at_every_symbol() {
    let trunk: Vec<u8> = (0..20).map(|i| i * 13 + 5).collect();
    for at in 0..8 * trunk.len() {
        let mut single = Single::new(at as u64, 1, UNBOUNDED);
        let keys = [1, 2].map(|last| [trunk.clone(), vec![last]].concat());
        let mut third = trunk.clone();
        third[at / 8] ^= 0x80 >> (at % 8);
        for key in keys.iter().chain([&third, &trunk[..at / 8].to_vec()]) {
            single.insert(key, at as u64);
            single.check();
        }
        // And grows together again.
        single.check_gets(&[]);
        single.remove(&third);
        single.check();
        single.remove(&trunk[..at / 8]);
        single.check();
        let nodes = single.trie().weight() / INNER_WEIGHT;
        assert!(nodes <= 3 + 5, "{nodes} nodes of {} symbols", 8 * trunk.len() / 6);
    }
}

#[test]
fn keys_as_long_as_can_be_take_a_jump_for_ten_symbols() {
    if cfg!(any(miri, shuttle, small_leaves)) {
        return;
    }
    let mut single = Single::new(1, 1, UNBOUNDED);
    let long = |last: u8| [vec![7; 65_534], vec![last]].concat();
    for last in 0..=255 {
        assert!(single.insert(&long(last), last.into()));
    }
    // Two bits of the last byte fill up a symbol, six are one.
    let jumps = (65_534 * 8_usize / 6).div_ceil(10);
    assert_eq!(single.trie().weight(), (jumps + 1 + 4 + 256) * INNER_WEIGHT);
    single.check();
    single.check_gets(&[long(0)[..60_000].to_vec(), vec![7], vec![]]);
    for last in 1..=255 {
        single.remove(&long(last));
    }
    assert_eq!(single.trie().weight(), INNER_WEIGHT);
    single.check();
}

#[test]
fn levels_of_new_paths_are_noted() {
    let mut single = Single::new(3, 1, UNBOUNDED);
    let keys = pool(5, Keys::U64Random, if cfg!(miri) { 50 } else { 3_000 });
    for key in &keys {
        single.insert(key, 0);
    }
    if cfg!(any(miri, shuttle, small_leaves)) {
        return;
    }
    // 3,000 keys: 4,096 prefixes of two symbols are mostly one key's, so most leaves are on level 2 or 3.
    assert!((0b110..=0b1_1111).contains(&single.trie().levels()), "{:b}", single.trie().levels());
}

#[test]
fn a_removed_leaf_moves_its_neighbour_up_to_the_root() {
    let mut single = Single::new(4, 4, UNBOUNDED);
    let keys: [&[u8]; 3] =
        [b"0123456789abcdefghijklmnopqrstuvwxyz", b"0123456789abcdefghijklmnop", b""];
    for key in keys {
        single.insert(key, 1);
        single.check();
    }
    single.remove(b"");
    single.check();
    single.remove(keys[0]);
    assert_eq!(single.trie().weight(), INNER_WEIGHT, "a root that is a leaf");
    single.check();
    single.remove(keys[1]);
    assert_eq!(single.trie().weight(), 0);
    assert_eq!(single.view().get(keys[1]), None);
}

/// A descent that is under way, and the values that its key had since it began.
struct Under<'g, 'k> {
    key: &'k [u8],
    descent: Descent<'g, 'k>,
    values: Vec<Option<u64>>,
}

#[test]
fn a_descent_among_changes_says_what_was_so_at_some_time() {
    // The writer works between the steps of the readers, so each of them meets any change between any two nodes.
    let (mut answers, mut changed) = (0, 0);
    for seed in 0..if cfg!(miri) { 2 } else { 60 } {
        for shape in [Keys::SharedPrefixes, Keys::U64Dense, Keys::Urls, Keys::PrefixesOfEachOther] {
            let keys = pool(seed, shape, 40);
            let mut single = Single::new(seed, 32, UNBOUNDED);
            let mut rng = Rng::part(seed, 9);
            let buckets = if MAX_BUCKETS < 256 { 40 } else { 32 };
            single.rebuild(buckets, 0).unwrap();
            let (memory, secret) = (Memory::new(), single.secret.clone());
            let memory = core::mem::replace(&mut single.memory, memory);
            let view =
                View { memory: &memory, seed: &single.seed, secret: &secret, name: single.name };
            let mut model: BTreeMap<&[u8], u64> = BTreeMap::new();
            let mut under: Vec<Under<'_, '_>> = Vec::new();
            for step in 0..600_u64 {
                if under.len() < 6 {
                    let key = rng.pick(&keys);
                    let mut descent = view.trie().descent(&secret, key);
                    descent.ask_first(&secret);
                    under.push(Under {
                        key,
                        descent,
                        values: vec![model.get(key.as_slice()).copied()],
                    });
                }
                if rng.one_in(3) {
                    let key = rng.pick(&keys).as_slice();
                    let edit = view.edit(key, true);
                    if model.remove(key).is_some() {
                        view.change(|| edit.remove(view.leaf(&edit, key).unwrap()));
                    } else {
                        let leaf = view.new_leaf(&mut single.heap, key, step);
                        let key_of = |leaf| memory.key::<u64>(leaf);
                        let hash = hash_of(view.seed, key);
                        if view.change(|| edit.insert(leaf, hash, key_of)).is_ok() {
                            model.insert(key, step);
                        }
                    }
                    for under in &mut under {
                        under.values.push(model.get(under.key).copied());
                    }
                }
                let at = rng.below(under.len());
                let Under { key, descent, values } = &mut under[at];
                if let Some(look) = descent.look_on(&secret, Baseline, hash_of(view.seed, key), 1) {
                    let value = view.value(key, look);
                    assert!(values.contains(&value), "seed {seed}, step {step}: {key:?} {value:?}");
                    answers += 1;
                    changed += usize::from(values.iter().any(|other| *other != value));
                    under.swap_remove(at);
                }
            }
        }
    }
    assert!(answers > 0 && changed > 0);
}

/// A trie that one thread changes and others read.
struct Stage<'a> {
    view: View<'a>,
    stay: &'a BTreeMap<Vec<u8>, u64>,
    /// Keys that come and go, and for each a number: odd while the key changes; else, if the rest of 4 is 2, the key is
    /// there and this is its value.
    come: Vec<(Vec<u8>, AtomicU64)>,
}

impl Stage<'_> {
    /// Inserts or removes one of the keys that come and go.
    fn change(&self, heap: &mut Shard, at: usize) {
        let (view, (key, state)) = (self.view, &self.come[at]);
        let edit = view.edit(key, true);
        let there = view.leaf(&edit, key);
        let before = state.load(SeqCst);
        assert_eq!(there.is_some(), before % 4 == 2);
        state.store(before + 1, SeqCst);
        if let Some(leaf) = there {
            view.change(|| edit.remove(leaf));
        } else {
            let leaf = view.new_leaf(heap, key, before + 2);
            let key_of = |leaf| view.memory.key::<u64>(leaf);
            if view.change(|| edit.insert(leaf, hash_of(view.seed, key), key_of)).is_err() {
                state.store(before, SeqCst);
                return;
            }
        }
        state.store(before + 2, SeqCst);
    }

    /// Looks twice for one of these keys. Returns whether it did not change meanwhile.
    fn look(&self, at: usize) -> bool {
        let (key, state) = &self.come[at];
        let before = state.load(SeqCst);
        let found = [self.view.get_in_pieces(key), self.view.get(key)];
        let after = state.load(SeqCst);
        let context = || format!("{key:?}: {found:?} between {before} and {after}");
        // Values that it had at some time between the two.
        let fits = |value| before <= value + 1 && value <= after + 1;
        assert!(found.into_iter().flatten().all(fits), "{}", context());
        // What was found once is found again, until it is removed.
        let gone = found[1].is_none_or(|second| found[0].is_some_and(|first| first > second));
        assert!(!gone || found[0].is_none_or(|first| after > first), "{}", context());
        let same = before == after && before.is_multiple_of(2);
        assert!(!same || found == [(before % 4 == 2).then_some(before); 2], "{}", context());
        same
    }

    /// Looks for a key that stays.
    fn look_for_one_that_stays(&self, number: usize) {
        if let Some((key, value)) = self.stay.iter().nth(number % self.stay.len().max(1)) {
            assert_eq!(self.view.get(key), Some(*value), "{key:?}");
        }
    }
}

/// Inserts every fourth key, and calls `scene` with the others.
fn on_stage(
    seed: u64,
    keys: Vec<Vec<u8>>,
    buckets: u32,
    scene: impl FnOnce(&Stage<'_>, &mut Shard),
) {
    let mut single = Single::new(seed, buckets, UNBOUNDED);
    // Keys may repeat in a pool.
    let keys: BTreeSet<Vec<u8>> = keys.into_iter().collect();
    let mut come = Vec::new();
    for (i, key) in keys.into_iter().enumerate() {
        if i % 4 == 0 && single.try_insert(&key, i as u64).is_ok() {
            continue;
        }
        come.push((key, AtomicU64::new(0)));
    }
    let mut heap = core::mem::replace(&mut single.heap, Shard::new());
    let stage = Stage { view: single.view(), stay: &single.model, come };
    scene(&stage, &mut heap);
    let there = stage.come.iter().filter(|(_, state)| state.load(SeqCst) % 4 == 2);
    assert_eq!(single.trie().keys(), single.model.len() + there.count());
    let hash = |key: &[u8]| single.hash(key);
    check_trie::<u64>(single.trie(), &single.secret, &single.memory, hash).unwrap();
}

#[test]
fn threads_find_what_is_there_while_others_come_and_go() {
    let rounds = if cfg!(miri) { 30 } else { 4_000 };
    for (seed, shape) in
        (1..).zip([Keys::SharedPrefixes, Keys::Urls, Keys::U64Dense, Keys::U64Random, Keys::Short])
    {
        let keys = pool(seed, shape, if cfg!(miri) { 20 } else { 120 });
        on_stage(seed, keys, 32, |stage, heap| {
            let (seen, done) = (AtomicU64::new(0), AtomicBool::new(false));
            std::thread::scope(|scope| {
                for reader in 0..2 {
                    let (seen, done) = (&seen, &done);
                    scope.spawn(move || {
                        let mut rng = Rng::part(reader, 3);
                        while !done.load(SeqCst) {
                            stage.look_for_one_that_stays(rng.below(1_000));
                            let same = stage.look(rng.below(stage.come.len()));
                            seen.fetch_add(same.into(), SeqCst);
                        }
                    });
                }
                let mut rng = Rng::part(seed, 4);
                let mut step = 0;
                while step < rounds || seen.load(SeqCst) == 0 {
                    step += 1;
                    stage.change(heap, rng.below(stage.come.len()));
                }
                done.store(true, SeqCst);
            });
        });
    }
}

#[cfg(shuttle)]
mod models {
    //! The same with a scheduler that may switch threads at every access, and tables so full that nodes move.

    use super::super::layout::Place;
    use super::*;
    use crate::sync::shim::explore;
    use shuttle::rand::Rng as _;
    use shuttle::thread;

    /// Two readers, and a writer of some changes.
    fn scene() {
        let random = |end: usize| shuttle::rand::thread_rng().gen_range(0..end);
        let seed = random(1 << 20) as u64;
        let shapes = [Keys::SharedPrefixes, Keys::U64Dense, Keys::Short, Keys::PrefixesOfEachOther];
        let keys = pool(seed, shapes[random(shapes.len())], 4 + random(9));
        on_stage(seed, keys, 1 << random(3), |stage, heap| {
            // Keys of a pool may all be the same.
            if stage.come.is_empty() {
                return;
            }
            // With few of them, a key comes back while a reader has not yet seen that it went.
            let come = if random(2) == 0 { stage.come.len() } else { stage.come.len().min(2) };
            for _ in 0..8 {
                stage.change(heap, random(stage.come.len()));
            }
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..2 {
                            stage.look_for_one_that_stays(random(12));
                            stage.look(random(come));
                        }
                    });
                }
                for _ in 0..4 {
                    stage.change(heap, random(come));
                }
            });
        });
    }

    /// Moves a node to its other bucket, if that has room.
    fn move_one(trie: Trie<'_>, number: usize) {
        let in_bucket =
            |bucket| trie.bucket(bucket).nodes().map(move |(slot, _)| Place { bucket, slot });
        let nodes: Vec<Place> = (0..trie.buckets()).flat_map(in_bucket).collect();
        let Some(from) = nodes.get(number % nodes.len().max(1)) else { return };
        let head = trie.head(*from);
        if trie.put(trie.other(from.bucket, head), head.moved().name(), trie.node(*from).encode()) {
            trie.take(*from);
        }
    }

    /// Two readers, and a writer that moves nodes, of which there are few: mostly the root.
    fn moves() {
        let random = |end: usize| shuttle::rand::thread_rng().gen_range(0..end);
        let keys = pool(random(1 << 20) as u64, Keys::Urls, 1 + random(6));
        on_stage(random(1 << 20) as u64, keys, 2 << random(2), |stage, _| {
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| (0..2).for_each(|_| stage.look_for_one_that_stays(random(12))));
                }
                (0..6).for_each(|_| move_one(stage.view.trie(), random(12)));
            });
        });
    }

    #[test]
    fn shuttle_readers_of_one_trie_see_each_change_as_one() {
        explore(1, scene);
    }

    #[test]
    fn shuttle_readers_of_one_trie_find_nodes_that_move() {
        explore(1, moves);
    }
}
