//! Axes with chosen marks: linear, logarithmic, and shares by their number of nines.

use std::ops::Range;

use plotters::coord::{
    ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
    types::RangedCoordf64,
};

/// Most marks of an axis.
const MARKS_MAX: f64 = 10.0;

/// An axis. The scale turns a value into its place.
#[derive(Debug, Clone)]
pub struct Axis {
    name: String,
    scale: Scale,
    range: Range<f64>,
    marks: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    /// Powers of ten.
    Logarithmic,
    /// Shares below 1 by their number of nines: 0 is the minimum, 1 is 90 %, 3 is 99.9 %.
    Nines,
}

impl Axis {
    /// Creates an axis between two values.
    pub fn linear(name: &str, least: f64, most: f64) -> Self {
        let span = (most - least).max(f64::MIN_POSITIVE);
        let power = 10_f64.powf((span / MARKS_MAX).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| span / step <= MARKS_MAX).unwrap_or(span);
        let first = (least / step).ceil() * step;
        let marks = std::iter::successors(Some(first), |mark| Some(mark + step));
        Self::new(name, Scale::Linear, least..most, marks)
    }

    /// Creates a logarithmic axis that shows both values.
    pub fn logarithmic(name: &str, least: f64, most: f64) -> Self {
        let range = least.log10().floor()..most.log10().ceil();
        let marks = std::iter::successors(Some(range.start), |mark| Some(mark + 1.0));
        Self::new(name, Scale::Logarithmic, range, marks)
    }

    /// Creates an axis of shares up to this one, which is below 1.
    pub fn shares(name: &str, most: f64) -> Self {
        let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];
        let most = Scale::Nines.place(most).max(1.0);
        Self::new(name, Scale::Nines, 0.0..most, shares.map(|share| Scale::Nines.place(share)))
    }

    fn new(
        name: &str,
        scale: Scale,
        range: Range<f64>,
        marks: impl IntoIterator<Item = f64>,
    ) -> Self {
        let marks = marks.into_iter().take_while(|mark| *mark <= range.end).collect();
        Self { name: name.to_owned(), scale, range, marks }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn ends(&self) -> (f64, f64) {
        (self.range.start, self.range.end)
    }

    /// Returns the place of a value, within the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.scale.place(value).clamp(self.range.start, self.range.end)
    }

    /// Returns the text of a place.
    pub(super) fn label(&self, place: f64) -> String {
        let text = |value: f64| {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        match self.scale {
            Scale::Linear => text(place),
            Scale::Logarithmic => text(10_f64.powf(place)),
            Scale::Nines => format!("{} %", text(100.0 * (1.0 - 10_f64.powf(-place)))),
        }
    }
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
            Self::Nines => -(1.0 - value).log10(),
        }
    }
}

impl From<Range<f64>> for Axis {
    fn from(range: Range<f64>) -> Self {
        Self::linear("", range.start, range.end)
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        for (axis, labels) in [
            (Axis::linear("", 0.0, 30.0), &["0", "5", "10", "15", "20", "25", "30"][..]),
            (Axis::linear("", -4.0, 3.0), &["-4", "-3", "-2", "-1", "0", "1", "2", "3"]),
            (Axis::logarithmic("", 0.3, 20.0), &["0.1", "1", "10", "100"]),
            (Axis::shares("", 0.9994), &["0 %", "50 %", "90 %", "99 %", "99.9 %"]),
        ] {
            let found: Vec<_> = axis.marks.iter().map(|mark| axis.label(*mark)).collect();
            assert_eq!(found, labels);
        }
        assert!(Axis::linear("", 0.0, 123_456.0).marks.len() <= 11);
    }
}
