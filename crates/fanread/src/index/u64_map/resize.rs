//! Segments that grow, are split, and shrink; see `directory`.

use super::raw::Garbage;
use super::table::{Segment, Table};
use super::{Pinned, U64Map};
use crate::directory::Geometry;
use crate::mem::AllocError;
use crate::sync::backoff::Backoff;

impl<V> U64Map<V> {
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
        if full.freeze() {
            self.replace(pinned, hash, full, Table::roomier(full), garbage)
        } else {
            Backoff::new().wait();
            Ok(())
        }
    }

    /// Makes a segment smaller that has few entries left, if there is memory for that.
    pub(super) fn shrink(
        &self,
        pinned: &Pinned<'_, V>,
        hash: u64,
        large: &Segment,
        garbage: &mut Vec<Garbage<V>>,
    ) {
        if let Some(geometry) = Table::smaller(large)
            && large.freeze()
        {
            let _ = self.replace(pinned, hash, large, geometry, garbage);
        }
    }

    /// Replaces a frozen segment, or thaws it if there is no memory.
    fn replace(
        &self,
        pinned: &Pinned<'_, V>,
        hash: u64,
        old: &Segment,
        geometry: Geometry,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        let retire = |retired| garbage.push(Garbage::Table(retired));
        self.table
            .replace(&pinned.guard, hash, geometry, || old.entries(), retire)
            .inspect_err(|_| old.thaw())
    }
}
