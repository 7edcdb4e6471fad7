//! A sorted array that is made once, laid out for searches: the limit for a search by comparisons.
//!
//! The array is cut into nodes of eight keys, one cache line each, and the nodes are numbered as
//! those of a tree: node `k` has the nine children `9k + 1` to `9k + 9`, one before each of its
//! keys and one behind the last. A search compares eight keys at once, without a branch, and
//! computes the number of the next node from the outcome: one line a level, no pointers, and the
//! levels near the root stay in the caches. The values of a node lie in the line behind its keys.
//!
//! ```text
//! node 0 (root)        node 1                              node 2       ...  node 9       node 10
//! | 8 keys | 8 values | 8 keys below the root's | values | 8 keys ... | ... | 8 keys ... | below those of node 1
//! ```
//!
//! Nothing is prefetched: of nine children eight would be fetched in vain, and the paper's own
//! trials found that to be slower.
//!
//! Two invariants: in order (child, key, child, key, ... child) the keys ascend, and what is left
//! over in the last nodes is padding, which comes behind all keys in order.
//!
//! PAPER: Zhou, "Memory parallelism" (paper 001), section 4.4, measures such an array with nodes
//! of 16 32-bit keys, one line as here, as the best search in sorted data.

use std::marker::PhantomData;

use bytemuck::Pod;
use memmap2::{Advice, MmapMut};
use workload::subject::{Handle, Subject};

use crate::form::{Form, Word};

/// Keys of a node: a line of them.
const KEYS: usize = 8;

/// Entries that there is room for at first: a huge page of them.
const LEAST_ROOM: usize = (2 << 20) / size_of::<[u64; 2]>();

/// The value of what is no key. Values of the benchmark have a clear top bit.
const NO_VALUE: u64 = u64::MAX;

/// A line of keys, and one of their values.
type Node = [[u64; KEYS]; 2];

/// The array.
pub struct Eytzinger {
    /// Keys and values that were inserted since the array was made, and room for more.
    inserted: Pages<[u64; 2]>,
    count: usize,
    nodes: Pages<Node>,
}

/// Zeroed memory on huge pages. All of it goes back to the system at once, so that what the sorting
/// took does not pass for memory of the array.
struct Pages<T>(Option<MmapMut>, PhantomData<T>);

impl<T: Pod> Pages<T> {
    fn new(length: usize) -> Self {
        if length == 0 {
            return Self(None, PhantomData);
        }
        let map = MmapMut::map_anon(length * size_of::<T>()).expect("memory for the array");
        // Refused where the kernel has no huge pages; then small ones serve.
        let _ = map.advise(Advice::HugePage);
        Self(Some(map), PhantomData)
    }

    #[inline]
    fn all(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |map| bytemuck::cast_slice(map))
    }

    fn all_mut(&mut self) -> &mut [T] {
        self.0.as_mut().map_or(&mut [], |map| bytemuck::cast_slice_mut(map))
    }
}

/// The place of a key: its node, and which of the node's keys it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    node: usize,
    slot: usize,
}

#[inline]
fn child(node: usize, number: usize) -> usize {
    node * (KEYS + 1) + 1 + number
}

impl Place {
    /// The first place in order below `node`, of `nodes`.
    fn leftmost(mut node: usize, nodes: usize) -> Self {
        while child(node, 0) < nodes {
            node = child(node, 0);
        }
        Self { node, slot: 0 }
    }

    /// The next place in order.
    fn next(self, nodes: usize) -> Option<Self> {
        let Self { mut node, mut slot } = self;
        slot += 1;
        if child(node, slot) < nodes {
            return Some(Self::leftmost(child(node, slot), nodes));
        }
        // Up, as long as this is the last child.
        while slot == KEYS {
            if node == 0 {
                return None;
            }
            (node, slot) = ((node - 1) / (KEYS + 1), (node - 1) % (KEYS + 1));
        }
        Some(Self { node, slot })
    }
}

impl Eytzinger {
    /// Keeps an entry for the array.
    fn add(&mut self, key: u64, value: u64) {
        let full = self.inserted.all().len();
        if self.count == full {
            let mut larger = Pages::new((2 * full).max(LEAST_ROOM));
            larger.all_mut()[..full].copy_from_slice(self.inserted.all());
            self.inserted = larger;
        }
        self.inserted.all_mut()[self.count] = [key, value];
        self.count += 1;
    }

    /// Makes the array of what was inserted.
    fn make(&mut self) {
        let sorted = &mut self.inserted.all_mut()[..self.count];
        sorted.sort_unstable();
        let nodes = sorted.len().div_ceil(KEYS);
        self.nodes = Pages::new(nodes);
        let all = self.nodes.all_mut();
        let mut entries = sorted.iter();
        let mut place = (nodes > 0).then(|| Place::leftmost(0, nodes));
        while let Some(Place { node, slot }) = place {
            let [key, value] = *entries.next().unwrap_or(&[u64::MAX, NO_VALUE]);
            (all[node][0][slot], all[node][1][slot]) = (key, value);
            place = Place { node, slot }.next(nodes);
        }
        (self.inserted, self.count) = (Pages::new(0), 0);
    }

    /// Returns the place of the first key that is not less than `key`, if there is one.
    #[inline]
    fn search(&self, key: u64) -> Option<Place> {
        let nodes = self.nodes.all();
        let (mut node, mut found) = (0, None);
        while let Some([keys, _]) = nodes.get(node) {
            let slot = keys.iter().map(|other| usize::from(*other < key)).sum();
            if slot < KEYS {
                // What is found further down is nearer.
                found = Some(Place { node, slot });
            }
            node = child(node, slot);
        }
        found
    }

    #[inline]
    fn entry(&self, place: Place) -> Option<(u64, u64)> {
        let [keys, values] = &self.nodes.all()[place.node];
        let value = values[place.slot];
        (value != NO_VALUE).then(|| (keys[place.slot], value))
    }
}

impl std::fmt::Debug for Eytzinger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eytzinger").field("nodes", &self.nodes.all().len()).finish_non_exhaustive()
    }
}

/// The handle that inserts, and makes the array of what was inserted.
#[derive(Debug)]
pub struct EytzingerMaker<'a>(&'a mut Eytzinger);

impl Subject for Eytzinger {
    const NAME: &'static str = "eytzinger";
    const SHARED_WRITES: bool = false;
    const STATIC: bool = true;
    const MAX_KEY_BYTES: usize = 8;

    type Owned<'a> = EytzingerMaker<'a>;
    type Shared<'a> = &'a Self;

    fn new() -> Self {
        Self { inserted: Pages::new(0), count: 0, nodes: Pages::new(0) }
    }

    fn own(&mut self) -> EytzingerMaker<'_> {
        EytzingerMaker(self)
    }

    fn share(&self) -> &Self {
        self
    }
}

impl Handle for EytzingerMaker<'_> {
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.0.add(Word::make(key), value);
        true
    }

    fn loaded(&mut self) {
        self.0.make();
    }

    fn update(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("an array that is made once is only read")
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        (&*self.0).get(key)
    }

    fn remove(&mut self, _: &[u8]) -> bool {
        unreachable!("an array that is made once is only read")
    }

    #[inline]
    fn lower_bound(&mut self, from: &[u8], visit: impl FnMut(&[u8], u64)) {
        (&*self.0).lower_bound(from, visit);
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, visit: impl FnMut(&[u8], u64)) {
        (&*self.0).scan(from, count, visit);
    }
}

impl Handle for &Eytzinger {
    fn insert(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("several threads only read this array")
    }

    fn update(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("an array that is made once is only read")
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        let key = Word::make(key);
        let (found, value) = self.entry(self.search(key)?)?;
        (found == key).then_some(value)
    }

    fn remove(&mut self, _: &[u8]) -> bool {
        unreachable!("an array that is made once is only read")
    }

    #[inline]
    fn lower_bound(&mut self, from: &[u8], mut visit: impl FnMut(&[u8], u64)) {
        let place = self.search(Word::make(from));
        if let Some((key, value)) = place.and_then(|place| self.entry(place)) {
            key.show(|key| visit(key, value));
        }
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let mut place = self.search(Word::make(from));
        for _ in 0..count {
            let Some((key, value)) = place.and_then(|place| self.entry(place)) else { return };
            key.show(|key| visit(key, value));
            place = place.and_then(|place| place.next(self.nodes.all().len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_search_finds_what_a_sorted_list_does() {
        for count in [0, 1, 7, 8, 9, 63, 64, 71, 72, 73, 80, 648, 649, 650, 5_000_u64] {
            let mut array = Eytzinger::new();
            // The largest number, which padding has too, and gaps of five.
            let number = |n: u64| if n + 1 == count { u64::MAX } else { 5 * n + 3 };
            let mut maker = array.own();
            for n in (0..count).rev() {
                assert!(maker.insert(&number(n).to_be_bytes(), n));
            }
            maker.loaded();
            let sorted: Vec<_> = (0..count).map(|n| (number(n), n)).collect();
            let mut all = Vec::new();
            let mut handle = array.share();
            handle.scan(&[0; 8], usize::MAX, |key, value| all.push((Word::make(key), value)));
            assert_eq!(all, sorted, "{count} keys");
            for asked in (0..5 * count + 9).chain([u64::MAX - 1, u64::MAX]) {
                let first = sorted.partition_point(|entry| entry.0 < asked);
                let mut found = None;
                handle
                    .lower_bound(&asked.to_be_bytes(), |key, v| found = Some((Word::make(key), v)));
                assert_eq!(found.as_ref(), sorted.get(first), "{asked} of {count}");
                let value = found.filter(|entry| entry.0 == asked).map(|entry| entry.1);
                assert_eq!(handle.get(&asked.to_be_bytes()), value, "{asked} of {count}");
            }
        }
    }
}
