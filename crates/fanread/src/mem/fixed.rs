//! Arrays that are filled bit by bit and never move, from the allocator or in small pages of their own.
//!
//! An allocator may ask for huge pages, whose first touch takes milliseconds, and touch one whenever it likes. Who promises short
//! calls takes pages of 4 KB from the system instead: each is touched by the call that fills it.
//!
//! # Invariants
//!
//! * **X1** `base` is that of `room` places of memory, of the array alone, and the first `len` hold values.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;
use std::alloc::{Layout, alloc, dealloc};

use super::AllocError;
use super::arena::PAGE_BYTES;

/// From how many bytes on an array is worth pages of its own.
const MAPPED_FROM: usize = 4 * PAGE_BYTES;

/// An array with room for so many values and no more; see the module.
#[derive(Debug)]
pub(crate) struct Fixed<T> {
    base: NonNull<T>,
    room: usize,
    len: usize,
    is_mapped: bool,
}

// SAFETY: it owns its values.
unsafe impl<T: Send> Send for Fixed<T> {}
// SAFETY: it gives out shared references to them.
unsafe impl<T: Sync> Sync for Fixed<T> {}

impl<T> Fixed<T> {
    /// Room for so many values; in small pages, if that is wanted, it is not tiny, and the system has such.
    pub(crate) fn with_room(room: usize, in_small_pages: bool) -> Result<Self, AllocError> {
        let failed = AllocError { bytes: room.saturating_mul(size_of::<T>()) };
        let layout = Layout::array::<T>(room).map_err(|_| failed)?;
        let is_mapped = in_small_pages && layout.size() >= MAPPED_FROM;
        #[cfg(test)]
        if super::failing::fails_now() {
            return Err(failed);
        }
        let base = if is_mapped {
            map(layout.size())
        } else if layout.size() == 0 {
            Some(NonNull::<T>::dangling().cast())
        } else {
            // SAFETY: the layout is not empty.
            NonNull::new(unsafe { alloc(layout) })
        };
        Ok(Self { base: base.ok_or(failed)?.cast(), room, len: 0, is_mapped })
    }

    /// How many values there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Adds a value.
    ///
    /// # Panics
    ///
    /// If there is no room.
    pub(crate) fn push(&mut self, value: T) {
        assert!(self.len < self.room, "an array of {} values is full", self.room);
        // SAFETY: a place of the array (X1), without a value yet.
        unsafe { self.base.add(self.len).write(value) };
        self.len += 1;
    }
}

impl<T> Deref for Fixed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: X1.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Fixed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: X1.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        let values: *mut [T] = &raw mut **self;
        // SAFETY: nobody uses them any more.
        unsafe { values.drop_in_place() };
        let layout = Layout::array::<T>(self.room).expect("it had one when it was made");
        if self.is_mapped {
            // SAFETY: so many bytes were mapped there (X1).
            unsafe { unmap(self.base.cast(), layout.size()) };
        } else if layout.size() > 0 {
            // SAFETY: allocated with this layout (X1).
            unsafe { dealloc(self.base.as_ptr().cast(), layout) };
        }
    }
}

/// Maps so many bytes in small pages, which cost memory when they are first touched.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    let (protection, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing of ours.
    let base = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, protection, flags) }.ok()?;
    // SAFETY: the mapping just made. Refused where the kernel has no huge pages.
    let _ = unsafe { madvise(base, bytes, Advice::LinuxNoHugepage) };
    NonNull::new(base.cast())
}

/// Gives back what [`map`] has mapped.
///
/// # Safety
///
/// So many bytes were mapped there, and nobody uses them any more.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: as above.
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc(layout) })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    if let Ok(layout) = Layout::from_size_align(bytes, PAGE_BYTES) {
        // SAFETY: allocated in `map` with this layout.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_are_and_are_dropped_once() {
        let value = std::rc::Rc::new(());
        for (room, small) in [(0, true), (3, true), (3, false), (5000, true), (5000, false)] {
            let mut array = Fixed::with_room(room, small).unwrap();
            let base = array.as_ptr();
            (0..room).for_each(|at| array.push((at, value.clone())));
            assert_eq!((array.as_ptr(), array.room(), array.len()), (base, room, room));
            assert!(array.iter().enumerate().all(|(at, value)| value.0 == at));
            drop(array);
            assert_eq!(std::rc::Rc::strong_count(&value), 1, "{room} {small}");
        }
    }

    #[test]
    #[should_panic(expected = "is full")]
    fn a_full_array_takes_no_more() {
        let mut array = Fixed::with_room(1, false).unwrap();
        array.push(1);
        array.push(2);
    }

    #[test]
    fn an_array_larger_than_the_machine_is_refused() {
        for small in [false, true] {
            assert!(Fixed::<u64>::with_room(usize::MAX / 16, small).is_err());
            assert!(Fixed::<u64>::with_room(usize::MAX, small).is_err());
        }
    }
}
