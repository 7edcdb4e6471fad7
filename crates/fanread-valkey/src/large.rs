//! A large map: a `BytesMap` from fields to values.
//!
//! The server runs commands one at a time, and frees a map on another thread only when nothing refers to it any more. So
//! `&mut self` is as exclusive as it says: a value is written over where it is, if there is room.

use std::ops::ControlFlow;

use fanread::bytes_map::Asked;
use fanread::{BytesMap, LoadError, Ref};

use crate::tree::{NoMemory, Span};

/// Keys of a batched lookup that are in flight with their answers on the stack.
const BATCH: usize = 64;

/// What is shown entries: fields and values.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A large map.
pub(crate) struct Large {
    map: BytesMap,
}

impl Large {
    /// Makes a map of entries whose fields ascend strictly.
    pub(crate) fn from_sorted<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        entries: impl Iterator<Item = (F, V)>,
    ) -> Result<Self, NoMemory> {
        match BytesMap::from_sorted(entries) {
            Ok(mut map) => {
                map.keep_recent();
                Ok(Self { map })
            }
            Err(LoadError::OutOfMemory { .. }) => Err(NoMemory),
            Err(broken) => panic!("the caller has checked fields and their order: {broken}"),
        }
    }

    /// A map with the same entries.
    pub(crate) fn copy(&self) -> Result<Self, NoMemory> {
        Self::from_sorted(self.map.pin().iter().map(|(field, value)| (field, Shown(value))))
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes of memory beside the map itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.map.memory_usage().total_bytes()
    }

    /// Shows the value of a field to `look`.
    pub(crate) fn get<R>(&self, field: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> R {
        look(self.map.pin().get(field).as_deref())
    }

    /// As `get`, and calls `meanwhile` while what the lookup waits for first is on its way.
    #[inline]
    pub(crate) fn get_while<R>(
        &mut self,
        field: &[u8],
        asked: Option<Asked>,
        meanwhile: impl FnOnce(),
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let asked = asked.unwrap_or_else(|| self.map.ask(field));
        look(self.map.get_asked(field, asked, meanwhile))
    }

    /// Asks for what a lookup of a field waits for first.
    #[inline]
    pub(crate) fn ask(&self, field: &[u8]) -> Asked {
        self.map.ask(field)
    }

    /// The same before an entry is set.
    pub(crate) fn ask_to_set(&self, field: &[u8]) {
        self.map.ask_to_set(field);
    }

    /// Looks up fields, many at a time, and gives `found` each answer in order.
    pub(crate) fn get_each<'a>(
        &self,
        fields: impl Iterator<Item = &'a [u8]>,
        mut found: impl FnMut(Option<&[u8]>),
    ) {
        let pinned = self.map.pin();
        let mut keys: Vec<&[u8]> = Vec::with_capacity(BATCH);
        let mut flush = |keys: &mut Vec<&'a [u8]>| {
            let mut answers: [Option<Ref<'_, [u8]>>; BATCH] = [const { None }; BATCH];
            pinned.get_batch(keys, &mut answers[..keys.len()]);
            answers[..keys.len()].iter().for_each(|answer| found(answer.as_deref()));
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
        self.map.set(field, value).map_err(|_| NoMemory)
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        self.map.pin().remove(field).is_some()
    }

    /// Shows the entries of a span to `visit`, from the last one if `reverse`.
    pub(crate) fn walk(&self, span: Span<'_>, reverse: bool, visit: &mut Visit<'_>) {
        let pinned = self.map.pin();
        let range = pinned.range((span.start, span.end));
        let mut visit = |(field, value): (fanread::Key<'_>, Ref<'_, [u8]>)| visit(&field, &value);
        // Whether it was ended is the visitor's affair.
        let _ended = if reverse {
            range.rev().try_for_each(&mut visit)
        } else {
            { range }.try_for_each(&mut visit)
        };
    }

    /// Shows entries that chance picks to `visit`, until it breaks.
    pub(crate) fn draw(&self, below: impl FnMut(usize) -> usize, visit: &mut Visit<'_>) {
        let pinned = self.map.pin();
        // Whether it was ended is the visitor's affair.
        let _ended = pinned.draws(below).try_for_each(|(field, value)| visit(&field, &value));
    }
}

/// A value that was found, as what has bytes.
struct Shown<'a>(Ref<'a, [u8]>);

impl AsRef<[u8]> for Shown<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
