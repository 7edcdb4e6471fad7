//! Searches for keys of eight bytes, as numbers have, whose values are in their leaves.
//!
//! Such a key is one word, and a short leaf holds it whole. Where most leaves are on two levels (`leaf_level.rs`), a search so
//! needs no tags: it compares the key with what stands in the two buckets, or four, and takes the value beside it.
//! There is no branch on where the leaf is, which nobody can guess. If it is in none of them, the search for keys of all
//! lengths goes on.
//!
//! A batch is a row of up to 64 keys, of which each step is taken for a group of 16 before the next one:
//!
//! ```text
//! group n: table's tags, nodes, refs > headers asked for       for all groups first,
//!   n - 1: headers read              > first buckets asked for       and then
//! group n: first buckets read        > of those that have not the key, others asked for
//!     row: those others read
//! ```
//!
//! The others are the second buckets or, where a first bucket shows that the path goes on behind both levels, the two on the next
//! one. First and other buckets come into the second-level cache, which has more requests under way than the first.
//!
//! A get that finds nothing works out the tags: a node under a short name is that name's, so whether the key is missing shows by
//! the nodes on the two levels, or by there being none on the upper one of a trie that is not uneven (T11). Of nearly all missing
//! keys the first bucket of the upper level tells, as it has a mark of those that are away (T12); in an uneven trie, it or the
//! first bucket of the level above. Only for the others second buckets are read.
//!
//! # What a reader may believe
//!
//! In a trie at rest a leaf in the table is in the trie (T4), so if the trie's version is even and the same behind the search
//! as before it, the leaf of this key that was found is the key's; and if the trie lives then, the key was in the map.

#![allow(clippy::needless_bitwise_bool, reason = "what is seldom foreseen is no branch")]

use core::cmp::Ordering as Order;
use core::hint::select_unpredictable;

use super::CuckooTrie;
use super::bucket::Bucket;
use super::descend::Look;
use super::layout::{EXACT_BUCKETS, Head, Node, SHORT_BYTES, SLOTS, SYMBOL_BITS};
use super::raw::{Memory, Trie};
use super::state::{SHORT_NAME_SYMBOLS, Secret, ShortName, State};
use crate::arch::{self, Baseline, Lanes};
use crate::batch::Bits;
use crate::mem::word::{self, Read};
use crate::prefix::{Eights, Route};
use crate::sync::epoch::Guard;
use crate::sync::version::{Seen, Version};

/// Keys that take a step together: enough for the first of them to have its line when the last has asked for its own, and few enough
/// for their 32 first buckets to be on their way at once. `docs/design/tried/cuckoo-trie.md` has what was tried.
const GROUP: usize = if cfg!(any(loom, shuttle, miri)) { 2 } else { 16 };

/// Keys of a row: as many as a word has bits.
pub(super) const MOST: usize = u64::BITS as usize;

/// Two buckets of a trie that were asked for, and its version.
#[derive(Clone, Copy, Debug)]
struct Pair<'g> {
    seen: Seen,
    upper: &'g Bucket,
    lower: &'g Bucket,
    /// The tag of the upper name.
    tag: u32,
}

impl<'g> Trie<'g> {
    /// The first bucket of a state, and its tag, as in [`home`](Self::home).
    #[inline(always)]
    fn first_bucket(self, state: State) -> (&'g Bucket, u32) {
        let header = self.header();
        let used = state.0 >> header.shift;
        // A table that tells all short names apart uses all bits, but for tests.
        let top = if EXACT_BUCKETS < 256 { used << header.shift } else { state.0 };
        debug_assert!(top == used << header.shift);
        let first = ((u128::from(top) * u128::from(header.buckets)) >> 64) as u32;
        let tag = (used - u64::from(first) * u64::from(header.step)) as u32;
        (self.bucket(first), tag)
    }

    /// Asks for the first buckets of a key on the two levels where most leaves are.
    #[inline(always)]
    fn ask_first(self, by: impl Fn(*const Bucket), secret: &Secret, key: u64) -> Option<Pair<'g>> {
        let (level, skip_bits) = (self.leaf_level() as u32, self.skip_bits());
        // As in `leaf_level.rs`: both nodes are before the key's last symbol.
        if level == 0 || skip_bits + SYMBOL_BITS * (level + 1) >= u64::BITS {
            return None;
        }
        let seen = self.version().begin();
        let (window, round) = (key << skip_bits, self.round());
        let bucket = |level| {
            let named = self.first_bucket(secret.state_of(ShortName::start(round, window, level)));
            by(named.0);
            named
        };
        let ((upper, tag), (lower, _)) = (bucket(level), bucket(level + 1));
        Some(Pair { seen, upper, lower, tag })
    }
}

impl<'g> Trie<'g> {
    /// Asks for the buckets where the leaf of a key is that is in neither of the first ones, most likely: the second ones, or, where
    /// the path goes on behind both levels, those of the next level.
    #[inline(always)]
    fn ask_again(self, secret: &Secret, lanes: impl Lanes, key: u64, first: Pair<'g>) -> Pair<'g> {
        let (level, skip_bits) = (self.leaf_level() as u32, self.skip_bits());
        let (window, round) = (key << skip_bits, self.round());
        let home = |level| self.home(secret.state_of(ShortName::start(round, window, level)));
        let lower = home(level + 1);
        let node = Stand::at(first.lower, lower.tag, lanes, self.symbol_behind(level + 1, key));
        let is_behind = node.is_there
            & !node.ends
            & (level + 2 <= SHORT_NAME_SYMBOLS as u32)
            & (skip_bits + SYMBOL_BITS * (level + 2) < u64::BITS);
        let other = home(select_unpredictable(is_behind, level + 2, level));
        let buckets = (
            self.bucket(select_unpredictable(is_behind, other.first, lower.second)),
            self.bucket(other.second),
        );
        arch::prefetch_many(buckets.0);
        arch::prefetch_many(buckets.1);
        Pair { upper: buckets.0, lower: buckets.1, ..first }
    }
}

impl Pair<'_> {
    /// The slots of the two buckets whose bodies are the key.
    #[inline(always)]
    fn slots(&self, lanes: impl Lanes, key: u64) -> (u32, u32) {
        (self.upper.find_key(lanes, key), self.lower.find_key(lanes, key))
    }

    /// The bits of the key's value, if one of these slots has its leaf.
    ///
    /// Without a branch on what is where: the buckets are read whether or not there is a leaf.
    #[inline(always)]
    fn value(&self, trie: Trie<'_>, (upper, lower): (u32, u32)) -> Option<u64> {
        let bucket = select_unpredictable(upper != 0, self.upper, self.lower);
        let slots = select_unpredictable(upper != 0, upper, lower);
        let (value, is_short) = bucket.value_in(slots);
        ((slots != 0) & is_short & trie.is_as_it_was(self.seen)).then_some(value)
    }

    /// The bits of the key's value, if its leaf is in one of the two buckets.
    #[inline(always)]
    fn look(&self, trie: Trie<'_>, lanes: impl Lanes, key: u64) -> Option<u64> {
        self.value(trie, self.slots(lanes, key))
    }

    /// Whether a key that [`look`](Self::look) did not find is surely missing, as the upper one of the first buckets says.
    #[inline(always)]
    fn lacks(&self, trie: Trie<'_>, lanes: impl Lanes, key: u64) -> bool {
        let symbol = trie.symbol_behind(trie.leaf_level() as u32, key);
        let upper = Stand::at(self.upper, self.tag, lanes, symbol);
        // A path without a node on the upper level ends above it, and not at a leaf, but in an uneven trie.
        let is_none = !upper.is_there & !upper.may_be_away & !trie.is_uneven();
        // What looks like the key's leaf here is its leaf, and was not found since something before it looks like it, too.
        let ends = upper.ends & (self.upper.body(upper.slot) != key);
        let lacks = is_none | upper.is_there & ends;
        lacks && trie.is_as_it_was(self.seen)
    }
}

impl Trie<'_> {
    /// The symbol of a key that leads on from a level.
    #[inline(always)]
    fn symbol_behind(self, level: u32, key: u64) -> u32 {
        let symbol = key << self.skip_bits() << (SYMBOL_BITS * level) >> (u64::BITS - SYMBOL_BITS);
        symbol as u32
    }

    /// Whether a key's path ends on the level above the leaf level, and not at the key's leaf, as the first bucket there says.
    #[inline(never)]
    fn ends_above(self, secret: &Secret, lanes: impl Lanes, key: u64, seen: Seen) -> bool {
        let Some(level @ 1..) = (self.leaf_level() as u32).checked_sub(1) else { return false };
        let name = ShortName::start(self.round(), key << self.skip_bits(), level);
        let (bucket, tag) = self.first_bucket(secret.state_of(name));
        let node = Stand::at(bucket, tag, lanes, self.symbol_behind(level, key));
        node.is_there & node.ends & (bucket.body(node.slot) != key) && self.is_as_it_was(seen)
    }
}

/// What a name's first bucket says of a key's path.
struct Stand {
    slot: u32,
    is_there: bool,
    /// The node is not here, but may be in the other bucket.
    may_be_away: bool,
    /// The path ends at the node that is here.
    ends: bool,
}

impl Stand {
    /// Without a branch on what is where.
    #[inline(always)]
    fn at(bucket: &Bucket, tag: u32, lanes: impl Lanes, symbol: u32) -> Self {
        let slots = bucket.slots_of(lanes, Head::first(tag));
        // If there is none, any slot: it does not count.
        let slot = (slots | 1 << (SLOTS - 1)).trailing_zeros();
        let (head, body) = (bucket.head(slot), bucket.body(slot));
        let ends = Node::ends(head, body, symbol);
        Self { slot, is_there: slots != 0, may_be_away: bucket.away().may_be(tag), ends }
    }
}

impl Trie<'_> {
    /// Whether the trie lives, and nothing was changed in it since.
    #[inline(always)]
    fn is_as_it_was(self, seen: Seen) -> bool {
        Version::hold([(self.version(), seen)])
    }
}

impl Trie<'_> {
    /// What there is of a key of which first buckets do not have the leaf; `None` if it takes a descent to know.
    ///
    /// Without a branch on what is where: of all keys that are not there, nearly all end here.
    #[inline(always)]
    fn look_eight(self, secret: &Secret, lanes: impl Lanes, key: u64, seen: Seen) -> Option<Look> {
        let (level, window, round) =
            (self.leaf_level() as u32, key << self.skip_bits(), self.round());
        let two = |level| {
            let home = self.home(secret.state_of(ShortName::start(round, window, level)));
            let (first, second) = (self.bucket(home.first), self.bucket(home.second));
            arch::prefetch(second);
            let symbol = window << (SYMBOL_BITS * level) >> (u64::BITS - SYMBOL_BITS);
            Two { first, second, tag: home.tag, symbol: symbol as u32 }
        };
        let (upper, lower) = (two(level), two(level + 1));
        let (upper, lower) = (upper.end(lanes, key), lower.end(lanes, key));
        // A path without a node on the upper level ends above it, and not at a leaf, but in an uneven trie.
        let is_missing = !upper.is_there & !self.is_uneven();
        let look = if upper.is_leaf | lower.is_leaf {
            let end = if upper.is_leaf { upper } else { lower };
            let (value, is_short) = end.bucket.value_in(1 << end.slot);
            if !is_short {
                return None;
            }
            Look::Short(value)
        } else if is_missing | upper.ends | upper.is_there & lower.ends {
            Look::Absent
        } else {
            return None;
        };
        self.is_as_it_was(seen).then_some(look)
    }
}

/// The two buckets of a name.
struct Two<'g> {
    first: &'g Bucket,
    second: &'g Bucket,
    tag: u32,
    /// The key's symbol that leads on from here.
    symbol: u32,
}

/// What a name's node says of a key.
struct End<'g> {
    bucket: &'g Bucket,
    slot: u32,
    is_there: bool,
    /// It is the key's leaf.
    is_leaf: bool,
    /// The key's path ends at the node.
    ends: bool,
}

impl<'g> Two<'g> {
    /// Looks at the node.
    #[inline(always)]
    fn end(&self, lanes: impl Lanes, key: u64) -> End<'g> {
        let in_first = self.first.slots_of(lanes, Head::first(self.tag));
        let in_second = self.second.slots_of(lanes, Head::second(self.tag));
        let there = in_first != 0;
        let bucket = select_unpredictable(there, self.first, self.second);
        let slots = select_unpredictable(there, in_first, in_second);
        // If there is none, any slot: it does not count.
        let (is_there, slot) = (slots != 0, (slots | 1 << (SLOTS - 1)).trailing_zeros());
        let (head, body) = (bucket.head(slot), bucket.body(slot));
        let is_leaf = is_there & head.is_short() & (body == key);
        End {
            bucket,
            slot,
            is_there,
            is_leaf,
            ends: is_there & Node::ends(head, body, self.symbol),
        }
    }
}

impl<V> CuckooTrie<V> {
    /// Finds a key of eight bytes, whose value would be in its leaf.
    #[inline(always)]
    pub(super) fn find_eight<'g>(&'g self, guard: &'g Guard, key: [u8; 8]) -> Option<Read<'g, V>> {
        debug_assert!(word::is_inline::<V>());
        match self.avx512 {
            Some(kernel) => self.find_eight_with(kernel, guard, key),
            None => self.find_eight_with(Baseline, guard, key),
        }
    }

    #[inline(always)]
    fn find_eight_with<'g>(
        &'g self,
        kernel: impl Lanes,
        guard: &'g Guard,
        key: [u8; 8],
    ) -> Option<Read<'g, V>> {
        let number = u64::from_be_bytes(key);
        if let Some(trie) = self.trie_of_eight(kernel, guard, number)
            && let Some(pair) = trie.ask_first(arch::prefetch, &self.secret, number)
        {
            let slots = pair.slots(kernel, number);
            // What is missing is known sooner by a branch, which is seldom guessed wrongly here.
            if slots != (0, 0)
                && let Some(value) = pair.value(trie, slots)
            {
                return Some(Memory::short_value(value));
            }
            let lacks = pair.lacks(trie, kernel, number)
                || trie.is_uneven() && trie.ends_above(&self.secret, kernel, number, pair.seen);
            if lacks && trie.place_of(&key, &self.memory) == Order::Equal {
                return None;
            }
            return self.find_eight_on(kernel, guard, key, trie, pair.seen);
        }
        self.find_any(guard, &key)
    }

    /// Goes on where the first buckets do not tell.
    #[inline(never)]
    fn find_eight_on<'g>(
        &'g self,
        kernel: impl Lanes,
        guard: &'g Guard,
        key: [u8; 8],
        trie: Trie<'g>,
        seen: Seen,
    ) -> Option<Read<'g, V>> {
        match trie.look_eight(&self.secret, kernel, u64::from_be_bytes(key), seen) {
            Some(Look::Short(value)) => Some(Memory::short_value(value)),
            Some(_) if trie.place_of(&key, &self.memory) == Order::Equal => None,
            _ => self.find_any(guard, &key),
        }
    }

    /// The trie where a key most likely belongs; `None` if it takes the search for keys of all lengths.
    #[inline(always)]
    pub(super) fn trie_of_eight<'g>(
        &'g self,
        kernel: impl Lanes,
        guard: &'g Guard,
        key: u64,
    ) -> Option<Trie<'g>> {
        let table = self.table.eights(kernel, guard)?;
        let opened = table.open(key.swap_bytes(), table.probe(key.swap_bytes())?)?;
        Some(self.trie_at(key, table.route(opened)?))
    }

    /// Finds a key as keys of all lengths are found.
    #[inline(never)]
    fn find_any<'g>(&'g self, guard: &'g Guard, key: &[u8]) -> Option<Read<'g, V>> {
        self.find(key, self.hint(key, guard)?)
    }

    /// The trie of a route.
    #[inline(always)]
    fn trie_at(&self, key: u64, route: Route) -> Trie<'_> {
        let trie = self.memory.trie(route.first);
        match route.second {
            Some(second) if trie.place_of(&key.to_be_bytes(), &self.memory) == Order::Less => {
                self.memory.trie(second)
            }
            _ => trie,
        }
    }

    /// Finds those of up to [`MOST`] keys that have a short leaf on the two levels where most are, and tells `found` of them, and of
    /// those that are surely missing. Returns the bits of the others.
    ///
    /// What `found` is told last of a key counts.
    #[inline(always)]
    pub(super) fn find_eights<'g, K: Lanes>(
        &'g self,
        kernel: K,
        guard: &'g Guard,
        keys: &[&[u8]],
        found: &mut impl FnMut(usize, Option<Read<'g, V>>),
    ) -> u64 {
        debug_assert!(keys.len() <= MOST);
        let all = u64::MAX.checked_shr((MOST - keys.len()) as u32).unwrap_or(0);
        if !const { word::is_inline::<V>() } {
            return all;
        }
        let mut numbers = [0; MOST];
        for (number, key) in numbers.iter_mut().zip(keys) {
            let Ok(eight) = <[u8; SHORT_BYTES]>::try_from(*key) else { return all };
            *number = u64::from_be_bytes(eight);
        }
        let Some(table) = self.table.eights(kernel, guard) else { return all };
        let numbers = &numbers[..keys.len()];
        let (mut tries, mut pairs) = ([None; MOST], [None; MOST]);
        let group = |start: usize| start.min(numbers.len())..numbers.len().min(start + GROUP);
        for start in (0..numbers.len() + GROUP).step_by(GROUP) {
            let next = group(start);
            self.ask_for_headers(&table, &numbers[next.clone()], &mut tries[next]);
            let Some(here) = start.checked_sub(GROUP).map(group) else { continue };
            for i in here {
                pairs[i] = tries[i].and_then(|trie: Trie<'g>| {
                    trie.ask_first(arch::prefetch_many, &self.secret, numbers[i])
                });
            }
        }
        let (mut left, mut again) = (all, 0);
        for start in (0..numbers.len()).step_by(GROUP) {
            let mut missed = 0;
            for i in group(start) {
                let (Some(pair), Some(trie)) = (&pairs[i], tries[i]) else { continue };
                let value = pair.look(trie, kernel, numbers[i]);
                missed |= u64::from(value.is_none()) << i;
                left ^= u64::from(value.is_some()) << i;
                found(i, value.map(Memory::short_value));
            }
            for i in Bits(missed) {
                let (Some(pair), Some(trie)) = (&mut pairs[i], tries[i]) else { continue };
                let key = numbers[i];
                if pair.lacks(trie, kernel, key)
                    && trie.place_of(&key.to_be_bytes(), &self.memory) == Order::Equal
                {
                    left ^= 1 << i;
                } else {
                    *pair = trie.ask_again(&self.secret, kernel, key, *pair);
                    again |= 1 << i;
                }
            }
        }
        for i in Bits(again) {
            let (Some(pair), Some(trie)) = (&pairs[i], tries[i]) else { continue };
            if let Some(value) = pair.look(trie, kernel, numbers[i]) {
                found(i, Some(Memory::short_value(value)));
                left ^= 1 << i;
            }
        }
        left
    }

    /// The steps of some keys up to where the headers of their tries are asked for.
    #[inline(always)]
    fn ask_for_headers<'g, K: Lanes>(
        &'g self,
        table: &Eights<'g, K>,
        keys: &[u64],
        tries: &mut [Option<Trie<'g>>],
    ) {
        let (mut probes, mut opened) = ([None; GROUP], [None; GROUP]);
        for (probe, key) in probes.iter_mut().zip(keys) {
            *probe = table.probe(key.swap_bytes());
        }
        for ((opened, probe), key) in opened.iter_mut().zip(&probes).zip(keys) {
            *opened = probe.and_then(|probe| table.open(key.swap_bytes(), probe));
        }
        for ((trie, opened), key) in tries.iter_mut().zip(&opened).zip(keys) {
            let route = opened.and_then(|opened| table.route(opened));
            *trie = route.map(|route| self.trie_at(*key, route));
            if let Some(trie) = trie {
                trie.prefetch_header();
            }
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "eights_tests.rs"]
mod tests;
