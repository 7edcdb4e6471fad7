//! A trie beside its buckets: a header of three lines or four, and where the blocks of its table are.
//!
//! ```text
//! line -2   prefix 8..48
//! line -1   low record 8, high record 8, low slice 8, high slice 8, prefix 8, mask 8, next 4, prev 4, bounded 1
//! line 0    version 8, levels 8, step 4, skip 4, filled 4, buckets 2, shift 1, entry 1, marks 1, leaves 1, hinted 4 | 3 pairs of blocks, 8 each
//! line 1    7 more pairs; of a table smaller than a block, the buckets from here on
//! ```
//!
//! A trie is named by the unit of line 0. A descent needs that line, and the next if the table is large; the two lines before it are
//! for who found nothing, and for writers. The headers of a large map lie together, so that those of all its tries stay near.
//! *Filled* is how many keys there are and what all nodes weigh. *Prefix*, *mask* and *slices* are those of a leaf of a Wormhole:
//! what all keys share, as whole bytes, and the eight bytes of each border behind it.
//!
//! A table of a block or more consists of pairs of blocks, which lie side by side, and of one block more if their number is odd.
//!
//! *Hints* are what tries with long paths have behind their buckets, in half of their last block or in all of it: by a key's hash,
//! the levels of the leaves of such keys (`hints.rs`). So most searches need none of the nodes above the leaf.

use core::mem::{offset_of, size_of};

use super::layout::{
    BLOCK_BUCKETS, BUCKET_WEIGHT, FULL_WEIGHT, MAX_BLOCKS, MAX_BUCKETS, SLOT_WEIGHT,
};
use super::state::ROUND_BITS;
use crate::mem::LINE_BYTES;
use crate::mem::arena::Arena;
use crate::sync::shim::{AtomicU8, AtomicU32, AtomicU64};
use crate::sync::version::Version;

/// The arena of tries: units of one line, a first chunk of 512 bytes, which holds one trie of four buckets.
pub(super) type Lines = Arena<6, 3>;

/// Pairs of blocks that a header can list.
pub(super) const LISTED: usize = MAX_BLOCKS / 2;

/// In a trie's marks, what names know of its round.
pub(super) const ROUND: u8 = (1 << ROUND_BITS) - 1;
/// A leaf is above the leaf level, or a label passes over it (T11).
pub(super) const UNEVEN: u8 = 1 << ROUND_BITS;
/// There are hints.
pub(super) const HINTED: u8 = UNEVEN << 1;
/// A bucket's version has come near its end (`layout::WORN`).
pub(super) const WORN_OUT: u8 = UNEVEN << 2;

/// What a header says of hints is a level below, and marks of hints above.
pub(super) const LEVEL: u32 = 0xffff;

/// Lines of a header, and one more if it lists blocks.
pub(super) const HEADER_LINES: usize = 3;
pub(super) const LIST_LINES: usize = 1;

/// Lines before the one that names the trie.
pub(super) const NAME_AT_LINE: usize = 2;

/// Pairs listed in line 0.
const FIRST_PAIRS: usize = 3;

/// Where the list of pairs starts, counted from line 0.
pub(super) const PAIRS_AT: usize = offset_of!(Header, pairs);

/// Prefix bytes that a trie keeps. Longer prefixes are compared with the border records.
pub(super) const KEPT_PREFIX_BYTES: usize = 48;

/// Line 0: what a descent needs.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Header {
    pub(super) version: Version,
    /// The levels that paths usually have, a bit for each.
    pub(super) levels: AtomicU64,
    /// States of one bucket, rounded down.
    pub(super) step: u32,
    /// Bits of a key before its first symbol.
    pub(super) skip_bits: u32,
    /// Keys, and what all nodes weigh: [`Filled`].
    pub(super) filled: AtomicU32,
    pub(super) buckets: u16,
    /// How far a state is shifted to the right: states are on top of their word, and small tables use fewer bits.
    pub(super) shift: u8,
    /// The level where a search may start.
    pub(super) entry: u8,
    /// The round, which is the attempt at a root that this is, and marks.
    pub(super) marks: AtomicU8,
    /// The level where, and on the next, most leaves are; 0: there is none.
    pub(super) leaf_level: u8,
    /// The first level that half a byte names; 0: hints are bytes, or not there. In the upper half those of the named levels where
    /// many leaves are, a bit for each hint.
    pub(super) hinted: AtomicU32,
    /// Where the first pairs are.
    pub(super) pairs: [*mut u8; FIRST_PAIRS],
}

/// How many keys a trie has, and what its nodes weigh, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Filled(pub(super) u32);

impl Filled {
    /// The lightest nodes weigh three, so of what a table holds this is enough for the keys, and the rest for their weight.
    const KEY_BITS: u32 = 15;
    const MAX_KEYS: usize = (1 << Self::KEY_BITS) - 1;

    pub(super) fn new(keys: usize, weight: usize) -> Self {
        debug_assert!(keys <= Self::MAX_KEYS && weight >> (u32::BITS - Self::KEY_BITS) == 0);
        Self(keys as u32 | (weight as u32) << Self::KEY_BITS)
    }

    pub(super) fn keys(self) -> usize {
        self.0 as usize & Self::MAX_KEYS
    }

    pub(super) fn weight(self) -> usize {
        (self.0 >> Self::KEY_BITS) as usize
    }
}

const MAX_WEIGHT: usize = MAX_BUCKETS as usize * BUCKET_WEIGHT;
const _: () = assert!(MAX_WEIGHT / SLOT_WEIGHT as usize <= Filled::MAX_KEYS);
const _: () = assert!(MAX_WEIGHT >> (u32::BITS - Filled::KEY_BITS) == 0);

/// Line -1: where the trie lies among others.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Border {
    /// Record of the lower border, owned by this trie; 0: the empty key.
    pub(super) low: u64,
    /// Record of the upper border, owned by the next trie; 0: none.
    pub(super) high: u64,
    pub(super) low_slice: u64,
    pub(super) high_slice: u64,
    /// The first eight bytes of the prefix, big-endian, zeros behind it.
    pub(super) prefix: u64,
    /// The next trie; of a dead trie the one that replaces it. 0: none.
    pub(super) next: AtomicU32,
    /// The trie before. 0: none.
    pub(super) prev: AtomicU32,
    /// The bits of `prefix` that count.
    pub(super) prefix_mask: u64,
    /// Whether there is an upper border.
    pub(super) bounded: bool,
}

/// Line -2: what is seldom needed.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Rest {
    pub(super) prefix: [u8; KEPT_PREFIX_BYTES - 8],
}

const _: () = assert!(size_of::<Header>() == LINE_BYTES && size_of::<Border>() == LINE_BYTES);
const _: () = assert!(size_of::<Rest>() == LINE_BYTES && HEADER_LINES == NAME_AT_LINE + 1);
const _: () = assert!(offset_of!(Header, skip_bits) == 20 && offset_of!(Header, buckets) == 28);
const _: () = assert!(offset_of!(Header, marks) == 32 && offset_of!(Header, hinted) == 36);
const _: () = assert!(
    offset_of!(Header, pairs) == 40
        && offset_of!(Border, next) == 40
        && offset_of!(Border, bounded) == 56
);
const _: () = assert!((LISTED - FIRST_PAIRS) * size_of::<*mut u8>() <= LIST_LINES * LINE_BYTES);
const _: () = assert!(MAX_BUCKETS <= u16::MAX as u32 && BLOCK_BUCKETS.is_power_of_two());
const _: () = assert!(FULL_WEIGHT < MAX_WEIGHT);
