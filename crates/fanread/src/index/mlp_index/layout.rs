//! The bytes of a bucket: what its six slots hold, as an image apart from the shared line.
//!
//! Who searches reads the words of a bucket where they are (`words.rs`). Who changes a bucket does so in a copy, an [`Image`].
//!
//! ```text
//! byte 0       8      16     24     32     40     48     56     64
//!      +-------+------+------+------+------+------+------+------+
//!      |version| kinds|  s0  |  s1  |  s2  |  s3  |  s4  |  s5  |
//!      +-------+------+------+------+------+------+------+------+
//!                     unit j is the slots j and j + 3
//!
//! leaf of a map    s[j] key, s[j + 3] value
//! leaf of a set    s[i] key
//! node, 1 unit     s[j] prefix, s[j + 3] info and 6 children
//!       2 units    and 16 more children in s[j + 1], s[j + 4]
//!       3 units    and a bit for each child in s[1], s[2], s[4], s[5]; none in the info
//! info             D in bits 0 to 3, the number of children in 4 to 15, children from 16 on
//! kinds            a byte for each slot: 0 free, 0x10 + L leaf, 0x20 + L node, 0x30 rest of either;
//!                  in bits 48 to 51 how many entries, whose first bucket this is, are in their second, from 15 on
//!                  "many"; in bits 52 to 63 a mark for each of them
//! ```
//!
//! # Invariants
//!
//! * **B3** A slot of kind 0 is free and may hold anything; units of a node lie side by side.
//! * **B4** An entry in its second bucket is counted in its first, and its mark is set there.
//! * **T3** A node has `L <= D <= 7`, at least one child once it is shared, and the first `D` bytes of all keys below it,
//!   zeros behind them.
//!
//! `check.rs` tests them. PAPER: section 4.3, "Bucketized Cuckoo Hashing"; its buckets have four units and no version.

use super::raw::Table;
use super::words::Words;
use crate::arch::tagged::Wanted;
use crate::mem::word::Word;

/// Slots of a bucket.
pub(super) const SLOTS: usize = 6;
/// Units of a bucket.
pub(super) const UNITS: usize = 3;
/// Bytes of a key.
pub(super) const LEVELS: usize = 8;

/// How many keys may share a prefix before a node is made for it.
///
/// A pair of buckets has room for six, and each key of a group is in one of these two. More keys make fewer nodes, but a table
/// fills less well: of four, a chain of five groups that meet in their buckets has more keys than its buckets have room,
/// and maps of some hundreds of keys then grow below a third of their room. With fewer, more keys need nodes.
pub(super) const GROUP: usize = 3;

/// Children in a node of one unit, and of two.
pub(super) const SMALL: usize = 6;
pub(super) const MEDIUM: usize = 22;

/// Returns a number as a word of a bucket.
#[inline(always)]
pub(super) fn word_of(number: u64) -> Word {
    core::ptr::without_provenance_mut(number as usize)
}

/// Returns the number that a word is.
#[inline(always)]
pub(super) fn number_of(word: Word) -> u64 {
    word.addr() as u64
}

const _: () = assert!(usize::BITS == 64, "words hold keys of 64 bits");

/// Returns the first `level` bytes of a key, zeros behind them.
#[inline(always)]
pub(super) fn prefix_of(key: u64, level: usize) -> u64 {
    debug_assert!(level <= LEVELS);
    key & PREFIXES[level % PREFIXES.len()]
}

/// The bits behind the first `level` bytes of a key, all set.
#[inline(always)]
pub(super) fn behind_prefix(level: usize) -> u64 {
    debug_assert!(level <= LEVELS);
    !PREFIXES[level % PREFIXES.len()]
}

/// The bits of the first bytes, for each number of them; a power of two of masks needs no test of its index.
const PREFIXES: [u64; 16] = {
    let mut masks = [u64::MAX; 16];
    let mut level = 0;
    while level < LEVELS {
        masks[level] = !(u64::MAX >> (8 * level));
        level += 1;
    }
    masks
};

/// The leaves of a level and a prefix, as kernels look for them.
#[inline(always)]
pub(super) fn leaves_of(level: usize) -> &'static Wanted {
    const LEAVES: [Wanted; 16] = {
        let mut leaves = [Wanted { tag: 0, length: 0 }; 16];
        let mut level = 0;
        while level <= LEVELS {
            leaves[level] = Wanted { tag: Kinds::LEAF | level as u64, length: !PREFIXES[level] };
            level += 1;
        }
        leaves
    };
    debug_assert!(level <= LEVELS);
    &LEAVES[level % LEAVES.len()]
}

/// Whether two keys share their first `level` bytes.
#[inline(always)]
pub(super) fn same_prefix(a: u64, b: u64, level: usize) -> bool {
    prefix_of(a ^ b, level) == 0
}

/// How many whole bytes two keys share at their start.
#[inline(always)]
pub(super) fn shared_bytes(a: u64, b: u64) -> usize {
    (a ^ b).leading_zeros() as usize / 8
}

/// Byte `at` of a key, counted from the top.
#[inline(always)]
pub(super) fn byte_of(key: u64, at: usize) -> u8 {
    debug_assert!(at < LEVELS);
    (key >> (56 - 8 * at)) as u8
}

/// `prefix`, which has `at` bytes, with one more.
#[inline(always)]
pub(super) fn child_of(prefix: u64, at: usize, byte: u8) -> u64 {
    prefix | u64::from(byte) << (56 - 8 * at)
}

/// What the slots hold, a byte for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Kinds(pub(super) u64);

/// What a slot begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Free,
    /// A leaf of this level.
    Leaf(usize),
    /// A node of this level.
    Node(usize),
    Rest,
}

impl Kinds {
    pub(super) const LEAF: u64 = 0x10;
    pub(super) const NODE: u64 = 0x20;
    const REST: u64 = 0x30;
    /// One entry that is away, and their number when nobody counts any more.
    const AWAY: u64 = 1 << 48;
    const MANY: u64 = 15;
    /// Where the marks begin, and how many there are.
    const MARKS_AT: u32 = 52;
    const MARKS: u64 = 12;

    #[inline(always)]
    pub(super) fn byte(self, slot: usize) -> u64 {
        self.0 >> (8 * slot) & 0xff
    }

    #[inline(always)]
    pub(super) fn of(self, slot: usize) -> Kind {
        let byte = self.byte(slot);
        match byte & 0xf0 {
            0 => Kind::Free,
            Self::LEAF => Kind::Leaf((byte & 0xf) as usize),
            Self::NODE => Kind::Node((byte & 0xf) as usize),
            _ => Kind::Rest,
        }
    }

    /// Whether a slot begins a leaf.
    #[inline(always)]
    pub(super) fn is_leaf(self, slot: usize) -> bool {
        self.0 >> (8 * slot) & 0xf0 == Self::LEAF
    }

    /// Whether a slot begins a leaf of this level.
    #[inline(always)]
    pub(super) fn is_leaf_of(self, slot: usize, level: usize) -> bool {
        self.byte(slot) == Self::LEAF | level as u64
    }

    /// Whether a node of this level has the bucket for itself.
    #[inline(always)]
    pub(super) fn is_wide_node(self, level: usize) -> bool {
        const WIDE: u64 = (Kinds::REST * 0x0101_0101_0100) | Kinds::NODE;
        self.0 << 16 == (WIDE | level as u64) << 16
    }

    /// In what each slot differs from one that begins a leaf of this level: `byte` is zero if it does not.
    #[inline(always)]
    pub(super) fn against_leaves(self, level: usize) -> Self {
        Self(self.0 ^ ((Self::LEAF | level as u64) * 0x0101_0101_0101))
    }

    /// The level of the leaf or node that begins in a slot.
    #[inline(always)]
    pub(super) fn level(self, slot: usize) -> usize {
        (self.byte(slot) & 0xf) as usize
    }

    /// The mark of a hash: bits that say nothing of its buckets, unless there are millions.
    #[inline(always)]
    fn mark(hash: u64) -> u64 {
        1 << (Self::MARKS_AT + (((hash & 0xfff) * Self::MARKS) >> 12) as u32)
    }

    /// Whether an entry of this hash may be in its second bucket, this being the first.
    #[inline(always)]
    pub(super) fn may_be_away(self, hash: u64) -> bool {
        self.0 & Self::mark(hash) != 0
    }

    /// Notes that an entry of this hash is in its second bucket.
    pub(super) fn sent_away(&mut self, hash: u64) {
        if self.away() < Self::MANY {
            self.0 += Self::AWAY;
        }
        self.0 |= Self::mark(hash);
    }

    /// Notes that an entry is in its second bucket no longer; `None` if there was none, because somebody else moved it.
    pub(super) fn back(&mut self) -> Option<()> {
        match self.away() {
            0 => return None,
            1 => self.0 &= Self::AWAY - 1,
            // More than can be counted: the marks stay until the segment is copied.
            Self::MANY => {}
            _ => self.0 -= Self::AWAY,
        }
        Some(())
    }

    /// How many entries are away, or `MANY`.
    fn away(self) -> u64 {
        self.0 >> 48 & 0xf
    }

    /// Whether so many entries may be away.
    pub(super) fn agrees_with(self, away: u64) -> bool {
        self.away() == Self::MANY || self.away() == away
    }

    fn set(&mut self, slot: usize, byte: u64) {
        self.0 = self.0 & !(0xff << (8 * slot)) | byte << (8 * slot);
    }

    /// A free slot for a leaf.
    #[inline(always)]
    pub(super) fn free_slot(self, has_values: bool) -> Option<usize> {
        let slots = if has_values { 0x10_1010 } else { 0x1010_1010_1010 };
        // Every kind but 0 has bit 4 or bit 5.
        let free = !(self.0 | self.0 >> 1) & slots;
        (free != 0).then(|| free.trailing_zeros() as usize / 8)
    }

    /// The same with a leaf in a slot that is free.
    #[inline(always)]
    pub(super) fn with_leaf(self, slot: usize, level: usize, has_values: bool) -> Self {
        debug_assert!(self.byte(slot) == 0, "B3");
        let rest = if has_values { Self::REST << (8 * (slot + UNITS)) } else { 0 };
        Self(self.0 | (Self::LEAF | level as u64) << (8 * slot) | rest)
    }

    /// The same with a leaf of another level in the place of one.
    #[inline(always)]
    pub(super) fn with_level(self, slot: usize, level: usize) -> Self {
        debug_assert!(self.is_leaf(slot), "B3");
        Self(self.0 & !(0xf << (8 * slot)) | (level as u64) << (8 * slot))
    }

    /// Whether no entry is away.
    #[inline(always)]
    pub(super) fn has_none_away(self) -> bool {
        self.away() == 0
    }

    /// How many slots are in use.
    #[inline(always)]
    pub(super) fn used(self) -> usize {
        // Every kind but 0 has bit 4 or bit 5.
        ((self.0 | self.0 >> 1) & 0x1010_1010_1010).count_ones() as usize
    }

    /// How many slots are free.
    #[inline(always)]
    pub(super) fn free(self) -> usize {
        SLOTS - self.used()
    }

    /// The slots where entries begin.
    pub(super) fn heads(self) -> impl Iterator<Item = usize> {
        (0..SLOTS).filter(move |slot| matches!(self.of(*slot), Kind::Leaf(_) | Kind::Node(_)))
    }
}

/// A set of bytes: the children of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Children(pub(super) [u64; 4]);

impl Children {
    #[inline(always)]
    pub(super) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub(super) fn remove(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] &= !(1 << (byte & 63));
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The smallest child that is `from` or more; `from` may be 256.
    #[inline]
    pub(super) fn next(&self, from: usize) -> Option<u8> {
        let (mut at, mut mask) = (from / 64, !0 << (from % 64));
        while at < 4 {
            let word = self.0[at] & mask;
            if word != 0 {
                return Some((at * 64 + word.trailing_zeros() as usize) as u8);
            }
            (at, mask) = (at + 1, !0);
        }
        None
    }

    /// The largest child below `below`, which may be 256.
    #[inline]
    pub(super) fn previous(&self, below: usize) -> Option<u8> {
        let last = below.checked_sub(1)?;
        let (mut at, mut mask) = (last / 64, !0 >> (63 - last % 64));
        loop {
            let word = self.0[at] & mask;
            if word != 0 {
                return Some((at * 64 + 63 - word.leading_zeros() as usize) as u8);
            }
            (at, mask) = (at.checked_sub(1)?, !0);
        }
    }
}

/// The way through the keys: up or down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
}

impl Way {
    /// The first child from a place on, which is a byte or 256.
    #[inline(always)]
    pub(super) fn child_from(self, children: &Children, place: usize) -> Option<u8> {
        match self {
            Self::Up => children.next(place),
            Self::Down => children.previous(place),
        }
    }

    /// The place behind a byte.
    #[inline(always)]
    pub(super) fn behind(self, byte: u8) -> usize {
        match self {
            Self::Up => usize::from(byte) + 1,
            Self::Down => usize::from(byte),
        }
    }

    /// The place of a byte.
    #[inline(always)]
    pub(super) fn at(self, byte: u8) -> usize {
        match self {
            Self::Up => usize::from(byte),
            Self::Down => usize::from(byte) + 1,
        }
    }

    /// The place before all bytes.
    #[inline(always)]
    pub(super) fn before_all(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 256,
        }
    }

    /// Whether `a` comes before `b`.
    #[inline(always)]
    pub(super) fn is_before(self, a: u64, b: u64) -> bool {
        match self {
            Self::Up => a < b,
            Self::Down => a > b,
        }
    }
}

/// A node of the trie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Node {
    /// Under how many bytes it is found.
    pub(super) level: usize,
    /// At which byte its children differ.
    pub(super) depth: usize,
    /// The `depth` bytes that all keys below it share, zeros behind them.
    pub(super) prefix: u64,
    pub(super) children: Children,
}

impl Node {
    /// How many units it takes.
    pub(super) fn units(&self) -> usize {
        units_of(self.children.count())
    }
}

/// How many units a node of so many children takes.
#[inline]
pub(super) fn units_of(count: usize) -> usize {
    1 + usize::from(count > SMALL) + usize::from(count > MEDIUM)
}

/// An entry of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// A key of a group of this level, and its value.
    Leaf { level: usize, key: u64, value: Word },
    /// A node.
    Node(Node),
}

impl Entry {
    /// In which table it is.
    #[inline]
    pub(super) fn table(&self) -> Table {
        match self {
            Self::Leaf { .. } => Table::Leaves,
            Self::Node(_) => Table::Nodes,
        }
    }

    /// The level and the prefix under which it is found.
    #[inline(always)]
    pub(super) fn home(&self) -> (usize, u64) {
        match *self {
            Self::Leaf { level, key, .. } => (level, prefix_of(key, level)),
            Self::Node(Node { level, prefix, .. }) => (level, prefix_of(prefix, level)),
        }
    }

    /// The number in the slot where it begins.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        match *self {
            Self::Leaf { key, .. } => key,
            Self::Node(node) => node.prefix,
        }
    }

    /// How many slots it takes in a map whose values have bytes or have not.
    #[inline(always)]
    pub(super) fn slots(&self, has_values: bool) -> usize {
        match self {
            Self::Leaf { .. } => 1 + usize::from(has_values),
            Self::Node(node) => 2 * node.units(),
        }
    }
}

/// A copy of a bucket, to be changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    pub(super) kinds: Kinds,
    pub(super) slots: [Word; SLOTS],
}

impl Image {
    #[cfg(test)]
    const EMPTY: Self = Self { kinds: Kinds(0), slots: [core::ptr::null_mut(); SLOTS] };

    #[inline(always)]
    pub(super) fn words(&self) -> Words<'_> {
        Words::copied(self.kinds, &self.slots)
    }

    /// How many slots are free.
    #[inline(always)]
    pub(super) fn free(&self) -> usize {
        self.kinds.free()
    }

    /// Gives the node of this level that begins in a slot one more child, if that takes no more units; tells whether it does.
    pub(super) fn add_child(&mut self, (level, slot): (usize, usize), byte: u8) -> bool {
        let info = number_of(self.slots[slot + UNITS]);
        let count = (info >> 4 & 0xfff) as usize;
        if count > MEDIUM {
            let word = &mut self.slots[[1, 2, 4, 5][usize::from(byte >> 6)]];
            *word = word_of(number_of(*word) | 1 << (byte & 63));
            self.slots[slot + UNITS] = word_of(info + (1 << 4));
            return true;
        }
        if units_of(count + 1) > units_of(count) {
            return false;
        }
        let mut node = self.words().node(slot, level);
        node.children.insert(byte);
        self.store_node(slot, &node);
        true
    }

    /// Takes the entry that begins in a slot out.
    pub(super) fn remove(&mut self, slot: usize, has_values: bool) {
        let units = match self.kinds.of(slot) {
            Kind::Leaf(_) if has_values => 1,
            Kind::Leaf(_) => {
                self.kinds.set(slot, 0);
                return;
            }
            Kind::Node(level) => self.words().node(slot, level).units(),
            Kind::Free | Kind::Rest => unreachable!("an entry begins here"),
        };
        for unit in slot..slot + units {
            self.kinds.set(unit, 0);
            self.kinds.set(unit + UNITS, 0);
        }
    }

    /// Puts an entry in, for which there is room. What else is there may move.
    pub(super) fn add(&mut self, entry: &Entry, has_values: bool) {
        debug_assert!(self.free() >= entry.slots(has_values));
        match *entry {
            Entry::Leaf { level, key, value } => self.add_leaf(level, key, value, has_values),
            Entry::Node(node) => {
                let units = node.units();
                let free = (0..=UNITS - units)
                    .find(|at| (*at..at + units).all(|unit| self.is_free_unit(unit)));
                let at = free.unwrap_or_else(|| self.compact(has_values));
                self.store_node(at, &node);
            }
        }
    }

    fn is_free_unit(&self, unit: usize) -> bool {
        self.kinds.byte(unit) | self.kinds.byte(unit + UNITS) == 0
    }

    fn add_leaf(&mut self, level: usize, key: u64, value: Word, has_values: bool) {
        let slots = if has_values { 0..UNITS } else { 0..SLOTS };
        let Some(slot) = slots.into_iter().find(|slot| self.kinds.byte(*slot) == 0) else {
            unreachable!("there is room");
        };
        self.slots[slot] = word_of(key);
        self.kinds.set(slot, Kinds::LEAF | level as u64);
        if has_values {
            self.slots[slot + UNITS] = value;
            self.kinds.set(slot + UNITS, Kinds::REST);
        }
    }

    /// Moves nodes to the first units and leaves behind them; returns the first unit that has no node.
    fn compact(&mut self, has_values: bool) -> usize {
        let old = *self;
        let old = old.words();
        // Who is away stays so.
        self.kinds.0 &= !(Kinds::AWAY - 1);
        let mut unit = 0;
        for slot in old.kinds.heads() {
            if let Entry::Node(node) = old.entry(slot, has_values) {
                self.store_node(unit, &node);
                unit += node.units();
            }
        }
        // Leaves from the back, so that the units in front of them stay free.
        let mut places = (unit..UNITS).rev().flat_map(|unit| [unit + UNITS, unit]);
        for slot in old.kinds.heads() {
            if let Entry::Leaf { level, key, value } = old.entry(slot, has_values) {
                let mut place = places.next();
                if has_values {
                    place = places.next();
                }
                let Some(place) = place else { unreachable!("there was room before") };
                self.slots[place] = word_of(key);
                self.kinds.set(place, Kinds::LEAF | level as u64);
                if has_values {
                    self.slots[place + UNITS] = value;
                    self.kinds.set(place + UNITS, Kinds::REST);
                }
            }
        }
        unit
    }

    fn store_node(&mut self, at: usize, node: &Node) {
        let units = node.units();
        for unit in at..at + units {
            self.kinds.set(unit, Kinds::REST);
            self.kinds.set(unit + UNITS, Kinds::REST);
        }
        self.kinds.set(at, Kinds::NODE | node.level as u64);
        self.slots[at] = word_of(node.prefix);
        let count = node.children.count();
        let mut info = node.depth as u64 | (count as u64) << 4;
        if units == UNITS {
            let [a, b, c, d] = node.children.0.map(word_of);
            (self.slots[1], self.slots[2], self.slots[4], self.slots[5]) = (a, b, c, d);
        } else {
            let (mut more, mut from, mut place) = ([0_u64; 2], 0, 0);
            while let Some(byte) = node.children.next(from) {
                from = usize::from(byte) + 1;
                if place < SMALL {
                    info |= u64::from(byte) << (16 + 8 * place);
                } else {
                    more[(place - SMALL) / 8] |= u64::from(byte) << ((place - SMALL) % 8 * 8);
                }
                place += 1;
            }
            if units == 2 {
                self.slots[at + 1] = word_of(more[0]);
                self.slots[at + 1 + UNITS] = word_of(more[1]);
            }
        }
        self.slots[at + UNITS] = word_of(info);
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::index::mlp_index::words::Packed;

    fn node(children: impl IntoIterator<Item = u8>) -> Node {
        let mut set = Children::default();
        children.into_iter().for_each(|byte| set.insert(byte));
        Node { level: 2, depth: 3, prefix: 0x0102_0300 << 32, children: set }
    }

    #[test]
    fn prefixes_are_cut_at_every_length() {
        let key = 0x0102_0304_0506_0708;
        assert_eq!((prefix_of(key, 0), prefix_of(key, 8)), (0, key));
        assert_eq!(prefix_of(key, 3), 0x0102_0300_0000_0000);
        assert!(same_prefix(key, key ^ 1, 7) && !same_prefix(key, key ^ 1, 8));
        assert!(same_prefix(0, u64::MAX, 0));
        assert_eq!((shared_bytes(key, key), shared_bytes(key, key ^ 0x100)), (8, 6));
        assert_eq!((byte_of(key, 0), byte_of(key, 7)), (1, 8));
        assert_eq!(child_of(prefix_of(key, 3), 3, 9), 0x0102_0309_0000_0000);
    }

    #[test]
    fn children_are_found_in_both_directions() {
        let set = node([0, 63, 64, 200, 255]).children;
        let up: Vec<u8> =
            core::iter::successors(set.next(0), |b| set.next(usize::from(*b) + 1)).collect();
        assert_eq!(up, [0, 63, 64, 200, 255]);
        let down: Vec<u8> =
            core::iter::successors(set.previous(256), |b| set.previous(usize::from(*b))).collect();
        assert_eq!(down, [255, 200, 64, 63, 0]);
        assert_eq!((set.next(256), set.previous(0), set.count()), (None, None, 5));
    }

    #[test]
    fn nodes_of_all_sizes_come_back() {
        for count in 1..=256_usize {
            let children = (0..count).map(|i| (i * 89 % 256) as u8);
            let node = node(children);
            let mut image = Image::EMPTY;
            image.add(&Entry::Node(node), true);
            assert_eq!(image.words().node(0, 2), node, "{count} children");
            let packed = image.words().packed(0, 0);
            for byte in 0..=255 {
                let key = node.prefix | u64::from(byte) << 32;
                assert_eq!(packed.leads_to(key), node.children.contains(byte), "{count} {byte}");
            }
            assert_eq!(image.free(), 6 - 2 * node.units());
            image.remove(0, true);
            assert_eq!(image.free(), 6);
        }
    }

    #[test]
    fn a_child_that_is_added_in_place_is_one_like_any_other() {
        for count in (1..256_usize).filter(|count| units_of(count + 1) == units_of(*count)) {
            let bytes = |count| (0..count).map(|i| (i * 89 % 256) as u8);
            let mut image = Image::EMPTY;
            image.add(&Entry::Node(node(bytes(count))), true);
            let packed = image.words().packed(0, 0);
            let more = packed.with_child((count * 89 % 256) as u8);
            for (slot, word) in more.into_iter().flatten() {
                image.slots[slot] = word_of(word);
            }
            assert_eq!(image.words().node(0, 2), node(bytes(count + 1)), "{count} children");
        }
    }

    fn find_key(image: &Image, key: u64) -> Option<usize> {
        (0..SLOTS).find(|slot| image.kinds.is_leaf(*slot) && image.words().number(*slot) == key)
    }

    #[test]
    fn who_is_away_is_counted_up_to_many() {
        let mut kinds = Kinds(Kinds::LEAF);
        for hash in 0..3 {
            kinds.sent_away(hash << 10);
        }
        assert!(kinds.may_be_away(0) && !kinds.may_be_away(0xfff) && kinds.agrees_with(3));
        (0..3).for_each(|_| kinds.back().unwrap());
        assert_eq!(kinds.back(), None);
        assert_eq!(kinds, Kinds(Kinds::LEAF));
        (0..20).for_each(|_| kinds.sent_away(0xfff));
        (0..20).for_each(|_| kinds.back().unwrap());
        assert!(kinds.may_be_away(0xfff) && kinds.agrees_with(0) && kinds.agrees_with(5));
        assert_eq!(kinds.used(), 1);
    }

    #[test]
    fn entries_of_all_kinds_share_a_bucket() {
        let leaf = |key| Entry::Leaf { level: 3, key, value: word_of(key + 1) };
        for has_values in [true, false] {
            let (small, medium) = (Entry::Node(node(0..3)), Entry::Node(node(0..20)));
            let mut image = Image::EMPTY;
            // The middle unit is taken, so the node of two units makes the leaf move.
            for leaf in [leaf(7), leaf(8)] {
                image.add(&leaf, has_values);
            }
            image.remove(0, has_values);
            image.add(&medium, has_values);
            assert!(find_key(&image, 8).is_some() && find_key(&image, 7).is_none());
            let mut found = Packed::NONE;
            assert!(image.words().find_node(&mut found, (2, 0x0102 << 48), 0));
            let (_, slot) = found.at;
            assert_eq!(image.words().entry(slot, has_values), medium);
            image.remove(slot, has_values);
            image.add(&small, has_values);
            let key = find_key(&image, 8).unwrap();
            if has_values {
                assert_eq!(number_of(image.words().value(key, true)), 9);
            }
        }
        let mut set = Image::EMPTY;
        (0..6).for_each(|key| set.add(&leaf(key), false));
        assert!(set.free() == 0 && (0..6).all(|key| find_key(&set, key).is_some()));
        (0..6).step_by(2).for_each(|key| set.remove(find_key(&set, key).unwrap(), false));
        set.add(&Entry::Node(node(0..2)), false);
        assert!((0..6).all(|key| find_key(&set, key).is_some() == (key % 2 == 1)));
        assert_eq!(set.kinds.heads().count(), 4);
    }
}
