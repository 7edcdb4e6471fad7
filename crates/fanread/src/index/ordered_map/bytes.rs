//! The map whose values are byte strings, kept in the records of their keys.
//!
//! It is an `OrderedMap` of unsized values: what differs is that a new value is a new record, which takes the place of the old one
//! (`insert.rs`), and that values are lent and taken as slices. This file says so, and nothing else.

use core::fmt;
use core::iter::FusedIterator;
use core::ops::{Bound, RangeBounds};
use std::sync::Arc;

pub use super::MAX_KEY_BYTES;
pub use super::alone::Asked;
use super::search::INSERTS;
use super::{OrderedMap, Range as AnyRange};
pub use crate::api::{Broken, Ref};
use crate::api::{
    Copies, Edge, InsertError, Key, LoadError, MemoryUsage, Options, Outcome, Rule, inverted,
    take_batch,
};
use crate::mem::AllocError;
use crate::mem::bytes::NewBytes;
use crate::mem::word::{Read, Word};

/// Entries between two bounds, in key order, from both ends; see [`Pinned::range`].
pub type Range<'g> = AnyRange<'g, [u8]>;

/// An ordered map from byte strings to byte strings: two waits for a point, value and all, and order for a range.
///
/// It is an [`OrderedMap`](crate::OrderedMap) whose values have any length and lie in the records of their keys, so that a
/// [`get`](Pinned::get) waits for nothing else; those of more than 1 KB have an allocation of their own. There are at most 32 GB of keys and of values that are not; more need more maps.
/// Beside key and value an entry
/// takes 8 bytes of its record, some 7 of the directory and some 6 of a leaf. Memory of records is used again for records of the
/// same size; values that grow or shrink take few sizes, which together are some three times the largest.
///
/// A value is not changed in place: [`insert`](Pinned::insert) writes a new record, which takes the place of the old one at one
/// instant. [`get_mut`](Self::get_mut) changes one in place, for who has the map for himself.
///
/// # Examples
///
/// ```
/// use fanread::BytesMap;
///
/// let map = BytesMap::new();
/// let pinned = map.pin();
/// pinned.insert(b"kiwi", b"green");
/// pinned.insert(b"plum", b"purple");
/// assert_eq!(pinned.get(b"kiwi").as_deref(), Some(&b"green"[..]));
/// let all: Vec<_> = pinned.iter().map(|(key, value)| (key.to_vec(), value.len())).collect();
/// assert_eq!(all, [(b"kiwi".to_vec(), 5), (b"plum".to_vec(), 6)]);
/// ```
pub struct BytesMap {
    pub(super) map: OrderedMap<[u8]>,
    /// Whether the last key that was [set](Self::set) was new.
    pub(super) grows: bool,
}

impl Default for BytesMap {
    fn default() -> Self {
        Self::with_options(Options::new())
    }
}

impl fmt::Debug for BytesMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BytesMap").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl BytesMap {
    /// Makes an empty map, which allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty map.
    pub fn with_options(options: Options) -> Self {
        Self { map: OrderedMap::with_options(options), grows: false }
    }

    /// Returns the handle through which the map is used; see [`OrderedMap::pin`](crate::OrderedMap::pin).
    #[inline]
    pub fn pin(&self) -> Pinned<'_> {
        Pinned { any: self.map.pin_any() }
    }

    /// Returns how many entries the map has. Exact when no writer is active.
    pub fn len(&self) -> usize {
        self.map.shards.entries()
    }

    /// Returns whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what the map takes in memory, values included.
    pub fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    /// Builds a map of entries whose keys ascend strictly; see [`OrderedMap::from_sorted`](crate::OrderedMap::from_sorted).
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAscending`] and [`LoadError::KeyTooLong`] with the entry's number, and
    /// [`LoadError::OutOfMemory`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::{BytesMap, LoadError};
    ///
    /// let map = BytesMap::from_sorted([("ant", "6"), ("spider", "8")])?;
    /// assert_eq!(map.pin().get(b"spider").as_deref(), Some(&b"8"[..]));
    /// # Ok::<(), LoadError>(())
    /// ```
    pub fn from_sorted<K: AsRef<[u8]>, W: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, W)>,
    ) -> Result<Self, LoadError> {
        let entries = entries.into_iter();
        let map = OrderedMap::with_options(Options::new().capacity(entries.size_hint().0));
        let map = OrderedMap::load(map, entries, |map, thread, key, value: W| {
            let new = NewBytes::of(&map.apart, value.as_ref())?;
            let number = map.new_record(thread, (key, map.hash_if_long(key)), new, None);
            let number = number.inspect_err(|_| new.discard(&map.apart))?;
            Ok((number, value))
        })?;
        Ok(Self { map, grows: false })
    }

    /// Returns an iterator over copies of all entries that is `Send` and borrows nothing; see
    /// [`OrderedMap::iter_owned`](crate::OrderedMap::iter_owned).
    pub fn iter_owned(self: &Arc<Self>) -> IntoIter {
        IntoIter(Copies::of(self))
    }
}

crate::api::from_entries! {
    [K: AsRef<[u8]>, W: AsRef<[u8]>] BytesMap, (K, W),
    |keys, values| keys.iter().map(AsRef::as_ref).zip(values.iter().map(AsRef::as_ref)),
    example: [
        " use fanread::BytesMap;",
        "",
        " let map: BytesMap = [(\"ant\", \"6\"), (\"ant\", \"six\")].into_iter().collect();",
        " assert_eq!(map.pin().get(b\"ant\").as_deref(), Some(&b\"six\"[..]));"
    ],
}

/// The handle through which a [`BytesMap`] is used; see [`BytesMap::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct Pinned<'m> {
    any: super::Pinned<'m, [u8]>,
}

impl fmt::Debug for Pinned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// What a write of bytes did.
pub(super) enum Written<'g> {
    /// There was no value; now there is this one.
    New(Ref<'g, [u8]>),
    /// This value was replaced.
    Replaced(Ref<'g, [u8]>),
    /// The rule forbade it; this value is there, if any.
    Refused(Option<Ref<'g, [u8]>>),
}

impl Pinned<'_> {
    /// Lets memory be used again that was given up since the handle was made. Whatever the handle has handed out must be gone,
    /// which the compiler checks.
    ///
    /// Does nothing while the thread has another handle, of this map or of any other: a loop that uses several maps makes its handles
    /// anew for every few hundred operations.
    #[inline]
    pub fn repin(&mut self) {
        self.any.guard.repin();
    }

    /// Returns how many entries the map has; see [`BytesMap::len`].
    pub fn len(&self) -> usize {
        self.any.map.shards.entries()
    }

    /// Returns whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what the map takes in memory.
    pub fn memory_usage(&self) -> MemoryUsage {
        self.any.map.memory_usage()
    }

    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// Two waits: the line of the key's bucket, then its record, of which two lines are asked for at once. A value of more than 1 KB
    /// is a third. An absent key costs one wait, and one key in twenty another's record.
    ///
    /// # Concurrency
    ///
    /// Takes no lock, stores nothing, and waits for nobody. Takes effect at some instant of the call.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Ref<'_, [u8]>> {
        self.any.get(key)
    }

    /// Returns whether `key` has a value. Costs what [`get`](Self::get) does.
    #[inline]
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Looks up all `keys` and stores the answer for `keys[i]` in `found[i]`.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`get`](Self::get)s, those of 64 keys at once. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn get_batch<'g>(&'g self, keys: &[&[u8]], found: &mut [Option<Ref<'g, [u8]>>]) {
        self.any.get_batch(keys, found);
    }

    /// Looks up all `keys` and stores in `found[i]` whether `keys[i]` has a value; as [`get_batch`](Self::get_batch).
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn contains_batch(&self, keys: &[&[u8]], found: &mut [bool]) {
        self.any.contains_batch(keys, found);
    }

    /// Returns entries that chance picks, as many as are taken, each of them any: an entry may come again. `below(n)` gives a number below
    /// `n`; if all are as likely, so are all entries. An empty map has none. If a quarter of a million slots in a row have no entry, as may be
    /// in a map that has lost nearly all of a billion, the first one is picked.
    ///
    /// # Cost
    ///
    /// To begin, a look at each segment of the directory: one for some 30,000 entries. Then two lines for each entry, and a line
    /// for each slot that has none, of which there are about as few as a third and as many as a dozen for each one that has.
    ///
    /// # Concurrency
    ///
    /// Entries that are added meanwhile may never be picked; what is picked was an entry at some instant since the first was.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let map = BytesMap::from_sorted([("ant", "6"), ("bee", "6"), ("spider", "8")])?;
    /// let mut number = 7_usize;
    /// let pinned = map.pin();
    /// let picked = pinned.draws(|end| {
    ///     number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
    ///     (number >> 33) % end
    /// });
    /// assert_eq!(picked.take(10).count(), 10);
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn draws(
        &self,
        below: impl FnMut(usize) -> usize,
    ) -> impl Iterator<Item = (Key<'_>, Ref<'_, [u8]>)> {
        let mut draws = self.any.draws(below);
        core::iter::from_fn(move || {
            let drawn =
                draws.next().map(|(record, value)| (Key::long(record.key()), Ref::new(value)));
            drawn.or_else(|| self.first_key_value())
        })
    }

    /// Returns the entries between two bounds, in key order, from both ends.
    ///
    /// # Cost
    ///
    /// The fetches of [`lower_bound`](Self::lower_bound) to begin; then a record for each entry, those of the next 32 asked for
    /// ahead, and a line for 16 entries. A value of more than 1 KB is a wait of its own.
    ///
    /// # Concurrency
    ///
    /// Keys come strictly increasing and inside the bounds. A key that is in the map all the time is yielded; one that comes or
    /// goes may be. Each value was its key's at some instant of the walk. No lock is held between two entries.
    ///
    /// Inverted bounds are an empty range, not a panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let map = BytesMap::from_sorted([("ant", "6"), ("bee", "6"), ("spider", "8")])?;
    /// let from: &[u8] = b"b";
    /// let pinned = map.pin();
    /// let mut range = pinned.range(from..);
    /// assert_eq!(range.next().map(|(key, _)| key.to_vec()), Some(b"bee".to_vec()));
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Range<'_> {
        self.between(range.start_bound().cloned(), range.end_bound().cloned())
    }

    fn between(&self, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Range<'_> {
        Range::new(&self.any, Edge::of(start), Edge::of(end), inverted(start, end))
    }

    /// Returns all entries in key order; see [`range`](Self::range).
    pub fn iter(&self) -> Range<'_> {
        self.range(..)
    }

    /// Returns the entries whose keys start with `prefix`, in key order; see [`range`](Self::range).
    pub fn prefix(&self, prefix: &[u8]) -> Range<'_> {
        Range::new(&self.any, Edge::Included(prefix.into()), Edge::behind(prefix), false)
    }

    /// Returns the entry with the smallest key.
    pub fn first_key_value(&self) -> Option<(Key<'_>, Ref<'_, [u8]>)> {
        self.any.first_from(Bound::Unbounded)
    }

    /// Returns the entry with the largest key.
    pub fn last_key_value(&self) -> Option<(Key<'_>, Ref<'_, [u8]>)> {
        self.any.last_up_to(Bound::Unbounded)
    }

    /// Returns the first entry at or above the bound: `Included(key)` includes `key` itself.
    ///
    /// # Cost
    ///
    /// Four waits, as [`OrderedMap`](crate::OrderedMap)'s: a node of the prefix table, mostly cached; lines of a leaf, twice; the entry's
    /// record.
    pub fn lower_bound(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, [u8]>)> {
        self.any.first_from(bound)
    }

    /// Returns the last entry at or below the bound: `Included(key)` includes `key` itself. Costs what
    /// [`lower_bound`](Self::lower_bound) does.
    pub fn upper_bound(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, [u8]>)> {
        self.any.last_up_to(bound)
    }

    /// Writes a value if the rule allows it.
    pub(super) fn write(
        &self,
        key: &[u8],
        value: &[u8],
        rule: Rule,
    ) -> Result<Written<'_>, InsertError<()>> {
        let map = self.any.map;
        if key.len() > MAX_KEY_BYTES {
            let (key_bytes, max_bytes) = (key.len(), MAX_KEY_BYTES);
            return Err(InsertError::KeyTooLong { key_bytes, max_bytes, value: () });
        }
        let failed = |AllocError { bytes }| InsertError::OutOfMemory { bytes, value: () };
        let value = NewBytes::of(&map.apart, value).map_err(failed)?;
        let probe = map.list.table.probe(key, &self.any.guard);
        let mut garbage = Vec::new();
        let outcome = map.put(&self.any, (key, probe), value, rule, &mut garbage);
        map.clear_up(&self.any, garbage);
        if !matches!(outcome, Ok((Outcome::New | Outcome::Replaced(_), _))) {
            value.discard(&map.apart);
        }
        let read = |word: Word| -> Ref<'_, [u8]> {
            let read: Read<'_, [u8]> = super::raw::read_value(word);
            Ref::new(read)
        };
        Ok(match outcome.map_err(failed)? {
            (Outcome::New, word) => Written::New(read(word)),
            (Outcome::Replaced(old), _) => Written::Replaced(read(old)),
            (Outcome::Refused(found), _) => Written::Refused(found.map(read)),
        })
    }

    /// Maps `key` to a copy of `value` and returns the value it replaces, if there was one.
    ///
    /// # Cost
    ///
    /// That of [`OrderedMap`](crate::OrderedMap)'s, whether the key is there or not: a new record is put into the key's leaf.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant. A `get` that overlaps the call returns the old value or the new one; a `get` that starts after
    /// it returns the new one.
    ///
    /// # Panics
    ///
    /// If `key` is longer than [`MAX_KEY_BYTES`], or if there is no memory. [`try_insert`](Self::try_insert)
    /// returns these as errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let map = BytesMap::new();
    /// let pinned = map.pin();
    /// assert!(pinned.insert(b"kiwi", b"green").is_none());
    /// assert_eq!(pinned.insert(b"kiwi", b"golden").as_deref(), Some(&b"green"[..]));
    /// ```
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Option<Ref<'_, [u8]>> {
        match self.try_insert(key, value) {
            Ok(old) => old,
            Err(error) => panic!("{error}"),
        }
    }

    /// Maps `key` to a copy of `value` as [`insert`](Self::insert) does, whether it has a value or not; to keep one that is there, see
    /// [`insert_if_absent`](Self::insert_if_absent).
    ///
    /// # Errors
    ///
    /// [`InsertError::KeyTooLong`] if `key` is longer than [`MAX_KEY_BYTES`], and
    /// [`InsertError::OutOfMemory`] if there was no memory for the entry or for a split. The map is unchanged.
    pub fn try_insert(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Ref<'_, [u8]>>, InsertError<()>> {
        Ok(match self.write(key, value, Rule::Always)? {
            Written::New(_) => None,
            Written::Replaced(old) => Some(old),
            Written::Refused(_) => unreachable!("nothing forbids an insertion"),
        })
    }

    /// Inserts all `entries` in their order; later ones win.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`insert`](Self::insert)s, those of 16 keys' buckets at once.
    ///
    /// # Panics
    ///
    /// As `insert`, or as the iterator; entries before the one that panicked are in the map.
    #[track_caller]
    pub fn insert_batch<'k>(&self, entries: impl IntoIterator<Item = (&'k [u8], &'k [u8])>) {
        if let Err(error) = self.try_insert_batch(entries) {
            panic!("{error}");
        }
    }

    /// Inserts all `entries` as [`insert_batch`](Self::insert_batch) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_insert`](Self::try_insert), for the first entry that cannot be inserted. Entries before it are in the map, and
    /// none behind it.
    pub fn try_insert_batch<'k>(
        &self,
        entries: impl IntoIterator<Item = (&'k [u8], &'k [u8])>,
    ) -> Result<(), InsertError<()>> {
        let map = self.any.map;
        let mut entries = entries.into_iter().fuse();
        loop {
            let (batch, taken) = take_batch::<_, INSERTS>(&mut entries);
            for (key, _) in batch.iter().flatten() {
                map.ask(map.hash(key), &self.any.guard);
            }
            for entry in batch {
                let Some((key, value)) = entry else {
                    taken.resume();
                    return Ok(());
                };
                self.try_insert(key, value)?;
            }
        }
    }

    /// Maps `key` to a copy of `value` if it has none, and returns the value in its place.
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
    /// The value that the key has already.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let map = BytesMap::new();
    /// let pinned = map.pin();
    /// assert!(pinned.insert_if_absent(b"kiwi", b"green").is_ok());
    /// let there = pinned.insert_if_absent(b"kiwi", b"golden").unwrap_err();
    /// assert_eq!(*there, *b"green");
    /// ```
    #[track_caller]
    pub fn insert_if_absent(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Ref<'_, [u8]>, Ref<'_, [u8]>> {
        match self.write(key, value, Rule::Absent) {
            Ok(Written::New(new)) => Ok(new),
            Ok(Written::Refused(Some(there))) => Err(there),
            Ok(_) => unreachable!("an absent key's write is refused by a value only"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the value of `key`; inserts what `make` returns if there is none.
    ///
    /// `make` runs outside of any lock. If another thread inserts meanwhile, its value stays and is returned.
    ///
    /// # Cost
    ///
    /// That of [`get`](Self::get), and if there is no value that of [`insert`](Self::insert).
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert), and if `make` does; the map is unchanged then.
    #[track_caller]
    pub fn get_or_insert_with<W: AsRef<[u8]>>(
        &self,
        key: &[u8],
        make: impl FnOnce() -> W,
    ) -> Ref<'_, [u8]> {
        if let Some(found) = self.get(key) {
            return found;
        }
        match self.write(key, make().as_ref(), Rule::Absent) {
            Ok(Written::New(value) | Written::Refused(Some(value))) => value,
            Ok(_) => unreachable!("an absent key's write is refused by a value only"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Replaces the value of `key` by what `change` makes of it, and returns the value it replaced; `None` if there is none.
    ///
    /// `change` runs outside of any lock, and again if another thread changes the value meanwhile.
    ///
    /// # Cost
    ///
    /// For each time that `change` runs, that of [`get`](Self::get) and of [`insert`](Self::insert).
    ///
    /// # Panics
    ///
    /// If `change` does, or if there is no memory; the map is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::BytesMap;
    ///
    /// let map = BytesMap::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"kiwi", b"green");
    /// pinned.update(b"kiwi", |value| value.repeat(2));
    /// assert_eq!(pinned.get(b"kiwi").as_deref(), Some(&b"greengreen"[..]));
    /// ```
    #[track_caller]
    pub fn update<W: AsRef<[u8]>>(
        &self,
        key: &[u8],
        mut change: impl FnMut(&[u8]) -> W,
    ) -> Option<Ref<'_, [u8]>> {
        loop {
            let mut old = self.get(key)?;
            let seen = Rule::Same(old.word());
            match self.write(key, change(&old).as_ref(), seen) {
                Ok(Written::Replaced(old)) => return Some(old),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Replaces the value of `key` by `new` if it equals `current`, and returns the value it replaced.
    ///
    /// # Errors
    ///
    /// The value that is there instead, if any.
    ///
    /// # Panics
    ///
    /// If there is no memory; the map is unchanged then.
    #[track_caller]
    pub fn compare_exchange(
        &self,
        key: &[u8],
        current: &[u8],
        new: &[u8],
    ) -> Result<Ref<'_, [u8]>, Option<Ref<'_, [u8]>>> {
        loop {
            let Some(mut old) = self.get(key) else { return Err(None) };
            if *old != *current {
                return Err(Some(old));
            }
            match self.write(key, new, Rule::Same(old.word())) {
                Ok(Written::Replaced(old)) => return Ok(old),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Removes `key` and returns its value, if there was one.
    ///
    /// # Cost
    ///
    /// The line fetches of [`get`](Self::get), and the first line of the key's leaf, which waits for a node of the prefix table. One
    /// removal in some dozens copies a leaf.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant. The record's memory is used again once nobody can be reading it.
    pub fn remove(&self, key: &[u8]) -> Option<Ref<'_, [u8]>> {
        self.any.remove(key)
    }

    /// Removes and returns the first entry in key order.
    pub fn pop_first(&self) -> Option<(Key<'_>, Ref<'_, [u8]>)> {
        loop {
            let (key, _) = self.first_key_value()?;
            if let Some(value) = self.remove(&key) {
                return Some((key, value));
            }
        }
    }

    /// Removes and returns the last entry in key order.
    pub fn pop_last(&self) -> Option<(Key<'_>, Ref<'_, [u8]>)> {
        loop {
            let (key, _) = self.last_key_value()?;
            if let Some(value) = self.remove(&key) {
                return Some((key, value));
            }
        }
    }

    /// Removes every entry for which `keep` returns false.
    ///
    /// `keep` runs outside of any lock. An entry whose value another thread replaces after `keep` has seen it stays.
    ///
    /// # Cost
    ///
    /// A walk over the map, and a [`remove`](Self::remove) for each entry that goes, whose memory stays as long as the handle is not
    /// pinned anew.
    ///
    /// # Panics
    ///
    /// If `keep` does. Entries refused before that are removed.
    pub fn retain(&self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        for (key, mut value) in self {
            if !keep(&key, &value) {
                self.any.remove_if(&key, |now| core::ptr::eq(now, value.word()));
            }
        }
    }

    /// Removes all entries.
    ///
    /// # Cost
    ///
    /// A walk over the map, and a [`remove`](Self::remove) for each entry. What is removed keeps its memory as long as the handle is not
    /// pinned anew; who has the map for himself puts a new one in its place.
    ///
    /// # Concurrency
    ///
    /// Each entry is removed by itself. An entry that another thread inserts meanwhile may stay.
    pub fn clear(&self) {
        for (key, _) in self {
            self.remove(&key);
        }
    }

    /// Verifies the structure of the map, for tests. No writer may be active.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        self.any.check()
    }
}

impl<'g> IntoIterator for &'g Pinned<'_> {
    type Item = (Key<'g>, Ref<'g, [u8]>);
    type IntoIter = Range<'g>;

    fn into_iter(self) -> Range<'g> {
        self.iter()
    }
}

/// An iterator over all entries that owns its hold on the map and may move between threads; see [`BytesMap::iter_owned`].
#[derive(Debug)]
pub struct IntoIter(Copies<BytesMap, Box<[u8]>, Box<[u8]>>);

/// Entries that an owned iterator copies at a time.
const OWNED_STEP: usize = 40;

impl Iterator for IntoIter {
    type Item = (Box<[u8]>, Box<[u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(|map, last| {
            let from = last.map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
            let pinned = map.pin();
            let ahead = pinned.range((from, Bound::Unbounded)).take(OWNED_STEP);
            ahead.map(|(key, value)| (Box::from(&*key), Box::from(&*value))).collect()
        })
    }
}

impl FusedIterator for IntoIter {}
