//! Maps of the entries that an iterator gives: `FromIterator` and `Extend`.

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
        /// As `insert`; entries before the one that panicked are in the map.
        impl<$($generics)*> Extend<($key, $value)> for $map {
            #[track_caller]
            fn extend<I: IntoIterator<Item = ($key, $value)>>(&mut self, entries: I) {
                let mut entries = entries.into_iter().fuse();
                loop {
                    let ($keys, $values): (Vec<$key>, Vec<$value>) =
                        entries.by_ref().take($crate::api::COLLECTED).unzip();
                    if $keys.is_empty() {
                        return;
                    }
                    self.pin().insert_batch($entries);
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
