//! Growth, splits, merges and new roots: tries are never reshaped, only replaced.
//!
//! All are one operation. The old tries are locked, new ones are built beside them (`build.rs`), and then the new ones are
//! linked in and the old ones marked dead. Up to that store readers work in the old tries, whose contents stand still;
//! after it they are sent on. Records stay where they are: old and new tries name the same ones.
//!
//! Everything that can fail (memory) happens before the first store that others can see.
//!
//! PAPER: section 5 leaves resizing to a technique for hash tables, and its program has none.

use core::ops::Range;

use super::build::{BuildError, Plan, Run, can_copy, copy};
use super::deal::{Border, Deal};
use super::free::FreeLines;
use super::layout::{
    BLOCK_BUCKETS, BUCKET_WEIGHT, FULL_WEIGHT, INNER_WEIGHT, MAX_BUCKETS, NoRoom, full_weight,
    larger, lines_for,
};
use super::raw::Trie;
use super::split::{Nodes, middle};
use super::state::ROUND_BITS;
use super::{CuckooTrie, Garbage, Pinned};
use crate::api::Key;
use crate::arch::{Baseline, common_prefix};
use crate::mem::AllocError;
use crate::mem::record::Record;
use crate::prefix;
use crate::sync::version::Locked;

/// How much of 100 a table is taken that is full, by weight. Up to 95 % nearly all insertions find a place; the fuller a
/// table, the more nodes move, and the more of them are in their second bucket.
const FULL_PERCENT: usize = 92;

/// A table that is taken so far is replaced by a thread that would have to wait otherwise, and a trie of nearly its full weight is
/// split: when an eighth more would have come.
const SOON_PERCENT: usize = 89;

/// How many tries are looked at for one that will be full soon.
const LOOK_AHEAD: usize = 128;

/// A table with less of 100 taken is replaced by a smaller one.
const SPARSE_PERCENT: usize = 40;

/// A trie of less weight is merged with a neighbour, if both together have at most `MERGED_WEIGHT`: then it is neither split
/// nor merged again soon.
const FEW_WEIGHT: usize = FULL_WEIGHT / 8;
const MERGED_WEIGHT: usize = FULL_WEIGHT / 2;

/// Bytes of a key in a full label, and more.
const LABEL_BYTES: usize = 8;

/// Lines of the first trie's table.
const FIRST_LINES: u32 = if cfg!(any(shuttle, small_leaves)) { 1 } else { 4 };

/// How often a trie is built from another root because two states were the same: as often as there is another. Twice is once in
/// 100,000 tries of full size; more than that takes keys made for the map's seed.
const ROUNDS: u32 = (1 << ROUND_BITS) - 1;

/// What is wrong with a trie that cannot be built: its keys need more nodes than a table can have.
const TOO_LARGE: AllocError = AllocError { bytes: usize::MAX };

/// The lines of a table that takes the place of one that has no room.
///
/// Three eighths more: growing by less would copy each node more often, by more leave more room unused. Together with the room that a
/// split leaves, a trie is mostly copied once between two splits, or not at all.
fn enlarged(trie: Trie<'_>) -> u32 {
    let lines = trie.lines();
    if lines < BLOCK_BUCKETS {
        2 * lines
    } else {
        (lines * 11 / 8).max(lines + 1).next_multiple_of(BLOCK_BUCKETS).min(MAX_BUCKETS)
    }
}

/// The weight from which a trie is split: where its table is crowded, five sixths of the full one, as a larger table would not last.
fn split_weight(trie: Trie<'_>, is_crowded: bool) -> usize {
    let full = full_weight(trie.hinting());
    if is_crowded { full / 6 * 5 } else { full }
}

impl<V> CuckooTrie<V> {
    /// Whether a trie should be replaced before a key is added.
    #[inline]
    pub(super) fn is_full(trie: Trie<'_>) -> bool {
        Self::is_crowded(trie) || Self::is_too_large(trie, false) || trie.is_worn()
    }

    fn is_crowded(trie: Trie<'_>) -> bool {
        Self::is_taken(trie, FULL_PERCENT)
    }

    fn is_taken(trie: Trie<'_>, percent: usize) -> bool {
        trie.weight() * 100 >= trie.buckets() as usize * BUCKET_WEIGHT * percent
    }

    fn is_too_large(trie: Trie<'_>, is_crowded: bool) -> bool {
        trie.weight() >= split_weight(trie, is_crowded) && trie.keys() >= 2
    }

    /// Makes the first trie of an empty map.
    #[cold]
    pub(super) fn make_first(&self, pinned: &Pinned<'_, V>) -> Result<(), AllocError> {
        let mut writer = self.structure.lock();
        if self.first_trie().is_some() {
            return Ok(());
        }
        let plan = Plan { low: (0, &[]), high: None, round: 0 };
        let mut run = Run::new();
        // A map of some ten keys then has one trie in all its life, and takes one chunk of the arena.
        run.want_lines(FIRST_LINES);
        let trie = self.build(pinned.thread, &run, plan, 0..0)?;
        // The table last: who has written through it finds the trie from the front.
        self.set_first_trie(trie.name());
        self.table.set_first(&mut writer, trie.name());
        drop(writer);
        Ok(())
    }

    /// The borders of a trie as a plan.
    fn plan<'g>(&'g self, trie: Trie<'g>) -> Plan<'g> {
        let borders = trie.borders();
        let high = borders.bounded.then(|| (borders.high, self.memory.border(borders.high)));
        Plan { low: (borders.low, self.memory.border(borders.low)), high, round: trie.round() }
    }

    /// All entries of a locked trie.
    fn run_of(&self, trie: Trie<'_>) -> Result<Run, AllocError> {
        let mut run = Run::new();
        run.push_trie(&self.secret, trie)?;
        run.measure::<V>(&self.memory, trie.skip_bits() as usize / 8);
        Ok(run)
    }

    /// Builds a trie of a part of a run that nobody else can see.
    pub(super) fn build(
        &self,
        thread: usize,
        run: &Run,
        plan: Plan<'_>,
        part: Range<usize>,
    ) -> Result<Trie<'_>, AllocError> {
        self.in_rounds(thread, plan.round, |free, round| {
            let plan = Plan { round, ..plan };
            run.build::<V>(&self.memory, &self.secret, free, &plan, part.clone())
        })
    }

    /// Builds a trie, from another root if two states are the same.
    fn in_rounds<'g>(
        &self,
        thread: usize,
        mut round: u32,
        mut build: impl FnMut(&mut FreeLines, u32) -> Result<Trie<'g>, BuildError>,
    ) -> Result<Trie<'g>, AllocError> {
        let mut free = self.take_free(thread);
        let last_round = round + ROUNDS;
        let built = loop {
            match build(&mut free, round) {
                Err(BuildError::NoRoom(NoRoom::Collision)) if round < last_round => round += 1,
                built => break built,
            }
        };
        self.shards.lock(thread).free.absorb(&mut free);
        built.map_err(|error| match error {
            BuildError::Memory(error) => error,
            BuildError::NoRoom(_) => TOO_LARGE,
        })
    }

    /// Takes the free pieces of a thread along, as others need its shard meanwhile; before that some of others, if there may be too few.
    fn take_free(&self, thread: usize) -> FreeLines {
        let mut shard = self.shards.lock(thread);
        if shard.free.is_short() {
            self.shards.trade(&mut shard, |own, other| own.free.trade(&mut other.free));
        }
        core::mem::take(&mut shard.free)
    }

    /// Gives back a trie that nobody else has seen.
    pub(super) fn discard(&self, thread: usize, trie: Trie<'_>) {
        self.memory.free(&mut self.shards.lock(thread).free, trie.name());
    }

    /// A record for a border.
    pub(super) fn new_border(&self, thread: usize, border: &[u8]) -> Result<u64, AllocError> {
        let units = Record::<()>::units(border.len());
        let unit = self.shards.allocate(thread, &self.memory.records, units)?;
        self.memory.write_border(unit, border);
        Ok(unit)
    }

    /// Replaces a trie that is full ([`is_full`](Self::is_full)), or has refused a key for this reason.
    pub(super) fn make_room(
        &self,
        pinned: &Pinned<'_, V>,
        old: Trie<'_>,
        locked: Locked<'_>,
        key: &[u8],
        refused: Option<NoRoom>,
    ) -> Result<(), AllocError> {
        self.add_shards();
        let (lines, is_crowded) = (old.lines(), Self::is_crowded(old));
        match refused {
            Some(NoRoom::Collision) => {
                let plan = Plan { round: old.round() + 1, ..self.plan(old) };
                return self.rebuild(pinned, old, locked, plan, lines);
            }
            Some(NoRoom::Full) => {}
            None if is_crowded || Self::is_too_large(old, is_crowded) => {}
            None => return self.resize(pinned, old, locked, lines),
        }
        if Self::is_too_large(old, is_crowded) || larger(lines).is_none() {
            return self.split(pinned, old, locked, Some(key));
        }
        // A key that was refused may need as many jumps as it has labels.
        let labels = refused.map_or(0, |_| key.len() / LABEL_BYTES);
        let weight = old.weight() + labels * INNER_WEIGHT;
        let more = enlarged(old).max(lines_for(weight, old.hinting()));
        self.resize(pinned, old, locked, more)
    }

    /// Replaces one of the tries behind another that will be full soon; tells whether it did.
    ///
    /// For a writer who finds his trie being replaced: others come to it within as many calls as there are tries, and all of them would
    /// wait for one.
    #[cold]
    pub(super) fn make_room_ahead(&self, pinned: &Pinned<'_, V>, behind: Trie<'_>) -> bool {
        let mut trie = behind;
        for _ in 0..LOOK_AHEAD {
            let next = trie.next().map(|next| self.memory.trie(next)).or_else(|| self.first_trie());
            let Some(next) = next else { return false };
            trie = next;
            let is_crowded = Self::is_taken(trie, SOON_PERCENT);
            let soon = split_weight(trie, is_crowded) / 16 * 15;
            let is_large = trie.weight() >= soon && trie.keys() >= 2;
            if !is_large && !is_crowded {
                continue;
            }
            let Some(locked) = trie.version().try_lock().filter(|locked| !locked.is_dead()) else {
                continue;
            };
            // Without memory it stays as it is, for now.
            return if is_large || larger(trie.lines()).is_none() {
                self.split(pinned, trie, locked, None).is_ok()
            } else {
                let more = enlarged(trie).max(lines_for(trie.weight(), trie.hinting()));
                self.resize(pinned, trie, locked, more).is_ok()
            };
        }
        false
    }

    /// Replaces a trie by one with a table of so many lines.
    fn resize(
        &self,
        pinned: &Pinned<'_, V>,
        old: Trie<'_>,
        locked: Locked<'_>,
        mut lines: u32,
    ) -> Result<(), AllocError> {
        let plan = self.plan(old);
        while can_copy(old, lines) {
            let mut free = self.take_free(pinned.thread);
            let copied = copy(&self.memory, &mut free, &plan, old, lines);
            self.shards.lock(pinned.thread).free.absorb(&mut free);
            match copied {
                Ok(new) => {
                    self.replace_trie(pinned, old, locked, new, &plan);
                    return Ok(());
                }
                Err(BuildError::Memory(error)) => return Err(error),
                Err(BuildError::NoRoom(_)) => match larger(lines) {
                    Some(more) => lines = more,
                    None => break,
                },
            }
        }
        self.rebuild(pinned, old, locked, plan, lines)
    }

    /// Replaces a trie by one that is built from its records.
    fn rebuild(
        &self,
        pinned: &Pinned<'_, V>,
        old: Trie<'_>,
        locked: Locked<'_>,
        plan: Plan<'_>,
        at_least: u32,
    ) -> Result<(), AllocError> {
        let mut run = self.run_of(old)?;
        run.want_lines(at_least);
        let all = 0..run.entries().len();
        let new = self.build(pinned.thread, &run, plan, all)?;
        self.replace_trie(pinned, old, locked, new, &plan);
        Ok(())
    }

    /// Puts a trie in the place of one with the same borders.
    fn replace_trie(
        &self,
        pinned: &Pinned<'_, V>,
        old: Trie<'_>,
        locked: Locked<'_>,
        new: Trie<'_>,
        plan: &Plan<'_>,
    ) {
        let mut writer = self.structure.lock();
        self.link([(old, locked)], new, new);
        let high = plan.high.map(|high| high.1);
        self.table.replace(&mut writer, plan.low.1, high, old.name(), new.name());
        drop(writer);
        self.retire(pinned, [Garbage::Trie(old.name())]);
    }

    /// Splits a trie in two. If its keys cannot be parted it is split between them and the key that is to come, if there is one.
    fn split(
        &self,
        pinned: &Pinned<'_, V>,
        old: Trie<'_>,
        locked: Locked<'_>,
        key: Option<&[u8]>,
    ) -> Result<(), AllocError> {
        let plan = self.plan(old);
        if plan.high.is_some()
            && let Some(deal) = Deal::of(&self.secret, old)
            && let Some(border) = deal.cut(&plan)
        {
            return self.split_at(pinned, (old, locked), border.anchor(), |plans| {
                self.dealt(pinned, old, &deal, &border, plans)
            });
        }
        let nodes = match self.avx512 {
            Some(kernel) => Nodes::of(kernel, &self.secret, old),
            None => Nodes::of(Baseline, &self.secret, old),
        }?;
        let count = nodes.leaves();
        let last = nodes.last().map(|last| self.memory.key::<V>(last));
        // Where a map grows at its end, what is behind the cut is left to grow.
        let is_behind = |last: Key<'_>| key.is_some_and(|key| *key > *last);
        let at_end = plan.high.is_none() && last.is_some_and(is_behind);
        let window = if at_end { count * 15 / 16..count } else { middle(count) };
        let cut = nodes.cut(window.start.max(1)..window.end).or_else(|| nodes.cut(1..count));
        let Some((cut, behind)) = cut.and_then(|cut| {
            let behind = nodes.first_behind(&cut)?;
            Some((cut, behind))
        }) else {
            return key.map_or(Ok(()), |key| self.split_two(pinned, old, locked, key));
        };
        let anchor = self.memory.key::<V>(behind).start(cut.bytes);
        self.split_at(pinned, (old, locked), &anchor, |plans| {
            let halves = nodes.halves(&cut, plans.map(|plan| plan.skip_bits()));
            let build = |i: usize| {
                self.in_rounds(pinned.thread, plan.round, |free, round| {
                    let plan = Plan { round, ..plans[i] };
                    halves[i].build(&self.memory, free, &plan)
                })
            };
            self.both(pinned.thread, || build(0), || build(1))
        })
    }

    /// Makes both halves of a trie bucket by bucket; or from its keys, if that cannot be.
    fn dealt(
        &self,
        pinned: &Pinned<'_, V>,
        old: Trie<'_>,
        deal: &Deal<'_>,
        border: &Border,
        plans: [Plan<'_>; 2],
    ) -> Result<(Trie<'_>, Trie<'_>), AllocError> {
        let mut free = self.take_free(pinned.thread);
        let built = deal.build(&self.memory, &mut free, &plans, border);
        self.shards.lock(pinned.thread).free.absorb(&mut free);
        if let Some([left, right]) = built? {
            return Ok((left, right));
        }
        let run = self.run_of(old)?;
        let (cut, count, thread) = (border.before, run.entries().len(), pinned.thread);
        let build = |plan, part| self.build(thread, &run, plan, part);
        let [left, right] = plans;
        self.both(thread, || build(left, 0..cut), || build(right, cut..count))
    }

    /// Splits a trie of one key, or of one pair, which shares more with another key than a table holds: each has its own trie.
    #[cold]
    fn split_two(
        &self,
        pinned: &Pinned<'_, V>,
        old: Trie<'_>,
        locked: Locked<'_>,
        key: &[u8],
    ) -> Result<(), AllocError> {
        let thread = pinned.thread;
        let run = self.run_of(old)?;
        let count = run.entries().len();
        let (cut, anchor) = if count > 1 {
            // Who brings the third finds one of them in his way again.
            (1, run.border::<V>(&self.memory, 1))
        } else {
            let there = self.memory.key::<V>(run.entries()[0]);
            let (border, is_above) = (common_prefix(key, &there) + 1, *key > *there);
            let above = if is_above { Key::long(key) } else { there };
            (usize::from(is_above), above.start(border))
        };
        self.split_at(pinned, (old, locked), &anchor, |[left, right]| {
            let build = |plan, part| self.build(thread, &run, plan, part);
            self.both(thread, || build(left, 0..cut), || build(right, cut..count))
        })
    }

    /// Makes two tries, or none.
    fn both<'g>(
        &'g self,
        thread: usize,
        left: impl FnOnce() -> Result<Trie<'g>, AllocError>,
        right: impl FnOnce() -> Result<Trie<'g>, AllocError>,
    ) -> Result<(Trie<'g>, Trie<'g>), AllocError> {
        let left = left()?;
        match right() {
            Ok(right) => Ok((left, right)),
            Err(error) => {
                self.discard(thread, left);
                Err(error)
            }
        }
    }

    /// Puts two tries in the place of one, which `build` makes for these plans: of the keys before the border, and of the
    /// others.
    fn split_at<'g>(
        &'g self,
        pinned: &Pinned<'_, V>,
        (old, locked): (Trie<'_>, Locked<'_>),
        anchor: &[u8],
        build: impl FnOnce([Plan<'_>; 2]) -> Result<(Trie<'g>, Trie<'g>), AllocError>,
    ) -> Result<(), AllocError> {
        let (thread, plan) = (pinned.thread, self.plan(old));
        let border = self.new_border(thread, anchor)?;
        let halves = build([
            Plan { high: Some((border, anchor)), ..plan },
            Plan { low: (border, anchor), ..plan },
        ]);
        let mut writer = self.structure.lock();
        let ready = halves.and_then(|halves| match self.table.reserve(&mut writer, anchor.len()) {
            Ok(piece) => Ok((halves, piece)),
            Err(error) => {
                self.discard(thread, halves.0);
                self.discard(thread, halves.1);
                Err(error)
            }
        });
        let ((left, right), piece) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                drop(writer);
                self.free_record::<()>(thread, border);
                return Err(error);
            }
        };
        self.link([(old, locked)], left, right);
        let anchors = (plan.low.1, anchor, plan.high.map(|high| high.1));
        self.table.split(&mut writer, anchors, old.name(), (left.name(), right.name()));
        drop(writer);
        let piece = piece.map(Garbage::Table);
        self.retire(pinned, [Garbage::Trie(old.name())].into_iter().chain(piece));
        Ok(())
    }

    /// Puts `first ..= last` in the place of the old tries, which are neighbours. From here on nothing can fail.
    ///
    /// The caller holds the structure's lock.
    fn link<const N: usize>(
        &self,
        old: [(Trie<'_>, Locked<'_>); N],
        first: Trie<'_>,
        last: Trie<'_>,
    ) {
        let before = old[0].0.prev();
        let behind = old[N - 1].0.next();
        first.set_prev(before);
        last.set_next(behind);
        if first != last {
            first.set_next(Some(last.name()));
            last.set_prev(Some(first.name()));
        }
        // A writer that passes through one old trie could change the new one while another old trie still answers for
        // the same keys: it waits until all of them are dead. A trie that is alone is passed through by none of its keys.
        let held = (N > 1).then(|| first.version().lock());
        for (trie, locked) in old {
            // The forward reference, then the mark (T1).
            trie.set_next(Some(first.name()));
            locked.retire();
        }
        drop(held);
        match before {
            Some(before) => self.memory.trie(before).set_next(Some(first.name())),
            None => self.set_first_trie(first.name()),
        }
        if let Some(behind) = behind {
            self.memory.trie(behind).set_prev(Some(last.name()));
        }
    }

    /// Links a trie behind the last one of a map that is being loaded. Takes it back if there is no memory.
    pub(super) fn append_trie(
        &self,
        pinned: &Pinned<'_, V>,
        last: Option<Trie<'_>>,
        trie: Trie<'_>,
        low: &[u8],
    ) -> Result<(), AllocError> {
        let mut writer = self.structure.lock();
        let Some(last) = last else {
            self.table.set_first(&mut writer, trie.name());
            self.set_first_trie(trie.name());
            return Ok(());
        };
        let piece = match self.table.reserve(&mut writer, low.len()) {
            Ok(piece) => piece,
            Err(error) => {
                drop(writer);
                self.discard(pinned.thread, trie);
                return Err(error);
            }
        };
        trie.set_prev(Some(last.name()));
        last.set_next(Some(trie.name()));
        let before = self.memory.border(last.borders().low);
        let names = (last.name(), trie.name());
        self.table.split(&mut writer, (before, low, None), last.name(), names);
        drop(writer);
        self.retire(pinned, piece.map(Garbage::Table));
        Ok(())
    }

    /// Replaces a trie from which a key was removed by a smaller one, or merges it with a neighbour, if there is a reason
    /// to. Does nothing if it cannot have the locks, the memory or the neighbour: a later removal tries again.
    pub(super) fn make_smaller(&self, pinned: &Pinned<'_, V>, trie: Trie<'_>, locked: Locked<'_>) {
        let (weight, lines) = (trie.weight(), trie.lines());
        if !Self::is_taken(trie, SPARSE_PERCENT) {
            let smaller = lines_for(weight + weight / 4, trie.hinting());
            if smaller < lines {
                // Without memory it stays as it is.
                let _kept = self.resize(pinned, trie, locked, smaller);
                return;
            }
        }
        let few = weight < FEW_WEIGHT || weight == 0;
        if !few && !trie.is_worn() {
            return;
        }
        if trie.is_worn() {
            let _kept = self.resize(pinned, trie, locked, lines);
            return;
        }
        let fits = |other: Trie<'_>| other.weight() + weight <= MERGED_WEIGHT;
        if let Some(next) = trie.next().map(|next| self.memory.trie(next)) {
            // Locks are taken from left to right, so this one may be waited for.
            if fits(next) {
                let other = next.version().lock();
                let adjacent = trie.next() == Some(next.name()) && !other.is_dead();
                if adjacent && fits(next) {
                    self.merge(pinned, (trie, locked), (next, other));
                    return;
                }
            }
        }
        if let Some(prev) = trie.prev().map(|prev| self.memory.trie(prev))
            && fits(prev)
        {
            // And this one may not.
            let Some(other) = prev.version().try_lock() else { return };
            let adjacent = prev.next() == Some(trie.name()) && !other.is_dead();
            if adjacent && fits(prev) {
                self.merge(pinned, (prev, other), (trie, locked));
            }
        }
    }

    /// Replaces two neighbours by one trie.
    fn merge(
        &self,
        pinned: &Pinned<'_, V>,
        left: (Trie<'_>, Locked<'_>),
        right: (Trie<'_>, Locked<'_>),
    ) {
        let mut run = Run::new();
        let known = [left.0, right.0].map(|trie| run.push_trie(&self.secret, trie));
        if known.into_iter().any(|known| known.is_err()) {
            return;
        }
        run.measure::<V>(&self.memory, 0);
        let gone = right.0.borders().low;
        let plan = Plan { high: self.plan(right.0).high, ..self.plan(left.0) };
        let all = 0..run.entries().len();
        let Ok(merged) = self.build(pinned.thread, &run, plan, all) else { return };
        let names = (left.0.name(), right.0.name());
        let mut writer = self.structure.lock();
        self.link([left, right], merged, merged);
        let anchors = (plan.low.1, self.memory.border(gone), plan.high.map(|high| high.1));
        self.table.merge(&mut writer, anchors, names, merged.name());
        let piece: Option<prefix::Garbage> = self.table.trim(&mut writer);
        drop(writer);
        let garbage = [Garbage::Trie(names.0), Garbage::Trie(names.1), Garbage::Border(gone)];
        self.retire(pinned, garbage.into_iter().chain(piece.map(Garbage::Table)));
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    use shuttle::thread;

    use super::*;
    use crate::api::Options;
    use crate::index::cuckoo_trie::search::leaf_hash;
    use crate::sync::shim::explore;

    /// One trie takes the place of two, and the last key of the second is removed by who comes by way of the first.
    #[test]
    fn shuttle_a_writer_that_passes_through_a_trie_does_not_overtake_its_merge() {
        let scene = || {
            let map = CuckooTrie::<u32>::with_options(Options::new().seed(1));
            let pinned = map.pin();
            let mut last = [0];
            let (left, right) = loop {
                assert!(pinned.insert(&last, 0).is_none());
                let left = map.first_trie().unwrap();
                if let Some(right) = left.next() {
                    break (left, map.memory.trie(right));
                }
                last[0] += 1;
            };
            let [left_lock, right_lock] = [left, right].map(|trie| trie.version().lock());
            let mut run = Run::new();
            for trie in [left, right] {
                run.push_trie(&map.secret, trie).unwrap();
            }
            run.measure::<u32>(&map.memory, 0);
            let plan = Plan { high: None, ..map.plan(left) };
            let merged = map.build(pinned.thread, &run, plan, 0..run.entries().len()).unwrap();
            let names = [left, right, merged].map(Trie::name);
            let found = thread::scope(|scope| {
                scope.spawn(|| {
                    let _writer = map.structure.lock();
                    let [left, right, merged] = names.map(|name| map.memory.trie(name));
                    map.link([(left, left_lock), (right, right_lock)], merged, merged);
                });
                let (trie, mut locked) = map.lock_trie(&last, left);
                let edit = map.edit(trie, &last, true);
                let hash = leaf_hash(map.table.seed().hash(&last));
                let leaf = map.leaf_of(&edit, &last, hash).expect("the key is there");
                locked.change(|| edit.remove(leaf));
                drop(locked);
                pinned.get(&last)
            });
            assert!(found.is_none(), "an old trie has it still");
        };
        // Small, and the writer has to come between two stores.
        explore(2, scene);
    }
}
