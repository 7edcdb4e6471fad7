//! What cannot be seen or brought about from outside: memory that runs out at any moment, buckets that are worn out, values that are
//! replaced by hints.

use super::walk::Direction;
use super::{CuckooTrie as Map, Pinned};
use crate::api::{Rule, Written};

/// Whether keys are numbers.
const NUMBERS: bool = false;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

/// Every bucket's version ends some day; a trie is replaced before one of its own does.
#[test]
#[cfg(small_leaves)]
fn a_trie_with_a_worn_bucket_is_replaced() {
    let map = Map::<Box<u64>>::new();
    let pinned = map.pin();
    let keys: [&[u8]; 3] = [b"ant", b"bee", b"cat"];
    for key in keys {
        pinned.insert(key, Box::new(0));
    }
    let mut names = std::collections::HashSet::new();
    for n in 1..1_000 {
        // A value of its own record: the leaf is stored again.
        assert_eq!(pinned.insert(keys[n as usize % 3], Box::new(n)).is_some(), true);
        let trie = map.first_trie().unwrap();
        names.insert(trie.name().get());
        for bucket in 0..trie.buckets() {
            assert!(trie.bucket(bucket).begin().number() < 2 * super::layout::WORN);
        }
    }
    assert!(names.len() > 1, "the trie was never replaced");
    pinned.check().unwrap();
}

/// Who meets a trie that is being replaced makes room in another one.
#[test]
fn who_waits_for_a_trie_makes_room_in_another() {
    let (map, mut rng) = (Map::<u64>::new(), testkit::Rng::new(1));
    let pinned = map.pin();
    let mut keys = Vec::new();
    let busy = loop {
        keys.push(rng.next_u64().to_be_bytes());
        pinned.insert(&keys[keys.len() - 1], 1);
        let busy = map.first_trie().unwrap();
        if keys.len() % 16 == 0 && busy.next().is_some() {
            let locked = busy.version().lock();
            let made = map.make_room_ahead(&pinned, busy);
            drop(locked);
            if made {
                break busy;
            }
        }
    };
    assert!(!busy.version().begin().is_dead(), "it was another");
    pinned.check().unwrap();
    assert!(keys.iter().all(|key| pinned.contains_key(key)));
    // And by threads that do not know of each other.
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let map = &map;
            scope.spawn(move || {
                let (pinned, mut rng) = (map.pin(), testkit::Rng::new(2 + thread));
                for n in 0..if cfg!(miri) { 50 } else { 20_000 } {
                    pinned.insert(&rng.next_u64().to_be_bytes(), n);
                }
            });
        }
    });
    pinned.check().unwrap();
    for thread in 0..4 {
        let mut rng = testkit::Rng::new(2 + thread);
        for n in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let found = pinned.get(&rng.next_u64().to_be_bytes()).map(|value| *value);
            assert_eq!(found, Some(n));
        }
    }
}

/// A pair needs no jumps, a third key that agrees with both of them further does.
#[test]
fn three_keys_that_share_more_than_a_small_table_holds_are_all_found() {
    let key = |last: u8| [vec![7; if cfg!(miri) { 100 } else { 9_000 }], vec![last]].concat();
    for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
        let map = Map::<u64>::new();
        let pinned = map.pin();
        for last in order {
            pinned.insert(&key(last), last.into());
            pinned.check().unwrap();
        }
        for last in order {
            assert_eq!(pinned.get(&key(last)).as_deref(), Some(&last.into()));
        }
    }
}

/// Ranges that begin within long labels, beside them, and where they end.
#[test]
fn ranges_begin_anywhere_along_a_row_of_jumps() {
    let mut rng = testkit::Rng::new(5);
    let trunk: Vec<u8> = (0..260_u32).map(|i| (i * i / 5 + i) as u8).collect();
    let mut model = std::collections::BTreeMap::new();
    for n in 0..if cfg!(miri) { 12 } else { 600 } {
        let family = rng.below(6) as u8;
        let len = [0, 8, 15, 23, 70, 160, 260][rng.below(7)];
        let tail: Vec<u8> = (0..rng.below(4)).map(|_| rng.below(256) as u8).collect();
        model.insert([&[family * 40], &trunk[..len], &tail].concat(), n);
    }
    let map = Map::<u64>::new();
    let pinned = map.pin();
    for (key, value) in &model {
        pinned.insert(key, *value);
    }
    pinned.check().unwrap();
    let mut bounds: Vec<Vec<u8>> = model.keys().cloned().collect();
    for family in 0..6 {
        for len in (0..=trunk.len()).step_by(if cfg!(miri) { 130 } else { 3 }) {
            let mut bound = [&[family * 40], &trunk[..len]].concat();
            bounds.push(bound.clone());
            if let Some(last) = bound.last_mut() {
                *last ^= 1 << rng.below(8);
            }
            bounds.push(bound);
        }
    }
    for bound in &bounds {
        assert_eq!(pinned.get(bound).as_deref(), model.get(bound), "{bound:?}");
        let up = pinned.range(&bound[..]..).take(5).map(|(key, value)| (key.to_vec(), *value));
        let expected =
            model.range(bound.clone()..).take(5).map(|(key, value)| (key.clone(), *value));
        assert!(up.eq(expected), "{bound:?}");
        let down =
            pinned.range(..&bound[..]).rev().take(5).map(|(key, value)| (key.to_vec(), *value));
        let expected =
            model.range(..bound.clone()).rev().take(5).map(|(key, value)| (key.clone(), *value));
        assert!(down.eq(expected), "{bound:?}");
    }
    let (keys, mut found) = (bounds.iter().map(Vec::as_slice).collect::<Vec<_>>(), Vec::new());
    found.resize_with(keys.len(), || None);
    pinned.get_batch(&keys, &mut found);
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(found.as_deref(), model.get(*key), "{key:?}");
    }
}

/// Keys whose paths are long, as those of words are: the digits of numbers to base two.
fn words(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("the number {n:b}")).collect()
}

/// What is to be replaced is found by hints, and by them only if it is there.
#[test]
fn values_of_words_are_replaced_by_hints() {
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    let map = Map::<u64>::new();
    let pinned = map.pin();
    let (words, others) = (words(20_000), words(40_000));
    for (value, word) in words.iter().enumerate() {
        pinned.insert(word.as_bytes(), value as u64);
    }
    assert!(!map.replacing.is_likely());
    let write = |word: &String, value: u64, rule: Rule| {
        let hint = map.hint(word.as_bytes(), &pinned.guard).unwrap();
        assert!(hint.trie.is_hinted_for::<u64>(word.as_bytes()));
        map.replace_by_hint(hint, word.as_bytes(), value, rule)
    };
    let mut replaced = 0;
    for (value, word) in words.iter().enumerate() {
        let value = value as u64;
        match write(word, value + 1, Rule::Absent) {
            Ok(Written::Refused(Some(old), given)) => {
                assert_eq!((*crate::api::Ref::new(old), given), (value, value + 1));
            }
            Err(given) => {
                assert_eq!(given, value + 1);
                continue;
            }
            _ => panic!("{word}"),
        }
        let Ok(Written::Replaced(old)) = write(word, value + 2, Rule::Always) else {
            panic!("{word} was found before");
        };
        assert_eq!(
            (*crate::api::Ref::new(old), *pinned.get(word.as_bytes()).unwrap()),
            (value, value + 2)
        );
        pinned.insert(word.as_bytes(), value);
        replaced += 1;
    }
    assert!(replaced > words.len() * 9 / 10, "{replaced}");
    for word in &others[words.len()..] {
        assert!(matches!(write(word, 7, Rule::Always), Err(7)), "{word} is not there");
    }
    // One that the same hints lead to the same leaf, as what it begins with is there, and has its hash.
    let word = &words[words.len() - 1];
    let hash = |word: &String| map.hint(word.as_bytes(), &pinned.guard).unwrap().hash;
    let longer = (0..).map(|n| format!("{word} {n}"));
    let twin = longer.into_iter().find(|longer| hash(longer) == hash(word)).unwrap();
    assert!(matches!(write(&twin, 7, Rule::Always), Err(7)), "{twin} is not there");
    // One write in a few says that values are being replaced, and later that keys are new.
    assert!(map.replacing.is_likely());
    for (value, word) in others.iter().enumerate() {
        let old = pinned.insert(word.as_bytes(), value as u64).map(|old| *old);
        assert_eq!(old, (value < words.len()).then_some(value as u64));
    }
    assert!(!map.replacing.is_likely());
    pinned.check().unwrap();
}

/// No value is handed out by two, of whom one replaces and the other removes it.
#[test]
fn each_value_of_a_word_is_replaced_or_removed() {
    const HOT: usize = 8;
    if cfg!(any(miri, small_leaves)) {
        return;
    }
    let (map, words) = (Map::<u64>::new(), words(20_000));
    for word in &words {
        map.pin().insert(word.as_bytes(), 0);
    }
    let hot = &words[words.len() - HOT..];
    let is_hinted = |word: &String| {
        let (key, guard) = (word.as_bytes(), crate::sync::epoch::pin());
        map.hint(key, &guard).is_some_and(|hint| hint.trie.is_hinted_for::<u64>(key))
    };
    assert!(hot.iter().all(is_hinted));
    let rounds = 100_000;
    let (mut replaced, removed) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (pinned, mut replaced) = (map.pin(), Vec::new());
            for value in 1..=rounds {
                let word = hot[value as usize % HOT].as_bytes();
                // Whatever the others have been noted as.
                map.replacing.note(0, true);
                replaced.extend(pinned.insert(word, value).map(|old| *old));
            }
            replaced
        });
        let (mut removed, mut turn) = (Vec::new(), 0);
        while !writer.is_finished() {
            turn += 1;
            removed.extend(map.pin().remove(hot[turn % HOT].as_bytes()).map(|old| *old));
        }
        (writer.join().unwrap(), removed)
    });
    let pinned = map.pin();
    replaced.extend(removed);
    replaced.extend(hot.iter().filter_map(|word| pinned.get(word.as_bytes())).map(|value| *value));
    replaced.retain(|value| *value != 0);
    replaced.sort_unstable();
    assert!(replaced.into_iter().eq(1..=rounds), "a value was lost, or is there twice");
    pinned.check().unwrap();
}

/// A full trie has some ten thousand nodes, and a list of them takes near a megabyte: it is asked for as tables are.
#[test]
fn a_split_for_whose_lists_there_is_no_memory_is_not_made() {
    use super::split::Nodes;
    use crate::arch::Baseline;
    use crate::mem::failing;

    let map = Map::<u64>::new();
    let pinned = map.pin();
    let words = words(if cfg!(miri) { 10 } else { 4_000 });
    for (value, word) in words.iter().enumerate() {
        pinned.insert(word.as_bytes(), value as u64);
    }
    let trie = map.first_trie().unwrap();
    failing::after(0);
    let nodes = Nodes::of(Baseline, &map.secret, trie).map(|_| ());
    // Nor is a table made smaller then, whatever room for it there is.
    let mut gone = words.iter().skip(2);
    assert!(gone.all(|word| pinned.remove(word.as_bytes()).is_some()));
    let shrunk = map.first_trie() != Some(trie);
    failing::never();
    assert!(nodes.is_err_and(|error| error.bytes > 0) && !shrunk);
    pinned.check().unwrap();
    pinned.insert(b"ant", 1);
    assert_eq!((pinned.len(), pinned.get(b"ant").as_deref()), (3, Some(&1)));
}

/// The ends are what walks come to first, whatever nodes lead there, also where all entries of the outer tries are gone.
#[test]
fn the_ends_are_those_of_walks_as_keys_go_from_both() {
    let count = if cfg!(miri) { 60 } else { 3_000 };
    let kinds: [fn(u64) -> Vec<u8>; 4] = [
        |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
        // Each is what the next one begins with, END's children.
        |n| vec![7; (n % 200) as usize],
        // Long labels, pairs, and branches.
        |n| format!("http://www.example.com/{:04}/{}/of/the/site", n * 37 % 1_000, n).into_bytes(),
        |n| (n * n % 1_009).to_string().into_bytes(),
    ];
    for key in kinds {
        let (map, mut model) = (Map::<u64>::new(), std::collections::BTreeMap::new());
        let pinned = map.pin();
        let check = |first: Option<(&Vec<u8>, &u64)>, last: Option<(&Vec<u8>, &u64)>| {
            let found = pinned.first_key_value().map(|(key, value)| (key.to_vec(), *value));
            assert_eq!(found, first.map(|(key, value)| (key.clone(), *value)));
            let found = pinned.last_key_value().map(|(key, value)| (key.to_vec(), *value));
            assert_eq!(found, last.map(|(key, value)| (key.clone(), *value)));
        };
        check(None, None);
        for n in 0..count {
            pinned.insert(&key(n), n);
            model.insert(key(n), n);
            check(model.first_key_value(), model.last_key_value());
        }
        for direction in [Direction::Up, Direction::Down] {
            assert!(pinned.end(direction).is_some(), "without a walk");
        }
        for n in 0.. {
            let (gone, expected) = match n % 3 {
                0 => (pinned.pop_last(), model.pop_last()),
                _ => (pinned.pop_first(), model.pop_first()),
            };
            let gone = gone.map(|(key, value)| (key.to_vec(), *value));
            assert_eq!(gone, expected);
            check(model.first_key_value(), model.last_key_value());
            if gone.is_none() {
                break;
            }
        }
        pinned.check().unwrap();
    }
}
