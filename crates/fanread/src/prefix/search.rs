//! The search: two rounds of tag probes, a node, and for a wide node a ref of its block.
//!
//! A processor looks a few hundred instructions ahead. Searches of different keys overlap only if the reads of one are
//! that near to those of the next, and if no branch between them depends on a line that is not there yet. So this file
//! counts instructions; `docs/design/prefix.md` says how many there are.
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
    EXACT, Head, LANES, LeafRef, Line, id_low, is_marked, narrow_refs, odd, ref_of, tag_of,
};
use super::raw::{ROOT_HASH, ROOT_LANE, Table};
use crate::arch::{Baseline, Lanes, match_bytes, prefetch};
use crate::hash::prefix::{Behind, PrefixHashes, WINDOW_BLOCKS, Window};
use crate::sync::epoch::Guard;
use crate::sync::shim::{fence, line};

/// Where the search for a key has come to: a node that was asked for and not looked at yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'g> {
    /// The node, and the table it is in; `None` if there is no table.
    place: Option<(&'g Table, &'g Line)>,
    /// What the node has to show.
    id: u32,
    /// The length of the node's prefix.
    len: u32,
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

impl PrefixTable {
    /// Finds the deepest stored prefix of a key and asks for its node.
    ///
    /// # Cost
    ///
    /// Up to `fan + 8` lines of tags, in two waits (more for keys with more than `fan` landmarks).
    #[inline(always)]
    pub(crate) fn probe<'g>(&self, key: &[u8], guard: &'g Guard) -> Probe<'g> {
        match self.current.get(guard).and_then(|table| table.avx512) {
            Some(kernel) => self.probe_with(kernel, key, guard),
            None => self.probe_with(Baseline, key, guard),
        }
    }

    /// As [`probe`](Self::probe), with a kernel that the caller has picked.
    #[inline(always)]
    pub(crate) fn probe_with<'g>(
        &self,
        kernel: impl Lanes,
        key: &[u8],
        guard: &'g Guard,
    ) -> Probe<'g> {
        let hashes = PrefixHashes::new(&self.seed, key);
        let Some(table) = self.current.get(guard) else {
            return Probe { place: None, id: 0, len: 0, full: hashes.full() };
        };
        let mut last = Last::new(kernel, table);
        let (mut state, mut ahead) = (hashes.start(), hashes.blocks());
        let (_, landmarks) = table.limits();
        let (base, behind) = if landmarks == 0 {
            (0, hashes.behind(0, state))
        } else {
            let blocks = ahead.len().min(landmarks);
            let (mut block, mut deepest) = (0, state);
            if blocks <= self.fan.load(Relaxed) as usize {
                let near;
                (near, ahead) = ahead.split_at(blocks);
                let mut all = true;
                for bytes in near {
                    state = hashes.absorb(state, *bytes);
                    all &= last.try_hash::<0>(hashes.landmark(state), all);
                    deepest = select_unpredictable(all, state, deepest);
                    block += usize::from(all);
                }
            } else {
                (block, deepest, last) = self.landmark(last, key, blocks, landmarks);
            }
            (block * 8, hashes.behind(block, deepest))
        };
        last.try_lengths(table.rests(), behind);
        let Last { hash, found, marks, .. } = last;
        let node = table.node(hash, found as u32);
        // Ask before anything else is done: the fewer instructions lie before this one, the more often the request
        // leaves while the search before this one still waits for its leaf.
        prefetch(node);
        let len = base + len_in(found) as usize;
        let full = hashes.finish(state, ahead);
        // A mark, or a length behind the key's end: hashes there are those of the key and NUL bytes.
        if is_marked(marks) || len > key.len() {
            let probe = self.search_again::<false>(table, key);
            if let Some((_, node)) = probe.place {
                prefetch(node);
            }
            return Probe { full, ..probe };
        }
        Probe { place: Some((table, node)), id: id_low(hash), len: len as u32, full }
    }

    /// Tries the landmarks of the key's first `blocks` blocks in rounds of `fan` probes. Returns how many of them are
    /// there and the state behind them.
    #[inline(never)]
    fn landmark<'t, K: Lanes>(
        &self,
        mut last: Last<'t, K>,
        key: &[u8],
        blocks: usize,
        landmarks: usize,
    ) -> (usize, u64, Last<'t, K>) {
        let fan = self.fan.load(Relaxed) as usize;
        let window = Window::new(&self.seed, key);
        let (mut low, mut high) = (0, blocks.min(WINDOW_BLOCKS));
        // `low` landmarks are there, more than `high` are not.
        while low < high {
            let step = (high - low).div_ceil(fan + 1);
            let count = ((high - low) / step).min(fan);
            let mut there = 0_u32;
            for i in 0..count {
                let found = last.try_hash::<0>(window.hash(low + (i + 1) * step), false);
                there |= u32::from(found) << i;
            }
            let there = there.trailing_ones() as usize;
            if there < count {
                high = low + (there + 1) * step - 1;
            }
            low += there * step;
        }
        // A landmark that is gone by now, or more landmarks than were looked at.
        let is_lost = low > 0 && !last.try_hash::<0>(window.hash(low), true);
        if is_lost || (low == WINDOW_BLOCKS && landmarks > WINDOW_BLOCKS) {
            last.marks = !0;
        }
        (low, window.state(low), last)
    }

    /// Finds the deepest stored prefix one length after the other, following marks, and with `LOOK` into the nodes: in
    /// a marked bucket, for a long key, after a misleading tag.
    #[cold]
    #[inline(never)]
    fn search_again<'g, const LOOK: bool>(&self, table: &'g Table, key: &[u8]) -> Probe<'g> {
        let (deepest, landmarks) = table.limits();
        let mut found = Probe::new(table, table.root(), 0, ROOT_HASH);
        let hashes = PrefixHashes::new(&self.seed, key);
        let mut next = Some(Window::new(&self.seed, key));
        while let Some(window) = next {
            let base = window.base();
            let limit = landmarks.saturating_sub(base / 8);
            let (mut low, mut high) = (0, window.blocks().min(limit) + 1);
            while low + 1 < high {
                let middle = low.midpoint(high);
                match find::<LOOK>(table, odd(window.hash(middle))) {
                    Some(node) => {
                        low = middle;
                        found = Probe::new(table, node, base + middle * 8, window.hash(middle));
                    }
                    None => high = middle,
                }
            }
            if low < WINDOW_BLOCKS || base + low * 8 == key.len() {
                let at = base + low * 8;
                let behind = hashes.behind(at / 8, window.state(low));
                for len in (at + 1..=key.len().min(deepest).min(at + 7)).rev() {
                    let hash = odd(behind.at(len - at));
                    if let Some(node) = find::<LOOK>(table, hash) {
                        return Probe::new(table, node, len, hash);
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
        let Some((table, node)) = probe.place else { return self.only_first() };
        let head = Head::of(node);
        if head.id_low() != probe.id {
            return self.route_exactly(table, key);
        }
        self.finish(in_node(table, node, head, key, probe.len))
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
        let (_, node) = probe.place?;
        // The node was right a moment ago. If it is another one's by now, its leaves are as good as any.
        self.finish(in_node(table, node, Head::of(node), key, probe.len))
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

    fn new(table: &'g Table, node: &'g Line, len: usize, hash: u64) -> Self {
        Self { place: Some((table, node)), id: id_low(hash), len: len as u32, full: 0 }
    }
}

/// The lanes of `bucket` that may be the node with `hash`. A mark is no tag.
#[inline(always)]
fn lanes(kernel: impl Lanes, bucket: &Line, hash: u64) -> u32 {
    kernel.match_u16(line(&bucket.words), tag_of(hash))
}

/// Above the lanes in [`Last::found`]: bit `r` for a length that is `r` bytes behind a landmark.
const LANES_BITS: u32 = 32;

#[inline(always)]
fn at_rest<const REST: usize>(lanes: u32) -> u64 {
    u64::from(lanes) | 1 << (LANES_BITS + REST as u32)
}

/// The length behind the last landmark of what was [found](Last::found).
#[inline(always)]
pub(super) fn len_in(found: u64) -> u32 {
    (found >> LANES_BITS).trailing_zeros()
}

/// The last prefix that answered so far; at first the root.
///
/// There is no branch on the answers: they come late, and a mistaken guess would make the next search wait for them.
pub(super) struct Last<'t, K> {
    kernel: K,
    table: &'t Table,
    /// Non-zero at the top if a bucket on the way was marked.
    pub(super) marks: u64,
    pub(super) hash: u64,
    /// The lanes in its bucket; above them a bit that tells the length behind the last landmark. Together, as each is one
    /// more thing to choose for every length.
    pub(super) found: u64,
}

impl<'t, K: Lanes> Last<'t, K> {
    #[inline(always)]
    pub(super) fn new(kernel: K, table: &'t Table) -> Self {
        Self { kernel, table, marks: 0, hash: ROOT_HASH, found: at_rest::<0>(ROOT_LANE) }
    }

    /// Probes for `hash` and takes it for the last one if it is there and is `wanted`. Returns whether it is there.
    #[inline(always)]
    fn try_hash<const REST: usize>(&mut self, hash: u64, wanted: bool) -> bool {
        let hash = odd(hash);
        let bucket = self.table.home(hash).1;
        let lanes = lanes(self.kernel, bucket, hash);
        self.marks |= bucket.mark_word();
        let taken = wanted && lanes != 0;
        self.hash = select_unpredictable(taken, hash, self.hash);
        self.found = select_unpredictable(taken, at_rest::<REST>(lanes), self.found);
        lanes != 0
    }

    /// Tries the lengths behind a landmark that are in `rests`. These seldom change, so no branch on them is a surprise.
    #[inline(always)]
    pub(super) fn try_lengths(&mut self, rests: u32, behind: Behind<'_>) {
        self.try_length::<1>(rests, behind);
        self.try_length::<2>(rests, behind);
        self.try_length::<3>(rests, behind);
        if rests >> 4 != 0 {
            self.try_length::<4>(rests, behind);
            self.try_length::<5>(rests, behind);
            self.try_length::<6>(rests, behind);
            self.try_length::<7>(rests, behind);
        }
    }

    #[inline(always)]
    fn try_length<const REST: usize>(&mut self, rests: u32, behind: Behind<'_>) {
        if rests & 1 << REST != 0 {
            self.try_hash::<REST>(behind.at(REST), true);
        }
    }
}

/// Finds the node with `hash`, as far as its tag or, with `LOOK`, the node itself tells.
fn find<const LOOK: bool>(table: &Table, hash: u64) -> Option<&Line> {
    let (mut i, _) = table.home(hash);
    for _ in table.buckets() {
        let bucket = &table.buckets()[i];
        let mut found = lanes(Baseline, bucket, hash);
        while found != 0 {
            let node = &table.nodes()[i * LANES + found.trailing_zeros() as usize];
            if !LOOK || Head::of(node).id_low() == id_low(hash) {
                return Some(node);
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

/// Returns the refs in `node`, of a prefix of `len` bytes, for `key`: the leaf, and the one before it if the first is
/// not certain, or 0.
#[inline(always)]
fn in_node(table: &Table, node: &Line, head: Head, key: &[u8], len: u32) -> (u32, u32) {
    let Some(byte) = key.get(len as usize).copied() else { return (head.at(), 0) };
    if head.is_wide() {
        return in_wide(table, ref_of(node.word(0), byte));
    }
    in_narrow(node, head, byte)
}

/// The same in a wide node, by the number of the ref.
#[inline(always)]
pub(super) fn in_wide(table: &Table, at: usize) -> (u32, u32) {
    let Some((before, first)) = table.refs(at) else { return (0, 0) };
    (first, select_unpredictable(first & EXACT == 0, before, 0))
}

/// The same in a narrow node, for a key that goes on with `byte`.
#[inline(always)]
pub(super) fn in_narrow(node: &Line, head: Head, byte: u8) -> (u32, u32) {
    let (at_most, equal) = match_bytes(line(&node.words), byte);
    let children = head.children();
    // The children ascend, so those that are at most `byte` come first, and the one that equals it is the last.
    let (before, first) = narrow_refs(node, at_most & children);
    let second = equal & children != 0 && first & EXACT == 0;
    (first, select_unpredictable(second, before, 0))
}
