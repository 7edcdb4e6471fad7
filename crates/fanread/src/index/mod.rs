//! The maps, strangers to each other.

pub(crate) mod cuckoo_trie;
pub mod wormhole;
