//! `fanread store`: a map of byte strings in a file, from the command line.

mod bench;

use std::ffi::OsString;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use comfy_table::{Table, presets::NOTHING};
use fanread::Store;
use fanread::persist::Durability;
use fanread::persist::cceh::{CcehError, CcehOptions};

use super::table::Texts;
use super::table::input::{Columns, From, each_entry};
use crate::bench::cceh::no_segment;
use crate::failure::Failure;

/// Arguments of `fanread store`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A store maps byte strings to byte strings. What a command has done survives the
end of the process at any moment; a power cut may lose it, or the store, unless
it was created with --checkpoints: then what a command has done that has ended
survives that too. One process has a store open at a time, and has to be allowed
to write to it even if it only reads. Exit status: 0 done, 1 not found, damaged
or failed, 2 misuse.

Examples:
  fanread store create prices.store
  fanread store put prices.store apple 12
  fanread store put prices.store --input prices.tsv
  fanread store get prices.store apple
  fanread store del prices.store apple
  fanread store scan prices.store --prefix a
  fanread store stat prices.store
  fanread store check prices.store
  fanread store bench --count 500k")]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    verb: Verb,
}

/// What to do with a store.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Makes an empty store
    Create(CreateArgs),
    /// Puts entries in, or other values in the place of theirs
    Put(PutArgs),
    /// Looks keys up, and prints those that are there with their values
    Get(KeysArgs),
    /// Removes keys
    Del(KeysArgs),
    /// Prints entries, in no order
    Scan(ScanArgs),
    /// Prints what a store takes
    Stat(FileArgs),
    /// Verifies that every entry is where it belongs, and that nothing is lost
    Check(FileArgs),
    /// Times maps of numbers as stores have them, beside other hash maps, and checks every answer
    Bench(Box<bench::StoreBenchArgs>),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread store create prices.store
  fanread store create --segment-bytes 4096 small.store
  fanread store create --checkpoints lasting.store

With --checkpoints a store is three files, which belong together: FILE,
FILE.journal and FILE.work.")]
struct CreateArgs {
    /// Store to make; there must be no such file
    file: PathBuf,

    /// Bytes of a segment: a power of two from 256 to 4194304
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    segment_bytes: usize,

    /// Survives power cuts, at the price of a second copy of the store on the disk
    #[arg(long)]
    checkpoints: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread store put prices.store apple 12
  fanread store put prices.store --input prices.csv --header
  seq 1000 | awk '{print $1 \"\\t\" $1 * $1}' | fanread store put squares.store

Without KEY, entries are read from --input, or from standard input: lines of
key, TAB and value, or what the name of the file or --from says.")]
struct PutArgs {
    /// Store
    file: PathBuf,

    #[command(flatten)]
    texts: Texts,

    /// Key
    #[arg(requires = "value", allow_hyphen_values = true)]
    key: Option<OsString>,

    /// Value
    #[arg(allow_hyphen_values = true)]
    value: Option<OsString>,

    /// Entries to read; - for standard input
    #[arg(long, value_name = "PATH", default_value = "-", conflicts_with = "key")]
    input: PathBuf,

    /// What the input is [default: what its name ends in, or tsv]
    #[arg(long, value_name = "FORMAT")]
    from: Option<From>,

    /// Skips the first line of tsv or csv
    #[arg(long)]
    header: bool,

    /// Name of the key in objects of ndjson
    #[arg(long, value_name = "NAME", default_value = "key")]
    key_field: String,

    /// Name of the value in objects of ndjson
    #[arg(long, value_name = "NAME", default_value = "value")]
    value_field: String,

    /// Length of the keys of records
    #[arg(long, value_name = "N", default_value_t = 8)]
    key_bytes: usize,

    /// Length of the values of records
    #[arg(long, value_name = "N", default_value_t = 8)]
    value_bytes: usize,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread store get prices.store apple pear
  fanread store del prices.store apple
  cut -f 1 wanted.tsv | fanread store get prices.store

get prints lines of key, TAB and value. It needs the permission to write to the
store, too: whoever opens one makes up for what a killed process has left.

Without KEY, keys are read from standard input, one a line; get prints
\"(none)\" for those that are not there then.")]
struct KeysArgs {
    /// Store
    file: PathBuf,

    #[command(flatten)]
    texts: Texts,

    /// Keys
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    wanted: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread store scan prices.store
  fanread store scan prices.store --prefix a | sort

A store has no order: all of it is read, whatever is printed.")]
struct ScanArgs {
    /// Store
    file: PathBuf,

    #[command(flatten)]
    texts: Texts,

    /// Prints keys that begin with these bytes only
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    prefix: Option<OsString>,

    /// Prints so many entries at most
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread store stat prices.store
  fanread store check prices.store")]
struct FileArgs {
    /// Store
    file: PathBuf,
}

pub(crate) fn run(args: &StoreArgs) -> Result<(), Failure> {
    match &args.verb {
        Verb::Create(args) => create(args),
        Verb::Put(args) => put(args),
        Verb::Get(args) => get(args),
        Verb::Del(args) => del(args),
        Verb::Scan(args) => scan(args),
        Verb::Stat(args) => stat(args),
        Verb::Check(args) => check(args),
        Verb::Bench(args) => bench::run(args),
    }
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let bytes = args.segment_bytes;
    if !bytes.is_power_of_two() || !(256..=4 << 20).contains(&bytes) {
        return Err(Failure::misuse(no_segment(bytes)));
    }
    let options = CcehOptions::new().segment_bytes(bytes).checkpoints(args.checkpoints);
    match Store::create(&args.file, options) {
        Ok(_) => Ok(()),
        Err(e) => Err(refused(&e, told("make", &args.file, &e))),
    }
}

/// One line about an error.
fn told(what: &str, file: &Path, error: &CcehError) -> String {
    let file = file.display();
    match error {
        CcehError::Io(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
            format!("cannot {what} {file}: another process has it open")
        }
        CcehError::Io(cause) => format!("cannot {what} {file}: {cause}"),
        error => format!("{file}: {error}"),
    }
}

/// Whose fault it is that a store is not open: the user's if the file is not there, there already, or not for him.
fn refused(error: &CcehError, why: String) -> Failure {
    match error {
        CcehError::Io(cause) => Failure::of_path(cause, why),
        _ => Failure::failed(why),
    }
}

/// Opens a store. A file that is not there, or not for this user, is misuse; one that is no store has failed, and so has the system
/// where it could have opened it.
fn open(file: &Path) -> Result<Store, Failure> {
    Store::open(file).map_err(|e| refused(&e, told("open", file, &e)))
}

/// Lets what was written survive what it can.
fn sync(store: &Store, file: &Path) -> Result<(), Failure> {
    let kept = match store.durability() {
        Durability::Checkpoint => store.sync(),
        _ => Ok(()),
    };
    kept.map_err(|e| Failure::failed(told("write to", file, &e)))
}

/// One line about all that failed, with the exit status of the first.
fn both(first: Result<(), Failure>, second: Result<(), Failure>) -> Result<(), Failure> {
    match (first, second) {
        (Err(first), Err(second)) => {
            let why = format!("{first}; {second}");
            Err(match first {
                Failure::Misuse(_) => Failure::misuse(why),
                _ => Failure::failed(why),
            })
        }
        (first, second) => first.and(second),
    }
}

fn put(args: &PutArgs) -> Result<(), Failure> {
    let parse = |text: &OsString, form: super::table::text::Form| {
        form.parse(text.as_encoded_bytes()).map_err(Failure::misuse)
    };
    if let (Some(key), Some(value)) = (&args.key, &args.value) {
        let (key, value) = (parse(key, args.texts.keys)?, parse(value, args.texts.values)?);
        let store = open(&args.file)?;
        let put = store.insert(&key, &value);
        put.map_err(|e| Failure::failed(told("write to", &args.file, &e)))?;
        return sync(&store, &args.file);
    }
    let store = open(&args.file)?;
    let columns = Columns {
        from: args.from.unwrap_or_else(|| From::of(&args.input)),
        keys: args.texts.keys,
        values: args.texts.values,
        header: args.header,
        key_field: &args.key_field,
        value_field: &args.value_field,
        key_bytes: args.key_bytes,
        value_bytes: args.value_bytes,
    };
    let (mut new, mut replaced) = (0_u64, 0_u64);
    let mut full = None;
    let read = each_entry(&args.input, &columns, |key, value| match store.insert(key, value) {
        Ok(old) => {
            *(if old.is_some() { &mut replaced } else { &mut new }) += 1;
            Ok(())
        }
        Err(e) => {
            let why = told("write to", &args.file, &e);
            // Not the fault of the line at which it happens.
            if !matches!(e, CcehError::TooLong { .. }) {
                full = Some(why.clone());
            }
            Err(why)
        }
    });
    let read = full.map_or(read, |full| Err(Failure::failed(full)));
    // Entries before the one that is wrong stay.
    both(read, sync(&store, &args.file))?;
    writeln!(io::stdout(), "{new} new, {replaced} replaced")?;
    Ok(())
}

/// Calls `found` for each key of the arguments, or else of standard input; it tells whether the key was there.
fn each_key(
    args: &KeysArgs,
    mut found: impl FnMut(&[u8]) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let (mut asked, mut missed) = (0_u64, 0_u64);
    let mut ask = |text: &[u8], place: &dyn Fn(String) -> String| {
        let key = args.texts.keys.parse(text).map_err(|why| Failure::misuse(place(why)))?;
        asked += 1;
        missed += u64::from(!found(&key)?);
        Ok::<_, Failure>(())
    };
    if args.wanted.is_empty() {
        for (number, line) in (1..).zip(io::stdin().lock().split(b'\n')) {
            let line = line.map_err(|e| Failure::unread(&e, "standard input"))?;
            let text = line.strip_suffix(b"\r").unwrap_or(&line);
            ask(text, &|why| format!("line {number}: {why}"))?;
        }
    } else {
        args.wanted.iter().try_for_each(|key| ask(key.as_encoded_bytes(), &|why| why))?;
    }
    match missed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{missed} of {asked} keys not found"))),
    }
}

fn get(args: &KeysArgs) -> Result<(), Failure> {
    let store = open(&args.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let got = each_key(args, |key| {
        let value = store.get(key);
        match &value {
            Some(value) => args.texts.write_entry(&mut out, key, value)?,
            None if args.wanted.is_empty() => writeln!(out, "(none)")?,
            None => {}
        }
        Ok(value.is_some())
    });
    out.flush()?;
    got
}

fn del(args: &KeysArgs) -> Result<(), Failure> {
    let store = open(&args.file)?;
    let removed = each_key(args, |key| Ok(store.remove(key).is_some()));
    both(removed, sync(&store, &args.file))
}

fn scan(args: &ScanArgs) -> Result<(), Failure> {
    let prefix = args.prefix.as_ref().map(|text| args.texts.keys.parse(text.as_encoded_bytes()));
    let prefix = prefix.transpose().map_err(Failure::misuse)?.unwrap_or_default();
    let store = open(&args.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let entries = store.iter().filter(|(key, _)| key.starts_with(&prefix));
    for (key, value) in entries.take(args.limit.unwrap_or(usize::MAX)) {
        args.texts.write_entry(&mut out, &key, &value)?;
    }
    out.flush()?;
    Ok(())
}

fn stat(args: &FileArgs) -> Result<(), Failure> {
    let stats = open(&args.file)?.stats();
    let mut rows = Table::new();
    rows.load_style(NOTHING);
    let used = stats.entries as f64 * 100.0 / stats.slots as f64;
    for (name, value) in [
        ("entries", stats.entries.to_string()),
        ("segments", stats.segments.to_string()),
        ("used", format!("{used:.1} % of {} slots", stats.slots)),
        ("record bytes", stats.record_bytes.to_string()),
        ("free bytes", stats.free_bytes.to_string()),
        ("file bytes", stats.bytes.to_string()),
    ] {
        rows.add_row([name.to_owned(), value]);
    }
    writeln!(io::stdout(), "{}", rows.trim_fmt())?;
    Ok(())
}

fn check(args: &FileArgs) -> Result<(), Failure> {
    let store = open(&args.file)?;
    store.check().map_err(|e| Failure::failed(format!("{}: {e}", args.file.display())))?;
    writeln!(io::stdout(), "{} entries found, nothing lost", store.len())?;
    Ok(())
}
