//! The bytes of the prefix table: buckets of tags, nodes, and wide blocks of children.
//!
//! Everything is made of 64-byte lines of eight shared words.
//!
//! ```text
//! bucket   lane 0 .. 30: tag of the node at the same index, odd, 0 = free      lane 31: MARK or 0
//!          A node whose home bucket is full lies in a following one; each full bucket it passed is marked.
//!
//! node     0          10     12       16       20   24                              64
//!          +----------+------+--------+--------+----+-------------------------------+
//!          | children | meta | id     | id low | at | refs[0..10]                   |
//!          |  bytes   |      | high   |        |    |                               |
//!          +----------+------+--------+--------+----+-------------------------------+
//!          meta: bits 0..4 count, 4 ANCHOR, 5 WIDE, 6..16 check
//!          id low: bits 16..48 of the hash; id high: bits 48..64 of the hash, 16 more bits of check
//!          at: the leaf of the bare prefix; with refs it forms one sequence of eleven
//!
//! wide     the same with WIDE set, no children bytes, and in place of refs[0..2] one word:
//! node     bits 0..32 first line of its block, 32..40 first byte / 16, 40..48 lines, 48..64 count
//!
//! block    1 to 16 lines of 16 refs: one for each next byte from the first byte on, child or not
//! ```
//!
//! A *ref* is a leaf, with EXACT set if nothing smaller needs to be considered, or 0.
//!
//! # Invariants
//!
//! * **N1** Children bytes ascend strictly, and `refs[i]` belongs to `children[i]`.
//! * **N2** A ref slot that is not in use is 0. So whatever a torn view combines, it finds a leaf that the table
//!   held after the reader started, or 0.
//! * **N3** In a block, the ref of a byte that is no child is that of the byte before with EXACT set; before the
//!   first child it is `at` with EXACT set.

use core::num::NonZeroU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::sync::shim::{LineWords, line};

/// Names a leaf: 31 bits that mean something to the caller, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LeafRef(NonZeroU32);

impl LeafRef {
    /// Returns the reference with these bits, or `None` if they are 0 or use the top bit.
    #[inline(always)]
    pub(crate) fn new(bits: u32) -> Option<Self> {
        if bits & EXACT == 0 { NonZeroU32::new(bits).map(Self) } else { None }
    }

    /// The bits it was made of.
    #[inline(always)]
    pub(crate) fn get(self) -> u32 {
        self.0.get()
    }

    /// The leaf in a ref slot.
    #[inline(always)]
    pub(super) fn of(slot: u32) -> Option<Self> {
        NonZeroU32::new(slot & !EXACT).map(Self)
    }
}

/// In a ref: nothing smaller than this leaf needs to be considered.
pub(super) const EXACT: u32 = 1 << 31;

/// Tags in a bucket.
pub(super) const LANES: usize = 31;
/// Children in a node without a block.
pub(super) const NARROW: usize = 10;
/// Number of children at which a block is given up again. Much smaller than `NARROW`, so that a node at the
/// border does not move with each change; larger saves a little memory after removals.
pub(super) const NARROW_AGAIN: usize = 6;
/// Refs in a line of a block.
pub(super) const LINE_REFS: usize = 16;
/// Lines of the longest block.
pub(super) const BLOCK_LINES: usize = 256 / LINE_REFS;

const ANCHOR: u64 = 1 << 4;
const WIDE: u64 = 1 << 5;
/// Where `at` is in a node, counted in 4-byte slots; the refs follow.
const AT_SLOT: usize = 5;

/// Eight shared words.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Line {
    pub(super) words: LineWords,
}

const _: () = assert!(size_of::<Line>() == 64 && align_of::<Line>() == 64);
const _: () = assert!((AT_SLOT + 1 + NARROW) * 4 == size_of::<Line>());
const _: () = assert!((LANES + 1) * 2 == size_of::<Line>());

impl Line {
    /// Relaxed is enough for all words of the table: every word stands for itself (N2), and what a leaf's
    /// reference leads to is ordered by the fences in `search.rs` and `insert.rs`.
    #[inline(always)]
    pub(super) fn word(&self, i: usize) -> u64 {
        self.words[i].load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn set_word(&self, i: usize, value: u64) {
        self.words[i].store(value, Relaxed);
    }

    /// Returns 4-byte slot `i`.
    #[inline(always)]
    pub(super) fn slot(&self, i: usize) -> u32 {
        (self.word((i / 2) & 7) >> (32 * (i & 1))) as u32
    }

    pub(super) fn set_slot(&self, i: usize, value: u32) {
        let shift = 32 * (i & 1);
        let others = self.word(i / 2) & !(0xffff_ffff << shift);
        self.set_word(i / 2, others | (u64::from(value) << shift));
    }

    /// Returns the tag in `lane` of a bucket.
    pub(super) fn tag(&self, lane: usize) -> u16 {
        (self.word(lane / 4) >> (16 * (lane % 4))) as u16
    }

    pub(super) fn set_tag(&self, lane: usize, tag: u16) {
        let shift = 16 * (lane % 4);
        let others = self.word(lane / 4) & !(0xffff << shift);
        self.set_word(lane / 4, others | (u64::from(tag) << shift));
    }

    /// The lanes of a bucket that hold `tag`.
    #[inline(always)]
    pub(super) fn matches(&self, tag: u16) -> u32 {
        crate::arch::match_u16(line(&self.words), tag)
    }

    /// The last word of a bucket, for [`is_marked`].
    #[inline(always)]
    pub(super) fn mark_word(&self) -> u64 {
        self.word(7)
    }
}

/// Whether a node was passed on from the bucket with this last word, or from one of several or-ed together.
#[inline(always)]
pub(super) fn is_marked(word: u64) -> bool {
    word >> 48 != 0
}

/// What marks a bucket, in lane 31. Even, so no tag equals it.
pub(super) const MARK: u16 = 2;

/// The tag of a hash: its low bits, made odd, so neither 0 nor [`MARK`].
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u16 {
    hash as u16 | 1
}

/// The home bucket of a hash in a table of `buckets` buckets, from the upper half of the hash.
///
/// The product maps the half evenly to `0..buckets` and in order, so a table may have any size, and a copy of a table
/// fills the new one from front to back.
#[inline(always)]
pub(super) fn bucket_of(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

/// The part of a hash that a reader compares with a node's.
#[inline(always)]
pub(super) fn id_low(hash: u64) -> u32 {
    (hash >> 16) as u32
}

/// Bits of the second hash that a node keeps, so that the writer cannot take one node for another.
pub(super) const CHECK_BITS: u32 = 26;

/// What a reader needs of a node's head, from words that belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    meta: u64,
    low: u64,
}

impl Head {
    #[inline(always)]
    pub(super) fn of(node: &Line) -> Self {
        Self { meta: node.word(1) >> 16, low: node.word(2) }
    }

    #[inline(always)]
    pub(super) fn id_low(self) -> u32 {
        self.low as u32
    }

    #[inline(always)]
    pub(super) fn at(self) -> u32 {
        (self.low >> 32) as u32
    }

    #[inline(always)]
    pub(super) fn count(self) -> u32 {
        self.meta as u32 & 15
    }

    #[inline(always)]
    pub(super) fn is_wide(self) -> bool {
        self.meta & WIDE != 0
    }

    /// Bits 16..64 of the node's hash, in their places.
    pub(super) fn hash(self) -> u64 {
        (((self.meta >> 16) & 0xffff) << 48) | (u64::from(self.id_low()) << 16)
    }

    pub(super) fn check(self) -> u32 {
        (((self.meta >> 6) & 0x3ff) | ((self.meta >> 32) << 10)) as u32
    }
}

/// Returns entry `i` of the sequence of a narrow node: `at`, `refs[0]`, `refs[1]`, ..
#[inline(always)]
pub(super) fn sequence(node: &Line, i: usize) -> u32 {
    node.slot(AT_SLOT + i)
}

/// Where a wide node's block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockAt {
    /// Its first line in the area of blocks.
    pub(super) line: u32,
    /// The byte of its first ref; a multiple of 16.
    pub(super) first: usize,
    pub(super) lines: usize,
    /// How many of its bytes are children.
    pub(super) count: usize,
}

impl BlockAt {
    #[inline(always)]
    pub(super) fn of(node: &Line) -> Self {
        let word = node.word(3);
        Self {
            line: word as u32,
            first: (word >> 32) as usize & 0xff,
            lines: (word >> 40) as usize & 0xff,
            count: (word >> 48) as usize,
        }
        .scaled()
    }

    #[inline(always)]
    fn scaled(self) -> Self {
        Self { first: self.first * LINE_REFS, ..self }
    }

    pub(super) fn pack(self) -> u64 {
        u64::from(self.line)
            | ((self.first / LINE_REFS) as u64) << 32
            | (self.lines as u64) << 40
            | (self.count as u64) << 48
    }

    /// How many refs the block has.
    #[inline(always)]
    pub(super) fn refs(self) -> usize {
        self.lines * LINE_REFS
    }
}

/// A whole node, as the writer composes it.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// Bits 16..64 of the hash, in their places.
    pub(super) hash: u64,
    pub(super) check: u32,
    pub(super) is_anchor: bool,
    /// The bare prefix's leaf.
    pub(super) at: u32,
    pub(super) children: Children,
}

#[derive(Clone, Debug)]
pub(super) enum Children {
    Narrow { count: usize, bytes: [u8; NARROW], refs: [u32; NARROW] },
    Wide(BlockAt),
}

impl Children {
    pub(super) const NONE: Self = Self::Narrow { count: 0, bytes: [0; NARROW], refs: [0; NARROW] };

    pub(super) fn one(byte: u8, slot: u32) -> Self {
        let (mut bytes, mut refs) = ([0; NARROW], [0; NARROW]);
        (bytes[0], refs[0]) = (byte, slot);
        Self::Narrow { count: 1, bytes, refs }
    }
}

impl Image {
    pub(super) fn load(node: &Line) -> Self {
        let head = Head::of(node);
        let children = if head.is_wide() {
            Children::Wide(BlockAt::of(node))
        } else {
            let all = [node.word(0).to_le_bytes(), node.word(1).to_le_bytes()].concat();
            Children::Narrow {
                count: head.count() as usize,
                bytes: core::array::from_fn(|i| all[i]),
                refs: core::array::from_fn(|i| sequence(node, i + 1)),
            }
        };
        Self {
            hash: head.hash(),
            check: head.check(),
            is_anchor: head.meta & ANCHOR != 0,
            at: head.at(),
            children,
        }
    }

    /// Writes the node; refs first, so that a reader that sees a new child byte finds its ref on most machines.
    pub(super) fn store(&self, node: &Line) {
        let mut meta = (u64::from(self.check) & 0x3ff) << 6
            | (self.hash >> 48) << 16
            | u64::from(self.check >> 10) << 32;
        if self.is_anchor {
            meta |= ANCHOR;
        }
        let mut text = [0; 16];
        match &self.children {
            Children::Narrow { count, bytes, refs } => {
                for (i, pair) in refs.chunks_exact(2).enumerate() {
                    node.set_word(3 + i, u64::from(pair[0]) | u64::from(pair[1]) << 32);
                }
                text[..NARROW].copy_from_slice(bytes);
                meta |= *count as u64;
            }
            Children::Wide(block) => {
                node.set_word(3, block.pack());
                (4..8).for_each(|i| node.set_word(i, 0));
                meta |= WIDE;
            }
        }
        let (low, high) = text.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, b| word << 8 | u64::from(*b));
        node.set_word(2, (self.hash >> 16) & 0xffff_ffff | u64::from(self.at) << 32);
        node.set_word(0, word(low));
        node.set_word(1, word(high) | meta << 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_comes_back_as_it_was_stored() {
        for (is_anchor, wide) in [(false, false), (true, false), (false, true), (true, true)] {
            let block = BlockAt { line: 0x8765_4321, first: 240, lines: 1, count: 11 };
            let children = if wide {
                Children::Wide(block)
            } else {
                Children::Narrow {
                    count: 10,
                    bytes: core::array::from_fn(|i| i as u8 * 25 + 5),
                    refs: core::array::from_fn(|i| EXACT | (i as u32 + 1)),
                }
            };
            let image =
                Image { hash: !0 << 16, check: (1 << CHECK_BITS) - 1, is_anchor, at: 77, children };
            let line = Line::default();
            image.store(&line);
            let back = Image::load(&line);
            assert_eq!(format!("{back:?}"), format!("{image:?}"));
            assert_eq!(Head::of(&line).id_low(), u32::MAX);
        }
    }

    #[test]
    fn a_leaf_reference_leaves_the_top_bit_alone() {
        assert_eq!(LeafRef::new(0), None);
        assert_eq!(LeafRef::new(EXACT | 1), None);
        assert_eq!(LeafRef::new(7).map(LeafRef::get), Some(7));
        assert_eq!(LeafRef::of(EXACT | 7), LeafRef::new(7));
        assert_eq!(LeafRef::of(EXACT), None);
    }

    #[test]
    fn tags_and_slots_do_not_disturb_their_neighbours() {
        let line = Line::default();
        (0..=LANES).for_each(|lane| line.set_tag(lane, lane as u16 + 1));
        line.set_tag(5, 0);
        assert!(
            (0..=LANES).all(|lane| line.tag(lane) == if lane == 5 { 0 } else { lane as u16 + 1 })
        );
        assert!(is_marked(line.mark_word()));
        (0..16).for_each(|i| line.set_slot(i, i as u32 + 1));
        line.set_slot(3, 0);
        assert!((0..16).all(|i| line.slot(i) == if i == 3 { 0 } else { i as u32 + 1 }));
    }
}
