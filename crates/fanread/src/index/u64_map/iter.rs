//! Walking over the entries in order, from both ends.
//!
//! A walk goes along the keys of a run, sorted and fresh ones together, and from there to the run behind. It takes keys in
//! pieces, and asks for the lines of the values of some pieces before it looks at the first:
//!
//! ```text
//! piece    0                   1, 2              3, 4, 5             6
//!          is handed out       were looked at,   their lines are     its keys
//!                              second lines      on their way        are hashed
//!                              are on their way
//! ```
//!
//! A key without a value is passed over. Which piece is the last one a walk is not told, but most are as long as others before it:
//! up to there it asks, and behind that only when it comes there. If those were asked for one entry only, the first one is found as
//! a bound is, and the walk begins behind it.

use core::iter::FusedIterator;
use core::ops::Bound;
use core::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use super::raw::read_value;
use super::row::{ALL, ROW, Row, Told};
use super::run::{FEW_FRESH, Run};
use super::table::Names;
use super::{Pinned, Ref};
use crate::arch::{Avx512, Eights, prefetch};
use crate::batch::lengths::Lone;
use crate::mem::word::Word;
use crate::sync::epoch::Guard;
use crate::sync::shim::{self, AtomicU64};

/// Pieces that are on their way at most, with the one that is handed out next.
///
/// Fewer leave a long walk waiting, more fetch for nothing at its end.
const AHEAD: usize = 6;

/// Pieces that are asked for at first: a walk that has just begun may be a short one.
const FIRST: usize = 4;

/// Of these, how many are looked at before the one that is handed out next, so that second lines have time to come: while so many
/// others are on their way, that is longer than a piece takes.
const LOOKED: usize = 2;

/// Pieces of [`ROW`] entries of a walk that is taken for one without an end: what it asks for in vain is little beside what it takes.
pub(super) const LONG: u32 = 32;

/// Places of pieces: a power of two.
const RING: usize = (AHEAD + 1).next_power_of_two();

/// Keys that are looked for together.
#[derive(Clone, Copy, Debug)]
struct Piece<'g> {
    keys: [u64; ROW],
    row: Row<'g>,
    values: [Word; ROW],
    /// Which keys have values, and of which that is not known yet.
    ready: u64,
    late: u64,
}

impl<'g> Piece<'g> {
    /// One of no keys.
    #[inline(always)]
    fn new(names: &'g Names, guard: &'g Guard) -> Self {
        let (row, values) = (Row::new(names, guard), [core::ptr::null_mut(); ROW]);
        Self { keys: [0; ROW], row, values, ready: 0, late: 0 }
    }

    /// Looks at the lines that were asked for, and asks for the next ones where they do not tell.
    #[inline(always)]
    fn look(&mut self, kernel: Option<Avx512>) {
        let Told { found, late } = self.row.look(kernel, &mut self.values);
        (self.ready, self.late) = (found, late);
    }

    /// Looks at all lines that are left.
    #[inline(always)]
    fn finish(&mut self, names: &Names, guard: &Guard) {
        while self.late != 0 {
            let i = self.late.trailing_zeros() as usize % ROW;
            self.late &= self.late - 1;
            let hash = self.row.hash(i);
            if let Some(word) = names.segment(hash, guard).find_late(hash) {
                self.values[i] = word;
                self.ready |= 1 << i;
            }
        }
    }
}

/// Entries that are handed out next.
#[derive(Debug)]
struct Found {
    keys: [u64; ROW],
    values: [Word; ROW],
    /// Which of them come next, and how many there are.
    at: usize,
    len: usize,
}

impl Found {
    const NONE: Self = Self { keys: [0; ROW], values: [core::ptr::null_mut(); ROW], at: 0, len: 0 };

    /// Takes those of a piece.
    #[inline(always)]
    fn take(&mut self, piece: &Piece<'_>, kernel: Option<Avx512>) {
        self.at = 0;
        if piece.ready == ALL {
            self.len = ROW;
            if let Some(kernel) = kernel
                && let (Some(from), Some(to)) = (piece.keys.as_array(), self.keys.as_mut_array())
                && let (Some(words), Some(values)) =
                    (piece.values.as_array(), self.values.as_mut_array())
            {
                kernel.copy(from, to);
                kernel.copy(words, values);
            } else {
                (self.keys, self.values) = (piece.keys, piece.values);
            }
        } else {
            self.take_some(piece);
        }
    }

    /// The same where some keys have no value, or there are fewer.
    #[inline(never)]
    fn take_some(&mut self, piece: &Piece<'_>) {
        self.len = 0;
        for i in (0..ROW).filter(|i| piece.ready >> i & 1 != 0) {
            (self.keys[self.len], self.values[self.len]) = (piece.keys[i], piece.values[i]);
            self.len += 1;
        }
    }
}

/// Where a walk is in the order of the keys.
#[derive(Debug)]
struct Keys<'g, const UP: bool> {
    /// Where the next run is entered; `None` at the end.
    from: Option<u64>,
    /// Where the walk ends.
    until: u64,
    run: Option<&'g Run>,
    /// Its sorted keys when it was entered.
    words: &'g [AtomicU64],
    /// Whether the lines of the run behind it were asked for.
    is_next_asked: bool,
    /// How many sorted keys are before the walk, or, on the way down, behind it.
    at: usize,
    /// Fresh keys that are to come, the next one last.
    fresh: SmallVec<[u64; FEW_FRESH]>,
}

/// A walk in one direction.
#[derive(Debug)]
struct Walk<'g, const UP: bool> {
    keys: Keys<'g, UP>,
    /// Pieces by their numbers, made when a place is first used: those before `looked` were looked at, those before `asked` asked
    /// for, and those before `taken` have their keys.
    pieces: SmallVec<[Piece<'g>; RING]>,
    taken: usize,
    asked: usize,
    looked: usize,
    /// The piece that is handed out next, and what is left of the one before.
    next: usize,
    found: Found,
    /// The last key that was handed out before those.
    last: Option<u64>,
}

impl<'g, const UP: bool> Walk<'g, UP> {
    /// A walk between two keys, both included.
    fn new(interval: Option<(u64, u64)>) -> Self {
        Self {
            keys: Keys::new(interval),
            pieces: SmallVec::new(),
            taken: 0,
            asked: 0,
            looked: 0,
            next: 0,
            found: Found::NONE,
            last: None,
        }
    }

    /// The next entry.
    #[inline(always)]
    fn next<V>(&mut self, pinned: &'g Pinned<'g, V>) -> Option<(u64, Word)> {
        if self.found.at == self.found.len {
            self.fill(pinned);
            if self.found.len == 0 {
                return None;
            }
        }
        let at = self.found.at % ROW;
        self.found.at += 1;
        Some((self.found.keys[at], self.found.values[at]))
    }

    /// How many entries were handed out, nearly: whole pieces, less what is left of the last one.
    #[inline(always)]
    fn length(&self) -> usize {
        self.next * ROW - (self.found.len - self.found.at)
    }

    /// The key of the entry that was handed out last.
    fn last(&self) -> Option<u64> {
        let at = self.found.at.checked_sub(1);
        at.map_or(self.last, |at| Some(self.found.keys[at % ROW]))
    }

    /// Goes on to the next piece that has an entry; leaves nothing ready at the end.
    #[inline(never)]
    fn fill<V>(&mut self, pinned: &'g Pinned<'g, V>) {
        self.last = self.last();
        (self.found.at, self.found.len) = (0, 0);
        let (map, guard) = (pinned.map, &pinned.guard);
        let Some(names) = map.table.names(guard) else { return };
        let kernel = map.kernel;
        let expected = map.lengths.expected().div_ceil(ROW);
        while self.found.len == 0 {
            let is_first = self.next == 0;
            // A walk that begins asks for more once it has looked at the first pieces, while second lines are on their way.
            let mut ahead = if is_first { FIRST } else { AHEAD };
            loop {
                let before = self.asked;
                let is_expected = self.next < expected;
                let up_to = |piece: usize| if is_expected { piece.min(expected) } else { piece };
                let until = self.next + ahead;
                self.take(pinned, names, up_to(until + 1));
                let until = up_to(until).min(self.taken);
                while self.asked < until {
                    self.pieces[self.asked % RING].row.ask(names, guard);
                    self.asked += 1;
                }
                if self.next == self.asked {
                    return;
                }
                // The piece behind the next one, too, if its lines have had time to come.
                let have_come = if ahead == FIRST { self.asked } else { before };
                let looked = have_come.min(self.next + 1 + LOOKED);
                while self.looked <= self.next || self.looked < looked {
                    self.pieces[self.looked % RING].look(kernel);
                    self.looked += 1;
                }
                if ahead == AHEAD {
                    break;
                }
                ahead = AHEAD;
            }
            let piece = &mut self.pieces[self.next % RING];
            piece.finish(names, guard);
            self.found.take(piece, kernel);
            self.next += 1;
        }
    }

    /// Takes the keys of pieces before one.
    #[inline(always)]
    fn take<V>(&mut self, pinned: &'g Pinned<'g, V>, names: &'g Names, until: usize) {
        let (map, guard) = (pinned.map, &pinned.guard);
        while self.taken < until {
            if self.pieces.len() == self.taken && self.taken < RING {
                self.pieces.push(Piece::new(names, guard));
            }
            let piece = &mut self.pieces[self.taken % RING];
            let len = self.keys.next(pinned, &mut piece.keys);
            if len == 0 {
                break;
            }
            piece.row.take((&map.spelling, map.kernel), &piece.keys[..len]);
            self.taken += 1;
            self.keys.ask_for_next_run(pinned);
        }
    }
}

impl<'g, const UP: bool> Keys<'g, UP> {
    /// Those between two keys, both included.
    fn new(interval: Option<(u64, u64)>) -> Self {
        let (first, last) = interval.unwrap_or_default();
        let (from, until) = if UP { (first, last) } else { (last, first) };
        Self {
            from: interval.map(|_| from),
            until,
            run: None,
            words: &[],
            at: 0,
            is_next_asked: false,
            fresh: SmallVec::new(),
        }
    }

    /// Takes the next keys of the order; returns how many.
    #[inline(always)]
    fn next<V>(&mut self, pinned: &'g Pinned<'g, V>, keys: &mut [u64; ROW]) -> usize {
        let len = if self.take_all(pinned.map.kernel, keys) {
            ROW
        } else {
            self.keys_of_runs(pinned, keys)
        };
        if len > 0 && self.is_outside(keys[len - 1]) {
            (self.run, self.from) = (None, None);
            return keys[..len].partition_point(|key| !self.is_outside(*key));
        }
        len
    }

    /// Takes as many keys as there is room for, if the run has so many sorted ones.
    #[inline(always)]
    fn take_all(&mut self, kernel: Option<Avx512>, keys: &mut [u64; ROW]) -> bool {
        if self.run.is_none() {
            return false;
        }
        let words = self.words;
        let words = if UP {
            words.get(self.at..self.at + ROW)
        } else {
            self.at.checked_sub(ROW).and_then(|from| words.get(from..self.at))
        };
        let Some(words) = words else { return false };
        // The line of keys after the next ones.
        let (size, behind) = (AHEAD * ROW, words.as_ptr());
        prefetch(if UP { behind.wrapping_add(size) } else { behind.wrapping_sub(size) });
        // Relaxed, here and below: sorted keys were published with the run.
        let last = words[if UP { ROW - 1 } else { 0 }].load(Relaxed);
        match (kernel, words.as_array(), keys.as_mut_array()) {
            (Some(kernel), Some(words), Some(keys)) if UP => {
                kernel.copy_line(shim::line(words), keys);
            }
            _ => {
                for (i, word) in words.iter().enumerate() {
                    keys[if UP { i } else { ROW - 1 - i }] = word.load(Relaxed);
                }
            }
        }
        self.at = if UP { self.at + ROW } else { self.at - ROW };
        if self.fresh.last().is_some_and(|fresh| if UP { *fresh <= last } else { *fresh >= last }) {
            self.put_fresh_between(keys);
        }
        true
    }

    /// Puts fresh keys between sorted ones, of which the last ones are left for the next piece.
    #[inline(never)]
    fn put_fresh_between(&mut self, keys: &mut [u64; ROW]) {
        let is_before = |a: u64, b: u64| if UP { a < b } else { a > b };
        while let Some(fresh) = self.fresh.last().copied()
            && !is_before(keys[ROW - 1], fresh)
        {
            self.fresh.pop();
            let place: usize = keys.iter().map(|key| usize::from(is_before(*key, fresh))).sum();
            // A key may be there twice.
            if keys[place % ROW] == fresh {
                continue;
            }
            // No branch on where it goes. What is pushed out is a sorted key: fresh ones before it are smaller than this one.
            let mut before = fresh;
            for (i, key) in keys.iter_mut().enumerate() {
                let here = *key;
                *key = if i < place { here } else { before };
                before = if i < place { before } else { here };
            }
            self.at = if UP { self.at - 1 } else { self.at + 1 };
        }
    }

    /// Takes the next keys, from one run or more.
    #[inline(never)]
    fn keys_of_runs<V>(&mut self, pinned: &'g Pinned<'g, V>, keys: &mut [u64; ROW]) -> usize {
        let mut len = 0;
        while len < ROW {
            let Some(run) = self.run else {
                self.run = self.enter(pinned);
                if self.run.is_none() {
                    break;
                }
                continue;
            };
            let more = self.merge(&mut keys[len..]);
            if more == 0 {
                self.run = None;
                self.from = self.behind(run);
            }
            len += more;
        }
        len
    }

    /// Asks for the lines of the next run when this one comes to its end.
    #[inline(always)]
    fn ask_for_next_run<V>(&mut self, pinned: &Pinned<'_, V>) {
        let Some(run) = self.run else { return };
        let left = if UP { self.words.len() - self.at } else { self.at };
        if left < AHEAD * ROW && !self.is_next_asked {
            self.is_next_asked = true;
            if let Some(from) = self.behind(run) {
                let _ = pinned.map.order.asked_far(from, &pinned.guard);
            }
        }
    }

    /// Whether a key lies behind the end.
    #[inline(always)]
    fn is_outside(&self, key: u64) -> bool {
        if UP { key > self.until } else { key < self.until }
    }

    /// Where the run behind a run is entered, if that is not outside.
    fn behind(&self, run: &Run) -> Option<u64> {
        let from = if UP { run.last().checked_add(1) } else { run.low().checked_sub(1) };
        from.filter(|from| !self.is_outside(*from))
    }

    /// Takes the next sorted and fresh keys; returns how many.
    #[inline(always)]
    fn merge(&mut self, keys: &mut [u64]) -> usize {
        let words = self.words;
        for (len, key) in keys.iter_mut().enumerate() {
            let sorted = if UP { words.get(self.at) } else { words[..self.at].last() };
            let sorted = sorted.map(|word| word.load(Relaxed));
            let fresh = self.fresh.last().copied();
            *key = match (sorted, fresh) {
                (Some(sorted), Some(fresh)) if UP => sorted.min(fresh),
                (Some(sorted), Some(fresh)) => sorted.max(fresh),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return len,
            };
            if sorted == Some(*key) {
                self.at = if UP { self.at + 1 } else { self.at - 1 };
            }
            if fresh == Some(*key) {
                self.fresh.pop();
            }
        }
        keys.len()
    }

    /// Goes to the run where the walk goes on.
    fn enter<V>(&mut self, pinned: &'g Pinned<'g, V>) -> Option<&'g Run> {
        let from = self.from?;
        let (mut run, mut guess) = pinned.map.order.asked_far(from, &pinned.guard)?;
        run.ask_behind::<UP>(guess, AHEAD);
        if run.is_to_be_settled() {
            pinned.settle(run);
            (run, guess) = pinned.map.order.asked(from, &pinned.guard)?;
        }
        let is_ahead = |key: &u64| if UP { *key >= from } else { *key <= from };
        self.fresh.clear();
        let (words, fresh) = run.parts();
        // Relaxed: keys were published with the run, or by its length.
        self.fresh.extend(fresh.iter().map(|word| word.load(Relaxed)).filter(is_ahead));
        if !self.fresh.is_empty() {
            self.fresh.sort_unstable();
            if UP {
                self.fresh.reverse();
            }
            self.fresh.dedup();
        }
        (self.words, self.at) = (words, Run::split::<UP>(words, from, guess, pinned.map.kernel));
        self.is_next_asked = false;
        Some(run)
    }
}

impl<V> Pinned<'_, V> {
    /// Brings the fresh keys of a run into order for all, if nobody else is at work there and there is memory.
    #[cold]
    pub(super) fn settle(&self, run: &Run) {
        let Some(locked) = run.version.try_lock() else { return };
        if locked.is_dead() {
            return;
        }
        let mut garbage = Vec::new();
        let _ = self.map.order.settle(run, locked, &self.guard, &mut garbage);
        self.map.shards.leave(&self.map.left, self.thread, &self.guard, garbage);
    }
}

/// The first and the last key between two bounds; `None` if there are none.
fn interval(start: Bound<u64>, end: Bound<u64>) -> Option<(u64, u64)> {
    let first = match start {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let last = match end {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (first <= last).then_some((first, last))
}

/// Entries between two bounds, in key order, from both ends; see [`Pinned::range`].
#[derive(Debug)]
pub struct Range<'g, V> {
    pinned: &'g Pinned<'g, V>,
    front: Walk<'g, true>,
    /// Made when it is first needed, which is seldom.
    back: Option<Box<Walk<'g, false>>>,
    /// Where the walk from the back is to go.
    interval: Option<(u64, u64)>,
    /// The last key from the back: the ends do not go past each other.
    from_back: Option<u64>,
    lone: Lone,
    ended: bool,
}

impl<'g, V> Range<'g, V> {
    #[inline]
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>) -> Self {
        Self::of(pinned, start, end, Lone::new(pinned.map.lengths.expected()))
    }

    /// One that finds no entry as a bound is found.
    pub(super) fn by_walks(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>) -> Self {
        Self::of(pinned, start, end, Lone::new(0))
    }

    #[inline]
    fn of(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>, lone: Lone) -> Self {
        let interval = interval(start, end);
        let front = Walk::new(interval);
        Self { pinned, front, back: None, interval, from_back: None, lone, ended: false }
    }

    /// How many keys without an entry were before the first one, nearly: whole pieces, and one.
    pub(super) fn passed(&self) -> usize {
        let pieces = self.back.as_ref().map_or(self.front.next, |back| back.next);
        pieces.saturating_sub(1) * ROW + 1
    }

    /// Finds the first entry, or the last one, as a bound is found. A walk from there goes on behind it.
    #[inline(never)]
    fn find_lone<const UP: bool>(&mut self) -> Option<(u64, Ref<'g, V>)> {
        let (first, last) = self.interval?;
        let found = self.pinned.nearest::<UP>(if UP { first } else { last });
        let found = found.filter(|(key, _)| (first..=last).contains(key));
        let key = found.as_ref().map(|(key, _)| *key);
        // Without an entry nothing is left.
        let rest = key.and_then(|key| if UP { key.checked_add(1) } else { key.checked_sub(1) });
        let rest = rest.filter(|rest| (first..=last).contains(rest));
        if UP {
            (self.front.keys.from, self.front.last) = (rest, key);
        } else {
            (self.interval, self.from_back) = (rest.map(|rest| (first, rest)), key);
        }
        self.ended = found.is_none();
        found
    }
}

impl<V> Drop for Range<'_, V> {
    #[inline]
    fn drop(&mut self) {
        let back = self.back.as_ref().map_or(0, |back| back.length());
        self.pinned.map.lengths.note(self.lone.length(self.front.length().max(back)));
    }
}

impl<'g, V> Iterator for Range<'g, V> {
    type Item = (u64, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.lone.is_next() {
            return self.find_lone::<true>();
        }
        let back = self.from_back;
        let is_left = |key: u64| back.is_none_or(|back| key < back);
        let next = self.front.next(self.pinned).filter(|(key, _)| is_left(*key));
        let Some((key, word)) = next else {
            self.ended = true;
            return None;
        };
        Some((key, Ref::new(read_value(word))))
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.lone.is_next() {
            return self.find_lone::<false>();
        }
        let (interval, front) = (self.interval, self.front.last());
        let is_left = |key: u64| front.is_none_or(|front| key > front);
        let back = self.back.get_or_insert_with(|| Box::new(Walk::new(interval)));
        let next = back.next(self.pinned).filter(|(key, _)| is_left(*key));
        let Some((key, word)) = next else {
            self.ended = true;
            return None;
        };
        self.from_back = Some(key);
        Some((key, Ref::new(read_value(word))))
    }
}

impl<V> FusedIterator for Range<'_, V> {}
