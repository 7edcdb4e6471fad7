//! Operations on an ordered map, made from a seed.
//!
//! A run is a pool of keys of one shape and a stream of operations on them.
//! Most keys come from the pool, so that they meet again; some are a neighbour
//! of a pool key (a byte more, a byte less, the last byte one up), which is
//! where borders go wrong. The mix of operations changes in phases: the map
//! grows, is churned, shrinks almost to nothing, and grows again, so that
//! splits and merges both come.

use std::ops::Bound;

pub use crate::effort::seeds;
use crate::rng::{Rng, splitmix};

/// The longest key that a map of byte strings takes.
pub const MAX_KEY_BYTES: usize = 65_535;

/// How many operations a phase (grow, churn, shrink) lasts, in pool sizes.
///
/// At 3 a grow phase, two thirds inserts, reaches nearly every key of the pool;
/// a longer phase only repeats itself, a shorter one leaves a map half full.
const PHASE_IN_POOLS: usize = 3;

/// The shape of the keys of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// A few common beginnings of 1 to 40 bytes, followed by 0 to 6 bytes.
    SharedPrefixes,
    /// 0 to 3 bytes of an alphabet of four, NUL and 255 included; the empty key is one of them.
    Short,
    /// Only NUL bytes, of many lengths.
    NulBytes,
    /// Each key is the beginning of a longer one.
    PrefixesOfEachOther,
    /// 8 random bytes: a random `u64`, big-endian.
    U64Random,
    /// 8 bytes: small `u64`s, big-endian, with few gaps.
    U64Dense,
    /// 8 bytes: short runs of `u64`s around multiples of 64, 256, 65,536 and more; 0 and the largest among them.
    U64Runs,
    /// 8 bytes: a few `u64`s, and those that differ from one of them in one byte, at any place.
    U64OneByte,
    /// 8 bytes: `u64`s near a few centres, the more the nearer.
    U64Clusters,
    /// Addresses of pages: a site, a path, a number.
    Urls,
    /// Up to 65,535 bytes, the most part shared.
    Long,
    /// All shapes but `Long` in one map.
    Mixed,
}

impl Keys {
    /// Every shape.
    pub const ALL: [Self; 12] = [
        Self::SharedPrefixes,
        Self::Short,
        Self::NulBytes,
        Self::PrefixesOfEachOther,
        Self::U64Random,
        Self::U64Dense,
        Self::U64Runs,
        Self::U64OneByte,
        Self::U64Clusters,
        Self::Urls,
        Self::Long,
        Self::Mixed,
    ];

    /// Returns whether every key of this shape is a `u64`, big-endian.
    #[must_use]
    pub fn is_u64(self) -> bool {
        matches!(
            self,
            Self::U64Random | Self::U64Dense | Self::U64Runs | Self::U64OneByte | Self::U64Clusters
        )
    }

    /// How many keys the pool of this shape holds unless the run says otherwise.
    fn pool_len(self) -> usize {
        match self {
            Self::Short => 85,
            Self::NulBytes => 300,
            Self::Long => 96,
            _ => 1_000,
        }
    }
}

/// One operation on a map from byte strings to `u64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Maps the key to the value; answers the value it replaced.
    Insert(Vec<u8>, u64),
    /// Replaces the value of the key if it has one; answers the value it replaced.
    Update(Vec<u8>, u64),
    /// Maps the key to the value if it has none; answers the value it has afterwards.
    GetOrInsert(Vec<u8>, u64),
    /// Replaces the value of the key if it is the first number; answers the value it had.
    CompareExchange(Vec<u8>, u64, u64),
    /// Removes the key; answers the value it had.
    Remove(Vec<u8>),
    /// Answers the value of the key.
    Get(Vec<u8>),
    /// Answers the first entry inside the bound.
    LowerBound(Bound<Vec<u8>>),
    /// Answers the last entry inside the bound.
    UpperBound(Bound<Vec<u8>>),
    /// Answers up to `count` entries between the bounds.
    Range {
        /// Where the range begins.
        from: Bound<Vec<u8>>,
        /// Where the range ends; it may lie before `from`.
        to: Bound<Vec<u8>>,
        /// How many entries are asked for.
        count: usize,
        /// From which ends they are taken.
        walk: Walk,
    },
    /// Answers the first entry.
    First,
    /// Answers the last entry.
    Last,
    /// Removes the first entry and answers it.
    PopFirst,
    /// Removes the last entry and answers it.
    PopLast,
    /// Answers the number of entries.
    Len,
    /// Removes every entry.
    Clear,
}

/// How a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// From the first entry on.
    Forward,
    /// From the last entry back.
    Backward,
    /// From both ends: bit `i` says whether step `i` (modulo 64) is from the back.
    Both(u64),
}

impl Walk {
    /// Takes up to `count` entries out of `range`, in the order of this walk.
    pub fn take<I: DoubleEndedIterator>(self, mut range: I, count: usize) -> Vec<I::Item> {
        let mut step = 0;
        std::iter::from_fn(|| {
            let back = match self {
                Self::Forward => false,
                Self::Backward => true,
                Self::Both(sides) => sides >> (step % 64) & 1 == 1,
            };
            step += 1;
            if back { range.next_back() } else { range.next() }
        })
        .take(count)
        .collect()
    }
}

/// A stream of operations; it has no end.
///
/// ```
/// use testkit::ops::{Keys, Ops};
///
/// let ops: Vec<_> = Ops::new(3).keys(Keys::Short).take(100).collect();
/// assert_eq!(ops, Ops::new(3).keys(Keys::Short).take(100).collect::<Vec<_>>());
/// ```
#[derive(Clone, Debug)]
pub struct Ops {
    rng: Rng,
    seed: u64,
    keys: Keys,
    pool_len: usize,
    pool: Vec<Vec<u8>>,
    step: usize,
}

impl Ops {
    /// Makes the stream of `seed`, with keys that share prefixes.
    pub fn new(seed: u64) -> Self {
        let keys = Keys::SharedPrefixes;
        let pool_len = keys.pool_len();
        Self { rng: Rng::new(seed), seed, keys, pool_len, pool: Vec::new(), step: 0 }
    }

    /// Sets the shape of the keys, and the size of the pool to what suits it.
    #[must_use]
    pub fn keys(self, keys: Keys) -> Self {
        Self { keys, pool_len: keys.pool_len(), pool: Vec::new(), ..self }
    }

    /// Sets how many keys the pool holds: about how large the map grows.
    #[must_use]
    pub fn pool(self, len: usize) -> Self {
        Self { pool_len: len.max(1), pool: Vec::new(), ..self }
    }

    fn key(&mut self) -> Vec<u8> {
        let at = self.rng.below(self.pool.len());
        let mut key = self.pool[at].clone();
        if self.keys.is_u64() {
            // A neighbour of a number is a number.
            if self.rng.one_in(8) {
                let step = if self.rng.one_in(2) { 1 } else { u64::MAX };
                key = as_u64(&key).wrapping_add(step).to_be_bytes().to_vec();
            }
            return key;
        }
        match self.rng.below(24) {
            0 if key.len() < MAX_KEY_BYTES => key.push(0),
            1 => drop(key.pop()),
            2 => key.last_mut().into_iter().for_each(|last| *last = last.wrapping_add(1)),
            3 if key.len() < MAX_KEY_BYTES => key.push(self.rng.next_u64() as u8),
            _ => {}
        }
        key
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.rng.below(10) {
            0 => Bound::Unbounded,
            1..=5 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    fn range(&mut self) -> Op {
        let (mut from, mut to) = (self.bound(), self.bound());
        // Inverted bounds are worth a try, but half of all ranges would be too many.
        if let (Bound::Included(f) | Bound::Excluded(f), Bound::Included(t) | Bound::Excluded(t)) =
            (&from, &to)
            && f > t
            && !self.rng.one_in(8)
        {
            std::mem::swap(&mut from, &mut to);
        }
        // An answer of long keys is megabytes: mostly time to copy.
        let most = match self.keys {
            Keys::Long => 6,
            _ if self.rng.one_in(16) => 500,
            _ => 20,
        };
        let count = self.rng.below(most);
        let walk = match self.rng.below(3) {
            0 => Walk::Forward,
            1 => Walk::Backward,
            _ => Walk::Both(self.rng.next_u64()),
        };
        Op::Range { from, to, count, walk }
    }

    /// Returns an operation that writes one key; `removes` of 16 are removals.
    fn write(&mut self, removes: usize) -> Op {
        let key = self.key();
        if self.rng.below(16) < removes {
            return match self.rng.below(16) {
                0 => Op::PopFirst,
                1 => Op::PopLast,
                _ => Op::Remove(key),
            };
        }
        let value = self.rng.next_u64() >> 40;
        match self.rng.below(16) {
            0..=9 => Op::Insert(key, value),
            10 | 11 => Op::Update(key, value),
            12 | 13 => Op::GetOrInsert(key, value),
            // Values come from a small set here, so that some comparisons succeed.
            14 => Op::CompareExchange(key, value % 2, value),
            _ => Op::Insert(key, value % 2),
        }
    }
}

impl Iterator for Ops {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if self.pool.is_empty() {
            self.pool = pool(self.seed, self.keys, self.pool_len);
        }
        let phase = self.step / (PHASE_IN_POOLS * self.pool_len) % 3;
        self.step += 1;
        if self.rng.one_in(50 * self.pool_len) {
            return Some(Op::Clear);
        }
        // Of 16 operations: how many write, and of 16 writes: how many remove.
        let (writes, removes) = [(11, 3), (8, 8), (11, 14)][phase];
        Some(if self.rng.below(16) < writes {
            self.write(removes)
        } else {
            match self.rng.below(16) {
                0..=5 => Op::Get(self.key()),
                6..=8 => Op::LowerBound(self.bound()),
                9..=11 => Op::UpperBound(self.bound()),
                12 => [Op::First, Op::Last, Op::Len][self.rng.below(3)].clone(),
                _ => self.range(),
            }
        })
    }
}

/// Returns `len` keys of the shape `keys`, in no order; they may repeat.
#[must_use]
pub fn pool(seed: u64, keys: Keys, len: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::part(seed, 1);
    let trunk = match keys {
        Keys::Long => rng.bytes(MAX_KEY_BYTES),
        Keys::PrefixesOfEachOther => (0..len.min(MAX_KEY_BYTES)).map(|i| (i % 3) as u8).collect(),
        _ => Vec::new(),
    };
    (0..len)
        .map(|i| match keys {
            Keys::Mixed => {
                let shape = Keys::ALL[rng.below(10)];
                let few = pool(rng.next_u64(), shape, 8);
                rng.pick(&few).clone()
            }
            _ => key(&mut rng, seed, keys, i, &trunk),
        })
        .collect()
}

/// Returns key number `i` of a pool.
fn key(rng: &mut Rng, seed: u64, keys: Keys, i: usize, trunk: &[u8]) -> Vec<u8> {
    match keys {
        Keys::SharedPrefixes => {
            // The beginnings follow from the seed alone: all keys of a pool share them.
            let stem = splitmix(seed ^ rng.below(6) as u64);
            let mut key = Rng::new(stem).bytes(1 + (stem % 40) as usize);
            let tail = rng.below(7);
            key.extend((0..tail).map(|_| *rng.pick(&[0, 1, b'a', b'b', 255])));
            key
        }
        Keys::Short => short(i),
        Keys::NulBytes => vec![0; if rng.one_in(20) { rng.below(5_000) } else { i }],
        Keys::PrefixesOfEachOther => trunk[..rng.below(trunk.len() + 1)].to_vec(),
        Keys::U64Random => rng.next_u64().to_be_bytes().to_vec(),
        Keys::U64Dense => (i as u64 + i as u64 / 7).to_be_bytes().to_vec(),
        Keys::U64Runs => run(rng).to_be_bytes().to_vec(),
        Keys::U64OneByte => {
            let mut key = stem(rng, seed, 3).to_be_bytes().to_vec();
            let at = rng.below(8);
            key[at] = rng.next_u64() as u8;
            key
        }
        Keys::U64Clusters => {
            // A shift that is drawn too: every distance up to some 10^6 is about as likely as its double.
            let (centre, shift) = (stem(rng, seed, 20), 44 + rng.below(20));
            centre.wrapping_add(rng.next_u64() >> shift).to_be_bytes().to_vec()
        }
        Keys::Urls => url(rng),
        Keys::Long => {
            let len = *rng.pick(&[200, 1_000, 30_000, MAX_KEY_BYTES - 2, MAX_KEY_BYTES]);
            let mut key = trunk[..len].to_vec();
            // Most differ only near their end, some in the middle.
            let at = if rng.one_in(4) { rng.below(len) } else { len - 1 - rng.below(100) };
            key[at] = rng.next_u64() as u8;
            key
        }
        Keys::Mixed => unreachable!("a mixed pool asks for each key by its own shape"),
    }
}

/// Returns one of `count` numbers that follow from the seed alone: all keys of a pool share them.
fn stem(rng: &mut Rng, seed: u64, count: usize) -> u64 {
    splitmix(seed ^ rng.below(count) as u64)
}

/// Returns a number at most 12 away from a multiple of a power of two; from 0, which is next to the largest, most often.
fn run(rng: &mut Rng) -> u64 {
    let bits = *rng.pick(&[6, 8, 9, 16, 24, 32, 56]);
    let multiples = *rng.pick(&[4, 64]);
    let number = (rng.below(multiples) as u64) << bits;
    number.wrapping_add(rng.below(25) as u64).wrapping_sub(12)
}

/// Returns string `i` (modulo 85) of those with at most 3 of 4 letters.
fn short(i: usize) -> Vec<u8> {
    let mut i = i % 85;
    let mut key = Vec::new();
    while i > 0 {
        key.push([0, 1, b'a', 255][(i - 1) % 4]);
        i = (i - 1) / 4;
    }
    key
}

fn url(rng: &mut Rng) -> Vec<u8> {
    let site = rng.pick(&["example.org", "wiki.example.org", "example.com", "mail.example.net"]);
    let part = rng.pick(&["articles", "articles/archive", "users", "img/thumb", ""]);
    let number = rng.below(400);
    let tail = rng.pick(&["", ".html", "/edit", "?page=2"]);
    format!("https://{site}/{part}/{number}{tail}").into_bytes()
}

/// Returns the number that an 8-byte key of the `u64` shapes stands for.
///
/// # Panics
///
/// If `key` does not have 8 bytes.
#[must_use]
pub fn as_u64(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("keys of the u64 shapes have 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_shape_makes_what_it_says() {
        for keys in Keys::ALL {
            let pool: BTreeSet<_> = pool(5, keys, keys.pool_len()).into_iter().collect();
            assert!(pool.len() > keys.pool_len() / 4, "{keys:?}: {} keys", pool.len());
            assert!(pool.iter().all(|key| key.len() <= MAX_KEY_BYTES));
            assert!(!keys.is_u64() || pool.iter().all(|key| key.len() == 8));
            match keys {
                Keys::Short => assert!(pool.contains(&[][..]) && pool.len() == 85),
                Keys::NulBytes => assert!(pool.iter().flatten().all(|&byte| byte == 0)),
                Keys::U64Runs => {
                    assert!([0, u64::MAX].iter().all(|n| pool.contains(&n.to_be_bytes()[..])));
                }
                Keys::Long => assert!(pool.iter().any(|key| key.len() == MAX_KEY_BYTES)),
                _ => {}
            }
        }
    }

    #[test]
    fn every_operation_comes_up() {
        let ops = Ops::new(2).keys(Keys::Short);
        let kinds: BTreeSet<_> = ops
            .take(50_000)
            .map(|op| format!("{op:?}").split(['(', ' ']).next().unwrap_or("").to_owned())
            .collect();
        assert_eq!(kinds.len(), 15, "{kinds:?}");
    }
}
