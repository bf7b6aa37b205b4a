//! Figures with their rounds, printed as a table of medians or as JSON.

use std::fmt;

use serde_json::{Value, json};

/// All figures of a run, in the order in which they were first added.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: &'static str,
    rounds: Vec<f64>,
}

impl Row {
    fn median(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl Table {
    /// Adds the value of one round to a figure.
    pub fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.rounds.push(value),
            None => self.rows.push(Row { name: name.to_owned(), unit, rounds: vec![value] }),
        }
    }

    /// Appends the figures of another table.
    pub(crate) fn append(&mut self, other: Self) {
        for Row { name, unit, rounds } in other.rows {
            rounds.into_iter().for_each(|value| self.add(&name, unit, value));
        }
    }

    /// Returns every figure with its median and its rounds, as JSON.
    pub fn to_json(&self) -> Value {
        self.rows
            .iter()
            .map(|row| {
                json!({ "name": row.name, "unit": row.unit, "median": row.median(), "rounds": row.rounds })
            })
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            write!(f, "{:<44}{:>14.2} {:<6}", row.name, row.median(), row.unit)?;
            if row.rounds.len() > 1 {
                let rounds: Vec<String> = row.rounds.iter().map(|v| format!("{v:.2}")).collect();
                write!(f, "  of {}", rounds.join(", "))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_rounds_is_shown() {
        let mut table = Table::default();
        for value in [3.0, 1.0, 2.0] {
            table.add("a", "ms", value);
        }
        assert_eq!(table.to_json()[0]["median"], 2.0);
        assert!(table.to_string().contains("2.00 ms"));
    }
}
