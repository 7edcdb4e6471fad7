//! A sorted list of leaves that are replaced, never rewritten, and found by a prefix table.
//!
//! > **The list is the truth; the prefix table is only a hint.** A leaf carries its own borders and never changes them. Whoever
//! > arrives at a leaf, from the table, from a neighbour or from a stale reference, can tell by the borders alone whether the
//! > key belongs there, and walks left, right or forward if it does not.
//!
//! What a leaf keeps is the map's affair; here is its place among the others ([`Header`]), and how leaves take the place of
//! others. Links and the table change under one lock; readers of them never wait: any reference they find names a leaf that is
//! live, or dead and not yet freed, and the borders decide.
//!
//! # Invariants
//!
//! * **L1** A leaf's borders and common prefix never change.
//! * **L2** A live leaf's `high` is the `low` of the next live leaf; the first has `low` empty, the last has no `high`.
//! * **L7** A dead leaf's `next` names a leaf with the same `low`, or one that has absorbed its range.
//! * **L8** A reference found in the table, in a link or in a dead leaf names a leaf that is not freed while the finder is pinned.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "inside, the error is that there is no memory")]

mod borders;
mod rank;

use core::cmp::Ordering as Order;

pub(crate) use borders::{Border, Header, Limits, slice_at};
pub(crate) use rank::{ROUND, rank, share};

use crate::mem::AllocError;
use crate::prefix::{self, LeafRef, PrefixTable, Probe};
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use crate::sync::version::Locked;

/// A leaf that is live, or dead and not yet freed (L8).
pub(crate) trait Leaf<'g>: Copy + PartialEq {
    /// What else never changes in a leaf's life.
    type Shape: 'g;

    fn name(self) -> LeafRef;

    /// Line 0.
    fn header(self) -> &'g Header<Self::Shape>;

    /// Line 1.
    fn border(self) -> &'g Border;
}

/// Where leaves and records of borders live.
pub(crate) trait Leaves {
    type Leaf<'g>: Leaf<'g>
    where
        Self: 'g;

    /// The leaf behind a name that was found in the table, in a link or in a dead leaf.
    fn leaf(&self, name: LeafRef) -> Self::Leaf<'_>;

    /// The bytes of a border.
    fn border(&self, record: u64) -> &[u8];

    /// Where `key` belongs: in this leaf (`Equal`), before it or behind it.
    #[inline(always)]
    fn place<'g>(&'g self, leaf: Self::Leaf<'g>, key: &[u8]) -> Order {
        leaf.header().place(leaf.border(), key, |record| self.border(record))
    }

    /// The borders of a leaf.
    fn limits<'g>(&'g self, leaf: Self::Leaf<'g>) -> Limits<'g> {
        let border = leaf.border();
        let high = leaf.header().bounded.then(|| (border.high, self.border(border.high)));
        Limits { low: (border.low, self.border(border.low)), high }
    }
}

/// The leaf a search goes to first, and the one to try if the key lies before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint<L> {
    pub(crate) leaf: L,
    pub(crate) second: Option<LeafRef>,
}

/// The list; see the module.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) table: PrefixTable,
    /// Whoever holds it changes links between leaves, and the table.
    structure: Lock<prefix::Writer>,
    /// The leftmost leaf, or one that leads there; 0 in a map that never had an entry.
    first: AtomicU32,
    /// The rightmost leaf, or one that leads there; 0 as above.
    last: AtomicU32,
}

impl List {
    /// Makes an empty list. Allocates nothing.
    pub(crate) fn new(seed: crate::hash::prefix::Seed) -> Self {
        let (table, writer) = PrefixTable::new(seed);
        Self {
            table,
            structure: Lock::new(writer),
            first: AtomicU32::new(0),
            last: AtomicU32::new(0),
        }
    }

    /// The first leaf, live at some instant of the call.
    #[inline]
    pub(crate) fn first<'g, M: Leaves>(&self, leaves: &'g M) -> Option<M::Leaf<'g>> {
        // ORDER: Acquire, pairs with the Release store in `set_first`: the leaf is formatted.
        let leaf = leaves.leaf(LeafRef::new(self.first.load(Acquire))?);
        // Another one may have taken its place, and have keys that are not in it.
        Some(self.leaf_of(leaves, &[], Hint { leaf, second: None }))
    }

    fn set_first(&self, name: LeafRef) {
        // ORDER: Release, pairs with `first`.
        self.first.store(name.get(), Release);
    }

    fn set_last(&self, name: LeafRef) {
        // ORDER: Release, pairs with `last`.
        self.last.store(name.get(), Release);
    }

    /// The leaf of a key, as the table guesses.
    #[inline(always)]
    pub(crate) fn hint<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        key: &[u8],
        probe: Probe<'_>,
    ) -> Option<Hint<M::Leaf<'g>>> {
        let route = self.table.route(key, probe)?;
        Some(Hint { leaf: leaves.leaf(route.first), second: route.second })
    }

    /// Where to go on for a key that lies before (`Less`) or behind a hint's leaf.
    #[inline]
    pub(crate) fn beside<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        hint: Hint<M::Leaf<'g>>,
        place: Order,
    ) -> Hint<M::Leaf<'g>> {
        let leaf = match hint.second {
            Some(second) if place == Order::Less => leaves.leaf(second),
            _ => self.step(leaves, hint.leaf, place),
        };
        Hint { leaf, second: None }
    }

    /// The leaf linked before or behind `leaf`; of a dead leaf, its successor.
    pub(crate) fn step<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        leaf: M::Leaf<'g>,
        place: Order,
    ) -> M::Leaf<'g> {
        let header = leaf.header();
        let dead = header.version.begin().is_dead();
        let link = if place == Order::Less && !dead { header.prev() } else { header.next() };
        // No link: the list was being changed. Its first leaf leads everywhere.
        link.map_or_else(|| self.first(leaves).unwrap_or(leaf), |link| leaves.leaf(link))
    }

    /// The leaf of `key`, live at some instant of the call.
    pub(crate) fn leaf_of<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        key: &[u8],
        mut hint: Hint<M::Leaf<'g>>,
    ) -> M::Leaf<'g> {
        loop {
            if hint.leaf.header().version.begin().is_dead() {
                hint = Hint { leaf: self.step(leaves, hint.leaf, Order::Greater), second: None };
                continue;
            }
            match leaves.place(hint.leaf, key) {
                Order::Equal => return hint.leaf,
                misplaced => hint = self.beside(leaves, hint, misplaced),
            }
        }
    }

    /// Locks the live leaf of `key`.
    pub(crate) fn lock_leaf<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        key: &[u8],
        hint: Hint<M::Leaf<'g>>,
    ) -> (M::Leaf<'g>, Locked<'g>)
    where
        <M::Leaf<'g> as Leaf<'g>>::Shape: 'g,
    {
        let mut leaf = self.leaf_of(leaves, key, hint);
        loop {
            let locked = leaf.header().version.lock();
            if !locked.is_dead() {
                // Borders never change, so the leaf is still the key's (L1).
                return (leaf, locked);
            }
            drop(locked);
            leaf = self.leaf_of(leaves, key, Hint { leaf, second: None });
        }
    }

    /// The leaf that ends where `border` begins, live at some instant of the call.
    pub(crate) fn leaf_before<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        border: &[u8],
        hint: M::Leaf<'g>,
    ) -> M::Leaf<'g> {
        let mut leaf = hint;
        loop {
            let header = leaf.header();
            let dead = header.version.begin().is_dead();
            // The leaf before a border is the one with keys below it and an upper border at or above it.
            let low = leaves.border(leaf.border().low);
            if !dead && low < border {
                let reaches = !header.bounded || *leaves.border(leaf.border().high) >= *border;
                if reaches {
                    return leaf;
                }
            }
            let link = if low >= border && !dead { header.prev() } else { header.next() };
            match link {
                Some(link) => leaf = leaves.leaf(link),
                None => return self.first(leaves).unwrap_or(leaf),
            }
        }
    }

    /// The last leaf, live at some instant of the call.
    pub(crate) fn last<'g, M: Leaves>(&self, leaves: &'g M) -> Option<M::Leaf<'g>> {
        // ORDER: Acquire, pairs with the Release store in `set_last`: the leaf is formatted.
        let mut leaf = leaves.leaf(LeafRef::new(self.last.load(Acquire))?);
        // Others may have come behind it, or taken its place.
        while leaf.header().bounded || leaf.header().version.begin().is_dead() {
            leaf = self.step(leaves, leaf, Order::Greater);
        }
        Some(leaf)
    }

    /// Puts `leaf` into an empty list, if it still is; tells whether it was.
    pub(crate) fn start<'g>(&self, leaf: impl Leaf<'g>) -> bool {
        let mut writer = self.structure.lock();
        // ORDER: Acquire, as in `first`.
        let is_empty = self.first.load(Acquire) == 0;
        if is_empty {
            // The table last: who has written through it finds the leaf from both ends.
            self.set_first(leaf.name());
            self.set_last(leaf.name());
            self.table.set_first(&mut writer, leaf.name());
        }
        is_empty
    }

    /// Puts `new` in the place of a leaf with the same borders.
    pub(crate) fn renew<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        (old, locked): (M::Leaf<'g>, Locked<'_>),
        new: M::Leaf<'g>,
    ) {
        let mut writer = self.structure.lock();
        self.link(leaves, [(old, locked)], new, new);
        let Limits { low, high } = leaves.limits(old);
        let high = high.map(|high| high.1);
        self.table.replace(&mut writer, low.1, high, old.name(), new.name());
    }

    /// Puts two leaves, which share a border, in the place of one. Returns a piece of the table that is garbage now.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    pub(crate) fn split<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        (old, locked): (M::Leaf<'g>, Locked<'_>),
        (left, right): (M::Leaf<'g>, M::Leaf<'g>),
    ) -> Result<Option<prefix::Garbage>, AllocError> {
        let anchor = leaves.border(right.border().low);
        let mut writer = self.structure.lock();
        let piece = self.table.reserve(&mut writer, anchor.len())?;
        self.link(leaves, [(old, locked)], left, right);
        let Limits { low, high } = leaves.limits(old);
        let anchors = (low.1, anchor, high.map(|high| high.1));
        self.table.split(&mut writer, anchors, old.name(), (left.name(), right.name()));
        Ok(piece)
    }

    /// Puts one leaf in the place of two neighbours. Returns a piece of the table that is garbage now.
    pub(crate) fn merge<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        left: (M::Leaf<'g>, Locked<'_>),
        right: (M::Leaf<'g>, Locked<'_>),
        merged: M::Leaf<'g>,
    ) -> Option<prefix::Garbage> {
        let low = leaves.border(left.0.border().low);
        let Limits { low: gone, high } = leaves.limits(right.0);
        let names = (left.0.name(), right.0.name());
        let mut writer = self.structure.lock();
        self.link(leaves, [left, right], merged, merged);
        let anchors = (low, gone.1, high.map(|high| high.1));
        self.table.merge(&mut writer, anchors, names, merged.name());
        self.table.trim(&mut writer)
    }

    /// Appends a leaf behind `last`, of a list that nobody else knows. Returns a piece of the table that is garbage now.
    ///
    /// # Errors
    ///
    /// If there is no memory; the leaf is linked all the same.
    pub(crate) fn append<'g, M: Leaves>(
        &self,
        leaves: &'g M,
        last: Option<M::Leaf<'g>>,
        leaf: M::Leaf<'g>,
    ) -> Result<Option<prefix::Garbage>, AllocError> {
        let Some(last) = last else {
            self.start(leaf);
            return Ok(None);
        };
        let mut writer = self.structure.lock();
        leaf.header().set_prev(Some(last.name()));
        last.header().set_next(Some(leaf.name()));
        self.set_last(leaf.name());
        let (before, anchor) = (leaves.limits(last).low.1, leaves.limits(leaf).low.1);
        let piece = self.table.reserve(&mut writer, anchor.len())?;
        let names = (last.name(), leaf.name());
        self.table.split(&mut writer, (before, anchor, None), last.name(), names);
        Ok(piece)
    }

    /// Puts `first ..= last` in the place of the old leaves, which are neighbours. Nothing can fail.
    ///
    /// The caller holds the structure's lock.
    fn link<'g, M: Leaves, const N: usize>(
        &self,
        leaves: &'g M,
        old: [(M::Leaf<'g>, Locked<'_>); N],
        first: M::Leaf<'g>,
        last: M::Leaf<'g>,
    ) {
        let before = old[0].0.header().prev();
        let behind = old[N - 1].0.header().next();
        first.header().set_prev(before);
        last.header().set_next(behind);
        if first != last {
            first.header().set_next(Some(last.name()));
            last.header().set_prev(Some(first.name()));
        }
        // A writer that passes through one old leaf could change the new one while another old leaf still answers for
        // the same keys: it waits until all of them are dead. A leaf that is alone is passed through by none of its keys.
        let held = (N > 1).then(|| first.header().version.lock());
        for (leaf, locked) in old {
            // The forward reference, then the mark (L7).
            leaf.header().set_next(Some(first.name()));
            locked.retire();
        }
        drop(held);
        match before {
            Some(before) => leaves.leaf(before).header().set_next(Some(first.name())),
            None => self.set_first(first.name()),
        }
        match behind {
            Some(behind) => leaves.leaf(behind).header().set_prev(Some(last.name())),
            None => self.set_last(last.name()),
        }
    }

    /// Whether the list, at rest, knows that `leaf` is its last one.
    pub(crate) fn ends_with<'g>(&self, leaf: Option<impl Leaf<'g>>) -> bool {
        // ORDER: Acquire, as in `last`.
        LeafRef::new(self.last.load(Acquire)) == leaf.map(Leaf::name)
    }

    /// Verifies the table of a list at rest, whose anchors and leaves these are.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub(crate) fn check_table(&self, anchors: &[(&[u8], LeafRef)]) -> Result<(), String> {
        // Verifying the table compares every stored prefix with the anchors, which for a few anchors of 64 KB is
        // minutes of work. The table's own tests have such anchors.
        let work: usize = anchors.iter().map(|(anchor, _)| anchor.len() * anchor.len() / 8).sum();
        if work > CHECK_TABLE_WORK {
            return Ok(());
        }
        let writer = self.structure.lock();
        self.table.check(&writer, anchors).map_err(|error| error.to_string())
    }
}

/// Bytes of prefixes up to which `check_table` verifies it: about a second.
const CHECK_TABLE_WORK: usize = 100 << 20;
