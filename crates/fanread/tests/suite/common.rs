// A map behind the traits of `testkit`; included for each map by `maps/mod.rs`.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use super::{Key, Map, NUMBERS, Ref};
use testkit::model::{Answer, Subject, slice};
use testkit::ops::as_u64;
use testkit::stress::Shared;
use testkit::{Op, Rng};

/// A value that stands for a number.
pub(crate) trait Value: Clone + PartialEq + Send + Sync + 'static {
    fn of(number: u64) -> Self;
    fn number(&self) -> u64;
}

impl Value for u64 {
    fn of(number: u64) -> Self {
        number
    }
    fn number(&self) -> u64 {
        *self
    }
}

impl Value for Box<u64> {
    fn of(number: u64) -> Self {
        Box::new(number)
    }
    fn number(&self) -> u64 {
        **self
    }
}

impl Value for [u64; 3] {
    fn of(number: u64) -> Self {
        [number, !number, number ^ 0x5555]
    }
    fn number(&self) -> u64 {
        assert_eq!(*self, Self::of(self[0]), "half a value");
        self[0]
    }
}

/// A map for one thread.
#[derive(Default)]
pub(crate) struct Ordered<M>(pub(crate) M);

fn value<V: Value>(found: Option<Ref<'_, V>>) -> Answer {
    Answer::Value(found.map(|found| found.number()))
}

fn pair<V: Value>((key, value): (Key<'_>, Ref<'_, V>)) -> (Vec<u8>, u64) {
    (key.to_vec(), value.number())
}

impl<V: Value> Subject for Ordered<Map<V>> {
    fn apply(&mut self, op: &Op) -> Option<Answer> {
        let map = self.0.pin();
        Some(match op {
            Op::Insert(key, new) => value(map.insert(key, V::of(*new))),
            Op::Update(key, new) => value(map.update(key, |_| V::of(*new))),
            Op::GetOrInsert(key, new) if new.is_multiple_of(2) => {
                value(Some(map.get_or_insert_with(key, || V::of(*new))))
            }
            Op::GetOrInsert(key, new) => {
                let was = map.get(key).is_some();
                match map.insert_if_absent(key, V::of(*new)) {
                    Ok(now) => {
                        assert!(!was && now.number() == *new, "inserted over a value");
                        value(Some(now))
                    }
                    Err((there, back)) => {
                        assert!(was && back.number() == *new, "refused without a value");
                        value(Some(there))
                    }
                }
            }
            Op::CompareExchange(key, old, new) => {
                value(match map.compare_exchange(key, &V::of(*old), V::of(*new)) {
                    Ok(old) => Some(old),
                    Err((found, _)) => found,
                })
            }
            Op::Remove(key) => value(map.remove(key)),
            Op::Get(key) => {
                let found = value(map.get(key));
                let mut batched = [None];
                map.get_batch(&[key], &mut batched);
                assert_eq!(value(batched[0].take()), found, "get_batch");
                found
            }
            Op::LowerBound(bound) => Answer::Entry(map.lower_bound(slice(bound)).map(pair)),
            Op::UpperBound(bound) => Answer::Entry(map.upper_bound(slice(bound)).map(pair)),
            Op::Range { from, to, count, walk } => {
                let range = map.range((slice(from), slice(to)));
                Answer::Entries(walk.take(range.map(pair), *count))
            }
            Op::First => Answer::Entry(map.first_key_value().map(pair)),
            Op::Last => Answer::Entry(map.last_key_value().map(pair)),
            Op::PopFirst => Answer::Entry(map.pop_first().map(pair)),
            Op::PopLast => Answer::Entry(map.pop_last().map(pair)),
            Op::Len => Answer::Count(map.len()),
            Op::Clear => {
                map.clear();
                Answer::Done
            }
        })
    }

    fn check(&self) -> Result<(), String> {
        self.0.pin().check().map_err(|broken| broken.to_string())
    }
}

/// Which bytes key number `n` has: always in the order of the numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spelling {
    /// Eight bytes, as integers.
    Integers,
    /// A long common start.
    LongPrefix,
    /// Only NUL bytes, `n` of them.
    Nuls,
    /// Eight bytes, as integers one after another, across a multiple of 65,536.
    Dense,
    /// Eight bytes, as integers: the first 64 from 0 on, all others at the upper end.
    Ends,
}

/// The integer at which keys of [`Spelling::Dense`] begin.
const DENSE_FROM: u64 = (1 << 16) - 200;

/// How many keys of [`Spelling::Ends`] are at the lower end.
const AT_LOWER_END: u32 = 64;

/// What the others are counted from: one of the suites' last keys, of 4,000, is the largest integer.
const UPPER_END_FROM: u64 = u64::MAX - 3_999;

impl Spelling {
    /// The spellings of keys that the map takes.
    pub(crate) const ALL: [Self; 3] = if NUMBERS {
        [Self::Integers, Self::Dense, Self::Ends]
    } else {
        [Self::Integers, Self::LongPrefix, Self::Nuls]
    };

    pub(crate) fn key(self, n: u32) -> Vec<u8> {
        match self {
            Self::Integers => (u64::from(n) << 20).to_be_bytes().to_vec(),
            Self::LongPrefix => format!("{}{n:08}", "a long common start/".repeat(5)).into_bytes(),
            Self::Nuls => vec![0; n as usize],
            Self::Dense => (DENSE_FROM + u64::from(n)).to_be_bytes().to_vec(),
            Self::Ends if n < AT_LOWER_END => u64::from(n).to_be_bytes().to_vec(),
            Self::Ends => (UPPER_END_FROM + u64::from(n)).to_be_bytes().to_vec(),
        }
    }

    pub(crate) fn number(self, key: &[u8]) -> u32 {
        match self {
            Self::Integers => (as_u64(key) >> 20) as u32,
            Self::LongPrefix => std::str::from_utf8(&key[100..]).unwrap().parse().unwrap(),
            Self::Nuls => key.len() as u32,
            Self::Dense => (as_u64(key) - DENSE_FROM) as u32,
            Self::Ends if as_u64(key) < u64::from(AT_LOWER_END) => as_u64(key) as u32,
            Self::Ends => (as_u64(key) - UPPER_END_FROM) as u32,
        }
    }
}

/// Makes a value and lets other threads have a turn: between what a call has read and what it writes.
fn slowly<V: Value>(number: u64) -> V {
    thread::yield_now();
    V::of(number)
}

/// A map for threads: each call pins for itself. Test key `n` is key `n * spread`; what lies between is for others.
pub(crate) struct Threads<V> {
    pub(crate) map: Map<V>,
    pub(crate) spelling: Spelling,
    pub(crate) spread: u32,
    scans: AtomicU32,
}

impl<V: Value> Threads<V> {
    pub(crate) fn new(entries: &BTreeMap<u32, u64>, spelling: Spelling, spread: u32) -> Self {
        let scans = AtomicU32::new(0);
        let threads = Self { map: Map::new(), spelling, spread, scans };
        for (key, value) in entries {
            threads.map.pin().insert(&threads.key(*key), V::of(*value));
        }
        threads
    }

    fn key(&self, n: u32) -> Vec<u8> {
        self.spelling.key(n * self.spread)
    }

    /// Which of some keys is the first from `key` on, by its number among them.
    #[allow(dead_code, reason = "not every suite asks for it")]
    pub(crate) fn next_of(&self, key: u32, keys: &[u32]) -> Option<usize> {
        let from = self.key(key);
        let pinned = self.map.pin();
        let (found, _) = pinned.lower_bound(Bound::Included(&from[..]))?;
        keys.iter().position(|key| found[..] == self.key(*key)[..])
    }
}

impl<V: Value> Shared for Threads<V> {
    fn insert(&self, key: u32, value: u64) -> Option<u64> {
        self.map.pin().insert(&self.key(key), V::of(value)).map(|old| old.number())
    }

    fn remove(&self, key: u32) -> Option<u64> {
        self.map.pin().remove(&self.key(key)).map(|old| old.number())
    }

    fn get(&self, key: u32) -> Option<u64> {
        self.map.pin().get(&self.key(key)).map(|found| found.number())
    }

    fn find(&self, key: u32) -> Option<u64> {
        let key = self.key(key);
        let pinned = self.map.pin();
        let (found, value) = pinned.lower_bound(Bound::Included(&key[..]))?;
        (found[..] == key[..]).then(|| value.number())
    }

    fn update(&self, key: u32, value: u64) -> Option<Option<u64>> {
        Some(self.map.pin().update(&self.key(key), |_| slowly(value)).map(|old| old.number()))
    }

    fn get_or_insert(&self, key: u32, value: u64) -> Option<u64> {
        let pinned = self.map.pin();
        if value.is_multiple_of(2) {
            return Some(pinned.get_or_insert_with(&self.key(key), || slowly(value)).number());
        }
        // No two calls of a history have one value.
        Some(match pinned.insert_if_absent(&self.key(key), slowly(value)) {
            Ok(now) => {
                assert_eq!(now.number(), value, "inserted another value");
                value
            }
            Err((there, back)) => {
                assert!(there.number() != value && back.number() == value, "refused its own value");
                there.number()
            }
        })
    }

    fn compare_exchange(&self, key: u32, expected: u64, value: u64) -> Option<Option<u64>> {
        let pinned = self.map.pin();
        Some(match pinned.compare_exchange(&self.key(key), &V::of(expected), V::of(value)) {
            Ok(old) => Some(old.number()),
            Err((found, _)) => found.map(|found| found.number()),
        })
    }

    /// Every third scan is made from both ends at once. Of those from the first key on, or up to number 1,000, half have no bound there.
    fn scan(&self, keys: RangeInclusive<u32>, back: bool) -> Option<Vec<(u32, u64)>> {
        let (from, to) = (self.key(*keys.start()), self.key(*keys.end()));
        let pinned = self.map.pin();
        let number = self.scans.fetch_add(1, Relaxed);
        let bound = |key, is_end: bool| {
            if is_end && number % 4 < 2 { Bound::Unbounded } else { Bound::Included(key) }
        };
        let from = bound(from.as_slice(), *keys.start() == 0);
        let mut range = pinned.range((from, bound(to.as_slice(), *keys.end() == 1_000)));
        let mut entries = Vec::new();
        let (mut front, mut step) = (0, 0_u32);
        let both = number.is_multiple_of(3);
        loop {
            step += 1;
            let from_back = if both { step % 5 < 2 } else { back };
            let next = if from_back { range.next_back() } else { range.next() };
            let Some((key, value)) = next else { break };
            let (number, value) = (self.spelling.number(&key), value.number());
            if number % self.spread != 0 {
                continue;
            }
            let entry = (number / self.spread, value);
            // What came from the front is kept in front.
            if from_back {
                entries.push(entry);
            } else {
                entries.insert(front, entry);
            }
            front += usize::from(!from_back);
        }
        entries[front..].reverse();
        if back {
            entries.reverse();
        }
        Some(entries)
    }

    fn check(&self) -> Result<(), String> {
        self.map.pin().check().map_err(|broken| broken.to_string())
    }
}

/// As [`Threads`], and every fourth call of a thread fills or empties a stretch between the keys of the test first, so
/// that leaves split and merge under the calls of the others.
pub(crate) struct Churned<V> {
    threads: Threads<V>,
    calls: AtomicU32,
    seed: u64,
}

/// Keys from one key of the test to the next: as many as a leaf holds.
const SPREAD: u32 = if cfg!(small_leaves) { 8 } else { 64 };

/// Keys that are filled or emptied together: two or three leaves.
const STRETCH: u32 = 2 * SPREAD;

impl<V: Value> Churned<V> {
    pub(crate) fn new(entries: &BTreeMap<u32, u64>, spelling: Spelling, seed: u64) -> Self {
        let threads = Threads::new(entries, spelling, SPREAD);
        Self { threads, calls: AtomicU32::new(0), seed }
    }

    fn churn(&self) {
        let call = self.calls.fetch_add(1, Relaxed);
        if !call.is_multiple_of(4) {
            return;
        }
        let mut rng = Rng::part(self.seed, u64::from(call));
        let start = rng.below(4) as u32 * STRETCH;
        let (fill, spelling) = (rng.one_in(2), self.threads.spelling);
        let pinned = self.threads.map.pin();
        for n in (start..start + STRETCH).filter(|n| n % SPREAD != 0) {
            let key = spelling.key(n);
            let old = if fill { pinned.insert(&key, V::of(n.into())) } else { pinned.remove(&key) };
            assert!(
                old.is_none_or(|old| old.number() == u64::from(n)),
                "key {n} had a foreign value"
            );
        }
    }
}

impl<V: Value> Shared for Churned<V> {
    fn insert(&self, key: u32, value: u64) -> Option<u64> {
        self.churn();
        self.threads.insert(key, value)
    }

    fn remove(&self, key: u32) -> Option<u64> {
        self.churn();
        self.threads.remove(key)
    }

    fn get(&self, key: u32) -> Option<u64> {
        self.churn();
        self.threads.get(key)
    }

    fn update(&self, key: u32, value: u64) -> Option<Option<u64>> {
        self.threads.update(key, value)
    }

    fn get_or_insert(&self, key: u32, value: u64) -> Option<u64> {
        self.threads.get_or_insert(key, value)
    }

    fn compare_exchange(&self, key: u32, expected: u64, value: u64) -> Option<Option<u64>> {
        self.threads.compare_exchange(key, expected, value)
    }

    fn scan(&self, keys: RangeInclusive<u32>, back: bool) -> Option<Vec<(u32, u64)>> {
        self.threads.scan(keys, back)
    }

    fn check(&self) -> Result<(), String> {
        self.threads.check()
    }
}
