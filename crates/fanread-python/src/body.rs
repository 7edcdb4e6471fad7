//! What a `SortedMap` keeps its entries in: an [`OrderedMap`] on encoded keys, or a [`U64Map`] as long as all keys are ints of one
//! window of 2^64 numbers.
//!
//! ```text
//! empty --> words from -2^63 --> words from 0 --> bytes
//! ```
//!
//! A map of ints begins on the left. The first int that is not in its window makes it move on: all entries are put into another
//! body, which takes the place of the first one when it is whole, so a move that finds no memory has changed nothing. A map that has
//! lost all of its entries may begin anew.
//!
//! A value is the pointer to its object, a [`Word`]; see `map.rs` for who counts references. Here all is used with the interpreter
//! attached, and no code of Python's runs (G1).
//!
//! # Invariants
//!
//! * **W1** The word of an int in a body of words is how far the int is from the window's first; so words sort as ints do.

use core::mem::ManuallyDrop;
use core::ops::Bound as Edge;

use fanread::{InsertError, LoadError, OrderedMap, U64Map};
use pyo3::prelude::*;

use crate::cursor::{Copied, Ends};
use crate::key::{self, Key, OwnedKey};

/// A reference that a map owns.
pub(crate) type Word = ManuallyDrop<Py<PyAny>>;

/// Takes over the reference of a word that is in no map any more.
///
/// # Safety
///
/// The word was taken out of a map, and nobody else takes it over.
unsafe fn owned(word: &Word) -> Py<PyAny> {
    // SAFETY: the word's reference was the map's (G2), and is the caller's now.
    ManuallyDrop::into_inner(unsafe { core::ptr::read(word) })
}

/// Copies the pointer of a reference for a map, without a reference of its own.
///
/// # Safety
///
/// Either the copy is forgotten, or what it was copied from.
unsafe fn copy_of(value: &Py<PyAny>) -> Word {
    // SAFETY: bits of a `Py` are moved into a `ManuallyDrop`, which drops nothing; the caller sees to the rest.
    ManuallyDrop::new(unsafe { core::ptr::read(value) })
}

/// The first numbers of windows: one for numbers with a sign, and one for those without.
const WINDOWS: [i64; 2] = [i64::MIN, 0];

/// The word of a number in a window, if it is there (W1).
#[inline]
fn word_in(first: i64, number: i128) -> Option<u64> {
    u64::try_from(number - i128::from(first)).ok()
}

/// The number of a word.
#[inline]
pub(crate) fn number_of(first: i64, word: u64) -> i128 {
    i128::from(first) + i128::from(word)
}

/// The entries of a map.
pub(crate) enum Body {
    /// Keys of any kind.
    Bytes(Box<OrderedMap<Word>>),
    /// Ints of a window, and the first number of that.
    Words(Box<U64Map<Word>>, i64),
}

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Box::default())
    }
}

impl Body {
    /// An empty one for keys, in one of some windows if these are in it.
    fn fitting(windows: &[i64], keys: [Key<'_>; 2]) -> Self {
        let fits = |first: &&i64| keys.iter().all(|key| key.word(**first).is_some());
        windows
            .iter()
            .find(fits)
            .map_or_else(Self::default, |first| Self::Words(Box::default(), *first))
    }

    /// Whether a key can be inserted; if not, it is not there.
    #[inline]
    pub(crate) fn takes(&self, key: Key<'_>) -> bool {
        match self {
            Self::Bytes(_) => true,
            Self::Words(_, first) => key.word(*first).is_some(),
        }
    }

    /// An empty body for a first key, if this one, which is empty, is not as good.
    pub(crate) fn begun(&self, key: Key<'_>) -> Option<Self> {
        let new = Self::fitting(&WINDOWS, [key; 2]);
        let same = match (self, &new) {
            (Self::Bytes(_), Self::Bytes(_)) => true,
            (Self::Words(_, first), Self::Words(_, other)) => first == other,
            _ => false,
        };
        (!same).then_some(new)
    }

    /// A body with the same entries that takes a key, too. The words are copies: one of the two bodies is to be forgotten, which is
    /// what its drop does.
    pub(crate) fn moved(&self, key: Key<'_>) -> Result<Self, InsertError<Word>> {
        let Self::Words(map, first) = self else { return Ok(Self::default()) };
        let pinned = map.pin();
        let least = pinned.first_key_value().map(|(word, _)| Key::Number(number_of(*first, word)));
        // Not back to a window of before: who adds and removes at both ends in turn would wait for all entries each time. What is
        // in the first window and not below the second's first number is in that, too.
        let ahead = if *first == WINDOWS[0] { &WINDOWS[1..] } else { &[] };
        let new = Self::fitting(ahead, [least.unwrap_or(key), key]);
        for (word, value) in &pinned {
            // SAFETY: bodies drop no references, so one that goes forgets its words.
            let copy = unsafe { copy_of(&value) };
            new.insert_word(Key::Number(number_of(*first, word)), copy)?;
        }
        Ok(new)
    }

    /// A body of entries that ascend by key. The references stay with the caller until it forgets them.
    pub(crate) fn from_sorted(entries: &[(OwnedKey, Py<PyAny>)]) -> Result<Self, LoadError> {
        // SAFETY: the caller forgets what is copied, or the body.
        let copy = |value: &Py<PyAny>| unsafe { copy_of(value) };
        let fits = |first: &i64| entries.iter().all(|(key, _)| key.as_key().word(*first).is_some());
        if let Some(first) = WINDOWS.into_iter().find(fits) {
            let words = entries
                .iter()
                .filter_map(|(key, value)| Some((key.as_key().word(first)?, copy(value))));
            return Ok(Self::Words(Box::new(U64Map::from_sorted(words)?), first));
        }
        let bytes = entries.iter().map(|(key, value)| (key.as_key().to_vec(), copy(value)));
        Ok(Self::Bytes(Box::new(OrderedMap::from_sorted(bytes)?)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(map) => map.is_empty(),
            Self::Words(map, _) => map.is_empty(),
        }
    }

    /// Bytes of memory, but for the body itself.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Bytes(map) => map.memory_usage().total_bytes(),
            Self::Words(map, _) => map.memory_usage().total_bytes(),
        }
    }

    /// Returns a new reference to the value of a key.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>, key: Key<'_>) -> Option<Py<PyAny>> {
        match self {
            Self::Bytes(map) => {
                map.pin().get(key.bytes(&mut [0; 2])).map(|word| word.clone_ref(py))
            }
            Self::Words(map, first) => {
                map.pin().get(key.word(*first)?).map(|word| word.clone_ref(py))
            }
        }
    }

    #[inline]
    pub(crate) fn contains(&self, key: Key<'_>) -> bool {
        match self {
            Self::Bytes(map) => map.pin().contains_key(key.bytes(&mut [0; 2])),
            Self::Words(map, first) => {
                key.word(*first).is_some_and(|word| map.pin().contains_key(word))
            }
        }
    }

    /// Maps a key, which the body takes, to a value, whose reference it takes over; returns what that replaces.
    ///
    /// # Errors
    ///
    /// If the key is too long, or if there is no memory; the reference comes back.
    #[inline]
    pub(crate) fn insert(
        &self,
        key: Key<'_>,
        value: Py<PyAny>,
    ) -> Result<Option<Py<PyAny>>, InsertError<Word>> {
        self.insert_word(key, ManuallyDrop::new(value))
    }

    #[inline]
    fn insert_word(
        &self,
        key: Key<'_>,
        word: Word,
    ) -> Result<Option<Py<PyAny>>, InsertError<Word>> {
        // SAFETY: the map has given the word up.
        let own = |old: &Word| unsafe { owned(old) };
        Ok(match self {
            Self::Bytes(map) => {
                map.pin().try_insert(key.bytes(&mut [0; 2]), word)?.map(|old| own(&old))
            }
            Self::Words(map, first) => {
                let key = key.word(*first).expect("the body takes the key");
                map.pin().try_insert(key, word)?.map(|old| own(&old))
            }
        })
    }

    /// Removes a key and returns its value.
    #[inline]
    pub(crate) fn remove(&self, key: Key<'_>) -> Option<Py<PyAny>> {
        // SAFETY: the map has given the word up.
        let own = |old: &Word| unsafe { owned(old) };
        match self {
            Self::Bytes(map) => map.pin().remove(key.bytes(&mut [0; 2])).map(|old| own(&old)),
            Self::Words(map, first) => map.pin().remove(key.word(*first)?).map(|old| own(&old)),
        }
    }

    /// Shows all values, without references of their own.
    pub(crate) fn each<E>(
        &self,
        mut show: impl FnMut(&Py<PyAny>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Bytes(map) => map.pin().iter().try_for_each(|(_, word)| show(&word)),
            Self::Words(map, _) => map.pin().iter().try_for_each(|(_, word)| show(&word)),
        }
    }

    /// Hands over all references of a body that is going.
    pub(crate) fn give_up(self, mut take: impl FnMut(Py<PyAny>)) {
        let Ok(()) = self.each(|value| {
            // SAFETY: the body is going, and drops no references; each of its words is taken over once.
            take(unsafe { owned(&copy_of(value)) });
            Ok::<_, core::convert::Infallible>(())
        });
    }

    /// The entry next to a key, with a new reference.
    pub(crate) fn next_to(
        &self,
        py: Python<'_>,
        edge: Edge<Key<'_>>,
        up: bool,
    ) -> Option<(OwnedKey, Py<PyAny>)> {
        match self {
            Self::Bytes(map) => {
                let (pinned, mut short) = (map.pin(), [0; 2]);
                let edge = edge.map(|key| key.bytes(&mut short));
                let found = if up { pinned.lower_bound(edge) } else { pinned.upper_bound(edge) };
                found.map(|(key, word)| (OwnedKey::Bytes(key.to_vec()), word.clone_ref(py)))
            }
            Self::Words(map, first) => {
                let pinned = map.pin();
                let edge = clamped(*first, edge, up)?;
                let found = if up { pinned.lower_bound(edge) } else { pinned.upper_bound(edge) };
                found.map(|(word, value)| {
                    (OwnedKey::Number(number_of(*first, word)), value.clone_ref(py))
                })
            }
        }
    }

    /// The key that has so many others before it, in a map of `len`. Walks there from the nearer end.
    pub(crate) fn key_at(&self, rank: usize, len: usize) -> Option<OwnedKey> {
        let behind = len.checked_sub(rank + 1)?;
        let nearer = |rank| if rank < behind { (rank, true) } else { (behind, false) };
        let (steps, up) = nearer(rank);
        match self {
            Self::Bytes(map) => {
                let pinned = map.pin();
                let mut all = pinned.iter();
                let found = if up { all.nth(steps) } else { all.nth_back(steps) };
                found.map(|(key, _)| OwnedKey::Bytes(key.to_vec()))
            }
            Self::Words(map, first) => {
                let pinned = map.pin();
                let mut all = pinned.iter();
                let found = if up { all.nth(steps) } else { all.nth_back(steps) };
                found.map(|(word, _)| OwnedKey::Number(number_of(*first, word)))
            }
        }
    }

    /// How many keys are up to an edge.
    pub(crate) fn rank(&self, edge: Edge<Key<'_>>) -> usize {
        match self {
            Self::Bytes(map) => {
                let mut short = [0; 2];
                let end = edge.map(|key| key.bytes(&mut short));
                map.pin().range((Edge::Unbounded, end)).count()
            }
            Self::Words(map, first) => clamped(*first, edge, false)
                .map_or(0, |end| map.pin().range((Edge::Unbounded, end)).count()),
        }
    }

    /// Copies some entries between two keys, from one end; their values without references.
    pub(crate) fn copy(&self, ends: &Ends, reverse: bool, wanted: usize, into: &mut Copied) {
        match self {
            Self::Bytes(map) => {
                let pinned = map.pin();
                let range = pinned.range(ends.as_slices());
                into.begin(None);
                if reverse {
                    range.rev().take(wanted).for_each(|(key, word)| into.add_bytes(&key, &word));
                } else {
                    range.take(wanted).for_each(|(key, word)| into.add_bytes(&key, &word));
                }
            }
            Self::Words(map, first) => {
                into.begin(Some(*first));
                let pinned = map.pin();
                let (start, end) = ends.as_slices();
                let number = |edge: Edge<&[u8]>| edge.map(|key| Key::Number(key::number(key)));
                let start = clamped(*first, number(start), true);
                let (Some(start), Some(end)) = (start, clamped(*first, number(end), false)) else {
                    return;
                };
                let range = pinned.range((start, end));
                if reverse {
                    range.rev().take(wanted).for_each(|(key, word)| into.add(key, &word));
                } else {
                    range.take(wanted).for_each(|(key, word)| into.add(key, &word));
                }
            }
        }
    }
}

/// An edge in a window; `None` if all of the window is on the other side of it.
fn clamped(first: i64, edge: Edge<Key<'_>>, up: bool) -> Option<Edge<u64>> {
    let (Edge::Included(key) | Edge::Excluded(key)) = edge else { return Some(Edge::Unbounded) };
    let number = key.as_number();
    match word_in(first, number) {
        Some(word) => Some(edge.map(|_| word)),
        None => ((number < i128::from(first)) == up).then_some(Edge::Unbounded),
    }
}

impl Key<'_> {
    /// The word of a key that is a number in a window.
    #[inline]
    fn word(self, first: i64) -> Option<u64> {
        match self {
            Key::Number(number) => word_in(first, number),
            Key::Bytes(_) => None,
        }
    }

    /// The number of an int; of one that is in no window, one that is in none either, on the same side.
    fn as_number(self) -> i128 {
        match self {
            Key::Number(number) => number,
            Key::Bytes(bytes) => key::number(bytes),
        }
    }
}
