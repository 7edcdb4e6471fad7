//! `fanread query`.

use crate::failure::Failure;

/// Arguments of `fanread query`.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {}

pub(crate) fn run(_args: &QueryArgs) -> Result<(), Failure> {
    Err(Failure::misuse("not in this build"))
}
