//! Inserting and replacing.
//!
//! A new node is published on level 0 by one exchange, which is when its key is there; the levels above follow, from below.
//! A node may be removed meanwhile: then its maker stops, and whoever of the two is done last, maker or remover, makes sure
//! that no level leads to it any more, and retires it. So a link that is set late revives nothing.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::key::SkipKey;
use super::layout::{BUILT, DEAD, Link, Newest, SWEPT};
use super::raw::{Node, version_units};
use super::remove::{AtWork, Work};
use super::search::Neighbours;
use super::{Pinned, SkipList};
use crate::api::{InsertError, Rule, Written, take_batch};
use crate::mem::AllocError;
use crate::mem::word::Word;
use crate::sync::shim::Ordering::Relaxed;

/// Keys of a batch whose searches run at once before they are inserted.
const BATCH: usize = if cfg!(any(shuttle, miri)) { 2 } else { 16 };

/// What became of a write to a node.
enum Replaced<'g, V> {
    Done(Written<'g, V>),
    /// The node is dead; the key has to be inserted.
    Dead(V),
}

/// Bytes from which on a map has a shard for each few threads.
const SHARDS_FROM_BYTES: usize =
    if cfg!(any(shuttle, small_leaves, miri)) { 1 << 10 } else { 256 << 10 };

/// A node that is not published: taken apart if it never is.
struct Fresh<'g, K: SkipKey, V> {
    map: &'g SkipList<K, V>,
    thread: usize,
    node: Node<'g, K, V>,
    is_published: bool,
}

impl<K: SkipKey, V> Fresh<'_, K, V> {
    fn take(mut self) -> (K, V) {
        self.is_published = true;
        self.take_apart()
    }

    fn take_apart(&mut self) -> (K, V) {
        let (key, value) = self.map.memory.empty_node(self.node.unit(), true);
        let mut shard = self.map.shards.lock(self.thread);
        self.map.memory.free_node(&mut shard.free.pieces, self.node.unit());
        drop(shard);
        (key, value.expect("it was asked for"))
    }
}

impl<K: SkipKey, V> Drop for Fresh<'_, K, V> {
    fn drop(&mut self) {
        if !self.is_published {
            drop(self.take_apart());
        }
    }
}

impl<K: SkipKey + Send + Sync, V: Send + Sync> SkipList<K, V> {
    /// Maps a key to a value: always, or if it has none.
    pub(super) fn write<'g>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        mut key: K,
        mut value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        let height = self.draw_height(pinned.thread);
        loop {
            let (near, found) = self.neighbours(pinned, &key, height);
            if let Some(node) = found {
                match self.replace(pinned, node, value, rule)? {
                    Replaced::Done(written) => return Ok(written),
                    Replaced::Dead(back) => value = back,
                }
                Self::mark_all(node);
                continue;
            }
            let fresh = match self.create(pinned, height, near.window_from(height), key, value) {
                Ok(fresh) => fresh,
                Err((error, _, value)) => return Err(out_of_memory(error, value)),
            };
            match self.publish(pinned, fresh, near) {
                Ok(node) => return Ok(Written::New(node.value())),
                Err(fresh) => (key, value) = fresh.take(),
            }
        }
    }

    /// Replaces the value of a key if it is still `seen`, as `Read::word` gave it.
    pub(super) fn overwrite<'g, Q>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        key: &Q,
        value: V,
        seen: Word,
    ) -> Result<Written<'g, V>, InsertError<V>>
    where
        K: core::borrow::Borrow<Q>,
        Q: SkipKey + ?Sized,
    {
        match self.node_of(pinned, key) {
            Some(node) => match self.replace(pinned, node, value, Rule::Same(seen))? {
                Replaced::Done(written) => Ok(written),
                Replaced::Dead(value) => Ok(Written::Refused(None, value)),
            },
            None => Ok(Written::Refused(None, value)),
        }
    }

    /// Inserts a key whose neighbours were looked for some time ago, at a height that is drawn if it is 0.
    #[cfg(test)]
    pub(super) fn write_late<'g>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        key: K,
        value: V,
        height: usize,
        near: Neighbours<'g>,
    ) {
        let height = if height == 0 { self.draw_height(pinned.thread) } else { height };
        if let Ok(fresh) = self.create(pinned, height, 0, key, value) {
            let _ = self.publish(pinned, fresh, near);
        }
    }

    /// Makes a node.
    fn create<'g>(
        &'g self,
        pinned: &Pinned<'_, K, V>,
        height: usize,
        from: usize,
        key: K,
        value: V,
    ) -> Result<Fresh<'g, K, V>, (AllocError, K, V)> {
        let (has_grown, made) = self.make_node(pinned.thread, height, from, key, value);
        let fresh = Fresh { map: self, thread: pinned.thread, node: made?, is_published: false };
        if has_grown {
            // Before the next time: what readers held back may be free by now.
            self.finish(pinned);
            self.collect(pinned);
        }
        Ok(fresh)
    }

    /// Puts a node between its neighbours, on all its levels.
    ///
    /// # Errors
    ///
    /// The node, if its key is there.
    fn publish<'g>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        mut fresh: Fresh<'g, K, V>,
        mut near: Neighbours<'g>,
    ) -> Result<Node<'g, K, V>, Fresh<'g, K, V>> {
        let node = fresh.node;
        let link = Link::to(Some(node.unit()));
        loop {
            node.tower().at(0).set(near.after[0]);
            if near.before[0].exchange(near.after[0], link) {
                break;
            }
            let (again, found) = self.neighbours(pinned, node.key(), 0);
            if found.is_some() {
                return Err(fresh);
            }
            near = again;
        }
        fresh.is_published = true;
        self.shards.added(pinned.thread, 1);
        if self.settled(node).height() > 1 {
            self.build(pinned, node, 1, near);
        }
        Ok(node)
    }

    /// Links a node that is on the levels below `from` on that and on those above.
    pub(super) fn build<'g>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        node: Node<'g, K, V>,
        from: usize,
        mut near: Neighbours<'g>,
    ) {
        let height = node.state().height();
        if height > self.levels() {
            self.raise_top(height);
        }
        let link = Link::to(Some(node.unit()));
        let mut at_work = AtWork { map: self, work: Work::Build(node.unit(), from) };
        let mut linked = from;
        'levels: for level in from..height {
            at_work.work = Work::Build(node.unit(), level);
            let own = node.tower().at(level);
            loop {
                let old = own.load();
                if old.is_marked() {
                    break 'levels;
                }
                if level < near.levels {
                    // Only a remover writes here beside this thread, and only a mark.
                    if old != near.after[level] && !own.exchange(old, near.after[level]) {
                        continue;
                    }
                    if near.before[level].exchange(near.after[level], link) {
                        break;
                    }
                }
                let (again, found) = self.neighbours(pinned, node.key(), height);
                if found.is_none_or(|found| found.unit() != node.unit()) {
                    break 'levels;
                }
                near = again;
            }
            linked = level + 1;
        }
        at_work.finish();
        if linked < height {
            // Never on these. It is dead and marked there, or its key is not found by an order that contradicts itself: then its
            // links there name nodes that may go without it.
            Self::mark_from(node, linked);
            self.take_off(pinned, node, height - linked);
        }
        self.count_tall(height);
        if node.raise(BUILT).has(SWEPT) {
            // Removed, and left to this thread.
            self.sweep(pinned, node);
        }
        self.renew_directory(pinned, height);
        if height > 5 && self.memory.used_bytes() >= SHARDS_FROM_BYTES {
            self.shards.grow();
        }
    }

    fn raise_top(&self, height: usize) {
        let mut top = self.top.load(Relaxed);
        while (top as usize) < height {
            // Relaxed: a hint to readers where to begin.
            match self.top.compare_exchange_weak(top, height as u32, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Gives a node another value, if the rule allows it.
    fn replace<'g>(
        &'g self,
        pinned: &'g Pinned<'_, K, V>,
        node: Node<'g, K, V>,
        value: V,
        rule: Rule,
    ) -> Result<Replaced<'g, V>, InsertError<V>> {
        let memory = &self.memory;
        let mut value = Some(value);
        let mut version = None;
        let refused = loop {
            let state = self.settled(node);
            if state.has(DEAD) {
                break None;
            }
            let old = self.value_in(node, state);
            let allowed = match (rule, old) {
                (Rule::Always, _) | (Rule::Absent, None) => true,
                (Rule::Absent, Some(_)) | (Rule::Same(_), None) => false,
                (Rule::Same(seen), Some(old)) => core::ptr::eq(old.word(), seen),
            };
            if !allowed {
                break Some(old);
            }
            let version = if let Some(version) = version {
                version
            } else {
                let mut shard = self.shards.lock_with(pinned.thread, version_units::<V>());
                let made = memory.create_version(&mut shard.heap, value.take());
                drop(shard);
                match made {
                    Ok(made) => *version.insert(made),
                    Err((error, value)) => {
                        return Err(out_of_memory(error, value.expect("it was given")));
                    }
                }
            };
            let (older, first) = self.below(state);
            version.put_before(older, first);
            if !node.exchange(state, state.with(Newest::Chain(version.unit()))) {
                continue;
            }
            self.settled(node);
            let new = version.value();
            if old.is_none() {
                self.shards.added(pinned.thread, 1);
            }
            self.prune(pinned, node);
            self.recycle(pinned);
            return Ok(Replaced::Done(old.map_or(Written::New(new), Written::Replaced)));
        };
        let value = match version {
            None => value,
            Some(version) => {
                let value = memory.empty_version(version.unit());
                let mut shard = self.shards.lock(pinned.thread);
                memory.free_version(&mut shard.heap, version.unit());
                value
            }
        };
        let value = value.expect("it was not published");
        Ok(match refused {
            Some(old) => Replaced::Done(Written::Refused(old, value)),
            None => Replaced::Dead(value),
        })
    }
}

fn out_of_memory<V>(error: AllocError, value: V) -> InsertError<V> {
    InsertError::OutOfMemory { bytes: error.bytes, value }
}

impl<K: SkipKey + Send + Sync, V: Send + Sync> Pinned<'_, K, V> {
    /// Inserts all `entries` in their order; later ones win.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`insert`](Self::insert)s, those of 16 keys at once.
    ///
    /// # Panics
    ///
    /// As `insert`, or as the iterator; entries before the one that panicked are in the map.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// let pinned = map.pin();
    /// pinned.insert_batch([(1, "one"), (2, "two")]);
    /// assert_eq!(pinned.len(), 2);
    /// ```
    #[track_caller]
    pub fn insert_batch(&self, entries: impl IntoIterator<Item = (K, V)>) {
        if let Err(error) = self.try_insert_batch(entries) {
            panic!("{error}");
        }
    }

    /// Inserts all `entries` as [`insert_batch`](Self::insert_batch) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_insert`](Self::try_insert), for the first entry that cannot be inserted. Entries before it are in the map, and
    /// none behind it.
    pub fn try_insert_batch(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), InsertError<V>> {
        let mut entries = entries.into_iter().fuse();
        loop {
            let (batch, taken) = take_batch::<_, BATCH>(&mut entries);
            let keys: [Option<&K>; BATCH] =
                core::array::from_fn(|at| batch[at].as_ref().map(|(key, _)| key));
            let some = keys.iter().flatten().count();
            // A comparison that panics here may be that of a later key: those before it are to be inserted first.
            let asked = catch_unwind(AssertUnwindSafe(|| {
                if let Some(first) = keys[0] {
                    let keys = keys.map(|key| key.unwrap_or(first));
                    self.ask_for(&keys[..some]);
                }
            }));
            for (key, value) in batch.into_iter().flatten() {
                self.map.write(self, key, value, Rule::Always)?;
            }
            if let Err(panic) = asked {
                resume_unwind(panic);
            }
            taken.resume();
            if some < BATCH {
                return Ok(());
            }
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::cmp::Ordering;
    use std::collections::BTreeSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::{Pinned, SkipKey, SkipList};

    thread_local! {
        static ALIVE: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
        static LIES: Cell<bool> = const { Cell::new(false) };
    }

    /// A number that is behind all others while it lies, and that is not to be read when it was dropped.
    #[derive(PartialEq, Eq)]
    struct Key(u64);

    impl Key {
        fn new(number: u64) -> Self {
            ALIVE.with_borrow_mut(|alive| alive.insert(number));
            Self(number)
        }
    }

    impl Drop for Key {
        fn drop(&mut self) {
            ALIVE.with_borrow_mut(|alive| alive.remove(&self.0));
        }
    }

    impl PartialOrd for Key {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Key {
        fn cmp(&self, other: &Self) -> Ordering {
            if LIES.get() { Ordering::Greater } else { self.0.cmp(&other.0) }
        }
    }

    impl SkipKey for Key {
        const KEEPS_PREFIX: bool = true;

        fn ask(&self) {
            let is_alive = ALIVE.with_borrow(|alive| alive.contains(&self.0));
            assert!(is_alive, "{} was dropped", self.0);
        }
    }

    fn put(pinned: &Pinned<'_, Key, u64>, number: u64, height: usize) {
        let key = Key::new(number);
        let (near, _) = pinned.map.neighbours(pinned, &key, height);
        pinned.map.write_late(pinned, key, number, height, near);
    }

    /// Its maker knows what is to be behind it there, and finds it no more when another node has come before it.
    #[test]
    fn a_level_that_a_node_was_never_linked_on_leads_nowhere() {
        let map = SkipList::new();
        let pinned = map.pin();
        for (number, height) in [(10, 1), (12, 2), (40, 3)] {
            put(&pinned, number, height);
        }
        (50..100).for_each(|number| put(&pinned, number, 1));
        let key = Key::new(15);
        let (near, _) = map.neighbours(&pinned, &key, 3);
        put(&pinned, 5, 3);
        LIES.set(true);
        map.write_late(&pinned, key, 15, 3, near);
        LIES.set(false);
        assert!(pinned.remove(&Key(40)).is_some());
        drop(pinned);
        while ALIVE.with_borrow(|alive| alive.contains(&40)) {
            let pinned = map.pin();
            put(&pinned, 200, 1);
            pinned.remove(&Key(200));
        }
        let pinned = map.pin();
        let numbers = pinned.range(Key::new(10)..).map(|(key, _)| key.0);
        assert!(numbers.eq([10, 12, 15].into_iter().chain(50..100)));
    }

    /// A number that is not to be looked for if it is 7.
    #[derive(Debug, PartialEq, Eq)]
    struct Touchy(u64);

    impl PartialOrd for Touchy {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Touchy {
        fn cmp(&self, other: &Self) -> Ordering {
            assert_ne!(other.0, 7, "as planned");
            self.0.cmp(&other.0)
        }
    }

    impl SkipKey for Touchy {}

    #[test]
    fn of_a_batch_whose_comparison_panics_all_before_that_key_is_there() {
        let map = SkipList::new();
        let pinned = map.pin();
        pinned.insert(Touchy(0), 0);
        let numbers = [1, 2, 3, 7, 8];
        let batch = AssertUnwindSafe(|| pinned.insert_batch(numbers.map(|n| (Touchy(n), n))));
        assert!(catch_unwind(batch).is_err());
        assert!(pinned.iter().map(|(key, _)| key.0).eq(0..4));
        pinned.check().unwrap();
    }
}
