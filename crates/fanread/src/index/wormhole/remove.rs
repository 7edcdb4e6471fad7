//! Taking entries out.
//!
//! An entry leaves by one store of a free word. The version moves twice around it: a slot is used again only after
//! that, which is what lets readers trust a key and a value that lie in two lines.
//!
//! PAPER: Algorithm 2, `DEL`. Neighbours are merged when both fit in half a leaf (`resize.rs`).

use super::layout::{SLOTS, Slot, Word};
use super::raw::Leaf;
use super::resize::MERGE_AT;
use super::{Garbage, Pinned, Ref, Wormhole};
use crate::arch;
use crate::mem::word;
use crate::sync::version::Locked;

impl<V> Wormhole<V> {
    /// Removes an entry from a locked leaf.
    fn take_out(leaf: Leaf<'_>, locked: &mut Locked<'_>, slot: Slot) {
        let meta = leaf.meta();
        let (count, mut sorted) = (meta.count(), meta.sorted());
        let mut order = [0; SLOTS];
        leaf.copy_order(sorted, &mut order);
        let place = arch::position(&order[..sorted], slot as u8);
        locked.begin_change();
        leaf.set_word::<V>(slot, Word::FREE);
        if let Some(at) = place {
            order.copy_within(at + 1..sorted, at);
            sorted -= 1;
            leaf.set_order(&order, at, sorted);
        }
        leaf.set_meta(meta.with_counts(count - 1, sorted));
        locked.end_change();
    }
}

impl<V: Send + Sync> Pinned<'_, V> {
    /// Removes `key` and returns its value, if there was one.
    ///
    /// # Cost
    ///
    /// The line fetches of [`get`](Self::get) and one locked leaf. Neighbouring leaves that fit into half a leaf are
    /// merged.
    ///
    /// # Concurrency
    ///
    /// Takes effect when the entry's word is cleared. The value is dropped once nobody can be reading it.
    ///
    /// # Panics
    ///
    /// If dropping a value that was removed or replaced earlier does. The key is removed all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Wormhole;
    ///
    /// let map = Wormhole::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"dodo", 1);
    /// assert_eq!(pinned.remove(b"dodo").as_deref(), Some(&1));
    /// assert!(pinned.remove(b"dodo").is_none());
    /// ```
    pub fn remove(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.remove_if(key, |_| true)
    }

    /// Removes `key` if its value is the one `wanted` accepts. `wanted` is asked under the leaf's lock and is no user
    /// code.
    pub(super) fn remove_if(
        &self,
        key: &[u8],
        wanted: impl FnOnce(word::Word) -> bool,
    ) -> Option<Ref<'_, V>> {
        let map = self.map;
        let (tag, hint) = map.hint(key, &self.guard)?;
        let (leaf, mut locked) = map.list.lock_leaf(&map.memory, key, hint);
        let form = Wormhole::<V>::form(leaf, key, tag);
        let (slot, word) = map.look_locked(leaf, key, tag, form)?;
        let old = map.read_entry(leaf, slot, word);
        if !wanted(old.word()) {
            return None;
        }
        Wormhole::<V>::take_out(leaf, &mut locked, slot);
        map.shards.removed(self.thread);
        // The record is handed over before the merge, which drops other values: if one of them panics, this one is not
        // lost.
        let garbage = word.record().map(|unit| map.exchange(self, [Garbage::Record(unit)]));
        if leaf.meta().count() <= MERGE_AT / 2 {
            map.try_merge(self, leaf, locked);
        } else {
            drop(locked);
        }
        if let Some(mut garbage) = garbage {
            garbage.run();
        }
        Some(Ref::new(old))
    }
}
