//! The two forms of a key.

use std::borrow::Borrow;
use std::hash::Hash;

/// Keys as numbers, for sets whose keys are all eight bytes long.
pub type Word = u64;

/// Keys as byte strings.
pub type Text = Box<[u8]>;

/// A key type that is made from bytes and shown as bytes, in the same order.
pub trait Form: Ord + Hash + Clone + Send + Sync + 'static + Borrow<Self::Query> {
    /// What a lookup takes.
    type Query: ?Sized + Ord + Hash;

    /// Makes a key to store.
    fn make(key: &[u8]) -> Self;
    /// Calls `look` with what finds `key`.
    fn with<R>(key: &[u8], look: impl FnOnce(&Self::Query) -> R) -> R;
    /// Calls `visit` with the bytes of a stored key.
    fn show<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R;
}

impl Form for Word {
    type Query = u64;

    #[inline]
    fn make(key: &[u8]) -> Self {
        u64::from_be_bytes(key.try_into().expect("keys of eight bytes"))
    }

    #[inline]
    fn with<R>(key: &[u8], look: impl FnOnce(&u64) -> R) -> R {
        look(&Self::make(key))
    }

    #[inline]
    fn show<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(&self.to_be_bytes())
    }
}

impl Form for Text {
    type Query = [u8];

    #[inline]
    fn make(key: &[u8]) -> Self {
        key.into()
    }

    #[inline]
    fn with<R>(key: &[u8], look: impl FnOnce(&[u8]) -> R) -> R {
        look(key)
    }

    #[inline]
    fn show<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(self)
    }
}
