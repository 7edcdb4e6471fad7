//! Verifies that a table finds what it holds.
//!
//! # Invariants
//!
//! * **C1** Each entry is found by a search for its key: it is in one of its blocks, no bucket before it is free, and no
//!   other entry has its key.
//! * **C2** No entry has the key that marks free buckets.
//! * **C3** The kind of an entry is value or deletion.
//! * **C4** There are as many entries, and as many deletions, as the properties say.

use core::fmt;

use super::layout::{KIND_DELETION, KIND_VALUE};
use super::{CuckooTable, TableError};

/// What [`CuckooTable::check`] found wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Broken {
    /// The bytes of the file are not those that were written.
    File(TableError),
    /// A search for the key of this bucket does not find the bucket.
    Lost {
        /// The bucket, counted from 0.
        bucket: u64,
        /// Its key.
        key: Box<[u8]>,
        /// The bucket that is found instead: one with the same key.
        found: Option<u64>,
    },
    /// The key of this bucket marks free buckets, but its sequence or kind does not.
    EmptyKey {
        /// The bucket, counted from 0.
        bucket: u64,
    },
    /// The entry of this bucket is neither a value nor a deletion.
    Kind {
        /// The bucket, counted from 0.
        bucket: u64,
        /// The kind found.
        found: u8,
    },
    /// The file says another number of entries.
    Entries {
        /// How many there are.
        found: u64,
        /// How many the file says there are.
        stated: u64,
    },
    /// The file says another number of deletions.
    Deletions {
        /// How many there are.
        found: u64,
        /// How many the file says there are.
        stated: u64,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(_) => f.write_str("the file is damaged"),
            Self::Lost { bucket, key, found: None } => {
                write!(f, "key {} in bucket {bucket} is not found", key.escape_ascii())
            }
            Self::Lost { bucket, key, found: Some(found) } => {
                write!(f, "key {} is in bucket {bucket} and in bucket {found}", key.escape_ascii())
            }
            Self::EmptyKey { bucket } => {
                write!(f, "bucket {bucket} has an entry with the key of free buckets")
            }
            Self::Kind { bucket, found } => {
                write!(f, "the entry in bucket {bucket} is of unknown kind {found}")
            }
            Self::Entries { found, stated } => {
                write!(f, "{found} entries, and the file says {stated}")
            }
            Self::Deletions { found, stated } => {
                write!(f, "{found} deletions, and the file says {stated}")
            }
        }
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(cause) => Some(cause),
            _ => None,
        }
    }
}

impl CuckooTable {
    /// Verifies that every entry is found, that counts are right, and checksums where there are any.
    ///
    /// # Cost
    ///
    /// A lookup for each entry.
    ///
    /// # Errors
    ///
    /// The first thing found wrong.
    pub fn check(&self) -> Result<(), Broken> {
        self.verify().map_err(Broken::File)?;
        let layout = &self.layout;
        let empty_key = &self.described.empty_key[..layout.user_key_bytes];
        let (mut entries, mut deletions) = (0, 0);
        for bucket in (0..layout.buckets()).filter(|bucket| !self.is_free(*bucket)) {
            let (key, number) = (self.key_in(bucket), bucket as u64);
            if key == empty_key {
                return Err(Broken::EmptyKey { bucket: number });
            }
            let found = self.find(key).map(|at| at / layout.bucket_bytes());
            if found != Some(bucket) {
                let found = found.map(|bucket| bucket as u64);
                return Err(Broken::Lost { bucket: number, key: key.into(), found });
            }
            match self.kind_in(bucket) {
                KIND_VALUE => {}
                KIND_DELETION => deletions += 1,
                found => return Err(Broken::Kind { bucket: number, found }),
            }
            entries += 1;
        }
        let stated = self.described.entries;
        if entries != stated {
            return Err(Broken::Entries { found: entries, stated });
        }
        match self.described.deletions {
            Some(stated) if stated != deletions && layout.has_sequences => {
                Err(Broken::Deletions { found: deletions, stated })
            }
            _ => Ok(()),
        }
    }

    /// Returns how many entries are found in the first block of their key, in the second, and so on.
    ///
    /// # Cost
    ///
    /// Reads all of the table.
    pub fn entries_by_block(&self) -> Vec<u64> {
        let mut counts = vec![0; self.layout.hashes as usize];
        for bucket in (0..self.layout.buckets()).filter(|bucket| !self.is_free(*bucket)) {
            let key = self.key_in(bucket);
            let mut numbers = 0..self.layout.hashes;
            if let Some(number) = numbers.find(|n| self.layout.block(*n, key).contains(&bucket)) {
                counts[number as usize] += 1;
            }
        }
        counts
    }
}
