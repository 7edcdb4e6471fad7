//! Putting entries in.
//!
//! A write locates its key in an edit, changes what it found, and commits; if anything it has read was changed meanwhile, it
//! begins again. A bucket without room makes room by moving entries to their other buckets; if that does not succeed in a
//! few steps, the segment grows (`resize.rs`) and the write begins again.
//!
//! PAPER: section 4.2, "Inserting", and section 4.3, "Bucketized Cuckoo Hashing". The paper's code moves nodes by a recursion
//! that gives up silently; here a move that fails has changed nothing.

use core::sync::atomic::Ordering::Relaxed;

use super::edit::{Again, Edit, View};
use super::layout::{
    Children, Entry, GROUP, LEVELS, Node, SLOTS, byte_of, prefix_of, same_prefix, shared_bytes,
};
use super::raw::{self, Bucket, Directory, Segment, read_value};
use super::search::{BATCH, Found, What};
use super::{MlpIndex, Pinned};
use crate::api::{InsertError, Rule, Written};
use crate::mem::AllocError;
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;

/// Why a write has to begin again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// Something was changed meanwhile.
    Again,
    /// The segment of this hash has no room.
    Full(u64),
}

impl From<Again> for Stop {
    fn from(_: Again) -> Self {
        Self::Again
    }
}

/// What a write did.
enum Outcome {
    New,
    Replaced(Word),
    Refused(Option<Word>),
}

/// How many entries an insertion moves at most to make room.
///
/// At nine tenths of a table's room one step suffices mostly. More steps let a table fill further, where each insertion
/// moves several entries, each of which is a wait.
const MOVES: usize = 24;

impl<V: Send + Sync> MlpIndex<V> {
    /// Maps `key` to `value` if the rule allows it.
    #[inline]
    pub(super) fn write<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        key: u64,
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        let word = match raw::word_of_value(value) {
            Ok(word) => word,
            Err((AllocError { bytes }, value)) => {
                return Err(InsertError::OutOfMemory { bytes, value });
            }
        };
        match self.write_word(pinned, key, word, rule) {
            Ok(Outcome::New) => {
                self.shards.added(pinned.thread, 1);
                Ok(Written::New(read_value(word)))
            }
            Ok(Outcome::Replaced(old)) => {
                self.retire(pinned, raw::garbage_of(old));
                Ok(Written::Replaced(read_value(old)))
            }
            Ok(Outcome::Refused(found)) => {
                Ok(Written::Refused(found.map(read_value), raw::value_of_word(word)))
            }
            Err(AllocError { bytes }) => {
                Err(InsertError::OutOfMemory { bytes, value: raw::value_of_word(word) })
            }
        }
    }

    fn write_word(
        &self,
        pinned: &Pinned<'_, V>,
        key: u64,
        word: Word,
        rule: Rule,
    ) -> Result<Outcome, AllocError> {
        let mut backoff = Backoff::new();
        let mut edit = Edit::new(Self::HAS_VALUES);
        loop {
            let Some(directory) = self.root.get(&pinned.guard) else {
                if let Rule::Same(_) = rule {
                    return Ok(Outcome::Refused(None));
                }
                self.make_first()?;
                continue;
            };
            edit.clear();
            match self.try_write(directory, &mut edit, key, word, rule) {
                Ok(outcome) => return Ok(outcome),
                Err(Stop::Again) => backoff.wait(),
                Err(Stop::Full(hash)) => {
                    edit.clear();
                    self.grow(pinned, directory.segment(hash), hash)?;
                }
            }
        }
    }

    fn try_write<'g>(
        &self,
        directory: &'g Directory,
        edit: &mut Edit<'g>,
        key: u64,
        word: Word,
        rule: Rule,
    ) -> Result<Outcome, Stop> {
        let found = self.locate(directory, edit, key)?;
        let place = match found.what {
            What::Group => found.group(key).find(|(other, ..)| *other == key),
            _ => None,
        };
        if let Some((_, at, slot)) = place {
            let image = &found.images[at];
            let old = if Self::HAS_VALUES { image.value(slot) } else { core::ptr::null_mut() };
            let allowed = match rule {
                Rule::Always => true,
                Rule::Absent => false,
                Rule::Same(seen) => core::ptr::eq(old, seen),
            };
            if !allowed {
                edit.commit()?;
                return Ok(Outcome::Refused(Some(old)));
            }
            if Self::HAS_VALUES {
                edit.set_value(found.segment, found.pair[at], slot, word)?;
            }
            edit.commit()?;
            return Ok(Outcome::Replaced(old));
        }
        if let Rule::Same(_) = rule {
            edit.commit()?;
            return Ok(Outcome::Refused(None));
        }
        let mut moved = Moved::default();
        self.add(directory, edit, &found, (key, word), &mut moved)?;
        edit.commit()?;
        self.count_levels(&moved);
        Ok(Outcome::New)
    }

    /// Adds a key that is not there to the trie.
    fn add<'g>(
        &self,
        directory: &'g Directory,
        edit: &mut Edit<'g>,
        found: &Found<'g>,
        (key, value): (u64, Word),
        moved: &mut Moved,
    ) -> Result<(), Stop> {
        let leaf = |level| Entry::Leaf { level, key, value };
        let level = match &found.what {
            What::Nothing => 0,
            What::Group if found.group(key).count() < GROUP => found.level,
            What::Group => return self.split_group(directory, edit, found, (key, value), moved),
            What::Node(at, slot, node) if !same_prefix(node.prefix, key, node.depth) => {
                let depth = shared_bytes(node.prefix, key);
                let mut children = Children::default();
                children.insert(byte_of(key, depth));
                children.insert(byte_of(node.prefix, depth));
                edit.take(found.segment, found.pair[*at], *slot)?;
                let prefix = prefix_of(key, depth);
                let above = Node { level: found.level, depth, prefix, children };
                self.place(directory, edit, Entry::Node(above))?;
                self.place(directory, edit, Entry::Node(Node { level: depth + 1, ..*node }))?;
                depth + 1
            }
            What::Node(at, slot, node) => {
                let mut grown = *node;
                grown.children.insert(byte_of(key, node.depth));
                let (segment, bucket) = (found.segment, found.pair[*at]);
                edit.take(segment, bucket, *slot)?;
                if !edit.add(segment, bucket, &Entry::Node(grown))? {
                    self.place(directory, edit, Entry::Node(grown))?;
                }
                node.depth + 1
            }
        };
        moved.add(key, level, 1);
        self.place(directory, edit, leaf(level))
    }

    /// Makes a node of a full group and one more key, with groups below it.
    fn split_group<'g>(
        &self,
        directory: &'g Directory,
        edit: &mut Edit<'g>,
        found: &Found<'g>,
        (key, value): (u64, Word),
        moved: &mut Moved,
    ) -> Result<(), Stop> {
        debug_assert!(found.level < LEVELS, "a group of level 8 has one key");
        let mut keys = [(key, value); GROUP + 1];
        for ((old, at, slot), place) in found.group(key).zip(&mut keys[1..]) {
            if let Entry::Leaf { value, .. } = edit.take(found.segment, found.pair[at], slot)? {
                *place = (old, value);
            }
        }
        let differ = keys.iter().fold(0, |bits, (other, _)| bits | (other ^ key));
        let depth = shared_bytes(differ, 0);
        let mut children = Children::default();
        for (key, _) in &keys {
            children.insert(byte_of(*key, depth));
        }
        let node = Node { level: found.level, depth, prefix: prefix_of(key, depth), children };
        self.place(directory, edit, Entry::Node(node))?;
        for (n, (key, value)) in keys.into_iter().enumerate() {
            if n > 0 {
                moved.add(key, found.level, -1);
            }
            moved.add(key, depth + 1, 1);
            self.place(directory, edit, Entry::Leaf { level: depth + 1, key, value })?;
        }
        Ok(())
    }
}

impl<V> MlpIndex<V> {
    /// Puts an entry into one of its two buckets.
    pub(super) fn place<'g>(
        &self,
        directory: &'g Directory,
        pages: &mut impl Pages<'g>,
        entry: Entry,
    ) -> Result<(), Stop> {
        let (level, prefix) = entry.home();
        let hash = self.secret.hash(level, prefix);
        let segment = directory.segment(hash);
        self.place_in(segment, pages, entry, hash)
    }

    /// As `place`, in the segment of the entry's hash.
    #[inline]
    pub(super) fn place_in<'g>(
        &self,
        segment: &'g Segment,
        pages: &mut impl Pages<'g>,
        entry: Entry,
        hash: u64,
    ) -> Result<(), Stop> {
        for bucket in segment.pair(hash) {
            if pages.add(segment, bucket, &entry)? {
                return Ok(());
            }
        }
        self.make_room(segment, pages, entry, hash)
    }

    /// Puts an entry into one of its two buckets, both of which are full, and moves others for it.
    #[cold]
    fn make_room<'g>(
        &self,
        segment: &'g Segment,
        pages: &mut impl Pages<'g>,
        entry: Entry,
        hash: u64,
    ) -> Result<(), Stop> {
        let mut homeless = vec![(entry, hash, None)];
        let mut random = hash;
        for _ in 0..MOVES {
            let Some((entry, hash, from)) = homeless.pop() else { return Ok(()) };
            let pair = segment.pair(hash);
            if pages.add(segment, pair[0], &entry)?
                || pages.add(segment, pair[1], &entry)?
                || self.move_one(segment, pages, &entry, pair)?
            {
                continue;
            }
            // Nobody can be moved in one step: one of the two buckets gives up as much as is needed, and not the one where
            // the entry comes from.
            random = random.rotate_left(17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let first = match from {
                Some(from) => usize::from(core::ptr::eq::<Bucket>(from, pair[0])),
                None => (random >> 32) as usize & 1,
            };
            let skip = (random >> 33) as usize;
            let mut done = false;
            for bucket in [pair[first], pair[1 - first]] {
                let Some(victims) = self.victims(segment, pages, &entry, (bucket, pair), skip)?
                else {
                    continue;
                };
                for slot in victims.into_iter().flatten() {
                    let victim = pages.take(segment, bucket, slot)?;
                    let (level, prefix) = victim.home();
                    homeless.push((victim, self.secret.hash(level, prefix), Some(bucket)));
                }
                done = pages.add(segment, bucket, &entry)?;
                break;
            }
            if !done {
                return Err(Stop::Full(hash));
            }
        }
        if homeless.is_empty() { Ok(()) } else { Err(Stop::Full(hash)) }
    }

    /// The slots of entries of a bucket that have to leave it for `entry`, whose buckets are `pair`; `None` if that does not
    /// do. Who has no other place than these two would only come back.
    fn victims<'g>(
        &self,
        segment: &'g Segment,
        pages: &mut impl Pages<'g>,
        entry: &Entry,
        (bucket, pair): (&'g Bucket, [&'g Bucket; 2]),
        skip: usize,
    ) -> Result<Option<[Option<usize>; SLOTS]>, Stop> {
        let image = pages.image(bucket)?;
        let heads = image.heads().count();
        let mut victims = [None; SLOTS];
        let mut missing = entry.slots(Self::HAS_VALUES).saturating_sub(image.free());
        for (n, place) in victims.iter_mut().enumerate().take(heads) {
            if missing == 0 {
                break;
            }
            let Some(slot) = image.heads().nth((skip + n) % heads) else { break };
            let victim = image.entry(slot, Self::HAS_VALUES);
            let (level, prefix) = victim.home();
            let home = segment.pair(self.secret.hash(level, prefix));
            if home.iter().all(|place| pair.iter().any(|taken| core::ptr::eq(*taken, *place))) {
                continue;
            }
            *place = Some(slot);
            missing = missing.saturating_sub(victim.slots(Self::HAS_VALUES));
        }
        Ok((missing == 0).then_some(victims))
    }

    /// Moves an entry of one of the buckets to its other bucket, if that makes room, and puts `entry` in its place. Tells
    /// whether it did.
    fn move_one<'g>(
        &self,
        segment: &'g Segment,
        pages: &mut impl Pages<'g>,
        entry: &Entry,
        pair: [&'g Bucket; 2],
    ) -> Result<bool, Stop> {
        let needed = entry.slots(Self::HAS_VALUES);
        for bucket in pair {
            let image = pages.image(bucket)?;
            for slot in image.heads() {
                let victim = image.entry(slot, Self::HAS_VALUES);
                let room = victim.slots(Self::HAS_VALUES);
                if image.free() + room < needed {
                    continue;
                }
                let (level, prefix) = victim.home();
                let [a, b] = segment.pair(self.secret.hash(level, prefix));
                let other = if core::ptr::eq(a, bucket) { b } else { a };
                // A look that nothing rests on: `add` looks again.
                if SLOTS - other.kinds().used() < room || !pages.add(segment, other, &victim)? {
                    continue;
                }
                pages.take(segment, bucket, slot)?;
                if pages.add(segment, bucket, entry)? {
                    return Ok(true);
                }
                return Err(Stop::Again);
            }
        }
        Ok(false)
    }
}

/// Buckets in which entries are placed: those of an edit, or of a segment that nobody else knows.
pub(super) trait Pages<'g>: View<'g> {
    /// Puts an entry into a bucket, if it has room; tells whether it had.
    fn add(
        &mut self,
        segment: &'g Segment,
        bucket: &'g Bucket,
        entry: &Entry,
    ) -> Result<bool, Again>;

    /// Takes the entry that begins in a slot out.
    fn take(
        &mut self,
        segment: &'g Segment,
        bucket: &'g Bucket,
        slot: usize,
    ) -> Result<Entry, Again>;
}

impl<'g> Pages<'g> for Edit<'g> {
    #[inline]
    fn add(
        &mut self,
        segment: &'g Segment,
        bucket: &'g Bucket,
        entry: &Entry,
    ) -> Result<bool, Again> {
        Edit::add(self, segment, bucket, entry)
    }

    #[inline]
    fn take(
        &mut self,
        segment: &'g Segment,
        bucket: &'g Bucket,
        slot: usize,
    ) -> Result<Entry, Again> {
        Edit::take(self, segment, bucket, slot)
    }
}

/// Keys by the level they are on, as changes: of those that are counted.
#[derive(Debug, Default)]
pub(super) struct Moved([i8; LEVELS + 1]);

impl Moved {
    /// Counts a key at a level, or takes it from there.
    #[inline]
    pub(super) fn add(&mut self, key: u64, level: usize, change: i8) {
        if is_counted(key) {
            self.0[level] += change;
        }
    }
}

/// Whether a key is one of those that are counted: one of 64.
#[inline]
fn is_counted(key: u64) -> bool {
    cfg!(any(shuttle, small_leaves, miri)) || key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58 == 0
}

impl<V> MlpIndex<V> {
    /// Counts keys that came, went or moved, and decides anew which levels are usual.
    #[inline]
    pub(super) fn count_levels(&self, moved: &Moved) {
        if moved.0 != [0; LEVELS + 1] {
            self.count_levels_now(moved);
        }
    }

    #[cold]
    fn count_levels_now(&self, moved: &Moved) {
        for (count, change) in self.counts.iter().zip(moved.0) {
            if change != 0 {
                // Relaxed: figures that bring nothing along.
                count.fetch_add(i64::from(change).cast_unsigned(), Relaxed);
            }
        }
        // Relaxed: as above. A key that was counted twice at a time may be below zero.
        let counts: [i64; LEVELS + 1] =
            core::array::from_fn(|level| self.counts[level].load(Relaxed).cast_signed().max(0));
        let all: i64 = counts.iter().sum();
        let mut order: [usize; LEVELS + 1] = core::array::from_fn(|level| level);
        order.sort_unstable_by_key(|level| -counts[*level]);
        let usual = order.into_iter().filter(|level| counts[*level] * USUAL_PART > all);
        let usual = usual.take(super::search::USUAL).fold(0, |set, level| set | 1 << level);
        if self.usual.load(Relaxed) != usual {
            // Relaxed: a hint where to look first.
            self.usual.store(usual, Relaxed);
        }
    }
}

/// A level is usual if more than one of so many keys lies there.
///
/// Each usual level costs every `get` two lines; a key of another level costs its own `get` a second wait. More than 32
/// makes all pay for few, less than 8 makes many wait.
const USUAL_PART: i64 = 16;

impl<V: Send + Sync> Pinned<'_, V> {
    /// Inserts all `entries` in their order; later ones win.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`insert`](Self::insert)s, those of 16 keys at once.
    ///
    /// # Panics
    ///
    /// As `insert`; entries before the one that panicked are in the map.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::MlpIndex;
    ///
    /// let map = MlpIndex::new();
    /// let pinned = map.pin();
    /// pinned.insert_batch([(1, "one"), (2, "two")]);
    /// assert_eq!(pinned.len(), 2);
    /// ```
    pub fn insert_batch(&self, entries: impl IntoIterator<Item = (u64, V)>) {
        let map = self.map;
        let mut entries = entries.into_iter().fuse();
        loop {
            let mut batch: [Option<(u64, V)>; BATCH] = core::array::from_fn(|_| entries.next());
            if let Some(directory) = map.root.get(&self.guard) {
                batch.iter().flatten().for_each(|(key, _)| map.ask_usual(directory, *key));
            }
            for entry in &mut batch {
                let Some((key, value)) = entry.take() else { return };
                if let Err(error) = map.write(self, key, value, Rule::Always) {
                    panic!("{error}");
                }
            }
        }
    }
}
