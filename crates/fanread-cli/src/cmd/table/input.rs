//! Reads entries from lines of text, from objects, or from records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::value::RawValue;

use super::bar;
use super::text::Form;
use crate::failure::Failure;

/// What the input is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum From {
    /// Lines of key, TAB and value
    Tsv,
    /// Lines of comma-separated values; the first two are key and value
    Csv,
    /// An object a line
    Ndjson,
    /// Keys and values of fixed lengths, end to end
    Records,
}

/// How entries are written in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    pub(crate) from: From,
    pub(crate) keys: Form,
    pub(crate) values: Form,
    pub(crate) header: bool,
    pub(crate) key_field: &'a str,
    pub(crate) value_field: &'a str,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
}

impl From {
    /// Tells by the end of a file's name.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Self::Csv,
            Some("ndjson" | "jsonl") => Self::Ndjson,
            Some("bin") => Self::Records,
            _ => Self::Tsv,
        }
    }
}

/// Why an entry was not taken; the place comes before it.
type Wrong = String;

/// Calls `add` for every entry of the file at `path`, or of standard input if it is `-`.
pub(crate) fn each_entry(
    path: &Path,
    columns: &Columns<'_>,
    mut add: impl FnMut(&[u8], &[u8]) -> Result<(), Wrong>,
) -> Result<(), Failure> {
    if columns.from == From::Records && columns.key_bytes == 0 && columns.value_bytes == 0 {
        return Err(Failure::misuse("records of 0 bytes are no entries"));
    }
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".into() } else { path.display().to_string() };
    let unreadable = |e: io::Error| Failure::unread(&e, &name);
    let input: Box<dyn Read> = if is_stdin {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let bar = bar::reading(len);
    let mut input = BufReader::with_capacity(1 << 18, bar.wrap_read(input));
    let (unit, read) = match columns.from {
        From::Records => ("record", records(&mut input, columns, &mut add)),
        From::Tsv => ("line", tsv(&mut input, columns, &mut add)),
        From::Csv => ("record", csv_rows(&mut input, columns, &mut add)),
        From::Ndjson => ("line", ndjson(&mut input, columns, &mut add)),
    };
    bar.finish_and_clear();
    read.map_err(|stop| match stop {
        Stop::Io(e) => unreadable(e),
        Stop::Wrong(number, why) => Failure::misuse(format!("{name}, {unit} {number}: {why}")),
    })
}

/// Why reading ended early.
enum Stop {
    Io(io::Error),
    /// In which line or record, from 1, and what.
    Wrong(u64, Wrong),
}

/// Calls `take` with every line that has a byte, its end taken off.
fn lines(
    input: &mut impl BufRead,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), Wrong>,
) -> Result<(), Stop> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(Stop::Io)? == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if !text.is_empty() {
            take(number, text).map_err(|why| Stop::Wrong(number, why))?;
        }
    }
    Ok(())
}

type Add<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), Wrong>;

fn tsv(input: &mut impl BufRead, columns: &Columns<'_>, add: Add<'_>) -> Result<(), Stop> {
    let mut is_header = columns.header;
    lines(input, |_, line| {
        if std::mem::take(&mut is_header) {
            return Ok(());
        }
        let tab = line.iter().position(|byte| *byte == b'\t');
        let (key, value) = tab.map_or((line, &[][..]), |tab| (&line[..tab], &line[tab + 1..]));
        // A line without a TAB is a key with an empty value, which a number cannot be.
        add(&columns.keys.parse(key)?, &columns.values.parse(value)?)
    })
}

fn csv_rows(input: &mut impl BufRead, columns: &Columns<'_>, add: Add<'_>) -> Result<(), Stop> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(columns.header).flexible(true).from_reader(input);
    let mut row = csv::ByteRecord::new();
    for number in 1 + u64::from(columns.header).. {
        match reader.read_byte_record(&mut row) {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) if e.is_io_error() => match e.into_kind() {
                csv::ErrorKind::Io(e) => return Err(Stop::Io(e)),
                _ => return Err(Stop::Io(io::ErrorKind::Other.into())),
            },
            Err(e) => return Err(Stop::Wrong(number, e.to_string())),
        }
        let mut take = || {
            let key = columns.keys.parse(row.get(0).unwrap_or_default())?;
            add(&key, &columns.values.parse(row.get(1).unwrap_or_default())?)
        };
        take().map_err(|why| Stop::Wrong(number, why))?;
    }
    Ok(())
}

fn ndjson(input: &mut impl BufRead, columns: &Columns<'_>, add: Add<'_>) -> Result<(), Stop> {
    lines(input, |_, line| {
        let object: BTreeMap<String, &RawValue> =
            serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let field = |name: &str, form: Form| {
            let raw = object.get(name).ok_or_else(|| format!("there is no {name}"))?.get();
            match raw.as_bytes() {
                [b'"', ..] => {
                    let text: String = serde_json::from_str(raw).map_err(|e| e.to_string())?;
                    form.parse(text.as_bytes())
                }
                // As it is written: no type of numbers has all of them.
                [b'-' | b'0'..=b'9', ..] => form.parse(raw.as_bytes()),
                _ => Err(format!("{name} is neither text nor a number: {raw}")),
            }
        };
        add(&field(columns.key_field, columns.keys)?, &field(columns.value_field, columns.values)?)
    })
}

fn records(input: &mut impl BufRead, columns: &Columns<'_>, add: Add<'_>) -> Result<(), Stop> {
    let record_bytes = columns.key_bytes.saturating_add(columns.value_bytes);
    let mut record = Vec::new();
    for number in 1.. {
        record.clear();
        // Grows as bytes come: a length that was mistyped allocates nothing.
        let got = input.by_ref().take(record_bytes as u64).read_to_end(&mut record);
        match got.map_err(Stop::Io)? {
            0 => break,
            len if len < record_bytes => {
                let why = format!("it has {len} bytes and should have {record_bytes}");
                return Err(Stop::Wrong(number, why));
            }
            _ => {}
        }
        let (key, value) = record.split_at(columns.key_bytes);
        add(key, value).map_err(|why| Stop::Wrong(number, why))?;
    }
    Ok(())
}
