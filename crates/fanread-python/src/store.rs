//! The base of `PersistentMap`: bytes to bytes in a file, on [`Store`].
//!
//! Calls that wait for the disk, or have many keys, release the interpreter's lock. Whoever closes the map waits for the calls that
//! are under way in other threads: these hold the lock of `store` for reading, and need no interpreter until they have given it back.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use fanread::Store;
use fanread::persist::Durability;
use fanread::persist::cceh::{CcehError, CcehOptions};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyTuple};

use crate::bytes_map::{
    BytesPair, key_objects, list_of, no_default, nothing_to_pop, pair_objects, pair_slices,
};
use crate::error::{ClosedError, about, at_most_one, guarded, of_store};

/// A map from bytes to bytes in a file. Use fanread.PersistentMap.
#[pyclass(frozen, subclass, module = "fanread._fanread")]
pub struct PersistentMapBase {
    store: RwLock<Option<Store>>,
    /// Held by who closes, until the file is closed.
    closing: Mutex<()>,
    path: PathBuf,
}

impl PersistentMapBase {
    fn lock(&self) -> RwLockReadGuard<'_, Option<Store>> {
        // The map in it stays whole whatever panics.
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the map, if it is open.
    fn with<R>(&self, work: impl FnOnce(&Store) -> R) -> PyResult<R> {
        let store = self.lock();
        let Some(store) = &*store else { return Err(ClosedError::new_err("the map is closed")) };
        guarded(|| work(store))
    }
}

#[pymethods]
impl PersistentMapBase {
    #[new]
    #[pyo3(signature = (path, flag = "c", *, checkpoints = false))]
    fn new(py: Python<'_>, path: PathBuf, flag: &str, checkpoints: bool) -> PyResult<Self> {
        let (create, open) = match flag {
            "c" => (!path.exists(), true),
            "n" => (true, false),
            "w" => (false, true),
            _ => return Err(PyValueError::new_err("flag: wanted \"c\", \"n\" or \"w\"")),
        };
        let options = CcehOptions::new().checkpoints(checkpoints);
        let opened = py.detach(|| {
            guarded(|| {
                if !create {
                    return Store::open(&path);
                }
                match Store::create(&path, options) {
                    // Somebody else was first, after the file was looked for.
                    Err(CcehError::Io(why))
                        if open && why.kind() == ErrorKind::AlreadyExists && path.exists() =>
                    {
                        Store::open(&path)
                    }
                    made => made,
                }
            })
        })?;
        let opened = opened.map_err(|error| about(py, &path, of_store(error)))?;
        if checkpoints && opened.durability() < Durability::Checkpoint {
            py.detach(|| guarded(|| drop(opened)))?;
            return Err(PyValueError::new_err(format!(
                "checkpoints: {} was made without, and whether a file has them never changes",
                path.display()
            )));
        }
        Ok(Self { store: RwLock::new(Some(opened)), closing: Mutex::new(()), path })
    }

    /// The file of the map.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether the map is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.lock().is_none()
    }

    /// What the entries survive: "process" (its end), "checkpoint" (and a power cut, with what the last sync had), or "persistent"
    /// (and a power cut at any moment).
    #[getter]
    fn durability(&self) -> PyResult<&'static str> {
        self.with(|store| match store.durability() {
            Durability::Process => "process",
            Durability::Checkpoint => "checkpoint",
            Durability::Persistent => "persistent",
            _ => "none",
        })
    }

    /// Write what is not yet on the disk, and wait for it; with checkpoints=True that is a new checkpoint.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(Store::sync))?.map_err(of_store)
    }

    /// Close the map and its file; closing again does nothing, but waits for who is closing it. Calls under way in other threads end
    /// first.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let _closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
            // Others find it closed at once, and do not wait for the disk with the interpreter's lock.
            let store = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
            guarded(|| drop(store))
        })
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().with(|_| ())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.with(Store::len)
    }

    fn __contains__(&self, key: &Bound<'_, PyBytes>) -> PyResult<bool> {
        self.with(|store| store.contains_key(key.as_bytes()))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
        match self.with(|store| store.get(key.as_bytes()))? {
            Some(value) => Ok(PyBytes::new(key.py(), &value)),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyBytes>, value: &Bound<'_, PyBytes>) -> PyResult<()> {
        self.with(|store| store.insert(key.as_bytes(), value.as_bytes()))?.map_err(of_store)?;
        Ok(())
    }

    fn __delitem__(&self, key: &Bound<'_, PyBytes>) -> PyResult<()> {
        match self.with(|store| store.remove(key.as_bytes()))? {
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
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.with(|store| store.get(key.as_bytes()))?;
        Ok(found.map(|value| PyBytes::new(key.py(), &value).into_any()).or(default))
    }

    /// Return the value of key; insert default first if there is none.
    ///
    /// Two steps, both under the interpreter's lock: only an insert_many of another thread can put a value there between them, and
    /// that is replaced by default.
    #[pyo3(signature = (key, default = None))]
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyBytes>,
        default: Option<&Bound<'py, PyBytes>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(value) = self.with(|store| store.get(key.as_bytes()))? {
            return Ok(PyBytes::new(key.py(), &value));
        }
        let default = default.ok_or_else(no_default)?;
        self.__setitem__(key, default)?;
        Ok(default.clone())
    }

    /// Remove key and return its value, or default if there is none; without default that is a KeyError.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        key: &Bound<'py, PyBytes>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        at_most_one(default)?;
        if let Some(value) = self.with(|store| store.remove(key.as_bytes()))? {
            return Ok(PyBytes::new(key.py(), &value).into_any());
        }
        default.get_item(0).map_err(|_| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Remove and return a pair, any of them; KeyError if there is none. No entry is returned twice.
    ///
    /// Costs a segment of 16 KB, which is read to find the pair; seldom a few more that are empty.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<BytesPair<'py>> {
        let popped = self.with(|store| {
            // An entry that another thread takes first is passed over: the walk goes on to the next one.
            store.iter().find_map(|(key, _)| store.remove(&key).map(|value| (key, value)))
        })?;
        let (key, value) = popped.ok_or_else(nothing_to_pop)?;
        Ok((PyBytes::new(py, &key), PyBytes::new(py, &value)))
    }

    /// Remove all entries, each by itself, without the interpreter's lock. What other threads insert meanwhile may stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.with(|store| {
                for (key, _) in store {
                    store.remove(&key);
                }
            })
        })
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
            self.with(|store| {
                let mut found = vec![None; bytes.len()];
                store.get_batch(&bytes, &mut found);
                found
            })
        })?;
        list_of(keys.py(), found, default)
    }

    /// Insert all pairs of an iterable, without the interpreter's lock. Of equal keys the last one counts.
    ///
    /// The iterable is read to its end first: if it raises, or something in it is no pair of bytes, the map is unchanged. If a pair is
    /// refused later, because its key is too long or the file cannot grow, the pairs before it are in the map, and those after it
    /// are not.
    fn insert_many(&self, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let objects = pair_objects(pairs)?;
        let entries = pair_slices(&objects);
        let inserted = pairs.py().detach(|| {
            self.with(|store| {
                entries.iter().try_for_each(|(key, value)| store.insert(key, value).map(drop))
            })
        })?;
        inserted.map_err(of_store)
    }

    /// Return a list of all pairs as they are now, in no order.
    fn pairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> =
            py.detach(|| self.with(|store| store.iter().collect()))?;
        let list = PyList::empty(py);
        for (key, value) in pairs {
            list.append((PyBytes::new(py, &key), PyBytes::new(py, &value)))?;
        }
        Ok(list)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let keys: Vec<Vec<u8>> =
            py.detach(|| self.with(|store| store.iter().map(|(key, _)| key).collect()))?;
        let list = PyList::empty(py);
        for key in keys {
            list.append(PyBytes::new(py, &key))?;
        }
        list.try_iter()
    }

    /// Return what the map takes, as a dict of numbers: entries, segments, slots, record_bytes, free_bytes, bytes.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(Store::stats)?;
        let dict = PyDict::new(py);
        for (name, number) in [
            ("entries", stats.entries),
            ("segments", stats.segments),
            ("slots", stats.slots),
            ("record_bytes", stats.record_bytes),
            ("free_bytes", stats.free_bytes),
            ("bytes", stats.bytes),
        ] {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }

    /// Bytes of the whole map; 0 if it is closed.
    #[getter]
    fn nbytes(&self) -> usize {
        self.lock().as_ref().map_or(0, |store| store.stats().bytes)
    }

    fn __sizeof__(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + self.nbytes()
    }
}
