//! Leaves found without their paths: most leaves of a trie are on one or two levels.
//!
//! Random keys fork where there are about as many names as keys, so their leaves are on the level of short names before or
//! behind that. A trie knows the upper one of the two ([`Trie::leaf_level`]). A search asks for the key's nodes on both levels
//! and for nothing above: a state of a short name belongs to that name alone (`state.rs`), so a leaf that is found under it
//! is the one where the key's path ends. If there is neither a leaf nor a node that has no child for the key, the search
//! goes down from the entry level (`descend.rs`).
//!
//! ```text
//! level          1      2      3      4      5
//! node           R      R      R      L                  R regular, L leaf
//! asked for                    xxxxxx xxxxxx             leaf level 3
//! read                         ------>
//! ```
//!
//! A trie knows whether it is *uneven*: whether a leaf is above its leaf level, or a label passes over it (T11). Random keys have
//! such leaves only where no more than some eight share a name on the level above. In an even trie a key that has no node there
//! is not in the trie: its path ends above, and not at a leaf.
//!
//! Only quiet tries are searched so: what a writer has placed and not yet published is found under its state.
//!
//! PAPER: not there. Its search reads all nodes of a path.

use core::hint::select_unpredictable;

use super::bucket::{Bucket, Find};
use super::descend::{BOTH, FIRST, Look};
use super::header::UNEVEN;
use super::label::Symbol;
use super::layout::{Head, Node, SYMBOL_BITS};
use super::raw::Trie;
use super::state::{Secret, Symbols};
use crate::arch::{self, Lanes};
use crate::sync::version::Seen;

/// The nodes of a key on the two levels where most leaves are, which were asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess<'g> {
    upper: Spot<'g>,
    lower: Spot<'g>,
    /// The trie's version at the start.
    seen: Seen,
}

/// The buckets where the node of a short name is, if there is one.
#[derive(Clone, Copy, Debug)]
struct Spot<'g> {
    first: &'g Bucket,
    second: &'g Bucket,
    tag: u32,
    /// The key's symbol that leads on from here.
    symbol: Symbol,
}

/// What is at a short name.
enum At {
    /// The end of the key's path.
    End(Look),
    /// A node of the path, which goes on.
    Passed,
    /// No node, where one looked.
    Nothing,
}

impl<'g> Trie<'g> {
    /// Finds the leaf that is the key's if any is; `None` if it takes a descent to know.
    #[inline(always)]
    pub(super) fn look_at_leaf_level(
        self,
        secret: &Secret,
        lanes: impl Lanes,
        key: &[u8],
        hash: u32,
    ) -> Option<Look> {
        self.guess::<BOTH>(secret, key)?.look::<BOTH>(self, lanes, key, hash)
    }

    /// Makes one of many searches that take turns: asks for first buckets. `None` if leaves are on other levels.
    #[inline(always)]
    pub(super) fn guess_first(self, secret: &Secret, key: &[u8]) -> Option<Guess<'g>> {
        self.guess::<FIRST>(secret, key)
    }

    #[inline(always)]
    fn guess<const LINES: bool>(self, secret: &Secret, key: &[u8]) -> Option<Guess<'g>> {
        let level = self.leaf_level();
        let symbols = Symbols::new(key, self.skip_bits());
        // Both nodes are before the key's last symbol: END leads on from neither.
        if level == 0 || level + 1 >= symbols.count() {
            return None;
        }
        let seen = self.version().begin();
        let window = symbols.nine(0);
        let upper = Spot::ask::<LINES>(self, secret, window, level);
        let lower = Spot::ask::<LINES>(self, secret, window, level + 1);
        Some(Guess { upper, lower, seen })
    }
}

impl Trie<'_> {
    /// Whether a leaf is above the leaf level, or a label passes over it.
    #[inline(always)]
    pub(super) fn is_uneven(self) -> bool {
        // It is trusted only if the trie has not changed (T9).
        self.has_mark(UNEVEN)
    }

    /// Notes that there will be a jump of so many symbols on a level. The caller holds the lock and has announced a change, or has
    /// not published the trie.
    #[inline]
    pub(super) fn note_jump(self, level: usize, symbols: usize) {
        if level + symbols > self.leaf_level() {
            self.note_leaf(level);
        }
    }

    /// The same of a node, if it has a label: behind that of a branch there is no node either.
    #[inline]
    pub(super) fn note_label(self, level: usize, node: Node) {
        match node {
            Node::Jump(label) => self.note_jump(level, label.len()),
            Node::Branch(branch) => self.note_jump(level, branch.len() + 1),
            _ => {}
        }
    }

    /// Notes that there will be a leaf on a level. The caller is one of those who may call `note_jump`.
    #[inline]
    pub(super) fn note_leaf(self, level: usize) {
        if level < self.leaf_level() {
            self.set_mark(UNEVEN, true);
        }
    }

    /// Takes over what is known of a trie with the same nodes. The caller holds its lock, and has not published
    /// this one.
    pub(super) fn copy_uneven(self, old: Trie<'_>) {
        debug_assert!(self.leaf_level() == old.leaf_level() || self.leaf_level() == 0);
        if old.is_uneven() {
            self.note_leaf(0);
        }
    }
}

impl Guess<'_> {
    /// Reads the first buckets, which were asked for before; if that does not help, asks for the second ones.
    #[inline(always)]
    pub(super) fn look_first(
        &self,
        trie: Trie<'_>,
        lanes: impl Lanes,
        key: &[u8],
        hash: u32,
    ) -> Option<Look> {
        let look = self.look::<FIRST>(trie, lanes, key, hash);
        if look.is_none() {
            arch::prefetch(self.upper.second);
            arch::prefetch(self.lower.second);
        }
        look
    }

    /// Reads all buckets, after [`look_first`](Self::look_first).
    #[inline(always)]
    pub(super) fn look_second(
        &self,
        trie: Trie<'_>,
        lanes: impl Lanes,
        key: &[u8],
        hash: u32,
    ) -> Option<Look> {
        self.look::<BOTH>(trie, lanes, key, hash)
    }

    #[inline(always)]
    fn look<const LINES: bool>(
        &self,
        trie: Trie<'_>,
        lanes: impl Lanes,
        key: &[u8],
        hash: u32,
    ) -> Option<Look> {
        let look = match self.upper.look::<LINES>(lanes, key, hash) {
            At::End(look) => look,
            // There could be one behind a label, but seldom is.
            At::Nothing if LINES == BOTH => return None,
            At::Nothing | At::Passed => match self.lower.look::<LINES>(lanes, key, hash) {
                At::End(look) => look,
                At::Nothing | At::Passed => return None,
            },
        };
        let was_quiet = !self.seen.is_changing() && trie.version().end(self.seen).is_some();
        was_quiet.then_some(look)
    }
}

impl<'g> Spot<'g> {
    /// Asks for the lines of the first `level` symbols of a window.
    #[inline(always)]
    fn ask<const LINES: bool>(trie: Trie<'g>, secret: &Secret, window: u64, level: usize) -> Self {
        let home = trie.home(secret.state_of(trie.short_name(window, level)));
        let (first, second) = (trie.bucket(home.first), trie.bucket(home.second));
        arch::prefetch(first);
        if LINES == BOTH {
            arch::prefetch(second);
        }
        let symbol = window << (SYMBOL_BITS * level as u32) >> (u64::BITS - SYMBOL_BITS);
        Self { first, second, tag: home.tag, symbol: Symbol(symbol as u8) }
    }

    /// Reads the node, in a quiet trie.
    #[inline(always)]
    fn look<const LINES: bool>(&self, lanes: impl Lanes, key: &[u8], hash: u32) -> At {
        let mut bucket = self.first;
        let mut slot = lanes.find(bucket, Head::first(self.tag));
        if LINES == BOTH {
            // Without a branch, as in a descent.
            let there = slot.is_some();
            let in_second = lanes.find(self.second, Head::second(self.tag));
            slot = select_unpredictable(there, slot, in_second);
            bucket = select_unpredictable(there, bucket, self.second);
        }
        let Some(slot) = slot else { return At::Nothing };
        match bucket.node(slot) {
            Node::Leaf(leaf) => At::End(Look::at(leaf, key, hash)),
            Node::Pair(pair) => At::End(Look::at_pair(pair, hash)),
            Node::Regular(children) if !children.has(self.symbol) => At::End(Look::Absent),
            Node::Regular(_) | Node::Jump(_) | Node::Branch(_) => At::Passed,
        }
    }
}
