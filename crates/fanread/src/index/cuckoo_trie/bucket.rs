//! A bucket: five nodes in one line, read without a lock.
//!
//! ```text
//! word 0            1            2                  3        4        5        6        7
//!      | head 0, 1  | head 2, 3  | head 4, version  | body 0 | body 1 | body 2 | body 3 | body 4 |
//! ```
//!
//! | step of the writer | version | a reader |
//! | --- | --- | --- |
//! | | n (even) | may start |
//! | `change` begins | n + 1 | waits to start; what it has read so far is dropped |
//! | stores one body and one head | n + 1 | |
//! | `change` ends | n + 2 | may start; what it read before is dropped |
//!
//! The version is odd for some five stores. Only the holder of the trie's lock writes (T6).
//!
//! The loom models below run these functions on loom's atomics.

use super::layout::{Head, SLOTS};
use crate::arch::Lanes;
use crate::sync::backoff::Backoff;
use crate::sync::shim::{
    self, AtomicU64, LineWords,
    Ordering::{Acquire, Relaxed, Release},
    Word,
};

const WORDS: usize = 8;

/// The word that the version is in.
const VERSION_WORD: usize = 2;

/// Where the version is in its word, and so what a change adds to it.
const VERSION_AT: u32 = 32;

/// The first body.
const BODIES_AT: usize = 3;

/// A line of five nodes; see the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket<W: Word = AtomicU64> {
    words: [W; WORDS],
}

const _: () = assert!(size_of::<Bucket>() == crate::mem::LINE_BYTES && BODIES_AT + SLOTS == WORDS);

/// What a bucket's version was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Version(u32);

impl Version {
    /// The number, even.
    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        self.0
    }
}

impl<W: Word> Bucket<W> {
    /// Starts a read. Waits while a change is under way.
    #[inline(always)]
    pub(super) fn begin(&self) -> Version {
        // ORDER: Acquire, pairs with the Release store in `change`: the reader sees what made this version, and whatever
        // was written before, such as the record that a leaf names.
        let version = (self.words[VERSION_WORD].load(Acquire) >> VERSION_AT) as u32;
        if version & 1 == 0 { Version(version) } else { self.begin_later() }
    }

    #[cold]
    fn begin_later(&self) -> Version {
        let mut backoff = Backoff::new();
        loop {
            // ORDER: Acquire, as in `begin`.
            let version = (self.words[VERSION_WORD].load(Acquire) >> VERSION_AT) as u32;
            if version & 1 == 0 {
                return Version(version);
            }
            backoff.wait();
        }
    }

    /// Whether everything that was read since `begin` is of one version, and still so.
    #[inline(always)]
    pub(super) fn is_still(&self, version: Version) -> bool {
        // ORDER: Acquire fence, pairs with the Release fence in `change`: if the reader saw a word of a later change, the
        // load below sees at least that change's odd version.
        W::fence(Acquire);
        (self.words[VERSION_WORD].load(Relaxed) >> VERSION_AT) as u32 == version.0
    }

    /// The head of a slot.
    #[inline(always)]
    pub(super) fn head(&self, slot: u32) -> Head {
        // Relaxed: readers validate it by the version, the lock's holder sees its own stores.
        let pair = self.words[slot as usize / 2].load(Relaxed);
        Head((pair >> (32 * (slot % 2))) as u32)
    }

    /// The body of a slot.
    #[inline(always)]
    pub(super) fn body(&self, slot: u32) -> u64 {
        // Relaxed: as in `head`.
        self.words[BODIES_AT + slot as usize].load(Relaxed)
    }

    /// The heads of all slots.
    #[inline]
    pub(super) fn heads(&self) -> [Head; SLOTS] {
        core::array::from_fn(|slot| self.head(slot as u32))
    }

    /// A slot that is free.
    #[inline]
    pub(super) fn free_slot(&self) -> Option<u32> {
        self.plain_match(0, !0)
    }

    /// The slot whose head equals `want` in the bits of `mask`.
    #[inline]
    pub(super) fn plain_match(&self, want: u32, mask: u32) -> Option<u32> {
        let lanes = self.heads().map(|head| head.0 & mask == want);
        lanes.iter().position(|same| *same).map(|slot| slot as u32)
    }

    /// Sets the version to 0, in a trie that nobody has seen yet.
    #[inline]
    pub(super) fn start(&self) {
        // Relaxed, both: whoever publishes the trie stores its name by Release.
        let word = self.words[VERSION_WORD].load(Relaxed);
        self.words[VERSION_WORD].store(word & ((1 << VERSION_AT) - 1), Relaxed);
    }

    /// Changes one slot. The caller holds the trie's lock, or has not published the trie.
    #[inline]
    pub(super) fn change(&self, slot: u32, head: Head, body: u64) -> Version {
        const STEP: u64 = 1 << VERSION_AT;
        let (word, half) = (slot as usize / 2, 32 * (slot % 2));
        // Relaxed: only the lock's holder stores here.
        let before = self.words[VERSION_WORD].load(Relaxed);
        debug_assert!(before & STEP == 0, "T6");
        self.words[VERSION_WORD].store(before.wrapping_add(STEP), Relaxed);
        // ORDER: Release fence, pairs with the Acquire fence in `is_still`: whoever sees one of the stores that follow
        // also sees the odd version.
        W::fence(Release);
        // Relaxed: ordered by the fence above and the store below.
        self.words[BODIES_AT + slot as usize].store(body, Relaxed);
        let mut last = before.wrapping_add(2 * STEP);
        let with_head = |pair: u64| pair & !(0xffff_ffff << half) | u64::from(head.0) << half;
        if word == VERSION_WORD {
            last = with_head(last);
        } else {
            let pair = self.words[word].load(Relaxed);
            self.words[word].store(with_head(pair), Relaxed);
        }
        // ORDER: Release, pairs with the Acquire load in `begin`.
        self.words[VERSION_WORD].store(last, Release);
        Version((last >> VERSION_AT) as u32)
    }
}

impl Bucket {
    /// The slot of the node of this name.
    #[inline(always)]
    fn find<L: Lanes>(&self, lanes: L, name: u32) -> Option<u32> {
        let line: &LineWords = &self.words;
        let found = lanes.match_u32(shim::line(line), name, Head::NAME_MASK);
        // A torn read may find two.
        (found != 0).then(|| found.trailing_zeros())
    }
}

/// A matcher of heads in one memory model.
pub(super) trait Find<W: Word>: Copy {
    /// The slot of the node of this name.
    fn find(self, bucket: &Bucket<W>, name: u32) -> Option<u32>;
}

impl<L: Lanes> Find<AtomicU64> for L {
    #[inline(always)]
    fn find(self, bucket: &Bucket, name: u32) -> Option<u32> {
        bucket.find(self, name)
    }
}

/// A node that was read: what it said, and where.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests and models look into it"))]
pub(super) struct Hit<'g, W: Word = AtomicU64> {
    pub(super) head: Head,
    pub(super) body: u64,
    pub(super) slot: u32,
    pub(super) seen: Seen<'g, W>,
}

/// A bucket, and its version when something was read from it.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests and models look into it"))]
pub(super) struct Seen<'g, W: Word = AtomicU64> {
    bucket: &'g Bucket<W>,
    version: Version,
}

impl<W: Word> Clone for Hit<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Word> Copy for Hit<'_, W> {}

impl<W: Word> Clone for Seen<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Word> Copy for Seen<'_, W> {}

#[cfg(test)]
impl<W: Word> Seen<'_, W> {
    /// Whether the bucket has not changed since: after all loads before this call, the node still said the same.
    #[inline(always)]
    pub(super) fn is_still(self) -> bool {
        self.bucket.is_still(self.version)
    }
}

/// Reads a node that is in one of two buckets, or in neither. What it returns was so at one moment of the call.
#[inline(always)]
pub(super) fn find_in_pair<'g, W: Word, F: Find<W>>(
    find: F,
    first: &'g Bucket<W>,
    second: &'g Bucket<W>,
    tag: u32,
) -> Option<Hit<'g, W>> {
    loop {
        let version = first.begin();
        if let Some(slot) = find.find(first, Head::first(tag)) {
            if let Some(hit) = hit(first, version, slot) {
                return Some(hit);
            }
            continue;
        }
        let other = second.begin();
        if let Some(slot) = find.find(second, Head::second(tag)) {
            if let Some(hit) = hit(second, other, slot) {
                return Some(hit);
            }
            continue;
        }
        // A node that moves is copied before it is cleared. So one that was not in the second bucket when that was read
        // was not there at all, or in the first, which has changed since then.
        if second.is_still(other) && first.is_still(version) {
            return None;
        }
    }
}

/// The node in `slot`, if the bucket has not changed.
#[inline(always)]
fn hit<W: Word>(bucket: &Bucket<W>, version: Version, slot: u32) -> Option<Hit<'_, W>> {
    let (head, body) = (bucket.head(slot), bucket.body(slot));
    bucket.is_still(version).then_some(Hit { head, body, slot, seen: Seen { bucket, version } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Baseline;
    use crate::index::cuckoo_trie::layout::Kind;

    fn empty() -> Bucket {
        Bucket { words: [const { AtomicU64::new(0) }; WORDS] }
    }

    fn head(tag: u32) -> Head {
        Head::new(Head::first(tag), Kind::Regular)
    }

    #[test]
    fn a_slot_is_changed_without_its_neighbours() {
        let bucket = empty();
        for slot in 0..SLOTS as u32 {
            assert_eq!(bucket.free_slot(), Some(slot));
            let before = bucket.begin();
            assert_eq!(
                bucket.change(slot, head(slot + 1), !u64::from(slot)).number(),
                2 * slot + 2
            );
            assert!(!bucket.is_still(before) && bucket.is_still(bucket.begin()));
        }
        assert_eq!(bucket.free_slot(), None);
        bucket.change(4, head(0), 0);
        for slot in 0..4 {
            assert_eq!(bucket.head(slot), head(slot + 1));
            assert_eq!(bucket.body(slot), !u64::from(slot));
        }
        bucket.change(4, Head::FREE, 0);
        assert_eq!(bucket.free_slot(), Some(4));
        assert_eq!(bucket.begin().number(), 14);
    }

    #[test]
    fn a_node_is_found_by_seat_and_tag_whatever_its_kind() {
        let (first, second) = (empty(), empty());
        assert!(find_in_pair(Baseline, &first, &second, 0).is_none());
        for (slot, kind) in
            [Kind::Leaf, Kind::Jump, Kind::Regular, Kind::RegularEnd].into_iter().enumerate()
        {
            let (slot, tag) = (slot as u32, slot as u32);
            second.change(slot, Head::new(Head::second(tag), kind), 70);
            let hit = find_in_pair(Baseline, &first, &second, tag).unwrap();
            assert_eq!((hit.head.kind(), hit.slot, hit.body), (kind, slot, 70));
            // One copy in each: the first counts.
            first.change(4 - slot, Head::new(Head::first(tag), kind), 71);
            let copy = find_in_pair(Baseline, &first, &second, tag).unwrap();
            assert_eq!((copy.slot, copy.body), (4 - slot, 71));
            assert!(hit.seen.is_still() && copy.seen.is_still());
            // A head in the wrong bucket is not the node.
            assert!(find_in_pair(Baseline, &second, &first, tag).is_none());
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::index::cuckoo_trie::layout::Kind;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Model;
    use loom::thread;

    #[derive(Clone, Copy)]
    struct Plain;

    impl Find<Model> for Plain {
        fn find(self, bucket: &Bucket<Model>, name: u32) -> Option<u32> {
            // Slot 4, beside the version, and slot 3: the others are as slot 3, and loom tries every load.
            let is = |slot| bucket.head(slot).name() == name;
            if is(4) { Some(4) } else { is(3).then_some(3) }
        }
    }

    fn bucket() -> Bucket<Model> {
        Bucket { words: core::array::from_fn(|_| Model::new(0)) }
    }

    fn first(tag: u32, kind: Kind) -> Head {
        Head::new(Head::first(tag), kind)
    }

    /// Runs a reader beside a writer. The writer goes first in the first run: loom goes back from a load to the stores
    /// before it, but from a store only to the last access before it, which may be a load of the same thread.
    fn race(
        line: [Bucket<Model>; 2],
        write: impl FnOnce(&[Bucket<Model>; 2]),
        read: impl FnOnce(&[Bucket<Model>; 2]) + 'static,
    ) {
        let pair = Arc::new(line);
        let reader = {
            let pair = pair.clone();
            thread::spawn(move || read(&pair))
        };
        write(&pair);
        reader.join().unwrap();
    }

    #[test]
    fn loom_a_node_is_read_as_one() {
        for slot in [3, 4] {
            loom::model(move || {
                let pair = [bucket(), bucket()];
                pair[0].change(slot, first(1, Kind::Leaf), 10);
                let write = |pair: &[Bucket<Model>; 2]| {
                    pair[0].change(slot, first(1, Kind::Jump), 20);
                    pair[0].change(slot, first(2, Kind::Leaf), 30);
                };
                race(pair, write, move |pair| {
                    let version = pair[0].begin();
                    let (head, body) = (pair[0].head(slot), pair[0].body(slot));
                    if pair[0].is_still(version) {
                        let read = (head.tag(), head.kind(), body);
                        let whole = [(1, Kind::Leaf, 10), (1, Kind::Jump, 20), (2, Kind::Leaf, 30)];
                        assert!(whole.contains(&read), "{read:?}");
                    }
                });
            });
        }
    }

    #[test]
    fn loom_a_node_that_moves_is_always_found() {
        // To the second bucket and to the first.
        for back in [false, true] {
            loom::model(move || {
                let pair = [bucket(), bucket()];
                let (from, to) = (usize::from(back), usize::from(!back));
                let head = first(1, Kind::Leaf);
                pair[from].change(3, if back { head.moved() } else { head }, 10);
                let write = move |pair: &[Bucket<Model>; 2]| {
                    let head = pair[from].head(3);
                    pair[to].change(4, head.moved(), pair[from].body(3));
                    // Another node takes its place.
                    pair[from].change(3, first(2, Kind::Jump), 20);
                };
                race(pair, write, |pair| {
                    let hit = find_in_pair(Plain, &pair[0], &pair[1], 1).expect("it never left");
                    assert_eq!((hit.head.kind(), hit.body), (Kind::Leaf, 10));
                });
            });
        }
    }

    #[test]
    fn loom_a_child_is_there_as_long_as_its_parent_says_so() {
        // Insertion: child, then the bit in the parent. Removal: the bit, then the child. A reader that finds the bit and
        // then no child has to see that the parent has changed.
        for insertion in [false, true] {
            loom::model(move || {
                let pair = [bucket(), bucket()];
                let (parent, child) = (first(1, Kind::Regular), first(2, Kind::Leaf));
                pair[0].change(3, parent, u64::from(!insertion));
                if !insertion {
                    pair[1].change(3, child, 10);
                }
                let write = move |pair: &[Bucket<Model>; 2]| {
                    if insertion {
                        pair[1].change(3, child, 10);
                        pair[0].change(3, parent, 1);
                    } else {
                        pair[0].change(3, parent, 0);
                        pair[1].change(3, Head::FREE, 0);
                    }
                };
                race(pair, write, |pair| {
                    // The second bucket of both is one that does not matter.
                    let none = bucket();
                    let hit = find_in_pair(Plain, &pair[0], &none, 1).expect("the parent stays");
                    if hit.body == 1 {
                        let below = find_in_pair(Plain, &pair[1], &none, 2);
                        assert!(below.is_some() || !hit.seen.is_still(), "a child is missing");
                        assert!(below.is_none_or(|below| below.body == 10));
                    }
                });
            });
        }
    }
}
