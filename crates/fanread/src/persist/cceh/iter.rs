//! All entries of a map, segment by segment.

use core::iter::FusedIterator;

use super::Map;
use super::shadow::Stripes;
use crate::persist::medium::{Mapped, Medium};
use crate::sync::backoff::Backoff;

/// The entries of a map in the order of their hashes' leading bits; see [`Cceh::iter`](super::Cceh::iter).
#[derive(Debug)]
pub struct Iter<'a>(pub(super) Walk<'a, Mapped>);

/// Hashes and values over any medium.
pub(super) struct Walk<'a, M> {
    map: &'a Map<M>,
    /// The first hash of the next segment.
    cursor: Option<u64>,
    entries: std::vec::IntoIter<(u64, u64)>,
}

impl<M> std::fmt::Debug for Walk<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Map<Mapped> {
    pub(super) fn iter(&self) -> Iter<'_> {
        Iter(self.walk())
    }
}

impl<M: Medium> Map<M> {
    pub(super) fn walk(&self) -> Walk<'_, M> {
        Walk { map: self, cursor: Some(0), entries: Vec::new().into_iter() }
    }

    /// The entries of the segment of a hash, all of one moment, and the first hash of the next one.
    fn segment_of(&self, hash: u64) -> (Vec<(u64, u64)>, Option<u64>) {
        let mut backoff = Backoff::new();
        loop {
            let block = self.hints.get(hash);
            let shadow = self.shadows.get(block);
            if let Some(look) = shadow.begin(Stripes::ALL) {
                let name = shadow.name();
                if name.covers(hash) {
                    let entries = self.entries(block, name);
                    // Those before `hash` were in a segment that has been merged with this one.
                    let entries = entries.filter(|entry| entry.hash >= hash);
                    let entries = entries.map(|entry| (entry.hash, entry.value)).collect();
                    if shadow.holds(&look) {
                        return (entries, name.next());
                    }
                }
            }
            backoff.wait();
        }
    }
}

impl<M> Walk<'_, M> {
    /// Whether the next entry is of another segment than the last one.
    pub(super) fn is_between_segments(&self) -> bool {
        self.entries.len() == 0
    }
}

impl<M: Medium> Iterator for Walk<'_, M> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(entry);
            }
            let (entries, next) = self.map.segment_of(self.cursor?);
            (self.entries, self.cursor) = (entries.into_iter(), next);
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (hash, value) = self.0.next()?;
        Some((self.0.map.spelling.key(hash), value))
    }
}

impl FusedIterator for Iter<'_> {}
