//! [`fanread::CuckooTable`] behind the traits of a measured map.
//!
//! A load collects all entries, writes the file, and reads it into memory: what someone waits for who has new data. Keys
//! have one length; values are the eight bytes of a number.

use fanread::table::{CuckooTable, TableBuilder, TableOptions};
use workload::subject::{Handle, Subject};

/// Answers that a batched lookup takes room for at once.
const BATCH: usize = 64;

/// A table, or the entries for one.
pub(crate) struct Measured {
    builder: TableBuilder,
    table: Option<CuckooTable>,
}

/// The handle that may load.
pub(crate) struct Maker<'a>(&'a mut Measured);

/// The handle that only reads.
pub(crate) struct Reader<'a>(&'a CuckooTable);

impl Subject for Measured {
    const NAME: &'static str = "cuckoo-table";
    const SHARED_WRITES: bool = false;
    const BATCHES: bool = true;
    const STATIC: bool = true;
    const ONE_LENGTH: bool = true;

    type Owned<'a> = Maker<'a>;
    type Shared<'a> = Reader<'a>;

    fn new() -> Self {
        Self { builder: TableBuilder::new(TableOptions::new()), table: None }
    }

    fn own(&mut self) -> Maker<'_> {
        Maker(self)
    }

    fn share(&self) -> Reader<'_> {
        Reader(self.table.as_ref().expect("a load comes first"))
    }
}

/// Writes the entries of `builder` to a file and opens it; the file is gone then.
fn made(builder: &mut TableBuilder) -> Result<CuckooTable, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.sst");
    builder.finish_file(&path)?;
    *builder = TableBuilder::new(TableOptions::new());
    Ok(CuckooTable::open(path)?)
}

#[inline]
fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("values of eight bytes"))
}

impl Handle for Reader<'_> {
    fn insert(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("several threads only read a table")
    }

    fn update(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("a table is only read")
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.0.get(key).map(number)
    }

    fn remove(&mut self, _: &[u8]) -> bool {
        unreachable!("a table is only read")
    }

    #[inline]
    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        let mut found = [None; BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let found = &mut found[..keys.len()];
            self.0.get_batch(keys, found);
            for (out, found) in out.iter_mut().zip(found) {
                *out = found.map(number);
            }
        }
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        for (key, value) in self.0.range(from..).take(count) {
            visit(key, number(value));
        }
    }
}

impl Maker<'_> {
    #[inline]
    fn reader(&self) -> Reader<'_> {
        self.0.share()
    }
}

impl Handle for Maker<'_> {
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.0.builder.insert(key, &value.to_le_bytes()).is_ok()
    }

    fn loaded(&mut self) {
        match made(&mut self.0.builder) {
            Ok(table) => self.0.table = Some(table),
            Err(e) => panic!("cannot make the table: {e}"),
        }
    }

    fn update(&mut self, _: &[u8], _: u64) -> bool {
        unreachable!("a table is only read")
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.reader().get(key)
    }

    fn remove(&mut self, _: &[u8]) -> bool {
        unreachable!("a table is only read")
    }

    #[inline]
    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        self.reader().get_batch(keys, out);
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, visit: impl FnMut(&[u8], u64)) {
        self.reader().scan(from, count, visit);
    }
}
