//! Which process opened the files of a medium: one that was forked from it has its mapping, its descriptors and so its locks too.
//!
//! Were the child to end the use of a map as the parent does, it would unlock the files and say of the working copy that it is at rest, while
//! the parent stores to it. Were it to write, it would do so by what it remembers of the map from before the fork, beside the parent.
//!
//! # Invariants
//!
//! * **O1** In the process that made an owner `mark` is 1, and `process` is its id.
//! * **O2** In a process that was forked from it, however far down, `mark` is 0 if the system clears pages for that (Linux from 4.14
//!   on); and else `process` is another one's id.

#![expect(unsafe_code, reason = "maps a page that the system clears in forked processes")]

use core::ptr::NonNull;
use std::{fmt, io};
// Not of the shim: no model runs with files.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The process that opened files; see the module.
#[derive(Debug)]
pub(super) struct Owner {
    process: u32,
    /// The first word of a page of its own.
    mark: NonNull<AtomicU64>,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    ///
    /// Those of the system, if it has no page.
    pub(super) fn new() -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let (access, bytes) = (ProtFlags::READ | ProtFlags::WRITE, rustix::param::page_size());
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let page =
            unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the mapping was just made. Where this is refused the mark stays in forked processes.
            let _ = unsafe { madvise(page, bytes, Advice::LinuxWipeOnFork) };
        }
        let mark = NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let owner = Self { process: std::process::id(), mark };
        // Relaxed: whoever has the value has it from this thread, or from its process as a whole.
        owner.mark().store(1, Relaxed);
        Ok(owner)
    }

    #[inline(always)]
    fn mark(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped, readable and writable until the value is dropped, and only ever used as an atomic.
        unsafe { self.mark.as_ref() }
    }

    /// Whether this process was forked from the one that made the value, as far as one load tells (O2).
    #[inline(always)]
    pub(super) fn seems_forked(&self) -> bool {
        // Relaxed: only the system changes it, before this process runs.
        self.mark().load(Relaxed) == 0
    }

    /// The same in any case, for a call of the system.
    pub(super) fn is_forked(&self) -> bool {
        self.seems_forked() || self.process != std::process::id()
    }

    /// As a process has it that was forked where the system clears no page.
    #[cfg(all(test, not(any(loom, shuttle, miri))))]
    pub(super) fn of_another_process(mut self) -> Self {
        self.process = !self.process;
        self
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the page, and nobody uses it any more.
        let _ =
            unsafe { rustix::mm::munmap(self.mark.as_ptr().cast(), rustix::param::page_size()) };
    }
}

/// Why a forked process is refused: inside of an error of the kind `PermissionDenied`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Forked;

impl Forked {
    /// Whether this is what an error says.
    pub(crate) fn is_in(error: &io::Error) -> bool {
        let Some(why) = error.get_ref() else { return false };
        why.is::<Self>()
    }
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a forked process may only read a map that its parent has opened")
    }
}

impl std::error::Error for Forked {}

impl From<Forked> for io::Error {
    #[cold]
    fn from(why: Forked) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, why)
    }
}
