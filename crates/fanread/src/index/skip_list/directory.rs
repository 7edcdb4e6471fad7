//! A sorted array of the tall nodes, where searches begin.
//!
//! The levels above [`LEVEL`] hold one node in 16, and going down them is a line of memory for each step, one after another.
//! The directory is an array of these nodes with what tells their keys apart, in a few lines of which a search finds the last
//! node before its key; from there it goes on on [`LEVEL`]. It is made anew when a map has grown or lost many tall nodes, and
//! hints only: a node that came since is met on the level itself, and where there are many of them, or many keys with one
//! prefix, the search begins at the head.
//!
//! Numbers are told apart by their prefixes, strings by signs: how many bytes each has in common with the one before, and the
//! eight bytes behind these. A search that knows how many bytes its key has in common with one string knows by the first
//! number whether the next one is before the key too, unless both numbers are the same; then the eight bytes tell, or the key.
//!
//! # Invariants
//!
//! * **D1** A node that a directory names, or one that is being made may name, is not freed: a tall node that is taken out
//!   of the map waits on the list of the dead until the directory has been replaced that was made before.

use core::borrow::Borrow;
use core::cmp::Ordering;
use core::hint::select_unpredictable;
use core::ops::Range;
use std::collections::TryReserveError;

use super::key::{Common, SkipKey, Sought, WORDS_END, common_bytes, same_bytes};
use super::layout::{LEVELS, Link, Unit};
use super::raw::{Node, Posted};
use super::{Garbage, Pinned, SkipList};
use crate::arch;
use crate::mem::LINE_BYTES;
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The level whose nodes are in the directory: one node in eight, 1.5 bytes for each entry of the map (1.75 of strings).
///
/// A level less doubles the array, and saves a search about half a line that it waits for. Random keys, 5 million, level 6 to
/// 2: a `get` takes 1.9, 1.85, 1.6, 1.33 and 1.25 us.
pub(super) const LEVEL: usize = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 3 };

const _: () = assert!(LEVEL < LEVELS);

/// Tall nodes from which on there is a directory: those of fewer are in near caches.
const FIRST: u64 = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 512 };

/// How many nodes a search goes along on [`LEVEL`] before it begins again at the head.
///
/// Where a ninth of the nodes came after the directory was made, more than eight in a row are seldom; keys that ascend
/// come all behind its last entry.
pub(super) const PATIENCE: u32 = if cfg!(any(shuttle, small_leaves, miri)) { 1 } else { 8 };

/// The place of a node that is so many levels higher than [`LEVEL`] + 1 is looked for from the directory as well, in which
/// one entry in eight is as high. What is higher still is one node in 128, and looked for from the head.
pub(super) const ABOVE: usize = 3;

/// No node is smaller.
const MIN_NODE_BYTES: usize = 16;

/// How many entries with the prefix that is looked for may come before the place of a key.
const FAR: usize = 4;

/// Entries of the directory that are asked for at once: four lines of prefixes or words, and two of nodes. What stands for
/// blocks stays in a core's own cache.
const BLOCK: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 32 };

/// The array.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// Every [`BLOCK`]-th prefix.
    tops: Vec<u64>,
    prefixes: Vec<u64>,
    /// In place of prefixes, of keys of which nodes keep a window.
    signs: Signs,
    nodes: Vec<Unit>,
}

/// Where in the directory the place of a key is, and what it has in common with the entries around the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    index: usize,
    common: Common,
    /// Whether the next entry has the very key.
    is_met: bool,
}

/// The last node with a lower key, and the next one of the directory if that one is behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint {
    pub(super) unit: Unit,
    pub(super) behind: Link,
    common: Common,
    index: usize,
}

impl Directory {
    /// An empty one with room for so many nodes, with signs or prefixes.
    fn with_room(count: usize, signs: bool) -> Result<Self, TryReserveError> {
        let mut made = Self::default();
        if signs {
            made.signs = Signs::with_room(count)?;
        } else {
            made.prefixes.try_reserve_exact(count)?;
        }
        made.nodes.try_reserve_exact(count)?;
        #[cfg(test)]
        if crate::mem::failing::fails_now() {
            made.nodes.try_reserve(usize::MAX)?;
        }
        Ok(made)
    }

    /// The last node with a lower key, and the next one if its key is higher.
    #[inline(always)]
    fn before<K, V, Q>(&self, map: &SkipList<K, V>, sought: &Sought<'_, Q>) -> Option<Hint>
    where
        K: SkipKey + Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.in_block(map, self.block(map, sought)?, sought)
    }

    /// The block of the last node with a lower key, which is asked for.
    #[inline(always)]
    pub(super) fn block<K, V, Q>(
        &self,
        map: &SkipList<K, V>,
        sought: &Sought<'_, Q>,
    ) -> Option<Block>
    where
        K: SkipKey + Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        if K::KEEPS_PREFIX {
            let key = sought.key();
            let block = self.signs.block(
                |from| key.word(from),
                |at, same| sought.compare_all(map.memory.node(self.nodes[at]).key(), same),
            )?;
            self.ask_nodes(arch::prefetch, block.index);
            return Some(block);
        }
        let prefix = sought.key().prefix();
        let index = self.tops.partition_point(|other| *other < prefix).checked_sub(1)?;
        self.ask_block(arch::prefetch, index);
        Some(Block { index, common: Common::NONE, is_met: false })
    }

    /// The blocks of the last nodes with lower prefixes than each of these, or the first one where there is none; asks for them. Every
    /// step is taken for all prefixes, so that none waits for another.
    #[inline(always)]
    pub(super) fn blocks(&self, prefixes: &[u64], blocks: &mut [usize]) {
        let tops = &self.tops[..];
        blocks.fill(0);
        let mut size = tops.len();
        while size > 1 {
            let half = size / 2;
            for (block, prefix) in blocks.iter_mut().zip(prefixes) {
                let middle = *block + half;
                let is_before = tops.get(middle).is_some_and(|other| other < prefix);
                *block = select_unpredictable(is_before, middle, *block);
            }
            size -= half;
        }
        for block in blocks {
            self.ask_block(arch::prefetch_many, *block);
        }
    }

    /// Asks for a block of prefixes and nodes, by a kind of request.
    #[inline(always)]
    fn ask_block(&self, by: impl Fn(*const u8) + Copy, block: usize) {
        for line in self.prefixes_of(block).chunks(LINE_BYTES / size_of::<u64>()) {
            by(line.as_ptr().cast());
        }
        self.ask_nodes(by, block);
    }

    #[inline(always)]
    fn ask_nodes(&self, by: impl Fn(*const u8), block: usize) {
        let from = block * BLOCK;
        let nodes = &self.nodes[from..(from + BLOCK).min(self.nodes.len())];
        for line in nodes.chunks(LINE_BYTES / size_of::<Unit>()) {
            by(line.as_ptr().cast());
        }
    }

    #[inline(always)]
    fn prefixes_of(&self, block: usize) -> &[u64] {
        &self.prefixes[block * BLOCK..((block + 1) * BLOCK).min(self.prefixes.len())]
    }

    /// What [`before`](Self::before) finds, in its block.
    #[inline(always)]
    pub(super) fn in_block<K, V, Q>(
        &self,
        map: &SkipList<K, V>,
        block: Block,
        sought: &Sought<'_, Q>,
    ) -> Option<Hint>
    where
        K: SkipKey + Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let (at, is_behind, common) = if K::KEEPS_PREFIX {
            let key = sought.key();
            let block = self.signs.in_block(
                block,
                |from| key.word(from),
                |at, same| {
                    // One of the two is where the search goes on.
                    map.memory.ask_tall(self.nodes[at - 1], LEVEL);
                    let own = map.memory.node(self.nodes[at]).key();
                    own.ask();
                    sought.compare_all(own, same)
                },
            );
            (block.index, !block.is_met, block.common)
        } else {
            return self.in_block_of(block.index, sought.key().prefix());
        };
        let next = self.nodes.get(at + 1).filter(|_| is_behind).copied();
        let common = if next.is_some() { common } else { Common { next: 0, ..common } };
        Some(Hint { unit: *self.nodes.get(at)?, behind: Link::to(next), common, index: at })
    }

    /// The last node of a block with a lower prefix, and the next one if it has a higher one.
    #[inline(always)]
    pub(super) fn in_block_of(&self, block: usize, prefix: u64) -> Option<Hint> {
        let (start, prefixes) = (block * BLOCK, self.prefixes_of(block));
        let at = prefixes.partition_point(|other| *other < prefix).checked_sub(1)?;
        // As far as the block goes: what is behind it was not asked for.
        if prefixes.get(at + FAR).or(prefixes.last()).is_some_and(|other| *other == prefix) {
            // Too many keys begin like this one for a search to go along them.
            return None;
        }
        let is_behind = prefixes.get(at + 1).is_some_and(|other| *other > prefix);
        let index = start + at;
        let next = self.nodes.get(index + 1).filter(|_| is_behind).copied();
        let common = Common::NONE;
        Some(Hint { unit: *self.nodes.get(index)?, behind: Link::to(next), common, index })
    }
}

/// Ranks of signs, at most. If the highest one had more than a block of them, it would be gone along all the same.
const RANKS: usize = 5;

/// What tells byte strings apart that ascend; see the module.
#[derive(Debug, Default)]
struct Signs {
    /// One for each string, one for every [`BLOCK`]-th, and so on.
    ranks: [Rank; RANKS],
}

#[derive(Debug, Default)]
struct Rank {
    /// How many bytes each string has in common with the one before in this rank, up to [`WORDS_END`].
    common: Vec<u16>,
    /// The word of each string behind these.
    words: Vec<u64>,
    /// The lowest number since that was put into the rank below, and that was not here.
    lowest: usize,
}

const _: () = assert!(WORDS_END <= u16::MAX as usize);

impl Signs {
    fn with_room(count: usize) -> Result<Self, TryReserveError> {
        let mut signs = Self::default();
        signs.ranks[0].common.try_reserve_exact(count)?;
        signs.ranks[0].words.try_reserve_exact(count)?;
        signs.ranks.iter_mut().for_each(|rank| rank.lowest = WORDS_END);
        Ok(signs)
    }

    /// Adds a string that has so many bytes in common with the one before.
    fn push(&mut self, mut common: usize, word: impl Fn(usize) -> u64) {
        let mut index = 0;
        for rank in &mut self.ranks {
            rank.lowest = rank.lowest.min(common);
            if index % BLOCK > 0 {
                break;
            }
            index = rank.words.len();
            common = core::mem::replace(&mut rank.lowest, WORDS_END);
            rank.common.push(common as u16);
            rank.words.push(word(common));
        }
    }

    /// The block of the last string before the one that is looked for, which has these words; none if there is none before.
    /// `compare` compares a string of the array as a whole, of which so many bytes are known to be the same.
    #[inline(always)]
    fn block(
        &self,
        word: impl Fn(usize) -> u64,
        compare: impl Fn(usize, usize) -> (Ordering, usize),
    ) -> Option<Block> {
        let few = |rank: &Rank| rank.words.len() <= BLOCK;
        let top = self.ranks.iter().position(few).unwrap_or(RANKS - 1);
        let mut at = Block { index: 0, common: Common::NONE, is_met: false };
        // The first string of a block is before, as those of the ranks above were.
        let end =
            if top > 0 { self.ranks[top].words.len() } else { 1.min(self.ranks[0].words.len()) };
        if self.along(top, 0..end, &mut at, &word, &compare) == 0 {
            return None;
        }
        for rank in (1..top).rev() {
            self.along(rank, self.rest_of(rank, at.index), &mut at, &word, &compare);
        }
        let rest = self.rest_of(0, at.index);
        let Rank { common: numbers, words, .. } = &self.ranks[0];
        for at in rest.clone().step_by(8).chain(rest.clone().next_back()) {
            arch::prefetch(&raw const words[at]);
        }
        if let (Some(first), Some(last)) = (numbers.get(rest.start), numbers.get(rest.end - 1)) {
            arch::prefetch(first);
            arch::prefetch(last);
        }
        Some(at)
    }

    /// The last string of a block that is before.
    #[inline(always)]
    fn in_block(
        &self,
        mut at: Block,
        word: impl Fn(usize) -> u64,
        compare: impl Fn(usize, usize) -> (Ordering, usize),
    ) -> Block {
        self.along(0, self.rest_of(0, at.index), &mut at, &word, &compare);
        at
    }

    /// The signs of a block, but for the first one.
    #[inline(always)]
    fn rest_of(&self, rank: usize, block: usize) -> Range<usize> {
        block * BLOCK + 1..((block + 1) * BLOCK).min(self.ranks[rank].words.len())
    }

    /// Goes along some strings of a rank, of which the one before these has `at.common.before` bytes in common with what is
    /// looked for, to the last one that is before. Returns where the first one is that is not, or the end.
    #[inline(always)]
    fn along(
        &self,
        rank: usize,
        range: Range<usize>,
        at: &mut Block,
        word: &impl Fn(usize) -> u64,
        compare: &impl Fn(usize, usize) -> (Ordering, usize),
    ) -> usize {
        let Rank { common: numbers, words, .. } = &self.ranks[rank];
        let mut next = range.start;
        while next < range.end {
            let shared = usize::from(numbers[next]);
            if shared > at.common.before {
                // It differs from what is looked for where the one before does.
                next += 1;
                continue;
            }
            let (order, same) = if shared < at.common.before {
                // It differs from the one before where that one does not differ.
                (Ordering::Greater, shared)
            } else {
                let (own, sought) = (words[next], word(shared));
                if own == sought || shared == WORDS_END {
                    compare(next * BLOCK.pow(rank as u32), shared)
                } else {
                    (own.cmp(&sought), shared + same_bytes(own, sought))
                }
            };
            if order != Ordering::Less {
                (at.common.next, at.is_met) = (same, order == Ordering::Equal);
                break;
            }
            at.common.before = same.min(WORDS_END);
            next += 1;
        }
        at.index = next.saturating_sub(1);
        next
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
            let Directory { prefixes, signs, nodes, .. } = directory;
            let words = prefixes.capacity() + signs.ranks[0].words.capacity();
            let units = nodes.capacity() * size_of::<Unit>();
            words * size_of::<u64>() + signs.ranks[0].common.capacity() * size_of::<u16>() + units
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
    /// What the key that is looked for has in common with the two, if the directory knows.
    pub(super) common: Common,
}

impl<K, V> Clone for Near<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Near<'_, K, V> {}

impl<K: SkipKey, V> SkipList<K, V> {
    /// The directory, where it serves what is looked for.
    #[inline(always)]
    pub(super) fn directory<'g, Q>(&'g self, guard: &'g Guard) -> Option<&'g Directory>
    where
        Q: SkipKey + ?Sized,
    {
        if !const { K::HAS_PREFIX && Q::HAS_PREFIX } {
            return None;
        }
        self.tall.directory.get(guard)
    }

    /// A node before what is sought that is on [`LEVEL`]: the last one of the directory.
    #[inline(always)]
    pub(super) fn near<'g, Q>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        sought: &Sought<'_, Q>,
    ) -> Option<Near<'g, K, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.near_of(self.directory::<Q>(&pinned.guard)?.before(self, sought)?)
    }

    /// What the directory has found, if it can still be used.
    #[inline(always)]
    pub(super) fn near_of(&self, hint: Hint) -> Option<Near<'_, K, V>> {
        let Hint { unit, behind, common, .. } = hint;
        let node = self.memory.node(unit);
        // What is removed leads to what was behind it long ago.
        let is_off = node.tower().at(LEVEL).load().is_marked();
        (!is_off).then_some(Near { node, behind, common })
    }

    /// A node before what is sought that has a height, which is above [`LEVEL`] by 1 to [`ABOVE`]: mostly the last such one of
    /// the directory. What is behind it on its highest level is not known.
    pub(super) fn near_tall<'g, Q>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        sought: &Sought<'_, Q>,
        height: usize,
    ) -> Option<Near<'g, K, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let directory = self.directory::<Q>(&pinned.guard)?;
        let last = directory.before(self, sought)?.index;
        // One in two is as high, or one in four, or one in eight.
        let first = last.saturating_sub(3 << (height - LEVEL - 1));
        let nodes = &directory.nodes[first..=last];
        for unit in nodes {
            self.memory.ask(*unit);
        }
        let nodes = nodes.iter().rev().map(|unit| self.memory.node(*unit));
        let node = nodes.into_iter().find(|node| node.state().is_linked_above(height - 2))?;
        let is_off = node.tower().at(height - 1).load().is_marked();
        (!is_off).then_some(Near { node, behind: Link::END, common: Common::NONE })
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

    /// Makes the directory anew, unless somebody does or there is no memory for it: searches go further without. No key is
    /// compared.
    #[cold]
    pub(super) fn make_directory(&self, pinned: &Pinned<'_, K, V>) {
        let Tall { directory, limit, is_busy, dead, .. } = &self.tall;
        // ORDER: Acquire, pairs with the Release store of the one before, whose stores to the other fields are to be seen.
        if is_busy.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            return;
        }
        let mut busy = Busy { tall: &self.tall, gone: Vec::new() };
        // Relaxed: as above. Room for all, and for some that come meanwhile.
        let count = self.tall.count.load(Relaxed);
        let most = self.memory.used_bytes() / MIN_NODE_BYTES;
        let room = usize::try_from(count + count / 64).unwrap_or(0).min(most);
        let Ok(mut made) = Directory::with_room(room, K::KEEPS_PREFIX) else {
            // Relaxed: as above. Not with each insertion.
            limit.store((count * 9 / 8).max(FIRST), Relaxed);
            return;
        };
        // D1: who dies from now on waits for the next one. Who is on the list was off the level before.
        busy.gone = dead.lock().replace(Vec::new()).unwrap_or_default();
        let mut ahead = Along { old: directory.get(&pinned.guard), at: 0 };
        let mut last: Option<&K> = None;
        let mut next = self.head().at(LEVEL).load();
        while let Some(unit) = next.unit() {
            let node = self.memory.node(unit);
            ahead.step(self, unit);
            next = node.tower().at(LEVEL).load();
            if next.is_marked() {
                continue;
            }
            made.nodes.push(unit);
            if K::KEEPS_PREFIX {
                // D1: the last one is not freed.
                let key = node.key();
                let common = last.replace(key).map_or(0, |last| common_bytes(last, key, 0));
                made.signs.push(common, |from| key.word(from));
            } else {
                made.prefixes.push(node.key().prefix());
            }
        }
        made.tops = made.prefixes.iter().copied().step_by(BLOCK).collect();
        // Relaxed: as above.
        limit.store((made.nodes.len() as u64 * 9 / 8).max(FIRST), Relaxed);
        let old = directory.replace(Some(Box::new(made)));
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
    /// Goes on to a node.
    #[inline]
    fn step<K: SkipKey, V>(&mut self, map: &SkipList<K, V>, unit: Unit) {
        let Some(old) = self.old else { return };
        while let Some(at) = old.nodes.get(self.at) {
            // What was removed is not met. Nodes that came since are met in between.
            let is_met = *at == unit;
            if !is_met && !map.memory.node(*at).tower().at(LEVEL).load().is_marked() {
                break;
            }
            self.pass(old, map);
            if is_met {
                break;
            }
        }
    }

    /// Passes an entry, and asks for nodes that come later: those of the old directory, and such as came in between since;
    /// first for the nodes, and then for their keys.
    #[inline]
    fn pass<K: SkipKey, V>(&mut self, old: &Directory, map: &SkipList<K, V>) {
        self.at += 1;
        let node = |ahead: usize| old.nodes.get(self.at + ahead).copied();
        // It is on the level, or was when it was taken out of it (D1).
        let behind = |unit: Unit| map.memory.node(unit).tower().at(LEVEL).load().unit();
        if let Some(far) = node(2 * RUN) {
            map.memory.ask_tall(far, LEVEL);
        }
        if let Some(near) = node(RUN) {
            if K::KEEPS_PREFIX {
                map.memory.node(near).key().ask();
            }
            if let Some(next) = behind(near) {
                map.memory.ask_tall(next, LEVEL);
            }
        }
        if K::KEEPS_PREFIX
            && let Some(next) = node(RUN / 2).and_then(behind)
        {
            map.memory.node(next).key().ask();
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::mem::failing;

    #[test]
    fn a_directory_for_which_there_is_no_memory_is_not_made() {
        let map = SkipList::<u64, u64>::new();
        let pinned = map.pin();
        let count = if cfg!(miri) { 100 } else { 8_000 };
        let insert_all = || (0..count).for_each(|n| assert!(pinned.insert(n, n).is_none()));
        insert_all();
        let bytes = map.tall.bytes(&pinned.guard);
        assert!(bytes > 0);
        failing::after(0);
        (0..count).for_each(|n| assert!(pinned.remove(&n).is_some()));
        map.make_directory(&pinned);
        failing::never();
        assert_eq!((map.tall.bytes(&pinned.guard), pinned.len()), (bytes, 0));
        insert_all();
        assert!((0..count).all(|n| pinned.get(&n).as_deref() == Some(&n)));
        map.make_directory(&pinned);
        pinned.check().unwrap();
    }

    #[test]
    fn signs_lead_to_the_last_string_before() {
        // Of few letters, so that they begin alike in many ways; ends are as NULs.
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 33) % below
        };
        let count = if cfg!(miri) { 40 } else { 3_000 };
        for longest in [3, 12, 40, 2_000] {
            let mut make = || {
                let common = random(longest) as usize;
                let mut string = vec![b'a'; common];
                string.extend(
                    (0..random(12)).map(|_| [0, b'a', b'a', b'b', 0xff][random(5) as usize]),
                );
                string
            };
            let mut strings: Vec<Vec<u8>> = (0..count).map(|_| make()).collect();
            strings.sort();
            strings.dedup();
            for count in [0, 1, 2, BLOCK, BLOCK + 1, BLOCK * BLOCK, strings.len()] {
                let strings = &strings[..count.min(strings.len())];
                let mut signs = Signs::with_room(strings.len()).unwrap();
                for (at, string) in strings.iter().enumerate() {
                    let before = at.checked_sub(1).map(|before| &strings[before]);
                    let common = before.map_or(0, |before| common_bytes(before, string, 0));
                    signs.push(common, |from| string.word(from));
                }
                for string in (0..count)
                    .map(|at| strings.get(at).cloned().unwrap_or_default())
                    .chain((0..200).map(|_| make()))
                {
                    let sought = Sought::new(&string);
                    let word = |from| string.word(from);
                    let compare = |at: usize, same| sought.compare_all(&strings[at], same);
                    let found = signs.block(word, compare);
                    let found = found.map(|block| signs.in_block(block, word, compare));
                    let wanted = strings.partition_point(|other| *other < string).checked_sub(1);
                    assert_eq!(found.map(|found| found.index), wanted);
                    let Some(Block { index: at, common, is_met }) = found else { continue };
                    assert_eq!(common.before, common_bytes(&strings[at], &string, 0));
                    let string = &string;
                    let next = strings.get(at + 1).map_or(0, |next| common_bytes(next, &string, 0));
                    assert!(next == WORDS_END || common.next <= next);
                    assert_eq!(is_met, strings.get(at + 1) == Some(string));
                }
            }
        }
    }
}
