//! What questions need of a map, and which maps there are to ask.

use std::ops::Bound;

use fanread::{Key, Ref};

use super::{Asked, answer_all};
use crate::failure::Failure;
use crate::maps::for_our_maps;

/// The rest of a key's line.
pub(super) type Rest = Box<[u8]>;

/// A key and the rest of its line.
pub(super) type Entry<'g> = (Key<'g>, Ref<'g, Rest>);

/// A map that keys are loaded into.
pub(super) trait Map {
    const MAX_KEY_BYTES: usize;

    type Pinned<'a>: Keys
    where
        Self: 'a;

    fn new() -> Self;
    fn pin(&self) -> Self::Pinned<'_>;
}

/// A handle on the loaded keys.
pub(super) trait Keys {
    /// Maps `key` to `rest`; returns whether it was mapped to something before.
    fn insert(&self, key: &[u8], rest: Rest) -> bool;
    fn len(&self) -> usize;
    fn get(&self, key: &[u8]) -> Option<Ref<'_, Rest>>;
    fn floor(&self, key: &[u8]) -> Option<Entry<'_>>;
    fn ceiling(&self, key: &[u8]) -> Option<Entry<'_>>;
    fn first(&self) -> Option<Entry<'_>>;
    fn last(&self) -> Option<Entry<'_>>;
    fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = Entry<'_>>;
    fn prefix(&self, prefix: &[u8]) -> impl Iterator<Item = Entry<'_>>;
}

/// A map that can be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    pub(super) name: &'static str,
    /// Loads the keys into it and answers: [`answer_all`] compiled for the map.
    pub(super) run: fn(&Asked<'_>) -> Result<(), Failure>,
}

/// Puts maps behind the traits and lists them: those on byte strings, which lines of a file are.
macro_rules! indexes {
    (strings { $($name:literal: $module:ident, $map:ident;)* } numbers $numbers:tt) => {
        /// All maps that can be asked; the first is asked if no other is named.
        pub(super) const INDEXES: &[Index] =
            &[$(Index { name: $name, run: answer_all::<fanread::$map<Rest>> }),*];

        $(
            impl Map for fanread::$map<Rest> {
                const MAX_KEY_BYTES: usize = fanread::$module::MAX_KEY_BYTES;

                type Pinned<'a> = fanread::$module::Pinned<'a, Rest>;

                fn new() -> Self {
                    Self::new()
                }

                fn pin(&self) -> Self::Pinned<'_> {
                    self.pin()
                }
            }

            impl Keys for fanread::$module::Pinned<'_, Rest> {
                fn insert(&self, key: &[u8], rest: Rest) -> bool {
                    self.insert(key, rest).is_some()
                }

                fn len(&self) -> usize {
                    self.len()
                }

                fn get(&self, key: &[u8]) -> Option<Ref<'_, Rest>> {
                    self.get(key)
                }

                fn floor(&self, key: &[u8]) -> Option<Entry<'_>> {
                    self.upper_bound(Bound::Included(key))
                }

                fn ceiling(&self, key: &[u8]) -> Option<Entry<'_>> {
                    self.lower_bound(Bound::Included(key))
                }

                fn first(&self) -> Option<Entry<'_>> {
                    self.first_key_value()
                }

                fn last(&self) -> Option<Entry<'_>> {
                    self.last_key_value()
                }

                fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = Entry<'_>> {
                    self.range(from..to)
                }

                fn prefix(&self, prefix: &[u8]) -> impl Iterator<Item = Entry<'_>> {
                    self.prefix(prefix)
                }
            }
        )*
    };
}

for_our_maps! { indexes }

/// Returns the names of all maps that can be asked.
pub(super) fn names() -> String {
    let names: Vec<_> = INDEXES.iter().map(|index| index.name).collect();
    names.join(", ")
}

/// Finds a map by its name.
pub(super) fn parse_index(name: &str) -> Result<Index, String> {
    let found = INDEXES.iter().find(|index| index.name == name);
    found.copied().ok_or_else(|| format!("no such index on byte strings, use {}", names()))
}
