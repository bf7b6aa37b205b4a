//! Plot of the series: latency on a logarithmic scale, throughput on a second scale, and background
//! work as bars below.

use std::path::Path;

use plotters::prelude::*;

use super::{
    background::{Background, Kind},
    series::{Point, Series},
};
use crate::error::{Error, Result};

/// Width and height in pixels.
const SIZE: (u32, u32) = (1_200, 600);
/// Upper limit of the start of the latency scale. A logarithmic scale cannot start at 0.
const LEAST_MS: f64 = 0.1;

/// Draws the row and its baseline into an SVG file.
pub(super) fn draw(
    path: &Path,
    title: &str,
    ran: &Series,
    floor: &Series,
    background: &Background,
) -> Result<()> {
    let ran: Vec<_> = ran.points().collect();
    let floor: Vec<_> = floor.points().collect();
    draw_points(path, title, &ran, &floor, background)
        .map_err(|error| Error::Plot { path: path.to_owned(), reason: error.to_string() })
}

fn draw_points(
    path: &Path,
    title: &str,
    ran: &[Point],
    floor: &[Point],
    background: &Background,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let most = |value: fn(&Point) -> f64| ran.iter().chain(floor).map(value).fold(0.0, f64::max);
    let end = most(|point| point.seconds).max(0.1);
    let top_ms = most(|point| point.max_ms.unwrap_or(0.0)).max(1.0) * 2.0;
    let least = |least: f64, ms: f64| least.min(ms.max(1e-3));
    let least_ms = ran.iter().chain(floor).filter_map(|point| point.p99_ms).fold(LEAST_MS, least);
    // Space below for the bars, on the logarithmic scale.
    let bar = |place: u8| least_ms / BAR_STEP.powi(i32::from(place) + 1);
    let bottom_ms = bar(3);
    // Space above for the legend.
    let top_rate = most(|point| point.per_second).max(1.0) * 1.5;

    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .right_y_label_area_size(80)
        .build_cartesian_2d(0.0..end, (bottom_ms..top_ms).log_scale())?
        .set_secondary_coord(0.0..end, 0.0..top_rate);
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc("ms, by tenths of a second")
        .y_label_formatter(&|ms| format!("{ms}"))
        .draw()?;
    chart
        .configure_secondary_axes()
        .y_desc("schedules answered per second")
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .draw()?;

    let line = |points: &[Point], value: Value, color: RGBColor| {
        let points = points.iter().filter_map(|point| Some((point.seconds, value(point)?)));
        LineSeries::new(points.collect::<Vec<_>>(), color.stroke_width(1))
    };
    let legend = |color: RGBColor| {
        move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
    };
    for (points, value, color, name) in [
        (floor, (|point| point.max_ms) as Value, GREY, "floor: max"),
        (ran, |point| point.max_ms, RED, "commit: max"),
        (ran, |point| point.p99_ms, BLUE, "commit: p99"),
    ] {
        chart.draw_series(line(points, value, color))?.label(name).legend(legend(color));
    }
    for (kind, (place, color)) in Kind::ALL.into_iter().zip([(0, PURPLE), (1, ORANGE), (2, CYAN)]) {
        let bars = background.stretches(kind).into_iter().map(|(from, to)| {
            let corners = [(from, bar(place)), (to.min(end), bar(place + 1) * 1.15)];
            Rectangle::new(corners, color.filled())
        });
        chart.draw_series(bars)?.label(kind.name()).legend(legend(color));
    }
    chart
        .draw_secondary_series(line(ran, |point| Some(point.per_second), GREEN_DARK))?
        .label("throughput")
        .legend(legend(GREEN_DARK));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

/// The value of a point that a line shows.
type Value = fn(&Point) -> Option<f64>;

/// Height of a bar, as a ratio on the scale.
const BAR_STEP: f64 = 1.6;
const GREY: RGBColor = RGBColor(150, 150, 150);
const GREEN_DARK: RGBColor = RGBColor(0, 130, 60);
const PURPLE: RGBColor = RGBColor(120, 60, 180);
const ORANGE: RGBColor = RGBColor(230, 140, 0);
const CYAN: RGBColor = RGBColor(0, 150, 190);
