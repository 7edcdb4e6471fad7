//! The files of a map, and what else may be where they are to be.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::mem::LINE_BYTES;
use crate::persist::cceh::layout::{Block, Entry, HEAP_AT, ROOT_AT};
use crate::persist::cceh::{Store, file};

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("fanread-files-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of all files.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn copy(&self, from: &str, to: &str) {
        std::fs::copy(self.path(from), self.path(to)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn with_checkpoints() -> CcehOptions {
    CcehOptions::new().segment_bytes(256).checkpoints(true)
}

fn is_taken<T: std::fmt::Debug>(made: Result<T, CcehError>) -> bool {
    matches!(made, Err(CcehError::Io(why)) if why.kind() == std::io::ErrorKind::AlreadyExists)
}

#[test]
fn a_new_map_leaves_the_files_of_others_alone() {
    let folder = Folder::new("others");
    let map = folder.path("map");
    for name in ["map.journal", "map.work"] {
        std::fs::write(folder.path(name), "of somebody else").unwrap();
        assert!(is_taken(Cceh::create(&map, with_checkpoints())));
        assert_eq!(std::fs::read(folder.path(name)).unwrap(), b"of somebody else");
        assert_eq!(folder.names(), [name]);
        std::fs::remove_file(folder.path(name)).unwrap();
    }
    // Maps of their own, the second one with checkpoints.
    drop(Cceh::create(folder.path("map.work"), CcehOptions::new()).unwrap());
    assert!(is_taken(Cceh::create(&map, with_checkpoints())));
    std::fs::remove_file(folder.path("map.work")).unwrap();
    let other = Cceh::create(folder.path("map.work"), with_checkpoints()).unwrap();
    other.insert(1, 2).unwrap();
    drop(other);
    assert!(is_taken(Cceh::create(&map, with_checkpoints())));
    assert_eq!(Cceh::open(folder.path("map.work")).unwrap().get(1), Some(2));
}

#[test]
fn a_new_map_takes_the_place_of_one_whose_file_was_removed() {
    let folder = Folder::new("removed");
    let map = folder.path("map");
    for left in [&["map.journal", "map.work"][..], &["map.journal"], &[]] {
        let old = Cceh::create(&map, with_checkpoints()).unwrap();
        old.insert(1, 2).unwrap();
        drop(old);
        for name in ["map", "map.journal", "map.work"].iter().filter(|name| !left.contains(name)) {
            std::fs::remove_file(folder.path(name)).unwrap();
        }
        let new = Cceh::create(&map, with_checkpoints()).unwrap();
        assert_eq!(new.get(1), None);
        drop(new);
        assert_eq!(Cceh::open(&map).unwrap().len(), 0);
        for name in folder.names() {
            std::fs::remove_file(folder.path(&name)).unwrap();
        }
    }
}

#[test]
fn a_map_that_could_not_be_made_leaves_no_file() {
    let folder = Folder::new("failed");
    let map = folder.path("map");
    // As a disk without room for the working copy.
    let made = file::make(
        &map,
        true,
        |medium| Map::create(medium, with_checkpoints()),
        |_| Err::<Map<_>, _>(CcehError::Crowded),
    );
    assert!(matches!(made, Err(CcehError::Crowded)));
    assert_eq!(folder.names(), Vec::<String>::new());
    std::fs::create_dir(folder.path("map.work")).unwrap();
    assert!(Cceh::create(&map, with_checkpoints()).is_err());
    assert_eq!(folder.names(), ["map.work"]);
}

#[test]
fn a_file_of_whatever_length_is_told_to_be_no_map() {
    let folder = Folder::new("lengths");
    drop(Cceh::create(folder.path("map"), CcehOptions::new().segment_bytes(256)).unwrap());
    let whole = std::fs::read(folder.path("map")).unwrap();
    for bytes in 0..300 {
        std::fs::write(folder.path("cut"), &whole[..bytes]).unwrap();
        let why = Cceh::open(folder.path("cut")).unwrap_err();
        assert!(!matches!(why, CcehError::Io(_)), "{bytes} bytes: {why:?}");
    }
}

#[test]
fn a_map_whose_journal_is_not_there_or_another_ones_leaves_no_file() {
    let folder = Folder::new("journals");
    drop(Cceh::create(folder.path("map"), with_checkpoints()).unwrap());
    drop(Cceh::create(folder.path("other"), with_checkpoints()).unwrap());
    folder.copy("map", "copy");
    let before = folder.names();
    match Cceh::open(folder.path("copy")) {
        Err(CcehError::Io(why)) => {
            assert_eq!(why.kind(), std::io::ErrorKind::NotFound);
            assert!(why.to_string().ends_with("copy.journal is missing"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(folder.names(), before);
    for journal in [&[][..], &[7; 4096], &std::fs::read(folder.path("other.journal")).unwrap()] {
        std::fs::write(folder.path("copy.journal"), journal).unwrap();
        let before = folder.names();
        assert!(matches!(Cceh::open(folder.path("copy")), Err(CcehError::Journal)));
        assert_eq!(folder.names(), before);
        assert_eq!(std::fs::read(folder.path("copy.journal")).unwrap(), journal);
    }
}

#[test]
fn a_file_and_a_journal_of_another_time_are_the_map_of_that_time() {
    let folder = Folder::new("times");
    let map = Cceh::create(folder.path("map"), with_checkpoints()).unwrap();
    (0..500).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    drop(map);
    folder.copy("map", "old");
    folder.copy("map.journal", "old.journal");
    let map = Cceh::open(folder.path("map")).unwrap();
    (400..900).for_each(|key| _ = map.insert(key, 7).unwrap());
    drop(map);
    folder.copy("old", "map");
    folder.copy("old.journal", "map.journal");
    for round in 0..2 {
        let map = Cceh::open(folder.path("map")).unwrap();
        map.check().unwrap();
        assert_eq!(map.len(), 500 + round);
        assert!((0..500).all(|key| map.get(key) == Some(key)));
        map.insert(1000, 1).unwrap();
    }
    // And without its working copy it is the same.
    std::fs::remove_file(folder.path("map.work")).unwrap();
    assert_eq!(Cceh::open(folder.path("map")).unwrap().len(), 501);
}

#[test]
fn a_working_copy_that_was_in_use_is_none_of_a_file_and_a_journal_that_were_put_back() {
    let folder = Folder::new("unused");
    let map = Cceh::create(folder.path("map"), with_checkpoints()).unwrap();
    (0..500).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    drop(map);
    folder.copy("map", "old");
    folder.copy("map.journal", "old.journal");
    let map = Cceh::open(folder.path("map")).unwrap();
    (400..900).for_each(|key| _ = map.insert(key, 7).unwrap());
    // As a loss of power leaves it, if all of it has reached the disk.
    folder.copy("map.work", "left");
    drop(map);
    folder.copy("old", "map");
    folder.copy("old.journal", "map.journal");
    folder.copy("left", "map.work");
    for round in 0..2 {
        let map = Cceh::open(folder.path("map")).unwrap();
        map.check().unwrap();
        assert_eq!(map.len(), 500 + round);
        assert!((0..500).all(|key| map.get(key) == Some(key)));
        map.insert(1000, 1).unwrap();
    }
}

#[test]
fn a_file_that_was_put_back_alone_gets_the_last_checkpoint_anew() {
    let folder = Folder::new("alone");
    let map = Cceh::create(folder.path("map"), with_checkpoints()).unwrap();
    (0..500).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    drop(map);
    folder.copy("map", "old");
    let map = Cceh::open(folder.path("map")).unwrap();
    (400..900).for_each(|key| _ = map.insert(key, 7).unwrap());
    drop(map);
    folder.copy("old", "map");
    let map = Cceh::open(folder.path("map")).unwrap();
    map.insert(1000, 7).unwrap();
    drop(map);
    // As the next run of the system opens it, if that one loses power.
    std::fs::remove_file(folder.path("map.work")).unwrap();
    let map = Cceh::open(folder.path("map")).unwrap();
    map.check().unwrap();
    assert_eq!(map.len(), 901);
    assert!((0..400).all(|key| map.get(key) == Some(key)));
    assert!((400..900).chain([1000]).all(|key| map.get(key) == Some(7)));
}

#[test]
fn files_of_any_three_times_are_refused_or_a_map_of_one_time() {
    let folder = Folder::new("any");
    let names = ["map", "map.journal", "map.work"];
    let contents = |map: &Cceh| map.iter().collect::<BTreeMap<_, _>>();
    let (mut times, mut known) = (Vec::new(), vec![BTreeMap::new()]);
    drop(Cceh::create(folder.path("map"), with_checkpoints()).unwrap());
    for round in 0..4 {
        let map = Cceh::open(folder.path("map")).unwrap();
        (round * 60..round * 60 + 100).for_each(|key| _ = map.insert(key, round).unwrap());
        (round * 9..round * 13).step_by(2).for_each(|key| _ = map.remove(key));
        known.push(contents(&map));
        if round % 2 == 0 {
            map.sync().unwrap();
        }
        // In use, and closed.
        for map in [Some(map), None] {
            times.push(names.map(|name| std::fs::read(folder.path(name)).unwrap()));
            drop(map);
        }
    }
    let open = |boot: Option<[u64; 2]>| {
        let medium = match boot {
            Some(boot) => file::open_at(&folder.path("map"), || Ok(boot)),
            None => file::open(&folder.path("map")),
        };
        Ok::<_, CcehError>(Cceh { map: Map::open_file(medium?, SplitPolicy::InPlace)? })
    };
    let mut opened = 0;
    for at in 0..2 * times.len().pow(3) {
        let boot = (at % 2 == 1).then_some([1, 2]);
        let picks = [at / 2, at / 2 / times.len(), at / 2 / times.len().pow(2)];
        let picks = picks.map(|pick| pick % times.len());
        for (part, name) in names.iter().enumerate() {
            std::fs::write(folder.path(name), &times[picks[part]][part]).unwrap();
        }
        let Ok(map) = open(boot) else { continue };
        opened += 1;
        assert!(known.contains(&contents(&map)), "{picks:?} {boot:?}");
        map.insert(1_000_000, 1).unwrap();
        let now = contents(&map);
        drop(map);
        std::fs::remove_file(folder.path("map.work")).unwrap();
        let map = open(boot).unwrap();
        map.check().unwrap();
        assert!(contents(&map) == now, "{picks:?} {boot:?}");
    }
    assert!(opened > 200, "{opened}");
}

#[test]
fn a_copy_of_a_map_in_use_says_what_to_do_without() {
    let folder = Folder::new("snapshot");
    let map = Cceh::create(folder.path("map"), with_checkpoints()).unwrap();
    (0..300).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    map.sync().unwrap();
    (300..600).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    for (from, to) in [("map", "copy"), ("map.journal", "copy.journal"), ("map.work", "copy.work")]
    {
        folder.copy(from, to);
    }
    drop(map);
    // The system had written some of it only.
    let work = std::fs::OpenOptions::new().write(true).open(folder.path("copy.work")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&work, &[0; 4096], 0).unwrap();
    let refused = Cceh::open(folder.path("copy")).unwrap_err();
    assert!(
        matches!(&refused, CcehError::WorkingCopy(why) if matches!(**why, CcehError::NotAMap { .. }))
    );
    assert!(refused.to_string().ends_with("as it was at its last checkpoint"), "{refused}");
    std::fs::remove_file(folder.path("copy.work")).unwrap();
    let copy = Cceh::open(folder.path("copy")).unwrap();
    copy.check().unwrap();
    assert_eq!(copy.len(), 300);
}

#[test]
fn a_file_that_was_copied_without_its_zeros_gets_its_blocks() {
    let folder = Folder::new("holes");
    let path = folder.path("map");
    let map = Cceh::create(&path, CcehOptions::new().segment_bytes(256)).unwrap();
    (0..20_000).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    drop(map);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let sparse = std::fs::File::create(&path).unwrap();
    sparse.set_len(bytes.len() as u64).unwrap();
    for (at, page) in bytes.chunks(4096).enumerate() {
        // Any page with holes in it will do; the first words of each are what a map has there.
        if page.iter().any(|byte| *byte != 0) && at % 3 != 1 {
            std::os::unix::fs::FileExt::write_all_at(&sparse, page, at as u64 * 4096).unwrap();
        }
    }
    let before = sparse.metadata().unwrap().blocks();
    file::open(&path).unwrap().trim(bytes.len() / LINE_BYTES).unwrap();
    let after = sparse.metadata().unwrap().blocks();
    assert!(before * 512 < bytes.len() as u64 && after * 512 >= bytes.len() as u64 / 4096 * 4096);
}

#[test]
fn a_long_file_costs_what_of_it_is_used() {
    let folder = Folder::new("long");
    let path = folder.path("map");
    let map = Cceh::create(&path, CcehOptions::new().segment_bytes(256)).unwrap();
    (0..1000).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    drop(map);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let used = file.metadata().unwrap().len();
    file.set_len(1 << 31).unwrap();
    let map = Cceh::open(&path).unwrap();
    assert!(u64::from(map.map.space.lock().end) * 256 <= used);
    assert!(file.metadata().unwrap().blocks() * 512 <= 2 * used);
    (1000..5000).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    map.check().unwrap();
    drop(map);
    assert_eq!(Cceh::open(&path).unwrap().len(), 5000);
}

#[test]
fn every_geometry_that_is_allowed_is_one_that_opens() {
    let folder = Folder::new("geometry");
    for (number, (bytes, probed)) in [(256, 1), (256, 4), (4 << 20, 65_535)].into_iter().enumerate()
    {
        let path = folder.path(&number.to_string());
        let options = CcehOptions::new().segment_bytes(bytes).probed_buckets(probed);
        drop(Cceh::create(&path, options).unwrap());
        assert_eq!(Cceh::open(&path).unwrap().len(), 0);
    }
    let beyond = || CcehOptions::new().segment_bytes(4 << 20).probed_buckets(65_536);
    assert!(std::panic::catch_unwind(beyond).is_err());
}

/// The words of a file.
fn words_in(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Makes a file of words and opens it; one that is refused is as it was. Tells whether it was.
fn is_refused<'p, T>(
    path: &'p Path,
    words: &[u64],
    open: impl FnOnce(&'p Path) -> Result<T, CcehError>,
) -> bool {
    std::fs::write(path, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
        .unwrap();
    let is_refused = open(path).map(drop).is_err();
    assert!(!is_refused || words_in(path) == words, "what was refused was stored to");
    is_refused
}

/// Where the directory of a file of small segments is, how deep, and an entry of it that is the first of two for one segment.
fn directory_of(words: &[u64]) -> (usize, u32, usize) {
    let root = Entry::of(words[ROOT_AT.0]).unwrap();
    let from = Geometry { bits: 2, probed: 4 }.entry(root.block, 0).0;
    let depth = |at: usize| Entry::of(words[from + at]).unwrap().depth;
    let twin = (0..1 << root.depth).step_by(2).find(|at| depth(*at) + 1 == root.depth);
    (from, root.depth, twin.unwrap())
}

/// A directory whose file ends in a free block, which here is the right half of a split that was not finished.
fn with_half_a_split(whole: &[u64]) -> Vec<u64> {
    let (from, depth, twin) = directory_of(whole);
    let mut words = whole.to_vec();
    let last = whole.len() / Geometry { bits: 2, probed: 4 }.entry(Block(1), 0).0 - 1;
    words[from + twin + 1] = Entry { block: Block(last as u32), depth }.word();
    words
}

#[test]
fn a_file_whose_directory_is_refused_is_left_as_it_was() {
    let folder = Folder::new("left");
    let path = folder.path("map");
    let options = CcehOptions::new().segment_bytes(256).seed(SEED);
    let map = Cceh::create(&path, options).unwrap();
    (0..150).for_each(|key| assert_eq!(map.insert(key, key).unwrap(), None));
    drop(map);
    let whole = words_in(&path);
    let (from, depth, twin) = directory_of(&whole);
    // The second of two entries for one segment says that it is the right half of a split, of the same block.
    let mut one = whole.clone();
    one[from + twin + 1] = Entry { depth, ..Entry::of(one[from + twin]).unwrap() }.word();
    assert!(is_refused(&path, &one, Cceh::open));
    // Every entry changed in some ways, also behind a split that is to be finished.
    let half = with_half_a_split(&whole);
    assert!(!is_refused(&path, &half, Cceh::open));
    assert_ne!(words_in(&path)[from + twin], half[from + twin], "it was finished");
    let mut refused = 0;
    for words in [&whole, &half] {
        for at in from..from + (1 << depth) {
            let Entry { block, depth } = Entry::of(words[at]).unwrap();
            let changes = [
                Entry { block, depth: depth + 1 }.word(),
                Entry { block, depth: depth - 1 }.word(),
                Entry { block: Block(block.0 + 1), depth }.word(),
                Entry { block: Block(block.0 - 1), depth }.word(),
                !0,
            ];
            for change in changes {
                let mut words = words.clone();
                words[at] = change;
                refused += usize::from(is_refused(&path, &words, Cceh::open));
            }
        }
    }
    assert!(refused > 2 << depth, "{refused} of {}", 10 << depth);
}

#[test]
fn a_file_whose_heap_is_refused_is_left_as_it_was() {
    let folder = Folder::new("heap");
    let path = folder.path("map");
    let options = CcehOptions::new().segment_bytes(256).seed(SEED);
    let store = Store::create(&path, options).unwrap();
    for key in 0..150_u64 {
        assert_eq!(store.insert(&key.to_le_bytes(), &[1; 40]).unwrap(), None);
    }
    drop(store);
    let half = with_half_a_split(&words_in(&path));
    assert!(!is_refused(&path, &half, Store::open));
    let list = Geometry { bits: 2, probed: 4 }.entry(Block(half[HEAP_AT.0] as u32), 0).0;
    let first = (list + 1..list + 32).find(|at| half[*at] != 0).unwrap();
    for (at, change) in [(HEAP_AT.0, 1), (HEAP_AT.0, 1 << 40), (list, !0), (first, !0), (first, 1)]
    {
        let mut words = half.clone();
        words[at] = change;
        assert!(is_refused(&path, &words, Store::open), "{change:#x} at word {at}");
    }
}
