//! The same tests for every ordered map: each file of `suite/` is compiled once for each of them.
//!
//! The suites speak of keys as byte strings. A map on numbers is tested through [`numbers.rs`](numbers.rs), which takes
//! byte strings of eight bytes for what they are as numbers, and with keys of such shapes only (`NUMBERS` says so); one on keys
//! of any type through [`typed.rs`](typed.rs), with boxed byte strings. What a suite says of one kind of maps stands in a file
//! of its own, in `suite/strings/`, `suite/numbers/` or `suite/typed/`.
//!
//! The map of byte strings goes through the suites that ask nothing but numbers of its values, by [`bytes.rs`](bytes.rs).

/// Makes a module for every map, and in it one of each suite with the tests of its files. There, `Map` is the map's type and
/// `map` its module, `Key` is a key that was found, `Whole` is the type in the library, `NAME` is what counts call it, `NUMBERS` says whether the map is one on
/// numbers, and `LIMITED` whether keys may be too long.
macro_rules! for_each_map {
    ($($suite:ident: $file:literal $(, strings: $strings:literal)? $(, numbers: $numbers:literal)? $(, typed: $typed:literal)?;)+) => {
        for_each_map! { strings, wormhole, Wormhole, [$($suite [$file $(, $strings)?])+] }
        for_each_map! { strings, ordered_map, OrderedMap, [$($suite [$file $(, $strings)?])+] }
        for_each_map! { strings, cuckoo_trie, CuckooTrie, [$($suite [$file $(, $strings)?])+] }
        for_each_map! { numbers, mlp_index, MlpIndex, [$($suite [$file $(, $numbers)?])+] }
        for_each_map! { numbers, u64_map, U64Map, [$($suite [$file $(, $numbers)?])+] }
        for_each_map! { typed, skip_list, SkipList, [$($suite [$file $(, $typed)?])+] }
    };
    (strings, $module:ident, $map:ident, $suites:tt) => {
        mod $module {
            #[allow(unused_imports, reason = "each suite uses its part")]
            pub(crate) use fanread::{$map as Map, $map as Whole, $module as map, Key, Ref};

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NAME: &str = stringify!($module);

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NUMBERS: bool = false;

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const LIMITED: bool = true;

            for_each_map! { suites $suites }
        }
    };
    (numbers, $module:ident, $map:ident, $suites:tt) => {
        mod $module {
            #[allow(unused_imports, reason = "each suite uses its part")]
            pub(crate) use self::map::{Key, Map};
            #[allow(unused_imports, reason = "each suite uses its part")]
            pub(crate) use fanread::{$map as Whole, Ref};

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NAME: &str = stringify!($module);

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NUMBERS: bool = true;

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const LIMITED: bool = true;

            #[allow(dead_code, reason = "each suite uses its part")]
            #[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
            mod map {
                use fanread::{$map as Whole, $module as library};
                use fanread::{InsertError, LoadError, MemoryUsage, Options, Ref};

                include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/numbers.rs"));
            }

            for_each_map! { suites $suites }
        }
    };
    (typed, $module:ident, $map:ident, $suites:tt) => {
        mod $module {
            #[allow(unused_imports, reason = "each suite uses its part")]
            pub(crate) use self::map::{Key, Map, Whole};
            #[allow(unused_imports, reason = "each suite uses its part")]
            pub(crate) use fanread::Ref;

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NAME: &str = stringify!($module);

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NUMBERS: bool = false;

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const LIMITED: bool = false;

            #[allow(dead_code, reason = "each suite uses its part")]
            #[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
            mod map {
                use fanread::$module as library;
                use fanread::{InsertError, LoadError, MemoryUsage, Options, Ref};

                pub(crate) type Whole<V> = fanread::$map<Box<[u8]>, V>;

                include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/typed.rs"));
            }

            for_each_map! { suites $suites }
        }
    };
    (bytes, [$($suite:ident $files:tt)+]) => {
        mod bytes_map {
            #[allow(unused_imports, reason = "each suite uses its part")]
            pub(crate) use self::map::{Map, Ref};
            #[allow(unused_imports, reason = "each suite uses its part")]
            pub(crate) use fanread::Key;

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NAME: &str = "bytes_map";

            #[allow(dead_code, reason = "each suite uses its part")]
            pub(crate) const NUMBERS: bool = false;

            #[allow(dead_code, reason = "each suite uses its part")]
            #[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
            mod map {
                include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/bytes.rs"));
            }

            for_each_map! { suites [$($suite $files)+] }
        }
    };
    (suites [$($suite:ident [$($file:literal),*])+]) => {
        #[allow(dead_code, reason = "each suite uses its part")]
        mod common {
            include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/common.rs"));
        }

        $(
            pub(crate) mod $suite {
                #[allow(unused_imports, reason = "each suite uses its part")]
                use super::*;

                $(include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/", $file));)*
            }
        )+
    };
}
