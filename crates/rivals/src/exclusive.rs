//! Maps that one thread writes: std's `BTreeMap`, `indexset`'s, and hashbrown's table.
//!
//! Several threads may read them at once, through [`Reader`].

use std::ops::Bound::{Included, Unbounded};

use workload::subject::{Handle, Subject};

use crate::form::Form;

/// What these maps have in common; the handles are written once for it.
pub trait Plain: Send + Sync {
    /// Adds or replaces; tells whether the key is new.
    fn put(&mut self, key: &[u8], value: u64) -> bool;
    /// Changes the value of a present key.
    fn change(&mut self, key: &[u8], value: u64) -> bool;
    /// Removes a key.
    fn delete(&mut self, key: &[u8]) -> bool;
    /// Looks a key up.
    fn find(&self, key: &[u8]) -> Option<u64>;
    /// Visits entries in order, where there is one.
    fn walk(&self, from: &[u8], count: usize, visit: impl FnMut(&[u8], u64));
}

/// The handle of the only thread.
#[derive(Debug)]
pub struct Writer<'a, M>(pub(crate) &'a mut M);

/// The handle of one of several reading threads.
#[derive(Debug)]
pub struct Reader<'a, M>(pub(crate) &'a M);

impl<M: Plain> Handle for Writer<'_, M> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.0.put(key, value)
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        self.0.change(key, value)
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.0.find(key)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        self.0.delete(key)
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, visit: impl FnMut(&[u8], u64)) {
        self.0.walk(from, count, visit);
    }
}

impl<M: Plain> Handle for Reader<'_, M> {
    fn insert(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("several threads only read this map")
    }

    fn update(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("several threads only read this map")
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.0.find(key)
    }

    fn remove(&mut self, _: &[u8]) -> bool {
        unreachable!("several threads only read this map")
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, visit: impl FnMut(&[u8], u64)) {
        self.0.walk(from, count, visit);
    }
}

/// Declares one map: its name, whether it is ordered, its type, how it updates and walks.
macro_rules! plain {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $ordered:literal, $map:ty, $change:expr, $walk:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $subject<K: Form>($map);

        impl<K: Form> Plain for $subject<K> {
            #[inline]
            fn put(&mut self, key: &[u8], value: u64) -> bool {
                self.0.insert(K::make(key), value).is_none()
            }

            #[inline]
            fn change(&mut self, key: &[u8], value: u64) -> bool {
                let change = $change;
                change(&mut self.0, key, value)
            }

            #[inline]
            fn delete(&mut self, key: &[u8]) -> bool {
                K::with(key, |key| self.0.remove(key).is_some())
            }

            #[inline]
            fn find(&self, key: &[u8]) -> Option<u64> {
                K::with(key, |key| self.0.get(key).copied())
            }

            #[inline]
            fn walk(&self, from: &[u8], count: usize, visit: impl FnMut(&[u8], u64)) {
                let walk = $walk;
                walk(&self.0, from, count, visit);
            }
        }

        impl<K: Form> Subject for $subject<K> {
            const NAME: &'static str = $name;
            const ORDERED: bool = $ordered;
            const SHARED_WRITES: bool = false;

            type Owned<'a> = Writer<'a, Self>;
            type Shared<'a> = Reader<'a, Self>;

            fn new() -> Self {
                Self(<$map>::default())
            }

            fn own(&mut self) -> Writer<'_, Self> {
                Writer(self)
            }

            fn share(&self) -> Reader<'_, Self> {
                Reader(self)
            }
        }
    };
}

plain!(
    /// The standard library's ordered map: what all others are compared with.
    BTreeMap, "btreemap", true, std::collections::BTreeMap<K, u64>,
    |map: &mut std::collections::BTreeMap<K, u64>, key, value| {
        K::with(key, |key| map.get_mut(key).map(|slot| *slot = value).is_some())
    },
    walk_std::<K>
);

plain!(
    /// `indexset`'s ordered map: a list of sorted nodes.
    IndexSet, "indexset", true, indexset::BTreeMap<K, u64>,
    // Its `get_mut` takes no unsized key, so a byte string would be copied for it anyway.
    |map: &mut indexset::BTreeMap<K, u64>, key, value| map.insert(K::make(key), value).is_some(),
    walk_indexset::<K>
);

plain!(
    /// hashbrown's table, std's `HashMap` with a faster hash: the limit for point operations.
    HashMap, "hashbrown", false, hashbrown::HashMap<K, u64>,
    |map: &mut hashbrown::HashMap<K, u64>, key, value| {
        K::with(key, |key| map.get_mut(key).map(|slot| *slot = value).is_some())
    },
    walk_nothing::<K>
);

#[inline]
fn walk_std<K: Form>(
    map: &std::collections::BTreeMap<K, u64>,
    from: &[u8],
    count: usize,
    mut visit: impl FnMut(&[u8], u64),
) {
    K::with(from, |from| {
        for (key, value) in map.range::<K::Query, _>((Included(from), Unbounded)).take(count) {
            key.show(|key| visit(key, *value));
        }
    });
}

#[inline]
fn walk_indexset<K: Form>(
    map: &indexset::BTreeMap<K, u64>,
    from: &[u8],
    count: usize,
    mut visit: impl FnMut(&[u8], u64),
) {
    let from = K::make(from);
    for (key, value) in map.range::<K, _>((Included(&from), Unbounded)).take(count) {
        key.show(|key| visit(key, *value));
    }
}

fn walk_nothing<K: Form>(
    _: &hashbrown::HashMap<K, u64>,
    _: &[u8],
    _: usize,
    _: impl FnMut(&[u8], u64),
) {
    unreachable!("a hash table has no order")
}
