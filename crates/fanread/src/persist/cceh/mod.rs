//! A hash map of `u64` keys and values in a file, or in memory, that survives a crash at any instruction.
//!
//! A directory, indexed by the leading bits of a key's hash, names segments of 16 KB; a segment is an array of buckets of one
//! line, indexed by the last bits. A key is in its bucket or in one of the three behind. A segment without room is split in
//! two; that and all else is done by single stores whose order makes every state in between a map (`layout.rs`, `resize.rs`,
//! `directory.rs`, `recover.rs`): there is no log.
//!
//! PAPER: 002, sections 3 to 5; `docs/design/cceh.md` has the departures.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "CcehError says what may happen inside")]

mod check;
mod directory;
mod error;
mod file;
mod heap;
mod insert;
mod iter;
mod layout;
mod record;
mod recover;
mod remove;
mod resize;
mod search;
mod shadow;
mod space;
mod stats;
mod store;
mod strings;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use crate::api::Broken;
pub use error::CcehError;
pub use iter::Iter;
pub use record::MAX_KEY_BYTES;
pub use stats::CcehStats;
pub use store::{Entries, Store, StoreStats};

use directory::Structure;
use layout::{Geometry, Spelling};
use shadow::{Hints, Shadows};
use space::Space;

use crate::persist::medium::{Durability, Flushes, Mapped, Medium};
use crate::sync::lock::Lock;

/// How a segment becomes two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum SplitPolicy {
    /// Half of the entries are copied to a new segment; the old one stays, and what was copied counts as free there.
    #[default]
    InPlace,
    /// All entries are copied to two new segments, which puts all of them next to their places.
    CopyOnWrite,
}

/// Settings of a new map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CcehOptions {
    geometry: Geometry,
    seed: u64,
    policy: SplitPolicy,
    huge_pages: bool,
    checkpoints: bool,
    flush_latency: Option<Duration>,
}

impl Default for CcehOptions {
    fn default() -> Self {
        // PAPER: section 6.1: segments of 16 KB and 4 lines probed.
        Self {
            geometry: Geometry { bits: 8, probed: 4 },
            seed: random(),
            policy: SplitPolicy::InPlace,
            huge_pages: true,
            checkpoints: false,
            flush_latency: None,
        }
    }
}

/// What becomes of a removal, which has no error to return, in a forked process.
#[cold]
fn cannot_remove(refused: &std::io::Error) -> ! {
    panic!("nothing is removed: {refused}")
}

/// Returns a number that nobody can guess.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

impl CcehOptions {
    /// Returns the settings that suit most maps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the bytes of a segment: a power of two from 256 on to 4 MB; 16 KB without this.
    ///
    /// Larger ones split less often and take longer to; smaller ones make the directory larger.
    ///
    /// # Panics
    ///
    /// If it is none of these.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: usize) -> Self {
        assert!(bytes.is_power_of_two(), "a segment of {bytes} bytes");
        self.geometry.bits = (bytes / crate::mem::LINE_BYTES).max(1).ilog2();
        self.geometry.probed = self.geometry.probed.min(Geometry::most_probed(self.geometry.bits));
        assert!(self.geometry.is_valid(), "a segment of {bytes} bytes");
        self
    }

    /// Sets in how many neighbouring buckets a key may be; 4 without this.
    ///
    /// With more of them segments become fuller before they split, and a search for an absent key reads more lines.
    ///
    /// # Panics
    ///
    /// If it is 0, more than a segment has, or more than 65,535.
    #[must_use]
    pub fn probed_buckets(mut self, count: usize) -> Self {
        self.geometry.probed = count;
        assert!(self.geometry.is_valid(), "{count} buckets probed");
        self
    }

    /// Sets how a segment becomes two.
    #[must_use]
    pub fn split_policy(mut self, policy: SplitPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets whether a map in memory asks the system for huge pages, as it does without this; a file's pages are its own.
    ///
    /// With them searches wait less for translations of addresses. The first store to each is a pause of the insertion that makes it: the
    /// system clears 2 MB, which was measured to take some 8 ms on a virtual machine. Without them an insertion pauses for
    /// 4 KB at a time, and none of 20 million took a tenth of a millisecond of its own; searches took half as long again.
    #[must_use]
    pub fn huge_pages(mut self, wanted: bool) -> Self {
        self.huge_pages = wanted;
        self
    }

    /// Sets whether a map in a file has checkpoints, which it has not without this.
    ///
    /// With them a power cut leaves the map as it was at the last completed `sync`, or at the end of its use; without, it may
    /// leave anything. Either way a killed process loses nothing that it had acknowledged. They cost a second copy of the file, beside it,
    /// with the name's ending `.work`, which is what calls change; and a third file, `.journal`, as large as what a checkpoint has
    /// changed. What has the three is a property of the file: opening it needs no option. Linux only, with `/proc`: elsewhere
    /// such files are an error of the kind `Unsupported`.
    #[must_use]
    pub fn checkpoints(mut self, wanted: bool) -> Self {
        self.checkpoints = wanted;
        self
    }

    /// Sets the hash key, which else is random, so that the same calls make the same file.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Makes each flushed line take so much longer, to show what the map does on a slower medium, and counts flushed lines and
    /// fences for [`Cceh::flushes`]; a latency of zero only counts.
    ///
    /// The thread that flushes waits without giving its processor away. The map that these settings make does so as long as it is in
    /// use; nothing of it is in a file. Without this a flush takes what it takes, and nothing is counted.
    #[must_use]
    pub fn flush_latency(mut self, latency: Duration) -> Self {
        self.flush_latency = Some(latency);
        self
    }

    /// A medium as the settings want it.
    fn of(&self, medium: Mapped) -> Mapped {
        medium.slowed(self.flush_latency)
    }
}

/// The map over any medium; see the module.
struct Map<M> {
    medium: M,
    geometry: Geometry,
    spelling: Spelling,
    policy: SplitPolicy,
    shadows: Shadows,
    hints: Hints,
    structure: Lock<Structure>,
    space: Lock<Space>,
}

impl Map<Mapped> {
    /// Opens the map of a file.
    fn open_file(medium: Mapped, policy: SplitPolicy) -> Result<Self, CcehError> {
        file::opened(medium, |medium| Self::open(medium, policy), |map| &map.medium)
    }
}

/// A hash map of `u64` keys and values that a crash at any instruction leaves whole.
///
/// # Cost
///
/// A `get` fetches one line of the map, one time in twenty two or more, and from memory that mostly is in near caches one hint
/// and one line of versions, all but the hint at once.
///
/// # Concurrency
///
/// All calls may be made by any number of threads. Readers take no lock; they repeat a read that met a change. Writers lock
/// half of a segment, a split all of it. Single calls are linearizable.
///
/// # Durability
///
/// What a call has returned, or made visible to others, survives what [`durability`](Self::durability) says: of a file, unless its
/// [options](CcehOptions) say more, the end of the process, whatever ends it, but no power cut.
///
/// # Forked processes
///
/// A map in a file is that of the process which opened it. In a process that was forked from that one, calls that write and `sync` fail,
/// [`remove`](Self::remove) panics, and to drop the map gives up the child's memory and descriptors alone: the parent goes on as if there were no child.
/// A child may read as long as the parent does not write, if no thread of the parent was in a call when it forked; else what it
/// finds may be wrong, and a search may never end. If the parent is killed, others may open the file when such children have dropped the map or ended
/// too. A program that goes on in a child opens its maps there. A map in memory is copied with the process, and each has its own.
///
/// A child is told from its parent by a page that the system clears in it, as Linux does from 4.14 on. Elsewhere calls that write are not refused
/// before the file has to grow; dropping the map and `sync` are as said.
///
/// # Paper
///
/// Nam, Cha, Choi, Noh and Nam, "Write-Optimized Dynamic Hashing for Persistent Memory", FAST 2019.
pub struct Cceh {
    map: Map<Mapped>,
}

impl fmt::Debug for Cceh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cceh").field("geometry", &self.map.geometry).finish_non_exhaustive()
    }
}

impl Cceh {
    /// Makes a map in memory, which nothing survives but the process itself.
    ///
    /// # Errors
    ///
    /// [`CcehError::Io`] or [`CcehError::OutOfMemory`] if there is no memory or there are no addresses for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Cceh;
    ///
    /// let map = Cceh::in_memory(Default::default())?;
    /// assert_eq!(map.insert(7, 70)?, None);
    /// assert_eq!(map.insert(7, 71)?, Some(70));
    /// assert_eq!(map.get(7), Some(71));
    /// assert_eq!(map.remove(7), Some(71));
    /// # Ok::<(), fanread::persist::cceh::CcehError>(())
    /// ```
    pub fn in_memory(options: CcehOptions) -> Result<Self, CcehError> {
        let medium = options.of(Mapped::memory(options.huge_pages)?);
        Ok(Self { map: Map::create(medium, options)? })
    }

    /// Makes a map in a new file, whose contents survive the end of the process, and a power cut only as [`CcehOptions::checkpoints`]
    /// says.
    ///
    /// # Errors
    ///
    /// [`CcehError::Io`] if there is a file of that name, or none can be made; no file is left then.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Cceh;
    ///
    /// # let folder = std::env::temp_dir().join(format!("fanread-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("numbers.cceh");
    /// let map = Cceh::create(&path, Default::default())?;
    /// map.insert(1, 10)?;
    /// drop(map);
    /// assert_eq!(Cceh::open(&path)?.get(1), Some(10));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(path: impl AsRef<Path>, options: CcehOptions) -> Result<Self, CcehError> {
        let map = file::make(
            path.as_ref(),
            options.checkpoints,
            |medium| Map::create(options.of(medium), options),
            |medium| Map::open_file(options.of(medium), options.policy),
        )?;
        Ok(Self { map })
    }

    /// Opens the map in a file, and finishes what a crash has left unfinished there.
    ///
    /// # Cost
    ///
    /// Reads the directory: 8 bytes for each segment of 16 KB, or for a part of one.
    ///
    /// # Errors
    ///
    /// [`CcehError::Io`], with [`io::ErrorKind::WouldBlock`](std::io::ErrorKind::WouldBlock) if the map is open already, here or in another
    /// process, [`NotFound`](std::io::ErrorKind::NotFound) also if its journal is missing;
    /// [`CcehError::NotAMap`], [`CcehError::Checksum`], [`CcehError::Journal`] or [`CcehError::Damaged`] for a file that is no map.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CcehError> {
        Ok(Self { map: Map::open_file(file::open(path.as_ref())?, SplitPolicy::InPlace)? })
    }

    /// Makes a checkpoint: with [`CcehOptions::checkpoints`], what has been acknowledged so far survives a power cut once this has returned,
    /// and until the next one has, a power cut leaves the map as it is now, or as it is at the next one.
    ///
    /// A file without checkpoints is only written to the disk as it is; a map in memory has nothing to do. Closing a map makes a
    /// checkpoint too, and says nothing if it fails.
    ///
    /// # Cost
    ///
    /// Writes each line of 64 bytes that has changed twice, and waits for the disk each time. Calls that write wait while
    /// what has changed is copied in memory, for the disk they do not. After a process was killed the first one reads
    /// the whole map.
    ///
    /// # Errors
    ///
    /// [`CcehError::Io`]. If the disk failed, all later ones fail too, until the map is opened again. A
    /// [forked process](Cceh#forked-processes) is refused.
    pub fn sync(&self) -> Result<(), CcehError> {
        Ok(self.map.medium.sync()?)
    }

    /// Returns what the contents survive.
    pub fn durability(&self) -> Durability {
        self.map.medium.durability()
    }

    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// One line that is waited for, seldom a second.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u64> {
        self.map.get(key)
    }

    /// Whether the map has `key`; costs what [`get`](Self::get) does.
    #[inline]
    pub fn contains_key(&self, key: u64) -> bool {
        self.map.get(key).is_some()
    }

    /// Looks for many keys, whose lines are fetched at once, and stores what [`get`](Self::get) returns for each in the same
    /// place of `values`.
    ///
    /// # Panics
    ///
    /// If the slices have different lengths.
    #[track_caller]
    pub fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) {
        self.map.get_batch(keys, values);
    }

    /// Looks for many keys as [`get_batch`](Self::get_batch) does, and stores in `found[i]` whether the map has `keys[i]`.
    ///
    /// # Panics
    ///
    /// If the slices have different lengths.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Cceh;
    ///
    /// let map = Cceh::in_memory(Default::default())?;
    /// map.insert(7, 70)?;
    /// let mut found = [false; 2];
    /// map.contains_batch(&[7, 8], &mut found);
    /// assert_eq!(found, [true, false]);
    /// # Ok::<(), fanread::persist::cceh::CcehError>(())
    /// ```
    #[track_caller]
    pub fn contains_batch(&self, keys: &[u64], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many places as keys");
        let mut values = [None; 64];
        for (keys, found) in keys.chunks(values.len()).zip(found.chunks_mut(values.len())) {
            let values = &mut values[..keys.len()];
            self.map.get_batch(keys, values);
            found.iter_mut().zip(values).for_each(|(found, value)| *found = value.is_some());
        }
    }

    /// Maps `key` to `value` and returns the value it replaces.
    ///
    /// # Cost
    ///
    /// The lines of a `get`, one flush and one fence. Every some hundred insertions one splits a segment, which reads and
    /// writes 16 KB.
    ///
    /// # Errors
    ///
    /// [`CcehError::Io`] if the file cannot grow, or in a [forked process](Cceh#forked-processes), [`CcehError::Crowded`] if too many keys have
    /// nearly the same hash, [`CcehError::OutOfMemory`] if there is none for a split. The map is unchanged.
    #[inline]
    pub fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, CcehError> {
        let _call = self.map.medium.enter()?;
        self.map.insert(key, value)
    }

    /// Removes `key` and returns its value.
    ///
    /// # Cost
    ///
    /// The lines of a `get`, one flush and one fence. A segment that becomes nearly empty is joined with its neighbour.
    ///
    /// # Panics
    ///
    /// In a [forked process](Cceh#forked-processes), before anything is removed.
    #[inline]
    pub fn remove(&self, key: u64) -> Option<u64> {
        let _call = self.map.medium.enter().unwrap_or_else(|refused| cannot_remove(&refused));
        self.map.remove(key)
    }

    /// Returns how many keys there are.
    ///
    /// # Cost
    ///
    /// A line of memory for each segment; the first time after the map was opened, all of it.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no keys; costs what [`len`](Self::len) does.
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// Returns all entries, in an order that changes as the map grows. A key that is there all the time is returned once, one that comes
    /// or goes meanwhile at most once.
    pub fn iter(&self) -> Iter<'_> {
        self.map.iter()
    }

    /// Returns what the map takes.
    ///
    /// # Cost
    ///
    /// Looks at a bit for each block, and what [`len`](Self::len) does.
    pub fn stats(&self) -> CcehStats {
        self.map.stats()
    }

    /// Returns how many lines were flushed, and fences waited for, since the map was made with
    /// [`CcehOptions::flush_latency`]; `None` of others.
    pub fn flushes(&self) -> Option<Flushes> {
        self.map.medium.flushes()
    }

    /// Verifies the invariants of a map that nobody changes meanwhile. Stores nothing: a damaged file stays as it is.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold, and where.
    pub fn check(&self) -> Result<(), Broken> {
        self.map.check()
    }
}

impl<'a> IntoIterator for &'a Cceh {
    type Item = (u64, u64);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
