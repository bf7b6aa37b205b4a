//! The reference page of the configuration, made from the table of keys.

use std::fmt::Write;

use super::keys::KEYS;

/// Markdown for `docs/reference/config.md`.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         Duly needs no configuration. What is set comes from four places; a later one wins: the \
         default, the file (`duly serve --config duly.toml`), the environment, the flags. \
         `duly config show` prints every value in effect with the place it comes from; \
         `duly config check` says whether the server would take it.\n\n\
         Numbers of bytes are integers or text with a unit (`64KiB`, `32MiB`, `2GiB`). Durations \
         are text such as `1m30s` or integer milliseconds. In the environment and on the command \
         line lists are separated by commas. Unknown sections, keys and `DULY_…__…` variables are \
         refused.\n\n\
         ```toml\n[server]\nlisten = \"127.0.0.1:3859\"\n\n[store]\ndata = \"./duly-data\"\n```\n",
    );
    let mut section = "";
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            // Writing to a String cannot fail.
            write!(page, "\n## [{section}]\n").ok();
        }
        let default =
            if key.default.is_empty() { "empty".to_owned() } else { format!("`{}`", key.default) };
        write!(
            page,
            "\n### `{}`\n\n{}\n\n- Allowed: {}\n- Default: {default}\n- Environment: `{}`\n",
            key.name,
            key.doc,
            key.kind.allowed(),
            key.variable()
        )
        .ok();
    }
    page
}
