//! The table: segments of buckets, named by the top bits of a hash, and what one segment can be asked.
//!
//! # Invariants
//!
//! * **S1** Buckets change only under the locks of all regions of the hash's window, in a segment that is live. A segment that
//!   was replaced is never live again and does not change.
//! * **S2** The names are of one segment for each value of a hash's top bits, 2^k neighbouring ones the same if its bits are k less.
//! * **S3** `entries` and `gone` of a segment at rest are the numbers of its entries and of its words of [`GONE`].

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::layout::{FREE, GONE, Geometry, REGION, SLOTS};
use super::raw::{Blocks, Bucket, Memory, Owned, Shared};
use crate::arch::prefetch;
use crate::mem::AllocError;
use crate::mem::word::Word;
use crate::sync::epoch::Guard;
use crate::sync::shim::AtomicU64;
use crate::sync::version::{Locked, Version};

/// A part of the table.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) geometry: Geometry,
    pub(super) memory: Memory,
    /// One for each [`REGION`] buckets.
    versions: Box<[Version]>,
    /// How many entries there are, and how many words of [`GONE`] in the upper half.
    counts: AtomicU64,
    /// Whether it is being copied, or was.
    copied: AtomicU64,
}

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    bucket: usize,
    slot: usize,
}

/// What one line says of a hash.
pub(super) enum Look {
    Value(Word),
    Absent,
    Unknown,
}

/// Where a hash is looked for first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home<'g> {
    bucket: &'g Bucket,
    version: &'g Version,
    /// What the hash is in this bucket.
    word: u64,
}

impl Home<'_> {
    /// Looks for the hash in the line that was asked for, and asks for the next line if that does not tell.
    #[inline(always)]
    pub(super) fn look(&self) -> Look {
        let seen = self.version.begin();
        let bucket = self.bucket;
        let is_here = |slot: usize| bucket.word(slot) == self.word;
        let slot = (0..SLOTS).fold(SLOTS, |at, slot| if is_here(slot) { slot } else { at });
        if slot < SLOTS {
            let value = bucket.value(slot);
            let is_sure = self.version.end(seen).is_some();
            return if is_sure { Look::Value(value) } else { Look::Unknown };
        }
        if bucket.matches(FREE) != 0 {
            return Look::Absent;
        }
        self.ask_next();
        Look::Unknown
    }

    /// Asks for the lines behind it.
    #[inline(always)]
    pub(super) fn ask_next(&self) {
        prefetch(core::ptr::from_ref(self.bucket).wrapping_add(1));
        prefetch(core::ptr::from_ref(self.bucket).wrapping_add(2));
    }
}

/// What a writer finds for a hash.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// The entry.
    Entry(Slot),
    /// No entry, but a slot for it; whether it was taken before.
    Free(Slot, bool),
    /// No entry, and no slot.
    Full,
}

/// The right to change buckets of the window of a hash: as far as a writer has come.
#[derive(Debug)]
pub(super) struct Held<'g> {
    first: Locked<'g>,
    /// Its region, the region where the writer is, and the locks of those behind the first.
    first_region: usize,
    region: usize,
    more: Vec<Locked<'g>>,
}

/// Somebody else is at work in a window, or the segment is being copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again;

/// How many entries and words of [`GONE`] a segment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub(super) entries: usize,
    pub(super) gone: usize,
}

/// A word of [`GONE`] in `counts`.
const ONE_GONE: u64 = 1 << 32;

impl Segment {
    /// Makes an empty segment.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn new(blocks: &Blocks, geometry: Geometry) -> Result<Self, AllocError> {
        let memory = Memory::new(blocks, geometry.buckets())?;
        let versions =
            (0..geometry.buckets().div_ceil(REGION)).map(|_| Version::default()).collect();
        let (counts, copied) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { geometry, memory, versions, counts, copied })
    }

    /// Asks for the line of a hash.
    #[inline(always)]
    pub(super) fn ask(&self, hash: u64) {
        prefetch(self.memory.bucket(self.geometry.home(hash)));
    }

    /// Where a hash is looked for first, a line which is asked for.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> Home<'_> {
        let home = self.geometry.home(hash);
        let bucket = self.memory.bucket(home);
        prefetch(bucket);
        Home { bucket, version: self.version(home), word: hash ^ self.geometry.filler(home) }
    }

    /// The version that covers the entries of a home.
    #[inline(always)]
    fn version(&self, home: usize) -> &Version {
        debug_assert!(home / REGION < self.versions.len());
        &self.versions[home / REGION]
    }

    /// Finds the value of a hash. No lock is taken, and nothing waited for.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<Word> {
        let home = self.geometry.home(hash);
        let version = self.version(home);
        loop {
            let seen = version.begin();
            // An entry does not move, so that it was not met says that it was absent at some moment.
            let value = self.value_of(hash, home)?;
            // A slot is used again after this version has changed.
            if version.end(seen).is_some() {
                return Some(value);
            }
        }
    }

    #[inline(always)]
    fn value_of(&self, hash: u64, home: usize) -> Option<Word> {
        for at in self.geometry.window(home) {
            let bucket = self.memory.bucket(at);
            let found = bucket.matches(hash ^ self.geometry.filler(at));
            if found != 0 {
                return Some(bucket.value(found.trailing_zeros() as usize));
            }
            if bucket.matches(FREE) != 0 {
                return None;
            }
        }
        None
    }

    /// Locks the first region of a hash's window.
    ///
    /// # Errors
    ///
    /// If the segment is being copied.
    #[inline]
    pub(super) fn lock(&self, hash: u64) -> Result<Held<'_>, Again> {
        let region = self.geometry.home(hash) / REGION;
        let first = self.versions[region].lock();
        self.held(first, region)
    }

    /// As `lock`, without waiting.
    ///
    /// # Errors
    ///
    /// If another writer is at work there, too.
    pub(super) fn try_lock(&self, hash: u64) -> Result<Held<'_>, Again> {
        let region = self.geometry.home(hash) / REGION;
        let first = self.versions[region].try_lock().ok_or(Again)?;
        self.held(first, region)
    }

    #[inline(always)]
    fn held<'g>(&'g self, first: Locked<'g>, region: usize) -> Result<Held<'g>, Again> {
        let held = Held { first, first_region: region, region, more: Vec::new() };
        if self.is_live() { Ok(held) } else { Err(Again) }
    }

    /// Goes on to a bucket of the window: locks its region, without waiting for who holds it and waits for a region before.
    #[cold]
    fn go_on<'g>(&'g self, held: &mut Held<'g>, region: usize) -> Result<(), Again> {
        held.region = region;
        // The last region may be smaller than a window, and the first one comes behind it.
        if region != held.first_region {
            held.more.push(self.versions[region].try_lock().ok_or(Again)?);
        }
        Ok(())
    }

    /// Finds the entry of a hash, or a slot for it.
    ///
    /// # Errors
    ///
    /// If another writer is at work where the window goes on.
    #[inline(always)]
    pub(super) fn place<'g>(&'g self, held: &mut Held<'g>, hash: u64) -> Result<Place, Again> {
        let mut gone = None;
        for at in self.geometry.window(self.geometry.home(hash)) {
            if at / REGION != held.region {
                self.go_on(held, at / REGION)?;
            }
            let bucket = self.memory.bucket(at);
            let here = |found: u32| Slot { bucket: at, slot: found.trailing_zeros() as usize };
            let found = bucket.matches(hash ^ self.geometry.filler(at));
            if found != 0 {
                return Ok(Place::Entry(here(found)));
            }
            let (left, free) = (bucket.matches(GONE), bucket.matches(FREE));
            if gone.is_none() && left != 0 {
                gone = Some(here(left));
            }
            if free != 0 {
                return Ok(match gone {
                    Some(slot) => Place::Free(slot, true),
                    None if self.is_full() => Place::Full,
                    None => Place::Free(here(free), false),
                });
            }
        }
        Ok(gone.map_or(Place::Full, |slot| Place::Free(slot, true)))
    }

    /// The value in a slot.
    #[inline(always)]
    pub(super) fn value(&self, Slot { bucket, slot }: Slot) -> Word {
        self.memory.bucket(bucket).value(slot)
    }

    /// Replaces the value in a slot. The caller holds the window.
    #[inline(always)]
    pub(super) fn set_value(&self, Slot { bucket, slot }: Slot, value: Word) {
        self.memory.bucket(bucket).set_value(slot, value);
    }

    /// Puts an entry into a slot that was `gone` or never taken. The caller holds the window.
    #[inline(always)]
    pub(super) fn put(&self, held: &Held<'_>, at: Slot, gone: bool, entry: (u64, Word)) {
        held.first.reuse();
        self.fill(at, entry);
        // Relaxed: a figure to decide on sizes by.
        self.counts.fetch_add(1_u64.wrapping_sub(if gone { ONE_GONE } else { 0 }), Relaxed);
    }

    #[inline(always)]
    fn fill(&self, Slot { bucket, slot }: Slot, (hash, value): (u64, Word)) {
        let place = self.memory.bucket(bucket);
        place.set_value(slot, value);
        place.set_word(slot, hash ^ self.geometry.filler(bucket));
    }

    /// Takes the entry out of a slot. The caller holds the window.
    pub(super) fn take(&self, held: &mut Held<'_>, Slot { bucket, slot }: Slot) {
        let place = self.memory.bucket(bucket);
        // Nobody has gone past a bucket that still has a free slot.
        let gone = place.matches(FREE) == 0;
        held.first.change(|| place.set_word(slot, if gone { GONE } else { FREE }));
        self.counts.fetch_add((if gone { ONE_GONE } else { 0 }).wrapping_sub(1), Relaxed);
    }

    /// Puts an entry into a segment that nobody else knows; tells whether it had room. Who adds counts.
    #[inline(always)]
    pub(super) fn add(&self, (hash, value): (u64, Word)) -> bool {
        for at in self.geometry.window(self.geometry.home(hash)) {
            let bucket = self.memory.bucket(at);
            let is_free = |slot: usize| bucket.word(slot) == FREE;
            let slot =
                (0..SLOTS).rfold(SLOTS, |free, slot| if is_free(slot) { slot } else { free });
            if slot < SLOTS {
                self.fill(Slot { bucket: at, slot }, (hash, value));
                return true;
            }
        }
        false
    }

    /// Counts the entries that were added.
    pub(super) fn count(&self, entries: usize) {
        // Relaxed: published with the segment.
        self.counts.store(entries as u64, Relaxed);
    }

    /// All entries, if nobody is writing.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Word)> {
        (0..self.memory.buckets()).flat_map(move |at| {
            let bucket = self.memory.bucket(at);
            (0..SLOTS).filter_map(move |slot| match bucket.word(slot) {
                FREE | GONE => None,
                word => Some((word ^ self.geometry.filler(at), bucket.value(slot))),
            })
        })
    }

    /// How many entries and words of [`GONE`] there are.
    #[inline(always)]
    pub(super) fn counts(&self) -> Counts {
        let counts = self.counts.load(Relaxed);
        Counts { entries: counts as u32 as usize, gone: (counts >> 32) as usize }
    }

    /// Whether no more free slots are to be taken.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        let Counts { entries, gone } = self.counts();
        entries + gone >= self.geometry.limit()
    }

    #[inline(always)]
    fn is_live(&self) -> bool {
        // Relaxed: who set it has held the region's lock since, or will wait for it.
        self.copied.load(Relaxed) == 0
    }

    /// Waits for all writers and keeps others out, so that the segment can be copied; `false` if somebody else does that.
    pub(super) fn freeze(&self) -> bool {
        // ORDER: AcqRel, pairs with the store in `thaw`.
        if self.copied.compare_exchange_weak(0, 1, AcqRel, Relaxed).is_err() {
            return false;
        }
        // Who locks a region after this finds the segment copied.
        self.versions.iter().for_each(|version| drop(version.lock()));
        true
    }

    /// Lets writers in again; the segment was not copied after all.
    pub(super) fn thaw(&self) {
        // ORDER: Release, pairs with `freeze`.
        self.copied.store(0, Release);
    }

    /// Whether the segment is being copied, or was replaced.
    pub(super) fn is_frozen(&self) -> bool {
        // ORDER: Acquire, only to see it soon.
        self.copied.load(Acquire) != 0
    }

    pub(super) fn own_bytes(&self) -> usize {
        size_of::<Self>() + self.memory.own_bytes() + size_of_val(&*self.versions)
    }
}

/// Which segment has a hash.
#[derive(Debug)]
pub(super) struct Names {
    bits: u32,
    segments: Box<[Shared<Segment>]>,
    /// How many different ones there are.
    count: AtomicU64,
}

impl Names {
    /// Those of a map's first segment.
    pub(super) fn of(segment: Owned<Segment>) -> Self {
        Self { bits: 0, segments: Box::new([Shared::new(segment)]), count: AtomicU64::new(1) }
    }

    #[inline(always)]
    fn index(&self, hash: u64) -> usize {
        (hash >> 1 >> (63 - self.bits)) as usize
    }

    /// The segment of a hash.
    #[inline(always)]
    pub(super) fn segment<'g>(&self, hash: u64, guard: &'g Guard) -> &'g Segment {
        self.segments[self.index(hash)].get(guard).expect("S2")
    }

    /// Where a hash is looked for first, a line which is asked for.
    #[inline(always)]
    pub(super) fn home<'g>(&self, hash: u64, guard: &'g Guard) -> Home<'g> {
        self.segment(hash, guard).home(hash)
    }

    /// Each segment once.
    pub(super) fn all<'g>(&self, guard: &'g Guard) -> impl Iterator<Item = &'g Segment> {
        self.places().map(|place| place.get(guard).expect("S2"))
    }

    /// One pointer to each segment.
    pub(super) fn places(&self) -> impl Iterator<Item = &Shared<Segment>> {
        let mut last: Option<&Shared<Segment>> = None;
        self.segments.iter().filter(move |place| {
            let is_new = last.is_none_or(|last| !last.is_same(place));
            last = Some(place);
            is_new
        })
    }

    /// Whether a segment may become two: if names would not be many more than segments, as chosen hashes could make them.
    pub(super) fn may_split(&self, geometry: Geometry) -> bool {
        geometry.bits < 31 && (geometry.bits < self.bits || self.segments.len() < 8 * self.count())
    }

    /// Whether the names are too few for a segment of `bits`.
    pub(super) fn is_short(&self, bits: u32) -> bool {
        bits > self.bits
    }

    /// Twice as many names.
    pub(super) fn doubled(&self) -> Self {
        let segments = self.segments.iter().flat_map(|name| [name.alias(), name.alias()]).collect();
        Self { bits: self.bits + 1, segments, count: AtomicU64::new(self.count() as u64) }
    }

    fn count(&self) -> usize {
        // Relaxed: a figure to decide by.
        self.count.load(Relaxed) as usize
    }

    /// Counts a segment more.
    pub(super) fn count_more(&self) {
        // Relaxed: as above.
        self.count.fetch_add(1, Relaxed);
    }

    /// Names `new` for all hashes that have the same top bits as `hash`. The caller is the only one who does such things.
    pub(super) fn name(&self, hash: u64, bits: u32, new: &Shared<Segment>) {
        let names = 1 << (self.bits - bits);
        let first = self.index(hash) / names * names;
        self.segments[first..first + names].iter().for_each(|name| name.point_to(new));
    }

    pub(super) fn place(&self, hash: u64) -> &Shared<Segment> {
        &self.segments[self.index(hash)]
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.segments)
    }
}
