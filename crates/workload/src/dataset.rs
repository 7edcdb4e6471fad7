//! The key sets by name, and keys from files.
//!
//! | name | keys |
//! | --- | --- |
//! | `rand-8`, `rand-16` | random bytes |
//! | `seq-8` | 1, 2, 3, ... in random order |
//! | `osm` | 64-bit cells of points in towns, on streets |
//! | `dist-a`, `dist-b` | six bytes with 6 candidates each, then two with 96; and the mirror image |
//! | `az` | `item-user-time` tuples, 35 bytes |
//! | `reddit` | user names, about 10 bytes |
//! | `url` | addresses of pages, about 78 bytes |
//! | `k3` .. `k10` | random bytes, 8 of them in `k3`, twice as many in each next set |
//! | `klong` | 60 bytes `0`, then four random bytes |
//! | a path, `-` | one key a line; a name that ends in `_uint64`: a count, then 64-bit numbers |
//!
//! PAPER: `k3` to `k10` and `klong` follow "Wormhole" (2019), table 1 and section 4.1;
//! `dist-a` and `dist-b` the distributions A and B of the paper on the `MlpIndex`.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use crate::keyset::{KeySet, MAX_KEY_BYTES, Seen, hash_of};
use crate::points::Cities;
use crate::rng::{Rng, mix64};
use crate::text::{Addresses, Names, Reviews};

/// The names of all generated sets.
pub const NAMES: [&str; 18] = [
    "rand-8", "rand-16", "seq-8", "osm", "dist-a", "dist-b", "az", "reddit", "url", "klong", "k3",
    "k4", "k5", "k6", "k7", "k8", "k9", "k10",
];

/// Most keys that a set can hold: queries name a key by 32 bits.
pub const MAX_KEYS: usize = u32::MAX as usize;

/// A source of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dataset {
    /// A generated set, one of [`NAMES`].
    Generated(&'static str),
    /// The lines or numbers of a file.
    File(PathBuf),
    /// The lines of standard input.
    Stdin,
}

impl FromStr for Dataset {
    type Err = std::convert::Infallible;

    /// A name of a generated set, `-`, or else a path.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match NAMES.iter().find(|known| **known == name) {
            Some(known) => Self::Generated(known),
            None if name == "-" => Self::Stdin,
            None => Self::File(name.into()),
        })
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(name) => f.write_str(name),
            Self::File(path) => match path.file_name() {
                Some(name) => f.write_str(&name.to_string_lossy()),
                None => write!(f, "{}", path.display()),
            },
            Self::Stdin => f.write_str("stdin"),
        }
    }
}

/// Why there are no keys.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The file cannot be opened or read, or there is no memory for its keys.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// There is no key in the input.
    #[error("no keys in {}", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// A line is too long to be a key.
    #[error("line {line} of {} has {bytes} bytes, a key has at most {MAX_KEY_BYTES}", path.display())]
    KeyTooLong {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// How long it is.
        bytes: u64,
    },
    /// A file of numbers is not as long as its count says.
    #[error("{} holds {found} numbers, its first says {counted}", path.display())]
    WrongCount {
        /// Which file.
        path: PathBuf,
        /// What the first eight bytes say.
        counted: u64,
        /// How many numbers follow.
        found: u64,
    },
    /// The shape of the set has too few different keys.
    #[error("{name} has fewer than {keys} different keys")]
    TooMany {
        /// Which set.
        name: &'static str,
        /// How many were asked for, misses included.
        keys: usize,
    },
    /// More keys than 32 bits can name.
    #[error("{keys} keys are too many, at most {MAX_KEYS} with those kept out")]
    TooManyKeys {
        /// How many were asked for, misses included.
        keys: usize,
    },
    /// There is no memory for the keys.
    #[error("no memory for the keys: {0}")]
    Memory(#[from] io::Error),
}

/// What reading a file left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Keys that were there before.
    pub duplicates: u64,
    /// Empty lines.
    pub empty: u64,
}

/// Returns how many keys are kept out of a map of `count` keys.
pub fn absent_for(count: usize) -> usize {
    (count / 10).max(1000)
}

impl Dataset {
    /// Makes the set: `count` keys for the map and some more that are kept out of it.
    ///
    /// A file may hold fewer keys; then one in eleven is kept out, or as many as there are beyond `count`.
    ///
    /// # Errors
    ///
    /// [`DatasetError`] for input that cannot be used.
    pub fn load(&self, count: usize, seed: u64) -> Result<(KeySet, Skipped), DatasetError> {
        let wanted = count.saturating_add(absent_for(count));
        if wanted > MAX_KEYS {
            return Err(DatasetError::TooManyKeys { keys: wanted });
        }
        let (mut set, skipped) = match self {
            Self::Generated(name) => (generate(name, wanted, seed)?, Skipped::default()),
            Self::File(path) => read_file(path, wanted, seed)?,
            Self::Stdin => {
                let mut stdin = io::stdin().lock();
                read_lines(&mut stdin, Path::new("standard input"), wanted, seed)?
            }
        };
        set.keep_out(set.len().saturating_sub(count).max(set.len() / 11));
        Ok((set, skipped))
    }
}

fn generate(name: &'static str, n: usize, seed: u64) -> Result<KeySet, DatasetError> {
    let start = mix64(seed ^ 0x2545_f491_4f6c_dd1d);
    let mut rng = Rng::new(start);
    match name {
        "rand-8" => {
            // Different numbers scramble to different keys: no check is needed.
            let mut set = KeySet::fixed(8, n)?;
            for i in 0..n as u64 {
                set.push(&mix64(start.wrapping_add(i)).to_be_bytes())?;
            }
            Ok(set)
        }
        "seq-8" => {
            let mut set = KeySet::fixed(8, n)?;
            for i in 1..=n as u64 {
                set.push(&i.to_be_bytes())?;
            }
            set.shuffle(seed)?;
            Ok(set)
        }
        "osm" => {
            let cities = Cities::new(start);
            draw(name, n, 8, |out| out.extend_from_slice(&cities.draw(&mut rng).to_be_bytes()))
        }
        "dist-a" | "dist-b" => draw(name, n, 8, |out| {
            for byte in 0..8 {
                let wide = if name == "dist-a" { byte >= 6 } else { byte < 2 };
                let (first, candidates) = if wide { (b' ', 96) } else { (b'0', 6) };
                out.push(first + rng.below(candidates) as u8);
            }
        }),
        "klong" => draw(name, n, 64, |out| {
            out.extend_from_slice(&[b'0'; 60]);
            out.extend_from_slice(&(rng.bits() as u32).to_be_bytes());
        }),
        "az" => {
            let reviews = Reviews::new(n);
            draw(name, n, 0, |out| reviews.draw(&mut rng, out))
        }
        "reddit" => {
            let names = Names::new();
            draw(name, n, 0, |out| names.draw(&mut rng, out))
        }
        "url" => {
            let addresses = Addresses::new(n);
            draw(name, n, 0, |out| addresses.draw(&mut rng, out))
        }
        _ => {
            let doublings = name.strip_prefix('k').and_then(|k| k.parse::<u32>().ok());
            let length = match doublings {
                Some(doublings) => 1usize << doublings,
                None => 16,
            };
            draw(name, n, length, |out| {
                while out.len() < length {
                    out.extend_from_slice(&rng.bits().to_be_bytes());
                }
            })
        }
    }
}

/// Collects `n` different keys that `make` appends to a buffer; `length` 0 if lengths differ.
fn draw(
    name: &'static str,
    n: usize,
    length: usize,
    mut make: impl FnMut(&mut Vec<u8>),
) -> Result<KeySet, DatasetError> {
    const TRIES: u32 = 10_000;
    let mut set = if length > 0 { KeySet::fixed(length, n)? } else { KeySet::variable(n, n * 40)? };
    let mut seen = Seen::new(n);
    let (mut key, mut repeats) = (Vec::new(), 0);
    while set.len() < n {
        key.clear();
        make(&mut key);
        if seen.add(hash_of(&key)) {
            set.push(&key)?;
            repeats = 0;
        } else {
            repeats += 1;
            if repeats == TRIES {
                return Err(DatasetError::TooMany { name, keys: n });
            }
        }
    }
    Ok(set)
}

fn read_file(path: &Path, most: usize, seed: u64) -> Result<(KeySet, Skipped), DatasetError> {
    let unreadable = |cause| DatasetError::Unreadable { path: path.into(), cause };
    let file = File::open(path).map_err(unreadable)?;
    let is_sosd = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_uint64"));
    let mut reader = BufReader::with_capacity(1 << 20, file);
    if is_sosd {
        read_numbers(&mut reader, path, most, seed)
    } else {
        read_lines(&mut reader, path, most, seed)
    }
}

/// Reads one key a line.
///
/// # Errors
///
/// [`DatasetError`] for unreadable or empty input and for a line that is too long.
pub fn read_lines(
    input: &mut dyn BufRead,
    path: &Path,
    most: usize,
    seed: u64,
) -> Result<(KeySet, Skipped), DatasetError> {
    let unreadable = |cause| DatasetError::Unreadable { path: path.into(), cause };
    let mut set = KeySet::variable(0, 64 << 20)?;
    let mut seen = Seen::new(0);
    let mut skipped = Skipped::default();
    let mut line = Vec::new();
    let mut number = 0;
    while set.len() < most {
        line.clear();
        // One byte more than a key and its line ending: enough to know that it is too long.
        let mut limited = (&mut *input).take(MAX_KEY_BYTES as u64 + 3);
        let read = limited.read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        number += 1;
        let ended = line.pop_if(|byte| *byte == b'\n').is_some();
        if ended {
            let _ = line.pop_if(|byte| *byte == b'\r');
        }
        if line.len() > MAX_KEY_BYTES {
            let rest = if ended { 0 } else { length_of_rest(input).map_err(unreadable)? };
            let bytes = line.len() as u64 + rest;
            return Err(DatasetError::KeyTooLong { path: path.into(), line: number, bytes });
        }
        if line.is_empty() {
            skipped.empty += 1;
        } else if seen.add(hash_of(&line)) {
            set.push(&line)?;
        } else {
            skipped.duplicates += 1;
        }
    }
    finish(set, skipped, path, seed)
}

/// Counts the bytes up to the end of the line.
fn length_of_rest(input: &mut dyn BufRead) -> io::Result<u64> {
    let mut bytes = 0;
    loop {
        let chunk = input.fill_buf()?;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let used = end.unwrap_or(chunk.len());
        bytes += used as u64;
        if end.is_some() || used == 0 {
            return Ok(bytes);
        }
        input.consume(used);
    }
}

/// Reads the format of the SOSD benchmark: a count, then that many numbers, little-endian.
fn read_numbers(
    input: &mut dyn BufRead,
    path: &Path,
    most: usize,
    seed: u64,
) -> Result<(KeySet, Skipped), DatasetError> {
    let unreadable = |cause| DatasetError::Unreadable { path: path.into(), cause };
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(unreadable)?;
    let mut numbers =
        bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("chunks of eight")));
    let Some(counted) = numbers.next() else {
        return Err(DatasetError::Empty { path: path.into() });
    };
    let found = numbers.len() as u64;
    if counted != found || bytes.len() % 8 != 0 {
        return Err(DatasetError::WrongCount { path: path.into(), counted, found });
    }
    let mut set = KeySet::fixed(8, most.min(found as usize))?;
    let mut seen = Seen::new(0);
    let mut skipped = Skipped::default();
    for number in numbers {
        if set.len() == most {
            break;
        }
        if seen.add(mix64(number)) {
            set.push(&number.to_be_bytes())?;
        } else {
            skipped.duplicates += 1;
        }
    }
    finish(set, skipped, path, seed)
}

fn finish(
    mut set: KeySet,
    skipped: Skipped,
    path: &Path,
    seed: u64,
) -> Result<(KeySet, Skipped), DatasetError> {
    if set.is_empty() {
        return Err(DatasetError::Empty { path: path.into() });
    }
    set.shuffle(seed)?;
    Ok((set, skipped))
}

#[cfg(test)]
#[path = "dataset_tests.rs"]
mod tests;
