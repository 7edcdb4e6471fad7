//! Putting entries in.
//!
//! A write locates its key in an edit, changes what it found, and commits; if anything it has read was changed meanwhile, it
//! begins again. A bucket without room makes room by moving entries to their other buckets; if that does not succeed in a
//! few steps, the segment grows (`resize.rs`) and the write begins again.
//!
//! PAPER: section 4.2, "Inserting", and section 4.3, "Bucketized Cuckoo Hashing". The paper's code moves nodes by a recursion
//! that gives up silently; here a move that fails has changed nothing.

use core::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use super::batch::INSERTS;
use super::edit::{Again, Edit, Pages};
use super::layout::{
    Children, Entry, GROUP, LEVELS, Node, SLOTS, byte_of, prefix_of, same_prefix, shared_bytes,
};
use super::raw::{self, Bucket, Home, Table, Tables, read_value};
use super::search::{Found, What};
use super::words::Member;
use super::{MlpIndex, Pinned, Recycle};
use crate::api::{InsertError, Rule, Written, take_batch};
use crate::arch::prefetch;
use crate::mem::AllocError;
use crate::mem::boxed;
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;

/// Why a write has to begin again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// Something was changed meanwhile.
    Again,
    /// The segment of this hash has no room.
    Full(Table, u64),
}

impl From<Again> for Stop {
    fn from(_: Again) -> Self {
        Self::Again
    }
}

/// What a write did.
pub(super) enum Outcome {
    New,
    Replaced(Word),
    Refused(Option<Word>),
}

/// How many buckets an insertion looks at for one with room.
///
/// At nine tenths of a table's room one in four has some. More let a table fill further, where each insertion looks at more;
/// fewer waste memory.
const MET: usize = 64;

/// How many nodes an insertion moves at most.
const MOVES: usize = 64;

/// A thread takes back what segments have left whenever it has added so many entries: segments are replaced in bursts, and the next one
/// comes when the map has half as much again.
const TIDY_EVERY: u64 = 4096;

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
        let word = match boxed::word_of_value(value) {
            Ok(word) => word,
            Err((AllocError { bytes }, value)) => {
                return Err(InsertError::OutOfMemory { bytes, value });
            }
        };
        // Dropped at the end: user code that panics there finds the value in the map.
        let mut recycle = Vec::new();
        match self.write_word(pinned, key, word, rule, &mut recycle) {
            Ok(Outcome::New) => {
                if self.shards.added(pinned.thread, 1).is_multiple_of(TIDY_EVERY) {
                    recycle.push(self.tidy(pinned));
                }
                Ok(Written::New(read_value(word)))
            }
            Ok(Outcome::Replaced(old)) => {
                self.retire(pinned, raw::garbage_of(old));
                Ok(Written::Replaced(read_value(old)))
            }
            Ok(Outcome::Refused(found)) => {
                Ok(Written::Refused(found.map(read_value), boxed::value_of_word(word)))
            }
            Err(AllocError { bytes }) => {
                Err(InsertError::OutOfMemory { bytes, value: boxed::value_of_word(word) })
            }
        }
    }

    fn write_word(
        &self,
        pinned: &Pinned<'_, V>,
        key: u64,
        word: Word,
        rule: Rule,
        recycle: &mut Vec<Recycle<V>>,
    ) -> Result<Outcome, AllocError> {
        let mut backoff = Backoff::new();
        let mut edit = Edit::new(Self::HAS_VALUES);
        loop {
            let Some(tables) = self.tables(&pinned.guard) else {
                if let Rule::Same(_) = rule {
                    return Ok(Outcome::Refused(None));
                }
                self.make_first()?;
                continue;
            };
            if let Some(outcome) = self.write_quickly(tables, (key, word), rule) {
                return Ok(outcome);
            }
            edit.clear();
            match self.try_write(tables, &mut edit, key, word, rule) {
                Ok(outcome) => return Ok(outcome),
                Err(Stop::Again) => recycle.extend(self.wait_for(pinned, &mut backoff)),
                Err(Stop::Full(table, hash)) => {
                    edit.clear();
                    let full = (tables.of(table).segment(hash), &mut backoff);
                    recycle.extend(self.grow(pinned, (table, hash), full)?);
                }
            }
        }
    }

    fn try_write<'g>(
        &self,
        tables: Tables<'g>,
        edit: &mut Edit<'g>,
        key: u64,
        word: Word,
        rule: Rule,
    ) -> Result<Outcome, Stop> {
        let found = self.locate(tables, edit, key)?;
        if let Some(member) = found.member(key) {
            let old = member.value;
            if !rule.allows(old) {
                edit.commit()?;
                return Ok(Outcome::Refused(Some(old)));
            }
            if Self::HAS_VALUES {
                edit.set_value(&found.home, member.at, word)?;
            }
            edit.commit()?;
            return Ok(Outcome::Replaced(old));
        }
        if let Rule::Same(_) = rule {
            edit.commit()?;
            return Ok(Outcome::Refused(None));
        }
        let mut moved = Moved::default();
        self.add(tables, edit, &found, (key, word), &mut moved)?;
        edit.commit()?;
        self.count_levels(&moved);
        Ok(Outcome::New)
    }

    /// Adds a key that is not there to the trie.
    fn add<'g>(
        &self,
        tables: Tables<'g>,
        edit: &mut Edit<'g>,
        found: &Found<'g>,
        (key, value): (u64, Word),
        moved: &mut Moved,
    ) -> Result<(), Stop> {
        let node = found.node();
        let level = match found.what {
            What::Nothing => 0,
            What::Group if found.group.len() < GROUP => {
                moved.add(key, found.level, 1);
                let leaf = Entry::Leaf { level: found.level, key, value };
                return self.place_at(edit, &found.home, leaf);
            }
            What::Group => {
                return self.split_group(tables, edit, found, (key, value), moved);
            }
            What::Node if !same_prefix(node.prefix, key, node.depth) => {
                let depth = shared_bytes(node.prefix, key);
                let mut children = Children::default();
                children.insert(byte_of(key, depth));
                children.insert(byte_of(node.prefix, depth));
                let home = &found.home;
                edit.take(home, found.packed.at)?;
                let prefix = prefix_of(key, depth);
                let above = Node { level: found.level, depth, prefix, children };
                self.place_at(edit, home, Entry::Node(above))?;
                self.place(tables, edit, Entry::Node(Node { level: depth + 1, ..node }))?;
                depth + 1
            }
            What::Node => {
                let (home, at) = (&found.home, found.packed.at);
                let byte = byte_of(key, node.depth);
                if !edit.add_child(home, found.level, at, byte)? {
                    let mut grown = node;
                    grown.children.insert(byte);
                    edit.take(home, at)?;
                    if !edit.add(home, at.0, &Entry::Node(grown))? {
                        self.place_at(edit, home, Entry::Node(grown))?;
                    }
                }
                node.depth + 1
            }
        };
        moved.add(key, level, 1);
        self.place(tables, edit, Entry::Leaf { level, key, value })
    }

    /// Makes a node of a full group and one more key, with groups below it.
    fn split_group<'g>(
        &self,
        tables: Tables<'g>,
        edit: &mut Edit<'g>,
        found: &Found<'g>,
        (key, value): (u64, Word),
        moved: &mut Moved,
    ) -> Result<(), Stop> {
        debug_assert!(found.level < LEVELS, "a group of level 8 has one key");
        let group = &found.group;
        let differ = group.members().fold(0, |bits, member| bits | (member.key ^ key));
        let depth = shared_bytes(differ, 0);
        let mut children = Children::default();
        children.insert(byte_of(key, depth));
        for member in group.members() {
            edit.take(&found.home, member.at)?;
            children.insert(byte_of(member.key, depth));
        }
        let node = Node { level: found.level, depth, prefix: prefix_of(key, depth), children };
        self.place_at(edit, &found.node_home(), Entry::Node(node))?;
        let level = depth + 1;
        for Member { key, value, .. } in group.members() {
            moved.add(key, found.level, -1);
            moved.add(key, level, 1);
            self.place(tables, edit, Entry::Leaf { level, key, value })?;
        }
        moved.add(key, level, 1);
        self.place(tables, edit, Entry::Leaf { level, key, value })
    }
}

/// A bucket that was met in search of room, and from which slot of which of the others one comes there.
struct Met<'g> {
    bucket: &'g Bucket,
    from: usize,
    slot: usize,
}

/// Entries that have to leave a bucket.
#[derive(Default)]
struct Victims {
    slots: [Option<usize>; SLOTS],
    has_node: bool,
}

impl<V> MlpIndex<V> {
    /// Puts an entry into one of its two buckets.
    pub(super) fn place<'g>(
        &self,
        tables: Tables<'g>,
        pages: &mut impl Pages<'g>,
        entry: Entry,
    ) -> Result<(), Stop> {
        let (level, prefix) = entry.home();
        let hash = self.secret.hash(level, prefix);
        self.place_at(pages, &tables.of(entry.table()).segment(hash).home(hash), entry)
    }

    /// As `place`, where the entry's buckets are known.
    #[inline]
    pub(super) fn place_at<'g>(
        &self,
        pages: &mut impl Pages<'g>,
        home: &Home<'g>,
        entry: Entry,
    ) -> Result<(), Stop> {
        if pages.add(home, 0, &entry)? || pages.add(home, 1, &entry)? {
            return Ok(());
        }
        self.make_room(pages, home, entry)
    }

    /// Puts an entry into one of its two buckets, both of which are full, and moves others for it.
    #[cold]
    fn make_room<'g>(
        &self,
        pages: &mut impl Pages<'g>,
        home: &Home<'g>,
        entry: Entry,
    ) -> Result<(), Stop> {
        match entry.table() {
            Table::Leaves => self.move_leaves(pages, home, entry),
            Table::Nodes => self.move_nodes(pages, home, entry),
        }
    }

    /// Moves leaves for one more, by the shortest row of moves from a full bucket to another's other bucket. All buckets that
    /// are as far away as each other are asked for at once.
    fn move_leaves<'g>(
        &self,
        pages: &mut impl Pages<'g>,
        home: &Home<'g>,
        entry: Entry,
    ) -> Result<(), Stop> {
        let needed = entry.slots(Self::HAS_VALUES);
        if home.segment.is_full_enough() {
            return Err(Stop::Full(Table::Leaves, home.hash));
        }
        let mut met: SmallVec<[Met<'g>; 96]> = SmallVec::new();
        met.extend(home.pair.map(|bucket| Met { bucket, from: 0, slot: 0 }));
        let mut near = 0..2;
        while !near.is_empty() && met.len() < MET {
            for at in near.clone() {
                pages.peek(met[at].bucket, |words| {
                    for slot in words.kinds.heads() {
                        let (level, prefix, _) = words.name(slot, Self::HAS_VALUES);
                        let place = home.segment.home(self.secret.hash(level, prefix));
                        let bucket = place.pair[1 - place.which(met[at].bucket)];
                        // Keys of one group have the same two.
                        if !met.iter().any(|met| core::ptr::eq(met.bucket, bucket)) {
                            prefetch(bucket);
                            met.push(Met { bucket, from: at, slot });
                        }
                    }
                });
                if met.len() >= MET {
                    break;
                }
            }
            near = near.end..met.len();
            for at in near.clone() {
                if pages.peek(met[at].bucket, |words| words.kinds.free()) >= needed {
                    return self.move_along(pages, home, entry, (&met, at));
                }
            }
        }
        Err(Stop::Full(Table::Leaves, home.hash))
    }

    /// Moves a leaf into the bucket `met[at]`, which has room, another one into its place, and so on.
    fn move_along<'g>(
        &self,
        pages: &mut impl Pages<'g>,
        home: &Home<'g>,
        entry: Entry,
        (met, at): (&[Met<'g>], usize),
    ) -> Result<(), Stop> {
        let mut to = at;
        while to >= 2 {
            let Met { bucket, from, slot } = met[to];
            let source = met[from].bucket;
            let hash = pages.look(source, |words| {
                let (level, prefix, _) = words.name(slot, Self::HAS_VALUES);
                words.kinds.is_leaf(slot).then(|| self.secret.hash(level, prefix))
            })?;
            let place = home.segment.home(hash.ok_or(Again)?);
            let here = place.which(source);
            // Nothing that was peeked at need be so.
            let is_so = core::ptr::eq(place.pair[here], source)
                && core::ptr::eq(place.pair[1 - here], bucket);
            if !is_so {
                return Err(Stop::Again);
            }
            let victim = pages.take(&place, (here, slot))?;
            if !pages.add(&place, 1 - here, &victim)? {
                return Err(Stop::Again);
            }
            to = from;
        }
        if pages.add(home, to, &entry)? { Ok(()) } else { Err(Stop::Again) }
    }

    /// Moves nodes for one more, which may have to push out several. One of its buckets gives up as much as it needs; who
    /// is pushed out does the same at its other bucket.
    fn move_nodes<'g>(
        &self,
        pages: &mut impl Pages<'g>,
        home: &Home<'g>,
        entry: Entry,
    ) -> Result<(), Stop> {
        let segment = home.segment;
        let mut homeless = vec![(entry, *home, None)];
        let mut random = home.hash;
        for _ in 0..MOVES {
            let Some((entry, home, from)) = homeless.pop() else { return Ok(()) };
            if pages.add(&home, 0, &entry)? || pages.add(&home, 1, &entry)? {
                continue;
            }
            random = random.rotate_left(17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let first = match from {
                Some((bucket, _)) => 1 - home.which(bucket),
                None => (random >> 32) as usize & 1,
            };
            let skip = (random >> 33) as usize;
            let mut best = None;
            for at in [first, 1 - first] {
                let victims = self.victims(pages, &entry, (&home, at), (skip, from))?;
                // Not back where it came from. Nodes need all the room of a bucket, and seldom find it.
                let back = from.is_some() && at != first;
                let cost = |victims: &Victims| (back, victims.has_node, at != first);
                let best_cost = best.as_ref().map(|(_, cost)| *cost);
                if let Some(victims) = victims
                    && best_cost.is_none_or(|best| cost(&victims) < best)
                {
                    let cost = cost(&victims);
                    best = Some(((at, victims.slots), cost));
                }
            }
            let Some(((at, victims), _)) = best else {
                return Err(Stop::Full(entry.table(), home.hash));
            };
            let bucket = home.pair[at];
            for slot in victims.into_iter().flatten() {
                let place = pages.look(bucket, |words| {
                    let (level, prefix, _) = words.name(slot, Self::HAS_VALUES);
                    segment.home(self.secret.hash(level, prefix))
                })?;
                let victim = pages.take(&place, (place.which(bucket), slot))?;
                homeless.push((victim, place, Some((bucket, entry.number()))));
            }
            if !pages.add(&home, at, &entry)? {
                return Err(Stop::Full(entry.table(), home.hash));
            }
        }
        if homeless.is_empty() { Ok(()) } else { Err(Stop::Full(entry.table(), home.hash)) }
    }

    /// The entries of a bucket that have to leave it for `entry`, whose first or second it is and who comes `from` there or
    /// not; `None` if that does not do. Who has no other place than these two would only come back.
    fn victims<'g>(
        &self,
        pages: &mut impl Pages<'g>,
        entry: &Entry,
        (home, at): (&Home<'g>, usize),
        (skip, from): (usize, Option<(&'g Bucket, u64)>),
    ) -> Result<Option<Victims>, Stop> {
        let needed = entry.slots(Self::HAS_VALUES);
        // Who has just taken its place does not have to leave for it again.
        let stays = from.filter(|(bucket, _)| core::ptr::eq(*bucket, home.pair[at]));
        let stays = stays.map(|(_, number)| number);
        let victims = pages.look(home.pair[at], |words| {
            let heads = words.kinds.heads().count().max(1);
            let mut missing = needed.saturating_sub(words.kinds.free());
            let mut victims = Victims::default();
            let mut count = 0;
            for wants_leaf in [true, false] {
                let order = words.kinds.heads().chain(words.kinds.heads()).skip(skip % heads);
                for slot in order.take(heads).filter(|s| words.kinds.is_leaf(*s) == wants_leaf) {
                    if missing == 0 {
                        break;
                    }
                    if stays == Some(words.number(slot)) {
                        continue;
                    }
                    let (level, prefix, slots) = words.name(slot, Self::HAS_VALUES);
                    let other = home.segment.pair(self.secret.hash(level, prefix));
                    let is_own =
                        |place: &Bucket| home.pair.iter().any(|own| core::ptr::eq(*own, place));
                    if !other.into_iter().all(is_own) {
                        victims.slots[count] = Some(slot);
                        victims.has_node |= !wants_leaf;
                        count += 1;
                        missing = missing.saturating_sub(slots);
                    }
                }
            }
            (missing == 0).then_some(victims)
        })?;
        Ok(victims)
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
#[inline(always)]
pub(super) fn is_counted(key: u64) -> bool {
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
        let most = order[0];
        let dense = if counts[most] * DENSE_PART.1 > all * DENSE_PART.0 { most } else { 0 };
        let hints = [(&self.usual, usual), (&self.most, most as u32), (&self.dense, dense as u32)];
        for (hint, now) in hints {
            if hint.load(Relaxed) != now {
                // Relaxed: a hint where to look first.
                hint.store(now, Relaxed);
            }
        }
    }
}

/// A level is usual if more than one of so many keys lies there.
///
/// Each usual level costs every `get` two lines; a key of another level costs its own `get` a second wait. More than 32
/// makes all pay for few, less than 8 makes many wait.
const USUAL_PART: i64 = 16;

/// A level on which more than this part of all keys lies is all that a bound looks at first.
///
/// With less, more bounds end elsewhere, for which that look was in vain.
const DENSE_PART: (i64, i64) = (3, 4);

impl<V: Send + Sync> Pinned<'_, V> {
    /// Inserts all `entries` as [`insert_batch`](Self::insert_batch) does.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`insert`](Self::insert)s, those of 32 keys at once.
    ///
    /// # Errors
    ///
    /// Those of [`try_insert`](Self::try_insert), for the first entry that cannot be inserted. Entries before it are in the map, and
    /// none behind it.
    pub fn try_insert_batch(
        &self,
        entries: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<(), InsertError<V>> {
        let map = self.map;
        let mut entries = entries.into_iter().fuse();
        loop {
            let (mut batch, taken) = take_batch::<_, INSERTS>(&mut entries);
            if let Some(tables) = map.tables(&self.guard) {
                batch.iter().flatten().for_each(|(key, _)| map.ask_usual(tables, *key));
            }
            for entry in &mut batch {
                let Some((key, value)) = entry.take() else {
                    taken.resume();
                    return Ok(());
                };
                map.write(self, key, value, Rule::Always)?;
            }
        }
    }
}
