//! A lock-free skip list with versions, and an iterator that runs ahead of itself.
//!
//! Entries lie in nodes of one piece each: value, key, and a tower of links, one for every level the node is on. A node is on
//! the next level with even odds. Every write has a version, and a snapshot sees the map as it was at one instant.
//!
//! | file | what |
//! | --- | --- |
//! | `key.rs` | what may be a key |
//! | `layout.rs` | the bytes of nodes and versions, links and states |
//! | `raw.rs`, `pieces.rs` | views of shared memory, and where it comes from |
//! | `versions.rs` | stamps, chains of versions, which of them go |
//! | `search.rs` | a key, its place, several keys at once |
//! | `directory.rs` | where searches of a large map begin |
//! | `insert.rs`, `remove.rs` | writes |
//! | `iter.rs` | walks |
//! | `ahead.rs` | running ahead of a walk |
//! | `methods.rs` | what can be said in words of the others |
//! | `snapshot.rs` | the map as it was |
//! | `check.rs` | the verifier |
//!
//! Invariants, the argument why memory is freed in time, and the budget of line fetches are in `docs/design/skip-list.md`; S1
//! to S5 are tested by `check.rs`.
//!
//! PAPER: Xu, "Efficient Data Structures via Memory Level Parallelism", section 3. The list itself is that of Fraser, and of
//! Herlihy and Shavit, whose links carry the mark of a removed node.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(
    clippy::missing_errors_doc,
    reason = "inside, the errors are: no memory, and not to be published"
)]

mod ahead;
mod check;
mod directory;
mod insert;
mod iter;
mod key;
mod layout;
mod methods;
mod pieces;
mod raw;
mod remove;
mod rows;
mod search;
mod snapshot;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;
mod versions;

use core::marker::PhantomData;
use std::hash::{BuildHasher, RandomState};

pub use crate::api::Ref;
use crate::api::{LoadError, MemoryUsage, Options};
use crate::mem::AllocError;
use crate::shards::Shards;
use crate::sync::epoch::{self, Guard, Unlinked};
use crate::sync::shim::{AtomicU32, Ordering::Relaxed};
use crate::sync::thread;

pub use crate::api::Broken;
use crate::mem::boxed::Boxed;
use directory::{Directory, Tall};
pub use iter::{Iter, Range};
use key::common_bytes;
pub use key::{Plain, SkipKey};
use layout::{BUILT, DEAD, LEVELS, Link, Newest, Older, Unit, Window};
pub use methods::IntoIter;
use pieces::Pieces;
use raw::{Memory, Node};
use remove::Unfinished;
pub use snapshot::{Snapshot, View};
use versions::{Held, Snapshots};

/// A lock-free skip list with versions: an ordered map on keys of any type, with snapshots, and scans that ask for entries ahead.
///
/// The map to take for keys that are no byte strings and for scans of a moment: a [`snapshot`](Self::snapshot) sees the map
/// as it was, whatever writers do meanwhile, and costs them nothing but the memory of what they replace. Where the keys are
/// byte strings and no snapshot is needed, [`Wormhole`](crate::Wormhole) answers a [`get`](Pinned::get) several times faster; where they
/// are numbers, [`U64Map`](crate::U64Map) does. Long scans are several times as fast as those of other skip lists, and slower than a
/// `BTreeMap`'s.
///
/// Shared by threads through a shared reference; see [`pin`](Self::pin). Nodes take 16 GiB of memory at most; an insertion beyond fails as
/// one without memory does.
///
/// # Examples
///
/// ```
/// use fanread::SkipList;
///
/// let map = SkipList::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| map.pin().insert((3, "c"), 30).is_none());
///     scope.spawn(|| map.pin().insert((1, "a"), 10).is_none());
/// });
/// let before = map.snapshot();
/// map.pin().remove(&(1, "a"));
/// let view = before.pin();
/// let all: Vec<_> = view.iter().map(|(key, value)| (key.1, *value)).collect();
/// assert_eq!(all, [("a", 10), ("c", 30)]);
/// ```
///
/// # Paper
///
/// Xu, "Efficient Data Structures via Memory Level Parallelism", section 3.
pub struct SkipList<K: SkipKey, V> {
    /// The first links of all levels.
    head: [AtomicU32; LEVELS],
    /// How many levels are in use, at least 1.
    top: AtomicU32,
    seed: u64,
    memory: Memory<K, V>,
    snapshots: Snapshots,
    tall: Tall,
    unfinished: Unfinished,
    shards: Shards<Stock, Garbage<V>>,
    values: PhantomData<OwnsAndTakes<K, V>>,
}

/// A map owns entries, and takes them through a shared reference: a map of long-lived ones must not pass for one of
/// shorter-lived ones, so `K` and `V` are invariant.
type OwnsAndTakes<K, V> = (K, V, fn(K, V) -> (K, V));

/// What a shard makes nodes of.
#[derive(Debug, Default)]
struct Stock {
    /// How many heights were drawn, in steps of a generator.
    drawn: u64,
    pieces: Pieces,
}

impl Stock {
    /// Draws a height: one level with even odds, two with half of those, and so on.
    #[inline]
    fn height(&mut self, seed: u64) -> usize {
        self.drawn = self.drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.drawn ^ seed;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31).trailing_ones() as usize + 1
    }
}

impl<K: SkipKey, V> Default for SkipList<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: SkipKey, V> core::fmt::Debug for SkipList<K, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SkipList").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// Returns how many entries the map has. Exact when no writer is active.
    pub fn len(&self) -> usize {
        self.shards.entries()
    }

    /// Returns whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the handle through which the map is used.
    ///
    /// While the handle lives, memory that any map of this process gives up is not used again; nothing else waits
    /// for it. Call [`Pinned::repin`] now and then in a long loop.
    ///
    /// # Cost
    ///
    /// No line fetches beyond the thread's own; about as long as two uncontended locks.
    #[inline]
    pub fn pin(&self) -> Pinned<'_, K, V> {
        Pinned { map: self, guard: epoch::pin(), thread: thread::index() }
    }
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// Makes an empty map, which allocates nothing.
    pub fn new() -> Self {
        Self::with_options(Options::new())
    }

    /// Makes an empty map. Of the options it takes the seed, from which the heights of nodes are drawn.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options are made for one map and handed over"
    )]
    pub fn with_options(options: Options) -> Self {
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64));
        Self {
            head: [const { AtomicU32::new(0) }; LEVELS],
            top: AtomicU32::new(1),
            seed,
            memory: Memory::new(),
            snapshots: Snapshots::new(),
            tall: Tall::new(),
            unfinished: Unfinished::new(),
            shards: Shards::new(),
            values: PhantomData,
        }
    }

    /// Makes a map of entries whose keys ascend.
    ///
    /// # Cost
    ///
    /// No searches: a comparison and a node for each entry.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAscending`] if a key is not above the one before it, [`LoadError::OutOfMemory`] if there is no memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::from_sorted([(1, 'a'), (2, 'b')])?;
    /// assert_eq!(map.len(), 2);
    /// assert!(SkipList::from_sorted([(2, 'b'), (1, 'a')]).is_err());
    /// # Ok::<(), fanread::LoadError>(())
    /// ```
    pub fn from_sorted(entries: impl IntoIterator<Item = (K, V)>) -> Result<Self, LoadError>
    where
        K: Send + Sync,
        V: Send + Sync,
    {
        let map = Self::new();
        let pinned = map.pin();
        let mut last: Option<Unit> = None;
        let mut ends = [None::<Unit>; LEVELS];
        let mut entries = entries.into_iter().enumerate();
        let mut result = Ok(());
        for (index, (key, value)) in &mut entries {
            if last.is_some_and(|last| *map.memory.node(last).key() >= key) {
                result = Err(LoadError::NotAscending { index });
                break;
            }
            let height = map.draw_height(0);
            // Of the next key nothing is known yet.
            let end = ends.get(height).copied().flatten().filter(|_| K::KEEPS_PREFIX);
            let from = end.map_or(0, |end| common_bytes(map.memory.node(end).key(), &key, 0));
            let (_, made) = map.make_node(0, height, from, key, value);
            let node = match made {
                Ok(node) => node,
                Err((error, ..)) => {
                    result = Err(LoadError::OutOfMemory { bytes: error.bytes });
                    break;
                }
            };
            node.raise(BUILT);
            map.settled(node);
            // Relaxed: nobody else knows the map.
            map.top.store(map.levels().max(height) as u32, Relaxed);
            for (level, end) in ends.iter_mut().enumerate().take(height) {
                let tower = end.map_or(map.head(), |end| map.memory.node(end).tower());
                tower.at(level).set(Link::to(Some(node.unit())));
                *end = Some(node.unit());
            }
            last = Some(node.unit());
            map.shards.added(0, 1);
            map.count_tall(height);
            map.renew_directory(&pinned, height);
        }
        drop(pinned);
        result.map(|()| map)
    }

    /// Returns a snapshot: the map as it is now, whatever is written from now on.
    ///
    /// # Cost
    ///
    /// A lock that only snapshots take. While it is held, values that are replaced or removed stay in memory if the snapshot
    /// sees them, and so does a removed key of which it sees a value: walks and bounds step over such keys, so that a queue whose
    /// entries a snapshot sees takes longer for the first one the more of them are gone.
    ///
    /// # Concurrency
    ///
    /// Takes effect at one instant: it sees every write that ended before the call began, no write that begins after it has
    /// returned, and of others all that took effect before that instant. No writer waits for it, and it waits for none.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::SkipList;
    ///
    /// let map = SkipList::new();
    /// map.pin().insert("a", 1);
    /// let snapshot = map.snapshot();
    /// map.pin().insert("a", 2);
    /// assert_eq!(snapshot.pin().get("a").as_deref(), Some(&1));
    /// assert_eq!(map.pin().get("a").as_deref(), Some(&2));
    /// ```
    pub fn snapshot(&self) -> Snapshot<'_, K, V> {
        Snapshot::new(self)
    }

    /// Returns what the map takes in memory. What keys and values own elsewhere is not counted.
    pub fn memory_usage(&self) -> MemoryUsage {
        let mut idle_bytes = 0;
        for shard in self.shards.lock_each() {
            idle_bytes += shard.heap.idle_bytes();
            idle_bytes += shard.free.pieces.idle_bytes();
        }
        MemoryUsage {
            leaf_bytes: 0,
            record_bytes: self.memory.resident_bytes() + self.len() * Memory::<K, V>::box_bytes(),
            table_bytes: self.tall.bytes(&epoch::pin()),
            idle_bytes,
        }
    }

    /// Draws the height of a node.
    fn draw_height(&self, thread: usize) -> usize {
        let height = self.shards.lock(thread).free.height(self.seed);
        let height = height.min(self.levels() + 1).min(LEVELS);
        if height <= 8 {
            return height;
        }
        // A node above all others shortens no search. What is used again must not be as high as ever was drawn.
        height.min(self.len().max(1).ilog2() as usize + 2).max(8)
    }

    /// Makes a node that is not published, whose window is to begin at `from`. Tells whether fresh memory was taken.
    fn make_node(
        &self,
        thread: usize,
        height: usize,
        from: usize,
        key: K,
        value: V,
    ) -> (bool, Made<'_, K, V>) {
        // Before the lock: it is user code.
        let window = Window::new(from, |at| if K::KEEPS_PREFIX { key.word(at) } else { 0 });
        let mut shard = self.shards.lock(thread);
        let units = Memory::<K, V>::node_units(height);
        if shard.free.pieces.is_short_of(units) {
            self.shards.trade(&mut shard, |own, other| {
                own.free.pieces.trade(&mut other.free.pieces, units)
            });
        }
        let made = self.memory.create_node(&mut shard.free.pieces, height, window, key, value);
        (shard.free.pieces.has_grown(), made)
    }

    /// Takes what has been unlinked. No user code runs; [`recycle`](Self::recycle) is to follow when all is done that must
    /// not be left half-way.
    fn retire(&self, pinned: &Pinned<'_, K, V>, garbage: impl IntoIterator<Item = Garbage<V>>) {
        let mut shard = self.shards.lock(pinned.thread);
        for item in garbage {
            shard.limbo.retire(item, &pinned.guard);
        }
    }

    /// Frees some of what was unlinked and nobody can be reading any more.
    fn recycle(&self, pinned: &Pinned<'_, K, V>) {
        let items = self.shards.collect(pinned.thread);
        // User code runs here, in `Drop` of keys and values: no lock is held.
        Recycle { map: self, thread: pinned.thread, items }.run();
    }

    /// Frees all that nobody can be reading any more, of the shards of all threads.
    #[cold]
    fn collect(&self, pinned: &Pinned<'_, K, V>) {
        loop {
            let mut items = Vec::new();
            for mut shard in self.shards.lock_each() {
                items.extend(shard.limbo.collect().unwrap_or_default());
            }
            if items.is_empty() {
                return;
            }
            Recycle { map: self, thread: pinned.thread, items }.run();
        }
    }

    /// The versions of a node, and whether its value is still its own.
    fn chain(&self, node: Unit) -> (Vec<Unit>, bool) {
        let mut versions = Vec::new();
        let mut unit = match self.memory.node(node).state().newest() {
            Newest::Inline(_) | Newest::InlineGone(_) => return (versions, true),
            Newest::Chain(unit) | Newest::ChainGone(unit) => unit,
        };
        loop {
            versions.push(unit);
            unit = match self.memory.version(unit).older() {
                Older::Nothing => return (versions, false),
                Older::Inline => return (versions, true),
                Older::Version(unit) => unit,
            };
        }
    }
}

/// A node, or why there is none, with what was to be in it.
type Made<'g, K, V> = Result<Node<'g, K, V>, (AllocError, K, V)>;

/// What a map no longer uses, until nobody can be reading it.
#[derive(Debug)]
enum Garbage<V> {
    /// A node that no level leads to, with its chain.
    Node(Unit),
    /// A version that was taken out of its chain.
    Version(Unit),
    /// The value of a node, which lies in a box.
    Value(#[expect(dead_code, reason = "kept to be dropped")] Boxed<V>),
    /// A list of snapshots.
    List(#[expect(dead_code, reason = "kept to be dropped")] Box<Held>),
    /// A directory.
    Directory(#[expect(dead_code, reason = "kept to be dropped")] Box<Directory>),
}

impl<V> Unlinked for Garbage<V> {
    fn is_large(&self) -> bool {
        matches!(self, Self::Directory(_))
    }
}

/// Garbage that nobody reads any more: dropped one by one, all of it even if one panics.
struct Recycle<'m, K: SkipKey, V> {
    map: &'m SkipList<K, V>,
    thread: usize,
    items: Vec<Garbage<V>>,
}

impl<K: SkipKey, V> Recycle<'_, K, V> {
    fn run(&mut self) {
        let SkipList { memory, shards, .. } = self.map;
        while let Some(item) = self.items.pop() {
            match item {
                Garbage::Node(unit) => {
                    let (versions, has_value) = self.map.chain(unit);
                    // Each by itself, so that a panic of one loses no other.
                    self.items.extend(versions.into_iter().map(Garbage::Version));
                    let (key, value) = memory.empty_node(unit, has_value);
                    memory.free_node(&mut shards.lock(self.thread).free.pieces, unit);
                    drop((key, value));
                }
                Garbage::Version(unit) => {
                    let value = memory.empty_version(unit);
                    memory.free_version(&mut shards.lock(self.thread).heap, unit);
                    drop(value);
                }
                other => drop(other),
            }
        }
    }
}

impl<K: SkipKey, V> Drop for Recycle<'_, K, V> {
    fn drop(&mut self) {
        // After a panic of one value: the rest. A second panic aborts, as in std's collections.
        if std::thread::panicking() {
            self.run();
        }
    }
}

impl<K: SkipKey, V> Drop for SkipList<K, V> {
    fn drop(&mut self) {
        if !const { Memory::<K, V>::drops() } {
            // The arena frees all memory at once.
            return;
        }
        // What was unlinked still holds keys and values. All in one list: if one panics, the rest is dropped all the same.
        let mut items: Vec<_> = self.shards.drain().collect();
        // A dead node that is still linked is one that a panic has left, as some are that no level leads to.
        let nodes = self.level(0).filter(|node| !node.state().has(DEAD)).map(Node::unit);
        let left = self.unfinished.take_dead(&self.memory);
        items.extend(self.tall.take_dead().into_iter().chain(left).chain(nodes).map(Garbage::Node));
        Recycle { map: self, thread: 0, items }.run();
    }
}

/// The handle through which a [`SkipList`] is used; see [`SkipList::pin`].
///
/// It belongs to its thread. What it hands out lives as long as the handle.
pub struct Pinned<'m, K: SkipKey, V> {
    map: &'m SkipList<K, V>,
    guard: Guard,
    thread: usize,
}

impl<K: SkipKey, V> core::fmt::Debug for Pinned<'_, K, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pinned").field("map", self.map).finish_non_exhaustive()
    }
}
