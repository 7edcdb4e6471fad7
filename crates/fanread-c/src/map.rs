//! Maps: how they are made and what they are. `map_bytes.rs` has the calls with keys of bytes,
//! `map_u64.rs` those with numbers.

use core::ffi::{CStr, c_char};
use std::sync::Arc;

use fanread::{MemoryUsage, Options};

use crate::error::fanread_status::{FANREAD_HANDLE, FANREAD_OK, FANREAD_UNKNOWN_KIND};
use crate::error::{Fault, fanread_status};
use crate::face::fanread_kind;
use crate::face::{Map, Start};
use crate::handle::{self, Handle, Out};
use crate::index;
use crate::panic::border;
use crate::value::Kind;

/// A map. Any number of threads may use it at once, through all functions but `fanread_map_free`.
#[derive(Debug)]
pub struct fanread_map {
    _opaque: [u8; 0],
}

pub(crate) struct Shared(pub(crate) Arc<dyn Map>, pub(crate) fanread_kind);

impl Handle for Shared {
    type Face = fanread_map;
    const TAG: u64 = u64::from_le_bytes(*b"fan map\n");
    const NAME: &'static str = "map";
}

/// What a map keeps as values.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum fanread_values {
    /// Numbers, which lie where the lookup already is. Functions without `_bytes` at the end of
    /// their name are for these.
    FANREAD_U64_VALUES = 1,
    /// Byte strings of any length. Functions with `_bytes` at the end of their name are for these. In an ordered map they lie
    /// behind their keys, up to 1 KB; in maps of other kinds a lookup waits twice more for one.
    FANREAD_BYTES_VALUES = 2,
}

/// How a map is made. All zero is as good as none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fanread_options {
    /// How many prefix lengths a search of an ordered map, wormhole or cuckoo trie probes at once;
    /// 0 for what suits current machines.
    pub probe_width: u32,
    /// Not 0: `seed` is the seed of the map's hash function, so that two runs lay out memory alike.
    /// Whoever knows it can prepare keys that collide. 0: the seed is random.
    pub has_seed: u32,
    /// See above.
    pub seed: u64,
    /// For how many entries a u64 map or ordered map has room made by its first insertion, so that
    /// later ones copy no part of it; other kinds take no notice. 0: it grows from the beginning.
    pub capacity: u64,
}

/// What a map takes in memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names, reason = "units are in the names")]
pub struct fanread_memory {
    /// All of it.
    pub total_bytes: u64,
    /// Keys or references to them, and their order.
    pub leaf_bytes: u64,
    /// Keys and values that are elsewhere.
    pub record_bytes: u64,
    /// The table by which they are found.
    pub table_bytes: u64,
    /// Bytes of these that hold nothing now and will be used again.
    pub idle_bytes: u64,
}

/// Where an entry is looked for: at an end of the map, or next to a key.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum fanread_place {
    /// The entry with the smallest key. The key given is not looked at.
    FANREAD_FIRST = 1,
    /// The entry with the largest key. The key given is not looked at.
    FANREAD_LAST = 2,
    /// The first entry whose key is the one given or above it: the lower bound.
    FANREAD_AT_OR_ABOVE = 3,
    /// The first entry whose key is above the one given.
    FANREAD_ABOVE = 4,
    /// The last entry whose key is the one given or below it: the upper bound.
    FANREAD_AT_OR_BELOW = 5,
    /// The last entry whose key is below the one given.
    FANREAD_BELOW = 6,
}

use fanread_kind::{
    FANREAD_CUCKOO_TRIE, FANREAD_MLP_INDEX, FANREAD_ORDERED_MAP, FANREAD_SKIP_LIST,
    FANREAD_U64_MAP, FANREAD_WORMHOLE,
};

const KINDS: [(fanread_kind, &CStr); 6] = [
    (FANREAD_ORDERED_MAP, c"ordered-map"),
    (FANREAD_U64_MAP, c"u64-map"),
    (FANREAD_WORMHOLE, c"wormhole"),
    (FANREAD_CUCKOO_TRIE, c"cuckoo-trie"),
    (FANREAD_MLP_INDEX, c"mlp-index"),
    (FANREAD_SKIP_LIST, c"skip-list"),
];

/// The kind of a number; any number may come from C.
pub(crate) fn kind_of(number: i32) -> Result<fanread_kind, Fault> {
    let found = KINDS.iter().find(|(kind, _)| *kind as i32 == number);
    found
        .map(|(kind, _)| *kind)
        .ok_or_else(|| Fault::new(FANREAD_UNKNOWN_KIND, format!("{number} is not a kind of map")))
}

fn kind_of_name(name: &CStr) -> Result<fanread_kind, Fault> {
    let found = KINDS.iter().find(|(_, known)| *known == name);
    found.map(|(kind, _)| *kind).ok_or_else(|| {
        let name = name.to_string_lossy();
        Fault::new(FANREAD_UNKNOWN_KIND, format!("{name:?} is not the name of a kind of map"))
    })
}

fn values_of(number: i32) -> Result<Kind, Fault> {
    match number {
        1 => Ok(Kind::Numbers),
        2 => Ok(Kind::Bytes),
        _ => Err(Fault::new(FANREAD_UNKNOWN_KIND, format!("{number} is not a kind of values"))),
    }
}

/// The options of C.
///
/// # Safety
///
/// `options` is NULL, misaligned, or points to options that nobody writes to meanwhile.
unsafe fn options_of(options: *const fanread_options) -> Result<Options, Fault> {
    let mut made = Options::new();
    if options.is_null() {
        return Ok(made);
    }
    // SAFETY: the caller's promise is the same.
    let [given] = (unsafe { handle::array(options, 1, "the options")? }) else { return Ok(made) };
    if given.probe_width != 0 {
        made = made.probe_width(given.probe_width);
    }
    if given.has_seed != 0 {
        made = made.seed(given.seed);
    }
    Ok(made.capacity(usize::try_from(given.capacity).unwrap_or(usize::MAX)))
}

/// Makes an empty map of a kind, or of the kind that `kind` returns.
pub(crate) fn make(
    kind: fanread_kind,
    begin: Start<'_>,
    out: Out<'_, *mut fanread_map>,
) -> Result<fanread_status, Fault> {
    handle::give(Shared(index::make(kind, begin)?, kind), out);
    Ok(FANREAD_OK)
}

/// Makes an empty map, which takes no memory but the handle's.
///
/// `kind` is one of `fanread_kind`, `values` one of `fanread_values`; `options` may be NULL.
///
/// Errors: `FANREAD_UNKNOWN_KIND`. `*map` is NULL then.
/// Ownership: the caller frees the map by `fanread_map_free`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_new(
    kind: i32,
    values: i32,
    options: *const fanread_options,
    map: *mut *mut fanread_map,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        let (out, options) = unsafe { (handle::made(map)?, options_of(options)?) };
        make(kind_of(kind)?, Start::Empty(values_of(values)?, options), out)
    })
}

/// Makes an empty map of the kind of a name, such as "ordered-map"; otherwise as `fanread_map_new`.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_new_named(
    kind: *const c_char,
    values: i32,
    options: *const fanread_options,
    map: *mut *mut fanread_map,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        let (out, options) = unsafe { (handle::made(map)?, options_of(options)?) };
        // SAFETY: the caller's promise.
        let name = unsafe { handle::text(kind, "the name")? };
        make(kind_of_name(name)?, Start::Empty(values_of(values)?, options), out)
    })
}

/// Frees a map. NULL is nothing to free. Cursors stay, and keep the memory until they are freed too.
///
/// Errors: `FANREAD_HANDLE` also if it is a map of a guard, which frees it.
/// Threads: one, while no other uses the map.
///
/// # Safety
///
/// `map` is NULL or a map that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_free(map: *mut fanread_map) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        if !map.is_null() && unsafe { handle::lend::<Shared>(map)? }.0.itself().is_some() {
            return Err(Fault::new(FANREAD_HANDLE, "a map of a guard, which frees it"));
        }
        // SAFETY: the caller's promise.
        drop(unsafe { handle::take::<Shared>(map)? });
        Ok(FANREAD_OK)
    })
}

/// Stores which kind a map is, one of `fanread_kind`, and what its values are, one of `fanread_values`.
///
/// `kind` and `values` may be NULL. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_kind(
    map: *const fanread_map,
    kind: *mut i32,
    values: *mut i32,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        let Shared(map, its_kind) = unsafe { handle::lend::<Shared>(map)? };
        // SAFETY: the caller's promise.
        let (kind, values) =
            unsafe { (handle::maybe_out(kind, "kind")?, handle::maybe_out(values, "values")?) };
        if let Some(kind) = kind {
            kind.set(*its_kind as i32);
        }
        if let Some(values) = values {
            values.set(match map.values() {
                Kind::Numbers => fanread_values::FANREAD_U64_VALUES as i32,
                Kind::Bytes => fanread_values::FANREAD_BYTES_VALUES as i32,
            });
        }
        Ok(FANREAD_OK)
    })
}

/// Stores which kind has a name, such as "ordered-map".
///
/// Errors: `FANREAD_UNKNOWN_KIND`. Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_kind_of_name(
    name: *const c_char,
    kind: *mut i32,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        let (name, kind) = unsafe { (handle::text(name, "the name")?, handle::out(kind, "kind")?) };
        kind.set(kind_of_name(name)? as i32);
        Ok(FANREAD_OK)
    })
}

/// Returns the name of a kind, such as "ordered-map"; NULL if there is no such kind.
///
/// Ownership: the library's, for ever. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fanread_kind_name(kind: i32) -> *const c_char {
    let found = KINDS.iter().find(|(known, _)| *known as i32 == kind);
    found.map_or(core::ptr::null(), |(_, name)| name.as_ptr())
}

/// Stores how many entries a map has. Exact when nobody writes meanwhile.
///
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_len(
    map: *const fanread_map,
    len: *mut usize,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        let (map, len) = unsafe { (handle::lend::<Shared>(map)?, handle::out(len, "len")?) };
        len.set(map.0.len());
        Ok(FANREAD_OK)
    })
}

/// Removes all entries, one by one. An entry that another thread inserts meanwhile may stay.
///
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_clear(map: *const fanread_map) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        unsafe { handle::lend::<Shared>(map)? }.0.clear();
        Ok(FANREAD_OK)
    })
}

/// Stores what a map takes in memory.
///
/// Threads: any.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_map_memory_usage(
    map: *const fanread_map,
    usage: *mut fanread_memory,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        let (map, out) = unsafe { (handle::lend::<Shared>(map)?, handle::out(usage, "usage")?) };
        let usage = map.0.memory_usage();
        out.set(fanread_memory {
            total_bytes: usage.total_bytes() as u64,
            leaf_bytes: usage.leaf_bytes as u64,
            record_bytes: usage.record_bytes as u64,
            table_bytes: usage.table_bytes as u64,
            idle_bytes: usage.idle_bytes as u64,
        });
        Ok(FANREAD_OK)
    })
}

/// Stores how many bytes of the whole process are on huge pages; `UINT64_MAX` if the system does not say. The kernel walks all page
/// tables of the process for it: some 50 ms for each GB that lies on small pages.
///
/// Threads: any.
///
/// # Safety
///
/// The pointer is NULL or valid for what it is for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_process_huge_page_bytes(bytes: *mut u64) -> fanread_status {
    border(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { handle::out(bytes, "bytes")? };
        out.set(MemoryUsage::process_huge_page_bytes().unwrap_or(u64::MAX));
        Ok(FANREAD_OK)
    })
}
