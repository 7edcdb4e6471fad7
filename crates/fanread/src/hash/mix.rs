//! Mixers of one word.

/// Multiplies to 128 bits and folds the halves together: the non-linear step of our hash functions.
///
/// Every bit of the product's middle depends on all bits of both factors; folding brings it down to 64 bits.
#[inline(always)]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Returns word `index` of the stream that `seed` starts: independent-looking constants from one number.
pub(crate) const fn stream(seed: u64, index: u64) -> u64 {
    let mut x = seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 29)).wrapping_mul(0xa076_1d64_78bd_642f);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_stream_does_not_repeat() {
        let words: HashSet<u64> =
            (0..1000).flat_map(|seed| (0..100).map(move |i| stream(seed, i))).collect();
        assert_eq!(words.len(), 100_000);
    }

    #[test]
    fn fold_joins_both_halves() {
        assert_eq!(fold(u64::MAX, u64::MAX), 1 ^ (u64::MAX - 1));
        assert_eq!(fold(1 << 63, 2), 1);
        assert_eq!(fold(0, 7), 0);
    }
}
