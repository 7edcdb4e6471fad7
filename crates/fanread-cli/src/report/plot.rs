//! Plots as SVG text: bars, latency ranges, curves.
//!
//! The colours of text and grid are marks that the page's style sheet replaces, so that a plot
//! can be read on a light and on a dark background. The background stays transparent.

use std::fmt::Debug;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Colours the style sheet of the page replaces.
pub(crate) const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
pub(crate) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// Colours of series, told apart also by people who see few colours; readable on both grounds.
pub(crate) const SERIES: [RGBColor; 8] = [
    RGBColor(0x2f, 0x7f, 0xc1),
    RGBColor(0xe0, 0x7b, 0x1a),
    RGBColor(0x1f, 0x9e, 0x77),
    RGBColor(0xc4, 0x5a, 0x9c),
    RGBColor(0x8a, 0x6f, 0xd1),
    RGBColor(0xb8, 0x9b, 0x16),
    RGBColor(0x4f, 0xb3, 0xc8),
    RGBColor(0x8c, 0x8c, 0x8c),
];

const WIDTH: u32 = 560;
const LABELS: u32 = 138;
/// Distance of names beside curves, in pixels.
const LINE_HEIGHT: i32 = 14;
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One map in a plot: its name, whether it stands out, a figure for each series.
#[derive(Debug, Clone)]
pub(crate) struct Row<T> {
    pub(crate) name: String,
    pub(crate) ours: bool,
    pub(crate) values: Vec<Option<T>>,
}

/// Returns the colour of a series.
pub(crate) fn color(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()]
}

fn text(size: i32, bold: bool, h: HPos) -> TextStyle<'static> {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let font = (FONT, size).into_font().style(style);
    TextStyle::from(font).color(&INK).pos(Pos::new(h, VPos::Center))
}

/// Draws into a string; drawing into memory does not fail.
fn svg(height: u32, draw: impl FnOnce(&Area<'_>)) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(&area);
        area.present().expect("drawing into memory");
    }
    // Scales with the page instead of keeping its size in pixels.
    let fixed = format!("width=\"{WIDTH}\" height=\"{height}\" ");
    text.replacen(&fixed, "", 1)
}

/// Makes a plot of a page one that stands alone, on a light or a dark ground.
pub(crate) fn alone(svg: &str) -> String {
    const STYLE: &str = "<style>text{font-family:system-ui,sans-serif}\
        @media (prefers-color-scheme:dark){[fill=\"#111111\"]{fill:#e6e8eb}[stroke=\"#DDDDDD\"]{stroke:#363b42}}</style>";
    match svg.find('>') {
        Some(at) => format!("{}{STYLE}{}\n", &svg[..=at], &svg[at + 1..]),
        None => svg.to_owned(),
    }
}

/// Writes the name of each row left of where it begins.
fn name_rows<T>(area: &Area<'_>, rows: &[Row<T>], at: impl Fn(usize) -> (i32, i32)) {
    for (i, row) in rows.iter().enumerate() {
        let (x, y) = at(i);
        let label = Text::new(row.name.clone(), (x - 8, y), text(13, row.ours, HPos::Right));
        area.draw(&label).expect("drawing into memory");
    }
}

/// Returns the largest figure worth drawing to scale.
///
/// One map that is more than three times as high as all others would press them against the
/// axis: it is cut off, and its figure stands beside it.
fn scale_of(rows: &[Row<f64>]) -> f64 {
    let highest = |row: &Row<f64>| row.values.iter().flatten().copied().fold(0.0, f64::max);
    let mut tops: Vec<f64> = rows.iter().map(highest).collect();
    tops.sort_by(|a, b| b.total_cmp(a));
    match tops[..] {
        [top, second, _, ..] if second > 0.0 && top > 3.0 * second => second * 1.25,
        [top, ..] => top.max(f64::MIN_POSITIVE),
        [] => f64::MIN_POSITIVE,
    }
}

/// Returns bounds of a logarithmic axis: whole decades, so that it has at least two marks.
fn decades(low: f64, high: f64) -> (f64, f64) {
    let low = low.clamp(1e-6, 1e12).log10().floor();
    (10f64.powf(low), 10f64.powf(high.max(1e-6).log10().ceil().max(low + 1.0)))
}

/// Draws a bar for each map and series; absent figures are marked with a dash.
pub(crate) fn bars(rows: &[Row<f64>], unit: &str) -> String {
    let series = rows.first().map_or(1, |row| row.values.len()).max(1);
    let values = rows.iter().flat_map(|row| row.values.iter().flatten());
    let (low, high) = (values.copied().fold(0.0, f64::min), scale_of(rows));
    let bar = if series == 1 { 18 } else { 13 };
    let height = 46 + rows.len() as u32 * (series as u32 * bar + 9);
    svg(height, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(4)
            .margin_right(52)
            .x_label_area_size(40)
            .y_label_area_size(LABELS)
            .build_cartesian_2d(low * 1.02..high * 1.02, rows.len() as f64..0.0)
            .expect("drawing into memory");
        mesh(&mut chart, unit, |x| short(*x));
        let share = 0.82 / series as f64;
        for (i, row) in rows.iter().enumerate() {
            for (s, value) in row.values.iter().enumerate() {
                let top = i as f64 + 0.09 + share * s as f64;
                let middle = top + share / 2.0;
                if let Some(value) = value {
                    let end = value.min(high);
                    let corners = [(0.0, top + share * 0.06), (end, top + share * 0.94)];
                    let bar = Rectangle::new(corners, color(s).filled());
                    chart.draw_series([bar]).expect("drawing into memory");
                }
                let label = match value {
                    Some(value) if *value > high => format!("... {}", short(*value)),
                    Some(value) => short(*value),
                    None => "-".into(),
                };
                let end = value.unwrap_or(0.0).clamp(0.0, high);
                let (x, y) = chart.backend_coord(&(end, middle));
                let label = Text::new(label, (x + 5, y), text(11, false, HPos::Left));
                area.draw(&label).expect("drawing into memory");
            }
        }
        let at = |i| chart.backend_coord(&(low * 1.02, i as f64 + 0.5));
        name_rows(area, rows, at);
    })
}

/// Draws, for each map and series, a line from p50 through p99 and p99.9 to the maximum.
pub(crate) fn ranges(rows: &[Row<[f64; 4]>]) -> String {
    let series = rows.first().map_or(1, |row| row.values.len()).max(1);
    let values = rows.iter().flat_map(|row| row.values.iter().flatten().flatten());
    let low = values.clone().copied().fold(f64::MAX, f64::min).max(1.0);
    let (low, high) = decades(low, values.copied().fold(low, f64::max));
    let height = 46 + rows.len() as u32 * (series as u32 * 13 + 9);
    svg(height, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(4)
            .margin_right(24)
            .x_label_area_size(40)
            .y_label_area_size(LABELS)
            .build_cartesian_2d((low..high * 1.1).log_scale(), rows.len() as f64..0.0)
            .expect("drawing into memory");
        mesh(&mut chart, "time of one call, log scale", |x| duration(*x));
        let share = 0.82 / series as f64;
        for (i, row) in rows.iter().enumerate() {
            for (s, value) in row.values.iter().enumerate() {
                let Some(points) = value else { continue };
                let y = i as f64 + 0.09 + share * (s as f64 + 0.5);
                let [p50, p99, p999, max] = points.map(|x| (x.max(low), y));
                let c = color(s);
                let path = PathElement::new([p50, p99, p999, max], c.stroke_width(1));
                chart.draw_series([path]).expect("drawing into memory");
                chart.draw_series([Circle::new(p50, 4, c.filled())]).expect("into memory");
                chart.draw_series([Circle::new(p99, 4, c.stroke_width(2))]).expect("into memory");
                chart.draw_series([TriangleMarker::new(p999, 4, c.filled())]).expect("into memory");
                chart.draw_series([Cross::new(max, 3, c.stroke_width(2))]).expect("into memory");
            }
        }
        let at = |i| chart.backend_coord(&(low, i as f64 + 0.5));
        name_rows(area, rows, at);
    })
}

/// Draws a curve for each map over the number of keys, both axes logarithmic.
pub(crate) fn curves(rows: &[Row<f64>], counts: &[usize], unit: &str) -> String {
    let (first, last) = (counts[0] as f64, counts[counts.len() - 1] as f64);
    let values = || rows.iter().flat_map(|row| row.values.iter().flatten().copied());
    let (low, high) = decades(values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    svg(300, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(12)
            .margin_right(140)
            .x_label_area_size(40)
            .y_label_area_size(48)
            .build_cartesian_2d((first * 0.92..last * 1.08).log_scale(), (low..high).log_scale())
            .expect("drawing into memory");
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_label_formatter(&|_| String::new())
            .y_labels(6)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .label_style(text(11, false, HPos::Center))
            .x_desc("keys, log scale")
            .y_desc(unit)
            .axis_desc_style(text(11, false, HPos::Center))
            .y_label_formatter(&|y| short(*y))
            .draw()
            .expect("drawing into memory");
        for count in counts {
            let (x, y) = chart.backend_coord(&(*count as f64, low));
            let label = crate::report::table::short_count(*count);
            let label = Text::new(label, (x, y + 12), text(11, false, HPos::Center));
            area.draw(&label).expect("drawing into memory");
        }
        let mut ends: Vec<(i32, usize)> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let points: Vec<_> = counts
                .iter()
                .zip(&row.values)
                .filter_map(|(count, value)| Some((*count as f64, (*value)?)))
                .collect();
            let Some(end) = points.last() else { continue };
            ends.push((chart.backend_coord(end).1, i));
            let c = color(i);
            let width = if row.ours { 3 } else { 2 };
            let line = LineSeries::new(points.clone(), c.stroke_width(width));
            chart.draw_series(line).expect("drawing into memory");
            let dots = points.iter().map(|point| Circle::new(*point, 3, c.filled()));
            chart.draw_series(dots).expect("drawing into memory");
        }
        // Names beside the ends of the curves, moved apart where curves end together.
        ends.sort_unstable();
        for i in 1..ends.len() {
            ends[i].0 = ends[i].0.max(ends[i - 1].0 + LINE_HEIGHT);
        }
        let (x, mut floor) = chart.backend_coord(&(last * 1.08, low));
        for (y, _) in ends.iter_mut().rev() {
            *y = (*y).min(floor);
            floor = *y - LINE_HEIGHT;
        }
        for (y, i) in ends {
            let color = color(i);
            let style = text(12, rows[i].ours, HPos::Left).color(&color);
            area.draw(&Text::new(rows[i].name.clone(), (x + 6, y), style)).expect("into memory");
        }
    })
}

/// Draws vertical lines and the labels below them.
fn mesh<X>(
    chart: &mut ChartContext<
        '_,
        SVGBackend<'_>,
        Cartesian2d<X, plotters::coord::types::RangedCoordf64>,
    >,
    unit: &str,
    label: impl Fn(&f64) -> String,
) where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    X::ValueType: Debug,
{
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(7)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(GRID)
        .label_style(text(11, false, HPos::Center))
        .x_desc(unit)
        .axis_desc_style(text(11, false, HPos::Center))
        .x_label_formatter(&label)
        .draw()
        .expect("drawing into memory");
}

/// Writes a figure with about three digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v < 0.995 => format!("{value:.2}"),
        v if v < 9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Writes nanoseconds in the unit that suits them.
pub(crate) fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        v if v < 1e3 => (v, "ns"),
        v if v < 1e6 => (v / 1e3, "us"),
        v if v < 1e9 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    let digits = usize::from(value < 9.95 && value.fract() > 0.04);
    format!("{value:.digits$} {unit}")
}
