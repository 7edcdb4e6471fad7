//! Every map against the model: one suite for all of them.
//!
//! `FANREAD_SEED` replays a run, `FANREAD_SEEDS` makes more of them. A seed is about 800,000 operations, so that
//! `FANREAD_SEEDS=16 cargo test --release -p fanread --test model` is more than ten million.

#[macro_use]
mod maps;

for_each_map! { "model.rs" }
