//! Faults that such maps are known for, one test each: what other implementations got wrong, and what users do to a map.
//!
//! Memory has its own file, `memory.rs`. Failing allocations and colliding hashes need the inside of the crate:
//! `src/index/wormhole/tests.rs`. Panics of user code are in `panics.rs`.

#[macro_use]
mod maps;

for_each_map! {
    "faults.rs", strings: "strings/faults.rs", numbers: "numbers/faults.rs", typed: "typed/faults.rs"
}
