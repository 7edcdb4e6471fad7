//! Bytes on 2 MB pages that only grow, for keys and queries.
//!
//! Memory is reserved without being touched, so a generous reservation costs nothing; what does
//! not fit moves to a reservation twice the size.

use std::fmt;
use std::io;

use memmap2::{MmapMut, MmapOptions};

const PAGE_BYTES: usize = 2 << 20;

/// A growing run of bytes on huge pages.
pub(crate) struct Arena {
    map: MmapMut,
    /// Where the first aligned page starts in `map`.
    start: usize,
    used: usize,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("used", &self.used).finish_non_exhaustive()
    }
}

impl Arena {
    /// Reserves room for `bytes` bytes.
    pub(crate) fn with_capacity(bytes: usize) -> io::Result<Self> {
        // One page more than asked for, to align the start by hand.
        let length = (bytes.div_ceil(PAGE_BYTES) + 1) * PAGE_BYTES;
        let map = MmapOptions::new().len(length).map_anon()?;
        #[cfg(target_os = "linux")]
        // Refused where the kernel has no huge pages; then small ones serve.
        let _ = map.advise(memmap2::Advice::HugePage);
        let start = map.as_ptr().align_offset(PAGE_BYTES);
        Ok(Self { map, start, used: 0 })
    }

    fn capacity(&self) -> usize {
        self.map.len() - self.start
    }

    fn grow(&mut self, bytes: usize) -> io::Result<()> {
        let mut larger = Self::with_capacity((self.capacity() * 2).max(self.used + bytes))?;
        larger.extend_zeroed(self.used)?.copy_from_slice(self.bytes());
        *self = larger;
        Ok(())
    }

    /// Appends `bytes` zero bytes and returns them.
    pub(crate) fn extend_zeroed(&mut self, bytes: usize) -> io::Result<&mut [u8]> {
        if self.capacity() - self.used < bytes {
            self.grow(bytes)?;
        }
        let at = self.start + self.used;
        self.used += bytes;
        Ok(&mut self.map[at..at + bytes])
    }

    /// Appends a copy of `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_zeroed(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Returns everything appended so far.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map[self.start..self.start + self.used]
    }

    /// Returns everything appended so far, to change it.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.used]
    }

    /// Returns how many bytes were appended.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}
