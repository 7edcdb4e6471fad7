//! Measuring: what is measured, on which maps, and how.
//!
//! `rounds` plans the runs and starts one process of this program for each; `worker` is that
//! process. `driver` holds the timed loops, `grow` those of a map that grows under readers, `least` compares several runs of it, `reopen` lets a process be
//! killed and opens its map, `verify` holds the checks between them. `plugin` is a map of a shared object. `history` times
//! nothing: it writes down what threads did.

pub(crate) mod cceh;
pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod grow;
pub(crate) mod history;
pub(crate) mod job;
pub(crate) mod least;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod ours;
pub(crate) mod plugin;
pub(crate) mod registry;
pub(crate) mod reopen;
pub(crate) mod rounds;
pub(crate) mod skip_list;
pub(crate) mod table;
pub(crate) mod verify;
pub(crate) mod worker;

#[cfg(test)]
mod tests;
