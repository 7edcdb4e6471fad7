//! Verifies the invariants of a map at rest.

use std::collections::{BTreeSet, HashMap};

use super::edit::{Again, View};
use super::layout::{
    Entry, GROUP, Image, Kind, LEVELS, Node, SLOTS, UNITS, child_of, prefix_of, same_prefix,
};
use super::raw::{Bucket, Table, Tables};
use super::search::What;
use super::words::Words;
use super::{MlpIndex, Pinned};
use crate::api::Broken;

/// A look at buckets that nobody changes.
struct AtRest;

impl<'g> View<'g> for AtRest {
    fn look<T>(
        &mut self,
        bucket: &'g Bucket,
        mut read: impl FnMut(Words<'_>) -> T,
    ) -> Result<T, Again> {
        Ok(read(Words::of(bucket)))
    }
}

impl<V> Pinned<'_, V> {
    /// Verifies the structure of the map, which no other thread is writing to.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        let Some(tables) = self.map.tables(&self.guard) else { return Ok(()) };
        let stored = self.map.check_buckets(tables, Table::Leaves)?
            + self.map.check_buckets(tables, Table::Nodes)?;
        let mut reached = 0;
        let root = self.map.entry_at(tables, &mut AtRest, 0, 0);
        if root.is_ok_and(|root| root.what != What::Nothing) {
            self.map.check_below(tables, (0, 0), &mut reached)?;
        }
        if reached != stored {
            return Err(Broken::new("T1", format!("{stored} entries, {reached} of them reached")));
        }
        let keys = self.iter().count();
        if keys != self.len() {
            return Err(Broken::new("T1", format!("{keys} keys, {} counted", self.len())));
        }
        Ok(())
    }
}

impl<V> MlpIndex<V> {
    /// Checks what can be said of buckets alone: B1 to B4, S1, S2. Returns how many entries there are.
    fn check_buckets(&self, tables: Tables<'_>, table: Table) -> Result<usize, Broken> {
        let (mut entries, mut keys) = (0, BTreeSet::new());
        for segment in tables.of(table).all() {
            let (mut used, mut away) = (0, HashMap::<_, u64>::new());
            for bucket in segment.buckets() {
                let seen = bucket.version.begin();
                if seen.is_changing() || seen.is_locked() || seen.is_dead() {
                    return Err(Broken::new(
                        "S1",
                        format!("a bucket at rest has version {seen:?}"),
                    ));
                }
                let image = bucket.image();
                Self::check_units(&image)?;
                used += image.kinds.used();
                for slot in image.kinds.heads() {
                    entries += 1;
                    let entry = image.words().entry(slot, Self::HAS_VALUES);
                    let (level, prefix) = entry.home();
                    let hash = self.secret.hash(level, prefix);
                    let home = tables.of(entry.table()).segment(hash).home(hash);
                    let is_home = entry.table() == table
                        && core::ptr::eq(home.segment, segment)
                        && home.pair.iter().any(|place| core::ptr::eq(*place, bucket));
                    if !is_home {
                        return Err(Broken::new("B2", format!("{entry:?} is in a foreign bucket")));
                    }
                    let is_new = match entry {
                        Entry::Leaf { key, .. } => keys.insert((LEVELS + 1, key)),
                        Entry::Node(_) => keys.insert((level, prefix)),
                    };
                    if !is_new {
                        return Err(Broken::new("B2", format!("{entry:?} is there twice")));
                    }
                    let first = home.pair[0];
                    if !core::ptr::eq(first, bucket) {
                        *away.entry(core::ptr::from_ref(first)).or_default() += 1;
                        if !first.kinds().may_be_away(home.hash) {
                            return Err(Broken::new("B4", format!("{entry:?} has left no mark")));
                        }
                    }
                }
            }
            for bucket in segment.buckets() {
                let away = away.get(&core::ptr::from_ref(bucket)).copied().unwrap_or(0);
                if !bucket.kinds().agrees_with(away) {
                    return Err(Broken::new(
                        "B4",
                        format!("{away} are away, {:?}", bucket.kinds()),
                    ));
                }
            }
            if !segment.counts_right() {
                return Err(Broken::new("S1", format!("{used} slots, {} counted", segment.used())));
            }
        }
        Ok(entries)
    }

    /// Checks B3.
    fn check_units(image: &Image) -> Result<(), Broken> {
        let mut owned = [false; SLOTS];
        for slot in image.kinds.heads() {
            let units = match image.kinds.of(slot) {
                Kind::Node(level) => image.words().node(slot, level).units(),
                _ if Self::HAS_VALUES => 1,
                _ => 0,
            };
            owned[slot] = true;
            for unit in slot..slot + units {
                if unit >= UNITS {
                    return Err(Broken::new("B3", format!("{image:?} has a unit beyond its end")));
                }
                (owned[unit], owned[unit + UNITS]) = (true, true);
            }
        }
        match (0..SLOTS).find(|slot| owned[*slot] == (image.kinds.of(*slot) == Kind::Free)) {
            Some(slot) => Err(Broken::new("B3", format!("slot {slot} of {image:?}"))),
            None => Ok(()),
        }
    }

    /// Checks T1 to T3 of the entry under a prefix and of all below it, and counts them.
    fn check_below(
        &self,
        tables: Tables<'_>,
        (level, prefix): (usize, u64),
        reached: &mut usize,
    ) -> Result<(), Broken> {
        let Ok(found) = self.entry_at(tables, &mut AtRest, level, prefix) else {
            return Err(Broken::new("T1", format!("nothing under {prefix:#x} of level {level}")));
        };
        // Of a group and a node under one prefix, or a fourth key, one is not reached.
        let node = match found.what {
            What::Node => found.node(),
            What::Group => {
                if found.group.len() > if level == LEVELS { 1 } else { GROUP } {
                    return Err(Broken::new("T2", format!("{:?} under {prefix:#x}", found.group)));
                }
                *reached += found.group.len();
                return Ok(());
            }
            What::Nothing => return Err(Broken::new("T1", format!("nothing under {prefix:#x}"))),
        };
        *reached += 1;
        let Node { depth, children, .. } = node;
        let is_whole = level <= depth
            && depth < LEVELS
            && prefix_of(node.prefix, depth) == node.prefix
            && same_prefix(node.prefix, prefix, level)
            && children.count() > 0;
        if !is_whole {
            return Err(Broken::new("T3", format!("{node:?}")));
        }
        let mut next = children.next(0);
        while let Some(byte) = next {
            let child = child_of(node.prefix, depth, byte);
            self.check_below(tables, (depth + 1, child), reached)?;
            next = children.next(usize::from(byte) + 1);
        }
        Ok(())
    }
}
