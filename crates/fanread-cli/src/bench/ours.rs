//! The maps of this library behind the trait of a measured map: a module for each, named as in the library.

use crate::maps::for_our_maps;

/// Answers that a batched lookup takes room for at once.
const BATCH: usize = 64;

/// Puts ordered maps on byte strings behind the traits.
macro_rules! subjects {
    ($($name:literal: $module:ident, $map:ident;)*) => {
        $(
            pub(crate) mod $module {
                use workload::subject::{Handle, Subject};

                use super::BATCH;

                #[doc = concat!("A [`fanread::", stringify!($map), "`] with numbers as values.")]
                pub(crate) struct Measured(fanread::$map<u64>);

                #[doc = concat!("A pinned [`fanread::", stringify!($map), "`].")]
                pub(crate) struct Pinned<'a>(fanread::$module::Pinned<'a, u64>);

                impl Subject for Measured {
                    const NAME: &'static str = $name;
                    const BATCHES: bool = true;
                    const MAX_KEY_BYTES: usize = fanread::$module::MAX_KEY_BYTES;

                    type Owned<'a> = Pinned<'a>;
                    type Shared<'a> = Pinned<'a>;

                    fn new() -> Self {
                        Self(fanread::$map::new())
                    }

                    fn own(&mut self) -> Pinned<'_> {
                        self.share()
                    }

                    fn share(&self) -> Pinned<'_> {
                        Pinned(self.0.pin())
                    }
                }

                impl Handle for Pinned<'_> {
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
            }
        )*
    };
}

for_our_maps! { subjects }
