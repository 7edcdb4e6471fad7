//! A small generator of random numbers, the same on every machine and for ever.
//!
//! A failing test prints one seed; that seed must make the same run next year,
//! so the generator is ours and not a dependency's.
//!
//! PAPER: the generator is xoshiro256** of Blackman and Vigna (2018), filled
//! from splitmix64 as they advise.

/// Makes random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Rng {
    words: [u64; 4],
}

/// Returns the number that follows `state` in splitmix64, a good mix of its bits.
#[must_use]
pub fn splitmix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Makes the generator of `seed`; every seed is a good one.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let words = std::array::from_fn(|_| {
            let word = splitmix(state);
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            word
        });
        Self { words }
    }

    /// Makes the generator of part `part` of `seed`, unrelated to the other parts.
    pub fn part(seed: u64, part: u64) -> Self {
        Self::new(splitmix(seed ^ splitmix(part)))
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let w = &mut self.words;
        let result = w[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let carried = w[1] << 17;
        w[2] ^= w[0];
        w[3] ^= w[1];
        w[1] ^= w[2];
        w[0] ^= w[3];
        w[2] ^= carried;
        w[3] = w[3].rotate_left(45);
        result
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`, which is not empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_numbers_for_ever() {
        let mut rng = Rng::new(0);
        // The published first outputs of xoshiro256** filled by splitmix64 from 0.
        let first = [0x99ec_5f36_cb75_f2b4, 0xbf6e_1f78_4956_452a, 0x1a5f_849d_4933_e6e0];
        assert_eq!(first, std::array::from_fn::<u64, 3, _>(|_| rng.next_u64()));
    }

    #[test]
    fn below_reaches_every_number_and_no_other() {
        let mut rng = Rng::new(7);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[rng.below(10)] += 1;
        }
        assert!(seen.iter().all(|&times| (800..1200).contains(&times)), "{seen:?}");
    }
}
