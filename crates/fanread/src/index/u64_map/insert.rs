//! Putting entries in.
//!
//! A writer holds the lock of its key's window for both steps: it leaves the key in the order first, then puts the entry into
//! the table. So whatever the table has, the order has too.

use super::raw::{self, Garbage, read_value};
use super::search::WRITES;
use super::{Pinned, U64Map};
use crate::api::{InsertError, LoadError, Outcome, Rule, Written, take_batch};
use crate::directory::Place;
use crate::mem::AllocError;
use crate::mem::boxed;
use crate::mem::word::Word;
use crate::sync::backoff::Backoff;

impl<V: Send + Sync> U64Map<V> {
    /// Maps `key` to `value` if the rule allows it.
    #[inline]
    pub(super) fn write<'g>(
        &'g self,
        pinned: &'g Pinned<'_, V>,
        key: u64,
        value: V,
        rule: Rule,
    ) -> Result<Written<'g, V>, InsertError<V>> {
        let word = match boxed::word_of_value(value) {
            Ok(word) => word,
            Err((AllocError { bytes }, value)) => {
                return Err(InsertError::OutOfMemory { bytes, value });
            }
        };
        let mut garbage = Vec::new();
        let outcome = self.write_word(pinned, (key, true), word, rule, &mut garbage);
        if let Ok(Outcome::Replaced(old)) = outcome {
            garbage.extend(raw::garbage_of(old));
        }
        // A value that was refused is its owner's before user code runs.
        let written = Outcome::written(outcome, word, read_value);
        if !garbage.is_empty() {
            // User code runs here, that panics or not: the write is done.
            self.retire(pinned, garbage);
        }
        if self.left.is_any() {
            self.free_left(pinned);
        }
        written
    }

    /// Writes a word for a key, whose place in the order is seen to or not.
    #[inline]
    fn write_word(
        &self,
        pinned: &Pinned<'_, V>,
        (key, ordered): (u64, bool),
        word: Word,
        rule: Rule,
        garbage: &mut Vec<Garbage<V>>,
    ) -> Result<Outcome, AllocError> {
        let guard = &pinned.guard;
        let hash = self.spelling.hash(key);
        let mut backoff = Backoff::new();
        loop {
            let Some(segment) = self.segment(hash, guard) else {
                if let Rule::Same(_) = rule {
                    return Ok(Outcome::Refused(None));
                }
                self.make_first(guard)?;
                continue;
            };
            segment.ask_wide(hash);
            segment.ask_to_lock(hash);
            // While the line of the table is on its way, if it is likely to be needed.
            let is_likely_new = ordered && !self.replacing.is_likely();
            let run = if is_likely_new { self.order.run_to_add(key, guard) } else { None };
            let Ok(mut held) = segment.lock(hash) else {
                self.wait_for(guard, (segment, &mut backoff), garbage);
                continue;
            };
            let Ok(place) = segment.slot(&mut held, hash) else {
                drop(held);
                backoff.wait();
                continue;
            };
            match place {
                Place::Entry(at) => {
                    let old = segment.value(at);
                    if !rule.allows(old) {
                        return Ok(Outcome::Refused(Some(old)));
                    }
                    segment.set_value(at, word);
                    self.replacing.note(hash as u32, true);
                    return Ok(Outcome::Replaced(old));
                }
                _ if matches!(rule, Rule::Same(_)) => return Ok(Outcome::Refused(None)),
                Place::Free(at, gone) => {
                    if ordered {
                        let run = run.or_else(|| self.order.run_to_add(key, guard));
                        self.order.add(key, run, guard, garbage)?;
                    }
                    segment.put(&held, at, gone, (hash, word));
                    drop(held);
                    self.replacing.note(hash as u32, false);
                    self.shards.added(pinned.thread, 1);
                    return Ok(Outcome::New);
                }
                Place::Full => {
                    drop(held);
                    self.rebuild(guard, (segment, &mut backoff), garbage)?;
                }
            }
        }
    }
}

impl<V: Send + Sync> Pinned<'_, V> {
    /// Inserts all `entries` as [`insert_batch`](Self::insert_batch) does.
    ///
    /// # Cost
    ///
    /// The line fetches of as many [`insert`](Self::insert)s, those of 32 keys at once.
    ///
    /// # Errors
    ///
    /// Those of [`try_insert`](Self::try_insert), for the first entry that cannot be inserted. Entries before it are in the map, and
    /// none behind it.
    pub fn try_insert_batch(
        &self,
        entries: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<(), InsertError<V>> {
        let mut entries = entries.into_iter().fuse();
        loop {
            let (mut batch, taken) = take_batch::<_, WRITES>(&mut entries);
            for (key, _) in batch.iter().flatten() {
                self.map.ask(*key, &self.guard);
                let _ = self.map.order.run_to_add(*key, &self.guard);
            }
            for entry in &mut batch {
                let Some((key, value)) = entry.take() else {
                    taken.resume();
                    return Ok(());
                };
                self.map.write(self, key, value, Rule::Always)?;
            }
        }
    }

    /// Puts entries into the table of a map whose order is made by somebody else, and empties `entries`.
    pub(super) fn load(&self, entries: &mut Vec<(u64, V)>) -> Result<(), LoadError> {
        let map = self.map;
        for (key, _) in &*entries {
            map.ask(*key, &self.guard);
        }
        let mut garbage = Vec::new();
        for (key, value) in entries.drain(..) {
            let word = boxed::word_of_value(value).map_err(|(error, _)| error)?;
            if let Err(error) = map.write_word(self, (key, false), word, Rule::Always, &mut garbage)
            {
                drop(boxed::value_of_word::<V>(word));
                return Err(error.into());
            }
        }
        if !garbage.is_empty() {
            map.retire(self, garbage);
        }
        Ok(())
    }
}
