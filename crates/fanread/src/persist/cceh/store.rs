//! The map of byte strings as users have it.

use std::fmt;
use std::path::Path;

use super::iter::Walk;
use super::strings::Strings;
use super::{Broken, CcehError, CcehOptions, SplitPolicy, cannot_remove, file};
use crate::persist::medium::{Durability, Flushes, Mapped, Medium};
use crate::sync::epoch::{Guard, pin};

/// A hash map of byte strings to byte strings, in a file or in memory, that a crash at any instruction leaves whole.
///
/// Keys are of up to [`MAX_KEY_BYTES`](super::MAX_KEY_BYTES) bytes, values of up to 2^24 - 1 segments; any bytes are allowed. Where both are `u64`,
/// [`Cceh`](super::Cceh) takes a line less to read and to write, and has no heap to look after.
///
/// # Cost
///
/// A `get` fetches what one of [`Cceh`](super::Cceh) does, and then the lines of the record: it waits twice.
///
/// # Concurrency
///
/// As for [`Cceh`](super::Cceh): any number of threads, readers without locks, single calls linearizable, and what they did survives what
/// [`durability`](Self::durability) says: of a file, unless its options say more, the end of the process but no power cut. Calls that write share one
/// lock while they take or give back room for a record. For processes that fork the [same](super::Cceh#forked-processes) holds.
///
/// # Examples
///
/// ```
/// use fanread::Store;
///
/// # let folder = std::env::temp_dir().join(format!("fanread-doc-store-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("fruit.store");
/// let store = Store::create(&path, Default::default())?;
/// assert_eq!(store.insert(b"kiwi", b"green")?, None);
/// assert_eq!(store.insert(b"kiwi", b"gold")?, Some(b"green".to_vec()));
/// drop(store);
/// assert_eq!(Store::open(&path)?.get(b"kiwi"), Some(b"gold".to_vec()));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Paper
///
/// Nam, Cha, Choi, Noh and Nam, "Write-Optimized Dynamic Hashing for Persistent Memory", FAST 2019. The heap of records is our own
/// (`docs/design/cceh.md`).
pub struct Store {
    strings: Strings<Mapped>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("geometry", &self.strings.map.geometry)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Makes a map in memory, which nothing survives but the process itself.
    ///
    /// # Errors
    ///
    /// [`CcehError::Io`] or [`CcehError::OutOfMemory`] if there is no memory or there are no addresses for it.
    pub fn in_memory(options: CcehOptions) -> Result<Self, CcehError> {
        let medium = options.of(Mapped::memory(options.huge_pages)?);
        Ok(Self { strings: Strings::create(medium, options)? })
    }

    /// Makes a map in a new file, whose contents survive the end of the process, and a power cut only as [`CcehOptions::checkpoints`]
    /// says.
    ///
    /// # Errors
    ///
    /// [`CcehError::Io`] if there is a file of that name, or none can be made; no file is left then.
    pub fn create(path: impl AsRef<Path>, options: CcehOptions) -> Result<Self, CcehError> {
        let strings = file::make(
            path.as_ref(),
            options.checkpoints,
            |medium| Strings::create(options.of(medium), options),
            |medium| Strings::open_file(options.of(medium), options.policy),
        )?;
        Ok(Self { strings })
    }

    /// Opens the map in a file, and finishes what a crash has left unfinished there.
    ///
    /// # Cost
    ///
    /// Reads the directory and the lists of the heap: 8 bytes for each segment and for each block of records, of 16 KB both. A
    /// block of records is looked through when room in it is needed first.
    ///
    /// # Errors
    ///
    /// As [`Cceh::open`](super::Cceh::open). What is not read by opening may be damaged: an entry that names no record of its key counts as
    /// none, and [`check`](Self::check) tells.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CcehError> {
        let strings = Strings::open_file(file::open(path.as_ref())?, SplitPolicy::InPlace)?;
        Ok(Self { strings })
    }

    /// Makes a checkpoint, as [`Cceh::sync`](super::Cceh::sync) does.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn sync(&self) -> Result<(), CcehError> {
        Ok(self.strings.map.medium.sync()?)
    }

    /// Returns what the contents survive.
    pub fn durability(&self) -> Durability {
        self.strings.map.medium.durability()
    }

    /// Returns the value of `key`.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.strings.get(key)
    }

    /// Appends the value of `key` to `value`, and returns whether there is one. Allocates nothing if `value` has room.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        self.strings.get_into(key, value)
    }

    /// Whether the map has `key`.
    #[inline]
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.strings.contains_key(key)
    }

    /// Looks for many keys, and stores what [`get`](Self::get) returns for each in the same place of `values`. The lines of
    /// 64 keys are fetched at once, and then their records.
    ///
    /// # Panics
    ///
    /// If the slices have different lengths.
    #[track_caller]
    pub fn get_batch(&self, keys: &[&[u8]], values: &mut [Option<Vec<u8>>]) {
        self.strings.get_batch(keys, values);
    }

    /// Looks for many keys as [`get_batch`](Self::get_batch) does, and stores whether each is there.
    ///
    /// # Panics
    ///
    /// If the slices have different lengths.
    #[track_caller]
    pub fn contains_batch(&self, keys: &[&[u8]], found: &mut [bool]) {
        self.strings.contains_batch(keys, found);
    }

    /// Maps `key` to `value` and returns the value it replaces.
    ///
    /// # Cost
    ///
    /// The lines of a `get` and those of the new record, two fences. Every some hundred insertions one splits a segment, which
    /// reads and writes 16 KB.
    ///
    /// # Errors
    ///
    /// [`CcehError::TooLong`], [`CcehError::Io`] if the file cannot grow, or in a [forked process](super::Cceh#forked-processes),
    /// [`CcehError::Crowded`] if too many keys have nearly the same hash, [`CcehError::OutOfMemory`] if there is none for a split or for the
    /// heap's lists. The map is unchanged.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, CcehError> {
        let _call = self.strings.map.medium.enter()?;
        self.strings.insert(key, value)
    }

    /// Removes `key` and returns its value.
    ///
    /// # Panics
    ///
    /// In a [forked process](super::Cceh#forked-processes), before anything is removed.
    pub fn remove(&self, key: &[u8]) -> Option<Vec<u8>> {
        let medium = &self.strings.map.medium;
        let _call = medium.enter().unwrap_or_else(|refused| cannot_remove(&refused));
        self.strings.remove(key)
    }

    /// Returns how many keys there are.
    ///
    /// # Cost
    ///
    /// A line of memory for each segment; the first time after the map was opened, all of it.
    pub fn len(&self) -> usize {
        self.strings.map.len()
    }

    /// Whether there are no keys; costs what [`len`](Self::len) does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all entries, in an order that changes as the map grows. A key that is there all the time is returned once, one that comes
    /// or goes meanwhile at most once.
    ///
    /// # Concurrency
    ///
    /// While it is there, room of records that are removed is used again late.
    pub fn iter(&self) -> Entries<'_> {
        Entries { strings: &self.strings, walk: self.strings.map.walk(), guard: pin() }
    }

    /// Returns what the map takes.
    ///
    /// # Cost
    ///
    /// Looks at a bit for each block, and what [`len`](Self::len) does.
    pub fn stats(&self) -> StoreStats {
        self.strings.stats()
    }

    /// Returns how many lines were flushed, and fences waited for, since the map was made with
    /// [`CcehOptions::flush_latency`]; `None` of others.
    pub fn flushes(&self) -> Option<Flushes> {
        self.strings.map.medium.flushes()
    }

    /// Verifies the invariants of a map that nobody changes meanwhile. Stores nothing: a damaged file stays as it is.
    ///
    /// # Cost
    ///
    /// Reads all of the table and the key of each record, those in free cells too.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold, and where.
    pub fn check(&self) -> Result<(), Broken> {
        self.strings.check()
    }
}

impl Strings<Mapped> {
    /// Opens the map of a file.
    fn open_file(medium: Mapped, policy: SplitPolicy) -> Result<Self, CcehError> {
        file::opened(medium, |medium| Self::open(medium, policy), |strings| &strings.map.medium)
    }
}

/// What a map takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreStats {
    /// How many keys there are.
    pub entries: usize,
    /// How many segments.
    pub segments: usize,
    /// How many keys have room in them.
    pub slots: usize,
    /// Bytes of the blocks for records, used or not.
    pub record_bytes: usize,
    /// Bytes of blocks that are free.
    pub free_bytes: usize,
    /// Bytes of the whole map.
    pub bytes: usize,
}

/// The entries of a map, see [`Store::iter`].
pub struct Entries<'a> {
    strings: &'a Strings<Mapped>,
    walk: Walk<'a, Mapped>,
    /// Taken before the names of a segment's records are read, and kept until the records are.
    guard: Guard,
}

impl fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("walk", &self.walk).finish_non_exhaustive()
    }
}

impl Iterator for Entries<'_> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        loop {
            if self.walk.is_between_segments() {
                self.guard.repin();
            }
            let (hash, name) = self.walk.next()?;
            let entry = self.strings.entry(hash, name);
            if entry.is_some() {
                return entry;
            }
        }
    }
}

impl core::iter::FusedIterator for Entries<'_> {}

impl<'a> IntoIterator for &'a Store {
    type Item = (Vec<u8>, Vec<u8>);
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}
