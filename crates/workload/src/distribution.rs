//! How queries choose keys.

use std::fmt;
use std::str::FromStr;

use crate::rng::{Rng, mix64};

/// The skew of YCSB's Zipfian generator.
const YCSB_SKEW: f64 = 0.99;

/// A named way to choose keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Every key is as likely as any other.
    Uniform,
    /// A few keys are asked for often (Zipf, 0.99), scattered over the key space.
    Zipf,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        })
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "uniform" => Ok(Self::Uniform),
            "zipf" => Ok(Self::Zipf),
            _ => Err(format!("no distribution '{name}', use uniform or zipf")),
        }
    }
}

/// Chooses indexes in `0..n`.
#[derive(Debug, Clone)]
pub struct Chooser {
    n: u64,
    zipf: Option<Zipf>,
}

impl Chooser {
    /// Makes a chooser among `n` keys; `n` is not 0.
    pub fn new(distribution: Distribution, n: usize) -> Self {
        let zipf = (distribution == Distribution::Zipf).then(|| Zipf::new(n as u64));
        Self { n: n as u64, zipf }
    }

    /// Returns the index of the next key to ask for.
    #[inline]
    pub fn choose(&self, rng: &mut Rng) -> usize {
        match &self.zipf {
            None => rng.below(self.n) as usize,
            Some(zipf) => (mix64(zipf.rank(rng)) % self.n) as usize,
        }
    }
}

/// Ranks whose popularity falls as `1 / rank^0.99`, by the method of Gray et al. (SIGMOD 1994)
/// that YCSB uses.
#[derive(Debug, Clone)]
pub struct Zipf {
    n: u64,
    alpha: f64,
    eta: f64,
    zeta_n: f64,
}

impl Zipf {
    /// Makes a generator of ranks in `0..n`; `n` is not 0.
    pub fn new(n: u64) -> Self {
        let zeta_n = zeta(n);
        let zeta_2 = 1.0 + 0.5f64.powf(YCSB_SKEW);
        Self {
            n,
            alpha: 1.0 / (1.0 - YCSB_SKEW),
            eta: (1.0 - (2.0 / n as f64).powf(1.0 - YCSB_SKEW)) / (1.0 - zeta_2 / zeta_n),
            zeta_n,
        }
    }

    /// Returns a rank; 0 is the most popular.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        let scaled = u * self.zeta_n;
        if scaled < 1.0 || self.n == 1 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(YCSB_SKEW) || self.n == 2 {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

/// Sums `1 / i^0.99` for `i` in `1..=n`; the smooth tail by its integral.
fn zeta(n: u64) -> f64 {
    const SUMMED: u64 = 1_000_000;
    let head: f64 = (1..=n.min(SUMMED)).map(|i| (i as f64).powf(-YCSB_SKEW)).sum();
    if n <= SUMMED {
        return head;
    }
    let area = |x: f64| x.powf(1.0 - YCSB_SKEW) / (1.0 - YCSB_SKEW);
    head + area(n as f64 + 0.5) - area(SUMMED as f64 + 0.5)
}

/// Ranks of any skew but 1, by the inverse of the continuous distribution: the popularity of
/// words, hosts and items inside generated keys.
#[derive(Debug, Clone)]
pub(crate) struct Skewed {
    n: f64,
    scale: f64,
    inverse: f64,
}

impl Skewed {
    pub(crate) fn new(n: usize, skew: f64) -> Self {
        let n = n as f64;
        Self { n, scale: (n + 1.0).powf(1.0 - skew) - 1.0, inverse: 1.0 / (1.0 - skew) }
    }

    pub(crate) fn rank(&self, rng: &mut Rng) -> usize {
        let x = (self.scale * rng.unit() + 1.0).powf(self.inverse) - 1.0;
        x.min(self.n - 1.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_ranks_fall_as_their_number() {
        const DRAWS: usize = 2_000_000;
        let zipf = Zipf::new(100_000);
        let mut rng = Rng::new(1);
        let mut count = vec![0u32; 100_000];
        for _ in 0..DRAWS {
            count[zipf.rank(&mut rng) as usize] += 1;
        }
        let zeta_n = zeta(100_000);
        // The method is exact for the first two ranks and approximate for the rest.
        for (rank, tolerance) in [(0, 0.02), (1, 0.03), (9, 0.15), (99, 0.25)] {
            let expected = DRAWS as f64 / zeta_n / f64::from(rank + 1).powf(YCSB_SKEW);
            let seen = f64::from(count[rank as usize]);
            assert!((seen / expected - 1.0).abs() < tolerance, "rank {rank}: {seen} {expected}");
        }
        let first_thousand: u32 = count[..1000].iter().sum();
        let share = f64::from(first_thousand) / DRAWS as f64;
        assert!((share - zeta(1000) / zeta_n).abs() < 0.02, "{share}");
    }

    #[test]
    fn zipf_stays_in_range_for_tiny_and_huge_sets() {
        for n in [1, 2, 3, 1 << 40] {
            let zipf = Zipf::new(n);
            let mut rng = Rng::new(n);
            assert!((0..10_000).all(|_| zipf.rank(&mut rng) < n), "{n}");
        }
    }

    #[test]
    fn uniform_choices_reach_every_key_about_equally() {
        let chooser = Chooser::new(Distribution::Uniform, 100);
        let mut rng = Rng::new(7);
        let mut count = [0u32; 100];
        for _ in 0..100_000 {
            count[chooser.choose(&mut rng)] += 1;
        }
        assert!(count.iter().all(|&c| (800..1200).contains(&c)), "{count:?}");
    }
}
