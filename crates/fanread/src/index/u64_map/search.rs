//! Points: the value of a key.

use core::ops::Bound;

use super::raw::read_value;
use super::row::{ROW, Row, unrolled};
use super::table::{Look, Segment};
use super::{Pinned, Range, Ref, U64Map};
use crate::mem::word::{Read, Word};
use crate::sync::epoch::Guard;

/// How many keys of a batch are looked for at once.
///
/// A line each, seldom two, which come into the second-level cache: more of these can be on their way than a core has fill
/// buffers.
const BATCH: usize = if cfg!(miri) { 2 } else { 64 };

/// How many keys of a batch are inserted or removed at once.
pub(super) const WRITES: usize = if cfg!(miri) { 2 } else { 32 };

/// Rows of as many keys.
const ROWS: usize = BATCH / ROW;

/// After how many keys of a batch those are looked for again of which the first line did not tell.
const BLOCK: usize = if cfg!(miri) { 4 } else { 64 };

impl<V> U64Map<V> {
    /// The segment of a hash; `None` in a map that never had an entry.
    #[inline(always)]
    pub(super) fn segment<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Segment> {
        self.table.segment(hash, guard)
    }

    /// Finds the value of a key.
    #[inline(always)]
    pub(super) fn find<'g>(&self, key: u64, guard: &'g Guard) -> Option<Read<'g, V>> {
        self.find_word(key, guard).map(read_value)
    }

    /// Finds the value word of a key.
    #[inline(always)]
    pub(super) fn find_word(&self, key: u64, guard: &Guard) -> Option<Word> {
        let hash = self.spelling.hash(key);
        self.segment(hash, guard)?.find(hash)
    }

    /// Asks for the line of a key.
    #[inline(always)]
    pub(super) fn ask(&self, key: u64, guard: &Guard) {
        let hash = self.spelling.hash(key);
        if let Some(segment) = self.segment(hash, guard) {
            segment.ask(hash);
        }
    }
}

impl<V> Pinned<'_, V> {
    /// Returns the value of `key`.
    ///
    /// # Cost
    ///
    /// One line: one wait. For one key of nine a line next to it as well, which is another, shorter wait. A key that is not there costs
    /// one line in a large map, and one to four neighbouring lines in a small one. A value of more than 8 bytes, or with anything to
    /// drop, is in a box of its own: a wait more.
    ///
    /// # Concurrency
    ///
    /// Takes no lock, stores nothing, and waits for nobody. Takes effect at some instant of the call.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::U64Map;
    ///
    /// let map = U64Map::new();
    /// let pinned = map.pin();
    /// pinned.insert(7, "seven");
    /// assert_eq!(pinned.get(7).as_deref(), Some(&"seven"));
    /// assert!(pinned.get(8).is_none());
    /// ```
    #[inline]
    pub fn get(&self, key: u64) -> Option<Ref<'_, V>> {
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
    /// use fanread::U64Map;
    ///
    /// let map = U64Map::new();
    /// let pinned = map.pin();
    /// pinned.insert(1, 'a');
    /// let mut found = [const { None }; 2];
    /// pinned.get_batch(&[1, 2], &mut found);
    /// assert_eq!(found[0].as_deref(), Some(&'a'));
    /// assert!(found[1].is_none());
    /// ```
    #[track_caller]
    pub fn get_batch<'g>(&'g self, keys: &[u64], found: &mut [Option<Ref<'g, V>>]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, found, |word| word.map(|word| Ref::new(read_value(word))));
    }

    /// Looks up all `keys` and stores in `found[i]` whether `keys[i]` has a value; as [`get_batch`](Self::get_batch).
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn contains_batch(&self, keys: &[u64], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, found, |word| word.is_some());
    }

    /// Looks up keys, a few at a time.
    #[inline(always)]
    fn find_all<A>(&self, keys: &[u64], found: &mut [A], answer: impl Fn(Option<Word>) -> A) {
        let (map, guard) = (self.map, &self.guard);
        let Some(names) = map.table.names(guard) else {
            found.fill_with(|| answer(None));
            return;
        };
        let hashing = (&map.spelling, map.kernel);
        let mut rows = [Row::new(names, guard); ROWS];
        let mut ahead = keys.chunks(ROW);
        let first = ahead.len().min(ROWS);
        for (row, keys) in rows.iter_mut().zip(&mut ahead) {
            row.take(hashing, keys);
        }
        for row in &mut rows[..first] {
            row.ask(names, guard);
        }
        let mut next = 0;
        for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            let mut late = 0;
            for (at, found) in (0..BLOCK).step_by(ROW).zip(found.chunks_mut(ROW)) {
                let row = &mut rows[next % ROWS];
                next += 1;
                let mut values = [core::ptr::null_mut(); ROW];
                let told = row.look(map.kernel, &mut values);
                late |= told.late << at;
                // Those that are late are answered once more.
                let value = |i: usize| (told.found >> i & 1 != 0).then_some(values[i]);
                if let Some(found) = found.as_mut_array::<ROW>() {
                    unrolled!(i => found[i] = answer(value(i)));
                } else {
                    found.iter_mut().enumerate().for_each(|(i, found)| *found = answer(value(i)));
                }
                // As many lines are on their way as there are places.
                if let Some(keys) = ahead.next() {
                    row.take(hashing, keys);
                    row.ask(names, guard);
                }
            }
            // Few need another line than the first. These were asked for while the others were looked at.
            while late != 0 {
                let i = late.trailing_zeros() as usize;
                late &= late - 1;
                let hash = map.spelling.hash(keys[i]);
                found[i] = answer(names.segment(hash, guard).find_late(hash));
            }
        }
    }

    /// The first entry at or above a bound.
    #[inline]
    pub(super) fn first_from(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        self.nearest::<true>(match bound {
            Bound::Included(key) => key,
            Bound::Excluded(key) => key.checked_add(1)?,
            Bound::Unbounded => 0,
        })
    }

    /// The last entry at or below a bound.
    #[inline]
    pub(super) fn last_up_to(&self, bound: Bound<u64>) -> Option<(u64, Ref<'_, V>)> {
        self.nearest::<false>(match bound {
            Bound::Included(key) => key,
            Bound::Excluded(key) => key.checked_sub(1)?,
            Bound::Unbounded => u64::MAX,
        })
    }

    /// The entry of a key, or the one nearest to it, above or below.
    pub(super) fn nearest<const UP: bool>(&self, from: u64) -> Option<(u64, Ref<'_, V>)> {
        let (map, guard) = (self.map, &self.guard);
        let names = map.table.names(guard)?;
        let home = names.home(map.spelling.hash(from), guard);
        // All lines of the first wait are asked for before one of them is looked at.
        let run = map.order.asked(from, guard);
        if let Look::Value(word) = home.look() {
            return Some((from, Ref::new(read_value(word))));
        }
        let (run, guess) = run?;
        if let Some(key) = run.nearest::<UP>(from, guess, map.kernel)
            && let Some(word) = map.find_word(key, guard)
        {
            return Some((key, Ref::new(read_value(word))));
        }
        self.far::<UP>(from)
    }

    /// The same by a walk: the nearest key is gone, or in another run, or an insertion of it is under way.
    #[cold]
    fn far<const UP: bool>(&self, from: u64) -> Option<(u64, Ref<'_, V>)> {
        let mut range = if UP {
            Range::by_walks(self, Bound::Included(from), Bound::Unbounded)
        } else {
            Range::by_walks(self, Bound::Unbounded, Bound::Included(from))
        };
        let found = if UP { range.next() } else { range.next_back() };
        let to = found.as_ref().map_or(if UP { u64::MAX } else { 0 }, |(key, _)| *key);
        self.map.clean_passed(self, (from.min(to), from.max(to)), range.passed());
        found
    }
}
