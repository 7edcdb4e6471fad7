//! Our maps behind the traits of `testkit`.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use fanread::{Key, Ref, Wormhole};
use testkit::Op;
use testkit::model::{Answer, Subject, slice};
use testkit::stress::Shared;

/// A value that stands for a number.
pub trait Value: Clone + PartialEq + Send + Sync + 'static {
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
pub struct Ordered<M>(pub M);

fn value<V: Value>(found: Option<Ref<'_, V>>) -> Answer {
    Answer::Value(found.map(|found| found.number()))
}

fn pair<V: Value>((key, value): (Key<'_>, Ref<'_, V>)) -> (Vec<u8>, u64) {
    (key.to_vec(), value.number())
}

impl<V: Value> Subject for Ordered<Wormhole<V>> {
    fn apply(&mut self, op: &Op) -> Option<Answer> {
        let map = self.0.pin();
        Some(match op {
            Op::Insert(key, new) => value(map.insert(key, V::of(*new))),
            Op::Update(key, new) => value(map.update(key, |_| V::of(*new))),
            Op::GetOrInsert(key, new) => value(Some(map.get_or_insert_with(key, || V::of(*new)))),
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
                assert_eq!(value(batched[0]), found, "get_batch");
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
pub enum Spelling {
    /// Eight bytes, as integers.
    Integers,
    /// A long common start.
    LongPrefix,
    /// Only NUL bytes, `n` of them.
    Nuls,
}

impl Spelling {
    pub const ALL: [Self; 3] = [Self::Integers, Self::LongPrefix, Self::Nuls];

    pub fn key(self, n: u32) -> Vec<u8> {
        match self {
            Self::Integers => (u64::from(n) << 20).to_be_bytes().to_vec(),
            Self::LongPrefix => format!("{}{n:08}", "a long common start/".repeat(5)).into_bytes(),
            Self::Nuls => vec![0; n as usize],
        }
    }

    pub fn number(self, key: &[u8]) -> u32 {
        match self {
            Self::Integers => (u64::from_be_bytes(key.try_into().unwrap()) >> 20) as u32,
            Self::LongPrefix => std::str::from_utf8(&key[100..]).unwrap().parse().unwrap(),
            Self::Nuls => key.len() as u32,
        }
    }
}

/// A map for threads: each call pins for itself. Between the keys of the test lie others, so that the leaves around
/// them are split and merged meanwhile.
pub struct Threads<V> {
    pub map: Wormhole<V>,
    pub spelling: Spelling,
    /// Test key `n` is key `n * spread`.
    pub spread: u32,
}

impl<V: Value> Threads<V> {
    pub fn new(entries: &BTreeMap<u32, u64>, spelling: Spelling, spread: u32) -> Self {
        let threads = Self { map: Wormhole::new(), spelling, spread };
        for (key, value) in entries {
            threads.map.pin().insert(&threads.key(*key), V::of(*value));
        }
        threads
    }

    fn key(&self, n: u32) -> Vec<u8> {
        self.spelling.key(n * self.spread)
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

    fn update(&self, key: u32, value: u64) -> Option<Option<u64>> {
        Some(self.map.pin().update(&self.key(key), |_| V::of(value)).map(|old| old.number()))
    }

    fn get_or_insert(&self, key: u32, value: u64) -> Option<u64> {
        Some(self.map.pin().get_or_insert_with(&self.key(key), || V::of(value)).number())
    }

    fn compare_exchange(&self, key: u32, expected: u64, value: u64) -> Option<Option<u64>> {
        let pinned = self.map.pin();
        Some(match pinned.compare_exchange(&self.key(key), &V::of(expected), V::of(value)) {
            Ok(old) => Some(old.number()),
            Err((found, _)) => found.map(|found| found.number()),
        })
    }

    fn scan(&self, keys: RangeInclusive<u32>, back: bool) -> Option<Vec<(u32, u64)>> {
        let (from, to) = (self.key(*keys.start()), self.key(*keys.end()));
        let pinned = self.map.pin();
        let range = pinned.range(from.as_slice()..=to.as_slice());
        let entry = |(key, value): (Key<'_>, Ref<'_, V>)| {
            (self.spelling.number(&key), value.number())
        };
        let ours = |(key, value): (u32, u64)| {
            (key % self.spread == 0).then_some((key / self.spread, value))
        };
        Some(if back {
            range.rev().map(entry).filter_map(ours).collect()
        } else {
            range.map(entry).filter_map(ours).collect()
        })
    }

    fn check(&self) -> Result<(), String> {
        self.map.pin().check().map_err(|broken| broken.to_string())
    }
}
