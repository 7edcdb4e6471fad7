//! The descent along a key: from a trie's root to the node where the key's path ends.
//!
//! The states of a path's nodes follow from the key alone, so their lines are asked for before the first of them is
//! read: up to [`WIDTH`] levels ahead, two lines each. *Level* `i` is the node whose name has `i` symbols.
//!
//! ```text
//! level     0      1      2      3      4      5      6      7      8      9
//! asked for xxxxxx xxxxxx xxxxxx xxxxxx                                        the trie's usual depth, here 4
//! read      ------>------>------>------>                                       mostly that is all
//!                                       xxxxxx xxxxxx                          a longer path: two ahead
//! ```
//!
//! A node is read from both of its buckets at once, without a branch on which of them it is in: one in six nodes is in
//! its second bucket, and a wrong guess about that would be found out only when the line has come, and the searches
//! behind this one would wait too.
//!
//! # What a reader may believe
//!
//! A node's words are used before it is known that they belong together, but only to choose which state of the *key* comes
//! next. A step is *confirmed* when the child has been read and the parent's bucket has still the version from before
//! the parent was read. So each node is confirmed once it was left, and the last one is confirmed by itself before
//! anything is said about it.
//!
//! * The confirmed parent said at the time its child was read that the child is there. States are unique (T3), so what was
//!   read under the child's state was the child.
//! * A parent may have lost its place in the trie between its own reading and its child's, in a removal, without a
//!   change of its bucket. Removals clear what they take out before they end, so the same removal was still going on then,
//!   and what hangs below such a node says what it said before that removal (`edit.rs`). So the answer was the trie's
//!   when the parent was read.
//! * A child that is not there has been taken out, or is just being moved. The descent starts again.
//!
//! The holder of the trie's lock uses the same descent. Nothing changes under it, so all of it is confirmed.
//!
//! PAPER: section 4.3 (Algorithm 2) and 5. There a node is confirmed before it is used, and the search checks that the
//! child knows its parent; here states are unique.

#![allow(clippy::missing_errors_doc, reason = "the one error is that a writer is in the way")]

use core::hint::select_unpredictable;

use super::bucket::{Bucket, Find, Version};
use super::layout::{Children, Head, LABEL_SYMBOLS, Label, Leaf, Node, SYMBOL_BITS, Symbol};
use super::raw::Trie;
use super::state::{Secret, State, Symbols};
use crate::arch::{self, Lanes};
use crate::sync::backoff::Backoff;

/// Levels whose lines are in flight at a time, and after how many of them a search of a batch gives way to the next.
///
/// Two lines for each level, so eight levels are more than a core keeps in flight (10 to 16 misses); the prototype was
/// fastest at 5 to 8 with long keys, and slower with 3 or 10. Short keys do not reach it.
pub(super) const WIDTH: usize = 8;

/// Levels asked for at a time on paths that are longer than usual, of which one knows only that the next is there.
const BEYOND: usize = 2;

/// Whether a descent asks for both buckets of a node at once, or for the second when the node is not in the first.
const BOTH: bool = true;
const FIRST: bool = false;

/// A level whose lines were asked for; or none, so that a new descent is all zeros.
#[derive(Clone, Copy, Debug)]
struct Level<'g> {
    first: Option<&'g Bucket>,
    second: Option<&'g Bucket>,
    state: State,
    tag: u32,
    /// The key's symbol that leads on from here.
    symbol: Symbol,
}

/// A descent that has asked for lines, and may have read some levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descent<'g, 'k> {
    trie: Trie<'g>,
    /// The next level to read.
    level: usize,
    /// The parent, and what its bucket's version was when it was read.
    parent: Option<(&'g Bucket, Version)>,
    /// The node of `level` was not in its first bucket, and the second has been asked for since.
    late: bool,
    ahead: Ahead<'g, 'k>,
}

/// What was asked for of a path.
#[derive(Clone, Copy, Debug)]
struct Ahead<'g, 'k> {
    symbols: Symbols<'k>,
    /// Levels below this one have been asked for.
    known: usize,
    /// There is nothing to ask for before a level that is not below this one is to be read.
    enough: usize,
    /// The state of level `known`.
    next: State,
    /// The symbols that lead on from that level, the first on top, and how many.
    window: u64,
    in_window: usize,
    /// How many levels a path of this trie usually has.
    usual: usize,
    /// Level `i` is at `i % WIDTH`.
    levels: [Level<'g>; WIDTH],
}

/// The node where the path of a key ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Symbols of the node's name.
    pub(super) level: usize,
    pub(super) state: State,
    pub(super) end: End,
}

/// How a path ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// At the root, which is not there: the trie is empty.
    Empty,
    /// At a leaf, of this key or of another one.
    Leaf(Leaf),
    /// At a regular node that has no child for the key's next symbol.
    NoChild(Children),
    /// At a jump of which the key shares only so many symbols.
    Label(Label, usize),
}

/// What a trie says of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// If the key is there, this is its record: the hash is the key's as far as the leaf knows it.
    Record(u64),
    /// The key is there, and these are the bits of its value.
    Short(u64),
    /// The key is not there.
    Absent,
}

/// The descent has met a writer.
#[derive(Clone, Copy, Debug)]
struct Disturbed;

/// A node as it was read, not confirmed.
struct Read<'g> {
    bucket: &'g Bucket,
    version: Version,
    node: Node,
}

/// Is told of the nodes that a descent passes.
pub(super) trait Passes {
    /// The path leads on through one of the children.
    fn regular(&mut self, level: usize, state: State, children: Children);

    /// The path leads on behind the label.
    fn jump(&mut self, level: usize, state: State, label: Label);
}

impl Passes for () {
    #[inline(always)]
    fn regular(&mut self, _: usize, _: State, _: Children) {}

    #[inline(always)]
    fn jump(&mut self, _: usize, _: State, _: Label) {}
}

impl<'g> Trie<'g> {
    /// Starts a descent: asks for the lines of the first levels, and reads nothing but the header.
    #[inline(always)]
    pub(super) fn ask<'k>(self, secret: &Secret, key: &'k [u8]) -> Descent<'g, 'k> {
        let mut descent = Descent::new(self, key);
        descent.ahead.ask::<BOTH>(self, secret, 0);
        descent
    }

    /// The same for one of many descents that take turns ([`Descent::look_on`]): asks for first buckets only. One node in
    /// six costs a turn more, and all of them half the lines; the lines are what bounds a batch.
    #[inline(always)]
    pub(super) fn ask_first<'k>(self, secret: &Secret, key: &'k [u8]) -> Descent<'g, 'k> {
        let mut descent = Descent::new(self, key);
        descent.ahead.ask::<FIRST>(self, secret, 0);
        descent
    }

    /// Finds the leaf that is the key's if any is.
    #[inline(always)]
    pub(super) fn look(self, secret: &Secret, lanes: impl Lanes, key: &[u8], hash: u32) -> Look {
        let mut descent = Descent::new(self, key);
        descent.ahead.ask::<BOTH>(self, secret, 0);
        match descent.run::<BOTH>(secret, lanes, &mut (), usize::MAX) {
            Ok(Some(stop)) => stop.look(key, hash),
            Ok(None) | Err(Disturbed) => self.look_again(secret, lanes, key, hash),
        }
    }

    /// Finds where the path of `key` ends. The caller holds the lock.
    pub(super) fn descend(
        self,
        secret: &Secret,
        lanes: impl Lanes,
        key: &[u8],
        passes: &mut impl Passes,
    ) -> Stop {
        match self.ask(secret, key).run::<BOTH>(secret, lanes, passes, usize::MAX) {
            Ok(Some(stop)) => stop,
            // The lock keeps everybody else out.
            Ok(None) | Err(Disturbed) => unreachable!("T4: a child is missing"),
        }
    }

    /// Looks for a key from the root on until no writer is in the way.
    #[cold]
    #[inline(never)]
    fn look_again(self, secret: &Secret, lanes: impl Lanes, key: &[u8], hash: u32) -> Look {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            let mut descent = self.ask(secret, key);
            if let Ok(Some(stop)) = descent.run::<BOTH>(secret, lanes, &mut (), usize::MAX) {
                return stop.look(key, hash);
            }
        }
    }

    /// Whether there surely is no node of this state.
    #[cold]
    #[inline(never)]
    fn is_free(self, lanes: impl Lanes, state: State) -> bool {
        self.find(lanes, self.home(state)).is_none()
    }
}

impl<'g> Level<'g> {
    const NONE: Self =
        Self { first: None, second: None, state: State(0), tag: 0, symbol: Symbol(0) };

    /// Asks for the lines of a state.
    #[inline(always)]
    fn ask<const MODE: bool>(trie: Trie<'g>, state: State, symbol: Symbol) -> Self {
        let home = trie.home(state);
        let (first, second) = (trie.bucket(home.first), trie.bucket(home.second));
        arch::prefetch(first);
        if MODE == BOTH {
            arch::prefetch(second);
        }
        Self { first: Some(first), second: Some(second), state, tag: home.tag, symbol }
    }

    /// Reads the node of this level if it is in its first bucket.
    #[inline(always)]
    fn read_first(&self, lanes: impl Lanes) -> Option<Read<'g>> {
        let bucket = self.first?;
        let version = bucket.begin();
        let slot = lanes.find(bucket, Head::first(self.tag))?;
        Some(Read { bucket, version, node: bucket.node(slot) })
    }

    /// Reads the node of this level from the bucket it is in.
    #[inline(always)]
    fn read(&self, lanes: impl Lanes) -> Option<Read<'g>> {
        let (first, second) = (self.first?, self.second?);
        // Versions first: what is read behind them is of these versions or of later ones.
        let versions = (first.begin(), second.begin());
        let in_first = lanes.find(first, Head::first(self.tag));
        let in_second = lanes.find(second, Head::second(self.tag));
        let there = in_first.is_some();
        let slot = select_unpredictable(there, in_first, in_second)?;
        let bucket = select_unpredictable(there, first, second);
        let version = select_unpredictable(there, versions.0, versions.1);
        Some(Read { bucket, version, node: bucket.node(slot) })
    }
}

impl<'g> Descent<'g, '_> {
    #[inline(always)]
    fn new<'k>(trie: Trie<'g>, key: &'k [u8]) -> Descent<'g, 'k> {
        let ahead = Ahead {
            symbols: Symbols::new(key, trie.skip_bits()),
            known: 0,
            enough: 0,
            next: trie.root(),
            window: 0,
            in_window: 0,
            usual: trie.depth(),
            levels: [Level::NONE; WIDTH],
        };
        Descent { trie, level: 0, parent: None, late: false, ahead }
    }

    /// Goes on with a descent that [`Trie::ask_first`] has started: reads `count` nodes at most, and asks for as many
    /// levels. `None` if there is more to read: call again when that may have come. With [`WIDTH`] it reads what has been
    /// asked for before.
    #[inline(always)]
    pub(super) fn look_on(
        &mut self,
        secret: &Secret,
        lanes: impl Lanes,
        hash: u32,
        count: usize,
    ) -> Option<Look> {
        let (trie, key) = (self.trie, self.ahead.symbols.key());
        match self.run::<FIRST>(secret, lanes, &mut (), count) {
            Ok(stop) => stop.map(|stop| stop.look(key, hash)),
            Err(Disturbed) => Some(trie.look_again(secret, lanes, key, hash)),
        }
    }

    /// Reads up to `count` nodes, until the path ends.
    #[inline(always)]
    fn run<const MODE: bool>(
        &mut self,
        secret: &Secret,
        lanes: impl Lanes,
        passes: &mut impl Passes,
        count: usize,
    ) -> Result<Option<Stop>, Disturbed> {
        let (trie, mut level, mut parent) = (self.trie, self.level, self.parent);
        for _ in 0..count {
            let here = self.ahead.levels[level % WIDTH];
            let (state, symbol) = (here.state, here.symbol);
            let read = if MODE == FIRST && !self.late {
                let read = here.read_first(lanes);
                if read.is_none() {
                    if let Some(second) = here.second {
                        arch::prefetch(second);
                    }
                    (self.level, self.parent, self.late) = (level, parent, true);
                    return Ok(None);
                }
                read
            } else {
                here.read(lanes)
            };
            self.late = false;
            let Some(Read { bucket, version, node }) = read else {
                // Only the root may be missing, and only if it is missing from both buckets at one moment.
                let is_empty = level == 0 && trie.is_free(lanes, state);
                let stop = Stop { level, state, end: End::Empty };
                return if is_empty { Ok(Some(stop)) } else { Err(Disturbed) };
            };
            if parent.is_some_and(|(parent, version)| !Bucket::is_still(parent, version)) {
                return Err(Disturbed);
            }
            let end = match node {
                Node::Regular(children) if children.has(symbol) => {
                    passes.regular(level, state, children);
                    level += 1;
                    None
                }
                Node::Regular(children) => Some(End::NoChild(children)),
                Node::Jump(label) => {
                    let matched = self.ahead.matched(level, label);
                    if matched == label.len() {
                        passes.jump(level, state, label);
                        level += matched;
                        None
                    } else {
                        Some(End::Label(label, matched))
                    }
                }
                Node::Leaf(leaf) => Some(End::Leaf(leaf)),
            };
            if let Some(end) = end {
                let is_whole = bucket.is_still(version);
                return if is_whole {
                    Ok(Some(Stop { level, state, end }))
                } else {
                    Err(Disturbed)
                };
            }
            parent = Some((bucket, version));
            if level >= self.ahead.enough {
                self.ahead.ask::<MODE>(trie, secret, level);
            }
        }
        (self.level, self.parent) = (level, parent);
        Ok(None)
    }
}

impl<'g> Ahead<'g, '_> {
    /// How many symbols of a label the key has from `level` on.
    #[inline(always)]
    fn matched(&self, level: usize, label: Label) -> usize {
        label.matched(self.symbols.window(level), self.symbols.left(level))
    }

    /// Asks for the levels that `level`, which is to be read next, makes worth asking for, itself among them.
    #[inline(always)]
    fn ask<const MODE: bool>(&mut self, trie: Trie<'g>, secret: &Secret, level: usize) {
        // A jump may lead beyond what is known. What it passes over is not asked for.
        while self.known < level {
            self.step(secret);
        }
        // No more than WIDTH, or what is still to be read would be overwritten. END's child is a leaf.
        let ends = (self.symbols.count() + 2).max(level + 1);
        let usual = if self.usual > level { self.usual } else { level + BEYOND };
        let wanted = usual.min(level + WIDTH).min(ends);
        while self.known < wanted {
            let (known, state) = (self.known, self.next);
            let symbol = self.step(secret);
            self.levels[known % WIDTH] = Level::ask::<MODE>(trie, state, symbol);
        }
        // A path of the usual length is known by then; on a longer one, what was asked for is read first.
        self.enough = if self.known < self.usual { level } else { self.known };
    }

    /// Goes to the next level. Returns the symbol that led there.
    #[inline(always)]
    fn step(&mut self, secret: &Secret) -> Symbol {
        if self.in_window == 0 {
            self.window = self.symbols.window(self.known);
            self.in_window = LABEL_SYMBOLS;
        }
        let is_end = self.known >= self.symbols.count();
        let symbol =
            if is_end { Symbol::END } else { Symbol((self.window >> (64 - SYMBOL_BITS)) as u8) };
        self.window <<= SYMBOL_BITS;
        self.in_window -= 1;
        self.known += 1;
        self.next = secret.step(self.next, symbol);
        symbol
    }
}

impl Stop {
    #[inline(always)]
    fn look(self, key: &[u8], wanted: u32) -> Look {
        match self.end {
            End::Leaf(Leaf::Record { unit, hash }) if hash == wanted => Look::Record(unit),
            End::Leaf(Leaf::Short { key: found, value }) if *key == found.to_be_bytes() => {
                Look::Short(value)
            }
            _ => Look::Absent,
        }
    }
}
