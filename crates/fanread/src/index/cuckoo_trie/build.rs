//! Building tries: from an ordered run of records, or from another trie's table.
//!
//! Tries are never reshaped, only replaced. A split, a merge, a new root, and a map made of sorted keys build from
//! records: the keys of neighbours tell what nodes there are, and one pass from the first key to the last places each
//! node when the last key below it has passed. A table that grows or shrinks is copied: names and states stay, and no
//! key is read.
//!
//! ```text
//! keys      a b   a c d   a c f g   a c f h      shared    1   2   3     symbols that neighbours share
//! leaf      2     3       3, a pair                                      one symbol beyond what is shared with either neighbour
//! nodes     2 {d, f}, branch a {b, c} at 0                               where a leaf's path bends, and what lies between bends
//! ```
//!
//! Two keys that share more with each other than with their neighbours are a pair, if they can be one: the bend between them is none.
//!
//! Nothing here is seen by others before the caller links it. What fails leaves nothing behind.
//!
//! # Cost
//!
//! A build reads two lines of each record, prefetched, and steps one state for each edge of the trie. A copy reads the
//! old table in order, and writes the new one in order but for nodes in the second bucket of their state.

#![allow(
    clippy::missing_errors_doc,
    reason = "inside, errors are that a node has no room, or that there is no memory"
)]

use core::ops::Range;

use super::bucket::Find;
use super::draft::Draft;
use super::free::FreeLines;
use super::label::{Branch, Children, Symbol};
use super::layout::{
    EXACT_BUCKETS, Form, HINTED_LINES, Head, Hinting, Home, INNER_WEIGHT, Kind, LABEL_SYMBOLS,
    Leaf, NoRoom, Node, Pair, Place, STATE_BITS, SYMBOL_BITS, TAG_BITS, larger, lines_for,
};
use super::place::{place_at, place_other};
use super::raw::{Memory, Shape, Trie};
use super::state::{SHORT_NAME_SYMBOLS, Secret, State, Symbols};
use crate::api::Key;
use crate::arch::{self, Baseline, Lanes};
use crate::mem::{AllocError, make_room};

/// How many records ahead of the one that is read are asked for. Fewer leave memory idle; more are not in L1 any more
/// when they are read, if keys are long.
const AHEAD: usize = 16;

/// What two keys are said to share, in bits, if one of them is a prefix of the other, beyond its end: so much that
/// whole symbols are left if the last symbol, filled up with zeros, is shared too.
const PADDING_BITS: u32 = SYMBOL_BITS - 1;

/// Why a trie was not built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BuildError {
    /// [`NoRoom::Full`]: it would be larger than the largest table. [`NoRoom::Collision`]: two nodes have one state
    /// under this root.
    NoRoom(NoRoom),
    /// Memory could not be had.
    Memory(AllocError),
}

impl From<AllocError> for BuildError {
    fn from(error: AllocError) -> Self {
        Self::Memory(error)
    }
}

impl From<NoRoom> for BuildError {
    fn from(error: NoRoom) -> Self {
        Self::NoRoom(error)
    }
}

/// Where a new trie lies, and under which root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    /// Record and bytes of the lower border.
    pub(super) low: (u64, &'a [u8]),
    /// Record and bytes of the upper border, if there is one.
    pub(super) high: Option<(u64, &'a [u8])>,
    pub(super) round: u32,
}

impl<'a> Plan<'a> {
    /// How many bits all keys between the borders share, in whole symbols, so that symbols are the same in all tries. Every
    /// one of the keys has those bits: it is not shorter.
    pub(super) fn skip_bits(&self) -> u32 {
        let shared = self.high.map_or(0, |(_, high)| {
            shared_bits(self.low.1, high, 0).min(8 * self.low.1.len() as u32)
        });
        shared / SYMBOL_BITS * SYMBOL_BITS
    }

    /// What a trie is to be that has a table of so many lines.
    pub(super) fn shape(&self, lines: u32, levels: Levels) -> Shape<'a> {
        let hinting = if lines < HINTED_LINES { Hinting::None } else { levels.hinting };
        let buckets = lines - hinting.lines();
        Shape {
            buckets,
            skip_bits: self.skip_bits(),
            round: self.round,
            levels: levels.usual,
            hinting,
            entry: if buckets < EXACT_BUCKETS { 0 } else { levels.entry },
            leaf_level: if buckets < EXACT_BUCKETS { 0 } else { levels.leaves },
            low: self.low,
            high: self.high,
        }
    }
}

/// How many bits `a` and `b` share, which share `known` bytes. If one of them is a prefix of the other, zeros behind its
/// end count, up to [`PADDING_BITS`].
#[inline]
fn shared_bits(a: &[u8], b: &[u8], known: usize) -> u32 {
    let known = known.min(a.len()).min(b.len());
    let bytes = known + arch::common_prefix(&a[known..], &b[known..]);
    let behind = |key: &[u8]| key.get(bytes).copied().unwrap_or(0);
    let same = (behind(a) ^ behind(b)).leading_zeros();
    let most = if bytes == a.len().min(b.len()) { PADDING_BITS } else { same };
    8 * bytes as u32 + same.min(most)
}

/// Entries in key order, and what their keys share.
#[derive(Default, Debug)]
pub(super) struct Run {
    entries: Vec<Leaf>,
    /// Of each entry but the last, in bits: what its key shares with the next one's.
    shared: Vec<u32>,
    /// The lines of the smallest table that is wanted.
    at_least: u32,
}

impl Run {
    /// Makes a run of nothing.
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), shared: Vec::new(), at_least: 1 }
    }

    /// Asks for tables of so many lines at least, for keys that are to come.
    pub(super) fn want_lines(&mut self, lines: u32) {
        self.at_least = lines;
    }

    /// Takes out the last entry, whose trie will never be built.
    pub(super) fn pop(&mut self) -> Option<Leaf> {
        self.shared.clear();
        self.entries.pop()
    }

    /// Takes out the first `count` entries, whose trie has been built.
    pub(super) fn forget(&mut self, count: usize) {
        self.entries.drain(..count);
        self.shared.drain(..count.min(self.shared.len()));
    }

    /// Adds an entry, whose key is above all others'.
    #[inline]
    pub(super) fn push(&mut self, entry: Leaf) {
        self.entries.push(entry);
    }

    /// Adds all entries of a trie, whose keys are above all others'. The caller holds the trie's lock.
    pub(super) fn push_trie(&mut self, secret: &Secret, trie: Trie<'_>) -> Result<(), AllocError> {
        self.make_room(trie.keys())?;
        for_each_node(Baseline, secret, trie, |_, _, node| {
            node.leaves().for_each(|leaf| self.push(leaf));
        });
        Ok(())
    }

    /// Makes room for so many entries more, and for what they share.
    pub(super) fn make_room(&mut self, more: usize) -> Result<(), AllocError> {
        make_room(&mut self.entries, more)?;
        let more = self.entries.len() + more - self.shared.len();
        make_room(&mut self.shared, more)
    }

    /// The entries.
    pub(super) fn entries(&self) -> &[Leaf] {
        &self.entries
    }

    /// Finds out what neighbours share, as far as that is not known. The keys of all entries share `known` bytes.
    ///
    /// To be called after entries were added and before any of the calls below.
    pub(super) fn measure<V>(&mut self, memory: &Memory, known: usize) {
        let first = self.shared.len();
        let Some(entry) = self.entries.get(first) else { return };
        self.shared.reserve(self.entries.len() - first);
        let entries = &self.entries[first..];
        entries.iter().take(AHEAD).for_each(|entry| memory.prefetch_leaf(*entry, 0));
        let mut before = memory.key::<V>(*entry);
        for (i, entry) in entries.iter().enumerate().skip(1) {
            if let Some(later) = entries.get(i + AHEAD) {
                memory.prefetch_leaf(*later, Memory::reach_bytes::<V>(before.len()));
            }
            let key = memory.key::<V>(*entry);
            debug_assert!(before < key, "a run is in order");
            self.shared.push(shared_bits(&before, &key, known));
            before = key;
        }
    }

    /// Where to cut the run in two: of the places between `window`'s ends, the one with the shortest border, and the
    /// nearest to the middle of those.
    ///
    /// PAPER: Wormhole leaves the choice among cuts as future work; here as there, short borders keep the prefix table
    /// small. The paper of this trie has no tries to cut.
    pub(super) fn cut(&self, window: Range<usize>) -> usize {
        let middle = window.start.midpoint(window.end);
        let window = window.start.max(1)..window.end.min(self.entries.len());
        debug_assert!(!window.is_empty(), "two entries or more");
        window.min_by_key(|at| (self.shared[at - 1] / 8, at.abs_diff(middle))).unwrap_or(1)
    }

    /// The shortest border between entry `at` and the one before.
    pub(super) fn border<'g, V: 'g>(&self, memory: &'g Memory, at: usize) -> Key<'g> {
        memory.key::<V>(self.entries[at]).start(self.shared[at - 1] as usize / 8 + 1)
    }

    /// What the nodes weigh of the trie of a part of the run, of which all keys share `skip_bits`; or less, if some keys are the
    /// beginnings of others.
    pub(super) fn count_weight(&self, part: Range<usize>, skip_bits: u32) -> usize {
        // Where open bends are, with the children before the last one, and 0 for the place before the root: bend `d` is at depth
        // `d - 1`.
        let mut open = vec![(0, 0)];
        let mut inner = 0;
        let mut leaves = 0;
        for Unit { entries, behind: bend, .. } in self.units(part, skip_bits) {
            leaves += self.node_of(entries).weight() as usize;
            while let [.., (above, _), (last, children)] = open[..]
                && last > bend
            {
                // The bend itself, and jumps from the bend above.
                let row = last - 1 - above.max(bend);
                let jumps = row - Branch::symbols_before(row, children + 1);
                inner += 1 + jumps.div_ceil(LABEL_SYMBOLS);
                open.pop();
            }
            match open.last_mut() {
                Some((last, children)) if *last == bend => *children += 1,
                _ => open.push((bend, 1)),
            }
        }
        leaves + inner * INNER_WEIGHT
    }

    /// Builds the trie of a part of the run.
    ///
    /// # Errors
    ///
    /// See [`BuildError`]. Nothing is left behind then.
    pub(super) fn build<'g, V>(
        &self,
        memory: &'g Memory,
        secret: &Secret,
        free: &mut FreeLines,
        plan: &Plan<'_>,
        part: Range<usize>,
    ) -> Result<Trie<'g>, BuildError> {
        let part = if part.is_empty() { 0..0 } else { part };
        let skip_bits = plan.skip_bits();
        let weight = self.count_weight(part.clone(), skip_bits);
        let levels = self.levels(part.clone(), skip_bits);
        let mut lines = lines_for(weight, levels.hinting).max(self.at_least);
        loop {
            let trie = memory.allocate(free, &plan.shape(lines, levels))?;
            match self.fill::<V>(memory, secret, trie, part.clone()) {
                Ok(weight) => {
                    trie.start();
                    trie.note_likely();
                    trie.set_filled(part.len(), weight);
                    return Ok(trie);
                }
                Err(error) => {
                    memory.free(free, trie.name());
                    lines = match error {
                        NoRoom::Full => larger(lines).ok_or(error)?,
                        NoRoom::Collision => return Err(error.into()),
                    };
                }
            }
        }
    }

    /// Places all nodes of the trie of a part of the run. Returns what they weigh.
    fn fill<V>(
        &self,
        memory: &Memory,
        secret: &Secret,
        trie: Trie<'_>,
        part: Range<usize>,
    ) -> Result<usize, NoRoom> {
        let (queue, path) = (Queue::new(trie), vec![secret.root(trie.round())]);
        let mut filling = Filling { secret, queue, path, open: Vec::new(), weight: 0 };
        let all = &self.entries[..part.end];
        all[part.start..].iter().take(AHEAD).for_each(|entry| memory.prefetch_leaf(*entry, 0));
        let mut reach_bytes = 0;
        for unit in self.units(part, trie.skip_bits()) {
            for later in unit.entries.clone().filter_map(|at| all.get(at + AHEAD)) {
                memory.prefetch_leaf(*later, reach_bytes);
            }
            let key = memory.key::<V>(all[unit.entries.start]);
            reach_bytes = Memory::reach_bytes::<V>(key.len());
            let symbols = Symbols::new(&key, trie.skip_bits());
            filling.add_next(&symbols, self.node_of(unit.entries), unit.before, unit.behind)?;
        }
        filling.queue.flush()?;
        Ok(filling.weight)
    }

    /// The leaves of the trie of a part of the run: of two keys that agree further with each other than with their neighbours it is
    /// one, if they can be a pair.
    fn units(&self, part: Range<usize>, skip_bits: u32) -> impl Iterator<Item = Unit> {
        // 0 before the first key and behind the last.
        let behind = move |at: usize| {
            if at < part.end { symbols_in(self.shared[at - 1], skip_bits) + 1 } else { 0 }
        };
        let (mut at, mut before) = (part.start, 0);
        core::iter::from_fn(move || {
            let end = part.end;
            if at >= end {
                return None;
            }
            let next = behind(at + 1);
            let mut unit = Unit { entries: at..at + 1, before, behind: next };
            if next > before
                && Pair::of(self.entries[at], self.entries[at + 1]).is_some()
                && behind(at + 2) < next
            {
                unit = Unit { entries: at..at + 2, before, behind: behind(at + 2) };
            }
            (at, before) = (unit.entries.end, unit.behind);
            Some(unit)
        })
    }

    /// The leaf of one entry, or the pair of two.
    fn node_of(&self, unit: Range<usize>) -> Node {
        let (first, second) = (self.entries[unit.start], self.entries[unit.end - 1]);
        if unit.len() == 1 {
            Node::Leaf(first)
        } else {
            Node::Pair(Pair::of(first, second).expect("a unit of two is a pair"))
        }
    }

    /// On which levels the paths of a part of the run have nodes.
    fn levels(&self, part: Range<usize>, skip_bits: u32) -> Levels {
        // Keys whose paths have a regular node or a branch, by its level; and those whose paths fork, by the level where they do.
        let (mut keys, mut forks) = ([0; LEVELS], [0; LEVELS]);
        // The open bends: one more than their level, the first key below them, and the children before the last one.
        let mut open = [(0, 0, 0); LEVELS];
        let mut count = 0;
        for Unit { entries, behind, .. } in self.units(part.clone(), skip_bits) {
            // Bends further down count as one: the keys below them are below all others.
            let bend = behind.min(LEVELS);
            let mut first = entries.start;
            while count > 0 && open[count - 1].0 > bend {
                count -= 1;
                let (last, since, children) = open[count];
                let above = if count > 0 { open[count - 1].0 } else { 0 };
                let row = last - 1 - above.max(bend);
                keys[last - 1 - Branch::symbols_before(row, children + 1)] += entries.end - since;
                forks[last - 1] += entries.end - since;
                first = since;
            }
            if count > 0 && open[count - 1].0 == bend {
                open[count - 1].2 += 1;
            } else if bend > 0 {
                open[count] = (bend, first, 1);
                count += 1;
            }
        }
        let records =
            self.entries[part.clone()].iter().filter(|leaf| leaf.unit().is_some()).count();
        Levels::of(&keys, &forks, part.len(), records)
    }
}

/// One entry of a run, or two that are a pair.
struct Unit {
    entries: Range<usize>,
    /// One more than the number of symbols shared with the entry before, and with the one behind; 0 if there is none.
    before: usize,
    behind: usize,
}

/// Calls `each` with the level, the state and the contents of every node, each before those below it, in the order of their
/// keys. The caller holds the trie's lock.
#[inline(always)]
pub(super) fn for_each_node(
    lanes: impl Lanes,
    secret: &Secret,
    trie: Trie<'_>,
    mut each: impl FnMut(u32, State, Node),
) {
    // A node's first bucket and its tag. Where its second is nobody needs to know of most.
    let first = |state| {
        let Home { first, tag, .. } = trie.home(state);
        trie.prefetch_bucket(first);
        (first, tag)
    };
    let root = secret.root(trie.round());
    let mut ahead = vec![(0, root, first(root))];
    while let Some((level, state, (bucket, tag))) = ahead.pop() {
        let slot = lanes.find(trie.bucket(bucket), Head::first(tag));
        let at = match slot {
            Some(slot) => Some(Place { bucket, slot }),
            None => trie.locate(lanes, trie.home(state)),
        };
        debug_assert!(at.is_some() || trie.keys() == 0, "T4");
        let Some(at) = at else { continue };
        let node = trie.node(at);
        each(level, state, node);
        match node {
            Node::Leaf(_) | Node::Pair(_) => {}
            Node::Jump(label) => {
                let child = secret.step_all(state, label);
                ahead.push((level + label.len() as u32, child, first(child)));
            }
            Node::Branch(branch) => {
                let level = level + branch.len() as u32 + 1;
                let above = secret.parent(secret.step_all(state, branch.label()));
                for symbol in branch.children().into_iter().rev() {
                    let child = above.child(symbol);
                    ahead.push((level, child, first(child)));
                }
            }
            Node::Regular(Children { mut bits, end }) => {
                let above = secret.parent(state);
                while bits != 0 {
                    let last = bits.ilog2();
                    bits ^= 1 << last;
                    let child = above.child(Symbol(last as u8));
                    ahead.push((level + 1, child, first(child)));
                }
                if end {
                    let child = above.child(Symbol::END);
                    ahead.push((level + 1, child, first(child)));
                }
            }
        }
    }
}

/// Levels that are counted.
pub(super) const LEVELS: usize = u64::BITS as usize;

/// On which levels the paths of a trie's keys have nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    /// Those where one of 64 has one, a bit for each.
    usual: u64,
    /// What hints are worth their memory.
    pub(super) hinting: Hinting,
    /// The deepest of short names where 15 of 16 have a regular node. So a search that starts there finds a node for most
    /// keys that are not in the trie, too.
    entry: u32,
    /// The level of short names where, or on the next, most keys have their leaf, if three of four have; else 0. So a search
    /// that looks there first finds most keys at once.
    leaves: u32,
}

impl Levels {
    /// Of a trie of `all` keys, by how many of them have a regular node or a branch on each level, and a fork. Hints are for leaves with
    /// records.
    pub(super) fn of(
        keys: &[usize; LEVELS],
        forks: &[usize; LEVELS],
        all: usize,
        records: usize,
    ) -> Self {
        // There is a node behind each fork.
        let below = |(level, keys): (usize, &usize)| u64::from(keys * 64 > all) << (level + 1);
        let usual =
            forks[..LEVELS - 1].iter().enumerate().map(below).fold(1, |usual, bit| usual | bit);
        let is_entry = |keys: &usize| *keys > 0 && keys * 16 >= all * 15;
        let entry = keys[..=SHORT_NAME_SYMBOLS].iter().rposition(is_entry).unwrap_or(0);
        // The others of a level's keys have another fork behind it; nearly all of them on the next level, if paths are
        // short.
        let leaves_from = |level: &usize| forks[level - 1].saturating_sub(forks[*level + 1]);
        let has_leaves = |level: &usize| leaves_from(level) * 4 > all * 3;
        let leaves =
            (1..SHORT_NAME_SYMBOLS).filter(has_leaves).max_by_key(leaves_from).unwrap_or(0);
        let entry = entry as u32;
        let hinting =
            if records * 2 > all { Hinting::of(usual, entry, forks) } else { Hinting::None };
        Self { usual, entry, leaves: leaves as u32, hinting }
    }
}

/// The whole symbols in so many shared bits.
#[inline(always)]
fn symbols_in(shared: u32, skip_bits: u32) -> usize {
    (shared.saturating_sub(skip_bits) / SYMBOL_BITS) as usize
}

/// A node on the path of the last key that has other children too.
struct Bend {
    /// One more than its depth.
    level: usize,
    children: Children,
}

/// A trie into which keys are put in order.
struct Filling<'s, 'g> {
    secret: &'s Secret,
    queue: Queue<'g>,
    /// States of the last key's path, from the root to its leaf.
    path: Vec<State>,
    /// The bends of that path whose children are not all known, from the root down.
    open: Vec<Bend>,
    /// What all its nodes weigh.
    weight: usize,
}

impl Filling<'_, '_> {
    /// Adds the leaf of the next key, or pair of the next two. `before` and `behind` are the levels of the bends that it shares with
    /// the last key and with the next: one more than the number of symbols shared, 0 if there is no such key.
    #[inline]
    fn add_next(
        &mut self,
        symbols: &Symbols<'_>,
        node: Node,
        before: usize,
        behind: usize,
    ) -> Result<(), NoRoom> {
        if let Some(bend) = self.open.last_mut() {
            debug_assert!(bend.level == before);
            bend.children = bend.children.with(symbols.symbol(before - 1));
        }
        let depth = before.max(behind);
        self.path.truncate(before.max(1));
        let mut state = self.path[self.path.len() - 1];
        for i in self.path.len() - 1..depth {
            state = self.secret.step(state, symbols.symbol(i));
            self.path.push(state);
        }
        self.weight += node.weight() as usize;
        self.queue.add(state, node.encode())?;
        self.queue.add_hints(node, depth);
        while let Some(bend) = self.open.pop_if(|bend| bend.level > behind) {
            let above = self.open.last().map_or(0, |above| above.level).max(behind);
            self.close(symbols, &bend, above)?;
        }
        if behind > self.open.last().map_or(0, |bend| bend.level) {
            let children = Children::default().with(symbols.symbol(behind - 1));
            self.open.push(Bend { level: behind, children });
        }
        Ok(())
    }

    /// Places a bend, all children of which are known, and the jumps that lead to it from the bend above.
    fn close(&mut self, symbols: &Symbols<'_>, bend: &Bend, above: usize) -> Result<(), NoRoom> {
        let depth = bend.level - 1;
        let behind_jumps = depth - Branch::symbols(depth - above, bend.children);
        let label =
            (behind_jumps < depth).then(|| symbols.label(behind_jumps, depth - behind_jumps));
        let node = Branch::behind(label, bend.children).expect("as many symbols as fit");
        self.add(behind_jumps, node)?;
        for at in (above..behind_jumps).step_by(LABEL_SYMBOLS) {
            let label = symbols.label(at, LABEL_SYMBOLS.min(behind_jumps - at));
            self.add(at, Node::Jump(label))?;
        }
        Ok(())
    }

    /// Places a node of the path.
    fn add(&mut self, level: usize, node: Node) -> Result<(), NoRoom> {
        self.weight += node.weight() as usize;
        self.queue.trie.note_label(level, node);
        self.queue.add(self.path[level], node.encode())
    }
}

/// Nodes on their way into a table, whose lines have been asked for.
pub(super) struct Queue<'g> {
    trie: Trie<'g>,
    nodes: [(Home, Form); IN_FLIGHT],
    len: usize,
    /// Whether some of those that wait could have the state of another.
    is_checked: bool,
}

/// Nodes that are placed together. Fewer leave memory idle, as new tables are not in L1; more are no use.
const IN_FLIGHT: usize = 16;

impl<'g> Queue<'g> {
    pub(super) fn new(trie: Trie<'g>) -> Self {
        let none = (
            Home { first: 0, second: 0, tag: 0 },
            Form { kind: Kind::Plain, body: 0, second: None },
        );
        Self { trie, nodes: [none; IN_FLIGHT], len: 0, is_checked: false }
    }

    /// Adds a node that is not in the table.
    #[inline(always)]
    pub(super) fn add(&mut self, state: State, form: Form) -> Result<(), NoRoom> {
        self.is_checked = true;
        self.add_other(state, form)
    }

    /// Adds a node whose state is another than those of all others.
    #[inline(always)]
    pub(super) fn add_other(&mut self, state: State, form: Form) -> Result<(), NoRoom> {
        let home = self.trie.home(state);
        // Most go there.
        self.trie.prefetch_bucket(home.first);
        self.nodes[self.len % IN_FLIGHT] = (home, form);
        self.len += 1;
        if self.len == IN_FLIGHT { self.flush() } else { Ok(()) }
    }

    /// Notes where the leaves of a node are, if it has some.
    #[inline(always)]
    pub(super) fn add_hints(&self, node: Node, level: usize) {
        node.leaves().for_each(|leaf| self.trie.add_hint(leaf, level));
    }

    /// Places the nodes that wait.
    #[inline(never)]
    pub(super) fn flush(&mut self) -> Result<(), NoRoom> {
        let len = core::mem::take(&mut self.len);
        let (trie, nodes) = (self.trie, &self.nodes[..len]);
        if core::mem::take(&mut self.is_checked) {
            nodes.iter().try_for_each(|(home, form)| place_at(trie, *home, *form))
        } else {
            nodes.iter().try_for_each(|(home, form)| place_other(trie, *home, *form))
        }
    }
}

/// Whether a trie's nodes tell all that a table of so many lines needs to know of their states.
pub(super) fn can_copy(old: Trie<'_>, lines: u32) -> bool {
    let hints = if lines < HINTED_LINES { 0 } else { old.hinting().lines() };
    let used = |buckets: u32| (TAG_BITS + buckets.ilog2()).min(STATE_BITS);
    // Two states may differ in bits that a smaller table leaves out: there they would be one (T3), which only a build finds out.
    used(lines - hints) == used(old.buckets())
}

/// Copies a trie into a table of another size, or of the same, if its nodes [tell enough](can_copy). The caller holds its lock.
///
/// # Errors
///
/// [`NoRoom::Full`] if the table is too small; see [`BuildError`]. Nothing is left behind then.
pub(super) fn copy<'g>(
    memory: &'g Memory,
    free: &mut FreeLines,
    plan: &Plan<'_>,
    old: Trie<'_>,
    lines: u32,
) -> Result<Trie<'g>, BuildError> {
    debug_assert!(can_copy(old, lines));
    debug_assert!(plan.round == old.round() && plan.skip_bits() == old.skip_bits());
    let (usual, entry, leaves) = (old.levels(), old.entry() as u32, old.leaf_level() as u32);
    let levels = Levels { usual, entry, leaves, hinting: old.hinting() };
    let new = memory.allocate(free, &plan.shape(lines, levels))?;
    if let Err(error) = copy_nodes(old, new) {
        memory.free(free, new.name());
        return Err(error);
    }
    new.copy_hints(old);
    new.note_likely();
    new.copy_uneven(old);
    new.set_filled(old.keys(), old.weight());
    Ok(new)
}

/// Copies all nodes, in the order of the old buckets: those that lie in the first bucket of their state come in that of the new ones.
fn copy_nodes(old: Trie<'_>, new: Trie<'_>) -> Result<(), BuildError> {
    let mut draft = Draft::new(new, old.weight() / INNER_WEIGHT)?;
    for number in 0..old.buckets() {
        let bucket = old.bucket(number);
        let (wides, mut others) = bucket.sorts();
        for slot in 0..wides {
            let head = bucket.head(slot);
            let (body, second) = (bucket.body(slot), bucket.second_of(slot));
            draft.add_wide(old.state(number, head), head.kind(), body, second);
        }
        while others != 0 {
            let slot = others.trailing_zeros();
            others &= others - 1;
            let head = bucket.head(slot);
            draft.add_other(old.state(number, head), head.kind(), bucket.body(slot));
        }
    }
    Ok(draft.finish()?)
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "build_tests.rs"]
pub(super) mod tests;
