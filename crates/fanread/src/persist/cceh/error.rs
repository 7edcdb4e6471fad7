//! What can be wrong with a map in a file.

use std::{fmt, io};

use super::layout::{MAGIC, STRINGS_MAGIC};
use crate::mem::AllocError;
use crate::persist::medium::Forked;

/// Why a map could not be made, opened or written to.
#[derive(Debug)]
#[non_exhaustive]
pub enum CcehError {
    /// The system refused something; or, with [`io::ErrorKind::PermissionDenied`], this process was forked from the one that opened
    /// the map, and may not change it.
    Io(io::Error),
    /// There is no memory.
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The file is not a map of this kind.
    NotAMap {
        /// The eight bytes found where the magic number belongs, the first one lowest; 0 if the file is shorter than a header.
        found: u64,
    },
    /// The header does not match its checksum.
    Checksum {
        /// The checksum in the file.
        stored: u64,
        /// The checksum of the bytes that were read.
        computed: u64,
    },
    /// A word of the file says what cannot be.
    Damaged {
        /// Where the word is, in bytes from the start.
        offset: u64,
        /// What it says.
        found: u64,
    },
    /// The journal beside the file is damaged, or is not that of the map as it is.
    Journal,
    /// The working copy beside the file, which a process left in use, is no map: it is not what that process left, but perhaps a copy of it,
    /// made meanwhile. Without it the map opens as it was at its last checkpoint.
    WorkingCopy(Box<CcehError>),
    /// A key, or a value, is longer than it may be.
    TooLong {
        /// How long it is, in bytes.
        bytes: usize,
    },
    /// More keys than a segment takes have the same leading and the same last bits of their hashes. This happens if
    /// somebody knows the hash key and means it.
    Crowded,
}

impl fmt::Display for CcehError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                f.write_str("the map is open already, here or in another process")
            }
            Self::Io(cause) if Forked::is_in(cause) => {
                f.write_str("the map is that of the process which this one was forked from")
            }
            Self::Io(_) => f.write_str("the system refused a request for the map"),
            Self::OutOfMemory { bytes } => write!(f, "no memory for {bytes} more bytes"),
            Self::NotAMap { found: MAGIC } => f.write_str("a map on numbers: a Cceh, not a Store"),
            Self::NotAMap { found: STRINGS_MAGIC } => {
                f.write_str("a map on byte strings: a Store, not a Cceh")
            }
            Self::NotAMap { found: 0 } => f.write_str("not a map, too short or full of zeros"),
            Self::NotAMap { found } => {
                write!(f, "not a map, it begins with \"{}\"", found.to_le_bytes().escape_ascii())
            }
            Self::Checksum { stored, computed } => {
                write!(f, "damaged header: checksum {computed:#018x}, stored {stored:#018x}")
            }
            Self::Damaged { offset, found } => {
                write!(f, "damaged map: the word at byte {offset} is {found:#018x}")
            }
            Self::Journal => f.write_str("the journal beside the file is not that of this map"),
            Self::WorkingCopy(cause) => write!(
                f,
                "{cause}, in the working copy beside the file; without that the map opens as it was at its last checkpoint"
            ),
            Self::TooLong { bytes } => write!(f, "a key or value of {bytes} bytes is too long"),
            Self::Crowded => f.write_str("too many keys have nearly the same hash"),
        }
    }
}

impl std::error::Error for CcehError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(cause) => Some(cause),
            Self::WorkingCopy(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<io::Error> for CcehError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl From<AllocError> for CcehError {
    fn from(AllocError { bytes }: AllocError) -> Self {
        Self::OutOfMemory { bytes }
    }
}
