//! A map that a thread holds pinned.
//!
//! A pin that is nested in another one is cheap, but not for nothing: two variables of the thread are looked up, by calls in a
//! shared library, and a counter goes up and down. That is a fifth of the instructions of a lookup, and a processor that has to
//! wait for memory looks only some hundred instructions ahead: with them, the next lookup of a program is out of sight.
//!
//! # Invariants
//!
//! * **L1** `pinned` is touched by the thread whose mark is `thread` alone, and the last owner of a held map is of that thread.
//! * **L2** `pinned` is of `map`, which lives longer.
//!
//! `tests/c/pins.c` has a test of L1: lookups of another thread do without.

use core::cell::UnsafeCell;
use core::ops::Bound;
use std::sync::Arc;

use fanread::MemoryUsage;

use crate::error::Fault;
use crate::face::{Found, Held, Map, Place, Take, Visit};
use crate::pin::thread_mark;
use crate::value::{Answers, Key, KeySlot, Keys, Kind, Slot, Value, Values};

/// A map with the calls that a pin is worth most to.
pub(crate) trait Lookups: Map + Sized + 'static {
    type Pinned<'a>;

    fn pinned(&self) -> Self::Pinned<'_>;
    /// See `Map::get`.
    fn look(pinned: &Self::Pinned<'_>, key: Key<'_>, value: Slot<'_>) -> Result<bool, Fault>;
    /// See `Map::contains`.
    fn has(pinned: &Self::Pinned<'_>, key: Key<'_>) -> Result<bool, Fault>;
    /// See `Map::get_batch`.
    fn look_many(
        pinned: &Self::Pinned<'_>,
        keys: Keys<'_>,
        answers: &mut Answers<'_>,
    ) -> Result<(), Fault>;
}

/// See the module.
pub(crate) struct HeldMap<M: Lookups> {
    /// Above the map, so that it goes first (L2).
    pinned: UnsafeCell<Option<M::Pinned<'static>>>,
    thread: usize,
    map: Arc<M>,
}

// SAFETY: maps may be shared, and `pinned` is touched by its own thread alone, which is also where it ends (L1).
unsafe impl<M: Lookups> Send for HeldMap<M> {}
// SAFETY: as above.
unsafe impl<M: Lookups> Sync for HeldMap<M> {}

impl<M: Lookups> HeldMap<M> {
    /// Holds a map for this thread, to which the caller keeps it (L1).
    pub(crate) fn hold_here(map: Arc<M>) -> Arc<dyn Held> {
        let held = Arc::new(Self { pinned: UnsafeCell::new(None), thread: thread_mark(), map });
        held.pin();
        held
    }

    /// The pin, for the thread that has it and while it has.
    #[inline]
    fn pinned(&self) -> Option<&M::Pinned<'static>> {
        if thread_mark() != self.thread {
            return None;
        }
        // SAFETY: this thread alone touches it (L1), and nothing that holds this reference calls what changes it: a lookup
        // calls nothing of the caller's.
        unsafe { (*self.pinned.get()).as_ref() }
    }

    fn set(&self, pinned: Option<M::Pinned<'static>>) {
        debug_assert_eq!(thread_mark(), self.thread, "L1");
        if thread_mark() == self.thread {
            // SAFETY: this thread alone touches it (L1), and no reference to it is left: see `pinned`.
            unsafe { *self.pinned.get() = pinned };
        }
    }
}

impl<M: Lookups> Held for HeldMap<M> {
    fn unpin(&self) {
        self.set(None);
    }

    fn pin(&self) {
        // SAFETY: the map lives as long as this does, which is longer than the pin (L2).
        let map: &'static M = unsafe { &*Arc::as_ptr(&self.map) };
        self.set(Some(map.pinned()));
    }
}

/// Lookups take the pin that is held. What takes longer anyway has its own, inside of that one; a walk must, since a function of
/// the caller's may let go of the one that is held.
impl<M: Lookups> Map for HeldMap<M> {
    fn values(&self) -> Kind {
        self.map.values()
    }

    fn get(&self, key: Key<'_>, value: Slot<'_>) -> Result<bool, Fault> {
        let Some(pinned) = self.pinned() else { return self.map.get(key, value) };
        M::look(pinned, key, value)
    }

    fn contains(&self, key: Key<'_>) -> Result<bool, Fault> {
        let Some(pinned) = self.pinned() else { return self.map.contains(key) };
        M::has(pinned, key)
    }

    fn insert(&self, key: Key<'_>, value: Value<'_>, old: Slot<'_>) -> Result<bool, Fault> {
        self.map.insert(key, value, old)
    }

    fn remove(&self, key: Key<'_>, old: Slot<'_>) -> Result<bool, Fault> {
        self.map.remove(key, old)
    }

    fn replace(&self, key: Key<'_>, value: Value<'_>, old: Slot<'_>) -> Result<bool, Fault> {
        self.map.replace(key, value, old)
    }

    fn get_or_insert(
        &self,
        key: Key<'_>,
        value: Value<'_>,
        there: Slot<'_>,
    ) -> Result<bool, Fault> {
        self.map.get_or_insert(key, value, there)
    }

    fn compare_exchange(
        &self,
        key: Key<'_>,
        current: Value<'_>,
        new: Value<'_>,
        found: Slot<'_>,
    ) -> Result<Found, Fault> {
        self.map.compare_exchange(key, current, new, found)
    }

    fn find(&self, place: Place<'_>, key: KeySlot<'_>, value: Slot<'_>) -> Result<bool, Fault> {
        self.map.find(place, key, value)
    }

    fn get_batch(&self, keys: Keys<'_>, answers: &mut Answers<'_>) -> Result<(), Fault> {
        let Some(pinned) = self.pinned() else { return self.map.get_batch(keys, answers) };
        M::look_many(pinned, keys, answers)
    }

    fn insert_batch(&self, keys: Keys<'_>, values: Values<'_>) -> Result<(), Fault> {
        self.map.insert_batch(keys, values)
    }

    fn walk(&self, from: Bound<Key<'_>>, up: bool, visit: &mut Visit<'_>) -> Result<(), Fault> {
        self.map.walk(from, up, visit)
    }

    fn walk_many(
        &self,
        from: Bound<Key<'_>>,
        up: bool,
        limit: usize,
        take: &mut Take<'_>,
    ) -> Result<(), Fault> {
        self.map.walk_many(from, up, limit, take)
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn clear(&self) {
        self.map.clear();
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    fn hold(self: Arc<Self>) -> Arc<dyn Held> {
        Self::hold_here(Arc::clone(&self.map))
    }

    fn itself(&self) -> Option<Arc<dyn Map>> {
        let map: Arc<M> = Arc::clone(&self.map);
        Some(map)
    }
}
