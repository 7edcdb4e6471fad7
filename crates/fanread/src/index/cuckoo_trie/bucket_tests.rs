//! Tests of a bucket: nodes that come, go and change beside others.

use super::*;
use crate::arch::{Baseline, Lanes};
use crate::index::cuckoo_trie::label::Children;
use crate::index::cuckoo_trie::layout::{Leaf, Pair};
use std::cell::Cell;
use std::collections::BTreeMap;
use testkit::Rng;

/// Lanes that let something happen before they read one of so many words with heads.
#[derive(Clone, Copy)]
pub(in crate::index::cuckoo_trie) struct Between<'a> {
    pub(in crate::index::cuckoo_trie) words: &'a Cell<usize>,
    pub(in crate::index::cuckoo_trie) at: usize,
    pub(in crate::index::cuckoo_trie) happens: &'a dyn Fn(),
}

impl Lanes for Between<'_> {
    fn match_u16(self, line: &[AtomicU64; 8], tag: u16) -> u32 {
        Baseline.match_u16(line, tag)
    }

    fn match_u64(self, line: &[AtomicU64; 8], want: u64, mask: u64) -> u8 {
        Baseline.match_u64(line, want, mask)
    }

    fn match_word(self, line: &[AtomicU64; 8], want: u64) -> u8 {
        Baseline.match_word(line, want)
    }

    fn match_u32(self, line: &[AtomicU64; 8], want: u32, mask: u32) -> u32 {
        let read = |word: usize| {
            if word <= VERSION_WORD && self.words.replace(self.words.get() + 1) == self.at {
                (self.happens)();
            }
            AtomicU64::new(line[word].load(Relaxed))
        };
        Baseline.match_u32(&core::array::from_fn(read), want, mask)
    }
}

fn empty() -> Bucket {
    Bucket { words: [const { AtomicU64::new(0) }; WORDS] }
}

fn node(bits: u64) -> Node {
    Node::Regular(Children { bits, end: false })
}

fn short(key: u64) -> Node {
    // So that half of the values look like heads of these names.
    let value = if key.is_multiple_of(2) { !key } else { key << 32 | u64::from(Head::first(3)) };
    Node::Leaf(Leaf::Short { key, value })
}

fn pair(unit: u64) -> Node {
    let [first, second] = [0, 1].map(|hash| Leaf::Record { unit, hash });
    Node::Pair(Pair::of(first, second).unwrap())
}

/// The nodes of a bucket, by name.
fn nodes(bucket: &Bucket) -> BTreeMap<u32, Node> {
    assert!(bucket.is_in_order(), "{bucket:?}");
    bucket.nodes().map(|(slot, head)| (head.name(), bucket.node(slot))).collect()
}

#[test]
fn a_key_is_found_in_its_short_leaf_and_in_nothing_that_looks_like_it() {
    for key in [0, 0b1010, 1 << 39] {
        let (leaf, bitmap) = (empty(), empty());
        assert!(!leaf.value_in(leaf.find_key(Baseline, key)).1, "a free slot");
        bitmap.put(Head::first(1), node(key).encode()).unwrap();
        let slots = bitmap.find_key(Baseline, key);
        assert!(slots != 0 && !bitmap.value_in(slots).1, "a bitmap");
        leaf.put(Head::first(1), Node::Leaf(Leaf::Short { key, value: 7 }).encode()).unwrap();
        assert_eq!(leaf.value_in(leaf.find_key(Baseline, key)), (7, true));
        let two = empty();
        two.put(Head::first(1), pair(key).encode()).unwrap();
        let slots = two.find_key(Baseline, two.body(0));
        assert!(slots != 0 && !two.value_in(slots).1, "a pair");
    }
}

#[test]
fn nodes_come_and_go_and_change_without_their_neighbours() {
    for seed in testkit::seeds() {
        let (bucket, mut rng, mut model) = (empty(), Rng::new(seed), BTreeMap::new());
        let mut version = 0;
        for step in 0..5_000_u64 {
            let name = Head::first(rng.below(8) as u32);
            let new = match rng.below(4) {
                0 | 1 => node(step),
                2 => short(step),
                _ => pair(step),
            };
            let crowd = |model: &BTreeMap<u32, Node>| {
                let is_wide = |node: &Node| node.encode().second.is_some();
                model.values().fold(Crowd::default(), |crowd, node| crowd.with(is_wide(node)))
            };
            let place = bucket.nodes().find(|(_, head)| head.name() == name);
            let mut next = model.clone();
            next.insert(name, new);
            let fits = crowd(&next).fits();
            let changed = match place {
                None => bucket.put(name, new.encode()),
                Some((slot, _)) if rng.one_in(2) => {
                    next.remove(&name);
                    Some(bucket.take(slot))
                }
                Some((slot, _)) => bucket.exchange(slot, new.encode()),
            };
            if let Some(now) = changed {
                version += 2;
                assert_eq!(now.number(), version);
                model = next;
            } else {
                assert!(!fits, "{new:?} beside {model:?}");
            }
            assert_eq!(nodes(&bucket), model);
            for tag in 0..8 {
                let hit = find_in_pair(Baseline, &bucket, &empty(), tag).map(|hit| hit.node);
                assert_eq!(hit.as_ref(), model.get(&Head::first(tag)));
                assert!(find_in_pair(Baseline, &empty(), &bucket, tag).is_none());
            }
        }
    }
}

#[test]
fn a_node_is_found_by_seat_and_tag_in_the_first_bucket_before_the_second() {
    let (first, second) = (empty(), empty());
    assert!(find_in_pair(Baseline, &first, &second, 0).is_none());
    for tag in 0..3 {
        second.put(Head::second(tag), short(70).encode()).unwrap();
        let hit = find_in_pair(Baseline, &first, &second, tag).unwrap();
        assert_eq!((hit.node, hit.slot), (short(70), tag));
        // One copy in each: the first counts.
        first.put(Head::first(tag), node(71).encode()).unwrap();
        let copy = find_in_pair(Baseline, &first, &second, tag).unwrap();
        assert_eq!(copy.node, node(71));
        assert!(hit.seen.is_still() && copy.seen.is_still());
        // A head in the wrong bucket is not the node.
        assert!(find_in_pair(Baseline, &second, &first, tag).is_none());
    }
}

#[test]
fn what_is_known_of_those_away_stays_when_nodes_and_versions_change() {
    let (bucket, away) = (empty(), Away(0xa5a));
    bucket.set_away(away);
    assert_eq!(bucket.begin().number(), 0);
    for tag in 0..3 {
        bucket.put(Head::first(tag), short(u64::from(tag)).encode()).unwrap();
        assert_eq!((bucket.away(), bucket.begin().number()), (away, 2 * (tag + 1)));
    }
    bucket.take(1);
    bucket.put(Head::first(9), node(70).encode()).unwrap();
    assert_eq!((bucket.away(), nodes(&bucket).len()), (away, 3));
    bucket.start();
    assert_eq!((bucket.away(), bucket.begin().number()), (away, 0));
    bucket.set_away(Away::default());
    assert_eq!((bucket.away(), nodes(&bucket).len()), (Away::default(), 3));
}

/// A wide node that comes may send another one to another slot.
#[test]
fn a_node_that_changes_its_slot_while_it_is_looked_for_is_found() {
    for at in 0.. {
        let (first, second, words) = (empty(), empty(), Cell::new(0));
        for tag in 1..5 {
            second.put(Head::second(tag), node(7).encode()).unwrap();
        }
        for tag in 1..4 {
            let (slot, _) = second.nodes().find(|(_, head)| head.tag() == tag).unwrap();
            second.take(slot);
        }
        let happens = || assert!(second.put(Head::second(5), short(70).encode()).is_some());
        let lanes = Between { words: &words, at, happens: &happens };
        let hit = find_in_pair(lanes, &first, &second, 4);
        assert_eq!(hit.map(|hit| hit.node), Some(node(7)), "before word {at}");
        if words.get() <= at {
            assert!(at >= 6, "a look at both");
            return;
        }
    }
}
