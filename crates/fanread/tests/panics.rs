//! User code that panics wherever a map calls it: in `Drop`, in closures, in `Clone`, `PartialEq` and `AsRef`. The map
//! stays usable, and every value is dropped exactly once.

#[macro_use]
mod maps;

for_each_map! { "panics.rs", strings: "strings/panics.rs" }
