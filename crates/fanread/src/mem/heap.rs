//! Memory for records: fresh from an arena, or used before.
//!
//! Requests are rounded up to a size class: every multiple of 8 bytes up to 512, then eight classes for each
//! doubling. A freed piece goes to the list of its class and is handed out again before fresh memory is. The
//! arena is shared; lists and the block that fresh pieces are cut from belong to a [`Shard`], one for each few
//! threads, so that writers seldom meet.
//!
//! # Invariants
//!
//! * **H1** A piece belongs to one owner at a time: the caller of `allocate` until its `free`, else a list or a block.
//! * **H2** The first 8 bytes of a listed piece are the unit of the next one, 0 at the end.

use super::AllocError;
use super::arena::Arena;

/// The arena of records: units of 8 bytes, a first chunk of 256 bytes.
pub(crate) type Records = Arena<3, 5>;

/// Units up to which every size has its own class.
const EXACT_UNITS: u64 = 64;

/// Classes: 64 exact ones and 8 for each of the doublings up to 16,384 units (128 KB).
const CLASSES: usize = 64 + 8 * 8;

/// Units of the block a shard takes from the arena at a time, at most. 64 KB: a small one makes threads meet at
/// the arena more often, a large one leaves more memory unused in every shard.
const BLOCK_UNITS: u64 = 8192;

/// Rounds a request up to its class; returns the class and its size in units.
#[inline]
fn class_of(units: u64) -> (usize, u64) {
    let units = units.max(1);
    if units <= EXACT_UNITS {
        return (units as usize - 1, units);
    }
    // 2^shift is the step between classes in this doubling.
    let shift = (units - 1).ilog2() - 3;
    let step = (units - 1) >> shift;
    let class = 64 + (shift as usize - 3) * 8 + (step as usize - 8);
    (class, (step + 1) << shift)
}

/// A part of a heap's free memory, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Shard {
    next: u64,
    end: u64,
    /// First piece of each class's list. Absent until something is freed.
    lists: Option<Box<[u64; CLASSES]>>,
}

impl Shard {
    pub(crate) const fn new() -> Self {
        Self { next: 0, end: 0, lists: None }
    }

    /// Hands out a piece of at least `units` units.
    #[inline]
    pub(crate) fn allocate(&mut self, arena: &Records, units: u64) -> Result<u64, AllocError> {
        let (class, units) = class_of(units);
        if let Some(lists) = &mut self.lists {
            let unit = lists[class];
            if unit != 0 {
                // SAFETY: a listed piece starts with the next one's unit (H2), belongs to the list (H1), and is
                // aligned to 8 bytes.
                lists[class] = unsafe { arena.at(unit).cast::<u64>().read() };
                return Ok(unit);
            }
        }
        if self.end - self.next < units {
            self.refill(arena, units)?;
        }
        let unit = self.next;
        self.next += units;
        Ok(unit)
    }

    #[cold]
    fn refill(&mut self, arena: &Records, units: u64) -> Result<(), AllocError> {
        // A small heap takes small blocks: an eighth of what it has. None is to go past the end of a chunk, for what is left there is
        // lost then.
        let used_units = (arena.used_bytes() / Records::UNIT_BYTES) as u64;
        let left = arena.left_in_chunk();
        let most = if left < units { BLOCK_UNITS } else { left.min(BLOCK_UNITS) };
        let block = (used_units / 8).min(most).max(units);
        let unit = arena.grow(block)?;
        if unit == self.end && !Records::starts_chunk(unit) {
            // The new block continues the old one.
            self.end = unit + block;
            return Ok(());
        }
        let (rest, rest_units) = (self.next, self.end - self.next);
        (self.next, self.end) = (unit, unit + block);
        // What is left of the old block is a piece of some exact class, or a few.
        let mut at = rest;
        while at < rest + rest_units {
            let piece = (rest + rest_units - at).min(EXACT_UNITS);
            self.free(arena, at, piece);
            at += piece;
        }
        Ok(())
    }

    /// Takes back a piece that was requested with `units`.
    ///
    /// The caller owns it (H1): nobody reads it any more.
    pub(crate) fn free(&mut self, arena: &Records, unit: u64, units: u64) {
        let (class, _) = class_of(units);
        let lists = self.lists.get_or_insert_with(|| Box::new([0; CLASSES]));
        // SAFETY: the piece is the caller's (H1), has at least one unit, and is aligned to 8 bytes.
        unsafe { arena.at(unit).cast::<u64>().write(lists[class]) };
        lists[class] = unit;
    }

    /// Bytes that wait in lists or in the block.
    pub(crate) fn idle_bytes(&self, arena: &Records) -> usize {
        let mut units = self.end - self.next;
        if let Some(lists) = &self.lists {
            for (class, first) in lists.iter().enumerate() {
                let mut unit = *first;
                while unit != 0 {
                    units += class_units(class);
                    // SAFETY: as in `allocate`.
                    unit = unsafe { arena.at(unit).cast::<u64>().read() };
                }
            }
        }
        units as usize * Records::UNIT_BYTES
    }
}

/// The size of a class.
fn class_units(class: usize) -> u64 {
    if class < 64 {
        return class as u64 + 1;
    }
    let (shift, step) = ((class - 64) / 8 + 3, (class - 64) % 8 + 8);
    (step as u64 + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_all_sizes_and_waste_at_most_an_eighth() {
        let mut last = (0, 0);
        for units in 1..=16_384 {
            let (class, size) = class_of(units);
            assert!(size >= units && size <= units + units / 8, "{units}: {size}");
            assert!((class, size) == last || (class == last.0 + 1 || units == 1), "{units}");
            assert_eq!(class_of(size), (class, size));
            assert_eq!(class_units(class), size);
            last = (class, size);
        }
        assert!(last.0 < CLASSES);
    }

    #[test]
    fn a_freed_piece_is_used_again() {
        let arena = Records::new();
        let mut shard = Shard::new();
        let pieces: Vec<_> = (0..1000).map(|_| shard.allocate(&arena, 5).unwrap()).collect();
        let used = arena.used_bytes();
        for unit in &pieces {
            shard.free(&arena, *unit, 5);
        }
        assert!(shard.idle_bytes(&arena) >= 1000 * 40);
        for _ in 0..1000 {
            shard.allocate(&arena, 5).unwrap();
        }
        assert_eq!(arena.used_bytes(), used);
    }

    #[test]
    fn pieces_of_all_sizes_keep_their_bytes() {
        let arena = Records::new();
        let mut shard = Shard::new();
        let mut pieces = Vec::new();
        for n in 0..3000_u64 {
            let units = n * 7 % 130 + 1;
            let unit = shard.allocate(&arena, units).unwrap();
            // SAFETY: the piece is ours and has that many units.
            let piece = unsafe {
                core::slice::from_raw_parts_mut(arena.at(unit).cast::<u64>(), units as usize)
            };
            piece.fill(n);
            pieces.push(piece);
        }
        for (n, piece) in pieces.iter().enumerate() {
            assert!(piece.iter().all(|word| *word == n as u64), "{n}");
        }
    }

    #[test]
    fn a_heap_of_ten_small_records_is_small() {
        let arena = Records::new();
        let mut shard = Shard::new();
        for _ in 0..10 {
            shard.allocate(&arena, 3).unwrap();
        }
        assert!(arena.resident_bytes() <= 256 + 1024, "{}", arena.resident_bytes());
    }
}
