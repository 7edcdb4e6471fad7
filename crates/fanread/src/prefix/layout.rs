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
//!          | children | id   |  meta  | id low | at | refs[0..10]                   |
//!          |  bytes   | high |        |        |    |                               |
//!          +----------+------+--------+--------+----+-------------------------------+
//!          id low: bits 16..48 of the hash; id high: bits 48..64 of the hash
//!          meta: bits 0..26 check, 26 ANCHOR, 27 WIDE, 28..32 how many more children there is room for
//!          at: the leaf of the bare prefix; with refs it forms one sequence of eleven
//!
//! wide     the same with WIDE set, no refs, and in place of the children bytes
//! node     bits 0..8 first byte, 8..24 first byte + refs - 1, 24..64 number of ref 0 - first byte, 64..80 children
//!
//! block    1 to 17 lines of 16 refs: EXACT and `at`, then one for each next byte from the first byte on, child or
//!          not. Refs are numbered from the start of the area of blocks.
//! ```
//!
//! A *ref* is a leaf, with EXACT set if nothing smaller needs to be considered, or 0.
//!
//! # Invariants
//!
//! * **N1** Children bytes ascend strictly, and `refs[i]` belongs to `children[i]`.
//! * **N2** A ref slot of a node and any word of the area of blocks holds refs or 0, at all times, and a ref slot
//!   that is not in use is 0. So whatever a torn view combines, it finds a leaf that the table held after the reader
//!   started, or 0.
//! * **N3** In a block, the ref of a byte that is no child is that of the byte before with EXACT set; ref 0 and
//!   those before the first child are `at` with EXACT set.

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
/// Lines of the longest block: 256 bytes, and ref 0.
pub(super) const BLOCK_LINES: usize = 256 / LINE_REFS + 1;

/// Where meta's fields are in word 1 of a node.
const CHECK_AT: u32 = 32;
const ANCHOR: u64 = 1 << 58;
const WIDE: u64 = 1 << 59;
/// At the very top, so that one shift leaves nothing else.
const ROOM_AT: u32 = 60;
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
    word.cast_signed() < 0
}

/// What marks a bucket, in lane 31. Even, so no tag equals it; and a sign bit, which is tested with one instruction.
pub(super) const MARK: u16 = 1 << 15;

/// The tag of a hash: odd, so neither 0 nor [`MARK`].
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u16 {
    debug_assert!(hash & 1 == 1);
    hash as u16
}

/// A hash as the table and all functions here use it: odd, so that its low bits are a tag.
#[inline(always)]
pub(super) fn odd(hash: u64) -> u64 {
    hash | 1
}

/// The home bucket of a hash in a table of `buckets` buckets.
///
/// The product maps hashes evenly to `0..buckets` and in order, so a table may have any size, and a copy of a table
/// fills the new one from front to back.
#[inline(always)]
pub(super) fn bucket_of(hash: u64, buckets: usize) -> usize {
    ((u128::from(hash) * buckets as u128) >> 64) as usize
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
        Self { meta: node.word(1), low: node.word(2) }
    }

    #[inline(always)]
    pub(super) fn id_low(self) -> u32 {
        self.low as u32
    }

    #[inline(always)]
    pub(super) fn at(self) -> u32 {
        (self.low >> 32) as u32
    }

    /// Which of a narrow node's children bytes are in use: the first ones.
    #[inline(always)]
    pub(super) fn children(self) -> u32 {
        ((1 << NARROW) - 1) >> (self.meta >> ROOM_AT)
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
        (self.meta >> CHECK_AT) as u32 & ((1 << CHECK_BITS) - 1)
    }
}

/// Returns entry `i` of the sequence of a narrow node: `at`, `refs[0]`, `refs[1]`, ..
#[inline(always)]
pub(super) fn sequence(node: &Line, i: usize) -> u32 {
    node.slot(AT_SLOT + i)
}

/// The last ref of a narrow node's sequence that belongs to one of `children`, the first ones, and the one before it. If
/// there is no child, these are `at` and no ref.
#[inline(always)]
pub(super) fn narrow_refs(node: &Line, children: u32) -> (u32, u32) {
    let i = AT_SLOT + (children << 1 | 1).ilog2() as usize;
    (node.slot(i - 1), node.slot(i))
}

/// Where a wide node's block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockAt {
    /// Its first line in the area of blocks.
    pub(super) line: u32,
    /// The byte of ref 1; a multiple of 16.
    pub(super) first: usize,
    pub(super) lines: usize,
    /// How many of its bytes are children.
    pub(super) count: usize,
}

impl BlockAt {
    /// The number of lines of a block for the bytes `first..=last`.
    pub(super) fn lines_for(first: usize, last: usize) -> usize {
        (last + 1 - first) / LINE_REFS + 1
    }

    fn load(node: &Line) -> Self {
        let word = node.word(0);
        let first = word as usize & 0xff;
        let refs = ((word >> 8) as usize & 0xffff) + 1 - first;
        Self {
            line: (((word >> 24) + first as u64) / LINE_REFS as u64) as u32,
            first,
            lines: refs / LINE_REFS,
            count: node.word(1) as usize & 0xffff,
        }
    }

    fn pack(self) -> u64 {
        let base = u64::from(self.line) * LINE_REFS as u64 - self.first as u64;
        self.first as u64 | ((self.first + self.refs() - 1) as u64) << 8 | base << 24
    }

    /// The number of its first ref in the area of blocks.
    pub(super) fn first_ref(self) -> usize {
        self.line as usize * LINE_REFS
    }

    /// How many refs the block has.
    #[inline(always)]
    pub(super) fn refs(self) -> usize {
        self.lines * LINE_REFS
    }
}

/// The number of the ref for `byte` in the block of the wide node with this first word, as few instructions as can be.
/// Bytes before the block have ref 0's, those behind it the last one's.
#[inline(always)]
pub(super) fn ref_of(locator: u64, byte: u8) -> usize {
    let (first, last) = (locator as usize & 0xff, (locator >> 8) as usize & 0xffff);
    (locator >> 24) as usize + (usize::from(byte) + 1).max(first).min(last)
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
            Children::Wide(BlockAt::load(node))
        } else {
            let all = [node.word(0).to_le_bytes(), node.word(1).to_le_bytes()].concat();
            Children::Narrow {
                count: head.children().count_ones() as usize,
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
        let mut meta = (self.hash >> 48) << 16 | u64::from(self.check) << CHECK_AT;
        if self.is_anchor {
            meta |= ANCHOR;
        }
        let first = match &self.children {
            Children::Narrow { count, bytes, refs } => {
                for (i, pair) in refs.chunks_exact(2).enumerate() {
                    node.set_word(3 + i, u64::from(pair[0]) | u64::from(pair[1]) << 32);
                }
                meta |= ((NARROW - count) as u64) << ROOM_AT | word(&bytes[8..]);
                word(&bytes[..8])
            }
            Children::Wide(block) => {
                (3..8).for_each(|i| node.set_word(i, 0));
                meta |= WIDE | block.count as u64;
                block.pack()
            }
        };
        node.set_word(2, (self.hash >> 16) & 0xffff_ffff | u64::from(self.at) << 32);
        node.set_word(0, first);
        node.set_word(1, meta);
    }
}

/// Up to eight bytes as a word, the first one lowest.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, b| word << 8 | u64::from(*b))
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_node_comes_back_as_it_was_stored() {
        for (is_anchor, wide) in [(false, false), (true, false), (false, true), (true, true)] {
            let block = BlockAt { line: 0x8765_4321, first: 240, lines: 2, count: 256 };
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
    fn a_node_that_becomes_wide_has_nothing_but_refs_in_its_ref_slots() {
        let block = BlockAt { line: u32::MAX, first: 16, lines: 3, count: 11 };
        let line = Line::default();
        let narrow = Image {
            hash: 0,
            check: 0,
            is_anchor: false,
            at: 1,
            children: Children::Narrow { count: 10, bytes: [7; NARROW], refs: [9; NARROW] },
        };
        narrow.store(&line);
        Image { children: Children::Wide(block), ..narrow }.store(&line);
        // A reader that saw a narrow node before may still take any of them.
        assert!((0..=NARROW).all(|i| sequence(&line, i) == u32::from(i == 0)));
    }

    #[test]
    fn every_byte_has_a_ref_in_every_block() {
        for (line, first, lines) in [(0, 0, BLOCK_LINES), (17, 240, 2), (18, 96, 1)] {
            let node = Line::default();
            let children = Children::Wide(BlockAt { line, first, lines, count: 11 });
            Image { hash: 0, check: 0, is_anchor: false, at: 1, children }.store(&node);
            for byte in 0..=u8::MAX {
                let i = (usize::from(byte) + 1).clamp(first, first + lines * 16 - 1) - first;
                assert_eq!(ref_of(node.word(0), byte), line as usize * 16 + i, "{first} {byte}");
            }
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
        (0..LANES).for_each(|lane| line.set_tag(lane, lane as u16 + 1));
        assert!(!is_marked(line.mark_word()));
        line.set_tag(LANES, MARK);
        line.set_tag(5, 0);
        assert!(
            (0..LANES).all(|lane| line.tag(lane) == if lane == 5 { 0 } else { lane as u16 + 1 })
        );
        assert!(is_marked(line.mark_word()));
        (0..8).for_each(|i| line.set_word(i, (2 * i as u64 + 2) << 32 | (2 * i as u64 + 1)));
        assert!((0..16).all(|i| line.slot(i) == i as u32 + 1));
    }
}
