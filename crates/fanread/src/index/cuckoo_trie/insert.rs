//! Writing an entry: new, replaced, or only under a condition.
//!
//! One function serves all of them. It finds the trie as a reader does, locks it, and publishes the entry by one store
//! into a bucket after everything else is in place (`edit.rs`). A trie without room is replaced first (`resize.rs`).
//!
//! Two quicker ways are tried before it: that of `quick.rs`, for keys of eight bytes, and where writes replaced values lately a get by
//! hints, after which the value is written over in its record.
//!
//! PAPER: section 4.5.

use super::build::{Plan, Run};
use super::edit::Edit;
use super::hints::Hinted;
use super::layout::{FULL_WEIGHT, Leaf, MAX_KEY_BYTES};
use super::raw::{Memory, Trie};
use super::search::{Hint, leaf_hash};
use super::{CuckooTrie, Garbage, Pinned, Recycle};
use crate::api::{InsertError, Key, LoadError, Outcome, Rule, Written, take_batch};
use crate::arch::Baseline;
use crate::batch::DEPTH;
use crate::mem::AllocError;
use crate::mem::record::Record;
use crate::mem::word;
use crate::sync::backoff::Backoff;
use crate::sync::version::Locked;

impl<V: Send + Sync> CuckooTrie<V> {
    /// Writes `value` for `key` if `rule` allows it.
    pub(super) fn write<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        key: &[u8],
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        let (guard, thread) = (&pinned.guard, pinned.thread);
        if let Some((outcome, word)) = self.write_quickly(guard, thread, key, &value, rule) {
            return Outcome::written(Ok(outcome), word, Memory::read_short);
        }
        let hint = self.hint(key, &pinned.guard);
        let value = match hint.filter(|hint| self.may_be_replaced(*hint, key)) {
            Some(hint) => match self.replace_by_hint(hint, key, value, rule) {
                Ok(written) => return Ok(written),
                Err(value) => value,
            },
            None => value,
        };
        self.write_from(pinned, hint, key, value, rule)
    }

    /// Whether a write is likely to find the key's record by the trie's hints, and may write over the value.
    #[inline(always)]
    fn may_be_replaced(&self, hint: Hint<'_>, key: &[u8]) -> bool {
        self.replacing.is_likely() && word::is_inline::<V>() && hint.trie.is_hinted_for::<V>(key)
    }

    /// Replaces an inline value in the record that the hints of a trie lead to, if the rule allows it. Gives the value back if they do not
    /// lead to the key's.
    ///
    /// A get, and then the lock: where no bucket of the trie has changed since before the get, the record is the key's entry still, and the
    /// trie is the key's (T1, T9).
    #[inline(never)]
    pub(super) fn replace_by_hint<'g>(
        &'g self,
        Hint { trie, hash }: Hint<'g>,
        key: &[u8],
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, V> {
        trie.prefetch_hint(hash);
        trie.version().ask_to_lock();
        let seen = trie.version().begin();
        let found = match self.avx512 {
            Some(kernel) => trie.look_by_hint(&self.secret, kernel, key, hash),
            None => trie.look_by_hint(&self.secret, Baseline, key, hash),
        };
        let Hinted::Record(unit) = found else { return Err(value) };
        self.memory.prefetch_record(unit, Memory::reach_bytes::<V>(key.len()));
        let Some(locked) = trie.version().lock_soon() else { return Err(value) };
        if locked.is_dead() || !locked.seen().same_changes(seen) {
            return Err(value);
        }
        let record = self.memory.record::<V>(unit);
        if record.key() != key {
            return Err(value);
        }
        let old = record.value();
        if !rule.allows(old.word()) {
            return Ok(Written::Refused(Some(old), value));
        }
        record.set_word(word::pack(value));
        Ok(Written::Replaced(old))
    }

    /// As `write`, from where the search for the trie of `key` led.
    #[inline(never)]
    fn write_from<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        mut start: Option<Hint<'g>>,
        key: &[u8],
        mut value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        if key.len() > MAX_KEY_BYTES {
            let (key_bytes, max_bytes) = (key.len(), MAX_KEY_BYTES);
            return Err(InsertError::KeyTooLong { key_bytes, max_bytes, value });
        }
        let failed =
            |error: AllocError, value| InsertError::OutOfMemory { bytes: error.bytes, value };
        loop {
            let found = start.take().or_else(|| self.hint(key, &pinned.guard));
            let Some(Hint { trie, hash }) = found else {
                if let Rule::Same(_) = rule {
                    return Ok(Written::Refused(None, value));
                }
                match self.make_first(pinned) {
                    Ok(()) => continue,
                    Err(error) => return Err(failed(error, value)),
                }
            };
            trie.prefetch_hint(hash);
            let (trie, mut locked) = self.lock_trie_to_add(pinned, key, trie);
            let edit = self.edit(trie, key, false);
            for leaf in edit.leaves() {
                self.memory.prefetch_leaf(leaf, Memory::reach_bytes::<V>(key.len()));
            }
            if let Some(leaf) = self.leaf_of(&edit, key, hash) {
                let old = self.memory.value::<V>(leaf);
                if !rule.allows(old.word()) {
                    return Ok(Written::Refused(Some(old), value));
                }
                if trie.is_worn() {
                    match self.make_room(pinned, trie, locked, key, None) {
                        Ok(()) => continue,
                        Err(error) => return Err(failed(error, value)),
                    }
                }
                return match self.replace(pinned, &mut locked, &edit, leaf, value) {
                    Ok(garbage) => {
                        drop(locked);
                        self.replacing.note(hash, true);
                        self.retire(pinned, garbage);
                        Ok(Written::Replaced(old))
                    }
                    Err((error, value)) => Err(failed(error, value)),
                };
            }
            if let Rule::Same(_) = rule {
                return Ok(Written::Refused(None, value));
            }
            let mut refused = None;
            if !Self::is_full(trie) {
                let (leaf, kept) = if let Some(leaf) = Memory::short_leaf(key, &value) {
                    (leaf, Ok(value))
                } else {
                    let unit = match self.new_record(pinned.thread, key, value) {
                        Ok(unit) => unit,
                        Err((error, value)) => return Err(failed(error, value)),
                    };
                    (Leaf::Record { unit, hash }, Err(unit))
                };
                let key_of = |leaf| self.memory.key::<V>(leaf);
                match locked.change(|| edit.insert(leaf, hash, key_of)) {
                    Ok(()) => {
                        // Under the lock: afterwards another thread may write over it.
                        let new = self.memory.value(leaf);
                        drop(locked);
                        self.replacing.note(hash, false);
                        self.shards.added(pinned.thread, 1);
                        return Ok(Written::New(new));
                    }
                    Err(reason) => refused = Some(reason),
                }
                value = kept.unwrap_or_else(|unit| {
                    let value = self.memory.take_back(unit);
                    self.free_record::<V>(pinned.thread, unit);
                    value
                });
            }
            if let Err(error) = self.make_room(pinned, trie, locked, key, refused) {
                return Err(failed(error, value));
            }
        }
    }

    /// Replaces the value of an entry in a locked trie; returns what is garbage now.
    fn replace(
        &self,
        pinned: &Pinned<'_, V>,
        locked: &mut Locked<'_>,
        edit: &Edit<'_, '_>,
        leaf: Leaf,
        value: V,
    ) -> Result<Option<Garbage>, (AllocError, V)> {
        let Leaf::Record { unit, hash } = leaf else {
            if let Some(leaf) = Memory::short_leaf(&self.memory.key::<V>(leaf), &value) {
                locked.change(|| edit.replace(leaf));
            }
            return Ok(None);
        };
        let record = self.memory.record::<V>(unit);
        if const { word::is_inline::<V>() } {
            record.set_word(word::pack(value));
            return Ok(None);
        }
        let new = self.new_record(pinned.thread, record.key(), value)?;
        locked.change(|| edit.replace(Leaf::Record { unit: new, hash }));
        Ok(Some(Garbage::Record(unit)))
    }
}

impl<V> CuckooTrie<V> {
    /// Finds where a key is in a trie that is locked, or would be.
    #[inline]
    pub(super) fn edit<'g, 'a>(
        &'a self,
        trie: Trie<'g>,
        key: &'a [u8],
        to_remove: bool,
    ) -> Edit<'g, 'a> {
        match self.avx512 {
            Some(kernel) => Edit::find(trie, &self.secret, kernel, key, to_remove),
            None => Edit::find(trie, &self.secret, Baseline, key, to_remove),
        }
    }

    /// Locks the live trie of `key`.
    pub(super) fn lock_trie<'g>(&'g self, key: &[u8], hint: Trie<'g>) -> (Trie<'g>, Locked<'g>) {
        let mut trie = self.trie_of(key, hint);
        loop {
            let locked = trie.version().lock();
            if !locked.is_dead() {
                // Borders never change, so the trie is still the key's (T1).
                return (trie, locked);
            }
            drop(locked);
            trie = self.trie_of(key, trie);
        }
    }

    /// The same for who may replace a trie: if somebody replaces that of `key`, he makes room in another one meanwhile, once.
    #[inline]
    fn lock_trie_to_add<'g>(
        &'g self,
        pinned: &Pinned<'_, V>,
        key: &[u8],
        hint: Trie<'g>,
    ) -> (Trie<'g>, Locked<'g>) {
        hint.version().ask_to_lock();
        let mut trie = self.trie_of(key, hint);
        let (mut backoff, mut may_help) = (Backoff::new(), true);
        loop {
            match trie.version().try_lock() {
                Some(locked) if !locked.is_dead() => return (trie, locked),
                Some(_) => trie = self.trie_of(key, trie),
                None if backoff.is_long() && may_help => {
                    may_help = false;
                    self.make_room_ahead(pinned, trie);
                }
                None => backoff.wait(),
            }
        }
    }

    /// The key's record, if it is there.
    #[inline]
    pub(super) fn leaf_of(&self, edit: &Edit<'_, '_>, key: &[u8], hash: u32) -> Option<Leaf> {
        edit.leaf(hash).filter(|leaf| *self.memory.key::<V>(*leaf) == *key)
    }

    /// Makes the record of an entry.
    #[inline]
    fn new_record(&self, thread: usize, key: &[u8], value: V) -> Result<u64, (AllocError, V)> {
        let (records, units) = (&self.memory.records, Record::<V>::units(key.len()));
        let write = |unit, value| self.memory.write_record(unit, key, value);
        self.shards.fill(thread, records, units, value, write)
    }

    /// Gives back the memory of a record, whose value is gone, to the heap.
    pub(super) fn free_record<T>(&self, thread: usize, unit: u64) {
        let units = Record::<T>::units(self.memory.record::<T>(unit).key().len());
        self.shards.lock(thread).heap.free(&self.memory.records, unit, units);
    }
}

/// Nodes of a trie that is built from sorted input: room for some insertions before it is split.
const LOADED_WEIGHT: usize = FULL_WEIGHT * 3 / 4;

/// Keys after which a map that is being loaded counts what nodes they need.
const LOADED_KEYS: usize = if cfg!(any(shuttle, small_leaves)) { 8 } else { 2048 };

impl<V: Send + Sync> CuckooTrie<V> {
    /// Builds a map of entries whose keys ascend strictly.
    ///
    /// # Cost
    ///
    /// Each trie is written once, one after another, without a search or a split.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAscending`] and [`LoadError::KeyTooLong`] with the entry's number, and
    /// [`LoadError::OutOfMemory`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::{CuckooTrie, LoadError};
    ///
    /// let map = CuckooTrie::from_sorted([("ant", 1), ("bee", 2)])?;
    /// assert_eq!(map.pin().get(b"bee").as_deref(), Some(&2));
    /// let error = CuckooTrie::from_sorted([("bee", 2), ("ant", 1)]).unwrap_err();
    /// assert_eq!(error, LoadError::NotAscending { index: 1 });
    /// # Ok::<(), LoadError>(())
    /// ```
    pub fn from_sorted<K: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, LoadError> {
        let map = Self::new();
        let failed = |error: AllocError| LoadError::OutOfMemory { bytes: error.bytes };
        let pinned = map.pin();
        let mut loading = Loading { pinned: &pinned, run: Run::new(), low: 0, last: None };
        for (index, (key, value)) in entries.into_iter().enumerate() {
            // Asked for its bytes once: a second answer could be another one.
            let key = key.as_ref();
            let (key_bytes, max_bytes) = (key.len(), MAX_KEY_BYTES);
            if key_bytes > MAX_KEY_BYTES {
                return Err(LoadError::KeyTooLong { index, key_bytes, max_bytes });
            }
            if loading.last_key().is_some_and(|last| *last >= *key) {
                return Err(LoadError::NotAscending { index });
            }
            loading.push(key, value).map_err(failed)?;
            if loading.run.entries().len().is_multiple_of(LOADED_KEYS) {
                loading.build_full().map_err(failed)?;
            }
        }
        loading.build_rest().map_err(failed)?;
        drop(loading);
        drop(pinned);
        Ok(map)
    }
}

/// A map that is being loaded.
struct Loading<'g, 'm, V> {
    pinned: &'g Pinned<'m, V>,
    /// Entries that are in no trie yet.
    run: Run,
    /// The record of the border behind the last trie; 0 before the first.
    low: u64,
    last: Option<Trie<'g>>,
}

impl<'g, V: Send + Sync> Loading<'g, '_, V> {
    fn last_key(&self) -> Option<Key<'g>> {
        let last = self.run.entries().last()?;
        Some(self.pinned.map.memory.key::<V>(*last))
    }

    fn push(&mut self, key: &[u8], value: V) -> Result<(), AllocError> {
        let map = self.pinned.map;
        self.run.make_room(1)?;
        let leaf = if let Some(leaf) = Memory::short_leaf(key, &value) {
            leaf
        } else {
            let made = map.new_record(self.pinned.thread, key, value);
            let unit = made.map_err(|(error, _)| error)?;
            Leaf::Record { unit, hash: leaf_hash(map.table.seed().hash(key)) }
        };
        self.run.push(leaf);
        Ok(())
    }

    /// Builds tries of the first entries, as long as there are more than for one. Keeps one entry at least.
    fn build_full(&mut self) -> Result<(), AllocError> {
        let map = self.pinned.map;
        self.run.measure::<V>(&map.memory, 0);
        loop {
            let mut count = self.run.entries().len();
            if count < 2 || self.run.count_weight(0..count, 0) <= LOADED_WEIGHT {
                return Ok(());
            }
            count -= 1;
            while count > 1 && self.run.count_weight(0..count, 0) > LOADED_WEIGHT {
                count -= count / 8 + 1;
            }
            let cut = self.run.cut(count - count / 8..count + 1);
            let border = self.run.border::<V>(&map.memory, cut);
            let unit = map.new_border(self.pinned.thread, &border)?;
            self.append(cut, Some((unit, &border)))?;
            self.run.forget(cut);
            self.low = unit;
        }
    }

    /// Builds a trie of what is left.
    fn build_rest(&mut self) -> Result<(), AllocError> {
        self.build_full()?;
        let count = self.run.entries().len();
        if count > 0 {
            self.append(count, None)?;
            self.run.forget(count);
        }
        Ok(())
    }

    /// Links a trie of the first `count` entries behind the last one.
    fn append(&mut self, count: usize, high: Option<(u64, &[u8])>) -> Result<(), AllocError> {
        let map = self.pinned.map;
        let low = (self.low, map.memory.border(self.low));
        let trie =
            map.build(self.pinned.thread, &self.run, Plan { low, high, round: 0 }, 0..count)?;
        map.append_trie(self.pinned, self.last, trie, low.1)?;
        map.shards.added(self.pinned.thread, count as u64);
        self.last = Some(trie);
        Ok(())
    }
}

impl<V> Drop for Loading<'_, '_, V> {
    fn drop(&mut self) {
        // What is in no trie when loading fails.
        let records = core::iter::from_fn(|| self.run.pop()).filter_map(Leaf::unit);
        let items = records.map(Garbage::Record).collect();
        Recycle { map: self.pinned.map, thread: self.pinned.thread, items }.run();
    }
}

impl<V: Send + Sync> Pinned<'_, V> {
    /// Inserts all `entries` as [`insert_batch`](Self::insert_batch) does.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`insert`](Self::insert)s, up to 16 keys' at a time. Allocates nothing beyond what
    /// they do.
    ///
    /// # Errors
    ///
    /// Those of [`try_insert`](Self::try_insert), for the first entry that cannot be inserted. Entries before it are in the map, and
    /// none behind it.
    pub fn try_insert_batch<'k>(
        &self,
        entries: impl IntoIterator<Item = (&'k [u8], V)>,
    ) -> Result<(), InsertError<V>> {
        let (map, guard) = (self.map, &self.guard);
        let mut entries = entries.into_iter().fuse();
        loop {
            let (batch, taken) = take_batch::<_, DEPTH>(&mut entries);
            let asked = map.ask_quickly(guard, &batch);
            let hints: [Option<Hint<'_>>; DEPTH] =
                core::array::from_fn(|i| match (&batch[i], &asked[i]) {
                    (Some((key, _)), None) => {
                        let hint = map.hint(key, guard)?;
                        hint.trie.ask(&map.secret, key);
                        Some(hint)
                    }
                    _ => None,
                });
            for ((entry, asked), hint) in batch.into_iter().zip(asked).zip(hints) {
                let Some((key, value)) = entry else {
                    taken.resume();
                    return Ok(());
                };
                if asked.is_some_and(|asked| map.write_asked(self.thread, asked)) {
                    // Its bits are the leaf's now, and an inline value has nothing to drop.
                    continue;
                }
                map.write_from(self, hint, key, value, Rule::Always)?;
            }
        }
    }
}
