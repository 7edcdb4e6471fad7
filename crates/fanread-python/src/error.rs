//! What goes wrong, as Python sees it: one hierarchy below `fanread.FanreadError`.
//!
//! The classes are made in `python/fanread/_errors.py`, where each has a base of Python's own beside ours (`TypeError`, say), so
//! that a program written for `dict` catches what it expects. What the system refuses is an `OSError`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fanread::persist::cceh::CcehError;
use fanread::table::{BuildError, TableError};
use fanread::{InsertError, LoadError};
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pyo3::import_exception!(fanread._errors, FanreadError);
pyo3::import_exception!(fanread._errors, KeyKindError);
pyo3::import_exception!(fanread._errors, KeyTooLongError);
pyo3::import_exception!(fanread._errors, EmptyMapError);
pyo3::import_exception!(fanread._errors, NotSortedError);
pyo3::import_exception!(fanread._errors, OutOfMemoryError);
pyo3::import_exception!(fanread._errors, ArrayError);
pyo3::import_exception!(fanread._errors, ClosedError);
pyo3::import_exception!(fanread._errors, FileFormatError);
pyo3::import_exception!(fanread._errors, TableBuildError);

/// The exception for a key that was not inserted, and the value that comes back.
pub(crate) fn of_insert<V>(error: InsertError<V>) -> (PyErr, V) {
    let raised = match &error {
        InsertError::KeyTooLong { .. } => KeyTooLongError::new_err(error.to_string()),
        InsertError::OutOfMemory { .. } => OutOfMemoryError::new_err(error.to_string()),
        _ => FanreadError::new_err(error.to_string()),
    };
    (raised, error.into_value())
}

/// The exception for entries that make no map.
pub(crate) fn of_load(error: LoadError) -> PyErr {
    let text = error.to_string();
    match error {
        LoadError::NotAscending { .. } => NotSortedError::new_err(text),
        LoadError::KeyTooLong { .. } => KeyTooLongError::new_err(text),
        LoadError::OutOfMemory { .. } => OutOfMemoryError::new_err(text),
        _ => FanreadError::new_err(text),
    }
}

/// The exception for a map in a file.
pub(crate) fn of_store(error: CcehError) -> PyErr {
    let text = error.to_string();
    match error {
        CcehError::Io(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => {
            // The class that Python has for this number.
            PyOSError::new_err((cause.raw_os_error(), text))
        }
        CcehError::Io(cause) => of_io(cause),
        CcehError::OutOfMemory { .. } => OutOfMemoryError::new_err(text),
        CcehError::TooLong { .. } => KeyTooLongError::new_err(text),
        CcehError::Crowded => FanreadError::new_err(text),
        _ => FileFormatError::new_err(text),
    }
}

/// The exception for a table that cannot be read.
pub(crate) fn of_table(error: TableError) -> PyErr {
    let text = error.to_string();
    match error {
        TableError::Io(cause) => of_io(cause),
        TableError::OutOfMemory { .. } => OutOfMemoryError::new_err(text),
        _ => FileFormatError::new_err(text),
    }
}

/// The exception for a table that cannot be built.
pub(crate) fn of_build(error: BuildError) -> PyErr {
    match error {
        BuildError::Io(cause) | BuildError::Spill(cause) => of_io(cause),
        BuildError::OutOfMemory { .. } => OutOfMemoryError::new_err(error.to_string()),
        other => TableBuildError::new_err(other.to_string()),
    }
}

/// The exception for a refusal of the system, with its number, so that Python picks the class.
fn of_io(cause: std::io::Error) -> PyErr {
    match cause.raw_os_error() {
        Some(number) => PyOSError::new_err((number, cause.to_string())),
        None => cause.into(),
    }
}

/// Names the file in an exception of the system, as Python's own do. One without a number has its text alone, which would not be
/// shown beside the name of a file.
pub(crate) fn about(py: Python<'_>, path: &Path, raised: PyErr) -> PyErr {
    let has_number =
        |raised: &PyErr| raised.value(py).getattr("errno").is_ok_and(|number| !number.is_none());
    if raised.is_instance_of::<PyOSError>(py) && has_number(&raised) {
        // Without it the exception says less, and is the same.
        let _named = raised.value(py).setattr("filename", path.as_os_str());
    }
    raised
}

/// Refuses more than one default of `pop`, as `dict` does.
pub(crate) fn at_most_one(default: &Bound<'_, PyTuple>) -> PyResult<()> {
    let given = 1 + default.len();
    if given <= 2 {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("pop expected at most 2 arguments, got {given}")))
}

/// Runs work of the library that may panic where its contract says so, and makes an exception of that.
///
/// What pyo3 makes of a panic is no `Exception`, and meant to end the program. The maps stay whole when a call panics, so here the
/// program may go on.
pub(crate) fn guarded<R>(work: impl FnOnce() -> R) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no text");
        FanreadError::new_err(format!("the library gave up: {text}"))
    })
}

/// Panics, for the tests: inside of what is guarded, where an exception comes out, or outside, where pyo3 stops it.
#[pyfunction]
#[pyo3(signature = (text, caught = true))]
pub(crate) fn _panic(text: &str, caught: bool) -> PyResult<()> {
    if caught {
        return guarded(|| panic!("{text}"));
    }
    panic!("{text}")
}
