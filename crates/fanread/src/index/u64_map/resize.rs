//! Copies of segments: larger ones, two for one, smaller ones.
//!
//! Readers go on in the old segment, which nobody changes any more; its writers wait. What a reader finds there was true when
//! the copy was named, or it began before that: it read the names before, and the names were right until then.

use super::layout::Geometry;
use super::raw::{Garbage, Owned, Shared};
use super::table::{Names, Segment};
use super::{Pinned, U64Map};
use crate::mem::AllocError;
use crate::sync::backoff::Backoff;
use crate::sync::epoch::Guard;

impl<V> U64Map<V> {
    /// Makes the table of a map that has none.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn make_first(&self, guard: &Guard) -> Result<(), AllocError> {
        let segment = Segment::new(&self.blocks, Geometry::with_room_for(0, 0))?;
        let _held = self.structure.lock();
        if self.names.get(guard).is_none() {
            let names = Names::of(Owned::new(segment));
            self.names.point_to(&Shared::new(Owned::new(names)));
        }
        Ok(())
    }

    /// Makes room for a hash whose segment is full, or waits until somebody has.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    pub(super) fn rebuild(
        &self,
        pinned: &Pinned<'_, V>,
        hash: u64,
        full: &Segment,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        if !full.freeze() {
            Backoff::new().wait();
            return Ok(());
        }
        let (entries, geometry) = (full.counts().entries, full.geometry);
        let geometry = if full.is_full() {
            Geometry::with_room_for(entries, geometry.bits)
        } else if entries * 4 < geometry.slots() {
            // Hashes that were chosen to collide fill a window long before the segment.
            geometry.widened()
        } else {
            geometry.larger()
        };
        self.replace(pinned, hash, full, geometry, garbage).inspect_err(|_| full.thaw())
    }

    /// Makes a segment smaller that has few entries left, if there is memory for that.
    pub(super) fn shrink(
        &self,
        pinned: &Pinned<'_, V>,
        hash: u64,
        large: &Segment,
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let geometry = Geometry::with_room_for(large.counts().entries, large.geometry.bits);
        if geometry.buckets() * 2 > large.geometry.buckets() || !large.freeze() {
            return;
        }
        if self.replace(pinned, hash, large, geometry, garbage).is_err() {
            large.thaw();
        }
    }

    /// Replaces a frozen segment by one of this geometry, or by two.
    fn replace(
        &self,
        pinned: &Pinned<'_, V>,
        hash: u64,
        old: &Segment,
        geometry: Geometry,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        let guard = &pinned.guard;
        let names = self.names.get(guard).expect("there is a segment");
        let halves = geometry.is_too_large() && names.may_split(geometry);
        let new = if halves {
            let bits = geometry.bits + 1;
            let bit = 1 << (64 - bits);
            let entries = |side| {
                let of_side = move |entry: &(u64, _)| entry.0 & bit == side;
                move || old.entries().filter(of_side)
            };
            let mut left = self.copy(entries(0), bits)?;
            match self.copy(entries(bit), bits) {
                Ok(right) => vec![(0, left), (bit, right)],
                Err(error) => {
                    left.memory.give_back(&self.blocks);
                    return Err(error);
                }
            }
        } else {
            vec![(0, self.fill(|| old.entries(), geometry)?)]
        };
        let _held = self.structure.lock();
        let mut names = self.names.get(guard).expect("there is a segment");
        if new.len() > 1 {
            if names.is_short(geometry.bits + 1) {
                let more = Owned::new(names.doubled());
                garbage.extend(self.names.replace(more).map(Garbage::Names));
                names = self.names.get(guard).expect("just stored");
            }
            names.count_more();
        }
        let retired = names.place(hash).retire();
        for (side, segment) in new {
            let bits = segment.geometry.bits;
            let mine = hash >> 1 >> (63 - geometry.bits) << 1 << (63 - geometry.bits);
            names.name(mine | side, bits, &Shared::new(Owned::new(segment)));
        }
        garbage.extend(retired.map(Garbage::Segment));
        Ok(())
    }

    /// Makes a segment of entries.
    fn copy<I: Iterator<Item = (u64, crate::mem::word::Word)>>(
        &self,
        entries: impl Fn() -> I,
        bits: u32,
    ) -> Result<Segment, AllocError> {
        let geometry = Geometry::with_room_for(entries().count(), bits);
        self.fill(entries, geometry)
    }

    /// Makes a segment of a geometry, or of a wider one if entries collide too often.
    fn fill<I: Iterator<Item = (u64, crate::mem::word::Word)>>(
        &self,
        entries: impl Fn() -> I,
        mut geometry: Geometry,
    ) -> Result<Segment, AllocError> {
        loop {
            let mut segment = Segment::new(&self.blocks, geometry)?;
            let mut added = 0;
            if entries().all(|entry| {
                added += 1;
                segment.add(entry)
            }) {
                segment.count(added);
                return Ok(segment);
            }
            segment.memory.give_back(&self.blocks);
            geometry = geometry.widened();
        }
    }
}
