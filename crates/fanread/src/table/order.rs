//! The key order of a table in a file of its own, so that the first scan need not sort.
//!
//! ```text
//! byte 0      8         16                 16 + 4 n
//!      | magic | n: u64  | n buckets: u32   |
//! ```
//!
//! Nothing ties the file to its table, since nothing in it is believed: an order is taken only if it names every bucket
//! with an entry, once, by ascending keys.

use std::io::{Read, Write};

use super::iter::AHEAD;
use super::{CuckooTable, TableError};
use crate::arch;

/// The first eight bytes: what it is, and its version.
const MAGIC: u64 = u64::from_le_bytes(*b"fanordr\x01");

const HEADER_BYTES: usize = 16;

/// How many buckets are written or read at a time.
const PART: usize = 1 << 14;

impl CuckooTable {
    /// Writes the key order of the table, for [`read_order`](Self::read_order): 16 bytes and 4 for each entry.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`] if `out` failed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fanread::table::{CuckooTable, TableBuilder, TableOptions};
    /// # let mut builder = TableBuilder::new(TableOptions::new());
    /// # builder.insert(b"kiwi", b"3")?;
    /// # let mut file = Vec::new();
    /// # builder.finish(&mut file)?;
    /// let table = CuckooTable::from_bytes(file.clone())?;
    /// let mut order = Vec::new();
    /// table.write_order(&mut order)?;
    ///
    /// let again = CuckooTable::from_bytes(file)?;
    /// again.read_order(&order[..])?;
    /// assert_eq!(again.iter().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_order(&self, mut out: impl Write) -> Result<(), TableError> {
        let order = self.order();
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&(order.len() as u64).to_le_bytes())?;
        let mut bytes = Vec::with_capacity(PART * 4);
        for part in order.chunks(PART) {
            bytes.clear();
            bytes.extend(part.iter().flat_map(|bucket| bucket.to_le_bytes()));
            out.write_all(&bytes)?;
        }
        Ok(out.flush()?)
    }

    /// Takes the key order that [`write_order`](Self::write_order) wrote, so that the first scan need not sort.
    ///
    /// # Cost
    ///
    /// Reads all of the table once in its order and once in key order, which is some times faster than sorting.
    ///
    /// # Errors
    ///
    /// [`TableError::NotAnOrder`] or [`TableError::OrderBucket`] if it is not the order of this table, which then sorts
    /// as if nothing had been read.
    pub fn read_order(&self, mut input: impl Read) -> Result<(), TableError> {
        let mut header = [0; HEADER_BYTES];
        input.read_exact(&mut header)?;
        let header = header.as_chunks::<8>().0;
        let (magic, count) = (u64::from_le_bytes(header[0]), u64::from_le_bytes(header[1]));
        let expected = (0..self.layout.buckets()).filter(|bucket| !self.is_free(*bucket)).count();
        if magic != MAGIC || count != expected as u64 {
            return Err(TableError::NotAnOrder {
                magic,
                entries: count,
                expected: expected as u64,
            });
        }
        let mut order: Vec<u32> = Vec::with_capacity(expected);
        let mut bytes = vec![0; PART * 4];
        while order.len() < expected {
            let part = &mut bytes[..PART.min(expected - order.len()) * 4];
            input.read_exact(part)?;
            order.extend(part.as_chunks::<4>().0.iter().map(|bucket| u32::from_le_bytes(*bucket)));
        }
        self.refuse_disorder(&order)?;
        // Another thread may have sorted meanwhile; its order is the same.
        let _ = self.order.set(order.into());
        Ok(())
    }

    /// Refuses buckets that are not those of entries with ascending keys. As many as there are entries are all of them.
    fn refuse_disorder(&self, order: &[u32]) -> Result<(), TableError> {
        let mut before: Option<&[u8]> = None;
        for (at, bucket) in order.iter().enumerate() {
            if let Some(ahead) = order.get(at + AHEAD) {
                // A bucket that does not exist is a hint that leads nowhere.
                let start = (*ahead as usize).wrapping_mul(self.layout.bucket_bytes());
                arch::prefetch(self.file.as_ptr().wrapping_add(start));
            }
            let place = *bucket as usize;
            let key =
                (place < self.layout.buckets() && !self.is_free(place)).then(|| self.key_in(place));
            if key.is_none() || key <= before {
                let offset = (HEADER_BYTES + at * 4) as u64;
                return Err(TableError::OrderBucket { offset, found: *bucket });
            }
            before = key;
        }
        Ok(())
    }
}
