//! What a scan may see while other threads write, and a checker for it.
//!
//! A scan is no single instant. What it promises, and what is checked against
//! the recorded writes:
//!
//! * **S1** its keys are strictly ascending (descending, from the back) and
//!   inside its bounds;
//! * **S2** each entry was in the map at some instant of the scan;
//! * **S3** a key that was in the map throughout the scan is among them.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;

use crate::history::{Event, History};

/// A recorded scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Drawn before the scan.
    pub began: u64,
    /// Drawn after its last entry.
    pub ended: u64,
    /// The keys asked for, by their numbers; their order is that of the numbers.
    pub keys: RangeInclusive<u32>,
    /// Whether it ran from the back.
    pub back: bool,
    /// What it yielded.
    pub entries: Vec<(u32, u64)>,
}

/// What is wrong with a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanViolation {
    /// Two neighbours are not in order (S1).
    OutOfOrder {
        /// The key yielded first.
        first: u32,
        /// The key yielded next.
        next: u32,
    },
    /// A key lies outside the bounds (S1).
    OutOfBounds {
        /// The key.
        key: u32,
    },
    /// Nobody ever wrote this value to this key (S2).
    NeverWritten {
        /// The key.
        key: u32,
        /// The value that was yielded with it.
        value: u64,
    },
    /// The entry was not in the map during the scan (S2).
    NotThere {
        /// The key.
        key: u32,
        /// The value that was yielded with it.
        value: u64,
    },
    /// A key that was there throughout was not yielded (S3).
    Missed {
        /// The key.
        key: u32,
    },
}

impl fmt::Display for ScanViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfOrder { first, next } => write!(f, "key {next} was yielded after {first}"),
            Self::OutOfBounds { key } => write!(f, "key {key} is outside the bounds"),
            Self::NeverWritten { key, value } => write!(f, "nobody wrote {value} to key {key}"),
            Self::NotThere { key, value } => {
                write!(f, "key {key} did not have {value} during the scan")
            }
            Self::Missed { key } => write!(f, "key {key} was there throughout, but not yielded"),
        }
    }
}

impl std::error::Error for ScanViolation {}

/// When a value may have been in the map: after `from`, and before `until`.
struct Life {
    from: u64,
    until: u64,
}

/// Checks scans against the writes of one history.
pub struct ScanChecker<'a> {
    history: &'a History,
    /// By key and value.
    lives: HashMap<(u32, u64), Life>,
    by_key: HashMap<u32, Vec<&'a Event>>,
}

impl<'a> ScanChecker<'a> {
    /// Prepares to check scans that ran beside the calls of `history`.
    pub fn new(history: &'a History) -> Self {
        let mut lives = HashMap::new();
        let mut by_key: HashMap<u32, Vec<&Event>> = HashMap::new();
        for (&key, &value) in &history.initial {
            lives.insert((key, value), Life { from: 0, until: u64::MAX });
        }
        for event in history.threads.iter().flatten() {
            if let Some(value) = event.call.wrote() {
                lives.insert((event.key, value), Life { from: event.began, until: u64::MAX });
            }
            by_key.entry(event.key).or_default().push(event);
        }
        for event in history.threads.iter().flatten() {
            let displaced = event.call.displaced();
            if let Some(life) = displaced.and_then(|value| lives.get_mut(&(event.key, value))) {
                life.until = event.ended;
            }
        }
        Self { history, lives, by_key }
    }

    /// Checks one scan.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn check(&self, scan: &Scan) -> Result<(), ScanViolation> {
        for pair in scan.entries.windows(2) {
            let (first, next) = (pair[0].0, pair[1].0);
            if first == next || (first > next) != scan.back {
                return Err(ScanViolation::OutOfOrder { first, next });
            }
        }
        for &(key, value) in &scan.entries {
            if !scan.keys.contains(&key) {
                return Err(ScanViolation::OutOfBounds { key });
            }
            let life = self.lives.get(&(key, value));
            let life = life.ok_or(ScanViolation::NeverWritten { key, value })?;
            if life.from > scan.ended || life.until < scan.began {
                return Err(ScanViolation::NotThere { key, value });
            }
        }
        let mut yielded: Vec<u32> = scan.entries.iter().map(|&(key, _)| key).collect();
        yielded.sort_unstable();
        let keys = self.history.initial.keys().chain(self.by_key.keys());
        for &key in keys.filter(|key| scan.keys.contains(key)) {
            if yielded.binary_search(&key).is_err() && self.was_there_throughout(key, scan) {
                return Err(ScanViolation::Missed { key });
            }
        }
        Ok(())
    }

    /// Returns whether no order of the calls lets `key` be absent during `scan`.
    ///
    /// True if some call certainly gave it a value before the scan and no
    /// removal can lie between that call and the end of the scan. It may say
    /// false where a closer look would say true, never the other way round.
    fn was_there_throughout(&self, key: u32, scan: &Scan) -> bool {
        let events = self.by_key.get(&key).map_or(&[][..], Vec::as_slice);
        // The latest beginning of a write that ended before the scan began.
        let written = events.iter().filter(|e| e.call.wrote().is_some() && e.ended < scan.began);
        let initially = self.history.initial.contains_key(&key).then_some(0);
        let Some(since) = written.map(|e| e.began).chain(initially).max() else { return false };
        !events.iter().any(|e| e.call.removed() && e.ended > since && e.began < scan.ended)
    }
}

impl fmt::Debug for ScanChecker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanChecker").field("values", &self.lives.len()).finish_non_exhaustive()
    }
}
