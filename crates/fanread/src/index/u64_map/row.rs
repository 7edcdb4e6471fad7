//! Some keys that are looked for together: they are taken, their lines are asked for, and looked at when other rows have been asked for.
//!
//! What keys have in common is that one mostly is in its home, in a segment whose words leave bits out; what else there is comes
//! out as *late*, and is looked for by itself. Eight keys are hashed by one kernel and found by another where the processor has
//! them (`arch::Eights`), so that a key takes some fifty instructions, or else in two loops of twice as many.

use super::raw::{self, Bucket};
use super::table::{Look, Names};
use crate::arch::{Avx512, Eights, Wanted, prefetch_many};
use crate::directory::{Bucket as _, Spelling};
use crate::hash::permute::Scrambler;
use crate::mem::word::Word;
use crate::sync::epoch::Guard;
use crate::sync::version::Version;

/// Keys of a row: a line of a run.
pub(super) const ROW: usize = if cfg!(any(miri, small_leaves)) { 2 } else { 8 };

/// Bits of all keys of a row.
pub(super) const ALL: u64 = (1 << ROW) - 1;

/// Does something for each key of a whole row: without a loop, whose end would be guessed wrongly behind branches that go either way.
macro_rules! unrolled {
    ($i:ident => $each:expr) => {
        unrolled!($i => $each, 0 1 2 3 4 5 6 7)
    };
    ($i:ident => $each:expr, $($number:literal)*) => {
        $(
            if $number < ROW {
                let $i = $number;
                $each;
            }
        )*
    };
}
pub(super) use unrolled;

/// Where keys are looked for first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'g> {
    hashes: [u64; ROW],
    buckets: [&'g Bucket; ROW],
    versions: [&'g Version; ROW],
    len: usize,
    /// Whether one of the keys is in a segment whose words leave nothing out: then all are looked for one by one.
    is_small: bool,
}

/// What the lines of a row say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    /// The keys whose values were found, a bit for each.
    pub(super) found: u64,
    /// The keys of which the lines do not tell. The next lines of these were asked for.
    pub(super) late: u64,
}

impl<'g> Row<'g> {
    /// One of no keys.
    #[inline(always)]
    pub(super) fn new(names: &'g Names, guard: &'g Guard) -> Self {
        let (bucket, version) = names.segment(0, guard).home_of(0);
        let (buckets, versions) = ([bucket; ROW], [version; ROW]);
        Self { hashes: [0; ROW], buckets, versions, len: 0, is_small: false }
    }

    /// Takes keys, at most as many as a row has, and hashes them.
    ///
    /// Three products wait for each other, some sixty cycles, and [`ask`](Self::ask) for these: where rows follow each other, one is taken
    /// before the one before it is asked for.
    #[inline(always)]
    pub(super) fn take(&mut self, (spelling, kernel): (&Scrambler, Option<Avx512>), keys: &[u64]) {
        self.len = keys.len().min(ROW);
        if let Some(keys) = keys.as_array::<ROW>() {
            if let Some(kernel) = kernel
                && let (Some(keys), Some(hashes)) = (keys.as_array(), self.hashes.as_mut_array())
            {
                spelling.hash_eight(kernel, keys, hashes);
            } else {
                unrolled!(i => self.hashes[i] = spelling.hash(keys[i]));
            }
        } else {
            for (hash, key) in self.hashes.iter_mut().zip(keys) {
                *hash = spelling.hash(*key);
            }
        }
    }

    /// Asks for the lines of the keys it took.
    #[inline(always)]
    pub(super) fn ask(&mut self, names: &'g Names, guard: &'g Guard) {
        let mut untold = 0;
        let mut ask = |hash: u64| {
            let segment = names.segment(hash, guard);
            untold |= segment.geometry.untold();
            let (bucket, version) = segment.home_of(segment.geometry.home(hash));
            prefetch_many(bucket);
            (bucket, version)
        };
        if self.len == ROW {
            unrolled!(i => (self.buckets[i], self.versions[i]) = ask(self.hashes[i]));
        } else {
            for i in 0..self.len.min(ROW) {
                (self.buckets[i], self.versions[i]) = ask(self.hashes[i]);
            }
        }
        self.is_small = untold != 0;
    }

    /// The hash of a key.
    #[inline(always)]
    pub(super) fn hash(&self, i: usize) -> u64 {
        self.hashes[i]
    }

    /// Looks at the lines that were asked for; stores the values of keys that were found.
    #[inline(always)]
    pub(super) fn look(&self, kernel: Option<Avx512>, values: &mut [Word; ROW]) -> Told {
        if self.len == ROW
            && !self.is_small
            && let (Some(kernel), Some(values)) = (kernel, values.as_mut_array())
            && let Some(told) = self.look_at_eight(kernel, values)
        {
            return told;
        }
        self.look_at_each(values)
    }

    /// The same for a whole row of a large table; `None` if rows have another length.
    #[inline(always)]
    fn look_at_eight(&self, kernel: Avx512, values: &mut [Word; 8]) -> Option<Told> {
        let (words, buckets) = (self.hashes.as_array()?, self.buckets.as_array()?);
        let told = Spelling::told::<Bucket>();
        let wanted = Wanted { words, with: told.taken(), mask: told.mask };
        // ORDER: the kernel loads a version first and last, as `Version::begin` and `end` do.
        let finds = kernel.find(wanted, raw::shelves(buckets, self.versions.as_array()?), values);
        if <Version>::has_changed(finds.changed) {
            return Some(Told { found: 0, late: ALL });
        }
        let mut late = finds.absent;
        if late.count_ones() as usize > ROW / 2 {
            // Absent keys are looked for: no branch for each.
            let passed =
                |i: usize| u64::from(self.buckets[i].is_passed(self.hashes[i], told.mask)) << i;
            let mut all = 0;
            unrolled!(i => all |= passed(i));
            late &= all;
        }
        let mut rest = late;
        while rest != 0 {
            let i = rest.trailing_zeros() as usize % ROW;
            // A key whose home was not passed was absent when the bucket was looked at.
            if self.buckets[i].is_passed(self.hashes[i], told.mask) {
                self.buckets[i].ask_next();
            } else {
                late &= !(1 << i);
            }
            rest &= rest - 1;
        }
        Some(Told { found: ALL & !finds.absent, late })
    }

    /// The same key by key.
    #[inline(always)]
    fn look_at_each(&self, values: &mut [Word; ROW]) -> Told {
        if self.is_small {
            return Told { found: 0, late: (1 << self.len) - 1 };
        }
        let mut told = Told { found: 0, late: 0 };
        let mut look = |i: usize| match self.buckets[i].look(self.hashes[i], self.versions[i]) {
            Look::Value(word) => {
                values[i] = word;
                told.found |= 1 << i;
            }
            Look::Absent => {}
            Look::Unknown => told.late |= 1 << i,
        };
        if self.len == ROW {
            unrolled!(i => look(i));
        } else {
            (0..self.len.min(ROW)).for_each(look);
        }
        told
    }
}
