//! What the table's segments can be asked, by one or by many at a time.

use core::ops::Range;
use core::ptr;

use super::layout::{FREE, GONE, SLOTS};
use super::raw::Bucket;
use crate::arch::prefetch;
use crate::directory::{self, BLOCK_BUCKETS, Bucket as _, Spelling};
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

/// The segments by the hashes that they have.
pub(super) type Names = directory::Names<Bucket>;

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
    /// Looks for a hash of a large table in its home, and asks for the next line if that does not tell.
    #[inline(always)]
    pub(super) fn look(&self, hash: u64, version: &Version) -> Look {
        let seen = version.begin();
        if let Some(slot) = self.likely(hash) {
            return match self.value_told(slot, hash) {
                Some(value) if version.end(seen).is_some() => Look::Value(value),
                _ => Look::Unknown,
            };
        }
        if !self.is_passed(hash, Spelling::told::<Self>().mask) {
            return Look::Absent;
        }
        self.ask_next();
        Look::Unknown
    }

    /// Asks for the lines behind it.
    #[inline(always)]
    pub(super) fn ask_next(&self) {
        prefetch(core::ptr::from_ref(self).wrapping_add(1));
        prefetch(core::ptr::from_ref(self).wrapping_add(2));
    }

    /// The slot with a word.
    #[inline(always)]
    fn slot(&self, word: u64, mask: u64) -> Option<usize> {
        let found = self.matches(word, mask);
        (found != 0).then(|| found.trailing_zeros() as usize)
    }
}

impl Home<'_> {
    /// Looks for the hash in the line that was asked for, and asks for the next line if that does not tell.
    #[inline(always)]
    pub(super) fn look(&self) -> Look {
        let seen = self.version.begin();
        let bucket = self.bucket;
        if let Some(slot) = bucket.slot(self.word, self.mask) {
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
        let (bucket, version) = self.home_of(home);
        prefetch(bucket);
        let spelling = self.spelling(home);
        Home { bucket, version, word: spelling.word(hash), mask: spelling.mask }
    }

    /// How a bucket writes hashes; in a large table with a branch fewer loads.
    #[inline(always)]
    fn spelling(&self, bucket: usize) -> Spelling {
        self.geometry.spelling::<Bucket>(bucket)
    }

    /// Finds the value of a hash. No lock is taken, and nothing waited for.
    ///
    /// An entry does not move, so that it was not met says that it was absent at some moment. A slot is used again after the
    /// version of the home has changed.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<Word> {
        if !self.geometry.tells() {
            return self.find_again(hash);
        }
        // Most are in their home.
        let (bucket, version) = self.home_of(self.geometry.home(hash));
        let seen = version.begin();
        if let Some(slot) = bucket.likely(hash) {
            let value = bucket.value_told(slot, hash);
            return if version.end(seen).is_some() && value.is_some() {
                value
            } else {
                self.find_again(hash)
            };
        }
        if bucket.is_passed(hash, Spelling::told::<Bucket>().mask) {
            self.find_behind(hash)
        } else {
            None
        }
    }

    /// Finds the value of a hash of which its home did not tell: mostly it is in one of the next buckets.
    #[inline(always)]
    pub(super) fn find_late(&self, hash: u64) -> Option<Word> {
        if !self.geometry.tells() {
            return self.find_again(hash);
        }
        let home = self.geometry.home(hash);
        let version = self.home_of(home).1;
        let seen = version.begin();
        // Those of the home's block: their version is the home's.
        let end = self.buckets().min((home / BLOCK_BUCKETS + 1) * BLOCK_BUCKETS);
        for at in home + 1..end {
            let bucket = self.bucket(at);
            if let Some(slot) = bucket.likely(hash) {
                match bucket.value_told(slot, hash) {
                    Some(value) if version.end(seen).is_some() => return Some(value),
                    _ => break,
                }
            }
            if !bucket.is_passed(hash, Spelling::told::<Bucket>().mask) {
                break;
            }
        }
        // Also if it was not found: it was the version, maybe, that was not what it had been.
        self.find_again(hash)
    }

    /// The same for a hash that went past its home.
    #[inline(never)]
    fn find_behind(&self, hash: u64) -> Option<Word> {
        let home = self.geometry.home(hash);
        let version = self.home_of(home).1;
        let seen = version.begin();
        let value = self.value_from(hash, self.geometry.window(home).skip(1))?;
        if version.end(seen).is_some() { Some(value) } else { self.find_again(hash) }
    }

    /// The same in a small table, or when a writer was met, or half a word did not tell: a call more, so that the search of a large
    /// one is short enough to be inlined.
    #[inline(never)]
    fn find_again(&self, hash: u64) -> Option<Word> {
        let home = self.geometry.home(hash);
        let version = self.home_of(home).1;
        loop {
            let seen = version.begin();
            let value = self.value_from(hash, self.geometry.window(home))?;
            if version.end(seen).is_some() {
                return Some(value);
            }
        }
    }

    #[inline(always)]
    fn value_from(&self, hash: u64, window: impl Iterator<Item = usize>) -> Option<Word> {
        for at in window {
            let (bucket, spelling) = (self.bucket(at), self.spelling(at));
            if let Some(slot) = bucket.slot(spelling.word(hash), spelling.mask) {
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
        self.place(held, hash, |bucket, spelling| bucket.slot(spelling.word(hash), spelling.mask))
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
        let places = self.geometry.places();
        (0..self.buckets()).flat_map(move |at| self.entries_in(at, places))
    }

    /// Those of a bucket.
    #[inline(always)]
    fn entries_in(&self, at: usize, places: u64) -> impl Iterator<Item = (u64, Word)> {
        let (bucket, mask) = (self.bucket(at), self.spelling(at).mask);
        let absent = bucket.matches(FREE, Spelling::WHOLE) | bucket.matches(GONE, mask);
        let hash = self.geometry.hashes::<Bucket>(at, places);
        let mut left = !absent & ((1 << SLOTS) - 1);
        core::iter::from_fn(move || {
            let slot = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (slot < SLOTS).then(|| (hash(bucket.word(slot)), bucket.value(slot)))
        })
    }
}

/// Words and places of entries tell their hashes.
pub(super) struct Told;

/// Buckets that are read at a time for a copy, and how many entries they have at most.
const READ_BUCKETS: usize = 32;
const READ_ENTRIES: usize = READ_BUCKETS * SLOTS;

impl directory::Entries<Bucket> for Told {
    #[inline(always)]
    fn each(
        &self,
        of: &Segment,
        buckets: Range<usize>,
        mut each: impl FnMut(u64, Word) -> bool,
    ) -> bool {
        // Here, the compiler knows that it does not change.
        let (geometry, places) = (of.geometry, of.geometry.places());
        let mut read = [(0, ptr::null_mut()); READ_ENTRIES];
        for first in buckets.clone().step_by(READ_BUCKETS) {
            // Nobody can guess how many slots of a bucket are taken, so nothing is left to a guess: what is in a slot that is free or
            // gone, whose words are below all others, is read, too, and overwritten.
            let mut count = 0;
            for at in first..buckets.end.min(first + READ_BUCKETS) {
                let (bucket, mask) = (of.bucket(at), geometry.spelling::<Bucket>(at).mask);
                prefetch(ptr::from_ref(bucket).wrapping_add(READ_BUCKETS));
                let hash = geometry.hashes::<Bucket>(at, places);
                for slot in 0..SLOTS {
                    let word = bucket.word(slot);
                    read[count % READ_ENTRIES] = (hash(word), bucket.value(slot));
                    count += usize::from(word & mask > GONE);
                }
            }
            if !read[..count].iter().all(|(hash, value)| each(*hash, *value)) {
                return false;
            }
        }
        true
    }
}

impl directory::Names<Bucket> {
    /// Where a hash is looked for first, a line which is asked for.
    #[inline(always)]
    pub(super) fn home<'g>(&self, hash: u64, guard: &'g Guard) -> Home<'g> {
        self.segment(hash, guard).home(hash)
    }
}
