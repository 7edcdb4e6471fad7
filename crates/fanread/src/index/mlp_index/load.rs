//! Making a map of keys that ascend, which takes no search.
//!
//! Four keys in a row, a *span*, are more than a group takes. So if they share `d` bytes and no more there is a node that branches at
//! byte `d` and has these bytes; and every node has such a span, where two of its children meet. So the numbers of bytes that spans
//! share tell the whole trie. A key's group is right below the deepest node of the four spans that the key is in; and the nodes
//! that the last span is in are those that may still get children, of which one that is deeper than the next span shares bytes is
//! complete.
//!
//! Nobody else knows the map yet. So an entry is stored where there is room, and only one whose buckets are both full takes an edit. Its
//! buckets are asked for when it is known, and looked at when as many others are.
//!
//! PAPER: none.

use core::mem;
use std::collections::VecDeque;

use smallvec::SmallVec;

use super::edit::{Edit, Pages};
use super::insert::{Moved, Stop};
use super::layout::{Children, Entry, GROUP, LEVELS, Node, byte_of, prefix_of, shared_bytes};
use super::raw::Table;
use super::resize::Filling;
use super::{MlpIndex, Pinned};
use crate::arch::prefetch;
use crate::mem::AllocError;
use crate::mem::boxed;
use crate::sync::backoff::Backoff;

/// How many entries wait for their buckets.
const AHEAD: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 32 };

/// Keys of a span.
const SPAN: usize = GROUP + 1;

/// A key whose level is known, and the hash of its prefix there.
struct Leaf<V> {
    hash: u64,
    level: usize,
    key: u64,
    value: V,
}

/// A map that is being made of entries whose keys ascend.
pub(super) struct Loader<'m, V> {
    map: &'m MlpIndex<V>,
    pinned: Pinned<'m, V>,
    /// The last entries, less than a span, whose levels the next ones tell.
    row: SmallVec<[(u64, V); SPAN]>,
    /// On which levels the last spans have their keys; 0 where there was none.
    levels: [usize; SPAN],
    /// The nodes that the last span is in, from the root down; their levels are known when they are complete.
    open: Vec<Node>,
    leaves: VecDeque<Leaf<V>>,
    nodes: VecDeque<(u64, Node)>,
    moved: Moved,
    placed: u64,
}

impl<'m, V: Send + Sync> Loader<'m, V> {
    pub(super) fn new(map: &'m MlpIndex<V>) -> Self {
        Self {
            map,
            pinned: map.pin(),
            row: SmallVec::new(),
            levels: [0; SPAN],
            open: Vec::with_capacity(LEVELS),
            leaves: VecDeque::with_capacity(AHEAD),
            nodes: VecDeque::with_capacity(AHEAD),
            moved: Moved::default(),
            placed: 0,
        }
    }

    /// Adds an entry, whose key is above the last one's.
    pub(super) fn add(&mut self, key: u64, value: V) -> Result<(), AllocError> {
        self.row.push((key, value));
        if self.row.len() < SPAN {
            return Ok(());
        }
        let depth = shared_bytes(self.row[0].0, key);
        self.complete(Some(depth))?;
        if self.open.last().is_none_or(|node| node.depth < depth) {
            let (prefix, children) = (prefix_of(key, depth), Children::default());
            self.open.push(Node { level: 0, depth, prefix, children });
        }
        if let Some(node) = self.open.last_mut() {
            self.row.iter().for_each(|(key, _)| node.children.insert(byte_of(*key, depth)));
        }
        self.first_of_row(depth + 1)
    }

    /// Adds what the last entries told of.
    pub(super) fn finish(mut self) -> Result<(), AllocError> {
        while !self.row.is_empty() {
            self.first_of_row(0)?;
        }
        self.complete(None)?;
        while let Some(node) = self.nodes.pop_front() {
            self.place_node(node)?;
        }
        while let Some(leaf) = self.leaves.pop_front() {
            self.place_leaf(leaf)?;
        }
        self.count();
        drop(self.map.tidy(&self.pinned));
        Ok(())
    }

    /// Adds the first entry of the row, which is in no later span; on which level the last one has its keys.
    fn first_of_row(&mut self, last: usize) -> Result<(), AllocError> {
        self.levels.rotate_left(1);
        self.levels[SPAN - 1] = last;
        let level = self.levels.into_iter().fold(0, usize::max);
        let (key, value) = self.row.remove(0);
        let hash = self.map.hash(level, key);
        self.ask(Table::Leaves, hash);
        if self.leaves.len() == AHEAD
            && let Some(first) = self.leaves.pop_front()
        {
            self.place_leaf(first)?;
        }
        self.leaves.push_back(Leaf { hash, level, key, value });
        Ok(())
    }

    /// Adds the nodes that get no more children, as the next span shares fewer bytes, or there is none.
    fn complete(&mut self, next: Option<usize>) -> Result<(), AllocError> {
        while let Some(node) = self.open.pop_if(|node| next.is_none_or(|next| node.depth > next)) {
            let above = self.open.last().map(|node| node.depth).max(next);
            let level = above.map_or(0, |depth| depth + 1);
            let hash = self.map.hash(level, node.prefix);
            self.ask(Table::Nodes, hash);
            if self.nodes.len() == AHEAD
                && let Some(first) = self.nodes.pop_front()
            {
                self.place_node(first)?;
            }
            self.nodes.push_back((hash, Node { level, ..node }));
        }
        Ok(())
    }

    /// Asks for the first bucket of a hash.
    fn ask(&self, table: Table, hash: u64) {
        if let Some(tables) = self.map.tables(&self.pinned.guard) {
            prefetch(tables.of(table).segment(hash).home(hash).pair[0]);
        }
    }

    /// Puts a leaf into one of its buckets, mostly the first.
    fn place_leaf(&mut self, leaf: Leaf<V>) -> Result<(), AllocError> {
        let (map, pinned) = (self.map, &self.pinned);
        let Leaf { hash, level, key, value } = leaf;
        let value = boxed::word_of_value(value).map_err(|(cause, _)| cause)?;
        let in_first = map.tables(&pinned.guard).is_some_and(|tables| {
            let segment = tables.leaves.segment(hash);
            let bucket = segment.home(hash).pair[0];
            let filling = Filling { has_values: MlpIndex::<V>::HAS_VALUES };
            let added = filling.add_leaf(bucket, level, (key, value));
            if added {
                segment.count(bucket, 1 + isize::from(filling.has_values));
            }
            added
        });
        if !in_first {
            let leaf = Entry::Leaf { level, key, value };
            if let Err(cause) = map.place_unshared(pinned, hash, &leaf) {
                drop(boxed::value_of_word::<V>(value));
                return Err(cause);
            }
        }
        self.moved.add(key, level, 1);
        self.placed += 1;
        if self.placed == AHEAD as u64 {
            self.count();
        }
        Ok(())
    }

    fn place_node(&self, (hash, node): (u64, Node)) -> Result<(), AllocError> {
        self.map.place_unshared(&self.pinned, hash, &Entry::Node(node))
    }

    /// Counts what was placed, and lets go of segments that are no more.
    fn count(&mut self) {
        self.map.count_levels(&mem::take(&mut self.moved));
        self.map.shards.added(self.pinned.thread, mem::take(&mut self.placed));
        self.pinned.repin();
    }
}

impl<V: Send + Sync> MlpIndex<V> {
    /// Puts an entry, the hash of whose prefix this is, into one of its buckets, while nobody else knows the map.
    fn place_unshared(
        &self,
        pinned: &Pinned<'_, V>,
        hash: u64,
        entry: &Entry,
    ) -> Result<(), AllocError> {
        let mut filling = Filling { has_values: Self::HAS_VALUES };
        loop {
            let Some(tables) = self.tables(&pinned.guard) else {
                self.make_first()?;
                continue;
            };
            let segment = tables.of(entry.table()).segment(hash);
            let home = segment.home(hash);
            for at in 0..2 {
                if matches!(filling.add(&home, at, entry), Ok(true)) {
                    segment.count(home.pair[at], entry.slots(Self::HAS_VALUES).cast_signed());
                    return Ok(());
                }
            }
            // Others have to move, of which an edit changes nothing if it is in vain.
            let mut edit = Edit::new(Self::HAS_VALUES);
            let placed = self.place_at(&mut edit, &home, *entry);
            match placed.and_then(|()| Ok(edit.commit()?)) {
                Ok(()) => return Ok(()),
                Err(Stop::Again) => {}
                Err(Stop::Full(table, hash)) => {
                    drop(self.grow(pinned, (table, hash), (segment, &mut Backoff::new()))?);
                }
            }
        }
    }
}
