//! Verifies the invariants of a map at rest; see `docs/design/wormhole.md` for what they say.

use core::cmp::Ordering as Order;

use super::layout::{LINE_WORDS, SLOTS, Tag, Word};
use super::raw::Leaf;
use super::{Pinned, Wormhole};
use crate::api::Broken;
use crate::list::{Leaf as _, Leaves as _};

impl<V> Pinned<'_, V> {
    /// Verifies the structure of the map, for tests. No writer may be active.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        let map = self.map;
        let mut anchors = Vec::new();
        let mut entries = 0;
        let mut before: Option<Leaf<'_>> = None;
        let mut next = map.list.first(&map.memory);
        while let Some(leaf) = next {
            let number = anchors.len();
            let border = leaf.border();
            let low = map.memory.border(border.low);
            if leaf.header().version.begin().is_dead() {
                return Err(Broken::new("L7", format!("leaf {number} is linked and dead")));
            }
            if leaf.header().prev() != before.map(crate::list::Leaf::name) {
                return Err(Broken::new("L2", format!("leaf {number} does not link back")));
            }
            let expected = match before {
                None => &[][..],
                Some(before) => map.memory.border(before.border().high),
            };
            if low != expected || before.is_some_and(|before| !before.header().bounded) {
                return Err(Broken::new(
                    "L2",
                    format!("leaf {number} begins at {low:?}, not {expected:?}"),
                ));
            }
            if leaf.header().bounded != leaf.header().next().is_some() {
                return Err(Broken::new("L2", format!("leaf {number} has a wrong upper border")));
            }
            entries += map.check_leaf(leaf, number)?;
            anchors.push((low, leaf.name()));
            before = Some(leaf);
            next = leaf.header().next().map(|next| map.memory.leaf(next));
        }
        if !map.list.ends_with(before) {
            return Err(Broken::new("L2", "the list does not know its last leaf"));
        }
        if entries != self.len() {
            return Err(Broken::new("count", format!("{entries} entries, {} counted", self.len())));
        }
        map.list.check_table(&anchors).map_err(|error| Broken::new("P", error))
    }
}

impl<V> Wormhole<V> {
    /// Verifies one leaf; returns how many entries it has.
    fn check_leaf(&self, leaf: Leaf<'_>, number: usize) -> Result<usize, Broken> {
        let meta = leaf.meta();
        let at = |what: &str| format!("leaf {number}: {what}");
        let slots = leaf.lines() * LINE_WORDS;
        let mut order = [0; SLOTS];
        let occupied = leaf.list::<V>(meta.sorted(), &mut order);
        if occupied != meta.count() {
            let counted = meta.count();
            return Err(Broken::new(
                "L9",
                at(&format!("{occupied} slots in use, {counted} counted")),
            ));
        }
        let mut listed = [false; SLOTS];
        for slot in &order[..meta.count()] {
            let slot = usize::from(*slot);
            if slot >= slots || core::mem::replace(&mut listed[slot], true) {
                return Err(Broken::new("L9", at("the order names a slot wrongly")));
            }
        }
        let mut last = None;
        for (place, slot) in order[..meta.count()].iter().enumerate() {
            let slot = usize::from(*slot);
            let word = leaf.word::<V>(slot);
            if word.is_free() {
                return Err(Broken::new("L9", at("the order names a free slot")));
            }
            let key = self.key_of(&leaf.short_prefix(), word);
            if self.memory.place(leaf, &key) != Order::Equal {
                return Err(Broken::new("L3", at(&format!("{key:?} does not belong there"))));
            }
            let tag = Tag::of(self.seed().hash(&key));
            let exact = |unit| Word::of_record(tag, unit, self.record_units(unit));
            if word.record().is_some_and(|unit| exact(unit) != word) {
                return Err(Broken::new(
                    "L4",
                    at(&format!("the word of {key:?} is not its record's")),
                ));
            }
            let form = Self::form(leaf, &key, tag);
            if self.look_locked(leaf, &key, tag, form).map(|found| found.0) != Some(slot) {
                return Err(Broken::new("L4", at(&format!("{key:?} is not found in slot {slot}"))));
            }
            if place < meta.sorted() && last.as_ref().is_some_and(|last| *last >= key) {
                return Err(Broken::new("L9", at(&format!("{key:?} is out of order"))));
            }
            last = Some(key);
        }
        Ok(meta.count())
    }
}
