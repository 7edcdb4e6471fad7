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
use super::layout::{LEVELS, Link, Newest};
use super::raw::Node;

/// Levels of which a search notes the first nodes: one more than the highest level of a task.
pub(super) const LOOK: usize = if LEVELS < 6 { LEVELS } else { 6 };

/// The level of the task that has no end: on average `2^4` tasks at a time, as many lines.
///
/// Two independent reads cost hardly more than one, sixteen twice as much (`fanread probe`). Level 3 leaves the scan
/// waiting, level 5 asks for more at once than a core keeps track of. `fanread bench --workload scan-1000` decides.
pub(super) const TOP_TASK: usize = if LOOK < 5 { LOOK - 1 } else { 4 };

/// Entries before the first step. A search has seen the first entries itself.
const FIRST_STEP: u32 = 2;

/// Room for tasks. Twice what there is on average, twice.
const TASKS: usize = 64;

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

/// The tasks of a scan, first in first out.
#[derive(Debug)]
struct Tasks {
    ring: [Task; TASKS],
    first: usize,
    count: usize,
}

impl Tasks {
    fn new() -> Self {
        let none = Task { start: Link::END, end: Link::END, level: 0, steps: 0 };
        Self { ring: [none; TASKS], first: 0, count: 0 }
    }

    #[inline]
    fn push(&mut self, task: Task) {
        // The last place is for the task without an end.
        if task.start != task.end && self.count < TASKS - usize::from(task.end != Link::END) {
            self.ring[(self.first + self.count) % TASKS] = task;
            self.count += 1;
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        let task = self.ring[self.first];
        (self.count > 0).then(|| {
            self.first = (self.first + 1) % TASKS;
            self.count -= 1;
            task
        })
    }
}

/// How a scan runs ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The first nodes of the scan on each level.
    look: [Link; LOOK],
    tasks: Option<Box<Tasks>>,
    /// The level of the task without an end; 0 for a scan that does not run ahead.
    top: usize,
    /// Entries that were handed out.
    taken: u32,
    /// Nodes that were the start of a step.
    stepped: u32,
}

impl Ahead {
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
    #[inline]
    pub(super) fn step<'g, K: SkipKey, V>(
        &mut self,
        map: &'g SkipList<K, V>,
        is_behind: impl Fn(Node<'g, K, V>) -> bool,
    ) {
        self.taken += 1;
        if self.taken < FIRST_STEP || self.top == 0 {
            return;
        }
        self.run(map, is_behind);
    }

    fn run<'g, K: SkipKey, V>(
        &mut self,
        map: &'g SkipList<K, V>,
        is_behind: impl Fn(Node<'g, K, V>) -> bool,
    ) {
        let Self { look, top, .. } = *self;
        let tasks = self.tasks.get_or_insert_with(|| {
            let mut tasks = Box::new(Tasks::new());
            for level in 0..=top {
                let end = if level == top { Link::END } else { look[level + 1] };
                let steps = STEPS;
                tasks.push(Task { start: look[level], end, level: level as u8, steps });
            }
            tasks
        });
        let lead = (4 * self.taken).min(3 << top);
        let mut steps = 0;
        while self.stepped < self.taken + lead && steps < 4 {
            let Some(task) = tasks.pop() else { return };
            steps += 1;
            self.stepped += 1;
            let Some(unit) = task.start.unit() else { continue };
            let node = map.memory.node(unit);
            if !is_behind(node) {
                step(map, tasks, task, node);
            }
        }
        if self.taken > u32::MAX / 2 {
            // Of a long scan only the difference matters.
            (self.taken, self.stepped) = (1 << 16, (1 << 16) + self.stepped - self.taken);
        }
    }
}

/// Does one step of a task.
#[inline]
fn step<'g, K: SkipKey, V>(
    map: &'g SkipList<K, V>,
    tasks: &mut Tasks,
    task: Task,
    node: Node<'g, K, V>,
) {
    if let Newest::Chain(version) = node.state().newest() {
        map.memory.ask_version(version);
    }
    node.ask_behind();
    let Task { end, level, .. } = task;
    let last = node.tower().at(level.into()).load();
    let ask = |link: Link| {
        if let Some(unit) = link.unit() {
            map.memory.ask(unit);
        }
    };
    if !last.is_marked() {
        let mut from = Link::END;
        for below in 0..level {
            let next = node.tower().at(below.into()).load().unmarked();
            if next != from {
                ask(next);
                from = next;
            }
            let to = if below + 1 == level {
                last
            } else {
                node.tower().at((below + 1).into()).load().unmarked()
            };
            tasks.push(Task { start: next, end: to, level: below, steps: STEPS });
        }
    }
    // A node that was removed from this level leads on along it, and nowhere else.
    let last = last.unmarked();
    if last != end {
        ask(last);
        if end == Link::END || task.steps > 0 {
            tasks.push(Task { start: last, steps: task.steps.saturating_sub(1), ..task });
        }
    }
}
