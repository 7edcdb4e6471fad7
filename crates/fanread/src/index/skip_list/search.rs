//! Finding a key, and the place of one.
//!
//! Going down from the top level, a search moves on as long as the next node is before what it looks for. All nodes that may
//! come next on the way down are known from the links of the node it stands at, so it asks for a few of them at once; what
//! waits for each other are the moves on, one a level or so.
//!
//! A search counts how many bytes its key has in common with the node it stands at, and with the next one that it knows not to be
//! before. What lies between the two begins with the lower number of these, and is compared behind them.
//!
//! Readers step over nodes that are being removed; writers take them out of the level as they meet them.

use core::borrow::Borrow;
use core::cmp::Ordering;

use super::ahead::LOOK;
use super::directory::{self, Block, Directory, Hint, Near, PATIENCE};
use super::key::{Common, SkipKey, Sought, Target};
use super::layout::{DEAD, LEVELS, Link, Unit};
use super::raw::{Node, Place, Tower};
use super::{Pinned, Ref, SkipList};
use crate::batch::{self, Walk};
use crate::sync::shim::Ordering::Relaxed;

/// From how many levels below the top on a search asks ahead. The nodes of the levels above are some hundreds: they are in
/// near caches, and asking costs more than it brings.
const CACHED_LEVELS: usize = 7;

/// How many levels below the one it is on a search asks for. Each step down has even odds, so the second is of use in every
/// other case and the third in one of four; more lines at once make all of them slower.
const ASK_LEVELS: usize = 3;

/// How many levels below the one it is on a search asks for the bytes of keys, where prefixes do not decide.
const ASK_KEYS: usize = 1;

/// Where a descent came out.
#[derive(Debug)]
pub(super) struct Descent<'g, K, V> {
    /// The last node before, on the level where it ended; none if that is the beginning of the map.
    pub(super) before: Option<Node<'g, K, V>>,
    /// The first node that is not before.
    pub(super) next: Option<Node<'g, K, V>>,
    /// How that one compares: `Equal`, or `Greater`.
    pub(super) found: Ordering,
    /// The first nodes that are not before, on each of the lowest levels.
    pub(super) look: [Link; LOOK],
}

impl<K, V> Descent<'_, K, V> {
    /// That of an empty map.
    const NONE: Self =
        Self { before: None, next: None, found: Ordering::Greater, look: [Link::END; LOOK] };
}

/// The neighbours of a key.
#[derive(Debug)]
pub(super) struct Neighbours<'g> {
    pub(super) before: [Place<'g>; LEVELS],
    pub(super) after: [Link; LEVELS],
    /// On how many, from the lowest one.
    pub(super) levels: usize,
    /// How many bytes the nodes between that one and the next one of the level above have in common with the key, at least, as
    /// far as a window may begin.
    common: [u8; LEVELS],
}

impl Neighbours<'_> {
    /// Where the window of a node of a height begins: searches that come to it know what is before.
    #[inline(always)]
    pub(super) fn window_from(&self, height: usize) -> usize {
        self.common[height.min(self.levels) - 1].into()
    }
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// The links at which every search begins.
    #[inline(always)]
    pub(super) fn head(&self) -> Tower<'_> {
        Tower::of(&self.head)
    }

    /// How many levels are in use.
    #[inline(always)]
    pub(super) fn levels(&self) -> usize {
        // Relaxed: a level that a reader leaves out costs him steps; writers ask for those they need.
        self.top.load(Relaxed) as usize
    }

    /// Asks for the next node of a level.
    #[inline(always)]
    fn ask_next(&self, tower: Tower<'_>, level: usize) {
        if let Some(unit) = tower.at(level).load().unit() {
            if level < 2 {
                // Three of four keys are in nodes that are first met here.
                self.memory.ask(unit);
            } else {
                self.memory.ask_key(unit);
            }
        }
    }

    /// How a node compares that a search meets on a level behind the tower it stands at; `next` is the first one it knows that
    /// is not before, and on this level too.
    ///
    /// What lies between the two begins as both do. This node does if `next` is not marked now: then it is linked, and no link
    /// of what is before leads past it (`docs/design/skip-list.md`). Else nothing is known.
    #[inline(always)]
    fn compare_between<Q>(
        &self,
        sought: &Sought<'_, Q>,
        node: Node<'_, K, V>,
        common: Common,
        next: Option<Unit>,
        (tower, level): (Tower<'_>, usize),
    ) -> (Ordering, usize)
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        if !const { K::KEEPS_PREFIX && Q::HAS_PREFIX } {
            return sought.compare(node.key(), 0);
        }
        let mut least = common.least();
        if least > 0 && self.is_off(next, level) {
            least = 0;
        }
        sought.glance(node, least).unwrap_or_else(|| {
            self.ask_keys_below(tower, level, node);
            let found = sought.compare(node.key(), least);
            Self::renew_window(node, least);
            found
        })
    }

    /// Moves the window of a node on that has not told how it compares with what has so many bytes in common with the keys
    /// around: behind these it shows what tells keys apart in a map that has grown. Never back, for searches that know less.
    #[inline(always)]
    fn renew_window(node: Node<'_, K, V>, common: usize) {
        if node.window().from() < common.min(0xff) {
            node.move_window(common);
        }
    }

    /// Whether a node is marked on a level.
    #[inline(always)]
    fn is_off(&self, node: Option<Unit>, level: usize) -> bool {
        node.is_none_or(|unit| self.memory.node(unit).tower().at(level).load().is_marked())
    }

    /// Asks for the bytes of the keys that a search compares next if a node is not before, whose nodes were asked for.
    #[inline(always)]
    fn ask_keys_below(&self, tower: Tower<'_>, level: usize, node: Node<'_, K, V>) {
        for below in 1..=ASK_KEYS.min(level) {
            match tower.at(level - below).load().unit() {
                Some(unit) if unit != node.unit() => self.memory.node(unit).key().ask(),
                _ => {}
            }
        }
    }

    /// The links of a node that a search begins at, with the next nodes asked for.
    #[inline(always)]
    fn begin_at<'g>(&'g self, near: Near<'g, K, V>) -> Tower<'g> {
        let tower = near.node.tower();
        if K::KEEPS_PREFIX
            && let Some(unit) = near.behind.unit()
        {
            // A comparison looks whether it is still there.
            self.memory.ask_tall(unit, directory::LEVEL);
        }
        for level in directory::LEVEL.saturating_sub(ASK_LEVELS)..directory::LEVEL {
            self.ask_next(tower, level);
        }
        tower
    }

    /// Goes down to a level, from a node that is before and on the level of the directory if there is one. A node on the
    /// way that is at what is looked for ends the descent early if `EARLY`.
    #[inline(always)]
    pub(super) fn descend<'g, const EARLY: bool, Q>(
        &'g self,
        from: Option<Near<'g, K, V>>,
        down_to: usize,
        target: &Target<'_, Q>,
    ) -> Descent<'g, K, V>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        if let Some(at) = self.descend_from::<EARLY, Q>(from, down_to, target) {
            return at;
        }
        let at = self.descend_from::<EARLY, Q>(None, down_to, target);
        at.unwrap_or(Descent::NONE)
    }

    /// As `descend`; `None` if the node it begins at is too far before.
    #[inline(always)]
    fn descend_from<'g, const EARLY: bool, Q>(
        &'g self,
        from: Option<Near<'g, K, V>>,
        down_to: usize,
        target: &Target<'_, Q>,
    ) -> Option<Descent<'g, K, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let asks_below = self.levels().saturating_sub(CACHED_LEVELS);
        let mut patience = PATIENCE;
        let (mut level, mut tower) = match from {
            Some(near) => (directory::LEVEL + 1, self.begin_at(near)),
            None => (self.levels(), self.head()),
        };
        let mut at = Descent {
            before: from.map(|near| near.node),
            next: from.and_then(|near| near.behind.unit()).map(|unit| self.memory.node(unit)),
            ..Descent::NONE
        };
        let mut common = from.map_or(Common::NONE, |near| near.common);
        while level > down_to {
            level -= 1;
            let mut next = tower.at(level).load().unmarked();
            loop {
                let Some(unit) = next.unit() else {
                    (at.next, common.next) = (None, 0);
                    break;
                };
                if at.next.is_some_and(|known| known.unit() == unit) {
                    // The level above has led there too.
                    break;
                }
                let node = self.memory.node(unit);
                let (order, same) = target.sought.map_or((Ordering::Equal, 0), |sought| {
                    let next = at.next.map(Node::unit);
                    self.compare_between(&sought, node, common, next, (tower, level))
                });
                let order = order.then(target.otherwise);
                if order == Ordering::Less {
                    let behind = node.tower().at(level).load();
                    if behind.is_marked() {
                        next = behind.unmarked();
                        continue;
                    }
                    (tower, next, common.before) = (node.tower(), behind, same);
                    at.before = Some(node);
                    if level == directory::LEVEL && from.is_some() {
                        patience -= 1;
                        if patience == 0 {
                            return None;
                        }
                    }
                    if level < asks_below {
                        for below in 1..=ASK_LEVELS.min(level) {
                            self.ask_next(tower, level - below);
                        }
                    }
                    continue;
                }
                (at.next, at.found, common.next) = (Some(node), order, same);
                break;
            }
            if level < LOOK {
                at.look[level] = next;
            }
            if EARLY
                && at.found == Ordering::Equal
                && let Some(node) = at.next
                && (level == 0 || !node.state().has(DEAD))
            {
                return Some(at);
            }
            if level < asks_below && level > ASK_LEVELS {
                self.ask_next(tower, level - ASK_LEVELS - 1);
            }
        }
        if at.next.is_none() {
            at.found = Ordering::Greater;
        }
        Some(at)
    }

    /// The node of a key, whether it has a value or not.
    #[inline(always)]
    pub(super) fn node_of<'g, Q>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        key: &Q,
    ) -> Option<Node<'g, K, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let sought = Sought::new(key);
        let near = self.near(pinned, &sought);
        let target = Target { sought: Some(sought), otherwise: Ordering::Equal };
        let at = self.descend::<true, Q>(near, 0, &target);
        at.next.filter(|_| at.found == Ordering::Equal)
    }

    /// The neighbours of a key on the lowest levels, at least so many, and its node. Takes nodes that are being removed out of
    /// the levels on its way.
    pub(super) fn neighbours<'g, Q>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        key: &Q,
        at_least: usize,
    ) -> (Neighbours<'g>, Option<Node<'g, K, V>>)
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let sought = Sought::new(key);
        let mut is_near = at_least <= directory::LEVEL + 1 + directory::ABOVE;
        loop {
            let from = if !is_near {
                None
            } else if at_least > directory::LEVEL + 1 {
                self.near_tall(pinned, &sought, at_least)
            } else {
                self.near(pinned, &sought)
            };
            if let Some(found) = self.try_neighbours(pinned, &sought, from, at_least) {
                return found;
            }
            // Or the node was too far before.
            is_near = false;
            // A node on the way was removed, or another thread has taken one out of a level first.
            crate::sync::shim::wait_for_others();
        }
    }

    fn try_neighbours<'g, Q>(
        &'g self,
        pinned: &Pinned<'_, K, V>,
        sought: &Sought<'_, Q>,
        from: Option<Near<'g, K, V>>,
        at_least: usize,
    ) -> Option<(Neighbours<'g>, Option<Node<'g, K, V>>)>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let (mut level, mut tower) = match from {
            Some(near) => (at_least.max(directory::LEVEL + 1), self.begin_at(near)),
            None => (self.levels().max(at_least), self.head()),
        };
        let first = level - 1;
        let mut found = Neighbours {
            before: [tower.at(0); LEVELS],
            after: [Link::END; LEVELS],
            levels: level,
            common: [0; LEVELS],
        };
        let mut common = from.map_or(Common::NONE, |near| near.common);
        let asks_below = self.levels().saturating_sub(CACHED_LEVELS);
        let mut patience = PATIENCE;
        // What the directory says is behind need not be compared.
        let mut rejected = from.map_or(Link::END, |near| near.behind);
        let (mut met, mut is_found) = (None, false);
        while level > 0 {
            level -= 1;
            let mut place = tower.at(level);
            let mut next = place.load();
            if next.is_marked() {
                return None;
            }
            let above = common.next;
            while let Some(unit) = next.unit() {
                if next == rejected {
                    break;
                }
                let node = self.memory.node(unit);
                let (order, same) =
                    self.compare_between(sought, node, common, rejected.unit(), (tower, level));
                if order == Ordering::Greater {
                    // Removed or not, it is where this level goes on.
                    (rejected, is_found, common.next) = (next, false, same);
                    break;
                }
                let behind = node.tower().at(level).load();
                if behind.is_marked() {
                    if !place.exchange(next, behind.unmarked()) {
                        return None;
                    }
                    self.take_off(pinned, node, 1);
                    next = behind.unmarked();
                    continue;
                }
                if order == Ordering::Equal {
                    (rejected, is_found, common.next) = (next, true, same);
                    met = Some(node);
                    break;
                }
                (tower, common.before) = (node.tower(), same);
                (place, next) = (tower.at(level), behind);
                if level == first && from.is_some() {
                    patience -= 1;
                    if patience == 0 {
                        return None;
                    }
                }
                if level < asks_below {
                    for below in 1..=ASK_LEVELS.min(level) {
                        self.ask_next(tower, level - below);
                    }
                }
            }
            if next == Link::END {
                // What an upper level led to has left this one. Where a lower one still has it, it is looked at again.
                (rejected, is_found, common.next) = (next, false, 0);
            }
            found.common[level] = common.before.min(above).min(0xff) as u8;
            (found.before[level], found.after[level]) = (place, next);
            if level < asks_below && level > ASK_LEVELS {
                self.ask_next(tower, level - ASK_LEVELS - 1);
            }
        }
        if !is_found && met.is_some_and(|node| node.tower().at(0).load().is_marked()) {
            // The key was on an upper level, and has left the lowest: it is marked on all by now, and the next search takes it out.
            // A new node must not come before it, where no search for the key finds it. One that is not marked is where it is by
            // an order that contradicts itself, and will be met again by every search.
            return None;
        }
        let node = found.after[0].unit().filter(|_| is_found).map(|unit| self.memory.node(unit));
        Some((found, node))
    }
}

/// What a search waits for in the directory.
#[derive(Clone, Copy)]
enum Stage<'g> {
    /// A block of it.
    Block(&'g Directory, Block),
    /// The node it has found.
    Node(Hint),
    /// Nothing any more.
    Over,
}

/// A search that stops before each node it has to wait for.
struct Search<'g, 'q, K: SkipKey, V, Q: ?Sized> {
    map: &'g SkipList<K, V>,
    stage: Stage<'g>,
    sought: Sought<'q, Q>,
    tower: Tower<'g>,
    /// The level that `next` is a link of.
    level: usize,
    next: Link,
    rejected: Link,
    is_equal: bool,
    common: Common,
    /// Whether the bytes of the key of `next` were asked for.
    is_asked: bool,
    /// How many nodes it may go along on the level of the directory.
    patience: u32,
}

impl<'g, 'q, K: SkipKey + Borrow<Q>, V, Q: SkipKey + ?Sized> Search<'g, 'q, K, V, Q> {
    fn new(pinned: &'g Pinned<'_, K, V>, key: &'q Q) -> Self {
        let map = pinned.map;
        let sought = Sought::new(key);
        let directory = map.directory::<Q>(&pinned.guard);
        let found =
            directory.and_then(|directory| Some((directory, directory.block(map, &sought)?)));
        let stage = found.map_or(Stage::Over, |(directory, block)| Stage::Block(directory, block));
        let (level, tower) = (map.levels() - 1, map.head());
        let next = tower.at(level).load().unmarked();
        Self {
            map,
            stage,
            sought,
            tower,
            level,
            next,
            rejected: Link::END,
            is_equal: false,
            common: Common::NONE,
            is_asked: false,
            patience: u32::MAX,
        }
    }

    /// Begins at the head.
    #[cold]
    fn begin_again(&mut self) {
        (self.level, self.tower) = (self.map.levels() - 1, self.map.head());
        self.next = self.tower.at(self.level).load().unmarked();
        (self.rejected, self.patience) = (Link::END, u32::MAX);
        self.common = Common::NONE;
    }

    /// How the next node compares; none if there is more to wait for.
    #[inline(always)]
    fn compare(&mut self, node: Node<'g, K, V>) -> Option<(Ordering, usize)> {
        if !const { K::KEEPS_PREFIX && Q::HAS_PREFIX } {
            return Some(self.sought.compare(node.key(), 0));
        }
        let mut common = self.common.least();
        if common > 0 && self.map.is_off(self.rejected.unit(), self.level) {
            common = 0;
        }
        let found = self.sought.glance(node, common);
        if found.is_none() && !self.is_asked {
            node.key().ask();
            self.is_asked = true;
            return None;
        }
        self.is_asked = false;
        Some(found.unwrap_or_else(|| self.sought.compare(node.key(), common)))
    }

    /// Goes on with what was waited for in the directory; tells whether there is more to wait for.
    #[inline]
    fn look_up(&mut self) -> bool {
        match self.stage {
            Stage::Block(directory, block) => {
                if let Some(hint) = directory.in_block(self.map, block, &self.sought) {
                    self.map.memory.ask_tall(hint.unit, directory::LEVEL);
                    if K::KEEPS_PREFIX
                        && let Some(behind) = hint.behind.unit()
                    {
                        self.map.memory.ask_tall(behind, directory::LEVEL);
                    }
                    self.stage = Stage::Node(hint);
                    return true;
                }
            }
            Stage::Node(hint) => {
                if let Some(near) = self.map.near_of(hint) {
                    (self.level, self.tower) = (directory::LEVEL, near.node.tower());
                    self.next = self.tower.at(self.level).load().unmarked();
                    (self.rejected, self.patience) = (near.behind, PATIENCE);
                    self.common = near.common;
                }
            }
            Stage::Over => return false,
        }
        self.stage = Stage::Over;
        false
    }
}

impl<'g, K: SkipKey + Borrow<Q>, V, Q: SkipKey + ?Sized> Walk for Search<'g, '_, K, V, Q> {
    type Found = Option<Node<'g, K, V>>;

    fn step(&mut self) -> Option<Self::Found> {
        if self.look_up() {
            return None;
        }
        loop {
            let known = self.next == self.rejected;
            if known || self.next == Link::END {
                if self.level == 0 {
                    let unit = self.next.unit().filter(|_| known && self.is_equal);
                    return Some(unit.map(|unit| self.map.memory.node(unit)));
                }
                self.level -= 1;
                self.next = self.tower.at(self.level).load().unmarked();
                match self.next.unit() {
                    Some(unit) if self.next != self.rejected => self.map.memory.ask_key(unit),
                    _ => continue,
                }
                return None;
            }
            let Some(unit) = self.next.unit() else { continue };
            let node = self.map.memory.node(unit);
            let (order, same) = self.compare(node)?;
            match order {
                Ordering::Less => {
                    let behind = node.tower().at(self.level).load();
                    if behind.is_marked() {
                        self.next = behind.unmarked();
                        continue;
                    }
                    (self.tower, self.next, self.common.before) = (node.tower(), behind, same);
                    if self.level == directory::LEVEL && self.patience <= PATIENCE {
                        self.patience -= 1;
                        if self.patience == 0 {
                            // The node of the directory is too far before.
                            self.begin_again();
                            continue;
                        }
                    }
                    if let Some(unit) = behind.unit().filter(|_| behind != self.rejected) {
                        self.map.memory.ask_key(unit);
                        return None;
                    }
                }
                order => {
                    (self.rejected, self.common.next) = (self.next, same);
                    self.is_equal = order == Ordering::Equal;
                    if self.is_equal && (self.level == 0 || !node.state().has(DEAD)) {
                        return Some(Some(node));
                    }
                }
            }
        }
    }
}

impl<K: SkipKey, V> Pinned<'_, K, V> {
    /// Returns the value of `key`, if it has one.
    ///
    /// # Cost
    ///
    /// About a line for each of the `log2(n) - 11` lowest levels that waits for the one before; two or three others are
    /// asked for beside each. A value that was replaced or that has a `Drop` is one line more.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant. Never waits for a writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// pinned.insert(String::from("wombat"), 1);
    /// assert_eq!(pinned.get("wombat").as_deref(), Some(&1));
    /// assert!(pinned.get("wom").is_none());
    /// ```
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<Ref<'_, V>>
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let node = self.map.node_of(self, key)?;
        self.map.value(node).map(Ref::new)
    }

    /// Looks up all `keys`, and writes what [`get`](Self::get) returns for each to the same place of `found`.
    ///
    /// # Cost
    ///
    /// The line fetches of `get`, those of 64 numbers at once, or of 16 keys of another type.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// pinned.insert(7, 'b');
    /// let mut found = [const { None }; 2];
    /// pinned.get_batch(&[&7, &8], &mut found);
    /// assert_eq!(found.map(|value| value.as_deref().copied()), [Some('b'), None]);
    /// ```
    #[track_caller]
    pub fn get_batch<'g, Q>(&'g self, keys: &[&Q], found: &mut [Option<Ref<'g, V>>])
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        assert_eq!(keys.len(), found.len(), "a place for each key");
        let map = self.map;
        self.nodes_of(keys, |index, node| {
            found[index] = node.and_then(|node| map.value(node)).map(Ref::new);
        });
    }

    /// Looks up all `keys`, and writes whether each has a value to the same place of `found`.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn contains_batch<Q>(&self, keys: &[&Q], found: &mut [bool])
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        assert_eq!(keys.len(), found.len(), "a place for each key");
        let map = self.map;
        self.nodes_of(keys, |index, node| {
            found[index] = node.is_some_and(|node| map.value(node).is_some());
        });
    }

    /// Asks for the lines that a write of each key will read.
    pub(super) fn ask_for<Q>(&self, keys: &[&Q])
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        self.nodes_of(keys, |_, _| {});
    }

    /// Finds the nodes of all `keys`, of a batch of them at once.
    #[inline(always)]
    fn nodes_of<'g, Q>(&'g self, keys: &[&Q], mut done: impl FnMut(usize, Option<Node<'g, K, V>>))
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        if const { K::HAS_PREFIX && Q::HAS_PREFIX && !K::KEEPS_PREFIX } {
            return self.rows(keys, &mut done);
        }
        batch::drive(keys.len(), |index| Search::new(self, keys[index]), done);
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    use std::sync::Arc;

    use shuttle::scheduler::RandomScheduler;
    use shuttle::{Config, Runner, thread};

    use super::SkipList;
    use crate::api::Options;
    use crate::sync::shim::explore;

    fn key(text: &str) -> Box<[u8]> {
        text.as_bytes().into()
    }

    /// Two keys that begin alike, the second of two levels, and behind them one that begins otherwise, of which the node keeps
    /// what comes behind as many bytes.
    fn start(seed: u64) -> SkipList<Box<[u8]>, u32> {
        let map = SkipList::with_options(Options::new().seed(seed));
        let pinned = map.pin();
        for text in ["ab0", "ab5", "ba0", "ba9", "ba1"] {
            pinned.insert(key(text), 1);
        }
        pinned.remove(&key("ba0")[..]);
        drop(pinned);
        map
    }

    fn height(map: &SkipList<Box<[u8]>, u32>, text: &str) -> usize {
        let pinned = map.pin();
        let node = map.node_of(&pinned, text.as_bytes()).expect("it was inserted");
        node.state().height()
    }

    #[test]
    fn shuttle_a_key_that_begins_otherwise_is_not_taken_for_one_between() {
        let wanted = |seed: &u64| {
            let map = start(*seed);
            height(&map, "ab5") > 1 && height(&map, "ba1") == 1
        };
        let seeds = Arc::new(std::sync::Mutex::new(Vec::new()));
        let found = Arc::clone(&seeds);
        let look = move || *found.lock().unwrap() = (0..40).filter(wanted).take(2).collect();
        Runner::new(RandomScheduler::new(1), Config::new()).run(look);
        let seeds = seeds.lock().unwrap().clone();
        assert!(!seeds.is_empty());
        for seed in seeds {
            let scene = move || {
                let map = Arc::new(start(seed));
                let remover = {
                    let map = Arc::clone(&map);
                    thread::spawn(move || assert!(map.pin().remove(&key("ab5")[..]).is_some()))
                };
                assert!(map.pin().insert(key("ab3"), 2).is_none());
                remover.join().unwrap();
                map.pin().check().unwrap();
                let keys: Vec<_> = map.pin().iter().map(|(key, _)| key.clone()).collect();
                assert_eq!(keys, ["ab0", "ab3", "ba1", "ba9"].map(key));
            };
            explore(1, scene);
        }
    }
}
