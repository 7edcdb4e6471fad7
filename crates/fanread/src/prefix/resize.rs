//! Room for the next change, and tables of other sizes.
//!
//! A new size is a new table: it is filled while readers use the old one, published by one store, and the old one
//! becomes garbage. Nothing is written to a table that was replaced, and nothing but the writer writes to either, so
//! the copy needs no care.

use core::sync::atomic::Ordering::Relaxed;

use super::layout::{Children, Image, LANES, LINE_REFS, NARROW};
use super::node::Node;
use super::raw::{Garbage, Table};
use super::{BLOCK_LINES, Books, PrefixTable, Writer, insert::add_node};
use crate::mem::AllocError;
use crate::sync::shim::AtomicU32;

/// How full a table may become, in sixteenths of its lanes.
///
/// Fuller tables have more buckets that overflow, which a search can only resolve by looking at nodes: at 10 of 16,
/// 1 bucket in 200 overflows; at 12, one in 20. Emptier ones take more memory for nodes.
const FULL: usize = 10;
/// How full a table is after it was given another size. Nearer to `FULL`, tables are copied more often; the copy costs
/// some 20 ns per node, and a table grows by a quarter of its nodes in between.
const FRESH: usize = 8;
/// How many buckets a small table has at most. In a small one each bucket is on the way of many searches, and one that
/// overflows makes all of those look at nodes; so small ones are kept emptier, to `SMALL_FULL` and `SMALL_FRESH`. That
/// costs 40 KiB at most.
const SMALL: usize = 64;
const SMALL_FULL: usize = 7;
const SMALL_FRESH: usize = 6;
/// How empty a table may become.
const SPARSE: usize = 3;

impl PrefixTable {
    /// Makes room for one `split` with a new anchor of `anchor_len` bytes. Returns the table this replaced, if any.
    ///
    /// # Errors
    ///
    /// If the system gives no memory; nothing has changed then.
    pub(crate) fn reserve(
        &self,
        writer: &mut Writer,
        anchor_len: usize,
    ) -> Result<Option<Garbage>, AllocError> {
        self.reserve_nodes(writer, 1 + anchor_len / 8)
    }

    /// Makes room for `extra` more nodes and a block.
    ///
    /// # Errors
    ///
    /// As `reserve`.
    fn reserve_nodes(
        &self,
        writer: &mut Writer,
        extra: usize,
    ) -> Result<Option<Garbage>, AllocError> {
        let books = &writer.books;
        let nodes = books.nodes + extra;
        let table = self.current.get_for_writer(&writer.exclusive);
        let buckets = table.map_or(0, |table| table.buckets().len());
        // No node has more children than there are anchors but one; but one that has lost some may still have a block.
        let few = books.anchors <= NARROW && books.live_lines == 0;
        let lines = if few { 0 } else { BLOCK_LINES };
        // Marks stay when what was passed on is removed, and many of them make searches slow. The copy is paid for by
        // the removals.
        let cluttered = books.marks * 8 > buckets && books.removed > books.nodes / 2 + 64;
        let fits = nodes * 16 <= buckets * LANES * full(buckets);
        if fits && books.next_line + lines <= books.lines_end && !cluttered {
            return Ok(None);
        }
        let lines =
            if lines == 0 { 0 } else { books.live_lines + books.live_lines / 2 + 2 * lines };
        self.rebuild(writer, if fits { buckets } else { buckets_for(nodes) }, lines)
    }

    /// Shrinks a table that is far too large, if memory for the smaller one can be had. Returns the old one.
    pub(crate) fn trim(&self, writer: &mut Writer) -> Option<Garbage> {
        let books = &writer.books;
        let table = self.current.get_for_writer(&writer.exclusive)?;
        let buckets = table.buckets().len();
        if books.anchors <= 1 {
            writer.books = Books { anchors: books.anchors, ..Books::NEW };
            return self.current.replace(None, &mut writer.exclusive);
        }
        if buckets == 1 || books.nodes * 16 > buckets * LANES * SPARSE {
            return None;
        }
        let lines = books.live_lines + books.live_lines / 2 + 2 * BLOCK_LINES;
        self.rebuild(writer, buckets_for(books.nodes), lines).ok().flatten()
    }

    /// Moves everything into a table of this size.
    ///
    /// # Errors
    ///
    /// As `reserve`.
    fn rebuild(
        &self,
        writer: &mut Writer,
        buckets: usize,
        lines: usize,
    ) -> Result<Option<Garbage>, AllocError> {
        let new = Table::new(buckets, lines)?;
        let Books { anchors, rests, .. } = writer.books;
        let lines_end = BLOCK_LINES + lines;
        let mut books = Books { rests, anchors, lines_end, ..Books::NEW };
        new.set_rests(books.rests());
        if let Some(old) = self.current.get_for_writer(&writer.exclusive) {
            copy(old, &new, &mut books);
        } else if let Some(first) = self.first() {
            Node::root(&new).start_root(first);
        }
        writer.books = books;
        Ok(self.current.replace(Some(new), &mut writer.exclusive))
    }
}

fn copy(old: &Table, new: &Table, books: &mut Books) {
    let (deepest, landmarks) = old.limits();
    new.raise_limits(deepest, landmarks);
    (0..8).for_each(|i| new.root().set_word(i, old.root().word(i)));
    let root = BLOCK_LINES * LINE_REFS;
    copy_refs(&old.blocks()[..root], &new.blocks()[..root]);
    for (i, bucket) in old.buckets().iter().enumerate() {
        for lane in (0..LANES).filter(|lane| bucket.tag(*lane) != 0) {
            let mut image = Image::load(&old.nodes()[i * LANES + lane]);
            if let Children::Wide(at) = &mut image.children {
                let from = &old.blocks()[at.first_ref()..][..at.refs()];
                at.line = books.take_lines(at.lines);
                copy_refs(from, &new.blocks()[at.first_ref()..][..at.refs()]);
            }
            let hash = image.hash | u64::from(bucket.tag(lane));
            add_node(new, books, (hash, image.check), image);
        }
    }
}

fn copy_refs(from: &[AtomicU32], to: &[AtomicU32]) {
    // Relaxed: as in `Line::word`.
    from.iter().zip(to).for_each(|(from, to)| to.store(from.load(Relaxed), Relaxed));
}

/// How full a table with this many buckets may become, in sixteenths.
fn full(buckets: usize) -> usize {
    if buckets <= SMALL { SMALL_FULL } else { FULL }
}

/// The number of buckets of a new table for this many nodes.
fn buckets_for(nodes: usize) -> usize {
    let buckets = |fresh| (nodes * 16).div_ceil(LANES * fresh).max(1);
    if buckets(FRESH) <= SMALL { buckets(SMALL_FRESH) } else { buckets(FRESH) }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_new_table_is_neither_full_nor_sparse() {
        for nodes in 1..10_000 {
            let lanes = buckets_for(nodes) * LANES;
            let full = full(buckets_for(nodes));
            assert!((nodes + nodes / 8) * 16 <= lanes * full, "{nodes}");
            assert!(lanes == LANES || nodes * 16 > lanes * SPARSE, "not trimmed at once: {nodes}");
        }
    }
}
