//! The type `omap-tree`: what the server asks of it when it saves, loads, copies, counts and frees.
//!
//! Callbacks may run in a child process (saving) or on another thread (freeing); in both cases nobody else has the map.

use std::ffi::{c_char, c_int, c_void};
use std::ops::{ControlFlow, Deref};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use valkey_module::raw;

use crate::border::guard;
use crate::codec::{self, Sink, Source};
use crate::guess;
use crate::server::{TYPE, call};
use crate::tree::{Span, Tree};

/// Entries of a command in a rewritten file: as many as the server itself puts into one.
const REWRITE_ENTRIES: usize = 64;

/// What the server has for a value of a module's, two allocations of 16 bytes, and leaves for us to count.
const SERVER_BYTES: usize = 32;

/// Whether saving panics, as a test may want it. Set by a command; who saves is on its thread, or in a child that is forked later.
pub(crate) static SAVES_PANIC: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    safe fn _exit(status: c_int) -> !;
}

/// Tells the server of the type; `false` if it does not want it.
///
/// # Safety
///
/// `ctx` is that of the module while it is loaded.
pub(crate) unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort),
        unlink: None,
        copy: Some(copy),
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the module's context; the server copies the methods.
    let made = unsafe {
        call!(RedisModule_CreateDataType(
            ctx,
            c"omap-tree".as_ptr(),
            codec::VERSION as c_int,
            &raw mut methods
        ))
    };
    TYPE.store(made, Relaxed);
    !made.is_null()
}

/// A value of our type.
///
/// # Safety
///
/// It is one, and nobody changes it while `'a` lasts.
unsafe fn tree<'a>(value: *const c_void) -> &'a Tree {
    // SAFETY: a value of our type is a tree in a box.
    unsafe { &*value.cast::<Tree>() }
}

/// A file or message that is written or read.
struct Io(*mut raw::RedisModuleIO);

impl Sink for Io {
    fn number(&mut self, number: u64) {
        // SAFETY: the server's, as long as the callback runs.
        unsafe { call!(RedisModule_SaveUnsigned(self.0, number)) };
    }

    fn string(&mut self, string: &[u8]) {
        // SAFETY: as above; the bytes are only read.
        unsafe {
            call!(RedisModule_SaveStringBuffer(self.0, string.as_ptr().cast(), string.len()));
        };
    }
}

/// A string that was loaded.
struct Loaded {
    at: *mut c_char,
    len: usize,
}

impl Deref for Loaded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server gave as many bytes, for us to free.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.len) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: freed once.
        unsafe { call!(RedisModule_Free(self.at.cast())) };
    }
}

impl Io {
    /// Passes on what was read, unless reading has failed: what the server gives then means nothing.
    fn unless_failed<T>(&self, read: T) -> Option<T> {
        // SAFETY: the server's, as long as the callback runs.
        let failed = unsafe { call!(RedisModule_IsIOError(self.0)) } != 0;
        (!failed).then_some(read)
    }
}

impl Source for Io {
    type Text = Loaded;

    fn number(&mut self) -> Option<u64> {
        // SAFETY: the server's, as long as the callback runs.
        let number = unsafe { call!(RedisModule_LoadUnsigned(self.0)) };
        self.unless_failed(number)
    }

    fn string(&mut self) -> Option<Loaded> {
        let mut len = 0;
        // SAFETY: as above, with room for a length.
        let at = unsafe { call!(RedisModule_LoadStringBuffer(self.0, &raw mut len)) };
        if at.is_null() {
            return None;
        }
        self.unless_failed(Loaded { at, len })
    }
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    let load = || {
        // Older versions are read for ever; a newer one is nothing that we could know.
        let known = version == codec::VERSION as c_int;
        known.then(|| codec::load(&mut Io(io))).flatten()
    };
    match guard(load).flatten() {
        Some(tree) => Box::into_raw(Box::new(tree)).cast(),
        None => ptr::null_mut(),
    }
}

/// Writes a value; if that panics, all of the save fails, since a part of a map is none.
fn write(io: *mut raw::RedisModuleIO, value: impl FnOnce()) {
    let written = guard(|| {
        assert!(!SAVES_PANIC.load(Relaxed), "as the test wants it");
        value();
    });
    if written.is_none() {
        fail(io);
    }
}

/// Lets the server take what it writes for failed, so that it keeps the file that it has.
///
/// Only errors of its own count for that, and the one that a module can make is a command that there is not. The server ends the save
/// then, with a status of 1 if it is a child's, and removes what it had begun. Should it not mind one day, a child ends here, and what it had begun
/// stays on the disk; who saves by himself has the error in his log.
#[cold]
fn fail(io: *mut raw::RedisModuleIO) {
    // SAFETY: the server's, as long as the callback runs, and texts that live; what is formatted has no arguments.
    let goes_on_in_child = unsafe {
        let text = c"a panic while a map was written, the save is given up";
        call!(RedisModule_LogIOError(io, c"warning".as_ptr(), text.as_ptr()));
        call!(RedisModule_EmitAOF(io, c"omap.none-such".as_ptr(), c"".as_ptr()));
        let context = call!(RedisModule_GetContextFromIO(io));
        let flags = call!(RedisModule_GetContextFlags(context));
        call!(RedisModule_IsIOError(io)) == 0
            && flags & raw::REDISMODULE_CTX_FLAGS_IS_CHILD as c_int != 0
    };
    if goes_on_in_child {
        _exit(1);
    }
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server's value, which nobody changes meanwhile.
    write(io, || codec::save(unsafe { tree(value) }, &mut Io(io)));
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    write(io, || {
        let mut strings = Vec::with_capacity(2 * REWRITE_ENTRIES);
        // SAFETY: the server's value, which nobody changes meanwhile.
        let tree = unsafe { tree(value) };
        tree.walk(Span::ALL, false, |field, value| {
            for part in [field, value] {
                // SAFETY: the server copies the bytes; a string without a context is ours to free.
                strings.push(unsafe {
                    call!(RedisModule_CreateString(
                        ptr::null_mut(),
                        part.as_ptr().cast(),
                        part.len()
                    ))
                });
            }
            if strings.len() == 2 * REWRITE_ENTRIES {
                emit_set(io, key, &mut strings);
            }
            ControlFlow::Continue(())
        });
        if !strings.is_empty() {
            emit_set(io, key, &mut strings);
        }
    });
}

/// Writes a command that sets entries, and frees their strings.
fn emit_set(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    strings: &mut Vec<*mut raw::RedisModuleString>,
) {
    // SAFETY: the server's, as long as the callback runs; the format says a string, then an array of strings and its length.
    // Strings are freed once.
    unsafe {
        call!(RedisModule_EmitAOF(
            io,
            c"OMAP.SET".as_ptr(),
            c"sv".as_ptr(),
            key,
            strings.as_mut_ptr(),
            strings.len(),
        ));
        for string in strings.drain(..) {
            call!(RedisModule_FreeString(ptr::null_mut(), string));
        }
    }
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    // SAFETY: the server's value, which nobody changes meanwhile.
    guard(|| SERVER_BYTES + unsafe { tree(value) }.memory_bytes()).unwrap_or(0)
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guard(|| {
        // SAFETY: the server's value, which nobody changes meanwhile.
        let tree = unsafe { tree(value) };
        tree.walk(Span::ALL, false, |field, value| {
            for part in [field, value] {
                // SAFETY: the server's digest, as long as the callback runs; the bytes are only read.
                unsafe {
                    call!(RedisModule_DigestAddStringBuffer(
                        digest,
                        part.as_ptr().cast(),
                        part.len()
                    ));
                };
            }
            ControlFlow::Continue(())
        });
        // SAFETY: as above.
        unsafe { call!(RedisModule_DigestEndSequence(digest)) };
    });
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn free(value: *mut c_void) {
    guess::forget(value.cast());
    // SAFETY: the server gives a value back once, when nobody has it any more.
    guard(|| drop(unsafe { Box::from_raw(value.cast::<Tree>()) }));
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn free_effort(_: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server's value, which nobody changes meanwhile.
    guard(|| unsafe { tree(value) }.free_effort()).unwrap_or(usize::MAX)
}

/// # Safety
///
/// The server calls it, with what it gives this callback.
unsafe extern "C" fn copy(
    _: *mut raw::RedisModuleString,
    _: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server's value, which nobody changes meanwhile.
    match guard(|| unsafe { tree(value) }.copy()) {
        Some(Ok(copy)) => Box::into_raw(Box::new(copy)).cast(),
        Some(Err(_)) | None => ptr::null_mut(),
    }
}
