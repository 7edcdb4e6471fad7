//! Cursors: entries in order, one at a time, from either side.
//!
//! A cursor reads some entries ahead, as copies, and holds nothing of the map in between but its
//! place: the last key. So it delays nobody, may be kept for any time, passed to another thread,
//! and outlive the map's handle. The price is that what it shows may be as old as the last reading.
//! It starts with 16 entries at a time and goes on with twice as many, up to 256, so that a short
//! scan copies little and a long one seldom searches.

use core::ffi::c_void;
use core::ops::Bound;
use std::sync::Arc;

use crate::call::{bytes_out, found, has_values, key_of, place_of, share};
use crate::error::fanread_status::{FANREAD_NO_ENTRY, FANREAD_NOT_FOUND, FANREAD_OK};
use crate::error::{Fault, Outcome, fanread_status};
use crate::face::{Map, Place};
use crate::handle::{self, Handle, append, fanread_bytes};
use crate::map::{fanread_map, fanread_place};
use crate::panic::border;
use crate::value::{Key, Kind, Value, number_of};

/// A place in a map's order: before the first entry, at one, or behind the last. One thread at a time may use it.
#[derive(Debug)]
pub struct fanread_cursor {
    _opaque: [u8; 0],
}

/// How many entries the first reading takes.
const FIRST_AHEAD: usize = 16;

/// How many entries a reading takes at most. A search costs as much as some ten entries: more would gain nothing.
const MAX_AHEAD: usize = 256;

/// After how many bytes of keys and values a reading ends: they should stay in the near cache.
const AHEAD_BYTES: usize = 32 << 10;

/// Entries that were read, in the order of the reading.
#[derive(Debug, Default)]
struct Chunk {
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key_at: usize,
    key_len: usize,
    /// The number, or where the value's bytes begin; they end where those of the next entry begin.
    value: u64,
    value_len: usize,
}

impl Chunk {
    fn push(&mut self, key: &[u8], value: Value<'_>) -> Result<(), Fault> {
        let key_at = self.bytes.len();
        append(&mut self.bytes, key)?;
        let (value, value_len) = match value {
            Value::Number(number) => (number, 0),
            Value::Bytes(bytes) => {
                let at = self.bytes.len();
                append(&mut self.bytes, bytes)?;
                (at as u64, bytes.len())
            }
        };
        self.entries.push(Entry { key_at, key_len: key.len(), value, value_len });
        Ok(())
    }

    fn key(&self, entry: Entry) -> &[u8] {
        &self.bytes[entry.key_at..][..entry.key_len]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Position {
    Before,
    /// At this entry of the chunk.
    At(usize),
    Behind,
}

pub(crate) struct Cursor {
    map: Arc<dyn Map>,
    position: Position,
    chunk: Chunk,
    /// Takes the next reading, so that one that fails leaves the cursor where it is.
    spare: Chunk,
    /// Whether the chunk was read upwards.
    up: bool,
    ahead: usize,
    /// How many entries each reading takes, if the caller has said so.
    fixed: Option<usize>,
}

impl Handle for Cursor {
    type Face = fanread_cursor;
    const TAG: u64 = u64::from_le_bytes(*b"fan crs\n");
    const NAME: &'static str = "cursor";
}

impl Cursor {
    fn new(map: Arc<dyn Map>) -> Self {
        Self {
            map,
            position: Position::Before,
            chunk: Chunk::default(),
            spare: Chunk::default(),
            up: true,
            ahead: FIRST_AHEAD,
            fixed: None,
        }
    }

    /// Reads entries from a bound on, and goes to the first of them; without any, to the end in that direction.
    fn read(&mut self, from: Bound<Key<'_>>, up: bool) -> Result<bool, Fault> {
        let Self { map, spare, .. } = self;
        let count = self.fixed.unwrap_or(self.ahead);
        spare.bytes.clear();
        spare.entries.clear();
        // Not one by one; and not what a caller has asked for in vain.
        spare.entries.reserve(count.min(MAX_AHEAD));
        spare.bytes.reserve(count.min(MAX_AHEAD) * size_of::<u64>());
        map.walk(from, up, &mut |key, value| {
            spare.push(key, value)?;
            Ok(spare.entries.len() < count && spare.bytes.len() < AHEAD_BYTES)
        })?;
        let any = !spare.entries.is_empty();
        self.position = match (any, up) {
            (true, _) => Position::At(0),
            (false, true) => Position::Behind,
            (false, false) => Position::Before,
        };
        core::mem::swap(&mut self.chunk, &mut self.spare);
        self.up = up;
        self.ahead = (self.ahead * 2).min(MAX_AHEAD);
        Ok(any)
    }

    fn seek(&mut self, place: Place<'_>) -> Result<bool, Fault> {
        self.ahead = FIRST_AHEAD;
        let (from, up) = place.walk();
        self.read(from, up)
    }

    /// Goes to the next entry in a direction.
    fn step(&mut self, up: bool) -> Result<bool, Fault> {
        let at = match (self.position, up) {
            (Position::At(at), _) => at,
            (Position::Before, true) | (Position::Behind, false) => {
                self.ahead = FIRST_AHEAD;
                return self.read(Bound::Unbounded, up);
            }
            _ => return Ok(false),
        };
        if up != self.up {
            self.ahead = FIRST_AHEAD;
        } else if at + 1 < self.chunk.entries.len() {
            self.position = Position::At(at + 1);
            return Ok(true);
        }
        // The reading changes the chunk that has the key.
        let chunk = core::mem::take(&mut self.chunk);
        let result = self.read(Bound::Excluded(Key::Bytes(chunk.key(chunk.entries[at]))), up);
        // After a reading `spare` is what `chunk` was before, which is empty; after a failed one, `chunk` is.
        if result.is_ok() {
            self.spare = chunk;
        } else {
            self.chunk = chunk;
        }
        result
    }

    fn entry(&self) -> Result<Entry, Fault> {
        match self.position {
            Position::At(at) => Ok(self.chunk.entries[at]),
            _ => Err(Fault::new(FANREAD_NO_ENTRY, "the cursor is not at an entry")),
        }
    }

    fn entry_with(&self, kind: Kind) -> Result<Entry, Fault> {
        has_values(&*self.map, kind)?;
        self.entry()
    }
}

/// Makes a cursor before the first entry of a map.
///
/// Errors: see `fanread_status`; `*cursor` is NULL then.
/// Ownership: the caller frees the cursor by `fanread_cursor_free`; it keeps the map's entries,
/// even if the map is freed.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_new(
    map: *const fanread_map,
    cursor: *mut *mut fanread_cursor,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, map) = unsafe { (handle::made(cursor)?, share(map)?) };
        handle::give(Cursor::new(map), out);
        Ok(FANREAD_OK)
    })
}

/// Frees a cursor. NULL is nothing to free.
///
/// Threads: one, while no other uses the cursor.
///
/// # Safety
///
/// `cursor` is NULL or a cursor that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_free(cursor: *mut fanread_cursor) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        drop(unsafe { handle::take::<Cursor>(cursor)? });
        Ok(FANREAD_OK)
    })
}

/// Sets how many entries the cursor reads at a time: 1 to see each as it is, as many as a scan will
/// take to search once. 0 makes it choose by itself again.
///
/// Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_read_ahead(
    cursor: *mut fanread_cursor,
    entries: usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        unsafe { handle::lend_mut::<Cursor>(cursor)? }.fixed = (entries != 0).then_some(entries);
        Ok(FANREAD_OK)
    })
}

/// Moves a cursor to the entry at a place, one of `fanread_place`, next to a key of bytes.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry: the cursor is behind the last one then, or
/// before the first if it was to go to the last entry or below the key.
/// Errors: `FANREAD_ARGUMENT` if there is no such place, `FANREAD_KEY_LENGTH` if the map is on
/// numbers and the key has not 8 bytes; the cursor stays where it was. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_seek(
    cursor: *mut fanread_cursor,
    place: i32,
    key: *const c_void,
    key_len: usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (cursor, key) = unsafe { (handle::lend_mut::<Cursor>(cursor)?, key_of(key, key_len)?) };
        Ok(found(cursor.seek(place_of(place, key)?)?))
    })
}

/// Moves a cursor to the entry at a place, next to a key that is a number; otherwise as `fanread_cursor_seek`.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_u64_seek(
    cursor: *mut fanread_cursor,
    place: i32,
    key: u64,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        let cursor = unsafe { handle::lend_mut::<Cursor>(cursor)? };
        Ok(found(cursor.seek(place_of(place, Key::Number(key))?)?))
    })
}

/// Moves a cursor to the first entry. Returns as `fanread_cursor_seek`. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_seek_first(cursor: *mut fanread_cursor) -> fanread_status {
    // SAFETY: the caller's promise is the same.
    unsafe { fanread_cursor_u64_seek(cursor, fanread_place::FANREAD_FIRST as i32, 0) }
}

/// Moves a cursor to the last entry. Returns as `fanread_cursor_seek`. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_seek_last(cursor: *mut fanread_cursor) -> fanread_status {
    // SAFETY: the caller's promise is the same.
    unsafe { fanread_cursor_u64_seek(cursor, fanread_place::FANREAD_LAST as i32, 0) }
}

/// Moves a cursor to the next entry, from before the first one to that.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` behind the last one, where it stays.
/// Keys ascend strictly from call to call. An entry that is in the map all the time is met; one
/// that comes or goes may be. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_next(cursor: *mut fanread_cursor) -> fanread_status {
    // SAFETY: the caller's promise is the same.
    border(|| unsafe { step(cursor, true) })
}

/// Moves a cursor to the entry before, from behind the last one to that.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` before the first one, where it stays; otherwise as
/// `fanread_cursor_next`.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_prev(cursor: *mut fanread_cursor) -> fanread_status {
    // SAFETY: the caller's promise is the same.
    border(|| unsafe { step(cursor, false) })
}

/// # Safety
///
/// As for `handle::lend_mut`.
unsafe fn step(cursor: *mut fanread_cursor, up: bool) -> Outcome {
    // SAFETY: the caller's promise is the same.
    let moved = unsafe { handle::lend_mut::<Cursor>(cursor)? }.step(up)?;
    Ok(if moved { FANREAD_OK } else { FANREAD_NOT_FOUND })
}

/// Stores where the key of the cursor's entry is. A key that is a number has eight bytes, the highest first.
///
/// Errors: `FANREAD_NO_ENTRY`.
/// Ownership: the cursor's. The bytes are valid until it moves or is freed. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_key(
    cursor: *const fanread_cursor,
    key: *mut fanread_bytes,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (cursor, out) = unsafe { (handle::lend::<Cursor>(cursor)?, bytes_out(key, "key")?) };
        out.set(fanread_bytes::of(cursor.chunk.key(cursor.entry()?)));
        Ok(FANREAD_OK)
    })
}

/// Stores the key of the cursor's entry as a number.
///
/// Errors: `FANREAD_NO_ENTRY`; `FANREAD_KEY_LENGTH` if it has not 8 bytes. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_u64_key(
    cursor: *const fanread_cursor,
    key: *mut u64,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (cursor, out) = unsafe { (handle::lend::<Cursor>(cursor)?, handle::out(key, "key")?) };
        out.set(number_of(cursor.chunk.key(cursor.entry()?))?);
        Ok(FANREAD_OK)
    })
}

/// Stores the value of the cursor's entry.
///
/// Errors: `FANREAD_NO_ENTRY`; `FANREAD_VALUE_KIND` if the values are byte strings. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_value(
    cursor: *const fanread_cursor,
    value: *mut u64,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (cursor, out) =
            unsafe { (handle::lend::<Cursor>(cursor)?, handle::out(value, "value")?) };
        out.set(cursor.entry_with(Kind::Numbers)?.value);
        Ok(FANREAD_OK)
    })
}

/// Stores where the value of the cursor's entry is.
///
/// Errors: `FANREAD_NO_ENTRY`; `FANREAD_VALUE_KIND` if the values are numbers.
/// Ownership: the cursor's. The bytes are valid until it moves or is freed. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_cursor_value_bytes(
    cursor: *const fanread_cursor,
    value: *mut fanread_bytes,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (cursor, out) =
            unsafe { (handle::lend::<Cursor>(cursor)?, bytes_out(value, "value")?) };
        let entry = cursor.entry_with(Kind::Bytes)?;
        out.set(fanread_bytes::of(&cursor.chunk.bytes[entry.value as usize..][..entry.value_len]));
        Ok(FANREAD_OK)
    })
}
