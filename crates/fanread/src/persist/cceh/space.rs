//! Which blocks are free: known in memory only. In the file a block is free that nothing names, so a crash leaks none.

use super::layout::Block;
use super::{CcehError, Map};
use crate::persist::medium::Medium;

/// The free blocks.
///
/// # Invariants
///
/// * **F1** Every block from the header to `end` is a segment, of the directory, in `free`, or held by a call under way; only one
///   of these.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) free: Vec<Block>,
    /// The first block that was never used.
    pub(super) end: u32,
}

/// By how much of its length a medium grows at once, and by how many lines at most: 16 MB.
///
/// Larger steps leave more of the file unused, smaller ones ask the system more often.
const STEP_PART: usize = 8;
const STEP_LINES: usize = (16 << 20) / crate::mem::LINE_BYTES;

impl<M: Medium> Map<M> {
    /// Takes a free block.
    pub(super) fn allocate(&self) -> Result<Block, CcehError> {
        let mut space = self.space.lock();
        if let Some(block) = space.free.pop() {
            return Ok(block);
        }
        self.extend(&mut space, 1)
    }

    /// Takes blocks that lie side by side.
    pub(super) fn allocate_run(&self, count: usize) -> Result<Block, CcehError> {
        if count == 1 {
            return self.allocate();
        }
        self.extend(&mut self.space.lock(), count)
    }

    fn extend(&self, space: &mut Space, count: usize) -> Result<Block, CcehError> {
        let full = || CcehError::Io(std::io::ErrorKind::FileTooLarge.into());
        let first = Block(space.end);
        let end = u32::try_from(count).ok().and_then(|count| count.checked_add(space.end));
        let end = end.filter(|end| *end < u32::MAX).ok_or_else(full)?;
        let needed = self.geometry.line(Block(end)).0;
        let now = self.medium.lines();
        if needed > now {
            let step = (now / STEP_PART).min(STEP_LINES) & !(self.geometry.lines() - 1);
            // A little is better than nothing.
            self.medium.grow(needed.max(now + step)).or_else(|_| self.medium.grow(needed))?;
        }
        for block in first.0..end {
            self.shadows.make(Block(block))?;
        }
        space.free.try_reserve(count).map_err(|_| CcehError::OutOfMemory { bytes: 4 * count })?;
        space.end = end;
        Ok(first)
    }

    /// Gives blocks back that lie side by side and that nothing names any more.
    pub(super) fn release(&self, first: Block, count: usize) {
        let mut space = self.space.lock();
        // Every block has had its place in `extend`, but for those of a map that was opened: these have it since then.
        space.free.extend((first.0..first.0 + count as u32).map(Block));
    }
}
