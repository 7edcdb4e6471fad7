//! The descent along a key: from a trie's root to the node where the key's path ends.
//!
//! The states of a path's nodes follow from the key alone, so their lines are asked for before the first of them is
//! read: up to [`WIDTH`] levels ahead, two lines each. *Level* `i` is the node whose name has `i` symbols. Most levels of long
//! keys lie inside of labels, so a trie knows its *usual* levels, where one of 64 paths at least has a node.
//!
//! ```text
//! level      0      1      2      3      4      5   ..   9      10
//! usual      x      x      x      x                      x
//! asked for                xxxxxx xxxxxx                 xxxxxx            from the entry level on
//! read                     ------>--------------->xx                      to a level that is not usual
//!                                                 ------>------>
//! ```
//!
//! A search does not start at the root, but at the trie's *entry level*, where nearly all paths have a node: up to that
//! level a state belongs to one name only (`state.rs`), so what is found there is on the key's path. If nothing is, the
//! search starts again from the root.
//!
//! Where most leaves are on two levels, a search looks there before (`leaf_level.rs`).
//!
//! What many keys share and others do not is a row of jumps of ten symbols each. Behind two such jumps a search in a quiet trie takes it
//! that more follow, and asks for eight levels that are ten symbols apart, one more for each that it has read.
//!
//! A node is read from both of its buckets at once, without a branch on which of them it is in: one in six nodes is in
//! its second bucket, and a wrong guess about that would be found out only when the line has come, and the searches
//! behind this one would wait too. Insertions into tries of long paths ask for first buckets only, as batches do: there the
//! lines are so many that half of them are worth a wait for each node that is in its second bucket.
//!
//! # What a reader may believe
//!
//! *Quiet.* Whoever changes a trie counts up its version before and after. If it is even at the start and the same at the
//! end, nothing was changed in between, and whatever was read belongs together. All searches begin so.
//!
//! *Careful.* A search that meets a writer starts again from the root and does not wait for the writer to finish: it trusts the
//! versions of single buckets. A node's words are used before it is known that they belong together, but only to choose which
//! state of the *key* comes next. A step is *confirmed* when the child has been read and the parent's bucket has still the
//! version from before the parent was read. So each node is confirmed once it was left, and the last one is confirmed by
//! itself before anything is said about it.
//!
//! * The confirmed parent said at the time its child was read that the child is there. States are unique (T3), so what was
//!   read under the child's state was the child.
//! * A parent may have lost its place in the trie between its own reading and its child's, in a removal, without a
//!   change of its bucket. Removals clear what they take out before they end, so the same removal was still going on then,
//!   and what hangs below such a node says what it said before that removal (`edit.rs`). So the answer was the trie's
//!   when the parent was read.
//! * A child that is not there has been taken out, or is just being moved. The descent starts again.
//!
//! It has to come from the root: what a writer has placed and not yet published is found under its state.
//!
//! The holder of the trie's lock searches as if the trie were quiet, which it is.
//!
//! PAPER: section 4.3 (Algorithm 2) and 5. There a node is confirmed before it is used, and the search checks that the
//! child knows its parent; here states are unique.

#![allow(clippy::missing_errors_doc, reason = "the one error is that a writer is in the way")]

use core::hint::select_unpredictable;

use super::bucket::{Bucket, Find, Version};
use super::label::{Branch, Children, Label, Symbol};
use super::layout::{Head, Hinting, LABEL_SYMBOLS, Leaf, Node, Pair, SYMBOL_BITS};
use super::raw::Trie;
use super::state::{SHORT_NAME_SYMBOLS, Secret, State, Symbols};
use crate::arch::{self, Lanes};
use crate::sync::backoff::Backoff;
use crate::sync::version::Seen;

/// Levels whose lines are in flight at a time, and after how many of them a search of a batch gives way to the next.
///
/// Two lines for each level, so eight levels are more than a core keeps in flight (10 to 16 misses); the prototype was
/// fastest at 5 to 8 with long keys, and slower with 3 or 10. Short keys do not reach it.
pub(super) const WIDTH: usize = 8;

/// Levels whose lines are in flight at a time if only first buckets are asked for.
const WIDTH_OF_ONE: usize = 12;

/// Levels that a quick descent asks for. Of 10 M random keys two of five have their leaf on the third.
const QUICK_LEVELS: usize = 3;

/// After how many jumps as long as can be, one behind the other, a descent takes it that more of them follow, and how many it has in
/// flight then.
pub(super) const ROW_BEGINS: usize = 2;
pub(super) const ROW: usize = 8;

/// Whether a descent asks for both buckets of a node at once, or for the second when the node is not in the first.
pub(super) const BOTH: bool = true;
pub(super) const FIRST: bool = false;

/// Whether a descent counts on the trie's version, or on each bucket's.
pub(super) const QUIET: bool = true;
pub(super) const CAREFUL: bool = false;

/// How many levels are known at a time, the one to read next the first of them. No label is as long.
const RING: usize = 2 * WIDTH;

const _: () = assert!(LABEL_SYMBOLS < RING, "where a label leads to has a place of its own");

/// A level whose lines were asked for; or none, so that a new descent is all zeros.
#[derive(Clone, Copy, Debug)]
struct Level<'g> {
    first: Option<&'g Bucket>,
    second: Option<&'g Bucket>,
    tag: u32,
    number: u32,
}

/// A descent that has asked for lines, and may have read some levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descent<'g, 'k> {
    trie: Trie<'g>,
    symbols: Symbols<'k>,
    /// The trie's version at the start.
    seen: Seen,
    /// The level to read next.
    level: usize,
    /// Its node was not in its first bucket, and the second has been asked for since.
    late: bool,
    /// Levels that are still to be asked for, a bit for each: those that paths of this trie usually have.
    wanted: u64,
    /// How many jumps as long as can be lead here, one behind the other.
    row: usize,
    /// The last level that was asked for.
    last: usize,
    /// The last level whose state is known.
    known: usize,
    /// The states of the names on the key's path: level `i` is at `i % RING`.
    states: [State; RING],
    /// The levels that were asked for, as `states`.
    asked: [Level<'g>; RING],
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
    /// At two leaves, one of which may be the key's.
    Pair(Pair),
    /// At a regular node that has no child for the key's next symbol.
    NoChild(Children),
    /// At a jump of which the key shares only so many symbols.
    Label(Label, usize),
    /// At a branch of whose label the key shares so many symbols: not all, or there is no child for its next one.
    Branch(Branch, usize),
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

    /// The path leads on behind the label and through one of the children.
    fn branch(&mut self, level: usize, state: State, branch: Branch);
}

impl Passes for () {
    #[inline(always)]
    fn regular(&mut self, _: usize, _: State, _: Children) {}

    #[inline(always)]
    fn jump(&mut self, _: usize, _: State, _: Label) {}

    #[inline(always)]
    fn branch(&mut self, _: usize, _: State, _: Branch) {}
}

impl<'g> Trie<'g> {
    /// Asks for the lines of the first levels, and reads nothing but the header.
    #[inline(always)]
    pub(super) fn ask(self, secret: &Secret, key: &[u8]) {
        Descent::new(self, secret, key, self.entry()).ask_usual::<BOTH>(secret);
    }

    /// Makes one of many descents that take turns; it is large, so it is put where it stays before it
    /// [asks](Descent::ask_first).
    #[inline(always)]
    pub(super) fn descent<'k>(self, secret: &Secret, key: &'k [u8]) -> Descent<'g, 'k> {
        Descent::new(self, secret, key, self.entry())
    }

    /// Finds the leaf that is the key's if any is.
    #[inline(always)]
    pub(super) fn look(self, secret: &Secret, lanes: impl Lanes, key: &[u8], hash: u32) -> Look {
        if let Some(look) = self.look_at_leaf_level(secret, lanes, key, hash) {
            return look;
        }
        let mut descent = Descent::new(self, secret, key, self.entry());
        descent.ask_usual::<BOTH>(secret);
        let run = descent.run::<BOTH, QUIET>(secret, lanes, &mut (), usize::MAX);
        if let Ok(Some(stop)) = run
            && descent.was_quiet()
        {
            return stop.look(key, hash);
        }
        self.look_again(secret, lanes, key, hash)
    }

    /// Finds where the path of `key` ends, and tells `passes` of all nodes before that. The caller holds the lock.
    pub(super) fn descend(
        self,
        secret: &Secret,
        lanes: impl Lanes,
        key: &[u8],
        passes: &mut impl Passes,
    ) -> Stop {
        self.descend_from(0, secret, lanes, key, passes)
            .expect("T4: under the lock, no child is missing")
    }

    /// The same for callers who need no more than the end.
    pub(super) fn descend_below(self, secret: &Secret, lanes: impl Lanes, key: &[u8]) -> Stop {
        self.descend_quickly(secret, lanes, key).unwrap_or_else(|| {
            let stop = self.descend_from(self.entry(), secret, lanes, key, &mut ());
            stop.unwrap_or_else(|Disturbed| self.descend(secret, lanes, key, &mut ()))
        })
    }

    /// Finds where the path of a key ends if that is on the entry level or one of the next two, and no label is in between: so it
    /// is with nearly all random keys. The caller holds the lock.
    ///
    /// A writer needs less than half the instructions of `descend_from` here. Readers were no faster with this.
    #[inline(always)]
    fn descend_quickly(self, secret: &Secret, lanes: impl Lanes, key: &[u8]) -> Option<Stop> {
        let entry = self.entry();
        let behind = entry + QUICK_LEVELS;
        let symbols = Symbols::new(key, self.skip_bits());
        let is_usual = self.levels() >> behind >> 1 == 0;
        if !is_usual || behind > SHORT_NAME_SYMBOLS + 1 || behind > symbols.count() {
            return None;
        }
        let window = symbols.nine(0);
        let asked: [_; QUICK_LEVELS] = core::array::from_fn(|i| {
            let level = entry + i;
            let state = secret.state_of(self.short_name(window, level));
            let symbol = window << (SYMBOL_BITS * level as u32) >> (64 - SYMBOL_BITS);
            (Level::ask::<BOTH>(self, level, state), state, Symbol(symbol as u8))
        });
        for (here, state, symbol) in asked {
            let end = match here.read_quietly(lanes)? {
                Node::Regular(children) if children.has(symbol) => continue,
                Node::Regular(children) => End::NoChild(children),
                Node::Leaf(leaf) => End::Leaf(leaf),
                Node::Pair(pair) => End::Pair(pair),
                Node::Jump(_) | Node::Branch(_) => return None,
            };
            return Some(Stop { level: here.number as usize, state, end });
        }
        None
    }

    fn descend_from(
        self,
        level: usize,
        secret: &Secret,
        lanes: impl Lanes,
        key: &[u8],
        passes: &mut impl Passes,
    ) -> Result<Stop, Disturbed> {
        let mut descent = Descent::new(self, secret, key, level);
        if self.hinting() == Hinting::Byte {
            // Paths are long: what takes time is that so many lines are asked for.
            descent.run_through::<FIRST>(secret, lanes, passes)
        } else {
            descent.run_through::<BOTH>(secret, lanes, passes)
        }
    }

    /// Looks for a key from the root on, until no writer is in the way.
    #[cold]
    #[inline(never)]
    fn look_again(self, secret: &Secret, lanes: impl Lanes, key: &[u8], hash: u32) -> Look {
        let mut backoff = Backoff::new();
        loop {
            let mut descent = Descent::new(self, secret, key, 0);
            descent.ask_usual::<BOTH>(secret);
            let run = descent.run::<BOTH, CAREFUL>(secret, lanes, &mut (), usize::MAX);
            if let Ok(Some(stop)) = run {
                return stop.look(key, hash);
            }
            backoff.wait();
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
    const NONE: Self = Self { first: None, second: None, tag: 0, number: 0 };

    /// Asks for the lines of a state.
    #[inline(always)]
    fn ask<const LINES: bool>(trie: Trie<'g>, level: usize, state: State) -> Self {
        let home = trie.home(state);
        let (first, second) = (trie.bucket(home.first), trie.bucket(home.second));
        arch::prefetch(first);
        if LINES == BOTH {
            arch::prefetch(second);
        }
        let number = level as u32;
        Self { first: Some(first), second: Some(second), tag: home.tag, number }
    }

    /// Reads the node of this level if it is in its first bucket, in a quiet trie.
    #[inline(always)]
    fn read_first(&self, lanes: impl Lanes) -> Option<Node> {
        let bucket = self.first?;
        let slot = lanes.find(bucket, Head::first(self.tag))?;
        Some(bucket.node(slot))
    }

    /// Reads the node of this level from the bucket it is in, in a quiet trie.
    #[inline(always)]
    fn read_quietly(&self, lanes: impl Lanes) -> Option<Node> {
        let (first, second) = (self.first?, self.second?);
        let in_first = lanes.find(first, Head::first(self.tag));
        let in_second = lanes.find(second, Head::second(self.tag));
        let there = in_first.is_some();
        let slot = select_unpredictable(there, in_first, in_second)?;
        Some(select_unpredictable(there, first, second).node(slot))
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
    /// A descent from `level` on, which is the root's or one of short names; from the root if the key ends before that.
    #[inline(always)]
    fn new<'k>(trie: Trie<'g>, secret: &Secret, key: &'k [u8], level: usize) -> Descent<'g, 'k> {
        let symbols = Symbols::new(key, trie.skip_bits());
        let level = if level <= symbols.count() { level } else { 0 };
        let mut states = [State(0); RING];
        states[level % RING] = secret.state_of(trie.short_name(symbols.nine(0), level));
        Descent {
            trie,
            symbols,
            seen: trie.version().begin(),
            level,
            late: false,
            // Behind the last symbol there is END's level, and nothing.
            wanted: (trie.levels() >> level << level | 1 << level)
                & u64::MAX >> 62_usize.saturating_sub(symbols.count()),
            row: 0,
            last: level,
            known: level,
            states,
            asked: [Level::NONE; RING],
        }
    }

    /// Asks for the next levels that are usual.
    #[inline(always)]
    fn ask_usual<const LINES: bool>(&mut self, secret: &Secret) {
        let in_reach =
            u64::MAX.checked_shl((self.level + RING) as u32).map_or(u64::MAX, |out| !out);
        let Some(last) = (self.wanted & in_reach).checked_ilog2() else { return };
        self.learn(secret, last as usize);
        let (mut wanted, mut level) = (self.wanted & in_reach, self.last);
        let count = if LINES == BOTH { WIDTH } else { WIDTH_OF_ONE };
        for _ in 0..count {
            if wanted == 0 {
                break;
            }
            level = wanted.trailing_zeros() as usize;
            wanted &= wanted - 1;
            self.ask_known::<LINES>(level);
        }
        self.last = level;
        self.wanted &= u64::MAX.checked_shl(level as u32 + 1).unwrap_or(0);
    }

    /// Asks for a level that has a place in the ring.
    #[inline(always)]
    fn ask<const LINES: bool>(&mut self, secret: &Secret, level: usize) {
        self.learn(secret, level);
        self.ask_known::<LINES>(level);
        self.last = self.last.max(level);
    }

    /// Asks for a level whose state is known.
    #[inline(always)]
    fn ask_known<const LINES: bool>(&mut self, level: usize) {
        let state = self.states[level % RING];
        self.asked[level % RING] = Level::ask::<LINES>(self.trie, level, state);
    }

    /// Works out the states up to that of a level.
    #[inline(always)]
    fn learn(&mut self, secret: &Secret, level: usize) {
        let (trie, symbols) = (self.trie, self.symbols);
        let ended = symbols.count();
        while self.known < level.min(SHORT_NAME_SYMBOLS).min(ended) {
            self.known += 1;
            let name = trie.short_name(symbols.nine(0), self.known);
            self.states[self.known % RING] = secret.state_of(name);
        }
        if self.known >= level {
            return;
        }
        let (from, to, states) = (self.known, level.min(ended), &mut self.states);
        let mut last = states[from % RING];
        if from < to {
            let note = |level: usize, state| states[level % RING] = state;
            last = secret.step_along(last, &symbols, from, to, note);
        }
        if level > ended {
            self.states[level % RING] = secret.step_on(last, Symbol::END);
        }
        self.known = level;
    }

    /// Goes on to `level`. Returns whether its lines had been asked for before.
    #[inline(always)]
    fn go_to<const LINES: bool>(&mut self, secret: &Secret, level: usize) -> bool {
        self.level = level;
        let was_asked = self.asked[level % RING].number as usize == level;
        if !was_asked || level == self.last {
            self.ask_more::<LINES>(secret, was_asked);
        }
        was_asked
    }

    /// Asks for the level where the descent is, if it is not usual, and for what is behind it.
    #[inline(never)]
    fn ask_more<const LINES: bool>(&mut self, secret: &Secret, was_asked: bool) {
        let level = self.level;
        if !was_asked {
            let is_before = level < self.last;
            self.ask::<LINES>(secret, level);
            if is_before {
                // What comes behind has been asked for.
                return;
            }
        }
        self.wanted &= u64::MAX.checked_shl(level as u32 + 1).unwrap_or(0);
        if self.wanted != 0 {
            self.ask_usual::<LINES>(secret);
        } else if !was_asked && level <= self.symbols.count() {
            // Of a path that is longer than usual one knows only that this level is there. Most go on.
            self.ask::<LINES>(secret, level + 1);
        }
    }

    /// Asks for the lines of the first levels, of nodes in their first buckets only. One node in six costs a turn more, and
    /// all of them half the lines; the lines are what bounds a batch.
    #[inline(always)]
    pub(super) fn ask_first(&mut self, secret: &Secret) {
        self.ask_usual::<FIRST>(secret);
    }

    /// Goes on after [`ask_first`](Self::ask_first): reads `count` nodes at most, and asks for the
    /// next levels. `None` if there is more to read: call again when that may have come. With [`WIDTH`] it reads what has been
    /// asked for before.
    #[inline(always)]
    pub(super) fn look_on(
        &mut self,
        secret: &Secret,
        lanes: impl Lanes,
        hash: u32,
        count: usize,
    ) -> Option<Look> {
        let (trie, key) = (self.trie, self.symbols.key());
        match self.run::<FIRST, QUIET>(secret, lanes, &mut (), count) {
            Ok(None) => return None,
            Ok(Some(stop)) if self.was_quiet() => return Some(stop.look(key, hash)),
            _ => {}
        }
        Some(trie.look_again(secret, lanes, key, hash))
    }

    /// Whether nothing was changed in the trie since the start.
    #[inline(always)]
    fn was_quiet(&self) -> bool {
        !self.seen.is_changing() && self.trie.version().end(self.seen).is_some()
    }

    /// Goes on to `level`, and from there along a row of jumps that are as long as can be, to the first node that is not one or leads
    /// elsewhere. Where they are follows from the key: as many as [`ROW`] are in flight.
    #[inline(never)]
    fn follow_row<const LINES: bool>(
        &mut self,
        secret: &Secret,
        lanes: impl Lanes,
        passes: &mut impl Passes,
        level: usize,
    ) {
        self.learn(secret, level);
        let (trie, symbols) = (self.trie, self.symbols);
        let (mut next, mut state) = (level, self.states[level % RING]);
        let mut row = [(Level::NONE, state); ROW];
        let (mut here, mut own) = row[0];
        for i in 0.. {
            // All of those behind the first, then one for each that was read.
            while next <= symbols.count() && next < level + (i + ROW) * LABEL_SYMBOLS {
                let asked = Level::ask::<LINES>(trie, next, state);
                row[(next - level) / LABEL_SYMBOLS % ROW] = (asked, state);
                let behind = next + LABEL_SYMBOLS;
                if behind <= symbols.count() {
                    state = secret.step_along(state, &symbols, next, behind, |_, _| ());
                }
                next = behind;
            }
            (here, own) = row[i % ROW];
            let number = here.number as usize;
            let first = if LINES == FIRST { here.read_first(lanes) } else { None };
            let Some(Node::Jump(label)) = first.or_else(|| here.read_quietly(lanes)) else { break };
            let matched = label.matched(symbols.window(number), symbols.left(number));
            if matched < LABEL_SYMBOLS {
                break;
            }
            // The key has the symbols of this label, so where it leads to was asked for.
            passes.jump(number, own, label);
        }
        let level = here.number as usize;
        (self.level, self.known) = (level, level);
        (self.states[level % RING], self.asked[level % RING]) = (own, here);
        self.last = self.last.max(level);
        self.wanted &= u64::MAX.checked_shl(level as u32 + 1).unwrap_or(0);
    }

    /// Asks for the first levels and reads nodes until the path ends, in a quiet trie.
    #[inline(always)]
    fn run_through<const LINES: bool>(
        &mut self,
        secret: &Secret,
        lanes: impl Lanes,
        passes: &mut impl Passes,
    ) -> Result<Stop, Disturbed> {
        self.ask_usual::<LINES>(secret);
        loop {
            let run = self.run::<LINES, QUIET>(secret, lanes, passes, usize::MAX)?;
            if let Some(stop) = run {
                return Ok(stop);
            }
        }
    }

    /// Reads up to `count` nodes, until the path ends.
    #[inline(always)]
    fn run<const LINES: bool, const TRUST: bool>(
        &mut self,
        secret: &Secret,
        lanes: impl Lanes,
        passes: &mut impl Passes,
        count: usize,
    ) -> Result<Option<Stop>, Disturbed> {
        let trie = self.trie;
        // The parent, and what its bucket's version was when it was read.
        let mut parent: Option<(&Bucket, Version)> = None;
        for _ in 0..count {
            let (level, symbols) = (self.level, &self.symbols);
            let (here, state) = (&self.asked[level % RING], self.states[level % RING]);
            let (node, place) = if TRUST == CAREFUL {
                let read = here.read(lanes);
                (read.as_ref().map(|read| read.node), read.map(|read| (read.bucket, read.version)))
            } else if LINES == FIRST && !self.late {
                let node = here.read_first(lanes);
                if node.is_none() {
                    if let Some(second) = here.second {
                        arch::prefetch(second);
                    }
                    self.late = true;
                    return Ok(None);
                }
                (node, None)
            } else {
                (here.read_quietly(lanes), None)
            };
            self.late = false;
            let Some(node) = node else {
                // Only the root may be missing, and only if it is missing from both buckets at one moment.
                let is_empty = level == 0 && trie.is_free(lanes, state);
                let stop = Stop { level, state, end: End::Empty };
                return if is_empty { Ok(Some(stop)) } else { Err(Disturbed) };
            };
            if parent.is_some_and(|(parent, version)| !Bucket::is_still(parent, version)) {
                return Err(Disturbed);
            }
            let row = core::mem::take(&mut self.row);
            let end = match node {
                Node::Regular(children) => {
                    if children.has(symbols.symbol(level)) {
                        passes.regular(level, state, children);
                        Err(self.go_to::<LINES>(secret, level + 1))
                    } else {
                        Ok(End::NoChild(children))
                    }
                }
                Node::Jump(label) => {
                    let matched = label.matched(symbols.window(level), symbols.left(level));
                    if matched == label.len() {
                        passes.jump(level, state, label);
                        self.row = if matched == LABEL_SYMBOLS { row + 1 } else { 0 };
                        if TRUST == QUIET && self.row == ROW_BEGINS {
                            self.follow_row::<LINES>(secret, lanes, passes, level + matched);
                            Err(true)
                        } else {
                            Err(self.go_to::<LINES>(secret, level + matched))
                        }
                    } else {
                        Ok(End::Label(label, matched))
                    }
                }
                Node::Branch(branch) => {
                    let label = branch.label();
                    let matched = label.matched(symbols.nine(level), symbols.left(level));
                    if matched == label.len() && branch.has(symbols.symbol(level + matched)) {
                        passes.branch(level, state, branch);
                        Err(self.go_to::<LINES>(secret, level + matched + 1))
                    } else {
                        Ok(End::Branch(branch, matched))
                    }
                }
                Node::Leaf(leaf) => Ok(End::Leaf(leaf)),
                Node::Pair(pair) => Ok(End::Pair(pair)),
            };
            match end {
                Ok(end) => {
                    let is_whole = place.is_none_or(|(bucket, version)| bucket.is_still(version));
                    let stop = Stop { level, state, end };
                    return if is_whole { Ok(Some(stop)) } else { Err(Disturbed) };
                }
                // The line is on its way: the next search's turn.
                Err(false) if LINES == FIRST => return Ok(None),
                Err(_) => parent = place,
            }
        }
        Ok(None)
    }
}

impl Stop {
    #[inline(always)]
    fn look(self, key: &[u8], hash: u32) -> Look {
        match self.end {
            End::Leaf(leaf) => Look::at(leaf, key, hash),
            End::Pair(pair) => Look::at_pair(pair, hash),
            _ => Look::Absent,
        }
    }
}

impl Look {
    /// What a leaf says of the key whose path ends there.
    #[inline(always)]
    pub(super) fn at(leaf: Leaf, key: &[u8], wanted: u32) -> Self {
        match leaf {
            Leaf::Record { unit, hash } if hash == wanted => Self::Record(unit),
            Leaf::Short { key: found, value } if *key == found.to_be_bytes() => Self::Short(value),
            _ => Self::Absent,
        }
    }

    /// What two leaves say of a key whose path ends there.
    #[inline(always)]
    pub(super) fn at_pair(pair: Pair, wanted: u32) -> Self {
        pair.leaf(wanted).and_then(Leaf::unit).map_or(Self::Absent, Self::Record)
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
#[path = "descend_tests.rs"]
mod tests;
