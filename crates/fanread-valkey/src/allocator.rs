//! The allocator of the process that the module is loaded into, for all that the module allocates: only so does `maxmemory` see it.
//!
//! The server's memory is aligned to 8 bytes by promise. A block of whole cache lines from jemalloc, which servers have unless
//! they were built otherwise, is aligned to a line all the same, so blocks of a higher alignment are taken and looked at: room
//! to align them by hand would put most of them into the next size class, a fourth larger. Those that are not aligned are taken
//! again with such room, and a list says where each of them began. A child of the server's needs that list too, so nobody has it
//! locked when the server forks: the thread that frees maps is not in the child, and would never unlock it.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use valkey_module::raw;

/// What the server's allocator aligns to.
const ALIGN: usize = 8;

/// The server's allocator.
pub(crate) struct ServerAlloc;

/// Where what was taken for each block with room in front of it began, by the address of the block.
static MOVED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// How many of these there are: none, as a rule, and nobody need look.
static MOVED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The list of moved blocks. It allocates what is aligned to 8 bytes, so it is not asked for again while somebody has it.
fn moved() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    MOVED.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The list while this thread forks.
    static HELD: Cell<Option<MutexGuard<'static, BTreeMap<usize, usize>>>> = const { Cell::new(None) };
}

/// From how many bytes on there is no memory, as a test may want it. Set by a command; builds for users do not look at it.
pub(crate) static SCARCE_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);

unsafe extern "C" {
    safe fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
}

extern "C" fn hold() {
    HELD.set(Some(moved()));
}

extern "C" fn let_go() {
    HELD.set(None);
}

/// Has the list unlocked in whatever is forked from now on; `false` if there is no memory for that. Called once.
pub(crate) fn unlock_in_children() -> bool {
    pthread_atfork(Some(hold), Some(let_go), Some(let_go)) == 0
}

/// Allocates; null if there is no memory, or if the server has not yet said how.
///
/// # Safety
///
/// As `malloc`: what it gives is not initialised.
unsafe fn take(bytes: usize) -> *mut u8 {
    // Relaxed: set and looked at by the thread that runs commands.
    if cfg!(debug_assertions) && bytes >= SCARCE_FROM.load(Relaxed) {
        return ptr::null_mut();
    }
    // SAFETY: the table of functions is written once, while the module is loaded, before anything is allocated.
    unsafe {
        match (raw::RedisModule_TryAlloc, raw::RedisModule_Alloc) {
            (Some(alloc), _) | (None, Some(alloc)) => alloc(bytes).cast(),
            (None, None) => ptr::null_mut(),
        }
    }
}

/// The same, of zeros. Large blocks come from the kernel as such, and to clear them would stall the server; so they are taken in
/// the way in which a server takes its own, that ends when the kernel has no more addresses for it.
///
/// # Safety
///
/// As `calloc`.
unsafe fn take_zeroed(bytes: usize) -> *mut u8 {
    // SAFETY: as in `take`.
    unsafe {
        match raw::RedisModule_Calloc {
            Some(calloc) => calloc(1, bytes).cast(),
            None => ptr::null_mut(),
        }
    }
}

/// Gives back what the server's allocator gave.
///
/// # Safety
///
/// Once, and nobody uses it any more.
unsafe fn give_back(at: *mut u8) {
    // SAFETY: `at` is what the server's allocator gave, so the table is there; see `take`.
    unsafe {
        if let Some(free) = raw::RedisModule_Free {
            free(at.cast());
        }
    }
}

/// Aligns what one of the functions above takes.
///
/// # Safety
///
/// As that function.
unsafe fn aligned(layout: Layout, take: unsafe fn(usize) -> *mut u8) -> *mut u8 {
    let align = layout.align();
    if align <= ALIGN {
        // SAFETY: the caller's promise.
        return unsafe { take(layout.size()) };
    }
    let Some(bytes) = layout.size().checked_next_multiple_of(align) else { return ptr::null_mut() };
    let Some(with_room) = bytes.checked_add(align) else { return ptr::null_mut() };
    // SAFETY: as above; what is given back was just taken.
    let taken = unsafe {
        let at = take(bytes);
        if at.addr().is_multiple_of(align) {
            return at;
        }
        give_back(at);
        take(with_room)
    };
    if taken.is_null() {
        return taken;
    }
    let at = taken.map_addr(|addr| addr.next_multiple_of(align));
    moved().insert(at.addr(), taken.expose_provenance());
    // Relaxed: who frees the block has its address from who took it, and the count along with that.
    MOVED_COUNT.fetch_add(1, Relaxed);
    at
}

// SAFETY: the server's functions are those of malloc; of a block that was moved, the list has the address that they know.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { aligned(layout, take) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { aligned(layout, take_zeroed) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let mut taken = at;
        // Relaxed: as above.
        if layout.align() > ALIGN
            && MOVED_COUNT.load(Relaxed) > 0
            && let Some(address) = moved().remove(&at.addr())
        {
            MOVED_COUNT.fetch_sub(1, Relaxed);
            taken = ptr::with_exposed_provenance_mut(address);
        }
        // SAFETY: `aligned` gave `at` for this layout, and the list has it if it was moved.
        unsafe { give_back(taken) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: `alloc` gave `at` for this layout.
        unsafe {
            if layout.align() <= ALIGN
                && let Some(realloc) = raw::RedisModule_Realloc
            {
                return realloc(at.cast(), bytes).cast();
            }
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(at, new, layout.size().min(bytes));
                self.dealloc(at, layout);
            }
            new
        }
    }
}
