//! Tables against `BTreeMap`, and files that were cut or changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fanread::table::{
    Broken, BuildError, BuildStep, CuckooTable, TableBuilder, TableError, TableOptions,
};
use testkit::Rng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Makes `count` entries, fewer if there are no more keys of the length.
fn model(seed: u64, count: usize, key_bytes: usize, value_bytes: usize) -> Model {
    let mut rng = Rng::new(seed);
    let mut model = Model::new();
    for _ in 0..count * 4 {
        if model.len() == count {
            break;
        }
        model.insert(rng.bytes(key_bytes), rng.bytes(value_bytes));
    }
    model
}

fn build(options: &TableOptions, model: &Model) -> Vec<u8> {
    let mut builder = TableBuilder::new(options.clone());
    for (key, value) in model {
        builder.insert(key, value).unwrap();
    }
    let mut file = Vec::new();
    let summary = builder.finish(&mut file).unwrap();
    assert_eq!(summary.file_bytes, file.len() as u64);
    assert_eq!(summary.entries, model.len() as u64);
    file
}

/// Asks for every entry, for others, for batches, and for ranges from both ends.
fn assert_holds(table: &CuckooTable, model: &Model, seed: u64) {
    let mut rng = Rng::new(seed);
    table.check().unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(table.len(), model.len());
    let key_bytes = table.stats().key_bytes;
    let mut keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    keys.extend((0..200).map(|_| rng.bytes(key_bytes)));
    keys.extend([vec![], vec![0; key_bytes + 1], vec![0; key_bytes - 1]]);
    for key in &keys {
        let expected = model.get(key).map(|value| &value[..]);
        assert_eq!(table.get(key), expected);
        assert_eq!(table.contains_key(key), expected.is_some());
        let entry = table.entry(key);
        assert_eq!(entry.and_then(|entry| entry.value), expected);
        assert!(entry.is_none_or(|entry| entry.sequence == 0 && entry.key == key));
    }
    for len in [0, 1, 31, 32, 33, keys.len()] {
        let asked: Vec<&[u8]> = (0..len).map(|_| &rng.pick(&keys)[..]).collect();
        let mut found = vec![Some(&b"stale"[..]); len];
        table.get_batch(&asked, &mut found);
        for (key, found) in asked.iter().zip(found) {
            assert_eq!(found, model.get(*key).map(|value| &value[..]));
        }
    }
    assert!(table.iter().eq(model.iter().map(|(k, v)| (&k[..], &v[..]))));
    assert!(table.iter().rev().eq(model.iter().rev().map(|(k, v)| (&k[..], &v[..]))));
    assert_eq!(table.iter().size_hint(), (model.len(), Some(model.len())));
    for _ in 0..30 {
        let mut bounds = [rng.pick(&keys).clone(), rng.pick(&keys).clone()];
        bounds.sort();
        let [low, high] = &bounds;
        let expected = model.range(low.clone()..high.clone()).map(|(k, v)| (&k[..], &v[..]));
        assert!(table.range(&low[..]..&high[..]).eq(expected));
        let expected = model.range(low.clone()..=high.clone()).rev().map(|(k, v)| (&k[..], &v[..]));
        assert!(table.range(&low[..]..=&high[..]).rev().eq(expected));
        if low < high {
            assert_eq!(table.range(&high[..]..&low[..]).count(), 0);
        }
    }
}

/// Maps a table.
///
/// # Errors
///
/// Those of [`CuckooTable::map`].
#[expect(unsafe_code, reason = "a file of this process alone, which replaces it only")]
fn map(path: &Path) -> Result<CuckooTable, TableError> {
    // SAFETY: see the reason above.
    unsafe { CuckooTable::map(path) }
}

/// A file in a folder for temporary files, gone with the value.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("fanread-{}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn tables_of_all_options_agree_with_a_btreemap() {
    let mut seed = 1;
    for (count, key_bytes, value_bytes) in [
        (1, 1, 0),
        (2, 8, 4),
        (100, 4, 4),
        (100, 3, 1),
        (256, 1, 2),
        (1000, 8, 4),
        (3000, 16, 8),
        (700, 13, 100),
        (5000, 8, 0),
    ] {
        for (ratio, block, power_of_two, depth) in
            [(0.9, 5, false, 100), (0.5, 1, true, 100), (0.999, 2, false, 3), (0.75, 16, true, 0)]
        {
            seed += 1;
            let model = model(seed, count, key_bytes, value_bytes);
            let options = TableOptions::new()
                .hash_ratio(ratio)
                .block_buckets(block)
                .power_of_two(power_of_two)
                .search_depth(depth)
                .identity_first(key_bytes >= 8 && block == 5)
                .first_blocks(seed.is_multiple_of(3));
            if model.len() == 256 && key_bytes == 1 {
                continue;
            }
            let table = CuckooTable::from_bytes(build(&options, &model)).unwrap();
            assert_holds(&table, &model, seed);
        }
    }
}

#[test]
fn first_blocks_hold_more_keys_if_asked_to() {
    let model = model(2, 50_000, 8, 4);
    let share = |first: bool| {
        let file = build(&TableOptions::new().first_blocks(first), &model);
        let table = CuckooTable::from_bytes(file).unwrap();
        table.check().unwrap();
        let by_block = table.entries_by_block();
        assert_eq!(by_block.iter().sum::<u64>(), 50_000);
        assert_eq!(by_block.len(), 2);
        by_block[0] as f64 / 50_000.0
    };
    let (theirs, ours) = (share(false), share(true));
    assert!((0.84..0.87).contains(&theirs), "{theirs}");
    assert!(ours > 0.93, "{ours}");
}

#[test]
fn the_order_of_insertion_does_not_show() {
    let model = model(7, 3000, 8, 4);
    let mut rng = Rng::new(8);
    for sequences in [false, true] {
        let options = TableOptions::new().sequences(sequences);
        let mut entries: Vec<_> = model.iter().collect();
        let mut files = Vec::new();
        for _ in 0..3 {
            let mut builder = TableBuilder::new(options.clone());
            for (number, (key, value)) in entries.iter().enumerate() {
                if sequences && number % 5 == 0 && files.is_empty() {
                    builder.remove_at(key, 7).unwrap();
                } else if sequences {
                    builder.insert_at(key, value, 9).unwrap();
                } else {
                    builder.insert(key, value).unwrap();
                }
            }
            let mut file = Vec::new();
            builder.finish(&mut file).unwrap();
            files.push(file);
            for at in (1..entries.len()).rev() {
                entries.swap(at, rng.below(at + 1));
            }
        }
        assert!(files[1] == files[2]);
        assert_eq!(files[0] == files[1], !sequences);
    }
}

#[test]
fn tables_with_sequences_hold_deletions() {
    let model = model(3, 2000, 8, 4);
    let mut builder = TableBuilder::new(TableOptions::new().sequences(true));
    for (number, (key, value)) in (1_u64..).zip(&model) {
        match number % 3 {
            0 => builder.remove_at(key, number).unwrap(),
            _ => builder.insert_at(key, value, number).unwrap(),
        }
    }
    let mut file = Vec::new();
    assert_eq!(builder.finish(&mut file).unwrap().deletions, 666);
    let table = CuckooTable::from_bytes(file).unwrap();
    table.check().unwrap();
    assert_eq!(table.entries(..).len(), 2000);
    assert_eq!(table.iter().count(), 2000 - 666);
    assert_eq!(table.iter().rev().count(), 2000 - 666);
    for ((number, (key, value)), entry) in (1_u64..).zip(&model).zip(table.entries(..)) {
        let value = (number % 3 != 0).then_some(&value[..]);
        assert_eq!((entry.key, entry.value, entry.sequence), (&key[..], value, number));
        assert_eq!(table.entry(key), Some(entry));
        assert_eq!(table.get(key), value);
    }
}

#[test]
fn a_build_beyond_its_memory_writes_the_same_file() {
    for (seed, (count, key_bytes, value_bytes)) in
        (0..).zip([(1, 8, 4), (2000, 8, 4), (3000, 3, 0), (900, 16, 100), (20_000, 8, 8)])
    {
        let model = model(seed, count, key_bytes, value_bytes);
        for (first_blocks, sequences, power_of_two) in
            [(false, false, false), (true, false, true), (false, true, false), (true, true, true)]
        {
            let options = TableOptions::new()
                .first_blocks(first_blocks)
                .sequences(sequences)
                .power_of_two(power_of_two);
            let write = |options: TableOptions, seed: u64| {
                let mut rng = Rng::new(seed);
                let mut entries: Vec<_> = model.iter().zip(0_u64..).collect();
                for at in (1..entries.len()).rev() {
                    entries.swap(at, rng.below(at + 1));
                }
                let mut builder = TableBuilder::new(options);
                for ((key, value), number) in entries {
                    if sequences && number % 3 == 1 {
                        builder.remove_at(key, number).unwrap();
                    } else {
                        let sequence = if sequences { number } else { 0 };
                        builder.insert_at(key, value, sequence).unwrap();
                    }
                }
                let (mut file, mut again) = (Vec::new(), Vec::new());
                let summary = builder.finish(&mut file).unwrap();
                assert_eq!(builder.finish(&mut again).unwrap(), summary);
                assert!(file == again, "a table may be written twice");
                (file, summary.spilled_bytes)
            };
            let (file, spilled_bytes) = write(options.clone(), seed);
            assert_eq!(spilled_bytes, 0);
            for limit in [300, 4096, 10_000, 100_000] {
                let (spilled, spilled_bytes) = write(options.clone().memory_limit(limit), seed + 9);
                assert!(file == spilled, "{count} entries, {limit} bytes of memory");
                assert!(spilled_bytes > 0 || count * (key_bytes + value_bytes) < 2 * limit);
            }
        }
    }
}

#[test]
fn a_key_that_comes_twice_is_noticed_beyond_memory() {
    let mut builder = TableBuilder::new(TableOptions::new().memory_limit(100));
    for key in (0..100_u32).chain([50]) {
        builder.insert(&key.to_be_bytes(), b"").unwrap();
    }
    let refused = builder.finish(&mut Vec::new());
    assert!(matches!(refused, Err(BuildError::DuplicateKey { key }) if *key == [0, 0, 0, 50]));
}

#[test]
fn a_full_device_is_an_error_and_the_builder_goes_on() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let model = model(6, 5000, 8, 4);
    for limit in [usize::MAX, 1000] {
        let options = TableOptions::new().memory_limit(limit);
        let mut builder = TableBuilder::new(options.clone());
        for (key, value) in &model {
            builder.insert(key, value).unwrap();
        }
        let refused = builder.finish(&full);
        assert!(matches!(refused, Err(BuildError::Io(_))), "{refused:?}");
        let mut file = Vec::new();
        builder.finish(&mut file).unwrap();
        assert!(file == build(&TableOptions::new(), &model));
    }
    // No place for temporary files: what is in memory stays there.
    let options = TableOptions::new().memory_limit(60).spill_folder("/no/such/folder");
    let mut builder = TableBuilder::new(options);
    for key in 0..5_u64 {
        builder.insert(&key.to_be_bytes(), b"abcd").unwrap();
    }
    let refused = builder.insert(&5_u64.to_be_bytes(), b"abcd").unwrap_err();
    assert_eq!(refused.to_string(), "cannot keep entries in a temporary file");
    assert!(std::error::Error::source(&refused).is_some());
    assert_eq!(builder.finish(&mut Vec::new()).unwrap().entries, 5);
}

#[test]
fn builders_at_one_path_do_not_disturb_each_other() {
    let folder = Temporary::new("at-one-path");
    fs::create_dir(&folder.0).unwrap();
    let path = folder.0.join("one.sst");
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let model = model(seed, 3000, 8, 4);
                for _ in 0..10 {
                    let mut builder = TableBuilder::new(TableOptions::new());
                    for (key, value) in &model {
                        builder.insert(key, value).unwrap();
                    }
                    builder.finish_file(path).unwrap();
                    CuckooTable::open(path).unwrap().check().unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    fs::remove_file(&path).unwrap();
    fs::remove_dir(&folder.0).unwrap();
}

#[test]
fn progress_goes_through_every_step_to_its_end() {
    let model = model(9, 200_000, 8, 4);
    for limit in [usize::MAX, 100_000] {
        let mut builder = TableBuilder::new(TableOptions::new().memory_limit(limit));
        for (key, value) in &model {
            builder.insert(key, value).unwrap();
        }
        let (send, told) = std::sync::mpsc::channel();
        builder.on_progress(move |step, done, all| send.send((step, done, all)).unwrap());
        builder.finish(&mut Vec::new()).unwrap();
        drop(builder);
        let told: Vec<_> = told.into_iter().collect();
        for step in [BuildStep::Sort, BuildStep::Place, BuildStep::Write] {
            let of_step: Vec<_> = told.iter().filter(|told| told.0 == step).collect();
            assert!(!of_step.is_empty() && of_step.iter().all(|told| told.1 <= told.2));
            assert!(of_step.is_sorted_by_key(|told| told.1), "{of_step:?}");
        }
    }
}

#[test]
fn files_are_replaced_whole_and_opened_in_every_way() {
    let path = Temporary::new("replaced.sst");
    for seed in 0..2 {
        let model = model(seed, 500, 8, 4);
        let mut builder = TableBuilder::new(TableOptions::new());
        for (key, value) in &model {
            builder.insert(key, value).unwrap();
        }
        builder.finish_file(&path.0).unwrap();
        for table in [CuckooTable::open(&path.0), map(&path.0)] {
            assert_holds(&table.unwrap(), &model, seed);
        }
    }
    // A failure leaves what was there.
    let before = fs::read(&path.0).unwrap();
    let mut empty = TableBuilder::new(TableOptions::new());
    assert!(matches!(empty.finish_file(&path.0), Err(BuildError::NoEntries)));
    assert_eq!(fs::read(&path.0).unwrap(), before);
    let gone = Temporary::new("not-there.sst");
    assert!(matches!(CuckooTable::open(&gone.0), Err(TableError::Io(_))));
    assert!(matches!(map(&gone.0), Err(TableError::Io(_))));
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_not_replaced() {
    let folder = Temporary::new("no-file");
    fs::create_dir(&folder.0).unwrap();
    let (socket, link) = (folder.0.join("socket"), folder.0.join("link"));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink("socket", &link).unwrap();
    let mut builder = TableBuilder::new(TableOptions::new());
    builder.insert(b"kiwi", b"3").unwrap();
    for path in [&socket, &link, &folder.0] {
        let refused = builder.finish_file(path).unwrap_err();
        let BuildError::Io(cause) = &refused else { panic!("{refused:?}") };
        assert_eq!(cause.to_string(), "something is there that is no regular file");
    }
    assert!(!fs::symlink_metadata(&socket).unwrap().is_file());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    fs::remove_dir_all(&folder.0).unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_a_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Temporary::new("links");
    fs::create_dir_all(folder.0.join("elsewhere")).unwrap();
    let (link, file) = (folder.0.join("link"), folder.0.join("elsewhere/a.sst"));
    std::os::unix::fs::symlink("elsewhere/a.sst", &link).unwrap();
    let mut builder = TableBuilder::new(TableOptions::new());
    builder.insert(b"kiwi", b"3").unwrap();
    // At first the link leads nowhere.
    for mode in [None, Some(0o600), Some(0o666)] {
        if let Some(mode) = mode {
            fs::write(&file, b"old").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        builder.finish_file(&link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(CuckooTable::open(&file).unwrap().get(b"kiwi"), Some(&b"3"[..]));
        let found = fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
        assert!(mode.is_none_or(|mode| mode == found), "{found:o}");
        assert_eq!(fs::read_dir(folder.0.join("elsewhere")).unwrap().count(), 1);
    }
    fs::remove_dir_all(&folder.0).unwrap();
}

#[test]
fn a_table_that_was_read_outlives_its_file() {
    let path = Temporary::new("cut.sst");
    let model = model(5, 5000, 8, 4);
    fs::write(&path.0, build(&TableOptions::new(), &model)).unwrap();
    let table = CuckooTable::open(&path.0).unwrap();
    fs::OpenOptions::new().write(true).open(&path.0).unwrap().set_len(0).unwrap();
    assert_holds(&table, &model, 5);
}

#[test]
fn what_other_builders_lose_is_refused() {
    fn refusal(
        options: TableOptions,
        add: impl Fn(&mut TableBuilder) -> Result<(), BuildError>,
    ) -> String {
        let mut builder = TableBuilder::new(options);
        let refused = add(&mut builder).and_then(|()| builder.finish(&mut Vec::new()).map(|_| ()));
        refused.unwrap_err().to_string()
    }
    let plain = TableOptions::new;
    let cases = [
        (refusal(plain(), |_| Ok(())), "there is no table without entries"),
        (refusal(plain(), |b| b.insert(b"", b"1")), "a key of a table cannot be empty"),
        (
            refusal(plain(), |b| b.insert(b"ab", b"1").and_then(|()| b.insert(b"a", b"1"))),
            "a key of 1 bytes, and the first one has 2",
        ),
        (
            refusal(plain(), |b| b.insert(b"a", b"1").and_then(|()| b.insert(b"b", b"12"))),
            "a value of 2 bytes, and the first one has 1",
        ),
        (
            refusal(plain(), |b| b.insert(b"b", b"1").and_then(|()| b.insert(b"b", b"2"))),
            "key b was added twice",
        ),
        (refusal(plain(), |b| b.remove_at(b"a", 0)), "a last-level file holds no deletions"),
        (
            refusal(plain(), |b| b.insert_at(b"a", b"1", 5)),
            "a last-level file holds no sequences, and one is 5",
        ),
        (
            refusal(plain().sequences(true), |b| b.insert_at(b"a", b"1", 1 << 56)),
            "sequence 72057594037927936 is larger than 56 bits",
        ),
        (
            refusal(plain().sequences(true), |b| {
                b.insert_at(b"a", b"1", 4).and_then(|()| b.remove_at(b"a", 5))
            }),
            "key a was added twice",
        ),
        (
            refusal(plain().identity_first(true), |b| b.insert(b"1234567", b"1")),
            "identity as the first hash takes keys of 8 bytes, and one has 7",
        ),
        (refusal(plain().hash_ratio(0.0), |b| b.insert(b"a", b"1")), "a ratio of 0 is not above 0"),
        (
            refusal(plain().hash_ratio(f64::NAN), |b| b.insert(b"a", b"1")),
            "a ratio of NaN is not above 0",
        ),
        (
            refusal(plain().hash_ratio(1.5), |b| b.insert(b"a", b"1")),
            "a table cannot have 0 buckets",
        ),
        (
            refusal(plain().hash_ratio(1e-12), |b| b.insert(b"a", b"1")),
            "a table cannot have 1000000000000 buckets",
        ),
        (
            refusal(plain().hash_ratio(1e-6), |b| b.insert(b"a", &[0; 5000])),
            "buckets of 5001020004 bytes, and RocksDB iterates and compacts less than 4294967296 only",
        ),
        (
            refusal(plain().hash_ratio(2.0).block_buckets(1), |b| {
                (0..9_u8).try_for_each(|key| b.insert(&[key], b""))
            }),
            "no bucket for key \\x08, even with 64 hash functions",
        ),
        (
            refusal(plain(), |b| (0..=255_u8).try_for_each(|key| b.insert(&[key], b""))),
            "every possible key is present, none marks free buckets",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_refused_entry_leaves_the_builder_as_it_was() {
    let mut builder = TableBuilder::new(TableOptions::new());
    builder.insert(b"ab", b"1").unwrap();
    builder.insert(b"abc", b"1").unwrap_err();
    builder.insert(b"cd", b"12").unwrap_err();
    assert_eq!(builder.len(), 1);
    builder.insert(b"cd", b"2").unwrap();
    let mut file = Vec::new();
    builder.finish(&mut file).unwrap();
    let table = CuckooTable::from_bytes(file).unwrap();
    assert_eq!(table.iter().collect::<Vec<_>>(), [(&b"ab"[..], &b"1"[..]), (b"cd", b"2")]);
}

#[test]
fn two_keys_at_both_ends_have_a_key_between_them() {
    // The format's own builder finds no key for free buckets here.
    let mut builder = TableBuilder::new(TableOptions::new());
    for key in [0, 255] {
        builder.insert(&[key], b"x").unwrap();
    }
    let mut file = Vec::new();
    builder.finish(&mut file).unwrap();
    let table = CuckooTable::from_bytes(file).unwrap();
    assert_eq!(table.iter().count(), 2);
    assert_eq!((0..=255).filter(|key| table.contains_key(&[*key])).count(), 2);
}

/// Small files of all kinds, with their entries and whether they have checksums.
fn seeds() -> Vec<(Vec<u8>, Model, bool)> {
    let mut seeds = Vec::new();
    for number in 0..20_usize {
        let mut rng = Rng::new(number as u64);
        let key_bytes = [1, 4, 8, 11, 16][number % 5];
        let model = model(number as u64, 1 + rng.below(12), key_bytes, rng.below(9));
        let checksums = number % 2 == 0;
        let options = TableOptions::new()
            .hash_ratio(*rng.pick(&[0.3, 0.9, 1.0]))
            .block_buckets(1 + rng.below(5) as u32)
            .power_of_two(rng.one_in(2))
            .identity_first(key_bytes >= 8 && rng.one_in(2))
            .ingestible(rng.one_in(2))
            .sequences(number % 4 >= 2)
            .checksums(checksums);
        seeds.push((build(&options, &model), model, checksums));
    }
    seeds
}

/// Uses a table that may be damaged in every way; returns whether all its answers were right.
fn answers_rightly(table: &CuckooTable, model: &Model) -> bool {
    let right = model.iter().all(|(key, value)| table.get(key) == Some(value));
    let entries = table.iter().eq(model.iter().map(|(k, v)| (&k[..], &v[..])));
    let back = table.iter().rev().count();
    let keys: Vec<&[u8]> = model.keys().map(|key| &key[..]).collect();
    let mut found = vec![None; keys.len()];
    table.get_batch(&keys, &mut found);
    assert!(keys.iter().zip(&found).all(|(key, found)| *found == table.get(key)));
    table.entries_by_block();
    right && entries && back == model.len()
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for (file, _, _) in seeds() {
        for len in 0..file.len() {
            assert!(CuckooTable::from_bytes(&file[..len]).is_err(), "cut to {len}");
            assert!(CuckooTable::from_bytes(&file[file.len() - len..]).is_err(), "last {len}");
        }
    }
}

#[test]
fn a_changed_byte_is_noticed_or_harmless() {
    let seeds: Vec<_> = seeds().into_iter().enumerate().collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for part in seeds.chunks(seeds.len().div_ceil(threads)) {
            scope.spawn(|| part.iter().for_each(|(number, seed)| change_each_byte(*number, seed)));
        }
    });
}

fn change_each_byte(number: usize, (file, model, checksums): &(Vec<u8>, Model, bool)) {
    let mut changed = file.clone();
    for at in 0..file.len() {
        for change in 1..=255 {
            changed[at] = file[at] ^ change;
            let Ok(table) = CuckooTable::from_bytes(&changed[..]) else { continue };
            let sums = table.verify();
            let right = answers_rightly(&table, model);
            let checked = table.check();
            // Without checksums a changed value cannot be told from a right one.
            if *checksums && sums.is_ok() {
                assert!(right, "seed {number}: byte {at} changed by {change:#x}: {checked:?}");
            }
        }
        changed[at] = file[at];
    }
}

#[test]
fn damaged_entries_are_reported() {
    let model = model(1, 300, 8, 4);
    let options = TableOptions::new().checksums(false);
    let file = build(&options, &model);
    let table = CuckooTable::from_bytes(&file[..]).unwrap();
    let at_of = |key: &[u8]| {
        file.windows(12).step_by(12).position(|bucket| &bucket[..8] == key).unwrap() * 12
    };
    let (first, second) = (model.keys().next().unwrap(), model.keys().nth(1).unwrap());
    assert!(!table.verify().unwrap());
    // A key that was changed is in the wrong place.
    let mut changed = file.clone();
    changed[at_of(first)] ^= 0x40;
    let broken = CuckooTable::from_bytes(changed).unwrap().check();
    assert!(matches!(broken, Err(Broken::Lost { .. })), "{broken:?}");
    // A key that is there twice is found once.
    let mut changed = file.clone();
    changed[at_of(second)..][..8].copy_from_slice(first);
    let broken = CuckooTable::from_bytes(changed).unwrap().check();
    assert!(matches!(broken, Err(Broken::Lost { .. })), "{broken:?}");
    // With checksums, a changed value is found too.
    let mut changed = build(&TableOptions::new(), &model);
    changed[at_of(first) + 9] ^= 1;
    let table = CuckooTable::from_bytes(changed).unwrap();
    assert!(matches!(table.verify(), Err(TableError::Checksum { offset: 0, .. })));
    assert!(matches!(table.check(), Err(Broken::File(_))));
}

#[test]
fn a_kept_order_is_taken_and_another_is_refused() {
    let model = model(4, 20_000, 8, 4);
    let file = build(&TableOptions::new(), &model);
    let mut order = Vec::new();
    CuckooTable::from_bytes(&file[..]).unwrap().write_order(&mut order).unwrap();
    assert_eq!(order.len(), 16 + 4 * model.len());
    let table = CuckooTable::from_bytes(&file[..]).unwrap();
    table.read_order(&order[..]).unwrap();
    assert_holds(&table, &model, 4);
    let refused = |order: &[u8]| {
        let table = CuckooTable::from_bytes(&file[..]).unwrap();
        let refused = table.read_order(order).unwrap_err();
        // It sorts for itself then.
        assert_eq!(table.iter().count(), model.len());
        refused
    };
    assert!(matches!(refused(&order[..order.len() - 1]), TableError::Io(_)));
    for at in (0..16).chain([16, 17, 18, 19, 16 + 4 * 700, order.len() - 1]) {
        let mut changed = order.clone();
        changed[at] ^= 1;
        let refused = refused(&changed);
        match at {
            0..16 => assert!(matches!(refused, TableError::NotAnOrder { .. }), "{at}: {refused:?}"),
            _ => assert!(matches!(refused, TableError::OrderBucket { .. }), "{at}: {refused:?}"),
        }
    }
    let mut exchanged = order.clone();
    let (low, high) = exchanged[16..].split_at_mut(4);
    low.swap_with_slice(&mut high[..4]);
    assert!(matches!(refused(&exchanged), TableError::OrderBucket { offset: 20, .. }));
    exchanged.copy_within(16..20, 20);
    assert!(matches!(refused(&exchanged), TableError::OrderBucket { offset: 20, .. }));
}

#[test]
fn golden_files_of_rocksdb_are_read() {
    // Written by RocksDB 7.8.3 with `rocksdb/rocks.cc`: squares of 0 to 39 with their roots, in `sequences.sst` every fifth
    // one deleted.
    let golden = |name: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        let table = CuckooTable::open(path).unwrap();
        table.check().unwrap();
        assert_eq!(table.len(), 40);
        table
    };
    let entry = |root: u64| ((root * root).to_be_bytes(), (root as u32).to_le_bytes());
    for (name, deleted) in [("last-level.sst", 41), ("power-of-two.sst", 41), ("sequences.sst", 5)]
    {
        let table = golden(name);
        let present: Vec<u64> = (0..40).filter(|root| (root + 1) % deleted != 0).collect();
        assert_eq!(table.iter().count(), present.len());
        for (root, (key, value)) in present.iter().zip(&table) {
            assert_eq!((key, value), (&entry(*root).0[..], &entry(*root).1[..]), "{name}");
        }
        for number in 0..1600_u64 {
            let root = number.isqrt();
            let expected = root * root == number && present.contains(&root);
            let value = table.get(&number.to_be_bytes());
            assert_eq!(value, expected.then_some(&entry(root).1[..]), "{name}: {number}");
        }
    }
    assert!(golden("power-of-two.sst").stats().power_of_two);
    assert!(golden("power-of-two.sst").stats().identity_first);
    // The builder makes the buckets of the golden file.
    let mut builder = TableBuilder::new(TableOptions::new());
    for root in 0..40 {
        builder.insert(&entry(root).0, &entry(root).1).unwrap();
    }
    let mut file = Vec::new();
    builder.finish(&mut file).unwrap();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/last-level.sst");
    let data = 12 * CuckooTable::open(&path).unwrap().stats().buckets as usize;
    assert_eq!(file[..data], fs::read(path).unwrap()[..data]);
}
