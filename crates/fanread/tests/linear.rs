//! Threads on one map, and every history they leave checked: point calls for linearizability, scans for what they
//! promise.
//!
//! Beside the threads of a history, which meet on a few keys, a map is under churn: each call also inserts and removes
//! keys that lie between those of the test, so that leaves grow, split and merge under the calls that are checked.
//!
//! `RUSTFLAGS="--cfg small_leaves"` makes leaves of 7 entries, so that nearly every call meets a split or a merge.
//!
//! `FANREAD_HISTORIES` sets how many histories each test makes; 7,500 make 10^5 in all.

#[macro_use]
mod maps;

for_each_map! {
    "linear.rs", strings: "strings/linear.rs", numbers: "numbers/linear.rs", typed: "typed/linear.rs"
}
