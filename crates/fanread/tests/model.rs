//! Every map against the model: one suite for all of them.
//!
//! `FANREAD_SEED` replays a run, `FANREAD_SEEDS` makes more of them. A seed is about a million operations for a map on byte strings and
//! 400,000 for one on numbers, so that
//! `FANREAD_SEEDS=16 cargo test --release -p fanread --test model` is more than ten million.

#[macro_use]
mod maps;

for_each_map! { "model.rs", strings: "strings/model.rs" }
