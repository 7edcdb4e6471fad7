//! The maps of the library behind one face: which kind it is, nobody above needs to know.
//!
//! One macro translates the calls, for three families of maps that take keys in three ways:
//! borrowed byte strings, numbers, and byte strings that the map owns. A call that finds a key or
//! value of the wrong form changes nothing.

use core::mem::MaybeUninit;
use core::ops::Bound;
use std::sync::Arc;

use fanread::{
    BytesMap, CuckooTrie, MemoryUsage, MlpIndex, Options, OrderedMap, Ref, SkipList, U64Map,
    Wormhole, ordered_map,
};

use crate::error::Fault;
use crate::error::fanread_status::FANREAD_TOO_LONG;
use crate::face::{Found, Held, Map, Place, Start, Take, Visit, fanread_kind};
use crate::handle::fanread_bytes;
use crate::held::{HeldMap, Lookups};
use crate::value::{
    Answers, Key, KeySlot, Keys, Kind, Owned, Slot, Stored, Value, Values, bytes_of, number_of,
};

/// Keys that a batch takes at a time: several times as many as a map keeps in flight, and with their answers less than a page.
const CHUNK: usize = 64;

/// Entries of a walk that are handed on at a time.
const ENTRIES: usize = 32;

/// Room for some items, on the stack. Only those that are used are written: most batches are short.
struct Room<T, const N: usize>([MaybeUninit<T>; N]);

impl<T, const N: usize> Room<T, N> {
    #[inline]
    fn new() -> Self {
        const { assert!(!core::mem::needs_drop::<T>(), "nobody drops what was put in") };
        Self([const { MaybeUninit::uninit() }; N])
    }

    /// Takes as many items as there are, or as there is room for.
    #[inline]
    fn fill(&mut self, items: impl Iterator<Item = T>) -> &mut [T] {
        let mut count = 0;
        for (place, item) in self.0.iter_mut().zip(items) {
            place.write(item);
            count += 1;
        }
        // SAFETY: so many were just written.
        unsafe { self.0[..count].assume_init_mut() }
    }
}

/// Hands on the entries of a walk, some at a time, as long as they are wanted.
#[inline]
fn hand_on<K: AsRef<[u8]> + Copy>(
    mut entries: impl Iterator<Item = (K, u64)>,
    take: &mut Take<'_>,
) -> Result<(), Fault> {
    loop {
        let (mut found, mut values) = (Room::<_, ENTRIES>::new(), Room::<_, ENTRIES>::new());
        let found = found.fill(&mut entries);
        let values = values.fill(found.iter().map(|(_, value)| *value));
        if found.is_empty() {
            return Ok(());
        }
        let mut fault = None;
        let goes_on = match take {
            Take::Bytes(take) => {
                let keys = found.iter().map(|(key, _)| fanread_bytes::of(key.as_ref()));
                take(Room::<_, ENTRIES>::new().fill(keys), values)
            }
            Take::Numbers(take) => {
                let keys = found.iter().map_while(|(key, _)| {
                    number_of(key.as_ref()).map_err(|why| fault = Some(why)).ok()
                });
                let mut room = Room::<_, ENTRIES>::new();
                let keys = room.fill(keys);
                keys.is_empty() || take(keys, &values[..keys.len()])
            }
        };
        if !goes_on {
            return Ok(());
        }
        fault.map_or(Ok(()), Err)?;
        if found.len() < ENTRIES {
            return Ok(());
        }
    }
}

/// The skip list whose keys are byte strings.
type SkipStrings<V> = SkipList<Box<[u8]>, V>;

/// The keys of a family of maps.
mod family {
    use super::{CHUNK, FANREAD_TOO_LONG, Fault, Key, Keys, Room, number_of, ordered_map};

    /// Byte strings that the map copies.
    pub(super) mod borrowed {
        use super::{CHUNK, FANREAD_TOO_LONG, Fault, Key, Keys, Room, ordered_map};

        /// A key to look for.
        #[expect(clippy::unnecessary_wraps, reason = "not all families take all keys")]
        #[inline]
        pub(in super::super) fn key<'a>(
            key: Key<'a>,
            room: &'a mut [u8; 8],
        ) -> Result<&'a [u8], Fault> {
            Ok(key.bytes(room))
        }

        /// Refuses a key that no map takes.
        #[inline]
        pub(in super::super) fn fits(key: &[u8]) -> Result<(), Fault> {
            const MAX: usize = ordered_map::MAX_KEY_BYTES;
            if key.len() > MAX {
                let text =
                    format!("the key has {} bytes, the longest possible one {MAX}", key.len());
                return Err(Fault::new(FANREAD_TOO_LONG, text));
            }
            Ok(())
        }

        /// A key to insert, which fits.
        #[inline]
        pub(in super::super) fn new_key(key: &[u8]) -> &[u8] {
            key
        }

        /// A key of a map that is built at once.
        pub(in super::super) enum Lent<'a> {
            Bytes(&'a [u8]),
            Number([u8; 8]),
        }

        impl AsRef<[u8]> for Lent<'_> {
            fn as_ref(&self) -> &[u8] {
                match self {
                    Self::Bytes(bytes) => bytes,
                    Self::Number(bytes) => bytes,
                }
            }
        }

        #[expect(clippy::unnecessary_wraps, reason = "not all families take all keys")]
        pub(in super::super) fn load(key: Key<'_>) -> Result<Lent<'_>, Fault> {
            Ok(match key {
                Key::Bytes(bytes) => Lent::Bytes(bytes),
                Key::Number(number) => Lent::Number(number.to_be_bytes()),
            })
        }

        /// Hands on keys in arrays, with the place of each array's first.
        pub(in super::super) fn chunks(
            keys: Keys<'_>,
            mut take: impl FnMut(usize, &[&[u8]]) -> Result<(), Fault>,
        ) -> Result<(), Fault> {
            for at in (0..keys.len()).step_by(CHUNK) {
                let (mut spelt, mut some) = (Room::<_, CHUNK>::new(), Room::<_, CHUNK>::new());
                let some = match keys.some(at, CHUNK) {
                    Keys::Bytes(strings) => some.fill(strings.all()),
                    Keys::Numbers(numbers) => {
                        let spelt = spelt.fill(numbers.iter().map(|number| number.to_be_bytes()));
                        some.fill(spelt.iter().map(|key| &key[..]))
                    }
                };
                take(at, some)?;
            }
            Ok(())
        }

        /// A key that was found, to keep for a while.
        #[inline]
        pub(in super::super) fn keep(key: fanread::Key<'_>) -> fanread::Key<'_> {
            key
        }
    }

    /// Byte strings that the map owns, of any length.
    pub(super) mod owned {
        pub(in super::super) use super::borrowed::{chunks, key};
        use super::{Fault, Key};

        #[expect(clippy::unnecessary_wraps, reason = "not all families take all keys")]
        pub(in super::super) fn fits(_: &[u8]) -> Result<(), Fault> {
            Ok(())
        }

        pub(in super::super) fn new_key(key: &[u8]) -> Box<[u8]> {
            key.into()
        }

        #[expect(clippy::unnecessary_wraps, reason = "not all families take all keys")]
        pub(in super::super) fn load(key: Key<'_>) -> Result<Box<[u8]>, Fault> {
            Ok(new_key(key.bytes(&mut [0; 8])))
        }

        #[inline]
        pub(in super::super) fn keep(key: &[u8]) -> &[u8] {
            key
        }
    }

    /// Numbers.
    pub(super) mod numbers {
        use super::{CHUNK, Fault, Key, Keys, Room, number_of};

        #[inline]
        pub(in super::super) fn key(key: Key<'_>, _: &mut [u8; 8]) -> Result<u64, Fault> {
            key.number()
        }

        #[expect(clippy::unnecessary_wraps, reason = "not all families take all keys")]
        #[inline]
        pub(in super::super) fn fits(_: u64) -> Result<(), Fault> {
            Ok(())
        }

        #[inline]
        pub(in super::super) fn new_key(key: u64) -> u64 {
            key
        }

        pub(in super::super) fn load(key: Key<'_>) -> Result<u64, Fault> {
            key.number()
        }

        pub(in super::super) fn chunks(
            keys: Keys<'_>,
            mut take: impl FnMut(usize, &[u64]) -> Result<(), Fault>,
        ) -> Result<(), Fault> {
            // All of them before the first is taken: a call that fails has answered nothing.
            if let Keys::Bytes(strings) = keys {
                strings.all().try_for_each(|key| number_of(key).map(drop))?;
            }
            for at in (0..keys.len()).step_by(CHUNK) {
                match keys.some(at, CHUNK) {
                    Keys::Numbers(numbers) => take(at, numbers)?,
                    Keys::Bytes(strings) => {
                        let mut some = Room::<_, CHUNK>::new();
                        let numbers = strings.all().map_while(|key| number_of(key).ok());
                        take(at, some.fill(numbers))?;
                    }
                }
            }
            Ok(())
        }

        #[inline]
        pub(in super::super) fn keep(key: u64) -> [u8; 8] {
            key.to_be_bytes()
        }
    }
}

/// The bound of a walk with its key as a map takes it.
fn bound<'a, K>(
    bound: Bound<Key<'a>>,
    key: impl FnOnce(Key<'a>) -> Result<K, Fault>,
) -> Result<Bound<K>, Fault> {
    Ok(match bound {
        Bound::Included(edge) => Bound::Included(key(edge)?),
        Bound::Excluded(edge) => Bound::Excluded(key(edge)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

macro_rules! map {
    // A map whose values are of any type that can be owned.
    (
        $map:ident, $family:ident, pinned: $($module:ident)::+<$($key:ty)?>, $($walk:tt)*
    ) => {
        map!(
            [V: Owned] $map<V>, $family, values: V, given: |given| V::of(given), other: |refused| refused.0,
            pinned: $($module)::+<$($key,)? V>, $($walk)*
        );
    };
    // Any map: what becomes of a value that is given, and what the answer to a refused exchange has in it.
    (
        [$($generics:tt)*] $map:ty, $family:ident, values: $value:ty,
        given: |$given:ident| $new:expr, other: |$refused:ident| $other:expr,
        pinned: $($module:ident)::+<$($part:ty),*>,
        range: [$($range:tt)*], found: |$found:ident| $bytes:expr $(,)?
    ) => {
        impl<$($generics)*> Lookups for $map {
            type Pinned<'a> = $($module)::+::Pinned<'a, $($part),*>;

            #[inline]
            fn pinned(&self) -> Self::Pinned<'_> {
                self.pin()
            }

            #[inline]
            fn look(
                pinned: &Self::Pinned<'_>,
                key: Key<'_>,
                value: Slot<'_>,
            ) -> Result<bool, Fault> {
                <$value>::check(value.kind())?;
                let mut room = [0; 8];
                let Some(found) = pinned.get(family::$family::key(key, &mut room)?) else {
                    return Ok(false);
                };
                value.put(found.value())?;
                Ok(true)
            }

            #[inline]
            fn has(pinned: &Self::Pinned<'_>, key: Key<'_>) -> Result<bool, Fault> {
                let mut room = [0; 8];
                Ok(pinned.contains_key(family::$family::key(key, &mut room)?))
            }

            #[inline]
            fn look_many(
                pinned: &Self::Pinned<'_>,
                keys: Keys<'_>,
                answers: &mut Answers<'_>,
            ) -> Result<(), Fault> {
                if let Some(kind) = answers.kind() {
                    <$value>::check(kind)?;
                }
                let mut room = Room::<Option<Ref<'_, $value>>, CHUNK>::new();
                family::$family::chunks(keys, |at, keys| {
                    let found = room.fill(keys.iter().map(|_| None));
                    pinned.get_batch(keys, found);
                    answers.put(at, found.iter().map(|found| found.as_ref().map(|found| found.value())))
                })
            }
        }

        impl<$($generics)*> Map for $map {
            fn values(&self) -> Kind {
                <$value>::KIND
            }

            fn get(&self, key: Key<'_>, value: Slot<'_>) -> Result<bool, Fault> {
                Self::look(&self.pin(), key, value)
            }

            fn contains(&self, key: Key<'_>) -> Result<bool, Fault> {
                Self::has(&self.pin(), key)
            }

            fn insert(&self, key: Key<'_>, value: Value<'_>, old: Slot<'_>) -> Result<bool, Fault> {
                <$value>::check(old.kind())?;
                let mut room = [0; 8];
                let key = family::$family::key(key, &mut room)?;
                family::$family::fits(key)?;
                let $given = value;
                let (key, value) = (family::$family::new_key(key), $new?);
                let pinned = self.pin();
                let Some(replaced) = pinned.try_insert(key, value)? else { return Ok(false) };
                old.put(replaced.value())?;
                Ok(true)
            }

            fn remove(&self, key: Key<'_>, old: Slot<'_>) -> Result<bool, Fault> {
                <$value>::check(old.kind())?;
                let mut room = [0; 8];
                let key = family::$family::key(key, &mut room)?;
                let pinned = self.pin();
                let Some(removed) = pinned.remove(key) else { return Ok(false) };
                old.put(removed.value())?;
                Ok(true)
            }

            fn replace(&self, key: Key<'_>, value: Value<'_>, old: Slot<'_>) -> Result<bool, Fault> {
                <$value>::check(old.kind())?;
                let mut room = [0; 8];
                let key = family::$family::key(key, &mut room)?;
                let $given = value;
                let value = $new?;
                let pinned = self.pin();
                let Some(replaced) = pinned.update(key, |_| value.clone()) else { return Ok(false) };
                old.put(replaced.value())?;
                Ok(true)
            }

            fn get_or_insert(
                &self,
                key: Key<'_>,
                value: Value<'_>,
                there: Slot<'_>,
            ) -> Result<bool, Fault> {
                <$value>::check(there.kind())?;
                let mut room = [0; 8];
                let key = family::$family::key(key, &mut room)?;
                family::$family::fits(key)?;
                let pinned = self.pin();
                let $given = value;
                let (inserted, found) = match pinned.get(key) {
                    Some(found) => (false, found),
                    None => match pinned.insert_if_absent(family::$family::new_key(key), $new?) {
                        Ok(new) => (true, new),
                        Err($refused) => (false, $other),
                    },
                };
                there.put(found.value())?;
                Ok(inserted)
            }

            fn compare_exchange(
                &self,
                key: Key<'_>,
                current: Value<'_>,
                new: Value<'_>,
                found: Slot<'_>,
            ) -> Result<Found, Fault> {
                <$value>::check(found.kind())?;
                let mut room = [0; 8];
                let key = family::$family::key(key, &mut room)?;
                let $given = current;
                let current = $new?;
                let $given = new;
                let new = $new?;
                let pinned = self.pin();
                let (result, there) = match pinned.compare_exchange(key, &current, new) {
                    Ok(old) => (Found::Replaced, old),
                    Err($refused) => match $other {
                        Some(other) => (Found::Other, other),
                        None => return Ok(Found::Nothing),
                    },
                };
                found.put(there.value())?;
                Ok(result)
            }

            fn find(
                &self,
                place: Place<'_>,
                key: KeySlot<'_>,
                value: Slot<'_>,
            ) -> Result<bool, Fault> {
                <$value>::check(value.kind())?;
                let mut room = [0; 8];
                let pinned = self.pin();
                let entry = match place {
                    Place::First => pinned.first_key_value(),
                    Place::Last => pinned.last_key_value(),
                    Place::From(edge) => {
                        pinned.lower_bound(bound(edge, |key| family::$family::key(key, &mut room))?)
                    },
                    Place::UpTo(edge) => {
                        pinned.upper_bound(bound(edge, |key| family::$family::key(key, &mut room))?)
                    },
                };
                let Some(($found, there)) = entry else { return Ok(false) };
                key.put($bytes)?;
                value.put(there.value())?;
                Ok(true)
            }

            fn get_batch(&self, keys: Keys<'_>, answers: &mut Answers<'_>) -> Result<(), Fault> {
                Self::look_many(&self.pin(), keys, answers)
            }

            fn insert_batch(&self, keys: Keys<'_>, values: Values<'_>) -> Result<(), Fault> {
                <$value>::check(values.kind())?;
                // Before the first goes in: keys that no map takes.
                family::$family::chunks(keys, |_, keys| {
                    keys.iter().try_for_each(|key| family::$family::fits(*key))
                })?;
                let pinned = self.pin();
                let mut fault = None;
                family::$family::chunks(keys, |at, keys| {
                    pinned.try_insert_batch((at..).zip(keys).map_while(|(index, key)| {
                        let $given = values.at(index);
                        let value = $new.map_err(|why| fault = Some(why));
                        Some((family::$family::new_key(*key), value.ok()?))
                    }))?;
                    fault.take().map_or(Ok(()), Err)
                })
            }

            fn walk(
                &self,
                from: Bound<Key<'_>>,
                up: bool,
                visit: &mut Visit<'_>,
            ) -> Result<(), Fault> {
                let mut room = [0; 8];
                let from = bound(from, |key| family::$family::key(key, &mut room))?;
                let pinned = self.pin();
                if up {
                    for ($found, value) in pinned.$($range)*((from, Bound::Unbounded)) {
                        if !visit($bytes, value.value())? {
                            break;
                        }
                    }
                } else {
                    for ($found, value) in pinned.$($range)*((Bound::Unbounded, from)).rev() {
                        if !visit($bytes, value.value())? {
                            break;
                        }
                    }
                }
                Ok(())
            }

            fn walk_many(
                &self,
                from: Bound<Key<'_>>,
                up: bool,
                limit: usize,
                take: &mut Take<'_>,
            ) -> Result<(), Fault> {
                <$value>::check(Kind::Numbers)?;
                let mut room = [0; 8];
                let from = bound(from, |key| family::$family::key(key, &mut room))?;
                let pinned = self.pin();
                if up {
                    let entries = pinned.$($range)*((from, Bound::Unbounded)).take(limit);
                    hand_on(entries.map(|(key, value)| (family::$family::keep(key), value.number())), take)
                } else {
                    let entries = pinned.$($range)*((Bound::Unbounded, from)).rev().take(limit);
                    hand_on(entries.map(|(key, value)| (family::$family::keep(key), value.number())), take)
                }
            }

            fn len(&self) -> usize {
                self.len()
            }

            fn clear(&self) {
                self.pin().clear();
            }

            fn memory_usage(&self) -> MemoryUsage {
                self.memory_usage()
            }

            fn hold(self: Arc<Self>) -> Arc<dyn Held> {
                HeldMap::hold_here(self)
            }
        }

        impl<$($generics)*> Load for $map {
            fn load(keys: Keys<'_>, values: Values<'_>) -> Result<Self, Fault> {
                let mut fault = None;
                let entries = (0..keys.len()).map_while(|index| {
                    let $given = values.at(index);
                    match (family::$family::load(keys.at(index)), $new) {
                        (Ok(key), Ok(value)) => Some((key, value)),
                        (Err(why), _) | (_, Err(why)) => {
                            fault = Some(why);
                            None
                        }
                    }
                });
                let map = Self::from_sorted(entries)?;
                fault.map_or(Ok(map), Err)
            }

            fn empty(options: Options) -> Self {
                Self::with_options(options)
            }
        }
    };
}

/// A map that can be made.
trait Load: Sized {
    fn empty(options: Options) -> Self;
    fn load(keys: Keys<'_>, values: Values<'_>) -> Result<Self, Fault>;
}

map!(OrderedMap, borrowed, pinned: fanread::ordered_map<>, range: [range], found: |key| &key);
map!(
    [] BytesMap, borrowed, values: [u8], given: |given| bytes_of(given), other: |there| there,
    pinned: fanread::bytes_map<>, range: [range], found: |key| &key,
);
map!(Wormhole, borrowed, pinned: fanread::wormhole<>, range: [range], found: |key| &key);
map!(CuckooTrie, borrowed, pinned: fanread::cuckoo_trie<>, range: [range], found: |key| &key);
map!(U64Map, numbers, pinned: fanread::u64_map<>, range: [range], found: |key| &key.to_be_bytes());
map!(MlpIndex, numbers, pinned: fanread::mlp_index<>, range: [range], found: |key| &key.to_be_bytes());
map!(
    SkipStrings, owned, pinned: fanread::skip_list<Box<[u8]>>,
    range: [range::<[u8], _>], found: |key| key,
);

fn start<M: Map + Load + 'static>(start: Start<'_>) -> Result<Arc<dyn Map>, Fault> {
    Ok(Arc::new(match start {
        Start::Empty(_, options) => M::empty(options),
        Start::Sorted(keys, values) => M::load(keys, values)?,
    }))
}

fn with_values<V: Owned>(kind: fanread_kind, begin: Start<'_>) -> Result<Arc<dyn Map>, Fault> {
    match kind {
        fanread_kind::FANREAD_ORDERED_MAP => start::<OrderedMap<V>>(begin),
        fanread_kind::FANREAD_U64_MAP => start::<U64Map<V>>(begin),
        fanread_kind::FANREAD_WORMHOLE => start::<Wormhole<V>>(begin),
        fanread_kind::FANREAD_CUCKOO_TRIE => start::<CuckooTrie<V>>(begin),
        fanread_kind::FANREAD_MLP_INDEX => start::<MlpIndex<V>>(begin),
        fanread_kind::FANREAD_SKIP_LIST => start::<SkipStrings<V>>(begin),
    }
}

/// Makes a map.
pub(crate) fn make(kind: fanread_kind, begin: Start<'_>) -> Result<Arc<dyn Map>, Fault> {
    let values = match &begin {
        Start::Empty(values, _) => *values,
        Start::Sorted(_, values) => values.kind(),
    };
    match (values, kind) {
        (Kind::Numbers, _) => with_values::<u64>(kind, begin),
        (Kind::Bytes, fanread_kind::FANREAD_ORDERED_MAP) => start::<BytesMap>(begin),
        (Kind::Bytes, _) => with_values::<Box<[u8]>>(kind, begin),
    }
}
