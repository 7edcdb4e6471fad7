//! What readers see of a bucket beside a writer: loom runs the bucket's own functions on its atomics.

use super::*;
use crate::index::cuckoo_trie::label::Children;
use crate::index::cuckoo_trie::layout::{Kind, Leaf};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64 as Model;
use loom::thread;

#[derive(Clone, Copy)]
struct Plain;

impl Find<Model> for Plain {
    fn find(self, bucket: &Bucket<Model>, name: u32) -> Option<u32> {
        // Slot 4, beside the version, and slot 3: the others are as slot 3, and loom tries every load.
        let is = |slot| bucket.head(slot).name() == name;
        if is(4) { Some(4) } else { is(3).then_some(3) }
    }
}

fn bucket() -> Bucket<Model> {
    Bucket { words: core::array::from_fn(|_| Model::new(0)) }
}

fn first(tag: u32, kind: Kind) -> Head {
    Head::new(Head::first(tag), kind)
}

fn regular(bits: u64) -> Node {
    Node::Regular(Children { bits, end: false })
}

/// Runs a reader beside a writer. The writer goes first in the first run: loom goes back from a load to the stores
/// before it, but from a store only to the last access before it, which may be a load of the same thread.
fn race(
    line: [Bucket<Model>; 2],
    write: impl FnOnce(&[Bucket<Model>; 2]),
    read: impl FnOnce(&[Bucket<Model>; 2]) + 'static,
) {
    let pair = Arc::new(line);
    let reader = {
        let pair = pair.clone();
        thread::spawn(move || read(&pair))
    };
    write(&pair);
    reader.join().unwrap();
}

#[test]
fn loom_a_node_is_read_as_one() {
    for slot in [3, 4] {
        loom::model(move || {
            let pair = [bucket(), bucket()];
            pair[0].change(slot, first(1, Kind::Plain), 10);
            let write = |pair: &[Bucket<Model>; 2]| {
                pair[0].change(slot, first(1, Kind::Regular), 20);
                pair[0].change(slot, first(2, Kind::Plain), 30);
            };
            race(pair, write, move |pair| {
                let version = pair[0].begin();
                let (head, body) = (pair[0].head(slot), pair[0].body(slot));
                if pair[0].is_still(version) {
                    let read = (head.tag(), head.kind(), body);
                    let whole =
                        [(1, Kind::Plain, 10), (1, Kind::Regular, 20), (2, Kind::Plain, 30)];
                    assert!(whole.contains(&read), "{read:?}");
                }
            });
        });
    }
}

#[test]
fn loom_a_short_leaf_is_read_with_its_value() {
    loom::model(|| {
        let pair = [bucket(), bucket()];
        let short = |key| Node::Leaf(Leaf::Short { key, value: key + 1 });
        pair[0].add(pair[0].census(), Head::first(1), short(10).encode());
        let write = move |pair: &[Bucket<Model>; 2]| {
            pair[0].exchange(0, short(20).encode());
        };
        race(pair, write, move |pair| {
            let version = pair[0].begin();
            let node = pair[0].node(0);
            if pair[0].is_still(version) {
                assert!(node == short(10) || node == short(20), "{node:?}");
            }
        });
    });
}

#[test]
fn loom_a_node_that_moves_is_always_found() {
    // To the second bucket and to the first.
    for back in [false, true] {
        loom::model(move || {
            let pair = [bucket(), bucket()];
            let (from, to) = (usize::from(back), usize::from(!back));
            let head = first(1, Kind::Regular);
            pair[from].change(3, if back { head.moved() } else { head }, 10);
            let write = move |pair: &[Bucket<Model>; 2]| {
                let head = pair[from].head(3);
                pair[to].change(4, head.moved(), pair[from].body(3));
                // Another node takes its place.
                pair[from].change(3, first(2, Kind::Plain), 20);
            };
            race(pair, write, |pair| {
                let hit = find_in_pair(Plain, &pair[0], &pair[1], 1).expect("it never left");
                assert_eq!(hit.node, regular(10));
            });
        });
    }
}

#[test]
fn loom_a_child_is_there_as_long_as_its_parent_says_so() {
    // Insertion: child, then the bit in the parent. Removal: the bit, then the child. A reader that finds the bit and
    // then no child has to see that the parent has changed.
    for insertion in [false, true] {
        loom::model(move || {
            let pair = [bucket(), bucket()];
            let (parent, child) = (first(1, Kind::Regular), first(2, Kind::Regular));
            pair[0].change(3, parent, u64::from(!insertion));
            if !insertion {
                pair[1].change(3, child, 10);
            }
            let write = move |pair: &[Bucket<Model>; 2]| {
                if insertion {
                    pair[1].change(3, child, 10);
                    pair[0].change(3, parent, 1);
                } else {
                    pair[0].change(3, parent, 0);
                    pair[1].change(3, Head::FREE, 0);
                }
            };
            race(pair, write, |pair| {
                // The second bucket of both is one that does not matter.
                let none = bucket();
                let hit = find_in_pair(Plain, &pair[0], &none, 1).expect("the parent stays");
                if hit.node == regular(1) {
                    let below = find_in_pair(Plain, &pair[1], &none, 2);
                    assert!(below.is_some() || !hit.seen.is_still(), "a child is missing");
                    assert!(below.is_none_or(|below| below.node == regular(10)));
                }
            });
        });
    }
}
