//! The maps, strangers to each other.

pub mod cuckoo_trie;
pub mod mlp_index;
pub mod ordered_map;
pub mod skip_list;
pub mod u64_map;
pub mod wormhole;
