//! One measured figure with everything it depends on, as a line of JSON or CSV.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::bench::machine::Machine;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// Every answer was right.
    Ok,
    /// The map has no such operation or takes no such keys.
    Unsupported,
    /// An answer was wrong.
    WrongAnswers,
    /// The process ended early.
    Crashed,
}

/// One figure. Rates and times are medians over the runs; `None` if there is no figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) index: String,
    #[serde(default)]
    pub(crate) ours: bool,
    pub(crate) keys: String,
    pub(crate) count: usize,
    pub(crate) workload: String,
    pub(crate) dependent: bool,
    pub(crate) dist: String,
    pub(crate) threads: usize,
    pub(crate) batch: usize,
    /// Millions of operations a second, all threads together; a scan is one operation.
    pub(crate) mops: Option<f64>,
    /// The time of one operation on its thread.
    pub(crate) ns_per_op: Option<f64>,
    /// Latency of one call; of a whole batch where `batch` is more than 1.
    pub(crate) p50_ns: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
    #[serde(default)]
    pub(crate) p999_ns: Option<f64>,
    #[serde(default)]
    pub(crate) p9999_ns: Option<f64>,
    #[serde(default)]
    pub(crate) p99999_ns: Option<f64>,
    #[serde(default)]
    pub(crate) p999999_ns: Option<f64>,
    pub(crate) max_ns: Option<f64>,
    /// The longest time for which the machine held up a thread that did nothing but read the
    /// clock, in as long a run: `max_ns` holds such pauses too.
    #[serde(default)]
    pub(crate) pause_ns: Option<f64>,
    pub(crate) overhead_bytes_per_key: Option<f64>,
    /// The time of one read of memory that waits for the one before it, in the same run.
    #[serde(default)]
    pub(crate) read_ns: Option<f64>,
    /// `ns_per_op` over `read_ns`, of lookups that wait for each other.
    #[serde(default)]
    pub(crate) round_trips: Option<f64>,
    /// `mops` over that of std's `BTreeMap` in the same run.
    pub(crate) vs_btreemap: Option<f64>,
    pub(crate) mops_min: Option<f64>,
    pub(crate) mops_max: Option<f64>,
    pub(crate) runs: usize,
    /// How much of a core the thread had that had least, in the worst run: well below 1, and
    /// other programs took part of the machine.
    #[serde(default)]
    pub(crate) core_share: Option<f64>,
    /// The mean length of a key.
    pub(crate) key_bytes: f64,
    pub(crate) outcome: Outcome,
    pub(crate) note: Option<String>,
    pub(crate) machine: Machine,
}

/// Everything a figure depends on but the map and the machine.
pub(crate) type Circumstances = (String, usize, String, bool, String, usize, usize);

impl Record {
    /// Returns what must be equal for two figures to be comparable.
    pub(crate) fn circumstances(&self) -> Circumstances {
        (
            self.keys.clone(),
            self.count,
            self.workload.clone(),
            self.dependent,
            self.dist.clone(),
            self.threads,
            self.batch,
        )
    }

    /// Returns the workload as a column heading: `get dep.`, `batch 16`, `scan`.
    pub(crate) fn heading(&self) -> String {
        use std::fmt::Write;
        let mut heading = self.workload.clone();
        if self.workload == "batch" {
            let _ = write!(heading, " {}", self.batch);
        }
        if self.dependent {
            heading += " dep.";
        }
        if self.dist != "uniform" {
            let _ = write!(heading, " {}", self.dist);
        }
        heading
    }
}

/// Writes one JSON object a line.
///
/// # Errors
///
/// Those of writing.
pub(crate) fn write_json(out: &mut dyn Write, records: &[Record]) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *out, record)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Writes a table of comma-separated values with a heading.
///
/// # Errors
///
/// Those of writing.
pub(crate) fn write_csv(out: &mut dyn Write, records: &[Record]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "index",
        "keys",
        "count",
        "workload",
        "dependent",
        "dist",
        "threads",
        "batch",
        "mops",
        "ns_per_op",
        "p50_ns",
        "p99_ns",
        "p999_ns",
        "p9999_ns",
        "p99999_ns",
        "p999999_ns",
        "max_ns",
        "pause_ns",
        "overhead_bytes_per_key",
        "read_ns",
        "round_trips",
        "vs_btreemap",
        "mops_min",
        "mops_max",
        "runs",
        "core_share",
        "key_bytes",
        "outcome",
        "note",
        "machine",
    ])?;
    let number = |figure: Option<f64>| figure.map(|f| f.to_string()).unwrap_or_default();
    for r in records {
        let outcome = serde_json::to_value(r.outcome)?;
        csv.write_record([
            r.index.clone(),
            r.keys.clone(),
            r.count.to_string(),
            r.workload.clone(),
            r.dependent.to_string(),
            r.dist.clone(),
            r.threads.to_string(),
            r.batch.to_string(),
            number(r.mops),
            number(r.ns_per_op),
            number(r.p50_ns),
            number(r.p99_ns),
            number(r.p999_ns),
            number(r.p9999_ns),
            number(r.p99999_ns),
            number(r.p999999_ns),
            number(r.max_ns),
            number(r.pause_ns),
            number(r.overhead_bytes_per_key),
            number(r.read_ns),
            number(r.round_trips),
            number(r.vs_btreemap),
            number(r.mops_min),
            number(r.mops_max),
            r.runs.to_string(),
            number(r.core_share),
            number(Some(r.key_bytes)),
            outcome.as_str().unwrap_or_default().to_string(),
            r.note.clone().unwrap_or_default(),
            r.machine.line(),
        ])?;
    }
    csv.flush()
}
