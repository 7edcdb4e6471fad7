//! Hostile files of persistent maps: small good ones with changes that are spelled by bytes.
//!
//! ```text
//! byte 0    which good file: its kind of map in bit 0, how many entries in bits 1 and 2, how far it is cut off in the others
//!      1 .. changes: a word of the file in two bytes, how it changes in one, by what in the next ones
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fanread::persist::cceh::CcehOptions;
use fanread::{Cceh, Store};

/// Keys that a good file may have.
const KEYS: u64 = 60;

/// How large a file may be that a few insertions into a small one have left.
const MOST_BYTES: u64 = 1 << 24;

/// A file of this process in memory, where there is such a folder.
fn path(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    folder.join(format!("fanread-{name}-{}", std::process::id()))
}

/// Which map is in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Numbers,
    Strings,
}

/// The words of a file of that kind with so many entries.
fn good(kind: Kind, entries: usize) -> &'static [u8] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let path = path("good");
        let options = || CcehOptions::new().segment_bytes(256).seed(5);
        let all = [0, 5, 20, KEYS].into_iter().flat_map(|count| {
            let make_numbers = || {
                let map = Cceh::create(&path, options()).unwrap();
                (0..count).for_each(|n| assert_eq!(map.insert(n, n).unwrap(), None));
            };
            let make_strings = || {
                let map = Store::create(&path, options()).unwrap();
                let value = |n: u64| vec![7; n as usize * 9];
                (0..count).for_each(|n| assert_eq!(map.insert(&key(n), &value(n)).unwrap(), None));
            };
            let taken = |make: &dyn Fn()| {
                make();
                let bytes = fs::read(&path).unwrap();
                fs::remove_file(&path).unwrap();
                bytes
            };
            [taken(&make_numbers), taken(&make_strings)]
        });
        all.collect()
    });
    &files[2 * entries + usize::from(kind == Kind::Strings)]
}

fn key(n: u64) -> Vec<u8> {
    vec![b'k'; 1 + n as usize % 70].into_iter().chain(n.to_le_bytes()).collect()
}

/// Opens what the bytes spell, and if it is a map, asks it everything and writes to it.
pub(crate) fn run(bytes: &[u8]) {
    let (which, mut changes) =
        bytes.split_first().map_or((0, bytes), |(which, rest)| (*which, rest));
    let kind = if which & 1 == 0 { Kind::Numbers } else { Kind::Strings };
    let mut file = good(kind, usize::from(which >> 1 & 3)).to_vec();
    while let Some((head, rest)) = changes.split_first_chunk::<3>() {
        let (by, rest) = rest.split_at(rest.len().min(usize::from(head[2] >> 4 & 7) + 1));
        changes = rest;
        let mut amount = [0; 8];
        amount[..by.len()].copy_from_slice(by);
        let amount = u64::from_le_bytes(amount);
        let words = file.as_chunks_mut::<8>().0;
        let at = usize::from(u16::from_le_bytes([head[0], head[1]])) % words.len();
        let old = u64::from_le_bytes(words[at]);
        let new = match head[2] % 8 {
            0 => amount,
            1 => old ^ amount,
            2 => old.wrapping_add(amount),
            3 => old.wrapping_sub(amount),
            4 => old ^ amount.rotate_right(8),
            5 => old.rotate_left(amount as u32 % 64),
            // What another word says.
            _ => u64::from_le_bytes(words[amount as usize % words.len()]),
        };
        words[at] = new.to_le_bytes();
    }
    // In lines, from the end.
    file.truncate(file.len().saturating_sub(usize::from(which >> 3) * 64));
    open(kind, &file);
}

/// Opens a file of any bytes, twice: what the first use has left is opened again.
fn open(kind: Kind, file: &[u8]) {
    let path = path("file");
    fs::write(&path, file).unwrap();
    let (first, again) = match kind {
        Kind::Numbers => (numbers(&path), numbers(&path)),
        Kind::Strings => (strings(&path), strings(&path)),
    };
    assert!(!first || again, "what was opened once is opened again");
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");
    if !first {
        assert_eq!(fs::read(&path).unwrap(), file, "what is refused is left alone");
    }
    fs::remove_file(&path).unwrap();
}

fn numbers(path: &Path) -> bool {
    let Ok(map) = Cceh::open(path) else { return false };
    let _ = map.check();
    let count = map.iter().count();
    let keys: Vec<u64> = (0..2 * KEYS).collect();
    let mut found = vec![None; keys.len()];
    map.get_batch(&keys, &mut found);
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(map.get(*key), *found);
        assert_eq!(map.contains_key(*key), found.is_some());
    }
    assert!(found.iter().flatten().count() <= count);
    let _ = (map.len(), map.is_empty(), map.durability(), map.sync());
    for key in KEYS - 5..KEYS + 15 {
        if map.insert(key, key).is_ok() {
            assert_eq!(map.get(key), Some(key), "what was inserted is there");
        }
    }
    for key in KEYS - 10..KEYS + 5 {
        map.remove(key);
    }
    let _ = map.check();
    true
}

fn strings(path: &Path) -> bool {
    let Ok(map) = Store::open(path) else { return false };
    let _ = map.check();
    let count = map.iter().count();
    let keys: Vec<Vec<u8>> = (0..2 * KEYS).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = vec![None; keys.len()];
    map.get_batch(&keys, &mut found);
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(map.get(key), *found);
        assert_eq!(map.contains_key(key), found.is_some());
    }
    assert!(found.iter().flatten().count() <= count);
    let _ = (map.len(), map.is_empty(), map.stats(), map.durability(), map.sync());
    for n in KEYS - 5..KEYS + 15 {
        _ = map.insert(&key(n), &key(n + 3));
    }
    for n in KEYS - 10..KEYS + 5 {
        map.remove(&key(n));
    }
    let _ = map.check();
    true
}
