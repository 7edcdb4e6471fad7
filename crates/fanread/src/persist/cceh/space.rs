//! Which blocks are free: known in memory only. In the file a block is free that nothing names, so a crash leaks none.

use super::layout::Block;
use super::shadow::{Shadow, Shadows};
use super::{CcehError, Map};
use crate::mem::fixed::Fixed;
use crate::persist::medium::Medium;

/// The free blocks.
///
/// # Invariants
///
/// * **F1** Every block from the header to `end` is a segment, of the directory or the one ahead, in `free`, or held by a call under way; only one
///   of these.
#[derive(Debug)]
pub(super) struct Space {
    /// One bit for each block below `end`, set if it is free.
    free: Vec<u64>,
    /// There is no free block in the words before this one.
    from: usize,
    /// The first block that was never used.
    pub(super) end: u32,
    /// What was made of the next chunk of shadows.
    shadows: Option<Fixed<Shadow>>,
}

impl Space {
    /// The blocks below `end`, none of them free, and their shadows.
    pub(super) fn new(end: u32, all: &Shadows) -> Result<Self, CcehError> {
        let mut space = Self { free: Vec::new(), from: 0, end: 0, shadows: None };
        space.extend(end, all)?;
        Ok(space)
    }

    pub(super) fn is_free(&self, block: Block) -> bool {
        self.free[block.0 as usize / 64] >> (block.0 % 64) & 1 != 0
    }

    /// How many blocks are free.
    pub(super) fn free_blocks(&self) -> usize {
        self.free.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds blocks up to `end` that are not free, and their shadows.
    fn extend(&mut self, end: u32, all: &Shadows) -> Result<(), CcehError> {
        for block in self.end..end {
            all.make(Block(block), &mut self.shadows)?;
        }
        let words = (end as usize).div_ceil(64);
        let more = words.saturating_sub(self.free.len());
        self.free.try_reserve(more).map_err(|_| CcehError::OutOfMemory { bytes: 8 * more })?;
        self.free.resize(words, 0);
        self.end = end;
        Ok(())
    }

    /// Takes free blocks that lie side by side.
    fn take(&mut self, count: u32) -> Option<Block> {
        let first = self.find(count)?;
        for block in first..first + count {
            self.free[block as usize / 64] &= !(1 << (block % 64));
        }
        Some(Block(first))
    }

    fn find(&mut self, count: u32) -> Option<u32> {
        let some = self.free[self.from..].iter().position(|word| *word != 0);
        self.from = some.map_or(self.free.len(), |at| self.from + at);
        let mut run = 0;
        for (at, word) in self.free.iter().enumerate().skip(self.from) {
            if *word == 0 {
                run = 0;
                continue;
            }
            for bit in 0..64 {
                run = if word >> bit & 1 != 0 { run + 1 } else { 0 };
                if run == count {
                    return Some(at as u32 * 64 + bit + 1 - count);
                }
            }
        }
        None
    }

    /// Makes blocks free.
    pub(super) fn put(&mut self, first: Block, count: u32) {
        for block in first.0..first.0 + count {
            self.free[block as usize / 64] |= 1 << (block % 64);
        }
        self.from = self.from.min(first.0 as usize / 64);
    }
}

/// By how much of its length a medium grows at once, and by how many lines at most: 16 MB.
///
/// Larger steps leave more of the file unused, smaller ones ask the system more often.
const STEP_PART: usize = 8;
const STEP_LINES: usize = (16 << 20) / crate::mem::LINE_BYTES;

impl<M: Medium> Map<M> {
    /// Takes a free block.
    pub(super) fn allocate(&self) -> Result<Block, CcehError> {
        self.allocate_run(1)
    }

    /// Takes blocks that lie side by side.
    pub(super) fn allocate_run(&self, count: usize) -> Result<Block, CcehError> {
        let mut space = self.space.lock();
        let free = u32::try_from(count).ok().and_then(|count| space.take(count));
        free.map_or_else(|| self.extend(&mut space, count), Ok)
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
        space.extend(end, &self.shadows)?;
        Ok(first)
    }

    /// Gives blocks back that lie side by side and that nothing names any more.
    pub(super) fn release(&self, first: Block, count: usize) {
        self.space.lock().put(first, count as u32);
    }
}
