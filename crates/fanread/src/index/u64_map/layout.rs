//! The bytes of a bucket.
//!
//! ```text
//! byte 0       8      16     24     32     40     48     56     64
//!      +-------+------+------+------+------+------+------+------+
//!      | word 0|  1   |  2   |  3   |value0|  1   |  2   |  3   |
//!      +-------+------+------+------+------+------+------+------+
//! ```
//!
//! Hashes are keys in another spelling (`hash/permute.rs`), so a slot needs no key beside its hash. A word is the hash
//! combined with the bucket's *filler*, a hash that can never be in that bucket. So a word of 0, which would be the filler
//! itself, says that the slot is free, a word of 1 that it is gone, and no key is reserved.

/// Slots of a bucket.
pub(super) const SLOTS: usize = 4;

/// Blocks of the largest segment, which is 2 MB: a copy of it is a millisecond.
pub(super) const MOST_BLOCKS: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 64 };

/// The word of a free slot.
pub(super) const FREE: u64 = 0;
/// The word of a slot whose entry was removed, in a bucket behind which others may have gone.
pub(super) const GONE: u64 = 1;
