//! The insertions that most are, and the answer to most searches for absent keys.
//!
//! An insertion is mostly: a key more in a group, or the first of a new group under a node that has room for its byte.
//!
//! These change two words of one bucket and the kinds, and perhaps as little of one or two more. So nothing is copied: the
//! words are read where they are, the buckets locked at the versions that were read, and the new words stored. What is not so
//! simple, or meets another writer, is left to an [`Edit`](super::edit::Edit), for whom nothing was changed.
//!
//! ```text
//! the key is there                      its bucket: value
//! a group of one or two keys, room      a bucket: key, value, kinds; if that is the second, kinds of the first
//! no group, a node without its byte     the same for the new group, and the node's bucket: byte, count
//! ```
//!
//! That a group has no other keys is known from its buckets, that there is no group from the node alone (T1, T2). All that
//! this rests on is locked, so it is so while the words are stored, and nothing else has to be looked at again.
//!
//! Where nearly all keys are on one level, the node above that is looked at first: it is mostly cached, has
//! a bit for each child, and says by itself that a group is new, while the lines for that are still on the way. Where it has a list of
//! its children, or is further up, what has come is read as elsewhere; groups on other usual levels are asked for beside it.
//!
//! The invariants are those of `edit.rs` (E1, E2) and `layout.rs` (B3, B4). PAPER: none; its table has one thread.

use core::hint::select_unpredictable;

use super::MlpIndex;
use super::edit::lock_as_seen;
use super::insert::{Moved, Outcome, is_counted};
use super::layout::{GROUP, LEVELS, UNITS, byte_of, prefix_of, same_prefix, units_of, word_of};
use super::raw::{Bucket, Home, Segment, Tables};
use super::search::Levels;
use super::words::{Packed, Wide, Words};
use crate::api::Rule;
use crate::arch::prefetch;
use crate::mem::word::Word;
use crate::sync::version::{Locked, Seen};

/// What the pair of buckets of a prefix say of its group.
pub(super) struct Sight {
    /// The versions at which they were looked at; the second not unless somebody may be away there.
    seen: [Option<Seen>; 2],
    /// How many keys the group has.
    keys: usize,
    /// Where the key itself is.
    at: Option<(usize, usize)>,
}

/// A node, where it is and the version there.
pub(super) struct Above<'g> {
    pub(super) level: usize,
    pub(super) home: Home<'g>,
    pub(super) seen: Seen,
    pub(super) node: Packed,
}

impl<'g> Above<'g> {
    /// Its bucket.
    #[inline(always)]
    pub(super) fn bucket(&self) -> &'g Bucket {
        self.home.pair[self.node.at.0]
    }
}

/// Whether the buckets that were looked at are still what they were.
#[inline(always)]
pub(super) fn holds(home: &Home<'_>, seen: [Option<Seen>; 2]) -> bool {
    home.pair.into_iter().zip(seen).all(|(bucket, seen)| {
        seen.is_none_or(|seen| bucket.version.end(seen).is_some_and(|now| !now.is_dead()))
    })
}

/// What `read` makes of a bucket, and its version then; `None` if a writer is in the way.
#[inline(always)]
pub(super) fn look<T>(bucket: &Bucket, read: impl FnOnce(Words<'_>) -> T) -> Option<(T, Seen)> {
    let seen = bucket.version.begin();
    let answer = read(Words::of(bucket));
    let now = bucket.version.end(seen)?;
    (!now.is_changing() && !now.is_dead()).then_some((answer, seen))
}

/// Locks a bucket that is in use, at whatever version.
#[inline(always)]
fn lock(bucket: &Bucket) -> Option<Locked<'_>> {
    bucket.version.try_lock().filter(|lock| !lock.is_dead())
}

impl<V> MlpIndex<V> {
    /// Looks for a group; `None` if a writer is in the way.
    #[inline(always)]
    pub(super) fn sight(home: &Home<'_>, (level, key): (usize, u64)) -> Option<Sight> {
        let (mut keys, mut at) = (0, None);
        let seen = Self::visit(home, (level, key), |n, words, slot| {
            keys += 1;
            if words.number(slot) == key {
                at = Some((n, slot));
            }
        })?;
        Some(Sight { seen, keys, at })
    }

    /// Shows `each` the keys of a group; returns the versions of its buckets, the second not unless somebody may be away there.
    /// `None` if a writer is in the way; what was shown means nothing then.
    #[inline(always)]
    fn visit(
        home: &Home<'_>,
        place: (usize, u64),
        mut each: impl FnMut(usize, Words<'_>, usize),
    ) -> Option<[Option<Seen>; 2]> {
        let mut versions = [None; 2];
        for (n, bucket) in home.pair.into_iter().enumerate() {
            let (may_be_away, seen) = look(bucket, |words| {
                words.under(place, Self::HAS_VALUES, |slot| each(n, words, slot));
                words.kinds.may_be_away(home.hash)
            })?;
            versions[n] = Some(seen);
            if !may_be_away {
                break;
            }
        }
        Some(versions)
    }

    /// The node under the first bytes of a key, of which those before it are known; `None` inside if there is none, outside if
    /// a writer is in the way.
    #[inline(always)]
    #[expect(clippy::option_option, reason = "a writer in the way is not the absence of a node")]
    pub(super) fn node_under(
        home: Home<'_>,
        (level, key): (usize, u64),
    ) -> Option<Option<Above<'_>>> {
        for (at, bucket) in home.pair.into_iter().enumerate() {
            let mut node = Packed::NONE;
            let ((is_found, may_be_away), seen) = look(bucket, |words| {
                let is_found = words.find_node(&mut node, (level, key), at);
                (is_found, words.kinds.may_be_away(home.hash))
            })?;
            if is_found {
                return Some(Some(Above { level, home, seen, node }));
            }
            if !may_be_away {
                break;
            }
        }
        Some(None)
    }

    /// Finds the node above a key, of those of `level` and of smaller ones the deepest; `None` if there is none or a writer is in
    /// the way.
    #[inline(always)]
    pub(super) fn node_above<'g>(
        &self,
        tables: Tables<'g>,
        (level, home): (usize, Home<'g>),
        key: u64,
    ) -> Option<Above<'g>> {
        let (mut level, mut home) = (level, home);
        loop {
            if let Some(above) = Self::node_under(home, (level, key))? {
                return Some(above);
            }
            level = level.checked_sub(1)?;
            home = tables.node(self.hash(level, key));
        }
    }

    /// The deepest node above a key, as far as that is known without a look at unusual levels; as `node_above`.
    #[inline(always)]
    pub(super) fn node_over<'g>(&self, tables: Tables<'g>, key: u64) -> Option<Above<'g>> {
        let found = self.node_above(tables, self.above(tables, key)?, key)?;
        let Levels { first, others } = self.levels();
        if !found.node.leads_to(key) || others >> first == 0 {
            return Some(found);
        }
        // Not a group: so a node on the level of most keys, or further down.
        let level = others.ilog2() as usize - 1;
        self.node_above(tables, (level, tables.node(self.hash(level, key))), key)
    }

    /// Whether a key is absent: its group is there, and it is not in it. `None` if there is no group, or a writer is in the way.
    ///
    /// Takes effect when the last bucket's version was compared; if there were two, neither had changed by then.
    #[inline(always)]
    pub(super) fn is_missing(home: &Home<'_>, place: (usize, u64)) -> Option<bool> {
        let sight = Self::sight(home, place)?;
        if sight.keys == 0 {
            return None;
        }
        // One that was looked at alone has the whole group, and was so when it was looked at.
        let holds = sight.seen[1].is_none() || holds(home, sight.seen);
        holds.then_some(sight.at.is_none())
    }
}

impl<V: Send + Sync> MlpIndex<V> {
    /// Inserts a key if that is simple; else changes nothing.
    #[inline]
    pub(super) fn write_quickly(
        &self,
        tables: Tables<'_>,
        leaf: (u64, Word),
        rule: Rule,
    ) -> Option<Outcome> {
        let (key, _) = leaf;
        if let Rule::Always | Rule::Absent = rule
            && let Some(outcome) = self.write_directly(tables, leaf, rule)
        {
            return outcome;
        }
        let mut homes = [None; LEVELS + 1];
        for level in self.levels() {
            let home = tables.group(self.hash(level, key));
            home.pair.into_iter().for_each(|bucket| prefetch(bucket));
            homes[level] = Some(home);
        }
        let has_many = self.levels().others != 0;
        let above = self.above(tables, key);
        if let Some((_, home)) = above {
            prefetch(home.pair[0]);
            if has_many {
                prefetch(home.pair[1]);
                self.ask_second_above(tables, key);
            }
        }
        for level in self.levels() {
            let Some(home) = homes[level] else { continue };
            let sight = Self::sight(&home, (level, key))?;
            if sight.keys > 0 {
                return self.add_to_group(&home, &sight, level, leaf, rule);
            }
        }
        if let Rule::Same(_) = rule {
            return None;
        }
        let above = self.node_over(tables, key)?;
        self.add_below(tables, &above, &homes, leaf)
    }

    /// The same where nearly all keys are on one level, most of them below a node of three units.
    ///
    /// The node above is mostly cached, and tells of a new group while the lines for that are on the way. `None` if the key is not
    /// there, `None` inside if it is and that is not simple.
    #[inline(always)]
    #[expect(
        clippy::option_option,
        reason = "who has no room here need not be looked for elsewhere"
    )]
    fn write_directly(
        &self,
        tables: Tables<'_>,
        (key, value): (u64, Word),
        rule: Rule,
    ) -> Option<Option<Outcome>> {
        let level = self.dense_level()?;
        let own = tables.group(self.hash(level, key));
        own.pair.into_iter().for_each(|bucket| prefetch(bucket));
        let (prefix, byte) = (prefix_of(key, level - 1), byte_of(key, level - 1));
        let above = tables.node(self.hash(level - 1, prefix));
        above.pair.into_iter().for_each(|bucket| prefetch(bucket));
        if self.levels().others != 0 {
            self.ask_others(tables, key);
        }
        let is_first = Wide::of(above.pair[0]).has_prefix(prefix);
        let bucket = select_unpredictable(is_first, above.pair[0], above.pair[1]);
        let seen = bucket.version.begin();
        let node = Wide::of(bucket);
        if !(node.is_node(level - 1, prefix) && node.branches_at(level - 1)) {
            return self.write_below_others(tables, (level, own, above), (key, value), rule);
        }
        if let Some(words) = node.with_child(byte) {
            let parent = Parent { home: &above, bucket, seen };
            return Some(self.add_group((parent, words.map(Some)), &own, level, (key, value)));
        }
        let sight = Self::sight(&own, (level, key))?;
        if sight.keys == 0 {
            // A node, or it is gone meanwhile.
            return None;
        }
        Some(self.add_to_group(&own, &sight, level, (key, value), rule))
    }

    /// Asks for the groups of a key on the usual levels beside that of most keys, and for the node two levels above that.
    #[inline(always)]
    fn ask_others(&self, tables: Tables<'_>, key: u64) {
        self.ask_second_above(tables, key);
        for level in self.levels().into_iter().skip(1) {
            prefetch(tables.group(self.hash(level, key)).pair[0]);
        }
    }

    /// As [`write_directly`](Self::write_directly), which has asked for the lines, where the node above is of one unit or two, or further up.
    #[inline(never)]
    #[expect(clippy::option_option, reason = "as `write_directly`")]
    fn write_below_others<'g>(
        &self,
        tables: Tables<'g>,
        (level, own, above): (usize, Home<'g>, Home<'g>),
        leaf: (u64, Word),
        rule: Rule,
    ) -> Option<Option<Outcome>> {
        let (key, _) = leaf;
        let above = self.node_above(tables, (level - 1, above), key)?;
        if !above.node.leads_to(key) {
            let mut homes = [None; LEVELS + 1];
            homes[level] = Some(own);
            return Some(self.add_below(tables, &above, &homes, leaf));
        }
        let group = above.node.depth() + 1;
        let home = if group == level { own } else { tables.group(self.hash(group, key)) };
        let sight = Self::sight(&home, (group, key))?;
        if sight.keys == 0 {
            return None;
        }
        Some(self.add_to_group(&home, &sight, group, leaf, rule))
    }

    /// Adds a key to a group that is there, or changes its value.
    #[inline(always)]
    fn add_to_group(
        &self,
        home: &Home<'_>,
        sight: &Sight,
        level: usize,
        (key, value): (u64, Word),
        rule: Rule,
    ) -> Option<Outcome> {
        if let Rule::Same(_) = rule {
            return None;
        }
        if !home.segment.is_open() {
            return None;
        }
        if let Some((n, slot)) = sight.at {
            let Rule::Always = rule else { return None };
            if const { !Self::HAS_VALUES } {
                return None;
            }
            let (bucket, place) = (home.pair[n], slot % UNITS + UNITS);
            let mut lock = lock_as_seen(bucket, sight.seen[n]?)?;
            let old = bucket.slot(place);
            lock.change(|| bucket.store_slot(place, value));
            return Some(Outcome::Replaced(old));
        }
        if sight.keys >= GROUP {
            return None;
        }
        let first = lock_as_seen(home.pair[0], sight.seen[0]?)?;
        let second = match sight.seen[1] {
            Some(seen) => Some(lock_as_seen(home.pair[1], seen)?),
            None => None,
        };
        self.add_leaf(home, (first, second), None, (level, (key, value)))
    }

    /// Adds a key where a node has no child for it: the child's byte, and a group of one.
    #[inline(always)]
    fn add_below(
        &self,
        tables: Tables<'_>,
        above: &Above<'_>,
        homes: &[Option<Home<'_>>; LEVELS + 1],
        (key, value): (u64, Word),
    ) -> Option<Outcome> {
        let (node, depth) = (&above.node, above.node.depth());
        if !same_prefix(node.prefix, key, depth) || node.leads_to(key) {
            return None;
        }
        let count = node.count();
        if units_of(count + 1) > units_of(count) {
            return None;
        }
        let level = depth + 1;
        let leaf_home = homes[level].unwrap_or_else(|| tables.group(self.hash(level, key)));
        let parent = Parent { home: &above.home, bucket: above.bucket(), seen: above.seen };
        self.add_group(
            (parent, node.with_child(byte_of(key, depth))),
            &leaf_home,
            level,
            (key, value),
        )
    }

    /// Adds a group of one key, and its byte to the node above: words for some slots of that.
    #[inline(always)]
    fn add_group(
        &self,
        (above, words): (Parent<'_>, [Option<(usize, u64)>; 2]),
        leaf_home: &Home<'_>,
        level: usize,
        leaf: (u64, Word),
    ) -> Option<Outcome> {
        if !above.home.segment.is_open() || !leaf_home.segment.is_open() {
            return None;
        }
        let parent = (lock_as_seen(above.bucket, above.seen)?, above.bucket, words);
        self.add_leaf(leaf_home, (lock(leaf_home.pair[0])?, None), Some(parent), (level, leaf))
    }

    /// Adds a leaf to buckets of which the first is locked, and maybe the second, together with the words of a node, whose bucket is.
    #[inline(always)]
    fn add_leaf<'g>(
        &self,
        home: &Home<'g>,
        (mut first, second): (Locked<'g>, Option<Locked<'g>>),
        mut parent: Option<Change<'g>>,
        (level, leaf): (usize, (u64, Word)),
    ) -> Option<Outcome> {
        let kinds = home.pair[0].kinds();
        let Some(slot) = kinds.free_slot(Self::HAS_VALUES) else {
            return self.add_leaf_elsewhere(home, (first, second), parent, (level, leaf));
        };
        // Both are announced before one is made.
        first.begin_change();
        if let Some((lock, bucket, words)) = &mut parent {
            lock.begin_change();
            Self::store_words(bucket, words);
            lock.end_change();
        }
        Self::store_leaf(home.pair[0], slot, leaf);
        home.pair[0].store_kinds(kinds.with_leaf(slot, level, Self::HAS_VALUES));
        first.end_change();
        drop((first, second, parent));
        self.count_leaf((home.segment, home.pair[0]), leaf, level);
        Some(Outcome::New)
    }

    /// As `add_leaf`, where the first bucket has no room: in the second, or in the place of a leaf that can move.
    #[inline(never)]
    fn add_leaf_elsewhere<'g>(
        &self,
        home: &Home<'g>,
        (first, second): (Locked<'g>, Option<Locked<'g>>),
        mut parent: Option<Change<'g>>,
        (level, leaf): (usize, (u64, Word)),
    ) -> Option<Outcome> {
        let mut spot = self.spot(home, first, second)?;
        // All are announced before one is made.
        spot.begin_change();
        if let Some((lock, bucket, words)) = &mut parent {
            lock.begin_change();
            Self::store_words(bucket, words);
            lock.end_change();
        }
        Self::store(&spot, home, (level, leaf));
        spot.end_change();
        let filled = spot.moves.as_ref().map_or(home.pair[spot.at.0], |moves| moves.bucket);
        drop((spot, parent));
        self.count_leaf((home.segment, filled), leaf, level);
        Some(Outcome::New)
    }

    /// Finds room for a leaf whose first bucket has none: in its second, or in the place of one that can move.
    #[inline(always)]
    fn spot<'g>(
        &self,
        home: &Home<'g>,
        first: Locked<'g>,
        second: Option<Locked<'g>>,
    ) -> Option<Spot<'g>> {
        let second = match second {
            Some(second) => second,
            None => lock(home.pair[1])?,
        };
        if let Some(slot) = home.pair[1].kinds().free_slot(Self::HAS_VALUES) {
            return Some(Spot { locks: [first, second], at: (1, slot), moves: None });
        }
        let (at, moves) = self.move_of_one(home)?;
        Some(Spot { locks: [first, second], at, moves: Some(moves) })
    }

    /// Finds a leaf in two full buckets, which are locked, whose other bucket has room: where it is, and where it goes.
    #[inline(never)]
    fn move_of_one<'g>(&self, home: &Home<'g>) -> Option<((usize, usize), Move<'g>)> {
        let mut others = [None; 2 * UNITS];
        for (n, other) in others.iter_mut().enumerate() {
            let (at, slot) = (n / UNITS, n % UNITS);
            let words = Words::of(home.pair[at]);
            if words.kinds.is_leaf(slot) {
                let (level, prefix, _) = words.name(slot, Self::HAS_VALUES);
                let place = home.segment.home(self.secret.hash(level, prefix));
                let here = place.which(home.pair[at]);
                prefetch(place.pair[1 - here]);
                *other = Some(((at, slot), place, here));
            }
        }
        for (from, place, here) in others.into_iter().flatten() {
            let bucket = place.pair[1 - here];
            if bucket.kinds().free_slot(Self::HAS_VALUES).is_none() {
                continue;
            }
            let Some(lock) = lock(bucket) else { continue };
            let Some(slot) = bucket.kinds().free_slot(Self::HAS_VALUES) else { continue };
            // That it was away its first bucket says, if nobody has moved it.
            if here == 0 || !bucket.kinds().has_none_away() {
                return Some((
                    from,
                    Move { hash: place.hash, bucket, lock, slot, returns: here == 1 },
                ));
            }
        }
        None
    }

    /// Stores some words of a node.
    #[inline(always)]
    fn store_words(bucket: &Bucket, words: &[Option<(usize, u64)>; 2]) {
        for (place, word) in words.iter().flatten() {
            bucket.store_slot(*place, word_of(*word));
        }
    }

    /// Stores what a leaf is but for its kind.
    #[inline(always)]
    fn store_leaf(bucket: &Bucket, slot: usize, (key, value): (u64, Word)) {
        bucket.store_slot(slot, word_of(key));
        if const { Self::HAS_VALUES } {
            bucket.store_slot(slot + UNITS, value);
        }
    }

    /// Stores a leaf where there is room.
    #[inline(always)]
    fn store(spot: &Spot<'_>, home: &Home<'_>, (level, leaf): (usize, (u64, Word))) {
        let (at, slot) = spot.at;
        let bucket = home.pair[at];
        let mut kinds = bucket.kinds();
        if let Some(moves) = &spot.moves {
            let (old, mut there) = (Words::of(bucket), moves.bucket.kinds());
            moves.bucket.store_slot(moves.slot, old.slot(slot));
            if const { Self::HAS_VALUES } {
                moves.bucket.store_slot(moves.slot + UNITS, old.slot(slot + UNITS));
            }
            there = there.with_leaf(moves.slot, kinds.level(slot), Self::HAS_VALUES);
            if moves.returns {
                // There is one, or it would not have been chosen.
                let _ = there.back();
            } else {
                kinds.sent_away(moves.hash);
            }
            moves.bucket.store_kinds(there);
            kinds = kinds.with_level(slot, level);
        } else {
            kinds = kinds.with_leaf(slot, level, Self::HAS_VALUES);
        }
        Self::store_leaf(bucket, slot, leaf);
        bucket.store_kinds(kinds);
        if at == 1 {
            let first = home.pair[0];
            let mut kinds = first.kinds();
            kinds.sent_away(home.hash);
            first.store_kinds(kinds);
        }
    }

    /// Counts a leaf that has come, and the slots of a bucket that are in use since.
    #[inline(always)]
    fn count_leaf(
        &self,
        (segment, bucket): (&Segment, &Bucket),
        (key, _): (u64, Word),
        level: usize,
    ) {
        segment.count(bucket, 1 + isize::from(Self::HAS_VALUES));
        if is_counted(key) {
            let mut moved = Moved::default();
            moved.add(key, level, 1);
            self.count_levels(&moved);
        }
    }
}

/// A node that gets a child, and its bucket when it was looked at.
struct Parent<'g> {
    home: &'g Home<'g>,
    bucket: &'g Bucket,
    seen: Seen,
}

/// A bucket that is locked, and words for some of its slots.
type Change<'g> = (Locked<'g>, &'g Bucket, [Option<(usize, u64)>; 2]);

/// Room for a leaf that is not in its first bucket.
struct Spot<'g> {
    /// Of both buckets.
    locks: [Locked<'g>; 2],
    /// In the first bucket or the second, and in which slot.
    at: (usize, usize),
    /// Where the leaf goes that is there.
    moves: Option<Move<'g>>,
}

/// Where a leaf moves to make room.
struct Move<'g> {
    hash: u64,
    bucket: &'g Bucket,
    lock: Locked<'g>,
    slot: usize,
    /// Whether that is its first bucket.
    returns: bool,
}

impl Spot<'_> {
    #[inline(always)]
    fn begin_change(&mut self) {
        self.locks.iter_mut().for_each(Locked::begin_change);
        self.moves.as_mut().into_iter().for_each(|moves| moves.lock.begin_change());
    }

    #[inline(always)]
    fn end_change(&mut self) {
        self.locks.iter_mut().for_each(Locked::end_change);
        self.moves.as_mut().into_iter().for_each(|moves| moves.lock.end_change());
    }
}
