//! What a leaf shows of its place among the leaves: two lines at its start.
//!
//! ```text
//! line 0   0        8     12    16       24      32    40         48          56        64
//!          +--------+-----+-----+--------+-------+-----+----------+-----------+---------+
//!          |version |next |prev | counts | shape |mask | low slice| high slice|prefix 8 |
//!          +--------+-----+-----+--------+-------+-----+----------+-----------+---------+
//! line 1   low record 8, high record 8, prefix 8..56
//! ```
//!
//! *prefix* is what `low` and `high` have in common, and so every key between them; *mask* covers its first eight bytes.
//! The *slices* are the eight bytes of `low` and `high` behind it, big-endian. A key is usually placed by them alone.

use core::cmp::Ordering as Order;

use crate::mem::LINE_BYTES;
use crate::prefix::LeafRef;
use crate::sync::shim::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Release},
};
use crate::sync::version::Version;

/// Prefix bytes that a leaf keeps. Longer prefixes are compared with the border records.
const KEPT_PREFIX_BYTES: usize = 8 + 48;

/// Line 0 of a leaf; `S` is what else never changes in its life.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Header<S> {
    pub(crate) version: Version,
    /// The next leaf; in a dead leaf the one that replaces it. 0: none.
    next: AtomicU32,
    /// The leaf before. 0: none.
    prev: AtomicU32,
    /// What the leaf counts.
    pub(crate) counts: AtomicU64,
    /// Length of the common prefix.
    prefix_bytes: u16,
    /// Whether there is an upper border.
    pub(crate) bounded: bool,
    pub(crate) shape: S,
    prefix_mask: u64,
    pub(crate) low_slice: u64,
    pub(crate) high_slice: u64,
    /// The first eight bytes of the prefix, big-endian, zeros behind it.
    prefix: u64,
}

/// Line 1 of a leaf.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Border {
    /// Record of the lower border, owned by this leaf; 0: the empty key.
    pub(crate) low: u64,
    /// Record of the upper border, owned by the next leaf; 0: none.
    pub(crate) high: u64,
    prefix: [u8; 48],
}

const _: () = assert!(size_of::<Border>() == LINE_BYTES);

/// The borders of a leaf to be made: their records and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<'a> {
    pub(crate) low: (u64, &'a [u8]),
    pub(crate) high: Option<(u64, &'a [u8])>,
}

impl Limits<'_> {
    /// How many bytes all keys between the borders share.
    pub(crate) fn prefix_bytes(&self) -> usize {
        self.high.map_or(0, |(_, high)| crate::arch::common_prefix(self.low.1, high))
    }
}

impl<S> Header<S> {
    /// Lines 0 and 1 of a leaf without entries and neighbours.
    pub(crate) fn new(limits: Limits<'_>, shape: S) -> (Self, Border) {
        const { assert!(size_of::<Self>() == LINE_BYTES) };
        let at = limits.prefix_bytes();
        let (low, high) = (limits.low, limits.high.unwrap_or((0, &[])));
        let mut prefix = [0_u8; KEPT_PREFIX_BYTES];
        let kept = at.min(KEPT_PREFIX_BYTES);
        prefix[..kept].copy_from_slice(&low.1[..kept]);
        let mut second = [0; 48];
        second.copy_from_slice(&prefix[8..]);
        let bounded = limits.high.is_some();
        let header = Self {
            version: Version::default(),
            next: AtomicU32::new(0),
            prev: AtomicU32::new(0),
            counts: AtomicU64::new(0),
            prefix_bytes: at as u16,
            bounded,
            shape,
            prefix_mask: !u64::MAX.checked_shr(8 * at.min(8) as u32).unwrap_or(0),
            low_slice: slice_at(low.1, at),
            high_slice: if bounded { slice_at(high.1, at) } else { u64::MAX },
            prefix: slice_at(&prefix, 0),
        };
        (header, Border { low: low.0, high: high.0, prefix: second })
    }

    /// Length of what all keys of the leaf begin with.
    #[inline(always)]
    pub(crate) fn prefix_bytes(&self) -> usize {
        usize::from(self.prefix_bytes)
    }

    /// The next leaf; of a dead leaf, the one that replaces it.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<LeafRef> {
        // ORDER: Acquire, pairs with the Release store in `set_next`: the leaf named is formatted and filled.
        LeafRef::new(self.next.load(Acquire))
    }

    /// The leaf before.
    #[inline(always)]
    pub(crate) fn prev(&self) -> Option<LeafRef> {
        // ORDER: Acquire, as in `next`.
        LeafRef::new(self.prev.load(Acquire))
    }

    /// Links. The caller holds the list's lock, or has not published the leaf.
    pub(crate) fn set_next(&self, next: Option<LeafRef>) {
        // ORDER: Release, pairs with `next`.
        self.next.store(next.map_or(0, LeafRef::get), Release);
    }

    /// Links backwards, as `set_next`.
    pub(crate) fn set_prev(&self, prev: Option<LeafRef>) {
        // ORDER: Release, pairs with `prev`.
        self.prev.store(prev.map_or(0, LeafRef::get), Release);
    }

    /// The first eight bytes of the prefix, big-endian, zeros behind it.
    #[inline(always)]
    pub(crate) fn short_prefix(&self) -> u64 {
        self.prefix
    }

    /// Whether a key starts with this leaf's prefix, which has at most 8 bytes and no more than the key.
    #[inline(always)]
    pub(crate) fn has_short_prefix(&self, key: &[u8]) -> bool {
        (slice_at(key, 0) ^ self.prefix) & self.prefix_mask == 0
    }

    /// Where `key` belongs: in this leaf (`Equal`), before it or behind it. `bytes_of` reads the record of a border.
    #[inline(always)]
    pub(crate) fn place<'a>(
        &self,
        border: &Border,
        key: &[u8],
        bytes_of: impl Fn(u64) -> &'a [u8],
    ) -> Order {
        let bytes = self.prefix_bytes();
        let slice = slice_at(key, bytes);
        // Strictly between the borders' slices, and with the leaf's prefix: no border has to be read.
        if bytes <= 8
            && key.len() >= bytes
            && self.has_short_prefix(key)
            && slice > self.low_slice
            && (slice < self.high_slice || !self.bounded)
        {
            return Order::Equal;
        }
        self.place_exactly(border, key, slice, bytes_of)
    }

    /// The same for keys on a border, or that have another prefix.
    #[inline(never)]
    fn place_exactly<'a>(
        &self,
        border: &Border,
        key: &[u8],
        slice: u64,
        bytes_of: impl Fn(u64) -> &'a [u8],
    ) -> Order {
        // No bytes are at no address, and `memcmp` may ask for them there: it takes 80 ns to find out that nothing is wanted.
        if key.is_empty() {
            return if border.low == 0 { Order::Equal } else { Order::Less };
        }
        let start = &key[..key.len().min(self.prefix_bytes())];
        let placed = self.compare_prefix(border, start, &bytes_of);
        if placed != Order::Equal {
            return placed;
        }
        if slice < self.low_slice {
            return Order::Less;
        }
        if self.bounded && slice > self.high_slice {
            return Order::Greater;
        }
        if slice == self.low_slice && border.low != 0 && key < bytes_of(border.low) {
            return Order::Less;
        }
        if self.bounded && slice == self.high_slice && key >= bytes_of(border.high) {
            return Order::Greater;
        }
        Order::Equal
    }

    /// Compares the start of a key, as long as the prefix if it can be, with the prefix.
    fn compare_prefix<'a>(
        &self,
        border: &Border,
        start: &[u8],
        bytes_of: &impl Fn(u64) -> &'a [u8],
    ) -> Order {
        let bytes = self.prefix_bytes();
        if bytes <= 8 {
            return start.cmp(&self.prefix.to_be_bytes()[..bytes]);
        }
        if bytes > KEPT_PREFIX_BYTES {
            return start.cmp(&bytes_of(border.low)[..bytes]);
        }
        let (first, second) = start.split_at(start.len().min(8));
        first
            .cmp(&self.prefix.to_be_bytes()[..])
            .then_with(|| second.cmp(&border.prefix[..bytes - 8]))
    }
}

/// Eight bytes of a key, big-endian, zeros behind its end.
#[inline(always)]
pub(crate) fn slice_at(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or(&[]);
    if let Some(eight) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    // Fewer than eight: two overlapping loads, or three single bytes.
    let len = rest.len();
    if let (Some(head), Some(tail)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        let head = u64::from(u32::from_be_bytes(*head)) << 32;
        let tail = u64::from(u32::from_be_bytes(*tail)) << (8 * (8 - len));
        return head | tail;
    }
    let byte = |i: usize| rest.get(i).map_or(0, |byte| u64::from(*byte) << (56 - 8 * i));
    byte(0) | byte(1) | byte(2)
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_eight_bytes_with_zeros_behind_the_end() {
        let key: Vec<u8> = (1..=12).collect();
        for len in 0..=12 {
            for at in 0..=13 {
                let mut bytes = [0; 8];
                for (i, byte) in bytes.iter_mut().enumerate() {
                    *byte = key[..len].get(at + i).copied().unwrap_or(0);
                }
                assert_eq!(slice_at(&key[..len], at), u64::from_be_bytes(bytes), "{len} {at}");
            }
        }
    }

    #[test]
    fn a_key_is_placed_as_its_bytes_say() {
        let borders: [&[u8]; 8] =
            [b"", b"a", b"ab\0", b"abcdefgh", b"abcdefghijkl", b"abcdefghijkl\0", b"b", b"b\xff"];
        let long = [&[7; 70][..], b"x"].concat();
        let longer = [&[7; 70][..], b"y"].concat();
        let mut pairs = vec![(&long[..], Some(&longer[..]))];
        for (i, low) in borders.iter().enumerate() {
            pairs.extend(borders[i + 1..].iter().map(|high| (*low, Some(*high))));
            pairs.push((*low, None));
        }
        for (low, high) in pairs {
            let number = u64::from(!low.is_empty());
            let limits = Limits { low: (number, low), high: high.map(|high| (2, high)) };
            let (header, border) = Header::new(limits, [0_u8; 4]);
            let bytes_of = |record| if record == 1 { low } else { high.unwrap_or(&[]) };
            let mut keys: Vec<Vec<u8>> = borders.iter().map(|key| key.to_vec()).collect();
            keys.extend([long.clone(), longer.clone(), vec![7; 70], vec![7; 71], vec![255; 9]]);
            keys.extend(borders.iter().map(|key| [key, &b"\0"[..]].concat()));
            for key in keys {
                let expected = if &key[..] < low {
                    Order::Less
                } else if high.is_some_and(|high| &key[..] >= high) {
                    Order::Greater
                } else {
                    Order::Equal
                };
                let placed = header.place(&border, &key, bytes_of);
                assert_eq!(placed, expected, "{key:?} in {low:?}..{high:?}");
            }
        }
    }

    #[test]
    fn nothing_is_compared_with_no_bytes() {
        for low in [(0, &b""[..]), (1, b"ab")] {
            for high in [None, Some((2, &b"ac"[..]))] {
                let (header, border) = Header::new(Limits { low, high }, [0_u8; 4]);
                let expected = if low.0 == 0 { Order::Equal } else { Order::Less };
                assert_eq!(header.place(&border, b"", |_| unreachable!("a border")), expected);
            }
        }
        // Keys whose slice is that of the empty border.
        let (header, border) = Header::new(Limits { low: (0, b""), high: None }, [0_u8; 4]);
        for key in [&[0; 8][..], &[0; 12]] {
            let placed = header.place(&border, key, |_| unreachable!("a border"));
            assert_eq!(placed, Order::Equal, "{key:?}");
        }
    }
}
