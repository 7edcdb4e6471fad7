//! `fanread probe`: what a read of memory costs here, and how many fit into the time of one.

mod analysis;
mod measure;
mod memory;
mod page;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde::Serialize;

use self::measure::{Nanos, Neighbour, WIDTHS};
use self::memory::{Lines, Pages};
use crate::failure::Failure;
use crate::free::free_bytes;

/// The least array: less fits into some second-level caches.
const LEAST_BYTES: usize = 1 << 20;

/// The largest array that `bench` measures the time of one read with: many times the last cache.
const BENCH_BYTES: usize = 1 << 30;

/// How many reads at once the paper's fit and ours compare over.
const FIT_WIDTH: usize = 16;

/// Arguments of `fanread probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fanread probe                          takes 10 to 20 seconds
  fanread probe --size 4G --html probe.html --json probe.json

Needs no privileges. Free memory of the size given is needed once.")]
pub(crate) struct ProbeArgs {
    /// Size of the array that is read, like 512M or 4G; rounded down to a power of two
    /// [default: 2G, or an eighth of the free memory]
    #[arg(long, value_parser = parse_size)]
    size: Option<usize>,

    /// Writes all figures to FILE as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Writes plots and tables to FILE as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Writes each plot into FOLDER, as a file of its own
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// Everything a probe finds; the JSON is this.
#[derive(Debug, Serialize)]
struct Report {
    cpu: String,
    kernel: String,
    last_cache_bytes: Option<usize>,
    bytes: usize,
    widths: Vec<usize>,
    huge: PagesReport,
    small: PagesReport,
    working_sets: Vec<WorkingSet>,
    batch_width: usize,
}

/// The findings on one size of pages.
#[derive(Debug, Serialize)]
struct PagesReport {
    granted_bytes: usize,
    one_read: Nanos,
    groups: Vec<Nanos>,
    /// `c` of the fit over groups of up to 16, and over all.
    c16: f64,
    c: f64,
    knee: usize,
    /// How many times the reads of one at a time: at the knee, and at most.
    gain: f64,
    gain_at_most: f64,
    /// In the order of [`Neighbour::ALL`].
    neighbours: Vec<Nanos>,
}

#[derive(Debug, Serialize)]
struct WorkingSet {
    bytes: usize,
    nanos: Nanos,
}

pub(crate) fn run(args: &ProbeArgs) -> Result<(), Failure> {
    let bytes = args.size.unwrap_or_else(default_size);
    let bytes = 1 << bytes.max(LEAST_BYTES).ilog2();
    // The kernel would promise the memory and end the program when it is touched.
    if let Some(free) = free_bytes().filter(|&free| free < bytes) {
        let (size, free) = (size_text(bytes), size_text(free));
        return Err(Failure::failed(format!("an array of {size} does not fit, {free} are free")));
    }
    // Before the work, not after it: a path that cannot be written is found at once.
    let mut files = Vec::new();
    for path in [&args.json, &args.html] {
        let open = |path: &PathBuf| {
            fs::File::create(path)
                .map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
        };
        files.push(path.as_ref().map(open).transpose()?);
    }
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).map_err(|e| Failure::unwritten(&e, folder))?;
    }
    let report = probe(bytes)?;
    if let Some(folder) = &args.svg {
        let plots = page::plots(&report).map_err(|e| Failure::failed(format!("no plot: {e}")))?;
        for (name, plot) in plots {
            let file = folder.join(name);
            fs::write(&file, plot).map_err(|e| Failure::unwritten(&e, &file))?;
        }
    }
    // Before the table: who closes the pipe wants these all the same.
    if let Some(file) = &mut files[0] {
        let text = serde_json::to_string_pretty(&report).map_err(io::Error::from)?;
        writeln!(file, "{text}")?;
    }
    if let Some(file) = &mut files[1] {
        let page = page::page(&report);
        let page = page.map_err(|e| Failure::failed(format!("cannot draw the plots: {e}")))?;
        file.write_all(page.as_bytes())?;
    }
    print(&report, &mut io::stdout().lock())?;
    Ok(())
}

/// Returns the time of one read of memory that waits for the one before it, on 2 MB pages where the
/// system grants them, in nanoseconds; `None` if there is no memory for the array.
///
/// Takes a second, most of it for making the array.
pub(crate) fn one_read_ns() -> Option<f64> {
    let bytes = 1 << default_size().clamp(LEAST_BYTES, BENCH_BYTES).ilog2();
    let lines = Lines::new(bytes, Pages::Huge).ok()?;
    Some(measure::one_read(&lines).median)
}

/// Measures; one array lives at a time.
fn probe(bytes: usize) -> Result<Report, Failure> {
    let map = |pages| {
        let size = size_text(bytes);
        Lines::new(bytes, pages).map_err(|e| Failure::failed(format!("cannot map {size}: {e}")))
    };
    let mut lines = map(Pages::Huge)?;
    let working_sets = measure::working_sets(&mut lines);
    let huge = measure_pages(&lines);
    drop(lines);
    let small = measure_pages(&map(Pages::Small)?);
    Ok(Report {
        cpu: cpu(),
        kernel: read("/proc/sys/kernel/osrelease")
            .map_or_else(String::new, |v| format!("Linux {v}")),
        last_cache_bytes: last_cache_bytes(),
        bytes,
        widths: WIDTHS.to_vec(),
        batch_width: huge.knee,
        huge,
        small,
        working_sets: working_sets
            .into_iter()
            .map(|(bytes, nanos)| WorkingSet { bytes, nanos })
            .collect(),
    })
}

fn measure_pages(lines: &Lines) -> PagesReport {
    let one_read = measure::one_read(lines);
    let groups = measure::groups(lines);
    let neighbours = measure::neighbours(lines);
    let medians: Vec<f64> = groups.iter().map(|time| time.median).collect();
    let knee = analysis::knee(&WIDTHS, &medians);
    let gains = WIDTHS.map(|width| analysis::gain(&WIDTHS, &medians, width));
    PagesReport {
        granted_bytes: lines.granted_bytes(),
        one_read,
        c16: analysis::fit(&WIDTHS, &medians, FIT_WIDTH),
        c: analysis::fit(&WIDTHS, &medians, usize::MAX),
        knee,
        gain: analysis::gain(&WIDTHS, &medians, knee),
        gain_at_most: gains.into_iter().fold(1.0, f64::max),
        groups,
        neighbours,
    }
}

/// Says what the figures mean, in a few lines.
fn summary(report: &Report) -> Vec<String> {
    let Report { huge, small, .. } = report;
    let granted = match huge.granted_bytes {
        0 => "2 MB pages were asked for and not granted: the column shows 4 KB pages".to_owned(),
        all if all == report.bytes => "2 MB pages were granted for the whole array".to_owned(),
        part => format!("2 MB pages were granted for {} of it only", size_text(part)),
    };
    let mut lines = vec![
        format!(
            "One read that waits for the one before it: {:.0} ns on 2 MB pages, {:.0} ns on 4 KB \
             pages. {granted}.",
            huge.one_read.median, small.one_read.median
        ),
        format!(
            "K reads at once take T(1) (1 + c (K - 1)): c = {:.3} on 2 MB pages and {:.3} on 4 KB \
             pages for K up to {FIT_WIDTH}, {:.3} and {:.3} for K up to {}.",
            huge.c16,
            small.c16,
            huge.c,
            small.c,
            WIDTHS[WIDTHS.len() - 1]
        ),
        format!(
            "Suggested batch width: {}, the knee: {:.0} times the reads of one at a time, and up to \
             {:.0} times at most (on 4 KB pages: {}, {:.0} times).",
            report.batch_width, huge.gain, huge.gain_at_most, small.knee, small.gain
        ),
    ];
    if let Some(cache) = report.last_cache_bytes.filter(|cache| report.bytes < 4 * cache) {
        lines.push(format!(
            "The array of {} is less than four times the last cache of {}: some reads hit it. \
             Use --size {}.",
            size_text(report.bytes),
            size_text(cache),
            size_text((4 * cache).next_power_of_two())
        ));
    }
    lines
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}, {}, array of {}", report.cpu, report.kernel, size_text(report.bytes))?;
    writeln!(out)?;
    let mut table = table(&[
        "reads at once",
        "2 MB pages",
        "of one",
        "a read",
        "4 KB pages",
        "of one",
        "a read",
    ]);
    for (i, &width) in report.widths.iter().enumerate() {
        let mut row = vec![width.to_string()];
        for pages in [&report.huge, &report.small] {
            let time = pages.groups[i].median;
            row.push(format!("{time:.0} ns"));
            row.push(format!("{:.2}", time / pages.groups[0].median));
            row.push(format!("{:.1} ns", time / width as f64));
        }
        table.add_row(row);
    }
    show(&right(table), out)?;
    let mut table =
        self::table(&["a second read, once a line has come", "2 MB pages", "4 KB pages"]);
    for (i, &neighbour) in Neighbour::ALL.iter().enumerate() {
        let times = [&report.huge, &report.small].map(|pages| pages.neighbours[i].median);
        let times = times.map(|time| format!("{time:.0} ns"));
        table.add_row([neighbour_text(neighbour), &times[0], &times[1]]);
    }
    show(&right(table), out)?;
    let mut table = self::table(&["working set", "one read, 2 MB pages"]);
    for set in &report.working_sets {
        table.add_row([size_text(set.bytes), format!("{:.1} ns", set.nanos.median)]);
    }
    show(&right(table), out)?;
    for line in summary(report) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    table
}

fn right(mut table: Table) -> Table {
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table
}

fn show(table: &Table, out: &mut impl Write) -> io::Result<()> {
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

fn neighbour_text(neighbour: Neighbour) -> &'static str {
    match neighbour {
        Neighbour::Same => "the same line",
        Neighbour::Complement => "the other line of its 128 bytes",
        Neighbour::OtherSide => "the line on its other side",
        Neighbour::Anywhere => "a line anywhere",
    }
}

/// Writes a size with its largest whole unit.
fn size_text(bytes: usize) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let unit = units.iter().find(|unit| bytes >= unit.0);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| match bytes % unit {
            0 => format!("{} {name}", bytes / unit),
            _ => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        },
    )
}

fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(['B', 'b', 'i']);
    let (digits, shift) = match digits.char_indices().last() {
        Some((at, 'K' | 'k')) => (&digits[..at], 10),
        Some((at, 'M' | 'm')) => (&digits[..at], 20),
        Some((at, 'G' | 'g')) => (&digits[..at], 30),
        _ => (digits, 0),
    };
    let size = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    let size = size.ok_or("a size is a number with K, M or G behind it, like 512M")?;
    // The address space ends somewhere below 2^47; what is free, the kernel says.
    if (LEAST_BYTES..1 << 46).contains(&size) {
        Ok(size)
    } else {
        Err(format!("the size must be from {} to 64 TB", size_text(LEAST_BYTES)))
    }
}

fn default_size() -> usize {
    free_bytes().map_or(1 << 30, |bytes| (bytes >> 3).min(2 << 30))
}

fn cpu() -> String {
    let text = read("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':'])).to_owned()
}

fn last_cache_bytes() -> Option<usize> {
    let sizes =
        (0..8).filter_map(|i| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{i}/size")));
    sizes.filter_map(|size| size.strip_suffix('K')?.parse::<usize>().ok()).max().map(|kb| kb << 10)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for bytes in [1 << 20, 512 << 20, 3 << 30] {
            let text = size_text(bytes).replace(' ', "");
            assert_eq!(parse_size(&text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("1024KiB"), Ok(1 << 20));
        for wrong in ["", "G", "-1G", "1.5G", "10", "99999999999G", "1X", "80000G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
