//! The base of `BytesMap`: bytes to bytes, in order, on the [`BytesMap`](fanread::BytesMap) of the library.
//!
//! No object of Python's is in the map, so any number of threads may be in it, and calls with many keys release the interpreter's
//! lock.

use core::ops::Bound as Edge;
use std::sync::{Arc, OnceLock};

use fanread::bytes_map::MAX_KEY_BYTES;
use fanread::{BytesMap, InsertError, Ref};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyTuple};

use crate::cursor::{Ends, What};
use crate::error::{EmptyMapError, at_most_one, guarded, of_insert, of_load};
use crate::scan::{BytesIterator, Chunk, Copied, Source};

/// How many pairs are inserted before memory that others have given up may be used again: many, since each time costs a fence; few enough
/// for that memory to be little. No benchmark decides it.
const CHUNK: usize = 256;

/// A pair as Python has it.
pub(crate) type BytesPair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

impl Source for BytesMap {
    fn copy(&self, ends: &Ends, reverse: bool, chunk: Chunk<'_>) {
        let pinned = self.pin();
        let range = pinned.range(ends.as_slices());
        if reverse {
            chunk.take(range.rev());
        } else {
            chunk.take(range);
        }
    }
}

/// A map from bytes to bytes, ordered by key. Use fanread.BytesMap.
#[pyclass(frozen, subclass, module = "fanread._fanread")]
pub struct BytesMapBase {
    /// Made by the first use, or by a load before that.
    map: OnceLock<Arc<BytesMap>>,
}

/// The keys of a list or another iterable; the objects are kept, so that their bytes stay.
pub(crate) fn key_objects<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    keys.try_iter()?.map(|key| Ok(key?.cast_into::<PyBytes>()?)).collect()
}

/// The pairs of an iterable, all of them; the objects are kept, so that their bytes stay.
pub(crate) fn pair_objects<'py>(pairs: &Bound<'py, PyAny>) -> PyResult<Vec<BytesPair<'py>>> {
    pairs.try_iter()?.map(|pair| pair?.extract::<BytesPair<'py>>()).collect()
}

/// The bytes of pairs that are kept.
pub(crate) fn pair_slices<'p>(pairs: &'p [BytesPair<'_>]) -> Vec<(&'p [u8], &'p [u8])> {
    pairs.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect()
}

/// The exception for a pair to be popped, where there is none.
pub(crate) fn nothing_to_pop() -> PyErr {
    EmptyMapError::new_err("popitem(): the map is empty")
}

/// The exception for a key that is not there, and came without a default to insert.
pub(crate) fn no_default() -> PyErr {
    PyTypeError::new_err("setdefault(): the key is not there, and the default is not bytes")
}

/// Refuses a key that the map does not take: for a call of the library that panics at one, and before any of a batch is inserted.
fn check_length(key: &[u8]) -> PyResult<()> {
    if key.len() <= MAX_KEY_BYTES {
        return Ok(());
    }
    let (key_bytes, max_bytes) = (key.len(), MAX_KEY_BYTES);
    Err(of_insert(InsertError::KeyTooLong { key_bytes, max_bytes, value: () }).0)
}

/// Makes the list of what was found for each key; a key without a value gets the default.
pub(crate) fn list_of<'py, V: AsRef<[u8]>>(
    py: Python<'py>,
    found: Vec<Option<V>>,
    default: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for value in found {
        match (value, default) {
            (Some(value), _) => list.append(PyBytes::new(py, value.as_ref()))?,
            (None, Some(default)) => list.append(default)?,
            (None, None) => list.append(py.None())?,
        }
    }
    Ok(list)
}

impl BytesMapBase {
    #[inline]
    fn map(&self) -> &Arc<BytesMap> {
        self.map.get_or_init(Arc::default)
    }

    fn entry<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
        up: bool,
        inclusive: bool,
    ) -> Option<BytesPair<'py>> {
        let key = key.as_bytes();
        let bound = if inclusive { Edge::Included(key) } else { Edge::Excluded(key) };
        let pinned = self.map().pin();
        let found = if up { pinned.lower_bound(bound) } else { pinned.upper_bound(bound) };
        found.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value)))
    }
}

#[pymethods]
impl BytesMapBase {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { map: OnceLock::new() }
    }

    fn __len__(&self) -> usize {
        self.map().len()
    }

    fn __contains__(&self, key: &Bound<'_, PyBytes>) -> bool {
        self.map().pin().contains_key(key.as_bytes())
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
        let pinned = self.map().pin();
        match pinned.get(key.as_bytes()) {
            Some(value) => Ok(PyBytes::new(key.py(), &value)),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyBytes>, value: &Bound<'_, PyBytes>) -> PyResult<()> {
        match self.map().pin().try_insert(key.as_bytes(), value.as_bytes()) {
            Ok(_) => Ok(()),
            Err(error) => Err(of_insert(error).0),
        }
    }

    fn __delitem__(&self, key: &Bound<'_, PyBytes>) -> PyResult<()> {
        match self.map().pin().remove(key.as_bytes()) {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Return the value of key, or default if there is none.
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyBytes>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Option<Bound<'py, PyAny>> {
        let found = self
            .map()
            .pin()
            .get(key.as_bytes())
            .map(|value| PyBytes::new(key.py(), &value).into_any());
        found.or(default)
    }

    /// Return the value of key; insert default first if there is none, in one step.
    ///
    /// If there is no memory, that is a FanreadError, and the map is unchanged.
    #[pyo3(signature = (key, default = None))]
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyBytes>,
        default: Option<&Bound<'py, PyBytes>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = key.as_bytes();
        let pinned = self.map().pin();
        let value = match default {
            Some(default) => {
                check_length(bytes)?;
                guarded(|| pinned.get_or_insert_with(bytes, || default.as_bytes()))?
            }
            None => pinned.get(bytes).ok_or_else(no_default)?,
        };
        Ok(PyBytes::new(key.py(), &value))
    }

    /// Remove key and return its value, or default if there is none; without default that is a KeyError.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        key: &Bound<'py, PyBytes>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        at_most_one(default)?;
        if let Some(value) = self.map().pin().remove(key.as_bytes()) {
            return Ok(PyBytes::new(key.py(), &value).into_any());
        }
        default.get_item(0).map_err(|_| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Remove and return the pair with the largest key; KeyError if there is none. No entry is returned twice.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<BytesPair<'py>> {
        let pinned = self.map().pin();
        let (key, value) = pinned.pop_last().ok_or_else(nothing_to_pop)?;
        Ok((PyBytes::new(py, &key), PyBytes::new(py, &value)))
    }

    /// Remove all entries, each by itself.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| guarded(|| self.map().pin().clear()))
    }

    /// Return the pair with the largest key up to key, or None.
    #[pyo3(signature = (key, /))]
    fn floor<'py>(&self, key: &Bound<'py, PyBytes>) -> Option<BytesPair<'py>> {
        self.entry(key.py(), key, false, true)
    }

    /// Return the pair with the smallest key from key on, or None.
    #[pyo3(signature = (key, /))]
    fn ceiling<'py>(&self, key: &Bound<'py, PyBytes>) -> Option<BytesPair<'py>> {
        self.entry(key.py(), key, true, true)
    }

    /// Return the pair with the largest key below key, or None.
    #[pyo3(signature = (key, /))]
    fn lower<'py>(&self, key: &Bound<'py, PyBytes>) -> Option<BytesPair<'py>> {
        self.entry(key.py(), key, false, false)
    }

    /// Return the pair with the smallest key above key, or None.
    #[pyo3(signature = (key, /))]
    fn higher<'py>(&self, key: &Bound<'py, PyBytes>) -> Option<BytesPair<'py>> {
        self.entry(key.py(), key, true, false)
    }

    /// Return a list of the values of an iterable of keys, with default for those that are not there.
    ///
    /// Looks up many keys at a time, without the interpreter's lock.
    #[pyo3(signature = (keys, default = None))]
    fn get_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let objects = key_objects(keys)?;
        let bytes: Vec<&[u8]> = objects.iter().map(PyBytesMethods::as_bytes).collect();
        let found = keys.py().detach(|| {
            guarded(|| {
                let pinned = self.map().pin();
                let mut found: Vec<Option<Ref<'_, [u8]>>> = bytes.iter().map(|_| None).collect();
                pinned.get_batch(&bytes, &mut found);
                let copied = |value: Ref<'_, [u8]>| Box::from(&*value);
                found.into_iter().map(|value| value.map(copied)).collect()
            })
        })?;
        list_of::<Box<[u8]>>(keys.py(), found, default)
    }

    /// Return a list that says of each key of an iterable whether it is there.
    fn contains_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let objects = key_objects(keys)?;
        let bytes: Vec<&[u8]> = objects.iter().map(PyBytesMethods::as_bytes).collect();
        keys.py().detach(|| {
            guarded(|| {
                let mut found = vec![false; bytes.len()];
                self.map().pin().contains_batch(&bytes, &mut found);
                found
            })
        })
    }

    /// Insert all pairs of an iterable, many at a time, without the interpreter's lock. Of equal keys the last one counts.
    ///
    /// The iterable is read to its end first: if it raises, or something in it is no pair of bytes or has too long a key, the map
    /// is unchanged. If there is no memory for a pair, those before it are in the map, and those after it are not.
    fn insert_many(&self, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let objects = pair_objects(pairs)?;
        let entries = pair_slices(&objects);
        entries.iter().try_for_each(|(key, _)| check_length(key))?;
        let inserted = pairs.py().detach(|| {
            guarded(|| {
                let mut pinned = self.map().pin();
                entries.chunks(CHUNK).try_for_each(|entries| {
                    pinned.repin();
                    pinned.try_insert_batch(entries.iter().copied())
                })
            })
        })?;
        inserted.map_err(|error| of_insert(error).0)
    }

    /// Take the pairs of an iterable, strictly ascending by key, into this map, which has no entries and is nobody else's.
    ///
    /// Raises NotSortedError if a key is not above the one before it.
    fn _load_sorted(&self, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut entries: Vec<Copied> = Vec::new();
        for pair in PyIterator::from_object(pairs)? {
            let (key, value) = pair?.extract::<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>()?;
            entries.push((key.as_bytes().into(), value.as_bytes().into()));
        }
        let loaded =
            pairs.py().detach(|| guarded(|| BytesMap::from_sorted(entries)))?.map_err(of_load)?;
        self.map
            .set(Arc::new(loaded))
            .map_err(|_| PyRuntimeError::new_err("the map is in use already"))
    }

    fn __iter__(&self) -> BytesIterator {
        BytesIterator::new(self.map().clone(), What::Keys, false, Ends::all())
    }

    fn __reversed__(&self) -> BytesIterator {
        BytesIterator::new(self.map().clone(), What::Keys, true, Ends::all())
    }

    /// An iterator over what is between two keys; what is "k", "v" or "i".
    fn _walk(
        &self,
        what: &str,
        minimum: Option<&Bound<'_, PyBytes>>,
        maximum: Option<&Bound<'_, PyBytes>>,
        inclusive: (bool, bool),
        reverse: bool,
    ) -> PyResult<BytesIterator> {
        Ok(BytesIterator::new(
            self.map().clone(),
            What::of(what)?,
            reverse,
            Ends::of(minimum, maximum, inclusive),
        ))
    }

    /// An iterator over the entries whose keys start with prefix.
    fn _walk_prefix(
        &self,
        what: &str,
        prefix: &Bound<'_, PyBytes>,
        reverse: bool,
    ) -> PyResult<BytesIterator> {
        let ends = Ends::prefix(prefix.as_bytes().to_vec());
        Ok(BytesIterator::new(self.map().clone(), What::of(what)?, reverse, ends))
    }

    /// Bytes of memory that the map takes, keys and values included.
    #[getter]
    fn nbytes(&self) -> usize {
        self.map().memory_usage().total_bytes()
    }

    fn __sizeof__(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + self.nbytes()
    }
}
