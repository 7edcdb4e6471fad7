//! Finding several keys at once: the lines where most are first, and all others for those that were not there.

use super::raw::read_value;
use super::search::{Deepest, Levels, USUAL};
use super::{MlpIndex, Pinned, Ref};
use crate::arch::prefetch_many;
use crate::batch::Bits;
use crate::mem::word::Read;

/// How many keys of a batch are looked for at once.
///
/// One line each at first, into the second-level cache: 16 do not keep as many on their way as a core can.
const BATCH: usize = if cfg!(miri) { 2 } else { 64 };

/// Up to how many have room of their own: to make that for many takes longer than a few searches.
const FEW: usize = if cfg!(miri) { 1 } else { 32 };

/// How many entries of a batch are inserted at once.
pub(super) const INSERTS: usize = if cfg!(miri) { 2 } else { 32 };

impl<V> Pinned<'_, V> {
    /// Looks up all `keys` and stores the answer for `keys[i]` in `found[i]`.
    ///
    /// # Cost
    ///
    /// Less than the line fetches of as many [`get`](Self::get)s, those of 64 keys at once: one line where most keys are, the
    /// others only for keys that are not found in it. Allocates nothing.
    ///
    /// # Concurrency
    ///
    /// Each key's lookup takes effect by itself, as a `get` at some instant of the call.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    ///
    /// # Examples
    ///
    /// ```
    /// use fanread::MlpIndex;
    ///
    /// let map = MlpIndex::new();
    /// let pinned = map.pin();
    /// pinned.insert(1, 'a');
    /// let mut found = [const { None }; 2];
    /// pinned.get_batch(&[1, 2], &mut found);
    /// assert_eq!(found[0].as_deref(), Some(&'a'));
    /// assert!(found[1].is_none());
    /// ```
    #[track_caller]
    pub fn get_batch<'g>(&'g self, keys: &[u64], found: &mut [Option<Ref<'g, V>>]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.map(Ref::new));
    }

    /// Looks up all `keys` and stores in `found[i]` whether `keys[i]` has a value; as [`get_batch`](Self::get_batch).
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn contains_batch(&self, keys: &[u64], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "as many answers as keys");
        self.find_all(keys, |index, read| found[index] = read.is_some());
    }

    /// Looks up keys, as many at a time as there are, up to some.
    #[inline(always)]
    fn find_all<'g>(&'g self, keys: &[u64], found: impl FnMut(usize, Option<Read<'g, V>>)) {
        if keys.len() <= FEW {
            self.find_some::<FEW>(keys, found);
        } else {
            self.find_some::<BATCH>(keys, found);
        }
    }

    /// Looks up keys, `MOST` at a time.
    fn find_some<'g, const MOST: usize>(
        &'g self,
        keys: &[u64],
        mut found: impl FnMut(usize, Option<Read<'g, V>>),
    ) {
        const { assert!(MOST <= u64::BITS as usize, "a bit for each") };
        let map = self.map;
        let Some(tables) = map.tables(&self.guard) else {
            (0..keys.len()).for_each(|index| found(index, None));
            return;
        };
        for (at, keys) in keys.chunks(MOST).enumerate() {
            let Levels { first: most, others } = map.levels();
            let mut found = |i: usize, read| found(at * MOST + i, read);
            let mut firsts = [None; MOST];
            for (first, key) in firsts.iter_mut().zip(keys) {
                let home = tables.group(map.hash(most, *key));
                prefetch_many(home.pair[0]);
                *first = Some(home);
            }
            // All other lines only for those who need them: the lines are what bounds a batch.
            let (mut left, mut asked) = (0_u64, [[None; USUAL - 1]; MOST]);
            for (i, (first, key)) in firsts.iter().zip(keys).enumerate() {
                let Some(home) = first else { continue };
                if let Some(word) = MlpIndex::<V>::find_in([home.pair[0]], *key) {
                    found(i, Some(read_value(word)));
                    continue;
                }
                left |= 1 << i;
                prefetch_many(home.pair[1]);
                for (asked, level) in asked[i].iter_mut().zip(Deepest(others)) {
                    *asked = Some((level, map.ask(tables, level, *key)));
                }
            }
            for i in Bits(left) {
                let (Some(first), key) = (firsts[i], keys[i]) else { continue };
                let read = match MlpIndex::<V>::find_in([first.pair[1]], key) {
                    Some(word) => Some(read_value(word)),
                    None => map.find_beyond(tables, key, (most, first), &asked[i], &self.guard),
                };
                found(i, read);
            }
        }
    }
}
