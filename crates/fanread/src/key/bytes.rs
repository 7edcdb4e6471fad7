//! Byte strings and text, escaped so that another field can follow.
//!
//! A NUL byte becomes `00 FF`, and `00 00` marks the end. The mark is below
//! every continuation of the string, so a string sorts before its extensions
//! whatever follows it; and it occurs nowhere else, so the end can be found.
//! A string without NUL bytes grows by two bytes. A field that nothing follows
//! can do without, as a [`Tail`].

use super::{Decode, DecodeError, Encode, Sink, take};

/// What a NUL byte is followed by where it belongs to the string.
const ESCAPE: u8 = 0xff;

/// What stands behind the last byte.
const END: [u8; 2] = [0, 0];

impl Encode for [u8] {
    const BYTES: Option<usize> = None;

    fn encode(&self, out: &mut impl Sink) {
        for run in self.split_inclusive(|&byte| byte == 0) {
            out.put(run);
            if run.ends_with(&[0]) {
                out.put(&[ESCAPE]);
            }
        }
        out.put(&END);
    }
}

impl Decode for Vec<u8> {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = Vec::new();
        loop {
            let nul = from.iter().position(|&byte| byte == 0);
            let nul = nul.filter(|at| at + 1 < from.len()).ok_or(DecodeError::Unterminated)?;
            bytes.extend_from_slice(&from[..nul]);
            let behind = from[nul + 1];
            *from = &from[nul + 2..];
            match behind {
                0 => return Ok(bytes),
                ESCAPE => bytes.push(0),
                found => return Err(DecodeError::Escape { found }),
            }
        }
    }
}

impl Encode for Vec<u8> {
    const BYTES: Option<usize> = None;

    fn encode(&self, out: &mut impl Sink) {
        self.as_slice().encode(out);
    }
}

impl Encode for str {
    const BYTES: Option<usize> = None;

    fn encode(&self, out: &mut impl Sink) {
        self.as_bytes().encode(out);
    }
}

impl Encode for String {
    const BYTES: Option<usize> = None;

    fn encode(&self, out: &mut impl Sink) {
        self.as_bytes().encode(out);
    }
}

impl Decode for String {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        String::from_utf8(Vec::decode(from)?).map_err(|error| {
            let valid_up_to = error.utf8_error().valid_up_to();
            DecodeError::NotUtf8 { valid_up_to }
        })
    }
}

/// Bytes of one length need neither mark nor escape.
impl<const N: usize> Encode for [u8; N] {
    const BYTES: Option<usize> = Some(N);

    fn encode(&self, out: &mut impl Sink) {
        out.put(self);
    }
}

impl<const N: usize> Decode for [u8; N] {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        take(from)
    }
}

/// A last field of bytes, neither escaped nor marked: all the rest of the key.
///
/// # Examples
///
/// ```
/// use fanread::key::{self, Tail};
///
/// let key = key::to_vec(&(3_u16, Tail(b"a\0b")));
/// assert_eq!(key, b"\0\x03a\0b");
/// assert_eq!(key::decode::<(u16, Tail<Vec<u8>>)>(&key)?, (3, Tail(b"a\0b".to_vec())));
/// # Ok::<(), key::DecodeError>(())
/// ```
///
/// Nothing can follow it:
///
/// ```compile_fail
/// fanread::key::to_vec(&(fanread::key::Tail(b"a"), 3_u16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tail<T>(pub T);

impl<T: AsRef<[u8]>> Encode for Tail<T> {
    const BYTES: Option<usize> = None;
    const SELF_DELIMITING: bool = false;

    fn encode(&self, out: &mut impl Sink) {
        out.put(self.0.as_ref());
    }
}

impl Decode for Tail<Vec<u8>> {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(std::mem::take(from).to_vec()))
    }
}
