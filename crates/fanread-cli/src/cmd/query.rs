//! `fanread query`: loads keys into a map and answers questions about them.

mod keys;
mod load;
mod question;

use std::ffi::OsString;
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::keys::{Entry, INDEXES, Index, Keys, Map, names, parse_index};
use self::load::{Loaded, load};
use self::question::{Counted, HELP, Question, words};
use crate::failure::{Failure, tell};

/// How many entries a person is shown who did not say how many.
const SCREEN: usize = 40;

/// Arguments of `fanread query`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Questions:
{HELP}
Without QUESTION they are read from standard input, one a line. A script gets
\"(none)\" where nothing is found. Exit status: 0 found, 1 something was not
found, 2 misuse. Keys are compared as bytes: 10 comes before 9, so numbers need
leading zeros.

Examples:
  find /usr -type f | fanread query - prefix /usr/bin/c 10
  fanread query prices.tsv prefix 2026-11- 10
  fanread query --index cuckoo-trie names.txt floor m
  printf 'floor m\\ncount\\n' | fanread query names.txt
  find / -xdev | fanread query - range /etc /etd"))]
pub(crate) struct QueryArgs {
    /// Keys, one a line, or key, TAB and value; - for standard input. Empty lines are skipped, a
    /// carriage return at the end of a line is dropped
    file: PathBuf,

    #[arg(long, value_name = "NAME", default_value = INDEXES[0].name, value_parser = parse_index,
        help = format!("Map to load the keys into, of those on byte strings: {}; the first is loaded fastest", names()))]
    index: Index,

    /// One question, like: prefix app 10
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    question: Vec<OsString>,
}

/// Where the keys are, and what is asked about them.
struct Asked<'a> {
    file: &'a Path,
    /// The one question; without it, questions are read from standard input.
    question: Option<Question>,
}

pub(crate) fn run(args: &QueryArgs) -> Result<(), Failure> {
    // A question that makes no sense needs no keys.
    let question = match &args.question[..] {
        [] if load::is_stdin(&args.file) => {
            return Err(Failure::misuse("with keys from standard input, give the question too"));
        }
        [] => None,
        given => {
            let words = given.iter().map(|word| word.as_encoded_bytes().to_vec()).collect();
            Some(Question::parse(words).map_err(Failure::misuse)?)
        }
    };
    (args.index.run)(&Asked { file: &args.file, question })
}

/// Loads the keys into a new map and answers what is asked.
fn answer_all<M: Map>(asked: &Asked) -> Result<(), Failure> {
    let started = Instant::now();
    let Loaded { map, replaced } = load::<M>(asked.file)?;
    let took = started.elapsed();
    if replaced > 0 {
        tell(format_args!("fanread: duplicate keys: {replaced} lines replaced an earlier one"));
    }
    let keys = map.pin();
    let mut out = BufWriter::new(io::stdout().lock());
    if let Some(question) = &asked.question {
        let found = answer(&keys, question, None, &mut out)?;
        out.flush()?;
        return if found { Ok(()) } else { Err(Failure::failed("nothing found")) };
    }
    let input = io::stdin().lock();
    if input.is_terminal() {
        let count = keys.len();
        tell(format_args!(
            "{count} keys loaded in {:.1} s; help lists the questions",
            took.as_secs_f64()
        ));
        converse(&keys, input, &mut out)
    } else {
        script(&keys, input, &mut out)
    }
}

/// Answers a person: asks with a prompt, and goes on after a mistake.
fn converse(keys: &impl Keys, input: impl BufRead, out: &mut impl Write) -> Result<(), Failure> {
    let mut lines = input.split(b'\n');
    loop {
        write!(out, "> ")?;
        out.flush()?;
        let Some(line) = lines.next() else {
            // The end was typed; the shell's prompt belongs on a line of its own.
            writeln!(out)?;
            return Ok(out.flush()?);
        };
        let line = line.map_err(|e| Failure::unread(&e, "standard input"))?;
        let line = load::trim_end(&line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        match words(line).and_then(Question::parse) {
            Ok(Question::Quit) => return Ok(out.flush()?),
            Ok(question) => {
                if !answer(keys, &question, Some(SCREEN), out)? {
                    writeln!(out, "(none)")?;
                }
            }
            Err(wrong) => writeln!(out, "{wrong}")?,
        }
    }
}

/// Answers a script: every question, then says how many found nothing or made no sense.
fn script(keys: &impl Keys, mut input: impl BufRead, out: &mut impl Write) -> Result<(), Failure> {
    let (mut asked, mut missed, mut wrong) = (0_usize, 0_usize, 0_usize);
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        let got = input.read_until(b'\n', &mut line);
        if got.map_err(|e| Failure::unread(&e, "standard input"))? == 0 {
            break;
        }
        let text = load::trim_end(&line);
        if text.trim_ascii().is_empty() {
            continue;
        }
        let question = words(text).and_then(Question::parse);
        if let Ok(Question::Quit) = question {
            break;
        }
        asked += 1;
        match question {
            Ok(question) => {
                if !answer(keys, &question, None, out)? {
                    missed += 1;
                    writeln!(out, "(none)")?;
                }
            }
            Err(message) => {
                wrong += 1;
                out.flush()?;
                tell(format_args!("fanread: line {number}: {message}"));
            }
        }
        // Whoever asks one question at a time waits for its answer.
        out.flush()?;
    }
    out.flush()?;
    match (wrong, missed) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::failed(format!("{missed} of {asked} questions found nothing"))),
        _ => Err(Failure::misuse(format!("{wrong} of {asked} questions made no sense"))),
    }
}

/// Writes the answer; returns whether anything was found.
///
/// `screen` limits lists that have no limit of their own, and says so.
fn answer(
    keys: &impl Keys,
    question: &Question,
    screen: Option<usize>,
    out: &mut impl Write,
) -> io::Result<bool> {
    match question {
        Question::Get(key) => {
            let found = keys.get(key);
            if let Some(rest) = &found {
                write_entry(out, key, rest)?;
            }
            Ok(found.is_some())
        }
        Question::Floor(key) => list(keys.floor(key).into_iter(), None, None, out),
        Question::Ceiling(key) => list(keys.ceiling(key).into_iter(), None, None, out),
        Question::First => list(keys.first().into_iter(), None, None, out),
        Question::Last => list(keys.last().into_iter(), None, None, out),
        Question::Range { from, to, limit } => list(keys.range(from, to), *limit, screen, out),
        Question::Prefix { prefix, limit } => list(keys.prefix(prefix), *limit, screen, out),
        Question::Count(counted) => {
            let count = match counted {
                Counted::All => keys.len(),
                Counted::Prefix(prefix) => keys.prefix(prefix).count(),
                Counted::Range { from, to } => keys.range(from, to).count(),
            };
            writeln!(out, "{count}").map(|()| true)
        }
        Question::Help => out.write_all(HELP.as_bytes()).map(|()| true),
        Question::Quit => Ok(true),
    }
}

/// Writes up to `limit` entries; returns whether there were any.
fn list<'g>(
    entries: impl Iterator<Item = Entry<'g>>,
    limit: Option<usize>,
    screen: Option<usize>,
    out: &mut impl Write,
) -> io::Result<bool> {
    let most = limit.or(screen).unwrap_or(usize::MAX);
    let mut any = false;
    for (written, (key, rest)) in entries.enumerate() {
        if written == most {
            if limit.is_none() {
                writeln!(out, "(and more: give a limit to see them)")?;
            }
            break;
        }
        write_entry(out, &key, &rest)?;
        any = true;
    }
    // A limit of 0 asks for nothing and gets it.
    Ok(any || limit == Some(0))
}

/// Writes an entry as its line in the file was.
fn write_entry(out: &mut impl Write, key: &[u8], rest: &[u8]) -> io::Result<()> {
    out.write_all(key)?;
    out.write_all(rest)?;
    out.write_all(b"\n")
}
