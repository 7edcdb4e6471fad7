//! Keys and operation mixes from a seed, and the trait of a measured map.
//!
//! * [`dataset`] names the key sets, [`keyset`] holds one of them in one run of bytes.
//! * [`distribution`] chooses keys, [`mix`] turns choices into queries laid out in the order
//!   they run, each with the answer it must get.
//! * [`subject`] is what a map has to implement to be measured.
//!
//! Everything is a function of its seed.

#![allow(clippy::missing_errors_doc, reason = "fires on private items too; public ones say theirs")]

mod arena;
pub mod dataset;
pub mod distribution;
pub mod keyset;
pub mod mix;
pub mod order;
mod points;
mod rng;
pub mod subject;
mod text;

pub use rng::{Rng, mix64};
