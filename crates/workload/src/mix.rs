//! Workloads, and the queries they are made of.
//!
//! Queries lie back to back in the order they run, so reading them is sequential and adds no
//! cache miss to what is measured. Each carries the answer it must get.
//!
//! # Answers
//!
//! * The value of key `i` is 55 hashed bits of `i`, then 8 bits of a version that updates change.
//!   Readers compare all but the version, so an update by another thread is no wrong answer.
//! * A scan is folded to one number that depends on every value, on the last byte of every key
//!   and on their order ([`Fold`]); the query carries the number that is right. The first entry
//!   above a key is a scan of one.

use std::fmt;
use std::str::FromStr;

use crate::arena::Arena;
use crate::distribution::{Chooser, Distribution, Zipf};
use crate::keyset::KeySet;
use crate::order::Order;
use crate::rng::{Rng, mix64};

/// Entries that a scan visits.
pub const SCAN_ENTRIES: usize = 100;

/// Spare queries behind the last: a wrong answer may make a dependent run step a little past it.
pub const SPARE: usize = 8;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workload {
    /// Inserts all keys.
    Load,
    /// As `Scan`, the first time after the load: a map that sorts late pays for it here.
    ScanFirst,
    /// Looks up present keys.
    Get,
    /// Looks up present keys; which one is known only after the answer before.
    GetDependent,
    /// Looks up absent keys.
    Miss,
    /// Looks up present keys, several in one call.
    Batch,
    /// Visits 100 entries from a present key on.
    Scan,
    /// YCSB C: reads.
    YcsbC,
    /// YCSB B: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB A: half reads, half updates.
    YcsbA,
    /// YCSB F: half reads, half reads followed by an update of the same key.
    YcsbF,
    /// YCSB D: 95 % reads of the latest keys, 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % scans of 1 to 100 entries, 5 % inserts.
    YcsbE,
    /// Looks up the first entry above absent keys.
    LowerBound,
    /// Looks up the first entry above absent keys; which key is known only after the answer before.
    LowerBoundDependent,
    /// YCSB B by all threads but the last, which scans 100 entries at a time meanwhile.
    YcsbBScans,
}

impl Workload {
    /// All workloads, in the order they run: those that insert come last.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Load, "load"),
        (Self::ScanFirst, "scan-first"),
        (Self::Get, "get"),
        (Self::GetDependent, "get-dep"),
        (Self::Miss, "miss"),
        (Self::LowerBound, "lower-bound"),
        (Self::LowerBoundDependent, "lower-bound-dep"),
        (Self::Batch, "batch"),
        (Self::Scan, "scan"),
        (Self::YcsbC, "ycsb-c"),
        (Self::YcsbB, "ycsb-b"),
        (Self::YcsbBScans, "ycsb-b-scans"),
        (Self::YcsbA, "ycsb-a"),
        (Self::YcsbF, "ycsb-f"),
        (Self::YcsbD, "ycsb-d"),
        (Self::YcsbE, "ycsb-e"),
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(w, _)| *w == self).expect("all are listed").1
    }

    /// Tells whether the map must know the order of its keys.
    pub fn scans(self) -> bool {
        matches!(self, Self::Scan | Self::ScanFirst | Self::YcsbE)
            || self.has_scanner()
            || self.asks_for_bounds()
    }

    /// Tells whether the last thread scans until the others have done what is measured.
    pub fn has_scanner(self) -> bool {
        self == Self::YcsbBScans
    }

    /// Tells whether it looks up the first entry above a key.
    pub fn asks_for_bounds(self) -> bool {
        matches!(self, Self::LowerBound | Self::LowerBoundDependent)
    }

    /// Tells whether it asks for keys that are kept out of the map.
    pub fn misses(self) -> bool {
        self == Self::Miss || self.asks_for_bounds()
    }

    /// Returns the same with each query waiting for the answer before, where that is a workload of its own.
    #[must_use]
    pub fn dependent(self) -> Self {
        match self {
            Self::Get => Self::GetDependent,
            Self::LowerBound => Self::LowerBoundDependent,
            other => other,
        }
    }

    /// Returns the same with queries that may overlap, and whether they could not.
    #[must_use]
    pub fn independent(self) -> (Self, bool) {
        match self {
            Self::GetDependent => (Self::Get, true),
            Self::LowerBoundDependent => (Self::LowerBound, true),
            other => (other, false),
        }
    }

    /// Tells whether it writes to a loaded map.
    pub fn writes(self) -> bool {
        self.updates() || self.inserts()
    }

    /// Tells whether it changes values.
    pub fn updates(self) -> bool {
        matches!(self, Self::YcsbA | Self::YcsbB | Self::YcsbBScans | Self::YcsbF)
    }

    /// Tells whether it inserts keys that were kept out.
    pub fn inserts(self) -> bool {
        matches!(self, Self::YcsbD | Self::YcsbE)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(workload, _)| *workload).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("no workload '{name}', use {}", names.join(", "))
        })
    }
}

/// What a query does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Looks a key up.
    Read,
    /// Changes a value.
    Update,
    /// Adds a key.
    Insert,
    /// Visits entries in order.
    Scan,
    /// Looks a key up, then changes its value.
    ReadUpdate,
    /// Looks up the first entry at or above a key.
    LowerBound,
}

/// One query, but for the bytes of its key.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// The answer: the value, 0 for an absent key, or the fold of a scan or of the one entry above a key.
    pub expect: u64,
    /// Where the key starts, in units of eight bytes.
    at: u32,
    length: u16,
    /// How many entries a scan visits.
    pub entries: u8,
    /// What to do.
    pub op: Op,
}

const _: () = assert!(size_of::<Query>() == 16);

/// Queries in the order they run.
#[derive(Debug)]
pub struct Stream {
    keys: Arena,
    queries: Vec<Query>,
    /// The key each query names, for checks after the run.
    indexes: Vec<u32>,
}

impl Stream {
    fn with_capacity(queries: usize) -> std::io::Result<Self> {
        Ok(Self {
            keys: Arena::with_capacity(queries * 16)?,
            queries: Vec::with_capacity(queries),
            indexes: Vec::with_capacity(queries),
        })
    }

    fn push(
        &mut self,
        keys: &KeySet,
        index: usize,
        op: Op,
        expect: u64,
        entries: usize,
    ) -> std::io::Result<()> {
        let key = keys.key(index);
        let at = (self.keys.len() / 8) as u32;
        let padded = self.keys.extend_zeroed(key.len().next_multiple_of(8))?;
        padded[..key.len()].copy_from_slice(key);
        let (length, entries) = (key.len() as u16, entries as u8);
        self.queries.push(Query { expect, at, length, entries, op });
        self.indexes.push(index as u32);
        Ok(())
    }

    /// Returns how many queries there are, without the spare ones.
    pub fn len(&self) -> usize {
        self.queries.len() - SPARE
    }

    /// Tells whether there is no query.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns query `i`, spare ones included.
    #[inline]
    pub fn query(&self, i: usize) -> Query {
        self.queries[i]
    }

    /// Returns all queries, spare ones included.
    #[inline]
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// Returns the key of a query.
    #[inline]
    pub fn key(&self, query: &Query) -> &[u8] {
        let start = query.at as usize * 8;
        &self.keys.bytes()[start..start + query.length as usize]
    }

    /// Returns the index in the key set of the key of query `i`.
    pub fn index(&self, i: usize) -> usize {
        self.indexes[i] as usize
    }
}

/// Returns the value that key `index` is mapped to when the map is loaded.
#[inline]
pub fn value_of(index: usize) -> u64 {
    // The top bit stays clear: some maps keep it for themselves.
    (mix64(index as u64) >> 9) << 8 | 1
}

/// Returns `value` with another version.
#[inline]
pub fn with_version(value: u64, version: u8) -> u64 {
    value & !0xff | u64::from(version)
}

/// Tells whether two values differ by more than their version.
#[inline]
pub fn difference(a: u64, b: u64) -> u64 {
    (a ^ b) >> 8
}

/// A scan's entries as one number: a polynomial in an odd number, modulo 2^64, so that a value
/// in another place gives another number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fold(pub u64);

impl Fold {
    /// Takes in the next entry.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: u64) {
        self.add_item(Self::item(key, value));
    }

    #[inline]
    fn item(key: &[u8], value: u64) -> u64 {
        (value >> 8) ^ u64::from(key.last().copied().unwrap_or(0)) << 48
    }

    #[inline]
    fn add_item(&mut self, item: u64) {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(item);
    }
}

/// What scans must return: the entries in order, those that are not there yet marked.
#[derive(Debug)]
pub struct ScanReference<'a> {
    order: &'a Order,
    items: Vec<u64>,
    /// Whether scans are of a map that shows their sum: see `Subject::SUMS`.
    sums: bool,
    /// The query that inserts the key of each rank; 0 from the start, `NEVER`.
    born: Vec<u32>,
}

const NEVER: u32 = u32::MAX;

impl<'a> ScanReference<'a> {
    /// Prepares the answers of scans over a map that holds the first `loaded` keys.
    pub fn new(keys: &KeySet, order: &'a Order, loaded: usize) -> Self {
        Self::with(keys, order, loaded, Fold::item)
    }

    /// The same for a map whose scans show one entry with their sum.
    pub fn of_sums(keys: &KeySet, order: &'a Order, loaded: usize) -> Self {
        let item = |key: &[u8], value| u64::from(key.last().copied().unwrap_or(0)) + value;
        Self { sums: true, ..Self::with(keys, order, loaded, item) }
    }

    fn with(
        keys: &KeySet,
        order: &'a Order,
        loaded: usize,
        item: impl Fn(&[u8], u64) -> u64,
    ) -> Self {
        let item = |&index: &u32| item(keys.key(index as usize), value_of(index as usize));
        let items = order.by_rank().iter().map(item).collect();
        let born = |&index: &u32| if (index as usize) < loaded { 0 } else { NEVER };
        let born = order.by_rank().iter().map(born).collect();
        Self { order, items, sums: false, born }
    }

    /// Says that key `index` is in the map too.
    pub fn add(&mut self, index: usize) {
        self.born[self.order.rank_of(index)] = 0;
    }

    /// Says that query `at` inserts key `index`.
    fn insert(&mut self, index: usize, at: usize) {
        self.born[self.order.rank_of(index)] = at as u32 + 1;
    }

    /// Returns the fold of a scan from key `index`, present or not, as query `at` sees it.
    fn fold(&self, index: usize, entries: usize, at: usize) -> Fold {
        let from = self.order.rank_of(index);
        let there = self.born[from..].iter().zip(&self.items[from..]);
        let mut fold = Fold::default();
        let visible = there.filter(|(born, _)| **born as usize <= at);
        let items = visible.take(entries).map(|(_, item)| *item);
        if self.sums {
            fold.add(&[], items.fold(0, u64::wrapping_add));
        } else {
            items.for_each(|item| fold.add_item(item));
        }
        fold
    }

    /// Returns the indexes of the entries that a scan from key `index` visits once all
    /// insertions are done.
    pub fn entries(&self, index: usize, entries: usize) -> Vec<usize> {
        let from = self.order.rank_of(index);
        let there = self.born[from..].iter().zip(&self.order.by_rank()[from..]);
        there.filter(|(b, _)| **b != NEVER).take(entries).map(|(_, i)| *i as usize).collect()
    }
}

/// What the queries of one thread are made from.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The keys.
    pub keys: &'a KeySet,
    /// How present keys are chosen.
    pub distribution: Distribution,
    /// How many queries.
    pub queries: usize,
    /// Which thread, of how many.
    pub thread: (usize, usize),
    /// The seed of everything.
    pub seed: u64,
}

impl Plan<'_> {
    /// Makes the queries of a workload other than `Load`.
    ///
    /// `scans` is there if the workload scans. With several threads the folds of scans that may
    /// see another thread's insertions are left 0, which matches anything.
    ///
    /// # Errors
    ///
    /// None but a lack of memory.
    pub fn stream(
        &self,
        workload: Workload,
        scans: Option<&mut ScanReference<'_>>,
    ) -> std::io::Result<Stream> {
        let salt = workload as u64 * 131 + self.thread.0 as u64 * 1_299_709;
        let mut rng = Rng::new(self.seed.wrapping_mul(7919).wrapping_add(salt));
        let chooser = Chooser::new(self.distribution, self.keys.present());
        let is_scanner = workload.has_scanner() && self.thread.0 + 1 == self.thread.1;
        let (workload, queries) = if is_scanner {
            // Few, as it starts over until the others are done.
            (Workload::Scan, self.queries.div_ceil(16))
        } else {
            (workload, self.queries)
        };
        let all = queries + SPARE;
        let mut stream = Stream::with_capacity(all)?;
        match workload {
            Workload::Miss => {
                let present = self.keys.present();
                for _ in 0..all {
                    let index = present + rng.index(self.keys.absent());
                    stream.push(self.keys, index, Op::Read, 0, 0)?;
                }
            }
            Workload::LowerBound | Workload::LowerBoundDependent => {
                let scans = scans.expect("the workload scans");
                for _ in 0..all {
                    let index = self.keys.present() + rng.index(self.keys.absent());
                    stream.push(self.keys, index, Op::LowerBound, scans.fold(index, 1, 0).0, 1)?;
                }
            }
            Workload::Scan | Workload::ScanFirst => {
                let scans = scans.expect("the workload scans");
                for _ in 0..all {
                    let index = chooser.choose(&mut rng);
                    let fold = scans.fold(index, SCAN_ENTRIES, 0).0;
                    stream.push(self.keys, index, Op::Scan, fold, SCAN_ENTRIES)?;
                }
            }
            Workload::YcsbD | Workload::YcsbE => {
                self.insertions(workload, &mut rng, &chooser, scans, &mut stream)?;
            }
            _ => {
                let (reads, other) = match workload {
                    Workload::YcsbA => (50, Op::Update),
                    Workload::YcsbB | Workload::YcsbBScans => (95, Op::Update),
                    Workload::YcsbF => (50, Op::ReadUpdate),
                    _ => (100, Op::Read),
                };
                for _ in 0..all {
                    let index = chooser.choose(&mut rng);
                    let op = if rng.below(100) < reads { Op::Read } else { other };
                    stream.push(self.keys, index, op, value_of(index), 0)?;
                }
            }
        }
        Ok(stream)
    }

    /// Returns the keys that a thread inserts: D and E have half of the absent keys each.
    pub fn newcomers(&self, workload: Workload) -> std::ops::Range<usize> {
        let (thread, threads) = self.thread;
        let half = self.keys.absent() / 2;
        let start = self.keys.present() + if workload == Workload::YcsbE { half } else { 0 };
        start + half * thread / threads..start + half * (thread + 1) / threads
    }

    fn insertions(
        &self,
        workload: Workload,
        rng: &mut Rng,
        chooser: &Chooser,
        mut scans: Option<&mut ScanReference<'_>>,
        stream: &mut Stream,
    ) -> std::io::Result<()> {
        let newcomers = self.newcomers(workload);
        let (first, mut next) = (newcomers.start, newcomers.start);
        let latest = Zipf::new(self.keys.present() as u64);
        for at in 0..self.queries + SPARE {
            if rng.below(100) < 5 && next < newcomers.end && at < self.queries {
                if let Some(scans) = &mut scans {
                    scans.insert(next, at);
                }
                stream.push(self.keys, next, Op::Insert, value_of(next), 0)?;
                next += 1;
            } else if workload == Workload::YcsbD {
                // The newest keys of this thread first, then the loaded ones backwards.
                let back = latest.rank(rng) as usize;
                let own = next - first;
                let index = if back < own {
                    next - 1 - back
                } else {
                    self.keys.present() - 1 - (back - own) % self.keys.present()
                };
                stream.push(self.keys, index, Op::Read, value_of(index), 0)?;
            } else {
                let index = chooser.choose(rng);
                let entries = 1 + rng.index(SCAN_ENTRIES);
                let scans = scans.as_deref().expect("the workload scans");
                let alone = self.thread.1 == 1;
                let fold = if alone { scans.fold(index, entries, at).0 } else { 0 };
                stream.push(self.keys, index, Op::Scan, fold, entries)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "mix_tests.rs"]
mod tests;
