//! Typed views over the bytes of tries and records: the only unsafe code of this index.
//!
//! Nothing here decides anything. Each view is made from a reference that invariant T7 covers, for tries as for
//! records, and lives as long as the guard of the one who found it.
//!
//! # Invariants
//!
//! * **R1** What the name of a trie leads to was formatted for as many buckets as its header says, which does not change
//!   until the trie is freed: the header's lines, and each of its blocks.
//! * **R2** A line is in one trie, in one list of free pieces, or was never handed out. All pieces of a list have one size, and the
//!   first word of each is the address of the next. The second word of a listed header is the unit of its piece.

#![allow(clippy::cast_ptr_alignment, reason = "pieces start at a line")]
#![allow(clippy::missing_errors_doc, reason = "the one error is that there is no memory")]
#![expect(
    unsafe_code,
    reason = "views over the arenas' bytes; every block cites the invariant it relies on"
)]

use core::marker::PhantomData;

use super::bucket::{self, Bucket, Hit, find_in_pair};
use super::free::{FreeLines, Parts};
use super::header::{
    Border, Filled, HEADER_LINES, HINTED, Header, KEPT_PREFIX_BYTES, LEVEL, Lines, NAME_AT_LINE,
    PAIRS_AT, ROUND, Rest, WORN_OUT,
};
use super::layout::{
    BLOCK_BUCKETS, Head, Hinting, Home, Leaf, Node, Place, SHORT_BYTES, STATE_BITS, TAG_BITS, WORN,
    blocks_of, is_size, slice_at,
};
use super::state::{ShortName, State};
use crate::api::Key;
use crate::arch::{self, Lanes};
use crate::mem::heap::Records;
use crate::mem::record::Record;
use crate::mem::word::{self, Read, Word};
use crate::mem::{AllocError, LINE_BYTES};
use crate::prefix::LeafRef;
use crate::sync::shim::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::version::Version;

/// Where tries and records live.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) lines: Lines,
    pub(super) records: Records,
}

/// Bytes of tries from which a map has many tries.
const LARGE_BYTES: usize = 1 << 20;

/// Bytes of keys beyond which a record has lines that nobody asks for ahead: three are asked for at most.
const MAX_REACH: usize = 96;

/// Where one key has more bytes than this, those of a walk are taken for as long as [`MAX_REACH`]: others are longer than it.
const LONG: usize = 48;

/// What a new trie is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    /// With the lines of hints, as `layout::is_size` allows.
    pub(super) buckets: u32,
    /// Bits that all keys between the borders share, and that every one of them has.
    pub(super) skip_bits: u32,
    /// Which attempt at a root this is.
    pub(super) round: u32,
    /// The levels that paths usually have.
    pub(super) levels: u64,
    /// The level where a search may start.
    pub(super) entry: u32,
    /// The level where, and on the next, most leaves are; 0: there is none.
    pub(super) leaf_level: u32,
    /// What hints there are.
    pub(super) hinting: Hinting,
    /// Record and bytes of the lower border.
    pub(super) low: (u64, &'a [u8]),
    /// Record and bytes of the upper border, if there is one.
    pub(super) high: Option<(u64, &'a [u8])>,
}

impl Shape<'_> {
    /// Lines of the table: its buckets, and hints.
    pub(super) fn lines(&self) -> u32 {
        self.buckets + self.hinting.lines()
    }
}

/// Free pieces of one size (R2).
#[derive(Debug)]
pub(super) struct Pieces(*mut u8);

// SAFETY: the pieces belong to the list (R2), wherever it is.
unsafe impl Send for Pieces {}

impl Default for Pieces {
    fn default() -> Self {
        Self(core::ptr::null_mut())
    }
}

impl Pieces {
    /// Takes a piece of so many lines, all zeros, if there is one.
    pub(super) fn take(&mut self, lines: usize) -> Option<*mut u8> {
        let at = self.first()?;
        self.0 = Self::behind(at);
        // SAFETY: the piece belonged to the list, and has the size of all its pieces, which is the caller's (R2).
        unsafe { at.write_bytes(0, lines * LINE_BYTES) };
        Some(at)
    }

    /// Takes back a piece, which nobody reads any more.
    pub(super) fn give(&mut self, at: *mut u8) {
        // SAFETY: the piece is the caller's alone (R2), and aligned to a line.
        unsafe { at.cast::<*mut u8>().write(self.0) };
        self.0 = at;
    }

    /// Takes the piece of a header, which has a number.
    pub(super) fn take_numbered(&mut self, lines: usize) -> Option<u64> {
        // SAFETY: the second word of a listed header is its unit (R2).
        let unit = unsafe { self.first()?.cast::<u64>().add(1).read() };
        self.take(lines).map(|_| unit)
    }

    /// Takes back the piece of a header.
    pub(super) fn give_numbered(&mut self, arena: &Lines, unit: u64) {
        let at = arena.at(unit);
        self.give(at);
        // SAFETY: the piece was the caller's alone and is now the list's (R2).
        unsafe { at.cast::<u64>().add(1).write(unit) };
    }

    /// Takes over all pieces of another list.
    pub(super) fn absorb(&mut self, mut other: Self) {
        if self.0.is_null() {
            // Not piece by piece: the first word of each is a line that is not in the cache.
            core::mem::swap(self, &mut other);
        }
        let mut next = other.first();
        while let Some(at) = next {
            other.0 = Self::behind(at);
            next = other.first();
            self.give(at);
        }
    }

    pub(super) fn first(&self) -> Option<*mut u8> {
        (!self.0.is_null()).then_some(self.0)
    }

    /// The piece behind another one of a list; null: none.
    fn behind(at: *mut u8) -> *mut u8 {
        // SAFETY: a listed piece belongs to the list and starts with the next one's address (R2). It is aligned to a line.
        unsafe { at.cast::<*mut u8>().read() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        let next = |at: &*mut u8| Some(Self::behind(*at)).filter(|at| !at.is_null());
        core::iter::successors(self.first(), next).count()
    }
}

impl Memory {
    pub(super) const fn new() -> Self {
        Self { lines: Lines::new(), records: Records::new() }
    }

    /// Whether there are many tries.
    pub(super) fn is_large(&self) -> bool {
        self.lines.used_bytes() >= LARGE_BYTES
    }

    /// The trie behind a name that was found in the table or in a link.
    #[inline(always)]
    pub(super) fn trie(&self, name: LeafRef) -> Trie<'_> {
        Trie { at: self.lines.at(name.get().into()), name, lives: PhantomData }
    }

    /// The record behind a number that was found in a leaf.
    #[inline(always)]
    pub(super) fn record<V>(&self, unit: u64) -> Record<'_, V> {
        // SAFETY: units in leaves name records that were written before (the bucket's version was loaded by Acquire, or
        // the trie's lock is held) and are not freed while the finder is pinned (T7).
        unsafe { Record::new(self.records.at(unit)) }
    }

    /// Asks for the first line of a record, for the line so many bytes behind its start, and for one between them: a record of the
    /// size of its neighbours lies in these.
    #[inline(always)]
    pub(super) fn prefetch_record(&self, unit: u64, reach_bytes: usize) {
        self.ask_for_record(arch::prefetch, unit, reach_bytes);
    }

    #[inline(always)]
    fn ask_for_record(&self, ask: impl Fn(*const u8), unit: u64, reach_bytes: usize) {
        let at: *const u8 = self.records.at(unit);
        ask(at);
        ask(at.wrapping_add(reach_bytes));
        if reach_bytes > LINE_BYTES {
            ask(at.wrapping_add(LINE_BYTES));
        }
    }

    /// How far behind the start of a record its last bytes are, for a key of this length.
    #[inline(always)]
    pub(super) fn reach_bytes<V>(key_bytes: usize) -> usize {
        8 * (Record::<V>::units(key_bytes.min(MAX_REACH)) as usize - 1)
    }

    /// The same for many records, of one of which this is the length of the key.
    #[inline]
    pub(super) fn reach_of_many<V>(key_bytes: usize) -> usize {
        Self::reach_bytes::<V>(if key_bytes > LONG { MAX_REACH } else { key_bytes })
    }

    /// The leaf of an entry, if it needs no record. The value stays the caller's until somebody can find the leaf.
    #[inline(always)]
    pub(super) fn short_leaf<V>(key: &[u8], value: &V) -> Option<Leaf> {
        if !const { word::is_inline::<V>() } {
            return None;
        }
        let key = u64::from_be_bytes(key.try_into().ok()?);
        // SAFETY: an inline value has nothing to drop, so of the two that exist now the one that is not used is no loss.
        let word = word::pack(unsafe { core::ptr::from_ref(value).read() });
        Some(Leaf::Short { key, value: word.expose_provenance() as u64 })
    }

    /// The key of an entry.
    #[inline(always)]
    pub(super) fn key<'g, V: 'g>(&'g self, leaf: Leaf) -> Key<'g> {
        match leaf {
            Leaf::Record { unit, .. } => Key::long(self.record::<V>(unit).key()),
            Leaf::Short { key, .. } => {
                let bytes = u128::from(key) << 64;
                Key::short(bytes.to_be_bytes(), SHORT_BYTES)
            }
        }
    }

    /// The value of an entry.
    #[inline(always)]
    pub(super) fn value<V>(&self, leaf: Leaf) -> Read<'_, V> {
        match leaf {
            Leaf::Record { unit, .. } => self.record::<V>(unit).value(),
            Leaf::Short { value, .. } => Self::short_value(value),
        }
    }

    /// The value in a short leaf.
    #[inline(always)]
    pub(super) fn short_value<'g, V>(value: u64) -> Read<'g, V> {
        Self::read_short(Self::short_word(value))
    }

    /// The word of the value in a short leaf.
    #[inline(always)]
    pub(super) fn short_word(value: u64) -> Word {
        core::ptr::with_exposed_provenance_mut(value as usize)
    }

    /// The value that such a word is.
    #[inline(always)]
    pub(super) fn read_short<'g, V>(word: Word) -> Read<'g, V> {
        debug_assert!(word::is_inline::<V>());
        // SAFETY: `short_leaf` made it of an inline value of the map's type, and short leaves are read whole (T6).
        unsafe { Read::new(word) }
    }

    /// Asks for the record of an entry, as `prefetch_record`.
    #[inline(always)]
    pub(super) fn prefetch_leaf(&self, leaf: Leaf, reach_bytes: usize) {
        if let Leaf::Record { unit, .. } = leaf {
            self.prefetch_record(unit, reach_bytes);
        }
    }

    /// The same for one of many entries that are read later.
    #[inline(always)]
    pub(super) fn prefetch_leaf_many(&self, leaf: Leaf, reach_bytes: usize) {
        if let Leaf::Record { unit, .. } = leaf {
            self.ask_for_record(arch::prefetch_many, unit, reach_bytes);
        }
    }

    /// The bytes of a border.
    #[inline]
    pub(super) fn border(&self, unit: u64) -> &[u8] {
        if unit == 0 { &[] } else { self.record::<()>(unit).key() }
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

    /// Drops the value of a record that nobody can read any more.
    pub(super) fn drop_record<V>(&self, unit: u64) {
        // SAFETY: called by the reclaiming side alone, after the epochs freed the record (T7).
        unsafe { self.record::<V>(unit).drop_value() };
    }

    /// Takes the value back out of a record that nobody else has seen.
    pub(super) fn take_back<V>(&self, unit: u64) -> V {
        // SAFETY: the caller has just filled the record, and gives its memory back.
        unsafe { self.record::<V>(unit).take_value() }
    }

    /// Makes a trie without nodes and neighbours.
    pub(super) fn allocate(
        &self,
        free: &mut FreeLines,
        shape: &Shape<'_>,
    ) -> Result<Trie<'_>, AllocError> {
        debug_assert!(is_size(shape.lines()));
        let mut parts = Parts::NONE;
        let taken = parts.take(self, free, shape);
        let name = u32::try_from(parts.header + NAME_AT_LINE as u64).ok().and_then(LeafRef::new);
        match (taken, name) {
            (Ok(()), Some(name)) => {
                let trie = self.trie(name);
                trie.format(shape, &parts);
                Ok(trie)
            }
            (taken, _) => {
                parts.give(self, free, shape.lines());
                // If there is memory, then no number for a header.
                Err(taken.err().unwrap_or(AllocError { bytes: HEADER_LINES * LINE_BYTES }))
            }
        }
    }

    /// Takes back the lines of a trie that nobody can read any more. Records are not touched.
    pub(super) fn free(&self, free: &mut FreeLines, name: LeafRef) {
        let trie = self.trie(name);
        Parts::of(trie).give(self, free, trie.lines());
    }
}

/// A trie that is live, or dead and not yet freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trie<'g> {
    /// Line 0.
    at: *mut u8,
    name: LeafRef,
    lives: PhantomData<&'g ()>,
}

impl PartialEq for Trie<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<'g> Trie<'g> {
    /// Writes the header of a trie that nobody has seen yet.
    fn format(self, shape: &Shape<'_>, parts: &Parts) {
        let at = shape.skip_bits as usize / 8;
        let mut prefix = [0_u8; KEPT_PREFIX_BYTES];
        let kept = at.min(KEPT_PREFIX_BYTES);
        prefix[..kept].copy_from_slice(&shape.low.1[..kept]);
        let mut second = [0; KEPT_PREFIX_BYTES - 8];
        second.copy_from_slice(&prefix[8..]);
        // A tag holds 27 bits, the rest of a state is in the number of the bucket: small tables do not use all of it.
        let width = (TAG_BITS + shape.buckets.ilog2()).min(STATE_BITS);
        let (hinted, level) = match shape.hinting {
            Hinting::None => (0, 0),
            Hinting::Half(above) => (HINTED, above + 1),
            Hinting::Byte => (HINTED, 0),
        };
        let header = Header {
            version: Version::default(),
            levels: AtomicU64::new(shape.levels),
            step: ((1_u64 << width) / u64::from(shape.buckets)) as u32,
            skip_bits: shape.skip_bits,
            filled: AtomicU32::new(0),
            buckets: shape.buckets as u16,
            shift: (u64::BITS - width) as u8,
            entry: shape.entry as u8,
            // Rounds count modulo 16 (`state.rs`).
            marks: AtomicU8::new(shape.round as u8 & ROUND | hinted),
            leaf_level: shape.leaf_level as u8,
            hinted: AtomicU32::new(level),
            pairs: [core::ptr::null_mut(); _],
        };
        let border = Border {
            low: shape.low.0,
            high: shape.high.map_or(0, |(unit, _)| unit),
            low_slice: slice_at(shape.low.1, at),
            high_slice: shape.high.map_or(u64::MAX, |(_, key)| slice_at(key, at)),
            prefix: slice_at(&prefix, 0),
            next: AtomicU32::new(0),
            prev: AtomicU32::new(0),
            prefix_mask: !u64::MAX.checked_shr(8 * at.min(8) as u32).unwrap_or(0),
            bounded: shape.high.is_some(),
        };
        let rest = Rest { prefix: second };
        // SAFETY: the lines are the caller's alone until the trie is published (R2). Two of the header's stand before line 0;
        // behind it its piece has a line for the rest of the list, or the buckets.
        unsafe {
            self.at.cast::<Header>().write(header);
            self.at.sub(LINE_BYTES).cast::<Border>().write(border);
            self.at.sub(2 * LINE_BYTES).cast::<Rest>().write(rest);
            let list = self.at.add(PAIRS_AT).cast::<*mut u8>();
            if shape.lines() < BLOCK_BUCKETS {
                list.write(self.at.add(LINE_BYTES));
            }
            for (at, block) in parts.blocks.iter().enumerate().filter(|(_, block)| !block.is_null())
            {
                list.add(at).write(*block);
            }
        }
    }

    /// The trie's name.
    #[inline(always)]
    pub(super) fn name(self) -> LeafRef {
        self.name
    }

    /// Line 0.
    #[inline(always)]
    pub(super) fn header(self) -> &'g Header {
        // SAFETY: a name leads to a formatted trie that is not freed for 'g (R1, T7). What changes in it is atomic.
        unsafe { &*self.at.cast::<Header>() }
    }

    /// Line -1.
    #[inline(always)]
    pub(super) fn borders(self) -> &'g Border {
        // SAFETY: as `header`.
        unsafe { &*self.at.sub(LINE_BYTES).cast::<Border>() }
    }

    /// Line -2.
    #[inline(always)]
    pub(super) fn rest(self) -> &'g Rest {
        // SAFETY: as `header`.
        unsafe { &*self.at.sub(2 * LINE_BYTES).cast::<Rest>() }
    }

    /// Asks for the lines that a descent needs first.
    #[inline(always)]
    pub(super) fn prefetch_header(self) {
        arch::prefetch(self.at);
        arch::prefetch(self.at.wrapping_add(LINE_BYTES));
    }

    /// The same, and the line of the borders, for who will lock the trie.
    #[inline(always)]
    pub(super) fn prefetch_with_borders(self) {
        self.version().ask_to_lock();
        arch::prefetch(self.at.wrapping_add(LINE_BYTES));
        arch::prefetch(self.at.wrapping_sub(LINE_BYTES));
    }

    /// The version, with the lock and the mark of the dead.
    #[inline(always)]
    pub(super) fn version(self) -> &'g Version {
        &self.header().version
    }

    #[inline(always)]
    pub(super) fn buckets(self) -> u32 {
        self.header().buckets.into()
    }

    /// Bits of a key before its first symbol.
    #[inline(always)]
    pub(super) fn skip_bits(self) -> u32 {
        self.header().skip_bits
    }

    /// The level where a search may start: nearly all paths have a regular node there.
    #[inline(always)]
    pub(super) fn entry(self) -> usize {
        self.header().entry.into()
    }

    /// The level of short names where, and on the next one, most leaves are; 0: there is none.
    #[inline(always)]
    pub(super) fn leaf_level(self) -> usize {
        self.header().leaf_level.into()
    }

    /// The levels that paths usually have, a bit for each.
    #[inline(always)]
    pub(super) fn levels(self) -> u64 {
        // Relaxed: a hint.
        self.header().levels.load(Relaxed)
    }

    /// Notes that a level is usual. The caller holds the lock.
    pub(super) fn add_level(self, level: usize) {
        let levels = self.levels() | 1_u64.checked_shl(level as u32).unwrap_or(0);
        // Relaxed: as in `levels`.
        self.header().levels.store(levels, Relaxed);
    }

    /// The name of the first `count` symbols of a window, as a name of this trie.
    #[inline(always)]
    pub(super) fn short_name(self, window: u64, count: usize) -> ShortName {
        ShortName::new(self.round(), window, count)
    }

    /// Which attempt at a root this is.
    #[inline(always)]
    pub(super) fn round(self) -> u32 {
        // Relaxed: it does not change.
        u32::from(self.header().marks.load(Relaxed) & ROUND)
    }

    /// Whether there is a mark.
    #[inline(always)]
    pub(super) fn has_mark(self, mark: u8) -> bool {
        // Relaxed: it is a hint, does not change, or is read under the lock.
        self.header().marks.load(Relaxed) & mark != 0
    }

    /// Changes a mark. The caller holds the lock, or has not published the trie.
    pub(super) fn set_mark(self, mark: u8, on: bool) {
        let marks = self.header().marks.load(Relaxed);
        let marks = if on { marks | mark } else { marks & !mark };
        // Relaxed: as in `has_mark`.
        self.header().marks.store(marks, Relaxed);
    }

    /// Whether there are hints.
    #[inline(always)]
    pub(super) fn is_hinted(self) -> bool {
        self.has_mark(HINTED)
    }

    /// What hints there are.
    #[inline(always)]
    pub(super) fn hinting(self) -> Hinting {
        // Relaxed: this half of it does not change.
        match (self.is_hinted(), self.header().hinted.load(Relaxed) & LEVEL) {
            (false, _) => Hinting::None,
            (true, 0) => Hinting::Byte,
            (true, level) => Hinting::Half(level - 1),
        }
    }

    /// The hints, a bit for each, that name levels where many leaves are.
    #[inline(always)]
    pub(super) fn likely(self) -> u32 {
        // Relaxed: it is for requests only.
        self.header().hinted.load(Relaxed) >> LEVEL.trailing_ones()
    }

    /// Sets them. The caller has not published the trie.
    pub(super) fn set_likely(self, likely: u32) {
        let hinted = &self.header().hinted;
        // Relaxed, both: whoever publishes the trie stores its name by Release.
        hinted.store(hinted.load(Relaxed) & LEVEL | likely << LEVEL.trailing_ones(), Relaxed);
    }

    /// The words of the hints.
    #[inline(always)]
    pub(super) fn hints(self) -> &'g [AtomicU64] {
        let words = self.hinting().lines() as usize * (LINE_BYTES / 8);
        if words == 0 {
            return &[];
        }
        // SAFETY: such a trie was formatted with so many lines more than it has buckets, in its last block, which are its own as
        // the block is (R1), aligned, zero or written as hints, and there for 'g.
        unsafe { core::slice::from_raw_parts(self.line_at(self.buckets()).cast(), words) }
    }

    /// Lines of the table: its buckets, and hints.
    #[inline(always)]
    pub(super) fn lines(self) -> u32 {
        self.buckets() + self.hinting().lines()
    }

    /// Where a pair of blocks is, or the block that has no other, or the table that is smaller.
    #[inline(always)]
    pub(super) fn pair(self, at: usize) -> *mut u8 {
        debug_assert!(at < blocks_of(self.lines()).div_ceil(2).max(1));
        // SAFETY: the list has so many entries (R1), which do not change.
        unsafe { self.at.add(PAIRS_AT).cast::<*mut u8>().add(at).read() }
    }

    /// Where bucket `bucket` is.
    #[inline(always)]
    fn bucket_at(self, bucket: u32) -> *mut u8 {
        debug_assert!(bucket < self.buckets());
        self.line_at(bucket)
    }

    /// Where a line of the table is.
    #[inline(always)]
    fn line_at(self, line: u32) -> *mut u8 {
        let in_pair = (line % (2 * BLOCK_BUCKETS)) as usize * LINE_BYTES;
        self.pair((line / (2 * BLOCK_BUCKETS)) as usize).wrapping_add(in_pair)
    }

    /// A bucket.
    #[inline(always)]
    pub(super) fn bucket(self, bucket: u32) -> &'g Bucket {
        // SAFETY: callers name buckets of this trie: `home` and `other` make no others, or a loop stays below `buckets`.
        // The lines of those are the trie's (R1), aligned to a line, zero or written as buckets, and there for 'g.
        unsafe { &*self.bucket_at(bucket).cast::<Bucket>() }
    }

    /// How far the second bucket of a tag is from the first.
    #[inline(always)]
    fn distance(self, tag: u32) -> u32 {
        // An odd number with no pattern, so that all bits of the tag count in the upper half of the product.
        let mixed = tag.wrapping_mul(0xd6e8_feb9);
        let others = u64::from(self.buckets() - 1);
        1 + ((u64::from(mixed) * others) >> 32) as u32
    }

    /// The bucket `distance` behind `bucket`, around the end.
    #[inline(always)]
    fn behind(self, bucket: u32, distance: u32) -> u32 {
        let (at, buckets) = (bucket + distance, self.buckets());
        if at >= buckets { at - buckets } else { at }
    }

    /// The buckets of a state.
    #[inline(always)]
    pub(super) fn home(self, state: State) -> Home {
        let header = self.header();
        // What this table uses of the state, at the bottom and on top of a word.
        let used = state.0 >> header.shift;
        let top = used << header.shift;
        let first = ((u128::from(top) * u128::from(header.buckets)) >> 64) as u32;
        let tag = (used - u64::from(first) * u64::from(header.step)) as u32;
        Home { first, second: self.behind(first, self.distance(tag)), tag }
    }

    /// Asks for both buckets.
    #[inline(always)]
    pub(super) fn prefetch(self, home: Home) {
        arch::prefetch(self.bucket_at(home.first));
        arch::prefetch(self.bucket_at(home.second));
    }

    /// Asks for a bucket.
    #[inline(always)]
    pub(super) fn prefetch_bucket(self, bucket: u32) {
        arch::prefetch(self.bucket_at(bucket));
    }

    /// Asks for a bucket, one of many that are looked at later.
    #[inline(always)]
    pub(super) fn prefetch_bucket_many(self, bucket: u32) {
        arch::prefetch_many(self.bucket_at(bucket));
    }

    /// The bucket of a node's state beside the one that it is in.
    #[inline]
    pub(super) fn other(self, bucket: u32, head: Head) -> u32 {
        let distance = self.distance(head.tag());
        if head.is_second() {
            self.behind(bucket, self.buckets() - distance)
        } else {
            self.behind(bucket, distance)
        }
    }

    /// What the table knows of the state of a node: all of it if there are 512 buckets or more, else its upper bits.
    #[inline]
    pub(super) fn state(self, bucket: u32, head: Head) -> State {
        let first = if head.is_second() { self.other(bucket, head) } else { bucket };
        let header = self.header();
        let used = u64::from(first) * u64::from(header.step) + u64::from(head.tag());
        State(used << header.shift)
    }

    /// Whether two states are one to this table (T3).
    #[inline]
    #[cfg(test)]
    pub(super) fn is_same(self, a: State, b: State) -> bool {
        (a.0 ^ b.0) >> self.header().shift == 0
    }

    /// Reads a node, or finds that there is none; what it returns was so at one moment of the call.
    #[inline(always)]
    pub(super) fn find<L: Lanes>(self, lanes: L, home: Home) -> Option<Hit<'g>> {
        find_in_pair(lanes, self.bucket(home.first), self.bucket(home.second), home.tag)
    }

    /// The head in a slot.
    #[inline(always)]
    pub(super) fn head(self, place: Place) -> Head {
        self.bucket(place.bucket).head(place.slot)
    }

    /// The node in a slot that is not free. The caller holds the lock.
    #[inline(always)]
    pub(super) fn node(self, place: Place) -> Node {
        self.bucket(place.bucket).node(place.slot)
    }

    /// Notes a bucket's new version.
    #[inline]
    pub(super) fn note(self, version: bucket::Version) -> bool {
        if version.number() >= WORN {
            self.set_mark(WORN_OUT, true);
        }
        true
    }

    /// Ends the construction of a trie that nobody has seen yet: what filled it does not count as changes.
    pub(super) fn start(self) {
        (0..self.buckets()).for_each(|bucket| self.bucket(bucket).start());
        self.set_mark(WORN_OUT, false);
    }

    /// Whether the trie has to be replaced before a bucket's version ends. The caller holds the lock.
    pub(super) fn is_worn(self) -> bool {
        self.has_mark(WORN_OUT)
    }

    /// How many keys there are, and what all nodes weigh.
    fn filled(self) -> Filled {
        // Relaxed: a count, exact for the lock's holder.
        Filled(self.header().filled.load(Relaxed))
    }

    /// Notes both. The caller holds the lock.
    pub(super) fn set_filled(self, keys: usize, weight: usize) {
        // Relaxed: as in `filled`.
        self.header().filled.store(Filled::new(keys, weight).0, Relaxed);
    }

    /// What all nodes weigh.
    pub(super) fn weight(self) -> usize {
        self.filled().weight()
    }

    /// Notes what all nodes weigh. The caller holds the lock.
    pub(super) fn set_weight(self, weight: usize) {
        self.set_filled(self.keys(), weight);
    }

    /// How many keys there are.
    pub(super) fn keys(self) -> usize {
        self.filled().keys()
    }

    /// Counts keys. The caller holds the lock.
    pub(super) fn set_keys(self, keys: usize) {
        self.set_filled(keys, self.weight());
    }

    /// The next trie; of a dead trie, the one that replaces it.
    #[inline(always)]
    pub(super) fn next(self) -> Option<LeafRef> {
        // ORDER: Acquire, pairs with the Release store in `set_next`: the trie named is formatted and filled.
        LeafRef::new(self.borders().next.load(Acquire))
    }

    /// The trie before.
    #[inline(always)]
    pub(super) fn prev(self) -> Option<LeafRef> {
        // ORDER: Acquire, as in `next`.
        LeafRef::new(self.borders().prev.load(Acquire))
    }

    /// Links. The caller holds the structure's lock, or has not published the trie.
    pub(super) fn set_next(self, next: Option<LeafRef>) {
        // ORDER: Release, pairs with `next`.
        self.borders().next.store(next.map_or(0, LeafRef::get), Release);
    }

    /// Links backwards, as `set_next`.
    pub(super) fn set_prev(self, prev: Option<LeafRef>) {
        // ORDER: Release, pairs with `prev`.
        self.borders().prev.store(prev.map_or(0, LeafRef::get), Release);
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
#[path = "raw_tests.rs"]
mod tests;
