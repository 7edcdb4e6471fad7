//! The directory: pointers to segments, and directories of twice or half the size.
//!
//! A directory of another size is written to free blocks, and one store of the root names it. The next larger one is written
//! *ahead*, a few entries with each split, so that the split that needs it finds it done: no call writes all of a large directory,
//! or is the first to touch all of its pages. As long as nothing names it, a crash leaves its blocks free.
//!
//! # Invariants
//!
//! * **D1** The first `2 * done` entries of the directory ahead, and of its hints, are those of the directory, each twice; and they are
//!   durable when the lock of the structure is free.
//!
//! PAPER: section 3.5. Doubling waits for no segment but holds up other splits.

use core::ops::Range;

use super::layout::{Block, Entry, MAX_DEPTH, MIN_DEPTH, Name, ROOT_AT};
use super::{CcehError, Map};
use crate::mem::AllocError;
use crate::mem::fixed::Fixed;
use crate::persist::medium::Medium;
use crate::sync::shim::AtomicU32;
use crate::sync::shim::Ordering::Relaxed;

/// How many entries a directory may have for each segment, and how many in any case.
///
/// Random hashes need some four; more mean that keys were chosen that collide, and a larger directory does not help.
const CROWDED: usize = 64;
const CROWDED_FROM: usize = 1 << 12;

/// How many entries of the directory a split writes ahead, each twice.
///
/// There are some four for each segment, and segments double before the directory does: four would do for hashes at random.
const STEP: usize = 32;

/// What only splits, merges and changes of the directory touch.
#[derive(Debug)]
pub(super) struct Structure {
    /// Where the directory is, and its depth.
    pub(super) root: Entry,
    /// How many segments have each depth.
    pub(super) segments: [u32; MAX_DEPTH as usize + 1],
    ahead: Option<Ahead>,
}

/// The directory of twice the size (D1).
#[derive(Debug)]
struct Ahead {
    root: Entry,
    /// How many entries of the directory are in it.
    done: usize,
    hints: Fixed<AtomicU32>,
}

impl Structure {
    /// Of a directory without segments.
    pub(super) fn new(root: Entry) -> Self {
        Self { root, segments: [0; MAX_DEPTH as usize + 1], ahead: None }
    }

    /// The directories whose blocks are taken.
    pub(super) fn directories(&self) -> impl Iterator<Item = Entry> {
        [Some(self.root), self.ahead.as_ref().map(|ahead| ahead.root)].into_iter().flatten()
    }

    /// Whether a directory of this depth has far too many entries for the segments.
    fn is_crowded_at(&self, depth: u32) -> bool {
        let segments = self.segments.iter().sum::<u32>() as usize;
        depth > MAX_DEPTH || 1_usize << depth > CROWDED_FROM.max(segments.saturating_mul(CROWDED))
    }
}

/// The entries of a directory for hashes of a name.
fn entries_of(name: Name, depth: u32) -> Range<usize> {
    let first = (name.first() >> (64 - depth)) as usize;
    first..first + (1 << (depth - name.depth()))
}

/// Room for the hints of a depth.
pub(super) fn room_for_hints(
    depth: u32,
    in_small_pages: bool,
) -> Result<Fixed<AtomicU32>, AllocError> {
    Fixed::with_room(1 << depth, in_small_pages)
}

impl<M: Medium> Map<M> {
    /// Writes entries of a directory, from right to left, and flushes their lines.
    #[cfg_attr(test, track_caller)]
    fn write_entries(&self, directory: Block, entries: Range<usize>, word: impl Fn(usize) -> u64) {
        for at in entries.clone().rev() {
            let place = self.geometry.entry(directory, at);
            // Relaxed: read by nobody before the next start, or under the lock.
            self.medium.store(place, word(at), Relaxed);
            if at == entries.start || place.index() == 0 {
                self.medium.flush(place.line());
            }
        }
    }

    fn directory_word(&self, directory: Entry, at: usize) -> u64 {
        self.medium.load(self.geometry.entry(directory.block, at), Relaxed)
    }

    /// Names a block in all entries of the directory for hashes of a name, durably.
    ///
    /// PAPER: section 3.2, from right to left.
    pub(super) fn point(&self, structure: &mut Structure, name: Name, block: Block, depth: u32) {
        let root = structure.root;
        let word = Entry { block, depth }.word();
        self.write_entries(root.block, entries_of(name, root.depth), |_| word);
        if let Some(ahead) = &mut structure.ahead {
            let entries = entries_of(name, ahead.root.depth);
            let entries = entries.start..entries.end.min(2 * ahead.done);
            if !entries.is_empty() {
                self.write_entries(ahead.root.block, entries.clone(), |_| word);
                ahead.hints[entries].iter_mut().for_each(|hint| *hint = AtomicU32::new(block.0));
            }
        }
        self.medium.fence();
    }

    /// Writes the next entries of the directory ahead, if there is room for one. The caller fences.
    pub(super) fn write_some_ahead(&self, structure: &mut Structure) {
        if !structure.is_crowded_at(structure.root.depth + 1) {
            // Without room, who needs it will say so.
            let _ = self.write_ahead(structure, STEP);
        }
    }

    /// Writes so many further entries ahead; tells whether there were any. The caller fences.
    fn write_ahead(&self, structure: &mut Structure, count: usize) -> Result<bool, CcehError> {
        let root = structure.root;
        if structure.ahead.is_none() {
            let depth = root.depth + 1;
            let hints = room_for_hints(depth, self.medium.wants_small_pages())?;
            let block = self.allocate_run(self.geometry.directory_blocks(depth))?;
            structure.ahead = Some(Ahead { root: Entry { block, depth }, done: 0, hints });
        }
        let Some(ahead) = &mut structure.ahead else { unreachable!("it was just begun") };
        let to = ahead.done.saturating_add(count).min(1 << root.depth);
        let entries = 2 * ahead.done..2 * to;
        for at in entries.clone() {
            let entry = Entry::of(self.directory_word(root, at / 2));
            ahead.hints.push(AtomicU32::new(entry.map_or(0, |entry| entry.block.0)));
        }
        let word = |at| self.directory_word(root, at / 2);
        self.write_entries(ahead.root.block, entries.clone(), word);
        ahead.done = to;
        Ok(!entries.is_empty())
    }

    /// Makes the directory at least so deep, which may be one more than it is. Returns the one before, which is the map's after a
    /// crash until the next fence, to be released then.
    pub(super) fn make_deeper(
        &self,
        structure: &mut Structure,
        depth: u32,
    ) -> Result<Option<Entry>, CcehError> {
        if depth <= structure.root.depth {
            return Ok(None);
        }
        if structure.is_crowded_at(depth) {
            return Err(CcehError::Crowded);
        }
        if self.write_ahead(structure, usize::MAX)? {
            self.medium.fence();
        }
        let Some(ahead) = structure.ahead.take() else { unreachable!("it was just written") };
        Ok(Some(self.change_root(structure, ahead.root, ahead.hints)))
    }

    /// Makes a directory that is durable the map's. Returns the one before.
    fn change_root(&self, structure: &mut Structure, new: Entry, hints: Fixed<AtomicU32>) -> Entry {
        self.hints.set_all(new.depth, hints);
        self.medium.store(ROOT_AT, new.word(), Relaxed);
        self.medium.flush(ROOT_AT.line());
        core::mem::replace(&mut structure.root, new)
    }

    pub(super) fn release_directory(&self, directory: Entry) {
        self.release(directory.block, self.geometry.directory_blocks(directory.depth));
    }

    /// Halves the directory if the segments need no more than a quarter of it.
    pub(super) fn make_shallower(&self, structure: &mut Structure) {
        let depth = structure.root.depth;
        let needs = structure.segments.iter().rposition(|count| *count > 0).unwrap_or(0) as u32;
        if depth > MIN_DEPTH && needs + 1 < depth {
            if let Some(ahead) = structure.ahead.take() {
                self.release_directory(ahead.root);
            }
            // Without room for a smaller one it stays as it is.
            if let Ok(old) = self.halve(structure) {
                self.medium.fence();
                self.release_directory(old);
            }
        }
    }

    fn halve(&self, structure: &mut Structure) -> Result<Entry, CcehError> {
        let old = structure.root;
        let depth = old.depth - 1;
        let mut hints = room_for_hints(depth, self.medium.wants_small_pages())?;
        let block = self.allocate_run(self.geometry.directory_blocks(depth))?;
        let word = |at| self.directory_word(old, 2 * at);
        for at in 0..1 << depth {
            hints.push(AtomicU32::new(Entry::of(word(at)).map_or(0, |entry| entry.block.0)));
        }
        self.write_entries(block, 0..1 << depth, word);
        self.medium.fence();
        Ok(self.change_root(structure, Entry { block, depth }, hints))
    }
}
