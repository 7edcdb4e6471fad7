//! Writing an entry: new, replaced, or only under a condition.
//!
//! One function serves all of them. It finds the leaf as a reader does, locks it, and publishes the entry by one
//! store of a word after everything the word names. A full leaf is split first (`resize.rs`).
//!
//! PAPER: Algorithm 2, `SET`; `leafInsert` with tags by home line instead of a sorted tag array.

use std::collections::VecDeque;

use super::layout::{
    FITS_IN_ANY, INLINE_BYTES, LINE_WORDS, MAX_KEY_BYTES, SLOTS, Size, Slot, Tag, Word, full_at,
    line_behind,
};
use super::raw::{Leaf, read_inline};
use super::resize::{Draft, Plan};
use super::search::{Form, Hint};
use super::{DropValues, Garbage, Pinned, Wormhole};
use crate::api::{InsertError, LoadError, Rule, Written, take_batch};
use crate::arch::common_prefix;
use crate::batch::DEPTH;
use crate::list::Limits;
use crate::mem::AllocError;
use crate::mem::record::Record;
use crate::mem::word::{self, Read};
use crate::sync::version::Locked;

impl<V: Send + Sync> Wormhole<V> {
    /// Writes `value` for `key` if `rule` allows it.
    pub(super) fn write<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        key: &[u8],
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        let hint = self.hint_to_write(key, &pinned.guard);
        self.write_from(pinned, hint, key, value, rule)
    }

    /// As `write`, from where steps 1 and 2 of the search for `key` led.
    fn write_from<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        mut start: Option<(Tag, Hint<'g>)>,
        key: &[u8],
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        if key.len() > MAX_KEY_BYTES {
            let (key_bytes, max_bytes) = (key.len(), MAX_KEY_BYTES);
            return Err(InsertError::KeyTooLong { key_bytes, max_bytes, value });
        }
        let failed =
            |error: AllocError, value| InsertError::OutOfMemory { bytes: error.bytes, value };
        loop {
            let found = start.take().or_else(|| self.hint_to_write(key, &pinned.guard));
            let Some((tag, hint)) = found else {
                if let Rule::Same(_) = rule {
                    return Ok(Written::Refused(None, value));
                }
                match self.make_first(pinned) {
                    Ok(()) => continue,
                    Err(error) => return Err(failed(error, value)),
                }
            };
            let (leaf, locked) = self.list.lock_leaf(&self.memory, key, hint);
            let form = Self::form(leaf, key, tag);
            if let Some((slot, word)) = self.look_locked(leaf, key, tag, form) {
                let old = self.read_entry(leaf, slot, word);
                if !rule.allows(old.word()) {
                    return Ok(Written::Refused(Some(old), value));
                }
                return match self.replace(pinned, leaf, slot, word, value) {
                    Ok(garbage) => {
                        drop(locked);
                        self.retire(pinned, garbage);
                        Ok(Written::Replaced(old))
                    }
                    Err((error, value)) => Err(failed(error, value)),
                };
            }
            if let Rule::Same(_) = rule {
                return Ok(Written::Refused(None, value));
            }
            if leaf.meta().count() >= full_at(leaf.lines()) {
                match self.make_room(pinned, leaf, locked, key) {
                    Ok(()) => continue,
                    Err(error) => return Err(failed(error, value)),
                }
            }
            return match self.add(pinned, (leaf, &locked), (key, tag, form), value) {
                Ok(new) => {
                    drop(locked);
                    self.shards.added(pinned.thread, 1);
                    Ok(Written::New(new))
                }
                Err((error, value)) => Err(failed(error, value)),
            };
        }
    }

    /// Puts an entry into a free slot of a locked leaf.
    #[inline(always)]
    fn add<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        (leaf, locked): (Leaf<'_>, &Locked<'_>),
        (key, tag, form): (&[u8], Tag, Form),
        value: V,
    ) -> Result<Read<'g, V>, (AllocError, V)> {
        let (slot, step) = self.free_slot(leaf, tag);
        if let Some(word) = form.inline_word() {
            let value = word::pack(value);
            locked.reuse();
            leaf.set_value::<V>(slot, value);
            publish::<V>(leaf, tag, slot, step, word);
            return Ok(read_inline(value));
        }
        let unit = self.new_record(pinned.thread, key, value)?;
        let new = self.memory.record::<V>(unit).value();
        locked.reuse();
        let units = Record::<V>::units(key.len());
        publish::<V>(leaf, tag, slot, step, Word::of_record(tag, unit, units));
        Ok(new)
    }

    /// Replaces the value of an entry in a locked leaf; returns what is garbage now.
    fn replace(
        &self,
        pinned: &Pinned<'_, V>,
        leaf: Leaf<'_>,
        slot: Slot,
        word: Word,
        value: V,
    ) -> Result<Option<Garbage>, (AllocError, V)> {
        let Some(unit) = word.record() else {
            leaf.set_value::<V>(slot, word::pack(value));
            return Ok(None);
        };
        let record = self.memory.record::<V>(unit);
        if const { word::is_inline::<V>() } {
            record.set_word(word::pack(value));
            return Ok(None);
        }
        let new = self.new_record(pinned.thread, record.key(), value)?;
        let units = Record::<V>::units(record.key().len());
        leaf.set_word::<V>(slot, Word::of_record(word.tag(), new, units));
        Ok(Some(Garbage::Record(unit)))
    }

    /// Makes the first leaf of an empty map.
    #[cold]
    fn make_first(&self, pinned: &Pinned<'_, V>) -> Result<(), AllocError> {
        let plan = Plan { limits: Limits { low: (0, &[]), high: None }, size: Size::Small };
        let leaf = self.draft_leaf(pinned.thread, &[], plan, &mut Draft::default())?;
        if !self.list.start(leaf) {
            self.discard_leaf(pinned.thread, leaf);
        }
        Ok(())
    }
}

impl<V> Wormhole<V> {
    /// The value of an entry in a locked leaf.
    pub(super) fn read_entry<'g>(&'g self, leaf: Leaf<'g>, slot: Slot, word: Word) -> Read<'g, V> {
        match word.record() {
            Some(unit) => self.memory.record::<V>(unit).value(),
            None => read_inline(leaf.value::<V>(slot)),
        }
    }

    /// A free slot for a tag and how far it is from the home line. The leaf is not full.
    #[inline(always)]
    fn free_slot(&self, leaf: Leaf<'_>, tag: Tag) -> (Slot, usize) {
        let lines = leaf.lines();
        let mut line = tag.home(lines);
        for step in 0..lines {
            let free = self.match_words(leaf.words::<V>(line), Word::FREE.0, !0);
            if free != 0 {
                return (line * LINE_WORDS + free.trailing_zeros() as usize, step);
            }
            line = line_behind(line, lines);
        }
        unreachable!("a leaf that is not full has a free slot")
    }

    /// Makes the record of an entry.
    #[inline]
    fn new_record(&self, thread: usize, key: &[u8], value: V) -> Result<u64, (AllocError, V)> {
        let (records, units) = (&self.memory.records, Record::<V>::units(key.len()));
        let write = |unit, value| self.memory.write_record(unit, key, value);
        self.shards.fill(thread, records, units, value, write)
    }
}

/// Whether a map of `V` keeps short keys and their values in leaves.
pub(super) const fn is_inline_map<V>() -> bool {
    word::is_inline::<V>()
}

/// Makes an entry findable whose value or record is in place. The caller holds the lock, or has not published the
/// leaf.
#[inline(always)]
fn publish<V>(leaf: Leaf<'_>, tag: Tag, slot: Slot, step: usize, word: Word) {
    // Reach and count first: whoever has seen the word looks as far as it is (L4), and a range that he begins then looks for
    // what the order does not list. A count that is ahead of the word has a range look in vain, and a merge put off.
    let meta = leaf.meta().with_reach(tag, tag.home(leaf.lines()), step);
    leaf.set_meta(meta.with_counts(meta.count() + 1, meta.sorted()));
    leaf.set_word::<V>(slot, word);
}

/// Entries of a leaf that is built from sorted input: nearly full, with room for some insertions before it splits.
/// The cut is made where the border is shortest between these two numbers.
const LOADED_ENTRIES: core::ops::RangeInclusive<usize> =
    FITS_IN_ANY * 13 / 16..=FITS_IN_ANY * 15 / 16;

/// The bytes of a key that had no more than it may have when it came. Keys are user code, and this one is asked again.
fn bytes_of(key: &impl AsRef<[u8]>) -> &[u8] {
    let bytes = key.as_ref();
    &bytes[..bytes.len().min(MAX_KEY_BYTES)]
}

impl<V: Send + Sync> Wormhole<V> {
    /// Builds a map of entries whose keys ascend strictly.
    ///
    /// # Cost
    ///
    /// Each leaf is written once, one after another, without a search or a split.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAscending`] and [`LoadError::KeyTooLong`] with the entry's number, and
    /// [`LoadError::OutOfMemory`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::{LoadError, Wormhole};
    ///
    /// let map = Wormhole::from_sorted([("ant", 1), ("bee", 2)])?;
    /// assert_eq!(map.pin().get(b"bee").as_deref(), Some(&2));
    /// let error = Wormhole::from_sorted([("bee", 2), ("ant", 1)]).unwrap_err();
    /// assert_eq!(error, LoadError::NotAscending { index: 1 });
    /// # Ok::<(), LoadError>(())
    /// ```
    pub fn from_sorted<K: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, LoadError> {
        let map = Self::new();
        let mut entries = entries.into_iter().fuse();
        let mut ahead: VecDeque<(K, V)> = VecDeque::with_capacity(SLOTS);
        let (mut index, mut done) = (0, false);
        let mut low: (u64, Vec<u8>) = (0, Vec::new());
        let mut last: Option<Leaf<'_>> = None;
        let pinned = map.pin();
        loop {
            while !done && ahead.len() <= *LOADED_ENTRIES.end() {
                let Some((key, value)) = entries.next() else {
                    done = true;
                    break;
                };
                let key_bytes = key.as_ref().len();
                if key_bytes > MAX_KEY_BYTES {
                    return Err(LoadError::KeyTooLong {
                        index,
                        key_bytes,
                        max_bytes: MAX_KEY_BYTES,
                    });
                }
                if ahead.back().is_some_and(|(before, _)| bytes_of(before) >= bytes_of(&key)) {
                    return Err(LoadError::NotAscending { index });
                }
                ahead.push_back((key, value));
                index += 1;
            }
            if ahead.is_empty() {
                break;
            }
            let count = if ahead.len() <= *LOADED_ENTRIES.end() {
                ahead.len()
            } else {
                let common =
                    |at: usize| common_prefix(bytes_of(&ahead[at - 1].0), bytes_of(&ahead[at].0));
                LOADED_ENTRIES.min_by_key(|at| (common(*at), usize::MAX - at)).unwrap_or(1)
            };
            let loaded = map.load_leaf(&pinned, &mut ahead, count, &mut low, last);
            last = Some(loaded.map_err(|error| LoadError::OutOfMemory { bytes: error.bytes })?);
        }
        drop(pinned);
        Ok(map)
    }

    /// Appends a leaf of the first `count` entries of `ahead` behind `last`, and moves `low` to its upper border.
    fn load_leaf<'g, K: AsRef<[u8]>>(
        &'g self,
        pinned: &Pinned<'_, V>,
        ahead: &mut VecDeque<(K, V)>,
        count: usize,
        low: &mut (u64, Vec<u8>),
        last: Option<Leaf<'g>>,
    ) -> Result<Leaf<'g>, AllocError> {
        let thread = pinned.thread;
        let mut high = (0, Vec::new());
        if let Some((next, _)) = ahead.get(count) {
            let common = common_prefix(bytes_of(&ahead[count - 1].0), bytes_of(next));
            high.1 = bytes_of(next)[..=common].to_vec();
            high.0 = self.new_border(thread, &high.1)?;
        }
        let bounded = high.0 != 0;
        let size = if bounded { Size::Large } else { Size::for_entries(count) };
        let limits = Limits { low: (low.0, &low.1), high: bounded.then_some((high.0, &high.1)) };
        let plan = Plan { limits, size };
        let at = limits.prefix_bytes();
        let short = |(key, _): &&(K, V)| bytes_of(key).len() <= at + INLINE_BYTES;
        let mut filling = self.start_leaf(thread, plan, || {
            2 * ahead.iter().take(count).filter(short).count() >= count
        })?;
        // Keys are user code: if one panics, the values that are in the leaf already are dropped.
        let mut placed =
            DropValues { map: self, limbos: Vec::new(), leaf: Some(filling.leaf), at: 0 };
        let mut order = [0; SLOTS];
        for (number, place) in order[..count].iter_mut().enumerate() {
            let Some((key, value)) = ahead.pop_front() else { break };
            // Asked for its bytes once: a second answer could be longer than the record.
            let key = bytes_of(&key);
            let tag = Tag::of(self.seed().hash(key));
            let inline = Word::of_inline(&key[at..]).filter(|_| filling.shape.inline);
            let slot = match inline {
                Some(word) => filling.put::<V>(tag, word, Some(word::pack(value))),
                None => match self.new_record(thread, key, value) {
                    Ok(record) => {
                        let units = Record::<V>::units(key.len());
                        filling.put::<V>(tag, Word::of_record(tag, record, units), None)
                    }
                    Err((error, _)) => {
                        // What is in the leaf so far belongs to the map and is dropped with it.
                        placed.leaf = None;
                        self.append_leaf(pinned, filling.finish(&order, number), last)?;
                        return Err(error);
                    }
                },
            };
            *place = slot as u8;
        }
        placed.leaf = None;
        let leaf = filling.finish(&order, count);
        self.append_leaf(pinned, leaf, last)?;
        self.shards.added(thread, count as u64);
        *low = high;
        Ok(leaf)
    }

    /// Links a leaf behind the last one of a map that is being loaded.
    fn append_leaf(
        &self,
        pinned: &Pinned<'_, V>,
        leaf: Leaf<'_>,
        last: Option<Leaf<'_>>,
    ) -> Result<(), AllocError> {
        if let Some(piece) = self.list.append(&self.memory, last, leaf)? {
            self.retire(pinned, [Garbage::Table(piece)]);
        }
        Ok(())
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
        let map = self.map;
        let mut entries = entries.into_iter().fuse();
        loop {
            let (mut batch, taken) = take_batch::<_, DEPTH>(&mut entries);
            let probes = batch
                .each_ref()
                .map(|entry| entry.as_ref().map(|(key, _)| (*key, map.probe(key, &self.guard))));
            let hints = probes.map(|probe| {
                let (key, (tag, probe)) = probe?;
                Some((tag, map.route_many(key, tag, probe)?))
            });
            for (entry, hint) in batch.iter_mut().zip(hints) {
                let Some((key, value)) = entry.take() else {
                    taken.resume();
                    return Ok(());
                };
                map.write_from(self, hint, key, value, Rule::Always)?;
            }
        }
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    use shuttle::thread;

    use super::*;
    use crate::api::Options;
    use crate::sync::shim::explore;

    /// The leaf is in order, so that a range looks for no more than it lists.
    #[test]
    fn shuttle_a_range_meets_what_was_found_before_it_was_made() {
        let scene = || {
            let map = Wormhole::<u32>::with_options(Options::new().seed(1));
            map.pin().insert(b"a", 0);
            assert_eq!(map.pin().iter().count(), 1);
            thread::scope(|scope| {
                scope.spawn(|| map.pin().insert(b"b", 1).is_none());
                let pinned = map.pin();
                if pinned.get(b"b").is_some() {
                    assert_eq!(pinned.iter().count(), 2);
                }
            });
        };
        explore(1, scene);
    }
}
