//! Taking anchors out: a merge of two leaves.
//!
//! The notation is that of `insert.rs`; a merge undoes what a split did there, in the opposite order.

use core::sync::atomic::Ordering::Release;

use super::layout::{LANES, LeafRef};
use super::node::Node;
use super::raw::Table;
use super::{Books, Overlap, PrefixTable, Prefixes, Writer};
use crate::sync::shim::fence;

impl PrefixTable {
    /// Makes one leaf, `merged` with anchor `low`, of the neighbours `left` with anchor `low` and `right` with anchor
    /// `gone`. `next` is the anchor behind them.
    pub(crate) fn merge(
        &self,
        writer: &mut Writer,
        anchors: (&[u8], &[u8], Option<&[u8]>),
        (left, right): (LeafRef, LeafRef),
        merged: LeafRef,
    ) {
        let (low, gone, next) = anchors;
        debug_assert!(low < gone && next.is_none_or(|next| gone < next));
        self.take_out(writer, anchors, left);
        // A reference to `right` can only be left where `replace` puts `merged`.
        debug_assert_ne!(left, right);
        self.replace(writer, low, next, left, merged);
    }

    /// Takes out anchor `y`, whose leaf's part falls to `before`, the leaf of `x`.
    fn take_out(
        &self,
        writer: &mut Writer,
        (x, y, z): (&[u8], &[u8], Option<&[u8]>),
        before: LeafRef,
    ) {
        let overlap = Overlap::new(x, y, z);
        // ORDER: as in `insert.rs`.
        fence(Release);
        let Some(table) = self.current.get_for_writer(&writer.exclusive) else { return };
        let books = &mut writer.books;
        let mut prefixes = Prefixes::new(table, &self.seed, y);
        for (len, node) in prefixes.nodes(overlap.right..overlap.left) {
            // `x` is now the last anchor of this child, and the only one if it ends here.
            node.set_child(y[len], before, x.len() == len + 1);
        }
        self.set_bare(table, overlap.right, z, before);
        let at = overlap.longer();
        let mut prefixes = Prefixes::new(table, &self.seed, y);
        if let Some(node) = prefixes.node(at) {
            if y.len() == at {
                node.set_anchor(false);
                node.set_at(before);
            } else {
                node.remove_child(books, y[at]);
            }
            let branches = node.count() + usize::from(node.image().is_anchor) >= 2;
            if !at.is_multiple_of(8) && !branches {
                remove_node(table, books, prefixes.slot(at));
                books.rests[at % 8] -= 1;
                table.set_rests(books.rests());
            }
        }
        for len in (at / 8 * 8 + 8..=y.len()).step_by(8) {
            let slot = prefixes.slot(len);
            remove_node(table, books, slot);
        }
        books.anchors -= 1;
    }
}

/// Removes the node in `slot`: first its tag, so that no reader who starts finds it, then what it holds.
fn remove_node(table: &Table, books: &mut Books, slot: Option<usize>) {
    if let Some(slot) = slot {
        table.buckets()[slot / LANES].set_tag(slot % LANES, 0);
        Node::new(table, slot).clear(books);
        books.nodes -= 1;
        books.removed += 1;
    }
}
