//! Indexes that keep many memory reads in flight at once.
//!
//! A lookup in an index larger than the cache waits for one line of memory after another. The maps of
//! this crate ask for the lines of a lookup together, so that a lookup waits one to three times.
//!
//! # Which map
//!
//! | your keys | take | waits for a `get` |
//! | --- | --- | --- |
//! | byte strings, in order | [`OrderedMap`] | 2 |
//! | the same, with byte strings as values | [`BytesMap`] | 2 |
//! | short ones, in the least memory | [`Wormhole`] | 2, or 3 where the key is in a record of its own |
//! | the same, to compare | [`CuckooTrie`] | 2, and 1 more for each 8 levels of a long path |
//! | anything typed, in order | [`OrderedMap`] with the encoders of [`key`] | the same |
//! | of any type with an order, with snapshots, and scans that ask ahead | [`SkipList`] | some 12 at 10 M keys |
//! | `u64`, or what fits one in order | [`U64Map`] | 1 |
//! | the same, to ask for the next key behind absent ones | [`MlpIndex`] | 1, for keys on the usual levels |
//! | `u64` with `u64` values, in a file that outlives the process | [`Cceh`] | 1, sometimes 2 |
//! | byte strings with byte strings, in a file that outlives the process | [`Store`] | 2, sometimes 3 |
//! | of one length, with values of one length, in a file that never changes | [`CuckooTable`] | 1, sometimes 2 |
//!
//! In memory values of at most 8 bytes, with nothing to drop, lie where the lookup is. Others are in boxes: one wait more. In a
//! [`BytesMap`] values of up to 1 KB lie behind their keys.
//!
//! # Features
//!
//! Neither is on unless it is asked for; what maps answer is the same.
//!
//! * `global-alloc`: all memory of maps is from the program's global allocator, in small chunks and none of it on huge pages: for
//!   programs in which that allocator counts memory.
//! * `compact`: an [`OrderedMap`], a [`BytesMap`] and a [`U64Map`] take one to two bytes an entry less; more entries are a line behind
//!   the one where a search begins.
//!
//! # Example
//!
//! ```
//! use fanread::Wormhole;
//!
//! let map = Wormhole::new();
//! let pinned = map.pin();
//! pinned.insert(b"kiwi", 3);
//! pinned.insert(b"apple", 1);
//! assert_eq!(pinned.get(b"kiwi").as_deref(), Some(&3));
//! let first = pinned.first_key_value().map(|(key, value)| (key.to_vec(), *value));
//! assert_eq!(first, Some((b"apple".to_vec(), 1)));
//! ```

#![cfg_attr(
    any(loom, shuttle, not(unix)),
    allow(dead_code, unused_imports, reason = "models, and maps in memory, use a part of it")
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("fanread needs a processor with addresses of 64 bits");

mod api;
mod arch;
mod batch;
mod directory;
#[cfg(all(test, not(loom), not(shuttle)))]
mod flooding;
mod hash;
mod index;
pub mod key;
mod list;
mod mem;
#[cfg(unix)]
pub mod persist;
#[cfg(all(test, not(loom), not(shuttle)))]
mod pointers;
mod prefix;
mod shards;
mod sync;
pub mod table;

pub use api::{InsertError, Key, LoadError, MemoryUsage, Options, Ref};
pub use index::cuckoo_trie::{self, CuckooTrie};
pub use index::mlp_index::{self, MlpIndex};
pub use index::ordered_map::bytes::{self as bytes_map, BytesMap};
pub use index::ordered_map::{self, OrderedMap};
pub use index::skip_list::{self, SkipList};
pub use index::u64_map::{self, U64Map};
pub use index::wormhole::{self, Wormhole};
#[cfg(unix)]
pub use persist::{Cceh, Store};
pub use table::{CuckooTable, TableBuilder};

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/choosing.md")]
    struct Choosing;
    #[doc = include_str!("../../../docs/guide/rust.md")]
    struct Rust;
    #[doc = include_str!("../../../docs/guide/tuning.md")]
    struct Tuning;
}
