//! A trie's table: buckets, each one line of five nodes. What belongs to a trie besides is in `header.rs`.
//!
//! ```text
//! bucket    0            1            2                        3        4        5        6        7
//!          | head 0, 1  | head 2, 3  | head 4, away, version  | body 0 | body 1 | body 2 | body 3 | body 4 |
//!
//! head      kind 3 bits | seat 2 bits | tag 27 bits        0: a free slot
//! body      leaf with a record: hash 20 bits | record 40 bits | 0
//!           jump: up to 10 symbols of 6 bits, the first on top | count 4 bits
//!           branch: up to 9 symbols, a label and the children behind it | how many 3 bits each | 15
//!           regular: the children, one bit each; END's is the kind
//!
//! *Wide* nodes have two bodies. A short leaf, of a key of eight bytes, has no record: its bodies are key and value. A pair is two
//! leaves with records. Their second bodies lie at the other end:
//! slots     0 wide | 1 wide | 2 other | second of 1 | second of 0         the heads of 3 and 4 are 0
//!           0 wide | 1 wide | 2 wide  | second of 1 | second of 0         the heads of 3 and 4: second of 2
//! ```
//!
//! *Seat* is 1 for a node in the first bucket of its state, 2 for one in the second, so one masked comparison finds a
//! node and never a free slot.
//!
//! Invariants T1 to T12 are in `docs/design/cuckoo-trie.md`; `check.rs` verifies them.

use super::label::{Branch, Children, Label};
use crate::mem::LINE_BYTES;

/// Usual levels behind the entry of a trie with hints, and the lines that its table has at least. Where paths are shorter, a search
/// reads not many more lines than with hints, and without one wait for them; hints are 1 to 4 bytes for a key.
pub(super) const HINTED_LEVELS: u32 = if cfg!(any(shuttle, small_leaves)) { 3 } else { 6 };
pub(super) const HINTED_LINES: u32 = 4 * BLOCK_BUCKETS;

/// The hints of a trie that has some, as a power of two: one for each byte of a block.
pub(super) const HINTS_LOG: u32 = BLOCK_BUCKETS.ilog2() + LINE_BYTES.ilog2();

/// How a trie's hints name levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hinting {
    /// There are none.
    None,
    /// In half a byte: the [`HALF_LEVELS`](Self::HALF_LEVELS) levels behind this one.
    Half(u32),
    /// In a byte: all but those of very long keys.
    Byte,
}

impl Hinting {
    /// Half a byte says which of these levels it is, that it is another one, or that there is no leaf.
    pub(super) const HALF_LEVELS: u32 = 14;

    /// Of a trie with these usual levels behind its entry level; `keys` is how many have a regular node on each level. Leaves are right
    /// behind such nodes.
    pub(super) fn of(usual: u64, entry: u32, keys: &[usize]) -> Self {
        let usual = (usual >> entry >> 1).count_ones();
        if usual < HINTED_LEVELS {
            return Self::None;
        }
        let named = |above: &usize| -> usize {
            keys[*above..].iter().take(Self::HALF_LEVELS as usize).sum()
        };
        let above = (entry as usize..keys.len()).rev().max_by_key(named).unwrap_or(0);
        let all: usize = keys[entry as usize..].iter().sum();
        if usual <= Self::HALF_LEVELS && named(&above) * 16 >= all * 15 {
            Self::Half(above as u32)
        } else {
            Self::Byte
        }
    }

    /// Lines behind the buckets where hints are.
    pub(super) fn lines(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Half(_) => BLOCK_BUCKETS / 2,
            Self::Byte => BLOCK_BUCKETS,
        }
    }
}

/// Longest key of a map.
pub(super) const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Bits of a symbol. Measured against 5: shorter paths, fewer lines, and nodes that still fit five in a line.
pub(super) const SYMBOL_BITS: u32 = 6;

/// Nodes in a bucket.
pub(super) const SLOTS: usize = 5;

/// What a node weighs that has a slot.
pub(super) const SLOT_WEIGHT: u32 = 3;

/// What a node weighs that is no leaf.
pub(super) const INNER_WEIGHT: usize = SLOT_WEIGHT as usize;

/// What a wide node weighs: three of them fill a bucket, two leave one slot.
pub(super) const WIDE_WEIGHT: u32 = 7;

/// What a bucket may hold.
pub(super) const BUCKET_WEIGHT: usize = SLOTS * SLOT_WEIGHT as usize;

/// Buckets in a block of 16 KB. Larger tables are made of blocks, so that they leave no gaps of many sizes behind;
/// smaller blocks would make the list in the header longer, larger ones leave more room unused in small tables.
pub(super) const BLOCK_BUCKETS: u32 = if cfg!(any(shuttle, small_leaves)) { 2 } else { 256 };

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = BLOCK_BUCKETS as usize * LINE_BYTES;

/// Blocks of the largest table, with hints if it has some: an even number, as headers list them in pairs.
pub(super) const MAX_BLOCKS: usize = 20;

/// Buckets of the largest table.
pub(super) const MAX_BUCKETS: u32 = BLOCK_BUCKETS * MAX_BLOCKS as u32;

/// The weight from which a trie of two keys or more is split: what the largest table holds at a load of 0.78. Larger
/// tries stall their writers for longer when they are replaced, smaller ones need more headers and entries of the prefix
/// table.
pub(super) const FULL_WEIGHT: usize = if cfg!(any(shuttle, small_leaves)) { 72 } else { 60_000 };

/// Version of a bucket at which its trie has to be replaced: after some 260,000 changes of one bucket, for which a copy is a small
/// price. Half of what the 20 bits of a version hold is left for the writer that is under way.
pub(super) const WORN: u32 = if cfg!(any(shuttle, small_leaves)) { 16 } else { 1 << 19 };

/// Bits of a state.
pub(super) const STATE_BITS: u32 = 36;

/// Buckets from which on a table knows all bits of a state, so that a short name's node is known by it. (In tests with tiny
/// tables all but some of 30 bits are enough.)
pub(super) const EXACT_BUCKETS: u32 = if cfg!(any(shuttle, small_leaves)) { 1 } else { 512 };

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 27;

/// Bits of a leaf's hash.
pub(super) const HASH_BITS: u32 = 20;

/// Bytes of the key of a short leaf. Numbers have eight; others would need room for their length.
pub(super) const SHORT_BYTES: usize = 8;

/// Symbols of the longest label.
pub(super) const LABEL_SYMBOLS: usize = 10;

/// Blocks of a table of so many lines, its buckets and hints; 0 if it stands behind the header.
#[inline]
pub(super) fn blocks_of(lines: u32) -> usize {
    (lines / BLOCK_BUCKETS) as usize
}

/// Whether a table can have so many lines: 1, 2, 4 .. or whole blocks.
pub(super) fn is_size(lines: u32) -> bool {
    if lines < BLOCK_BUCKETS {
        lines.is_power_of_two()
    } else {
        lines.is_multiple_of(BLOCK_BUCKETS) && lines <= MAX_BUCKETS
    }
}

/// The lines of the next larger table, if there is one.
pub(super) fn larger(lines: u32) -> Option<u32> {
    let next = if lines < BLOCK_BUCKETS { lines * 2 } else { lines + BLOCK_BUCKETS };
    (next <= MAX_BUCKETS).then_some(next)
}

/// The lines of the smallest table with such hints in which nodes of this weight are a load of 0.85, or of the largest one. At 0.95
/// insertions still succeed, but move more; the rest is room to grow.
pub(super) fn lines_for(weight: usize, hinting: Hinting) -> u32 {
    let buckets = weight.saturating_mul(20).div_ceil(BUCKET_WEIGHT * 17).max(1);
    let buckets = u32::try_from(buckets).unwrap_or(MAX_BUCKETS).min(MAX_BUCKETS);
    if buckets <= BLOCK_BUCKETS {
        return buckets.next_power_of_two();
    }
    let lines = buckets.next_multiple_of(BLOCK_BUCKETS);
    if lines < HINTED_LINES {
        lines
    } else {
        (buckets + hinting.lines()).next_multiple_of(BLOCK_BUCKETS).min(MAX_BUCKETS)
    }
}

/// The weight from which a trie of such hints is split. One with hints sooner: the more keys it has, the more leaves share a hash's
/// hints, and each of them is a line more for a search.
pub(super) fn full_weight(hinting: Hinting) -> usize {
    if hinting == Hinting::None { FULL_WEIGHT } else { FULL_WEIGHT / 4 * 3 }
}

/// What a trie of such hints is to have room for that is made of nodes of this weight. More room means fewer copies; a trie with hints
/// has less of it unused instead. With hints of a byte, as where paths are long, it has room for nearly all that comes before it is split:
/// loads are what is slow there, and memory is not.
pub(super) fn with_room(weight: usize, hinting: Hinting) -> usize {
    match hinting {
        Hinting::None => weight + weight / 3,
        Hinting::Half(_) => weight + weight / 5,
        // A sixteenth less: tables are made for a load of 0.85, and are full at more.
        Hinting::Byte => (full_weight(hinting) / 16 * 15).min(2 * weight).max(weight + weight / 5),
    }
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A record; or a label and what is behind it, if the body ends in a count.
    Plain = 0,
    /// Two children or more.
    Regular = 2,
    /// The same, and END is one of them.
    RegularEnd = 3,
    /// A key, with its value elsewhere in the bucket.
    Short = 4,
    /// A record, with another elsewhere in the bucket.
    Pair = 5,
}

/// The head of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Head(pub(super) u32);

impl Head {
    /// The head of a free slot.
    pub(super) const FREE: Self = Self(0);

    const SEAT_AT: u32 = TAG_BITS;
    const KIND_AT: u32 = Self::SEAT_AT + 2;

    /// In the first bucket of its state.
    const FIRST: u32 = 1 << Self::SEAT_AT;
    /// In the second.
    const SECOND: u32 = 2 << Self::SEAT_AT;

    /// The bits that tell nodes apart.
    pub(super) const NAME_MASK: u32 = (1 << Self::KIND_AT) - 1;

    const TAG_MASK: u32 = (1 << TAG_BITS) - 1;

    /// The bit of wide nodes.
    pub(super) const WIDE: u32 = 4 << Self::KIND_AT;

    /// Whether a wide node is here.
    #[inline(always)]
    pub(super) fn is_wide(self) -> bool {
        self.0 & Self::WIDE != 0
    }

    /// The bit that wide nodes have, as the lowest.
    #[inline(always)]
    fn wide_bit(self) -> u32 {
        self.0 >> (Self::KIND_AT + 2)
    }

    /// The bit that regular nodes have, as the lowest; above it there are others.
    #[inline(always)]
    fn regular_bit(self) -> u32 {
        self.0 >> (Self::KIND_AT + 1)
    }

    /// Whether a short leaf is here.
    #[inline(always)]
    pub(super) fn is_short(self) -> bool {
        self.0 >> Self::KIND_AT == Kind::Short as u32
    }

    /// The name bits of a node of this tag in its first bucket.
    #[inline(always)]
    pub(super) fn first(tag: u32) -> u32 {
        debug_assert!(tag <= Self::TAG_MASK);
        tag | Self::FIRST
    }

    /// The name bits of a node of this tag in its second bucket.
    #[inline(always)]
    pub(super) fn second(tag: u32) -> u32 {
        debug_assert!(tag <= Self::TAG_MASK);
        tag | Self::SECOND
    }

    /// A head with these name bits.
    #[inline(always)]
    pub(super) fn new(name: u32, kind: Kind) -> Self {
        Self(name & Self::NAME_MASK | (kind as u32) << Self::KIND_AT)
    }

    /// The same node in its other bucket.
    #[inline(always)]
    pub(super) fn moved(self) -> Self {
        debug_assert!(!self.is_free());
        Self(self.0 ^ (Self::FIRST | Self::SECOND))
    }

    #[inline(always)]
    pub(super) fn is_free(self) -> bool {
        self.0 == 0
    }

    /// Whether the node is in the second bucket of its state.
    #[inline(always)]
    pub(super) fn is_second(self) -> bool {
        self.0 & Self::SECOND != 0
    }

    /// The name bits.
    #[inline(always)]
    pub(super) fn name(self) -> u32 {
        self.0 & Self::NAME_MASK
    }

    #[inline(always)]
    pub(super) fn tag(self) -> u32 {
        self.0 & Self::TAG_MASK
    }

    /// The kind of a node; of a free slot nothing that means anything.
    #[inline(always)]
    pub(super) fn kind(self) -> Kind {
        match self.0 >> Self::KIND_AT {
            0 => Kind::Plain,
            2 => Kind::Regular,
            3 => Kind::RegularEnd,
            4 => Kind::Short,
            _ => Kind::Pair,
        }
    }
}

/// An entry as its leaf has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaf {
    /// Key and value are in this record; and bits of the key's hash.
    Record { unit: u64, hash: u32 },
    /// The key is these eight bytes, big-endian; the value is a word of these bits.
    Short { key: u64, value: u64 },
}

impl Leaf {
    /// What it weighs in a table.
    #[inline(always)]
    pub(super) const fn weight(self) -> u32 {
        if let Self::Short { .. } = self { WIDE_WEIGHT } else { SLOT_WEIGHT }
    }

    /// The leaf with a record of this body.
    #[inline(always)]
    fn of_body(body: u64) -> Self {
        Self::Record {
            unit: body >> Node::UNIT_AT & ((1 << Node::UNIT_BITS) - 1),
            hash: (body >> Node::HASH_AT) as u32,
        }
    }

    /// The record.
    #[inline(always)]
    pub(super) fn unit(self) -> Option<u64> {
        match self {
            Self::Record { unit, .. } => Some(unit),
            Self::Short { .. } => None,
        }
    }
}

/// Two entries with records, in the order of their keys. What their leaves know of the keys' hashes differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    /// The bodies that their leaves would have.
    bodies: [u64; 2],
}

impl Pair {
    /// Of two leaves in the order of their keys; `None` if one of them is short, or their hashes are the same.
    #[inline]
    pub(super) fn of(first: Leaf, second: Leaf) -> Option<Self> {
        match (first, second) {
            (Leaf::Record { hash: a, .. }, Leaf::Record { hash: b, .. }) if a != b => {
                let body = |leaf| Node::Leaf(leaf).encode().body;
                Some(Self { bodies: [body(first), body(second)] })
            }
            _ => None,
        }
    }

    /// The same of a leaf and another one, whose key comes behind that of the first if so it is said.
    pub(super) fn with(leaf: Leaf, other: Leaf, is_behind: bool) -> Option<Self> {
        if is_behind { Self::of(leaf, other) } else { Self::of(other, leaf) }
    }

    /// Both.
    #[inline(always)]
    pub(super) fn leaves(self) -> [Leaf; 2] {
        self.bodies.map(Leaf::of_body)
    }

    /// The leaf of a hash.
    #[inline(always)]
    pub(super) fn leaf(self, hash: u32) -> Option<Leaf> {
        let [first, second] = self.bodies.map(|body| (body >> Node::HASH_AT) as u32 == hash);
        let body = self.bodies[usize::from(!first)];
        (first || second).then_some(Leaf::of_body(body))
    }

    /// With this leaf in the place of the one of the same hash.
    pub(super) fn replaced(self, leaf: Leaf) -> Self {
        let body = Node::Leaf(leaf).encode().body;
        let is_same = |old: u64| (old ^ body) >> Node::HASH_AT == 0;
        debug_assert!(self.bodies.into_iter().any(is_same));
        Self { bodies: self.bodies.map(|old| if is_same(old) { body } else { old }) }
    }

    /// The other one of the two.
    pub(super) fn without(self, leaf: Leaf) -> Leaf {
        let [first, second] = self.leaves();
        if first == leaf { second } else { first }
    }
}

/// A node as its slots have it, their heads apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    pub(super) kind: Kind,
    pub(super) body: u64,
    /// The second body of a wide node.
    pub(super) second: Option<u64>,
}

/// A node, its place apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    /// An entry.
    Leaf(Leaf),
    /// Two entries.
    Pair(Pair),
    /// One child, behind this label.
    Jump(Label),
    /// A few children, behind a label.
    Branch(Branch),
    /// Children.
    Regular(Children),
}

impl Node {
    const UNIT_BITS: u32 = 40;
    const UNIT_AT: u32 = 4;
    const HASH_AT: u32 = Self::UNIT_AT + Self::UNIT_BITS;

    /// What it weighs in a table.
    #[inline(always)]
    pub(super) fn weight(self) -> u32 {
        match self {
            Self::Leaf(leaf) => leaf.weight(),
            Self::Pair(_) => WIDE_WEIGHT,
            Self::Jump(_) | Self::Branch(_) | Self::Regular(_) => SLOT_WEIGHT,
        }
    }

    /// The entries that it has, in the order of their keys.
    #[inline(always)]
    pub(super) fn leaves(self) -> impl DoubleEndedIterator<Item = Leaf> {
        let [first, second] = match self {
            Self::Leaf(leaf) => [Some(leaf), None],
            Self::Pair(pair) => pair.leaves().map(Some),
            Self::Jump(_) | Self::Branch(_) | Self::Regular(_) => [None, None],
        };
        first.into_iter().chain(second)
    }

    /// What is stored of it.
    #[inline(always)]
    pub(super) fn encode(self) -> Form {
        let (kind, body) = match self {
            Self::Leaf(Leaf::Record { unit, hash }) => {
                debug_assert!(unit >> Self::UNIT_BITS == 0 && hash >> HASH_BITS == 0);
                (Kind::Plain, u64::from(hash) << Self::HASH_AT | unit << Self::UNIT_AT)
            }
            Self::Leaf(Leaf::Short { key, value }) => {
                return Form { kind: Kind::Short, body: key, second: Some(value) };
            }
            Self::Pair(Pair { bodies: [body, second] }) => {
                return Form { kind: Kind::Pair, body, second: Some(second) };
            }
            Self::Jump(label) => (Kind::Plain, label.0),
            Self::Branch(branch) => (Kind::Plain, branch.0),
            Self::Regular(Children { bits, end: false }) => (Kind::Regular, bits),
            Self::Regular(Children { bits, end: true }) => (Kind::RegularEnd, bits),
        };
        Form { kind, body, second: None }
    }

    /// The node of this kind and body; `second` reads the second body of a wide node.
    #[inline(always)]
    pub(super) fn decode(kind: Kind, body: u64, second: impl FnOnce() -> u64) -> Self {
        match kind {
            Kind::Plain if body & Label::COUNT_MASK == Branch::MARK => Self::Branch(Branch(body)),
            Kind::Plain if body & Label::COUNT_MASK != 0 => Self::Jump(Label(body)),
            Kind::Plain => Self::Leaf(Leaf::of_body(body)),
            Kind::Short => Self::Leaf(Leaf::Short { key: body, value: second() }),
            Kind::Pair => Self::Pair(Pair { bodies: [body, second()] }),
            Kind::Regular => Self::Regular(Children { bits: body, end: false }),
            Kind::RegularEnd => Self::Regular(Children { bits: body, end: true }),
        }
    }
}

impl Node {
    /// Whether a key's path surely ends at a node of this head and body, which is not the key's leaf, if this symbol comes next, which
    /// is not END: at two keys' leaves, a short one, or a regular node without such a child. Without a branch.
    #[inline(always)]
    pub(super) fn ends(head: Head, body: u64, symbol: u32) -> bool {
        let is_missing = !(body >> (symbol % 64)) as u32;
        (head.wide_bit() | head.regular_bit() & is_missing) & 1 != 0
    }
}

/// A slot of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) bucket: u32,
    pub(super) slot: u32,
}

/// The two buckets of a state, and what tells it apart in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Home {
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) tag: u32,
}

/// Why a node has no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoRoom {
    /// The search for a place was given up.
    Full,
    /// Another node has the same state (T3).
    Collision,
}

/// The eight bytes of `key` from `at` on, big-endian, zeros behind the end.
///
/// Without a branch on `at` for keys of eight bytes or more: it is often the late result of a search.
#[inline(always)]
pub(super) fn slice_at(key: &[u8], at: usize) -> u64 {
    if let Some(last) = key.len().checked_sub(8) {
        let from = at.min(last);
        let eight = key[from..from + 8].try_into().expect("eight bytes");
        let bits = 8 * (at - from);
        return if bits < 64 { u64::from_be_bytes(eight) << bits } else { 0 };
    }
    short_slice(key).checked_shl(8 * at as u32).unwrap_or(0)
}

/// The bytes of a `key` of less than eight bytes, the first on top.
#[inline(always)]
fn short_slice(key: &[u8]) -> u64 {
    let len = key.len();
    if let (Some(head), Some(tail)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let tail = u64::from(u32::from_be_bytes(*tail)) << (8 * (8 - len));
        return u64::from(u32::from_be_bytes(*head)) << 32 | tail;
    }
    // Of one to three bytes these are all, some of them twice.
    match len {
        0 => 0,
        _ => {
            u64::from(key[0]) << 56
                | u64::from(key[len / 2]) << (56 - 8 * (len / 2))
                | u64::from(key[len - 1]) << (64 - 8 * len)
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "layout_tests.rs"]
mod tests;
