//! One-to-one functions of 64 bits that nobody can compute who does not know the key: one for files, a shorter one for memory.
//!
//! A table that keeps their hashes needs no keys beside them.

use super::mix::stream;
use crate::arch::Eights;

/// The function; see the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    sums: [u64; 3],
    factors: [u64; 3],
    inverses: [u64; 3],
}

impl Permutation {
    const SHIFTS: [u32; 3] = [32, 29, 32];

    /// Makes the function of a key.
    pub(crate) fn new(key: u64) -> Self {
        let sums = core::array::from_fn(|i| stream(key, i as u64));
        let factors = core::array::from_fn(|i| stream(key, 3 + i as u64) | 1);
        Self { sums, factors, inverses: factors.map(inverse) }
    }

    /// The hash of a number.
    #[inline(always)]
    pub(crate) fn hash(&self, number: u64) -> u64 {
        let mut x = number;
        for round in 0..3 {
            x = (x ^ self.sums[round]).wrapping_mul(self.factors[round]);
            x ^= x >> Self::SHIFTS[round];
        }
        x
    }

    /// The number of a hash.
    #[inline]
    pub(crate) fn number(&self, hash: u64) -> u64 {
        let mut x = hash;
        for round in (0..3).rev() {
            let shift = Self::SHIFTS[round];
            x ^= x >> shift ^ x.checked_shr(2 * shift).unwrap_or(0);
            x = x.wrapping_mul(self.inverses[round]) ^ self.sums[round];
        }
        x
    }
}

/// Such a function in half the steps, for tables in memory: three products, and the bytes turned around between them.
///
/// Two different numbers have hashes that begin with the same `n` bits under at most two keys of `2^n`, whichever numbers these are:
/// the last product alone sees to that. The steps before are there for many numbers at a time, in steps or in a lattice, say, which
/// one product, or two, would leave in steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scrambler {
    sums: [u64; 3],
    factors: [u64; 3],
    inverses: [u64; 3],
}

impl Scrambler {
    /// Makes the function of a key.
    pub(crate) fn new(key: u64) -> Self {
        let Permutation { sums, factors, inverses } = Permutation::new(key);
        Self { sums, factors, inverses }
    }

    /// The hash of a number.
    #[inline(always)]
    pub(crate) fn hash(&self, number: u64) -> u64 {
        // A product carries upwards only: what is best mixed, its top byte, becomes the lowest one of the next factor.
        let x = (number ^ self.sums[0]).wrapping_mul(self.factors[0]);
        let x = (x.swap_bytes() ^ self.sums[1]).wrapping_mul(self.factors[1]);
        (x.swap_bytes() ^ self.sums[2]).wrapping_mul(self.factors[2])
    }

    /// The hashes of eight numbers.
    #[inline(always)]
    pub(crate) fn hash_eight(&self, by: impl Eights, numbers: &[u64; 8], hashes: &mut [u64; 8]) {
        by.scramble(numbers, (&self.sums, &self.factors), hashes);
    }

    /// The number of a hash.
    #[inline]
    pub(crate) fn number(&self, hash: u64) -> u64 {
        let x = hash.wrapping_mul(self.inverses[2]) ^ self.sums[2];
        let x = x.swap_bytes().wrapping_mul(self.inverses[1]) ^ self.sums[1];
        x.swap_bytes().wrapping_mul(self.inverses[0]) ^ self.sums[0]
    }
}

/// The number by which an odd one gives 1.
fn inverse(odd: u64) -> u64 {
    // Each step doubles the number of bits that are right: 3, 6, 12, 24, 48, 96.
    (0..5).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_from_its_hash() {
        for seed in 0..100 {
            let (function, short) = (Permutation::new(seed), Scrambler::new(seed));
            for number in [0, 1, 2, seed, !seed, u64::MAX, u64::MAX - 1, 1 << 63] {
                assert_eq!(function.number(function.hash(number)), number);
                assert_eq!(short.number(short.hash(number)), number);
            }
        }
    }
}
