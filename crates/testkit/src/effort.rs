//! How much the tests do, and how much they have done.
//!
//! The same tests run for seconds with every change and for hours at night; the environment says which.
//!
//! | variable | says |
//! | --- | --- |
//! | `FANREAD_SEED` | what all random choices are drawn from, to replay a run: a number, hexadecimal with `0x` |
//! | `FANREAD_SEEDS` | how many runs a test makes that compares a map with a model or crashes it |
//! | `FANREAD_HISTORIES` | how many histories of threads a test makes |
//! | `FANREAD_SCHEDULES` | how many schedules a scene runs under |
//! | `FANREAD_KILLS` | how many processes a test kills |
//! | `FANREAD_CALLS` | up to which call of user code the n-th call panics |
//! | `FANREAD_COUNTS` | a file to which each test appends what it has done |
//!
//! A line of that file is `WHAT OF NUMBER`, as in `histories wormhole 300`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

use crate::rng::splitmix;

/// Returns the number that a variable is set to.
///
/// # Panics
///
/// If it is set to something that is not a number.
#[must_use]
pub fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let digits = text.strip_prefix("0x");
    let number = digits.map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    Some(number.unwrap_or_else(|_| panic!("{name} is {text:?}, not a number")))
}

/// Returns how much to do: what a variable is set to, or else `by_default`.
#[must_use]
pub fn amount(name: &str, by_default: usize) -> usize {
    variable(name).map_or(by_default, |number| number as usize)
}

/// Returns the seeds that random tests run with.
///
/// Eight fixed ones; only `FANREAD_SEED` if that is set, to replay a failure; `FANREAD_SEEDS` many if that is set.
pub fn seeds() -> impl Iterator<Item = u64> {
    seeds_or(8)
}

/// As [`seeds`], with `by_default` fixed ones.
pub fn seeds_or(by_default: usize) -> impl Iterator<Item = u64> {
    let one = variable("FANREAD_SEED");
    let count = if one.is_some() { 1 } else { amount("FANREAD_SEEDS", by_default) as u64 };
    (0..count).map(move |i| one.unwrap_or_else(|| splitmix(i)))
}

/// Returns the seed of a test that has one: its own, `by_default`, or one drawn from `FANREAD_SEED` if that is set.
#[must_use]
pub fn seed(by_default: u64) -> u64 {
    variable("FANREAD_SEED").map_or(by_default, |seed| splitmix(seed ^ splitmix(by_default)))
}

/// Says that `number` of `what` were done to `of`, if somebody counts.
///
/// # Panics
///
/// If the file of counts cannot be written to, or `what` or `of` has a space.
pub fn done(what: &str, of: &str, number: u64) {
    let Some(path) = env::var_os("FANREAD_COUNTS") else { return };
    assert!(![what, of].iter().any(|word| word.contains(char::is_whitespace)), "{what} {of}");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    // One write: tests of many threads and processes append at once.
    let line = format!("{what} {of} {number}\n");
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("FANREAD_COUNTS, {}: {error}", path.display()));
}
