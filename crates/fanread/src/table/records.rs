//! Entries that wait to be placed: records of one length, end to end, sorted in place.
//!
//! A record begins with its user key. Sorting takes no memory to speak of: records are exchanged where they are.

use super::BuildError;

/// Up to how many records a simple sort is faster than one pass over the 256 values of a byte, which costs about as much
/// as the exchanges and comparisons of this many records.
const FEW: usize = 32;

/// From how many bytes on a list takes all the memory that it may have at once, rather than twice what it has: memory that
/// is not written to costs nothing, and moving so many records would.
const ALL_AT_ONCE: usize = 64 << 20;

/// Records of `record_bytes` bytes, at least one, the first `key_bytes` of which are the key.
#[derive(Debug)]
pub(super) struct Records {
    bytes: Vec<u8>,
    pub(super) record_bytes: usize,
    pub(super) key_bytes: usize,
    /// Whether no key is below the one before it.
    sorted: bool,
}

impl Records {
    /// Makes an empty list of records that are `record_bytes` long, of which `key_bytes` are the key.
    pub(super) fn new(record_bytes: usize, key_bytes: usize) -> Self {
        debug_assert!(0 < key_bytes && key_bytes <= record_bytes);
        Self { bytes: Vec::new(), record_bytes, key_bytes, sorted: true }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.record_bytes
    }

    /// Returns all records, end to end.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all records. Keeps their memory if `keep`.
    pub(super) fn clear(&mut self, keep: bool) {
        if keep {
            self.bytes.clear();
        } else {
            self.bytes = Vec::new();
        }
        self.sorted = true;
    }

    /// Appends a record whose parts are together `record_bytes` long, key first. All records will not take more than
    /// `limit` bytes, unless this is the only one.
    pub(super) fn push(&mut self, parts: [&[u8]; 3], limit: usize) -> Result<(), BuildError> {
        self.reserve(limit)?;
        if let Some(last) = self.bytes.len().checked_sub(self.record_bytes) {
            self.sorted &= self.bytes[last..][..self.key_bytes] <= *parts[0];
        }
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        Ok(())
    }

    /// Makes room for one more record.
    fn reserve(&mut self, limit: usize) -> Result<(), BuildError> {
        let (len, bytes) = (self.bytes.len(), self.record_bytes);
        if self.bytes.capacity() - len >= bytes {
            return Ok(());
        }
        if len >= ALL_AT_ONCE && self.bytes.try_reserve_exact(limit.saturating_sub(len)).is_ok() {
            return Ok(());
        }
        self.bytes.try_reserve(bytes).map_err(|_| BuildError::OutOfMemory { bytes })
    }

    /// Sorts the records by key.
    pub(super) fn sort(&mut self) {
        if self.sorted {
            return;
        }
        let (size, key_bytes) = (self.record_bytes, self.key_bytes);
        // Parts that have the same first `at` bytes, each to be sorted by the rest.
        let mut parts = vec![(0..self.bytes.len(), 0)];
        while let Some((part, at)) = parts.pop() {
            let records = &mut self.bytes[part.clone()];
            if records.len() / size <= FEW {
                sort_few(records, size, key_bytes);
            } else if at < key_bytes {
                let ends = split(records, size, at);
                let mut start = 0;
                for end in ends {
                    if end - start > size {
                        parts.push((part.start + start..part.start + end, at + 1));
                    }
                    start = end;
                }
            }
        }
        self.sorted = true;
    }
}

/// Sorts records by insertion.
fn sort_few(records: &mut [u8], size: usize, key_bytes: usize) {
    for end in (size..records.len()).step_by(size) {
        let mut at = end;
        while at > 0 && records[at - size..][..key_bytes] > records[at..][..key_bytes] {
            swap(records, size, at - size, at);
            at -= size;
        }
    }
}

/// Exchanges the records at `low` and at `high`, which is behind it.
fn swap(records: &mut [u8], size: usize, low: usize, high: usize) {
    let (before, from) = records.split_at_mut(high);
    before[low..low + size].swap_with_slice(&mut from[..size]);
}

/// Groups records by their byte `at`; returns where the group of each byte ends.
///
/// PAPER: American flag sort (`McIlroy`, Bostic and `McIlroy`, "Engineering Radix Sort", 1993): count, then exchange
/// each record into the next place of its group.
fn split(records: &mut [u8], size: usize, at: usize) -> [usize; 256] {
    let mut counts = [0; 256];
    for record in records.chunks_exact(size) {
        counts[usize::from(record[at])] += 1;
    }
    let (mut next, mut ends) = ([0; 256], [0; 256]);
    let mut end = 0;
    for byte in 0..256 {
        next[byte] = end;
        end += counts[byte] * size;
        ends[byte] = end;
    }
    for byte in 0..256 {
        while next[byte] < ends[byte] {
            let here = next[byte];
            let other = usize::from(records[here + at]);
            let place = next[other];
            if other != byte {
                // Groups below this one are complete, so the place of the other group lies behind.
                swap(records, size, here, place);
            }
            next[other] += size;
        }
    }
    ends
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use testkit::Rng;

    fn records(keys: &[Vec<u8>]) -> Records {
        let mut records = Records::new(keys[0].len() + 4, keys[0].len());
        for (i, key) in keys.iter().enumerate() {
            records.push([key, &[], &(i as u32).to_le_bytes()], usize::MAX).unwrap();
        }
        records
    }

    fn record(records: &Records, index: usize) -> (&[u8], &[u8]) {
        records.bytes()[index * records.record_bytes..][..records.record_bytes]
            .split_at(records.key_bytes)
    }

    #[test]
    fn records_are_sorted_and_stay_whole() {
        let mut rng = Rng::new(1);
        for (count, len, letters) in
            [(1, 3, 256), (31, 4, 256), (33, 9, 2), (500, 12, 2), (20_000, 6, 256), (3000, 40, 3)]
        {
            let mut keys: Vec<Vec<u8>> =
                (0..count).map(|_| (0..len).map(|_| rng.below(letters) as u8).collect()).collect();
            keys.sort();
            keys.dedup();
            let mut mixed: Vec<(usize, Vec<u8>)> = keys.iter().cloned().enumerate().collect();
            for at in (1..mixed.len()).rev() {
                mixed.swap(at, rng.below(at + 1));
            }
            let numbers: Vec<usize> = mixed.iter().map(|(number, _)| *number).collect();
            let mut sorted = records(&mixed.into_iter().map(|(_, key)| key).collect::<Vec<_>>());
            sorted.sort();
            for (index, key) in keys.iter().enumerate() {
                let (found, number) = record(&sorted, index);
                assert_eq!(found, key);
                let number = u32::from_le_bytes(number.try_into().unwrap());
                assert_eq!(numbers[number as usize], index);
            }
        }
    }

    #[test]
    fn a_chain_of_ever_longer_shared_prefixes_is_no_recursion() {
        let keys: Vec<Vec<u8>> =
            (0..2000).map(|ones| (0..2000).map(|at| u8::from(at < ones)).collect()).rev().collect();
        let mut sorted = records(&keys);
        sorted.sort();
        assert!((1..2000).all(|index| record(&sorted, index - 1).0 < record(&sorted, index).0));
    }
}
