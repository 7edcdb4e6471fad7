//! The words of the medium, and what they mean.
//!
//! ```text
//! block        2^n lines: a segment, a part of a directory, or free; numbered from the medium's start
//!
//! header, the first 4 KB
//! word 0       magic         "fanCCEH1", or "fanCCEHs" for byte strings
//!      1       geometry      log2 of a segment's lines in bits 0 to 7, lines probed in 8 to 23
//!      2       hash key
//!      3       checksum of words 0 to 2
//!      8       root          block where the directory begins in bits 0 to 55, its depth G in 56 to 63
//!      16      heap          of byte strings: block of the first list of extents, or 0 (`heap.rs`)
//!      24      home          "fanCHECK" and the number of the last one, if the file has checkpoints (`file.rs`)
//!
//! directory    2^G words, one for each value of a hash's top G bits:
//!              block of the segment in bits 0 to 55, its depth L in 56 to 63
//!
//! bucket       | h0 | h1 | h2 | h3 | v0 | v1 | v2 | v3 |        one line: hashes, which are keys, and values
//! ```
//!
//! A segment of depth `L` stands for the hashes that begin with `L` certain bits, its *name*. A slot whose hash does not begin
//! with them is free, whatever it holds: so a hash and its value are published, and taken away, by one store, every key and every
//! value is allowed, and what was moved to another segment needs no clearing.
//!
//! Hashes are keys in another spelling: the function is one-to-one, and so a slot needs no key beside its hash.

use crate::hash::mix::{fold, stream};
use crate::hash::permute::Permutation;
use crate::persist::medium::{LINE_WORDS, LineAt, LineRef, WordAt};

/// Entries of a bucket.
pub(super) const SLOTS: usize = 4;
/// The words of a line that are hashes, as bits.
pub(super) const HASHES: u8 = (1 << SLOTS) - 1;

const _: () = assert!(2 * SLOTS == LINE_WORDS);

/// Lines of the header.
pub(super) const HEADER_LINES: usize = 64;

/// "fanCCEH1", read as a little-endian number.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"fanCCEH1");

/// "fanCCEHs", the same: a map of byte strings.
pub(super) const STRINGS_MAGIC: u64 = u64::from_le_bytes(*b"fanCCEHs");

/// The words of the header.
pub(super) const MAGIC_AT: WordAt = WordAt(0);
pub(super) const GEOMETRY_AT: WordAt = WordAt(1);
pub(super) const KEY_AT: WordAt = WordAt(2);
pub(super) const CHECKSUM_AT: WordAt = WordAt(3);
pub(super) const ROOT_AT: WordAt = WordAt(8);
pub(super) const HEAP_AT: WordAt = WordAt(16);
pub(super) const HOME_AT: WordAt = WordAt(24);

/// "fanCHECK", the same: a file that has checkpoints.
pub(super) const HOME_MARK: u64 = u64::from_le_bytes(*b"fanCHECK");

/// The depths that a directory may have.
///
/// It has two segments at least, so that for each of them there is a hash that is not its own. More than 2^40 segments have
/// no room in the addresses of a process.
pub(super) const MIN_DEPTH: u32 = 1;
pub(super) const MAX_DEPTH: u32 = 40;

/// Returns the checksum of a header's words.
pub(super) fn checksum(magic: u64, geometry: u64, key: u64) -> u64 {
    let words = [magic, geometry, key];
    words.into_iter().zip(1..).fold(0, |sum, (word, at)| fold(sum ^ word, stream(at, 7)) ^ word)
}

/// A block, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(super) struct Block(pub(super) u32);

/// A block and a depth in one word: an entry of a directory, or the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) block: Block,
    pub(super) depth: u32,
}

impl Entry {
    const DEPTH_AT: u32 = 56;

    pub(super) fn word(self) -> u64 {
        u64::from(self.block.0) | u64::from(self.depth) << Self::DEPTH_AT
    }

    /// Reads a word that may be anything.
    pub(super) fn of(word: u64) -> Option<Self> {
        let block = u32::try_from(word & ((1 << Self::DEPTH_AT) - 1)).ok()?;
        let depth = (word >> Self::DEPTH_AT) as u32;
        (depth <= MAX_DEPTH).then_some(Self { block: Block(block), depth })
    }
}

/// The leading bits that all hashes of a segment share: these bits, a one, and zeros. 0 names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name(pub(super) u64);

impl Name {
    /// What is not the name of a segment.
    pub(super) const NONE: Self = Self(0);

    /// The name of the segment of `depth` to which `hash` belongs.
    pub(super) fn of(hash: u64, depth: u32) -> Self {
        debug_assert!(depth < 64);
        let end = 1 << (63 - depth);
        Self(hash & !(end | (end - 1)) | end)
    }

    /// How many bits it has.
    pub(super) fn depth(self) -> u32 {
        debug_assert!(self != Self::NONE);
        63 - self.0.trailing_zeros()
    }

    /// The smallest hash of that name.
    pub(super) fn first(self) -> u64 {
        self.0 & (self.0 - 1)
    }

    /// The smallest hash above all of that name.
    pub(super) fn next(self) -> Option<u64> {
        let end = self.0 & self.0.wrapping_neg();
        self.first().checked_add(end).and_then(|hash| hash.checked_add(end))
    }

    /// Whether a hash begins with these bits.
    #[inline(always)]
    pub(super) fn covers(self, hash: u64) -> bool {
        (self.0 ^ hash) & self.above() == 0 && self != Self::NONE
    }

    /// All bits above the lowest one that is set: those of the hashes that begin with these bits. Of no name there are none.
    #[inline(always)]
    fn above(self) -> u64 {
        !(self.0 ^ self.0.wrapping_sub(1))
    }

    /// The slots of a bucket that are in use (H2), a bit for each.
    #[inline(always)]
    pub(super) fn used(self, line: LineRef<'_>) -> u8 {
        if self == Self::NONE { 0 } else { line.matching_low(self.first(), self.above()) }
    }

    /// The two names of one more bit.
    pub(super) fn halves(self) -> [Self; 2] {
        let end = self.0 & self.0.wrapping_neg();
        let left = Self(self.0 ^ end | end >> 1);
        [left, Self(left.0 | end)]
    }

    /// The name of one bit less, and whether this is its second half.
    pub(super) fn parent(self) -> (Self, bool) {
        let end = self.0 & self.0.wrapping_neg();
        let is_right = self.0 & end << 1 != 0;
        (Self(self.0 & !end & !(end << 1) | end << 1), is_right)
    }

    /// A hash that does not begin with these bits, nor with any shorter name of the same hashes.
    pub(super) fn filler(self) -> u64 {
        if self.0 >> 63 == 0 { !0 } else { 0 }
    }
}

/// The sizes that a map was made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry {
    /// Log2 of the lines of a block.
    pub(super) bits: u32,
    /// How many buckets a key may be in: its own and those behind it.
    pub(super) probed: usize,
}

impl Geometry {
    pub(super) fn word(self) -> u64 {
        u64::from(self.bits) | (self.probed as u64) << 8
    }

    /// Reads a word that may be anything.
    pub(super) fn of(word: u64) -> Option<Self> {
        let geometry = Self { bits: (word & 0xff) as u32, probed: (word >> 8 & 0xffff) as usize };
        (geometry.is_valid() && geometry.word() == word).then_some(geometry)
    }

    pub(super) fn is_valid(self) -> bool {
        (2..=16).contains(&self.bits) && (1..=Self::most_probed(self.bits)).contains(&self.probed)
    }

    /// How many buckets a key may be in at most: all of a segment, as far as the header's 16 bits can say.
    pub(super) fn most_probed(bits: u32) -> usize {
        (1 << bits).min(0xffff)
    }

    /// Lines of a block.
    #[inline(always)]
    pub(super) fn lines(self) -> usize {
        1 << self.bits
    }

    /// The bucket of a hash.
    #[inline(always)]
    pub(super) fn bucket(self, hash: u64) -> usize {
        hash as usize & (self.lines() - 1)
    }

    /// The bucket `count` behind another, the first one behind the last.
    #[inline(always)]
    pub(super) fn behind(self, bucket: usize, count: usize) -> usize {
        (bucket + count) & (self.lines() - 1)
    }

    /// How far one bucket is behind another.
    pub(super) fn distance(self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.lines() - 1)
    }

    /// The first line of a block.
    #[inline(always)]
    pub(super) fn line(self, block: Block) -> LineAt {
        LineAt((block.0 as usize) << self.bits)
    }

    /// Blocks that the header takes.
    pub(super) fn first_block(self) -> u32 {
        HEADER_LINES.div_ceil(self.lines()) as u32
    }

    /// How many blocks a directory of a depth takes.
    pub(super) fn directory_blocks(self, depth: u32) -> usize {
        (1_usize << depth).div_ceil(self.lines() * LINE_WORDS)
    }

    /// Where entry `at` of the directory in `block` is.
    pub(super) fn entry(self, block: Block, at: usize) -> WordAt {
        self.line(block).word(0).plus(at)
    }
}

/// Hashes of keys that nobody can compute who does not know the map's hash key: of numbers by a one-to-one function, so that the
/// hash tells the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    numbers: Permutation,
    start: u64,
    factors: [u64; 2],
}

impl Spelling {
    pub(super) fn new(key: u64) -> Self {
        let factors = [stream(key, 3) | 1, stream(key, 4) | 1];
        Self { numbers: Permutation::new(key), start: stream(key, 0), factors }
    }

    #[inline(always)]
    pub(super) fn hash(&self, key: u64) -> u64 {
        self.numbers.hash(key)
    }

    pub(super) fn key(&self, hash: u64) -> u64 {
        self.numbers.number(hash)
    }

    /// The hash of a byte string, of which others may have the same.
    pub(super) fn hash_bytes(&self, bytes: &[u8]) -> u64 {
        #[cfg(test)]
        let bytes = &self.only_what_tells_twins_apart(bytes);
        let (words, tail) = bytes.as_chunks::<8>();
        let absorb = |state: u64, word: u64| fold(state ^ word, self.factors[0]);
        let state = words.iter().fold(self.start, |state, w| absorb(state, u64::from_le_bytes(*w)));
        let state = absorb(state, padded(tail));
        // The length tells apart what differs in zeros at the end only.
        self.hash(fold(state ^ bytes.len() as u64, self.factors[1]))
    }
}

#[cfg(test)]
impl Spelling {
    /// The hash key of maps many of whose keys have the same hash.
    pub(super) const TWINS: u64 = 7;

    fn only_what_tells_twins_apart(&self, bytes: &[u8]) -> Vec<u8> {
        if self.start == Self::new(Self::TWINS).start {
            bytes.iter().take(1).map(|byte| byte & 0x1f).collect()
        } else {
            bytes.to_vec()
        }
    }
}

/// Up to eight bytes as a word, with zeros behind them.
#[inline(always)]
pub(super) fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_name_covers_the_hashes_of_its_halves_and_no_other() {
        let mut random = 1_u64;
        for depth in 0..60 {
            random = stream(random, 1);
            let name = Name::of(random, depth);
            assert_eq!(name.depth(), depth);
            assert!(name.covers(random) && name.covers(name.first()));
            let [left, right] = name.halves();
            assert_eq!((left.parent(), right.parent()), ((name, false), (name, true)));
            assert!(left.covers(random) ^ right.covers(random));
            assert_eq!(left.depth(), depth + 1);
            assert_eq!(name.first(), left.first());
            assert_eq!(right.first(), left.first() | 1 << (63 - depth));
            if depth > 0 {
                assert!(!name.covers(random ^ 1 << 63) && !name.covers(name.filler()));
            }
        }
        assert!(!Name::NONE.covers(0) && !Name::NONE.covers(!0) && !Name::NONE.covers(1 << 63));
    }
}
