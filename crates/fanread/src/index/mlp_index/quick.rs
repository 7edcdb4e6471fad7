//! The insertions that most are, and the answer to most searches for what is not there.
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
//! The invariants are those of `edit.rs` (E1, E2) and `layout.rs` (B3, B4). PAPER: none; its table has one thread.

use core::sync::atomic::Ordering::Relaxed;

use super::MlpIndex;
use super::edit::lock_as_seen;
use super::insert::{Moved, Outcome};
use super::layout::{GROUP, LEVELS, UNITS, byte_of, same_prefix, units_of, word_of};
use super::raw::{Bucket, Home, Tables};
use super::search::Levels;
use super::words::{Packed, Words};
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

/// What `read` makes of a bucket, and its version then; `None` if a writer is in the way.
#[inline(always)]
fn look<T>(bucket: &Bucket, read: impl FnOnce(Words<'_>) -> T) -> Option<(T, Seen)> {
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
        let mut sight = Sight { seen: [None; 2], keys: 0, at: None };
        for (n, bucket) in home.pair.into_iter().enumerate() {
            let (may_be_away, seen) = look(bucket, |words| {
                words.under((level, key), Self::HAS_VALUES, |slot| {
                    sight.keys += 1;
                    if words.number(slot) == key {
                        sight.at = Some((n, slot));
                    }
                });
                words.kinds.may_be_away(home.hash)
            })?;
            sight.seen[n] = Some(seen);
            if !may_be_away {
                break;
            }
        }
        Some(sight)
    }

    /// Finds the node above a key, of those of `level` and of smaller ones the deepest, with its level, where it is and the
    /// version there; `None` if there is none or a writer is in the way.
    #[inline(always)]
    pub(super) fn node_above<'g>(
        &self,
        tables: Tables<'g>,
        (level, home): (usize, Home<'g>),
        key: u64,
    ) -> Option<(Home<'g>, Seen, Packed)> {
        let (mut level, mut home) = (level, home);
        loop {
            for (at, bucket) in home.pair.into_iter().enumerate() {
                let mut node = Packed::NONE;
                let ((is_found, may_be_away), seen) = look(bucket, |words| {
                    let is_found = words.find_node(&mut node, (level, key), at);
                    (is_found, words.kinds.may_be_away(home.hash))
                })?;
                if is_found {
                    return Some((home, seen, node));
                }
                if !may_be_away {
                    break;
                }
            }
            level = level.checked_sub(1)?;
            home = tables.node(self.hash(level, key));
        }
    }

    /// Whether a key is surely absent: because its group is there without it, or a node that does not lead to it. Else it may
    /// be there, or a writer is in the way.
    ///
    /// Takes effect when the last bucket's version was compared; if there were two, neither had changed by then.
    #[inline]
    pub(super) fn is_surely_absent(
        &self,
        tables: Tables<'_>,
        key: u64,
        asked: &[Option<(usize, Home<'_>)>],
        above: Option<(usize, Home<'_>)>,
    ) -> bool {
        for (level, home) in asked.iter().map_while(|asked| asked.as_ref()) {
            let Some(sight) = Self::sight(home, (*level, key)) else { return false };
            if sight.keys > 0 {
                // One that was looked at alone has the whole group, and was so when it was looked at.
                let holds = match sight.seen {
                    [Some(first), Some(_)] => {
                        let now = home.pair[0].version.end(first);
                        now.is_some_and(|now| !now.is_dead())
                    }
                    _ => true,
                };
                return holds && sight.at.is_none();
            }
        }
        let Some(above) = above else { return false };
        let node = self.node_above(tables, above, key);
        node.is_some_and(|(_, _, node)| !node.leads_to(key))
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
        let usual = self.usual.load(Relaxed);
        let mut homes = [None; LEVELS + 1];
        for level in Levels(usual) {
            let home = tables.group(self.hash(level, key));
            home.pair.into_iter().for_each(|bucket| prefetch(bucket));
            homes[level] = Some(home);
        }
        let above = self.above(tables, usual, key);
        if let Some((_, home)) = above {
            prefetch(home.pair[0]);
        }
        for level in Levels(usual) {
            let Some(home) = homes[level] else { continue };
            let sight = Self::sight(&home, (level, key))?;
            if sight.keys > 0 {
                return self.add_to_group(&home, &sight, level, leaf, rule);
            }
        }
        if let Rule::Same(_) = rule {
            return None;
        }
        let (home, seen, node) = self.node_above(tables, above?, key)?;
        self.add_below(tables, (&home, seen), &node, &homes, leaf)
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
        let mut spot = self.spot(*home, first, second)?;
        spot.begin_change();
        Self::store(&spot, level, (key, value));
        spot.end_change();
        drop(spot);
        self.count_new(key, level);
        Some(Outcome::New)
    }

    /// Adds a key where a node has no child for it: the child's byte, and a group of one.
    #[inline(always)]
    fn add_below(
        &self,
        tables: Tables<'_>,
        (home, seen): (&Home<'_>, Seen),
        node: &Packed,
        homes: &[Option<Home<'_>>; LEVELS + 1],
        (key, value): (u64, Word),
    ) -> Option<Outcome> {
        let depth = node.depth();
        if !same_prefix(node.prefix, key, depth) || node.leads_to(key) {
            return None;
        }
        let count = node.count();
        if units_of(count + 1) > units_of(count) {
            return None;
        }
        let level = depth + 1;
        let leaf_home = homes[level].unwrap_or_else(|| tables.group(self.hash(level, key)));
        if !home.segment.is_open() || !leaf_home.segment.is_open() {
            return None;
        }
        let bucket = home.pair[node.at.0];
        let mut parent = lock_as_seen(bucket, seen)?;
        let mut spot = self.spot(leaf_home, lock(leaf_home.pair[0])?, None)?;
        // Both are announced before one is made.
        parent.begin_change();
        spot.begin_change();
        for (place, word) in node.with_child(byte_of(key, depth)).into_iter().flatten() {
            bucket.store_slot(place, word_of(word));
        }
        Self::store(&spot, level, (key, value));
        parent.end_change();
        spot.end_change();
        drop((parent, spot));
        self.count_new(key, level);
        Some(Outcome::New)
    }

    /// Finds room for a leaf in its first bucket, in its second, or in the place of one that can move.
    #[inline(always)]
    fn spot<'g>(
        &self,
        home: Home<'g>,
        first: Locked<'g>,
        second: Option<Locked<'g>>,
    ) -> Option<Spot<'g>> {
        if let Some(slot) = home.pair[0].kinds().free_slot(Self::HAS_VALUES) {
            return Some(Spot { home, first, second: None, at: (0, slot), moves: None });
        }
        let second = match second {
            Some(second) => second,
            None => lock(home.pair[1])?,
        };
        if let Some(slot) = home.pair[1].kinds().free_slot(Self::HAS_VALUES) {
            return Some(Spot { home, first, second: Some(second), at: (1, slot), moves: None });
        }
        let (at, moves) = self.move_of_one(&home)?;
        Some(Spot { home, first, second: Some(second), at, moves: Some(moves) })
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

    /// Stores a leaf where there is room.
    #[inline(always)]
    fn store(spot: &Spot<'_>, level: usize, (key, value): (u64, Word)) {
        let (at, slot) = spot.at;
        let bucket = spot.home.pair[at];
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
        bucket.store_slot(slot, word_of(key));
        if const { Self::HAS_VALUES } {
            bucket.store_slot(slot + UNITS, value);
        }
        bucket.store_kinds(kinds);
        if at == 1 {
            let first = spot.home.pair[0];
            let mut kinds = first.kinds();
            kinds.sent_away(spot.home.hash);
            first.store_kinds(kinds);
        }
        spot.home.segment.count(1 + isize::from(Self::HAS_VALUES));
    }

    /// Counts a key that has come.
    #[inline(always)]
    fn count_new(&self, key: u64, level: usize) {
        let mut moved = Moved::default();
        moved.add(key, level, 1);
        self.count_levels(&moved);
    }
}

/// Room for a leaf.
struct Spot<'g> {
    home: Home<'g>,
    first: Locked<'g>,
    /// Unless the first has room.
    second: Option<Locked<'g>>,
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
        self.first.begin_change();
        self.second.as_mut().into_iter().for_each(Locked::begin_change);
        self.moves.as_mut().into_iter().for_each(|moves| moves.lock.begin_change());
    }

    #[inline(always)]
    fn end_change(&mut self) {
        self.first.end_change();
        self.second.as_mut().into_iter().for_each(Locked::end_change);
        self.moves.as_mut().into_iter().for_each(|moves| moves.lock.end_change());
    }
}
