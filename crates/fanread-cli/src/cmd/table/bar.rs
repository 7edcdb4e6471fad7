//! Bars that show a person how far a build is; nothing where standard error is no terminal.

use std::io::{self, IsTerminal};

use fanread::table::BuildStep;
use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar for the bytes of the input, of which there are `len`, or nobody knows if that is 0.
pub(super) fn reading(len: u64) -> ProgressBar {
    let bar = if len > 0 { ProgressBar::new(len) } else { ProgressBar::new_spinner() };
    styled(bar, "{bar:30} read {bytes} of {total_bytes}, {eta} to go")
}

/// Returns a bar for what comes after reading.
pub(super) fn steps() -> ProgressBar {
    styled(ProgressBar::new(1), "{bar:30} {msg} {human_pos} of {human_len}, {eta} to go")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Shows that `done` of `all` parts of a step are done.
pub(super) fn show(bar: &ProgressBar, step: BuildStep, done: u64, all: u64) {
    let name = match step {
        BuildStep::Sort => "sorting entries,",
        BuildStep::Place => "placed",
        BuildStep::Write => "written",
        _ => "done",
    };
    if bar.message() != name {
        bar.set_message(name);
        bar.reset();
        bar.set_length(all);
    }
    bar.set_position(done);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_follows_every_step_from_its_start() {
        let bar = ProgressBar::hidden();
        show(&bar, BuildStep::Sort, 0, 70);
        assert_eq!((bar.message(), bar.length()), ("sorting entries,".to_owned(), Some(70)));
        show(&bar, BuildStep::Place, 20, 70);
        show(&bar, BuildStep::Place, 60, 70);
        assert_eq!((bar.position(), bar.length()), (60, Some(70)));
        show(&bar, BuildStep::Write, 5, 78);
        assert_eq!((bar.message(), bar.position()), ("written".to_owned(), 5));
    }
}
