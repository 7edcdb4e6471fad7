//! Ranges: leaf by leaf, in both directions, with the next leaf on its way.
//!
//! A range copies one leaf's words and values at a time into a [`View`], in key order, and holds nothing else of it:
//! no lock, no reference that a writer would have to respect. The copy is one instant's state of the leaf. The next
//! leaf is found by the border, so it does not matter what happened to the leaf meanwhile.
//!
//! Entries that arrived after the last sort are sorted in the copy; the result is offered to the leaf, which takes it
//! if its lock is free. PAPER: section 3.2, where the scan sorts the leaf under its lock.
//!
//! # Invariants
//!
//! * **I1** Keys come out strictly increasing (decreasing from the back), inside the bounds.
//! * **I2** A key present from before the range was made until it ends is yielded.
//! * **I3** Each end has yielded all it will yield of `View`s before its current one.

use core::cmp::Ordering as Order;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::layout::{LINE_WORDS, SLOTS, SORT_TIE, Tag, Word, sort_number};
use super::raw::{Leaf, ShortPrefix, read_inline};
use super::{Pinned, Wormhole};
use crate::api::{Edge, Key, Ref, inverted};
use crate::mem::word;
use crate::sync::epoch::Guard;
use crate::sync::version::Seen;

/// An entry of a leaf, copied.
#[derive(Clone, Copy)]
struct Copied {
    word: Word,
    value: word::Word,
}

/// Entries that a view copies at a time. The records of one such part are asked for while the part before is read: a
/// smaller part hides less of the wait, a larger one fetches more that a short scan does not read.
const PART: usize = if cfg!(any(shuttle, small_leaves)) { 2 } else { 16 };

/// The entries of one leaf in key order, as they were at one instant, copied part by part.
struct View<'g, V> {
    leaf: Leaf<'g>,
    prefix: ShortPrefix,
    /// The version the order belongs to: no entry has left the leaf, and none has changed its place in the order, as long
    /// as it stands.
    seen: Seen,
    order: [u8; SLOTS],
    /// One for each number of the order; those in `copied` are there.
    entries: Vec<Copied>,
    copied: core::ops::Range<usize>,
    /// Entries still to be yielded: `entries[from..to]`.
    from: usize,
    to: usize,
    /// Where the front has something to do before it goes on; at most `to`.
    pause: usize,
    values: PhantomData<&'g V>,
}

impl<'g, V> View<'g, V> {
    /// Makes a view of a leaf. Gives `entries` back if the leaf is dead.
    fn of(
        map: &'g Wormhole<V>,
        leaf: Leaf<'g>,
        mut entries: Vec<Copied>,
    ) -> Result<Self, Vec<Copied>> {
        let version = &leaf.header().version;
        loop {
            let seen = version.begin();
            if seen.is_dead() {
                return Err(entries);
            }
            let meta = leaf.meta();
            let (count, sorted) = (meta.count(), meta.sorted());
            let order = leaf.copy_order(count);
            entries.clear();
            let mut view = Self {
                leaf,
                prefix: leaf.short_prefix(),
                seen,
                order,
                entries,
                copied: 0..0,
                from: 0,
                to: count,
                pause: 0,
                values: PhantomData,
            };
            let is_valid = if seen.is_changing() {
                view.copy_unordered(map)
            } else if sorted == count {
                view.entries.resize(count, Copied::NONE);
                version.end(seen).is_some()
            } else {
                view.entries.resize(count, Copied::NONE);
                let is_valid = view.copy(map, 0..count);
                if is_valid {
                    view.sort(map, sorted);
                }
                is_valid
            };
            if is_valid {
                return Ok(view);
            }
            entries = view.entries;
        }
    }

    /// Copies a part of the entries. Returns whether the order still stands, and so the copy is good.
    fn copy(&mut self, map: &'g Wormhole<V>, part: core::ops::Range<usize>) -> bool {
        for (slot, entry) in self.order[part.clone()].iter().zip(&mut self.entries[part.clone()]) {
            *entry = Copied::of(map, self.leaf, *slot);
        }
        if self.leaf.header().version.end(self.seen).is_none() {
            return false;
        }
        self.copied = if self.copied.is_empty() {
            part
        } else {
            self.copied.start.min(part.start)..self.copied.end.max(part.end)
        };
        true
    }

    /// Copies the words as they stand, while the order is being rewritten, and orders them. Returns whether they were
    /// there all at once.
    #[cold]
    fn copy_unordered(&mut self, map: &'g Wormhole<V>) -> bool {
        let slots = self.leaf.lines() * LINE_WORDS;
        for slot in 0..slots {
            let entry = Copied::of(map, self.leaf, slot as u8);
            if !entry.word.is_free() {
                self.order[self.entries.len()] = slot as u8;
                self.entries.push(entry);
            }
        }
        (self.copied, self.to) = (0..self.entries.len(), self.entries.len());
        if self.leaf.header().version.end(self.seen).is_none() {
            return false;
        }
        self.sort(map, 0);
        true
    }

    /// Sorts the entries, of which the first `sorted` are in order, and offers the order to the leaf.
    #[cold]
    fn sort(&mut self, map: &'g Wormhole<V>, sorted: usize) {
        let prefix_bytes = usize::from(self.leaf.header().shape.prefix_bytes);
        let count = self.entries.len();
        let mut numbers = [0; SLOTS];
        for (number, entry) in numbers.iter_mut().zip(&self.entries) {
            *number = match entry.word.record() {
                Some(unit) => sort_number(map.memory.record::<V>(unit).key(), prefix_bytes),
                None => entry.word.sort_number(),
            };
        }
        let before = |a: u8, b: u8| {
            let (a, b) = (usize::from(a), usize::from(b));
            match numbers[a].cmp(&numbers[b]) {
                Order::Equal if numbers[a] & 0xff == SORT_TIE => {
                    self.key(map, a).cmp(&self.key(map, b))
                }
                unequal => unequal,
            }
        };
        // Sort what came after the run at the start, and merge the two.
        let mut late: [u8; SLOTS] = core::array::from_fn(|at| at as u8);
        let late = &mut late[sorted..count];
        late.sort_unstable_by(|a, b| before(*a, *b));
        let (mut run, mut slots) = (0, [0; SLOTS]);
        let mut entries = Vec::with_capacity(SLOTS);
        let mut late = late.iter().copied().peekable();
        while entries.len() < count {
            let from = match late.peek() {
                Some(next) if run == sorted || before(*next, run as u8).is_lt() => *next,
                _ => {
                    run += 1;
                    run as u8 - 1
                }
            };
            if late.peek() == Some(&from) {
                late.next();
            }
            slots[entries.len()] = self.order[usize::from(from)];
            entries.push(self.entries[usize::from(from)]);
        }
        self.entries = entries;
        self.order = slots;
        if !self.seen.is_changing() {
            Wormhole::<V>::offer_order(self.leaf, self.seen, &slots[..count]);
        }
    }

    /// The key of a copied entry.
    #[inline(always)]
    fn key(&self, map: &'g Wormhole<V>, at: usize) -> Key<'g> {
        debug_assert!(self.copied.contains(&at));
        map.key_of(&self.prefix, self.entries[at].word)
    }

    #[inline(always)]
    fn entry(&self, map: &'g Wormhole<V>, at: usize) -> (Key<'g>, Ref<'g, V>) {
        let entry = self.entries[at];
        match entry.word.record() {
            Some(unit) => {
                let record = map.memory.record::<V>(unit);
                (Key::long(record.key()), Ref::new(record.value()))
            }
            None => (self.prefix.key(entry.word), Ref::new(read_inline(entry.value))),
        }
    }

    /// The first place whose key `before` does not accept, or `None` if the order no longer stands.
    fn seek(&self, map: &'g Wormhole<V>, before: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = low.midpoint(high);
            let word = if self.copied.contains(&middle) {
                self.entries[middle].word
            } else {
                self.leaf.word::<V>(usize::from(self.order[middle]))
            };
            if word.is_free() {
                return None;
            }
            if before(&map.key_of(&self.prefix, word)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.still_stands().then_some(low)
    }

    /// The place of `key` by its hash, if it is there: no other key's record has to be read.
    fn place_of(&self, map: &'g Wormhole<V>, key: &[u8], tag: Tag) -> Option<usize> {
        let (slot, _) = map.look_locked(self.leaf, key, tag)?;
        let at = self.order[..self.entries.len()]
            .iter()
            .position(|other| usize::from(*other) == slot)?;
        self.still_stands().then_some(at)
    }

    /// Whether the order is still that of the leaf, as far as it was copied.
    fn still_stands(&self) -> bool {
        self.leaf.header().version.end(self.seen).is_some()
    }
}

impl Copied {
    const NONE: Self = Self { word: Word::FREE, value: core::ptr::null_mut() };

    /// Copies an entry and asks for its record.
    #[inline(always)]
    fn of<'g, V>(map: &'g Wormhole<V>, leaf: Leaf<'g>, slot: u8) -> Self {
        // A torn order may name slots that a small leaf does not have; the copy is dropped then.
        let slot = usize::from(slot).min(leaf.lines() * LINE_WORDS - 1);
        let word = leaf.word::<V>(slot);
        map.prefetch_entry(word);
        // Of a record word the value is nothing; the copy does not ask which it is.
        let inline = leaf.header().shape.inline;
        Self { word, value: if inline { leaf.value::<V>(slot) } else { core::ptr::null_mut() } }
    }
}

/// What a range needs while it runs, without its handle.
struct Course<'g, V> {
    map: &'g Wormhole<V>,
    guard: &'g Guard,
    start: Edge,
    end: Edge,
    front: Option<View<'g, V>>,
    back: Option<View<'g, V>>,
    ended: bool,
}

impl<'g, V> Course<'g, V> {
    fn new(pinned: &'g Pinned<'_, V>, start: Edge, end: Edge) -> Self {
        Self {
            map: pinned.map,
            guard: &pinned.guard,
            start,
            end,
            front: None,
            back: None,
            ended: false,
        }
    }

    /// A view of the leaf of `key`, or of the first leaf, and the key's tag.
    fn view_at(
        &self,
        key: Option<&[u8]>,
        spare: &mut Vec<Copied>,
    ) -> Option<(View<'g, V>, Option<Tag>)> {
        loop {
            let (leaf, tag) = match key {
                None => (self.map.first_leaf()?, None),
                Some(key) => {
                    let (tag, hint) = self.map.hint(key, self.guard)?;
                    hint.leaf.prefetch_all::<V>();
                    (self.map.leaf_of(key, hint), Some(tag))
                }
            };
            match View::of(self.map, leaf, core::mem::take(spare)) {
                Ok(view) => return Some((view, tag)),
                Err(back) => *spare = back,
            }
        }
    }

    /// The view of the leaf whose lower border is the upper border of `view`'s.
    fn view_behind(&self, view: View<'g, V>) -> Option<View<'g, V>> {
        let leaf = view.leaf;
        if !leaf.header().shape.bounded {
            return None;
        }
        let border = self.map.memory.border(leaf.border().high);
        let next = self.map.memory.leaf(leaf.next()?);
        let mut spare = view.entries;
        loop {
            let next = self.map.leaf_of(border, super::search::Hint { leaf: next, second: None });
            match View::of(self.map, next, spare) {
                Ok(mut view) => {
                    if view.leaf.border().low == leaf.border().high {
                        return Some(view);
                    }
                    // A merge has put entries in front that have been yielded already.
                    if let Some(from) = view.seek(self.map, |key| key < border) {
                        view.from = from;
                        return Some(view);
                    }
                    spare = view.entries;
                }
                Err(back) => spare = back,
            }
        }
    }

    /// The view of the leaf before that of `view`.
    fn view_before(&self, view: View<'g, V>) -> Option<View<'g, V>> {
        let leaf = view.leaf;
        if leaf.border().low == 0 {
            return None;
        }
        let border = self.map.memory.border(leaf.border().low);
        let mut spare = view.entries;
        let mut hint = self.map.memory.leaf(leaf.prev()?);
        loop {
            let before = self.map.leaf_before(border, hint);
            hint = before;
            match View::of(self.map, before, spare) {
                Ok(mut view) => {
                    if view.leaf.border().high == leaf.border().low {
                        return Some(view);
                    }
                    if let Some(to) = view.seek(self.map, |key| key < border) {
                        view.to = to;
                        return Some(view);
                    }
                    spare = view.entries;
                }
                Err(back) => spare = back,
            }
        }
    }

    /// Makes the first view from the front, or the first after the leaf has changed under the one before.
    #[cold]
    fn start_front(&mut self) {
        let key = match &self.start {
            Edge::Open => None,
            Edge::Included(key) | Edge::Excluded(key) => Some(&**key),
        };
        let mut spare = Vec::with_capacity(SLOTS);
        loop {
            let Some((mut view, tag)) = self.view_at(key, &mut spare) else {
                self.ended = true;
                return;
            };
            let present = key.zip(tag).and_then(|(key, tag)| view.place_of(self.map, key, tag));
            let from = match present {
                Some(at) => Some(at + usize::from(matches!(self.start, Edge::Excluded(_)))),
                None => view.seek(self.map, |key| self.start.starts_after(key)),
            };
            if let Some(from) = from {
                view.from = from;
                self.front = Some(view);
                break;
            }
            spare = view.entries;
        }
        // From now on each end has to know where the other is.
        if let Some(view) = &self.back {
            if view.to < view.entries.len() && view.copied.contains(&view.to) {
                self.end = Edge::Excluded((*view.key(self.map, view.to)).into());
            } else if view.leaf.header().shape.bounded {
                let high = self.map.memory.border(view.leaf.border().high);
                if !self.end.ends_before(high) {
                    self.end = Edge::Excluded(high.into());
                }
            }
        }
    }

    /// Asks for the lines of the next leaf.
    fn prefetch_next(map: &'g Wormhole<V>, leaf: Leaf<'g>) {
        if let Some(next) = leaf.next() {
            map.memory.leaf(next).prefetch_all::<V>();
        }
    }

    /// Copies the next part of the front's view. If the leaf has changed, starts over behind the last key yielded.
    fn copy_ahead(&mut self) {
        loop {
            let Some(view) = &mut self.front else { return };
            let start = view.copied.end.max(view.from);
            let part = start..(start + PART).min(view.entries.len());
            if part.end == view.entries.len() {
                Self::prefetch_next(self.map, view.leaf);
            }
            if part.is_empty() || view.copied.end == view.entries.len() || view.copy(self.map, part)
            {
                return;
            }
            if view.from > view.copied.start && view.copied.contains(&(view.from - 1)) {
                self.start = Edge::Excluded((*view.key(self.map, view.from - 1)).into());
            } else if view.leaf.border().low != 0 {
                // Nothing of this leaf has been yielded.
                let low = self.map.memory.border(view.leaf.border().low);
                if !self.start.starts_after(low) {
                    self.start = Edge::Included(low.into());
                }
            }
            self.front = None;
            self.start_front();
            self.enter_front();
        }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<(Key<'g>, Ref<'g, V>)> {
        if let Some(view) = &mut self.front
            && view.from < view.pause
        {
            let at = view.from;
            view.from = at + 1;
            return Some(view.entry(self.map, at));
        }
        self.next_after_pause()
    }

    /// Does what is due at the front's pause, and goes on.
    #[inline(never)]
    fn next_after_pause(&mut self) -> Option<(Key<'g>, Ref<'g, V>)> {
        if self.ended {
            return None;
        }
        if self.front.is_none() {
            self.start_front();
            self.enter_front();
        }
        loop {
            self.copy_ahead();
            let view = self.front.as_mut()?;
            let at = view.from;
            if at < view.to && view.copied.contains(&at) {
                let entry = view.entry(self.map, at);
                if self.end.ends_before(&entry.0) {
                    self.ended = true;
                    return None;
                }
                view.from = at + 1;
                if self.back.is_some() {
                    // The other end must not pass this key.
                    self.start = Edge::Excluded((*entry.0).into());
                    return Some(entry);
                }
                // Of the entries copied, read all but half a part before the next part is copied.
                let last = view.copied.end.checked_sub(1).map(|last| view.key(self.map, last));
                let end_is_near = last.is_some_and(|last| self.end.ends_before(&last));
                let ahead = if view.copied.end == view.entries.len() { 0 } else { PART / 2 };
                view.pause =
                    if end_is_near { view.from } else { view.copied.end.saturating_sub(ahead) };
                return Some(entry);
            }
            if at < view.to {
                continue;
            }
            let view = self.front.take()?;
            self.front = self.view_behind(view);
            self.ended = self.front.is_none();
            self.enter_front();
        }
    }

    /// Makes the front begin with questions in its new view.
    fn enter_front(&mut self) {
        if let Some(view) = &mut self.front {
            view.pause = 0;
        }
    }

    /// Makes the first view from the back, or the first after the leaf has changed under the one before.
    #[cold]
    fn start_back(&mut self) {
        let mut spare = Vec::with_capacity(SLOTS);
        loop {
            let view = match &self.end {
                Edge::Open => {
                    let last = self.map.last_leaf(self.guard);
                    match last.map(|last| View::of(self.map, last, core::mem::take(&mut spare))) {
                        Some(Err(entries)) => {
                            // The last leaf has just been replaced.
                            spare = entries;
                            continue;
                        }
                        Some(Ok(view)) => Some(view),
                        None => None,
                    }
                }
                Edge::Included(key) | Edge::Excluded(key) => {
                    self.view_at(Some(key), &mut spare).map(|(view, _)| view)
                }
            };
            let Some(mut view) = view else {
                self.ended = true;
                break;
            };
            if let Some(to) = view.seek(self.map, |key| !self.end.ends_before(key)) {
                view.to = to;
                self.back = Some(view);
                break;
            }
            spare = view.entries;
        }
        // From now on each end has to know where the other is.
        if let Some(view) = &mut self.front {
            view.pause = 0;
            let yielded = view.from.checked_sub(1).filter(|at| view.copied.contains(at));
            let low = self.map.memory.border(view.leaf.border().low);
            match yielded.map(|at| view.key(self.map, at)) {
                Some(key) => self.start = Edge::Excluded((*key).into()),
                None if !self.start.starts_after(low) => self.start = Edge::Included(low.into()),
                None => {}
            }
        }
    }

    fn next_back(&mut self) -> Option<(Key<'g>, Ref<'g, V>)> {
        if self.ended {
            return None;
        }
        if self.back.is_none() {
            self.start_back();
        }
        loop {
            let view = self.back.as_mut()?;
            if let Some(at) = view.to.checked_sub(1) {
                if !view.copied.contains(&at) {
                    let part = view.to.saturating_sub(PART)..view.to;
                    if !view.copy(self.map, part) {
                        // The leaf has changed: start over before the last key yielded.
                        if view.to < view.entries.len() && view.copied.contains(&view.to) {
                            self.end = Edge::Excluded((*view.key(self.map, view.to)).into());
                        } else if view.leaf.header().shape.bounded {
                            let high = self.map.memory.border(view.leaf.border().high);
                            if !self.end.ends_before(high) {
                                self.end = Edge::Excluded(high.into());
                            }
                        }
                        self.back = None;
                        self.start_back();
                    }
                    continue;
                }
                let (key, value) = view.entry(self.map, at);
                if self.start.starts_after(&key) {
                    self.ended = true;
                    return None;
                }
                view.to = at;
                if self.front.is_some() {
                    // The other end must not pass this key.
                    self.end = Edge::Excluded((*key).into());
                }
                return Some((key, value));
            }
            let view = self.back.take()?;
            self.back = self.view_before(view);
            if self.back.is_none() {
                self.ended = true;
            }
        }
    }
}

/// The entries of a range of keys, in order; see [`Pinned::range`].
pub struct Range<'g, V> {
    course: Course<'g, V>,
}

/// All entries, in order; see [`Pinned::iter`].
pub type Iter<'g, V> = Range<'g, V>;

impl<V> core::fmt::Debug for Range<'_, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Range")
            .field("start", &self.course.start)
            .field("end", &self.course.end)
            .finish_non_exhaustive()
    }
}

impl<'g, V> Iterator for Range<'g, V> {
    type Item = (Key<'g>, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.course.next()
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.course.next_back()
    }
}

impl<V> FusedIterator for Range<'_, V> {}

impl<V> Pinned<'_, V> {
    /// Returns the entries between two bounds, in key order, from both ends.
    ///
    /// # Cost
    ///
    /// A `get`'s fetches to find the first leaf, then 38 or 70 lines for each leaf of some 170 entries, all at once and
    /// while the leaf before is read; where keys are in records, one or two lines for each, all at once too. Reads
    /// backwards fetch a leaf when they come to it.
    ///
    /// # Concurrency
    ///
    /// Keys come strictly increasing and inside the bounds. A key that is in the map all the time is yielded; one
    /// that comes or goes may be. Each leaf is seen as it was at one instant. No lock is held between two entries.
    ///
    /// Inverted bounds are an empty range, not a panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Wormhole;
    ///
    /// let map = Wormhole::new();
    /// let pinned = map.pin();
    /// for (key, value) in [(b"a", 1), (b"b", 2), (b"c", 3), (b"d", 4)] {
    ///     pinned.insert(key, value);
    /// }
    /// let from: &[u8] = b"b";
    /// let mut range = pinned.range(from..);
    /// assert_eq!(range.next().map(|(_, value)| *value), Some(2));
    /// assert_eq!(range.next_back().map(|(_, value)| *value), Some(4));
    /// assert_eq!(range.count(), 1);
    /// ```
    pub fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Range<'_, V> {
        let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        let mut course = Course::new(self, Edge::of(start), Edge::of(end));
        course.ended = inverted(start, end);
        Range { course }
    }

    /// Returns all entries in key order; see [`range`](Self::range).
    pub fn iter(&self) -> Iter<'_, V> {
        self.range(..)
    }

    /// Returns the entries whose keys start with `prefix`, in key order; see [`range`](Self::range).
    pub fn prefix(&self, prefix: &[u8]) -> Range<'_, V> {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Edge::Excluded(end.into())
            }
            None => Edge::Open,
        };
        Range { course: Course::new(self, Edge::Included(prefix.into()), end) }
    }

    /// Returns the entry with the smallest key.
    pub fn first_key_value(&self) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.iter().next()
    }

    /// Returns the entry with the largest key.
    pub fn last_key_value(&self) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.iter().next_back()
    }

    /// Returns the first entry at or above the bound: `Included(key)` includes `key` itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Wormhole;
    /// use std::ops::Bound::Excluded;
    ///
    /// let map = Wormhole::new();
    /// let pinned = map.pin();
    /// pinned.insert(b"a", 1);
    /// pinned.insert(b"b", 2);
    /// let next = pinned.lower_bound(Excluded(b"a"));
    /// assert_eq!(next.map(|(_, value)| *value), Some(2));
    /// ```
    pub fn lower_bound(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.range((bound, Bound::Unbounded)).next()
    }

    /// Returns the last entry at or below the bound: `Included(key)` includes `key` itself.
    pub fn upper_bound(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.range((Bound::Unbounded, bound)).next_back()
    }
}

impl<'g, V> IntoIterator for &'g Pinned<'_, V> {
    type Item = (Key<'g>, Ref<'g, V>);
    type IntoIter = Iter<'g, V>;

    fn into_iter(self) -> Iter<'g, V> {
        self.iter()
    }
}

/// An iterator over all entries that owns its hold on the map and may move between threads.
///
/// It pins for one step at a time, so it delays nobody's memory while it is kept, and finds its place again by the
/// last key. Keys and values are copies.
#[derive(Debug)]
pub struct IntoIter<V> {
    map: Arc<Wormhole<V>>,
    last: Edge,
    ahead: std::vec::IntoIter<(Box<[u8]>, V)>,
}

/// Entries that an owned iterator copies at a time: a few parts of a leaf.
const OWNED_STEP: usize = 40;

impl<V: Clone + Send + Sync> Wormhole<V> {
    /// Returns an iterator over copies of all entries that is `Send` and borrows nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::Wormhole;
    /// use std::sync::Arc;
    ///
    /// let map = Arc::new(Wormhole::new());
    /// map.pin().insert(b"a", 1);
    /// let all = std::thread::spawn(move || map.iter_owned().collect::<Vec<_>>());
    /// assert_eq!(all.join().unwrap(), [(Box::from(*b"a"), 1)]);
    /// ```
    pub fn iter_owned(self: &Arc<Self>) -> IntoIter<V> {
        IntoIter { map: Arc::clone(self), last: Edge::Open, ahead: Vec::new().into_iter() }
    }
}

impl<V: Clone + Send + Sync> Iterator for IntoIter<V> {
    type Item = (Box<[u8]>, V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead.len() == 0 {
            let pinned = self.map.pin();
            let from = match &self.last {
                Edge::Open => Bound::Unbounded,
                Edge::Included(key) | Edge::Excluded(key) => Bound::Excluded(&**key),
            };
            let copies: Vec<(Box<[u8]>, V)> = pinned
                .range((from, Bound::Unbounded))
                .take(OWNED_STEP)
                .map(|(key, value)| (Box::from(&*key), V::clone(&value)))
                .collect();
            drop(pinned);
            self.last = Edge::Excluded(copies.last()?.0.clone());
            self.ahead = copies.into_iter();
        }
        self.ahead.next()
    }
}
