//! Free memory for nodes.
//!
//! As the heap of records, but a node is placed so that a search finds what it reads of it in one line. What is
//! left at the end of a block is too small for most nodes, and not kept.

use super::layout::Unit;
use crate::arch;
use crate::mem::AllocError;
use crate::mem::arena::Arena;

/// The arena of nodes: units of 8 bytes, and a first chunk of 1 KB, which holds a map of ten short entries.
pub(super) type Nodes = Arena<3, 7>;

/// Units that a shard takes at a time, at most: as the heap does.
const BLOCK_UNITS: u64 = 8192;

/// Units of a line: with so many more than it needs, a node finds a good place in a block.
const LINE_UNITS: u64 = 8;

/// Free memory, used by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    next: u64,
    end: u64,
    /// Pieces that were used before, by the units they have.
    free: Vec<Vec<Unit>>,
    /// Whether a block was taken since somebody asked.
    has_grown: bool,
}

impl Pieces {
    /// Takes a piece of so many units. `is_good` says whether one may begin at a unit; it says the same of all nodes that have
    /// as many units.
    pub(super) fn take(
        &mut self,
        nodes: &Nodes,
        units: u64,
        is_good: impl Fn(u64) -> bool,
    ) -> Result<Unit, AllocError> {
        if let Some(list) = self.free.get_mut(units as usize)
            && let Some(unit) = list.pop()
        {
            if let Some(next) = list.last() {
                arch::prefetch(nodes.at(next.get().into()));
            }
            return Ok(unit);
        }
        let failed = AllocError { bytes: units as usize * Nodes::UNIT_BYTES };
        loop {
            let mut unit = self.next;
            while unit < self.end && !is_good(unit) {
                unit += 1;
            }
            if unit + units <= self.end {
                self.next = unit + units;
                // The exchange that publishes a node waits until its lines have come: those of the next one are asked for
                // now.
                let end = nodes.at(self.next);
                arch::prefetch(end);
                arch::prefetch(end.wrapping_add(LINE_UNITS as usize * Nodes::UNIT_BYTES));
                return Unit::new(unit).ok_or(failed);
            }
            // A small map takes small blocks: an eighth of what it has.
            let used = (nodes.used_bytes() / Nodes::UNIT_BYTES) as u64;
            let block = (used / 8).clamp(8, BLOCK_UNITS).max(units + LINE_UNITS);
            let start = nodes.grow(block)?;
            if start != self.end || Nodes::starts_chunk(start) {
                self.next = start;
            }
            self.end = start + block;
            self.has_grown = true;
        }
    }

    /// Whether a piece of so many units would have to be of a block that is still to be taken.
    #[inline]
    pub(super) fn is_short_of(&self, units: u64) -> bool {
        !self.has_used(units) && self.end - self.next < units + LINE_UNITS
    }

    /// Whether a piece of so many units was used before.
    #[inline]
    fn has_used(&self, units: u64) -> bool {
        self.free.get(units as usize).is_some_and(|list| !list.is_empty())
    }

    /// Exchanges the pieces that were used before with those of another shard, if that has one of so many units; tells whether it has.
    pub(super) fn trade(&mut self, other: &mut Self, units: u64) -> bool {
        let has_used = other.has_used(units);
        if has_used {
            core::mem::swap(&mut self.free, &mut other.free);
        }
        has_used
    }

    /// Tells whether a block was taken since the last question.
    pub(super) fn has_grown(&mut self) -> bool {
        core::mem::take(&mut self.has_grown)
    }

    /// Takes a piece back.
    pub(super) fn put(&mut self, unit: Unit, units: u64) {
        let class = units as usize;
        if self.free.len() <= class {
            self.free.resize(class + 1, Vec::new());
        }
        self.free[class].push(unit);
    }

    /// Bytes that wait to be used.
    pub(super) fn idle_bytes(&self) -> usize {
        let free = self.free.iter().enumerate();
        let free: u64 = free.map(|(units, list)| list.len() as u64 * units as u64).sum();
        (free + self.end - self.next) as usize * Nodes::UNIT_BYTES
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn pieces_begin_where_they_may_and_are_used_again() {
        let nodes = Nodes::new();
        let mut pieces = Pieces::default();
        let mut taken = Vec::new();
        for n in 0..3_000 {
            let units = 4 + n % 7;
            let unit = pieces.take(&nodes, units, |unit| unit % 8 != 5).unwrap();
            assert!(unit.get() % 8 != 5);
            taken.push((u64::from(unit.get()), units));
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        let used = nodes.used_bytes();
        for (unit, units) in &taken {
            pieces.put(Unit::new(*unit).unwrap(), *units);
        }
        assert!(pieces.idle_bytes() >= 3_000 * 4 * 8);
        for n in 0..3_000 {
            pieces.take(&nodes, 4 + n % 7, |_| false).unwrap();
        }
        assert_eq!(nodes.used_bytes(), used);
    }
}
