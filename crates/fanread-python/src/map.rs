//! The base of `SortedMap`: what has to be fast, on a [`Body`] that maps keys to objects.
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

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyIterator, PyList, PyString, PyTuple, PyType};

use crate::body::Body;
use crate::cursor::{Ends, SortedMapIterator, What};
use crate::error::{EmptyMapError, KeyKindError, guarded, of_insert, of_load};
use crate::key::{self, Key, Kind, OwnedKey};

/// A map of any objects, ordered by keys of one kind. Use fanread.SortedMap.
#[pyclass(frozen, subclass, module = "fanread._fanread")]
pub struct SortedMapBase {
    body: UnsafeCell<Body>,
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
    pub(crate) fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&Body) -> R) -> R {
        // SAFETY: the interpreter is attached and stays so, as nothing in `work` detaches; the map is replaced where nobody uses it,
        // and nothing in `work` gets there (G1). What `work` returns borrows nothing of the map.
        work(unsafe { &*self.body.get() })
    }

    /// Puts another body in the place of the map's, which is returned. The caller sees to the references.
    fn replace(&self, _py: Python<'_>, body: Body) -> Body {
        // SAFETY: the interpreter is attached, and nobody uses the map: uses end before any other code runs (G1).
        core::mem::replace(unsafe { &mut *self.body.get() }, body)
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

    /// Encodes a key to be looked for; `None` if it is not there.
    #[inline]
    fn sought<'k>(
        &self,
        key: &'k Bound<'_, PyAny>,
        room: &'k mut Vec<u8>,
    ) -> PyResult<Option<Key<'k>>> {
        let kind = self.kind();
        let sought = key::encode_sought(kind, key, room)?;
        // Looking at the key may run anything, too: the map may have keys of another kind by now.
        Ok(sought.filter(|_| self.kind() == kind))
    }

    /// Returns a new reference to the value of a key.
    #[inline]
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let mut room = Vec::new();
        let Some(key) = self.sought(key, &mut room)? else { return Ok(None) };
        Ok(self.with(py, |body| body.get(py, key)))
    }

    /// Maps a key to a value, and returns what that replaces.
    #[inline]
    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let kind = self.kind_for(key)?;
        let mut room = Vec::new();
        let encoded = key::encode_strictly(kind, key, &mut room)?;
        // Encoding may create objects, and so run anything, this map's `clear` for one.
        if self.kind().is_some_and(|now| now != kind) {
            return self.put(key, value);
        }
        if self.entries() == 0 || !self.with(py, |body| body.takes(encoded)) {
            self.prepare(py, encoded)?;
        }
        let value = value.clone().unbind();
        let old = self.with(py, |body| body.insert(encoded, value).map_err(of_insert));
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

    /// Sees to it that the map's body takes a key. No entry changes, and no reference.
    #[cold]
    fn prepare(&self, py: Python<'_>, key: Key<'_>) -> PyResult<()> {
        let new = self.with(py, |body| {
            if self.entries() == 0 { Ok(body.begun(key)) } else { body.moved(key).map(Some) }
        });
        // The word that comes back is a copy, and forgotten; so are those in the body that goes.
        if let Some(new) = new.map_err(|error| of_insert(error).0)? {
            drop(self.replace(py, new));
        }
        Ok(())
    }

    /// Removes a key, and returns its value.
    #[inline]
    fn take(&self, py: Python<'_>, key: Key<'_>) -> Option<Py<PyAny>> {
        let taken = self.with(py, |body| body.remove(key));
        if taken.is_some() {
            self.count(-1);
        }
        taken
    }

    /// Empties the map at once, then gives up what was in it.
    fn clear_map(&self, py: Python<'_>) {
        let old = self.replace(py, Body::default());
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
        Ok(Some(key::encode_strictly(kind, key, &mut Vec::new())?.to_vec()))
    }

    /// The objects of an entry.
    fn entry(
        &self,
        py: Python<'_>,
        found: Option<(OwnedKey, Py<PyAny>)>,
    ) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let Some((key, value)) = found else { return Ok(None) };
        let kind =
            self.kind().ok_or_else(|| PyRuntimeError::new_err("a map with entries has no kind"))?;
        Ok(Some((key::decode(py, kind, key.as_key())?.unbind(), value)))
    }

    /// The entry next to a key.
    fn next_to(
        &self,
        key: &Bound<'_, PyAny>,
        up: bool,
        inclusive: bool,
    ) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let (py, mut room) = (key.py(), Vec::new());
        let Some(kind) = self.kind() else {
            key::first_kind(key)?;
            return Ok(None);
        };
        let key = key::encode_strictly(kind, key, &mut room)?;
        let edge = if inclusive { Edge::Included(key) } else { Edge::Excluded(key) };
        self.entry(py, self.with(py, |body| body.next_to(py, edge, up)))
    }

    /// The key that has so many others before it. Walks there from the nearer end.
    fn key_at(&self, py: Python<'_>, rank: usize) -> Option<OwnedKey> {
        let len = self.entries();
        self.with(py, |body| body.key_at(rank, len))
    }

    /// How many keys are before one, or up to it.
    fn rank(&self, key: &Bound<'_, PyAny>, inclusive: bool) -> PyResult<usize> {
        let mut room = Vec::new();
        let Some(kind) = self.kind() else {
            key::first_kind(key)?;
            return Ok(0);
        };
        let end = key::encode_strictly(kind, key, &mut room)?;
        let end = if inclusive { Edge::Included(end) } else { Edge::Excluded(end) };
        Ok(self.with(key.py(), |body| body.rank(end)))
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

    /// The key at an index.
    fn key_at_index(&self, py: Python<'_>, index: isize) -> PyResult<OwnedKey> {
        let rank = self.rank_of_index(index)?;
        self.key_at(py, rank).ok_or_else(|| PyIndexError::new_err("list index out of range"))
    }
}

/// How deep maps may be given up inside of each other before the rest waits.
const NESTED: usize = 32;

thread_local! {
    /// How many maps this thread is giving up, and those that wait because these were too many.
    static GIVING_UP: RefCell<(usize, Vec<Body>)> = const { RefCell::new((0, Vec::new())) };
}

/// Gives up all references of a map that nobody has any more.
///
/// That may give up another map, and so on; not on the stack for ever, though: from some depth on the outermost call does it.
fn give_up(py: Python<'_>, body: Body) {
    if body.is_empty() {
        return;
    }
    let depth = GIVING_UP.with_borrow_mut(|(depth, waiting)| {
        if *depth >= NESTED {
            waiting.push(body);
            return None;
        }
        *depth += 1;
        Some((*depth, body))
    });
    let Some((depth, mut body)) = depth else { return };
    loop {
        body.give_up(|value| drop(value.into_bound(py)));
        let next =
            GIVING_UP.with_borrow_mut(|(_, waiting)| if depth == 1 { waiting.pop() } else { None });
        match next {
            Some(next) => body = next,
            None => break,
        }
    }
    GIVING_UP.with_borrow_mut(|(depth, _)| *depth -= 1);
}

impl Drop for SortedMapBase {
    fn drop(&mut self) {
        let body = core::mem::take(self.body.get_mut());
        // Without an interpreter there is nothing to give back to.
        let _ = Python::try_attach(|py| give_up(py, body));
    }
}

#[pymethods]
impl SortedMapBase {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self {
            body: UnsafeCell::default(),
            kind: AtomicU8::new(0),
            fixed: AtomicBool::new(false),
            len: AtomicUsize::new(0),
            sizes: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: a collection runs with the interpreter attached, and nothing that `visit` does is code of Python's (G1).
        let body = unsafe { &*self.body.get() };
        if body.is_empty() {
            return Ok(());
        }
        body.each(|value| visit.call(value))
    }

    fn __clear__(&self, py: Python<'_>) {
        self.clear_map(py);
    }

    fn __len__(&self) -> usize {
        self.entries()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, mut room) = (key.py(), Vec::new());
        let Some(key) = self.sought(key, &mut room)? else {
            return Ok(false);
        };
        Ok(self.with(py, |body| body.contains(key)))
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
        let mut room = Vec::new();
        let sought = self.sought(key, &mut room)?;
        match sought.and_then(|sought| self.take(key.py(), sought)) {
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
        let mut room = Vec::new();
        let sought = self.sought(key, &mut room)?;
        if let Some(value) = sought.and_then(|sought| self.take(key.py(), sought)) {
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
    fn popitem(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = index_of)] index: isize,
    ) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let Some(kind) = self.kind().filter(|_| self.entries() > 0) else {
            return Err(EmptyMapError::new_err("popitem(): dictionary is empty"));
        };
        let found = self.key_at_index(py, index)?;
        let key = key::decode(py, kind, found.as_key())?.unbind();
        match self.take(py, found.as_key()) {
            Some(value) => Ok((key, value)),
            None => Err(PyKeyError::new_err(key)),
        }
    }

    /// Return the pair at index, by default the last one.
    ///
    /// Raises IndexError if there is no such index. Costs a walk from the nearer end.
    #[pyo3(signature = (index = -1), text_signature = "($self, index=-1)")]
    fn peekitem(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = index_of)] index: isize,
    ) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let key = self.key_at_index(py, index)?;
        let value = self.with(py, |body| body.get(py, key.as_key()));
        let found = self.entry(py, value.map(|value| (key, value)))?;
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
        self.rank(value, false)
    }

    /// Return how many keys are up to value. Counts them.
    fn bisect_right(&self, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.rank(value, true)
    }

    /// The rank of a key that is there.
    fn _rank_of(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let py = key.py();
        let mut room = Vec::new();
        let Some(key) = self.sought(key, &mut room)? else { return Ok(None) };
        let rank = |body: &Body| body.contains(key).then(|| body.rank(Edge::Excluded(key)));
        Ok(self.with(py, rank))
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
        let edge = |rank| {
            map.key_at(py, rank)
                .map_or(Edge::Unbounded, |key| Edge::Included(key.as_key().to_vec()))
        };
        let mut ends = Ends::all();
        if count > 0 && reverse {
            ends.end = edge(start + count - 1);
        } else if count > 0 {
            ends.start = edge(start);
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
        let (mut kind, mut room) = (self.kind(), Vec::new());
        let mut entries: Vec<(OwnedKey, Py<PyAny>)> = Vec::new();
        for (index, pair) in PyIterator::from_object(pairs)?.enumerate() {
            let (key, value) = split(&pair?, index)?;
            let kind = match kind {
                Some(kind) => kind,
                None => *kind.insert(key::first_kind(&key)?),
            };
            let key = key::encode_strictly(kind, &key, &mut room)?.to_owned();
            entries.push((key, value.unbind()));
        }
        // The map gets copies of the pointers; who owns the references is decided when it is made.
        let loaded = guarded(|| Body::from_sorted(&entries))?.map_err(of_load)?;
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
        let old = self.replace(py, loaded);
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
        // SAFETY: an attached method; counting runs no code of Python's (G1).
        unsafe { &*self.body.get() }.bytes()
    }

    fn __sizeof__(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + self.nbytes()
    }
}

/// The number of an index. One that is too large is an `IndexError`, as of a list.
fn index_of(index: &Bound<'_, PyAny>) -> PyResult<isize> {
    // SAFETY: an object, and a class of exceptions. The result is -1 where there is no number, and an exception is set.
    let number = unsafe { ffi::PyNumber_AsSsize_t(index.as_ptr(), ffi::PyExc_IndexError) };
    match PyErr::take(index.py()).filter(|_| number == -1) {
        Some(raised) => Err(raised),
        None => Ok(number),
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
