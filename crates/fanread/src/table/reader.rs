//! Opens table files and finds keys in them.
//!
//! ```text
//! hash 0 of the key -> block of B buckets, asked for at once -> the key, or a free bucket: the search is over
//!                                     |
//!                                     +-> all B hold other keys -> hash 1 of the key -> ...
//! ```
//!
//! A search waits once for each block it looks at: 85 % of the keys are in their first one at the format's defaults.
//! `get_batch` asks for the first blocks of many keys before it looks at any of them.
//!
//! # Invariants
//!
//! * **R1** `layout.data_bytes()` is at most the length of the file, and `empty_key` has `layout.key_bytes()` bytes.
//! * **R2** No index and no length is taken from the file after it was opened; all numbers were copied and checked then.
//!
//! `properties::describe` establishes R1; `tests.rs` changes every byte of many files.

use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use super::TableError;
use super::block;
use super::layout::{KIND_BITS, KIND_VALUE, Layout};
use super::properties::{self, Described};
use crate::arch;
use crate::batch;
use crate::mem::LINE_BYTES;
use crate::mem::file::FileBytes;

/// How many keys of a batch are looked for at once. A key waits for one or two lines, which come into the second-level cache: this
/// is past the number of those that current cores keep track of, and the keys' state is still a small part of L1.
const WIDTH: usize = 4 * batch::DEPTH;

/// How many keys of a batch wait for their second block. Where one key in seven needs it, the wait is over by the time
/// that this many have come together.
const LATER: usize = batch::DEPTH / 2;

/// The most lines of a block that are asked for ahead. Longer blocks are read from front to back, which the processor
/// notices by itself.
const BLOCK_LINES: usize = 8;

/// A table file: keys of one length with values of one length, found in one line fetch or two.
///
/// The table never changes and can be shared by any number of threads. For entries that change take
/// [`Store`](crate::Store), or [`OrderedMap`](crate::OrderedMap) in memory.
///
/// # Examples
///
/// ```
/// use fanread::table::{CuckooTable, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(TableOptions::new());
/// for number in 0..1000_u32 {
///     builder.insert(&number.to_be_bytes(), &(number * 7).to_le_bytes())?;
/// }
/// let path = std::env::temp_dir().join(format!("sevens-{}.sst", std::process::id()));
/// builder.finish_file(&path)?;
///
/// let table = CuckooTable::open(&path)?;
/// assert_eq!(table.get(&5_u32.to_be_bytes()), Some(&35_u32.to_le_bytes()[..]));
/// assert_eq!(table.get(&1000_u32.to_be_bytes()), None);
/// let first = table.iter().next().map(|(key, _)| key.to_vec());
/// assert_eq!(first, Some(vec![0; 4]));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CuckooTable {
    pub(super) layout: Layout,
    pub(super) file: FileBytes,
    pub(super) described: Described,
    /// Buckets that hold entries, by key; made by the first scan.
    pub(super) order: OnceLock<Box<[u32]>>,
}

/// An entry of a table, as [`CuckooTable::entry`] finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Entry<'t> {
    /// The key.
    pub key: &'t [u8],
    /// The value, or `None` for a deletion.
    pub value: Option<&'t [u8]>,
    /// When the entry was written, in `RocksDB`'s count; 0 in tables without sequences.
    pub sequence: u64,
}

/// What a table tells about itself; see [`CuckooTable::stats`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableStats {
    /// How many entries there are, deletions included.
    pub entries: u64,
    /// How many of them are deletions, where the file says it.
    pub deletions: Option<u64>,
    /// The length of every key.
    pub key_bytes: usize,
    /// The length of every value.
    pub value_bytes: usize,
    /// How many buckets there are.
    pub buckets: u64,
    /// How many buckets are in a block.
    pub block_buckets: usize,
    /// How many blocks a search looks at, at most.
    pub hashes: u32,
    /// Whether entries carry sequences.
    pub sequences: bool,
    /// Whether the number of buckets is a power of two by intent, and hashes are cut rather than divided.
    pub power_of_two: bool,
    /// Whether the first hash is the key's first eight bytes.
    pub identity_first: bool,
    /// The length of the file.
    pub file_bytes: u64,
}

/// A key that stored keys are compared with. Common lengths have types of their own, so that a comparison is a few
/// instructions and the hash function is unrolled.
trait Sought<'k>: Copy {
    /// Takes a key of `key_bytes` bytes; returns `None` for one of another length.
    fn of(key: &'k [u8], key_bytes: usize) -> Option<Self>;

    fn bytes(&self) -> &[u8];

    /// Whether the bucket begins with this key.
    fn starts(self, bucket: &[u8]) -> bool;
}

impl<'k, const N: usize> Sought<'k> for [u8; N] {
    #[inline(always)]
    fn of(key: &'k [u8], _: usize) -> Option<Self> {
        key.try_into().ok()
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self
    }

    #[inline(always)]
    fn starts(self, bucket: &[u8]) -> bool {
        bucket.first_chunk() == Some(&self)
    }
}

impl<'k> Sought<'k> for &'k [u8] {
    #[inline(always)]
    fn of(key: &'k [u8], key_bytes: usize) -> Option<Self> {
        (key.len() == key_bytes).then_some(key)
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self
    }

    #[inline(always)]
    fn starts(self, bucket: &[u8]) -> bool {
        bucket.starts_with(self)
    }
}

/// Calls a function compiled for the length of the table's keys.
macro_rules! for_key_length {
    ($table:expr, $function:ident, $($argument:expr),*) => {
        match $table.layout.user_key_bytes {
            4 => $table.$function::<[u8; 4]>($($argument),*),
            8 => $table.$function::<[u8; 8]>($($argument),*),
            16 => $table.$function::<[u8; 16]>($($argument),*),
            _ => $table.$function::<&[u8]>($($argument),*),
        }
    };
}

/// What a block says about a key.
enum Look {
    /// The key is in the bucket that begins at this byte.
    Found(usize),
    /// The key is not in the table: a bucket of the block is free.
    Absent,
    /// Other keys fill the block.
    Full,
}

impl CuckooTable {
    /// Reads a table into memory, on huge pages where the system grants them.
    ///
    /// From then on it does not matter what becomes of the file: it may be written to, cut or removed. To share the memory
    /// of a file between processes, or to open a large one for a few lookups, see [`map`](Self::map).
    ///
    /// # Cost
    ///
    /// Reads all of the file, and takes as much memory as it is long. A file that is no table is refused before that.
    ///
    /// # Errors
    ///
    /// [`TableError`] says what is wrong with the file, and where.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TableError> {
        let file = File::open(path)?;
        block::refuse_others(&file)?;
        Self::from_file(FileBytes::read(&file)?)
    }

    /// Takes a file that is in memory already.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_bytes(file: impl Into<Box<[u8]>>) -> Result<Self, TableError> {
        Self::from_file(FileBytes::from_box(file.into()))
    }

    /// Takes the bytes of a file, and checks what it says about itself.
    pub(super) fn from_file(file: FileBytes) -> Result<Self, TableError> {
        let described = properties::describe(&file)?;
        Ok(Self { layout: described.layout.clone(), file, described, order: OnceLock::new() })
    }

    /// Returns how many entries the table has, deletions included.
    pub fn len(&self) -> usize {
        self.described.entries as usize
    }

    /// Returns whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what the table tells about itself.
    pub fn stats(&self) -> TableStats {
        let layout = &self.layout;
        TableStats {
            entries: self.described.entries,
            deletions: self.described.deletions,
            key_bytes: layout.user_key_bytes,
            value_bytes: layout.value_bytes,
            buckets: layout.buckets() as u64,
            block_buckets: layout.block_buckets,
            hashes: layout.hashes,
            sequences: layout.has_sequences,
            power_of_two: !layout.modulo,
            identity_first: layout.identity_first,
            file_bytes: self.file.len() as u64,
        }
    }

    /// Returns the properties of the file by name, as they are stored.
    pub fn properties(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.described.properties.iter().map(|(name, value)| (name, &self.file[value]))
    }

    /// Returns the value of `key`. A deleted key, and one of another length than the table's, has none.
    ///
    /// # Cost
    ///
    /// One line fetch if a block is no longer than a line and begins with it, two if it lies across the end of one, for
    /// each block looked at; fetches of one block do not wait for each other. At the format's defaults 85 % of the keys
    /// are in their first block.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fanread::table::{CuckooTable, TableBuilder, TableOptions};
    /// # let mut builder = TableBuilder::new(TableOptions::new());
    /// # builder.insert(b"kiwi", b"3")?;
    /// # let mut file = Vec::new();
    /// # builder.finish(&mut file)?;
    /// let table = CuckooTable::from_bytes(file)?;
    /// assert_eq!(table.get(b"kiwi"), Some(&b"3"[..]));
    /// assert_eq!(table.get(b"kaki"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.value_at(self.find(key)?)
    }

    /// Returns whether `key` has a value.
    #[inline]
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Returns the entry of `key`, which may be a deletion.
    ///
    /// # Cost
    ///
    /// As [`get`](Self::get).
    pub fn entry(&self, key: &[u8]) -> Option<Entry<'_>> {
        Some(self.entry_at(self.find(key)?))
    }

    /// Looks up all `keys` and stores in `found[i]` the value of `keys[i]`.
    ///
    /// # Cost
    ///
    /// The line fetches of a [`get`](Self::get) for each key; those of 64 keys do not wait for each other.
    ///
    /// # Panics
    ///
    /// If `keys` and `found` have different lengths.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fanread::table::{CuckooTable, TableBuilder, TableOptions};
    /// # let mut builder = TableBuilder::new(TableOptions::new());
    /// # builder.insert(b"kiwi", b"3")?;
    /// # let mut file = Vec::new();
    /// # builder.finish(&mut file)?;
    /// let table = CuckooTable::from_bytes(file)?;
    /// let mut found = [None; 2];
    /// table.get_batch(&[b"kaki", b"kiwi"], &mut found);
    /// assert_eq!(found, [None, Some(&b"3"[..])]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn get_batch<'t, K: AsRef<[u8]>>(&'t self, keys: &[K], found: &mut [Option<&'t [u8]>]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        for_key_length!(self, get_all, keys, found);
    }

    /// Looks at each key's first block [`WIDTH`] keys after it was asked for, and at further blocks [`LATER`] such keys
    /// after.
    fn get_all<'t, 'k, S: Sought<'k>>(
        &'t self,
        keys: &'k [impl AsRef<[u8]>],
        found: &mut [Option<&'t [u8]>],
    ) where
        't: 'k,
    {
        let Some(empty) = self.empty_key::<S>() else { return };
        let mut asked = [None; WIDTH];
        // Keys whose first block was full, oldest first from `oldest` on: which one, itself, and its next block.
        let mut later = [(0, empty, 0, 0); LATER];
        let (mut oldest, mut waiting) = (0, 0);
        for at in 0..keys.len() + WIDTH {
            if let (Some(index), Some((key, block))) = (at.checked_sub(WIDTH), asked[at % WIDTH]) {
                match self.look(block, key, empty) {
                    Look::Found(bucket) => found[index] = self.value_at(bucket),
                    Look::Absent => {}
                    Look::Full if self.layout.hashes == 1 => {}
                    Look::Full => {
                        if waiting == LATER {
                            let (index, key, block, number) = later[oldest];
                            found[index] = self.get_from(block, number, key, empty);
                            (oldest, waiting) = ((oldest + 1) % LATER, waiting - 1);
                        }
                        let block = self.ask_by(arch::prefetch_many, 1, key);
                        later[(oldest + waiting) % LATER] = (index, key, block, 1);
                        waiting += 1;
                    }
                }
            }
            asked[at % WIDTH] = None;
            if let Some(key) = keys.get(at) {
                found[at] = None;
                asked[at % WIDTH] = S::of(key.as_ref(), self.layout.user_key_bytes)
                    .map(|key| (key, self.ask_by(arch::prefetch_many, 0, key)));
            }
        }
        for at in 0..waiting {
            let (index, key, block, number) = later[(oldest + at) % LATER];
            found[index] = self.get_from(block, number, key, empty);
        }
    }

    /// Looks for a key from block `number` on, which was asked for and begins at byte `block`.
    #[inline(always)]
    fn get_from<'k, S: Sought<'k>>(
        &self,
        mut block: usize,
        number: u32,
        key: S,
        empty: S,
    ) -> Option<&[u8]> {
        for next in number + 1..=self.layout.hashes {
            match self.look(block, key, empty) {
                Look::Found(bucket) => return self.value_at(bucket),
                Look::Absent => return None,
                Look::Full if next < self.layout.hashes => block = self.ask(next, key),
                Look::Full => {}
            }
        }
        None
    }

    /// Returns the byte at which the bucket of `key` begins.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        for_key_length!(self, find_as, key)
    }

    #[inline(always)]
    fn find_as<'k, 't: 'k, S: Sought<'k>>(&'t self, key: &'k [u8]) -> Option<usize> {
        let key = S::of(key, self.layout.user_key_bytes)?;
        let empty = self.empty_key::<S>()?;
        for number in 0..self.layout.hashes {
            match self.look(self.ask(number, key), key, empty) {
                Look::Found(bucket) => return Some(bucket),
                Look::Absent => return None,
                Look::Full => {}
            }
        }
        None
    }

    /// Returns the user part of the key that marks free buckets. It always has one (R1).
    #[inline(always)]
    fn empty_key<'k, 't: 'k, S: Sought<'k>>(&'t self) -> Option<S> {
        let user_key_bytes = self.layout.user_key_bytes;
        S::of(self.described.empty_key.get(..user_key_bytes)?, user_key_bytes)
    }

    /// Asks for block `number` of a key; returns where it begins.
    #[inline(always)]
    fn ask<'k, S: Sought<'k>>(&self, number: u32, key: S) -> usize {
        self.ask_by(arch::prefetch, number, key)
    }

    /// The same by a kind of request.
    #[inline(always)]
    fn ask_by<'k, S: Sought<'k>>(&self, ask: impl Fn(*const u8), number: u32, key: S) -> usize {
        let layout = &self.layout;
        let at = layout.block_at(number, key.bytes()) * layout.bucket_bytes();
        let start = self.file.as_ptr().wrapping_add(at);
        let bytes = layout.block_buckets * layout.bucket_bytes();
        ask(start);
        // The line of the last byte, and lines between.
        for line in 1..BLOCK_LINES {
            if line * LINE_BYTES >= bytes {
                break;
            }
            ask(start.wrapping_add(line * LINE_BYTES));
        }
        ask(start.wrapping_add(bytes.min(BLOCK_LINES * LINE_BYTES) - 1));
        at
    }

    /// Compares a key with the buckets of a block, which begins at byte `at`.
    #[inline(always)]
    fn look<'k, S: Sought<'k>>(&self, mut at: usize, key: S, empty: S) -> Look {
        let bucket_bytes = self.layout.bucket_bytes();
        for _ in 0..self.layout.block_buckets {
            let bucket = &self.file[at..at + bucket_bytes];
            if key.starts(bucket) {
                // Free buckets hold the empty key, and nobody else does.
                return if empty.starts(bucket) { Look::Absent } else { Look::Found(at) };
            }
            if empty.starts(bucket) {
                return Look::Absent;
            }
            at += bucket_bytes;
        }
        Look::Full
    }

    /// Returns the value in the bucket that begins at byte `at`.
    #[inline(always)]
    fn value_at(&self, at: usize) -> Option<&[u8]> {
        let layout = &self.layout;
        let bucket = &self.file[at..at + layout.bucket_bytes()];
        let (key, value) = bucket.split_at(layout.key_bytes());
        if layout.has_sequences && key[layout.user_key_bytes] != KIND_VALUE {
            return None;
        }
        Some(value)
    }

    /// Returns the entry in the bucket that begins at byte `at`.
    pub(super) fn entry_at(&self, at: usize) -> Entry<'_> {
        let trailer = match self.file[at + self.layout.user_key_bytes..].first_chunk() {
            Some(bytes) if self.layout.has_sequences => u64::from_le_bytes(*bytes),
            _ => 0,
        };
        let key = &self.file[at..at + self.layout.user_key_bytes];
        Entry { key, value: self.value_at(at), sequence: trailer >> KIND_BITS }
    }

    /// Returns the user key of a bucket.
    #[inline]
    pub(super) fn key_in(&self, bucket: usize) -> &[u8] {
        &self.layout.bucket(&self.file, bucket)[..self.layout.user_key_bytes]
    }

    /// Whether no entry is in a bucket. As `RocksDB` does when it iterates, this compares all of the key.
    pub(super) fn is_free(&self, bucket: usize) -> bool {
        self.layout.bucket(&self.file, bucket).starts_with(&self.described.empty_key)
    }

    /// Returns the kind of the entry in a bucket.
    pub(super) fn kind_in(&self, bucket: usize) -> u8 {
        if self.layout.has_sequences {
            self.layout.bucket(&self.file, bucket)[self.layout.user_key_bytes]
        } else {
            KIND_VALUE
        }
    }

    /// Verifies the checksums of the file, if it has any, and returns whether it has.
    ///
    /// Tables of this crate have them unless they were built without, those of `RocksDB` have none.
    ///
    /// # Cost
    ///
    /// Reads all of the file.
    ///
    /// # Errors
    ///
    /// [`TableError::Checksum`] if bytes are not what they were when the file was written.
    pub fn verify(&self) -> Result<bool, TableError> {
        self.described.verify(&self.file)
    }
}
