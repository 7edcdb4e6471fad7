//! The HTML page of a probe: one file, three plots, every figure in a table.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::measure::Neighbour;
use super::{PagesReport, Report, size_text};

type PlotError = DrawingAreaErrorKind<std::io::Error>;

const HUGE: RGBColor = RGBColor(0, 95, 115);
const SMALL: RGBColor = RGBColor(202, 103, 2);
const GRID: RGBColor = RGBColor(225, 225, 225);
const FIT: RGBColor = RGBColor(120, 120, 120);
const SIZE: (u32, u32) = (860, 380);

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;\
    padding:0 1em;color:#222}h1{font-size:1.6em}h2{font-size:1.15em;margin-top:2em}\
    table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .9em;text-align:right;\
    border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}\
    svg{max-width:100%;height:auto}.key{font-size:1.1em}p.note{color:#555}";

/// Returns the page.
///
/// # Errors
///
/// If a plot cannot be drawn, which only a range without figures can cause.
pub(super) fn page(report: &Report) -> Result<String, PlotError> {
    let mut page = String::new();
    let mut text = String::new();
    for line in super::summary(report) {
        let _ = writeln!(text, "<p class=\"key\">{}</p>", escape(&line));
    }
    let facts = [&report.cpu, &report.kernel].map(|fact| escape(fact)).join(" &middot; ");
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>fanread probe</title><style>{STYLE}</style></head><body>\n\
         <h1>Memory of this machine</h1>\n<p class=\"note\">{facts} &middot; array of {}</p>\n{text}\
         <h2>Time of K reads that do not depend on each other</h2>\n{}\
         <p class=\"note\">In units of one read. The nearer a curve stays to 1, the more a search \
         gains from asking for its lines together. Dotted: the fit for up to 16 reads.</p>\n\
         <h2>Time a read, in groups of K</h2>\n{}\
         <h2>Time of one read, by working set</h2>\n{}\
         <p class=\"note\">Each read waits for the one before it. The steps are the caches.</p>\n\
         {}</body></html>\n",
        size_text(report.bytes),
        plot(|area| relative(area, report))?,
        plot(|area| each(area, report))?,
        plot(|area| sets(area, report))?,
        tables(report),
    );
    Ok(page)
}

/// Returns the plots, each with the name of its file.
///
/// # Errors
///
/// As [`page`].
pub(super) fn plots(report: &Report) -> Result<[(&'static str, String); 3], PlotError> {
    Ok([
        ("probe.svg", plot(|area| each(area, report))?),
        ("probe-relative.svg", plot(|area| relative(area, report))?),
        ("probe-working-sets.svg", plot(|area| sets(area, report))?),
    ])
}

fn plot(
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
}

/// Both kinds of pages with their colours.
fn kinds(report: &Report) -> [(&PagesReport, RGBColor, &'static str); 2] {
    [(&report.huge, HUGE, "2 MB pages"), (&report.small, SMALL, "4 KB pages")]
}

/// Draws curves over the number of reads, and a fit for each where one is given.
fn curves(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    report: &Report,
    what: &str,
    of: impl Fn(&PagesReport, usize) -> f64,
    fitted: bool,
    key: SeriesLabelPosition,
) -> Result<(), PlotError> {
    let widest = *report.widths.last().unwrap_or(&1) as f64;
    let count = report.widths.len();
    let top = kinds(report).iter().flat_map(|k| (0..count).map(|i| of(k.0, i))).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..widest + 1.0, 0.0..top * 1.08)?;
    let number = |x: &f64| format!("{x:.0}");
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .x_desc("reads at once (K)")
        .y_desc(what)
        .x_labels(9)
        .x_label_formatter(&number)
        .y_label_formatter(&|y: &f64| if top < 10.0 { format!("{y:.1}") } else { number(y) })
        .draw()?;
    for (pages, colour, name) in kinds(report) {
        let points = report.widths.iter().enumerate().map(|(i, &k)| (k as f64, of(pages, i)));
        let points: Vec<_> = points.collect();
        let line = LineSeries::new(points.clone(), colour.stroke_width(2));
        chart
            .draw_series(line)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
        if fitted {
            let ends = [1.0, widest].map(|k| (k, 1.0 + pages.c16 * (k - 1.0)));
            chart.draw_series(DashedLineSeries::new(ends, 2, 5, FIT.stroke_width(1)))?;
        }
    }
    chart
        .configure_series_labels()
        .position(key)
        .label_font(("sans-serif", 15))
        .background_style(WHITE.mix(0.9))
        .border_style(RGBColor(210, 210, 210))
        .draw()
}

fn relative(area: &DrawingArea<SVGBackend<'_>, Shift>, report: &Report) -> Result<(), PlotError> {
    let of = |pages: &PagesReport, i: usize| pages.groups[i].median / pages.groups[0].median;
    curves(area, report, "time, in single reads", of, true, SeriesLabelPosition::UpperLeft)
}

fn each(area: &DrawingArea<SVGBackend<'_>, Shift>, report: &Report) -> Result<(), PlotError> {
    let of = |pages: &PagesReport, i: usize| pages.groups[i].median / report.widths[i] as f64;
    curves(area, report, "ns a read", of, false, SeriesLabelPosition::UpperRight)
}

fn sets(area: &DrawingArea<SVGBackend<'_>, Shift>, report: &Report) -> Result<(), PlotError> {
    let points: Vec<(f64, f64)> =
        report.working_sets.iter().map(|set| (set.bytes as f64, set.nanos.median)).collect();
    let top = points.iter().map(|point| point.1).fold(1.0, f64::max) * 1.1;
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    // Powers of two on the axis: bytes are counted so.
    let bits = first.log2()..last.log2().max(first.log2() + 1.0);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(bits, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .x_desc("working set")
        .y_desc("ns a read, 2 MB pages")
        .x_labels(10)
        .x_label_formatter(&|bits: &f64| size_text(bits.exp2().round() as usize))
        .y_label_formatter(&|y: &f64| format!("{y:.0}"))
        .draw()?;
    let points: Vec<_> = points.iter().map(|&(bytes, nanos)| (bytes.log2(), nanos)).collect();
    chart.draw_series(LineSeries::new(points.clone(), HUGE.stroke_width(2)))?;
    chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, HUGE.filled())))?;
    Ok(())
}

fn tables(report: &Report) -> String {
    let mut text = String::from(
        "<h2>Figures</h2>\n<table><tr><th>reads at once</th><th>2 MB pages, ns</th>\
         <th>in single reads</th><th>ns a read</th><th>4 KB pages, ns</th>\
         <th>in single reads</th><th>ns a read</th></tr>\n",
    );
    for (i, &width) in report.widths.iter().enumerate() {
        let _ = write!(text, "<tr><td>{width}</td>");
        for (pages, ..) in kinds(report) {
            let time = pages.groups[i].median;
            let (of_one, each) = (time / pages.groups[0].median, time / width as f64);
            let _ = write!(text, "<td>{time:.0}</td><td>{of_one:.2}</td><td>{each:.1}</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str(
        "</table>\n<table><tr><th>a second read, once a line has come</th><th>ns</th></tr>\n",
    );
    for (neighbour, time) in Neighbour::ALL.iter().zip(&report.huge.neighbours) {
        let name = super::neighbour_text(*neighbour);
        let _ = writeln!(text, "<tr><td>{name}</td><td>{:.0}</td></tr>", time.median);
    }
    text.push_str("</table>\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
