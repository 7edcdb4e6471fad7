//! Finding a key, its place in the trie, and its neighbours.
//!
//! A `get` looks for the key itself: in the buckets of its prefixes at the usual levels, which it asks for at once. All else
//! first locates the key: finds the group of its prefix, or the node at which its path ends. Whoever has found a group
//! knows all keys of its prefix (T2), so the way there need not be looked at; a search may begin at any level.
//!
//! A neighbour that is not in the group is in the next child of an ancestor. The ancestors are found by their prefixes, from
//! below; they were asked for together with the group.
//!
//! PAPER: section 4.2, `QueryLCP` and `Lower_Bound`; section 4.3 for the levels of eight bits.

use core::hint::select_unpredictable;
use core::ops::Bound;
use core::sync::atomic::Ordering::Relaxed;

use super::edit::{Again, Trail, View};
use super::layout::{
    Children, Image, LEVELS, Node, SLOTS, UNITS, byte_of, child_of, prefix_of, same_prefix,
};
use super::raw::{Bucket, Directory, Segment, read_value};
use super::{MlpIndex, Pinned, Ref};
use crate::arch::prefetch;
use crate::hash::mix::{fold, stream};
use crate::mem::word::{Read, Word, is_inline};
use crate::sync::backoff::Backoff;
use crate::sync::epoch::Guard;

/// The secret of a map's hash function.
#[derive(Debug)]
pub(super) struct Secret {
    start: [u64; LEVELS + 1],
    steps: [u64; 2],
}

impl Secret {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            start: core::array::from_fn(|level| stream(seed, level as u64)),
            steps: [stream(seed, 98) | 1, stream(seed, 99) | 1],
        }
    }

    /// The hash of a prefix of `level` bytes, zeros behind them.
    ///
    /// Two rounds: after one, the buckets of prefixes that follow each other follow each other in steps, both of a pair in
    /// the same, and with one seed in three some tables can then not be filled to a half.
    #[inline(always)]
    pub(super) fn hash(&self, level: usize, prefix: u64) -> u64 {
        fold(fold(prefix ^ self.start[level], self.steps[0]), self.steps[1])
    }
}

/// A pair of buckets and what they held.
#[derive(Debug)]
pub(super) struct Found<'g> {
    pub(super) level: usize,
    pub(super) segment: &'g Segment,
    pub(super) pair: [&'g Bucket; 2],
    pub(super) images: [Image; 2],
    pub(super) what: What,
}

/// What was found under a prefix.
#[derive(Debug)]
pub(super) enum What {
    /// Nothing: the map is empty.
    Nothing,
    /// One key at least.
    Group,
    /// A node: in which bucket, in which slot.
    Node(usize, usize, Node),
}

impl Found<'_> {
    /// The keys of a group that share their first bytes with `key`, and where each is: bucket, slot.
    pub(super) fn group(&self, key: u64) -> impl Iterator<Item = (u64, usize, usize)> {
        self.images.iter().enumerate().flat_map(move |(at, image)| {
            image.group(self.level, key).map(move |slot| (image.number(slot), at, slot))
        })
    }
}

/// How many levels a `get` asks for at once, at most.
pub(super) const USUAL: usize = 4;

impl<V> MlpIndex<V> {
    /// Whether values have bytes.
    pub(super) const HAS_VALUES: bool = size_of::<V>() != 0 || !is_inline::<V>();

    /// The segment and the buckets of a prefix.
    #[inline(always)]
    pub(super) fn pair<'g>(
        &self,
        directory: &'g Directory,
        level: usize,
        prefix: u64,
    ) -> (&'g Segment, [&'g Bucket; 2]) {
        let hash = self.secret.hash(level, prefix);
        let segment = directory.segment(hash);
        (segment, segment.pair(hash))
    }

    /// Asks for the buckets of a prefix.
    #[inline(always)]
    pub(super) fn ask<'g>(
        &self,
        directory: &'g Directory,
        level: usize,
        key: u64,
    ) -> [&'g Bucket; 2] {
        let (_, pair) = self.pair(directory, level, prefix_of(key, level));
        prefetch(pair[0]);
        prefetch(pair[1]);
        pair
    }

    /// Finds the value of a key.
    #[inline(always)]
    fn find<'g>(&'g self, key: u64, guard: &'g Guard) -> Option<Read<'g, V>> {
        let directory = self.root.get(guard)?;
        let usual = self.usual.load(Relaxed);
        let mut asked = [None; USUAL];
        for (asked, level) in asked.iter_mut().zip(Levels(usual)) {
            *asked = Some(self.ask(directory, level, key));
        }
        for pair in asked.into_iter().map_while(|pair| pair) {
            if let Some(word) = Self::find_in(pair, key) {
                return Some(read_value(word));
            }
        }
        self.find_anywhere(key, guard)
    }

    /// Looks for a key in a pair of buckets. That it is not found says nothing.
    ///
    /// There is no branch on which bucket has it: that comes late, and cannot be guessed.
    #[inline(always)]
    fn find_in(pair: [&Bucket; 2], key: u64) -> Option<Word> {
        let [first, second] = pair;
        let seen = [first.version.begin(), second.version.begin()];
        let slots = const { if Self::HAS_VALUES { UNITS } else { SLOTS } };
        let matches = |bucket: &Bucket| {
            (0..slots).fold(0, |found, slot| {
                found | u32::from(bucket.slot(slot).addr() as u64 == key) << slot
            })
        };
        let (here, there) = (matches(first), matches(second));
        if here | there == 0 {
            return None;
        }
        let is_first = here != 0;
        let found = select_unpredictable(is_first, here, there);
        let bucket = select_unpredictable(is_first, first, second);
        let seen = select_unpredictable(is_first, seen[0], seen[1]);
        let slot = found.trailing_zeros() as usize;
        // Anything else that looks like the key, a prefix say, is sorted out by who looks closely.
        if !bucket.kinds().is_leaf(slot) || seen.is_changing() {
            return None;
        }
        let value = if const { Self::HAS_VALUES } {
            bucket.slot(slot % UNITS + UNITS)
        } else {
            core::ptr::null_mut()
        };
        // A bucket that is dead by now was current when `seen` was, and has not changed since (S1).
        (bucket.version.end(seen).is_some() && !seen.is_dead()).then_some(value)
    }

    /// Looks for a key on whatever level it is.
    #[inline(never)]
    pub(super) fn find_anywhere<'g>(&'g self, key: u64, guard: &'g Guard) -> Option<Read<'g, V>> {
        self.steady(guard, |directory, view| {
            let found = self.locate(directory, view, key)?;
            Ok(found.images.iter().find_map(|image| {
                image.find_key(key).map(|slot| {
                    if Self::HAS_VALUES { image.value(slot) } else { core::ptr::null_mut() }
                })
            }))
        })
        .flatten()
        .map(read_value)
    }

    /// Runs a search until all it has read was so at one instant. `None` in a map that never had an entry.
    #[inline]
    pub(super) fn steady<'g, T>(
        &self,
        guard: &'g Guard,
        mut search: impl FnMut(&'g Directory, &mut Trail<'g>) -> Result<T, Again>,
    ) -> Option<T> {
        let mut backoff = Backoff::new();
        loop {
            let mut trail = Trail::new();
            if let Ok(found) = search(self.root.get(guard)?, &mut trail)
                && trail.holds()
            {
                return Some(found);
            }
            backoff.wait();
        }
    }

    /// What is under the first `level` bytes of `key`.
    #[inline]
    pub(super) fn entry_at<'g>(
        &self,
        directory: &'g Directory,
        view: &mut impl View<'g>,
        level: usize,
        key: u64,
    ) -> Result<Option<Found<'g>>, Again> {
        let (segment, pair) = self.pair(directory, level, prefix_of(key, level));
        let images = [view.image(pair[0])?, view.image(pair[1])?];
        let what = if images.iter().any(|image| image.group(level, key).next().is_some()) {
            What::Group
        } else if let Some(slot) = images[0].find_node(level, key) {
            What::Node(0, slot, images[0].node(slot))
        } else if let Some(slot) = images[1].find_node(level, key) {
            What::Node(1, slot, images[1].node(slot))
        } else {
            return Ok(None);
        };
        Ok(Some(Found { level, segment, pair, images, what }))
    }

    /// Finds the group of a key's prefix, or the node at which its path ends.
    #[inline]
    pub(super) fn locate<'g>(
        &self,
        directory: &'g Directory,
        view: &mut impl View<'g>,
        key: u64,
    ) -> Result<Found<'g>, Again> {
        let mut start = None;
        for level in Levels(self.usual.load(Relaxed)) {
            start = self.entry_at(directory, view, level, key)?;
            if start.is_some() {
                break;
            }
        }
        let mut found = match start {
            Some(found) => found,
            None => match self.entry_at(directory, view, 0, key)? {
                Some(root) => root,
                None => return self.nothing(directory, view),
            },
        };
        loop {
            let What::Node(_, _, node) = &found.what else { return Ok(found) };
            if !same_prefix(node.prefix, key, node.depth)
                || !node.children.contains(byte_of(key, node.depth))
            {
                return Ok(found);
            }
            // A child that is not there was moved meanwhile.
            found = self.entry_at(directory, view, node.depth + 1, key)?.ok_or(Again)?;
        }
    }

    /// What is found in a map without entries.
    #[cold]
    fn nothing<'g>(
        &self,
        directory: &'g Directory,
        view: &mut impl View<'g>,
    ) -> Result<Found<'g>, Again> {
        let (segment, pair) = self.pair(directory, 0, 0);
        let images = [view.image(pair[0])?, view.image(pair[1])?];
        Ok(Found { level: 0, segment, pair, images, what: What::Nothing })
    }

    /// The node of which the entry under the first `level` bytes of `key` is a child; where it is.
    pub(super) fn parent<'g>(
        &self,
        directory: &'g Directory,
        view: &mut impl View<'g>,
        level: usize,
        key: u64,
    ) -> Result<(Found<'g>, Node), Again> {
        for above in (0..level).rev() {
            let Some(found) = self.entry_at(directory, view, above, key)? else { continue };
            let What::Node(_, _, node) = found.what else { return Err(Again) };
            // The nearest node above is the parent, or a node came in between.
            return if node.depth + 1 == level { Ok((found, node)) } else { Err(Again) };
        }
        Err(Again)
    }

    /// Asks for the buckets of a key's prefixes at the usual levels.
    #[inline]
    pub(super) fn ask_usual(&self, directory: &Directory, key: u64) {
        for level in Levels(self.usual.load(Relaxed)) {
            self.ask(directory, level, key);
        }
    }

    /// Asks for the buckets of all prefixes of a key down to the deepest usual level.
    #[inline]
    pub(super) fn ask_all(&self, directory: &Directory, key: u64) {
        let deepest = Levels(self.usual.load(Relaxed)).next().unwrap_or(0);
        for level in 1..=deepest {
            self.ask(directory, level, key);
        }
    }
}

/// The way through the keys: up or down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
}

impl Way {
    /// The first child behind `byte`, which need not be one.
    #[inline]
    pub(super) fn child_behind(self, children: &Children, byte: u8) -> Option<u8> {
        match self {
            Self::Up => children.next(usize::from(byte) + 1),
            Self::Down => children.previous(usize::from(byte)),
        }
    }

    /// The first child.
    #[inline]
    pub(super) fn first_child(self, children: &Children) -> Option<u8> {
        match self {
            Self::Up => children.next(0),
            Self::Down => children.previous(256),
        }
    }

    /// Whether `a` comes before `b`.
    #[inline]
    pub(super) fn is_before(self, a: u64, b: u64) -> bool {
        match self {
            Self::Up => a < b,
            Self::Down => a > b,
        }
    }
}

impl<V> MlpIndex<V> {
    /// The first entry from `key` on, `key` itself included or not.
    pub(super) fn neighbour<'g>(
        &self,
        directory: &'g Directory,
        view: &mut impl View<'g>,
        key: u64,
        way: Way,
        included: bool,
    ) -> Result<Option<(u64, Word)>, Again> {
        self.ask_all(directory, key);
        let found = self.locate(directory, view, key)?;
        match &found.what {
            What::Nothing => return Ok(None),
            What::Group => {
                let behind = |other| way.is_before(key, other) || (included && other == key);
                if let Some(first) = Self::first_of(&found, key, way, behind) {
                    return Ok(Some(first));
                }
            }
            What::Node(_, _, node) if !same_prefix(node.prefix, key, node.depth) => {
                if way.is_before(key, node.prefix) {
                    return self.first_below(directory, view, node, way).map(Some);
                }
            }
            What::Node(_, _, node) => {
                if let Some(byte) = way.child_behind(&node.children, byte_of(key, node.depth)) {
                    return self.first_under(directory, view, (node, byte), way).map(Some);
                }
            }
        }
        let mut level = found.level;
        while level > 0 {
            let (_, node) = self.parent(directory, view, level, key)?;
            if let Some(byte) = way.child_behind(&node.children, byte_of(key, node.depth)) {
                return self.first_under(directory, view, (&node, byte), way).map(Some);
            }
            level = node.level;
        }
        Ok(None)
    }

    /// The first entry of a group for which `wanted` holds.
    fn first_of(
        found: &Found<'_>,
        key: u64,
        way: Way,
        wanted: impl Fn(u64) -> bool,
    ) -> Option<(u64, Word)> {
        let mut first = None;
        for (other, at, slot) in found.group(key).filter(|(other, ..)| wanted(*other)) {
            if first.is_none_or(|(first, _)| way.is_before(other, first)) {
                let image = &found.images[at];
                let value =
                    if Self::HAS_VALUES { image.value(slot) } else { core::ptr::null_mut() };
                first = Some((other, value));
            }
        }
        first
    }

    /// The first entry below a node.
    fn first_below<'g>(
        &self,
        directory: &'g Directory,
        view: &mut impl View<'g>,
        node: &Node,
        way: Way,
    ) -> Result<(u64, Word), Again> {
        let byte = way.first_child(&node.children).ok_or(Again)?;
        self.first_under(directory, view, (node, byte), way)
    }

    /// The first entry under a child of a node.
    fn first_under<'g>(
        &self,
        directory: &'g Directory,
        view: &mut impl View<'g>,
        (node, byte): (&Node, u8),
        way: Way,
    ) -> Result<(u64, Word), Again> {
        let (mut node, mut byte) = (*node, byte);
        loop {
            let prefix = child_of(node.prefix, node.depth, byte);
            self.ask(directory, node.depth + 1, prefix);
            let found = self.entry_at(directory, view, node.depth + 1, prefix)?.ok_or(Again)?;
            match found.what {
                What::Node(_, _, next) => {
                    node = next;
                    byte = way.first_child(&node.children).ok_or(Again)?;
                }
                _ => return Self::first_of(&found, prefix, way, |_| true).ok_or(Again),
            }
        }
    }
}

impl<V> Pinned<'_, V> {
    /// The first entry from a bound on, in one direction.
    fn beside(&self, bound: Bound<u64>, way: Way) -> Option<(u64, Ref<'_, V>)> {
        let (key, included) = match (bound, way) {
            (Bound::Included(key), _) => (key, true),
            (Bound::Excluded(key), _) => (key, false),
            (Bound::Unbounded, Way::Up) => (0, true),
            (Bound::Unbounded, Way::Down) => (u64::MAX, true),
        };
        let (key, word) = self.map.steady(&self.guard, |directory, view| {
            self.map.neighbour(directory, view, key, way, included)
        })??;
        Some((key, Ref::new(read_value(word))))
    }

    /// The first entry at or above a bound.
    pub(super) fn first_from(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        self.beside(bound, Way::Up)
    }

    /// The last entry at or below a bound.
    pub(super) fn last_up_to(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        self.beside(bound, Way::Down)
    }
}

/// The levels of a set of levels, the deepest first.
#[derive(Debug)]
pub(super) struct Levels(pub(super) u32);

impl Iterator for Levels {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let level = self.0.checked_ilog2()?;
        self.0 &= !(1 << level);
        Some(level as usize)
    }
}

impl<V> Pinned<'_, V> {
    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// The two lines of the key's prefix at each usual level, asked for at once: one wait. A key that is not there costs the
    /// same and a look at the nodes above it, most of which are cached.
    ///
    /// # Concurrency
    ///
    /// Takes no lock and stores nothing. Waits for a writer only while that stores into the very bucket. Takes effect when
    /// the bucket's version is loaded, or for an absent key when all versions are compared.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::MlpIndex;
    ///
    /// let map = MlpIndex::new();
    /// let pinned = map.pin();
    /// pinned.insert(7, "seven");
    /// assert_eq!(pinned.get(7).as_deref(), Some(&"seven"));
    /// assert!(pinned.get(8).is_none());
    /// ```
    ///
    /// # Paper
    ///
    /// Section 4.2, `Lookup`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<Ref<'_, V>> {
        self.map.find(key, &self.guard).map(Ref::new)
    }

    /// Looks up all `keys` and stores the answer for `keys[i]` in `found[i]`.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`get`](Self::get)s, those of 16 keys at once. Allocates nothing.
    ///
    /// # Concurrency
    ///
    /// Each key's lookup takes effect by itself, as a `get` at some instant of the call.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::MlpIndex;
    ///
    /// let map = MlpIndex::new();
    /// let pinned = map.pin();
    /// pinned.insert(1, 'a');
    /// let mut found = [None; 2];
    /// pinned.get_batch(&[1, 2], &mut found);
    /// assert_eq!(found[0].as_deref(), Some(&'a'));
    /// assert!(found[1].is_none());
    /// ```
    pub fn get_batch<'g>(&'g self, keys: &[u64], found: &mut [Option<Ref<'g, V>>]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.map(Ref::new));
    }

    /// Looks up all `keys` and stores in `found[i]` whether `keys[i]` has a value; as [`get_batch`](Self::get_batch).
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn contains_batch(&self, keys: &[u64], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.is_some());
    }

    /// Looks up keys, a few at a time.
    fn find_all<'g>(&'g self, keys: &[u64], mut found: impl FnMut(usize, Option<Read<'g, V>>)) {
        let map = self.map;
        let Some(directory) = map.root.get(&self.guard) else {
            (0..keys.len()).for_each(|index| found(index, None));
            return;
        };
        for (at, keys) in keys.chunks(BATCH).enumerate() {
            let usual = map.usual.load(Relaxed);
            let mut asked = [[None; USUAL]; BATCH];
            for (asked, key) in asked.iter_mut().zip(keys) {
                for (asked, level) in asked.iter_mut().zip(Levels(usual)) {
                    *asked = Some(map.ask(directory, level, *key));
                }
            }
            for (i, (asked, key)) in asked.iter().zip(keys).enumerate() {
                let mut pairs = asked.iter().map_while(|pair| *pair);
                let read = match pairs.find_map(|pair| MlpIndex::<V>::find_in(pair, *key)) {
                    Some(word) => Some(read_value(word)),
                    None => map.find_anywhere(*key, &self.guard),
                };
                found(at * BATCH + i, read);
            }
        }
    }
}

/// How many keys of a batch are looked for at once.
///
/// Two lines each, or more where keys lie on several levels: 16 keep all fill buffers of a core busy. Fewer leave some
/// idle, more push lines out of L1 before they are looked at.
pub(super) const BATCH: usize = if cfg!(miri) { 2 } else { 16 };
