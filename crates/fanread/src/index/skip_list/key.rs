//! Keys, and how they are compared: by what a node keeps of those whose bytes are elsewhere, as far as that goes.

use core::borrow::Borrow;
use core::cmp::{Ordering, Reverse};
use core::ops::Bound;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::raw::Node;
use crate::arch;
use crate::mem::LINE_BYTES;

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
/// `String` do, costs a search one line more for every comparison: for such types the node keeps some bytes of it, behind
/// what the keys around have in common, where most comparisons end. Numbers have a prefix, strings and byte strings of std
/// keep one. Do the same for a type that holds one:
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
///     fn word(&self, from: usize) -> u64 {
///         self.name.word(from)
///     }
///     fn ask(&self) {
///         self.name.ask();
///     }
/// }
/// ```
///
/// A key that is looked up by what it borrows as has the same prefix and words in both forms. A type that breaks the rules
/// of [`prefix`](Self::prefix), [`word`](Self::word) or of [`Ord`] makes a map forget and misplace entries, and nothing worse.
pub trait SkipKey: Ord {
    /// Whether [`prefix`](Self::prefix) says anything.
    const HAS_PREFIX: bool = false;

    /// Whether a node keeps some bytes of the [words](Self::word). Of no use for keys that lie in the node themselves, as
    /// numbers do.
    const KEEPS_PREFIX: bool = false;

    /// Returns a number that orders keys as far as it goes: if `a < b` then `a.prefix() <= b.prefix()`.
    #[inline]
    fn prefix(&self) -> u64 {
        0
    }

    /// Returns eight bytes, the first one the highest, of the string of bytes that begins with the prefix: those from `from`
    /// on, with NULs behind its end. Such strings order keys as far as they go: if `a < b`, that of `a` is not the greater
    /// one. Where many keys begin alike, a map compares what comes behind that. As it is, there is nothing behind the prefix.
    #[inline]
    fn word(&self, from: usize) -> u64 {
        if from < size_of::<u64>() { self.prefix() << (8 * from) } else { 0 }
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

    #[inline]
    fn word(&self, from: usize) -> u64 {
        let rest = self.get(from..).unwrap_or_default();
        match (rest.first_chunk(), self.last_chunk()) {
            (Some(first), _) => u64::from_be_bytes(*first),
            (None, _) if rest.is_empty() => 0,
            // The last eight, without those before.
            (None, Some(last)) => u64::from_be_bytes(*last) << (8 * (8 - rest.len())),
            (None, None) => rest.prefix(),
        }
    }

    /// The first two lines, which is what a comparison reads of most keys.
    #[inline]
    fn ask(&self) {
        arch::prefetch(self.as_ptr());
        if let Some(last) = self.iter().take(2 * LINE_BYTES).next_back() {
            arch::prefetch(last);
        }
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
    fn word(&self, from: usize) -> u64 {
        self.as_bytes().word(from)
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
            fn word(&self, from: usize) -> u64 {
                <$held>::word(self, from)
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

    #[inline]
    fn word(&self, from: usize) -> u64 {
        self.as_slice().word(from)
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
    fn word(&self, from: usize) -> u64 {
        !self.0.word(from)
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
    fn word(&self, from: usize) -> u64 {
        self.as_ref().map_or(0, |key| key.word(from))
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
            fn word(&self, from: usize) -> u64 {
                self.0.word(from)
            }

            #[inline]
            fn ask(&self) {
                self.0.ask();
            }
        }
    )*};
}

tuples! { () (B) (B C) (B C D) (B C D E) (B C D E F) (B C D E F G) (B C D E F G H) }

/// How many bytes of two keys are looked at in words, at most: what comes behind is left to [`Ord`].
pub(super) const WORDS_END: usize =
    if cfg!(any(shuttle, small_leaves, miri)) { 24 } else { 1 << 10 };

/// How many of the first bytes of two words are the same.
#[inline(always)]
pub(super) fn same_bytes(a: u64, b: u64) -> usize {
    (a ^ b).leading_zeros() as usize / 8
}

/// How many bytes two keys have in common, up to [`WORDS_END`], when the first `from` are the same.
#[inline]
pub(super) fn common_bytes<A, B>(a: &A, b: &B, from: usize) -> usize
where
    A: SkipKey + ?Sized,
    B: SkipKey + ?Sized,
{
    let mut at = from;
    while at < WORDS_END {
        let same = same_bytes(a.word(at), b.word(at));
        at += same;
        if same < size_of::<u64>() {
            break;
        }
    }
    at.min(WORDS_END)
}

/// What is looked for.
#[derive(Debug)]
pub(super) struct Sought<'q, Q: ?Sized> {
    key: &'q Q,
}

impl<Q: ?Sized> Clone for Sought<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q: ?Sized> Copy for Sought<'_, Q> {}

impl<'q, Q: SkipKey + ?Sized> Sought<'q, Q> {
    #[inline(always)]
    pub(super) fn new(key: &'q Q) -> Self {
        Self { key }
    }

    #[inline(always)]
    pub(super) fn key(&self) -> &'q Q {
        self.key
    }

    /// How the key of a node compares with what is looked for, if the node itself says so, and how many bytes the two have
    /// in common. The first `common` bytes are the same.
    #[inline(always)]
    pub(super) fn glance<K: SkipKey + Borrow<Q>, V>(
        &self,
        node: Node<'_, K, V>,
        common: usize,
    ) -> Option<(Ordering, usize)> {
        if !const { K::KEEPS_PREFIX && Q::HAS_PREFIX } {
            return None;
        }
        let window = node.window();
        if window.from() > common {
            return None;
        }
        let (order, same) = window.compare(self.key.word(window.from()));
        (order != Ordering::Equal).then_some((order, window.from() + same))
    }

    /// How a key compares with what is looked for, and how many bytes the two have in common, at least. The first `common`
    /// bytes are the same.
    #[inline(always)]
    pub(super) fn compare<K: SkipKey + Borrow<Q>>(
        &self,
        key: &K,
        common: usize,
    ) -> (Ordering, usize) {
        if !const { K::KEEPS_PREFIX && Q::HAS_PREFIX } {
            return (key.borrow().cmp(self.key), 0);
        }
        let mut at = common;
        loop {
            let (own, sought) = (key.word(at), self.key.word(at));
            if own != sought {
                return (own.cmp(&sought), at + same_bytes(own, sought));
            }
            at += size_of::<u64>();
            // Where both may end, or where there is no end to it.
            if own == 0 || own == u64::MAX || at >= WORDS_END {
                return (key.borrow().cmp(self.key), at);
            }
        }
    }

    /// As [`compare`](Self::compare); of a key that is before, the count is right up to [`WORDS_END`].
    #[inline]
    pub(super) fn compare_all<K: SkipKey + Borrow<Q>>(
        &self,
        key: &K,
        common: usize,
    ) -> (Ordering, usize) {
        let (order, common) = self.compare(key, common);
        match order {
            Ordering::Less => (order, common_bytes(key, self.key, common)),
            _ => (order, common),
        }
    }
}

/// Where a descent is to come out: at the first node that is not before what is looked for.
#[derive(Debug)]
pub(super) struct Target<'q, Q: ?Sized> {
    /// What is looked for; none if that is one of the ends.
    pub(super) sought: Option<Sought<'q, Q>>,
    /// How a node counts with just this key, or any one if nothing is looked for.
    pub(super) otherwise: Ordering,
}

impl<'q, Q: SkipKey + ?Sized> Target<'q, Q> {
    /// The first node from a bound on.
    #[inline(always)]
    pub(super) fn start(bound: Bound<&'q Q>) -> Self {
        let (sought, otherwise) = match bound {
            Bound::Unbounded => (None, Ordering::Greater),
            Bound::Included(key) => (Some(Sought::new(key)), Ordering::Greater),
            Bound::Excluded(key) => (Some(Sought::new(key)), Ordering::Less),
        };
        Self { sought, otherwise }
    }

    /// The first node behind a bound.
    pub(super) fn end(bound: Bound<&'q Q>) -> Self {
        let (sought, otherwise) = match bound {
            Bound::Unbounded => (None, Ordering::Less),
            Bound::Included(key) => (Some(Sought::new(key)), Ordering::Less),
            Bound::Excluded(key) => (Some(Sought::new(key)), Ordering::Greater),
        };
        Self { sought, otherwise }
    }
}

/// How many bytes what is looked for has in common, at least, with the last node before it and with the first one that is not.
/// What lies between has the lower number in common with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) before: usize,
    pub(super) next: usize,
}

impl Common {
    pub(super) const NONE: Self = Self { before: 0, next: 0 };

    #[inline(always)]
    pub(super) fn least(self) -> usize {
        self.before.min(self.next)
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    fn follows<K: SkipKey>(keys: &mut [K]) {
        keys.sort();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(key.prefix(), key.word(0));
            for from in 0..20 {
                let bytes = key.word(from).to_be_bytes();
                assert_eq!(bytes[1..], key.word(from + 1).to_be_bytes()[..7]);
                let agrees = |other: &K| (0..from).all(|at| key.word(at) == other.word(at));
                assert!(
                    keys[..n].iter().all(|less| !agrees(less) || less.word(from) <= key.word(from))
                );
            }
        }
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
