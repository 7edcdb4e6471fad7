//! Results beside older ones.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::report::record::Record;

/// Reads what `--json` wrote.
///
/// # Errors
///
/// What the system says if the file cannot be read, misuse if it is something else.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>, Failure> {
    let bad = |what: String| Failure::misuse(format!("cannot read {}: {what}", path.display()));
    let text = fs::read(path).map_err(|e| Failure::unread(&e, path.display()))?;
    let text = String::from_utf8(text).map_err(|e| bad(e.to_string()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let records: Vec<Record> = lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|e| bad(format!("line {}: {e}", at + 1)))
        })
        .collect::<Result<_, _>>()?;
    if records.is_empty() { Err(bad("it has no records".into())) } else { Ok(records) }
}

/// How a figure changed.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) what: String,
    /// New over old: below 1 is slower.
    pub(crate) ratio: f64,
}

/// Compares the figures that both runs have.
///
/// Where both runs have std's `BTreeMap` beside the figure, the ratios to it are compared: a
/// machine that is slower today is slower for both.
pub(crate) fn changes(old: &[Record], new: &[Record]) -> Vec<Change> {
    let old: HashMap<_, _> =
        old.iter().map(|record| ((record.index.clone(), record.circumstances()), record)).collect();
    let change = |new: &Record| {
        let old = old.get(&(new.index.clone(), new.circumstances()))?;
        let relative = new.vs_btreemap.zip(old.vs_btreemap).filter(|_| new.index != "btreemap");
        let (new_figure, old_figure) = relative.or(new.mops.zip(old.mops))?;
        let what = format!(
            "{} on {} ({} keys, {} thread(s)), {}",
            new.index,
            new.keys,
            new.count,
            new.threads,
            new.heading()
        );
        Some(Change { what, ratio: new_figure / old_figure })
    };
    new.iter().filter_map(change).collect()
}

/// What is said where there is nothing to compare.
pub(crate) const NOTHING: &str = "the baseline has none of these figures";

/// Returns the changes as text, slowest first.
pub(crate) fn render(changes: &mut [Change]) -> String {
    if changes.is_empty() {
        return format!("{NOTHING}\n");
    }
    changes.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let mut text = String::from("compared with the baseline, slower first:\n");
    for Change { what, ratio } in changes {
        let _ = writeln!(text, "{:>+7.1} %  {what}", (*ratio - 1.0) * 100.0);
    }
    text
}
