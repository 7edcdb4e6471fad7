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

use super::edit::{Again, Trail};
use super::layout::{Children, GROUP, LEVELS, Node, byte_of, child_of, same_prefix};
use super::raw::{Directory, read_value};
use super::search::{Found, Way, What};
use super::{MlpIndex, Pinned, Ref};
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;

/// Entries that a walk reads at a time, at least.
const STEP: usize = 16;

/// How many children of a node are asked for ahead.
///
/// Two lines each. Fewer leave the walk waiting, more fetch for nothing where a walk is short.
const AHEAD: usize = 8;

/// A node on the way, and which of its children are still to come.
#[derive(Clone, Copy, Debug)]
struct Frame {
    prefix: u64,
    depth: usize,
    rest: Children,
    /// Those of `rest` that were not asked for yet.
    unasked: Children,
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
struct Walk {
    way: Way,
    state: State,
    /// All before this key has been read, and the key itself if the second is false.
    from: (u64, bool),
    frames: [Option<Frame>; LEVELS],
    depth: usize,
    /// Entries that were read, the next one last.
    ready: Vec<(u64, Word)>,
}

impl Walk {
    fn new(way: Way, bound: Bound<u64>) -> Self {
        let from = match (bound, way) {
            (Bound::Included(key), _) => (key, true),
            (Bound::Excluded(key), _) => (key, false),
            (Bound::Unbounded, Way::Up) => (0, true),
            (Bound::Unbounded, Way::Down) => (u64::MAX, true),
        };
        let frames = [None; LEVELS];
        Self { way, state: State::From, from, frames, depth: 0, ready: Vec::new() }
    }

    /// The next entry.
    #[inline]
    fn next<V>(&mut self, pinned: &Pinned<'_, V>) -> Option<(u64, Word)> {
        if self.ready.is_empty() {
            self.fill(pinned);
        }
        self.ready.pop()
    }

    /// Reads some entries.
    fn fill<V>(&mut self, pinned: &Pinned<'_, V>) {
        let map = pinned.map;
        let mut backoff = Backoff::new();
        let mut found = core::mem::take(&mut self.ready);
        found.reserve(STEP + GROUP);
        while found.len() < STEP {
            let Some(directory) = map.root.get(&pinned.guard) else { break };
            let step = match self.state {
                State::Done => break,
                State::From => self.begin(map, directory, &mut found),
                State::Under(key, level) => self.go_on(map, directory, (key, level), &mut found),
            };
            if step.is_err() {
                self.depth = 0;
                self.state = State::From;
                backoff.wait();
            }
        }
        found.reverse();
        self.ready = found;
    }

    /// The last key that has the first `level` bytes of `key`.
    fn end_of(&self, key: u64, level: usize) -> u64 {
        let half = 4 * level as u32;
        let behind = u64::MAX >> half >> half;
        match self.way {
            Way::Up => key | behind,
            Way::Down => key & !behind,
        }
    }

    /// Finds the way to a key, and reads the group there.
    fn begin<V>(
        &mut self,
        map: &MlpIndex<V>,
        directory: &Directory,
        found: &mut Vec<(u64, Word)>,
    ) -> Result<(), Again> {
        let (way, (key, included)) = (self.way, self.from);
        map.ask_all(directory, key);
        let mut trail: Trail<'_> = Trail::new();
        let place = map.locate(directory, &mut trail, key)?;
        if !trail.holds() {
            return Err(Again);
        }
        match &place.what {
            What::Nothing => {
                self.state = State::Done;
                return Ok(());
            }
            What::Group => {
                let behind = |other| way.is_before(key, other) || (included && other == key);
                Self::read_group::<V>(&place, key, way, behind, found);
                self.from = (self.end_of(key, place.level), false);
            }
            What::Node(_, _, node) if !same_prefix(node.prefix, key, node.depth) => {
                if way.is_before(key, node.prefix) {
                    self.push(map, directory, node, node.children);
                }
            }
            What::Node(_, _, node) => {
                self.push_behind(map, directory, node, byte_of(key, node.depth));
            }
        }
        self.state = State::Under(key, place.level);
        Ok(())
    }

    /// Reads what is under the next child; `(key, level)` is what has been read when the frames are empty.
    fn go_on<V>(
        &mut self,
        map: &MlpIndex<V>,
        directory: &Directory,
        (key, level): (u64, usize),
        found: &mut Vec<(u64, Word)>,
    ) -> Result<(), Again> {
        let way = self.way;
        let Some(frame) = self.depth.checked_sub(1).and_then(|top| self.frames[top].as_mut())
        else {
            // Up to the next node that has a child behind.
            if level == 0 {
                self.state = State::Done;
                return Ok(());
            }
            let mut trail: Trail<'_> = Trail::new();
            let (_, node) = map.parent(directory, &mut trail, level, key)?;
            if !trail.holds() {
                return Err(Again);
            }
            self.push_behind(map, directory, &node, byte_of(key, node.depth));
            self.state = State::Under(key, node.level);
            return Ok(());
        };
        let Some(byte) = way.first_child(&frame.rest) else {
            self.depth -= 1;
            return Ok(());
        };
        if let Some(ahead) = way.first_child(&frame.unasked) {
            frame.unasked.remove(ahead);
            map.ask(directory, frame.depth + 1, child_of(frame.prefix, frame.depth, ahead));
        }
        frame.rest.remove(byte);
        let (level, prefix) = (frame.depth + 1, child_of(frame.prefix, frame.depth, byte));
        let mut trail: Trail<'_, 2> = Trail::new();
        let place = map.entry_at(directory, &mut trail, level, prefix)?.ok_or(Again)?;
        if !trail.holds() {
            return Err(Again);
        }
        if let What::Node(_, _, node) = &place.what {
            self.push(map, directory, node, node.children);
        } else {
            Self::read_group::<V>(&place, prefix, way, |_| true, found);
            self.from = (self.end_of(prefix, level), false);
        }
        Ok(())
    }

    /// Appends the keys of a group for which `wanted` holds, in the order of the walk.
    #[inline]
    fn read_group<V>(
        place: &Found<'_>,
        key: u64,
        way: Way,
        wanted: impl Fn(u64) -> bool,
        found: &mut Vec<(u64, Word)>,
    ) {
        let start = found.len();
        for (key, at, slot) in place.group(key).filter(|(key, ..)| wanted(*key)) {
            let image = &place.images[at];
            let value =
                if MlpIndex::<V>::HAS_VALUES { image.value(slot) } else { core::ptr::null_mut() };
            // A group has a few keys at most.
            let place = found[start..].iter().position(|(other, _)| way.is_before(key, *other));
            found.insert(place.map_or(found.len(), |place| start + place), (key, value));
        }
    }

    fn push_behind<V>(&mut self, map: &MlpIndex<V>, directory: &Directory, node: &Node, byte: u8) {
        let way = self.way;
        let mut rest = node.children;
        while let Some(first) = way.first_child(&rest) {
            let is_behind = match way {
                Way::Up => first > byte,
                Way::Down => first < byte,
            };
            if is_behind {
                break;
            }
            rest.remove(first);
        }
        self.push(map, directory, node, rest);
    }

    fn push<V>(&mut self, map: &MlpIndex<V>, directory: &Directory, node: &Node, rest: Children) {
        let mut unasked = rest;
        for _ in 0..AHEAD {
            let Some(ahead) = self.way.first_child(&unasked) else { break };
            unasked.remove(ahead);
            map.ask(directory, node.depth + 1, child_of(node.prefix, node.depth, ahead));
        }
        let frame = Frame { prefix: node.prefix, depth: node.depth, rest, unasked };
        self.frames[self.depth] = Some(frame);
        self.depth += 1;
    }
}

/// Entries between two bounds, in key order, from both ends; see [`Pinned::range`].
#[derive(Debug)]
pub struct Range<'g, V> {
    pinned: &'g Pinned<'g, V>,
    front: Walk,
    back: Walk,
    /// What is still to come lies between these.
    start: Bound<u64>,
    end: Bound<u64>,
}

impl<'g, V> Range<'g, V> {
    pub(super) fn new(pinned: &'g Pinned<'_, V>, start: Bound<u64>, end: Bound<u64>) -> Self {
        let (front, back) = (Walk::new(Way::Up, start), Walk::new(Way::Down, end));
        Self { pinned, front, back, start, end }
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
        let (key, word) = self.back.next(self.pinned)?;
        if !self.is_inside(key) {
            return None;
        }
        self.end = Bound::Excluded(key);
        Some((key, Ref::new(read_value(word))))
    }
}
