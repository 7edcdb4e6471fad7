//! How a map is made, and what it takes.

/// How a map is made.
///
/// # Examples
///
/// ```
/// use fanread::{Options, Wormhole};
///
/// let map: Wormhole<u64> = Wormhole::with_options(Options::new().probe_width(1));
/// assert!(map.pin().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) probe_width: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) capacity: usize,
}

impl Options {
    /// Returns the options of `new`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many prefix lengths a search probes at once. 1 makes it the binary search of the Wormhole paper
    /// (Algorithm 1); the default is past the knee of current machines, as `fanread probe` measures it.
    #[must_use]
    pub fn probe_width(mut self, lengths: u32) -> Self {
        self.probe_width = Some(lengths.max(1));
        self
    }

    /// Has room made for so many entries by the first insertion, so that later ones, up to that number, copy no part of a hash
    /// directory, or by bad luck one of many.
    ///
    /// [`U64Map`](crate::U64Map), [`MlpIndex`](crate::MlpIndex) and [`OrderedMap`](crate::OrderedMap) have such directories; other maps
    /// take no notice. Memory is reserved, not touched, but counted by `memory_usage`: some 22 bytes an entry of a `U64Map`, 30 of an
    /// `MlpIndex`, whose inner nodes find their room by themselves, and 7 of an `OrderedMap`. It is
    /// not a limit: a map of more entries grows. It is no promise either: parts that removals find less than an eighth full
    /// become smaller. If there is not so much memory, the first insertion fails. With the feature
    /// `global-alloc` the allocator is asked for all of it.
    #[must_use]
    pub fn capacity(mut self, entries: usize) -> Self {
        self.capacity = entries;
        self
    }

    /// Fixes the seed of the map's hash function, so that two runs lay out memory alike.
    ///
    /// Whoever knows the seed can prepare keys that collide: leave it alone where keys come from strangers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

/// What a map takes in memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// Leaves: keys or references to them, and their order.
    pub leaf_bytes: usize,
    /// Records: keys and values that are not in leaves, and borders of leaves.
    pub record_bytes: usize,
    /// The table that finds leaves.
    pub table_bytes: usize,
    /// Bytes of the three above that hold nothing now and will be used again.
    pub idle_bytes: usize,
}

impl MemoryUsage {
    /// Returns all bytes of the map.
    pub fn total_bytes(&self) -> usize {
        self.leaf_bytes + self.record_bytes + self.table_bytes
    }

    /// Returns how many bytes lie on huge pages in the whole process, as the kernel reports it; `None` where it does not.
    ///
    /// # Cost
    ///
    /// The kernel walks all page tables of the process: some 50 ms for each GB that lies on small pages.
    #[must_use]
    pub fn process_huge_page_bytes() -> Option<u64> {
        crate::mem::pages::huge_bytes_granted()
    }
}
