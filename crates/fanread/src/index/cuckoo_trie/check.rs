//! Verifies the invariants of a trie at rest; `docs/design/cuckoo-trie.md` says what they are.

#![allow(clippy::missing_errors_doc, reason = "each error is the first invariant found broken")]

use core::cmp::Ordering as Order;
use std::collections::HashMap;

use super::Pinned;
use super::away::Away;
use super::label::{Branch, Symbol};
use super::layout::{Head, LABEL_SYMBOLS, Leaf, Node, Pair, Place, SHORT_BYTES};
use super::raw::{Memory, Trie};
use super::search::leaf_hash;
use super::state::{Secret, State, Symbols};
use crate::api::Broken;
use crate::api::Key;
use crate::mem::word;

/// Bytes of prefixes up to which `check` verifies the table too: about a second.
const CHECK_TABLE_WORK: usize = 100 << 20;

impl<V> Pinned<'_, V> {
    /// Verifies the structure of the map, for tests. No writer may be active.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        let map = self.map;
        let mut anchors = Vec::new();
        let mut entries = 0;
        let mut before: Option<Trie<'_>> = None;
        let mut next = map.first_trie();
        let hash = |key: &[u8]| leaf_hash(map.table.seed().hash(key));
        while let Some(trie) = next {
            let number = anchors.len();
            let borders = trie.borders();
            let low = map.memory.border(borders.low);
            if trie.version().begin().is_dead() {
                return Err(Broken::new("T1", format!("trie {number} is linked and dead")));
            }
            if trie.prev() != before.map(Trie::name) {
                return Err(Broken::new("T1", format!("trie {number} does not link back")));
            }
            let expected = match before {
                None => &[][..],
                Some(before) => map.memory.border(before.borders().high),
            };
            if low != expected || before.is_some_and(|before| !before.borders().bounded) {
                let what = format!("trie {number} begins at {low:?}, not {expected:?}");
                return Err(Broken::new("T1", what));
            }
            if borders.bounded != trie.next().is_some() {
                return Err(Broken::new("T1", format!("trie {number} has a wrong upper border")));
            }
            entries += check_trie::<V>(trie, &map.secret, &map.memory, hash)?.len();
            anchors.push((low, trie.name()));
            before = Some(trie);
            next = trie.next().map(|next| map.memory.trie(next));
        }
        if entries != self.len() {
            return Err(Broken::new("count", format!("{entries} entries, {} counted", self.len())));
        }
        // Verifying the table compares every stored prefix with the anchors, which for a few anchors of 64 KB is
        // minutes of work. The table's own tests have such anchors.
        let work: usize = anchors.iter().map(|(anchor, _)| anchor.len() * anchor.len() / 8).sum();
        if work > CHECK_TABLE_WORK {
            return Ok(());
        }
        let writer = map.structure.lock();
        map.table.check(&writer, &anchors).map_err(|error| Broken::new("P", error.to_string()))
    }
}

/// A node that a walk has still to visit.
struct Visit {
    state: State,
    /// How much of the path before it is its parent's name, and what comes behind that.
    level: usize,
    behind: Vec<Symbol>,
    /// Whether a jump leads to it.
    is_below_jump: bool,
}

/// Verifies one trie, and returns its leaves in the order of their keys. `hash` gives what a leaf holds of a key's hash.
///
/// The caller holds the trie's lock, or nobody else uses the map.
///
/// # Errors
///
/// The first invariant found broken.
pub(super) fn check_trie<V>(
    trie: Trie<'_>,
    secret: &Secret,
    memory: &Memory,
    hash: impl Fn(&[u8]) -> u32,
) -> Result<Vec<Leaf>, Broken> {
    check_header(trie, memory)?;
    let mut nodes = nodes_of(trie)?;
    let weight: usize = nodes.values().map(|node| node.weight() as usize).sum();
    if weight != trie.weight() {
        return Err(Broken::new("count", format!("weight {weight}, {} counted", trie.weight())));
    }
    let mut leaves = Vec::new();
    let mut hinted = Vec::new();
    let mut last: Option<Key<'_>> = None;
    let mut path: Vec<Symbol> = Vec::new();
    let root = Visit {
        state: secret.root(trie.round()),
        level: 0,
        behind: Vec::new(),
        is_below_jump: false,
    };
    let mut visits = if nodes.is_empty() { Vec::new() } else { vec![root] };
    while let Some(Visit { state, level, behind, is_below_jump }) = visits.pop() {
        path.truncate(level);
        path.extend(behind);
        let at = |what: &str| format!("{what}, at level {} below {:?}", path.len(), path.last());
        let Some(node) = nodes.remove(&known(trie, state)) else {
            return Err(Broken::new("T4", at("a child is missing")));
        };
        let level = path.len();
        check_label(trie, level, node).map_err(|(broken, what)| Broken::new(broken, at(what)))?;
        match node {
            Node::Leaf(_) | Node::Pair(_) => {
                if level < trie.leaf_level() && !trie.is_uneven() {
                    return Err(Broken::new("T11", at("a leaf above the leaf level")));
                }
                if is_below_jump {
                    return Err(Broken::new("T5", at("a leaf below a jump")));
                }
                if let Node::Pair(pair) = node
                    && let [first, second] = pair.leaves()
                    && Pair::of(first, second).is_none()
                {
                    return Err(Broken::new("T5", at("a pair of one hash")));
                }
                for leaf in node.leaves() {
                    let key = memory.key::<V>(leaf);
                    check_leaf::<V>(trie, memory, &hash, &path, leaf)
                        .map_err(|(broken, what)| Broken::new(broken, at(what)))?;
                    if let Leaf::Record { hash, .. } = leaf {
                        hinted.push((hash, level));
                    }
                    if last.is_some_and(|last| last >= key) {
                        return Err(Broken::new("T4", at("a key out of order")));
                    }
                    last = Some(key);
                    leaves.push(leaf);
                }
            }
            Node::Jump(label) => {
                let behind = label.symbols().collect();
                let state = secret.step_all(state, label);
                visits.push(Visit { state, level, behind, is_below_jump: true });
            }
            Node::Branch(branch) => {
                let label = branch.label();
                let above = secret.step_all(state, label);
                visits.extend(branch.children().into_iter().rev().map(|symbol| Visit {
                    state: secret.step(above, symbol),
                    level,
                    behind: label.symbols().chain([symbol]).collect(),
                    is_below_jump: false,
                }));
            }
            Node::Regular(children) => {
                // One is left where a wide node had no room further up.
                if children.len() < 1 {
                    return Err(Broken::new("T4", at("a node of one child")));
                }
                visits.extend(children.into_iter().rev().map(|symbol| Visit {
                    state: secret.step(state, symbol),
                    level,
                    behind: vec![symbol],
                    is_below_jump: false,
                }));
            }
        }
    }
    if !nodes.is_empty() {
        return Err(Broken::new("T4", format!("{} nodes that no path leads to", nodes.len())));
    }
    if !trie.are_hints_of(&hinted) {
        return Err(Broken::new("T10", "hints that are not those of the leaves"));
    }
    if leaves.len() != trie.keys() {
        return Err(Broken::new(
            "count",
            format!("{} keys, {} counted", leaves.len(), trie.keys()),
        ));
    }
    Ok(leaves)
}

/// An invariant, and what is wrong with it.
type Fault = (&'static str, &'static str);

/// Verifies a leaf under a name.
fn check_leaf<V>(
    trie: Trie<'_>,
    memory: &Memory,
    hash: impl Fn(&[u8]) -> u32,
    path: &[Symbol],
    leaf: Leaf,
) -> Result<(), Fault> {
    let key = memory.key::<V>(leaf);
    if trie.place_of(&key, memory) != Order::Equal {
        return Err(("T1", "a key from beyond the borders"));
    }
    if !starts_with(&Symbols::new(&key, trie.skip_bits()), path) {
        return Err(("T5", "a key of another name"));
    }
    let is_right = match leaf {
        Leaf::Record { hash: found, .. } => {
            hash(&key) == found && (!word::is_inline::<V>() || key.len() != SHORT_BYTES)
        }
        Leaf::Short { .. } => key.len() == SHORT_BYTES,
    };
    if is_right { Ok(()) } else { Err(("T5", "a leaf that is not its key's")) }
}

/// Verifies the label of a node, if it has one.
fn check_label(trie: Trie<'_>, level: usize, node: Node) -> Result<(), Fault> {
    // The levels behind its own on which there is no node.
    let passed = match node {
        Node::Jump(label) if (1..=LABEL_SYMBOLS).contains(&label.len()) => {
            level + 1..level + label.len()
        }
        Node::Jump(_) => return Err(("T4", "a label of no length that there is")),
        Node::Branch(branch) if Branch::new(branch.label(), branch.children()) == Some(branch) => {
            level + 1..level + branch.len() + 1
        }
        Node::Branch(_) => return Err(("T4", "a branch that is not as one is made")),
        _ => return Ok(()),
    };
    if passed.contains(&trie.leaf_level()) && !trie.is_uneven() {
        return Err(("T11", "a label that passes over the leaf level"));
    }
    Ok(())
}

/// What can be seen without the nodes.
fn check_header(trie: Trie<'_>, memory: &Memory) -> Result<(), Broken> {
    let borders = trie.borders();
    let (low, high) = (memory.border(borders.low), memory.border(borders.high));
    if borders.bounded && low >= high {
        return Err(Broken::new("T1", format!("borders {low:?} and {high:?}")));
    }
    let version = trie.version().begin();
    if version.is_dead() {
        return Err(Broken::new("T1", "the trie is dead"));
    }
    if version.is_changing() {
        return Err(Broken::new("T9", "a change that nobody makes has not ended"));
    }
    Ok(())
}

/// All nodes by what the table knows of their states.
fn nodes_of(trie: Trie<'_>) -> Result<HashMap<u64, Node>, Broken> {
    let mut nodes = HashMap::new();
    let mut away = vec![0; trie.buckets() as usize];
    for bucket in 0..trie.buckets() {
        if !trie.bucket(bucket).is_in_order() {
            return Err(Broken::new("T8", format!("bucket {bucket}: {:?}", trie.bucket(bucket))));
        }
        for (slot, head) in trie.bucket(bucket).nodes() {
            let (place, at) = (Place { bucket, slot }, || format!("bucket {bucket}, slot {slot}"));
            let state = trie.state(bucket, head);
            let home = trie.home(state);
            let (expected, name) = if head.is_second() {
                (home.second, Head::second(home.tag))
            } else {
                (home.first, Head::first(home.tag))
            };
            if bucket != expected || head.name() != name {
                return Err(Broken::new("T2", format!("{}: a node in a wrong bucket", at())));
            }
            if head.is_second() {
                away[home.first as usize] += 1;
                if !trie.bucket(home.first).away().may_be(home.tag) {
                    return Err(Broken::new("T12", format!("{}: away without a mark", at())));
                }
            }
            if nodes.insert(known(trie, state), trie.node(place)).is_some() {
                return Err(Broken::new("T3", format!("{}: a state of two nodes", at())));
            }
        }
    }
    for (bucket, away) in (0..).zip(away) {
        let noted = trie.bucket(bucket).away();
        let is_right = noted.count().is_none_or(|count| count == away);
        if !is_right || away == 0 && noted.count() == Some(0) && noted != Away::default() {
            return Err(Broken::new("T12", format!("bucket {bucket}: {away} away, {noted:?}")));
        }
    }
    Ok(nodes)
}

/// What the table knows of a state.
fn known(trie: Trie<'_>, state: State) -> u64 {
    let shift = trie.header().shift;
    state.0 >> shift
}

/// Whether a key's path begins with these symbols.
fn starts_with(symbols: &Symbols<'_>, path: &[Symbol]) -> bool {
    // END is last, and once.
    path.len() <= symbols.count() + 1
        && path.iter().enumerate().all(|(i, symbol)| symbols.symbol(i) == *symbol)
}
