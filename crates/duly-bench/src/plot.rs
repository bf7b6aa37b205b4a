//! The plotter: panels one below the other in an SVG file, each with lines, bars, dots and marks.

mod axis;

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::{coord::Shift, prelude::*};

pub use axis::Axis;

/// Width of the picture and height of a panel, in pixels.
const SIZE: (u32, u32) = (1_000, 400);
/// Colors of the layers, in the order of the legend.
const COLORS: [RGBColor; 4] =
    [RGBColor(30, 90, 200), RGBColor(210, 90, 20), RGBColor(20, 140, 80), RGBColor(130, 60, 160)];
const MARK: RGBColor = RGBColor(200, 40, 30);
/// Distance of the names of marks, as a part of the height: two marks may be close.
const NAME_DISTANCE: f64 = 0.08;

/// One chart.
#[derive(Debug)]
pub struct Panel {
    /// Title above the chart.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Content; later layers are in front.
    pub layers: Vec<Layer>,
    /// Named moments, as vertical lines.
    pub marks: Vec<(&'static str, f64)>,
}

/// One part of a chart.
#[derive(Debug)]
pub struct Layer {
    /// Name in the legend; without one there is no entry.
    pub name: Option<String>,
    /// Shape of the points.
    pub shape: Shape,
    /// Points (x, y), in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

/// Shape in which the points of a layer are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A line through all points.
    Line,
    /// A bar from 0 to each point, as wide as one unit to its right.
    Bars,
    /// A dot for each point.
    Dots,
}

/// Draws an SVG file.
///
/// # Errors
/// When the file cannot be written.
pub fn draw(path: &Path, panels: &[Panel]) -> Result<()> {
    let area = SVGBackend::new(path, size(panels)).into_drawing_area();
    draw_into(&area, panels).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

/// Returns the SVG text.
///
/// # Errors
/// When a panel cannot be drawn.
pub fn svg(panels: &[Panel]) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size(panels)).into_drawing_area();
    draw_into(&area, panels).map_err(|error| anyhow!("cannot draw: {error}"))?;
    drop(area);
    Ok(svg)
}

fn size(panels: &[Panel]) -> (u32, u32) {
    (SIZE.0, SIZE.1 * u32::try_from(panels.len()).unwrap_or(1))
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw_into<B: DrawingBackend>(area: &DrawingArea<B, Shift>, panels: &[Panel]) -> Drawn
where
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    for (area, panel) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
        draw_panel(area, panel)?;
    }
    area.present()?;
    Ok(())
}

fn draw_panel<B: DrawingBackend>(area: &DrawingArea<B, Shift>, panel: &Panel) -> Drawn
where
    B::ErrorType: 'static,
{
    let Panel { title, x, y, layers, marks } = panel;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_desc(x.name())
        .y_desc(y.name())
        .x_label_formatter(&|at| x.label(*at))
        .y_label_formatter(&|at| y.label(*at))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (layer, color) in layers.iter().zip(COLORS.iter().cycle()) {
        let points = layer.points.iter().map(|point| (x.place(point.0), y.place(point.1)));
        let drawn = match layer.shape {
            Shape::Line => chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?,
            Shape::Dots => chart
                .draw_series(points.map(|point| Circle::new(point, 2, color.mix(0.6).filled())))?,
            Shape::Bars => chart.draw_series(points.map(|(left, top)| {
                let corners = [(left + 0.05, 0.0), (left + 0.95, top)];
                Rectangle::new(corners, color.mix(0.6).filled())
            }))?,
        };
        if let Some(name) = &layer.name {
            drawn
                .label(name)
                .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        }
    }
    let (bottom, top) = y.ends();
    for (place, (name, at)) in (0..).zip(marks) {
        let at = x.place(*at);
        let height = top - (top - bottom) * NAME_DISTANCE * f64::from(place);
        let style = ("sans-serif", 14).into_font().color(&MARK);
        chart.draw_series([PathElement::new([(at, bottom), (at, top)], MARK)])?;
        chart.draw_series([Text::new(format!(" {name}"), (at, height), style)])?;
    }
    if layers.iter().any(|layer| layer.name.is_some()) {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_have_axes_layers_and_marks() {
        let layer = |name: Option<&str>, shape| Layer {
            name: name.map(str::to_owned),
            shape,
            points: vec![(0.0, 0.2), (0.5, 2.0), (0.999, 30.0)],
        };
        let shares = Panel {
            title: "times".to_owned(),
            x: Axis::shares("share of all", 0.999),
            y: Axis::logarithmic("ms", 0.2, 30.0),
            layers: vec![layer(Some("alone"), Shape::Line)],
            marks: Vec::new(),
        };
        let seconds = Panel {
            title: "timers".to_owned(),
            x: Axis::linear("second", -4.0, 30.0),
            y: Axis::linear("timers", 0.0, 30.0),
            layers: vec![layer(None, Shape::Bars), layer(None, Shape::Dots)],
            marks: vec![("gone", 0.0), ("back", 4.0)],
        };
        let svg = svg(&[shares, seconds]).unwrap();
        for text in ["times", "share of all", "50 %", "99.9 %", "alone", "polyline", "back", "gone"]
        {
            assert!(svg.contains(text), "no {text}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
