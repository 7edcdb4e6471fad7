//! Calls of maps with keys that are numbers. Maps on numbers take them as they are; a map on byte
//! strings sees the eight bytes of a number, the highest first, so that they have the order of the
//! numbers.
//!
//! Functions whose names end in `_bytes` are for maps whose values are byte strings, the others for
//! those with numbers. What a function does is in `map.rs` and `index.rs`; here is how it is called
//! from C.

use core::ffi::c_void;

use crate::call::{
    bytes, contains_batch, exchanged, find, found, get_batch, get_batch_bytes, inserted, lend,
    load, number, numbers_of, replaced, room, values_of, values_of_bytes,
};
use crate::error::fanread_status;
use crate::handle::{fanread_buffer, fanread_bytes};
use crate::map::fanread_map;
use crate::panic::border;
use crate::value::{Key, KeySlot, Value};

/// Stores the value of a key in `*value`; NULL if nobody wants it.
///
/// Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_get(
    map: *const fanread_map,
    key: u64,
    value: *mut u64,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, value) = unsafe { (lend(map)?, number(value, "value")?) };
        Ok(found(map.get(key, value)?))
    })
}

/// Tells whether a map has a key.
///
/// Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_contains(
    map: *const fanread_map,
    key: u64,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        let map = unsafe { lend(map)? };
        let key = Key::Number(key);
        Ok(found(map.contains(key)?))
    })
}

/// Maps a key to `value`, whether it had a value or not. The value that is replaced goes to `*old`,
/// unless it is NULL.
///
/// Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_OUT_OF_MEMORY`.
/// Ownership: the map keeps copies. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_insert(
    map: *const fanread_map,
    key: u64,
    value: u64,
    old: *mut u64,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, old) = unsafe { (lend(map)?, number(old, "old")?) };
        Ok(replaced(map.insert(key, Value::Number(value), old)?))
    })
}

/// Removes a key. The value that it had goes to `*old`, unless it is NULL.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_remove(
    map: *const fanread_map,
    key: u64,
    old: *mut u64,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, old) = unsafe { (lend(map)?, number(old, "old")?) };
        Ok(found(map.remove(key, old)?))
    })
}

/// Maps a key to `value` if it has a value already, which goes to `*old`, unless it is NULL.
///
/// Returns `FANREAD_REPLACED`, or `FANREAD_NOT_FOUND` if there is no such key, which is not inserted then.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
/// Ownership: the map keeps a copy. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_replace(
    map: *const fanread_map,
    key: u64,
    value: u64,
    old: *mut u64,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, old) = unsafe { (lend(map)?, number(old, "old")?) };
        let done = map.replace(key, Value::Number(value), old)?;
        Ok(if done { fanread_status::FANREAD_REPLACED } else { fanread_status::FANREAD_NOT_FOUND })
    })
}

/// Maps a key to `value` unless it has a value. The value that it has then goes to `*there`, unless it is NULL.
///
/// Returns `FANREAD_OK` if the value is the new one, `FANREAD_REFUSED` if the key had one.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
/// Ownership: the map keeps copies. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_get_or_insert(
    map: *const fanread_map,
    key: u64,
    value: u64,
    there: *mut u64,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, there) = unsafe { (lend(map)?, number(there, "there")?) };
        Ok(inserted(map.get_or_insert(key, Value::Number(value), there)?))
    })
}

/// Maps a key to `desired` if its value is `expected`. The value that it had goes to `*found`, unless it is NULL.
///
/// Returns `FANREAD_REPLACED`; `FANREAD_REFUSED` if the key has another value; `FANREAD_NOT_FOUND` if it has none.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
/// Ownership: the map keeps a copy. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_compare_exchange(
    map: *const fanread_map,
    key: u64,
    expected: u64,
    desired: u64,
    found: *mut u64,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, found) = unsafe { (lend(map)?, number(found, "found")?) };
        Ok(exchanged(map.compare_exchange(
            key,
            Value::Number(expected),
            Value::Number(desired),
            found,
        )?))
    })
}

/// Finds the entry at a place, one of `fanread_place`: its key goes to `*found_key`, its value to
/// `*value`, each unless it is NULL.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry.
/// Errors: `FANREAD_ARGUMENT` if there is no such place, `FANREAD_VALUE_KIND` if the values are
/// byte strings, `FANREAD_KEY_LENGTH` if the key found has not 8 bytes.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_find(
    map: *const fanread_map,
    place: i32,
    key: u64,
    found_key: *mut u64,
    value: *mut u64,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, found_key, value) = unsafe {
            (
                lend(map)?,
                KeySlot::Number(crate::handle::maybe_out(found_key, "found_key")?),
                number(value, "value")?,
            )
        };
        find(map, place, key, found_key, value)
    })
}

/// Looks for many keys at once, which takes a fraction of the time of as many single calls.
/// `values[i]` gets the value of key `i`, or 0, and `found[i]` 1 or 0, unless it is NULL.
///
/// `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
/// Ownership: arrays are the caller's, of `count` items each. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_get_batch(
    map: *const fanread_map,
    keys: *const u64,
    count: usize,
    values: *mut u64,
    found: *mut u8,
    hits: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        unsafe { get_batch(map, numbers_of(keys, count)?, values, found, hits) }
    })
}

/// Tells of many keys at once whether the map has them: `found[i]` gets 1 or 0.
///
/// `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
/// Ownership: arrays are the caller's, of `count` items each. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_contains_batch(
    map: *const fanread_map,
    keys: *const u64,
    count: usize,
    found: *mut u8,
    hits: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        unsafe { contains_batch(map, numbers_of(keys, count)?, found, hits) }
    })
}

/// Maps each of many keys to the value at the same place of `values`, in their order; later ones
/// win. Faster than as many single calls.
///
/// Returns `FANREAD_OK`. A key that the map does not take is found before the first is inserted;
/// if there is no memory, those before it are in.
/// Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_OUT_OF_MEMORY`.
/// Ownership: the map keeps copies. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_insert_batch(
    map: *const fanread_map,
    keys: *const u64,
    values: *const u64,
    count: usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (map, keys, values) =
            unsafe { (lend(map)?, numbers_of(keys, count)?, values_of(values, count)?) };
        map.insert_batch(keys, values)?;
        Ok(fanread_status::FANREAD_OK)
    })
}

/// Makes a map of a kind, one of `fanread_kind`, with entries whose keys ascend. Several times
/// faster than insertions.
///
/// Errors: `FANREAD_UNKNOWN_KIND`, `FANREAD_NOT_ASCENDING`, `FANREAD_OUT_OF_MEMORY`. `*map` is NULL then.
/// Ownership: the map keeps copies; the caller frees it by `fanread_map_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_from_sorted(
    kind: i32,
    keys: *const u64,
    values: *const u64,
    count: usize,
    map: *mut *mut fanread_map,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        unsafe { load(kind, numbers_of(keys, count), values_of(values, count), map) }
    })
}

/// Stores the value of a key in the buffer `value`; NULL if nobody wants it.
///
/// Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers.
/// Ownership: the buffer is the caller's. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_get_bytes(
    map: *const fanread_map,
    key: u64,
    value: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, value) = unsafe { (lend(map)?, room(value, "value")?) };
        Ok(found(map.get(key, value)?))
    })
}

/// Maps a key to `value_len` bytes from `value` on, whether it had a value or not. The value that
/// is replaced goes to the buffer `old`, unless it is NULL.
///
/// Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_OUT_OF_MEMORY`.
/// Ownership: the map keeps copies; the buffer is the caller's. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_insert_bytes(
    map: *const fanread_map,
    key: u64,
    value: *const c_void,
    value_len: usize,
    old: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, value, old) =
            unsafe { (lend(map)?, bytes(value, value_len, "the value")?, room(old, "old")?) };
        Ok(replaced(map.insert(key, value, old)?))
    })
}

/// Removes a key. The value that it had goes to the buffer `old`, unless it is NULL.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers.
/// Ownership: the buffer is the caller's. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_remove_bytes(
    map: *const fanread_map,
    key: u64,
    old: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, old) = unsafe { (lend(map)?, room(old, "old")?) };
        Ok(found(map.remove(key, old)?))
    })
}

/// Maps a key to `value_len` bytes from `value` on if it has a value already, which goes to the
/// buffer `old`, unless it is NULL.
///
/// Returns `FANREAD_REPLACED`, or `FANREAD_NOT_FOUND` if there is no such key, which is not inserted then.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers.
/// Ownership: the map keeps a copy; the buffer is the caller's. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_replace_bytes(
    map: *const fanread_map,
    key: u64,
    value: *const c_void,
    value_len: usize,
    old: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, value, old) =
            unsafe { (lend(map)?, bytes(value, value_len, "the value")?, room(old, "old")?) };
        let done = map.replace(key, value, old)?;
        Ok(if done { fanread_status::FANREAD_REPLACED } else { fanread_status::FANREAD_NOT_FOUND })
    })
}

/// Maps a key to `value_len` bytes from `value` on unless it has a value. The value that it has
/// then goes to the buffer `there`, unless it is NULL.
///
/// Returns `FANREAD_OK` if the value is the new one, `FANREAD_REFUSED` if the key had one.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers.
/// Ownership: the map keeps copies; the buffer is the caller's. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_get_or_insert_bytes(
    map: *const fanread_map,
    key: u64,
    value: *const c_void,
    value_len: usize,
    there: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, value, there) =
            unsafe { (lend(map)?, bytes(value, value_len, "the value")?, room(there, "there")?) };
        Ok(inserted(map.get_or_insert(key, value, there)?))
    })
}

/// Maps a key to `desired` if its value is `expected`. The value that it had goes to the buffer
/// `found`, unless it is NULL.
///
/// Returns `FANREAD_REPLACED`; `FANREAD_REFUSED` if the key has another value; `FANREAD_NOT_FOUND` if it has none.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers.
/// Ownership: the map keeps a copy; the buffer is the caller's. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_compare_exchange_bytes(
    map: *const fanread_map,
    key: u64,
    expected: *const c_void,
    expected_len: usize,
    desired: *const c_void,
    desired_len: usize,
    found: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, expected, desired, found) = unsafe {
            (
                lend(map)?,
                bytes(expected, expected_len, "the expected value")?,
                bytes(desired, desired_len, "the desired value")?,
                room(found, "found")?,
            )
        };
        Ok(exchanged(map.compare_exchange(key, expected, desired, found)?))
    })
}

/// Finds the entry at a place, one of `fanread_place`: its key goes to `*found_key`, its value to
/// the buffer `value`, each unless it is NULL.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry.
/// Errors: `FANREAD_ARGUMENT` if there is no such place, `FANREAD_VALUE_KIND` if the values are
/// numbers, `FANREAD_KEY_LENGTH` if the key found has not 8 bytes.
/// Ownership: buffers are the caller's. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_find_bytes(
    map: *const fanread_map,
    place: i32,
    key: u64,
    found_key: *mut u64,
    value: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        let key = Key::Number(key);
        // SAFETY: the caller promises it of every pointer.
        let (map, found_key, value) = unsafe {
            (
                lend(map)?,
                KeySlot::Number(crate::handle::maybe_out(found_key, "found_key")?),
                room(value, "value")?,
            )
        };
        find(map, place, key, found_key, value)
    })
}

/// Looks for many keys at once, which takes a fraction of the time of as many single calls. The
/// bytes of all values found go to the buffer `room`, and `values[i]` says where in it the value of
/// key `i` is; its `data` is NULL if there is none.
///
/// `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers.
/// A call that fails writes nothing to `values`, and may leave the buffer empty.
/// Ownership: arrays and buffer are the caller's. What `values` point to is valid until the buffer
/// is used again. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_get_batch_bytes(
    map: *const fanread_map,
    keys: *const u64,
    count: usize,
    values: *mut fanread_bytes,
    room: *mut fanread_buffer,
    hits: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        unsafe { get_batch_bytes(map, numbers_of(keys, count)?, values, room, hits) }
    })
}

/// Maps each of many keys to the value at the same place of `values`, in their order; later ones
/// win. Faster than as many single calls.
///
/// Returns `FANREAD_OK`. A key that the map does not take is found before the first is inserted;
/// if there is no memory, those before it are in.
/// Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_OUT_OF_MEMORY`.
/// Ownership: the map keeps copies. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_insert_batch_bytes(
    map: *const fanread_map,
    keys: *const u64,
    values: *const fanread_bytes,
    count: usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (map, keys, values) =
            unsafe { (lend(map)?, numbers_of(keys, count)?, values_of_bytes(values, count)?) };
        map.insert_batch(keys, values)?;
        Ok(fanread_status::FANREAD_OK)
    })
}

/// Makes a map of a kind, one of `fanread_kind`, with entries whose keys ascend. Several times
/// faster than insertions.
///
/// Errors: `FANREAD_UNKNOWN_KIND`, `FANREAD_NOT_ASCENDING`, `FANREAD_OUT_OF_MEMORY`. `*map` is NULL then.
/// Ownership: the map keeps copies; the caller frees it by `fanread_map_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_u64_from_sorted_bytes(
    kind: i32,
    keys: *const u64,
    values: *const fanread_bytes,
    count: usize,
    map: *mut *mut fanread_map,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        unsafe { load(kind, numbers_of(keys, count), values_of_bytes(values, count), map) }
    })
}
