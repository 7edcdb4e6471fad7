//! Hints: on which levels the leaves of a key's hash are.
//!
//! A trie with long paths has four hints for each value of some bits of a key's hash. They name the levels of all leaves of such
//! keys. So a search reads the hints of its key, what is on the levels that they name, and the record, and none of the nodes above;
//! and if there is no leaf of the key's hash, the key is not there.
//!
//! ```text
//! half a byte   0        no leaf
//!               1 .. 14  a leaf on this one of the levels that are named when the trie is built
//!               15       leaves on other levels, or more of them than four hints can name
//!
//! a byte        0        no leaf
//!               1 .. 254 a leaf at level 0 .. 253
//!               255      leaves further down, or more of them than four hints can name
//! ```
//!
//! Half a byte does where few levels are usual, and takes half the memory. A trie has hints for one and a half to three times the keys
//! that it has. Once there were too many for four hints, a search finds those that are still named, and for others it goes down
//! the path; until the trie is split.
//!
//! # Invariants
//!
//! * **T10** In a trie with hints the four of a hash name the level of each leaf with a record and such a hash, as often as there are
//!   such leaves, and no other; or one of them is 15 or 255.
//!
//! PAPER: not there. Its search reads all nodes of a path, eight at a time here.

use super::bucket::Find;
use super::layout::{HASH_BITS, HINTS_LOG, Head, Hinting, Home, Leaf, Node, SHORT_BYTES, Symbol};
use super::raw::Trie;
use super::state::{SHORT_NAME_SYMBOLS, Secret, State, Symbols};
use crate::arch::{self, Lanes};
use crate::mem::word;
use crate::sync::shim::{AtomicU64, Ordering::Relaxed, Word};
use crate::sync::version::Seen;

impl Hinting {
    /// Bits of a hint.
    #[inline(always)]
    fn bits(self) -> u32 {
        if self == Self::Byte { 8 } else { 4 }
    }

    /// The hint that names no level: all its bits.
    #[inline(always)]
    fn other(self) -> u8 {
        u8::MAX >> (8 - self.bits())
    }

    /// The hint that names a level, in a trie with this entry level.
    #[inline(always)]
    fn hint(self, entry: usize, level: usize) -> u8 {
        match self {
            Self::Byte if level < BYTE_LEVELS => level as u8 + 1,
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

    /// The level that a hint names; `None` if it names none.
    #[inline(always)]
    fn level(self, entry: usize, hint: u8) -> Option<usize> {
        match self {
            _ if hint == 0 || hint == self.other() => None,
            Self::Half(levels) => {
                let rest = (1..hint).fold(levels, |rest, _| rest & rest.wrapping_sub(1));
                (rest != 0).then(|| entry + 1 + rest.trailing_zeros() as usize)
            }
            _ => Some(usize::from(hint) - 1),
        }
    }
}

/// What the hints of a key say.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hint {
    /// The leaf is there if it is anywhere, and the trie is still what it was.
    At(Leads, Seen),
    /// The key is not in the trie.
    Absent,
    /// Nothing is known.
    Unknown,
}

/// Where a leaf may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leads {
    homes: [Home; PLACES],
    count: usize,
    /// Whether it can be nowhere else.
    are_all: bool,
}

/// What hints led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hinted {
    /// A leaf of the key's hash has this record. The key may be another one; then nothing is known.
    Record(u64),
    /// The key is not in the trie.
    Absent,
    /// Nothing is known.
    Unknown,
}

/// Hints of a hash.
const PLACES: usize = 4;

/// Levels that a byte can name.
const BYTE_LEVELS: usize = 254;

/// Levels whose states are noted on the way to the one that a hint names.
const NOTED_LEVELS: usize = 64;

/// The hints of a hash, in their word.
#[derive(Debug)]
struct Places<'h, W: Word> {
    word: &'h W,
    shift: u32,
    hinting: Hinting,
}

/// What they say: the first is the lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Said(u32);

impl Said {
    #[inline(always)]
    fn hint(self, i: usize, hinting: Hinting) -> u8 {
        (self.0 >> (i as u32 * hinting.bits())) as u8 & hinting.other()
    }

    /// The place of a hint.
    #[inline(always)]
    fn find(self, hint: u8, hinting: Hinting) -> Option<usize> {
        (0..PLACES).find(|i| self.hint(*i, hinting) == hint)
    }

    #[inline(always)]
    fn with(self, i: usize, hint: u8, hinting: Hinting) -> Self {
        let shift = i as u32 * hinting.bits();
        Self(self.0 & !(u32::from(hinting.other()) << shift) | u32::from(hint) << shift)
    }

    /// With the hint of one more leaf.
    #[inline(always)]
    fn and(self, hint: u8, hinting: Hinting) -> Self {
        let other = hinting.other();
        match self.find(0, hinting) {
            Some(free) => self.with(free, hint, hinting),
            None if self.find(other, hinting).is_some() => self,
            None => self.with(PLACES - 1, other, hinting),
        }
    }

    /// Without the hint of a leaf. If there were too many it may be another's, which is then found as those that have none.
    #[inline(always)]
    fn without(self, hint: u8, hinting: Hinting) -> Self {
        match self.find(hint, hinting) {
            Some(i) if hint != hinting.other() => self.with(i, 0, hinting),
            _ => self,
        }
    }
}

impl<'h, W: Word> Places<'h, W> {
    #[inline(always)]
    fn of(hints: &'h [W], hinting: Hinting, hash: u32) -> Self {
        let bits = PLACES as u32 * hinting.bits();
        let at = (hash >> (HASH_BITS - HINTS_LOG + PLACES.ilog2())) * bits;
        Self { word: &hints[(at / u64::BITS) as usize], shift: at % u64::BITS, hinting }
    }

    #[inline(always)]
    fn get(&self) -> Said {
        // Relaxed: what it says is trusted only if the trie has not changed (T9).
        self.said(self.word.load(Relaxed))
    }

    #[inline(always)]
    fn said(&self, word: u64) -> Said {
        Said((word >> self.shift) as u32 & u32::MAX >> (32 - PLACES as u32 * self.hinting.bits()))
    }

    /// The caller holds the trie's lock, or has not published the trie.
    #[inline(always)]
    fn change(self, change: impl FnOnce(Said) -> Said) {
        // Relaxed, both: nobody else stores, and readers look at the trie's version.
        let word = self.word.load(Relaxed);
        let old = self.said(word);
        self.word.store(word ^ u64::from(old.0 ^ change(old).0) << self.shift, Relaxed);
    }
}

impl<'g> Trie<'g> {
    /// The hints of a hash, in a trie that has hints.
    #[inline(always)]
    fn places(self, hash: u32) -> Places<'g, AtomicU64> {
        Places::of(self.hints(), self.hinting(), hash)
    }

    /// Asks for the hints of a key of this hash.
    #[inline(always)]
    pub(super) fn prefetch_hint(self, hash: u32) {
        if self.is_hinted() {
            arch::prefetch(self.places(hash).word);
        }
    }

    /// Whether the hints are those of leaves of these hashes on these levels (T10).
    pub(super) fn are_hints_of(self, leaves: &[(u32, usize)]) -> bool {
        if !self.is_hinted() {
            return true;
        }
        let hinting = self.hinting();
        let shift = HASH_BITS - HINTS_LOG + PLACES.ilog2();
        let mut left: Vec<_> =
            (0..1 << (HASH_BITS - shift)).map(|at| self.places(at << shift).get()).collect();
        for (hash, level) in leaves {
            let said = &mut left[(hash >> shift) as usize];
            let hint = hinting.hint(self.entry(), *level);
            if said.find(hinting.other(), hinting).is_none() {
                if said.find(hint, hinting).is_none() {
                    return false;
                }
                *said = said.without(hint, hinting);
            }
        }
        left.iter().all(|said| *said == Said(0) || said.find(hinting.other(), hinting).is_some())
    }

    /// Changes what is said of a leaf, in a trie with hints. The caller holds the lock, or has not published the trie.
    #[inline(always)]
    fn change_hint(self, leaf: Leaf, change: impl FnOnce(Said, Hinting) -> Said) {
        if let Leaf::Record { hash, .. } = leaf
            && self.is_hinted()
        {
            let hinting = self.hinting();
            self.places(hash).change(|said| change(said, hinting));
        }
    }

    /// Notes the level of a new leaf. The caller is one of those who may call `change_hint`.
    #[inline]
    pub(super) fn add_hint(self, leaf: Leaf, level: usize) {
        self.note_leaf(level);
        self.change_hint(leaf, |said, hinting| {
            said.and(hinting.hint(self.entry(), level), hinting)
        });
    }

    /// Notes that a leaf goes from one level to another. The caller holds the lock.
    #[inline]
    pub(super) fn move_hint(self, leaf: Leaf, from: usize, to: usize) {
        self.note_leaf(to);
        self.change_hint(leaf, |said, hinting| {
            let [from, to] = [from, to].map(|level| hinting.hint(self.entry(), level));
            said.without(from, hinting).and(to, hinting)
        });
    }

    /// Notes that a leaf is taken out. The caller holds the lock.
    #[inline]
    pub(super) fn remove_hint(self, leaf: Leaf, level: usize) {
        self.change_hint(leaf, |said, hinting| {
            said.without(hinting.hint(self.entry(), level), hinting)
        });
    }

    /// Takes over the hints of a trie with the same leaves. The caller holds its lock, and has not published this one.
    pub(super) fn copy_hints(self, old: Trie<'_>) {
        if self.hinting() == old.hinting() {
            // Relaxed, both: as in `Places::change`.
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

    /// Reads the hints of a key, whose line has come, and asks for the leaf's lines.
    #[inline(always)]
    pub(super) fn read_hint(self, secret: &Secret, key: &[u8], hash: u32) -> Hint {
        let seen = self.version().begin();
        let symbols = Symbols::new(key, self.skip_bits());
        self.follow_hint(seen, hash, symbols.count(), |deepest| {
            Names::note(self, secret, symbols, deepest)
        })
    }

    /// The same for hints whose line has just been asked for: the names of all usual levels take as long.
    #[inline(always)]
    fn await_hint(self, secret: &Secret, key: &[u8], hash: u32) -> Hint {
        let seen = self.version().begin();
        let symbols = Symbols::new(key, self.skip_bits());
        let names = Names::note(self, secret, symbols, self.levels().ilog2() as usize);
        self.follow_hint(seen, hash, symbols.count(), |_| names)
    }

    /// Reads the hints and asks for the lines of the leaf. `symbols` is how many the key has, `names` notes the names of its path
    /// down to a level.
    #[inline(always)]
    fn follow_hint<'a>(
        self,
        seen: Seen,
        hash: u32,
        symbols: usize,
        names: impl FnOnce(usize) -> Names<'a>,
    ) -> Hint {
        if seen.is_changing() || !self.is_hinted() {
            return Hint::Unknown;
        }
        let (hinting, entry) = (self.hinting(), self.entry());
        let said = self.places(hash).get();
        if said == Said(0) {
            // Disturbed: seldom.
            return self.version().end(seen).map_or(Hint::Unknown, |_| Hint::Absent);
        }
        let (mut levels, mut count, mut deepest, mut are_all) = ([0; PLACES], 0, 0, true);
        for i in 0..PLACES {
            let hint = said.hint(i, hinting);
            if hint == 0 || (0..i).any(|before| said.hint(before, hinting) == hint) {
                continue;
            }
            match hinting.level(entry, hint) {
                // One level below the last symbol is the leaf of a key that others begin with.
                Some(level) if level <= symbols + 1 => {
                    levels[count] = level;
                    count += 1;
                    deepest = level.max(deepest);
                }
                // The leaf of a longer key.
                Some(_) => {}
                None => are_all = false,
            }
        }
        let none = Home { first: 0, second: 0, tag: 0 };
        let mut leads = Leads { homes: [none; PLACES], count, are_all };
        let names = names(deepest);
        for (home, level) in leads.homes.iter_mut().zip(&levels[..count]) {
            *home = self.home(names.state(self, *level));
            self.prefetch(*home);
        }
        Hint::At(leads, seen)
    }

    /// Reads what is where the leaf may be.
    #[inline(always)]
    pub(super) fn look_at(self, lanes: impl Lanes, leads: &Leads, seen: Seen, hash: u32) -> Hinted {
        for home in &leads.homes[..leads.count] {
            let (first, second) = (self.bucket(home.first), self.bucket(home.second));
            let in_first = lanes.find(first, Head::first(home.tag)).map(|slot| first.node(slot));
            let node = in_first.or_else(|| {
                // Seldom: the mark is trusted only if the trie has not changed (T9, T12).
                let slot = first
                    .away()
                    .may_be(home.tag)
                    .then(|| lanes.find(second, Head::second(home.tag)))??;
                Some(second.node(slot))
            });
            if let Some(Node::Leaf(Leaf::Record { unit, hash: found })) = node
                && found == hash
                && self.version().end(seen).is_some()
            {
                return Hinted::Record(unit);
            }
        }
        if leads.are_all && self.version().end(seen).is_some() {
            Hinted::Absent
        } else {
            Hinted::Unknown
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
            Hint::At(leads, seen) => self.look_at(lanes, &leads, seen, hash),
            Hint::Absent => Hinted::Absent,
            Hint::Unknown => Hinted::Unknown,
        }
    }
}

/// The states of the names on a key's path, as far as they are noted.
struct Names<'a> {
    secret: &'a Secret,
    symbols: Symbols<'a>,
    /// From the entry level on.
    states: [State; NOTED_LEVELS],
    /// The last level noted, and its state.
    last: usize,
    state: State,
}

impl<'a> Names<'a> {
    /// Notes all states from the entry level to `deepest`, or to the last level before END.
    #[inline(always)]
    fn note(trie: Trie<'_>, secret: &'a Secret, symbols: Symbols<'a>, deepest: usize) -> Self {
        let last = deepest.min(symbols.count()).min(NOTED_LEVELS - 1).max(SHORT_NAME_SYMBOLS);
        let window = symbols.window(0);
        let mut names =
            Self { secret, symbols, states: [State(0); NOTED_LEVELS], last, state: State(0) };
        for level in trie.entry()..=SHORT_NAME_SYMBOLS {
            names.state = secret.state_of(trie.short_name(window, level));
            names.states[level] = names.state;
        }
        if last > SHORT_NAME_SYMBOLS {
            let note = |level, state| names.states[level] = state;
            names.state = secret.step_along(names.state, &symbols, SHORT_NAME_SYMBOLS, last, note);
        }
        names
    }

    /// The state of the name of the first `level` symbols, which are all of the key's and END, or less.
    #[inline(always)]
    fn state(&self, trie: Trie<'_>, level: usize) -> State {
        let Self { secret, symbols, .. } = self;
        let before_end = level.min(symbols.count());
        let state = if before_end > self.last {
            secret.step_along(self.state, symbols, self.last, before_end, |_, _| ())
        } else if before_end >= trie.entry() {
            self.states[before_end]
        } else {
            secret.state_of(trie.short_name(symbols.window(0), before_end))
        };
        if level == before_end { state } else { secret.step(state, Symbol::END) }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::shim::Ordering::{Acquire, Release};
    use crate::sync::version::Version;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Model;
    use loom::thread;

    /// A trie of one word of hints, with a place for one leaf on each of the levels 1 and 2; 0: no leaf.
    struct Small {
        version: Version<Model>,
        hints: [Model; 1],
        leaves: [Model; 2],
    }

    /// The hashes of two keys that share their hints.
    const HASHES: [u32; 2] = [0, 1];

    impl Small {
        /// With the leaf of key 0 on level 1.
        fn new() -> Arc<Self> {
            let small = Self {
                version: Version::default(),
                hints: [Model::new(0)],
                leaves: [Model::new(1), Model::new(0)],
            };
            small.places(0).change(|said| said.and(2, Hinting::Byte));
            Arc::new(small)
        }

        fn places(&self, key: usize) -> Places<'_, Model> {
            Places::of(&self.hints, Hinting::Byte, HASHES[key])
        }

        /// What a reader finds: the leaf's content, 0 if the key is not there, `None` if it has to go on without a hint.
        fn look(&self, key: usize) -> Option<u64> {
            let seen = self.version.begin();
            if seen.is_changing() {
                return None;
            }
            let said = self.places(key).get();
            let hints = (0..PLACES).map(|i| said.hint(i, Hinting::Byte)).filter(|hint| *hint != 0);
            let mut leaves = hints.map(|hint| self.leaves[usize::from(hint) - 2].load(Relaxed));
            let found = leaves.find(|leaf| *leaf == 1 + key as u64).unwrap_or(0);
            self.version.end(seen).map(|_| found)
        }

        /// Adds key 1, before whose leaf that of key 0 has to go to level 2, as `Edit::insert` does.
        fn insert(&self) {
            self.version.lock().change(|| {
                self.leaves[1].store(1, Relaxed);
                self.leaves[0].store(2, Relaxed);
                self.places(1).change(|said| said.and(2, Hinting::Byte));
                let moved = |said: Said| said.without(2, Hinting::Byte).and(3, Hinting::Byte);
                self.places(0).change(moved);
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
                    small.version.lock().change(|| {
                        small.places(0).change(|said| said.without(2, Hinting::Byte));
                        small.leaves[0].store(0, Relaxed);
                    });
                    done.store(1, Release);
                    small.version.lock().change(|| {
                        small.leaves[0].store(2, Relaxed);
                        small.places(1).change(|said| said.and(2, Hinting::Byte));
                    });
                })
            };
            let was_done = done.load(Acquire) == 1;
            let found = small.look(0);
            assert!(
                found.is_none_or(|leaf| leaf == 0 || !was_done),
                "found after it was taken out"
            );
            assert!(found.is_none_or(|leaf| leaf < 2), "another key's leaf");
            writer.join().unwrap();
        });
    }
}
