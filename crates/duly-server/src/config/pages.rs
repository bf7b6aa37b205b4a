//! The pages of the keys, made from the types: `docs/reference/config.md`, and the example file
//! `docs/reference/duly.toml`, which `duly config example` prints.

use std::fmt::Write;

use super::keys::KEYS;

/// Letters of a line of the example file.
const WIDTH: usize = 98;

/// The page above its first section.
const REFERENCE_OPENING: &str = "\
# Configuration

Duly needs no configuration. What is set comes from four places; a later one wins: the default, the \
file (`duly serve --config duly.toml`), the environment, the flags of `duly serve`. All of it is read \
once, at the start. A file is read only when it is named.

```toml
[server]
listen = \"127.0.0.1:3859\"

[store]
data = \"./duly-data\"
```

`duly config example` prints a file with every key, commented out, with what this page says of it: \
[duly.toml](duly.toml) is that file. `duly config show` prints every value in effect with the place \
it comes from. `duly config check` says whether the server would take it: all that is wrong at once, \
each with its line, variable or flag, the value seen and what is allowed, and whether the files that \
it names can be used. Both take the flags of `duly serve`.

Numbers of bytes are integers or text with a unit (`64KiB`, `32MiB`, `2GiB`, `1TiB`: powers of 1024). \
Durations are text such as `1m30s` or integer milliseconds. In the environment and on the command \
line lists are separated by commas. Unknown sections, keys and `DULY_…__…` variables are refused, and \
so are variables that lack only the second `_` (`DULY_SERVER_LISTEN`). An empty variable is a value, \
and not the same as none. [Limits](limits.md) says what happens at each limit.
";

/// The file above its first section.
const EXAMPLE_OPENING: &str = "\
# The configuration of a Duly server, with every key that there is.
#
# Nothing here has to be set: each key is commented out and shows its default. To set one, take away
# the # in front of it, and use the file with `duly serve --config FILE`. It is read once, at the
# start. A later place wins over an earlier one: default, this file, environment, flag.
# `duly config check --config FILE` says whether a server would take it, `duly config show` what is
# in effect and where it comes from. Sections and keys that do not exist are refused.
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
