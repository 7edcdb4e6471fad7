//! `fanread bench`.

use crate::failure::Failure;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {}

pub(crate) fn run(_args: &BenchArgs) -> Result<(), Failure> {
    Err(Failure::failed("nothing to measure yet"))
}
