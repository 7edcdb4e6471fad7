//! Looking for a key.

use core::ops::ControlFlow;

use super::Map;
use super::layout::{Block, SLOTS};
use super::shadow::{STRIPES, Stripes};
use crate::batch::Bits;
use crate::persist::medium::{LineAt, LineRef, Medium};
use crate::sync::backoff::Backoff;
use crate::sync::shim::Ordering::Relaxed;

/// How many keys of a batch have their lines fetched at once.
///
/// Each key asks for two lines. Fewer leave requests into the second-level cache idle; as many as a word has bits.
pub(super) const BATCH: usize = if cfg!(any(loom, shuttle, miri)) { 2 } else { 64 };

/// A slot of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    /// Which bucket of its segment.
    pub(super) bucket: usize,
    pub(super) line: LineAt,
    pub(super) at: usize,
}

/// Which of the entries that have one hash is meant.
pub(super) trait Wanted {
    /// Whether it is the one of this value. Any word may be asked about; the answer is dropped if it was not a value at that
    /// moment.
    fn is(&self, value: u64) -> bool;

    /// Takes note that the value is about to be replaced or removed. The stripes of its slot are locked.
    fn leaves(&self, _value: u64) {}
}

/// The only entry: hashes are keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Only;

impl Wanted for Only {
    #[inline(always)]
    fn is(&self, _: u64) -> bool {
        true
    }
}

impl<M: Medium> Map<M> {
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        self.get_hash(self.spelling.hash(key), &Only)
    }

    /// The line of the bucket `count` behind that of a hash.
    #[inline(always)]
    pub(super) fn bucket_line(&self, block: Block, bucket: usize) -> LineAt {
        self.geometry.line(block).plus(bucket)
    }

    /// The stripe of a bucket.
    #[inline(always)]
    pub(super) fn stripe_of(&self, bucket: usize) -> usize {
        bucket >> (self.geometry.bits - STRIPES.ilog2())
    }

    /// The stripes in which a hash may be.
    #[inline(always)]
    pub(super) fn stripes(&self, bucket: usize) -> Stripes {
        Stripes::of(bucket, self.geometry.probed, self.geometry.bits)
    }

    /// Whether a hash of this bucket can be in no stripe but that of the bucket.
    #[inline(always)]
    pub(super) fn is_in_one_stripe(&self, bucket: usize) -> bool {
        self.stripe_of(bucket) == self.stripe_of(bucket + self.geometry.probed - 1)
    }

    /// Looks for the value of a hash.
    #[inline(always)]
    pub(super) fn get_hash(&self, hash: u64, wanted: &impl Wanted) -> Option<u64> {
        match self.get_at_home(hash, wanted) {
            ControlFlow::Break(found) => found,
            ControlFlow::Continue(_) => self.get_around(hash, wanted),
        }
    }

    /// Looks for the value of a hash in its own bucket; goes on in its block if that does not tell.
    ///
    /// Mostly its own bucket says all, and the version of that bucket's stripe is enough: where no entry of the bucket is elsewhere (N3), a
    /// hash that is not in it was nowhere when that was read, since none goes from one bucket to another but in a change of all stripes.
    #[inline(always)]
    fn get_at_home(&self, hash: u64, wanted: &impl Wanted) -> ControlFlow<Option<u64>, Block> {
        let bucket = self.geometry.bucket(hash);
        let mut backoff = None;
        loop {
            let block = self.hints.get(hash);
            let home = self.medium.line(self.bucket_line(block, bucket));
            home.prefetch();
            let shadow = self.shadows.get(block);
            let version = shadow.version(self.stripe_of(bucket));
            let seen = version.begin();
            if !seen.is_changing() && shadow.name().covers(hash) {
                // Relaxed: validated by the version, here and below.
                let found = match slot_of(home, hash, wanted) {
                    Some(at) => Some(home.load(SLOTS + at, Relaxed)),
                    None if shadow.may_be_away(bucket, self.geometry.bits) => {
                        return ControlFlow::Continue(block);
                    }
                    None => None,
                };
                if version.end(seen).is_some() {
                    return ControlFlow::Break(found);
                }
            }
            backoff.get_or_insert_with(Backoff::new).wait();
        }
    }

    /// Looks for the value of a hash that may be in any of its buckets.
    #[inline(never)]
    fn get_around(&self, hash: u64, wanted: &impl Wanted) -> Option<u64> {
        let bucket = self.geometry.bucket(hash);
        let stripes = self.stripes(bucket);
        let mut backoff = Backoff::new();
        loop {
            let block = self.hints.get(hash);
            let shadow = self.shadows.get(block);
            if let Some(look) = shadow.begin(stripes)
                && shadow.name().covers(hash)
            {
                // Validated by the versions.
                let slot = self.find(block, bucket, hash, wanted);
                let found =
                    slot.map(|slot| self.medium.line(slot.line).load(SLOTS + slot.at, Relaxed));
                if shadow.holds(&look) {
                    return found;
                }
            }
            backoff.wait();
        }
    }

    /// The buckets behind one in which its entries may be, and their lines.
    #[inline(always)]
    fn lines_behind(&self, block: Block, bucket: usize) -> impl Iterator<Item = (usize, LineAt)> {
        (1..self.geometry.probed).map(move |count| {
            let bucket = self.geometry.behind(bucket, count);
            (bucket, self.bucket_line(block, bucket))
        })
    }

    /// Asks for the lines behind a bucket.
    #[inline(always)]
    pub(super) fn prefetch_behind(&self, block: Block, bucket: usize) {
        self.lines_behind(block, bucket).for_each(|(_, line)| self.medium.line(line).prefetch());
    }

    /// Looks for a hash behind its own bucket. What is found is to be validated, or read under a lock.
    #[inline(never)]
    pub(super) fn find_away(
        &self,
        block: Block,
        bucket: usize,
        hash: u64,
        wanted: &impl Wanted,
    ) -> Option<Slot> {
        self.lines_behind(block, bucket).find_map(|(bucket, line)| {
            let at = slot_of(self.medium.line(line), hash, wanted)?;
            Some(Slot { bucket, line, at })
        })
    }

    /// Looks for a hash, under the locks of its stripes, or to be validated.
    pub(super) fn find(
        &self,
        block: Block,
        bucket: usize,
        hash: u64,
        wanted: &impl Wanted,
    ) -> Option<Slot> {
        let line = self.bucket_line(block, bucket);
        let is_away = self.shadows.get(block).may_be_away(bucket, self.geometry.bits);
        if is_away {
            // While the first line is on its way.
            self.prefetch_behind(block, bucket);
        }
        if let Some(at) = slot_of(self.medium.line(line), hash, wanted) {
            return Some(Slot { bucket, line, at });
        }
        if is_away { self.find_away(block, bucket, hash, wanted) } else { None }
    }

    /// Asks for what a search for a hash reads first.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        let block = self.hints.get(hash);
        self.medium.line(self.bucket_line(block, self.geometry.bucket(hash))).prefetch_many();
        crate::arch::prefetch(self.shadows.get(block));
    }

    /// A value that the bucket of a hash seems to have for it. Nothing is validated: good for asking for lines.
    #[inline(always)]
    pub(super) fn guess(&self, hash: u64) -> Option<u64> {
        let block = self.hints.get(hash);
        let home = self.medium.line(self.bucket_line(block, self.geometry.bucket(hash)));
        slot_of(home, hash, &Only).map(|at| home.load(SLOTS + at, Relaxed))
    }

    #[track_caller]
    pub(super) fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) {
        assert_eq!(keys.len(), values.len(), "as many places as keys");
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            let mut hashes = [0; BATCH];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.spelling.hash(*key);
                self.prefetch(*hash);
            }
            // Those that may be behind their own buckets, whose lines come while the others are looked at.
            let mut late = 0;
            for (i, (value, hash)) in values.iter_mut().zip(hashes).enumerate() {
                match self.get_at_home(hash, &Only) {
                    ControlFlow::Break(found) => *value = found,
                    ControlFlow::Continue(block) => {
                        self.prefetch_behind(block, self.geometry.bucket(hash));
                        late |= 1 << i;
                    }
                }
            }
            for i in Bits(late) {
                values[i] = self.get_around(hashes[i], &Only);
            }
        }
    }
}

/// The slot of a line that has this hash and is wanted. Without a lock, what it says is to be validated.
#[inline(always)]
pub(super) fn slot_of(line: LineRef<'_>, hash: u64, wanted: &impl Wanted) -> Option<usize> {
    let mut slots = line.matching_low(hash, !0);
    while slots != 0 {
        let at = slots.trailing_zeros() as usize;
        // Relaxed: validated by the versions, or read under a lock.
        if wanted.is(line.load(SLOTS + at, Relaxed)) {
            return Some(at);
        }
        slots &= slots - 1;
    }
    None
}
