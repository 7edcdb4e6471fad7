//! Entries while a table is built: in memory up to a limit, beyond it as sorted runs in a file without a name.
//!
//! ```text
//! entries -> memory -> full: sorted -> run, run, run, ...      one file for values and deletions
//!                                        \    |    /
//!                                         merged       -> values, deletions      another file, and the first is gone
//! ```
//!
//! A table that never passes the limit never touches a file. The files take twice the bytes of the entries while runs are
//! merged. A call that fails loses no entry: what is on its way to a file stays where it was until it is there.

use std::io;
use std::path::PathBuf;

use super::BuildError;
use super::records::Records;
use super::sorted::{List, Sorted};
use crate::mem::temporary::{Mapped, Unnamed};

/// The most bytes of a run that are read at once: from here on a disk's seek is a small part of the time.
const READ_BYTES: usize = 1 << 20;

/// The fewest, where runs are so many that they would take more memory than the limit.
const LEAST_READ_BYTES: usize = 1 << 12;

/// Which list an entry is in, and the place of the list in those of a [`Store`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Value = 0,
    Deletion = 1,
}

/// All entries of a table.
#[derive(Debug)]
pub(super) struct Store {
    /// The most bytes of entries in memory.
    limit: usize,
    /// Where files are made.
    folder: PathBuf,
    file: Option<Unnamed>,
    /// Each `None` before its first entry.
    lists: [Option<Gathered>; 2],
}

/// Entries of one kind.
#[derive(Debug)]
struct Gathered {
    memory: Records,
    /// Sorted records in the file.
    runs: Vec<Run>,
}

/// Bytes of the file.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: u64,
    bytes: u64,
}

/// Sorted entries, readable by number.
#[derive(Debug)]
pub(super) struct View<'a> {
    store: &'a Store,
    mapped: Option<Mapped<'a>>,
}

impl Gathered {
    fn len(&self) -> usize {
        let spilled: u64 = self.runs.iter().map(|run| run.bytes).sum();
        self.memory.len() + (spilled / self.memory.record_bytes as u64) as usize
    }
}

impl Store {
    pub(super) fn new(limit: usize, folder: PathBuf) -> Self {
        Self { limit, folder, file: None, lists: [None, None] }
    }

    /// Returns how many entries there are.
    pub(super) fn len(&self) -> usize {
        self.lists.iter().flatten().map(Gathered::len).sum()
    }

    /// Returns how many entries of a kind there are.
    pub(super) fn count(&self, kind: Kind) -> usize {
        self.lists[kind as usize].as_ref().map_or(0, Gathered::len)
    }

    /// Returns the lengths of the records of a kind and of their keys, once there is one.
    pub(super) fn lengths(&self, kind: Kind) -> Option<(usize, usize)> {
        let list = self.lists[kind as usize].as_ref()?;
        Some((list.memory.record_bytes, list.memory.key_bytes))
    }

    /// Returns how many bytes of entries may be in memory.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Makes an empty file where those of the store are.
    pub(super) fn new_file(&self) -> Result<Unnamed, BuildError> {
        Unnamed::create_in(&self.folder).map_err(BuildError::Spill)
    }

    /// Whether there are entries in a file.
    pub(super) fn is_spilled(&self) -> bool {
        self.lists.iter().flatten().any(|list| !list.runs.is_empty())
    }

    /// Returns how many bytes of entries are in a file.
    pub(super) fn spilled_bytes(&self) -> u64 {
        self.lists.iter().flatten().flat_map(|list| &list.runs).map(|run| run.bytes).sum()
    }

    /// Adds an entry, key first. All entries of a kind have the lengths of the first one.
    pub(super) fn push(&mut self, kind: Kind, parts: [&[u8]; 3]) -> Result<(), BuildError> {
        let record_bytes = parts.iter().map(|part| part.len()).sum();
        let in_memory = self.lists.iter().flatten().map(|list| list.memory.bytes().len());
        let in_memory: usize = in_memory.sum();
        if in_memory > 0 && in_memory.saturating_add(record_bytes) > self.limit {
            self.spill(true)?;
        }
        let slot = &mut self.lists[kind as usize];
        let list = slot.get_or_insert_with(|| Gathered {
            memory: Records::new(record_bytes, parts[0].len()),
            runs: Vec::new(),
        });
        let pushed = list.memory.push(parts, self.limit);
        if list.len() == 0 {
            // A refused entry decides nothing about those to come.
            *slot = None;
        }
        pushed
    }

    /// Moves all entries from memory into the file, a run for each kind. Their memory is kept for others if `keep`.
    fn spill(&mut self, keep: bool) -> Result<(), BuildError> {
        if self.file.is_none() {
            self.file = Some(self.new_file()?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        for list in self.lists.iter_mut().flatten().filter(|list| list.memory.len() > 0) {
            list.memory.sort();
            let run = Run { at: file.bytes(), bytes: list.memory.bytes().len() as u64 };
            file.append(list.memory.bytes()).map_err(BuildError::Spill)?;
            list.runs.push(run);
            list.memory.clear(keep);
        }
        Ok(())
    }

    /// Sorts all entries: in memory, or into one run for each kind.
    pub(super) fn sort(&mut self) -> Result<(), BuildError> {
        if !self.is_spilled() {
            self.lists.iter_mut().flatten().for_each(|list| list.memory.sort());
            return Ok(());
        }
        self.spill(false)?;
        if self.lists.iter().flatten().all(|list| list.runs.len() <= 1) {
            return Ok(());
        }
        let mut merged = self.new_file()?;
        let mut runs = [None; 2];
        for (list, run) in self.lists.iter().zip(&mut runs) {
            let (Some(list), Some(file)) = (list, &mut self.file) else { continue };
            let merge = Merge::new(file, list, self.limit).and_then(|merge| {
                let at = merged.bytes();
                let mut part = Vec::with_capacity(READ_BYTES);
                merge.each(file, |record| {
                    if part.len() + record.len() > READ_BYTES {
                        merged.append(&part)?;
                        part.clear();
                    }
                    part.extend_from_slice(record);
                    Ok(())
                })?;
                merged.append(&part)?;
                Ok(Run { at, bytes: merged.bytes() - at })
            });
            *run = Some(merge.map_err(BuildError::Spill)?);
        }
        for (list, run) in self.lists.iter_mut().zip(runs) {
            if let (Some(list), Some(run)) = (list, run) {
                list.runs = if run.bytes > 0 { vec![run] } else { Vec::new() };
            }
        }
        self.file = Some(merged);
        Ok(())
    }

    /// Lets sorted entries be read by number.
    pub(super) fn view(&self) -> Result<View<'_>, BuildError> {
        let mapped = match &self.file {
            Some(file) if self.is_spilled() => Some(file.map().map_err(BuildError::of_spill)?),
            _ => None,
        };
        Ok(View { store: self, mapped })
    }

    /// Calls `take` for each entry of a spilled store that is sorted, in the order of their numbers, with what is in the
    /// file of it.
    pub(super) fn each(
        &mut self,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), BuildError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        for list in self.lists.iter().flatten() {
            let merge = Merge::new(file, list, READ_BYTES).map_err(BuildError::Spill)?;
            merge.each(file, &mut take).map_err(BuildError::Spill)?;
        }
        Ok(())
    }
}

impl View<'_> {
    pub(super) fn sorted(&self) -> Sorted<'_> {
        Sorted::new([0, 1].map(|kind| {
            let Some(list) = &self.store.lists[kind] else {
                return List { bytes: &[], record_bytes: 1, key_bytes: 1 };
            };
            let bytes = match (&self.mapped, &list.runs[..]) {
                (Some(mapped), [run]) => &mapped[run.at as usize..(run.at + run.bytes) as usize],
                _ => list.memory.bytes(),
            };
            let Records { record_bytes, key_bytes, .. } = list.memory;
            List { bytes, record_bytes, key_bytes }
        }))
    }
}

/// Reads several runs of a file as one.
struct Merge {
    heads: Vec<Head>,
    /// The heads that have a record, as a heap: that with the lowest key first.
    heap: Vec<usize>,
    record_bytes: usize,
    key_bytes: usize,
}

/// The next records of a run.
struct Head {
    records: Vec<u8>,
    /// Where the first record begins that was not taken.
    at: usize,
    /// What was not read yet.
    rest: Run,
    read_bytes: usize,
}

impl Merge {
    /// Begins to read the runs of a list, with buffers of `memory` bytes together, or somewhat more.
    fn new(file: &mut Unnamed, list: &Gathered, memory: usize) -> io::Result<Self> {
        let Records { record_bytes, key_bytes, .. } = list.memory;
        let share = memory / list.runs.len().max(1);
        let whole = share.clamp(LEAST_READ_BYTES, READ_BYTES) / record_bytes;
        let mut heads = Vec::with_capacity(list.runs.len());
        for run in &list.runs {
            let read_bytes = whole.max(1) * record_bytes;
            let mut head = Head { records: Vec::new(), at: 0, rest: *run, read_bytes };
            head.read(file)?;
            heads.push(head);
        }
        let heap = (0..heads.len()).filter(|run| !heads[*run].records.is_empty()).collect();
        let mut merge = Self { heads, heap, record_bytes, key_bytes };
        (0..merge.heap.len()).rev().for_each(|at| merge.sift_down(at));
        Ok(merge)
    }

    /// Calls `take` for every record, by key.
    fn each(
        mut self,
        file: &mut Unnamed,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while let Some(lowest) = self.heap.first() {
            let head = &mut self.heads[*lowest];
            take(&head.records[head.at..][..self.record_bytes])?;
            head.at += self.record_bytes;
            if head.at == head.records.len() {
                head.read(file)?;
                if head.records.is_empty() {
                    self.heap.swap_remove(0);
                }
            }
            self.sift_down(0);
        }
        Ok(())
    }

    fn key(&self, at: usize) -> &[u8] {
        let head = &self.heads[self.heap[at]];
        &head.records[head.at..][..self.key_bytes]
    }

    /// Moves the head at `at` of the heap down to where no lower key is below it.
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let below =
                [2 * at + 1, 2 * at + 2].into_iter().filter(|child| *child < self.heap.len());
            let Some(child) = below.min_by_key(|child| self.key(*child)) else { return };
            if self.key(at) <= self.key(child) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}

impl Head {
    /// Reads the next records of the run; none at its end.
    fn read(&mut self, file: &mut Unnamed) -> io::Result<()> {
        let bytes = self.rest.bytes.min(self.read_bytes as u64);
        self.records.resize(bytes as usize, 0);
        file.read_at(self.rest.at, &mut self.records)?;
        self.rest = Run { at: self.rest.at + bytes, bytes: self.rest.bytes - bytes };
        self.at = 0;
        Ok(())
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use testkit::Rng;

    fn store(limit: usize) -> Store {
        Store::new(limit, std::env::temp_dir())
    }

    /// Adds values of three bytes, and deletions, with keys that are all different.
    fn fill(store: &mut Store, seed: u64, count: u32) -> [Vec<Vec<u8>>; 2] {
        let mut rng = Rng::new(seed);
        let mut expected = [Vec::new(), Vec::new()];
        for number in 0..count {
            let key = [&rng.bytes(2)[..], &number.to_be_bytes()].concat();
            let kind = if rng.one_in(4) { Kind::Deletion } else { Kind::Value };
            let value = if kind == Kind::Value { rng.bytes(3) } else { Vec::new() };
            store.push(kind, [&key, &[], &value]).unwrap();
            expected[kind as usize].push([key, value].concat());
        }
        for records in &mut expected {
            records.sort();
        }
        expected
    }

    fn assert_sorted(store: &mut Store, expected: &[Vec<Vec<u8>>; 2]) {
        store.sort().unwrap();
        let view = store.view().unwrap();
        let sorted = view.sorted();
        let expected: Vec<&Vec<u8>> = expected.iter().flatten().collect();
        for (number, record) in expected.iter().enumerate() {
            assert_eq!(sorted.record(number), *record);
            assert_eq!(sorted.key(number), &record[..6]);
        }
        if store.is_spilled() {
            let mut found = Vec::new();
            let each = |record: &[u8]| {
                found.push(record.to_vec());
                Ok(())
            };
            store.each(each).unwrap();
            assert!(found.iter().eq(expected));
        }
    }

    #[test]
    fn entries_are_in_order_whatever_the_limit() {
        for (limit, count) in [(1 << 20, 1000), (5000, 1000), (90, 1000), (0, 50), (9000, 30_000)] {
            let mut store = store(limit);
            let expected = fill(&mut store, limit as u64, count);
            assert_eq!(store.len(), count as usize);
            assert_eq!(store.count(Kind::Deletion), expected[1].len());
            assert_eq!(store.is_spilled(), limit < 1 << 20);
            assert_sorted(&mut store, &expected);
            // Once more: a table may be written twice.
            assert_sorted(&mut store, &expected);
            assert_eq!(store.len(), count as usize);
        }
    }

    #[test]
    fn entries_may_come_after_a_sort() {
        let mut store = store(2000);
        let mut expected = fill(&mut store, 1, 1000);
        assert_sorted(&mut store, &expected);
        let key = [0xff; 6];
        store.push(Kind::Value, [&key, &[], &[1, 2, 3]]).unwrap();
        expected[0].push([&key[..], &[1, 2, 3]].concat());
        assert_sorted(&mut store, &expected);
    }

    #[test]
    fn a_file_that_cannot_be_made_loses_no_entry() {
        let mut store = Store::new(100, "/no/such/folder".into());
        for key in 0..16_u8 {
            store.push(Kind::Value, [&[key; 6], &[], &[]]).unwrap();
        }
        for _ in 0..2 {
            let refused = store.push(Kind::Value, [&[99; 6], &[], &[]]);
            assert!(matches!(refused, Err(BuildError::Spill(_))), "{refused:?}");
            assert_eq!(store.len(), 16);
        }
        store.folder = std::env::temp_dir();
        store.push(Kind::Value, [&[99; 6], &[], &[]]).unwrap();
        store.sort().unwrap();
        assert_eq!(store.view().unwrap().sorted().key(16), [99; 6]);
    }
}
