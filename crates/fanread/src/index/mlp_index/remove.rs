//! Taking entries out.
//!
//! A group that loses its last key takes its byte out of its parent; a parent with one child left gives way to it, if there
//! is room for the child in the parent's buckets. If there is none, it stays: a removal never needs memory.

use super::edit::{Edit, Pages};
use super::insert::{Moved, Stop};
use super::layout::{Entry, Node, byte_of, child_of};
use super::raw::{self, Tables, read_value};
use super::search::What;
use super::words::Member;
use super::{MlpIndex, Pinned, Ref};
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;

impl<V: Send + Sync> MlpIndex<V> {
    /// Takes a key out, if its value is the one that is wanted, in an edit; commits it.
    fn try_remove<'g>(
        &self,
        tables: Tables<'g>,
        edit: &mut Edit<'g>,
        (key, joins): (u64, bool),
        wanted: &mut impl FnMut(Word) -> bool,
    ) -> Result<Option<Word>, Stop> {
        let found = self.locate(tables, edit, key)?;
        let Some(member) = found.member(key) else {
            edit.commit()?;
            return Ok(None);
        };
        let old = member.value;
        if !wanted(old) {
            edit.commit()?;
            return Ok(None);
        }
        let mut moved = Moved::default();
        edit.take(&found.home, member.at)?;
        moved.add(key, found.level, -1);
        if found.group.len() == 1 && found.level > 0 {
            self.remove_child(tables, edit, found.level, (key, joins), &mut moved)?;
        }
        edit.commit()?;
        self.count_levels(&moved);
        Ok(Some(old))
    }

    /// Takes the child of `level` on the way to `key` out of its parent.
    fn remove_child<'g>(
        &self,
        tables: Tables<'g>,
        edit: &mut Edit<'g>,
        level: usize,
        (key, joins): (u64, bool),
        moved: &mut Moved,
    ) -> Result<(), Stop> {
        let (found, node) = self.parent(tables, edit, level, key)?;
        edit.take(&found.home, found.packed.at)?;
        let mut rest = node;
        rest.children.remove(byte_of(key, node.depth));
        let Some(only) = rest.children.next(0) else {
            // It had stayed with one child.
            return match node.level {
                0 => Ok(()),
                level => self.remove_child(tables, edit, level, (key, joins), moved),
            };
        };
        if !joins || rest.children.next(usize::from(only) + 1).is_some() {
            // It takes no more room than before.
            return if edit.add(&found.home, found.packed.at.0, &Entry::Node(rest))? {
                Ok(())
            } else {
                Err(Stop::Again)
            };
        }
        // The one child moves up to the node's own prefix.
        let prefix = child_of(node.prefix, node.depth, only);
        let child = self.entry_at(tables, edit, node.depth + 1, prefix)?;
        match child.what {
            What::Nothing => return Err(Stop::Again),
            What::Node => {
                edit.take(&child.home, child.packed.at)?;
                let below = Node { level: node.level, ..child.node() };
                return self.place_at(edit, &found.home, Entry::Node(below));
            }
            What::Group => {}
        }
        // All of them first: whatever is placed may move the others.
        for member in child.group.members() {
            edit.take(&child.home, member.at)?;
        }
        for Member { key, value, .. } in child.group.members() {
            moved.add(key, child.level, -1);
            moved.add(key, node.level, 1);
            let leaf = Entry::Leaf { level: node.level, key, value };
            self.place_at(edit, &found.group_home(), leaf)?;
        }
        Ok(())
    }
}

impl<V: Send + Sync> Pinned<'_, V> {
    /// Removes `key` and returns its value, if there was one.
    ///
    /// # Cost
    ///
    /// The line fetches of [`get`](Self::get). The last key of a group also changes the node above, which is mostly cached.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant. The value is dropped once nobody can be reading it.
    ///
    /// # Panics
    ///
    /// If dropping a value that was removed or replaced earlier does. The key is removed all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::MlpIndex;
    ///
    /// let map = MlpIndex::new();
    /// let pinned = map.pin();
    /// pinned.insert(7, 1);
    /// assert_eq!(pinned.remove(7).as_deref(), Some(&1));
    /// assert!(pinned.remove(7).is_none());
    /// ```
    pub fn remove(&self, key: u64) -> Option<Ref<'_, V>> {
        self.remove_if(key, |_| true)
    }

    /// Removes `key` if its value is the one `wanted` accepts, which is no user code.
    pub(super) fn remove_if(
        &self,
        key: u64,
        mut wanted: impl FnMut(Word) -> bool,
    ) -> Option<Ref<'_, V>> {
        let map = self.map;
        let mut backoff = Backoff::new();
        let mut edit = Edit::new(MlpIndex::<V>::HAS_VALUES);
        let mut joins = true;
        loop {
            let tables = map.tables(&self.guard)?;
            edit.clear();
            match map.try_remove(tables, &mut edit, (key, joins), &mut wanted) {
                Ok(old) => {
                    let old = old?;
                    map.shards.removed(self.thread);
                    // The value is handed over before the table shrinks, which drops others: if one of them panics, this one
                    // is not lost.
                    let mut garbage = map.exchange(self, raw::garbage_of(old));
                    map.shrink(self, tables, key);
                    garbage.run();
                    return Some(Ref::new(read_value(old)));
                }
                Err(Stop::Again) => backoff.wait(),
                // A child that was to move up found no room.
                Err(Stop::Full(..)) => joins = false,
            }
        }
    }
}
