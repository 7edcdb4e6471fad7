//! Checkpoints: a file that after a power cut is as it was at the last `sync`, and a working copy of it that survives the process.
//!
//! ```text
//! file         written at checkpoints only, through the journal
//! journal      the last checkpoint, and what is known of the working copy (`journal.rs`)
//! working copy what the map is: mapped, shared, stored to at any time
//! ```
//!
//! What is stored to the working copy is in the system's page cache, which outlives a process; the disk gets it in any order, so it is
//! worth nothing to another run of the system, unless it was closed. Which run that is the system tells by a random number.
//!
//! | the journal says of the working copy | the map is opened from |
//! | --- | --- |
//! | at rest, and it has the mark of the last checkpoint | the working copy |
//! | at rest, and it has another mark, or one of a copy in use | the file, which is copied: somebody has put other files there |
//! | in use, by this run of the system | the working copy: a process was killed |
//! | in use, by another run | the file, which is copied: the power was cut |
//! | lost | the file, which is copied: somebody was killed while copying |
//!
//! # Invariants
//!
//! * **C1** Outside of the gate, every line in which file and working copy differ is marked, or they were not compared since a process
//!   was killed.
//! * **C2** Before a store to the working copy its mark has, safely, no sum of a checkpoint, so that it is not at rest whatever journal is put
//!   beside it; and the journal has by which run of the system it is in use.
//! * **C3** Nobody stores while lines are taken, so that all are of one moment between the calls of the map.

use std::io;
// Not of the shim: no model runs with checkpoints.
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard};

use super::journal::{Boot, Group, Journal, Work, apply};
use super::marks::Marks;
use super::storage::Storage;
use super::{LINE_WORDS, LineAt, Medium};
use crate::mem::LINE_BYTES;
use crate::sync::shim::Ordering::Relaxed;

/// How many bytes of the file are compared at once.
const COMPARED_BYTES: usize = 1 << 20;

/// Where Linux tells its runs apart.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Which run of the system this is.
///
/// # Errors
///
/// `Unsupported` if the system does not tell, as none but Linux does, nor that without `/proc`.
pub(crate) fn boot() -> io::Result<Boot> {
    boot_in(BOOT_ID)
}

fn boot_in(file: &str) -> io::Result<Boot> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |from| digits.get(from..from + 16).and_then(|d| u64::from_str_radix(d, 16).ok());
    let halves = half(0).zip(half(16)).map(|(one, two)| [one, two]);
    halves.ok_or_else(|| {
        let text = format!("checkpoints need a system that tells its runs apart in {file}");
        io::Error::new(io::ErrorKind::Unsupported, text)
    })
}

/// What a map's header says for its checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    /// A number that maps of another geometry or hash key do not have.
    pub(crate) identity: u64,
    /// A line that the map does not use: `mark`, the number of the last checkpoint, and in a working copy at rest its checksum, else 0.
    pub(crate) line: LineAt,
    pub(crate) mark: u64,
}

impl Home {
    /// Where the checksum is, in bytes.
    fn sum_at(self) -> u64 {
        (self.line.0 * LINE_BYTES) as u64 + 16
    }
}

/// What a map is opened from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The working copy as it was closed.
    Closed,
    /// The working copy as a killed process left it.
    Killed,
    /// The last checkpoint.
    Checkpoint,
}

/// The checkpoints of a file; see the module.
pub(crate) struct Checkpoints<S> {
    file: S,
    journal: Journal<S>,
    work: S,
    home: Home,
    marks: Marks,
    /// Held for reading by calls that store, for writing while lines are taken.
    gate: ShardedLock<()>,
    progress: Mutex<Progress>,
    /// Whether what the working copy has is a map, and may become the file's.
    is_confirmed: AtomicBool,
}

#[derive(Debug)]
struct Progress {
    /// Of the last checkpoint.
    number: u64,
    /// The checksum of its group.
    sum: u64,
    /// Whether the marks tell all that differs (C1).
    is_compared: bool,
    /// Whether a checkpoint failed when the disk may have had a part of it.
    has_failed: bool,
}

impl<S> std::fmt::Debug for Checkpoints<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").field("home", &self.home).finish_non_exhaustive()
    }
}

/// A call that stores; see [`Checkpoints::enter`].
#[derive(Debug)]
pub(crate) struct Call<'a>(
    #[expect(dead_code, reason = "it is there to be dropped")] Option<ShardedLockReadGuard<'a, ()>>,
);

impl Call<'_> {
    /// A call that no checkpoint waits for.
    pub(super) fn free() -> Self {
        Self(None)
    }
}

impl<S: Storage> Checkpoints<S> {
    /// Makes the journal of a file that has checkpoints from now on.
    pub(crate) fn format(journal: S, home: Home) -> io::Result<()> {
        Journal::new(journal, home.identity).format()
    }

    /// The [`Home::identity`] of the map whose journal a file is, or was to become; `None` if it is none.
    pub(crate) fn journal_of(file: &S) -> io::Result<Option<u64>> {
        Journal::whose(file)
    }

    /// Finishes what a crash has left unfinished, and makes the working copy what the map is. Nobody has it mapped meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the system; [`io::ErrorKind::InvalidData`] if the journal is not that of the file.
    pub(crate) fn open(
        [file, journal, work]: [S; 3],
        home: Home,
        boot: Boot,
    ) -> io::Result<(Self, Origin)> {
        let journal = Journal::new(journal, home.identity);
        let state = journal.state()?.ok_or(io::ErrorKind::InvalidData)?;
        let (mut number, _) = last_in(&file, home)?.ok_or(io::ErrorKind::InvalidData)?;
        let mut sum = 0;
        if let Some(mut group) = journal.read()? {
            if group.number().wrapping_sub(number) > 1 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // At rest the file has it, unless somebody has put an older one there (J2).
            if state != Work::AtRest || number != group.number() {
                // It may be in the page cache only, which may say after a failure that it is safe.
                journal.write(&mut group)?;
                apply(&group, &file)?;
            }
            (number, sum) = (group.number(), group.sum());
        }
        let origin = match state {
            _ if work.bytes()? == 0 => Origin::Checkpoint,
            Work::AtRest if sum != 0 && last_in(&work, home)? == Some((number, sum)) => {
                Origin::Closed
            }
            Work::InUse(by) if by == boot => Origin::Killed,
            Work::AtRest | Work::InUse(_) | Work::Lost => Origin::Checkpoint,
        };
        if origin == Origin::Checkpoint {
            journal.set_state(Work::Lost)?;
            work.copy(&file)?;
        }
        // C2. A copy that was just made has no sum, since the file has none.
        if origin != Origin::Killed {
            journal.set_state(Work::InUse(boot))?;
        }
        let is_marked = last_in(&work, home)?.is_some_and(|(_, sum)| sum != 0);
        if origin != Origin::Checkpoint && is_marked {
            work.write(home.sum_at(), &0_u64.to_le_bytes())?;
            work.sync()?;
        }
        let marks = Marks::new();
        let gate = ShardedLock::new(());
        let is_compared = origin != Origin::Killed;
        let progress = Mutex::new(Progress { number, sum, is_compared, has_failed: false });
        let is_confirmed = AtomicBool::new(false);
        Ok((Self { file, journal, work, home, marks, gate, progress, is_confirmed }, origin))
    }

    /// Says that the working copy has a map. What is not confirmed never becomes the file's.
    pub(crate) fn confirm(&self) {
        self.is_confirmed.store(true, Relaxed);
    }

    /// Makes room for a medium of so many lines.
    pub(crate) fn grow(&self, lines: usize) -> io::Result<()> {
        self.marks.grow(lines).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.file.grow((lines * LINE_BYTES) as u64)
    }

    /// Begins a call that stores.
    pub(crate) fn enter(&self) -> Call<'_> {
        Call(Some(self.gate.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Takes note that a line was stored to.
    #[inline]
    pub(crate) fn mark(&self, line: LineAt) {
        self.marks.set(line);
    }

    /// Makes the file what the working copy is between two calls.
    ///
    /// # Errors
    ///
    /// Those of the system. Without memory or room for the journal nothing has happened. A checkpoint that failed when the disk may have had a part of it is the last one: what the disk has is not
    /// known, and to ask again may be answered as if all were well.
    pub(crate) fn sync(&self, work: &impl Medium) -> io::Result<()> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.has_failed {
            return Err(io::Error::other("an earlier checkpoint has failed"));
        }
        if !progress.is_compared {
            self.compare(work)?;
            progress.is_compared = true;
        }
        let number = progress.number.wrapping_add(1);
        let Some(mut group) = self.take(work, number)? else { return Ok(()) };
        if let Err(error) = self.journal.reserve(&group) {
            group.lines_in_runs().for_each(|line| self.marks.set(line));
            return Err(error);
        }
        progress.has_failed = true;
        self.journal.write(&mut group)?;
        apply(&group, &self.file)?;
        *progress = Progress { number, sum: group.sum(), is_compared: true, has_failed: false };
        Ok(())
    }

    /// Takes all marked lines; `None` if there are none.
    fn take(&self, work: &impl Medium, number: u64) -> io::Result<Option<Group>> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut group = Group::new(self.home.identity, number, work.lines());
        let mut is_empty = true;
        for line in self.marks.iter() {
            group.add(line, words_of(work, line))?;
            is_empty = false;
        }
        let mut own = [0; LINE_WORDS];
        [own[0], own[1]] = [self.home.mark, number];
        group.add(self.home.line, own)?;
        self.marks.clear();
        Ok((!is_empty).then_some(group))
    }

    /// Marks all lines in which file and working copy differ (C1). Others may store meanwhile, and mark what they do.
    fn compare(&self, work: &impl Medium) -> io::Result<()> {
        let bytes = self.file.bytes()?;
        let mut room = vec![0; COMPARED_BYTES];
        for first in (0..work.lines()).step_by(COMPARED_BYTES / LINE_BYTES) {
            let at = (first * LINE_BYTES) as u64;
            let there = bytes.saturating_sub(at).min(COMPARED_BYTES as u64) as usize;
            self.file.read(at, &mut room[..there])?;
            let count = (work.lines() - first).min(COMPARED_BYTES / LINE_BYTES);
            for (line, seen) in (first..first + count).map(LineAt).zip(room.chunks(LINE_BYTES)) {
                let is_there = (line.0 - first + 1) * LINE_BYTES <= there;
                let words = words_of(work, line);
                let is_same =
                    seen.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).eq(words);
                if line != self.home.line && !(is_there && is_same) {
                    self.marks.set(line);
                }
            }
        }
        Ok(())
    }

    /// Ends the use of the working copy, whose contents the file gets, if it can.
    pub(crate) fn close(&self, work: &impl Medium) {
        if !self.is_confirmed.load(Relaxed) {
            return;
        }
        let closed = self.sync(work).and_then(|()| {
            let Progress { number, sum, .. } =
                *self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            let own = [self.home.mark, number, sum].map(u64::to_le_bytes);
            self.work.write((self.home.line.0 * LINE_BYTES) as u64, own.as_flattened())?;
            self.work.sync()
        });
        if closed.is_ok() {
            // Else the file has the map, and the working copy as long as the system runs.
            let _ = self.journal.set_state(Work::AtRest);
        }
    }

    /// Gives up that the files are this process's alone.
    pub(crate) fn release(&self) {
        self.journal.release();
        self.file.release();
    }
}

fn words_of(work: &impl Medium, line: LineAt) -> [u64; LINE_WORDS] {
    let line = work.line(line);
    // Relaxed: nobody stores (C3), or whoever does marks the line.
    core::array::from_fn(|at| line.load(at, Relaxed))
}

/// The number of the last checkpoint whose lines a file has, and of a working copy its checksum; `None` if it has none.
fn last_in<S: Storage>(file: &S, home: Home) -> io::Result<Option<(u64, u64)>> {
    let at = (home.line.0 * LINE_BYTES) as u64;
    let mut words = [0; 24];
    if file.bytes()? < at + words.len() as u64 {
        return Ok(None);
    }
    file.read(at, &mut words)?;
    let [mark, number, sum] =
        core::array::from_fn(|at| u64::from_le_bytes(words.as_chunks::<8>().0[at]));
    Ok((mark == home.mark).then_some((number, sum)))
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_does_not_tell_its_runs_apart_has_no_checkpoints() {
        let path = std::env::temp_dir().join(format!("fanread-boot-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let kind = || boot_in(path).unwrap_err().kind();
        assert_eq!(kind(), io::ErrorKind::Unsupported);
        std::fs::write(path, "2b1c-0").unwrap();
        assert_eq!(kind(), io::ErrorKind::Unsupported);
        std::fs::write(path, "00000000-0000-0001-8000-000000000002\n").unwrap();
        assert_eq!(boot_in(path).unwrap(), [1, 1 << 63 | 2]);
        std::fs::remove_file(path).unwrap();
        #[cfg(target_os = "linux")]
        assert_eq!(boot().unwrap(), boot().unwrap());
    }
}
