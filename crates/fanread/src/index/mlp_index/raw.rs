//! The shared memory: buckets, segments of them, directories of segments, and values in boxes.
//!
//! # Invariants
//!
//! * **M1** The memory of a segment is zeroed at first, made of whole buckets, and only accessed as [`Bucket`]s. Any bits
//!   are a valid bucket, because it is made of atomics.
//! * **M2** A directory names a segment at each of its places; the last one that is named there is handed out once, as [`Garbage`],
//!   when no directory that can be found names it any more, and freed when every guard of that time is gone (P1).
//! * **M3** The same of the directory and the pointer to it. Both pointers are stored by the holder of the map's lock alone.
//! * **M4** A value word of a map whose values are not inline is the address of a box; the word is taken out of the map
//!   once, and the box freed when nobody can be reading it.
//!
//! The sanitizer runs and the drop-counting tests watch M2 to M4.

#![expect(unsafe_code, reason = "views memory as buckets and follows pointers to segments")]

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crossbeam_utils::CachePadded;

use super::layout::{Image, Kinds, SLOTS};
use crate::mem::boxed::Boxed;
use crate::mem::pages::{FROM_ALLOCATOR, HUGE_BYTES, Pages};
use crate::mem::word::{self, Read, Word};
use crate::mem::{AllocError, LINE_BYTES};
use crate::sync::backoff::Backoff;
use crate::sync::epoch::{Guard, Unlinked};
use crate::sync::shared::{Owned, Place, Retired, Shared};
use crate::sync::shim::{AtomicPtr, AtomicU32, AtomicU64};
use crate::sync::thread;
use crate::sync::version::{Seen, Version};

/// A bucket in shared memory; see `layout.rs` for what is in it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) version: Version,
    kinds: AtomicU64,
    slots: [AtomicPtr<()>; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == LINE_BYTES && align_of::<Bucket>() == LINE_BYTES);

impl Bucket {
    /// The kinds. Relaxed, as the slots: whoever reads them validates the version.
    #[inline(always)]
    pub(super) fn kinds(&self) -> Kinds {
        Kinds(self.kinds.load(Relaxed))
    }

    /// Stores the kinds. As `store`.
    #[inline]
    pub(super) fn store_kinds(&self, kinds: Kinds) {
        self.kinds.store(kinds.0, Relaxed);
    }

    #[inline(always)]
    pub(super) fn slot(&self, slot: usize) -> Word {
        // Relaxed: as `kinds`.
        self.slots[slot].load(Relaxed)
    }

    /// Stores what is in a slot. As `store`.
    #[inline(always)]
    pub(super) fn store_slot(&self, slot: usize, word: Word) {
        self.slots[slot].store(word, Relaxed);
    }

    /// Its words, as kernels take them.
    #[inline(always)]
    pub(super) fn line(&self) -> &[core::sync::atomic::AtomicU64; SLOTS + 2] {
        // SAFETY: a bucket is a line of eight atomics of eight bytes, core's or transparent wrappers of these, of which kernels take the
        // slots for words, too: they only copy them.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    /// Waits until the bucket is not being changed, which is a matter of some ten stores, and begins a read.
    #[inline(always)]
    pub(super) fn begin(&self) -> Seen {
        let seen = self.version.begin();
        if seen.is_changing() { self.begin_again() } else { seen }
    }

    #[cold]
    fn begin_again(&self) -> Seen {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.version.begin();
            if !seen.is_changing() {
                return seen;
            }
            backoff.wait();
        }
    }

    /// A copy, for who has locked the bucket or validates it.
    #[inline(always)]
    pub(super) fn image(&self) -> Image {
        Image { kinds: self.kinds(), slots: core::array::from_fn(|slot| self.slot(slot)) }
    }

    /// Stores an image. The caller has the bucket for itself or has announced a change.
    #[inline]
    pub(super) fn store(&self, image: &Image) {
        // Relaxed: published by the version's `end_change`, or with the whole segment.
        self.kinds.store(image.kinds.0, Relaxed);
        for (slot, word) in self.slots.iter().zip(image.slots) {
            slot.store(word, Relaxed);
        }
    }
}

/// Bytes that the system gives at a time, at least.
const PAGE_BYTES: usize = 4096;

/// A segment that may not be changed yet.
const CLOSED: u32 = 0;
/// One that may be changed.
const OPEN: u32 = 1;
/// One that somebody is replacing. Nobody else does, and once it is replaced it stays so.
const CLAIMED: u32 = 2;

/// A part of the table.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Segment {
    pages: Pages,
    buckets: usize,
    /// By how many top bits of a hash the segment is named.
    bits: u32,
    /// Whether it may be changed, not before what it replaces is dead (S1), and whether somebody is replacing it.
    state: AtomicU32,
    /// How many slots of the buckets that are counted are in use; changed often, and so on a line of its own.
    used: CachePadded<AtomicU64>,
}

impl Segment {
    /// Allocates an empty segment, which is not open; or takes a block of memory for it that another has had, if it is as
    /// large as all large ones.
    ///
    /// # Errors
    ///
    /// If the system gives no memory.
    pub(super) fn new(buckets: usize, bits: u32, spare: Option<Spare>) -> Result<Self, AllocError> {
        assert!(buckets >= 2 && buckets >> 32 == 0, "a pair, and 32 bits of a hash");
        let bytes = buckets * LINE_BYTES;
        let pages = if !is_large(bytes) {
            Pages::zeroed(bytes)?
        } else if let Some(Spare { mut pages, used }) = spare {
            pages.renew(used, bytes);
            pages
        } else {
            // What is not used of it costs no memory.
            Pages::zeroed(LARGE_BYTES)?
        };
        let used = CachePadded::new(AtomicU64::new(0));
        Ok(Self { pages, buckets, bits, state: AtomicU32::new(CLOSED), used })
    }

    /// Whether writers may change it.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        // ORDER: Acquire, pairs with the Release store in `open`: what a writer does here comes after the death of the buckets
        // that were copied.
        self.state.load(Acquire) != CLOSED
    }

    /// Lets writers in. What it replaces is dead.
    pub(super) fn open(&self) {
        // ORDER: Release, pairs with `is_open` and `claim`.
        self.state.store(OPEN, Release);
    }

    /// Takes the right to replace it; tells whether nobody else has it, and may fail by accident. Who has it and does not use it
    /// opens the segment again.
    pub(super) fn claim(&self) -> bool {
        // Looked at first: all who come here read this line, and a failed exchange takes it from them.
        self.state.load(Relaxed) == OPEN
            // ORDER: Acquire, pairs with the Release store in `open`: the segment is filled, and what it replaced is dead.
            && self.state.compare_exchange_weak(OPEN, CLAIMED, Acquire, Relaxed).is_ok()
    }

    /// Whether somebody is replacing it. Relaxed: a hint to wait by.
    pub(super) fn is_claimed(&self) -> bool {
        self.state.load(Relaxed) == CLAIMED
    }

    #[inline(always)]
    pub(super) fn buckets(&self) -> &[Bucket] {
        let base: NonNull<Bucket> = self.pages.base().cast();
        // SAFETY: the segment has room for so many buckets, is aligned to a line, initialised, and shared as buckets only,
        // which are made of atomics (M1).
        unsafe { core::slice::from_raw_parts(base.as_ptr(), self.buckets) }
    }

    /// Where the entries of a hash are.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> Home<'_> {
        Home { segment: self, hash, pair: self.pair(hash) }
    }

    /// The two buckets of a hash; different ones.
    #[inline(always)]
    pub(super) fn pair(&self, hash: u64) -> [&Bucket; 2] {
        let n = self.buckets as u64;
        let first = ((hash << self.bits >> 32) * n) >> 32;
        let second = ((hash & 0xffff_ffff) * n) >> 32;
        let other = if first + 1 == n { 0 } else { first + 1 };
        let second = core::hint::select_unpredictable(first == second, other, second);
        let buckets = self.buckets();
        debug_assert!(first < n && second < n);
        // SAFETY: the product of a number below 2^32 and `n`, divided by 2^32, is below `n`, and so is `other`.
        unsafe { [buckets.get_unchecked(first as usize), buckets.get_unchecked(second as usize)] }
    }

    #[inline(always)]
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// How many slots are in use, about. Relaxed: a figure to decide on a size by.
    pub(super) fn used(&self) -> usize {
        usize::try_from(self.used.load(Relaxed).cast_signed()).unwrap_or(0) * self.step()
    }

    /// One bucket in so many is counted.
    #[inline(always)]
    fn step(&self) -> usize {
        if self.buckets < COUNTED_FROM { 1 } else { COUNTED }
    }

    /// Whether it is to grow rather than to have more than one leaf moved for one that comes.
    pub(super) fn is_full_enough(&self) -> bool {
        let slots = self.buckets * SLOTS;
        self.buckets >= ROOMY_FROM && self.used() * ROOMY.1 > slots * ROOMY.0
    }

    /// Whether it will be so soon, and be copied then: when an eighth more of what it has had room for has come.
    pub(super) fn is_full_soon(&self) -> bool {
        let slots = self.buckets * SLOTS;
        self.buckets >= SOON_FROM && self.used() * ROOMY.1 * 2 > slots * (ROOMY.0 * 2 - 1)
    }

    /// Counts slots of a bucket that are in use from now on, or no longer, if it is counted.
    #[inline]
    pub(super) fn count(&self, bucket: &Bucket, change: isize) {
        let at = (ptr::from_ref(bucket).addr() - self.pages.base().addr().get()) / LINE_BYTES;
        if change != 0 && at.is_multiple_of(self.step()) {
            // Relaxed: as `used`.
            self.used.fetch_add(change as u64, Relaxed);
        }
    }

    /// Counts all slots, while nobody else knows the segment.
    pub(super) fn count_all(&self) {
        // Relaxed: as `used`.
        self.used.store(self.counted_again(), Relaxed);
    }

    fn counted_again(&self) -> u64 {
        let counted = self.buckets().iter().step_by(self.step());
        counted.map(|bucket| bucket.kinds().used() as u64).sum()
    }

    /// Whether the count is right, if nobody is writing (S1).
    pub(super) fn counts_right(&self) -> bool {
        self.used.load(Relaxed) == self.counted_again()
    }

    /// Has the system give it its memory, before anybody waits for what will be there.
    pub(super) fn touch(&self) {
        for bucket in self.buckets().iter().step_by(PAGE_BYTES / LINE_BYTES) {
            bucket.store_kinds(Kinds::default());
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.buckets * LINE_BYTES
    }
}

/// In a segment of so many buckets or more, of whose slots more than this part is in use, rows of moves are not searched for.
///
/// A search looks at tens of buckets, each of which is a line that nobody has asked for. Up to eleven sixteenths hardly one insertion
/// in a hundred needs one; with more, up to four fifths, one in nine did, and a load of 78,000 keys took a tenth more instructions.
/// With less, memory is wasted. Small maps are cached, and have less to waste.
const ROOMY: (usize, usize) = (12, 16);
const ROOMY_FROM: usize = 4096;

/// A segment of so many buckets may be copied before it is full; a copy of a smaller one takes no time.
const SOON_FROM: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { ROOMY_FROM };

/// Large segments count the slots of one bucket in so many: on average they are wrong by one in a hundred. What all writers count, each
/// waits for in turn.
const COUNTED: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 16 };
const COUNTED_FROM: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 4096 };

/// Bytes of the block of every large segment.
const LARGE_BYTES: usize = super::resize::MOST * LINE_BYTES;

/// Whether a segment of so many bytes has a block that any other large one may have after it: not if an allocator counts what nobody
/// has touched.
pub(super) fn is_large(bytes: usize) -> bool {
    !FROM_ALLOCATOR && (HUGE_BYTES..=LARGE_BYTES).contains(&bytes)
}

/// The block of a segment that is no more: memory that need not be asked for, and is at hand.
#[derive(Debug)]
pub(super) struct Spare {
    pages: Pages,
    /// How many bytes of it were used.
    used: usize,
}

impl Spare {
    /// How many bytes it keeps from the system: the rest of it has not been touched.
    pub(super) fn bytes(&self) -> usize {
        self.used
    }
}

/// Where the entries of a hash are: in one of two buckets of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home<'g> {
    pub(super) segment: &'g Segment,
    pub(super) hash: u64,
    pub(super) pair: [&'g Bucket; 2],
}

impl Home<'_> {
    /// Which of the two a bucket is.
    #[inline]
    pub(super) fn which(&self, bucket: &Bucket) -> usize {
        usize::from(!ptr::eq(self.pair[0], bucket))
    }
}

/// Which segment a hash belongs to.
#[derive(Debug)]
pub(super) struct Directory {
    bits: u32,
    segments: Box<[Shared<Segment>]>,
}

impl Place for Segment {}

impl Place for Directory {}

impl Directory {
    /// Makes the directory of a map's first segments, whose number is a power of two.
    pub(super) fn of(segments: Vec<Segment>) -> Self {
        let bits = segments.len().ilog2();
        debug_assert!(segments.iter().all(|segment| segment.bits == bits));
        let shared = |segment| Shared::new(Owned::new(segment));
        Self { bits, segments: segments.into_iter().map(shared).collect() }
    }

    /// A directory of one bit more that names the same segments.
    pub(super) fn doubled(&self) -> Self {
        let segments =
            (0..2 * self.segments.len()).map(|at| self.segments[at / 2].alias()).collect();
        Self { bits: self.bits + 1, segments }
    }

    #[inline(always)]
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.segments)
    }

    #[inline(always)]
    fn index(&self, hash: u64) -> usize {
        (hash >> 1 >> (63 - self.bits)) as usize
    }

    /// The segment of a hash.
    #[inline(always)]
    pub(super) fn segment(&self, hash: u64) -> &Segment {
        let index = self.index(hash);
        debug_assert!(index < self.segments.len());
        // SAFETY: the top `bits` bits of a hash are below the number of segments, which is 2^bits.
        let segment = unsafe { self.segments.get_unchecked(index) };
        // SAFETY: never null, and a segment that was named while the directory was borrowed under a guard is not freed
        // before the guard is gone (M2).
        unsafe { segment.get_unguarded() }
    }

    /// Whether there are fewer segments than a copy for each writer leaves them.
    pub(super) fn is_short(&self) -> bool {
        Self::is_short_of(self.all().take(4 * thread::at_once()).count())
    }

    /// Whether so many segments are fewer than that.
    pub(super) fn is_short_of(segments: usize) -> bool {
        segments < 4 * thread::at_once()
    }

    /// Each segment once.
    pub(super) fn all(&self) -> impl Iterator<Item = &Segment> {
        self.all_with_hashes().map(|(_, segment)| segment)
    }

    /// The same, with a hash of each.
    pub(super) fn all_with_hashes(&self) -> impl Iterator<Item = (u64, &Segment)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let hash = (at < self.segments.len()).then(|| (at as u64) << 1 << (63 - self.bits))?;
            let segment = self.segment(hash);
            at += 1 << (self.bits - segment.bits);
            Some((hash, segment))
        })
    }

    /// Names `copies`, which together have the hashes of the segment named for `hash` so far, in the place of that one, which is
    /// handed out. The caller holds the map's lock.
    pub(super) fn replace<V>(&self, hash: u64, copies: Vec<Segment>) -> Option<Garbage<V>> {
        let parts = copies.len();
        let copies: Vec<_> = copies.into_iter().map(|copy| (copy.bits, Owned::new(copy))).collect();
        let names = copies.first().map(|(bits, _)| 1 << (self.bits - bits))?;
        let first = self.index(hash) / (parts * names) * (parts * names);
        let names = self.segments[first..first + parts * names].chunks(names);
        let old = self.segments[first].retire().map(Garbage::Segment);
        for (names, (_, copy)) in names.zip(copies) {
            let copy = Shared::new(copy);
            for name in names {
                name.point_to(&copy);
            }
        }
        old
    }
}

/// What a map no longer uses, to be dropped when nobody can be reading it (M2 to M4).
#[derive(Debug)]
#[must_use = "readers may still be there: put it into the limbo"]
pub(super) enum Garbage<V> {
    Segment(Retired<Segment>),
    Directory(#[expect(dead_code, reason = "kept to be dropped")] Retired<Directory>),
    Value(#[expect(dead_code, reason = "kept to be dropped")] Boxed<V>),
}

impl<V> Unlinked for Garbage<V> {
    fn is_large(&self) -> bool {
        matches!(self, Self::Segment(_) | Self::Directory(_))
    }
}

impl<V> Garbage<V> {
    /// The memory of a segment that another may have.
    pub(super) fn into_spare(self) -> Option<Spare> {
        let Self::Segment(segment) = self else { return None };
        // SAFETY: nobody reads it any more, and it lies in a box, as `Owned::new` has put it there (M2).
        let segment = unsafe { Box::from_raw(segment.into_raw().as_ptr()) };
        let used = segment.buckets * LINE_BYTES;
        is_large(used).then(|| Spare { pages: segment.pages, used })
    }
}

/// One of the two tables of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    Leaves,
    Nodes,
}

/// The two tables of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables<'g> {
    pub(super) leaves: &'g Directory,
    pub(super) nodes: &'g Directory,
}

impl<'g> Tables<'g> {
    /// Where the groups of a hash are.
    #[inline(always)]
    pub(super) fn group(self, hash: u64) -> Home<'g> {
        self.leaves.segment(hash).home(hash)
    }

    /// Where the nodes of a hash are.
    #[inline(always)]
    pub(super) fn node(self, hash: u64) -> Home<'g> {
        self.nodes.segment(hash).home(hash)
    }

    #[inline(always)]
    pub(super) fn of(self, table: Table) -> &'g Directory {
        match table {
            Table::Leaves => self.leaves,
            Table::Nodes => self.nodes,
        }
    }
}

/// The pointer to the directory of a table; null in a map that never had an entry.
#[derive(Debug)]
pub(super) struct Root(Shared<Directory>);

impl Root {
    pub(super) const fn none() -> Self {
        Self(Shared::none())
    }

    #[inline(always)]
    pub(super) fn get<'g>(&self, pinned: &'g Guard) -> Option<&'g Directory> {
        self.0.get(pinned)
    }

    /// Makes `directory` the current one and returns the one before. The caller holds the map's lock.
    pub(super) fn replace<V>(&self, directory: Directory) -> Option<Garbage<V>> {
        self.0.replace(Owned::new(directory)).map(Garbage::Directory)
    }

    /// Takes everything out of a map that nobody uses any more.
    pub(super) fn take(&mut self) -> Vec<Retired<Segment>> {
        let Some(mut directory) = core::mem::replace(&mut self.0, Shared::none()).retire() else {
            return Vec::new();
        };
        let directory = directory.get_mut();
        let mut segments = Vec::new();
        let mut at = 0;
        while let Some(name) = directory.segments.get(at) {
            // SAFETY: as in `Directory::segment`.
            at += 1 << (directory.bits - unsafe { name.get_unguarded() }.bits);
            segments.extend(name.retire());
        }
        segments
    }
}

/// The value behind a word that was read from the map.
#[inline(always)]
pub(super) fn read_value<'g, V>(word: Word) -> Read<'g, V> {
    // SAFETY: a validated value word was made by `word_of_value`, and its box is not freed while the reader is pinned (M4).
    unsafe { Read::new(word) }
}

/// What is to become of a value word that was taken out of the map.
pub(super) fn garbage_of<V>(word: Word) -> Option<Garbage<V>> {
    // SAFETY: the word was made by `word_of_value` and is taken back once, when nobody can be reading it (M4).
    (!const { word::is_inline::<V>() }).then(|| Garbage::Value(unsafe { Boxed::new(word) }))
}

#[cfg(all(test, not(any(loom, shuttle, small_leaves, miri))))]
mod tests {
    use super::*;

    #[test]
    fn a_large_segment_reserves_no_more_than_it_has_where_an_allocator_counts() {
        for bytes in [HUGE_BYTES / 2, HUGE_BYTES, 2 * HUGE_BYTES, LARGE_BYTES] {
            let block = if FROM_ALLOCATOR || bytes < HUGE_BYTES { bytes } else { LARGE_BYTES };
            let segment = Segment::new(bytes / LINE_BYTES, 0, None).unwrap();
            assert_eq!(segment.pages.bytes(), block);
        }
    }
}
