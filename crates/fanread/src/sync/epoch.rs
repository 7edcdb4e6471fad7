//! Memory that is given back only when nobody can still be reading it.
//!
//! Whoever reads a map is *pinned*. What a writer unlinks goes into a [`Limbo`] that belongs to the map and
//! comes out of it once every thread that was pinned at that time has unpinned. The epochs that tell are
//! `crossbeam-epoch`'s, in a collector of our own; the garbage stays with the map, so a map that is dropped has
//! everything back at once, and values need not be `'static`.
//!
//! A reader that stays pinned for long delays reuse of memory and nothing else.
//!
//! # Invariants
//!
//! * **E1** An item enters a limbo after the last way to find it was removed.
//! * **E2** An item leaves a limbo by `collect` only after every guard that existed when its batch was closed
//!   has been dropped or repinned, or by `drain`, whose caller excludes all guards.
//! * **E3** What runs in `close` and `hurry`, whose callers hold locks, is no user code: only `close` defers anything
//!   in our collector.
//!
//! `tests` below check E2 with a sleeping reader and with threads that come and go, and E3.

use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::sync::{Arc, LazyLock};

use crossbeam_epoch::{Collector, LocalHandle};

/// One for the process, and not the one that all users of `crossbeam-epoch` share: whoever has it go on runs what others
/// have deferred there, which may call the map whose locks are held (E3).
static COLLECTOR: LazyLock<Collector> = LazyLock::new(Collector::new);

thread_local! {
    static HANDLE: LocalHandle = COLLECTOR.register();
}

/// Proof that the thread is pinned.
pub(crate) struct Guard {
    inner: crossbeam_epoch::Guard,
}

// A thread is as much pinned after a panic as before it.
impl core::panic::UnwindSafe for Guard {}
impl core::panic::RefUnwindSafe for Guard {}

impl core::fmt::Debug for Guard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// Pins the thread.
#[inline]
pub(crate) fn pin() -> Guard {
    // A thread that ends may have destructors to run after that of its handle.
    let pinned = HANDLE.try_with(LocalHandle::pin);
    Guard { inner: pinned.unwrap_or_else(|_| COLLECTOR.register().pin()) }
}

impl Guard {
    /// Gives up what was pinned so far and pins anew.
    #[inline]
    pub(crate) fn repin(&mut self) {
        self.inner.repin();
    }
}

/// How many items share one question to the epochs. Asking costs an allocation and some 100 ns, so a batch of
/// one is slow to retire; a large batch keeps memory idle. A leaf is about 1 KB, so a batch is at most 64 KB.
const BATCH_ITEMS: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 32 };

/// The first batches have fewer items, at least so many, and one more for each few that have come. Of a small map few ever come, and what
/// waits for company in its only batch could be as much as all that it holds.
const FIRST_ITEMS: usize = if BATCH_ITEMS < 4 { BATCH_ITEMS } else { 4 };
const COME_FOR_EACH: usize = 8;

/// How many batches wait until the next ones have twice as many items, and so on up to `MOST_DOUBLINGS`. So many wait only while
/// a thread stays pinned, and each takes some 2 KB in the epochs' queue, for which 32 small records are not worth it. With
/// fewer, what waits in a load with a few hundred operations a pin would wait longer.
const MANY_BATCHES: usize = if cfg!(any(shuttle, small_leaves, miri)) { 8 } else { 64 };

/// A batch has at most 1,024 items: who is given it frees them all in one call.
const MOST_DOUBLINGS: usize = 5;

/// What a limbo takes.
pub(crate) trait Unlinked {
    /// Whether it holds too much memory to wait for others that are to be freed with it.
    fn is_large(&self) -> bool {
        false
    }
}

impl Unlinked for u64 {}

/// Items that were unlinked and may still be read.
pub(crate) struct Limbo<T> {
    open: Vec<T>,
    closed: VecDeque<Batch<T>>,
    /// How many items have come, as far as it matters.
    come: u32,
    /// For who has several limbos: which of the others is the next one to be looked at. Here, as it takes no room beside `come`.
    pub(crate) turn: u16,
    /// The same for who looks for free memory: which of them had some the last time.
    pub(crate) rich: u16,
}

struct Batch<T> {
    items: Vec<T>,
    free: Arc<AtomicBool>,
}

impl<T> core::fmt::Debug for Limbo<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Limbo").field("items", &self.len()).finish()
    }
}

impl<T> Limbo<T> {
    pub(crate) const fn new() -> Self {
        Self { open: Vec::new(), closed: VecDeque::new(), come: 0, turn: 0, rich: 0 }
    }

    /// Takes `item`, which nobody can find any more (E1).
    pub(crate) fn retire(&mut self, item: T, guard: &Guard)
    where
        T: Unlinked,
    {
        let is_large = item.is_large();
        self.open.push(item);
        self.come = self.come.saturating_add(1);
        if is_large || self.open.len() >= self.batch_items() {
            self.close(guard);
        }
    }

    /// How many items the open batch is to have.
    fn batch_items(&self) -> usize {
        let items = (self.come as usize / COME_FOR_EACH).clamp(FIRST_ITEMS, BATCH_ITEMS);
        items << (self.closed.len() / MANY_BATCHES).min(MOST_DOUBLINGS)
    }

    /// Asks the epochs to report when the items taken so far are free. May run what other limbos have asked for (E3).
    pub(crate) fn close(&mut self, guard: &Guard) {
        if self.open.is_empty() {
            return;
        }
        let free = Arc::new(AtomicBool::new(false));
        let report = Arc::clone(&free);
        // ORDER: Release, pairs with the Acquire load in `collect`: all reads by the guards of that time have
        // happened before an item is handed out.
        guard.inner.defer(move || report.store(true, Release));
        guard.inner.flush();
        self.closed.push_back(Batch { items: core::mem::take(&mut self.open), free });
    }

    /// Whether items wait to be reported free.
    pub(crate) fn waits(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Has the epochs go on if items wait for that: without anything to be retired nobody else may see to it.
    pub(crate) fn hurry(&self, guard: &Guard) {
        if !self.closed.is_empty() {
            guard.inner.flush();
        }
    }

    /// Returns one batch of items that nobody can still be reading (E2).
    pub(crate) fn collect(&mut self) -> Option<Vec<T>> {
        // ORDER: Acquire, pairs with the Release store in `close`.
        if self.closed.front()?.free.load(Acquire) {
            self.closed.pop_front().map(|batch| batch.items)
        } else {
            None
        }
    }

    /// Returns everything. The caller makes sure that nobody is reading.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        let closed = core::mem::take(&mut self.closed);
        let open = core::mem::take(&mut self.open);
        closed.into_iter().flat_map(|batch| batch.items).chain(open)
    }

    /// Whether all items that were handed over are free.
    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        // ORDER: Acquire, as in `collect`.
        self.closed.iter().all(|batch| batch.free.load(Acquire))
    }

    /// How many items wait.
    pub(crate) fn len(&self) -> usize {
        self.open.len() + self.closed.iter().map(|batch| batch.items.len()).sum::<usize>()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Retires `items` and goes on pinning until everything is free or the patience is spent.
    fn settle(limbo: &mut Limbo<u64>, rounds: usize) -> Vec<u64> {
        let mut back = Vec::new();
        for _ in 0..rounds {
            let guard = pin();
            limbo.close(&guard);
            guard.inner.flush();
            drop(guard);
            while let Some(items) = limbo.collect() {
                back.extend(items);
            }
        }
        back
    }

    /// Has another thread pin and sleep until the result is called.
    fn sleeping_reader() -> impl FnOnce() {
        let (asleep, wait_asleep) = mpsc::channel();
        let (wake, wait_wake) = mpsc::channel::<()>();
        let reader = std::thread::spawn(move || {
            let guard = pin();
            asleep.send(()).unwrap();
            wait_wake.recv().unwrap();
            drop(guard);
        });
        wait_asleep.recv().unwrap();
        move || {
            wake.send(()).unwrap();
            reader.join().unwrap();
        }
    }

    #[test]
    fn an_item_comes_back_once_nobody_is_pinned() {
        let mut limbo = Limbo::new();
        for item in 0..100 {
            limbo.retire(item, &pin());
        }
        let mut back = Vec::new();
        // Other tests of this process pin the same epochs, each for a short while only.
        while back.len() < 100 {
            back.extend(settle(&mut limbo, 16));
            std::thread::yield_now();
        }
        back.sort_unstable();
        assert_eq!(back, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_large_waits_for_no_others() {
        struct Large(bool);
        impl Unlinked for Large {
            fn is_large(&self) -> bool {
                self.0
            }
        }
        let mut limbo = Limbo::new();
        limbo.retire(Large(false), &pin());
        assert_eq!((limbo.open.len(), limbo.closed.len()), (1, 0));
        limbo.retire(Large(true), &pin());
        assert_eq!((limbo.open.len(), limbo.closed.len()), (0, 1));
    }

    #[test]
    fn a_sleeping_reader_holds_back_items_but_stops_nobody() {
        let mut limbo = Limbo::new();
        let wake = sleeping_reader();
        for item in 0..1000 {
            limbo.retire(item, &pin());
        }
        assert!(settle(&mut limbo, 64).is_empty(), "handed out under a reader's eyes");
        wake();
        let mut back = 0;
        while back < 1000 {
            back += settle(&mut limbo, 16).len();
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_repin_beside_another_pin_lets_go_of_nothing() {
        let mut limbo = Limbo::new();
        let other = pin();
        let mut guard = pin();
        for item in 0..1000 {
            limbo.retire(item, &guard);
        }
        let mut back = 0;
        for _ in 0..64 {
            guard.repin();
            back += settle(&mut limbo, 1).len();
        }
        assert_eq!(back, 0);
        drop(other);
        while back < 1000 {
            guard.repin();
            back += settle(&mut limbo, 1).len();
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_waits_for_a_sleeping_reader_takes_few_batches() {
        let mut limbo = Limbo::new();
        let wake = sleeping_reader();
        let most = BATCH_ITEMS << MOST_DOUBLINGS;
        let items = 200 * most as u64;
        for item in 0..items {
            limbo.retire(item, &pin());
        }
        let few = MANY_BATCHES * (MOST_DOUBLINGS + 1) + 200;
        assert!(limbo.closed.len() <= few, "{} batches of {items} items", limbo.closed.len());
        wake();
        let mut back = 0;
        while back < items {
            let all = settle(&mut limbo, 1);
            back += all.len() as u64;
            std::thread::yield_now();
        }
        assert_eq!((back, limbo.len()), (items, 0));
    }

    #[test]
    fn what_others_defer_does_not_run_where_items_are_retired() {
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let foreign = crossbeam_epoch::pin();
        foreign.defer(move || runs.store(true, Release));
        foreign.flush();
        drop(foreign);
        let mut limbo = Limbo::new();
        for item in 0..10_000 {
            let guard = pin();
            limbo.retire(item, &guard);
            limbo.hurry(&guard);
            drop(limbo.collect());
        }
        assert!(!ran.load(Acquire), "a function of somebody else ran");
    }

    #[test]
    fn a_thread_may_pin_in_its_last_destructors() {
        struct Pins(mpsc::Sender<()>);
        impl Drop for Pins {
            fn drop(&mut self) {
                drop(pin());
                self.0.send(()).unwrap();
            }
        }
        thread_local! {
            static EARLIER: std::cell::OnceCell<Pins> = const { std::cell::OnceCell::new() };
            static LATER: std::cell::OnceCell<Pins> = const { std::cell::OnceCell::new() };
        }
        let (done, wait_done) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            EARLIER.with(|pins| drop(pins.set(Pins(done.clone()))));
            drop(pin());
            LATER.with(|pins| drop(pins.set(Pins(done))));
        });
        thread.join().unwrap();
        assert_eq!(wait_done.iter().count(), 2);
    }

    #[test]
    fn ten_thousand_threads_may_come_and_go() {
        let mut limbo = Limbo::new();
        for round in 0..10_000 {
            if round % 100 == 0 {
                limbo.retire(round, &pin());
            }
            std::thread::spawn(|| drop(pin())).join().unwrap();
        }
        let mut back = 0;
        while back < 100 {
            back += settle(&mut limbo, 16).len();
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_dropped_owner_has_everything_back_at_once() {
        let mut limbo = Limbo::new();
        let guard = pin();
        for item in 0..75 {
            limbo.retire(item, &guard);
        }
        assert_eq!(limbo.len(), 75);
        assert_eq!(limbo.drain().count(), 75);
        assert_eq!(limbo.len(), 0);
    }
}
