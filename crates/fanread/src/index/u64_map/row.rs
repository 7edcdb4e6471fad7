//! Some keys that are looked for together: their lines are asked for, and looked at when other rows have been asked for.
//!
//! Two loops of some forty instructions a key. What they have in common is that a key mostly is in its home, in a segment whose words
//! leave bits out; what else there is comes out as *late*, and is looked for by itself.

use super::raw::Bucket;
use super::table::{Look, Names};
use crate::arch::prefetch_many;
use crate::hash::permute::Scrambler;
use crate::mem::word::Word;
use crate::sync::epoch::Guard;
use crate::sync::version::Version;

/// Keys of a row: a line of a run.
pub(super) const ROW: usize = if cfg!(any(miri, small_leaves)) { 2 } else { 8 };

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

impl<'g> Row<'g> {
    /// One of no keys.
    #[inline(always)]
    pub(super) fn new(names: &'g Names, guard: &'g Guard) -> Self {
        let (bucket, version) = names.segment(0, guard).home_of(0);
        let (buckets, versions) = ([bucket; ROW], [version; ROW]);
        Self { hashes: [0; ROW], buckets, versions, len: 0, is_small: false }
    }

    /// Asks for the lines of keys, at most as many as a row has.
    #[inline(always)]
    pub(super) fn ask(
        &mut self,
        names: &'g Names,
        spelling: &Scrambler,
        keys: &[u64],
        guard: &'g Guard,
    ) {
        let mut is_small = false;
        let mut ask = |i: usize, key: u64| {
            let hash = spelling.hash(key);
            let segment = names.segment(hash, guard);
            is_small |= !segment.geometry.tells();
            let (bucket, version) = segment.home_of(segment.geometry.home(hash));
            prefetch_many(bucket);
            (self.hashes[i], self.buckets[i], self.versions[i]) = (hash, bucket, version);
        };
        if let Some(keys) = keys.as_array::<ROW>() {
            unrolled!(i => ask(i, keys[i]));
        } else {
            keys.iter().take(ROW).enumerate().for_each(|(i, key)| ask(i, *key));
        }
        (self.len, self.is_small) = (keys.len().min(ROW), is_small);
    }

    /// Looks at the lines that were asked for, and tells what they say of each key; returns of which they do not tell, a bit for
    /// each. The next lines of these are asked for.
    #[inline(always)]
    pub(super) fn look(&self, mut found: impl FnMut(usize, Option<Word>)) -> u64 {
        if self.is_small {
            return (1 << self.len) - 1;
        }
        let mut late = 0;
        let mut look = |i: usize| match self.buckets[i].look(self.hashes[i], self.versions[i]) {
            Look::Value(word) => found(i, Some(word)),
            Look::Absent => found(i, None),
            Look::Unknown => late |= 1 << i,
        };
        if self.len == ROW {
            unrolled!(i => look(i));
        } else {
            (0..self.len.min(ROW)).for_each(look);
        }
        late
    }
}
