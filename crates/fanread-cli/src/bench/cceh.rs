//! [`fanread::Cceh`] in memory behind the traits of a measured map. A hash map: it has no order to scan in.

use fanread::Cceh;
use fanread::persist::cceh::CcehOptions;
use workload::subject::{Handle, Subject};

/// Answers that a batched lookup takes room for at once.
const BATCH: usize = 64;

/// The map.
pub(crate) struct Measured(Cceh);

/// A thread's access to it.
pub(crate) struct Shared<'a>(&'a Cceh);

impl Subject for Measured {
    const NAME: &'static str = "cceh";
    const ORDERED: bool = false;
    const BATCHES: bool = true;
    const MAX_KEY_BYTES: usize = 8;

    type Owned<'a> = Shared<'a>;
    type Shared<'a> = Shared<'a>;

    fn new() -> Self {
        match Cceh::in_memory(CcehOptions::new()) {
            Ok(map) => Self(map),
            Err(e) => panic!("cannot make the map: {e}"),
        }
    }

    fn own(&mut self) -> Shared<'_> {
        self.share()
    }

    fn share(&self) -> Shared<'_> {
        Shared(&self.0)
    }
}

#[inline]
fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("keys of eight bytes"))
}

impl Shared<'_> {
    #[inline]
    fn put(&self, key: &[u8], value: u64) -> Option<u64> {
        match self.0.insert(number(key), value) {
            Ok(old) => old,
            Err(e) => panic!("cannot insert: {e}"),
        }
    }
}

impl Handle for Shared<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.put(key, value).is_none()
    }

    #[inline]
    fn update(&mut self, key: &[u8], value: u64) -> bool {
        self.put(key, value).is_some()
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.0.get(number(key))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> bool {
        self.0.remove(number(key)).is_some()
    }

    #[inline]
    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        let mut numbers = [0; BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let numbers = &mut numbers[..keys.len()];
            numbers.iter_mut().zip(keys).for_each(|(into, key)| *into = number(key));
            self.0.get_batch(numbers, out);
        }
    }

    fn scan(&mut self, _: &[u8], _: usize, _: impl FnMut(&[u8], u64)) {
        unreachable!("a hash map has no order")
    }
}
