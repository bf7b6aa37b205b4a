//! The one look of tables.

use comfy_table::{Table, presets};

/// A table with these headings.
pub(crate) fn with_headings(headings: &[&str]) -> Table {
    let mut table = bare();
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    table
}

/// A table of two columns: what, and its value.
pub(crate) fn of_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> String {
    let mut table = bare();
    for (name, value) in pairs {
        table.add_row([name, value]);
    }
    shown(&table)
}

/// The table's text, without the spaces that would end its lines.
pub(crate) fn shown(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}
