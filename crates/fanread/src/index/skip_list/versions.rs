//! When a write takes place, which version a snapshot sees, and when a version goes.
//!
//! The map counts its snapshots. A write is *published* by one exchange (of a link or of a state) and gets its *stamp*, the
//! count at some moment after that, by a second one; until then whoever meets it decides the stamp, before he uses what he
//! has met. A snapshot takes the count `r`, and adds one to it: it sees the writes with stamps up to `r`, and no write that
//! is stamped later gets such a stamp.
//!
//! | step of a writer | `get` | snapshot `r` |
//! | --- | --- | --- |
//! | publishes, stamp 0 | stamps it, returns the new value | stamps it, with more than `r`: not seen |
//! | stamps it | returns the new value | seen if the stamp is at most `r`, whoever took it |
//!
//! Without snapshots the count does not change and nobody writes to its line.
//!
//! # Invariants
//!
//! * **V1** Stamps along a chain descend or stay the same; all but the newest are decided.
//! * **V2** A snapshot that is held is on the board before the count goes beyond its stamp. So who knows a stamp `t` and
//!   does not find a snapshot on the board that was made since, knows that its stamp is at least `t`.
//! * **V3** A version is taken out of its chain only if no held snapshot and none to come sees it.
//! * **V4** The state of a node whose value was in the node says when it began or when it ended, not both: the first is
//!   forgotten only if no snapshot is on the board. A snapshot that is made meanwhile came after it (V2).
//! * **V5** A node that is `PENDING` is on the list of those to look at, once, and does not die.
//!
//! PAPER: section 3.2 has versions in a list that begins outside the node. Stamps by those who read: Wei et al.,
//! "Constant-time snapshots with applications to concurrent data structures", 2021.

use std::collections::VecDeque;

use super::key::SkipKey;
use super::layout::{DEAD, First, LAST_STAMP, Newest, Older, PENDING, PRUNING, Stamp, State, Unit};
use super::raw::{Node, Posted, Version};
use super::{Garbage, Pinned, SkipList};
use crate::mem::word::Read;
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// The stamps of the snapshots that are held, ascending, as writers find them.
#[derive(Debug)]
pub(super) struct Held(Vec<Stamp>);

/// The snapshots of a map.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// How many were made, and one. The stamp of what is written now.
    count: AtomicU64,
    board: Posted<Held>,
    held: Lock<Vec<Stamp>>,
    /// Nodes with versions that only snapshots need.
    pending: Lock<VecDeque<Pending>>,
}

/// A node to look at when no snapshot before `stamp` is held any more.
#[derive(Clone, Copy, Debug)]
struct Pending {
    node: Unit,
    stamp: Stamp,
}

impl Snapshots {
    pub(super) const fn new() -> Self {
        Self {
            count: AtomicU64::new(1),
            board: Posted::new(),
            held: Lock::new(Vec::new()),
            pending: Lock::new(VecDeque::new()),
        }
    }

    /// The stamp of what was published before.
    #[inline(always)]
    fn now(&self) -> Stamp {
        // ORDER: SeqCst, with `begin`: whoever publishes and then reads a count of at most `r` has published before the
        // fence there, so the snapshot `r` finds it. Acquire in that, for V2: who reads `r + 1` sees `r` on the board.
        self.count.load(SeqCst)
    }
}

/// Whether a snapshot is held that sees what began at `from` and ended at `to`.
#[inline]
pub(super) fn is_needed(held: &[Stamp], from: Stamp, to: Stamp) -> bool {
    held.get(held.partition_point(|stamp| *stamp < from)).is_some_and(|stamp| *stamp < to)
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// The snapshots that are held.
    #[inline(always)]
    pub(super) fn held<'g>(&self, pinned: &'g Pinned<'_, K, V>) -> &'g [Stamp] {
        self.snapshots.board.get(&pinned.guard).map_or(&[], |held| &held.0)
    }

    /// Makes a snapshot and returns its stamp.
    pub(super) fn begin_snapshot(&self, pinned: &Pinned<'_, K, V>) -> Stamp {
        let Snapshots { count, board, held, .. } = &self.snapshots;
        let mut stamps = held.lock();
        // Relaxed: it changes only under the lock.
        let stamp = count.load(Relaxed);
        assert!(stamp < LAST_STAMP, "more snapshots than there are stamps");
        stamps.push(stamp);
        let old = board.replace(Some(Box::new(Held(stamps.clone()))));
        // ORDER: SeqCst, and the fence behind it, with `now`. Release in that, for V2.
        count.fetch_add(1, SeqCst);
        // ORDER: as above: whatever this snapshot reads, it reads behind the fence.
        fence(SeqCst);
        drop(stamps);
        self.retire(pinned, old.map(Garbage::List));
        self.recycle(pinned);
        stamp
    }

    /// Gives a snapshot up, and what only it needed.
    pub(super) fn end_snapshot(&self, pinned: &Pinned<'_, K, V>, stamp: Stamp) {
        let Snapshots { board, held, .. } = &self.snapshots;
        let mut stamps = held.lock();
        if let Ok(at) = stamps.binary_search(&stamp) {
            stamps.remove(at);
        }
        let old = board.replace((!stamps.is_empty()).then(|| Box::new(Held(stamps.clone()))));
        drop(stamps);
        self.retire(pinned, old.map(Garbage::List));
        let looked_at = self.look_at_pending(pinned);
        // A batch for each few nodes: as much as they have given up.
        for _ in 0..=looked_at / 8 {
            self.recycle(pinned);
        }
    }

    /// The state of a node, whose stamp is decided.
    #[inline(always)]
    pub(super) fn settled(&self, node: Node<'_, K, V>) -> State {
        let state = node.state();
        match state.newest() {
            Newest::Inline(stamp) | Newest::InlineGone(stamp) if stamp != 0 => state,
            _ => self.settle(node, state),
        }
    }

    fn settle(&self, node: Node<'_, K, V>, mut state: State) -> State {
        loop {
            let settled = match state.newest() {
                Newest::Inline(0) => state.with(Newest::Inline(self.snapshots.now())),
                Newest::InlineGone(0) => state.with(Newest::InlineGone(self.snapshots.now())),
                Newest::Inline(_) | Newest::InlineGone(_) => return state,
                Newest::Chain(unit) => {
                    self.decide(self.memory.version(unit).begin());
                    return state;
                }
                Newest::ChainGone(unit) => {
                    self.decide(self.memory.version(unit).end());
                    return state;
                }
            };
            if node.exchange(state, settled) {
                return settled;
            }
            state = node.state();
        }
    }

    /// Decides a stamp, if it is not yet.
    #[inline]
    fn decide(&self, stamp: &AtomicU64) {
        // ORDER: Acquire, pairs with the Release below: who knows a stamp knows the snapshots before it (V2).
        while stamp.load(Acquire) == 0 {
            // ORDER: Release, as above. A failure is somebody else's stamp, which the load reads.
            let _ = stamp.compare_exchange_weak(0, self.snapshots.now(), Release, Relaxed);
        }
    }

    /// The value of a node now.
    #[inline(always)]
    pub(super) fn value<'g>(&'g self, node: Node<'g, K, V>) -> Option<Read<'g, V>> {
        if node.state().is_plain() {
            return Some(node.value());
        }
        self.value_of_chain(node)
    }

    fn value_of_chain<'g>(&'g self, node: Node<'g, K, V>) -> Option<Read<'g, V>> {
        self.value_in(node, self.settled(node))
    }

    /// The value of a node in a state, whose stamp is decided.
    #[inline(always)]
    pub(super) fn value_in<'g>(
        &'g self,
        node: Node<'g, K, V>,
        state: State,
    ) -> Option<Read<'g, V>> {
        match state.newest() {
            Newest::Inline(_) => Some(node.value()),
            Newest::InlineGone(_) | Newest::ChainGone(_) => None,
            Newest::Chain(unit) => {
                let version = self.memory.version(unit);
                (!version.is_tombstone()).then(|| version.value())
            }
        }
    }

    /// The value of a node in a snapshot.
    pub(super) fn value_at<'g>(&'g self, node: Node<'g, K, V>, at: Stamp) -> Option<Read<'g, V>> {
        let inline = |seen: bool| seen.then(|| node.value());
        let mut version = match self.settled(node).newest() {
            Newest::Inline(began) => return inline(began <= at),
            // It began before this snapshot (V4).
            Newest::InlineGone(ended) => return inline(at < ended),
            Newest::Chain(unit) | Newest::ChainGone(unit) => self.memory.version(unit),
        };
        loop {
            // ORDER: Acquire, as in `decide`.
            if version.begin().load(Acquire) <= at {
                // ORDER: as above.
                let ended = version.end().load(Acquire);
                let seen = !version.is_tombstone() && (ended == 0 || at < ended);
                return seen.then(|| version.value());
            }
            version = match version.older() {
                Older::Nothing => return None,
                Older::Inline => {
                    return inline(match version.first() {
                        First::Began(began) => began <= at,
                        First::Ended(ended) => at < ended,
                    });
                }
                Older::Version(unit) => self.memory.version(unit),
            };
        }
    }

    /// What a version on top of a state has before it.
    pub(super) fn below(&self, state: State) -> (Older, First) {
        match state.newest() {
            Newest::Inline(began) => (Older::Inline, First::Began(began)),
            Newest::InlineGone(ended) => (Older::Inline, First::Ended(ended)),
            Newest::Chain(unit) | Newest::ChainGone(unit) => {
                (Older::Version(unit), self.memory.version(unit).first())
            }
        }
    }

    /// Takes the versions of a node out of its chain that no snapshot sees.
    pub(super) fn prune(&self, pinned: &Pinned<'_, K, V>, node: Node<'_, K, V>) {
        loop {
            let state = node.state();
            let (Newest::Chain(newest) | Newest::ChainGone(newest)) = state.newest() else { break };
            if state.has(PRUNING) {
                // Whoever does it looks again when he is done.
                break;
            }
            if !node.exchange(state, State(state.0 | PRUNING)) {
                continue;
            }
            let newest = self.memory.version(newest);
            self.decide(newest.begin());
            let mut garbage = Vec::new();
            let waiting = self.prune_below(pinned, node, newest, &mut garbage);
            let after = node.lower(PRUNING);
            if !garbage.is_empty() {
                self.retire(pinned, garbage);
            }
            if waiting {
                // Last: it may take out nodes, which compares keys, and that may panic.
                // Relaxed: decided above, and not changed since.
                self.wait_for_snapshots(pinned, node, newest.begin().load(Relaxed));
            }
            if after.newest() == state.newest() {
                break;
            }
        }
    }

    /// Takes out what is not needed below a version; tells whether anything stays. The caller has the `PRUNING` flag.
    fn prune_below(
        &self,
        pinned: &Pinned<'_, K, V>,
        node: Node<'_, K, V>,
        newest: Version<'_, V>,
        garbage: &mut Vec<Garbage<V>>,
    ) -> bool {
        let held = self.held(pinned);
        let mut above = newest;
        loop {
            // Relaxed: only the newest version's stamp may be undecided, and that one was decided by the caller.
            let until = above.begin().load(Relaxed);
            match above.older() {
                Older::Nothing => break,
                Older::Inline => {
                    let needed = match above.first() {
                        First::Began(began) => is_needed(held, began, until),
                        First::Ended(ended) => is_needed(held, 0, ended),
                    };
                    if !needed {
                        above.set_older(Older::Nothing);
                        garbage.extend(node.value_garbage().map(Garbage::Value));
                    }
                    break;
                }
                Older::Version(unit) => {
                    let version = self.memory.version(unit);
                    // Relaxed: as above. If it was removed before the next one began, a snapshot from in between needs
                    // it too, so as not to see the one before it.
                    if is_needed(held, version.begin().load(Relaxed), until) {
                        above = version;
                    } else {
                        // Every version says the same of the value in the node, so `above` need not be told.
                        above.set_older(version.older());
                        garbage.push(Garbage::Version(unit));
                    }
                }
            }
        }
        newest.older() != Older::Nothing
    }

    /// Has a node looked at when no snapshot before `stamp` is held any more.
    pub(super) fn wait_for_snapshots(
        &self,
        pinned: &Pinned<'_, K, V>,
        node: Node<'_, K, V>,
        stamp: Stamp,
    ) {
        loop {
            let state = node.state();
            if state.has(PENDING | DEAD) {
                return;
            }
            if node.exchange(state, State(state.0 | PENDING)) {
                break;
            }
        }
        self.snapshots.pending.lock().push_back(Pending { node: node.unit(), stamp });
        // The snapshots before it may have gone before the node was on the list.
        if self.held(pinned).first().is_none_or(|oldest| stamp <= *oldest) {
            self.look_at_pending(pinned);
        }
    }

    /// Looks at the nodes whose snapshots are gone; returns how many there were.
    pub(super) fn look_at_pending(&self, pinned: &Pinned<'_, K, V>) -> usize {
        let mut looked_at = 0;
        loop {
            let oldest = self.held(pinned).first().copied().unwrap_or(Stamp::MAX);
            let mut pending = self.snapshots.pending.lock();
            match pending.front() {
                Some(first) if first.stamp <= oldest => {}
                _ => return looked_at,
            }
            let Some(Pending { node, .. }) = pending.pop_front() else { return looked_at };
            drop(pending);
            // V5: it is a node still, and stays one as long as this thread is pinned.
            let node = self.memory.node(node);
            node.lower(PENDING);
            self.prune(pinned, node);
            self.bury(pinned, node);
            looked_at += 1;
        }
    }

    /// How many nodes wait for snapshots to go.
    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.snapshots.pending.lock().len()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use std::ops::Bound::Unbounded;

    use super::*;

    /// With a replacement on the way every other time.
    #[test]
    fn a_queue_leaves_nothing_behind_a_snapshot_that_sees_none_of_it() {
        let map = SkipList::new();
        let pinned = map.pin();
        pinned.insert(0, 0);
        let snapshot = map.snapshot();
        pinned.remove(&0);
        for key in 1..1_000 {
            // Younger snapshots see none either.
            let younger = (key % 100 == 0).then(|| map.snapshot());
            for turn in 0..=key % 2 {
                pinned.insert(key, turn);
            }
            assert_eq!(pinned.lower_bound(Unbounded).map(|(first, _)| *first), Some(key));
            assert!(pinned.remove(&key).is_some());
            drop(younger);
        }
        // The one that the snapshot sees.
        assert_eq!((map.level(0).count(), map.pending()), (1, 1));
        assert_eq!(snapshot.pin().iter().count(), 1);
        drop(snapshot);
        assert_eq!((map.level(0).count(), map.pending()), (0, 0));
        pinned.check().unwrap();
    }
}

#[cfg(all(test, shuttle))]
mod scenes {
    use std::cmp::Ordering;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};

    use shuttle::thread::{self, ThreadId};
    use testkit::dummy::Census;

    use super::super::{SkipKey, SkipList};
    use crate::sync::shim::explore;

    /// What is looked for when a comparison panics.
    const LAST: u64 = 9;

    /// Who may not look for the last key.
    type Touchy = Arc<Mutex<Option<ThreadId>>>;

    struct Key(u64, Touchy);

    impl PartialEq for Key {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Key {}

    impl PartialOrd for Key {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Key {
        fn cmp(&self, other: &Self) -> Ordering {
            let touchy = *self.1.lock().unwrap();
            if other.0 == LAST && touchy == Some(thread::current().id()) {
                resume_unwind(Box::new("as planned"));
            }
            self.0.cmp(&other.0)
        }
    }

    impl SkipKey for Key {}

    /// A writer has taken a version out of its chain, and then takes out a removed node whose last snapshot is being dropped, which
    /// compares keys.
    #[test]
    fn shuttle_a_comparison_that_panics_loses_no_version() {
        let was_met = Arc::new(AtomicBool::new(false));
        let met = Arc::clone(&was_met);
        let scene = move || {
            let (census, touchy) = (Census::new(), Touchy::default());
            let map = Arc::new(SkipList::new());
            let key = |n| Key(n, Arc::clone(&touchy));
            for n in [1, LAST] {
                map.pin().insert(key(n), census.value(n));
            }
            let snapshot = map.snapshot();
            map.pin().insert(key(1), census.value(10));
            map.pin().remove(&key(LAST));
            let writer = {
                let (map, key, value) = (Arc::clone(&map), key(1), census.value(20));
                let (met, touchy) = (Arc::clone(&met), Arc::clone(&touchy));
                thread::spawn(move || {
                    *touchy.lock().unwrap() = Some(thread::current().id());
                    let write = AssertUnwindSafe(|| map.pin().insert(key, value).is_some());
                    if catch_unwind(write).is_err() {
                        met.store(true, SeqCst);
                    }
                })
            };
            drop(snapshot);
            writer.join().unwrap();
            drop(map);
            census.verify(0).unwrap();
        };
        explore(2, scene);
        assert!(was_met.load(SeqCst), "no comparison panicked");
    }

    /// A writer has found that a snapshot needs the value before, and says so when that one has gone and a younger one is there.
    #[test]
    fn shuttle_what_a_younger_snapshot_does_not_see_goes_with_the_older_one() {
        let scene = || {
            let map = Arc::new(SkipList::<u64, u64>::new());
            map.pin().insert(1, 0);
            let older = map.snapshot();
            let writer = {
                let map = Arc::clone(&map);
                thread::spawn(move || assert!(map.pin().insert(1, 1).is_some()))
            };
            let younger = map.snapshot();
            drop(older);
            writer.join().unwrap();
            let seen = younger.pin().get(&1).map(|value| *value);
            let (_, has_first) = map.chain(map.level(0).next().unwrap().unit());
            assert_eq!(has_first, seen == Some(0));
        };
        explore(2, scene);
    }
}
