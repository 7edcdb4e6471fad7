//! What the table's segments can be asked, by one or by many at a time.

use super::layout::{FREE, GONE, SLOTS};
use super::raw::Bucket;
use crate::arch::prefetch;
use crate::directory;
use crate::mem::word::Word;

/// The table: whole hashes with values.
pub(super) type Table = directory::Directory<Bucket>;
/// A part of it.
pub(super) type Segment = directory::Segment<Bucket>;

/// What one line says of a hash.
enum Look {
    Value(Word),
    Absent,
    Unknown,
}

/// Hashes that are looked for together, after their lines were asked for.
#[derive(Debug)]
pub(super) struct Asked<'g> {
    hashes: [u64; MOST_ASKED],
    segments: [Option<&'g Segment>; MOST_ASKED],
    len: usize,
}

/// Hashes that are looked for together.
///
/// A line each. Fewer leave a long walk waiting; more fetch for nothing at its end.
pub(super) const MOST_ASKED: usize = 24;

impl<'g> Asked<'g> {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { hashes: [0; MOST_ASKED], segments: [None; MOST_ASKED], len: 0 }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Asks for the line of one more.
    #[inline(always)]
    pub(super) fn ask(&mut self, segment: &'g Segment, hash: u64) {
        segment.ask(hash);
        (self.hashes[self.len], self.segments[self.len]) = (hash, Some(segment));
        self.len += 1;
    }

    /// Finds the values of all, and hands each to `found` with its place.
    ///
    /// Few need another line than the first. These are asked for while the others are looked at.
    #[inline(always)]
    pub(super) fn resolve(&self, mut found: impl FnMut(usize, Option<Word>)) {
        let mut late = 0_u32;
        let all = self.hashes.iter().zip(&self.segments).take(self.len);
        for (i, (hash, segment)) in all.enumerate() {
            match segment.map_or(Look::Absent, |segment| segment.look(*hash)) {
                Look::Value(word) => found(i, Some(word)),
                Look::Absent => found(i, None),
                Look::Unknown => late |= 1 << i,
            }
        }
        while late != 0 {
            let i = late.trailing_zeros() as usize;
            late &= late - 1;
            found(i, self.segments[i].and_then(|segment| segment.find(self.hashes[i])));
        }
    }
}

impl Segment {
    /// Looks for a hash in the line that was asked for, and asks for the next line if that does not tell.
    #[inline(always)]
    fn look(&self, hash: u64) -> Look {
        let home = self.geometry.home(hash);
        let version = self.version(home);
        let seen = version.begin();
        let bucket = self.bucket(home);
        let found = bucket.matches(hash ^ self.geometry.filler(home));
        if found != 0 {
            let value = bucket.value(found.trailing_zeros() as usize);
            return if version.end(seen).is_some() { Look::Value(value) } else { Look::Unknown };
        }
        if bucket.matches(FREE) != 0 {
            return Look::Absent;
        }
        prefetch(core::ptr::from_ref(bucket).wrapping_add(1));
        Look::Unknown
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
            let bucket = self.bucket(at);
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
        self.place(held, hash, |bucket, filler| {
            let found = bucket.matches(hash ^ filler);
            (found != 0).then(|| found.trailing_zeros() as usize)
        })
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
            let bucket = self.bucket(at);
            (0..SLOTS).filter_map(move |slot| match bucket.word(slot) {
                FREE | GONE => None,
                word => Some((word ^ self.geometry.filler(at), bucket.value(slot))),
            })
        })
    }
}
