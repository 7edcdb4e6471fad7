//! Verifies every invariant of a map at rest.

use super::layout::{Block, Entry, Name};
use super::{Broken, Map};
use crate::persist::medium::Medium;
use crate::sync::shim::Ordering::Relaxed;

impl<M: Medium> Map<M> {
    pub(super) fn check(&self) -> Result<(), Broken> {
        self.check_with(&[], |_, _| true)
    }

    /// Verifies a map that has also these blocks, and in which `are_same` tells whether two values of one hash are of one key.
    pub(super) fn check_with(
        &self,
        others: &[(Block, u32)],
        are_same: impl Fn(u64, u64) -> bool,
    ) -> Result<(), Broken> {
        let structure = self.structure.lock();
        let root = structure.root;
        let space = self.space.lock();
        let mut owners = vec![0_u32; space.end as usize];
        let first = self.geometry.first_block() as usize;
        for directory in structure.directories() {
            let runs = self.geometry.directory_blocks(directory.depth);
            owners[directory.block.0 as usize..][..runs].iter_mut().for_each(|owner| *owner += 1);
        }
        let free = (0..space.end).filter(|block| space.is_free(Block(*block)));
        free.for_each(|block| owners[block as usize] += 1);
        for (block, count) in others {
            owners[block.0 as usize..][..*count as usize].iter_mut().for_each(|owner| *owner += 1);
        }
        let mut segments = [0; super::layout::MAX_DEPTH as usize + 1];
        let mut at = 0;
        while at < 1 << root.depth {
            let word = self.medium.load(self.geometry.entry(root.block, at), Relaxed);
            let broken =
                |what| Broken::new(what, format!("entry {at} of the directory, {word:#x}"));
            let entry = Entry::of(word).ok_or_else(|| broken("directory"))?;
            let span = 1 << (root.depth.checked_sub(entry.depth).ok_or_else(|| broken("depth"))?);
            let words = (at..at + span).map(|at| self.geometry.entry(root.block, at));
            if at % span != 0
                || !words.clone().all(|place| self.medium.load(place, Relaxed) == word)
            {
                return Err(broken("run"));
            }
            let hash = (at as u64) << (64 - root.depth);
            let name = Name::of(hash, entry.depth);
            let hints = (at..at + span).map(|at| (at as u64) << (64 - root.depth));
            if !hints.clone().all(|hash| self.hints.get(hash) == entry.block) {
                return Err(broken("N1"));
            }
            owners[entry.block.0 as usize] += 1;
            segments[entry.depth as usize] += 1;
            self.check_segment(entry.block, name, &are_same)?;
            at += span;
        }
        if segments != structure.segments {
            return Err(Broken::new("segments", "their number of some depth"));
        }
        if let Some(block) = owners[first..].iter().position(|owner| *owner != 1) {
            return Err(Broken::new(
                "F1",
                format!("block {}: {}", first + block, owners[first + block]),
            ));
        }
        Ok(())
    }

    fn check_segment(
        &self,
        block: Block,
        name: Name,
        are_same: &impl Fn(u64, u64) -> bool,
    ) -> Result<(), Broken> {
        let shadow = self.shadows.get(block);
        let broken = |what| Broken::new(what, format!("{block:?}"));
        if shadow.name() != name {
            return Err(broken("N1"));
        }
        let mut hashes = Vec::new();
        for entry in self.entries(block, name) {
            let home = self.geometry.bucket(entry.hash);
            if self.geometry.distance(home, entry.bucket) >= self.geometry.probed {
                return Err(broken("an entry is too far away"));
            }
            if home != entry.bucket && !shadow.may_be_away(home, self.geometry.bits) {
                return Err(broken("N3"));
            }
            hashes.push((entry.hash, entry.value));
        }
        if shadow.live().is_some_and(|live| live != hashes.len() as u64) {
            return Err(broken("N4"));
        }
        hashes.sort_unstable();
        for same in hashes.chunk_by(|a, b| a.0 == b.0) {
            let mut pairs = (0..same.len()).flat_map(|at| (0..at).map(move |before| (before, at)));
            if pairs.any(|(one, other)| are_same(same[one].1, same[other].1)) {
                return Err(broken("a key is there twice"));
            }
        }
        Ok(())
    }
}
