//! How a table is built.

use std::path::PathBuf;

/// How a table is built: what [`TableBuilder::new`](super::TableBuilder::new) takes.
///
/// The defaults are those of the format, and make a last-level file that `RocksDB` can ingest.
///
/// # Examples
///
/// ```
/// use fanread::table::{TableBuilder, TableOptions};
///
/// let options = TableOptions::new().hash_ratio(0.8).power_of_two(true);
/// let builder = TableBuilder::new(options);
/// assert!(builder.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct TableOptions {
    pub(super) hash_ratio: f64,
    pub(super) search_depth: u32,
    pub(super) block_buckets: u32,
    pub(super) identity_first: bool,
    pub(super) power_of_two: bool,
    pub(super) sequences: bool,
    pub(super) first_blocks: bool,
    pub(super) point_lookups_only: bool,
    pub(super) ingestible: bool,
    pub(super) checksums: bool,
    pub(super) memory_limit: usize,
    pub(super) spill_folder: Option<PathBuf>,
    pub(super) creator: Creator,
}

/// Who a file says has made it.
#[derive(Clone, Debug)]
pub(super) struct Creator {
    pub(super) identity: String,
    pub(super) session: String,
    pub(super) file_number: u64,
    pub(super) column_family: u32,
    pub(super) column_family_name: String,
}

/// How full a table may be. The default of the format: with blocks of 5, some 85 % of the keys are in their first block.
const HASH_RATIO: f64 = 0.9;

/// How long a chain of moved entries may be; the default of the format. Chains are that long only in a nearly full
/// table, where a shorter limit means more hash functions instead.
const SEARCH_DEPTH: u32 = 100;

/// How many buckets are in a block; the default of the format. A block of 12-byte entries then is one line.
const BLOCK_BUCKETS: u32 = 5;

/// How many bytes of entries are kept in memory. Less makes more builds use a temporary file, which takes about twice as
/// long; more may be more than there is, since nothing says how much a process can have.
const MEMORY_LIMIT: usize = 1 << 30;

/// The number that stands for an unknown column family.
const UNKNOWN_COLUMN_FAMILY: u32 = i32::MAX as u32;

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            hash_ratio: HASH_RATIO,
            search_depth: SEARCH_DEPTH,
            block_buckets: BLOCK_BUCKETS,
            identity_first: false,
            power_of_two: false,
            sequences: false,
            first_blocks: false,
            point_lookups_only: false,
            ingestible: true,
            checksums: true,
            memory_limit: MEMORY_LIMIT,
            spill_folder: None,
            creator: Creator {
                identity: "fanread".to_owned(),
                session: String::new(),
                file_number: 1,
                column_family: UNKNOWN_COLUMN_FAMILY,
                column_family_name: String::new(),
            },
        }
    }
}

impl TableOptions {
    /// Returns the defaults of the format.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets which part of the buckets is used, at most; the default is 0.9. Less makes more keys found in their first
    /// block, in a larger file. A number that is not above 0 is refused when the table is finished.
    #[must_use]
    pub fn hash_ratio(mut self, ratio: f64) -> Self {
        self.hash_ratio = ratio;
        self
    }

    /// Sets how many entries may be moved to make room for one; the default is 100.
    #[must_use]
    pub fn search_depth(mut self, depth: u32) -> Self {
        self.search_depth = depth;
        self
    }

    /// Sets how many buckets are in a block, the default is 5; 0 means 1. A block should be no longer than a line.
    #[must_use]
    pub fn block_buckets(mut self, buckets: u32) -> Self {
        self.block_buckets = buckets.max(1);
        self
    }

    /// Sets whether the first eight bytes of a key are its first hash. It saves a lookup some nanoseconds, and is for
    /// keys that are random numbers: others collide, and need more hash functions and more lookups beyond the first block.
    #[must_use]
    pub fn identity_first(mut self, identity: bool) -> Self {
        self.identity_first = identity;
        self
    }

    /// Sets whether the number of buckets is rounded up to a power of two. It saves a lookup a multiplication, and may
    /// nearly double the file.
    #[must_use]
    pub fn power_of_two(mut self, power_of_two: bool) -> Self {
        self.power_of_two = power_of_two;
        self
    }

    /// Sets whether as many keys as possible are put into their first block, rather than where `RocksDB` puts them; by
    /// default they are not. With the other defaults 94 % of the keys then are there instead of 85 %. Any reader of the
    /// format finds all keys either way.
    #[must_use]
    pub fn first_blocks(mut self, first: bool) -> Self {
        self.first_blocks = first;
        self
    }

    /// Sets whether entries carry a sequence, 8 bytes each, and may be deletions. By default they do not: the file then is
    /// what the format calls last-level.
    #[must_use]
    pub fn sequences(mut self, sequences: bool) -> Self {
        self.sequences = sequences;
        self
    }

    /// Allows buckets of 4 GiB and more. `RocksDB` finds keys in such files but loses some in iteration and compaction,
    /// without a word; our own reader has no such limit.
    #[must_use]
    pub fn point_lookups_only(mut self, allowed: bool) -> Self {
        self.point_lookups_only = allowed;
        self
    }

    /// Sets whether a last-level file gets the two properties without which `RocksDB` refuses to ingest it; it does by
    /// default.
    #[must_use]
    pub fn ingestible(mut self, ingestible: bool) -> Self {
        self.ingestible = ingestible;
        self
    }

    /// Sets whether the file gets checksums, in a property that `RocksDB` ignores; it does by default.
    #[must_use]
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Sets how many bytes of entries are kept in memory; the default is 1 GiB. When more come, all are moved to a temporary
    /// file, and the table is the same. While it is written, a build takes 4 bytes for each bucket besides, and if there
    /// is a temporary file 4 more for each entry.
    #[must_use]
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// Sets in which folder temporary files are made; by default it is that of [`std::env::temp_dir`], which may be small,
    /// or in memory itself: the folder of the table is a better one. Files there have no name, and are gone with the
    /// builder however the process ends. They take up to two and a half times the bytes of the entries.
    #[must_use]
    pub fn spill_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spill_folder = Some(folder.into());
        self
    }

    /// Sets who the file says has made it: the identities of a database and of a session, and the number of the file.
    /// Nothing depends on them.
    #[must_use]
    pub fn creator(mut self, identity: &str, session: &str, file_number: u64) -> Self {
        identity.clone_into(&mut self.creator.identity);
        session.clone_into(&mut self.creator.session);
        self.creator.file_number = file_number;
        self
    }

    /// Sets for which column family the file says it was made. Nothing depends on it.
    #[must_use]
    pub fn column_family(mut self, id: u32, name: &str) -> Self {
        self.creator.column_family = id;
        name.clone_into(&mut self.creator.column_family_name);
        self
    }
}
