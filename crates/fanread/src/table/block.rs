//! The parts around the buckets: numbers of variable length, blocks of named values, the footer.
//!
//! ```text
//! entry   shared, fresh, value length (three numbers), fresh bytes of the name, value
//! block   entries, offset of each restart (u32), number of restarts (u32)
//! footer  byte 0      1        41            45      53
//!              | kind | handles | version u32 | magic |
//! ```
//!
//! A name is the first `shared` bytes of the name before it and the fresh bytes. Names ascend. A handle is the offset and
//! the length of a block as two numbers; the footer has one of the meta-index and one of an index that tables of this
//! kind do not have. Neither blocks nor footer carry a checksum.

use core::ops::Range;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::TableError;

/// Bytes of the footer.
pub(super) const FOOTER_BYTES: usize = 53;

/// The last eight bytes of every cuckoo table.
const MAGIC: u64 = 0x9267_89d0_c5f1_7873;

/// The version of the footer.
const VERSION: u32 = 1;

/// The kinds of checksums that footers of other tables may name; here it says nothing, since nothing is summed.
const CHECKSUM_KINDS: Range<u8> = 0..5;

const KIND_AT: usize = 0;
const HANDLES_AT: usize = 1;
const VERSION_AT: usize = 41;
const MAGIC_AT: usize = 45;

/// The most entries of a block. An entry of four bytes in a file takes some 70 in memory, so without a limit a file of such
/// ones could ask for many times its length. `RocksDB` writes some 35, and collectors of its users a few more.
const MAX_ENTRIES: usize = 4096;

/// The most bytes that all names of a block may take. Shared bytes make names longer than the block that holds them, and
/// each is copied: without a limit a small file could ask for much memory. `RocksDB` writes some 700 bytes.
const NAMES_BYTES: usize = 1 << 20;

/// Appends `number` in groups of seven bits, the low ones first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a block of `entries`, whose names ascend, with one restart at its start.
pub(super) fn put_block(out: &mut Vec<u8>, entries: &[(&[u8], &[u8])]) {
    let mut before: &[u8] = &[];
    for (name, value) in entries {
        debug_assert!(before < *name, "names ascend");
        let shared = before.iter().zip(*name).take_while(|(a, b)| a == b).count();
        put_number(out, shared as u64);
        put_number(out, (name.len() - shared) as u64);
        put_number(out, value.len() as u64);
        out.extend_from_slice(&name[shared..]);
        out.extend_from_slice(value);
        before = name;
    }
    out.extend_from_slice(&0_u32.to_le_bytes());
    out.extend_from_slice(&1_u32.to_le_bytes());
}

/// Appends the footer of a table whose meta-index is at `meta_index`.
pub(super) fn put_footer(out: &mut Vec<u8>, meta_index: Range<u64>) {
    let end = out.len() + VERSION_AT;
    out.push(0);
    for number in [meta_index.start, meta_index.end - meta_index.start, 0, 0] {
        put_number(out, number);
    }
    out.resize(end, 0);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&MAGIC.to_le_bytes());
}

/// Reads numbers and bytes from a part of the file, never beyond it.
pub(super) struct Cursor<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `part`, which lies inside `file`.
    pub(super) fn new(file: &'a [u8], part: Range<usize>) -> Self {
        debug_assert!(part.start <= part.end && part.end <= file.len());
        Self { file, at: part.start, end: part.end }
    }

    /// Reads a number of at most 64 bits.
    pub(super) fn number(&mut self) -> Result<u64, TableError> {
        let damaged = TableError::Number { offset: self.at as u64 };
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            if self.at == self.end {
                return Err(damaged);
            }
            let byte = self.file[self.at];
            self.at += 1;
            let group = u64::from(byte & 0x7f);
            if group << shift >> shift != group {
                return Err(damaged);
            }
            number |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(damaged)
    }

    /// Reads the handle of a block and checks that the block ends at `limit` or before.
    pub(super) fn handle(&mut self, limit: usize) -> Result<Range<usize>, TableError> {
        let (offset, length) = (self.number()?, self.number()?);
        match offset.checked_add(length) {
            Some(end) if end <= limit as u64 => Ok(offset as usize..end as usize),
            _ => Err(TableError::BlockBounds { offset, length, limit: limit as u64 }),
        }
    }

    /// Passes over `length` bytes and returns where they are, or `None` if there are not so many.
    fn bytes(&mut self, length: u64) -> Option<Range<usize>> {
        if length > (self.end - self.at) as u64 {
            return None;
        }
        let start = self.at;
        self.at += length as usize;
        Some(start..self.at)
    }
}

/// The names and values of a block; values by their place in the file.
#[derive(Debug)]
pub(super) struct Entries(Vec<(Box<[u8]>, Range<usize>)>);

impl Entries {
    /// Parses the block at `block`, which lies inside `file`.
    pub(super) fn parse(file: &[u8], block: Range<usize>) -> Result<Self, TableError> {
        let mut cursor = Cursor::new(file, block.start..restarts_at(file, &block)?);
        let (mut entries, mut names_bytes) = (Vec::new(), 0);
        let mut name = Vec::new();
        while cursor.at < cursor.end {
            let offset = cursor.at as u64;
            let damaged = || TableError::Entry { offset };
            let (shared, fresh, length) = (cursor.number()?, cursor.number()?, cursor.number()?);
            if shared > name.len() as u64 {
                return Err(damaged());
            }
            let shared = shared as usize;
            let fresh = cursor.bytes(fresh).ok_or_else(damaged)?;
            let value = cursor.bytes(length).ok_or_else(damaged)?;
            if !entries.is_empty() && file[fresh.clone()] <= name[shared..] {
                return Err(TableError::Unsorted { offset });
            }
            if entries.len() == MAX_ENTRIES {
                return Err(TableError::Entries { offset, limit: MAX_ENTRIES });
            }
            names_bytes += shared + fresh.len();
            if names_bytes > NAMES_BYTES {
                return Err(TableError::Names { offset, limit: NAMES_BYTES });
            }
            name.truncate(shared);
            name.extend_from_slice(&file[fresh]);
            entries.push((name.clone().into_boxed_slice(), value));
        }
        Ok(Self(entries))
    }

    /// Returns where the value of `name` is.
    pub(super) fn get(&self, name: &[u8]) -> Option<Range<usize>> {
        let at = self.0.binary_search_by(|entry| (*entry.0).cmp(name)).ok()?;
        Some(self.0[at].1.clone())
    }

    /// Returns all names with the places of their values, in the order of names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Range<usize>)> {
        self.0.iter().map(|(name, value)| (&**name, value.clone()))
    }
}

/// Returns where the entries of a block end and its restart array begins.
fn restarts_at(file: &[u8], block: &Range<usize>) -> Result<usize, TableError> {
    let damaged = |at: usize, found| TableError::Restarts { offset: at as u64, found };
    let Some((_, count)) = file[block.clone()].split_last_chunk::<4>() else {
        return Err(damaged(block.start, 0));
    };
    let (count, count_at) = (u32::from_le_bytes(*count), block.end - 4);
    let room = (count_at - block.start) / 4;
    if count == 0 || count as usize > room {
        return Err(damaged(count_at, count));
    }
    Ok(count_at - count as usize * 4)
}

/// Refuses a file that does not end as a table does, from its last bytes alone.
pub(super) fn refuse_others(mut file: &File) -> Result<(), TableError> {
    let bytes = file.metadata()?.len();
    if bytes < FOOTER_BYTES as u64 {
        return Err(TableError::TooShort { bytes });
    }
    let mut magic = [0; 8];
    file.seek(SeekFrom::End(-8))?;
    file.read_exact(&mut magic)?;
    match u64::from_le_bytes(magic) {
        MAGIC => Ok(()),
        found => Err(TableError::NotATable { found }),
    }
}

/// Checks the footer at the end of `file` and returns where the meta-index is, and where the footer begins.
pub(super) fn parse_footer(file: &[u8]) -> Result<(Range<usize>, usize), TableError> {
    let Some((before, footer)) = file.split_last_chunk::<FOOTER_BYTES>() else {
        return Err(TableError::TooShort { bytes: file.len() as u64 });
    };
    let start = before.len();
    let at = |field: usize| (start + field) as u64;
    let magic = u64::from_le_bytes(*footer[MAGIC_AT..].first_chunk().expect("eight bytes"));
    if magic != MAGIC {
        return Err(TableError::NotATable { found: magic });
    }
    let version = u32::from_le_bytes(*footer[VERSION_AT..].first_chunk().expect("twelve bytes"));
    if version != VERSION {
        return Err(TableError::Version { offset: at(VERSION_AT), found: version });
    }
    let kind = footer[KIND_AT];
    if !CHECKSUM_KINDS.contains(&kind) {
        return Err(TableError::ChecksumKind { offset: at(KIND_AT), found: kind });
    }
    let mut cursor = Cursor::new(file, start + HANDLES_AT..start + VERSION_AT);
    let meta_index = cursor.handle(start)?;
    cursor.handle(start)?;
    Ok((meta_index, start))
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_longer_ones_are_refused() {
        for number in (0..64).flat_map(|bit| [1 << bit, (1_u64 << bit) - 1, !(1 << bit)]) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            assert_eq!(Cursor::new(&bytes, 0..bytes.len()).number().unwrap(), number);
            let cut = Cursor::new(&bytes, 0..bytes.len() - 1).number();
            assert!(matches!(cut, Err(TableError::Number { offset: 0 })), "{number}");
        }
        let mut long = [0xff; 10];
        long[9] = 2;
        for bytes in [&long[..], &[0x80; 10], &[0xff; 64]] {
            assert!(Cursor::new(bytes, 0..bytes.len()).number().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_block_comes_back() {
        let entries: [(&[u8], &[u8]); 4] =
            [(b"a", b""), (b"ab", b"1"), (b"abc", b"22"), (b"b", b"3")];
        let mut block = b"junk".to_vec();
        put_block(&mut block, &entries);
        let parsed = Entries::parse(&block, 4..block.len()).unwrap();
        for (name, value) in entries {
            assert_eq!(&block[parsed.get(name).unwrap()], value);
        }
        assert_eq!(parsed.get(b"abd"), None);
        assert_eq!(parsed.iter().count(), 4);
        assert!(block.ends_with(&[0, 0, 0, 0, 1, 0, 0, 0]));
    }

    #[test]
    fn names_that_repeat_much_take_little_memory() {
        // Each entry repeats all of the name before and adds one byte: 4 bytes an entry, quadratic when written out.
        let mut block = Vec::new();
        for shared in 0..40_000_u64 {
            put_number(&mut block, shared);
            block.extend_from_slice(&[1, 0, b'x']);
        }
        block.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        let refused = Entries::parse(&block, 0..block.len());
        assert!(matches!(refused, Err(TableError::Names { .. })), "{refused:?}");
    }

    #[test]
    fn names_that_are_many_or_long_take_little_memory() {
        fn block(count: usize, name_bytes: usize) -> Vec<u8> {
            let mut block = Vec::new();
            let mut name = vec![b'x'; name_bytes];
            for number in 0..count as u32 {
                name[..4].copy_from_slice(&number.to_be_bytes());
                block.push(0);
                put_number(&mut block, name_bytes as u64);
                block.push(0);
                block.extend_from_slice(&name);
            }
            block.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
            block
        }
        for (count, name_bytes) in [(MAX_ENTRIES, 4), (1, NAMES_BYTES), (MAX_ENTRIES, 256)] {
            let most = block(count, name_bytes);
            assert_eq!(Entries::parse(&most, 0..most.len()).unwrap().iter().count(), count);
        }
        let many = block(MAX_ENTRIES + 1, 4);
        let refused = Entries::parse(&many, 0..many.len()).unwrap_err();
        let offset = MAX_ENTRIES as u64 * 7;
        assert!(
            matches!(refused, TableError::Entries { offset: at, limit: MAX_ENTRIES } if at == offset),
            "{refused:?}"
        );
        for (count, name_bytes) in [(1, NAMES_BYTES + 1), (1, 3 * NAMES_BYTES), (MAX_ENTRIES, 257)]
        {
            let long = block(count, name_bytes);
            let refused = Entries::parse(&long, 0..long.len());
            assert!(
                matches!(refused, Err(TableError::Names { limit: NAMES_BYTES, .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn damaged_blocks_are_refused() {
        let end = [0, 0, 0, 0, 1, 0, 0, 0];
        let cases: [(&[u8], &str); 9] = [
            (&[], "Restarts { offset: 0, found: 0 }"),
            (&[1, 0, 0], "Restarts { offset: 0, found: 0 }"),
            (&[0, 0, 0, 0], "Restarts { offset: 0, found: 0 }"),
            (&[0, 0, 0, 0, 2, 0, 0, 0], "Restarts { offset: 4, found: 2 }"),
            (&[0, 0, 0, 0, 1, 0, 0, 0x80], "Restarts { offset: 4, found: 2147483649 }"),
            (&[&[1, 1, 0, b'a'], &end[..]].concat(), "Entry { offset: 0 }"),
            (&[&[0, 2, 0, b'a'], &end[..]].concat(), "Entry { offset: 0 }"),
            (&[&[0, 1, 1, b'a'], &end[..]].concat(), "Entry { offset: 0 }"),
            (&[&[0, 1, 0, b'a', 0, 1, 0, b'a'], &end[..]].concat(), "Unsorted { offset: 4 }"),
        ];
        for (block, expected) in cases {
            let refused = Entries::parse(block, 0..block.len()).unwrap_err();
            assert_eq!(format!("{refused:?}"), expected, "{block:?}");
        }
    }

    #[test]
    fn a_footer_comes_back_and_damaged_ones_are_refused() {
        let mut file = vec![7; 300];
        put_footer(&mut file, 130..300);
        assert_eq!(file.len(), 353);
        assert_eq!(parse_footer(&file).unwrap(), (130..300, 300));
        let with = |at: usize, byte: u8| {
            let mut damaged = file.clone();
            damaged[at] = byte;
            format!("{:?}", parse_footer(&damaged).unwrap_err())
        };
        assert_eq!(with(352, 0), "NotATable { found: 29143452368337011 }");
        assert_eq!(with(341, 2), "Version { offset: 341, found: 2 }");
        assert_eq!(with(300, 5), "ChecksumKind { offset: 300, found: 5 }");
        // The offset becomes 131, the length stays 170: one byte too many.
        assert_eq!(with(301, 0x83), "BlockBounds { offset: 131, length: 170, limit: 300 }");
        assert!(matches!(parse_footer(&file[301..]), Err(TableError::TooShort { bytes: 52 })));
    }
}
