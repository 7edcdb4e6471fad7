//! Numbers: fixed size, no allocation, a few instructions.
//!
//! Big-endian bytes have the order of unsigned integers. A signed integer is
//! moved up by half its range, which flips its first bit. The bits of a float
//! order like a signed number in sign and magnitude: a negative one has all its
//! bits flipped, a positive one only the first. That is the order of
//! `total_cmp`: -NaN, -inf, ..., -0, +0, ..., +inf, +NaN.

use super::{Decode, DecodeError, Encode, Sink, take};

macro_rules! unsigned {
    ($($int:ty)*) => {$(
        impl Encode for $int {
            const BYTES: Option<usize> = Some(size_of::<$int>());

            fn encode(&self, out: &mut impl Sink) {
                out.put(&self.to_be_bytes());
            }
        }

        impl Decode for $int {
            fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
                take(from).map(Self::from_be_bytes)
            }
        }
    )*};
}

macro_rules! signed {
    ($($int:ty as $bits:ty)*) => {$(
        impl Encode for $int {
            const BYTES: Option<usize> = Some(size_of::<$int>());

            fn encode(&self, out: &mut impl Sink) {
                (self.cast_unsigned() ^ <$int>::MIN.cast_unsigned()).encode(out);
            }
        }

        impl Decode for $int {
            fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
                <$bits>::decode(from).map(|bits| bits.cast_signed() ^ <$int>::MIN)
            }
        }
    )*};
}

macro_rules! float {
    ($($float:ty as $bits:ty)*) => {$(
        impl Encode for $float {
            const BYTES: Option<usize> = Some(size_of::<$float>());

            fn encode(&self, out: &mut impl Sink) {
                const TOP: $bits = 1 << (<$bits>::BITS - 1);
                let flip = if self.is_sign_negative() { <$bits>::MAX } else { TOP };
                (self.to_bits() ^ flip).encode(out);
            }
        }

        impl Decode for $float {
            fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
                const TOP: $bits = 1 << (<$bits>::BITS - 1);
                let bits = <$bits>::decode(from)?;
                Ok(Self::from_bits(if bits & TOP == 0 { !bits } else { bits ^ TOP }))
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64 u128);
signed!(i8 as u8 i16 as u16 i32 as u32 i64 as u64 i128 as u128);
float!(f32 as u32 f64 as u64);

impl Encode for bool {
    const BYTES: Option<usize> = Some(1);

    fn encode(&self, out: &mut impl Sink) {
        u8::from(*self).encode(out);
    }
}

impl Decode for bool {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(from)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeError::Flag { found }),
        }
    }
}

impl Encode for char {
    const BYTES: Option<usize> = Some(4);

    fn encode(&self, out: &mut impl Sink) {
        u32::from(*self).encode(out);
    }
}

impl Decode for char {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        let code = u32::decode(from)?;
        char::from_u32(code).ok_or(DecodeError::OutOfRange { found: code.into() })
    }
}

/// A value that fits a `u64` in its order: a key for the maps of integers.
///
/// Implemented for integers and floats of up to 64 bits and pairs of 32-bit
/// integers; [`timestamp`](super::timestamp) does the same for points in time.
///
/// # Examples
///
/// ```
/// use fanread::key::U64Key;
///
/// assert!((-2.5_f64).to_u64() < 0.1_f64.to_u64());
/// assert!((3_u32, -1_i32).to_u64() < (3_u32, 0_i32).to_u64());
/// assert_eq!(i64::from_u64((-9_i64).to_u64()), Ok(-9));
/// ```
pub trait U64Key: Sized {
    /// Returns the number that stands for this value.
    fn to_u64(self) -> u64;

    /// Returns the value that `number` stands for.
    ///
    /// # Errors
    ///
    /// [`DecodeError::OutOfRange`] if it stands for none.
    fn from_u64(number: u64) -> Result<Self, DecodeError>;
}

macro_rules! u64_key {
    ($($int:ty as $bits:ty)*) => {$(
        impl U64Key for $int {
            fn to_u64(self) -> u64 {
                let bytes: [u8; size_of::<$int>()] = super::array(&self);
                <$bits>::from_be_bytes(bytes).into()
            }

            fn from_u64(number: u64) -> Result<Self, DecodeError> {
                let bits = <$bits>::try_from(number);
                let bits = bits.map_err(|_| DecodeError::OutOfRange { found: number })?;
                super::decode(&bits.to_be_bytes())
            }
        }
    )*};
}

u64_key!(u8 as u8 u16 as u16 u32 as u32 u64 as u64);
u64_key!(i8 as u8 i16 as u16 i32 as u32 i64 as u64 f32 as u32 f64 as u64);

macro_rules! u64_key_of_pair {
    ($(($first:ty, $second:ty))*) => {$(
        impl U64Key for ($first, $second) {
            fn to_u64(self) -> u64 {
                self.0.to_u64() << 32 | self.1.to_u64()
            }

            fn from_u64(number: u64) -> Result<Self, DecodeError> {
                let second = number & u64::from(u32::MAX);
                Ok((U64Key::from_u64(number >> 32)?, U64Key::from_u64(second)?))
            }
        }
    )*};
}

u64_key_of_pair!((u32, u32)(u32, i32)(i32, u32)(i32, i32));
