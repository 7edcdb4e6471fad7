//! Statuses, and the message of a thread's last failed call.
//!
//! A status of 0 or more says what happened, a negative one what went wrong. Only the latter leave
//! a message, so that a call that succeeds touches nothing but the map.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::io;

use fanread::persist::cceh::CcehError;
use fanread::table::{BuildError, TableError};
use fanread::{InsertError, LoadError};

/// What a call did, if 0 or more; why it did nothing, if negative. Of two errors the map may have changed all the same:
/// see `FANREAD_OUT_OF_MEMORY` and `FANREAD_PANIC`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum fanread_status {
    /// Done: the key was there, or the entry is new, or there was nothing to tell.
    FANREAD_OK = 0,
    /// No such key, or no further entry. Outputs are as they were, unless the function says otherwise.
    FANREAD_NOT_FOUND = 1,
    /// Done, and the key had a value, which was replaced.
    FANREAD_REPLACED = 2,
    /// Not done: the key has another value than the one expected, or has one where none is expected.
    FANREAD_REFUSED = 3,
    /// A pointer is NULL that must not be.
    FANREAD_NULL = -1,
    /// A handle is of another type, or was freed; or a guard is of another thread.
    FANREAD_HANDLE = -2,
    /// An argument is none of those that are possible: a length, a misaligned array, a buffer that
    /// was not initialised.
    FANREAD_ARGUMENT = -3,
    /// There is no kind of map, or of values, of that number or name.
    FANREAD_UNKNOWN_KIND = -4,
    /// A key has not 8 bytes, and the map, or the function, is for those of 8 bytes alone; or, in a
    /// table, not the length of the others.
    FANREAD_KEY_LENGTH = -5,
    /// A key, or a value, is longer than the map takes.
    FANREAD_TOO_LONG = -6,
    /// The function is for values of the other kind than the map's.
    FANREAD_VALUE_KIND = -7,
    /// Keys that must ascend do not.
    FANREAD_NOT_ASCENDING = -8,
    /// The cursor is not at an entry.
    FANREAD_NO_ENTRY = -9,
    /// There is no memory, or the map is as large as its kind can be. If the memory was for a value that is handed back, what
    /// the call is for has taken place; pass NULL where a replaced value is not wanted. Of a batch, entries before it are in.
    FANREAD_OUT_OF_MEMORY = -10,
    /// The system refused something, such as to open a file.
    FANREAD_IO = -11,
    /// The file is open already, here or in another process.
    FANREAD_BUSY = -12,
    /// The file is not of this kind, or is damaged.
    FANREAD_DAMAGED = -13,
    /// Too many keys have nearly the same hash.
    FANREAD_CROWDED = -14,
    /// The entries make no table: there are none, or a key is there twice, or lengths differ.
    FANREAD_NO_TABLE = -15,
    /// The call was given up where it stood, and what it was to change may be changed or not: a defect of the library; or there
    /// is no memory, in a call that does not name `FANREAD_OUT_OF_MEMORY` among its errors.
    FANREAD_PANIC = -16,
}

use fanread_status::{
    FANREAD_ARGUMENT, FANREAD_BUSY, FANREAD_CROWDED, FANREAD_DAMAGED, FANREAD_HANDLE, FANREAD_IO,
    FANREAD_KEY_LENGTH, FANREAD_NO_ENTRY, FANREAD_NO_TABLE, FANREAD_NOT_ASCENDING,
    FANREAD_NOT_FOUND, FANREAD_NULL, FANREAD_OK, FANREAD_OUT_OF_MEMORY, FANREAD_PANIC,
    FANREAD_REFUSED, FANREAD_REPLACED, FANREAD_TOO_LONG, FANREAD_UNKNOWN_KIND, FANREAD_VALUE_KIND,
};

/// Every status, with the sentence of it.
const STATUSES: [(fanread_status, &CStr); 20] = [
    (FANREAD_OK, c"done"),
    (FANREAD_NOT_FOUND, c"not found"),
    (FANREAD_REPLACED, c"done, and a value was replaced"),
    (FANREAD_REFUSED, c"refused, the key has a value that forbids it"),
    (FANREAD_NULL, c"a pointer is NULL that must not be"),
    (FANREAD_HANDLE, c"a handle is of another type or another thread, or was freed"),
    (FANREAD_ARGUMENT, c"an argument is none of those that are possible"),
    (FANREAD_UNKNOWN_KIND, c"there is no such kind"),
    (FANREAD_KEY_LENGTH, c"a key has a length that is not possible here"),
    (FANREAD_TOO_LONG, c"a key or value is too long"),
    (FANREAD_VALUE_KIND, c"the map has values of the other kind"),
    (FANREAD_NOT_ASCENDING, c"keys do not ascend"),
    (FANREAD_NO_ENTRY, c"the cursor is not at an entry"),
    (FANREAD_OUT_OF_MEMORY, c"no memory"),
    (FANREAD_IO, c"the system refused something"),
    (FANREAD_BUSY, c"the file is open already"),
    (FANREAD_DAMAGED, c"the file is not of this kind, or is damaged"),
    (FANREAD_CROWDED, c"too many keys have nearly the same hash"),
    (FANREAD_NO_TABLE, c"the entries make no table"),
    (FANREAD_PANIC, c"a defect of the library"),
];

/// Why a call did nothing.
#[derive(Debug)]
pub(crate) struct Fault(Box<Told>);

#[derive(Debug)]
struct Told {
    status: fanread_status,
    text: String,
}

/// What a call did, or why it did nothing.
pub(crate) type Outcome = Result<fanread_status, Fault>;

impl Fault {
    #[cold]
    pub(crate) fn new(status: fanread_status, text: impl Into<String>) -> Self {
        Self(Box::new(Told { status, text: text.into() }))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn null(what: &str) -> Self {
        Self::new(FANREAD_NULL, format!("{what} is NULL"))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn misaligned(what: &str) -> Self {
        Self::new(FANREAD_ARGUMENT, format!("{what} is misaligned"))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn not_of(what: &str) -> Self {
        Self::new(FANREAD_HANDLE, format!("not a handle of a {what}"))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn length(what: &str, count: usize) -> Self {
        Self::new(FANREAD_ARGUMENT, format!("{what} cannot have a length of {count}"))
    }

    #[cold]
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(FANREAD_ARGUMENT, text)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn no_memory(bytes: usize) -> Self {
        Self::new(FANREAD_OUT_OF_MEMORY, format!("no memory for {bytes} more bytes"))
    }

    /// Says it to this thread, and returns the status.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell(self) -> fanread_status {
        let text = CString::new(self.0.text.replace('\0', " ")).unwrap_or_default();
        // A thread that is ending has no place for a message, and nobody to read it.
        let _ = LAST.try_with(|last| *last.borrow_mut() = text);
        self.0.status
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

impl<V> From<InsertError<V>> for Fault {
    #[cold]
    fn from(error: InsertError<V>) -> Self {
        let status = match error {
            InsertError::KeyTooLong { .. } => FANREAD_TOO_LONG,
            _ => FANREAD_OUT_OF_MEMORY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<LoadError> for Fault {
    #[cold]
    fn from(error: LoadError) -> Self {
        let status = match error {
            LoadError::NotAscending { .. } => FANREAD_NOT_ASCENDING,
            LoadError::KeyTooLong { .. } => FANREAD_TOO_LONG,
            _ => FANREAD_OUT_OF_MEMORY,
        };
        Self::new(status, error.to_string())
    }
}

/// An error of the system is told with its cause.
fn io_fault(error: &dyn std::error::Error, cause: &io::Error) -> Fault {
    let status = match cause.kind() {
        io::ErrorKind::WouldBlock => FANREAD_BUSY,
        _ => FANREAD_IO,
    };
    Fault::new(status, format!("{error}: {cause}"))
}

impl From<CcehError> for Fault {
    #[cold]
    fn from(error: CcehError) -> Self {
        let status = match &error {
            CcehError::Io(cause) => return io_fault(&error, cause),
            CcehError::OutOfMemory { .. } => FANREAD_OUT_OF_MEMORY,
            CcehError::TooLong { .. } => FANREAD_TOO_LONG,
            CcehError::Crowded => FANREAD_CROWDED,
            _ => FANREAD_DAMAGED,
        };
        Self::new(status, error.to_string())
    }
}

impl From<TableError> for Fault {
    #[cold]
    fn from(error: TableError) -> Self {
        let status = match &error {
            TableError::Io(cause) => return io_fault(&error, cause),
            TableError::OutOfMemory { .. } => FANREAD_OUT_OF_MEMORY,
            _ => FANREAD_DAMAGED,
        };
        Self::new(status, error.to_string())
    }
}

impl From<BuildError> for Fault {
    #[cold]
    fn from(error: BuildError) -> Self {
        let status = match &error {
            BuildError::Io(cause) | BuildError::Spill(cause) => return io_fault(&error, cause),
            BuildError::OutOfMemory { .. } => FANREAD_OUT_OF_MEMORY,
            BuildError::KeyLength { .. }
            | BuildError::EmptyKey
            | BuildError::IdentityNeedsEightBytes { .. } => FANREAD_KEY_LENGTH,
            BuildError::TooLong { .. } => FANREAD_TOO_LONG,
            // So many buckets, or none, are what the options ask for.
            BuildError::HashRatio { .. } | BuildError::Buckets { .. } => FANREAD_ARGUMENT,
            _ => FANREAD_NO_TABLE,
        };
        Self::new(status, error.to_string())
    }
}

/// Returns the message of this thread's last call that returned a negative status; an empty string if there was none.
///
/// Ownership: the library's. The string is valid until the next call of this thread that fails, or the thread's end.
/// Threads: any; each has a message of its own.
#[unsafe(no_mangle)]
pub extern "C" fn fanread_last_error() -> *const c_char {
    // No user code and no panic: a borrow that is taken, or a thread that is ending, has no message.
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |text| text.as_ptr()))
        .unwrap_or(c"".as_ptr())
}

/// Returns what a status means, in a few words; for a number that is none, it says so.
///
/// Ownership: the library's, for ever. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fanread_status_message(status: i32) -> *const c_char {
    let found = STATUSES.iter().find(|(known, _)| *known as i32 == status);
    found.map_or(c"not a status", |(_, text)| *text).as_ptr()
}

/// Returns the version of the library that is running, such as "0.1.0".
///
/// Ownership: the library's, for ever. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fanread_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
