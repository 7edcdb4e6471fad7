//! Splitting a trie of short leaves bucket by bucket.
//!
//! A short leaf knows its key, and the state of a short name is that name (`state.rs`). So where all leaves are short and all other
//! nodes have short names, as with random numbers, each node tells by itself on which side of a border it is, and what its name will
//! be in its half: no path is walked. The table is read twice, in order: once to count, and once to deal the nodes out.
//!
//! ```text
//! bins      0  1  2  3  ...  4095      keys by their first two symbols: so many leaves on each level
//!                   ^                  the border, between two bins
//! path      root {b, c | d}            the nodes above the border, one or two, go to both halves, each with the children
//!           d {x | y, z}               of its side
//! ```
//!
//! All else is left to the split by a walk (`split.rs`): tries with records or long labels, keys that are not spread over bins, halves
//! in which a node above the border would be left with one child.
//!
//! # Cost
//!
//! A node is some 30 instructions of counting, and some 50 of dealing out.
//!
//! PAPER: not there.

use core::ops::Range;

use super::build::{LEVELS, Levels, Plan};
use super::draft::Draft;
use super::free::FreeLines;
use super::label::{Children, Symbol};
use super::layout::{
    INNER_WEIGHT, Kind, NoRoom, Node, STATE_BITS, SYMBOL_BITS, TAG_BITS, WIDE_WEIGHT, lines_for,
    with_room,
};
use super::raw::{Memory, Trie};
use super::split::middle;
use super::state::{SHORT_NAME_SYMBOLS, Secret, State, Symbols};
use crate::arch::Baseline;
use crate::mem::{AllocError, make_room};

/// Bits of a key that choose its bin: two symbols.
const BIN_BITS: u32 = 2 * SYMBOL_BITS;
const BINS: usize = 1 << BIN_BITS;

/// Of a bin: leaves by their level, those under long names in one; and at 0, where no leaf is, nodes that are none.
type Bin = [u16; SHORT_NAME_SYMBOLS + 2];
const INNER: usize = 0;
const LONG: usize = SHORT_NAME_SYMBOLS + 1;

/// One of so many leaves may be under a long name, or behind a jump: the levels of paths are not quite known then.
const ODD_ONES: usize = 64;

/// Borders that are tried.
const TRIES: usize = 8;

/// A trie whose nodes tell by themselves where they belong.
#[derive(Debug)]
pub(super) struct Deal<'a> {
    trie: Trie<'a>,
    secret: &'a Secret,
    bins: Vec<Bin>,
    /// The bins that have leaves are among these.
    used: Range<usize>,
    leaves: usize,
    /// The key of a leaf.
    some_key: u64,
}

/// A border, and what is on both sides of it.
#[derive(Debug)]
pub(super) struct Border {
    /// The first bin behind it, if only for a part of it.
    bin: u32,
    /// The bytes of the border.
    bytes: [u8; 8],
    len: usize,
    /// Keys before it.
    pub(super) before: usize,
    /// The children of the root on either side, and those of the node below it that is above the border.
    root: [Children; 2],
    below: Option<[Children; 2]>,
}

impl Border {
    /// The border as a key.
    pub(super) fn anchor(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A half as it is made.
struct Half<'g> {
    draft: Draft<'g>,
    /// Symbols that all keys share beyond what the whole skips: none or one.
    skipped: u32,
    keys: usize,
    weight: usize,
}

/// A short name without the trie's round: a one, and the symbols.
#[derive(Clone, Copy)]
struct Name(u64);

impl Name {
    /// How many bits its symbols have.
    #[inline(always)]
    fn bits(self) -> u32 {
        self.0.ilog2()
    }

    /// The bin of the first keys below it.
    #[inline(always)]
    fn bin(self) -> u32 {
        let bits = self.bits();
        (((self.0 ^ 1 << bits) << BIN_BITS) >> bits) as u32
    }

    fn level(self) -> usize {
        (self.bits() / SYMBOL_BITS) as usize
    }

    /// The same without its first symbols.
    #[inline(always)]
    fn without(self, skipped: u32) -> Self {
        let bits = self.bits() - SYMBOL_BITS * skipped;
        Self(self.0 & ((1 << bits) - 1) | 1 << bits)
    }
}

impl<'a> Deal<'a> {
    /// Counts the nodes of a trie; `None` if they do not tell where they belong, or are few, or if there is no memory for the counts.
    /// The caller holds its lock.
    pub(super) fn of(secret: &'a Secret, trie: Trie<'a>) -> Option<Self> {
        // Tags and buckets have all of a state, and no short name reaches the end of a key.
        let knows_states = TAG_BITS + trie.buckets().ilog2() >= STATE_BITS;
        let last = trie.skip_bits() + SYMBOL_BITS * (SHORT_NAME_SYMBOLS as u32 + 1);
        if !knows_states || last > u64::BITS {
            return None;
        }
        let (mut bins, mut is_plain) = (Vec::new(), true);
        make_room(&mut bins, BINS).ok()?;
        bins.resize(BINS, [0; _]);
        let (mut leaves, mut odd, mut some_key) = (0, 0, 0);
        let (mut first, mut last) = (BINS, 0);
        for number in 0..trie.buckets() {
            let bucket = trie.bucket(number);
            let (wides, mut others) = bucket.sorts();
            for slot in 0..wides {
                let (head, key) = (bucket.head(slot), bucket.body(slot));
                if !head.is_short() {
                    return None;
                }
                let at = bin_of(key, trie.skip_bits()) as usize;
                (first, last) = (first.min(at), last.max(at));
                let bin: &mut Bin = &mut bins[at];
                let name = secret.short_name(trie.state(number, head));
                bin[name.map_or(LONG, |name| Name(name).level()) % bin.len()] += 1;
                some_key = key;
            }
            leaves += wides as usize;
            while others != 0 {
                let slot = others.trailing_zeros();
                others &= others - 1;
                let head = bucket.head(slot);
                let name = secret.short_name(trie.state(number, head))?;
                bins[Name(name).bin() as usize % BINS][INNER] += 1;
                let is_jump = matches!(bucket.node(slot), Node::Jump(_) | Node::Branch(_));
                odd += usize::from(is_jump);
                is_plain &= is_jump || head.kind() == Kind::Regular;
            }
        }
        if leaves == 0 {
            return None;
        }
        let used = first..last + 1;
        odd += bins[used.clone()].iter().map(|bin| usize::from(bin[LONG])).sum::<usize>();
        let is_plain = is_plain && leaves == trie.keys() && odd * ODD_ONES <= leaves;
        is_plain.then_some(Self { trie, secret, bins, used, leaves, some_key })
    }

    /// Where to cut: of the places near the middle the one with the shortest border, and the nearest to the middle of those, as
    /// `Nodes::cut`; of those where the halves' nodes above the border have two children or more.
    pub(super) fn cut(&self, plan: &Plan<'_>) -> Option<Border> {
        let window = middle(self.leaves);
        let middle = window.start.midpoint(window.end);
        // The bin behind, bits shared with the one before, keys before; by their rank.
        let mut places = Vec::new();
        let (mut before, mut last) = (0, None);
        for bin in self.used.clone() {
            let counts = &self.bins[bin];
            let count: usize = counts[INNER + 1..].iter().map(|count| usize::from(*count)).sum();
            if count == 0 {
                continue;
            }
            if let Some(last) = last.replace(bin)
                && window.contains(&before)
            {
                let shared = (last ^ bin).leading_zeros() - (usize::BITS - BIN_BITS);
                let bytes = (self.trie.skip_bits() + shared) as usize / 8 + 1;
                places.push(((bytes, before.abs_diff(middle)), bin as u32, shared, before));
            }
            before += count;
        }
        places.sort_unstable();
        places.iter().take(TRIES).find_map(|((bytes, _), bin, shared, before)| {
            self.border(plan, bin >> (BIN_BITS - 1 - shared) << (BIN_BITS - 1 - shared), *bytes)
                .map(|border| Border { before: *before, ..border })
        })
    }

    /// The border before a bin, if both halves have what they need.
    fn border(&self, plan: &Plan<'_>, bin: u32, len: usize) -> Option<Border> {
        let skip_bits = self.trie.skip_bits();
        let above = self.some_key & !u64::MAX.checked_shr(skip_bits).unwrap_or(0);
        let bytes = (above | u64::from(bin) << (u64::BITS - BIN_BITS - skip_bits)).to_be_bytes();
        let [first, second] = [bin >> SYMBOL_BITS, bin % (1 << SYMBOL_BITS)];
        let parts = |node: Node, symbol: u32, is_shared: bool| {
            let Node::Regular(all) = node else { return None };
            let symbol = Symbol(symbol as u8);
            let left = if is_shared { all.up_to(symbol) } else { all.ahead_of(symbol) };
            let right = Children { bits: all.bits & !all.ahead_of(symbol).bits, ..all };
            Some([left, right])
        };
        let root = self.secret.root(self.trie.round());
        let parted = parts(self.node(root)?, first, second != 0)?;
        let below = if second == 0 {
            None
        } else {
            let state = self.secret.step(root, Symbol(first as u8));
            Some(parts(self.node(state)?, second, false)?)
        };
        let anchor = (0, &bytes[..len]);
        let plans = [Plan { high: Some(anchor), ..*plan }, Plan { low: anchor, ..*plan }];
        let is_good = plans.iter().enumerate().all(|(side, plan)| {
            let skipped = (plan.skip_bits() - skip_bits) / SYMBOL_BITS;
            // What all share is skipped, and nothing else has one child.
            let root_is_good = parted[side].len() >= 2 - skipped.min(1);
            skipped <= 1 && root_is_good && below.is_none_or(|below| below[side].len() >= 2)
        });
        is_good.then_some(Border { bin, bytes, len, before: 0, root: parted, below })
    }

    /// A node.
    fn node(&self, state: State) -> Option<Node> {
        Some(self.trie.node(self.trie.locate(Baseline, self.trie.home(state))?))
    }

    /// Builds the tries of both halves. `None` if two nodes would have one state, or one of them is too large.
    ///
    /// # Errors
    ///
    /// If there is no memory. Nothing is left behind then, nor if there is `None`.
    pub(super) fn build<'g>(
        &self,
        memory: &'g Memory,
        free: &mut FreeLines,
        plans: &[Plan<'_>; 2],
        border: &Border,
    ) -> Result<Option<[Trie<'g>; 2]>, AllocError> {
        let left = self.start(memory, free, &plans[0], self.used.start..border.bin as usize)?;
        let right = match self.start(memory, free, &plans[1], border.bin as usize..self.used.end) {
            Ok(right) => right,
            Err(error) => {
                memory.free(free, left.draft.trie().name());
                return Err(error);
            }
        };
        let mut halves = [left, right];
        self.deal(&mut halves, border);
        let tries = halves.each_ref().map(|half| half.draft.trie());
        let built: Result<(), NoRoom> = halves.into_iter().try_for_each(Half::finish);
        if built.is_ok() {
            return Ok(Some(tries));
        }
        for trie in tries {
            memory.free(free, trie.name());
        }
        Ok(None)
    }

    /// Begins to build the trie of the keys in these bins, with room for some more.
    fn start<'g>(
        &self,
        memory: &'g Memory,
        free: &mut FreeLines,
        plan: &Plan<'_>,
        bins: Range<usize>,
    ) -> Result<Half<'g>, AllocError> {
        let mut counts = [0; LONG + 1];
        for bin in &self.bins[bins] {
            counts.iter_mut().zip(bin).for_each(|(sum, count)| *sum += usize::from(*count));
        }
        let skipped = (plan.skip_bits() - self.trie.skip_bits()) / SYMBOL_BITS;
        // As if there were no jumps: above each leaf there is a regular node on each level.
        let mut levels = [0; LEVELS];
        for (level, keys) in levels.iter_mut().enumerate().take(LONG - skipped as usize) {
            *keys = counts[level + skipped as usize + 1..].iter().sum();
        }
        let leaves = counts[INNER + 1..].iter().sum();
        // Two of the other nodes may be counted on the wrong side.
        let weight = leaves * WIDE_WEIGHT as usize + (counts[INNER] + 2) * INNER_WEIGHT;
        let levels = Levels::of(&levels, &levels, leaves, 0);
        let lines = lines_for(with_room(weight, levels.hinting), levels.hinting);
        let shape = plan.shape(lines, levels);
        let trie = memory.allocate(free, &shape)?;
        for (level, count) in counts.iter().enumerate().skip(INNER + 1) {
            if *count > 0 {
                trie.note_leaf(level - skipped as usize);
            }
        }
        match Draft::new(trie, leaves + counts[INNER]) {
            Ok(draft) => Ok(Half { draft, skipped, keys: 0, weight: 0 }),
            Err(error) => {
                memory.free(free, trie.name());
                Err(error)
            }
        }
    }

    /// Deals all nodes out.
    fn deal(&self, halves: &mut [Half<'_>; 2], border: &Border) {
        let (trie, secret) = (self.trie, self.secret);
        let (skip_bits, round) = (trie.skip_bits(), trie.round());
        let first = border.bin >> SYMBOL_BITS;
        for number in 0..trie.buckets() {
            let bucket = trie.bucket(number);
            let (wides, mut others) = bucket.sorts();
            for slot in 0..wides {
                let (key, value) = (bucket.body(slot), bucket.second_of(slot));
                let state = trie.state(number, bucket.head(slot));
                let half = &mut halves[usize::from(bin_of(key, skip_bits) >= border.bin)];
                half.keys += 1;
                half.weight += WIDE_WEIGHT as usize;
                if half.skipped == 0 {
                    half.draft.add_wide(state, Kind::Short, key, value);
                } else if let Some(name) = secret.short_name(state) {
                    let state = secret.state_under(round, Name(name).without(half.skipped).0);
                    half.draft.add_wide(state, Kind::Short, key, value);
                } else {
                    self.add_long(half, state, key, value);
                }
            }
            while others != 0 {
                let slot = others.trailing_zeros();
                others &= others - 1;
                let (head, body) = (bucket.head(slot), bucket.body(slot));
                let state = trie.state(number, head);
                let Some(name) = secret.short_name(state).map(Name) else { continue };
                let parted = match (name.bits(), border.below) {
                    (0, _) => Some(border.root),
                    (SYMBOL_BITS, Some(below)) if name.bin() >> SYMBOL_BITS == first => Some(below),
                    _ => None,
                };
                if let Some(parted) = parted {
                    for (half, children) in halves.iter_mut().zip(parted) {
                        if name.bits() >= SYMBOL_BITS * half.skipped {
                            self.add_other(half, state, name, Kind::Regular, children.bits);
                        }
                    }
                    continue;
                }
                let half = &mut halves[usize::from(name.bin() >= border.bin)];
                if head.kind() == Kind::Plain {
                    let level = name.level() - half.skipped as usize;
                    half.draft.trie().note_label(level, bucket.node(slot));
                }
                self.add_other(half, state, name, head.kind(), body);
            }
        }
    }

    /// Adds a node that is no leaf to a half.
    #[inline(always)]
    fn add_other(&self, half: &mut Half<'_>, state: State, name: Name, kind: Kind, body: u64) {
        let state = match half.skipped {
            0 => state,
            skipped => self.secret.state_under(self.trie.round(), name.without(skipped).0),
        };
        half.weight += INNER_WEIGHT;
        half.draft.add_other(state, kind, body);
    }

    /// Adds a leaf under a name that is not short, whose level nothing tells but its state.
    #[cold]
    fn add_long(&self, half: &mut Half<'_>, state: State, key: u64, value: u64) {
        let bytes = key.to_be_bytes();
        let symbols = Symbols::new(&bytes, self.trie.skip_bits());
        let root = self.secret.root(self.trie.round());
        let (mut old, mut new) = (root, root);
        for level in 0..=symbols.count() {
            if old == state {
                break;
            }
            old = self.secret.step(old, symbols.symbol(level));
            if level >= half.skipped as usize {
                new = self.secret.step(new, symbols.symbol(level));
            }
        }
        debug_assert!(old == state, "a leaf is on its key's path");
        half.draft.add_unsure(new, key, value);
    }
}

impl Half<'_> {
    fn finish(self) -> Result<(), NoRoom> {
        let Self { draft, keys, weight, .. } = self;
        let trie = draft.trie();
        draft.finish()?;
        trie.set_filled(keys, weight);
        Ok(())
    }
}

/// The bin of a key.
#[inline(always)]
fn bin_of(key: u64, skip_bits: u32) -> u32 {
    (key << skip_bits >> (u64::BITS - BIN_BITS)) as u32
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "deal_tests.rs"]
mod tests;
