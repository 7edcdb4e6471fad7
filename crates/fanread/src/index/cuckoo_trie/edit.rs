//! Changes of one trie, by the holder of its lock: a key more, a key less, another record.
//!
//! ```text
//! insert at ...      rewritten, last             placed before
//! a regular node     one child more              the leaf
//! a leaf             the two keys' common        jumps as far as they agree behind that, a regular node,
//!                    symbols, or regular         both leaves
//! a jump             the part that agrees, or    a regular node, the rest of the label, the leaf
//!                    regular
//!
//! remove below ...   rewritten, first            cleared then
//! three or more      one child less              the leaf
//! a leaf and ...     the other leaf, as far up   what was between, from the top down, and both leaves
//!                    as it goes
//!                    or, if it has no room there,   the leaf
//!                    one child less
//! a leaf and a node  a jump to that node, one    what it takes the place of, and the leaf
//!                    with jumps beside it
//! ```
//!
//! # Why readers see one trie or the other
//!
//! * Each change takes effect by one store into one bucket, the *rewriting*. Before it, what was placed is below no bit and
//!   no label, so no descent gets there; a reader that comes from the rewritten node also sees what was placed before
//!   (the bucket's version is stored by Release and loaded by Acquire).
//! * No node gets another name. A node that stays is found under the state it had, whatever happens above it.
//! * What a rewriting takes out of the trie stays as it is until it is cleared, and is cleared before the call ends. So
//!   whoever still reads there, and finds each parent unchanged behind its child, has a path of the trie from before the
//!   rewriting, and that is during the call. The key that is removed was there then; what the trie says of other keys is
//!   the same before and after.
//! * Clearing goes from the top down: who finds a child missing can find out by the parent that it was taken out.
//!
//! A call that fails has changed nothing but the places of some nodes.
//!
//! PAPER: section 4.5. There is no list of leaves to mend here, and no maximum of a subtree.

#![allow(clippy::missing_errors_doc, reason = "the one error is that a node has no room")]

use super::descend::{End, Passes, Stop};
use super::layout::{
    BUCKET_WEIGHT, Children, Home, INNER_WEIGHT, LABEL_SYMBOLS, Label, Leaf, NoRoom, Node, Place,
    Symbol,
};
use super::place;
use super::raw::Trie;
use super::state::{Secret, State, Symbols};
use crate::api::Key;
use crate::arch::{Baseline, Lanes};

/// One of so many new paths is noted. A trie gets some 8,000 keys at most before it is built anew.
const NOTED_PATHS: u32 = 1024;

/// Where the path of a key ends, in a trie whose lock the caller holds until the edit is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit<'g, 'a> {
    trie: Trie<'g>,
    secret: &'a Secret,
    symbols: Symbols<'a>,
    stop: Stop,
    above: Above,
}

/// What is above the end of a path.
#[derive(Clone, Copy, Default, Debug)]
struct Above {
    /// The last regular node passed: level, state, children.
    parent: Option<(usize, State, Children)>,
    /// The jump that leads to it.
    jump: Option<(State, Label)>,
    /// The first of the jumps in a row that lead to it, and its level.
    top: Option<(usize, State)>,
    /// The same two, of the jumps passed behind that node.
    next_jump: Option<(State, Label)>,
    next_top: Option<(usize, State)>,
}

impl Passes for Above {
    #[inline]
    fn regular(&mut self, level: usize, state: State, children: Children) {
        if children.only().is_some() {
            // Nothing forks here: it is as a jump that cannot be joined with others.
            self.next_jump = None;
            self.next_top.get_or_insert((level, state));
            return;
        }
        self.parent = Some((level, state, children));
        (self.jump, self.top) = (self.next_jump.take(), self.next_top.take());
    }

    #[inline]
    fn jump(&mut self, level: usize, state: State, label: Label) {
        self.next_jump = Some((state, label));
        self.next_top.get_or_insert((level, state));
    }
}

/// Nodes that are to stand where one stood: a row of jumps, a regular node with two children, and below it a new leaf
/// and what was there before.
struct Fork {
    /// The level of the regular node.
    level: usize,
    leaf: Leaf,
    /// The symbol that leads to what was there.
    other: Symbol,
    /// What is there; `None` if it stays where it is.
    moved: Option<Node>,
}

impl<'g, 'a> Edit<'g, 'a> {
    /// Finds where `key` is, or would be; to remove it, or only to write it, which needs less of the path. The caller holds
    /// the trie's lock, the trie lives, and the key lies between its borders.
    pub(super) fn find(
        trie: Trie<'g>,
        secret: &'a Secret,
        lanes: impl Lanes,
        key: &'a [u8],
        to_remove: bool,
    ) -> Self {
        let mut above = Above::default();
        let stop = if to_remove {
            trie.descend(secret, lanes, key, &mut above)
        } else {
            trie.descend_below(secret, lanes, key)
        };
        Self { trie, secret, symbols: Symbols::new(key, trie.skip_bits()), stop, above }
    }

    /// The leaf where the path ends: the key's, or that of another key.
    #[inline]
    pub(super) fn leaf(&self) -> Option<Leaf> {
        match self.stop.end {
            End::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// Exchanges the leaf of the key, which is there, by one of as many slots.
    pub(super) fn replace(&self, leaf: Leaf) {
        debug_assert!(self.leaf().is_some_and(|old| old.weight() == leaf.weight()));
        self.rewrite(self.stop.state, Node::Leaf(leaf));
    }

    /// Adds the key, which is not there. `key_of` gives the key of a leaf, `hash` is the key's.
    ///
    /// # Errors
    ///
    /// If the trie has no room, or two states would be the same. All its keys are as they were.
    pub(super) fn insert<'r>(
        &self,
        leaf: Leaf,
        hash: u32,
        key_of: impl FnOnce(Leaf) -> Key<'r>,
    ) -> Result<(), NoRoom> {
        let Stop { level, state, end } = self.stop;
        let level = match end {
            End::Empty => {
                place::place(self.trie, state, Node::Leaf(leaf))?;
                0
            }
            End::NoChild(children) => {
                let symbol = self.symbols.symbol(level);
                place::place(self.trie, self.secret.step(state, symbol), Node::Leaf(leaf))?;
                self.rewrite(state, Node::Regular(children.with(symbol)));
                level + 1
            }
            End::Leaf(there) => {
                // Most keys part right behind the leaf's name: the new leaf's lines come while the other key does.
                let likely = self.secret.step(state, self.symbols.symbol(level));
                self.trie.prefetch(self.trie.home(likely));
                if let Leaf::Record { hash, .. } = there {
                    self.trie.prefetch_hint(hash);
                }
                let other = key_of(there);
                let other = Symbols::new(&other, self.trie.skip_bits());
                let level = self.symbols.common(&other);
                debug_assert!(level >= self.stop.level, "T5: not on the other key's path");
                let moved = Some(Node::Leaf(there));
                self.fork(&Fork { level, leaf, other: other.symbol(level), moved })?
            }
            End::Label(label, matched) => {
                let moved = label.rest(matched + 1).map(Node::Jump);
                let (level, other) = (level + matched, label.symbol(matched));
                self.fork(&Fork { level, leaf, other, moved })?
            }
        };
        self.trie.set_keys(self.trie.keys() + 1);
        self.trie.add_hint(leaf, level);
        if let End::Leaf(moved) = end {
            self.trie.move_hint(moved, self.stop.level, level);
        }
        self.note_level(level, hash);
        Ok(())
    }

    /// Puts a fork in the place of the node where the path ends. Returns the level of the new leaf.
    fn fork(&self, fork: &Fork) -> Result<usize, NoRoom> {
        let trie = self.trie;
        let jumps = (fork.level - self.stop.level).div_ceil(LABEL_SYMBOLS);
        let leaves = fork.leaf.weight() + fork.moved.map_or(0, Node::weight);
        // One of the others takes the place of what stood there.
        let weight = trie.weight() + jumps * INNER_WEIGHT + leaves as usize;
        if weight > trie.buckets() as usize * BUCKET_WEIGHT {
            return Err(NoRoom::Full);
        }
        // Of what is placed, only these jumps can pass over a level that none has passed over.
        for level in (self.stop.level..fork.level).step_by(LABEL_SYMBOLS) {
            trie.note_jump(level, LABEL_SYMBOLS.min(fork.level - level));
        }
        // Most forks are these nodes and a jump at most: named once, and asked for before the first is placed.
        let mut first = [None; 4];
        let mut count = 0;
        let asked: Result<(), core::convert::Infallible> = self.nodes_of(fork, |state, node| {
            let home = trie.home(state);
            if count > 0 {
                trie.prefetch(home);
            }
            if let Some(first) = first.get_mut(count) {
                *first = Some((home, node));
            }
            count += 1;
            Ok(())
        });
        asked.unwrap_or_else(|never| match never {});
        let (mut top, mut placed) = (None, 0);
        let mut place = |home: Home, node: Node| {
            if top.is_none() {
                top = Some(node);
                return Ok(());
            }
            place::place_at(trie, home, node.encode())?;
            trie.set_weight(trie.weight() + node.weight() as usize);
            placed += 1;
            Ok(())
        };
        let all = if count <= first.len() {
            first.into_iter().flatten().try_for_each(|(home, node)| place(home, node))
        } else {
            self.nodes_of(fork, |state, node| place(trie.home(state), node))
        };
        if let Err(error) = all {
            let mut skipped_top = false;
            let _done = self.nodes_of(fork, |state, _| {
                if core::mem::replace(&mut skipped_top, true) {
                    if placed == 0 {
                        return Err(());
                    }
                    self.clear(state);
                    placed -= 1;
                }
                Ok(())
            });
            return Err(error);
        }
        if let Some(top) = top {
            self.rewrite(self.stop.state, top);
        }
        Ok(fork.level + 1)
    }

    /// Calls `each` with the nodes of a fork and their states: first the one that takes the place of the node where the path
    /// ends, from there on downwards.
    fn nodes_of<E>(
        &self,
        fork: &Fork,
        mut each: impl FnMut(State, Node) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut level, mut state) = (self.stop.level, self.stop.state);
        while level < fork.level {
            let count = (fork.level - level).min(LABEL_SYMBOLS);
            let label = self.symbols.label(level, count);
            each(state, Node::Jump(label))?;
            state = self.secret.step_all(state, label);
            level += count;
        }
        let symbol = self.symbols.symbol(level);
        each(state, Node::Regular(Children::pair(symbol, fork.other)))?;
        each(self.secret.step(state, symbol), Node::Leaf(fork.leaf))?;
        match fork.moved {
            Some(moved) => each(self.secret.step(state, fork.other), moved),
            None => Ok(()),
        }
    }

    /// Takes the key out, which is there.
    pub(super) fn remove(&self) {
        debug_assert!(self.leaf().is_some(), "the key is there");
        self.trie.set_keys(self.trie.keys() - 1);
        if let Some(leaf) = self.leaf() {
            self.trie.remove_hint(leaf, self.stop.level);
        }
        let Some((level, state, children)) = self.above.parent else {
            self.clear_leaf();
            return;
        };
        let left = children.without(self.symbols.symbol(level));
        let Some(symbol) = left.only() else {
            self.rewrite(state, Node::Regular(left));
            self.clear_leaf();
            return;
        };
        let child = self.secret.step(state, symbol);
        match self.node(child) {
            Node::Leaf(leaf) => {
                if !self.move_up(leaf, child) {
                    self.rewrite(state, Node::Regular(left));
                    self.clear_leaf();
                }
            }
            Node::Jump(label) => self.join(symbol, Some(label), child),
            Node::Regular(_) => self.join(symbol, None, child),
        }
    }

    /// Clears the leaf where the path ends, and the nodes that led to nothing else.
    fn clear_leaf(&self) {
        let mut state = self.above.next_top.map_or(self.stop.state, |(_, state)| state);
        while let Some(child) = self.only_child(state, self.node(state)) {
            self.clear(state);
            state = child;
        }
        self.clear(state);
    }

    /// What a node leads to that leads to one thing.
    fn only_child(&self, state: State, node: Node) -> Option<State> {
        match node {
            Node::Leaf(_) => None,
            Node::Jump(label) => Some(self.secret.step_all(state, label)),
            Node::Regular(children) => {
                children.only().map(|symbol| self.secret.step(state, symbol))
            }
        }
    }

    /// Moves the leaf that will be alone below its parent to where no jump leads to it (T5), and takes out the key. Does
    /// nothing if the leaf has no room there.
    fn move_up(&self, leaf: Leaf, from: State) -> bool {
        let Some((below, parent, _)) = self.above.parent else { return false };
        let (level, mut state) = self.above.top.unwrap_or((below, parent));
        let mut node = self.node(state);
        if place::rewrite(self.trie, self.place_of(state), Node::Leaf(leaf)).is_err() {
            return false;
        }
        self.trie.move_hint(leaf, below + 1, level);
        // What is below the first, and the regular node behind that.
        while let Some(child) = self.only_child(state, node) {
            state = child;
            node = self.node(state);
            self.clear(state);
        }
        self.clear(from);
        self.clear_leaf();
        true
    }

    /// Makes the parent, which will have one child that is no leaf, part of a jump, and takes out the key.
    fn join(&self, symbol: Symbol, below: Option<Label>, child: State) {
        let Some((level, parent, _)) = self.above.parent else { return };
        let one = Label::of(&[symbol]);
        let joined = below.and_then(|below| one.joined(below));
        let label = joined.unwrap_or(one);
        let with_above =
            self.above.jump.and_then(|(state, above)| Some((state, above.joined(label)?)));
        let end = level + label.len();
        let whole = with_above.map_or(label, |(_, label)| label).len();
        self.trie.note_jump(end - whole, whole);
        match with_above {
            Some((state, label)) => {
                self.rewrite(state, Node::Jump(label));
                self.clear(parent);
            }
            None => self.rewrite(parent, Node::Jump(label)),
        }
        if joined.is_some() {
            self.clear(child);
        }
        self.clear_leaf();
    }

    /// Takes one of many new paths for usual: the level of its leaf, and the one above, are asked for by all searches
    /// from now on. When a trie is built from its keys, they are counted.
    fn note_level(&self, level: usize, hash: u32) {
        if hash.is_multiple_of(NOTED_PATHS) {
            self.trie.add_level(level.saturating_sub(1));
            self.trie.add_level(level);
        }
    }

    /// Where a node is now.
    fn place_of(&self, state: State) -> Place {
        let place = self.trie.locate(Baseline, self.trie.home(state));
        place.expect("T4: a node of a path is there")
    }

    fn node(&self, state: State) -> Node {
        self.trie.node(self.place_of(state))
    }

    /// Changes what a node says, to something of no more slots.
    fn rewrite(&self, state: State, node: Node) {
        let rewritten = place::rewrite(self.trie, self.place_of(state), node);
        debug_assert!(rewritten.is_ok(), "no slot more");
    }

    fn clear(&self, state: State) {
        place::clear(self.trie, self.place_of(state));
    }
}
