//! Tests of the views: states against buckets, pieces that are taken and given back, borders.

use core::cmp::Ordering as Order;

use super::*;
use crate::arch::Baseline;
use crate::hash::prefix::Seed;
use crate::index::cuckoo_trie::header::LIST_LINES;
use crate::index::cuckoo_trie::label::{Children, Symbol};
use crate::index::cuckoo_trie::layout::{Hinting, Kind, MAX_BUCKETS, SLOTS, larger};
use crate::index::cuckoo_trie::state::Secret;
use crate::mem::failing;

fn shape(buckets: u32) -> Shape<'static> {
    let low = (0, &b""[..]);
    Shape {
        buckets,
        skip_bits: 0,
        round: 0,
        levels: 1,
        entry: 0,
        leaf_level: 0,
        hinting: Hinting::None,
        low,
        high: None,
    }
}

fn sizes() -> impl Iterator<Item = u32> {
    core::iter::successors(Some(1), |buckets| larger(*buckets))
}

/// A node that says this.
fn node(bits: u64) -> Node {
    Node::Regular(Children { bits, end: false })
}

#[test]
fn bucket_and_tag_give_the_state_back() {
    let (memory, mut free) = (Memory::new(), FreeLines::default());
    let secret = Secret::new(&Seed::fixed(2));
    for buckets in sizes() {
        let trie = memory.allocate(&mut free, &shape(buckets)).unwrap();
        let mut states = vec![State(0), State(!0 << 28), State(1 << 28), State(1 << 63)];
        // Around the borders of buckets.
        for bucket in (0..buckets).step_by(buckets as usize / 20 + 1) {
            let border = (u128::from(bucket) << 64) / u128::from(buckets);
            let border = border as u64 >> 28 << 28;
            states.extend(
                [-1, 0, 1, 2]
                    .map(|i: i64| State(border.wrapping_add(i.cast_unsigned().wrapping_shl(28)))),
            );
        }
        let mut state = secret.root(3);
        for symbol in 0..200 {
            state = secret.step(state, Symbol(symbol % 65));
            states.push(state);
        }
        for state in states {
            let home = trie.home(state);
            assert!(home.first < buckets && home.second < buckets);
            assert_eq!(home.first == home.second, buckets == 1);
            let first = Head::new(Head::first(home.tag), Kind::Plain);
            assert!(trie.is_same(trie.state(home.first, first), state), "{buckets} {state:?}");
            let second = first.moved();
            assert_eq!(trie.state(home.second, second), trie.state(home.first, first));
            assert_eq!(trie.other(home.first, first), home.second);
            assert_eq!(trie.other(home.second, second), home.first);
            if buckets >= 1 << (STATE_BITS - TAG_BITS) {
                assert_eq!(trie.state(home.first, first), state);
            }
        }
    }
}

#[test]
fn states_in_order_have_first_buckets_in_order() {
    let (memory, mut free) = (Memory::new(), FreeLines::default());
    for buckets in sizes() {
        let trie = memory.allocate(&mut free, &shape(buckets)).unwrap();
        let firsts = (0..100_u64).map(|i| trie.home(State((!0 / 99 * i) >> 28 << 28)).first);
        assert!(firsts.is_sorted());
    }
}

#[test]
fn freed_lines_are_used_again_as_if_new() {
    let (memory, mut free) = (Memory::new(), FreeLines::default());
    for buckets in sizes() {
        let trie = memory.allocate(&mut free, &shape(buckets)).unwrap();
        for bucket in 0..buckets {
            for tag in 0..SLOTS as u32 {
                assert!(trie.put(bucket, Head::first(tag), node(!0).encode()));
            }
        }
        trie.set_next(Some(trie.name()));
        trie.set_weight(9);
        let used = memory.lines.used_bytes();
        memory.free(&mut free, trie.name());
        let idle = free.idle_bytes();
        assert!(idle >= (buckets as usize + HEADER_LINES) * LINE_BYTES);
        let again = memory.allocate(&mut free, &shape(buckets)).unwrap();
        assert_eq!(memory.lines.used_bytes(), used);
        assert!(again.next().is_none() && again.weight() == 0 && !again.is_worn());
        for bucket in 0..buckets {
            assert!(again.bucket(bucket).nodes().next().is_none());
            assert!(again.bucket(bucket).is_in_order());
            assert_eq!(again.bucket(bucket).begin().number(), 0);
        }
        memory.free(&mut free, again.name());
    }
}

#[test]
fn tries_do_not_overlap() {
    let (memory, mut free) = (Memory::new(), FreeLines::default());
    let tries: Vec<_> = sizes()
        .chain([1, 1, 2, 1])
        .map(|buckets| memory.allocate(&mut free, &shape(buckets)).unwrap())
        .collect();
    for (i, trie) in tries.iter().enumerate() {
        for bucket in 0..trie.buckets() {
            assert!(trie.put(bucket, Head::first(i as u32), node(bucket.into()).encode()));
        }
    }
    for (i, trie) in tries.iter().enumerate() {
        for bucket in 0..trie.buckets() {
            let (slot, head) = trie.bucket(bucket).nodes().next().unwrap();
            assert_eq!(head.name(), Head::first(i as u32));
            assert_eq!(trie.node(Place { bucket, slot }), node(bucket.into()));
        }
    }
}

#[test]
fn a_trie_for_which_there_is_no_memory_leaves_nothing_behind() {
    let mut failed = 0;
    for n in 0.. {
        let (memory, mut free) = (Memory::new(), FreeLines::default());
        failing::after(n);
        let trie = memory.allocate(&mut free, &shape(MAX_BUCKETS));
        failing::never();
        if trie.is_ok() {
            break;
        }
        failed += 1;
        // What was taken waits to be used.
        assert_eq!(free.idle_bytes() > 0, memory.lines.used_bytes() > 0);
        let (idle, used) = (free.idle_bytes(), memory.lines.used_bytes());
        let trie = memory.allocate(&mut free, &shape(MAX_BUCKETS)).unwrap();
        assert_eq!(free.idle_bytes(), 0);
        let size = (MAX_BUCKETS as usize + HEADER_LINES + LIST_LINES) * LINE_BYTES;
        assert!(memory.lines.used_bytes() >= used + size - idle);
        assert_eq!(trie.buckets(), MAX_BUCKETS);
    }
    assert!(failed > 0);
}

#[test]
fn borders_place_a_key_as_comparisons_do() {
    let long = [7_u8; 80];
    let prefixes = [0, 1, 3, 7, 8, 9, 30, 56, 57, 80].map(|bytes| &long[..bytes]);
    let ends: [&[u8]; 7] = [b"", b"\0", b"a", b"abcdefgh", b"abcdefgh\0", b"abcdefghij", b"b\xff"];
    let memory = Memory::new();
    let mut free = FreeLines::default();
    let record = |key: &[u8]| {
        let unit = memory.records.grow(Record::<()>::units(key.len())).unwrap();
        memory.write_border(unit, key);
        unit
    };
    let all: Vec<Vec<u8>> = prefixes
        .iter()
        .flat_map(|prefix| ends.iter().map(|end| [*prefix, *end].concat()))
        .chain([vec![0], vec![6, 255], vec![8], vec![255; 90], [&long[..], &[0; 30]].concat()])
        .collect();
    for prefix in prefixes {
        for pair in ends.windows(2) {
            let [low, high] = [0, 1].map(|i| [prefix, pair[i]].concat());
            let shared = 8 * arch::common_prefix(&low, &high) as u32;
            for skip_bits in [0, 5, 8, 20, shared].into_iter().filter(|bits| *bits <= shared) {
                for bounded in [true, false] {
                    if !bounded && skip_bits > 0 {
                        continue;
                    }
                    let (low_unit, high_unit) = (record(&low), record(&high));
                    let shape = Shape {
                        skip_bits,
                        low: (low_unit, &low),
                        high: bounded.then_some((high_unit, &high[..])),
                        ..shape(1)
                    };
                    let trie = memory.allocate(&mut free, &shape).unwrap();
                    for key in &all {
                        let model = if *key < low {
                            Order::Less
                        } else if bounded && *key >= high {
                            Order::Greater
                        } else {
                            Order::Equal
                        };
                        let placed = trie.place_of(key, &memory);
                        assert_eq!(placed, model, "{key:?} in {low:?}..{high:?} {skip_bits}");
                    }
                    memory.free(&mut free, trie.name());
                }
            }
        }
    }
}

#[test]
fn a_bucket_that_was_changed_often_wears_its_trie_out() {
    let (memory, mut free) = (Memory::new(), FreeLines::default());
    let trie = memory.allocate(&mut free, &shape(1)).unwrap();
    assert!(trie.put(0, Head::first(1), node(0).encode()));
    let (slot, _) = trie.bucket(0).nodes().next().unwrap();
    let place = Place { bucket: 0, slot };
    for i in 0..6 {
        assert!(trie.exchange(place, node(i)));
    }
    assert!(!trie.is_worn());
    if cfg!(any(shuttle, small_leaves)) {
        trie.take(place);
        assert!(trie.is_worn());
    }
    assert!(trie.locate(Baseline, trie.home(Secret::new(&Seed::fixed(1)).root(0))).is_none());
}

#[test]
fn headers_of_a_large_map_lie_together() {
    let (memory, mut free) = (Memory::new(), FreeLines::default());
    let mut names = Vec::new();
    while names.len() < 100 {
        let trie = memory.allocate(&mut free, &shape(MAX_BUCKETS)).unwrap();
        if memory.is_large() {
            names.push(u64::from(trie.name().get()));
        }
    }
    names.sort_unstable();
    // The first few were taken alone, and a hundred are two groups.
    let apart = names.windows(2).filter(|pair| pair[1] - pair[0] > 4).count();
    assert!(apart <= 3, "{names:?}");
    assert!(names[50..90].iter().all(|name| name.is_multiple_of(2)));
}

// In small chunks so many blocks leave gaps, and make the memory large by these: headers come many at a time then.
#[cfg(not(feature = "global-alloc"))]
#[test]
fn a_pair_is_cut_in_two_where_a_block_alone_is_needed() {
    use crate::index::cuckoo_trie::layout::BLOCK_BYTES;

    let (memory, mut free) = (Memory::new(), FreeLines::default());
    let even = memory.allocate(&mut free, &shape(4 * BLOCK_BUCKETS)).unwrap();
    let kept = memory.allocate(&mut free, &shape(BLOCK_BUCKETS)).unwrap();
    memory.free(&mut free, even.name());
    let used = memory.lines.used_bytes();
    // One and one more of one pair, one of the other.
    let odd = memory.allocate(&mut free, &shape(BLOCK_BUCKETS)).unwrap();
    let three = memory.allocate(&mut free, &shape(3 * BLOCK_BUCKETS)).unwrap();
    let blocks = [kept, odd, three].map(|trie| {
        let starts = (0..trie.buckets()).step_by(BLOCK_BUCKETS as usize);
        starts.map(|bucket| core::ptr::from_ref(trie.bucket(bucket)).addr()).collect::<Vec<_>>()
    });
    let mut blocks = blocks.concat();
    blocks.sort_unstable();
    assert!(blocks.windows(2).all(|two| two[1] - two[0] >= BLOCK_BYTES), "{blocks:?}");
    assert_eq!(blocks.len(), 5);
    let more = (HEADER_LINES + LIST_LINES) * LINE_BYTES;
    assert_eq!(memory.lines.used_bytes(), used + more);
    assert_eq!(free.idle_bytes(), 0);
    memory.free(&mut free, odd.name());
    memory.free(&mut free, kept.name());
    assert_eq!(free.idle_bytes(), 2 * (BLOCK_BYTES + more));
}
