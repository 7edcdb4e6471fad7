//! One page with everything: plots, tables, the machine. It loads nothing from elsewhere.

use std::fmt::Write;

use crate::bench::machine::Machine;
use crate::report::plot::{self, Row};
use crate::report::record::Record;
use crate::report::table::{
    STALLS, STALLS_MEAN, disturbance, groups, grown, headings, round_trips_mean, short_count,
    stalls_of, troubles,
};

const STYLE: &str = include_str!("page.css");

/// Returns the page.
pub(crate) fn render(records: &[Record], machine: &Machine) -> String {
    let runs = records.iter().map(|r| r.runs).max().unwrap_or(1);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>fanread bench</title>\n<style>\n{STYLE}</style></head><body>\n\
         <header><h1>fanread bench</h1><p>Maps side by side. Rates are medians of {runs} \
         interleaved run(s); every answer was checked.</p></header>\n<main>\n"
    );
    let _ = write!(page, "<section><h2>Machine</h2><dl class=\"facts\">");
    for (name, value) in machine.facts() {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    page += "</dl>";
    if let Some(line) = disturbance(records) {
        let _ = write!(page, "<p class=\"warning\">{line}</p>");
    }
    page += "</section>\n";
    throughput(&mut page, records);
    round_trips(&mut page, records);
    memory(&mut page, records);
    latency(&mut page, records);
    stalls(&mut page, records);
    growth(&mut page, records);
    tables(&mut page, records);
    page += "</main></body></html>\n";
    page
}

/// A key set, a number of keys, a number of threads: one series of a plot.
type Series = (String, usize, usize);

fn series_of(record: &Record) -> Series {
    (record.keys.clone(), record.count, record.threads)
}

/// Returns what `pick` gives for each record, once each, in the order met.
fn distinct<'a, T: PartialEq>(
    records: impl IntoIterator<Item = &'a Record>,
    pick: impl Fn(&Record) -> T,
) -> Vec<T> {
    let mut all = Vec::new();
    for record in records {
        let one = pick(record);
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// Returns the series of the plots that compare maps: of several counts only the largest.
fn compared(records: &[Record]) -> Vec<Series> {
    let largest =
        |keys: &str| records.iter().filter(|r| r.keys == keys).map(|r| r.count).max().unwrap_or(0);
    distinct(records.iter().filter(|r| r.count == largest(&r.keys)), series_of)
}

fn name_of((keys, count, threads): &Series, all: &[Series]) -> String {
    let mut name = format!("{keys}, {}", short_count(*count));
    if all.iter().any(|(.., other)| other != threads) {
        let _ = write!(name, ", {threads} thread{}", if *threads == 1 { "" } else { "s" });
    }
    name
}

/// Collects a figure for every map and series.
fn rows<'a, T>(
    records: &(impl Iterator<Item = &'a Record> + Clone),
    series: &[Series],
    figure: impl Fn(&Record) -> Option<T>,
) -> Vec<Row<T>> {
    let indexes = distinct(records.clone(), |r| (r.index.clone(), r.ours));
    let row = |(name, ours): (String, bool)| {
        let find = |wanted: &Series| {
            let mut own = records.clone().filter(|r| r.index == name && series_of(r) == *wanted);
            own.find_map(&figure)
        };
        Row { values: series.iter().map(find).collect(), name: name.clone(), ours }
    };
    let all = indexes.into_iter().map(row);
    all.filter(|row: &Row<T>| row.values.iter().any(Option::is_some)).collect()
}

fn legend(page: &mut String, series: &[Series]) {
    *page += "<p class=\"legend\">";
    for (i, one) in series.iter().enumerate() {
        let plotters::style::RGBColor(r, g, b) = plot::color(i);
        let name = escape(&name_of(one, series));
        let _ = write!(page, "<span><i style=\"background:rgb({r},{g},{b})\"></i>{name}</span>");
    }
    *page += "</p>\n";
}

fn figure(page: &mut String, caption: &str, svg: &str) {
    let caption = escape(caption);
    let _ = writeln!(page, "<figure><figcaption>{caption}</figcaption>{svg}</figure>");
}

/// Returns the plots of rates, over maps and over numbers of keys, each with the name of its file.
pub(crate) fn plots(records: &[Record]) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    let mut add = |what: [&str; 3], svg: &str| {
        let words = what.join("-").to_lowercase();
        let is_word = |c: char| c.is_ascii_alphanumeric();
        let name = words.split(|c| !is_word(c)).filter(|w| !w.is_empty()).collect::<Vec<_>>();
        plots.push((name.join("-") + ".svg", plot::alone(svg)));
    };
    for heading in headings(records) {
        let own = records.iter().filter(|r| r.heading() == heading);
        let all = compared(records);
        for series in all.clone() {
            let name = name_of(&series, &all);
            let rows = rows(&own, &[series], |r| r.mops);
            if !rows.is_empty() {
                add(["", &heading, &name], &plot::bars(&rows, "M operations/s"));
            }
        }
    }
    for (keys, heading, rows, counts) in grown_rates(records) {
        add(["growth", &heading, &keys], &plot::curves(&rows, &counts, "M operations/s"));
    }
    plots
}

fn throughput(page: &mut String, records: &[Record]) {
    let series = compared(records);
    *page += "<section><h2>Throughput</h2><p>Millions of operations a second, all threads \
              together; longer is better. <b>dep.</b>: each query waits for the answer before. \
              A scan visits 100 entries. A bar is cut off where it \
              is more than three times as long as all others.</p>\n";
    legend(page, &series);
    *page += "<div class=\"plots\">\n";
    for heading in headings(records) {
        let own = records.iter().filter(|r| r.heading() == heading);
        let rows = rows(&own, &series, |r| r.mops);
        if !rows.is_empty() {
            figure(page, &heading, &plot::bars(&rows, "M operations/s"));
        }
    }
    *page += "</div></section>\n";
}

/// Draws how many round trips to memory dependent lookups take, if that is known.
fn round_trips(page: &mut String, records: &[Record]) {
    let Some(read_ns) = records.iter().find_map(|r| r.read_ns) else { return };
    let series = compared(records);
    let mean = round_trips_mean(read_ns);
    let _ = writeln!(page, "<section><h2>Round trips</h2><p>{mean} Shorter is better.</p>");
    legend(page, &series);
    *page += "<div class=\"plots\">\n";
    for heading in headings(records) {
        let own = records.iter().filter(|r| r.heading() == heading);
        let rows = rows(&own, &series, |r| r.round_trips);
        if !rows.is_empty() {
            figure(page, &heading, &plot::bars(&rows, "round trips to memory"));
        }
    }
    *page += "</div></section>\n";
}

fn memory(page: &mut String, records: &[Record]) {
    let series: Vec<Series> = compared(records);
    let rows = rows(&records.iter(), &series, |r| r.overhead_bytes_per_key);
    if rows.is_empty() {
        return;
    }
    *page += "<section><h2>Memory</h2><p>Resident growth of the process while the map is loaded, \
              less the bytes of the keys and of 8-byte values; shorter is better.</p>\n";
    legend(page, &series);
    *page += "<div class=\"plots\">\n";
    figure(page, "bytes for each key", &plot::bars(&rows, "bytes per key beyond key and value"));
    *page += "</div></section>\n";
}

fn latency(page: &mut String, records: &[Record]) {
    let series = compared(records);
    let percentiles = |r: &Record| Some([r.p50_ns?, r.p99_ns?, r.p999_ns?, r.max_ns?]);
    let timed: Vec<_> = headings(records)
        .into_iter()
        .map(|heading| {
            let own = records.iter().filter(|r| r.heading() == heading);
            (rows(&own, &series, percentiles), heading)
        })
        .filter(|(rows, _)| !rows.is_empty())
        .collect();
    if timed.is_empty() {
        return;
    }
    *page += "<section><h2>Latency</h2><p>Time of single calls, picked at regular distances (of \
              grow and grow-get, all): a disc is the median, a ring the 99th percentile, a triangle \
              the 99.9th, a cross the longest. A call of the batch workload answers the whole \
              batch.</p>\n";
    legend(page, &series);
    *page += "<div class=\"plots\">\n";
    for (rows, heading) in timed {
        figure(page, &heading, &plot::ranges(&rows));
    }
    *page += "</div></section>\n";
}

/// Writes the latencies of maps that grew under readers as a table.
fn stalls(page: &mut String, records: &[Record]) {
    let records = grown(records);
    if records.is_empty() {
        return;
    }
    let _ = writeln!(page, "<section><h2>Stalls</h2><p>{}</p>", escape(STALLS_MEAN));
    *page += "<div class=\"wide\"><table><thead><tr><th>index</th><th>workload</th><th>keys</th>\
              <th>threads</th>";
    for heading in STALLS {
        let _ = write!(page, "<th>{heading}</th>");
    }
    *page += "</tr></thead><tbody>\n";
    for r in records {
        let class = if r.ours { " class=\"ours\"" } else { "" };
        let (index, keys) = (escape(&r.index), escape(&r.keys));
        let (workload, count, threads) = (r.heading(), short_count(r.count), r.threads);
        let _ = write!(
            page,
            "<tr{class}><th>{index}</th><td>{workload}</td><td>{keys}, {count}</td><td>{threads}</td>"
        );
        for cell in stalls_of(r) {
            let _ = write!(page, "<td>{cell}</td>");
        }
        *page += "</tr>\n";
    }
    *page += "</tbody></table></div></section>\n";
}

/// A key set, a workload, the rates of each map, and with how many keys.
type Growth = (String, String, Vec<Row<f64>>, Vec<usize>);

/// Collects, for each key set and workload that were measured with several numbers of keys, the rates and those numbers.
fn grown_rates(records: &[Record]) -> Vec<Growth> {
    let mut all = Vec::new();
    for (keys, threads) in distinct(records, |r| (r.keys.clone(), r.threads)) {
        let own = || records.iter().filter(|r| r.keys == keys && r.threads == threads);
        let mut counts = distinct(own(), |r| r.count);
        counts.sort_unstable();
        if counts.len() < 2 {
            continue;
        }
        let series: Vec<Series> = counts.iter().map(|n| (keys.clone(), *n, threads)).collect();
        for heading in headings(records) {
            let rows = rows(&own().filter(|r| r.heading() == heading), &series, |r| r.mops);
            if !rows.is_empty() {
                let threads =
                    if threads == 1 { String::new() } else { format!(", {threads} threads") };
                all.push((keys.clone() + &threads, heading, rows, counts.clone()));
            }
        }
    }
    all
}

fn growth(page: &mut String, records: &[Record]) {
    let mut plots = String::new();
    for (keys, heading, rows, counts) in grown_rates(records) {
        let caption = format!("{keys}: {heading}");
        figure(&mut plots, &caption, &plot::curves(&rows, &counts, "M operations/s"));
    }
    if !plots.is_empty() {
        *page += "<section><h2>Growth</h2><p>Throughput as the number of keys grows; both axes are \
                  logarithmic.</p>\n\
                  <div class=\"plots\">\n";
        *page += &plots;
        *page += "</div></section>\n";
    }
}

fn tables(page: &mut String, records: &[Record]) {
    *page += "<section><h2>Figures</h2><p>Millions of operations a second; below, how many times \
              the rate of std's BTreeMap in the same run, and the range over the runs where there \
              were several.</p>\n";
    for series in distinct(records, series_of) {
        let (keys, count, threads) = &series;
        let own: Vec<_> = records.iter().filter(|r| series_of(r) == series).cloned().collect();
        let headings = headings(&own);
        let _ = write!(
            page,
            "<h3>{}, {count} keys, {threads} thread(s)</h3>\n<div class=\"wide\"><table><thead>\
             <tr><th>index</th><th>bytes/key</th>",
            escape(keys)
        );
        for heading in &headings {
            let _ = write!(page, "<th>{}</th>", escape(heading));
        }
        *page += "</tr></thead><tbody>\n";
        for group in groups(&own) {
            let r = group[0];
            let class = if r.ours { " class=\"ours\"" } else { "" };
            let bytes = r.overhead_bytes_per_key.map_or("-".into(), |bytes| format!("{bytes:.1}"));
            let _ = write!(page, "<tr{class}><th>{}</th><td>{bytes}</td>", escape(&r.index));
            for heading in &headings {
                let record = group.iter().find(|r| r.heading() == *heading);
                let _ = write!(page, "<td>{}</td>", record.map_or("-".into(), |r| cell(r)));
            }
            *page += "</tr>\n";
        }
        *page += "</tbody></table></div>\n";
    }
    let troubles = troubles(records);
    if !troubles.is_empty() {
        *page += "<h3>Not measured</h3><ul>\n";
        for line in troubles {
            let _ = writeln!(page, "<li>{}</li>", escape(&line));
        }
        *page += "</ul>\n";
    }
    *page += "</section>\n";
}

fn cell(record: &Record) -> String {
    let Some(mops) = record.mops else { return "-".into() };
    let mut cell = format!("{mops:.2}");
    if let Some(ratio) = record.vs_btreemap {
        let _ = write!(cell, "<small>{ratio:.2}x</small>");
    }
    if let (Some(low), Some(high)) = (record.mops_min, record.mops_max)
        && record.runs > 1
    {
        let _ = write!(cell, "<small>{low:.2} to {high:.2}</small>");
    }
    cell
}

/// Writes text so that HTML does not take it for markup.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
