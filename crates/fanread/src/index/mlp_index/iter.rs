//! Walking over the entries in order, from both ends.
//!
//! A walk reads a group, or the children of a node, as they are at one instant, and goes on to the next child of the last
//! node it has read. What it finds under a child's prefix speaks for itself: a group holds all keys of its prefix (T2),
//! whatever has become of the node meanwhile. If nothing is there, or the walk has come to the end of what it knows, it
//! finds its way anew from the last key.
//!
//! The buckets of some next children are asked for while the first ones are read.
//!
//! PAPER: section 4.2; the paper has no scans, only repeated lower bounds.

use core::ops::Bound;

use super::edit::{Again, Trail, View};
use super::layout::{Children, LEVELS, Node, SLOTS, UNITS, Way, byte_of, child_of, same_prefix};
use super::raw::{Home, Tables, read_value};
use super::search::What;
use super::words::{Member, Words};
use super::{MlpIndex, Pinned, Ref};
use crate::arch::prefetch;
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;

/// Entries that a walk reads at a time, at least.
const STEP: usize = 16;

/// How many children of a node are asked for ahead.
///
/// A line each. Fewer leave the walk waiting, more fetch for nothing where a walk is short.
const AHEAD: usize = 12;
/// How far ahead the second bucket of a child is asked for, if one of its keys is away.
///
/// Nearer, and it comes too late; further, and the first is not there yet.
const HALFWAY: usize = AHEAD / 2;
/// Places in the ring of these.
const RING: usize = AHEAD.next_power_of_two();
/// Entries that a walk has room for: words that do not belong together may look like a key in every slot.
const READY: usize = (STEP + 2 * SLOTS).next_power_of_two();

/// A node on the way.
#[derive(Clone, Copy, Debug)]
struct Frame {
    prefix: u64,
    depth: usize,
    children: Children,
    /// From where on children are still to be read.
    next: usize,
}

impl Frame {
    const NONE: Self = Self { prefix: 0, depth: 0, children: Children([0; 4]), next: 0 };
}

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

/// A walk in one direction.
#[derive(Debug)]
struct Walk<'g, const UP: bool> {
    state: State,
    /// All before this key has been read, and the key itself if the second is false.
    from: (u64, bool),
    frames: [Frame; LEVELS],
    depth: usize,
    /// Children of the last node that were asked for, in a ring: their bytes, and where they are.
    asked: [(u8, Option<Home<'g>>); RING],
    /// Which of them is read next, and how many there are.
    first: usize,
    waiting: usize,
    /// Entries that were read, from `taken` on.
    ready: [(u64, Word); READY],
    taken: usize,
    len: usize,
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
            asked: [(0, None); RING],
            first: 0,
            waiting: 0,
            ready: [(0, core::ptr::null_mut()); READY],
            taken: 0,
            len: 0,
        }
    }

    /// The next entry.
    #[inline(always)]
    fn next<V>(&mut self, pinned: &'g Pinned<'g, V>) -> Option<(u64, Word)> {
        if self.taken == self.len {
            self.fill(pinned);
        }
        let next = self.ready[..self.len].get(self.taken).copied();
        self.taken += 1;
        next
    }

    /// Reads some entries, if there are any.
    #[inline(never)]
    fn fill<V>(&mut self, pinned: &'g Pinned<'g, V>) {
        let map = pinned.map;
        let mut backoff = Backoff::new();
        (self.taken, self.len) = (0, 0);
        while self.len < STEP {
            let Some(tables) = map.tables(&pinned.guard) else { break };
            let step = match self.state {
                State::Done => break,
                State::From => self.begin(map, tables),
                State::Under(..) if self.depth > 0 => self.go_on(map, tables),
                State::Under(key, level) => self.climb(map, tables, (key, level)),
            };
            if step.is_err() {
                self.depth = 0;
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
        let (place, above) = map.approach(tables, &mut trail, key, (Self::WAY, AHEAD))?;
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
        while self.len < STEP {
            let frame = &mut self.frames[top];
            let asked_before = self.waiting;
            while self.waiting < AHEAD
                && let Some(byte) = Self::WAY.child_from(&frame.children, frame.next)
            {
                let prefix = child_of(frame.prefix, frame.depth, byte);
                let home = tables.group(map.hash(level, prefix));
                prefetch(home.pair[0]);
                self.asked[(self.first + self.waiting) % RING] = (byte, Some(home));
                self.waiting += 1;
                frame.next = Self::WAY.behind(byte);
            }
            if self.waiting == 0 {
                self.depth -= 1;
                return Ok(());
            }
            // The first buckets of children further on have come by now, and tell whether their second ones are needed.
            let halfway = self.waiting.min(HALFWAY);
            let from = if asked_before == 0 { 0 } else { halfway - 1 };
            for n in from..halfway {
                if let (_, Some(home)) = &self.asked[(self.first + n) % RING]
                    && home.pair[0].kinds().may_be_away(home.hash)
                {
                    prefetch(home.pair[1]);
                }
            }
            let (byte, Some(home)) = self.asked[self.first % RING] else { return Err(Again) };
            let prefix = child_of(frame.prefix, frame.depth, byte);
            let start = self.len;
            let at = (level, prefix);
            if let Some(len) =
                read_quietly(&mut self.ready, start, &home, at, MlpIndex::<V>::HAS_VALUES)
            {
                self.len = len;
                self.sort(start);
            } else {
                let Ok(node) = self.read_child(map, tables, &home, (level, prefix)) else {
                    self.len = start;
                    return Err(Again);
                };
                if let Some(node) = node {
                    self.first = (self.first + 1) % RING;
                    self.waiting -= 1;
                    self.push(&node, Self::WAY.before_all());
                    return Ok(());
                }
            }
            self.first = (self.first + 1) % RING;
            self.waiting -= 1;
            self.from = (Self::end_of(prefix, level), false);
        }
        Ok(())
    }

    /// Reads the group under a prefix, or returns the node under it.
    #[inline(always)]
    fn read_child<V>(
        &mut self,
        map: &MlpIndex<V>,
        tables: Tables<'g>,
        home: &Home<'g>,
        (level, prefix): (usize, u64),
    ) -> Result<Option<Node>, Again> {
        let has_values = MlpIndex::<V>::HAS_VALUES;
        let start = self.len;
        let mut trail = Trail::new();
        for bucket in home.pair {
            let before = self.len;
            let may_be_away = trail.look(bucket, |words| {
                self.len = before;
                words.under((level, prefix), has_values, |slot| {
                    self.add((words.number(slot), words.value(slot, has_values)));
                });
                words.kinds.may_be_away(home.hash)
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
        self.ready[self.len] = entry;
        self.len += 1;
    }

    /// Puts the entries that were read from `start` on, a few at most, into the order of the walk.
    #[inline(always)]
    fn sort(&mut self, start: usize) {
        for last in start + 1..self.len {
            let entry = self.ready[last];
            let mut at = last;
            while at > start && Self::WAY.is_before(entry.0, self.ready[at - 1].0) {
                self.ready[at] = self.ready[at - 1];
                at -= 1;
            }
            self.ready[at] = entry;
        }
    }

    /// Goes down to a node, of whose children those from `next` on are to be read.
    fn push(&mut self, node: &Node, next: usize) {
        // Those that were asked for come again when the walk is back.
        if let Some(frame) = self.depth.checked_sub(1).map(|top| &mut self.frames[top])
            && self.waiting > 0
        {
            let (byte, _) = self.asked[self.first];
            frame.next = Self::WAY.at(byte);
        }
        self.waiting = 0;
        let &Node { prefix, depth, children, .. } = node;
        self.frames[self.depth] = Frame { prefix, depth, children, next };
        self.depth += 1;
    }
}

/// Adds the keys of a group to those that are `ready` from `start` on, in any order, and returns the new number of them;
/// `None` if there is no group or a writer is in the way.
///
/// No branch on which slots have them: that cannot be guessed.
#[inline(always)]
fn read_quietly(
    ready: &mut [(u64, Word); READY],
    start: usize,
    home: &Home<'_>,
    (level, prefix): (usize, u64),
    has_values: bool,
) -> Option<usize> {
    let (mut len, mut first) = (start, None);
    for bucket in home.pair {
        let seen = bucket.version.begin();
        let words = Words::of(bucket);
        for slot in 0..if has_values { UNITS } else { SLOTS } {
            let number = words.number(slot);
            ready[len % READY] = (number, words.value(slot, has_values));
            let is_there = words.kinds.is_leaf_of(slot, level) & same_prefix(number, prefix, level);
            len += usize::from(is_there);
        }
        let now = bucket.version.end(seen)?;
        if now.is_changing() || now.is_dead() {
            return None;
        }
        match first {
            None if !words.kinds.may_be_away(home.hash) => break,
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
}

impl<'g, V> Range<'g, V> {
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>) -> Self {
        Self { pinned, front: Walk::new(start), back: None, start, end }
    }

    /// Whether a key lies between the bounds.
    #[inline]
    fn is_inside(&self, key: u64) -> bool {
        let from = match self.start {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        };
        from && match self.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        }
    }
}

impl<'g, V> Iterator for Range<'g, V> {
    type Item = (u64, Ref<'g, V>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (key, word) = self.front.next(self.pinned)?;
        if !self.is_inside(key) {
            return None;
        }
        self.start = Bound::Excluded(key);
        Some((key, Ref::new(read_value(word))))
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let back = self.back.get_or_insert_with(|| Box::new(Walk::new(self.end)));
        let (key, word) = back.next(self.pinned)?;
        if !self.is_inside(key) {
            return None;
        }
        self.end = Bound::Excluded(key);
        Some((key, Ref::new(read_value(word))))
    }
}
