//! Hash functions, each with a seed of its own per map, so that nobody can prepare colliding keys.

pub(crate) mod mix;
pub(crate) mod prefix;
