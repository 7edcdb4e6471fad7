//! A map of byte strings: the table names records, which are in the heap.
//!
//! | call | durable steps | in between |
//! | --- | --- | --- |
//! | insert of a new key | record; name; hash | nothing names the record: its cell is free |
//! | replacement | record; name | the same |
//! | remove | hash | |
//!
//! The hash of a string is not one-to-one. Keys of one hash have a slot each, and their records tell them apart.

use std::collections::HashSet;

use super::heap::Heap;
use super::layout::{Block, SLOTS, STRINGS_MAGIC};
use super::record::Record;
use super::search::{BATCH, Wanted};
use super::store::StoreStats;
use super::{Broken, CcehError, CcehOptions, Map, SplitPolicy};
use crate::mem::LINE_BYTES;
use crate::persist::medium::{LINE_WORDS, LineAt, Medium, WordAt};
use crate::sync::epoch::{Guard, pin};
use crate::sync::lock::Lock;
use crate::sync::shim::AtomicU64;

/// The map over any medium; see the module.
pub(super) struct Strings<M> {
    pub(super) map: Map<M>,
    pub(super) heap: Lock<Heap>,
    /// How many extents of the heap were not examined.
    pub(super) unexamined: AtomicU64,
}

/// The entry of a key.
struct OfKey<'a, M> {
    strings: &'a Strings<M>,
    key: &'a [u8],
}

impl<M: Medium> Wanted for OfKey<'_, M> {
    #[inline]
    fn is(&self, value: u64) -> bool {
        let medium = &self.strings.map.medium;
        Record::of(medium, value).is_some_and(|record| record.has_key(medium, self.key))
    }

    fn leaves(&self, value: u64) {
        self.strings.examine_before_leaving(value);
    }
}

impl<M: Medium> Strings<M> {
    /// Makes a map on an empty medium. Until it returns, a crash leaves what is not a map.
    pub(super) fn create(medium: M, options: CcehOptions) -> Result<Self, CcehError> {
        Map::format(&medium, &options, STRINGS_MAGIC)?;
        // Which ends in a fence.
        Self::open(medium, options.policy)
    }

    /// Opens a map, and finishes what a crash has left unfinished.
    pub(super) fn open(medium: M, policy: SplitPolicy) -> Result<Self, CcehError> {
        let (map, heap) = Map::open_with(medium, policy, STRINGS_MAGIC, Heap::open)?;
        let unexamined = AtomicU64::new(heap.extents() as u64);
        Ok(Self { map, heap: Lock::new(heap), unexamined })
    }

    fn of_key<'a>(&'a self, key: &'a [u8]) -> (u64, OfKey<'a, M>) {
        (self.map.spelling.hash_bytes(key), OfKey { strings: self, key })
    }

    /// The record of a key. It stays what it is as long as the guard is there.
    #[inline]
    fn find(&self, key: &[u8], _guard: &Guard) -> Option<Record> {
        let (hash, wanted) = self.of_key(key);
        Record::of(&self.map.medium, self.map.get_hash(hash, &wanted)?)
    }

    pub(super) fn contains_key(&self, key: &[u8]) -> bool {
        self.find(key, &pin()).is_some()
    }

    /// Appends the value of a key to `value`; tells whether there is one.
    pub(super) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        let guard = pin();
        let record = self.find(key, &guard);
        record.inspect(|record| record.read_value(&self.map.medium, value)).is_some()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.get_into(key, &mut value).then_some(value)
    }

    /// Calls `found` for each key with its number and its record. Asks for the lines of the table for some keys at once, and then for
    /// their records.
    pub(super) fn each_of_batch(
        &self,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<Record>),
    ) {
        let medium = &self.map.medium;
        for (group, keys) in keys.chunks(BATCH).enumerate() {
            // Records stay what they are until they have been read.
            let guard = pin();
            let mut hashes = [0; BATCH];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.map.spelling.hash_bytes(key);
                self.map.prefetch(*hash);
            }
            for hash in &hashes[..keys.len()] {
                let line = self.map.guess(*hash).map(|name| LineAt(name as usize / LINE_WORDS));
                if let Some(line) = line.filter(|line| line.0 < medium.lines()) {
                    medium.line(line).prefetch_many();
                }
            }
            for (at, key) in keys.iter().enumerate() {
                found(group * BATCH + at, self.find(key, &guard));
            }
        }
    }

    #[track_caller]
    pub(super) fn get_batch(&self, keys: &[&[u8]], values: &mut [Option<Vec<u8>>]) {
        assert_eq!(keys.len(), values.len(), "as many places as keys");
        self.each_of_batch(keys, |at, record| {
            values[at] = record.map(|record| {
                let mut value = Vec::new();
                record.read_value(&self.map.medium, &mut value);
                value
            });
        });
    }

    #[track_caller]
    pub(super) fn contains_batch(&self, keys: &[&[u8]], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many places as keys");
        self.each_of_batch(keys, |at, record| found[at] = record.is_some());
    }

    pub(super) fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, CcehError> {
        let (key_bytes, value_bytes) = (key.len(), value.len());
        let too_long = CcehError::TooLong { bytes: key_bytes.max(value_bytes) };
        let record = |at| Record::new(at, key_bytes, value_bytes);
        let Some(words) = record(WordAt(0)).map(Record::words) else { return Err(too_long) };
        let guard = pin();
        let at = self.allocate(words)?;
        let Some(record) = record(at) else { return Err(too_long) };
        record.write(&self.map.medium, key, value);
        self.map.medium.fence();
        let (hash, wanted) = self.of_key(key);
        match self.map.put(hash, record.name(), &wanted) {
            Ok(old) => Ok(old.map(|old| self.leave(old, &guard))),
            Err(error) => {
                self.give_back(record);
                Err(error)
            }
        }
    }

    pub(super) fn remove(&self, key: &[u8]) -> Option<Vec<u8>> {
        let guard = pin();
        let (hash, wanted) = self.of_key(key);
        let old = self.map.take(hash, &wanted)?;
        Some(self.leave(old, &guard))
    }

    /// Returns the value of a record that its slot has left, and lets its cell be used again.
    fn leave(&self, name: u64, guard: &Guard) -> Vec<u8> {
        let mut value = Vec::new();
        if let Some(record) = Record::of(&self.map.medium, name) {
            record.read_value(&self.map.medium, &mut value);
            self.retire(name, record.words(), guard);
        }
        value
    }

    /// Returns the key and the value of a record, if a name is one's that has this hash.
    pub(super) fn entry(&self, hash: u64, name: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let medium = &self.map.medium;
        let record = Record::of(medium, name)?;
        let mut key = Vec::new();
        record.read_key(medium, &mut key);
        let mut value = Vec::new();
        (self.map.spelling.hash_bytes(&key) == hash).then(|| {
            record.read_value(medium, &mut value);
            (key, value)
        })
    }

    pub(super) fn stats(&self) -> StoreStats {
        let block_bytes = self.map.geometry.lines() * LINE_BYTES;
        let segments = self.map.structure.lock().segments.iter().sum::<u32>() as usize;
        let blocks = self.heap.lock().blocks().map(|(_, count)| count as usize).sum::<usize>();
        StoreStats {
            entries: self.map.len(),
            segments,
            slots: segments * self.map.geometry.lines() * SLOTS,
            record_bytes: blocks * block_bytes,
            free_bytes: self.map.space.lock().free_blocks() * block_bytes,
            bytes: self.map.medium.lines() * LINE_BYTES,
        }
    }

    /// Verifies the invariants of a map at rest, and stores nothing.
    pub(super) fn check(&self) -> Result<(), Broken> {
        let medium = &self.map.medium;
        let heap = self.heap.lock();
        let unexamined = self.named_unexamined(&heap);
        let blocks: Vec<(Block, u32)> = heap.blocks().collect();
        self.map.check_with(&blocks, |one, other| {
            let key = |name| {
                let mut key = Vec::new();
                if let Some(record) = Record::of(medium, name) {
                    record.read_key(medium, &mut key);
                }
                key
            };
            key(one) == key(other)
        })?;
        let mut names = HashSet::new();
        for (hash, name) in self.map.walk() {
            let broken = |what| Broken::new(what, format!("the record at word {name}"));
            let record = Record::of(medium, name);
            if record.is_none_or(|record| record.hash(medium, &self.map.spelling) != hash) {
                return Err(broken("R1"));
            }
            if !heap.has(name, self.map.geometry) && !unexamined.contains(&name) {
                return Err(broken("R3"));
            }
            if !names.insert(name) {
                return Err(broken("R1"));
            }
        }
        let (examined, waiting) = heap.used();
        let used = examined + unexamined.len();
        if used != names.len() + waiting {
            let place = format!("{used} cells, {} named, {waiting} waiting", names.len());
            return Err(Broken::new("R2", place));
        }
        Ok(())
    }
}
