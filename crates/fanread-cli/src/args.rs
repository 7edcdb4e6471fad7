//! The command line: one variant a command, whose arguments live beside the command.

use clap::{Parser, Subcommand};

use crate::cmd::{
    bench::BenchArgs, probe::ProbeArgs, query::QueryArgs, report::ReportArgs, store::StoreArgs,
    table::TableArgs,
};

/// Indexes that keep many memory reads in flight: measure them, and query your own keys.
#[derive(Debug, Parser)]
#[command(name = "fanread", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Times indexes on a workload and checks every answer they give
    Bench(Box<BenchArgs>),
    /// Measures the memory of this machine: latency, and how many reads it serves at once
    Probe(ProbeArgs),
    /// Loads keys from a file and answers questions about them
    Query(QueryArgs),
    /// Shows what measurements wrote, as a table, a page and plots
    Report(ReportArgs),
    /// Keeps a map of byte strings in a file, which a kill at any moment leaves whole
    Store(StoreArgs),
    /// Writes table files, which RocksDB reads too, and answers from them
    Table(TableArgs),
}
