//! Maps generic over their keys that any number of threads may write.

use std::cell::Cell;
use std::ops::Bound::{Included, Unbounded};

use workload::subject::{Handle, Subject};

use crate::form::Form;

/// `crossbeam_skiplist`'s map.
#[derive(Debug)]
pub struct SkipMap<K: Form>(crossbeam_skiplist::SkipMap<K, u64>);

impl<K: Form> Subject for SkipMap<K> {
    const NAME: &'static str = "crossbeam-skiplist";
    /// It takes the old entry out before it puts the new one in: a reader in between misses the
    /// key.
    const SHARED_UPDATES: bool = false;

    type Owned<'a> = &'a Self;
    type Shared<'a> = &'a Self;

    fn new() -> Self {
        Self(crossbeam_skiplist::SkipMap::new())
    }

    fn own(&mut self) -> &Self {
        self
    }

    fn share(&self) -> &Self {
        self
    }
}

impl<K: Form> Handle for &SkipMap<K> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        let new = Cell::new(true);
        self.0.compare_insert(K::make(key), value, |_| {
            new.set(false);
            true
        });
        new.get()
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        !self.insert(key, value)
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        K::with(key, |key| self.0.get(key).map(|entry| *entry.value()))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        K::with(key, |key| self.0.remove(key).is_some())
    }

    #[inline]
    fn lower_bound(&mut self, from: &[u8], mut visit: impl FnMut(&[u8], u64)) {
        K::with(from, |from| {
            if let Some(entry) = self.0.lower_bound(Included(from)) {
                entry.key().show(|key| visit(key, *entry.value()));
            }
        });
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        K::with(from, |from| {
            for entry in self.0.range::<K::Query, _>((Included(from), Unbounded)).take(count) {
                entry.key().show(|key| visit(key, *entry.value()));
            }
        });
    }
}

/// `scc`'s ordered map: a B+ tree whose readers take no lock.
#[derive(Debug)]
pub struct TreeIndex<K: Form>(scc::TreeIndex<K, u64>);

/// A handle that holds a guard, so that a lookup need not take one.
#[derive(Debug)]
pub struct TreeHandle<'a, K: Form> {
    map: &'a TreeIndex<K>,
    guard: scc::Guard,
}

impl<K: Form> Subject for TreeIndex<K> {
    const NAME: &'static str = "scc";

    type Owned<'a> = TreeHandle<'a, K>;
    type Shared<'a> = TreeHandle<'a, K>;

    fn new() -> Self {
        Self(scc::TreeIndex::new())
    }

    fn own(&mut self) -> TreeHandle<'_, K> {
        self.share()
    }

    fn share(&self) -> TreeHandle<'_, K> {
        TreeHandle { map: self, guard: scc::Guard::new() }
    }
}

impl<K: Form> Handle for TreeHandle<'_, K> {
    #[inline]
    fn repin(&mut self) {
        self.guard = scc::Guard::new();
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.map.0.insert_sync(K::make(key), value).is_ok()
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        // The map cannot tell whether `upsert` replaced; all keys that are updated are present.
        self.map.0.upsert_sync(K::make(key), value);
        true
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        K::with(key, |key| self.map.0.peek(key, &self.guard).copied())
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        K::with(key, |key| self.map.0.remove_sync(key))
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        K::with(from, |from| {
            let range = (Included(from), Unbounded);
            for (key, value) in self.map.0.range::<K::Query, _>(range, &self.guard).take(count) {
                key.show(|key| visit(key, *value));
            }
        });
    }
}
