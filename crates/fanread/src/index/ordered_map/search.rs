//! Points: the value of a key.
//!
//! The hash of a key names a bucket, a tag there a record, and the record has key and value. An entry does not move inside a
//! segment of the directory, and what its record says is true: so a search needs no version, and repeats nothing.

use super::bucket::Bucket;
use super::layout::{SLOTS, lead_units, tag_of};
use super::raw::{Leaf, Number, Record, Stored, read_value};
use super::{OrderedMap, Pinned, Ref, State};
use crate::arch::same;
use crate::directory::{self, Bucket as _, Spelling};
use crate::list::Hint;
use crate::mem::word::Read;
use crate::prefix::Probe;
use crate::sync::epoch::{self, Guard};

/// The directory: tags and numbers of records.
pub(super) type Table = directory::Directory<Bucket>;
/// A part of it.
pub(super) type Segment = directory::Segment<Bucket>;

/// How many keys of a batch are looked for at once: their lines come into the second-level cache.
const BATCH: usize = if cfg!(miri) { 2 } else { 64 };

/// Up to how many have room of their own: to make that for many takes longer than a few searches.
const FEW: usize = if cfg!(miri) { 1 } else { 32 };

/// How many entries of a batch are inserted at once.
pub(super) const INSERTS: usize = if cfg!(miri) { 2 } else { 16 };

/// In place of a record's number: it takes a search to tell.
const UNKNOWN: Number = Number::MAX;

/// Slots that are looked at for an entry that chance picks. A segment with few entries is made smaller, so one in a dozen has one;
/// only in a map that has lost nearly all of very many segments are there fewer.
const MOST_TRIES: usize = 1 << 18;

impl<V: ?Sized + Stored> OrderedMap<V> {
    /// The hash of a key.
    #[inline(always)]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.list.table.seed().hash(key)
    }

    /// The hash of a record's key.
    #[inline(always)]
    pub(super) fn hash_of(&self, record: Record<'_, V>) -> u64 {
        record.hash_in_front().unwrap_or_else(|| self.hash(record.key()))
    }

    /// The hash that a record of a key has in front, if it has one.
    #[inline(always)]
    pub(super) fn hash_if_long(&self, key: &[u8]) -> u64 {
        if lead_units(key.len()) != 0 { self.hash(key) } else { 0 }
    }

    /// The record behind a number that was found.
    #[inline(always)]
    pub(super) fn record(&self, number: Number) -> Record<'_, V> {
        self.memory.record(number)
    }

    /// Finds the value of a key.
    ///
    /// How many of these are on their way at a time is a matter of how many instructions they have. So the most common length is by
    /// itself, and the way of most keys of that length calls nothing.
    #[inline(always)]
    pub(super) fn find<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<Read<'g, V>> {
        if let Ok(eight) = <[u8; 8]>::try_from(key) {
            let is_entry = |record: Record<'g, V>| record.is_named_entry_of_eight(eight);
            return self.find_as(key, guard, self.hash(&eight), is_entry);
        }
        self.find_as(key, guard, self.hash(key), |record| {
            same(record.key(), key) && record.is_named_entry()
        })
    }

    /// Finds the value of a key, most likely that of the first record that has the right tag.
    #[inline(always)]
    fn find_as<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        hash: u64,
        is_entry: impl FnOnce(Record<'g, V>) -> bool,
    ) -> Option<Read<'g, V>> {
        let segment = self.table.segment(hash, guard)?;
        let bucket = segment.bucket(segment.geometry.home(hash));
        let tagged = bucket.tagged(tag_of(hash));
        if tagged != 0 {
            let record = self.record(bucket.number(tagged.trailing_zeros() as usize));
            // All lines of a long record at once.
            record.ask_long(key.len());
            if is_entry(record) {
                return Some(read_value(record.word()));
            }
        } else if !bucket.is_passed(hash, Spelling::WHOLE) {
            return None;
        }
        self.find_further(segment, hash, key)
    }

    /// The same when that was another record, or the key may be in a bucket behind: from the home on, as if it had not been looked at.
    #[inline(never)]
    fn find_further<'g>(&'g self, segment: &Segment, hash: u64, key: &[u8]) -> Option<Read<'g, V>> {
        let (_, record) = self.find_record(segment, hash, key)?;
        read_named(record)
    }

    /// Finds the record of a key that is in the directory, or was there a moment ago.
    #[inline(always)]
    pub(super) fn find_record<'g>(
        &'g self,
        segment: &Segment,
        hash: u64,
        key: &[u8],
    ) -> Option<(Number, Record<'g, V>)> {
        // Most are in their home, and what is absent seldom seems to have gone past it.
        let home = segment.geometry.home(hash);
        let bucket = segment.bucket(home);
        if let Some((slot, record)) = self.find_in(bucket, hash, key) {
            return Some((slot.1, record));
        }
        if !bucket.is_passed(hash, Spelling::WHOLE) {
            return None;
        }
        self.find_beyond(segment, home, hash, key)
    }

    /// The same in the buckets behind the home.
    #[inline(never)]
    fn find_beyond<'g>(
        &'g self,
        segment: &Segment,
        home: usize,
        hash: u64,
        key: &[u8],
    ) -> Option<(Number, Record<'g, V>)> {
        for at in segment.geometry.window(home).skip(1) {
            let bucket = segment.bucket(at);
            if let Some((slot, record)) = self.find_in(bucket, hash, key) {
                return Some((slot.1, record));
            }
            if !bucket.is_passed(hash, Spelling::WHOLE) {
                return None;
            }
        }
        None
    }

    /// Finds the record of a key in a bucket, and its slot and number.
    #[inline(always)]
    pub(super) fn find_in<'g>(
        &'g self,
        bucket: &Bucket,
        hash: u64,
        key: &[u8],
    ) -> Option<((usize, Number), Record<'g, V>)> {
        let mut found = bucket.tagged(tag_of(hash));
        while found != 0 {
            let slot = found.trailing_zeros() as usize;
            found &= found - 1;
            let number = bucket.number(slot);
            let record = self.record(number);
            // All lines of a long record at once.
            record.ask_long(key.len());
            if same(record.key(), key) {
                return Some(((slot, number), record));
            }
        }
        None
    }

    /// Asks for the line of a key's bucket.
    #[inline(always)]
    pub(super) fn ask(&self, hash: u64, guard: &Guard) {
        if let Some(segment) = self.table.segment(hash, guard) {
            segment.ask(hash);
        }
    }

    /// The same, and for the line behind it.
    #[inline(always)]
    pub(super) fn ask_wide(&self, hash: u64, guard: &Guard) {
        if let Some(segment) = self.table.segment(hash, guard) {
            segment.ask_wide(hash);
        }
    }

    /// Finds the record of a key by the directory, for who has the map for himself; from then on it is a recent one. Calls `meanwhile`
    /// while the lines where it may be are on their way.
    #[inline(never)]
    pub(super) fn find_live(
        &self,
        hash: u64,
        key: &[u8],
        meanwhile: impl FnOnce(),
    ) -> Option<Record<'_, V>> {
        let guard = &epoch::pin();
        let segment = self.table.segment(hash, guard);
        if let Some(segment) = segment {
            segment.ask_wide(hash);
        }
        meanwhile();
        let (number, record) = self.find_record(segment?, hash, key)?;
        if record.state() != State::Live {
            return None;
        }
        self.recent.put(hash, number);
        Some(record)
    }

    /// Where the list has a key, most likely; `None` in a map that never had an entry.
    #[inline(always)]
    pub(super) fn hint<'g>(&'g self, key: &[u8], probe: Probe<'_>) -> Option<Hint<Leaf<'g>>> {
        self.list.hint(&self.memory, key, probe)
    }
}

/// The value of a record that the directory named, if it was an entry then.
///
/// A record that is removed between the two loads was its key's entry until then, with this value. One that was replaced was
/// the entry when the directory was asked.
#[inline(always)]
pub(super) fn read_named<V: ?Sized + Stored>(record: Record<'_, V>) -> Option<Read<'_, V>> {
    record.is_named_entry().then(|| read_value(record.word()))
}

impl<V: ?Sized + Stored> Pinned<'_, V> {
    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// Two waits: the line of the key's bucket, then its record, of which all lines are asked for at once. A value with more than
    /// 8 bytes, or with something to drop, is in a box of its own: a wait more. An absent key costs one wait, and one key in twenty
    /// another's record.
    ///
    /// # Concurrency
    ///
    /// Takes no lock, stores nothing, and waits for nobody. Takes effect at some instant of the call.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::OrderedMap;
    ///
    /// let map = OrderedMap::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"wombat", 1);
    /// assert_eq!(pinned.get(b"wombat").as_deref(), Some(&1));
    /// assert!(pinned.get(b"womb").is_none());
    /// ```
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Ref<'_, V>> {
        self.map.find(key, &self.guard).map(Ref::new)
    }

    /// Looks up all `keys` and stores the answer for `keys[i]` in `found[i]`.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`get`](Self::get)s, those of 64 keys at once. Allocates nothing.
    ///
    /// # Concurrency
    ///
    /// Each key's lookup takes effect by itself, as a `get` at some instant of the call.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::OrderedMap;
    ///
    /// let map = OrderedMap::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"a", 1);
    /// let keys: [&[u8]; 2] = [b"a", b"b"];
    /// let mut found = [const { None }; 2];
    /// pinned.get_batch(&keys, &mut found);
    /// assert_eq!(found[0].as_deref(), Some(&1));
    /// assert!(found[1].is_none());
    /// ```
    #[track_caller]
    pub fn get_batch<'g>(&'g self, keys: &[&[u8]], found: &mut [Option<Ref<'g, V>>]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.map(Ref::new));
    }

    /// Looks up all `keys` and stores in `found[i]` whether `keys[i]` has a value; as [`get_batch`](Self::get_batch).
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn contains_batch(&self, keys: &[&[u8]], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.is_some());
    }

    /// Records of entries that chance picks: a bucket of any segment, a slot of it, and again if no entry is there. `below` gives
    /// a number below another. Ends when that found none for long.
    pub(super) fn draws(
        &self,
        mut below: impl FnMut(usize) -> usize,
    ) -> impl Iterator<Item = (Record<'_, V>, Read<'_, V>)> {
        let map = self.map;
        let (mut ends, mut buckets) = (Vec::new(), 0);
        for segment in map.table.names(&self.guard).into_iter().flat_map(|all| all.all(&self.guard))
        {
            buckets += segment.buckets();
            ends.push((buckets, segment));
        }
        core::iter::from_fn(move || {
            let tries = if buckets == 0 || map.shards.entries() == 0 { 0 } else { MOST_TRIES };
            (0..tries).find_map(|_| {
                let at = below(buckets * SLOTS);
                let (at, slot) = (at / SLOTS, at % SLOTS);
                let (end, segment) = ends[ends.partition_point(|(end, _)| *end <= at)];
                let bucket = segment.bucket(segment.buckets() - (end - at));
                if bucket.taken() >> slot & 1 == 0 {
                    return None;
                }
                let record = map.record(bucket.number(slot));
                read_named(record).map(|read| (record, read))
            })
        })
    }

    /// Looks up keys, as many at a time as there are, up to some.
    #[inline(always)]
    fn find_all<'g>(&'g self, keys: &[&[u8]], found: impl FnMut(usize, Option<Read<'g, V>>)) {
        if keys.len() <= FEW {
            self.find_some::<FEW>(keys, found);
        } else {
            self.find_some::<BATCH>(keys, found);
        }
    }

    /// Looks up keys, `MOST` at a time: their buckets are asked for, then the records that have the right tags.
    fn find_some<'g, const MOST: usize>(
        &'g self,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<Read<'g, V>>),
    ) {
        let map = self.map;
        let Some(names) = map.table.names(&self.guard) else {
            (0..keys.len()).for_each(|index| found(index, None));
            return;
        };
        let ask = |keys: &[&[u8]]| {
            let mut asked = [const { None::<(u64, &Segment)> }; MOST];
            for (place, key) in asked.iter_mut().zip(keys) {
                let hash = map.hash(key);
                let segment = names.segment(hash, &self.guard);
                segment.ask_many(hash);
                *place = Some((hash, segment));
            }
            asked
        };
        let mut chunks = keys.chunks(MOST);
        let mut next = chunks.next().map(|keys| (keys, ask(keys)));
        let mut at = 0;
        while let Some((keys, asked)) = next {
            // The record that has the right tag, most likely the key's; 0 if there is none, and so no entry.
            let mut likely = [0; MOST];
            for ((likely, asked), key) in likely.iter_mut().zip(&asked).zip(keys) {
                let Some((hash, segment)) = asked else { break };
                let bucket = segment.bucket(segment.geometry.home(*hash));
                let tagged = bucket.tagged(tag_of(*hash));
                if tagged != 0 {
                    *likely = bucket.number(tagged.trailing_zeros() as usize);
                    map.record(*likely).ask_many(key.len());
                } else if bucket.is_passed(*hash, Spelling::WHOLE) {
                    *likely = UNKNOWN;
                }
            }
            // The next buckets are on their way while the records are.
            next = chunks.next().map(|keys| (keys, ask(keys)));
            for ((likely, asked), key) in likely.iter().zip(&asked).zip(keys) {
                let Some((hash, segment)) = asked else { break };
                let mut record = None;
                if *likely != 0 {
                    record = (*likely != UNKNOWN).then(|| map.record(*likely));
                    if record.is_none_or(|record| !same(record.key(), key)) {
                        record = map.find_record(segment, *hash, key).map(|found| found.1);
                    }
                }
                found(at, record.and_then(read_named));
                at += 1;
            }
        }
    }
}

const _: () = assert!(SLOTS <= 32);
