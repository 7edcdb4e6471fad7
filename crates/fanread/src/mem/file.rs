//! The bytes of a file: read into memory, or mapped.
//!
//! Read bytes are the process's own, on huge pages where granted: what becomes of the file does not matter. Mapped bytes
//! are the page cache's: nothing is copied, and whoever writes to the file would change them, whoever cuts it take them
//! away. So only those may map a file who know that nobody does.
//!
//! # Invariants
//!
//! * **F1** `bytes` bytes from `base` on are mapped readable until the value is dropped, and nobody writes to them.

use core::ops::Deref;
use core::ptr::NonNull;
use std::fs::File;
use std::io::{self, Read, Seek};

use super::AllocError;
use super::pages::Pages;

/// All bytes of a file, at one address.
#[derive(Debug)]
pub(crate) struct FileBytes {
    held: Held,
    base: NonNull<u8>,
    bytes: usize,
}

/// What keeps the bytes.
#[derive(Debug)]
enum Held {
    Boxed,
    Pages { _pages: Pages },
    Mapped,
}

/// Why a file is not in memory.
#[derive(Debug)]
pub(crate) enum FileError {
    Io(io::Error),
    Memory(AllocError),
}

impl From<io::Error> for FileError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl From<AllocError> for FileError {
    fn from(cause: AllocError) -> Self {
        Self::Memory(cause)
    }
}

// SAFETY: the bytes are only read (F1), and belong to no thread.
unsafe impl Send for FileBytes {}
// SAFETY: as above.
unsafe impl Sync for FileBytes {}

impl FileBytes {
    /// Keeps bytes that are in memory already.
    pub(crate) fn from_box(bytes: Box<[u8]>) -> Self {
        let all = NonNull::from(Box::leak(bytes));
        Self { held: Held::Boxed, base: all.cast(), bytes: all.len() }
    }

    /// Reads a file from its start to its end. A file that shrinks meanwhile is an error, one that grows is read as far as
    /// it was.
    pub(crate) fn read(mut file: &File) -> Result<Self, FileError> {
        let bytes = file_bytes(file)?;
        let pages = Pages::zeroed(bytes)?;
        let base = pages.base();
        // SAFETY: the block has `bytes` initialised bytes, and belongs to this call alone (G1).
        let all = unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), bytes) };
        file.rewind()?;
        file.read_exact(all)?;
        Ok(Self { held: Held::Pages { _pages: pages }, base, bytes })
    }

    /// Maps a file. Where there is nothing to map with, or nothing to map, it is read.
    ///
    /// # Safety
    ///
    /// Until the value is dropped nobody writes to the file or cuts it, in this process or another.
    pub(crate) unsafe fn map(file: &File) -> Result<Self, FileError> {
        let bytes = file_bytes(file)?;
        if bytes == 0 {
            return Ok(Self::from_box(Box::default()));
        }
        match map(file, bytes)? {
            Some(base) => Ok(Self { held: Held::Mapped, base, bytes }),
            None => Self::read(file),
        }
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are there and do not change (F1): they are the process's own, or `map` was promised it.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        match self.held {
            Held::Boxed => {
                let all = NonNull::slice_from_raw_parts(self.base, self.bytes);
                // SAFETY: `from_box` leaked a box of these bytes, and nobody borrows them any more.
                drop(unsafe { Box::from_raw(all.as_ptr()) });
            }
            Held::Pages { .. } => {}
            Held::Mapped => unmap(self.base, self.bytes),
        }
    }
}

/// Returns the length of a file that can be held in memory.
fn file_bytes(file: &File) -> io::Result<usize> {
    let bytes = file.metadata()?.len();
    // A slice has at most `isize::MAX` bytes.
    let fits = isize::try_from(bytes).is_ok();
    fits.then_some(bytes as usize).ok_or(io::ErrorKind::FileTooLarge.into())
}

#[cfg(all(target_os = "linux", not(miri)))]
fn map(file: &File, bytes: usize) -> io::Result<Option<NonNull<u8>>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
    let base =
        unsafe { mmap(core::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
    Ok(NonNull::new(base.cast()))
}

#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: `map` mapped these bytes, and nobody borrows them any more.
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(_: &File, _: usize) -> io::Result<Option<NonNull<u8>>> {
    Ok(None)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn unmap(_: NonNull<u8>, _: usize) {}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn read_and_mapped_bytes_are_those_of_the_file() {
        let name = format!("fanread-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for bytes in [0, 1, 4095, 4097, (2 << 20) + 3] {
            let written: Vec<u8> = (0..bytes).map(|i| (i * 7 % 251) as u8).collect();
            std::fs::write(&path, &written).unwrap();
            let file = File::open(&path).unwrap();
            // SAFETY: nobody else knows the file.
            let mapped = unsafe { FileBytes::map(&file) }.unwrap();
            let read = FileBytes::read(&file).unwrap();
            assert_eq!(&*mapped, &*written);
            assert_eq!(&*read, &*written);
            assert_eq!(&*FileBytes::from_box(written.clone().into()), &*written);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
