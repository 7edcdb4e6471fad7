//! Copies of segments: larger ones, two for one, smaller ones.
//!
//! Readers go on in the old segment, which nobody changes any more; its writers wait. What a reader finds there was true when
//! the copy was named, or it began before that: it read the names before, and the names were right until then.

use super::raw::Bucket;
use super::{Directory, Garbage, Geometry, Names, Segment};
use crate::mem::AllocError;
use crate::sync::backoff::Backoff;
use crate::sync::epoch::Guard;
use crate::sync::shared::{Owned, Shared};

impl<B: Bucket> Directory<B> {
    /// Makes room for a hash whose segment is full, or waits until somebody has. `entries` adds all entries of a segment to which
    /// nobody writes to a list that has room for them.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    pub(crate) fn make_room(
        &self,
        guard: &Guard,
        full: &Segment<B>,
        entries: impl FnOnce(&mut Vec<(u64, B::Entry)>),
        garbage: impl FnMut(Garbage<B>),
    ) -> Result<(), AllocError> {
        if full.freeze() {
            self.replace(guard, full, Self::roomier(full), entries, garbage)
        } else {
            Backoff::new().wait();
            Ok(())
        }
    }

    /// Makes a segment smaller that has few entries left, if there is memory for that.
    pub(crate) fn make_smaller(
        &self,
        guard: &Guard,
        large: &Segment<B>,
        entries: impl FnOnce(&mut Vec<(u64, B::Entry)>),
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
    fn replace(
        &self,
        guard: &Guard,
        old: &Segment<B>,
        geometry: Geometry,
        entries: impl FnOnce(&mut Vec<(u64, B::Entry)>),
        mut garbage: impl FnMut(Garbage<B>),
    ) -> Result<(), AllocError> {
        let new = self.successors(guard, old, geometry, entries).inspect_err(|_| old.thaw())?;
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
        for segment in new {
            names.name(segment.geometry.part, &Shared::new(Owned::new(segment)));
        }
        retired.map(Garbage::Segment).map(garbage);
        Ok(())
    }

    /// Makes what takes the place of a frozen segment.
    fn successors(
        &self,
        guard: &Guard,
        old: &Segment<B>,
        geometry: Geometry,
        entries: impl FnOnce(&mut Vec<(u64, B::Entry)>),
    ) -> Result<Vec<Segment<B>>, AllocError> {
        let (mut all, count) = (Vec::new(), old.counts().entries);
        let no_memory = |_| AllocError { bytes: count * size_of::<(u64, B::Entry)>() };
        all.try_reserve_exact(count).map_err(no_memory)?;
        entries(&mut all);
        let names = self.names.get(guard).expect("there is a segment");
        if !(geometry.is_too_large::<B>() && names.may_split(geometry)) {
            return Ok(vec![self.fill(&all, geometry)?]);
        }
        let mut new: Vec<Segment<B>> = Vec::with_capacity(2);
        for part in geometry.part.halves() {
            let of_part = all.iter().filter(|entry| part.has(entry.0)).count();
            match self.fill(&all, Geometry::with_room_for::<B>(of_part, part)) {
                Ok(half) => new.push(half),
                Err(error) => {
                    for half in &mut new {
                        half.give_back(&self.blocks);
                    }
                    return Err(error);
                }
            }
        }
        Ok(new)
    }

    /// Makes a segment of those entries that are of a geometry's part, or of a wider one if they collide too often.
    fn fill(
        &self,
        entries: &[(u64, B::Entry)],
        mut geometry: Geometry,
    ) -> Result<Segment<B>, AllocError> {
        loop {
            let mut segment = Segment::new(&self.blocks, geometry)?;
            let mut added = 0;
            let mut of_part = entries.iter().filter(|entry| geometry.part.has(entry.0));
            let has_room = of_part.all(|entry| {
                added += 1;
                segment.add(*entry)
            });
            if has_room {
                segment.count(added);
                return Ok(segment);
            }
            segment.give_back(&self.blocks);
            geometry = geometry.widened::<B>();
        }
    }
}
