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
use super::layout::{LEVELS, Node, SLOTS, UNITS, Way, byte_of, child_of, prefix_of, same_prefix};
use super::raw::{Bucket, Home, Tables, read_value};
use super::words::{Group, Member, Packed};
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

/// What was found under a prefix, and where.
#[derive(Debug)]
pub(super) struct Found<'g> {
    pub(super) level: usize,
    /// Where it is: the very buckets that were looked at, whatever the directory names by now.
    pub(super) home: Home<'g>,
    pub(super) what: What,
    /// All its keys, one at least, if it is a group.
    pub(super) group: Group,
    /// The node, if it is one.
    pub(super) packed: Packed,
    pub(super) tables: Tables<'g>,
}

/// What was found under a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Nothing,
    Group,
    Node,
}

impl<'g> Found<'g> {
    /// Nothing, as long as nobody has looked.
    #[inline(always)]
    fn new(tables: Tables<'g>) -> Self {
        let (what, group, packed) = (What::Nothing, Group::EMPTY, Packed::NONE);
        // Some home; that of what is found is noted when it is.
        Self { level: 0, home: tables.group(0), what, group, packed, tables }
    }

    /// The key itself, if it is there.
    #[inline(always)]
    pub(super) fn member(&self, key: u64) -> Option<Member> {
        // Empty, unless a group was found.
        self.group.members().find(|member| member.key == key)
    }

    /// The node, if it is one.
    #[inline(always)]
    pub(super) fn node(&self) -> Node {
        self.packed.unpacked(self.level)
    }

    /// Where a group under the same prefix belongs.
    #[inline(always)]
    pub(super) fn group_home(&self) -> Home<'g> {
        self.tables.group(self.home.hash)
    }

    /// Where a node under the same prefix belongs.
    #[inline(always)]
    pub(super) fn node_home(&self) -> Home<'g> {
        self.tables.node(self.home.hash)
    }
}

impl Node {
    /// The first child behind the one on the way to `key`, which shares the node's prefix.
    #[inline(always)]
    pub(super) fn child_behind(&self, key: u64, way: Way) -> Option<u8> {
        way.child_from(&self.children, way.behind(byte_of(key, self.depth)))
    }
}

/// How many levels a `get` asks for at once, at most.
pub(super) const USUAL: usize = 4;

impl<V> MlpIndex<V> {
    /// Whether values have bytes.
    pub(super) const HAS_VALUES: bool = size_of::<V>() != 0 || !is_inline::<V>();

    /// The hash of the first `level` bytes of a key.
    #[inline(always)]
    pub(super) fn hash(&self, level: usize, key: u64) -> u64 {
        self.secret.hash(level, prefix_of(key, level))
    }

    /// Asks for the buckets of a group.
    #[inline(always)]
    pub(super) fn ask<'g>(&self, tables: Tables<'g>, level: usize, key: u64) -> Home<'g> {
        let home = tables.group(self.hash(level, key));
        home.pair.into_iter().for_each(|bucket| prefetch(bucket));
        home
    }

    /// Finds the value of a key.
    #[inline(always)]
    fn find<'g>(&'g self, key: u64, guard: &'g Guard) -> Option<Read<'g, V>> {
        let tables = self.tables(guard)?;
        let Levels { first: most, others } = self.levels();
        let first = self.ask(tables, most, key);
        let mut asked = [None; USUAL - 1];
        for (asked, level) in asked.iter_mut().zip(Deepest(others)) {
            *asked = Some((level, self.ask(tables, level, key)));
            // There are many nodes then.
            self.ask_second_above(tables, key);
        }
        // Who does not find the key needs it, and it is mostly cached.
        let above = self.above(tables, key);
        if let Some((_, home)) = above {
            prefetch(home.pair[0]);
        }
        // The fewer instructions between this wait and the next search, the sooner that asks for its lines.
        if let Some(word) = Self::find_in(first.pair, key) {
            return Some(read_value(word));
        }
        self.find_beyond(tables, key, (most, first), &asked, guard)
    }

    /// Goes on for a key that was not found on the level where most are, and has been asked for on others.
    #[inline(always)]
    pub(super) fn find_beyond<'g>(
        &'g self,
        tables: Tables<'g>,
        key: u64,
        first: (usize, Home<'g>),
        asked: &[Option<(usize, Home<'g>)>],
        guard: &'g Guard,
    ) -> Option<Read<'g, V>> {
        if let Some(true) = Self::is_missing(&first.1, (first.0, key)) {
            return None;
        }
        if let Some((_, home)) = self.above(tables, key) {
            prefetch(home.pair[1]);
        }
        self.ask_second_above(tables, key);
        for (level, home) in asked.iter().map_while(|asked| asked.as_ref()) {
            if let Some(word) = Self::find_in(home.pair, key) {
                return Some(read_value(word));
            }
            if let Some(true) = Self::is_missing(home, (*level, key)) {
                return None;
            }
        }
        let node = self.node_over(tables, key);
        if node.is_some_and(|above| !above.node.leads_to(key)) {
            return None;
        }
        self.find_anywhere(key, guard)
    }

    /// Where the node above the level of most keys would be, and its level.
    #[inline(always)]
    pub(super) fn above<'g>(&self, tables: Tables<'g>, key: u64) -> Option<(usize, Home<'g>)> {
        let level = self.levels().first.checked_sub(1)?;
        Some((level, tables.node(self.hash(level, key))))
    }

    /// Asks for the node two levels above that of most keys.
    #[inline(always)]
    pub(super) fn ask_second_above(&self, tables: Tables<'_>, key: u64) {
        if let Some(level) = self.levels().first.checked_sub(2) {
            prefetch(tables.node(self.hash(level, key)).pair[0]);
        }
    }

    /// The usual levels.
    #[inline(always)]
    pub(super) fn levels(&self) -> Levels {
        // Relaxed: hints where to look first.
        let (first, usual) = (self.most.load(Relaxed) as usize, self.usual.load(Relaxed));
        Levels { first, others: usual & !(1 << first) }
    }

    /// The level on which nearly all keys are, if there is one, below the first.
    #[inline(always)]
    pub(super) fn dense_level(&self) -> Option<usize> {
        // Relaxed: as in `levels`.
        let level = (self.dense.load(Relaxed) as usize).checked_sub(1)?;
        // Below nine, as the compiler knows then too.
        Some(level % LEVELS + 1)
    }

    /// Looks for a key in a pair of buckets, or in one. That it is not found says nothing.
    ///
    /// There is no branch on which bucket has it: that comes late, and cannot be guessed.
    #[inline(always)]
    pub(super) fn find_in<const N: usize>(buckets: [&Bucket; N], key: u64) -> Option<Word> {
        let (first, second) = (buckets[0], buckets[N - 1]);
        let seen = [first.version.begin(), second.version.begin()];
        let slots = const { if Self::HAS_VALUES { UNITS } else { SLOTS } };
        let matches = |bucket: &Bucket| {
            (0..slots).fold(0, |found, slot| {
                found | u32::from(bucket.slot(slot).addr() as u64 == key) << slot
            })
        };
        let (here, there) = (matches(first), if N == 1 { 0 } else { matches(second) });
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
        self.steady(guard, |tables, view| {
            Ok(self.locate(tables, view, key)?.member(key).map(|member| member.value))
        })
        .flatten()
        .map(read_value)
    }

    /// Runs a search until all it has read was so at one instant. `None` in a map that never had an entry.
    #[inline]
    pub(super) fn steady<'g, T>(
        &self,
        guard: &'g Guard,
        mut search: impl FnMut(Tables<'g>, &mut Trail<'g>) -> Result<T, Again>,
    ) -> Option<T> {
        let mut backoff = Backoff::new();
        loop {
            let mut trail = Trail::new();
            if let Ok(found) = search(self.tables(guard)?, &mut trail)
                && trail.holds()
            {
                return Some(found);
            }
            backoff.wait();
        }
    }

    /// Looks for the group under the first `level` bytes of `key`; tells whether there is one.
    #[inline(always)]
    fn read_group<'g>(
        &self,
        view: &mut impl View<'g>,
        found: &mut Found<'g>,
        (level, key): (usize, u64),
    ) -> Result<bool, Again> {
        let hash = self.hash(level, key);
        (found.level, found.home) = (level, found.tables.group(hash));
        let group = &mut found.group;
        group.truncate(0);
        for (at, bucket) in found.home.pair.into_iter().enumerate() {
            let before = group.len();
            let may_be_away = view.look(bucket, |words| {
                group.truncate(before);
                words.gather(group, (level, key), at, Self::HAS_VALUES);
                words.kinds.may_be_away(hash)
            })?;
            if !may_be_away {
                break;
            }
        }
        found.what = if group.len() > 0 { What::Group } else { What::Nothing };
        Ok(group.len() > 0)
    }

    /// Looks for the node under the first `level` bytes of `key`; tells whether there is one.
    #[inline(always)]
    fn read_node<'g>(
        &self,
        view: &mut impl View<'g>,
        found: &mut Found<'g>,
        (level, key): (usize, u64),
    ) -> Result<bool, Again> {
        let hash = self.hash(level, key);
        (found.level, found.home) = (level, found.tables.node(hash));
        (found.what, found.packed) = (What::Nothing, Packed::NONE);
        let node = &mut found.packed;
        for (at, bucket) in found.home.pair.into_iter().enumerate() {
            let (is_found, may_be_away) = view.look(bucket, |words| {
                (words.find_node(node, (level, key), at), words.kinds.may_be_away(hash))
            })?;
            if is_found {
                found.what = What::Node;
                return Ok(true);
            }
            if !may_be_away {
                break;
            }
        }
        Ok(false)
    }

    /// What is under the first `level` bytes of `key`.
    #[inline]
    pub(super) fn entry_at<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        level: usize,
        key: u64,
    ) -> Result<Found<'g>, Again> {
        let mut found = Found::new(tables);
        if !self.read_group(view, &mut found, (level, key))? {
            self.read_node(view, &mut found, (level, key))?;
        }
        Ok(found)
    }

    /// The node under the first `level` bytes of `key`.
    #[inline]
    pub(super) fn node_at<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        level: usize,
        key: u64,
    ) -> Result<Found<'g>, Again> {
        let mut found = Found::new(tables);
        self.read_node(view, &mut found, (level, key))?;
        Ok(found)
    }

    /// Finds the group of a key's prefix, or the node at which its path ends.
    ///
    /// A group holds all keys of its prefix, so one on a usual level is the answer, wherever it hangs.
    #[inline(always)]
    pub(super) fn locate<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        key: u64,
    ) -> Result<Found<'g>, Again> {
        let mut found = Found::new(tables);
        for level in self.levels() {
            if self.read_group(view, &mut found, (level, key))? {
                return Ok(found);
            }
        }
        self.descend(view, &mut found, key, |_| {})?;
        Ok(found)
    }

    /// Finds the group of a key's prefix, or the node at which its path ends, from the deepest node that is above the level of
    /// most keys; shows all the nodes it passes.
    #[inline(always)]
    fn descend<'g>(
        &self,
        view: &mut impl View<'g>,
        found: &mut Found<'g>,
        key: u64,
        mut passed: impl FnMut(Node),
    ) -> Result<(), Again> {
        let mut level = self.levels().first.saturating_sub(1);
        while !self.read_node(view, found, (level, key))? {
            if level == 0 {
                // No node at all.
                self.read_group(view, found, (0, key))?;
                return Ok(());
            }
            level -= 1;
        }
        while found.packed.leads_to(key) {
            passed(found.node());
            let below = (found.packed.depth() + 1, key);
            if self.read_group(view, found, below)? {
                return Ok(());
            }
            if !self.read_node(view, found, below)? {
                // A child that is not there was moved meanwhile.
                return Err(Again);
            }
        }
        Ok(())
    }

    /// The node of which the entry under the first `level` bytes of `key` is a child, or was if there is none now; where it is.
    pub(super) fn parent<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        level: usize,
        key: u64,
    ) -> Result<(Found<'g>, Node), Again> {
        for above in (0..level).rev() {
            let found = self.node_at(tables, view, above, key)?;
            if found.what == What::Nothing {
                continue;
            }
            let node = found.node();
            // The nearest node above is the parent, or a node came in between; or the entry is gone, and where its parent was is a node of
            // other keys, which may branch at the same byte.
            let is_parent = node.depth + 1 == level && same_prefix(node.prefix, key, node.depth);
            return if is_parent { Ok((found, node)) } else { Err(Again) };
        }
        Err(Again)
    }

    /// Asks for the buckets of a key's prefixes at the usual levels.
    #[inline]
    pub(super) fn ask_usual(&self, tables: Tables<'_>, key: u64) {
        for level in self.levels() {
            self.ask(tables, level, key);
        }
    }

    /// As `locate`, for who goes on from there: asks for the first buckets of the next `count` children of the node above,
    /// before it waits for the key's own, and returns that node, if it was met.
    ///
    /// The nodes above are few and often cached. So all that is seldom cached is asked for at once.
    #[inline(always)]
    pub(super) fn approach<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        key: u64,
        (way, count): (Way, usize),
    ) -> Result<(Found<'g>, Option<Node>), Again> {
        let most = self.levels().first;
        prefetch(tables.group(self.hash(most, key)).pair[0]);
        for level in (1..most).rev() {
            prefetch(tables.node(self.hash(level, key)).pair[0]);
        }
        let (mut found, mut above) = (Found::new(tables), None);
        self.descend(view, &mut found, key, |node| {
            let next = way.behind(byte_of(key, node.depth));
            self.ask_children(tables, &node, way, next, count);
            above = Some(node);
        })?;
        Ok((found, above))
    }

    /// Asks for the first buckets of the groups that `count` children of a node are; returns from where on the others are.
    #[inline]
    pub(super) fn ask_children(
        &self,
        tables: Tables<'_>,
        node: &Node,
        way: Way,
        next: usize,
        count: usize,
    ) -> usize {
        let mut next = next;
        for _ in 0..count {
            let Some(byte) = way.child_from(&node.children, next) else { break };
            let child = child_of(node.prefix, node.depth, byte);
            prefetch(tables.group(self.hash(node.depth + 1, child)).pair[0]);
            next = way.behind(byte);
        }
        next
    }
}

impl<V> MlpIndex<V> {
    /// The first entry from `key` on, `key` itself included or not.
    pub(super) fn neighbour<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        key: u64,
        way: Way,
        included: bool,
    ) -> Result<Option<(u64, Word)>, Again> {
        let (found, mut above) = self.approach(tables, view, key, (way, 1))?;
        match found.what {
            What::Nothing => return Ok(None),
            What::Group => {
                let behind = |other| way.is_before(key, other) || (included && other == key);
                if let Some(first) = first_of(&found.group, way, behind) {
                    return Ok(Some(first));
                }
            }
            What::Node => {
                let node = found.node();
                if !same_prefix(node.prefix, key, node.depth) {
                    if way.is_before(key, node.prefix) {
                        return self.first_below(tables, view, &node, way).map(Some);
                    }
                } else if let Some(byte) = node.child_behind(key, way) {
                    return self.first_under(tables, view, (&node, byte), way).map(Some);
                }
            }
        }
        let mut level = found.level;
        while level > 0 {
            let node = match above.take() {
                Some(node) => node,
                None => self.parent(tables, view, level, key)?.1,
            };
            if let Some(byte) = node.child_behind(key, way) {
                return self.first_under(tables, view, (&node, byte), way).map(Some);
            }
            level = node.level;
        }
        Ok(None)
    }

    /// The first entry below a node.
    fn first_below<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        node: &Node,
        way: Way,
    ) -> Result<(u64, Word), Again> {
        let byte = way.child_from(&node.children, way.before_all()).ok_or(Again)?;
        self.first_under(tables, view, (node, byte), way)
    }

    /// The first entry under a child of a node.
    fn first_under<'g>(
        &self,
        tables: Tables<'g>,
        view: &mut impl View<'g>,
        (node, byte): (&Node, u8),
        way: Way,
    ) -> Result<(u64, Word), Again> {
        let (mut node, mut byte) = (*node, byte);
        loop {
            let prefix = child_of(node.prefix, node.depth, byte);
            let found = self.entry_at(tables, view, node.depth + 1, prefix)?;
            match found.what {
                What::Node => {
                    node = found.node();
                    byte = way.child_from(&node.children, way.before_all()).ok_or(Again)?;
                }
                What::Group => return first_of(&found.group, way, |_| true).ok_or(Again),
                // A child that is not there was moved meanwhile.
                What::Nothing => return Err(Again),
            }
        }
    }
}

/// The first entry of a group for which `wanted` holds.
#[inline(always)]
fn first_of(group: &Group, way: Way, wanted: impl Fn(u64) -> bool) -> Option<(u64, Word)> {
    let mut first = None;
    for Member { key, value, .. } in group.members().filter(|member| wanted(member.key)) {
        if first.is_none_or(|(first, _)| way.is_before(key, first)) {
            first = Some((key, value));
        }
    }
    first
}

impl<V> Pinned<'_, V> {
    /// The first entry from a bound on, in one direction.
    #[inline]
    fn beside<const UP: bool>(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        let (key, included) = match bound {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => (if UP { 0 } else { u64::MAX }, true),
        };
        let tables = self.map.tables(&self.guard)?;
        let (key, word) = match self.map.beside_directly::<UP>(tables, key, included) {
            Some(found) => found,
            None => match self.map.beside_quickly::<UP>(tables, key, included) {
                Some(found) => found?,
                None => self.beside_anyhow(key, if UP { Way::Up } else { Way::Down }, included)?,
            },
        };
        Some((key, Ref::new(read_value(word))))
    }

    /// As `beside`, however long it takes.
    #[cold]
    fn beside_anyhow(&self, key: u64, way: Way, included: bool) -> Option<(u64, Word)> {
        self.map
            .steady(&self.guard, |tables, view| {
                self.map.neighbour(tables, view, key, way, included)
            })
            .flatten()
    }

    /// The first entry at or above a bound.
    pub(super) fn first_from(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        self.beside::<true>(bound)
    }

    /// The last entry at or below a bound.
    pub(super) fn last_up_to(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        self.beside::<false>(bound)
    }
}

/// The usual levels: the one where most keys are, then the others, the deepest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    pub(super) first: usize,
    /// A bit for each.
    pub(super) others: u32,
}

/// The levels of a set of levels, the deepest first.
#[derive(Debug)]
pub(super) struct Deepest(pub(super) u32);

impl Iterator for Deepest {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let level = self.0.checked_ilog2()?;
        self.0 &= !(1 << level);
        Some(level as usize)
    }
}

impl IntoIterator for Levels {
    type Item = usize;
    type IntoIter = core::iter::Chain<core::iter::Once<usize>, Deepest>;

    #[inline(always)]
    fn into_iter(self) -> Self::IntoIter {
        core::iter::once(self.first).chain(Deepest(self.others))
    }
}

impl<V> Pinned<'_, V> {
    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// The two lines of the key's prefix at each usual level, asked for at once: one wait. A key that is not there costs the
    /// same and a look at the nodes above it, most of which are cached. A value of more than 8 bytes, or with anything to drop, is in a
    /// box of its own: a wait more.
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
}
