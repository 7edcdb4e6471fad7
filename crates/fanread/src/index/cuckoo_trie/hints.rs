//! Hints: on which level the leaf of a key is, most likely.
//!
//! A trie with long paths has a byte for each value of some bits of a key's hash ([`Hints`]). Whoever adds a leaf or moves it
//! to another level notes that there. So a search reads that byte, the leaf, and the record, and none of the nodes above.
//!
//! ```text
//! byte   0        no key of the trie has such a hash
//!        1 .. 64  the last leaf that came here is at level 0 .. 63
//!        255      deeper
//! ```
//!
//! Of two keys with one byte only the last one's level is known; the other is found as ever. A leaf that is taken out, or moves
//! up when another one is, leaves its byte as it was.
//!
//! # Invariants
//!
//! * **T10** In a trie with hints the byte of each leaf with a record is not 0.
//!
//! PAPER: not there. Its search reads all nodes of a path, eight at a time here.

use super::bucket::Find;
use super::layout::{HASH_BITS, HINT_LEVELS, Head, Home, Leaf, Node, SHORT_BYTES};
use super::raw::{Hints, Trie};
use super::state::{SHORT_NAME_SYMBOLS, Secret, State, Symbols};
use crate::arch::{self, Lanes};
use crate::sync::shim::{Ordering::Relaxed, Word};
use crate::sync::version::{Seen, Version};

/// A byte that says no more than that it is not 0.
const DEEP: u8 = u8::MAX;

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

/// The byte of a hash.
#[derive(Debug)]
struct Byte<'h, W: Word> {
    word: &'h W,
    shift: u32,
}

impl<'h, W: Word> Byte<'h, W> {
    #[inline(always)]
    fn of(hints: &'h [W], hash: u32) -> Self {
        let at = ((u64::from(hash) * 8 * hints.len() as u64) >> HASH_BITS) as usize;
        Self { word: &hints[at / 8], shift: 8 * (at % 8) as u32 }
    }

    #[inline(always)]
    fn get(self) -> u8 {
        // Relaxed: what it says is trusted only if the trie has not changed (T9).
        (self.word.load(Relaxed) >> self.shift) as u8
    }

    /// The caller holds the trie's lock, or has not published the trie.
    #[inline(always)]
    fn set(self, byte: u8) {
        // Relaxed, both: nobody else stores, and readers look at the trie's version.
        let others = self.word.load(Relaxed) & !(0xff << self.shift);
        self.word.store(others | u64::from(byte) << self.shift, Relaxed);
    }

    /// What it says of a trie in which nothing has changed since the version was `seen`; `None` if something has, and the
    /// byte says that there is no leaf.
    #[inline(always)]
    fn get_since(self, version: &Version<W>, seen: Seen) -> Option<u8> {
        let byte = self.get();
        (byte != 0 || version.end(seen).is_some()).then_some(byte)
    }
}

impl Trie<'_> {
    /// Asks for the hint of a key of this hash.
    #[inline(always)]
    pub(super) fn prefetch_hint(self, hash: u32) {
        if let Some(hints) = self.hints() {
            arch::prefetch(Byte::of(hints, hash).word);
        }
    }

    /// The byte of a hash.
    pub(super) fn hint(hints: &Hints, hash: u32) -> u8 {
        Byte::of(hints, hash).get()
    }

    /// Notes the level of a leaf. The caller holds the lock, or has not published the trie.
    #[inline]
    pub(super) fn set_hint(self, leaf: Leaf, level: usize) {
        self.note_leaf(level);
        if let (Some(hints), Leaf::Record { hash, .. }) = (self.hints(), leaf) {
            let hint = if level < HINT_LEVELS { level as u8 + 1 } else { DEEP };
            Byte::of(hints, hash).set(hint);
        }
    }

    /// Takes over the hints of a trie with the same leaves. The caller holds its lock, and has not published this one.
    pub(super) fn copy_hints(self, old: Trie<'_>) {
        if let (Some(new), Some(old)) = (self.hints(), old.hints()) {
            // Relaxed, both: as in `Byte::set`.
            new.iter().zip(old).for_each(|(new, old)| new.store(old.load(Relaxed), Relaxed));
        }
    }

    /// Whether a key of this hash may be found by a hint, or found to be missing. Eight bytes may be in a short leaf, which
    /// knows no hash.
    #[inline(always)]
    pub(super) fn is_hinted_for(self, key: &[u8]) -> bool {
        self.is_hinted() && key.len() != SHORT_BYTES
    }

    /// Reads the hint of a key, whose line was asked for before, and asks for the leaf's lines.
    #[inline(always)]
    pub(super) fn read_hint(self, secret: &Secret, key: &[u8], hash: u32) -> Hint {
        let Some(hints) = self.hints() else { return Hint::Unknown };
        let seen = self.version().begin();
        if seen.is_changing() {
            return Hint::Unknown;
        }
        // All states of the path: their steps take as long as the hint's line.
        let symbols = Symbols::new(key, self.skip_bits());
        let mut states = [State(0); HINT_LEVELS];
        let last = symbols.count().min(HINT_LEVELS - 1);
        let window = symbols.window(0);
        let mut state = State(0);
        for (level, known) in states.iter_mut().enumerate().take(last + 1) {
            state = if level <= SHORT_NAME_SYMBOLS {
                secret.state_of(self.short_name(window, level))
            } else {
                secret.step_on(state, symbols.symbol(level - 1))
            };
            *known = state;
        }
        match Byte::of(hints, hash).get_since(self.version(), seen) {
            Some(0) => Hint::Absent,
            // Disturbed, deeper, another key's, or below an END: seldom.
            None => Hint::Unknown,
            Some(hint) if usize::from(hint) > last + 1 => Hint::Unknown,
            Some(hint) => {
                let home = self.home(states[usize::from(hint) - 1]);
                self.prefetch(home);
                Hint::At(home, seen)
            }
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
        match self.read_hint(secret, key, hash) {
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

    /// The hashes of two keys, whose bytes are neighbours.
    const HASHES: [u32; 2] = [0, 1 << (HASH_BITS - 3)];

    impl Small {
        /// With the leaf of key 0 on level 1.
        fn new() -> Arc<Self> {
            let small = Self {
                version: Version::default(),
                hints: [Model::new(0)],
                leaves: [Model::new(1), Model::new(0)],
            };
            small.byte(0).set(2);
            Arc::new(small)
        }

        fn byte(&self, key: usize) -> Byte<'_, Model> {
            Byte::of(&self.hints, HASHES[key])
        }

        /// What a reader finds: the leaf's content, 0 if the key is not there, `None` if it has to go on without a hint.
        fn look(&self, key: usize) -> Option<u64> {
            let seen = self.version.begin();
            if seen.is_changing() {
                return None;
            }
            let byte = self.byte(key).get_since(&self.version, seen)?;
            if byte == 0 {
                return Some(0);
            }
            let leaf = self.leaves[usize::from(byte) - 2].load(Relaxed);
            (leaf == 1 + key as u64 && self.version.end(seen).is_some()).then_some(leaf)
        }

        /// Adds key 1, before whose leaf that of key 0 has to go to level 2, as `Edit::insert` does.
        fn insert(&self) {
            self.version.lock().change(|| {
                self.leaves[1].store(1, Relaxed);
                self.leaves[0].store(2, Relaxed);
                self.byte(1).set(2);
                self.byte(0).set(3);
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
                    // The byte stays.
                    small.version.lock().change(|| small.leaves[0].store(0, Relaxed));
                    done.store(1, Release);
                    small.version.lock().change(|| small.leaves[0].store(2, Relaxed));
                })
            };
            let was_done = done.load(Acquire) == 1;
            match small.look(0) {
                Some(0) => panic!("the byte is not 0"),
                found => assert!(found.is_none() || !was_done, "found after it was taken out"),
            }
            writer.join().unwrap();
        });
    }
}
