//! Batches of numbers: a row of searches, each step of which is taken for all of them.
//!
//! What a search does next depends on its key. A processor that guesses is wrong every other time, and then it has read ahead for
//! nothing what the other searches would have asked for. Here a step is the same for every key, with moves in place of branches: a search
//! compares the next node, and goes on behind it or one level down. What happens seldom (a node that is being removed, a
//! directory that does not help) is left to a search of its own.
//!
//! Nothing is read that was not asked for a step before. State and value of a node may be in the line before that of its key, so they
//! are asked for where the key is found, and read when the row is over.

use core::borrow::Borrow;
use core::cmp::Ordering;
use core::hint::select_unpredictable;

use super::Pinned;
use super::directory::{self, Directory, PATIENCE};
use super::key::SkipKey;
use super::layout::{DEAD, Link};
use super::raw::{Node, Tower};
use crate::batch::Bits;

/// Searches of a row. Where few of a row are left they wait for nearly every line, so long rows are better.
const ROW: usize = if cfg!(any(shuttle, miri)) { 2 } else { 64 };

/// Searches of a row of few keys, whose state is to be small.
const SHORT: usize = if cfg!(any(shuttle, miri)) { 1 } else { 16 };

/// A search between two steps, or at its end.
#[derive(Clone, Copy)]
struct At<'g> {
    /// The links of the last node that is known to be before the key, or of the map.
    tower: Tower<'g>,
    /// The level it goes along.
    level: usize,
    /// Where that leads; at the end, to the node of the key or nowhere.
    next: Link,
}

/// Searches of a row, a bit for each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Set(u64);

impl Set {
    const NONE: Self = Self(0);

    fn of(count: usize) -> Self {
        Self(u64::MAX >> (u64::BITS as usize - count))
    }

    /// Takes a search out of it.
    #[inline(always)]
    fn remove(&mut self, at: usize) {
        self.0 &= !(1 << at);
    }

    #[inline(always)]
    fn insert(&mut self, at: usize) {
        self.0 |= 1 << at;
    }
}

impl IntoIterator for Set {
    type Item = usize;
    type IntoIter = Bits;

    #[inline(always)]
    fn into_iter(self) -> Bits {
        Bits(self.0)
    }
}

impl<K: SkipKey, V> Pinned<'_, K, V> {
    /// Finds the nodes of `keys`, of a type whose prefixes a directory has.
    #[inline]
    pub(super) fn rows<'g, Q>(
        &'g self,
        keys: &[&Q],
        done: &mut impl FnMut(usize, Option<Node<'g, K, V>>),
    ) where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        if keys.len() <= SHORT {
            return self.row::<SHORT, Q>(keys, done);
        }
        for (start, keys) in (0..).step_by(ROW).zip(keys.chunks(ROW)) {
            self.row::<ROW, Q>(keys, &mut |at, node| done(start + at, node));
        }
    }

    /// The same for at most `N` keys.
    #[inline]
    fn row<'g, const N: usize, Q>(
        &'g self,
        keys: &[&Q],
        done: &mut impl FnMut(usize, Option<Node<'g, K, V>>),
    ) where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        if keys.is_empty() {
            return;
        }
        let (map, all) = (self.map, Set::of(keys.len()));
        let (tower, level) = (map.head(), map.levels() - 1);
        let mut row = [At { tower, level, next: tower.at(level).load().unmarked() }; N];
        let directory = map.directory::<Q>(&self.guard);
        let begun = directory.map_or(all, |directory| self.begin(directory, keys, &mut row));
        let left = self.go(keys, &mut row, begun, directory.is_some());
        let left = Set(left.0 | all.0 & !begun.0);
        for at in Set(all.0 & !left.0) {
            let At { level, next, .. } = row[at];
            let node = next.unit().map(|unit| map.memory.node(unit));
            // Above the lowest level a node may be met that is dead, while another one has its key.
            let is_dead = level > 0 && node.is_some_and(|node| node.state().has(DEAD));
            done(at, if is_dead { map.node_of(self, keys[at]) } else { node });
        }
        for at in left {
            done(at, map.node_of(self, keys[at]));
        }
    }

    /// Begins at nodes of the directory. Returns those searches for which it has one.
    #[inline(always)]
    fn begin<'g, const N: usize, Q>(
        &'g self,
        directory: &'g Directory,
        keys: &[&Q],
        row: &mut [At<'g>; N],
    ) -> Set
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let map = self.map;
        let (mut prefixes, mut blocks) = ([0; N], [0; N]);
        for (prefix, key) in prefixes.iter_mut().zip(keys) {
            *prefix = key.prefix();
        }
        directory.blocks(&prefixes[..keys.len()], &mut blocks[..keys.len()]);
        let (mut hinted, mut begun) = (Set::NONE, Set::NONE);
        for at in Set::of(keys.len()) {
            if let Some(hint) = directory.in_block_of(blocks[at], prefixes[at]) {
                map.memory.ask_key_of(Link::to(Some(hint.unit)));
                let tower = map.memory.node(hint.unit).tower();
                row[at] = At { tower, level: directory::LEVEL, next: hint.behind };
                hinted.insert(at);
            }
        }
        for at in hinted {
            let At { tower, level, next: behind } = row[at];
            let next = tower.at(level).load();
            if next.is_marked() {
                continue;
            }
            // What the directory says is behind need not be compared.
            let level = level - usize::from(next == behind);
            let next = tower.at(level).load().unmarked();
            map.memory.ask_key_of(next);
            row[at] = At { tower, level, next };
            begun.insert(at);
        }
        begun
    }

    /// Takes the steps of the searches that have begun. Returns those that are to begin again, by themselves.
    #[inline(always)]
    fn go<'g, const N: usize, Q>(
        &'g self,
        keys: &[&Q],
        row: &mut [At<'g>; N],
        mut under_way: Set,
        is_near: bool,
    ) -> Set
    where
        K: Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        let map = self.map;
        let mut left = Set::NONE;
        let mut steps = 0;
        while under_way != Set::NONE {
            for at in under_way {
                let At { mut tower, level, next } = row[at];
                let mut is_before = false;
                if let Some(unit) = next.unit() {
                    let node = map.memory.node(unit);
                    let order = node.key().borrow().cmp(keys[at]);
                    if order == Ordering::Equal {
                        map.memory.ask_value(unit);
                        under_way.remove(at);
                        continue;
                    }
                    is_before = order == Ordering::Less;
                    tower = select_unpredictable(is_before, node.tower(), tower);
                }
                if level == 0 && !is_before {
                    row[at].next = Link::END;
                    under_way.remove(at);
                    continue;
                }
                let level = level - usize::from(!is_before);
                let next = tower.at(level).load();
                if next.is_marked() {
                    // A removed node leads to what was behind it long ago.
                    under_way.remove(at);
                    left.insert(at);
                    continue;
                }
                map.memory.ask_key_of(next);
                row[at] = At { tower, level, next };
            }
            steps += 1;
            if is_near && steps == PATIENCE {
                // The nodes of the directory were too far before.
                for at in under_way {
                    if row[at].level == directory::LEVEL {
                        under_way.remove(at);
                        left.insert(at);
                    }
                }
            }
        }
        left
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::super::{SkipKey, SkipList};

    /// Asks a map for keys by rows of all lengths.
    fn ask<K: SkipKey + Copy + std::fmt::Debug>(
        map: &SkipList<K, u64>,
        model: &BTreeMap<K, u64>,
        keys: &[K],
    ) {
        let pinned = map.pin();
        for count in [1, 2, 7, 15, 16, 17, 40, 63, 64, 65, 130, keys.len()] {
            for keys in keys.chunks(count) {
                let refs: Vec<&K> = keys.iter().collect();
                let mut found: Vec<_> = keys.iter().map(|_| None).collect();
                pinned.get_batch(&refs, &mut found);
                let mut is_there = vec![true; keys.len()];
                pinned.contains_batch(&refs, &mut is_there);
                for (at, key) in keys.iter().enumerate() {
                    assert_eq!(found[at].as_deref(), model.get(key), "{key:?}");
                    assert_eq!(is_there[at], model.contains_key(key), "{key:?}");
                }
            }
        }
        pinned.get_batch::<K>(&[], &mut []);
    }

    fn mixed(n: u64) -> u64 {
        (n ^ n >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn rows_find_what_single_gets_find() {
        let count = if cfg!(miri) { 60 } else { 20_000 };
        let shapes: [fn(u64) -> u128; 4] = [
            |n| u128::from(mixed(n)) << 64 | 1,
            // Many keys to a prefix, and all of them to one.
            |n| u128::from(mixed(n / 700)) << 64 | u128::from(mixed(n)),
            |n| u128::from(mixed(n)),
            // All behind the last node of the directory, which is made before most of them come.
            |n| u128::from(n) << 64,
        ];
        for make in shapes {
            let (map, mut model) = (SkipList::new(), BTreeMap::new());
            let mut asked = vec![0, u128::MAX];
            for n in 0..count {
                map.pin().insert(make(n), n);
                model.insert(make(n), n);
                asked.extend([make(n), make(n) + 1]);
            }
            let step = if cfg!(miri) { 3 } else { 11 };
            ask(&map, &model, &asked);
            for n in (0..count).filter(|n| n % step > 0) {
                map.pin().remove(&make(n));
                model.remove(&make(n));
            }
            ask(&map, &model, &asked);
        }
    }

    #[test]
    fn rows_of_an_empty_map_and_of_its_ends_find_nothing() {
        let map = SkipList::new();
        ask(&map, &BTreeMap::new(), &[0_u64, 1, u64::MAX]);
        map.pin().insert(u64::MAX, 1);
        ask(&map, &BTreeMap::from([(u64::MAX, 1)]), &[0, 1, u64::MAX]);
        map.pin().insert(0, 2);
        ask(&map, &BTreeMap::from([(u64::MAX, 1), (0, 2)]), &[0, 1, u64::MAX]);
    }

    #[test]
    fn rows_find_what_stays_while_others_come_and_go() {
        let count = if cfg!(miri) { 40 } else { 10_000 };
        let map = SkipList::new();
        for n in 0..count {
            map.pin().insert(mixed(n), n);
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..if cfg!(miri) { 2 } else { 20 } {
                    for n in (1..count).step_by(2) {
                        if round % 2 == 0 {
                            map.pin().remove(&mixed(n));
                        } else {
                            map.pin().insert(mixed(n), n);
                        }
                    }
                }
                is_over.store(true, Relaxed);
            });
            while !is_over.load(Relaxed) {
                let numbers: Vec<u64> = (0..count).collect();
                for numbers in numbers.chunks(64) {
                    let keys: Vec<u64> = numbers.iter().copied().map(mixed).collect();
                    let keys: Vec<&u64> = keys.iter().collect();
                    let pinned = map.pin();
                    let mut found: Vec<_> = keys.iter().map(|_| None).collect();
                    pinned.get_batch(&keys, &mut found);
                    for (number, found) in numbers.iter().zip(found) {
                        let found = found.as_deref();
                        assert!(found == Some(number) || found.is_none() && number % 2 == 1);
                    }
                }
            }
        });
    }
}

#[cfg(all(test, shuttle))]
mod scenes {
    use std::sync::Arc;

    use shuttle::thread;

    use super::super::SkipList;
    use crate::sync::shim::explore;

    #[test]
    fn shuttle_a_row_finds_what_stays_and_what_came_before() {
        explore(1, || {
            let map = Arc::new(SkipList::new());
            for n in 1..9_u64 {
                map.pin().insert(n * 10, n);
            }
            let writer = {
                let map = Arc::clone(&map);
                thread::spawn(move || {
                    map.pin().insert(55, 55);
                    map.pin().remove(&30);
                    map.pin().remove(&50);
                    map.pin().insert(30, 31);
                })
            };
            let pinned = map.pin();
            let mut last = (None, None);
            for _ in 0..2 {
                let mut found = [const { None }; 5];
                pinned.get_batch(&[&30, &40, &50, &55, &80], &mut found);
                let [first, second, third, fourth, fifth] =
                    found.map(|found| found.as_deref().copied());
                assert_eq!((second, fifth), (Some(4), Some(8)));
                assert!([Some(3), None, Some(31)].contains(&first), "{first:?}");
                assert!(
                    third.is_none_or(|third| third == 5)
                        && fourth.is_none_or(|fourth| fourth == 55)
                );
                // What a row has found out does not go back.
                assert!(last.0 != Some(Some(31)) || first == Some(31), "{last:?} {first:?}");
                assert!(last.1 != Some(Some(55)) || fourth == Some(55));
                last = (Some(first), Some(fourth));
            }
            drop(pinned);
            writer.join().unwrap();
            let pinned = map.pin();
            let mut found = [const { None }; 4];
            pinned.get_batch(&[&30, &50, &55, &80], &mut found);
            assert_eq!(
                found.map(|found| found.as_deref().copied()),
                [Some(31), None, Some(55), Some(8)]
            );
        });
    }
}
