//! `U64Map`: numbers of 8 bytes to numbers of 8 bytes, in whole arrays.
//!
//! Keys are encoded in order by [`U64Key`]; values are kept as their bits. Batches run without the interpreter's lock: the map is
//! made for many threads, and arrays are read word by word ([`crate::arrays`]).

use core::ops::Bound as Edge;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU64};
use std::collections::TryReserveError;

use fanread::key::U64Key;
use fanread::u64_map::Pinned;
use fanread::{Ref, U64Map as Map};
use numpy::PyArrayDescr;
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple, PyType};

use crate::arrays::{self, Number};
use crate::error::{ArrayError, OutOfMemoryError, at_most_one, guarded, of_insert, of_load};

/// The words of an array, held.
type Words<'a, 'py> = arrays::Held<'a, 'py, AtomicU64>;

/// How many keys are encoded and looked up at a time: enough for the library to keep its lines in flight, few enough for the cache
/// of first level.
const CHUNK: usize = 256;

/// The words of keys as the map orders them.
fn encode(kind: Number, word: u64) -> u64 {
    match kind {
        Number::Unsigned => word,
        Number::Signed | Number::Time => word.cast_signed().to_u64(),
        // One zero: -0.0 equals 0.0, so it is the same key.
        Number::Float => (f64::from_bits(word) + 0.0).to_u64(),
    }
}

/// What [`encode`] was given.
fn decode(kind: Number, key: u64) -> u64 {
    match kind {
        Number::Unsigned => key,
        Number::Signed | Number::Time => i64::from_u64(key).map_or(0, i64::cast_unsigned),
        Number::Float => f64::from_u64(key).map_or(0, f64::to_bits),
    }
}

/// Hands out the encoded keys of an array, some at a time, with where they begin.
#[inline]
fn chunks(kind: Number, keys: &[AtomicU64], mut work: impl FnMut(usize, &[u64])) {
    let mut encoded = [0; CHUNK];
    for (chunk, keys) in keys.chunks(CHUNK).enumerate() {
        let encoded = &mut encoded[..keys.len()];
        for (to, key) in encoded.iter_mut().zip(keys) {
            *to = encode(kind, key.load(Relaxed));
        }
        work(chunk * CHUNK, encoded);
    }
}

/// A map from numbers of 8 bytes to numbers of 8 bytes, ordered by key, for whole arrays of numpy.
///
/// U64Map(kind="u64", values="u64"): what keys and values are: "u64", "i64", "f64", or any dtype of 8 bytes, "datetime64[ns]" for
/// one. Arrays of keys and of values must have just that dtype, shape (n,), and no gaps; an ArrayError (a TypeError) says what is
/// wanted. Floats are ordered by IEEE 754's total order, with one zero: NaNs are keys like others, beyond the infinities.
///
/// Calls with arrays release the interpreter's lock; any number of threads may use a map at a time, and each key's operation takes
/// effect by itself. Arrays that are written to meanwhile give old numbers or new ones. An array of which a call is under way cannot be
/// resized; nothing else may take its memory away meanwhile, as its __setstate__ does.
#[pyclass(frozen, module = "fanread._fanread")]
pub struct U64Map {
    /// In a box: Python aligns objects to 16 bytes, and a map wants 64.
    map: Box<Map<u64>>,
    keys: (Py<PyArrayDescr>, Number),
    values: (Py<PyArrayDescr>, Number),
}

impl U64Map {
    fn of(map: Map<u64>, kind: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (key_dtype, key) = arrays::dtype_of(kind)?;
        let (value_dtype, value) = arrays::dtype_of(values)?;
        Ok(Self {
            map: Box::new(map),
            keys: (key_dtype.unbind(), key),
            values: (value_dtype.unbind(), value),
        })
    }

    /// The encoded key of an object; `None` for one that no key equals.
    fn sought(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        match self.key(key) {
            Ok(key) => Ok(Some(key)),
            Err(raised)
                if raised.is_instance_of::<PyOverflowError>(key.py())
                    || raised.is_instance_of::<PyTypeError>(key.py())
                    || raised.is_instance_of::<PyValueError>(key.py()) =>
            {
                key.hash()?;
                Ok(None)
            }
            Err(raised) => Err(raised),
        }
    }

    /// The encoded key of an object that must be one.
    fn key(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (dtype, kind) = (self.keys.0.bind(key.py()), self.keys.1);
        let word = arrays::word_of(key, kind, dtype)?;
        // The float next to it would be another key.
        if kind == Number::Float
            && key.is_instance_of::<PyInt>()
            && !key.eq(f64::from_bits(word))?
        {
            return Err(PyValueError::new_err(format!("no float equals {key}")));
        }
        Ok(encode(kind, word))
    }

    fn key_words<'a, 'py>(&self, keys: &'a Bound<'py, PyAny>) -> PyResult<Words<'a, 'py>> {
        arrays::words("keys", keys, self.keys.0.bind(keys.py()), false)
    }

    fn key_object<'py>(&self, py: Python<'py>, key: u64) -> PyResult<Bound<'py, PyAny>> {
        arrays::object_of(py, decode(self.keys.1, key), self.keys.1, self.keys.0.bind(py))
    }

    fn value_object<'py>(&self, py: Python<'py>, value: u64) -> PyResult<Bound<'py, PyAny>> {
        arrays::object_of(py, value, self.values.1, self.values.0.bind(py))
    }

    fn value_word(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        arrays::word_of(value, self.values.1, self.values.0.bind(value.py()))
    }

    /// Stores the values of keys, the default for those that are not there. Returns the first of these, encoded, if there is no
    /// default.
    fn look_up(&self, keys: &[AtomicU64], default: Option<u64>, out: &[AtomicU64]) -> Option<u64> {
        let mut missing = None;
        let mut pinned = self.map.pin();
        chunks(self.keys.1, keys, |at, keys| {
            let mut found: [Option<Ref<'_, u64>>; CHUNK] = [const { None }; CHUNK];
            pinned.repin();
            pinned.get_batch(keys, &mut found[..keys.len()]);
            for ((found, key), out) in found.iter().zip(keys).zip(&out[at..at + keys.len()]) {
                let value = found.as_deref().copied().or(default);
                if value.is_none() && missing.is_none() {
                    missing = Some(*key);
                }
                out.store(value.unwrap_or_default(), Relaxed);
            }
        });
        missing
    }

    /// The entries between two bounds, as words of both arrays. Releases the interpreter's lock.
    fn collect(
        &self,
        py: Python<'_>,
        start: Edge<u64>,
        end: Edge<u64>,
    ) -> PyResult<(Vec<u64>, Vec<u64>)> {
        let whole = matches!((start, end), (Edge::Unbounded, Edge::Unbounded));
        let work = || {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            // Whole arrays are large: where there is no room for one the process is not to end.
            let room = if whole { self.map.len() } else { 0 };
            keys.try_reserve_exact(room)?;
            values.try_reserve_exact(room)?;
            for (key, value) in self.map.pin().range((start, end)) {
                keys.try_reserve(1)?;
                values.try_reserve(1)?;
                keys.push(decode(self.keys.1, key));
                values.push(*value);
            }
            Ok((keys, values))
        };
        let collected: Result<_, TryReserveError> = py.detach(|| guarded(work))?;
        collected.map_err(|error| OutOfMemoryError::new_err(error.to_string()))
    }

    fn entry<'py>(
        &self,
        py: Python<'py>,
        find: impl FnOnce(&Pinned<'_, u64>) -> Option<(u64, u64)>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let found = find(&self.map.pin());
        found
            .map(|(key, value)| Ok((self.key_object(py, key)?, self.value_object(py, value)?)))
            .transpose()
    }
}

#[pymethods]
impl U64Map {
    #[new]
    #[pyo3(signature = (kind = None, values = None))]
    fn new(
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        values: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::with(py, Map::new(), kind, values)
    }

    /// Return a new map with these entries: two arrays of shape (n,), the keys strictly ascending.
    ///
    /// Raises NotSortedError if the keys are not ascending, ArrayError for other arrays, and
    /// ValueError if the arrays differ in length.
    #[classmethod]
    #[pyo3(signature = (keys, values, *, kind = None, value_kind = None))]
    fn from_sorted<'py>(
        class: &Bound<'py, PyType>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        kind: Option<&Bound<'py, PyAny>>,
        value_kind: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let py = class.py();
        let made = Self::with(py, Map::new(), kind, value_kind)?;
        let (keys, values) = (
            made.key_words(keys)?,
            arrays::words("values", values, made.values.0.bind(py), false)?,
        );
        let (keys, values) = (&*keys, &*values);
        same_length(keys.len(), values.len())?;
        let kind = made.keys.1;
        let entries = || {
            keys.iter()
                .zip(values)
                .map(|(key, value)| (encode(kind, key.load(Relaxed)), value.load(Relaxed)))
        };
        let loaded = py.detach(|| guarded(|| Map::from_sorted(entries())))?;
        Ok(Self { map: Box::new(loaded.map_err(of_load)?), ..made })
    }

    /// The dtype of keys.
    #[getter]
    fn key_dtype(&self, py: Python<'_>) -> Py<PyArrayDescr> {
        self.keys.0.clone_ref(py)
    }

    /// The dtype of values.
    #[getter]
    fn value_dtype(&self, py: Python<'_>) -> Py<PyArrayDescr> {
        self.values.0.clone_ref(py)
    }

    /// Bytes of memory that the map takes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.map.memory_usage().total_bytes()
    }

    fn __sizeof__(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + self.nbytes()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (keys, values) = (self.keys.0.bind(py).str()?, self.values.0.bind(py).str()?);
        Ok(format!("<fanread.U64Map of {} entries, {keys} to {values}>", self.map.len()))
    }

    fn __len__(&self) -> usize {
        self.map.len()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.sought(key)?.is_some_and(|key| self.map.pin().contains_key(key)))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.sought(key)?.and_then(|key| self.map.pin().get(key).map(|value| *value));
        match found {
            Some(value) => self.value_object(key.py(), value),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, value) = (self.key(key)?, self.value_word(value)?);
        match self.map.pin().try_insert(key, value) {
            Ok(_) => Ok(()),
            Err(error) => Err(of_insert(error).0),
        }
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.sought(key)?.and_then(|key| self.map.pin().remove(key).map(|_| ())) {
            Some(()) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.to_numpy(py)?.get_item(0)?;
        // A list has plain numbers; it would have them, or times of Python's, instead of numpy's times too.
        let keys = if self.keys.1 == Number::Time { keys } else { keys.call_method0("tolist")? };
        Ok(keys.try_iter()?.into_any())
    }

    /// Return the value of key, or default if there is none.
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.sought(key)?.and_then(|key| self.map.pin().get(key).map(|value| *value));
        found.map_or(Ok(default), |value| self.value_object(key.py(), value).map(Some))
    }

    /// Remove key and return its value, or default if there is none; without default that is a KeyError.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        at_most_one(default)?;
        let found =
            self.sought(key)?.and_then(|key| self.map.pin().remove(key).map(|value| *value));
        match found {
            Some(value) => self.value_object(key.py(), value),
            None => default.get_item(0).map_err(|_| PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Return the pair with the smallest key, or None.
    fn first<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        self.entry(py, |map| map.first_key_value().map(|(key, value)| (key, *value)))
    }

    /// Return the pair with the largest key, or None.
    fn last<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        self.entry(py, |map| map.last_key_value().map(|(key, value)| (key, *value)))
    }

    /// Return the pair with the largest key up to key, or None.
    #[pyo3(signature = (key, /))]
    fn floor<'py>(
        &self,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let bound = Edge::Included(self.key(key)?);
        self.entry(key.py(), |map| map.upper_bound(bound).map(|(key, value)| (key, *value)))
    }

    /// Return the pair with the smallest key from key on, or None.
    #[pyo3(signature = (key, /))]
    fn ceiling<'py>(
        &self,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let bound = Edge::Included(self.key(key)?);
        self.entry(key.py(), |map| map.lower_bound(bound).map(|(key, value)| (key, *value)))
    }

    /// Return the values of an array of keys, as an array of the same shape (n,).
    ///
    /// A key that is not there gets default; without default it is a KeyError that names the first such key. The answer goes to out
    /// if that is given (an array of shape (n,) and the dtype of values; keys itself may be it), and out is returned; after a KeyError
    /// its contents are anything.
    #[pyo3(signature = (keys, default = None, out = None))]
    fn get_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let dtype = self.values.0.bind(py);
        // Before the arrays: it may run any code, which may resize them.
        let default = default.map(|default| self.value_word(default)).transpose()?;
        let words = self.key_words(keys)?;
        let out = out.map_or_else(|| arrays::empty(py, words.len(), dtype), Ok)?;
        let found = arrays::words("out", &out, dtype, true)?;
        let (words, found) = (&*words, &*found);
        same_length(words.len(), found.len())?;
        apart_or_same(words, found)?;
        match py.detach(|| guarded(|| self.look_up(words, default, found)))? {
            None => Ok(out),
            // Not as the array has it, which may be out, too.
            Some(key) => Err(PyKeyError::new_err(self.key_object(py, key)?.unbind())),
        }
    }

    /// Return which of an array of keys are there, as an array of bool of the same shape (n,); out is as in get_many.
    #[pyo3(signature = (keys, out = None))]
    fn contains_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, words) = (keys.py(), self.key_words(keys)?);
        let out =
            out.map_or_else(|| arrays::empty(py, words.len(), &numpy::dtype::<bool>(py)), Ok)?;
        let flags = arrays::flags("out", &out)?;
        let (words, flags) = (&*words, &*flags);
        same_length(words.len(), flags.len())?;
        py.detach(|| {
            guarded(|| {
                let mut pinned = self.map.pin();
                chunks(self.keys.1, words, |at, keys| {
                    let mut found = [false; CHUNK];
                    pinned.repin();
                    pinned.contains_batch(keys, &mut found[..keys.len()]);
                    let flags: &[AtomicU8] = &flags[at..at + keys.len()];
                    for (found, flag) in found.iter().zip(flags) {
                        flag.store(u8::from(*found), Relaxed);
                    }
                });
            })
        })?;
        Ok(out)
    }

    /// Map each key of an array to the value at its place: two arrays of shape (n,). Of equal keys the last one counts.
    ///
    /// If there is no memory, keys before some place are in the map.
    fn insert_many(&self, keys: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, words) = (keys.py(), self.key_words(keys)?);
        let values = arrays::words("values", values, self.values.0.bind(py), false)?;
        let (words, values) = (&*words, &*values);
        same_length(words.len(), values.len())?;
        py.detach(|| {
            guarded(|| {
                let mut pinned = self.map.pin();
                chunks(self.keys.1, words, |at, keys| {
                    let values = values[at..].iter().map(|value| value.load(Relaxed));
                    pinned.repin();
                    pinned.insert_batch(keys.iter().copied().zip(values));
                });
            })
        })
    }

    /// Remove an array of keys, and return how many of them were there.
    fn remove_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (py, words) = (keys.py(), self.key_words(keys)?);
        let words = &*words;
        py.detach(|| {
            guarded(|| {
                let (mut pinned, mut removed) = (self.map.pin(), 0);
                chunks(self.keys.1, words, |_, keys| {
                    pinned.repin();
                    removed += keys.iter().filter(|key| pinned.remove(**key).is_some()).count();
                });
                removed
            })
        })
    }

    /// Return the entries from lo to before hi, in order, as a pair of arrays (keys, values) of shape (n,); None is no limit.
    #[pyo3(signature = (lo = None, hi = None))]
    fn range_arrays<'py>(
        &self,
        py: Python<'py>,
        lo: Option<&Bound<'py, PyAny>>,
        hi: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let start = lo.map(|lo| self.key(lo)).transpose()?.map_or(Edge::Unbounded, Edge::Included);
        let end = hi.map(|hi| self.key(hi)).transpose()?.map_or(Edge::Unbounded, Edge::Excluded);
        let (keys, values) = self.collect(py, start, end)?;
        (
            arrays::array_of(py, keys, self.keys.0.bind(py))?,
            arrays::array_of(py, values, self.values.0.bind(py))?,
        )
            .into_pyobject(py)
    }

    /// Return all entries in order, as a pair of arrays (keys, values) of shape (n,).
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.range_arrays(py, None, None)
    }

    /// Return all pairs in order, as a list.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (keys, values) = self.collect(py, Edge::Unbounded, Edge::Unbounded)?;
        let list = PyList::empty(py);
        for (key, value) in keys.into_iter().zip(values) {
            let key = arrays::object_of(py, key, self.keys.1, self.keys.0.bind(py))?;
            list.append((key, self.value_object(py, value)?))?;
        }
        Ok(list)
    }

    /// Remove all entries, each by itself.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| guarded(|| self.map.pin().clear()))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, map) = (slf.py(), slf.get());
        let rebuild = slf.get_type().getattr("_rebuild")?;
        let arrays = map.to_numpy(py)?;
        let state =
            (map.key_dtype(py), map.value_dtype(py), arrays.get_item(0)?, arrays.get_item(1)?);
        Ok((rebuild, state.into_pyobject(py)?))
    }

    /// Make a map of what pickle has kept.
    #[classmethod]
    fn _rebuild<'py>(
        class: &Bound<'py, PyType>,
        kind: &Bound<'py, PyAny>,
        value_kind: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        Self::from_sorted(class, keys, values, Some(kind), Some(value_kind))
    }
}

impl U64Map {
    /// A map of these kinds, by default both numbers without a sign.
    fn with(
        py: Python<'_>,
        map: Map<u64>,
        kind: Option<&Bound<'_, PyAny>>,
        values: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let plain = "uint64".into_pyobject(py)?.into_any();
        Self::of(map, kind.unwrap_or(&plain), values.unwrap_or(&plain))
    }
}

/// Refuses an array for answers that has some of the keys, but at other places: it would be written before these are read.
fn apart_or_same(keys: &[AtomicU64], out: &[AtomicU64]) -> PyResult<()> {
    let (keys, out) = (keys.as_ptr_range(), out.as_ptr_range());
    if keys == out || keys.end <= out.start || out.end <= keys.start {
        return Ok(());
    }
    Err(ArrayError::new_err(
        "out: wanted an array apart from keys, or keys itself; this has some of them",
    ))
}

fn same_length(keys: usize, others: usize) -> PyResult<()> {
    if keys == others {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{keys} keys, but {others} places in the other array")))
}
