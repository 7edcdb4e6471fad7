//! The base of `CuckooTable`: a file that never changes, of keys of one length with values of one length.

use std::path::PathBuf;
use std::sync::Arc;

use fanread::CuckooTable as Table;
use fanread::table::{TableBuilder, TableOptions};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyType};

use crate::bytes_map::{key_objects, list_of};
use crate::cursor::{Ends, What};
use crate::error::{FileFormatError, about, guarded, of_build, of_table};
use crate::scan::{BytesIterator, Chunk, Source};

impl Source for Table {
    fn copy(&self, ends: &Ends, reverse: bool, chunk: Chunk<'_>) {
        let range = self.range(ends.as_slices());
        if reverse {
            chunk.take(range.rev());
        } else {
            chunk.take(range);
        }
    }
}

/// A table in a file. Use fanread.CuckooTable.
#[pyclass(frozen, subclass, module = "fanread._fanread")]
pub struct CuckooTableBase {
    table: Arc<Table>,
    path: PathBuf,
}

#[pymethods]
impl CuckooTableBase {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| guarded(|| Table::open(&path)))?;
        let opened = opened.map_err(|error| about(py, &path, of_table(error)))?;
        Ok(Self { table: Arc::new(opened), path })
    }

    /// Write a table of the pairs of an iterable to a file, and return how many entries it has.
    ///
    /// All keys have one length, and all values another. The file is at path when it is complete, and not before. Raises
    /// TableBuildError if the entries make no table, and OSError if the file cannot be written.
    #[classmethod]
    #[pyo3(signature = (path, pairs, *, hash_ratio = 0.9))]
    fn build(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        pairs: &Bound<'_, PyAny>,
        hash_ratio: f64,
    ) -> PyResult<u64> {
        let mut builder = TableBuilder::new(TableOptions::new().hash_ratio(hash_ratio));
        for pair in PyIterator::from_object(pairs)? {
            let (key, value) = pair?.extract::<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>()?;
            guarded(|| builder.insert(key.as_bytes(), value.as_bytes()))?.map_err(of_build)?;
        }
        let py = class.py();
        let written = py.detach(|| guarded(|| builder.finish_file(&path)))?;
        Ok(written.map_err(|error| about(py, &path, of_build(error)))?.entries)
    }

    /// The file of the table.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The length of every key in bytes.
    #[getter]
    fn key_bytes(&self) -> usize {
        self.table.stats().key_bytes
    }

    /// The length of every value in bytes.
    #[getter]
    fn value_bytes(&self) -> usize {
        self.table.stats().value_bytes
    }

    fn __len__(&self) -> usize {
        self.table.len()
    }

    fn __contains__(&self, key: &Bound<'_, PyBytes>) -> bool {
        self.table.contains_key(key.as_bytes())
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
        match self.table.get(key.as_bytes()) {
            Some(value) => Ok(PyBytes::new(key.py(), value)),
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
        self.table
            .get(key.as_bytes())
            .map(|value| PyBytes::new(key.py(), value).into_any())
            .or(default)
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
                let mut found = vec![None; bytes.len()];
                self.table.get_batch(&bytes, &mut found);
                found
            })
        })?;
        list_of(keys.py(), found, default)
    }

    fn __iter__(&self) -> BytesIterator {
        BytesIterator::new(self.table.clone(), What::Keys, false, Ends::all())
    }

    fn __reversed__(&self) -> BytesIterator {
        BytesIterator::new(self.table.clone(), What::Keys, true, Ends::all())
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
            self.table.clone(),
            What::of(what)?,
            reverse,
            Ends::of(minimum, maximum, inclusive),
        ))
    }

    /// Look at the whole file: every entry is found, and checksums are right. Raises FileFormatError if not.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let checked = py.detach(|| guarded(|| self.table.check()))?;
        checked.map_err(|broken| FileFormatError::new_err(broken.to_string()))
    }

    /// Return what the file says of itself, as a dict: entries, key_bytes, value_bytes, buckets, block_buckets, hashes, file_bytes.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.table.stats();
        let dict = PyDict::new(py);
        dict.set_item("entries", stats.entries)?;
        dict.set_item("key_bytes", stats.key_bytes)?;
        dict.set_item("value_bytes", stats.value_bytes)?;
        dict.set_item("buckets", stats.buckets)?;
        dict.set_item("block_buckets", stats.block_buckets)?;
        dict.set_item("hashes", stats.hashes)?;
        dict.set_item("file_bytes", stats.file_bytes)?;
        Ok(dict)
    }

    /// Bytes of the file, which is read or mapped.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.table.stats().file_bytes
    }
}
