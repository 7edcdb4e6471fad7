//! The allocator of the process that the module is loaded into, for all that the module allocates: only so does `maxmemory` see it.
//!
//! The server's memory is aligned to 16 bytes. More is made by taking more, with the address of what was taken in front of what
//! is handed out; only large blocks ask for that.

#![allow(clippy::cast_ptr_alignment, reason = "addresses are stored at multiples of 16")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use valkey_module::raw;

/// What the server's allocator aligns to.
const ALIGN: usize = 16;

/// The server's allocator.
pub(crate) struct ServerAlloc;

/// Allocates; null if there is no memory, or if the server has not yet said how.
///
/// # Safety
///
/// As `malloc`: what it gives is not initialised.
unsafe fn take(bytes: usize) -> *mut u8 {
    // SAFETY: the table of functions is written once, while the module is loaded, before anything is allocated.
    unsafe {
        match (raw::RedisModule_TryAlloc, raw::RedisModule_Alloc) {
            (Some(alloc), _) | (None, Some(alloc)) => alloc(bytes).cast(),
            (None, None) => ptr::null_mut(),
        }
    }
}

/// Gives back what [`take`] gave.
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

// SAFETY: the server's functions are those of malloc; blocks of a higher alignment lie inside of what was taken for them, which
// is found again by the address in front of them.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN {
            // SAFETY: a plain call.
            return unsafe { take(layout.size()) };
        }
        let Some(bytes) = layout.size().checked_add(layout.align()) else { return ptr::null_mut() };
        // SAFETY: as above.
        let taken = unsafe { take(bytes) };
        if taken.is_null() {
            return taken;
        }
        // At least ALIGN bytes on, since what the server gives is a multiple of that: room for an address.
        let ahead = layout.align() - taken.addr() % layout.align();
        // SAFETY: `ahead` is at most the alignment, which was taken in addition, and at least 16.
        unsafe {
            let at = taken.add(ahead);
            at.cast::<*mut u8>().sub(1).write(taken);
            at
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `alloc` gave `at` for this layout, so the address is in front of it if it is aligned to more.
        unsafe {
            let taken =
                if layout.align() <= ALIGN { at } else { at.cast::<*mut u8>().sub(1).read() };
            give_back(taken);
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a plain call; the table is written before anything is allocated.
        unsafe {
            if layout.align() <= ALIGN
                && let Some(calloc) = raw::RedisModule_Calloc
            {
                // Large blocks come from the kernel as zeros, which nobody writes again.
                return calloc(1, layout.size()).cast();
            }
            let at = self.alloc(layout);
            if !at.is_null() {
                at.write_bytes(0, layout.size());
            }
            at
        }
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
