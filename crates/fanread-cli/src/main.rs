//! The `fanread` program: measures, queries and checks the indexes of the library.
//!
//! `main` parses the arguments, runs one command and turns its failure into one line on
//! standard error and an exit status: 0 done, 1 failed or a wrong answer, 2 misuse.

#![allow(clippy::missing_errors_doc, reason = "fires on private items too; commands say theirs")]

mod args;
mod bench;
mod cmd;
mod failure;
mod free;
mod maps;
mod report;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Arguments, Command};
use crate::failure::{Failure, tell};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let done = match &arguments.command {
        Command::Bench(args) => cmd::bench::run(args),
        Command::Probe(args) => cmd::probe::run(args),
        Command::Query(args) => cmd::query::run(args),
        Command::Report(args) => cmd::report::run(args),
        Command::Store(args) => cmd::store::run(args),
        Command::Table(args) => cmd::table::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Prints help where it was asked for, and one line about anything else.
fn refuse(error: &clap::Error) -> ExitCode {
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if asked {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return match printed {
            // Whoever has closed standard error does not want to know.
            Err(cause) if !error.use_stderr() => Failure::Output(cause).report(),
            _ => ExitCode::from(error.exit_code() as u8),
        };
    }
    // The first paragraph says what is wrong, the rest how to ask.
    let text = error.to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = paragraph.split_whitespace().collect();
    let line = words.join(" ");
    tell(format_args!("fanread: {} (see --help)", line.strip_prefix("error: ").unwrap_or(&line)));
    ExitCode::from(2)
}
