//! Running ahead of a scan.
//!
//! A scan that follows the links of level 0 waits for every node. The links of the levels above lead further: those of level
//! `k` about `2^k` nodes. So a scan keeps *tasks*: `(start, end, level)` is that `start` has been asked for, that `end` comes
//! behind it on `level`, and that what lies between is to be asked for. A step of a task asks for the next nodes of `start` on
//! its levels, and leaves a task for each of the stretches between them:
//!
//! ```text
//! level 2    start ----------------------> c          asks for a, b and c, then: (a, b, 0)
//! level 1    start --------> b ----------> c                                     (b, c, 1)
//! level 0    start --> a --> b --> . --> . c                                     (c, end, 2)
//! ```
//!
//! Each node is the start of one task, so a step for each entry that is handed out keeps the distance. The search for the
//! first entry has found the first nodes on the lowest levels, and has their lines: the stretches between them are the first
//! tasks, the nearest first, each when the scan has come so far that it is likely to come there. The last one has no end, and
//! goes up to the highest level of a task by the nodes that it meets. No step is taken of a task that came with the same
//! entry: its line is under way, and waiting for it would stop the scan.
//!
//! Tasks only ask for memory, and follow links: what a scan yields does not depend on them. They follow links under the
//! rules of all readers (`docs/design/skip-list.md`): a node that was reached on a level and is not marked there is on all
//! levels below.
//!
//! PAPER: section 3.1, with the queue's steps spread over the entries instead of one phase for every `2^K` of them, and
//! without the search for a first node of height `K`. Section 3.2 keeps the fixed cadence where nodes are removed
//! meanwhile; so do we, as nothing here waits for the scan to come to a certain node.

use super::SkipList;
use super::key::SkipKey;
use super::layout::{LEVELS, Link, Unit};
use super::raw::Node;

/// Levels of which a search notes the first nodes: those of the tasks.
pub(super) const LOOK: usize = if LEVELS < 5 { LEVELS } else { 5 };

/// The level of the task that has no end: on average `2^4` tasks at a time, as many lines.
///
/// Two independent reads cost hardly more than one, sixteen twice as much (`fanread probe`). Level 3 leaves the scan
/// waiting, level 5 asks for more at once than a core keeps track of. `fanread bench --workload scan-1000` decides.
pub(super) const TOP_TASK: usize = if LOOK < 5 { LOOK - 1 } else { 4 };

/// The entry at which the stretch of each level becomes a task. Who has come as far as `2^level` entries is likely to come
/// twice as far; what is asked for and not used makes the next search wait.
const OPENED_AT: [u32; 5] = [u32::MAX, 2, 3, 4, 6];

/// Up to this entry a scan takes few steps: of short scans each costs more than it brings.
const EARLY: u32 = 6;

/// Steps for each entry at most: at first, and later. As many as there are tasks on average would stop the scan for all of
/// them at once; one would never get ahead.
const STEPS_AT_ONCE: [u32; 2] = [2, 4];

/// How far ahead a scan gets: steps for each task that there is on average.
///
/// A stretch of the highest level is broken down to nodes in as many steps of all tasks as it has levels. Early on it is half of
/// that: what is asked for behind the end of a short scan costs more than a node that comes late.
const LEAD: u32 = 4;

/// The highest level that the task without an end may be given.
const MAX_TOP: usize = if LEVELS < 6 { LEVELS - 1 } else { 5 };

/// Room for tasks: twice what there is on average. What finds no room is not asked for.
const TASKS: usize = 32;

/// Steps of a task with an end. One in 2^16 gaps is as wide; a task whose end was removed must not go on for ever.
const STEPS: u8 = 16;

/// A stretch to be asked for.
#[derive(Clone, Copy, Debug)]
struct Task {
    start: Link,
    end: Link,
    level: u8,
    steps: u8,
}

impl Task {
    const NONE: Self = Self { start: Link::END, end: Link::END, level: 0, steps: 0 };
}

/// How a scan runs ahead: its tasks, first in first out.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The first nodes of the scan on each level.
    look: [Link; LOOK],
    ring: [Task; TASKS],
    first: u32,
    count: u32,
    /// The level of the task without an end; 0 for a scan that does not run ahead.
    top: u32,
    /// The stretches of which levels have become tasks.
    opened: u32,
    /// Entries that were handed out.
    taken: u32,
    /// Nodes that were the start of a step.
    stepped: u32,
    /// Where the task without an end was when `marked_at` entries were handed out.
    marker: Link,
    marked_at: u32,
}

impl Ahead {
    pub(super) fn new() -> Self {
        Self {
            look: [Link::END; LOOK],
            ring: [Task::NONE; TASKS],
            first: 0,
            count: 0,
            top: TOP_TASK as u32,
            opened: 1,
            taken: 0,
            stepped: 0,
            marker: Link::END,
            marked_at: 0,
        }
    }

    /// Sets the level of the task without an end, 0 for none.
    pub(super) fn set_top(&mut self, level: usize) {
        self.top = level.min(MAX_TOP) as u32;
    }

    /// Notes where a scan begins.
    pub(super) fn begin(&mut self, look: [Link; LOOK]) {
        self.look = look;
    }

    #[inline(always)]
    fn push(&mut self, task: Task) {
        // The last place is for the task without an end.
        if self.count < TASKS as u32 - u32::from(task.end != Link::END) {
            self.ring[self.first.wrapping_add(self.count) as usize % TASKS] = task;
            self.count += 1;
        }
    }

    /// Asks for the start of a stretch, and leaves it as a task if `is_wanted` is 1 and there is one.
    ///
    /// Without a branch: which way it went would be known when the line is there that the links are in, and a wrong guess
    /// would stop the scan until then.
    #[inline(always)]
    fn leave<K: SkipKey, V>(&mut self, map: &SkipList<K, V>, task: Task, is_wanted: u32) {
        map.memory.ask_link(task.start);
        // The last place is for the task without an end; the one behind the last is that of the task that is being stepped.
        let has_room = self.count < TASKS as u32 - u32::from(task.end != Link::END);
        self.ring[self.first.wrapping_add(self.count) as usize % TASKS] = task;
        self.count += is_wanted & u32::from(has_room) & u32::from(task.start != Link::END);
    }

    /// Does its part for an entry that is handed out. `is_behind` says of a node whether it is behind the end of the scan.
    #[inline(always)]
    pub(super) fn step<'g, K: SkipKey, V>(
        &mut self,
        map: &'g SkipList<K, V>,
        current: Node<'g, K, V>,
        is_behind: impl Fn(Node<'g, K, V>) -> bool,
    ) {
        if self.top == 0 {
            return;
        }
        self.taken += 1;
        if self.taken >= 2 {
            self.run(map, current, is_behind);
        }
    }

    #[inline]
    fn run<'g, K: SkipKey, V>(
        &mut self,
        map: &'g SkipList<K, V>,
        current: Node<'g, K, V>,
        is_behind: impl Fn(Node<'g, K, V>) -> bool,
    ) {
        if self.opened <= self.top.min(LOOK as u32 - 1) {
            self.open(map, current);
        }
        self.keep_distance(current);
        let is_early = self.taken < EARLY;
        let most = if is_early { self.taken * 2 + 2 } else { self.taken * 4 };
        let lead = LEAD << self.top;
        let enough = most.min(self.taken + lead.min(lead / 2 + self.taken / 8));
        let mut steps = self.count.min(STEPS_AT_ONCE[usize::from(!is_early)]);
        while steps > 0 && self.stepped < enough {
            steps -= 1;
            let task = self.ring[self.first as usize % TASKS];
            self.first = self.first.wrapping_add(1);
            self.count -= 1;
            self.stepped += 1;
            let Some(start) = task.start.unit() else { continue };
            if task.end == Link::END && self.marker == Link::END {
                (self.marker, self.marked_at) = (task.start, self.taken);
            }
            let start = map.memory.node(start);
            if !is_behind(start) {
                self.step_of(map, task, start);
            }
        }
        if self.taken > u32::MAX / 8 {
            // Of a long scan only the difference matters.
            let ahead = self.stepped.saturating_sub(self.taken);
            (self.taken, self.stepped, self.marker) = (1 << 16, (1 << 16) + ahead, Link::END);
        }
    }

    /// Corrects the count of steps, by how far ahead the task without an end has been. What finds no room in the ring is
    /// never stepped, and nodes that are removed are not handed out: the count alone leads a long scan astray.
    #[inline(always)]
    fn keep_distance<K: SkipKey, V>(&mut self, current: Node<'_, K, V>) {
        let lead = self.taken.wrapping_sub(self.marked_at);
        let wanted = LEAD << self.top;
        if self.marker == Link::to(Some(current.unit())) {
            if lead > 2 * wanted {
                self.stepped += lead - 2 * wanted;
            } else if lead < wanted / 2 {
                self.stepped = self.stepped.saturating_sub(wanted / 2 - lead);
            }
            self.marker = Link::END;
        } else if self.marker != Link::END && lead > 16 * wanted {
            // It was removed, or the scan has passed it.
            self.stepped = self.stepped.saturating_sub(wanted);
            self.marker = Link::END;
        }
    }

    /// Makes tasks of the stretches that begin where the search has come out.
    fn open<'g, K: SkipKey, V>(&mut self, map: &'g SkipList<K, V>, current: Node<'g, K, V>) {
        while self.opened <= self.top.min(LOOK as u32 - 1)
            && self.taken >= OPENED_AT[self.opened as usize]
        {
            let level = self.opened as usize;
            self.opened += 1;
            let start = self.look[level];
            let above = self.look.get(level + 1).filter(|_| self.opened <= self.top);
            let end = above.copied().unwrap_or(Link::END);
            let is_past = |end: Unit| map.memory.node(end).key() <= current.key();
            if start != end && !end.unit().is_some_and(is_past) {
                self.push(Task { start, end, level: level as u8, steps: STEPS });
            }
        }
    }

    /// Does one step of a task.
    #[inline(always)]
    fn step_of<'g, K: SkipKey, V>(
        &mut self,
        map: &'g SkipList<K, V>,
        task: Task,
        start: Node<'g, K, V>,
    ) {
        let Task { end, mut level, .. } = task;
        let state = start.state();
        if let Some(version) = state.chain() {
            map.memory.ask_version(version);
        }
        start.ask_behind();
        let tower = start.tower();
        let mut last = tower.at(level.into()).load();
        if end == Link::END && u32::from(level) < self.top && state.is_linked_above(level.into()) {
            // The task without an end goes up to its level by the nodes that it meets.
            let above = tower.at(usize::from(level) + 1).load();
            if !above.is_marked() {
                (level, last) = (level + 1, above);
            }
        }
        if level > 0 && !last.is_marked() {
            let mut next = tower.at(0).load().unmarked();
            for below in 0..level {
                let above = if below + 1 == level {
                    last
                } else {
                    tower.at(usize::from(below) + 1).load().unmarked()
                };
                let stretch = Task { start: next, end: above, level: below, steps: STEPS };
                self.leave(map, stretch, u32::from(next != above));
                next = above;
            }
        }
        // A node that was removed from this level leads on along it, and nowhere else.
        let rest = Task { start: last.unmarked(), steps: task.steps.saturating_sub(1), level, end };
        let goes_on = u32::from(end == Link::END || task.steps > 0);
        self.leave(map, rest, goes_on & u32::from(rest.start != end));
    }
}
