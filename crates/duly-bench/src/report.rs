//! What was found: rows of figures, each with its rounds.
//!
//! A figure's value is the median of its rounds. Beside it may stand its floor, measured in the same
//! run, and the target that the design sets for it. The same report prints as tables for people and
//! serializes for programs.

mod print;

use serde::Serialize;

use crate::machine::Machine;

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The command that printed it.
    pub command: String,
    /// Version of Duly.
    pub version: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured, in that order.
    pub rows: Vec<Row>,
    /// What ended the run before all of it was measured. The rows above stand; the last of them may
    /// lack figures.
    pub failed: Option<String>,
}

/// One thing that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What was done, in a line.
    pub about: String,
    /// How many items each round had.
    pub items: u64,
    /// What was found.
    pub figures: Vec<Figure>,
}

/// One figure of a row.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The median of the rounds.
    pub median: f64,
    /// Every round, in order.
    pub rounds: Vec<f64>,
    /// What the machine alone does, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// What the design asks for at this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// What a figure cannot be expected to beat: measured beside it.
#[derive(Debug, Clone, Serialize)]
pub struct Floor {
    /// What was measured.
    pub about: &'static str,
    /// The median of the rounds.
    pub median: f64,
    /// Every round, in order.
    pub rounds: Vec<f64>,
}

/// What the design asks for, and whether the figure is that.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// As the design words it.
    pub text: &'static str,
    /// Met or missed.
    pub verdict: Verdict,
}

/// Whether a target is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is.
    Met,
    /// It is not.
    Missed,
}

impl Verdict {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
        }
    }
}

impl Report {
    /// A report without rows.
    pub(crate) const fn new(command: String, machine: Machine) -> Self {
        Self {
            command,
            version: env!("CARGO_PKG_VERSION"),
            machine,
            rows: Vec::new(),
            failed: None,
        }
    }

    /// The row of this name, new at its first round.
    pub(crate) fn row(&mut self, name: &'static str, about: String, items: u64) -> &mut Row {
        let place = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name, about, items, figures: Vec::new() });
            self.rows.len() - 1
        });
        &mut self.rows[place]
    }

    /// The row of this name, if it was measured.
    pub fn find(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

impl Row {
    /// Adds a round's value to a figure.
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

    /// Puts a round's floor beside a figure that is there.
    pub(crate) fn beside(&mut self, name: &str, about: &'static str, value: f64) -> &mut Self {
        if let Some(figure) = self.figures.iter_mut().find(|figure| figure.name == name) {
            let floor =
                figure.floor.get_or_insert(Floor { about, median: value, rounds: Vec::new() });
            floor.rounds.push(value);
            floor.median = median(&floor.rounds);
        }
        self
    }

    /// The figure of this name, if it was measured.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// The middle value; of an even number the mean of the two in the middle.
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
