use super::*;
use crate::arch::Baseline;
use crate::index::cuckoo_trie::build::tests::{ALL, Bench, key_sets};

/// Splits the trie of `keys` as it is split when it is full, and its halves again.
fn split(bench: &mut Bench, keys: &[&Vec<u8>], plan: Plan<'_>, depth: usize) {
    let run = bench.run(keys.iter().copied());
    let Bench { memory, secret, free, .. } = &mut *bench;
    let count = keys.len();
    let Ok(trie) = run.build::<u64>(memory, secret, free, &plan, 0..count) else { return };
    let secret = secret.clone();
    let nodes = Nodes::of(Baseline, &secret, trie).unwrap();
    assert_eq!((nodes.leaves(), nodes.last()), (count, run.entries().last().copied()));
    assert_eq!(nodes.cut(0..1), None);
    let name = trie.name();
    for window in [middle(count), 0..2, count.saturating_sub(1)..count, count..count + 1] {
        let Some(cut) = nodes.cut(window.start.max(1)..window.end) else {
            let mut places = window.start.max(1)..window.end.min(count);
            assert!(places.all(|at| run.parts_a_pair(at)), "{window:?} of {count}");
            continue;
        };
        let told = run.cut(window);
        assert!(cut.before == told || run.parts_a_pair(told), "the place that the keys tell");
        let behind = bench.memory.key::<u64>(nodes.first_behind(&cut).unwrap());
        assert_eq!(*behind, **keys[cut.before]);
        let border = behind.start(cut.bytes).to_vec();
        assert_eq!(border, run.border::<u64>(&bench.memory, cut.before).to_vec());
        let unit = bench.border(&border);
        let plans =
            [Plan { high: Some((unit, &border)), ..plan }, Plan { low: (unit, &border), ..plan }];
        let halves = nodes.halves(&cut, plans.map(|plan| plan.skip_bits()));
        for (half, (plan, part)) in
            halves.iter().zip(plans.into_iter().zip([0..cut.before, cut.before..count]))
        {
            let weight = run.count_weight(part.clone(), plan.skip_bits());
            assert_eq!(half.leaves, part.len(), "{part:?} of {count}");
            // Two that the border has left alone together are no pair yet.
            assert!(half.weight >= weight, "{part:?} of {count}");
            let is_same = half.weight == weight;
            // As when all names are new.
            let Bench { memory, free, .. } = &mut *bench;
            let other = half.build(memory, free, &Plan { round: 2, ..plan }).unwrap().name();
            bench.verify(bench.memory.trie(other), &run.entries()[part.clone()]);
            bench.memory.free(&mut bench.free, other);
            let Bench { memory, free, .. } = &mut *bench;
            let built = half.build(memory, free, &plan).unwrap();
            let (new, levels) = (built.name(), built.levels());
            let (entry, leaf_level) = (built.entry(), built.leaf_level());
            bench.verify(bench.memory.trie(new), &run.entries()[part.clone()]);
            // The keys tell the same levels.
            let Bench { memory, secret, free, .. } = &mut *bench;
            let built = run.build::<u64>(memory, secret, free, &plan, part.clone()).unwrap();
            if is_same {
                assert_eq!(built.levels(), levels);
            }
            if is_same && built.buckets() == memory.trie(new).buckets() {
                assert_eq!((built.entry(), built.leaf_level()), (entry, leaf_level));
            }
            let built = built.name();
            bench.memory.free(&mut bench.free, built);
            bench.memory.free(&mut bench.free, new);
            if depth > 0 {
                split(bench, &keys[part], plan, depth - 1);
            }
        }
    }
    bench.memory.free(&mut bench.free, name);
}

#[test]
fn halves_are_what_their_keys_would_be_built_into() {
    for seed in testkit::seeds().take(2) {
        for keys in key_sets(seed) {
            let mut bench = Bench::new(seed);
            let keys: Vec<_> = keys.iter().collect();
            split(&mut bench, &keys, ALL, if keys.len() > 1000 { 1 } else { 2 });
        }
    }
}
