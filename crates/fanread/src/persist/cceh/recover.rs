//! Making a map, and opening one that a crash may have left in the middle of a change.

use super::directory::{Structure, room_for_hints};
use super::layout::{
    Block, CHECKSUM_AT, Entry, GEOMETRY_AT, Geometry, HEAP_AT, KEY_AT, MAGIC, MAGIC_AT, MIN_DEPTH,
    Name, ROOT_AT, SLOTS, Spelling, checksum,
};
use super::shadow::{Hints, Shadows};
use super::space::Space;
use super::{CcehError, CcehOptions, Map, SplitPolicy};
use crate::persist::medium::{LINE_WORDS, Medium, WordAt};
use crate::sync::lock::Lock;
use crate::sync::shim::AtomicU32;
use crate::sync::shim::Ordering::Relaxed;

/// The blocks of a new map: a directory of two entries and two segments.
const FIRST_DEPTH: u32 = MIN_DEPTH;

impl<M: Medium> Map<M> {
    /// Makes a map on an empty medium. Until it returns, a crash leaves what is not a map.
    pub(super) fn create(medium: M, options: CcehOptions) -> Result<Self, CcehError> {
        Self::format(&medium, &options, MAGIC)?;
        // Which ends in a fence.
        Self::open(medium, options.policy)
    }

    /// Opens a map, and finishes what a crash has left unfinished.
    pub(super) fn open(medium: M, policy: SplitPolicy) -> Result<Self, CcehError> {
        Self::open_with(medium, policy, MAGIC, |_, _, _| Ok(())).map(|(map, ())| map)
    }

    /// Writes what a new map is. Durable after the next fence.
    pub(super) fn format(medium: &M, options: &CcehOptions, magic: u64) -> Result<(), CcehError> {
        let CcehOptions { geometry, seed, .. } = *options;
        let first = geometry.first_block();
        let end = first + 3;
        medium.grow(geometry.line(Block(end)).0)?;
        let segments = [Block(first + 1), Block(first + 2)];
        // Relaxed: nobody else knows the map.
        for (block, hash) in segments.into_iter().zip([0, 1 << 63]) {
            let filler = Name::of(hash, FIRST_DEPTH).filler();
            for bucket in 0..geometry.lines() {
                let line = geometry.line(block).plus(bucket);
                for at in 0..LINE_WORDS {
                    medium.store(line.word(at), if at < SLOTS { filler } else { 0 }, Relaxed);
                }
                medium.flush(line);
            }
            let entry = Entry { block, depth: FIRST_DEPTH };
            medium.store(
                geometry.entry(Block(first), (hash >> 63) as usize),
                entry.word(),
                Relaxed,
            );
        }
        medium.flush(geometry.line(Block(first)));
        let words = [
            (GEOMETRY_AT, geometry.word()),
            (KEY_AT, seed),
            (CHECKSUM_AT, checksum(magic, geometry.word(), seed)),
            (ROOT_AT, Entry { block: Block(first), depth: FIRST_DEPTH }.word()),
            (HEAP_AT, 0),
        ];
        for (place, word) in words {
            medium.store(place, word, Relaxed);
            medium.flush(place.line());
        }
        medium.fence();
        medium.store(MAGIC_AT, magic, Relaxed);
        medium.flush(MAGIC_AT.line());
        Ok(())
    }

    /// Opens a map whose file begins with `wanted`, and finishes what a crash has left unfinished. `claim` names the blocks
    /// that are used beside the directory and the segments. Stores nothing to what is refused.
    ///
    /// PAPER: section 4, algorithm 1. It mends pointers backwards or forwards; here all that was begun is finished.
    pub(super) fn open_with<T>(
        medium: M,
        policy: SplitPolicy,
        wanted: u64,
        claim: impl FnOnce(&M, Geometry, &mut Claims) -> Result<T, CcehError>,
    ) -> Result<(Self, T), CcehError> {
        let word = |place: WordAt| {
            if place.line().0 < medium.lines() { medium.load(place, Relaxed) } else { 0 }
        };
        let magic = word(MAGIC_AT);
        if magic != wanted {
            return Err(CcehError::NotAMap { found: magic });
        }
        let (stored, key) = (word(CHECKSUM_AT), word(KEY_AT));
        let computed = checksum(magic, word(GEOMETRY_AT), key);
        if stored != computed {
            return Err(CcehError::Checksum { stored, computed });
        }
        let damaged =
            |place: WordAt| CcehError::Damaged { offset: place.0 as u64 * 8, found: word(place) };
        let geometry = Geometry::of(word(GEOMETRY_AT)).ok_or_else(|| damaged(GEOMETRY_AT))?;
        let blocks = medium.lines() >> geometry.bits;
        let end = u32::try_from(blocks.min(u32::MAX as usize - 1)).unwrap_or(u32::MAX - 1);
        let is_block = |block: Block| (geometry.first_block()..end).contains(&block.0);

        let root = Entry::of(word(ROOT_AT)).filter(|root| {
            let last =
                (root.block.0 as usize + geometry.directory_blocks(root.depth)).wrapping_sub(1);
            root.depth >= MIN_DEPTH && is_block(root.block) && last < end as usize
        });
        let root = root.ok_or_else(|| damaged(ROOT_AT))?;
        let mut entries = Vec::new();
        let count = 1_usize << root.depth;
        let bytes = count * size_of::<Entry>();
        entries.try_reserve_exact(count).map_err(|_| CcehError::OutOfMemory { bytes })?;
        for at in 0..count {
            let place = geometry.entry(root.block, at);
            let entry = Entry::of(word(place)).filter(|entry| {
                is_block(entry.block) && (MIN_DEPTH..=root.depth).contains(&entry.depth)
            });
            entries.push(entry.ok_or_else(|| damaged(place))?);
        }
        let wrong = |at: usize| damaged(geometry.entry(root.block, at));
        let (runs, mended) = mend(root, &mut entries).map_err(wrong)?;

        // What nothing names is free; what is behind all that something names was never used, and takes no memory.
        let mut claims = Claims { claimed: Vec::new(), blocks: end as usize };
        claims.claim(Block(0), geometry.first_block() as usize)?;
        claims.claim(root.block, geometry.directory_blocks(root.depth))?;
        for (at, _) in &runs {
            if !claims.claim(entries[*at].block, 1)? {
                return Err(wrong(*at));
            }
        }
        let claimed = claim(&medium, geometry, &mut claims)?;
        medium.trim(geometry.line(Block(claims.claimed.len() as u32)).0)?;
        let in_small_pages = medium.wants_small_pages();
        let shadows = Shadows::new(in_small_pages);
        let mut space = Space::new(claims.claimed.len() as u32, &shadows)?;
        let mut structure = Structure::new(root);
        for (at, depth) in runs {
            let block = entries[at].block;
            let shadow = shadows.get(block);
            shadow.set_name(Name::of((at as u64) << (64 - root.depth), depth));
            shadow.set_away(true);
            shadow.set_live_unknown();
            structure.segments[depth as usize] += 1;
        }
        for (block, _) in (0..).zip(&claims.claimed).filter(|(_, is_claimed)| !**is_claimed) {
            space.put(Block(block), 1);
        }
        let hints = Hints::new();
        let mut blocks = room_for_hints(root.depth, in_small_pages)?;
        for entry in &entries {
            blocks.push(AtomicU32::new(entry.block.0));
        }
        hints.set_all(root.depth, blocks);
        // The first stores, behind all that may refuse the map.
        for at in mended {
            let place = geometry.entry(root.block, at);
            // Relaxed: nobody else knows the map.
            medium.store(place, entries[at].word(), Relaxed);
            medium.flush(place.line());
        }
        medium.fence();
        let map = Self {
            spelling: Spelling::new(key),
            medium,
            geometry,
            policy,
            shadows,
            hints,
            structure: Lock::new(structure),
            space: Lock::new(space),
        };
        Ok((map, claimed))
    }
}

/// Which blocks something names.
#[derive(Debug)]
pub(super) struct Claims {
    /// Up to the last one.
    claimed: Vec<bool>,
    /// How many blocks there are.
    blocks: usize,
}

impl Claims {
    /// Claims blocks that lie side by side; tells whether they are there and nobody else has claimed them.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn claim(&mut self, first: Block, count: usize) -> Result<bool, CcehError> {
        let from = first.0 as usize;
        let Some(to) = from.checked_add(count).filter(|to| *to <= self.blocks) else {
            return Ok(false);
        };
        if let Some(bytes) = to.checked_sub(self.claimed.len()) {
            self.claimed.try_reserve(bytes).map_err(|_| CcehError::OutOfMemory { bytes })?;
            self.claimed.resize(to, false);
        }
        let blocks = &mut self.claimed[from..to];
        let are_free = blocks.iter().all(|is_claimed| !is_claimed);
        if are_free {
            blocks.fill(true);
        }
        Ok(are_free)
    }
}

/// Where the entries of each segment begin, and its depth.
type Runs = Vec<(usize, u32)>;

/// Finishes splits, and undoes merges, that a crash has left half named in the directory (`resize.rs`). Returns the segments and the
/// entries that are others now, none of which is stored; or the entry that says what cannot be.
fn mend(root: Entry, entries: &mut [Entry]) -> Result<(Runs, Vec<usize>), usize> {
    let (mut runs, mut changed) = (Runs::new(), Vec::new());
    let mut at = 0;
    while at < entries.len() {
        // The largest run that may begin here is that of the lowest depth whose end it is aligned to.
        let depth = entries[at..].first().map_or(0, |entry| entry.depth);
        let mut span = 1_usize << (root.depth - depth);
        let mut depth = depth;
        // An entry of the left half may be ahead of others: look for one of its run that is not.
        if depth > MIN_DEPTH {
            let wider = 2 * span;
            let is_behind = |entry: &Entry| entry.depth == depth - 1;
            if at % wider == 0 && entries[at..at + wider].iter().any(is_behind) {
                (span, depth) = (wider, depth - 1);
            }
        }
        if at % span != 0 {
            return Err(at);
        }
        let run = &entries[at..at + span];
        if let Some(wrong) =
            run.iter().position(|entry| !(depth..=depth + 1).contains(&entry.depth))
        {
            return Err(at + wrong);
        }
        if run.iter().all(|entry| entry.depth == depth) {
            if let Some(wrong) = run.iter().position(|entry| entry.block != run[0].block) {
                return Err(at + wrong);
            }
            runs.push((at, depth));
            at += span;
            continue;
        }
        let half = span / 2;
        let old = run.iter().find(|entry| entry.depth == depth).map(|entry| entry.block);
        let new =
            |half: &[Entry]| half.iter().find(|entry| entry.depth > depth).map(|entry| entry.block);
        let (left, right) = run.split_at(half);
        let old = old.ok_or(at)?;
        let blocks = [new(left).unwrap_or(old), new(right).ok_or(at)?];
        for (half_at, block) in [(at + half, blocks[1]), (at, blocks[0])] {
            let is_wrong =
                |seen: &Entry| seen.block != if seen.depth == depth { old } else { block };
            if let Some(wrong) = entries[half_at..][..half].iter().position(is_wrong) {
                return Err(half_at + wrong);
            }
        }
        // In any order: one pointer to the new segment is durable already, and says that it is whole.
        for (half_at, block) in [(at + half, blocks[1]), (at, blocks[0])] {
            let mended = Entry { block, depth: depth + 1 };
            for (entry, seen) in (half_at..).zip(&mut entries[half_at..][..half]) {
                if *seen != mended {
                    *seen = mended;
                    changed.push(entry);
                }
            }
            runs.push((half_at, depth + 1));
        }
        at += span;
    }
    Ok((runs, changed))
}
