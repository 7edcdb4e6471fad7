//! The whole of a measurement: every key set, every map, several rounds.
//!
//! Rounds are interleaved: first every map once, then every map again. A machine that grows
//! slower meanwhile does so for all.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, IsTerminal, Seek, stderr};
use std::process::{Command, Stdio};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use workload::dataset::{self, Dataset};
use workload::distribution::Distribution;
use workload::mix::Workload;
use workload::order::Order;

use crate::bench::cceh::Settings;
use crate::bench::job::{Case, GROW, Job, Line, OPEN, Percentiles, Task};
use crate::bench::least::EqualRuns;
use crate::bench::machine::Machine;
use crate::bench::registry::Entry;
use crate::failure::{Failure, tell};
use crate::free::free_bytes;
use crate::report::record::{Outcome, Record};

/// The hidden option that makes this program do one job.
pub(crate) const JOB_OPTION: &str = "--job";

/// Keys of a generated set without `--count`: larger than the caches, loaded in about a second.
const DEFAULT_COUNT: usize = 2_000_000;

/// What a key takes at least: eight bytes and where they are, and the same in a map, with a value.
const LEAST_BYTES: usize = 32;

/// Queries of a run: enough for a steady figure, few enough for many maps in two minutes.
const QUERIES: std::ops::RangeInclusive<usize> = 20_000..=1_000_000;

/// Most bytes that the queries of one run take.
const QUERY_BYTES: usize = 256 << 20;

/// Keys from which a lookup waits for memory and not for the caches.
const ROUND_TRIPS_FROM: usize = 1_000_000;

/// What to measure.
#[derive(Debug)]
pub(crate) struct Campaign {
    pub(crate) indexes: Vec<&'static Entry>,
    pub(crate) sets: Vec<Dataset>,
    /// As they were given; without any, [`Campaign::counts_of`] says how many.
    pub(crate) counts: Vec<usize>,
    pub(crate) workloads: Vec<Workload>,
    /// Whether each map is grown under readers too, in a process of its own.
    pub(crate) grow: bool,
    /// Whether each map is opened after its process was killed.
    pub(crate) open: bool,
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) threads: Vec<usize>,
    pub(crate) batches: Vec<usize>,
    pub(crate) dependent: bool,
    pub(crate) seed: u64,
    pub(crate) rounds: usize,
    /// Of the maps that `store bench` has.
    pub(crate) settings: Settings,
}

/// What the rounds found about one map on one key set.
#[derive(Debug, Default)]
struct Findings {
    overhead: Vec<f64>,
    /// In the order in which cases first came up.
    cases: Vec<Case>,
    runs: HashMap<Case, Runs>,
    /// Runs of a map that grows, if they do the same.
    equal: EqualRuns,
}

#[derive(Debug, Default)]
struct Runs {
    mops: Vec<f64>,
    core_shares: Vec<f64>,
    latencies: Vec<Percentiles>,
    pauses: Vec<f64>,
    note: Option<String>,
    trouble: Option<(Outcome, String)>,
}

/// Keys of one set, written to a file that has no name any more, so that it never stays behind.
#[derive(Debug)]
struct KeyFile {
    file: File,
    name: String,
    present: usize,
    key_bytes: f64,
}

/// Refuses more keys than there can be memory for: the system would promise it, and end the program later.
fn fits(count: usize, free: Option<usize>) -> Result<(), Failure> {
    let least = count.saturating_mul(LEAST_BYTES);
    match free.filter(|&free| free < least) {
        None => Ok(()),
        Some(free) => {
            let [least, free] = [least, free].map(|bytes| bytes as f64 / 1e9);
            let text = format!(
                "{count} keys and a map of them take {least:.1} GB and more, {free:.1} are free"
            );
            Err(Failure::misuse(text))
        }
    }
}

impl Campaign {
    /// Measures everything and returns a record for each figure.
    ///
    /// # Errors
    ///
    /// [`Failure`] for keys that cannot be had. What a map does wrong is in the records.
    pub(crate) fn run(&self, machine: &Machine) -> Result<Vec<Record>, Failure> {
        let loads: usize = self.sets.iter().map(|set| self.counts_of(set).len()).sum();
        let jobs = loads * self.threads.len() * self.rounds;
        let bar = progress(jobs * self.indexes.len());
        let mut records = Vec::new();
        let mut loaded: Vec<(String, usize)> = Vec::new();
        for set in &self.sets {
            for &count in self.counts_of(set) {
                bar.set_message(format!("{set}: making keys"));
                let keys = self.keys(set, count, &bar)?;
                // A file may hold fewer keys than each of several counts: once is enough.
                let what = (keys.name.clone(), keys.present);
                if loaded.contains(&what) {
                    bar.inc((self.threads.len() * self.rounds * self.indexes.len()) as u64);
                    continue;
                }
                loaded.push(what);
                for &threads in &self.threads {
                    records.extend(self.measure(&keys, threads, &bar, machine)?);
                }
            }
        }
        bar.finish_and_clear();
        compare_with_btreemap(&mut records);
        Ok(records)
    }

    /// Tells whether some figure can be said in round trips to memory: dependent lookups in a map
    /// that is larger than the caches.
    pub(crate) fn has_round_trips(&self) -> bool {
        self.workloads.iter().any(|workload| workload.independent().1)
            && self.sets.iter().flat_map(|set| self.counts_of(set)).any(|n| *n >= ROUND_TRIPS_FROM)
    }

    /// How many keys of a set are measured: those of a file are all of them, if nobody says how many.
    pub(crate) fn counts_of(&self, set: &Dataset) -> &[usize] {
        match set {
            _ if !self.counts.is_empty() => &self.counts,
            Dataset::Generated(_) => &[DEFAULT_COUNT],
            Dataset::File(_) | Dataset::Stdin => &[dataset::MAX_KEYS / 2],
        }
    }

    /// The name of a set in tables: of a file whose name another set has too, its whole path.
    fn name_of(&self, set: &Dataset) -> String {
        let name = set.to_string();
        let is_shared = self.sets.iter().any(|other| other != set && other.to_string() == name);
        match set {
            Dataset::File(path) if is_shared => path.display().to_string(),
            _ => name,
        }
    }

    fn keys(&self, set: &Dataset, count: usize, bar: &ProgressBar) -> Result<KeyFile, Failure> {
        if matches!(set, Dataset::Generated(_)) {
            fits(count, free_bytes())?;
        }
        let (keys, skipped) = set.load(count, self.seed)?;
        let name = self.name_of(set);
        bar.suspend(|| {
            if skipped.duplicates > 0 {
                tell(format_args!("fanread: {name}: left out {} duplicates", skipped.duplicates));
            }
            if skipped.empty > 0 {
                tell(format_args!("fanread: {name}: left out {} empty lines", skipped.empty));
            }
            let is_file = !matches!(set, Dataset::Generated(_));
            if is_file && keys.absent() > 0 {
                let (out, all) = (keys.absent(), keys.len());
                tell(format_args!("fanread: {name}: {out} of {all} keys stay out of the map, to be looked for in vain"));
            }
        });
        let scans = self.workloads.iter().any(|w| w.scans());
        let order = scans.then(|| Order::of(&keys));
        let file = tempfile::tempfile().map_err(|e| no_room(&e))?;
        let mut out = BufWriter::with_capacity(1 << 20, &file);
        keys.save(&mut out, order.as_ref()).map_err(|e| no_room(&e))?;
        drop(out);
        let present = keys.present();
        let key_bytes = keys.present_bytes() as f64 / present as f64;
        Ok(KeyFile { file, name, present, key_bytes })
    }

    /// Tells whether the insertions of several runs are compared one by one.
    fn keeps_calls(&self, entry: &Entry, task: &Task) -> bool {
        let are_equal = entry.settings && self.settings.hash_seed.is_some();
        are_equal && *task == Task::Grow && self.rounds > 1
    }

    fn measure(
        &self,
        keys: &KeyFile,
        threads: usize,
        bar: &ProgressBar,
        machine: &Machine,
    ) -> Result<Vec<Record>, Failure> {
        let most = (QUERY_BYTES as f64 / (keys.key_bytes + 24.0)) as usize;
        let queries = (keys.present / 4).clamp(*QUERIES.start(), *QUERIES.end()).min(most);
        let mut findings: Vec<Findings> = Vec::new();
        findings.resize_with(self.indexes.len(), Findings::default);
        for round in 1..=self.rounds {
            for (entry, findings) in self.indexes.iter().zip(&mut findings) {
                bar.set_message(format!("{}: {}, round {round}", keys.name, entry.name));
                let job = Job {
                    index: entry.name.into(),
                    workloads: self.workloads.clone(),
                    task: Task::Query,
                    distributions: self.distributions.clone(),
                    threads,
                    batches: self.batches.clone(),
                    dependent: self.dependent,
                    queries,
                    seed: self.seed.wrapping_add(round as u64 - 1),
                    settings: self.settings.clone(),
                    calls: None,
                };
                if !job.workloads.is_empty() {
                    findings.take(&job, &keys.file)?;
                }
                let others = [(self.grow, Task::Grow), (self.open, Task::Open)];
                for (_, task) in others.into_iter().filter(|(is_asked, _)| *is_asked) {
                    let kept = self.keeps_calls(entry, &task).then(|| findings.equal.one_more());
                    let calls = kept.transpose().map_err(|e| no_room(&e))?;
                    let job = Job { workloads: Vec::new(), task, calls, ..job.clone() };
                    findings.take(&job, &keys.file)?;
                }
                bar.inc(1);
            }
        }
        let named = |entry: &Entry| {
            let label = if entry.settings { self.settings.label() } else { String::new() };
            format!("{}{label}", entry.name)
        };
        for found in &mut findings {
            if let Some(line) = found.equal.line().map_err(|e| no_room(&e))? {
                found.add(line);
            }
        }
        let all = self.indexes.iter().zip(findings);
        Ok(all
            .flat_map(|(entry, found)| found.records(&named(entry), entry, keys, threads, machine))
            .collect())
    }
}

impl Findings {
    /// Runs one process and takes in what it says.
    fn take(&mut self, job: &Job, mut keys: &File) -> Result<(), Failure> {
        let broken = |e: std::io::Error| Failure::failed(format!("cannot start a run: {e}"));
        keys.rewind().map_err(broken)?;
        let program = std::env::current_exe().map_err(broken)?;
        let text = serde_json::to_string(job).expect("a job is plain data");
        let mut child = Command::new(program)
            .args(["bench", JOB_OPTION, &text])
            .stdin(Stdio::from(keys.try_clone().map_err(broken)?))
            .stdout(Stdio::piped())
            .spawn()
            .map_err(broken)?;
        let output = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
        let mut complete = false;
        let mut last = None;
        for line in output.lines() {
            let line = line.map_err(broken)?;
            let line = serde_json::from_str(&line)
                .map_err(|e| Failure::failed(format!("a run said what makes no sense: {e}")))?;
            complete |= matches!(line, Line::Done | Line::Wrong { .. });
            if let Line::Measured { case, .. } = &line {
                last = Some(case.clone());
            }
            self.add(line);
        }
        let status = child.wait().map_err(broken)?;
        if !(complete && status.success()) {
            // A map brought its process down: say it at the last workload that ran.
            let first = match job.task {
                Task::Grow => GROW,
                Task::Query => Workload::Load.name(),
                Task::Open | Task::BeKilled(_) => OPEN,
            };
            let case = last.unwrap_or_else(|| Case::plain(first));
            let what = format!("the process ended early in or after this, {status}");
            self.runs_of(case).trouble.get_or_insert((Outcome::Crashed, what));
        }
        Ok(())
    }

    fn runs_of(&mut self, case: Case) -> &mut Runs {
        if !self.runs.contains_key(&case) {
            self.cases.push(case.clone());
        }
        self.runs.entry(case).or_default()
    }

    fn add(&mut self, line: Line) {
        match line {
            Line::Memory { overhead_bytes_per_key } => self.overhead.push(overhead_bytes_per_key),
            Line::Measured { case, mops, core_share, latency, pause_ns, note } => {
                let runs = self.runs_of(case);
                runs.core_shares.push(core_share);
                runs.mops.push(mops);
                runs.latencies.extend(latency);
                runs.pauses.extend(pause_ns);
                runs.note = note;
            }
            Line::Unsupported { case, why } => {
                self.runs_of(case).trouble.get_or_insert((Outcome::Unsupported, why));
            }
            Line::Wrong { case, what } => {
                self.runs_of(case).trouble.get_or_insert((Outcome::WrongAnswers, what));
            }
            Line::Done => {}
        }
    }

    fn records(
        self,
        name: &str,
        entry: &Entry,
        keys: &KeyFile,
        threads: usize,
        machine: &Machine,
    ) -> Vec<Record> {
        let Self { overhead, cases, mut runs, equal: _ } = self;
        let overhead = median(overhead);
        let record = |case: Case| {
            let runs = runs.remove(&case).expect("every case has runs");
            let (outcome, note) = match runs.trouble {
                Some((outcome, note)) => (outcome, Some(note)),
                None => (Outcome::Ok, runs.note),
            };
            let ok = outcome == Outcome::Ok;
            let mops = median(runs.mops.clone()).filter(|_| ok);
            let low = runs.mops.iter().copied().reduce(f64::min).filter(|_| ok);
            let high = runs.mops.iter().copied().reduce(f64::max).filter(|_| ok);
            let of = |pick: fn(&Percentiles) -> f64| {
                median(runs.latencies.iter().map(pick).collect()).filter(|_| ok)
            };
            let sharing = case.threads_of(threads);
            Record {
                index: name.into(),
                ours: entry.ours,
                keys: keys.name.clone(),
                count: keys.present,
                workload: case.workload,
                dependent: case.dependent,
                dist: case.dist,
                threads,
                batch: case.batch,
                mops,
                ns_per_op: mops.map(|mops| 1e3 * sharing as f64 / mops),
                p50_ns: of(|p| p.p50),
                p99_ns: of(|p| p.p99),
                p999_ns: of(|p| p.p999),
                p9999_ns: of(|p| p.p9999),
                p99999_ns: of(|p| p.p99999),
                p999999_ns: of(|p| p.p999999),
                max_ns: of(|p| p.max),
                pause_ns: median(runs.pauses).filter(|_| ok),
                overhead_bytes_per_key: overhead,
                read_ns: None,
                round_trips: None,
                vs_btreemap: None,
                mops_min: low,
                mops_max: high,
                runs: runs.mops.len(),
                core_share: runs.core_shares.iter().copied().reduce(f64::min),
                key_bytes: keys.key_bytes,
                outcome,
                note,
                machine: machine.clone(),
            }
        };
        cases.into_iter().map(record).collect()
    }
}

fn no_room(e: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot keep what is measured in a temporary file: {e}"))
}

/// Sets the ratio of every figure to std's `BTreeMap` in the same run.
fn compare_with_btreemap(records: &mut [Record]) {
    let base: HashMap<_, _> = records
        .iter()
        .filter(|record| record.index == "btreemap")
        .filter_map(|record| Some((record.circumstances(), record.mops?)))
        .collect();
    for record in records {
        let base = base.get(&record.circumstances());
        record.vs_btreemap = record.mops.zip(base).map(|(mops, base)| mops / base);
    }
}

/// Sets how many times as long as one read of memory each dependent lookup takes.
pub(crate) fn count_round_trips(records: &mut [Record], read_ns: f64) {
    for record in records.iter_mut().filter(|r| r.dependent && r.count >= ROUND_TRIPS_FROM) {
        let workload = record.workload.parse::<Workload>();
        if workload.is_ok_and(|workload| workload.dependent() != workload) {
            record.read_ns = Some(read_ns);
            record.round_trips = record.ns_per_op.map(|ns| ns / read_ns);
        }
    }
}

/// Returns the middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Returns a progress bar on a terminal, and a silent one elsewhere.
fn progress(jobs: usize) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(jobs as u64);
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} runs, {elapsed}  {msg}");
    bar.set_style(style.expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_memory_can_hold_are_refused() {
        assert!(fits(1_000_000, Some(32_000_000)).is_ok());
        let Err(Failure::Misuse(text)) = fits(1_500_000_000, Some(22_000_000_000)) else {
            panic!("they were taken");
        };
        assert_eq!(text, "1500000000 keys and a map of them take 48.0 GB and more, 22.0 are free");
        assert!(fits(usize::MAX, Some(1)).is_err());
        assert!(fits(usize::MAX, None).is_ok());
    }
}
