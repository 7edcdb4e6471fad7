//! Records that were found or written lately, found again without the directory.
//!
//! What was written is often what is asked for next. In a large map the line of a key's bucket is one of many thousands, each on a page
//! of its own; the slots here are on few pages, which stay in the cache, and so are records that were written one after another.
//!
//! ```text
//! slot   +-------------------+---------------------+
//!        | hash, upper half  | number of a record  |     0 if it names none
//!        +-------------------+---------------------+
//! ```
//!
//! The lower bits of a hash say which slot is its own. Who comes last has the slot. Only who has the map for himself goes by slots, and
//! puts there what he has found; all who write keep them right. Others may ask for lines by them, of addresses that are good for ever.
//!
//! # Invariants
//!
//! * **O4** A slot names a live record whose key has this hash, unless its writer is at work. He holds the key's buckets, and takes the
//!   name away when the record is *gone*, or puts that of its successor there.
//!
//! So who has the map for himself finds a live record or none. `check` tests it on a map at rest, as the histories and scenes of
//! `BytesMap` leave it; there are two slots then.

use std::sync::OnceLock;

use super::raw::Number;
use crate::sync::shim::{AtomicU64, Ordering::Relaxed};

/// Whether sizes are such that short tests reach everything.
const SMALL: bool = cfg!(any(test, shuttle, small_leaves, miri));

/// How many slots there are: 128 KB of them.
///
/// Of what was written a thousand writes ago one in 16 has lost its slot, and with half as many one in eight. More slots are more
/// lines that push others out of the second-level cache.
const SLOTS: usize = if SMALL { 2 } else { 1 << 14 };

/// Entries from which a map has slots, so that they are a byte an entry at most. The directory of a small map stays in the cache.
const FROM_ENTRIES: usize = if SMALL { 1 } else { 1 << 17 };

/// Slots for records that were found or written lately; see the module.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Whether there are to be any.
    pub(super) is_kept: bool,
    /// Relaxed accesses only: who reads them has the map for himself, and so comes behind all who wrote.
    slots: OnceLock<Box<[AtomicU64; SLOTS]>>,
}

#[inline(always)]
fn word(hash: u64, number: Number) -> u64 {
    hash >> 32 << 32 | u64::from(number)
}

impl Recent {
    /// Makes slots for a map of as many entries, if there are to be any, and if there is memory for that.
    pub(super) fn grow(&self, entries: impl FnOnce() -> usize) {
        if !self.is_kept || self.slots.get().is_some() || entries() < FROM_ENTRIES {
            return;
        }
        #[cfg(test)]
        if crate::mem::failing::fails_now() {
            return;
        }
        let mut slots = Vec::new();
        if slots.try_reserve_exact(SLOTS).is_ok() {
            slots.resize_with(SLOTS, AtomicU64::default);
            // Others may have been first.
            let _ = slots.into_boxed_slice().try_into().map(|slots| self.slots.set(slots));
        }
    }

    #[inline(always)]
    fn slot(&self, hash: u64) -> Option<&AtomicU64> {
        Some(&self.slots.get()?[hash as usize % SLOTS])
    }

    /// The number of the record of a hash, if a slot names it; to be looked at by who has the map for himself.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<Number> {
        // Relaxed: see above.
        let found = self.slot(hash)?.load(Relaxed);
        let number = found as Number;
        // No record has the number 0.
        (number != 0 && found == word(hash, number)).then_some(number)
    }

    /// Names a record that is live. The caller holds its key's buckets, or has the map for himself.
    #[inline(always)]
    pub(super) fn put(&self, hash: u64, number: Number) {
        if let Some(slot) = self.slot(hash) {
            // Relaxed: see above.
            slot.store(word(hash, number), Relaxed);
        }
    }

    /// Forgets a record that is gone. The caller holds its key's buckets.
    pub(super) fn forget(&self, hash: u64, number: Number) {
        if let Some(slot) = self.slot(hash) {
            // Relaxed: see above. What another puts there meanwhile is lost, and found by the directory.
            if slot.load(Relaxed) == word(hash, number) {
                slot.store(0, Relaxed);
            }
        }
    }

    /// What is named, by the numbers of the slots.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let slots = self.slots.get().into_iter().flat_map(|slots| slots.iter().enumerate());
        // Relaxed: see above.
        slots.map(|(at, slot)| (at, slot.load(Relaxed))).filter(|(_, word)| *word != 0)
    }

    /// Whether a slot may have this word for a record with this hash.
    pub(super) fn fits((at, found): (usize, u64), hash: u64) -> bool {
        hash as usize % SLOTS == at && found == word(hash, found as Number)
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.get().map_or(0, |slots| size_of_val(&**slots))
    }
}
