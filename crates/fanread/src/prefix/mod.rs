//! The prefix table: guesses the leaf of a key from the prefixes of the leaves' anchors.
//!
//! A sorted list of leaves gives each leaf an *anchor*, the smallest key it may hold. The table finds the leaf with
//! the largest anchor that is not above a key. It is a **hint**: whoever follows it checks the leaf's own borders.
//! Anchors are any distinct byte strings; the first one is empty.
//!
//! # What is stored
//!
//! Not every prefix of every anchor, as in the paper, but:
//!
//! * the *root*, the empty prefix;
//! * *branching* prefixes: the longest common prefixes of two neighbouring anchors;
//! * *landmarks*: the prefixes of anchors whose length is a multiple of 8, the anchor itself included.
//!
//! A node names the leaf of its bare prefix and, for each next byte that occurs, the last leaf with an anchor that
//! begins so. The deepest stored prefix of a key therefore answers alone; there is no walk to a sibling. Nothing
//! deeper branches, so if the key leaves the table at a byte that does occur, the key is either behind all of that
//! byte's anchors or before all of them: two candidates, which the caller fetches together.
//!
//! # Cost
//!
//! Two rounds of tag probes, each of which asks for all its lines at once: the landmarks, then the at most seven
//! lengths behind the deepest one. Then the node, and for a node of more than ten children a line of its block.
//! Tags take 2 to 4 bytes per node and stay in the L2 cache up to some hundred thousand nodes.
//!
//! # Threads
//!
//! Any number of readers run beside one writer, who holds the [`Writer`]. Readers never wait. Every shared word
//! stands for itself, so whatever mixture a reader sees, it finds a leaf or falls back on the first one.
//!
//! # Invariants
//!
//! * **P1** The stored prefixes are exactly those above.
//! * **P2** `at` of a node is the leaf with the largest anchor not above the node's prefix, and the node is marked
//!   as an anchor if that anchor is the prefix.
//! * **P3** A node for prefix `p` has child `c` if some anchor begins with `p c`; its ref is the last such anchor's
//!   leaf, EXACT if `p c` is the only such anchor.
//! * **P4** A node lies in its home bucket or behind it, all buckets it passed are marked, and the tag is its hash's.
//! * **P5** A reference that a reader returns was in the table at some moment of the call; once `replace`, `split`
//!   or `merge` has returned, no reader that starts finds the leaves that these took out.
//! * **P6** No other prefix has a node's hash *and* its 26 check bits from an independent hash function, as far as
//!   the writer goes: a collision of both (90 bits) is taken to be impossible. A collision of the first alone costs
//!   a reader a wrong guess.
//! * **P7** The table's `rests` name exactly the lengths, modulo 8, of the stored prefixes that are no landmarks; at
//!   any moment, they name that of each node whose tag is set.
//!
//! `check.rs` tests P1 to P4, P7 and N1 to N3 on a table at rest, `tests.rs` P5.
//!
//! PAPER: Wormhole, sections 2.2 to 2.4 and 3.1; `docs/design/prefix.md` lists the departures.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]

mod check;
mod eights;
mod insert;
mod layout;
mod node;
mod raw;
mod remove;
mod resize;
mod search;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::hash::prefix::{Ascending, Seed};
use crate::sync::epoch::Guard;
use crate::sync::shim::AtomicU32;

use layout::{BLOCK_LINES, LANES, is_marked, odd, tag_of};
use node::Node;
use raw::{Current, Table};

pub(crate) use eights::Eights;
pub(crate) use layout::LeafRef;
pub(crate) use raw::Garbage;
pub(crate) use search::{Probe, Route};

/// The seed of the second hash function, by which the writer tells nodes apart (P6). It need not be secret: it
/// only matters for prefixes that collide under the secret one.
static CHECK_SEED: Seed = Seed::fixed(0x6361_6e64_6964);

/// How many lengths a search probes at once.
///
/// 16 reads at once take little longer than one on the machines this was tried on (`fanread probe` shows the knee),
/// and 16 landmarks are keys of 128 bytes. A smaller number makes searches of long keys wait more often; a larger
/// one computes hashes that are of no use. `1` gives the paper's binary search.
const FAN: u32 = 16;

/// Finds the leaf of a key; see the module. Two lines, of which the first is the seed's as far as most hashes need it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PrefixTable {
    seed: Seed,
    current: Current,
    /// The leaf with the empty anchor; 0 before there is one.
    first: AtomicU32,
    fan: AtomicU32,
}

/// The right to change one table, and what only its writer needs to know.
///
/// Made together with its table; using it with another one is a mistake that can free memory in use.
#[derive(Debug)]
pub(crate) struct Writer {
    exclusive: Exclusive,
    books: Books,
}

/// Stands for the right to replace the current table.
#[derive(Debug)]
struct Exclusive(());

/// What is in the current table.
#[derive(Debug)]
struct Books {
    /// How many nodes there are.
    nodes: usize,
    /// How many of them have a prefix of a length with remainder 1, 2, .. modulo 8.
    rests: [usize; 8],
    /// How many anchors, the empty one included.
    anchors: usize,
    /// How many buckets are marked.
    marks: usize,
    /// How many nodes were removed since the table was made.
    removed: usize,
    /// Lines of blocks that were never used begin here, and end at `lines_end`. The root's come before all.
    next_line: usize,
    lines_end: usize,
    /// Blocks that were given back, by their number of lines less one.
    free_lines: [Vec<u32>; BLOCK_LINES],
    /// Lines in blocks that are in use.
    live_lines: usize,
}

impl PrefixTable {
    /// Makes an empty table and the right to change it. Allocates nothing.
    pub(crate) const fn new(seed: Seed) -> (Self, Writer) {
        let table = Self {
            current: Current::none(),
            first: AtomicU32::new(0),
            fan: AtomicU32::new(FAN),
            seed,
        };
        (table, Writer { exclusive: Exclusive(()), books: Books::NEW })
    }

    /// The seed whose hashes `probe` takes.
    #[inline(always)]
    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Sets how many lengths a search probes at once, 1 to 31.
    pub(crate) fn set_fan(&self, fan: u32) {
        self.fan.store(fan.clamp(1, 31), Relaxed);
    }

    /// The leaf with the empty anchor, once there is one.
    #[inline]
    pub(crate) fn first(&self) -> Option<LeafRef> {
        // ORDER: Acquire, pairs with the Release fence in `insert.rs`: the leaf is complete.
        LeafRef::of(self.first.load(Acquire))
    }

    /// How many bytes the table takes.
    pub(crate) fn memory_bytes(&self, guard: &Guard) -> usize {
        self.current.get(guard).map_or(0, Table::bytes)
    }
}

impl Books {
    const NEW: Self = Self {
        nodes: 0,
        rests: [0; 8],
        anchors: 0,
        marks: 0,
        removed: 0,
        next_line: BLOCK_LINES,
        lines_end: BLOCK_LINES,
        free_lines: [const { Vec::new() }; BLOCK_LINES],
        live_lines: 0,
    };

    /// The remainders that occur, a bit for each.
    fn rests(&self) -> u32 {
        (1..8).map(|rest| u32::from(self.rests[rest] > 0) << rest).sum()
    }

    /// Takes `lines` adjoining lines for a block; `reserve` has seen to it that there are some.
    fn take_lines(&mut self, lines: usize) -> u32 {
        self.live_lines += lines;
        self.free_lines[lines - 1].pop().unwrap_or_else(|| {
            let line = self.next_line;
            self.next_line += lines;
            assert!(self.next_line <= self.lines_end, "no room was reserved for a block");
            line as u32
        })
    }

    /// Takes back the lines of a block. They are zero; readers that still look into them find no leaf there, or one
    /// of the block that has them next.
    fn give_lines(&mut self, line: u32, lines: usize) {
        self.live_lines -= lines;
        let list = &mut self.free_lines[lines - 1];
        // Without memory for the note the lines stay unused until the table is rebuilt.
        if list.try_reserve(1).is_ok() {
            list.push(line);
        }
    }
}

/// Looks up the prefixes of one key, by ascending length, as the writer does: exactly (P6).
struct Prefixes<'a> {
    table: &'a Table,
    hashes: Ascending<'a>,
    checks: Ascending<'a>,
}

impl<'a> Prefixes<'a> {
    fn new(table: &'a Table, seed: &'a Seed, key: &'a [u8]) -> Self {
        let hashes = Ascending::new(seed, key);
        Self { table, hashes, checks: Ascending::new(&CHECK_SEED, key) }
    }

    /// The hash of the first `len` bytes, and their check bits.
    fn identity(&mut self, len: usize) -> (u64, u32) {
        (self.hash(len), (self.checks.at(len) >> (64 - layout::CHECK_BITS)) as u32)
    }

    fn hash(&mut self, len: usize) -> u64 {
        odd(self.hashes.at(len))
    }

    /// The slot of the node of the first `len > 0` bytes.
    fn slot(&mut self, len: usize) -> Option<usize> {
        let hash = self.hash(len);
        let (mut i, _) = self.table.home(hash);
        for _ in self.table.buckets() {
            let bucket = &self.table.buckets()[i];
            let mut lanes = bucket.matches(tag_of(hash));
            while lanes != 0 {
                let slot = i * LANES + lanes.trailing_zeros() as usize;
                let image = Node::new(self.table, slot).image();
                if image.hash == hash >> 16 << 16 && image.check == self.identity(len).1 {
                    return Some(slot);
                }
                lanes &= lanes - 1;
            }
            if !is_marked(bucket.mark_word()) {
                return None;
            }
            i = self.table.after(i);
        }
        None
    }

    /// The node of the first `len` bytes.
    fn node(&mut self, len: usize) -> Option<Node<'a>> {
        if len == 0 {
            return Some(Node::root(self.table));
        }
        self.slot(len).map(|slot| Node::new(self.table, slot))
    }

    /// The nodes of the lengths in `range`, ascending.
    fn nodes(
        &mut self,
        range: core::ops::Range<usize>,
    ) -> impl Iterator<Item = (usize, Node<'a>)> + use<'_, 'a> {
        let end = range.end.min(self.table.limits().0 + 1);
        (range.start..end).filter_map(|len| Some((len, self.node(len)?)))
    }

    /// The deepest node above length `len > 0` that is stored, and its length. Landmarks make it at most eight
    /// lengths away if the first `len` bytes begin an anchor.
    fn above(&mut self, len: usize) -> (usize, Node<'a>) {
        let from = (len - 1) / 8 * 8;
        let root = (0, Node::root(self.table));
        self.nodes(from..len).last().unwrap_or(root)
    }
}

/// How the anchors of three neighbouring leaves share prefixes.
#[derive(Clone, Copy, Debug)]
struct Overlap {
    /// How many bytes the middle anchor shares with the lower one.
    left: usize,
    /// How many with the upper one.
    right: usize,
}

impl Overlap {
    fn new(low: &[u8], middle: &[u8], high: Option<&[u8]>) -> Self {
        let shared = |other| crate::arch::common_prefix(middle, other);
        Self { left: shared(low), right: high.map_or(0, shared) }
    }

    /// The longer one: the prefix at which the middle anchor leaves its neighbours.
    fn longer(self) -> usize {
        self.left.max(self.right)
    }
}
