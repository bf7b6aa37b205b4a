//! A run as a picture: the distribution of its times, and timers of each second below.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::{coord::Shift, prelude::*};

use crate::report::Report;

/// Width and height.
const SIZE: (u32, u32) = (1_000, 800);
/// The lines, in the order of the legend; the first is that of the bars.
const COLORS: [RGBColor; 4] =
    [RGBColor(30, 90, 200), RGBColor(210, 90, 20), RGBColor(20, 140, 80), RGBColor(130, 60, 160)];
/// The scale of times begins here: a logarithm needs something.
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
    let (above, below) = area.split_vertically(SIZE.1 / 2);
    distribution(&above, report)?;
    throughput(&below, report)?;
    area.present()?;
    Ok(())
}

/// Against the number of nines: 0 is the best of all, 1 is 90 %, 3 is 99.9 %.
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
    let bottom = points().map(|point| point.1).fold(top, f64::min) / 2.0;
    let pull = report.pull.map(|pull| format!(", {pull}")).unwrap_or_default();
    let title = format!("{}, {}{pull}: milliseconds", report.subject.name(), report.transport);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, (bottom..top).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("percentile")
        .y_desc("ms, at most")
        .x_label_formatter(&|nines| percent(*nines))
        .y_label_formatter(&|ms| format!("{ms}"))
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
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()?;
    }
    Ok(())
}

/// The points of a line: what is at 100 % has no place on this axis.
fn nines(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let below_one = points.iter().filter(|(share, _)| *share < 1.0);
    below_one.map(|(share, ms)| (-(1.0 - share).log10(), ms.max(LEAST_MS))).collect()
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
    let top = report.by_second.iter().max().copied().unwrap_or(0).max(1) as f64 * 1.1;
    let right = (report.by_second.len().max(1)) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption("timers of each second", ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart.configure_mesh().disable_x_mesh().x_desc("second").y_desc("timers").draw()?;
    let bars = report.by_second.iter().enumerate().map(|(second, count)| {
        let corners = [(second as f64, 0.0), (second as f64 + 1.0, *count as f64)];
        Rectangle::new(corners, COLORS[0].mix(0.6).filled())
    });
    chart.draw_series(bars)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger::Counts, options::Subject, report::Series, table::Table};

    #[test]
    fn a_picture_has_both_charts_even_of_a_run_without_figures() {
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
                points: vec![(0.0, 0.2), (0.5, 0.4), (0.999, 2.0), (1.0, 3.0)],
            }],
            by_second: vec![10, 20],
            verdict: None,
        };
        for mark in ["polyline", "sans-serif"] {
            let mut svg = String::new();
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            draw_into(&area, &report).unwrap();
            drop(area);
            for text in ["lateness, grpc, consume", "percentile", "timers of each second", mark] {
                assert!(svg.contains(text), "no {text}");
            }
            (report.series, report.by_second) = (Vec::new(), Vec::new());
        }
        assert_eq!(percent(3.0), "99.9 %");
    }
}
