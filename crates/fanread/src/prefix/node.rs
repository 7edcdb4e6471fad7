//! A node as the writer sees it: the leaf of its bare prefix, and children, in whichever form.
//!
//! The forms keep N1 to N3 of `layout.rs`. The root is a node like others, except that it always is wide, with a
//! block of its own before all others.

use core::sync::atomic::Ordering::Relaxed;

use super::Books;
use super::layout::{
    BLOCK_LINES, BlockAt, Children, EXACT, Image, LINE_REFS, LeafRef, Line, NARROW, NARROW_AGAIN,
};
use super::raw::{ROOT_HASH, Table};
use crate::sync::shim::AtomicU32;

/// A node of the current table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'t> {
    table: &'t Table,
    line: &'t Line,
}

impl<'t> Node<'t> {
    pub(super) fn root(table: &'t Table) -> Self {
        Self { table, line: table.root() }
    }

    pub(super) fn new(table: &'t Table, slot: usize) -> Self {
        Self { table, line: &table.nodes()[slot] }
    }

    pub(super) fn image(&self) -> Image {
        Image::load(self.line)
    }

    fn is_root(&self) -> bool {
        core::ptr::eq(self.line, self.table.root())
    }

    /// The refs of a block.
    fn block(&self, at: BlockAt) -> Block<'t> {
        Block { refs: &self.table.blocks()[at.first_ref()..][..at.refs()], first: at.first }
    }

    /// Changes the leaf that the bare prefix belongs to.
    pub(super) fn set_at(&self, leaf: LeafRef) {
        let old = self.image();
        Image { at: leaf.get(), ..old.clone() }.store(self.line);
        if let Children::Wide(at) = old.children {
            let block = self.block(at);
            block.fill(0, block.run(0, old.at), leaf.get());
        }
    }

    pub(super) fn set_anchor(&self, is_anchor: bool) {
        Image { is_anchor, ..self.image() }.store(self.line);
    }

    /// All children and their refs, ascending.
    pub(super) fn children(&self) -> Vec<(u8, u32)> {
        let image = self.image();
        match image.children {
            Children::Narrow { count, bytes, refs } => {
                bytes.into_iter().zip(refs).take(count).collect()
            }
            Children::Wide(at) => {
                let block = self.block(at);
                block.children().collect()
            }
        }
    }

    /// Ref `i` of the block of a wide node.
    pub(super) fn raw_ref(&self, i: usize) -> u32 {
        match self.image().children {
            Children::Narrow { .. } => 0,
            Children::Wide(at) => self.block(at).get(i),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self.image().children {
            Children::Narrow { count, .. } => count,
            Children::Wide(at) => at.count,
        }
    }

    /// The ref of child `byte`, if there is one.
    pub(super) fn child(&self, byte: u8) -> Option<u32> {
        let image = self.image();
        match image.children {
            Children::Narrow { count, bytes, refs } => {
                bytes[..count].iter().position(|b| *b == byte).map(|i| refs[i])
            }
            Children::Wide(at) => {
                let block = self.block(at);
                let i = block.index(byte)?;
                let found = block.get(i);
                (found & !EXACT != block.before(i)).then_some(found)
            }
        }
    }

    /// The leaf before all of what begins with child `byte`.
    pub(super) fn before(&self, byte: u8) -> u32 {
        let image = self.image();
        match image.children {
            Children::Narrow { count, bytes, refs } => {
                let below = bytes[..count].iter().rposition(|b| *b < byte);
                below.map_or(image.at, |i| refs[i] & !EXACT)
            }
            Children::Wide(at) => {
                let block = self.block(at);
                let end = (usize::from(byte) + 1).max(at.first + 1) - at.first;
                block.before(end.min(at.refs()))
            }
        }
    }

    /// Replaces the ref of child `byte`, which exists.
    pub(super) fn set_child(&self, byte: u8, leaf: LeafRef, exact: bool) {
        let mut image = self.image();
        let slot = leaf.get() | if exact { EXACT } else { 0 };
        match &mut image.children {
            Children::Narrow { count, bytes, refs } => {
                if let Some(i) = bytes[..*count].iter().position(|b| *b == byte) {
                    refs[i] = slot;
                    image.store(self.line);
                }
            }
            Children::Wide(at) => {
                let block = self.block(*at);
                if let Some(i) = block.index(byte) {
                    let end = block.run(i + 1, block.get(i) & !EXACT);
                    block.set(i, slot);
                    block.fill(i + 1, end, leaf.get());
                }
            }
        }
    }

    /// Replaces the leaf of child `byte` and keeps whether it is exact.
    pub(super) fn repoint_child(&self, byte: u8, leaf: LeafRef) {
        if let Some(slot) = self.child(byte) {
            self.set_child(byte, leaf, slot & EXACT != 0);
        }
    }

    /// Adds child `byte`, which does not exist. The books have room for a block.
    pub(super) fn add_child(&self, books: &mut Books, byte: u8, leaf: LeafRef, exact: bool) {
        let mut image = self.image();
        let slot = leaf.get() | if exact { EXACT } else { 0 };
        let freed = match &mut image.children {
            Children::Narrow { count, bytes, refs } if *count < NARROW => {
                let i = bytes[..*count].iter().take_while(|b| **b < byte).count();
                bytes[i..=*count].rotate_right(1);
                refs[i..=*count].rotate_right(1);
                (bytes[i], refs[i]) = (byte, slot);
                *count += 1;
                None
            }
            Children::Wide(at) if self.block(*at).index(byte).is_some() => {
                let block = self.block(*at);
                let i = usize::from(byte) + 1 - at.first;
                let end = block.run(i, block.before(i));
                block.set(i, slot);
                block.fill(i + 1, end, leaf.get());
                at.count += 1;
                None
            }
            _ => {
                let mut all = self.children();
                let i = all.partition_point(|(b, _)| *b < byte);
                all.insert(i, (byte, slot));
                self.widen(books, &mut image, &all)
            }
        };
        image.store(self.line);
        self.free(books, freed);
    }

    /// Gives `image` a block for `all`; returns the block it had.
    fn widen(&self, books: &mut Books, image: &mut Image, all: &[(u8, u32)]) -> Option<BlockAt> {
        let first = usize::from(all[0].0) / LINE_REFS * LINE_REFS;
        let lines = BlockAt::lines_for(first, usize::from(all[all.len() - 1].0));
        let at = BlockAt { line: books.take_lines(lines), first, lines, count: all.len() };
        let block = self.block(at);
        block.fill(0, at.refs(), image.at);
        for (i, (byte, slot)) in all.iter().enumerate() {
            let start = usize::from(*byte) + 1 - first;
            let end = all.get(i + 1).map_or(at.refs(), |next| usize::from(next.0) + 1 - first);
            block.set(start, *slot);
            block.fill(start + 1, end, slot & !EXACT);
        }
        match core::mem::replace(&mut image.children, Children::Wide(at)) {
            Children::Wide(old) => Some(old),
            Children::Narrow { .. } => None,
        }
    }

    /// Removes child `byte`, which exists.
    pub(super) fn remove_child(&self, books: &mut Books, byte: u8) {
        let mut image = self.image();
        let mut freed = None;
        match &mut image.children {
            Children::Narrow { count, bytes, refs } => {
                let Some(i) = bytes[..*count].iter().position(|b| *b == byte) else { return };
                (bytes[i], refs[i]) = (0, 0);
                bytes[i..*count].rotate_left(1);
                refs[i..*count].rotate_left(1);
                *count -= 1;
            }
            Children::Wide(at) => {
                let block = self.block(*at);
                let Some(i) = block.index(byte) else { return };
                let end = block.run(i + 1, block.get(i) & !EXACT);
                block.fill(i, end, block.before(i));
                at.count -= 1;
                if at.count <= NARROW_AGAIN && !self.is_root() {
                    freed = Some(*at);
                    image.children = self.narrowed(*at);
                }
            }
        }
        image.store(self.line);
        self.free(books, freed);
    }

    fn narrowed(&self, at: BlockAt) -> Children {
        let (mut bytes, mut refs, mut count) = ([0; NARROW], [0; NARROW], 0);
        for (byte, slot) in self.block(at).children() {
            (bytes[count], refs[count]) = (byte, slot);
            count += 1;
        }
        Children::Narrow { count, bytes, refs }
    }

    /// Clears the node, after its tag is gone.
    pub(super) fn clear(&self, books: &mut Books) {
        let freed = match self.image().children {
            Children::Wide(at) => Some(at),
            Children::Narrow { .. } => None,
        };
        (0..8).for_each(|i| self.line.set_word(i, 0));
        self.free(books, freed);
    }

    fn free(&self, books: &mut Books, block: Option<BlockAt>) {
        if let Some(at) = block {
            self.block(at).clear();
            books.give_lines(at.line, at.lines);
        }
    }

    pub(super) fn store(&self, image: &Image) {
        image.store(self.line);
    }

    /// Makes this the root of a new table, with the bare prefix at `leaf`.
    pub(super) fn start_root(&self, leaf: LeafRef) {
        let at = BlockAt { line: 0, first: 0, lines: BLOCK_LINES, count: 0 };
        let children = Children::Wide(at);
        let hash = ROOT_HASH >> 16 << 16;
        Image { hash, check: 0, is_anchor: true, at: leaf.get(), children }.store(self.line);
        self.block(at).fill(0, at.refs(), leaf.get());
    }
}

/// The refs of a wide node: the bare prefix's, and from 1 on those of the bytes from `first` on.
#[derive(Clone, Copy)]
struct Block<'t> {
    refs: &'t [AtomicU32],
    first: usize,
}

impl<'t> Block<'t> {
    fn len(self) -> usize {
        self.refs.len()
    }

    /// Where the ref of `byte` is, if the block has one.
    fn index(self, byte: u8) -> Option<usize> {
        let i = usize::from(byte).checked_sub(self.first)? + 1;
        (i < self.len()).then_some(i)
    }

    fn get(self, i: usize) -> u32 {
        // Relaxed: as in `Line::word`.
        self.refs[i].load(Relaxed)
    }

    fn set(self, i: usize, slot: u32) {
        // Relaxed: as in `Line::word`.
        self.refs[i].store(slot, Relaxed);
    }

    /// The leaf before ref `i`, which is not the first.
    fn before(self, i: usize) -> u32 {
        self.get(i - 1) & !EXACT
    }

    /// Where the run of refs to `leaf` that begins at `from` ends.
    fn run(self, from: usize, leaf: u32) -> usize {
        (from..self.len()).find(|i| self.get(*i) & !EXACT != leaf).unwrap_or(self.len())
    }

    /// Makes refs `from..to`, which are no children, point to `leaf`.
    fn fill(self, from: usize, to: usize, leaf: u32) {
        (from..to).for_each(|i| self.set(i, leaf | EXACT));
    }

    /// The children and their refs, ascending.
    fn children(self) -> impl Iterator<Item = (u8, u32)> + use<'t> {
        (1..self.len())
            .filter(move |i| self.before(*i) != self.get(*i) & !EXACT)
            .map(move |i| ((self.first + i - 1) as u8, self.get(i)))
    }

    fn clear(self) {
        (0..self.len()).for_each(|i| self.set(i, 0));
    }
}
