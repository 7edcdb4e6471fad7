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
