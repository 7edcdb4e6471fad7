//! The commands: one row each, with all that the server tells of them.

mod entry;
mod increment;
mod range;
mod whole;

use std::ffi::{CStr, c_int};

use valkey_module::raw;

use crate::border::guard;
use crate::server::{Args, Context, Fault, Outcome, call};

/// A command as the server calls it.
type Run = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// A command.
struct Command {
    name: &'static CStr,
    /// As in `COMMAND INFO`: all arguments and the name, negative for at least as many.
    arity: c_int,
    flags: &'static CStr,
    /// What it does to its key: `REDISMODULE_CMD_KEY_*`.
    key: u32,
    summary: &'static CStr,
    complexity: &'static CStr,
    run: Run,
}

/// Runs a handler and sends an error if it failed. A panic is a defect of ours, and ends the command with an error.
///
/// # Safety
///
/// The arguments are what the server gave the command that runs now.
unsafe fn run(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    handler: fn(Context, Args<'_>) -> Outcome,
) -> c_int {
    // SAFETY: the caller's promise.
    let context = unsafe { Context::new(ctx) };
    let failed = guard(|| {
        // SAFETY: as above.
        let args = unsafe { Args::new(argv, argc) };
        match handler(context, args) {
            Ok(()) => {}
            Err(fault) => context.fail(&fault),
        }
    });
    if failed.is_none() {
        context.fail(&Fault::Say(c"ERR internal error, see the server's log"));
    }
    raw::REDISMODULE_OK as c_int
}

/// A handler as the server calls it.
macro_rules! handler {
    ($handler:path) => {{
        /// # Safety
        ///
        /// The server calls it, with what it gives a command.
        unsafe extern "C" fn handle(
            ctx: *mut raw::RedisModuleCtx,
            argv: *mut *mut raw::RedisModuleString,
            argc: c_int,
        ) -> c_int {
            // SAFETY: what the server gave.
            unsafe { run(ctx, argv, argc, $handler) }
        }
        handle
    }};
}

/// A row of the table.
macro_rules! command {
    ($name:literal, $arity:literal, $flags:literal, $key:expr, $handler:path, $complexity:literal, $summary:literal) => {
        Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            key: $key,
            summary: $summary,
            complexity: $complexity,
            run: handler!($handler),
        }
    };
}

const READ: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
const LOOK: u32 = raw::REDISMODULE_CMD_KEY_RO;
const ADD: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE;
const SWAP: u32 = ADD | raw::REDISMODULE_CMD_KEY_ACCESS;
const NEW: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT;
const REMOVE: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE;
const TAKE: u32 = REMOVE | raw::REDISMODULE_CMD_KEY_ACCESS;

/// The first [`OFTEN`] of them are those that are used most.
#[rustfmt::skip] // A table reads best with a row to each command.
const COMMANDS: &[Command] = &[
    command!(c"omap.get", 3, c"readonly fast", READ, entry::get, c"O(1)", c"Returns the value of a field"),
    command!(c"omap.set", -4, c"write deny-oom fast", ADD, entry::set, c"O(N) for N entries", c"Sets entries"),
    command!(c"omap.put", -4, c"write deny-oom fast", SWAP, entry::put, c"O(1)", c"Sets an entry on a condition, and returns its old value"),
    command!(c"omap.setnx", 4, c"write deny-oom fast", NEW, entry::setnx, c"O(1)", c"Sets an entry if its field does not exist"),
    command!(c"omap.mget", -3, c"readonly fast", READ, entry::mget, c"O(N) for N fields", c"Returns the values of fields"),
    command!(c"omap.exists", 3, c"readonly fast", LOOK, entry::exists, c"O(1)", c"Tells whether a field exists"),
    command!(c"omap.mexists", -3, c"readonly fast", LOOK, entry::mexists, c"O(N) for N fields", c"Tells which fields exist"),
    command!(c"omap.strlen", 3, c"readonly fast", LOOK, entry::strlen, c"O(1)", c"Returns the length of a value"),
    command!(c"omap.len", 2, c"readonly fast", LOOK, whole::len, c"O(1)", c"Returns the number of entries"),
    command!(c"omap.del", -3, c"write fast", REMOVE, entry::del, c"O(N) for N fields", c"Removes entries"),
    command!(c"omap.getdel", 3, c"write fast", TAKE, entry::getdel, c"O(1)", c"Removes an entry and returns its value"),
    command!(c"omap.incrby", 4, c"write deny-oom fast", SWAP, increment::by, c"O(1)", c"Adds to the integer that a value is"),
    command!(c"omap.incrbyfloat", 4, c"write deny-oom fast", SWAP, increment::by_float, c"O(1)", c"Adds to the number that a value is"),
    command!(c"omap.range", -4, c"readonly", READ, range::range, c"O(M) for M entries passed over and returned", c"Returns the entries between two bounds in order"),
    command!(c"omap.prefix", -3, c"readonly", READ, range::prefix, c"O(M) for M entries passed over and returned", c"Returns the entries whose fields start with a prefix"),
    command!(c"omap.seek", 4, c"readonly fast", READ, range::seek, c"O(1)", c"Returns the entry next to a field"),
    command!(c"omap.first", -2, c"readonly fast", READ, range::first, c"O(N) for N entries", c"Returns the first entries"),
    command!(c"omap.last", -2, c"readonly fast", READ, range::last, c"O(N) for N entries", c"Returns the last entries"),
    command!(c"omap.popmin", -2, c"write fast", TAKE, range::popmin, c"O(N) for N entries", c"Removes the first entries and returns them"),
    command!(c"omap.popmax", -2, c"write fast", TAKE, range::popmax, c"O(N) for N entries", c"Removes the last entries and returns them"),
    command!(c"omap.count", 4, c"readonly", LOOK, range::count, c"O(M) for M entries between the bounds", c"Counts the entries between two bounds"),
    command!(c"omap.delrange", -4, c"write", REMOVE, range::delrange, c"O(M) for M entries removed", c"Removes the entries between two bounds"),
    command!(c"omap.randfield", -2, c"readonly", READ, whole::randfield, c"O(N) for N fields", c"Returns random fields"),
    command!(c"omap.scan", -3, c"readonly", READ, whole::scan, c"O(N) for N entries of a step", c"Goes through the entries step by step"),
    command!(c"omap.getall", 2, c"readonly", READ, whole::getall, c"O(M) for M entries of the map", c"Returns all entries in order"),
    command!(c"omap.keys", 2, c"readonly", READ, whole::keys, c"O(M) for M entries of the map", c"Returns all fields in order"),
    command!(c"omap.vals", 2, c"readonly", READ, whole::vals, c"O(M) for M entries of the map", c"Returns all values in the order of their fields"),
    command!(c"omap.info", 2, c"readonly", LOOK, whole::info, c"O(1)", c"Tells how a map is kept"),
];

/// How many commands the server is to find by their names at once.
///
/// Of commands whose names have the same place in its table, Redis 7 compares the one first that was added last. Others in front of one are some
/// 40 instructions each, three of them in some starts of a server, as its hash is another with each.
const OFTEN: usize = 2;

/// Lookups after which the server has moved its table of commands into a larger one, a place with each, if ours have made it grow. What is moved
/// later would be in front. In the largest table so far there are 512.
const LOOKUPS: usize = 1024;

/// Panics, and whatever saves as well, and there being no memory for long values, so that a test can see what the server makes of it.
/// Only there if the module is loaded with `test-panic`.
#[rustfmt::skip] // As above.
const PANICS: &[Command] = &[
    command!(c"omap.testpanic", 1, c"readonly", LOOK, whole::panic, c"O(1)", c"Panics"),
    command!(c"omap.testpanicsaves", 1, c"readonly", LOOK, whole::panic_saves, c"O(1)", c"Has saves panic"),
    command!(c"omap.testscarce", 1, c"readonly", LOOK, whole::scarce, c"O(1)", c"Has no memory for long values in a debug build"),
];

/// Tells the server of all commands; `false` if it does not want one.
///
/// # Safety
///
/// `ctx` is that of the module while it is loaded.
pub(crate) unsafe fn register(ctx: *mut raw::RedisModuleCtx, with_panic: bool) -> bool {
    let more = if with_panic { PANICS } else { &[] };
    let (often, seldom) = COMMANDS.split_at(OFTEN);
    // SAFETY: the caller's promise.
    unsafe {
        more.iter().chain(seldom).all(|command| register_one(ctx, command))
            && (0..LOOKUPS)
                .all(|_| !call!(RedisModule_GetCommand(ctx, seldom[0].name.as_ptr())).is_null())
            && often.iter().rev().all(|command| register_one(ctx, command))
    }
}

/// # Safety
///
/// As [`register`].
unsafe fn register_one(ctx: *mut raw::RedisModuleCtx, command: &Command) -> bool {
    let (name, flags) = (command.name.as_ptr(), command.flags.as_ptr());
    let has_key = command.arity != 1;
    let first = c_int::from(has_key);
    // SAFETY: the module's context, and texts that live for ever; the server copies the description, and looks for the end of
    // the list of key specifications at the one that is zero. All types in it may be zero.
    unsafe {
        let made = call!(RedisModule_CreateCommand(
            ctx,
            name,
            Some(command.run),
            flags,
            first,
            first,
            first
        ));
        if made != raw::REDISMODULE_OK as c_int {
            return false;
        }
        let handle = call!(RedisModule_GetCommand(ctx, name));
        let mut version: raw::RedisModuleCommandInfoVersion = std::mem::zeroed();
        version.version = 1;
        version.sizeof_historyentry = size_of::<raw::RedisModuleCommandHistoryEntry>();
        version.sizeof_keyspec = size_of::<raw::RedisModuleCommandKeySpec>();
        version.sizeof_arg = size_of::<raw::RedisModuleCommandArg>();
        let mut keys: [raw::RedisModuleCommandKeySpec; 2] = std::mem::zeroed();
        keys[0].flags = u64::from(command.key);
        keys[0].begin_search_type =
            raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        keys[0].bs.index.pos = 1;
        keys[0].find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        keys[0].fk.range.keystep = 1;
        let mut info: raw::RedisModuleCommandInfo = std::mem::zeroed();
        info.version = &raw const version;
        info.summary = command.summary.as_ptr();
        info.complexity = command.complexity.as_ptr();
        info.since = c"0.1.0".as_ptr();
        info.arity = command.arity;
        if has_key {
            info.key_specs = keys.as_mut_ptr();
        }
        if call!(RedisModule_SetCommandInfo(handle, &raw const info))
            != raw::REDISMODULE_OK as c_int
        {
            return false;
        }
        // Categories for modules' commands came with 7.2.
        if let Some(categories) = raw::RedisModule_SetCommandACLCategories {
            let write = command.flags.to_bytes().starts_with(b"write");
            let fast = command.flags.to_bytes().ends_with(b"fast");
            let named = match (write, fast) {
                (true, true) => c"write fast",
                (true, false) => c"write slow",
                (false, true) => c"read fast",
                (false, false) => c"read slow",
            };
            return categories(handle, named.as_ptr()) == raw::REDISMODULE_OK as c_int;
        }
    }
    true
}
