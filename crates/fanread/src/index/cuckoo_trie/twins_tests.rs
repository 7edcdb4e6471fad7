//! Careful readers, between any two of whose looks a writer does a lot. The worst that he can do is to take a node away and to place
//! another one of the same state: only that their parent is not what it was tells that it is another one.

use std::cell::Cell;
use std::collections::HashMap;

use super::bucket::tests::Between;
use super::build::Run;
use super::build::tests::{ALL, Bench};
use super::descend::Look;
use super::edit::Edit;
use super::layout::{Leaf, Node};
use super::place;
use super::raw::{Memory, Trie};
use super::state::{Secret, State, Symbols};
use super::walk::{Direction, Disturbed, Ground, Progress, Start, Walk};
use crate::api::Key;
use crate::arch::{Baseline, Lanes};
use crate::prefix::LeafRef;

/// What leads from either prefix to the key of a twin, and to other keys.
const TWIN: u8 = 1 << 2;
const OTHERS: [u8; 3] = [2 << 2, 3 << 2, 4 << 2];

fn key_of(prefix: [u8; 3], last: u8) -> [u8; 4] {
    let [a, b, c] = prefix;
    [a, b, c, last]
}

/// The state of the leaf of a key that shares its first four symbols, and no more, with others.
fn state_of(trie: Trie<'_>, secret: &Secret, key: &[u8]) -> State {
    secret.state_of(trie.short_name(Symbols::new(key, 0).nine(0), 5))
}

/// A trie with a key whose leaf has the state that another key's leaf will have, below another node. Its table is small, so it knows
/// little of states. A writer holds its lock and has announced a change, so readers are careful.
pub(super) struct Twins {
    memory: Memory,
    pub(super) secret: Secret,
    name: LeafRef,
    /// The keys that are there, in order: a twin, and the others below its parent; the others below the other twin's.
    pub(super) all: Vec<([u8; 4], Leaf)>,
    /// New leaves of the twin that is there and of the one that is not, and the latter's key.
    new: [Leaf; 2],
    absent: [u8; 4],
}

/// The trie of these leaves.
fn build(bench: &mut Bench, leaves: impl Iterator<Item = Leaf>) -> LeafRef {
    let mut run = Run::new();
    leaves.for_each(|leaf| run.push(leaf));
    run.measure::<u64>(&bench.memory, 0);
    run.want_lines(8);
    let Bench { memory, secret, free, .. } = bench;
    let count = run.entries().len();
    run.build::<u64>(memory, secret, free, &ALL, 0..count).unwrap().name()
}

/// The prefixes of twins.
fn prefixes(seed: u64) -> [[u8; 3]; 2] {
    let mut bench = Bench::new(seed);
    let name = build(&mut bench, core::iter::empty());
    let (trie, mut known) = (bench.memory.trie(name), HashMap::new());
    let prefixes = (0..1_u32 << 24).find_map(|n| {
        let [_, prefix @ ..] = n.to_be_bytes();
        let home = trie.home(state_of(trie, &bench.secret, &key_of(prefix, TWIN)));
        Some([known.insert((home.first, home.tag), prefix)?, prefix])
    });
    prefixes.expect("the seed has twins")
}

impl Twins {
    /// A seed, and its prefixes. One seed, whatever others run with: under most there are no twins among so few names.
    pub(super) fn seed() -> (u64, [[u8; 3]; 2]) {
        let seed = testkit::rng::splitmix(0);
        (seed, prefixes(seed))
    }

    pub(super) fn new(seed: u64, [first, second]: [[u8; 3]; 2]) -> Self {
        let mut bench = Bench::new(seed);
        let others = |prefix| OTHERS.map(|last| key_of(prefix, last));
        let keys = [key_of(first, TWIN)].into_iter().chain(others(first)).chain(others(second));
        let all: Vec<_> = keys.map(|key| (key, bench.entry(&key))).collect();
        let absent = key_of(second, TWIN);
        let new = [bench.entry(&all[0].0), bench.entry(&absent)];
        let name = build(&mut bench, all.iter().map(|(_, leaf)| *leaf));
        let Bench { memory, secret, .. } = bench;
        let twins = Self { memory, secret, name, all, new, absent };
        let mut locked = twins.trie().version().lock();
        locked.begin_change();
        core::mem::forget(locked);
        // From where it was built to its second bucket.
        twins.move_root();
        twins
    }

    pub(super) fn trie(&self) -> Trie<'_> {
        self.memory.trie(self.name)
    }

    fn key(&self, leaf: Leaf) -> Key<'_> {
        self.memory.key::<u64>(leaf)
    }

    fn move_root(&self) {
        let trie = self.trie();
        let from = trie.locate(Baseline, trie.home(self.secret.root(trie.round()))).unwrap();
        let (head, form) = (trie.head(from), trie.node(from).encode());
        assert!(trie.put(trie.other(from.bucket, head), head.moved().name(), form));
        trie.take(from);
    }

    fn edit<'k>(&'k self, key: &'k [u8]) -> Edit<'k, 'k> {
        Edit::find(self.trie(), &self.secret, Baseline, key, true)
    }

    /// Removes keys that are there, by their numbers.
    fn remove(&self, keys: core::ops::Range<usize>) {
        self.all[keys].iter().for_each(|(key, leaf)| self.edit(key).remove(*leaf));
    }

    /// Removes all that share its parent with the twin that is there, which then stands in the place of that.
    pub(super) fn remove_others(&self) {
        self.remove(1..1 + OTHERS.len());
    }

    /// Inserts the twin that is not there. The other one's leaf is gone from where it was.
    pub(super) fn insert(&self) {
        self.edit(&self.absent).insert(self.new[1], 7, |leaf| self.key(leaf)).unwrap();
    }

    /// All keys from a start on, as a walk finds them.
    fn walk(&self, lanes: impl Lanes, direction: Direction, first: Start<'_>) -> Vec<Leaf> {
        let Self { memory, secret, .. } = self;
        let ground = Ground { memory, secret, trie: self.trie(), reach_bytes: 8 };
        let (mut walk, mut found, mut last) = (Walk::default(), Vec::new(), None);
        let mut start = first;
        loop {
            match walk.collect::<u64>(&ground, lanes, direction, start, 100, &mut found) {
                Ok(progress) => {
                    assert_eq!(progress, Progress::End);
                    return found;
                }
                Err(Disturbed) => {
                    if let Some(leaf) = found.last() {
                        let key = &**last.insert(self.key(*leaf));
                        start = Start::Key { key, inclusive: false };
                    }
                }
            }
        }
    }

    /// Checks what a walk has found in which the first `gone` keys came or went.
    fn check(&self, direction: Direction, found: &[Leaf], gone: usize) {
        let keys: Vec<_> = found.iter().map(|leaf| self.key(*leaf)).collect();
        let is_up = direction == Direction::Up;
        assert!(keys.is_sorted_by(|a, b| if is_up { a < b } else { a > b }), "{keys:?}");
        let is_missed = |leaf: &Leaf| !found.contains(leaf);
        let missed: Vec<_> = self.all[gone..].iter().filter(|(_, leaf)| is_missed(leaf)).collect();
        assert!(missed.is_empty(), "{missed:?} in {keys:?}");
        assert!(!found.contains(&self.new[0]), "{keys:?}");
    }
}

/// Lets something happen before each look of a reader in turn.
fn before_each_look(happens: impl Fn(&Twins), reader: impl Fn(&Twins, Between<'_>)) {
    let (seed, prefixes) = Twins::seed();
    for at in 0.. {
        let (twins, words) = (Twins::new(seed, prefixes), Cell::new(0));
        reader(&twins, Between { words: &words, at, happens: &|| happens(&twins) });
        if words.get() <= at {
            assert!(at >= 9, "a root, another node, and a leaf");
            return;
        }
    }
}

/// The same for walks from both ends, and from the twin that is there on.
fn before_each_look_of_walks(happens: impl Fn(&Twins), gone: usize) {
    for direction in [Direction::Up, Direction::Down] {
        before_each_look(&happens, |twins, lanes| {
            let found = twins.walk(lanes, direction, Start::Edge);
            twins.check(direction, &found, gone);
        });
    }
    before_each_look(&happens, |twins, lanes| {
        let start = Start::Key { key: &twins.all[0].0, inclusive: true };
        let found = twins.walk(lanes, Direction::Up, start);
        twins.check(Direction::Up, &found, gone);
    });
}

#[test]
fn a_walk_takes_no_new_node_for_one_of_the_same_state_that_is_gone() {
    let happens = |twins: &Twins| {
        twins.remove(0..1);
        twins.insert();
    };
    before_each_look_of_walks(happens, 1);
}

/// What a writer has placed, and takes away again if it then finds no room, was never in the trie.
#[test]
fn a_walk_shows_no_leaf_before_its_parent_leads_to_it() {
    let happens = |twins: &Twins| {
        twins.remove(0..1);
        let state = state_of(twins.trie(), &twins.secret, &twins.all[0].0);
        place::place(twins.trie(), state, Node::Leaf(twins.new[0])).unwrap();
    };
    before_each_look_of_walks(happens, 1);
}

#[test]
fn a_walk_finds_a_root_that_moves() {
    before_each_look_of_walks(Twins::move_root, 0);
}

#[test]
fn a_search_finds_a_root_that_moves() {
    before_each_look(Twins::move_root, |twins, lanes| {
        let (key, Leaf::Record { unit, hash }) = twins.all[0] else { panic!("it has a record") };
        let look = twins.trie().look(&twins.secret, lanes, &key, hash);
        assert_eq!(look, Look::Record(unit));
    });
}
