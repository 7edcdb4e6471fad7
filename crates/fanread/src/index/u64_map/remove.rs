//! Taking entries out.
//!
//! The table forgets the entry; its key stays in the order until half of a run's keys are gone, or 64, or bounds have passed over 256
//! that are, and then the run is made anew without them.

use super::raw::{self, read_value};
use super::run::{MOST_WORDS, Run};
use super::{Pinned, Ref, U64Map};
use crate::directory::Place;
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;
use crate::sync::version::Locked;

/// Keys of a run that may be gone.
///
/// Walks pass over them, one line each. Fewer make more copies of runs, a few microseconds each.
const MOST_GONE: usize = MOST_WORDS / 8;

impl<V: Send + Sync> U64Map<V> {
    /// Takes a key out of the table, if its value is the one that is wanted.
    fn take(
        &self,
        pinned: &Pinned<'_, V>,
        hash: u64,
        wanted: &mut impl FnMut(Word) -> bool,
    ) -> Option<Word> {
        let mut backoff = Backoff::new();
        loop {
            let segment = self.segment(hash, &pinned.guard)?;
            let Ok(mut held) = segment.lock(hash) else {
                backoff.wait();
                continue;
            };
            let Ok(place) = segment.slot(&mut held, hash) else {
                drop(held);
                backoff.wait();
                continue;
            };
            let Place::Entry(at) = place else { return None };
            let old = segment.value(at);
            if !wanted(old) {
                return None;
            }
            segment.take(&mut held, at);
            return Some(old);
        }
    }

    /// Counts a key that was removed, and cleans its run if many were.
    fn count(&self, pinned: &Pinned<'_, V>, key: u64, garbage: &mut Vec<raw::Garbage<V>>) {
        let mut backoff = Backoff::new();
        while let Some(run) = self.order.run(key, &pinned.guard) {
            let are_many = run.count_removed() > MOST_GONE.min(run.len() / 2);
            // Of one that has been replaced nobody may have seen the count.
            let is_counted = !run.version.begin().is_dead();
            if is_counted
                && (!are_many || self.clean(pinned, (run, run.version.lock()), garbage, None))
            {
                return;
            }
            backoff.wait();
        }
    }
}

impl<V> U64Map<V> {
    /// Makes a run anew without the keys that are gone. Tells whether it is done with: if not, the run that is there now is to be
    /// looked at once more. If all are, `stays` is left.
    fn clean<'g>(
        &self,
        pinned: &'g Pinned<'_, V>,
        (run, locked): (&'g Run, Locked<'g>),
        garbage: &mut Vec<raw::Garbage<V>>,
        stays: Option<u64>,
    ) -> bool {
        let guard = &pinned.guard;
        if locked.is_dead() {
            return false;
        }
        let (gone, mut sure, mut unsure) = (run.removed(), 0, 0);
        let mut asked = run.len();
        let mut ask = |count: usize| {
            for _ in 0..count.min(asked) {
                asked -= 1;
                self.ask(run.key(asked), guard);
            }
        };
        ask(super::search::WRITES);
        let is_there = |key| {
            ask(1);
            if stays == Some(key) && sure + unsure == 0 {
                unsure += 1;
                return true;
            }
            let hash = self.spelling.hash(key);
            let Some(segment) = self.segment(hash, guard) else { return true };
            // Who is inserting the key holds its window: between the order and the table, say.
            let Ok(mut held) = segment.try_lock(hash) else {
                unsure += 1;
                return true;
            };
            match segment.slot(&mut held, hash) {
                Ok(Place::Free(..) | Place::Full) => return false,
                Ok(Place::Entry(_)) => sure += 1,
                // Or one on whom the rest of the window waits.
                Err(_) => unsure += 1,
            }
            true
        };
        if self.order.renew((run, locked), gone, guard, is_there, garbage).is_err() {
            // Without memory the run stays as it is.
            return true;
        }
        // Those are gone, or come: of a run that has others a later removal will tell. There may be none for one that has not.
        self.order.take_over(run.low(), unsure, guard);
        unsure == 0 || sure > 0
    }

    /// Takes notice of keys that are gone and that a bound passed over, from where it was to what it found. Makes a run anew without
    /// them if that is often so, and nobody is at work there. One key stays there: a run without would wait for the next one.
    #[cold]
    pub(super) fn clean_passed(
        &self,
        pinned: &Pinned<'_, V>,
        (first, last): (u64, u64),
        passed: usize,
    ) {
        let (guard, mut at) = (&pinned.guard, Some(first));
        while let Some(run) = at.and_then(|at| self.order.run(at, guard)) {
            if run.is_to_be_cleaned(passed)
                && let Some(locked) = run.version.try_lock()
                && let Some(highest) = (0..run.len()).map(|at| run.key(at)).max()
            {
                let mut garbage = Vec::new();
                self.clean(pinned, (run, locked), &mut garbage, Some(highest));
                self.shards.leave(&self.left, pinned.thread, guard, garbage);
            }
            at = run.last().checked_add(1).filter(|next| *next <= last);
        }
    }
}

impl<V: Send + Sync> Pinned<'_, V> {
    /// Removes `key` and returns its value, if there was one.
    ///
    /// # Cost
    ///
    /// The line fetches of [`get`](Self::get), and a line of the key's run, which is mostly cached.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant. The value is dropped once nobody can be reading it.
    ///
    /// # Panics
    ///
    /// If dropping a value that was removed or replaced earlier does. The key is removed all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::U64Map;
    ///
    /// let map = U64Map::new();
    /// let pinned = map.pin();
    /// pinned.insert(7, 1);
    /// assert_eq!(pinned.remove(7).as_deref(), Some(&1));
    /// assert!(pinned.remove(7).is_none());
    /// ```
    pub fn remove(&self, key: u64) -> Option<Ref<'_, V>> {
        self.remove_if(key, |_| true)
    }

    /// Removes `key` if its value is the one `wanted` accepts, which is no user code.
    pub(super) fn remove_if(
        &self,
        key: u64,
        mut wanted: impl FnMut(Word) -> bool,
    ) -> Option<Ref<'_, V>> {
        let map = self.map;
        let hash = map.spelling.hash(key);
        let old = map.take(self, hash, &mut wanted)?;
        map.shards.removed(self.thread);
        let mut garbage = Vec::new();
        garbage.extend(raw::garbage_of(old));
        map.count(self, key, &mut garbage);
        if let Some(segment) = map.segment(hash, &self.guard)
            && segment.is_sparse()
        {
            map.shrink(&self.guard, segment, &mut garbage);
        }
        if !garbage.is_empty() {
            map.retire(self, garbage);
        }
        Some(Ref::new(read_value(old)))
    }
}
