//! Writes buckets in their order, which is no order of the entries.
//!
//! Entries in memory are fetched one by one, several ahead. Entries in a file would be fetched one by one from a disk, so
//! they are sorted by bucket first: each goes to the part of the table that its bucket is in, parts are as large as
//! memory allows, and one after the other is put together there.

use std::io::{self, Write};

use super::BuildError;
use super::layout::Layout;
use super::place::{self, FREE};
use super::sorted::Sorted;
use super::spill::Store;
use crate::arch;
use crate::hash::fixed::Crc32c;
use crate::mem::temporary::Unnamed;

/// What fills the value of buckets that have none.
const FILLER: u8 = b'a';

/// How many bytes of the file are written at a time.
const WRITE_BYTES: usize = 1 << 18;

/// How many buckets ahead records are asked for; they lie in key order, buckets do not.
const AHEAD: usize = 32;

/// The most bytes of a part that are collected before they are written to its place, and read from there at once.
const PART_BYTES: usize = if cfg!(miri) { 1 << 8 } else { 1 << 20 };

/// After how many buckets a step says how far it is.
const REPORT_EVERY: usize = 1 << 16;

/// Bytes of the number before each entry of a part: its bucket.
const BUCKET_BYTES: usize = 4;

/// Passes bytes on in larger pieces, and sums them.
pub(super) struct Output<W> {
    out: W,
    crc: Crc32c,
    buffer: Vec<u8>,
}

impl<W: Write> Output<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, crc: Crc32c::new(), buffer: Vec::with_capacity(WRITE_BYTES) }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.pass_on()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.crc.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Returns the checksum of all bytes, having passed them on.
    pub(super) fn crc_of_all(&mut self) -> io::Result<u32> {
        self.pass_on()?;
        Ok(self.crc.value())
    }

    /// Writes the end of the file, which is not summed.
    pub(super) fn finish(mut self, tail: &[u8]) -> io::Result<()> {
        self.out.write_all(tail)?;
        self.out.flush()
    }
}

/// Writes the buckets of entries that are in memory.
pub(super) fn from_memory<W: Write>(
    sorted: &Sorted<'_>,
    taken: &[u32],
    free: &[u8],
    out: &mut Output<W>,
    report: &mut dyn FnMut(u64),
) -> Result<(), BuildError> {
    for (at, number) in taken.iter().enumerate() {
        if let Some(ahead) = taken.get(at + AHEAD).filter(|ahead| **ahead != FREE) {
            arch::prefetch(sorted.record(*ahead as usize).as_ptr());
        }
        if *number == FREE {
            out.write(free)?;
        } else {
            let record = sorted.record(*number as usize);
            out.write(record)?;
            // A deletion has no value.
            out.write(&free[record.len()..])?;
        }
        if at % REPORT_EVERY == 0 {
            report(at as u64);
        }
    }
    Ok(())
}

/// Returns a bucket without an entry.
pub(super) fn free_bucket(empty_key: &[u8], bucket_bytes: usize) -> Vec<u8> {
    let mut free = empty_key.to_vec();
    free.resize(bucket_bytes, FILLER);
    free
}

/// A part of the table: buckets in a row, and a place in a file for their entries.
struct Part {
    /// Entries that are not in the file yet.
    waiting: Vec<u8>,
    /// Where in the file the entries begin, and where the next ones go.
    at: u64,
    end: u64,
}

/// Writes the buckets of entries that are in a file.
pub(super) fn from_file<W: Write>(
    store: &mut Store,
    taken: Vec<u32>,
    layout: &Layout,
    free: &[u8],
    out: &mut Output<W>,
    report: &mut dyn FnMut(u64),
) -> Result<(), BuildError> {
    let (buckets, bucket_bytes) = (layout.buckets(), layout.bucket_bytes());
    let entry_bytes = BUCKET_BYTES + bucket_bytes;
    // Half of the memory is for the parts that entries wait for, and the other half for the one that is written.
    let part_buckets = (store.limit() / 2 / bucket_bytes).clamp(1, buckets);
    let mut bucket_of = place::words(store.len(), 0)?;
    let mut parts = Vec::with_capacity(buckets.div_ceil(part_buckets));
    let mut end = 0;
    for (number, buckets) in taken.chunks(part_buckets).enumerate() {
        let first = number * part_buckets;
        parts.push(Part { waiting: Vec::new(), at: end, end });
        for (bucket, entry) in (first..).zip(buckets).filter(|(_, entry)| **entry != FREE) {
            bucket_of[*entry as usize] = bucket as u32;
            end += entry_bytes as u64;
        }
    }
    drop(taken);
    // An entry may be longer than all that is collected of a part.
    let most = (store.limit() / 2 / parts.len()).clamp(entry_bytes, PART_BYTES.max(entry_bytes));
    let mut file = store.new_file()?;
    let mut buckets_of_entries = bucket_of.iter();
    store.each(|record| {
        let bucket = *buckets_of_entries.next().expect("as many buckets as entries");
        let part = &mut parts[bucket as usize / part_buckets];
        part.waiting.extend_from_slice(&bucket.to_le_bytes());
        part.waiting.extend_from_slice(record);
        part.waiting.extend_from_slice(&free[record.len()..]);
        if part.waiting.len() + entry_bytes > most { part.write(&mut file) } else { Ok(()) }
    })?;
    drop(bucket_of);
    for part in &mut parts {
        part.write(&mut file).map_err(BuildError::Spill)?;
        part.waiting = Vec::new();
    }
    let mut first = 0;
    for part in &parts {
        let count = part_buckets.min(buckets - first);
        let whole = part.read(&mut file, first, count, free).map_err(BuildError::Spill)?;
        whole.chunks(WRITE_BYTES).try_for_each(|bytes| out.write(bytes))?;
        first += count;
        report(first as u64);
    }
    Ok(())
}

impl Part {
    /// Writes the entries that wait to their place.
    fn write(&mut self, file: &mut Unnamed) -> io::Result<()> {
        file.write_at(self.end, &self.waiting)?;
        self.end += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Returns the `count` buckets of the part, from bucket `first` on.
    fn read(
        &self,
        file: &mut Unnamed,
        first: usize,
        count: usize,
        free: &[u8],
    ) -> io::Result<Vec<u8>> {
        let (bucket_bytes, entry_bytes) = (free.len(), BUCKET_BYTES + free.len());
        let mut whole = free.repeat(count);
        let mut entries = vec![0; (PART_BYTES / entry_bytes).max(1) * entry_bytes];
        let mut at = self.at;
        while at < self.end {
            let bytes = (self.end - at).min(entries.len() as u64);
            let entries = &mut entries[..bytes as usize];
            file.read_at(at, entries)?;
            for entry in entries.chunks_exact(entry_bytes) {
                let (bucket, entry) = entry.split_first_chunk::<BUCKET_BYTES>().expect("a bucket");
                let bucket = u32::from_le_bytes(*bucket) as usize - first;
                whole[bucket * bucket_bytes..][..bucket_bytes].copy_from_slice(entry);
            }
            at += bytes;
        }
        Ok(whole)
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::table::{TableBuilder, TableOptions};

    #[test]
    fn entries_longer_than_what_is_collected_are_written_from_a_file() {
        let build = |limit| {
            let mut builder = TableBuilder::new(TableOptions::new().memory_limit(limit));
            for key in 0..8_u8 {
                builder.insert(&[key], &vec![key; PART_BYTES + 1]).unwrap();
            }
            let mut file = Vec::new();
            let spilled_bytes = builder.finish(&mut file).unwrap().spilled_bytes;
            (file, spilled_bytes > 0)
        };
        let (whole, _) = build(16 * PART_BYTES);
        for limit in [0, 4 * PART_BYTES] {
            let (file, is_spilled) = build(limit);
            assert!(is_spilled && file == whole, "{limit}");
        }
    }
}
