//! A memtable: the part of a log-structured store that takes the writes, until it is written to a file in key order.
//!
//! Three threads write and delete, while the table is flushed several times. A flush takes a snapshot and walks over it: it
//! sees all writes up to one instant and none after it, and no writer waits for it. What the threads report they had
//! written before a snapshot began is looked up in the flushed run.
//!
//! ```text
//! cargo run --release -p fanread --example memtable -- 300000
//! ```

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use fanread::SkipList;

/// A key of the store: what user, which of his items.
type Key = (u32, String);

/// What a write leaves: a value, or the mark that the key is deleted, which older files must learn of.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Put { number: u64, payload: [u8; 16] },
    Deleted { number: u64 },
}

impl Entry {
    /// The number of the write.
    fn number(&self) -> u64 {
        match self {
            Self::Put { number, .. } | Self::Deleted { number } => *number,
        }
    }
}

const WRITERS: u64 = 3;
const FLUSHES: usize = 4;

/// The key of a thread's `n`-th write: every key is written again later on.
fn key(thread: u64, n: u64) -> Key {
    let item = n * 7 % 10_007;
    (thread as u32, format!("item {item:05}"))
}

/// Writes until all are done, and says how far it has come.
fn write(table: &SkipList<Key, Entry>, thread: u64, writes: u64, done: &AtomicU64) {
    for n in 0..writes {
        let entry = if n % 10 == 9 {
            Entry::Deleted { number: n }
        } else {
            Entry::Put { number: n, payload: [thread as u8; 16] }
        };
        table.pin().insert(key(thread, n), entry);
        done.store(n + 1, SeqCst);
    }
}

/// Writes the table as it is now to a run in key order, and checks it.
fn flush(table: &SkipList<Key, Entry>, done: &[AtomicU64]) -> usize {
    let before: Vec<u64> = done.iter().map(|done| done.load(SeqCst)).collect();
    let started = Instant::now();
    let snapshot = table.snapshot();
    let after: Vec<u64> = done.iter().map(|done| done.load(SeqCst)).collect();
    let view = snapshot.pin();
    // A store would write a file here.
    let run: Vec<(Key, Entry)> =
        view.iter().map(|(key, entry)| (key.clone(), Entry::clone(&entry))).collect();
    assert!(run.is_sorted_by(|a, b| a.0 < b.0));
    for (thread, (before, after)) in (0..).zip(before.into_iter().zip(after)) {
        for n in before.saturating_sub(2_000)..before {
            let at = run.binary_search_by(|(other, _)| other.cmp(&key(thread, n)));
            let entry = &run[at.expect("a write that was done is in the run")].1;
            assert!(entry.number() >= n, "an older write took its place");
            // One more may have been under way.
            assert!(entry.number() <= after, "the run has a write that came later");
        }
    }
    // The snapshot does not change while writers go on.
    assert!(
        view.iter().map(|(key, entry)| (key.clone(), Entry::clone(&entry))).eq(run.iter().cloned())
    );
    println!("flushed {:6} entries in {:?}", run.len(), started.elapsed());
    run.len()
}

fn main() {
    let writes = std::env::args().nth(1).map_or(30_000, |text| text.parse().expect("a number"));
    let table = SkipList::new();
    let done: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for (thread, done) in (0..).zip(&done) {
            let table = &table;
            scope.spawn(move || write(table, thread, writes, done));
        }
        for flushed in 1..=FLUSHES as u64 {
            let written = || done.iter().map(|done| done.load(SeqCst)).sum::<u64>();
            while written() < WRITERS * writes * flushed / (FLUSHES as u64 + 1) {
                thread::yield_now();
            }
            flush(&table, &done);
        }
    });
    let last = flush(&table, &done);
    assert_eq!(last, table.len());
    let bytes = table.memory_usage().total_bytes() / last.max(1);
    println!("{} writes of {WRITERS} threads, {bytes} bytes an entry", WRITERS * writes);
}
