//! The bytes of a bucket, a record and a leaf.
//!
//! ```text
//! bucket   +-----------------+----------+------------------------------+
//!          | tags 12 x 8 bit | passers 4| 12 numbers of records, 32 bit|
//!          +-----------------+----------+------------------------------+
//! record   +---------+---------------------------------------+-----------+
//!          | value 8 | length 16, state 3, apart 1, spare 12 | key       |       padded to 8 bytes
//!          +---------+---------------------------------------+-----------+-----------------+
//!  or of strings     | length 16, state 3, apart 1, spare 12 | key       | length 4, value |
//!                    +---------------------------------------+-----------+-----------------+
//!  in front, of a long key: its hash, 8
//! leaf     +--------+--------+--------+--------------------+-----------------------+-------+
//!          | line 0 | line 1 | guides | fresh ones, lines  | sorted numbers        | codes |
//!          +--------+--------+--------+--------------------+-----------------------+-------+
//! fresh    +----------------------+---------------+----------+
//! line     | numbers 12 x 32 bit  | codes 12 x 8  | unused 4 |
//!          +----------------------+---------------+----------+
//! ```
//!
//! * A *tag* is 0 if its slot is free, 1 if it is gone, else a byte of the key's hash. The *passers* are a filter of 32 bits of the
//!   hashes that went past the bucket because it was full. A record is named by its place in units of
//!   8 bytes, and a leaf by its place in lines, in one arena: a map holds up to 32 GB of both.
//! * The value of a record is the word of an inline value, or the address of a box; values without bytes take none. Byte strings
//!   are in the record, behind the key; long ones *apart*, with their address there. *Spare* are units that the record has beyond
//!   what it needs.
//! * A leaf's sorted numbers, and guides and codes (`guides.rs`), which small leaves do not have, never change. New numbers are *fresh*: they are added as they come, with their codes, near the lines that
//!   a writer reads anyway. Lines 0 and 1 are those of every list of leaves (`list`); `counts` of line 0 has the number of
//!   fresh ones in its lower half, and in the upper one how many records were removed since the leaf was made.

use super::guides::LEAST_GUIDED;
use crate::list::Header;
use crate::mem::arena::Arena;
use crate::mem::pages::FROM_ALLOCATOR;
use crate::mem::{COMPACT, LINE_BYTES};

/// Whether sizes are such that short tests reach everything.
const SMALL: bool = cfg!(any(shuttle, small_leaves, miri));

/// The arena of records and leaves: units of 8 bytes, a first chunk of 512 bytes, which holds a small leaf and ten short records.
pub(super) type Units = Arena<3, 6>;

/// Longest key of a map.
pub(super) const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Keys of so many bytes have their hash in front of their record.
///
/// A copy of a segment asks for the hashes of all its keys, and a key is in three of these copies or four: of long keys each reads many
/// lines and computes for long. With fewer bytes the hash is more of a record than it is worth.
pub(super) const HASHED_FROM: usize = if SMALL { 16 } else { 256 };

/// Units that a record has in front, of a key of so many bytes.
#[inline(always)]
pub(super) fn lead_units(key_bytes: usize) -> u64 {
    u64::from(key_bytes >= HASHED_FROM)
}

/// Slots of a bucket.
pub(super) const SLOTS: usize = 12;

/// Blocks of the largest segment of the directory, which is 256 KB.
///
/// To copy one, the records of some 40,000 keys are read: about two milliseconds for which its writers wait. In a server, where
/// all wait for a writer, it is 64 KB and a quarter of that.
pub(super) const MOST_BLOCKS: usize = if FROM_ALLOCATOR { 16 } else { 8 };

/// The tag of a slot that was never taken.
pub(super) const FREE: u8 = 0;
/// The tag of a slot whose entry was removed, in a bucket behind which others may have gone.
pub(super) const GONE: u8 = 1;

/// Of 64 slots, how many are taken in a new segment and in one that is full.
///
/// A copy reads all records, so the step is a large one; with a smaller one an entry takes 1.3 bytes less, and segments
/// are copied more often. One entry in ten is behind its home in a segment that has 56.
///
/// In a server a larger step is worth half a byte: all records are on small pages, and an insertion of a million took a tenth less.
pub(super) const FILLED: [usize; 2] = match (COMPACT, FROM_ALLOCATOR) {
    (false, _) => [40, 56],
    (true, false) => [46, 60],
    (true, true) => [40, 60],
};

/// The bit of a hash among a bucket's passers, in the word of its last tags.
#[inline(always)]
pub(super) fn passer(hash: u64) -> u64 {
    1 << (32 + (hash >> 8) % 32)
}

/// The tag of a hash.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(GONE + 1)
}

/// Where a record is on its way through the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum State {
    /// Its writer is putting it into leaf and directory: nobody takes it for an entry yet.
    Coming = 0,
    /// It is the entry of its key.
    Live = 1,
    /// It is no entry any more, but the directory still names it.
    Gone = 2,
    /// It was the entry of its key until the directory named another, or still is: only the directory tells.
    Replaced = 3,
    /// Only a leaf names it.
    Unnamed = 4,
    /// It is the entry of its key, or about to be: only the directory tells.
    Arriving = 5,
}

impl State {
    /// The bits of a state.
    pub(super) const MASK: u32 = 7;

    #[inline(always)]
    pub(super) fn of(bits: u32) -> Self {
        match bits & Self::MASK {
            0 => Self::Coming,
            1 => Self::Live,
            2 => Self::Gone,
            3 => Self::Replaced,
            4 => Self::Unnamed,
            _ => Self::Arriving,
        }
    }

    /// The bit of a state that says whether a record is an entry to who was led to it by the directory.
    pub(super) const ENTRY: u32 = 1;

    /// Whether a record is an entry to who was led to it by the directory.
    #[inline(always)]
    pub(super) fn is_named_entry(self) -> bool {
        self as u32 & Self::ENTRY != 0
    }

    /// Whether only leaves name the record, and it is not to be in the next one.
    #[inline(always)]
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Unnamed | Self::Replaced)
    }
}

/// Sorted entries at which a leaf becomes two.
///
/// More make fewer leaves, and so a smaller prefix table; what a leaf costs to be made anew is shared by as many more.
pub(super) const MOST_SORTED: usize = match (SMALL, COMPACT) {
    (true, _) => 6,
    (false, true) => 384,
    (false, false) => 288,
};

/// Entries of two neighbours that become one leaf.
pub(super) const MERGE_AT: usize = MOST_SORTED / 2;

/// Room for fresh numbers: as many as there are sorted ones, within these limits, and what is left of the last line.
///
/// A leaf is made anew when they are taken, and all of its records are read then: with three lines of 16, a load of long keys took a
/// seventh longer than with five, with six an entry takes half a byte more.
const FRESH: [usize; 2] = if SMALL { [3, 3] } else { [8, 80] };

/// Fresh numbers in a line, with their codes.
pub(super) const LINE_FRESH: usize = 12;

/// Fresh entries that a reader sorts for itself; more make it bring them into order for all.
pub(super) const FEW_FRESH: usize = if SMALL { 1 } else { 6 };

/// Numbers in a line.
pub(super) const LINE_NUMBERS: usize = 16;

/// Lines at the start of every leaf.
pub(super) const FIXED_LINES: usize = 2;

/// Lines before the fresh numbers of a leaf with guides, as most leaves of a map that is not small are.
pub(super) const GUIDED_FRESH_AT: usize = FIXED_LINES + 1;

/// What never changes in a leaf's life, beside its borders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Shape {
    /// How many numbers are sorted.
    pub(super) sorted: u16,
    /// Lines of fresh numbers.
    fresh_lines: u8,
    /// Lines of the whole leaf.
    lines: u8,
}

impl Shape {
    /// That of a leaf of so many sorted entries.
    pub(super) fn of(sorted: usize) -> Self {
        let fresh = sorted.clamp(FRESH[0], FRESH[1]);
        let shape = Self { sorted: sorted as u16, fresh_lines: 0, lines: 0 };
        shape.in_lines(shape.other_lines() + fresh.div_ceil(LINE_FRESH))
    }

    /// The same in a leaf of so many lines, which are enough.
    pub(super) fn in_lines(self, lines: usize) -> Self {
        let fresh_lines = lines - self.other_lines();
        debug_assert!(fresh_lines > 0);
        Self { fresh_lines: fresh_lines as u8, lines: lines as u8, ..self }
    }

    /// Lines without fresh numbers.
    fn other_lines(self) -> usize {
        let entry_bytes = size_of::<u32>() + usize::from(self.is_guided());
        self.fresh_at() + (usize::from(self.sorted) * entry_bytes).div_ceil(LINE_BYTES)
    }

    /// Whether there are guides and codes.
    #[inline(always)]
    pub(super) fn is_guided(self) -> bool {
        usize::from(self.sorted) > LEAST_GUIDED
    }

    /// The line of the first fresh number.
    #[inline(always)]
    pub(super) fn fresh_at(self) -> usize {
        if self.is_guided() { GUIDED_FRESH_AT } else { FIXED_LINES }
    }

    /// The line of the first sorted number.
    #[inline(always)]
    pub(super) fn sorted_at(self) -> usize {
        self.fresh_at() + self.fresh_lines()
    }

    #[inline(always)]
    pub(super) fn fresh_lines(self) -> usize {
        usize::from(self.fresh_lines)
    }

    /// For how many fresh numbers there is room.
    #[inline(always)]
    pub(super) fn fresh(self) -> usize {
        if SMALL { FRESH[1] } else { self.fresh_lines() * LINE_FRESH }
    }

    /// Lines of the whole leaf.
    pub(super) fn lines(self) -> usize {
        usize::from(self.lines)
    }
}

/// Lines by which a leaf may be larger than it needs to be.
pub(super) const SPARE_LINES: usize = 2;

const _: () = assert!(size_of::<Header<Shape>>() == LINE_BYTES);
const _: () = assert!(FRESH[1] <= LINE_FRESH || !SMALL);
