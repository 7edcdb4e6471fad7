//! The search: two rounds of tag probes, a node, and for a wide node a ref of its block.
//!
//! A *landmark* exists only together with all shorter ones of the same anchor, so the landmarks of a key are found
//! by how many of the first ones answer. The nodes behind the deepest landmark are at most seven, and the last one
//! that answers wins.
//!
//! Tags are guesses. That the right node was found shows by 32 bits of its hash that are not in the tag; if they
//! differ, or if a bucket on the way was marked, the search is repeated in full by `search_exactly`, which looks at
//! nodes. Both are rare (tens of searches in a thousand).
//!
//! PAPER: sections 2.3, 2.4 (Algorithm 1) and 3.1. The paper searches for the length by halving, a wait for each
//! step; here a round probes up to `fan` lengths at once. With `fan = 1` it is the paper's.

use core::hint::select_unpredictable;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::PrefixTable;
use super::layout::{
    BlockAt, EXACT, Head, LANES, LINE_REFS, LeafRef, Line, id_low, is_marked, sequence, tag_of,
};
use super::raw::Table;
use crate::arch::{match_bytes, prefetch};
use crate::hash::prefix::{PrefixHashes, WINDOW_BLOCKS};
use crate::sync::epoch::Guard;
use crate::sync::shim::{fence, line};

/// Where the search for a key has come to: a node that was asked for and not looked at yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'g> {
    table: Option<&'g Table>,
    /// The node's slot, or `ROOT`.
    slot: u32,
    /// The length of the node's prefix.
    len: u32,
    /// What the node has to show.
    id: u32,
}

/// The leaves that may hold a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The leaf, if the key is not below its anchor.
    pub(crate) first: LeafRef,
    /// The leaf otherwise; `None` if that cannot be, as far as the table knows.
    pub(crate) second: Option<LeafRef>,
}

const ROOT: u32 = u32::MAX;

impl PrefixTable {
    /// Asks for the lines that `probe` is going to read first, for tables whose tags are not in the cache.
    #[inline]
    pub(crate) fn prefetch_tags(&self, hashes: &PrefixHashes, guard: &Guard) {
        let Some(table) = self.current.get(guard) else { return };
        let (deepest, landmarks) = table.limits();
        let blocks = hashes.blocks().min(landmarks).min(self.fan.load(Relaxed) as usize);
        for block in 1..=blocks {
            prefetch(table.home(hashes.at_block(block)).1);
        }
        if blocks == 0 {
            let behind = hashes.behind(0);
            for rest in 1..=deepest.min(hashes.key().len()).min(7) {
                prefetch(table.home(behind.at(rest)).1);
            }
        }
    }

    /// Finds the deepest stored prefix of a key and asks for its node.
    ///
    /// # Cost
    ///
    /// Up to `fan + 8` lines of tags, in two waits (more for keys with more than `fan` landmarks).
    #[inline(always)]
    pub(crate) fn probe<'g>(&self, hashes: &PrefixHashes, guard: &'g Guard) -> Probe<'g> {
        let Some(table) = self.current.get(guard) else {
            return Probe { table: None, slot: ROOT, len: 0, id: 0 };
        };
        let (deepest, landmarks) = table.limits();
        let blocks = hashes.blocks().min(landmarks);
        let mut marks = 0;
        let block = if blocks == 0 { 0 } else { self.landmark(table, hashes, blocks, &mut marks) };
        let probe = behind(table, hashes, block, deepest.min(7), &mut marks);
        let is_last_of_many = block == WINDOW_BLOCKS && landmarks > WINDOW_BLOCKS;
        if is_marked(marks) || probe.slot == ROOT && block > 0 || is_last_of_many {
            return self.search_exactly(table, hashes.key());
        }
        if let Some(node) = table.nodes().get(probe.slot as usize) {
            prefetch(node);
        }
        probe
    }

    /// Returns how many landmarks of the key are there, of its first `blocks`.
    #[inline(always)]
    fn landmark(
        &self,
        table: &Table,
        hashes: &PrefixHashes,
        blocks: usize,
        marks: &mut u64,
    ) -> usize {
        let fan = self.fan.load(Relaxed) as usize;
        if blocks <= fan {
            return answering(table, hashes, 0, 1, blocks, marks);
        }
        let (mut low, mut high) = (0, blocks);
        // `low` landmarks are there, more than `high` are not.
        while low < high {
            let step = (high - low).div_ceil(fan + 1);
            let count = ((high - low) / step).min(fan);
            let there = answering(table, hashes, low, step, count, marks);
            if there < count {
                high = low + (there + 1) * step - 1;
            }
            low += there * step;
        }
        low
    }

    /// Finds the deepest stored prefix node by node: after a misleading tag, in a marked bucket, for a long key.
    #[cold]
    #[inline(never)]
    fn search_exactly<'g>(&self, table: &'g Table, key: &[u8]) -> Probe<'g> {
        let (deepest, landmarks) = table.limits();
        let mut found = Probe { table: Some(table), slot: ROOT, len: 0, id: 0 };
        let mut window = Some(PrefixHashes::new(&self.seed, key));
        while let Some(hashes) = window {
            let base = hashes.base();
            let (mut low, mut high) =
                (0, hashes.blocks().min(landmarks.saturating_sub(base / 8)) + 1);
            while low + 1 < high {
                let middle = low.midpoint(high);
                match find(table, hashes.at_block(middle)) {
                    Some(slot) => {
                        low = middle;
                        found = Probe::new(table, slot, base + middle * 8, hashes.at_block(middle));
                    }
                    None => high = middle,
                }
            }
            if low < WINDOW_BLOCKS || base + low * 8 == key.len() {
                let behind = hashes.behind(low);
                let at = base + low * 8;
                let end = key.len().min(deepest).min(at + 7);
                for len in (at + 1..=end).rev() {
                    let hash = behind.at(len - at);
                    if let Some(slot) = find(table, hash) {
                        return Probe::new(table, slot, len, hash);
                    }
                }
                return found;
            }
            window = hashes.next_window();
        }
        found
    }

    /// Returns the leaves that may hold `key`, for which `probe` was made. `None` if the table has no leaf.
    ///
    /// # Cost
    ///
    /// The node that `probe` asked for, and for a node of more than ten children one more line, which waits for it.
    #[inline(always)]
    pub(crate) fn route(&self, key: &[u8], probe: Probe<'_>) -> Option<Route> {
        let Some(table) = probe.table else { return self.only_first() };
        let found = if probe.slot == ROOT {
            if key.is_empty() {
                return self.only_first();
            }
            // The root's block has a ref for every byte, and its first byte is 0.
            wide(&table.root_block, 0, key[0], Head::of(&table.root).at())
        } else {
            let node = &table.nodes()[probe.slot as usize];
            let head = Head::of(node);
            if head.id_low() != probe.id {
                return self.route_exactly(table, key);
            }
            in_node(table, node, head, key.get(probe.len as usize).copied())
        };
        self.finish(found)
    }

    #[inline(always)]
    fn finish(&self, (first, second): (u32, u32)) -> Option<Route> {
        // ORDER: Acquire fence, pairs with the Release fences of the writer: a leaf that was found is complete.
        fence(Acquire);
        match LeafRef::of(first) {
            Some(first) => Some(Route { first, second: LeafRef::of(second) }),
            None => self.only_first(),
        }
    }

    #[cold]
    #[inline(never)]
    fn route_exactly(&self, table: &Table, key: &[u8]) -> Option<Route> {
        let probe = self.search_exactly(table, key);
        let byte = key.get(probe.len as usize).copied();
        let node = match probe.slot {
            ROOT => &table.root,
            slot => &table.nodes()[slot as usize],
        };
        // The node was right a moment ago. If it is another one's by now, its leaves are as good as any.
        let found = match byte {
            Some(byte) if probe.slot == ROOT => {
                wide(&table.root_block, 0, byte, Head::of(node).at())
            }
            _ => in_node(table, node, Head::of(node), byte),
        };
        self.finish(found)
    }

    #[cold]
    #[inline(never)]
    fn only_first(&self) -> Option<Route> {
        self.first().map(|first| Route { first, second: None })
    }
}

impl<'g> Probe<'g> {
    fn new(table: &'g Table, slot: usize, len: usize, hash: u64) -> Self {
        Self { table: Some(table), slot: slot as u32, len: len as u32, id: id_low(hash) }
    }
}

/// Probes the landmarks of `low + step`, `low + 2 * step`, .. blocks, `count` of them, and returns how many answer
/// before the first that does not.
#[inline(always)]
fn answering(
    table: &Table,
    hashes: &PrefixHashes,
    low: usize,
    step: usize,
    count: usize,
    marks: &mut u64,
) -> usize {
    let mut answers = 0_u32;
    for i in 0..count {
        let hash = hashes.at_block(low + (i + 1) * step);
        let bucket = table.home(hash).1;
        answers |= u32::from(lanes(bucket, hash) != 0) << i;
        *marks |= bucket.mark_word();
    }
    answers.trailing_ones() as usize
}

/// The lanes of `bucket` that may be the node with `hash`.
#[inline(always)]
fn lanes(bucket: &Line, hash: u64) -> u32 {
    bucket.matches(tag_of(hash)) & ((1 << LANES) - 1)
}

/// Probes the lengths from that of landmark `block` to `tail` more, and returns the last that answers. There is no
/// branch on the answers: they come late, and a mistaken guess would make the next search wait for them.
#[inline(always)]
fn behind<'g>(
    table: &'g Table,
    hashes: &PrefixHashes,
    block: usize,
    tail: usize,
    marks: &mut u64,
) -> Probe<'g> {
    let behind = hashes.behind(block);
    let left = hashes.key().len() - block * 8;
    let (mut best, mut slot, mut best_rest) = (0, ROOT, 0);
    for rest in 0..=tail {
        let hash = behind.at(rest);
        let (i, bucket) = table.home(hash);
        let found = lanes(bucket, hash);
        *marks |= bucket.mark_word();
        // Landmark 0 is the root, which is not among the tags.
        let counts = found != 0 && rest <= left && rest + block > 0;
        best = select_unpredictable(counts, hash, best);
        best_rest = select_unpredictable(counts, rest, best_rest);
        let at = i as u32 * LANES as u32 + found.trailing_zeros();
        slot = select_unpredictable(counts, at, slot);
    }
    let len = block * 8 + best_rest;
    Probe { table: Some(table), slot, len: len as u32, id: id_low(best) }
}

/// Finds the node with `hash`, as far as a reader can tell.
fn find(table: &Table, hash: u64) -> Option<usize> {
    let (start, _) = table.home(hash);
    for step in 0..table.buckets().len() {
        let i = (start + step) & table.mask();
        let bucket = &table.buckets()[i];
        let mut found = lanes(bucket, hash);
        while found != 0 {
            let slot = i * LANES + found.trailing_zeros() as usize;
            if Head::of(&table.nodes()[slot]).id_low() == id_low(hash) {
                return Some(slot);
            }
            found &= found - 1;
        }
        if !is_marked(bucket.mark_word()) {
            return None;
        }
    }
    None
}

/// Returns the refs in `node` for a key that goes on with `byte`, or ends: the leaf, and the one before it if the
/// first is not certain, or 0.
#[inline(always)]
fn in_node(table: &Table, node: &Line, head: Head, byte: Option<u8>) -> (u32, u32) {
    if head.is_wide() {
        let at = BlockAt::of(node);
        let lines = (at.line as usize).checked_add(at.lines);
        let block = lines.and_then(|end| table.blocks().get(at.line as usize..end));
        return match (block, byte) {
            (Some(block), Some(byte)) => wide(block, at.first, byte, head.at()),
            _ => (head.at(), 0),
        };
    }
    let (at_most, equal) = match_bytes(line(&node.words), byte.unwrap_or(0));
    let children = ((1 << head.count()) - 1) & if byte.is_some() { u32::MAX } else { 0 };
    // The children ascend, so those that are at most `byte` come first.
    let i = (u32::BITS - (at_most & children).leading_zeros()) as usize;
    let first = sequence(node, i);
    let is_child = (equal & children) << 1 >> i & 1 != 0;
    let before = sequence(node, i.saturating_sub(1));
    let second = is_child && first & EXACT == 0;
    (first, select_unpredictable(second, before, 0))
}

/// The same for the refs of a block.
#[inline(always)]
fn wide(block: &[Line], first: usize, byte: u8, bare: u32) -> (u32, u32) {
    let get = |i: usize| block.get(i / LINE_REFS).map_or(0, |line| line.slot(i % LINE_REFS));
    let Some(i) = usize::from(byte).checked_sub(first) else { return (bare, 0) };
    let end = block.len() * LINE_REFS;
    if i >= end {
        return (get(end.wrapping_sub(1)), 0);
    }
    let found = get(i);
    let before = if i == 0 { bare } else { get(i - 1) };
    (found, select_unpredictable(found & EXACT == 0, before, 0))
}
