//! What the threads that write to a map keep apart: free memory, memory to be freed, and counts of entries.
//!
//! A small map has one shard for all threads. A large one has some more, and each thread keeps to one of them, so that
//! writers seldom meet.

use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use crate::mem::heap;
use crate::sync::epoch::{Guard, Limbo, Unlinked};
use crate::sync::lock::{Held, Lock};
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};
use crate::sync::thread;

/// How many shards a large map has beside the first, a power of two: as many as writers can run at once, and some for those that take
/// turns. Each holds up to 64 KB once a thread has used it.
fn most_shards() -> usize {
    thread::at_once().max(8)
}

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

impl<F: Default, G> Shards<F, G> {
    pub(crate) fn new() -> Self {
        Self { first: Counted::new(), more: OnceLock::new() }
    }

    /// Gives a map that has grown its shards.
    pub(crate) fn grow(&self) {
        let shards = || (0..most_shards()).map(|_| CachePadded::new(Counted::new())).collect();
        self.more.get_or_init(shards);
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
        free
    }

    /// Has the epochs go on, and returns some of what nobody can be reading any more, as `exchange` does: for now and then, as it
    /// asks all threads.
    pub(crate) fn tidy(&self, thread: usize, guard: &Guard) -> Vec<G> {
        let mut shard = self.lock(thread);
        shard.limbo.hurry(guard);
        shard.limbo.collect().unwrap_or_default()
    }

    /// Takes out everything unlinked. The caller makes sure that nobody is reading.
    pub(crate) fn drain(&self) -> Vec<G> {
        self.lock_each().flat_map(|mut shard| shard.limbo.drain().collect::<Vec<_>>()).collect()
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
        for _ in 0..20 {
            let guard = pin();
            shards.lock(0).limbo.retire(Large, &guard);
        }
        // What came later is free, so all of these are.
        let mut later = Limbo::new();
        while later.collect().is_none() {
            later.retire(Large, &pin());
            std::thread::yield_now();
        }
        assert_eq!(shards.exchange(0, &pin(), [Large]).len(), 2);
        assert_eq!(shards.exchange(0, &pin(), [Large, Large]).len(), 4);
        assert_eq!(shards.drain().len(), 17);
    }
}
