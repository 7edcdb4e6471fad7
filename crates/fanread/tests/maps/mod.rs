//! The same tests for every ordered map: each file of `suite/` is compiled once for each of them.

/// Makes a module of a suite's tests for every map. In it, `Map` is the map's type and `map` its module.
macro_rules! for_each_map {
    ($file:literal) => {
        for_each_map! { $file, wormhole, Wormhole }
        for_each_map! { $file, cuckoo_trie, CuckooTrie }
    };
    ($file:literal, $module:ident, $map:ident) => {
        mod $module {
            pub(crate) use fanread::$map as Map;
            #[allow(unused_imports, reason = "not every suite names its other types")]
            pub(crate) use fanread::$module as map;

            #[allow(dead_code, reason = "each suite uses its part")]
            mod common {
                include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/common.rs"));
            }

            include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/", $file));
        }
    };
}
