//! Hash functions. Those of maps have a seed of their own per map, so that nobody can prepare colliding keys; those of
//! files (`fixed`) are what the format prescribes.

#![allow(clippy::inline_always, reason = "steps of a few instructions, called from hot loops")]

pub(crate) mod fixed;
pub(crate) mod mix;
pub(crate) mod permute;
pub(crate) mod prefix;
