//! The maps of this library: the one list from which `bench` and `query` take them.

/// Hands the list to the macro `$then`: of each map its name on the command line, its module in the library and its type;
/// first those on byte strings, then those on numbers.
macro_rules! for_our_maps {
    ($then:ident) => {
        $then! {
            strings {
                "wormhole": wormhole, Wormhole;
                "ordered-map": ordered_map, OrderedMap;
                "cuckoo-trie": cuckoo_trie, CuckooTrie;
            }
            numbers {
                "mlp-index": mlp_index, MlpIndex;
                "u64-map": u64_map, U64Map;
            }
        }
    };
}

pub(crate) use for_our_maps;
