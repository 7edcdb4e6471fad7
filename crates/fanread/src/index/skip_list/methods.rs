//! What can be said in words of the other files: the methods that all ordered maps have, here for keys of any type.

use core::borrow::Borrow;
use core::iter::FusedIterator;
use core::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::iter::{Iter, NOW, Range};
use super::key::SkipKey;
use super::{Pinned, Ref, SkipList};
use crate::api::{Copies, InsertError, MemoryUsage, Rule, Written};
use crate::mem::word::Word;

/// An entry that was found.
type Entry<'g, K, V> = (&'g K, Ref<'g, V>);

impl<K: SkipKey, V> Pinned<'_, K, V> {
    /// Lets memory be used again that was given up since the handle was made. Whatever the handle has handed out
    /// must be gone, which the compiler checks.
    ///
    /// Does nothing while the thread has another handle, of this map or of any other: a loop that uses several maps makes its handles
    /// anew for every few hundred operations.
    #[inline]
    pub fn repin(&mut self) {
        self.guard.repin();
    }

    /// Returns how many entries the map has; see [`SkipList::len`].
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns what the map takes in memory.
    pub fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    /// Returns whether `key` has a value. Costs what [`get`](Self::get) does.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Returns the entries between two bounds, in key order, from both ends.
    ///
    /// # Cost
    ///
    /// A [`get`](Self::get)'s fetches to begin; then a line or two for each entry, about 16 entries at a time. Backwards one
    /// after another, and a search for every 8 entries.
    ///
    /// # Concurrency
    ///
    /// Keys come strictly increasing and inside the bounds. A key that is in the map all the time is yielded; one
    /// that comes or goes may be. No lock is held between two entries. For the entries of one instant, take a
    /// [`snapshot`](SkipList::snapshot).
    ///
    /// Inverted bounds are an empty range, not a panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    /// use std::ops::Bound::{Excluded, Unbounded};
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// for (key, value) in [("ant", 1), ("bee", 2), ("cat", 3), ("dog", 4)] {
    ///     pinned.insert(String::from(key), value);
    /// }
    /// let mut range = pinned.range::<str, _>((Excluded("ant"), Unbounded));
    /// assert_eq!(range.next().map(|(_, value)| *value), Some(2));
    /// assert_eq!(range.next_back().map(|(_, value)| *value), Some(4));
    /// assert_eq!(range.count(), 1);
    /// ```
    pub fn range<Q, B>(&self, range: B) -> Range<'_, K, V, Q, B>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
        B: RangeBounds<Q>,
    {
        Range::new(self, NOW, range)
    }

    /// Returns all entries in key order; see [`range`](Self::range).
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.range(..)
    }

    /// Returns the entry with the smallest key.
    pub fn first_key_value(&self) -> Option<Entry<'_, K, V>> {
        self.map.first_in::<K>(self, NOW, Bound::Unbounded)
    }

    /// Returns the entry with the largest key.
    pub fn last_key_value(&self) -> Option<Entry<'_, K, V>> {
        self.iter().next_back()
    }

    /// Returns the first entry at or above the bound: `Included(key)` includes `key` itself.
    ///
    /// # Cost
    ///
    /// What [`get`](Self::get) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    /// use std::ops::Bound::Excluded;
    ///
    /// let map = SkipList::from_sorted([(10, 1), (20, 2)])?;
    /// let pinned = map.pin();
    /// let next = pinned.lower_bound(Excluded(&10));
    /// assert_eq!(next.map(|(_, value)| *value), Some(2));
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn lower_bound<Q>(&self, bound: Bound<&Q>) -> Option<Entry<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.map.first_in(self, NOW, bound)
    }

    /// Returns the last entry at or below the bound: `Included(key)` includes `key` itself. Costs what
    /// [`lower_bound`](Self::lower_bound) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    /// use std::ops::Bound::Included;
    ///
    /// let map = SkipList::from_sorted([(10, 1), (30, 3)])?;
    /// let pinned = map.pin();
    /// let last = pinned.upper_bound(Included(&20));
    /// assert_eq!(last.map(|(_, value)| *value), Some(1));
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn upper_bound<Q>(&self, bound: Bound<&Q>) -> Option<Entry<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.range((Bound::Unbounded, bound)).next_back()
    }
}

impl<K: SkipKey + Send + Sync, V: Send + Sync> Pinned<'_, K, V> {
    /// Maps `key` to `value` and returns the value it replaces, if there was one. The key that is there stays.
    ///
    /// # Cost
    ///
    /// The line fetches of [`get`](Self::get). A value that replaces another one takes a piece of memory of its own, and a
    /// line more for all who read it.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant. A `get` that overlaps the call returns the old value or the new one; a `get` that
    /// starts after it returns the new one. Waits for nobody, except for the moment in which memory is handed out.
    ///
    /// # Panics
    ///
    /// If there is no memory; [`try_insert`](Self::try_insert) returns that as an error, and the map is unchanged. If comparing
    /// keys does, or dropping a value that was removed or replaced earlier; the write has taken effect or not then.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// assert!(pinned.insert("ant", 1).is_none());
    /// assert_eq!(pinned.insert("ant", 2).as_deref(), Some(&1));
    /// ```
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: K, value: V) -> Option<Ref<'_, V>> {
        match self.try_insert(key, value) {
            Ok(old) => old,
            Err(error) => panic!("{error}"),
        }
    }

    /// Maps `key` to `value` as [`insert`](Self::insert) does, whether it has a value or not; to keep one that is there, see
    /// [`insert_if_absent`](Self::insert_if_absent).
    ///
    /// # Errors
    ///
    /// [`InsertError::OutOfMemory`] if there was no memory for the entry. The map is unchanged and the error hands `value`
    /// back.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// assert!(pinned.try_insert("ant", 1)?.is_none());
    /// # Ok::<(), fanread::InsertError<u64>>(())
    /// ```
    pub fn try_insert(&self, key: K, value: V) -> Result<Option<Ref<'_, V>>, InsertError<V>> {
        Ok(match self.map.write(self, key, value, Rule::Always)? {
            Written::New(_) => None,
            Written::Replaced(old) => Some(Ref::new(old)),
            Written::Refused(..) => unreachable!("nothing forbids an insertion"),
        })
    }

    /// Maps `key` to `value` if it has none, and returns the value in its place.
    ///
    /// Of threads that do so with one key at once, one inserts. To look first whether there is a value, and make one only if
    /// there is none, see [`get_or_insert_with`](Self::get_or_insert_with).
    ///
    /// # Cost
    ///
    /// That of [`insert`](Self::insert), whether the key has a value or not.
    ///
    /// # Errors
    ///
    /// The value that the key has already, and `value`.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// assert!(pinned.insert_if_absent("ant", 5).is_ok());
    /// let (there, back) = pinned.insert_if_absent("ant", 6).unwrap_err();
    /// assert_eq!((*there, back), (5, 6));
    /// ```
    #[track_caller]
    pub fn insert_if_absent(&self, key: K, value: V) -> Result<Ref<'_, V>, (Ref<'_, V>, V)> {
        match self.map.write(self, key, value, Rule::Absent) {
            Ok(Written::New(new)) => Ok(Ref::new(new)),
            Ok(Written::Refused(Some(there), value)) => Err((Ref::new(there), value)),
            Ok(_) => unreachable!("an absent key's write is refused by a value only"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the value of `key`; inserts what `make` returns if there is none.
    ///
    /// `make` runs outside of any lock. If another thread inserts meanwhile, its value stays and is returned.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert), and if `make` does; the map is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// assert_eq!(*pinned.get_or_insert_with("ant", || 5), 5);
    /// assert_eq!(*pinned.get_or_insert_with("ant", || 6), 5);
    /// ```
    #[track_caller]
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Ref<'_, V> {
        if let Some(found) = self.get::<K>(&key) {
            return found;
        }
        match self.map.write(self, key, make(), Rule::Absent) {
            Ok(Written::New(read) | Written::Refused(Some(read), _)) => Ref::new(read),
            Ok(_) => unreachable!("an absent key's write is refused by a value only"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Replaces the value of `key` by what `change` makes of it, and returns the value it replaced; `None` if there
    /// is none.
    ///
    /// `change` runs outside of any lock, and again if another thread changes the value meanwhile.
    ///
    /// # Panics
    ///
    /// If `change` does, or if there is no memory; the map is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// pinned.insert("ant", 5);
    /// assert_eq!(pinned.update("ant", |count| count + 1).as_deref(), Some(&5));
    /// assert_eq!(pinned.get("ant").as_deref(), Some(&6));
    /// ```
    #[track_caller]
    pub fn update<Q>(&self, key: &Q, mut change: impl FnMut(&V) -> V) -> Option<Ref<'_, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        loop {
            let mut old = self.get(key)?;
            // Before `change` looks at the value: of a small one it has a copy, which may change as it is looked at.
            let seen = old.word();
            match self.map.overwrite(self, key, change(&old), seen) {
                Ok(Written::Replaced(old)) => return Some(Ref::new(old)),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Replaces the value of `key` by `new` if it equals `current`, and returns the value it replaced.
    ///
    /// # Errors
    ///
    /// The value that is there instead, if any, and `new`.
    ///
    /// # Panics
    ///
    /// If comparing does, or if there is no memory; the map is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// pinned.insert("ant", 5);
    /// assert!(pinned.compare_exchange("ant", &5, 6).is_ok());
    /// let (found, _) = pinned.compare_exchange("ant", &5, 7).unwrap_err();
    /// assert_eq!(found.as_deref(), Some(&6));
    /// ```
    #[track_caller]
    pub fn compare_exchange<Q>(
        &self,
        key: &Q,
        current: &V,
        mut new: V,
    ) -> Result<Ref<'_, V>, (Option<Ref<'_, V>>, V)>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
        V: PartialEq,
    {
        loop {
            let Some(mut old) = self.get(key) else { return Err((None, new)) };
            // As in `update`.
            let seen = old.word();
            if *old != *current {
                return Err((Some(old), new));
            }
            match self.map.overwrite(self, key, new, seen) {
                Ok(Written::Replaced(old)) => return Ok(Ref::new(old)),
                Ok(Written::Refused(_, back)) => new = back,
                Ok(Written::New(_)) => unreachable!("only a value that is there is exchanged"),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Removes and returns the first entry in key order.
    ///
    /// # Concurrency
    ///
    /// A search, and then a removal of what it has found; another search if others have removed that. Who inserts a smaller key
    /// between the two comes too late for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::from_sorted([(1, 'a'), (2, 'b')])?;
    /// let pinned = map.pin();
    /// assert_eq!(pinned.pop_first().map(|(key, value)| (*key, *value)), Some((1, 'a')));
    /// assert!(!pinned.contains_key(&1));
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn pop_first(&self) -> Option<Entry<'_, K, V>> {
        loop {
            let (key, _) = self.first_key_value()?;
            if let Some(value) = self.remove::<K>(key) {
                return Some((key, value));
            }
        }
    }

    /// Removes and returns the last entry in key order; as [`pop_first`](Self::pop_first).
    pub fn pop_last(&self) -> Option<Entry<'_, K, V>> {
        loop {
            let (key, _) = self.last_key_value()?;
            if let Some(value) = self.remove::<K>(key) {
                return Some((key, value));
            }
        }
    }

    /// Removes every entry for which `keep` returns false.
    ///
    /// `keep` runs outside of any lock. An entry whose value another thread replaces after `keep` has seen it stays.
    ///
    /// # Panics
    ///
    /// If `keep` does. Entries refused before that are removed.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::from_sorted((0..10).map(|n| (n, n)))?;
    /// map.pin().retain(|_, value| value % 2 == 1);
    /// assert_eq!(map.len(), 5);
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        for (key, mut value) in self {
            // As in `update`.
            let seen = value.word();
            if !keep(key, &value) {
                self.remove_if(key, seen);
            }
        }
    }

    /// Removes a key if its value is still the one that was found.
    fn remove_if(&self, key: &K, value: Word) {
        if let Some(node) = self.map.node_of::<K>(self, key) {
            self.remove_node(node, |now| core::ptr::eq(now.word(), value));
        }
    }

    /// Removes all entries.
    ///
    /// # Concurrency
    ///
    /// Each entry is removed by itself. An entry that another thread inserts meanwhile may stay.
    pub fn clear(&self) {
        for (key, _) in self {
            self.remove::<K>(key);
        }
    }
}

crate::api::from_entries! {
    [K: SkipKey + Send + Sync, V: Send + Sync] SkipList<K, V>, (K, V),
    |keys, values| keys.into_iter().zip(values),
    example: [
        " use fanread::SkipList;",
        "",
        " let map: SkipList<_, _> = [(\"ant\", 1), (\"ant\", 2)].into_iter().collect();",
        " assert_eq!(map.pin().get(\"ant\").as_deref(), Some(&2));"
    ],
}

impl<'g, K: SkipKey, V> IntoIterator for &'g Pinned<'_, K, V> {
    type Item = Entry<'g, K, V>;
    type IntoIter = Iter<'g, K, V>;

    fn into_iter(self) -> Iter<'g, K, V> {
        self.iter()
    }
}

/// An iterator over all entries that owns its hold on the map and may move between threads.
///
/// It pins for one step at a time, so it delays nobody's memory while it is kept, and finds its place again by the
/// last key. Keys and values are copies.
#[derive(Debug)]
pub struct IntoIter<K: SkipKey, V>(Copies<SkipList<K, V>, K, V>);

/// Entries that an owned iterator copies at a time. A search costs as much as some ten entries.
const OWNED_STEP: usize = 100;

impl<K: SkipKey + Clone + Send + Sync, V: Clone + Send + Sync> SkipList<K, V> {
    /// Returns an iterator over copies of all entries that is `Send` and borrows nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    /// use std::sync::Arc;
    ///
    /// let map = Arc::new(SkipList::new());
    /// map.pin().insert("ant", 1);
    /// let all = std::thread::spawn(move || map.iter_owned().collect::<Vec<_>>());
    /// assert_eq!(all.join().unwrap(), [("ant", 1)]);
    /// ```
    pub fn iter_owned(self: &Arc<Self>) -> IntoIter<K, V> {
        IntoIter(Copies::of(self))
    }
}

impl<K: SkipKey + Clone + Send + Sync, V: Clone + Send + Sync> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(|map, last| {
            let from = last.map_or(Bound::Unbounded, Bound::Excluded);
            let pinned = map.pin();
            let ahead = pinned.range::<K, _>((from, Bound::Unbounded)).take(OWNED_STEP);
            ahead.map(|(key, value)| (key.clone(), V::clone(&value))).collect()
        })
    }
}

impl<K: SkipKey + Clone + Send + Sync, V: Clone + Send + Sync> FusedIterator for IntoIter<K, V> {}
