//! Collects entries and writes them as a table file.
//!
//! Entries may come in any order. They are kept as the records they will be in the file, sorted, and placed in the order
//! in which `RocksDB` places them: values by key, then deletions by key. So the order in which they came does not show.
//!
//! What `RocksDB`'s own builder takes and then loses is refused here, each with an error of its own: lengths that differ,
//! deletions and sequences in last-level files, identity on short keys, keys that are there twice, and files that it
//! could read but not iterate.
//!
//! Memory: the entries up to a limit (`spill.rs`), and while the file is written 4 bytes for each bucket, and 4 more for
//! each entry if there are entries in a file.

use core::fmt;
use std::io::Write;
use std::path::Path;

use super::layout::{KIND_DELETION, KIND_VALUE, Layout, MAX_SEQUENCE, Shape, TRAILER_BYTES};
use super::place::{self, FIRST_HASHES, PlaceError, Way};
use super::properties::{self, Written, trailer};
use super::spill::{Kind, Store};
use super::write::{self, Output, free_bucket};
use super::{BuildError, TableOptions};
use crate::mem::temporary::Replacement;

/// The most entries a table may have: the limit of the format's own builder.
const MAX_ENTRIES: u64 = (1 << 31) - 2;

/// The longest key and value: their lengths are 32-bit numbers in the file, trailer included.
const MAX_BYTES: usize = u32::MAX as usize - TRAILER_BYTES;

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
    store: Store,
    /// The number of buckets of a table whose number is a power of two: it depends on how entries came to be.
    power_of_two: u64,
    progress: Progress,
}

/// What [`TableBuilder::finish`] is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildStep {
    /// Sorts entries, in memory or from a temporary file.
    Sort,
    /// Finds a bucket for every entry; counts entries.
    Place,
    /// Writes buckets; counts them.
    Write,
}

/// What is called with how far a build is.
type Told = dyn FnMut(BuildStep, u64, u64) + Send + Sync;

/// Who is told how far a build is.
#[derive(Default)]
struct Progress(Option<Box<Told>>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}

impl Progress {
    /// Says that `done` of `all` parts of a step are done.
    fn report(&mut self, step: BuildStep, done: u64, all: u64) {
        if let Some(told) = &mut self.0 {
            told(step, done, all);
        }
    }
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
    /// How many bytes of entries were in a temporary file, because memory has a limit.
    pub spilled_bytes: u64,
    /// The length of the file.
    pub file_bytes: u64,
}

impl TableBuilder {
    /// Makes a builder without entries.
    pub fn new(options: TableOptions) -> Self {
        let folder = options.spill_folder.clone().unwrap_or_else(std::env::temp_dir);
        let store = Store::new(options.memory_limit, folder);
        Self { options, store, power_of_two: 2, progress: Progress::default() }
    }

    /// Has `told` called while the table is written: with the step, and how much of how much of it is done. Nothing is
    /// said of entries that come.
    pub fn on_progress(&mut self, told: impl FnMut(BuildStep, u64, u64) + Send + Sync + 'static) {
        self.progress = Progress(Some(Box::new(told)));
    }

    /// Returns how many entries were added, deletions included.
    pub fn len(&self) -> usize {
        self.store.len()
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
    /// for keys that no table can hold; [`BuildError::Spill`] if memory is full and the temporary file too. The builder is
    /// unchanged then.
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
        let (kind, byte) = match value {
            Some(_) => (Kind::Value, KIND_VALUE),
            None => (Kind::Deletion, KIND_DELETION),
        };
        let trailer = trailer(sequence, byte);
        let trailer = if self.options.sequences { &trailer[..] } else { &[] };
        self.store.push(kind, [key, trailer, value.unwrap_or_default()])?;
        // As the format's builder does it: once for each entry at most, even if that is too little.
        if (self.power_of_two as f64) < self.len() as f64 / self.options.hash_ratio {
            self.power_of_two = self.power_of_two.saturating_mul(2);
        }
        Ok(())
    }

    /// Refuses what a table cannot hold.
    fn admit(&self, key: &[u8], value: Option<&[u8]>, sequence: u64) -> Result<(), BuildError> {
        if key.is_empty() {
            return Err(BuildError::EmptyKey);
        }
        match self.lengths() {
            Some((expected, _)) if expected != key.len() => {
                return Err(BuildError::KeyLength { found: key.len(), expected });
            }
            Some((_, Some(expected))) if value.is_some_and(|value| value.len() != expected) => {
                let found = value.map_or(0, <[u8]>::len);
                return Err(BuildError::ValueLength { found, expected });
            }
            _ => {}
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

    /// Returns the length of keys, once there is one, and that of values, once there is one.
    fn lengths(&self) -> Option<(usize, Option<usize>)> {
        let [values, deletions] =
            [Kind::Value, Kind::Deletion].map(|kind| self.store.lengths(kind));
        let (_, key_bytes) = values.or(deletions)?;
        let value_bytes = values.map(|(record_bytes, _)| record_bytes - key_bytes);
        Some((key_bytes, value_bytes.map(|bytes| bytes - self.trailer_bytes())))
    }

    fn trailer_bytes(&self) -> usize {
        if self.options.sequences { TRAILER_BYTES } else { 0 }
    }

    /// Writes the table to `out`. The entries stay, so that a failed call can be made again.
    ///
    /// # Cost
    ///
    /// Sorts the entries unless they came in order, and takes one line fetch of the table for each of them, 16 at once.
    /// Entries in a temporary file are read three times and written twice, from front to back; only those that must make
    /// room for others are read where they are.
    ///
    /// # Errors
    ///
    /// [`BuildError::DuplicateKey`], [`BuildError::NoEntries`] and others for entries that are no table; nothing has been
    /// written then. [`BuildError::Io`] if `out` failed, [`BuildError::Spill`] if a temporary file did.
    pub fn finish(&mut self, out: impl Write) -> Result<TableSummary, BuildError> {
        let entries = self.len() as u64;
        let mut layout = self.layout()?;
        self.progress.report(BuildStep::Sort, 0, entries);
        self.store.sort()?;
        let (taken, empty_key) = self.place(&mut layout)?;
        let mut out = Output::new(out);
        self.write_buckets(taken, &layout, &empty_key, &mut out)?;
        let data_crc = out.crc_of_all()?;
        let deletions = self.store.count(Kind::Deletion) as u64;
        let written =
            Written { layout: &layout, entries, deletions, empty_key: &empty_key, data_crc };
        let tail = properties::tail(&self.options, &written);
        out.finish(&tail)?;
        Ok(TableSummary {
            entries,
            deletions,
            buckets: layout.buckets() as u64,
            hashes: layout.hashes,
            spilled_bytes: self.store.spilled_bytes(),
            file_bytes: layout.data_bytes() as u64 + tail.len() as u64,
        })
    }

    /// Finds a bucket for every entry. Returns the entry of each bucket and the key that free ones have, and leaves in
    /// `layout` with how many hash functions.
    fn place(&mut self, layout: &mut Layout) -> Result<(Vec<u32>, Vec<u8>), BuildError> {
        let view = self.store.view()?;
        let sorted = view.sorted();
        let entries = self.store.len() as u64;
        sorted.refuse_duplicates()?;
        let mut empty_key = sorted.unused_key().ok_or(BuildError::NoUnusedKey)?;
        if layout.has_sequences {
            empty_key.extend_from_slice(&trailer(0, KIND_VALUE));
        }
        let key = |number: u32| sorted.key(number as usize);
        let too_many = |number: u32| BuildError::TooManyCollisions { key: key(number).into() };
        if entries > layout.buckets() as u64 {
            return Err(too_many(entries as u32 - 1));
        }
        let way = if self.options.first_blocks { Way::FirstBlocks } else { Way::RocksDb };
        let mut report = |done| self.progress.report(BuildStep::Place, done, entries);
        let depth = self.options.search_depth;
        match place::place(layout, key, entries as u32, depth, way, &mut report) {
            Ok(taken) => Ok((taken, empty_key)),
            Err(PlaceError::OutOfMemory(cause)) => Err(cause.into()),
            Err(PlaceError::NoBucket(number)) => Err(too_many(number)),
        }
    }

    fn write_buckets<W: Write>(
        &mut self,
        taken: Vec<u32>,
        layout: &Layout,
        empty_key: &[u8],
        out: &mut Output<W>,
    ) -> Result<(), BuildError> {
        let buckets = layout.buckets() as u64;
        let free = free_bucket(empty_key, layout.bucket_bytes());
        let mut report = |done| self.progress.report(BuildStep::Write, done, buckets);
        if self.store.is_spilled() {
            write::from_file(&mut self.store, taken, layout, &free, out, &mut report)
        } else {
            write::from_memory(&self.store.view()?.sorted(), &taken, &free, out, &mut report)
        }
    }

    /// Writes the table to a file that is at `path` only when it is complete: it is written beside it, and renamed. When
    /// the call returns it survives a power cut; elsewhere than on Unix the old file may be there after one.
    ///
    /// If `path` is a link, that is done where it leads to, and the link stays. On Unix the new file has the permissions of
    /// the old one, if there is one.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish), and [`BuildError::Io`] if something is at `path` that is no regular file: a device, a
    /// pipe or a folder stays what it is. What was at `path` before is still there then, and nothing is left beside it, even if
    /// what is told of the progress panics. Only if the folder cannot be synced in the end is the new file there, and a
    /// power cut may undo it.
    pub fn finish_file(&mut self, path: impl AsRef<Path>) -> Result<TableSummary, BuildError> {
        let new = Replacement::create_beside(path.as_ref())?;
        let summary = self.finish(new.file())?;
        new.file().sync_all()?;
        new.put()?;
        Ok(summary)
    }

    /// Returns the numbers of the table, and refuses those that cannot be or that `RocksDB` would stumble over.
    fn layout(&self) -> Result<Layout, BuildError> {
        let TableOptions { hash_ratio, power_of_two, block_buckets, .. } = self.options;
        if hash_ratio.is_nan() || hash_ratio <= 0.0 {
            return Err(BuildError::HashRatio { found: hash_ratio });
        }
        let Some((key_bytes, value_bytes)) = self.lengths() else {
            return Err(BuildError::NoEntries);
        };
        let table_buckets =
            if power_of_two { self.power_of_two } else { (self.len() as f64 / hash_ratio) as u64 };
        let shape = Shape {
            user_key_bytes: key_bytes as u64,
            // Deletions alone have no values.
            value_bytes: value_bytes.unwrap_or(0) as u64,
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
