//! Files as checkpoints use them: what is written is safe after the next `sync`, and may be lost, in part or as a whole, before.

#![expect(clippy::missing_errors_doc, reason = "the errors are those of the system")]

use std::fs::File;
use std::io;

/// How many bytes are copied at once from one file to another.
const COPIED_BYTES: usize = 1 << 20;

/// A file; see the module. Lengths only grow, but for `copy`.
pub(crate) trait Storage: Send + Sync {
    /// Its length.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `room` with what is written from byte `at` on. An error if the file ends before.
    fn read(&self, at: u64, room: &mut [u8]) -> io::Result<()>;

    /// Writes bytes, also behind the end.
    #[cfg_attr(test, track_caller)]
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file at least so long, with room on the disk for all of it.
    fn grow(&self, bytes: u64) -> io::Result<()>;

    /// Makes what was written, and the length, safe.
    #[cfg_attr(test, track_caller)]
    fn sync(&self) -> io::Result<()>;

    /// Becomes as another file is.
    fn copy(&self, from: &Self) -> io::Result<()>;

    /// Gives up that the file is this process's alone, if it is.
    ///
    /// Closing it would not do: a process that another thread is just starting has all files of this one until it runs its own program.
    /// For the same reason a forked process must not ask for this: the lock is its parent's too.
    fn release(&self) {}
}

impl Storage for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, at: u64, room: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, room, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, at)
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        let now = self.bytes()?;
        if bytes > now { allocate(self, now, bytes) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn copy(&self, from: &Self) -> io::Result<()> {
        self.set_len(0)?;
        let bytes = from.bytes()?;
        self.grow(bytes)?;
        let mut room = vec![0; COPIED_BYTES];
        for at in (0..bytes).step_by(COPIED_BYTES) {
            let room = &mut room[..COPIED_BYTES.min((bytes - at) as usize)];
            from.read(at, room)?;
            self.write(at, room)?;
        }
        Ok(())
    }

    fn release(&self) {
        // A lock that cannot be given up goes with the process.
        let _ = rustix::fs::flock(self, rustix::fs::FlockOperation::Unlock);
    }
}

/// Gives a file the blocks that its first bytes lack, as those of one do that was copied without its zeros: a store to a page without
/// them would end the process by a signal where there is no room.
pub(crate) fn fill(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        let facts = file.metadata()?;
        let held = std::os::unix::fs::MetadataExt::blocks(&facts) * 512;
        if held < facts.len() && bytes > 0 {
            match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
                // What has blocks already must not be written to.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
    Ok(())
}

/// Gives a file its blocks up to byte `to`, so that no later write there finds a full disk.
pub(super) fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        // Some file systems let a signal end it.
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, to - from)) {
            Err(Errno::OPNOTSUPP) => {}
            other => return Ok(other?),
        }
    }
    // Slower, and the same.
    let zeros = vec![0; 1 << 16];
    for at in (from..to).step_by(zeros.len()) {
        file.write(at, &zeros[..zeros.len().min((to - at) as usize)])?;
    }
    Ok(())
}
