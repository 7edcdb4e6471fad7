//! Walks through a trie in key order, for readers without a lock.
//!
//! A node's bitmap names all its children, so a walk has the lines of a whole generation of nodes in flight. What is before it
//! is a chain of items in key order: leaves that were read, nodes whose lines were asked for, and families, which are children of
//! one node that were not. The walk works on the first part of the chain, in passes over the nodes there: each pass puts the
//! children of a node, or its leaves, in its place, and asks for what the next pass reads.
//!
//! ```text
//! descent   path of the bound: of each node the children beyond the path          > families, the nearest first
//! refill    families > nodes, until the leaves expected in the part are enough
//! pass      leaf - node - leaf - node - node | family - family
//!        >  leaf - leaf - leaf - leaf - node - node | family - node - family - family
//! yield     leaves at the front of the chain
//! ```
//!
//! An item stays where it is until it is yielded, whatever comes in beside it, and a pass does not look at leaves: each node knows
//! how many of them there are between it and the one before.
//!
//! A node is looked for in its first bucket only; if it is not there, its second is asked for and read in the next
//! pass. So most nodes cost one line, and those that moved delay nobody else.
//!
//! # What a reader may believe
//!
//! *Quiet.* As all searches, a walk begins without looking at single buckets. If the trie's version is the same behind a
//! piece as before the walk began, nothing was changed, and what was read belongs together. If not, the piece does not
//! count.
//!
//! *Careful.* The walk that is started then does as a careful descent (`descend.rs`): a child is what its parent said if the parent's bucket has still the version from
//! before the parent was read. Siblings stand side by side in the chain, so the parent is confirmed once, behind the last
//! of them. If it is not confirmed, the part is cut before the first of them: the front part counts, and the walk has to
//! start again from its last record.
//!
//! Each record was in the trie at some moment of the walk. A key that was there all the time is not left out: the
//! nodes above it say so whenever they are read, and none is skipped.
//!
//! # Cost
//!
//! One line for each node, a second for one in eight, and one for each record; one wait for each generation between the
//! bound's path and the leaves, one for the records.
//!
//! PAPER: section 4.4 follows a locator from leaf to leaf, one wait for each.

#![allow(
    clippy::missing_errors_doc,
    reason = "inside, the one error is that a writer was in the way"
)]

use super::ahead::Ahead;
use super::bucket::{Bucket, Find, Version};
use super::chain::{Asked, Chain, Family, Item, LATE, NONE, Part};
use super::descend::{CAREFUL, QUIET};
use super::label::{Children, Symbol};
use super::layout::{Head, Home, Leaf, Node};
use super::raw::{Memory, Trie};
use super::state::{Secret, State};
use crate::arch::Lanes;
use crate::sync::version::Seen;

/// Items, and nodes beside the path, that a new walk has room for: those of a range of a hundred entries, and of one entry.
const ITEMS: [usize; 2] = [256, 24];
const ROOM: [usize; 2] = [64, 8];

/// Nodes that each pass reads where paths are long, whatever waits at its front: with less to do, the next pass would wait for
/// the lines of this one, and a long path is in the way of what is behind it for many passes. A third of the usual levels, but
/// not more than this, nor than a part of the entries that are asked for: what is read beyond their end is in vain.
const BUSY: usize = 16;
const BUSY_PART: usize = 32;

/// Estimates stop here: nobody wants so many records at a time.
const MOST: u32 = 1 << 20;

/// Which way a walk goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// Towards higher keys.
    Up,
    /// Towards lower keys.
    Down,
}

impl Direction {
    /// Two neighbours in the order in which a walk comes to them.
    #[inline(always)]
    pub(super) fn order<T>(self, [first, second]: [T; 2]) -> [T; 2] {
        match self {
            Self::Up => [first, second],
            Self::Down => [second, first],
        }
    }

    /// Takes the first of the children.
    #[inline(always)]
    pub(super) fn take(self, children: &mut Children) -> Option<Symbol> {
        let first = match self {
            Self::Up => children.first(),
            Self::Down => children.last(),
        }?;
        *children = children.without(first);
        Some(first)
    }
}

/// Where a walk begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'k> {
    /// At the trie's first key, or at its last.
    Edge,
    /// At `key`, which lies between the trie's borders.
    Key {
        /// The key; it need not be in the trie.
        key: &'k [u8],
        /// Whether its own record belongs to the walk.
        inclusive: bool,
    },
}

/// How a walk ended that nobody disturbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// With as many records as were asked for, or some more. There may be others.
    More,
    /// With the trie's last record in this direction.
    End,
}

/// A writer was in the way: the records so far count; the walk has to start again behind the last of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Disturbed;

/// The trie to walk through, and what that takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'g> {
    pub(super) memory: &'g Memory,
    pub(super) secret: &'g Secret,
    pub(super) trie: Trie<'g>,
    /// How far a record reaches, most likely (`Memory::reach_of_many`).
    pub(super) reach_bytes: usize,
}

/// A walk's memory; it can be used for any number of walks.
#[derive(Debug)]
pub(super) struct Walk {
    chain: Chain,
    part: Part,
    /// The last item of the part; [`NONE`] if there is none.
    last: u32,
    /// What a pass makes of the part.
    next: Part,
    /// Bucket and version of each node whose children are in the chain.
    parents: Vec<(u32, Version)>,
    /// Numbers of children on the bound's path.
    counts: Vec<u32>,
    /// What was expected below nodes that have been read since, and what is expected below their children.
    guessed: usize,
    found: usize,
    /// How many records more than asked for are prepared.
    ahead: usize,
    /// How many nodes a pass reads at least, if there are so many.
    busy: usize,
    /// Whether the part was cut: nothing may be added to it.
    is_disturbed: bool,
    /// The trie's version when the walk began, if it counts on that.
    quiet: Option<Seen>,
    /// Whether the walk that is begun next has to be careful.
    is_careful: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            chain: Chain::default(),
            part: Part::default(),
            last: NONE,
            next: Part::default(),
            parents: Vec::new(),
            counts: Vec::new(),
            guessed: 0,
            found: 0,
            ahead: 0,
            busy: 0,
            is_disturbed: false,
            quiet: None,
            is_careful: false,
        }
    }
}

/// A node as it was read.
pub(super) struct Read {
    bucket: u32,
    version: Version,
    pub(super) node: Node,
}

impl Walk {
    /// From now on, has as many nodes in flight beyond what is asked for as lead to `count` more records. Worth it for a
    /// walk that goes on (see [`collect_on`](Self::collect_on)).
    pub(super) fn look_ahead(&mut self, count: usize) {
        self.ahead = count;
    }

    /// Appends `limit` entries to `entries`, in order, and those behind them that are known by then; fewer at the trie's end.
    /// The records of the last of them may still be in flight when the call returns.
    ///
    /// # Errors
    ///
    /// [`Disturbed`] if a writer was in the way. What was appended counts nevertheless.
    pub(super) fn collect<V>(
        &mut self,
        ground: &Ground<'_>,
        lanes: impl Lanes,
        direction: Direction,
        start: Start<'_>,
        limit: usize,
        entries: &mut Vec<Leaf>,
    ) -> Result<Progress, Disturbed> {
        let seen = ground.trie.version().begin();
        let is_careful = core::mem::take(&mut self.is_careful) || seen.is_changing();
        self.quiet = (!is_careful).then_some(seen);
        let usual = ground.trie.levels().count_ones() as usize;
        self.busy = (usual / 3).min(limit / BUSY_PART).min(BUSY);
        self.make_room(limit);
        if let Some((key, inclusive)) = self.begin(ground, lanes, direction, start)? {
            // The leaves where the bound's path ends can be on either side of the bound. While their records are on the way:
            let leaves = self.part.tail;
            let wanted = limit + self.ahead + leaves as usize;
            self.refill(ground, direction, wanted);
            self.pass_on(ground, lanes, direction, wanted)?;
            for _ in 0..leaves {
                let Some(leaf) = self.chain.first_leaf() else { break };
                let found = ground.memory.key::<V>(leaf);
                let is_beyond = (*found > *key) == (direction == Direction::Up) && *found != *key;
                if is_beyond || inclusive && *found == *key {
                    break;
                }
                self.take_front();
            }
        }
        self.collect_on(ground, lanes, direction, limit, entries)
    }

    /// Goes on where the last call ended, in the same direction through the same trie, as if it were still that call: what
    /// it has read is not read again, so the pieces of a long walk are in flight as one. Against a new search behind the
    /// last record, 100 records in pieces of 32 took two thirds of the time.
    ///
    /// # Errors
    ///
    /// [`Disturbed`] as for that call, and if that call was.
    pub(super) fn collect_on(
        &mut self,
        ground: &Ground<'_>,
        lanes: impl Lanes,
        direction: Direction,
        limit: usize,
        entries: &mut Vec<Leaf>,
    ) -> Result<Progress, Disturbed> {
        let before = entries.len();
        let progress = self.advance(ground, lanes, direction, limit, entries);
        if self.has_changed(ground) {
            entries.truncate(before);
            return Err(Disturbed);
        }
        progress
    }

    fn advance(
        &mut self,
        ground: &Ground<'_>,
        lanes: impl Lanes,
        direction: Direction,
        limit: usize,
        entries: &mut Vec<Leaf>,
    ) -> Result<Progress, Disturbed> {
        let end = entries.len() + limit;
        loop {
            while let Some(leaf) = self.take_front() {
                entries.push(leaf);
            }
            if entries.len() >= end {
                return Ok(Progress::More);
            }
            let wanted = end + self.ahead - entries.len();
            self.refill(ground, direction, wanted);
            if !self.part.nodes.is_empty() {
                self.pass_on(ground, lanes, direction, wanted)?;
            } else if self.part.tail == 0 {
                return if self.is_disturbed { Err(Disturbed) } else { Ok(Progress::End) };
            }
        }
    }

    /// Whether a walk that counts on the trie's version has met a writer; the next one is careful then.
    #[inline]
    fn has_changed(&mut self, ground: &Ground<'_>) -> bool {
        let version = ground.trie.version();
        let has_changed = self.quiet.is_some_and(|seen| version.end(seen).is_none());
        self.is_careful |= has_changed;
        has_changed
    }

    /// A pass. What it found in a quiet walk is of one state of the trie.
    fn pass_on(
        &mut self,
        ground: &Ground<'_>,
        lanes: impl Lanes,
        direction: Direction,
        wanted: usize,
    ) -> Result<(), Disturbed> {
        if self.quiet.is_none() {
            self.pass::<CAREFUL>(ground, lanes, direction, wanted);
            return Ok(());
        }
        self.pass::<QUIET>(ground, lanes, direction, wanted);
        if self.has_changed(ground) { Err(Disturbed) } else { Ok(()) }
    }

    /// Makes room for a walk, once and not in steps: it is often made for one range.
    fn make_room(&mut self, limit: usize) {
        let (items, room) = (ITEMS[usize::from(limit == 1)], ROOM[usize::from(limit == 1)]);
        self.chain.links.reserve(items);
        self.part.nodes.reserve(items);
        self.next.nodes.reserve(items);
        self.parents.reserve(room);
        self.counts.reserve(room);
    }

    /// Goes where a walk starts. Returns the bound if the part is leaves that may not be beyond it.
    #[inline]
    fn begin<'k>(
        &mut self,
        ground: &Ground<'_>,
        lanes: impl Lanes,
        direction: Direction,
        start: Start<'k>,
    ) -> Result<Option<(&'k [u8], bool)>, Disturbed> {
        self.chain.clear();
        self.part.clear();
        self.last = NONE;
        self.parents.clear();
        self.counts.clear();
        (self.guessed, self.found) = (0, 0);
        self.is_disturbed = false;
        if let Start::Key { key, inclusive } = start {
            return match self.descend(ground, lanes, direction, key) {
                Ok(is_leaf) => Ok(is_leaf.then_some((key, inclusive))),
                Err(disturbed) => {
                    self.chain.clear();
                    (self.is_disturbed, self.is_careful) = (true, true);
                    Err(disturbed)
                }
            };
        }
        let leaves = (ground.trie.keys() as u32).clamp(1, MOST);
        self.prepend(Item::Node(ground.ask(ground.root(), NONE, leaves)));
        Ok(None)
    }

    /// Puts an item before all others.
    fn prepend(&mut self, item: Item) {
        self.chain.insert(NONE, item);
    }

    /// Takes the first item, if it is a leaf of the part.
    #[inline(always)]
    fn take_front(&mut self) -> Option<Leaf> {
        let ready = self.part.ready();
        *ready = ready.checked_sub(1)?;
        self.part.expected -= 1;
        let front = self.chain.front;
        let leaf = self.chain.first_leaf()?;
        self.chain.remove(NONE);
        if front == self.last {
            self.last = NONE;
        }
        Some(leaf)
    }

    /// Adds to the part what follows it, until enough leaves are expected there.
    fn refill(&mut self, ground: &Ground<'_>, direction: Direction, wanted: usize) {
        while (self.part.expected < wanted || self.part.nodes.len() < self.busy)
            && !self.is_disturbed
        {
            let at = self.chain.behind(self.last);
            match self.chain.item(at).copied() {
                None => return,
                Some(Item::Leaf(_)) => {
                    self.part.push_leaves(1);
                    self.last = at;
                }
                Some(Item::Node(asked)) => {
                    self.part.push(at, asked.leaves);
                    self.last = at;
                }
                Some(Item::Family(mut family)) => {
                    // What was learned in this walk about such guesses.
                    let leaves = (family.leaves as usize * self.found)
                        .checked_div(self.guessed)
                        .map_or(family.leaves, |leaves| leaves.clamp(1, MOST as usize) as u32);
                    let missing = wanted.saturating_sub(self.part.expected);
                    let missing = missing.div_ceil(leaves as usize);
                    let count = missing.max(self.busy.saturating_sub(self.part.nodes.len()));
                    let (chain, part) = (&mut self.chain, &mut self.part);
                    let mut some = Family { leaves, ..family };
                    self.last = some.ask(ground, direction, count, chain, self.last, part);
                    family.children = some.children;
                    if family.children == Children::default() {
                        self.chain.remove(self.last);
                    } else {
                        self.chain.set(at, Item::Family(family));
                    }
                }
            }
        }
    }

    /// Reads all nodes of the part, and puts their children or leaves in their place. If a parent is not confirmed, the part
    /// ends before its children, and with it what the walk yields.
    fn pass<const TRUST: bool>(
        &mut self,
        ground: &Ground<'_>,
        lanes: impl Lanes,
        direction: Direction,
        wanted: usize,
    ) {
        let old = core::mem::take(&mut self.part);
        let mut new = core::mem::take(&mut self.next);
        new.clear();
        // The parent whose children are being read, and what there was before these.
        let (mut parent, mut since) = (NONE, (0, 0, 0));
        let (mut intact, mut is_cut, mut read_count) = (true, false, 0);
        let mut nodes = old.nodes.iter();
        while let Some((place, before)) = nodes.next().copied() {
            let Some(Item::Node(item)) = self.chain.item(place).copied() else { continue };
            new.push_leaves(before);
            read_count += 1;
            let is_enough = read_count >= self.busy;
            if item.parent != parent {
                intact = TRUST == QUIET || self.is_still(ground, parent);
                if !intact {
                    break;
                }
                parent = item.parent;
                since = (new.nodes.len(), new.tail, new.expected);
            }
            let mut read = ground.read::<TRUST>(lanes, item.bucket & !LATE, item.name);
            if read.is_none() {
                if item.bucket & LATE == 0 {
                    self.chain.set(place, Item::Node(ground.ask_late(item)));
                    new.push(place, item.leaves);
                    continue;
                }
                if TRUST == CAREFUL {
                    read = ground.read_pair(lanes, ground.trie.home(item.state));
                }
            }
            let Some(Read { bucket, version, node }) = read else {
                // Without a root, the trie is empty.
                intact = parent == NONE;
                break;
            };
            match node {
                Node::Leaf(leaf) => {
                    ground.memory.prefetch_leaf_many(leaf, ground.reach_bytes);
                    self.chain.set(place, Item::Leaf(leaf));
                    new.push_leaves(1);
                }
                Node::Pair(pair) => {
                    let [first, second] = direction.order(pair.leaves());
                    ground.memory.prefetch_leaf_many(first, ground.reach_bytes);
                    ground.memory.prefetch_leaf_many(second, ground.reach_bytes);
                    self.chain.set(place, Item::Leaf(first));
                    let behind = self.chain.insert(place, Item::Leaf(second));
                    if place == self.last {
                        self.last = behind;
                    }
                    new.push_leaves(2);
                }
                Node::Jump(label) => {
                    let child = ground.secret.step_all(item.state, label);
                    let parent = self.add_parent::<TRUST>(bucket, version);
                    let asked = ground.ask(child, parent, item.leaves);
                    self.chain.set(place, Item::Node(asked));
                    new.push(place, item.leaves);
                }
                Node::Regular(_) | Node::Branch(_) => {
                    let parent = self.add_parent::<TRUST>(bucket, version);
                    let family = ground.family(&item, node, parent);
                    let wanted = if is_enough { wanted } else { usize::MAX };
                    is_cut =
                        self.expand(ground, direction, (place, &item), family, wanted, &mut new);
                }
            }
            // What is behind is in flight already: it is read in the next pass, or if the chain is asked for more.
            if is_cut || is_enough && new.expected >= wanted {
                break;
            }
        }
        if intact && (TRUST == QUIET || self.is_still(ground, parent)) {
            if !is_cut {
                for (place, before) in nodes.copied() {
                    new.push_leaves(before);
                    if let Some(Item::Node(item)) = self.chain.item(place) {
                        new.push(place, item.leaves);
                    }
                }
                new.push_leaves(old.tail);
            }
        } else {
            self.is_disturbed = true;
            // The part ends before these children. What is behind them in the chain is not looked at any more.
            let (nodes, tail, expected) = since;
            new.nodes.truncate(nodes);
            (new.tail, new.expected) = (tail, expected);
        }
        (self.part, self.next) = (new, old);
    }

    /// Puts children in the place of their node, as many as are wanted in all of the part. Whether there are others: then the part ends
    /// before these.
    #[inline(always)]
    fn expand(
        &mut self,
        ground: &Ground<'_>,
        direction: Direction,
        (place, item): (u32, &Asked),
        mut family: Family,
        wanted: usize,
        new: &mut Part,
    ) -> bool {
        self.guessed += item.leaves as usize;
        self.found += (family.leaves * family.children.len()) as usize;
        let missing = wanted.saturating_sub(new.expected).div_ceil(family.leaves as usize);
        // The first one in the place of the node.
        let Family { state, parent, leaves, .. } = family;
        let Some(first) = direction.take(&mut family.children) else { return false };
        let child = ground.secret.step(state, first);
        self.chain.set(place, Item::Node(ground.ask(child, parent, leaves)));
        new.push(place, leaves);
        let others = missing.saturating_sub(1).min(family.children.len() as usize);
        let last = family.ask(ground, direction, others, &mut self.chain, place, new);
        let is_cut = family.children != Children::default();
        if is_cut {
            self.chain.insert(last, Item::Family(family));
        }
        if is_cut || place == self.last {
            self.last = last;
        }
        is_cut
    }

    /// Notes a node whose children will be read. Where nobody looks at it again, it is not the root's.
    #[inline(always)]
    fn add_parent<const TRUST: bool>(&mut self, bucket: u32, version: Version) -> u32 {
        if TRUST == QUIET {
            return 0;
        }
        self.parents.push((bucket, version));
        self.parents.len() as u32 - 1
    }

    /// Whether a parent is what it was when it was read.
    #[inline]
    fn is_still(&self, ground: &Ground<'_>, parent: u32) -> bool {
        self.parents
            .get(parent as usize)
            .is_none_or(|(bucket, version)| ground.trie.bucket(*bucket).is_still(*version))
    }

    /// Goes down the path of `key`, and notes what lies beyond it. Returns whether the path ends at one or two leaves, which are
    /// the part then.
    fn descend(
        &mut self,
        ground: &Ground<'_>,
        lanes: impl Lanes,
        direction: Direction,
        key: &[u8],
    ) -> Result<bool, Disturbed> {
        let Ground { secret, trie, memory, reach_bytes } = *ground;
        // Few nodes, so they are confirmed one by one in any case.
        let mut ahead = Ahead::new(ground, key);
        let symbols = ahead.symbols;
        let (mut level, mut parent) = (0, NONE);
        let is_leaf = loop {
            let state = ahead.ask(ground, level);
            let read = ground.read_pair(lanes, trie.home(state));
            if !self.is_still(ground, parent) {
                return Err(Disturbed);
            }
            let Some(Read { bucket, version, node }) = read else {
                // Without a root, the trie is empty.
                return if parent == NONE { Ok(false) } else { Err(Disturbed) };
            };
            match node {
                Node::Leaf(_) | Node::Pair(_) => {
                    let up = direction == Direction::Up;
                    let mut leaves = node.leaves();
                    while let Some(leaf) = if up { leaves.next_back() } else { leaves.next() } {
                        memory.prefetch_leaf(leaf, reach_bytes);
                        self.prepend(Item::Leaf(leaf));
                        self.part.push_leaves(1);
                        if self.last == NONE {
                            self.last = self.chain.front;
                        }
                    }
                    break true;
                }
                Node::Regular(all) => {
                    let symbol = symbols.symbol(level);
                    let children = match direction {
                        Direction::Up => all.behind(symbol),
                        Direction::Down => all.ahead_of(symbol),
                    };
                    parent = self.add_parent::<CAREFUL>(bucket, version);
                    self.prepend(Item::Family(Family { state, children, parent, leaves: 1 }));
                    self.counts.push(all.len());
                    if !all.has(symbol) {
                        break false;
                    }
                    level += 1;
                }
                Node::Jump(label) => {
                    let matched = label.matched(symbols.window(level), symbols.left(level));
                    parent = self.add_parent::<CAREFUL>(bucket, version);
                    ahead.pass(level, matched);
                    level += matched;
                    if matched < label.len() {
                        let beyond = label.symbol(matched).rank() > symbols.symbol(level).rank();
                        if beyond == (direction == Direction::Up) {
                            let child = ground.ask(secret.step_all(state, label), parent, 2);
                            self.prepend(Item::Node(child));
                        }
                        break false;
                    }
                }
                Node::Branch(branch) => {
                    let label = branch.label();
                    let matched = label.matched(symbols.window(level), symbols.left(level));
                    parent = self.add_parent::<CAREFUL>(bucket, version);
                    level += matched;
                    let (all, symbol) = (branch.children(), symbols.symbol(level));
                    let is_whole = matched == label.len();
                    let is_beyond = !is_whole
                        && (label.symbol(matched).rank() > symbol.rank())
                            == (direction == Direction::Up);
                    let children = match direction {
                        _ if is_beyond => all,
                        _ if !is_whole => Children::default(),
                        Direction::Up => all.behind(symbol),
                        Direction::Down => all.ahead_of(symbol),
                    };
                    let state = secret.step_all(state, label);
                    self.prepend(Item::Family(Family { state, children, parent, leaves: 1 }));
                    self.counts.push(all.len());
                    if !is_whole || !all.has(symbol) {
                        break false;
                    }
                    level += 1;
                }
            }
        };
        self.guess();
        Ok(is_leaf)
    }

    /// Guesses how many leaves there are below the nodes beside the path: as many as below those on it, if each of them had
    /// as many children as the one on the path.
    fn guess(&mut self) {
        let mut below = 1;
        let mut counts = self.counts.iter().rev();
        // In the order in which they were put there: each before all others.
        for (item, _) in self.chain.links.iter_mut().rev() {
            if let Item::Family(Family { leaves, .. }) = item {
                *leaves = below;
                below = counts.next().map_or(MOST, |count| (below * count).min(MOST));
            }
        }
    }
}

impl Ground<'_> {
    /// The state of the root.
    pub(super) fn root(&self) -> State {
        self.secret.root(self.trie.round())
    }

    /// The children of a regular node or branch.
    #[inline(always)]
    fn family(&self, item: &Asked, node: Node, parent: u32) -> Family {
        let (state, children) = match node {
            Node::Branch(branch) => {
                (self.secret.step_all(item.state, branch.label()), branch.children())
            }
            Node::Regular(children) => (item.state, children),
            _ => (item.state, Children::default()),
        };
        // A node that a writer is at work on may have none; what is made of it is thrown away.
        let count = children.len().max(1);
        let leaves = if item.leaves <= count { 1 } else { item.leaves / count };
        Family { state, children, parent, leaves }
    }

    /// Asks for the line that a node will be read from.
    #[inline(always)]
    pub(super) fn ask(&self, state: State, parent: u32, leaves: u32) -> Asked {
        let Home { first, tag, .. } = self.trie.home(state);
        self.trie.prefetch_bucket_many(first);
        Asked { state, parent, leaves, bucket: first, name: Head::first(tag) }
    }

    /// Asks for the second line of a node that is not in its first.
    #[inline]
    fn ask_late(&self, item: Asked) -> Asked {
        let Home { second, tag, .. } = self.trie.home(item.state);
        self.trie.prefetch_bucket(second);
        Asked { bucket: second | LATE, name: Head::second(tag), ..item }
    }

    /// Reads a node from one bucket, if it is there, at one moment.
    #[inline(always)]
    pub(super) fn read<const TRUST: bool>(
        &self,
        lanes: impl Lanes,
        number: u32,
        name: u32,
    ) -> Option<Read> {
        let bucket: &Bucket = self.trie.bucket(number);
        if TRUST == QUIET {
            let slot = lanes.find(bucket, name)?;
            return Some(Read {
                bucket: number,
                version: Version::default(),
                node: bucket.node(slot),
            });
        }
        loop {
            let version = bucket.begin();
            let slot = lanes.find(bucket, name)?;
            let node = bucket.node(slot);
            if bucket.is_still(version) {
                return Some(Read { bucket: number, version, node });
            }
        }
    }

    /// Reads a node from either of its buckets. `None` if it was in neither at one moment.
    #[inline]
    fn read_pair(&self, lanes: impl Lanes, home: Home) -> Option<Read> {
        loop {
            let read = self
                .read::<CAREFUL>(lanes, home.first, Head::first(home.tag))
                .or_else(|| self.read::<CAREFUL>(lanes, home.second, Head::second(home.tag)));
            if read.is_some() {
                return read;
            }
            // It may have moved from the bucket that was read later to the one that was read before.
            self.trie.find(lanes, home)?;
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "walk_tests.rs"]
mod tests;
