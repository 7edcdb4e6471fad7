//! Verifies the invariants of a map at rest.

use std::collections::HashSet;

use super::layout::{FREE, GONE, SLOTS};
use super::raw::Bucket;
use super::table::Segment;
use super::{Pinned, U64Map};
use crate::api::Broken;
use crate::directory::{Bucket as _, Spelling};

impl<V> Pinned<'_, V> {
    /// Verifies the structure of the map, which no other thread is writing to.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        let ordered = self.map.check_order(self)?;
        let Some(names) = self.map.table.names(&self.guard) else { return Ok(()) };
        let mut entries = 0;
        let mut next = 0_u128;
        for segment in names.all(&self.guard) {
            entries += check_segment(segment)?;
            for (hash, _) in segment.entries() {
                let key = self.map.spelling.number(hash);
                if !core::ptr::eq(names.segment(hash, &self.guard), segment) {
                    return Err(Broken::new("S2", format!("{key} is in another's segment")));
                }
                if !ordered.contains(&key) {
                    return Err(Broken::new("U1", format!("{key} is not in the order")));
                }
            }
            next += 1 << (64 - segment.geometry.part.bits);
        }
        if next != 1 << 64 {
            return Err(Broken::new("S2", "segments do not cover all hashes".to_owned()));
        }
        if entries != self.len() {
            return Err(Broken::new("S3", format!("{entries} entries, {} counted", self.len())));
        }
        Ok(())
    }
}

impl<V> U64Map<V> {
    /// Checks R1 and O1; returns all keys of the order.
    fn check_order(&self, pinned: &Pinned<'_, V>) -> Result<HashSet<u64>, Broken> {
        let mut all = HashSet::new();
        let mut next = Some(0);
        for run in self.order.runs(&pinned.guard) {
            if next != Some(run.low()) || run.last() < run.low() || run.version.begin().is_dead() {
                return Err(Broken::new(
                    "O1",
                    format!("a run from {} to {}", run.low(), run.last()),
                ));
            }
            next = run.last().checked_add(1);
            let keys: Vec<_> = (0..run.len()).map(|at| run.key(at)).collect();
            if !keys.iter().all(|key| (run.low()..=run.last()).contains(key))
                || !keys[..run.sorted()].is_sorted_by(|a, b| a < b)
            {
                return Err(Broken::new("R1", format!("keys of a run from {}", run.low())));
            }
            all.extend(keys);
        }
        if next.is_some() && next != Some(0) {
            return Err(Broken::new("O1", "the last run does not reach the end".to_owned()));
        }
        Ok(all)
    }
}

/// Checks B1 and S3; returns how many entries there are.
fn check_segment(segment: &Segment) -> Result<usize, Broken> {
    let geometry = segment.geometry;
    let (mut entries, mut gone) = (HashSet::new(), 0);
    for at in 0..segment.buckets() {
        let bucket = segment.bucket(at);
        for slot in 0..SLOTS {
            let word = bucket.word(slot);
            match word & geometry.spelling::<Bucket>(at).mask {
                FREE if word == FREE => continue,
                GONE => {
                    gone += 1;
                    continue;
                }
                _ => {}
            }
            let hash = geometry.hashes::<Bucket>(at, geometry.places())(word);
            let mut window = geometry.window(geometry.home(hash));
            let mut passed = window.clone().take_while(|passed| *passed != at);
            let goes_on = |at| {
                let bucket = segment.bucket(at);
                bucket.matches(FREE, Spelling::WHOLE) == 0
                    && bucket.is_passed(hash, geometry.spelling::<Bucket>(at).mask)
            };
            let is_reached = passed.all(goes_on) && window.any(|place| place == at);
            if !is_reached || !entries.insert(hash) {
                return Err(Broken::new("B1", format!("{hash:x} in bucket {at}")));
            }
        }
    }
    if !segment.counts_right() || segment.is_frozen() {
        let counts = segment.counts();
        return Err(Broken::new("S3", format!("{counts:?}, {} and {gone} there", entries.len())));
    }
    Ok(entries.len())
}
