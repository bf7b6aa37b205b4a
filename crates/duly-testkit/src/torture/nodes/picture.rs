//! Plots of one node death and one failover: due and received firings, and their lateness, over the
//! seconds around the fault.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::resume::{Event, Firing, due_s, firings};
use crate::history::History;

/// Width and height in pixels.
const SIZE: (u32, u32) = (1_000, 620);
/// Seconds before the fault.
const BEFORE_S: f64 = 4.0;
/// Seconds after all is well; then the next fault may come.
const AFTER_S: f64 = 2.0;
/// Seconds of one bucket of firings.
const BUCKET_S: f64 = 0.25;
/// Start of the lateness scale in milliseconds: a logarithmic scale cannot start at 0.
const LEAST_MS: f64 = 0.3;
const DUE: RGBColor = RGBColor(150, 150, 150);
const CAME: RGBColor = RGBColor(30, 90, 200);
const MARK: RGBColor = RGBColor(200, 40, 30);

/// Content of one plot.
struct Scene<'h> {
    title: String,
    firings: &'h [Firing],
    from_us: u64,
    /// Names and times of events, in seconds after the fault.
    marks: [(&'static str, f64); 3],
}

/// Draws the first node death of the run to `node-dead_letter.svg` and the first failover to
/// `failover.svg`, in this folder.
pub(super) fn draw_all(folder: &Path, history: &History, events: &[Event]) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let firings = firings(history);
    let first = |wanted: fn(&Event) -> bool| events.iter().find(|event| wanted(event));
    let killed = first(|event| event.fault.kills_a_node());
    let failover = first(|event| event.fault.fails_over());
    for (name, event) in [("node-death.svg", killed), ("failover.svg", failover)] {
        let Some(event) = event else { continue };
        let seconds = |us: u64| Duration::from_micros(us - event.from_us).as_secs_f64();
        let scene = Scene {
            title: format!("{}: {}", event.fault, event.text),
            firings: &firings,
            from_us: event.from_us,
            marks: [
                ("gone", 0.0),
                ("back", seconds(event.healed_us)),
                ("all well", seconds(event.whole_us)),
            ],
        };
        let path = folder.join(name);
        let area = SVGBackend::new(&path, SIZE).into_drawing_area();
        draw(&area, &scene).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
        println!("drawn: {}", path.display());
    }
    Ok(())
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scene: &Scene<'_>,
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let span = -BEFORE_S..scene.marks[2].1 + AFTER_S;
    let due: Vec<f64> = scene.firings.iter().map(|f| due_s(f, scene.from_us)).collect();
    let late_s = |firing: &Firing| firing.late().as_secs_f64();
    let came: Vec<f64> =
        scene.firings.iter().zip(&due).map(|(firing, due)| due + late_s(firing)).collect();
    area.fill(&WHITE)?;
    let (above, below) = area.split_vertically(SIZE.1 * 2 / 5);

    let lines = [("due", DUE, counted(&due, &span)), ("delivered", CAME, counted(&came, &span))];
    let top = lines.iter().flat_map(|(_, _, points)| points).map(|point| point.1);
    let top = top.fold(1.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(&above)
        .caption(&scene.title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(24)
        .y_label_area_size(70)
        .build_cartesian_2d(span.clone(), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_desc("firings each quarter second")
        .y_label_formatter(&|count| format!("{count:.0}"))
        .draw()?;
    for (name, color, points) in lines {
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    // One below the other, because two of them may be close.
    for ((name, at), height) in scene.marks.into_iter().zip([1.0, 0.92, 0.84]) {
        chart.draw_series([PathElement::new([(at, 0.0), (at, top)], MARK)])?;
        let style = ("sans-serif", 14).into_font().color(&MARK);
        chart.draw_series([Text::new(format!(" {name}"), (at, top * height), style)])?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .draw()?;

    let top_ms = scene.firings.iter().map(late_s).fold(0.01, f64::max) * 2_000.0;
    let mut chart = ChartBuilder::on(&below)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(span.clone(), (LEAST_MS..top_ms).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("seconds after it, by due time")
        .y_desc("ms late")
        .y_label_formatter(&|ms| format!("{ms}"))
        .draw()?;
    for (_, at) in scene.marks {
        chart.draw_series([PathElement::new([(at, LEAST_MS), (at, top_ms)], MARK)])?;
    }
    let dots = scene.firings.iter().zip(&due).filter(|(_, due)| span.contains(due));
    let dots = dots.map(|(firing, due)| {
        Circle::new((*due, (late_s(firing) * 1_000.0).max(LEAST_MS)), 2, CAME.mix(0.6).filled())
    });
    chart.draw_series(dots)?;
    area.present()?;
    Ok(())
}

/// Returns the number of moments in each bucket of the span.
fn counted(moments_s: &[f64], span: &Range<f64>) -> Vec<(f64, f64)> {
    let starts = std::iter::successors(Some(span.start), |at| Some(at + BUCKET_S));
    starts
        .take_while(|at| *at < span.end)
        .map(|at| {
            let inside = moments_s.iter().filter(|moment| (at..at + BUCKET_S).contains(*moment));
            #[expect(clippy::cast_precision_loss, reason = "for a picture")]
            let count = inside.count() as f64;
            (at + BUCKET_S / 2.0, count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_show_due_and_received_firings_and_events() {
        let firing =
            |due_ms: u64, late_ms: u64| Firing { due_ms, received_us: (due_ms + late_ms) * 1_000 };
        let firings = [firing(9_000, 2), firing(10_500, 1_900), firing(13_000, 4)];
        let scene = Scene {
            title: "a node dies".to_owned(),
            firings: &firings,
            from_us: 10_000_000,
            marks: [("gone", 0.0), ("back", 4.0), ("all well", 5.0)],
        };
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, &scene).unwrap();
        drop(area);
        for text in ["a node dies", "delivered", "gone", "all well", "circle", "polyline"] {
            assert!(svg.contains(text), "no {text}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
        let moments = [-0.1, 0.1, 0.2, 0.6, 9.0];
        assert_eq!(counted(&moments, &(0.0..0.75)), [(0.125, 2.0), (0.375, 0.0), (0.625, 1.0)]);
    }
}
