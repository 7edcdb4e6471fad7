//! The table that people read.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::bench::job::{GROW_LEAST, OPEN};
use crate::bench::machine::Machine;
use crate::report::plot::duration;
use crate::report::record::{Outcome, Record};

/// Returns all figures as one table, with what they mean and where they come from.
pub(crate) fn render(records: &[Record], machine: &Machine) -> String {
    let headings = headings(records);
    let several_threads = records.iter().any(|r| r.threads != records[0].threads);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let first = ["keys", "index", "B/key"].map(String::from);
    table.set_header(first.into_iter().chain(headings.iter().cloned()));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut last_group = String::new();
    for rows in groups(records) {
        let r = rows[0];
        let mut group = format!("{} {}", r.keys, short_count(r.count));
        if several_threads {
            let _ = write!(group, ", {} thr.", r.threads);
        }
        let shown = if group == last_group { String::new() } else { group.clone() };
        last_group = group;
        let memory = r.overhead_bytes_per_key.map_or("-".into(), |bytes| format!("{bytes:.0}"));
        let figures = headings.iter().map(|heading| {
            let figure = rows.iter().find(|r| r.heading() == *heading);
            Cell::new(figure.map_or_else(|| "-".into(), |r| figure_of(r)))
        });
        let cells = [shown, r.index.clone(), memory].map(Cell::new);
        table.add_row(cells.into_iter().chain(figures));
    }
    let mut text = format!("{table}\n");
    let runs = records.iter().map(|r| r.runs).max().unwrap_or(1);
    let threads =
        if several_threads { String::new() } else { format!(", {} thread(s)", records[0].threads) };
    let has_ratios = records.iter().any(|r| r.vs_btreemap.is_some());
    let ratio = if has_ratios { "; in brackets the ratio to btreemap in the same run" } else { "" };
    let _ = writeln!(
        text,
        "M operations/s{threads}, median of {runs} run(s){ratio}.\nB/key: memory beyond the keys and 8-byte values. dep.: each query waits \
         for the answer before. Every answer was checked."
    );
    text += &round_trips(records);
    text += &stalls(records);
    for line in remarks(records) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "{}", machine.line());
    if let Some(line) = disturbance(records) {
        let _ = writeln!(text, "{line}");
    }
    for line in troubles(records) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns how many round trips to memory dependent lookups take as a table, if that is known.
fn round_trips(records: &[Record]) -> String {
    let records: Vec<_> = records.iter().filter(|r| r.round_trips.is_some()).cloned().collect();
    let Some(read_ns) = records.iter().find_map(|r| r.read_ns) else { return String::new() };
    let headings = headings(&records);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["keys", "index"].map(String::from).into_iter().chain(headings.clone()));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for rows in groups(&records) {
        let r = rows[0];
        let figures = headings.iter().map(|heading| {
            let trips = rows.iter().find(|r| r.heading() == *heading).and_then(|r| r.round_trips);
            trips.map_or_else(|| "-".into(), |trips| format!("{trips:.2}"))
        });
        let keys = format!("{} {}", r.keys, short_count(r.count));
        table.add_row([keys, r.index.clone()].into_iter().chain(figures).map(Cell::new));
    }
    format!("\n{table}\n{}\n", round_trips_mean(read_ns))
}

/// Returns what round trips are.
pub(crate) fn round_trips_mean(read_ns: f64) -> String {
    format!(
        "Round trips: the time of a query that waits for the answer before, over {read_ns:.0} ns, the \
         time of a read of\nmemory that waits for the read before, on 2 MB pages where granted, \
         measured before and after the rest."
    )
}

/// Returns the latencies of maps that grew under readers as a table, if there are any.
fn stalls(records: &[Record]) -> String {
    let records = grown(records);
    if records.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["keys", "index", "workload", "thr."].into_iter().chain(STALLS));
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for r in records {
        let keys = format!("{} {}", r.keys, short_count(r.count));
        let first = [keys, r.index.clone(), r.heading(), r.threads.to_string()];
        table.add_row(first.into_iter().chain(stalls_of(r)).map(Cell::new));
    }
    format!("\n{table}\n{STALLS_MEAN}\n")
}

/// What is said about each map that grew, and what it means.
pub(crate) const STALLS: [&str; 8] =
    ["p50", "p99", "p99.9", "p99.99", "p99.999", "p99.9999", "longest", "pause"];
pub(crate) const STALLS_MEAN: &str = "\
Latency of every call while a map grows from empty: grow, one thread that inserts; grow-get, the \
others, which look up what is in; grow-least, each insertion as in the fastest of several equal runs.
The time of the clock is taken off. pause: the longest time for which the machine held up as many \
threads that only read the clock, for as long, on the same cores.";

/// Returns the records with such latencies.
pub(crate) fn grown(records: &[Record]) -> Vec<&Record> {
    let grew = |r: &&Record| r.pause_ns.is_some() || r.workload == GROW_LEAST;
    records.iter().filter(|r| r.outcome == Outcome::Ok && grew(r)).collect()
}

/// Returns what stands under [`STALLS`].
pub(crate) fn stalls_of(r: &Record) -> [String; 8] {
    let times = [
        r.p50_ns,
        r.p99_ns,
        r.p999_ns,
        r.p9999_ns,
        r.p99999_ns,
        r.p999999_ns,
        r.max_ns,
        r.pause_ns,
    ];
    times.map(|time| time.map_or_else(|| "-".into(), duration))
}

/// Returns the headings of all workloads, in the order they were measured.
pub(crate) fn headings(records: &[Record]) -> Vec<String> {
    let mut headings = Vec::new();
    for record in records {
        let heading = record.heading();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings
}

/// Returns the figures of each map on each key set with each number of threads. One that can do nothing of what was asked
/// is left out: its line among [`troubles`] says why.
pub(crate) fn groups(records: &[Record]) -> Vec<Vec<&Record>> {
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    for record in records {
        let same = |r: &Record| {
            (&r.keys, r.count, r.threads, &r.index)
                == (&record.keys, record.count, record.threads, &record.index)
        };
        match groups.iter_mut().find(|group| same(group[0])) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups.retain(|rows| rows.iter().any(|r| r.outcome != Outcome::Unsupported));
    groups
}

fn figure_of(record: &Record) -> String {
    match (record.outcome, record.mops) {
        (Outcome::Ok, Some(_)) if record.workload == OPEN => {
            record.ns_per_op.map_or_else(|| "-".into(), duration)
        }
        (Outcome::Ok, Some(mops)) => {
            let figure = short_rate(mops);
            match record.vs_btreemap {
                Some(ratio) => format!("{figure} ({ratio:.1})"),
                None => figure,
            }
        }
        (Outcome::WrongAnswers, _) => "WRONG".into(),
        (Outcome::Crashed, _) => "crashed".into(),
        _ => "-".into(),
    }
}

/// Returns what maps say of themselves, a line each.
fn remarks(records: &[Record]) -> Vec<String> {
    let says = |r: &&Record| r.outcome == Outcome::Ok && r.note.is_some() && r.pause_ns.is_none();
    let line = |r: &Record| {
        let (count, note) = (short_count(r.count), r.note.as_deref().unwrap_or_default());
        let (index, keys, heading) = (&r.index, &r.keys, r.heading());
        format!("{index} on {keys} {count}, {heading}, {} thr.: {note}", r.threads)
    };
    records.iter().filter(says).map(line).collect()
}

/// Returns one line for each reason for which a map has no figure, with the workloads.
pub(crate) fn troubles(records: &[Record]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for record in records {
        let what = match record.outcome {
            Outcome::Ok => continue,
            Outcome::Unsupported => "unsupported",
            Outcome::WrongAnswers => "wrong answers",
            Outcome::Crashed => "crashed",
        };
        let note = record.note.as_deref().unwrap_or("no reason given");
        let reason = format!("{} on {}: {what}: {note}", record.index, record.keys);
        let heading = record.heading();
        match lines.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, headings)) if headings.contains(&heading) => {}
            Some((_, headings)) => headings.push(heading),
            None => lines.push((reason, vec![heading])),
        }
    }
    let line = |(reason, headings): (String, Vec<_>)| format!("{reason} ({})", headings.join(", "));
    lines.into_iter().map(line).collect()
}

/// Returns a warning if other programs took part of the machine.
pub(crate) fn disturbance(records: &[Record]) -> Option<String> {
    const ENOUGH: f64 = 0.95;
    let disturbed = records.iter().filter(|r| r.core_share.is_some_and(|share| share < ENOUGH));
    let least = records.iter().filter_map(|r| r.core_share).fold(1.0, f64::min);
    let (count, all) = (disturbed.count(), records.len());
    (count > 0).then(|| {
        format!(
            "The machine was not quiet: {count} of {all} figures had less than 95 % of a core at \
             times, the worst {:.0} %.",
            least * 100.0
        )
    })
}

/// Writes 2000000 as `2M`.
pub(crate) fn short_count(count: usize) -> String {
    match count {
        0..10_000 => count.to_string(),
        _ if count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        _ if count.is_multiple_of(1000) && count < 1_000_000 => format!("{}k", count / 1000),
        _ if count < 1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

fn short_rate(mops: f64) -> String {
    let digits = if mops < 1.0 {
        3
    } else if mops < 10.0 {
        2
    } else {
        1
    };
    format!("{mops:.digits$}")
}
