//! Plot of the run: the worst lateness of each tenth of a second, on a logarithmic scale, with the
//! parts side by side.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::series::{Source, Stretch};

/// Width and height in pixels.
const SIZE: (u32, u32) = (1_200, 520);
/// Start of the scale: a logarithmic scale cannot start at 0.
const LEAST_MS: f64 = 0.01;
/// Colors of the lines, in the order of the sources.
const COLORS: [RGBColor; 3] =
    [RGBColor(30, 90, 200), RGBColor(200, 40, 30), RGBColor(150, 150, 150)];
/// Background of every other part.
const SHADE: RGBColor = RGBColor(238, 240, 244);

/// Draws an SVG file.
pub(super) fn draw(
    path: &Path,
    title: &str,
    stretches: &[Stretch],
    sources: &[Source],
) -> Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    draw_into(&area, title, stretches, sources)
        .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn draw_into<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    stretches: &[Stretch],
    sources: &[Source],
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let panels = side_by_side(stretches);
    let end = panels.last().map_or(1.0, |(_, _, end)| *end).max(0.1);
    let worst = stretches
        .iter()
        .flat_map(|stretch| sources.iter().flat_map(|source| stretch.worst_by_interval(source)));
    // Space above for the names of the parts.
    let top_ms = worst.map(|(_, ms)| ms).fold(1.0, f64::max) * 6.0;

    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, (LEAST_MS..top_ms).log_scale())?;
    for (place, (_, begin, end)) in panels.iter().enumerate() {
        if place % 2 == 1 {
            let corners = [(*begin, LEAST_MS), (*end, top_ms)];
            chart.draw_series([Rectangle::new(corners, SHADE.filled())])?;
        }
    }
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("seconds of the stretches, one after another")
        .y_desc("ms late, worst of each tenth of a second")
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .y_label_formatter(&|ms| format!("{ms}"))
        .draw()?;
    // The baseline is drawn first, so that it does not cover the lanes.
    for (source, color) in sources.iter().zip(COLORS).rev() {
        for (place, (stretch, begin, _)) in panels.iter().enumerate() {
            let points = stretch
                .worst_by_interval(source)
                .into_iter()
                .map(|(seconds, ms)| (begin + seconds, ms.max(LEAST_MS)));
            let drawn = chart.draw_series(LineSeries::new(points, color.stroke_width(1)))?;
            if place == 0 {
                drawn.label(source.name).legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
                });
            }
        }
    }
    for (stretch, begin, end) in &panels {
        let at = (begin + (end - begin) * 0.02, top_ms * 0.8);
        chart.draw_series([Text::new(stretch.name, at, ("sans-serif", 15))])?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

/// Returns each part with its start and end in the plot. The time between parts is left out.
fn side_by_side(stretches: &[Stretch]) -> Vec<(Stretch, f64, f64)> {
    let mut end = 0.0;
    let place = |stretch: &Stretch| {
        let begin = end;
        end += stretch.seconds();
        (*stretch, begin, end)
    };
    stretches.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_stretch_and_every_line() {
        let stretches = [
            Stretch { name: "idle", begin_us: 0, end_us: 1_000_000 },
            Stretch { name: "refused", begin_us: 5_000_000, end_us: 7_000_000 },
        ];
        let panels = side_by_side(&stretches);
        assert_eq!(panels[1].0, stretches[1]);
        assert!((panels[1].1 - 1.0).abs() < 1e-9 && (panels[1].2 - 3.0).abs() < 1e-9);

        let late_us = vec![(500_000, 300), (5_500_000, 9_000), (6_000_000, 400)];
        let sources =
            ["pull", "webhook", "wake-up"].map(|name| Source { name, late_us: late_us.clone() });
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw_into(&area, "a title", &stretches, &sources).unwrap();
        drop(area);
        for text in ["a title", "idle", "refused", "pull", "webhook", "wake-up", "polyline"] {
            assert!(svg.contains(text), "no {text}");
        }
    }
}
