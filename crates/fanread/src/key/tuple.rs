//! Fields one after another, reversed, or absent.
//!
//! Encodings of self-delimiting types can be put one after another: the first
//! field that differs decides, since neither of its two encodings is the
//! beginning of the other (K3).

use std::cmp::Reverse;

use super::{Decode, DecodeError, Encode, Sink};

impl<T: Encode + ?Sized> Encode for &T {
    const BYTES: Option<usize> = T::BYTES;
    const SELF_DELIMITING: bool = T::SELF_DELIMITING;

    fn encode(&self, out: &mut impl Sink) {
        (**self).encode(out);
    }
}

impl Encode for () {
    const BYTES: Option<usize> = Some(0);

    fn encode(&self, _out: &mut impl Sink) {}
}

impl Decode for () {
    fn decode(_from: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(())
    }
}

/// Returns the size of a field followed by others.
const fn sum(first: Option<usize>, rest: Option<usize>) -> Option<usize> {
    match (first, rest) {
        (Some(first), Some(rest)) => Some(first + rest),
        _ => None,
    }
}

macro_rules! tuple {
    ($first:ident $(, $rest:ident)*) => {
        impl<$first: Encode, $($rest: Encode),*> Encode for ($first, $($rest,)*) {
            const BYTES: Option<usize> = sum($first::BYTES, <($($rest,)*) as Encode>::BYTES);
            const SELF_DELIMITING: bool = {
                let rest = <($($rest,)*) as Encode>::SELF_DELIMITING;
                let last = <[&str]>::is_empty(&[$(stringify!($rest)),*]);
                assert!($first::SELF_DELIMITING || last, "only the last field can be a Tail");
                $first::SELF_DELIMITING && rest
            };

            #[expect(non_snake_case, reason = "a field is named as its type")]
            fn encode(&self, out: &mut impl Sink) {
                // Evaluates the assertion above.
                let _ = const { Self::SELF_DELIMITING };
                let ($first, $($rest,)*) = self;
                $first.encode(out);
                $($rest.encode(out);)*
            }
        }

        impl<$first: Decode, $($rest: Decode),*> Decode for ($first, $($rest,)*) {
            fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(($first::decode(from)?, $($rest::decode(from)?,)*))
            }
        }
    };
}

tuple!(A);
tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);
tuple!(A, B, C, D, E, F);
tuple!(A, B, C, D, E, F, G);
tuple!(A, B, C, D, E, F, G, H);

/// One byte, 0 for `None`; the value behind it.
impl<T: Encode> Encode for Option<T> {
    const BYTES: Option<usize> = None;
    const SELF_DELIMITING: bool = T::SELF_DELIMITING;

    fn encode(&self, out: &mut impl Sink) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        bool::decode(from)?.then(|| T::decode(from)).transpose()
    }
}

/// Every byte of the encoding flipped: the largest comes first.
impl<T: Encode> Encode for Reverse<T> {
    const BYTES: Option<usize> = T::BYTES;

    fn encode(&self, out: &mut impl Sink) {
        const { assert!(T::SELF_DELIMITING, "a Tail has no end to reverse from") };
        self.0.encode(&mut Flipped(out));
    }
}

struct Flipped<'a, S>(&'a mut S);

impl<S: Sink> Sink for Flipped<'_, S> {
    fn put(&mut self, bytes: &[u8]) {
        // In pieces, so that nothing is allocated.
        for piece in bytes.chunks(32) {
            let mut flipped = [0; 32];
            for (to, from) in flipped.iter_mut().zip(piece) {
                *to = !from;
            }
            self.0.put(&flipped[..piece.len()]);
        }
    }
}

impl<T: Decode> Decode for Reverse<T> {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        // How long the field is shows only once it is flipped back.
        let flipped: Vec<u8> = from.iter().map(|byte| !byte).collect();
        let mut rest = flipped.as_slice();
        let value = T::decode(&mut rest)?;
        *from = &from[from.len() - rest.len()..];
        Ok(Self(value))
    }
}
