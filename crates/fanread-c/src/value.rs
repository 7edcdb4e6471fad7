//! Keys and values on their way between C and the maps: which forms they have there, and what becomes of them here.
//!
//! A key comes as bytes or as a number. Maps on byte strings see a number as its eight bytes, the
//! highest first, so that numbers have their order; maps on numbers take such bytes, and no others.
//! A value is a number or bytes, one kind for each map.

use core::mem::MaybeUninit;

use crate::error::Fault;
use crate::error::fanread_status::{FANREAD_KEY_LENGTH, FANREAD_VALUE_KIND};
use crate::handle::{Out, append, fanread_buffer, fanread_bytes};

/// A key as it was given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

impl<'a> Key<'a> {
    /// The key for a map on byte strings; `room` is where a number's bytes go.
    #[inline]
    pub(crate) fn bytes(self, room: &'a mut [u8; 8]) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => {
                *room = number.to_be_bytes();
                room
            }
        }
    }

    /// The key for a map on numbers.
    #[inline]
    pub(crate) fn number(self) -> Result<u64, Fault> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(bytes) => number_of(bytes),
        }
    }
}

/// The number of a key of eight bytes.
#[inline]
pub(crate) fn number_of(bytes: &[u8]) -> Result<u64, Fault> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| not_a_number(bytes.len()))
}

#[cold]
#[inline(never)]
fn not_a_number(len: usize) -> Fault {
    Fault::new(FANREAD_KEY_LENGTH, format!("a key of {len} bytes, and keys have 8 here"))
}

/// Many keys as they were given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys<'a> {
    Bytes(Strings<'a>),
    Numbers(&'a [u64]),
}

impl<'a> Keys<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Bytes(strings) => strings.0.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// So many of them from a place on, or all that are left.
    #[inline]
    pub(crate) fn some(self, at: usize, most: usize) -> Self {
        let end = self.len().min(at + most);
        match self {
            Self::Bytes(strings) => Self::Bytes(Strings(&strings.0[at..end])),
            Self::Numbers(numbers) => Self::Numbers(&numbers[at..end]),
        }
    }

    #[inline]
    pub(crate) fn at(self, index: usize) -> Key<'a> {
        match self {
            Self::Bytes(strings) => Key::Bytes(strings.at(index)),
            Self::Numbers(numbers) => Key::Number(numbers[index]),
        }
    }
}

/// An array of byte strings all of which are there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strings<'a>(&'a [fanread_bytes]);

impl<'a> Strings<'a> {
    /// Checks each of them.
    ///
    /// # Safety
    ///
    /// Each is NULL, or its bytes are there, and nobody writes to them during `'a`.
    pub(crate) unsafe fn new(strings: &'a [fanread_bytes], name: &str) -> Result<Self, Fault> {
        for string in strings {
            // SAFETY: the caller's promise is the same.
            unsafe { string.get(name)? };
        }
        Ok(Self(strings))
    }

    #[inline]
    pub(crate) fn at(self, index: usize) -> &'a [u8] {
        Self::checked(self.0[index])
    }

    #[inline]
    pub(crate) fn all(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().map(|string| Self::checked(*string))
    }

    /// One of the strings.
    #[inline]
    fn checked(string: fanread_bytes) -> &'a [u8] {
        let fanread_bytes { data, len } = string;
        if len == 0 {
            return &[];
        }
        // SAFETY: `new` has checked the pointer, and its caller promised the rest for 'a.
        unsafe { core::slice::from_raw_parts(data, len) }
    }
}

/// A value as it was given, or as it is handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Many values as they were given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    Numbers(&'a [u64]),
    Bytes(Strings<'a>),
}

impl<'a> Values<'a> {
    #[inline]
    pub(crate) fn at(self, index: usize) -> Value<'a> {
        match self {
            Self::Numbers(numbers) => Value::Number(numbers[index]),
            Self::Bytes(strings) => Value::Bytes(strings.at(index)),
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Numbers(_) => Kind::Numbers,
            Self::Bytes(_) => Kind::Bytes,
        }
    }
}

/// Where a value goes that a call returns, if the caller wants it.
#[derive(Debug)]
pub(crate) enum Slot<'a> {
    Number(Option<Out<'a, u64>>),
    Bytes(Option<&'a mut fanread_buffer>),
}

impl Slot<'_> {
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Number(_) => Kind::Numbers,
            Self::Bytes(_) => Kind::Bytes,
        }
    }

    #[inline]
    pub(crate) fn put(self, value: Value<'_>) -> Result<(), Fault> {
        match (self, value) {
            (Self::Number(Some(out)), Value::Number(number)) => out.set(number),
            (Self::Bytes(Some(buffer)), Value::Bytes(bytes)) => buffer.copy(bytes)?,
            _ => {}
        }
        Ok(())
    }
}

/// Where a found key goes.
#[derive(Debug)]
pub(crate) enum KeySlot<'a> {
    Number(Option<Out<'a, u64>>),
    Bytes(Option<&'a mut fanread_buffer>),
}

impl KeySlot<'_> {
    pub(crate) fn put(self, key: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Number(Some(out)) => out.set(number_of(key)?),
            Self::Bytes(Some(buffer)) => buffer.copy(key)?,
            _ => {}
        }
        Ok(())
    }
}

/// Where the answers to many lookups go.
#[derive(Debug)]
pub(crate) struct Answers<'a> {
    pub(crate) values: AnswerValues<'a>,
    /// 1 for each key that was found, 0 for the others; empty if nobody wants to know.
    pub(crate) found: &'a mut [MaybeUninit<u8>],
    pub(crate) hits: usize,
}

#[derive(Debug)]
pub(crate) enum AnswerValues<'a> {
    /// None are wanted.
    Nothing,
    Numbers(&'a mut [MaybeUninit<u64>]),
    Bytes(Gathered<'a>),
}

/// Byte strings that are gathered in one place. The caller's array is written when that is complete, and not at all if it never is.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    room: Vec<u8>,
    /// Of each answer: how long it is, and in `data`, which is no pointer, where in the room it begins, counted from 1.
    spots: Vec<fanread_bytes>,
    values: &'a mut [MaybeUninit<fanread_bytes>],
}

impl<'a> Gathered<'a> {
    /// Begins with none; `room` is where they will be, and is emptied.
    pub(crate) fn new(
        mut room: Vec<u8>,
        values: &'a mut [MaybeUninit<fanread_bytes>],
    ) -> Result<Self, Fault> {
        room.clear();
        let mut spots = Vec::new();
        let bytes = size_of_val(values);
        spots.try_reserve_exact(values.len()).map_err(|_| Fault::no_memory(bytes))?;
        Ok(Self { room, spots, values })
    }

    /// Adds the answer for the next key.
    fn push(&mut self, bytes: Option<&[u8]>) -> Result<(), Fault> {
        let Some(bytes) = bytes else {
            self.spots.push(fanread_bytes::NONE);
            return Ok(());
        };
        // Not NULL, even for the first.
        let data = core::ptr::without_provenance(self.room.len() + 1);
        append(&mut self.room, bytes)?;
        self.spots.push(fanread_bytes { data, len: bytes.len() });
        Ok(())
    }

    /// Says where bytes are, and hands on the place that has them.
    fn finish(self) -> Vec<u8> {
        let Self { room, spots, values } = self;
        debug_assert_eq!(spots.len(), values.len(), "an answer for each key");
        for (value, mut spot) in values.iter_mut().zip(spots) {
            if !spot.data.is_null() {
                spot.data = room[spot.data.addr() - 1..].as_ptr();
            }
            value.write(spot);
        }
        room
    }
}

impl Answers<'_> {
    /// Stores the answers for keys from a place on.
    #[inline]
    pub(crate) fn put<'v>(
        &mut self,
        at: usize,
        answers: impl Iterator<Item = Option<Value<'v>>> + Clone,
    ) -> Result<(), Fault> {
        if !self.found.is_empty() {
            for (place, value) in self.found[at..].iter_mut().zip(answers.clone()) {
                place.write(u8::from(value.is_some()));
            }
        }
        let answers = answers.inspect(|value| self.hits += usize::from(value.is_some()));
        match &mut self.values {
            AnswerValues::Nothing => answers.for_each(drop),
            AnswerValues::Numbers(numbers) => {
                for (place, value) in numbers[at..].iter_mut().zip(answers) {
                    place.write(if let Some(Value::Number(number)) = value { number } else { 0 });
                }
            }
            AnswerValues::Bytes(gathered) => {
                debug_assert_eq!(gathered.spots.len(), at, "answers come in the order of keys");
                for value in answers {
                    gathered.push(match value {
                        Some(Value::Bytes(bytes)) => Some(bytes),
                        _ => None,
                    })?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        match self.values {
            AnswerValues::Nothing => None,
            AnswerValues::Numbers(_) => Some(Kind::Numbers),
            AnswerValues::Bytes(..) => Some(Kind::Bytes),
        }
    }

    /// Says where bytes are, once all are gathered, and hands on the place that has them.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self.values {
            AnswerValues::Bytes(gathered) => gathered.finish(),
            _ => Vec::new(),
        }
    }
}

/// The two kinds of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Numbers,
    Bytes,
}

/// What a map whose values are of this kind says to those of the other.
#[cold]
#[inline(never)]
pub(crate) fn other_kind(has: Kind) -> Fault {
    let values = match has {
        Kind::Numbers => "numbers",
        Kind::Bytes => "byte strings",
    };
    Fault::new(FANREAD_VALUE_KIND, format!("the values of this map are {values}"))
}

/// What a map holds as a value.
pub(crate) trait Stored {
    const KIND: Kind;

    fn value(&self) -> Value<'_>;

    /// The value of a map whose values are numbers.
    #[inline]
    fn number(&self) -> u64 {
        match self.value() {
            Value::Number(number) => number,
            Value::Bytes(_) => unreachable!("the values are numbers"),
        }
    }

    /// Refuses values of the other kind.
    #[inline]
    fn check(kind: Kind) -> Result<(), Fault> {
        if kind == Self::KIND { Ok(()) } else { Err(other_kind(Self::KIND)) }
    }
}

/// A value that a map takes as its own.
pub(crate) trait Owned: Stored + Clone + PartialEq + Send + Sync + 'static {
    fn of(value: Value<'_>) -> Result<Self, Fault>;
}

impl Stored for u64 {
    const KIND: Kind = Kind::Numbers;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Number(*self)
    }
}

impl Owned for u64 {
    #[inline]
    fn of(value: Value<'_>) -> Result<Self, Fault> {
        match value {
            Value::Number(number) => Ok(number),
            Value::Bytes(_) => Err(other_kind(Self::KIND)),
        }
    }
}

impl Stored for [u8] {
    const KIND: Kind = Kind::Bytes;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

/// A value of a map that copies byte strings itself.
#[inline]
pub(crate) fn bytes_of(value: Value<'_>) -> Result<&[u8], Fault> {
    match value {
        Value::Number(_) => Err(other_kind(Kind::Bytes)),
        Value::Bytes(bytes) => Ok(bytes),
    }
}

impl Stored for Box<[u8]> {
    const KIND: Kind = Kind::Bytes;

    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl Owned for Box<[u8]> {
    fn of(value: Value<'_>) -> Result<Self, Fault> {
        let bytes = bytes_of(value)?;
        let mut room = Vec::new();
        room.try_reserve_exact(bytes.len()).map_err(|_| Fault::no_memory(bytes.len()))?;
        room.extend_from_slice(bytes);
        Ok(room.into_boxed_slice())
    }
}
