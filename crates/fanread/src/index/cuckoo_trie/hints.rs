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
use crate::sync::shim::Ordering::Relaxed;
use crate::sync::version::Seen;

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

/// The word of a hash, and how far its byte is shifted there.
#[inline(always)]
fn place(hints: &Hints, hash: u32) -> (usize, u32) {
    let bytes = 8 * hints.len() as u64;
    let at = ((u64::from(hash) * bytes) >> HASH_BITS) as usize;
    (at / 8, 8 * (at % 8) as u32)
}

impl Trie<'_> {
    /// Asks for the hint of a key of this hash.
    #[inline(always)]
    pub(super) fn prefetch_hint(self, hash: u32) {
        if let Some(hints) = self.hints() {
            arch::prefetch(&raw const hints[place(hints, hash).0]);
        }
    }

    /// The byte of a hash.
    #[inline(always)]
    pub(super) fn hint(hints: &Hints, hash: u32) -> u8 {
        let (word, shift) = place(hints, hash);
        // Relaxed: what it says is trusted only if the trie has not changed (T9).
        (hints[word].load(Relaxed) >> shift) as u8
    }

    /// Notes the level of a leaf, if there are hints. The caller holds the lock, or has not published the trie.
    #[inline]
    pub(super) fn set_hint(self, leaf: Leaf, level: usize) {
        if let (Some(hints), Leaf::Record { hash, .. }) = (self.hints(), leaf) {
            let hint = if level < HINT_LEVELS { level as u8 + 1 } else { DEEP };
            let (word, shift) = place(hints, hash);
            // Relaxed, both: nobody else stores, and readers look at the trie's version.
            let others = hints[word].load(Relaxed) & !(0xff << shift);
            hints[word].store(others | u64::from(hint) << shift, Relaxed);
        }
    }

    /// Takes over the hints of a trie with the same leaves. The caller holds its lock, and has not published this one.
    pub(super) fn copy_hints(self, old: Trie<'_>) {
        if let (Some(new), Some(old)) = (self.hints(), old.hints()) {
            // Relaxed, both: as in `set_hint`.
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
        match Self::hint(hints, hash) {
            0 if self.version().end(seen).is_some() => Hint::Absent,
            // Deeper, another key's, or below an END: seldom.
            hint if hint == 0 || usize::from(hint) > last + 1 => Hint::Unknown,
            hint => {
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
