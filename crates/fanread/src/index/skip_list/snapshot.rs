//! The map as it was.

use core::borrow::Borrow;
use core::fmt;
use core::ops::{Bound, RangeBounds};

use super::iter::{Iter, Range};
use super::key::SkipKey;
use super::layout::Stamp;
use super::{Pinned, Ref, SkipList};

/// A map as it was at one instant; see [`SkipList::snapshot`].
///
/// It may be kept as long as the map is borrowed, and go to other threads (of a [scope](std::thread::scope), unless the map is
/// `'static`); it delays nobody, and no memory but that of what it sees. Read it through
/// [`pin`](Self::pin). What only it needed is given up when it and all older snapshots are dropped, or when the key in question
/// is written again.
///
/// # Panics
///
/// Dropping it panics if dropping a key or a value does that nobody needs any more.
pub struct Snapshot<'m, K: SkipKey, V> {
    map: &'m SkipList<K, V>,
    stamp: Stamp,
}

impl<K: SkipKey, V> fmt::Debug for Snapshot<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

impl<K: SkipKey, V> Drop for Snapshot<'_, K, V> {
    fn drop(&mut self) {
        self.map.end_snapshot(&self.map.pin(), self.stamp);
    }
}

impl<'m, K: SkipKey, V> Snapshot<'m, K, V> {
    pub(super) fn new(map: &'m SkipList<K, V>) -> Self {
        let stamp = map.begin_snapshot(&map.pin());
        Self { map, stamp }
    }

    /// Returns the handle through which the snapshot is read. As long as it lives, memory that any map of this process gives
    /// up is not used again.
    pub fn pin(&self) -> View<'_, K, V> {
        View { pinned: self.map.pin(), stamp: self.stamp }
    }

    /// Returns the map.
    pub fn map(&self) -> &'m SkipList<K, V> {
        self.map
    }
}

/// The handle through which a [`Snapshot`] is read; see [`Snapshot::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct View<'s, K: SkipKey, V> {
    pinned: Pinned<'s, K, V>,
    stamp: Stamp,
}

impl<K: SkipKey, V> fmt::Debug for View<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

impl<K: SkipKey, V> View<'_, K, V> {
    /// Lets memory be used again that was given up since the handle was made. Whatever the handle has handed out
    /// must be gone, which the compiler checks.
    ///
    /// Does nothing while the thread has another handle, of this map or of any other: a loop that uses several maps makes its handles
    /// anew for every few hundred operations.
    #[inline]
    pub fn repin(&mut self) {
        self.pinned.repin();
    }

    /// Returns the value that `key` had, if there was one. Costs what [`Pinned::get`] does, and a line for each version that
    /// came since.
    pub fn get<Q>(&self, key: &Q) -> Option<Ref<'_, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let map = self.pinned.map;
        map.value_at(map.node_of(&self.pinned, key)?, self.stamp).map(Ref::new)
    }

    /// Returns whether `key` had a value.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Returns the entries between two bounds, in key order, from both ends: those there were, all as they were at one
    /// instant. Costs what [`Pinned::range`] does. Inverted bounds are an empty range.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::from_sorted((0..1_000).map(|n| (n, n)))?;
    /// let snapshot = map.snapshot();
    /// map.pin().clear();
    /// assert_eq!(snapshot.pin().range(500..).count(), 500);
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn range<Q, B>(&self, range: B) -> Range<'_, K, V, Q, B>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
        B: RangeBounds<Q>,
    {
        Range::new(&self.pinned, self.stamp, range)
    }

    /// Returns all entries there were, in key order; see [`range`](Self::range).
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.range(..)
    }

    /// Returns the entry that had the smallest key.
    pub fn first_key_value(&self) -> Option<(&K, Ref<'_, V>)> {
        self.iter().next()
    }

    /// Returns the entry that had the largest key.
    pub fn last_key_value(&self) -> Option<(&K, Ref<'_, V>)> {
        self.iter().next_back()
    }

    /// Returns the first entry at or above the bound: `Included(key)` includes `key` itself.
    pub fn lower_bound<Q>(&self, bound: Bound<&Q>) -> Option<(&K, Ref<'_, V>)>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.pinned.map.first_in(&self.pinned, self.stamp, bound)
    }

    /// Returns the last entry at or below the bound: `Included(key)` includes `key` itself.
    pub fn upper_bound<Q>(&self, bound: Bound<&Q>) -> Option<(&K, Ref<'_, V>)>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.range((Bound::Unbounded, bound)).next_back()
    }
}

impl<'g, K: SkipKey, V> IntoIterator for &'g View<'_, K, V> {
    type Item = (&'g K, Ref<'g, V>);
    type IntoIter = Iter<'g, K, V>;

    fn into_iter(self) -> Iter<'g, K, V> {
        self.iter()
    }
}
