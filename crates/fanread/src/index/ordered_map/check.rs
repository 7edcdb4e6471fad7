//! Verifies the invariants of a map at rest; see `docs/design/ordered-map.md` for what they say.

use core::cmp::Ordering as Order;
use std::collections::HashSet;

use super::guides::{Guided, Guides};
use super::layout::{MOST_SORTED, State, tag_of};
use super::raw::{Leaf, Number, Stored};
use super::recent::Recent;
use super::{OrderedMap, Pinned};
use crate::api::Broken;
use crate::directory::{Bucket as _, Spelling};
use crate::list::{Leaf as _, Leaves as _, slice_at};

impl<V: ?Sized + Stored> Pinned<'_, V> {
    /// Verifies the structure of the map, for tests. No writer may be active.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        let map = self.map;
        let mut anchors = Vec::new();
        let mut live = HashSet::new();
        let mut before: Option<Leaf<'_>> = None;
        let mut next = map.list.first(&map.memory);
        while let Some(leaf) = next {
            let number = anchors.len();
            let header = leaf.header();
            let low = map.memory.border(leaf.border().low);
            if header.version.begin().is_dead() {
                return Err(Broken::new("L7", format!("leaf {number} is linked and dead")));
            }
            if header.prev() != before.map(crate::list::Leaf::name) {
                return Err(Broken::new("L2", format!("leaf {number} does not link back")));
            }
            let expected = before.map_or(&[][..], |before| map.memory.border(before.border().high));
            if low != expected || before.is_some_and(|before| !before.header().bounded) {
                return Err(Broken::new(
                    "L2",
                    format!("leaf {number} begins at {low:?}, not {expected:?}"),
                ));
            }
            if header.bounded != header.next().is_some() {
                return Err(Broken::new("L2", format!("leaf {number} has a wrong upper border")));
            }
            map.check_leaf(leaf, number, &mut live)?;
            anchors.push((low, leaf.name()));
            before = Some(leaf);
            next = header.next().map(|next| map.memory.leaf(next));
        }
        let counted = map.shards.entries();
        if live.len() != counted {
            return Err(Broken::new("O1", format!("{} live, {counted} counted", live.len())));
        }
        self.check_directory(&live)?;
        map.check_recent(&live)?;
        map.list.check_table(&anchors).map_err(|error| Broken::new("P", error))
    }

    /// Checks B1, S2, S3, O2 and O7: the directory names live records, each once, with their hashes.
    fn check_directory(&self, live: &HashSet<Number>) -> Result<(), Broken> {
        let map = self.map;
        let Some(names) = map.table.names(&self.guard) else { return Ok(()) };
        let (mut named, mut next) = (HashSet::new(), 0_u128);
        for segment in names.all(&self.guard) {
            let geometry = segment.geometry;
            let (mut entries, mut gone) = (0, 0);
            for at in 0..segment.buckets() {
                let bucket = segment.bucket(at);
                gone += bucket.gone(Spelling::WHOLE).count_ones() as usize;
                for number in OrderedMap::<V>::numbers_in(bucket) {
                    entries += 1;
                    let key = map.record(number).key();
                    let hash = map.hash(key);
                    if map.hash_of(map.record(number)) != hash {
                        return Err(Broken::new("O7", format!("{key:?}")));
                    }
                    let mut window = geometry.window(geometry.home(hash));
                    let passed = window.clone().take_while(|passed| *passed != at);
                    let goes_on = |at| {
                        let bucket = segment.bucket(at);
                        bucket.free() == 0 && bucket.is_passed(hash, Spelling::WHOLE)
                    };
                    let is_reached =
                        passed.into_iter().all(goes_on) && window.any(|place| place == at);
                    let is_tagged = map.find_in(bucket, hash, key).is_some_and(|f| f.0.1 == number);
                    if !is_reached
                        || !is_tagged
                        || !core::ptr::eq(names.segment(hash, &self.guard), segment)
                    {
                        return Err(Broken::new("B1", format!("{key:?}, tag {}", tag_of(hash))));
                    }
                    if !live.contains(&number) || !named.insert(number) {
                        return Err(Broken::new(
                            "O2",
                            format!("{key:?} is not live, or named twice"),
                        ));
                    }
                }
            }
            if !segment.counts_right() || segment.is_frozen() {
                let counts = segment.counts();
                return Err(Broken::new("S3", format!("{counts:?}, {entries} and {gone} there")));
            }
            next += 1 << (64 - geometry.part.bits);
        }
        if next != 1 << 64 {
            return Err(Broken::new("S2", "segments do not cover all hashes".to_owned()));
        }
        if named.len() != live.len() {
            return Err(Broken::new("O2", format!("{} of {} named", named.len(), live.len())));
        }
        Ok(())
    }
}

impl<V: ?Sized + Stored> OrderedMap<V> {
    /// Checks O4: slots for recent records name live ones.
    fn check_recent(&self, live: &HashSet<Number>) -> Result<(), Broken> {
        for (line, number) in self.recent.all() {
            let is_live = live.contains(&number);
            if !is_live || !Recent::fits(line, self.hash(self.record(number).key())) {
                return Err(Broken::new("O4", format!("line {line} names record {number}")));
            }
        }
        Ok(())
    }

    /// Verifies one leaf; adds its live records to `live`.
    fn check_leaf(
        &self,
        leaf: Leaf<'_>,
        number: usize,
        live: &mut HashSet<Number>,
    ) -> Result<(), Broken> {
        let at = |what: &str| format!("leaf {number}: {what}");
        if leaf.sorted() > 2 * MOST_SORTED {
            return Err(Broken::new("O3", at("too many entries")));
        }
        let prefix_bytes = leaf.header().prefix_bytes();
        let slice = |at| slice_at(self.record(leaf.sorted_at(at)).key(), prefix_bytes);
        if let Some(Guided { guides, codes, limits }) = leaf.guided() {
            if *guides != Guides::of(leaf.sorted(), slice) {
                return Err(Broken::new("O5", at("a guide is not its key's")));
            }
            if !guides.codes(leaf.sorted(), limits, slice).eq(codes.iter().copied()) {
                return Err(Broken::new("O6", at("a code is not its key's")));
            }
        }
        let fresh = 0..leaf.fresh();
        let codes = fresh.map(|at| slice_at(self.record(leaf.fresh_at(at)).key(), prefix_bytes));
        if !codes.map(|slice| leaf.group().code(slice)).eq(leaf.fresh_codes(leaf.fresh())) {
            return Err(Broken::new("O6", at("a fresh code is not its key's")));
        }
        let mut last: Option<&[u8]> = None;
        for place in 0..leaf.sorted() + leaf.fresh() {
            let is_sorted = place < leaf.sorted();
            let number = if is_sorted {
                leaf.sorted_at(place)
            } else {
                leaf.fresh_at(place - leaf.sorted())
            };
            let record = self.record(number);
            let key = record.key();
            if self.memory.place(leaf, key) != Order::Equal {
                return Err(Broken::new("L3", at(&format!("{key:?} does not belong there"))));
            }
            if is_sorted && last.is_some_and(|last| last >= key) {
                return Err(Broken::new("O3", at(&format!("{key:?} is out of order"))));
            }
            last = Some(key);
            match record.state() {
                State::Live if live.insert(number) => {}
                State::Live => {
                    return Err(Broken::new("O1", at(&format!("{key:?} is twice there"))));
                }
                State::Unnamed | State::Replaced => {}
                State::Coming | State::Gone | State::Arriving => {
                    return Err(Broken::new("O2", at(&format!("{key:?} is half a record"))));
                }
            }
        }
        Ok(())
    }
}
