//! The first segments, and those that grow, are split, and shrink; see `directory`.

use super::U64Map;
use super::raw::Garbage;
use super::table::{Segment, Told};
use crate::mem::AllocError;
use crate::sync::backoff::Backoff;
use crate::sync::epoch::Guard;

/// Buckets of a segment from which a map is worth its own shards for threads: 128 KB.
const SHARDS_FROM_BUCKETS: usize = 2048;

impl<V> U64Map<V> {
    /// Makes the first segments.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    #[cold]
    pub(super) fn make_first(&self, guard: &Guard) -> Result<(), AllocError> {
        self.table.make_first(guard)?;
        if let Some(first) = self.table.segment(0, guard) {
            self.add_shards(first);
        }
        Ok(())
    }

    /// Gives a map that has such a segment its shards.
    fn add_shards(&self, segment: &Segment) {
        if segment.buckets() >= SHARDS_FROM_BUCKETS {
            self.shards.grow();
        }
    }

    /// Makes room for a hash whose segment is full, unless somebody is at it.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    #[cold]
    pub(super) fn rebuild<'g>(
        &self,
        guard: &'g Guard,
        full: (&'g Segment, &mut Backoff),
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        self.add_shards(full.0);
        let retire = |retired| garbage.push(Garbage::Table(retired));
        self.table.make_room(guard, full, &Told, retire)
    }

    /// Waits for who copies a segment, or copies another one.
    #[cold]
    pub(super) fn wait_for<'g>(
        &self,
        guard: &'g Guard,
        frozen: (&'g Segment, &mut Backoff),
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let retire = |retired| garbage.push(Garbage::Table(retired));
        self.table.wait_for(guard, frozen, &Told, retire);
    }

    /// Makes a segment smaller that has few entries left, if there is memory for that.
    pub(super) fn shrink<'g>(
        &self,
        guard: &'g Guard,
        large: &'g Segment,
        garbage: &mut Vec<Garbage<V>>,
    ) {
        let retire = |retired| garbage.push(Garbage::Table(retired));
        self.table.make_smaller(guard, large, &Told, retire);
    }
}
