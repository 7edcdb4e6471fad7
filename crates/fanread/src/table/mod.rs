//! Immutable files for point lookups, which `RocksDB` reads and writes too.
//!
//! A [`CuckooTable`] maps keys of one length to values of one length. It is a hash table as it stands in a file: ready as
//! soon as the file is read or mapped, and a lookup takes one line fetch, sometimes two. [`TableBuilder`] writes such files.
//!
//! # What is compatible
//!
//! The format is `RocksDB`'s cuckoo table (`CuckooTableFactory`), written down in `docs/formats/cuckoo-table.md`. From the
//! same entries and options the builder writes the buckets that `RocksDB` 7.8.3 writes, byte for byte. `RocksDB` takes the
//! files by `CreateColumnFamilyWithImport`, and by `IngestExternalFile` those without sequences; it needs
//! `allow_mmap_reads` to read them.
//!
//! # What is not
//!
//! * Keys are ordered as bytes; files do not say which order their writer had in mind.
//! * Hashes are those of `RocksDB` on x86-64. Builds for other processors may use others for the same format.
//! * A snapshot is not looked at: a table with sequences holds one version of each key.
//!
//! # Files from strangers
//!
//! Every number in a file is checked when it is opened, and no file makes a lookup read outside of it, run for ever, or
//! panic. A file can still hold wrong entries: [`CuckooTable::check`] looks at all of it.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "fires on private items too; public ones say theirs")]
#![allow(clippy::struct_excessive_bools, reason = "the format has that many flags")]

mod block;
mod builder;
mod check;
mod error;
mod iter;
mod layout;
mod options;
mod order;
mod place;
mod properties;
mod raw;
mod reader;
mod records;
mod sorted;
mod spill;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;
mod write;

pub use builder::{BuildStep, TableBuilder, TableSummary};
pub use check::Broken;
pub use error::{BuildError, TableError};
pub use iter::{Entries, Iter};
pub use options::TableOptions;
pub use reader::{CuckooTable, Entry, TableStats};
