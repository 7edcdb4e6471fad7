//! Mapped memory as a medium: anonymous, of a file, or persistent.
//!
//! Much more address space is reserved than there are lines, so that the medium grows in place and no line ever moves.

#![expect(unsafe_code, reason = "maps memory and hands out its words as atomics")]

use core::ptr::NonNull;
use std::fs::File;
use std::io;
use std::time::Duration;

use super::checkpoint::{Call, Checkpoints, Origin};
use super::owner::{Forked, Owner};
use super::slow::Slow;
use super::storage::{Storage, allocate, fill};
use super::{Durability, Flushes, LINE_WORDS, LineAt, LineRef, Medium, WordAt};
use crate::arch::Flush;
use crate::mem::LINE_BYTES;
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU64, LineWords, Ordering,
    Ordering::{Acquire, Relaxed, Release},
};

/// How many bytes of addresses are reserved for a medium: as many as it can have.
///
/// Addresses cost nothing, and a process has 128 TB of them.
const RESERVED_BYTES: [usize; 3] = [1 << 40, 1 << 36, 1 << 32];

/// Mapped memory; see the module.
///
/// # Invariants
///
/// * **P1** From `base` on `reserved` bytes are mapped until the value is dropped, and the first `lines` lines can be read and
///   written.
/// * **P2** A process that was forked from the one that opened the files only reads them, and when it drops the value leaves locks and journal
///   as they are.
#[derive(Debug)]
pub(crate) struct Mapped {
    base: NonNull<AtomicU64>,
    lines: AtomicU64,
    reserved: usize,
    kind: Kind,
    /// The process that opened the files, if there are any.
    owner: Option<Owner>,
    /// What makes a line durable, if it takes more than a store.
    flush: Option<Flush>,
    /// What makes it slower than it is, and counts flushes; seldom wanted.
    slow: Option<Box<Slow>>,
    /// Whether flushes and fences do nothing.
    is_quiet: bool,
    growing: Lock<()>,
}

#[derive(Debug)]
enum Kind {
    /// Memory of the process.
    Memory { huge_pages: bool },
    /// The page cache of a file.
    File(File),
    /// The page cache of a working copy, its checkpoints, and what it was opened from.
    Copy(File, Box<Checkpoints<File>>, Origin),
}

// SAFETY: the mapping belongs to no thread, and its words are atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Memory of the process, of no lines yet; in huge pages, if the system has them and they are wanted.
    pub(crate) fn memory(huge_pages: bool) -> io::Result<Self> {
        let (base, reserved) = reserve(Backing::None)?;
        let lines = AtomicU64::new(0);
        #[cfg(target_os = "linux")]
        if huge_pages {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the mapping was just made. Refused where the kernel has no huge pages.
            let _ = unsafe { madvise(base.as_ptr().cast(), reserved, Advice::LinuxHugepage) };
        }
        let growing = Lock::new(());
        let kind = Kind::Memory { huge_pages };
        // A forked process has a copy.
        let (owner, flush, slow, is_quiet) = (None, None, None, true);
        Ok(Self { base, lines, reserved, kind, owner, flush, slow, is_quiet, growing })
    }

    /// The whole lines of a file, whose mapping the page cache keeps: a killed process loses nothing, a power cut may lose
    /// anything. Whoever else writes to the file changes words under the map, which are atomics; who cuts it ends the process
    /// by a signal.
    pub(crate) fn file(file: File) -> io::Result<Self> {
        let owner = Some(Owner::new()?);
        // Persistent memory, if the file is in such and the processor can write to it; else the page cache.
        let flush = Flush::detect();
        let persistent = flush.and_then(|_| map(Backing::Persistent(&file)).ok());
        let flush = flush.filter(|_| persistent.is_some());
        let mapped = persistent.map_or_else(|| map(Backing::Cache(&file)), Ok)?;
        let (base, reserved, lines) = mapped;
        let growing = Lock::new(());
        let (kind, is_quiet) = (Kind::File(file), flush.is_none());
        Ok(Self { base, lines, reserved, kind, owner, flush, slow: None, is_quiet, growing })
    }

    /// The whole lines of a working copy, whose checkpoints survive power cuts.
    pub(crate) fn copy(
        work: File,
        checkpoints: Checkpoints<File>,
        origin: Origin,
    ) -> io::Result<Self> {
        let owner = Some(Owner::new()?);
        let (base, reserved, lines) = map(Backing::Cache(&work))?;
        let kind = Kind::Copy(work, Box::new(checkpoints), origin);
        let growing = Lock::new(());
        let (flush, slow, is_quiet) = (None, None, false);
        let mapped = Self { base, lines, reserved, kind, owner, flush, slow, is_quiet, growing };
        if let Kind::Copy(_, checkpoints, _) = &mapped.kind {
            checkpoints.grow(mapped.lines())?;
        }
        Ok(mapped)
    }

    /// The same, but each flushed line takes so much longer, and flushes and fences are counted; if that is wanted.
    pub(crate) fn slowed(mut self, latency: Option<Duration>) -> Self {
        self.slow = latency.map(|latency| Box::new(Slow::new(latency)));
        self.is_quiet &= self.slow.is_none();
        self
    }

    /// How many lines were flushed, and fences waited for, if they are counted.
    pub(crate) fn flushes(&self) -> Option<Flushes> {
        self.slow.as_ref().map(|slow| slow.flushes())
    }

    /// What the contents survive.
    pub(crate) fn durability(&self) -> Durability {
        match self.kind {
            Kind::Memory { .. } => Durability::None,
            Kind::File(_) if self.flush.is_some() => Durability::Persistent,
            Kind::File(_) => Durability::Process,
            Kind::Copy(..) => Durability::Checkpoint,
        }
    }

    /// Makes what was stored so far safe, as far as that can be.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.is_forked() {
            return Err(Forked.into());
        }
        match &self.kind {
            Kind::Memory { .. } => Ok(()),
            Kind::File(file) => file.sync(),
            Kind::Copy(_, checkpoints, _) => checkpoints.sync(self),
        }
    }

    /// Whether the files are those of the process that this one was forked from.
    fn is_forked(&self) -> bool {
        self.owner.as_ref().is_some_and(Owner::is_forked)
    }

    /// Whether this is a working copy as a killed process left it.
    pub(crate) fn was_killed(&self) -> bool {
        matches!(self.kind, Kind::Copy(_, _, Origin::Killed))
    }

    /// Says that what is stored here is a map; before, it never becomes a checkpoint.
    pub(crate) fn confirm(&self) {
        if let Kind::Copy(_, checkpoints, _) = &self.kind {
            checkpoints.confirm();
        }
    }

    #[inline(always)]
    fn word(&self, at: WordAt) -> &AtomicU64 {
        assert!(at.line().0 < self.lines(), "a word beyond the end");
        // SAFETY: lines below `lines` are mapped, readable and writable (P1), and only ever used as atomics.
        unsafe { self.base.add(at.0).as_ref() }
    }
}

impl Medium for Mapped {
    fn is_ordered(&self) -> bool {
        // PAPER: section 4; x86-64 stores of a thread to one line become durable in their order.
        cfg!(target_arch = "x86_64")
    }

    #[inline(always)]
    fn lines(&self) -> usize {
        // ORDER: Acquire, pairs with the Release store in `grow`: lines that are counted are mapped.
        self.lines.load(Acquire) as usize
    }

    fn wants_small_pages(&self) -> bool {
        matches!(self.kind, Kind::Memory { huge_pages: false })
    }

    #[inline(always)]
    fn line(&self, at: LineAt) -> LineRef<'_> {
        assert!(at.0 < self.lines(), "a line beyond the end");
        // SAFETY: as in `word`, for all words of the line.
        LineRef(unsafe { self.base.add(at.0 * LINE_WORDS).cast::<LineWords>().as_ref() })
    }

    #[inline(always)]
    fn store(&self, at: WordAt, value: u64, order: Ordering) {
        self.word(at).store(value, order);
    }

    #[inline(always)]
    fn store_in(&self, words: LineRef<'_>, at: LineAt, index: usize, value: u64, order: Ordering) {
        debug_assert!(core::ptr::eq(words.0, self.line(at).0), "another line");
        words.0[index].store(value, order);
    }

    #[inline(always)]
    fn store_line(&self, at: LineAt, words: &[u64; LINE_WORDS]) {
        let line = self.line(at).0;
        line.iter().zip(words).for_each(|(place, word)| place.store(*word, Relaxed));
    }

    #[inline(always)]
    fn flush(&self, at: LineAt) {
        if self.is_quiet {
            return;
        }
        // Memory and the page cache survive all that they can survive without.
        if let Kind::Copy(_, checkpoints, _) = &self.kind {
            checkpoints.mark(at);
        }
        if let Some(flush) = self.flush {
            flush.line(crate::sync::shim::line(self.line(at).0).first().expect("a line has words"));
        }
        if let Some(slow) = &self.slow {
            slow.line();
        }
    }

    #[inline(always)]
    fn fence(&self) {
        if self.is_quiet {
            return;
        }
        if self.flush.is_some() {
            Flush::fence();
        }
        if let Some(slow) = &self.slow {
            slow.fence();
        }
    }

    fn grow(&self, lines: usize) -> io::Result<()> {
        // Before the lock, which a thread may have had when the process was forked that is not in this one.
        if self.is_forked() {
            return Err(Forked.into());
        }
        let _growing = self.growing.lock();
        if lines <= self.lines() {
            return Ok(());
        }
        let bytes = lines.checked_mul(LINE_BYTES).filter(|bytes| *bytes <= self.reserved);
        let bytes = bytes.ok_or(io::ErrorKind::FileTooLarge)?;
        if let Kind::File(file) | Kind::Copy(file, ..) = &self.kind {
            allocate(file, (self.lines() * LINE_BYTES) as u64, bytes as u64)?;
        }
        if let Kind::Copy(_, checkpoints, _) = &self.kind {
            checkpoints.grow(lines)?;
        }
        // ORDER: Release, pairs with the Acquire load in `lines`.
        self.lines.store(lines as u64, Release);
        Ok(())
    }

    fn trim(&self, lines: usize) -> io::Result<()> {
        debug_assert!(lines <= self.lines(), "P1");
        // Relaxed: nobody else knows the medium yet.
        self.lines.store(lines as u64, Relaxed);
        match &self.kind {
            Kind::Memory { .. } => Ok(()),
            Kind::File(file) | Kind::Copy(file, ..) => fill(file, (lines * LINE_BYTES) as u64),
        }
    }

    #[inline(always)]
    fn enter(&self) -> io::Result<Call<'_>> {
        if self.owner.as_ref().is_some_and(Owner::seems_forked) {
            return Err(Forked.into());
        }
        Ok(match &self.kind {
            Kind::Copy(_, checkpoints, _) => checkpoints.enter(),
            Kind::Memory { .. } | Kind::File(_) => Call::free(),
        })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // P2. The mapping and the descriptors are a forked process's own, and to close one of two gives up no lock.
        let is_forked = self.is_forked();
        if let Kind::Copy(_, checkpoints, _) = &self.kind
            && !is_forked
        {
            checkpoints.close(self);
        }
        unmap(self.base, self.reserved);
        match &self.kind {
            _ if is_forked => {}
            Kind::Memory { .. } => {}
            Kind::File(file) => file.release(),
            Kind::Copy(_, checkpoints, _) => checkpoints.release(),
        }
    }
}

/// What is behind a mapping.
#[derive(Clone, Copy, Debug)]
enum Backing<'a> {
    /// Memory of the process.
    None,
    /// The page cache of a file.
    Cache(&'a File),
    /// The file itself, in persistent memory: what is flushed is durable, and the file's own blocks are.
    Persistent(&'a File),
}

/// Reserves addresses for a medium.
fn reserve(backing: Backing<'_>) -> io::Result<(NonNull<AtomicU64>, usize)> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
    let mut failed = io::ErrorKind::OutOfMemory.into();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    for bytes in RESERVED_BYTES {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let mapped = unsafe {
            let shared = |flags, file| mmap(core::ptr::null_mut(), bytes, access, flags, file, 0);
            match backing {
                Backing::Cache(file) => shared(MapFlags::SHARED, file),
                #[cfg(target_os = "linux")]
                Backing::Persistent(file) => {
                    shared(MapFlags::SHARED_VALIDATE | MapFlags::SYNC, file)
                }
                #[cfg(not(target_os = "linux"))]
                Backing::Persistent(_) => Err(rustix::io::Errno::OPNOTSUPP),
                Backing::None => mmap_anonymous(
                    core::ptr::null_mut(),
                    bytes,
                    access,
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                ),
            }
        };
        match mapped {
            Ok(base) => {
                let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
                return Ok((base, bytes));
            }
            Err(error) => failed = error.into(),
        }
    }
    Err(failed)
}

/// Maps a file, and counts its whole lines.
fn map(backing: Backing<'_>) -> io::Result<(NonNull<AtomicU64>, usize, AtomicU64)> {
    let bytes = match backing {
        Backing::None => 0,
        Backing::Cache(file) | Backing::Persistent(file) => file.metadata()?.len(),
    };
    let (base, reserved) = reserve(backing)?;
    if bytes > reserved as u64 {
        unmap(base, reserved);
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((base, reserved, AtomicU64::new(bytes / LINE_BYTES as u64)))
}

fn unmap(base: NonNull<AtomicU64>, bytes: usize) {
    // SAFETY: `reserve` mapped these bytes, and nobody uses them any more.
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes) };
}

#[cfg(all(test, target_arch = "x86_64", not(any(miri, loom, shuttle, fanread_tsan))))]
mod tests {
    use super::*;
    use crate::persist::medium::WordAt;

    #[test]
    fn a_medium_that_flushes_keeps_what_is_stored() {
        let mut medium = Mapped::memory(false).unwrap();
        medium.flush = Flush::detect();
        medium.is_quiet = false;
        assert!(medium.flush.is_some());
        medium.grow(100).unwrap();
        for at in 0..800 {
            medium.store(WordAt(at), at as u64, Relaxed);
            medium.persist(WordAt(at).line());
        }
        assert!((0..800).all(|at| medium.load(WordAt(at), Relaxed) == at as u64));
    }

    #[test]
    fn a_file_that_is_not_in_persistent_memory_does_not_count_as_such() {
        let path = std::env::temp_dir().join(format!("fanread-mapped-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let is_persistent = map(Backing::Persistent(&file))
            .map(|(base, reserved, _)| unmap(base, reserved))
            .is_ok();
        let medium = Mapped::file(file).unwrap();
        let level = if is_persistent { Durability::Persistent } else { Durability::Process };
        assert_eq!(medium.durability(), level);
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod fork_tests {
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn a_medium_of_another_process_is_left_locked_and_as_long_as_it_was() {
        let path = std::env::temp_dir().join(format!("fanread-forked-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let file = options.open(&path).unwrap();
        assert!(lock(&file));
        // As the parent has it.
        let copy = file.try_clone().unwrap();
        let mut medium = Mapped::file(file).unwrap();
        medium.grow(1).unwrap();
        medium.enter().unwrap();
        // As where the system clears no page in a forked process.
        medium.owner = medium.owner.take().map(Owner::of_another_process);
        assert!(Forked::is_in(&medium.grow(2).unwrap_err()));
        assert!(Forked::is_in(&medium.sync().unwrap_err()));
        assert_eq!(medium.lines(), 1);
        drop(medium);
        assert_eq!(copy.metadata().unwrap().len(), LINE_BYTES as u64);
        assert!(!lock(&options.open(&path).unwrap()));
        drop(copy);
        assert!(lock(&options.open(&path).unwrap()));
        std::fs::remove_file(path).unwrap();
    }
}
