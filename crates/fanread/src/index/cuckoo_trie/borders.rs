//! Where a key belongs: in a trie, before it, or behind it.
//!
//! A key between the first bytes of a trie's borders, behind what all its keys share, belongs there: one line of the header
//! tells. Only keys that share more with a border are compared with its record.

use core::cmp::Ordering as Order;

use super::header::KEPT_PREFIX_BYTES;
use super::layout::slice_at;
use super::raw::{Memory, Trie};

impl Trie<'_> {
    /// Where `key` belongs: in this trie (`Equal`), before it or behind it (T1).
    #[inline]
    pub(super) fn place_of(self, key: &[u8], memory: &Memory) -> Order {
        let borders = self.borders();
        let bytes = self.skip_bits() as usize / 8;
        let slice = slice_at(key, bytes);
        // Strictly between the borders' slices, and with the prefix: no border has to be read.
        if bytes <= 8
            && key.len() >= bytes
            && (slice_at(key, 0) ^ borders.prefix) & borders.prefix_mask == 0
            && slice > borders.low_slice
            && (slice < borders.high_slice || !borders.bounded)
        {
            return Order::Equal;
        }
        self.place_exactly(key, slice, memory)
    }

    /// The same for keys on a border, with a long prefix, or with another one.
    #[inline(never)]
    fn place_exactly(self, key: &[u8], slice: u64, memory: &Memory) -> Order {
        let borders = self.borders();
        // As in `list::borders`: no comparison with no bytes.
        if key.is_empty() {
            let is_first = memory.border(borders.low).is_empty();
            return if is_first { Order::Equal } else { Order::Less };
        }
        let placed = self.compare_prefix(key, memory);
        if placed != Order::Equal {
            return placed;
        }
        if slice < borders.low_slice {
            return Order::Less;
        }
        if borders.bounded && slice > borders.high_slice {
            return Order::Greater;
        }
        if slice == borders.low_slice && borders.low != 0 && key < memory.border(borders.low) {
            return Order::Less;
        }
        if borders.bounded && slice == borders.high_slice && key >= memory.border(borders.high) {
            return Order::Greater;
        }
        Order::Equal
    }

    /// Compares the start of `key` with what all keys share.
    fn compare_prefix(self, key: &[u8], memory: &Memory) -> Order {
        let borders = self.borders();
        let bytes = self.skip_bits() as usize / 8;
        let start = &key[..key.len().min(bytes)];
        if bytes <= 8 {
            return start.cmp(&borders.prefix.to_be_bytes()[..bytes]);
        }
        if bytes > KEPT_PREFIX_BYTES {
            return start.cmp(&memory.border(borders.low)[..bytes]);
        }
        let (first, second) = start.split_at(start.len().min(8));
        first
            .cmp(&borders.prefix.to_be_bytes()[..])
            .then_with(|| second.cmp(&self.rest().prefix[..bytes - 8]))
    }
}
