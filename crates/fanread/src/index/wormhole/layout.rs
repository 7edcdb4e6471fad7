//! A leaf: the entries between two borders, in 5 to 64 lines, none of which lies in another page than the rest.
//!
//! ```text
//! lines 0, 1  as in every list of leaves (`list`); the counts are *meta*
//! line 2..    words: 2, 8 or 26 lines of 8; in an inline leaf whose values have bytes, each with its values' line behind it
//!             (29 instead of 26)
//! then        order: up to 232 slot numbers, one byte each, in 1 or 4 lines
//! ```
//!
//! * *meta* counts: entries 8 bits, sorted entries 8 bits, *reach* 5 bits, a bit for each home line that has overflowed,
//!   and a filter of 14 bits, one of which is set by each entry that lies beyond its home line. Entries of a home and a
//!   filter bit that are both set lie in the home line or in the `reach` lines behind it (behind the last is the first),
//!   others in the home line. Without the filter one miss in twelve looked at a second line, which no processor guesses.
//! * The *order* lists the sorted entries. Those that arrived since are wherever there is a word that it does not name,
//!   so an insertion does not touch its lines: a store there would be waited for by the next locked instruction.
//! * A *word* is 0 (free), a record word or an inline word:
//!
//! ```text
//! record   bit 63 = 1 | tag: 23 bits | lines beyond its first: 2 bits, 3 for more | record: 38 bits, in units of 8 bytes
//! inline   bits 63..56 = 1 + length | up to 7 bytes of key behind the prefix, first byte on top
//! ```
//!
//! A leaf of more keys makes fewer leaves, and so fewer nodes of the prefix table, which then stays in nearer caches: a
//! point search looks at one line of words however many there are. A scan pays, because neighbours in order lie in
//! many lines. The largest leaf is a page of 4 KB, or half of one: a search that needs three lines of a leaf then needs
//! one address translation for them, and that is dear where pages of 2 MB are not granted, or a host takes them apart.
//!
//! Invariants L1 to L10 are in `docs/design/wormhole.md`; `check.rs` verifies them.

use crate::list::slice_at;
use crate::mem::LINE_BYTES;
use crate::mem::arena::{Arena, PAGE_BYTES};

/// The arena of leaves: units of one line, a first chunk of 512 bytes, which holds one small leaf.
pub(super) type Leaves = Arena<6, 3>;

/// Longest key of a map.
pub(super) const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Lines before the words.
pub(super) const FIXED_LINES: usize = 2;

/// Words in a line.
pub(super) const LINE_WORDS: usize = 8;

/// Lines of words of the largest leaf with values beside its words: with them, two fixed lines and four of the order a page
/// of 4 KB. With 8 lines a map has four times as many leaves and nodes: at 10 million random 8-byte keys the nodes take
/// 4 MB instead of 1 MB, and dependent gets a quarter longer. Shorter scans and single splits would be cheaper.
pub(super) const PAGE_LINES: usize = if cfg!(any(shuttle, small_leaves)) { 1 } else { 29 };

/// Lines of words of the largest leaf without values: half a page in all.
pub(super) const HALF_PAGE_LINES: usize = if cfg!(any(shuttle, small_leaves)) { 1 } else { 26 };

/// How many lines of words a leaf has: each size holds about four times as much as the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// 2 lines, for maps of up to 15 entries.
    Small,
    /// 8 lines, for maps of up to 60 entries.
    Middle,
    /// A page or half of one.
    Large,
}

impl Size {
    /// Lines of words of a leaf of this size, with or without values beside the words.
    #[inline(always)]
    pub(super) const fn lines(self, has_values: bool) -> usize {
        match self {
            _ if cfg!(any(shuttle, small_leaves)) => 1,
            Self::Small => 2,
            Self::Middle => 8,
            Self::Large if has_values => PAGE_LINES,
            Self::Large => HALF_PAGE_LINES,
        }
    }

    /// The smallest size that holds `count` entries and has room for more.
    pub(super) fn for_entries(count: usize) -> Self {
        let fits = |size: &Self| count * 4 <= full_at(size.lines(false)) * 3;
        [Self::Small, Self::Middle].into_iter().find(fits).unwrap_or(Self::Large)
    }
}

/// Slots of the largest leaf.
pub(super) const SLOTS: usize = PAGE_LINES * LINE_WORDS;

/// Entries that the largest leaf of either kind holds.
pub(super) const FITS_IN_ANY: usize = full_at(HALF_PAGE_LINES);

/// Entries at which a leaf of `lines` lines is full: one slot in 16 stays free, so that a line's overflow soon
/// finds a place.
pub(super) const fn full_at(lines: usize) -> usize {
    lines * LINE_WORDS - lines.div_ceil(2)
}

/// Lines of the order of a leaf of `lines` lines of words.
pub(super) const fn order_lines(lines: usize) -> usize {
    lines.div_ceil(LINE_WORDS)
}

/// The line where those look on that did not find a place in line `line` of `lines`.
#[inline(always)]
pub(super) fn line_behind(line: usize, lines: usize) -> usize {
    if line + 1 == lines { 0 } else { line + 1 }
}

/// Bytes of an inline key behind the prefix.
pub(super) const INLINE_BYTES: usize = 7;

/// Longest prefix of an inline leaf, so that line 0 alone confirms an inline key.
pub(super) const INLINE_PREFIX_BYTES: usize = 8;

/// What never changes in a leaf's life, beside its borders (L1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Shape {
    /// Lines of words.
    pub(super) lines: u8,
    /// Whether short keys are kept in words.
    pub(super) inline: bool,
    /// Lines of the whole leaf.
    pub(super) all_lines: u8,
}

const _: () = assert!(SLOTS <= 256);
const _: () =
    assert!(FIXED_LINES + 2 * PAGE_LINES + order_lines(PAGE_LINES) <= PAGE_BYTES / LINE_BYTES);
const _: () = assert!(
    FIXED_LINES + HALF_PAGE_LINES + order_lines(HALF_PAGE_LINES) <= PAGE_BYTES / LINE_BYTES / 2
);

/// The counts of a leaf, as one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Meta(pub(super) u64);

impl Meta {
    const SORTED_AT: u32 = 8;
    const REACH_AT: u32 = 16;
    const OVERFLOWED_AT: u32 = 21;
    const FILTER_AT: u32 = 50;

    /// How many entries the leaf has.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// How many entries at the start of the order are in key order.
    #[inline(always)]
    pub(super) fn sorted(self) -> usize {
        (self.0 >> Self::SORTED_AT & 0xff) as usize
    }

    /// The bits that are set if an entry of this tag may lie beyond its home line.
    #[inline(always)]
    fn beyond(tag: Tag, home: usize) -> u64 {
        1 << (Self::OVERFLOWED_AT + home as u32) | 1 << (Self::FILTER_AT + tag.filter())
    }

    /// How far entries of a tag may lie from their home line.
    #[inline(always)]
    pub(super) fn reach(self, tag: Tag, home: usize) -> usize {
        if !self.0 & Self::beyond(tag, home) != 0 {
            return 0;
        }
        (self.0 >> Self::REACH_AT & 0x1f) as usize
    }

    /// The same with other counts.
    #[inline(always)]
    pub(super) fn with_counts(self, count: usize, sorted: usize) -> Self {
        debug_assert!(sorted <= count && count <= full_at(PAGE_LINES));
        Self(self.0 & !0xffff | count as u64 | (sorted as u64) << Self::SORTED_AT)
    }

    /// The same with a reach of at least `reach` (L5).
    #[inline(always)]
    pub(super) fn with_reach(self, tag: Tag, home: usize, reach: usize) -> Self {
        if reach == 0 {
            return self;
        }
        let most = (self.0 >> Self::REACH_AT & 0x1f).max(reach as u64);
        let others = self.0 & !(0x1f << Self::REACH_AT);
        Self(others | most << Self::REACH_AT | Self::beyond(tag, home))
    }
}

const _: () = assert!(PAGE_LINES <= (Meta::FILTER_AT - Meta::OVERFLOWED_AT) as usize);
const _: () = assert!(PAGE_LINES <= 1 << (Meta::OVERFLOWED_AT - Meta::REACH_AT));
const _: () = assert!(Meta::FILTER_AT + Tag::FILTER_BITS == u64::BITS);

/// A number of a slot: line of words times 8 plus place in the line.
pub(super) type Slot = usize;

/// What a slot of a leaf holds; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// A free slot.
    pub(super) const FREE: Self = Self(0);

    const RECORD: u64 = 1 << 63;
    const TAG_AT: u32 = 40;
    const LINES_AT: u32 = 38;
    const MOST_MORE_LINES: u64 = (1 << (Self::TAG_AT - Self::LINES_AT)) - 1;

    /// The bits that tell record words of different tags apart.
    pub(super) const TAG_MASK: u64 = !0 << Self::TAG_AT;

    /// The word of a record of `units` units.
    #[inline(always)]
    pub(super) fn of_record(tag: Tag, unit: u64, units: u64) -> Self {
        debug_assert!(unit >> Self::LINES_AT == 0);
        // A line has eight units, and their numbers begin at a line.
        let more_lines = ((unit % 8 + units).div_ceil(8) - 1).min(Self::MOST_MORE_LINES);
        Self(Self::of_tag(tag).0 | more_lines << Self::LINES_AT | unit)
    }

    /// What the words of all records of a tag have in common; see `TAG_MASK`.
    #[inline(always)]
    pub(super) fn of_tag(tag: Tag) -> Self {
        Self(Self::RECORD | u64::from(tag.0) << Self::TAG_AT)
    }

    /// The word of a key whose part behind the prefix is `rest`, if that is short enough.
    #[inline(always)]
    pub(super) fn of_inline(rest: &[u8]) -> Option<Self> {
        (rest.len() <= INLINE_BYTES)
            .then(|| Self((rest.len() as u64 + 1) << 56 | slice_at(rest, 0) >> 8))
    }

    /// The word of `key` behind `prefix_bytes` of its bytes, if what is left is short enough.
    #[inline(always)]
    pub(super) fn of_key(key: &[u8], prefix_bytes: usize) -> Option<Self> {
        let rest = key.len().checked_sub(prefix_bytes)?;
        if rest > INLINE_BYTES {
            return None;
        }
        let Some(last) = key.last_chunk::<8>() else {
            return Self::of_inline(&key[prefix_bytes..]);
        };
        // What is left is the end of the key's last eight bytes: the bytes before it are shifted out, all eight in two
        // steps if nothing is left.
        let half = 32 - 4 * rest as u32;
        let rest_bits = u64::from_be_bytes(*last) << half << half;
        Some(Self((rest as u64 + 1) << 56 | rest_bits >> 8))
    }

    /// Whether the slot is free.
    #[inline(always)]
    pub(super) fn is_free(self) -> bool {
        self.0 == 0
    }

    /// The record's unit, of a record word.
    #[inline(always)]
    pub(super) fn record(self) -> Option<u64> {
        (self.0 & Self::RECORD != 0).then_some(self.0 & ((1 << Self::LINES_AT) - 1))
    }

    /// How many lines the record takes beyond its first, or 3 if they are more.
    #[inline(always)]
    pub(super) fn more_lines(self) -> usize {
        (self.0 >> Self::LINES_AT & Self::MOST_MORE_LINES) as usize
    }

    /// The tag of a record word.
    #[inline(always)]
    pub(super) fn tag(self) -> Tag {
        Tag((self.0 >> Self::TAG_AT) as u32 & Tag::MASK)
    }

    /// Length of an inline key behind the prefix.
    #[inline(always)]
    pub(super) fn inline_bytes(self) -> usize {
        (self.0 >> 56) as usize - 1
    }

    /// The `sort_number` of an inline key.
    #[inline(always)]
    pub(super) fn sort_number(self) -> u64 {
        self.0.rotate_left(8)
    }

    /// The bytes of an inline key behind the prefix, the first on top, zeros behind them.
    #[inline(always)]
    pub(super) fn inline_rest(self) -> u64 {
        self.0 << 8
    }
}

/// The part of a key's hash that a leaf uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag(u32);

impl Tag {
    const MASK: u32 = (1 << 23) - 1;

    /// The tag of a key's hash.
    #[inline(always)]
    pub(super) fn of(hash: u64) -> Self {
        Self((hash >> 41) as u32)
    }

    /// The line where a key of this tag belongs, in a leaf of `lines` lines: the product maps all tags to `0..lines`.
    #[inline(always)]
    pub(super) fn home(self, lines: usize) -> usize {
        (self.0 as usize * lines) >> 23
    }

    /// Bits of the filter of entries that lie beyond their home lines.
    const FILTER_BITS: u32 = 14;

    /// The bit of the filter for this tag, from other bits of it than the home.
    #[inline(always)]
    fn filter(self) -> u32 {
        ((self.0 & 0x3fff) * Self::FILTER_BITS) >> 14
    }
}

/// A key's place among keys that share `prefix_bytes` bytes, as a number: the next seven bytes, then how many
/// there are. Numbers that differ order the keys; equal numbers below [`SORT_TIE`] in the last byte are equal
/// keys.
#[inline(always)]
pub(super) fn sort_number(key: &[u8], prefix_bytes: usize) -> u64 {
    let rest = key.len().saturating_sub(prefix_bytes);
    slice_at(key, prefix_bytes) & !0xff | (rest as u64 + 1).min(SORT_TIE)
}

/// Last byte of the sort number of a key that goes on behind its seven bytes.
pub(super) const SORT_TIE: u64 = 9;

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn slices_read_big_endian_and_pad_with_zeros() {
        let key: Vec<u8> = (1..=12).collect();
        for from in 0..=13 {
            for len in 0..=key.len() {
                let mut padded = [0; 8];
                let rest = key[..len].get(from..).unwrap_or(&[]);
                let count = rest.len().min(8);
                padded[..count].copy_from_slice(&rest[..count]);
                assert_eq!(slice_at(&key[..len], from), u64::from_be_bytes(padded), "{from} {len}");
            }
        }
    }

    #[test]
    fn sort_numbers_order_keys() {
        let keys: [&[u8]; 9] =
            [b"", b"\0", b"\0\0", b"a", b"a\0", b"abcdefg", b"abcdefg\0", b"abcdefh", b"b"];
        for pair in keys.windows(2) {
            assert!(sort_number(pair[0], 0) < sort_number(pair[1], 0), "{pair:?}");
        }
        assert_eq!(sort_number(b"abcdefgh", 0), sort_number(b"abcdefgi", 0));
        assert_eq!(sort_number(b"abcdefgh", 0) & 0xff, SORT_TIE);
    }

    #[test]
    fn inline_words_hold_up_to_seven_bytes() {
        for len in 0..=7 {
            let rest: Vec<u8> = (0..len).map(|byte| 0xf0 + byte).collect();
            let word = Word::of_inline(&rest).unwrap();
            assert!(!word.is_free() && word.record().is_none());
            assert_eq!(word.inline_bytes(), rest.len());
            assert_eq!(word.inline_rest().to_be_bytes()[..rest.len()], rest[..]);
            assert_eq!(word.sort_number(), sort_number(&rest, 0));
        }
        assert!(Word::of_inline(&[0; 8]).is_none());
        let key: Vec<u8> = (1..=20).collect();
        for len in 0..=key.len() {
            for prefix in 0..=len + 1 {
                let word = key[..len].get(prefix..).and_then(Word::of_inline);
                assert_eq!(Word::of_key(&key[..len], prefix), word, "{len} {prefix}");
            }
        }
    }

    #[test]
    fn record_words_tell_the_lines_of_the_record() {
        let tag = Tag(0x5a_5a5a);
        for (unit, units, more_lines) in
            [(8, 1, 0), (8, 8, 0), (8, 9, 1), (15, 1, 0), (15, 2, 1), (15, 10, 2), (9, 100, 3)]
        {
            let word = Word::of_record(tag, unit, units);
            assert_eq!((word.record(), word.more_lines()), (Some(unit), more_lines));
            assert_eq!((word.tag(), word.0 & Word::TAG_MASK), (tag, Word::of_tag(tag).0));
        }
    }

    #[test]
    fn counts_do_not_disturb_each_other() {
        let tag = |number: u32| Tag((number * 0x12_3457) & Tag::MASK);
        let mut meta = Meta::default().with_counts(6, 3);
        assert!((0..PAGE_LINES).all(|home| meta.reach(tag(1), home) == 0));
        for home in [0, PAGE_LINES / 2, PAGE_LINES - 1] {
            meta = meta.with_reach(tag(1), home, 2).with_reach(tag(2), home, 0);
        }
        assert_eq!((meta.count(), meta.sorted()), (6, 3));
        assert_eq!(meta.reach(tag(1), 0), 2);
        assert_eq!(meta.reach(tag(1), PAGE_LINES - 1), 2);
        // Another home, or another bit of the filter: nothing lies beyond.
        assert!(PAGE_LINES < 4 || meta.reach(tag(1), 1) == 0);
        let others = (0..100).map(tag).filter(|other| other.filter() != tag(1).filter());
        assert!(others.into_iter().all(|other| meta.reach(other, 0) == 0));
    }
}
