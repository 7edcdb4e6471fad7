//! Every map through the same suites, as one program: each map is compiled once for all of them.
//!
//! | suite | says |
//! | --- | --- |
//! | `model` | a map answers as std's `BTreeMap` does, one call after another |
//! | `linear` | threads on one map leave histories that are linearizable, and scans that keep their promise |
//! | `faults` | what other implementations got wrong, and what users do to a map, does no harm |
//! | `panics` | user code that panics wherever a map calls it leaves the map usable, and each value dropped once |
//! | `spelled` | what fuzzing found stays found |
//! | `api` | where types may go, how long they live, what compiles and what does not |
//!
//! `cargo test --test suites wormhole::` runs those of one map, `cargo test --test suites ::linear::` one suite of all. How much
//! memory a map takes has a program of its own, `memory.rs`. Failing allocations and colliding hashes need the inside of the
//! crate: the `tests.rs` of each map.
//!
//! # More of it
//!
//! * `FANREAD_SEED` replays a run against the model, `FANREAD_SEEDS` makes more of them. A seed is about a million operations for a
//!   map on byte strings and 400,000 for one on numbers, so that `FANREAD_SEEDS=16 cargo test --release -p fanread
//!   --test suites model` is more than ten million.
//! * Beside the threads of a history, which meet on a few keys, a map is under churn: each call also inserts and removes
//!   keys that lie between those of the test, so that leaves grow, split and merge under the calls that are checked.
//!   `FANREAD_HISTORIES` sets how many histories each test makes; 7,500 make 10^5 in all.
//! * `RUSTFLAGS="--cfg small_leaves"` makes leaves of 7 entries, so that nearly every call meets a split or a merge.

// Where they have run with tiny leaves just before, which takes as long to compile again as all else.
#![cfg(not(suites_ran))]

#[macro_use]
mod maps;

for_each_map! {
    model: "model.rs", strings: "strings/model.rs";
    linear: "linear.rs", strings: "strings/linear.rs", numbers: "numbers/linear.rs", typed: "typed/linear.rs";
    faults: "faults.rs", strings: "strings/faults.rs", numbers: "numbers/faults.rs", typed: "strings/faults.rs";
    panics: "panics.rs", strings: "strings/panics.rs";
    spelled: "spelled.rs";
    api: "api.rs", strings: "strings/api.rs", numbers: "numbers/api.rs", typed: "typed/api.rs";
}

for_each_map! {
    bytes, [model ["model.rs", "strings/model.rs"] linear ["linear.rs", "strings/linear.rs"]]
}
