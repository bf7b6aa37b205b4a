//! The pages of the keys, made from the types: `docs/reference/config.md`, and the example file
//! `docs/reference/duly.toml`, which `duly config example` prints.

use std::fmt::Write;

use super::keys::KEYS;

/// Letters of a line of the example file.
const WIDTH: usize = 98;

/// The page above its first section.
const REFERENCE_OPENING: &str = include_str!("reference_opening.md");

/// The file above its first section.
const EXAMPLE_OPENING: &str = "\
# The configuration of a Duly server, with every key that there is.
#
# No key is required: each one is commented out and shows its default. To set one, remove the # in
# front of it, and use the file with `duly serve --config FILE`. The file is read once, at startup.
# A later place wins over an earlier one: default, this file, environment, flag.
# `duly config check --config FILE` checks whether a server would accept it. `duly config show`
# prints the values in effect and their origins. Sections and keys that do not exist are refused.
";

/// Returns the text of `docs/reference/config.md`.
pub fn reference_markdown() -> String {
    let mut page = REFERENCE_OPENING.to_owned();
    let mut section = "";
    for key in &*KEYS {
        if key.section != section {
            section = &key.section;
            // Writing to a String cannot fail.
            write!(page, "\n## [{section}]\n").ok();
        }
        write!(page, "\n### `{}`\n\n{}\n\n- Allowed: {}\n", key.name, key.doc, key.allowed).ok();
        if let Some(unit) = &key.unit {
            writeln!(page, "- Unit: {unit}").ok();
        }
        match key.default_text() {
            text if text.is_empty() => writeln!(page, "- Default: empty"),
            text => writeln!(page, "- Default: `{text}`"),
        }
        .ok();
        writeln!(page, "- Environment: `{}`", key.variable()).ok();
    }
    page
}

/// Returns the text of `docs/reference/duly.toml`.
pub fn example_toml() -> String {
    let mut text = EXAMPLE_OPENING.to_owned();
    let mut section = "";
    for key in &*KEYS {
        if key.section != section {
            section = &key.section;
            write!(text, "\n[{section}]\n").ok();
        }
        text.push('\n');
        comment(&mut text, "", &key.doc);
        comment(&mut text, "Allowed: ", &key.allowed);
        if let Some(unit) = &key.unit {
            comment(&mut text, "Unit: ", unit);
        }
        comment(&mut text, "Environment: ", &key.variable());
        writeln!(text, "#{} = {}", key.field, key.toml(&key.default)).ok();
    }
    text
}

/// Appends a comment in lines of bounded length. With a title, all lines but the first are indented.
fn comment(text: &mut String, title: &str, words: &str) {
    let indent = if title.is_empty() { "#" } else { "#  " };
    let mut line = format!("# {title}");
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && line.chars().count() + word.chars().count() + 1 > WIDTH {
            writeln!(text, "{}", line.trim_end()).ok();
            line = format!("{indent} ");
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    writeln!(text, "{line}").ok();
}
