//! Finding places for nodes in the cuckoo table of a trie, under the trie's lock.
//!
//! A node goes into the first of its two buckets that has a free slot. If neither has one, nodes have to move to their
//! other buckets: a breadth-first search finds the shortest row of moves that ends in a free slot. It is carried out from
//! that end. Each node is copied before its slot is overwritten by the one that moves there, so a reader always finds it
//! in one of its buckets (T2).
//!
//! ```text
//! first bucket --3--> bucket --0--> bucket with a free slot        slot numbers: the nodes that move
//! ```
//!
//! A call that fails leaves the table as it was.
//!
//! PAPER: section 5.1 looks for a place from the primary bucket only; beginning at both doubles the ways out.

use super::layout::{Head, Home, MAX_BUCKETS, NoRoom, Node, Place};
use super::raw::Trie;
use super::state::State;
use crate::arch::Baseline;

/// How many buckets a search looks at before it gives up: with 400, five slots, and two choices, tables were filled to
/// 98 % and more. Fewer lower that; more make the insertions slow that fail in the end, before a table grows.
const SEARCH_BUCKETS: usize = 400;

/// A bucket that the search has reached, and how.
#[derive(Clone, Copy)]
struct Step {
    bucket: u16,
    /// The step that it was reached from, itself for the two that the search starts with.
    from: u16,
    /// The slot of that step's bucket whose node would move here.
    slot: u8,
}

/// Puts a node that is not in the trie into a bucket of its state. The caller holds the lock, or has not published the
/// trie.
///
/// Other nodes may move: places that were found before no longer hold, states do.
///
/// # Errors
///
/// [`NoRoom::Collision`] if there is another node of this state (T3), [`NoRoom::Full`] if no place was found.
pub(super) fn place(trie: Trie<'_>, state: State, node: Node) -> Result<Place, NoRoom> {
    let home = trie.home(state);
    if trie.locate(Baseline, home).is_some() {
        return Err(NoRoom::Collision);
    }
    let (at, name) = seat(trie, home).ok_or(NoRoom::Full)?;
    let (kind, body) = node.encode();
    trie.store(at, Head::new(name, kind), body);
    trie.set_nodes(trie.nodes() + 1);
    Ok(at)
}

/// Changes what stands in a slot; the state stays. The caller holds the lock.
#[inline]
pub(super) fn rewrite(trie: Trie<'_>, at: Place, node: Node) {
    let (kind, body) = node.encode();
    debug_assert!(!trie.head(at).is_free());
    trie.store(at, Head::new(trie.head(at).name(), kind), body);
}

/// Takes a node away. The caller holds the lock.
pub(super) fn clear(trie: Trie<'_>, at: Place) {
    debug_assert!(!trie.head(at).is_free());
    trie.store(at, Head::FREE, 0);
    trie.set_nodes(trie.nodes() - 1);
}

/// A slot for a node of this home that is free or may be overwritten, and the name it has there.
fn seat(trie: Trie<'_>, home: Home) -> Option<(Place, u32)> {
    let (first, second) = (Head::first(home.tag), Head::second(home.tag));
    if let Some(at) = free_in(trie, home.first) {
        return Some((at, first));
    }
    // With one bucket, both are the same.
    if home.first == home.second {
        return None;
    }
    if let Some(at) = free_in(trie, home.second) {
        return Some((at, second));
    }
    let at = make_room(trie, home)?;
    Some((at, if at.bucket == home.first { first } else { second }))
}

fn free_in(trie: Trie<'_>, bucket: u32) -> Option<Place> {
    trie.bucket(bucket).free_slot().map(|slot| Place { bucket, slot })
}

/// Moves nodes until a slot of one of the two buckets may be overwritten.
#[cold]
#[inline(never)]
fn make_room(trie: Trie<'_>, home: Home) -> Option<Place> {
    let mut steps = [Step { bucket: 0, from: 0, slot: 0 }; SEARCH_BUCKETS];
    let mut reached = [0_u64; (MAX_BUCKETS as usize).div_ceil(64)];
    let mut count = 0;
    let mut reach = |steps: &mut [Step; SEARCH_BUCKETS], bucket: u32, from: usize, slot: u8| {
        let (word, bit) = (bucket as usize / 64, 1 << (bucket % 64));
        if count < SEARCH_BUCKETS && reached[word] & bit == 0 {
            reached[word] |= bit;
            steps[count] = Step { bucket: bucket as u16, from: from as u16, slot };
            count += 1;
            trie.prefetch_bucket(bucket);
        }
        count
    };
    reach(&mut steps, home.first, 0, 0);
    let mut known = reach(&mut steps, home.second, 1, 0);
    let mut at = 0;
    while at < known {
        let bucket = u32::from(steps[at].bucket);
        if let Some(free) = free_in(trie, bucket) {
            return Some(carry_out(trie, &steps, at, free));
        }
        for (slot, head) in trie.bucket(bucket).heads().into_iter().enumerate() {
            known = reach(&mut steps, trie.other(bucket, head), at, slot as u8);
        }
        at += 1;
    }
    None
}

/// Carries out the moves that lead to step `at`, from the last to the first. Returns the slot that can be overwritten
/// in the end: its node stands in its other bucket as well.
fn carry_out(
    trie: Trie<'_>,
    steps: &[Step; SEARCH_BUCKETS],
    mut at: usize,
    mut free: Place,
) -> Place {
    loop {
        let step = steps[at];
        let from = usize::from(step.from);
        if from == at {
            return free;
        }
        let source = Place { bucket: steps[from].bucket.into(), slot: step.slot.into() };
        let head = trie.head(source);
        debug_assert!(trie.other(source.bucket, head) == free.bucket, "T2");
        trie.store(free, head.moved(), trie.bucket(source.bucket).body(source.slot));
        (at, free) = (from, source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::prefix::Seed;
    use crate::index::cuckoo_trie::layout::{MAX_BUCKETS, SLOTS, Symbol, is_size, larger};
    use crate::index::cuckoo_trie::raw::{FreeLines, Memory, Shape};
    use crate::index::cuckoo_trie::state::Secret;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    use testkit::Rng;

    fn secret() -> Secret {
        Secret::new(&Seed::fixed(5))
    }

    fn trie<'m>(memory: &'m Memory, free: &mut FreeLines, buckets: u32) -> Trie<'m> {
        let low = (0, &b""[..]);
        let root = secret().root(0);
        let shape = Shape { buckets, skip_bits: 0, root, round: 0, depth: 1, low, high: None };
        memory.allocate(free, &shape).unwrap()
    }

    /// All slots.
    fn contents(trie: Trie<'_>) -> Vec<(u32, u64)> {
        let slots = |bucket| (0..SLOTS as u32).map(move |slot| Place { bucket, slot });
        (0..trie.buckets())
            .flat_map(slots)
            .map(|at| (trie.head(at).0, trie.bucket(at.bucket).body(at.slot)))
            .collect()
    }

    fn leaf(unit: u64) -> Node {
        Node::Leaf { unit, hash: 3 }
    }

    fn found(trie: Trie<'_>, state: State) -> Option<Node> {
        let home = trie.home(state);
        let hit = trie.find(Baseline, home);
        let at = trie.locate(Baseline, home);
        assert_eq!(hit.is_some(), at.is_some());
        hit.map(|hit| {
            let node = Node::decode(hit.head.kind(), hit.body);
            assert_eq!(trie.node(at.unwrap()), node);
            node
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
        let (memory, mut free) = (Memory::new(), FreeLines::new());
        let mut size = Some(1);
        while let Some(buckets) = size {
            let trie = trie(&memory, &mut free, buckets);
            let mut model: Vec<State> = Vec::new();
            let mut full = None;
            for state in states(buckets.into()) {
                match place(trie, state, leaf(model.len() as u64)) {
                    Ok(at) => {
                        assert_eq!(trie.node(at), leaf(model.len() as u64));
                        model.push(state);
                    }
                    Err(NoRoom::Collision) => assert!(found(trie, state).is_some()),
                    Err(NoRoom::Full) => {
                        full = Some(state);
                        break;
                    }
                }
            }
            let (nodes, slots) = (trie.nodes(), buckets as usize * SLOTS);
            assert_eq!(nodes, model.len());
            assert!(nodes <= slots && nodes * 100 + 500 >= slots * 96, "{nodes} of {slots}");
            for (i, state) in model.iter().enumerate() {
                assert_eq!(found(trie, *state), Some(leaf(i as u64)), "{buckets}");
            }
            // Another attempt fails as well, and changes nothing.
            let before = contents(trie);
            assert_eq!(place(trie, full.unwrap(), leaf(0)), Err(NoRoom::Full));
            assert_eq!(place(trie, model[0], leaf(0)), Err(NoRoom::Collision));
            assert_eq!(contents(trie), before);
            memory.free(&mut free, trie.name());
            size = match larger(buckets) {
                // Of the many sizes of whole blocks some, and the largest.
                Some(next) if next > 2_000 => (buckets < MAX_BUCKETS).then_some(MAX_BUCKETS),
                next => next,
            };
        }
    }

    #[test]
    fn nodes_that_come_and_go_are_found_exactly_while_they_are_there() {
        let (memory, mut free) = (Memory::new(), FreeLines::new());
        for seed in testkit::seeds() {
            for buckets in [1, 2, 4, 16] {
                if !is_size(buckets) {
                    continue;
                }
                let trie = trie(&memory, &mut free, buckets);
                let mut rng = Rng::new(seed);
                let all: Vec<State> = states(seed).take(buckets as usize * 6).collect();
                let mut model = BTreeMap::new();
                for step in 0..3_000_u64 {
                    let chosen = rng.below(all.len());
                    let home = trie.home(all[chosen]);
                    match (model.contains_key(&chosen), rng.below(3)) {
                        (true, 0) => {
                            rewrite(trie, trie.locate(Baseline, home).unwrap(), leaf(step));
                            model.insert(chosen, step);
                        }
                        (true, _) => {
                            clear(trie, trie.locate(Baseline, home).unwrap());
                            model.remove(&chosen);
                        }
                        (false, _) => {
                            let before = contents(trie);
                            let placed = place(trie, all[chosen], leaf(step));
                            if placed.is_err() {
                                assert_eq!(placed, Err(NoRoom::Full));
                                assert_eq!(contents(trie), before);
                                continue;
                            }
                            model.insert(chosen, step);
                        }
                    }
                    assert_eq!(trie.nodes(), model.len());
                    if step % 16 == 0 {
                        for (i, state) in all.iter().enumerate() {
                            let node = model.get(&i).map(|unit| leaf(*unit));
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
        let (memory, mut free) = (Memory::new(), FreeLines::new());
        let trie = trie(&memory, &mut free, 8.min(MAX_BUCKETS));
        let name = trie.name();
        let all: Vec<State> = states(9).take(40).collect();
        for (i, state) in all[..10].iter().enumerate() {
            place(trie, *state, leaf(i as u64)).unwrap();
        }
        let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let trie = memory.trie(name);
                while !stop.load(Relaxed) {
                    for (i, state) in all[..10].iter().enumerate() {
                        let hit = trie.find(Baseline, trie.home(*state)).expect("it stays");
                        assert_eq!(Node::decode(hit.head.kind(), hit.body), leaf(i as u64));
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
                    if place(trie, *state, leaf(99)).is_ok() {
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
