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

#![allow(
    clippy::missing_errors_doc,
    reason = "inside, errors are that a node has no room, or that there is no memory"
)]

use core::ops::Range;

use super::build::{BuildError, LEVELS, Levels, Plan, Queue, for_each_node};
use super::free::FreeLines;
use super::label::{Branch, Children, Label, Symbol};
use super::layout::{
    EXACT_BUCKETS, INNER_WEIGHT, LABEL_SYMBOLS, Leaf, NoRoom, Node, SYMBOL_BITS, larger, lines_for,
    with_room,
};
use super::raw::{Memory, Trie};
use super::state::{Secret, State};
use crate::arch::Lanes;
use crate::mem::{AllocError, make_room};

/// The nodes of a trie, each before those below it, in the order of their keys.
#[derive(Debug)]
pub(super) struct Nodes<'s> {
    secret: &'s Secret,
    list: Vec<Item>,
    leaves: usize,
    skip_bits: u32,
    round: u32,
}

/// A node, and the name under which it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    state: State,
    level: u32,
    node: Node,
}

/// A border between two children of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    /// The first node behind the border that is not on its path.
    at: usize,
    /// The nodes on the border's path, from the root to the one whose children it parts.
    path: Vec<Open>,
    /// Keys before the border.
    pub(super) before: usize,
    /// The border's bytes are so many of the first key behind it.
    pub(super) bytes: usize,
}

/// The nodes on one side of a border.
#[derive(Debug)]
pub(super) struct Half<'n> {
    nodes: &'n Nodes<'n>,
    cut: &'n Cut,
    is_left: bool,
    leaves: usize,
    /// Of these, those with a record.
    records: usize,
    weight: usize,
    /// Keys below regular nodes and branches, by the nodes' level, and by that of the symbols that lead on.
    keys: [usize; LEVELS],
    forks: [usize; LEVELS],
    /// Symbols that all keys share beyond what the whole skips.
    skipped: u32,
}

/// A node whose children are being passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Open {
    at: usize,
    /// That of the symbols that lead on.
    level: u32,
    /// Children that have not been passed, and the last that was.
    left: Children,
    last: Option<Symbol>,
}

impl Open {
    /// The node at `at`, if it has nodes below.
    #[inline(always)]
    fn new(at: usize, item: &Item) -> Option<Self> {
        let (left, row) = match item.node {
            Node::Leaf(_) | Node::Pair(_) => return None,
            Node::Jump(_) => (Children::default().with(Symbol(0)), 0),
            Node::Branch(branch) => (branch.children(), branch.len()),
            Node::Regular(children) => (children, 0),
        };
        Some(Self { at, level: item.level + row as u32, left, last: None })
    }

    /// Passes the next child.
    #[inline(always)]
    fn step(&mut self) {
        if let Some(symbol) = self.left.first() {
            self.left = self.left.without(symbol);
            self.last = Some(symbol);
        }
    }
}

impl<'s> Nodes<'s> {
    /// All nodes of a trie. The caller holds its lock.
    pub(super) fn of(
        lanes: impl Lanes,
        secret: &'s Secret,
        trie: Trie<'_>,
    ) -> Result<Self, AllocError> {
        let mut list = Vec::new();
        // As many as there can be: no node weighs less.
        make_room(&mut list, trie.weight() / INNER_WEIGHT)?;
        for_each_node(lanes, secret, trie, |level, state, node| {
            list.push(Item { state, level, node });
        });
        let (leaves, skip_bits, round) = (trie.keys(), trie.skip_bits(), trie.round());
        Ok(Self { secret, list, leaves, skip_bits, round })
    }

    /// How many keys there are.
    pub(super) fn leaves(&self) -> usize {
        self.leaves
    }

    /// The last leaf.
    pub(super) fn last(&self) -> Option<Leaf> {
        self.list.iter().rev().find_map(|item| item.node.leaves().next_back())
    }

    /// The first leaf behind a border.
    pub(super) fn first_behind(&self, cut: &Cut) -> Option<Leaf> {
        self.list[cut.at..].iter().find_map(|item| item.node.leaves().next())
    }

    /// Where to cut: of the places with so many keys before them, the one with the shortest border, and the nearest to the
    /// middle of those. `None` if there is no place.
    ///
    /// PAPER: as `Run::cut`.
    pub(super) fn cut(&self, window: Range<usize>) -> Option<Cut> {
        let middle = window.start.midpoint(window.end);
        // The nodes above the next one.
        let mut path: Vec<Open> = Vec::new();
        let (mut before, mut best) = (0, None);
        for (at, item) in self.list.iter().enumerate() {
            while path.pop_if(|open| open.left == Children::default()).is_some() {}
            if let Some(open) = path.last_mut() {
                if before >= window.start
                    && let Open { level, last: Some(last), .. } = *open
                    && let Some(next) = open.left.first()
                {
                    let bytes = self.border_bytes(level, last, next);
                    let rank = (bytes, before.abs_diff(middle));
                    if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                        best = Some((rank, Cut { at, path: path.clone(), before, bytes }));
                    }
                }
                path.last_mut().expect("not empty").step();
            }
            if let Some(open) = Open::new(at, item) {
                path.push(open);
                continue;
            }
            before += item.node.leaves().count();
            if before >= window.end {
                break;
            }
        }
        best.map(|(_, cut)| cut)
    }

    /// Bytes of the shortest border between two children of a node.
    #[inline(always)]
    fn border_bytes(&self, level: u32, before: Symbol, behind: Symbol) -> usize {
        // A key that ends there has filled up its last symbol with zeros, with less than one byte.
        let shared = if before.is_end() {
            0
        } else {
            (before.0 ^ behind.0).leading_zeros() - (u8::BITS - SYMBOL_BITS)
        };
        (self.skip_bits + SYMBOL_BITS * level + shared) as usize / 8 + 1
    }

    /// The nodes before and behind a border, for tries that skip so many bits.
    pub(super) fn halves<'n>(&'n self, cut: &'n Cut, skip_bits: [u32; 2]) -> [Half<'n>; 2] {
        [(true, skip_bits[0]), (false, skip_bits[1])].map(|(is_left, skip_bits)| {
            let skipped = (skip_bits - self.skip_bits) / SYMBOL_BITS;
            Half::new(self, cut, is_left, skipped)
        })
    }
}

/// The places near the middle of so many keys, for [`Nodes::cut`].
pub(super) fn middle(count: usize) -> Range<usize> {
    count * 3 / 8..count * 5 / 8 + 1
}

/// Symbols on the border's path that are behind no fork yet: nodes of one child become jumps, or nothing if they lead to a
/// leaf (T4, T5).
struct Row {
    /// Where it begins.
    state: State,
    level: u32,
    symbols: Vec<u8>,
}

impl Row {
    fn extend(&mut self, item: &Item, symbols: impl IntoIterator<Item = Symbol>) {
        if self.symbols.is_empty() {
            (self.state, self.level) = (item.state, item.level);
        }
        self.symbols.extend(symbols.into_iter().map(|symbol| symbol.0));
    }
}

impl<'n> Half<'n> {
    fn new(nodes: &'n Nodes<'n>, cut: &'n Cut, is_left: bool, skipped: u32) -> Self {
        let (leaves, records, weight) = (0, 0, 0);
        let (keys, forks) = ([0; LEVELS], [0; LEVELS]);
        let half = Self { nodes, cut, is_left, leaves, records, weight, keys, forks, skipped };
        let (mut leaves, mut records, mut weight) = (leaves, records, weight);
        let (mut keys, mut forks) = (keys, forks);
        // Regular nodes and branches above the next one: their level, that of the symbols that lead on, and the leaves before them.
        let mut open: Vec<(u32, u32, usize)> = Vec::new();
        let mut close = |open: &mut Vec<(u32, u32, usize)>, level: u32, leaves: usize| {
            while let Some((level, fork, before)) = open.pop_if(|(above, ..)| *above >= level) {
                for (counts, level) in [(&mut keys, level), (&mut forks, fork)] {
                    if let Some(count) = counts.get_mut((level - skipped) as usize) {
                        *count += leaves - before;
                    }
                }
            }
        };
        let all: Result<(), core::convert::Infallible> = half.each(|item, _| {
            weight += item.node.weight() as usize;
            close(&mut open, item.level, leaves);
            match item.node {
                Node::Leaf(_) | Node::Pair(_) => {
                    leaves += item.node.leaves().count();
                    records += item.node.leaves().filter_map(Leaf::unit).count();
                }
                Node::Regular(_) => open.push((item.level, item.level, leaves)),
                Node::Branch(branch) => {
                    open.push((item.level, item.level + branch.len() as u32, leaves));
                }
                Node::Jump(_) => {}
            }
            Ok(())
        });
        all.unwrap_or_else(|never| match never {});
        close(&mut open, 0, leaves);
        Self { leaves, records, weight, keys, forks, ..half }
    }

    /// Calls `each` with all nodes in order, and with whether it is one that was not there before: a jump, or what is behind that.
    #[inline(always)]
    fn each<E>(&self, mut each: impl FnMut(&Item, bool) -> Result<(), E>) -> Result<(), E> {
        let Self { nodes, cut, .. } = *self;
        let root = &nodes.list[0];
        let mut row = Row { state: root.state, level: root.level, symbols: Vec::new() };
        let (mut from, mut path) = (0, cut.path.iter().peekable());
        while let Some(open) = path.next() {
            if self.is_left {
                self.add_all(&mut row, &nodes.list[from..open.at], &mut each)?;
            }
            from = open.at + 1;
            let mut item = nodes.list[open.at];
            let last = open.last.unwrap_or(Symbol::END);
            let through = path.peek().is_some();
            let of_side = |children: Children| match self.is_left {
                true => children.up_to(last),
                false if through => open.left.with(last),
                false => open.left,
            };
            match &mut item.node {
                Node::Regular(children) => *children = of_side(*children),
                Node::Branch(branch) => *branch = branch.with(of_side(branch.children())),
                _ => {}
            }
            self.add(&mut row, &item, &mut each)?;
        }
        let rest = if self.is_left { from..cut.at } else { cut.at..nodes.list.len() };
        self.add_all(&mut row, &nodes.list[rest], &mut each)
    }

    /// Adds nodes that are not on the border's path: those behind a row, then all others as they are.
    #[inline(always)]
    fn add_all<E>(
        &self,
        row: &mut Row,
        items: &[Item],
        each: &mut impl FnMut(&Item, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut items = items.iter();
        while !row.symbols.is_empty()
            && let Some(item) = items.next()
        {
            self.add(row, item, each)?;
        }
        items.try_for_each(|item| each(item, false))
    }

    /// Adds a node that is on the border's path, or behind a row.
    #[inline(never)]
    fn add<E>(
        &self,
        row: &mut Row,
        item: &Item,
        each: &mut impl FnMut(&Item, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        match item.node {
            Node::Leaf(_) | Node::Pair(_) => {
                debug_assert!(!row.symbols.is_empty(), "no leaf is on the border's path");
                let level = row.level.max(self.skipped);
                row.symbols.clear();
                each(&Item { state: row.state, level, ..*item }, false)?;
            }
            Node::Jump(label) => row.extend(item, label.symbols()),
            Node::Branch(branch) => {
                row.extend(item, branch.label().symbols());
                let children = branch.children();
                match children.only() {
                    Some(symbol) => row.extend(item, [symbol]),
                    None => self.fork(row, children, true, each)?,
                }
            }
            Node::Regular(children) => match children.only() {
                Some(symbol) => row.extend(item, [symbol]),
                None if row.symbols.is_empty() => each(item, false)?,
                None => self.fork(row, children, false, each)?,
            },
        }
        Ok(())
    }

    /// Adds jumps for a row and the node of these children behind it; from the root on, only what all keys do not skip.
    fn fork<E>(
        &self,
        row: &mut Row,
        children: Children,
        is_new: bool,
        each: &mut impl FnMut(&Item, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let Row { mut state, level, ref mut symbols } = *row;
        let skipped = self.skipped.saturating_sub(level) as usize;
        debug_assert!(skipped <= symbols.len(), "all keys of a half share what it skips");
        let mut level = level + skipped as u32;
        let row = &symbols[skipped..];
        let (jumps, rest) = row.split_at(row.len() - Branch::symbols(row.len(), children));
        let label_of = |symbols: &[u8]| {
            let mut label = [Symbol::END; LABEL_SYMBOLS];
            for (symbol, from) in label.iter_mut().zip(symbols) {
                *symbol = Symbol(*from);
            }
            Label::of(&label[..symbols.len()])
        };
        for symbols in jumps.chunks(LABEL_SYMBOLS) {
            let label = label_of(symbols);
            each(&Item { state, level, node: Node::Jump(label) }, true)?;
            state = self.nodes.secret.step_all(state, label);
            level += label.len() as u32;
        }
        let label = (!rest.is_empty()).then(|| label_of(rest));
        let node = Branch::behind(label, children).expect("as many symbols as fit");
        symbols.clear();
        each(&Item { state, level, node }, is_new || label.is_some())
    }

    /// Builds the trie, with room for some more.
    ///
    /// # Errors
    ///
    /// See [`BuildError`]. Nothing is left behind then.
    pub(super) fn build<'g>(
        &self,
        memory: &'g Memory,
        free: &mut FreeLines,
        plan: &Plan<'_>,
    ) -> Result<Trie<'g>, BuildError> {
        let levels = Levels::of(&self.keys, &self.forks, self.leaves, self.records);
        let mut lines = lines_for(with_room(self.weight, levels.hinting), levels.hinting);
        loop {
            let trie = memory.allocate(free, &plan.shape(lines, levels))?;
            let Err(error) = self.fill(trie) else {
                trie.start();
                trie.note_likely();
                trie.set_filled(self.leaves, self.weight);
                return Ok(trie);
            };
            memory.free(free, trie.name());
            lines = match error {
                NoRoom::Full => larger(lines).ok_or(error)?,
                NoRoom::Collision => return Err(error.into()),
            };
        }
    }

    /// Places all nodes.
    fn fill(&self, trie: Trie<'_>) -> Result<(), NoRoom> {
        let secret = self.nodes.secret;
        let mut queue = Queue::new(trie);
        if self.skipped == 0 && trie.round() == self.nodes.round && trie.buckets() >= EXACT_BUCKETS
        {
            // All names are what they were, and so are the states, which are different (T3); but for those of new jumps and what is behind them.
            let mut new = Vec::new();
            self.each(|item, is_new| {
                trie.note_label(item.level as usize, item.node);
                if is_new {
                    new.push(*item);
                    return Ok(());
                }
                queue.add_hints(item.node, item.level as usize);
                queue.add_other(item.state, item.node.encode())
            })?;
            queue.flush()?;
            new.iter().try_for_each(|item| queue.add(item.state, item.node.encode()))?;
            return queue.flush();
        }
        let mut ahead = vec![secret.root(trie.round())];
        self.each(|item, _| {
            let Some(state) = ahead.pop() else { return Ok(()) };
            match item.node {
                Node::Leaf(_) | Node::Pair(_) => {
                    queue.add_hints(item.node, (item.level - self.skipped) as usize);
                }
                Node::Jump(label) => ahead.push(secret.step_all(state, label)),
                Node::Branch(branch) => {
                    let above = secret.parent(secret.step_all(state, branch.label()));
                    ahead.extend(
                        branch.children().into_iter().rev().map(|symbol| above.child(symbol)),
                    );
                }
                Node::Regular(children) => {
                    let above = secret.parent(state);
                    ahead.extend(children.into_iter().rev().map(|symbol| above.child(symbol)));
                }
            }
            trie.note_label((item.level - self.skipped) as usize, item.node);
            queue.add(state, item.node.encode())
        })?;
        queue.flush()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "split_tests.rs"]
mod tests;
