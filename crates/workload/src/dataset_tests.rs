use std::collections::BTreeSet;
use std::io::Write;

use super::*;

fn set(name: &str, count: usize, seed: u64) -> KeySet {
    name.parse::<Dataset>().unwrap().load(count, seed).unwrap().0
}

#[test]
fn generated_keys_are_unique_and_as_many_as_asked() {
    for name in NAMES {
        let set = set(name, 20_000, 1);
        assert_eq!((set.present(), set.absent()), (20_000, 2000), "{name}");
        let different: BTreeSet<_> = (0..set.len()).map(|i| set.key(i)).collect();
        assert_eq!(different.len(), 22_000, "{name}");
        assert!(different.iter().all(|key| key.len() <= set.longest()), "{name}");
    }
}

#[test]
fn a_seed_gives_the_same_keys_and_another_seed_others() {
    for name in NAMES {
        let (a, b, c) = (set(name, 1000, 7), set(name, 1000, 7), set(name, 1000, 8));
        assert!((0..a.len()).all(|i| a.key(i) == b.key(i)), "{name}");
        assert!((0..a.len()).any(|i| a.key(i) != c.key(i)), "{name}");
    }
}

#[test]
fn shapes_are_those_of_the_papers() {
    let mean = |name: &str| {
        let set = set(name, 50_000, 1);
        set.present_bytes() as f64 / set.present() as f64
    };
    for (name, low, high) in [
        ("rand-8", 8.0, 8.0),
        ("osm", 8.0, 8.0),
        ("k3", 8.0, 8.0),
        ("k10", 1024.0, 1024.0),
        ("klong", 64.0, 64.0),
        ("az", 35.0, 35.0),
        ("reddit", 8.0, 13.0),
        ("url", 60.0, 90.0),
    ] {
        assert!((low..=high).contains(&mean(name)), "{name}: {}", mean(name));
    }
    for name in ["rand-8", "seq-8", "osm", "dist-a", "dist-b", "k3"] {
        assert!(set(name, 10, 1).is_u64(), "{name}");
    }
    assert!(set("klong", 10, 1).key(3).starts_with(&[b'0'; 60]));
    let a = set("dist-a", 1000, 1);
    assert!((0..a.len()).all(|i| a.key(i)[..6].iter().all(|b| (b'0'..b'6').contains(b))));
}

#[test]
fn lines_are_read_once_each_and_counted() {
    let mut input = &b"pear\r\napple\n\npear\napple\nfig"[..];
    let (set, skipped) = read_lines(&mut input, Path::new("fruit"), 100, 1).unwrap();
    let found: BTreeSet<_> = (0..set.len()).map(|i| set.key(i)).collect();
    assert_eq!(found, BTreeSet::from([&b"apple"[..], b"fig", b"pear"]));
    assert_eq!(skipped, Skipped { duplicates: 2, empty: 1 });
}

#[test]
fn many_lines_survive_the_growth_of_the_tables() {
    let lines: Vec<_> = (0..50_000).map(|i| format!("line {}", i % 40_000)).collect();
    let text = lines.join("\n");
    let (set, skipped) =
        read_lines(&mut text.as_bytes(), Path::new("lines"), usize::MAX, 1).unwrap();
    assert_eq!((set.len(), skipped.duplicates), (40_000, 10_000));
}

#[test]
fn a_line_longer_than_a_key_is_refused_with_its_place() {
    let mut text = b"ok\n".to_vec();
    text.extend(std::iter::repeat_n(b'x', 1 << 20));
    text.extend_from_slice(b"\nnext\n");
    match read_lines(&mut &text[..], Path::new("f"), 100, 1) {
        Err(DatasetError::KeyTooLong { line, bytes, .. }) => {
            assert_eq!((line, bytes), (2, 1 << 20));
        }
        other => panic!("{other:?}"),
    }
    for (length, fits) in [(MAX_KEY_BYTES, true), (MAX_KEY_BYTES + 1, false)] {
        for ending in ["", "\n", "\r\n"] {
            let text = "x".repeat(length) + ending;
            let read = read_lines(&mut text.as_bytes(), Path::new("f"), 100, 1);
            assert_eq!(read.is_ok(), fits, "{length} {ending:?}");
        }
    }
}

#[test]
fn nothing_but_empty_lines_is_no_key() {
    for text in ["", "\n\n"] {
        let read = read_lines(&mut text.as_bytes(), Path::new("f"), 100, 1);
        assert!(matches!(read, Err(DatasetError::Empty { .. })));
    }
}

#[test]
fn numbers_are_read_as_big_endian_keys() {
    let dir = std::env::temp_dir().join(format!("fanread-numbers-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("few_uint64");
    let write = |numbers: &[u64]| {
        let mut file = File::create(&path).unwrap();
        for number in numbers {
            file.write_all(&number.to_le_bytes()).unwrap();
        }
    };
    write(&[4, 9, 0, 9, 77]);
    let (set, skipped) = Dataset::File(path.clone()).load(100, 1).unwrap();
    let found: BTreeSet<_> = (0..set.len()).map(|i| set.key(i).to_vec()).collect();
    assert_eq!(found, [0u64, 9, 77].map(|n| n.to_be_bytes().to_vec()).into());
    assert!(set.is_u64());
    assert_eq!(skipped.duplicates, 1);
    write(&[5, 1]);
    assert!(matches!(
        Dataset::File(path.clone()).load(100, 1),
        Err(DatasetError::WrongCount { counted: 5, found: 1, .. })
    ));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_file_of_somewhat_more_keys_than_asked_for_puts_no_more_into_the_map() {
    let dir = std::env::temp_dir().join(format!("fanread-lines-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("lines");
    for (lines, count, present) in [
        (50, 100, 46),
        (100, 100, 91),
        (1050, 100, 100),
        (1100, 100, 100),
        (2000, 100, 100),
        (10_500, 10_000, 9546),
        (12_000, 10_000, 10_000),
    ] {
        let text: Vec<_> = (0..lines).map(|i: u32| i.to_string()).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
        let (set, _) = Dataset::File(path.clone()).load(count, 1).unwrap();
        assert_eq!(set.present(), present, "{count} of {lines}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_saved_set_reads_back_with_its_order() {
    use crate::order::Order;
    for name in ["rand-8", "url"] {
        let set = set(name, 3000, 5);
        let order = Order::of(&set);
        let mut saved = Vec::new();
        set.save(&mut saved, Some(&order)).unwrap();
        let (back, back_order) = KeySet::load(&mut &saved[..]).unwrap();
        assert_eq!((back.present(), back.absent()), (set.present(), set.absent()));
        assert!((0..set.len()).all(|i| set.key(i) == back.key(i)), "{name}");
        assert_eq!(back_order.unwrap().by_rank(), order.by_rank());
        let sorted = order.by_rank().windows(2);
        assert!(sorted.into_iter().all(|w| set.key(w[0] as usize) < set.key(w[1] as usize)));
        assert!(KeySet::load(&mut &saved[..saved.len() - 1]).is_err());
    }
    assert!(KeySet::load(&mut &[0; 100][..]).is_err());
}
