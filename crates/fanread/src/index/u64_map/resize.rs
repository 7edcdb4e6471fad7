//! Segments that grow, are split, and shrink; see `directory`.

use super::U64Map;
use super::raw::Garbage;
use super::table::Segment;
use crate::mem::AllocError;
use crate::sync::epoch::Guard;

impl<V> U64Map<V> {
    /// Makes room for a hash whose segment is full, or waits until somebody has.
    ///
    /// # Errors
    ///
    /// If there is no memory; nothing has changed then.
    pub(super) fn rebuild(
        &self,
        guard: &Guard,
        full: &Segment,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        let retire = |retired| garbage.push(Garbage::Table(retired));
        self.table.make_room(guard, full, || full.entries(), retire)
    }

    /// Makes a segment smaller that has few entries left, if there is memory for that.
    pub(super) fn shrink(&self, guard: &Guard, large: &Segment, garbage: &mut Vec<Garbage<V>>) {
        let retire = |retired| garbage.push(Garbage::Table(retired));
        self.table.make_smaller(guard, large, || large.entries(), retire);
    }
}
