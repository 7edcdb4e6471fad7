//! The maps, strangers to each other.

pub mod cuckoo_trie;
pub mod wormhole;
