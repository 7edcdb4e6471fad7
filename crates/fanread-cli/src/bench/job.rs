//! What one process measures, and what it says about it: the lines between parent and child.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use workload::distribution::Distribution;
use workload::mix::Workload;

use crate::bench::cceh::Settings;

/// One map, one key set, one number of threads: the work of one process.
///
/// The keys come on its standard input, as [`workload::keyset::KeySet::save`] writes them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) index: String,
    #[serde(with = "names")]
    pub(crate) workloads: Vec<Workload>,
    pub(crate) task: Task,
    #[serde(with = "names")]
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) threads: usize,
    pub(crate) batches: Vec<usize>,
    /// Whether scans and batches wait for each other; lookups have a workload of their own.
    pub(crate) dependent: bool,
    /// How many queries each thread makes where a query is one lookup.
    pub(crate) queries: usize,
    pub(crate) seed: u64,
    /// Of the maps that `store bench` has.
    pub(crate) settings: Settings,
    /// Where the latency of each insertion of a map that grows is wanted, see [`crate::bench::least`].
    pub(crate) calls: Option<PathBuf>,
}

/// What a process does with a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Loads it, and runs the workloads.
    Query,
    /// Lets it grow from empty under readers.
    Grow,
    /// Opens it after another process was killed that had it open.
    Open,
    /// Makes it in this file, and is killed.
    BeKilled(PathBuf),
}

/// What was measured, but for the result: rows of two runs with the same case are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) workload: String,
    pub(crate) dependent: bool,
    pub(crate) dist: String,
    pub(crate) batch: usize,
}

/// The insertions while a map grows, by one thread.
pub(crate) const GROW: &str = "grow";
/// The lookups of the other threads meanwhile.
pub(crate) const GROW_GET: &str = "grow-get";
/// The insertions of several runs that do the same, each as fast as in the run where it was fastest.
pub(crate) const GROW_LEAST: &str = "grow-least";
/// The start of a map that a killed process has left.
pub(crate) const OPEN: &str = "open";

impl Case {
    /// Returns a case without choices: what `workload` names, on keys chosen uniformly.
    pub(crate) fn plain(workload: &str) -> Self {
        Self { workload: workload.into(), dependent: false, dist: "uniform".into(), batch: 1 }
    }

    /// Returns how many of a run's threads do this.
    pub(crate) fn threads_of(&self, threads: usize) -> usize {
        match &*self.workload {
            GROW | GROW_LEAST | OPEN => 1,
            GROW_GET => threads - 1,
            workload => threads - usize::from(has_scanner(workload)),
        }
    }
}

fn has_scanner(workload: &str) -> bool {
    workload.parse().is_ok_and(Workload::has_scanner)
}

/// Latencies of single calls, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) p99999: f64,
    pub(crate) p999999: f64,
    pub(crate) max: f64,
}

/// One line of a child's standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    /// The memory of the loaded map.
    Memory {
        /// Resident growth over the keys' and values' own bytes, for each key.
        overhead_bytes_per_key: f64,
    },
    /// A workload ran and every answer was right.
    Measured {
        case: Case,
        /// Millions of operations a second, all threads together.
        mops: f64,
        /// How much of a core each thread had, at least.
        core_share: f64,
        latency: Option<Percentiles>,
        /// The longest time for which the machine itself held up a thread, if that was measured.
        pause_ns: Option<f64>,
        note: Option<String>,
    },
    /// The map cannot do this.
    Unsupported { case: Case, why: String },
    /// An answer was wrong; nothing more comes.
    Wrong { case: Case, what: String },
    /// All is measured.
    Done,
}

/// Lists of things that are spelled as on the command line.
mod names {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        list: &[T],
        s: S,
    ) -> Result<S::Ok, S::Error> {
        s.collect_seq(list.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, T, D>(d: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err = String>,
        D: Deserializer<'de>,
    {
        let names = Vec::<String>::deserialize(d)?;
        let parsed: Result<_, _> = names.iter().map(|name| name.parse()).collect();
        parsed.map_err(serde::de::Error::custom)
    }
}
