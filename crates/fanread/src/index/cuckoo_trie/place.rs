//! Finding places for nodes in the cuckoo table of a trie, under the trie's lock.
//!
//! A node goes into the first of its two buckets that has room. If neither has, nodes have to move to their
//! other buckets: a breadth-first search finds the shortest row of moves that ends in a bucket with room. It is carried out
//! from that end. Each node is copied before it is taken away, so a reader always finds it in one of its buckets (T2).
//!
//! ```text
//! first bucket --3--> bucket --0--> bucket with room               slot numbers: the nodes that move
//! ```
//!
//! Whether a node has room depends on how many wide nodes there are (`bucket.rs`).
//!
//! A call that fails leaves the nodes as they were, but maybe in other places.
//!
//! PAPER: section 5.1 looks for a place from the primary bucket only; beginning at both doubles the ways out. All its
//! entries have one slot.

use super::bucket::Bucket;
use super::layout::{Form, Head, Home, NoRoom, Node, Place, WIDE_WEIGHT};
use super::raw::Trie;
use super::state::State;
use crate::arch::Baseline;

/// How many buckets a search looks at before it gives up: with 128, five slots, and two choices, tables are filled to
/// 96 % and more. Fewer lower that; more make all searches slower, and most those that fail in the end, before a table
/// grows.
const SEARCH_BUCKETS: usize = 128;

/// Bits that tell which buckets have been reached, by the end of their numbers: another bucket of the same end is passed
/// over.
const REACHED_BITS: usize = 1024;

/// A bucket that the search has reached, and how.
#[derive(Clone, Copy)]
struct Step {
    bucket: u16,
    /// The step that it was reached from, itself for those that the search starts with.
    from: u16,
    /// The slot of that step's bucket whose node would move here.
    slot: u8,
    /// Whether that node is a wide node.
    is_wide: bool,
}

/// Puts a node that is not in the trie into a bucket of its state. The caller holds the lock, or has not published the
/// trie.
///
/// Other nodes may move: places that were found before no longer hold, states do.
///
/// # Errors
///
/// [`NoRoom::Collision`] if there is another node of this state (T3), [`NoRoom::Full`] if no place was found.
pub(super) fn place(trie: Trie<'_>, state: State, node: Node) -> Result<(), NoRoom> {
    place_at(trie, trie.home(state), node.encode())?;
    trie.set_weight(trie.weight() + node.weight() as usize);
    Ok(())
}

/// The same, without counting what the node weighs.
///
/// # Errors
///
/// As [`place`].
#[inline]
pub(super) fn place_at(trie: Trie<'_>, home: Home, form: Form) -> Result<(), NoRoom> {
    if trie.locate(Baseline, home).is_some() {
        return Err(NoRoom::Collision);
    }
    place_other(trie, home, form)
}

/// The same for a node whose state is another than those of all others.
///
/// # Errors
///
/// [`NoRoom::Full`] if no place was found.
#[inline]
pub(super) fn place_other(trie: Trie<'_>, home: Home, form: Form) -> Result<(), NoRoom> {
    let (first, second) = (Head::first(home.tag), Head::second(home.tag));
    // With one bucket, both are the same.
    let is_wide = form.second.is_some();
    let placed = trie.put(home.first, first, form)
        || home.first != home.second
            && (trie.put(home.second, second, form)
                || make_room(trie, &[home.first, home.second], is_wide, None).is_some_and(
                    |bucket| {
                        trie.put(bucket, if bucket == home.first { first } else { second }, form)
                    },
                ));
    if placed { Ok(()) } else { Err(NoRoom::Full) }
}

/// Changes what a node says; the state stays. The caller holds the lock. Others may move, as by [`place`].
///
/// # Errors
///
/// [`NoRoom::Full`] if it needs more room, and none can be had. No node has changed then.
pub(super) fn rewrite(trie: Trie<'_>, at: Place, node: Node) -> Result<(), NoRoom> {
    let weight = trie.weight() - trie.node(at).weight() as usize + node.weight() as usize;
    if !trie.exchange(at, node) {
        // As if the node were another that has to come in.
        let head = trie.head(at);
        make_room(trie, &[at.bucket], node.weight() == WIDE_WEIGHT, Some(head))
            .ok_or(NoRoom::Full)?;
        let slot = trie.bucket(at.bucket).nodes().find(|(_, other)| *other == head);
        let at = Place { slot: slot.map_or(at.slot, |(slot, _)| slot), ..at };
        let exchanged = trie.exchange(at, node);
        debug_assert!(exchanged, "there is room");
    }
    trie.set_weight(weight);
    Ok(())
}

/// Takes a node away. The caller holds the lock.
pub(super) fn clear(trie: Trie<'_>, at: Place) {
    let weight = trie.node(at).weight() as usize;
    trie.take(at);
    trie.set_weight(trie.weight() - weight);
}

/// Moves nodes until one of the buckets has room for a node more, and returns that one. Or, if `keep` is a node of the
/// first, until it has room for one in the place of that.
#[cold]
#[inline(never)]
fn make_room(trie: Trie<'_>, buckets: &[u32], is_wide: bool, keep: Option<Head>) -> Option<u32> {
    let made =
        move_near(trie, buckets, is_wide, keep).or_else(|| move_one(trie, buckets, is_wide, keep));
    if made.is_some() || !is_wide {
        return made;
    }
    // Five nodes that are not wide: two have to go.
    buckets.iter().find_map(|bucket| {
        move_one(trie, &[*bucket], false, keep)?;
        move_one(trie, &[*bucket], true, keep)
    })
}

/// The same by one move, which is enough most times. Asks for all ways out before it looks at the first.
#[inline(always)]
fn move_near(trie: Trie<'_>, buckets: &[u32], is_wide: bool, keep: Option<Head>) -> Option<u32> {
    for number in buckets {
        for (_, head) in trie.bucket(*number).nodes() {
            trie.prefetch_bucket(trie.other(*number, head));
        }
    }
    for (at, number) in buckets.iter().enumerate() {
        let bucket = trie.bucket(*number);
        for (slot, head) in movable(bucket, is_wide, keep.filter(|_| at == 0)) {
            let other = trie.other(*number, head);
            if other != *number && trie.put(other, head.moved().name(), bucket.form(slot)) {
                trie.take(Place { bucket: *number, slot });
                return Some(*number);
            }
        }
    }
    None
}

/// The nodes of a bucket of which each would make room for one of such a kind, if it moved. The one that is kept is to be replaced by
/// the new one, and does not move.
#[inline(always)]
fn movable(
    bucket: &Bucket,
    is_wide: bool,
    kept: Option<Head>,
) -> impl Iterator<Item = (u32, Head)> {
    let mut wanted = bucket.crowd().with(is_wide);
    if let Some(head) = kept {
        wanted = wanted.without(head.is_wide());
    }
    let moves = move |head: Head| kept != Some(head) && wanted.without(head.is_wide()).fits();
    bucket.nodes().filter(move |(_, head)| moves(*head))
}

/// The same by one row of moves.
fn move_one(trie: Trie<'_>, buckets: &[u32], is_wide: bool, keep: Option<Head>) -> Option<u32> {
    let mut steps = [Step { bucket: 0, from: 0, slot: 0, is_wide }; SEARCH_BUCKETS];
    let mut reached = [0_u64; REACHED_BITS / 64];
    let mut is_new = |bucket: u32| {
        let (word, bit) = (bucket as usize % REACHED_BITS / 64, 1 << (bucket % 64));
        reached[word] & bit == 0 && {
            reached[word] |= bit;
            true
        }
    };
    let mut count = 0;
    for bucket in buckets {
        steps[count] = Step { bucket: *bucket as u16, from: count as u16, slot: 0, is_wide };
        count += usize::from(is_new(*bucket));
    }
    let mut at = 0;
    while at < count {
        let Step { bucket: number, is_wide, .. } = steps[at];
        let bucket = trie.bucket(number.into());
        for (slot, head) in movable(bucket, is_wide, keep.filter(|_| at == 0)) {
            let other = trie.other(number.into(), head);
            if is_new(other) && count < SEARCH_BUCKETS {
                let (from, slot, is_wide) = (at as u16, slot as u8, head.is_wide());
                steps[count] = Step { bucket: other as u16, from, slot, is_wide };
                if trie.bucket(other).crowd().with(is_wide).fits() {
                    return Some(carry_out(trie, &steps, count));
                }
                count += 1;
            }
        }
        at += 1;
    }
    None
}

/// Carries out the moves that lead to step `at`, from the last to the first. Returns the bucket where they began.
fn carry_out(trie: Trie<'_>, steps: &[Step; SEARCH_BUCKETS], mut at: usize) -> u32 {
    loop {
        let step = steps[at];
        let from = usize::from(step.from);
        if from == at {
            return step.bucket.into();
        }
        let source = Place { bucket: steps[from].bucket.into(), slot: step.slot.into() };
        let head = trie.head(source);
        debug_assert!(trie.other(source.bucket, head) == u32::from(step.bucket), "T2");
        let placed = {
            let form = trie.bucket(source.bucket).form(source.slot);
            trie.put(step.bucket.into(), head.moved().name(), form)
        };
        debug_assert!(placed, "there is room");
        trie.take(source);
        at = from;
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::hash::prefix::Seed;
    use crate::index::cuckoo_trie::free::FreeLines;
    use crate::index::cuckoo_trie::label::Symbol;
    use crate::index::cuckoo_trie::layout::{Hinting, Leaf, MAX_BUCKETS, is_size, larger};
    use crate::index::cuckoo_trie::raw::{Memory, Shape};
    use crate::index::cuckoo_trie::state::Secret;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    use testkit::Rng;

    fn secret() -> Secret {
        Secret::new(&Seed::fixed(5))
    }

    fn trie<'m>(memory: &'m Memory, free: &mut FreeLines, buckets: u32) -> Trie<'m> {
        let low = (0, &b""[..]);
        let shape = Shape {
            buckets,
            skip_bits: 0,
            round: 0,
            levels: 1,
            entry: 0,
            leaf_level: 0,
            hinting: Hinting::None,
            low,
            high: None,
        };
        memory.allocate(free, &shape).unwrap()
    }

    /// All nodes.
    fn contents(trie: Trie<'_>) -> BTreeMap<u64, Node> {
        let mut contents = BTreeMap::new();
        for bucket in 0..trie.buckets() {
            assert!(trie.bucket(bucket).is_in_order());
            for (slot, head) in trie.bucket(bucket).nodes() {
                contents.insert(trie.state(bucket, head).0, trie.node(Place { bucket, slot }));
            }
        }
        contents
    }

    /// Nodes of one table: all with records, all short, or some of both.
    #[derive(Clone, Copy, Debug)]
    enum Mix {
        Records,
        Shorts,
        Both,
        FewShorts,
    }

    const MIXES: [Mix; 4] = [Mix::Records, Mix::Shorts, Mix::Both, Mix::FewShorts];

    impl Mix {
        /// The `i`-th node, which says `what`.
        fn leaf(self, i: usize, what: u64) -> Node {
            Node::Leaf(match self {
                Self::Records => Leaf::Record { unit: what, hash: 3 },
                Self::Shorts => Leaf::Short { key: i as u64, value: what },
                Self::Both if i.is_multiple_of(2) => return Self::Records.leaf(i, what),
                Self::FewShorts if !i.is_multiple_of(6) => return Self::Records.leaf(i, what),
                Self::Both | Self::FewShorts => return Self::Shorts.leaf(i, what),
            })
        }

        /// How many nodes a bucket has that has as many as can be, of 12.
        fn most(self) -> usize {
            match self {
                Self::Records => 60,
                Self::Shorts => 36,
                // Two thirds of the buckets with two short ones and another, one third with one and three others.
                Self::Both => 40,
                // With every sixth node short, a bucket with four others is five of seven.
                Self::FewShorts => 51,
            }
        }
    }

    fn found(trie: Trie<'_>, state: State) -> Option<Node> {
        let home = trie.home(state);
        let hit = trie.find(Baseline, home);
        let at = trie.locate(Baseline, home);
        assert_eq!(hit.is_some(), at.is_some());
        hit.map(|hit| {
            assert_eq!(trie.node(at.unwrap()), hit.node);
            hit.node
        })
    }

    /// States of different names.
    fn states(seed: u64) -> impl Iterator<Item = State> {
        let (secret, mut rng) = (secret(), Rng::new(seed));
        let mut state = secret.root(1);
        core::iter::from_fn(move || {
            state = secret.step(state, Symbol(rng.below(65) as u8));
            Some(state)
        })
    }

    #[test]
    fn tables_of_every_size_are_filled_to_the_brim() {
        let (memory, mut free) = (Memory::new(), FreeLines::default());
        for mix in MIXES {
            let mut size = Some(1);
            while let Some(buckets) = size {
                let trie = trie(&memory, &mut free, buckets);
                let leaf = |i: usize| mix.leaf(i, i as u64);
                let mut model: Vec<State> = Vec::new();
                let mut full = None;
                for state in states(buckets.into()) {
                    match place(trie, state, leaf(model.len())) {
                        Ok(()) => model.push(state),
                        Err(NoRoom::Collision) => assert!(found(trie, state).is_some()),
                        Err(NoRoom::Full) => {
                            full = Some(state);
                            break;
                        }
                    }
                }
                let weight: u32 = (0..model.len()).map(|i| leaf(i).weight()).sum();
                assert_eq!(trie.weight(), weight as usize);
                let (nodes, most) = (model.len(), buckets as usize * mix.most() / 12);
                assert!(nodes * 100 + 500 >= most * 90, "{mix:?}: {nodes} of {most}");
                for (i, state) in model.iter().enumerate() {
                    assert_eq!(found(trie, *state), Some(leaf(i)), "{buckets}");
                }
                // Another attempt fails as well, but where nodes have moved for a short leaf; and changes nothing.
                let before = contents(trie);
                let again = place(trie, full.unwrap(), leaf(nodes));
                assert_eq!(place(trie, model[0], leaf(0)), Err(NoRoom::Collision));
                match (again, mix) {
                    (Err(error), _) => assert_eq!(error, NoRoom::Full),
                    (Ok(()), Mix::Records) => panic!("there is room"),
                    (Ok(()), _) => {
                        clear(trie, trie.locate(Baseline, trie.home(full.unwrap())).unwrap());
                    }
                }
                assert_eq!(contents(trie), before);
                memory.free(&mut free, trie.name());
                size = match larger(buckets) {
                    // Of the many sizes of whole blocks some, and the largest.
                    Some(next) if next > 2_000 => (buckets < MAX_BUCKETS).then_some(MAX_BUCKETS),
                    next => next,
                };
            }
        }
    }

    #[test]
    fn nodes_that_come_and_go_are_found_exactly_while_they_are_there() {
        let (memory, mut free) = (Memory::new(), FreeLines::default());
        for (seed, mix) in testkit::seeds().flat_map(|seed| MIXES.map(|mix| (seed, mix))) {
            for buckets in [1, 2, 4, 16] {
                if !is_size(buckets) {
                    continue;
                }
                let trie = trie(&memory, &mut free, buckets);
                let mut rng = Rng::new(seed);
                let all: Vec<State> = states(seed).take(buckets as usize * 6).collect();
                let mut model = BTreeMap::new();
                for step in 0..3_000_usize {
                    let chosen = rng.below(all.len());
                    let home = trie.home(all[chosen]);
                    let before = contents(trie);
                    // A node may become another one, which may need more room than it has.
                    let node = mix.leaf(if rng.one_in(2) { chosen } else { step }, step as u64);
                    let refused = match (model.contains_key(&chosen), rng.below(3)) {
                        (true, 0) => rewrite(trie, trie.locate(Baseline, home).unwrap(), node),
                        (true, _) => {
                            clear(trie, trie.locate(Baseline, home).unwrap());
                            model.remove(&chosen);
                            continue;
                        }
                        (false, _) => place(trie, all[chosen], node),
                    };
                    match refused {
                        Ok(()) => drop(model.insert(chosen, node)),
                        Err(error) => {
                            assert_eq!(error, NoRoom::Full);
                            assert_eq!(contents(trie), before);
                        }
                    }
                    let weight: u32 = model.values().map(|node| node.weight()).sum();
                    assert_eq!(trie.weight(), weight as usize);
                    if step % 16 == 0 {
                        for (i, state) in all.iter().enumerate() {
                            let node = model.get(&i).copied();
                            assert_eq!(found(trie, *state), node, "seed {seed:#x}, step {step}");
                        }
                    }
                }
                memory.free(&mut free, trie.name());
            }
        }
    }

    #[test]
    fn nodes_are_found_while_others_make_them_move() {
        // Fills and empties most of a table; some nodes stay all the time, and a reader never misses one.
        let (memory, mut free) = (Memory::new(), FreeLines::default());
        let trie = trie(&memory, &mut free, 8.min(MAX_BUCKETS));
        let name = trie.name();
        let leaf = |i: usize| Mix::Both.leaf(i, i as u64);
        let all: Vec<State> = states(10).take(40).collect();
        for (i, state) in all[..10].iter().enumerate() {
            place(trie, *state, leaf(i)).unwrap();
        }
        let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let trie = memory.trie(name);
                while !stop.load(Relaxed) {
                    for (i, state) in all[..10].iter().enumerate() {
                        let hit = trie.find(Baseline, trie.home(*state)).expect("it stays");
                        assert_eq!(hit.node, leaf(i));
                    }
                    reads.fetch_add(1, Relaxed);
                }
            });
            let mut moves = 0;
            let homes = |trie: Trie<'_>| -> Vec<_> {
                let locate = |state: &State| trie.locate(Baseline, trie.home(*state));
                all[..10].iter().map(locate).collect()
            };
            let mut rounds = 0;
            while rounds < if cfg!(miri) { 5 } else { 2_000 } || reads.load(Relaxed) < 2 {
                rounds += 1;
                let before = homes(trie);
                let mut placed = Vec::new();
                for state in &all[10..] {
                    if place(trie, *state, leaf(placed.len())).is_ok() {
                        placed.push(*state);
                    }
                }
                moves += homes(trie).iter().zip(&before).filter(|(a, b)| a != b).count();
                for state in placed {
                    clear(trie, trie.locate(Baseline, trie.home(state)).unwrap());
                }
            }
            stop.store(true, Relaxed);
            assert!(moves > 0);
        });
    }
}
