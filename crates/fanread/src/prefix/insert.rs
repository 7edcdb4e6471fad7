//! Changes that keep or add anchors: the first leaf, a leaf that replaces another, a split.
//!
//! Notation: `x < y < z` are the anchors of neighbouring leaves; `left` and `right` are the numbers of bytes that `y`
//! shares with `x` and with `z`. Without a `z`, `right` is 0. Which nodes name a leaf follows from its anchor and the
//! next one:
//!
//! * a prefix of `y`, of length `l`, names `y`'s leaf for the next byte if `right <= l < y.len()`: all anchors that
//!   begin with `l + 1` bytes of `y` come before `z`;
//! * the prefix `y` itself, if stored, names it as the leaf of the bare prefix;
//! * so does a prefix of `z`, of length `l`, if `right < l < z.len()`: it is above `y` and below `z`.

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::layout::{Children, EXACT, Image, LANES, LeafRef, MARK, is_marked, tag_of};
use super::node::Node;
use super::raw::Table;
use super::{Books, Overlap, PrefixTable, Prefixes, Writer};
use crate::sync::shim::fence;

impl PrefixTable {
    /// Sets the first leaf of an empty table; its anchor is empty.
    pub(crate) fn set_first(&self, writer: &mut Writer, leaf: LeafRef) {
        debug_assert_eq!(writer.books.anchors, 0);
        writer.books.anchors = 1;
        // ORDER: Release, pairs with the Acquire load in `first`.
        self.first.store(leaf.get(), Release);
    }

    /// Splits leaf `old` with anchor `low` into `left` with the same anchor and `right` with anchor `new`. `next` is
    /// the anchor behind `old`. `reserve(new.len())` was called before.
    pub(crate) fn split(
        &self,
        writer: &mut Writer,
        anchors: (&[u8], &[u8], Option<&[u8]>),
        old: LeafRef,
        (left, right): (LeafRef, LeafRef),
    ) {
        let (low, new, next) = anchors;
        debug_assert!(low < new && next.is_none_or(|next| new < next));
        debug_assert_ne!(old, right);
        self.add(writer, anchors, old, right);
        self.replace(writer, low, Some(new), old, left);
    }

    /// Replaces leaf `old` by `new`, which has the same anchor. `next` is the anchor behind it.
    pub(crate) fn replace(
        &self,
        writer: &mut Writer,
        anchor: &[u8],
        next: Option<&[u8]>,
        old: LeafRef,
        new: LeafRef,
    ) {
        if old == new {
            return;
        }
        // ORDER: Release fence, pairs with the Acquire fence in `search::route`: who finds `new` sees it complete.
        fence(Release);
        if anchor.is_empty() {
            self.first.store(new.get(), Relaxed);
        }
        let Some(table) = self.current.get_for_writer(&writer.exclusive) else { return };
        let right = Overlap::new(b"", anchor, next).right;
        let mut prefixes = Prefixes::new(table, &self.seed, anchor);
        for (len, node) in prefixes.nodes(right..anchor.len()) {
            node.repoint_child(anchor[len], new);
        }
        if let Some(node) = prefixes.node(anchor.len()) {
            node.set_at(new);
        }
        self.set_bare(table, right, next, new);
    }

    /// Makes `leaf` the leaf of the bare prefixes of `next` that are longer than `right`.
    pub(super) fn set_bare(&self, table: &Table, right: usize, next: Option<&[u8]>, leaf: LeafRef) {
        if let Some(next) = next {
            let mut prefixes = Prefixes::new(table, &self.seed, next);
            prefixes.nodes(right + 1..next.len()).for_each(|(_, node)| node.set_at(leaf));
        }
    }

    /// Adds anchor `y` of `leaf` behind `x` of leaf `before`.
    fn add(
        &self,
        writer: &mut Writer,
        (x, y, z): (&[u8], &[u8], Option<&[u8]>),
        before: LeafRef,
        leaf: LeafRef,
    ) {
        let overlap = Overlap::new(x, y, z);
        // ORDER: as in `replace`.
        fence(Release);
        self.add_nodes(writer, (x, y, z), overlap, before, leaf);
        let Some(table) = self.current.get_for_writer(&writer.exclusive) else { return };
        let mut prefixes = Prefixes::new(table, &self.seed, y);
        for (len, node) in prefixes.nodes(overlap.right..overlap.left) {
            node.set_child(y[len], leaf, false);
        }
        self.set_bare(table, overlap.right, z, leaf);
        writer.books.anchors += 1;
    }

    /// Adds `y` to the node where it leaves its neighbours, which may be new, and its own landmarks below.
    fn add_nodes(
        &self,
        writer: &mut Writer,
        (x, y, z): (&[u8], &[u8], Option<&[u8]>),
        overlap: Overlap,
        before: LeafRef,
        leaf: LeafRef,
    ) {
        let Some(table) = self.current.get_for_writer(&writer.exclusive) else { return };
        let books = &mut writer.books;
        table.raise_limits(overlap.longer().max(y.len() / 8 * 8), y.len() / 8);
        let mut prefixes = Prefixes::new(table, &self.seed, y);
        let at = overlap.longer();
        let node = prefixes.node(at).unwrap_or_else(|| {
            let image = self.branching(table, (x, y, z), overlap, before);
            // No landmark: it begins a neighbour of `y` as well, whose landmarks are stored. Readers probe for the length
            // before the node is there.
            books.rests[at % 8] += 1;
            table.set_rests(books.rests());
            add_node(table, books, prefixes.identity(at), image)
        });
        if y.len() == at {
            node.set_anchor(true);
            node.set_at(leaf);
        } else {
            node.add_child(books, y[at], leaf, y.len() == at + 1);
        }
        for len in (at / 8 * 8 + 8..=y.len()).step_by(8) {
            let mut image = Image {
                hash: 0,
                check: 0,
                is_anchor: len == y.len(),
                at: before.get(),
                children: Children::NONE,
            };
            match y.get(len) {
                None => image.at = leaf.get(),
                Some(byte) => {
                    let exact = if y.len() == len + 1 { EXACT } else { 0 };
                    image.children = Children::one(*byte, leaf.get() | exact);
                }
            }
            add_node(table, books, prefixes.identity(len), image);
        }
    }

    /// The node at which `y` leaves its neighbours, as it has to be before `y` is added: all the anchors that begin
    /// with its prefix go on with one and the same byte, or there is one only and it ends there.
    fn branching(
        &self,
        table: &Table,
        (x, y, z): (&[u8], &[u8], Option<&[u8]>),
        overlap: Overlap,
        before: LeafRef,
    ) -> Image {
        let at = overlap.longer();
        // No prefix between this node and the one above branches, so all anchors of the child there begin with
        // our prefix.
        let (len, above) = Prefixes::new(table, &self.seed, y).above(at);
        let mut image = Image {
            hash: 0,
            check: 0,
            is_anchor: false,
            at: above.before(y[len]),
            children: Children::NONE,
        };
        if overlap.left > overlap.right {
            match x.get(at) {
                None => (image.is_anchor, image.at) = (true, before.get()),
                Some(byte) => {
                    let exact = if x.len() == at + 1 { EXACT } else { 0 };
                    image.children = Children::one(*byte, before.get() | exact);
                }
            }
        } else if let Some(z) = z {
            // If `z` began several anchors, it would be stored and have children.
            let is_single = z.len() == at + 1
                && Prefixes::new(table, &self.seed, z).node(z.len()).is_none_or(|z| z.count() == 0);
            let last = above.child(y[len]).unwrap_or(0) & !EXACT;
            image.children = Children::one(z[at], last | if is_single { EXACT } else { 0 });
        }
        image
    }
}

/// Adds a node with this hash and these check bits; `reserve` has seen to it that there is room.
pub(super) fn add_node<'t>(
    table: &'t Table,
    books: &mut Books,
    (hash, check): (u64, u32),
    image: Image,
) -> Node<'t> {
    let (mut i, _) = table.home(hash);
    loop {
        let bucket = &table.buckets()[i];
        let lane = bucket.matches(0).trailing_zeros() as usize;
        if lane < LANES {
            let node = Node::new(table, i * LANES + lane);
            node.store(&Image { hash: hash >> 16 << 16, check, ..image });
            bucket.set_tag(lane, tag_of(hash));
            books.nodes += 1;
            return node;
        }
        if !is_marked(bucket.mark_word()) {
            bucket.set_tag(LANES, MARK);
            books.marks += 1;
        }
        i = table.after(i);
    }
}
