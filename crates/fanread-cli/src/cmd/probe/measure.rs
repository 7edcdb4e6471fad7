//! The timed loops.
//!
//! Each loop makes its addresses out of what it has read before, so that the
//! processor can run ahead only as far as the loop means it to. Time is the
//! processor time of this thread: a moment in which another program had the
//! core does not count. A figure is the median of several rounds, and the
//! subjects of one table take turns, so that a disturbance hits them all.
//!
//! PAPER: Zhou, "Memory parallelism" (paper 001), sections 2.1 to 2.4.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::memory::{LINE_BYTES, Lines};

/// How many reads at once are tried.
pub(super) const WIDTHS: [usize; 18] =
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64];

/// How many rounds a figure is the median of.
const ROUNDS: usize = 7;

/// How long one timed run takes.
///
/// Shorter, and the first misses of the address cache count; longer, and more
/// runs are disturbed. 15 ms are about 50,000 reads.
const RUN: Duration = Duration::from_millis(15);

/// Nanoseconds: the median of the rounds, and their ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Nanos {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// Where the second read of a pair goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Neighbour {
    /// The same line again: it is in the cache.
    Same,
    /// The other line of the same 128 bytes.
    Complement,
    /// The line on the other side, in another 128 bytes.
    OtherSide,
    /// Any line: a whole wait.
    Anywhere,
}

impl Neighbour {
    pub(super) const ALL: [Self; 4] =
        [Self::Same, Self::Complement, Self::OtherSide, Self::Anywhere];
}

/// Something that can be repeated: takes how many steps, returns what it read.
type Loop<'a> = Box<dyn Fn(u64) -> u64 + 'a>;

/// Times one dependent read in working sets from 16 KB to all of `lines`.
pub(super) fn working_sets(lines: &mut Lines) -> Vec<(usize, Nanos)> {
    let counts = (8..=lines.all().len().ilog2()).map(|bits| 1_usize << bits);
    let mut found = Vec::new();
    for count in counts {
        lines.link(count);
        let all = &lines.all()[..count];
        found.push((count * LINE_BYTES, time(&[Box::new(|steps| chase(all, steps))])[0]));
    }
    found
}

/// Times one dependent read anywhere in `lines`.
pub(super) fn one_read(lines: &Lines) -> Nanos {
    time(&[Box::new(|steps| chase(lines.all(), steps))])[0]
}

/// Times groups of reads that are independent within a group, for each of [`WIDTHS`].
pub(super) fn groups(lines: &Lines) -> Vec<Nanos> {
    let all = lines.all();
    macro_rules! loops {
        ($($width:literal)*) => {
            [$(Box::new(|steps| group::<$width>(all, steps)) as Loop),*]
        };
    }
    time(&loops!(1 2 3 4 5 6 8 10 12 14 16 20 24 28 32 40 48 64))
}

/// Times a read of each neighbour of a line that has just come.
///
/// The time of the eight reads before it is taken off.
pub(super) fn neighbours(lines: &Lines) -> Vec<Nanos> {
    let all = lines.all();
    let pair = |to| Box::new(move |steps| pairs(all, steps, to)) as Loop;
    let mut loops: Vec<Loop> = vec![Box::new(|steps| group::<8>(all, steps))];
    loops.extend(Neighbour::ALL.map(pair));
    let times = time(&loops);
    let before = times[0].median;
    let behind = |time: &Nanos| Nanos {
        median: (time.median - before).max(0.0),
        min: (time.min - before).max(0.0),
        max: (time.max - before).max(0.0),
    };
    times[1..].iter().map(behind).collect()
}

/// Returns the time of a step of each loop.
fn time(loops: &[Loop]) -> Vec<Nanos> {
    let steps: Vec<u64> = loops.iter().map(steps_of_a_run).collect();
    let mut rounds = vec![Vec::with_capacity(ROUNDS); loops.len()];
    for _ in 0..ROUNDS {
        for ((run, &steps), found) in loops.iter().zip(&steps).zip(&mut rounds) {
            let started = now();
            black_box(run(steps));
            found.push((now().saturating_sub(started)).as_secs_f64() * 1e9 / steps as f64);
        }
    }
    let summary = |mut found: Vec<f64>| {
        found.sort_by(f64::total_cmp);
        Nanos { median: found[ROUNDS / 2], min: found[0], max: found[ROUNDS - 1] }
    };
    rounds.into_iter().map(summary).collect()
}

/// Returns how many steps take about [`RUN`]; finding out warms the loop up.
fn steps_of_a_run(run: &Loop) -> u64 {
    let mut steps = 1_000;
    loop {
        let started = now();
        black_box(run(steps));
        let took = now().saturating_sub(started);
        if took >= RUN / 4 {
            return (steps as f64 * RUN.as_secs_f64() / took.as_secs_f64()) as u64 + 1;
        }
        steps *= 2;
    }
}

/// Returns the processor time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Follows the cycle.
fn chase(lines: &[[u64; 8]], steps: u64) -> u64 {
    let mask = lines.len() - 1;
    let mut at = 0;
    for _ in 0..steps {
        at = lines[at & mask][0] as usize;
    }
    at as u64
}

/// Returns the line of read `number` in the group of `state`.
#[inline]
fn line(state: u64, number: u64, mask: usize) -> usize {
    let mixed = state.wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95));
    // The high half of a product has mixed all bits below it.
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as usize & mask
}

/// Returns the state of the next group: nothing of it is known before `read` is.
#[inline]
fn advance(state: u64, read: u64) -> u64 {
    (state ^ read).wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f)
}

/// Reads `K` lines at once, then the next `K`, which depend on all of them.
#[inline(never)]
fn group<const K: usize>(lines: &[[u64; 8]], steps: u64) -> u64 {
    let mask = lines.len() - 1;
    let mut state = 1;
    for _ in 0..steps {
        let mut read = 0;
        for number in 0..K {
            read ^= lines[line(state, number as u64, mask)][0];
        }
        state = advance(state, read);
    }
    state
}

/// Reads eight lines at once, and then a neighbour of one of them.
///
/// Which of the eight is not known before all have come: a processor that
/// guesses is wrong seven times in eight.
#[inline(never)]
fn pairs(lines: &[[u64; 8]], steps: u64, to: Neighbour) -> u64 {
    let mask = lines.len() - 1;
    let mut state = 1;
    for _ in 0..steps {
        let read = (0..8).fold(0, |read, number| read ^ lines[line(state, number, mask)][0]);
        let chosen = line(state, read % 8, mask);
        let second = match to {
            Neighbour::Same => chosen,
            Neighbour::Complement => chosen ^ 1,
            // One up from an odd line, one down from an even one.
            Neighbour::OtherSide => chosen.wrapping_add((chosen & 1) * 2).wrapping_sub(1),
            Neighbour::Anywhere => line(state, read | 8, mask),
        };
        state = advance(state, read ^ lines[second & mask][0].rotate_left(32));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::super::memory::Pages;
    use super::*;

    #[test]
    fn the_addresses_of_groups_reach_all_lines() {
        let mask = (1 << 12) - 1;
        let mut seen = vec![false; mask + 1];
        let mut state = 1;
        for step in 0..10_000 {
            for number in 0..8 {
                seen[line(state, number, mask)] = true;
            }
            state = advance(state, step);
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn every_table_has_a_figure_for_every_subject() {
        let mut lines = Lines::new(1 << 16, Pages::Small).unwrap();
        assert_eq!(working_sets(&mut lines).len(), 3);
        assert_eq!(groups(&lines).len(), WIDTHS.len());
        let times = neighbours(&lines);
        assert_eq!(times.len(), Neighbour::ALL.len());
        assert!(times.iter().all(|time| time.median.is_finite()));
    }
}
