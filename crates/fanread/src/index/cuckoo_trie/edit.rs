//! Changes of one trie, by the holder of its lock: a key more, a key less, another record.
//!
//! ```text
//! insert at ...      rewritten, last             placed before
//! a regular node     one child more              the leaf
//! a leaf             a pair of both              nothing, if both have records and other hashes
//!                    the two keys' common        jumps as far as they agree behind that, a regular node,
//!                    symbols, or regular         both leaves
//! a pair             the same of two keys that   the same, where they part; of the three leaves, two that agree further
//!                    part first                  are a pair there
//! a jump             the part that agrees, or    a regular node, the rest of the label, the leaf
//!                    regular
//!
//! remove below ...   rewritten, first            cleared then
//! three or more      one child less              the leaf
//! a leaf and ...     the other leaf, as far up   what was between, from the top down, and both leaves
//!                    as it goes
//!                    or, if it has no room there,   the leaf
//!                    one child less
//! the other leaf of  that leaf                   nothing
//! a pair
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
//! A call that fails has changed no key and no value; places of some nodes may be others, and a pair may have been parted.
//!
//! PAPER: section 4.5. There is no list of leaves to mend here, and no maximum of a subtree.

#![allow(clippy::missing_errors_doc, reason = "the one error is that a node has no room")]

use super::descend::{End, Passes, Stop};
use super::label::{Branch, Children, Label, Symbol};
use super::layout::{
    BUCKET_WEIGHT, Home, INNER_WEIGHT, LABEL_SYMBOLS, Leaf, NoRoom, Node, Pair, Place,
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

/// A regular node or a branch of a path.
#[derive(Clone, Copy, Debug)]
struct Parent {
    level: usize,
    state: State,
    label: Option<Label>,
    children: Children,
}

impl Parent {
    /// The level of the symbols that lead to its children.
    fn fork_level(&self) -> usize {
        self.level + self.label.map_or(0, Label::len)
    }

    /// The same node with fewer children.
    fn with(&self, fewer: Children) -> Node {
        Branch::behind(self.label, fewer).expect("fewer children fit too")
    }

    /// The state of a child.
    fn child(&self, secret: &Secret, symbol: Symbol) -> State {
        let label = |label| secret.step_all(self.state, label);
        secret.step(self.label.map_or(self.state, label), symbol)
    }
}

/// What is above the end of a path.
#[derive(Clone, Copy, Default, Debug)]
struct Above {
    /// The last regular node or branch passed.
    parent: Option<Parent>,
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
        self.parent = Some(Parent { level, state, label: None, children });
        (self.jump, self.top) = (self.next_jump.take(), self.next_top.take());
    }

    #[inline]
    fn branch(&mut self, level: usize, state: State, branch: Branch) {
        let (label, children) = (Some(branch.label()), branch.children());
        if children.only().is_some() {
            self.next_jump = None;
            self.next_top.get_or_insert((level, state));
            return;
        }
        self.parent = Some(Parent { level, state, label, children });
        (self.jump, self.top) = (self.next_jump.take(), self.next_top.take());
    }

    #[inline]
    fn jump(&mut self, level: usize, state: State, label: Label) {
        self.next_jump = Some((state, label));
        self.next_top.get_or_insert((level, state));
    }
}

/// Nodes that are to stand where one stood: a row of jumps, a regular node with two or three children, and below it the key's
/// and what was there before.
struct Fork {
    /// The level of the regular node.
    level: usize,
    /// What the key's symbol there leads to: its leaf, or a pair.
    leaf: Node,
    /// The symbol that leads to what was there.
    other: Symbol,
    /// What is there; `None` if it stays where it is.
    moved: Option<Node>,
    /// A third child.
    third: Option<(Symbol, Node)>,
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

    /// The leaf where the path ends that can be the key's, whose hash this is: its own, or that of another key.
    #[inline]
    pub(super) fn leaf(&self, hash: u32) -> Option<Leaf> {
        match self.stop.end {
            End::Leaf(Leaf::Record { hash: other, .. }) if other != hash => None,
            End::Leaf(leaf) => Some(leaf),
            End::Pair(pair) => pair.leaf(hash),
            _ => None,
        }
    }

    /// The leaves where the path ends.
    pub(super) fn leaves(&self) -> impl Iterator<Item = Leaf> {
        let node = match self.stop.end {
            End::Leaf(leaf) => Some(Node::Leaf(leaf)),
            End::Pair(pair) => Some(Node::Pair(pair)),
            _ => None,
        };
        node.into_iter().flat_map(Node::leaves)
    }

    /// Exchanges the leaf of the key, which is there, by one of as many slots.
    pub(super) fn replace(&self, leaf: Leaf) {
        let node = match self.stop.end {
            End::Pair(pair) => Node::Pair(pair.replaced(leaf)),
            end => {
                let is_as_large = |old: Leaf| old.weight() == leaf.weight();
                debug_assert!(matches!(end, End::Leaf(old) if is_as_large(old)));
                Node::Leaf(leaf)
            }
        };
        self.rewrite(self.stop.state, node);
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
        key_of: impl Fn(Leaf) -> Key<'r>,
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
                // Most keys that are no pair part right behind the leaf's name: the new leaf's lines come while the other key does.
                if Pair::of(leaf, there).is_none() {
                    let likely = self.secret.step(state, self.symbols.symbol(level));
                    self.trie.prefetch(self.trie.home(likely));
                    self.trie.prefetch_hint_of(there);
                }
                let other = key_of(there);
                if let Some(pair) = Pair::with(leaf, there, *other > *self.symbols.key()) {
                    place::rewrite(self.trie, self.place_of(state), Node::Pair(pair))?;
                    level
                } else {
                    let other = Symbols::new(&other, self.trie.skip_bits());
                    let level = self.symbols.common(&other);
                    debug_assert!(level >= self.stop.level, "T5: not on the other key's path");
                    let (leaf, moved) = (Node::Leaf(leaf), Some(Node::Leaf(there)));
                    let other = other.symbol(level);
                    self.fork(&Fork { level, leaf, other, moved, third: None })?
                }
            }
            End::Pair(pair) => {
                // These two will be on other levels; their hints come while their keys do.
                pair.leaves().into_iter().for_each(|leaf| self.trie.prefetch_hint_of(leaf));
                let Some(fork) = self.fork_of_three(leaf, pair, &key_of) else {
                    // Seldom: the two that agree further cannot be a pair.
                    self.part(pair, &key_of)?;
                    let key = self.symbols.key();
                    let again = Self::find(self.trie, self.secret, Baseline, key, false);
                    return again.insert(leaf, hash, key_of);
                };
                self.fork(&fork)?
            }
            End::Branch(branch, matched) if matched == branch.len() => {
                self.add_child(branch, leaf)?;
                level + matched + 1
            }
            End::Branch(branch, matched) => {
                let moved = Some(branch.rest(matched + 1));
                let (level, other) = (level + matched, branch.label().symbol(matched));
                let leaf = Node::Leaf(leaf);
                self.fork(&Fork { level, leaf, other, moved, third: None })?
            }
            End::Label(label, matched) => {
                let moved = label.rest(matched + 1).map(Node::Jump);
                let (level, other) = (level + matched, label.symbol(matched));
                let leaf = Node::Leaf(leaf);
                self.fork(&Fork { level, leaf, other, moved, third: None })?
            }
        };
        self.trie.set_keys(self.trie.keys() + 1);
        self.trie.add_hint(leaf, level);
        self.move_hints(level);
        self.note_level(level, hash);
        Ok(())
    }

    /// Adds a child to a branch where the key's path ends; if there is no room for it in the node, it becomes a jump and a regular node.
    fn add_child(&self, branch: Branch, leaf: Leaf) -> Result<(), NoRoom> {
        let Stop { level, state, .. } = self.stop;
        let (trie, label) = (self.trie, branch.label());
        let symbol = self.symbols.symbol(level + label.len());
        let fork = self.secret.step_all(state, label);
        let child = self.secret.step(fork, symbol);
        let children = branch.children().with(symbol);
        let with_one_more = Branch::new(label, children);
        trie.prefetch(trie.home(child));
        if with_one_more.is_none() {
            place::place(trie, fork, Node::Regular(children))?;
        }
        if let Err(error) = place::place(trie, child, Node::Leaf(leaf)) {
            if with_one_more.is_none() {
                self.clear(fork);
            }
            return Err(error);
        }
        self.rewrite(state, with_one_more.map_or(Node::Jump(label), Node::Branch));
        Ok(())
    }

    /// The fork of the key and a pair where its path ends; `None` if it agrees further with one of the two, of which it cannot be a
    /// pair.
    fn fork_of_three<'r>(
        &self,
        leaf: Leaf,
        pair: Pair,
        key_of: impl Fn(Leaf) -> Key<'r>,
    ) -> Option<Fork> {
        let leaves = pair.leaves();
        let keys = leaves.map(&key_of);
        let symbols = keys.each_ref().map(|key| Symbols::new(key, self.trie.skip_bits()));
        let apart = symbols[0].common(&symbols[1]);
        let shared = symbols.map(|symbols| self.symbols.common(&symbols));
        debug_assert!(shared.iter().all(|shared| *shared >= self.stop.level), "T5");
        let alone = Node::Leaf(leaf);
        if shared[0] == shared[1] {
            let level = shared[0];
            let other = symbols[0].symbol(level);
            return Some(if level < apart {
                Fork { level, leaf: alone, other, moved: Some(Node::Pair(pair)), third: None }
            } else {
                let third = Some((symbols[1].symbol(level), Node::Leaf(leaves[1])));
                Fork { level, leaf: alone, other, moved: Some(Node::Leaf(leaves[0])), third }
            });
        }
        let near = usize::from(shared[1] > shared[0]);
        let (other, moved) = (symbols[1 - near].symbol(apart), Node::Leaf(leaves[1 - near]));
        let pair = Pair::with(leaf, leaves[near], *keys[near] > *self.symbols.key())?;
        Some(Fork { level: apart, leaf: Node::Pair(pair), other, moved: Some(moved), third: None })
    }

    /// Puts two leaves in the place of a pair where the key's path ends, one of which it agrees with further than with the other.
    fn part<'r>(&self, pair: Pair, key_of: impl Fn(Leaf) -> Key<'r>) -> Result<(), NoRoom> {
        let leaves = pair.leaves();
        let keys = leaves.map(key_of);
        let symbols = keys.each_ref().map(|key| Symbols::new(key, self.trie.skip_bits()));
        let level = symbols[0].common(&symbols[1]);
        let near = usize::from(self.symbols.common(&symbols[0]) <= level);
        let (leaf, moved) = (Node::Leaf(leaves[near]), Some(Node::Leaf(leaves[1 - near])));
        let other = symbols[1 - near].symbol(level);
        let level = self.fork(&Fork { level, leaf, other, moved, third: None })?;
        self.move_hints(level);
        Ok(())
    }

    /// Notes that the leaves where the path ended are on another level now.
    fn move_hints(&self, level: usize) {
        if level != self.stop.level {
            self.leaves().for_each(|leaf| self.trie.move_hint(leaf, self.stop.level, level));
        }
    }

    /// Puts a fork in the place of the node where the path ends. Returns the level of the new leaf.
    fn fork(&self, fork: &Fork) -> Result<usize, NoRoom> {
        let trie = self.trie;
        let (_, behind_jumps) = self.fork_of(fork);
        let jumps = (behind_jumps - self.stop.level).div_ceil(LABEL_SYMBOLS);
        let leaves = [Some(fork.leaf), fork.moved, fork.third.map(|(_, node)| node)];
        let leaves: u32 = leaves.into_iter().flatten().map(Node::weight).sum();
        // One of the others takes the place of what stood there.
        let weight = trie.weight() + jumps * INNER_WEIGHT + leaves as usize;
        if weight > trie.buckets() as usize * BUCKET_WEIGHT {
            return Err(NoRoom::Full);
        }
        // Of what is placed, only these labels can pass over a level that none has passed over.
        trie.note_jump(self.stop.level, fork.level + 1 - self.stop.level);
        // Most forks are these nodes and a jump at most: named once, and asked for before the first is placed.
        let mut first = [None; 5];
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

    /// The children of a fork, and the level where its jumps end.
    fn fork_of(&self, fork: &Fork) -> (Children, usize) {
        let children = Children::pair(self.symbols.symbol(fork.level), fork.other);
        let children = fork.third.map_or(children, |(symbol, _)| children.with(symbol));
        let row = fork.level - self.stop.level;
        (children, fork.level - Branch::symbols(row, children))
    }

    /// Calls `each` with the nodes of a fork and their states: first the one that takes the place of the node where the path
    /// ends, from there on downwards.
    fn nodes_of<E>(
        &self,
        fork: &Fork,
        mut each: impl FnMut(State, Node) -> Result<(), E>,
    ) -> Result<(), E> {
        let symbol = self.symbols.symbol(fork.level);
        let (children, behind_jumps) = self.fork_of(fork);
        let (mut level, mut state) = (self.stop.level, self.stop.state);
        while level < behind_jumps {
            let label = self.symbols.label(level, (behind_jumps - level).min(LABEL_SYMBOLS));
            each(state, Node::Jump(label))?;
            state = self.secret.step_all(state, label);
            level += label.len();
        }
        let label = (level < fork.level).then(|| self.symbols.label(level, fork.level - level));
        each(state, Branch::behind(label, children).expect("as many symbols as fit"))?;
        state = label.map_or(state, |label| self.secret.step_all(state, label));
        each(self.secret.step(state, symbol), fork.leaf)?;
        let moved = fork.moved.map(|moved| (fork.other, moved));
        let mut others = moved.into_iter().chain(fork.third);
        others.try_for_each(|(symbol, node)| each(self.secret.step(state, symbol), node))
    }

    /// Takes the key out, whose leaf this is.
    pub(super) fn remove(&self, leaf: Leaf) {
        debug_assert!(self.leaves().any(|other| other == leaf), "the key is there");
        self.trie.set_keys(self.trie.keys() - 1);
        self.trie.remove_hint(leaf, self.stop.level);
        if let End::Pair(pair) = self.stop.end {
            self.rewrite(self.stop.state, Node::Leaf(pair.without(leaf)));
            return;
        }
        let Some(parent) = self.above.parent else {
            self.clear_leaf();
            return;
        };
        let left = parent.children.without(self.symbols.symbol(parent.fork_level()));
        let Some(symbol) = left.only() else {
            self.rewrite(parent.state, parent.with(left));
            self.clear_leaf();
            return;
        };
        let child = parent.child(self.secret, symbol);
        match self.node(child) {
            node @ (Node::Leaf(_) | Node::Pair(_)) => {
                if !self.move_up(&parent, node, child) {
                    self.rewrite(parent.state, parent.with(left));
                    self.clear_leaf();
                }
            }
            Node::Jump(label) => self.join(&parent, symbol, Some(label), child),
            Node::Regular(_) | Node::Branch(_) => self.join(&parent, symbol, None, child),
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
            Node::Leaf(_) | Node::Pair(_) => None,
            Node::Jump(label) => Some(self.secret.step_all(state, label)),
            Node::Branch(branch) => {
                let fork = self.secret.step_all(state, branch.label());
                branch.children().only().map(|symbol| self.secret.step(fork, symbol))
            }
            Node::Regular(children) => {
                children.only().map(|symbol| self.secret.step(state, symbol))
            }
        }
    }

    /// Moves the leaf or pair that will be alone below its parent to where no jump leads to it (T5), and takes out the key. Does
    /// nothing if it has no room there.
    fn move_up(&self, parent: &Parent, moved: Node, from: State) -> bool {
        let below = parent.fork_level();
        let (level, mut state) = self.above.top.unwrap_or((parent.level, parent.state));
        let mut node = self.node(state);
        if place::rewrite(self.trie, self.place_of(state), moved).is_err() {
            return false;
        }
        moved.leaves().for_each(|leaf| self.trie.move_hint(leaf, below + 1, level));
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
    fn join(&self, parent: &Parent, symbol: Symbol, below: Option<Label>, child: State) {
        let Parent { level, state: parent, label, .. } = *parent;
        let one = Label::of(&[symbol]);
        let one = match label {
            Some(label) => label.joined(one).expect("a branch's label has seven symbols at most"),
            None => one,
        };
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
