//! Keys, and what a node keeps of those whose bytes are elsewhere.

use core::cmp::Reverse;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::arch;

/// A key of a [`SkipList`](crate::SkipList), or what such a key is looked up by.
///
/// Any type with an order may be a key: the methods have defaults, so
///
/// ```
/// use fanread::{SkipList, skip_list::SkipKey};
///
/// #[derive(PartialEq, Eq, PartialOrd, Ord)]
/// struct Version(u16, u16);
///
/// impl SkipKey for Version {}
///
/// let map = SkipList::new();
/// map.pin().insert(Version(1, 2), "first");
/// assert!(map.pin().contains_key(&Version(1, 2)));
/// ```
///
/// is all it takes. A type of another crate is wrapped: [`Plain`].
///
/// With a [`prefix`](Self::prefix) searches of a large map are shorter. A key whose bytes lie elsewhere, as those of a
/// `String` do, costs a search one line more for every comparison: for such types the node keeps a copy of the prefix, where
/// most comparisons end. Numbers have a prefix, strings and byte strings of std keep one. Do the same for a type that holds
/// one:
///
/// ```
/// use fanread::skip_list::SkipKey;
///
/// #[derive(PartialEq, Eq, PartialOrd, Ord)]
/// struct User { name: String, number: u32 }
///
/// impl SkipKey for User {
///     const HAS_PREFIX: bool = true;
///     const KEEPS_PREFIX: bool = true;
///     fn prefix(&self) -> u64 {
///         self.name.prefix()
///     }
///     fn ask(&self) {
///         self.name.ask();
///     }
/// }
/// ```
///
/// A key that is looked up by what it borrows as has the same prefix in both forms. A type that breaks the rules of
/// [`prefix`](Self::prefix) or of [`Ord`] makes a map forget and misplace entries, and nothing worse.
pub trait SkipKey: Ord {
    /// Whether [`prefix`](Self::prefix) says anything.
    const HAS_PREFIX: bool = false;

    /// Whether a node keeps a copy of the prefix. Of no use for keys that lie in the node themselves, as numbers do.
    const KEEPS_PREFIX: bool = false;

    /// Returns a number that orders keys as far as it goes: if `a < b` then `a.prefix() <= b.prefix()`.
    #[inline]
    fn prefix(&self) -> u64 {
        0
    }

    /// Returns a number that orders keys with one prefix as far as it goes: if `a < b` and their prefixes are the same, then
    /// `a.second_prefix() <= b.second_prefix()`. A large map goes by it where many keys begin alike.
    #[inline]
    fn second_prefix(&self) -> u64 {
        0
    }

    /// Asks for the memory that a comparison would read and that is not in the key itself. A scan does so for keys that
    /// it will come to.
    #[inline]
    fn ask(&self) {}
}

/// A key of a type that is no [`SkipKey`] and cannot be made one here.
///
/// # Examples
///
/// ```
/// use fanread::{SkipList, skip_list::Plain};
/// use std::net::IpAddr;
///
/// let map = SkipList::new();
/// let home: IpAddr = [127, 0, 0, 1].into();
/// map.pin().insert(Plain(home), "home");
/// assert!(map.pin().contains_key(&Plain(home)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Plain<K>(pub K);

impl<K: Ord> SkipKey for Plain<K> {}

macro_rules! numbers {
    ($($number:ty: |$key:ident| $prefix:expr;)*) => {$(
        impl SkipKey for $number {
            const HAS_PREFIX: bool = true;

            #[inline]
            fn prefix(&self) -> u64 {
                let $key = *self;
                $prefix
            }
        }
    )*};
}

/// The lowest signed number is 0.
const SIGN: u64 = 1 << 63;

numbers! {
    u8: |key| key.into();
    u16: |key| key.into();
    u32: |key| key.into();
    u64: |key| key;
    usize: |key| key as u64;
    u128: |key| (key >> 64) as u64;
    i8: |key| i64::from(key).cast_unsigned() ^ SIGN;
    i16: |key| i64::from(key).cast_unsigned() ^ SIGN;
    i32: |key| i64::from(key).cast_unsigned() ^ SIGN;
    i64: |key| key.cast_unsigned() ^ SIGN;
    isize: |key| (key as i64).cast_unsigned() ^ SIGN;
    i128: |key| ((key >> 64) as i64).cast_unsigned() ^ SIGN;
    bool: |key| key.into();
    char: |key| u32::from(key).into();
    core::num::NonZeroU32: |key| key.get().into();
    core::num::NonZeroU64: |key| key.get();
    Duration: |key| key.as_secs();
}

impl SkipKey for SystemTime {}

impl SkipKey for Instant {}

impl SkipKey for () {}

impl SkipKey for [u8] {
    const HAS_PREFIX: bool = true;
    const KEEPS_PREFIX: bool = true;

    /// The first eight bytes, or what there is of them with NULs behind.
    #[inline]
    fn prefix(&self) -> u64 {
        if let Some(first) = self.first_chunk() {
            return u64::from_be_bytes(*first);
        }
        let mut bytes = [0; 8];
        bytes[..self.len()].copy_from_slice(self);
        u64::from_be_bytes(bytes)
    }

    /// The next eight.
    #[inline]
    fn second_prefix(&self) -> u64 {
        self.get(8..).map_or(0, <[u8]>::prefix)
    }

    #[inline]
    fn ask(&self) {
        arch::prefetch(self.as_ptr());
    }
}

impl SkipKey for str {
    const HAS_PREFIX: bool = true;
    const KEEPS_PREFIX: bool = true;

    #[inline]
    fn prefix(&self) -> u64 {
        self.as_bytes().prefix()
    }

    #[inline]
    fn second_prefix(&self) -> u64 {
        self.as_bytes().second_prefix()
    }

    #[inline]
    fn ask(&self) {
        self.as_bytes().ask();
    }
}

macro_rules! as_what_it_holds {
    ($([$($param:tt)*] $key:ty, $held:ty;)*) => {$(
        impl<$($param)*> SkipKey for $key {
            const HAS_PREFIX: bool = <$held>::HAS_PREFIX;
            const KEEPS_PREFIX: bool = true;

            #[inline]
            fn prefix(&self) -> u64 {
                <$held>::prefix(self)
            }

            #[inline]
            fn second_prefix(&self) -> u64 {
                <$held>::second_prefix(self)
            }

            #[inline]
            fn ask(&self) {
                <$held>::ask(self);
            }
        }
    )*};
}

as_what_it_holds! {
    [] Vec<u8>, [u8];
    [] String, str;
    [K: SkipKey + ?Sized] Box<K>, K;
    [K: SkipKey + ?Sized] Rc<K>, K;
    [K: SkipKey + ?Sized] Arc<K>, K;
    [K: SkipKey + ?Sized] &K, K;
}

impl<const N: usize> SkipKey for [u8; N] {
    const HAS_PREFIX: bool = true;

    #[inline]
    fn prefix(&self) -> u64 {
        self.as_slice().prefix()
    }
}

impl<K: SkipKey> SkipKey for Reverse<K> {
    const HAS_PREFIX: bool = K::HAS_PREFIX;
    const KEEPS_PREFIX: bool = K::KEEPS_PREFIX;

    #[inline]
    fn prefix(&self) -> u64 {
        !self.0.prefix()
    }

    #[inline]
    fn second_prefix(&self) -> u64 {
        !self.0.second_prefix()
    }

    #[inline]
    fn ask(&self) {
        self.0.ask();
    }
}

impl<K: SkipKey> SkipKey for Option<K> {
    const HAS_PREFIX: bool = K::HAS_PREFIX;
    const KEEPS_PREFIX: bool = K::KEEPS_PREFIX;

    /// `None` is before all others.
    #[inline]
    fn prefix(&self) -> u64 {
        self.as_ref().map_or(0, K::prefix)
    }

    #[inline]
    fn second_prefix(&self) -> u64 {
        self.as_ref().map_or(0, K::second_prefix)
    }

    #[inline]
    fn ask(&self) {
        if let Some(key) = self {
            key.ask();
        }
    }
}

macro_rules! tuples {
    ($(($($rest:ident)*))*) => {$(
        /// The prefix of the first field.
        impl<A: SkipKey, $($rest: Ord),*> SkipKey for (A, $($rest),*) {
            const HAS_PREFIX: bool = A::HAS_PREFIX;
            const KEEPS_PREFIX: bool = A::KEEPS_PREFIX;

            #[inline]
            fn prefix(&self) -> u64 {
                self.0.prefix()
            }

            #[inline]
            fn second_prefix(&self) -> u64 {
                self.0.second_prefix()
            }

            #[inline]
            fn ask(&self) {
                self.0.ask();
            }
        }
    )*};
}

tuples! { () (B) (B C) (B C D) (B C D E) (B C D E F) (B C D E F G) (B C D E F G H) }

#[cfg(test)]
mod tests {
    use super::*;

    fn follows<K: SkipKey>(keys: &mut [K]) {
        keys.sort();
        let both = |key: &K| (key.prefix(), key.second_prefix());
        assert!(keys.windows(2).all(|pair| both(&pair[0]) <= both(&pair[1])));
    }

    #[test]
    fn prefixes_have_the_order_of_their_keys() {
        let texts = [
            "",
            "\0",
            "\0\0a",
            "a",
            "a\0",
            "ab",
            "abcdefg",
            "abcdefgh",
            "abcdefghi",
            "abcdefghiz",
            "abcdefghj",
            "b",
        ];
        follows(&mut texts.map(String::from));
        follows(&mut texts.map(|text| text.as_bytes().to_vec()));
        follows(&mut texts.map(Reverse));
        follows(&mut texts.map(|text| (Box::<str>::from(text), 7)));
        let mut options = texts.map(Some).to_vec();
        options.push(None);
        follows(&mut options);
        assert_eq!("abc".prefix(), b"abc".to_vec().prefix());
        follows(&mut [i64::MIN, -5, -1, 0, 1, 7, i64::MAX]);
        follows(&mut [i128::MIN, -5, -1, 0, 1 << 64, i128::MAX]);
        follows(&mut [(-3_i8, "b"), (-3, "a"), (4, ""), (i8::MIN, "z")]);
        follows(&mut [Some([3_u8, 4]), None, Some([0, 0]), Some([3, 5])]);
        const { assert!(<(String, u8)>::KEEPS_PREFIX && !<(u8, String)>::KEEPS_PREFIX) };
    }
}
