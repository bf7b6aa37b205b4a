//! Report as tables: figures that all rows share, figures of single rows, and figures with
//! baselines and targets.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::{Figure, Report, Row};

/// Figures that most rows have: name, heading.
const COLUMNS: &[(&str, &str)] = &[
    ("per_second", "per s"),
    ("cpu", "CPU µs"),
    ("cpu_engine", "engine"),
    ("cpu_sync", "sync"),
    ("cpu_callers", "callers"),
    ("cpu_other", "other"),
    ("p50", "p50 ms"),
    ("p99", "p99"),
    ("p99.9", "p99.9"),
    ("p99.99", "p99.99"),
    ("max", "max"),
];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.command)?;
        writeln!(f, "{}\n", self.machine_line())?;
        if self.machine.build == "debug" {
            writeln!(f, "This is a debug build: its figures say nothing.\n")?;
        }
        write_table(f, &self.side_by_side(), 1..=COLUMNS.len() + 1)?;
        writeln!(f)?;
        write_table(f, &self.particular(), 2..=2)?;
        writeln!(f)?;
        write_table(f, &self.judged(), 2..=4)?;
        writeln!(f)?;
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        for row in &self.rows {
            writeln!(f, "{:width$}  {}", row.name, row.about)?;
        }
        if let Some(failed) = &self.failed {
            writeln!(f, "\nThe run ended early: {failed}")?;
        }
        Ok(())
    }
}

impl Report {
    fn machine_line(&self) -> String {
        let machine = &self.machine;
        let cpu = machine.cpu.as_deref().unwrap_or("unknown CPU");
        let filesystem = machine.filesystem.as_deref().unwrap_or("unknown file system");
        let memory = machine
            .memory_bytes
            .map_or_else(|| "unknown".to_owned(), |bytes| format!("{} GiB", bytes >> 30));
        format!(
            "duly {} · {} cores, {cpu} · {memory} RAM · {} · {filesystem} · {} build",
            self.version, machine.cores, machine.kernel, machine.build
        )
    }

    fn side_by_side(&self) -> Table {
        let mut table = bare();
        let headings = ["row", "items"].into_iter().chain(COLUMNS.iter().map(|(_, text)| *text));
        table.set_header(headings.map(str::to_uppercase));
        for row in &self.rows {
            let cells = COLUMNS.iter().map(|(name, _)| {
                row.figure(name).map_or_else(String::new, |figure| shown(figure.median))
            });
            let start = [row.name.to_owned(), grouped(&row.items.to_string())];
            table.add_row(start.into_iter().chain(cells));
        }
        table
    }

    fn particular(&self) -> Table {
        let mut table = bare();
        table.set_header(["ROW", "FIGURE", "VALUE", "UNIT", "ROUNDS"]);
        for row in &self.rows {
            for figure in particular_of(row) {
                let rounds: Vec<String> = figure.rounds.iter().copied().map(shown).collect();
                let rounds = if rounds.len() > 1 { rounds.join(" ") } else { String::new() };
                let value = shown(figure.median);
                table.add_row([row.name, figure.name, &value, figure.unit, &rounds]);
            }
        }
        table
    }

    /// Returns the table of figures that have a baseline or a target.
    fn judged(&self) -> Table {
        let mut table = bare();
        table.set_header([
            "ROW", "FIGURE", "VALUE", "FLOOR", "RATIO", "UNIT", "TARGET", "", "FLOOR IS",
        ]);
        let figures = self
            .rows
            .iter()
            .flat_map(|row| row.figures.iter().map(move |figure| (row.name, figure)));
        for (row, figure) in figures {
            let (floor, target) = (figure.floor.as_ref(), figure.target.as_ref());
            if floor.is_none() && target.is_none() {
                continue;
            }
            let ratio = floor.filter(|floor| floor.median > 0.0);
            table.add_row([
                row,
                figure.name,
                &shown(figure.median),
                &floor.map_or_else(String::new, |floor| shown(floor.median)),
                &ratio.map_or_else(String::new, |floor| shown(figure.median / floor.median)),
                figure.unit,
                target.map_or("", |target| target.text),
                target.map_or("", |target| target.verdict.as_str()),
                floor.map_or("", |floor| floor.about),
            ]);
        }
        table
    }
}

/// Returns the figures without a column, and `per_second` if there are several rounds.
fn particular_of(row: &Row) -> impl Iterator<Item = &Figure> {
    row.figures.iter().filter(|figure| {
        let has_column = COLUMNS.iter().any(|(name, _)| *name == figure.name);
        !has_column || (figure.name == "per_second" && figure.rounds.len() > 1)
    })
}

fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// Writes a table. The columns `numbers` are aligned right.
fn write_table(
    f: &mut fmt::Formatter<'_>,
    table: &Table,
    numbers: std::ops::RangeInclusive<usize>,
) -> fmt::Result {
    let mut table = table.clone();
    for place in numbers {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Formats a number with its significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => grouped(&format!("{value:.0}")),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Groups digits by three.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_the_digits_that_matter() {
        for (value, expected) in [
            (0.0, "0.00"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1_234.4, "1 234"),
            (1_234_567.8, "1 234 568"),
        ] {
            assert_eq!(shown(value), expected);
        }
    }
}
