//! Collects entries and writes them as a table file.
//!
//! Entries may come in any order. They are kept as the records they will be in the file, sorted, and placed in the order
//! in which `RocksDB` places them: values by key, then deletions by key. So the order in which they came does not show.
//!
//! What `RocksDB`'s own builder takes and then loses is refused here, each with an error of its own: lengths that differ,
//! deletions and sequences in last-level files, identity on short keys, keys that are there twice, and files that it
//! could read but not iterate.
//!
//! Memory: the entries, and while the file is written 8 bytes for each bucket.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::layout::{KIND_DELETION, KIND_VALUE, Layout, MAX_SEQUENCE, Shape, TRAILER_BYTES};
use super::place::{self, FIRST_HASHES, FREE, PlaceError, Way};
use super::properties::{self, Written, trailer};
use super::records::Records;
use super::{BuildError, TableOptions};
use crate::arch;
use crate::hash::fixed::Crc32c;

/// The most entries a table may have: the limit of the format's own builder.
const MAX_ENTRIES: u64 = (1 << 31) - 2;

/// The longest key and value: their lengths are 32-bit numbers in the file, trailer included.
const MAX_BYTES: usize = u32::MAX as usize - TRAILER_BYTES;

/// What fills the value of buckets that have none.
const FILLER: u8 = b'a';

/// How many bytes of the file are written at a time.
const WRITE_BYTES: usize = 1 << 18;

/// How many buckets ahead records are asked for while they are written; they lie in key order, buckets do not.
const AHEAD: usize = 32;

/// Collects entries and writes them as a file that [`CuckooTable`](super::CuckooTable) and `RocksDB` read.
///
/// All keys have the length of the first one, and all values that of the first one.
///
/// # Examples
///
/// ```
/// use fanread::table::{CuckooTable, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(TableOptions::new());
/// builder.insert(b"kiwi", b"\x03")?;
/// builder.insert(b"plum", b"\x07")?;
/// let mut file = Vec::new();
/// let written = builder.finish(&mut file)?;
/// assert_eq!(written.entries, 2);
///
/// let table = CuckooTable::from_bytes(file)?;
/// assert_eq!(table.get(b"plum"), Some(&[7][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TableBuilder {
    options: TableOptions,
    /// Buckets, complete; `None` before the first value.
    values: Option<Records>,
    /// Keys and trailers; `None` before the first deletion.
    deletions: Option<Records>,
    /// The number of buckets of a table whose number is a power of two: it depends on how entries came to be.
    power_of_two: u64,
}

/// What [`TableBuilder::finish`] has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableSummary {
    /// How many entries there are, deletions included.
    pub entries: u64,
    /// How many of them are deletions.
    pub deletions: u64,
    /// How many buckets there are.
    pub buckets: u64,
    /// With how many hash functions keys are found.
    pub hashes: u32,
    /// The length of the file.
    pub file_bytes: u64,
}

impl TableBuilder {
    /// Makes a builder without entries.
    pub fn new(options: TableOptions) -> Self {
        Self { options, values: None, deletions: None, power_of_two: 2 }
    }

    /// Returns how many entries were added, deletions included.
    pub fn len(&self) -> usize {
        [&self.values, &self.deletions].into_iter().flatten().map(Records::len).sum()
    }

    /// Returns whether no entry was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an entry, with sequence 0 where entries carry sequences.
    ///
    /// # Errors
    ///
    /// [`BuildError::KeyLength`] and [`BuildError::ValueLength`] for a length other than the first entry's, and others
    /// for keys that no table can hold. The builder is unchanged then.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), BuildError> {
        self.add(key, Some(value), 0)
    }

    /// Adds an entry with a sequence; the table must have [`sequences`](TableOptions::sequences).
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert), and [`BuildError::LastLevel`] if the table has no sequences and this one is not 0.
    pub fn insert_at(&mut self, key: &[u8], value: &[u8], sequence: u64) -> Result<(), BuildError> {
        self.add(key, Some(value), sequence)
    }

    /// Adds the deletion of a key; the table must have [`sequences`](TableOptions::sequences).
    ///
    /// # Errors
    ///
    /// As [`insert_at`](Self::insert_at).
    pub fn remove_at(&mut self, key: &[u8], sequence: u64) -> Result<(), BuildError> {
        self.add(key, None, sequence)
    }

    fn add(&mut self, key: &[u8], value: Option<&[u8]>, sequence: u64) -> Result<(), BuildError> {
        self.admit(key, value, sequence)?;
        let kind = if value.is_some() { KIND_VALUE } else { KIND_DELETION };
        let trailer = trailer(sequence, kind);
        let trailer = if self.options.sequences { &trailer[..] } else { &[] };
        let record_bytes = key.len() + trailer.len() + value.map_or(0, <[u8]>::len);
        let records = if value.is_some() { &mut self.values } else { &mut self.deletions };
        let records = records.get_or_insert_with(|| Records::new(record_bytes, key.len()));
        records.push([key, trailer, value.unwrap_or_default()])?;
        // As the format's builder does it: once for each entry at most, even if that is too little.
        if (self.power_of_two as f64) < self.len() as f64 / self.options.hash_ratio {
            self.power_of_two = self.power_of_two.saturating_mul(2);
        }
        Ok(())
    }

    /// Refuses what a table cannot hold.
    fn admit(&self, key: &[u8], value: Option<&[u8]>, sequence: u64) -> Result<(), BuildError> {
        let first = self.values.as_ref().or(self.deletions.as_ref());
        if key.is_empty() {
            return Err(BuildError::EmptyKey);
        }
        match first.map(|records| records.key_bytes) {
            Some(expected) if expected != key.len() => {
                return Err(BuildError::KeyLength { found: key.len(), expected });
            }
            _ => {}
        }
        if let (Some(value), Some(records)) = (value, &self.values) {
            let expected = records.record_bytes - key.len() - self.trailer_bytes();
            if value.len() != expected {
                return Err(BuildError::ValueLength { found: value.len(), expected });
            }
        }
        let longest = key.len().max(value.map_or(0, <[u8]>::len));
        if longest > MAX_BYTES {
            return Err(BuildError::TooLong { found: longest, max: MAX_BYTES });
        }
        if self.options.identity_first && key.len() < 8 {
            return Err(BuildError::IdentityNeedsEightBytes { found: key.len() });
        }
        let deletion = value.is_none();
        if !self.options.sequences && (deletion || sequence != 0) {
            return Err(BuildError::LastLevel { sequence, deletion });
        }
        if sequence > MAX_SEQUENCE {
            return Err(BuildError::Sequence { found: sequence });
        }
        if self.len() as u64 >= MAX_ENTRIES {
            return Err(BuildError::TooManyEntries { max: MAX_ENTRIES });
        }
        Ok(())
    }

    fn trailer_bytes(&self) -> usize {
        if self.options.sequences { TRAILER_BYTES } else { 0 }
    }

    /// Writes the table to `out`. The entries stay, so that a failed call can be made again.
    ///
    /// # Cost
    ///
    /// Sorts the entries unless they came in order, and takes one line fetch of the table for each of them, 16 at once.
    ///
    /// # Errors
    ///
    /// [`BuildError::DuplicateKey`], [`BuildError::NoEntries`] and others for entries that are no table; nothing has been
    /// written then. [`BuildError::Io`] if `out` failed.
    pub fn finish(&mut self, out: impl Write) -> Result<TableSummary, BuildError> {
        let entries = self.len() as u64;
        let mut layout = self.layout()?;
        for records in [&mut self.values, &mut self.deletions].into_iter().flatten() {
            records.sort()?;
        }
        let sorted = Sorted::new(self.values.as_ref(), self.deletions.as_ref());
        sorted.refuse_duplicates()?;
        let mut empty_key = sorted.unused_key().ok_or(BuildError::NoUnusedKey)?;
        if layout.has_sequences {
            empty_key.extend_from_slice(&trailer(0, KIND_VALUE));
        }
        let key = |id: u32| sorted.key(id as usize);
        if entries > layout.buckets() as u64 {
            let last = key(entries as u32 - 1);
            return Err(BuildError::TooManyCollisions { key: last.into() });
        }
        let way = if self.options.first_blocks { Way::FirstBlocks } else { Way::RocksDb };
        let placed = place::place(&mut layout, key, entries as u32, self.options.search_depth, way);
        let taken = placed.map_err(|error| match error {
            PlaceError::OutOfMemory { bytes } => BuildError::OutOfMemory { bytes },
            PlaceError::NoBucket(id) => BuildError::TooManyCollisions { key: key(id).into() },
        })?;
        let mut out = Output { out, crc: Crc32c::new(), buffer: Vec::with_capacity(WRITE_BYTES) };
        sorted.write_buckets(&taken, &empty_key, layout.bucket_bytes(), &mut out)?;
        let data_crc = out.crc_of_all()?;
        let deletions = self.deletions.as_ref().map_or(0, Records::len) as u64;
        let written =
            Written { layout: &layout, entries, deletions, empty_key: &empty_key, data_crc };
        let tail = properties::tail(&self.options, &written);
        out.out.write_all(&tail)?;
        out.out.flush()?;
        Ok(TableSummary {
            entries,
            deletions,
            buckets: layout.buckets() as u64,
            hashes: layout.hashes,
            file_bytes: layout.data_bytes() as u64 + tail.len() as u64,
        })
    }

    /// Writes the table to a file that is at `path` only when it is complete: it is written beside it, and renamed.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish); what was at `path` before is still there then.
    pub fn finish_file(&mut self, path: impl AsRef<Path>) -> Result<TableSummary, BuildError> {
        let path = path.as_ref();
        let Some(name) = path.file_name() else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        };
        let mut beside = name.to_owned();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside: PathBuf = path.with_file_name(beside);
        let written = File::create(&beside).map_err(BuildError::from).and_then(|file| {
            let summary = self.finish(&file)?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            Ok(summary)
        });
        if written.is_err() {
            // Best effort: the failure that is reported came first.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// Returns the numbers of the table, and refuses those that cannot be or that `RocksDB` would stumble over.
    fn layout(&self) -> Result<Layout, BuildError> {
        let TableOptions { hash_ratio, power_of_two, block_buckets, .. } = self.options;
        if hash_ratio.is_nan() || hash_ratio <= 0.0 {
            return Err(BuildError::HashRatio { found: hash_ratio });
        }
        let Some(first) = self.values.as_ref().or(self.deletions.as_ref()) else {
            return Err(BuildError::NoEntries);
        };
        // Deletions alone have no values, and are as long as they are.
        let value_bytes = first.record_bytes - first.key_bytes - self.trailer_bytes();
        let table_buckets =
            if power_of_two { self.power_of_two } else { (self.len() as f64 / hash_ratio) as u64 };
        let shape = Shape {
            user_key_bytes: first.key_bytes as u64,
            value_bytes: value_bytes as u64,
            block_buckets: u64::from(block_buckets),
            table_buckets,
            hashes: u64::from(FIRST_HASHES),
            has_sequences: self.options.sequences,
            modulo: !power_of_two,
            identity_first: self.options.identity_first,
        };
        // The lengths were checked when entries came, so only the number of buckets is left to be wrong.
        let layout =
            Layout::new(&shape).map_err(|_| BuildError::Buckets { found: table_buckets })?;
        let bytes = layout.data_bytes() as u64;
        if bytes > u64::from(u32::MAX) && !self.options.point_lookups_only {
            return Err(BuildError::FourGibibytes { bytes });
        }
        Ok(layout)
    }
}

/// All entries, each list sorted: values have the lower numbers.
struct Sorted<'a> {
    values: Option<&'a Records>,
    deletions: Option<&'a Records>,
    /// How many values there are.
    split: usize,
    len: usize,
}

impl<'a> Sorted<'a> {
    fn new(values: Option<&'a Records>, deletions: Option<&'a Records>) -> Self {
        let split = values.map_or(0, Records::len);
        Self { values, deletions, split, len: split + deletions.map_or(0, Records::len) }
    }

    /// Returns the list of an entry and its place there.
    #[inline]
    fn locate(&self, id: usize) -> (&'a Records, usize) {
        let (records, index) =
            if id < self.split { (self.values, id) } else { (self.deletions, id - self.split) };
        (records.expect("an entry is in one of the lists"), index)
    }

    #[inline]
    fn key(&self, id: usize) -> &'a [u8] {
        let (records, index) = self.locate(id);
        records.key(index)
    }

    /// Returns the keys of both lists in order.
    fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        let (mut value, mut deletion) = (0, self.split);
        let (split, len) = (self.split, self.len);
        core::iter::from_fn(move || {
            let from_values = match (value < split, deletion < len) {
                (false, false) => return None,
                (true, true) => self.key(value) <= self.key(deletion),
                (is_value, _) => is_value,
            };
            let next = if from_values { &mut value } else { &mut deletion };
            *next += 1;
            Some(self.key(*next - 1))
        })
    }

    /// Refuses a key that is both a value and a deletion; each list has been looked through.
    fn refuse_duplicates(&self) -> Result<(), BuildError> {
        if self.split == 0 || self.split == self.len {
            return Ok(());
        }
        let mut before = None;
        for key in self.keys() {
            if before == Some(key) {
                return Err(BuildError::DuplicateKey { key: key.into() });
            }
            before = Some(key);
        }
        Ok(())
    }

    /// Returns a key that no entry has, the one that the format's builder finds if it finds one.
    fn unused_key(&self) -> Option<Vec<u8>> {
        let ends = |at: fn(&Records) -> usize| {
            [self.values, self.deletions].into_iter().flatten().map(move |r| r.key(at(r)))
        };
        let smallest = ends(|_| 0).min()?;
        let largest = ends(|records| records.len() - 1).max()?;
        let mut key = smallest.to_vec();
        for at in (0..key.len()).rev() {
            key[at] = key[at].wrapping_sub(1);
            if *key < *smallest {
                return Some(key);
            }
        }
        let mut key = largest.to_vec();
        for at in (0..key.len()).rev() {
            key[at] = key[at].wrapping_add(1);
            if *key > *largest {
                return Some(key);
            }
        }
        // The format's builder gives up here, but there may be a gap.
        let mut next: Option<Vec<u8>> = None;
        for key in self.keys() {
            if next.as_ref().is_some_and(|next| **next < *key) {
                return next;
            }
            next = successor(key);
        }
        None
    }

    /// Writes all buckets.
    fn write_buckets<W: Write>(
        &self,
        taken: &[u32],
        empty_key: &[u8],
        bucket_bytes: usize,
        out: &mut Output<W>,
    ) -> Result<(), BuildError> {
        let filler = vec![FILLER; bucket_bytes];
        for (at, id) in taken.iter().enumerate() {
            if let Some(ahead) = taken.get(at + AHEAD).filter(|id| **id != FREE) {
                let (records, index) = self.locate(*ahead as usize);
                arch::prefetch(records.record(index).as_ptr());
            }
            let start = if *id == FREE {
                empty_key
            } else {
                let (records, index) = self.locate(*id as usize);
                records.record(index)
            };
            out.write(start)?;
            out.write(&filler[start.len()..])?;
        }
        Ok(())
    }
}

/// Returns the next key of the same length.
fn successor(key: &[u8]) -> Option<Vec<u8>> {
    let at = key.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = key.to_vec();
    next[at] += 1;
    next[at + 1..].fill(0);
    Some(next)
}

/// Writes and sums.
struct Output<W> {
    out: W,
    crc: Crc32c,
    buffer: Vec<u8>,
}

impl<W: Write> Output<W> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.pass_on()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.crc.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Returns the checksum of all bytes, having passed them on.
    fn crc_of_all(&mut self) -> io::Result<u32> {
        self.pass_on()?;
        Ok(self.crc.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused(keys: &[&[u8]]) -> Option<Vec<u8>> {
        let mut records = Records::new(keys[0].len(), keys[0].len());
        for key in keys {
            records.push([key, &[], &[]]).unwrap();
        }
        Sorted::new(Some(&records), None).unused_key()
    }

    #[test]
    fn the_unused_key_is_the_one_of_the_format() {
        assert_eq!(unused(&[b"b", b"c"]).unwrap(), b"a");
        assert_eq!(unused(&[b"b\0", b"c\0"]).unwrap(), b"a\xff");
        assert_eq!(unused(&[&[0, 0, 0, 0], &[0, 0xff, 0xff, 0xff]]).unwrap(), [1, 0, 0, 0]);
        // No byte to spare at either end: the gap in between.
        assert_eq!(unused(&[&[0], &[1], &[3], &[0xff]]).unwrap(), [2]);
        let all: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
        assert_eq!(unused(&all.iter().map(|key| &key[..]).collect::<Vec<_>>()), None);
    }
}
