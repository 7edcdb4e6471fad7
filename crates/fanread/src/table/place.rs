//! Finds a bucket for every entry, in one of two ways.
//!
//! *As `RocksDB` does*, so that the same entries in the same order get the same buckets. An entry takes the first free
//! bucket in its probe order. If there is none, a breadth-first search over buckets looks for the shortest chain of
//! entries that can each move to another bucket of theirs, the last one to a free bucket. If there is no such chain within
//! the depth allowed, the table gets one more hash function.
//!
//! *First blocks first*: as many entries as can be are put into their first block, and only the others take the way above.
//! An entry's first block is an interval of buckets, all of one length. Going through the buckets in order and giving each
//! to the waiting entry whose interval began first fills the most: no other choice of an entry leaves more time to those
//! that wait. Entries that are waiting when their interval ends are the others; the chains that make room for them may move a
//! few entries out of their first blocks again.
//!
//! # Invariants
//!
//! * **P1** A bucket once taken stays taken. So all buckets before an entry in its probe order are taken, for ever:
//!   readers stop at the first free one.
//! * **P2** Each entry is in one bucket, and in one of its blocks.
//!
//! The second way keeps P1, since a bucket stays free only if no entry waits: an entry passes no free bucket of its first
//! block.
//!
//! PAPER: "Cuckoo Hashing Table Format" (`RocksDB` blog, 2014): blocks of adjacent buckets, shortest displacement path.
//! Roots of a search are the first buckets of the *first* block (as many as there are hash functions), not one for each
//! function: that is what `RocksDB` does, and files are to be the same byte for byte.

use std::collections::VecDeque;

use super::layout::{Layout, MAX_HASHES};
use crate::arch;
use crate::mem::AllocError;

/// A bucket without an entry.
pub(super) const FREE: u32 = u32::MAX;

/// How many hash functions a table starts with.
pub(super) const FIRST_HASHES: u32 = 2;

/// How many entries ahead buckets are asked for. An entry waits for one line of a table far larger than the cache; 16 of
/// them are about what a core can wait for at once.
const AHEAD: usize = 16;

/// After how many entries a step says how far it is.
const REPORT_EVERY: u32 = 1 << 16;

/// How buckets are chosen; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    RocksDb,
    FirstBlocks,
}

/// Why entries could not be placed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlaceError {
    OutOfMemory(AllocError),
    /// This entry found no bucket.
    NoBucket(u32),
}

impl From<AllocError> for PlaceError {
    fn from(cause: AllocError) -> Self {
        Self::OutOfMemory(cause)
    }
}

/// A bucket that a search has reached.
struct Node {
    bucket: u32,
    depth: u32,
    /// The node from whose entry it was reached.
    parent: u32,
}

/// The buckets that a search has reached, as a hash table: searches are short, and a list of all buckets would cost memory,
/// and a line fetch for each one.
struct Reached {
    /// A bucket and the number of the search that reached it. Those of earlier searches count as free.
    slots: Vec<(u32, u32)>,
    search: u32,
    count: usize,
}

impl Reached {
    /// Makes an empty set. The number of slots stays a power of two.
    fn new() -> Self {
        Self { slots: vec![(0, 0); 256], search: 0, count: 0 }
    }

    /// Forgets all buckets.
    fn clear(&mut self) {
        if self.search == u32::MAX {
            self.slots.fill((0, 0));
            self.search = 0;
        }
        (self.search, self.count) = (self.search + 1, 0);
    }

    /// Adds a bucket; returns whether it is new.
    fn insert(&mut self, bucket: u32) -> bool {
        let slot = self.slot(bucket);
        if self.slots[slot] == (bucket, self.search) {
            return false;
        }
        self.slots[slot] = (bucket, self.search);
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            let larger = vec![(0, 0); 2 * self.slots.len()];
            for (bucket, search) in core::mem::replace(&mut self.slots, larger) {
                if search == self.search {
                    let slot = self.slot(bucket);
                    self.slots[slot] = (bucket, search);
                }
            }
        }
        true
    }

    /// Returns the slot of a bucket, or the free one where it belongs.
    fn slot(&self, bucket: u32) -> usize {
        let mask = self.slots.len() - 1;
        // Buckets of a block are neighbours in the set too.
        let mut slot = (bucket ^ bucket >> 15).wrapping_mul(0x2c1b_3c6d) as usize & mask;
        while self.slots[slot].1 == self.search && self.slots[slot].0 != bucket {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

/// The buckets while they are filled.
struct Placer<'a, F> {
    layout: &'a mut Layout,
    key: F,
    max_depth: u32,
    /// The entry in each bucket, or `FREE`.
    taken: Vec<u32>,
    reached: Reached,
    nodes: Vec<Node>,
    /// Taken buckets of the current entry, in probe order.
    candidates: Vec<u32>,
}

/// Places entries 0 to `count`, whose keys `key` returns. Returns the entry of each bucket or `FREE`, and leaves in
/// `layout` with how many hash functions. Calls `report` with how many entries have been looked at.
pub(super) fn place<'k, F: Fn(u32) -> &'k [u8]>(
    layout: &mut Layout,
    key: F,
    count: u32,
    max_depth: u32,
    way: Way,
    report: &mut dyn FnMut(u64),
) -> Result<Vec<u32>, PlaceError> {
    let buckets = layout.buckets();
    layout.hashes = FIRST_HASHES;
    let mut placer = Placer {
        layout,
        key,
        max_depth,
        taken: words(buckets, FREE)?,
        reached: Reached::new(),
        nodes: Vec::new(),
        candidates: Vec::new(),
    };
    match way {
        Way::RocksDb => placer.one_by_one(count, report)?,
        Way::FirstBlocks => {
            for entry in placer.fill_first_blocks(count, report)? {
                let bucket = placer.find(entry)?;
                placer.taken[bucket] = entry;
            }
        }
    }
    Ok(placer.taken)
}

/// Returns `count` words, or says that there is no memory for them.
pub(super) fn words(count: usize, word: u32) -> Result<Vec<u32>, AllocError> {
    let mut words = Vec::new();
    let failed = |_| AllocError { bytes: count.saturating_mul(4) };
    words.try_reserve_exact(count).map_err(failed)?;
    words.resize(count, word);
    Ok(words)
}

impl<'k, F: Fn(u32) -> &'k [u8]> Placer<'_, F> {
    /// Places entries in their order, each where it finds room.
    fn one_by_one(&mut self, count: u32, report: &mut dyn FnMut(u64)) -> Result<(), PlaceError> {
        let mut homes = [0; AHEAD];
        let ahead = count.min(AHEAD as u32);
        for entry in 0..ahead {
            homes[entry as usize % AHEAD] = self.home(entry);
        }
        for entry in 0..count {
            if entry % REPORT_EVERY == 0 {
                report(entry.into());
            }
            let home = homes[entry as usize % AHEAD];
            // Half way: the first block has arrived, and if it is full the second one will be needed.
            let soon = entry + ahead / 2;
            if soon < count {
                let home = homes[soon as usize % AHEAD];
                if self.free_in(home..home + self.layout.block_buckets).is_none() {
                    let second = self.layout.block_at(1, (self.key)(soon));
                    arch::prefetch(&raw const self.taken[second]);
                }
            }
            if entry + ahead < count {
                homes[entry as usize % AHEAD] = self.home(entry + ahead);
            }
            let bucket = match self.free_in(home..home + self.layout.block_buckets) {
                Some(bucket) => bucket,
                None => self.find(entry)?,
            };
            self.taken[bucket] = entry;
        }
        Ok(())
    }

    /// Puts as many entries as possible into their first blocks; returns the others.
    fn fill_first_blocks(
        &mut self,
        count: u32,
        report: &mut dyn FnMut(u64),
    ) -> Result<Vec<u32>, PlaceError> {
        // Entries by the bucket at which their first block begins: `taken` has the first one of each list until the
        // bucket is given away, `next` the one behind each entry.
        let mut next = words(count as usize, FREE)?;
        let mut homes = [0; AHEAD];
        let ahead = count.min(AHEAD as u32);
        for entry in 0..count + ahead {
            if entry % REPORT_EVERY == 0 {
                report(entry.min(count).into());
            }
            let slot = entry as usize % AHEAD;
            if let Some(arrived) = entry.checked_sub(ahead) {
                let first = &mut self.taken[homes[arrived as usize % AHEAD]];
                next[arrived as usize] = core::mem::replace(first, arrived);
            }
            if entry < count {
                homes[slot] = self.home(entry);
            }
        }
        let (mut waiting, mut left) = (VecDeque::new(), Vec::new());
        for bucket in 0..self.taken.len() {
            if let Some(entry) = self.taken.get(bucket + AHEAD).filter(|entry| **entry != FREE) {
                arch::prefetch(&raw const next[*entry as usize]);
            }
            let mut entry = core::mem::replace(&mut self.taken[bucket], FREE);
            while entry != FREE {
                waiting.push_back((entry, bucket));
                entry = next[entry as usize];
            }
            while let Some((entry, home)) = waiting.pop_front() {
                if home + self.layout.block_buckets > bucket {
                    self.taken[bucket] = entry;
                    break;
                }
                left.push(entry);
            }
        }
        left.extend(waiting.into_iter().map(|(entry, _)| entry));
        Ok(left)
    }

    /// Returns where the first block of an entry begins, and asks for its line.
    fn home(&self, entry: u32) -> usize {
        let home = self.layout.block_at(0, (self.key)(entry));
        arch::prefetch(&raw const self.taken[home]);
        home
    }

    fn free_in(&self, mut block: core::ops::Range<usize>) -> Option<usize> {
        block.find(|bucket| self.taken[*bucket] == FREE)
    }

    /// Finds a bucket for an entry whose first block is full, and makes room if there is none.
    #[cold]
    fn find(&mut self, entry: u32) -> Result<usize, PlaceError> {
        let key = (self.key)(entry);
        self.candidates.clear();
        for number in 0..self.layout.hashes {
            let block = self.layout.block(number, key);
            if let Some(bucket) = self.free_in(block.clone()) {
                return Ok(bucket);
            }
            self.candidates.extend(block.map(|bucket| bucket as u32));
        }
        loop {
            if let Some(bucket) = self.make_room() {
                return Ok(bucket);
            }
            if self.layout.hashes == MAX_HASHES {
                return Err(PlaceError::NoBucket(entry));
            }
            let block = self.layout.block(self.layout.hashes, key);
            self.layout.hashes += 1;
            if let Some(bucket) = self.free_in(block.clone()) {
                return Ok(bucket);
            }
            self.candidates.extend(block.map(|bucket| bucket as u32));
        }
    }

    /// Moves entries along the shortest chain that ends in a free bucket, and returns the bucket at its start; `None` if
    /// there is no chain within the depth allowed.
    fn make_room(&mut self) -> Option<usize> {
        self.nodes.clear();
        self.reached.clear();
        let roots = self.layout.hashes as usize;
        for at in 0..roots.min(self.candidates.len()) {
            let bucket = self.candidates[at];
            self.reached.insert(bucket);
            self.nodes.push(Node { bucket, depth: 0, parent: 0 });
        }
        let mut at = 0;
        while at < self.nodes.len() && self.nodes[at].depth < self.max_depth {
            if self.expand(at) {
                return Some(self.shift(roots));
            }
            at += 1;
        }
        None
    }

    /// Adds the buckets to which the entry of node `at` could move. Returns whether the last one is free.
    fn expand(&mut self, at: usize) -> bool {
        let Node { bucket, depth, .. } = self.nodes[at];
        let key = (self.key)(self.taken[bucket as usize]);
        for number in 0..self.layout.hashes {
            for bucket in self.layout.block(number, key) {
                if !self.reached.insert(bucket as u32) {
                    continue;
                }
                let node = Node { bucket: bucket as u32, depth: depth + 1, parent: at as u32 };
                self.nodes.push(node);
                let other = self.taken[bucket];
                if other == FREE {
                    return true;
                }
                // Its turn may come.
                arch::prefetch((self.key)(other).as_ptr());
            }
        }
        false
    }

    /// Moves each entry on the way from the last node to its root one step on; returns the root's bucket. P1: the entry
    /// that takes it is stored before anybody looks.
    fn shift(&mut self, roots: usize) -> usize {
        let mut at = self.nodes.len() - 1;
        while at >= roots {
            let node = &self.nodes[at];
            let parent = node.parent as usize;
            self.taken[node.bucket as usize] = self.taken[self.nodes[parent].bucket as usize];
            at = parent;
        }
        self.nodes[at].bucket as usize
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::table::layout::Shape;

    fn layout(table_buckets: u64, block_buckets: u64) -> Layout {
        Layout::new(&Shape {
            user_key_bytes: 8,
            value_bytes: 0,
            block_buckets,
            table_buckets,
            hashes: 2,
            has_sequences: false,
            modulo: true,
            identity_first: false,
        })
        .unwrap()
    }

    /// P1 and P2.
    fn assert_placed(layout: &Layout, keys: &[[u8; 8]], taken: &[u32]) {
        let mut seen = vec![false; keys.len()];
        for (bucket, entry) in taken.iter().enumerate().filter(|(_, entry)| **entry != FREE) {
            assert!(!core::mem::replace(&mut seen[*entry as usize], true), "{entry} twice");
            let key = &keys[*entry as usize];
            let mut probes = (0..layout.hashes).flat_map(|number| layout.block(number, key));
            let free = probes.find(|probe| *probe == bucket || taken[*probe] == FREE);
            assert_eq!(free, Some(bucket), "{entry}");
        }
        assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn every_entry_has_a_bucket_that_probes_reach() {
        for (count, table, block) in
            [(1, 1, 1), (9, 10, 1), (900, 1000, 1), (900, 1000, 5), (900, 1000, 2), (7, 7, 9)]
        {
            let keys: Vec<[u8; 8]> = (0..count).map(|i: u64| i.to_be_bytes()).collect();
            for depth in [0, 1, 3, 100] {
                for way in [Way::RocksDb, Way::FirstBlocks] {
                    let mut layout = layout(table, block);
                    let key = |i: u32| &keys[i as usize][..];
                    let placed = place(&mut layout, key, count as u32, depth, way, &mut |_| {});
                    let at = || format!("{count} {table} {block} {depth} {way:?}");
                    let taken = placed.unwrap_or_else(|e| panic!("{}: {e:?}", at()));
                    assert_placed(&layout, &keys, &taken);
                }
            }
        }
    }

    #[test]
    fn a_set_of_reached_buckets_forgets_and_grows() {
        let mut reached = Reached::new();
        reached.search = u32::MAX - 3;
        for round in 0..6_u32 {
            reached.clear();
            for bucket in 0..1000 * round {
                assert!(reached.insert(bucket * 7));
                assert!(!reached.insert(bucket / 2 * 7));
            }
        }
    }

    /// Returns the most entries that can be in their first block, by augmenting paths.
    fn most_in_first_block(layout: &Layout, keys: &[[u8; 8]]) -> usize {
        fn augment(
            layout: &Layout,
            keys: &[[u8; 8]],
            entry: usize,
            taken: &mut [u32],
            seen: &mut [bool],
        ) -> bool {
            layout.block(0, &keys[entry]).any(|bucket| {
                if core::mem::replace(&mut seen[bucket], true) {
                    return false;
                }
                let other = taken[bucket];
                let free = other == FREE || augment(layout, keys, other as usize, taken, seen);
                if free {
                    taken[bucket] = entry as u32;
                }
                free
            })
        }
        let mut taken = vec![FREE; layout.buckets()];
        let mut seen = vec![false; layout.buckets()];
        let augments = |entry: &usize| {
            seen.fill(false);
            augment(layout, keys, *entry, &mut taken, &mut seen)
        };
        (0..keys.len()).filter(augments).count()
    }

    #[test]
    fn first_blocks_are_filled_with_as_many_entries_as_can_be() {
        let cases =
            [(1, 1, 1), (7, 7, 9), (90, 100, 5), (95, 100, 3), (500, 600, 1), (990, 1000, 4)];
        for (seed, (count, table, block)) in (0..).zip(cases) {
            let keys: Vec<[u8; 8]> =
                (0..count).map(|i: u64| ((i << 8) | seed).to_be_bytes()).collect();
            let mut layout = layout(table, block);
            let most = most_in_first_block(&layout, &keys);
            let buckets = layout.buckets();
            let mut placer = Placer {
                layout: &mut layout,
                key: |i: u32| &keys[i as usize][..],
                max_depth: 100,
                taken: vec![FREE; buckets],
                reached: Reached::new(),
                nodes: Vec::new(),
                candidates: Vec::new(),
            };
            let left = placer.fill_first_blocks(count as u32, &mut |_| {}).unwrap();
            assert_eq!(left.len(), keys.len() - most, "{count} {table} {block}");
            for (bucket, entry) in placer.taken.iter().enumerate().filter(|slot| *slot.1 != FREE) {
                assert!(placer.layout.block(0, &keys[*entry as usize]).contains(&bucket));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let keys: Vec<[u8; 8]> = (0..12).map(|i: u64| i.to_be_bytes()).collect();
        for way in [Way::RocksDb, Way::FirstBlocks] {
            let mut layout = layout(10, 2);
            let refused = place(&mut layout, |i| &keys[i as usize][..], 12, 100, way, &mut |_| {});
            assert!(matches!(refused, Err(PlaceError::NoBucket(_))));
        }
    }
}
