//! Writes log lines to standard error, as text for people or as JSON for programs. Lines for the journal of systemd
//! begin with their priority, so that `journalctl -p warning` finds them.

use std::{
    borrow::Cow,
    ffi::OsStr,
    fmt,
    io::{self, IsTerminal as _},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    filter::LevelFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{self, Writer},
    },
    registry::LookupSpan,
};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs: one object on each line.
    Json,
}

/// Returns `true` if the text is a valid filter, such as `info` or `info,duly_node=debug`.
///
/// A word alone must be a level: the library takes any other word for the name of a crate, and then logs
/// nothing else. A mistyped level would switch the log off.
pub fn is_filter(text: &str) -> bool {
    let is_level =
        |word: &str| !word.trim().is_empty() && word.trim().parse::<LevelFilter>().is_ok();
    let mut words = text.split(',').filter(|word| !word.contains(['=', '[', ']']));
    !text.trim().is_empty() && words.all(is_level) && EnvFilter::try_new(text).is_ok()
}

/// Starts logging, unless the process logs already. Returns `true` if this call started it.
pub fn init(filter: &str, format: Format) -> bool {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let no_color = std::env::var_os("NO_COLOR");
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(has_colours(io::stderr().is_terminal(), no_color.as_deref()));
    let is_for_journal = is_journal_on_stderr();
    match format {
        Format::Text => {
            builder.event_format(Lines { format: format::format(), is_for_journal }).try_init()
        }
        Format::Json => builder
            .json()
            .event_format(Lines { format: format::format().json(), is_for_journal })
            .try_init(),
    }
    .is_ok()
}

/// Returns `true` if standard error is a stream to the journal of systemd, which then names its file.
fn is_journal_on_stderr() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|file| stream == format!("{}:{}", file.st_dev, file.st_ino))
}

/// Formats events. For the journal, each line begins with the priority of its event.
struct Lines<F> {
    format: F,
    is_for_journal: bool,
}

impl<S, N, F> FormatEvent<S, N> for Lines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if !self.is_for_journal {
            return self.format.format_event(context, writer, event);
        }
        let mut text = String::new();
        self.format.format_event(context, Writer::new(&mut text), event)?;
        writer.write_str(&with_priority(*event.metadata().level(), &text))
    }
}

/// Returns a message for standard error. For the journal, each line begins with the priority of `level`.
pub fn message(level: Level, text: &str) -> Cow<'_, str> {
    if is_journal_on_stderr() { with_priority(level, text).into() } else { text.into() }
}

fn with_priority(level: Level, text: &str) -> String {
    let priority = priority(level);
    text.lines().map(|line| format!("<{priority}>{line}\n")).collect()
}

/// Returns the priority of syslog for a level: `sd-daemon(3)`.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Returns `true` if log lines have colours: on a terminal, unless `NO_COLOR` is set and not empty
/// (<https://no-color.org>).
fn has_colours(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_level_is_no_filter() {
        for good in ["info", "WARN", "off", "info,duly_node=debug", "duly_node=debug"] {
            assert!(is_filter(good), "{good:?}");
        }
        for bad in
            ["", " ", "loud", "infoo", "info,", "info,duly_node", "info,duly_node=loud", "3x"]
        {
            assert!(!is_filter(bad), "{bad:?}");
        }
    }

    #[test]
    fn only_a_terminal_is_coloured_and_only_if_it_wants() {
        for (is_terminal, no_color, expected) in [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (false, None, false),
            (false, Some(""), false),
        ] {
            let no_color = no_color.map(OsStr::new);
            assert_eq!(has_colours(is_terminal, no_color), expected, "{is_terminal} {no_color:?}");
        }
    }
}
