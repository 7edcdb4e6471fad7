//! Iterators over maps that hold no objects of Python's: some entries are copied at a time, and the place is found again by the last
//! key.
//!
//! So nothing of the map is held between two steps, and writers need not stop: keys come strictly in order, and one that is there all
//! the time is met.

use core::ops::Deref;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::{COPIED, Ends, What};
use crate::error::guarded;

/// A copy of an entry: its key, and its value if that is wanted.
pub(crate) type Copied = (Box<[u8]>, Box<[u8]>);

/// After how many bytes of keys and values a copy ends: what is not yielded yet should stay in the near cache, and is in vain for who
/// walks no further.
const COPIED_BYTES: usize = 32 << 10;

/// Where entries come from.
pub(crate) trait Source: Send + Sync {
    /// Copies some entries between two keys, from one end.
    fn copy(&self, ends: &Ends, reverse: bool, chunk: Chunk<'_>);
}

/// Entries that are to be copied.
pub(crate) struct Chunk<'c> {
    what: What,
    /// How many are wanted at most.
    wanted: usize,
    into: &'c mut Vec<Copied>,
}

impl Chunk<'_> {
    /// Takes entries, but for values that nobody wants: one at least, if there is one.
    pub(crate) fn take<K, V>(self, entries: impl Iterator<Item = (K, V)>)
    where
        K: Deref<Target = [u8]>,
        V: Deref<Target = [u8]>,
    {
        let mut bytes = 0;
        for (key, value) in entries.take(self.wanted) {
            let value = if self.what == What::Keys { &[][..] } else { &*value };
            bytes += key.len() + value.len();
            self.into.push((Box::from(&*key), Box::from(value)));
            if bytes >= COPIED_BYTES {
                return;
            }
        }
    }
}

/// An iterator over keys, values or pairs of bytes, in the order of keys.
#[pyclass(module = "fanread._fanread")]
pub struct BytesIterator {
    source: Option<Arc<dyn Source>>,
    what: What,
    reverse: bool,
    ends: Ends,
    /// What was copied and not yielded, the next one last.
    copied: Vec<Copied>,
    chunk: usize,
}

impl BytesIterator {
    pub(crate) fn new(source: Arc<dyn Source>, what: What, reverse: bool, ends: Ends) -> Self {
        Self { source: Some(source), what, reverse, ends, copied: Vec::new(), chunk: COPIED.0 }
    }

    /// Copies the next entries, if there are any.
    fn copy(&mut self) -> PyResult<()> {
        let Some(source) = &self.source else { return Ok(()) };
        let chunk = Chunk { what: self.what, wanted: self.chunk, into: &mut self.copied };
        let (ends, reverse) = (&self.ends, self.reverse);
        guarded(|| source.copy(ends, reverse, chunk))?;
        match self.copied.last() {
            Some((last, _)) => self.ends.go_on(last, self.reverse),
            None => self.source = None,
        }
        self.copied.reverse();
        self.chunk = (self.chunk * 4).min(COPIED.1);
        Ok(())
    }
}

#[pymethods]
impl BytesIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.copied.is_empty() {
            self.copy()?;
        }
        let Some((key, value)) = self.copied.pop() else { return Ok(None) };
        Ok(Some(match self.what {
            What::Keys => PyBytes::new(py, &key).into_any().unbind(),
            What::Values => PyBytes::new(py, &value).into_any().unbind(),
            What::Items => (PyBytes::new(py, &key), PyBytes::new(py, &value))
                .into_pyobject(py)?
                .into_any()
                .unbind(),
        }))
    }
}
