//! Errors of the in-memory maps, and what their checks find.

use crate::mem::AllocError;
use core::fmt;

/// Why a key was not inserted. The map is unchanged, and the error hands the value back.
#[non_exhaustive]
pub enum InsertError<V> {
    /// The key is longer than the map takes.
    KeyTooLong {
        /// Length of the key in bytes.
        key_bytes: usize,
        /// The longest key the map takes.
        max_bytes: usize,
        /// The value that was not inserted.
        value: V,
    },
    /// The system gave no memory; or the map is as large as its type says it can be; or, in a map on numbers, there are so many keys with
    /// nearly the same hash that somebody must have prepared them.
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: usize,
        /// The value that was not inserted.
        value: V,
    },
}

/// Why a map could not be built from sorted entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A key is not above the one before it.
    NotAscending {
        /// Which entry, counted from 0.
        index: usize,
    },
    /// A key is longer than the map takes.
    KeyTooLong {
        /// Which entry, counted from 0.
        index: usize,
        /// Length of the key in bytes.
        key_bytes: usize,
        /// The longest key the map takes.
        max_bytes: usize,
    },
    /// The system gave no memory, or the map is as large as its type says it can be.
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: usize,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAscending { index } => {
                write!(f, "the key of entry {index} is not above the one before it")
            }
            Self::KeyTooLong { index, key_bytes, max_bytes } => write!(
                f,
                "the key of entry {index} has {key_bytes} bytes, the longest possible one {max_bytes}"
            ),
            Self::OutOfMemory { bytes } => write!(f, "no memory for {bytes} more bytes"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<AllocError> for LoadError {
    fn from(AllocError { bytes }: AllocError) -> Self {
        Self::OutOfMemory { bytes }
    }
}

impl<V> InsertError<V> {
    /// Returns the value that was not inserted.
    pub fn into_value(self) -> V {
        match self {
            Self::KeyTooLong { value, .. } | Self::OutOfMemory { value, .. } => value,
        }
    }
}

impl<V> fmt::Debug for InsertError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyTooLong { key_bytes, max_bytes, .. } => f
                .debug_struct("KeyTooLong")
                .field("key_bytes", key_bytes)
                .field("max_bytes", max_bytes)
                .finish_non_exhaustive(),
            Self::OutOfMemory { bytes, .. } => {
                f.debug_struct("OutOfMemory").field("bytes", bytes).finish_non_exhaustive()
            }
        }
    }
}

impl<V> fmt::Display for InsertError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyTooLong { key_bytes, max_bytes, .. } => {
                write!(f, "the key has {key_bytes} bytes, the longest possible one {max_bytes}")
            }
            Self::OutOfMemory { bytes, .. } => write!(f, "no memory for {bytes} more bytes"),
        }
    }
}

impl<V> std::error::Error for InsertError<V> {}

/// An invariant of a map that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    invariant: &'static str,
    place: String,
}

impl Broken {
    pub(crate) fn new(invariant: &'static str, place: impl Into<String>) -> Self {
        Self { invariant, place: place.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} does not hold: {}", self.invariant, self.place)
    }
}

impl std::error::Error for Broken {}
