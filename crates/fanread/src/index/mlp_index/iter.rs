//! Walking over the entries in order, from both ends.
//!
//! A walk reads a group, or the children of a node, as they are at one instant, and goes on to the next child of the last
//! node it has read. What it finds under a child's prefix speaks for itself: a group holds all keys of its prefix (T2),
//! whatever has become of the node meanwhile. If nothing is there, or the walk has come to the end of what it knows, it
//! finds its way anew from the last key.
//!
//! The buckets of some next children are asked for while the first ones are read. What is to be read further on is a hint, taken from
//! lines that have come: whether a second bucket is needed, or the child is a node, whose own children are asked for then. While such
//! a node is read, the children that wait above it are kept.
//!
//! Which entry is the last one a walk is not told, but most are as long as others before it: up to there it reads and asks ahead, and
//! behind that only when it comes there.
//!
//! PAPER: section 4.2; the paper has no scans, only repeated lower bounds.

use core::hint::select_unpredictable;
use core::iter::FusedIterator;
use core::ops::Bound;
use core::sync::atomic::Ordering::Relaxed;

use super::children::{AHEAD, Asked, FIRST_CHILDREN, Frame, NEAR, ROW, Ring};
use super::edit::{Again, Trail, View};
use super::layout::{GROUP, LEVELS, Node, SLOTS, UNITS, Way, byte_of, leaves_of, same_prefix};
use super::raw::{Bucket, Tables, read_value};
use super::search::What;
use super::words::{Member, Packed, Words, place_of};
use super::{MlpIndex, Pinned, Ref};
use crate::arch::Avx512;
use crate::arch::tagged::{Tagged as _, Wanted};
use crate::batch::Bits;
use crate::batch::lengths::Lone;
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;
use crate::sync::shim::AtomicU32;
use crate::sync::version::Version;

/// Entries that a walk reads at a time, at least.
const STEP: usize = 16;

/// Entries of a piece, in which the lengths of walks are counted. Larger ones are read in vain at the end of a walk, with smaller ones it
/// takes longer until walks are expected to be short after a long one.
pub(super) const PIECE: usize = 4;
/// Pieces of a walk that is taken for one without an end.
pub(super) const LONG: u32 = 64;
/// Children of a node that were looked at before the first of them are read.
const BEGUN: usize = ROW + 2;
/// Children that are asked for beyond those that the rest of a walk takes at the rate of its beginning.
const SPARE: usize = 2;

/// Entries that a walk has room for: words that do not belong together may look like a key in every slot.
const READY: usize = (STEP + 2 * SLOTS).next_power_of_two();

/// Where a walk is.
#[derive(Clone, Copy, Debug)]
enum State {
    /// It has to find its way.
    From,
    /// It knows the way to all under the first so many bytes of this key.
    Under(u64, usize),
    /// It has seen everything.
    Done,
}

/// How many groups walks read for so many entries. In a line of its own, as walks store to it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Rate(AtomicU32);

impl Rate {
    const OF: usize = 64;

    /// As if each group had one entry, until something is known.
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(Self::OF as u32))
    }

    fn groups(&self) -> usize {
        // Relaxed, here and below: a guess.
        self.0.load(Relaxed) as usize
    }

    /// Takes notice of a walk, if it was not a short one and had far less or more.
    fn note(&self, groups: usize, entries: usize) {
        if entries >= STEP / 2 {
            let (now, before) = (groups * Self::OF / entries, self.groups());
            if now.abs_diff(before) > before / 4 {
                self.0.store(now as u32, Relaxed);
            }
        }
    }
}

/// A walk in one direction.
#[derive(Debug)]
struct Walk<'g, const UP: bool> {
    state: State,
    /// All before this key has been read, and the key itself if the second is false.
    from: (u64, bool),
    frames: [Frame; LEVELS],
    depth: usize,
    /// Children of the last node, and those of a node above that still wait; which is which.
    rings: [Ring<'g>; 2],
    ring: usize,
    /// How many nodes there are down to the one whose children wait, 0 if there is none.
    kept: usize,
    /// Entries that were read, from `taken` on.
    ready: Ready,
    taken: usize,
    len: usize,
    /// How many entries were read before these, and of how many children.
    before: usize,
    groups: usize,
    /// How many entries are read now at least, and how many children may be asked for.
    step: usize,
    budget: usize,
}

/// Entries, their keys apart from their values.
#[derive(Debug)]
struct Ready {
    keys: [u64; READY],
    values: [Word; READY],
}

impl Ready {
    #[inline(always)]
    fn put(&mut self, at: usize, (key, value): (u64, Word)) {
        (self.keys[at % READY], self.values[at % READY]) = (key, value);
    }

    #[inline(always)]
    fn get(&self, at: usize) -> (u64, Word) {
        (self.keys[at % READY], self.values[at % READY])
    }
}

impl<'g, const UP: bool> Walk<'g, UP> {
    const WAY: Way = if UP { Way::Up } else { Way::Down };

    fn new(bound: Bound<u64>) -> Self {
        let from = match bound {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => (if UP { 0 } else { u64::MAX }, true),
        };
        Self {
            state: State::From,
            from,
            frames: [Frame::NONE; LEVELS],
            depth: 0,
            rings: [Ring::NONE; 2],
            ring: 0,
            kept: 0,
            ready: Ready { keys: [0; READY], values: [core::ptr::null_mut(); READY] },
            taken: 0,
            len: 0,
            before: 0,
            groups: 0,
            step: STEP,
            budget: usize::MAX,
        }
    }

    /// The next entry.
    #[inline(always)]
    fn next<V>(&mut self, pinned: &'g Pinned<'g, V>) -> Option<(u64, Word)> {
        if self.taken == self.len {
            self.fill(pinned);
            if self.len == 0 {
                return None;
            }
        }
        self.taken += 1;
        Some(self.ready.get(self.taken - 1))
    }

    /// How many entries were handed out.
    fn length(&self) -> usize {
        self.before + self.taken
    }

    /// Reads some entries, if there are any.
    #[inline(never)]
    fn fill<V>(&mut self, pinned: &'g Pinned<'g, V>) {
        let map = pinned.map;
        let mut backoff = Backoff::new();
        self.before += self.len;
        (self.taken, self.len) = (0, 0);
        // What is expected to come.
        let expected = map.lengths.expected();
        let left = expected.saturating_sub(self.before);
        (self.step, self.budget) = match (left, self.before) {
            (0, _) => (STEP, usize::MAX),
            (left, 0) => (left.min(STEP), left * map.rate.groups() / Rate::OF + SPARE),
            (left, before) => (left.min(STEP), left * self.groups / before + SPARE),
        };
        while self.len < self.step {
            let Some(tables) = map.tables(&pinned.guard) else { break };
            let step = match self.state {
                State::Done => break,
                State::From => self.begin(map, tables),
                State::Under(..) if self.depth > 0 => self.go_on(map, tables),
                State::Under(key, level) => self.climb(map, tables, (key, level)),
            };
            if step.is_err() {
                (self.depth, self.kept) = (0, 0);
                self.state = State::From;
                backoff.wait();
            }
        }
    }

    /// The last key that has the first `level` bytes of `key`.
    #[inline]
    fn end_of(key: u64, level: usize) -> u64 {
        let half = 4 * level as u32;
        let behind = u64::MAX >> half >> half;
        if UP { key | behind } else { key & !behind }
    }

    /// Finds the way to a key, and reads the group there.
    fn begin<V>(&mut self, map: &MlpIndex<V>, tables: Tables<'g>) -> Result<(), Again> {
        let ((key, included), start) = (self.from, self.len);
        let mut trail = Trail::new();
        let ahead = self.budget.min(AHEAD);
        let (place, above) = map.approach(tables, &mut trail, key, (Self::WAY, ahead))?;
        if !trail.holds() {
            return Err(Again);
        }
        self.state = State::Under(key, place.level);
        match place.what {
            What::Nothing => self.state = State::Done,
            What::Group => {
                let behind = |other| Self::WAY.is_before(key, other) || (included && other == key);
                for Member { key, value, .. } in place.group.members() {
                    if behind(key) {
                        self.add((key, value));
                    }
                }
                self.sort(start);
                self.from = (Self::end_of(key, place.level), false);
                if let Some(node) = above {
                    self.state = State::Under(key, node.level);
                    self.push(&node, Self::WAY.behind(byte_of(key, node.depth)));
                }
            }
            What::Node => {
                let node = place.node();
                if same_prefix(node.prefix, key, node.depth) {
                    self.push(&node, Self::WAY.behind(byte_of(key, node.depth)));
                } else if Self::WAY.is_before(key, node.prefix) {
                    self.push(&node, Self::WAY.before_all());
                }
            }
        }
        Ok(())
    }

    /// Goes up to the next node, all under the first `level` bytes of `key` having been read.
    fn climb<V>(
        &mut self,
        map: &MlpIndex<V>,
        tables: Tables<'g>,
        (key, level): (u64, usize),
    ) -> Result<(), Again> {
        if level == 0 {
            self.state = State::Done;
            return Ok(());
        }
        let mut trail = Trail::new();
        let (_, node) = map.parent(tables, &mut trail, level, key)?;
        if !trail.holds() {
            return Err(Again);
        }
        self.push(&node, Self::WAY.behind(byte_of(key, node.depth)));
        self.state = State::Under(key, node.level);
        Ok(())
    }

    /// Reads what is under the next children of the last node.
    #[inline(always)]
    fn go_on<V>(&mut self, map: &MlpIndex<V>, tables: Tables<'g>) -> Result<(), Again> {
        let top = self.depth - 1;
        let level = self.frames[top].depth + 1;
        let has_values = const { MlpIndex::<V>::HAS_VALUES };
        let kernel = if const { MlpIndex::<V>::HAS_VALUES } { map.kernel } else { None };
        let wanted = leaves_of(level);
        while self.len < self.step {
            let (frame, ring) = (&mut self.frames[top], &mut self.rings[self.ring % 2]);
            let ahead = self.budget.clamp(1, AHEAD);
            ring.ask::<UP>(frame, (tables, &map.secret), level, ahead);
            if ring.waiting == 0 {
                self.pop();
                return Ok(());
            }
            // Of a node that was just begun, nothing has been looked at: second buckets come together, not one after another.
            if ring.seen < ring.waiting.min(BEGUN) {
                ring.look_ahead(tables, level, has_values, kernel);
            }
            // A row of groups, up to a child that is none.
            let (mut count, mut len, row) = (0, self.len, ring.waiting.min(ROW));
            let mut last = 0;
            let mut is_row = true;
            while count < row && len < self.step {
                let Asked { prefix, hash, pair: Some(pair) } = *ring.at(count) else {
                    return Err(Again);
                };
                let read = if let Some(kernel) = kernel {
                    let of = (wanted, prefix);
                    read_at_once::<UP>(kernel, &mut self.ready, len, (pair, hash), of)
                } else {
                    let at = (level, prefix);
                    read_quietly::<UP>(&mut self.ready, len, (pair, hash), at, has_values)
                };
                let Some(read) = read else {
                    is_row = false;
                    break;
                };
                (len, last, count) = (read, prefix, count + 1);
            }
            self.len = len;
            if count > 0 {
                self.have_read(last, level, count);
            }
            if !is_row {
                count += 1;
                let Asked { prefix, hash, pair: Some(pair) } = *self.rings[self.ring % 2].at(0)
                else {
                    return Err(Again);
                };
                let Ok(node) = self.read_child(map, tables, (pair, hash), (level, prefix)) else {
                    self.len = len;
                    return Err(Again);
                };
                if let Some(node) = node {
                    self.rings[self.ring % 2].take(1);
                    self.push(&node, Self::WAY.before_all());
                    return Ok(());
                }
                self.have_read(prefix, level, 1);
            }
            let ring = &mut self.rings[self.ring % 2];
            ring.look_ahead(tables, level, has_values, kernel);
            for n in Bits(ring.near_nodes(count.min(NEAR)).into()) {
                let Asked { prefix, hash, .. } = *ring.at(n);
                map.ask_below(tables, hash, (level, prefix), Self::WAY);
            }
        }
        Ok(())
    }

    /// Notes that so many children were read, up to that of a prefix.
    #[inline(always)]
    fn have_read(&mut self, last: u64, level: usize, count: usize) {
        self.from = (Self::end_of(last, level), false);
        self.groups += count;
        self.budget = self.budget.saturating_sub(count);
        self.rings[self.ring % 2].take(count);
    }

    /// Reads the group under a prefix, or returns the node under it.
    #[inline(always)]
    fn read_child<V>(
        &mut self,
        map: &MlpIndex<V>,
        tables: Tables<'g>,
        (pair, hash): ([&'g Bucket; 2], u64),
        (level, prefix): (usize, u64),
    ) -> Result<Option<Node>, Again> {
        let has_values = MlpIndex::<V>::HAS_VALUES;
        let start = self.len;
        let mut trail = Trail::new();
        for bucket in pair {
            let before = self.len;
            let may_be_away = trail.look(bucket, |words| {
                self.len = before;
                words.under((level, prefix), has_values, |slot| {
                    self.add((words.number(slot), words.value(slot, has_values)));
                });
                words.kinds.may_be_away(hash)
            })?;
            if !may_be_away {
                break;
            }
        }
        let mut node = None;
        if self.len > start {
            self.sort(start);
        } else {
            let found = map.node_at(tables, &mut trail, level, prefix)?;
            if found.what == What::Nothing {
                // A child that is not there was moved meanwhile.
                return Err(Again);
            }
            node = Some(found.node());
        }
        if trail.holds() { Ok(node) } else { Err(Again) }
    }

    /// Adds an entry to those that were read.
    #[inline(always)]
    fn add(&mut self, entry: (u64, Word)) {
        self.ready.put(self.len, entry);
        self.len += 1;
    }

    /// Puts the entries that were read from `start` on, a few at most, into the order of the walk.
    #[inline(always)]
    fn sort(&mut self, start: usize) {
        for last in start + 1..self.len {
            let entry = self.ready.get(last);
            let mut at = last;
            while at > start && Self::WAY.is_before(entry.0, self.ready.keys[(at - 1) % READY]) {
                self.ready.put(at, self.ready.get(at - 1));
                at -= 1;
            }
            self.ready.put(at, entry);
        }
    }

    /// Goes down to a node, of whose children those from `next` on are to be read.
    fn push(&mut self, node: &Node, next: usize) {
        let ring = &self.rings[self.ring % 2];
        if self.depth > 0 && ring.waiting > 0 {
            if self.kept == 0 {
                // They are read when the walk is back.
                self.kept = self.depth;
                self.ring = 1 - self.ring;
            } else {
                // Those that were asked for come again.
                let frame = &mut self.frames[self.depth - 1];
                frame.seek::<UP>(Self::WAY.at(byte_of(ring.at(0).prefix, frame.depth)));
            }
        }
        let ring = &mut self.rings[self.ring % 2];
        (ring.waiting, ring.seen, ring.nodes) = (0, 0, 0);
        self.frames[self.depth] = Frame::of::<UP>(node, next);
        self.depth += 1;
    }

    /// Goes up from a node of which all children were read.
    fn pop(&mut self) {
        self.depth -= 1;
        if self.kept > 0 && self.kept == self.depth {
            self.kept = 0;
            self.ring = 1 - self.ring;
        }
    }
}

/// Puts the entries of a group into the order of a walk.
///
/// No branch on how many there are, or which comes first.
#[inline(always)]
fn sort_few<const UP: bool>(ready: &mut Ready, start: usize, len: usize) {
    let count = len - start;
    debug_assert!(count <= GROUP, "T2");
    let mut few: [(u64, Word); GROUP] = core::array::from_fn(|n| {
        let (key, value) = ready.get(start + n);
        (select_unpredictable(n < count, place_of::<UP>(key), u64::MAX), value)
    });
    const { assert!(GROUP == 3, "a network for three") };
    for (a, b) in [(0, 1), (1, 2), (0, 1)] {
        let turns = few[b].0 < few[a].0;
        let (x, y) = (few[a], few[b]);
        few[a] = (select_unpredictable(turns, y.0, x.0), select_unpredictable(turns, y.1, x.1));
        few[b] = (select_unpredictable(turns, x.0, y.0), select_unpredictable(turns, x.1, y.1));
    }
    for (n, (place, value)) in few.into_iter().enumerate() {
        ready.put(start + n, (place_of::<UP>(place), value));
    }
}

impl<V> MlpIndex<V> {
    /// Asks for the first children of a node whose lines have been asked for. What it reads is a hint.
    #[inline(never)]
    fn ask_below(&self, tables: Tables<'_>, hash: u64, at: (usize, u64), way: Way) {
        let mut node = Packed::NONE;
        for bucket in tables.node(hash).pair {
            if Words::of(bucket).find_node(&mut node, at, 0) && node.depth() < LEVELS {
                self.ask_children(
                    tables,
                    &node.unpacked(at.0),
                    way,
                    way.before_all(),
                    FIRST_CHILDREN,
                );
                return;
            }
        }
    }
}

/// Adds the keys of a group to those that are `ready` from `start` on, and returns the new number of them; `None` if there is no
/// group or a writer is in the way.
///
/// No branch on which slots have them, nor on whether the second bucket is needed: that cannot be guessed.
#[inline(always)]
fn read_at_once<const UP: bool>(
    kernel: Avx512,
    ready: &mut Ready,
    start: usize,
    ([first, other], hash): ([&Bucket; 2], u64),
    (wanted, prefix): (&Wanted, u64),
) -> Option<usize> {
    let seen = first.version.begin();
    let is_away = first.kinds().may_be_away(hash);
    let second = select_unpredictable(is_away, other, first);
    let reads = [(&first.version, seen), (&second.version, second.version.begin())];
    let keys = ready.keys.get_mut(start..)?.first_chunk_mut()?;
    let values = ready.values.get_mut(start..)?.first_chunk_mut()?;
    let lines = [first.line(), second.line()];
    let count = kernel.gather::<UP>(wanted, lines, is_away, prefix, keys, values);
    // Never more at one instant (T2).
    let is_group = count.wrapping_sub(1) < GROUP;
    (is_group && Version::hold(reads)).then_some(start + count)
}

/// As `read_at_once`, word by word.
#[inline(always)]
fn read_quietly<const UP: bool>(
    ready: &mut Ready,
    start: usize,
    (pair, hash): ([&Bucket; 2], u64),
    (level, prefix): (usize, u64),
    has_values: bool,
) -> Option<usize> {
    let (mut len, mut first) = (start, None);
    for bucket in pair {
        let seen = bucket.version.begin();
        let words = Words::of(bucket);
        for slot in 0..if has_values { UNITS } else { SLOTS } {
            let number = words.number(slot);
            ready.put(len, (number, words.value(slot, has_values)));
            let is_there = words.kinds.is_leaf_of(slot, level) & same_prefix(number, prefix, level);
            len += usize::from(is_there);
        }
        let now = bucket.version.end(seen)?;
        if now.is_changing() || now.is_dead() {
            return None;
        }
        match first {
            None if !words.kinds.may_be_away(hash) => break,
            None => first = Some((bucket, seen)),
            // Both at one instant.
            Some((first, seen)) => {
                let now = first.version.end(seen)?;
                if now.is_dead() {
                    return None;
                }
            }
        }
    }
    sort_few::<UP>(ready, start, len);
    (len > start).then_some(len)
}

/// Entries between two bounds, in key order, from both ends; see [`Pinned::range`].
#[derive(Debug)]
pub struct Range<'g, V> {
    pinned: &'g Pinned<'g, V>,
    front: Walk<'g, true>,
    /// Made when it is first needed, which is seldom.
    back: Option<Box<Walk<'g, false>>>,
    /// What is still to come lies between these.
    start: Bound<u64>,
    end: Bound<u64>,
    lone: Lone,
    ended: bool,
}

impl<'g, V> Range<'g, V> {
    #[inline]
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>) -> Self {
        let lone = Lone::new(pinned.map.lengths.expected());
        Self { pinned, front: Walk::new(start), back: None, start, end, lone, ended: false }
    }

    /// Finds the first entry, or the last one, as a bound is found. A walk from there goes on behind it.
    #[inline(never)]
    fn find_lone<const UP: bool>(&mut self) -> Option<(u64, Ref<'g, V>)> {
        let pinned = self.pinned;
        let found = if UP { pinned.first_from(self.start) } else { pinned.last_up_to(self.end) };
        let found = found.filter(|(key, _)| self.is_behind_start(*key) && self.is_before_end(*key));
        let key = found.as_ref().map(|(key, _)| *key);
        if UP {
            // Without an entry nothing is left.
            self.start = Bound::Excluded(key.unwrap_or(u64::MAX));
            self.front.from = (key.unwrap_or(u64::MAX), false);
        } else {
            self.end = Bound::Excluded(key.unwrap_or(0));
        }
        self.ended = found.is_none();
        found
    }

    /// Whether a key is not before what is still to come. What the walk from there finds never is.
    #[inline]
    fn is_behind_start(&self, key: u64) -> bool {
        match self.start {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        }
    }

    /// Whether a key is not behind what is still to come; as above.
    #[inline]
    fn is_before_end(&self, key: u64) -> bool {
        match self.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        }
    }
}

impl<V> Drop for Range<'_, V> {
    #[inline]
    fn drop(&mut self) {
        let (map, front) = (self.pinned.map, &self.front);
        let back = self.back.as_ref().map_or(0, |back| back.length());
        map.lengths.note(self.lone.length(front.length().max(back)));
        map.rate.note(front.groups, front.before + front.len);
    }
}

impl<'g, V> Iterator for Range<'g, V> {
    type Item = (u64, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.lone.is_next() {
            return self.find_lone::<true>();
        }
        let next = self.front.next(self.pinned).filter(|(key, _)| self.is_before_end(*key));
        let Some((key, word)) = next else {
            self.ended = true;
            return None;
        };
        self.start = Bound::Excluded(key);
        Some((key, Ref::new(read_value(word))))
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.lone.is_next() {
            return self.find_lone::<false>();
        }
        let back = self.back.get_or_insert_with(|| Box::new(Walk::new(self.end)));
        let next = back.next(self.pinned).filter(|(key, _)| self.is_behind_start(*key));
        let Some((key, word)) = next else {
            self.ended = true;
            return None;
        };
        self.end = Bound::Excluded(key);
        Some((key, Ref::new(read_value(word))))
    }
}

impl<V> FusedIterator for Range<'_, V> {}

#[cfg(all(test, not(loom), not(shuttle), not(small_leaves), not(miri)))]
mod tests {
    use std::collections::BTreeMap;

    use super::MlpIndex;
    use crate::hash::mix::stream;

    /// Walks of many lengths through random keys, of which most lie on one level and some below nodes there.
    #[test]
    fn walks_of_any_length_among_dense_keys_are_those_of_a_btreemap() {
        for has_kernel in [true, false] {
            let mut map = MlpIndex::new();
            if !has_kernel {
                map.kernel = None;
            }
            let pinned = map.pin();
            let keys = |n| if n % 8 == 0 { stream(3, n) >> 48 << 48 | n } else { stream(3, n) };
            let model: BTreeMap<u64, u64> = (0..30_000).map(|n| (keys(n), n)).collect();
            for (key, value) in &model {
                assert!(pinned.insert(*key, *value).is_none());
            }
            let walks = [3, 100, 1, 17, 40, 0, 1000].into_iter().cycle();
            for (n, length) in (0..3000).zip(walks) {
                let from = if n % 2 == 0 { stream(4, n) } else { keys(n) };
                // Many short ones, so that they are expected.
                let length = if n < 1000 { length } else { length % 41 };
                let up = pinned.range(from..).take(length).map(|(key, value)| (key, *value));
                let next = model.range(from..).take(length).map(|(key, value)| (*key, *value));
                assert!(up.eq(next), "{length} from {from:x}");
                let down = pinned.range(..from).rev().take(length);
                let next = model.range(..from).rev().take(length);
                let next = next.map(|(key, value)| (*key, *value));
                assert!(down.map(|(key, value)| (key, *value)).eq(next), "{length} to {from:x}");
            }
            assert!(pinned.iter().map(|(key, value)| (key, *value)).eq(model));
        }
    }
}
