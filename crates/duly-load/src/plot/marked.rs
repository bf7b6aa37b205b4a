//! Axis from 0 with chosen marks.

use std::ops::Range;

use plotters::coord::{
    ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
    types::RangedCoordf64,
};

/// An axis from 0 with chosen marks.
pub(super) struct Marked {
    right: f64,
    marks: Vec<f64>,
}

impl Marked {
    /// Creates an axis up to `right`, with those of the marks that are on it.
    pub(super) fn new(right: f64, marks: impl IntoIterator<Item = f64>) -> Self {
        Self { right, marks: marks.into_iter().take_while(|mark| *mark <= right).collect() }
    }
}

impl From<Range<f64>> for Marked {
    fn from(range: Range<f64>) -> Self {
        Self::new(range.end, [])
    }
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        0.0..self.right
    }
}
