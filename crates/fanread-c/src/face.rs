//! The one face that all maps have, and the kinds there are.

use core::ops::Bound;
use std::sync::Arc;

use fanread::{MemoryUsage, Options};

use crate::error::Fault;
use crate::handle::fanread_bytes;
use crate::value::{Answers, Key, KeySlot, Keys, Kind, Slot, Value, Values};

/// The kinds of maps. `README.md` of the project says which to take: the first for byte strings,
/// the second for numbers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum fanread_kind {
    /// "ordered-map": byte strings; the one to take unless another is better.
    FANREAD_ORDERED_MAP = 1,
    /// "u64-map": keys of 8 bytes, or numbers; the one to take for these.
    FANREAD_U64_MAP = 2,
    /// "wormhole": byte strings, short ones in the least memory.
    FANREAD_WORMHOLE = 3,
    /// "cuckoo-trie": byte strings.
    FANREAD_CUCKOO_TRIE = 4,
    /// "mlp-index": keys of 8 bytes, or numbers.
    FANREAD_MLP_INDEX = 5,
    /// "skip-list": byte strings of any length.
    FANREAD_SKIP_LIST = 6,
}

/// What a new map begins with.
#[derive(Debug)]
pub(crate) enum Start<'a> {
    Empty(Kind, Options),
    Sorted(Keys<'a>, Values<'a>),
}

/// What a conditional write found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// No value.
    Nothing,
    /// The value that was expected, or any if any would do: the write has taken place.
    Replaced,
    /// Another value than the one expected.
    Other,
}

/// An entry next to a key, or the first or last one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    First,
    Last,
    From(Bound<Key<'a>>),
    UpTo(Bound<Key<'a>>),
}

impl<'a> Place<'a> {
    /// From where a walk that begins there goes on, and whether upwards.
    pub(crate) fn walk(self) -> (Bound<Key<'a>>, bool) {
        match self {
            Self::First => (Bound::Unbounded, true),
            Self::Last => (Bound::Unbounded, false),
            Self::From(edge) => (edge, true),
            Self::UpTo(edge) => (edge, false),
        }
    }
}

/// Takes entries of a walk, in its order; false ends it.
pub(crate) type Visit<'v> = dyn FnMut(&[u8], Value<'_>) -> Result<bool, Fault> + 'v;

/// Takes entries of a walk, several at a time in its order: keys, which are lent for the call, and the values at the same places.
/// False ends the walk.
pub(crate) enum Take<'t> {
    Bytes(&'t mut dyn FnMut(&[fanread_bytes], &[u64]) -> bool),
    Numbers(&'t mut dyn FnMut(&[u64], &[u64]) -> bool),
}

/// A map of any kind.
pub(crate) trait Map: Send + Sync {
    fn values(&self) -> Kind;
    fn get(&self, key: Key<'_>, value: Slot<'_>) -> Result<bool, Fault>;
    fn contains(&self, key: Key<'_>) -> Result<bool, Fault>;
    /// Whether a value was replaced, which `old` gets.
    fn insert(&self, key: Key<'_>, value: Value<'_>, old: Slot<'_>) -> Result<bool, Fault>;
    fn remove(&self, key: Key<'_>, old: Slot<'_>) -> Result<bool, Fault>;
    /// Writes if there is a value, which `old` gets.
    fn replace(&self, key: Key<'_>, value: Value<'_>, old: Slot<'_>) -> Result<bool, Fault>;
    /// Writes if there is no value, and says whether. `there` gets the one that is there then.
    fn get_or_insert(&self, key: Key<'_>, value: Value<'_>, there: Slot<'_>)
    -> Result<bool, Fault>;
    /// Writes `new` if the value is `current`. `found` gets what was there.
    fn compare_exchange(
        &self,
        key: Key<'_>,
        current: Value<'_>,
        new: Value<'_>,
        found: Slot<'_>,
    ) -> Result<Found, Fault>;
    fn find(&self, place: Place<'_>, key: KeySlot<'_>, value: Slot<'_>) -> Result<bool, Fault>;
    fn get_batch(&self, keys: Keys<'_>, answers: &mut Answers<'_>) -> Result<(), Fault>;
    fn insert_batch(&self, keys: Keys<'_>, values: Values<'_>) -> Result<(), Fault>;
    /// Visits entries from a bound on, upwards or downwards.
    fn walk(&self, from: Bound<Key<'_>>, up: bool, visit: &mut Visit<'_>) -> Result<(), Fault>;
    /// As `walk`, for at most `limit` entries whose values are numbers.
    fn walk_many(
        &self,
        from: Bound<Key<'_>>,
        up: bool,
        limit: usize,
        take: &mut Take<'_>,
    ) -> Result<(), Fault>;
    fn len(&self) -> usize;
    fn clear(&self);
    fn memory_usage(&self) -> MemoryUsage;
    /// The same map for this thread, which holds it pinned until it lets go.
    fn hold(self: Arc<Self>) -> Arc<dyn Held>;
    /// The map itself, if this one is held.
    fn itself(&self) -> Option<Arc<dyn Map>> {
        None
    }
}

/// A map that a thread holds pinned, so that its lookups need no pin of their own.
pub(crate) trait Held: Map {
    /// Lets go of the pin; lookups take their own until `pin`. For the thread that holds it.
    fn unpin(&self);
    /// Takes the pin again. For the thread that holds it.
    fn pin(&self);
}
