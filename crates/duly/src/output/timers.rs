//! Timers and firings as tables.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use duly_core::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    table::{Column, Table},
    terminal::Tone,
    text, when,
};

/// Most of a payload that is looked at for a column, in characters.
const PAYLOAD_CHARS_MAX: usize = 200;

/// What a list shows of a timer.
#[derive(Deserialize)]
pub(crate) struct TimerRow {
    id: String,
    state: String,
    due_at: Option<String>,
    next_attempt_at: Option<String>,
    leased_until: Option<String>,
    finished_at: Option<String>,
    cancelled_at: Option<String>,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    tags: Vec<String>,
    last_error: Option<String>,
    delivery_id: Option<String>,
    dead_at: Option<String>,
    dead_reason: Option<String>,
    payload: Option<Box<RawValue>>,
    payload_text: Option<String>,
    payload_base64: Option<String>,
}

/// What a lease shows of a firing.
#[derive(Deserialize)]
pub(crate) struct FiringRow {
    /// Names the lease.
    pub(crate) token: String,
    id: String,
    attempt: u32,
    due_at: String,
    leased_until: String,
    payload: Option<Box<RawValue>>,
    payload_text: Option<String>,
    payload_base64: Option<String>,
}

impl TimerRow {
    fn payload(&self) -> String {
        preview(self.payload.as_deref(), self.payload_text.as_ref(), self.payload_base64.as_ref())
    }
}

impl FiringRow {
    fn payload(&self) -> String {
        preview(self.payload.as_deref(), self.payload_text.as_ref(), self.payload_base64.as_ref())
    }
}

/// The beginning of a payload in the form in which it was given. JSON stays text: what is nested too
/// deep to be read as values is shown all the same, and spoils no page.
fn preview(json: Option<&RawValue>, plain: Option<&String>, encoded: Option<&String>) -> String {
    match (json, plain, encoded) {
        (Some(json), _, _) => text::preview(&text::one_line(json.get()), PAYLOAD_CHARS_MAX),
        (_, Some(plain), _) => text::preview(plain, PAYLOAD_CHARS_MAX),
        (_, _, Some(encoded)) => match STANDARD.decode(encoded) {
            Ok(bytes) => text::preview_bytes(&bytes, PAYLOAD_CHARS_MAX),
            Err(_) => text::preview(encoded, PAYLOAD_CHARS_MAX),
        },
        _ => String::new(),
    }
}

/// A page of a list.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    /// The timers.
    pub(crate) timers: Vec<T>,
    /// Where to go on.
    pub(crate) cursor: Option<String>,
}

/// A page whose timers stay as they are.
pub(crate) type RawPage = Page<Box<RawValue>>;

/// Pending timers.
pub(crate) fn pending(rows: &[TimerRow], now: Timestamp) -> Table {
    let columns = [
        Column::Whole("id"),
        Column::Whole("state"),
        Column::Whole("due"),
        Column::Whole(""),
        Column::Number("attempts"),
        Column::Whole("next"),
        Column::Cut("tags"),
        Column::Cut("payload"),
    ];
    let mut table = Table::new(columns);
    for row in rows {
        let (due_at, distance) = moment(row.due_at.as_deref(), now);
        let next = match (&row.leased_until, &row.next_attempt_at) {
            (Some(at), _) => format!("lease ends {}", moment(Some(at), now).1),
            (None, Some(at)) => next_attempt(at, now),
            (None, None) => String::new(),
        };
        let cells = [
            row.id.clone(),
            row.state.clone(),
            due_at,
            distance,
            row.attempts.to_string(),
            next,
            row.tags.join(" "),
            row.payload(),
        ];
        table.row(tone(&row.state), cells);
    }
    table
}

/// Timers that have ended.
pub(crate) fn ended(rows: &[TimerRow], now: Timestamp) -> Table {
    let columns = [
        Column::Whole("id"),
        Column::Whole("state"),
        Column::Whole("ended"),
        Column::Whole(""),
        Column::Whole("due"),
        Column::Number("attempts"),
    ];
    let mut table = Table::new(columns);
    for row in rows {
        let ended_at = row.finished_at.as_deref().or(row.cancelled_at.as_deref());
        let (ended_at, distance) = moment(ended_at, now);
        let due_at = row.due_at.clone().unwrap_or_default();
        let attempts = row.attempts.to_string();
        let cells = [row.id.clone(), row.state.clone(), ended_at, distance, due_at, attempts];
        table.row(tone(&row.state), cells);
    }
    table
}

/// Dead letters.
pub(crate) fn dead(rows: &[TimerRow], now: Timestamp) -> Table {
    let columns = [
        Column::Whole("id"),
        Column::Whole("delivery id"),
        Column::Whole("due"),
        Column::Whole("given up"),
        Column::Number("attempts"),
        Column::Whole("reason"),
        Column::Cut("last error"),
    ];
    let mut table = Table::new(columns);
    for row in rows {
        let cells = [
            row.id.clone(),
            row.delivery_id.clone().unwrap_or_default(),
            row.due_at.clone().unwrap_or_default(),
            moment(row.dead_at.as_deref(), now).1,
            row.attempts.to_string(),
            row.dead_reason.clone().unwrap_or_default(),
            row.last_error.clone().unwrap_or_default(),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

/// Leased firings, each with its token whole, to be copied.
pub(crate) fn firings(rows: &[FiringRow], now: Timestamp) -> Table {
    let columns = [
        Column::Whole("id"),
        Column::Number("attempt"),
        Column::Whole("due"),
        Column::Whole(""),
        Column::Whole("lease ends"),
        Column::Cut("payload"),
        Column::Whole("token"),
    ];
    let mut table = Table::new(columns);
    for row in rows {
        let (due_at, distance) = moment(Some(&row.due_at), now);
        let cells = [
            row.id.clone(),
            row.attempt.to_string(),
            due_at,
            distance,
            moment(Some(&row.leased_until), now).1,
            row.payload(),
            row.token.clone(),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

/// When the next attempt is; one that could have begun and has not waits for its lane.
fn next_attempt(at: &str, now: Timestamp) -> String {
    match Timestamp::parse(at) {
        Ok(at) if at < now => {
            format!("overdue {}", when::distance(now.saturating_since(at).ms()))
        }
        Ok(at) => format!("attempt {}", when::relative(at, now)),
        Err(_) => String::new(),
    }
}

/// What a state looks like.
fn tone(state: &str) -> Tone {
    match state {
        "in_flight" => Tone::Busy,
        "retrying" => Tone::Warning,
        "dead" => Tone::Bad,
        "finished" | "cancelled" => Tone::Faint,
        _ => Tone::Plain,
    }
}

/// A time, and how far away it is.
fn moment(at: Option<&str>, now: Timestamp) -> (String, String) {
    let text = at.unwrap_or("").to_owned();
    let distance =
        Timestamp::parse(&text).map_or_else(|_| String::new(), |at| when::relative(at, now));
    (text, distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_nested_deeper_than_a_parser_goes_spoils_no_page() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let fields = format!(r#""id":"t","due_at":"","payload":{deep}"#);
        let page = format!(r#"{{"timers":[{{"state":"due",{fields}}}]}}"#);
        let page: Page<TimerRow> = serde_json::from_str(&page).expect("a page");
        assert!(page.timers[0].payload().starts_with("[[["));
        let firing = format!(r#"{{"token":"k","attempt":1,"leased_until":"",{fields}}}"#);
        let firing: FiringRow = serde_json::from_str(&firing).expect("a firing");
        assert!(firing.payload().starts_with("[[["));
    }
}
