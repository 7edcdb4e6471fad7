//! What a map takes.

use super::Map;
use super::layout::SLOTS;
use crate::mem::LINE_BYTES;
use crate::persist::medium::Medium;

/// What a map of numbers takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CcehStats {
    /// How many keys there are.
    pub entries: usize,
    /// How many segments.
    pub segments: usize,
    /// How many keys have room in them.
    pub slots: usize,
    /// Entries of the directory, of 8 bytes each.
    pub directory_entries: usize,
    /// Bytes of blocks that are free.
    pub free_bytes: usize,
    /// Bytes of the whole map.
    pub bytes: usize,
}

impl<M: Medium> Map<M> {
    pub(super) fn stats(&self) -> CcehStats {
        let (segments, depth) = {
            let structure = self.structure.lock();
            (structure.segments.iter().sum::<u32>() as usize, structure.root.depth)
        };
        CcehStats {
            entries: self.len(),
            segments,
            slots: segments * self.geometry.lines() * SLOTS,
            directory_entries: 1 << depth,
            free_bytes: self.space.lock().free_blocks() * self.geometry.lines() * LINE_BYTES,
            bytes: self.medium.lines() * LINE_BYTES,
        }
    }
}
