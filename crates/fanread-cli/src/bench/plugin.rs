//! Maps of other programs behind the trait of a measured map: a shared object with the functions of `plugin.h`.
//!
//! `examples/c/plugin.h` says what these are. The harness that times maps from outside loads the same files, so one object can be measured
//! by both programs; and a map in any language beside ours in one run.
//!
//! Its scans add up what they visit and show no entry, so they are compared by these sums (`Subject::SUMS`).

#![expect(unsafe_code, reason = "calls functions of shared objects")]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::OnceLock;

use libloading::Library;
use workload::subject::{Handle, Subject};

use crate::bench::worker::{self, Context};

/// How many keys of a batch are translated at a time.
const BATCH: usize = 64;

/// Bits of `idx_flags`.
const STORES_NO_VALUES: u32 = 1;
const NO_ORDER: u32 = 2;
const EIGHT_BYTES_ONLY: u32 = 4;
const ANY_THREADS: u32 = 8;

/// Whether a map's name is that of a shared object's file.
pub(crate) fn is_file(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|end| end == "so")
}

/// Measures a map of the shared object that the job names.
///
/// # Errors
///
/// Those of loading it, and of writing what was found.
pub(crate) fn measure(context: &mut Context<'_>) -> io::Result<()> {
    let plugin = Plugin::load(&context.job.index).map_err(io::Error::other)?;
    let is_ordered = plugin.is_ordered();
    if plugin.flags & EIGHT_BYTES_ONLY != 0 && !context.keys.is_u64() {
        return context.none(worker::NUMBERS_ONLY);
    }
    if plugin.flags & ANY_THREADS == 0 && context.job.threads > 1 {
        return context.none("one thread at a time");
    }
    // The only job of this process.
    let _ = PLUGIN.set(plugin);
    if is_ordered {
        worker::measure::<Measured<true>>(context)
    } else {
        worker::measure::<Measured<false>>(context)
    }
}

/// What this process measures: it is there before the map is made.
static PLUGIN: OnceLock<Plugin> = OnceLock::new();

type Map = *mut c_void;
type Key = *const c_void;

/// The functions of a shared object.
pub(crate) struct Plugin {
    create: unsafe extern "C" fn(u64) -> Map,
    destroy: unsafe extern "C" fn(Map),
    insert: unsafe extern "C" fn(Map, Key, u32, u64) -> c_int,
    get: unsafe extern "C" fn(Map, Key, u32, *mut u64) -> c_int,
    remove: unsafe extern "C" fn(Map, Key, u32) -> c_int,
    /// What is left out is done by those above.
    update: Option<unsafe extern "C" fn(Map, Key, u32, u64) -> c_int>,
    get_batch: Option<unsafe extern "C" fn(Map, *const Key, *const u32, u32, *mut u64) -> u64>,
    scan: Option<unsafe extern "C" fn(Map, Key, u32, u32, *mut u64) -> u64>,
    enter: Option<unsafe extern "C" fn(Map)>,
    exit: Option<unsafe extern "C" fn(Map)>,
    flags: u32,
    /// Keeps the functions where they are.
    _library: Library,
}

impl Plugin {
    /// Loads a shared object.
    ///
    /// What is in the file is run, as with any program that the caller starts: that its functions are those of `plugin.h` is up to him.
    ///
    /// # Errors
    ///
    /// A line on what is wrong with it.
    pub(crate) fn load(name: &str) -> Result<Self, String> {
        // Without a folder in front the system would look for it where libraries are.
        let path = std::path::absolute(name).map_err(|e| e.to_string())?;
        // SAFETY: it is asked for by name to run this file's code.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|e| format!("cannot be loaded: {e}"))?;
        // SAFETY: the types are those of `plugin.h`, and the functions stay with their library.
        let plugin = unsafe {
            let flags = optional::<unsafe extern "C" fn() -> u32>(&library, "idx_flags");
            Self {
                create: needed(&library, "idx_create")?,
                destroy: needed(&library, "idx_destroy")?,
                insert: needed(&library, "idx_insert")?,
                get: needed(&library, "idx_get")?,
                remove: needed(&library, "idx_remove")?,
                update: optional(&library, "idx_update"),
                get_batch: optional(&library, "idx_get_batch"),
                scan: optional(&library, "idx_scan"),
                enter: optional(&library, "idx_thread_enter"),
                exit: optional(&library, "idx_thread_exit"),
                flags: flags.map_or(0, |flags| flags()),
                _library: library,
            }
        };
        if plugin.flags & STORES_NO_VALUES != 0 {
            return Err("it stores no values".into());
        }
        if plugin.is_ordered() && plugin.scan.is_none() {
            return Err("it has no function idx_scan, and does not say that it has no order".into());
        }
        Ok(plugin)
    }

    fn is_ordered(&self) -> bool {
        self.flags & NO_ORDER == 0
    }
}

/// Returns a function of a library.
///
/// # Safety
///
/// `F` is the type of the function with this name, and it is not called once the library is gone.
unsafe fn optional<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller's promise is the same.
    unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|found| *found)
}

/// Returns a function that must be there.
///
/// # Safety
///
/// As for [`optional`].
unsafe fn needed<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller's promise is the same.
    unsafe { optional(library, name) }.ok_or_else(|| format!("it has no function {name}"))
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("flags", &self.flags).finish_non_exhaustive()
    }
}

/// A map of the plugin, with an order or without.
struct Measured<const ORDERED: bool>(Map);

/// A thread's access to it.
struct Entered<'a> {
    plugin: &'static Plugin,
    map: Map,
    /// Of one thread, as `plugin.h` has it.
    of: PhantomData<(&'a (), *mut ())>,
}

// SAFETY: several threads call it only if its flags say that they may (`measure`).
unsafe impl<const ORDERED: bool> Send for Measured<ORDERED> {}
// SAFETY: as above.
unsafe impl<const ORDERED: bool> Sync for Measured<ORDERED> {}

fn plugin() -> &'static Plugin {
    PLUGIN.get().expect("installed before it is measured")
}

impl<const ORDERED: bool> Drop for Measured<ORDERED> {
    fn drop(&mut self) {
        // SAFETY: made by its `idx_create`, and nobody uses it any more.
        unsafe { (plugin().destroy)(self.0) }
    }
}

impl<const ORDERED: bool> Subject for Measured<ORDERED> {
    const NAME: &'static str = "plugin";
    const ORDERED: bool = ORDERED;
    const SUMS: bool = true;
    const BATCHES: bool = true;
    const MAX_KEY_BYTES: usize = u32::MAX as usize;

    type Owned<'a> = Entered<'a>;
    type Shared<'a> = Entered<'a>;

    fn new() -> Self {
        // SAFETY: a function of `plugin.h`; 0 is that nobody knows how many keys there will be.
        let map = unsafe { (plugin().create)(0) };
        assert!(!map.is_null(), "idx_create failed");
        Self(map)
    }

    fn own(&mut self) -> Entered<'_> {
        self.share()
    }

    fn share(&self) -> Entered<'_> {
        let plugin = plugin();
        if let Some(enter) = plugin.enter {
            // SAFETY: the map is there, and this thread goes on to use it.
            unsafe { enter(self.0) }
        }
        Entered { plugin, map: self.0, of: PhantomData }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(exit) = self.plugin.exit {
            // SAFETY: this thread has entered.
            unsafe { exit(self.map) }
        }
    }
}

/// What a function's answer means: 1, 0, or an error.
#[inline]
fn truth(answer: c_int) -> bool {
    assert!(answer >= 0, "a function of the plugin failed");
    answer != 0
}

#[inline]
fn start(key: &[u8]) -> Key {
    key.as_ptr().cast()
}

#[inline]
fn len(key: &[u8]) -> u32 {
    key.len() as u32
}

// SAFETY of all calls: the map is there as long as the handle, and of a key so many bytes are read as there are.
impl Handle for Entered<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        // SAFETY: see above.
        truth(unsafe { (self.plugin.insert)(self.map, start(key), len(key), value) })
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        let Some(update) = self.plugin.update else { return !self.insert(key, value) };
        // SAFETY: see above.
        truth(unsafe { update(self.map, start(key), len(key), value) })
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        let mut value = 0;
        // SAFETY: see above.
        let found = unsafe { (self.plugin.get)(self.map, start(key), len(key), &raw mut value) };
        truth(found).then_some(value)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        // SAFETY: see above.
        truth(unsafe { (self.plugin.remove)(self.map, start(key), len(key)) })
    }

    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        let Some(get_batch) = self.plugin.get_batch else {
            keys.iter().zip(out).for_each(|(key, out)| *out = self.get(key));
            return;
        };
        let (mut starts, mut lens, mut values) = ([start(&[]); BATCH], [0; BATCH], [0; BATCH]);
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            for ((key, at), bytes) in keys.iter().zip(&mut starts).zip(&mut lens) {
                (*at, *bytes) = (start(key), len(key));
            }
            let n = keys.len() as u32;
            // SAFETY: see above; the arrays are as long as there are keys, or longer.
            unsafe {
                get_batch(self.map, starts.as_ptr(), lens.as_ptr(), n, values.as_mut_ptr());
            }
            for (out, value) in out.iter_mut().zip(values) {
                *out = (value != 0).then_some(value);
            }
        }
    }

    #[inline]
    fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let scan = self.plugin.scan.expect("it has an order");
        let mut sum = 0;
        // SAFETY: see above.
        unsafe { scan(self.map, start(from), len(from), count as u32, &raw mut sum) };
        visit(&[], sum);
    }
}
