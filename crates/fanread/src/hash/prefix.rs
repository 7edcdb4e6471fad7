//! The hash of every prefix of a key, each in constant time.
//!
//! A *state* is kept after each whole 8-byte block of the key. The hash of a prefix is one step away from the
//! state of the last whole block in it:
//!
//! ```text
//!   key     | block 0 | block 1 | block 2 | rest
//!   state   s0       s1        s2        s3            s(i+1) = fold(s(i) ^ block(i), step)
//!   hash(len) = fold(s(len / 8) ^ first len % 8 bytes of the next block, ends[len % 8])
//! ```
//!
//! So no length waits for another one: a search computes the hashes of all the lengths it wants to probe side
//! by side. The constant for `len % 8` tells apart strings that differ in trailing NUL bytes only.
//!
//! `step`, `ends` and `s0` are secret and differ from map to map. `fold` is not linear in the key, so a set of
//! colliding keys for one seed says nothing about another.
//!
//! # Invariants
//!
//! * **H1** The hash of a prefix depends on the seed and the prefix only, whatever follows it.
//! * **H2** `Seed::hash` of a prefix, `Behind::at`, `Window::hash` and `Ascending::at` agree.
//!
//! `tests` below check both, and the quality of the result.

use std::hash::{BuildHasher, RandomState};

use super::mix::{fold, stream};
use crate::arch::Words;

/// How many blocks a [`Window`] covers. 256 bytes are longer than nearly all keys; more would only make the list
/// larger on the stack.
pub(crate) const WINDOW_BLOCKS: usize = if cfg!(miri) { 2 } else { 32 };

/// The low bytes of a word.
const MASKS: [u64; 8] = [0, 0xff, 0xffff, 0xff_ffff, 0xffff_ffff, !0 >> 24, !0 >> 16, !0 >> 8];

/// The secret constants of one map's hash function. Best at the start of a line.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Seed {
    ends: [u64; 8],
    start: u64,
    step: u64,
}

impl Seed {
    /// Draws a seed from the system's randomness.
    pub(crate) fn random() -> Self {
        Self::fixed(RandomState::new().hash_one(0_u64))
    }

    /// Makes the seed with this number, for runs that have to repeat.
    pub(crate) const fn fixed(number: u64) -> Self {
        let mut ends = [0; 8];
        let mut i = 0;
        while i < 8 {
            // Odd, so that no bit of the other factor is shifted out of the product's middle.
            ends[i] = stream(number, i as u64) | 1;
            i += 1;
        }
        Self { ends, start: stream(number, 8), step: stream(number, 9) | 1 }
    }

    /// Makes a seed under which all keys collide.
    #[cfg(test)]
    pub(crate) const fn colliding() -> Self {
        Self { ends: [0; 8], start: 0, step: 0 }
    }

    /// Makes a seed under which a hash is little more than the key's own bits, turned by half a word: short
    /// keys agree in their low bits, and trailing NUL bytes change nothing.
    #[cfg(test)]
    pub(crate) const fn weak() -> Self {
        Self { ends: [1 << 32; 8], start: 0, step: 1 << 32 }
    }

    /// Returns the hash of `bytes`.
    #[inline]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        PrefixHashes::new(self, bytes).full()
    }

    #[inline(always)]
    fn absorb(&self, state: u64, block: [u8; 8]) -> u64 {
        fold(state ^ u64::from_le_bytes(block), self.step)
    }

    /// The hash of what led to `state` and of the `rest < 8` low bytes of `word` after it.
    #[inline(always)]
    fn end(&self, state: u64, word: u64, rest: usize) -> u64 {
        let kept = word & MASKS[rest];
        fold(state ^ kept, self.ends[rest])
    }
}

/// A key, and the function whose hashes of its prefixes are wanted. Nothing is computed before it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixHashes<'k> {
    seed: &'k Seed,
    key: &'k [u8],
}

impl<'k> PrefixHashes<'k> {
    #[inline(always)]
    pub(crate) fn new(seed: &'k Seed, key: &'k [u8]) -> Self {
        Self { seed, key }
    }

    /// The whole blocks of the key.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> &'k [[u8; 8]] {
        self.key.as_chunks().0
    }

    /// The state before the first block.
    #[inline(always)]
    pub(crate) fn start(&self) -> u64 {
        self.seed.start
    }

    /// The state behind `block`, given the one before.
    #[inline(always)]
    pub(crate) fn absorb(&self, state: u64, block: [u8; 8]) -> u64 {
        self.seed.absorb(state, block)
    }

    /// The hash of the prefix of whole blocks that ends in `state`.
    #[inline(always)]
    pub(crate) fn landmark(&self, state: u64) -> u64 {
        fold(state, self.seed.ends[0])
    }

    /// Returns what the hashes of the eight prefixes behind block `block` are made of, given the state there.
    #[inline(always)]
    pub(crate) fn behind(&self, block: usize, state: u64) -> Behind<'k> {
        Behind { seed: self.seed, state, word: word_at(self.key, block * 8) }
    }

    /// Returns the hash of the whole key.
    #[inline]
    pub(crate) fn full(&self) -> u64 {
        self.finish(self.start(), self.blocks())
    }

    /// Returns the hash of the whole key, given the state before the last `blocks` of its blocks.
    #[inline(always)]
    pub(crate) fn finish(&self, mut state: u64, blocks: &[[u8; 8]]) -> u64 {
        // The most common length by itself, as a search of a map of such keys is counted in instructions.
        if let Ok(block) = self.key.try_into() {
            return self.landmark(self.absorb(self.start(), block));
        }
        // The first block apart from a loop: most keys are short, and a loop costs more to start than a turn of it.
        if let Some((first, more)) = blocks.split_first() {
            state = self.absorb(state, *first);
            for block in more {
                state = self.absorb(state, *block);
            }
        }
        match self.key.len() % 8 {
            0 => self.landmark(state),
            rest => fold(state ^ tail(self.key, rest), self.seed.ends[rest]),
        }
    }
}

/// The states of up to 32 blocks of a key at a time, for searches that go back and forth among them.
#[derive(Debug)]
pub(crate) struct Window<'k> {
    seed: &'k Seed,
    key: &'k [u8],
    /// Where the window starts in the key; a multiple of 8.
    base: usize,
    /// States after 0, 1, .. blocks of the window.
    states: Words<{ WINDOW_BLOCKS + 1 }>,
}

impl<'k> Window<'k> {
    /// Makes the first window of `key`.
    pub(crate) fn new(seed: &'k Seed, key: &'k [u8]) -> Self {
        Self::at(seed, key, 0, seed.start)
    }

    fn at(seed: &'k Seed, key: &'k [u8], base: usize, start: u64) -> Self {
        let mut window = Self { seed, key, base, states: Words::new() };
        let (blocks, _) = key[base..].as_chunks::<8>();
        window.states.scan(start, blocks, |state, block| seed.absorb(state, block));
        window
    }

    /// Returns the window behind this one, or `None` if the key ends in this one.
    pub(crate) fn next(&self) -> Option<Self> {
        let base = self.base + WINDOW_BLOCKS * 8;
        (base < self.key.len())
            .then(|| Self::at(self.seed, self.key, base, self.states.get(WINDOW_BLOCKS)))
    }

    /// Where this window starts in the key.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// How many whole blocks of the key lie in this window.
    pub(crate) fn blocks(&self) -> usize {
        self.states.len() - 1
    }

    /// Returns the state behind block `block` of this window.
    pub(crate) fn state(&self, block: usize) -> u64 {
        self.states.get(block)
    }

    /// Returns the hash of the prefix that ends with block `block` of this window.
    #[inline(always)]
    pub(crate) fn hash(&self, block: usize) -> u64 {
        fold(self.states.get(block), self.seed.ends[0])
    }
}

/// A state and the bytes behind it, from which the hashes of eight prefixes follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind<'k> {
    seed: &'k Seed,
    state: u64,
    word: u64,
}

impl Behind<'_> {
    /// The same with other bytes behind the block, the first one lowest.
    #[inline(always)]
    pub(crate) fn with(self, word: u64) -> Self {
        Self { word, ..self }
    }

    /// Returns the hash of the prefix that ends `rest < 8` bytes behind the block. Past the key's end it is
    /// the hash of the key followed by NUL bytes.
    #[inline(always)]
    pub(crate) fn at(&self, rest: usize) -> u64 {
        self.seed.end(self.state, self.word, rest)
    }
}

/// The hashes of the prefixes of a key of any length, asked for in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Ascending<'k> {
    seed: &'k Seed,
    key: &'k [u8],
    state: u64,
    block: usize,
}

impl<'k> Ascending<'k> {
    /// Starts at the empty prefix of `key`.
    pub(crate) fn new(seed: &'k Seed, key: &'k [u8]) -> Self {
        Self { seed, key, state: seed.start, block: 0 }
    }

    /// Returns the hash of the first `len` bytes.
    ///
    /// # Panics
    ///
    /// If a later block was asked for before, or `len` is larger than the key's length.
    pub(crate) fn at(&mut self, len: usize) -> u64 {
        let (blocks, _) = self.key[self.block * 8..len].as_chunks::<8>();
        for block in blocks {
            self.state = self.seed.absorb(self.state, *block);
        }
        self.block += blocks.len();
        self.seed.end(self.state, word_at(self.key, len - len % 8), len % 8)
    }
}

/// Returns the up to eight bytes of `key` from `at` on, the first one lowest, filled up with zeros.
///
/// Reads the caller's bytes with overlapping loads: a copy in a buffer that is stored in one width and loaded
/// in another makes each lookup wait for the one before. There is no branch on `at`, which may be the late
/// result of a search.
#[inline(always)]
fn word_at(key: &[u8], at: usize) -> u64 {
    let len = key.len();
    debug_assert!(at <= len);
    if let Some(last) = len.checked_sub(8) {
        let from = at.min(last);
        let word = u64::from_le_bytes(key[from..from + 8].try_into().expect("eight bytes"));
        word.checked_shr(8 * (at - from) as u32).unwrap_or(0)
    } else {
        short_word(key).checked_shr(8 * at as u32).unwrap_or(0)
    }
}

/// Returns the last `rest` bytes of `key`, 1 to 7 and those behind its whole blocks, as `word_at` does.
#[inline(always)]
fn tail(key: &[u8], rest: usize) -> u64 {
    match key.last_chunk() {
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest),
        None => short_word(key),
    }
}

/// Returns the bytes of a `key` of less than eight bytes as one word.
#[inline(always)]
fn short_word(key: &[u8]) -> u64 {
    let len = key.len();
    if let (Some(low), Some(high)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (len - 4));
        u64::from(u32::from_le_bytes(*low)) | high
    } else if len > 0 {
        // Of one to three bytes these are all, some of them twice.
        let (first, middle, last) = (key[0], key[len / 2], key[len - 1]);
        u64::from(first) | u64::from(middle) << (8 * (len / 2)) | u64::from(last) << (8 * (len - 1))
    } else {
        0
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn sample(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| stream(17, i) as u8).collect()
    }

    #[test]
    fn a_word_is_the_next_bytes_filled_up_with_zeros() {
        for len in 0..40 {
            let key = sample(len);
            for at in 0..=len {
                let mut bytes = [0; 8];
                let kept = (len - at).min(8);
                bytes[..kept].copy_from_slice(&key[at..at + kept]);
                assert_eq!(word_at(&key, at), u64::from_le_bytes(bytes), "{len} {at}");
            }
        }
    }

    #[test]
    fn a_prefix_hashes_like_a_key_of_its_own() {
        let seed = Seed::fixed(1);
        for len in (0..80).chain([255, 256, 257, 263, 264, 511, 512, 513, 1000]) {
            let key = sample(len);
            let hashes = PrefixHashes::new(&seed, &key);
            let (blocks, mut state) = (hashes.blocks(), hashes.start());
            let mut ascending = Ascending::new(&seed, &key);
            for end in 0..=len {
                let expected = seed.hash(&key[..end]);
                if end > 0 && end % 8 == 0 {
                    state = hashes.absorb(state, blocks[end / 8 - 1]);
                    assert_eq!(hashes.landmark(state), expected, "{len} {end}");
                    assert_eq!(hashes.finish(state, &blocks[end / 8..]), hashes.full());
                }
                let behind = hashes.behind(end / 8, state);
                assert_eq!(behind.at(end % 8), expected, "{len} {end}");
                assert_eq!(ascending.at(end), expected, "{len} {end}");
            }
            assert_eq!(hashes.full(), seed.hash(&key));
        }
    }

    #[test]
    fn windows_cover_a_long_key() {
        let seed = Seed::fixed(2);
        let key = sample(65_535);
        let mut next = Some(Window::new(&seed, &key));
        let mut ascending = Ascending::new(&seed, &key);
        let mut end = 0;
        while let Some(window) = next {
            assert_eq!(window.base(), end);
            for block in 0..window.blocks() {
                assert_eq!(window.hash(block), ascending.at(end + block * 8));
            }
            end += WINDOW_BLOCKS * 8;
            next = window.next();
        }
        assert!(end >= key.len());
    }

    #[test]
    fn trailing_nul_bytes_change_the_hash() {
        let seed = Seed::fixed(3);
        let zeros = [0; 300];
        let hashes: HashSet<u64> = (0..=300).map(|len| seed.hash(&zeros[..len])).collect();
        assert_eq!(hashes.len(), 301);
    }

    /// A million keys of a few shapes that make weak hashes collide.
    fn structured() -> impl Iterator<Item = Vec<u8>> {
        let dense = (0..250_000_u64).map(|i| i.to_be_bytes().to_vec());
        let high = (0..250_000_u64).map(|i| (i << 38).to_le_bytes()[..7].to_vec());
        let text = (0..250_000_u64).map(|i| format!("http://a.example/{i:07}/x").into_bytes());
        let pairs = (0..250_000_u64).map(|i| {
            let (a, b) = (i / 500, i % 500);
            [a.to_le_bytes(), [0; 8], b.to_le_bytes()].concat()
        });
        dense.chain(high).chain(text).chain(pairs)
    }

    #[test]
    fn a_million_structured_keys_do_not_collide() {
        let seed = Seed::fixed(4);
        let hashes: HashSet<u64> = structured().map(|key| seed.hash(&key)).collect();
        assert_eq!(hashes.len(), 1_000_000);
    }

    #[test]
    fn buckets_and_tags_are_filled_evenly() {
        let seed = Seed::fixed(5);
        // The prefix table takes the bucket from the top and the tag from the bottom; a leaf takes its
        // line from the top. In each field the fullest of 1024 values stays near the mean of 976.
        for shift in [0, 6, 16, 32, 54] {
            let mut counts = vec![0_u32; 1024];
            structured().for_each(|key| counts[(seed.hash(&key) >> shift) as usize % 1024] += 1);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*least > 976 - 200 && *most < 976 + 200, "shift {shift}: {least}..{most}");
        }
        // Joint distribution of tag and bucket: as many distinct pairs as 2^20 draws from 2^26 would give.
        let pairs: HashSet<u64> =
            structured().map(|key| seed.hash(&key) & ((1 << 26) - 1)).collect();
        assert!(pairs.len() > 980_000, "{}", pairs.len());
    }

    #[test]
    fn each_key_bit_reaches_every_hash_bit() {
        let seed = Seed::fixed(6);
        for len in [1, 3, 7, 8, 9, 16, 31] {
            let rounds = 400;
            let mut flips = vec![[0_u32; 64]; len * 8];
            for round in 0..rounds {
                let key: Vec<u8> = (0..len as u64).map(|i| stream(round, i) as u8).collect();
                let base = seed.hash(&key);
                for (bit, flips) in flips.iter_mut().enumerate() {
                    let mut other = key.clone();
                    other[bit / 8] ^= 1 << (bit % 8);
                    let changed = base ^ seed.hash(&other);
                    (0..64).for_each(|out| flips[out] += ((changed >> out) & 1) as u32);
                }
            }
            let mean = f64::from(flips.iter().flatten().sum::<u32>())
                / (flips.len() * 64 * rounds as usize) as f64;
            assert!((0.45..0.55).contains(&mean), "length {len}: {mean}");
            let dead = flips.iter().flatten().filter(|n| **n < 8).count();
            assert!(dead * 25 <= flips.len() * 64, "length {len}: {dead} dead pairs");
        }
    }
}
