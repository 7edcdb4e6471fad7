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
//! Half a byte does where few levels are usual, and takes half the memory. Most leaves are on some five of these levels then, which
//! the header marks: a key's first buckets there are asked for together with its hints, so that most searches wait once for both.
//!
//! A trie has hints for one and a half to three times the keys that it has. Once there were too many for four hints, a search finds
//! those that are still named, and for others it goes down the path; until the trie is split.
//!
//! # Invariants
//!
//! * **T10** In a trie with hints the four of a hash name the level of each leaf with a record and such a hash, as often as there are
//!   such leaves, and no other; or one of them is 15 or 255.
//!
//! PAPER: not there. Its search reads all nodes of a path, eight at a time here.

use super::bucket::Find;
use super::descend::{BOTH, FIRST};
use super::label::Symbol;
use super::layout::{HASH_BITS, HINTS_LOG, Head, Hinting, Home, Leaf, Node, SHORT_BYTES};
use super::raw::Trie;
use super::state::{SHORT_NAME_SYMBOLS, Secret, State, Symbols};
use crate::arch::{self, Lanes};
use crate::batch::Bits;
use crate::mem::word;
use crate::sync::shim::{AtomicU64, Ordering::Relaxed, Word};
use crate::sync::version::Seen;

impl Hinting {
    /// Bits of a hint.
    #[inline(always)]
    fn bits(self) -> u32 {
        if self == Self::Byte { 8 } else { HALF_BITS }
    }

    /// The hint that names no level: all its bits.
    #[inline(always)]
    fn other(self) -> u8 {
        u8::MAX >> (8 - self.bits())
    }

    /// The hint that names a level.
    #[inline(always)]
    fn hint(self, level: usize) -> u8 {
        let hint = level.wrapping_sub(self.above());
        if (1..self.other().into()).contains(&hint) { hint as u8 } else { self.other() }
    }

    /// The level that a hint names.
    #[inline(always)]
    fn level(self, hint: u8) -> usize {
        self.above().wrapping_add(hint.into())
    }

    /// The level before the first that has a name.
    #[inline(always)]
    fn above(self) -> usize {
        if let Self::Half(above) = self { above as usize } else { usize::MAX }
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
    /// A bit for each home whose node may be in its second bucket.
    away: u32,
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

/// Bits of a small hint.
const HALF_BITS: u32 = 4;

/// Levels where one of so many leaves is are asked for together with the hints.
const LIKELY: u32 = 16;

/// Hints of a hash.
const PLACES: usize = 4;

/// Levels whose states are noted on the way to those that hints name: of half a byte, and of a byte. Beyond these they are found one by one.
const FEW_LEVELS: usize = 24;
const MANY_LEVELS: usize = 64;

/// The hints of a hash, in their word.
#[derive(Debug)]
struct Places<'h, W: Word> {
    word: &'h W,
    shift: u32,
    hinting: Hinting,
}

/// What they say: the first is the lowest. Those of levels come first, then those that are 0; if they do not name all levels, the last
/// one says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Said(u32);

impl Said {
    #[inline(always)]
    fn hint(self, i: usize, hinting: Hinting) -> u8 {
        (self.0 >> (i as u32 * hinting.bits())) as u8 & hinting.other()
    }

    #[inline(always)]
    fn with(self, i: usize, hint: u8, hinting: Hinting) -> Self {
        let shift = i as u32 * hinting.bits();
        Self(self.0 & !(u32::from(hinting.other()) << shift) | u32::from(hint) << shift)
    }

    /// Whether they name the levels of all leaves.
    #[inline(always)]
    fn names_all(self, hinting: Hinting) -> bool {
        self.hint(PLACES - 1, hinting) != hinting.other()
    }

    /// How many name levels.
    #[inline(always)]
    fn count(self, hinting: Hinting) -> usize {
        let last = if self.names_all(hinting) { self } else { self.with(PLACES - 1, 0, hinting) };
        (u32::BITS - last.0.leading_zeros()).div_ceil(hinting.bits()) as usize
    }

    /// With the hint of one more leaf.
    #[inline(always)]
    fn and(self, hint: u8, hinting: Hinting) -> Self {
        let (count, other) = (self.count(hinting), hinting.other());
        let places = if self.names_all(hinting) { PLACES } else { PLACES - 1 };
        if hint != other && count < places {
            self.with(count, hint, hinting)
        } else {
            self.with(PLACES - 1, other, hinting)
        }
    }

    /// Without the hint of a leaf. If there were too many it may be another's, which is then found as those that have none.
    #[inline(always)]
    fn without(self, hint: u8, hinting: Hinting) -> Self {
        let count = self.count(hinting);
        match (0..count).find(|i| self.hint(*i, hinting) == hint) {
            Some(i) => {
                let last = self.hint(count - 1, hinting);
                self.with(i, last, hinting).with(count - 1, 0, hinting)
            }
            None => self,
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

    /// Asks for those of a leaf, if it has any.
    #[inline]
    pub(super) fn prefetch_hint_of(self, leaf: Leaf) {
        if let Leaf::Record { hash, .. } = leaf {
            self.prefetch_hint(hash);
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
        leaves.iter().all(|(hash, level)| {
            let said = &mut left[(hash >> shift) as usize];
            let less = said.without(hinting.hint(*level), hinting);
            !said.names_all(hinting) || core::mem::replace(said, less) != less
        }) && left.iter().all(|said| *said == Said(0) || !said.names_all(hinting))
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
        self.change_hint(leaf, |said, hinting| said.and(hinting.hint(level), hinting));
    }

    /// Notes that a leaf goes from one level to another. The caller holds the lock.
    #[inline]
    pub(super) fn move_hint(self, leaf: Leaf, from: usize, to: usize) {
        self.note_leaf(to);
        self.change_hint(leaf, |said, hinting| {
            said.without(hinting.hint(from), hinting).and(hinting.hint(to), hinting)
        });
    }

    /// Notes that a leaf is taken out. The caller holds the lock.
    #[inline]
    pub(super) fn remove_hint(self, leaf: Leaf, level: usize) {
        self.change_hint(leaf, |said, hinting| said.without(hinting.hint(level), hinting));
    }

    /// Takes over the hints of a trie with the same leaves. The caller holds its lock, and has not published this one.
    pub(super) fn copy_hints(self, old: Trie<'_>) {
        if self.hinting() == old.hinting() {
            // Relaxed, both: as in `Places::change`.
            let pairs = self.hints().iter().zip(old.hints());
            pairs.for_each(|(new, old)| new.store(old.load(Relaxed), Relaxed));
        }
    }

    /// Notes which hints of half a byte name levels where many leaves are. The caller has not published the trie.
    pub(super) fn note_likely(self) {
        if !matches!(self.hinting(), Hinting::Half(_)) {
            return;
        }
        let mut leaves = [0_u32; 1 << HALF_BITS];
        for word in self.hints() {
            // Relaxed: as in `Places::change`.
            let mut left = word.load(Relaxed);
            while left != 0 {
                leaves[left as usize % leaves.len()] += 1;
                left >>= HALF_BITS;
            }
        }
        let levels = 1..leaves.len() - 1;
        let all: u32 = leaves[levels.clone()].iter().sum();
        let is_likely = |hint: &usize| leaves[*hint] > 0 && leaves[*hint] * LIKELY >= all;
        self.set_likely(levels.filter(is_likely).fold(0, |likely, hint| likely | 1 << hint));
    }

    /// Whether a key may be found by a hint, or found to be missing. Eight bytes with an inline value are in a short leaf, which
    /// knows no hash.
    #[inline(always)]
    pub(super) fn is_hinted_for<V>(self, key: &[u8]) -> bool {
        self.is_hinted() && (key.len() != SHORT_BYTES || !const { word::is_inline::<V>() })
    }

    /// Reads the hints of a key, whose line has come, and asks for the lines of the leaf, if it is in its first bucket.
    #[inline(always)]
    pub(super) fn read_hint(self, secret: &Secret, key: &[u8], hash: u32) -> Hint {
        let seen = self.version().begin();
        let symbols = Symbols::new(key, self.skip_bits());
        let named = match self.named(seen, hash, &symbols) {
            Ok(named) => named,
            Err(hint) => return hint,
        };
        let deepest = named.levels.into_iter().max().unwrap_or(0);
        let leads = if deepest < FEW_LEVELS {
            let names = Names::<FEW_LEVELS>::note(self, secret, &symbols, deepest);
            self.ask_named::<FIRST, _>(&named, &names)
        } else {
            let names = Names::<MANY_LEVELS>::note(self, secret, &symbols, deepest);
            self.ask_named::<FIRST, _>(&named, &names)
        };
        Hint::At(leads, seen)
    }

    /// The same for hints whose line has just been asked for: the names of all usual levels take as long. Asks for second buckets too.
    #[inline(always)]
    fn await_hint<const LEVELS: usize>(self, secret: &Secret, key: &[u8], hash: u32) -> Hint {
        let seen = self.version().begin();
        let symbols = Symbols::new(key, self.skip_bits());
        let deepest = self.levels().ilog2() as usize;
        let names = Names::<LEVELS>::note(self, secret, &symbols, deepest);
        self.ask_likely(&names);
        match self.named(seen, hash, &symbols) {
            Ok(named) => Hint::At(self.ask_named::<BOTH, _>(&named, &names), seen),
            Err(hint) => hint,
        }
    }

    /// Asks for first buckets on the levels where many leaves are, if hints are half bytes: most hints name one of them.
    #[inline(always)]
    fn ask_likely<const LEVELS: usize>(self, names: &Names<'_, LEVELS>) {
        let Hinting::Half(above) = self.hinting() else { return };
        let noted = u64::MAX << names.first & u64::MAX >> (63 - names.last);
        for level in Bits((u64::from(self.likely()) << above) & noted) {
            self.prefetch_bucket(self.home(names.states[level]).first);
        }
    }

    /// Reads the hints of a hash.
    #[inline(always)]
    fn named(self, seen: Seen, hash: u32, symbols: &Symbols<'_>) -> Result<Named, Hint> {
        if seen.is_changing() || !self.is_hinted() {
            return Err(Hint::Unknown);
        }
        let hinting = self.hinting();
        let said = self.places(hash).get();
        if said == Said(0) {
            // Disturbed: seldom.
            return Err(self.version().end(seen).map_or(Hint::Unknown, |_| Hint::Absent));
        }
        let (count, are_all) = (said.count(hinting), said.names_all(hinting));
        let mut levels = [0; PLACES];
        for (i, level) in levels.iter_mut().enumerate().take(count) {
            // One level below the last symbol is the leaf of a key that others begin with; leaves of longer keys are further down, and
            // looking there instead does no harm.
            *level = hinting.level(said.hint(i, hinting)).min(symbols.count() + 1);
        }
        Ok(Named { levels, count, are_all })
    }

    /// Asks for the lines of nodes on these levels.
    #[inline(always)]
    fn ask_named<const LINES: bool, const LEVELS: usize>(
        self,
        named: &Named,
        names: &Names<'_, LEVELS>,
    ) -> Leads {
        let none = Home { first: 0, second: 0, tag: 0 };
        let Named { levels, count, are_all } = *named;
        let mut leads = Leads { homes: [none; PLACES], count, are_all, away: 0 };
        for (home, level) in leads.homes.iter_mut().zip(levels).take(count) {
            *home = self.home(names.state(self, level));
            self.prefetch_bucket(home.first);
            if LINES == BOTH {
                self.prefetch_bucket(home.second);
            }
        }
        leads
    }

    /// Reads the first buckets of where the leaf may be. `None` if some second ones may have it, which have been asked for.
    #[inline(always)]
    pub(super) fn look_first(
        self,
        lanes: impl Lanes,
        leads: &mut Leads,
        seen: Seen,
        hash: u32,
    ) -> Option<Hinted> {
        for (i, home) in leads.homes[..leads.count].iter().enumerate() {
            let bucket = self.bucket(home.first);
            if let Some(slot) = lanes.find(bucket, Head::first(home.tag)) {
                if let Some(found) = self.record_in(bucket.node(slot), seen, hash) {
                    return Some(found);
                }
            } else if bucket.away().may_be(home.tag) {
                leads.away |= 1 << i;
                self.prefetch_bucket(home.second);
            }
        }
        (leads.away == 0).then(|| self.conclude(leads, seen))
    }

    /// Reads these second buckets.
    #[inline(always)]
    pub(super) fn look_second(
        self,
        lanes: impl Lanes,
        leads: &Leads,
        seen: Seen,
        hash: u32,
    ) -> Hinted {
        for i in Bits(leads.away.into()) {
            let bucket = self.bucket(leads.homes[i].second);
            if let Some(slot) = lanes.find(bucket, Head::second(leads.homes[i].tag))
                && let Some(found) = self.record_in(bucket.node(slot), seen, hash)
            {
                return found;
            }
        }
        self.conclude(leads, seen)
    }

    /// What a node says, if it is a leaf of the key's hash.
    #[inline(always)]
    fn record_in(self, node: Node, seen: Seen, hash: u32) -> Option<Hinted> {
        let unit = match node {
            Node::Leaf(Leaf::Record { unit, hash: found }) if found == hash => unit,
            Node::Pair(pair) => pair.leaf(hash)?.unit()?,
            _ => return None,
        };
        self.version().end(seen).map(|_| Hinted::Record(unit))
    }

    /// What it means that there was no such leaf. Marks (T12) and hints are trusted only if the trie has not changed (T9).
    #[inline(always)]
    fn conclude(self, leads: &Leads, seen: Seen) -> Hinted {
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
        let hint = if self.hinting() == Hinting::Byte {
            self.await_hint::<MANY_LEVELS>(secret, key, hash)
        } else {
            self.await_hint::<FEW_LEVELS>(secret, key, hash)
        };
        match hint {
            Hint::At(mut leads, seen) => self
                .look_first(lanes, &mut leads, seen, hash)
                .unwrap_or_else(|| self.look_second(lanes, &leads, seen, hash)),
            Hint::Absent => Hinted::Absent,
            Hint::Unknown => Hinted::Unknown,
        }
    }
}

/// The levels that hints name, and whether the key's leaf can be on no other.
struct Named {
    levels: [usize; PLACES],
    count: usize,
    are_all: bool,
}

/// The states of the names on a key's path, as far as they are noted.
struct Names<'a, const LEVELS: usize> {
    secret: &'a Secret,
    symbols: &'a Symbols<'a>,
    /// Those of these levels.
    states: [State; LEVELS],
    first: usize,
    last: usize,
}

impl<'a, const LEVELS: usize> Names<'a, LEVELS> {
    /// Notes all states from the entry level to `deepest`, or to the last level before END.
    #[inline(always)]
    fn note(trie: Trie<'_>, secret: &'a Secret, symbols: &'a Symbols<'a>, deepest: usize) -> Self {
        let window = symbols.window(0);
        let (first, last) = (trie.entry(), deepest.min(symbols.count()).min(LEVELS - 1));
        let mut states = [State(0); LEVELS];
        let short = last.min(SHORT_NAME_SYMBOLS) + 1;
        for (level, state) in states.iter_mut().enumerate().take(short).skip(first) {
            *state = secret.state_of(trie.short_name(window, level));
        }
        if last > SHORT_NAME_SYMBOLS {
            let short = states[SHORT_NAME_SYMBOLS];
            let note = |level, state| states[level] = state;
            secret.step_along(short, symbols, SHORT_NAME_SYMBOLS, last, note);
        }
        Self { secret, symbols, states, first, last }
    }

    /// The state of the name of the first `level` symbols, which are all of the key's and END, or less.
    #[inline(always)]
    fn state(&self, trie: Trie<'_>, level: usize) -> State {
        if (self.first..=self.last).contains(&level) {
            self.states[level]
        } else {
            self.other_state(trie, level)
        }
    }

    #[cold]
    #[inline(never)]
    fn other_state(&self, trie: Trie<'_>, level: usize) -> State {
        let Self { secret, symbols, .. } = self;
        let before_end = level.min(symbols.count());
        let short = before_end.min(SHORT_NAME_SYMBOLS);
        let mut state = secret.state_of(trie.short_name(symbols.window(0), short));
        if before_end > short {
            let last = self.last.clamp(short, before_end);
            if last > short {
                state = self.states[last];
            }
            state = secret.step_along(state, symbols, last, before_end, |_, _| ());
        }
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
