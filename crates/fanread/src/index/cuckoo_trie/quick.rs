//! The quick way to insert a key of eight bytes whose value is kept in its leaf, or to replace the value.
//!
//! Where most leaves are on two levels (`leaf_level.rs`), the paths of nearly all new keys end on those or on the level above: at a
//! regular node that has no child for the key, or at the short leaf of a key that parts from this one right behind it. The names of
//! all the nodes that such an insertion reads or places follow from the key, but for the other key's new leaf, so the lines of the
//! two levels are asked for before the trie is locked.
//!
//! ```text
//! level   above     upper      lower      behind        upper: the leaf level
//! asked   both      both       both       -
//! path    ------------>xx                               ends here: the new leaf is on the lower level,
//!                                                       and so is the other key's, if a leaf was here
//! ```
//!
//! It is the insertion of `edit.rs` without what such keys need not: no jumps, no hints, no look for another node of the same state,
//! since the names of all nodes that are placed are short (T3). All else, and whatever has no room, is left to that one, with the
//! trie as it was.
//!
//! # Why readers see one trie or the other
//!
//! As in `edit.rs`: the leaves are placed first, under names to which nothing leads; then the node where the path ends is rewritten, by
//! one change of its bucket. A leaf that takes the place of the key's own is that change alone. All of it is one change of the trie's
//! version (T9).
//!
//! # What the writer may believe
//!
//! It holds the lock, so the trie is at rest: a node under a short name is that name's and is in the trie (T3, T4).
//!
//! PAPER: not there.

use core::cmp::Ordering as Order;

use super::CuckooTrie;
use super::label::{Children, Symbol};
use super::layout::{BUCKET_WEIGHT, Home, INNER_WEIGHT, Leaf, Node, Place, SYMBOL_BITS};
use super::place;
use super::raw::{Memory, Trie};
use super::state::{SHORT_NAME_SYMBOLS, Secret, ShortName, State};
use crate::api::{Outcome, Rule};
use crate::arch::{Baseline, Lanes};
use crate::mem::word::{self, Word};
use crate::sync::epoch::Guard;

/// One of so many insertions notes the levels of its leaf, as in `edit.rs`: by the upper bits of a state.
const NOTED_BITS: u32 = 10;

/// The nodes of a key around the leaf level, which were asked for.
#[derive(Clone, Copy, Debug)]
struct Spots<'s> {
    secret: &'s Secret,
    /// The key's symbols, the first on top.
    window: u64,
    round: u32,
    /// The leaf level.
    level: u32,
    above: Home,
    upper: Home,
    lower: Home,
    /// If a name there is short.
    behind: Option<Home>,
}

/// Where the path of a new key ends.
#[derive(Clone, Copy, Debug)]
struct Stop {
    level: u32,
    end: End,
}

/// How it ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// At a regular node that has no child for the key.
    NoChild(Children),
    /// At a short leaf of another key, which has another symbol next.
    Leaf(Leaf, Symbol),
    /// At the key's own leaf: where it is, and the bits of its value.
    Own(Place, u64),
}

impl Trie<'_> {
    /// Asks for the nodes of a key on the leaf level and both beside it. `None` if there is no such level, or the names on it are not
    /// short.
    #[inline(always)]
    fn ask_around(self, secret: &Secret, key: u64) -> Option<Spots<'_>> {
        let (level, skip_bits) = (self.leaf_level() as u32, self.skip_bits());
        // The nodes behind the lower level are named by whole symbols of the key.
        let is_short = level > 0 && level < SHORT_NAME_SYMBOLS as u32;
        if !is_short || skip_bits + SYMBOL_BITS * (level + 2) > u64::BITS {
            return None;
        }
        let (window, round) = (key << skip_bits, self.round());
        let home = |level| self.home(secret.state_of(ShortName::start(round, window, level)));
        let (above, upper, lower) = (home(level - 1), home(level), home(level + 1));
        // A line more costs more than a wait for the level behind, where few paths end. On the level above half of them do.
        for bucket in
            [upper.first, lower.first, above.first, upper.second, above.second, lower.second]
        {
            self.prefetch_bucket(bucket);
        }
        let behind = (level + 2 <= SHORT_NAME_SYMBOLS as u32).then(|| home(level + 2));
        Some(Spots { secret, window, round, level, above, upper, lower, behind })
    }
}

impl Spots<'_> {
    /// The state of the first symbols of a window.
    #[inline(always)]
    fn state(&self, window: u64, level: u32) -> State {
        self.secret.state_of(ShortName::new(self.round, window, level as usize))
    }

    /// Symbol `level` of a window.
    #[inline(always)]
    fn symbol(window: u64, level: u32) -> Symbol {
        Symbol((window << (SYMBOL_BITS * level) >> (u64::BITS - SYMBOL_BITS)) as u8)
    }

    /// Where the path of the key ends; `None` if it is not one of those ends that are usual. It counts if the caller holds the lock.
    #[inline(always)]
    fn stop(&self, trie: Trie<'_>, lanes: impl Lanes) -> Option<Stop> {
        let mut level = self.level;
        let mut place = trie.locate(lanes, self.upper);
        if place.is_none() {
            level -= 1;
            place = trie.locate(lanes, self.above);
        }
        let mut place = place?;
        let mut node = trie.node(place);
        if let Node::Regular(children) = node
            && level == self.level
            && children.has(Self::symbol(self.window, level))
        {
            level += 1;
            place = trie.locate(lanes, self.lower)?;
            node = trie.node(place);
        }
        let symbol = Self::symbol(self.window, level);
        let end = match node {
            Node::Regular(children) if !children.has(symbol) => End::NoChild(children),
            // All keys of a trie have the bits before its window in common.
            Node::Leaf(Leaf::Short { key, value }) if key << trie.skip_bits() == self.window => {
                End::Own(place, value)
            }
            Node::Leaf(leaf @ Leaf::Short { key, .. }) => {
                let other = Self::symbol(key << trie.skip_bits(), level);
                (other != symbol).then_some(End::Leaf(leaf, other))?
            }
            _ => return None,
        };
        Some(Stop { level, end })
    }

    /// Asks for where the new leaf goes, and the other key's, if one is in the way. The trie is not locked, so this may be wrong.
    #[inline(always)]
    fn ask_for_new(&self, trie: Trie<'_>, lanes: impl Lanes) {
        let Some(Stop { level, end }) = self.stop(trie, lanes) else { return };
        if let Some(home) = self.home(level + 1)
            && level > self.level
        {
            trie.prefetch(home);
        }
        if let End::Leaf(Leaf::Short { key, .. }, _) = end
            && level < SHORT_NAME_SYMBOLS as u32
        {
            trie.prefetch(trie.home(self.state(key << trie.skip_bits(), level + 1)));
        }
    }

    /// Where the node of the key is on a level, or would be. `None` if its name is not short.
    #[inline(always)]
    fn home(&self, level: u32) -> Option<Home> {
        match level.wrapping_sub(self.level) {
            0 => Some(self.upper),
            1 => Some(self.lower),
            _ => self.behind,
        }
    }

    /// Adds the key. Returns whether it did; if not, all keys are as they were. The caller holds the lock and has announced a change.
    #[inline(always)]
    fn insert(&self, trie: Trie<'_>, lanes: impl Lanes, stop: Stop, leaf: Leaf) -> bool {
        let Stop { level, end } = stop;
        let Some(home) = self.home(level + 1) else { return false };
        let symbol = Self::symbol(self.window, level);
        let mut weight = trie.weight() + leaf.weight() as usize;
        let form = Node::Leaf(leaf).encode();
        let children = match end {
            End::NoChild(children) => {
                if place::place_other(trie, home, form).is_err() {
                    return false;
                }
                children.with(symbol)
            }
            End::Leaf(other, other_symbol) => {
                weight += INNER_WEIGHT;
                if weight > trie.buckets() as usize * BUCKET_WEIGHT {
                    return false;
                }
                let Leaf::Short { key, .. } = other else { return false };
                let other_home = trie.home(self.state(key << trie.skip_bits(), level + 1));
                trie.prefetch(other_home);
                if place::place_other(trie, home, form).is_err() {
                    return false;
                }
                if place::place_other(trie, other_home, Node::Leaf(other).encode()).is_err() {
                    if let Some(place) = trie.locate(lanes, home) {
                        trie.take(place);
                    }
                    return false;
                }
                Children::pair(symbol, other_symbol)
            }
            End::Own(..) => return false,
        };
        // What was placed may have moved the node.
        let there = trie.locate(lanes, self.home_of_stop(level));
        let rewritten = there.is_some_and(|place| trie.exchange(place, Node::Regular(children)));
        debug_assert!(rewritten, "T4: a node of a path is there, and needs no slot more");
        trie.set_filled(trie.keys() + 1, weight);
        if self.state(self.window, level + 1).0 >> (u64::BITS - NOTED_BITS) == 0 {
            trie.add_level(level as usize);
            trie.add_level(level as usize + 1);
        }
        true
    }

    /// The buckets of the key's node on the level where its path ended.
    #[inline(always)]
    fn home_of_stop(&self, level: u32) -> Home {
        match level.wrapping_sub(self.level) {
            0 => self.upper,
            1 => self.lower,
            _ => self.above,
        }
    }
}

impl<V> CuckooTrie<V> {
    /// Writes a key of eight bytes whose path ends as most do, if the rule allows it. Returns what it did, and the word of the value.
    /// `None` for whatever is seldom: then nothing has changed.
    #[inline(always)]
    pub(super) fn write_quickly(
        &self,
        guard: &Guard,
        thread: usize,
        key: &[u8],
        value: &V,
        rule: Rule,
    ) -> Option<(Outcome, Word)> {
        if !const { word::is_inline::<V>() } || matches!(rule, Rule::Same(_)) {
            return None;
        }
        let leaf = Memory::short_leaf(key, value)?;
        let Leaf::Short { value, .. } = leaf else { return None };
        let outcome = match self.avx512 {
            Some(kernel) => self.write_quickly_with(kernel, guard, thread, leaf, rule),
            None => self.write_quickly_with(Baseline, guard, thread, leaf, rule),
        };
        Some((outcome?, Memory::short_word(value)))
    }

    #[inline(always)]
    fn write_quickly_with(
        &self,
        kernel: impl Lanes,
        guard: &Guard,
        thread: usize,
        leaf: Leaf,
        rule: Rule,
    ) -> Option<Outcome> {
        let Leaf::Short { key, .. } = leaf else { return None };
        let trie = self.trie_of_eight(kernel, guard, key)?;
        trie.prefetch_with_borders();
        let spots = trie.ask_around(&self.secret, key)?;
        self.write_at(kernel, thread, Asked { trie, spots, leaf }, rule)
    }

    /// Writes a key whose lines were asked for.
    #[inline(always)]
    fn write_at(
        &self,
        kernel: impl Lanes,
        thread: usize,
        Asked { trie, spots, leaf }: Asked<'_>,
        rule: Rule,
    ) -> Option<Outcome> {
        let Leaf::Short { key, .. } = leaf else { return None };
        if trie.place_of(&key.to_be_bytes(), &self.memory) != Order::Equal {
            return None;
        }
        // Whoever holds it for long replaces it, and there is more to do then than to wait.
        let mut locked = trie.version().lock_soon()?;
        if locked.is_dead() {
            return None;
        }
        let stop = spots.stop(trie, kernel)?;
        if let End::Own(place, old) = stop.end {
            if let Rule::Absent = rule {
                return Some(Outcome::Refused(Some(Memory::short_word(old))));
            }
            let replaced =
                !trie.is_worn() && locked.change(|| trie.exchange(place, Node::Leaf(leaf)));
            return replaced.then_some(Outcome::Replaced(Memory::short_word(old)));
        }
        if Self::is_full(trie) || !locked.change(|| spots.insert(trie, kernel, stop, leaf)) {
            return None;
        }
        drop(locked);
        self.shards.added(thread, 1);
        Some(Outcome::New)
    }
}

/// A write whose lines were asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'g> {
    trie: Trie<'g>,
    spots: Spots<'g>,
    leaf: Leaf,
}

impl<V> CuckooTrie<V> {
    /// Asks for the lines of those of some keys that may be written quickly: for all headers first, then for all buckets, then for
    /// where the other keys of forks go.
    pub(super) fn ask_quickly<'g, const N: usize>(
        &'g self,
        guard: &'g Guard,
        entries: &[Option<(&[u8], V)>; N],
    ) -> [Option<Asked<'g>>; N] {
        match self.avx512 {
            _ if !const { word::is_inline::<V>() } => [None; N],
            Some(kernel) => self.ask_quickly_with(kernel, guard, entries),
            None => self.ask_quickly_with(Baseline, guard, entries),
        }
    }

    #[inline(always)]
    fn ask_quickly_with<'g, const N: usize>(
        &'g self,
        kernel: impl Lanes,
        guard: &'g Guard,
        entries: &[Option<(&[u8], V)>; N],
    ) -> [Option<Asked<'g>>; N] {
        let tries = entries.each_ref().map(|entry| {
            let (key, value) = entry.as_ref()?;
            let leaf = Memory::short_leaf(key, value)?;
            let Leaf::Short { key, .. } = leaf else { return None };
            let trie = self.trie_of_eight(kernel, guard, key)?;
            trie.prefetch_with_borders();
            Some((trie, leaf, key))
        });
        let asked = tries.map(|found| {
            let (trie, leaf, key) = found?;
            Some(Asked { trie, leaf, spots: trie.ask_around(&self.secret, key)? })
        });
        for Asked { trie, spots, .. } in asked.iter().flatten() {
            spots.ask_for_new(*trie, kernel);
        }
        asked
    }

    /// Writes a key whose lines were asked for, whatever is there; tells whether it did.
    #[inline(always)]
    pub(super) fn write_asked(&self, thread: usize, asked: Asked<'_>) -> bool {
        let done = match self.avx512 {
            Some(kernel) => self.write_at(kernel, thread, asked, Rule::Always),
            None => self.write_at(Baseline, thread, asked, Rule::Always),
        };
        done.is_some()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "quick_tests.rs"]
mod tests;
