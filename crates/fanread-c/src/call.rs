//! What the calls of maps have in common: pointers of C as keys and values, and answers as statuses.

use core::ffi::c_void;
use core::ops::Bound;
use std::sync::Arc;

use crate::error::fanread_status::{
    FANREAD_NOT_FOUND, FANREAD_OK, FANREAD_REFUSED, FANREAD_REPLACED,
};
use crate::error::{Fault, Outcome, fanread_status};
use crate::face::{Found, Map, Place, Start, Take};
use crate::handle::{self, Out, fanread_buffer, fanread_bytes};
use crate::map::{self, Shared, fanread_map, fanread_place};
use crate::value::{
    AnswerValues, Answers, Gathered, Key, KeySlot, Keys, Kind, Slot, Strings, Value, Values,
    other_kind,
};

pub(crate) fn found(found: bool) -> fanread_status {
    if found { FANREAD_OK } else { FANREAD_NOT_FOUND }
}

pub(crate) fn replaced(replaced: bool) -> fanread_status {
    if replaced { FANREAD_REPLACED } else { FANREAD_OK }
}

/// Of a write that a value which is there refuses.
pub(crate) fn inserted(inserted: bool) -> fanread_status {
    if inserted { FANREAD_OK } else { FANREAD_REFUSED }
}

pub(crate) fn exchanged(found: Found) -> fanread_status {
    match found {
        Found::Nothing => FANREAD_NOT_FOUND,
        Found::Replaced => FANREAD_REPLACED,
        Found::Other => FANREAD_REFUSED,
    }
}

/// Lends a map.
///
/// # Safety
///
/// As for `handle::lend`.
#[inline]
pub(crate) unsafe fn lend<'a>(map: *const fanread_map) -> Result<&'a dyn Map, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(&*unsafe { handle::lend::<Shared>(map)? }.0)
}

/// A map to keep: of one that is held, the map itself.
///
/// # Safety
///
/// As for `handle::lend`.
pub(crate) unsafe fn share(map: *const fanread_map) -> Result<Arc<dyn Map>, Fault> {
    // SAFETY: the caller's promise is the same.
    let Shared(map, _) = unsafe { handle::lend::<Shared>(map)? };
    Ok(map.itself().unwrap_or_else(|| Arc::clone(map)))
}

/// Where bytes are told that the library keeps.
///
/// # Safety
///
/// As for `handle::out`.
pub(crate) unsafe fn bytes_out<'a>(
    place: *mut fanread_bytes,
    name: &str,
) -> Result<Out<'a, fanread_bytes>, Fault> {
    // SAFETY: the caller's promise is the same.
    unsafe { handle::out(place, name) }
}

/// A key of bytes.
///
/// # Safety
///
/// As for `handle::bytes`.
#[inline]
pub(crate) unsafe fn key_of<'a>(key: *const c_void, len: usize) -> Result<Key<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Key::Bytes(unsafe { handle::bytes(key, len, "the key")? }))
}

/// A value of bytes.
///
/// # Safety
///
/// As for `handle::bytes`.
pub(crate) unsafe fn bytes<'a>(
    value: *const c_void,
    len: usize,
    name: &str,
) -> Result<Value<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Value::Bytes(unsafe { handle::bytes(value, len, name)? }))
}

/// Where a number goes, which may be NULL.
///
/// # Safety
///
/// As for `handle::maybe_out`.
#[inline]
pub(crate) unsafe fn number<'a>(place: *mut u64, name: &str) -> Result<Slot<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Slot::Number(unsafe { handle::maybe_out(place, name)? }))
}

/// Where bytes go, which may be NULL.
///
/// # Safety
///
/// As for `handle::maybe_buffer`.
pub(crate) unsafe fn room<'a>(room: *mut fanread_buffer, name: &str) -> Result<Slot<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Slot::Bytes(unsafe { handle::maybe_buffer(room, name)? }))
}

/// Many byte strings.
///
/// # Safety
///
/// As for `handle::array`, and for `handle::bytes` of each.
pub(crate) unsafe fn bytes_array<'a>(
    first: *const fanread_bytes,
    count: usize,
    name: &str,
) -> Result<Strings<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    unsafe { Strings::new(handle::array(first, count, name)?, name) }
}

/// Many keys of bytes.
///
/// # Safety
///
/// As for `bytes_array`.
pub(crate) unsafe fn keys_of<'a>(
    keys: *const fanread_bytes,
    count: usize,
) -> Result<Keys<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Keys::Bytes(unsafe { bytes_array(keys, count, "the keys")? }))
}

/// Many keys that are numbers.
///
/// # Safety
///
/// As for `handle::array`.
pub(crate) unsafe fn numbers_of<'a>(keys: *const u64, count: usize) -> Result<Keys<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Keys::Numbers(unsafe { handle::array(keys, count, "the keys")? }))
}

/// Many values that are numbers.
///
/// # Safety
///
/// As for `handle::array`.
pub(crate) unsafe fn values_of<'a>(values: *const u64, count: usize) -> Result<Values<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Values::Numbers(unsafe { handle::array(values, count, "the values")? }))
}

/// Many values of bytes.
///
/// # Safety
///
/// As for `bytes_array`.
pub(crate) unsafe fn values_of_bytes<'a>(
    values: *const fanread_bytes,
    count: usize,
) -> Result<Values<'a>, Fault> {
    // SAFETY: the caller's promise is the same.
    Ok(Values::Bytes(unsafe { bytes_array(values, count, "the values")? }))
}

/// The place of a number, with the key it may need.
pub(crate) fn place_of(place: i32, key: Key<'_>) -> Result<Place<'_>, Fault> {
    const FIRST: i32 = fanread_place::FANREAD_FIRST as i32;
    const LAST: i32 = fanread_place::FANREAD_LAST as i32;
    const AT_OR_ABOVE: i32 = fanread_place::FANREAD_AT_OR_ABOVE as i32;
    const ABOVE: i32 = fanread_place::FANREAD_ABOVE as i32;
    const AT_OR_BELOW: i32 = fanread_place::FANREAD_AT_OR_BELOW as i32;
    const BELOW: i32 = fanread_place::FANREAD_BELOW as i32;
    Ok(match place {
        FIRST => Place::First,
        LAST => Place::Last,
        AT_OR_ABOVE => Place::From(Bound::Included(key)),
        ABOVE => Place::From(Bound::Excluded(key)),
        AT_OR_BELOW => Place::UpTo(Bound::Included(key)),
        BELOW => Place::UpTo(Bound::Excluded(key)),
        _ => return Err(Fault::argument(format!("{place} is not a place"))),
    })
}

pub(crate) fn find(
    map: &dyn Map,
    place: i32,
    key: Key<'_>,
    found_key: KeySlot<'_>,
    value: Slot<'_>,
) -> Outcome {
    Ok(found(map.find(place_of(place, key)?, found_key, value)?))
}

/// Hands on the entries of a map from a place on, until `each` returns anything but 0.
pub(crate) fn scan(
    map: &dyn Map,
    place: i32,
    key: Key<'_>,
    mut each: impl FnMut(&[u8], Value<'_>) -> Result<i32, Fault>,
) -> Outcome {
    let (from, up) = place_of(place, key)?.walk();
    let mut any = false;
    map.walk(from, up, &mut |key, value| {
        any = true;
        Ok(each(key, value)? == 0)
    })?;
    Ok(found(any))
}

/// Hands on at most `limit` entries of a map from a place on, several at a time, until `take` returns false.
pub(crate) fn scan_chunks(
    map: &dyn Map,
    place: i32,
    key: Key<'_>,
    limit: usize,
    take: &mut Take<'_>,
) -> Result<(), Fault> {
    let (from, up) = place_of(place, key)?.walk();
    map.walk_many(from, up, limit, take)
}

/// Refuses a map with values of the other kind.
pub(crate) fn has_values(map: &dyn Map, kind: Kind) -> Result<(), Fault> {
    if map.values() == kind { Ok(()) } else { Err(other_kind(map.values())) }
}

/// Makes a map of sorted entries.
///
/// # Safety
///
/// As for `handle::made`.
pub(crate) unsafe fn load(
    kind: i32,
    keys: Result<Keys<'_>, Fault>,
    values: Result<Values<'_>, Fault>,
    map: *mut *mut fanread_map,
) -> Outcome {
    // SAFETY: the caller's promise is the same.
    let out = unsafe { handle::made(map)? };
    map::make(map::kind_of(kind)?, Start::Sorted(keys?, values?), out)
}

/// Looks for many keys.
///
/// # Safety
///
/// As for `lend`, and for `handle::out_array` of the arrays, which have a place for each key.
pub(crate) unsafe fn get_batch(
    map: *const fanread_map,
    keys: Keys<'_>,
    values: *mut u64,
    found: *mut u8,
    hits: *mut usize,
) -> Outcome {
    let count = keys.len();
    // SAFETY: the caller's promise is the same for each.
    let (map, values, hits) = unsafe {
        let values = handle::out_array(values, count, "values")?;
        (lend(map)?, values, handle::maybe_out(hits, "hits")?)
    };
    let wanted = if found.is_null() { 0 } else { count };
    // SAFETY: the caller's promise is the same.
    let found = unsafe { handle::out_array(found, wanted, "found")? };
    let mut answers = Answers { values: AnswerValues::Numbers(values), found, hits: 0 };
    map.get_batch(keys, &mut answers)?;
    if let Some(hits) = hits {
        hits.set(answers.hits);
    }
    Ok(FANREAD_OK)
}

/// Tells of many keys whether they are there.
///
/// # Safety
///
/// As for `get_batch`.
pub(crate) unsafe fn contains_batch(
    map: *const fanread_map,
    keys: Keys<'_>,
    found: *mut u8,
    hits: *mut usize,
) -> Outcome {
    // SAFETY: the caller's promise is the same for each.
    let (map, found, hits) = unsafe {
        let found = handle::out_array(found, keys.len(), "found")?;
        (lend(map)?, found, handle::maybe_out(hits, "hits")?)
    };
    let mut answers = Answers { values: AnswerValues::Nothing, found, hits: 0 };
    map.get_batch(keys, &mut answers)?;
    if let Some(hits) = hits {
        hits.set(answers.hits);
    }
    Ok(FANREAD_OK)
}

/// Looks for many keys, whose values are bytes.
///
/// # Safety
///
/// As for `get_batch`, and for `handle::buffer`.
pub(crate) unsafe fn get_batch_bytes(
    map: *const fanread_map,
    keys: Keys<'_>,
    values: *mut fanread_bytes,
    room: *mut fanread_buffer,
    hits: *mut usize,
) -> Outcome {
    // SAFETY: the caller's promise is the same for each.
    let (map, values, buffer, hits) = unsafe {
        let values = handle::out_array(values, keys.len(), "values")?;
        let buffer = handle::buffer(room, "room")?;
        (lend(map)?, values, buffer, handle::maybe_out(hits, "hits")?)
    };
    let gathered = Gathered::new(buffer.take(), values)?;
    let mut answers = Answers { values: AnswerValues::Bytes(gathered), found: &mut [], hits: 0 };
    map.get_batch(keys, &mut answers)?;
    if let Some(hits) = hits {
        hits.set(answers.hits);
    }
    buffer.put(answers.finish());
    Ok(FANREAD_OK)
}
