//! Splits, merges and growth: leaves are never rewritten, only replaced.
//!
//! All three are one operation. The old leaves are locked, their entries are read in order, new leaves are built
//! beside them, and then the new ones are linked in and the old ones marked dead. Up to that store readers work in
//! the old leaves, whose contents stand still; after it they are sent on.
//!
//! Everything that can fail (memory) happens before the first store that others can see.
//!
//! PAPER: Algorithm 4. Section 2.2's rule for anchors is kept (the shortest string above the left keys), without the
//! prefix condition; of the cuts near the middle the one with the shortest anchor is taken, which the paper leaves
//! as future work.

use super::insert::is_inline_map;
use super::layout::{
    FITS_IN_ANY, FIXED_LINES, INLINE_BYTES, INLINE_PREFIX_BYTES, LINE_WORDS, Meta, PAGE_LINES,
    SLOTS, SORT_TIE, Shape, Size, Slot, Tag, Word, line_behind, order_lines, sort_number,
};
use super::raw::{Leaf, Memory, ShortPrefix};
use super::{Garbage, Pinned, Wormhole};
use crate::api::Key;
use crate::arch;
use crate::list::{Leaf as _, Leaves as _, Limits};
use crate::mem::AllocError;
use crate::mem::record::Record;
use crate::mem::word;
use crate::prefix;
use crate::sync::version::{Locked, Seen};

/// Entries up to which two neighbours become one leaf. Half of a full one: a merged leaf is neither split nor merged
/// again soon.
pub(super) const MERGE_AT: usize = FITS_IN_ANY.div_ceil(2);

/// Which part of a full leaf's entries, either way from the middle, a cut may be off it for a shorter border. Short borders
/// make few nodes, and of the keys behind them few that could be before or behind a border: for those a search asks for two
/// leaves, and is wrong in one case of two. A sixteenth takes them to a third of all searches of random keys, a fifth to
/// one in hundreds; leaves take 3 % more memory at most.
const CUT_REACH: usize = 5;

/// An entry on its way from one leaf to another.
#[derive(Clone, Copy)]
pub(super) struct Entry<'g> {
    /// Orders entries of one leaf; see `sort_number`.
    number: u64,
    word: Word,
    /// The value, of an inline entry.
    value: word::Word,
    /// The prefix of the leaf it comes from.
    prefix: &'g ShortPrefix,
}

/// The borders and size of a leaf to be built.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) limits: Limits<'a>,
    pub(super) size: Size,
}

/// A leaf under construction: lines are filled from their starts.
pub(super) struct Filling<'g> {
    pub(super) leaf: Leaf<'g>,
    pub(super) shape: Shape,
    /// Words in each line so far.
    filled: [u8; PAGE_LINES],
    meta: Meta,
}

impl<'g> Filling<'g> {
    /// Ends the construction: the order of the `count` entries is known.
    pub(super) fn finish(self, order: &[u8; SLOTS], count: usize) -> Leaf<'g> {
        self.leaf.set_order(order, 0, count);
        self.leaf.set_meta(self.meta.with_counts(count, count));
        self.leaf
    }

    /// Puts a word where its tag belongs, or as near as there is a free slot; the leaf has one.
    #[inline]
    pub(super) fn put<V>(&mut self, tag: Tag, word: Word, value: Option<word::Word>) -> Slot {
        let lines = usize::from(self.shape.lines);
        let home = tag.home(lines);
        let (mut line, mut step) = (home, 0);
        while usize::from(self.filled[line]) == LINE_WORDS {
            line = line_behind(line, lines);
            step += 1;
            assert!(step <= lines, "the leaf has a free slot");
        }
        let slot = line * LINE_WORDS + usize::from(self.filled[line]);
        self.filled[line] += 1;
        self.meta = self.meta.with_reach(tag, home, step);
        if let Some(value) = value {
            self.leaf.set_value::<V>(slot, value);
        }
        self.leaf.set_word::<V>(slot, word);
        slot
    }
}

/// What has been made for leaves that are not linked yet.
#[derive(Default)]
pub(super) struct Draft {
    /// Records made of inline entries.
    records: Vec<u64>,
    /// Records whose entries became inline.
    husks: Vec<u64>,
}

impl<V> Wormhole<V> {
    /// The entries of a leaf that does not change (locked), in key order.
    pub(super) fn entries<'g>(&'g self, leaf: Leaf<'g>, prefix: &'g ShortPrefix) -> Vec<Entry<'g>> {
        let meta = leaf.meta();
        let (count, sorted) = (meta.count(), meta.sorted());
        let mut order = [0; SLOTS];
        let listed = leaf.list::<V>(sorted, &mut order);
        debug_assert_eq!(listed, count);
        let order = &order[..count];
        let prefix_bytes = leaf.header().prefix_bytes();
        let word = |slot: u8| leaf.word::<V>(usize::from(slot));
        for slot in order {
            self.prefetch_entry(word(*slot));
        }
        let entries: Vec<Entry<'g>> = order
            .iter()
            .map(|slot| {
                let word = word(*slot);
                let (number, value) = match word.record() {
                    Some(unit) => {
                        let key = self.memory.record::<V>(unit).key();
                        (sort_number(key, prefix_bytes), core::ptr::null_mut())
                    }
                    None => (word.sort_number(), leaf.value::<V>(usize::from(*slot))),
                };
                Entry { number, word, value, prefix }
            })
            .collect();
        if sorted == count {
            return entries;
        }
        // The run at the start is in order: sort what came after it, and merge.
        let mut late: Vec<(u64, u8)> =
            (sorted..count).map(|at| (entries[at].number, at as u8)).collect();
        late.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0)
                .then_with(|| self.compare(&entries[usize::from(a.1)], &entries[usize::from(b.1)]))
        });
        let mut merged = Vec::with_capacity(count);
        let mut run = entries[..sorted].iter();
        for (_, at) in late {
            let entry = &entries[usize::from(at)];
            while let Some(next) = run.as_slice().first()
                && self.compare(next, entry).is_lt()
            {
                merged.push(*next);
                run.next();
            }
            merged.push(*entry);
        }
        merged.extend_from_slice(run.as_slice());
        merged
    }

    /// Orders two entries of one leaf.
    #[inline]
    fn compare(&self, a: &Entry<'_>, b: &Entry<'_>) -> core::cmp::Ordering {
        a.number.cmp(&b.number).then_with(|| {
            if a.number & 0xff == SORT_TIE {
                self.key(a).cmp(&self.key(b))
            } else {
                core::cmp::Ordering::Equal
            }
        })
    }

    /// The key of an entry.
    fn key<'g>(&'g self, entry: &Entry<'g>) -> Key<'g> {
        self.key_of(entry.prefix, entry.word)
    }

    /// Builds a leaf that nobody else can see. What it had to make is noted in `draft`.
    pub(super) fn draft_leaf(
        &self,
        thread: usize,
        entries: &[Entry<'_>],
        plan: Plan<'_>,
        draft: &mut Draft,
    ) -> Result<Leaf<'_>, AllocError> {
        let prefix_bytes = plan.limits.prefix_bytes();
        let short = |entry: &&Entry<'_>| match entry.word.record() {
            Some(unit) => self.memory.record::<V>(unit).key().len() <= prefix_bytes + INLINE_BYTES,
            None => entry.prefix.key_bytes(entry.word) <= prefix_bytes + INLINE_BYTES,
        };
        let mut filling = self.start_leaf(thread, plan, || {
            2 * entries.iter().filter(short).count() >= entries.len()
        })?;
        let mut order = [0; SLOTS];
        for (place, entry) in order.iter_mut().zip(entries) {
            match self.place_entry(thread, &mut filling, entry, draft) {
                Ok(slot) => *place = slot as u8,
                Err(error) => {
                    self.discard_leaf(thread, filling.leaf);
                    return Err(error);
                }
            }
        }
        Ok(filling.finish(&order, entries.len()))
    }

    /// Starts a leaf that nobody else can see. `mostly_short` says whether half of the keys have at most 7 bytes behind
    /// the prefix: then an inline leaf takes less memory than records do.
    pub(super) fn start_leaf<'g>(
        &'g self,
        thread: usize,
        plan: Plan<'_>,
        mostly_short: impl FnOnce() -> bool,
    ) -> Result<Filling<'g>, AllocError> {
        let prefix_bytes = plan.limits.prefix_bytes();
        let inline = is_inline_map::<V>() && prefix_bytes <= INLINE_PREFIX_BYTES && mostly_short();
        let has_values = inline && Leaf::has_values::<V>();
        let lines = plan.size.lines(has_values);
        let value_lines = if has_values { lines } else { 0 };
        let shape = Shape {
            lines: lines as u8,
            inline,
            all_lines: (FIXED_LINES + lines + value_lines + order_lines(lines)) as u8,
        };
        let name = self.new_leaf(thread, shape)?;
        let leaf = self.memory.format(name, shape, plan.limits);
        Ok(Filling { leaf, shape, filled: [0; PAGE_LINES], meta: Meta::default() })
    }

    /// Puts an entry into a leaf under construction, in the form it has there (L4).
    fn place_entry(
        &self,
        thread: usize,
        filling: &mut Filling<'_>,
        entry: &Entry<'_>,
        draft: &mut Draft,
    ) -> Result<Slot, AllocError> {
        let at = filling.leaf.header().prefix_bytes();
        let inline = filling.shape.inline;
        Ok(match entry.word.record() {
            Some(unit) => {
                let tag = entry.word.tag();
                if inline {
                    let record = self.memory.record::<V>(unit);
                    if let Some(word) = Word::of_inline(&record.key()[at..]) {
                        draft.husks.push(unit);
                        return Ok(filling.put::<V>(tag, word, Some(record.word())));
                    }
                }
                filling.put::<V>(tag, entry.word, None)
            }
            None => {
                let key = entry.prefix.key(entry.word);
                let tag = Tag::of(self.seed().hash(&key));
                if inline && let Some(word) = Word::of_inline(&key[at..]) {
                    return Ok(filling.put::<V>(tag, word, Some(entry.value)));
                }
                let units = Record::<V>::units(key.len());
                let unit = self.shards.allocate(thread, &self.memory.records, units)?;
                self.memory.write_record_word::<V>(unit, &key, entry.value);
                draft.records.push(unit);
                filling.put::<V>(tag, Word::of_record(tag, unit, units), None)
            }
        })
    }

    /// Units for a leaf.
    fn new_leaf(&self, thread: usize, shape: Shape) -> Result<prefix::LeafRef, AllocError> {
        let lines = usize::from(shape.all_lines);
        let mut shard = self.shards.lock(thread);
        self.shards.trade_free(&mut shard, |free| free.has(lines));
        let unit = match shard.free.take(lines) {
            Some(unit) => unit,
            None => self.memory.leaves.grow_in_page(lines as u64)?,
        };
        let bytes = lines * crate::mem::LINE_BYTES;
        Memory::name(unit, shape.inline).ok_or(AllocError { bytes })
    }

    /// Gives back a leaf that nobody else has seen.
    pub(super) fn discard_leaf(&self, thread: usize, leaf: Leaf<'_>) {
        let lines = usize::from(leaf.header().shape.all_lines);
        self.shards.lock(thread).free.put(lines, Memory::unit(leaf.name()));
    }

    /// Gives back records that nobody else has seen. Their values live on in the leaves they were copied from.
    fn discard_records(&self, thread: usize, records: Vec<u64>) {
        let mut shard = self.shards.lock(thread);
        for unit in records {
            let units = self.record_units(unit);
            shard.heap.free(&self.memory.records, unit, units);
        }
    }

    /// A record for a border.
    pub(super) fn new_border(&self, thread: usize, border: &[u8]) -> Result<u64, AllocError> {
        let units = Record::<()>::units(border.len());
        let unit = self.shards.allocate(thread, &self.memory.records, units)?;
        self.memory.write_border(unit, border);
        Ok(unit)
    }

    fn discard_border(&self, thread: usize, unit: u64) {
        let units = Record::<()>::units(self.memory.border(unit).len());
        self.shards.lock(thread).heap.free(&self.memory.records, unit, units);
    }

    /// Makes room in a full leaf: it grows as far as it can, and is split then. `key` is what is to be inserted.
    pub(super) fn make_room(
        &self,
        pinned: &Pinned<'_, V>,
        leaf: Leaf<'_>,
        locked: Locked<'_>,
        key: &[u8],
    ) -> Result<(), AllocError> {
        self.add_shards();
        if leaf.lines() < Size::Large.lines(false) {
            self.grow_leaf(pinned, leaf, locked)
        } else {
            self.split(pinned, leaf, locked, key)
        }
    }

    /// Replaces a leaf by a larger one.
    fn grow_leaf(
        &self,
        pinned: &Pinned<'_, V>,
        old: Leaf<'_>,
        locked: Locked<'_>,
    ) -> Result<(), AllocError> {
        let prefix = old.short_prefix();
        let entries = self.entries(old, &prefix);
        let size = Size::for_entries(entries.len() + 1);
        let plan = Plan { limits: self.memory.limits(old), size };
        let mut draft = Draft::default();
        let new = match self.draft_leaf(pinned.thread, &entries, plan, &mut draft) {
            Ok(new) => new,
            Err(error) => {
                self.discard_records(pinned.thread, draft.records);
                return Err(error);
            }
        };
        self.list.renew(&self.memory, (old, locked), new);
        self.retire_leaves(pinned, &[old], draft, None, None);
        Ok(())
    }

    /// Splits a full leaf in two.
    fn split(
        &self,
        pinned: &Pinned<'_, V>,
        old: Leaf<'_>,
        locked: Locked<'_>,
        key: &[u8],
    ) -> Result<(), AllocError> {
        let thread = pinned.thread;
        let prefix = old.short_prefix();
        let entries = self.entries(old, &prefix);
        let limits = self.memory.limits(old);
        let cut = self.cut(&entries, limits.high.is_none(), key);
        let above = self.key(&entries[cut]);
        let common = arch::common_prefix(&self.key(&entries[cut - 1]), &above);
        let anchor = &above[..=common];
        let border = self.new_border(thread, anchor)?;
        let mut draft = Draft::default();
        let mut halves = || {
            let plan = |limits| Plan { limits, size: Size::Large };
            let left = plan(Limits { high: Some((border, anchor)), ..limits });
            let right = plan(Limits { low: (border, anchor), ..limits });
            let left = self.draft_leaf(thread, &entries[..cut], left, &mut draft)?;
            match self.draft_leaf(thread, &entries[cut..], right, &mut draft) {
                Ok(right) => Ok((left, right)),
                Err(error) => {
                    self.discard_leaf(thread, left);
                    Err(error)
                }
            }
        };
        let piece = halves().and_then(|(left, right)| {
            self.list.split(&self.memory, (old, locked), (left, right)).inspect_err(|_| {
                self.discard_leaf(thread, left);
                self.discard_leaf(thread, right);
            })
        });
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                self.discard_records(thread, draft.records);
                self.discard_border(thread, border);
                return Err(error);
            }
        };
        self.retire_leaves(pinned, &[old], draft, None, piece);
        Ok(())
    }

    /// Where to cut a full leaf: near the middle, where the separating border is shortest; at the end if the map
    /// grows there.
    fn cut(&self, entries: &[Entry<'_>], last_leaf: bool, key: &[u8]) -> usize {
        let count = entries.len();
        if last_leaf && *key > *self.key(&entries[count - 1]) {
            // No more than fit if the left half has another form than the leaf.
            return FITS_IN_ANY.min(count - 1);
        }
        let reach = count / CUT_REACH;
        let from_middle = |at: usize| at.abs_diff(count / 2);
        let common = |at: usize| {
            let (a, b) = (&entries[at - 1], &entries[at]);
            let differ = (a.number ^ b.number) >> 8;
            // Numbers tell up to seven bytes behind the prefix.
            if differ != 0 {
                (differ.leading_zeros() as usize - 8) / 8
            } else {
                arch::common_prefix(&self.key(a), &self.key(b)).max(INLINE_BYTES)
            }
        };
        (count / 2 - reach..=count / 2 + reach)
            .min_by_key(|at| (common(*at), from_middle(*at)))
            .unwrap_or(count / 2)
    }

    /// Hands replaced leaves to the limbo, with all that only they needed.
    fn retire_leaves(
        &self,
        pinned: &Pinned<'_, V>,
        old: &[Leaf<'_>],
        draft: Draft,
        border: Option<u64>,
        piece: Option<prefix::Garbage>,
    ) {
        let leaves = old
            .iter()
            .map(|leaf| Garbage::Leaf(leaf.header().shape.all_lines, Memory::unit(leaf.name())));
        let husks = draft.husks.into_iter().map(Garbage::Husk);
        let border = border.map(Garbage::Border);
        let piece = piece.map(Garbage::Table);
        self.retire(pinned, leaves.chain(husks).chain(border).chain(piece));
    }

    /// Merges a leaf from which an entry was removed with a neighbour, if both are small enough. Does nothing if it
    /// cannot have the locks, the memory or the neighbour: a later removal tries again.
    pub(super) fn try_merge(&self, pinned: &Pinned<'_, V>, leaf: Leaf<'_>, locked: Locked<'_>) {
        let count = leaf.meta().count();
        // The last leaf waits for the keys to come, though it is empty: with what it was split from it would soon be full, and be
        // split there again.
        let fills = count == 0 && leaf.header().bounded;
        let fits = |other: usize| other + count <= MERGE_AT || (fills && other < FITS_IN_ANY);
        if let Some(next) = leaf.header().next().map(|next| self.memory.leaf(next)) {
            // Locks are taken from left to right, so this one may be waited for.
            if fits(next.meta().count()) {
                let other = next.header().version.lock();
                let adjacent = leaf.header().next() == Some(next.name()) && !other.is_dead();
                if adjacent && fits(next.meta().count()) {
                    self.merge(pinned, (leaf, locked), (next, other));
                    return;
                }
            }
        }
        if let Some(prev) = leaf.header().prev().map(|prev| self.memory.leaf(prev))
            && fits(prev.meta().count())
        {
            // And this one may not.
            let Some(other) = prev.header().version.try_lock() else { return };
            let adjacent = prev.header().next() == Some(leaf.name()) && !other.is_dead();
            if adjacent && fits(prev.meta().count()) {
                self.merge(pinned, (prev, other), (leaf, locked));
            }
        }
    }

    /// Replaces two neighbours by one leaf.
    fn merge(
        &self,
        pinned: &Pinned<'_, V>,
        left: (Leaf<'_>, Locked<'_>),
        right: (Leaf<'_>, Locked<'_>),
    ) {
        let prefixes = (left.0.short_prefix(), right.0.short_prefix());
        let mut entries = self.entries(left.0, &prefixes.0);
        entries.extend(self.entries(right.0, &prefixes.1));
        let gone = right.0.border().low;
        let size = Size::for_entries(entries.len());
        let limits =
            Limits { high: self.memory.limits(right.0).high, ..self.memory.limits(left.0) };
        let plan = Plan { limits, size };
        let mut draft = Draft::default();
        let Ok(merged) = self.draft_leaf(pinned.thread, &entries, plan, &mut draft) else {
            self.discard_records(pinned.thread, draft.records);
            return;
        };
        let old = [left.0, right.0];
        let piece = self.list.merge(&self.memory, left, right, merged);
        self.retire_leaves(pinned, &old, draft, Some(gone), piece);
    }

    /// Marks a leaf's order as sorted, for scans to come, if its lock is free and nothing changed since `seen`; returns
    /// the version then.
    pub(super) fn offer_order(leaf: Leaf<'_>, seen: Seen, order: &[u8]) -> Option<Seen> {
        let mut locked = leaf.header().version.try_lock()?;
        let meta = leaf.meta();
        if locked.is_dead() || !locked.seen().same_changes(seen) || meta.count() != order.len() {
            return None;
        }
        let mut line = [0; SLOTS];
        line[..order.len()].copy_from_slice(order);
        locked.begin_change();
        leaf.set_order(&line, 0, order.len());
        leaf.set_meta(meta.with_counts(order.len(), order.len()));
        locked.end_change();
        Some(locked.seen())
    }
}

const _: () = assert!(LINE_WORDS * PAGE_LINES == SLOTS && MERGE_AT <= FITS_IN_ANY);

#[cfg(all(test, shuttle))]
mod tests {
    use shuttle::thread;

    use super::*;
    use crate::api::Options;
    use crate::sync::shim::explore;

    /// Makes three leaves of two entries, three, and two; returns the keys.
    fn three_leaves(map: &Wormhole<u32>) -> Vec<Vec<u8>> {
        let pinned = map.pin();
        let mut leaves = Vec::new();
        for key in 0_u8.. {
            assert!(pinned.insert(&[key], 0).is_none());
            let behind = |leaf: &Leaf<'_>| leaf.header().next().map(|next| map.memory.leaf(next));
            leaves = core::iter::successors(map.list.first(&map.memory), behind).collect();
            if leaves.len() == 3 && leaves[2].meta().count() == 3 {
                break;
            }
        }
        for (at, count) in [(0, 3), (1, 3), (0, 2), (2, 2)] {
            while leaves[at].meta().count() > count {
                let prefix = leaves[at].short_prefix();
                let key = map.key(&map.entries(leaves[at], &prefix)[0]);
                assert!(pinned.remove(&key).is_some());
            }
        }
        assert!(leaves.iter().map(|leaf| leaf.meta().count()).eq([2, 3, 2]));
        pinned.iter().map(|(key, _)| key.to_vec()).collect()
    }

    /// With a key less the first fits with the second; with a key less that fits with the third.
    #[test]
    fn shuttle_a_leaf_is_not_merged_with_one_that_was_merged_meanwhile() {
        let scene = || {
            let map = Wormhole::<u32>::with_options(Options::new().seed(1));
            let mut keys = three_leaves(&map);
            let (first, second) = (keys.remove(0), keys.remove(1));
            let pinned = map.pin();
            thread::scope(|scope| {
                scope.spawn(|| map.pin().remove(&first).is_some());
                pinned.remove(&second).is_some()
            });
            pinned.check().unwrap();
            assert!(pinned.iter().map(|(key, _)| key.to_vec()).eq(keys));
        };
        explore(1, scene);
    }
}
