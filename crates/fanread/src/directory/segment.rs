//! A segment: its buckets, the locks of its writers, and where an entry is or could be; and one that is being filled.

use core::mem::offset_of;
use core::ops::Range;

use super::layout::{BLOCK_BUCKETS, Geometry, SMALL, Spelling};
use super::raw::{Blocks, Bucket, Memory};
use super::resize::Entries;
use crate::arch::{prefetch, prefetch_many};
use crate::mem::{AllocError, LINE_BYTES};
use crate::sync::freeze::Frost;
use crate::sync::shared;
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};
use crate::sync::version::{Locked, Version};

/// A part of the directory. What a search needs of it is in the first line, and what insertions write in the second.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Segment<B: Bucket> {
    pub(crate) geometry: Geometry,
    memory: Memory<B>,
    /// How many entries there are in the buckets that are counted, and how many slots that are gone in the upper half. All writers
    /// read it, so that they write it seldom is worth more to them than that it is exact.
    counts: AtomicU64,
    /// Set until it is named, while it is being copied, and from then on if it was replaced.
    frost: Frost,
}

impl<B: Bucket> shared::Place for Segment<B> {}

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) bucket: usize,
    pub(crate) slot: usize,
}

/// What a writer finds for a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// The entry.
    Entry(Slot),
    /// No entry, but a slot for it; whether it was taken before.
    Free(Slot, bool),
    /// No entry, and no slot.
    Full,
}

/// The right to change buckets of the window of a hash: as far as a writer has come.
#[derive(Debug)]
pub(crate) struct Held<'g> {
    first: Locked<'g>,
    /// Its region, the region where the writer is, and the locks of those behind the first.
    first_region: usize,
    region: usize,
    more: Vec<Locked<'g>>,
}

/// Somebody else is at work in a window, or the segment is being copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again;

/// Large segments count the entries of one bucket in so many: on average they are wrong by one in a hundred, the smallest of them by
/// two or three.
const COUNTED: usize = if SMALL { 2 } else { 16 };

/// From so many buckets on.
const COUNTED_FROM: usize = if SMALL { 16 } else { 4096 };

/// A segment of so many buckets counts one in so many.
pub(super) const fn counted_step(buckets: usize) -> usize {
    if buckets < COUNTED_FROM { 1 } else { COUNTED }
}

/// How many entries and slots that are gone a segment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) entries: usize,
    pub(crate) gone: usize,
}

/// A slot that is gone, in `counts`.
const ONE_GONE: u64 = 1 << 32;

impl<B: Bucket> Segment<B> {
    /// Makes an empty segment, which is closed to writers until `thaw`.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn new(blocks: &Blocks<B>, geometry: Geometry) -> Result<Self, AllocError> {
        const {
            assert!(offset_of!(Self, memory) + 2 * size_of::<usize>() <= LINE_BYTES);
            assert!(offset_of!(Self, counts) >= LINE_BYTES);
        }
        let memory = Memory::new(blocks, geometry.buckets())?;
        let (counts, frost) = (AtomicU64::new(0), Frost::set());
        Ok(Self { geometry, memory, counts, frost })
    }

    /// A bucket.
    #[inline(always)]
    pub(crate) fn bucket(&self, at: usize) -> &B {
        debug_assert!(at < self.buckets());
        self.memory.bucket(at)
    }

    /// The bucket of a home, and the version that covers the entries of that home: it changes before a slot of theirs is used
    /// again.
    #[inline(always)]
    pub(crate) fn home_of(&self, home: usize) -> (&B, &Version) {
        (self.bucket(home), self.memory.version_of(home))
    }

    pub(crate) fn buckets(&self) -> usize {
        self.geometry.buckets()
    }

    /// Asks for the line of a hash.
    #[inline(always)]
    pub(crate) fn ask(&self, hash: u64) {
        prefetch(self.bucket(self.geometry.home(hash)));
    }

    /// The same for one of many that are looked at later.
    #[inline(always)]
    pub(crate) fn ask_many(&self, hash: u64) {
        prefetch_many(self.bucket(self.geometry.home(hash)));
    }

    /// Asks for what writers of a hash lock.
    #[inline(always)]
    pub(crate) fn ask_to_lock(&self, hash: u64) {
        self.memory.version_of(self.geometry.home(hash)).ask_to_lock();
    }

    /// Asks for the line of a hash, and the one behind it in its window.
    #[inline(always)]
    pub(crate) fn ask_wide(&self, hash: u64) {
        self.geometry
            .window(self.geometry.home(hash))
            .take(2)
            .for_each(|at| prefetch(self.bucket(at)));
    }

    /// Locks the first region of a hash's window.
    ///
    /// # Errors
    ///
    /// If the segment is being copied.
    #[inline]
    pub(crate) fn lock(&self, hash: u64) -> Result<Held<'_>, Again> {
        let region = self.geometry.home(hash) / BLOCK_BUCKETS;
        let first = self.memory.versions()[region].lock();
        self.held(first, region)
    }

    /// As `lock`, without waiting.
    ///
    /// # Errors
    ///
    /// If another writer is at work there, too.
    pub(crate) fn try_lock(&self, hash: u64) -> Result<Held<'_>, Again> {
        let region = self.geometry.home(hash) / BLOCK_BUCKETS;
        let first = self.memory.versions()[region].try_lock().ok_or(Again)?;
        self.held(first, region)
    }

    #[inline(always)]
    fn held<'g>(&'g self, first: Locked<'g>, region: usize) -> Result<Held<'g>, Again> {
        let held = Held { first, first_region: region, region, more: Vec::new() };
        if self.frost.holds() { Err(Again) } else { Ok(held) }
    }

    /// Goes on to a bucket of the window: locks its region, without waiting for who holds it and waits for a region before.
    #[cold]
    fn go_on<'g>(&'g self, held: &mut Held<'g>, region: usize) -> Result<(), Again> {
        held.region = region;
        // The last region may be smaller than a window, and the first one comes behind it.
        if region != held.first_region {
            held.more.push(self.memory.versions()[region].try_lock().ok_or(Again)?);
        }
        Ok(())
    }

    /// Finds the entry of a hash, or a slot for it. `find` looks for it in a bucket that writes hashes like this.
    ///
    /// # Errors
    ///
    /// If another writer is at work where the window goes on.
    #[inline(always)]
    pub(crate) fn place<'g>(
        &'g self,
        held: &mut Held<'g>,
        hash: u64,
        mut find: impl FnMut(&B, Spelling) -> Option<usize>,
    ) -> Result<Place, Again> {
        let mut gone = None;
        for at in self.geometry.window(self.geometry.home(hash)) {
            if at / BLOCK_BUCKETS != held.region {
                self.go_on(held, at / BLOCK_BUCKETS)?;
            }
            let bucket = self.bucket(at);
            let spelling = self.geometry.spelling::<B>(at);
            if let Some(slot) = find(bucket, spelling) {
                return Ok(Place::Entry(Slot { bucket: at, slot }));
            }
            let here = |found: u32| Slot { bucket: at, slot: found.trailing_zeros() as usize };
            let free = bucket.free();
            if free != 0 {
                return Ok(match gone {
                    Some(slot) => Place::Free(slot, true),
                    None if self.is_full() => Place::Full,
                    None => Place::Free(here(free), false),
                });
            }
            // Slots are gone in full buckets only.
            if gone.is_none() {
                let left = bucket.gone(spelling.mask);
                gone = (left != 0).then(|| here(left));
            }
        }
        Ok(gone.map_or(Place::Full, |slot| Place::Free(slot, true)))
    }

    /// Puts an entry into a slot that was `gone` or never taken. The caller holds the window.
    #[inline(always)]
    pub(crate) fn put(&self, held: &Held<'_>, at: Slot, gone: bool, entry: (u64, B::Entry)) {
        held.first.reuse();
        // Before the entry is there to be looked for.
        let home = self.geometry.home(entry.0);
        if home != at.bucket {
            self.pass(entry.0, home, at.bucket);
        }
        self.set(at, entry);
        self.count(at.bucket, 1_u64.wrapping_sub(if gone { ONE_GONE } else { 0 }));
    }

    /// Puts another entry of the same key into its slot. The caller holds the window.
    #[inline(always)]
    pub(crate) fn replace(&self, _held: &Held<'_>, at: Slot, entry: (u64, B::Entry)) {
        self.set(at, entry);
    }

    #[inline(always)]
    fn set(&self, Slot { bucket, slot }: Slot, (hash, entry): (u64, B::Entry)) {
        self.bucket(bucket).fill(slot, hash, self.geometry.spelling::<B>(bucket), entry);
    }

    /// Tells the buckets from a hash's home up to another that its entry went past them.
    #[inline(never)]
    fn pass(&self, hash: u64, home: usize, up_to: usize) {
        // The compiler knows of a copy that it does not change while buckets are written.
        let geometry = self.geometry;
        let passed = geometry.window(home).take_while(|at| *at != up_to);
        passed.for_each(|at| self.bucket(at).pass(hash, geometry.spelling::<B>(at)));
    }

    /// Takes the entry out of a slot. The caller holds the window.
    pub(crate) fn take(&self, held: &mut Held<'_>, Slot { bucket, slot }: Slot) {
        let place = self.bucket(bucket);
        // Nobody has gone past a bucket that still has a free slot.
        let gone = place.free() == 0;
        held.first.change(|| place.empty(slot, gone, self.geometry.spelling::<B>(bucket)));
        self.count(bucket, (if gone { ONE_GONE } else { 0 }).wrapping_sub(1));
    }

    /// Counts a change of a bucket, if it is counted.
    #[inline(always)]
    fn count(&self, bucket: usize, change: u64) {
        if bucket.is_multiple_of(self.step()) {
            // Relaxed: a figure to decide on sizes by.
            self.counts.fetch_add(change, Relaxed);
        }
    }

    /// One bucket in so many is counted.
    #[inline(always)]
    fn step(&self) -> usize {
        counted_step(self.geometry.buckets())
    }

    /// What is there in those of some buckets that are counted, if nobody is writing, as `counts` has it.
    fn counted_again(&self, buckets: Range<usize>) -> u64 {
        let step = self.step();
        let counted = (buckets.start.next_multiple_of(step)..buckets.end).step_by(step).map(|at| {
            let (bucket, mask) = (self.bucket(at), self.geometry.spelling::<B>(at).mask);
            let [free, gone] =
                [bucket.free(), bucket.gone(mask)].map(|slots| u64::from(slots.count_ones()));
            B::SLOTS as u64 - free - gone + gone * ONE_GONE
        });
        counted.sum()
    }

    /// How many entries and slots that are gone there are in some buckets, about, if nobody is writing.
    pub(super) fn counted_in(&self, buckets: Range<usize>) -> Counts {
        self.counts_of(self.counted_again(buckets))
    }

    /// Whether the counts are right, if nobody is writing (S3).
    pub(crate) fn counts_right(&self) -> bool {
        self.counts.load(Relaxed) == self.counted_again(0..self.buckets())
    }

    /// How many entries and slots that are gone there are, about.
    #[inline(always)]
    pub(crate) fn counts(&self) -> Counts {
        self.counts_of(self.counts.load(Relaxed))
    }

    #[inline(always)]
    fn counts_of(&self, counts: u64) -> Counts {
        let step = self.step();
        Counts { entries: counts as u32 as usize * step, gone: (counts >> 32) as usize * step }
    }

    /// Whether no more free slots are to be taken.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        let Counts { entries, gone } = self.counts();
        entries + gone >= self.geometry.limit::<B>()
    }

    /// Whether few more are to be: a thirty-second of all, which is an eighth of what has come since it was new, about.
    pub(crate) fn is_full_soon(&self) -> bool {
        let (Counts { entries, gone }, limit) = (self.counts(), self.geometry.limit::<B>());
        entries + gone >= limit - limit / 32
    }

    /// Whether so few slots are taken that a smaller segment would do.
    #[inline(always)]
    pub(crate) fn is_sparse(&self) -> bool {
        self.counts().entries * 8 < self.buckets() * B::SLOTS
    }

    /// Waits for all writers and keeps others out, so that the segment can be copied; `false` if somebody else does that.
    pub(crate) fn freeze(&self) -> bool {
        self.frost.freeze(self.memory.versions())
    }

    /// Lets writers in: the segment is named everywhere, or was not copied after all.
    pub(crate) fn thaw(&self) {
        self.frost.thaw();
    }

    /// Whether the segment is being copied, or was replaced.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frost.is_set()
    }

    /// Gives the blocks back.
    pub(super) fn give_back(&mut self, blocks: &Blocks<B>) {
        self.memory.give_back(blocks);
    }

    pub(super) fn own_bytes(&self) -> usize {
        size_of::<Self>() + self.memory.own_bytes(self.buckets())
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }
}

/// A segment that nobody else knows, as it is filled.
#[derive(Debug)]
pub(super) struct Filling<B: Bucket> {
    segment: Segment<B>,
    /// How many slots of each bucket are taken, the first ones. Free slots are not looked for: a load of sixteen bytes, of which eight
    /// were just stored, waits until those have come to the cache.
    taken: Vec<u8>,
}

impl<B: Bucket> Filling<B> {
    /// One without entries.
    pub(super) fn new(segment: Segment<B>) -> Self {
        let taken = vec![0; segment.buckets()];
        Self { segment, taken }
    }

    /// Adds all entries of another segment that are of this one's part; tells whether there was room.
    pub(super) fn add_all(&mut self, old: &Segment<B>, entries: &impl Entries<B>) -> bool {
        let (own, both) = old.geometry.buckets_of(self.segment.geometry.part);
        let is_filled = if self.segment.geometry.tells() {
            entries.each(old, own, self.adding::<true, true>())
        } else {
            entries.each(old, own, self.adding::<false, true>())
        };
        is_filled
            && both.into_iter().all(|some| entries.each(old, some, self.adding::<false, false>()))
    }

    /// What adds an entry, and tells whether there was room. Compiled for a geometry that is `TOLD`, or any, and for entries that are
    /// `ALL` of this segment's part, or of which others are left out.
    #[inline(always)]
    fn adding<const TOLD: bool, const ALL: bool>(&mut self) -> impl FnMut(u64, B::Entry) -> bool {
        // The compiler knows of a copy that it does not change while entries are written.
        let (segment, geometry) = (&self.segment, self.segment.geometry);
        let taken = &mut *self.taken;
        move |hash, entry| {
            if !ALL && !geometry.part.has(hash) {
                return true;
            }
            let home = geometry.home(hash);
            let slot = usize::from(taken[home]);
            if slot >= B::SLOTS {
                return add_behind(segment, taken, (hash, entry), home);
            }
            taken[home] = slot as u8 + 1;
            let spelling = if TOLD { Spelling::told::<B>() } else { geometry.spelling::<B>(home) };
            segment.bucket(home).fill_first(slot, hash, spelling, entry);
            true
        }
    }

    /// The segment with the entries that were added.
    pub(super) fn done(self) -> Segment<B> {
        let counted = self.taken.iter().step_by(self.segment.step());
        // Relaxed: published with the segment.
        self.segment.counts.store(counted.copied().map(u64::from).sum(), Relaxed);
        self.segment
    }
}

/// Adds an entry whose home is full.
#[inline(never)]
fn add_behind<B: Bucket>(
    segment: &Segment<B>,
    taken: &mut [u8],
    entry: (u64, B::Entry),
    home: usize,
) -> bool {
    for at in segment.geometry.window(home) {
        let spelling = segment.geometry.spelling::<B>(at);
        let slot = usize::from(taken[at]);
        if slot < B::SLOTS {
            taken[at] += 1;
            segment.bucket(at).fill_first(slot, entry.0, spelling, entry.1);
            return true;
        }
        segment.bucket(at).pass(entry.0, spelling);
    }
    false
}
