//! Putting entries in.
//!
//! A writer holds the lock of its key's window of buckets for all steps: it writes a record that is still *coming*, leaves its
//! number in the key's leaf, then in a bucket, and last makes it live. So whatever is live is in both, and whoever finds a record
//! on either way asks the record itself whether it is an entry.
//!
//! A byte string is replaced by a new record, which goes into the leaf in the same way and then takes the old one's slot, while the leaf is
//! still locked: `docs/design/ordered-map.md` has the order of steps.

use super::layout::{MAX_KEY_BYTES, MOST_SORTED, lead_units};
use super::raw::{Garbage, Leaf, Number, Record, Stored, left_of, read_value};
use super::search::{INSERTS, Segment};
use super::{OrderedMap, Pinned, State};
use crate::api::{InsertError, LoadError, Options, Outcome, Rule, Written, take_batch};
use crate::arch::common_prefix;
use crate::directory::{Again, Held, Place};
use crate::list::{Hint, Leaf as _, Limits, slice_at};
use crate::mem::AllocError;
use crate::mem::boxed;
use crate::mem::word::Word;
use crate::prefix::Probe;
use crate::shards::Shard;
use crate::sync::backoff::Backoff;
use crate::sync::version::Locked;

impl<V: Send + Sync> OrderedMap<V> {
    /// Maps `key` to `value` if the rule allows it.
    #[inline]
    pub(super) fn write<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        key: &[u8],
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        let probe = self.list.table.probe(key, &pinned.guard);
        self.write_from(pinned, (key, probe), value, rule)
    }

    /// As `write`, for a key whose probe was made.
    #[inline]
    fn write_from<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        (key, probe): (&[u8], Probe<'_>),
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        if key.len() > MAX_KEY_BYTES {
            let (key_bytes, max_bytes) = (key.len(), MAX_KEY_BYTES);
            return Err(InsertError::KeyTooLong { key_bytes, max_bytes, value });
        }
        let word = match boxed::word_of_value(value) {
            Ok(word) => word,
            Err((AllocError { bytes }, value)) => {
                return Err(InsertError::OutOfMemory { bytes, value });
            }
        };
        let mut garbage = Vec::new();
        let outcome = self.put(pinned, (key, probe), word, rule, &mut garbage);
        // A value that was refused is its owner's before user code runs.
        let written = Outcome::written(outcome.map(|(outcome, _)| outcome), word, read_value);
        self.clear_up(pinned, garbage);
        written
    }
}

impl<V: ?Sized + Stored> OrderedMap<V> {
    /// Retires what a write has unlinked, and frees what readers have left. User code runs here, that panics or not: the write is done.
    #[inline]
    pub(super) fn clear_up(&self, pinned: &Pinned<'_, V>, garbage: Vec<Garbage<V>>) {
        if !garbage.is_empty() {
            self.retire(pinned, garbage);
        }
        if self.left.is_any() {
            self.free_left(pinned);
        }
    }

    /// Writes a value that is ready for a key, whose probe was made. Says what became of it, and which word is the key's now.
    #[inline]
    pub(super) fn put(
        &self,
        pinned: &Pinned<'_, V>,
        (key, probe): (&[u8], Probe<'_>),
        value: V::New<'_>,
        rule: Rule,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(Outcome, Word), AllocError> {
        let guard = &pinned.guard;
        let hash = probe.full_hash();
        let mut hint = None;
        let mut backoff = Backoff::new();
        loop {
            let Some(segment) = self.table.segment(hash, guard) else {
                if let Rule::Same(_) = rule {
                    return Ok((Outcome::Refused(None), core::ptr::null_mut()));
                }
                self.table.make_first(guard)?;
                // Before the first record, so that both fit into the first chunk.
                self.start_list(pinned)?;
                continue;
            };
            segment.ask(hash);
            segment.ask_to_lock(hash);
            let needs_leaf = V::MOVES || !self.replacing.is_likely();
            if hint.is_none() && needs_leaf && !matches!(rule, Rule::Same(_)) {
                // While the line of the bucket is on its way.
                hint = self.hint(key, probe);
                if let Some(Hint { leaf, .. }) = hint {
                    leaf.ask();
                }
            }
            let Ok(mut held) = segment.lock(hash) else {
                self.wait_for(guard, (segment, &mut backoff), garbage);
                continue;
            };
            let Ok((place, number)) = self.slot(segment, &mut held, hash, key) else {
                drop(held);
                backoff.wait();
                continue;
            };
            match place {
                Place::Entry(at) => {
                    let before = number;
                    let record = self.record(before);
                    let old = record.word();
                    if !rule.allows(old) {
                        return Ok((Outcome::Refused(Some(old)), old));
                    }
                    let (word, crowded) = if V::MOVES {
                        let (number, leaf, locked) =
                            self.add(pinned, (key, hash, hint), (value, Some(record)), garbage)?;
                        let next = self.record(number);
                        record.set_state(State::Replaced);
                        // From here on the other one is the entry. The leaf is not made anew as long as it is locked.
                        segment.replace(&held, at, (hash, number));
                        next.set_state(State::Live);
                        self.recent.renew(hash, before, number);
                        let crowded = leaf.count_removed() * 4 > leaf.sorted() + leaf.fresh();
                        drop(locked);
                        (next.word(), crowded.then_some(leaf))
                    } else {
                        self.replacing.note(hash as u32, true);
                        (record.set(value), None)
                    };
                    drop(held);
                    garbage.extend(left_of(&self.apart, record, old).map(Garbage::Value));
                    if let Some(leaf) = crowded {
                        self.clean(pinned, leaf, garbage);
                    }
                    return Ok((Outcome::Replaced(old), word));
                }
                _ if matches!(rule, Rule::Same(_)) => {
                    return Ok((Outcome::Refused(None), core::ptr::null_mut()));
                }
                Place::Free(at, gone) => {
                    let (number, _, locked) =
                        self.add(pinned, (key, hash, hint), (value, None), garbage)?;
                    drop(locked);
                    segment.put(&held, at, gone, (hash, number));
                    // From here on it is an entry.
                    let record = self.record(number);
                    record.set_state(State::Live);
                    if V::MOVES {
                        self.recent.put(hash, number);
                    }
                    drop(held);
                    self.replacing.note(hash as u32, false);
                    self.shards.added(pinned.thread, 1);
                    return Ok((Outcome::New, record.word()));
                }
                Place::Full => {
                    drop(held);
                    self.rebuild(guard, (segment, &mut backoff), garbage)?;
                }
            }
        }
    }

    /// Makes a record, maybe in the place of another one, and leaves its number in the leaf of its key, which is still locked then.
    #[inline]
    fn add<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        (key, hash, mut hint): (&[u8], u64, Option<Hint<Leaf<'g>>>),
        (value, old): (V::New<'_>, Option<Record<'_, V>>),
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(Number, Leaf<'g>, Locked<'g>), AllocError> {
        let number = self.new_record(pinned.thread, (key, hash), value, old)?;
        let mut place = || {
            loop {
                let probe = || self.list.table.probe(key, &pinned.guard);
                let Some(known) = hint.take().or_else(|| self.hint(key, probe())) else {
                    self.start_list(pinned)?;
                    continue;
                };
                let (leaf, locked) = self.list.lock_leaf(&self.memory, key, known);
                if leaf.push(number, slice_at(key, leaf.header().prefix_bytes())) {
                    return Ok((number, leaf, locked));
                }
                self.add_shards();
                self.renew(pinned, leaf, locked, garbage)?;
            }
        };
        place().inspect_err(|_| self.discard_record(pinned.thread, number))
    }
}

impl<V: ?Sized + Stored> OrderedMap<V> {
    /// Finds the slot and the number of a key's record for a writer, or a slot for it.
    ///
    /// # Errors
    ///
    /// If another writer is at work where the window goes on.
    #[inline(always)]
    pub(super) fn slot<'g>(
        &self,
        segment: &'g Segment,
        held: &mut Held<'g>,
        hash: u64,
        key: &[u8],
    ) -> Result<(Place, Number), Again> {
        let mut number = 0;
        let place = segment.place(held, hash, |bucket, _| {
            let ((slot, found), _) = self.find_in(bucket, hash, key)?;
            number = found;
            Some(slot)
        })?;
        Ok((place, number))
    }

    /// Makes a record that is coming, or arriving in the place of another one.
    pub(super) fn new_record(
        &self,
        thread: usize,
        (key, hash): (&[u8], u64),
        value: V::New<'_>,
        old: Option<Record<'_, V>>,
    ) -> Result<Number, AllocError> {
        let least = V::units(key.len(), value);
        let own = old.map_or(least, |old| V::units_after(old, least));
        let lead = lead_units(key.len());
        let units = lead + own;
        let mut shard = self.shards.lock(thread);
        // Before leaves are cut up, or fresh memory is taken.
        let is_to_cut = !shard.heap.has_used(units) && shard.free.may_give(units);
        let is_short = shard.heap.is_short_of(units);
        if is_to_cut || is_short {
            self.shards.trade(&mut shard, |own, other| own.heap.trade(&mut other.heap, units));
        }
        if is_short {
            self.left.note_short(thread, &shard);
        }
        let Shard { heap, free, .. } = &mut *shard;
        let unit = heap.allocate_from(&self.memory.units, units, |least| free.give(least))?;
        let Ok(number) = Number::try_from(unit + lead) else {
            shard.heap.free(&self.memory.units, unit, units);
            return Err(AllocError { bytes: units as usize * 8 });
        };
        drop(shard);
        let state = if old.is_some() { State::Arriving } else { State::Coming };
        self.memory.write_record::<V>(number, (key, hash), value, (state, own - least));
        Ok(number)
    }

    /// Gives back a record that nobody else has seen. Its value is the caller's.
    fn discard_record(&self, thread: usize, number: Number) {
        let (unit, units) = self.memory.piece::<V>(number);
        self.shards.lock(thread).heap.free(&self.memory.units, unit, units);
    }

    /// Puts the first leaf into an empty list.
    #[cold]
    fn start_list(&self, pinned: &Pinned<'_, V>) -> Result<(), AllocError> {
        let limits = Limits { low: (0, &[]), high: None };
        let leaf = self.new_leaf_of_numbers(pinned.thread, limits, 0, |_| 0)?;
        if !self.list.start(leaf) {
            self.discard_leaf(pinned.thread, leaf);
        }
        Ok(())
    }
}

/// Entries of a leaf that is built from sorted input: nearly full, with room for some insertions before it splits.
/// The cut is made where the border is shortest between these two numbers.
const LOADED_ENTRIES: core::ops::RangeInclusive<usize> =
    MOST_SORTED * 13 / 16..=MOST_SORTED * 15 / 16;

/// Records on their way into a leaf of a map that is being loaded. If user code panics, their values are dropped.
struct Loading<'m, V: ?Sized + Stored> {
    map: &'m OrderedMap<V>,
    thread: usize,
    numbers: Vec<Number>,
}

impl<V: ?Sized + Stored> Loading<'_, V> {
    fn key(&self, at: usize) -> &[u8] {
        self.map.record(self.numbers[at]).key()
    }
}

impl<V: ?Sized + Stored> Drop for Loading<'_, V> {
    fn drop(&mut self) {
        let left = self.numbers.drain(..).filter_map(|number| {
            let record: Record<'_, V> = self.map.record(number);
            let left = left_of(&self.map.apart, record, record.word());
            self.map.discard_record(self.thread, number);
            left
        });
        // A vector drops all that it has, even if one of them panics.
        drop(left.collect::<Vec<_>>());
    }
}

impl<V: Send + Sync> OrderedMap<V> {
    /// Builds a map of entries whose keys ascend strictly.
    ///
    /// # Cost
    ///
    /// Each leaf is written once, one after another; the directory's lines are those of as many [`insert`](Pinned::insert)s,
    /// those of 16 entries at once.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAscending`] and [`LoadError::KeyTooLong`] with the entry's number, and
    /// [`LoadError::OutOfMemory`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::{LoadError, OrderedMap};
    ///
    /// let map = OrderedMap::from_sorted([("ant", 1), ("bee", 2)])?;
    /// assert_eq!(map.pin().get(b"bee").as_deref(), Some(&2));
    /// let error = OrderedMap::from_sorted([("bee", 2), ("ant", 1)]).unwrap_err();
    /// assert_eq!(error, LoadError::NotAscending { index: 1 });
    /// # Ok::<(), LoadError>(())
    /// ```
    pub fn from_sorted<K: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, LoadError> {
        let entries = entries.into_iter();
        let map = Self::with_options(Options::new().capacity(entries.size_hint().0));
        Self::load(map, entries, |map, thread, key, value| {
            let word = boxed::word_of_value(value).map_err(|(error, _)| error)?;
            let number = map.new_record(thread, (key, map.hash_if_long(key)), word, None);
            let number = number.inspect_err(|_| drop(boxed::value_of_word::<V>(word)))?;
            Ok((number, ()))
        })
    }
}

impl<V: ?Sized + Stored> OrderedMap<V> {
    /// Fills an empty map with entries whose keys ascend strictly; `new` makes their records, and hands back what is to be dropped.
    pub(super) fn load<K: AsRef<[u8]>, W, D>(
        map: Self,
        entries: impl IntoIterator<Item = (K, W)>,
        new: impl Fn(&Self, usize, &[u8], W) -> Result<(Number, D), AllocError>,
    ) -> Result<Self, LoadError> {
        let thread = crate::sync::thread::index();
        let mut ahead = Loading { map: &map, thread, numbers: Vec::new() };
        let mut low: (u64, Vec<u8>) = (0, Vec::new());
        let mut last = None;
        for (index, (key, value)) in entries.into_iter().enumerate() {
            // Asked for its bytes once: a second answer could be another.
            let key = key.as_ref();
            if key.len() > MAX_KEY_BYTES {
                let (key_bytes, max_bytes) = (key.len(), MAX_KEY_BYTES);
                return Err(LoadError::KeyTooLong { index, key_bytes, max_bytes });
            }
            let before = ahead.numbers.len().checked_sub(1).map(|at| ahead.key(at));
            if before.is_some_and(|before| before >= key) {
                return Err(LoadError::NotAscending { index });
            }
            let (number, copied) = new(&map, ahead.thread, key, value)?;
            ahead.numbers.push(number);
            // User code, which may panic: what the record has is not lost then.
            drop(copied);
            if ahead.numbers.len() > *LOADED_ENTRIES.end() + 1 {
                let common = |at: usize| common_prefix(ahead.key(at - 1), ahead.key(at));
                let cut = LOADED_ENTRIES.min_by_key(|at| (common(*at), usize::MAX - at));
                last = Some(map.load_leaf(&mut ahead, cut.unwrap_or(1), &mut low, last)?);
            }
        }
        let count = ahead.numbers.len();
        if count > 0 {
            map.load_leaf(&mut ahead, count, &mut low, last)?;
        }
        drop(ahead);
        Ok(map)
    }

    /// A handle, for a map of any kind.
    pub(super) fn pin_any(&self) -> Pinned<'_, V> {
        let guard = crate::sync::epoch::pin();
        Pinned { map: self, guard, thread: crate::sync::thread::index() }
    }

    /// Appends a leaf of the first `count` records of `ahead` behind `last`, and moves `low` to its upper border.
    fn load_leaf<'g>(
        &'g self,
        ahead: &mut Loading<'_, V>,
        count: usize,
        low: &mut (u64, Vec<u8>),
        last: Option<Leaf<'g>>,
    ) -> Result<Leaf<'g>, AllocError> {
        // For each leaf anew: what the directory gives up as it grows is of use again.
        let pinned = &self.pin_any();
        let mut high = (0, Vec::new());
        if count < ahead.numbers.len() {
            let common = common_prefix(ahead.key(count - 1), ahead.key(count));
            high.1 = ahead.key(count)[..=common].to_vec();
            high.0 = self.new_border(pinned.thread, &high.1)?;
        }
        let limits =
            Limits { low: (low.0, &low.1), high: (high.0 != 0).then_some((high.0, &high.1)) };
        let leaf =
            self.new_leaf_of_numbers(pinned.thread, limits, count, |at| ahead.numbers[at])?;
        let piece = self.list.append(&self.memory, last, leaf);
        // The leaf's from here on.
        let numbers: Vec<Number> = ahead.numbers.drain(..count).collect();
        for number in &numbers {
            self.record(*number).set_state(State::Live);
        }
        self.shards.added(pinned.thread, count as u64);
        let piece = piece?.map(Garbage::Prefixes);
        let mut garbage: Vec<Garbage<V>> = piece.into_iter().collect();
        for numbers in numbers.chunks(INSERTS) {
            self.load_numbers(pinned, numbers, &mut garbage)?;
        }
        // Garbage or none: what was given up before becomes free only when somebody asks.
        self.retire(pinned, garbage);
        *low = high;
        Ok(leaf)
    }

    /// Puts records into the directory of a map that is being loaded.
    fn load_numbers(
        &self,
        pinned: &Pinned<'_, V>,
        numbers: &[Number],
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<(), AllocError> {
        let guard = &pinned.guard;
        let mut hashes = [0; INSERTS];
        for (hash, number) in hashes.iter_mut().zip(numbers) {
            *hash = self.hash_of(self.record(*number));
            self.ask(*hash, guard);
        }
        for (hash, number) in hashes.into_iter().zip(numbers) {
            let mut backoff = Backoff::new();
            loop {
                let Some(segment) = self.table.segment(hash, guard) else {
                    self.table.make_first(guard)?;
                    continue;
                };
                let Ok(mut held) = segment.lock(hash) else {
                    self.wait_for(guard, (segment, &mut backoff), garbage);
                    continue;
                };
                // No key is there yet that is to come.
                match segment.place(&mut held, hash, |_, _| None) {
                    Ok(Place::Free(at, gone)) => {
                        segment.put(&held, at, gone, (hash, *number));
                        break;
                    }
                    Ok(_) => {
                        drop(held);
                        self.rebuild(guard, (segment, &mut backoff), garbage)?;
                    }
                    Err(Again) => backoff.wait(),
                }
            }
        }
        Ok(())
    }
}

impl<V: Send + Sync> Pinned<'_, V> {
    /// Inserts all `entries` as [`insert_batch`](Self::insert_batch) does.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`insert`](Self::insert)s, those of 16 keys at once.
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
            let (mut batch, taken) = take_batch::<_, INSERTS>(&mut entries);
            let probes = batch.each_ref().map(|entry| {
                let probe = map.list.table.probe(entry.as_ref()?.0, &self.guard);
                map.ask(probe.full_hash(), &self.guard);
                Some(probe)
            });
            for (entry, probe) in batch.iter().zip(probes) {
                if let (Some((key, _)), Some(probe)) = (entry, probe)
                    && let Some(Hint { leaf, .. }) = map.hint(key, probe)
                {
                    leaf.ask();
                }
            }
            for (entry, probe) in batch.iter_mut().zip(probes) {
                let (Some((key, value)), Some(probe)) = (entry.take(), probe) else {
                    taken.resume();
                    return Ok(());
                };
                map.write_from(self, (key, probe), value, Rule::Always)?;
            }
        }
    }
}
