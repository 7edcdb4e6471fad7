//! A sorted array of the tall nodes, where searches begin.
//!
//! The levels above [`LEVEL`] hold one node in 64, and going down them is a line of memory for each step, one after another.
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
use super::layout::{LEVELS, Unit};
use super::raw::{Node, Posted};
use super::{Garbage, Pinned, SkipList};
use crate::arch;
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The level whose nodes are in the directory: one node in 64, less than a byte for each entry of the map.
///
/// A level less doubles the array, which is to stay in a core's own cache, and saves a search one line from further away.
pub(super) const LEVEL: usize = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 6 };

const _: () = assert!(LEVEL < LEVELS);

/// Tall nodes from which on there is a directory: those of fewer are in near caches.
const FIRST: u64 = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 512 };

/// How many nodes a search goes along on [`LEVEL`] before it begins again at the head.
///
/// Where a third of the nodes came after the directory was made, more than eight in a row are seldom; keys that ascend
/// come all behind its last entry.
pub(super) const PATIENCE: u32 = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 8 };

/// The array.
#[derive(Debug)]
pub(super) struct Directory {
    /// Every [`BLOCK`]-th prefix.
    tops: Vec<u64>,
    prefixes: Vec<u64>,
    nodes: Vec<Unit>,
}

/// Entries of the directory that are asked for at once: four lines of prefixes and two of nodes. The array of every 32nd one
/// stays in a core's own cache.
const BLOCK: usize = 32;

impl Directory {
    fn new(prefixes: Vec<u64>, nodes: Vec<Unit>) -> Self {
        Self { tops: prefixes.iter().copied().step_by(BLOCK).collect(), prefixes, nodes }
    }

    /// The last node with a lower prefix.
    #[inline(always)]
    fn before(&self, prefix: u64) -> Option<Unit> {
        let block = self.tops.partition_point(|other| *other < prefix).checked_sub(1)?;
        let (from, to) = (block * BLOCK, ((block + 1) * BLOCK).min(self.nodes.len()));
        let (prefixes, nodes) = (&self.prefixes[from..to], &self.nodes[from..to]);
        for at in (0..prefixes.len()).step_by(8) {
            arch::prefetch(&raw const prefixes[at]);
        }
        for at in (0..nodes.len()).step_by(16) {
            arch::prefetch(&raw const nodes[at]);
        }
        nodes.get(prefixes.partition_point(|other| *other < prefix).checked_sub(1)?).copied()
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
        let entry = size_of::<u64>() + size_of::<Unit>();
        self.directory.get(guard).map_or(0, |directory| directory.nodes.len() * entry)
    }
}

/// Ends the making of a directory, also by a panic.
struct Busy<'a>(&'a AtomicU32);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        // ORDER: Release, pairs with the Acquire exchange in `make_directory`.
        self.0.store(0, Release);
    }
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// The last node of the directory with a lower prefix.
    #[inline(always)]
    pub(super) fn hint<'g>(&'g self, guard: &'g Guard, prefix: u64) -> Option<Node<'g, K, V>> {
        let directory = self.tall.directory.get(guard)?;
        let node = self.memory.node(directory.before(prefix)?);
        // What is removed leads to what was behind it long ago.
        (!node.tower().at(LEVEL).load().is_marked()).then_some(node)
    }

    /// Counts a node that is on all its levels.
    #[inline]
    pub(super) fn count_tall(&self, pinned: &Pinned<'_, K, V>, height: usize) {
        if height <= LEVEL || !K::HAS_PREFIX {
            return;
        }
        // Relaxed: figures to decide by, here and below. Who takes a node out may count it before who put it in, so for a
        // moment there may be fewer than none.
        let count = self.tall.count.fetch_add(1, Relaxed).cast_signed() + 1;
        if count > self.tall.limit.load(Relaxed).cast_signed() {
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

    /// Makes the directory anew, unless somebody does.
    #[cold]
    pub(super) fn make_directory(&self, pinned: &Pinned<'_, K, V>) {
        let Tall { directory, limit, is_busy, dead, .. } = &self.tall;
        // ORDER: Acquire, pairs with the Release store of the one before, whose stores to the other fields are to be seen.
        if is_busy.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            return;
        }
        let busy = Busy(is_busy);
        // D1: who dies from now on waits for the next one. Who is on the list was off the level before.
        let gone = dead.lock().replace(Vec::new()).unwrap_or_default();
        let (mut prefixes, mut nodes) = (Vec::new(), Vec::new());
        let mut next = self.head().at(LEVEL).load();
        while let Some(unit) = next.unit() {
            let node = self.memory.node(unit);
            next = node.tower().at(LEVEL).load();
            if !next.is_marked() {
                prefixes.push(node.key().prefix());
                nodes.push(unit);
            }
        }
        // Relaxed: as above.
        limit.store((nodes.len() as u64 * 3 / 2).max(FIRST), Relaxed);
        let old = directory.replace(Some(Box::new(Directory::new(prefixes, nodes))));
        drop(busy);
        let gone = gone.into_iter().map(Garbage::Node);
        self.retire(pinned, old.map(Garbage::Directory).into_iter().chain(gone));
    }
}
