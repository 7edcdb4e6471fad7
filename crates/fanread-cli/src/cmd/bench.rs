//! `fanread bench`: arguments, and where the results go.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use workload::dataset::{self, Dataset};
use workload::distribution::Distribution;
use workload::mix::Workload;

use crate::bench::cceh::Settings;
use crate::bench::driver::LONGEST_BATCH;
use crate::bench::history;
use crate::bench::job::{GROW, Job, OPEN};
use crate::bench::machine::Machine;
use crate::bench::plugin;
use crate::bench::registry::{self, ENTRIES, Entry};
use crate::bench::rounds::{Campaign, count_round_trips};
use crate::bench::worker;
use crate::cmd::probe;
use crate::failure::{Failure, tell};
use crate::report::record::{Outcome, Record, write_csv, write_json};
use crate::report::{compare, html, table};

/// Keys of a history without `--count`: few enough that threads meet on them.
const HISTORY_COUNT: usize = 1_000;
const DEFAULT_SETS: [&str; 2] = ["rand-8", "reddit"];

const EXAMPLES: &str = "\
Examples:
  fanread bench
  fanread bench --keys url,osm --count 16M --repeat 5 --html report.html
  fanread bench --workload grow --threads 2 --count 20M --index wormhole,cuckoo-trie
  find / -xdev -type f | fanread bench --keys - --index btreemap,scc
  fanread bench --json new.json --baseline old.json --fail-if-slower 5%
  fanread bench --index btreemap,u64-map,./mine.so --keys rand-8 --count 16M
  fanread bench --history calls.jsonl --index skiplist --threads 4 --count 1k

Exit status: 0 done, 1 a wrong answer or a run that failed or was too slow, 2 misuse.";

/// What to measure.
#[derive(Debug, Args)]
#[command(after_help = registry::names_and(EXAMPLES))]
pub(crate) struct BenchArgs {
    /// Maps to measure, ours and others, by name; `all` for every one; a shared object with the functions of plugin.h by its file, FILE.so
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = parse_index)]
    index: Vec<Indexes>,
    /// Key sets: rand-8, rand-16, seq-8, osm, dist-a, dist-b, az, reddit, url, klong, k3 to k10,
    /// a file with one key a line (or SOSD numbers, if its name ends in _uint64), - for stdin
    #[arg(long, value_delimiter = ',', value_name = "SET", default_values = DEFAULT_SETS)]
    keys: Vec<String>,
    /// Keys in the map, as 500k or 16M; files may hold fewer [default: 2M, files: all]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = parse_count)]
    count: Vec<usize>,
    /// load, get, get-dep (each waits for the answer before), miss, lower-bound (the first entry
    /// above an absent key), lower-bound-dep, batch, scan, scan-first (right after the load),
    /// ycsb-a to ycsb-f, ycsb-b-scans (while one of the threads scans), grow (one thread inserts all keys, the others look up
    /// those that are in; every call is timed), open (of a file, after a process was killed that had it open)
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_values =
        ["load", "get", "get-dep", "miss", "batch", "scan"], value_parser = parse_workload)]
    workload: Vec<Asked>,
    /// Threads that share the work
    #[arg(long, value_delimiter = ',', value_name = "T", default_values_t = [1],
        value_parser = parse_threads)]
    threads: Vec<usize>,
    /// Keys in one call of the batch workload
    #[arg(long, value_delimiter = ',', value_name = "B", default_values_t = [16],
        value_parser = parse_batch)]
    batch: Vec<usize>,
    /// How keys are chosen: uniform, zipf
    #[arg(long, value_delimiter = ',', value_name = "DIST", default_values = ["uniform"])]
    dist: Vec<Distribution>,
    /// Make each query wait for the answer before it: get, lower-bound, batch and scan
    #[arg(long)]
    dependent: bool,
    /// Write the results as JSON, one object a line; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as comma-separated values; - for standard output
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with plots and tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Measure nothing: write every call of threads on one map, and its answer, one JSON object a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv", "html", "baseline", "workload", "batch", "dependent", "repeat"])]
    history: Option<PathBuf>,
    /// Compare with the JSON of an earlier run
    #[arg(long, value_name = "OLD.json")]
    baseline: Option<PathBuf>,
    /// Exit with status 1 if a figure fell by more than this
    #[arg(long, value_name = "PERCENT", requires = "baseline", value_parser = parse_percent)]
    fail_if_slower: Option<f64>,
    /// Seed of keys and queries
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of each map, interleaved with those of the others; the median is reported
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Does one job of a measurement: what this program starts itself with
    #[arg(long, hide = true, value_parser = parse_job)]
    job: Option<Job>,
}

/// One value of `--index`.
#[derive(Debug, Clone)]
enum Indexes {
    One(&'static Entry),
    All,
}

/// One value of `--workload`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    /// Queries on a loaded map, or the load.
    Queries(Workload),
    /// A map that grows from empty.
    Grow,
    /// A map that a killed process has left.
    Open,
}

/// Measures what `args` ask for, prints the table and writes the files.
///
/// # Errors
///
/// [`Failure`], also if an answer was wrong or a figure fell too far.
pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    run_with(args, &[], &Settings::default())
}

/// The same with settings; without `--index` the maps of these names are measured, or if there are none, those that usually are.
///
/// # Errors
///
/// The same.
pub(crate) fn run_with(
    args: &BenchArgs,
    usual: &[&str],
    settings: &Settings,
) -> Result<(), Failure> {
    if let Some(job) = &args.job {
        return worker::run(job).map_err(|e| Failure::failed(format!("{}: {e}", job.index)));
    }
    if let Some(path) = &args.history {
        return args.write_history(path);
    }
    let campaign = args.campaign(usual, settings)?;
    // What can be refused is refused before minutes of measuring.
    let baseline = args.baseline.as_deref().map(compare::read).transpose()?;
    let mut json = args.json.as_deref().map(create).transpose()?;
    let mut csv = args.csv.as_deref().map(create).transpose()?;
    let mut page = args.html.as_deref().map(create).transpose()?;

    let machine = Machine::detect();
    let before = campaign.has_round_trips().then(probe::one_read_ns).flatten();
    let mut records = campaign.run(&machine)?;
    // Twice, because machines have better and worse minutes.
    if let Some((before, after)) = before.and_then(|before| Some((before, probe::one_read_ns()?))) {
        count_round_trips(&mut records, f64::midpoint(before, after));
    }
    if let Some(out) = &mut json {
        write_json(out, &records)?;
    }
    if let Some(out) = &mut csv {
        write_csv(out, &records)?;
    }
    if let Some(out) = &mut page {
        out.write_all(html::render(&records, &machine).as_bytes())?;
        out.flush()?;
    }
    let on_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    let mut text = table::render(&records, &machine);
    let mut changes = baseline.map(|old| compare::changes(&old, &records)).unwrap_or_default();
    if args.baseline.is_some() {
        text += &compare::render(&mut changes);
    }
    if [&args.json, &args.csv, &args.html].into_iter().any(on_stdout) {
        tell(format_args!("{}", text.trim_end()));
    } else {
        io::stdout().write_all(text.as_bytes())?;
    }
    verdict(&records, &changes, args.fail_if_slower)
}

/// Fails if an answer was wrong, a process ended early or a figure fell by too much.
fn verdict(
    records: &[Record],
    changes: &[compare::Change],
    fail_if_slower: Option<f64>,
) -> Result<(), Failure> {
    let bad = |r: &&Record| matches!(r.outcome, Outcome::WrongAnswers | Outcome::Crashed);
    if let Some(r) = records.iter().find(bad) {
        let what = if r.outcome == Outcome::Crashed { "crashed" } else { "gave wrong answers" };
        let heading = r.heading();
        return Err(Failure::failed(format!("{} {what} on {}, {heading}", r.index, r.keys)));
    }
    if !records.iter().any(|r| r.outcome == Outcome::Ok) {
        return Err(Failure::failed("nothing was measured: no map can do this on these keys"));
    }
    if fail_if_slower.is_some() && changes.is_empty() {
        return Err(Failure::failed(compare::NOTHING));
    }
    if let Some(percent) = fail_if_slower {
        let least = 1.0 - percent / 100.0;
        if let Some(worst) = changes.iter().find(|change| change.ratio < least) {
            let by = (1.0 - worst.ratio) * 100.0;
            return Err(Failure::failed(format!("slower by {by:.1} %: {}", worst.what)));
        }
    }
    Ok(())
}

impl BenchArgs {
    /// Writes the history of one map on one set.
    fn write_history(&self, path: &Path) -> Result<(), Failure> {
        let one = |what: &str, given: usize| match given {
            0 | 1 => Ok(()),
            _ => Err(Failure::misuse(format!("a history is of one {what}"))),
        };
        one("map, give one --index", self.index.len())?;
        one("--count", self.count.len())?;
        one("--threads", self.threads.len())?;
        one("--dist", self.dist.len())?;
        let name = match self.index.first() {
            None => "ordered-map",
            Some(one) => one.entry().map_or("all", |entry| entry.name),
        };
        let sets = self.sets()?;
        // Of the two sets that are measured by default, the first will do.
        let set = sets.first().ok_or_else(|| Failure::misuse("no key set"))?;
        let count = self.count.first().copied().unwrap_or(HISTORY_COUNT);
        let (keys, _) = set.load(count, self.seed)?;
        let (threads, dist) = (self.threads[0], self.dist[0]);
        let Some(map) = history::make(name, keys.is_u64()) else {
            return Err(Failure::misuse(format!("no history of {name} on {}", self.keys[0])));
        };
        let mut out = create(path)?;
        let calls = history::write(&*map, &keys, threads, dist, self.seed, &mut out)?;
        tell(format_args!("{calls} calls of {threads} threads on {} keys", keys.present()));
        Ok(())
    }

    fn campaign(&self, usual: &[&str], settings: &Settings) -> Result<Campaign, Failure> {
        let mut indexes: Vec<&'static Entry> = Vec::new();
        let chosen: Vec<&Entry> = match &self.index[..] {
            [] if usual.is_empty() => ENTRIES.iter().filter(|entry| entry.default).collect(),
            [] => usual.iter().filter_map(|name| registry::find(name)).collect(),
            some if some.iter().any(|one| matches!(one, Indexes::All)) => ENTRIES.iter().collect(),
            some => some.iter().filter_map(Indexes::entry).collect(),
        };
        for entry in chosen {
            if !indexes.iter().any(|known| known.name == entry.name) {
                indexes.push(entry);
            }
        }
        let sets = self.sets()?;
        let queries = |asked: &Asked| match asked {
            Asked::Queries(workload) => Some(*workload),
            Asked::Grow | Asked::Open => None,
        };
        let mut workloads: Vec<_> = self.workload.iter().filter_map(queries).collect();
        if self.dependent {
            for workload in &mut workloads {
                *workload = workload.dependent();
            }
        }
        Ok(Campaign {
            indexes,
            sets,
            counts: self.count.clone(),
            workloads,
            grow: self.workload.contains(&Asked::Grow),
            open: self.workload.contains(&Asked::Open),
            distributions: self.dist.clone(),
            threads: self.threads.clone(),
            batches: self.batch.clone(),
            dependent: self.dependent,
            seed: self.seed,
            rounds: self.repeat as usize,
            settings: settings.clone(),
        })
    }

    /// Returns the key sets; a name that is neither a set nor a file is refused with all names.
    fn sets(&self) -> Result<Vec<Dataset>, Failure> {
        let mut sets = Vec::new();
        for name in &self.keys {
            let set: Dataset = match name.parse() {
                Ok(set) => set,
                Err(never) => match never {},
            };
            if let Dataset::File(path) = &set
                && !path.exists()
            {
                let names = dataset::NAMES.join(", ");
                return Err(Failure::misuse(format!(
                    "no file and no key set '{name}', the sets are {names}"
                )));
            }
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        let stdin_and_counts = sets.contains(&Dataset::Stdin) && self.count.len() > 1;
        if stdin_and_counts {
            return Err(Failure::misuse("standard input is read once: give one --count"));
        }
        Ok(sets)
    }
}

impl Indexes {
    fn entry(&self) -> Option<&'static Entry> {
        match self {
            Self::One(entry) => Some(entry),
            Self::All => None,
        }
    }
}

fn create(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path).map_err(|e| Failure::unwritten(&e, path))?;
    Ok(Box::new(BufWriter::new(file)))
}

fn parse_index(name: &str) -> Result<Indexes, String> {
    if name == "all" {
        return Ok(Indexes::All);
    }
    let entry = registry::find(name).ok_or_else(|| {
        let names: Vec<_> = ENTRIES.iter().map(|entry| entry.name).collect();
        let rivals =
            if cfg!(feature = "rivals") { "" } else { " (a build without other people's maps)" };
        format!("no such index, use {}, or a file FILE.so{rivals}", names.join(", "))
    })?;
    // What cannot be loaded is refused here, not after minutes.
    if plugin::is_file(name) {
        plugin::Plugin::load(name)?;
    }
    Ok(Indexes::One(entry))
}

fn parse_workload(name: &str) -> Result<Asked, String> {
    match name {
        GROW => Ok(Asked::Grow),
        OPEN => Ok(Asked::Open),
        _ => name.parse().map(Asked::Queries).map_err(|e| format!("{e}, {GROW}, {OPEN}")),
    }
}

/// Reads 300, 500k, 16M.
fn parse_count(text: &str) -> Result<usize, String> {
    let (digits, scale) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let count = digits.parse::<f64>().ok().map(|number| number * scale);
    match count {
        Some(count) if (1.0..=dataset::MAX_KEYS as f64 / 1.2).contains(&count) => {
            Ok(count as usize)
        }
        Some(_) => Err("out of range, 1 to 3.5G".into()),
        None => Err("not a number like 300, 500k or 16M".into()),
    }
}

fn parse_within(text: &str, most: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("not a number from 1 to {most}")),
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    parse_within(text, 1024)
}

fn parse_batch(text: &str) -> Result<usize, String> {
    parse_within(text, LONGEST_BATCH)
}

/// Reads 5 or 5%.
fn parse_percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("not a share like 5%".into()),
    }
}

fn parse_job(text: &str) -> Result<Job, serde_json::Error> {
    serde_json::from_str(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_file_all_keys_are_asked_for_and_of_generated_sets_some() {
        use clap::Parser;

        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            args: BenchArgs,
        }

        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| folder.path().join(name));
        for file in &files {
            std::fs::write(file, "key\n").unwrap();
        }
        let [a, b] = files.each_ref().map(|file| file.to_str().unwrap());
        let counts = |options: &[&str]| -> Vec<usize> {
            let line = Line::try_parse_from([&["bench"], options].concat()).unwrap();
            let campaign = line.args.campaign(&[], &Settings::default()).unwrap();
            campaign.sets.iter().flat_map(|set| campaign.counts_of(set).to_vec()).collect()
        };
        let all = dataset::MAX_KEYS / 2;
        assert_eq!(counts(&["--keys", a]), [all]);
        assert_eq!(counts(&["--keys", &format!("{a},{b},osm")]), [all, all, 2_000_000]);
        assert_eq!(counts(&["--keys", &format!("{a},osm"), "--count", "1k"]), [1000, 1000]);
        assert_eq!(counts(&[]), [2_000_000, 2_000_000]);
    }

    #[test]
    fn counts_have_suffixes() {
        assert_eq!(parse_count("300"), Ok(300));
        assert_eq!(parse_count("500k"), Ok(500_000));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000));
        for bad in ["", "0", "M", "-3", "12Q", "NaN", "inf", "9000G"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(parse_percent("5%"), Ok(5.0));
        assert_eq!(parse_percent("2.5"), Ok(2.5));
        assert!(parse_percent("x").is_err());
    }
}
