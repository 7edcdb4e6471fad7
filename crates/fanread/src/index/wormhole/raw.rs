//! Typed views over the bytes of leaves and records: the only unsafe code of this index.
//!
//! Nothing here decides anything. Each view is made from a reference that invariant L8 covers, and lives as long as
//! the guard of the one who found it.

#![allow(clippy::cast_ptr_alignment, reason = "leaves start at a line")]
#![expect(
    unsafe_code,
    reason = "views over the arenas' bytes; every block cites the invariant it relies on"
)]

use core::marker::PhantomData;

use super::layout::{
    FIXED_LINES, INLINE_PREFIX_BYTES, LINE_WORDS, Leaves, Meta, SLOTS, Shape, Size, Slot, Tag,
    Word, order_lines,
};
use crate::api::{Key, SHORT_KEY_BYTES};
use crate::arch;
use crate::list::{self, Border, Header, Leaf as _, Leaves as _, Limits};
use crate::mem::heap::Records;
use crate::mem::record::Record;
use crate::mem::word::{self, Read};
use crate::mem::{AllocError, LINE_BYTES};
use crate::prefix::LeafRef;
use crate::sync::shim::{
    self, AtomicPtr, AtomicU64, LineWords,
    Ordering::{Acquire, Relaxed, Release},
};

/// A line of values.
type ValueLine = [AtomicPtr<()>; LINE_WORDS];

/// Bit of a [`LeafRef`] that says whether the leaf is inline, so that its value line can be asked for early.
const INLINE_BIT: u32 = 1 << 30;

/// Where leaves and records live.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) leaves: Leaves,
    pub(super) records: Records,
}

impl Memory {
    pub(super) const fn new() -> Self {
        Self { leaves: Leaves::new(), records: Records::new() }
    }

    /// Makes the name of a leaf.
    pub(super) fn name(unit: u64, inline: bool) -> Option<LeafRef> {
        let unit = u32::try_from(unit).ok().filter(|unit| *unit < INLINE_BIT)?;
        LeafRef::new(unit | if inline { INLINE_BIT } else { 0 })
    }

    /// The unit of a leaf.
    #[inline(always)]
    pub(super) fn unit(name: LeafRef) -> u64 {
        u64::from(name.get() & (INLINE_BIT - 1))
    }

    /// The record behind a number that was found in a leaf's word.
    #[inline(always)]
    pub(super) fn record<V>(&self, unit: u64) -> Record<'_, V> {
        // SAFETY: units in words name records that were written before (L10, the word was loaded by Acquire or
        // under the leaf's lock) and are not freed while the finder is pinned (L8).
        unsafe { Record::new(self.records.at(unit)) }
    }

    /// Fills a fresh record.
    ///
    /// The caller has the unit from the heap, with room for `Record::<V>::units(key.len())`, and has not shared it.
    #[inline(always)]
    pub(super) fn write_record<V>(
        &self,
        unit: u64,
        key: &[u8],
        value: V,
    ) -> Result<(), (AllocError, V)> {
        // SAFETY: the units are the caller's alone (heap H1) and aligned to 8 bytes.
        unsafe { Record::write(self.records.at(unit), key, value) }
    }

    /// Fills a fresh record of a border; as `write_record`.
    pub(super) fn write_border(&self, unit: u64, border: &[u8]) {
        let nothing = word::pack(());
        // SAFETY: as in `write_record`.
        unsafe { Record::write_packed(self.records.at(unit), border, nothing, PhantomData::<()>) };
    }

    /// Fills a fresh record with an inline value that is a word already; as `write_record`.
    pub(super) fn write_record_word<V>(&self, unit: u64, key: &[u8], value: word::Word) {
        // SAFETY: as in `write_record`; the word was packed as a `V` by this map, which is inline.
        unsafe { Record::write_packed(self.records.at(unit), key, value, PhantomData::<V>) };
    }

    /// Drops the value of a record that nobody can read any more.
    pub(super) fn drop_record<V>(&self, unit: u64) {
        // SAFETY: called by the reclaiming side alone, after the epochs freed the record (L8).
        unsafe { self.record::<V>(unit).drop_value() };
    }

    /// Starts a leaf in fresh or reused units: no entries, no neighbours.
    pub(super) fn format(&self, name: LeafRef, shape: Shape, limits: Limits<'_>) -> Leaf<'_> {
        let leaf = self.leaf(name);
        let (header, border) = Header::new(limits, shape);
        // SAFETY: the leaf's lines are the caller's alone until it is published: fresh, or freed by the epochs.
        unsafe {
            leaf.at.cast::<Header<Shape>>().write(header);
            leaf.at.add(LINE_BYTES).cast::<Border>().write(border);
            let rest = usize::from(shape.all_lines) - 2;
            leaf.at.add(2 * LINE_BYTES).write_bytes(0, rest * LINE_BYTES);
        }
        leaf
    }
}

impl list::Leaves for Memory {
    type Leaf<'g> = Leaf<'g>;

    #[inline(always)]
    fn leaf(&self, name: LeafRef) -> Leaf<'_> {
        Leaf { at: self.leaves.at(Self::unit(name)), name, lives: PhantomData }
    }

    #[inline]
    fn border(&self, unit: u64) -> &[u8] {
        if unit == 0 { &[] } else { self.record::<()>(unit).key() }
    }
}

/// A leaf that is live, or dead and not yet freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'g> {
    at: *mut u8,
    name: LeafRef,
    lives: PhantomData<&'g ()>,
}

impl PartialEq for Leaf<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<'g> list::Leaf<'g> for Leaf<'g> {
    type Shape = Shape;

    #[inline(always)]
    fn name(self) -> LeafRef {
        self.name
    }

    #[inline(always)]
    fn header(self) -> &'g Header<Shape> {
        // SAFETY: a name leads to a formatted leaf that is not freed for 'g (L8). What changes in it is atomic.
        unsafe { &*self.at.cast::<Header<Shape>>() }
    }

    #[inline(always)]
    fn border(self) -> &'g Border {
        // SAFETY: as `header`; line 1 never changes (L1).
        unsafe { &*self.at.add(LINE_BYTES).cast::<Border>() }
    }
}

impl<'g> Leaf<'g> {
    /// Whether the leaf is inline, without a look at it.
    #[inline(always)]
    pub(super) fn is_inline(self) -> bool {
        self.name.get() & INLINE_BIT != 0
    }

    /// The order: slot numbers, eight in a word, the first in the low byte.
    #[inline(always)]
    fn order(self) -> &'g [AtomicU64] {
        let shape = self.header().shape;
        let at = usize::from(shape.all_lines) - order_lines(usize::from(shape.lines));
        // SAFETY: as `header`; the order is the leaf's last lines and has as many words as the leaf has lines of words.
        // It is only touched as atomics.
        unsafe {
            core::slice::from_raw_parts(
                self.at.add(at * LINE_BYTES).cast::<AtomicU64>(),
                self.lines(),
            )
        }
    }

    /// A line of words.
    #[inline(always)]
    pub(super) fn words<V>(self, line: usize) -> &'g LineWords {
        if self.header().shape.inline {
            self.words_of::<V, true>(line)
        } else {
            self.words_of::<V, false>(line)
        }
    }

    /// A line of words, of an inline leaf or of one that is not.
    #[inline(always)]
    pub(super) fn words_of<V, const INLINE: bool>(self, line: usize) -> &'g LineWords {
        debug_assert!(INLINE == self.header().shape.inline && line < self.lines());
        let at =
            FIXED_LINES + line * (1 + usize::from(INLINE && const { Self::has_values::<V>() }));
        // SAFETY: as `header`; a leaf has lines of words 0 .. lines, in an inline leaf with the line of their values in
        // between, and callers stay below `lines`: line numbers come from `Tag::home`, from `line_behind`, or from a slot
        // number below the number of slots.
        unsafe { &*self.at.add(at * LINE_BYTES).cast::<LineWords>() }
    }

    /// A line of values, of an inline leaf whose values have bytes.
    #[inline(always)]
    fn values(self, line: usize) -> &'g ValueLine {
        debug_assert!(self.header().shape.inline && line < self.lines());
        // SAFETY: as `words`; the values of a line of words stand behind it.
        unsafe { &*self.at.add((FIXED_LINES + 2 * line + 1) * LINE_BYTES).cast::<ValueLine>() }
    }

    /// Whether this type's values have a line of their own in inline leaves.
    pub(super) const fn has_values<V>() -> bool {
        size_of::<V>() != 0
    }

    /// The value beside a word, of an inline leaf.
    #[inline(always)]
    pub(super) fn value<V>(self, slot: Slot) -> word::Word {
        if const { Self::has_values::<V>() } {
            // Relaxed: the caller validates the pair by the leaf's version.
            self.values(slot / LINE_WORDS)[slot % LINE_WORDS].load(Relaxed)
        } else {
            core::ptr::null_mut()
        }
    }

    /// Stores the value beside a word, of an inline leaf. The caller holds the leaf's lock.
    #[inline(always)]
    pub(super) fn set_value<V>(self, slot: Slot, value: word::Word) {
        if const { Self::has_values::<V>() } {
            // ORDER: Release, so that a reader that validates the pair sees whatever the value was made from.
            self.values(slot / LINE_WORDS)[slot % LINE_WORDS].store(value, Release);
        }
    }

    /// Which of the leaf's lines is the home of `tag`.
    ///
    /// The number of lines is not known before the header is there; a leaf the table names is nearly always large.
    #[inline(always)]
    pub(super) fn home_line<V>(self, tag: Tag) -> usize {
        if self.is_inline() && const { Self::has_values::<V>() } {
            FIXED_LINES + 2 * tag.home(Size::Large.lines(true))
        } else {
            FIXED_LINES + tag.home(Size::Large.lines(false))
        }
    }

    /// Asks for the lines that a search needs first whose home is line `home` of the leaf: header, words, and the values
    /// or the border.
    #[inline(always)]
    pub(super) fn prefetch<V>(self, prefetch: impl Fn(*const u8), home: usize) {
        let line = |line: usize| prefetch(self.at.wrapping_add(line * LINE_BYTES));
        line(0);
        line(home);
        line(if self.is_inline() && const { Self::has_values::<V>() } { home + 1 } else { 1 });
    }

    /// Asks for header and order, for a scan.
    #[inline]
    pub(super) fn prefetch_order<V>(self) {
        let has_values = self.is_inline() && const { Self::has_values::<V>() };
        let words = Size::Large.lines(has_values);
        let order = FIXED_LINES + words * (1 + usize::from(has_values));
        arch::prefetch(self.at);
        for line in order..order + order_lines(words) {
            arch::prefetch(self.at.wrapping_add(line * LINE_BYTES));
        }
    }

    /// Asks for the word of a slot, and in a leaf that has values, if it is `with_value`, for the value beside it.
    #[inline(always)]
    pub(super) fn prefetch_slot(self, slot: Slot, has_values: bool, with_value: bool) {
        let at = FIXED_LINES + slot / LINE_WORDS * (1 + usize::from(has_values));
        arch::prefetch(self.at.wrapping_add(at * LINE_BYTES));
        if has_values && with_value {
            arch::prefetch(self.at.wrapping_add((at + 1) * LINE_BYTES));
        }
    }

    /// Lines of words.
    #[inline(always)]
    pub(super) fn lines(self) -> usize {
        usize::from(self.header().shape.lines)
    }

    /// The counts.
    #[inline(always)]
    pub(super) fn meta(self) -> Meta {
        // ORDER: Acquire, pairs with the Release store in `set_meta`: the order has as many slots as are sorted.
        Meta(self.header().counts.load(Acquire))
    }

    /// Stores the counts. The caller holds the leaf's lock or has not published the leaf.
    #[inline(always)]
    pub(super) fn set_meta(self, meta: Meta) {
        // ORDER: Release, pairs with `meta`.
        self.header().counts.store(meta.0, Release);
    }

    /// A word.
    #[inline(always)]
    pub(super) fn word<V>(self, slot: Slot) -> Word {
        // ORDER: Acquire, pairs with the Release store in `set_word`: a record's bytes are there.
        Word(self.words::<V>(slot / LINE_WORDS)[slot % LINE_WORDS].load(Acquire))
    }

    /// A word and the value beside it, of an inline leaf or of one that is not; for loops that know which.
    #[inline(always)]
    pub(super) fn entry<V, const INLINE: bool>(self, slot: Slot) -> (Word, word::Word) {
        let has_values = INLINE && const { Self::has_values::<V>() };
        let (line, place) = (slot / LINE_WORDS, slot % LINE_WORDS);
        // ORDER: Acquire, as in `word`.
        let word = Word(self.words_of::<V, INLINE>(line)[place].load(Acquire));
        // Relaxed: as in `value`.
        let value =
            if has_values { self.values(line)[place].load(Relaxed) } else { core::ptr::null_mut() };
        (word, value)
    }

    /// Stores a word. The caller holds the leaf's lock or has not published the leaf.
    #[inline(always)]
    pub(super) fn set_word<V>(self, slot: Slot, word: Word) {
        // ORDER: Release, pairs with `word`: what the word names was written before.
        self.words::<V>(slot / LINE_WORDS)[slot % LINE_WORDS].store(word.0, Release);
    }

    /// Copies the first `count` numbers of the order, and some behind them.
    #[inline]
    pub(super) fn copy_order(self, count: usize, copy: &mut [u8; SLOTS]) {
        let words = self.order().iter().take(count.div_ceil(8));
        for (eight, word) in copy.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            // Relaxed: the caller validates the copy by the leaf's version, or holds the leaf's lock.
            *eight = word.load(Relaxed).to_le_bytes();
        }
    }

    /// Lists all slots in use: the first `sorted` numbers of the order, then the others. Returns how many there are.
    pub(super) fn list<V>(self, sorted: usize, list: &mut [u8; SLOTS]) -> usize {
        self.copy_order(sorted, list);
        let mut listed = [0_u8; SLOTS.div_ceil(LINE_WORDS)];
        for slot in &list[..sorted] {
            if let Some(line) = listed.get_mut(usize::from(*slot) / LINE_WORDS) {
                *line |= 1 << (slot % LINE_WORDS as u8);
            }
        }
        let mut count = sorted;
        for (line, listed) in listed.iter().enumerate().take(self.lines()) {
            let mut others = !(arch::match_u64(shim::line(self.words::<V>(line)), 0, !0) | listed);
            while others != 0 {
                // A torn order can name a slot twice, and then the list is too short; it is dropped then.
                if let Some(place) = list.get_mut(count) {
                    *place = (line * LINE_WORDS) as u8 + others.trailing_zeros() as u8;
                    count += 1;
                }
                others &= others - 1;
            }
        }
        count
    }

    /// Replaces the order from number `from` on; it has `count` numbers. The caller is between `begin_change` and
    /// `end_change`, or has not published the leaf.
    #[inline]
    pub(super) fn set_order(self, order: &[u8; SLOTS], from: usize, count: usize) {
        let words = order.as_chunks::<8>().0.iter().zip(self.order());
        for (eight, word) in words.take(count.div_ceil(8)).skip(from / 8) {
            // Relaxed: ordered by the version's fences.
            word.store(u64::from_le_bytes(*eight), Relaxed);
        }
    }

    /// The prefix of an inline leaf, to put keys together with; empty in other leaves.
    #[inline(always)]
    pub(super) fn short_prefix(self) -> ShortPrefix {
        let header = self.header();
        let bytes = if header.shape.inline { header.prefix_bytes() } else { 0 };
        ShortPrefix { bits: header.short_prefix(), len: bytes.min(INLINE_PREFIX_BYTES) as u32 }
    }
}

/// The prefix of an inline leaf, copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortPrefix {
    /// Its bytes, the first on top, zeros behind them.
    bits: u64,
    len: u32,
}

impl ShortPrefix {
    /// Length of the key of an inline word behind this prefix.
    #[inline(always)]
    pub(super) fn key_bytes(&self, word: Word) -> usize {
        self.len as usize + word.inline_bytes()
    }

    /// The key of an inline word behind this prefix.
    #[inline(always)]
    pub(super) fn key(&self, word: Word) -> Key<'static> {
        // Put together in a register: bytes stored piece by piece would have to reach the cache before they are read.
        let rest = u128::from(word.inline_rest()) << 64 >> (8 * self.len);
        let bytes = (u128::from(self.bits) << 64 | rest).to_be_bytes();
        Key::short(bytes, self.key_bytes(word))
    }
}

const _: () = assert!(SHORT_KEY_BYTES == INLINE_PREFIX_BYTES + 8);

/// A value in a leaf's word or a record, as it was read.
#[inline(always)]
pub(super) fn read_inline<'g, V>(word: word::Word) -> Read<'g, V> {
    debug_assert!(word::is_inline::<V>());
    // SAFETY: values beside words were packed as `V` by the same map, and `V` is inline.
    unsafe { Read::new(word) }
}
