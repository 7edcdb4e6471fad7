//! The maps of this library behind the trait of a measured map.

use workload::subject::{Handle, Subject};

/// Answers that a batched lookup takes room for at once.
const BATCH: usize = 64;

/// Puts an ordered map on byte strings behind the traits.
macro_rules! ordered_map {
    ($name:literal: $map:ident, $module:ident, $subject:ident, $handle:ident) => {
        #[doc = concat!("A [`fanread::", stringify!($map), "`] with numbers as values.")]
        pub(crate) struct $subject(fanread::$map<u64>);

        #[doc = concat!("A pinned [`fanread::", stringify!($map), "`].")]
        pub(crate) struct $handle<'a>(fanread::$module::Pinned<'a, u64>);

        impl Subject for $subject {
            const NAME: &'static str = $name;
            const BATCHES: bool = true;
            const MAX_KEY_BYTES: usize = fanread::$module::MAX_KEY_BYTES;

            type Owned<'a> = $handle<'a>;
            type Shared<'a> = $handle<'a>;

            fn new() -> Self {
                Self(fanread::$map::new())
            }

            fn own(&mut self) -> $handle<'_> {
                self.share()
            }

            fn share(&self) -> $handle<'_> {
                $handle(self.0.pin())
            }
        }

        impl Handle for $handle<'_> {
            #[inline]
            fn repin(&mut self) {
                self.0.repin();
            }

            #[inline]
            fn insert(&mut self, key: &[u8], value: u64) -> bool {
                self.0.insert(key, value).is_none()
            }

            #[inline]
            fn update(&mut self, key: &[u8], value: u64) -> bool {
                self.0.insert(key, value).is_some()
            }

            #[inline]
            fn get(&mut self, key: &[u8]) -> Option<u64> {
                self.0.get(key).map(|value| *value)
            }

            #[inline]
            fn remove(&mut self, key: &[u8]) -> bool {
                self.0.remove(key).is_some()
            }

            #[inline]
            fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
                let mut found = [None; BATCH];
                for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
                    let found = &mut found[..keys.len()];
                    self.0.get_batch(keys, found);
                    for (out, found) in out.iter_mut().zip(found) {
                        *out = found.map(|value| *value);
                    }
                }
            }

            #[inline]
            fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
                for (key, value) in self.0.range(from..).take(count) {
                    visit(&key, *value);
                }
            }
        }
    };
}

ordered_map! { "wormhole": Wormhole, wormhole, OurWormhole, WormholeHandle }
ordered_map! { "cuckoo-trie": CuckooTrie, cuckoo_trie, OurCuckooTrie, CuckooTrieHandle }
