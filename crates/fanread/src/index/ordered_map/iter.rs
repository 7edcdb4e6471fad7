//! Walking over the entries in order, from both ends.
//!
//! A walk goes along a leaf's numbers, sorted and fresh ones together, with the next records asked for. A leaf's sorted numbers
//! never change, and the fresh ones are those that were there when the walk came in, so nothing is repeated: what became of the
//! leaf since does not matter, as each record says whether it is an entry. The next leaf is found by the border.
//!
//! # Invariants
//!
//! * **I1** Keys come out strictly increasing (decreasing from the back), inside the bounds. A key that is there twice in a
//!   leaf has one record that was unnamed before the other came, and so before the walk did; or one took the other's place, and
//!   the walk remembers which key it has met.
//! * **I2** A key present from before the range was made until it ends is yielded: its record is in each leaf that covers it. If
//!   another has taken its place since, the directory has that.

use core::iter::FusedIterator;
use core::ops::Bound;
use core::sync::atomic::Ordering::Relaxed;

use super::layout::{FEW_FRESH, LINE_NUMBERS};
use super::raw::{Leaf, Number, Record, Stored, read_value};
use super::{OrderedMap, Pinned, State};
use crate::api::{Below, Edge, Key, Ref};
use crate::list::{self, Leaf as _, Leaves as _, slice_at};
use crate::sync::shim::AtomicU32;

/// Records asked for ahead where nobody knows how long a walk is: at first, more with each entry; and at most, in all walks. Whoever wants one
/// entry is not to pay for many.
const AHEAD: (usize, usize, usize) = (2, 3, 32);

/// Entries by which lengths of walks are counted. As many at most are asked for behind the last one.
pub(super) const PIECE: usize = 4;
/// So many times as many are a walk without an end.
pub(super) const LONG: u32 = 64;

/// A bound in a leaf with more than a few fresh entries brings them into order for all, as every walk does, in as many of so many
/// cases as there are fresh entries: one in 25 if they are forty. That takes as long as some forty bounds save by it.
const PATIENCE: u64 = if cfg!(any(shuttle, small_leaves, miri)) { 8 } else { 1024 };

/// Fresh records that a bound reads; one that would read more brings them into order at once. By the draw alone a bound that is asked
/// for again and again might never do so.
pub(super) const MOST_READ: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 32 };

/// The same of who asks for the first entry, or the last, of fresh records and of sorted ones: for these there is no draw.
const MOST_READ_AT_END: usize = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 12 };

/// Bytes of a key that nobody knows, most likely.
const FEW_BYTES: usize = 8;

/// Sorted entries before the end of a leaf at which a walk asks for the first lines of the next one.
const NEAR_END: usize = 2 * AHEAD.2;

/// A walk in one direction.
#[derive(Debug)]
struct Walk<'g, const UP: bool> {
    leaf: Leaf<'g>,
    sorted: &'g [AtomicU32],
    /// The sorted numbers of the leaf that is most likely the next one, and that leaf.
    ahead: &'g [AtomicU32],
    next: Option<Leaf<'g>>,
    /// How many sorted numbers are before the walk, or, on the way down, are still to come.
    at: usize,
    /// How many sorted entries ahead have been asked for, and are at most.
    asked: usize,
    reach: usize,
    /// How many more are to be asked for, if the walk is as long as others were.
    budget: usize,
    /// Entries that were handed out.
    taken: usize,
    /// Bytes of the key that was met last: those of the next ones, most likely.
    key_bytes: usize,
    /// Bytes that all keys of the leaf have in common.
    common: usize,
    /// Fresh numbers that are to come, the next one last.
    fresh: Vec<Number>,
    /// The key that was met last, in a map where a key can have two records.
    last: Option<&'g [u8]>,
}

impl<'g, const UP: bool> Walk<'g, UP> {
    /// A walk from an edge on, which asks for so many records ahead at first, and at most.
    fn new<V: ?Sized + Stored>(
        pinned: &'g Pinned<'_, V>,
        edge: Bound<&[u8]>,
        (asked, reach, budget): (usize, usize, usize),
    ) -> Option<Self> {
        let map = pinned.map;
        let below = Below::bound::<UP>(edge);
        let leaf = match below {
            None if UP => map.list.first(&map.memory)?,
            None => map.list.last(&map.memory)?,
            Some(Below { edge, .. }) => pinned.leaf_at(edge)?,
        };
        let mut walk = Self {
            leaf,
            sorted: &[],
            ahead: &[],
            next: None,
            at: 0,
            asked,
            reach,
            budget,
            taken: 0,
            key_bytes: below.map_or(FEW_BYTES, |below| below.edge.len().max(1)),
            common: 0,
            fresh: Vec::new(),
            last: None,
        };
        walk.enter(pinned, leaf, below);
        Some(walk)
    }

    /// Comes into a leaf: behind the keys that are below, or in front of them on the way down; without them, with its first entry,
    /// or its last.
    fn enter<V: ?Sized + Stored>(
        &mut self,
        pinned: &'g Pinned<'_, V>,
        mut leaf: Leaf<'g>,
        below: Option<Below<'_>>,
    ) {
        let map = pinned.map;
        let mut count = leaf.fresh();
        if count > FEW_FRESH
            && let Some(settled) = pinned.settle(leaf)
        {
            leaf = settled;
            count = leaf.fresh();
        }
        (self.leaf, self.sorted, self.ahead) = (leaf, leaf.sorted_numbers(), &[]);
        let header = leaf.header();
        self.common = header.prefix_bytes();
        self.next =
            if UP { header.next() } else { header.prev() }.map(|next| map.memory.leaf(next));
        map.ask_fresh(leaf, count);
        self.at = match below {
            Some(below) => rank(map, leaf, below),
            None if UP => 0,
            None => leaf.sorted(),
        };
        self.fresh.clear();
        if count > 0 {
            let fresh = map.fresh_entries(leaf, count).into_iter().map(|entry| entry.number);
            let is_to_come = |number: &Number| {
                below.is_none_or(|below| below.has(map.record(*number).key()) != UP)
            };
            self.fresh.extend(fresh.filter(is_to_come));
            if UP {
                self.fresh.reverse();
            }
        }
        if self.left() <= NEAR_END {
            self.ask_next();
        }
        (0..self.asked).for_each(|ahead| self.ask(map, ahead));
    }

    /// How many sorted numbers are to come in this leaf.
    #[inline(always)]
    fn left(&self) -> usize {
        if UP { self.sorted.len() - self.at } else { self.at }
    }

    /// Asks for the lines of the next leaf that are needed first.
    #[cold]
    fn ask_next(&self) {
        if let Some(next) = self.next {
            next.ask_guides();
        }
    }

    /// Asks for the record that is so many sorted entries ahead, in the next leaf if need be.
    #[inline(always)]
    fn ask<V: ?Sized + Stored>(&mut self, map: &'g OrderedMap<V>, ahead: usize) {
        // Relaxed: published with the leaf.
        let place = if UP { self.at + ahead } else { self.at.wrapping_sub(1 + ahead) };
        match self.sorted.get(place) {
            Some(number) => map.record(number.load(Relaxed)).ask_many(self.key_bytes),
            None => self.ask_beyond(map, ahead),
        }
    }

    /// The same in the next leaf.
    #[cold]
    fn ask_beyond<V: ?Sized + Stored>(&mut self, map: &'g OrderedMap<V>, ahead: usize) {
        let Some(next) = self.next else { return };
        if self.ahead.is_empty() {
            self.ahead = next.sorted_numbers();
            for at in (0..AHEAD.2).step_by(LINE_NUMBERS) {
                next.ask_sorted(if UP { at } else { self.ahead.len().saturating_sub(1 + at) });
            }
        }
        let there = ahead - self.left();
        let place = if UP { there } else { self.ahead.len().wrapping_sub(1 + there) };
        if let Some(number) = self.ahead.get(place) {
            // Relaxed: as above.
            map.record(number.load(Relaxed)).ask_many(self.key_bytes);
        }
    }

    /// The next entry.
    #[inline(always)]
    fn next<V: ?Sized + Stored>(
        &mut self,
        pinned: &'g Pinned<'_, V>,
    ) -> Option<(&'g [u8], Ref<'g, V>)> {
        let map = pinned.map;
        loop {
            let place = if UP { self.at } else { self.at.wrapping_sub(1) };
            // Relaxed: as in `ask`.
            let sorted = self.sorted.get(place).map(|number| number.load(Relaxed));
            let number = match (sorted, self.fresh.last().copied()) {
                (Some(sorted), None) => sorted,
                (None, None) => {
                    if !self.go_on(pinned) {
                        return None;
                    }
                    continue;
                }
                (None, Some(fresh)) => fresh,
                (Some(sorted), Some(fresh)) => {
                    let [a, b] = [sorted, fresh].map(|at| &map.record(at).key()[self.common..]);
                    if if UP { b < a } else { b > a } { fresh } else { sorted }
                }
            };
            if sorted == Some(number) {
                if self.asked == 0 {
                    // Longer than others, or they told nothing.
                    self.budget = usize::MAX;
                }
                let more = AHEAD.1.min(self.reach - self.asked).min(self.budget);
                (self.asked..self.asked + more).for_each(|ahead| self.ask(map, ahead));
                self.asked = self.asked + more - 1;
                self.budget -= more;
                self.at = if UP { self.at + 1 } else { self.at - 1 };
                if self.left() == NEAR_END {
                    self.ask_next();
                }
            } else {
                self.fresh.pop();
            }
            let record = map.record(number);
            self.key_bytes = record.key().len().max(1);
            if let Some(value) = self.value(pinned, record) {
                self.taken += 1;
                return Some((record.key(), value));
            }
        }
    }

    /// The value of a record that a leaf named, if it is an entry and its key was not met before.
    #[inline(always)]
    fn value<V: ?Sized + Stored>(
        &mut self,
        pinned: &'g Pinned<'_, V>,
        record: Record<'g, V>,
    ) -> Option<Ref<'g, V>> {
        let state = record.state();
        if !V::MOVES {
            return (state == State::Live).then(|| Ref::new(read_value(record.word())));
        }
        if !state.is_named_entry() || self.last == Some(record.key()) {
            return None;
        }
        // Of two records of a key that take turns, the directory knows which it is.
        let value = match state {
            State::Live => Ref::new(read_value(record.word())),
            _ => pinned.get(record.key())?,
        };
        self.last = Some(record.key());
        Some(value)
    }

    /// Goes on to the leaf behind, or before. Returns false if there is none.
    #[inline(never)]
    fn go_on<V: ?Sized + Stored>(&mut self, pinned: &'g Pinned<'_, V>) -> bool {
        let (map, here) = (pinned.map, self.leaf.border());
        let border = if UP { here.high } else { here.low };
        if border == 0 {
            return false;
        }
        let bytes = map.memory.border(border);
        // A leaf has a neighbour where it has a border, and a dead one leads on.
        let Some(next) = self.next.or_else(|| map.list.first(&map.memory)) else { return false };
        let next = if UP {
            let hint = crate::list::Hint { leaf: next, second: None };
            map.list.leaf_of(&map.memory, bytes, hint)
        } else {
            map.list.leaf_before(&map.memory, bytes, next)
        };
        let there = next.border();
        // If not, a merge has put entries there that have been yielded already.
        let is_whole = border == if UP { there.low } else { there.high };
        self.enter(pinned, next, (!is_whole).then_some(Below::key(bytes)));
        true
    }
}

/// Whether of two records that a leaf got one after the other the later one comes first: it has the nearer key, or the same.
#[inline(always)]
fn comes_first<const UP: bool>(later: &[u8], earlier: &[u8]) -> bool {
    if UP { later <= earlier } else { later >= earlier }
}

/// The place of the sorted key next to a bound that has so many below, on the way up or down.
#[inline(always)]
fn place_beside<const UP: bool>(leaf: Leaf<'_>, at: usize) -> Option<usize> {
    if UP { Some(at).filter(|at| *at < leaf.sorted()) } else { at.checked_sub(1) }
}

/// How many sorted keys of a leaf are below.
fn rank<V: ?Sized + Stored>(map: &OrderedMap<V>, leaf: Leaf<'_>, below: Below<'_>) -> usize {
    let slice = slice_at(below.edge, leaf.header().prefix_bytes());
    let places = match leaf.guided() {
        Some(guided) => {
            let near = guided.near(slice);
            for at in [near.start, near.end] {
                leaf.ask_code(at);
                leaf.ask_sorted(at);
            }
            if near.len() > 2 * LINE_NUMBERS {
                // Keys of one slice, which may be any of these: no code tells which.
                near.step_by(LINE_NUMBERS).skip(1).for_each(|at| leaf.ask_sorted(at));
            }
            guided.around(slice)
        }
        None => 0..leaf.sorted(),
    };
    let record = |at: usize| map.record(leaf.sorted_at(at));
    let bytes = below.edge.len().max(1);
    let ask = |places: &[usize]| places.iter().for_each(|at| record(*at).ask_key(bytes));
    let end = places.end;
    list::rank(places, None, ask, |at| Some(below.has(record(at).key()))).unwrap_or(end)
}

impl<V: ?Sized + Stored> Pinned<'_, V> {
    /// The leaf of a key, with the lines asked for that a walk needs first; `None` in a map that never had an entry.
    fn leaf_at(&self, key: &[u8]) -> Option<Leaf<'_>> {
        let map = self.map;
        let hint = map.hint(key, map.list.table.probe(key, &self.guard))?;
        hint.leaf.ask_guides();
        Some(map.list.leaf_of(&map.memory, key, hint))
    }

    /// The entry next to a bound, on the way up or down.
    fn beside<const UP: bool>(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        let found = self.beside_quickly::<UP>(Below::bound::<UP>(bound));
        let found = match found {
            None => Walk::<UP>::new(self, bound, (1, 1, 0))?.next(self)?,
            Some(record) => (record.key(), Ref::new(read_value(record.word()))),
        };
        Some((Key::long(found.0), found.1))
    }

    /// The record of that entry, if it is in the leaf where the bound belongs and nobody is at work on it: of the sorted records the
    /// next one, or of the fresh ones that which comes before it. Of many fresh ones few are read.
    #[inline]
    fn beside_quickly<const UP: bool>(&self, below: Option<Below<'_>>) -> Option<Record<'_, V>> {
        let map = self.map;
        let leaf = match below {
            Some(below) => self.leaf_at(below.edge)?,
            None if UP => map.list.first(&map.memory)?,
            None => map.list.last(&map.memory)?,
        };
        let count = leaf.fresh();
        if let Some(below) = below
            && count > FEW_FRESH
            && map.hash(below.edge) % PATIENCE < count as u64
        {
            return None;
        }
        leaf.ask_fresh(count);
        let header = leaf.header();
        let (mut least, mut most) = (header.low_slice, header.high_slice);
        let (at, bytes) = match below {
            Some(below) => {
                let slice = slice_at(below.edge, header.prefix_bytes());
                *(if UP { &mut least } else { &mut most }) = slice;
                (rank(map, leaf, below), below.edge.len().max(1))
            }
            None => (self.past_gone::<UP>(leaf)?, FEW_BYTES),
        };
        let place = place_beside::<UP>(leaf, at);
        let sorted = place.map(|at| map.record(leaf.sorted_at(at)));
        if let Some(record) = sorted {
            record.ask(bytes);
        }
        // What the leaf says of both mostly tells that no fresh one comes before the sorted one, unread.
        if let (Some(guided), Some(at)) = (leaf.guided(), place) {
            let sorted = guided.slices(at);
            if UP { most = sorted.1 } else { least = sorted.0 }
        }
        let places = leaf.fresh_between(count, (least, most));
        if places.len() > if below.is_some() { MOST_READ } else { MOST_READ_AT_END } {
            return None;
        }
        let fresh = places.iter().map(|at| map.record(leaf.fresh_at(*at)));
        fresh.clone().for_each(|record| record.ask(bytes));
        let is_beside = |record: &Record<'_, V>| {
            record.is_named_entry() && below.is_none_or(|below| below.has(record.key()) != UP)
        };
        let fresh = fresh.filter(is_beside).reduce(|first, later| {
            if comes_first::<UP>(later.key(), first.key()) { later } else { first }
        });
        let record = match (sorted, fresh) {
            (Some(sorted), Some(fresh)) if comes_first::<UP>(fresh.key(), sorted.key()) => fresh,
            (Some(record), _) | (None, Some(record)) => record,
            (None, None) => return None,
        };
        (record.state() == State::Live).then_some(record)
    }

    /// How many sorted keys of the first leaf, or the last, are before the first one that is there; on the way down, up to the last one. `None`
    /// if that is far from the end: a queue leaves many behind.
    #[inline(always)]
    fn past_gone<const UP: bool>(&self, leaf: Leaf<'_>) -> Option<usize> {
        let mut at = if UP { 0 } else { leaf.sorted() };
        for _ in 0..MOST_READ_AT_END {
            let place = place_beside::<UP>(leaf, at);
            if place.is_none_or(|at| self.map.record(leaf.sorted_at(at)).is_named_entry()) {
                return Some(at);
            }
            at = if UP { at + 1 } else { at - 1 };
        }
        None
    }

    /// The first entry from a bound on.
    pub(super) fn first_from(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.beside::<true>(bound)
    }

    /// The last entry up to a bound.
    pub(super) fn last_up_to(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.beside::<false>(bound)
    }

    /// Brings the fresh entries of a leaf into order for all, if nobody else is at work there and there is memory. Returns
    /// the leaf that has them.
    #[cold]
    fn settle<'g>(&'g self, leaf: Leaf<'g>) -> Option<Leaf<'g>> {
        let map = self.map;
        let locked = leaf.header().version.try_lock()?;
        if locked.is_dead() {
            return None;
        }
        let mut garbage = Vec::new();
        let renewed = map.renew(self, leaf, locked, &mut garbage);
        map.shards.leave(&map.left, self.thread, &self.guard, garbage);
        renewed.ok()?;
        let next = map.memory.leaf(leaf.header().next()?);
        // Not one of two, of which another would have to be found, and not one that was replaced at once.
        let same =
            next.border().low == leaf.border().low && next.border().high == leaf.border().high;
        same.then_some(next)
    }
}

/// Entries between two bounds, in key order, from both ends; see [`Pinned::range`].
pub struct Range<'g, V: ?Sized + Stored> {
    pinned: &'g Pinned<'g, V>,
    front: Option<Walk<'g, true>>,
    back: Option<Box<Walk<'g, false>>>,
    start: Edge,
    end: Edge,
    /// What was yielded last at each end.
    first: Option<&'g [u8]>,
    last: Option<&'g [u8]>,
    ended: bool,
}

impl<'g, V: ?Sized + Stored> Range<'g, V> {
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Edge, end: Edge, ended: bool) -> Self {
        Self { pinned, front: None, back: None, start, end, first: None, last: None, ended }
    }

    /// How many records a walk asks for at first, at most at a time, and then: as many as it is expected to take, if that is known.
    fn ahead(&self) -> (usize, usize, usize) {
        match self.pinned.map.lengths.expected() {
            0 => (AHEAD.0, AHEAD.2, usize::MAX),
            expected => {
                let first = expected.min(AHEAD.2);
                (first, AHEAD.2, expected - first)
            }
        }
    }
}

impl<V: ?Sized + Stored> Drop for Range<'_, V> {
    fn drop(&mut self) {
        let front = self.front.as_ref().map_or(0, |walk| walk.taken);
        let back = self.back.as_ref().map_or(0, |walk| walk.taken);
        self.pinned.map.lengths.note(front.max(back));
    }
}

impl<V: ?Sized + Stored> core::fmt::Debug for Range<'_, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Range")
            .field("start", &self.start)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl<'g, V: ?Sized + Stored> Iterator for Range<'g, V> {
    type Item = (Key<'g>, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.front.is_none() {
            self.front = Walk::new(self.pinned, self.start.bound(), self.ahead());
        }
        let next = self.front.as_mut().and_then(|front| front.next(self.pinned));
        if let Some((key, value)) = next
            && !self.end.ends_before(key)
            && self.last.is_none_or(|last| key < last)
        {
            self.first = Some(key);
            return Some((Key::long(key), value));
        }
        self.ended = true;
        None
    }
}

impl<V: ?Sized + Stored> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.back.is_none() {
            self.back = Walk::new(self.pinned, self.end.bound(), self.ahead()).map(Box::new);
        }
        let next = self.back.as_mut().and_then(|back| back.next(self.pinned));
        if let Some((key, value)) = next
            && !self.start.starts_after(key)
            && self.first.is_none_or(|first| key > first)
        {
            self.last = Some(key);
            return Some((Key::long(key), value));
        }
        self.ended = true;
        None
    }
}

impl<V: ?Sized + Stored> FusedIterator for Range<'_, V> {}
