//! Maps in files: a process that is killed at any moment loses nothing that it had acknowledged.

#![expect(unsafe_code, reason = "it forks")]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs, thread};

use fanread::persist::Durability;
use fanread::persist::cceh::{CcehError, CcehOptions};
use fanread::{Cceh, Store};
use testkit::{Rng, effort};

/// Where a killed process finds its map, and what its calls are drawn from.
const CHILD: &str = "FANREAD_STORE_CHILD";

/// Threads of the process that is killed; each has keys of its own.
const THREADS: u64 = 2;

/// Keys of each thread.
const KEYS: u64 = 5_000;

/// Where a process that forks finds its map, and what its child does.
const FORKS: &str = "FANREAD_STORE_FORKS";

/// A map of either kind, with numbers for its keys and values.
enum Map {
    Numbers(Box<Cceh>),
    Strings(Box<Store>),
}

/// A value of a number; some are longer than a block of a small map.
fn body(number: u64) -> Vec<u8> {
    let more = if number.is_multiple_of(50) { 3000 } else { number as usize % 60 };
    number.to_le_bytes().into_iter().chain((0..more).map(|at| at as u8 ^ number as u8)).collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().unwrap())
}

impl Map {
    fn create(kind: &str, path: &Path) {
        let options = CcehOptions::new().segment_bytes(1024);
        match kind {
            "numbers" => drop(Cceh::create(path, options).unwrap()),
            "checkpoints" => drop(Cceh::create(path, options.checkpoints(true)).unwrap()),
            _ => drop(Store::create(path, options).unwrap()),
        }
    }

    fn open(kind: &str, path: &Path) -> Self {
        match kind {
            "numbers" | "checkpoints" => Self::Numbers(Box::new(Cceh::open(path).unwrap())),
            _ => Self::Strings(Box::new(Store::open(path).unwrap())),
        }
    }

    fn insert(&self, key: u64, value: u64) {
        match self {
            Self::Numbers(map) => _ = map.insert(key, value).unwrap(),
            Self::Strings(map) => _ = map.insert(&key.to_le_bytes(), &body(value)).unwrap(),
        }
    }

    fn remove(&self, key: u64) {
        match self {
            Self::Numbers(map) => _ = map.remove(key),
            Self::Strings(map) => _ = map.remove(&key.to_le_bytes()),
        }
    }

    fn sync(&self) {
        match self {
            Self::Numbers(map) => map.sync().unwrap(),
            Self::Strings(map) => map.sync().unwrap(),
        }
    }

    fn contents(&self) -> BTreeMap<u64, u64> {
        match self {
            Self::Numbers(map) => {
                map.check().unwrap();
                map.iter().collect()
            }
            Self::Strings(map) => {
                map.check().unwrap();
                let whole = |(key, value): (Vec<u8>, Vec<u8>)| {
                    assert_eq!(value, body(number(&value)));
                    (number(&key), number(&value))
                };
                map.iter().map(whole).collect()
            }
        }
    }
}

/// Lets one thread at a time start a process, or have a map open: a process that is being started has all files of this one for
/// a moment, and with them their locks.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("fanread-store-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder
}

/// Call `n` of a thread: a key, and a value or a removal.
fn call(rng: &mut Rng, thread: u64, n: u64) -> (u64, Option<u64>) {
    let key = (rng.next_u64() % KEYS) * THREADS + thread;
    // Waves, so that segments split and merge.
    let inserts = if (n / 20_000).is_multiple_of(2) { 9 } else { 2 };
    (key, (rng.next_u64() % 10 < inserts).then_some(n))
}

fn rng(seed: u64, thread: u64) -> Rng {
    Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(thread))
}

/// What the killed process does: calls without end, each acknowledged by one byte on standard output when it has returned.
#[test]
fn killed_process() {
    let Ok(what) = env::var(CHILD) else { return };
    let (seed, what) = what.split_once(':').unwrap();
    let (kind, path) = what.split_once(':').unwrap();
    let seed: u64 = seed.parse().unwrap();
    let map = Map::open(kind, Path::new(path));
    thread::scope(|scope| {
        if kind == "checkpoints" {
            scope.spawn(|| {
                loop {
                    map.sync();
                }
            });
        }
        for thread in 0..THREADS {
            let map = &map;
            scope.spawn(move || {
                let mut rng = rng(seed, thread);
                for n in 0.. {
                    match call(&mut rng, thread, n) {
                        (key, Some(value)) => map.insert(key, value),
                        (key, None) => map.remove(key),
                    }
                    let mut out = std::io::stderr().lock();
                    out.write_all(&[b'0' + thread as u8]).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_killed_process_loses_nothing_it_had_acknowledged() {
    kill_again_and_again("numbers");
}

#[test]
fn a_killed_process_loses_no_strings_it_had_acknowledged() {
    kill_again_and_again("strings");
}

#[test]
fn a_process_that_is_killed_beside_its_checkpoints_loses_nothing_it_had_acknowledged() {
    kill_again_and_again("checkpoints");
}

fn kill_again_and_again(kind: &str) {
    let kills = effort::amount("FANREAD_KILLS", 20) as u64;
    let folder = folder(&format!("killed-{kind}"));
    let path = folder.join("map");
    let held = alone();
    Map::create(kind, &path);
    drop(held);
    let mut contents = BTreeMap::new();
    let mut random = Rng::new(effort::seed(17));
    let mut calls = 0;
    for kill in 0..kills {
        let seed = random.next_u64();
        let held = alone();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["killed_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{seed}:{kind}:{}", path.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(held);
        let mut acknowledged = child.stderr.take().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            acknowledged.read_to_end(&mut bytes).map(|_| bytes)
        });
        thread::sleep(Duration::from_micros(5_000 + random.next_u64() % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let bytes = reader.join().unwrap().unwrap();
        calls += bytes.len();
        let found = {
            let _held = alone();
            Map::open(kind, &path).contents()
        };
        for thread in 0..THREADS {
            let of_thread = |map: &BTreeMap<u64, u64>| -> BTreeMap<u64, u64> {
                map.iter()
                    .filter(|(key, _)| *key % THREADS == thread)
                    .map(|(k, v)| (*k, *v))
                    .collect()
            };
            let is_of_thread = |byte: &&u8| u64::from(**byte) == u64::from(b'0') + thread;
            let count = bytes.iter().filter(is_of_thread).count() as u64;
            let mut model = of_thread(&contents);
            let mut rng = rng(seed, thread);
            let mut step = |model: &mut BTreeMap<u64, u64>, n| match call(&mut rng, thread, n) {
                (key, Some(value)) => _ = model.insert(key, value),
                (key, None) => _ = model.remove(&key),
            };
            (0..count).for_each(|n| step(&mut model, n));
            let found = of_thread(&found);
            if found != model {
                // The call that was not acknowledged may have happened.
                step(&mut model, count);
                assert!(found == model, "kill {kill}, thread {thread}, {count} calls");
            }
        }
        contents = found;
    }
    println!("{kind}: {kills} kills, {calls} calls");
    effort::done("kills", kind, kills);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_map_is_open_once_and_made_where_nothing_is() {
    let _held = alone();
    let folder = folder("once");
    let path = folder.join("map");
    let map = Cceh::create(&path, CcehOptions::new()).unwrap();
    assert_eq!(map.durability(), Durability::Process);
    let kind = |result: Result<Cceh, CcehError>| match result {
        Err(CcehError::Io(error)) => Some(error.kind()),
        _ => None,
    };
    assert_eq!(kind(Cceh::open(&path)), Some(std::io::ErrorKind::WouldBlock));
    assert_eq!(
        kind(Cceh::create(&path, CcehOptions::new())),
        Some(std::io::ErrorKind::AlreadyExists)
    );
    assert_eq!(kind(Cceh::open(folder.join("none"))), Some(std::io::ErrorKind::NotFound));
    (0..100_000).for_each(|key| assert!(map.insert(key, key).unwrap().is_none()));
    drop(map);
    let map = Cceh::open(&path).unwrap();
    map.check().unwrap();
    assert_eq!(map.len(), 100_000);
    drop(map);
    assert_eq!(files_in(&folder), 1, "nothing is left beside the map");
    fs::remove_dir_all(folder).unwrap();
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_map_with_checkpoints_is_three_files_of_which_the_working_copy_may_be_gone() {
    let _held = alone();
    let folder = folder("checkpoints");
    let path = folder.join("map");
    let map = Cceh::create(&path, CcehOptions::new().checkpoints(true)).unwrap();
    assert_eq!(map.durability(), Durability::Checkpoint);
    (0..100_000).for_each(|key| assert!(map.insert(key, key).unwrap().is_none()));
    map.sync().unwrap();
    // What a loss of power leaves: not the working copy.
    let copy = folder.join("copy");
    fs::copy(&path, &copy).unwrap();
    let beside = |path: &Path, what: &str| PathBuf::from(format!("{}.{what}", path.display()));
    fs::copy(beside(&path, "journal"), beside(&copy, "journal")).unwrap();
    (0..1000).for_each(|key| assert!(map.remove(key).is_some()));
    let other = Cceh::open(&copy).unwrap();
    other.check().unwrap();
    assert_eq!(other.len(), 100_000);
    drop(other);
    drop(map);
    assert_eq!(files_in(&folder), 6);
    let map = Cceh::open(&path).unwrap();
    assert_eq!((map.len(), map.durability()), (99_000, Durability::Checkpoint));
    drop(map);
    // It was closed, so the file alone has all.
    fs::remove_file(beside(&path, "work")).unwrap();
    let map = Cceh::open(&path).unwrap();
    assert_eq!(map.len(), 99_000);
    map.check().unwrap();
    drop(map);
    fs::rename(beside(&copy, "journal"), beside(&path, "journal")).unwrap();
    let refused = Cceh::open(&path);
    assert!(matches!(refused, Err(CcehError::Journal)), "{refused:?}");
    fs::remove_file(beside(&path, "journal")).unwrap();
    assert!(matches!(Cceh::open(&path), Err(CcehError::Io(_))));
    assert!(Cceh::create(&path, CcehOptions::new().checkpoints(true)).is_err());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn checkpoints_are_taken_while_others_write() {
    let _held = alone();
    let folder = folder("writers");
    let path = folder.join("map");
    let options = CcehOptions::new().segment_bytes(1024).checkpoints(true);
    let store = Store::create(&path, options).unwrap();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..20_000_u64 {
                        let key = (n % 3000 * 2 + writer).to_le_bytes();
                        if n % 5 == 0 {
                            store.remove(&key);
                        } else {
                            store.insert(&key, &body(n)).unwrap();
                        }
                    }
                })
            })
            .collect();
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            store.sync().unwrap();
        }
    });
    let entries: BTreeMap<_, _> = store.iter().collect();
    drop(store);
    fs::remove_file(folder.join("map.work")).unwrap();
    let store = Store::open(&path).unwrap();
    store.check().unwrap();
    assert_eq!(store.iter().collect::<BTreeMap<_, _>>(), entries);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_is_no_map_is_refused_and_left_alone() {
    let _held = alone();
    let folder = folder("refused");
    let path = folder.join("map");
    drop(Cceh::create(&path, CcehOptions::new().segment_bytes(256)).unwrap());
    let whole = fs::read(&path).unwrap();
    for bytes in (0..whole.len()).step_by(64) {
        fs::write(&path, &whole[..bytes]).unwrap();
        assert!(Cceh::open(&path).is_err(), "{bytes} bytes of {}", whole.len());
        assert_eq!(fs::read(&path).unwrap(), &whole[..bytes]);
    }
    fs::write(&path, b"not a map, but long enough to hold a header, a directory and some segments")
        .unwrap();
    let refused = Cceh::open(&path).unwrap_err();
    assert_eq!(refused.to_string(), "not a map, it begins with \"not a ma\"");
    fs::write(&path, b"not a map").unwrap();
    assert_eq!(Cceh::open(&path).unwrap_err().to_string(), "not a map, too short or full of zeros");
    fs::remove_file(&path).unwrap();
    drop(Cceh::create(&path, CcehOptions::new()).unwrap());
    let refused = Store::open(&path).unwrap_err();
    assert_eq!(refused.to_string(), "a map on numbers: a Cceh, not a Store");
    fs::remove_dir_all(folder).unwrap();
}

/// The words of a file.
fn words(path: &Path) -> Vec<u64> {
    fs::read(path)
        .unwrap()
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect()
}

fn write_words(path: &Path, words: &[u64]) {
    fs::write(path, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()).unwrap();
}

#[test]
fn a_check_of_a_damaged_store_changes_nothing_so_that_it_can_be_repaired() {
    let _held = alone();
    let folder = folder("repaired");
    let path = folder.join("map");
    let store = Store::create(&path, CcehOptions::new()).unwrap();
    let (key, value) = (*b"by hand!", vec![7; 100_000]);
    store.insert(&key, &value).unwrap();
    drop(store);
    let whole = words(&path);
    // The record begins with both lengths and the key, and the second half of a bucket's line names it.
    let begin = [8 | 100_000 << 24, u64::from_le_bytes(key)];
    let record = whole.windows(2).position(|words| words == begin).unwrap() as u64;
    let names = (0..whole.len()).filter(|at| at % 8 >= 4 && whole[*at] == record);
    let names: Vec<_> = names.collect();
    assert_eq!(names.len(), 1);
    for bit in [0, 1, 7, 11, 40] {
        let mut damaged = whole.clone();
        damaged[names[0]] ^= 1 << bit;
        write_words(&path, &damaged);
        let store = Store::open(&path).unwrap();
        assert!(store.check().is_err() && store.check().is_err(), "bit {bit}");
        assert!(words(&path) == damaged, "bit {bit}");
        drop(store);
        assert!(words(&path) == damaged, "bit {bit}");
        write_words(&path, &whole);
        let store = Store::open(&path).unwrap();
        store.check().unwrap();
        assert_eq!(store.get(&key).as_ref(), Some(&value));
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn flushes_are_counted_where_that_is_asked_for() {
    let options = CcehOptions::new().seed(1);
    assert_eq!(Cceh::in_memory(options).unwrap().flushes(), None);
    for latency in [Duration::ZERO, Duration::from_nanos(100)] {
        let map = Cceh::in_memory(options.flush_latency(latency)).unwrap();
        let before = map.flushes().unwrap();
        for key in 0..100 {
            map.insert(key, key).unwrap();
        }
        let after = map.flushes().unwrap();
        // 100 keys fill no segment, and one that is put beside its bucket takes no more flushes than others.
        let [lines, fences] = [after.lines - before.lines, after.fences - before.fences];
        let each = if cfg!(target_arch = "x86_64") { 100 } else { 200 };
        assert_eq!([lines, fences], [each; 2]);
        assert_eq!(map.get(1), Some(1));
        assert_eq!(map.flushes(), Some(after));
        let map = Store::in_memory(options.flush_latency(latency)).unwrap();
        let before = map.flushes().unwrap();
        map.insert(b"key", b"value").unwrap();
        assert!(map.flushes().unwrap().lines > before.lines);
    }
    assert_eq!(Store::in_memory(options).unwrap().flushes(), None);
}

#[test]
fn many_numbers_are_looked_for_at_once() {
    let map = Cceh::in_memory(CcehOptions::new()).unwrap();
    (0..1_000).step_by(3).for_each(|key| _ = map.insert(key, 1).unwrap());
    // No key, and more and fewer than are looked for at a time.
    for count in [0, 1, 63, 64, 65, 1_000] {
        let keys: Vec<_> = (0..count).collect();
        let mut found = vec![true; keys.len()];
        map.contains_batch(&keys, &mut found);
        assert!(keys.iter().zip(found).all(|(key, found)| found == key.is_multiple_of(3)));
    }
}

#[test]
fn the_latency_of_flushes_is_that_of_files_too() {
    let folder = folder("latency");
    fs::create_dir_all(&folder).unwrap();
    for checkpoints in [false, true] {
        let path = folder.join(format!("{checkpoints}.cceh"));
        let options = CcehOptions::new().flush_latency(Duration::ZERO).checkpoints(checkpoints);
        let map = Cceh::create(&path, options).unwrap();
        let before = map.flushes().unwrap().lines;
        map.insert(1, 2).unwrap();
        assert!(map.flushes().unwrap().lines > before);
        drop(map);
        let map = Cceh::open(&path).unwrap();
        assert_eq!((map.get(1), map.flushes()), (Some(2), None));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn segments_and_probing_are_as_asked_for() {
    for (segment_bytes, probed) in [(1024, 4), (1024, 16), (4096, 64), (65_536, 64)] {
        let options = CcehOptions::new().segment_bytes(segment_bytes).probed_buckets(probed);
        let map = Cceh::in_memory(options).unwrap();
        for key in 0..20_000 {
            map.insert(key, !key).unwrap();
        }
        let stats = map.stats();
        assert_eq!((stats.entries, map.len()), (20_000, 20_000));
        assert_eq!(stats.slots, stats.segments * segment_bytes / 16);
        assert!(stats.directory_entries.is_power_of_two());
        assert!(stats.directory_entries >= stats.segments && stats.slots >= stats.entries);
        assert!(stats.bytes >= stats.segments * segment_bytes + stats.free_bytes);
        map.check().unwrap();
    }
}

unsafe extern "C" {
    safe fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    safe fn _exit(status: c_int) -> !;
}

/// Whether `work` is right in a child of this process, which ends after it without the ends of its values.
fn is_right_in_a_child(work: impl FnOnce() -> bool) -> bool {
    let child = fork();
    if child == 0 {
        let is_right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        _exit(c_int::from(!is_right.unwrap_or(false)));
    }
    let mut status = -1;
    // SAFETY: `status` is there while this waits.
    let ended = unsafe { waitpid(child, &raw mut status, 0) };
    child > 0 && ended == child && status == 0
}

/// What a forked process is refused with.
fn is_refused<T>(written: Result<T, CcehError>) -> bool {
    let Err(error) = written else { return false };
    let text = error.to_string();
    matches!(error, CcehError::Io(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied)
        && text == "the map is that of the process which this one was forked from"
}

/// What the files of a folder say.
fn contents_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

impl Map {
    /// Whether a forked process may neither write to the map nor make a checkpoint of it, and finds what was there.
    fn is_only_read(&self) -> bool {
        let is_a_panic = |remove: &dyn Fn()| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(remove)).is_err()
        };
        is_a_panic(&|| self.remove(1))
            && is_a_panic(&|| self.remove(1 << 40))
            && match self {
                Self::Numbers(map) => {
                    is_refused(map.insert(1, 1))
                        && is_refused(map.insert(1 << 40, 1))
                        && is_refused(map.sync())
                        && (0..1000).all(|key| map.get(key) == Some(key))
                        && map.check().is_ok()
                        && map.len() == 1000
                }
                Self::Strings(map) => {
                    is_refused(map.insert(&[1; 8], &vec![1; 100_000]))
                        && is_refused(map.sync())
                        && (0..1000_u64).all(|key| map.get(&key.to_le_bytes()) == Some(body(key)))
                        && map.check().is_ok()
                        && map.len() == 1000
                }
            }
    }

    fn is_taken(kind: &str, path: &Path) -> bool {
        let error = match kind {
            "strings" => Store::open(path).err(),
            _ => Cceh::open(path).err(),
        };
        matches!(error, Some(CcehError::Io(why)) if why.kind() == std::io::ErrorKind::WouldBlock)
    }
}

/// What a process does that forks: it has one thread, as the child has then. It writes, and has a child that does something with the map;
/// then it writes more, acknowledges that, and waits to be killed.
#[test]
fn forking_process() {
    let Ok(what) = env::var(FORKS) else { return };
    let (what, rest) = what.split_once(':').unwrap();
    let (kind, path) = rest.split_once(':').unwrap();
    let path = Path::new(path);
    let mut map = Some(Map::open(kind, path));
    let insert = |map: &Option<Map>, keys: std::ops::Range<u64>| {
        keys.for_each(|key| map.as_ref().unwrap().insert(key, key));
    };
    insert(&map, 0..1000);
    let before = contents_of(path.parent().unwrap());
    assert!(is_right_in_a_child(|| match what {
        "drop" => {
            map.take();
            Map::is_taken(kind, path)
        }
        "sync" | "close" => map.take().is_some(),
        "grandchild" => is_right_in_a_child(|| {
            map.take();
            Map::is_taken(kind, path)
        }),
        "write" => map.as_ref().unwrap().is_only_read(),
        _ => {
            let own = path.with_extension("own");
            Map::create(kind, &own);
            let own = Map::open(kind, &own);
            own.insert(1, 1);
            own.remove(1);
            own.sync();
            is_right_in_a_child(|| {
                map.take();
                matches!(&own, Map::Numbers(own) if is_refused(own.insert(1, 1)))
            })
        }
    }));
    // Where what is lost is looked for, nothing else is.
    if ["drop", "grandchild", "write"].contains(&what) {
        assert!(contents_of(path.parent().unwrap()) == before, "what a child did is in the files");
        assert!(Map::is_taken(kind, path));
    }
    insert(&map, 1000..1500);
    if what == "sync" {
        map.as_ref().unwrap().sync();
    }
    insert(&map, 1500..2000);
    std::io::stderr().write_all(b"done").unwrap();
    loop {
        thread::park();
    }
}

/// Lets a process fork, kills it when it has written more than before, and looks for all of that.
fn fork_and_kill(what: &str, kind: &str) {
    let folder = folder(&format!("fork-{what}-{kind}"));
    let path = folder.join("map");
    let held = alone();
    Map::create(kind, &path);
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["forking_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(FORKS, format!("{what}:{kind}:{}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(held);
    let mut said = Vec::new();
    let mut from = process.stderr.take().unwrap();
    let mut byte = [0];
    while !said.ends_with(b"done") && from.read(&mut byte).unwrap() == 1 {
        said.push(byte[0]);
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(said.ends_with("done"), "{what}, {kind}: {said}");
    let _held = alone();
    let has_all = || {
        let found = Map::open(kind, &path).contents();
        found.into_iter().eq((0..2000).map(|key| (key, key)))
    };
    assert!(has_all(), "{what}, {kind}");
    if kind == "checkpoints" {
        // It was closed, so the file alone has all.
        fs::remove_file(folder.join("map.work")).unwrap();
        assert!(has_all(), "{what}, {kind}, from the last checkpoint");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_child_that_drops_its_parents_map_leaves_it_locked() {
    fork_and_kill("drop", "numbers");
    fork_and_kill("drop", "strings");
    fork_and_kill("grandchild", "numbers");
}

#[test]
fn a_child_that_drops_its_parents_map_with_checkpoints_costs_it_no_write_that_was_acknowledged() {
    // With and without a checkpoint of the parent's afterwards.
    fork_and_kill("sync", "checkpoints");
    fork_and_kill("close", "checkpoints");
}

#[test]
fn a_child_that_drops_its_parents_map_with_checkpoints_leaves_lock_and_journal() {
    fork_and_kill("drop", "checkpoints");
    fork_and_kill("grandchild", "checkpoints");
}

#[test]
fn a_child_reads_its_parents_map_and_is_refused_to_write() {
    for kind in ["numbers", "strings", "checkpoints"] {
        fork_and_kill("write", kind);
    }
}

#[test]
fn a_child_has_maps_of_its_own() {
    fork_and_kill("own", "numbers");
    fork_and_kill("own", "checkpoints");
}
