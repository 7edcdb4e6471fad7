//! Copies of segments: larger ones, two for one, smaller ones.
//!
//! Readers go on in the old segment, which nobody changes any more. What a reader finds there was true when the copy was named, or
//! it began before that: it read the names before, and the names were right until then.
//!
//! Its writers cannot go on. Each of them comes there within as many calls as there are segments, long before a copy is made, so all
//! threads would wait for the one that copies. They copy others meanwhile, which will be full soon: as many are copied at a time as
//! there are threads.

use core::ops::Range;

use super::raw::Bucket;
use super::segment::Filling;
use super::{Directory, Garbage, Geometry, Names, Segment};
use crate::mem::AllocError;
use crate::sync::backoff::Backoff;
use crate::sync::epoch::Guard;
use crate::sync::shared::{Owned, Shared};

/// Who knows the hashes of entries.
pub(crate) trait Entries<B: Bucket> {
    /// Goes through all entries of some buckets of a segment to which nobody writes, as long as `each` returns true; tells whether it
    /// always did.
    ///
    /// Not an iterator: this is one loop in another, and as such it is compiled.
    fn each(
        &self,
        of: &Segment<B>,
        buckets: Range<usize>,
        each: impl FnMut(u64, B::Entry) -> bool,
    ) -> bool;
}

impl<B: Bucket> Directory<B> {
    /// Makes room for a hash whose segment is full, or does as [`wait_for`](Self::wait_for) if somebody is at it.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    pub(crate) fn make_room<'g>(
        &self,
        guard: &'g Guard,
        (full, backoff): (&'g Segment<B>, &mut Backoff),
        entries: &impl Entries<B>,
        garbage: impl FnMut(Garbage<B>),
    ) -> Result<(), AllocError> {
        if full.freeze() {
            self.replace(guard, full, Self::roomier(full), entries, garbage)
        } else {
            self.wait_for(guard, (full, backoff), entries, garbage);
            Ok(())
        }
    }

    /// What a writer does while somebody copies its segment: it copies another one that will be full soon, or waits, if there is none or
    /// it has done so before: no call makes more than two copies. Arguments are those of [`make_room`](Self::make_room).
    pub(crate) fn wait_for<'g>(
        &self,
        guard: &'g Guard,
        (frozen, backoff): (&'g Segment<B>, &mut Backoff),
        entries: &impl Entries<B>,
        garbage: impl FnMut(Garbage<B>),
    ) {
        let behind = frozen.geometry.part;
        let other = self.names.get(guard).filter(|_| backoff.is_fresh()).and_then(|names| {
            names.all_behind(behind, guard).find(|other| other.is_full_soon() && other.freeze())
        });
        let Some(other) = other else { return backoff.wait() };
        backoff.has_waited();
        let geometry = Geometry::with_room_for::<B>(other.counts().entries, other.geometry.part);
        // Without memory it stays as it is, for now.
        let _ = self.replace(guard, other, geometry, entries, garbage);
    }

    /// Makes a segment smaller that has few entries left, if there is memory for that.
    pub(crate) fn make_smaller<'g>(
        &self,
        guard: &'g Guard,
        large: &'g Segment<B>,
        entries: &impl Entries<B>,
        garbage: impl FnMut(Garbage<B>),
    ) {
        if let Some(geometry) = Self::smaller(large)
            && large.freeze()
        {
            let _ = self.replace(guard, large, geometry, entries, garbage);
        }
    }

    /// The size of a segment that takes the place of a frozen one that has no room for some hash.
    fn roomier(full: &Segment<B>) -> Geometry {
        let (entries, geometry) = (full.counts().entries, full.geometry);
        if full.is_full() {
            Geometry::with_room_for::<B>(entries, geometry.part)
        } else if entries * 4 < geometry.buckets() * B::SLOTS {
            // Hashes that were chosen to collide fill a window long before the segment.
            geometry.widened::<B>()
        } else {
            geometry.larger::<B>()
        }
    }

    /// The size of a segment that takes the place of one with few entries, if it is much smaller.
    fn smaller(large: &Segment<B>) -> Option<Geometry> {
        let geometry = Geometry::with_room_for::<B>(large.counts().entries, large.geometry.part);
        (geometry.buckets() * 2 <= large.geometry.buckets()).then_some(geometry)
    }

    /// Replaces a frozen segment by one of a geometry or by two, or thaws it if there is no memory.
    fn replace<'g>(
        &self,
        guard: &'g Guard,
        old: &'g Segment<B>,
        geometry: Geometry,
        entries: &impl Entries<B>,
        mut garbage: impl FnMut(Garbage<B>),
    ) -> Result<(), AllocError> {
        let names = self.names.get(guard).expect("there is a segment");
        let sizes = if geometry.blocks() > names.most_blocks() && names.may_split(geometry) {
            Self::halves(old).to_vec()
        } else {
            vec![geometry]
        };
        let new = self.copies(sizes, old, entries).inspect_err(|_| old.thaw())?;
        let part = geometry.part;
        let _held = self.structure.lock();
        let mut names = self.names.get(guard).expect("there is a segment");
        if new.len() > 1 {
            if names.is_short(part.bits + 1) {
                let more: Owned<Names<B>> = Owned::new(names.doubled());
                self.names.replace(more).map(Garbage::Names).map(&mut garbage);
                names = self.names.get(guard).expect("just stored");
            }
            names.count_more();
        }
        let retired = names.place(part.first()).retire();
        let parts: Vec<_> = new.iter().map(|segment| segment.geometry.part).collect();
        for (segment, part) in new.into_iter().zip(&parts) {
            names.name(*part, &Shared::new(Owned::new(segment)));
        }
        // Only now: what is removed from the copies is freed when those who are pinned are gone, and whoever comes must not find
        // the old segment any more.
        for part in parts {
            names.place(part.first()).get(guard).expect("S2").thaw();
        }
        retired.map(Garbage::Segment).map(garbage);
        Ok(())
    }

    /// The sizes of two segments in the place of one.
    fn halves(old: &Segment<B>) -> [Geometry; 2] {
        // Homes ascend as hashes do, so the lower half of the entries is in the lower half of the buckets, but for a few.
        let middle = old.buckets() / 2;
        let entries = |buckets: Range<usize>| old.counted_in(buckets).entries;
        let [lower, upper] = old.geometry.part.halves();
        let lower = Geometry::with_room_for::<B>(entries(0..middle), lower);
        let upper = Geometry::with_room_for::<B>(entries(middle..old.buckets()), upper);
        [lower, upper]
    }

    /// Makes segments of these sizes, one or two, with all entries of an old one; wider ones if they collide too often.
    fn copies(
        &self,
        mut sizes: Vec<Geometry>,
        old: &Segment<B>,
        entries: &impl Entries<B>,
    ) -> Result<Vec<Segment<B>>, AllocError> {
        loop {
            let new = self.segments(sizes.iter().copied())?;
            let mut new: Vec<_> = new.into_iter().map(Filling::new).collect();
            let full = new.iter_mut().position(|new| !new.add_all(old, entries));
            let new = new.into_iter().map(Filling::done).collect();
            let Some(full) = full else { return Ok(new) };
            self.discard(new);
            sizes[full] = sizes[full].widened::<B>();
        }
    }
}
