//! Copies of segments: larger ones, two for one, smaller ones.
//!
//! Readers go on in the old segment, which nobody changes any more; its writers wait. What a reader finds there was true when
//! the copy was named, or it began before that: it read the names before, and the names were right until then.

use super::layout::Part;
use super::raw::Bucket;
use super::{Directory, Garbage, Geometry, Names, Segment};
use crate::mem::AllocError;
use crate::sync::epoch::Guard;
use crate::sync::shared::{Owned, Shared};

impl<B: Bucket> Directory<B> {
    /// The size of a segment that takes the place of a frozen one that has no room for some hash.
    pub(crate) fn roomier(full: &Segment<B>) -> Geometry {
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
    pub(crate) fn smaller(large: &Segment<B>) -> Option<Geometry> {
        let geometry = Geometry::with_room_for::<B>(large.counts().entries, large.geometry.part);
        (geometry.buckets() * 2 <= large.geometry.buckets()).then_some(geometry)
    }

    /// Replaces a frozen segment of this hash by one of a geometry, or by two. `entries` are all of its entries.
    ///
    /// # Errors
    ///
    /// If there is no memory; the segment is as it was, and frozen.
    pub(crate) fn replace<I: Iterator<Item = (u64, B::Entry)>>(
        &self,
        guard: &Guard,
        hash: u64,
        geometry: Geometry,
        entries: impl Fn() -> I,
        mut garbage: impl FnMut(Garbage<B>),
    ) -> Result<(), AllocError> {
        let names = self.names.get(guard).expect("there is a segment");
        let halves = geometry.is_too_large::<B>() && names.may_split(geometry);
        let new = if halves {
            let of_part = |part: Part| {
                let entries = &entries;
                move || entries().filter(move |entry| part.has(entry.0))
            };
            let [low, high] = geometry.part.halves();
            let mut left = self.copy(of_part(low), low)?;
            match self.copy(of_part(high), high) {
                Ok(right) => vec![left, right],
                Err(error) => {
                    left.give_back(&self.blocks);
                    return Err(error);
                }
            }
        } else {
            vec![self.fill(&entries, geometry)?]
        };
        let _held = self.structure.lock();
        let mut names = self.names.get(guard).expect("there is a segment");
        if new.len() > 1 {
            if names.is_short(geometry.part.bits + 1) {
                let more: Owned<Names<B>> = Owned::new(names.doubled());
                self.names.replace(more).map(Garbage::Names).map(&mut garbage);
                names = self.names.get(guard).expect("just stored");
            }
            names.count_more();
        }
        let retired = names.place(hash).retire();
        for segment in new {
            names.name(segment.geometry.part, &Shared::new(Owned::new(segment)));
        }
        retired.map(Garbage::Segment).map(garbage);
        Ok(())
    }

    /// Makes a segment of entries.
    fn copy<I: Iterator<Item = (u64, B::Entry)>>(
        &self,
        entries: impl Fn() -> I,
        part: Part,
    ) -> Result<Segment<B>, AllocError> {
        let geometry = Geometry::with_room_for::<B>(entries().count(), part);
        self.fill(entries, geometry)
    }

    /// Makes a segment of a geometry, or of a wider one if entries collide too often.
    fn fill<I: Iterator<Item = (u64, B::Entry)>>(
        &self,
        entries: impl Fn() -> I,
        mut geometry: Geometry,
    ) -> Result<Segment<B>, AllocError> {
        loop {
            let mut segment = Segment::new(&self.blocks, geometry)?;
            let mut added = 0;
            let has_room = entries().all(|entry| {
                added += 1;
                segment.add(entry)
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
