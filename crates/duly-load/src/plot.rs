//! Plot of a run: the distribution of its times, and the timers of each second below.

mod marked;

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::{coord::Shift, prelude::*};

use crate::report::Report;
use marked::Marked;

/// Width and height in pixels.
const SIZE: (u32, u32) = (1_000, 800);
/// Colors of the lines, in the order of the legend; the first is also that of the bars.
const COLORS: [RGBColor; 4] =
    [RGBColor(30, 90, 200), RGBColor(210, 90, 20), RGBColor(20, 140, 80), RGBColor(130, 60, 160)];
/// Start of the time scale: a logarithmic scale cannot start at 0.
const LEAST_MS: f64 = 0.001;

/// Draws an SVG file.
pub fn draw(path: &Path, report: &Report) -> Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    draw_into(&area, report).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn draw_into<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    report: &Report,
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    if report.by_second.is_empty() {
        distribution(area, report)?;
    } else {
        let (above, below) = area.split_vertically(SIZE.1 * 3 / 5);
        distribution(&above, report)?;
        throughput(&below, report)?;
    }
    area.present()?;
    Ok(())
}

/// Draws times against the number of nines of their quantile: 0 is the minimum, 1 is 90 %, 3 is
/// 99.9 %.
fn distribution<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    report: &Report,
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let lines: Vec<_> = report.series.iter().map(|series| nines(&series.points)).collect();
    let points = || lines.iter().flatten();
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let top = points().map(|point| point.1).fold(LEAST_MS, f64::max) * 2.0;
    let lowest = points().map(|point| point.1).fold(top, f64::min) / 2.0;
    // Lines rise, so the legend is below them at the right, in a third more space.
    let bottom = lowest / (top / lowest).powf(0.33);
    let pull = report.pull.map(|pull| format!(", {pull}")).unwrap_or_default();
    let title = format!("{}, {}{pull}: distribution", report.subject.name(), report.transport);
    let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];
    let marks = shares.map(|share: f64| -(1.0 - share).log10());
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(Marked::new(right, marks), (bottom..top).log_scale())?;
    chart
        .configure_mesh()
        .x_max_light_lines(0)
        .x_desc("share of all")
        .y_desc("at most this many ms")
        .x_label_formatter(&|nines| percent(*nines))
        .y_label_formatter(&|ms| format!("{ms}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    for ((series, line), color) in report.series.iter().zip(lines).zip(COLORS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)))?
            .label(series.name.clone())
            .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
    }
    if !report.series.is_empty() {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE)
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()?;
    }
    Ok(())
}

/// Returns the points of a line. All quantiles are below 100 %, which this axis cannot show.
fn nines(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.iter().map(|(share, ms)| (-(1.0 - share).log10(), ms.max(LEAST_MS))).collect()
}

fn percent(nines: f64) -> String {
    let text = format!("{:.4}", 100.0 * (1.0 - 10_f64.powf(-nines)));
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn throughput<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    report: &Report,
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let what = if report.verdict.is_some() { "operations" } else { "timers" };
    let top = report.by_second.iter().max().copied().unwrap_or(0).max(1) as f64 * 1.1;
    let right = report.by_second.len().max(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{what} of each second"), ("sans-serif", 17))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(Marked::new(right, seconds(right)), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_max_light_lines(0)
        .y_labels(6)
        .x_desc("second")
        .y_desc(what)
        .x_label_formatter(&|second| format!("{second}"))
        .y_label_formatter(&|count| format!("{count}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    let bars = report.by_second.iter().enumerate().map(|(second, count)| {
        // A gap between bars separates the seconds.
        let gap = right / 500.0;
        let second = second as f64;
        let corners = [(second + gap, 0.0), (second + 1.0 - gap, *count as f64)];
        Rectangle::new(corners, COLORS[0].mix(0.6).filled())
    });
    chart.draw_series(bars)?;
    Ok(())
}

/// Returns the whole seconds to mark, at most eleven up to `right`.
fn seconds(right: f64) -> impl Iterator<Item = f64> {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0];
    let step = steps.into_iter().find(|step| right / step <= 10.0).unwrap_or(600.0);
    std::iter::successors(Some(0.0), move |mark| Some(mark + step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger::Counts, options::Subject, report::Series, table::Table};

    fn drawn(report: &Report) -> String {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw_into(&area, report).unwrap();
        drop(area);
        svg
    }

    #[test]
    fn plots_have_both_charts_even_without_figures() {
        let mut report = Report {
            subject: Subject::Lateness,
            transport: "grpc",
            pull: Some("consume"),
            is_complete: true,
            failed: None,
            table: Table::default(),
            counts: Counts::default(),
            broken: Vec::new(),
            remarks: Vec::new(),
            series: vec![Series {
                name: "alone".to_owned(),
                points: vec![(0.0, 0.2), (0.5, 0.4), (0.999, 2.0), (0.9995, 3.0)],
            }],
            by_second: vec![10, 20],
            verdict: None,
        };
        let svg = drawn(&report);
        for text in ["lateness, grpc, consume", "share of all", "timers of each second", "alone"] {
            assert!(svg.contains(text), "no {text}");
        }
        for label in ["50 %", "99.9 %"] {
            assert!(svg.contains(label), "no {label}");
        }
        assert!(svg.contains("polyline"));
        (report.series, report.by_second) = (Vec::new(), Vec::new());
        let svg = drawn(&report);
        assert!(svg.contains("share of all") && !svg.contains("of each second"));
        assert_eq!(percent(3.0), "99.9 %");
        for (right, marks) in [(3.0, 4), (30.0, 7), (3_600.0, 7)] {
            assert_eq!(seconds(right).take_while(|mark| *mark <= right).count(), marks);
        }
    }
}
