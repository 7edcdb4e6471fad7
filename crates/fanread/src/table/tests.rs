//! Files whose properties lie, field by field. Whole files are tested in `tests/table.rs`.

use super::block::{self, Entries};
use super::properties;
use super::{Broken, BuildStep, CuckooTable, TableBuilder, TableOptions};

/// The parts of a file, to be put together with other properties.
struct Parts {
    data: Vec<u8>,
    properties: Vec<(Vec<u8>, Vec<u8>)>,
}

fn parts(options: TableOptions, entries: u64) -> Parts {
    let mut builder = TableBuilder::new(options.checksums(false));
    for i in 0..entries {
        builder.insert(&i.to_be_bytes(), &(i as u32).to_le_bytes()).unwrap();
    }
    let mut file = Vec::new();
    builder.finish(&mut file).unwrap();
    let described = properties::describe(&file).unwrap();
    let properties = described.properties.iter();
    let properties =
        properties.map(|(name, value)| (name.to_vec(), file[value].to_vec())).collect();
    Parts { data: file[..described.block.start].to_vec(), properties }
}

impl Parts {
    fn property(&mut self, name: &str) -> &mut Vec<u8> {
        let found = self.properties.iter_mut().find(|entry| entry.0 == name.as_bytes());
        &mut found.unwrap().1
    }

    fn file(&self) -> Vec<u8> {
        let mut file = self.data.clone();
        let named: Vec<(&[u8], &[u8])> =
            self.properties.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        block::put_block(&mut file, &named);
        let mut handle = Vec::new();
        block::put_number(&mut handle, self.data.len() as u64);
        block::put_number(&mut handle, (file.len() - self.data.len()) as u64);
        let meta_index_at = file.len() as u64;
        block::put_block(&mut file, &[(b"rocksdb.properties", &handle)]);
        let end = file.len() as u64;
        block::put_footer(&mut file, meta_index_at..end);
        file
    }

    fn refusal(&self) -> String {
        match CuckooTable::from_bytes(self.file()) {
            Ok(table) => panic!("opened: {:?}", table.stats()),
            Err(error) => error.to_string(),
        }
    }
}

const NEEDED: [&str; 11] = [
    "rocksdb.cuckoo.bucket.empty.key",
    "rocksdb.cuckoo.file.islastlevel",
    "rocksdb.cuckoo.hash.cuckooblocksize",
    "rocksdb.cuckoo.hash.identityfirst",
    "rocksdb.cuckoo.hash.num",
    "rocksdb.cuckoo.hash.size",
    "rocksdb.cuckoo.hash.usemodule",
    "rocksdb.cuckoo.hash.userkeylength",
    "rocksdb.cuckoo.value.length",
    "rocksdb.fixed.key.length",
    "rocksdb.num.entries",
];

#[test]
fn parts_make_the_file_they_are_from() {
    let parts = parts(TableOptions::new(), 100);
    let table = CuckooTable::from_bytes(parts.file()).unwrap();
    table.check().unwrap();
    assert_eq!(table.len(), 100);
}

#[test]
fn a_missing_property_is_named() {
    for name in NEEDED {
        let mut parts = parts(TableOptions::new(), 10);
        parts.properties.retain(|entry| entry.0 != name.as_bytes());
        assert_eq!(parts.refusal(), format!("property {name} is missing"));
    }
}

#[test]
fn a_property_of_another_length_is_refused() {
    for name in &NEEDED[..9] {
        for change in [-1_i32, 1] {
            let mut parts = parts(TableOptions::new(), 10);
            let value = parts.property(name);
            let len = value.len().strict_add_signed(change as isize);
            value.resize(len, 0);
            let refusal = parts.refusal();
            assert!(refusal.starts_with(&format!("property {name} at byte")), "{refusal}");
            assert!(refusal.contains(&format!("has {len} bytes, not ")), "{refusal}");
        }
    }
}

#[test]
fn numbers_that_contradict_the_file_are_refused() {
    // Every number at 0, 1, off by one, at powers of two and at its largest.
    let fixed = [
        "cuckoo.hash.cuckooblocksize",
        "cuckoo.hash.size",
        "cuckoo.hash.userkeylength",
        "cuckoo.value.length",
    ];
    for name in fixed {
        let name = format!("rocksdb.{name}");
        for modulo in [true, false] {
            let options = TableOptions::new().power_of_two(!modulo);
            let mut parts = parts(options, 100);
            let value = parts.property(&name).clone();
            let mut number = [0; 8];
            number[..value.len()].copy_from_slice(&value);
            let right = u64::from_le_bytes(number);
            let powers = (0..value.len() as u32 * 8).map(|bit| 1 << bit);
            let max = u64::MAX >> (64 - value.len() * 8);
            let wrong = [0, right - 1, right + 1, right * 2, max, max - 1, max / 2];
            for number in powers.chain(wrong).filter(|number| *number != right) {
                parts.property(&name).copy_from_slice(&number.to_le_bytes()[..value.len()]);
                parts.refusal();
            }
        }
    }
    for name in ["cuckoo.file.islastlevel", "cuckoo.hash.identityfirst", "cuckoo.hash.usemodule"] {
        let mut parts = parts(TableOptions::new(), 10);
        for flag in 2..=255 {
            parts.property(&format!("rocksdb.{name}"))[0] = flag;
            parts.refusal();
        }
    }
    for hashes in [0, 65, 1 << 31, u32::MAX] {
        let mut parts = parts(TableOptions::new(), 10);
        parts.property("rocksdb.cuckoo.hash.num").copy_from_slice(&hashes.to_le_bytes());
        parts.refusal();
    }
    for (name, wrong) in
        [("fixed.key.length", [0, 7, 9, 16, 127]), ("num.entries", [16, 17, 99, 126, 127])]
    {
        let mut parts = parts(TableOptions::new(), 10);
        for number in wrong {
            *parts.property(&format!("rocksdb.{name}")) = vec![number];
            parts.refusal();
        }
        *parts.property(&format!("rocksdb.{name}")) = vec![0xff; 10];
        assert!(parts.refusal().starts_with("damaged number"));
    }
}

#[test]
fn numbers_that_lie_give_bounded_searches() {
    // What cannot be seen from the numbers alone: other hash functions, other flags. Searches end, and check tells.
    let mut parts = parts(TableOptions::new(), 100);
    parts.property("rocksdb.cuckoo.hash.num")[0] = 64;
    let table = CuckooTable::from_bytes(parts.file()).unwrap();
    table.check().unwrap();
    assert_eq!(table.get(&1000_u64.to_be_bytes()), None);
    parts.property("rocksdb.cuckoo.hash.identityfirst")[0] = 1;
    let table = CuckooTable::from_bytes(parts.file()).unwrap();
    table.check().unwrap_err();
    assert_eq!(table.iter().count(), 100);
    // A free bucket's key that an entry has.
    let mut parts = self::parts(TableOptions::new(), 100);
    *parts.property("rocksdb.cuckoo.bucket.empty.key") = 7_u64.to_be_bytes().to_vec();
    let table = CuckooTable::from_bytes(parts.file()).unwrap();
    assert_eq!(table.get(&7_u64.to_be_bytes()), None);
    table.check().unwrap_err();
}

#[test]
fn a_search_ends_in_a_table_without_a_free_bucket() {
    let parts = parts(TableOptions::new().hash_ratio(1.0).block_buckets(1), 64);
    let table = CuckooTable::from_bytes(parts.file()).unwrap();
    assert_eq!(table.stats().buckets, 64);
    for i in 0..64_u64 {
        assert_eq!(table.get(&i.to_be_bytes()), Some(&(i as u32).to_le_bytes()[..]));
        assert_eq!(table.get(&(i + 64).to_be_bytes()), None);
    }
}

#[test]
fn a_table_of_one_hash_function_is_searched_alike_one_by_one_and_in_batches() {
    for sequences in [false, true] {
        let options = TableOptions::new().hash_ratio(1.0).block_buckets(1).sequences(sequences);
        let mut parts = parts(options, 64);
        parts.property("rocksdb.cuckoo.hash.num")[0] = 1;
        let table = CuckooTable::from_bytes(parts.file()).unwrap();
        let keys: Vec<[u8; 8]> = (0..128_u64).map(u64::to_be_bytes).collect();
        let mut found = vec![None; keys.len()];
        table.get_batch(&keys, &mut found);
        for (key, found) in keys.iter().zip(&found) {
            assert_eq!(table.get(key), *found);
        }
        // Those that were in their second block are lost, and the check says so.
        assert!((1..64).contains(&found.iter().flatten().count()));
        table.check().unwrap_err();
    }
}

#[test]
fn what_a_check_finds_is_told() {
    let broken = |sequences: bool, change: &dyn Fn(&mut Parts)| {
        let mut parts = parts(TableOptions::new().sequences(sequences), 100);
        change(&mut parts);
        CuckooTable::from_bytes(parts.file()).unwrap().check().unwrap_err()
    };
    let fewer = broken(false, &|parts| *parts.property("rocksdb.num.entries") = vec![99]);
    assert!(matches!(fewer, Broken::Entries { found: 100, stated: 99 }), "{fewer:?}");
    assert_eq!(fewer.to_string(), "100 entries, and the file says 99");
    let deleted = broken(true, &|parts| *parts.property("rocksdb.deleted.keys") = vec![3]);
    assert!(matches!(deleted, Broken::Deletions { found: 0, stated: 3 }), "{deleted:?}");
    assert_eq!(deleted.to_string(), "0 deletions, and the file says 3");
    // A trailer that says neither value nor deletion, in the first bucket that is taken.
    let kind = broken(true, &|parts| {
        let empty = parts.property("rocksdb.cuckoo.bucket.empty.key").clone();
        let taken = parts.data.chunks_mut(20).find(|bucket| bucket[..16] != empty).unwrap();
        taken[8] = 7;
    });
    assert!(matches!(kind, Broken::Kind { found: 7, .. }), "{kind:?}");
    assert!(kind.to_string().ends_with("is of unknown kind 7"), "{kind}");
    // The first bucket has the key of free ones, but for the trailer.
    let options = TableOptions::new().hash_ratio(1.0).block_buckets(1).sequences(true);
    let mut full = parts(options, 64);
    let key = [&full.data[..8], &[0; 8]].concat();
    *full.property("rocksdb.cuckoo.bucket.empty.key") = key;
    let empty = CuckooTable::from_bytes(full.file()).unwrap().check().unwrap_err();
    assert!(matches!(empty, Broken::EmptyKey { bucket: 0 }), "{empty:?}");
    assert_eq!(empty.to_string(), "bucket 0 has an entry with the key of free buckets");
    let lost = broken(false, &|parts| parts.data.rotate_left(12 * 3));
    assert!(matches!(lost, Broken::Lost { .. }), "{lost:?}");
    assert!(lost.to_string().ends_with("is not found"), "{lost}");
}

#[test]
fn an_unsorted_or_doubled_property_is_refused() {
    let whole = parts(TableOptions::new(), 10);
    let names: Vec<&[u8]> = whole.properties.iter().map(|entry| &entry.0[..]).collect();
    for (first, second) in [(names[0], names[0]), (names[1], names[0])] {
        let mut block = Vec::new();
        for name in [first, second] {
            block.extend_from_slice(&[0, name.len() as u8, 0]);
            block.extend_from_slice(name);
        }
        block.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        assert!(Entries::parse(&block, 0..block.len()).is_err());
    }
}

#[test]
fn a_meta_index_of_very_many_names_is_refused() {
    // Each takes six bytes in the file, and many times that in memory. All but for their number is as it should be.
    let parts = parts(TableOptions::new(), 10);
    let mut file = parts.data.clone();
    let named: Vec<(&[u8], &[u8])> =
        parts.properties.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    block::put_block(&mut file, &named);
    let meta_index_at = file.len();
    for number in 0..100_000_u32 {
        file.extend_from_slice(&[0, 3, 0]);
        file.extend_from_slice(&number.to_be_bytes()[1..]);
    }
    let mut handle = Vec::new();
    block::put_number(&mut handle, parts.data.len() as u64);
    block::put_number(&mut handle, (meta_index_at - parts.data.len()) as u64);
    file.extend_from_slice(&[0, 18, handle.len() as u8]);
    file.extend_from_slice(b"rocksdb.properties");
    file.extend_from_slice(&handle);
    file.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let end = file.len() as u64;
    block::put_footer(&mut file, meta_index_at as u64..end);
    let refused = CuckooTable::from_bytes(file).unwrap_err().to_string();
    let at = meta_index_at + 4096 * 6;
    assert_eq!(refused, format!("damaged block: more than 4096 entries at byte {at}"));
}

#[test]
fn a_build_that_panics_leaves_no_file_behind() {
    let folder = std::env::temp_dir().join(format!("fanread-panics-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut builder = TableBuilder::new(TableOptions::new());
    builder.insert(b"kiwi", b"3").unwrap();
    builder.on_progress(|step, _, _| assert!(step != BuildStep::Write, "as planned"));
    let finish = std::panic::AssertUnwindSafe(|| builder.finish_file(folder.join("a.sst")));
    std::panic::catch_unwind(finish).unwrap_err();
    // Fails if there is anything in it.
    std::fs::remove_dir(folder).unwrap();
}
