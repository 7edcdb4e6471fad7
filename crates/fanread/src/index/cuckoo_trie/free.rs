//! The pieces that tries are made of, and those that are free.
//!
//! Tables are made of blocks of one size, in pairs as far as they go, so that they leave no gaps of many sizes behind. A pair is cut in
//! two if a block alone is needed and there is none; two blocks never become a pair again. A list that has a block alone cuts no
//! pair, and who has none asks other threads for one ([`FreeLines::trade`]): so but for what they hold just then at most one block
//! more waits alone than were in use alone at one time.
//!
//! PAPER: not there; its table is one piece.

#![allow(clippy::missing_errors_doc, reason = "the one error is that there is no memory")]

use super::header::{HEADER_LINES, LIST_LINES, LISTED, NAME_AT_LINE};
use super::layout::{BLOCK_BUCKETS, BLOCK_BYTES, blocks_of};
use super::raw::{Memory, Pieces, Shape, Trie};
use crate::mem::{AllocError, LINE_BYTES};

/// Free pieces of tries.
///
/// Belongs to one memory, and to one thread at a time.
#[derive(Default, Debug)]
pub(super) struct FreeLines {
    /// By the lines of a small table behind the header, as powers of two; the last of the lists is of headers without.
    headers: [Pieces; SMALL_SIZES + 1],
    blocks: Pieces,
    pairs: Pieces,
}

/// Sizes of small tables.
const SMALL_SIZES: usize = BLOCK_BUCKETS.ilog2() as usize;

/// Headers of a large map that are taken from the arena at a time.
const HEADERS_AT_ONCE: usize = 64;

impl FreeLines {
    /// Which list the header of a table belongs to.
    fn size_of(lines: u32) -> usize {
        if lines < BLOCK_BUCKETS { lines.ilog2() as usize } else { SMALL_SIZES }
    }

    /// How many lines the pieces of a list have.
    fn lines_of(size: usize) -> usize {
        if size < SMALL_SIZES { HEADER_LINES + (1 << size) } else { HEADER_LINES + LIST_LINES }
    }

    /// Takes a piece for a header, all zeros; returns its unit. Those of a large map come many at a time, so that they lie together:
    /// then they stay in near caches, and a processor finds them without a walk through tables of pages.
    fn take_header(&mut self, memory: &Memory, table_lines: u32) -> Result<u64, AllocError> {
        let size = Self::size_of(table_lines);
        let lines = Self::lines_of(size);
        if let Some(unit) = self.headers[size].take_numbered(lines) {
            return Ok(unit);
        }
        if size < SMALL_SIZES || !memory.is_large() {
            return memory.lines.grow(lines as u64);
        }
        // The two lines for descents are a pair that a processor may fetch together.
        let all = (HEADERS_AT_ONCE * lines) as u64;
        let first = memory.lines.grow(all + 1)?.next_multiple_of(2);
        for more in (1..HEADERS_AT_ONCE).rev() {
            self.headers[size].give_numbered(&memory.lines, first + (more * lines) as u64);
        }
        Ok(first)
    }

    /// Takes a block, all zeros.
    fn take_block(&mut self, memory: &Memory) -> Result<*mut u8, AllocError> {
        if let Some(block) = self.blocks.take(BLOCK_BUCKETS as usize) {
            return Ok(block);
        }
        if let Some(pair) = self.pairs.take(2 * BLOCK_BUCKETS as usize) {
            self.blocks.give(pair.wrapping_add(BLOCK_BYTES));
            return Ok(pair);
        }
        Ok(memory.lines.at(memory.lines.grow(BLOCK_BUCKETS.into())?))
    }

    /// Takes two blocks, one behind the other, all zeros.
    fn take_pair(&mut self, memory: &Memory) -> Result<*mut u8, AllocError> {
        match self.pairs.take(2 * BLOCK_BUCKETS as usize) {
            Some(pair) => Ok(pair),
            None => Ok(memory.lines.at(memory.lines.grow(2 * u64::from(BLOCK_BUCKETS))?)),
        }
    }

    /// Whether a trie of a large map may need a piece that is not here.
    pub(super) fn is_short(&self) -> bool {
        let lists = [&self.headers[SMALL_SIZES], &self.blocks, &self.pairs];
        lists.into_iter().any(|list| list.first().is_none())
    }

    /// Takes those lists of another shard of which there is nothing here; tells whether nothing is missing then. Blocks alone are among
    /// them: where some threads free what others have cut from pairs, no pair would be left in the end.
    pub(super) fn trade(&mut self, other: &mut Self) -> bool {
        for (own, other) in self.lists().zip(other.lists()) {
            if own.first().is_none() {
                core::mem::swap(own, other);
            }
        }
        !self.is_short()
    }

    fn lists(&mut self) -> impl Iterator<Item = &mut Pieces> {
        self.headers.iter_mut().chain([&mut self.blocks, &mut self.pairs])
    }

    /// Takes over all pieces of another list.
    pub(super) fn absorb(&mut self, other: &mut Self) {
        let Self { headers, blocks, pairs } = core::mem::take(other);
        self.headers.iter_mut().zip(headers).for_each(|(mine, others)| mine.absorb(others));
        self.blocks.absorb(blocks);
        self.pairs.absorb(pairs);
    }

    /// Bytes that wait in the lists.
    pub(super) fn idle_bytes(&self) -> usize {
        let headers = self.headers.iter().enumerate();
        let lines = headers.map(|(size, pieces)| pieces.count() * Self::lines_of(size));
        let blocks = self.blocks.count() + 2 * self.pairs.count();
        lines.sum::<usize>() * LINE_BYTES + blocks * BLOCK_BYTES
    }
}

/// The pieces of a trie. 0 or null: not there.
#[derive(Debug)]
pub(super) struct Parts {
    /// The unit of the header's piece.
    pub(super) header: u64,
    /// As the header lists them.
    pub(super) blocks: [*mut u8; LISTED],
}

impl Parts {
    pub(super) const NONE: Self = Self { header: 0, blocks: [core::ptr::null_mut(); _] };

    /// The pieces of a trie that is there.
    pub(super) fn of(trie: Trie<'_>) -> Self {
        let pairs = blocks_of(trie.lines()).div_ceil(2);
        let listed = |at| if at < pairs { trie.pair(at) } else { core::ptr::null_mut() };
        Self {
            header: u64::from(trie.name().get()) - NAME_AT_LINE as u64,
            blocks: core::array::from_fn(listed),
        }
    }

    /// Takes what a trie needs, all zeros. Without memory, some of it is there afterwards.
    pub(super) fn take(
        &mut self,
        memory: &Memory,
        free: &mut FreeLines,
        shape: &Shape<'_>,
    ) -> Result<(), AllocError> {
        self.header = free.take_header(memory, shape.lines())?;
        let blocks = blocks_of(shape.lines());
        for (at, block) in self.blocks.iter_mut().enumerate() {
            *block = match blocks.saturating_sub(2 * at) {
                0 => break,
                1 => free.take_block(memory)?,
                _ => free.take_pair(memory)?,
            };
        }
        Ok(())
    }

    /// Gives back what is there of a table of so many lines.
    pub(super) fn give(self, memory: &Memory, free: &mut FreeLines, lines: u32) {
        let blocks = blocks_of(lines);
        let listed = self.blocks.into_iter().enumerate();
        for (at, block) in listed.filter(|(_, block)| !block.is_null()) {
            let list = if blocks == 2 * at + 1 { &mut free.blocks } else { &mut free.pairs };
            list.give(block);
        }
        if self.header != 0 {
            let list = &mut free.headers[FreeLines::size_of(lines)];
            list.give_numbered(&memory.lines, self.header);
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_pairs_and_no_block_takes_the_blocks_of_others() {
        let memory = Memory::new();
        let grow = |lines: u64| memory.lines.at(memory.lines.grow(lines).unwrap());
        let (mut own, mut other) = (FreeLines::default(), FreeLines::default());
        let header = memory.lines.grow(FreeLines::lines_of(SMALL_SIZES) as u64).unwrap();
        own.headers[SMALL_SIZES].give_numbered(&memory.lines, header);
        own.pairs.give(grow(2 * u64::from(BLOCK_BUCKETS)));
        assert!(own.is_short() && !own.trade(&mut other) && own.is_short());
        for _ in 0..3 {
            other.blocks.give(grow(BLOCK_BUCKETS.into()));
        }
        assert!(own.trade(&mut other) && !own.is_short());
        assert_eq!(
            [own.headers[SMALL_SIZES].count(), own.blocks.count(), own.pairs.count()],
            [1, 3, 1]
        );
        assert_eq!(other.idle_bytes(), 0);
    }
}
