//! Where records are: cells of a few sizes in blocks of the map, and runs of blocks for large ones.
//!
//! ```text
//! extent       a block cut into cells of one size, or a run of blocks that is one cell
//!
//! list         one block
//! word 0       block of the next list, or 0
//!      1 ..    extents: 0, or the first block in bits 0 to 31, how many in 32 to 55, the class in 56 to 63
//! ```
//!
//! Which blocks are extents is in the file: an extent is listed, durably, before a cell of it is used, and taken off the list
//! before its blocks are free. **Which cells are used is not.** A record counts if the slot of its key names it; so to allocate
//! and to free a cell needs no durable step, and no crash leaks one.
//!
//! After a start the cells of an extent are found by asking the table about each of them. This is done when the extent is needed:
//! before a cell of it is taken, and before a slot leaves one of its records. So opening reads the lists alone. `Strings::check` asks too, and
//! leaves all as it is.
//!
//! A cell is used again only when nobody who was reading as its record was left is reading any more (`sync::epoch`).
//!
//! # Invariants
//!
//! * **R1** A record is named by one slot at most, and this slot has its key's hash.
//! * **R2** A cell of an extent that was examined is marked as used exactly if a slot names it, or it waits in `limbo`, or a call under
//!   way has it.
//! * **R3** A slot names cells of listed extents only, and its record was durable before.
//! * **R4** No slot leaves a record of an extent that was not examined.
//!
//! `Strings::check` tests R1 to R3; R4 is what makes an examination right while others write: what it finds not to be named was
//! left before the start.

use std::collections::{HashMap, HashSet};

use super::layout::{Block, Geometry, HEAP_AT};
use super::record::Record;
use super::recover::Claims;
use super::search::Wanted;
use super::strings::Strings;
use super::{CcehError, Map};
use crate::persist::medium::{LINE_WORDS, Medium, WordAt};
use crate::sync::epoch::{Guard, Limbo};
use crate::sync::shim::Ordering::Relaxed;

/// Classes of cells, by their words: 2 to 8, then four to each doubling, up to half of the largest block.
const CLASSES: usize = 7 + 4 * 15;

/// The class of runs of blocks.
const RUNS: usize = CLASSES;

/// How many extents an allocation examines before it takes a new one.
///
/// To examine one costs a search for each cell, some 0.1 ms for small ones. Fewer let the file grow while there are free cells
/// in it, more make single insertions after a start slow.
const EXAMINED: usize = 2;

/// How many words of records wait for their readers before these are asked for: 64 KB.
///
/// Fewer ask for every few records, which costs an allocation; more keep cells idle.
const HELD_WORDS: usize = if cfg!(test) { 1 } else { 1 << 13 };

fn class_of(words: usize) -> usize {
    if words <= 8 {
        return words.max(2) - 2;
    }
    let top = (words - 1).ilog2();
    let quarter = (words - (1 << top)).div_ceil(1 << (top - 2));
    7 + (top as usize - 3) * 4 + quarter - 1
}

fn cell_words(class: usize) -> usize {
    match class.checked_sub(7) {
        None => class + 2,
        Some(above) => (4 + above % 4 + 1) << (above / 4 + 1),
    }
}

/// Blocks with cells, as the file's list has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent {
    block: Block,
    blocks: u32,
    class: usize,
}

impl Extent {
    const BLOCKS_AT: u32 = 32;
    const CLASS_AT: u32 = 56;
    const MAX_BLOCKS: usize = (1 << (Self::CLASS_AT - Self::BLOCKS_AT)) - 1;

    fn word(self) -> u64 {
        u64::from(self.block.0)
            | u64::from(self.blocks) << Self::BLOCKS_AT
            | (self.class as u64) << Self::CLASS_AT
    }

    /// Reads a word that may be anything.
    fn of(word: u64, geometry: Geometry) -> Option<Self> {
        let blocks = (word >> Self::BLOCKS_AT) as u32 & Self::MAX_BLOCKS as u32;
        let class = (word >> Self::CLASS_AT) as usize;
        let extent = Self { block: Block(word as u32), blocks, class };
        let fits = match class {
            RUNS => blocks > 0,
            class => class < RUNS && blocks == 1 && cell_words(class) <= largest_cell(geometry),
        };
        fits.then_some(extent)
    }
}

/// Words of a block.
fn block_words(geometry: Geometry) -> usize {
    geometry.lines() * LINE_WORDS
}

/// The words of the largest cell that shares a block.
fn largest_cell(geometry: Geometry) -> usize {
    block_words(geometry) / 2
}

/// What is known of an extent in memory.
#[derive(Debug)]
struct Slab {
    extent: Extent,
    /// Where the file has it.
    listed: WordAt,
    cell_words: usize,
    cells: usize,
    /// Whether `used` is known.
    is_examined: bool,
    /// A bit for each cell that is used.
    used: Vec<u64>,
    /// How many are.
    count: usize,
    /// Where in `roomy` it is.
    place: Option<usize>,
}

impl Slab {
    /// An extent whose cells all count as free.
    fn new(extent: Extent, listed: WordAt, geometry: Geometry) -> Result<Self, CcehError> {
        let words = block_words(geometry);
        let cell_words = match extent.class {
            RUNS => words * extent.blocks as usize,
            class => cell_words(class),
        };
        let cells = if extent.class == RUNS { 1 } else { words / cell_words };
        let mut used = Vec::new();
        reserve(&mut used, cells.div_ceil(64))?;
        used.resize(cells.div_ceil(64), 0);
        let is_examined = false;
        Ok(Self { extent, listed, cell_words, cells, is_examined, used, count: 0, place: None })
    }

    fn is_used(&self, cell: usize) -> bool {
        self.used[cell / 64] >> (cell % 64) & 1 != 0
    }

    fn set_used(&mut self, cell: usize) {
        self.used[cell / 64] |= 1 << (cell % 64);
        self.count += 1;
    }

    /// The first free cell.
    fn free(&self) -> Option<usize> {
        let at = self.used.iter().position(|word| *word != u64::MAX)?;
        let cell = at * 64 + self.used[at].trailing_ones() as usize;
        (cell < self.cells).then_some(cell)
    }

    fn start(&self, geometry: Geometry) -> usize {
        geometry.line(self.extent.block).word(0).0
    }

    /// The cell that begins at a word.
    fn cell_at(&self, word: usize, geometry: Geometry) -> Option<usize> {
        let from = word.checked_sub(self.start(geometry))?;
        let cell = from / self.cell_words;
        (from % self.cell_words == 0 && cell < self.cells).then_some(cell)
    }
}

/// The cells; see the module.
#[derive(Debug)]
pub(super) struct Heap {
    slabs: HashMap<Block, Slab>,
    /// Of each class, the extents with free cells that were examined.
    roomy: [Vec<Block>; CLASSES],
    /// Of each class, and of runs, extents that perhaps were not examined.
    unexamined: [Vec<Block>; CLASSES + 1],
    lists: Vec<Block>,
    /// Places of the lists that have no extent.
    vacant: Vec<WordAt>,
    /// Names of records that were left, and may still be read.
    limbo: Limbo<u64>,
    /// The words of those that the epochs were not asked about.
    held_words: usize,
}

/// Makes room in a list, if there is memory for it.
fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result<(), CcehError> {
    let bytes = count * size_of::<T>();
    list.try_reserve(count).map_err(|_| CcehError::OutOfMemory { bytes })
}

impl Heap {
    /// Reads the lists of a file.
    pub(super) fn open<M: Medium>(
        medium: &M,
        geometry: Geometry,
        claims: &mut Claims,
    ) -> Result<Self, CcehError> {
        let mut heap = Self {
            slabs: HashMap::new(),
            roomy: [const { Vec::new() }; _],
            unexamined: [const { Vec::new() }; _],
            lists: Vec::new(),
            vacant: Vec::new(),
            limbo: Limbo::new(),
            held_words: 0,
        };
        let mut from = HEAP_AT;
        loop {
            let damaged = |place: WordAt| {
                let found = medium.load(place, Relaxed);
                CcehError::Damaged { offset: place.0 as u64 * 8, found }
            };
            let next = medium.load(from, Relaxed);
            if next == 0 {
                return Ok(heap);
            }
            let list = u32::try_from(next).map(Block).map_err(|_| damaged(from))?;
            if !claims.claim(list, 1)? {
                return Err(damaged(from));
            }
            reserve(&mut heap.lists, 1)?;
            heap.lists.push(list);
            from = geometry.line(list).word(0);
            for place in (1..block_words(geometry)).map(|at| from.plus(at)) {
                let word = medium.load(place, Relaxed);
                if word == 0 {
                    reserve(&mut heap.vacant, 1)?;
                    heap.vacant.push(place);
                    continue;
                }
                let extent = Extent::of(word, geometry).ok_or_else(|| damaged(place))?;
                if !claims.claim(extent.block, extent.blocks as usize)? {
                    return Err(damaged(place));
                }
                heap.reserve_slab()?;
                let unexamined = &mut heap.unexamined[extent.class];
                reserve(unexamined, 1)?;
                unexamined.push(extent.block);
                heap.slabs.insert(extent.block, Slab::new(extent, place, geometry)?);
            }
        }
    }

    fn reserve_slab(&mut self) -> Result<(), CcehError> {
        let bytes = size_of::<(Block, Slab)>();
        self.slabs.try_reserve(1).map_err(|_| CcehError::OutOfMemory { bytes })
    }

    /// How many extents there are.
    pub(super) fn extents(&self) -> usize {
        self.slabs.len()
    }

    /// All blocks of the heap.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Block, u32)> + '_ {
        let extents = self.slabs.values().map(|slab| (slab.extent.block, slab.extent.blocks));
        self.lists.iter().map(|list| (*list, 1)).chain(extents)
    }

    /// How many cells are used of the extents that were examined, and how many of these wait for readers.
    pub(super) fn used(&self) -> (usize, usize) {
        (self.slabs.values().map(|slab| slab.count).sum(), self.limbo.len())
    }

    /// Whether a name is that of a used cell.
    pub(super) fn has(&self, name: u64, geometry: Geometry) -> bool {
        let found = self.slab_of(name, geometry);
        found.is_some_and(|(slab, cell)| slab.is_used(cell))
    }

    fn slab_of(&self, name: u64, geometry: Geometry) -> Option<(&Slab, usize)> {
        let slab = self.slabs.get(&block_of(name, geometry)?)?;
        Some((slab, slab.cell_at(name as usize, geometry)?))
    }

    /// Lets allocations find an extent that has room.
    fn note_roomy(&mut self, block: Block) -> Result<(), CcehError> {
        let Some(slab) = self.slabs.get_mut(&block) else { return Ok(()) };
        let class = slab.extent.class;
        if class != RUNS && slab.place.is_none() && slab.count < slab.cells {
            let roomy = &mut self.roomy[class];
            reserve(roomy, 1)?;
            slab.place = Some(roomy.len());
            roomy.push(block);
        }
        Ok(())
    }

    /// The opposite.
    fn forget_roomy(&mut self, block: Block) {
        let Some(slab) = self.slabs.get_mut(&block) else { return };
        if let Some(place) = slab.place.take() {
            let roomy = &mut self.roomy[slab.extent.class];
            roomy.swap_remove(place);
            if let Some(moved) = roomy.get(place)
                && let Some(slab) = self.slabs.get_mut(moved)
            {
                slab.place = Some(place);
            }
        }
    }

    /// Takes a cell of a class that is known to be free.
    fn take(&mut self, class: usize, geometry: Geometry) -> Option<WordAt> {
        let block = *self.roomy[class].last()?;
        let slab = self.slabs.get_mut(&block)?;
        let cell = slab.free()?;
        slab.set_used(cell);
        let at = WordAt(slab.start(geometry) + cell * slab.cell_words);
        if slab.count == slab.cells {
            self.forget_roomy(block);
        }
        Some(at)
    }
}

/// The block of what a word names.
fn block_of(name: u64, geometry: Geometry) -> Option<Block> {
    u32::try_from(name / block_words(geometry) as u64).ok().map(Block)
}

/// The entry of this very record.
struct Exactly(u64);

impl Wanted for Exactly {
    fn is(&self, value: u64) -> bool {
        value == self.0
    }
}

impl<M: Medium> Strings<M> {
    /// Takes a cell for a record of so many words.
    pub(super) fn allocate(&self, words: usize) -> Result<WordAt, CcehError> {
        let geometry = self.map.geometry;
        let mut heap = self.heap.lock();
        self.reuse(&mut heap);
        let is_run = words > largest_cell(geometry);
        let class = if is_run { RUNS } else { class_of(words) };
        for _ in 0..EXAMINED {
            if !is_run && let Some(at) = heap.take(class, geometry) {
                return Ok(at);
            }
            let Some(block) = heap.unexamined[class].pop() else { break };
            self.examine(&mut heap, block);
        }
        let blocks = if is_run { words.div_ceil(block_words(geometry)) } else { 1 };
        if let Some(at) = (!is_run).then(|| heap.take(class, geometry)).flatten() {
            return Ok(at);
        }
        let block = self.add(&mut heap, blocks, class)?;
        if !is_run {
            // There is memory for it: the list of the class was tried before.
            heap.note_roomy(block)?;
            if let Some(at) = heap.take(class, geometry) {
                return Ok(at);
            }
        }
        if let Some(slab) = heap.slabs.get_mut(&block) {
            slab.set_used(0);
        }
        Ok(geometry.line(block).word(0))
    }

    /// Makes a new extent, durably, with all cells free.
    fn add(&self, heap: &mut Heap, blocks: usize, class: usize) -> Result<Block, CcehError> {
        let Map { medium, geometry, .. } = &self.map;
        if blocks > Extent::MAX_BLOCKS {
            let bytes = blocks.saturating_mul(block_words(*geometry) * 8);
            return Err(CcehError::TooLong { bytes });
        }
        heap.reserve_slab()?;
        if class != RUNS {
            reserve(&mut heap.roomy[class], 1)?;
        }
        let block = self.map.allocate_run(blocks)?;
        let extent = Extent { block, blocks: blocks as u32, class };
        let listed = match heap.vacant.pop() {
            Some(place) => Ok(place),
            None => self.add_list(heap),
        };
        let slab = listed.and_then(|listed| {
            let slab = Slab::new(extent, listed, *geometry);
            slab.inspect_err(|_| heap.vacant.push(listed))
        });
        // A list that was just made is fenced either way: others may be next to put something into it.
        let listed = slab.as_ref().map_or(HEAP_AT, |slab| slab.listed);
        if slab.is_ok() {
            // Relaxed: read by nobody before the next start. Fenced here, since others may fence a record of theirs in it first.
            medium.store(listed, extent.word(), Relaxed);
            medium.flush(listed.line());
        }
        medium.fence();
        match slab {
            Ok(slab) => heap.slabs.insert(block, Slab { is_examined: true, ..slab }),
            Err(error) => {
                self.map.release(block, blocks);
                return Err(error);
            }
        };
        Ok(block)
    }

    /// Makes a new list, durable after the next fence, and takes a place of it.
    fn add_list(&self, heap: &mut Heap) -> Result<WordAt, CcehError> {
        let Map { medium, geometry, .. } = &self.map;
        let words = block_words(*geometry);
        reserve(&mut heap.vacant, words)?;
        reserve(&mut heap.lists, 1)?;
        let list = self.map.allocate()?;
        let first = geometry.line(list).word(0);
        let next = medium.load(HEAP_AT, Relaxed);
        for at in 0..words {
            let place = first.plus(at);
            // Relaxed, here and below: read by nobody before the next start.
            medium.store(place, if at == 0 { next } else { 0 }, Relaxed);
            if place.index() + 1 == LINE_WORDS {
                medium.flush(place.line());
            }
        }
        medium.fence();
        medium.store(HEAP_AT, u64::from(list.0), Relaxed);
        medium.flush(HEAP_AT.line());
        heap.lists.push(list);
        heap.vacant.extend((2..words).rev().map(|at| first.plus(at)));
        Ok(first.plus(1))
    }

    /// Asks the table which cells of an extent are used, if nobody has.
    fn examine(&self, heap: &mut Heap, block: Block) {
        let Some(slab) = heap.slabs.get_mut(&block) else { return };
        if slab.is_examined {
            return;
        }
        slab.is_examined = true;
        for cell in 0..slab.cells {
            if self.named_in(slab, cell).is_some() {
                slab.set_used(cell);
            }
        }
        self.unexamined.fetch_sub(1, Relaxed);
        self.settle(heap, block);
    }

    /// The name of a cell's record, if a slot of the table has it.
    fn named_in(&self, slab: &Slab, cell: usize) -> Option<u64> {
        let Map { medium, geometry, spelling, .. } = &self.map;
        let name = (slab.start(*geometry) + cell * slab.cell_words) as u64;
        // A cell may hold anything: bytes that look like a record are one only if a slot says so.
        let record = Record::of(medium, name).filter(|record| record.words() <= slab.cell_words)?;
        self.map.get_hash(record.hash(medium, spelling), &Exactly(name))
    }

    /// The records that slots name in extents that were not examined. Nothing is noted, and nothing stored: of a damaged map an
    /// extent may seem to be free that is not, and would be gone from the list.
    pub(super) fn named_unexamined(&self, heap: &Heap) -> HashSet<u64> {
        let slabs = heap.slabs.values().filter(|slab| !slab.is_examined);
        slabs
            .flat_map(|slab| (0..slab.cells).filter_map(|cell| self.named_in(slab, cell)))
            .collect()
    }

    /// Examines the extent of a record that a slot is about to leave (R4). The slot's stripes are locked; whoever holds the heap
    /// waits for no lock of a stripe.
    pub(super) fn examine_before_leaving(&self, name: u64) {
        // Relaxed: it only falls, and who sees an old number looks in vain.
        if self.unexamined.load(Relaxed) > 0
            && let Some(block) = block_of(name, self.map.geometry)
        {
            self.examine(&mut self.heap.lock(), block);
        }
    }

    /// Gives a cell back whose record no slot has named.
    pub(super) fn give_back(&self, record: Record) {
        self.free(&mut self.heap.lock(), record.name());
    }

    /// Gives a cell back whose record a slot has left, once its readers are gone.
    pub(super) fn retire(&self, name: u64, words: usize, guard: &Guard) {
        let mut heap = self.heap.lock();
        if heap.has(name, self.map.geometry) {
            heap.limbo.retire(name, guard);
            heap.held_words += words;
            if heap.held_words >= HELD_WORDS {
                heap.held_words = 0;
                heap.limbo.close(guard);
            }
        }
        self.reuse(&mut heap);
    }

    /// Frees cells that nobody can be reading any more.
    pub(super) fn reuse(&self, heap: &mut Heap) {
        while let Some(names) = heap.limbo.collect() {
            for name in names {
                self.free(heap, name);
            }
        }
    }

    fn free(&self, heap: &mut Heap, name: u64) {
        let found = heap.slab_of(name, self.map.geometry);
        if let Some((block, cell)) = found.map(|(slab, cell)| (slab.extent.block, cell))
            && let Some(slab) = heap.slabs.get_mut(&block)
            && slab.is_used(cell)
        {
            slab.used[cell / 64] &= !(1 << (cell % 64));
            slab.count -= 1;
            self.settle(heap, block);
        }
    }

    /// Puts an extent where it belongs after its number of used cells has changed: one without any goes off the list, if others of its
    /// class have room.
    fn settle(&self, heap: &mut Heap, block: Block) {
        // Without memory to note that it has room its cells stay idle until one more is freed.
        let _ = heap.note_roomy(block);
        let Some(slab) = heap.slabs.get(&block) else { return };
        let class = slab.extent.class;
        if slab.count > 0 || class != RUNS && heap.roomy[class].len() < 2 {
            return;
        }
        heap.forget_roomy(block);
        if let Some(slab) = heap.slabs.remove(&block) {
            // Relaxed: as in `add`. Durable before the block can be anything else.
            self.map.medium.store(slab.listed, 0, Relaxed);
            self.map.medium.persist(slab.listed.line());
            heap.vacant.push(slab.listed);
            self.map.release(block, slab.extent.blocks as usize);
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_smallest_cell_that_it_fits() {
        for words in 2..10_000 {
            let class = class_of(words);
            assert!(cell_words(class) >= words && cell_words(class) - words <= words.max(4) / 4);
            assert!(class == 0 || cell_words(class - 1) < words);
        }
        assert_eq!(class_of(1), 0);
        assert_eq!(class_of(1 << 18), CLASSES - 1);
    }
}
