//! `fanread report`: what `bench --json` wrote, as a table, a page, and plots to put elsewhere.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::report::{compare, html, table};

const EXAMPLES: &str = "\
Examples:
  fanread bench --json a.jsonl
  fanread report a.jsonl b.jsonl --html both.html
  fanread report benchmarks/records/epyc-2-cores/2026-11-25-rand-8-20m-all.jsonl --svg plots";

/// What to show.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Files that `bench --json` wrote
    #[arg(required = true, value_name = "FILE")]
    records: Vec<PathBuf>,
    /// Write a page with plots and tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each plot into this folder, as a file of its own
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// Prints the table of all records, and writes page and plots.
///
/// # Errors
///
/// [`Failure`] if a file cannot be read, or one cannot be written.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let mut records = Vec::new();
    for file in &args.records {
        records.extend(compare::read(file)?);
    }
    let machine = records[0].machine.clone();
    let write =
        |path: &Path, text: String| fs::write(path, text).map_err(|e| Failure::unwritten(&e, path));
    if let Some(file) = &args.html {
        write(file, html::render(&records, &machine))?;
    }
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).map_err(|e| Failure::unwritten(&e, folder))?;
        for (name, plot) in html::plots(&records) {
            write(&folder.join(name), plot)?;
        }
    }
    io::stdout().write_all(table::render(&records, &machine).as_bytes())?;
    Ok(())
}
