//! The reference page of the configuration, made from the table of keys.

use std::fmt::Write;

use super::keys::KEYS;

const OPENING: &str = "\
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
and not the same as none.
";

/// Markdown for `docs/reference/config.md`.
pub fn reference_markdown() -> String {
    let mut page = OPENING.to_owned();
    let mut section = "";
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            // Writing to a String cannot fail.
            write!(page, "\n## [{section}]\n").ok();
        }
        let default =
            if key.default.is_empty() { "empty".to_owned() } else { format!("`{}`", key.default) };
        let unit = key.kind.unit().map_or_else(String::new, |unit| format!("- Unit: {unit}\n"));
        write!(
            page,
            "\n### `{}`\n\n{}\n\n- Allowed: {}\n{unit}- Default: {default}\n- Environment: `{}`\n",
            key.name,
            key.doc,
            key.kind.allowed(),
            key.variable()
        )
        .ok();
    }
    page
}
