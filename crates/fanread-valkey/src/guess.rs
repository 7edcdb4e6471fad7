//! The map that the last command used, which most likely is the next one's, too.
//!
//! Before a command has its key, the server looks the key up, which takes as long as a line of memory does. So what a lookup of the field
//! would wait for in *this* map is asked for before that. If it was another map that the command meant, some lines came for nothing.
//!
//! # Why no map is looked at that was freed
//!
//! * Maps that the server has are freed by [`forget`] first, in whatever thread. Only such maps are [`remembered`](remember), by
//!   commands, which have found them under a key.
//! * Who looks at the map puts [`LOOKING`] in its place meanwhile. `forget` waits for its end, which is some fifty instructions away,
//!   and returns when the place is seen to have another map, or none.
//! * A map that is being freed is under no key, so it is not remembered again.

use std::ptr;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

use fanread::bytes_map::Asked;

use crate::tree::Tree;

/// The map; null if none is known.
static LAST: AtomicPtr<Tree> = AtomicPtr::new(ptr::null_mut());

/// Instead of a map: somebody is looking at it. No map is at such an address.
const LOOKING: *mut Tree = ptr::without_provenance_mut(1);

/// Puts the map back where it was.
struct Back(*mut Tree);

impl Drop for Back {
    fn drop(&mut self) {
        // Release: who frees the map does so behind all that was read of it.
        LAST.store(self.0, Release);
    }
}

/// Asks for what a lookup of a field waits for first, if it is one in the map that the last command used, and says what that lookup need
/// not find out again.
///
/// Called at the start of a command, on the one thread that runs them.
#[inline]
pub(crate) fn ask(field: &[u8]) -> Option<Asked> {
    look(|tree| tree.ask(field)).flatten()
}

/// The same before an entry is set.
#[inline]
pub(crate) fn ask_to_set(field: &[u8]) {
    look(|tree| tree.ask_to_set(field));
}

#[inline]
fn look<R>(look: impl FnOnce(&Tree) -> R) -> Option<R> {
    // Acquire: a map that is found was whole when it was remembered.
    let back = Back(LAST.swap(LOOKING, Acquire));
    // SAFETY: the map is not freed before it is put back (see the module), and nobody changes it, for that is what commands do.
    unsafe { back.0.as_ref() }.map(look)
}

/// Whether this is the map that the last command used. Called by a command.
#[inline]
pub(crate) fn is_last(tree: *mut Tree) -> bool {
    // Relaxed: as in `remember`.
    LAST.load(Relaxed) == tree
}

/// Remembers a map that was found under a key. Called by a command.
#[inline]
pub(crate) fn remember(tree: *mut Tree) {
    // Relaxed: only commands put other maps there, one at a time.
    if LAST.load(Relaxed) != tree {
        // Release: see `ask`.
        LAST.store(tree, Release);
    }
}

/// Forgets a map that is going to be freed, on any thread.
pub(crate) fn forget(tree: *mut Tree) {
    loop {
        // Acquire: see `Back`.
        match LAST.compare_exchange(tree, ptr::null_mut(), Acquire, Acquire) {
            Err(LOOKING) => std::hint::spin_loop(),
            _ => return,
        }
    }
}
