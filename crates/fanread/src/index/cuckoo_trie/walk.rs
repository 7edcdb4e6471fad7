//! Walks through a trie in key order.

use super::layout::Node;
use super::raw::Trie;
use super::state::Secret;
use crate::arch::Baseline;

/// Calls `each` with record and hash of every leaf, in key order. The caller holds the trie's lock.
///
/// The table is small, and nodes are asked for as soon as they are known.
pub(super) fn for_each_leaf(secret: &Secret, trie: Trie<'_>, mut each: impl FnMut(u64, u32)) {
    let mut ahead = vec![trie.root()];
    while let Some(state) = ahead.pop() {
        let at = trie.locate(Baseline, trie.home(state));
        debug_assert!(at.is_some() || trie.keys() == 0, "T4");
        let Some(at) = at else { continue };
        match trie.node(at) {
            Node::Leaf { unit, hash } => each(unit, hash),
            Node::Jump(label) => ahead.push(secret.step_all(state, label)),
            Node::Regular(children) => {
                for symbol in children.into_iter().rev() {
                    let child = secret.step(state, symbol);
                    trie.prefetch_bucket(trie.home(child).first);
                    ahead.push(child);
                }
            }
        }
    }
}
