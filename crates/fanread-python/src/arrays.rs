//! Arrays of numpy as words that a batch may read and write while other code of Python's runs.
//!
//! A batch runs without the interpreter's lock, so another thread may write to an array meanwhile, as it may while numpy itself works
//! on one. Here each word is loaded and stored as a relaxed atomic: such a program gets old words or new ones, and nothing worse.
//!
//! It may also try to resize an array, and with `refcheck=False` numpy does not mind who else has it, not even who has exported its
//! buffer. It minds weak references, so a batch has one to each of its arrays, and one to whose memory a view is of.

use core::ffi::c_void;
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU64};

use numpy::npyffi::{NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE};
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyWeakrefReference;

use crate::error::ArrayError;

/// What numbers of 8 bytes are, and so how they are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    Unsigned,
    Signed,
    Float,
    /// `datetime64` or `timedelta64`: signed, with a unit.
    Time,
}

/// Finds a dtype by its name; short names as Rust's (`u64`, `i64`, `f64`) are understood too.
///
/// # Errors
///
/// A `TypeError` if it is not a number of 8 bytes in this machine's byte order.
pub(crate) fn dtype_of<'py>(
    name: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyArrayDescr>, Number)> {
    let py = name.py();
    let short = name.extract::<&str>().ok().and_then(|name| match name {
        "u64" => Some("uint64"),
        "i64" => Some("int64"),
        "f64" => Some("float64"),
        _ => None,
    });
    let dtype = match short {
        Some(long) => PyArrayDescr::new(py, long)?,
        None => PyArrayDescr::new(py, name)?,
    };
    let number = match dtype.kind() {
        b'u' => Some(Number::Unsigned),
        b'i' => Some(Number::Signed),
        b'f' => Some(Number::Float),
        b'M' | b'm' => Some(Number::Time),
        _ => None,
    };
    match number.filter(|_| dtype.itemsize() == 8 && dtype.is_native_byteorder() == Some(true)) {
        Some(number) => Ok((dtype, number)),
        None => Err(ArrayError::new_err(format!(
            "wanted a dtype of 8 bytes in native order: uint64, int64, float64, datetime64 or timedelta64; this is {}",
            dtype.str()?
        ))),
    }
}

/// Checks that an object is an array of one dimension with this dtype, without gaps; returns its first byte, its length, and what keeps both
/// as they are.
///
/// # Errors
///
/// A `TypeError` that says what is wanted, and what this is.
fn checked<'py>(
    name: &str,
    array: &Bound<'py, PyAny>,
    dtype: &Bound<'_, PyArrayDescr>,
    written: bool,
) -> PyResult<(Hold<'py>, *mut c_void, usize)> {
    let wanted = || -> PyResult<String> {
        let also = if written { ", aligned and writeable" } else { " and aligned" };
        Ok(format!(
            "{name}: wanted an array of shape (n,) and dtype {}, contiguous{also}",
            dtype.str()?
        ))
    };
    let Ok(array) = array.cast::<PyUntypedArray>() else {
        let found = array.get_type().name()?.to_string();
        return Err(ArrayError::new_err(format!("{}; this is a {found}", wanted()?)));
    };
    let hold = Hold::of(array)?;
    let found = array.dtype();
    // SAFETY: the pointer of an array that we hold a reference to.
    let (data, flags) = unsafe {
        let array = array.as_array_ptr();
        ((*array).fields.data.cast::<c_void>(), (*array).fields.flags)
    };
    let needed = NPY_ARRAY_ALIGNED | if written { NPY_ARRAY_WRITEABLE } else { 0 };
    if array.ndim() != 1 || !found.is_equiv_to(dtype) {
        return Err(ArrayError::new_err(format!(
            "{}; this has shape {:?} and dtype {}",
            wanted()?,
            array.shape(),
            found.str()?
        )));
    }
    if !array.is_c_contiguous() {
        return Err(ArrayError::new_err(format!(
            "{}; this has gaps (numpy.ascontiguousarray copies)",
            wanted()?
        )));
    }
    if flags & needed != needed {
        return Err(ArrayError::new_err(format!("{}; this is not", wanted()?)));
    }
    Ok((hold, data, array.len()))
}

/// The items of an array, which stay where they are while there is one of these.
pub(crate) struct Held<'a, 'py, T> {
    items: &'a [T],
    _hold: Hold<'py>,
}

impl<T> Deref for Held<'_, '_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.items
    }
}

/// What numpy refuses to resize an array for: weak references to it, and to the one whose memory it shows.
struct Hold<'py> {
    _array: Bound<'py, PyWeakrefReference>,
    _owner: Option<Bound<'py, PyWeakrefReference>>,
}

impl<'py> Hold<'py> {
    fn of(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        let owner = array.getattr(intern!(array.py(), "base"))?;
        let owner = owner.is_instance_of::<PyUntypedArray>().then_some(owner);
        Ok(Self {
            _array: PyWeakrefReference::new(array)?,
            _owner: owner.as_ref().map(PyWeakrefReference::new).transpose()?,
        })
    }
}

/// The words of an array with numbers of 8 bytes.
///
/// # Errors
///
/// See [`checked`].
pub(crate) fn words<'a, 'py>(
    name: &str,
    array: &'a Bound<'py, PyAny>,
    dtype: &Bound<'_, PyArrayDescr>,
    written: bool,
) -> PyResult<Held<'a, 'py, AtomicU64>> {
    let (hold, data, len) = checked(name, array, dtype, written)?;
    if len == 0 {
        return Ok(Held { items: &[], _hold: hold });
    }
    // SAFETY: an aligned array without gaps has that many words there. The caller's reference keeps it for 'a, and the hold, which was
    // there before the words were looked for, keeps them in place against who resizes it. Who sets the state of an array of which a batch is
    // under way (`__setstate__`), or resizes without regard for references one that views of views are of, has numpy itself read what is
    // not there any more, too: that nobody does is the duty of the caller in Python, and the docstring of the class says so. Whoever else
    // reads or writes words meanwhile does so word by word, as these atomics do.
    let items = unsafe { core::slice::from_raw_parts(data.cast::<AtomicU64>(), len) };
    Ok(Held { items, _hold: hold })
}

/// The bytes of an array of truth values, to be written.
///
/// # Errors
///
/// See [`checked`].
pub(crate) fn flags<'a, 'py>(
    name: &str,
    array: &'a Bound<'py, PyAny>,
) -> PyResult<Held<'a, 'py, AtomicU8>> {
    let dtype = numpy::dtype::<bool>(array.py());
    let (hold, data, len) = checked(name, array, &dtype, true)?;
    if len == 0 {
        return Ok(Held { items: &[], _hold: hold });
    }
    // SAFETY: as in `words`.
    let items = unsafe { core::slice::from_raw_parts(data.cast::<AtomicU8>(), len) };
    Ok(Held { items, _hold: hold })
}

/// A new array of a dtype, whose contents are anything.
pub(crate) fn empty<'py>(
    py: Python<'py>,
    len: usize,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    EMPTY.import(py, "numpy", "empty")?.call1((len, dtype))
}

/// A new array of a dtype, with these words.
pub(crate) fn array_of<'py>(
    py: Python<'py>,
    words: Vec<u64>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = PyArray1::from_vec(py, words).into_any();
    if dtype.is_equiv_to(&numpy::dtype::<u64>(py)) {
        return Ok(array);
    }
    array.call_method1(intern!(py, "view"), (dtype,))
}

/// The word of one number, as an array would have it. Takes what numpy takes without losing anything of it.
///
/// # Errors
///
/// A `TypeError`, a `ValueError` or an `OverflowError` if the object is not such a number.
pub(crate) fn word_of(
    number: &Bound<'_, PyAny>,
    kind: Number,
    dtype: &Bound<'_, PyArrayDescr>,
) -> PyResult<u64> {
    match kind {
        Number::Unsigned => number.extract::<u64>(),
        Number::Signed => number.extract::<i64>().map(i64::cast_unsigned),
        Number::Float => number.extract::<f64>().map(f64::to_bits),
        Number::Time => time_word(number, dtype),
    }
}

/// The word of a time.
fn time_word(time: &Bound<'_, PyAny>, dtype: &Bound<'_, PyArrayDescr>) -> PyResult<u64> {
    static ARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = time.py();
    if time.is_none() {
        return Err(PyTypeError::new_err("wanted a time, and this is None"));
    }
    let array = ARRAY.import(py, "numpy", "array")?.call1(((time,), dtype))?;
    let words = words("key", &array, dtype, false)?;
    let [word] = &*words else { return Err(PyTypeError::new_err("wanted one number")) };
    // Of a finer unit, numpy would leave out what is too fine; a span it would take for a moment. (What is no time equals nothing.)
    let is_time =
        |dtype: Bound<'_, PyAny>| Ok(matches!(dtype.getattr("kind")?.extract()?, 'M' | 'm'));
    let of_numpy = time.getattr_opt("dtype")?.map_or(Ok::<_, PyErr>(false), is_time)?;
    if of_numpy && time.eq(time)? && !array.get_item(0)?.eq(time)? {
        return Err(PyValueError::new_err(format!("{time} is no {}", dtype.str()?)));
    }
    Ok(word.load(Relaxed))
}

/// The object of one word.
pub(crate) fn object_of<'py>(
    py: Python<'py>,
    word: u64,
    kind: Number,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match kind {
        Number::Unsigned => word.into_pyobject(py)?.into_any(),
        Number::Signed => word.cast_signed().into_pyobject(py)?.into_any(),
        Number::Float => f64::from_bits(word).into_pyobject(py)?.into_any(),
        Number::Time => array_of(py, vec![word], dtype)?.get_item(0)?,
    })
}
