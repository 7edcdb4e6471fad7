//! What passes the border when something panics inside: a status and a message, for every call of a map.
//!
//! The sources of the crate are taken in here with maps that do nothing but panic in the place of ours.

#![expect(unsafe_code, reason = "calls what C would call")]
#![allow(non_camel_case_types, reason = "types have the names that they have in C")]
#![allow(clippy::missing_errors_doc, reason = "a fault says by itself what it is")]
#![allow(dead_code, reason = "not all that is taken in is tested here")]
#![allow(missing_docs, unreachable_pub, reason = "they are those of the crate")]

#[path = "../src/call.rs"]
mod call;
#[path = "../src/cursor.rs"]
mod cursor;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/face.rs"]
mod face;
#[path = "../src/handle.rs"]
mod handle;
#[path = "../src/held.rs"]
mod held;
#[path = "../src/map.rs"]
mod map;
#[path = "../src/map_bytes.rs"]
mod map_bytes;
#[path = "../src/map_u64.rs"]
mod map_u64;
#[path = "../src/panic.rs"]
mod panic;
#[path = "../src/pin.rs"]
mod pin;
#[path = "../src/scan.rs"]
mod scan;
#[path = "../src/store.rs"]
mod store;
#[path = "../src/table.rs"]
mod table;
#[path = "../src/u64_store.rs"]
mod u64_store;
#[path = "../src/value.rs"]
mod value;

/// In the place of the maps: one that panics.
mod index {
    use std::ops::Bound;
    use std::sync::Arc;

    use fanread::MemoryUsage;

    use crate::error::Fault;
    use crate::face::{Found, Held, Map, Place, Start, Take, Visit, fanread_kind};
    use crate::value::{Answers, Key, KeySlot, Keys, Kind, Slot, Value, Values};

    struct Panics;

    impl Map for Panics {
        fn values(&self) -> Kind {
            panic!("in values")
        }

        fn get(&self, _: Key<'_>, _: Slot<'_>) -> Result<bool, Fault> {
            panic!("in get")
        }

        fn contains(&self, _: Key<'_>) -> Result<bool, Fault> {
            panic!("in contains")
        }

        fn insert(&self, _: Key<'_>, _: Value<'_>, _: Slot<'_>) -> Result<bool, Fault> {
            panic!("in insert")
        }

        fn remove(&self, _: Key<'_>, _: Slot<'_>) -> Result<bool, Fault> {
            panic!("in remove")
        }

        fn replace(&self, _: Key<'_>, _: Value<'_>, _: Slot<'_>) -> Result<bool, Fault> {
            panic!("in replace")
        }

        fn get_or_insert(&self, _: Key<'_>, _: Value<'_>, _: Slot<'_>) -> Result<bool, Fault> {
            panic!("in get_or_insert")
        }

        fn compare_exchange(
            &self,
            _: Key<'_>,
            _: Value<'_>,
            _: Value<'_>,
            _: Slot<'_>,
        ) -> Result<Found, Fault> {
            panic!("in compare_exchange")
        }

        fn find(&self, _: Place<'_>, _: KeySlot<'_>, _: Slot<'_>) -> Result<bool, Fault> {
            panic!("in find")
        }

        fn get_batch(&self, _: Keys<'_>, answers: &mut Answers<'_>) -> Result<(), Fault> {
            // After the first answer, where bytes are wanted.
            if answers.kind() == Some(Kind::Bytes) {
                answers.put(0, [Some(Value::Bytes(b"v"))].into_iter())?;
            }
            panic!("in get_batch")
        }

        fn insert_batch(&self, _: Keys<'_>, _: Values<'_>) -> Result<(), Fault> {
            panic!("in insert_batch")
        }

        fn walk(&self, _: Bound<Key<'_>>, _: bool, _: &mut Visit<'_>) -> Result<(), Fault> {
            panic!("in walk")
        }

        fn walk_many(
            &self,
            _: Bound<Key<'_>>,
            _: bool,
            _: usize,
            _: &mut Take<'_>,
        ) -> Result<(), Fault> {
            panic!("in walk_many")
        }

        fn len(&self) -> usize {
            panic!("in len")
        }

        fn clear(&self) {
            panic!("in clear")
        }

        fn memory_usage(&self) -> MemoryUsage {
            panic!("in memory_usage")
        }

        fn hold(self: Arc<Self>) -> Arc<dyn Held> {
            panic!("in hold")
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in drop")
        }
    }

    #[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "as ours")]
    pub(crate) fn make(_: fanread_kind, begin: Start<'_>) -> Result<Arc<dyn Map>, Fault> {
        match begin {
            Start::Empty(..) => Ok(Arc::new(Panics)),
            Start::Sorted(..) => panic!("in from_sorted"),
        }
    }
}

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use cursor::*;
use error::fanread_status::{self, FANREAD_ARGUMENT, FANREAD_OK, FANREAD_PANIC};
use error::{Fault, fanread_last_error, fanread_status_message};
use handle::{fanread_buffer, fanread_bytes};
use map::*;
use map_bytes::*;
use map_u64::*;
use panic::border;
use pin::{fanread_guard_map, fanread_pin, fanread_repin, fanread_unpin};
use scan::{fanread_map_scan, fanread_map_scan_chunks, fanread_map_u64_scan_chunks};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

fn told() -> String {
    // SAFETY: the library's string, and nothing fails until it is read.
    unsafe { CStr::from_ptr(fanread_last_error()) }.to_str().unwrap().to_owned()
}

#[track_caller]
fn panicked(status: fanread_status, text: &str) {
    assert_eq!((status, told()), (FANREAD_PANIC, format!("in {text}")));
}

#[test]
fn a_panic_becomes_a_status_with_its_message() {
    assert_eq!(border(|| panic!("left {}", 7)), FANREAD_PANIC);
    assert_eq!(told(), "left 7");
    assert_eq!(border(|| panic!("plain")), FANREAD_PANIC);
    assert_eq!(told(), "plain");
}

#[test]
fn a_panic_whose_payload_panics_becomes_a_status() {
    assert_eq!(border(|| std::panic::panic_any(Bomb)), FANREAD_PANIC);
    assert_eq!(told(), "a panic without a message");
}

#[test]
fn a_message_with_a_nul_is_told() {
    assert_eq!(Fault::argument("a\0b").tell(), FANREAD_ARGUMENT);
    assert_eq!(told(), "a b");
}

#[test]
fn every_status_has_a_message_of_its_own() {
    // SAFETY: strings of the library, for ever.
    let text = |status| unsafe { CStr::from_ptr(fanread_status_message(status)) };
    let all: std::collections::HashSet<_> = (-16..=3).map(text).collect();
    assert_eq!(all.len(), 20);
    assert!(!all.contains(text(4)) && text(4) == text(-17));
}

#[test]
fn a_guard_outlives_a_panic_under_it() {
    let (mut map, mut guard) = (null_mut(), null_mut());
    // SAFETY: all pointers are to what they are for, and live to the end of the function.
    unsafe {
        assert_eq!(fanread_map_new(1, 1, null(), &raw mut map), FANREAD_OK);
        assert_eq!(fanread_pin(&raw mut guard), FANREAD_OK);
        panicked(fanread_map_u64_get(map, 1, null_mut()), "get");
        let mut held = null();
        panicked(fanread_guard_map(guard, map, &raw mut held), "hold");
        assert!(held.is_null());
        assert_eq!(fanread_repin(guard), FANREAD_OK);
        panicked(fanread_map_free(map), "drop");
        assert_eq!(fanread_unpin(guard), FANREAD_OK);
    }
}

extern "C" fn visit(_: *mut core::ffi::c_void, _: fanread_bytes, _: u64) -> i32 {
    0
}

extern "C" fn visit_some(
    _: *mut core::ffi::c_void,
    _: *const fanread_bytes,
    _: *const u64,
    _: usize,
) -> i32 {
    0
}

extern "C" fn visit_numbers(
    _: *mut core::ffi::c_void,
    _: *const u64,
    _: *const u64,
    _: usize,
) -> i32 {
    0
}

#[test]
fn no_panic_of_a_map_crosses_the_border() {
    let (key, len) = (b"k".as_ptr().cast::<core::ffi::c_void>(), 1);
    let mut number = 0;
    let out = &raw mut number;
    let keys = [fanread_bytes { data: key.cast(), len }];
    let mut values = [fanread_bytes { data: null(), len: 9 }];
    let mut room = fanread_buffer { data: null_mut(), len: 0, capacity: 0 };
    let room = &raw mut room;
    let (numbers, mut founds) = ([1_u64], [0_u8]);
    let mut map = null_mut();
    let mut cursor = null_mut();
    // SAFETY: all pointers are to what they are for, and live to the end of the function.
    unsafe {
        assert_eq!(fanread_map_new(1, 1, null(), &raw mut map), FANREAD_OK);
        panicked(fanread_map_get(map, key, len, out), "get");
        panicked(fanread_map_contains(map, key, len), "contains");
        panicked(fanread_map_insert(map, key, len, 1, out), "insert");
        panicked(fanread_map_remove(map, key, len, out), "remove");
        panicked(fanread_map_replace(map, key, len, 1, out), "replace");
        panicked(fanread_map_get_or_insert(map, key, len, 1, out), "get_or_insert");
        panicked(fanread_map_compare_exchange(map, key, len, 1, 2, out), "compare_exchange");
        panicked(fanread_map_find(map, 1, key, len, room, out), "find");
        let (k, f) = (keys.as_ptr(), founds.as_mut_ptr());
        panicked(fanread_map_get_batch(map, k, 1, out, f, null_mut()), "get_batch");
        panicked(fanread_map_contains_batch(map, k, 1, f, null_mut()), "get_batch");
        panicked(fanread_map_insert_batch(map, k, numbers.as_ptr(), 1), "insert_batch");
        panicked(fanread_map_get_bytes(map, key, len, room), "get");
        panicked(fanread_map_insert_bytes(map, key, len, key, len, room), "insert");
        panicked(fanread_map_remove_bytes(map, key, len, room), "remove");
        panicked(fanread_map_replace_bytes(map, key, len, key, len, room), "replace");
        panicked(fanread_map_get_or_insert_bytes(map, key, len, key, len, room), "get_or_insert");
        panicked(
            fanread_map_compare_exchange_bytes(map, key, len, key, len, key, len, room),
            "compare_exchange",
        );
        panicked(fanread_map_find_bytes(map, 1, key, len, room, null_mut()), "find");
        let v = values.as_mut_ptr();
        panicked(fanread_map_get_batch_bytes(map, k, 1, v, room, null_mut()), "get_batch");
        assert_eq!((values[0].data, values[0].len), (null(), 9), "no answer of a call that failed");
        panicked(fanread_map_insert_batch_bytes(map, k, k, 1), "insert_batch");
        let n = numbers.as_ptr();
        panicked(fanread_map_u64_get(map, 1, out), "get");
        panicked(fanread_map_u64_contains(map, 1), "contains");
        panicked(fanread_map_u64_insert(map, 1, 1, out), "insert");
        panicked(fanread_map_u64_remove(map, 1, out), "remove");
        panicked(fanread_map_u64_replace(map, 1, 1, out), "replace");
        panicked(fanread_map_u64_get_or_insert(map, 1, 1, out), "get_or_insert");
        panicked(fanread_map_u64_compare_exchange(map, 1, 1, 2, out), "compare_exchange");
        panicked(fanread_map_u64_find(map, 1, 1, out, null_mut()), "find");
        panicked(fanread_map_u64_get_batch(map, n, 1, out, f, null_mut()), "get_batch");
        panicked(fanread_map_u64_contains_batch(map, n, 1, f, null_mut()), "get_batch");
        panicked(fanread_map_u64_insert_batch(map, n, n, 1), "insert_batch");
        panicked(fanread_map_u64_get_bytes(map, 1, room), "get");
        panicked(fanread_map_u64_insert_bytes(map, 1, key, len, room), "insert");
        panicked(fanread_map_u64_remove_bytes(map, 1, room), "remove");
        panicked(fanread_map_u64_replace_bytes(map, 1, key, len, room), "replace");
        panicked(fanread_map_u64_get_or_insert_bytes(map, 1, key, len, room), "get_or_insert");
        panicked(
            fanread_map_u64_compare_exchange_bytes(map, 1, key, len, key, len, room),
            "compare_exchange",
        );
        panicked(fanread_map_u64_find_bytes(map, 1, 1, out, room), "find");
        panicked(fanread_map_u64_get_batch_bytes(map, n, 1, v, room, null_mut()), "get_batch");
        panicked(fanread_map_u64_insert_batch_bytes(map, n, k, 1), "insert_batch");
        let mut made = map;
        panicked(fanread_map_from_sorted(1, k, n, 1, &raw mut made), "from_sorted");
        assert!(made.is_null());
        panicked(fanread_map_from_sorted_bytes(1, k, k, 1, &raw mut made), "from_sorted");
        panicked(fanread_map_u64_from_sorted(1, n, n, 1, &raw mut made), "from_sorted");
        panicked(fanread_map_u64_from_sorted_bytes(1, n, k, 1, &raw mut made), "from_sorted");
        let (mut kind, mut of) = (0, 0);
        panicked(fanread_map_kind(map, &raw mut kind, &raw mut of), "values");
        let mut count = 0;
        panicked(fanread_map_len(map, &raw mut count), "len");
        panicked(fanread_map_clear(map), "clear");
        let mut usage = core::mem::MaybeUninit::uninit();
        panicked(fanread_map_memory_usage(map, usage.as_mut_ptr()), "memory_usage");
        assert_eq!(fanread_cursor_new(map, &raw mut cursor), FANREAD_OK);
        panicked(fanread_cursor_seek(cursor, 3, key, len), "walk");
        panicked(fanread_cursor_u64_seek(cursor, 3, 1), "walk");
        panicked(fanread_cursor_seek_first(cursor), "walk");
        panicked(fanread_cursor_seek_last(cursor), "walk");
        panicked(fanread_cursor_next(cursor), "walk");
        panicked(fanread_map_scan(map, 1, key, len, Some(visit), null_mut()), "values");
        panicked(
            fanread_map_scan_chunks(map, 1, key, len, 1, Some(visit_some), null_mut()),
            "walk_many",
        );
        panicked(
            fanread_map_u64_scan_chunks(map, 1, 1, 1, Some(visit_numbers), null_mut()),
            "walk_many",
        );
        assert_eq!(fanread_map_free(map), FANREAD_OK);
        // The last that holds the map.
        panicked(fanread_cursor_free(cursor), "drop");
    }
}
