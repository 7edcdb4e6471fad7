//! The trait of a measured map.
//!
//! A subject is a type, not an object: the timed loops are compiled once for each subject, so
//! that no call of the map goes through a table of functions. Keys are byte strings, values are
//! 64-bit numbers.
//!
//! Two handles: the one from [`Subject::own`] may do everything while one thread has the map;
//! the one from [`Subject::share`] is taken by each of several threads, and may write only where
//! [`Subject::SHARED_WRITES`] says so.

/// A map that can be measured.
pub trait Subject: Sized + Send + Sync {
    /// Its name in tables and on the command line.
    const NAME: &'static str;
    /// Whether it knows the order of its keys, so that it can scan.
    const ORDERED: bool = true;
    /// Whether a scan shows one entry for all that it has met: no key, and the sum of values and last bytes of keys.
    const SUMS: bool = false;
    /// Whether several threads may write at once.
    const SHARED_WRITES: bool = true;
    /// Whether a reader always finds a key that another thread updates.
    const SHARED_UPDATES: bool = true;
    /// Whether `get_batch` is more than a loop of `get`.
    const BATCHES: bool = false;
    /// Whether it is made once, by [`loaded`](Handle::loaded) of all the keys inserted, and only read from then on.
    const STATIC: bool = false;
    /// Whether all its keys have one length.
    const ONE_LENGTH: bool = false;
    /// The longest key it takes.
    const MAX_KEY_BYTES: usize = usize::MAX;

    /// What one thread uses that has the map for itself.
    type Owned<'a>: Handle
    where
        Self: 'a;
    /// What each of several threads uses.
    type Shared<'a>: Handle
    where
        Self: 'a;

    /// Makes an empty map.
    fn new() -> Self;
    /// Makes an empty map that will have so many keys, which few maps make use of.
    fn with_room(keys: usize) -> Self
    where
        Self: Sized,
    {
        let _ = keys;
        Self::new()
    }
    /// Returns the handle of the only thread.
    fn own(&mut self) -> Self::Owned<'_>;
    /// Returns the handle of one of several threads.
    fn share(&self) -> Self::Shared<'_>;

    /// Says something of the map as it is, in one line, that its figures mean little without.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// One thread's access to a map.
pub trait Handle {
    /// Lets go of what the handle holds back (memory that waits for its readers) and takes it
    /// anew. Called every few hundred operations.
    #[inline]
    fn repin(&mut self) {}

    /// Maps `key` to `value` and tells whether the key is new.
    fn insert(&mut self, key: &[u8], value: u64) -> bool;

    /// All keys of the load have been inserted. What this takes is part of the load.
    #[inline]
    fn loaded(&mut self) {}

    /// Changes the value of a key and tells whether the key was there.
    fn update(&mut self, key: &[u8], value: u64) -> bool;

    /// Returns the value of a key.
    fn get(&mut self, key: &[u8]) -> Option<u64>;

    /// Removes a key and tells whether it was there.
    fn remove(&mut self, key: &[u8]) -> bool;

    /// Looks up all `keys`; the slices are equally long.
    #[inline]
    fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(key);
        }
    }

    /// Visits the first entry whose key is not less than `from`, if there is one.
    #[inline]
    fn lower_bound(&mut self, from: &[u8], visit: impl FnMut(&[u8], u64)) {
        self.scan(from, 1, visit);
    }

    /// Visits the first `count` entries whose keys are not less than `from`, in order.
    fn scan(&mut self, from: &[u8], count: usize, visit: impl FnMut(&[u8], u64));
}
