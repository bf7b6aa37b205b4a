//! One screen of `duly top`, as lines that fit a width and a height.
//!
//! The module is pure and prints nothing, so that tests see the screen of a terminal of any size. It
//! escapes text from elsewhere (names, reasons).

use super::{
    rates::Quantiles,
    view::{Row, View},
};
use crate::output::{Tone, text, when};

/// Characters of a value with its name and the space behind it.
const CELL: usize = 20;
/// Most reasons that are shown.
const REASONS_MAX: usize = 3;
/// Width from which a row has all columns.
const WIDE: usize = 72;

/// A line with its tone.
#[derive(Debug, PartialEq)]
pub(super) struct Line(pub(super) Tone, pub(super) String);

/// The size of the screen.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// The parts of the screen around the figures.
pub(super) struct ScreenFrame<'a> {
    /// The address of the server.
    pub(super) server: &'a str,
    /// The reason why the server is not reachable now.
    pub(super) unreachable_reason: Option<&'a str>,
    /// The meaning of the keys, for the last line.
    pub(super) keys: Option<&'a str>,
}

/// Returns the lines for a screen of this size. No line is wider, and there are no more lines than rows.
pub(super) fn lines(view: Option<&View>, frame: &ScreenFrame<'_>, size: Size) -> Vec<Line> {
    let mut lines = Vec::new();
    push_heading(&mut lines, view, frame);
    if let Some(view) = view {
        push_figures(&mut lines, view, size.columns);
        push_table(&mut lines, view, size.columns);
    }
    let keys = frame.keys.map(|keys| Line(Tone::Faint, keys.to_owned()));
    lines.truncate(size.rows.saturating_sub(usize::from(keys.is_some())));
    lines.extend(keys);
    lines.truncate(size.rows);
    for Line(_, text) in &mut lines {
        *text = cut(text.trim_end(), size.columns);
    }
    lines
}

fn push_heading(lines: &mut Vec<Line>, view: Option<&View>, frame: &ScreenFrame<'_>) {
    let version = view.and_then(|view| view.version.as_deref()).unwrap_or("");
    let (tone, state) = match (frame.unreachable_reason, view) {
        (Some(_), _) => (Tone::Bad, "no response"),
        (None, None) => (Tone::Busy, "waiting for the first interval"),
        (None, Some(view)) if !view.ready => (Tone::Bad, "not ready"),
        (None, Some(view)) if view.restarted => (Tone::Warning, "ready, restarted just now"),
        (None, Some(_)) => (Tone::Good, "ready"),
    };
    lines.push(Line(tone, format!("{state}  {}  {version}", frame.server)));
    if let Some(unreachable_reason) = frame.unreachable_reason {
        lines.push(Line(
            Tone::Bad,
            format!("{unreachable_reason} (polling again; the figures are old)"),
        ));
    } else if let Some(view) = view {
        let reasons = view.reasons.iter().take(REASONS_MAX);
        lines.extend(reasons.map(|reason| Line(Tone::Bad, reason.clone())));
    }
    lines.push(Line(Tone::Plain, String::new()));
}

fn push_figures(lines: &mut Vec<Line>, view: &View, columns: usize) {
    let rates = &view.per_second;
    let rates = [
        ("scheduled", rates.scheduled),
        ("cancelled", rates.cancelled),
        ("fired", rates.fired),
        ("acked", rates.acknowledged),
        ("failed", rates.failed),
        ("retried", rates.retried),
        ("dead", rates.dead),
        ("refused", rates.refused),
    ];
    push_cells(lines, columns, rates.map(|(name, rate)| (name, format!("{}/s", short(rate)))));
    for (name, quantiles) in [("late", &view.lateness), ("commit", &view.commit)] {
        let cell = |what: &str, value: String| (format!("{name} {what}"), value);
        let ms = |pick: fn(&Quantiles) -> f64| {
            quantiles.as_ref().map_or_else(|| "-".to_owned(), |q| duration(pick(q)))
        };
        let max = match quantiles.as_ref().map(|quantiles| quantiles.max_ms) {
            None => "-".to_owned(),
            Some(None) => ">10 s".to_owned(),
            Some(Some(ms)) => format!("<={}", duration(ms)),
        };
        let cells =
            [cell("p50", ms(|q| q.p50_ms)), cell("p99", ms(|q| q.p99_ms)), cell("max", max)];
        push_cells(lines, columns, cells);
    }
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), text::bytes);
    let oldest = match view.oldest_due_ms {
        0 => "-".to_owned(),
        ms => when::distance(ms),
    };
    let cells = [
        ("pending", count(view.pending)),
        ("due", count(view.due)),
        ("oldest", oldest),
        ("in flight", count(view.in_flight)),
        ("dead", count(view.dead)),
        ("disk free", bytes(view.disk_free_bytes)),
        ("memory", bytes(view.resident_bytes)),
    ];
    push_cells(lines, columns, cells);
    lines.push(Line(Tone::Plain, String::new()));
}

/// Adds cells, with as many on a line as fit.
fn push_cells(
    lines: &mut Vec<Line>,
    columns: usize,
    cells: impl IntoIterator<Item = (impl AsRef<str>, String)>,
) {
    let cells: Vec<_> = cells
        .into_iter()
        .map(|(name, value)| {
            let width = (CELL - 2).saturating_sub(name.as_ref().len());
            format!("{}{value:>width$}  ", name.as_ref())
        })
        .collect();
    let each = (columns / CELL).max(1);
    lines.extend(cells.chunks(each).map(|cells| Line(Tone::Plain, cells.concat())));
}

fn push_table(lines: &mut Vec<Line>, view: &View, columns: usize) {
    let heading = ["NAMESPACE", "DESTINATION", "PENDING", "DUE", "FLIGHT", "FIRED/S", "STATE"];
    lines.push(Line(Tone::Strong, row(heading.map(str::to_owned), columns)));
    for namespace in &view.namespaces {
        let Row { name, destination, .. } = namespace;
        let (tone, state) = state(namespace);
        let cells = [
            name.clone(),
            destination.clone(),
            count(namespace.pending),
            count(namespace.due),
            count(namespace.in_flight),
            short(namespace.fired_per_second),
            state.to_owned(),
        ];
        lines.push(Line(tone, row(cells, columns)));
    }
    if view.more_namespaces {
        let more = format!("only the first {} by name are polled", view.namespaces.len());
        lines.push(Line(Tone::Faint, more));
    }
}

fn state(row: &Row) -> (Tone, &'static str) {
    match (row.paused, row.breaker) {
        (true, _) => (Tone::Warning, "paused"),
        (false, Some("open")) => (Tone::Bad, "open"),
        (false, Some("half_open")) => (Tone::Warning, "half open"),
        (false, Some(_)) => (Tone::Plain, "closed"),
        (false, None) => (Tone::Plain, "-"),
    }
}

/// Formats the cells of a row. A narrow screen gets the most important cells only.
fn row(
    [name, destination, pending, due, flight, rate, state]: [String; 7],
    columns: usize,
) -> String {
    if columns < WIDE {
        let width = columns.saturating_sub(20).max(4);
        return format!("{:<width$} {due:>8} {state:<10}", cut(&name, width));
    }
    let rest = columns - 47;
    let left = rest / 2;
    let right = rest - left;
    let (name, destination) = (cut(&name, left), cut(&destination, right));
    format!(
        "{name:<left$} {destination:<right$} {pending:>8} {due:>8} {flight:>7} {rate:>8} {state:<9}"
    )
}

/// Cuts a text to a number of characters, and escapes it for the terminal.
fn cut(text: &str, chars_max: usize) -> String {
    let whole = text::line(text);
    if whole.chars().count() <= chars_max {
        return whole;
    }
    text::preview(&whole, chars_max.saturating_sub(1)).chars().take(chars_max).collect()
}

#[expect(clippy::cast_precision_loss)]
fn count(number: u64) -> String {
    if number < 10_000 { number.to_string() } else { short(number as f64) }
}

/// Formats a number: `0`, `12.5`, `1234`, `123k`, `1.2M`.
fn short(value: f64) -> String {
    match value {
        value if value < 0.05 => "0".to_owned(),
        value if value < 100.0 => format!("{value:.1}"),
        value if value < 9_999.5 => format!("{value:.0}"),
        value if value < 999_950.0 => format!("{:.1}k", value / 1e3),
        value if value < 999_950_000.0 => format!("{:.1}M", value / 1e6),
        value => format!("{:.1}G", value / 1e9),
    }
}

fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1_000.0),
    }
}

#[cfg(test)]
mod tests;
