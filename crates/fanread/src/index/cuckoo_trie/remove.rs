//! Taking entries out.
//!
//! A key leaves by one store into its parent's bucket (`edit.rs`). A trie that has become small is made smaller, or one
//! with a neighbour (`resize.rs`).
//!
//! PAPER: section 4.5, which its program does not have.

use super::{Garbage, Pinned};
use crate::api::Ref;
use crate::mem::word;

impl<V: Send + Sync> Pinned<'_, V> {
    /// Removes `key` and returns its value, if there was one.
    ///
    /// # Cost
    ///
    /// The line fetches of [`get`](Self::get) and one locked trie. One removal in some thousands makes a trie smaller, or
    /// one of two.
    ///
    /// # Concurrency
    ///
    /// Takes effect when the node above the key's is stored. The value is dropped once nobody can be reading it.
    ///
    /// # Panics
    ///
    /// If dropping a value that was removed or replaced earlier does. The key is removed all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::CuckooTrie;
    ///
    /// let map = CuckooTrie::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"dodo", 1);
    /// assert_eq!(pinned.remove(b"dodo").as_deref(), Some(&1));
    /// assert!(pinned.remove(b"dodo").is_none());
    /// ```
    pub fn remove(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.remove_if(key, |_| true)
    }

    /// Removes `key` if its value is the one `wanted` accepts. `wanted` is asked under the trie's lock and is no user
    /// code.
    pub(super) fn remove_if(
        &self,
        key: &[u8],
        wanted: impl FnOnce(word::Word) -> bool,
    ) -> Option<Ref<'_, V>> {
        let map = self.map;
        let hint = map.hint(key, &self.guard)?;
        let (trie, mut locked) = map.lock_trie(key, hint.trie);
        let edit = map.edit(trie, key, true);
        let leaf = map.leaf_of(&edit, key, hint.hash)?;
        let old = map.memory.value::<V>(leaf);
        if !wanted(old.word()) {
            return None;
        }
        locked.change(|| edit.remove(leaf));
        map.shards.removed(self.thread);
        // The record is handed over before the trie is replaced, which drops other values: if one of them panics, this
        // one is not lost.
        let mut garbage = map.exchange(self, leaf.unit().map(Garbage::Record));
        map.make_smaller(self, trie, locked);
        garbage.run();
        Some(Ref::new(old))
    }
}
