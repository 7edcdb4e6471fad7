//! Removing.
//!
//! A removal takes effect when it changes the state of the node. The node itself stays as long as a snapshot may see a value
//! in it. Then it is buried: declared dead, which nothing undoes; marked on all levels, from above; taken out of them; and
//! retired once it is off all of them and its maker does not link it any more.
//!
//! Whether it is off is counted, not concluded from a search: a level is left by one exchange, by whoever meets the mark, and an order
//! of keys that contradicts itself may lead a search past it. Then the node stays where it is, and is leaked at worst.
//!
//! Comparing keys is user code, and may panic. A search that is ended so leaves its work undone: a node that is linked on a part
//! of its levels, or a dead one of which nobody has made sure that no level leads to it. It goes on a list, and the next
//! removal, or the next insertion that takes a block of memory, does what was left. What nobody comes to do, the map's
//! drop does.
//!
//! # Invariants
//!
//! * **L1** A node that is to be linked further is not [`BUILT`], and one to be swept was not given up: neither is freed
//!   while it is on the list. Each of the two, maker and remover, is there at most once.
//! * **L2** A node is given up by who completes the count of its state: one for each level that it was taken out of, which is done
//!   once, or that its maker has said he leaves out, and one that says that maker and remover are done with it.

use core::borrow::Borrow;
use core::mem;

use super::key::SkipKey;
use super::layout::{BUILT, DEAD, Newest, Older, PENDING, SWEPT, Stamp, State, Unit};
use super::raw::{Memory, Node, version_units};
use super::versions::is_needed;
use super::{Pinned, Ref, SkipList};
use crate::mem::word::Read;
use crate::sync::lock::Lock;
use crate::sync::shim::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};

/// What is to be done with a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Link it on this level and those above.
    Build(Unit, usize),
    /// Make sure that no level leads to it, and do the remover's part if nobody else does.
    Sweep(Unit),
}

/// What panics have left undone.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// How many there are, at least when nobody is at work.
    count: AtomicU32,
    list: Lock<Vec<Work>>,
}

impl Unfinished {
    pub(super) const fn new() -> Self {
        Self { count: AtomicU32::new(0), list: Lock::new(Vec::new()) }
    }

    fn push(&self, work: Work) {
        let mut list = self.list.lock();
        list.push(work);
        // Relaxed: a hint that there is work; the list is behind a lock.
        self.count.store(list.len() as u32, Relaxed);
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.list.lock().len()
    }

    fn pop(&self) -> Option<Work> {
        let mut list = self.list.lock();
        let work = list.pop();
        // Relaxed: as above.
        self.count.store(list.len() as u32, Relaxed);
        work
    }

    /// The dead nodes, each once, of a map that nobody uses any more.
    pub(super) fn take_dead<K: SkipKey, V>(&self, memory: &Memory<K, V>) -> Vec<Unit> {
        let works = mem::take(&mut *self.list.lock());
        let units = works.into_iter().map(|(Work::Build(unit, _) | Work::Sweep(unit))| unit);
        let mut dead: Vec<Unit> =
            units.filter(|unit| memory.node(*unit).state().has(DEAD)).collect();
        dead.sort_unstable_by_key(|unit| unit.get());
        dead.dedup();
        dead
    }
}

/// Puts work on the list if a panic ends it.
pub(super) struct AtWork<'g, K: SkipKey, V> {
    pub(super) map: &'g SkipList<K, V>,
    pub(super) work: Work,
}

impl<K: SkipKey, V> AtWork<'_, K, V> {
    pub(super) fn finish(self) {
        mem::forget(self);
    }
}

impl<K: SkipKey, V> Drop for AtWork<'_, K, V> {
    fn drop(&mut self) {
        self.map.unfinished.push(self.work);
    }
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// When the value of a node was removed; none if there is a value. The state's stamp is decided.
    fn ended(&self, state: State) -> Option<Stamp> {
        match state.newest() {
            Newest::Inline(_) => None,
            Newest::InlineGone(ended) => Some(ended),
            Newest::ChainGone(unit) => {
                // ORDER: Acquire, as in `SkipList::decide`.
                Some(self.memory.version(unit).end().load(Acquire))
            }
            Newest::Chain(unit) => {
                let version = self.memory.version(unit);
                // ORDER: as above.
                version.is_tombstone().then(|| version.begin().load(Acquire))
            }
        }
    }

    /// Whether a snapshot that is held sees a value in a node that has had none since `ended`. The state's stamp is decided.
    fn is_seen(&self, pinned: &Pinned<'_, K, V>, state: State, ended: Stamp) -> bool {
        let held = self.held(pinned);
        // It began before every snapshot (V4).
        if !is_needed(held, 0, ended) {
            return false;
        }
        // A chain that was pruned has what snapshots see. Who prunes it beside this thread only takes out.
        let sees_older = |unit| self.memory.version(unit).older() != Older::Nothing;
        match state.newest() {
            Newest::Inline(_) | Newest::InlineGone(_) => true,
            Newest::Chain(unit) => sees_older(unit),
            Newest::ChainGone(unit) => {
                // ORDER: Acquire, as in `SkipList::decide`.
                let began = self.memory.version(unit).begin().load(Acquire);
                is_needed(held, began, ended) || sees_older(unit)
            }
        }
    }

    /// Marks all links of a dead node.
    pub(super) fn mark_all(node: Node<'_, K, V>) {
        Self::mark_from(node, 0);
    }

    /// Marks the links of a node on a level and those above, from above.
    pub(super) fn mark_from(node: Node<'_, K, V>, lowest: usize) {
        for level in (lowest..node.state().height()).rev() {
            let place = node.tower().at(level);
            loop {
                let link = place.load();
                if link.is_marked() || place.exchange(link, link.marked()) {
                    break;
                }
            }
        }
    }

    /// Takes a node out of the map that no value is left in for anybody.
    pub(super) fn bury(&self, pinned: &Pinned<'_, K, V>, node: Node<'_, K, V>) {
        loop {
            let state = self.settled(node);
            if state.has(DEAD | PENDING) {
                return;
            }
            let Some(ended) = self.ended(state) else { return };
            if self.is_seen(pinned, state, ended) {
                return self.wait_for_snapshots(pinned, node, ended);
            }
            if node.exchange(state, State(state.0 | DEAD)) {
                break;
            }
        }
        Self::mark_all(node);
        self.sweep(pinned, node);
    }

    /// Takes a dead node out of all levels, and does its remover's part unless its maker still has to say that he does not link
    /// it, who does it then.
    pub(super) fn sweep(&self, pinned: &Pinned<'_, K, V>, node: Node<'_, K, V>) {
        let at_work = AtWork { map: self, work: Work::Sweep(node.unit()) };
        let height = node.state().height();
        let was_built = node.state().has(BUILT);
        self.neighbours(pinned, node.key(), height);
        let is_built = node.raise(SWEPT).has(BUILT);
        if is_built && !was_built {
            // Its maker may have linked it behind this search; now he does not any more.
            self.neighbours(pinned, node.key(), height);
        }
        at_work.finish();
        if is_built {
            self.take_off(pinned, node, 1);
        }
    }

    /// Counts levels that a node is off, or its remover's part. Whoever completes the count gives the node up (L2).
    pub(super) fn take_off(&self, pinned: &Pinned<'_, K, V>, node: Node<'_, K, V>, count: usize) {
        let state = node.count_off(count);
        if state.off() > state.height() {
            self.give_up(pinned, node);
        }
    }
}

impl<K: SkipKey + Send + Sync, V: Send + Sync> SkipList<K, V> {
    /// Does what panics have left undone.
    #[inline]
    pub(super) fn finish(&self, pinned: &Pinned<'_, K, V>) {
        // Relaxed: whoever comes next will find it.
        if self.unfinished.count.load(Relaxed) > 0 {
            self.finish_all(pinned);
        }
    }

    #[cold]
    fn finish_all(&self, pinned: &Pinned<'_, K, V>) {
        while let Some(work) = self.unfinished.pop() {
            match work {
                Work::Sweep(unit) => self.sweep(pinned, self.memory.node(unit)),
                Work::Build(unit, from) => {
                    let node = self.memory.node(unit);
                    let at_work = AtWork { map: self, work };
                    let (near, _) = self.neighbours(pinned, node.key(), node.state().height());
                    at_work.finish();
                    self.build(pinned, node, from, near);
                }
            }
        }
        // The panic may have come while these were looked at.
        self.look_at_pending(pinned);
    }
}

impl<K: SkipKey + Send + Sync, V: Send + Sync> Pinned<'_, K, V> {
    /// Removes `key` and returns its value, if there was one.
    ///
    /// # Cost
    ///
    /// The line fetches of two [`get`](Self::get)s, the second of which finds its lines cached.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant. The value is dropped once nobody can be reading it and no snapshot sees it.
    ///
    /// # Panics
    ///
    /// If dropping a value does that was removed or replaced earlier; the key is removed all the same. If comparing keys does:
    /// the key is removed or not. If there is no memory while a snapshot is held, which may need to see that the key was
    /// there: the map is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// pinned.insert(7, 'b');
    /// assert_eq!(pinned.remove(&7).as_deref(), Some(&'b'));
    /// assert!(pinned.remove(&7).is_none());
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<Ref<'_, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.remove_node(self.map.node_of(self, key)?, |_| true).map(Ref::new)
    }

    /// Removes the value of a node, if it is the one `wanted` accepts, which is no user code.
    pub(super) fn remove_node<'g>(
        &'g self,
        node: Node<'g, K, V>,
        wanted: impl Fn(Read<'_, V>) -> bool,
    ) -> Option<Read<'g, V>> {
        let map = self.map;
        let mut tombstone = None;
        let old = loop {
            let state = map.settled(node);
            let Some(old) = map.value_in(node, state).filter(|old| wanted(*old)) else {
                break None;
            };
            let removed = match state.newest() {
                Newest::Chain(unit) => Newest::ChainGone(unit),
                _ if map.held(self).is_empty() => Newest::InlineGone(0),
                _ => {
                    // When the value began is not to be forgotten.
                    let version = *tombstone.get_or_insert_with(|| {
                        let mut shard = map.shards.lock_with(self.thread, version_units::<V>());
                        let made = map.memory.create_version(&mut shard.heap, None);
                        drop(shard);
                        match made {
                            Ok(version) => version,
                            Err((error, _)) => panic!("no memory for {} more bytes", error.bytes),
                        }
                    });
                    let (older, first) = map.below(state);
                    version.put_before(older, first);
                    Newest::Chain(version.unit())
                }
            };
            if node.exchange(state, state.with(removed)) {
                if let Newest::Chain(_) = removed {
                    tombstone = None;
                }
                break Some(old);
            }
        };
        if let Some(version) = tombstone {
            // Not needed after all.
            let mut shard = map.shards.lock(self.thread);
            map.memory.free_version(&mut shard.heap, version.unit());
        }
        let old = old?;
        map.settled(node);
        map.shards.removed(self.thread);
        map.prune(self, node);
        map.bury(self, node);
        map.finish(self);
        map.recycle(self);
        Some(old)
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    use std::sync::Arc;

    use shuttle::thread;

    use super::SkipList;
    use crate::index::skip_list::layout::LEVELS;
    use crate::sync::shim::explore;

    /// One thread links a tall node, level by level, while another finds it on the lowest and removes it.
    #[test]
    fn shuttle_a_tall_node_that_is_linked_while_it_is_removed_is_on_no_level() {
        let scene = || {
            let map = Arc::new(SkipList::<u32, u32>::new());
            map.pin().insert(2, 0);
            let remover = {
                let map = Arc::clone(&map);
                thread::spawn(move || (0..4).for_each(|_| _ = map.pin().remove(&1)))
            };
            {
                let pinned = map.pin();
                let (near, _) = map.neighbours(&pinned, &1, LEVELS);
                map.write_late(&pinned, 1, 1, LEVELS, near);
            }
            remover.join().unwrap();
            map.pin().check().unwrap();
        };
        // Small, and what it is for comes together in one schedule of some thousand.
        explore(2, scene);
    }
}
