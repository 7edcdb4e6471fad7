//! What all maps share: options, errors, and the types a lookup returns.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]

mod collect;
mod cursor;
mod entry;
mod error;
mod methods;
mod options;
mod owned;

pub(crate) use collect::{COLLECTED, from_entries, take_batch, take_some};
pub(crate) use cursor::{Below, Edge, inverted};
pub(crate) use entry::SHORT_KEY_BYTES;
pub use entry::{Key, Ref};
pub use error::{Broken, InsertError, LoadError};
pub(crate) use methods::{
    Outcome, OwnsAndTakes, Rule, Written, map_methods, ordered_map_methods, u64_map_methods,
};
pub use options::{MemoryUsage, Options};
pub(crate) use owned::Copies;
