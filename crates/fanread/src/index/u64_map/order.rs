//! The order of the keys: a list of runs, in two levels.
//!
//! ```text
//! top     parts, then first key of each chunk      a few hundred, in L1 and L2
//! chunk   parts, then first key of each run        up to 256, in L2 and L3; and a guide of each, see `guide.rs`
//! run     some 300 keys                            see `run.rs`
//! ```
//!
//! A top, and a chunk, knows of equal *parts* of its interval where the first key of each belongs: there is seldom more than a
//! border or two in a part if keys are random, and the others are found by halves.
//!
//! The order has every key of the map, and some that are no longer in it: the table is the truth, and who walks along the order
//! asks it. So an insertion only has to leave its key at the end of a run, and a removal only to count, until half of a
//! run's keys are gone, or 64.
//!
//! Tops and chunks never change but for pointers, and what is guessed by, in them; more or fewer runs make a new chunk.
//!
//! # Invariants
//!
//! * **O1** The intervals of the runs follow each other without a gap, from 0 to the largest number.
//! * **O2** A run is dead before it is unlocked once it was replaced: no key is added to it then.

use super::guide::{Guide, Hint, Scale};
use super::raw::{self, Garbage, Heap};
use super::run::{MOST_WORDS, Run};
use crate::arch::{Avx512, prefetch};
use crate::hash::mix::stream;
use crate::mem::AllocError;
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shared::{Owned, Shared};
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};
use crate::sync::version::Locked;

/// Runs of a chunk, at most.
const MOST_RUNS: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 256 };

/// Parts of a chunk with many runs, of which half may be empty as their width is a power of two.
///
/// With fewer there are more borders in a part, with more the parts take more of the caches.
const PARTS: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 512 };

/// An interval in equal parts.
#[derive(Clone, Copy, Debug)]
struct Parts {
    low: u64,
    /// The base-2 logarithm of a part's width.
    shift: u32,
}

impl Parts {
    /// Those of an interval, at most `most`, which is a power of two.
    fn of((low, last): (u64, u64), most: usize) -> Self {
        Self { low, shift: (64 - most.ilog2()).saturating_sub((last - low).leading_zeros()) }
    }

    /// The same interval, in fewer parts.
    #[inline(always)]
    fn joined(self, by: u32) -> Self {
        Self { shift: self.shift + by, ..self }
    }

    #[inline(always)]
    fn part(self, key: u64) -> usize {
        ((key - self.low) >> self.shift) as usize
    }

    /// For each part, and for the end, which of ascending first keys has the part's first key.
    fn starts<T: Copy>(
        self,
        most: usize,
        lows: impl Iterator<Item = u64>,
        number: impl Fn(usize) -> T,
    ) -> Vec<T> {
        let mut starts = Vec::with_capacity(most + 1);
        let mut count = 0;
        for low in lows {
            // The parts that begin before it belong to the one before.
            let parts = (low - self.low).div_ceil(1 << self.shift) as usize;
            starts.resize(parts.max(starts.len()), number(count.max(1) - 1));
            count += 1;
        }
        starts.resize(most + 1, number(count - 1));
        starts
    }
}

/// Which of some ascending first keys a key belongs to, that is one `from` to `to`.
#[inline(always)]
fn belongs(from: usize, to: usize, key: u64, low: impl Fn(usize) -> u64) -> usize {
    if to - from > 2 {
        return belongs_far(from, to, key, low);
    }
    // Without a branch: what is behind `to` is counted as `to` is.
    let is_reached = |at: usize| usize::from(low(at.min(to)) <= key);
    (from + is_reached(from + 1) + is_reached(from + 2)).min(to)
}

/// The same by halves.
#[inline(never)]
fn belongs_far(mut from: usize, mut to: usize, key: u64, low: impl Fn(usize) -> u64) -> usize {
    while from < to {
        let middle = (from + to).div_ceil(2);
        if low(middle) <= key { from = middle } else { to = middle - 1 }
    }
    from
}

/// Runs whose intervals follow each other, and where their keys are.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The run that has the first key of each part, and the last one; which parts these are the top says, but that some of its are one
    /// here, where there are few runs.
    starts: Box<[u8]>,
    seats: Box<[Seat]>,
    /// What is to be known of each run before its first line has come. Every eighth insertion changes its hint, and every one looks at
    /// some seats at first, which other cores are to have as well: so hints are no part of these.
    hints: Box<[Hint]>,
    /// The guide of each run.
    guides: Box<[Guide]>,
}

/// A run, and its first key.
#[derive(Debug)]
struct Seat {
    low: u64,
    run: Shared<Run>,
}

/// A chunk, and the parts of its interval.
#[derive(Debug)]
struct Listed {
    parts: Parts,
    chunk: Shared<Chunk>,
}

/// Where the lines of a chunk are that a search for a key needs, as far as that can be said before the chunk's first line has
/// come: one wait on a cache that is not near, not three.
///
/// It may be that of a chunk that was there before, or of both. Lines are asked for by it, and nothing else.
#[derive(Debug)]
struct Lines {
    /// The address of the parts' first runs, and in the top byte how many parts were joined.
    starts: AtomicU64,
    /// The addresses of the seats, the hints and the guides.
    seats: AtomicU64,
    hints: AtomicU64,
    guides: AtomicU64,
    /// How many runs there are, and the scale of their guide.
    scale: AtomicU64,
    /// Where the runs' first keys are.
    guide: Guide,
}

impl Lines {
    /// Bits of an address.
    const ADDRESS: u64 = !0 >> 8;

    /// Those of a chunk that begins at a key.
    fn of(chunk: &Chunk, low: u64) -> Self {
        let guide = Guide::new();
        let scale = guide.set(low, chunk.seats.len(), |at| chunk.seats[at].low);
        let starts = chunk.starts.as_ptr().addr() as u64 & Self::ADDRESS;
        Self {
            starts: AtomicU64::new(starts | u64::from(chunk.joined()) << 56),
            seats: AtomicU64::new(chunk.seats.as_ptr().addr() as u64),
            hints: AtomicU64::new(chunk.hints.as_ptr().addr() as u64),
            guides: AtomicU64::new(chunk.guides.as_ptr().addr() as u64),
            scale: AtomicU64::new(scale.word()),
            guide,
        }
    }

    fn words(&self) -> [&AtomicU64; 5] {
        [&self.starts, &self.seats, &self.hints, &self.guides, &self.scale]
    }

    /// Describes what another does.
    fn set(&self, other: &Self) {
        for (word, other) in self.words().into_iter().zip(other.words()) {
            // Relaxed: a guess.
            word.store(other.load(Relaxed), Relaxed);
        }
        self.guide.set_to(&other.guide);
    }

    fn copy(&self) -> Self {
        // Relaxed: as above.
        let [starts, seats, hints, guides, scale] =
            self.words().map(|word| AtomicU64::new(word.load(Relaxed)));
        Self { starts, seats, hints, guides, scale, guide: self.guide.copy() }
    }

    /// Asks for the lines of a chunk that has a key.
    #[inline(always)]
    fn ask(&self, parts: Parts, key: u64, kernel: Option<Avx512>) {
        // Relaxed: as above.
        let [starts, seats, hints, guides, scale] = self.words().map(|word| word.load(Relaxed));
        let part = parts.joined((starts >> 56) as u32).part(key);
        prefetch(at::<u8>((starts & Self::ADDRESS) + part as u64));
        let below = self.guide.guess(Scale::of(scale), key - parts.low, kernel);
        // Of the runs that begin below the key the last one has it.
        let below = below.saturating_sub(1);
        let seat = at::<Seat>(seats).wrapping_add(below);
        prefetch(seat.wrapping_sub(1));
        prefetch(seat.wrapping_add(1));
        prefetch(at::<Hint>(hints).wrapping_add(below));
        prefetch(at::<Guide>(guides).wrapping_add(below));
    }
}

/// What is at an address, to be asked for and nothing else.
fn at<T>(address: u64) -> *const T {
    core::ptr::without_provenance(address as usize)
}

/// A run that a chunk is made of.
type Guided = (Seat, (Hint, Guide));

/// A chunk that a top is made of: its first key, itself, and where its lines are.
type Placed = (u64, Shared<Chunk>, Lines);

/// The chunks.
#[derive(Debug)]
pub(super) struct Top {
    /// The chunk that has the first key of each part.
    starts: Box<[u32]>,
    parts: Parts,
    chunks: Box<[Listed]>,
    /// Where the lines of each chunk are.
    lines: Box<[Lines]>,
}

impl Seat {
    /// That of a run.
    fn of(run: Owned<Run>) -> Guided {
        let known = Hint::of(run.get());
        (Self { low: run.get().low(), run: Shared::new(run) }, known)
    }
}

impl Chunk {
    /// One of runs up to a last key, and where its lines are.
    fn of(runs: Vec<Guided>, last: u64) -> (Owned<Self>, Lines) {
        let (seats, (hints, guides)): (Vec<_>, (Vec<_>, Vec<_>)) = runs.into_iter().unzip();
        let most = (2 * seats.len()).next_power_of_two().min(PARTS);
        let parts = Parts::of((seats[0].low, last), PARTS);
        let joined = parts.joined((PARTS / most).ilog2());
        let starts = joined.starts(most, seats.iter().map(|s| s.low), |at| at as u8);
        let (starts, seats) = (starts.into(), seats.into());
        let (hints, guides) = (hints.into(), guides.into());
        let chunk = Owned::new(Self { starts, seats, hints, guides });
        let lines = Lines::of(chunk.get(), parts.low);
        (chunk, lines)
    }

    /// The base-2 logarithm of how many of the top's parts are one here.
    #[inline(always)]
    fn joined(&self) -> u32 {
        PARTS.ilog2() - (self.starts.len() - 1).ilog2()
    }

    /// Which run has a key.
    #[inline(always)]
    fn index(&self, parts: Parts, key: u64) -> usize {
        let (from, to) = self.between(parts, key);
        belongs(from, to, key, |at| self.seats[at].low)
    }

    /// Between which runs the one of a key is, both included.
    #[inline(always)]
    fn between(&self, parts: Parts, key: u64) -> (usize, usize) {
        let part = parts.joined(self.joined()).part(key);
        (self.starts[part].into(), self.starts[part + 1].into())
    }

    fn list(&self) -> impl Iterator<Item = Guided> {
        let known = self.hints.iter().zip(&self.guides);
        self.seats.iter().zip(known).map(|(Seat { low, run }, (hint, guide))| {
            (Seat { low: *low, run: run.alias() }, (hint.copy(), guide.copy()))
        })
    }
}

impl Top {
    /// One of chunks whose intervals follow each other, with their first keys.
    fn of(chunks: Vec<Placed>) -> Owned<Self> {
        let most = (2 * chunks.len()).next_power_of_two();
        let parts = Parts::of((0, u64::MAX), most);
        let lows = chunks.iter().map(|(low, ..)| *low);
        let starts = parts.starts(most, lows.clone(), |at| at as u32);
        let lasts: Vec<_> = lows.skip(1).map(|low| low - 1).chain([u64::MAX]).collect();
        let listed = |((low, chunk, lines), last)| {
            (Listed { parts: Parts::of((low, last), PARTS), chunk }, lines)
        };
        let (chunks, lines): (Vec<_>, Vec<_>) = chunks.into_iter().zip(lasts).map(listed).unzip();
        Owned::new(Self {
            starts: starts.into(),
            parts,
            chunks: chunks.into(),
            lines: lines.into(),
        })
    }

    /// Which chunk has a key.
    #[inline(always)]
    fn index(&self, key: u64) -> usize {
        let part = self.parts.part(key);
        let [from, to] = [self.starts[part], self.starts[part + 1]].map(|at| at as usize);
        belongs(from, to, key, |at| self.chunks[at].parts.low)
    }

    /// The last key of a chunk.
    fn last(&self, at: usize) -> u64 {
        self.chunks.get(at + 1).map_or(u64::MAX, |next| next.parts.low - 1)
    }
}

/// The order of the keys; see the module.
#[derive(Debug)]
pub(super) struct Order {
    top: Shared<Top>,
    pub(super) heap: Heap,
    /// Held by who replaces runs, chunks or the top.
    structure: Lock<()>,
    /// For guides.
    kernel: Option<Avx512>,
}

impl Order {
    pub(super) const fn new(kernel: Option<Avx512>) -> Self {
        Self { top: Shared::none(), heap: Heap::new(), structure: Lock::new(()), kernel }
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
            let (chunk, lines) = Chunk::of(vec![Seat::of(run)], u64::MAX);
            self.top.point_to(&Shared::new(Top::of(vec![(0, Shared::new(chunk), lines)])));
        }
        Ok(())
    }

    /// The list of the runs where one has a key, and the parts of its interval; `None` in a map that never had an entry.
    #[inline(always)]
    fn chunk<'g>(&self, key: u64, guard: &'g Guard) -> Option<(Parts, &'g Chunk)> {
        let top = self.top.get(guard)?;
        let Listed { parts, chunk } = &top.chunks[top.index(key)];
        Some((*parts, chunk.get(guard)?))
    }

    /// The run of a key; `None` in a map that never had an entry.
    #[inline(always)]
    pub(super) fn run<'g>(&self, key: u64, guard: &'g Guard) -> Option<&'g Run> {
        let (parts, chunk) = self.chunk(key, guard)?;
        chunk.seats[chunk.index(parts, key)].run.get(guard)
    }

    /// The same, and what the list knows of it. The lines that an insertion needs are asked for, all at once.
    #[inline(always)]
    pub(super) fn run_to_add<'g>(&self, key: u64, guard: &'g Guard) -> Option<(&'g Run, &'g Hint)> {
        let (parts, chunk) = self.chunk(key, guard)?;
        let at = chunk.index(parts, key);
        let (run, hint) = (chunk.seats[at].run.get(guard)?, &chunk.hints[at]);
        hint.ask_for_end(run);
        Some((run, hint))
    }

    /// The run of a key, and which of its words are to be looked at first. The lines that a search needs are asked for, all at once.
    #[inline(always)]
    pub(super) fn asked<'g>(&self, key: u64, guard: &'g Guard) -> Option<(&'g Run, usize)> {
        let (parts, chunk) = self.chunk(key, guard)?;
        let (from, to) = chunk.between(parts, key);
        // The guide of one of these two, mostly, is on its way together with their first keys.
        let guides = chunk.guides.as_ptr().wrapping_add(from);
        prefetch(guides);
        prefetch(guides.wrapping_add(1));
        let at = belongs(from, to, key, |at| chunk.seats[at].low);
        let (Seat { low, run }, hint, guide) =
            (&chunk.seats[at], &chunk.hints[at], &chunk.guides[at]);
        let run = run.get(guard)?;
        Some((run, hint.ask(guide, run, key - low, self.kernel)))
    }

    /// The same for who has been elsewhere for long: the lines of the list are asked for at once, too.
    #[inline(always)]
    pub(super) fn asked_far<'g>(&self, key: u64, guard: &'g Guard) -> Option<(&'g Run, usize)> {
        let top = self.top.get(guard)?;
        let at = top.index(key);
        top.lines[at].ask(top.chunks[at].parts, key, self.kernel);
        self.asked(key, guard)
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
                        self.renew((run, locked), 0, guard, |_| true, garbage)?;
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
        self.take_over(run.low(), run.removed(), guard);
        Ok(())
    }

    /// Replaces a run by new ones that have its keys in order, but for those that are not to be kept. Of what was counted as removed
    /// `gone` are among these; what else was is counted of the new runs.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    pub(super) fn renew<'g, V>(
        &self,
        (run, locked): (&'g Run, Locked<'g>),
        gone: u32,
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
            next = self.next(last + 1, keys.is_empty(), guard);
            // One without keys is not left behind, since nothing would make it anew.
            next = next
                .filter(|(next, _)| keys.is_empty() || next.len() + keys.len() <= MOST_WORDS / 2);
            if let Some((next, _)) = &next {
                keys.extend(next.collect());
                last = next.last();
            }
        }
        let new = self.parts(run, (run.low(), last), &keys)?;
        let old = next.as_ref().map(|(next, _)| *next);
        let lows: Vec<_> = new.iter().map(|new| new.get().low()).collect();
        self.publish((run, old), new, guard, garbage);
        // O2: marked while they are still locked.
        locked.retire();
        let mut removed = run.removed().saturating_sub(gone);
        if let Some((next, locked)) = next {
            locked.retire();
            removed += next.removed();
        }
        for low in lows {
            self.take_over(low, removed, guard);
        }
        Ok(())
    }

    /// Locks the run of a key, whose left neighbour the caller has locked; one that somebody else has only if it is worth a wait.
    fn next<'g>(
        &self,
        key: u64,
        is_to_wait: bool,
        guard: &'g Guard,
    ) -> Option<(&'g Run, Locked<'g>)> {
        loop {
            let run = self.run(key, guard)?;
            let version = &run.version;
            // Runs are locked from left to right, so nobody waits in a circle.
            let locked = if is_to_wait { version.lock() } else { version.try_lock()? };
            if locked.is_dead() {
                continue;
            }
            return Some((run, locked));
        }
    }

    /// Has the run of a key count what was removed from those whose place it took.
    pub(super) fn take_over(&self, key: u64, removed: u32, guard: &Guard) {
        if let Some(run) = self.run(key, guard).filter(|_| removed > 0) {
            run.take_over(removed);
        }
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
        let at_chunk = top.index(run.low());
        let Listed { parts, chunk } = &top.chunks[at_chunk];
        let chunk = chunk.get(guard).expect("chunks are never null");
        let at = chunk.index(*parts, run.low());
        debug_assert!(chunk.seats[at].run.is(run), "a run is replaced by who holds its lock");
        if let (1, None) = (new.len(), next) {
            let new = new.into_iter().next().expect("one");
            chunk.hints[at].set(&chunk.guides[at], new.get());
            garbage.extend(chunk.seats[at].run.replace(new).map(Garbage::Run));
            return;
        }
        // The next run may be in the next chunk.
        let mut list: Vec<_> = chunk.list().collect();
        let mut chunks = at_chunk..at_chunk + 1;
        if (next.is_some() && at + 1 == list.len() || list.len() < MOST_RUNS / 4)
            && let Some(other) = top.chunks.get(at_chunk + 1).and_then(|next| next.chunk.get(guard))
        {
            list.extend(other.list());
            chunks.end += 1;
        }
        let old = at..at + 1 + usize::from(next.is_some());
        for old in list.splice(old, new.into_iter().map(Seat::of)) {
            garbage.extend(old.0.run.retire().map(Garbage::Run));
        }
        let mut pieces = Vec::new();
        while list.len() > MOST_RUNS {
            pieces.push(list.split_off(list.len().div_ceil(2).max(list.len() - MOST_RUNS)));
        }
        pieces.push(list);
        pieces.reverse();
        let lasts = pieces.iter().skip(1).map(|piece| piece[0].0.low - 1);
        let lasts: Vec<_> = lasts.chain([top.last(chunks.end - 1)]).collect();
        let pieces = pieces.into_iter().zip(lasts);
        let mut new: Vec<_> =
            pieces.map(|(piece, last)| (piece[0].0.low, Chunk::of(piece, last))).collect();
        if new.len() == 1 && chunks.len() == 1 {
            let (_, (new, lines)) = new.swap_remove(0);
            top.lines[at_chunk].set(&lines);
            garbage.extend(top.chunks[at_chunk].chunk.replace(new).map(Garbage::Chunk));
            return;
        }
        let listed = top.chunks.iter().zip(&top.lines);
        let listed = listed.map(|(at, lines)| (at.parts.low, at.chunk.alias(), lines.copy()));
        let mut list: Vec<_> = listed.collect();
        let new = new.into_iter().map(|(low, (chunk, lines))| (low, Shared::new(chunk), lines));
        for (_, chunk, _) in list.splice(chunks, new) {
            garbage.extend(chunk.retire().map(Garbage::Chunk));
        }
        garbage.extend(self.top.replace(Top::of(list)).map(Garbage::Top));
    }

    /// All runs, if nobody is writing.
    pub(super) fn runs<'g>(&self, guard: &'g Guard) -> impl Iterator<Item = &'g Run> {
        let chunks = self.top.get(guard).into_iter().flat_map(|top| &top.chunks);
        let chunks = chunks.filter_map(|listed| listed.chunk.get(guard));
        chunks.flat_map(|chunk| &chunk.seats).filter_map(|seat| seat.run.get(guard))
    }

    /// What tops and chunks take in memory.
    pub(super) fn list_bytes(&self, guard: &Guard) -> usize {
        let Some(top) = self.top.get(guard) else { return 0 };
        let chunks = top.chunks.iter().filter_map(|listed| listed.chunk.get(guard));
        let lists = chunks.map(|chunk| {
            let starts = size_of::<Chunk>() + size_of_val(&*chunk.starts);
            let known = size_of_val(&*chunk.hints) + size_of_val(&*chunk.guides);
            starts + size_of_val(&*chunk.seats) + known
        });
        let list = size_of_val(&*top.chunks) + size_of_val(&*top.starts) + size_of_val(&*top.lines);
        size_of::<Top>() + list + lists.sum::<usize>()
    }

    /// Takes everything out. Nobody uses the map any more.
    pub(super) fn take<V>(&mut self, guard: &Guard) -> Vec<Garbage<V>> {
        let Some(top) = self.top.get(guard) else { return Vec::new() };
        let mut all = Vec::new();
        for Listed { chunk: place, .. } in &top.chunks {
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
    chunks: Vec<Placed>,
    runs: Vec<Guided>,
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
        let room = self.keys.len().max(MOST_WORDS.min(16));
        let run = Run::of(&self.order.heap, (self.low, last), &self.keys, (room, false))?;
        self.runs.push(Seat::of(run));
        self.keys.clear();
        self.low = last.wrapping_add(1);
        if self.runs.len() == MOST_RUNS * 3 / 4 {
            self.close_chunk();
        }
        Ok(())
    }

    fn close_chunk(&mut self) {
        if let Some(first) = self.runs.first() {
            let low = first.0.low;
            let (chunk, lines) =
                Chunk::of(core::mem::take(&mut self.runs), self.low.wrapping_sub(1));
            self.chunks.push((low, Shared::new(chunk), lines));
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
        self.order.top.point_to(&Shared::new(Top::of(core::mem::take(&mut self.chunks))));
        Ok(())
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // What was made for nothing.
        let guard = crate::sync::epoch::pin();
        for (seat, _) in &self.runs {
            drop(seat.run.retire());
        }
        for (_, place, _) in &self.chunks {
            for seat in place.get(&guard).into_iter().flat_map(|chunk| &chunk.seats) {
                drop(seat.run.retire());
            }
            drop(place.retire());
        }
    }
}
