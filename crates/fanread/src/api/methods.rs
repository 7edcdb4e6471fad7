//! What the handles of all ordered maps have in common.
//!
//! A map brings `get`, `get_batch`, `write`, `remove_if` and its `Range`; whatever can be said in those words is said here,
//! once, with its documentation. There are two kinds of maps, each with a macro of its own that says what its keys are:
//! on byte strings ([`ordered_map_methods`]) and on numbers ([`u64_map_methods`]). Both hand what they say to
//! [`map_methods`], which writes the methods.

use crate::api::InsertError;
use crate::mem::AllocError;
use crate::mem::boxed::value_of_word;
use crate::mem::word::{self, Read};

/// When a write takes place.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// In any case.
    Always,
    /// If the key has no value.
    Absent,
    /// If the key's value is still this one, as `Read::word` gave it.
    Same(word::Word),
}

impl Rule {
    /// Whether a value that is there may be replaced.
    #[inline(always)]
    pub(crate) fn allows(self, there: word::Word) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => false,
            Self::Same(seen) => core::ptr::eq(there, seen),
        }
    }
}

/// What a write did.
pub(crate) enum Written<'g, V> {
    /// There was no value; now there is this one.
    New(Read<'g, V>),
    /// This value was replaced.
    Replaced(Read<'g, V>),
    /// The rule forbade it; this value is there, if any.
    Refused(Option<Read<'g, V>>, V),
}

/// What a write of a word did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// There was no value.
    New,
    /// This one was replaced.
    Replaced(word::Word),
    /// The rule forbade it; this one is there, if any.
    Refused(Option<word::Word>),
}

impl Outcome {
    /// What the outcome is to who gave the value that `word` was made of.
    ///
    /// # Errors
    ///
    /// If there was no memory; the value comes back.
    #[inline(always)]
    pub(crate) fn written<'g, V>(
        outcome: Result<Self, AllocError>,
        word: word::Word,
        read: impl Fn(word::Word) -> Read<'g, V>,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        Ok(match outcome {
            Ok(Self::New) => Written::New(read(word)),
            Ok(Self::Replaced(old)) => Written::Replaced(read(old)),
            Ok(Self::Refused(found)) => Written::Refused(found.map(read), value_of_word(word)),
            Err(AllocError { bytes }) => {
                return Err(InsertError::OutOfMemory { bytes, value: value_of_word(word) });
            }
        })
    }
}

/// What a map says of its values to the compiler: it owns them, and takes them through a shared reference. A map of long-lived
/// values must not pass for one of shorter-lived ones, so `V` is invariant.
pub(crate) type OwnsAndTakes<V> = (V, fn(V) -> V);

/// Writes the methods of `Pinned` that are the same for every ordered map on byte strings, and the owned iterator.
///
/// The module it is used in has `Pinned` (with fields `map`, `guard` and `thread`, and with `try_insert_batch`, `first_from` and `last_up_to`,
/// of which the last two take a bound and return the entry next to it), `Range` (with `new`, which takes two edges and whether they are inverted), `MAX_KEY_BYTES`, and the map, with `shards`, `with_options`, `memory_usage` and `write`.
macro_rules! ordered_map_methods {
    ($map:ident, insert: $insert_cost:expr, range: $range_cost:expr, bound: $bound_cost:expr $(,)?) => {
        $crate::api::map_methods! {
            $map,
            insert: $insert_cost,
            range: $range_cost,
            bound: $bound_cost,
            key: &[u8],
            found: $crate::api::Key<'_>, 'g $crate::api::Key<'g>, lent by [&],
            bounds: ['k] &'k [u8],
            owned: Box<[u8]>, made by |key| Box::from(&*key), lent by |last| &**last,
            docs: {
                keys: ["b\"ant\"", "b\"bee\"", "b\"cat\"", "b\"dog\""],
                start: "let start: &[u8] = b\"bee\";",
                owned: "Box::from(*b\"ant\")",
                insert_panics:
                    "If `key` is longer than [`MAX_KEY_BYTES`](MAX_KEY_BYTES), or if there is no memory. \
                     [`try_insert`](Self::try_insert) returns these as errors.",
                insert_errors:
                    "[`InsertError::KeyTooLong`](crate::InsertError::KeyTooLong) if `key` is longer than \
                     [`MAX_KEY_BYTES`](MAX_KEY_BYTES), and \
                     [`InsertError::OutOfMemory`](crate::InsertError::OutOfMemory) if there was no memory for the entry or \
                     for a split.",
                try_insert:
                    " let error = pinned.try_insert(&vec![0; 70_000], 2).unwrap_err();\n \
                     assert_eq!(error.into_value(), 2);",
            },
        }

        $crate::api::from_entries! {
            [K: AsRef<[u8]>, V: Send + Sync] $map<V>, (K, V),
            |keys, values| keys.iter().map(AsRef::as_ref).zip(values),
            example: [
                concat!(" use fanread::", stringify!($map), ";"),
                "",
                concat!(" let map: ", stringify!($map), "<_> = [(\"ant\", 1), (\"ant\", 2)].into_iter().collect();"),
                " assert_eq!(map.pin().get(b\"ant\").as_deref(), Some(&2));"
            ],
        }

        impl<V> Pinned<'_, V> {
            fn between(&self, start: core::ops::Bound<&[u8]>, end: core::ops::Bound<&[u8]>) -> Range<'_, V> {
                Range::new(self, $crate::api::Edge::of(start), $crate::api::Edge::of(end), $crate::api::inverted(start, end))
            }

            /// Returns the entries whose keys start with `prefix`, in key order; see [`range`](Self::range).
            pub fn prefix(&self, prefix: &[u8]) -> Range<'_, V> {
                let (start, end) = ($crate::api::Edge::Included(prefix.into()), $crate::api::Edge::behind(prefix));
                Range::new(self, start, end, false)
            }
        }
    };
}

/// Writes the methods of `Pinned` that are the same for every ordered map on numbers, and the owned iterator.
///
/// The module it is used in has `Pinned` (with fields `map`, `guard` and `thread`, and with `try_insert_batch`, `first_from` and `last_up_to`,
/// of which the last two take a bound and return the entry next to it), `Range` (with `new`, which takes two bounds that may be inverted),
/// and the map, with `shards`, `with_options`, `memory_usage` and `write`.
macro_rules! u64_map_methods {
    ($map:ident, insert: $insert_cost:expr, range: $range_cost:expr, bound: $bound_cost:expr $(,)?) => {
        $crate::api::map_methods! {
            $map,
            insert: $insert_cost,
            range: $range_cost,
            bound: $bound_cost,
            key: u64,
            found: u64, 'g u64, lent by [],
            bounds: [] u64,
            owned: u64, made by |key| key, lent by |last| *last,
            docs: {
                keys: ["10", "20", "30", "40"],
                start: "let start = 20;",
                owned: "10",
                insert_panics: "If there is no memory; [`try_insert`](Self::try_insert) returns that as an error.",
                insert_errors:
                    "[`InsertError::OutOfMemory`](crate::InsertError::OutOfMemory) if there was no memory for the entry.",
                try_insert: " assert_eq!(pinned.try_insert(10, 2)?.as_deref(), Some(&1));",
            },
        }

        $crate::api::from_entries! {
            [V: Send + Sync] $map<V>, (u64, V),
            |keys, values| keys.into_iter().zip(values),
            example: [
                concat!(" use fanread::", stringify!($map), ";"),
                "",
                concat!(" let map: ", stringify!($map), "<_> = [(10, 1), (10, 2)].into_iter().collect();"),
                " assert_eq!(map.pin().get(10).as_deref(), Some(&2));"
            ],
        }

        impl<V> Pinned<'_, V> {
            fn between(&self, start: core::ops::Bound<u64>, end: core::ops::Bound<u64>) -> Range<'_, V> {
                Range::new(self, start, end)
            }
        }
    };
}

/// What the two macros above write: the methods of both kinds of maps, and of their handles.
///
/// Each says how a key looks where it is taken; where it is found, and what lends a found key to a method that takes one;
/// in bounds; and where an owned iterator keeps it, with how it is made and lent. And, for the documentation: four keys in
/// ascending order, and the sentences and lines in which the kinds differ.
macro_rules! map_methods {
    (
        $map:ident,
        insert: $insert_cost:expr,
        range: $range_cost:expr,
        bound: $bound_cost:expr,
        key: $key:ty,
        found: $found:ty, $g:lifetime $item:ty, lent by [$($lend:tt)*],
        bounds: [$($k:lifetime)?] $bound:ty,
        owned: $owned:ty, made by |$seen:ident| $own:expr, lent by |$kept:ident| $lent:expr,
        docs: {
            keys: [$a:literal, $b:literal, $c:literal, $d:literal],
            start: $start:literal,
            owned: $owned_a:literal,
            insert_panics: $insert_panics:literal,
            insert_errors: $insert_errors:literal,
            try_insert: $try_insert:literal $(,)?
        } $(,)?
    ) => {
        /// All entries, in order; see [`Pinned::iter`].
        pub type Iter<'g, V> = Range<'g, V>;

        impl<V> Default for $map<V> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<V> core::fmt::Debug for $map<V> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($map)).field("len", &self.len()).finish_non_exhaustive()
            }
        }

        impl<V> $map<V> {
            /// Makes an empty map, which allocates nothing.
            pub fn new() -> Self {
                Self::with_options($crate::api::Options::new())
            }

            /// Returns the handle through which the map is used.
            ///
            /// While the handle lives, memory that any map of this process gives up is not used again; nothing else waits
            /// for it. Call [`Pinned::repin`] now and then in a long loop.
            ///
            /// # Cost
            ///
            /// No line fetches beyond the thread's own; about as long as two uncontended locks.
            #[inline]
            pub fn pin(&self) -> Pinned<'_, V> {
                Pinned { map: self, guard: $crate::sync::epoch::pin(), thread: $crate::sync::thread::index() }
            }

            /// Returns how many entries the map has. Exact when no writer is active.
            pub fn len(&self) -> usize {
                self.shards.entries()
            }

            /// Returns whether the map has no entries.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl<V> core::fmt::Debug for Pinned<'_, V> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct("Pinned").field("map", self.map).finish_non_exhaustive()
            }
        }

        impl<V> Pinned<'_, V> {
            /// Lets memory be used again that was given up since the handle was made. Whatever the handle has handed out
            /// must be gone, which the compiler checks.
            ///
            /// Does nothing while the thread has another handle, of this map or of any other: a loop that uses several maps makes its handles
            /// anew for every few hundred operations.
            #[inline]
            pub fn repin(&mut self) {
                self.guard.repin();
            }

            #[doc = concat!(" Returns how many entries the map has; see [`", stringify!($map), "::len`].")]
            pub fn len(&self) -> usize {
                self.map.len()
            }

            /// Returns whether the map has no entries.
            pub fn is_empty(&self) -> bool {
                self.map.is_empty()
            }

            /// Returns what the map takes in memory.
            pub fn memory_usage(&self) -> $crate::api::MemoryUsage {
                self.map.memory_usage()
            }

            /// Returns whether `key` has a value. Costs what [`get`](Self::get) does.
            #[inline]
            pub fn contains_key(&self, key: $key) -> bool {
                self.get(key).is_some()
            }

            /// Returns the entries between two bounds, in key order, from both ends.
            ///
            /// # Cost
            ///
            #[doc = $range_cost]
            ///
            /// # Concurrency
            ///
            /// Keys come strictly increasing and inside the bounds. A key that is in the map all the time is yielded; one
            /// that comes or goes may be. No lock is held between two entries.
            ///
            /// Inverted bounds are an empty range, not a panic.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" for (key, value) in [(", $a, ", 1), (", $b, ", 2), (", $c, ", 3), (", $d, ", 4)] {")]
            ///     pinned.insert(key, value);
            /// }
            #[doc = concat!(" ", $start)]
            /// let mut range = pinned.range(start..);
            /// assert_eq!(range.next().map(|(_, value)| *value), Some(2));
            /// assert_eq!(range.next_back().map(|(_, value)| *value), Some(4));
            /// assert_eq!(range.count(), 1);
            /// ```
            pub fn range<$($k)?>(&self, range: impl core::ops::RangeBounds<$bound>) -> Range<'_, V> {
                let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
                self.between(start, end)
            }

            /// Returns all entries in key order; see [`range`](Self::range).
            pub fn iter(&self) -> Iter<'_, V> {
                self.range(..)
            }

            /// Returns the entry with the smallest key.
            pub fn first_key_value(&self) -> Option<($found, $crate::api::Ref<'_, V>)> {
                self.first_from(core::ops::Bound::Unbounded)
            }

            /// Returns the entry with the largest key.
            pub fn last_key_value(&self) -> Option<($found, $crate::api::Ref<'_, V>)> {
                self.last_up_to(core::ops::Bound::Unbounded)
            }

            /// Returns the first entry at or above the bound: `Included(key)` includes `key` itself.
            ///
            /// # Cost
            ///
            #[doc = $bound_cost]
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            /// use std::ops::Bound::Excluded;
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" pinned.insert(", $a, ", 1);")]
            #[doc = concat!(" pinned.insert(", $b, ", 2);")]
            #[doc = concat!(" let next = pinned.lower_bound(Excluded(", $a, "));")]
            /// assert_eq!(next.map(|(_, value)| *value), Some(2));
            /// ```
            pub fn lower_bound(&self, bound: core::ops::Bound<$key>) -> Option<($found, $crate::api::Ref<'_, V>)> {
                self.first_from(bound)
            }

            /// Returns the last entry at or below the bound: `Included(key)` includes `key` itself. Costs what
            /// [`lower_bound`](Self::lower_bound) does.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            /// use std::ops::Bound::Included;
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" pinned.insert(", $a, ", 1);")]
            #[doc = concat!(" pinned.insert(", $c, ", 3);")]
            #[doc = concat!(" let last = pinned.upper_bound(Included(", $b, "));")]
            /// assert_eq!(last.map(|(_, value)| *value), Some(1));
            /// ```
            pub fn upper_bound(&self, bound: core::ops::Bound<$key>) -> Option<($found, $crate::api::Ref<'_, V>)> {
                self.last_up_to(bound)
            }
        }

        impl<V: Send + Sync> Pinned<'_, V> {
            /// Maps `key` to `value` and returns the value it replaces, if there was one.
            ///
            /// # Cost
            ///
            #[doc = $insert_cost]
            ///
            /// # Concurrency
            ///
            /// Takes effect at one instant. A `get` that overlaps the call returns the old value or the new one; a `get` that
            /// starts after it returns the new one.
            ///
            /// # Panics
            ///
            #[doc = $insert_panics]
            /// And if dropping a value does that was removed or replaced earlier; the write has taken effect or not then.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" assert!(pinned.insert(", $a, ", 1).is_none());")]
            #[doc = concat!(" assert_eq!(pinned.insert(", $a, ", 2).as_deref(), Some(&1));")]
            /// ```
            #[inline]
            #[track_caller]
            pub fn insert(&self, key: $key, value: V) -> Option<$crate::api::Ref<'_, V>> {
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
            #[doc = $insert_errors]
            /// The map is unchanged and the error hands `value` back.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" assert!(pinned.try_insert(", $a, ", 1)?.is_none());")]
            #[doc = $try_insert]
            /// # Ok::<(), fanread::InsertError<u64>>(())
            /// ```
            pub fn try_insert(&self, key: $key, value: V) -> Result<Option<$crate::api::Ref<'_, V>>, $crate::api::InsertError<V>> {
                Ok(match self.map.write(self, key, value, $crate::api::Rule::Always)? {
                    $crate::api::Written::New(_) => None,
                    $crate::api::Written::Replaced(old) => Some($crate::api::Ref::new(old)),
                    $crate::api::Written::Refused(..) => unreachable!("nothing forbids an insertion"),
                })
            }

            /// Inserts all `entries` in their order; later ones win.
            ///
            /// # Cost
            ///
            /// That of [`try_insert_batch`](Self::try_insert_batch), which returns errors in place of panics.
            ///
            /// # Panics
            ///
            /// As [`insert`](Self::insert), or as the iterator; entries before the one that panicked are in the map.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" ", $start)]
            /// pinned.insert_batch([(start, "first"), (start, "last")]);
            /// assert_eq!(pinned.get(start).as_deref(), Some(&"last"));
            /// ```
            #[track_caller]
            pub fn insert_batch<$($k)?>(&self, entries: impl IntoIterator<Item = ($bound, V)>) {
                if let Err(error) = self.try_insert_batch(entries) {
                    panic!("{error}");
                }
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
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" assert!(pinned.insert_if_absent(", $a, ", 5).is_ok());")]
            #[doc = concat!(" let (there, back) = pinned.insert_if_absent(", $a, ", 6).unwrap_err();")]
            /// assert_eq!((*there, back), (5, 6));
            /// ```
            #[track_caller]
            pub fn insert_if_absent(
                &self,
                key: $key,
                value: V,
            ) -> Result<$crate::api::Ref<'_, V>, ($crate::api::Ref<'_, V>, V)> {
                match self.map.write(self, key, value, $crate::api::Rule::Absent) {
                    Ok($crate::api::Written::New(new)) => Ok($crate::api::Ref::new(new)),
                    Ok($crate::api::Written::Refused(Some(there), value)) => {
                        Err(($crate::api::Ref::new(there), value))
                    }
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
            /// That of `get`, and if there is no value that of [`insert`](Self::insert).
            ///
            /// # Panics
            ///
            /// As [`insert`](Self::insert), and if `make` does; the map is unchanged then.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" assert_eq!(*pinned.get_or_insert_with(", $a, ", || 5), 5);")]
            #[doc = concat!(" assert_eq!(*pinned.get_or_insert_with(", $a, ", || 6), 5);")]
            /// ```
            #[track_caller]
            pub fn get_or_insert_with(&self, key: $key, make: impl FnOnce() -> V) -> $crate::api::Ref<'_, V> {
                if let Some(found) = self.get(key) {
                    return found;
                }
                match self.map.write(self, key, make(), $crate::api::Rule::Absent) {
                    Ok($crate::api::Written::New(read) | $crate::api::Written::Refused(Some(read), _)) => $crate::api::Ref::new(read),
                    Ok(_) => unreachable!("an absent key's write is refused by a value only"),
                    Err(error) => panic!("{error}"),
                }
            }

            /// Replaces the value of `key` by what `change` makes of it, and returns the value it replaced; `None` if there
            /// is none.
            ///
            /// `change` runs outside of any lock, and again if another thread changes the value meanwhile.
            ///
            /// # Cost
            ///
            /// For each time that `change` runs, that of `get` and of [`insert`](Self::insert) of a key that is there.
            ///
            /// # Panics
            ///
            /// If `change` does, or if there is no memory; the map is unchanged then.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" pinned.insert(", $a, ", 5);")]
            #[doc = concat!(" assert_eq!(pinned.update(", $a, ", |count| count + 1).as_deref(), Some(&5));")]
            #[doc = concat!(" assert_eq!(pinned.get(", $a, ").as_deref(), Some(&6));")]
            /// ```
            #[track_caller]
            pub fn update(&self, key: $key, mut change: impl FnMut(&V) -> V) -> Option<$crate::api::Ref<'_, V>> {
                loop {
                    let mut old = self.get(key)?;
                    // Before `change` looks at the value: of a small one it has a copy, which may change as it is looked at.
                    let seen = $crate::api::Rule::Same(old.word());
                    match self.map.write(self, key, change(&old), seen) {
                        Ok($crate::api::Written::Replaced(old)) => return Some($crate::api::Ref::new(old)),
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
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" pinned.insert(", $a, ", 5);")]
            #[doc = concat!(" assert!(pinned.compare_exchange(", $a, ", &5, 6).is_ok());")]
            #[doc = concat!(" let (found, _) = pinned.compare_exchange(", $a, ", &5, 7).unwrap_err();")]
            /// assert_eq!(found.as_deref(), Some(&6));
            /// ```
            #[track_caller]
            pub fn compare_exchange(
                &self,
                key: $key,
                current: &V,
                mut new: V,
            ) -> Result<$crate::api::Ref<'_, V>, (Option<$crate::api::Ref<'_, V>>, V)>
            where
                V: PartialEq,
            {
                loop {
                    let Some(mut old) = self.get(key) else { return Err((None, new)) };
                    // As in `update`.
                    let seen = $crate::api::Rule::Same(old.word());
                    if *old != *current {
                        return Err((Some(old), new));
                    }
                    match self.map.write(self, key, new, seen) {
                        Ok($crate::api::Written::Replaced(old)) => return Ok($crate::api::Ref::new(old)),
                        Ok($crate::api::Written::Refused(_, back)) => new = back,
                        Ok($crate::api::Written::New(_)) => unreachable!("only a value that is there is exchanged"),
                        Err(error) => panic!("{error}"),
                    }
                }
            }

            /// Removes and returns the first entry in key order.
            ///
            /// Threads may do so at once: each entry is handed to one of them. It is found as a walk of one entry finds it; one that
            /// is inserted before it meanwhile may be left to the next call.
            ///
            /// # Cost
            ///
            /// The line fetches of `first_key_value` and of `remove`; again, if another thread was faster.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" pinned.insert(", $b, ", 2);")]
            #[doc = concat!(" pinned.insert(", $a, ", 1);")]
            /// assert_eq!(pinned.pop_first().map(|(_, value)| *value), Some(1));
            #[doc = concat!(" assert!(!pinned.contains_key(", $a, "));")]
            /// ```
            pub fn pop_first(&self) -> Option<($found, $crate::api::Ref<'_, V>)> {
                loop {
                    let (key, _) = self.first_key_value()?;
                    if let Some(value) = self.remove($($lend)* key) {
                        return Some((key, value));
                    }
                }
            }

            /// Removes and returns the last entry in key order; to threads, and at a cost, as `pop_first`.
            pub fn pop_last(&self) -> Option<($found, $crate::api::Ref<'_, V>)> {
                loop {
                    let (key, _) = self.last_key_value()?;
                    if let Some(value) = self.remove($($lend)* key) {
                        return Some((key, value));
                    }
                }
            }

            /// Removes every entry for which `keep` returns false.
            ///
            /// `keep` runs outside of any lock. An entry stays whose value another thread replaces after it was read, which may be
            /// before `keep` sees it.
            ///
            /// # Cost
            ///
            /// A walk over the map, and a `remove` for each entry that goes, whose memory stays as long as the handle is not pinned anew.
            ///
            /// # Panics
            ///
            /// If `keep` does. Entries refused before that are removed.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            ///
            #[doc = concat!(" let map = ", stringify!($map), "::new();")]
            /// let pinned = map.pin();
            #[doc = concat!(" for (key, value) in [(", $a, ", 1), (", $b, ", 2), (", $c, ", 3)] {")]
            ///     pinned.insert(key, value);
            /// }
            /// pinned.retain(|_, value| value % 2 == 1);
            /// assert_eq!(pinned.len(), 2);
            /// ```
            pub fn retain(&self, mut keep: impl FnMut($key, &V) -> bool) {
                for (key, mut value) in self {
                    // As in `update`.
                    let seen = value.word();
                    if !keep($($lend)* key, &value) {
                        self.remove_if($($lend)* key, |now| core::ptr::eq(now, seen));
                    }
                }
            }

            /// Removes all entries.
            ///
            /// # Cost
            ///
            /// A walk over the map, and a `remove` for each entry. What is removed keeps its memory as long as the handle is not pinned
            /// anew; who has the map for himself puts a new one in its place.
            ///
            /// # Concurrency
            ///
            /// Each entry is removed by itself. An entry that another thread inserts meanwhile may stay.
            pub fn clear(&self) {
                for (key, _) in self {
                    self.remove($($lend)* key);
                }
            }
        }

        impl<$g, V> IntoIterator for &$g Pinned<'_, V> {
            type Item = ($item, $crate::api::Ref<$g, V>);
            type IntoIter = Iter<$g, V>;

            fn into_iter(self) -> Iter<$g, V> {
                self.iter()
            }
        }

        /// An iterator over all entries that owns its hold on the map and may move between threads.
        ///
        /// It pins for one step at a time, so it delays nobody's memory while it is kept, and finds its place again by the
        /// last key. Keys and values are copies.
        #[derive(Debug)]
        pub struct IntoIter<V>($crate::api::Copies<$map<V>, $owned, V>);

        /// Entries that an owned iterator copies at a time: a few parts of a leaf.
        const OWNED_STEP: usize = 40;

        impl<V: Clone + Send + Sync> $map<V> {
            /// Returns an iterator over copies of all entries that is `Send` and borrows nothing.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!(" use fanread::", stringify!($map), ";")]
            /// use std::sync::Arc;
            ///
            #[doc = concat!(" let map = Arc::new(", stringify!($map), "::new());")]
            #[doc = concat!(" map.pin().insert(", $a, ", 1);")]
            /// let all = std::thread::spawn(move || map.iter_owned().collect::<Vec<_>>());
            #[doc = concat!(" assert_eq!(all.join().unwrap(), [(", $owned_a, ", 1)]);")]
            /// ```
            pub fn iter_owned(self: &std::sync::Arc<Self>) -> IntoIter<V> {
                IntoIter($crate::api::Copies::of(self))
            }
        }

        impl<V: Clone + Send + Sync> Iterator for IntoIter<V> {
            type Item = ($owned, V);

            fn next(&mut self) -> Option<Self::Item> {
                self.0.next(|map, last| {
                    let from = match last {
                        None => core::ops::Bound::Unbounded,
                        Some($kept) => core::ops::Bound::Excluded($lent),
                    };
                    let pinned = map.pin();
                    let ahead = pinned.range((from, core::ops::Bound::Unbounded)).take(OWNED_STEP);
                    ahead.map(|($seen, value)| ($own, V::clone(&value))).collect()
                })
            }
        }

        impl<V: Clone + Send + Sync> core::iter::FusedIterator for IntoIter<V> {}
    };
}

pub(crate) use {map_methods, ordered_map_methods, u64_map_methods};
