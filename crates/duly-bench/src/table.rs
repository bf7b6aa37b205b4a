//! Figures of a run, printed as a table or as JSON.

use std::fmt;

use serde_json::{Value, json};

/// All figures of a run, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: &'static str,
    value: f64,
}

impl Table {
    /// Adds a figure.
    pub(crate) fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        self.rows.push(Row { name: name.to_owned(), unit, value });
    }

    /// Appends the figures of another table.
    pub(crate) fn append(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    /// Returns all figures as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let rows = self.rows.iter();
        rows.map(|row| json!({ "name": row.name, "unit": row.unit, "value": row.value })).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { name, unit, value } in &self.rows {
            writeln!(f, "{:<44}{:>14.2} {}", name, value, unit)?;
        }
        Ok(())
    }
}
