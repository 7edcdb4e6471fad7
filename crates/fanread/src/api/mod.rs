//! What all maps share: options, errors, and the types a lookup returns.

mod entry;
mod error;
mod options;

pub(crate) use entry::SHORT_KEY_BYTES;
pub use entry::{Key, Ref};
pub use error::{InsertError, LoadError};
pub use options::{MemoryUsage, Options};
