//! The whole configuration as a file for people: every key with its meaning, bounds, unit and
//! default, each ready to be switched on. Printed by `duly config example`.

use std::fmt::Write;

use super::{
    keys::{KEYS, Key},
    value::{self, Written},
};

/// Letters of a line.
const WIDTH: usize = 98;

/// What stands above the first section.
const OPENING: &str = "\
# The configuration of a Duly server, with every key that there is.
#
# Nothing here has to be set: each key is commented out and shows its default. To set one, take away
# the # in front of it, and use the file with `duly serve --config FILE`. It is read once, at the
# start. A later place wins over an earlier one: default, this file, environment, flag.
# `duly config check --config FILE` says whether a server would take it, `duly config show` what is
# in effect and where it comes from. Sections and keys that do not exist are refused.
";

/// The text of `docs/reference/duly.toml`.
pub fn example_toml() -> String {
    let mut text = OPENING.to_owned();
    let mut section = "";
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            // Writing to a String cannot fail.
            write!(text, "\n[{section}]\n").ok();
        }
        text.push('\n');
        comment(&mut text, "", key.doc);
        comment(&mut text, "Allowed: ", &key.kind.allowed());
        if let Some(unit) = key.kind.unit() {
            comment(&mut text, "Unit: ", unit);
        }
        comment(&mut text, "Environment: ", &key.variable());
        writeln!(text, "#{} = {}", key.bare_name(), default_of(key)).ok();
    }
    text
}

/// The default as the file would have it. A default is always allowed: a test loads each of them.
fn default_of(key: &Key) -> String {
    let written = Written::Text(key.default.to_owned());
    let value = key.kind.check(&written);
    value.map_or_else(|_| String::new(), |value| value::toml_text(key.kind, &value))
}

/// A comment, in lines of bounded length; all but the first are indented where it has a title.
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
