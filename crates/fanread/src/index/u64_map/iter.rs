//! Walking over the entries in order, from both ends.
//!
//! A walk goes along the keys of a run, sorted and fresh ones together, and from there to the run behind. It asks for the lines
//! of the values of some next keys before it looks at the first; a key without a value is passed over.

use core::ops::Bound;

use smallvec::SmallVec;

use super::raw::read_value;
use super::run::{FEW_FRESH, Run};
use super::table::{Asked, MOST_ASKED};
use super::{Pinned, Ref};
use crate::mem::word::Word;

/// Keys of a piece at first, and twice as many in each piece after it: short walks are many.
const AT_FIRST: usize = 6;

/// A walk in one direction.
#[derive(Debug)]
struct Walk<'g, const UP: bool> {
    /// Where the next run is entered; `None` at the end.
    from: Option<u64>,
    run: Option<&'g Run>,
    /// How many sorted keys are before the walk, or, on the way down, behind it.
    at: usize,
    /// Fresh keys that are to come, the next one last.
    fresh: SmallVec<[u64; FEW_FRESH]>,
    /// This piece and the next one, whose lines were asked for.
    pieces: [Piece<'g>; 2],
    /// Which of them is the next one.
    next: usize,
    /// How many keys the piece after it has.
    width: usize,
    /// Which keys of this piece have values that are to come.
    ready: u32,
    values: [Word; MOST_ASKED],
}

/// Keys that are looked for together.
#[derive(Debug)]
struct Piece<'g> {
    keys: [u64; MOST_ASKED],
    asked: Asked<'g>,
}

impl Piece<'_> {
    const fn new() -> Self {
        Self { keys: [0; MOST_ASKED], asked: Asked::new() }
    }
}

impl<'g, const UP: bool> Walk<'g, UP> {
    fn new(bound: Bound<u64>, width: usize) -> Self {
        let from = match bound {
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) if UP => key.checked_add(1),
            Bound::Excluded(key) => key.checked_sub(1),
            Bound::Unbounded => Some(if UP { 0 } else { u64::MAX }),
        };
        Self {
            from,
            run: None,
            at: 0,
            fresh: SmallVec::new(),
            pieces: [const { Piece::new() }; 2],
            next: 0,
            width,
            ready: 0,
            values: [core::ptr::null_mut(); MOST_ASKED],
        }
    }

    /// The next entry.
    #[inline(always)]
    fn next<V>(&mut self, pinned: &'g Pinned<'g, V>) -> Option<(u64, Word)> {
        if self.ready == 0 {
            self.fill(pinned);
            if self.ready == 0 {
                return None;
            }
        }
        let at = self.ready.trailing_zeros() as usize;
        self.ready &= self.ready - 1;
        Some((self.pieces[1 - self.next].keys[at], self.values[at]))
    }

    /// Finds the values of the next piece, and asks for those of the one after it; leaves nothing ready at the end.
    #[inline(never)]
    fn fill<V>(&mut self, pinned: &'g Pinned<'g, V>) {
        while self.ready == 0 {
            if self.pieces[self.next].asked.len() == 0 {
                self.ask(pinned);
                if self.pieces[self.next].asked.len() == 0 {
                    return;
                }
            }
            self.next = 1 - self.next;
            self.pieces[self.next].asked.clear();
            if self.width > 1 {
                self.width = (2 * self.width).min(MOST_ASKED);
                self.ask(pinned);
            } else {
                // One entry was wanted, and it is not there if this comes again.
                self.width = AT_FIRST;
            }
            let (values, mut ready) = (&mut self.values, 0);
            self.pieces[1 - self.next].asked.resolve(|i, value| {
                if let Some(value) = value {
                    values[i] = value;
                    ready |= 1 << i;
                }
            });
            self.ready = ready;
        }
    }

    /// Asks for the lines of the next keys.
    #[inline(always)]
    fn ask<V>(&mut self, pinned: &'g Pinned<'g, V>) {
        let Some(names) = pinned.map.table.names(&pinned.guard) else { return };
        for i in 0..self.width {
            let Some(key) = self.next_key(pinned) else { return };
            let hash = pinned.map.spelling.hash(key);
            let piece = &mut self.pieces[self.next];
            piece.keys[i] = key;
            piece.asked.ask(names.segment(hash, &pinned.guard), hash);
        }
    }

    /// The next key of the order.
    #[inline(always)]
    fn next_key<V>(&mut self, pinned: &'g Pinned<'g, V>) -> Option<u64> {
        loop {
            let Some(run) = self.run else {
                self.run = Some(self.enter(pinned)?);
                continue;
            };
            let sorted = if UP {
                (self.at < run.sorted()).then(|| run.key(self.at))
            } else {
                self.at.checked_sub(1).map(|at| run.key(at))
            };
            let fresh = self.fresh.last().copied();
            let is_before = |a: u64, b: u64| if UP { a < b } else { a > b };
            let next = match (sorted, fresh) {
                (Some(sorted), Some(fresh)) if is_before(fresh, sorted) => fresh,
                (Some(sorted), _) => sorted,
                (None, Some(fresh)) => fresh,
                (None, None) => {
                    self.run = None;
                    self.from =
                        if UP { run.last().checked_add(1) } else { run.low().checked_sub(1) };
                    continue;
                }
            };
            if sorted == Some(next) {
                self.at = if UP { self.at + 1 } else { self.at - 1 };
            }
            if fresh == Some(next) {
                self.fresh.pop();
            }
            return Some(next);
        }
    }

    /// Goes to the run where the walk goes on.
    fn enter<V>(&mut self, pinned: &'g Pinned<'g, V>) -> Option<&'g Run> {
        let from = self.from?;
        let (order, guard) = (&pinned.map.order, &pinned.guard);
        let mut run = order.run(from, guard)?;
        run.ask(from);
        if run.len() - run.sorted() > FEW_FRESH {
            pinned.settle(run);
            run = order.run(from, guard)?;
        }
        let is_ahead = |key: &u64| if UP { *key >= from } else { *key <= from };
        self.fresh.clear();
        self.fresh.extend(run.fresh().filter(is_ahead));
        self.fresh.sort_unstable();
        if UP {
            self.fresh.reverse();
        }
        self.fresh.dedup();
        self.at = match from.checked_add(1) {
            _ if UP => run.rank(from),
            Some(above) => run.rank(above),
            None => run.sorted(),
        };
        Some(run)
    }
}

impl<V> Pinned<'_, V> {
    /// Brings the fresh keys of a run into order for all, if nobody else is at work there and there is memory.
    #[cold]
    fn settle(&self, run: &Run) {
        let Some(locked) = run.version.try_lock() else { return };
        if locked.is_dead() {
            return;
        }
        let mut garbage = Vec::new();
        let _ = self.map.order.renew(run, locked, &self.guard, |_| true, &mut garbage);
        let mut shard = self.map.shards.lock(self.thread);
        // What is free by now is left to a writer: values are dropped with it.
        for item in garbage {
            shard.limbo.retire(item, &self.guard);
        }
    }
}

/// Entries between two bounds, in key order, from both ends; see [`Pinned::range`].
#[derive(Debug)]
pub struct Range<'g, V> {
    pinned: &'g Pinned<'g, V>,
    front: Walk<'g, true>,
    /// Made when it is first needed, which is seldom.
    back: Option<Box<Walk<'g, false>>>,
    width: usize,
    /// What is still to come lies between these.
    start: Bound<u64>,
    end: Bound<u64>,
}

impl<'g, V> Range<'g, V> {
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>) -> Self {
        Self::of_width(pinned, start, end, AT_FIRST)
    }

    /// A range of which one entry is wanted.
    pub(super) fn of_one(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>) -> Self {
        Self::of_width(pinned, start, end, 1)
    }

    fn of_width(
        pinned: &'g Pinned<'_, V>,
        start: Bound<u64>,
        end: Bound<u64>,
        width: usize,
    ) -> Self {
        Self { pinned, front: Walk::new(start, width), back: None, width, start, end }
    }

    /// Whether a key lies between the bounds.
    #[inline]
    fn is_inside(&self, key: u64) -> bool {
        let from = match self.start {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        };
        from && match self.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        }
    }
}

impl<'g, V> Iterator for Range<'g, V> {
    type Item = (u64, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (key, word) = self.front.next(self.pinned)?;
        if !self.is_inside(key) {
            return None;
        }
        self.start = Bound::Excluded(key);
        Some((key, Ref::new(read_value(word))))
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (end, width) = (self.end, self.width);
        let back = self.back.get_or_insert_with(|| Box::new(Walk::new(end, width)));
        let (key, word) = back.next(self.pinned)?;
        if !self.is_inside(key) {
            return None;
        }
        self.end = Bound::Excluded(key);
        Some((key, Ref::new(read_value(word))))
    }
}
