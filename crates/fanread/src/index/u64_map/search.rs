//! Points: the value of a key.

use core::ops::Bound;

use super::raw::read_value;
use super::table::{Asked, MOST_ASKED, Segment};
use super::{Pinned, Range, Ref, U64Map};
use crate::mem::word::Read;
use crate::sync::epoch::Guard;

/// How many keys of a batch are looked for at once.
///
/// A line each, seldom two: 16 keep the fill buffers of a core busy. More push lines out of L1 before they are looked at where
/// a core is busy with two threads.
pub(super) const BATCH: usize = if cfg!(miri) { 2 } else { 16 };

const _: () = assert!(BATCH <= MOST_ASKED);

impl<V> U64Map<V> {
    /// The segment of a hash; `None` in a map that never had an entry.
    #[inline(always)]
    pub(super) fn segment<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Segment> {
        self.table.segment(hash, guard)
    }

    /// Finds the value of a key.
    #[inline(always)]
    pub(super) fn find<'g>(&self, key: u64, guard: &'g Guard) -> Option<Read<'g, V>> {
        let hash = self.spelling.hash(key);
        self.segment(hash, guard)?.find(hash).map(read_value)
    }

    /// Asks for the line of a key.
    #[inline(always)]
    pub(super) fn ask(&self, key: u64, guard: &Guard) {
        let hash = self.spelling.hash(key);
        if let Some(segment) = self.segment(hash, guard) {
            segment.ask(hash);
        }
    }
}

impl<V> Pinned<'_, V> {
    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// One line, or two neighbouring ones for some keys: one wait. A key that is not there costs one to four neighbouring
    /// lines.
    ///
    /// # Concurrency
    ///
    /// Takes no lock, stores nothing, and waits for nobody. Takes effect at some instant of the call.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::U64Map;
    ///
    /// let map = U64Map::new();
    /// let pinned = map.pin();
    /// pinned.insert(7, "seven");
    /// assert_eq!(pinned.get(7).as_deref(), Some(&"seven"));
    /// assert!(pinned.get(8).is_none());
    /// ```
    #[inline]
    pub fn get(&self, key: u64) -> Option<Ref<'_, V>> {
        self.map.find(key, &self.guard).map(Ref::new)
    }

    /// Looks up all `keys` and stores the answer for `keys[i]` in `found[i]`.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`get`](Self::get)s, those of 16 keys at once. Allocates nothing.
    ///
    /// # Concurrency
    ///
    /// Each key's lookup takes effect by itself, as a `get` at some instant of the call.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::U64Map;
    ///
    /// let map = U64Map::new();
    /// let pinned = map.pin();
    /// pinned.insert(1, 'a');
    /// let mut found = [None; 2];
    /// pinned.get_batch(&[1, 2], &mut found);
    /// assert_eq!(found[0].as_deref(), Some(&'a'));
    /// assert!(found[1].is_none());
    /// ```
    pub fn get_batch<'g>(&'g self, keys: &[u64], found: &mut [Option<Ref<'g, V>>]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.map(Ref::new));
    }

    /// Looks up all `keys` and stores in `found[i]` whether `keys[i]` has a value; as [`get_batch`](Self::get_batch).
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn contains_batch(&self, keys: &[u64], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.is_some());
    }

    /// Looks up keys, a few at a time.
    fn find_all<'g>(&'g self, keys: &[u64], mut found: impl FnMut(usize, Option<Read<'g, V>>)) {
        let map = self.map;
        let Some(names) = map.table.names(&self.guard) else {
            (0..keys.len()).for_each(|index| found(index, None));
            return;
        };
        let mut asked = Asked::new();
        for (at, keys) in keys.chunks(BATCH).enumerate() {
            asked.clear();
            for key in keys {
                let hash = map.spelling.hash(*key);
                asked.ask(names.segment(hash, &self.guard), hash);
            }
            asked.resolve(|i, word| found(at * BATCH + i, word.map(read_value)));
        }
    }

    /// The first entry at or above a bound.
    pub(super) fn first_from(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        Range::of_one(self, bound, Bound::Unbounded).next()
    }

    /// The last entry at or below a bound.
    pub(super) fn last_up_to(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        Range::of_one(self, Bound::Unbounded, bound).next_back()
    }
}
