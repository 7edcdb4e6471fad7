//! Hash functions, each with a seed of its own per map, so that nobody can prepare colliding keys.

#![allow(clippy::inline_always, reason = "steps of a few instructions, called from hot loops")]

pub(crate) mod mix;
pub(crate) mod prefix;
