//! Encodings of typed keys into byte strings, or into `u64`, that keep their order.
//!
//! The maps of this crate order byte strings and `u64`. Numbers, text, times and
//! tuples of them become such keys here: `a < b` exactly if the encoding of `a`
//! is below the encoding of `b`, and decoding gives the same value back.
//!
//! # Invariants
//!
//! * **K1** `a < b` if and only if `encoding(a) < encoding(b)` in byte order.
//! * **K2** Decoding what was encoded gives an equal value and takes exactly its bytes.
//! * **K3** No encoding of a [self-delimiting](Encode::SELF_DELIMITING) type is
//!   the beginning of another one of that type; so fields can follow each other.
//!
//! `tests/key_order.rs` tests all three for every type, and decoding of bytes
//! that nobody encoded.
//!
//! # Examples
//!
//! One line of code makes a typed key, without allocation where the size is fixed:
//!
//! ```
//! use fanread::key;
//!
//! // (user, when, how much), sorted by user, then time, then amount.
//! let early: [u8; 20] = key::array(&(7_u32, -5_i64, 2.5_f64));
//! let late: [u8; 20] = key::array(&(7_u32, 3_i64, -1.0_f64));
//! assert!(early < late);
//! assert_eq!(key::decode::<(u32, i64, f64)>(&early)?, (7, -5, 2.5));
//! # Ok::<(), key::DecodeError>(())
//! ```
//!
//! Text can be followed by more fields; the buffer is used again for every key:
//!
//! ```
//! use fanread::key::{self, Encode};
//!
//! let mut buffer = Vec::new();
//! ("ann", 2_u8).encode(&mut buffer);
//! assert_eq!(key::decode::<(String, u8)>(&buffer)?, ("ann".to_owned(), 2));
//! buffer.clear();
//! ("anna", 1_u8).encode(&mut buffer);
//! assert!(key::to_vec(&("ann", 2_u8)) < buffer);
//! # Ok::<(), key::DecodeError>(())
//! ```

mod bytes;
mod int;
mod time;
mod tuple;

pub use bytes::Tail;
pub use int::U64Key;
pub use time::{from_timestamp, timestamp};

use std::fmt;

/// A value with an encoding that keeps its order.
///
/// Implemented for integers, `f32` and `f64` (in the order of `total_cmp`),
/// `bool`, `char`, `str`, `[u8]`, `[u8; N]`, `Duration`, `SystemTime`, `Option`
/// (`None` first), [`Reverse`](std::cmp::Reverse) and tuples of up to eight of
/// these. Your own type implements it by encoding its fields one after another:
///
/// ```
/// use fanread::key::{self, Decode, DecodeError, Encode, Sink};
///
/// #[derive(Debug, PartialEq)]
/// struct Order { customer: u32, item: String }
///
/// impl Encode for Order {
///     const BYTES: Option<usize> = None;
///     fn encode(&self, out: &mut impl Sink) {
///         (self.customer, self.item.as_str()).encode(out);
///     }
/// }
///
/// impl Decode for Order {
///     fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
///         let (customer, item) = Decode::decode(from)?;
///         Ok(Self { customer, item })
///     }
/// }
///
/// let order = Order { customer: 7, item: "tea".to_owned() };
/// assert_eq!(key::decode::<Order>(&key::to_vec(&order))?, order);
/// # Ok::<(), DecodeError>(())
/// ```
pub trait Encode {
    /// How many bytes every encoding has; `None` if they differ.
    const BYTES: Option<usize>;

    /// Whether the end of an encoding can be told from its bytes.
    ///
    /// True for all types but [`Tail`] and what ends in one. Only such types can
    /// be followed by a field or be reversed; the compiler refuses the others.
    const SELF_DELIMITING: bool = true;

    /// Appends the encoding of this value to `out`.
    fn encode(&self, out: &mut impl Sink);
}

/// A value that can be read back from its encoding.
pub trait Decode: Sized {
    /// Reads a value from the beginning of `from`, and moves `from` behind it.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] if no value of this type has such an encoding. `from`
    /// then stands anywhere.
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError>;
}

/// Where encodings are written to: a `Vec<u8>`, or the array of [`array()`].
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Returns the encoding of a value whose encodings all have `N` bytes; allocates nothing.
///
/// Another `N`, or a type without fixed size, does not compile:
///
/// ```compile_fail
/// let key: [u8; 3] = fanread::key::array(&7_u32);
/// ```
///
/// # Examples
///
/// ```
/// use std::cmp::Reverse;
/// use fanread::key;
///
/// // The newest of a day first.
/// let noon: [u8; 6] = key::array(&(20_u16, Reverse(720_u32)));
/// let evening: [u8; 6] = key::array(&(20_u16, Reverse(1_200_u32)));
/// assert!(evening < noon);
/// ```
pub fn array<const N: usize, T: Encode + ?Sized>(value: &T) -> [u8; N] {
    const {
        assert!(
            matches!(T::BYTES, Some(bytes) if bytes == N),
            "the encoding does not have N bytes"
        );
    }
    let mut fixed = Fixed { bytes: [0; N], len: 0 };
    value.encode(&mut fixed);
    debug_assert_eq!(fixed.len, N, "`encode` wrote as much as `BYTES` says");
    fixed.bytes
}

struct Fixed<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Sink for Fixed<N> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Returns the encoding of `value` in a vector of its own.
///
/// For many keys, [`Encode::encode`] into one buffer saves the allocations.
///
/// # Examples
///
/// ```
/// let key = fanread::key::to_vec(&("b\0b", -1_i8));
/// assert_eq!(key, b"b\0\xffb\0\0\x7f");
/// ```
pub fn to_vec<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(T::BYTES.unwrap_or(16));
    value.encode(&mut out);
    out
}

/// Returns the value whose encoding is `bytes`, all of them.
///
/// # Errors
///
/// A [`DecodeError`] if `bytes` is not an encoding of a `T`.
///
/// # Examples
///
/// ```
/// use fanread::key::{self, DecodeError};
///
/// assert_eq!(key::decode::<i16>(&[0x80, 0x02]), Ok(2));
/// assert_eq!(key::decode::<i16>(&[0x80]), Err(DecodeError::Short { needed: 2, found: 1 }));
/// ```
pub fn decode<T: Decode>(mut bytes: &[u8]) -> Result<T, DecodeError> {
    let value = T::decode(&mut bytes)?;
    match bytes.len() {
        0 => Ok(value),
        left => Err(DecodeError::TrailingBytes { left }),
    }
}

/// Why bytes are not the encoding of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a field.
    Short {
        /// How many bytes the field has.
        needed: usize,
        /// How many there were.
        found: usize,
    },
    /// A string has no end mark.
    Unterminated,
    /// Behind a NUL byte of a string stands neither an end mark nor an escape.
    Escape {
        /// What stands there.
        found: u8,
    },
    /// The first byte of a `bool` or `Option` is neither 0 nor 1.
    Flag {
        /// What it is.
        found: u8,
    },
    /// The bytes of a string are not UTF-8.
    NotUtf8 {
        /// How many of its bytes are.
        valid_up_to: usize,
    },
    /// The number is no value of the type: of `char`, of a time, or of a narrow integer.
    OutOfRange {
        /// The number.
        found: u64,
    },
    /// Bytes follow the value.
    TrailingBytes {
        /// How many.
        left: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { needed, found } => {
                write!(f, "the key ends inside a field of {needed} bytes, {found} are left")
            }
            Self::Unterminated => f.write_str("a string in the key has no end mark"),
            Self::Escape { found } => write!(f, "byte {found:#04x} follows a NUL in a string"),
            Self::Flag { found } => write!(f, "a flag in the key is {found:#04x}, not 0 or 1"),
            Self::NotUtf8 { valid_up_to } => {
                write!(f, "a string in the key is UTF-8 for {valid_up_to} bytes only")
            }
            Self::OutOfRange { found } => write!(f, "{found} is no value of the key's type"),
            Self::TrailingBytes { left } => write!(f, "{left} bytes follow the key"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Takes the first `N` bytes off `from`.
///
/// # Errors
///
/// [`DecodeError::Short`] if there are fewer.
fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let (first, rest) =
        from.split_first_chunk().ok_or(DecodeError::Short { needed: N, found: from.len() })?;
    *from = rest;
    Ok(*first)
}
