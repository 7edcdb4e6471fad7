// A map on numbers as the suites see it: its keys are byte strings of eight bytes, the most significant one first, so that
// they have the order of the numbers. Included for each such map, by `mod.rs` and by its unit tests; `library` is its module,
// `Whole` its type, and the names of the crate's front page that are used here are imported beside them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::Arc;

/// The longest key, and the shortest.
pub(crate) const MAX_KEY_BYTES: usize = 8;

fn number(key: &[u8]) -> u64 {
    testkit::ops::as_u64(key)
}

/// A key that was found.
#[derive(Clone, Copy)]
pub(crate) struct Key<'g> {
    bytes: [u8; MAX_KEY_BYTES],
    map: PhantomData<&'g ()>,
}

impl Deref for Key<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

type Entry<'g, V> = (Key<'g>, Ref<'g, V>);

fn entry<V>((key, value): (u64, Ref<'_, V>)) -> Entry<'_, V> {
    (Key { bytes: key.to_be_bytes(), map: PhantomData }, value)
}

/// The map.
pub(crate) struct Map<V>(Arc<Whole<V>>);

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V> fmt::Debug for Map<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<V> Map<V> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_options(options: Options) -> Self {
        Self(Arc::new(Whole::with_options(options)))
    }

    pub(crate) fn pin(&self) -> Pinned<'_, V> {
        Pinned(self.0.pin())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn memory_usage(&self) -> MemoryUsage {
        self.0.memory_usage()
    }
}

impl<V: Send + Sync> Map<V> {
    pub(crate) fn from_sorted<K: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, LoadError> {
        let entries = entries.into_iter().map(|(key, value)| (number(key.as_ref()), value));
        Whole::from_sorted(entries).map(|map| Self(Arc::new(map)))
    }
}

impl<V: Clone + Send + Sync> Map<V> {
    pub(crate) fn iter_owned(&self) -> IntoIter<V> {
        IntoIter(self.0.iter_owned())
    }
}

/// An iterator that owns its hold on the map.
pub(crate) struct IntoIter<V>(library::IntoIter<V>);

impl<V: Clone + Send + Sync> Iterator for IntoIter<V> {
    type Item = (Box<[u8]>, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (Box::from(key.to_be_bytes()), value))
    }
}

/// An iterator that a handle gave.
pub(crate) struct Range<'g, V>(library::Range<'g, V>);

pub(crate) type Iter<'g, V> = Range<'g, V>;

impl<'g, V> Iterator for Range<'g, V> {
    type Item = Entry<'g, V>;

    fn next(&mut self) -> Option<Entry<'g, V>> {
        self.0.next().map(entry)
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(entry)
    }
}

/// The handle.
pub(crate) struct Pinned<'m, V>(library::Pinned<'m, V>);

impl<V> Pinned<'_, V> {
    pub(crate) fn repin(&mut self) {
        self.0.repin();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn check(&self) -> Result<(), library::Broken> {
        self.0.check()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.0.get(number(key))
    }

    pub(crate) fn get_batch<'g>(&'g self, keys: &[&[u8]], found: &mut [Option<Ref<'g, V>>]) {
        self.0.get_batch(&numbers(keys), found);
    }

    pub(crate) fn contains_batch(&self, keys: &[&[u8]], found: &mut [bool]) {
        self.0.contains_batch(&numbers(keys), found);
    }

    pub(crate) fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Range<'_, V> {
        let bound = |bound: Bound<&&[u8]>| bound.map(|key| number(key));
        Range(self.0.range((bound(range.start_bound()), bound(range.end_bound()))))
    }

    pub(crate) fn iter(&self) -> Iter<'_, V> {
        Range(self.0.iter())
    }

    pub(crate) fn first_key_value(&self) -> Option<Entry<'_, V>> {
        self.0.first_key_value().map(entry)
    }

    pub(crate) fn last_key_value(&self) -> Option<Entry<'_, V>> {
        self.0.last_key_value().map(entry)
    }

    pub(crate) fn lower_bound(&self, bound: Bound<&[u8]>) -> Option<Entry<'_, V>> {
        self.0.lower_bound(bound.map(number)).map(entry)
    }

    pub(crate) fn upper_bound(&self, bound: Bound<&[u8]>) -> Option<Entry<'_, V>> {
        self.0.upper_bound(bound.map(number)).map(entry)
    }
}

impl<V: Send + Sync> Pinned<'_, V> {
    pub(crate) fn insert(&self, key: &[u8], value: V) -> Option<Ref<'_, V>> {
        self.0.insert(number(key), value)
    }

    pub(crate) fn try_insert(
        &self,
        key: &[u8],
        value: V,
    ) -> Result<Option<Ref<'_, V>>, InsertError<V>> {
        self.0.try_insert(number(key), value)
    }

    pub(crate) fn insert_batch<'k>(&self, entries: impl IntoIterator<Item = (&'k [u8], V)>) {
        self.0.insert_batch(entries.into_iter().map(|(key, value)| (number(key), value)));
    }

    pub(crate) fn insert_if_absent(
        &self,
        key: &[u8],
        value: V,
    ) -> Result<Ref<'_, V>, (Ref<'_, V>, V)> {
        self.0.insert_if_absent(number(key), value)
    }

    pub(crate) fn get_or_insert_with(&self, key: &[u8], make: impl FnOnce() -> V) -> Ref<'_, V> {
        self.0.get_or_insert_with(number(key), make)
    }

    pub(crate) fn update(&self, key: &[u8], change: impl FnMut(&V) -> V) -> Option<Ref<'_, V>> {
        self.0.update(number(key), change)
    }

    pub(crate) fn compare_exchange(
        &self,
        key: &[u8],
        current: &V,
        new: V,
    ) -> Result<Ref<'_, V>, (Option<Ref<'_, V>>, V)>
    where
        V: PartialEq,
    {
        self.0.compare_exchange(number(key), current, new)
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.0.remove(number(key))
    }

    pub(crate) fn pop_first(&self) -> Option<Entry<'_, V>> {
        self.0.pop_first().map(entry)
    }

    pub(crate) fn pop_last(&self) -> Option<Entry<'_, V>> {
        self.0.pop_last().map(entry)
    }

    pub(crate) fn retain(&self, mut keep: impl FnMut(&[u8], &V) -> bool) {
        self.0.retain(|key, value| keep(&key.to_be_bytes(), value));
    }

    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

impl<'g, V> IntoIterator for &'g Pinned<'_, V> {
    type Item = Entry<'g, V>;
    type IntoIter = Iter<'g, V>;

    fn into_iter(self) -> Iter<'g, V> {
        Range((&self.0).into_iter())
    }
}

fn numbers(keys: &[&[u8]]) -> Vec<u64> {
    keys.iter().map(|key| number(key)).collect()
}
