//! Scans: a function of the caller takes one entry after the other, or several at a time.
//!
//! The map is pinned once for all of them, and nothing is copied, which makes it the fastest way through a map. A cursor
//! is for who wants to keep a place.

use core::ffi::c_void;

use crate::call::{found, has_values, key_of, lend, scan, scan_chunks};
use crate::error::{Fault, fanread_status};
use crate::face::Take;
use crate::handle::fanread_bytes;
use crate::map::fanread_map;
use crate::panic::border;
use crate::table::fanread_visit;
use crate::u64_store::fanread_u64_visit;
use crate::value::{Key, Kind, Value, number_of};

/// As `fanread_visit`, for a key of bytes with a number.
pub type fanread_number_visit =
    Option<unsafe extern "C" fn(context: *mut c_void, key: fanread_bytes, value: u64) -> i32>;

/// As `fanread_visit`, for a key that is a number with bytes.
pub type fanread_u64_bytes_visit =
    Option<unsafe extern "C" fn(context: *mut c_void, key: u64, value: fanread_bytes) -> i32>;

/// Takes entries of a scan: `count` keys, which is not 0, and the values at the same places. What they point to, and the arrays, are valid
/// during the call. 0 goes on, anything else ends the scan. It must return: no exception and no `longjmp` may leave it.
pub type fanread_chunk_visit = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        keys: *const fanread_bytes,
        values: *const u64,
        count: usize,
    ) -> i32,
>;

/// As `fanread_chunk_visit`, for keys that are numbers.
pub type fanread_u64_chunk_visit = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        keys: *const u64,
        values: *const u64,
        count: usize,
    ) -> i32,
>;

/// The number of a value; `has_values` has made sure that it is one.
#[inline]
fn number(value: Value<'_>) -> u64 {
    match value {
        Value::Number(number) => number,
        Value::Bytes(_) => unreachable!("the values are numbers"),
    }
}

/// The bytes of a value; `has_values` has made sure that it is bytes.
#[inline]
fn bytes(value: Value<'_>) -> fanread_bytes {
    match value {
        Value::Bytes(bytes) => fanread_bytes::of(bytes),
        Value::Number(_) => unreachable!("the values are byte strings"),
    }
}

/// Calls `visit` with each entry from a place on, one of `fanread_place`: upwards from the first one or from those at or above the key, downwards
/// from the last one or from those at or below it. What the entries point to is valid during the call; `visit` may use the map.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no such entry. Keys come in strict order. An entry that is in
/// the map all the time is met; one that comes or goes may be.
/// Errors: `FANREAD_NULL` also if there is no `visit`; `FANREAD_ARGUMENT` if there is no such place;
/// `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is on numbers and the key has not 8 bytes.
/// Threads: any. While it runs, memory that any map of the process gives up is not used again.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_scan(
    map: *const fanread_map,
    place: i32,
    key: *const c_void,
    key_len: usize,
    visit: fanread_number_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (map, key) = unsafe { (lend(map)?, key_of(key, key_len)?) };
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        has_values(map, Kind::Numbers)?;
        scan(map, place, key, |key, value| {
            // SAFETY: the caller promises that it takes its context, and returns.
            Ok(unsafe { visit(context, fanread_bytes::of(key), number(value)) })
        })
    })
}

/// As `fanread_map_scan`, with keys of bytes and values of bytes.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_scan_bytes(
    map: *const fanread_map,
    place: i32,
    key: *const c_void,
    key_len: usize,
    visit: fanread_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (map, key) = unsafe { (lend(map)?, key_of(key, key_len)?) };
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        has_values(map, Kind::Bytes)?;
        scan(map, place, key, |key, value| {
            // SAFETY: the caller promises that it takes its context, and returns.
            Ok(unsafe { visit(context, fanread_bytes::of(key), bytes(value)) })
        })
    })
}

/// As `fanread_map_scan`, with keys that are numbers.
/// Errors: also `FANREAD_KEY_LENGTH` at a key that has not 8 bytes.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_scan(
    map: *const fanread_map,
    place: i32,
    key: u64,
    visit: fanread_u64_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        let map = unsafe { lend(map)? };
        let key = Key::Number(key);
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        has_values(map, Kind::Numbers)?;
        scan(map, place, key, |key, value| {
            // SAFETY: the caller promises that it takes its context, and returns.
            Ok(unsafe { visit(context, number_of(key)?, number(value)) })
        })
    })
}

/// As `fanread_map_scan`, with keys that are numbers and values of bytes.
/// Errors: also `FANREAD_KEY_LENGTH` at a key that has not 8 bytes.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_scan_bytes(
    map: *const fanread_map,
    place: i32,
    key: u64,
    visit: fanread_u64_bytes_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        let map = unsafe { lend(map)? };
        let key = Key::Number(key);
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        has_values(map, Kind::Bytes)?;
        scan(map, place, key, |key, value| {
            // SAFETY: the caller promises that it takes its context, and returns.
            Ok(unsafe { visit(context, number_of(key)?, bytes(value)) })
        })
    })
}

/// As `fanread_map_scan`, but `visit` is called with several entries at a time, which takes less for each, and with at most `limit` in all;
/// `SIZE_MAX` is all there are. Entries are read before `visit` has seen those in front of them, so say how many you want if you know.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no such entry, or `limit` is 0. Keys come in strict order. An entry that is in
/// the map all the time is met; one that comes or goes may be.
/// Errors: `FANREAD_NULL` also if there is no `visit`; `FANREAD_ARGUMENT` if there is no such place;
/// `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is on numbers and the key has not 8 bytes.
/// Threads: any. While it runs, memory that any map of the process gives up is not used again.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_scan_chunks(
    map: *const fanread_map,
    place: i32,
    key: *const c_void,
    key_len: usize,
    limit: usize,
    visit: fanread_chunk_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (map, key) = unsafe { (lend(map)?, key_of(key, key_len)?) };
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        let mut any = false;
        let mut take = |keys: &[fanread_bytes], values: &[u64]| {
            any = true;
            // SAFETY: the caller promises that it takes its context, and returns.
            unsafe { visit(context, keys.as_ptr(), values.as_ptr(), keys.len()) == 0 }
        };
        scan_chunks(map, place, key, limit, &mut Take::Bytes(&mut take))?;
        Ok(found(any))
    })
}

/// As `fanread_map_scan_chunks`, with keys that are numbers.
/// Errors: also `FANREAD_KEY_LENGTH` at a key that has not 8 bytes.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_scan_chunks(
    map: *const fanread_map,
    place: i32,
    key: u64,
    limit: usize,
    visit: fanread_u64_chunk_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        let map = unsafe { lend(map)? };
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        let mut any = false;
        let mut take = |keys: &[u64], values: &[u64]| {
            any = true;
            // SAFETY: the caller promises that it takes its context, and returns.
            unsafe { visit(context, keys.as_ptr(), values.as_ptr(), keys.len()) == 0 }
        };
        scan_chunks(map, place, Key::Number(key), limit, &mut Take::Numbers(&mut take))?;
        Ok(found(any))
    })
}
