//! Ranges: a piece of one trie at a time, in both directions.
//!
//! A range collects the records of the next few keys (`walk.rs`), yields them, and then seeks the place behind the last
//! one again. So it keeps nothing of a trie between two pieces, and it does not matter what becomes of it meanwhile.
//!
//! # Invariants
//!
//! * **I1** Keys come out strictly increasing (decreasing from the back), inside the bounds.
//! * **I2** A key present from before the range was made until it ends is yielded.
//!
//! PAPER: section 4.4 follows a list of leaves, one dependent read for each key; here all children of a node are read at
//! once. A range that lost its key there skipped one; here the key only marks a place.

use core::iter::FusedIterator;

use super::raw::Trie;
use super::walk::{Direction, Ground, Progress, Start, Walk};
use super::{CuckooTrie, Pinned};
use crate::api::{Edge, Key, Ref};
use crate::arch::Baseline;
use crate::sync::epoch::Guard;

/// Records of the first piece of a range. Most ranges are short: what is fetched beyond their end is in vain.
const FIRST_PIECE: usize = if cfg!(any(shuttle, small_leaves)) { 2 } else { 32 };

/// Records of the largest piece. Larger ones seek less often; they delay the first entry of each piece.
const LARGEST_PIECE: usize = if cfg!(any(shuttle, small_leaves)) { 4 } else { 256 };

/// One end of a range.
#[derive(Debug)]
struct Side {
    walk: Walk,
    /// The records of the next keys, the next one last.
    ahead: Vec<u64>,
    /// The record of the key yielded last; 0: none yet.
    last: u64,
    /// Where this end goes on when `ahead` is empty: the border of a trie that it is done with, a record; 0: behind `last`.
    border: u64,
    piece: usize,
}

/// A range goes on at `key`.
fn at(key: &[u8]) -> Start<'_> {
    Start::Key { key, inclusive: true }
}

/// A range goes on behind `key`, or before it.
fn beyond(key: &[u8]) -> Start<'_> {
    Start::Key { key, inclusive: false }
}

impl Side {
    fn new() -> Self {
        Self { walk: Walk::default(), ahead: Vec::new(), last: 0, border: 0, piece: FIRST_PIECE }
    }

    /// Collects the next piece of a trie, the next record last. Returns whether nothing is left of the trie.
    fn collect<V>(
        &mut self,
        map: &CuckooTrie<V>,
        trie: Trie<'_>,
        direction: Direction,
        start: Start<'_>,
    ) -> bool {
        let Self { walk, ahead, piece, .. } = self;
        ahead.clear();
        let ground = Ground { memory: &map.memory, secret: &map.secret, trie };
        let progress = match map.avx512 {
            Some(kernel) => walk.collect::<V>(&ground, kernel, direction, start, *piece, ahead),
            None => walk.collect::<V>(&ground, Baseline, direction, start, *piece, ahead),
        };
        ahead.reverse();
        // A piece that a writer cut short counts as far as it goes.
        progress == Ok(Progress::End)
    }
}

/// The entries of a range of keys, in order; see [`Pinned::range`].
pub struct Range<'g, V> {
    map: &'g CuckooTrie<V>,
    guard: &'g Guard,
    start: Edge,
    end: Edge,
    front: Side,
    back: Side,
    /// Where the last piece came from.
    trie: Option<Trie<'g>>,
    ended: bool,
}

impl<'g, V> Range<'g, V> {
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Edge, end: Edge, ended: bool) -> Self {
        Self {
            map: pinned.map,
            guard: &pinned.guard,
            start,
            end,
            front: Side::new(),
            back: Side::new(),
            trie: None,
            ended,
        }
    }

    fn entry(&self, unit: u64) -> (Key<'g>, Ref<'g, V>) {
        let record = self.map.memory.record::<V>(unit);
        (Key::long(record.key()), Ref::new(record.value()))
    }

    fn key(&self, unit: u64) -> &'g [u8] {
        self.map.memory.record::<V>(unit).key()
    }

    /// The trie of a key, from the one that the last piece came from.
    fn trie_of(&self, key: &[u8]) -> Option<Trie<'g>> {
        let from = self.trie.or_else(|| Some(self.map.hint(key, self.guard)?.trie))?;
        Some(self.map.trie_of(key, from))
    }

    /// Collects the next piece from the front. Returns false if there is nothing left.
    #[inline(never)]
    fn refill_front(&mut self) -> bool {
        let map = self.map;
        loop {
            let from = match (self.front.border, self.front.last, &self.start) {
                (0, 0, Edge::Open) => Start::Edge,
                (0, 0, Edge::Included(key)) => at(key),
                (0, 0, Edge::Excluded(key)) => beyond(key),
                (0, last, _) => beyond(self.key(last)),
                (border, ..) => at(map.memory.border(border)),
            };
            let trie = match from {
                Start::Edge => map.first_trie(),
                Start::Key { key, .. } => self.trie_of(key),
            };
            let Some(trie) = trie else { return false };
            let is_end = self.front.collect(map, trie, Direction::Up, from);
            let ahead = &mut self.front.ahead;
            // What was there is what the map had, if the trie lived.
            if trie.version().is_dead_now() {
                ahead.clear();
                // A dead first trie is no longer the first; others lead on.
                self.trie = None;
                continue;
            }
            self.trie = Some(trie);
            let borders = trie.borders();
            self.front.border = if is_end && borders.bounded { borders.high } else { 0 };
            if !ahead.is_empty() {
                self.front.piece = (2 * self.front.piece).min(LARGEST_PIECE);
                return true;
            }
            if is_end && !borders.bounded {
                return false;
            }
        }
    }

    /// Collects the next piece from the back. Returns false if there is nothing left.
    #[inline(never)]
    fn refill_back(&mut self) -> bool {
        let map = self.map;
        loop {
            let from = match (self.back.border, self.back.last, &self.end) {
                (0, 0, Edge::Open) => Start::Edge,
                (0, 0, Edge::Included(key)) => at(key),
                (0, 0, Edge::Excluded(key)) => beyond(key),
                (0, last, _) => beyond(self.key(last)),
                (border, ..) => beyond(map.memory.border(border)),
            };
            let trie = match from {
                Start::Edge => map.last_trie(self.guard),
                Start::Key { key: border, .. } if self.back.border != 0 => {
                    self.trie.map(|trie| map.trie_before(border, trie))
                }
                Start::Key { key, .. } => self.trie_of(key),
            };
            let Some(trie) = trie else { return false };
            let is_end = self.back.collect(map, trie, Direction::Down, from);
            let ahead = &mut self.back.ahead;
            let next = trie.borders();
            if trie.version().is_dead_now() || (matches!(from, Start::Edge) && next.bounded) {
                ahead.clear();
                if self.back.border == 0 {
                    self.trie = None;
                }
                continue;
            }
            self.trie = Some(trie);
            self.back.border = if is_end { next.low } else { 0 };
            if !ahead.is_empty() {
                self.back.piece = (2 * self.back.piece).min(LARGEST_PIECE);
                return true;
            }
            if is_end && next.low == 0 {
                return false;
            }
        }
    }
}

impl<V> core::fmt::Debug for Range<'_, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Range")
            .field("start", &self.start)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl<'g, V> Iterator for Range<'g, V> {
    type Item = (Key<'g>, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.front.ahead.is_empty() && !self.refill_front() {
            self.ended = true;
            return None;
        }
        let unit = self.front.ahead.pop()?;
        let entry = self.entry(unit);
        let met = self.back.last != 0 && *entry.0 >= *self.key(self.back.last);
        if met || self.end.ends_before(&entry.0) {
            self.ended = true;
            return None;
        }
        self.front.last = unit;
        Some(entry)
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.back.ahead.is_empty() && !self.refill_back() {
            self.ended = true;
            return None;
        }
        let unit = self.back.ahead.pop()?;
        let entry = self.entry(unit);
        let met = self.front.last != 0 && *entry.0 <= *self.key(self.front.last);
        if met || self.start.starts_after(&entry.0) {
            self.ended = true;
            return None;
        }
        self.back.last = unit;
        Some(entry)
    }
}

impl<V> FusedIterator for Range<'_, V> {}
