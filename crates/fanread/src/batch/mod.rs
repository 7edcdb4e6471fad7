//! Keeps several searches in flight at once.
//!
//! A search in an index waits for a few lines, one after another. Written as a [`Walk`] it stops before each wait
//! and says so; [`drive`] starts up to [`DEPTH`] walks and takes the next step of each in turn, so that the waits
//! of one hide behind the steps of the others. A single search takes the same steps without stopping.
//!
//! That suits searches of a small state. One of hundreds of bytes is not to be moved about: the Cuckoo Trie takes each step
//! for all [`DEPTH`] keys before the next one.

#![allow(clippy::inline_always, reason = "the driver is to become part of the search it drives")]

pub(crate) mod lengths;

/// How many searches a batched call keeps in flight.
///
/// Each waits for one to four lines at a time, and current cores track 10 to 50 outstanding misses: fewer searches
/// leave some of them idle, many more push the state of the searches themselves out of L1. `fanread bench
/// --workload batch --batch 1,2,4,8,16,32` shows the curve.
pub(crate) const DEPTH: usize = if cfg!(any(loom, shuttle, miri)) { 2 } else { 16 };

/// The numbers of the bits that are set: of those searches of a batch that are not done.
pub(crate) struct Bits(pub(crate) u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let bits = self.0;
        self.0 &= bits.wrapping_sub(1);
        (bits != 0).then_some(bits.trailing_zeros() as usize)
    }
}

/// A search that stops before each line it has to wait for.
pub(crate) trait Walk {
    /// What the search finds.
    type Found;

    /// Takes the steps up to the next wait, having asked for the lines it will need; returns what was found when
    /// there is no further wait.
    fn step(&mut self) -> Option<Self::Found>;
}

/// Runs one walk for each index below `count`, [`DEPTH`] at a time, and hands each result to `done`.
#[inline(always)]
pub(crate) fn drive<W: Walk>(
    count: usize,
    mut start: impl FnMut(usize) -> W,
    mut done: impl FnMut(usize, W::Found),
) {
    let mut walks: [Option<(usize, W)>; DEPTH] = [const { None }; DEPTH];
    let mut next = 0;
    let mut running = 0;
    for slot in &mut walks {
        if next < count {
            *slot = Some((next, start(next)));
            next += 1;
            running += 1;
        }
    }
    while running > 0 {
        for slot in &mut walks {
            let Some((index, walk)) = slot else { continue };
            if let Some(found) = walk.step() {
                done(*index, found);
                *slot = None;
                if next < count {
                    *slot = Some((next, start(next)));
                    next += 1;
                } else {
                    running -= 1;
                }
            }
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    struct Countdown(usize);

    impl Walk for Countdown {
        type Found = &'static str;

        fn step(&mut self) -> Option<&'static str> {
            self.0 = self.0.checked_sub(1)?;
            (self.0 == 0).then_some("arrived")
        }
    }

    #[test]
    fn each_walk_is_finished_once_whatever_its_length() {
        for count in [0, 1, DEPTH - 1, DEPTH, DEPTH + 1, 100] {
            let mut seen = vec![0; count];
            drive(
                count,
                |index| Countdown(index % 7 + 1),
                |index, found| {
                    assert_eq!(found, "arrived");
                    seen[index] += 1;
                },
            );
            assert!(seen.iter().all(|times| *times == 1));
        }
    }
}
