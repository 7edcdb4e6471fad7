//! The map itself under a scheduler that decides at every atomic access which thread goes on.
//!
//! Each scenario starts from a leaf that is about to split or merge, lets two or three threads make a few calls, checks
//! their history, and verifies the map; 10,000 schedules of it are random and 10,000 follow probabilistic concurrency
//! testing (few switches, at well-chosen places).
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle cargo test --release -p fanread --test shuttle
//! ```
//!
//! `FANREAD_SCHEDULES` sets the number of schedules.
//!
//! The scheduler switches between threads, it does not reorder memory: orderings are the business of the models in
//! `sync/version.rs`. All threads of a schedule run on one thread of the system and therefore pin the same epoch, so
//! memory is reused only where none of them is pinned: less often than in truth, never earlier.

#![cfg(shuttle)]

#[macro_use]
mod maps;
#[path = "maps/scenes.rs"]
mod scenes;

for_each_map! { bytes, [scenes ["shuttle.rs", "strings/shuttle.rs", "bytes/shuttle.rs"]] }

for_each_map! {
    scenes: "shuttle.rs", strings: "strings/shuttle.rs", numbers: "numbers/shuttle.rs", typed: "typed/shuttle.rs";
}
