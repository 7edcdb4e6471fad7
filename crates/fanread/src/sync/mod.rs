//! What threads share: atomics that tests can schedule, the version word of a leaf, and memory that is
//! freed only when nobody can still be reading it.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]

pub(crate) mod backoff;
pub(crate) mod epoch;
pub(crate) mod freeze;
pub(crate) mod lock;
pub(crate) mod shared;
pub(crate) mod shim;
pub(crate) mod thread;
pub(crate) mod version;
