//! Guides: where the keys of a run are, as the list of runs remembers it, or the runs of a chunk, as the top does.
//!
//! A guide has 16 marks at equal ranks: how far the keys there are above where the interval begins, in 23 bits. The marks that are
//! below a key say between which two it is, and there it is where keys that are spread evenly would have it. So clusters do no harm
//! if they are wider than a part of 2^23 of what the keys span, and random keys are nearly where they should be.
//!
//! Guides change while they are read, and may be those of what was there before, or of both. Lines are asked for by them, and
//! looked at first, and nothing else.

use core::sync::atomic::Ordering::Relaxed;

use super::run::{Count, LINE, MOST_WORDS, Run, WINDOW};
use crate::arch::{Avx512, Eights, prefetch, prefetch_to_write};
use crate::sync::shim::{self, AtomicU64};

/// Marks of a guide: a line of them.
const MARKS: usize = 16;

/// Marks of a word.
const IN_WORD: usize = 2;

/// The largest mark. Times the keys of a run it fits into 32 bits, which are divided sooner than 64.
const LAST: u32 = (1 << 23) - 1;

/// Where the keys of an interval are.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Guide {
    /// Two in a word, ascending, the first one below; none above `LAST`.
    marks: [AtomicU64; MARKS / IN_WORD],
}

impl Guide {
    /// One that knows of no keys.
    pub(super) fn new() -> Self {
        Self {
            marks: core::array::from_fn(|_| {
                AtomicU64::new(u64::from(LAST) << 32 | u64::from(LAST))
            }),
        }
    }

    /// Describes ascending keys, of which `key` tells any; returns what a reader has to know beside the marks.
    pub(super) fn set(&self, low: u64, count: usize, key: impl Fn(usize) -> u64) -> Scale {
        let span = count.checked_sub(1).map_or(0, |last| key(last) - low);
        let scale = Scale {
            count,
            shift: (64 - LAST.trailing_ones()).saturating_sub(span.leading_zeros()),
        };
        let mark = |at: usize| match count {
            0 => LAST,
            _ => scale.place(key(((at + 1) * count / MARKS).saturating_sub(1)) - low),
        };
        for (at, word) in self.marks.iter().enumerate() {
            let marks = (0..IN_WORD).map(|i| u64::from(mark(IN_WORD * at + i)) << (32 * i));
            // Relaxed: a guess.
            word.store(marks.sum(), Relaxed);
        }
        scale
    }

    pub(super) fn copy(&self) -> Self {
        // Relaxed: as above.
        Self { marks: self.marks.each_ref().map(|word| AtomicU64::new(word.load(Relaxed))) }
    }

    /// Takes over what another one says.
    pub(super) fn set_to(&self, other: &Self) {
        for (word, other) in self.marks.iter().zip(&other.marks) {
            // Relaxed: as above.
            word.store(other.load(Relaxed), Relaxed);
        }
    }

    #[inline(always)]
    fn mark(&self, at: usize) -> u32 {
        // Relaxed: as above.
        (self.marks[at / IN_WORD].load(Relaxed) >> (32 * (at % IN_WORD))) as u32
    }

    /// How many marks are below a place.
    #[inline(always)]
    fn below(&self, place: u32, kernel: Option<Avx512>) -> usize {
        if let (Some(kernel), Some(marks)) = (kernel, self.marks.as_array()) {
            return kernel.count_halves_below(shim::line(marks), place);
        }
        // By halves, without a branch.
        let mut below = 0;
        for some in [8, 4, 2, 1, 1] {
            below += if self.mark(below + some - 1) < place { some } else { 0 };
        }
        below
    }

    /// How many of the keys are below one that is `above` the beginning of the interval, nearly.
    #[inline(always)]
    pub(super) fn guess(&self, scale: Scale, above: u64, kernel: Option<Avx512>) -> usize {
        let place = scale.place(above);
        let below = self.below(place, kernel);
        if below == MARKS {
            return scale.count;
        }
        // Between the last mark below it and the next one.
        let from = if below == 0 { 0 } else { self.mark(below - 1) };
        // What another guide's scale makes of it does no harm.
        let inside = place.saturating_sub(from).wrapping_mul(scale.count as u32);
        let part = inside / (self.mark(below).saturating_sub(from) + 1);
        (below * scale.count + part as usize) / MARKS
    }
}

/// What is to be known of keys beside the marks of their guide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) count: usize,
    /// Bits that are left out below a mark.
    shift: u32,
}

impl Scale {
    /// Where the shift is in a word.
    const SHIFT: u32 = 32;

    /// It as a word, of whose bits those from 16 to 31 are free.
    pub(super) fn word(self) -> u64 {
        self.count as u64 | u64::from(self.shift) << Self::SHIFT
    }

    #[inline(always)]
    pub(super) fn of(word: u64) -> Self {
        Self { count: usize::from(word as u16 % 512), shift: (word >> Self::SHIFT) as u32 % 64 }
    }

    /// The place of a key that is `above` the beginning of the interval.
    #[inline(always)]
    fn place(self, above: u64) -> u32 {
        (above >> self.shift).min(u64::from(LAST)) as u32
    }
}

/// What the list knows of a run beside its guide: the guide's scale, the line where the next key goes, and whether there are fresh
/// keys.
#[derive(Debug)]
pub(super) struct Hint(AtomicU64);

impl Hint {
    /// Where the line is where the next key goes.
    const END: u32 = 16;

    /// Where the bit is that says that there are fresh keys.
    const FRESH: u32 = 24;

    /// The bits of both.
    const ENDS: u64 = 0xffff << Self::END;

    #[inline(always)]
    fn end(Count { sorted, len }: Count) -> u64 {
        ((len / LINE) as u64) << Self::END | u64::from(len > sorted) << Self::FRESH
    }

    /// That of a run, and its guide.
    pub(super) fn of(run: &Run) -> (Self, Guide) {
        let (hint, guide) = (Self(AtomicU64::new(0)), Guide::new());
        hint.set(&guide, run);
        (hint, guide)
    }

    /// Describes another run, and has its guide do so.
    pub(super) fn set(&self, guide: &Guide, run: &Run) {
        let count = run.count();
        let scale = guide.set(run.low(), count.sorted, |at| run.key(at));
        // Relaxed: a guess.
        self.0.store(scale.word() | Self::end(count), Relaxed);
    }

    /// Takes notice that keys of the run go to another line from now on. The caller holds its lock.
    #[inline(always)]
    pub(super) fn set_end(&self, run: &Run) {
        let count = run.count();
        if count.len.is_multiple_of(LINE) || count.len == count.sorted + 1 {
            // Relaxed: as above. Nobody else describes this run meanwhile.
            let rest = self.0.load(Relaxed) & !Self::ENDS;
            self.0.store(rest | Self::end(count), Relaxed);
        }
    }

    /// Asks for the lines of a run that an insertion needs: the first, and that where the key goes.
    #[inline(always)]
    pub(super) fn ask_for_end(&self, run: &Run) {
        run.version.ask_to_lock();
        // Relaxed: as above.
        let line = (self.0.load(Relaxed) >> Self::END) as u8;
        prefetch_to_write(core::ptr::from_ref(run).wrapping_add(1 + usize::from(line)));
    }

    pub(super) fn copy(&self) -> Self {
        // Relaxed: as above.
        Self(AtomicU64::new(self.0.load(Relaxed)))
    }

    /// Asks for the lines of a run of which a search for a key needs some: the first, those where the key should be, and those
    /// of fresh keys. Returns where the key should be: the first of the words that are looked at for it.
    #[inline(always)]
    pub(super) fn ask(
        &self,
        guide: &Guide,
        run: &Run,
        above: u64,
        kernel: Option<Avx512>,
    ) -> usize {
        prefetch(run);
        // Relaxed: as above.
        let facts = self.0.load(Relaxed);
        let words = core::ptr::from_ref(run).wrapping_add(1).cast::<u64>();
        let scale = Scale::of(facts);
        let from = guide.guess(scale, above, kernel).saturating_sub(LINE / 2) / LINE * LINE;
        for line in 0..WINDOW / LINE {
            prefetch(words.wrapping_add(from + line * LINE));
        }
        if facts >> Self::FRESH & 1 != 0 {
            for line in scale.count / LINE..=usize::from((facts >> Self::END) as u8) {
                prefetch(words.wrapping_add(line * LINE));
            }
        }
        from
    }
}

const _: () = assert!(MOST_WORDS < 512 && MOST_WORDS / LINE < 1 << 8);

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use testkit::Rng;

    /// How many of some keys a guide is further off than by `most`, asked for numbers between them.
    fn missed(keys: &[u64], most: usize) -> usize {
        let guide = Guide::new();
        let scale = guide.set(keys[0], keys.len(), |at| keys[at]);
        let near = |pair: &[u64]| pair[0] + (pair[1] - pair[0]) / 2;
        let asked = keys.windows(2).map(near).chain([keys[0], keys[keys.len() - 1], u64::MAX]);
        let far = |key: u64| {
            let below = keys.partition_point(|other| *other < key);
            let guess = guide.guess(scale, key - keys[0], Avx512::detect());
            assert_eq!(guess, guide.guess(scale, key - keys[0], None), "{key}");
            guess.abs_diff(below) > most
        };
        asked.filter(|key| far(*key)).count()
    }

    #[test]
    fn keys_are_nearly_where_a_guide_says() {
        let mut rng = Rng::new(3);
        let mut sets: Vec<(Vec<u64>, usize)> = vec![
            ((0..330).collect(), 0),
            ((0..400).map(|i| u64::MAX - 3 * i).rev().collect(), 0),
            ((0..300).map(|_| rng.next_u64()).collect(), 3),
            // Clusters far from each other: beside each gap there are some keys that a guide cannot tell from those behind it.
            ((0..300).map(|i| ((i / 70) << 33) | (rng.next_u64() % 65_536)).collect(), 70),
        ];
        for (keys, most) in &mut sets {
            keys.sort_unstable();
            keys.dedup();
            let missed = missed(keys, 7);
            assert!(missed <= *most, "{missed} of {keys:?}");
        }
    }

    #[test]
    fn any_number_of_keys_has_a_guide() {
        for count in 1..40 {
            let keys: Vec<u64> = (0..count).map(|i| i << 40 | 5).collect();
            assert_eq!(missed(&keys, keys.len()), 0);
        }
        let guide = Guide::new();
        let scale = guide.set(7, 0, |_| unreachable!("there are no keys"));
        for kernel in [None, Avx512::detect()] {
            assert_eq!([0, 1, u64::MAX].map(|above| guide.guess(scale, above, kernel)), [0; 3]);
        }
    }

    #[test]
    fn a_guide_of_other_keys_does_no_harm() {
        let mut rng = Rng::new(4);
        for _ in 0..1000 {
            let guide = Guide::new();
            for word in &guide.marks {
                let mut mark = || (rng.next_u64() >> (rng.next_u64() % 64)) & u64::from(LAST);
                let [low, high] = [mark(), mark()];
                word.store(high << 32 | low, Relaxed);
            }
            let scale =
                Scale { count: (rng.next_u64() % 512) as usize, shift: rng.next_u64() as u32 % 64 };
            for kernel in [None, Avx512::detect()] {
                let _ = guide.guess(scale, rng.next_u64() >> (rng.next_u64() % 64), kernel);
            }
        }
    }
}
