//! Why a command ended early, and the exit status that tells it.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use thiserror::Error;
use workload::dataset::DatasetError;

/// Why a command did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// The work was tried and failed, or an answer was wrong. Exit status 1.
    #[error("{0}")]
    Failed(String),
    /// What was asked makes no sense: arguments, or a file that is not there or not for this user. Exit status 2.
    #[error("{0}")]
    Misuse(String),
    /// Writing the output failed. Exit status 1, or 0 if the reader closed the pipe.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Makes a failure with exit status 1.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }

    /// Makes a failure with exit status 2.
    pub(crate) fn misuse(why: impl Into<String>) -> Self {
        Self::Misuse(why.into())
    }

    /// Makes a failure of what the system said about a file that the user has named: misuse if another name, or other permissions,
    /// would have done, and exit status 1 if the system was out of something, or the device failed.
    pub(crate) fn of_path(cause: &io::Error, why: impl Into<String>) -> Self {
        use io::ErrorKind as Kind;
        match cause.kind() {
            Kind::NotFound
            | Kind::AlreadyExists
            | Kind::PermissionDenied
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::InvalidFilename
            | Kind::InvalidInput
            | Kind::ReadOnlyFilesystem => Self::misuse(why),
            _ => Self::failed(why),
        }
    }

    /// Makes a failure of what the system said when a file that the user has named was to be read, or another input.
    pub(crate) fn unread(cause: &io::Error, name: impl fmt::Display) -> Self {
        Self::of_path(cause, format!("cannot read {name}: {cause}"))
    }

    /// Makes a failure of what the system said when a file or folder that the user has named was to be written.
    pub(crate) fn unwritten(cause: &io::Error, path: &Path) -> Self {
        Self::of_path(cause, format!("cannot write {}: {cause}", path.display()))
    }

    /// Prints one line on standard error and returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        let status = match &self {
            // Whoever closed the pipe has read enough.
            Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Failed(_) | Self::Output(_) => 1,
            Self::Misuse(_) => 2,
        };
        match std::error::Error::source(&self) {
            Some(cause) => tell(format_args!("fanread: {self}: {cause}")),
            None => tell(format_args!("fanread: {self}")),
        }
        ExitCode::from(status)
    }
}

/// A key set that cannot be had was asked for in vain, but for a file that cannot be read at the moment.
impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        match &error {
            DatasetError::Unreadable { cause, .. } => Self::of_path(cause, error.to_string()),
            _ => Self::misuse(error.to_string()),
        }
    }
}

/// Writes a line to standard error. Whoever has closed that does not want to know, and the work goes on.
pub(crate) fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
