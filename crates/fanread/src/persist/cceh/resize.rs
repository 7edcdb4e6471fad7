//! Splits and merges of segments.
//!
//! What a crash may find of a split, by what is durable of the directory's entries for the segment `S` of depth `L`, whose
//! new right half is `R`:
//!
//! | entries of the left half | of the right half | it means |
//! | --- | --- | --- |
//! | all `S, L` | all `S, L` | `S`, which has all entries |
//! | all `S, L` | some `R, L + 1` | both halves: `R` is whole, since it was fenced before |
//! | some `S, L + 1` | all `R, L + 1` | both halves |
//!
//! Nobody else uses `R`, or changes `S`, before all of that is durable, so recovery may go forward from each state
//! (`recover.rs`). A split that copies all entries has a new segment in the left half too, in the entries of depth `L + 1`. A
//! merge makes the same states in the opposite order: `S` has all entries before the first of them, and `R` is as it was,
//! so to go forward is to undo it.
//!
//! PAPER: sections 3.2 and 3.3.

use core::iter;

use super::insert::Stripe;
use super::layout::{Block, HASHES, MIN_DEPTH, Name, SLOTS};
use super::shadow::{STRIPES, Stripes};
use super::{CcehError, Map, SplitPolicy};
use crate::persist::medium::{LINE_WORDS, LineRef, Medium};
use crate::sync::shim::Ordering::Relaxed;

/// Segments are joined that together have less than one entry in so many of a segment's slots.
///
/// A segment is split when it is half full, or fuller, so a quarter is far from splitting again.
const SPARSE: u64 = 4;

/// The entries of one segment, as they will be.
#[derive(Debug)]
pub(super) struct Draft {
    /// The words of all lines, which are none if the entries are where they will be.
    words: Vec<u64>,
    /// The slots of each line that are in use, as bits.
    used: Vec<u8>,
    name: Name,
    /// Entries of each stripe.
    live: [usize; STRIPES],
    /// Buckets whose entries are in other buckets.
    away: Vec<usize>,
}

/// An entry, and where it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) bucket: usize,
    pub(super) at: usize,
    pub(super) hash: u64,
    pub(super) value: u64,
}

impl Draft {
    /// Of a segment that will be written.
    fn new(name: Name, lines: usize) -> Result<Self, CcehError> {
        let (mut words, mut used) = (Vec::new(), Vec::new());
        let bytes = lines * (LINE_WORDS * 8 + 1);
        let out_of_memory = |_| CcehError::OutOfMemory { bytes };
        words.try_reserve_exact(lines * LINE_WORDS).map_err(out_of_memory)?;
        used.try_reserve_exact(lines).map_err(out_of_memory)?;
        // Values too, which say nothing in a free slot: one word everywhere is what memory is filled with quickly.
        words.resize(lines * LINE_WORDS, name.filler());
        used.resize(lines, 0);
        Ok(Self { words, used, ..Self::in_place(name) })
    }

    /// Of a segment whose entries stay where they are.
    fn in_place(name: Name) -> Self {
        Self { words: Vec::new(), used: Vec::new(), name, live: [0; STRIPES], away: Vec::new() }
    }

    fn lines(&self) -> impl Iterator<Item = &[u64; LINE_WORDS]> {
        self.words.as_chunks().0.iter()
    }

    /// A free slot of a bucket.
    #[inline(always)]
    fn free(&self, bucket: usize) -> Option<usize> {
        let free = HASHES & !self.used[bucket];
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn put(&mut self, home: usize, entry: Live) {
        let line = &mut self.words[entry.bucket * LINE_WORDS..][..LINE_WORDS];
        line[entry.at % SLOTS] = entry.hash;
        line[SLOTS + entry.at % SLOTS] = entry.value;
        self.used[entry.bucket] |= 1 << entry.at;
        if home != entry.bucket {
            self.away.push(home);
        }
    }
}

impl<M: Medium> Map<M> {
    /// The entries of a block that has this name; under its locks, or to be validated.
    pub(super) fn entries(&self, block: Block, name: Name) -> impl Iterator<Item = Live> + '_ {
        (0..self.geometry.lines()).flat_map(move |bucket| {
            let line = self.medium.line(self.bucket_line(block, bucket));
            entries_of(line, bucket, name.used(line))
        })
    }

    /// Makes room in a segment that has this name, or had it.
    #[cold]
    pub(super) fn split(&self, block: Block, name: Name) -> Result<(), CcehError> {
        let shadow = self.shadows.get(block);
        let mut old = Stripe::lock(shadow, Stripes::ALL);
        if shadow.name() != name {
            // Somebody else did it.
            return Ok(());
        }
        let halves = name.halves();
        let drafts = self.plan(block, name)?;
        let right = self.allocate()?;
        let left = match self.policy {
            SplitPolicy::InPlace => Ok(block),
            SplitPolicy::CopyOnWrite => self.allocate(),
        };
        let left = left.inspect_err(|_| self.release(right, 1))?;
        let release = |blocks: &[Block]| {
            blocks.iter().filter(|b| **b != block).for_each(|b| self.release(*b, 1));
        };
        let blocks = [left, right];
        {
            // N7: who holds one of these came by an old hint, and goes on.
            let mut new = blocks
                .map(|at| (at != block).then(|| Stripe::lock(self.shadows.get(at), Stripes::ALL)));
            new.iter_mut().flatten().for_each(Stripe::begin_change);
            for (at, draft) in blocks.into_iter().zip(&drafts).filter(|(at, _)| *at != block) {
                self.write_draft(at, draft);
            }
            self.medium.fence();
            let mut structure = self.structure.lock();
            let fits = self.make_deeper(&mut structure, name.depth() + 1);
            if let Ok(former) = fits {
                if former.is_none() {
                    self.write_some_ahead(&mut structure);
                }
                // The fences of the pointers are also those of what was written before.
                self.point(&mut structure, halves[1], right, name.depth() + 1);
                self.point(&mut structure, halves[0], left, name.depth() + 1);
                if let Some(former) = former {
                    self.release_directory(former);
                }
                structure.segments[name.depth() as usize] -= 1;
                structure.segments[name.depth() as usize + 1] += 2;
                old.begin_change();
                if left != block {
                    shadow.set_name(Name::NONE);
                }
                for (at, draft) in blocks.into_iter().zip(&drafts) {
                    self.publish(at, draft);
                    self.hints.set(draft.name, at);
                }
                old.end_change();
            }
            new.iter_mut().flatten().for_each(Stripe::end_change);
            drop(new);
            if let Err(error) = fits {
                release(&blocks);
                return Err(error);
            }
        }
        drop(old);
        if left != block {
            self.release(block, 1);
        }
        Ok(())
    }

    fn draft(&self, name: Name) -> Result<Draft, CcehError> {
        Draft::new(name, self.geometry.lines())
    }

    /// Where the entries of a segment go when it becomes two: next to their own buckets, but if they stay in it.
    fn plan(&self, block: Block, name: Name) -> Result<[Draft; 2], CcehError> {
        let halves = name.halves();
        let is_left_in_place = self.policy == SplitPolicy::InPlace;
        let mut right = self.draft(halves[1])?;
        let mut left =
            if is_left_in_place { Draft::in_place(halves[0]) } else { self.draft(halves[0])? };
        let mut others = [Vec::new(), Vec::new()];
        for bucket in 0..self.geometry.lines() {
            let line = self.medium.line(self.bucket_line(block, bucket));
            let used = halves.map(|half| half.used(line));
            if is_left_in_place {
                self.keep(&mut left, line, bucket, used[0]);
            } else {
                self.place_home(&mut left, &mut others[0], entries_of(line, bucket, used[0]));
            }
            self.place_home(&mut right, &mut others[1], entries_of(line, bucket, used[1]));
        }
        let mut drafts = [left, right];
        for (draft, others) in drafts.iter_mut().zip(others) {
            if !others.into_iter().all(|entry| self.place_away(draft, entry)) {
                // Where they are they fit.
                *draft = self.draft(draft.name)?;
                for entry in self.entries(block, draft.name) {
                    draft.put(self.geometry.bucket(entry.hash), entry);
                }
            }
            self.count(draft);
        }
        Ok(drafts)
    }

    /// Puts entries into their own buckets, as far as these have room; the others are left.
    #[inline(always)]
    fn place_home(
        &self,
        draft: &mut Draft,
        others: &mut Vec<Live>,
        entries: impl Iterator<Item = Live>,
    ) {
        for entry in entries {
            let home = self.geometry.bucket(entry.hash);
            match draft.free(home) {
                Some(at) => draft.put(home, Live { bucket: home, at, ..entry }),
                None => others.push(entry),
            }
        }
    }

    /// Takes note of the entries of a bucket that stay in it.
    #[inline(always)]
    fn keep(&self, draft: &mut Draft, line: LineRef<'_>, bucket: usize, used: u8) {
        draft.live[self.stripe_of(bucket) % STRIPES] += ones(used);
        let is_home = line.matching_low(bucket as u64, self.geometry.lines() as u64 - 1);
        for entry in entries_of(line, bucket, used & !is_home) {
            draft.away.push(self.geometry.bucket(entry.hash));
        }
    }

    /// Counts the entries of a draft that has lines.
    fn count(&self, draft: &mut Draft) {
        let of_stripe = self.geometry.lines() / STRIPES;
        for (live, used) in draft.live.iter_mut().zip(draft.used.chunks(of_stripe)) {
            *live = used.iter().map(|used| ones(*used)).sum();
        }
    }

    /// Puts an entry into the nearest free slot of its buckets, if there is one.
    fn place_away(&self, draft: &mut Draft, entry: Live) -> bool {
        let home = self.geometry.bucket(entry.hash);
        let free = (0..self.geometry.probed).find_map(|count| {
            let bucket = self.geometry.behind(home, count);
            Some((bucket, draft.free(bucket)?))
        });
        if let Some((bucket, at)) = free {
            draft.put(home, Live { bucket, at, ..entry });
        }
        free.is_some()
    }

    /// Writes a segment that nobody reads yet, and flushes it.
    fn write_draft(&self, block: Block, draft: &Draft) {
        for (bucket, words) in draft.lines().enumerate() {
            let line = self.bucket_line(block, bucket);
            // Relaxed: published by the version, and by what names the block after the fence.
            self.medium.store_line(line, words);
            self.medium.flush(line);
        }
    }

    /// Lets a block stand for the hashes of a draft. All its stripes are changing.
    fn publish(&self, block: Block, draft: &Draft) {
        let shadow = self.shadows.get(block);
        shadow.set_live(draft.live);
        shadow.set_away(false);
        draft.away.iter().for_each(|bucket| shadow.note_away(*bucket, self.geometry.bits));
        shadow.set_name(draft.name);
    }

    /// Joins a segment that had this name with its neighbour, if both are nearly empty.
    pub(super) fn merge(&self, block: Block, name: Name) {
        let slots = (self.geometry.lines() * SLOTS) as u64;
        if name.depth() > MIN_DEPTH && self.live(block) * 2 * SPARSE <= slots {
            self.merge_now(name);
        }
    }

    #[cold]
    fn merge_now(&self, name: Name) {
        let slots = (self.geometry.lines() * SLOTS) as u64;
        let (parent, _) = name.parent();
        let halves = parent.halves();
        let blocks = halves.map(|half| self.hints.get(half.first()));
        let shadows = blocks.map(|block| self.shadows.get(block));
        let is_named = |half: usize| shadows[half].name() == halves[half];
        if blocks[0] == blocks[1] || !is_named(0) || !is_named(1) {
            return;
        }
        if blocks.iter().map(|block| self.live(*block)).sum::<u64>() * SPARSE > slots {
            return;
        }
        // N7: one that is free by now is left at once, since a split may wait for it that has the other one.
        let lower = usize::from(blocks[1] < blocks[0]);
        let first = Stripe::lock(shadows[lower], Stripes::ALL);
        if !is_named(lower) {
            return;
        }
        let second = Stripe::lock(shadows[1 - lower], Stripes::ALL);
        if !is_named(1 - lower) {
            return;
        }
        let mut held = [first, second];
        // Without memory for a plan they stay two.
        let Ok(mut draft) = self.draft(parent) else { return };
        for entry in self.entries(blocks[0], halves[0]) {
            draft.put(self.geometry.bucket(entry.hash), entry);
        }
        if !self.entries(blocks[1], halves[1]).all(|entry| self.place_away(&mut draft, entry)) {
            return;
        }
        self.count(&mut draft);
        // What is changed counts as free until the segment stands for all of the hashes.
        for (bucket, words) in draft.lines().enumerate() {
            let line = self.bucket_line(blocks[0], bucket);
            let mut is_changed = false;
            for at in (0..LINE_WORDS).rev() {
                let is_value = at >= SLOTS;
                let hash = words[at % SLOTS];
                // The value of a slot that stays free says nothing.
                if (!is_value || parent.covers(hash))
                    && self.medium.load(line.word(at), Relaxed) != words[at]
                {
                    // Relaxed: published by the version.
                    self.medium.store(line.word(at), words[at], Relaxed);
                    is_changed = true;
                }
            }
            if is_changed {
                self.medium.flush(line);
            }
        }
        self.medium.fence();
        {
            let mut structure = self.structure.lock();
            self.point(&mut structure, halves[0], blocks[0], parent.depth());
            self.point(&mut structure, halves[1], blocks[0], parent.depth());
            structure.segments[parent.depth() as usize + 1] -= 2;
            structure.segments[parent.depth() as usize] += 1;
            held.iter_mut().for_each(Stripe::begin_change);
            shadows[1].set_name(Name::NONE);
            self.publish(blocks[0], &draft);
            self.hints.set(parent, blocks[0]);
            held.iter_mut().for_each(Stripe::end_change);
            self.make_shallower(&mut structure);
        }
        drop(held);
        self.release(blocks[1], 1);
    }
}

/// The entries of a bucket in slots that are in use; under a lock, or to be validated.
#[inline(always)]
fn entries_of(line: LineRef<'_>, bucket: usize, mut used: u8) -> impl Iterator<Item = Live> {
    iter::from_fn(move || {
        let at = (used != 0).then(|| used.trailing_zeros() as usize)?;
        used &= used - 1;
        // Relaxed: under the locks, or validated.
        let [hash, value] = [at, SLOTS + at].map(|word| line.load(word, Relaxed));
        Some(Live { bucket, at, hash, value })
    })
}

/// How many slots of a line there are in `used`; in fewer instructions than counting takes without one for that.
#[inline(always)]
fn ones(used: u8) -> usize {
    const COUNTS: u64 = 0x4332_3221_3221_2110;
    const { assert!(SLOTS == 4) };
    (COUNTS >> (4 * (used & HASHES)) & 0xf) as usize
}
