//! Writes log lines to standard error, as text for people or as JSON for programs. Lines for the journal of systemd
//! begin with their priority, so that `journalctl -p warning` finds them. The lines of each call site are limited.

use std::{
    borrow::Cow,
    ffi::OsStr,
    fmt,
    io::{self, IsTerminal as _},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use duly_core::Timestamp;
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

use super::line_limit::LineLimit;

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
            builder.event_format(Lines::new(format::format(), format, is_for_journal)).try_init()
        }
        Format::Json => builder
            .json()
            .event_format(Lines::new(format::format().json(), format, is_for_journal))
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

/// Formats events within the limit of their call sites. For the journal, each line begins with the priority of its
/// event.
struct Lines<F> {
    format: F,
    kind: Format,
    is_for_journal: bool,
    limit: LineLimit,
}

impl<F> Lines<F> {
    fn new(format: F, kind: Format, is_for_journal: bool) -> Self {
        Self { format, kind, is_for_journal, limit: LineLimit::default() }
    }
}

/// Returns the line that tells of those that were not written.
fn suppressed(kind: Format, number: u64, level: Level, target: &str) -> String {
    let time = Timestamp::saturating_from_unix_ms(unix_ms());
    let text = "similar lines were not written: too many in a short time";
    match kind {
        Format::Text => format!("{time} {level:>5} {target}: {number} {text}\n"),
        Format::Json => {
            let line = serde_json::json!({
                "timestamp": time.to_string(),
                "level": level.as_str(),
                "fields": { "message": text, "lines": number },
                "target": target,
            });
            format!("{line}\n")
        }
    }
}

/// Returns the present time. Log lines have that of the system's clock.
fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
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
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let suppressed = match self.limit.admit(event.metadata(), Instant::now()) {
            None => return Ok(()),
            Some(0) => String::new(),
            Some(number) => suppressed(self.kind, number, level, target),
        };
        if !self.is_for_journal {
            writer.write_str(&suppressed)?;
            return self.format.format_event(context, writer, event);
        }
        let mut text = suppressed;
        self.format.format_event(context, Writer::new(&mut text), event)?;
        writer.write_str(&with_priority(level, &text))
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
    use std::sync::Arc;

    use parking_lot::Mutex;
    use serde_json::Value;

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

    /// Returns the lines of 1,000 events of one call site, and of one of another.
    fn logged(format: Format) -> Vec<String> {
        let buffer = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&buffer);
        let builder = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || Shared(Arc::clone(&writer)));
        let emit = || {
            (0..1_000).for_each(|n| tracing::warn!(n, "a stranger did it"));
            tracing::info!("another");
        };
        match format {
            Format::Text => {
                let lines = Lines::new(format::format(), format, false);
                tracing::subscriber::with_default(builder.event_format(lines).finish(), emit);
            }
            Format::Json => {
                let lines = Lines::new(format::format().json(), format, false);
                let subscriber = builder.json().event_format(lines).finish();
                tracing::subscriber::with_default(subscriber, emit);
            }
        }
        let text = String::from_utf8(buffer.lock().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[derive(Clone)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn p10_a_call_site_cannot_fill_the_log() {
        for format in [Format::Text, Format::Json] {
            let lines = logged(format);
            assert!((201..=220).contains(&lines.len()), "{} lines", lines.len());
            assert!(lines.last().unwrap().contains("another"), "{lines:?}");
            if format == Format::Json {
                let parsed = lines.iter().map(|line| serde_json::from_str::<Value>(line));
                assert!(parsed.into_iter().all(|line| line.is_ok()), "{lines:?}");
            }
        }
    }

    #[test]
    fn the_number_of_suppressed_lines_is_written_in_the_same_form() {
        let line = suppressed(Format::Text, 7, Level::WARN, "rustls::conn");
        let expected =
            " WARN rustls::conn: 7 similar lines were not written: too many in a short time\n";
        assert!(line.ends_with(expected), "{line}");
        let line = suppressed(Format::Json, 7, Level::WARN, "rustls::conn");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["fields"]["lines"], 7);
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
