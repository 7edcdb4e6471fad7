//! Removing.
//!
//! A removal takes effect when it changes the state of the node. The node itself stays as long as a snapshot may see a value
//! in it. Then it is buried: declared dead, which nothing undoes; marked on all levels, from above; taken out of them; and
//! retired once its maker does not link it any more.

use core::borrow::Borrow;

use super::key::SkipKey;
use super::layout::{BUILT, DEAD, Newest, PENDING, SWEPT, Stamp, State};
use super::raw::Node;
use super::{Pinned, Ref, SkipList};
use crate::mem::word::Read;
use crate::sync::shim::Ordering::Acquire;

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

    /// Marks all links of a dead node.
    pub(super) fn mark_all(node: Node<'_, K, V>) {
        for level in (0..node.state().height()).rev() {
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
            if self.held(pinned).first().is_some_and(|oldest| *oldest < ended) {
                return self.wait_for_snapshots(pinned, node, ended);
            }
            if node.exchange(state, State(state.0 | DEAD)) {
                break;
            }
        }
        Self::mark_all(node);
        let height = node.state().height();
        let was_built = node.state().has(BUILT);
        self.neighbours(pinned, node.key(), height);
        if node.raise(SWEPT).has(BUILT) {
            if !was_built {
                // Its maker may have linked it behind this search; now he does not any more.
                self.neighbours(pinned, node.key(), height);
            }
            self.give_up(pinned, node);
        }
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
    /// If dropping a value does that was removed or replaced earlier; the key is removed all the same. If there is no memory
    /// while a snapshot is held, which may need to see that the key was there: the map is unchanged then.
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
                        let mut shard = map.shards.lock(self.thread);
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
        Some(old)
    }
}
