//! Who is away: nodes in the second bucket of their state, as their first bucket knows them.
//!
//! ```text
//! word 2 of a bucket    | head 4: 32 | marks 8 | count 4 | version 20 |
//! ```
//!
//! A bucket counts the nodes whose first bucket it is and that are in their second one, and has a mark for each, by three bits of
//! its tag. So whoever does not find a node in its first bucket, nor its mark there, need not look into the second: nor is it
//! there. Some one in seven nodes is away, a quarter of a node for each bucket, so of the names that have no node one in thirty
//! meets the mark of another.
//!
//! When the last of those that are away is gone, all marks are cleared. A count that has come to its end stays there, and the
//! marks with it, until the trie is replaced.
//!
//! # What a reader may believe
//!
//! Marks change with the nodes, between the same two changes of the trie's version (T9), and not together with the bucket
//! that the node goes to. So they count for those who count on the trie's version, and for the holder of its lock. A careful
//! search (`descend.rs`) does not look at them.
//!
//! # Invariants
//!
//! * **T12** A node in the second bucket of its state is counted in the first, and its mark is set there.
//!
//! `check.rs` verifies it.
//!
//! PAPER: not there. Its search reads both buckets of each node.

use super::bucket::{Bucket, Find};
use super::layout::{Form, Head, Home, Node, Place};
use super::raw::Trie;
use crate::arch::Lanes;

/// The marks and the count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Away(pub(super) u32);

impl Away {
    /// Bits of both.
    pub(super) const BITS: u32 = 12;

    const MARKS: u32 = 8;
    const ONE: u32 = 1 << Self::MARKS;
    /// The count that stays: five can be in one bucket, and seldom are as many of one bucket's in others.
    const MOST: u32 = (1 << (Self::BITS - Self::MARKS)) - 1;

    /// The place of a tag's mark. Not by its last bits, of which the lowest tells whether a name is short.
    #[inline(always)]
    fn place(tag: u32) -> u32 {
        tag >> 8 & (Self::MARKS - 1)
    }

    /// Whether a node of this tag may be away.
    #[inline(always)]
    pub(super) fn may_be(self, tag: u32) -> bool {
        self.0 >> Self::place(tag) & 1 != 0
    }

    /// How many are; `None` if they were too many once to be counted.
    pub(super) fn count(self) -> Option<u32> {
        let count = self.0 >> Self::MARKS;
        (count < Self::MOST).then_some(count)
    }

    /// With one more.
    #[inline]
    fn with(self, tag: u32) -> Self {
        let more = if self.count().is_some() { Self::ONE } else { 0 };
        Self((self.0 + more) | 1 << Self::place(tag))
    }

    /// With one less.
    #[inline]
    fn without_one(self) -> Self {
        match self.count() {
            None => self,
            Some(0 | 1) => Self::default(),
            Some(_) => Self(self.0 - Self::ONE),
        }
    }
}

impl Trie<'_> {
    /// Where a node is. The caller holds the lock.
    #[inline]
    pub(super) fn locate<L: Lanes>(self, lanes: L, home: Home) -> Option<Place> {
        let at = |bucket: u32, name: u32| {
            let slot = lanes.find(self.bucket(bucket), name)?;
            Some(Place { bucket, slot })
        };
        let first = at(home.first, Head::first(home.tag));
        if first.is_some() || !self.bucket(home.first).away().may_be(home.tag) {
            return first;
        }
        at(home.second, Head::second(home.tag))
    }

    /// Stores a node into a bucket, if there is room; others may change their slots there. The caller holds the lock, or
    /// has not published the trie.
    #[inline]
    pub(super) fn put(self, bucket: u32, name: u32, form: Form) -> bool {
        let Some(version) = self.bucket(bucket).put(name, form) else { return false };
        let head = Head::new(name, form.kind);
        if head.is_second() {
            self.change_away(bucket, head, |away| away.with(head.tag()));
        }
        self.note(version)
    }

    /// Stores a node in the place of another of the same state, at one moment, if there is room for it; others may change
    /// their slots. The caller holds the lock.
    #[inline]
    pub(super) fn exchange(self, place: Place, node: Node) -> bool {
        let version = self.bucket(place.bucket).exchange(place.slot, node.encode());
        version.is_some_and(|version| self.note(version))
    }

    /// Frees a node's slot; others may change theirs. The caller holds the lock.
    #[inline]
    pub(super) fn take(self, place: Place) {
        let head = self.head(place);
        self.note(self.bucket(place.bucket).take(place.slot));
        if head.is_second() {
            self.change_away(place.bucket, head, Away::without_one);
        }
    }

    /// Marks a node that was stored into its second bucket. The caller has not published the trie.
    #[inline]
    pub(super) fn mark_away(self, home: Home) {
        let first: &Bucket = self.bucket(home.first);
        first.set_away(first.away().with(home.tag));
    }

    /// Changes what the first bucket knows of a node that is in its second.
    #[inline]
    fn change_away(self, second: u32, head: Head, change: impl FnOnce(Away) -> Away) {
        let first: &Bucket = self.bucket(self.other(second, head));
        first.set_away(change(first.away()));
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    const TAGS: [u32; 3] = [0x100, 0x200, 0x100];

    #[test]
    fn marks_are_cleared_when_the_last_that_was_away_is_gone() {
        let mut away = TAGS.into_iter().fold(Away::default(), Away::with);
        for left in [2, 1] {
            assert!(away.may_be(0x100) && away.may_be(0x200) && !away.may_be(0x300));
            away = away.without_one();
            assert_eq!(away.count(), Some(left));
        }
        assert_eq!(away.without_one(), Away::default());
    }

    #[test]
    fn too_many_to_be_counted_stay_marked() {
        let many = (0..20).fold(Away::default(), |away, _| away.with(0x700));
        assert!(many.count().is_none() && many.may_be(0x700) && many.0 >> Away::BITS == 0);
        assert_eq!((0..20).fold(many, |away, _| away.without_one()), many);
    }
}
