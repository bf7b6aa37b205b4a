//! Plots of one node death and one failover: due and received firings, and their lateness, over the
//! seconds around the fault.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use duly_bench::plot::{self, Axis, Layer, Panel, Shape};

use super::resume::{FaultEvent, Firing, due_s, firings};
use crate::history::History;

/// Seconds before the fault.
const BEFORE_S: f64 = 4.0;
/// Seconds after all is well; then the next fault may come.
const AFTER_S: f64 = 2.0;
/// Seconds of one bucket of firings.
const BUCKET_S: f64 = 0.25;
/// Start of the lateness scale in milliseconds.
const LEAST_MS: f64 = 0.3;

/// Draws the first node death of the run to `node-death.svg` and the first failover to
/// `failover.svg`, in this folder.
pub(super) fn draw_plots(folder: &Path, history: &History, events: &[FaultEvent]) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let firings = firings(history);
    let first = |wanted: fn(&FaultEvent) -> bool| events.iter().find(|event| wanted(event));
    let killed = first(|event| event.fault.is_node_death());
    let failover = first(|event| event.fault.is_failover());
    for (name, event) in [("node-death.svg", killed), ("failover.svg", failover)] {
        let Some(event) = event else { continue };
        let seconds = |us: u64| Duration::from_micros(us - event.from_us).as_secs_f64();
        let marks = [
            ("gone", 0.0),
            ("back", seconds(event.repaired_us)),
            ("all well", seconds(event.recovered_us)),
        ];
        let path = folder.join(name);
        let title = format!("{}: {}", event.fault, event.text);
        plot::draw(&path, &panels(title, &firings, event.from_us, marks))?;
        println!("drawn: {}", path.display());
    }
    Ok(())
}

/// Returns the firings of each quarter second, and the lateness of each firing below.
fn panels(
    title: String,
    firings: &[Firing],
    from_us: u64,
    marks: [(&'static str, f64); 3],
) -> [Panel; 2] {
    let span = -BEFORE_S..marks[2].1 + AFTER_S;
    let late_s = |firing: &Firing| firing.late().as_secs_f64();
    let due: Vec<f64> = firings.iter().map(|firing| due_s(firing, from_us)).collect();
    let received: Vec<f64> =
        firings.iter().zip(&due).map(|(firing, due)| due + late_s(firing)).collect();
    let layers: Vec<_> = [("delivered", &received), ("due", &due)]
        .into_iter()
        .map(|(name, moments)| Layer {
            name: Some(name.to_owned()),
            shape: Shape::Line,
            points: counted(moments, &span),
        })
        .collect();
    let points = layers.iter().flat_map(|layer| &layer.points);
    let most = points.map(|point| point.1).fold(1.0, f64::max);
    let lateness = firings.iter().zip(&due).filter(|(_, due)| span.contains(due));
    let lateness: Vec<_> =
        lateness.map(|(firing, due)| (*due, (late_s(firing) * 1_000.0).max(LEAST_MS))).collect();
    let most_ms = lateness.iter().map(|point| point.1).fold(10.0, f64::max);
    let x = |name| Axis::linear(name, span.start, span.end);
    [
        Panel {
            title,
            x: x("seconds"),
            y: Axis::linear("firings each quarter second", 0.0, most),
            layers,
            marks: marks.to_vec(),
        },
        Panel {
            title: String::new(),
            x: x("seconds after it, by due time"),
            y: Axis::logarithmic("ms late", LEAST_MS, most_ms),
            layers: vec![Layer { name: None, shape: Shape::Dots, points: lateness }],
            marks: marks.to_vec(),
        },
    ]
}

/// Returns the number of moments in each bucket of the span.
fn counted(moments_s: &[f64], span: &Range<f64>) -> Vec<(f64, f64)> {
    let starts = std::iter::successors(Some(span.start), |at| Some(at + BUCKET_S));
    starts
        .take_while(|at| *at < span.end)
        .map(|at| {
            let inside = moments_s.iter().filter(|moment| (at..at + BUCKET_S).contains(*moment));
            #[expect(clippy::cast_precision_loss, reason = "for a plot")]
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
        let marks = [("gone", 0.0), ("back", 4.0), ("all well", 5.0)];
        let panels = panels("a node dies".to_owned(), &firings, 10_000_000, marks);
        let svg = plot::svg(&panels).unwrap();
        for text in ["a node dies", "delivered", "gone", "all well", "circle", "polyline"] {
            assert!(svg.contains(text), "no {text}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
        let moments = [-0.1, 0.1, 0.2, 0.6, 9.0];
        assert_eq!(counted(&moments, &(0.0..0.75)), [(0.125, 2.0), (0.375, 0.0), (0.625, 1.0)]);
    }
}
