//! What the threads that write to a map keep apart: free memory, memory to be freed, and counts of entries.
//!
//! A small map has one shard for all threads. A large one has some more, and each thread keeps to one of them, so that
//! writers seldom meet. Who is given back what was unlinked in its shard looks at another one too: the threads of that may be
//! gone, and nobody else would.
//!
//! And what all of them know of what they did lately (`replacing.rs`).

mod replacing;

use std::sync::OnceLock;

pub(crate) use replacing::Replacing;

use crossbeam_utils::CachePadded;

use crate::mem::arena::Arena;
use crate::mem::{AllocError, heap};
use crate::sync::epoch::{Guard, Limbo, Unlinked};
use crate::sync::lock::{Held, Lock};
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};
use crate::sync::thread;

/// How many shards a large map has beside the first, a power of two: as many as writers can run at once, and some for those that take
/// turns. Each holds up to 64 KB once a thread has used it.
fn most_shards() -> usize {
    thread::at_once().max(8)
}

/// How many other shards are looked at for free memory before fresh memory is taken.
///
/// Each look is a line of another thread. With as many as there are shards, free memory piles up nowhere; with fewer, the more slowly the
/// more there is already.
const LOOKS: usize = 9;

/// Free memory and memory to be freed: records, what else the map has free (`F`), and what its writers have unlinked
/// (`G`).
#[derive(Debug)]
pub(crate) struct Shard<F, G> {
    pub(crate) heap: heap::Shard,
    pub(crate) free: F,
    pub(crate) limbo: Limbo<G>,
}

/// A shard and a part of the map's number of entries.
#[derive(Debug)]
struct Counted<F, G> {
    shard: Lock<Shard<F, G>>,
    entries: AtomicU64,
}

/// Writers of different shards share no line.
type Padded<F, G> = CachePadded<Counted<F, G>>;

/// The shards of a map; see the module.
#[derive(Debug)]
pub(crate) struct Shards<F, G> {
    first: Counted<F, G>,
    /// Once the map is large enough to be worth them.
    more: OnceLock<Box<[Padded<F, G>]>>,
}

/// Where readers have left something, or memory runs short while something waits, as long as writers find that some of it is free: a bit
/// for each thread, as there are no more shards beside the first than bits. Of maps whose readers do.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind(AtomicU64);

impl LeftBehind {
    /// Whether a writer is to look.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Has a writer look, once its locks are free, what of that which a thread has unlinked is free: its shard runs short of memory.
    ///
    /// Who unlinks little asks the epochs seldom, and is given little back. What has piled up while a thread was pinned would wait on, and
    /// fresh memory be taken.
    pub(crate) fn note_short<F, G>(&self, thread: usize, shard: &Shard<F, G>) {
        let bit = Self::bit(thread);
        // Relaxed: as in `leave`. Only who has that shard sets the bit.
        if shard.limbo.waits() && self.0.load(Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Relaxed);
        }
    }

    /// The bit of a thread, which those share that have one shard in any case.
    fn bit(thread: usize) -> u64 {
        1 << (thread % u64::BITS as usize)
    }
}

impl<F: Default, G> Shards<F, G> {
    pub(crate) fn new() -> Self {
        Self { first: Counted::new(), more: OnceLock::new() }
    }

    /// Gives a map that has grown its shards.
    pub(crate) fn grow(&self) {
        if self.more.get().is_some() {
            return;
        }
        let shards: Box<[Padded<F, G>]> =
            (0..most_shards()).map(|_| CachePadded::new(Counted::new())).collect();
        // Whoever makes the shards has this lock.
        let mut first = self.first.shard.lock();
        if self.more.get().is_none() {
            // No thread keeps to the first one from here on: what waits there, and what is free, goes to this thread's.
            let own = thread::index() & (shards.len() - 1);
            core::mem::swap(&mut *first, &mut *shards[own].shard.lock());
            let _ = self.more.set(shards);
        }
    }
}

impl<F, G> Shards<F, G> {
    fn all(&self) -> impl Iterator<Item = &Counted<F, G>> {
        let more = self.more.get().into_iter().flatten().map(|padded| &**padded);
        core::iter::once(&self.first).chain(more)
    }

    #[inline]
    fn of(&self, thread: usize) -> &Counted<F, G> {
        match self.more.get() {
            Some(more) => &more[thread & (more.len() - 1)],
            None => &self.first,
        }
    }

    /// Locks the shard of a thread.
    #[inline]
    pub(crate) fn lock(&self, thread: usize) -> Held<'_, Shard<F, G>> {
        self.of(thread).shard.lock()
    }

    /// Takes units from the heap; returns the first of them.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    #[inline]
    pub(crate) fn allocate<const FIRST: u32>(
        &self,
        thread: usize,
        arena: &Arena<3, FIRST>,
        units: u64,
    ) -> Result<u64, AllocError> {
        let mut shard = self.lock(thread);
        if let Some(unit) = shard.heap.allocate_here(arena, units) {
            return Ok(unit);
        }
        self.trade(&mut shard, |own, other| own.heap.trade(&mut other.heap, units));
        shard.heap.allocate(arena, units)
    }

    /// Locks the shard of a thread, which then has so many units that were used before, if another one had them.
    #[inline]
    pub(crate) fn lock_with(&self, thread: usize, units: u64) -> Held<'_, Shard<F, G>> {
        let mut shard = self.lock(thread);
        if shard.heap.is_short_of(units) {
            self.trade(&mut shard, |own, other| own.heap.trade(&mut other.heap, units));
        }
        shard
    }

    /// Shows a shard that has none of what its thread wants some others, until one exchanges with it what is free; `trade` tells
    /// whether it does.
    ///
    /// Where some threads insert and others remove, all free memory would come to the latter.
    #[cold]
    pub(crate) fn trade(
        &self,
        shard: &mut Shard<F, G>,
        trade: impl Fn(&mut Shard<F, G>, &mut Shard<F, G>) -> bool,
    ) {
        let Some(more) = self.more.get() else { return };
        for _ in 0..LOOKS {
            // Not waited for: its thread may be looking at this one. This one itself is locked already.
            let rich = usize::from(shard.limbo.rich);
            let other = self.all().nth(rich).and_then(|other| other.shard.try_lock());
            if other.is_some_and(|mut other| trade(shard, &mut other)) {
                return;
            }
            shard.limbo.rich = ((rich + 1) % (1 + more.len())) as u16;
        }
    }

    /// Exchanges what else is free with that of another shard, if what is wanted is not here and is there: `has` says so.
    #[inline]
    pub(crate) fn trade_free(&self, shard: &mut Shard<F, G>, has: impl Fn(&F) -> bool) {
        if has(&shard.free) {
            return;
        }
        self.trade(shard, |own, other| {
            let is_there = has(&other.free);
            if is_there {
                core::mem::swap(&mut own.free, &mut other.free);
            }
            is_there
        });
    }

    /// Takes units from the heap and has `write` put `what` there; returns the first of them.
    ///
    /// # Errors
    ///
    /// `what`, if there is no memory for the units or for what `write` needs besides; the units go back then.
    #[inline]
    pub(crate) fn fill<T>(
        &self,
        thread: usize,
        records: &heap::Records,
        units: u64,
        what: T,
        write: impl FnOnce(u64, T) -> Result<(), (AllocError, T)>,
    ) -> Result<u64, (AllocError, T)> {
        // In a statement of its own, so that the lock is free while `write` runs.
        let unit = self.allocate(thread, records, units);
        let unit = match unit {
            Ok(unit) => unit,
            Err(error) => return Err((error, what)),
        };
        match write(unit, what) {
            Ok(()) => Ok(unit),
            Err(failed) => {
                self.lock(thread).heap.free(records, unit, units);
                Err(failed)
            }
        }
    }

    /// Locks each shard in turn.
    pub(crate) fn lock_each(&self) -> impl Iterator<Item = Held<'_, Shard<F, G>>> {
        self.all().map(|counted| counted.shard.lock())
    }

    /// Counts entries that were added; returns the shard's part of the number before.
    #[inline]
    pub(crate) fn added(&self, thread: usize, entries: u64) -> u64 {
        // Relaxed: counters bring nothing along.
        self.of(thread).entries.fetch_add(entries, Relaxed)
    }

    /// Counts an entry that was removed.
    #[inline]
    pub(crate) fn removed(&self, thread: usize) {
        // Relaxed: as above.
        self.of(thread).entries.fetch_sub(1, Relaxed);
    }

    /// How many entries there are; exact when no writer is active.
    pub(crate) fn entries(&self) -> usize {
        // Relaxed: as above. One part alone may be below zero.
        let parts = self.all().map(|counted| counted.entries.load(Relaxed));
        usize::try_from(parts.fold(0, u64::wrapping_add).cast_signed()).unwrap_or(0)
    }

    /// Takes what has been unlinked; returns what nobody can be reading any more. Values among that are dropped by the
    /// caller, who holds no lock then.
    pub(crate) fn exchange(
        &self,
        thread: usize,
        guard: &Guard,
        unlinked: impl IntoIterator<Item = G>,
    ) -> Vec<G>
    where
        G: Unlinked,
    {
        let mut shard = self.lock(thread);
        let mut count = 0;
        for item in unlinked {
            shard.limbo.retire(item, guard);
            count += 1;
        }
        let mut free = shard.limbo.collect().unwrap_or_default();
        // Who hands over much takes more, or what waits would never become less.
        while free.len() < 2 * count
            && let Some(more) = shard.limbo.collect()
        {
            free.extend(more);
        }
        self.with_another(shard, free)
    }

    /// Returns some of what nobody can be reading any more, as `exchange` does.
    pub(crate) fn collect(&self, thread: usize) -> Vec<G> {
        let mut shard = self.lock(thread);
        let free = shard.limbo.collect().unwrap_or_default();
        self.with_another(shard, free)
    }

    /// Takes what a reader has unlinked, who is given nothing back: values may be dropped with that. A writer sees to it, who
    /// may have nothing to hand over himself (`take_left`).
    pub(crate) fn leave(
        &self,
        left: &LeftBehind,
        thread: usize,
        guard: &Guard,
        unlinked: impl IntoIterator<Item = G>,
    ) where
        G: Unlinked,
    {
        let mut shard = self.lock(thread);
        for item in unlinked {
            shard.limbo.retire(item, guard);
        }
        // Relaxed: changed under the lock, so that nothing is left without a mark. While a map gets its shards there may be, until the
        // next walk.
        left.0.fetch_or(LeftBehind::bit(thread), Relaxed);
    }

    /// Returns a batch of what readers have left, as `exchange` does. Writers look again as long as they find one: a walk leaves many, so
    /// that they would pile up. What was not free when one looked waits for the next walk.
    pub(crate) fn take_left(&self, left: &LeftBehind, guard: &Guard) -> Vec<G> {
        let marks = left.0.load(Relaxed);
        let thread = marks.checked_ilog2().map(|bit| bit as usize);
        let shard = thread.and_then(|thread| Some((thread, self.of(thread).shard.try_lock()?)));
        let Some((thread, mut shard)) = shard else { return Vec::new() };
        shard.limbo.hurry(guard);
        let free = shard.limbo.collect();
        if free.is_none() {
            // Relaxed: as in `leave`.
            left.0.fetch_and(!LeftBehind::bit(thread), Relaxed);
        }
        free.unwrap_or_default()
    }

    /// Adds to what came out of a shard, if anything did, a batch of another one, each in its turn.
    fn with_another(&self, mut shard: Held<'_, Shard<F, G>>, mut free: Vec<G>) -> Vec<G> {
        let Some(more) = self.more.get().filter(|_| !free.is_empty()) else { return free };
        let turn = usize::from(shard.limbo.turn);
        shard.limbo.turn = ((turn + 1) % (1 + more.len())) as u16;
        drop(shard);
        let other = self.all().nth(turn).and_then(|other| other.shard.try_lock());
        free.extend(other.and_then(|mut other| other.limbo.collect()).into_iter().flatten());
        free
    }

    /// Has the epochs go on, and returns some of what nobody can be reading any more, as `exchange` does: for now and then, as it
    /// asks all threads.
    pub(crate) fn tidy(&self, thread: usize, guard: &Guard) -> Vec<G> {
        let mut shard = self.lock(thread);
        shard.limbo.hurry(guard);
        let free = shard.limbo.collect().unwrap_or_default();
        self.with_another(shard, free)
    }

    /// Takes out everything unlinked, without taking memory for it. The caller makes sure that nobody is reading.
    pub(crate) fn drain(&self) -> impl Iterator<Item = G> {
        self.lock_each().flat_map(|mut shard| shard.limbo.drain())
    }
}

impl<F: Default, G> Counted<F, G> {
    fn new() -> Self {
        let shard = Shard { heap: heap::Shard::new(), free: F::default(), limbo: Limbo::new() };
        Self { shard: Lock::new(shard), entries: AtomicU64::new(0) }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::sync::epoch::pin;

    /// What waits for nobody.
    struct Large;

    impl Unlinked for Large {
        fn is_large(&self) -> bool {
            true
        }
    }

    #[test]
    fn who_hands_over_takes_back_more() {
        let shards = Shards::<(), Large>::new();
        leave(&shards, 0, 20);
        assert_eq!(shards.exchange(0, &pin(), [Large]).len(), 2);
        assert_eq!(shards.exchange(0, &pin(), [Large, Large]).len(), 4);
        assert_eq!(shards.drain().count(), 17);
    }

    #[test]
    fn what_readers_leave_is_for_a_writer() {
        let shards = Shards::<(), Large>::new();
        shards.grow();
        let left = LeftBehind::default();
        assert!(!left.is_any());
        shards.leave(&left, 1, &pin(), [Large]);
        assert!(left.is_any());
        let mut back = 0;
        while back == 0 {
            shards.leave(&left, 1, &pin(), []);
            back += shards.take_left(&left, &pin()).len();
            assert_eq!(left.is_any(), back > 0, "until it is looked for in vain");
            leave(&shards, 0, 1);
        }
        assert_eq!((back, shards.take_left(&left, &pin()).len()), (1, 0));
    }

    #[test]
    fn who_runs_short_has_a_writer_look_if_something_waits() {
        let shards = Shards::<(), Large>::new();
        let left = LeftBehind::default();
        left.note_short(1, &shards.lock(1));
        assert!(!left.is_any());
        leave(&shards, 1, 20);
        left.note_short(1, &shards.lock(1));
        let mut back = 0;
        while left.is_any() {
            back += shards.take_left(&left, &pin()).len();
        }
        assert_eq!(back, 20);
    }

    #[test]
    fn all_that_readers_leave_is_for_writers() {
        let shards = Shards::<(), Large>::new();
        shards.grow();
        let left = LeftBehind::default();
        // Each leaves more than a writer is given at a time.
        for thread in [1, 2] {
            leave(&shards, thread, 20);
            shards.leave(&left, thread, &pin(), []);
        }
        let mut back = 0;
        while left.is_any() {
            back += shards.take_left(&left, &pin()).len();
        }
        assert_eq!(back, 40);
    }

    #[test]
    fn who_has_no_free_memory_finds_the_shard_that_has() {
        let shards = Shards::<u32, Large>::new();
        shards.grow();
        let looks = Cell::new(0);
        for expected in [1..=LOOKS, 1..=1] {
            shards.lock(5).free = 7;
            looks.set(0);
            let mut own = shards.lock(1);
            own.free = 0;
            shards.trade(&mut own, |own, other| {
                looks.set(looks.get() + 1);
                core::mem::swap(&mut own.free, &mut other.free);
                own.free > 0
            });
            assert_eq!(own.free, 7);
            assert!(expected.contains(&looks.get()), "{} looks", looks.get());
        }
    }

    /// Retires items in the shard of a thread, and waits until they are free.
    fn leave(shards: &Shards<(), Large>, thread: usize, count: usize) {
        for _ in 0..count {
            let guard = pin();
            shards.lock(thread).limbo.retire(Large, &guard);
        }
        // Another test's thread may be about to report one of them when those of later ones have been reported.
        let mut later = Limbo::new();
        while !shards.lock(thread).limbo.is_free() {
            later.retire(Large, &pin());
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_waits_when_a_map_gets_its_shards_goes_to_one_of_them() {
        let shards = Shards::<(), Large>::new();
        leave(&shards, 0, 20);
        shards.grow();
        assert_eq!(shards.first.shard.lock().limbo.len(), 0);
        assert_eq!(shards.lock(thread::index()).limbo.len(), 20);
        assert_eq!(shards.drain().count(), 20);
    }

    #[test]
    fn what_a_thread_that_is_gone_has_left_is_collected_by_others() {
        let shards = Shards::<(), Large>::new();
        shards.grow();
        leave(&shards, 1, 20);
        let mut back = 0;
        // One of another shard for each of its own, and each shard in its turn.
        for _ in 0..20 * (1 + most_shards()) {
            leave(&shards, 0, 1);
            back += shards.exchange(0, &pin(), []).len() - 1;
        }
        assert_eq!(back, 20);
    }
}
