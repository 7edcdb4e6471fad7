//! Keys of a `SortedMap`: Python objects as byte strings that sort alike.
//!
//! ```text
//! bytes   as they are
//! str     UTF-8; a lone surrogate as the three bytes it would have there, which keeps the order of code points
//! int     +--------+----------------+----------------------+
//!         | header | length, 2 bytes| magnitude, big-endian|     not negative
//!         +--------+----------------+----------------------+
//!           0x80 + bytes of the magnitude if these are up to 0x70, and then no length; else 0xff
//! ```
//!
//! A negative number is the complement of every byte of its magnitude's encoding, so a longer one is smaller.
//!
//! # Invariants
//!
//! * **K1** Two keys of one kind are encoded alike if and only if they are equal, and sort as their encodings do.
//! * **K2** Decoding gives an equal object of exactly the kind's type.
//!
//! `tests/test_keys.py` tests both.

use core::ffi::c_char;

use fanread::ordered_map::MAX_KEY_BYTES;
use pyo3::exceptions::{PyException, PyTypeError, PyUnicodeEncodeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::error::{KeyKindError, KeyTooLongError};

/// What the keys of a map are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Bytes = 1,
    Str,
    Int,
}

impl Kind {
    /// The kind behind a number; `None` if that is 0.
    #[inline]
    pub(crate) fn of_bits(bits: u8) -> Option<Self> {
        match bits {
            1 => Some(Self::Bytes),
            2 => Some(Self::Str),
            3 => Some(Self::Int),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Str => "str",
            Self::Int => "int",
        }
    }

    /// Whether an object is of this kind, a subclass included.
    #[inline]
    fn is_of(self, key: &Bound<'_, PyAny>) -> bool {
        let key = key.as_ptr();
        // SAFETY: an object; its type is looked at. The exact type first, which takes no call.
        unsafe {
            match self {
                Self::Str => ffi::PyUnicode_CheckExact(key) != 0 || ffi::PyUnicode_Check(key) != 0,
                Self::Int => ffi::PyLong_CheckExact(key) != 0 || ffi::PyLong_Check(key) != 0,
                Self::Bytes => ffi::PyBytes_CheckExact(key) != 0 || ffi::PyBytes_Check(key) != 0,
            }
        }
    }

    /// The kind of an object that can be a key.
    pub(crate) fn of_object(key: &Bound<'_, PyAny>) -> Option<Self> {
        if key.is_instance_of::<PyString>() {
            Some(Self::Str)
        } else if key.is_instance_of::<PyInt>() {
            Some(Self::Int)
        } else if key.is_instance_of::<PyBytes>() {
            Some(Self::Bytes)
        } else {
            None
        }
    }
}

/// Most bytes of a magnitude whose length is in the header.
const SHORT_MAGNITUDE: usize = 0x70;

/// Header of zero; one more for each byte of the magnitude.
const ZERO: u8 = 0x80;

/// Header of a number whose length follows.
const LONG: u8 = 0xff;

/// A key as maps take it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key<'k> {
    /// An encoding.
    Bytes(&'k [u8]),
    /// An int from -2^63 to 2^64 - 1, which is encoded where it has to be ([`Key::bytes`]).
    Number(i128),
}

/// A key that owns its bytes.
#[derive(Debug)]
pub(crate) enum OwnedKey {
    Bytes(Vec<u8>),
    Number(i128),
}

impl OwnedKey {
    #[inline]
    pub(crate) fn as_key(&self) -> Key<'_> {
        match self {
            Self::Bytes(bytes) => Key::Bytes(bytes),
            Self::Number(number) => Key::Number(*number),
        }
    }
}

impl<'k> Key<'k> {
    /// The encoding, made in `short` if there is none yet.
    ///
    /// In place, and as whole words: what is loaded right after it was stored in other pieces has to wait for the cache.
    #[inline]
    pub(crate) fn bytes<'s>(self, short: &'s mut [u64; 2]) -> &'s [u8]
    where
        'k: 's,
    {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => encode_small(number.unsigned_abs() as u64, number < 0, short),
        }
    }

    /// A copy of the encoding.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut [0; 2]).to_vec()
    }

    pub(crate) fn to_owned(self) -> OwnedKey {
        match self {
            Self::Bytes(bytes) => OwnedKey::Bytes(bytes.to_vec()),
            Self::Number(number) => OwnedKey::Number(number),
        }
    }
}

/// Why an object has no encoding of a kind.
pub(crate) enum NoKey {
    /// It is of another kind.
    OtherKind,
    /// Looking at it raised this.
    Raised(PyErr),
}

impl From<PyErr> for NoKey {
    fn from(raised: PyErr) -> Self {
        Self::Raised(raised)
    }
}

/// Makes an object a key of a kind. Its bytes are those of the object, or in `room`.
#[inline]
pub(crate) fn encode<'k>(
    kind: Kind,
    key: &'k Bound<'_, PyAny>,
    room: &'k mut Vec<u8>,
) -> Result<Key<'k>, NoKey> {
    match kind {
        Kind::Str => encode_str(key, room).map(Key::Bytes),
        Kind::Int => encode_int(key, room),
        Kind::Bytes => match key.cast::<PyBytes>() {
            Ok(bytes) => Ok(Key::Bytes(bytes.as_bytes())),
            Err(_) => Err(NoKey::OtherKind),
        },
    }
}

#[inline]
fn encode_str<'k>(key: &'k Bound<'_, PyAny>, room: &'k mut Vec<u8>) -> Result<&'k [u8], NoKey> {
    if !Kind::Str.is_of(key) {
        return Err(NoKey::OtherKind);
    }
    let mut len = 0;
    // SAFETY: the object is a str. What is returned belongs to it, does not change, and lives as long as it does.
    let bytes = unsafe { ffi::PyUnicode_AsUTF8AndSize(key.as_ptr(), &raw mut len) };
    if bytes.is_null() {
        return encode_surrogates(key, room);
    }
    // SAFETY: that many bytes are there, see above; the reference to the object lives for 'k.
    Ok(unsafe { core::slice::from_raw_parts(bytes.cast::<u8>(), len.cast_unsigned()) })
}

/// A str that UTF-8 has no bytes for.
#[cold]
fn encode_surrogates<'k>(
    text: &Bound<'_, PyAny>,
    room: &'k mut Vec<u8>,
) -> Result<&'k [u8], NoKey> {
    let py = text.py();
    if let Some(raised) = PyErr::take(py)
        && !raised.is_instance_of::<PyUnicodeEncodeError>(py)
    {
        return Err(raised.into());
    }
    // SAFETY: the object is a str, and both names end in a zero. The result is a new object, or null and an exception is set. (Not
    // the method: a subclass may have another.)
    let encoded = unsafe {
        let encoded = ffi::PyUnicode_AsEncodedString(
            text.as_ptr(),
            c"utf-8".as_ptr(),
            c"surrogatepass".as_ptr(),
        );
        Bound::from_owned_ptr_or_err(py, encoded)?
    };
    room.clear();
    room.extend_from_slice(encoded.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes());
    Ok(room)
}

#[inline]
fn encode_int<'k>(key: &Bound<'_, PyAny>, room: &'k mut Vec<u8>) -> Result<Key<'k>, NoKey> {
    if !Kind::Int.is_of(key) {
        return Err(NoKey::OtherKind);
    }
    let mut overflow = 0;
    // SAFETY: the object is an int.
    let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(key.as_ptr(), &raw mut overflow) };
    if overflow < 0 {
        return encode_large(key, true, room).map(Key::Bytes);
    }
    if overflow > 0 {
        // SAFETY: the object is an int.
        let number = unsafe { ffi::PyLong_AsUnsignedLongLong(key.as_ptr()) };
        // What is larger is the largest number, and an exception, which is of no use.
        if number == u64::MAX && PyErr::take(key.py()).is_some() {
            return encode_large(key, false, room).map(Key::Bytes);
        }
        return Ok(Key::Number(number.into()));
    }
    Ok(Key::Number(number.into()))
}

/// The encoding of a number with a magnitude of 64 bits.
#[inline]
fn encode_small(magnitude: u64, negative: bool, short: &mut [u64; 2]) -> &[u8] {
    let bytes = 8 - magnitude.leading_zeros() as usize / 8;
    let flip = if negative { u64::MAX } else { 0 };
    let header = (ZERO + bytes as u8) ^ flip as u8;
    // The zeros in front go out at the top; what follows the magnitude is not part of the key.
    let shifted = magnitude.checked_shl(64 - 8 * bytes as u32).unwrap_or(0);
    let magnitude = (shifted ^ flip).swap_bytes();
    *short = [(u64::from(header) | magnitude << 8).to_le(), (magnitude >> 56).to_le()];
    // SAFETY: the words are 16 initialised bytes, and any bytes are bytes. They are borrowed for as long.
    let whole = unsafe { &*core::ptr::from_ref(short).cast::<[u8; 16]>() };
    &whole[..=bytes]
}

/// The encoding of a number beyond.
#[cold]
fn encode_large<'k>(
    key: &Bound<'_, PyAny>,
    negative: bool,
    room: &'k mut Vec<u8>,
) -> Result<&'k [u8], NoKey> {
    let py = key.py();
    // A subclass may say anything of its size; a sum is a plain int.
    let plain = py.get_type::<PyInt>().call_method1(intern!(py, "__add__"), (key, 0))?;
    let magnitude = if negative { plain.neg()? } else { plain };
    let bits: usize = magnitude.call_method0(intern!(py, "bit_length"))?.extract()?;
    let bytes = bits.div_ceil(8);
    let encoded = room;
    encoded.clear();
    if bytes <= SHORT_MAGNITUDE {
        encoded.push(ZERO + bytes as u8);
    } else {
        let length = u16::try_from(bytes).ok().filter(|_| bytes + 3 <= MAX_KEY_BYTES);
        let Some(length) = length else {
            return Err(NoKey::Raised(KeyTooLongError::new_err(format!(
                "the key has {} bytes, the longest possible one {MAX_KEY_BYTES}",
                bytes + 3
            ))));
        };
        encoded.push(LONG);
        encoded.extend(length.to_be_bytes());
    }
    let magnitude = magnitude.call_method1(intern!(py, "to_bytes"), (bytes, intern!(py, "big")))?;
    encoded.extend(magnitude.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes());
    if negative {
        for byte in &mut *encoded {
            *byte = !*byte;
        }
    }
    Ok(encoded)
}

/// Encodes a key to be stored or compared: one of another kind is a `TypeError` that names both.
#[inline]
pub(crate) fn encode_strictly<'k>(
    kind: Kind,
    key: &'k Bound<'_, PyAny>,
    room: &'k mut Vec<u8>,
) -> PyResult<Key<'k>> {
    encode(kind, key, room).map_err(|no_key| match no_key {
        NoKey::OtherKind => other_kind(kind, key),
        NoKey::Raised(raised) => raised,
    })
}

/// The error of a key of another kind.
#[cold]
fn other_kind(kind: Kind, key: &Bound<'_, PyAny>) -> PyErr {
    match key.get_type().name() {
        Ok(name) => KeyKindError::new_err(format!(
            "the keys of this map are {}, this one is {name}",
            kind.name()
        )),
        Err(raised) => raised,
    }
}

/// Finds the kind of the first key of a map.
///
/// # Errors
///
/// If the object cannot be a key.
pub(crate) fn first_kind(key: &Bound<'_, PyAny>) -> PyResult<Kind> {
    Kind::of_object(key).ok_or_else(|| match key.get_type().name() {
        Ok(name) => KeyKindError::new_err(format!(
            "keys are bytes, str or int, all of one kind; this one is {name}"
        )),
        Err(raised) => raised,
    })
}

/// Encodes a key to be looked for, as `dict` would look for it: a number of another type is the int it equals,
/// and what is of another kind is `None`: it is not there.
///
/// # Errors
///
/// If the object cannot be hashed, as with `dict`.
#[inline]
pub(crate) fn encode_sought<'k>(
    kind: Option<Kind>,
    key: &'k Bound<'_, PyAny>,
    room: &'k mut Vec<u8>,
) -> PyResult<Option<Key<'k>>> {
    let Some(same) = kind.filter(|kind| kind.is_of(key)) else {
        return encode_stranger(kind, key, room);
    };
    match encode(same, key, room) {
        Ok(encoded) => Ok(Some(encoded)),
        // Nothing that long was ever stored.
        Err(NoKey::Raised(raised)) if !raised.is_instance_of::<KeyTooLongError>(key.py()) => {
            Err(raised)
        }
        Err(_) => Ok(None),
    }
}

#[cold]
fn encode_stranger<'k>(
    kind: Option<Kind>,
    key: &Bound<'_, PyAny>,
    room: &'k mut Vec<u8>,
) -> PyResult<Option<Key<'k>>> {
    let hash = key.hash()?;
    if kind != Some(Kind::Int) {
        return Ok(None);
    }
    let Some(int) = int_equal_to(key, hash)? else { return Ok(None) };
    match encode_int(&int, room) {
        Ok(encoded) => Ok(Some(encoded)),
        Err(NoKey::OtherKind) => Ok(None),
        Err(NoKey::Raised(raised)) => Err(raised),
    }
}

/// The int that `dict` takes an object of another type for: a float without a fraction, or an integer of numpy's, say.
fn int_equal_to<'py>(key: &Bound<'py, PyAny>, hash: isize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(to_int) = key.getattr_opt(intern!(key.py(), "__int__"))? else { return Ok(None) };
    match to_int.call0() {
        // As `dict`, which looks at both.
        Ok(int) => Ok((int.hash()? == hash && key.eq(&int)?).then_some(int)),
        // An infinity, for one.
        Err(raised) if raised.is_instance_of::<PyException>(key.py()) => Ok(None),
        Err(raised) => Err(raised),
    }
}

/// Makes the object of a key (K2).
///
/// # Errors
///
/// If there is no memory for it.
#[inline]
pub(crate) fn decode<'py>(
    py: Python<'py>,
    kind: Kind,
    key: Key<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = match key {
        Key::Bytes(bytes) => bytes,
        Key::Number(number) => return int_of(py, number),
    };
    let len = bytes.len().cast_signed();
    match kind {
        Kind::Bytes => {
            // SAFETY: that many bytes are there, and are copied. The result is a new object, or null and an exception is set.
            unsafe {
                Bound::from_owned_ptr_or_err(
                    py,
                    ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), len),
                )
            }
        }
        Kind::Str => {
            let errors: *const c_char = c"surrogatepass".as_ptr();
            // SAFETY: as above; the bytes are UTF-8 but for surrogates, and the name of what to do with these ends in a zero.
            unsafe {
                let text = ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), len, errors);
                Bound::from_owned_ptr_or_err(py, text)
            }
        }
        Kind::Int => decode_int(py, bytes),
    }
}

/// The int of a number from -2^63 to 2^64 - 1.
#[inline]
fn int_of(py: Python<'_>, number: i128) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: both make a new object of a number, or return null and set an exception.
    unsafe {
        let int = match i64::try_from(number) {
            Ok(number) => ffi::PyLong_FromLongLong(number),
            Err(_) => ffi::PyLong_FromUnsignedLongLong(number as u64),
        };
        Bound::from_owned_ptr_or_err(py, int)
    }
}

/// The number that is encoded; 2^64 or -2^64 for one that is further from zero.
pub(crate) fn number(bytes: &[u8]) -> i128 {
    let Some((header, magnitude)) = bytes.split_first() else { return 0 };
    let negative = *header < ZERO;
    if magnitude.len() > 8 {
        return if negative { -(1 << 64) } else { 1 << 64 };
    }
    let flip = if negative { u8::MAX } else { 0 };
    let number = magnitude.iter().fold(0, |number: u64, byte| number << 8 | u64::from(byte ^ flip));
    if negative { -i128::from(number) } else { number.into() }
}

fn decode_int<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let Some((header, magnitude)) = bytes.split_first() else {
        return Err(PyTypeError::new_err("not the encoding of an int"));
    };
    let negative = *header < ZERO;
    if magnitude.len() <= 8 {
        let number = number(bytes);
        if number >= i64::MIN.into() {
            return int_of(py, number);
        }
        // A negative number of 64 bits.
        return (number.unsigned_abs() as u64).into_pyobject(py)?.into_any().neg();
    }
    let is_long = *header == LONG || *header == !LONG;
    let magnitude = if is_long { &magnitude[2..] } else { magnitude };
    let plain: Vec<u8> =
        magnitude.iter().map(|byte| if negative { !byte } else { *byte }).collect();
    let number = py
        .get_type::<PyInt>()
        .call_method1(intern!(py, "from_bytes"), (PyBytes::new(py, &plain), intern!(py, "big")))?;
    if negative { number.neg() } else { Ok(number) }
}
