//! The first and the last entry of the map, found by the nodes above them alone: a walk would make lists of what is beside these.
//!
//! A line for each node of the path, mostly, one behind the other. Who asks for an end again and again has them in the cache.
//!
//! What was read counts if the trie's version was even and is still the same (T9), and the trie lives (T1): its borders never
//! change, so it had the map's end at that moment. Else, and in a trie without entries, a walk finds the end.
//!
//! PAPER: not there.

use super::descend::QUIET;
use super::layout::{Head, Leaf, Node};
use super::raw::Memory;
use super::walk::{Direction, Ground};
use super::{CuckooTrie, Pinned};
use crate::arch::{Baseline, Lanes};

impl<V> Pinned<'_, V> {
    /// The first entry of the map, or its last; `None` if it takes a walk to find that.
    #[inline]
    pub(super) fn end(&self, direction: Direction) -> Option<Leaf> {
        let CuckooTrie { memory, secret, avx512, .. } = self.map;
        let trie = self.map.end_trie(direction, &self.guard)?;
        let ground = Ground { memory, secret, trie, reach_bytes: Memory::reach_of_many::<V>(0) };
        match avx512 {
            Some(kernel) => ground.end(*kernel, direction),
            None => ground.end(Baseline, direction),
        }
    }
}

impl Ground<'_> {
    /// The trie's first entry in a direction; `None` if there is none, or a writer was in the way.
    #[inline(always)]
    fn end(&self, lanes: impl Lanes, direction: Direction) -> Option<Leaf> {
        let version = self.trie.version();
        let seen = Some(version.begin()).filter(|seen| !seen.is_changing())?;
        let mut state = self.root();
        loop {
            let home = self.trie.home(state);
            let node = self
                .read::<QUIET>(lanes, home.first, Head::first(home.tag))
                .or_else(|| self.read::<QUIET>(lanes, home.second, Head::second(home.tag)))?
                .node;
            // Looked at with each node: what a writer is at work on may lead anywhere.
            if version.end(seen)?.is_dead() {
                return None;
            }
            let mut children = match node {
                Node::Leaf(leaf) => return Some(leaf),
                Node::Pair(pair) => return Some(direction.order(pair.leaves())[0]),
                Node::Jump(label) => {
                    state = self.secret.step_all(state, label);
                    continue;
                }
                Node::Branch(branch) => {
                    state = self.secret.step_all(state, branch.label());
                    branch.children()
                }
                Node::Regular(children) => children,
            };
            state = self.secret.step(state, direction.take(&mut children)?);
        }
    }
}
