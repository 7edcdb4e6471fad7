//! Hints: on which level the leaf of a key is, most likely.
//!
//! A trie with long paths has a hint for each value of some bits of a key's hash. Whoever adds a leaf or moves it to another level
//! notes that there. So a search reads that hint, the leaf, and the record, and none of the nodes above.
//!
//! ```text
//! half a byte   0        no key of the trie has such a hash
//!               1 .. 14  the last leaf that came here is on this one of the levels that are named when the trie is built
//!               15       on another level
//!
//! a byte        0        no key of the trie has such a hash
//!               1 .. 64  the last leaf that came here is at level 0 .. 63
//!               255      deeper
//! ```
//!
//! Half a byte does where few levels are usual, and takes half the memory. Of two keys with one hint only the last one's level is known; the other is found as ever. A leaf that is taken out, or moves
//! up when another one is, leaves its hint as it was.
//!
//! # Invariants
//!
//! * **T10** In a trie with hints that of each leaf with a record is not 0.
//!
//! PAPER: not there. Its search reads all nodes of a path, eight at a time here.

use super::bucket::Find;
use super::layout::{
    HASH_BITS, HINT_LEVELS, HINTS_LOG, Head, Hinting, Home, Leaf, Node, SHORT_BYTES,
};
use super::raw::Trie;
use super::state::{SHORT_NAME_SYMBOLS, Secret, State, Symbols};
use crate::arch::{self, Lanes};
use crate::mem::word;
use crate::sync::shim::{AtomicU64, Ordering::Relaxed, Word};
use crate::sync::version::{Seen, Version};

impl Hinting {
    /// A hint that says no more than that it is not 0: all its bits.
    #[inline(always)]
    fn other(self) -> u8 {
        if self == Self::Byte { u8::MAX } else { 15 }
    }

    /// The hint that names a level, in a trie with this entry level.
    #[inline(always)]
    fn hint(self, entry: usize, level: usize) -> u8 {
        match self {
            Self::Byte if level < HINT_LEVELS => level as u8 + 1,
            Self::Half(levels) if level > entry => {
                let bit = 1_u32.checked_shl((level - entry - 1) as u32).unwrap_or(0);
                if levels & bit == 0 {
                    return self.other();
                }
                (levels & (bit - 1)).count_ones() as u8 + 1
            }
            _ => self.other(),
        }
    }

    /// The level that a hint names, which is not 0; `None` if it names none.
    #[inline(always)]
    fn level(self, entry: usize, hint: u8) -> Option<usize> {
        match self {
            _ if hint == self.other() => None,
            Self::Half(levels) => {
                let rest = (1..hint).fold(levels, |rest, _| rest & rest.wrapping_sub(1));
                (rest != 0).then(|| entry + 1 + rest.trailing_zeros() as usize)
            }
            _ => Some(usize::from(hint) - 1),
        }
    }
}

/// What a hint says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hint {
    /// The leaf is in one of these buckets, if the trie is still what it was.
    At(Home, Seen),
    /// The key is not in the trie.
    Absent,
    /// Nothing is known.
    Unknown,
}

/// What a hint led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hinted {
    /// The leaf that the hint names has this record, and the key's hash. The key may be another one; then nothing is known.
    Record(u64),
    /// The key is not in the trie.
    Absent,
    /// Nothing is known.
    Unknown,
}

/// The hint of a hash.
#[derive(Debug)]
struct Cell<'h, W: Word> {
    word: &'h W,
    shift: u32,
    mask: u8,
}

impl<'h, W: Word> Cell<'h, W> {
    /// Of hints that are half a byte each, or a byte.
    #[inline(always)]
    fn of(hints: &'h [W], hinting: Hinting, hash: u32) -> Self {
        let at = hash >> (HASH_BITS - HINTS_LOG);
        let bits_log = if hinting == Hinting::Byte { 3 } else { 2 };
        let bit = at << bits_log;
        Self { word: &hints[(bit / 64) as usize], shift: bit % 64, mask: hinting.other() }
    }

    #[inline(always)]
    fn get(self) -> u8 {
        // Relaxed: what it says is trusted only if the trie has not changed (T9).
        (self.word.load(Relaxed) >> self.shift) as u8 & self.mask
    }

    /// The caller holds the trie's lock, or has not published the trie.
    #[inline(always)]
    fn set(self, hint: u8) {
        // Relaxed, both: nobody else stores, and readers look at the trie's version.
        let others = self.word.load(Relaxed) & !(u64::from(self.mask) << self.shift);
        self.word.store(others | u64::from(hint) << self.shift, Relaxed);
    }

    /// What it says of a trie in which nothing has changed since the version was `seen`; `None` if something has, and the
    /// hint says that there is no leaf.
    #[inline(always)]
    fn get_since(self, version: &Version<W>, seen: Seen) -> Option<u8> {
        let hint = self.get();
        (hint != 0 || version.end(seen).is_some()).then_some(hint)
    }
}

impl<'g> Trie<'g> {
    /// The hint of a hash, in a trie that has hints.
    #[inline(always)]
    fn cell(self, hash: u32) -> Cell<'g, AtomicU64> {
        Cell::of(self.hints(), self.hinting(), hash)
    }

    /// Asks for the hint of a key of this hash.
    #[inline(always)]
    pub(super) fn prefetch_hint(self, hash: u32) {
        if self.is_hinted() {
            arch::prefetch(self.cell(hash).word);
        }
    }

    /// Whether there is a hint for a hash, or none are needed.
    pub(super) fn knows_hint(self, hash: u32) -> bool {
        !self.is_hinted() || self.cell(hash).get() != 0
    }

    /// Notes the level of a leaf. The caller holds the lock, or has not published the trie.
    #[inline]
    pub(super) fn set_hint(self, leaf: Leaf, level: usize) {
        self.note_leaf(level);
        if let Leaf::Record { hash, .. } = leaf
            && self.is_hinted()
        {
            self.cell(hash).set(self.hinting().hint(self.entry(), level));
        }
    }

    /// Takes over the hints of a trie with the same leaves. The caller holds its lock, and has not published this one.
    pub(super) fn copy_hints(self, old: Trie<'_>) {
        if self.hinting() == old.hinting() {
            // Relaxed, both: as in `Cell::set`.
            let pairs = self.hints().iter().zip(old.hints());
            pairs.for_each(|(new, old)| new.store(old.load(Relaxed), Relaxed));
        }
    }

    /// Whether a key may be found by a hint, or found to be missing. Eight bytes with an inline value are in a short leaf, which
    /// knows no hash.
    #[inline(always)]
    pub(super) fn is_hinted_for<V>(self, key: &[u8]) -> bool {
        self.is_hinted() && (key.len() != SHORT_BYTES || !const { word::is_inline::<V>() })
    }

    /// Reads the hint of a key, whose line has come, and asks for the leaf's lines.
    #[inline(always)]
    pub(super) fn read_hint(self, secret: &Secret, key: &[u8], hash: u32) -> Hint {
        let seen = self.version().begin();
        let symbols = Symbols::new(key, self.skip_bits());
        self.follow_hint(seen, hash, symbols.count(), |level| {
            self.state_at(secret, &symbols, level)
        })
    }

    /// The same for a hint whose line has just been asked for: the states of all usual levels take as long.
    #[inline(always)]
    fn await_hint(self, secret: &Secret, key: &[u8], hash: u32) -> Hint {
        let seen = self.version().begin();
        let symbols = Symbols::new(key, self.skip_bits());
        let known = self.entry()..=symbols.count().min(self.levels().ilog2() as usize);
        let window = symbols.window(0);
        let mut states = [State(0); HINT_LEVELS];
        let mut state = State(0);
        let short = states.iter_mut().enumerate().take(SHORT_NAME_SYMBOLS + 1);
        for (level, known) in short.skip(self.entry()) {
            state = secret.state_of(self.short_name(window, level));
            *known = state;
        }
        let note = |level, state| states[level] = state;
        secret.step_along(state, &symbols, SHORT_NAME_SYMBOLS, *known.end(), note);
        let state_at = |level| {
            let is_known = known.contains(&level);
            if is_known { states[level] } else { self.state_at(secret, &symbols, level) }
        };
        self.follow_hint(seen, hash, symbols.count(), state_at)
    }

    /// The state of the name of a key's first `level` symbols, END not among them.
    #[inline(always)]
    fn state_at(self, secret: &Secret, symbols: &Symbols<'_>, level: usize) -> State {
        let short = level.min(SHORT_NAME_SYMBOLS);
        let state = secret.state_of(self.short_name(symbols.window(0), short));
        if level == short {
            return state;
        }
        secret.step_along(state, symbols, short, level, |_, _| ())
    }

    /// Reads a hint and asks for the lines of the leaf, if the key has so many symbols.
    #[inline(always)]
    fn follow_hint(
        self,
        seen: Seen,
        hash: u32,
        symbols: usize,
        state_at: impl FnOnce(usize) -> State,
    ) -> Hint {
        if seen.is_changing() || !self.is_hinted() {
            return Hint::Unknown;
        }
        match self.cell(hash).get_since(self.version(), seen) {
            Some(0) => Hint::Absent,
            // Disturbed: seldom.
            None => Hint::Unknown,
            Some(hint) => match self.hinting().level(self.entry(), hint) {
                Some(level) if level <= symbols => {
                    let home = self.home(state_at(level));
                    self.prefetch(home);
                    Hint::At(home, seen)
                }
                // Not known, another key's, or below an END: seldom.
                _ => Hint::Unknown,
            },
        }
    }

    /// Reads the leaf where a hint says that it is.
    #[inline(always)]
    pub(super) fn look_at(self, lanes: impl Lanes, home: Home, seen: Seen, hash: u32) -> Hinted {
        let (first, second) = (self.bucket(home.first), self.bucket(home.second));
        let in_first = lanes.find(first, Head::first(home.tag)).map(|slot| first.node(slot));
        let node = in_first
            .or_else(|| lanes.find(second, Head::second(home.tag)).map(|slot| second.node(slot)));
        match node {
            Some(Node::Leaf(Leaf::Record { unit, hash: found }))
                if found == hash && self.version().end(seen).is_some() =>
            {
                Hinted::Record(unit)
            }
            _ => Hinted::Unknown,
        }
    }

    /// Finds the leaf of a key by its hint.
    #[inline]
    pub(super) fn look_by_hint(
        self,
        secret: &Secret,
        lanes: impl Lanes,
        key: &[u8],
        hash: u32,
    ) -> Hinted {
        match self.await_hint(secret, key, hash) {
            Hint::At(home, seen) => self.look_at(lanes, home, seen, hash),
            Hint::Absent => Hinted::Absent,
            Hint::Unknown => Hinted::Unknown,
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::shim::Ordering::{Acquire, Release};
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Model;
    use loom::thread;

    /// A trie of one word of hints, with a place for one leaf on each of the levels 1 and 2; 0: no leaf.
    struct Small {
        version: Version<Model>,
        hints: [Model; 1],
        leaves: [Model; 2],
    }

    /// The hashes of two keys, whose hints are neighbours.
    const HASHES: [u32; 2] = [0, 1 << (HASH_BITS - HINTS_LOG)];

    impl Small {
        /// With the leaf of key 0 on level 1.
        fn new() -> Arc<Self> {
            let small = Self {
                version: Version::default(),
                hints: [Model::new(0)],
                leaves: [Model::new(1), Model::new(0)],
            };
            small.cell(0).set(2);
            Arc::new(small)
        }

        fn cell(&self, key: usize) -> Cell<'_, Model> {
            Cell::of(&self.hints, Hinting::Byte, HASHES[key])
        }

        /// What a reader finds: the leaf's content, 0 if the key is not there, `None` if it has to go on without a hint.
        fn look(&self, key: usize) -> Option<u64> {
            let seen = self.version.begin();
            if seen.is_changing() {
                return None;
            }
            let hint = self.cell(key).get_since(&self.version, seen)?;
            if hint == 0 {
                return Some(0);
            }
            let leaf = self.leaves[usize::from(hint) - 2].load(Relaxed);
            (leaf == 1 + key as u64 && self.version.end(seen).is_some()).then_some(leaf)
        }

        /// Adds key 1, before whose leaf that of key 0 has to go to level 2, as `Edit::insert` does.
        fn insert(&self) {
            self.version.lock().change(|| {
                self.leaves[1].store(1, Relaxed);
                self.leaves[0].store(2, Relaxed);
                self.cell(1).set(2);
                self.cell(0).set(3);
            });
        }
    }

    #[test]
    fn loom_no_hint_says_that_a_key_is_missing_that_was_always_there() {
        loom::model(|| {
            let small = Small::new();
            let writer = {
                let small = small.clone();
                thread::spawn(move || small.insert())
            };
            assert!(small.look(0).is_none_or(|leaf| leaf == 1));
            writer.join().unwrap();
            assert_eq!([0, 1].map(|key| small.look(key)), [Some(1), Some(2)]);
        });
    }

    #[test]
    fn loom_a_hint_knows_a_key_once_its_insertion_has_returned() {
        loom::model(|| {
            let small = Small::new();
            let done = Arc::new(Model::new(0));
            let writer = {
                let (small, done) = (small.clone(), done.clone());
                thread::spawn(move || {
                    small.insert();
                    done.store(1, Release);
                })
            };
            let was_done = done.load(Acquire) == 1;
            match small.look(1) {
                Some(0) => assert!(!was_done, "missing after it was inserted"),
                found => assert!(found.is_none_or(|leaf| leaf == 2)),
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn loom_a_hint_of_a_key_that_was_taken_out_finds_nothing() {
        loom::model(|| {
            let small = Small::new();
            let done = Arc::new(Model::new(0));
            let writer = {
                let (small, done) = (small.clone(), done.clone());
                thread::spawn(move || {
                    // The hint stays.
                    small.version.lock().change(|| small.leaves[0].store(0, Relaxed));
                    done.store(1, Release);
                    small.version.lock().change(|| small.leaves[0].store(2, Relaxed));
                })
            };
            let was_done = done.load(Acquire) == 1;
            match small.look(0) {
                Some(0) => panic!("the hint is not 0"),
                found => assert!(found.is_none() || !was_done, "found after it was taken out"),
            }
            writer.join().unwrap();
        });
    }
}
