//! Pins that a thread holds for many calls.
//!
//! Each call on a map pins the thread for its own time, with a fence, which a lookup that has to wait for no memory feels. While the
//! thread holds a pin already, that is a counter's step. So a guard makes all calls of its thread cheaper, on whichever
//! maps, and no call needs to be given it.
//!
//! The epochs are those of the process, not of a map: what is pinned here is a map that nobody sees, and stays empty.
//!
//! # Invariants
//!
//! * **P1** A guard's `pinned` is touched by the thread whose number is `thread` alone. No two threads ever have the same number.
//!
//! `tests/c/pins.c` calls them from their thread and from another one.

use std::cell::{Cell, RefCell};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fanread::{U64Map, u64_map};

use crate::error::fanread_status::{FANREAD_HANDLE, FANREAD_OK};
use crate::error::{Fault, fanread_status};
use crate::handle::{self, Handle};
use crate::panic::border;

/// Keeps its thread pinned: memory that any map of the process gives up meanwhile is not used again, and calls of the thread
/// on maps need not see to it one by one. Of one thread, which alone may use it.
#[derive(Debug)]
pub struct fanread_guard {
    _opaque: [u8; 0],
}

static EMPTY: LazyLock<U64Map<u64>> = LazyLock::new(U64Map::new);

pub(crate) struct Guard {
    /// The number of the thread that made it.
    thread: u64,
    /// A cell: another thread may look at `thread` meanwhile.
    pinned: RefCell<u64_map::Pinned<'static, u64>>,
}

impl Handle for Guard {
    type Face = fanread_guard;
    const TAG: u64 = u64::from_le_bytes(*b"fan pin\n");
    const NAME: &'static str = "guard";
}

thread_local! {
    // No destructor: it is there until the very end of the thread, where programs let go of what threads had.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// This thread's number, which is not 0, and no other thread's, not even after its end.
fn thread_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    NUMBER.with(|number| {
        if number.get() == 0 {
            // Relaxed: only that numbers differ matters.
            number.set(LAST.fetch_add(1, Relaxed) + 1);
        }
        number.get()
    })
}

/// Lends a guard to its own thread, and to no other.
///
/// # Safety
///
/// As for `handle::lend`.
unsafe fn lend<'a>(guard: *const fanread_guard) -> Result<&'a Guard, Fault> {
    // SAFETY: the caller's promise is the same.
    let guard = unsafe { handle::lend::<Guard>(guard)? };
    if guard.thread == thread_number() {
        Ok(guard)
    } else {
        Err(Fault::new(FANREAD_HANDLE, "a guard of another thread"))
    }
}

/// Pins this thread, until `fanread_unpin`. Independent lookups take up to half of their time for the pin that each of them is otherwise;
/// a thread that makes many calls in a row saves that.
///
/// Nobody waits for a thread that is pinned, but memory that maps give up is not used again as long as it is. So call
/// `fanread_repin` every few hundred calls, and let go of the guard before the thread waits, sleeps or ends: one that is never let go of
/// keeps such memory until the process ends. Pins may be nested, within a function of a scan too.
///
/// Errors: see `fanread_status`; `*guard` is NULL then.
/// Ownership: this thread's, which lets go of it by `fanread_unpin`. What calls return is valid as long as their comments say, pinned or not.
/// Threads: any; the guard is for this one alone.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_pin(guard: *mut *mut fanread_guard) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        let out = unsafe { handle::made(guard)? };
        let pinned = RefCell::new(EMPTY.pin());
        handle::give(Guard { thread: thread_number(), pinned }, out);
        Ok(FANREAD_OK)
    })
}

/// Lets go of a pin and takes it again: memory that was given up before can be used again. It costs some nanoseconds, and
/// does nothing if the thread has another pin, which a scan is as long as it runs.
///
/// Errors: `FANREAD_HANDLE` also if the guard is of another thread.
/// Threads: the one that made the guard.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_repin(guard: *mut fanread_guard) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it.
        unsafe { lend(guard)? }.pinned.borrow_mut().repin();
        Ok(FANREAD_OK)
    })
}

/// Lets go of a pin, and frees the guard. NULL is nothing to free. Guards of a thread may go in any order.
///
/// Errors: `FANREAD_HANDLE` also if the guard is of another thread; it is not freed then.
/// Threads: the one that made the guard, even while it ends.
///
/// # Safety
///
/// `guard` is NULL or a guard that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_unpin(guard: *mut fanread_guard) -> fanread_status {
    border(|| {
        if !guard.is_null() {
            // SAFETY: the caller promises it.
            unsafe { lend(guard)? };
        }
        // SAFETY: the caller promises it, and the guard is this thread's (P1).
        drop(unsafe { handle::take::<Guard>(guard)? });
        Ok(FANREAD_OK)
    })
}
