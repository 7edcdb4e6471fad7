//! An ordered map inside Redis and Valkey: the type `omap-tree` and its commands, `OMAP.*`.
//!
//! `docs/module.md` is for who uses it, `docs/design/module.md` has the reasons. Nothing here is for other programs of Rust:
//! there is `fanread` itself.
//!
//! | file | what |
//! | --- | --- |
//! | `commands/` | the commands: what they take, reply and replicate |
//! | `datatype.rs` | the type: saving, loading, rewriting, copying, counting, freeing |
//! | `server.rs`, `border.rs`, `allocator.rs` | the server: replies and keys; panics; memory |
//! | `tree.rs`, `small.rs`, `large.rs` | a map in its two encodings |
//! | `guess.rs` | the map that the next command most likely uses |
//! | `codec.rs`, `size.rs` | a map as saved; what memory takes |
//! | `bound.rs`, `glob.rs`, `number.rs`, `random.rs` | bounds, patterns, numbers, chance |
//!
//! Only the first three rows know of the server. The others are tested by themselves, in `tests/logic.rs`.

#![expect(
    unsafe_code,
    reason = "the server is a program in C; pointers are checked, or owned, where they come in"
)]
#![allow(
    clippy::cast_possible_wrap,
    reason = "small constants of the server's, and lengths of memory"
)]
#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every get")]
#![allow(clippy::missing_errors_doc, reason = "a fault says by itself what it is")]

mod allocator;
mod border;
mod bound;
mod codec;
mod commands;
mod datatype;
mod glob;
mod guess;
mod large;
mod number;
mod random;
mod server;
mod size;
mod small;
mod tree;

use std::ffi::{c_char, c_int};

use valkey_module::raw;

use server::{Args, call};

#[global_allocator]
static ALLOCATOR: allocator::ServerAlloc = allocator::ServerAlloc;

/// The version of the module as the server shows it: 10,000 for each major one, 100 for each minor one.
const VERSION: c_int = 100;

/// What Valkey, from 9.0 on, calls `VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION`: without it slots do not move at once on a cluster
/// that has the module. They are moved as files of commands are rewritten, and nothing of ours is beside keys.
const MOVES_AT_ONCE: u32 = 1 << 5;

/// Called by the server when it loads the module. The argument `test-panic` adds commands that panic.
///
/// # Safety
///
/// The arguments are what the server calls it with.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the server's name")]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's context; nothing was allocated before, since the table of functions, which this writes, has the
    // allocator.
    let status = unsafe {
        let name = c"fanread".as_ptr().cast::<c_char>();
        raw::Export_RedisModule_Init(ctx, name, VERSION, raw::REDISMODULE_APIVER_1 as c_int)
    };
    if status == raw::REDISMODULE_ERR as c_int {
        return raw::REDISMODULE_ERR as c_int;
    }
    let loaded = border::guard(|| {
        server::log_panics();
        // SAFETY: the server's context and arguments, while it loads the module.
        unsafe {
            let args = if argc == 0 { None } else { Some(Args::new(argv, argc)) };
            let with_panic = args.is_some_and(|args| args.is(0, "test-panic"));
            // Errors of reading are returned to us; keys are marked as changed by us, when they were; and while a replica loads
            // what its master sends it may go on to answer from what it has.
            let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
                | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
                | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
                | if server::is_valkey() { MOVES_AT_ONCE } else { 0 };
            call!(RedisModule_SetModuleOptions(ctx, options as c_int));
            allocator::unlock_in_children()
                && datatype::register(ctx)
                && commands::register(ctx, with_panic)
        }
    });
    (if loaded == Some(true) { raw::REDISMODULE_OK } else { raw::REDISMODULE_ERR }) as c_int
}
