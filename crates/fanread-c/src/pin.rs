//! Pins that a thread holds for many calls.
//!
//! Each call on a map pins the thread for its own time, with a fence. While the thread holds a pin already, that is a counter's
//! step: a guard makes all calls of its thread cheaper, on whichever maps, and no call needs to be given it. Lookups
//! through a map of the guard (`held.rs`) do not even count.
//!
//! The epochs are those of the process, not of a map: what a guard pins is a map that nobody sees, and stays empty.
//!
//! # Invariants
//!
//! * **P1** A guard and its maps are changed and dropped by the thread whose mark is `thread` alone.
//!
//! `tests/c/pins.c` calls everything here from its thread and from another one.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use fanread::{U64Map, u64_map};

use crate::error::fanread_status::{FANREAD_HANDLE, FANREAD_OK};
use crate::error::{Fault, fanread_status};
use crate::face::{Held, Map};
use crate::handle::{self, Handle};
use crate::map::{Shared, fanread_map};
use crate::panic::border;

/// Keeps its thread pinned: memory that any map of the process gives up meanwhile is not used again, and calls of the thread
/// on maps need not see to it one by one. Of one thread, which alone may use it.
#[derive(Debug)]
pub struct fanread_guard {
    _opaque: [u8; 0],
}

static EMPTY: LazyLock<U64Map<u64>> = LazyLock::new(U64Map::new);

pub(crate) struct Guard {
    /// The mark of the thread that made it. Another one may look at this, and at nothing else (P1).
    thread: usize,
    own: RefCell<Option<u64_map::Pinned<'static, u64>>>,
    maps: RefCell<Vec<HeldHandle>>,
}

/// A handle that the guard has given out, and what it is to.
struct HeldHandle {
    handle: *mut fanread_map,
    map: Arc<dyn Held>,
}

impl Handle for Guard {
    type Face = fanread_guard;
    const TAG: u64 = u64::from_le_bytes(*b"fan pin\n");
    const NAME: &'static str = "guard";
}

impl Guard {
    fn new() -> Self {
        let own = RefCell::new(Some(EMPTY.pin()));
        Self { thread: thread_mark(), own, maps: RefCell::default() }
    }

    /// Lets go of all pins, since only the last one counts, and takes them again.
    fn repin(&self) {
        let maps = self.maps.borrow();
        maps.iter().for_each(|held| held.map.unpin());
        let mut own = self.own.borrow_mut();
        drop(own.take());
        *own = Some(EMPTY.pin());
        maps.iter().for_each(|held| held.map.pin());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for HeldHandle { handle, .. } in self.maps.get_mut().drain(..) {
            // SAFETY: `fanread_guard_map` has made it, nothing else frees it, and the caller of `fanread_unpin` uses it no more.
            drop(unsafe { handle::take::<Shared>(handle) });
        }
    }
}

/// What tells this thread from all others that are running.
///
/// A call in a shared library would be the half of what a held map saves, hence the instruction.
#[inline]
pub(crate) fn thread_mark() -> usize {
    #[cfg(all(
        target_os = "linux",
        target_arch = "x86_64",
        target_pointer_width = "64",
        not(miri)
    ))]
    {
        let mark: usize;
        // SAFETY: reads the first word of the thread's own block. The ABI of the platform has the block's address there.
        unsafe {
            core::arch::asm!(
                "mov {}, fs:[0]", out(reg) mark, options(pure, readonly, nostack, preserves_flags)
            );
        }
        mark
    }
    #[cfg(not(all(
        target_os = "linux",
        target_arch = "x86_64",
        target_pointer_width = "64",
        not(miri)
    )))]
    {
        thread_local! {
            // No destructor: it is there until the very end of the thread, where programs let go of what threads had.
            static MARK: u8 = const { 0 };
        }
        MARK.with(|mark| core::ptr::from_ref(mark).addr())
    }
}

/// Lends a guard to its own thread, and to no other.
///
/// # Safety
///
/// As for `handle::lend`.
unsafe fn lend<'a>(guard: *const fanread_guard) -> Result<&'a Guard, Fault> {
    // SAFETY: the caller's promise is the same.
    let guard = unsafe { handle::lend::<Guard>(guard)? };
    if guard.thread == thread_mark() {
        Ok(guard)
    } else {
        Err(Fault::new(FANREAD_HANDLE, "a guard of another thread"))
    }
}

/// Pins this thread, until `fanread_unpin`. A call on a map pins it for as long as it takes, which is a good part of what a lookup or
/// insertion costs; a thread that makes many calls in a row can save that, for most in lookups by `fanread_guard_map`.
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
        handle::give(Guard::new(), out);
        Ok(FANREAD_OK)
    })
}

/// Lets go of a guard's pins and takes them again: memory that was given up before can be used again. It takes as long as a few
/// pins, and does nothing if the thread has another pin, of another guard or of a scan that is under way.
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
        unsafe { lend(guard)? }.repin();
        Ok(FANREAD_OK)
    })
}

/// Lets go of a guard's pins, and frees the guard with its maps. NULL is nothing to free. Guards of a thread may go in any order.
///
/// Errors: `FANREAD_HANDLE` also if the guard is of another thread; it is not freed then.
/// Threads: the one that made the guard, even while it ends; no other uses a map of the guard then.
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

/// Makes another handle of a map, through which lookups of the guard's thread take the pin that it holds: the fastest ones, where many
/// lookups go on that do not wait for each other. Make it once, and give it to calls in the place of the map.
///
/// It is the same map. All calls take the handle, but only `fanread_map_get`, `fanread_map_contains` and their batches, and those for
/// numbers and for values of bytes, are faster by it. Other threads may use it; they gain nothing.
///
/// Errors: `FANREAD_HANDLE` also if the guard is of another thread; `*held` is NULL then.
/// Ownership: the guard's. The handle is valid until `fanread_unpin`, which frees it, and keeps the map's entries until then, even if
/// the map is freed. Threads: the one that made the guard.
///
/// # Safety
///
/// Pointers are NULL or valid for what they are for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_guard_map(
    guard: *mut fanread_guard,
    map: *const fanread_map,
    held: *mut *const fanread_map,
) -> fanread_status {
    border(|| {
        // SAFETY: the caller promises it of every pointer.
        let out = unsafe { handle::made(held.cast::<*mut fanread_map>())? };
        // SAFETY: the caller promises it of every pointer.
        let (guard, Shared(map, kind)) = unsafe { (lend(guard)?, handle::lend::<Shared>(map)?) };
        let map = Arc::clone(map).hold();
        let shared: Arc<dyn Map> = map.clone();
        let handle = handle::new(Shared(shared, *kind));
        guard.maps.borrow_mut().push(HeldHandle { handle, map });
        out.set(handle);
        Ok(FANREAD_OK)
    })
}
