//! What is before a walk: a chain of items in key order, and the part of it that the walk works on (`walk.rs`).
//!
//! Items have places that do not change, and know the place of the next one, so what comes in between moves nothing. Places of
//! items that were taken out are used again: a walk through a whole trie needs no more of them than a short one.
//!
//! PAPER: not there.

use super::label::Children;

use super::layout::Leaf;
use super::state::State;
use super::walk::{Direction, Ground};

/// What is before a walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// A leaf that was read.
    Leaf(Leaf),
    /// A node whose line has been asked for.
    Node(Asked),
    /// Children of one node, whose lines have not.
    Family(Family),
}

/// A node whose line has been asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) state: State,
    /// The node's parent as its place in the list of parents, or [`NONE`].
    pub(super) parent: u32,
    /// How many leaves are expected below the node.
    pub(super) leaves: u32,
    /// The bucket to look into, with [`LATE`] if that is the second.
    pub(super) bucket: u32,
    /// The node's name there.
    pub(super) name: u32,
}

/// Set in the number of a bucket.
pub(super) const LATE: u32 = 1 << 31;

/// No parent: the root. And no item.
pub(super) const NONE: u32 = u32::MAX;

/// Children of one parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// The parent's.
    pub(super) state: State,
    pub(super) children: Children,
    pub(super) parent: u32,
    /// Leaves expected below each.
    pub(super) leaves: u32,
}

impl Family {
    /// Takes the next children, up to `count`, and puts them into the chain behind `place`. Returns the place of the last one.
    #[inline(always)]
    pub(super) fn ask(
        &mut self,
        ground: &Ground<'_>,
        direction: Direction,
        count: usize,
        chain: &mut Chain,
        mut place: u32,
        part: &mut Part,
    ) -> u32 {
        let Self { state, children, parent, leaves } = self;
        let above = ground.secret.parent(*state);
        for _ in 0..count {
            let Some(symbol) = direction.take(children) else { break };
            let asked = ground.ask(above.child(symbol), *parent, *leaves);
            place = chain.insert(place, Item::Node(asked));
            part.push(place, *leaves);
        }
        place
    }
}

/// Items in key order.
#[derive(Debug)]
pub(super) struct Chain {
    /// Each with the place of the next one.
    pub(super) links: Vec<(Item, u32)>,
    /// The first item.
    pub(super) front: u32,
    /// Places that are free, each with the next one.
    free: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { links: Vec::new(), front: NONE, free: NONE }
    }
}

impl Chain {
    pub(super) fn clear(&mut self) {
        self.links.clear();
        (self.front, self.free) = (NONE, NONE);
    }

    #[inline(always)]
    pub(super) fn item(&self, place: u32) -> Option<&Item> {
        self.links.get(place as usize).map(|(item, _)| item)
    }

    /// What is behind a place; behind `NONE`, the first item.
    #[inline(always)]
    pub(super) fn behind(&self, place: u32) -> u32 {
        self.links.get(place as usize).map_or(self.front, |(_, next)| *next)
    }

    /// Ends what is before a place there.
    #[inline(always)]
    pub(super) fn link(&mut self, place: u32, next: u32) {
        match self.links.get_mut(place as usize) {
            Some((_, behind)) => *behind = next,
            None => self.front = next,
        }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, place: u32, item: Item) {
        self.links[place as usize].0 = item;
    }

    /// Puts an item behind a place; behind `NONE`, it is the first. Returns its own place.
    #[inline(always)]
    pub(super) fn insert(&mut self, place: u32, item: Item) -> u32 {
        let link = (item, self.behind(place));
        let at = self.free;
        let at = if let Some(free) = self.links.get_mut(at as usize) {
            self.free = free.1;
            *free = link;
            at
        } else {
            self.links.push(link);
            self.links.len() as u32 - 1
        };
        self.link(place, at);
        at
    }

    /// The first item, if it is a leaf.
    #[inline(always)]
    pub(super) fn first_leaf(&self) -> Option<Leaf> {
        match self.item(self.front) {
            Some(Item::Leaf(leaf)) => Some(*leaf),
            _ => None,
        }
    }

    /// Takes out the item behind a place.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: u32) {
        let at = self.behind(place);
        let Some((_, next)) = self.links.get_mut(at as usize) else { return };
        let next = core::mem::replace(next, core::mem::replace(&mut self.free, at));
        self.link(place, next);
    }
}

/// The part of the chain that a walk works on: its nodes, in order.
#[derive(Default, Debug)]
pub(super) struct Part {
    /// The place of each, and how many leaves there are behind the node before.
    pub(super) nodes: Vec<(u32, u32)>,
    /// Leaves behind the last one.
    pub(super) tail: u32,
    /// Leaves that are expected in all of it.
    pub(super) expected: usize,
}

impl Part {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        (self.tail, self.expected) = (0, 0);
    }

    /// Adds a node.
    #[inline(always)]
    pub(super) fn push(&mut self, place: u32, leaves: u32) {
        self.nodes.push((place, core::mem::take(&mut self.tail)));
        self.expected += leaves as usize;
    }

    /// Adds leaves.
    #[inline(always)]
    pub(super) fn push_leaves(&mut self, count: u32) {
        self.tail += count;
        self.expected += count as usize;
    }

    /// How many leaves are before the first node.
    #[inline(always)]
    pub(super) fn ready(&mut self) -> &mut u32 {
        self.nodes.first_mut().map_or(&mut self.tail, |(_, before)| before)
    }
}
