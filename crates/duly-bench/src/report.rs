//! Report of a run: rows of figures, each with its rounds.
//!
//! A figure's value is the median of its rounds. Beside it may be its baseline, measured in the
//! same run, and its target from the design. The same report prints as tables for people and
//! serializes to JSON for programs.

mod print;

use serde::Serialize;

use crate::machine::Machine;

/// Report of a whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The command that printed it.
    pub command: String,
    /// Version of Duly.
    pub version: &'static str,
    /// The machine of the run.
    pub machine: Machine,
    /// The measured rows, in order.
    pub rows: Vec<Row>,
    /// The error that ended the run early. The rows above are valid; the last one may lack figures.
    pub failed: Option<String>,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the row.
    pub name: &'static str,
    /// One line about the work.
    pub about: String,
    /// Items of each round.
    pub items: u64,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// One figure of a row.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Name of the figure.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// The median of the rounds.
    pub median: f64,
    /// The value of each round, in order.
    pub rounds: Vec<f64>,
    /// The baseline, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// The target of the design for this number of timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// The baseline of a figure, measured beside it: a figure cannot be better.
#[derive(Debug, Clone, Serialize)]
pub struct Floor {
    /// The work of the baseline.
    pub about: &'static str,
    /// The median of the rounds.
    pub median: f64,
    /// The value of each round, in order.
    pub rounds: Vec<f64>,
}

/// The target of the design, and the verdict on the figure.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// The target in the words of the design.
    pub text: &'static str,
    /// Met or missed.
    pub verdict: Verdict,
}

/// The verdict on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The target is met.
    Met,
    /// The target is missed.
    Missed,
}

impl Verdict {
    /// Returns the verdict as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
        }
    }
}

impl Report {
    /// Creates a report without rows.
    pub(crate) const fn new(command: String, machine: Machine) -> Self {
        Self {
            command,
            version: env!("CARGO_PKG_VERSION"),
            machine,
            rows: Vec::new(),
            failed: None,
        }
    }

    /// Returns the row of this name; creates it at its first round.
    pub(crate) fn row(&mut self, name: &'static str, about: String, items: u64) -> &mut Row {
        let place = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name, about, items, figures: Vec::new() });
            self.rows.len() - 1
        });
        &mut self.rows[place]
    }

    /// Returns the row of this name, if it was measured.
    pub fn find(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

impl Row {
    /// Adds the value of a round to a figure.
    pub(crate) fn add(&mut self, name: &'static str, unit: &'static str, value: f64) -> &mut Self {
        match self.figures.iter_mut().find(|figure| figure.name == name) {
            Some(figure) => {
                figure.rounds.push(value);
                figure.median = median(&figure.rounds);
            }
            None => self.figures.push(Figure {
                name,
                unit,
                median: value,
                rounds: vec![value],
                floor: None,
                target: None,
            }),
        }
        self
    }

    /// Adds the value of a round to the baseline of an existing figure.
    pub(crate) fn beside(&mut self, name: &str, about: &'static str, value: f64) -> &mut Self {
        if let Some(figure) = self.figures.iter_mut().find(|figure| figure.name == name) {
            let floor =
                figure.floor.get_or_insert(Floor { about, median: value, rounds: Vec::new() });
            floor.rounds.push(value);
            floor.median = median(&floor.rounds);
        }
        self
    }

    /// Returns the figure of this name, if it was measured.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// Returns the middle value; for an even number of values, the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, expected) in
            [(&[5.0][..], 5.0), (&[3.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 2.0, 3.0], 2.5)]
        {
            assert!((median(values) - expected).abs() < f64::EPSILON, "{values:?}");
        }
    }

    #[test]
    fn rounds_of_a_row_come_together() {
        let machine = Machine::of(std::path::Path::new("."));
        let mut report = Report::new("duly-bench engine".to_owned(), machine);
        for value in [3.0, 1.0, 2.0] {
            let row = report.row("floor", "the disk".to_owned(), 10);
            row.add("p50", "ms", value).beside("p50", "nothing", value / 2.0);
        }
        let row = report.find("floor").unwrap();
        assert_eq!((report.rows.len(), row.items), (1, 10));
        let figure = row.figure("p50").unwrap();
        assert_eq!((figure.median, figure.rounds.len()), (2.0, 3));
        let floor = figure.floor.as_ref().unwrap();
        assert_eq!((floor.median, floor.rounds.len()), (1.0, 3));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][0]["figures"][0]["median"], 2.0);
        assert_eq!(json["rows"][0]["figures"][0]["floor"]["median"], 1.0);
        assert!(report.to_string().contains("floor"), "{report}");
    }
}
