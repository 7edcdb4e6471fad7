//! The server, as commands see it: arguments, replies, keys, and what is told to replicas and listeners.
//!
//! Everything here is called inside of a command, on the thread that runs commands; that is what all SAFETY notes rest on.

use std::ffi::{CStr, CString, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use valkey_module::raw;

use crate::guess;
use crate::tree::{MAX_FIELD_BYTES, MAX_VALUE_BYTES, NoMemory, Tree};

/// The type that the server knows our maps by; set once, when the module is loaded, before there are commands.
pub(crate) static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// Calls a function of the server's table. Inside an `unsafe` block.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        valkey_module::raw::$name.expect("the server has it since 7.0")($($argument),*)
    };
}
pub(crate) use call;

/// Why a command failed.
pub(crate) enum Fault {
    /// An error with this text.
    Say(&'static CStr),
    /// The number of arguments is wrong.
    Arity,
}

pub(crate) const SYNTAX: Fault = Fault::Say(c"ERR syntax error");
pub(crate) const NOT_AN_INTEGER: Fault = Fault::Say(c"ERR value is not an integer or out of range");
pub(crate) const OUT_OF_RANGE: Fault = Fault::Say(c"ERR value is out of range");
pub(crate) const NOT_POSITIVE: Fault = Fault::Say(c"ERR value is out of range, must be positive");
pub(crate) const NOT_A_BOUND: Fault = Fault::Say(c"ERR min or max not valid string range item");
const WRONG_TYPE: Fault =
    Fault::Say(c"WRONGTYPE Operation against a key holding the wrong kind of value");

impl From<NoMemory> for Fault {
    fn from(_: NoMemory) -> Self {
        Self::Say(c"OOM there is no memory for the entry")
    }
}

/// What a command's handler gives back; the reply is sent by then.
pub(crate) type Outcome = Result<(), Fault>;

/// A command in progress.
#[derive(Clone, Copy)]
pub(crate) struct Context(*mut raw::RedisModuleCtx);

/// The arguments of a command, its name the first of them.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    all: &'a [*mut raw::RedisModuleString],
}

impl<'a> Args<'a> {
    /// # Safety
    ///
    /// Both are what the server gave the command that runs now.
    pub(crate) unsafe fn new(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Self {
        // SAFETY: as many strings as the server says, which live as long as the command.
        Self { all: unsafe { std::slice::from_raw_parts(argv, argc as usize) } }
    }

    pub(crate) fn len(self) -> usize {
        self.all.len()
    }

    pub(crate) fn at(self, index: usize) -> &'a [u8] {
        // SAFETY: a string of the command's, which nobody changes while it runs.
        unsafe { string_bytes(self.all[index]) }
    }

    pub(crate) fn from(self, index: usize) -> impl Iterator<Item = &'a [u8]> {
        (index..self.len()).map(move |index| self.at(index))
    }

    /// Whether an argument is this word, in capitals or not.
    pub(crate) fn is(self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// An argument as an integer.
    pub(crate) fn integer(self, index: usize) -> Result<i64, Fault> {
        crate::number::integer(self.at(index)).ok_or(NOT_AN_INTEGER)
    }

    /// An argument as a number of things.
    pub(crate) fn count(self, index: usize) -> Result<usize, Fault> {
        usize::try_from(self.integer(index)?).map_err(|_| NOT_POSITIVE)
    }

    /// A pair of arguments as an entry, whose lengths are checked.
    pub(crate) fn entry(self, index: usize) -> Result<(&'a [u8], &'a [u8]), Fault> {
        let (field, value) = (self.at(index), self.at(index + 1));
        if field.len() > MAX_FIELD_BYTES {
            return Err(Fault::Say(c"ERR field is longer than 65535 bytes"));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(Fault::Say(c"ERR value is longer than 4294967295 bytes"));
        }
        Ok((field, value))
    }
}

const _: () = assert!(MAX_FIELD_BYTES == 65_535 && MAX_VALUE_BYTES == 4_294_967_295);

/// The bytes of a string of the server's.
///
/// # Safety
///
/// The string lives and stays as it is while `'a` lasts.
pub(crate) unsafe fn string_bytes<'a>(string: *const raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the caller's string; the server never gives NULL for one.
    unsafe {
        let bytes = call!(RedisModule_StringPtrLen(string, &raw mut len));
        std::slice::from_raw_parts(bytes.cast(), len)
    }
}

/// Has panics written into the server's log: its standard error goes nowhere when it is a daemon.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string().replace(['\0', '\n'], " ");
        let Ok(text) = CString::new(text) else { return };
        // SAFETY: texts that live; the server takes NULL for no context, and may be told from any thread.
        unsafe {
            call!(RedisModule_Log(
                ptr::null_mut(),
                c"warning".as_ptr(),
                c"fanread %s".as_ptr(),
                text.as_ptr()
            ));
        };
    }));
}

/// Whether the server is Valkey, which has names of its own for its functions beside those of Redis.
pub(crate) fn is_valkey() -> bool {
    let mut function: *mut c_void = ptr::null_mut();
    let name = c"ValkeyModule_SetModuleOptions";
    // SAFETY: a text that lives, and room for an address.
    let found = unsafe { call!(RedisModule_GetApi(name.as_ptr(), (&raw mut function).cast())) };
    found == raw::REDISMODULE_OK as c_int
}

/// A random number.
pub(crate) fn seed() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: room for 8 bytes.
    unsafe { call!(RedisModule_GetRandomBytes(bytes.as_mut_ptr(), bytes.len())) };
    u64::from_le_bytes(bytes)
}

impl Context {
    /// # Safety
    ///
    /// It is what the server gave the command that runs now.
    pub(crate) unsafe fn new(ctx: *mut raw::RedisModuleCtx) -> Self {
        Self(ctx)
    }

    pub(crate) fn fail(self, fault: &Fault) {
        // SAFETY: the command's context, and a text that lives.
        unsafe {
            match fault {
                Fault::Say(text) => call!(RedisModule_ReplyWithError(self.0, text.as_ptr())),
                Fault::Arity => call!(RedisModule_WrongArity(self.0)),
            };
        }
    }

    pub(crate) fn string(self, bytes: &[u8]) {
        // SAFETY: the command's context; the server copies the bytes.
        unsafe {
            call!(RedisModule_ReplyWithStringBuffer(self.0, bytes.as_ptr().cast(), bytes.len()))
        };
    }

    /// A string, or null.
    pub(crate) fn optional(self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.string(bytes),
            None => self.null(),
        }
    }

    pub(crate) fn ok(self) {
        // SAFETY: the command's context, and a text that lives.
        unsafe { call!(RedisModule_ReplyWithSimpleString(self.0, c"OK".as_ptr())) };
    }

    pub(crate) fn null(self) {
        // SAFETY: the command's context.
        unsafe { call!(RedisModule_ReplyWithNull(self.0)) };
    }

    pub(crate) fn null_array(self) {
        // SAFETY: the command's context.
        unsafe { call!(RedisModule_ReplyWithNullArray(self.0)) };
    }

    pub(crate) fn integer(self, number: i64) {
        // SAFETY: the command's context.
        unsafe { call!(RedisModule_ReplyWithLongLong(self.0, number)) };
    }

    pub(crate) fn count(self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The start of an array of as many replies as follow.
    pub(crate) fn array(self, len: usize) {
        // SAFETY: the command's context.
        unsafe { call!(RedisModule_ReplyWithArray(self.0, len as c_long)) };
    }

    /// The start of an array whose length is told [later](Self::end_array).
    pub(crate) fn open_array(self) {
        // SAFETY: the command's context.
        unsafe {
            call!(RedisModule_ReplyWithArray(self.0, c_long::from(raw::REDISMODULE_POSTPONED_LEN)))
        };
    }

    pub(crate) fn end_array(self, len: usize) {
        // SAFETY: the command's context, which has an open array.
        unsafe { call!(RedisModule_ReplySetArrayLength(self.0, len as c_long)) };
    }

    /// The start of a map of as many pairs of replies as follow; with the older protocol an array of twice as many.
    pub(crate) fn map(self, len: usize) {
        // SAFETY: the command's context.
        unsafe { call!(RedisModule_ReplyWithMap(self.0, len as c_long)) };
    }

    /// Whether the client has asked for the newer protocol.
    pub(crate) fn is_resp3(self) -> bool {
        // SAFETY: the command's context.
        let flags = unsafe { call!(RedisModule_GetContextFlags(self.0)) };
        flags & raw::REDISMODULE_CTX_FLAGS_RESP3 as c_int != 0
    }

    /// Opens the key that an argument names, to read.
    pub(crate) fn read(self, args: Args<'_>, index: usize) -> Result<Key, Fault> {
        self.open(args.all[index], raw::REDISMODULE_READ as c_int)
    }

    /// Opens the key that an argument names, to read and write.
    pub(crate) fn write(self, args: Args<'_>, index: usize) -> Result<Key, Fault> {
        self.open(args.all[index], (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int)
    }

    fn open(self, name: *mut raw::RedisModuleString, mode: c_int) -> Result<Key, Fault> {
        // SAFETY: the command's context and one of its arguments.
        let opened = Opened(unsafe { call!(RedisModule_OpenKey(self.0, name, mode)) });
        let tree = opened.tree()?;
        Ok(Key { context: self, name, opened, tree, new: None })
    }

    /// Shows the value of a field under the key that an argument names to `look`, and none if there is no such key. The key is closed
    /// while what the lookup waits for is on its way.
    #[inline(always)]
    pub(crate) fn read_one(
        self,
        args: Args<'_>,
        (index, field): (usize, usize),
        look: impl FnOnce(Option<&[u8]>),
    ) -> Outcome {
        let field = args.at(field);
        let asked = guess::ask(field);
        let (name, mode) = (args.all[index], raw::REDISMODULE_READ as c_int);
        // SAFETY: the command's context and one of its arguments.
        let mut opened = Opened(unsafe { call!(RedisModule_OpenKey(self.0, name, mode)) });
        // SAFETY: as in `Key::tree`. The server's value stays when the key is closed, until a command changes it.
        match unsafe { opened.tree()?.as_mut() } {
            Some(tree) => tree.get_while(field, asked, || opened.close(), look),
            None => look(None),
        }
        Ok(())
    }
}

/// The server's handle of a key; null if the key was opened to read and does not exist, or was closed.
struct Opened(*mut raw::RedisModuleKey);

impl Opened {
    /// The map that is the key's value; null if the key does not exist.
    #[inline(always)]
    fn tree(&self) -> Result<*mut Tree, Fault> {
        if self.0.is_null() {
            return Ok(ptr::null_mut());
        }
        // SAFETY: the handle is open.
        let value = unsafe { call!(RedisModule_ModuleTypeGetValue(self.0)) }.cast::<Tree>();
        // What is where a map of ours lives is that map, and no other module's value.
        if !value.is_null() && guess::is_last(value) { Ok(value) } else { self.other(value) }
    }

    /// The same of a value that is not the map that the last command used. From then on it is.
    #[inline(never)]
    fn other(&self, value: *mut Tree) -> Result<*mut Tree, Fault> {
        // SAFETY: the handle is open; a value of our type is a tree of ours.
        unsafe {
            if call!(RedisModule_ModuleTypeGetType(self.0)) == TYPE.load(Relaxed) {
                guess::remember(value);
                return Ok(value);
            }
            match call!(RedisModule_KeyType(self.0)) {
                empty if empty == raw::REDISMODULE_KEYTYPE_EMPTY as c_int => Ok(ptr::null_mut()),
                _ => Err(WRONG_TYPE),
            }
        }
    }

    #[inline(always)]
    fn close(&mut self) {
        let handle = std::mem::replace(&mut self.0, ptr::null_mut());
        if !handle.is_null() {
            // SAFETY: opened once, closed once.
            unsafe { call!(RedisModule_CloseKey(handle)) };
        }
    }
}

impl Drop for Opened {
    #[inline(always)]
    fn drop(&mut self) {
        self.close();
    }
}

/// A key that was opened.
pub(crate) struct Key {
    context: Context,
    name: *mut raw::RedisModuleString,
    opened: Opened,
    /// Null if the key does not exist.
    tree: *mut Tree,
    /// What the key will be, if it does not exist.
    new: Option<Box<Tree>>,
}

impl Key {
    /// The map; `None` if there is no such key.
    pub(crate) fn tree(&self) -> Option<&Tree> {
        // SAFETY: the server's value of this key, which only commands change, and they run one at a time; a key is opened once by
        // a command, and `&mut self` stands between readers and writers.
        unsafe { self.tree.as_ref() }
    }

    /// Shows the value of a field to `look`; none if there is no such key.
    pub(crate) fn get<R>(&self, field: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match self.tree() {
            Some(tree) => tree.get(field, look),
            None => look(None),
        }
    }

    /// The map, to change; `None` if there is no such key.
    pub(crate) fn tree_mut(&mut self) -> Option<&mut Tree> {
        // SAFETY: as in `tree`.
        unsafe { self.tree.as_mut() }
    }

    /// The map, to add to. If there is no such key, there will be one when the command [is done](Self::done).
    pub(crate) fn make(&mut self) -> &mut Tree {
        // SAFETY: as in `tree`.
        match unsafe { self.tree.as_mut() } {
            Some(tree) => tree,
            None => self.new.get_or_insert_with(|| Box::new(Tree::new())),
        }
    }

    /// Ends a command that has changed the map: replicas get the command as it came.
    pub(crate) fn done(self, event: &CStr) {
        let emptied = self.tree().is_some_and(|tree| tree.len() == 0);
        self.done_verbatim(event, emptied);
    }

    /// The same if the command has removed nothing.
    pub(crate) fn done_adding(self, event: &CStr) {
        self.done_verbatim(event, false);
    }

    /// Ends a command that has set the entries before an argument, and then had no memory: replicas get these entries.
    pub(crate) fn done_in_part(self, event: &CStr, args: Args<'_>, end: usize) {
        let told = &args.all[1..end];
        // SAFETY: the command's context; the format says an array of strings of the server's and its length.
        unsafe {
            call!(RedisModule_Replicate(
                self.context.0,
                c"OMAP.SET".as_ptr(),
                c"v".as_ptr(),
                told.as_ptr(),
                told.len(),
            ));
        }
        self.finish(event, false);
    }

    fn done_verbatim(self, event: &CStr, emptied: bool) {
        // SAFETY: the command's context.
        unsafe { call!(RedisModule_ReplicateVerbatim(self.context.0)) };
        self.finish(event, emptied);
    }

    /// Ends a command that has set one entry: replicas get that.
    pub(crate) fn done_as_set(self, event: &CStr, field: &[u8], value: &[u8]) {
        // SAFETY: the command's context and key; the format says a string of the server's, then twice an address and a length.
        unsafe {
            call!(RedisModule_Replicate(
                self.context.0,
                c"OMAP.SET".as_ptr(),
                c"sbb".as_ptr(),
                self.name,
                field.as_ptr(),
                field.len(),
                value.as_ptr(),
                value.len(),
            ));
        }
        self.finish(event, false);
    }

    /// Stores a new map, deletes an empty one, and tells who wants to know.
    fn finish(mut self, event: &CStr, emptied: bool) {
        debug_assert_eq!(emptied, self.tree().is_some_and(|tree| tree.len() == 0));
        // SAFETY: the handle was opened to write; the server takes the new map over, and frees the empty one, which nobody uses
        // from here on.
        unsafe {
            if let Some(new) = self.new.take().filter(|new| new.len() > 0) {
                let tree = Box::into_raw(new);
                call!(RedisModule_ModuleTypeSetValue(
                    self.opened.0,
                    TYPE.load(Relaxed),
                    tree.cast()
                ));
            }
            if emptied {
                self.tree = ptr::null_mut();
                call!(RedisModule_DeleteKey(self.opened.0));
            }
            let (context, name) = (self.context.0, self.name);
            call!(RedisModule_SignalModifiedKey(context, name));
            drop(self);
            let module = raw::REDISMODULE_NOTIFY_MODULE as c_int;
            call!(RedisModule_NotifyKeyspaceEvent(context, module, event.as_ptr(), name));
            if emptied {
                let generic = raw::REDISMODULE_NOTIFY_GENERIC as c_int;
                call!(RedisModule_NotifyKeyspaceEvent(context, generic, c"del".as_ptr(), name));
            }
        }
    }
}
