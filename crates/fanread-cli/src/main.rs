//! The `fanread` program: measures, queries and checks the indexes of the library.
//!
//! `main` parses the arguments, runs one command and turns its failure into one line on
//! standard error and an exit status: 0 done, 1 failed or a wrong answer, 2 misuse.

mod args;
mod cmd;
mod failure;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Command::Bench(args) => cmd::bench::run(args),
        Command::Probe(args) => cmd::probe::run(args),
        Command::Query(args) => cmd::query::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
