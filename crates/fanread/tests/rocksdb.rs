//! Tables against `RocksDB` itself: the same buckets byte for byte, and each reads what the other wrote.
//!
//! `rocksdb/rocks.cc` is compiled here and run as a program of its own. It needs a C++ compiler and `RocksDB` 7.8.3
//! (`librocksdb-dev` on Debian 12), which `ci/check.sh` installs.

#[path = "rocksdb/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fanread::table::{CuckooTable, TableBuilder, TableOptions};
use testkit::Rng;

/// An entry to come, in the encoding of `rocks.cc`.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Entry {
    Absent,
    Value(Vec<u8>),
    Deletion,
}

type Entries = BTreeMap<Vec<u8>, Entry>;

/// The options that the format has.
#[derive(Clone, Copy, Debug)]
struct Shape {
    ratio: f64,
    depth: u32,
    block: u32,
    identity: bool,
    modulo: bool,
}

const DEFAULT: Shape = Shape { ratio: 0.9, depth: 100, block: 5, identity: false, modulo: true };

impl Shape {
    fn options(self) -> TableOptions {
        TableOptions::new()
            .hash_ratio(self.ratio)
            .search_depth(self.depth)
            .block_buckets(self.block)
            .identity_first(self.identity)
            .power_of_two(!self.modulo)
    }

    fn arguments(self) -> [String; 5] {
        [
            self.ratio.to_string(),
            self.depth.to_string(),
            self.block.to_string(),
            u8::from(self.identity).to_string(),
            u8::from(self.modulo).to_string(),
        ]
    }
}

/// Returns the program, compiled.
fn rocks() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program::compiled(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("rocks")))
}

/// Runs the program with entries on its standard input.
fn run(command: &str, file: &Path, arguments: &[String], entries: &Entries) {
    let lengths = |entry: (&Vec<u8>, &Entry)| match entry.1 {
        Entry::Value(value) => Some((entry.0.len() as u32, value.len() as u32)),
        _ => None,
    };
    let (key_bytes, value_bytes) = entries.iter().find_map(lengths).unwrap_or_else(|| {
        let (key, _) = entries.first_key_value().unwrap();
        (key.len() as u32, 0)
    });
    let mut input = Vec::new();
    input.extend_from_slice(&key_bytes.to_le_bytes());
    input.extend_from_slice(&value_bytes.to_le_bytes());
    for (key, entry) in entries {
        input.push(match entry {
            Entry::Absent => 0,
            Entry::Value(_) => 1,
            Entry::Deletion => 2,
        });
        input.extend_from_slice(key);
        if let Entry::Value(value) = entry {
            input.extend_from_slice(value);
        }
    }
    let mut child = Command::new(rocks())
        .arg(command)
        .arg(file)
        .args(arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that fails early has not read all; its message says why.
    let _ = child.stdin.take().unwrap().write_all(&input);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {arguments:?}: {} {errors}", output.status);
}

/// Makes entries. Keys of few bytes ascend closely, so that some have neighbours; longer ones are random, or count.
fn entries(
    seed: u64,
    count: usize,
    key_bytes: usize,
    value_bytes: usize,
    deletions: usize,
) -> Entries {
    let mut rng = Rng::new(seed);
    let mut entries = Entries::new();
    while entries.len() < count {
        let key = if key_bytes >= 4 && seed.is_multiple_of(3) {
            let mut key = vec![7; key_bytes];
            key[key_bytes - 4..].copy_from_slice(&(entries.len() as u32).to_be_bytes());
            key
        } else {
            rng.bytes(key_bytes)
        };
        let deleted = deletions > 0 && rng.one_in(deletions);
        let value = Entry::Value(rng.bytes(value_bytes));
        entries.insert(key, if deleted { Entry::Deletion } else { value });
    }
    entries
}

/// A path that no other test uses; the file is removed by the one who made it.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Returns the bytes of the buckets.
fn data(file: &[u8]) -> &[u8] {
    let stats = CuckooTable::from_bytes(file).unwrap().stats();
    let trailer = if stats.sequences { 8 } else { 0 };
    &file[..stats.buckets as usize * (stats.key_bytes + trailer + stats.value_bytes)]
}

fn assert_holds(file: &[u8], entries: &Entries) {
    let table = CuckooTable::from_bytes(file).unwrap();
    table.check().unwrap_or_else(|broken| panic!("{broken}"));
    let values = entries.iter().filter_map(|(key, entry)| match entry {
        Entry::Value(value) => Some((&key[..], &value[..])),
        _ => None,
    });
    assert!(table.iter().eq(values.clone()));
    assert!(values.clone().all(|(key, value)| table.get(key) == Some(value)));
    let keys: Vec<&Vec<u8>> = entries.keys().collect();
    let mut found = vec![None; keys.len()];
    table.get_batch(&keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        let Entry::Value(value) = &entries[*key] else {
            assert_eq!(found, None);
            continue;
        };
        assert_eq!(found, Some(&value[..]));
    }
    let mut rng = Rng::new(1);
    for _ in 0..1000 {
        let key = rng.bytes(table.stats().key_bytes);
        assert!(entries.contains_key(&key) || table.get(&key).is_none());
    }
}

/// The text of a property, or nothing.
fn property(table: &CuckooTable, name: &str) -> String {
    let found = table.properties().find(|entry| entry.0 == name.as_bytes());
    found.map_or(String::new(), |(_, value)| String::from_utf8(value.to_vec()).unwrap())
}

/// Returns the options with which our builder says to be the one that wrote `table`.
fn disguised(options: TableOptions, table: &CuckooTable) -> TableOptions {
    let number = table.properties().find(|entry| entry.0 == b"rocksdb.original.file.number");
    let number = number.unwrap().1;
    assert!(number.len() == 1 && number[0] < 0x80, "a number of one byte");
    let identity = property(table, "rocksdb.creating.db.identity");
    let session = property(table, "rocksdb.creating.session.identity");
    options.creator(&identity, &session, number[0].into()).ingestible(false).checksums(false)
}

/// Every option alone and with others, and the sizes at which something happens.
fn shapes() -> Vec<(Shape, usize, usize, usize)> {
    let mut shapes = Vec::new();
    // Lengths of keys and values.
    for (key_bytes, value_bytes) in [
        (1, 1),
        (2, 0),
        (3, 5),
        (4, 4),
        (5, 3),
        (8, 0),
        (8, 8),
        (9, 1),
        (13, 40),
        (16, 8),
        (33, 300),
    ] {
        shapes.push((DEFAULT, if key_bytes == 1 { 100 } else { 2000 }, key_bytes, value_bytes));
    }
    // Sizes, from one entry on.
    for count in [1, 2, 3, 4, 5, 9, 10, 11, 100, 3686, 3687, 20_000] {
        shapes.push((DEFAULT, count, 8, 4));
        shapes.push((Shape { modulo: false, ..DEFAULT }, count, 8, 4));
    }
    // Each option, and full tables that need more hash functions.
    for modulo in [true, false] {
        for block in [0, 1, 2, 8, 17] {
            shapes.push((Shape { block, modulo, ..DEFAULT }, 5000, 8, 4));
        }
        for ratio in [0.3, 0.5, 0.75, 0.95, 0.999, 1.0] {
            shapes.push((Shape { ratio, modulo, ..DEFAULT }, 4000, 8, 4));
        }
        for (depth, block) in [(0, 1), (0, 5), (1, 1), (1, 5), (2, 3), (5, 1)] {
            shapes.push((Shape { depth, block, modulo, ..DEFAULT }, 3000, 8, 4));
        }
        for block in [1, 5] {
            shapes.push((Shape { identity: true, block, modulo, ..DEFAULT }, 3000, 8, 4));
            shapes.push((
                Shape { identity: true, block, modulo, ratio: 0.97, ..DEFAULT },
                3001,
                12,
                4,
            ));
            shapes.push((Shape { block, modulo, ratio: 0.97, ..DEFAULT }, 4096, 8, 4));
        }
    }
    shapes.push((DEFAULT, 1_000_000, 8, 4));
    shapes.push((Shape { modulo: false, ratio: 0.99, ..DEFAULT }, 300_000, 8, 4));
    shapes
}

#[test]
fn last_level_files_are_those_of_rocksdb_byte_for_byte() {
    let path = path("compare-last-level.sst");
    let shapes = shapes();
    assert!(shapes.len() >= 40);
    for (seed, (shape, count, key_bytes, value_bytes)) in shapes.into_iter().enumerate() {
        let entries = entries(seed as u64, count, key_bytes, value_bytes, 0);
        run("sst", &path, &shape.arguments(), &entries);
        let theirs = fs::read(&path).unwrap();
        let options = disguised(shape.options(), &CuckooTable::from_bytes(&theirs[..]).unwrap());
        let mut builder = TableBuilder::new(options);
        for (key, entry) in &entries {
            let Entry::Value(value) = entry else { continue };
            builder.insert(key, value).unwrap();
        }
        let mut ours = Vec::new();
        builder.finish(&mut ours).unwrap();
        let what = format!("{shape:?}, {count} entries of {key_bytes} and {value_bytes} bytes");
        assert!(data(&ours) == data(&theirs), "buckets differ: {what}");
        assert!(ours == theirs, "files differ: {what}");
        assert_holds(&theirs, &entries);
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn files_with_sequences_are_those_of_rocksdb() {
    let path = path("compare-sequences.sst");
    for (number, (shape, count, key_bytes, value_bytes)) in shapes().into_iter().enumerate() {
        // Every third shape; deletions in most, and nothing else in one.
        if number % 3 != 0 || count > 100_000 {
            continue;
        }
        let deletions = [0, 2, 7, 1][number / 3 % 4];
        let entries = entries(number as u64, count, key_bytes, value_bytes, deletions);
        run("flush", &path, &shape.arguments(), &entries);
        let theirs = fs::read(&path).unwrap();
        let table = CuckooTable::from_bytes(&theirs[..]).unwrap();
        assert!(table.stats().sequences);
        assert_holds(&theirs, &entries);
        let mut builder = TableBuilder::new(shape.options().sequences(true));
        assert_eq!(table.len(), entries.len());
        for (entry, (key, expected)) in table.entries(..).zip(&entries) {
            assert_eq!(entry.key, key);
            match entry.value {
                Some(value) => builder.insert_at(key, value, entry.sequence).unwrap(),
                None => builder.remove_at(key, entry.sequence).unwrap(),
            }
            assert_eq!(entry.value.is_none(), *expected == Entry::Deletion);
        }
        let mut ours = Vec::new();
        builder.finish(&mut ours).unwrap();
        let what = format!("{shape:?}, {count} entries of {key_bytes} and {value_bytes} bytes");
        assert!(data(&ours) == data(&theirs), "buckets differ: {what}");
    }
    fs::remove_file(&path).unwrap();
}

/// Builds a file of ours and adds keys to ask for that it does not have.
fn ours(shape: Shape, path: &Path, entries: &Entries, sequences: bool) -> Entries {
    // Both placements, in turn.
    let options = shape.options().first_blocks(entries.len().is_multiple_of(2));
    let mut builder = TableBuilder::new(options.sequences(sequences));
    for (number, (key, entry)) in (1_u64..).zip(entries) {
        match entry {
            Entry::Value(value) if sequences => builder.insert_at(key, value, number).unwrap(),
            Entry::Value(value) => builder.insert(key, value).unwrap(),
            Entry::Deletion => builder.remove_at(key, number).unwrap(),
            Entry::Absent => {}
        }
    }
    builder.finish_file(path).unwrap();
    CuckooTable::open(path).unwrap().check().unwrap();
    let mut asked = entries.clone();
    let mut rng = Rng::new(99);
    for _ in 0..entries.len() {
        let key = rng.bytes(entries.first_key_value().unwrap().0.len());
        asked.entry(key).or_insert(Entry::Absent);
    }
    asked
}

#[test]
fn rocksdb_reads_our_last_level_files() {
    let path = path("ours-last-level.sst");
    for (seed, (shape, count, key_bytes, value_bytes)) in shapes().into_iter().enumerate() {
        if seed % 4 != 0 && count < 300_000 {
            continue;
        }
        let entries = entries(seed as u64, count, key_bytes, value_bytes, 0);
        let asked = ours(shape, &path, &entries, false);
        run("read", &path, &[], &asked);
        run("import", &path, &["0".to_owned()], &asked);
        run("ingest", &path, &[], &asked);
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn rocksdb_reads_our_files_with_sequences() {
    let path = path("ours-sequences.sst");
    for (seed, (shape, count, key_bytes, value_bytes)) in shapes().into_iter().enumerate() {
        if seed % 5 != 0 {
            continue;
        }
        let entries = entries(seed as u64, count, key_bytes, value_bytes, [0, 3][seed / 5 % 2]);
        let asked = ours(shape, &path, &entries, true);
        run("import", &path, &[count.to_string()], &asked);
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn rocksdb_reads_a_file_whose_free_key_lies_between_two() {
    let path = path("ours-between.sst");
    let entries: Entries =
        [0, 255].into_iter().map(|key| (vec![key], Entry::Value(vec![key; 3]))).collect();
    let asked = ours(DEFAULT, &path, &entries, false);
    // Not to be compacted: RocksDB's builder finds no key for free buckets and refuses.
    run("read", &path, &[], &asked);
    run("ingest", &path, &[], &asked);
    fs::remove_file(&path).unwrap();
}
