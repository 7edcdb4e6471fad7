//! Taking entries out.

use super::Map;
use super::insert::Stripe;
use super::layout::SLOTS;
use super::search::{Only, Wanted};
use super::shadow::{STRIPES, Stripes};
use crate::persist::medium::Medium;
use crate::sync::shim::Ordering::Relaxed;

impl<M: Medium> Map<M> {
    pub(super) fn remove(&self, key: u64) -> Option<u64> {
        self.take(self.spelling.hash(key), &Only)
    }

    /// Removes a hash and returns its value.
    pub(super) fn take(&self, hash: u64, wanted: &impl Wanted) -> Option<u64> {
        let bucket = self.geometry.bucket(hash);
        loop {
            let block = self.hints.get(hash);
            self.medium.line(self.bucket_line(block, bucket)).prefetch();
            let shadow = self.shadows.get(block);
            let mut held = Stripe::lock(shadow, self.stripes(bucket));
            let name = shadow.name();
            if !name.covers(hash) {
                continue;
            }
            let slot = self.find(block, bucket, hash, wanted)?;
            // Relaxed: under the lock.
            let value = self.medium.load(slot.line.word(SLOTS + slot.at), Relaxed);
            wanted.leaves(value);
            held.change(self.stripe_of(slot.bucket), || {
                // PAPER: section 4: a hash that is not the segment's. Relaxed: published by the version.
                self.medium.store(slot.line.word(slot.at), name.filler(), Relaxed);
                self.medium.persist(slot.line);
            });
            shadow.count(self.stripe_of(slot.bucket), -1);
            drop(held);
            self.merge(block, name);
            return Some(value);
        }
    }

    /// How many entries a block has that stands for hashes; 0 if it does not.
    pub(super) fn live(&self, block: super::layout::Block) -> u64 {
        let shadow = self.shadows.get(block);
        if let Some(live) = shadow.live() {
            return live;
        }
        let _held = Stripe::lock(shadow, Stripes::ALL);
        let mut live = [0; STRIPES];
        self.entries(block, shadow.name())
            .for_each(|entry| live[self.stripe_of(entry.bucket)] += 1);
        shadow.set_live(live);
        live.iter().sum::<usize>() as u64
    }

    pub(super) fn len(&self) -> usize {
        let mut live = 0;
        let mut cursor = Some(0);
        while let Some(hash) = cursor {
            let block = self.hints.get(hash);
            let name = self.shadows.get(block).name();
            if name.covers(hash) {
                live += self.live(block);
                cursor = name.next();
            } else {
                crate::sync::shim::wait_for_others();
            }
        }
        live as usize
    }
}
