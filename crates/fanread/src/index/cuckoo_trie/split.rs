//! Splitting a trie by its nodes: no key is read but that of the border.
//!
//! Symbols lie at the same bits of a key in all tries, so the nodes of both halves are those of the whole, but for the
//! few on the border's path, which keep the children of their side. Only names get shorter at their start, if all keys of a
//! half share more whole symbols; then states are stepped to again.
//!
//! ```text
//! whole    b  .  x  [c  .]  y  d  .  .        nodes in order; b is above the border, c the node in which it lies
//! left     b  .  x   c                       the children before the border; what leads to one child becomes a jump
//! right    b         c  ]  y  d  .  .        the children behind it
//! ```
//!
//! # Cost
//!
//! Each node is read once, named once, and placed once: some 25 ns for each. Building from keys took 70 to 270 ns for a
//! key, as that reads each record.

#![allow(clippy::missing_errors_doc, reason = "inside, the one error is that a node has no room")]

use core::ops::Range;

use super::build::{BuildError, LEVELS, Levels, Plan, Queue};
use super::layout::{
    Children, INNER_WEIGHT, LABEL_SYMBOLS, Label, Leaf, NoRoom, Node, SYMBOL_BITS, Symbol,
    buckets_for, larger,
};
use super::raw::{FreeLines, Memory, Trie};
use super::state::Secret;
use super::walk;

/// The nodes of a trie, each before those below it, in the order of their keys.
#[derive(Debug)]
pub(super) struct Nodes {
    list: Vec<Node>,
    leaves: usize,
    skip_bits: u32,
}

/// A border between two children of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    /// The first node behind the border that is not on its path.
    at: usize,
    /// Keys before the border.
    pub(super) before: usize,
    /// The border's bytes are so many of the first key behind it.
    pub(super) bytes: usize,
}

/// The nodes of one half, ready to be placed.
#[derive(Debug)]
pub(super) struct Half {
    nodes: Vec<Node>,
    leaves: usize,
    weight: usize,
    /// Keys below regular nodes, by the nodes' level.
    keys: [usize; LEVELS],
    /// Symbols that all keys share beyond what the whole skips.
    skipped: usize,
}

/// A node whose children are being passed.
#[derive(Clone, Copy, Debug)]
struct Open {
    at: usize,
    level: usize,
    /// Children that have not been passed, and the last that was.
    left: Children,
    last: Option<Symbol>,
}

impl Open {
    /// The node at `at`, of `level`, if it has nodes below.
    #[inline(always)]
    fn new(at: usize, level: usize, node: Node) -> Option<Self> {
        let (level, left) = match node {
            Node::Leaf(_) => return None,
            // As if it were the last node of its row.
            Node::Jump(label) => (level + label.len() - 1, Children::default().with(Symbol(0))),
            Node::Regular(children) => (level, children),
        };
        Some(Self { at, level, left, last: None })
    }
}

/// What has been passed of a trie: the nodes above the next one.
#[derive(Default, Debug)]
struct Trail(Vec<Open>);

impl Trail {
    /// Leaves the nodes behind whose children have all been passed: the last one is above the next node then.
    #[inline(always)]
    fn settle(&mut self) {
        while self.0.pop_if(|open| open.left == Children::default()).is_some() {}
    }

    /// Goes on to the next node, and returns its level.
    #[inline(always)]
    fn step(&mut self) -> usize {
        self.settle();
        let Some(open) = self.0.last_mut() else { return 0 };
        if let Some(symbol) = open.left.first() {
            open.left = open.left.without(symbol);
            open.last = Some(symbol);
        }
        open.level + 1
    }

    /// Adds the node that was stepped to.
    #[inline(always)]
    fn enter(&mut self, at: usize, level: usize, node: Node) {
        self.0.extend(Open::new(at, level, node));
    }
}

impl Nodes {
    /// All nodes of a trie. The caller holds its lock.
    pub(super) fn of(secret: &Secret, trie: Trie<'_>) -> Self {
        let mut list = Vec::with_capacity(trie.weight() / INNER_WEIGHT);
        walk::for_each_node(secret, trie, |node| list.push(node));
        Self { list, leaves: trie.keys(), skip_bits: trie.skip_bits() }
    }

    /// How many keys there are.
    pub(super) fn leaves(&self) -> usize {
        self.leaves
    }

    /// The last leaf.
    pub(super) fn last(&self) -> Option<Leaf> {
        self.list.iter().rev().find_map(leaf)
    }

    /// The first leaf behind a border.
    pub(super) fn first_behind(&self, cut: Cut) -> Option<Leaf> {
        self.list[cut.at..].iter().find_map(leaf)
    }

    /// Where to cut: of the places with so many keys before them, the one with the shortest border, and the nearest to the
    /// middle of those. `None` if there is no place.
    ///
    /// PAPER: as `Run::cut`.
    pub(super) fn cut(&self, window: Range<usize>) -> Option<Cut> {
        let middle = window.start.midpoint(window.end);
        let (mut trail, mut before, mut best) = (Trail::default(), 0, None);
        for (at, node) in self.list.iter().enumerate() {
            trail.settle();
            if window.contains(&before)
                && let Some(Open { level, left, last: Some(last), .. }) = trail.0.last()
                && let Some(next) = left.first()
            {
                let bytes = self.border_bytes(*level, *last, next);
                let rank = (bytes, before.abs_diff(middle));
                if best.is_none_or(|(best, _)| rank < best) {
                    best = Some((rank, Cut { at, before, bytes }));
                }
            }
            let level = trail.step();
            trail.enter(at, level, *node);
            before += usize::from(matches!(node, Node::Leaf(_)));
            if before >= window.end {
                break;
            }
        }
        best.map(|(_, cut)| cut)
    }

    /// Bytes of the shortest border between two children of a node.
    #[inline(always)]
    fn border_bytes(&self, level: usize, before: Symbol, behind: Symbol) -> usize {
        // A key that ends there has filled up its last symbol with zeros, with less than one byte.
        let shared = if before.is_end() {
            0
        } else {
            (before.0 ^ behind.0).leading_zeros() - (u8::BITS - SYMBOL_BITS)
        };
        (self.skip_bits as usize + SYMBOL_BITS as usize * level + shared as usize) / 8 + 1
    }

    /// The nodes before and behind a border, for tries that skip so many bits.
    pub(super) fn halves(&self, cut: Cut, skip_bits: [u32; 2]) -> [Half; 2] {
        let mut trail = Trail::default();
        for (at, node) in self.list[..cut.at].iter().enumerate() {
            let level = trail.step();
            trail.enter(at, level, *node);
        }
        trail.settle();
        let [mut left, mut right] = skip_bits.map(|skip_bits| {
            let symbols = (skip_bits - self.skip_bits) / SYMBOL_BITS;
            Making::new(self.list.len() * 3 / 4, symbols as usize)
        });
        let mut path = trail.0.iter().peekable();
        for (at, node) in self.list[..cut.at].iter().enumerate() {
            let Some(open) = path.next_if(|open| open.at == at) else {
                left.add(*node);
                continue;
            };
            match *node {
                Node::Regular(children) => {
                    let last = open.last.unwrap_or(Symbol::END);
                    let is_cut = path.peek().is_none();
                    let behind = if is_cut { open.left } else { open.left.with(last) };
                    left.add(Node::Regular(children.up_to(last)));
                    right.add(Node::Regular(behind));
                }
                other => {
                    left.add(other);
                    right.add(other);
                }
            }
        }
        self.list[cut.at..].iter().for_each(|node| right.add(*node));
        [left.finish(), right.finish()]
    }
}

/// The places near the middle of so many keys, for [`Nodes::cut`].
pub(super) fn middle(count: usize) -> Range<usize> {
    count * 3 / 8..count * 5 / 8 + 1
}

fn leaf(node: &Node) -> Option<Leaf> {
    if let Node::Leaf(leaf) = node { Some(*leaf) } else { None }
}

/// A half in the making: nodes of one child become jumps, or nothing if they lead to a leaf (T4, T5).
struct Making {
    half: Half,
    /// Regular nodes: their level, the leaves before them, and how many children are to come.
    open: Vec<(usize, usize, u32)>,
    /// The symbols behind the last node that was added, to the node that is next.
    row: Vec<u8>,
    /// The level where the row begins.
    level: usize,
}

impl Making {
    fn new(room: usize, skipped: usize) -> Self {
        let (nodes, keys) = (Vec::with_capacity(room), [0; LEVELS]);
        let half = Half { nodes, leaves: 0, weight: 0, keys, skipped };
        Self { half, open: Vec::new(), row: Vec::new(), level: 0 }
    }

    /// Adds the next node of the whole, as far as it belongs to this half.
    #[inline(always)]
    fn add(&mut self, node: Node) {
        match node {
            Node::Leaf(leaf) => {
                self.row.clear();
                self.half.nodes.push(node);
                self.half.leaves += 1;
                self.half.weight += leaf.weight() as usize;
                self.close();
            }
            Node::Jump(label) => self.row.extend(label.symbols().map(|symbol| symbol.0)),
            Node::Regular(children) => match children.only() {
                Some(symbol) => self.row.push(symbol.0),
                None => self.fork(children),
            },
        }
    }

    #[inline(always)]
    fn fork(&mut self, children: Children) {
        if !self.row.is_empty() {
            self.jump();
        }
        let (half, level) = (&mut self.half, self.level);
        half.nodes.push(Node::Regular(children));
        half.weight += INNER_WEIGHT;
        self.open.push((level, half.leaves, children.len()));
        self.level = level + 1;
    }

    /// Adds jumps for the row; from the root on, only what all keys do not skip.
    fn jump(&mut self) {
        let skipped = if self.open.is_empty() { self.half.skipped } else { 0 };
        debug_assert!(skipped <= self.row.len(), "all keys of a half share what it skips");
        for symbols in self.row[skipped..].chunks(LABEL_SYMBOLS) {
            let mut label = [Symbol::END; LABEL_SYMBOLS];
            for (symbol, from) in label.iter_mut().zip(symbols) {
                *symbol = Symbol(*from);
            }
            self.half.nodes.push(Node::Jump(Label::of(&label[..symbols.len()])));
            self.half.weight += INNER_WEIGHT;
        }
        self.level += self.row.len() - skipped;
        self.row.clear();
    }

    /// Ends the nodes whose last child has been added.
    #[inline(always)]
    fn close(&mut self) {
        while let Some((level, before, left)) = self.open.last_mut() {
            *left -= 1;
            self.level = *level + 1;
            if *left > 0 {
                return;
            }
            if let Some(keys) = self.half.keys.get_mut(*level) {
                *keys += self.half.leaves - *before;
            }
            self.open.pop();
        }
    }

    fn finish(self) -> Half {
        debug_assert!(self.open.is_empty(), "T4");
        self.half
    }
}

impl Half {
    /// Builds the trie, with room for a third more.
    ///
    /// # Errors
    ///
    /// See [`BuildError`]. Nothing is left behind then.
    pub(super) fn build<'g>(
        &self,
        memory: &'g Memory,
        secret: &Secret,
        free: &mut FreeLines,
        plan: &Plan<'_>,
    ) -> Result<Trie<'g>, BuildError> {
        let levels = Levels::of(&self.keys, self.leaves);
        let mut buckets = buckets_for(self.weight + self.weight / 3);
        loop {
            let trie = memory.allocate(free, &plan.shape(buckets, levels))?;
            let Err(error) = self.fill(secret, trie) else {
                trie.set_keys(self.leaves);
                trie.start();
                trie.set_weight(self.weight);
                return Ok(trie);
            };
            memory.free(free, trie.name());
            buckets = match error {
                NoRoom::Full => larger(buckets).ok_or(error)?,
                NoRoom::Collision => return Err(error.into()),
            };
        }
    }

    /// Places all nodes.
    fn fill(&self, secret: &Secret, trie: Trie<'_>) -> Result<(), NoRoom> {
        let mut queue = Queue::new(trie);
        let mut ahead = vec![(0, secret.root(trie.round()))];
        for node in &self.nodes {
            let Some((level, state)) = ahead.pop() else { break };
            queue.add(state, node.encode())?;
            match *node {
                Node::Leaf(leaf) => queue.set_hint(leaf, level),
                Node::Jump(label) => {
                    ahead.push((level + label.len(), secret.step_all(state, label)));
                }
                Node::Regular(children) => {
                    let above = secret.parent(state);
                    let below =
                        children.into_iter().rev().map(|symbol| (level + 1, above.child(symbol)));
                    ahead.extend(below);
                }
            }
        }
        queue.flush()
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
