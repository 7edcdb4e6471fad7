//! How much faster a scan is that runs ahead: scans of 1 to 10,000 entries, and table 1 of the paper.
//!
//! Plain scans and those that run ahead take turns, on a map whose entries lie in memory in the order of their insertion, at
//! random; every scan's sum is compared. The second part counts rows above a value in a snapshot of a table of rows with
//! sixteen bytes of payload, with one thread and with two, as a query would.
//!
//! ```text
//! cargo run --release -p fanread --example scans -- 20000000
//! ```
//!
//! A second argument, `lengths` or `table`, asks for one of the two parts.
//!
//! PAPER: Xu, "Efficient Data Structures via Memory Level Parallelism", section 3: four times for a few hundred entries,
//! break-even at 20; `SELECT COUNT(*) FROM t WHERE a > ?` 1.9 times on one thread, 1.5 to 1.9 on several.

use std::hint::black_box;
use std::ops::Bound::{Excluded, Unbounded};
use std::thread;
use std::time::Instant;

use fanread::SkipList;

/// Rounds of each measurement, of which the middle one counts.
const ROUNDS: usize = 7;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Scans of one length from random places: nanoseconds a scan, plain and ahead.
fn scans(map: &SkipList<u64, u64>, entries: usize) -> (f64, f64) {
    let count = (400_000 / entries).clamp(20, 20_000);
    let mut random = Random(entries as u64);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        // Each of the two scans from places of its own, so that neither finds lines that the other has brought, and then
        // from the other's, for the sums.
        let places: [Vec<u64>; 2] =
            [(); 2].map(|()| (0..count).map(|_| random.next() >> 1).collect());
        let mut sums = [[0_u64; 2]; 2];
        for turn in 0..2 {
            for (plain, places) in places.iter().enumerate() {
                let pinned = map.pin();
                let plain = plain ^ turn;
                let start = Instant::now();
                let mut sum = 0_u64;
                for from in places {
                    let range = pinned.range(*from..);
                    let range = if plain == 0 { range.plain() } else { range };
                    sum = range.take(entries).fold(sum, |sum, (_, value)| sum.wrapping_add(*value));
                }
                if turn == 0 {
                    times[plain].push(start.elapsed().as_nanos() as f64 / count as f64);
                }
                sums[turn][plain ^ turn] = sum;
            }
        }
        assert_eq!(sums[0], sums[1], "a scan saw something else");
    }
    let [plain, ahead] = times;
    (middle(plain), middle(ahead))
}

/// Rows per second that `threads` threads count together, in millions.
fn count_rows(map: &SkipList<u64, [u8; 16]>, threads: usize, ahead: bool) -> f64 {
    let snapshot = map.snapshot();
    let start = Instant::now();
    let rows: usize = thread::scope(|scope| {
        let count = |above: u64| {
            let view = snapshot.pin();
            let range = view.range((Excluded(above), Unbounded));
            if ahead { range.count() } else { range.plain().count() }
        };
        let all: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || count(u64::MAX / 4 * 3 + thread as u64)))
            .collect();
        all.into_iter().map(|thread| thread.join().expect("a thread that counts")).sum()
    });
    let seconds = start.elapsed().as_secs_f64();
    black_box(rows) as f64 / seconds / 1e6
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rows: usize = args.next().map_or(20_000, |text| text.parse().expect("a number"));
    let part = args.next();
    let wants = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wants("lengths") {
        lengths(rows);
    }
    if wants("table") {
        table(rows);
    }
}

fn lengths(rows: usize) {
    let map = SkipList::new();
    let mut random = Random(1);
    for n in 0..rows as u64 {
        map.pin().insert(random.next(), n);
    }
    println!("{rows} random keys\n entries     plain     ahead    times faster");
    for entries in [1, 2, 3, 5, 7, 10, 15, 20, 50, 100, 200, 500, 1_000, 10_000] {
        let (plain, ahead) = scans(&map, entries.min(rows));
        println!("{entries:8} {plain:7.0} ns {ahead:7.0} ns {:9.2}", plain / ahead);
    }
}

fn table(rows: usize) {
    let table = SkipList::new();
    let mut random = Random(2);
    for n in 0..rows as u64 {
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&n.to_le_bytes());
        table.pin().insert(random.next(), payload);
    }
    println!("\nSELECT COUNT(*) FROM t WHERE a > ?, in a snapshot of {rows} rows of 16 bytes");
    println!(" threads     plain     ahead    times faster");
    for threads in [1, 2] {
        let (mut plain, mut ahead) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plain.push(count_rows(&table, threads, false));
            ahead.push(count_rows(&table, threads, true));
        }
        let (plain, ahead) = (middle(plain), middle(ahead));
        println!("{threads:8} {plain:6.1} M/s {ahead:6.1} M/s {:9.2}", ahead / plain);
    }
}
