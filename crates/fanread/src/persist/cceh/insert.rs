//! Putting entries in.

use super::layout::{Block, HASHES, Name, SLOTS};
use super::search::{Only, Slot, Wanted, slot_of};
use super::shadow::{STRIPES, Shadow, Stripes};
use super::{CcehError, Map};
use crate::persist::medium::{LineRef, Medium};
use crate::sync::shim::Ordering::{Relaxed, Release};
use crate::sync::version::Locked;

/// Stripes of a segment that this thread holds; unlocked when dropped.
#[derive(Debug)]
pub(super) struct Stripe<'m>([Option<Locked<'m>>; STRIPES]);

impl<'m> Stripe<'m> {
    /// Waits for stripes of a segment.
    pub(super) fn lock(shadow: &'m Shadow, stripes: Stripes) -> Self {
        let mut held = [const { None }; STRIPES];
        // In ascending order, so that nobody waits in a circle.
        stripes.iter().for_each(|at| held[at] = Some(shadow.version(at).lock()));
        Self(held)
    }

    /// A stripe that is held already.
    fn of(stripe: usize, locked: Locked<'m>) -> Self {
        let mut held = [const { None }; STRIPES];
        held[stripe % STRIPES] = Some(locked);
        Self(held)
    }

    /// Announces a change of the stripe of a bucket.
    pub(super) fn change<T>(&mut self, stripe: usize, change: impl FnOnce() -> T) -> T {
        self.0[stripe].as_mut().expect("the stripe is held").change(change)
    }

    /// Announces a change of all that is held.
    pub(super) fn begin_change(&mut self) {
        self.0.iter_mut().flatten().for_each(Locked::begin_change);
    }

    /// Ends what `begin_change` announced.
    pub(super) fn end_change(&mut self) {
        self.0.iter_mut().flatten().for_each(Locked::end_change);
    }
}

/// What became of an attempt to write.
enum Put {
    New,
    Replaced(u64),
    /// The segment has no room.
    Full(Block, Name),
    /// The hash belongs to another segment by now.
    Moved,
}

impl<M: Medium> Map<M> {
    pub(super) fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, CcehError> {
        self.put(self.spelling.hash(key), value, &Only)
    }

    /// Maps a hash to a value, and returns the value it replaces.
    ///
    /// Mostly the hash's own bucket says all and has room, and nobody holds its stripe, which is the only one that is needed then (N6):
    /// that is done here, in few instructions, since what a processor looks ahead should reach to the insertion after the next.
    #[inline(always)]
    pub(super) fn put(
        &self,
        hash: u64,
        value: u64,
        wanted: &impl Wanted,
    ) -> Result<Option<u64>, CcehError> {
        let bucket = self.geometry.bucket(hash);
        let block = self.hints.get(hash);
        let line = self.bucket_line(block, bucket);
        let home = self.medium.line(line);
        home.prefetch();
        let shadow = self.shadows.get(block);
        let stripe = self.stripe_of(bucket);
        shadow.version(stripe).ask_to_lock();
        if let Some(mut locked) = shadow.version(stripe).try_lock() {
            let name = shadow.name();
            if name.covers(hash)
                && !shadow.may_be_away(bucket, self.geometry.bits)
                && home.matching_low(hash, !0) == 0
            {
                // Without a branch for each slot, of which one in two would be a surprise.
                let free = HASHES & !name.used(home);
                if free != 0 {
                    let slot = Slot { bucket, line, at: free.trailing_zeros() as usize };
                    locked.change(|| self.write(home, slot, hash, value));
                    shadow.count(stripe, 1);
                    return Ok(None);
                }
            }
            if self.is_in_one_stripe(bucket) {
                let held = Stripe::of(stripe, locked);
                match self.put_around(held, block, hash, value, wanted) {
                    Put::New => return Ok(None),
                    Put::Replaced(old) => return Ok(Some(old)),
                    Put::Full(..) | Put::Moved => {}
                }
            }
        }
        self.put_slowly(hash, value, wanted)
    }

    /// Does what `put` does, whatever it takes.
    #[cold]
    fn put_slowly(
        &self,
        hash: u64,
        value: u64,
        wanted: &impl Wanted,
    ) -> Result<Option<u64>, CcehError> {
        loop {
            let block = self.hints.get(hash);
            let stripes = self.stripes(self.geometry.bucket(hash));
            let held = Stripe::lock(self.shadows.get(block), stripes);
            match self.put_around(held, block, hash, value, wanted) {
                Put::New => return Ok(None),
                Put::Replaced(old) => return Ok(Some(old)),
                Put::Full(block, name) => self.split(block, name)?,
                Put::Moved => {}
            }
        }
    }

    /// Puts an entry where there is room, or another value in its place, under the locks of all stripes of the hash in a block.
    #[inline(never)]
    fn put_around(
        &self,
        mut held: Stripe<'_>,
        block: Block,
        hash: u64,
        value: u64,
        wanted: &impl Wanted,
    ) -> Put {
        let shadow = self.shadows.get(block);
        let name = shadow.name();
        if !name.covers(hash) {
            return Put::Moved;
        }
        let bucket = self.geometry.bucket(hash);
        let is_away = shadow.may_be_away(bucket, self.geometry.bits);
        if is_away {
            // While the first line is on its way.
            self.prefetch_behind(block, bucket);
        }
        let mut free = None;
        for count in 0..self.geometry.probed {
            let bucket = self.geometry.behind(bucket, count);
            let line = self.bucket_line(block, bucket);
            let words = self.medium.line(line);
            if let Some(at) = slot_of(words, hash, wanted) {
                // Relaxed: under the lock.
                let old = words.load(SLOTS + at, Relaxed);
                wanted.leaves(old);
                held.change(self.stripe_of(bucket), || {
                    // Relaxed: published by the version.
                    self.medium.store_in(words, line, SLOTS + at, value, Relaxed);
                    self.medium.persist(line);
                });
                return Put::Replaced(old);
            }
            if free.is_none() {
                let slots = HASHES & !name.used(words);
                let slot = || Slot { bucket, line, at: slots.trailing_zeros() as usize };
                free = (slots != 0).then(|| (words, slot()));
            }
            if free.is_some() && !is_away {
                break;
            }
        }
        let Some((words, slot)) = free else {
            return Put::Full(block, name);
        };
        held.change(self.stripe_of(slot.bucket), || {
            if slot.bucket != bucket {
                shadow.note_away(bucket, self.geometry.bits);
            }
            self.write(words, slot, hash, value);
        });
        shadow.count(self.stripe_of(slot.bucket), 1);
        Put::New
    }

    /// Puts an entry into a free slot: its value, and then its hash, which makes it one.
    ///
    /// PAPER: section 4.
    #[inline(always)]
    fn write(&self, words: LineRef<'_>, slot: Slot, hash: u64, value: u64) {
        // Relaxed: published by the version.
        self.medium.store_in(words, slot.line, SLOTS + slot.at, value, Relaxed);
        if !self.medium.is_ordered() {
            self.medium.persist(slot.line);
        }
        // ORDER: Release, so that no crash finds the hash without the value; readers rely on the version.
        self.medium.store_in(words, slot.line, slot.at, hash, Release);
        self.medium.persist(slot.line);
    }
}
