//! A large map: an `OrderedMap` from fields to the words of `value.rs`, which it owns.
//!
//! # Invariants
//!
//! * **L1** Each word in the map came from `Word::new`, and is in it once.
//! * **L2** `value_bytes` is what these words' allocations take.
//!
//! The server runs commands one at a time, and frees a map on another thread only when nothing refers to it any more. So there
//! is no concurrent reader, and `&mut self` is as exclusive as it says: a word that was replaced or removed is freed at once.

use std::ops::ControlFlow;

use fanread::{LoadError, OrderedMap, Ref};

use crate::tree::{NoMemory, Span};
use crate::value::{Bytes, Word};

/// Keys of a batched lookup that are in flight with their answers on the stack.
const BATCH: usize = 64;

/// What is shown entries: fields and values.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A large map.
pub(crate) struct Large {
    map: OrderedMap<u64>,
    value_bytes: usize,
}

impl Large {
    /// Makes a map of entries whose fields ascend strictly.
    pub(crate) fn from_sorted<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        entries: impl Iterator<Item = (F, V)>,
    ) -> Result<Self, NoMemory> {
        let mut value_bytes = 0;
        let mut short = false;
        let words = entries.map_while(|(field, value)| {
            let word = Word::new(value.as_ref());
            short |= word.is_none();
            value_bytes += Word::heap_bytes(value.as_ref().len());
            Some((field, word?.raw()))
        });
        match OrderedMap::from_sorted(words) {
            Ok(map) => {
                // From here on dropping it frees what it has.
                let large = Self { map, value_bytes };
                if short { Err(NoMemory) } else { Ok(large) }
            }
            Err(LoadError::OutOfMemory { .. }) => Err(NoMemory),
            Err(broken) => panic!("the caller has checked fields and their order: {broken}"),
        }
    }

    /// A map with the same entries.
    pub(crate) fn copy(&self) -> Result<Self, NoMemory> {
        let pinned = self.map.pin();
        Self::from_sorted(pinned.iter().map(|(field, word)| (field, self.bytes(*word))))
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes of memory beside the map itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.map.memory_usage().total_bytes() + self.value_bytes
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<Bytes<'_>> {
        let word = *self.map.pin().get(field)?;
        Some(self.bytes(word))
    }

    /// Looks up fields, many at a time, and gives `found` each answer in order.
    pub(crate) fn get_each<'a>(
        &self,
        fields: impl Iterator<Item = &'a [u8]>,
        mut found: impl FnMut(Option<Bytes<'_>>),
    ) {
        let pinned = self.map.pin();
        let mut keys: Vec<&[u8]> = Vec::with_capacity(BATCH);
        let mut flush = |keys: &mut Vec<&'a [u8]>| {
            let mut answers: [Option<Ref<'_, u64>>; BATCH] = [None; BATCH];
            pinned.get_batch(keys, &mut answers[..keys.len()]);
            for answer in &answers[..keys.len()] {
                found(answer.map(|word| self.bytes(*word)));
            }
            keys.clear();
        };
        for field in fields {
            keys.push(field);
            if keys.len() == BATCH {
                flush(&mut keys);
            }
        }
        flush(&mut keys);
    }

    /// Sets an entry; returns whether its field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> Result<bool, NoMemory> {
        if let Some(word) = self.map.pin().get(field).map(|word| *word) {
            // SAFETY: a word of the map (L1); `&mut self` says that nobody has its bytes.
            if unsafe { Word::from_raw(word).overwrite(value) } {
                return Ok(false);
            }
        }
        let word = Word::new(value).ok_or(NoMemory)?;
        let Ok(old) = self.map.pin().try_insert(field, word.raw()).map(|old| old.map(|old| *old))
        else {
            // SAFETY: the map has not taken the new word, and nobody else has seen it.
            unsafe { word.free() };
            return Err(NoMemory);
        };
        self.value_bytes += Word::heap_bytes(value.len());
        if let Some(old) = old {
            self.free(old);
        }
        Ok(old.is_none())
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let old = self.map.pin().remove(field).map(|old| *old);
        old.inspect(|old| self.free(*old)).is_some()
    }

    /// Shows the entries of a span to `visit`, from the last one if `reverse`.
    pub(crate) fn walk(&self, span: Span<'_>, reverse: bool, visit: &mut Visit<'_>) {
        let pinned = self.map.pin();
        let range = pinned.range((span.start, span.end));
        let mut visit =
            |(field, word): (fanread::Key<'_>, Ref<'_, u64>)| visit(&field, &self.bytes(*word));
        // Whether it was ended is the visitor's affair.
        let _ended = if reverse {
            range.rev().try_for_each(&mut visit)
        } else {
            { range }.try_for_each(&mut visit)
        };
    }

    /// The bytes of a word that was read from the map.
    #[expect(clippy::unused_self, reason = "the bytes live as long as the map is not changed")]
    fn bytes(&self, word: u64) -> Bytes<'_> {
        // SAFETY: a word of the map (L1), which is freed only through `&mut self`.
        unsafe { Word::from_raw(word).bytes() }
    }

    /// Frees a word that is no longer in the map.
    fn free(&mut self, word: u64) {
        let word = Word::from_raw(word);
        // SAFETY: it was in the map (L1), once, and no longer is; `&mut self` says that nobody has its bytes.
        unsafe {
            self.value_bytes -= Word::heap_bytes(word.bytes().len());
            word.free();
        }
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        let pinned = self.map.pin();
        for (_, word) in &pinned {
            // SAFETY: each word is in the map once (L1), and the map goes without looking at them again.
            unsafe { Word::from_raw(*word).free() };
        }
    }
}
