//! Memory for records: fresh from an arena, or used before.
//!
//! Requests are rounded up to a size class: every multiple of 8 bytes up to 512, then eight classes for each
//! doubling. A freed piece goes to the list of its class and is handed out again before fresh memory is. The
//! arena is shared; lists and the block that fresh pieces are cut from belong to a [`Shard`], one for each few
//! threads, so that writers seldom meet.
//!
//! A map may keep other things there, too, in whole lines: [`Shard::allocate_lines`]. Who has such pieces to spare gives them to
//! [`Shard::allocate_from`], which cuts them up before it takes fresh memory.
//!
//! Where one thread frees what another has allocated, all would end in the lists of the first: [`Shard::trade`].
//!
//! # Invariants
//!
//! * **H1** A piece belongs to one owner at a time: the caller of `allocate` until its `free`, else a list or one of the two blocks.
//! * **H2** The first 8 bytes of a listed piece are the unit of the next one, 0 at the end.

use super::arena::Arena;
use super::{AllocError, LINE_BYTES};

/// The arena of records: units of 8 bytes, a first chunk of 256 bytes.
pub(crate) type Records = Arena<3, 5>;

/// Units up to which every size has its own class.
const EXACT_UNITS: u64 = 64;

/// Classes: 64 exact ones and 8 for each of the doublings up to 16,384 units (128 KB).
const CLASSES: usize = 64 + 8 * 8;

/// Units of the block a shard takes from the arena at a time, at most. 64 KB: a small one makes threads meet at
/// the arena more often, a large one leaves more memory unused in every shard.
const BLOCK_UNITS: u64 = 8192;

/// Units that wait in a shard from which others take them all before they take fresh memory: as many as a block has.
///
/// With less, shards are exchanged for a few pieces each time; with more, each keeps more that it does not use.
const MUCH_UNITS: u64 = if cfg!(any(shuttle, small_leaves, miri)) { 16 } else { BLOCK_UNITS };

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

/// Units of a line.
pub(crate) const LINE_UNITS: u64 = (LINE_BYTES / Records::UNIT_BYTES) as u64;

/// Units that nobody has, in one piece.
#[derive(Clone, Copy, Debug)]
struct Block {
    next: u64,
    end: u64,
}

impl Block {
    const EMPTY: Self = Self { next: 0, end: 0 };

    fn units(self) -> u64 {
        self.end - self.next
    }

    /// Cuts a piece off, if there is as much.
    #[inline]
    fn cut(&mut self, units: u64) -> Option<u64> {
        let unit = self.next;
        (units <= self.units()).then(|| {
            self.next += units;
            unit
        })
    }
}

/// A part of a heap's free memory, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Fresh units, and units that were given.
    fresh: Block,
    given: Block,
    /// Absent until something is freed.
    lists: Option<Box<Lists>>,
}

/// Pieces that were freed.
#[derive(Debug)]
struct Lists {
    /// First piece of each class's list.
    firsts: [u64; CLASSES],
    /// Units of all of them.
    units: u64,
}

impl Shard {
    pub(crate) const fn new() -> Self {
        Self { fresh: Block::EMPTY, given: Block::EMPTY, lists: None }
    }

    /// Hands out a piece of at least `units` units.
    #[inline]
    pub(crate) fn allocate<const FIRST: u32>(
        &mut self,
        arena: &Arena<3, FIRST>,
        units: u64,
    ) -> Result<u64, AllocError> {
        self.allocate_from(arena, units, |_| None)
    }

    /// The same, if that takes no more memory from the arena.
    #[inline]
    pub(crate) fn allocate_here<const FIRST: u32>(
        &mut self,
        arena: &Arena<3, FIRST>,
        units: u64,
    ) -> Option<u64> {
        let (class, units) = class_of(units);
        self.allocate_used(arena, class, units).or_else(|| self.fresh.cut(units))
    }

    /// The same, of what was used before, by class and its units.
    #[inline]
    fn allocate_used<const FIRST: u32>(
        &mut self,
        arena: &Arena<3, FIRST>,
        class: usize,
        units: u64,
    ) -> Option<u64> {
        if let Some(lists) = &mut self.lists {
            let unit = lists.firsts[class];
            if unit != 0 {
                // SAFETY: a listed piece starts with the next one's unit (H2), belongs to the list (H1), and is
                // aligned to 8 bytes.
                lists.firsts[class] = unsafe { arena.at(unit).cast::<u64>().read() };
                lists.units -= units;
                return Some(unit);
            }
        }
        self.given.cut(units)
    }

    /// As `allocate`. Before fresh memory is taken, `spare` may give a piece of at least so many units, and says how many it has.
    #[inline]
    pub(crate) fn allocate_from<const FIRST: u32>(
        &mut self,
        arena: &Arena<3, FIRST>,
        units: u64,
        spare: impl FnOnce(u64) -> Option<(u64, u64)>,
    ) -> Result<u64, AllocError> {
        let (class, units) = class_of(units);
        if let Some(unit) = self.allocate_used(arena, class, units) {
            return Ok(unit);
        }
        if let Some((unit, more)) = spare(units) {
            let rest = core::mem::replace(&mut self.given, Block { next: unit, end: unit + more });
            self.free_rest(arena, rest);
            return Ok(self.given.cut(units).expect("as many as were asked for"));
        }
        if self.fresh.units() < units {
            self.take_block(arena, units)?;
        }
        Ok(self.fresh.cut(units).expect("the block is as large"))
    }

    /// Hands out a piece of whole lines, at the start of one. The lines of a piece are the caller's to keep or to give away.
    pub(crate) fn allocate_lines<const FIRST: u32>(
        &mut self,
        arena: &Arena<3, FIRST>,
        lines: u64,
    ) -> Result<u64, AllocError> {
        // Chunks are lines, so units of an arena are where lines begin if their numbers are.
        let before = |block: Block| block.next.next_multiple_of(LINE_UNITS) - block.next;
        let units = lines * LINE_UNITS;
        if self.fresh.units() < before(self.fresh) + units {
            self.take_block(arena, units + LINE_UNITS - 1)?;
        }
        let rest = before(self.fresh);
        self.free_rest(arena, Block { end: self.fresh.next + rest, ..self.fresh });
        self.fresh.next += rest + units;
        Ok(self.fresh.next - units)
    }

    /// Takes a block of fresh memory, in which at least so many units are in one piece.
    #[cold]
    fn take_block<const FIRST: u32>(
        &mut self,
        arena: &Arena<3, FIRST>,
        units: u64,
    ) -> Result<(), AllocError> {
        // A small heap takes small blocks: an eighth of what it has. None is to go past the end of a chunk, for what is left there is
        // lost then.
        let used_units = (arena.used_bytes() / Records::UNIT_BYTES) as u64;
        let left = arena.left_in_chunk();
        let most = if left < units { BLOCK_UNITS } else { left.min(BLOCK_UNITS) };
        let block = (used_units / 8).min(most).max(units);
        let unit = arena.grow(block)?;
        if unit == self.fresh.end && !Arena::<3, FIRST>::starts_chunk(unit) {
            // The new block continues the old one.
            self.fresh.end = unit + block;
            return Ok(());
        }
        let rest = core::mem::replace(&mut self.fresh, Block { next: unit, end: unit + block });
        self.free_rest(arena, rest);
        Ok(())
    }

    /// Takes what is left of a block, which is a piece of some exact class, or a few.
    fn free_rest<const FIRST: u32>(&mut self, arena: &Arena<3, FIRST>, mut rest: Block) {
        while rest.units() > 0 {
            let piece = rest.units().min(EXACT_UNITS);
            self.free(arena, rest.next, piece);
            rest.next += piece;
        }
    }

    /// Takes back a piece that was requested with `units`.
    ///
    /// The caller owns it (H1): nobody reads it any more.
    pub(crate) fn free<const FIRST: u32>(
        &mut self,
        arena: &Arena<3, FIRST>,
        unit: u64,
        units: u64,
    ) {
        let (class, units) = class_of(units);
        let none = || Box::new(Lists { firsts: [0; CLASSES], units: 0 });
        let lists = self.lists.get_or_insert_with(none);
        // SAFETY: the piece is the caller's (H1), has at least one unit, and is aligned to 8 bytes.
        unsafe { arena.at(unit).cast::<u64>().write(lists.firsts[class]) };
        lists.firsts[class] = unit;
        lists.units += units;
    }

    /// Units that wait in the lists.
    fn listed(&self) -> u64 {
        self.lists.as_ref().map_or(0, |lists| lists.units)
    }

    /// Whether a piece of so many units would have to be fresh memory that is still to be taken.
    #[inline]
    pub(crate) fn is_short_of(&self, units: u64) -> bool {
        !self.has_used(units) && self.fresh.units() < class_of(units).1
    }

    /// Whether a piece of so many units was used before.
    #[inline]
    pub(crate) fn has_used(&self, units: u64) -> bool {
        let (class, units) = class_of(units);
        let is_listed = self.lists.as_ref().is_some_and(|lists| lists.firsts[class] != 0);
        is_listed || self.given.units() >= units
    }

    /// Takes all that another shard has, which gets what is here, if that has a piece of so many units and much else that waits; tells
    /// whether it has.
    pub(crate) fn trade(&mut self, other: &mut Self, units: u64) -> bool {
        let is_worth_it = other.listed() >= MUCH_UNITS && other.has_used(units);
        if is_worth_it {
            core::mem::swap(self, other);
        }
        is_worth_it
    }

    /// Bytes that wait in lists or blocks.
    pub(crate) fn idle_bytes(&self) -> usize {
        (self.fresh.units() + self.given.units() + self.listed()) as usize * Records::UNIT_BYTES
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    /// The size of a class.
    fn class_units(class: usize) -> u64 {
        if class < 64 {
            return class as u64 + 1;
        }
        let (shift, step) = ((class - 64) / 8 + 3, (class - 64) % 8 + 8);
        (step as u64 + 1) << shift
    }

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
    fn what_waits_in_a_shard_goes_to_another_before_fresh_memory_does() {
        let arena = Records::new();
        let (mut own, mut other) = (Shard::new(), Shard::new());
        let pieces = 2 * MUCH_UNITS / 5;
        for unit in (0..pieces).map(|_| own.allocate(&arena, 5).unwrap()).collect::<Vec<_>>() {
            other.free(&arena, unit, 5);
        }
        let used = arena.used_bytes();
        while !own.is_short_of(5) {
            own.allocate(&arena, 5).unwrap();
        }
        // Of another size none waits.
        assert!(!own.trade(&mut other, 6) && own.is_short_of(5));
        assert!(own.trade(&mut other, 5));
        for _ in 0..pieces {
            assert!(!own.is_short_of(5));
            own.allocate(&arena, 5).unwrap();
        }
        assert_eq!((arena.used_bytes(), own.listed()), (used, 0));
        // A few are not worth it.
        let unit = own.allocate(&arena, 5).unwrap();
        other.free(&arena, unit, 5);
        assert!(!own.trade(&mut other, 5) && other.has_used(5));
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
        assert!(shard.idle_bytes() >= 1000 * 40);
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
    fn lines_begin_where_lines_do_and_what_is_given_is_cut_up_first() {
        let arena = Records::new();
        let mut shard = Shard::new();
        let mut given = Vec::new();
        for n in 0..2000 {
            shard.allocate(&arena, 1 + n % 5).unwrap();
            let unit = shard.allocate_lines(&arena, 3 + n % 20).unwrap();
            assert_eq!(arena.at(unit).addr() % LINE_BYTES, 0);
            given.push((unit, (3 + n % 20) * LINE_UNITS));
        }
        // Pieces of the lists first, then these.
        let (used, mut cut) = (arena.used_bytes(), 0);
        while let Some((first, units)) = given.last().copied() {
            let unit = shard.allocate_from(&arena, 6, |_| given.pop()).unwrap();
            cut += usize::from((first..first + units).contains(&unit));
        }
        assert!(cut >= 1999, "{cut}");
        assert_eq!(arena.used_bytes(), used);
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
