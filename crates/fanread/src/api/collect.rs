//! Entries that an iterator gives, some at a time; maps of them: `FromIterator` and `Extend`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Hands on the next entries of an iterator, so many at most.
///
/// It may panic. What it has given before goes into the map all the same, as it does where entries are inserted one by one; then the
/// panic goes on.
#[inline]
pub(crate) fn take_some<T>(
    entries: &mut impl Iterator<Item = T>,
    most: usize,
    each: impl FnMut(T),
) -> Taken {
    Taken(catch_unwind(AssertUnwindSafe(|| entries.take(most).for_each(each))).err())
}

/// The next entries of an iterator, as [`take_some`] does; fewer than there is room for if these are the last ones.
#[inline]
pub(crate) fn take_batch<T, const N: usize>(
    entries: &mut impl Iterator<Item = T>,
) -> ([Option<T>; N], Taken) {
    let mut batch = [const { None }; N];
    let mut places = batch.iter_mut();
    let taken = take_some(entries, N, |entry| {
        if let Some(place) = places.next() {
            *place = Some(entry);
        }
    });
    (batch, taken)
}

/// How entries were taken.
#[must_use = "a panic goes on when the entries before it are in the map"]
pub(crate) struct Taken(Option<Box<dyn Any + Send>>);

impl Taken {
    /// Panics as the iterator did, if it did.
    #[inline]
    pub(crate) fn resume(self) {
        if let Some(panic) = self.0 {
            resume_unwind(panic);
        }
    }
}

/// How many entries are collected before they go into a map under one pin: as many as `repin` is advised for. Fewer make batches
/// that end early, more keep memory that the map gives up.
pub(crate) const COLLECTED: usize = 256;

/// Writes both traits for a map, of whose entries it takes the type of a key and of a value; what `insert_batch` makes of so
/// many keys and values that were collected; and lines of an example that binds `map` to a map of one entry.
macro_rules! from_entries {
    (
        [$($generics:tt)*] $map:ty, ($key:ty, $value:ty),
        |$keys:ident, $values:ident| $entries:expr,
        example: [$($example:expr),+] $(,)?
    ) => {
        /// Inserts all entries in their order; later ones win.
        ///
        /// # Cost
        ///
        /// That of `insert_batch`.
        ///
        /// # Panics
        ///
        /// As `insert`, or as the iterator; entries before the one that panicked are in the map.
        impl<$($generics)*> Extend<($key, $value)> for $map {
            #[track_caller]
            fn extend<I: IntoIterator<Item = ($key, $value)>>(&mut self, entries: I) {
                let mut entries = entries.into_iter().fuse();
                loop {
                    let (mut $keys, mut $values) = (Vec::<$key>::new(), Vec::<$value>::new());
                    let put = |(key, value)| {
                        $keys.push(key);
                        $values.push(value);
                    };
                    let taken = $crate::api::take_some(&mut entries, $crate::api::COLLECTED, put);
                    let are_last = $keys.len() < $crate::api::COLLECTED;
                    self.pin().insert_batch($entries);
                    taken.resume();
                    if are_last {
                        return;
                    }
                }
            }
        }

        /// Makes a map of entries in any order; of those with one key the last is kept. Where keys ascend `from_sorted` is faster,
        /// and returns errors in place of panics.
        ///
        /// # Panics
        ///
        /// As `insert`.
        ///
        /// # Examples
        ///
        /// ```
        $(#[doc = $example])+
        /// assert_eq!(map.len(), 1);
        /// ```
        impl<$($generics)*> FromIterator<($key, $value)> for $map {
            fn from_iter<I: IntoIterator<Item = ($key, $value)>>(entries: I) -> Self {
                let entries = entries.into_iter();
                let room = $crate::api::Options::new().capacity(entries.size_hint().0);
                let mut map = Self::with_options(room);
                map.extend(entries);
                map
            }
        }
    };
}

pub(crate) use from_entries;
