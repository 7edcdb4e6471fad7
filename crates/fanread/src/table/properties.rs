//! The named values in which a table file describes itself, and the [`Layout`] they amount to.
//!
//! Written and read here so that both sides agree. `docs/formats/cuckoo-table.md` has the list.

use core::ops::Range;

use super::block::{self, Cursor, Entries};
use super::layout::{KIND_BITS, Layout, Refused, Shape, TRAILER_BYTES};
use super::{TableError, TableOptions};
use crate::hash::fixed::Crc32c;

/// Our own property: CRC-32C of the buckets, then of the bytes of this block behind the property. Others ignore it.
const CHECKSUM: &str = "fanread.checksum";
const CHECKSUM_BYTES: usize = 8;

const BLOCK_BUCKETS: &str = "rocksdb.cuckoo.hash.cuckooblocksize";
const DATA_SIZE: &str = "rocksdb.data.size";
const DELETED: &str = "rocksdb.deleted.keys";
const EMPTY_KEY: &str = "rocksdb.cuckoo.bucket.empty.key";
const ENTRIES: &str = "rocksdb.num.entries";
const HASHES: &str = "rocksdb.cuckoo.hash.num";
const IDENTITY_FIRST: &str = "rocksdb.cuckoo.hash.identityfirst";
const KEY_BYTES: &str = "rocksdb.fixed.key.length";
const LAST_LEVEL: &str = "rocksdb.cuckoo.file.islastlevel";
const MODULO: &str = "rocksdb.cuckoo.hash.usemodule";
const TABLE_BUCKETS: &str = "rocksdb.cuckoo.hash.size";
const USER_KEY_BYTES: &str = "rocksdb.cuckoo.hash.userkeylength";
const VALUE_BYTES: &str = "rocksdb.cuckoo.value.length";

/// The name in the meta-index under which the properties are, and the one of old files.
const PROPERTIES: [&str; 2] = ["rocksdb.properties", "rocksdb.stats"];

/// What a file tells about itself, checked.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) layout: Layout,
    /// How many entries there are, deletions included.
    pub(super) entries: u64,
    /// How many of them are deletions, where the file says it.
    pub(super) deletions: Option<u64>,
    /// The key of buckets without an entry: K bytes.
    pub(super) empty_key: Box<[u8]>,
    /// Where the properties are.
    pub(super) block: Range<usize>,
    pub(super) properties: Entries,
}

/// Reads properties of a file, whose bytes may be anything.
struct Reader<'a> {
    file: &'a [u8],
    properties: &'a Entries,
}

impl Reader<'_> {
    fn place(&self, property: &'static str) -> Result<Range<usize>, TableError> {
        self.properties.get(property.as_bytes()).ok_or(TableError::Missing { property })
    }

    /// Returns the value of a property of `expected` bytes as a little-endian number.
    fn fixed(&self, property: &'static str, expected: usize) -> Result<u64, TableError> {
        let place = self.place(property)?;
        if place.len() != expected {
            let (offset, found) = (place.start as u64, place.len());
            return Err(TableError::Length { property, offset, found, expected });
        }
        let mut bytes = [0; 8];
        bytes[..expected].copy_from_slice(&self.file[place]);
        Ok(u64::from_le_bytes(bytes))
    }

    fn flag(&self, property: &'static str) -> Result<bool, TableError> {
        match self.fixed(property, 1)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(self.value(property, found)),
        }
    }

    fn number(&self, property: &'static str) -> Result<u64, TableError> {
        Cursor::new(self.file, self.place(property)?).number()
    }

    /// The error of a property whose value cannot be.
    fn value(&self, property: &'static str, found: u64) -> TableError {
        let offset = self.place(property).map_or(0, |place| place.start as u64);
        TableError::Value { property, offset, found }
    }
}

/// Finds and checks the properties of a file. Every number used later has passed through here.
pub(super) fn describe(file: &[u8]) -> Result<Described, TableError> {
    let (meta_index, footer_at) = block::parse_footer(file)?;
    let meta_index = Entries::parse(file, meta_index)?;
    let handle = PROPERTIES.iter().find_map(|name| meta_index.get(name.as_bytes()));
    let handle = handle.ok_or(TableError::Missing { property: PROPERTIES[0] })?;
    let block = Cursor::new(file, handle).handle(footer_at)?;
    let properties = Entries::parse(file, block.clone())?;
    let reader = Reader { file, properties: &properties };
    let shape = Shape {
        user_key_bytes: reader.fixed(USER_KEY_BYTES, 4)?,
        // RocksDB writes eight bytes and reads four of them.
        value_bytes: reader.fixed(VALUE_BYTES, 8)?,
        block_buckets: reader.fixed(BLOCK_BUCKETS, 4)?,
        table_buckets: reader.fixed(TABLE_BUCKETS, 8)?,
        hashes: reader.fixed(HASHES, 4)?,
        has_sequences: !reader.flag(LAST_LEVEL)?,
        modulo: reader.flag(MODULO)?,
        identity_first: reader.flag(IDENTITY_FIRST)?,
    };
    let layout = Layout::new(&shape).map_err(|refused| {
        let (property, found) = match refused {
            Refused::UserKeyBytes => (USER_KEY_BYTES, shape.user_key_bytes),
            Refused::ValueBytes => (VALUE_BYTES, shape.value_bytes),
            Refused::BlockBuckets => (BLOCK_BUCKETS, shape.block_buckets),
            Refused::TableBuckets => (TABLE_BUCKETS, shape.table_buckets),
            Refused::Hashes => (HASHES, shape.hashes),
            Refused::IdentityFirst => (IDENTITY_FIRST, 1),
        };
        reader.value(property, found)
    })?;
    let key_bytes = reader.number(KEY_BYTES)?;
    if key_bytes != layout.key_bytes() as u64 {
        return Err(reader.value(KEY_BYTES, key_bytes));
    }
    if layout.data_bytes() != block.start {
        let (expected, found) = (layout.data_bytes() as u64, block.start as u64);
        return Err(TableError::DataBytes { expected, found });
    }
    let entries = reader.number(ENTRIES)?;
    if entries > layout.buckets() as u64 {
        return Err(reader.value(ENTRIES, entries));
    }
    let deletions = match properties.get(DELETED.as_bytes()) {
        Some(_) => Some(reader.number(DELETED)?),
        None => None,
    };
    let empty = reader.place(EMPTY_KEY)?;
    if empty.len() != layout.key_bytes() {
        return Err(TableError::Length {
            property: EMPTY_KEY,
            offset: empty.start as u64,
            found: empty.len(),
            expected: layout.key_bytes(),
        });
    }
    // As long as the file says, which is long if keys are.
    let mut empty_key = Vec::new();
    empty_key
        .try_reserve_exact(empty.len())
        .map_err(|_| TableError::OutOfMemory { bytes: empty.len() })?;
    empty_key.extend_from_slice(&file[empty]);
    let empty_key = empty_key.into_boxed_slice();
    Ok(Described { layout, entries, deletions, empty_key, block, properties })
}

impl Described {
    /// Verifies the checksums of our property, if the file has it. Returns whether it has.
    pub(super) fn verify(&self, file: &[u8]) -> Result<bool, TableError> {
        if self.properties.get(CHECKSUM.as_bytes()).is_none() {
            return Ok(false);
        }
        let reader = Reader { file, properties: &self.properties };
        let both = reader.fixed(CHECKSUM, CHECKSUM_BYTES)?;
        let place = reader.place(CHECKSUM)?;
        let parts =
            [(0..self.block.start, both as u32), (place.end..self.block.end, (both >> 32) as u32)];
        for (part, stored) in parts {
            let mut crc = Crc32c::new();
            crc.update(&file[part.clone()]);
            let computed = crc.value();
            if computed != stored {
                let offset = part.start as u64;
                return Err(TableError::Checksum { offset, stored, computed });
            }
        }
        Ok(true)
    }
}

/// What the end of a file has to tell about the buckets before it.
pub(super) struct Written<'a> {
    pub(super) layout: &'a Layout,
    pub(super) entries: u64,
    pub(super) deletions: u64,
    pub(super) empty_key: &'a [u8],
    pub(super) data_crc: u32,
}

/// Returns everything behind the buckets: properties, meta-index, footer.
pub(super) fn tail(options: &TableOptions, written: &Written<'_>) -> Vec<u8> {
    let &Written { layout, entries, deletions, empty_key, data_crc } = written;
    let number = |number: u64| {
        let mut bytes = Vec::new();
        block::put_number(&mut bytes, number);
        bytes
    };
    let short = |number: usize| (number as u32).to_le_bytes().to_vec();
    let long = |number: u64| number.to_le_bytes().to_vec();
    let flag = |flag: bool| vec![u8::from(flag)];
    let (key_bytes, value_bytes) = (layout.key_bytes() as u64, layout.value_bytes as u64);
    let mut entries: Vec<(&str, Vec<u8>)> = vec![
        (EMPTY_KEY, empty_key.to_vec()),
        (LAST_LEVEL, flag(!layout.has_sequences)),
        (BLOCK_BUCKETS, short(layout.block_buckets)),
        (IDENTITY_FIRST, flag(layout.identity_first)),
        (HASHES, short(layout.hashes as usize)),
        (TABLE_BUCKETS, long(layout.table_buckets)),
        (MODULO, flag(layout.modulo)),
        (USER_KEY_BYTES, short(layout.user_key_bytes)),
        (VALUE_BYTES, long(value_bytes)),
        (DATA_SIZE, number(layout.data_bytes() as u64)),
        (DELETED, number(deletions)),
        (KEY_BYTES, number(key_bytes)),
        (ENTRIES, number(entries)),
        ("rocksdb.raw.key.size", number(entries * key_bytes)),
        ("rocksdb.raw.value.size", number(entries * value_bytes)),
        ("rocksdb.num.data.blocks", number(1)),
        ("rocksdb.column.family.id", number(u64::from(options.creator.column_family))),
        ("rocksdb.original.file.number", number(options.creator.file_number)),
    ];
    for zero in [
        "rocksdb.index.size",
        "rocksdb.filter.size",
        "rocksdb.format.version",
        "rocksdb.index.key.is.user.key",
        "rocksdb.index.value.is.delta.encoded",
        "rocksdb.num.filter_entries",
        "rocksdb.merge.operands",
        "rocksdb.num.range-deletions",
        "rocksdb.creation.time",
        "rocksdb.oldest.key.time",
    ] {
        entries.push((zero, vec![0]));
    }
    for (name, text) in [
        ("rocksdb.creating.db.identity", &options.creator.identity),
        ("rocksdb.creating.session.identity", &options.creator.session),
        ("rocksdb.column.family.name", &options.creator.column_family_name),
    ] {
        if !text.is_empty() {
            entries.push((name, text.clone().into_bytes()));
        }
    }
    if options.ingestible && !layout.has_sequences {
        entries.push(("rocksdb.external_sst_file.version", short(2)));
        entries.push(("rocksdb.external_sst_file.global_seqno", long(0)));
    }
    if options.checksums {
        entries.push((CHECKSUM, vec![0; CHECKSUM_BYTES]));
    }
    entries.sort_by_key(|entry| entry.0);

    let named: Vec<(&[u8], &[u8])> =
        entries.iter().map(|(name, value)| (name.as_bytes(), &**value)).collect();
    let mut tail = Vec::new();
    block::put_block(&mut tail, &named);
    if options.checksums {
        // The first entry: three numbers of a byte each, the name, and the value that is still zero.
        let value_at = 3 + CHECKSUM.len();
        let mut crc = Crc32c::new();
        crc.update(&tail[value_at + CHECKSUM_BYTES..]);
        tail[value_at..value_at + 4].copy_from_slice(&data_crc.to_le_bytes());
        tail[value_at + 4..value_at + 8].copy_from_slice(&crc.value().to_le_bytes());
    }
    let data_bytes = layout.data_bytes() as u64;
    let mut handle = number(data_bytes);
    block::put_number(&mut handle, tail.len() as u64);
    let meta_index_at = data_bytes + tail.len() as u64;
    block::put_block(&mut tail, &[(PROPERTIES[0].as_bytes(), &handle)]);
    let meta_index_end = data_bytes + tail.len() as u64;
    block::put_footer(&mut tail, meta_index_at..meta_index_end);
    tail
}

/// What a bucket's trailer says: sequence and kind.
pub(super) fn trailer(sequence: u64, kind: u8) -> [u8; TRAILER_BYTES] {
    ((sequence << KIND_BITS) | u64::from(kind)).to_le_bytes()
}
