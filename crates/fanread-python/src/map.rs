//! The base of `SortedMap`: what has to be fast, on an [`OrderedMap`] from encoded keys to objects.
//!
//! A value is the pointer to its object, kept as a plain word beside the key: a lookup follows no box. The word has no drop glue, so
//! the map counts nothing; this file does.
//!
//! # Invariants
//!
//! * **G1** The map is used with the interpreter attached, inside [`SortedMapBase::with`] only, and no code of Python runs meanwhile:
//!   nothing is created, compared, or given up there. So it can be taken away between two uses ([`SortedMapBase::clear_map`]).
//! * **G2** Each word in the map owns one reference. Whoever puts one in gives it up, whoever takes one out owns it, and drops it
//!   after `with`, when map and counts are as they will stay: dropping runs any code, which may use this map.
//! * **G3** `len` is the number of entries; `sizes` changes with it, `changes` with every write.
//!
//! `tests/test_references.py` counts references through every call and every exception.

use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::Bound as Edge;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use std::cell::RefCell;

use fanread::OrderedMap;
use fanread::ordered_map::Pinned;
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyIterator, PyList, PyString, PyTuple, PyType};

use crate::cursor::{Ends, SortedMapIterator, What};
use crate::error::{EmptyMapError, KeyKindError, guarded, of_insert, of_load};
use crate::key::{self, Kind, Room};

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

/// A map of any objects, ordered by keys of one kind. Use fanread.SortedMap.
#[pyclass(frozen, subclass, module = "fanread._fanread")]
pub struct SortedMapBase {
    /// In a box: Python aligns objects to 16 bytes, and a map wants 64.
    map: UnsafeCell<Box<OrderedMap<Word>>>,
    kind: AtomicU8,
    /// Whether the kind was given, not found.
    fixed: AtomicBool,
    len: AtomicUsize,
    sizes: AtomicU64,
    changes: AtomicU64,
}

// SAFETY: the map is shared by itself. It is replaced only with the interpreter attached, while nobody uses it (G1); the rest are
// atomics.
unsafe impl Sync for SortedMapBase {}

impl SortedMapBase {
    /// Uses the map (G1).
    #[inline]
    pub(crate) fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&Pinned<'_, Word>) -> R) -> R {
        // SAFETY: the interpreter is attached and stays so, as nothing in `work` detaches; the map is replaced where nobody uses it,
        // and nothing in `work` gets there (G1). What `work` returns borrows nothing of the map.
        let map = unsafe { &*self.map.get() };
        work(&map.pin())
    }

    #[inline]
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::of_bits(self.kind.load(Relaxed))
    }

    #[inline]
    pub(crate) fn entries(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// How often the number of entries has changed, and how often anything has (G3).
    #[inline]
    pub(crate) fn history(&self) -> (u64, u64) {
        (self.sizes.load(Relaxed), self.changes.load(Relaxed))
    }

    /// Counts a write. Relaxed, as all accesses to these: whoever is here is attached.
    #[inline]
    fn count(&self, more: isize) {
        self.changes.store(self.changes.load(Relaxed) + 1, Relaxed);
        if more != 0 {
            self.sizes.store(self.sizes.load(Relaxed) + 1, Relaxed);
            self.len.store(self.len.load(Relaxed).wrapping_add_signed(more), Relaxed);
        }
    }

    /// The kind of the map's keys, which the first key decides.
    #[inline]
    fn kind_for(&self, key: &Bound<'_, PyAny>) -> PyResult<Kind> {
        match self.kind() {
            Some(kind) => Ok(kind),
            None => key::first_kind(key),
        }
    }

    /// Returns a new reference to the value of a key.
    #[inline]
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let mut room = Room::default();
        let Some(bytes) = key::encode_sought(self.kind(), key, &mut room)? else { return Ok(None) };
        Ok(self.with(py, |map| map.get(bytes).map(|word| word.clone_ref(py))))
    }

    /// Maps a key to a value, and returns what that replaces.
    #[inline]
    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let kind = self.kind_for(key)?;
        let mut room = Room::default();
        let bytes = key::encode_strictly(kind, key, &mut room)?;
        // Encoding may create objects, and so run anything, this map's `clear` for one.
        if self.kind().is_some_and(|now| now != kind) {
            return self.put(key, value);
        }
        let word = ManuallyDrop::new(value.clone().unbind());
        let old = self.with(py, |map| match map.try_insert(bytes, word) {
            // SAFETY: the map has given the word up.
            Ok(old) => Ok(old.map(|word| unsafe { owned(&word) })),
            Err(error) => Err(of_insert(error)),
        });
        match old {
            Ok(old) => {
                self.kind.store(kind as u8, Relaxed);
                self.count(isize::from(old.is_none()));
                Ok(old)
            }
            Err((raised, word)) => {
                drop(ManuallyDrop::into_inner(word));
                Err(raised)
            }
        }
    }

    /// Removes an encoded key, and returns its value.
    #[inline]
    fn take(&self, py: Python<'_>, bytes: &[u8]) -> Option<Py<PyAny>> {
        // SAFETY: the map has given the word up.
        let taken = self.with(py, |map| map.remove(bytes).map(|word| unsafe { owned(&word) }));
        if taken.is_some() {
            self.count(-1);
        }
        taken
    }

    /// Empties the map at once, then gives up what was in it.
    fn clear_map(&self, py: Python<'_>) {
        // SAFETY: the interpreter is attached, and nobody uses the map: uses end before any other code runs (G1).
        let old = core::mem::take(unsafe { &mut *self.map.get() });
        let entries = self.entries().cast_signed();
        if entries != 0 {
            self.count(-entries);
        }
        if !self.fixed.load(Relaxed) {
            self.kind.store(0, Relaxed);
        }
        give_up(py, old);
    }

    /// The encoding of a key that is compared with others, and the map's kind; `None` if there are no keys of any kind.
    pub(crate) fn edge(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        let Some(kind) = self.kind() else {
            key::first_kind(key)?;
            return Ok(None);
        };
        Ok(Some(key::encode_strictly(kind, key, &mut Room::default())?.to_vec()))
    }

    /// Copies an entry's key, and takes a new reference to its value.
    fn entry(
        &self,
        py: Python<'_>,
        find: impl FnOnce(&Pinned<'_, Word>) -> Option<(Vec<u8>, Py<PyAny>)>,
    ) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let Some((bytes, value)) = self.with(py, find) else { return Ok(None) };
        let kind =
            self.kind().ok_or_else(|| PyRuntimeError::new_err("a map with entries has no kind"))?;
        Ok(Some((key::decode(py, kind, &bytes)?.unbind(), value)))
    }

    /// The entry next to a key.
    fn next_to(
        &self,
        key: &Bound<'_, PyAny>,
        up: bool,
        inclusive: bool,
    ) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let py = key.py();
        let Some(edge) = self.edge(key)? else { return Ok(None) };
        self.entry(py, |map| {
            let bound = if inclusive { Edge::Included(&*edge) } else { Edge::Excluded(&*edge) };
            let found = if up { map.lower_bound(bound) } else { map.upper_bound(bound) };
            found.map(|(key, word)| (key.to_vec(), word.clone_ref(py)))
        })
    }

    /// The key that has so many others before it. Walks there from the nearer end.
    pub(crate) fn key_at(&self, py: Python<'_>, rank: usize) -> Option<Vec<u8>> {
        let len = self.entries();
        self.with(py, |map| {
            let mut all = map.iter();
            let found = if rank < len / 2 {
                all.nth(rank)
            } else {
                all.nth_back(len.checked_sub(rank + 1)?)
            };
            found.map(|(key, _)| key.to_vec())
        })
    }

    /// How many keys are before one, or up to it.
    fn rank(&self, py: Python<'_>, edge: &[u8], inclusive: bool) -> usize {
        let end = if inclusive { Edge::Included(edge) } else { Edge::Excluded(edge) };
        self.with(py, |map| map.range((Edge::Unbounded, end)).count())
    }

    /// The rank that an index of Python's means.
    fn rank_of_index(&self, index: isize) -> PyResult<usize> {
        let len = self.entries();
        let rank = if index < 0 { index.wrapping_add_unsigned(len) } else { index };
        usize::try_from(rank)
            .ok()
            .filter(|rank| *rank < len)
            .ok_or_else(|| PyIndexError::new_err("list index out of range"))
    }

    /// The encoding of the key at an index.
    fn key_at_index(&self, py: Python<'_>, index: isize) -> PyResult<Vec<u8>> {
        let rank = self.rank_of_index(index)?;
        self.key_at(py, rank).ok_or_else(|| PyIndexError::new_err("list index out of range"))
    }
}

/// How deep maps may be given up inside of each other before the rest waits.
const NESTED: usize = 32;

thread_local! {
    /// How many maps this thread is giving up, and those that wait because these were too many.
    static GIVING_UP: RefCell<(usize, Vec<OrderedMap<Word>>)> = const { RefCell::new((0, Vec::new())) };
}

/// Gives up all references of a map that nobody has any more.
///
/// That may give up another map, and so on; not on the stack for ever, though: from some depth on the outermost call does it.
fn give_up(py: Python<'_>, map: Box<OrderedMap<Word>>) {
    if map.is_empty() {
        return;
    }
    let depth = GIVING_UP.with_borrow_mut(|(depth, waiting)| {
        if *depth >= NESTED {
            waiting.push(*map);
            return None;
        }
        *depth += 1;
        Some((*depth, map))
    });
    let Some((depth, mut map)) = depth else { return };
    loop {
        for (_, word) in &map.pin() {
            // SAFETY: the map is going, and each of its words is taken over once.
            drop(unsafe { owned(&word) }.into_bound(py));
        }
        let next =
            GIVING_UP.with_borrow_mut(|(_, waiting)| if depth == 1 { waiting.pop() } else { None });
        match next {
            Some(next) => *map = next,
            None => break,
        }
    }
    GIVING_UP.with_borrow_mut(|(depth, _)| *depth -= 1);
}

impl Drop for SortedMapBase {
    fn drop(&mut self) {
        let map = core::mem::take(self.map.get_mut());
        // Without an interpreter there is nothing to give back to.
        let _ = Python::try_attach(|py| give_up(py, map));
    }
}

#[pymethods]
impl SortedMapBase {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self {
            map: UnsafeCell::default(),
            kind: AtomicU8::new(0),
            fixed: AtomicBool::new(false),
            len: AtomicUsize::new(0),
            sizes: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: a collection runs with the interpreter attached, and nothing that `visit` does is code of Python's (G1).
        let map = unsafe { &*self.map.get() };
        if map.is_empty() {
            return Ok(());
        }
        for (_, word) in &map.pin() {
            let value: &Py<PyAny> = &word;
            visit.call(value)?;
        }
        Ok(())
    }

    fn __clear__(&self, py: Python<'_>) {
        self.clear_map(py);
    }

    fn __len__(&self) -> usize {
        self.entries()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut room = Room::default();
        let Some(bytes) = key::encode_sought(self.kind(), key, &mut room)? else {
            return Ok(false);
        };
        Ok(self.with(key.py(), |map| map.contains_key(bytes)))
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        match slf.get().find(key)? {
            Some(value) => Ok(value),
            None => missing(slf, key),
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        drop(self.put(key, value)?);
        Ok(())
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut room = Room::default();
        let bytes = key::encode_sought(self.kind(), key, &mut room)?;
        match bytes.and_then(|bytes| self.take(key.py(), bytes)) {
            Some(value) => {
                drop(value);
                Ok(())
            }
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Return the value of key, or default if there is none.
    #[pyo3(signature = (key, default = None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(key)?.or(default))
    }

    /// Return the value of key; insert default first if there is none.
    #[pyo3(signature = (key, default = None))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        if let Some(found) = self.find(key)? {
            return Ok(found);
        }
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        drop(self.put(key, &default)?);
        Ok(default.unbind())
    }

    /// Remove key and return its value, or default if there is none; without default that is a KeyError.
    #[pyo3(signature = (key, *default))]
    fn _pop<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        let mut room = Room::default();
        let bytes = key::encode_sought(self.kind(), key, &mut room)?;
        if let Some(value) = bytes.and_then(|bytes| self.take(key.py(), bytes)) {
            return Ok(value);
        }
        match default.get_item(0) {
            Ok(default) => Ok(default.unbind()),
            Err(_) => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Remove and return the pair at index, by default the last one.
    ///
    /// Raises KeyError if the map is empty, IndexError if there is no such index. Costs a walk from the nearer end.
    #[pyo3(signature = (index = -1), text_signature = "($self, index=-1)")]
    fn popitem(&self, py: Python<'_>, index: isize) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let Some(kind) = self.kind().filter(|_| self.entries() > 0) else {
            return Err(EmptyMapError::new_err("popitem(): dictionary is empty"));
        };
        let bytes = self.key_at_index(py, index)?;
        let key = key::decode(py, kind, &bytes)?.unbind();
        match self.take(py, &bytes) {
            Some(value) => Ok((key, value)),
            None => Err(PyKeyError::new_err(key)),
        }
    }

    /// Return the pair at index, by default the last one.
    ///
    /// Raises IndexError if there is no such index. Costs a walk from the nearer end.
    #[pyo3(signature = (index = -1), text_signature = "($self, index=-1)")]
    fn peekitem(&self, py: Python<'_>, index: isize) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let bytes = self.key_at_index(py, index)?;
        let found = self.entry(py, |map| {
            let value = map.get(&bytes)?.clone_ref(py);
            Some((bytes.clone(), value))
        })?;
        found.ok_or_else(|| PyIndexError::new_err("list index out of range"))
    }

    /// Remove all entries. Their values are given up after the map is empty.
    fn clear(&self, py: Python<'_>) {
        self.clear_map(py);
    }

    /// Return the pair with the largest key up to key, or None.
    #[pyo3(signature = (key, /))]
    fn floor(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        self.next_to(key, false, true)
    }

    /// Return the pair with the smallest key from key on, or None.
    #[pyo3(signature = (key, /))]
    fn ceiling(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        self.next_to(key, true, true)
    }

    /// Return the pair with the largest key below key, or None.
    #[pyo3(signature = (key, /))]
    fn lower(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        self.next_to(key, false, false)
    }

    /// Return the pair with the smallest key above key, or None.
    #[pyo3(signature = (key, /))]
    fn higher(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        self.next_to(key, true, false)
    }

    /// Return how many keys are below value: where it would be inserted. Counts them.
    fn bisect_left(&self, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(self.edge(value)?.map_or(0, |edge| self.rank(value.py(), &edge, false)))
    }

    /// Return how many keys are up to value. Counts them.
    fn bisect_right(&self, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(self.edge(value)?.map_or(0, |edge| self.rank(value.py(), &edge, true)))
    }

    /// The rank of a key that is there.
    fn _rank_of(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let py = key.py();
        let mut room = Room::default();
        let Some(bytes) = key::encode_sought(self.kind(), key, &mut room)? else { return Ok(None) };
        if !self.with(py, |map| map.contains_key(bytes)) {
            return Ok(None);
        }
        Ok(Some(self.rank(py, bytes, false)))
    }

    fn __iter__(slf: &Bound<'_, Self>) -> SortedMapIterator {
        SortedMapIterator::new(slf.clone().unbind(), What::Keys, false, Ends::all(), usize::MAX)
    }

    fn __reversed__(slf: &Bound<'_, Self>) -> SortedMapIterator {
        SortedMapIterator::new(slf.clone().unbind(), What::Keys, true, Ends::all(), usize::MAX)
    }

    /// An iterator over what is between two keys; what is "k", "v" or "i".
    fn _walk(
        slf: &Bound<'_, Self>,
        what: &str,
        minimum: Option<&Bound<'_, PyAny>>,
        maximum: Option<&Bound<'_, PyAny>>,
        inclusive: (bool, bool),
        reverse: bool,
    ) -> PyResult<SortedMapIterator> {
        let map = slf.get();
        let edge = |key: Option<&Bound<'_, PyAny>>, inclusive: bool| {
            Ok::<_, PyErr>(match key.map(|key| map.edge(key)).transpose()?.flatten() {
                None => Edge::Unbounded,
                Some(edge) if inclusive => Edge::Included(edge),
                Some(edge) => Edge::Excluded(edge),
            })
        };
        let ends = Ends { start: edge(minimum, inclusive.0)?, end: edge(maximum, inclusive.1)? };
        Ok(SortedMapIterator::new(slf.clone().unbind(), What::of(what)?, reverse, ends, usize::MAX))
    }

    /// An iterator over the entries whose keys start with prefix, which is of the kind of the keys.
    fn _walk_prefix(
        slf: &Bound<'_, Self>,
        what: &str,
        prefix: &Bound<'_, PyAny>,
        reverse: bool,
    ) -> PyResult<SortedMapIterator> {
        let map = slf.get();
        if map.kind_for(prefix)? == Kind::Int {
            return Err(KeyKindError::new_err("int keys have no prefixes"));
        }
        let ends = map.edge(prefix)?.map_or_else(Ends::all, Ends::prefix);
        Ok(SortedMapIterator::new(slf.clone().unbind(), What::of(what)?, reverse, ends, usize::MAX))
    }

    /// An iterator over the entries from one rank to before another, which are at most the length. Walks there.
    fn _walk_ranks(
        slf: &Bound<'_, Self>,
        what: &str,
        start: usize,
        stop: usize,
        reverse: bool,
    ) -> PyResult<SortedMapIterator> {
        let (map, py) = (slf.get(), slf.py());
        let count = stop.min(map.entries()).saturating_sub(start);
        let mut ends = Ends::all();
        if count > 0 && reverse {
            ends.end = map.key_at(py, start + count - 1).map_or(Edge::Unbounded, Edge::Included);
        } else if count > 0 {
            ends.start = map.key_at(py, start).map_or(Edge::Unbounded, Edge::Included);
        }
        Ok(SortedMapIterator::new(slf.clone().unbind(), What::of(what)?, reverse, ends, count))
    }

    /// Insert all pairs of an iterable.
    fn _insert_pairs(&self, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        for (index, pair) in PyIterator::from_object(pairs)?.enumerate() {
            let (key, value) = split(&pair?, index)?;
            drop(self.put(&key, &value)?);
        }
        Ok(())
    }

    /// Take the pairs of an iterable, strictly ascending by key, into this map, which has no entries.
    ///
    /// Raises NotSortedError if a key is not above the one before it; the map is empty then.
    fn _load_sorted(&self, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = pairs.py();
        let (mut kind, mut room) = (self.kind(), Room::default());
        let mut entries: Vec<(Box<[u8]>, Py<PyAny>)> = Vec::new();
        for (index, pair) in PyIterator::from_object(pairs)?.enumerate() {
            let (key, value) = split(&pair?, index)?;
            let kind = match kind {
                Some(kind) => kind,
                None => *kind.insert(key::first_kind(&key)?),
            };
            entries.push((key::encode_strictly(kind, &key, &mut room)?.into(), value.unbind()));
        }
        // The map gets copies of the pointers; who owns the references is decided when it is made.
        // SAFETY: each copy is forgotten, or takes the place of what it was copied from.
        let copies = entries.iter().map(|(key, value)| (key, unsafe { copy_of(value) }));
        let loaded = guarded(|| OrderedMap::from_sorted(copies))?.map_err(of_load)?;
        if self.entries() != 0 || kind.is_none() || self.kind().is_some_and(|now| Some(now) != kind)
        {
            let empty = entries.is_empty();
            return if empty {
                Ok(())
            } else {
                Err(PyRuntimeError::new_err("the map has entries already"))
            };
        }
        let len = entries.len();
        for (_, value) in entries {
            // The map's copy owns it now.
            core::mem::forget(value);
        }
        // SAFETY: the interpreter is attached, and nobody uses the map (G1).
        let old = core::mem::replace(unsafe { &mut *self.map.get() }, Box::new(loaded));
        self.kind.store(kind.map_or(0, |kind| kind as u8), Relaxed);
        self.count(len.cast_signed());
        give_up(py, old);
        Ok(())
    }

    /// Fixes the kind of the keys: bytes, str or int.
    fn _fix_kind(&self, kind: &Bound<'_, PyType>) -> PyResult<()> {
        let py = kind.py();
        let kind = if kind.is(py.get_type::<PyBytes>()) {
            Kind::Bytes
        } else if kind.is(py.get_type::<PyString>()) {
            Kind::Str
        } else if kind.is(py.get_type::<PyInt>()) {
            Kind::Int
        } else {
            return Err(PyTypeError::new_err("keys are bytes, str or int"));
        };
        if let Some(found) = self.kind()
            && found != kind
        {
            return Err(PyValueError::new_err(format!(
                "the keys of this map are {}",
                found.name()
            )));
        }
        self.kind.store(kind as u8, Relaxed);
        self.fixed.store(true, Relaxed);
        Ok(())
    }

    /// The kind of the keys if it was given.
    fn _fixed_kind<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyType>> {
        if self.fixed.load(Relaxed) { self.key_type(py) } else { None }
    }

    /// The type of the keys: bytes, str or int; None in a map that has not had a key.
    #[getter]
    fn key_type<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyType>> {
        self.kind().map(|kind| match kind {
            Kind::Bytes => py.get_type::<PyBytes>(),
            Kind::Str => py.get_type::<PyString>(),
            Kind::Int => py.get_type::<PyInt>(),
        })
    }

    /// Bytes of memory that the map takes, keys included; the objects that are its values are not.
    #[getter]
    fn nbytes(&self) -> usize {
        // SAFETY: an attached method; `memory_usage` runs no code of Python's (G1).
        let map = unsafe { &*self.map.get() };
        map.memory_usage().total_bytes()
    }

    fn __sizeof__(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + self.nbytes()
    }
}

/// What `[]` does for a key that is not there: as `dict`, it asks `__missing__` of a subclass.
#[cold]
fn missing(slf: &Bound<'_, SortedMapBase>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    match slf.get_type().getattr_opt(intern!(slf.py(), "__missing__"))? {
        Some(missing) => Ok(missing.call1((slf, key))?.unbind()),
        None => Err(PyKeyError::new_err(key.clone().unbind())),
    }
}

/// Takes a pair apart.
#[inline]
fn split<'py>(
    pair: &Bound<'py, PyAny>,
    index: usize,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match pair.cast_exact::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        _ => pair_of(pair, index),
    }
}

/// Takes a pair apart that is not a tuple of two; its errors are those of `dict`.
#[cold]
fn pair_of<'py>(
    pair: &Bound<'py, PyAny>,
    index: usize,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = pair.py();
    let list = match pair.try_iter() {
        Ok(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(item?)?;
            }
            list
        }
        Err(raised) if raised.is_instance_of::<PyTypeError>(py) => {
            return Err(PyTypeError::new_err(format!(
                "cannot convert dictionary update sequence element #{index} to a sequence"
            )));
        }
        Err(raised) => return Err(raised),
    };
    if list.len() != 2 {
        return Err(PyValueError::new_err(format!(
            "dictionary update sequence element #{index} has length {}; 2 is required",
            list.len()
        )));
    }
    Ok((list.get_item(0)?, list.get_item(1)?))
}
