//! Random changes against a list of anchors, colliding hashes, and readers beside a writer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::layout::LINE_REFS;
use super::search::Route;
use super::*;
use crate::hash::mix::stream;
use crate::mem::failing;
use crate::sync::epoch::{Limbo, pin};

/// A table, and the list of anchors that it ought to know.
struct Model {
    table: Arc<PrefixTable>,
    writer: Writer,
    anchors: BTreeMap<Vec<u8>, LeafRef>,
    limbo: Limbo<Garbage>,
    leaves: u32,
    random: (u64, u64),
}

/// Makes the anchor with this number.
type Shape = fn(u64) -> Vec<u8>;

fn pick(random: u64, i: u64, n: u64) -> u64 {
    stream(random, i) % n
}

fn short(n: u64) -> Vec<u8> {
    (0..=pick(n, 0, 5)).map(|i| b"\0ab\xff"[pick(n, i + 1, 4) as usize]).collect()
}

fn any_bytes(n: u64) -> Vec<u8> {
    (0..=pick(n, 0, 20)).map(|i| stream(n, i + 1) as u8).collect()
}

fn nuls(n: u64) -> Vec<u8> {
    vec![0; 1 + pick(n, 0, 300) as usize]
}

fn same_letter(n: u64) -> Vec<u8> {
    let mut key = vec![b'a'; 1 + pick(n, 0, 40) as usize];
    if n.is_multiple_of(3) {
        key.push(b'a' + pick(n, 1, 26) as u8);
    }
    key
}

fn long_shared(n: u64) -> Vec<u8> {
    let mut key = vec![b'x'; [7, 255, 256, 257, 300, 520][pick(n, 0, 6) as usize]];
    key.extend(short(n));
    key
}

/// Anchors of `len` bytes and a little less, which differ near the end.
fn of_length(n: u64, len: usize) -> Vec<u8> {
    let mut key = vec![b'y'; len - pick(n, 0, 4) as usize * 8];
    let at = key.len() - 1 - pick(n, 1, 20) as usize;
    key[at] = b'a' + pick(n, 2, 26) as u8;
    key
}

fn long(n: u64) -> Vec<u8> {
    of_length(n, 1041)
}

fn longest(n: u64) -> Vec<u8> {
    of_length(n, 65_535)
}

fn urls(n: u64) -> Vec<u8> {
    let host = ["a.example", "bb.example", "shop.example.org"][pick(n, 0, 3) as usize];
    let (item, page) = (pick(n, 1, 400), pick(n, 2, 12));
    format!("https://{host}/items/{item}/pages/{page:02}.html").into_bytes()
}

fn dense(n: u64) -> Vec<u8> {
    pick(n, 0, 70_000).to_be_bytes().to_vec()
}

fn sparse(n: u64) -> Vec<u8> {
    let bytes = stream(n, 0).to_be_bytes();
    bytes[..2 + pick(n, 1, 2) as usize].to_vec()
}

const SHAPES: [(&str, Shape, usize); 9] = [
    ("short", short, 1500),
    ("any bytes", any_bytes, 3000),
    ("nuls", nuls, 600),
    ("same letter", same_letter, 1500),
    ("long shared", long_shared, 1500),
    ("long", long, 400),
    ("urls", urls, 3000),
    ("dense", dense, 4000),
    ("sparse", sparse, 6000),
];

impl Model {
    fn new(seed: Seed, random: u64) -> Self {
        let (table, writer) = PrefixTable::new(seed);
        let mut model = Self {
            table: Arc::new(table),
            writer,
            anchors: BTreeMap::new(),
            limbo: Limbo::new(),
            leaves: 0,
            random: (random, 0),
        };
        let first = model.leaf();
        model.table.set_first(&mut model.writer, first);
        model.anchors.insert(Vec::new(), first);
        model
    }

    fn leaf(&mut self) -> LeafRef {
        self.leaves += 1;
        LeafRef::new(self.leaves).unwrap()
    }

    fn roll(&mut self, n: u64) -> u64 {
        self.random.1 += 1;
        pick(self.random.0, self.random.1, n)
    }

    /// The anchors and leaves around `key`: the last one not above it, and the next anchor.
    fn around(&self, key: &[u8]) -> (Vec<u8>, LeafRef, Option<Vec<u8>>) {
        let (low, leaf) = self.anchors.range(..=key.to_vec()).next_back().unwrap();
        let above = (std::ops::Bound::Excluded(key.to_vec()), std::ops::Bound::Unbounded);
        let next = self.anchors.range(above).next().map(|(anchor, _)| anchor.clone());
        (low.clone(), *leaf, next)
    }

    fn retire(&mut self, garbage: Option<Garbage>) {
        if let Some(garbage) = garbage {
            let guard = pin();
            self.limbo.retire(garbage, &guard);
        }
        drop(self.limbo.collect());
    }

    fn split(&mut self, new: &[u8]) {
        if self.anchors.contains_key(new) {
            return;
        }
        let (low, old, next) = self.around(new);
        let garbage = self.table.reserve(&mut self.writer, new.len()).unwrap();
        self.retire(garbage);
        let (left, right) = (self.leaf(), self.leaf());
        self.table.split(&mut self.writer, (&low, new, next.as_deref()), old, (left, right));
        self.anchors.insert(low, left);
        self.anchors.insert(new.to_vec(), right);
    }

    fn replace(&mut self, anchor: &[u8]) {
        let (_, old, next) = self.around(anchor);
        let new = self.leaf();
        self.table.replace(&mut self.writer, anchor, next.as_deref(), old, new);
        self.anchors.insert(anchor.to_vec(), new);
    }

    fn merge(&mut self, gone: &[u8]) {
        if gone.is_empty() {
            return;
        }
        let right = self.anchors.remove(gone).unwrap();
        let (low, left, next) = self.around(gone);
        let merged = self.leaf();
        let anchors = (&low[..], gone, next.as_deref());
        self.table.merge(&mut self.writer, anchors, (left, right), merged);
        self.anchors.insert(low, merged);
        let garbage = self.table.trim(&mut self.writer);
        self.retire(garbage);
    }

    fn any_anchor(&mut self) -> Vec<u8> {
        let i = self.roll(self.anchors.len() as u64) as usize;
        self.anchors.keys().nth(i).unwrap().clone()
    }

    fn check(&self) {
        let anchors: Vec<_> = self.anchors.iter().map(|(a, leaf)| (&a[..], *leaf)).collect();
        let broken = self.table.check(&self.writer, &anchors);
        assert!(broken.is_ok(), "{}", broken.unwrap_err());
    }

    fn route(&self, key: &[u8]) -> Route {
        let guard = pin();
        let probe = self.table.probe(key, &guard);
        self.table.route(key, probe).unwrap()
    }

    /// Whether the table's guess for `key` is the leaf that has it.
    fn finds(&self, key: &[u8], anchor_of: &HashMap<LeafRef, &[u8]>) -> bool {
        let route = self.route(key);
        let found = if anchor_of[&route.first] <= key { Some(route.first) } else { route.second };
        found == Some(self.around(key).1)
    }

    /// Checks the guesses for keys at, below and above anchors, in steps.
    fn check_routes(&self, step: usize) {
        let anchor_of: HashMap<LeafRef, &[u8]> =
            self.anchors.iter().map(|(a, leaf)| (*leaf, &a[..])).collect();
        for anchor in self.anchors.keys().step_by(step) {
            let mut keys = vec![anchor.clone()];
            for byte in [0, b'a', b'm', 0xff] {
                keys.push([&anchor[..], &[byte]].concat());
                keys.push([&anchor[..], &[byte; 17]].concat());
            }
            if let Some((last, start)) = anchor.split_last() {
                keys.push(start.to_vec());
                keys.push([start, &[last.wrapping_sub(1)]].concat());
                keys.push([start, &[last.wrapping_sub(1), 0xff, 0xff]].concat());
                keys.push([start, &[last.wrapping_add(1)]].concat());
                keys.push([&start[..start.len() / 2], &[*last]].concat());
            }
            for key in &keys {
                assert!(self.finds(key, &anchor_of), "\"{}\"", key.escape_ascii());
            }
        }
    }

    /// Runs `steps` random changes; grows first, then shrinks.
    fn run(&mut self, shape: Shape, steps: usize, mut after: impl FnMut(&Self, usize)) {
        for step in 0..steps {
            let growing = step * 3 < steps * 2;
            match self.roll(10) {
                0..6 if growing => {
                    let n = self.roll(u64::MAX);
                    self.split(&shape(n));
                }
                6 => {
                    let anchor = self.any_anchor();
                    self.replace(&anchor);
                }
                7 if growing => {
                    let anchor = self.any_anchor();
                    self.merge(&anchor);
                }
                _ if !growing => {
                    let anchor = self.any_anchor();
                    self.merge(&anchor);
                }
                _ => {
                    let n = self.roll(u64::MAX);
                    self.split(&shape(n));
                }
            }
            after(self, step);
        }
    }
}

#[test]
fn agrees_with_the_list_of_anchors() {
    for (name, shape, steps) in SHAPES {
        for round in 0..2 {
            println!("{name}, round {round}");
            let mut model = Model::new(Seed::fixed(round), round);
            model.run(shape, steps, |model, step| {
                if step < 40 || step.is_power_of_two() || step % (steps / 5) == 0 {
                    model.check();
                    model.check_routes(if step < 40 { 1 } else { 1 + step / 300 });
                }
            });
            while model.anchors.len() > 1 {
                let anchor = model.any_anchor();
                model.merge(&anchor);
            }
            model.check();
            assert_eq!(model.table.memory_bytes(&pin()), 0, "an empty table holds no memory");
        }
    }
}

#[test]
fn finds_leaves_at_every_fan() {
    for fan in [1, 2, 3, 5, 31] {
        for (_, shape, steps) in SHAPES {
            let mut model = Model::new(Seed::fixed(9), u64::from(fan));
            model.table.set_fan(fan);
            model.run(shape, steps / 4, |_, _| ());
            model.check();
            model.check_routes(1);
        }
    }
}

#[test]
fn a_large_table_guesses_right() {
    for (_, shape, _) in &SHAPES {
        let mut model = Model::new(Seed::fixed(10), 10);
        for n in 0..30_000 {
            model.split(&shape(n));
        }
        model.check();
        model.check_routes(7);
    }
}

#[test]
fn nodes_behind_a_full_bucket_are_found() {
    let mut model = Model::new(Seed::fixed(12), 12);
    let mut n = 0;
    while model.writer.books.marks < 5 {
        model.split(&any_bytes(n));
        n += 1;
        assert!(n < 100_000, "no bucket overflows");
    }
    model.check();
    model.check_routes(1);
}

#[test]
fn colliding_hashes_cost_time_but_no_anchor() {
    for (seed, is_total) in [(Seed::weak(), false), (Seed::colliding(), true)] {
        for (_, shape, steps) in &SHAPES {
            let mut model = Model::new(seed.clone(), 3);
            model.run(*shape, steps / 6, |model, step| {
                if step.is_power_of_two() {
                    model.check();
                    // Where no hash tells two prefixes apart, a guess is only some leaf.
                    for anchor in model.anchors.keys().take(20) {
                        let route = model.route(anchor);
                        assert!(model.anchors.values().any(|leaf| *leaf == route.first));
                    }
                }
            });
            model.check();
            let table = model.table.current.get_for_writer(&model.writer.exclusive);
            let lanes = table.map_or(0, |table| table.buckets().len() * LANES);
            assert!(lanes <= LANES || model.writer.books.nodes * 16 > lanes, "grows by load only");
            assert!(is_total || lanes > 0 || model.anchors.len() < 2);
        }
    }
}

#[test]
fn a_removed_leaf_is_named_nowhere() {
    for (_, shape, steps) in SHAPES {
        let mut model = Model::new(Seed::fixed(4), 4);
        model.run(shape, steps / 3, |model, step| {
            if !step.is_power_of_two() {
                return;
            }
            let live: BTreeSet<u32> = model.anchors.values().map(|leaf| leaf.get()).collect();
            let table = model.table.current.get_for_writer(&model.writer.exclusive);
            let Some(table) = table else { return };
            for (i, slot) in table.blocks().iter().enumerate() {
                let leaf = slot.load(Relaxed) & !layout::EXACT;
                let is_free = leaf == 0 && i >= BLOCK_LINES * LINE_REFS;
                assert!(is_free || live.contains(&leaf), "{leaf}");
            }
            for node in table.nodes() {
                let wide = layout::Head::of(node).is_wide();
                for i in 0..if wide { 1 } else { 11 } {
                    let leaf = layout::sequence(node, i) & !layout::EXACT;
                    assert!(leaf == 0 || live.contains(&leaf), "{leaf}");
                }
            }
        });
    }
}

#[test]
fn a_failed_reservation_changes_nothing() {
    let mut model = Model::new(Seed::fixed(5), 5);
    let mut refused = 0;
    for n in 0..3000 {
        let new = sparse(n);
        for allowed in 0..4 {
            failing::after(allowed);
            let reserved = model.table.reserve(&mut model.writer, new.len());
            failing::never();
            if let Ok(garbage) = reserved {
                model.retire(garbage);
                break;
            }
            refused += 1;
            model.check();
        }
        model.split(&new);
    }
    model.check();
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_block_outlives_most_of_its_children() {
    // Few anchors are left, and one node has a block: it has to be moved to a larger table, or needs a longer block.
    for added in [&[b'b'; 900][..], b"a\xf0"] {
        let mut model = Model::new(Seed::fixed(6), 6);
        for byte in 100..112 {
            model.split(&[b'a', byte]);
        }
        for byte in 107..112 {
            model.merge(&[b'a', byte]);
            model.check();
        }
        assert!(model.anchors.len() <= layout::NARROW && model.writer.books.live_lines > 0);
        model.split(added);
        model.check();
        model.check_routes(1);
    }
}

#[test]
fn the_longest_anchors_are_found() {
    let mut model = Model::new(Seed::fixed(11), 11);
    for fan in [16, 1] {
        model.table.set_fan(fan);
        model.run(longest, 60, |model, step| {
            if step % 20 == 0 {
                model.check_routes(1);
            }
        });
        model.check_routes(1);
    }
}

#[test]
fn a_reader_beside_a_writer_finds_only_leaves_of_its_time() {
    for (_, shape, steps) in SHAPES {
        let mut model = Model::new(Seed::fixed(6), 6);
        // When each leaf came and went, in numbers of changes; 0 for not yet.
        let born: Vec<AtomicU64> = (0..4 * steps + 10).map(|_| AtomicU64::new(0)).collect();
        let gone: Vec<AtomicU64> = (0..4 * steps + 10).map(|_| AtomicU64::new(0)).collect();
        let (changes, done) = (AtomicU64::new(1), AtomicBool::new(false));
        born[1].store(1, SeqCst);
        let table = Arc::clone(&model.table);
        let read = |random: u64| {
            let mut searches = 0;
            while !done.load(SeqCst) || searches == 0 {
                let key = shape(stream(random, searches) % 5000);
                searches += 1;
                let guard = pin();
                let start = changes.load(SeqCst);
                let probe = table.probe(&key, &guard);
                let route = table.route(&key, probe).unwrap();
                for leaf in core::iter::once(route.first).chain(route.second) {
                    let leaf = leaf.get() as usize;
                    assert!(born[leaf].load(SeqCst) > 0, "leaf {leaf} was never in the table");
                    let gone = gone[leaf].load(SeqCst);
                    assert!(
                        gone == 0 || gone > start,
                        "leaf {leaf} went at {gone}, before {start}"
                    );
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| read(1));
            scope.spawn(|| read(2));
            let mut live: BTreeSet<u32> = BTreeSet::from([1]);
            for step in 0..steps {
                let now = changes.load(SeqCst) + 1;
                let first_new = model.leaves as usize + 1;
                born[first_new..first_new + 2].iter().for_each(|leaf| leaf.store(now, SeqCst));
                let anchor = model.any_anchor();
                let n = model.roll(5000);
                match model.roll(3) {
                    0 => model.replace(&anchor),
                    1 if step * 2 > steps => model.merge(&anchor),
                    _ => model.split(&shape(n)),
                }
                let after: BTreeSet<u32> = model.anchors.values().map(|leaf| leaf.get()).collect();
                for leaf in live.difference(&after) {
                    gone[*leaf as usize].store(now, SeqCst);
                }
                live = after;
                changes.store(now, SeqCst);
            }
            done.store(true, SeqCst);
        });
        model.check();
    }
}
