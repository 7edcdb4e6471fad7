//! Hints of a single trie: how often they say something, and what removals leave of them.

use super::*;

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
        assert!(
            found > keys.len() * 4 / 5 && missed > others.len() * 4 / 5,
            "{lines}: {found}, {missed}"
        );
        // Removals leave their hints, which then lead nowhere.
        for key in keys.iter().step_by(2) {
            assert_eq!(single.remove(key), Some(1));
        }
        single.check_gets(&others);
    }
}
