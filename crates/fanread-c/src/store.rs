//! Maps of byte strings in files that outlive the process; `u64_store.rs` has those of numbers.

use core::ffi::{c_char, c_void};

use fanread::Store;
use fanread::persist::Durability;
use fanread::persist::cceh::{CcehOptions, SplitPolicy};

use crate::call::{bytes_array, found, replaced};
use crate::error::fanread_status::{FANREAD_DAMAGED, FANREAD_NOT_FOUND, FANREAD_OK};
use crate::error::{Fault, fanread_status};
use crate::handle::{self, Handle, append, fanread_buffer, fanread_bytes};
use crate::panic::border;
use crate::table::fanread_visit;

/// Keys of a batch at a time: several times as many as a store keeps in flight.
pub(crate) const CHUNK: usize = 128;

/// A hash map of byte strings to byte strings in a file, or in memory, that a crash leaves whole.
/// Any number of threads may use it at once, through all functions but `fanread_store_free`.
///
/// A store in a file is that of the process which opened it. In one that was forked from it, it may be freed, and read as long
/// as the parent does not write: insertions and `fanread_store_sync` return `FANREAD_IO` there, removals `FANREAD_PANIC`, and
/// nothing is changed.
#[derive(Debug)]
pub struct fanread_store {
    _opaque: [u8; 0],
}

struct Strings(Store);

impl Handle for Strings {
    type Face = fanread_store;
    const TAG: u64 = u64::from_le_bytes(*b"fan sto\n");
    const NAME: &'static str = "store";
}

/// How a store is made. All zero is what suits most.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fanread_store_options {
    /// Bytes of a segment: a power of two from 256 to 4194304; 0 for 16384.
    pub segment_bytes: usize,
    /// In how many neighbouring buckets of 64 bytes a key may be, at most as many as a segment has, and 65535; 0 for 4.
    pub probed_buckets: usize,
    /// Not 0: the file has checkpoints, so that a power cut leaves the store as it was at the last
    /// completed `sync`, or at the end of its use. A second and a third file beside it are needed
    /// for that.
    pub checkpoints: u32,
    /// Not 0: a segment is split into two new ones rather than in place.
    pub copy_on_write: u32,
    /// Not 0: memory of a store without a file is not asked for in huge pages.
    pub small_pages: u32,
    /// Not 0: `seed` is the hash key, so that the same calls make the same file. 0: it is random.
    pub has_seed: u32,
    /// See above.
    pub seed: u64,
}

/// What the contents of a store survive; each level includes those before it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum fanread_durability {
    /// Nothing: they are memory of the process.
    FANREAD_SURVIVES_NOTHING = 0,
    /// The end of the process, whatever ends it.
    FANREAD_SURVIVES_PROCESS = 1,
    /// That, and of a power cut what the last checkpoint has.
    FANREAD_SURVIVES_CHECKPOINT = 2,
    /// That, and of a power cut all that a call had returned.
    FANREAD_SURVIVES_POWER_CUT = 3,
}

/// The smallest and the largest segment, and the bytes of a bucket.
const SEGMENT_BYTES: (usize, usize, usize) = (256, 4 << 20, 64);

/// The most buckets that a key may be in, whatever a segment has.
const MOST_PROBED: usize = 0xffff;

/// The options of C. The library panics about impossible ones, so they are looked at before.
///
/// # Safety
///
/// `options` is NULL, misaligned, or points to options that nobody writes to meanwhile.
pub(crate) unsafe fn options_of(
    options: *const fanread_store_options,
) -> Result<CcehOptions, Fault> {
    let mut made = CcehOptions::new();
    if options.is_null() {
        return Ok(made);
    }
    // SAFETY: the caller's promise is the same.
    let [given] = (unsafe { handle::array(options, 1, "the options")? }) else { return Ok(made) };
    let (smallest, largest, bucket) = SEGMENT_BYTES;
    let segment = if given.segment_bytes == 0 { 16 << 10 } else { given.segment_bytes };
    if !segment.is_power_of_two() || !(smallest..=largest).contains(&segment) {
        return Err(Fault::argument(format!("a segment cannot have {segment} bytes")));
    }
    made = made.segment_bytes(segment);
    if given.probed_buckets > (segment / bucket).min(MOST_PROBED) {
        let text = format!("{} buckets cannot be probed", given.probed_buckets);
        return Err(Fault::argument(text));
    }
    if given.probed_buckets != 0 {
        made = made.probed_buckets(given.probed_buckets);
    }
    if given.copy_on_write != 0 {
        made = made.split_policy(SplitPolicy::CopyOnWrite);
    }
    if given.has_seed != 0 {
        made = made.seed(given.seed);
    }
    Ok(made.checkpoints(given.checkpoints != 0).huge_pages(given.small_pages == 0))
}

pub(crate) fn durability_of(durability: Durability) -> i32 {
    let level = match durability {
        Durability::None => fanread_durability::FANREAD_SURVIVES_NOTHING,
        Durability::Checkpoint => fanread_durability::FANREAD_SURVIVES_CHECKPOINT,
        Durability::Persistent => fanread_durability::FANREAD_SURVIVES_POWER_CUT,
        // And whatever is added in between: what is promised is the least of it.
        _ => fanread_durability::FANREAD_SURVIVES_PROCESS,
    };
    level as i32
}

/// Makes a store in memory, which nothing survives but the process itself. `options` may be NULL.
///
/// Errors: `FANREAD_ARGUMENT` for options that cannot be, `FANREAD_IO`, `FANREAD_OUT_OF_MEMORY`;
/// `*store` is NULL then.
/// Ownership: the caller frees it by `fanread_store_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_in_memory(
    options: *const fanread_store_options,
    store: *mut *mut fanread_store,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, options) = unsafe { (handle::made(store)?, options_of(options)?) };
        handle::give(Strings(Store::in_memory(options)?), out);
        Ok(FANREAD_OK)
    })
}

/// Makes a store in a new file. `options` may be NULL.
///
/// Errors: `FANREAD_ARGUMENT` for options that cannot be; `FANREAD_IO` if there is a file of that
/// name, or none can be made; `FANREAD_OUT_OF_MEMORY`. `*store` is NULL then.
/// Ownership: the caller frees it by `fanread_store_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_create(
    path: *const c_char,
    options: *const fanread_store_options,
    store: *mut *mut fanread_store,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, path, options) =
            unsafe { (handle::made(store)?, handle::path(path)?, options_of(options)?) };
        handle::give(Strings(Store::create(path, options)?), out);
        Ok(FANREAD_OK)
    })
}

/// Opens the store in a file, and finishes what a crash has left unfinished there.
///
/// Errors: `FANREAD_BUSY` if it is open already, `FANREAD_IO`, `FANREAD_DAMAGED`,
/// `FANREAD_OUT_OF_MEMORY`; `*store` is NULL then.
/// Ownership: the caller frees it by `fanread_store_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_open(
    path: *const c_char,
    store: *mut *mut fanread_store,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, path) = unsafe { (handle::made(store)?, handle::path(path)?) };
        handle::give(Strings(Store::open(path)?), out);
        Ok(FANREAD_OK)
    })
}

/// Closes and frees a store. NULL is nothing to free. With checkpoints it makes one, and says nothing if that fails:
/// call `fanread_store_sync` before, to know.
///
/// Threads: one, while no other uses the store.
///
/// # Safety
///
/// `store` is NULL or a store that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_free(store: *mut fanread_store) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        drop(unsafe { handle::take::<Strings>(store)? });
        Ok(FANREAD_OK)
    })
}

/// Writes to the disk what has changed; with checkpoints, what has been acknowledged so far survives a power cut once
/// this has returned `FANREAD_OK`.
///
/// Errors: `FANREAD_IO`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_sync(store: *const fanread_store) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let store = unsafe { handle::lend::<Strings>(store)? };
        store.0.sync()?;
        Ok(FANREAD_OK)
    })
}

/// Verifies the invariants of a store that nobody changes meanwhile.
///
/// Returns `FANREAD_OK`, or `FANREAD_DAMAGED`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_check(store: *const fanread_store) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let store = unsafe { handle::lend::<Strings>(store)? };
        match store.0.check() {
            Ok(()) => Ok(FANREAD_OK),
            Err(broken) => Err(Fault::new(FANREAD_DAMAGED, broken.to_string())),
        }
    })
}

/// Stores what the contents survive, one of `fanread_durability`.
///
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_durability(
    store: *const fanread_store,
    durability: *mut i32,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, out) =
            unsafe { (handle::lend::<Strings>(store)?, handle::out(durability, "durability")?) };
        out.set(durability_of(store.0.durability()));
        Ok(FANREAD_OK)
    })
}

/// Stores how many keys there are. Takes a line of memory for each segment; the first time after it
/// was opened, all of it.
///
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_len(
    store: *const fanread_store,
    len: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, out) = unsafe { (handle::lend::<Strings>(store)?, handle::out(len, "len")?) };
        out.set(store.0.len());
        Ok(FANREAD_OK)
    })
}

/// Stores the value of a key in the buffer `value`, unless that is NULL.
///
/// Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`; the buffer is empty then. Ownership: the buffer is the caller's.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_get(
    store: *const fanread_store,
    key: *const c_void,
    key_len: usize,
    value: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, key, buffer) = unsafe {
            (
                handle::lend::<Strings>(store)?,
                handle::bytes(key, key_len, "the key")?,
                handle::maybe_buffer(value, "value")?,
            )
        };
        let Some(buffer) = buffer else { return Ok(found(store.0.contains_key(key))) };
        let mut room = buffer.take();
        room.clear();
        let is_there = store.0.get_into(key, &mut room);
        buffer.put(room);
        Ok(found(is_there))
    })
}

/// Maps a key to a value. The value that is replaced goes to the buffer `old`, unless it is NULL.
///
/// Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value: it survives what the store survives.
/// Errors: `FANREAD_IO` if the file cannot grow, `FANREAD_CROWDED`, `FANREAD_TOO_LONG`,
/// `FANREAD_OUT_OF_MEMORY`. The store is as it was then. Ownership: the buffer is the caller's.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_insert(
    store: *const fanread_store,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    old: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, key, value, old) = unsafe {
            (
                handle::lend::<Strings>(store)?,
                handle::bytes(key, key_len, "the key")?,
                handle::bytes(value, value_len, "the value")?,
                handle::maybe_buffer(old, "old")?,
            )
        };
        let before = store.0.insert(key, value)?;
        let status = replaced(before.is_some());
        if let (Some(buffer), Some(value)) = (old, before) {
            buffer.put(value);
        }
        Ok(status)
    })
}

/// Removes a key. The value that it had goes to the buffer `old`, unless it is NULL.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key. Ownership: the buffer is the caller's.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_remove(
    store: *const fanread_store,
    key: *const c_void,
    key_len: usize,
    old: *mut fanread_buffer,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, key, old) = unsafe {
            (
                handle::lend::<Strings>(store)?,
                handle::bytes(key, key_len, "the key")?,
                handle::maybe_buffer(old, "old")?,
            )
        };
        let before = store.0.remove(key);
        let status = found(before.is_some());
        if let (Some(buffer), Some(value)) = (old, before) {
            buffer.put(value);
        }
        Ok(status)
    })
}

/// Looks for many keys at once, which takes a fraction of the time of as many single calls. The
/// bytes of all values found go to the buffer `room`, and `values[i]` says where in it the value of
/// key `i` is; its `data` is NULL if there is none.
///
/// `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
/// Ownership: arrays and buffer are the caller's. What `values` point to is valid until the buffer
/// is used again. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_get_batch(
    store: *const fanread_store,
    keys: *const fanread_bytes,
    count: usize,
    values: *mut fanread_bytes,
    room: *mut fanread_buffer,
    hits: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, keys, values, buffer, hits) = unsafe {
            (
                handle::lend::<Strings>(store)?,
                bytes_array(keys, count, "the keys")?,
                handle::out_array(values, count, "values")?,
                handle::buffer(room, "room")?,
                handle::maybe_out(hits, "hits")?,
            )
        };
        let mut room = buffer.take();
        room.clear();
        let mut spots = Vec::with_capacity(count);
        let mut answers: [Option<Vec<u8>>; CHUNK] = [const { None }; CHUNK];
        for at in (0..count).step_by(CHUNK) {
            let mut some: [&[u8]; CHUNK] = [&[]; CHUNK];
            let some = &mut some[..CHUNK.min(count - at)];
            for (index, key) in (at..).zip(&mut *some) {
                *key = keys.at(index);
            }
            let answers = &mut answers[..some.len()];
            store.0.get_batch(some, answers);
            for answer in answers {
                spots.push(answer.as_ref().map(|value| (room.len(), value.len())));
                append(&mut room, answer.as_deref().unwrap_or_default())?;
            }
        }
        if let Some(hits) = hits {
            hits.set(spots.iter().flatten().count());
        }
        for (value, spot) in values.iter_mut().zip(spots) {
            value.write(
                spot.map_or(fanread_bytes::NONE, |(at, len)| fanread_bytes::of(&room[at..][..len])),
            );
        }
        buffer.put(room);
        Ok(FANREAD_OK)
    })
}

/// Visits all entries, in no order that means anything. A key that is there all the time is visited
/// once, one that comes or goes meanwhile at most once. `visit` may use the store.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no entry.
/// Errors: `FANREAD_NULL` also if there is no `visit`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_store_scan(
    store: *const fanread_store,
    visit: fanread_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let store = unsafe { handle::lend::<Strings>(store)? };
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        let mut any = false;
        for (key, value) in &store.0 {
            any = true;
            // SAFETY: the caller promises that it takes its context, and returns.
            if unsafe { visit(context, fanread_bytes::of(&key), fanread_bytes::of(&value)) } != 0 {
                break;
            }
        }
        Ok(if any { FANREAD_OK } else { FANREAD_NOT_FOUND })
    })
}
