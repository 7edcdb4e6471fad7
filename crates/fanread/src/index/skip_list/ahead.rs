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
//! first entry has found the first nodes on all levels, and those are the first tasks: the scan is at its full width at once.
//! How far it may be ahead grows with what it has handed out, so that short scans ask for little that they do not use.
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
use super::layout::{LEVELS, Link};
use super::raw::Node;

/// Levels of which a search notes the first nodes: one more than the highest level of a task.
pub(super) const LOOK: usize = if LEVELS < 6 { LEVELS } else { 6 };

/// The level of the task that has no end: on average `2^4` tasks at a time, as many lines.
///
/// Two independent reads cost hardly more than one, sixteen twice as much (`fanread probe`). Level 3 leaves the scan
/// waiting, level 5 asks for more at once than a core keeps track of. `fanread bench --workload scan-1000` decides.
pub(super) const TOP_TASK: usize = if LOOK < 5 { LOOK - 1 } else { 4 };

/// The entry at which a scan begins to run ahead. A search has seen the first entries itself, and lines that a short scan
/// asks for and does not come to make the next one wait.
const FIRST_STEP: u32 = 8;

/// Steps for each entry until the scan is far enough ahead. One would never get ahead; more ask for much that a scan of some
/// ten entries does not come to.
const STEPS_AT_FIRST: u32 = 3;

/// How far ahead a scan gets: steps for each task that there is on average.
///
/// A stretch of the highest level is broken down to nodes in as many steps of all tasks as it has levels.
const LEAD: u32 = 3;

/// Room for tasks: twice what there is on average. What finds no room is not asked for.
const TASKS: usize = 32;

/// Steps of a task with an end. One in 2^16 gaps is as wide; a task whose end was removed must not go on for ever.
const STEPS: u8 = 16;

/// A stretch to be asked for.
#[derive(Debug)]
struct Task<'g, K, V> {
    start: Node<'g, K, V>,
    end: Link,
    level: u8,
    steps: u8,
}

impl<K, V> Clone for Task<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Task<'_, K, V> {}

/// The tasks of a scan, first in first out.
#[derive(Debug)]
struct Tasks<'g, K, V> {
    ring: [Option<Task<'g, K, V>>; TASKS],
    first: usize,
    count: usize,
}

impl<'g, K: SkipKey, V> Tasks<'g, K, V> {
    /// The tasks of a scan that is at a node, of those that begin where its search has come out.
    #[cold]
    fn new(
        map: &'g SkipList<K, V>,
        look: [Link; LOOK],
        top: usize,
        current: Node<'g, K, V>,
    ) -> Box<Self> {
        let mut tasks = Box::new(Self { ring: [None; TASKS], first: 0, count: 0 });
        for level in 0..=top {
            let end = if level == top { Link::END } else { look[level + 1] };
            let Some(start) = look[level].unit().filter(|_| look[level] != end) else { continue };
            let start = map.memory.node(start);
            let is_past = end.unit().is_some_and(|end| map.memory.node(end).key() <= current.key());
            if !is_past {
                tasks.push(Task { start, end, level: level as u8, steps: STEPS });
            }
        }
        tasks
    }

    #[inline(always)]
    fn push(&mut self, task: Task<'g, K, V>) {
        // The last place is for the task without an end.
        if self.count < TASKS - usize::from(task.end != Link::END) {
            self.ring[(self.first + self.count) % TASKS] = Some(task);
            self.count += 1;
        }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<Task<'g, K, V>> {
        self.count = self.count.checked_sub(1)?;
        let task = self.ring[self.first % TASKS];
        self.first = self.first.wrapping_add(1);
        task
    }

    /// Does one step of a task.
    #[inline(always)]
    fn step(&mut self, map: &'g SkipList<K, V>, task: Task<'g, K, V>) {
        let Task { start, end, level, .. } = task;
        if let Some(version) = start.state().chain() {
            map.memory.ask_version(version);
        }
        start.ask_behind();
        let tower = start.tower();
        let last = tower.at(level.into()).load();
        if level > 0 && !last.is_marked() {
            let mut next = tower.at(0).load().unmarked();
            for below in 0..level {
                let above = if below + 1 == level {
                    last
                } else {
                    tower.at(usize::from(below) + 1).load().unmarked()
                };
                if let Some(unit) = next.unit().filter(|_| next != above) {
                    let start = map.memory.asked(unit);
                    self.push(Task { start, end: above, level: below, steps: STEPS });
                }
                next = above;
            }
        }
        // A node that was removed from this level leads on along it, and nowhere else.
        let last = last.unmarked();
        if let Some(unit) = last.unit().filter(|_| last != end) {
            let start = map.memory.asked(unit);
            if end == Link::END || task.steps > 0 {
                self.push(Task { start, steps: task.steps.saturating_sub(1), ..task });
            }
        }
    }
}

/// How a scan runs ahead.
#[derive(Debug)]
pub(super) struct Ahead<'g, K, V> {
    /// The first nodes of the scan on each level.
    look: [Link; LOOK],
    tasks: Option<Box<Tasks<'g, K, V>>>,
    /// The level of the task without an end; 0 for a scan that does not run ahead.
    top: usize,
    /// Entries that were handed out.
    taken: u32,
    /// Nodes that were the start of a step.
    stepped: u32,
}

impl<'g, K: SkipKey, V> Ahead<'g, K, V> {
    pub(super) fn new() -> Self {
        Self { look: [Link::END; LOOK], tasks: None, top: TOP_TASK, taken: 0, stepped: 0 }
    }

    /// Sets the level of the task without an end, 0 for none.
    pub(super) fn set_top(&mut self, level: usize) {
        self.top = level.min(LOOK - 1);
    }

    /// Notes where a scan begins.
    pub(super) fn begin(&mut self, look: [Link; LOOK]) {
        self.look = look;
    }

    /// Does its part for an entry that is handed out. `is_behind` says of a node whether it is behind the end of the scan.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        map: &'g SkipList<K, V>,
        current: Node<'g, K, V>,
        is_behind: impl Fn(Node<'g, K, V>) -> bool,
    ) {
        if self.top == 0 {
            return;
        }
        self.taken += 1;
        if self.taken >= FIRST_STEP {
            self.run(map, current, is_behind);
        }
    }

    fn run(
        &mut self,
        map: &'g SkipList<K, V>,
        current: Node<'g, K, V>,
        is_behind: impl Fn(Node<'g, K, V>) -> bool,
    ) {
        let Self { look, top, .. } = *self;
        let tasks = self.tasks.get_or_insert_with(|| Tasks::new(map, look, top, current));
        let enough = self.taken + (LEAD << top);
        for _ in 0..STEPS_AT_FIRST {
            if self.stepped >= enough {
                break;
            }
            let Some(task) = tasks.pop() else { return };
            self.stepped += 1;
            if !is_behind(task.start) {
                tasks.step(map, task);
            }
        }
        if self.taken > u32::MAX / 2 {
            // Of a long scan only the difference matters.
            (self.taken, self.stepped) = (1 << 16, (1 << 16) + self.stepped - self.taken);
        }
    }
}
