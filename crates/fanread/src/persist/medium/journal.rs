//! The journal of a file: the lines of one checkpoint, all or none of which become the file's.
//!
//! ```text
//! byte 0        state        of the working copy (`checkpoint.rs`): one sector, which is written as a whole or not at all
//!      512      group        magic, identity, number, lines of the medium, words of the runs, checksum, 0, 0
//!      576      runs         first line, how many, and the lines; and so on
//! ```
//!
//! A group is written over the one before, and made safe, before the first of its lines is written to the file; and all of its
//! lines are safe there before the next group is written. So at every moment the file is whole, or the journal has a
//! group that makes it whole, and to write the lines of this group again does no harm.
//!
//! # Invariants
//!
//! * **J1** A group counts if its checksum is right. It covers all of it, so a group of which a part was lost does not.
//! * **J2** The file has the number of the last group whose lines it has, or of the one before it.

#![expect(clippy::missing_errors_doc, reason = "the errors are those of the system")]

use std::io;

use super::storage::Storage;
use super::{LINE_WORDS, LineAt};
use crate::hash::mix::{fold, stream};
use crate::mem::LINE_BYTES;

/// Bytes that a disk writes as a whole or not at all.
pub(super) const SECTOR: usize = 512;

const STATE_MAGIC: u64 = u64::from_le_bytes(*b"fanJRNL1");
const GROUP_MAGIC: u64 = u64::from_le_bytes(*b"fanGROUP");
const GROUP_AT: u64 = SECTOR as u64;
/// Words before the runs.
const HEAD_WORDS: usize = 8;
/// Which of them is the checksum.
const SUM_AT: usize = 5;

/// What is known of the working copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// It is not to be used.
    Lost,
    /// It is safe, and nobody changes it.
    AtRest,
    /// It is what the processes of one run of the system have made it, and only during that run.
    InUse(Boot),
}

/// A run of the system, from its start to its end.
pub(crate) type Boot = [u64; 2];

impl Work {
    fn words(self) -> [u64; 3] {
        match self {
            Self::Lost => [0, 0, 0],
            Self::AtRest => [1, 0, 0],
            Self::InUse([one, two]) => [2, one, two],
        }
    }

    fn of(words: [u64; 3]) -> Option<Self> {
        let [kind, one, two] = words;
        [Self::Lost, Self::AtRest, Self::InUse([one, two])].into_iter().nth(kind as usize)
    }
}

fn checksum(words: impl Iterator<Item = u64>) -> u64 {
    let factor = const { stream(1, 9) | 1 };
    words.fold(factor, |sum, word| fold(sum.rotate_left(7) ^ word, factor) ^ word)
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Lines that are to become a file's together.
#[derive(Debug)]
pub(super) struct Group {
    /// As in the journal.
    bytes: Vec<u8>,
    /// Where the run begins to which the next line may belong, and that line.
    run: Option<(usize, LineAt)>,
}

impl Group {
    /// A group of no lines, for a medium of `lines` lines.
    pub(super) fn new(identity: u64, number: u64, lines: usize) -> Self {
        let mut group = Self { bytes: Vec::new(), run: None };
        for word in [GROUP_MAGIC, identity, number, lines as u64, 0, 0, 0, 0] {
            group.bytes.extend_from_slice(&word.to_le_bytes());
        }
        group
    }

    fn word(&self, at: usize) -> u64 {
        words_of(&self.bytes[at * 8..]).next().expect("it is one of the group")
    }

    fn set_word(&mut self, at: usize, word: u64) {
        self.bytes[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
    }

    pub(super) fn number(&self) -> u64 {
        self.word(2)
    }

    /// How many lines the medium has.
    pub(super) fn lines(&self) -> u64 {
        self.word(3)
    }

    /// The checksum of one that was written, or read.
    pub(super) fn sum(&self) -> u64 {
        self.word(SUM_AT)
    }

    /// Adds a line. Without memory for it the group is as it was.
    pub(super) fn add(&mut self, line: LineAt, words: [u64; LINE_WORDS]) -> io::Result<()> {
        self.bytes.try_reserve(16 + LINE_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let run = self.run.filter(|(_, next)| *next == line).map_or(self.bytes.len() / 8, |r| r.0);
        if run == self.bytes.len() / 8 {
            self.bytes.extend_from_slice(&(line.0 as u64).to_le_bytes());
            self.bytes.extend_from_slice(&0_u64.to_le_bytes());
        }
        self.set_word(run + 1, self.word(run + 1) + 1);
        for word in words {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.run = Some((run, line.plus(1)));
        Ok(())
    }

    /// Writes into the head what only the whole of it tells.
    fn seal(&mut self) {
        self.set_word(4, (self.bytes.len() / 8 - HEAD_WORDS) as u64);
        self.set_word(SUM_AT, self.checksum());
    }

    fn checksum(&self) -> u64 {
        let is_covered = |at: &usize| *at != SUM_AT;
        checksum(words_of(&self.bytes).enumerate().filter(|(at, _)| is_covered(at)).map(|(_, w)| w))
    }

    /// The runs: the first line, and the bytes of all. `None` for what cannot be.
    pub(super) fn runs(&self) -> impl Iterator<Item = Option<(LineAt, &[u8])>> {
        let mut rest = &self.bytes[HEAD_WORDS * 8..];
        let lines = self.lines();
        std::iter::from_fn(move || {
            let mut head = words_of(rest);
            let (first, count) = (head.next()?, head.next().unwrap_or(0));
            let is_in = first.checked_add(count).is_some_and(|end| end <= lines);
            let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(LINE_BYTES));
            let run = bytes.filter(|_| is_in && count > 0).and_then(|n| rest.get(16..16 + n));
            rest = run.map_or(&[], |run| &rest[16 + run.len()..]);
            Some(run.map(|run| (LineAt(first as usize), run)))
        })
    }
}

impl Group {
    /// The lines of all runs that can be.
    pub(super) fn lines_in_runs(&self) -> impl Iterator<Item = LineAt> {
        let lines = |(first, bytes): (LineAt, &[u8])| {
            (0..bytes.len() / LINE_BYTES).map(move |at| first.plus(at))
        };
        self.runs().flatten().flat_map(lines)
    }
}

/// The journal; see the module.
#[derive(Debug)]
pub(super) struct Journal<S> {
    storage: S,
    /// What tells the map whose it is from others.
    identity: u64,
}

impl<S: Storage> Journal<S> {
    pub(super) fn new(storage: S, identity: u64) -> Self {
        Self { storage, identity }
    }

    /// Gives up that the file is this process's alone.
    pub(super) fn release(&self) {
        self.storage.release();
    }

    /// Makes the journal of a file whose number is 0, and that has no working copy yet.
    pub(super) fn format(&self) -> io::Result<()> {
        self.set_state(Work::Lost)?;
        self.write(&mut Group::new(self.identity, 0, 0))
    }

    /// Whose journal a file is, or was to become; `None` if it is none.
    pub(super) fn whose(storage: &S) -> io::Result<Option<u64>> {
        let mut begin = [0; SECTOR + 16];
        if storage.bytes()? < begin.len() as u64 {
            return Ok(None);
        }
        storage.read(0, &mut begin)?;
        let words: Vec<_> = words_of(&begin).collect();
        let [state, group] = [&words[..2], &words[SECTOR / 8..]];
        // Its group is written before its state.
        let marked = [(state, STATE_MAGIC), (group, GROUP_MAGIC)];
        let marked = marked.into_iter().find(|(words, magic)| words[0] == *magic);
        Ok(marked.map(|(words, _)| words[1]))
    }

    /// What is known of the working copy; `None` if this is no journal of the map.
    pub(super) fn state(&self) -> io::Result<Option<Work>> {
        if self.storage.bytes()? < GROUP_AT {
            return Ok(None);
        }
        let mut sector = [0; SECTOR];
        self.storage.read(0, &mut sector)?;
        let [magic, identity, kind, one, two, sum] =
            core::array::from_fn(|at| words_of(&sector[at * 8..]).next().unwrap_or(0));
        let is_right = magic == STATE_MAGIC
            && identity == self.identity
            && sum == checksum([magic, identity, kind, one, two].into_iter());
        Ok(Work::of([kind, one, two]).filter(|_| is_right))
    }

    /// Notes what is known of the working copy. It need not be safe: one that is in use has no mark of one at rest.
    pub(super) fn set_state(&self, work: Work) -> io::Result<()> {
        let [kind, one, two] = work.words();
        let words = [STATE_MAGIC, self.identity, kind, one, two];
        let words = words.into_iter().chain([checksum(words.into_iter())]);
        let mut sector = [0; SECTOR];
        for (room, word) in sector.chunks_mut(8).zip(words) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        self.storage.write(0, &sector)
    }

    /// Writes a group, which is safe when this returns.
    pub(super) fn write(&self, group: &mut Group) -> io::Result<()> {
        group.seal();
        self.storage.write(GROUP_AT, &group.bytes)?;
        self.storage.sync()
    }

    /// The last group, if it is whole. It may not be safe: who was to make it may have been killed.
    pub(super) fn read(&self) -> io::Result<Option<Group>> {
        let bytes = self.storage.bytes()?.saturating_sub(GROUP_AT);
        let mut group = Group::new(0, 0, 0);
        if bytes < group.bytes.len() as u64 {
            return Ok(None);
        }
        self.storage.read(GROUP_AT, &mut group.bytes)?;
        let words = group.word(4).checked_add(HEAD_WORDS as u64);
        let is_there = words.is_some_and(|words| words <= bytes / 8);
        if [group.word(0), group.word(1)] != [GROUP_MAGIC, self.identity] || !is_there {
            return Ok(None);
        }
        let head = group.bytes.len();
        let more = group.word(4) as usize * 8;
        group.bytes.try_reserve_exact(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
        group.bytes.resize(head + more, 0);
        self.storage.read(GROUP_AT + head as u64, &mut group.bytes[head..])?;
        let is_whole = group.checksum() == group.word(SUM_AT) || faults::trusts();
        Ok(is_whole.then_some(group))
    }

    /// Takes the room for a group.
    pub(super) fn reserve(&self, group: &Group) -> io::Result<()> {
        self.storage.grow(GROUP_AT + group.bytes.len() as u64)
    }
}

/// Writes the lines of a group that is safe in the journal to their places in the file, safely.
pub(super) fn apply<S: Storage>(group: &Group, file: &S) -> io::Result<()> {
    let bytes = group.lines().checked_mul(LINE_BYTES as u64).ok_or(io::ErrorKind::InvalidData)?;
    file.grow(bytes)?;
    for run in group.runs() {
        let (first, lines) = run.ok_or(io::ErrorKind::InvalidData)?;
        file.write((first.0 * LINE_BYTES) as u64, lines)?;
    }
    file.sync()
}

/// What tests make wrong here.
pub(super) mod faults {
    #[cfg(test)]
    thread_local! {
        /// Whether groups count whose checksum is wrong.
        pub(crate) static TRUSTS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    pub(super) fn trusts() -> bool {
        #[cfg(test)]
        return TRUSTS.get();
        #[cfg(not(test))]
        false
    }
}
