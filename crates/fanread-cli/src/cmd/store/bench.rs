//! `fanread store bench`: the measurements of `fanread bench`, of maps of numbers in memory and in files, with their settings.

use crate::bench::cceh::Settings;
use crate::cmd::bench::{self, BenchArgs};
use crate::failure::Failure;

/// The maps that are measured without `--index`: ours, and then the rivals.
const MAPS: &[&str] = &[
    "cceh",
    "cceh-copy-on-write",
    "cceh-file",
    "cceh-checkpoints",
    #[cfg(feature = "rivals")]
    "hashbrown",
    #[cfg(feature = "rivals")]
    "linear-probing",
];

/// Arguments of `fanread store bench`.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("keys", |arg| arg.default_value("rand-8")),
    mut_arg("workload", |arg| {
        arg.default_values(["load", "get-dep", "get", "miss", "batch", "grow"])
    }),
    after_help = "\
Maps of numbers: cceh in memory, cceh-copy-on-write with the other way to split,
cceh-file in a file, cceh-checkpoints in a file with checkpoints. Their settings
are part of their names in the results. Beside them, without --index: hashbrown,
and linear-probing, one array that is rehashed as a whole when 95 % are in use.
grow times each insertion by itself.

Examples:
  fanread store bench --count 20M --threads 1,2
  fanread store bench --index cceh --workload grow --count 20M --small-pages
  fanread store bench --index cceh --workload load --flush-latency 0 --probing 16 --segment-bytes 4096
  fanread store bench --index cceh-checkpoints --workload grow --sync-every 100000 --sync-apart
  fanread store bench --index cceh-file --workload open --count 16M

Exit status: 0 done, 1 a wrong answer or a run that failed or was too slow, 2 misuse."
)]
pub(crate) struct StoreBenchArgs {
    #[command(flatten)]
    bench: BenchArgs,

    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &StoreBenchArgs) -> Result<(), Failure> {
    if let Some(fault) = args.settings.fault() {
        return Err(Failure::misuse(fault));
    }
    bench::run_with(&args.bench, MAPS, &args.settings)
}
