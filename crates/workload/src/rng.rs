//! A small generator of pseudo-random numbers, so that a seed means the same keys for ever.

/// Scrambles `x` by a bijection: different inputs give different outputs.
#[inline]
pub fn mix64(x: u64) -> u64 {
    // The finaliser of splitmix64.
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A counter behind [`mix64`]: fast, and good enough for keys.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Makes a generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self { state: mix64(seed ^ 0x5851_f42d_4c95_7f2d) }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix64(self.state)
    }

    /// Returns a number in `0..n`; 0 if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns an index in `0..n`; 0 if `n` is 0.
    #[inline]
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// Returns a number in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a normally distributed number: mean 0, deviation 1.
    pub fn gauss(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}
