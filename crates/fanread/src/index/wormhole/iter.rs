//! Ranges: leaf by leaf, in both directions, with the next leaf on its way.
//!
//! A range copies the order of one leaf at a time into a [`View`], and words and values part by part as it comes to them,
//! and holds nothing else of the leaf: no lock, no reference that a writer would have to respect. The order has every entry
//! that is there from before the view is made, and may lack some that come meanwhile while it has others; if an entry leaves the
//! leaf before the range has read it, the range starts over behind the last key it yielded. Values are those of when they are
//! copied. The next leaf is found by the border, so it does not matter what happened to the leaf meanwhile.
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
use core::ops::Bound;

use super::layout::{LINE_WORDS, SLOTS, SORT_TIE, Tag, Word, sort_number};
use super::raw::{Leaf, ShortPrefix, read_inline};
use super::{Pinned, Wormhole};
use crate::api::{Below, Edge, Key, Ref};
use crate::arch;
use crate::list::{self, Leaf as _, Leaves as _, slice_at};
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

/// Numbers behind the sorted ones of which each is put in its place by itself. For one some two dozen words are read, for all at once each
/// word of the leaf.
const FEW_LATE: usize = if cfg!(any(shuttle, small_leaves)) { 1 } else { 6 };

/// Copied entries that a view keeps: the last part, and the one before it, which is being read.
const WINDOW: usize = 2 * PART;

/// The entries of one leaf in key order, copied part by part.
pub(super) struct View<'g, V> {
    leaf: Leaf<'g>,
    prefix: ShortPrefix,
    /// The version the order belongs to: no entry has left the leaf, and none has changed its place in the order, as long
    /// as it stands.
    seen: Seen,
    order: [u8; SLOTS],
    count: usize,
    /// Entry `at` is in `at % WINDOW`, if `copied` contains it.
    window: [Copied; WINDOW],
    copied: core::ops::Range<usize>,
    /// Entries still to be yielded: `from..to`.
    from: usize,
    to: usize,
    /// Entries before this one have been asked for, from where the front came in.
    asked: usize,
    /// Where the front has something to do before it goes on; at most `to`.
    pause: usize,
    /// The border at which the range came into the leaf, if a merge has moved the leaf's own beyond it: what lies on the
    /// other side has been yielded.
    came_at: Option<u64>,
    values: PhantomData<&'g V>,
}

impl<'g, V> View<'g, V> {
    /// A view of nothing yet, before it [`enter`](Self::enter)s the leaf.
    fn before(leaf: Leaf<'g>) -> Self {
        Self {
            leaf,
            prefix: leaf.short_prefix(),
            seen: leaf.header().version.begin(),
            order: [0; SLOTS],
            count: 0,
            window: [Copied { word: Word::FREE, value: core::ptr::null_mut() }; WINDOW],
            copied: 0..0,
            from: 0,
            to: 0,
            asked: 0,
            pause: 0,
            came_at: None,
            values: PhantomData,
        }
    }

    /// Makes a view of a leaf; `None` if the leaf is dead.
    fn of(map: &'g Wormhole<V>, leaf: Leaf<'g>) -> Option<Box<Self>> {
        let mut view = Box::new(Self::before(leaf));
        view.enter(map, leaf).then_some(view)
    }

    /// Turns the view to a leaf. Returns false if the leaf is dead.
    fn enter(&mut self, map: &'g Wormhole<V>, leaf: Leaf<'g>) -> bool {
        (self.leaf, self.prefix, self.came_at) = (leaf, leaf.short_prefix(), None);
        loop {
            self.seen = leaf.header().version.begin();
            if self.seen.is_dead() {
                return false;
            }
            let meta = leaf.meta();
            let sorted = if self.seen.is_changing() { 0 } else { meta.sorted() };
            self.count = if sorted == meta.count() {
                leaf.copy_order(sorted, &mut self.order);
                sorted
            } else {
                leaf.list::<V>(sorted, &mut self.order)
            };
            (self.copied, self.asked) = (0..0, 0);
            (self.from, self.to, self.pause) = (0, self.count, 0);
            let stands = match self.count - sorted {
                0 => self.still_stands(),
                late if late <= FEW_LATE => self.sort_in(map, sorted),
                _ => self.sort(map, sorted),
            };
            if stands {
                return true;
            }
        }
    }

    /// Sorts the order, of which the first `sorted` numbers are sorted, and offers it to the leaf. Returns whether no
    /// entry has left the leaf meanwhile.
    #[cold]
    fn sort(&mut self, map: &'g Wormhole<V>, sorted: usize) -> bool {
        let (leaf, count) = (self.leaf, self.count);
        let mut words = [Word::FREE; SLOTS];
        for (word, slot) in words.iter_mut().zip(&self.order[..count]) {
            *word = leaf.word::<V>(slot_in(leaf, *slot));
            map.prefetch_entry(*word);
        }
        if words[..count].iter().any(|word| word.is_free()) || !self.still_stands() {
            return false;
        }
        let prefix_bytes = leaf.header().prefix_bytes();
        let mut numbers = [0; SLOTS];
        for (number, word) in numbers.iter_mut().zip(&words[..count]) {
            *number = match word.record() {
                Some(unit) => sort_number(map.memory.record::<V>(unit).key(), prefix_bytes),
                None => word.sort_number(),
            };
        }
        let key = |at: usize| map.key_of(&self.prefix, words[at]);
        let before = |a: u8, b: u8| {
            let (a, b) = (usize::from(a), usize::from(b));
            match numbers[a].cmp(&numbers[b]) {
                Order::Equal if numbers[a] & 0xff == SORT_TIE => key(a).cmp(&key(b)),
                unequal => unequal,
            }
        };
        // Sort what came after the run at the start, and merge the two.
        let mut late: [u8; SLOTS] = core::array::from_fn(|at| at as u8);
        let late = &mut late[sorted..count];
        late.sort_unstable_by(|a, b| before(*a, *b));
        let (mut run, mut merged) = (0, [0; SLOTS]);
        let mut late = late.iter().copied().peekable();
        for place in &mut merged[..count] {
            let from = match late.next_if(|next| run == sorted || before(*next, run as u8).is_lt())
            {
                Some(next) => usize::from(next),
                None => {
                    run += 1;
                    run - 1
                }
            };
            *place = self.order[from];
        }
        self.order = merged;
        self.offer();
        true
    }

    /// As [`sort`](Self::sort), where few numbers are behind the sorted ones: each goes where a bound would be that is its key, and few
    /// other words are read. On a stack or a queue of priorities each call would read all of them.
    #[inline(never)]
    fn sort_in(&mut self, map: &'g Wormhole<V>, sorted: usize) -> bool {
        let count = core::mem::replace(&mut self.count, sorted);
        for at in sorted..count {
            let word = self.leaf.word::<V>(slot_in(self.leaf, self.order[at]));
            if word.is_free() {
                return false;
            }
            let key = map.key_of(&self.prefix, word);
            let Some(place) = self.seek(map, Below::key(&key)) else { return false };
            self.order[place..=at].rotate_right(1);
            self.count = at + 1;
        }
        self.offer();
        true
    }

    /// Offers the order, which is sorted, to the leaf.
    fn offer(&mut self) {
        if !self.seen.is_changing()
            && let Some(seen) =
                Wormhole::<V>::offer_order(self.leaf, self.seen, &self.order[..self.count])
        {
            self.seen = seen;
        }
    }

    /// Copies a part of the entries, which begins where those copied end, or ends where they begin. Returns whether the
    /// order still stands, and so the copy is good.
    fn copy(&mut self, map: &'g Wormhole<V>, part: core::ops::Range<usize>) -> bool {
        let is_whole = if self.leaf.header().shape.inline {
            self.copy_words::<true>(map, part.clone())
        } else {
            self.copy_words::<false>(map, part.clone())
        };
        if !is_whole || !self.still_stands() {
            return false;
        }
        let copied = &mut self.copied;
        *copied = if copied.start == copied.end {
            part
        } else if part.start == copied.end {
            copied.start.max(part.end.saturating_sub(WINDOW))..part.end
        } else {
            part.start..copied.end.min(part.start + WINDOW)
        };
        true
    }

    /// Asks for the two parts that will be copied after the entries before `at`, in the next leaf if need be.
    #[inline]
    fn prefetch(&mut self, map: &'g Wormhole<V>, at: usize) {
        let end = (at + 2 * PART).min(self.count);
        prefetch_slots::<V>(self.leaf, &self.order[self.asked.max(at).min(end)..end]);
        self.asked = end;
        if end < at + 2 * PART
            && let Some(next) = self.leaf.header().next()
        {
            let next = map.memory.leaf(next);
            if at < self.count {
                next.prefetch_order::<V>();
            } else {
                let mut order = [0; SLOTS];
                let count = PART.min(next.meta().sorted());
                next.copy_order(count, &mut order);
                prefetch_slots::<V>(next, &order[..count]);
            }
        }
    }

    /// Copies words and values of an inline leaf, or of one that is not, and asks for the records. Returns whether no
    /// word was free.
    #[inline(always)]
    fn copy_words<const INLINE: bool>(
        &mut self,
        map: &'g Wormhole<V>,
        part: core::ops::Range<usize>,
    ) -> bool {
        let leaf = self.leaf;
        let last = leaf.lines() * LINE_WORDS - 1;
        let mut is_whole = true;
        for (at, slot) in part.clone().zip(&self.order[part]) {
            // A torn order may name slots that a small leaf does not have; the copy is dropped then.
            let (word, value) = leaf.entry::<V, INLINE>(usize::from(*slot).min(last));
            if !INLINE || word.record().is_some() {
                map.prefetch_entry(word);
            }
            is_whole &= !word.is_free();
            self.window[at % WINDOW] = Copied { word, value };
        }
        is_whole
    }

    /// The key of a copied entry.
    #[inline(always)]
    fn key(&self, map: &'g Wormhole<V>, at: usize) -> Key<'g> {
        debug_assert!(self.copied.contains(&at));
        map.key_of(&self.prefix, self.window[at % WINDOW].word)
    }

    #[inline(always)]
    fn entry(&self, map: &'g Wormhole<V>, at: usize) -> (Key<'g>, Ref<'g, V>) {
        debug_assert!(self.copied.contains(&at));
        let entry = self.window[at % WINDOW];
        match entry.word.record() {
            Some(unit) => {
                let record = map.memory.record::<V>(unit);
                (Key::long(record.key()), Ref::new(record.value()))
            }
            None => (self.prefix.key(entry.word), Ref::new(read_inline(entry.value))),
        }
    }

    /// The first place whose key is not below, or `None` if the order no longer stands.
    fn seek(&self, map: &'g Wormhole<V>, below: Below<'_>) -> Option<usize> {
        let (leaf, header) = (self.leaf, self.leaf.header());
        let slot = |at: usize| slot_in(leaf, self.order[at]);
        // Short keys are mostly numbers.
        let guess = header.shape.inline.then(|| {
            let slice = slice_at(below.edge, header.prefix_bytes());
            let reach = header.high_slice.saturating_sub(header.low_slice);
            list::share(slice.saturating_sub(header.low_slice), reach, self.count)
        });
        let ask = |places: &[usize]| {
            // Among the last few places the entry is, with its value.
            let has_values = header.shape.inline && Leaf::has_values::<V>();
            let is_last = places.len() < list::ROUND;
            for at in places {
                leaf.prefetch_slot(slot(*at), has_values, is_last);
            }
            let with_records = if header.shape.inline { &[] } else { places };
            for at in with_records {
                map.prefetch_entry(leaf.word::<V>(slot(*at)));
            }
        };
        let edge = sort_number(below.edge, header.prefix_bytes());
        let is_below = |at| {
            let word = leaf.word::<V>(slot(at));
            if word.is_free() {
                return None;
            }
            // Most keys differ in what a word has of them.
            let number = if word.record().is_none() { word.sort_number() } else { edge };
            Some(match number.cmp(&edge) {
                Order::Equal => below.has(&map.key_of(&self.prefix, word)),
                unequal => unequal.is_lt(),
            })
        };
        let place = list::rank(0..self.count, guess, ask, is_below)?;
        self.still_stands().then_some(place)
    }

    /// As [`seek`](Self::seek); where keys are in records by the edge's hash, if it is a key of the leaf: no other record is read then.
    fn place(&self, map: &'g Wormhole<V>, tag: Tag, below: Below<'_>) -> Option<usize> {
        if self.leaf.is_inline() {
            return self.seek(map, below);
        }
        match self.place_of(map, below.edge, tag) {
            Some(at) => Some(at + usize::from(below.has(below.edge))),
            None => self.seek(map, below),
        }
    }

    /// The place of `key` by its hash, if it is there.
    fn place_of(&self, map: &'g Wormhole<V>, key: &[u8], tag: Tag) -> Option<usize> {
        let form = Wormhole::<V>::form(self.leaf, key, tag);
        let (slot, _) = map.look_locked(self.leaf, key, tag, form)?;
        let at = arch::position(&self.order[..self.count], slot as u8)?;
        self.still_stands().then_some(at)
    }

    /// Whether the order is still that of the leaf, as far as it was copied.
    #[inline(always)]
    fn still_stands(&self) -> bool {
        self.leaf.header().version.end(self.seen).is_some()
    }

    /// Goes on to the leaf whose lower border is the upper border of this one. Returns false if there is none.
    pub(super) fn go_on(&mut self, map: &'g Wormhole<V>) -> bool {
        let here = self.leaf.border().high;
        if !self.leaf.header().bounded {
            return false;
        }
        let border = map.memory.border(here);
        let Some(next) = self.leaf.header().next() else { return false };
        let next = map.memory.leaf(next);
        loop {
            let next = map.list.leaf_of(
                &map.memory,
                border,
                super::search::Hint { leaf: next, second: None },
            );
            if !self.enter(map, next) {
                continue;
            }
            if next.border().low == here {
                return true;
            }
            // A merge has put entries in front that have been yielded already.
            if let Some(from) = self.seek(map, Below::key(border)) {
                (self.from, self.came_at) = (from, Some(here));
                return true;
            }
        }
    }

    /// Goes back to the leaf before. Returns false if there is none.
    pub(super) fn go_back(&mut self, map: &'g Wormhole<V>) -> bool {
        let here = self.leaf.border().low;
        if here == 0 {
            return false;
        }
        let border = map.memory.border(here);
        let Some(prev) = self.leaf.header().prev() else { return false };
        let mut leaf = map.memory.leaf(prev);
        loop {
            leaf = map.list.leaf_before(&map.memory, border, leaf);
            if !self.enter(map, leaf) {
                continue;
            }
            if leaf.border().high == here {
                return true;
            }
            if let Some(to) = self.seek(map, Below::key(border)) {
                (self.to, self.came_at) = (to, Some(here));
                return true;
            }
        }
    }
}

/// Asks for the words and values of slots.
#[inline(always)]
fn prefetch_slots<V>(leaf: Leaf<'_>, slots: &[u8]) {
    let has_values = leaf.header().shape.inline && Leaf::has_values::<V>();
    for slot in slots {
        leaf.prefetch_slot(usize::from(*slot), has_values, true);
    }
}

/// A number of an order as a slot that the leaf has, whatever it is.
#[inline(always)]
fn slot_in(leaf: Leaf<'_>, slot: u8) -> usize {
    usize::from(slot).min(leaf.lines() * LINE_WORDS - 1)
}

/// What a range needs while it runs, without its handle.
pub(super) struct Course<'g, V> {
    map: &'g Wormhole<V>,
    guard: &'g Guard,
    start: Edge,
    end: Edge,
    pub(super) front: Option<Box<View<'g, V>>>,
    pub(super) back: Option<Box<View<'g, V>>>,
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

    /// A view of the leaf where a walk begins that has keys below it, and its place there; `None` in a map that never had an entry.
    fn view_at(&self, below: Below<'_>) -> Option<(Box<View<'g, V>>, usize)> {
        loop {
            let (leaf, tag) = self.map.leaf_at(below.edge, self.guard)?;
            if let Some(view) = View::of(self.map, leaf)
                && let Some(place) = view.place(self.map, tag, below)
            {
                return Some((view, place));
            }
        }
    }

    /// Makes the first view from the front, or the first after the leaf has changed under the one before.
    #[cold]
    fn start_front(&mut self) {
        let found = match Below::bound::<true>(self.start.bound()) {
            Some(below) => self.view_at(below),
            None => loop {
                let Some(first) = self.map.list.first(&self.map.memory) else { break None };
                // If not, the first leaf has just been replaced.
                if let Some(view) = View::of(self.map, first) {
                    break Some((view, 0));
                }
            },
        };
        let Some((mut view, from)) = found else {
            self.ended = true;
            return;
        };
        view.from = from;
        view.prefetch(self.map, from);
        self.front = Some(view);
        // From now on each end has to know where the other is.
        self.note_back();
    }

    /// Makes the first view from the back, or the first after the leaf has changed under the one before.
    #[cold]
    fn start_back(&mut self) {
        let found = match Below::bound::<false>(self.end.bound()) {
            Some(below) => self.view_at(below),
            None => loop {
                let Some(last) = self.map.list.last(&self.map.memory) else {
                    break None;
                };
                // As above.
                if let Some(view) = View::of(self.map, last) {
                    let count = view.count;
                    break Some((view, count));
                }
            },
        };
        match found {
            Some((mut view, to)) => {
                view.to = to;
                self.back = Some(view);
            }
            None => self.ended = true,
        }
        // From now on each end has to know where the other is.
        self.note_front();
        if let Some(view) = &mut self.front {
            view.pause = 0;
        }
    }

    /// Makes the range start behind what the front has yielded.
    fn note_front(&mut self) {
        let Some(view) = &self.front else { return };
        let yielded = view.from.checked_sub(1).filter(|at| view.copied.contains(at));
        let low = self.map.memory.border(view.came_at.unwrap_or(view.leaf.border().low));
        match yielded.map(|at| view.key(self.map, at)) {
            Some(key) => self.start = Edge::Excluded((*key).into()),
            None if !self.start.starts_after(low) => self.start = Edge::Included(low.into()),
            None => {}
        }
    }

    /// Makes the range end before what the back has yielded.
    fn note_back(&mut self) {
        let Some(view) = &self.back else { return };
        if view.copied.contains(&view.to) {
            self.end = Edge::Excluded((*view.key(self.map, view.to)).into());
        } else if view.came_at.is_some() || view.leaf.header().bounded {
            let high = self.map.memory.border(view.came_at.unwrap_or(view.leaf.border().high));
            if !self.end.ends_before(high) {
                self.end = Edge::Excluded(high.into());
            }
        }
    }

    /// Copies the next part of the front's view. If the leaf has changed, starts over behind the last key yielded.
    fn copy_ahead(&mut self) {
        loop {
            let Some(view) = &mut self.front else { return };
            if view.copied.end > view.from + PART / 2 {
                return;
            }
            let start = view.copied.end.max(view.from);
            let part = start..(start + PART).min(view.count);
            view.prefetch(self.map, part.end);
            if part.is_empty() || view.copy(self.map, part) {
                return;
            }
            self.note_front();
            self.front = None;
            self.start_front();
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
                let ahead = if view.copied.end == view.count { 0 } else { PART / 2 };
                view.pause =
                    if end_is_near { view.from } else { view.copied.end.saturating_sub(ahead) };
                return Some(entry);
            }
            if at < view.to {
                continue;
            }
            if !view.go_on(self.map) {
                self.front = None;
                self.ended = true;
                return None;
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
            let Some(at) = view.to.checked_sub(1) else {
                if !view.go_back(self.map) {
                    self.back = None;
                    self.ended = true;
                    return None;
                }
                continue;
            };
            if !view.copied.contains(&at) {
                let part = view.to.saturating_sub(PART)..view.to;
                if !view.copy(self.map, part) {
                    // The leaf has changed: start over before the last key yielded.
                    self.note_back();
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
    }
}

impl<V> Wormhole<V> {
    /// The leaf of a key, with its order asked for, and the key's tag; `None` in a map that never had an entry.
    fn leaf_at(&self, key: &[u8], guard: &Guard) -> Option<(Leaf<'_>, Tag)> {
        let (tag, probe) = self.probe(key, guard);
        let hint = self.list.hint(&self.memory, key, probe)?;
        hint.leaf.prefetch_order::<V>();
        if !hint.leaf.is_inline() {
            hint.leaf.prefetch::<V>(arch::prefetch, hint.leaf.home_line::<V>(tag));
        }
        Some((self.list.leaf_of(&self.memory, key, hint), tag))
    }
}

impl<V> Pinned<'_, V> {
    /// The entry next to a bound, on the way up or down: as a range finds it that asks for nothing behind it.
    fn beside<const UP: bool>(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        let map = self.map;
        let below = Below::bound::<UP>(bound);
        loop {
            let (leaf, tag) = match below {
                Some(below) => {
                    map.leaf_at(below.edge, &self.guard).map(|(leaf, tag)| (leaf, Some(tag)))?
                }
                None if UP => (map.list.first(&map.memory)?, None),
                None => (map.list.last(&map.memory)?, None),
            };
            let mut view = View::before(leaf);
            if !view.enter(map, leaf) {
                continue;
            }
            if let (Some(below), Some(tag)) = (below, tag) {
                let Some(place) = view.place(map, tag, below) else { continue };
                *(if UP { &mut view.from } else { &mut view.to }) = place;
            }
            while view.from == view.to {
                if !(if UP { view.go_on(map) } else { view.go_back(map) }) {
                    return None;
                }
            }
            let at = if UP { view.from } else { view.to - 1 };
            // If not, the leaf has changed.
            if view.copy(map, at..at + 1) {
                return Some(view.entry(map, at));
            }
        }
    }

    /// The first entry from a bound on.
    pub(super) fn first_from(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.beside::<true>(bound)
    }

    /// The last entry up to a bound.
    pub(super) fn last_up_to(&self, bound: Bound<&[u8]>) -> Option<(Key<'_>, Ref<'_, V>)> {
        self.beside::<false>(bound)
    }
}

/// The entries of a range of keys, in order; see [`Pinned::range`].
pub struct Range<'g, V> {
    pub(super) course: Course<'g, V>,
}

impl<'g, V> Range<'g, V> {
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Edge, end: Edge, ended: bool) -> Self {
        Self { course: Course { ended, ..Course::new(pinned, start, end) } }
    }
}

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
