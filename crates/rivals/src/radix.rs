//! Tries of other people: Masstree and an adaptive radix tree.

use seize::Guard;
use workload::subject::{Handle, Subject};

use crate::form::{Form, Word};

/// `masstree`: a trie of B+ trees over eight-byte slices of the key.
pub struct Masstree(masstree::MassTree<u64>);

impl std::fmt::Debug for Masstree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masstree").field("len", &self.0.len()).finish()
    }
}

/// A handle that holds a guard.
pub struct MasstreeHandle<'a> {
    map: &'a masstree::MassTree<u64>,
    guard: seize::LocalGuard<'a>,
}

impl std::fmt::Debug for MasstreeHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasstreeHandle").finish_non_exhaustive()
    }
}

impl Subject for Masstree {
    const NAME: &'static str = "masstree";
    /// It has an order, but a scan of version 0.9.5 that starts at an absent key skips entries
    /// where keys share eight bytes: on the `url` set, seven of twenty.
    const ORDERED: bool = false;
    const MAX_KEY_BYTES: usize = 256;

    type Owned<'a> = MasstreeHandle<'a>;
    type Shared<'a> = MasstreeHandle<'a>;

    fn new() -> Self {
        Self(masstree::MassTree::new())
    }

    fn own(&mut self) -> MasstreeHandle<'_> {
        self.share()
    }

    fn share(&self) -> MasstreeHandle<'_> {
        MasstreeHandle { map: &self.0, guard: self.0.guard() }
    }
}

impl Handle for MasstreeHandle<'_> {
    #[inline]
    fn repin(&mut self) {
        self.guard.refresh();
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.map.insert_with_guard(key, value, &self.guard).is_none()
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        !self.insert(key, value)
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.get_with_guard(key, &self.guard)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        matches!(self.map.remove_with_guard(key, &self.guard), Ok(Some(_)))
    }

    fn scan(&mut self, _: &[u8], _: usize, _: impl FnMut(&[u8], u64)) {
        unreachable!("scans of this version are wrong, see `ORDERED`")
    }
}

/// `congee`: an adaptive radix tree for numbers.
pub struct Congee(congee::U64Congee<usize>);

impl std::fmt::Debug for Congee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Congee").finish_non_exhaustive()
    }
}

/// A handle that holds a guard and the buffer that scans fill.
pub struct CongeeHandle<'a> {
    map: &'a congee::U64Congee<usize>,
    guard: crossbeam_epoch::Guard,
    found: Vec<([u8; 8], usize)>,
}

impl std::fmt::Debug for CongeeHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CongeeHandle").finish_non_exhaustive()
    }
}

impl Subject for Congee {
    const NAME: &'static str = "congee";
    const MAX_KEY_BYTES: usize = 8;

    type Owned<'a> = CongeeHandle<'a>;
    type Shared<'a> = CongeeHandle<'a>;

    fn new() -> Self {
        Self(congee::U64Congee::new())
    }

    fn own(&mut self) -> CongeeHandle<'_> {
        self.share()
    }

    fn share(&self) -> CongeeHandle<'_> {
        CongeeHandle { map: &self.0, guard: crossbeam_epoch::pin(), found: Vec::new() }
    }
}

impl Handle for CongeeHandle<'_> {
    #[inline]
    fn repin(&mut self) {
        self.guard.repin();
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        matches!(self.map.insert(Word::make(key), value as usize, &self.guard), Ok(None))
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        matches!(self.map.insert(Word::make(key), value as usize, &self.guard), Ok(Some(_)))
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.get(Word::make(key), &self.guard).map(|value| value as u64)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        self.map.remove(Word::make(key), &self.guard).is_some()
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        self.found.resize(count, ([0; 8], 0));
        let found = self.map.range(Word::make(from), u64::MAX, &mut self.found, &self.guard);
        for (key, value) in &self.found[..found] {
            visit(key, *value as u64);
        }
    }
}
