//! The allocator, by itself, with a server whose memory is never aligned to a line.

#![expect(unsafe_code, reason = "it takes and gives back memory, and forks")]

#[path = "../src/allocator.rs"]
mod allocator;

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use valkey_module::raw;

use allocator::ServerAlloc;

/// How far the server's memory is from where that of the C library begins, which is aligned to 16 bytes.
const OFF: usize = 8;

/// `WNOHANG` and `SIGKILL`.
const AT_ONCE: c_int = 1;
const KILL: c_int = 9;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(at: *mut c_void);
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn kill(child: c_int, signal: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// # Safety
///
/// As `malloc`.
unsafe extern "C" fn take(bytes: usize) -> *mut c_void {
    // SAFETY: as many bytes and some more.
    unsafe { malloc(bytes + OFF).byte_add(OFF) }
}

/// # Safety
///
/// As `free`, of what `take` gave.
unsafe extern "C" fn give_back(at: *mut c_void) {
    // SAFETY: `take` gave it.
    unsafe { free(at.byte_sub(OFF)) }
}

/// Takes a line of memory and gives it back; whether it was aligned.
fn takes_a_line() -> bool {
    let line = Layout::from_size_align(64, 64).unwrap();
    // SAFETY: given back once, and not used in between.
    unsafe {
        let at = ServerAlloc.alloc(line);
        let is_aligned = !at.is_null() && at.addr().is_multiple_of(64);
        ServerAlloc.dealloc(at, line);
        is_aligned
    }
}

/// Whether a child takes a line of memory and ends well.
fn a_child_takes_a_line() -> bool {
    let mut status = -1;
    // SAFETY: the child calls nothing but the allocator, which is what is tested, and ends.
    unsafe {
        let child = fork();
        if child == 0 {
            _exit(c_int::from(!takes_a_line()));
        }
        assert!(child > 0, "no child");
        let start = Instant::now();
        while waitpid(child, &raw mut status, AT_ONCE) == 0 {
            if start.elapsed() > Duration::from_secs(20) {
                kill(child, KILL);
                waitpid(child, &raw mut status, 0);
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    status == 0
}

#[test]
fn a_child_takes_memory_whatever_another_thread_was_at() {
    // SAFETY: nobody has taken anything.
    unsafe {
        raw::RedisModule_TryAlloc = Some(take);
        raw::RedisModule_Free = Some(give_back);
    }
    assert!(allocator::unlock_in_children());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As the server's thread that frees maps.
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                assert!(takes_a_line());
            }
        });
        let stuck = (0..100).find(|_| !a_child_takes_a_line());
        ended.store(true, Relaxed);
        assert_eq!(stuck, None, "the number of the child that did not end");
    });
}
