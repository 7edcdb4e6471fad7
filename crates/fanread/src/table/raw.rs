//! What only the caller can promise: that a mapped file does not change.

#![expect(
    unsafe_code,
    reason = "nothing keeps other processes from writing to a file that is mapped"
)]

use std::fs::File;
use std::path::Path;

use super::{CuckooTable, TableError};
use crate::mem::file::FileBytes;

impl CuckooTable {
    /// Maps a table: opening takes no longer for a large one, and processes that map a file share its memory.
    ///
    /// [`open`](Self::open) asks for no promise, and is faster to search: it puts the table on huge pages.
    ///
    /// # Cost
    ///
    /// A few pages of the file; a lookup waits for the device where the system has not kept a page in memory.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    ///
    /// # Safety
    ///
    /// From the call until the table is dropped no process writes to the file or cuts it. The bytes of keys and values are
    /// lent out as slices, which must not change, and an access behind the end of a file that was cut ends the process by
    /// the signal `SIGBUS`. To replace a file, make another and rename it, as
    /// [`finish_file`](super::TableBuilder::finish_file) does: the mapped one stays as it was. Any file may be mapped that
    /// does not change, whatever is in it.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::table::{CuckooTable, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(TableOptions::new());
    /// builder.insert(b"kiwi", b"3")?;
    /// let path = std::env::temp_dir().join(format!("mapped-{}.sst", std::process::id()));
    /// builder.finish_file(&path)?;
    ///
    /// // SAFETY: the file is of this process alone, which only ever replaces it.
    /// let table = unsafe { CuckooTable::map(&path) }?;
    /// assert_eq!(table.get(b"kiwi"), Some(&b"3"[..]));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, TableError> {
        let file = File::open(path)?;
        // SAFETY: the caller promises what `FileBytes::map` asks for; the table drops the bytes with itself.
        Self::from_file(unsafe { FileBytes::map(&file) }?)
    }
}
