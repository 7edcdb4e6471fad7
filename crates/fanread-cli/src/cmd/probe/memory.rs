//! A large array of cache lines on pages of a chosen size, holding one random cycle.
//!
//! Word 0 of each line is the number of the next line of the cycle, so that a
//! read cannot start before the one before it has come back. The other words
//! are 0. The cycle is computed, not shuffled: lines are written in order of
//! their address, which takes a second a gigabyte instead of a minute.
//!
//! # Invariants
//!
//! * **P1** Line 0 is at a multiple of 2 MB: pages can be huge, and lines `i`
//!   and `i ^ 1` make one block of 128 bytes.
//! * **P2** The first `n` lines hold one cycle through all of them, `n` being
//!   what [`Lines::link`] was called with last.

use std::fs;
use std::io;

use memmap2::{Advice, MmapMut};
use zerocopy::FromBytes;

pub(super) const LINE_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The size of pages to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// 2 MB, by `madvise`: the kernel may refuse.
    Huge,
    /// The system's own, 4 KB on most machines.
    Small,
}

/// The array.
pub(super) struct Lines {
    map: MmapMut,
    first: usize,
    count: usize,
    granted_bytes: usize,
}

impl Lines {
    /// Maps `bytes`, a power of two, asks for `pages` and touches all of it.
    pub(super) fn new(bytes: usize, pages: Pages) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes + HUGE_PAGE_BYTES)?;
        // A refusal is no failure: what was granted is looked up below.
        let _ = map.advise(match pages {
            Pages::Huge => Advice::HugePage,
            Pages::Small => Advice::NoHugePage,
        });
        let first = map.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let before = huge_bytes();
        // Also keeps the first touch, which costs a page fault, out of the timed runs.
        map[first..first + bytes].fill(0);
        let granted_bytes = huge_bytes().saturating_sub(before).min(bytes);
        let mut lines = Self { map, first, count: bytes / LINE_BYTES, granted_bytes };
        lines.link(bytes / LINE_BYTES);
        Ok(lines)
    }

    /// Returns how many bytes came on huge pages.
    pub(super) fn granted_bytes(&self) -> usize {
        self.granted_bytes
    }

    /// Returns the lines.
    pub(super) fn all(&self) -> &[[u64; 8]] {
        let bytes = &self.map[self.first..self.first + self.count * LINE_BYTES];
        <[[u64; 8]]>::ref_from_bytes(bytes).expect("P1")
    }

    /// Makes the first `count` lines, a power of two, one random cycle.
    pub(super) fn link(&mut self, count: usize) {
        assert!(count.is_power_of_two() && count <= self.count, "P2");
        let order = Order::new(count);
        let bytes = &mut self.map[self.first..self.first + count * LINE_BYTES];
        let lines = <[[u64; 8]]>::mut_from_bytes(bytes).expect("P1");
        for (at, line) in (0..).zip(lines) {
            line[0] = order.place(order.turn(at).wrapping_add(1));
        }
    }
}

/// A random order of `2^bits` lines: `place(t)` is the line visited at turn `t`.
struct Order {
    mask: u64,
    shift: u32,
}

/// Two odd numbers without pattern, and what undoes a multiplication by them.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];
const INVERSES: [u64; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];

/// Returns the inverse of an odd number modulo 2^64, by Newton's steps.
const fn inverse(odd: u64) -> u64 {
    let mut found = odd;
    let mut step = 0;
    // Correct bits double from 3 on: 3, 6, 12, 24, 48, 96.
    while step < 5 {
        found = found.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(found)));
        step += 1;
    }
    found
}

impl Order {
    fn new(count: usize) -> Self {
        // A shift by at least half of the bits undoes itself.
        Self { mask: count as u64 - 1, shift: count.ilog2().div_ceil(2).max(1) }
    }

    fn place(&self, turn: u64) -> u64 {
        let mut x = turn & self.mask;
        for factor in FACTORS {
            x ^= x >> self.shift;
            x = x.wrapping_mul(factor) & self.mask;
        }
        x ^ x >> self.shift
    }

    fn turn(&self, place: u64) -> u64 {
        let mut x = place ^ place >> self.shift;
        for inverse in [INVERSES[1], INVERSES[0]] {
            x = x.wrapping_mul(inverse) & self.mask;
            x ^= x >> self.shift;
        }
        x
    }
}

/// Returns how much of this process lies on transparent huge pages.
fn huge_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kb = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kb.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_one_cycle_at_every_size() {
        let mut lines = Lines::new(1 << 20, Pages::Small).unwrap();
        for count in (0..=14).map(|bits| 1 << bits) {
            lines.link(count);
            let mut at = 0;
            let mut steps = 0;
            loop {
                at = lines.all()[at][0] as usize;
                steps += 1;
                if at == 0 {
                    break;
                }
                assert!(at < count && steps < count, "line {at} at step {steps} of {count}");
            }
            assert_eq!(steps, count);
        }
    }

    #[test]
    fn neighbours_of_the_cycle_are_far_apart() {
        let lines = Lines::new(1 << 22, Pages::Huge).unwrap();
        let near = |(at, line): (usize, &[u64; 8])| line[0].abs_diff(at as u64) < 64;
        let near = lines.all().iter().enumerate().filter(|&pair| near(pair)).count();
        // Chance puts 128 of 65,536 lines in reach, and as often for each line.
        assert!(near < 400, "{near} of {} steps stay near", lines.all().len());
    }
}
