//! Reading a bucket: its words where they are, or those of a copy.
//!
//! A search reads words that may not belong together, and validates what it made of them afterwards. So any words at all give
//! some answer here.
//!
//! The invariants are those of `layout.rs`. PAPER: section 4.3, "Bucketized Cuckoo Hashing".

use core::hint::select_unpredictable;

use super::layout::{
    Children, Entry, GROUP, Kind, Kinds, LEVELS, MEDIUM, Node, SLOTS, SMALL, UNITS, Way, byte_of,
    number_of, prefix_of, same_prefix, units_of,
};
use super::raw::Bucket;
use crate::mem::word::Word;

/// The words of a bucket, to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    pub(super) kinds: Kinds,
    slots: Slots<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Slots<'a> {
    Shared(&'a Bucket),
    Copied(&'a [Word; SLOTS]),
}

/// One key of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) key: u64,
    pub(super) value: Word,
    /// Where it is: in the first bucket or the second, and in which slot.
    pub(super) at: (usize, usize),
}

/// The keys that share a prefix, in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    keys: [u64; GROUP],
    values: [Word; GROUP],
    at: [(u8, u8); GROUP],
    len: u8,
}

impl Group {
    pub(super) const EMPTY: Self = Self {
        keys: [0; GROUP],
        values: [core::ptr::null_mut(); GROUP],
        at: [(0, 0); GROUP],
        len: 0,
    };

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    #[inline(always)]
    pub(super) fn members(&self) -> impl Iterator<Item = Member> {
        (0..self.len().min(GROUP)).map(|n| {
            let (bucket, slot) = self.at[n];
            let at = (usize::from(bucket), usize::from(slot));
            Member { key: self.keys[n], value: self.values[n], at }
        })
    }

    /// Forgets the keys of the second bucket, or of both.
    #[inline(always)]
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = len as u8;
    }
}

/// A node as it lies in its bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packed {
    /// Where it is: in the first bucket or the second, and in which slot.
    pub(super) at: (usize, usize),
    pub(super) prefix: u64,
    info: u64,
    more: [u64; 4],
}

impl Packed {
    pub(super) const NONE: Self = Self { at: (0, 0), prefix: 0, info: 0, more: [0; 4] };

    #[inline(always)]
    pub(super) fn depth(&self) -> usize {
        (self.info & 0xf) as usize
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        (self.info >> 4 & 0xfff) as usize
    }

    /// Whether a key goes on below one of the children.
    #[inline(always)]
    pub(super) fn leads_to(&self, key: u64) -> bool {
        same_prefix(self.prefix, key, self.depth()) && self.contains(byte_of(key, self.depth()))
    }

    #[inline(always)]
    fn contains(&self, byte: u8) -> bool {
        let count = self.count();
        if count > MEDIUM {
            return Children(self.more).contains(byte);
        }
        let few = count.min(SMALL);
        few > 0 && first_bytes_have(self.info >> 16, few, byte)
            || count > SMALL && first_bytes_have(self.more[0], (count - SMALL).min(8), byte)
            || count > SMALL + 8 && first_bytes_have(self.more[1], count - SMALL - 8, byte)
    }

    /// The first child from a place on.
    #[inline(always)]
    pub(super) fn child_from(&self, way: Way, place: usize) -> Option<u8> {
        if self.count() > MEDIUM {
            return way.child_from(&Children(self.more), place);
        }
        way.child_from(&self.unpacked(0).children, place)
    }

    /// What changes if it gets one more child, which takes no more units: slots and their new words.
    #[inline(always)]
    pub(super) fn with_child(&self, byte: u8) -> [Option<(usize, u64)>; 2] {
        let ((_, slot), count, more) = (self.at, self.count(), u64::from(byte));
        let info = self.info + (1 << 4);
        if count < SMALL {
            return [Some((slot + UNITS, info | more << (16 + 8 * count))), None];
        }
        let changed = if count > MEDIUM {
            let word = usize::from(byte >> 6);
            ([1, 2, 4, 5][word], self.more[word] | 1 << (byte & 63))
        } else {
            let (word, at) = ((count - SMALL) / 8, (count - SMALL) % 8);
            (slot + 1 + word * UNITS, self.more[word] | more << (8 * at))
        };
        [Some((slot + UNITS, info)), Some(changed)]
    }

    /// The node, which is of this level.
    #[inline]
    pub(super) fn unpacked(&self, level: usize) -> Node {
        let count = self.count();
        let mut children = Children::default();
        if count > MEDIUM {
            children.0 = self.more;
        } else {
            let mut add = |mut bytes: u64, count: usize| {
                for _ in 0..count {
                    children.insert(bytes as u8);
                    bytes >>= 8;
                }
            };
            add(self.info >> 16, count.min(SMALL));
            add(self.more[0], count.saturating_sub(SMALL).min(8));
            add(self.more[1], count.saturating_sub(SMALL + 8));
        }
        Node { level, depth: self.depth(), prefix: self.prefix, children }
    }
}

/// A bucket as that of a node of three units, which has it for itself and a bit for each of its children there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide<'a>(&'a Bucket);

impl<'a> Wide<'a> {
    #[inline(always)]
    pub(super) fn of(bucket: &'a Bucket) -> Self {
        Self(bucket)
    }

    #[inline(always)]
    pub(super) fn has_prefix(self, prefix: u64) -> bool {
        number_of(self.0.slot(0)) == prefix
    }

    /// Whether there is a node under these `level` bytes.
    #[inline(always)]
    pub(super) fn is_node(self, level: usize, prefix: u64) -> bool {
        self.0.kinds().is_wide_node(level) & self.has_prefix(prefix)
    }

    /// Whether its children differ at this byte.
    #[inline(always)]
    pub(super) fn branches_at(self, depth: usize) -> bool {
        (number_of(self.0.slot(UNITS)) & 0xf) as usize == depth
    }

    /// What changes if it gets one more child, as [`Packed::with_child`]; `None` if it has that.
    #[inline(always)]
    pub(super) fn with_child(self, byte: u8) -> Option<[(usize, u64); 2]> {
        let word = usize::from(byte >> 6);
        let slot = word + 1 + word / 2;
        let (bits, bit) = (number_of(self.0.slot(slot)), 1 << (byte & 63));
        let info = number_of(self.0.slot(UNITS)) + (1 << 4);
        (bits & bit == 0).then_some([(UNITS, info), (slot, bits | bit)])
    }

    /// The byte next to one that is not the last.
    #[inline(always)]
    pub(super) fn next<const UP: bool>(byte: u8) -> u8 {
        if UP { byte.wrapping_add(1) } else { byte.wrapping_sub(1) }
    }

    /// Whether `byte` is a child, and the next child behind it, if that is near.
    #[inline(always)]
    pub(super) fn child_beside<const UP: bool>(self, byte: u8) -> Option<(bool, u8)> {
        let word = usize::from(byte >> 6);
        // In the slots 1, 2, 4 and 5.
        let bits = number_of(self.0.slot(word + 1 + word / 2));
        let at = byte & 63;
        if UP {
            let from = bits >> at;
            let behind = from >> 1;
            let next = byte.wrapping_add(1).wrapping_add(behind.trailing_zeros() as u8);
            (behind != 0).then_some((from & 1 != 0, next))
        } else {
            let from = bits << (63 - at);
            let behind = from << 1;
            let next = byte.wrapping_sub(1).wrapping_sub(behind.leading_zeros() as u8);
            (behind != 0).then_some((from >> 63 != 0, next))
        }
    }
}

/// The place of a key on the way up or down: what comes first has the smaller one.
#[inline(always)]
pub(super) fn place_of<const UP: bool>(key: u64) -> u64 {
    if UP { key } else { !key }
}

/// The first of some entries, on the way up or down.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstOf {
    place: u64,
    value: Word,
    is_any: bool,
}

impl FirstOf {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { place: u64::MAX, value: core::ptr::null_mut(), is_any: false }
    }

    /// The key and its value, if there is one.
    #[inline(always)]
    pub(super) fn entry<const UP: bool>(self) -> Option<(u64, Word)> {
        self.is_any.then_some((place_of::<UP>(self.place), self.value))
    }
}

/// Whether one of the lowest `count` bytes of a word, one to eight, is `byte`.
#[inline(always)]
fn first_bytes_have(word: u64, count: usize, byte: u8) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let differ = word ^ (ONES * u64::from(byte));
    // The highest bit of each byte that is zero, and perhaps of some above the first of these.
    let zero = differ.wrapping_sub(ONES) & !differ & (ONES << 7);
    zero.trailing_zeros() < 8 * count as u32
}

impl<'a> Words<'a> {
    #[inline(always)]
    pub(super) fn of(bucket: &'a Bucket) -> Self {
        Self { kinds: bucket.kinds(), slots: Slots::Shared(bucket) }
    }

    /// Those of a copy.
    #[inline(always)]
    pub(super) fn copied(kinds: Kinds, slots: &'a [Word; SLOTS]) -> Self {
        Self { kinds, slots: Slots::Copied(slots) }
    }

    #[inline(always)]
    pub(super) fn slot(self, slot: usize) -> Word {
        match self.slots {
            Slots::Shared(bucket) => bucket.slot(slot),
            Slots::Copied(slots) => slots[slot],
        }
    }

    /// The number in a slot.
    #[inline(always)]
    pub(super) fn number(self, slot: usize) -> u64 {
        number_of(self.slot(slot))
    }

    /// The value of the leaf in a slot.
    #[inline(always)]
    pub(super) fn value(self, slot: usize, has_values: bool) -> Word {
        if has_values { self.slot(slot % UNITS + UNITS) } else { core::ptr::null_mut() }
    }

    /// The slots whose number shares its first `level` bytes with `key`, a bit for each.
    ///
    /// No branch on any of them: which slot it is cannot be guessed.
    #[inline(always)]
    fn sharing(self, level: usize, key: u64, slots: usize) -> u32 {
        (0..slots).fold(0, |found, slot| {
            found | u32::from(same_prefix(self.number(slot), key, level)) << slot
        })
    }

    /// Whether there is a key of the group under the first `level` bytes of `key`.
    #[inline(always)]
    pub(super) fn has_group(self, (level, key): (usize, u64), has_values: bool) -> bool {
        (0..if has_values { UNITS } else { SLOTS }).fold(false, |found, slot| {
            let is_key = same_prefix(self.number(slot), key, level);
            found | self.kinds.is_leaf_of(slot, level) & is_key
        })
    }

    /// Calls `leaf` with the slot of each key of the group under the first `level` bytes of `key`.
    #[inline(always)]
    pub(super) fn under(
        self,
        (level, key): (usize, u64),
        has_values: bool,
        mut leaf: impl FnMut(usize),
    ) {
        let mut sharing = self.sharing(level, key, if has_values { UNITS } else { SLOTS });
        while sharing != 0 {
            let slot = sharing.trailing_zeros() as usize;
            sharing &= sharing - 1;
            if self.kinds.byte(slot) == Kinds::LEAF | level as u64 {
                leaf(slot);
            }
        }
    }

    /// Finds the first key from the place `start` on, of those that share their first `level` bytes with `key`, if it comes before
    /// what was found so far; tells whether there is any key, be it before `start`.
    ///
    /// No branch on the keys: which of them it is cannot be guessed.
    #[inline(always)]
    #[expect(clippy::needless_bitwise_bool, reason = "a lazy one is a branch")]
    pub(super) fn first_under<const UP: bool>(
        self,
        (level, key): (usize, u64),
        has_values: bool,
        start: u64,
        first: &mut FirstOf,
    ) -> bool {
        let (mut is_group, mut is_better, mut at) = (false, false, 0);
        for slot in 0..if has_values { UNITS } else { SLOTS } {
            let number = self.number(slot);
            let is_there = self.kinds.is_leaf_of(slot, level) & same_prefix(number, key, level);
            let place = place_of::<UP>(number);
            is_group |= is_there;
            let takes = is_there & (place >= start) & (place <= first.place);
            is_better |= takes;
            first.place = select_unpredictable(takes, place, first.place);
            at = select_unpredictable(takes, slot, at);
        }
        first.is_any |= is_better;
        first.value = select_unpredictable(is_better, self.value(at, has_values), first.value);
        is_group
    }

    /// Adds the keys of this bucket, a group's first or second, that share their first `level` bytes with `key`.
    #[inline(always)]
    pub(super) fn gather(
        self,
        group: &mut Group,
        at: (usize, u64),
        bucket: usize,
        has_values: bool,
    ) {
        self.under(at, has_values, |slot| {
            let n = group.len();
            // Never more in two buckets at one instant.
            if n < GROUP {
                group.keys[n] = self.number(slot);
                group.values[n] = self.value(slot, has_values);
                group.at[n] = (bucket as u8, slot as u8);
                group.len += 1;
            }
        });
    }

    /// Finds the node under the first `level` bytes of `key`; tells whether there is one.
    #[inline(always)]
    pub(super) fn find_node(
        self,
        node: &mut Packed,
        (level, key): (usize, u64),
        bucket: usize,
    ) -> bool {
        for slot in 0..UNITS {
            if self.kinds.byte(slot) == Kinds::NODE | level as u64
                && same_prefix(self.number(slot), key, level)
            {
                *node = self.packed(slot, bucket);
                return true;
            }
        }
        false
    }

    /// The node that begins in a slot.
    #[inline(always)]
    pub(super) fn packed(self, slot: usize, bucket: usize) -> Packed {
        let (prefix, info) = (self.number(slot), self.number(slot + UNITS));
        let mut node = Packed { at: (bucket, slot), prefix, info, more: [0; 4] };
        if node.count() > MEDIUM {
            node.more = [self.number(1), self.number(2), self.number(4), self.number(5)];
        } else if node.count() > SMALL {
            // A node of two units begins in one of the first two.
            let unit = (slot + 1) % UNITS;
            (node.more[0], node.more[1]) = (self.number(unit), self.number(unit + UNITS));
        }
        node
    }

    /// The level and the prefix of the entry that begins in a slot, and how many slots it has.
    #[inline]
    pub(super) fn name(self, slot: usize, has_values: bool) -> (usize, u64, usize) {
        let byte = self.kinds.byte(slot);
        let level = (byte & 0xf) as usize;
        let slots = match byte & 0xf0 {
            Kinds::LEAF => 1 + usize::from(has_values),
            _ => 2 * units_of((self.number(slot % UNITS + UNITS) >> 4 & 0xfff) as usize),
        };
        (level, prefix_of(self.number(slot), level.min(LEVELS)), slots)
    }

    /// The node of this level that begins in a slot.
    #[inline]
    pub(super) fn node(self, slot: usize, level: usize) -> Node {
        self.packed(slot, 0).unpacked(level)
    }

    /// The entry that begins in a slot.
    pub(super) fn entry(self, slot: usize, has_values: bool) -> Entry {
        match self.kinds.of(slot) {
            Kind::Leaf(level) => {
                let (key, value) = (self.number(slot), self.value(slot, has_values));
                Entry::Leaf { level, key, value }
            }
            Kind::Node(level) => Entry::Node(self.node(slot, level)),
            Kind::Free | Kind::Rest => unreachable!("an entry begins here"),
        }
    }
}
