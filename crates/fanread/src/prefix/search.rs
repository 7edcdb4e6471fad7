//! The search: two rounds of tag probes, a node, and for a wide node a ref of its block.
//!
//! A *landmark* exists only together with all shorter ones of the same anchor, so the landmarks of a key are found
//! by how many of the first ones answer. The nodes behind the deepest landmark are at most seven, and the last one
//! that answers wins.
//!
//! Tags are guesses. That the right node was found shows by 32 bits of its hash that are not in the tag; if they
//! differ, the search is repeated and looks at every node (one search in a thousand). If a bucket on the way was marked,
//! it is repeated and follows the marks (in the fullest tables, one in twenty).
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
use crate::arch::{Baseline, Lanes, match_bytes, prefetch};
use crate::hash::prefix::{Behind, PrefixHashes, WINDOW_BLOCKS, Window};
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
    /// The hash of the whole key.
    full: u64,
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
    #[allow(dead_code, reason = "a step of its own for batches over tables beyond the cache")]
    #[inline]
    pub(crate) fn prefetch_tags(&self, hashes: &PrefixHashes, guard: &Guard) {
        let Some(table) = self.current.get(guard) else { return };
        let (deepest, landmarks) = table.limits();
        let mut states = hashes.states();
        let blocks = states.blocks().min(landmarks).min(self.fan.load(Relaxed) as usize);
        if blocks == 0 {
            let behind = hashes.behind(0, states.state());
            for rest in 1..=deepest.min(hashes.key().len()).min(7) {
                prefetch(table.home(behind.at(rest)).1);
            }
        }
        for _ in 0..blocks {
            states.advance();
            prefetch(table.home(states.hash()).1);
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
            let full = hashes.full();
            return Probe { table: None, slot: ROOT, len: 0, id: 0, full };
        };
        match table.avx512 {
            Some(kernel) => self.probe_with(kernel, table, hashes),
            None => self.probe_with(Baseline, table, hashes),
        }
    }

    #[inline(always)]
    fn probe_with<'g>(
        &self,
        kernel: impl Lanes,
        table: &'g Table,
        hashes: &PrefixHashes,
    ) -> Probe<'g> {
        let (deepest, landmarks) = table.limits();
        let mut states = hashes.states();
        let blocks = states.blocks().min(landmarks);
        let mut marks = 0;
        let (mut block, mut state) = (0, states.state());
        if blocks <= self.fan.load(Relaxed) as usize {
            let mut all = true;
            for _ in 0..blocks {
                states.advance();
                let (found, mark) = answers(kernel, table, states.hash());
                marks |= mark;
                all &= found != 0;
                block += usize::from(all);
                state = select_unpredictable(all, states.state(), state);
            }
        } else {
            (block, state, marks) = self.landmark(kernel, table, hashes, blocks);
        }
        // Without landmarks there is nothing to find there; how many to look at was known early.
        let mut last = Last::new(kernel, table, hashes.behind(block, state));
        if blocks > 0 {
            last.try_landmark(block);
        }
        last.try_length::<1>();
        last.try_length::<2>();
        last.try_length::<3>();
        if deepest > 3 {
            last.try_length::<4>();
            last.try_length::<5>();
            last.try_length::<6>();
            last.try_length::<7>();
        }
        marks |= last.marks;
        let mut probe = last.probe(block * 8);
        // Ask before anything else is done: the fewer instructions lie before this one, the more often the request
        // leaves while the search before this one still waits for its leaf.
        prefetch(table.nodes().as_ptr().wrapping_add(probe.slot as usize));
        probe.full = states.finish(hashes.key());
        // A marked bucket, a landmark that is gone by now, a length behind the key's end, or more landmarks than were
        // looked at.
        let is_lost = probe.slot == ROOT && block > 0;
        let is_behind = probe.len as usize > hashes.key().len();
        let is_last_of_many = block == WINDOW_BLOCKS && landmarks > WINDOW_BLOCKS;
        if is_marked(marks) | is_lost | is_behind | is_last_of_many {
            let full = probe.full;
            probe = self.search_again::<false>(table, hashes.key());
            probe.full = full;
            if let Some(node) = table.nodes().get(probe.slot as usize) {
                prefetch(node);
            }
        }
        probe
    }

    /// Returns how many landmarks of the key are there, of its first `blocks`, the state behind them, and the marks
    /// seen, in rounds of `fan` probes.
    #[inline(never)]
    fn landmark(
        &self,
        kernel: impl Lanes,
        table: &Table,
        hashes: &PrefixHashes,
        blocks: usize,
    ) -> (usize, u64, u64) {
        let mut marks = 0;
        let fan = self.fan.load(Relaxed) as usize;
        let window = Window::new(&self.seed, hashes.key());
        let (mut low, mut high) = (0, blocks.min(WINDOW_BLOCKS));
        // `low` landmarks are there, more than `high` are not.
        while low < high {
            let step = (high - low).div_ceil(fan + 1);
            let count = ((high - low) / step).min(fan);
            let mut there = 0_u32;
            for i in 0..count {
                let hash = window.hash(low + (i + 1) * step);
                let (found, mark) = answers(kernel, table, hash);
                marks |= mark;
                there |= u32::from(found != 0) << i;
            }
            let there = there.trailing_ones() as usize;
            if there < count {
                high = low + (there + 1) * step - 1;
            }
            low += there * step;
        }
        (low, window.state(low), marks)
    }

    /// Finds the deepest stored prefix one length after the other, following marks, and with `LOOK` into the nodes: in
    /// a marked bucket, for a long key, after a misleading tag.
    #[cold]
    #[inline(never)]
    fn search_again<'g, const LOOK: bool>(&self, table: &'g Table, key: &[u8]) -> Probe<'g> {
        let (deepest, landmarks) = table.limits();
        let mut found = Probe { table: Some(table), slot: ROOT, len: 0, id: 0, full: 0 };
        let hashes = PrefixHashes::new(&self.seed, key);
        let mut next = Some(Window::new(&self.seed, key));
        while let Some(window) = next {
            let base = window.base();
            let limit = landmarks.saturating_sub(base / 8);
            let (mut low, mut high) = (0, window.blocks().min(limit) + 1);
            while low + 1 < high {
                let middle = low.midpoint(high);
                match find::<LOOK>(table, window.hash(middle)) {
                    Some(slot) => {
                        low = middle;
                        found = Probe::new(table, slot, base + middle * 8, window.hash(middle));
                    }
                    None => high = middle,
                }
            }
            if low < WINDOW_BLOCKS || base + low * 8 == key.len() {
                let at = base + low * 8;
                let behind = hashes.behind(at / 8, window.state(low));
                for len in (at + 1..=key.len().min(deepest).min(at + 7)).rev() {
                    let hash = behind.at(len - at);
                    if let Some(slot) = find::<LOOK>(table, hash) {
                        return Probe::new(table, slot, len, hash);
                    }
                }
                return found;
            }
            next = window.next();
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
        let probe = self.search_again::<true>(table, key);
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
    /// The hash of the whole key, which the search computed on its way.
    #[inline(always)]
    pub(crate) fn full_hash(&self) -> u64 {
        self.full
    }

    fn new(table: &'g Table, slot: usize, len: usize, hash: u64) -> Self {
        Self { table: Some(table), slot: slot as u32, len: len as u32, id: id_low(hash), full: 0 }
    }
}

/// The lanes of the home bucket of `hash` that may be its node, and the bucket's mark.
#[inline(always)]
fn answers(kernel: impl Lanes, table: &Table, hash: u64) -> (u32, u64) {
    let bucket = table.home(hash).1;
    (lanes(kernel, bucket, hash), bucket.mark_word())
}

/// The lanes of `bucket` that may be the node with `hash`. A mark is no tag.
#[inline(always)]
fn lanes(kernel: impl Lanes, bucket: &Line, hash: u64) -> u32 {
    kernel.match_u16(line(&bucket.words), tag_of(hash))
}

/// The last length behind a landmark that answered so far.
///
/// There is no branch on the answers: they come late, and a mistaken guess would make the next search wait for them.
struct Last<'t, 'k, K> {
    kernel: K,
    table: &'t Table,
    behind: Behind<'k>,
    marks: u64,
    hash: u64,
    lanes: u32,
    rest: u32,
}

impl<'t, 'k, K: Lanes> Last<'t, 'k, K> {
    #[inline(always)]
    fn new(kernel: K, table: &'t Table, behind: Behind<'k>) -> Self {
        Self { kernel, table, behind, marks: 0, hash: 0, lanes: 0, rest: 0 }
    }

    /// Tries the landmark itself, number `block`; number 0 is the root, which is not among the tags.
    #[inline(always)]
    fn try_landmark(&mut self, block: usize) {
        self.hash = self.behind.at(0);
        let (lanes, _) = answers(self.kernel, self.table, self.hash);
        self.lanes = select_unpredictable(block == 0, 0, lanes);
    }

    #[inline(always)]
    fn try_length<const REST: usize>(&mut self) {
        let hash = self.behind.at(REST);
        let (lanes, mark) = answers(self.kernel, self.table, hash);
        self.marks |= mark;
        let found = lanes != 0;
        self.hash = select_unpredictable(found, hash, self.hash);
        self.lanes = select_unpredictable(found, lanes, self.lanes);
        self.rest = select_unpredictable(found, REST as u32, self.rest);
    }

    #[inline(always)]
    fn probe(self, base: usize) -> Probe<'t> {
        let Self { table, hash, lanes, rest, .. } = self;
        let bucket = table.home(hash).0 as u32;
        let slot = bucket * LANES as u32 + lanes.trailing_zeros();
        let slot = select_unpredictable(lanes == 0, ROOT, slot);
        let len = base as u32 + rest;
        Probe { table: Some(table), slot, len, id: id_low(hash), full: 0 }
    }
}

/// Finds the node with `hash`, as far as its tag or, with `LOOK`, the node itself tells.
fn find<const LOOK: bool>(table: &Table, hash: u64) -> Option<usize> {
    let (mut i, _) = table.home(hash);
    for _ in table.buckets() {
        let bucket = &table.buckets()[i];
        let mut found = lanes(Baseline, bucket, hash);
        while found != 0 {
            let slot = i * LANES + found.trailing_zeros() as usize;
            if !LOOK || Head::of(&table.nodes()[slot]).id_low() == id_low(hash) {
                return Some(slot);
            }
            found &= found - 1;
        }
        if !is_marked(bucket.mark_word()) {
            return None;
        }
        i = table.after(i);
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
