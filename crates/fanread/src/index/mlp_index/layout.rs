//! The bytes of a bucket: what its six slots hold, as an image apart from the shared line.
//!
//! Readers and writers look at a bucket through a copy of its slots, an [`Image`], that was validated as a whole. So all that
//! is said here is about plain values.
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
//! info             D in bits 0 to 3, the number of children in 4 to 15, children from 16 on, ascending
//! kinds            a byte for each slot: 0 free, 0x10 + L leaf, 0x20 + L node, 0x30 rest of either
//! ```
//!
//! # Invariants
//!
//! * **B3** A slot of kind 0 is free and may hold anything; units of a node lie side by side.
//! * **T3** A node has `L <= D <= 7`, at least one child once it is shared, and the first `D` bytes of all keys below it,
//!   zeros behind them.
//!
//! `check.rs` tests both. PAPER: section 4.3, "Bucketized Cuckoo Hashing"; its buckets have four units and no version.

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
const SMALL: usize = 6;
const MEDIUM: usize = 22;

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
    // Shifts by 64 in two steps.
    let half = 32 - 4 * level as u32;
    key >> half >> half << half << half
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
    const LEAF: u64 = 0x10;
    const NODE: u64 = 0x20;
    const REST: u64 = 0x30;

    #[inline(always)]
    fn byte(self, slot: usize) -> u64 {
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

    /// Whether a slot begins a node of this level.
    #[inline(always)]
    pub(super) fn is_node_of(self, slot: usize, level: usize) -> bool {
        self.byte(slot) == Self::NODE | level as u64
    }

    fn set(&mut self, slot: usize, byte: u64) {
        self.0 = self.0 & !(0xff << (8 * slot)) | byte << (8 * slot);
    }

    /// How many slots are in use.
    #[inline(always)]
    pub(super) fn used(self) -> usize {
        // Every kind but 0 has bit 4 or bit 5.
        ((self.0 | self.0 >> 1) & 0x1010_1010_1010).count_ones() as usize
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
        let count = self.children.count();
        1 + usize::from(count > SMALL) + usize::from(count > MEDIUM)
    }
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
    /// The level and the prefix under which it is found.
    #[inline(always)]
    pub(super) fn home(&self) -> (usize, u64) {
        match *self {
            Self::Leaf { level, key, .. } => (level, prefix_of(key, level)),
            Self::Node(Node { level, prefix, .. }) => (level, prefix_of(prefix, level)),
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

/// What a bucket held at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    pub(super) kinds: Kinds,
    pub(super) slots: [Word; SLOTS],
}

impl Image {
    #[cfg(test)]
    const EMPTY: Self = Self { kinds: Kinds(0), slots: [core::ptr::null_mut(); SLOTS] };

    /// How many slots are free.
    #[inline(always)]
    pub(super) fn free(&self) -> usize {
        SLOTS - self.kinds.used()
    }

    /// The number in a slot.
    #[inline(always)]
    pub(super) fn number(&self, slot: usize) -> u64 {
        number_of(self.slots[slot])
    }

    /// The slots where entries begin.
    pub(super) fn heads(&self) -> impl Iterator<Item = usize> + use<> {
        let kinds = self.kinds;
        (0..SLOTS).filter(move |slot| matches!(kinds.of(*slot), Kind::Leaf(_) | Kind::Node(_)))
    }

    /// The slots of the keys of a group.
    #[inline(always)]
    pub(super) fn group(&self, level: usize, key: u64) -> impl Iterator<Item = usize> + use<'_> {
        (0..SLOTS).filter(move |slot| {
            self.kinds.is_leaf_of(*slot, level) && same_prefix(self.number(*slot), key, level)
        })
    }

    /// The slot of a key.
    #[inline(always)]
    pub(super) fn find_key(&self, key: u64) -> Option<usize> {
        (0..SLOTS).find(|slot| self.number(*slot) == key && self.kinds.is_leaf(*slot))
    }

    /// The slot of the node under the first `level` bytes of `key`.
    #[inline(always)]
    pub(super) fn find_node(&self, level: usize, key: u64) -> Option<usize> {
        (0..UNITS).find(|slot| {
            self.kinds.is_node_of(*slot, level) && same_prefix(self.number(*slot), key, level)
        })
    }

    /// The value of the leaf in a slot, of a map whose values have bytes.
    #[inline(always)]
    pub(super) fn value(&self, slot: usize) -> Word {
        self.slots[slot % UNITS + UNITS]
    }

    /// The entry that begins in a slot.
    pub(super) fn entry(&self, slot: usize, has_values: bool) -> Entry {
        match self.kinds.of(slot) {
            Kind::Leaf(level) => {
                let value = if has_values { self.value(slot) } else { core::ptr::null_mut() };
                Entry::Leaf { level, key: self.number(slot), value }
            }
            _ => Entry::Node(self.node(slot)),
        }
    }

    /// The node that begins in a slot.
    #[inline]
    pub(super) fn node(&self, slot: usize) -> Node {
        let Kind::Node(level) = self.kinds.of(slot) else { unreachable!("a node begins here") };
        let info = self.number(slot + UNITS);
        let (depth, count) = ((info & 0xf) as usize, (info >> 4 & 0xfff) as usize);
        let mut children = Children::default();
        if count > MEDIUM {
            children.0 = [self.number(1), self.number(2), self.number(4), self.number(5)];
        } else {
            let mut bytes = info >> 16;
            for _ in 0..count.min(SMALL) {
                children.insert(bytes as u8);
                bytes >>= 8;
            }
            for more in 0..count.saturating_sub(SMALL) {
                let word = self.number(slot + 1 + more / 8 * UNITS);
                children.insert((word >> (more % 8 * 8)) as u8);
            }
        }
        Node { level, depth, prefix: self.number(slot), children }
    }

    /// Takes the entry that begins in a slot out.
    pub(super) fn remove(&mut self, slot: usize, has_values: bool) {
        let units = match self.kinds.of(slot) {
            Kind::Leaf(_) if has_values => 1,
            Kind::Leaf(_) => {
                self.kinds.set(slot, 0);
                return;
            }
            _ => self.node(slot).units(),
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
        self.kinds = Kinds(0);
        let mut unit = 0;
        for slot in old.heads() {
            if let Entry::Node(node) = old.entry(slot, has_values) {
                self.store_node(unit, &node);
                unit += node.units();
            }
        }
        // Leaves from the back, so that the units in front of them stay free.
        let mut places = (unit..UNITS).rev().flat_map(|unit| [unit + UNITS, unit]);
        for slot in old.heads() {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(image.node(0), node, "{count} children");
            assert_eq!(image.free(), 6 - 2 * node.units());
            image.remove(0, true);
            assert_eq!(image.free(), 6);
        }
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
            assert!(image.find_key(8).is_some() && image.find_key(7).is_none());
            let slot = image.find_node(2, 0x0102 << 48).unwrap();
            assert_eq!(image.entry(slot, has_values), medium);
            image.remove(slot, has_values);
            image.add(&small, has_values);
            let key = image.find_key(8).unwrap();
            if has_values {
                assert_eq!(number_of(image.value(key)), 9);
            }
        }
        let mut set = Image::EMPTY;
        (0..6).for_each(|key| set.add(&leaf(key), false));
        assert!(set.free() == 0 && (0..6).all(|key| set.find_key(key).is_some()));
        (0..6).step_by(2).for_each(|key| set.remove(set.find_key(key).unwrap(), false));
        set.add(&Entry::Node(node(0..2)), false);
        assert!((0..6).all(|key| set.find_key(key).is_some() == (key % 2 == 1)));
        assert_eq!(set.heads().count(), 4);
    }
}
