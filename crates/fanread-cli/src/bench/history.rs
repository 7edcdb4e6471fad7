//! A short run of threads on one map, of which every call is written down, for checkers outside: `docs/formats/history.md` is the form.
//!
//! Nothing is timed. Each call has a number drawn before it and one drawn after it from a counter of all threads, and
//! writes a value that no other call writes.

use std::borrow::Borrow;
use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use fanread::persist::cceh::CcehOptions;
use fanread::{Cceh, SkipList};
use serde::Serialize;
use workload::distribution::{Chooser, Distribution};
use workload::keyset::KeySet;
use workload::{Rng, mix64};

use crate::bench::driver;
use crate::maps::for_our_maps;

/// Calls of all threads together: enough to meet splits and merges, few enough for checkers that try all orders.
const CALLS: usize = 100_000;

/// Calls that change their minds: how many of 16 insert, and in the next stretch how many remove.
const WAVES: [u64; 2] = [7, 3];

/// How many calls of a thread a stretch has.
const STRETCH: usize = 4_096;

/// A call, without its answer.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(crate) enum Call {
    Get,
    Insert { v: u64 },
    Remove,
    Update { v: u64 },
    GetOrInsert { v: u64 },
    CompareExchange { e: u64, v: u64 },
}

/// A line of the file.
#[derive(Debug, Clone, Copy, Serialize)]
struct Line {
    c: usize,
    #[serde(flatten)]
    call: Call,
    k: usize,
    r: Option<u64>,
    t0: u64,
    t1: u64,
}

/// A map whose calls can be written down.
pub(crate) trait Recorded: Sync {
    /// Carries out a call and returns its answer.
    fn call(&self, key: &[u8], call: Call) -> Option<u64>;

    /// Whether the map has such a method.
    fn has(&self, _call: Call) -> bool {
        true
    }
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("keys of eight bytes"))
}

/// Puts a map behind the trait: how its keys are given to be looked up, and how to be stored.
macro_rules! recorded {
    ($map:ty, |$key:ident| $given:expr, $stored:expr) => {
        impl Recorded for $map {
            fn call(&self, $key: &[u8], call: Call) -> Option<u64> {
                let map = self.pin();
                match call {
                    Call::Get => map.get($given).map(|value| *value),
                    Call::Insert { v } => map.insert($stored, v).map(|old| *old),
                    Call::Remove => map.remove($given).map(|old| *old),
                    Call::Update { v } => map.update($given, |_| v).map(|old| *old),
                    Call::GetOrInsert { v } => Some(*map.get_or_insert_with($stored, || v)),
                    Call::CompareExchange { e, v } => match map.compare_exchange($given, &e, v) {
                        Ok(old) => Some(*old),
                        Err((found, _)) => found.map(|found| *found),
                    },
                }
            }
        }
    };
}

macro_rules! all_recorded {
    (
        strings { $($name:literal: $module:ident, $map:ident;)* }
        numbers { $($number_name:literal: $number_module:ident, $number_map:ident;)* }
    ) => {
        $(recorded! { fanread::$map<u64>, |key| key, key })*
        $(recorded! { fanread::$number_map<u64>, |key| number(key), number(key) })*

        /// Makes the map of that name, for keys that are numbers or others; `None` if there is no such map for these keys.
        pub(crate) fn make(name: &str, are_numbers: bool) -> Option<Box<dyn Recorded>> {
            Some(match name {
                $($name => Box::new(fanread::$map::<u64>::new()),)*
                $($number_name if are_numbers => Box::new(fanread::$number_map::<u64>::new()),)*
                "skiplist" if are_numbers => Box::new(SkipList::<u64, u64>::new()),
                "skiplist" => Box::new(SkipList::<Box<[u8]>, u64>::new()),
                "cceh" if are_numbers => Box::new(Cceh::in_memory(CcehOptions::new()).ok()?),
                _ => return None,
            })
        }
    };
}

for_our_maps! { all_recorded }
recorded! { SkipList<u64, u64>, |key| Borrow::<u64>::borrow(&number(key)), number(key) }
recorded! { SkipList<Box<[u8]>, u64>, |key| key, key.into() }

impl Recorded for Cceh {
    fn call(&self, key: &[u8], call: Call) -> Option<u64> {
        match call {
            Call::Insert { v } => match self.insert(number(key), v) {
                Ok(old) => old,
                Err(e) => panic!("cannot insert: {e}"),
            },
            Call::Remove => self.remove(number(key)),
            _ => self.get(number(key)),
        }
    }

    fn has(&self, call: Call) -> bool {
        matches!(call, Call::Get | Call::Insert { .. } | Call::Remove)
    }
}

/// Lets threads use a map, on all of the keys, and writes down what they did; returns how many calls that were.
///
/// # Errors
///
/// That of `out`.
pub(crate) fn write(
    map: &dyn Recorded,
    keys: &KeySet,
    threads: usize,
    distribution: Distribution,
    seed: u64,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let chooser = Chooser::new(distribution, keys.present());
    let (clock, start) = (AtomicU64::new(0), Barrier::new(threads));
    let mut lines: Vec<Line> = thread::scope(|scope| {
        let work = |client: usize| {
            let (chooser, clock, start) = (&chooser, &clock, &start);
            move || {
                let mut rng = Rng::new(mix64(seed ^ client as u64));
                start.wait();
                let calls = (0..CALLS / threads).map(|turn| {
                    let k = chooser.choose(&mut rng);
                    // No other call writes it, and none is zero.
                    let v = (turn * threads + client) as u64 + 1;
                    let call = Some(choose(&mut rng, turn, v)).filter(|call| map.has(*call));
                    let call = call.unwrap_or(Call::Get);
                    // ORDER: SeqCst, pairs with itself: the numbers of two calls that did not overlap agree with real time.
                    let t0 = clock.fetch_add(1, SeqCst);
                    let r = map.call(keys.key(k), call);
                    // ORDER: as above.
                    let t1 = clock.fetch_add(1, SeqCst);
                    Line { c: client, call, k, r, t0, t1 }
                });
                calls.collect::<Vec<_>>()
            }
        };
        let running: Vec<_> =
            (0..threads).map(|client| driver::start(scope, work(client))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a thread ended")).collect()
    });
    lines.sort_unstable_by_key(|line| line.t0);
    for line in &lines {
        serde_json::to_writer(&mut *out, line)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(lines.len())
}

/// Chooses what to call: by turns mostly insertions and mostly removals, so that the map grows and shrinks.
fn choose(rng: &mut Rng, turn: usize, v: u64) -> Call {
    let inserts = WAVES[turn / STRETCH % 2];
    match rng.below(16) {
        n if n < inserts => Call::Insert { v },
        n if n < 10 => Call::Remove,
        10 => Call::Update { v },
        11 => Call::GetOrInsert { v },
        // A value that was written not long ago, if it was.
        12 => Call::CompareExchange { e: v - rng.below(v.min(64)), v },
        _ => Call::Get,
    }
}
