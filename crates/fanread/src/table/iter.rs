//! Entries in the order of their keys.
//!
//! A table is in the order of hashes. The first scan sorts: it keeps the bucket of each entry, 4 bytes an entry, for as
//! long as the table lives, and takes 16 bytes an entry while it sorts. `order.rs` keeps the result in a file. Lookups need
//! none of it.

use core::iter::FusedIterator;
use core::ops::{Bound, RangeBounds};

use super::{CuckooTable, Entry};
use crate::arch;

/// How many entries ahead a scan asks for buckets: each is on a line of its own, and one step of a scan is short.
pub(super) const AHEAD: usize = 16;

/// Entries in key order, deletions included; see [`CuckooTable::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'t> {
    table: &'t CuckooTable,
    /// The buckets of entries that were not yielded.
    buckets: &'t [u32],
}

/// Keys and values in key order; see [`CuckooTable::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'t>(Entries<'t>);

impl CuckooTable {
    /// Returns all keys and values in key order; see [`range`](Self::range).
    pub fn iter(&self) -> Iter<'_> {
        self.range(..)
    }

    /// Returns the keys inside `range` and their values, in key order, from either end.
    ///
    /// Bounds may be of any length. Inverted bounds are an empty range, not a panic.
    ///
    /// # Cost
    ///
    /// The first scan of a table reads and sorts all of it, with 16 bytes of memory an entry, unless the order was taken
    /// from a file by [`read_order`](Self::read_order). After that, finding each bound takes two line fetches for each
    /// halving of the table, all of which wait for each other, and an entry one, asked for 16 entries ahead.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fanread::table::{CuckooTable, TableBuilder, TableOptions};
    /// # let mut builder = TableBuilder::new(TableOptions::new());
    /// # for key in [b"a", b"b", b"c", b"d"] {
    /// #     builder.insert(key, key)?;
    /// # }
    /// # let mut file = Vec::new();
    /// # builder.finish(&mut file)?;
    /// let table = CuckooTable::from_bytes(file)?;
    /// let from: &[u8] = b"b";
    /// let mut range = table.range(from..);
    /// assert_eq!(range.next(), Some((&b"b"[..], &b"b"[..])));
    /// assert_eq!(range.next_back(), Some((&b"d"[..], &b"d"[..])));
    /// assert_eq!(range.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Iter<'_> {
        Iter(self.entries(range))
    }

    /// Returns the entries inside `range`, deletions included; otherwise as [`range`](Self::range).
    pub fn entries<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Entries<'_> {
        let buckets = self.order();
        let below = |bound: &[u8]| buckets.partition_point(|b| self.key_in(*b as usize) < bound);
        let up_to = |bound: &[u8]| buckets.partition_point(|b| self.key_in(*b as usize) <= bound);
        let start = match range.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(key) => below(key),
            Bound::Excluded(key) => up_to(key),
        };
        let end = match range.end_bound() {
            Bound::Unbounded => buckets.len(),
            Bound::Included(key) => up_to(key),
            Bound::Excluded(key) => below(key),
        };
        Entries { table: self, buckets: buckets.get(start..end).unwrap_or_default() }
    }

    /// Returns the buckets of all entries in key order.
    pub(super) fn order(&self) -> &[u32] {
        self.order.get_or_init(|| {
            let taken = |bucket: &usize| !self.is_free(*bucket);
            let count = (0..self.layout.buckets()).filter(taken).count();
            let mut starts: Vec<(u64, u32)> = Vec::with_capacity(count);
            for bucket in (0..self.layout.buckets()).filter(taken) {
                starts.push((start_of(self.key_in(bucket)), bucket as u32));
            }
            // Most comparisons end at the first eight bytes, without a look at the table.
            starts.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0).then_with(|| self.key_in(a.1 as usize).cmp(self.key_in(b.1 as usize)))
            });
            starts.into_iter().map(|(_, bucket)| bucket).collect()
        })
    }
}

/// Returns the first eight bytes of a key as a number in the order of keys of one length.
fn start_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

impl<'t> Entries<'t> {
    fn entry(&self, bucket: u32) -> Entry<'t> {
        self.table.entry_at(bucket as usize * self.table.layout.bucket_bytes())
    }

    fn ask(&self, bucket: Option<&u32>) {
        if let Some(bucket) = bucket {
            arch::prefetch(self.table.key_in(*bucket as usize).as_ptr());
        }
    }
}

impl<'t> Iterator for Entries<'t> {
    type Item = Entry<'t>;

    fn next(&mut self) -> Option<Entry<'t>> {
        let (first, rest) = self.buckets.split_first()?;
        self.buckets = rest;
        self.ask(rest.get(AHEAD));
        Some(self.entry(*first))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.buckets.len(), Some(self.buckets.len()))
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (last, rest) = self.buckets.split_last()?;
        self.buckets = rest;
        self.ask(rest.len().checked_sub(AHEAD).map(|at| &rest[at]));
        Some(self.entry(*last))
    }
}

impl ExactSizeIterator for Entries<'_> {}
impl FusedIterator for Entries<'_> {}

impl<'t> Iterator for Iter<'t> {
    type Item = (&'t [u8], &'t [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.find_map(|entry| Some((entry.key, entry.value?)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let most = self.0.len();
        // Only tables with sequences hold deletions, which are passed over.
        (if self.0.table.layout.has_sequences { 0 } else { most }, Some(most))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let entry = self.0.next_back()?;
            if let Some(value) = entry.value {
                return Some((entry.key, value));
            }
        }
    }
}

impl FusedIterator for Iter<'_> {}

impl<'t> IntoIterator for &'t CuckooTable {
    type Item = (&'t [u8], &'t [u8]);
    type IntoIter = Iter<'t>;

    fn into_iter(self) -> Iter<'t> {
        self.iter()
    }
}
