//! A run: the keys of an interval, sorted ones and those that came since.
//!
//! ```text
//! line 0   low, last, capacity, mixed, count, removed, merged, version
//! words    | sorted keys, ascending | fresh keys as they came | free |
//!          0                     sorted                      len   capacity
//! ```
//!
//! A run only ever gets more fresh keys, and counts them among the sorted ones if they came in order; what else is to change makes
//! a new one. So its keys may be read by anyone who has seen how many there are. A key may be there twice, and need not be in the
//! map any more. The insertion that leaves the 64th fresh key brings all into order, if the run is not full before.
//!
//! # Invariants
//!
//! * **R1** All keys are from `low` to `last`. The first `sorted` ones ascend strictly. `sorted` and `len` grow only.
//! * **R2** Keys are added under the version's lock, in a run that is not dead.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use smallvec::SmallVec;

use super::raw::{self, Heap};
use crate::arch::{Avx512, Eights, prefetch};
use crate::mem::AllocError;
use crate::sync::shared::Owned;
use crate::sync::shim::{self, AtomicU32, AtomicU64};
use crate::sync::version::Version;

/// Words of the largest run.
///
/// Twice as many halve the list of runs, and make a lookup in a run, and its copies, longer. With the line before them they
/// have 4 KB.
pub(super) const MOST_WORDS: usize = if cfg!(any(shuttle, small_leaves, miri)) { 8 } else { 504 };

/// Fresh keys at which an insertion brings them into order, before the run is full.
///
/// It copies some three hundred keys then. With more, bounds look at more keys one by one: with 128 those right after a load of 20 M
/// are a tenth slower. With fewer, loads copy more: 32 make that load a tenth slower.
const MANY_FRESH: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 64 };

/// Fresh keys that a walk sorts for itself; more make it bring them into order for all.
pub(super) const FEW_FRESH: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 32 };

/// Fresh keys that walks sort for themselves in all, before one brings them into order for all: about as much work. So many keys that
/// are gone bounds pass over before one makes the run anew without them.
const MUCH_MERGED: usize = if cfg!(any(shuttle, small_leaves, miri)) { 4 } else { 256 };

/// Words that are looked at for the rank of a key: two lines, around its guess.
///
/// A guide is off by two keys on average, and of a hundred random keys one is not in these two lines, of clustered ones four. Three lines
/// would be a line more to wait for.
pub(super) const WINDOW: usize = 2 * LINE;

/// Words of a line.
pub(super) const LINE: usize = if cfg!(any(shuttle, small_leaves, miri)) { 2 } else { 8 };

/// Keys of an interval; see the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Run {
    low: u64,
    last: u64,
    capacity: u32,
    /// Whether a key came that was not above all others.
    mixed: bool,
    /// How many keys there are, and, in the upper half, how many of them are sorted.
    count: AtomicU64,
    /// How many keys of the run were removed from the map since it was made.
    removed: AtomicU32,
    /// How many fresh keys walks have sorted since, and how many that are gone bounds have passed over.
    merged: AtomicU32,
    pub(super) version: Version,
}

const _: () = assert!(size_of::<Run>() == 64);

/// How many keys of a run there are: sorted ones, and all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Count {
    pub(super) sorted: usize,
    pub(super) len: usize,
}

impl Count {
    #[inline(always)]
    fn word(self) -> u64 {
        (self.sorted as u64) << 32 | self.len as u64
    }

    #[inline(always)]
    fn of(word: u64) -> Self {
        Self { sorted: (word >> 32) as usize, len: word as u32 as usize }
    }
}

impl Run {
    /// Makes a run of sorted keys with room for more: for as many as are asked for, and what is left of its memory.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn of(
        heap: &Heap,
        (low, last): (u64, u64),
        keys: &[u64],
        (capacity, mixed): (usize, bool),
    ) -> Result<Owned<Self>, AllocError> {
        debug_assert!(keys.is_sorted_by(|a, b| a < b) && keys.len() <= capacity, "R1");
        let run = Self {
            low,
            last,
            capacity: Self::whole(capacity) as u32,
            mixed,
            count: AtomicU64::new(Count { sorted: keys.len(), len: keys.len() }.word()),
            removed: AtomicU32::new(0),
            merged: AtomicU32::new(0),
            version: Version::default(),
        };
        let run = run.put(heap)?;
        for (word, key) in run.get().words().iter().zip(keys) {
            // Relaxed: published with the run.
            word.store(*key, Relaxed);
        }
        Ok(run)
    }

    #[inline(always)]
    pub(super) fn low(&self) -> u64 {
        self.low
    }

    /// The largest key that may be in the run.
    #[inline(always)]
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    #[inline(always)]
    pub(super) fn count(&self) -> Count {
        // ORDER: Acquire, pairs with the Release store in `push`: the keys are there.
        Count::of(self.count.load(Acquire))
    }

    /// How many keys there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count().len
    }

    #[inline(always)]
    pub(super) fn sorted(&self) -> usize {
        self.count().sorted
    }

    /// A key that is there.
    #[inline(always)]
    pub(super) fn key(&self, at: usize) -> u64 {
        // Relaxed: keys are published by `len`, or with the run.
        self.words()[at].load(Relaxed)
    }

    /// Adds a key under the lock; tells whether there was room.
    #[inline]
    pub(super) fn push(&self, key: u64) -> bool {
        debug_assert!((self.low..=self.last).contains(&key), "R1");
        // Relaxed: only the holder of the lock stores it.
        let count = self.count.load(Relaxed);
        let Some(word) = self.words().get(Count::of(count).len) else { return false };
        word.store(key, Relaxed);
        // ORDER: Release, pairs with `count`.
        self.count.store(count + 1, Release);
        true
    }

    /// Whether so many keys are fresh that they are to be brought into order.
    #[inline(always)]
    pub(super) fn has_many_fresh(&self) -> bool {
        // Relaxed: for who holds the lock.
        let Count { sorted, len } = Count::of(self.count.load(Relaxed));
        len - sorted >= MANY_FRESH
    }

    /// Takes fresh keys for sorted ones if they came in order; tells whether they did. The caller holds the lock.
    pub(super) fn extend(&self) -> bool {
        let len = self.len();
        let is_in_order = (self.sorted().max(1)..len).all(|at| self.key(at - 1) < self.key(at));
        if is_in_order {
            // ORDER: Release, as in `push`.
            self.count.store(Count { sorted: len, len }.word(), Release);
        }
        is_in_order
    }

    /// Asks for so many lines of keys behind those that are looked at first for a key.
    #[inline(always)]
    pub(super) fn ask_behind<const UP: bool>(&self, guess: usize, lines: usize) {
        let words = core::ptr::from_ref(self).wrapping_add(1).cast::<u64>().wrapping_add(guess);
        for line in 0..lines {
            let (up, down) = (WINDOW + line * LINE, (line + 1) * LINE);
            prefetch(if UP { words.wrapping_add(up) } else { words.wrapping_sub(down) });
        }
    }

    /// Asks for all lines: they are to be brought into order.
    fn ask_for_all(&self, len: usize) {
        for at in (0..len).step_by(LINE) {
            prefetch(self.words().as_ptr().wrapping_add(at));
        }
    }

    /// Counts a key that was removed from the map; returns how many.
    pub(super) fn count_removed(&self) -> usize {
        // ORDER: AcqRel, pairs with itself in `removed`: who counts behind that sees that the run is dead.
        self.removed.fetch_add(1, AcqRel) as usize + 1
    }

    /// How many were counted.
    pub(super) fn removed(&self) -> u32 {
        // ORDER: AcqRel, as in `count_removed`.
        self.removed.fetch_add(0, AcqRel)
    }

    /// Counts keys that were removed from a run whose keys this one has.
    pub(super) fn take_over(&self, removed: u32) {
        // Relaxed: a figure to decide by.
        self.removed.fetch_add(removed, Relaxed);
    }

    /// Whether fresh keys are to be brought into order for who walks along the run.
    #[inline(always)]
    pub(super) fn is_to_be_settled(&self) -> bool {
        let Count { sorted, len } = self.count();
        if len == sorted || len - sorted > FEW_FRESH {
            return len > sorted;
        }
        // Relaxed: a figure to decide by; if one walk does not count, another will.
        let merged = self.merged.load(Relaxed) as usize + len - sorted;
        self.merged.store(merged as u32, Relaxed);
        merged > MUCH_MERGED
    }

    /// Counts keys that are gone and that a bound has passed over, as many as may be; tells whether the run is to be made anew for those
    /// who come after it.
    pub(super) fn is_to_be_cleaned(&self, passed: usize) -> bool {
        // Relaxed: as in `is_to_be_settled`.
        let gone = (self.removed.load(Relaxed) as usize).min(passed);
        let merged = self.merged.load(Relaxed) as usize + gone;
        self.merged.store(merged as u32, Relaxed);
        gone > 0 && merged > MUCH_MERGED
    }

    /// The sorted keys and the fresh ones, at one instant: Relaxed loads will do.
    #[inline(always)]
    pub(super) fn parts(&self) -> (&[AtomicU64], &[AtomicU64]) {
        let Count { sorted, len } = self.count();
        self.words()[..len].split_at(sorted)
    }

    /// How many of the sorted keys are below `key`.
    ///
    /// Keys are mostly spread evenly enough to guess where one is, within a line or two: `guess` is what `Hint::ask` said.
    #[inline(always)]
    pub(super) fn rank(
        words: &[AtomicU64],
        key: u64,
        guess: usize,
        kernel: Option<Avx512>,
    ) -> usize {
        // Relaxed: published with the run.
        let below = |word: &AtomicU64| word.load(Relaxed) < key;
        let from = guess.min(words.len().saturating_sub(WINDOW));
        let Some(window) = words[from..].first_chunk::<WINDOW>() else {
            return words.partition_point(below);
        };
        // Without a branch: which line, and how many in the line.
        let line = usize::from(below(&window[LINE])) * LINE;
        let inside = window[line..].first_chunk::<LINE>().expect("one of two");
        let inside = line
            + match (kernel, inside.as_array()) {
                (Some(kernel), Some(inside)) => kernel.count_below(shim::line(inside), key),
                _ => inside.iter().map(|word| usize::from(below(word))).sum::<usize>(),
            };
        match inside {
            0 => Self::rank_below(words, key, from),
            WINDOW => Self::rank_above(words, key, from + WINDOW),
            _ => from + inside,
        }
    }

    /// The same where the first keys that are not below are among the first `to`.
    #[inline(never)]
    fn rank_below(words: &[AtomicU64], key: u64, to: usize) -> usize {
        // Relaxed: as above.
        let below = |word: &AtomicU64| word.load(Relaxed) < key;
        // Mostly it is in the next line.
        let near = to.saturating_sub(LINE);
        let from = if words[..to].get(near).is_some_and(below) { near } else { 0 };
        from + words[from..to].partition_point(below)
    }

    /// The same where the first `from` keys are below.
    #[inline(never)]
    fn rank_above(words: &[AtomicU64], key: u64, from: usize) -> usize {
        // Relaxed: as above.
        let below = |word: &AtomicU64| word.load(Relaxed) < key;
        let words = &words[from..];
        let near = words.len().min(LINE);
        let to = if words[..near].last().is_some_and(below) { words.len() } else { near };
        from + words[..to].partition_point(below)
    }

    /// How many of the sorted keys are behind a walk that is to begin at `from`: below it on the way up, or else, before it
    /// on the way down, at or below.
    #[inline(always)]
    pub(super) fn split<const UP: bool>(
        words: &[AtomicU64],
        from: u64,
        guess: usize,
        kernel: Option<Avx512>,
    ) -> usize {
        match from.checked_add(1) {
            _ if UP => Self::rank(words, from, guess, kernel),
            Some(above) => Self::rank(words, above, guess, kernel),
            None => words.len(),
        }
    }

    /// The key at `from` or nearest to it, above or below. In a run of all numbers it may be one that is not there, the last.
    #[inline(always)]
    pub(super) fn nearest<const UP: bool>(
        &self,
        from: u64,
        guess: usize,
        kernel: Option<Avx512>,
    ) -> Option<u64> {
        // Keys on the wrong side are further away than the run's border.
        let distance = |key: u64| if UP { key.wrapping_sub(from) } else { from.wrapping_sub(key) };
        let (words, fresh) = self.parts();
        let at = Self::split::<UP>(words, from, guess, kernel);
        let sorted = if UP { words.get(at) } else { words[..at].last() };
        // Relaxed: published with the run.
        let sorted = sorted.map_or(u64::MAX, |word| distance(word.load(Relaxed)));
        let border = distance(if UP { self.last } else { self.low });
        let key = |least| if UP { from + least } else { from - least };
        if let Some(kernel) = kernel {
            let least = kernel.nearest::<UP>(raw::plain(fresh), from, sorted);
            return (least <= border).then(|| key(least));
        }
        // Some at a time: each minimum waits for the one before.
        let (some, rest) = fresh.as_chunks::<4>();
        let mut least = [sorted; 4];
        for words in some {
            for (least, word) in least.iter_mut().zip(words) {
                *least = (*least).min(distance(word.load(Relaxed)));
            }
        }
        let [a, b, c, d] = least;
        let least = a.min(b).min(c.min(d));
        let least = rest.iter().fold(least, |least, word| least.min(distance(word.load(Relaxed))));
        (least <= border).then(|| key(least))
    }

    /// All keys, ascending, each once.
    pub(super) fn collect(&self) -> Vec<u64> {
        let (words, fresh) = self.parts();
        self.ask_for_all(words.len() + fresh.len());
        let mut fresh: SmallVec<[u64; FEW_FRESH]> =
            fresh.iter().map(|word| word.load(Relaxed)).collect();
        fresh.sort_unstable();
        fresh.dedup();
        let mut all = Vec::with_capacity(words.len() + fresh.len());
        let mut at = 0;
        for key in fresh {
            let behind = &words[at..];
            let below = behind.iter().position(|word| word.load(Relaxed) >= key);
            let below = below.unwrap_or(behind.len());
            all.extend(behind[..below].iter().map(|word| word.load(Relaxed)));
            at += below;
            // A key that came again is there already.
            if behind.get(below).is_none_or(|word| word.load(Relaxed) != key) {
                all.push(key);
            }
        }
        all.extend(words[at..].iter().map(|word| word.load(Relaxed)));
        all
    }

    /// Whether keys have come in ascending order.
    pub(super) fn ascends(&self) -> bool {
        let (sorted, fresh) = self.parts();
        let Some(last) = sorted.last() else { return false };
        !self.mixed && fresh.iter().all(|key| key.load(Relaxed) > last.load(Relaxed))
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn a_rank_is_how_many_keys_are_below() {
        let mut rng = Rng::new(1);
        for shape in 0..4 {
            let counts = [0, 1, 2, 7, 8, 100, 400].map(|count: u64| count.min(MOST_WORDS as u64));
            for count in counts {
                let mut keys: Vec<u64> = (0..count)
                    .map(|i| match shape {
                        0 => rng.next_u64(),
                        1 => i,
                        2 => u64::MAX - i,
                        _ => (1 << (rng.next_u64() % 64)) | (rng.next_u64() % 3),
                    })
                    .collect();
                keys.sort_unstable();
                keys.dedup();
                let heap = Heap::new();
                let run = Run::of(&heap, (0, u64::MAX), &keys, (keys.len(), false)).unwrap();
                let near = keys.iter().flat_map(|k| [k.saturating_sub(1), *k, k.saturating_add(1)]);
                for key in near.chain([0, u64::MAX, 1 << 40]) {
                    let below = keys.iter().filter(|k| **k < key).count();
                    // Wherever a search begins: the hint that says may be another run's.
                    for guess in [0, 1, 8, 64, 393, 1000, below] {
                        let rank = Run::rank(run.get().parts().0, key, guess, None);
                        assert_eq!(rank, below, "{key} in {keys:?} from {guess}");
                        let kernel = Avx512::detect();
                        let rank = Run::rank(run.get().parts().0, key, guess, kernel);
                        assert_eq!(rank, below, "{key} in {keys:?} from {guess}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_nearest_key_is_found_among_sorted_and_fresh_ones() {
        let heap = Heap::new();
        let run = Run::of(&heap, (10, 99), &[13, 15, 90], (8, false)).unwrap();
        for key in [70, 13, 99, 20] {
            assert!(run.get().push(key));
        }
        let keys = [13, 15, 20, 70, 90, 99];
        for (from, guess) in (10..=99).zip((0..6).cycle()) {
            for kernel in [None, Avx512::detect()] {
                let above = keys.iter().copied().find(|key| *key >= from);
                assert_eq!(run.get().nearest::<true>(from, guess, kernel), above, "above {from}");
                let below = keys.iter().copied().rfind(|key| *key <= from);
                assert_eq!(run.get().nearest::<false>(from, guess, kernel), below, "below {from}");
            }
        }
    }

    #[test]
    fn fresh_keys_become_sorted_ones_if_they_came_in_order() {
        let heap = Heap::new();
        let run = Run::of(&heap, (0, 99), &[3, 5], (8, false)).unwrap();
        let run = run.get();
        assert!(run.push(7) && run.push(9) && run.ascends());
        assert!(run.extend());
        assert_eq!((run.sorted(), run.len()), (4, 4));
        assert!(run.push(8) && !run.ascends());
        assert!(!run.extend());
        assert_eq!((run.sorted(), run.len()), (4, 5));
        assert_eq!(run.collect(), [3, 5, 7, 8, 9]);
    }

    #[test]
    fn all_keys_are_collected_once_in_order() {
        let heap = Heap::new();
        let run = Run::of(&heap, (0, 99), &[3, 5, 9], (8, false)).unwrap();
        for key in [7, 3, 99, 0, 7] {
            assert!(run.get().push(key));
        }
        assert!(!run.get().push(50));
        assert_eq!(run.get().collect(), [0, 3, 5, 7, 9, 99]);
        assert!(!run.get().ascends());
    }
}

#[cfg(all(test, shuttle))]
mod scenes {
    use shuttle::thread;

    use super::*;
    use crate::sync::shim::explore;

    #[test]
    fn shuttle_a_key_that_is_counted_is_there() {
        let scene = || {
            let heap = Heap::new();
            let run = Run::of(&heap, (1, 9), &[1, 5], (MOST_WORDS, false)).unwrap();
            let run = run.get();
            let seen = thread::scope(|scope| {
                scope.spawn(|| [7, 3].map(|key| run.push(key)));
                run.collect()
            });
            assert!([&[1, 5][..], &[1, 5, 7], &[1, 3, 5, 7]].contains(&&seen[..]), "{seen:?}");
        };
        explore(1, scene);
    }
}
