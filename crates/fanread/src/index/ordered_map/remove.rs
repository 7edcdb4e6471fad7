//! Taking entries out.
//!
//! A record is gone from the moment it says so. The directory forgets it then, under the same lock; its number stays in the leaf
//! until a quarter of the leaf's are gone, and then the leaf is made anew without them.

use super::raw::{Garbage, Number, Record, Stored, left_of, read_value};
use super::{OrderedMap, Pinned, Ref, State};
use crate::directory::Place;
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;

impl<V: ?Sized + Stored> OrderedMap<V> {
    /// Takes a key out of the directory, if its value is the one that is wanted.
    fn take<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        (hash, key): (u64, &[u8]),
        wanted: &mut impl FnMut(Word) -> bool,
    ) -> Option<(Record<'g, V>, Word)> {
        let mut backoff = Backoff::new();
        loop {
            let segment = self.table.segment(hash, &pinned.guard)?;
            let Ok(mut held) = segment.lock(hash) else {
                backoff.wait();
                continue;
            };
            let Ok((place, number)): Result<(Place, Number), _> =
                self.slot(segment, &mut held, hash, key)
            else {
                drop(held);
                backoff.wait();
                continue;
            };
            let Place::Entry(at) = place else { return None };
            let record = self.record(number);
            let old = record.word();
            if !wanted(old) {
                return None;
            }
            record.set_state(State::Gone);
            segment.take(&mut held, at);
            if V::MOVES {
                self.recent.forget(hash, number);
            }
            // From here on a leaf may forget it, and then it is freed.
            record.set_state(State::Unnamed);
            return Some((record, old));
        }
    }
}

impl<V: ?Sized + Stored> Pinned<'_, V> {
    /// Removes `key` and returns its value, if there was one.
    ///
    /// # Cost
    ///
    /// The line fetches of [`get`](Self::get), and the first line of the key's leaf, which waits for a node of the prefix table. One
    /// removal in some dozens copies a leaf.
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
    /// use fanread::OrderedMap;
    ///
    /// let map = OrderedMap::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"dodo", 1);
    /// assert_eq!(pinned.remove(b"dodo").as_deref(), Some(&1));
    /// assert!(pinned.remove(b"dodo").is_none());
    /// ```
    pub fn remove(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.remove_if(key, |_| true)
    }

    /// Removes `key` if its value is the one `wanted` accepts, which is no user code.
    pub(super) fn remove_if(
        &self,
        key: &[u8],
        mut wanted: impl FnMut(Word) -> bool,
    ) -> Option<Ref<'_, V>> {
        let map = self.map;
        let probe = map.list.table.probe(key, &self.guard);
        let hash = probe.full_hash();
        let (record, old) = map.take(self, (hash, key), &mut wanted)?;
        map.shards.removed(self.thread);
        let mut garbage: Vec<Garbage<V>> = Vec::new();
        garbage.extend(left_of(&map.apart, record, old).map(Garbage::Value));
        if let Some(hint) = map.hint(key, probe) {
            let leaf = map.list.leaf_of(&map.memory, key, hint);
            if leaf.count_removed() * 4 > leaf.sorted() + leaf.fresh() {
                map.clean(self, leaf, &mut garbage);
            }
        }
        if let Some(segment) = map.table.segment(hash, &self.guard)
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
