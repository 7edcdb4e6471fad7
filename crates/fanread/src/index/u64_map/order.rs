//! The order of the keys: a list of runs, found by three steps of binary search.
//!
//! ```text
//! top     first key of each chunk            a few hundred, in L1 and L2
//! chunk   first key of each group of runs    up to 16 groups, in L2
//!         first key of each run              up to 16 runs a group; all lines of a group are asked for at once
//! run     some 300 keys                      see `run.rs`
//! ```
//!
//! The order has every key of the map, and some that are no longer in it: the table is the truth, and who walks along the order
//! asks it. So an insertion only has to leave its key at the end of a run, and a removal nothing at all, until half of a
//! run's keys are gone.
//!
//! Tops and chunks never change but for the pointers in them; more or fewer runs make a new chunk.
//!
//! # Invariants
//!
//! * **O1** The intervals of the runs follow each other without a gap, from 0 to the largest number.
//! * **O2** A run that was replaced is dead before another key is added to what replaces it.

use super::raw::{self, Garbage, Heap};
use super::run::{Hint, MOST_WORDS, Run};
use crate::arch::prefetch;
use crate::hash::mix::stream;
use crate::mem::AllocError;
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shared::{Owned, Shared};
use crate::sync::version::Locked;

/// Runs of a chunk, at most.
const MOST_RUNS: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 256 };

/// Runs of a group.
const GROUP: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 16 };

/// The first keys of runs, the runs, and where their keys are.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The first key of each group.
    groups: [u64; MOST_RUNS / GROUP],
    lows: Box<[u64]>,
    seats: Box<[Seat]>,
}

/// A run, and where its keys are.
#[derive(Debug)]
struct Seat {
    run: Shared<Run>,
    hint: Hint,
}

/// The first keys of chunks, and the chunks.
#[derive(Debug)]
pub(super) struct Top {
    lows: Box<[u64]>,
    chunks: Box<[Shared<Chunk>]>,
}

/// Which of some ascending first keys `key` belongs to; the first of them is the least there is.
#[inline(always)]
fn index(lows: &[u64], key: u64) -> usize {
    lows.partition_point(|low| *low <= key) - 1
}

/// A run in the list: its first key, where it is, and where its keys are.
#[derive(Debug)]
struct Listed {
    low: u64,
    seat: Seat,
}

impl Listed {
    fn of(run: Owned<Run>) -> Self {
        let (low, hint) = (run.get().low(), Hint::of(run.get()));
        Self { low, seat: Seat { run: Shared::new(run), hint } }
    }
}

impl Chunk {
    fn of(list: Vec<Listed>) -> Owned<Self> {
        let (lows, seats): (Vec<_>, Vec<_>) =
            list.into_iter().map(|Listed { low, seat }| (low, seat)).unzip();
        let mut groups = [0; MOST_RUNS / GROUP];
        for (group, low) in groups.iter_mut().zip(lows.iter().step_by(GROUP)) {
            *group = *low;
        }
        Owned::new(Self { groups, lows: lows.into(), seats: seats.into() })
    }

    /// Which run has a key. The lines of its group are asked for, all at once.
    #[inline(always)]
    fn index(&self, key: u64) -> usize {
        let count = self.lows.len();
        let from = index(&self.groups[..count.div_ceil(GROUP)], key) * GROUP;
        for at in [from, from + GROUP / 2, from + GROUP - 1] {
            prefetch(self.lows.as_ptr().wrapping_add(at));
        }
        for at in (from..from + GROUP).step_by(4) {
            prefetch(self.seats.as_ptr().wrapping_add(at));
        }
        from + index(&self.lows[from..count.min(from + GROUP)], key)
    }

    fn list(&self) -> impl Iterator<Item = Listed> {
        let seats = self
            .seats
            .iter()
            .map(|Seat { run, hint }| Seat { run: run.alias(), hint: hint.copy() });
        self.lows.iter().zip(seats).map(|(low, seat)| Listed { low: *low, seat })
    }
}

/// The order of the keys; see the module.
#[derive(Debug)]
pub(super) struct Order {
    top: Shared<Top>,
    pub(super) heap: Heap,
    /// Held by who replaces runs, chunks or the top.
    structure: Lock<()>,
}

impl Order {
    pub(super) const fn new() -> Self {
        Self { top: Shared::none(), heap: Heap::new(), structure: Lock::new(()) }
    }

    /// Makes the first run.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn make_first(&self, guard: &Guard) -> Result<(), AllocError> {
        let run = Run::of(&self.heap, (0, u64::MAX), &[], (MOST_WORDS.min(16), false))?;
        let _held = self.structure.lock();
        if self.top.get(guard).is_none() {
            let chunk = Chunk::of(vec![Listed::of(run)]);
            let top = Top { lows: Box::new([0]), chunks: Box::new([Shared::new(chunk)]) };
            self.top.point_to(&Shared::new(Owned::new(top)));
        }
        Ok(())
    }

    /// Where the run of a key is; `None` in a map that never had an entry.
    #[inline(always)]
    fn place<'g>(&self, key: u64, guard: &'g Guard) -> Option<(&'g Chunk, usize)> {
        let top = self.top.get(guard)?;
        let chunk = top.chunks[index(&top.lows, key)].get(guard)?;
        Some((chunk, chunk.index(key)))
    }

    /// The run of a key; `None` in a map that never had an entry.
    #[inline(always)]
    pub(super) fn run<'g>(&self, key: u64, guard: &'g Guard) -> Option<&'g Run> {
        let (chunk, at) = self.place(key, guard)?;
        chunk.seats[at].run.get(guard)
    }

    /// The same, and what the list knows of it. The lines that an insertion needs are asked for, all at once.
    #[inline(always)]
    pub(super) fn run_to_add<'g>(&self, key: u64, guard: &'g Guard) -> Option<(&'g Run, &'g Hint)> {
        let (chunk, at) = self.place(key, guard)?;
        let Seat { run, hint } = &chunk.seats[at];
        let run = run.get(guard)?;
        hint.ask_for_end(run);
        Some((run, hint))
    }

    /// The run of a key. The lines that a search needs are asked for, all at once.
    #[inline(always)]
    pub(super) fn asked<'g>(&self, key: u64, guard: &'g Guard) -> Option<&'g Run> {
        let (chunk, at) = self.place(key, guard)?;
        let Seat { run, hint } = &chunk.seats[at];
        let run = run.get(guard)?;
        hint.ask(run, key - chunk.lows[at]);
        Some(run)
    }

    /// Adds a key, whose run is the one that the caller has found, if it is still in the list.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    #[inline]
    pub(super) fn add<'g, V>(
        &self,
        key: u64,
        mut run: Option<(&'g Run, &'g Hint)>,
        guard: &'g Guard,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        loop {
            match run {
                None => self.make_first(guard)?,
                Some((run, hint)) => {
                    let locked = run.version.lock();
                    if !locked.is_dead() {
                        if run.push(key) {
                            hint.set_end(run);
                            if run.has_many_fresh() {
                                // Without memory they stay as they are.
                                let _ = self.settle(run, locked, guard, garbage);
                            }
                            return Ok(());
                        }
                        self.renew(run, locked, guard, |_| true, garbage)?;
                    }
                }
            }
            run = self.run_to_add(key, guard);
        }
    }

    /// Brings the fresh keys of a run into order.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    #[inline(never)]
    pub(super) fn settle<V>(
        &self,
        run: &Run,
        locked: Locked<'_>,
        guard: &Guard,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        if run.extend() {
            return Ok(());
        }
        let (interval, size) = ((run.low(), run.last()), (run.capacity(), !run.ascends()));
        let new = Run::of(&self.heap, interval, &run.collect(), size)?;
        self.publish((run, None), vec![new], guard, garbage);
        // O2: marked while it is still locked.
        locked.retire();
        Ok(())
    }

    /// Replaces a run by new ones that have its keys in order, but for those that are not to be kept.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    pub(super) fn renew<'g, V>(
        &self,
        run: &'g Run,
        locked: Locked<'g>,
        guard: &'g Guard,
        mut keep: impl FnMut(u64) -> bool,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        let mut keys = run.collect();
        keys.retain(|key| keep(*key));
        let mut last = run.last();
        // A run that has become small takes the next one in, if nobody is at work there.
        let mut next = None;
        if keys.len() < MOST_WORDS / 4 && last < u64::MAX {
            next =
                self.run(last + 1, guard).and_then(|next| Some((next, next.version.try_lock()?)));
            next = next.filter(|(next, locked)| {
                !locked.is_dead() && next.len() + keys.len() <= MOST_WORDS / 2
            });
            if let Some((next, _)) = &next {
                keys.extend(next.collect());
                last = next.last();
            }
        }
        let new = self.parts(run, (run.low(), last), &keys)?;
        let old = next.as_ref().map(|(next, _)| *next);
        self.publish((run, old), new, guard, garbage);
        // O2: marked while they are still locked.
        locked.retire();
        if let Some((_, locked)) = next {
            locked.retire();
        }
        Ok(())
    }

    /// Makes runs of keys from `low` to `last`: one, or two if there are many.
    fn parts(
        &self,
        old: &Run,
        (low, last): (u64, u64),
        keys: &[u64],
    ) -> Result<Vec<Owned<Run>>, AllocError> {
        let (heap, len) = (&self.heap, keys.len());
        // Three eighths more, so a run is copied twice before it is split: runs have 2, 3 and 4 KB.
        let roomy = |len: usize| (len + len * 3 / 8).clamp(MOST_WORDS.min(16), MOST_WORDS);
        if len <= MOST_WORDS * 3 / 4 {
            let size = (roomy(len), !old.ascends());
            return Ok(vec![Run::of(heap, (low, last), keys, size)?]);
        }
        // Keys that ascend leave a run behind that gets no more of them.
        let ascends = old.ascends();
        // Others part near the middle, not in it: runs of random keys would all come to be full at the same time.
        let near = len * 3 / 8 + stream(keys[0], 0) as usize % (len / 4).max(1);
        let at = if ascends { len - (len / 8).max(1) } else { near.max(1) };
        let (left, right) = keys.split_at(at);
        let room = if ascends { at } else { roomy(at) };
        let right_run = Run::of(heap, (right[0], last), right, (roomy(len - at), !ascends))?;
        match Run::of(heap, (low, right[0] - 1), left, (room, !ascends)) {
            Ok(left_run) => Ok(vec![left_run, right_run]),
            Err(error) => {
                raw::discard(right_run, heap);
                Err(error)
            }
        }
    }

    /// Puts new runs in the place of one, or of one and the next.
    fn publish<V>(
        &self,
        (run, next): (&Run, Option<&Run>),
        new: Vec<Owned<Run>>,
        guard: &Guard,
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let _held = self.structure.lock();
        let top = self.top.get(guard).expect("there are runs");
        let at_chunk = index(&top.lows, run.low());
        let chunk = top.chunks[at_chunk].get(guard).expect("chunks are never null");
        let at = chunk.index(run.low());
        debug_assert!(chunk.seats[at].run.is(run), "a run is replaced by who holds its lock");
        if let (1, None) = (new.len(), next) {
            let new = new.into_iter().next().expect("one");
            chunk.seats[at].hint.set(new.get());
            garbage.extend(chunk.seats[at].run.replace(new).map(Garbage::Run));
            return;
        }
        // The next run may be in the next chunk.
        let mut list: Vec<_> = chunk.list().collect();
        let mut chunks = at_chunk..at_chunk + 1;
        if (next.is_some() && at + 1 == list.len() || list.len() < MOST_RUNS / 4)
            && let Some(other) = top.chunks.get(at_chunk + 1).and_then(|other| other.get(guard))
        {
            list.extend(other.list());
            chunks.end += 1;
        }
        let old = at..at + 1 + usize::from(next.is_some());
        for old in list.splice(old, new.into_iter().map(Listed::of)) {
            garbage.extend(old.seat.run.retire().map(Garbage::Run));
        }
        let mut pieces = Vec::new();
        while list.len() > MOST_RUNS {
            pieces.push(list.split_off(list.len().div_ceil(2).max(list.len() - MOST_RUNS)));
        }
        pieces.push(list);
        pieces.reverse();
        let mut new: Vec<_> =
            pieces.into_iter().map(|piece| (piece[0].low, Chunk::of(piece))).collect();
        if new.len() == 1 && chunks.len() == 1 {
            let (_, new) = new.swap_remove(0);
            garbage.extend(top.chunks[at_chunk].replace(new).map(Garbage::Chunk));
            return;
        }
        let mut list: Vec<_> =
            top.lows.iter().zip(&top.chunks).map(|(low, chunk)| (*low, chunk.alias())).collect();
        let new = new.into_iter().map(|(low, chunk)| (low, Shared::new(chunk)));
        for (_, chunk) in list.splice(chunks, new) {
            garbage.extend(chunk.retire().map(Garbage::Chunk));
        }
        let (lows, chunks): (Vec<_>, Vec<_>) = list.into_iter().unzip();
        let top = Top { lows: lows.into(), chunks: chunks.into() };
        garbage.extend(self.top.replace(Owned::new(top)).map(Garbage::Top));
    }

    /// All runs, if nobody is writing.
    pub(super) fn runs<'g>(&self, guard: &'g Guard) -> impl Iterator<Item = &'g Run> {
        let chunks = self.top.get(guard).into_iter().flat_map(|top| &top.chunks);
        let chunks = chunks.filter_map(|chunk| chunk.get(guard));
        chunks.flat_map(|chunk| &chunk.seats).filter_map(|seat| seat.run.get(guard))
    }

    /// What tops and chunks take in memory.
    pub(super) fn list_bytes(&self, guard: &Guard) -> usize {
        let Some(top) = self.top.get(guard) else { return 0 };
        let chunks = top.chunks.iter().filter_map(|chunk| chunk.get(guard));
        let lists = chunks.map(|chunk| size_of::<Chunk>() + 24 * chunk.lows.len());
        size_of::<Top>() + 16 * top.lows.len() + lists.sum::<usize>()
    }

    /// Takes everything out. Nobody uses the map any more.
    pub(super) fn take<V>(&mut self, guard: &Guard) -> Vec<Garbage<V>> {
        let Some(top) = self.top.get(guard) else { return Vec::new() };
        let mut all = Vec::new();
        for place in &top.chunks {
            for seat in place.get(guard).into_iter().flat_map(|chunk| &chunk.seats) {
                all.extend(seat.run.retire().map(Garbage::Run));
            }
            all.extend(place.retire().map(Garbage::Chunk));
        }
        all.extend(self.top.retire().map(Garbage::Top));
        self.top = Shared::none();
        all
    }
}

/// Makes the order of keys that come in ascending order.
#[derive(Debug)]
pub(super) struct Builder<'m> {
    order: &'m Order,
    keys: Vec<u64>,
    low: u64,
    chunks: Vec<(u64, Shared<Chunk>)>,
    runs: Vec<Listed>,
}

impl<'m> Builder<'m> {
    /// One for a map that has no order yet.
    pub(super) fn new(order: &'m Order) -> Self {
        Self { order, keys: Vec::new(), low: 0, chunks: Vec::new(), runs: Vec::new() }
    }

    /// Adds the next key.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn add(&mut self, key: u64) -> Result<(), AllocError> {
        if self.keys.len() == MOST_WORDS * 2 / 3 {
            self.close_run(key - 1)?;
        }
        self.keys.push(key);
        Ok(())
    }

    fn close_run(&mut self, last: u64) -> Result<(), AllocError> {
        let room = self.keys.len().max(16);
        let run = Run::of(&self.order.heap, (self.low, last), &self.keys, (room, false))?;
        self.runs.push(Listed::of(run));
        self.keys.clear();
        self.low = last.wrapping_add(1);
        if self.runs.len() == MOST_RUNS * 3 / 4 {
            self.close_chunk();
        }
        Ok(())
    }

    fn close_chunk(&mut self) {
        if let Some(first) = self.runs.first() {
            let low = first.low;
            let chunk = Chunk::of(core::mem::take(&mut self.runs));
            self.chunks.push((low, Shared::new(chunk)));
        }
    }

    /// Makes the order.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn finish(mut self) -> Result<(), AllocError> {
        self.close_run(u64::MAX)?;
        self.close_chunk();
        let (lows, chunks): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.chunks).into_iter().unzip();
        let top = Top { lows: lows.into(), chunks: chunks.into() };
        self.order.top.point_to(&Shared::new(Owned::new(top)));
        Ok(())
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // What was made for nothing.
        let guard = crate::sync::epoch::pin();
        for listed in &self.runs {
            drop(listed.seat.run.retire());
        }
        for (_, place) in &self.chunks {
            for seat in place.get(&guard).into_iter().flat_map(|chunk| &chunk.seats) {
                drop(seat.run.retire());
            }
            drop(place.retire());
        }
    }
}
