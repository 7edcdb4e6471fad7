//! Tables against `RocksDB` on the same file, in one run: building, and lookups of keys drawn uniformly.
//!
//! ```text
//! cargo bench -p fanread --bench rocksdb -- [COUNT [ROUNDS [PART]]]
//! ```
//!
//! `COUNT` is 10000000 and `ROUNDS` is 5 unless said otherwise. `PART` is `builds` or `lookups`, which are done one after
//! the other without it: `builds` leaves the file, `lookups` takes it.
//!
//! Keys of 8 bytes, values of 4, one thread, everything in memory. Rounds are interleaved, and every answer is checked by
//! the sum of the values. `RocksDB` is Debian's `librocksdb-dev`, whose assertions are on; `FANREAD_ROCKSDB` links
//! another one, for instance `-L/path -lrocksdb -lpthread` for one built with `DEBUG_LEVEL=0`.

#[path = "../tests/rocksdb/program.rs"]
mod program;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use fanread::table::{CuckooTable, TableBuilder, TableOptions};

/// How many keys are asked for.
const QUERIES: u64 = 4_000_000;

/// The most entries that `RocksDB` is timed with when it builds.
const ROCKSDB_BUILDS: u64 = 20_000_000;

/// How many keys are asked for at once.
const BATCH: usize = 256;

/// What `rocks.cc` has under the same names.
fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// Returns key number `index` of `count`, in order.
fn key(index: u64, count: u64) -> [u8; 8] {
    let gap = u64::MAX / count;
    (index * gap + mixed(index) % gap).to_be_bytes()
}

fn value_of(index: u64) -> u32 {
    mixed(!index) as u32
}

/// Builds the table in a process of its own, since memory is measured; says how long it took and how much it had.
fn build(path: &Path, count: u64, mixed_up: bool, limit: usize) {
    let started = Instant::now();
    let options = TableOptions::new().memory_limit(limit);
    let folder = path.parent().expect("a folder");
    let mut builder = TableBuilder::new(options.spill_folder(folder));
    // A prime: every index comes, in no order to speak of.
    let step = if mixed_up { 2_654_435_761 } else { 1 };
    for number in 0..count {
        let index = (u128::from(number) * step % u128::from(count)) as u64;
        builder.insert(&key(index, count), &value_of(index).to_le_bytes()).expect("an entry");
    }
    let written = builder.finish_file(path).expect("a table");
    let took = started.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    println!(
        "{took:.3} s, at most {:.2} times the file in memory, {} bytes in a temporary file",
        (peak_kib * 1024) as f64 / written.file_bytes as f64,
        written.spilled_bytes
    );
}

/// `RocksDB` with the table, ready to be asked.
struct Rocks {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Rocks {
    fn start(program: &Path, file: &Path, count: u64) -> Self {
        let mut child = Command::new(program)
            .arg("serve")
            .arg(file)
            .args([count.to_string(), QUERIES.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was compiled");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, answers }
    }

    /// Returns how many millions of queries a second there are.
    fn rate(&mut self, command: u8) -> f64 {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(&[command]).and_then(|()| input.flush()).expect("RocksDB runs");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("RocksDB runs");
        QUERIES as f64 / line.trim().parse::<f64>().expect("seconds") / 1e6
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn sum_of(values: impl Iterator<Item = Option<impl AsRef<[u8]>>>) -> u64 {
    let number = |value: &[u8]| u32::from_le_bytes(value.try_into().expect("four bytes"));
    values.map(|value| u64::from(number(value.expect("every key is there").as_ref()))).sum()
}

fn get_each(table: &CuckooTable, keys: &[[u8; 8]]) -> u64 {
    sum_of(keys.iter().map(|key| table.get(key)))
}

fn get_all(table: &CuckooTable, keys: &[[u8; 8]]) -> u64 {
    let mut found = [None; BATCH];
    let batch = |keys: &[[u8; 8]]| {
        table.get_batch(keys, &mut found[..keys.len()]);
        sum_of(found[..keys.len()].iter().copied())
    };
    keys.chunks(BATCH).map(batch).sum()
}

/// Runs this program again to build, and returns what it said.
fn built(path: &Path, count: u64, order: &str, limit: &str) -> String {
    let own = std::env::current_exe().expect("a program");
    let mut again = Command::new(own);
    again.arg("build").arg(path).args([&count.to_string(), order, limit]);
    let output = again.stderr(Stdio::inherit()).output().expect("the same program");
    assert!(output.status.success(), "the build failed");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let [command, path, count, order, limit] = &arguments[..]
        && command == "build"
    {
        let number = |text: &String| text.parse::<u64>().expect("a number");
        return build(Path::new(path), number(count), order == "mixed", number(limit) as usize);
    }
    let number =
        |at: usize, default| arguments.get(at).map_or(default, |a| a.parse().expect("a number"));
    let (count, rounds): (u64, u64) = (number(0, 10_000_000), number(1, 5));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = program::compiled(&folder.join("rocks-bench"));
    let ours = folder.join(format!("bench-{count}.sst"));
    let part = arguments.get(2).map_or("both", String::as_str);
    if part != "lookups" {
        build_all(&ours, count, &program);
    }
    if part != "builds" {
        look_up(&ours, count, rounds, &program);
        fs::remove_file(&ours).expect("our own table");
    }
}

/// Has the table built by us in several ways, and by `RocksDB`.
fn build_all(ours: &Path, count: u64, program: &Path) {
    let all = u64::MAX / 4;
    for (order, limit) in [("sorted", all), ("mixed", all), ("mixed", 3 * count)] {
        let said = built(ours, count, order, &limit.to_string());
        let limit = if limit == all { "without limit" } else { "a quarter in memory" };
        println!("build, ours, {order}, {limit}: {said}");
    }
    if count <= ROCKSDB_BUILDS {
        let theirs = ours.with_extension("theirs");
        let mut build = Command::new(program);
        build.arg("build").arg(&theirs).arg(count.to_string());
        let output = build.output().expect("the program was compiled");
        println!("build, RocksDB, sorted: {} s", String::from_utf8_lossy(&output.stdout).trim());
        let _ = fs::remove_file(&theirs);
    }
}

/// Times lookups in one table, by us and by `RocksDB`.
fn look_up(ours: &Path, count: u64, rounds: u64, program: &Path) {
    let indexes = || (0..QUERIES).map(|query| mixed(query) % count);
    let keys: Vec<[u8; 8]> = indexes().map(|index| key(index, count)).collect();
    let expected: u64 = indexes().map(|index| u64::from(value_of(index))).sum();
    let table = CuckooTable::open(ours).expect("our own table");
    let mut rocks = Rocks::start(program, ours, count);
    let mut rates = [const { Vec::new() }; 4];
    // The first round touches everything and does not count.
    for round in 0..=rounds {
        let timed = |ask: fn(&CuckooTable, &[[u8; 8]]) -> u64| {
            let started = Instant::now();
            assert_eq!(ask(&table, &keys), expected, "a wrong answer");
            QUERIES as f64 / started.elapsed().as_secs_f64() / 1e6
        };
        let round_rates = [rocks.rate(b'g'), timed(get_each), timed(get_all), rocks.rate(b'm')];
        if round > 0 {
            rates.iter_mut().zip(round_rates).for_each(|(all, rate)| all.push(rate));
        }
    }
    let ranges = rates.each_ref().map(|rates| {
        let low = rates.iter().copied().fold(f64::MAX, f64::min);
        (low, rates.iter().copied().fold(0.0, f64::max))
    });
    let [get, one, batch, multi] = rates.map(median);
    let rows =
        [("DB::Get", get), ("get", one), ("get_batch", batch), ("DB::MultiGet of 32", multi)];
    for ((name, rate), (low, high)) in rows.into_iter().zip(ranges) {
        println!(
            "{name:>20}: {rate:6.2} million a second ({low:.2} to {high:.2}), {:.2} times DB::Get",
            rate / get
        );
    }
}
