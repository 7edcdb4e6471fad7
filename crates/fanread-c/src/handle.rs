//! What passes the border: handles, byte strings, arrays, and places for answers. Every pointer is
//! checked here, once, and is a reference from then on.
//!
//! A handle points to a *tagged* value, whose first word says of which type it is:
//!
//! ```text
//! byte 0        8
//!      +--------+------------------+
//!      |  tag   |  value           |
//!      +--------+------------------+
//! ```
//!
//! # Invariants
//!
//! * **H1** A pointer that `new` has made is to a tagged value of the type that the tag names, until `take`.
//! * **H2** A `fanread_buffer` is empty, with no memory, or the parts of a `Vec<u8>`.
//!
//! The tests of C call each function with NULL and with handles of another type. That a pointer is
//! one that the library has handed out, and was not freed before, and that arrays are as long as
//! said, nobody can check: the caller promises it.

use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Fault;

/// What a handle is to.
pub(crate) trait Handle: Sized {
    /// The type as C has it, of which it knows nothing.
    type Face;

    /// The first word of each value, a number that memory hardly holds by chance.
    const TAG: u64;

    /// What messages call it.
    const NAME: &'static str;
}

/// The tag of a value that was freed: memory may say so for a while.
const FREED: u64 = 0;

#[repr(C)]
struct Tagged<T> {
    tag: u64,
    value: T,
}

const _: () = assert!(core::mem::offset_of!(Tagged<[u64; 4]>, tag) == 0);

/// Stores a handle to `value`, which the caller then owns. On a fault, see `made`, it is NULL.
pub(crate) fn give<T: Handle>(value: T, out: Out<'_, *mut T::Face>) {
    out.set(new(value));
}

/// A handle to `value`.
pub(crate) fn new<T: Handle>(value: T) -> *mut T::Face {
    let tagged = Box::new(Tagged { tag: T::TAG, value });
    Box::into_raw(tagged).cast()
}

/// The tagged value of a handle.
///
/// # Safety
///
/// `face` is NULL, misaligned, or points to a tagged value (H1), or any other value of 8 bytes or more.
unsafe fn tagged<T: Handle>(face: *const T::Face) -> Result<NonNull<Tagged<T>>, Fault> {
    let Some(tagged) = NonNull::new(face.cast_mut().cast::<Tagged<T>>()) else {
        return Err(Fault::null(T::NAME));
    };
    // SAFETY: at least 8 bytes that may be read are there, and the first test makes sure that they are aligned.
    if !tagged.is_aligned() || unsafe { tagged.cast::<u64>().read() } != T::TAG {
        return Err(Fault::not_of(T::NAME));
    }
    Ok(tagged)
}

/// Lends what a handle is to.
///
/// # Safety
///
/// As for `tagged`, and nobody frees it during `'a`, nor lends it by `lend_mut`.
pub(crate) unsafe fn lend<'a, T: Handle>(face: *const T::Face) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise is the same.
    let tagged = unsafe { tagged::<T>(face)? };
    // SAFETY: its tag says that it is a `Tagged<T>` (H1), and the caller keeps it for 'a.
    Ok(unsafe { &tagged.as_ref().value })
}

/// Lends what a handle is to, to change it.
///
/// # Safety
///
/// As for `tagged`, and nobody else uses it during `'a`.
pub(crate) unsafe fn lend_mut<'a, T: Handle>(face: *mut T::Face) -> Result<&'a mut T, Fault> {
    // SAFETY: the caller's promise is the same.
    let mut tagged = unsafe { tagged::<T>(face)? };
    // SAFETY: its tag says that it is a `Tagged<T>` (H1), and the caller keeps it, for this call alone, for 'a.
    Ok(unsafe { &mut tagged.as_mut().value })
}

/// Takes back what a handle is to; `None` for NULL.
///
/// # Safety
///
/// As for `tagged`, and nobody uses the handle during the call or after.
pub(crate) unsafe fn take<T: Handle>(face: *mut T::Face) -> Result<Option<T>, Fault> {
    if face.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise is the same.
    let tagged = unsafe { tagged::<T>(face)? };
    // SAFETY: its tag says that it is a `Tagged<T>`, made by a box in `new` (H1), and the caller gives it up.
    let mut tagged = unsafe { Box::from_raw(tagged.as_ptr()) };
    tagged.tag = FREED;
    Ok(Some(tagged.value))
}

/// A place where an answer goes. It may hold anything before.
#[derive(Debug)]
pub(crate) struct Out<'a, T> {
    place: NonNull<T>,
    lifetime: PhantomData<&'a mut MaybeUninit<T>>,
}

impl<T> Out<'_, T> {
    /// Stores the answer.
    #[inline]
    pub(crate) fn set(self, answer: T) {
        // SAFETY: `out` has checked that the place is aligned, and its caller promised that it may be written to.
        unsafe { self.place.write(answer) }
    }
}

/// The place for an answer that the caller must want.
///
/// # Safety
///
/// `place` is NULL, misaligned, or may be written to during `'a`, by nobody else.
pub(crate) unsafe fn out<'a, T>(place: *mut T, name: &str) -> Result<Out<'a, T>, Fault> {
    // SAFETY: the caller's promise is the same.
    unsafe { maybe_out(place, name)? }.ok_or_else(|| Fault::null(name))
}

/// The place for an answer that the caller wants unless it is NULL.
///
/// # Safety
///
/// As for `out`.
#[inline]
pub(crate) unsafe fn maybe_out<'a, T>(
    place: *mut T,
    name: &str,
) -> Result<Option<Out<'a, T>>, Fault> {
    let Some(place) = NonNull::new(place) else { return Ok(None) };
    if !place.is_aligned() {
        return Err(Fault::misaligned(name));
    }
    Ok(Some(Out { place, lifetime: PhantomData }))
}

/// The place for a new handle, which is NULL until there is one.
///
/// # Safety
///
/// As for `out`.
pub(crate) unsafe fn made<'a, T>(place: *mut *mut T) -> Result<Out<'a, *mut T>, Fault> {
    // SAFETY: the caller's promise is the same, and the first is gone before the second is used.
    let (empty, place) = unsafe { (out(place, "the place of the handle")?, out(place, "")?) };
    empty.set(core::ptr::null_mut());
    Ok(place)
}

/// Bytes of C.
///
/// # Safety
///
/// `data` is NULL, or `len` bytes are there that nobody writes to during `'a`.
#[inline]
pub(crate) unsafe fn bytes<'a>(
    data: *const c_void,
    len: usize,
    name: &str,
) -> Result<&'a [u8], Fault> {
    // SAFETY: the caller's promise is the same; bytes are always aligned.
    unsafe { array(data.cast::<u8>(), len, name) }
}

/// An array of C.
///
/// # Safety
///
/// `first` is NULL, misaligned, or `count` items are there that nobody writes to during `'a`.
#[inline]
pub(crate) unsafe fn array<'a, T>(
    first: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Fault> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(first, count, name)?;
    // SAFETY: not NULL, aligned and not longer than an object can be, as was just checked; the rest
    // is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(first, count) })
}

/// An array of C for answers, which may hold anything before.
///
/// # Safety
///
/// `first` is NULL, misaligned, or `count` items may be written to during `'a`, by nobody else.
pub(crate) unsafe fn out_array<'a, T>(
    first: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>], Fault> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array(first, count, name)?;
    // SAFETY: not NULL, aligned and not longer than an object can be, as was just checked; the rest
    // is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts_mut(first.cast(), count) })
}

#[inline]
fn check_array<T>(first: *const T, count: usize, name: &str) -> Result<(), Fault> {
    if first.is_null() {
        return Err(Fault::null(name));
    }
    if !first.is_aligned() {
        return Err(Fault::misaligned(name));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX.cast_unsigned()) {
        return Err(Fault::length(name, count));
    }
    Ok(())
}

/// A string of C.
///
/// # Safety
///
/// `text` is NULL, or a string that ends in NUL and that nobody writes to during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a CStr, Fault> {
    if text.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: not NULL, and the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// A path, of any bytes.
///
/// # Safety
///
/// As for `text`.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Fault> {
    // SAFETY: the caller's promise is the same.
    let path = unsafe { text(path, "the path")? };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// A byte string of somebody else: `len` bytes from `data` on, of any contents. `data` may be NULL
/// if `len` is 0; in answers it is NULL where there is no byte string, and only there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fanread_bytes {
    /// The first byte.
    pub data: *const u8,
    /// How many there are.
    pub len: usize,
}

impl fanread_bytes {
    /// No byte string.
    pub(crate) const NONE: Self = Self { data: core::ptr::null(), len: 0 };

    /// Lends bytes to C. Empty ones are somewhere, too.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    ///
    /// As for `bytes`.
    #[inline]
    pub(crate) unsafe fn get<'a>(self, name: &str) -> Result<&'a [u8], Fault> {
        // SAFETY: the caller's promise is the same.
        unsafe { bytes(self.data.cast(), self.len, name) }
    }
}

/// Room for byte strings that calls return. Set all of it to zero before its first use
/// (`FANREAD_BUFFER_INIT`), hand it to as many calls as you like, one at a time, and give it to
/// `fanread_buffer_free` at last. Each call replaces what is in it, and makes it larger where it
/// must. Read it; do not write to its fields.
#[repr(C)]
#[derive(Debug)]
pub struct fanread_buffer {
    /// The bytes. NULL if the buffer never held any.
    pub data: *mut u8,
    /// How many there are.
    pub len: usize,
    /// For how many there is room.
    pub capacity: usize,
}

impl fanread_buffer {
    /// Takes the bytes out; the buffer is empty, with no memory, until others are put in.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let empty = Self { data: core::ptr::null_mut(), len: 0, capacity: 0 };
        let Self { data, len, capacity } = core::mem::replace(self, empty);
        if data.is_null() {
            return Vec::new();
        }
        // SAFETY: the parts of a vector, H2, which `buffer` has checked as far as one can.
        unsafe { Vec::from_raw_parts(data, len, capacity) }
    }

    /// Puts bytes in; what was there is given up.
    pub(crate) fn put(&mut self, bytes: Vec<u8>) {
        drop(self.take());
        if bytes.capacity() == 0 {
            return;
        }
        let mut bytes = ManuallyDrop::new(bytes);
        *self = Self { data: bytes.as_mut_ptr(), len: bytes.len(), capacity: bytes.capacity() };
    }

    /// Replaces the contents by a copy of `bytes`.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut room = self.take();
        room.clear();
        let copied = append(&mut room, bytes);
        self.put(room);
        copied
    }
}

/// Appends bytes, if there is memory for them.
pub(crate) fn append(room: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Fault> {
    room.try_reserve(bytes.len()).map_err(|_| Fault::no_memory(bytes.len()))?;
    room.extend_from_slice(bytes);
    Ok(())
}

/// A buffer of C, which the caller must want.
///
/// # Safety
///
/// `buffer` is NULL, misaligned, or points to an initialised one, which nobody else uses during `'a`.
pub(crate) unsafe fn buffer<'a>(
    buffer: *mut fanread_buffer,
    name: &str,
) -> Result<&'a mut fanread_buffer, Fault> {
    // SAFETY: the caller's promise is the same.
    unsafe { maybe_buffer(buffer, name)? }.ok_or_else(|| Fault::null(name))
}

/// A buffer of C, which the caller wants unless it is NULL.
///
/// # Safety
///
/// As for `buffer`.
pub(crate) unsafe fn maybe_buffer<'a>(
    buffer: *mut fanread_buffer,
    name: &str,
) -> Result<Option<&'a mut fanread_buffer>, Fault> {
    // SAFETY: only checked here, as an answer's place would be.
    if unsafe { maybe_out(buffer, name)? }.is_none() {
        return Ok(None);
    }
    // SAFETY: not NULL, aligned, and the rest is the caller's promise.
    let buffer = unsafe { &mut *buffer };
    let fits = buffer.len <= buffer.capacity && buffer.capacity <= isize::MAX.cast_unsigned();
    if !fits || buffer.data.is_null() != (buffer.capacity == 0) {
        return Err(Fault::argument(format!("{name} is not an initialised buffer")));
    }
    Ok(Some(buffer))
}

/// Frees what a buffer holds and makes it empty; it may be used again. NULL is nothing to free.
///
/// Threads: any, one at a time.
///
/// # Safety
///
/// `used` is NULL or points to a buffer that was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fanread_buffer_free(
    used: *mut fanread_buffer,
) -> crate::error::fanread_status {
    crate::panic::border(|| {
        // SAFETY: the caller's promise is the same.
        if let Some(used) = unsafe { maybe_buffer(used, "the buffer")? } {
            drop(used.take());
        }
        Ok(crate::error::fanread_status::FANREAD_OK)
    })
}
