//! Ranges: a piece of one trie at a time, in both directions.
//!
//! A range collects the next few entries (`walk.rs`), and more before it has yielded the last of them. A
//! walk that was disturbed by a writer, or whose trie has been replaced, starts again behind the last record.
//!
//! # Invariants
//!
//! * **I1** Keys come out strictly increasing (decreasing from the back), inside the bounds.
//! * **I2** A key present from before the range was made until it ends is yielded.
//!
//! PAPER: section 4.4 follows a list of leaves, one dependent read for each key; here all children of a node are read at
//! once. A range that lost its key there skipped one; here the key only marks a place.

use core::iter::FusedIterator;
use core::ops::Bound;

use super::layout::Leaf;
use super::raw::{Memory, Trie};
use super::walk::{Direction, Disturbed, Ground, Progress, Start, Walk};
use super::{CuckooTrie, Pinned};
use crate::api::{Edge, Key, Ref};
use crate::arch::{Baseline, Lanes};
use crate::sync::epoch::Guard;

/// Entries of the first piece of a range of which nobody knows how long it is: what is fetched beyond its end is in vain.
const FIRST_PIECE: usize = if cfg!(any(shuttle, small_leaves)) { 2 } else { 32 };

/// Entries of the largest first piece, of a range that is expected to be as long.
const MOST_FIRST: usize = if cfg!(any(shuttle, small_leaves)) { 5 } else { 128 };

/// Entries by which lengths of ranges are counted.
pub(super) const COUNTED: usize = if cfg!(any(shuttle, small_leaves)) { 2 } else { 8 };

/// So many times as many entries are a long range.
pub(super) const LONG: u32 = 32;

/// Entries of the pieces after that, at least and at most: half of what was taken before, since a long range will go on for longer.
const PIECE: usize = if cfg!(any(shuttle, small_leaves)) { 2 } else { 16 };
const MOST_PIECE: usize = if cfg!(any(shuttle, small_leaves)) { 4 } else { 96 };

/// How many entries are left when the next piece is collected, at least, and as a part of that piece: they are read while its lines come.
const LEFT: usize = if cfg!(any(shuttle, small_leaves)) { 1 } else { 8 };
const LEFT_PART: usize = 4;

/// One end of a range.
struct Side<'g> {
    walk: Walk,
    /// Entries that are expected to be taken; 0: nobody knows.
    expected: usize,
    taken: usize,
    /// With how many left the next piece is collected.
    left: usize,
    /// The next entries, from `at` on.
    ahead: Vec<Leaf>,
    at: usize,
    /// The entry yielded last.
    last: Option<Leaf>,
    /// Where the last piece came from.
    trie: Option<Trie<'g>>,
    /// Whether the walk goes on there.
    goes_on: bool,
    /// Where it goes on otherwise: the border of a trie that it is done with, a record; 0: behind the last entry.
    border: u64,
    /// Nothing is left behind `ahead`.
    is_done: bool,
}

impl<'g> Side<'g> {
    fn new(expected: usize) -> Self {
        Self {
            walk: Walk::default(),
            expected,
            taken: 0,
            left: LEFT,
            ahead: Vec::new(),
            at: 0,
            last: None,
            trie: None,
            goes_on: false,
            border: 0,
            is_done: false,
        }
    }

    /// Takes the next entry.
    #[inline(always)]
    fn take<V>(
        &mut self,
        map: &'g CuckooTrie<V>,
        guard: &'g Guard,
        direction: Direction,
        edge: &Edge,
    ) -> Option<Leaf> {
        let left = self.ahead.len() - self.at;
        let is_expected = self.expected == 0 || self.taken + left < self.expected;
        if left <= self.left && !self.is_done && (left == 0 || is_expected) {
            self.refill(map, guard, direction, edge);
        }
        let leaf = self.ahead.get(self.at).copied()?;
        self.at += 1;
        self.taken += 1;
        Some(leaf)
    }

    /// Collects the next piece.
    #[inline(never)]
    fn refill<V>(
        &mut self,
        map: &'g CuckooTrie<V>,
        guard: &'g Guard,
        direction: Direction,
        edge: &Edge,
    ) {
        self.ahead.drain(..core::mem::take(&mut self.at));
        let before = self.ahead.len();
        while self.ahead.len() == before {
            let last =
                self.ahead.last().copied().or(self.last).map(|last| map.memory.key::<V>(last));
            let start = (!self.goes_on).then(|| self.start(map, direction, edge, last.as_deref()));
            if let Some(start) = start {
                self.trie = self.trie_at(map, guard, direction, start);
            }
            let Some(trie) = self.trie else {
                self.is_done = true;
                return;
            };
            let progress = match map.avx512 {
                Some(kernel) => self.collect(map, kernel, trie, direction, start),
                None => self.collect(map, Baseline, trie, direction, start),
            };
            // What was there is what the map had, if the trie lived.
            if trie.version().is_dead_now() {
                self.ahead.truncate(before);
                self.goes_on = false;
                continue;
            }
            // A piece that a writer cut short counts as far as it goes.
            self.goes_on = progress == Ok(Progress::More);
            if self.ahead.len() > before {
                self.border = 0;
            }
            if progress == Ok(Progress::End) {
                let borders = trie.borders();
                let (border, is_last) = match direction {
                    Direction::Up => (borders.high, !borders.bounded),
                    Direction::Down => (borders.low, borders.low == 0),
                };
                self.border = border;
                if is_last {
                    self.is_done = true;
                    return;
                }
            }
        }
    }

    fn collect<V>(
        &mut self,
        map: &CuckooTrie<V>,
        lanes: impl Lanes,
        trie: Trie<'_>,
        direction: Direction,
        start: Option<Start<'_>>,
    ) -> Result<Progress, Disturbed> {
        let key_bytes = match start {
            Some(Start::Key { key, .. }) => key.len(),
            _ => self.last.map_or(0, |last| map.memory.key::<V>(last).len()),
        };
        let reach_bytes = Memory::reach_of_many::<V>(key_bytes);
        let ground = Ground { memory: &map.memory, secret: &map.secret, trie, reach_bytes };
        let Self { walk, ahead, .. } = self;
        if let Some(start) = start {
            let limit = match self.expected.saturating_sub(self.taken) {
                0 => FIRST_PIECE,
                expected => expected.min(MOST_FIRST),
            };
            ahead.reserve(3 * limit);
            return walk.collect::<V>(&ground, lanes, direction, start, limit, ahead);
        }
        // A range that goes on will most likely go on again.
        let piece = (self.taken / 2).clamp(PIECE, MOST_PIECE);
        self.left = (piece / LEFT_PART).max(LEFT);
        walk.look_ahead(piece);
        walk.collect_on(&ground, lanes, direction, piece, ahead)
    }

    /// Where the next piece begins, if the walk does not go on.
    fn start<'e, V>(
        &self,
        map: &'g CuckooTrie<V>,
        direction: Direction,
        edge: &'e Edge,
        last: Option<&'e [u8]>,
    ) -> Start<'e>
    where
        'g: 'e,
    {
        match (self.border, last, edge) {
            (0, None, Edge::Open) => Start::Edge,
            (0, None, Edge::Included(key)) => Start::Key { key, inclusive: true },
            (0, None, Edge::Excluded(key)) => Start::Key { key, inclusive: false },
            (0, Some(key), _) => Start::Key { key, inclusive: false },
            // The key that is the border lies behind it: seen on the way down already.
            (border, ..) => {
                let inclusive = direction == Direction::Up;
                Start::Key { key: map.memory.border(border), inclusive }
            }
        }
    }

    /// The trie where a piece begins, live at some instant of the call: records of a dead one are not to be read. `None` in a map
    /// that never had an entry.
    fn trie_at<V>(
        &self,
        map: &'g CuckooTrie<V>,
        guard: &Guard,
        direction: Direction,
        start: Start<'_>,
    ) -> Option<Trie<'g>> {
        let Start::Key { key, .. } = start else {
            return map.end_trie(direction, guard);
        };
        let from = self.trie.or_else(|| Some(map.hint(key, guard)?.trie))?;
        Some(match direction {
            Direction::Down if self.border != 0 => map.trie_before(key, from),
            _ => map.trie_of(key, from),
        })
    }
}

impl<V> Pinned<'_, V> {
    /// The first entry from a bound on.
    pub(super) fn first_from(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.beside(Direction::Up, bound)
    }

    /// The last entry up to a bound.
    pub(super) fn last_up_to(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.beside(Direction::Down, bound)
    }

    /// The entry next to a bound: what a range comes to first that is not expected to go on, or the map's end.
    fn beside(&self, direction: Direction, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        let map = self.map;
        let end = if bound == Bound::Unbounded { self.end(direction) } else { None };
        let leaf = match end {
            Some(leaf) => leaf,
            None => Side::new(1).take(map, &self.guard, direction, &Edge::of(bound))?,
        };
        Some((map.memory.key::<V>(leaf), Ref::new(map.memory.value(leaf))))
    }
}

/// The entries of a range of keys, in order; see [`Pinned::range`].
pub struct Range<'g, V> {
    map: &'g CuckooTrie<V>,
    guard: &'g Guard,
    start: Edge,
    end: Edge,
    front: Side<'g>,
    back: Side<'g>,
    ended: bool,
}

impl<'g, V> Range<'g, V> {
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Edge, end: Edge, ended: bool) -> Self {
        let expected = pinned.map.lengths.expected();
        let (front, back) = (Side::new(expected), Side::new(expected));
        Self { map: pinned.map, guard: &pinned.guard, start, end, front, back, ended }
    }

    #[inline(always)]
    fn entry(&self, leaf: Leaf) -> (Key<'g>, Ref<'g, V>) {
        let memory = &self.map.memory;
        (memory.key::<V>(leaf), Ref::new(memory.value(leaf)))
    }

    fn key(&self, leaf: Leaf) -> Key<'g> {
        self.map.memory.key::<V>(leaf)
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
        let leaf = self.front.take(self.map, self.guard, Direction::Up, &self.start);
        let entry = leaf.map(|leaf| self.entry(leaf)).filter(|entry| {
            let met = self.back.last.is_some_and(|last| *entry.0 >= *self.key(last));
            !met && !self.end.ends_before(&entry.0)
        });
        self.ended = entry.is_none();
        self.front.last = leaf;
        entry
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let leaf = self.back.take(self.map, self.guard, Direction::Down, &self.end);
        let entry = leaf.map(|leaf| self.entry(leaf)).filter(|entry| {
            let met = self.front.last.is_some_and(|last| *entry.0 <= *self.key(last));
            !met && !self.start.starts_after(&entry.0)
        });
        self.ended = entry.is_none();
        self.back.last = leaf;
        entry
    }
}

impl<V> Drop for Range<'_, V> {
    fn drop(&mut self) {
        self.map.lengths.note(self.front.taken.max(self.back.taken));
    }
}

impl<V> FusedIterator for Range<'_, V> {}
