//! Which lines of a medium were flushed since somebody asked: a bit for each.

use std::sync::OnceLock;
// Not of the shim: no model runs with them.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::LineAt;
use crate::mem::AllocError;

/// Words of the first chunk, which stand for 4 MB; each further one has twice as many.
const FIRST: usize = 1 << 10;
const CHUNKS: usize = 24;

/// The bits; see the module.
#[derive(Debug)]
pub(super) struct Marks {
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
}

impl Marks {
    pub(super) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    fn place(word: usize) -> (usize, usize) {
        let at = word + FIRST;
        let chunk = at.ilog2() - FIRST.ilog2();
        (chunk as usize, at - (FIRST << chunk))
    }

    /// Makes room for lines, none of them marked.
    pub(super) fn grow(&self, lines: usize) -> Result<(), AllocError> {
        let (last, _) = Self::place(lines / 64);
        for (chunk, of_chunk) in self.chunks[..=last].iter().enumerate() {
            if of_chunk.get().is_none() {
                let count = FIRST << chunk;
                let mut words = Vec::new();
                words.try_reserve_exact(count).map_err(|_| AllocError { bytes: count * 8 })?;
                words.resize_with(count, AtomicU64::default);
                // Somebody else may have been faster.
                let _ = of_chunk.set(words.into_boxed_slice());
            }
        }
        Ok(())
    }

    /// Marks a line that there is room for. Whoever asks waits for this thread by other means.
    pub(super) fn set(&self, line: LineAt) {
        let (chunk, at) = Self::place(line.0 / 64);
        let word = &self.chunks[chunk].get().expect("there is room for lines before they are")[at];
        let bit = 1 << (line.0 % 64);
        // Relaxed, here and below: the gate of the checkpoints orders them.
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// All words of the bits.
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.chunks.iter().filter_map(OnceLock::get).flatten()
    }

    /// The marked lines in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = LineAt> {
        self.words().enumerate().flat_map(|(at, word)| {
            let mut bits = word.load(Relaxed);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(LineAt(at * 64 + bit))
            })
        })
    }

    /// Takes all marks off.
    pub(super) fn clear(&self) {
        for word in self.words() {
            // Most are zero, and stay pages that nobody has touched.
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn lines_are_marked_once_until_they_are_cleared() {
        let marks = Marks::new();
        let lines = [0, 1, 63, 64, 65_535, 65_536, 200_000, 1 << 20];
        for round in 0..2 {
            marks.grow((1 << 20) + 1 + round).unwrap();
            lines.iter().chain(&lines).for_each(|line| marks.set(LineAt(*line)));
            assert_eq!(marks.iter().map(|line| line.0).collect::<Vec<_>>(), lines);
            marks.clear();
            assert_eq!(marks.iter().count(), 0);
        }
    }
}
