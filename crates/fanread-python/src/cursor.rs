//! Iterators over a `SortedMap`.
//!
//! An iterator holds no place in the map: it copies some entries, keys whole and values as words without a reference of their own,
//! hands these out while nothing in the map has changed, and finds its place again by the last key.
//!
//! # Invariants
//!
//! * **C1** A word is used only while the map's count of changes is that of when it was copied: so the map still owns it.
//! * **C2** A value's reference is taken before the key's object is made, which may run any code.
//! * **C3** When the number of entries has changed since the iterator was made, it raises, as `dict`'s does.

use core::ops::Bound as Edge;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::body::{Word, number_of};
use crate::key::{self, Key};
use crate::map::SortedMapBase;

/// What an iterator yields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Keys,
    Values,
    Items,
}

impl What {
    pub(crate) fn of(letter: &str) -> PyResult<Self> {
        match letter {
            "k" => Ok(Self::Keys),
            "v" => Ok(Self::Values),
            "i" => Ok(Self::Items),
            _ => Err(PyValueError::new_err("wanted one of the letters k, v and i")),
        }
    }
}

/// The keys between which an iterator walks.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) start: Edge<Vec<u8>>,
    pub(crate) end: Edge<Vec<u8>>,
}

impl Ends {
    pub(crate) fn all() -> Self {
        Self { start: Edge::Unbounded, end: Edge::Unbounded }
    }

    /// All keys that start with a prefix: up to before the prefix with its last byte one higher.
    pub(crate) fn prefix(prefix: Vec<u8>) -> Self {
        let mut end = prefix.clone();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Edge::Excluded(end)
            }
            None => Edge::Unbounded,
        };
        Self { start: Edge::Included(prefix), end }
    }

    /// The keys between two, each of which may be missing, or be inside or not.
    pub(crate) fn of(
        minimum: Option<&Bound<'_, PyBytes>>,
        maximum: Option<&Bound<'_, PyBytes>>,
        inclusive: (bool, bool),
    ) -> Self {
        let edge = |key: Option<&Bound<'_, PyBytes>>, inclusive| match key
            .map(|key| key.as_bytes().to_vec())
        {
            None => Edge::Unbounded,
            Some(edge) if inclusive => Edge::Included(edge),
            Some(edge) => Edge::Excluded(edge),
        };
        Self { start: edge(minimum, inclusive.0), end: edge(maximum, inclusive.1) }
    }

    /// Leaves out what a walk has met when it has come to this key.
    pub(crate) fn go_on(&mut self, last: &[u8], reverse: bool) {
        let edge = if reverse { &mut self.end } else { &mut self.start };
        *edge = Edge::Excluded(last.to_vec());
    }

    pub(crate) fn as_slices(&self) -> (Edge<&[u8]>, Edge<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// How many entries are copied at a time: at first, and at most. Whoever wants one is not to pay for many.
pub(crate) const COPIED: (usize, usize) = (8, 512);

/// The address of a value; the map owns the reference (C1).
struct Lent(core::ptr::NonNull<pyo3::ffi::PyObject>);

// SAFETY: an address, which is followed with the interpreter attached only.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

/// Copies of entries that lie behind each other in a map.
#[derive(Default)]
pub(crate) struct Copied {
    /// Where words count from, if keys are words.
    first: Option<i64>,
    /// All bytes of keys.
    keys: Vec<u8>,
    /// The word of each key, or where its bytes end; and its value.
    entries: Vec<(u64, Lent)>,
}

impl Copied {
    /// Forgets what was there.
    pub(crate) fn begin(&mut self, first: Option<i64>) {
        self.keys.clear();
        self.entries.clear();
        self.first = first;
    }

    /// Adds an entry whose key is a word.
    #[inline]
    pub(crate) fn add(&mut self, word: u64, value: &Word) {
        // SAFETY: the pointer of a reference is not null.
        let lent = Lent(unsafe { core::ptr::NonNull::new_unchecked(value.as_ptr()) });
        self.entries.push((word, lent));
    }

    #[inline]
    pub(crate) fn add_bytes(&mut self, key: &[u8], value: &Word) {
        self.keys.extend_from_slice(key);
        self.add(self.keys.len() as u64, value);
    }

    #[inline]
    fn key(&self, at: usize) -> Key<'_> {
        let word = self.entries[at].0;
        if let Some(first) = self.first {
            return Key::Number(number_of(first, word));
        }
        let before = if at > 0 { self.entries[at - 1].0 } else { 0 };
        Key::Bytes(&self.keys[before as usize..word as usize])
    }
}

/// An iterator over a SortedMap, in the order of its keys.
#[pyclass(module = "fanread._fanread")]
pub struct SortedMapIterator {
    owner: Option<Py<SortedMapBase>>,
    what: What,
    reverse: bool,
    ends: Ends,
    /// How many entries may still be yielded.
    left: usize,
    sizes: u64,
    changes: u64,
    copied: Copied,
    /// How many of them were yielded.
    yielded: usize,
    chunk: usize,
}

impl SortedMapIterator {
    pub(crate) fn new(
        owner: Py<SortedMapBase>,
        what: What,
        reverse: bool,
        ends: Ends,
        left: usize,
    ) -> Self {
        let (sizes, changes) = owner.get().history();
        Self {
            owner: Some(owner),
            what,
            reverse,
            ends,
            left,
            sizes,
            changes,
            copied: Copied::default(),
            yielded: 0,
            chunk: COPIED.0,
        }
    }

    /// Copies the next entries, from behind the last key that was yielded.
    fn copy(&mut self, py: Python<'_>, owner: &SortedMapBase) {
        if let Some(last) = self.yielded.checked_sub(1) {
            let mut short = [0; 2];
            self.ends.go_on(self.copied.key(last).bytes(&mut short), self.reverse);
        }
        self.yielded = 0;
        self.changes = owner.history().1;
        let wanted = self.chunk.min(self.left);
        self.chunk = (self.chunk * 4).min(COPIED.1);
        let (ends, copied) = (&self.ends, &mut self.copied);
        owner.with(py, |body| body.copy(ends, self.reverse, wanted, copied));
    }
}

#[pymethods]
impl SortedMapIterator {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    fn __clear__(&mut self) {
        self.owner = None;
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __length_hint__(&self) -> usize {
        let whole =
            matches!((&self.ends.start, &self.ends.end), (Edge::Unbounded, Edge::Unbounded));
        let entries = self.owner.as_ref().map_or(0, |owner| owner.get().entries());
        if whole { entries.min(self.left) } else { 0 }
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(owner) = &self.owner else { return Ok(None) };
        if self.left == 0 {
            self.owner = None;
            return Ok(None);
        }
        let (sizes, changes) = owner.get().history();
        if sizes != self.sizes {
            return Err(PyRuntimeError::new_err("SortedMap changed size during iteration"));
        }
        if changes != self.changes {
            // What is copied may be in vain again: who writes at each step is not to pay for a long copy each time.
            self.chunk = COPIED.0;
        }
        if changes != self.changes || self.yielded == self.copied.entries.len() {
            let owner = owner.clone_ref(py);
            self.copy(py, owner.get());
        }
        let Some((_, lent)) = self.copied.entries.get(self.yielded) else {
            self.owner = None;
            return Ok(None);
        };
        let Some(owner) = &self.owner else { return Ok(None) };
        let Some(kind) = owner.get().kind() else { return Ok(None) };
        // SAFETY: nothing has changed since the word was copied, so the map owns its reference (C1).
        let value = unsafe { Bound::from_borrowed_ptr(py, lent.0.as_ptr()) };
        let key = self.copied.key(self.yielded);
        self.yielded += 1;
        self.left -= 1;
        if self.what == What::Values {
            return Ok(Some(value.unbind()));
        }
        let key = key::decode(py, kind, key)?;
        Ok(Some(match self.what {
            What::Items => (key, value).into_pyobject(py)?.into_any().unbind(),
            _ => key.unbind(),
        }))
    }
}
