//! Why a table could not be read, or not be built.

use core::fmt;
use std::io;

use crate::mem::AllocError;
use crate::mem::file::FileError;

/// Why a table file could not be read.
///
/// Each variant says where the reader stood, as an offset from the start of the file, and what it found there.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// Reading from the file failed.
    Io(io::Error),
    /// There is no memory for what the call needs.
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The file is shorter than a footer.
    TooShort {
        /// The length of the file.
        bytes: u64,
    },
    /// The file does not end in the footer of a cuckoo table.
    NotATable {
        /// The eight bytes found where the magic number belongs.
        found: u64,
    },
    /// The footer is of a version that this reader does not know.
    Version {
        /// Where the version is.
        offset: u64,
        /// The version found.
        found: u32,
    },
    /// The footer names a kind of checksum that does not exist.
    ChecksumKind {
        /// Where the kind is.
        offset: u64,
        /// The kind found.
        found: u8,
    },
    /// A number does not end, or is larger than 64 bits.
    Number {
        /// Where the number begins.
        offset: u64,
    },
    /// A block does not lie inside the file.
    BlockBounds {
        /// Where it is said to be, from the start of the file.
        offset: u64,
        /// How long it is said to be.
        length: u64,
        /// Where the footer begins.
        limit: u64,
    },
    /// The restart array at the end of a block is longer than the block, or empty.
    Restarts {
        /// Where the number of restarts is.
        offset: u64,
        /// The number found.
        found: u32,
    },
    /// An entry of a block runs beyond the entries, or its name repeats more of the name before than there is.
    Entry {
        /// Where the entry begins.
        offset: u64,
    },
    /// The name of an entry is not above the one before it.
    Unsorted {
        /// Where the entry begins.
        offset: u64,
    },
    /// A block has more entries than a block of properties can need.
    Entries {
        /// Where the first entry too many begins.
        offset: u64,
        /// The most entries that a block may have.
        limit: usize,
    },
    /// The names in a block, written out, take more memory than a block of properties can need.
    Names {
        /// Where the entry begins at which the limit was passed.
        offset: u64,
        /// The most bytes that names may take.
        limit: usize,
    },
    /// A property that the reader needs is missing.
    Missing {
        /// The name of the property.
        property: &'static str,
    },
    /// A property has not the length that it must have.
    Length {
        /// The name of the property.
        property: &'static str,
        /// Where its value begins.
        offset: u64,
        /// The length found.
        found: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A property has a value that no table can have, or that contradicts the others.
    Value {
        /// The name of the property.
        property: &'static str,
        /// Where its value begins.
        offset: u64,
        /// The value found.
        found: u64,
    },
    /// The buckets do not end where the properties begin.
    DataBytes {
        /// How many bytes the buckets have according to the properties.
        expected: u64,
        /// Where the properties begin.
        found: u64,
    },
    /// Bytes do not match the checksum stored for them.
    Checksum {
        /// Where the bytes begin.
        offset: u64,
        /// The checksum in the file.
        stored: u32,
        /// The checksum of the bytes that were read.
        computed: u32,
    },
    /// What was read as the key order of a table is not one, or has another number of entries.
    NotAnOrder {
        /// The eight bytes found where the magic number belongs.
        magic: u64,
        /// How many entries it says it has.
        entries: u64,
        /// How many entries the table has.
        expected: u64,
    },
    /// A bucket in the key order of a table has no entry, or one whose key is not above the one before it.
    OrderBucket {
        /// Where the bucket is in the file of the order.
        offset: u64,
        /// The bucket found.
        found: u32,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("cannot read the table file"),
            Self::OutOfMemory { bytes } => write!(f, "no memory for {bytes} more bytes"),
            Self::TooShort { bytes } => {
                write!(
                    f,
                    "not a cuckoo table, it has {bytes} bytes and the footer alone would have 53"
                )
            }
            Self::NotATable { found } => {
                write!(f, "not a cuckoo table, its last eight bytes are {found:#018x}")
            }
            Self::Version { offset, found } => {
                write!(f, "unknown version {found} in the footer at byte {offset}")
            }
            Self::ChecksumKind { offset, found } => {
                write!(f, "unknown kind of checksum {found} in the footer at byte {offset}")
            }
            Self::Number { offset } => write!(f, "damaged number at byte {offset}"),
            Self::BlockBounds { offset, length, limit } => write!(
                f,
                "a block of {length} bytes at byte {offset} does not fit before the footer at byte {limit}"
            ),
            Self::Restarts { offset, found } => {
                write!(f, "damaged block: {found} restarts at byte {offset}")
            }
            Self::Entry { offset } => write!(f, "damaged block: broken entry at byte {offset}"),
            Self::Unsorted { offset } => {
                write!(f, "damaged block: the entry at byte {offset} is out of order")
            }
            Self::Entries { offset, limit } => {
                write!(f, "damaged block: more than {limit} entries at byte {offset}")
            }
            Self::Names { offset, limit } => {
                write!(f, "damaged block: names of more than {limit} bytes at byte {offset}")
            }
            Self::Missing { property } => write!(f, "property {property} is missing"),
            Self::Length { property, offset, found, expected } => {
                write!(f, "property {property} at byte {offset} has {found} bytes, not {expected}")
            }
            Self::Value { property, offset, found } => {
                write!(f, "property {property} at byte {offset} cannot be {found}")
            }
            Self::DataBytes { expected, found } => write!(
                f,
                "the buckets have {expected} bytes by their number and length, but end at byte {found}"
            ),
            Self::Checksum { offset, stored, computed } => write!(
                f,
                "damaged bytes from byte {offset} on: checksum {computed:#010x}, stored {stored:#010x}"
            ),
            Self::NotAnOrder { magic, entries, expected } => write!(
                f,
                "not the order of this table: it begins with {magic:#018x} and has {entries} entries, not {expected}"
            ),
            Self::OrderBucket { offset, found } => {
                write!(
                    f,
                    "not the order of this table: bucket {found} at byte {offset} is out of order"
                )
            }
        }
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<io::Error> for TableError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl From<FileError> for TableError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io(cause) => Self::Io(cause),
            FileError::Memory(AllocError { bytes }) => Self::OutOfMemory { bytes },
        }
    }
}

/// Why an entry was refused, or a table not written.
///
/// A refused entry leaves the builder as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// Writing the table failed.
    Io(io::Error),
    /// Writing or reading a temporary file failed, to which entries went that memory has no room for; see
    /// [`TableOptions::memory_limit`](super::TableOptions::memory_limit).
    Spill(io::Error),
    /// There is no memory for what the call needs.
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The ratio is not a number above 0.
    HashRatio {
        /// The ratio given.
        found: f64,
    },
    /// A key has no bytes.
    EmptyKey,
    /// A key has not the length of the first one.
    KeyLength {
        /// The length of the key.
        found: usize,
        /// The length of the first key.
        expected: usize,
    },
    /// A value has not the length of the first one.
    ValueLength {
        /// The length of the value.
        found: usize,
        /// The length of the first value.
        expected: usize,
    },
    /// A key or value is longer than the format can say.
    TooLong {
        /// The length of the key or value.
        found: usize,
        /// The longest possible one.
        max: usize,
    },
    /// Identity was asked for as the first hash, which takes eight bytes of each key.
    IdentityNeedsEightBytes {
        /// The length of the key.
        found: usize,
    },
    /// A deletion, or an entry with a sequence, came to a last-level file, which can hold neither.
    LastLevel {
        /// The sequence given.
        sequence: u64,
        /// Whether the entry was a deletion.
        deletion: bool,
    },
    /// A sequence is larger than 56 bits.
    Sequence {
        /// The sequence given.
        found: u64,
    },
    /// A key was added twice.
    DuplicateKey {
        /// The key.
        key: Box<[u8]>,
    },
    /// There is no entry, and no table without entries.
    NoEntries,
    /// There are more entries than the format allows.
    TooManyEntries {
        /// The most there can be.
        max: u64,
    },
    /// There would be more buckets than the format can count, or none.
    Buckets {
        /// How many there would be.
        found: u64,
    },
    /// The buckets would take 4 GiB or more. Iteration and compaction by `RocksDB` would lose entries; see
    /// [`TableOptions::point_lookups_only`](super::TableOptions::point_lookups_only).
    FourGibibytes {
        /// How many bytes the buckets would take.
        bytes: u64,
    },
    /// Every possible key is present, and none is left to mark free buckets with.
    NoUnusedKey,
    /// A key found no bucket, even with 64 hash functions. A lower ratio helps.
    TooManyCollisions {
        /// The key.
        key: Box<[u8]>,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("cannot write the table file"),
            Self::Spill(_) => f.write_str("cannot keep entries in a temporary file"),
            Self::OutOfMemory { bytes } => write!(f, "no memory for {bytes} more bytes"),
            Self::HashRatio { found } => write!(f, "a ratio of {found} is not above 0"),
            Self::EmptyKey => f.write_str("a key of a table cannot be empty"),
            Self::KeyLength { found, expected } => {
                write!(f, "a key of {found} bytes, and the first one has {expected}")
            }
            Self::ValueLength { found, expected } => {
                write!(f, "a value of {found} bytes, and the first one has {expected}")
            }
            Self::TooLong { found, max } => write!(f, "{found} bytes are more than {max}"),
            Self::IdentityNeedsEightBytes { found } => {
                write!(f, "identity as the first hash takes keys of 8 bytes, and one has {found}")
            }
            Self::LastLevel { deletion: true, .. } => {
                f.write_str("a last-level file holds no deletions")
            }
            Self::LastLevel { sequence, .. } => {
                write!(f, "a last-level file holds no sequences, and one is {sequence}")
            }
            Self::Sequence { found } => write!(f, "sequence {found} is larger than 56 bits"),
            Self::DuplicateKey { key } => write!(f, "key {} was added twice", key.escape_ascii()),
            Self::NoEntries => f.write_str("there is no table without entries"),
            Self::TooManyEntries { max } => write!(f, "a table has at most {max} entries"),
            Self::Buckets { found } => write!(f, "a table cannot have {found} buckets"),
            Self::FourGibibytes { bytes } => write!(
                f,
                "buckets of {bytes} bytes, and RocksDB iterates and compacts less than 4294967296 only"
            ),
            Self::NoUnusedKey => {
                f.write_str("every possible key is present, none marks free buckets")
            }
            Self::TooManyCollisions { key } => {
                write!(f, "no bucket for key {}, even with 64 hash functions", key.escape_ascii())
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(cause) | Self::Spill(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<io::Error> for BuildError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl From<AllocError> for BuildError {
    fn from(AllocError { bytes }: AllocError) -> Self {
        Self::OutOfMemory { bytes }
    }
}

impl BuildError {
    /// Why a temporary file cannot be read.
    pub(super) fn of_spill(error: FileError) -> Self {
        match error {
            FileError::Io(cause) => Self::Spill(cause),
            FileError::Memory(cause) => cause.into(),
        }
    }
}
