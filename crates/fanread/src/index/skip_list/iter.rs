//! Walking over the entries in order, from both ends.
//!
//! Forwards, a walk goes from node to node on level 0, and [runs ahead](super::ahead) of itself. A node that is removed while
//! the walk stands at it keeps its link, which leads to what came behind it then.
//!
//! Backwards there are no links. A walk looks for the last node of some level before where it is, and notes all nodes from
//! there on; one search serves for about `2^level` entries.

use core::borrow::Borrow;
use core::cmp::Ordering;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds, RangeFull};

use super::ahead::Ahead;
use super::directory::{self, Near};
use super::key::{SkipKey, Sought, Target, common_bytes};
use super::layout::Stamp;
use super::raw::Node;
use super::{Pinned, Ref, SkipList};

/// The highest level of a search backwards. Not above that of the directory: a search that begins there would stop where it
/// began, however far before that is.
const BACK_LEVEL: usize = directory::LEVEL;

/// Nodes that a walk backwards notes, at most.
const BACK_NODES: usize = if cfg!(any(shuttle, small_leaves, miri)) { 3 } else { 48 };

/// The stamp of those who see what there is now.
pub(super) const NOW: Stamp = Stamp::MAX;

/// All entries, in order; see [`Pinned::iter`].
pub type Iter<'g, K, V> = Range<'g, K, V, K, RangeFull>;

/// Where a walk forwards is.
#[derive(Debug)]
enum Front<'g, K, V> {
    Start,
    /// It has been here.
    At(Node<'g, K, V>),
    End,
}

/// Entries between two bounds, in order; see [`Pinned::range`].
///
/// As it goes on it asks for nodes ahead, by and by for more of them. [`plain`](Self::plain) leaves that, and
/// [`ahead`](Self::ahead) sets how many.
#[derive(Debug)]
pub struct Range<'g, K: SkipKey, V, Q: ?Sized, B> {
    pinned: &'g Pinned<'g, K, V>,
    map: &'g SkipList<K, V>,
    at: Stamp,
    bounds: B,
    front: Front<'g, K, V>,
    ahead: Ahead,
    /// Nodes that come next from the back, the last one first.
    noted: Vec<Node<'g, K, V>>,
    /// The last node that was noted from the back.
    back: Option<Node<'g, K, V>>,
    /// The level of the next search backwards.
    back_level: usize,
    /// The last node that was handed out from the back.
    seen_back: Option<Node<'g, K, V>>,
    is_at_start: bool,
    /// How many bytes the two bounds have in common.
    common: usize,
    query: PhantomData<fn(&Q)>,
}

impl<'g, K: SkipKey, V, Q: ?Sized, B> Range<'g, K, V, Q, B> {
    pub(super) fn new(pinned: &'g Pinned<'_, K, V>, at: Stamp, bounds: B) -> Self {
        Self {
            pinned,
            map: pinned.map,
            at,
            bounds,
            front: Front::Start,
            ahead: Ahead::new(),
            noted: Vec::new(),
            back: None,
            back_level: 0,
            seen_back: None,
            is_at_start: false,
            common: 0,
            query: PhantomData,
        }
    }

    /// Returns the range as one that asks for nothing ahead: to compare with, and for scans of which every step does much.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::from_sorted((0..100).map(|n| (n, n)))?;
    /// let pinned = map.pin();
    /// assert!(pinned.iter().plain().eq(pinned.iter()));
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    #[must_use]
    pub fn plain(self) -> Self {
        self.ahead(0)
    }

    /// Returns the range as one that asks for about `2^level` nodes at once, with `level` up to 5. The default is 4, from what
    /// `fanread probe` finds on current machines.
    #[must_use]
    pub fn ahead(mut self, level: u32) -> Self {
        self.ahead.set_top(level as usize);
        self
    }
}

/// Whether a key is before a lower bound.
#[inline(always)]
fn is_before_start<K, V, Q>(node: Node<'_, K, V>, start: Bound<&Q>) -> bool
where
    K: SkipKey + Borrow<Q>,
    Q: SkipKey + ?Sized,
{
    match start {
        Bound::Unbounded => false,
        Bound::Included(key) => node.key().borrow() < key,
        Bound::Excluded(key) => node.key().borrow() <= key,
    }
}

/// Whether a key is behind an upper bound, as far as its node says, if it begins with so many bytes as that does or is behind
/// it.
#[inline(always)]
fn seems_behind_end<K, V, Q>(node: Node<'_, K, V>, end: Bound<&Q>, common: usize) -> bool
where
    K: SkipKey + Borrow<Q>,
    Q: SkipKey + ?Sized,
{
    match end {
        Bound::Unbounded => false,
        Bound::Included(key) | Bound::Excluded(key) if K::KEEPS_PREFIX => {
            let found = Sought::new(key).glance(node, common);
            found.is_some_and(|(order, _)| order == Ordering::Greater)
        }
        _ => is_behind_end(node, end, 0),
    }
}

/// Whether a key is behind an upper bound; of `common` as above.
#[inline(always)]
fn is_behind_end<K, V, Q>(node: Node<'_, K, V>, end: Bound<&Q>, common: usize) -> bool
where
    K: SkipKey + Borrow<Q>,
    Q: SkipKey + ?Sized,
{
    if K::KEEPS_PREFIX && seems_behind_end(node, end, common) {
        return true;
    }
    match end {
        Bound::Unbounded => false,
        Bound::Included(key) => node.key().borrow() > key,
        Bound::Excluded(key) => node.key().borrow() >= key,
    }
}

/// How the keys of two nodes compare.
#[inline(always)]
fn compare<K: SkipKey, V>(a: Node<'_, K, V>, b: Node<'_, K, V>) -> Ordering {
    a.key().cmp(b.key())
}

impl<'g, K, V, Q, B> Range<'g, K, V, Q, B>
where
    K: SkipKey + Borrow<Q>,
    Q: SkipKey + ?Sized,
    B: RangeBounds<Q>,
{
    /// The value of a node, for who sees what this range does.
    #[inline(always)]
    fn value(&self, node: Node<'g, K, V>) -> Option<Ref<'g, V>> {
        let read =
            if self.at == NOW { self.map.value(node) } else { self.map.value_at(node, self.at) };
        read.map(Ref::new)
    }

    /// The first node of the range.
    fn first(&mut self) -> Option<Node<'g, K, V>> {
        let (start, end) = (self.bounds.start_bound(), self.bounds.end_bound());
        let from = self.map.near_bound(self.pinned, start);
        let at = self.map.descend::<false, Q>(from, 0, &Target::start(start));
        if K::KEEPS_PREFIX {
            let key = |bound| match bound {
                Bound::Unbounded => None,
                Bound::Included(key) | Bound::Excluded(key) => Some(key),
            };
            self.common = key(start).zip(key(end)).map_or(0, |(a, b)| common_bytes(a, b, 0));
        }
        self.ahead.begin(at.look);
        at.next
    }

    /// Notes the nodes before those that were noted last. Leaves none if there are none.
    fn note(&mut self) {
        let (back, end) = (self.back, self.bounds.end_bound());
        let is_before = |node: Node<'g, K, V>| match back {
            Some(back) => node.unit() != back.unit() && compare(node, back) == Ordering::Less,
            None => !is_behind_end(node, end, 0),
        };
        let level = self.back_level.min(self.map.levels() - 1);
        let from = if let Some(back) = back {
            let bound = Bound::Included(back.key());
            let near = self.map.near_bound::<K>(self.pinned, bound);
            self.map.descend::<false, K>(near, level, &Target::start(bound)).before
        } else {
            let near = self.map.near_bound(self.pinned, end);
            self.map.descend::<false, Q>(near, level, &Target::end(end)).before
        };
        let mut noted = std::collections::VecDeque::new();
        let mut next = from;
        if from.is_none() {
            let first = self.map.head().at(0).load();
            next = first.unit().map(|unit| self.map.memory.node(unit));
        }
        while let Some(node) = next.filter(|node| is_before(*node)) {
            if noted.len() == BACK_NODES {
                noted.pop_front();
            }
            noted.push_back(node);
            next = self.behind(node);
        }
        self.back_level = (self.back_level + 1).min(BACK_LEVEL);
        self.back = noted.front().copied();
        self.noted = noted.into();
    }

    /// The next node on level 0.
    #[inline(always)]
    fn behind(&self, node: Node<'g, K, V>) -> Option<Node<'g, K, V>> {
        let next = node.tower().at(0).load();
        next.unit().map(|unit| self.map.memory.node(unit))
    }
}

impl<'g, K, V, Q, B> Iterator for Range<'g, K, V, Q, B>
where
    K: SkipKey + Borrow<Q>,
    Q: SkipKey + ?Sized,
    B: RangeBounds<Q>,
{
    type Item = (&'g K, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let next = match self.front {
                Front::Start => self.first(),
                Front::At(node) => self.behind(node),
                Front::End => return None,
            };
            let (end, common) = (self.bounds.end_bound(), self.common);
            let next = next.filter(|node| {
                let met = self.seen_back.is_some_and(|back| compare(*node, back) != Ordering::Less);
                !met && !is_behind_end(*node, end, common)
            });
            let Some(node) = next else {
                self.front = Front::End;
                return None;
            };
            self.front = Front::At(node);
            self.ahead.step(self.map, node, |node| seems_behind_end(node, end, common));
            if let Some(value) = self.value(node) {
                return Some((node.key(), value));
            }
        }
    }
}

impl<K, V, Q, B> DoubleEndedIterator for Range<'_, K, V, Q, B>
where
    K: SkipKey + Borrow<Q>,
    Q: SkipKey + ?Sized,
    B: RangeBounds<Q>,
{
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if self.noted.is_empty() && !self.is_at_start {
                self.note();
            }
            let start = self.bounds.start_bound();
            let node = self.noted.pop().filter(|node| {
                let met = match self.front {
                    Front::Start => false,
                    Front::At(front) => compare(*node, front) != Ordering::Greater,
                    Front::End => true,
                };
                !met && !is_before_start(*node, start)
            });
            let Some(node) = node else {
                self.is_at_start = true;
                self.noted.clear();
                // Nothing is left for the front either, whatever comes now.
                self.front = Front::End;
                return None;
            };
            self.seen_back = Some(node);
            if let Some(value) = self.value(node) {
                return Some((node.key(), value));
            }
        }
    }
}

impl<K, V, Q, B> core::iter::FusedIterator for Range<'_, K, V, Q, B>
where
    K: SkipKey + Borrow<Q>,
    Q: SkipKey + ?Sized,
    B: RangeBounds<Q>,
{
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// A node before a bound that is on the level of the directory.
    fn near_bound<'g, Q>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        bound: Bound<&Q>,
    ) -> Option<Near<'g, K, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        match bound {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => self.near(pinned, &Sought::new(key)),
        }
    }

    /// The first entry of a range.
    pub(super) fn first_in<'g, Q>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        at: Stamp,
        start: Bound<&Q>,
    ) -> Option<(&'g K, Ref<'g, V>)>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let from = self.near_bound(pinned, start);
        let at_start = self.descend::<false, Q>(from, 0, &Target::start(start));
        let mut next = at_start.next;
        while let Some(node) = next {
            let value = if at == NOW { self.value(node) } else { self.value_at(node, at) };
            if let Some(value) = value {
                return Some((node.key(), Ref::new(value)));
            }
            next = node.tower().at(0).load().unit().map(|unit| self.memory.node(unit));
        }
        None
    }
}
