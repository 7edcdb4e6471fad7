//! The maps, strangers to each other.

pub mod wormhole;
