//! Table files: built once, then read.

use core::ffi::{c_char, c_void};
use core::ops::Bound;

use fanread::table::TableOptions;
use fanread::{CuckooTable, TableBuilder};

use crate::call::{bytes_array, found};
use crate::error::fanread_status::{FANREAD_DAMAGED, FANREAD_NOT_FOUND, FANREAD_OK};
use crate::error::{Fault, fanread_status};
use crate::handle::{self, Handle, fanread_bytes};
use crate::panic::border;

/// Entries of a table that is to be built: keys of one length, and values of one length. One thread
/// at a time may use it.
#[derive(Debug)]
pub struct fanread_table_builder {
    _opaque: [u8; 0],
}

/// A table that was read from a file, or mapped. It never changes, so any number of threads may use it.
#[derive(Debug)]
pub struct fanread_table {
    _opaque: [u8; 0],
}

struct Builder(TableBuilder);

impl Handle for Builder {
    type Face = fanread_table_builder;
    const TAG: u64 = u64::from_le_bytes(*b"fan bld\n");
    const NAME: &'static str = "table builder";
}

struct Table(CuckooTable);

impl Handle for Table {
    type Face = fanread_table;
    const TAG: u64 = u64::from_le_bytes(*b"fan tab\n");
    const NAME: &'static str = "table";
}

/// How a table is built. All zero is what the format has by default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fanread_table_options {
    /// Which part of the buckets is used, at most; 0 for 0.9.
    pub hash_ratio: f64,
    /// How many bytes of entries are kept in memory before they go to a temporary file; 0 for 1 GiB.
    pub memory_limit: usize,
    /// How many entries may be moved to make room for one; 0 for 100.
    pub search_depth: u32,
    /// How many buckets are in a block; 0 for 5.
    pub block_buckets: u32,
    /// Not 0: the first eight bytes of a key are its first hash; for keys that are random numbers.
    pub identity_first: u32,
    /// Not 0: the number of buckets is a power of two.
    pub power_of_two: u32,
    /// Not 0: as many keys as possible are in their first block, rather than where `RocksDB` would put them.
    pub first_blocks: u32,
    /// Not 0: the file has no checksums.
    pub no_checksums: u32,
}

/// What a table tells about itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fanread_table_stats {
    /// How many entries there are.
    pub entries: u64,
    /// The length of every key.
    pub key_len: usize,
    /// The length of every value.
    pub value_len: usize,
    /// How many buckets there are.
    pub buckets: u64,
    /// With how many hash functions keys are found.
    pub hashes: u32,
    /// How long the file is.
    pub file_bytes: u64,
}

/// Takes an entry of a scan. What the byte strings point to is valid during the call. 0 goes on,
/// anything else ends the scan. It must return: no exception and no `longjmp` may leave it.
pub type fanread_visit = Option<
    unsafe extern "C" fn(context: *mut c_void, key: fanread_bytes, value: fanread_bytes) -> i32,
>;

/// The options of C.
///
/// # Safety
///
/// `options` is NULL, misaligned, or points to options that nobody writes to meanwhile.
unsafe fn options_of(options: *const fanread_table_options) -> Result<TableOptions, Fault> {
    let made = TableOptions::new();
    if options.is_null() {
        return Ok(made);
    }
    // SAFETY: the caller's promise is the same.
    let [given] = (unsafe { handle::array(options, 1, "the options")? }) else { return Ok(made) };
    let mut made = made
        .identity_first(given.identity_first != 0)
        .power_of_two(given.power_of_two != 0)
        .first_blocks(given.first_blocks != 0)
        .checksums(given.no_checksums == 0);
    if given.hash_ratio != 0.0 {
        made = made.hash_ratio(given.hash_ratio);
    }
    if given.memory_limit != 0 {
        made = made.memory_limit(given.memory_limit);
    }
    if given.search_depth != 0 {
        made = made.search_depth(given.search_depth);
    }
    if given.block_buckets != 0 {
        made = made.block_buckets(given.block_buckets);
    }
    Ok(made)
}

/// Makes a builder without entries. `options` may be NULL.
///
/// Ownership: the caller frees it by `fanread_table_builder_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_builder_new(
    options: *const fanread_table_options,
    builder: *mut *mut fanread_table_builder,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, options) = unsafe { (handle::made(builder)?, options_of(options)?) };
        handle::give(Builder(TableBuilder::new(options)), out);
        Ok(FANREAD_OK)
    })
}

/// Frees a builder. NULL is nothing to free.
///
/// Threads: one, while no other uses the builder.
///
/// # Safety
///
/// `builder` is NULL or a builder that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_builder_free(
    builder: *mut fanread_table_builder,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        drop(unsafe { handle::take::<Builder>(builder)? });
        Ok(FANREAD_OK)
    })
}

/// Adds an entry. All keys must have the length of the first, and all values that of the first.
///
/// Errors: `FANREAD_KEY_LENGTH`; `FANREAD_NO_TABLE` for a value of another length; `FANREAD_TOO_LONG`,
/// `FANREAD_OUT_OF_MEMORY`, `FANREAD_IO`. The builder is as it was then. A key that is there twice is found by
/// `fanread_table_builder_finish`.
/// Ownership: the builder keeps copies. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_builder_insert(
    builder: *mut fanread_table_builder,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (builder, key, value) = unsafe {
            let builder = handle::lend_mut::<Builder>(builder)?;
            (
                builder,
                handle::bytes(key, key_len, "the key")?,
                handle::bytes(value, value_len, "the value")?,
            )
        };
        builder.0.insert(key, value)?;
        Ok(FANREAD_OK)
    })
}

/// Stores how many entries a builder has.
///
/// Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_builder_len(
    builder: *const fanread_table_builder,
    len: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (builder, len) =
            unsafe { (handle::lend::<Builder>(builder)?, handle::out(len, "len")?) };
        len.set(builder.0.len());
        Ok(FANREAD_OK)
    })
}

/// Writes the table to a file, which is at `path` only when it is complete. The entries stay.
///
/// Errors: `FANREAD_NO_TABLE` if there is no entry or a key is there twice; `FANREAD_ARGUMENT` for
/// options that cannot be; `FANREAD_OUT_OF_MEMORY`, `FANREAD_IO`. What was at `path` is still there
/// then. Threads: one at a time.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_builder_finish(
    builder: *mut fanread_table_builder,
    path: *const c_char,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (builder, path) =
            unsafe { (handle::lend_mut::<Builder>(builder)?, handle::path(path)?) };
        builder.0.finish_file(path)?;
        Ok(FANREAD_OK)
    })
}

/// Reads a table into memory. From then on it does not matter what becomes of the file.
///
/// Errors: `FANREAD_IO`, `FANREAD_DAMAGED`, `FANREAD_OUT_OF_MEMORY`; `*table` is NULL then.
/// Ownership: the caller frees it by `fanread_table_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_open(
    path: *const c_char,
    table: *mut *mut fanread_table,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (out, path) = unsafe { (handle::made(table)?, handle::path(path)?) };
        handle::give(Table(CuckooTable::open(path)?), out);
        Ok(FANREAD_OK)
    })
}

/// Frees a table. NULL is nothing to free.
///
/// Threads: one, while no other uses the table or what it lent.
///
/// # Safety
///
/// `table` is NULL or a table that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_free(table: *mut fanread_table) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        drop(unsafe { handle::take::<Table>(table)? });
        Ok(FANREAD_OK)
    })
}

/// Stores what a table tells about itself.
///
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_get_stats(
    table: *const fanread_table,
    stats: *mut fanread_table_stats,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (table, out) = unsafe { (handle::lend::<Table>(table)?, handle::out(stats, "stats")?) };
        let stats = table.0.stats();
        out.set(fanread_table_stats {
            entries: stats.entries,
            key_len: stats.key_bytes,
            value_len: stats.value_bytes,
            buckets: stats.buckets,
            hashes: stats.hashes,
            file_bytes: stats.file_bytes,
        });
        Ok(FANREAD_OK)
    })
}

/// Stores where the value of a key is. `value` may be NULL, to ask only whether there is one.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` also for a key of another length than the table's.
/// Ownership: the table's. The bytes are valid until it is freed. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_get(
    table: *const fanread_table,
    key: *const c_void,
    key_len: usize,
    value: *mut fanread_bytes,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (table, key, out) = unsafe {
            let key = handle::bytes(key, key_len, "the key")?;
            (handle::lend::<Table>(table)?, key, handle::maybe_out(value, "value")?)
        };
        let value = table.0.get(key);
        if let (Some(out), Some(value)) = (out, value) {
            out.set(fanread_bytes::of(value));
        }
        Ok(found(value.is_some()))
    })
}

/// Looks for many keys at once, which takes a fraction of the time of as many single calls.
/// `values[i]` says where the value of key `i` is; its `data` is NULL if there is none.
///
/// `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
/// Ownership: arrays are the caller's, of `count` items each; bytes are the table's, and valid
/// until it is freed. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_get_batch(
    table: *const fanread_table,
    keys: *const fanread_bytes,
    count: usize,
    values: *mut fanread_bytes,
    hits: *mut usize,
) -> fanread_status {
    /// Keys at a time: several times as many as a table keeps in flight.
    const CHUNK: usize = 128;
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (table, keys, values, hits) = unsafe {
            let keys = bytes_array(keys, count, "the keys")?;
            let values = handle::out_array(values, count, "values")?;
            (handle::lend::<Table>(table)?, keys, values, handle::maybe_out(hits, "hits")?)
        };
        let mut all = 0;
        for (part, values) in values.chunks_mut(CHUNK).enumerate() {
            let mut some: [&[u8]; CHUNK] = [&[]; CHUNK];
            let mut answers = [None; CHUNK];
            let (some, answers) = (&mut some[..values.len()], &mut answers[..values.len()]);
            for (index, key) in (part * CHUNK..).zip(&mut *some) {
                *key = keys.at(index);
            }
            table.0.get_batch(some, answers);
            for (value, answer) in values.iter_mut().zip(answers) {
                all += usize::from(answer.is_some());
                value.write(answer.map_or(fanread_bytes::NONE, fanread_bytes::of));
            }
        }
        if let Some(hits) = hits {
            hits.set(all);
        }
        Ok(FANREAD_OK)
    })
}

/// Visits the entries from key `from` on, up to but without key `to`, in the order of keys; NULL
/// for either end of the table.
///
/// Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no such entry. The first scan of a table sorts it.
/// Errors: `FANREAD_NULL` also if there is no `visit`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for, and `visit` takes `context`, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_scan(
    table: *const fanread_table,
    from: *const c_void,
    from_len: usize,
    to: *const c_void,
    to_len: usize,
    visit: fanread_visit,
    context: *mut c_void,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let (table, start, end) = unsafe {
            let start = handle::bytes(from, from_len, "from")?;
            (handle::lend::<Table>(table)?, start, handle::bytes(to, to_len, "to")?)
        };
        let visit = visit.ok_or_else(|| Fault::null("visit"))?;
        let start = if from.is_null() { Bound::Unbounded } else { Bound::Included(start) };
        let end = if to.is_null() { Bound::Unbounded } else { Bound::Excluded(end) };
        let mut any = false;
        for (key, value) in table.0.range((start, end)) {
            any = true;
            // SAFETY: the caller promises that it takes its context, and returns.
            if unsafe { visit(context, fanread_bytes::of(key), fanread_bytes::of(value)) } != 0 {
                break;
            }
        }
        Ok(if any { FANREAD_OK } else { FANREAD_NOT_FOUND })
    })
}

/// Looks at all of a table, and finds damage that lookups would not notice.
///
/// Returns `FANREAD_OK`, or `FANREAD_DAMAGED`. Threads: any.
///
/// # Safety
///
/// `table` is NULL or a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_table_check(table: *const fanread_table) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        let table = unsafe { handle::lend::<Table>(table)? };
        match table.0.check() {
            Ok(()) => Ok(FANREAD_OK),
            Err(broken) => Err(Fault::new(FANREAD_DAMAGED, broken.to_string())),
        }
    })
}
