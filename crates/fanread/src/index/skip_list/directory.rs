//! A sorted array of the tall nodes, where searches begin.
//!
//! The levels above [`LEVEL`] hold one node in 16, and going down them is a line of memory for each step, one after another.
//! The directory is an array of the prefixes of these nodes, in a few lines of which a search finds the last node before its
//! key; from there it goes on on [`LEVEL`]. It is made anew when a map has grown or lost many tall nodes, and hints only: a
//! node that came since is met on the level itself, and where there are many of them, or many keys with one prefix, the
//! search begins at the head.
//!
//! # Invariants
//!
//! * **D1** A node that a directory names, or one that is being made may name, is not freed: a tall node that is taken out
//!   of the map waits on the list of the dead until the directory has been replaced that was made before.

use super::key::SkipKey;
use super::layout::{LEVELS, Link, Unit};
use super::raw::{Node, Posted};
use super::{Garbage, Pinned, SkipList};
use crate::arch;
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The level whose nodes are in the directory: one node in eight, 1.5 bytes for each entry of the map (2.5 of strings).
///
/// A level less doubles the array, and saves a search about half a line that it waits for. Random keys, 5 million, level 6 to
/// 2: a `get` takes 1.9, 1.85, 1.6, 1.33 and 1.25 us.
pub(super) const LEVEL: usize = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 3 };

const _: () = assert!(LEVEL < LEVELS);

/// Tall nodes from which on there is a directory: those of fewer are in near caches.
const FIRST: u64 = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 512 };

/// How many nodes a search goes along on [`LEVEL`] before it begins again at the head.
///
/// Where a third of the nodes came after the directory was made, more than eight in a row are seldom; keys that ascend
/// come all behind its last entry.
pub(super) const PATIENCE: u32 = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 8 };

/// No node is smaller.
const MIN_NODE_BYTES: usize = 16;

/// How many entries with the prefix that is looked for may come before the place of a key.
const FAR: usize = 4;

/// The array.
#[derive(Debug)]
pub(super) struct Directory {
    /// Every [`BLOCK`]-th prefix.
    tops: Vec<u64>,
    prefixes: Vec<u64>,
    /// The second prefixes, of keys of which nodes keep the first.
    seconds: Vec<u64>,
    nodes: Vec<Unit>,
}

/// Entries of the directory that are asked for at once: four lines of prefixes and two of nodes. The array of every 32nd one
/// stays in a core's own cache.
const BLOCK: usize = 32;

impl Directory {
    fn new(prefixes: Vec<u64>, seconds: Vec<u64>, nodes: Vec<Unit>) -> Self {
        Self { tops: prefixes.iter().copied().step_by(BLOCK).collect(), prefixes, seconds, nodes }
    }

    /// The last node with lower prefixes, and the next one if its prefixes are higher. Only where many keys have the first
    /// one it asks for the `second`.
    #[inline(always)]
    fn before(&self, prefix: u64, second: impl Fn() -> u64) -> Option<(Unit, Link)> {
        self.in_block(self.block(prefix)?, prefix, second)
    }

    /// The block of the last node with a lower prefix, which is asked for.
    #[inline(always)]
    pub(super) fn block(&self, prefix: u64) -> Option<usize> {
        let block = self.tops.partition_point(|other| *other < prefix).checked_sub(1)?;
        let (prefixes, nodes) = self.entries(block);
        for at in (0..prefixes.len()).step_by(8) {
            arch::prefetch(&raw const prefixes[at]);
        }
        for at in (0..nodes.len()).step_by(16) {
            arch::prefetch(&raw const nodes[at]);
        }
        Some(block)
    }

    #[inline(always)]
    fn entries(&self, block: usize) -> (&[u64], &[Unit]) {
        let (from, to) = (block * BLOCK, ((block + 1) * BLOCK).min(self.nodes.len()));
        (&self.prefixes[from..to], &self.nodes[from..to])
    }

    /// What [`before`](Self::before) finds, in its block.
    #[inline(always)]
    pub(super) fn in_block(
        &self,
        block: usize,
        prefix: u64,
        second: impl Fn() -> u64,
    ) -> Option<(Unit, Link)> {
        let (prefixes, nodes) = self.entries(block);
        let at = prefixes.partition_point(|other| *other < prefix).checked_sub(1)?;
        if self.prefixes.get(block * BLOCK + at + FAR).is_some_and(|other| *other == prefix) {
            // Too many keys begin like this one for the search to go along them.
            return self.in_run(block * BLOCK + at + 1, prefix, second());
        }
        let is_behind = prefixes.get(at + 1).is_some_and(|other| *other > prefix);
        let next = nodes.get(at + 1).filter(|_| is_behind).copied();
        Some((*nodes.get(at)?, Link::to(next)))
    }
}

impl Directory {
    /// As [`before`](Self::before), among the entries from `start` on that have a prefix.
    #[inline(never)]
    fn in_run(&self, start: usize, prefix: u64, second: u64) -> Option<(Unit, Link)> {
        let block = self.tops.partition_point(|other| *other <= prefix).checked_sub(1)?;
        let (prefixes, _) = self.entries(block);
        let end = block * BLOCK + prefixes.partition_point(|other| *other <= prefix);
        let seconds = self.seconds.get(start..end)?;
        let at = seconds.partition_point(|other| *other < second);
        if seconds.get(at + FAR).is_some_and(|other| *other == second) {
            return None;
        }
        // Without one in the run it is the entry before that.
        let is_behind = seconds.get(at).is_some_and(|other| *other > second);
        let next = self.nodes.get(start + at).filter(|_| is_behind).copied();
        Some((*self.nodes.get((start + at).checked_sub(1)?)?, Link::to(next)))
    }
}

/// The directory of a map, and what belongs to it.
#[derive(Debug)]
pub(super) struct Tall {
    directory: Posted<Directory>,
    /// How many tall nodes there are.
    count: AtomicU64,
    /// How many make it worth while to make the directory anew.
    limit: AtomicU64,
    is_busy: AtomicU32,
    /// Nodes that were taken out since the directory was made; none before there is one.
    dead: Lock<Option<Vec<Unit>>>,
}

impl Tall {
    pub(super) const fn new() -> Self {
        Self {
            directory: Posted::new(),
            count: AtomicU64::new(0),
            limit: AtomicU64::new(FIRST),
            is_busy: AtomicU32::new(0),
            dead: Lock::new(None),
        }
    }

    /// The list of the dead, of a map that nobody uses any more.
    pub(super) fn take_dead(&self) -> Vec<Unit> {
        self.dead.lock().take().unwrap_or_default()
    }

    /// Bytes of the array.
    pub(super) fn bytes(&self, guard: &Guard) -> usize {
        self.directory.get(guard).map_or(0, |directory| {
            let words = directory.prefixes.capacity() + directory.seconds.capacity();
            words * size_of::<u64>() + directory.nodes.capacity() * size_of::<Unit>()
        })
    }
}

/// Ends the making of a directory, also by a panic.
struct Busy<'a> {
    tall: &'a Tall,
    /// Nodes that were taken out before: they go with the directory before.
    gone: Vec<Unit>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if !self.gone.is_empty() {
            // It was not made.
            self.tall.dead.lock().get_or_insert_default().append(&mut self.gone);
        }
        // ORDER: Release, pairs with the Acquire exchange in `make_directory`.
        self.tall.is_busy.store(0, Release);
    }
}

/// A node that is before what a search looks for and on [`LEVEL`], and the next node there that is behind it, as far as that
/// is known.
#[derive(Debug)]
pub(super) struct Near<'g, K, V> {
    pub(super) node: Node<'g, K, V>,
    pub(super) behind: Link,
}

impl<K, V> Clone for Near<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Near<'_, K, V> {}

impl<K: SkipKey, V> SkipList<K, V> {
    /// The directory, where it serves keys of this type.
    #[inline(always)]
    pub(super) fn directory<'g>(&'g self, guard: &'g Guard) -> Option<&'g Directory> {
        self.tall.directory.get(guard)
    }

    /// The last node of the directory with lower prefixes.
    #[inline(always)]
    pub(super) fn hint<'g>(
        &'g self,
        guard: &'g Guard,
        prefix: u64,
        second: impl Fn() -> u64,
    ) -> Option<Near<'g, K, V>> {
        self.near_of(self.directory(guard)?.before(prefix, second)?)
    }

    /// What the directory has found, if it can still be used.
    #[inline(always)]
    pub(super) fn near_of(&self, (unit, behind): (Unit, Link)) -> Option<Near<'_, K, V>> {
        let node = self.memory.node(unit);
        // What is removed leads to what was behind it long ago.
        (!node.tower().at(LEVEL).load().is_marked()).then_some(Near { node, behind })
    }

    /// Counts a node that its maker has linked, before anybody may give it up.
    #[inline]
    pub(super) fn count_tall(&self, height: usize) {
        if height > LEVEL && K::HAS_PREFIX {
            // Relaxed: figures to decide by, here and below.
            self.tall.count.fetch_add(1, Relaxed);
        }
    }

    /// Makes the directory anew if there are many more tall nodes than it has, of which one was linked now.
    #[inline]
    pub(super) fn renew_directory(&self, pinned: &Pinned<'_, K, V>, height: usize) {
        // Relaxed: as above.
        if height > LEVEL
            && K::HAS_PREFIX
            && self.tall.count.load(Relaxed) > self.tall.limit.load(Relaxed)
        {
            self.make_directory(pinned);
        }
    }

    /// Retires a node that was taken out of all levels and that nobody links any more.
    pub(super) fn give_up(&self, pinned: &Pinned<'_, K, V>, node: Node<'_, K, V>) {
        if node.state().height() <= LEVEL || !K::HAS_PREFIX {
            return self.retire(pinned, [Garbage::Node(node.unit())]);
        }
        // Relaxed: as above.
        self.tall.count.fetch_sub(1, Relaxed);
        let mut dead = self.tall.dead.lock();
        let Some(list) = &mut *dead else {
            drop(dead);
            return self.retire(pinned, [Garbage::Node(node.unit())]);
        };
        list.push(node.unit());
        let count = list.len() as u64;
        drop(dead);
        // Relaxed: as above.
        if count > FIRST / 4 + self.tall.limit.load(Relaxed) / 8 {
            self.make_directory(pinned);
        }
    }

    /// Makes the directory anew, unless somebody does. No key is compared.
    #[cold]
    pub(super) fn make_directory(&self, pinned: &Pinned<'_, K, V>) {
        let Tall { directory, limit, is_busy, dead, .. } = &self.tall;
        // ORDER: Acquire, pairs with the Release store of the one before, whose stores to the other fields are to be seen.
        if is_busy.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            return;
        }
        // D1: who dies from now on waits for the next one. Who is on the list was off the level before.
        let gone = dead.lock().replace(Vec::new()).unwrap_or_default();
        let mut busy = Busy { tall: &self.tall, gone };
        // Relaxed: as above. Room for all, and for some that come meanwhile.
        let count = usize::try_from(self.tall.count.load(Relaxed)).unwrap_or(0);
        let room = (count + count / 64).min(self.memory.used_bytes() / MIN_NODE_BYTES);
        let (mut prefixes, mut nodes) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut seconds = Vec::with_capacity(if K::KEEPS_PREFIX { room } else { 0 });
        let mut ahead = Along { old: directory.get(&pinned.guard), at: 0 };
        let mut next = self.head().at(LEVEL).load();
        while let Some(unit) = next.unit() {
            let node = self.memory.node(unit);
            next = node.tower().at(LEVEL).load();
            if !next.is_marked() {
                let prefix = node.full_prefix();
                prefixes.push(prefix);
                nodes.push(unit);
                let second = ahead.step(self, unit, prefix);
                if K::KEEPS_PREFIX {
                    seconds.push(second.unwrap_or_else(|| node.key().second_prefix()));
                }
            }
        }
        // Relaxed: as above.
        limit.store((nodes.len() as u64 * 3 / 2).max(FIRST), Relaxed);
        let old = directory.replace(Some(Box::new(Directory::new(prefixes, seconds, nodes))));
        let gone = core::mem::take(&mut busy.gone);
        drop(busy);
        let gone = gone.into_iter().map(Garbage::Node);
        self.retire(pinned, old.map(Garbage::Directory).into_iter().chain(gone));
    }
}

/// How many nodes of the old directory are asked for ahead while the next one is made.
const RUN: usize = 16;

/// Where the making of a directory is in the one before.
struct Along<'g> {
    old: Option<&'g Directory>,
    at: usize,
}

impl Along<'_> {
    /// Goes on to a node of a prefix, and returns its second prefix if the old directory has it.
    #[inline]
    fn step<K: SkipKey, V>(
        &mut self,
        map: &SkipList<K, V>,
        unit: Unit,
        prefix: u64,
    ) -> Option<u64> {
        let old = self.old?;
        while old.prefixes.get(self.at).is_some_and(|other| *other < prefix) {
            self.pass(old, map);
        }
        // Others with the prefix come later, or are gone.
        let to = (self.at + RUN / 2).min(old.nodes.len());
        let found = self.at + old.nodes[self.at..to].iter().position(|other| *other == unit)?;
        while self.at <= found {
            self.pass(old, map);
        }
        Some(old.seconds.get(found).copied().unwrap_or(0))
    }

    /// Passes an entry, and asks for nodes that come later: those of the old directory, and such as came in between since.
    #[inline]
    fn pass<K: SkipKey, V>(&mut self, old: &Directory, map: &SkipList<K, V>) {
        self.at += 1;
        if let Some(far) = old.nodes.get(self.at + RUN) {
            map.memory.ask_tall(*far, LEVEL);
        }
        // It is on the level, or was when it was taken out of it (D1).
        if let Some(near) = old.nodes.get(self.at + RUN / 2)
            && let Some(next) = map.memory.node(*near).tower().at(LEVEL).load().unit()
        {
            map.memory.ask_tall(next, LEVEL);
        }
    }
}
