//! `fanread probe`.

use crate::failure::Failure;

/// Arguments of `fanread probe`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {}

pub(crate) fn run(_args: &ProbeArgs) -> Result<(), Failure> {
    Err(Failure::misuse("not in this build"))
}
