//! Nodes, labels, children and sizes of tables, each against a plain model.

use super::*;
use crate::index::cuckoo_trie::build::{LEVELS, Levels};
use crate::index::cuckoo_trie::label::Symbol;
use std::collections::BTreeSet;

#[test]
fn slices_read_big_endian_and_pad_with_zeros() {
    let key: Vec<u8> = (1..=12).collect();
    for from in 0..=30 {
        for len in 0..=key.len() {
            let mut padded = [0; 8];
            let rest = key[..len].get(from..).unwrap_or(&[]);
            let count = rest.len().min(8);
            padded[..count].copy_from_slice(&rest[..count]);
            assert_eq!(slice_at(&key[..len], from), u64::from_be_bytes(padded), "{from} {len}");
        }
    }
}

#[test]
fn children_are_a_set_in_order_with_the_end_first() {
    let symbols = |seed: u64| (0..65).filter(move |i| seed >> (i % 61) & 1 != 0).map(Symbol);
    for seed in testkit::seeds().chain([0, 1, !0]) {
        let children = symbols(seed).fold(Children::default(), Children::with);
        let model: BTreeSet<u32> = symbols(seed).map(Symbol::rank).collect();
        let ranks = |children: Children| children.into_iter().map(Symbol::rank);
        assert!(ranks(children).eq(model.iter().copied()));
        assert!(ranks(children).rev().eq(model.iter().rev().copied()));
        assert_eq!(children.len() as usize, model.len());
        assert_eq!(children.only().is_some(), model.len() == 1);
        for symbol in (0..=64).map(Symbol) {
            let rank = symbol.rank();
            assert_eq!(children.has(symbol), model.contains(&rank));
            let next = model.range(rank + 1..).next().copied();
            assert_eq!(children.after(symbol).map(Symbol::rank), next);
            let last = model.range(..rank).next_back().copied();
            assert_eq!(children.before(symbol).map(Symbol::rank), last);
            assert!(
                ranks(children.without(symbol))
                    .eq(model.iter().copied().filter(|other| *other != rank))
            );
        }
    }
}

#[test]
fn labels_are_cut_and_joined_like_lists() {
    let all: Vec<Symbol> = [63, 0, 1, 62, 0, 33, 7, 0, 63, 63].map(Symbol).to_vec();
    for len in 1..=LABEL_SYMBOLS {
        let label = Label::of(&all[..len]);
        assert_eq!(label.len(), len);
        assert!(label.symbols().eq(all[..len].iter().copied()));
        assert_eq!(Label::new(label.window() | 0xf, len), label);
        for cut in 0..=len {
            let parts = (label.start(cut), label.rest(cut));
            assert_eq!(parts.0, (cut > 0).then(|| Label::of(&all[..cut])));
            assert_eq!(parts.1, (cut < len).then(|| Label::of(&all[cut..len])));
            if let (Some(start), Some(rest)) = parts {
                assert_eq!(start.joined(rest), Some(label));
                assert_eq!(start.matched(label.window(), len), cut);
                assert_eq!(label.matched(start.window(), cut), cut);
            }
        }
        if len > 1 {
            assert_eq!(label.joined(Label::of(&all[..LABEL_SYMBOLS + 1 - len])), None);
        }
        let other = label.window() ^ 1 << (64 - SYMBOL_BITS * len as u32);
        assert_eq!(label.matched(other, len), len - 1);
    }
}

#[test]
fn nodes_and_heads_keep_what_they_were_made_of() {
    let leaf = |unit, hash| Leaf::Record { unit, hash };
    let record = |unit, hash| Node::Leaf(leaf(unit, hash));
    let nodes = [
        record((1 << 40) - 1, 0),
        record(0, (1 << HASH_BITS) - 1),
        Node::Leaf(Leaf::Short { key: 0, value: u64::MAX }),
        Node::Leaf(Leaf::Short { key: u64::MAX, value: 0 }),
        Pair::of(leaf((1 << 40) - 1, 0), leaf(0, 1)).map(Node::Pair).unwrap(),
        Pair::of(leaf(1, (1 << HASH_BITS) - 1), leaf(0, 0)).map(Node::Pair).unwrap(),
        Node::Jump(Label::of(&[Symbol(5), Symbol(0)])),
        Branch::behind(Some(Label::of(&[Symbol(5)])), Children::pair(Symbol(0), Symbol(63)))
            .unwrap(),
        Node::Regular(Children { bits: 1 << 63, end: true }),
        Node::Regular(Children { bits: 3, end: false }),
    ];
    for node in nodes {
        let Form { kind, body, second: behind } = node.encode();
        for tag in [0, 1, (1 << TAG_BITS) - 1] {
            let first = Head::new(Head::first(tag), kind);
            let second = Head::new(Head::second(tag), kind);
            assert_eq!((first.moved(), second.moved()), (second, first));
            for head in [first, second] {
                assert!(!head.is_free() && head.tag() == tag && head.kind() == kind);
                assert_eq!(head.is_wide(), behind.is_some());
                assert_eq!(head.is_short(), matches!(node, Node::Leaf(Leaf::Short { .. })));
                for symbol in 0..64 {
                    // Of a leaf with a record no more is said than of a label: it may be the key's.
                    let ends = match node {
                        Node::Regular(children) => !children.has(Symbol(symbol)),
                        Node::Leaf(Leaf::Record { .. }) | Node::Jump(_) | Node::Branch(_) => false,
                        Node::Leaf(Leaf::Short { .. }) | Node::Pair(_) => true,
                    };
                    assert_eq!(Node::ends(head, body, symbol.into()), ends, "{node:?}");
                }
                let behind = || behind.expect("asked for where there is one");
                assert_eq!(Node::decode(head.kind(), body, behind), node);
                // A free slot is never taken for a node.
                assert_ne!(Head::FREE.name(), head.name());
            }
            assert!(!first.is_second() && second.is_second());
        }
    }
}

#[test]
fn a_branch_is_a_label_and_the_children_behind_it() {
    let mut rng = testkit::Rng::new(3);
    for len in 1..=LABEL_SYMBOLS {
        for count in 1..=10 {
            let label = Label::new(rng.next_u64(), len);
            let mut children = Children::default();
            while children.len() < count {
                children = children.with(Symbol(rng.next_u64() as u8 % 64));
            }
            let branch = Branch::new(label, children);
            assert_eq!(branch.is_some(), len <= 7 && count <= 8 && len + count as usize <= 9);
            let with_end = children.with(Symbol::END);
            assert_eq!(Branch::new(label, with_end), None);
            assert_eq!(Branch::behind(None, with_end), Some(Node::Regular(with_end)));
            let Some(branch) = branch else { continue };
            assert_eq!((branch.len(), branch.label(), branch.children()), (len, label, children));
            for symbol in (0..=64).map(Symbol) {
                assert_eq!(branch.has(symbol), children.has(symbol), "{branch:x?} {symbol:?}");
            }
            for from in 0..=len {
                let behind = label.rest(from);
                assert_eq!(Some(branch.rest(from)), Branch::behind(behind, children));
            }
            let fewer = children.without(children.last().unwrap());
            if count > 1 {
                assert_eq!(branch.with(fewer).children(), fewer);
            }
        }
    }
}

#[test]
fn rows_of_symbols_are_cut_into_few_labels() {
    for count in 2..12 {
        for row in 0..50_usize {
            let taken = Branch::symbols_before(row, count);
            let nodes = |taken: usize| (row - taken).div_ceil(LABEL_SYMBOLS) + 1;
            let room = if count > 8 { 0 } else { 7.min(9 - count) };
            assert!(taken <= room);
            assert_eq!((0..=room.min(row)).map(nodes).min(), Some(nodes(taken)), "{row} {count}");
        }
    }
}

#[test]
fn a_pair_is_of_two_records_of_different_hashes_and_knows_them_by_these() {
    let leaf = |unit, hash| Leaf::Record { unit, hash };
    let (a, b) = (leaf(7, 3), leaf(5, 4));
    let short = Leaf::Short { key: 7, value: 5 };
    for (first, second) in [(a, short), (short, b), (short, short), (a, leaf(9, 3))] {
        assert_eq!(Pair::of(first, second), None);
    }
    let pair = Pair::of(a, b).unwrap();
    assert_eq!(pair.leaves(), [a, b]);
    assert_eq!([3, 4, 5].map(|hash| pair.leaf(hash)), [Some(a), Some(b), None]);
    assert_eq!((pair.without(a), pair.without(b)), (b, a));
    assert_eq!(pair.replaced(leaf(6, 4)).leaves(), [a, leaf(6, 4)]);
    assert_eq!(pair.replaced(leaf(6, 3)).leaves(), [leaf(6, 3), b]);
    assert_eq!((Pair::with(a, b, true), Pair::with(b, a, false)), (Some(pair), Some(pair)));
}

#[test]
fn tables_have_room_for_what_they_are_made_for() {
    for hinting in [Hinting::None, Hinting::Half(1), Hinting::Byte] {
        let mut last = 1;
        for weight in 0..=FULL_WEIGHT {
            let lines = lines_for(weight, hinting);
            assert!(is_size(lines) && lines >= last, "{weight}");
            let buckets = if lines < HINTED_LINES { lines } else { lines - hinting.lines() };
            assert!(weight * 20 <= buckets as usize * BUCKET_WEIGHT * 17, "{weight}");
            last = lines;
        }
        assert_eq!(lines_for(usize::MAX, hinting), MAX_BUCKETS);
    }
    let mut lines = 1;
    while let Some(next) = larger(lines) {
        assert!(is_size(next) && next > lines);
        lines = next;
    }
    assert_eq!(lines, MAX_BUCKETS);
    assert_eq!(blocks_of(lines), MAX_BLOCKS);
}

#[test]
fn hints_are_as_wide_as_the_levels_behind_the_entry_need() {
    if cfg!(small_leaves) {
        return;
    }
    let of = |first: u32, count: u32, entry: u32| {
        let mut keys = [0; LEVELS];
        keys[entry as usize..].iter_mut().take(14).for_each(|keys| *keys = 1);
        Hinting::of(((1 << count) - 1) << first, entry, &keys)
    };
    assert_eq!(of(0, 6, 0), Hinting::None);
    assert_eq!(of(0, 7, 0), Hinting::Half(0));
    assert_eq!(of(0, 9, 3), Hinting::None);
    assert_eq!(of(0, 10, 3), Hinting::Half(3));
    assert_eq!(of(4, 14, 3), Hinting::Half(3));
    assert_eq!(of(4, 15, 3), Hinting::Byte);
    // The fourteen levels behind the most regular nodes, if nearly all are there.
    let mut keys = [0; LEVELS];
    keys[4] = 1;
    keys[20..30].fill(9);
    assert_eq!(Hinting::of(0x3f << 21, 3, &keys), Hinting::Half(16));
    keys[4] = 8;
    assert_eq!(Hinting::of(0x3f << 21, 3, &keys), Hinting::Byte);
    // Leaves without records need none.
    let levels = Levels::of(&[2; LEVELS], &[2; LEVELS], 2, 1);
    assert_eq!(
        (levels.hinting, Levels::of(&[2; LEVELS], &[2; LEVELS], 2, 2).hinting),
        (Hinting::None, Hinting::Byte)
    );
}

#[test]
fn a_count_of_too_many_symbols_does_no_harm() {
    // What a walk may see that has yet to find that a writer was there.
    for count in 0..=Label::COUNT_MASK {
        let label = Label(0x0123_4567_89ab_cde0 | count);
        assert_eq!(label.symbols().count(), label.len());
        assert_eq!(label.symbols().rev().count(), label.len());
    }
}
