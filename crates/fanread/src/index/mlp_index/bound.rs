//! The next key: what is first from a key on, up or down.
//!
//! A bound is mostly in the key's own group, or in the group of the next child of the node above. Where nearly all keys are on one
//! level, and nodes have many children, both are read and one of them is taken (`beside_directly`); which of them it is would be a branch
//! that comes late and cannot be guessed, and whatever was begun behind a wrong guess is thrown away, the next searches' lines with it.
//!
//! ```text
//! the key's own group                 its first key from there on, if there is one
//! the node above, of three units      the next of its bits, and so where the next group is
//! the next child's group              else its first key
//! ```
//!
//! Of each pair of buckets the second is read only if the first says that somebody may be away, but there is no branch on that either:
//! the first is read once more in its place.
//!
//! Else (`beside_quickly`) all three are asked for at once, the third one before it is known: the next byte is often a child's. The search goes down
//! to where the key's path ends, up to the first node with a child behind it, and down to the first key there.
//!
//! The invariants are those of `edit.rs` (E1) and `layout.rs` (B4); what makes the answers right is T1 and T2. PAPER: section 4.2, `Lower_Bound`; its child
//! lists are read from below as here, one after the other.

use core::hint::select_unpredictable;

use super::MlpIndex;
use super::edit::Trail;
use super::layout::{
    SLOTS, UNITS, Way, behind_prefix, byte_of, child_of, leaves_of, number_of, prefix_of,
    same_prefix,
};
use super::quick::{holds, look};
use super::raw::{Bucket, Home, Tables};
use super::search::Levels;
use super::words::{FirstOf, Wide, place_of};
use crate::arch::tagged::Tagged as _;
use crate::arch::{prefetch, prefetch_many};
use crate::mem::word::Word;
use crate::sync::version::{Seen, Version};

/// The first key of a group from a place on.
struct Nearest {
    /// The versions at which its buckets were looked at.
    seen: [Option<Seen>; 2],
    /// The key and its value, if there is one.
    first: Option<(u64, Word)>,
    /// Whether there is any key, so that this is a group.
    is_group: bool,
}

/// The first entry of a group from a place on, by how far it is from there.
#[derive(Clone, Copy)]
struct Near {
    distance: u64,
    value: Word,
    /// How far the first of all is from where the group begins, be it before that place.
    any: u64,
}

/// A bucket that is being read, and its version when that began.
type Reading<'g> = (&'g Version, Seen);

#[inline(always)]
fn begin(bucket: &Bucket) -> Reading<'_> {
    (&bucket.version, bucket.version.begin())
}

impl<V> MlpIndex<V> {
    /// The first entry from `key` on, if nearly all keys are on one level; `None` if it is not so simple, or a writer is in the way.
    ///
    /// Takes effect when the first of the versions is compared, as `beside_quickly`.
    #[inline(always)]
    #[expect(clippy::needless_bitwise_bool, reason = "a lazy one is a branch")]
    pub(super) fn beside_directly<const UP: bool>(
        &self,
        tables: Tables<'_>,
        key: u64,
        included: bool,
    ) -> Option<(u64, Word)> {
        let level = self.dense_level()?;
        let key = match included {
            true => key,
            false if UP => key.checked_add(1)?,
            false => key.checked_sub(1)?,
        };
        let byte = byte_of(key, level - 1);
        let prefix = prefix_of(key, level - 1);
        let above = tables.node(self.hash(level - 1, prefix)).pair;
        for bucket in above {
            prefetch(bucket);
        }
        let own = tables.group(self.hash(level, key));
        own.pair.into_iter().for_each(|bucket| prefetch_many(bucket));
        // The next child, if nodes are dense: asked for before the node is known.
        let likely = child_of(prefix, level - 1, Wide::next::<UP>(byte));
        prefetch_many(tables.group(self.hash(level, likely)).pair[0]);
        // The node above, and which of its children is next.
        let is_first = Wide::of(above[0]).has_prefix(prefix);
        let above = select_unpredictable(is_first, above[0], above[1]);
        let node_read = begin(above);
        let is_node = Wide::of(above).is_node(level - 1, prefix);
        let (is_child, next) = Wide::of(above).child_beside::<UP>(byte)?;
        let next_prefix = child_of(prefix, level - 1, next);
        let beside = tables.group(self.hash(level, next_prefix));
        if const { Self::HAS_VALUES }
            && let Some(kernel) = self.kernel
        {
            // The own group's second bucket has been asked for anyway; the other's is read only if it is needed.
            let [a, b, c] = [own.pair[0], own.pair[1], beside.pair[0]];
            let reads = [node_read, begin(a), begin(b), begin(c)];
            let is_away = c.kinds().may_be_away(beside.hash);
            let d = select_unpredictable(is_away, beside.pair[1], c);
            let last = begin(d);
            let lines = ([a.line(), b.line()], [c.line(), d.line()]);
            let starts = [prefix_of(key, level), next_prefix];
            let first = kernel.first::<UP>(leaves_of(level), lines, starts, key);
            // Of a child without a group there is a node.
            let is_far = is_node & (is_child == (first.any != 0)) & (first.far != 0);
            let is_found = (first.near != 0) | is_far;
            let [node_read, a, b, c] = reads;
            let holds = Version::hold([node_read, a, b, c, last]);
            return (is_found & holds).then_some((first.number, first.partner));
        }
        // Both groups' first entries, counted from where these begin.
        let behind = behind_prefix(level);
        let (start, skipped) =
            if UP { (prefix_of(key, level), key & behind) } else { (key | behind, !key & behind) };
        // Further away than any key. Known to the compiler, it is made in more instructions than it is chosen in.
        let nowhere = core::hint::black_box(u64::MAX);
        let next_start = if UP { next_prefix } else { next_prefix | behind };
        let (near, [a, b]) = Self::near::<UP>(&own, (level, start), skipped, nowhere);
        let (far, [c, d]) = Self::near::<UP>(&beside, (level, next_start), 0, nowhere);
        let is_near = near.distance <= behind - skipped;
        // Of a child without a group there is a node.
        let is_far = is_node & (is_child == (near.any <= behind)) & (far.any <= behind);
        let is_found = select_unpredictable(is_near, true, is_far);
        let distance = select_unpredictable(is_near, near.distance, far.distance);
        let from = select_unpredictable(is_near, key, next_start);
        let value = select_unpredictable(is_near, near.value, far.value);
        let found = if UP { from.wrapping_add(distance) } else { from.wrapping_sub(distance) };
        (is_found & Version::hold([node_read, a, b, c, d])).then_some((found, value))
    }

    /// The first key of a group, counted from `start`, the group's end, of those that are not `skipped`; and what was read for that.
    ///
    /// No branch on which slot has it, and none on whether the second bucket is needed: it is the first again if not.
    #[inline(always)]
    fn near<'g, const UP: bool>(
        home: &Home<'g>,
        (level, start): (usize, u64),
        skipped: u64,
        nowhere: u64,
    ) -> (Near, [Reading<'g>; 2]) {
        let mut near = Near { any: nowhere, distance: nowhere, value: core::ptr::null_mut() };
        let mut read = |bucket: &'g Bucket| {
            let reading = begin(bucket);
            let kinds = bucket.kinds();
            let others = kinds.against_leaves(level);
            for slot in 0..if const { Self::HAS_VALUES } { UNITS } else { SLOTS } {
                let number = number_of(bucket.slot(slot));
                let at = if UP { number.wrapping_sub(start) } else { start.wrapping_sub(number) };
                let at = select_unpredictable(others.byte(slot) == 0, at, nowhere);
                near.any = select_unpredictable(at < near.any, at, near.any);
                // What is skipped, and what is none of the group, is further away than all of it.
                let distance = at.wrapping_sub(skipped);
                let is_nearer = distance < near.distance;
                near.distance = select_unpredictable(is_nearer, distance, near.distance);
                if const { Self::HAS_VALUES } {
                    let value = bucket.slot(slot % UNITS + UNITS);
                    near.value = select_unpredictable(is_nearer, value, near.value);
                }
            }
            (reading, kinds)
        };
        let (first, kinds) = read(home.pair[0]);
        let is_away = kinds.may_be_away(home.hash);
        let (second, _) = read(select_unpredictable(is_away, home.pair[1], home.pair[0]));
        // Chosen here: later, it would be chosen by all the comparisons once more.
        near.value = core::hint::black_box(near.value);
        (near, [first, second])
    }

    /// The first entry from `key` on, or behind it, if there is one; `None` if it is not so simple, or a writer is in the way.
    ///
    /// Takes effect when the first of the versions is compared: all buckets that the answer comes from were so then. These are the
    /// groups and nodes that were found; of what was not found nothing is said, since those say it (T1, T2).
    #[inline(never)]
    #[expect(clippy::option_option, reason = "no answer is not the answer that there is none")]
    pub(super) fn beside_quickly<const UP: bool>(
        &self,
        tables: Tables<'_>,
        key: u64,
        included: bool,
    ) -> Option<Option<(u64, Word)>> {
        let way = const { if UP { Way::Up } else { Way::Down } };
        let Levels { first: most, others } = self.levels();
        let own = tables.group(self.hash(most, key));
        own.pair.into_iter().for_each(|bucket| prefetch(bucket));
        let above = self.above(tables, key)?;
        prefetch(above.1.pair[0]);
        // Where keys lie on many levels nodes are many, and a line more costs less than a wait.
        let has_many = others != 0;
        if has_many {
            prefetch(above.1.pair[1]);
            self.ask_second_above(tables, key);
        }
        // The next child, if nodes are dense: asked for before the node is known.
        let step = 1_u64.checked_shl(64 - 8 * most as u32).unwrap_or(0);
        let likely = if UP { key.wrapping_add(step) } else { key.wrapping_sub(step) };
        prefetch(tables.group(self.hash(most, likely)).pair[0]);
        let has_deeper = others >> most != 0;
        if has_deeper {
            prefetch(tables.node(own.hash).pair[0]);
        }
        let start = place_of::<UP>(key).checked_add(u64::from(!included))?;
        let near = Self::nearest::<UP>(&own, (most, key), start)?;
        if near.first.is_some() {
            // A group has all keys of its prefix, whatever is above it.
            return holds(&own, near.seen).then_some(near.first);
        }
        let mut trail = Trail::new();
        let mut above = self.node_above(tables, above, key)?;
        if near.is_group {
            if above.node.depth() + 1 != most {
                return None;
            }
            trail.note(&own, near.seen);
        } else {
            // To where the path of the key ends: a group all of which is before it, or a node.
            while above.node.leads_to(key) {
                let level = above.node.depth() + 1;
                let home = if level == most { own } else { tables.group(self.hash(level, key)) };
                if level != most {
                    let near = Self::nearest::<UP>(&home, (level, key), start)?;
                    if near.first.is_some() {
                        return holds(&home, near.seen).then_some(near.first);
                    }
                    if near.is_group {
                        trail.note(&home, near.seen);
                        break;
                    }
                }
                above = Self::node_under(tables.node(home.hash), (level, key))??;
            }
        }
        // Up to where there is a child behind the path.
        let next = loop {
            let node = &above.node;
            trail.note_one(above.bucket(), above.seen);
            let next = if same_prefix(node.prefix, key, node.depth()) {
                node.child_from(way, way.behind(byte_of(key, node.depth())))
            } else if way.is_before(key, node.prefix) {
                node.child_from(way, way.before_all())
            } else {
                None
            };
            if let Some(next) = next {
                break next;
            }
            let Some(level) = above.level.checked_sub(1) else {
                return trail.holds().then_some(None);
            };
            let home = tables.node(self.hash(level, key));
            let parent = self.node_above(tables, (level, home), key)?;
            if parent.node.depth() + 1 != above.level {
                return None;
            }
            above = parent;
        };
        // Down to the first key below that child.
        let (mut node, mut next) = (above.node, next);
        loop {
            let (level, prefix) = (node.depth() + 1, child_of(node.prefix, node.depth(), next));
            let home = tables.group(self.hash(level, prefix));
            prefetch(home.pair[0]);
            if has_many {
                prefetch(home.pair[1]);
            }
            if level < most || has_deeper {
                prefetch(tables.node(home.hash).pair[0]);
            }
            let near = Self::nearest::<UP>(&home, (level, prefix), 0)?;
            if near.first.is_some() {
                trail.note(&home, near.seen);
                return trail.holds().then_some(near.first);
            }
            let below = Self::node_under(tables.node(home.hash), (level, prefix))??;
            trail.note_one(below.bucket(), below.seen);
            node = below.node;
            next = node.child_from(way, way.before_all())?;
        }
    }

    /// The first key of a group from a place on.
    #[inline(always)]
    fn nearest<const UP: bool>(
        home: &Home<'_>,
        (level, key): (usize, u64),
        start: u64,
    ) -> Option<Nearest> {
        let (mut versions, mut best, mut is_group) = ([None; 2], FirstOf::new(), false);
        for (seen_at, bucket) in versions.iter_mut().zip(home.pair) {
            let (may_be_away, seen) = look(bucket, |words| {
                is_group |=
                    words.first_under::<UP>((level, key), Self::HAS_VALUES, start, &mut best);
                words.kinds.may_be_away(home.hash)
            })?;
            *seen_at = Some(seen);
            if !may_be_away {
                break;
            }
        }
        Some(Nearest { seen: versions, first: best.entry::<UP>(), is_group })
    }
}

#[cfg(all(test, not(loom), not(shuttle), not(small_leaves), not(miri)))]
mod tests {
    use core::ops::Bound::{Excluded, Included};
    use std::collections::BTreeMap;

    use super::MlpIndex;
    use crate::hash::mix::stream;

    /// Random keys, of which most lie on one level below nodes of many children.
    #[test]
    fn bounds_among_dense_keys_are_those_of_a_btreemap() {
        let map = MlpIndex::new();
        let pinned = map.pin();
        let model: BTreeMap<u64, u64> = (0..20_000).map(|n| (stream(1, n), n)).collect();
        for (key, value) in &model {
            assert!(pinned.insert(*key, *value).is_none());
        }
        assert_eq!(map.dense_level(), Some(2));
        let tables = map.tables(&pinned.guard).unwrap();
        let near = model.keys().flat_map(|key| [key - 1, *key, key + 1]);
        let (mut direct, mut all) = (0, 0);
        for key in near.chain((0..20_000).map(|n| stream(2, n))).chain([0, 1, u64::MAX]) {
            for bound in [Included(key), Excluded(key)] {
                let above = pinned.lower_bound(bound).map(|(key, value)| (key, *value));
                let below = pinned.upper_bound(bound).map(|(key, value)| (key, *value));
                let is_in = |found: &u64| *found != key || bound == Included(key);
                let next = model.range(key..).find(|(found, _)| is_in(found));
                assert_eq!(above, next.map(|(key, value)| (*key, *value)), "from {bound:x?}");
                let last = model.range(..=key).rev().find(|(found, _)| is_in(found));
                assert_eq!(below, last.map(|(key, value)| (*key, *value)), "up to {bound:x?}");
            }
            direct += usize::from(map.beside_directly::<true>(tables, key, true).is_some());
            direct += usize::from(map.beside_directly::<false>(tables, key, false).is_some());
            all += 2;
        }
        assert!(direct * 10 > all * 8, "{direct} of {all}");
    }
}

#[cfg(all(test, shuttle))]
mod scenes {
    use core::ops::Bound::Included;

    use shuttle::thread;

    use super::MlpIndex;
    use crate::api::Options;
    use crate::sync::shim::explore;

    /// A key comes in the bound's own group, and then one in the next group, which was never the next key. `key` makes a key of a
    /// group's number and its own in the group.
    fn own_group_first(groups: u64, key: fn(u64, u64) -> u64, is_direct: bool) {
        let scene = move || {
            let map = MlpIndex::<u32>::with_options(Options::new().seed(1));
            let pinned = map.pin();
            for group in 1..=groups {
                let own = if group == 2 { 8 } else { 1 };
                assert!(pinned.insert(key(group, own), 0).is_none());
            }
            let tables = map.tables(&pinned.guard).unwrap();
            let direct = map.beside_directly::<true>(tables, key(1, 5), true);
            assert_eq!(direct.is_some(), is_direct);
            let next = thread::scope(|scope| {
                scope.spawn(|| {
                    let comes = |key| map.pin().insert(key, 0).is_none();
                    [key(1, 7), key(2, 1)].map(comes)
                });
                pinned.lower_bound(Included(key(1, 5))).map(|(key, _)| key)
            });
            assert!([Some(key(1, 7)), Some(key(2, 8))].contains(&next), "{next:x?}");
        };
        explore(1, scene);
    }

    #[test]
    fn shuttle_a_bound_and_its_own_group_are_of_one_instant() {
        // So many that their bytes before the last are a node.
        own_group_first(5, |group, own| group << 8 | own, false);
    }

    #[test]
    fn shuttle_a_direct_bound_and_its_own_group_are_of_one_instant() {
        // So many that their first bytes are a node of three units.
        own_group_first(24, |group, own| group << 56 | own, true);
    }
}
