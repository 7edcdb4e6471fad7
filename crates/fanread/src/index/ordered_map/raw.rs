//! Views over the bytes of buckets, records and leaves: the only unsafe code of this map.
//!
//! # Invariants
//!
//! * **M1** The number of a record is found in a bucket or a leaf only after the record was written, and the record is not freed
//!   while the finder is pinned. Length, key and the hash of a long one, which is in front, never change.
//! * **M2** A leaf is formatted before its name is found, and not freed while the finder is pinned (`list` L8). It has as
//!   many numbers, guides and codes as its shape says.
//! * **M3** A value word of a map whose values are not inline is the address of a box, or of a byte string, which is in its record
//!   or, if that says so, apart; the word is taken out of the map once, and box or string freed when nobody can be reading it.

#![allow(clippy::cast_ptr_alignment, reason = "leaves start at a line, records at 8 bytes")]
#![expect(unsafe_code, reason = "views over the arenas' bytes; every block cites an invariant")]

use core::marker::PhantomData;

use super::bucket::Bucket;
use super::guides::{Guided, Guides};
use super::layout::{
    FILLED, FIXED_LINES, FREE, GONE, LINE_FRESH, MOST_BLOCKS, SLOTS, Shape, State, Units,
    lead_units, passer, tag_of,
};
use crate::api::OwnsAndTakes;
use crate::arch::{prefetch, prefetch_many};
use crate::directory::{self, Spelling};
use crate::list::{self, Border, Header, Limits};
use crate::mem::LINE_BYTES;
use crate::mem::boxed::Boxed;
use crate::mem::bytes::{self, Apart, BytesApart, NewBytes};
use crate::mem::heap::LINE_UNITS;
use crate::mem::record;
use crate::mem::word::{self, Form, Lent, Read, Word};
use crate::prefix::{self, LeafRef};
use crate::sync::epoch::Unlinked;
use crate::sync::shim::{
    AtomicPtr, AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// The number of a record.
pub(super) type Number = u32;

// SAFETY: a line of atomics, whose slots are free if their tags are 0.
unsafe impl directory::Bucket for Bucket {
    type Entry = Number;
    const SLOTS: usize = SLOTS;
    const LEAST_BUCKETS: usize = 1;
    const FILLED: [usize; 2] = FILLED;
    const SPARE_BITS: u32 = 0;
    const MOST_BLOCKS: usize = MOST_BLOCKS;

    #[inline(always)]
    fn free(&self) -> u32 {
        self.tagged(FREE)
    }

    #[inline(always)]
    fn gone(&self, _: u64) -> u32 {
        self.tagged(GONE)
    }

    #[inline(always)]
    fn fill(&self, slot: usize, hash: u64, _: Spelling, number: Number) {
        // ORDER: Release, pairs with `number`.
        self.numbers[slot].store(number, Release);
        self.set_tag(slot, tag_of(hash));
    }

    fn empty(&self, slot: usize, gone: bool, _: Spelling) {
        self.set_tag(slot, if gone { GONE } else { FREE });
    }

    #[inline(always)]
    fn pass(&self, hash: u64, _: Spelling) {
        let now = self.tags[1].load(Relaxed);
        // ORDER: Release, pairs with `is_passed` and `tagged`.
        self.tags[1].store(now | passer(hash), Release);
    }

    #[inline(always)]
    fn is_passed(&self, hash: u64, _: u64) -> bool {
        // ORDER: Acquire, pairs with the Release store in `pass`.
        self.tags[1].load(Acquire) & passer(hash) != 0
    }

    fn note(&self) -> u64 {
        self.tags[0].load(Relaxed)
    }

    fn set_note(&self, note: u64) {
        self.tags[0].store(note, Relaxed);
    }

    fn clear(&self) {
        // Relaxed: a block between two owners is nobody's.
        self.tags.iter().for_each(|tags| tags.store(0, Relaxed));
    }
}

/// Where leaves and records live.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) units: Units,
}

impl Memory {
    pub(super) const fn new() -> Self {
        Self { units: Units::new() }
    }

    /// Makes the name of a leaf, which is at the start of a line.
    pub(super) fn name(unit: u64) -> Option<LeafRef> {
        LeafRef::new(u32::try_from(unit / LINE_UNITS).ok()?)
    }

    /// The unit of a leaf.
    #[inline(always)]
    pub(super) fn unit(name: LeafRef) -> u64 {
        u64::from(name.get()) * LINE_UNITS
    }

    /// The record behind a number that was found in a bucket or a leaf.
    #[inline(always)]
    pub(super) fn record<V: ?Sized>(&self, number: Number) -> Record<'_, V> {
        Record { at: self.units.at(u64::from(number)), lives: PhantomData }
    }

    /// Where the piece of a record begins, and how many units it has.
    pub(super) fn piece<V: ?Sized + Stored>(&self, number: Number) -> (u64, u64) {
        let record = self.record::<V>(number);
        let lead = lead_units(record.key().len());
        (u64::from(number) - lead, lead + V::units_of(record))
    }

    /// Fills a fresh record.
    ///
    /// The caller has it from the heap, with `lead_units(key.len())` units in front, room for `V::units(key.len(), value)` and as many more
    /// as it says, and has not shared it. The hash is the key's, if it is to be in front.
    #[inline(always)]
    pub(super) fn write_record<V: ?Sized + Stored>(
        &self,
        number: Number,
        (key, hash): (&[u8], u64),
        value: V::New<'_>,
        (state, spare): (State, u64),
    ) {
        debug_assert!(u16::try_from(key.len()).is_ok() && spare <= MOST_SPARE);
        let at = self.units.at(u64::from(number));
        let head = key.len() as u32 | (state as u32) << STATE_AT | (spare as u32) << SPARE_AT;
        // SAFETY: the units are the caller's alone (heap H1), aligned to 8 bytes, and have room for all parts.
        unsafe {
            let marks = V::write(at, HEAD_BYTES + key.len(), value);
            at.add(V::BEFORE).cast::<u32>().write(head | marks);
            let place = at.add(V::BEFORE + HEAD_BYTES);
            core::ptr::copy_nonoverlapping(key.as_ptr(), place, key.len());
            if lead_units(key.len()) != 0 {
                at.cast::<u64>().sub(1).write(hash);
            }
        }
    }

    /// Fills a fresh record of a border; as `write_record`.
    pub(super) fn write_border(&self, unit: u64, border: &[u8]) {
        let (at, nothing) = (self.units.at(unit), word::pack(()));
        // SAFETY: as in `write_record`.
        unsafe { record::Record::write_packed(at, border, nothing, PhantomData::<()>) };
    }

    /// Fills fresh or reused lines with a leaf of sorted numbers, without neighbours. `slice` is that of each sorted key.
    pub(super) fn format(
        &self,
        name: LeafRef,
        shape: Shape,
        limits: Limits<'_>,
        number: impl Fn(usize) -> Number,
        slice: impl Fn(usize) -> u64,
    ) -> Leaf<'_> {
        let leaf = list::Leaves::leaf(self, name);
        let (header, border) = Header::new(limits, shape);
        let slices = (header.low_slice, header.high_slice);
        let (sorted, fresh_at) = (usize::from(shape.sorted), shape.fresh_at() * LINE_BYTES);
        // SAFETY: the leaf's lines are the caller's alone until it is published: fresh, or freed by the epochs. Its shape has room
        // for all parts.
        unsafe {
            leaf.at.cast::<Header<Shape>>().write(header);
            leaf.at.add(LINE_BYTES).cast::<Border>().write(border);
            leaf.at.add(fresh_at).write_bytes(0, shape.lines() * LINE_BYTES - fresh_at);
            if shape.is_guided() {
                let guides = Guides::of(sorted, &slice);
                let codes = leaf.at.add(leaf.codes_at());
                let each = guides.codes(sorted, slices, &slice).enumerate();
                each.for_each(|(at, code)| codes.add(at).write(code));
                leaf.at.add(FIXED_LINES * LINE_BYTES).cast::<Guides>().write(guides);
            }
        }
        for (at, place) in leaf.sorted_numbers().iter().enumerate() {
            // Relaxed: published with the leaf.
            place.store(number(at), Relaxed);
        }
        leaf
    }
}

impl list::Leaves for Memory {
    type Leaf<'g> = Leaf<'g>;

    #[inline(always)]
    fn leaf(&self, name: LeafRef) -> Leaf<'_> {
        Leaf { at: self.units.at(Self::unit(name)), name, lives: PhantomData }
    }

    #[inline]
    fn border(&self, unit: u64) -> &[u8] {
        if unit == 0 {
            return &[];
        }
        // SAFETY: written by `write_border` before the leaf that names it, and freed after that leaf (M2).
        unsafe { record::Record::<()>::new(self.units.at(unit)) }.key()
    }
}

/// Bytes of length and state.
const HEAD_BYTES: usize = size_of::<u32>();

/// Where the state is in a head.
const STATE_AT: u32 = 16;

/// In a head: the value is not in the record.
const APART: u32 = 1 << 19;

/// Where a head says how many units more the record has than it needs.
const SPARE_AT: u32 = 20;

/// Most units that a record has to spare.
const MOST_SPARE: u64 = (1 << (32 - SPARE_AT)) - 1;

/// A type whose values an [`OrderedMap`](super::OrderedMap) can keep: any sized type, and byte strings.
#[doc(hidden)]
pub trait Stored: Form {
    /// A value on its way into a record.
    type New<'a>: Copy;
    /// What is left of a value that was taken out of the map, to be dropped when nobody can be reading it.
    type Left;
    /// What a map with such values owns, to the compiler.
    type Owns;
    /// A count of the bytes of values apart from their records, if there can be any.
    type Apart: Default;
    /// Bytes of a record in front of the head.
    const BEFORE: usize;
    /// Whether a new value is a new record.
    const MOVES: bool;

    /// How many units of 8 bytes a record takes.
    #[doc(hidden)]
    fn units(key_bytes: usize, value: Self::New<'_>) -> u64;

    /// Writes a value into a record and returns marks for its head.
    ///
    /// # Safety
    ///
    /// There is room for the `units` at `at`, which is the caller's alone. The head and the key take the `inner` bytes behind `BEFORE`.
    #[doc(hidden)]
    unsafe fn write(at: *mut u8, inner: usize, value: Self::New<'_>) -> u32;

    /// The value as a word.
    #[doc(hidden)]
    fn word(record: Record<'_, Self>) -> Word;

    /// Replaces the value of a record, if values do not move; returns its word.
    #[doc(hidden)]
    fn set(record: Record<'_, Self>, value: Self::New<'_>) -> Word;

    /// How many units a written record takes.
    #[doc(hidden)]
    fn units_of(record: Record<'_, Self>) -> u64;

    /// How many units to take for a record that needs `least`, in the place of another one.
    #[doc(hidden)]
    fn units_after(old: Record<'_, Self>, least: u64) -> u64;

    /// What is to be dropped of a value that was taken out of the map, beside its record.
    ///
    /// # Safety
    ///
    /// The word is that of the record, and taken out of the map once (M3).
    #[doc(hidden)]
    unsafe fn left(apart: &Self::Apart, record: Record<'_, Self>, word: Word)
    -> Option<Self::Left>;

    /// Bytes of values that are not in their records, in a map of so many entries. If there are any, they are to be dropped.
    #[doc(hidden)]
    fn apart(apart: &Self::Apart, entries: usize) -> Option<usize>;
}

/// A word in front of the head: packed if the value is inline, else the address of its box. Values without bytes take none.
impl<V> Stored for V {
    type New<'a> = Word;
    type Left = Boxed<V>;
    type Owns = OwnsAndTakes<V>;
    type Apart = ();
    const BEFORE: usize =
        if size_of::<V>() == 0 && word::is_inline::<V>() { 0 } else { size_of::<Word>() };
    const MOVES: bool = false;

    #[inline(always)]
    fn units(key_bytes: usize, _: Word) -> u64 {
        (Self::BEFORE + HEAD_BYTES + key_bytes).div_ceil(8) as u64
    }

    #[inline(always)]
    unsafe fn write(at: *mut u8, _: usize, value: Word) -> u32 {
        if Self::BEFORE != 0 {
            // SAFETY: the caller promises the room; records are aligned to 8 bytes.
            unsafe { at.cast::<Word>().write(value) };
        }
        0
    }

    #[inline(always)]
    fn word(record: Record<'_, V>) -> Word {
        if Self::BEFORE == 0 {
            return core::ptr::null_mut();
        }
        // ORDER: Acquire, pairs with the Release store in `set`: the box is filled.
        record.cell().load(Acquire)
    }

    #[inline(always)]
    fn set(record: Record<'_, V>, word: Word) -> Word {
        if Self::BEFORE != 0 {
            // ORDER: Release, pairs with `word`.
            record.cell().store(word, Release);
        }
        word
    }

    fn units_of(record: Record<'_, V>) -> u64 {
        Self::units(record.key().len(), core::ptr::null_mut())
    }

    fn units_after(_: Record<'_, V>, least: u64) -> u64 {
        least
    }

    unsafe fn left((): &(), _: Record<'_, V>, word: Word) -> Option<Boxed<V>> {
        // SAFETY: the word was made by `word_of_value` and is taken back once, when nobody can be reading it (M3).
        (!const { word::is_inline::<V>() }).then(|| unsafe { Boxed::new(word) })
    }

    fn apart((): &(), entries: usize) -> Option<usize> {
        (!const { word::is_inline::<V>() }).then(|| entries * size_of::<V>())
    }
}

/// Behind the key: the string, or if it is long the address of a piece with it. Its word is where its length is.
impl Stored for [u8] {
    type New<'a> = NewBytes<'a>;
    type Left = Apart;
    type Owns = Box<[u8]>;
    type Apart = BytesApart;
    const BEFORE: usize = 0;
    const MOVES: bool = true;

    #[inline(always)]
    fn units(key_bytes: usize, value: NewBytes<'_>) -> u64 {
        let value = match value {
            NewBytes::Inside(value) => bytes::piece_bytes(value.len()),
            NewBytes::Apart(_) => size_of::<Word>(),
        };
        (HEAD_BYTES + key_bytes + value).div_ceil(8) as u64
    }

    #[inline(always)]
    unsafe fn write(at: *mut u8, inner: usize, value: NewBytes<'_>) -> u32 {
        // SAFETY: the caller promises the room for all parts.
        unsafe {
            match value {
                NewBytes::Inside(value) => bytes::write(at.add(inner), value),
                NewBytes::Apart(word) => at.add(inner).cast::<Word>().write_unaligned(word),
            }
        }
        if let NewBytes::Apart(_) = value { APART } else { 0 }
    }

    #[inline(always)]
    fn word(record: Record<'_, [u8]>) -> Word {
        // Relaxed: length and mark never change.
        let head = record.head().load(Relaxed);
        let place = record.at.wrapping_add(HEAD_BYTES + usize::from(head as u16));
        if head & APART == 0 {
            return place.cast();
        }
        // SAFETY: the mark says that `write` has put a word there, which never changes (M1).
        unsafe { place.cast::<Word>().read_unaligned() }
    }

    fn set(_: Record<'_, [u8]>, _: NewBytes<'_>) -> Word {
        unreachable!("a new string is a new record")
    }

    fn units_of(record: Record<'_, [u8]>) -> u64 {
        let value = Lent::new(read_value::<[u8]>(record.word()));
        let value = if record.is_apart() {
            NewBytes::Apart(record.word())
        } else {
            NewBytes::Inside(value.get())
        };
        // Relaxed: only who has the map for himself changes what is to spare.
        Self::units(record.key().len(), value) + u64::from(record.head().load(Relaxed) >> SPARE_AT)
    }

    /// A value that grows or shrinks leaves records behind whose memory only those of the same size use again. So a record stays as
    /// large as it is unless half of it is left over, and else has one of few sizes, two for each doubling: those up to a size
    /// are three times as much as it.
    fn units_after(old: Record<'_, [u8]>, least: u64) -> u64 {
        let before = Self::units_of(old);
        if least <= before && before < 2 * least && before - least <= MOST_SPARE {
            return before;
        }
        let double = least.next_power_of_two();
        let units = if least <= double / 4 * 3 { double / 4 * 3 } else { double };
        units.clamp(least, least + MOST_SPARE)
    }

    unsafe fn left(apart: &BytesApart, record: Record<'_, [u8]>, word: Word) -> Option<Apart> {
        // SAFETY: the caller's promise; the mark says that the word is that of a piece.
        record.is_apart().then(|| unsafe { bytes::take_apart(apart, word) })
    }

    fn apart(apart: &BytesApart, _: usize) -> Option<usize> {
        Some(apart.get()).filter(|bytes| *bytes != 0)
    }
}

/// A key with its value and state.
#[derive(Debug)]
pub struct Record<'g, V: ?Sized> {
    at: *mut u8,
    lives: PhantomData<&'g V>,
}

impl<V: ?Sized> Clone for Record<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized> Copy for Record<'_, V> {}

impl<'g, V: ?Sized + Stored> Record<'g, V> {
    /// Asks for the lines of a record whose key has so many bytes.
    #[inline(always)]
    pub(super) fn ask(self, key_bytes: usize) {
        self.ask_by(prefetch, key_bytes);
    }

    /// The same for one of many that are looked at later.
    #[inline(always)]
    pub(super) fn ask_many(self, key_bytes: usize) {
        self.ask_by(prefetch_many, key_bytes);
    }

    #[inline(always)]
    fn ask_by(self, prefetch: impl Fn(*const u8) + Copy, key_bytes: usize) {
        // The last byte of the key is in the second line, most often, or already asked for; a byte string is behind it.
        self.ask_key_by(prefetch, if V::MOVES { key_bytes.max(LINE_BYTES) } else { key_bytes });
        if key_bytes > LINE_BYTES {
            prefetch(self.at.wrapping_add(LINE_BYTES));
        }
    }

    /// Asks for the lines of so many bytes of a key.
    #[inline(always)]
    pub(super) fn ask_key(self, key_bytes: usize) {
        self.ask_key_by(prefetch, key_bytes);
    }

    #[inline(always)]
    fn ask_key_by(self, prefetch: impl Fn(*const u8), key_bytes: usize) {
        prefetch(self.at);
        prefetch(self.at.wrapping_add(V::BEFORE + HEAD_BYTES + key_bytes - 1));
    }

    /// The same for who is going to compare the key at once, and so asks for all lines of a short one.
    #[inline(always)]
    pub(super) fn ask_long(self, key_bytes: usize) {
        if V::MOVES || key_bytes > LINE_BYTES / 2 {
            self.ask(key_bytes);
        }
    }

    #[inline(always)]
    fn head(self) -> &'g AtomicU32 {
        // SAFETY: written by `write_record`, and from then on only touched as an atomic (M1).
        unsafe { &*self.at.add(V::BEFORE).cast::<AtomicU32>() }
    }

    /// The key.
    #[inline(always)]
    pub(super) fn key(self) -> &'g [u8] {
        // Relaxed: the length never changes.
        let bytes = usize::from(self.head().load(Relaxed) as u16);
        // SAFETY: written by `write_record`, unchanged since (M1).
        unsafe { core::slice::from_raw_parts(self.at.add(V::BEFORE + HEAD_BYTES), bytes) }
    }

    /// The hash of a long key.
    #[inline(always)]
    pub(super) fn hash_in_front(self) -> Option<u64> {
        // SAFETY: in front of such a key's record `write_record` has put it, at a multiple of 8 bytes, and it is unchanged since (M1).
        (lead_units(self.key().len()) != 0).then(|| unsafe { self.at.cast::<u64>().sub(1).read() })
    }

    #[inline(always)]
    pub(super) fn state(self) -> State {
        // ORDER: Acquire, pairs with the Release store in `set_state`: who sees a record gone sees what its writer did before.
        State::of(self.head().load(Acquire) >> STATE_AT)
    }

    /// Whether it is an entry to who was led to it by the directory.
    #[inline(always)]
    pub(super) fn is_named_entry(self) -> bool {
        // ORDER: Acquire, as in `state`.
        self.head().load(Acquire) >> STATE_AT & State::ENTRY != 0
    }

    /// The same if it has a key of eight bytes: length and state are compared as one word.
    #[inline(always)]
    pub(super) fn is_named_entry_of_eight(self, key: [u8; 8]) -> bool {
        // ORDER: Acquire, as in `state`.
        let head = self.head().load(Acquire) & (u32::from(u16::MAX) | State::ENTRY << STATE_AT);
        // SAFETY: a key of eight bytes was written by `write_record`, and is unchanged since (M1).
        head == 8 | State::ENTRY << STATE_AT
            && unsafe { self.at.add(V::BEFORE + HEAD_BYTES).cast::<[u8; 8]>().read() } == key
    }

    /// Goes on to a state. The caller holds the lock of the key's window.
    #[inline(always)]
    pub(super) fn set_state(self, state: State) {
        let rest = self.head().load(Relaxed) & !(State::MASK << STATE_AT);
        // ORDER: Release, pairs with `state`.
        self.head().store(rest | (state as u32) << STATE_AT, Release);
    }

    /// Whether the value is not in the record.
    fn is_apart(self) -> bool {
        // Relaxed: the mark never changes.
        self.head().load(Relaxed) & APART != 0
    }

    /// The value as a word.
    #[inline(always)]
    pub(super) fn word(self) -> Word {
        V::word(self)
    }

    /// Replaces the value, which does not move; returns its word. The caller holds the lock of the key's window.
    #[inline(always)]
    pub(super) fn set(self, value: V::New<'_>) -> Word {
        V::set(self, value)
    }

    #[inline(always)]
    fn cell(self) -> &'g AtomicPtr<()> {
        // SAFETY: as `head`; only called if there is a value part before the head.
        unsafe { &*self.at.cast::<AtomicPtr<()>>() }
    }
}

impl<'g> Record<'g, [u8]> {
    /// Writes a value over the one that is there, if it fits and fills half of the record; returns whether it did. The caller has
    /// the map for itself, and nobody has the value.
    pub(super) fn overwrite(self, value: &[u8]) -> bool {
        let (units, inner) = (<[u8]>::units_of(self), HEAD_BYTES + self.key().len());
        let least = <[u8]>::units(self.key().len(), NewBytes::Inside(value));
        let fits = least <= units && 2 * least > units && units - least <= MOST_SPARE;
        if self.is_apart() || value.len() > bytes::MOST_INSIDE || !fits {
            return false;
        }
        // SAFETY: the record has room for the value behind the key, and nobody else looks at it.
        unsafe { bytes::write(self.at.add(inner), value) };
        let rest = self.head().load(Relaxed) & ((1 << SPARE_AT) - 1);
        // Relaxed: nobody else is there.
        self.head().store(rest | ((units - least) as u32) << SPARE_AT, Relaxed);
        true
    }

    /// The bytes of a value in its record or apart, to be changed. The caller has the map for itself for `'g`.
    #[inline]
    pub(super) fn bytes_mut(self) -> &'g mut [u8] {
        // SAFETY: the word names what `bytes::write` wrote, which lives as long as the record's entry; nobody else looks at it.
        unsafe {
            let (at, len) = bytes::place(self.word().cast());
            core::slice::from_raw_parts_mut(at, len)
        }
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
        // SAFETY: a name leads to a formatted leaf that is not freed for 'g (M2). What changes in it is atomic.
        unsafe { &*self.at.cast::<Header<Shape>>() }
    }

    #[inline(always)]
    fn border(self) -> &'g Border {
        // SAFETY: as `header`; line 1 never changes.
        unsafe { &*self.at.add(LINE_BYTES).cast::<Border>() }
    }
}

/// Fresh numbers, and the codes of their keys.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct FreshLine {
    pub(super) numbers: [AtomicU32; LINE_FRESH],
    pub(super) codes: [AtomicU8; LINE_FRESH],
}

const _: () = assert!(size_of::<FreshLine>() == LINE_BYTES);

impl<'g> Leaf<'g> {
    /// Asks for the line of a byte of the leaf; it may have fewer.
    #[inline(always)]
    pub(super) fn ask_byte(self, at: usize) {
        prefetch(self.at.wrapping_add(at));
    }

    #[inline(always)]
    pub(super) fn shape(self) -> Shape {
        list::Leaf::header(self).shape
    }

    /// Lines of fresh numbers.
    #[inline(always)]
    pub(super) fn fresh_lines(self) -> &'g [FreshLine] {
        let shape = self.shape();
        // SAFETY: a leaf has as many such lines, from there on, as its shape says (M2), only touched as atomics.
        unsafe {
            core::slice::from_raw_parts(
                self.at.add(shape.fresh_at() * LINE_BYTES).cast::<FreshLine>(),
                shape.fresh_lines(),
            )
        }
    }

    /// Where the codes of sorted keys are, in bytes.
    #[inline(always)]
    pub(super) fn codes_at(self) -> usize {
        let shape = self.shape();
        shape.sorted_at() * LINE_BYTES + usize::from(shape.sorted) * size_of::<Number>()
    }

    /// What the leaf says of its sorted keys, if it has guides and codes.
    #[inline(always)]
    pub(super) fn guided(self) -> Option<Guided<'g>> {
        let header = list::Leaf::header(self);
        // SAFETY: the shape says that guides and a code for each sorted number were written there (M2); they never change.
        header.shape.is_guided().then(|| unsafe {
            let codes = self.at.add(self.codes_at());
            Guided {
                guides: &*self.at.add(FIXED_LINES * LINE_BYTES).cast::<Guides>(),
                codes: core::slice::from_raw_parts(codes, usize::from(header.shape.sorted)),
                limits: (header.low_slice, header.high_slice),
            }
        })
    }

    /// The sorted numbers.
    #[inline(always)]
    pub(super) fn sorted_numbers(self) -> &'g [AtomicU32] {
        let shape = self.shape();
        // SAFETY: a leaf has as many numbers, from there on, as its shape says (M2), only touched as atomics.
        unsafe {
            core::slice::from_raw_parts(
                self.at.add(shape.sorted_at() * LINE_BYTES).cast::<AtomicU32>(),
                usize::from(shape.sorted),
            )
        }
    }
}

/// What a writer has unlinked.
#[derive(Debug)]
pub(super) enum Garbage<V: ?Sized + Stored> {
    /// A leaf: how many lines, and where.
    Leaf(usize, u64),
    /// A record whose value was taken out before.
    Record(Number),
    /// A record of a border.
    Border(u64),
    /// A piece of the prefix table.
    Prefixes(#[expect(dead_code, reason = "kept to be dropped")] prefix::Garbage),
    Directory(directory::Garbage<Bucket>),
    Value(V::Left),
}

impl<V: ?Sized + Stored> Unlinked for Garbage<V> {
    fn is_large(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::Prefixes(_))
    }
}

/// What is to be dropped of a value that was taken out of the map, once, beside its record.
pub(super) fn left_of<V: ?Sized + Stored>(
    apart: &V::Apart,
    record: Record<'_, V>,
    word: Word,
) -> Option<V::Left> {
    // SAFETY: each caller has just replaced the record's word or ended the record, or the map ends (M3).
    unsafe { V::left(apart, record, word) }
}

/// The value behind a word that was read from the map.
#[inline(always)]
pub(super) fn read_value<'g, V: ?Sized + Stored>(word: Word) -> Read<'g, V> {
    // SAFETY: a value word was made by `word_of_value` or names a written string, and what it names is not freed while the reader
    // is pinned (M3).
    unsafe { Read::new(word) }
}
