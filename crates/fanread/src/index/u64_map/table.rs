//! What the table's segments can be asked, by one or by many at a time.

use super::layout::{FREE, GONE, SLOTS};
use super::raw::Bucket;
use crate::arch::prefetch;
use crate::directory::{self, Bucket as _, Spelling};
use crate::mem::word::Word;
use crate::sync::epoch::Guard;
use crate::sync::version::Version;

/// The table: whole hashes with values.
pub(super) type Table = directory::Directory<Bucket>;
/// A part of it.
pub(super) type Segment = directory::Segment<Bucket>;

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
    /// What the hash is in this bucket, in the bits of `mask`.
    word: u64,
    mask: u64,
}

impl Bucket {
    /// The slot of a hash.
    #[inline(always)]
    fn slot(&self, hash: u64, spelling: Spelling) -> Option<usize> {
        let found = self.matches(spelling.word(hash), spelling.mask);
        (found != 0).then(|| found.trailing_zeros() as usize)
    }
}

impl Home<'_> {
    /// Looks for the hash in the line that was asked for, and asks for the next line if that does not tell.
    #[inline(always)]
    pub(super) fn look(&self) -> Look {
        let seen = self.version.begin();
        let bucket = self.bucket;
        let is_here = |slot| Spelling::is_same(self.mask, bucket.word(slot), self.word);
        let slot = (0..SLOTS).fold(SLOTS, |at, slot| if is_here(slot) { slot } else { at });
        if slot < SLOTS {
            let value = bucket.value(slot);
            let is_sure = self.version.end(seen).is_some();
            return if is_sure { Look::Value(value) } else { Look::Unknown };
        }
        if !bucket.is_passed(self.word, self.mask) {
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

impl Segment {
    /// Where a hash is looked for first, a line which is asked for.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> Home<'_> {
        let home = self.geometry.home(hash);
        let bucket = self.bucket(home);
        prefetch(bucket);
        let spelling = self.geometry.spelling(home);
        let (word, mask) = (spelling.word(hash), spelling.mask);
        Home { bucket, version: self.version(home), word, mask }
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
        // Most are in their home.
        let (bucket, spelling) = (self.bucket(home), self.geometry.spelling(home));
        if let Some(slot) = bucket.slot(hash, spelling) {
            return Some(bucket.value(slot));
        }
        if !bucket.is_passed(hash, spelling.mask) {
            return None;
        }
        self.value_beyond(hash, home)
    }

    /// The same in the buckets behind the home.
    #[inline(never)]
    fn value_beyond(&self, hash: u64, home: usize) -> Option<Word> {
        for at in self.geometry.window(home).skip(1) {
            let (bucket, spelling) = (self.bucket(at), self.geometry.spelling(at));
            if let Some(slot) = bucket.slot(hash, spelling) {
                return Some(bucket.value(slot));
            }
            if !bucket.is_passed(hash, spelling.mask) {
                return None;
            }
        }
        None
    }

    /// Finds the slot of a hash for a writer, or one for it.
    ///
    /// # Errors
    ///
    /// If another writer is at work where the window goes on.
    #[inline(always)]
    pub(super) fn slot<'g>(
        &'g self,
        held: &mut directory::Held<'g>,
        hash: u64,
    ) -> Result<directory::Place, directory::Again> {
        self.place(held, hash, |bucket, spelling| bucket.slot(hash, spelling))
    }

    /// The value in a slot.
    #[inline(always)]
    pub(super) fn value(&self, at: directory::Slot) -> Word {
        self.bucket(at.bucket).value(at.slot)
    }

    /// Replaces the value in a slot. The caller holds the window.
    #[inline(always)]
    pub(super) fn set_value(&self, at: directory::Slot, value: Word) {
        self.bucket(at.bucket).set_value(at.slot, value);
    }

    /// All entries, if nobody is writing.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Word)> {
        (0..self.buckets()).flat_map(move |at| {
            let (bucket, mask) = (self.bucket(at), self.geometry.spelling(at).mask);
            let absent = bucket.matches(FREE, Spelling::WHOLE) | bucket.matches(GONE, mask);
            let slots = (0..SLOTS).filter(move |slot| absent >> slot & 1 == 0);
            slots.map(move |slot| {
                (self.geometry.hash::<Bucket>(at, bucket.word(slot)), bucket.value(slot))
            })
        })
    }
}

impl directory::Names<Bucket> {
    /// Where a hash is looked for first, a line which is asked for.
    #[inline(always)]
    pub(super) fn home<'g>(&self, hash: u64, guard: &'g Guard) -> Home<'g> {
        self.segment(hash, guard).home(hash)
    }
}
