//! Hints of a single trie: how often they say something, and what removals leave of them.

use super::*;
use crate::index::cuckoo_trie::build::for_each_node;
use crate::index::cuckoo_trie::hints::{Hint, Leads};
use crate::index::cuckoo_trie::layout::Hinting;

#[test]
fn a_hint_finds_most_keys_and_tells_that_most_others_are_not_there() {
    if cfg!(small_leaves) {
        return;
    }
    // Hints of a byte, and of half a byte with the root as entry level.
    for lines in [2 * BLOCK_BUCKETS, 17 * BLOCK_BUCKETS] {
        let mut rng = Rng::new(3);
        let mut keys: Vec<_> = (0..1000).map(|_| rng.bytes(9)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut single = Single::new(3, lines, (b"", None));
        for key in &keys {
            assert!(single.insert(key, 1));
        }
        let view = single.view();
        let by_hint = |key: &Vec<u8>| view.get_by_hint(key).break_value();
        let found =
            keys.iter().filter_map(by_hint).inspect(|found| assert!(found.is_some())).count();
        let others: Vec<_> = (0..1000).map(|_| rng.bytes(9)).collect();
        let missed = others.iter().filter_map(by_hint).filter(Option::is_none).count();
        // Of four keys for each hint's four places that are taken, a fiftieth at most has more.
        assert!(
            found > keys.len() * 19 / 20 && missed > others.len() * 19 / 20,
            "{lines}: {found}, {missed}"
        );
        for key in keys.iter().step_by(2) {
            assert_eq!(single.remove(key), Some(1));
        }
        single.check_gets(&others);
        // What is left of the hints says that these are gone.
        let view = single.view();
        let gone = keys.iter().step_by(2).filter(|key| view.get_by_hint(key).is_break()).count();
        assert!(gone > keys.len() / 2 * 19 / 20, "{lines}: {gone}");
    }
}

#[test]
fn a_hint_finds_keys_that_others_begin_with() {
    if cfg!(small_leaves) {
        return;
    }
    for lines in [2 * BLOCK_BUCKETS, 17 * BLOCK_BUCKETS] {
        let mut single = Single::new(5, lines, (b"", None));
        let long = [7; 9];
        for len in 1..=long.len() {
            assert!(single.insert(&long[..len], len as u64));
        }
        let view = single.view();
        let by_hint =
            |len: &usize| view.get_by_hint(&long[..*len]) == ControlFlow::Break(Some(*len as u64));
        let found = (1..=long.len()).filter(by_hint).count();
        // Those on levels that half a byte cannot name go the long way.
        assert!(found >= 7, "{lines}: {found}");
    }
}

#[test]
fn more_leaves_than_four_hints_can_name_are_found() {
    if cfg!(small_leaves) {
        return;
    }
    // 2.7 keys for each four hints, so one key in four has four others at least with the same ones.
    for lines in [16 * BLOCK_BUCKETS, 17 * BLOCK_BUCKETS] {
        let mut rng = Rng::new(9);
        let mut keys: Vec<_> = (0..11_000).map(|_| rng.bytes(9)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut single = Single::new(4, lines, (b"", None));
        keys.retain(|key| single.insert(key, 1));
        assert_eq!(keys.len(), 11_000);
        let view = single.view();
        let unknown = keys.iter().filter(|key| view.get_by_hint(key).is_continue()).count();
        assert!((1..keys.len() / 4).contains(&unknown), "{lines}: {unknown}");
        single.check();
        single.check_gets(&keys);
        for key in keys.iter().step_by(3) {
            assert_eq!(single.remove(key), Some(1));
        }
        single.check();
        single.check_gets(&keys);
    }
}

#[test]
fn levels_where_many_leaves_are_are_asked_for_with_the_hints() {
    if cfg!(small_leaves) {
        return;
    }
    let mut rng = Rng::new(11);
    // A third each on three levels or so, and a few much further down.
    let mut keys: Vec<_> = (0..3000_u64)
        .map(|i| [&vec![7; i as usize % 3][..], &rng.bytes(9)].concat())
        .chain((0..20).map(|i| [&[9; 8][..], &[i]].concat()))
        .collect();
    let mut single = Single::new(3, 17 * BLOCK_BUCKETS, (b"", None));
    keys.retain(|key| single.insert(key, 1));
    let (trie, view) = (single.trie(), single.view());
    let Hinting::Half(above) = trie.hinting() else { panic!("hints of half a byte") };
    trie.note_likely();
    let (mut leaves, mut all) = ([0; 16], 0);
    for_each_node(Baseline, view.secret, trie, |level, _, node| {
        let hint = (level - above) as usize;
        if (1..15).contains(&hint) {
            let count = node.leaves().count();
            leaves[hint] += count;
            all += count;
        }
    });
    let many = (1..15).filter(|hint| leaves[*hint] > 0 && leaves[*hint] * 16 >= all);
    assert_eq!(trie.likely(), many.fold(0, |likely, hint| likely | 1 << hint), "{leaves:?}");
    assert!((2..=6).contains(&trie.likely().count_ones()), "{leaves:?}");
    single.check_gets(&keys);
}

#[test]
fn a_leaf_that_moves_between_its_hint_and_the_search_is_not_taken_for_missing() {
    if cfg!(small_leaves) {
        return;
    }
    for lines in [2 * BLOCK_BUCKETS, 17 * BLOCK_BUCKETS] {
        let mut single = Single::new(6, lines, (b"", None));
        let with =
            |at: usize, byte| core::array::from_fn::<u8, 9, _>(|i| if i < at { 7 } else { byte });
        let (key, others, near) = ([7; 9], [with(1, 8), with(1, 80)], [with(8, 9), with(7, 9)]);
        assert!(single.insert(&key, 1) && others.iter().all(|other| single.insert(other, 2)));
        let view = single.view();
        let hash = hash_of(view.seed, &key);
        let Hint::At(mut leads, seen) = view.trie().read_hint(view.secret, &key, hash) else {
            panic!("{lines}: no hint");
        };
        let look = |view: View<'_>, leads: &mut Leads| {
            let first = view.trie().look_first(Baseline, leads, seen, hash);
            first.unwrap_or_else(|| view.trie().look_second(Baseline, leads, seen, hash))
        };
        assert!(matches!(look(view, &mut leads), Hinted::Record(_)), "{lines}");
        // The key's leaf goes down, as these share more symbols with it.
        assert!(near.iter().all(|near| single.insert(near, 3)));
        assert_eq!(look(single.view(), &mut leads), Hinted::Unknown, "{lines}");
        assert_eq!(single.view().get_by_hint(&key), ControlFlow::Break(Some(1)), "{lines}");
    }
}
