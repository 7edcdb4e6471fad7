//! [`fanread::SkipList`] behind the trait of a measured map, with numbers or byte strings as keys, and with scans that run
//! ahead or plain ones.

use core::ops::Bound::{Included, Unbounded};
use std::borrow::Borrow;

use fanread::SkipList;
use fanread::skip_list::{self, SkipKey};
use workload::subject::{Handle, Subject};

/// Keys of a batch that are looked up in one call.
const BATCH: usize = 64;

/// A key type that is made from bytes and shown as bytes, in the same order.
pub(crate) trait Form: SkipKey + Send + Sync + Borrow<Self::Query> + 'static {
    /// What a lookup takes.
    type Query: SkipKey + ?Sized;

    /// Makes a key to store.
    fn make(key: &[u8]) -> Self;
    /// Calls `look` with what finds `key`.
    fn with<R>(key: &[u8], look: impl FnOnce(&Self::Query) -> R) -> R;
    /// Calls `look` with what finds each of at most [`BATCH`] keys.
    fn with_all<R>(keys: &[&[u8]], look: impl FnOnce(&[&Self::Query]) -> R) -> R;
    /// Calls `visit` with the bytes of a stored key.
    fn show<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R;
}

impl Form for u64 {
    type Query = Self;

    #[inline]
    fn make(key: &[u8]) -> Self {
        Self::from_be_bytes(key.try_into().expect("keys of eight bytes"))
    }

    #[inline]
    fn with<R>(key: &[u8], look: impl FnOnce(&Self) -> R) -> R {
        look(&Self::make(key))
    }

    #[inline]
    fn with_all<R>(keys: &[&[u8]], look: impl FnOnce(&[&Self]) -> R) -> R {
        let mut numbers = [0; BATCH];
        numbers.iter_mut().zip(keys).for_each(|(number, key)| *number = Self::make(key));
        let all: [&Self; BATCH] = core::array::from_fn(|at| &numbers[at]);
        look(&all[..keys.len()])
    }

    #[inline]
    fn show<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(&self.to_be_bytes())
    }
}

impl Form for Box<[u8]> {
    type Query = [u8];

    #[inline]
    fn make(key: &[u8]) -> Self {
        key.into()
    }

    #[inline]
    fn with<R>(key: &[u8], look: impl FnOnce(&[u8]) -> R) -> R {
        look(key)
    }

    #[inline]
    fn with_all<R>(keys: &[&[u8]], look: impl FnOnce(&[&[u8]]) -> R) -> R {
        look(keys)
    }

    #[inline]
    fn show<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(self)
    }
}

/// A [`SkipList`] with numbers as values; its scans are plain ones if `PLAIN`.
pub(crate) struct Measured<K: Form, const PLAIN: bool>(SkipList<K, u64>);

/// A pinned [`SkipList`].
pub(crate) struct Pinned<'a, K: Form, const PLAIN: bool>(skip_list::Pinned<'a, K, u64>);

impl<K: Form, const PLAIN: bool> Subject for Measured<K, PLAIN> {
    const NAME: &'static str = if PLAIN { "skiplist-plain" } else { "skiplist" };
    const BATCHES: bool = true;

    type Owned<'a> = Pinned<'a, K, PLAIN>;
    type Shared<'a> = Pinned<'a, K, PLAIN>;

    fn new() -> Self {
        Self(SkipList::new())
    }

    fn own(&mut self) -> Pinned<'_, K, PLAIN> {
        self.share()
    }

    fn share(&self) -> Pinned<'_, K, PLAIN> {
        Pinned(self.0.pin())
    }
}

impl<K: Form, const PLAIN: bool> Handle for Pinned<'_, K, PLAIN> {
    #[inline]
    fn repin(&mut self) {
        self.0.repin();
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.0.insert(K::make(key), value).is_none()
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        self.0.insert(K::make(key), value).is_some()
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        K::with(key, |key| self.0.get(key).map(|value| *value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        K::with(key, |key| self.0.remove(key).is_some())
    }

    #[inline]
    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let mut found = [const { None }; BATCH];
            let found = &mut found[..keys.len()];
            K::with_all(keys, |keys| self.0.get_batch(keys, found));
            out.iter_mut().zip(found).for_each(|(out, found)| *out = found.as_deref().copied());
        }
    }

    #[inline]
    fn lower_bound(&mut self, from: &[u8], mut visit: impl FnMut(&[u8], u64)) {
        K::with(from, |from| {
            if let Some((key, value)) = self.0.lower_bound(Included(from)) {
                key.show(|key| visit(key, *value));
            }
        });
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        K::with(from, |from| {
            let range = self.0.range::<K::Query, _>((Included(from), Unbounded));
            let range = if PLAIN { range.plain() } else { range };
            for (key, value) in range.take(count) {
                key.show(|key| visit(key, *value));
            }
        });
    }
}
