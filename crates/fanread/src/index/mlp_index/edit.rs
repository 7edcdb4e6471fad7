//! Reading several buckets as of one instant, and changing several at once.
//!
//! A search looks at buckets through a [`View`]. A [`Trail`] only remembers the versions it has seen; an [`Edit`] keeps the
//! images too, lets them be changed, and puts the changes into effect all at once or not at all. So whatever is done to the
//! trie is written as if nobody else were there.
//!
//! `commit` locks the buckets that were changed, none of which it waits for, and then makes sure that those it only read
//! are as they were and that nobody else has locked them: of two edits of which each has read what the other changes, at
//! least one gives up. It announces all its changes before it makes one, so a reader that has seen one bucket after and
//! another before the edit finds the latter changed when it compares versions.
//!
//! # Invariants
//!
//! * **E1** Every image of an edit that was not changed is that of the bucket at the version that was seen.
//! * **E2** Nothing waits while it holds a lock of a bucket.
//!
//! The loom models of `sync::version` and the shuttle scenes of the suites run these protocols.

use core::sync::atomic::Ordering::SeqCst;

use super::layout::{Entry, Image, UNITS};
use super::raw::{Bucket, Segment};
use crate::mem::word::Word;
use crate::sync::shim;
use crate::sync::version::{Locked, Seen};

/// Something was changed meanwhile: begin again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Again;

/// How a search looks at buckets.
pub(super) trait View<'g> {
    /// What `bucket` holds.
    ///
    /// # Errors
    ///
    /// If its segment was replaced.
    fn image(&mut self, bucket: &'g Bucket) -> Result<Image, Again>;
}

/// Buckets that a reader's answer rests on. More than a search of the deepest trie reads: nine levels, twice, and the
/// way down to a neighbour.
const TRAIL: usize = 64;

/// The versions a reader has seen, of `N` buckets at most.
#[derive(Debug)]
pub(super) struct Trail<'g, const N: usize = TRAIL> {
    seen: [Option<(&'g Bucket, Seen)>; N],
    len: usize,
}

impl<const N: usize> Trail<'_, N> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { seen: [None; N], len: 0 }
    }

    /// Whether all that was read was so at one instant: now.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.seen[..self.len]
            .iter()
            .flatten()
            .all(|(bucket, seen)| bucket.version.end(*seen).is_some_and(|now| !now.is_dead()))
    }
}

impl<'g, const N: usize> View<'g> for Trail<'g, N> {
    #[inline(always)]
    fn image(&mut self, bucket: &'g Bucket) -> Result<Image, Again> {
        let (image, seen) = bucket.read();
        if seen.is_dead() || self.len == N {
            return Err(Again);
        }
        self.seen[self.len] = Some((bucket, seen));
        self.len += 1;
        Ok(image)
    }
}

/// A bucket in an edit.
#[derive(Debug)]
struct Page<'g> {
    bucket: &'g Bucket,
    seen: Seen,
    image: Image,
    /// The segment, of a bucket that was changed, and how many slots were in use before.
    changed: Option<(&'g Segment, usize)>,
    lock: Option<Locked<'g>>,
}

/// A change in the making.
#[derive(Debug)]
pub(super) struct Edit<'g> {
    pages: Vec<Page<'g>>,
    has_values: bool,
}

impl<'g> View<'g> for Edit<'g> {
    #[inline]
    fn image(&mut self, bucket: &'g Bucket) -> Result<Image, Again> {
        let at = self.page(bucket)?;
        Ok(self.pages[at].image)
    }
}

impl<'g> Edit<'g> {
    #[inline]
    pub(super) fn new(has_values: bool) -> Self {
        Self { pages: Vec::with_capacity(8), has_values }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.pages.clear();
    }

    #[inline]
    fn page(&mut self, bucket: &'g Bucket) -> Result<usize, Again> {
        if let Some(at) = self.pages.iter().position(|page| core::ptr::eq(page.bucket, bucket)) {
            return Ok(at);
        }
        let (image, seen) = bucket.read();
        if seen.is_dead() {
            return Err(Again);
        }
        self.pages.push(Page { bucket, seen, image, changed: None, lock: None });
        Ok(self.pages.len() - 1)
    }

    /// The image of a bucket of `segment`, to be changed.
    fn change(&mut self, segment: &'g Segment, bucket: &'g Bucket) -> Result<&mut Image, Again> {
        let at = self.page(bucket)?;
        let page = &mut self.pages[at];
        if page.changed.is_none() {
            page.changed = Some((segment, page.image.kinds.used()));
        }
        Ok(&mut page.image)
    }

    /// Puts an entry into a bucket, if it has room; tells whether it had.
    ///
    /// # Errors
    ///
    /// If the bucket's segment was replaced.
    pub(super) fn add(
        &mut self,
        segment: &'g Segment,
        bucket: &'g Bucket,
        entry: &Entry,
    ) -> Result<bool, Again> {
        let has_values = self.has_values;
        let at = self.page(bucket)?;
        if self.pages[at].image.free() < entry.slots(has_values) {
            return Ok(false);
        }
        self.change(segment, bucket)?.add(entry, has_values);
        Ok(true)
    }

    /// Changes the value of the leaf in a slot of a bucket.
    ///
    /// # Errors
    ///
    /// If the bucket's segment was replaced.
    pub(super) fn set_value(
        &mut self,
        segment: &'g Segment,
        bucket: &'g Bucket,
        slot: usize,
        value: Word,
    ) -> Result<(), Again> {
        self.change(segment, bucket)?.slots[slot % UNITS + UNITS] = value;
        Ok(())
    }

    /// Takes the entry that begins in a slot out of a bucket and returns it.
    ///
    /// # Errors
    ///
    /// If the bucket's segment was replaced.
    pub(super) fn take(
        &mut self,
        segment: &'g Segment,
        bucket: &'g Bucket,
        slot: usize,
    ) -> Result<Entry, Again> {
        let has_values = self.has_values;
        let image = self.change(segment, bucket)?;
        let entry = image.entry(slot, has_values);
        image.remove(slot, has_values);
        Ok(entry)
    }

    /// Puts the changes into effect.
    ///
    /// # Errors
    ///
    /// If something that was read is no longer so; nothing was changed then.
    pub(super) fn commit(&mut self) -> Result<(), Again> {
        let done = self.try_commit();
        // Unlocks whatever was locked.
        self.pages.clear();
        done
    }

    fn try_commit(&mut self) -> Result<(), Again> {
        for page in self.pages.iter_mut().filter(|page| page.changed.is_some()) {
            let lock = page.bucket.version.try_lock().ok_or(Again)?;
            let now = lock.seen();
            let same = now.same_changes(page.seen) && !now.is_dead();
            page.lock = Some(lock);
            if !same {
                return Err(Again);
            }
        }
        // ORDER: SeqCst fence between our locks and the loads below. Of two edits that do this, one at least sees the
        // other's lock.
        shim::fence(SeqCst);
        for page in self.pages.iter().filter(|page| page.changed.is_none()) {
            let now = page.bucket.version.end(page.seen).ok_or(Again)?;
            if now.is_locked() || now.is_dead() {
                return Err(Again);
            }
        }
        // E1 holds for all pages at this instant, and for those locked until they are unlocked.
        for lock in self.pages.iter_mut().filter_map(|page| page.lock.as_mut()) {
            lock.begin_change();
        }
        for page in &self.pages {
            if let Some((segment, used)) = page.changed {
                page.bucket.store(&page.image);
                segment.count(page.image.kinds.used().cast_signed() - used.cast_signed());
            }
        }
        for lock in self.pages.iter_mut().filter_map(|page| page.lock.as_mut()) {
            lock.end_change();
        }
        Ok(())
    }
}
