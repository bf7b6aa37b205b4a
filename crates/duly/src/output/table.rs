//! Tables: columns side by side, headings in capitals, one line per row.
//!
//! 1. Every cell is escaped for the terminal, from any source.
//! 2. On a terminal, columns of the kind `Cut` share the width that the other columns leave. So a row
//!    stays on one line. Elsewhere nothing is cut.
//! 3. Ids and tokens are never cut, so that they can be copied.
//! 4. A column without any content is left out.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, presets};

use super::{OutputStream, Tone, text};

/// Longest text in a `Cut` column on a terminal, in characters.
const CUT_CHARS_MAX: usize = 60;

/// The kind of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    /// Never cut.
    Whole,
    /// A number: never cut, aligned to the right.
    Number,
    /// Cut if it does not fit.
    Cut,
}

/// A table that is being built.
pub(crate) struct Table {
    columns: Vec<(&'static str, Column)>,
    rows: Vec<(Tone, Vec<String>)>,
}

impl Table {
    /// Returns a table with these headings. Its columns are never cut.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        let columns = headings.iter().map(|heading| (*heading, Column::Whole));
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    /// Aligns the columns with these headings to the right: they contain numbers.
    pub(crate) fn numbers(self, headings: &[&str]) -> Self {
        self.with(Column::Number, headings)
    }

    /// Cuts the column with this heading if it does not fit.
    pub(crate) fn cut(self, heading: &str) -> Self {
        self.with(Column::Cut, &[heading])
    }

    fn with(mut self, kind: Column, headings: &[&str]) -> Self {
        for (_, column) in self.columns.iter_mut().filter(|(name, _)| headings.contains(name)) {
            *column = kind;
        }
        self
    }

    /// Adds a row. Cells beyond the last column are dropped.
    pub(crate) fn row(&mut self, tone: Tone, cells: impl IntoIterator<Item = String>) {
        let cells = self.columns.iter().zip(cells).map(|(_, cell)| text::line(&cell));
        self.rows.push((tone, cells.collect()));
    }

    /// Returns `true` if the table has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table for this screen.
    pub(crate) fn text(&self, screen: OutputStream) -> String {
        let mut table = bare(screen);
        table.set_header(one_line(self.columns.iter().map(|(heading, _)| heading.to_uppercase())));
        let cut_at = screen.cut_at(CUT_CHARS_MAX);
        for (_, cells) in &self.rows {
            let cells = self.columns.iter().zip(cells).map(|((_, column), cell)| match column {
                Column::Whole | Column::Number => cell.clone(),
                Column::Cut => text::cut(cell, cut_at),
            });
            table.add_row(one_line(cells));
        }
        for (place, shown) in table.column_iter_mut().enumerate() {
            let (_, column) = self.columns[place];
            if self.rows.iter().all(|(_, cells)| cells.get(place).is_none_or(String::is_empty)) {
                shown.set_constraint(ColumnConstraint::Hidden);
                continue;
            }
            if column == Column::Number {
                shown.set_cell_alignment(CellAlignment::Right);
            }
            if column != Column::Cut {
                shown.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        // A row is one line. The first line has the headings.
        let tones = self.rows.iter().map(|(tone, _)| *tone);
        let tones = std::iter::once(Tone::Strong).chain(tones);
        let lines = table.lines().zip(tones.chain(std::iter::repeat(Tone::Plain)));
        lines.map(|(line, tone)| screen.paint(tone, line.trim_end()) + "\n").collect()
    }
}

/// Returns a table of two columns: name and value. A long value continues on the next lines.
pub(crate) fn of_pairs(
    screen: OutputStream,
    pairs: impl IntoIterator<Item = (String, String)>,
) -> String {
    let mut table = bare(screen);
    for (name, value) in pairs {
        table.add_row([text::line(&name), text::line(&value)]);
    }
    let Some(names) = table.column_mut(0) else {
        return String::new();
    };
    names.set_constraint(ColumnConstraint::ContentWidth);
    let name_columns = table.column_max_content_widths().first().copied().map_or(0, usize::from);
    let painted = table.lines().map(|line| {
        // The names come first, after the space in front of each column.
        let split = line.char_indices().nth(name_columns + 1).map_or(line.len(), |(at, _)| at);
        let (name, value) = line.split_at(split);
        let rest = &name[name.trim_end().len()..];
        let line = screen.paint(Tone::Strong, name.trim_end()) + rest + value;
        line.trim_end().to_owned() + "\n"
    });
    painted.collect()
}

/// Returns a row of one line.
fn one_line(cells: impl Iterator<Item = String>) -> Row {
    let mut row = Row::from(cells);
    row.max_height(1);
    row
}

fn bare(screen: OutputStream) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING);
    table.set_truncation_indicator("…");
    if let Some(width) = screen.width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table
}

#[cfg(test)]
mod tests;
