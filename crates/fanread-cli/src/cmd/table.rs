//! `fanread table`: writes cuckoo table files and answers questions from them.

mod bar;
pub(super) mod input;
pub(super) mod text;

use std::ffi::OsString;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use comfy_table::{Table, presets::NOTHING};
use fanread::table::{Broken, BuildError, CuckooTable, TableBuilder, TableError, TableOptions};

use self::input::{Columns, From, each_entry};
use self::text::Form;
use crate::failure::Failure;

/// How many keys from standard input are looked up together.
const BATCH: usize = 256;

/// Arguments of `fanread table`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Table files are those of RocksDB's cuckoo format: keys of one length, values of
one length, found in one or two memory accesses. Exit status: 0 done, 1 not
found or damaged, 2 misuse.

Examples:
  fanread table build prices.tsv prices.sst
  fanread table get prices.sst apple
  fanread table scan prices.sst --from a --to b
  fanread table stat prices.sst
  fanread table check prices.sst")]
pub(crate) struct TableArgs {
    #[command(subcommand)]
    verb: Verb,
}

/// What to do with a table file.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Writes a table file from lines or records; takes the place of a regular file that is there
    Build(Box<BuildArgs>),
    /// Looks keys up, and prints those that are there with their values
    Get(GetArgs),
    /// Prints entries in the order of their keys
    Scan(ScanArgs),
    /// Prints what a file says about itself
    Stat(StatArgs),
    /// Verifies checksums, and that every entry is found
    Check(CheckArgs),
}

/// How keys and values are written.
#[derive(Debug, clap::Args)]
pub(super) struct Texts {
    /// How keys are written; numbers are big-endian in the file unless it says le
    #[arg(long, value_name = "TYPE", default_value = "text")]
    pub(super) keys: Form,

    /// How values are written
    #[arg(long, value_name = "TYPE", default_value = "text")]
    pub(super) values: Form,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
#[command(after_help = "\
All keys have the length of the first one, and all values that of the first
one; they may come in any order, and be more than fit in memory. The file
appears when it is complete.

Examples:
  fanread table build words.tsv words.sst
  fanread table build --keys u64 --values u32 ids.csv ids.sst
  fanread table build --from records --key-bytes 8 --value-bytes 4 ids.bin ids.sst
  jq -c '{key: .id, value: .score}' scores.json |
    fanread table build --from ndjson --keys u64 --values u32 - scores.sst")]
struct BuildArgs {
    /// Entries to read; - for standard input
    input: PathBuf,

    /// Table file to write
    output: PathBuf,

    /// What the input is [default: what its name ends in, or tsv]
    #[arg(long, value_name = "FORMAT")]
    from: Option<From>,

    #[command(flatten)]
    texts: Texts,

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

    /// How full the table may be; less is faster to search, and larger
    #[arg(long, value_name = "R", default_value_t = 0.9)]
    ratio: f64,

    /// How many entries may move to make room for one
    #[arg(long, value_name = "N", default_value_t = 100)]
    depth: u32,

    /// How many buckets are searched for each hash function
    #[arg(long, value_name = "N", default_value_t = 5)]
    block: u32,

    /// Takes the first eight bytes of a key as its first hash; for random keys only
    #[arg(long)]
    identity: bool,

    /// Rounds the number of buckets up to a power of two
    #[arg(long)]
    power_of_two: bool,

    /// Puts more keys into their first block than RocksDB's own builder does
    #[arg(long)]
    first_blocks: bool,

    /// Leaves out the checksums, which only this program reads
    #[arg(long)]
    no_checksums: bool,

    /// How much of the entries is kept in memory; more goes to a temporary file beside the output
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_bytes)]
    memory: usize,

    /// Allows 4 GiB and more, where RocksDB answers point lookups only
    #[arg(long)]
    point_lookups_only: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread table get words.sst apple pear
  fanread table get --keys u64 --values u32 ids.sst 4711
  cut -f 1 wanted.tsv | fanread table get words.sst

What is found is printed as lines of key, TAB and value. Without KEY, keys are
read from standard input, one a line, and \"(none)\" is printed for those that
are not there.")]
struct GetArgs {
    /// Table file
    file: PathBuf,

    #[command(flatten)]
    texts: Texts,

    /// Keys to look up
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    wanted: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread table scan words.sst --from b --to d
  fanread table scan words.sst --prefix un --limit 10
  fanread table scan --keys u64 --values u32 ids.sst --reverse --limit 1

The table is sorted first, which takes a second for some million entries.")]
struct ScanArgs {
    /// Table file
    file: PathBuf,

    #[command(flatten)]
    texts: Texts,

    /// Where to begin
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,

    /// Where to end; this key is left out
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,

    /// Prints keys that begin with these bytes only
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    prefix: Option<OsString>,

    /// Begins at the end
    #[arg(long)]
    reverse: bool,

    /// Prints so many entries at most
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread table stat words.sst
  fanread table stat words.sst --properties")]
struct StatArgs {
    /// Table file
    file: PathBuf,

    /// Prints all properties of the file too
    #[arg(long)]
    properties: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread table check words.sst
  fanread table check words.sst && mv words.sst /srv/tables/")]
struct CheckArgs {
    /// Table file
    file: PathBuf,
}

pub(crate) fn run(args: &TableArgs) -> Result<(), Failure> {
    match &args.verb {
        Verb::Build(args) => build(args),
        Verb::Get(args) => get(args),
        Verb::Scan(args) => scan(args),
        Verb::Stat(args) => stat(args),
        Verb::Check(args) => check(args),
    }
}

fn build(args: &BuildArgs) -> Result<(), Failure> {
    let folder = args.output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let options = TableOptions::new()
        .hash_ratio(args.ratio)
        .search_depth(args.depth)
        .block_buckets(args.block)
        .identity_first(args.identity)
        .power_of_two(args.power_of_two)
        .first_blocks(args.first_blocks)
        .checksums(!args.no_checksums)
        .point_lookups_only(args.point_lookups_only)
        .memory_limit(args.memory)
        .spill_folder(folder);
    if args.ratio.is_nan() || args.ratio <= 0.0 {
        return Err(Failure::misuse(format!("a ratio of {} is not above 0", args.ratio)));
    }
    let started = Instant::now();
    let mut builder = TableBuilder::new(options);
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
    let unspilled = |e: &io::Error| {
        Failure::failed(format!("cannot write a temporary file in {}: {e}", folder.display()))
    };
    let mut full = None;
    let read = each_entry(&args.input, &columns, |key, value| {
        builder.insert(key, value).map_err(|e| {
            let why = e.to_string();
            // Not the fault of the line at which it happens.
            if let BuildError::Spill(cause) = e {
                full = Some(unspilled(&cause));
            }
            why
        })
    });
    if let Some(full) = full {
        return Err(full);
    }
    read?;
    let bar = bar::steps();
    builder.on_progress({
        let bar = bar.clone();
        move |step, done, all| bar::show(&bar, step, done, all)
    });
    let written = builder.finish_file(&args.output);
    bar.finish_and_clear();
    let written = written.map_err(|e| match e {
        BuildError::Io(e) => Failure::unwritten(&e, &args.output),
        BuildError::Spill(e) => unspilled(&e),
        e => Failure::failed(format!("cannot build {}: {e}", args.output.display())),
    })?;
    writeln!(
        io::stdout(),
        "{} entries in {} buckets ({:.1} %), {} hash functions, {} bytes, {:.1} s",
        written.entries,
        written.buckets,
        percent(written.entries, written.buckets),
        written.hashes,
        written.file_bytes,
        started.elapsed().as_secs_f64()
    )?;
    Ok(())
}

/// Understands a number of bytes, like `512M`.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: usize = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        unit => return Err(format!("{unit} is none of k, M, G and T")),
    };
    let number: usize = digits.parse().map_err(|_| format!("{digits:?} is no number of bytes"))?;
    number.checked_mul(unit).ok_or_else(|| format!("{text} is more than there can be"))
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

/// Opens a table. A file that is not there, or not for this user, is misuse; one that is no table has failed, and so has the system
/// where it could have read it.
fn open(file: &Path) -> Result<CuckooTable, Failure> {
    CuckooTable::open(file).map_err(|e| match e {
        TableError::Io(e) => Failure::unread(&e, file.display()),
        e => Failure::failed(format!("{}: {e}", file.display())),
    })
}

fn get(args: &GetArgs) -> Result<(), Failure> {
    let table = open(&args.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let (asked, missed) = if args.wanted.is_empty() {
        get_lines(&table, &args.texts, &mut out)?
    } else {
        let mut missed = 0;
        for wanted in &args.wanted {
            let key = args.texts.keys.parse(wanted.as_encoded_bytes()).map_err(Failure::misuse)?;
            match table.get(&key) {
                Some(value) => args.texts.write_entry(&mut out, &key, value)?,
                None => missed += 1,
            }
        }
        (args.wanted.len(), missed)
    };
    out.flush()?;
    match missed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{missed} of {asked} keys not found"))),
    }
}

/// Looks up the keys on standard input; returns how many there were, and how many were not found.
fn get_lines(
    table: &CuckooTable,
    texts: &Texts,
    out: &mut impl Write,
) -> Result<(usize, usize), Failure> {
    let (mut asked, mut missed) = (0, 0);
    let mut lines = io::stdin().lock().split(b'\n');
    loop {
        let mut keys = Vec::with_capacity(BATCH);
        for line in lines.by_ref().take(BATCH) {
            let line = line.map_err(|e| Failure::unread(&e, "standard input"))?;
            let key = texts.keys.parse(line.strip_suffix(b"\r").unwrap_or(&line));
            let number = asked + keys.len() + 1;
            keys.push(key.map_err(|e| Failure::misuse(format!("line {number}: {e}")))?);
        }
        if keys.is_empty() {
            return Ok((asked, missed));
        }
        let mut found = vec![None; keys.len()];
        table.get_batch(&keys, &mut found);
        for (key, value) in keys.iter().zip(found) {
            if let Some(value) = value {
                texts.write_entry(out, key, value)?;
            } else {
                missed += 1;
                writeln!(out, "(none)")?;
            }
        }
        asked += keys.len();
    }
}

impl Texts {
    pub(super) fn write_entry(
        &self,
        out: &mut impl Write,
        key: &[u8],
        value: &[u8],
    ) -> io::Result<()> {
        self.keys.write(out, key)?;
        out.write_all(b"\t")?;
        self.values.write(out, value)?;
        out.write_all(b"\n")
    }
}

fn scan(args: &ScanArgs) -> Result<(), Failure> {
    let bound = |text: &Option<OsString>| {
        let parse = |text: &OsString| args.texts.keys.parse(text.as_encoded_bytes());
        text.as_ref().map(parse).transpose().map_err(Failure::misuse)
    };
    let (from, to, prefix) = (bound(&args.from)?, bound(&args.to)?, bound(&args.prefix)?);
    let table = open(&args.file)?;
    let prefix = prefix.unwrap_or_default();
    let start = from.unwrap_or_default().max(prefix.clone());
    let above = |key: &&[u8]| to.as_ref().is_none_or(|to| **key < to[..]);
    let mut out = BufWriter::new(io::stdout().lock());
    let limit = args.limit.unwrap_or(usize::MAX);
    // The end of the keys with a prefix is where the first one without it begins.
    let mut range = table.range(&start[..]..);
    let mut written = 0;
    if args.reverse {
        for (key, value) in range.rev() {
            if written == limit {
                break;
            }
            if above(&key) && key.starts_with(&prefix) {
                args.texts.write_entry(&mut out, key, value)?;
                written += 1;
            }
        }
    } else {
        while let Some((key, value)) = range.next().filter(|(key, _)| above(key)) {
            if written == limit || !key.starts_with(&prefix) {
                break;
            }
            args.texts.write_entry(&mut out, key, value)?;
            written += 1;
        }
    }
    out.flush()?;
    Ok(())
}

fn stat(args: &StatArgs) -> Result<(), Failure> {
    let table = open(&args.file)?;
    let stats = table.stats();
    let by_block = table.entries_by_block();
    let mut rows = Table::new();
    rows.load_style(NOTHING);
    let mut row = |name: &str, value: String| {
        rows.add_row([name.to_owned(), value]);
    };
    row("entries", stats.entries.to_string());
    if let Some(deletions) = stats.deletions.filter(|_| stats.sequences) {
        row("deletions", deletions.to_string());
    }
    row("key bytes", stats.key_bytes.to_string());
    row("value bytes", stats.value_bytes.to_string());
    row("sequences", yes(stats.sequences).to_owned());
    row("buckets", stats.buckets.to_string());
    row("used", format!("{:.1} %", percent(stats.entries, stats.buckets)));
    row("block", format!("{} buckets", stats.block_buckets));
    row("hash functions", stats.hashes.to_string());
    row("power of two", yes(stats.power_of_two).to_owned());
    row("identity first", yes(stats.identity_first).to_owned());
    for (number, count) in (1..).zip(&by_block) {
        let share = percent(*count, stats.entries);
        row(&format!("in block {number}"), format!("{share:.1} % of the entries"));
    }
    row("file bytes", stats.file_bytes.to_string());
    if args.properties {
        for (name, value) in table.properties() {
            row(&name.escape_ascii().to_string(), value.escape_ascii().to_string());
        }
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", rows.trim_fmt())?;
    Ok(())
}

fn yes(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let file = args.file.display();
    let table = open(&args.file)?;
    let damaged = |e: &dyn std::error::Error| match e.source() {
        Some(cause) => Failure::failed(format!("{file}: {e}: {cause}")),
        None => Failure::failed(format!("{file}: {e}")),
    };
    table.check().map_err(|broken: Broken| damaged(&broken))?;
    let summed = table.verify().map_err(|e| damaged(&e))?;
    let sums = if summed { "checksums right" } else { "no checksums" };
    writeln!(io::stdout(), "{} entries found, {sums}", table.len())?;
    Ok(())
}
