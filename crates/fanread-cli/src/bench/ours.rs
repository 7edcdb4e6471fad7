//! The maps of this library behind the trait of a measured map.

use fanread::Wormhole;
use fanread::wormhole::{MAX_KEY_BYTES, Pinned};
use workload::subject::{Handle, Subject};

/// Answers that a batched lookup takes room for at once.
const BATCH: usize = 64;

/// A [`Wormhole`] with numbers as values.
pub(crate) struct OurWormhole(Wormhole<u64>);

/// A pinned [`Wormhole`].
pub(crate) struct WormholeHandle<'a>(Pinned<'a, u64>);

impl Subject for OurWormhole {
    const NAME: &'static str = "wormhole";
    const BATCHES: bool = true;
    const MAX_KEY_BYTES: usize = MAX_KEY_BYTES;

    type Owned<'a> = WormholeHandle<'a>;
    type Shared<'a> = WormholeHandle<'a>;

    fn new() -> Self {
        Self(Wormhole::new())
    }

    fn own(&mut self) -> WormholeHandle<'_> {
        self.share()
    }

    fn share(&self) -> WormholeHandle<'_> {
        WormholeHandle(self.0.pin())
    }
}

impl Handle for WormholeHandle<'_> {
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
