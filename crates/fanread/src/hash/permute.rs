//! A one-to-one function of 64 bits that nobody can compute who does not know its key.
//!
//! A table that keeps such hashes needs no keys beside them.
//!
//! Two rounds, each a secret sum and a secret odd factor; between them the upper half is folded onto the lower. What is to be said
//! of keys that were chosen to collide holds of one such product already: the top bits of any two numbers agree for at most twice
//! as many factors as if they were random (Dietzfelbinger et al., 1997), and whoever does not know the factors cannot do better than
//! pick any numbers. The first round sees to it that numbers in a row, or with a stride, do not become hashes with one: whole
//! products would have all their neighbours in common.

use super::mix::stream;

/// The function; see the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    sums: [u64; 2],
    factors: [u64; 2],
    inverses: [u64; 2],
}

impl Permutation {
    /// The upper half goes onto the lower.
    const SHIFT: u32 = 32;

    /// Makes the function of a key.
    pub(crate) fn new(key: u64) -> Self {
        let sums = core::array::from_fn(|i| stream(key, i as u64));
        let factors = core::array::from_fn(|i| stream(key, 2 + i as u64) | 1);
        Self { sums, factors, inverses: factors.map(inverse) }
    }

    /// The hash of a number.
    #[inline(always)]
    pub(crate) fn hash(&self, number: u64) -> u64 {
        let x = (number ^ self.sums[0]).wrapping_mul(self.factors[0]);
        (x ^ x >> Self::SHIFT ^ self.sums[1]).wrapping_mul(self.factors[1])
    }

    /// The number of a hash.
    #[inline]
    pub(crate) fn number(&self, hash: u64) -> u64 {
        let x = hash.wrapping_mul(self.inverses[1]) ^ self.sums[1];
        (x ^ x >> Self::SHIFT).wrapping_mul(self.inverses[0]) ^ self.sums[0]
    }
}

/// The number by which an odd one gives 1.
fn inverse(odd: u64) -> u64 {
    // Each step doubles the number of bits that are right: 3, 6, 12, 24, 48, 96.
    (0..5).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_from_its_hash() {
        for seed in 0..100 {
            let function = Permutation::new(seed);
            for number in [0, 1, 2, seed, !seed, u64::MAX, u64::MAX - 1, 1 << 63] {
                assert_eq!(function.number(function.hash(number)), number);
            }
        }
    }
}
