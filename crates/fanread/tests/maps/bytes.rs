// The map of byte strings as the suites see it: a value stands for a number, and is spelled in bytes that tell whether half
// of them are another value's. Included by `mod.rs`.

use std::fmt;
use std::ops::{Bound, Deref, RangeBounds};

use super::common::Value;
use fanread::bytes_map as library;

type Found<'g> = fanread::Ref<'g, [u8]>;
type Key<'g> = fanread::Key<'g>;
type Entry<'g, V> = (Key<'g>, Ref<'g, V>);

/// Length of the bytes of a number: of all sizes, now and then too many for a record.
fn length(number: u64, is_wide: bool) -> usize {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    8 + match (mixed % 16, is_wide) {
        (0, true) => 5_000,
        (1, _) => 0,
        _ => mixed as usize % 96,
    }
}

/// The bytes of a value: its number, then that again and again.
fn bytes_of<V: Value>(value: &V) -> Vec<u8> {
    let number = value.number();
    let mut bytes = number.to_le_bytes().to_vec();
    for at in 8..length(number, size_of::<V>() > 8) {
        bytes.push(bytes[at % 8] ^ at as u8);
    }
    bytes
}

fn value_of<V: Value>(bytes: &[u8]) -> V {
    let value = V::of(u64::from_le_bytes(*bytes.first_chunk().expect("a number")));
    assert!(bytes_of(&value) == bytes, "half a value");
    value
}

/// A value that was found, with the bytes it was read from.
pub(crate) struct Ref<'g, V> {
    bytes: Found<'g>,
    value: V,
}

impl<V> Deref for Ref<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

fn read<V: Value>(bytes: Found<'_>) -> Ref<'_, V> {
    Ref { value: value_of(&bytes), bytes }
}

fn entry<'g, V: Value>((key, bytes): (Key<'g>, Found<'g>)) -> Entry<'g, V> {
    (key, read(bytes))
}

/// The map.
#[derive(Default)]
pub(crate) struct Map<V>(fanread::BytesMap, std::marker::PhantomData<V>);

impl<V> fmt::Debug for Map<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<V: Value> Map<V> {
    pub(crate) fn new() -> Self {
        Self::with_options(fanread::Options::new())
    }

    pub(crate) fn with_options(options: fanread::Options) -> Self {
        let mut map = fanread::BytesMap::with_options(options);
        map.keep_recent();
        Self(map, std::marker::PhantomData)
    }

    pub(crate) fn pin(&self) -> Pinned<'_, V> {
        Pinned(self.0.pin(), std::marker::PhantomData)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn memory_usage(&self) -> fanread::MemoryUsage {
        self.0.memory_usage()
    }

    pub(crate) fn from_sorted<K: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, fanread::LoadError> {
        let entries = entries.into_iter().map(|(key, value)| (key, bytes_of(&value)));
        let mut map = fanread::BytesMap::from_sorted(entries)?;
        map.keep_recent();
        Ok(Self(map, std::marker::PhantomData))
    }
}

/// An iterator that a handle gave.
pub(crate) struct Range<'g, V>(library::Range<'g>, std::marker::PhantomData<V>);

impl<'g, V: Value> Iterator for Range<'g, V> {
    type Item = Entry<'g, V>;

    fn next(&mut self) -> Option<Entry<'g, V>> {
        self.0.next().map(entry)
    }
}

impl<V: Value> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(entry)
    }
}

/// The map's handle.
pub(crate) struct Pinned<'m, V>(library::Pinned<'m>, std::marker::PhantomData<V>);

impl<V: Value> Pinned<'_, V> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn check(&self) -> Result<(), library::Broken> {
        self.0.check()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.0.get(key).map(read)
    }

    pub(crate) fn get_batch<'g>(&'g self, keys: &[&[u8]], found: &mut [Option<Ref<'g, V>>]) {
        let mut bytes: Vec<_> = keys.iter().map(|_| None).collect();
        self.0.get_batch(keys, &mut bytes);
        let mut contained = vec![false; keys.len()];
        self.0.contains_batch(keys, &mut contained);
        for (found, bytes) in found.iter_mut().zip(bytes) {
            *found = bytes.map(read);
        }
    }

    pub(crate) fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Range<'_, V> {
        Range(self.0.range(range), std::marker::PhantomData)
    }

    pub(crate) fn iter(&self) -> Range<'_, V> {
        Range(self.0.iter(), std::marker::PhantomData)
    }

    pub(crate) fn first_key_value(&self) -> Option<Entry<'_, V>> {
        self.0.first_key_value().map(entry)
    }

    pub(crate) fn last_key_value(&self) -> Option<Entry<'_, V>> {
        self.0.last_key_value().map(entry)
    }

    pub(crate) fn lower_bound(&self, bound: Bound<&[u8]>) -> Option<Entry<'_, V>> {
        self.0.lower_bound(bound).map(entry)
    }

    pub(crate) fn upper_bound(&self, bound: Bound<&[u8]>) -> Option<Entry<'_, V>> {
        self.0.upper_bound(bound).map(entry)
    }

    #[allow(clippy::needless_pass_by_value, reason = "as the maps of values do")]
    pub(crate) fn insert(&self, key: &[u8], value: V) -> Option<Ref<'_, V>> {
        self.0.insert(key, &bytes_of(&value)).map(read)
    }

    pub(crate) fn update(&self, key: &[u8], mut change: impl FnMut(&V) -> V) -> Option<Ref<'_, V>> {
        self.0.update(key, |old| bytes_of(&change(&value_of(old)))).map(read)
    }

    pub(crate) fn insert_if_absent(
        &self,
        key: &[u8],
        value: V,
    ) -> Result<Ref<'_, V>, (Ref<'_, V>, V)> {
        match self.0.insert_if_absent(key, &bytes_of(&value)) {
            Ok(new) => Ok(read(new)),
            Err(there) => Err((read(there), value)),
        }
    }

    pub(crate) fn get_or_insert_with(&self, key: &[u8], make: impl FnOnce() -> V) -> Ref<'_, V> {
        read(self.0.get_or_insert_with(key, || bytes_of(&make())))
    }

    #[allow(clippy::type_complexity, reason = "as the maps of values have it")]
    #[allow(clippy::needless_pass_by_value, reason = "as the maps of values do")]
    pub(crate) fn compare_exchange(
        &self,
        key: &[u8],
        current: &V,
        new: V,
    ) -> Result<Ref<'_, V>, (Option<Ref<'_, V>>, V)> {
        let done = self.0.compare_exchange(key, &bytes_of(current), &bytes_of(&new));
        done.map(read).map_err(|found| (found.map(read), new))
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.0.remove(key).map(read)
    }

    pub(crate) fn pop_first(&self) -> Option<Entry<'_, V>> {
        self.0.pop_first().map(entry)
    }

    pub(crate) fn pop_last(&self) -> Option<Entry<'_, V>> {
        self.0.pop_last().map(entry)
    }

    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}
