//! Putting entries in.

use core::iter;

use super::layout::{Block, Name, SLOTS};
use super::search::{Only, Slot, Wanted};
use super::shadow::{Shadow, Stripes};
use super::{CcehError, Map};
use crate::persist::medium::Medium;
use crate::sync::shim::Ordering::{Relaxed, Release};
use crate::sync::version::Locked;

/// Stripes of a segment that this thread holds; unlocked when dropped.
#[derive(Debug)]
pub(super) struct Stripe<'m> {
    first: (usize, Locked<'m>),
    /// Those behind it: seldom any.
    more: Vec<(usize, Locked<'m>)>,
}

impl<'m> Stripe<'m> {
    /// Waits for stripes of a segment.
    #[inline(always)]
    pub(super) fn lock(shadow: &'m Shadow, stripes: Stripes) -> Self {
        // In ascending order, so that nobody waits in a circle.
        let mut locks = stripes.iter().map(|at| (at, shadow.version(at).lock()));
        let first = locks.next().expect("a bucket has a stripe");
        let mut more = Vec::new();
        locks.for_each(|lock| more.push(lock));
        Self { first, more }
    }

    /// Announces a change of the stripe of a bucket.
    #[inline(always)]
    pub(super) fn change<T>(&mut self, stripe: usize, change: impl FnOnce() -> T) -> T {
        self.one(stripe).change(change)
    }

    #[inline(always)]
    fn one(&mut self, stripe: usize) -> &mut Locked<'m> {
        if self.first.0 == stripe {
            return &mut self.first.1;
        }
        let one = self.more.iter_mut().find(|(at, _)| *at == stripe);
        &mut one.expect("the stripe is held").1
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Locked<'m>> {
        iter::once(&mut self.first).chain(&mut self.more).map(|(_, locked)| locked)
    }

    /// Announces a change of all that is held.
    pub(super) fn begin_change(&mut self) {
        self.all().for_each(Locked::begin_change);
    }

    /// Ends what `begin_change` announced.
    pub(super) fn end_change(&mut self) {
        self.all().for_each(Locked::end_change);
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
    pub(super) fn put(
        &self,
        hash: u64,
        value: u64,
        wanted: &impl Wanted,
    ) -> Result<Option<u64>, CcehError> {
        loop {
            match self.try_put(hash, value, wanted) {
                Put::New => return Ok(None),
                Put::Replaced(old) => return Ok(Some(old)),
                Put::Full(block, name) => self.split(block, name)?,
                Put::Moved => {}
            }
        }
    }

    fn try_put(&self, hash: u64, value: u64, wanted: &impl Wanted) -> Put {
        let bucket = self.geometry.bucket(hash);
        let block = self.hints.get(hash);
        self.medium.line(self.bucket_line(block, bucket)).prefetch();
        let shadow = self.shadows.get(block);
        let mut held = Stripe::lock(shadow, self.stripes(bucket));
        let name = shadow.name();
        if !name.covers(hash) {
            return Put::Moved;
        }
        if let Some(slot) = self.find(block, bucket, hash, wanted) {
            let place = slot.line.word(SLOTS + slot.at);
            // Relaxed: under the lock.
            let old = self.medium.load(place, Relaxed);
            wanted.leaves(old);
            held.change(self.stripe_of(slot.bucket), || {
                // Relaxed: published by the version.
                self.medium.store(place, value, Relaxed);
                self.medium.persist(slot.line);
            });
            return Put::Replaced(old);
        }
        let Some(slot) = self.find_free(block, name, bucket) else {
            return Put::Full(block, name);
        };
        held.change(self.stripe_of(slot.bucket), || {
            if slot.bucket != bucket {
                shadow.note_away(bucket, self.geometry.bits);
            }
            self.write(slot, hash, value);
        });
        shadow.count(self.stripe_of(slot.bucket), 1);
        Put::New
    }

    /// Puts an entry into a free slot: its value, and then its hash, which makes it one.
    ///
    /// PAPER: section 4.
    fn write(&self, slot: Slot, hash: u64, value: u64) {
        // Relaxed: published by the version.
        self.medium.store(slot.line.word(SLOTS + slot.at), value, Relaxed);
        if !self.medium.is_ordered() {
            self.medium.persist(slot.line);
        }
        // ORDER: Release, so that no crash finds the hash without the value; readers rely on the version.
        self.medium.store(slot.line.word(slot.at), hash, Release);
        self.medium.persist(slot.line);
    }
}
