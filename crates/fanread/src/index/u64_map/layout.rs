//! The bytes of a bucket.
//!
//! ```text
//! byte 0       8      16     24     32     40     48     56     64
//!      +-------+------+------+------+------+------+------+------+
//!      | word 0|  1   |  2   |  3   |value0|  1   |  2   |  3   |
//!      +-------+------+------+------+------+------+------+------+
//! ```
//!
//! Hashes are keys in another spelling (`hash/permute.rs`), so a slot needs no key beside its hash. A word is the hash in the
//! bucket's own spelling (`directory::Spelling`), which is never 0 nor 1. So a word of 0 says that the slot is free, a word of 1 that
//! it is gone, and no key is reserved.
//!
//! In a large table a word is like this, and the *passers* of a bucket's four words are a filter of 32 bits that says which hashes
//! went past the bucket because it was full:
//!
//! ```text
//! bit 63       56   55                                     0
//!    +---------+-----+--------------------------------------+
//!    | passers |taken|             end of hash              |
//!    +---------+-----+--------------------------------------+
//! ```

use crate::mem::COMPACT;

/// Slots of a bucket.
pub(super) const SLOTS: usize = 4;

/// Blocks of the largest segment, which is 2 MB: a copy of it is a millisecond.
pub(super) const MOST_BLOCKS: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 64 };

/// Of 64 slots, how many are taken in a new segment and in one that is full.
///
/// One entry in sixteen is behind its home in a new segment, and one in six or seven in a full one; each is a guess of the processor that was
/// wrong. A larger step makes fewer copies. Fuller ones, where memory is worth more, take one and a half bytes an entry less.
pub(super) const FILLED: [usize; 2] = if COMPACT { [44, 54] } else { [37, 51] };

/// The word of a free slot.
pub(super) const FREE: u64 = 0;
/// The word of a slot whose entry was removed, in a bucket behind which others may have gone.
pub(super) const GONE: u64 = 1;

/// Bits of a word that are not the hash's in a large table: one says that the slot is taken, the others are passers.
///
/// A word with more of them needs a larger table; with fewer, more absent keys are looked for in a second line.
pub(super) const SPARE_BITS: u32 = if cfg!(any(shuttle, small_leaves, miri)) { 3 } else { 9 };

/// Which bit of a bucket's passers is a hash's: of which word, and the number of the bit there. A hash's own word says the same.
///
/// It is taken from bits of the hash behind those that tell the home in any table of less than 2^32 buckets, and not from the lowest
/// ones: those of keys in large steps are all alike.
#[inline(always)]
pub(super) fn passer(hash: u64) -> (usize, u32) {
    let some = (hash >> 24) as u32;
    (some as usize % SLOTS, 64 - (SPARE_BITS - 1) + some / SLOTS as u32 % (SPARE_BITS - 1))
}

const _: () = assert!((SPARE_BITS - 1).is_power_of_two());
