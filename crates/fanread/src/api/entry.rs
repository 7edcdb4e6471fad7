//! What a lookup returns: a value that a writer may be replacing, and a key that may have no address.

use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::ops::Deref;

use crate::mem::word::{Form, Lent, Read};

/// A value found in a map.
///
/// Dereferences to the value, and is printed as the value is. Values of at most 8 bytes that need no dropping are
/// copied out of the map, larger ones are referred to; both stay as they were found until the `Ref` is dropped, whatever writers do meanwhile.
/// A value of at most 8 bytes with interior mutability (an atomic, say) is a copy too: changes made through it
/// do not reach the map, and a `Ref` cannot be copied, as it may be changing. Put such a value in a box.
pub struct Ref<'g, V: ?Sized> {
    lent: Lent<'g, V>,
}

impl<'g, V: ?Sized> Ref<'g, V> {
    #[inline(always)]
    pub(crate) fn new(read: Read<'g, V>) -> Self {
        Self { lent: Lent::new(read) }
    }

    #[inline(always)]
    pub(crate) fn word(&mut self) -> crate::mem::word::Word {
        self.lent.word()
    }
}

impl<V: ?Sized + Form> Deref for Ref<'_, V> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        self.lent.get()
    }
}

impl<V: ?Sized + Form + fmt::Debug> fmt::Debug for Ref<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        V::fmt(self, f)
    }
}

impl<V: ?Sized + Form + fmt::Display> fmt::Display for Ref<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        V::fmt(self, f)
    }
}

impl<V: ?Sized + Form + PartialEq> PartialEq for Ref<'_, V> {
    fn eq(&self, other: &Self) -> bool {
        V::eq(self, other)
    }
}

impl<V: ?Sized + Form + Eq> Eq for Ref<'_, V> {}

/// Room for a key in the `Key` itself.
pub(crate) const SHORT_KEY_BYTES: usize = 16;

/// A key found in a map.
///
/// Dereferences to its bytes. Short keys may have been put together from two places, so the bytes may lie in the
/// `Key` itself.
#[derive(Clone, Copy)]
pub struct Key<'g> {
    repr: Repr<'g>,
}

/// All parts are whole words: a range hands keys on by value, and a word that is loaded right after its bytes were stored
/// one by one has to wait for the cache.
#[derive(Clone, Copy)]
enum Repr<'g> {
    Short { bytes: ShortKey, len: usize },
    Long(&'g [u8]),
}

#[derive(Clone, Copy)]
#[repr(align(8))]
struct ShortKey([u8; SHORT_KEY_BYTES]);

const _: () = assert!(size_of::<Key<'_>>() == 32);

impl<'g> Key<'g> {
    #[inline(always)]
    pub(crate) fn long(bytes: &'g [u8]) -> Self {
        Self { repr: Repr::Long(bytes) }
    }

    #[inline(always)]
    pub(crate) fn short(bytes: [u8; SHORT_KEY_BYTES], len: usize) -> Self {
        debug_assert!(len <= SHORT_KEY_BYTES);
        Self { repr: Repr::Short { bytes: ShortKey(bytes), len } }
    }

    /// The first `len` bytes of the key, which has as many.
    pub(crate) fn start(self, len: usize) -> Self {
        debug_assert!(len <= self.len());
        match self.repr {
            Repr::Short { bytes, .. } => Self::short(bytes.0, len),
            Repr::Long(bytes) => Self::long(&bytes[..len]),
        }
    }
}

impl Deref for Key<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match &self.repr {
            Repr::Short { bytes, len } => &bytes.0[..(*len).min(SHORT_KEY_BYTES)],
            Repr::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Key<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Key<'_> {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key<'_> {}

impl PartialEq<[u8]> for Key<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Key<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Key<'_> {
    fn eq(&self, other: &[u8; N]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Key<'_> {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for Key<'_> {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl core::hash::Hash for Key<'_> {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
