//! How much memory a map takes, and that it comes back into use.
//!
//! All maps of a process share its epochs, so a reader of one test would hold back the memory of another: those that
//! measure run one at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[macro_use]
mod maps;

for_each_map! { memory: "memory.rs"; }

/// Waits until no other test of this file is running.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
