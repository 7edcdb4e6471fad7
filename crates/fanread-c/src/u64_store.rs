//! Maps of numbers in files that outlive the process: the calls of `store.rs` once more, for the
//! map that keeps nothing else.

use core::ffi::{c_char, c_void};

use fanread::Cceh;

use crate::call::{found, replaced};
use crate::error::fanread_status::{FANREAD_DAMAGED, FANREAD_NOT_FOUND, FANREAD_OK};
use crate::error::{Fault, fanread_status};
use crate::handle::{self, Handle};
use crate::panic::border;
use crate::store::{CHUNK, durability_of, fanread_store_options, options_of};

/// A hash map of numbers to numbers in a file, or in memory, that a crash leaves whole. Any number
/// of threads may use it at once, through all functions but `fanread_u64_store_free`. In a process that
/// was forked from the one that opened its file the same holds as for `fanread_store`.
#[derive(Debug)]
pub struct fanread_u64_store {
    _opaque: [u8; 0],
}

struct Numbers(Cceh);

impl Handle for Numbers {
    type Face = fanread_u64_store;
    const TAG: u64 = u64::from_le_bytes(*b"fan u64\n");
    const NAME: &'static str = "store of numbers";
}

/// Takes an entry of a store of numbers. 0 goes on, anything else ends the walk. It must return: no
/// exception and no `longjmp` may leave it.
pub type fanread_u64_visit =
    Option<unsafe extern "C" fn(context: *mut c_void, key: u64, value: u64) -> i32>;

/// Makes a store in memory, which nothing survives but the process itself. `options` may be NULL.
///
/// Errors: `FANREAD_ARGUMENT` for options that cannot be, `FANREAD_IO`, `FANREAD_OUT_OF_MEMORY`;
/// `*store` is NULL then.
/// Ownership: the caller frees it by `fanread_u64_store_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_in_memory(
    options: *const fanread_store_options,
    store: *mut *mut fanread_u64_store,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, options) = unsafe { (handle::made(store)?, options_of(options)?) };
        handle::give(Numbers(Cceh::in_memory(options)?), out);
        Ok(FANREAD_OK)
    })
}

/// Makes a store in a new file. `options` may be NULL.
///
/// Errors: `FANREAD_ARGUMENT` for options that cannot be; `FANREAD_IO` if there is a file of that
/// name, or none can be made; `FANREAD_OUT_OF_MEMORY`. `*store` is NULL then.
/// Ownership: the caller frees it by `fanread_u64_store_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_create(
    path: *const c_char,
    options: *const fanread_store_options,
    store: *mut *mut fanread_u64_store,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, path, options) =
            unsafe { (handle::made(store)?, handle::path(path)?, options_of(options)?) };
        handle::give(Numbers(Cceh::create(path, options)?), out);
        Ok(FANREAD_OK)
    })
}

/// Opens the store in a file, and finishes what a crash has left unfinished there.
///
/// Errors: `FANREAD_BUSY` if it is open already, `FANREAD_IO`, `FANREAD_DAMAGED`,
/// `FANREAD_OUT_OF_MEMORY`; `*store` is NULL then.
/// Ownership: the caller frees it by `fanread_u64_store_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_open(
    path: *const c_char,
    store: *mut *mut fanread_u64_store,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, path) = unsafe { (handle::made(store)?, handle::path(path)?) };
        handle::give(Numbers(Cceh::open(path)?), out);
        Ok(FANREAD_OK)
    })
}

/// Closes and frees a store. NULL is nothing to free. With checkpoints it makes one, and says nothing if that fails:
/// call `fanread_u64_store_sync` before, to know.
///
/// Threads: one, while no other uses the store.
///
/// # Safety
///
/// `store` is NULL or a store that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_free(store: *mut fanread_u64_store) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        drop(unsafe { handle::take::<Numbers>(store)? });
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
pub unsafe extern "C" fn fanread_u64_store_sync(store: *const fanread_u64_store) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let store = unsafe { handle::lend::<Numbers>(store)? };
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
pub unsafe extern "C" fn fanread_u64_store_check(
    store: *const fanread_u64_store,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let store = unsafe { handle::lend::<Numbers>(store)? };
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
pub unsafe extern "C" fn fanread_u64_store_durability(
    store: *const fanread_u64_store,
    durability: *mut i32,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, out) =
            unsafe { (handle::lend::<Numbers>(store)?, handle::out(durability, "durability")?) };
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
pub unsafe extern "C" fn fanread_u64_store_len(
    store: *const fanread_u64_store,
    len: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, out) = unsafe { (handle::lend::<Numbers>(store)?, handle::out(len, "len")?) };
        out.set(store.0.len());
        Ok(FANREAD_OK)
    })
}

/// Stores the value of a key in `*value`, unless that is NULL.
///
/// Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_get(
    store: *const fanread_u64_store,
    key: u64,
    value: *mut u64,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, out) =
            unsafe { (handle::lend::<Numbers>(store)?, handle::maybe_out(value, "value")?) };
        let value = store.0.get(key);
        if let (Some(out), Some(value)) = (out, value) {
            out.set(value);
        }
        Ok(found(value.is_some()))
    })
}

/// Maps a key to a value. The value that is replaced goes to `*old`, unless it is NULL.
///
/// Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value: it survives what the store survives.
/// Errors: `FANREAD_IO` if the file cannot grow, `FANREAD_CROWDED`, `FANREAD_OUT_OF_MEMORY`. The
/// store is as it was then.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_insert(
    store: *const fanread_u64_store,
    key: u64,
    value: u64,
    old: *mut u64,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, old) =
            unsafe { (handle::lend::<Numbers>(store)?, handle::maybe_out(old, "old")?) };
        let before = store.0.insert(key, value)?;
        let status = replaced(before.is_some());
        if let (Some(out), Some(value)) = (old, before) {
            out.set(value);
        }
        Ok(status)
    })
}

/// Removes a key. The value that it had goes to `*old`, unless it is NULL.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_remove(
    store: *const fanread_u64_store,
    key: u64,
    old: *mut u64,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, old) =
            unsafe { (handle::lend::<Numbers>(store)?, handle::maybe_out(old, "old")?) };
        let before = store.0.remove(key);
        let status = found(before.is_some());
        if let (Some(out), Some(value)) = (old, before) {
            out.set(value);
        }
        Ok(status)
    })
}

/// Looks for many keys at once, which takes a fraction of the time of as many single calls.
/// `values[i]` gets the value of key `i`, or 0, and `found[i]` 1 or 0, unless it is NULL.
///
/// `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
/// Ownership: arrays are the caller's, of `count` items each. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_u64_store_get_batch(
    store: *const fanread_u64_store,
    keys: *const u64,
    count: usize,
    values: *mut u64,
    found: *mut u8,
    hits: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (store, keys, values, hits) = unsafe {
            (
                handle::lend::<Numbers>(store)?,
                handle::array(keys, count, "the keys")?,
                handle::out_array(values, count, "values")?,
                handle::maybe_out(hits, "hits")?,
            )
        };
        let wanted = if found.is_null() { 0 } else { count };
        // SAFETY: the caller promises it.
        let found = unsafe { handle::out_array(found, wanted, "found")? };
        let mut all = 0;
        for (part, keys) in keys.chunks(CHUNK).enumerate() {
            let mut answers = [None; CHUNK];
            let answers = &mut answers[..keys.len()];
            store.0.get_batch(keys, answers);
            for (index, answer) in (part * CHUNK..).zip(answers) {
                all += usize::from(answer.is_some());
                values[index].write(answer.unwrap_or(0));
                if let Some(found) = found.get_mut(index) {
                    found.write(u8::from(answer.is_some()));
                }
            }
        }
        if let Some(hits) = hits {
            hits.set(all);
        }
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
pub unsafe extern "C" fn fanread_u64_store_scan(
    store: *const fanread_u64_store,
    visit: fanread_u64_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let store = unsafe { handle::lend::<Numbers>(store)? };
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        let mut any = false;
        for (key, value) in &store.0 {
            any = true;
            // SAFETY: the caller promises that it takes its context, and returns.
            if unsafe { visit(context, key, value) } != 0 {
                break;
            }
        }
        Ok(if any { FANREAD_OK } else { FANREAD_NOT_FOUND })
    })
}
