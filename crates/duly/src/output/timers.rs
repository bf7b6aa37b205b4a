//! Timers and firings as tables.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use duly_core::{State, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    table::{Column, Table},
    terminal::Tone,
    text, when,
};

/// Most of a payload that is looked at for a column, in characters.
const PAYLOAD_CHARS_MAX: usize = 200;

/// The fields of a timer that people see in a line.
#[derive(Deserialize)]
pub(crate) struct Timer {
    pub(crate) id: String,
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) existing: bool,
    #[serde(default)]
    pub(crate) replaced: bool,
    pub(crate) due_at: Option<String>,
    #[serde(default)]
    attempts: u32,
    leased_until: Option<String>,
    next_attempt_at: Option<String>,
    finished_at: Option<String>,
    cancelled_at: Option<String>,
    dead_at: Option<String>,
    delivery_id: Option<String>,
    dead_reason: Option<String>,
    last_error: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    payload: Option<Box<RawValue>>,
    payload_text: Option<String>,
    payload_base64: Option<String>,
}

/// The fields of a leased firing that people see in a line.
#[derive(Deserialize)]
pub(crate) struct Firing {
    pub(crate) token: String,
    id: String,
    attempt: u32,
    due_at: Option<String>,
    leased_until: Option<String>,
    payload: Option<Box<RawValue>>,
    payload_text: Option<String>,
    payload_base64: Option<String>,
}

/// What a payload begins with, in the form in which it was given.
fn preview(json: Option<&RawValue>, plain: Option<&str>, base64: Option<&str>) -> String {
    match (json, plain, base64) {
        // JSON stays text: what is nested too deep to be read as values is shown all the same.
        (Some(json), _, _) => text::preview(&text::one_line(json.get()), PAYLOAD_CHARS_MAX),
        (_, Some(plain), _) => text::preview(plain, PAYLOAD_CHARS_MAX),
        (_, _, Some(base64)) => {
            let bytes = STANDARD.decode(base64).unwrap_or_default();
            text::preview_bytes(&bytes, PAYLOAD_CHARS_MAX)
        }
        (None, None, None) => String::new(),
    }
}

impl Timer {
    fn payload(&self) -> String {
        let base64 = self.payload_base64.as_deref();
        preview(self.payload.as_deref(), self.payload_text.as_deref(), base64)
    }
}

impl Firing {
    fn payload(&self) -> String {
        let base64 = self.payload_base64.as_deref();
        preview(self.payload.as_deref(), self.payload_text.as_deref(), base64)
    }
}

/// Pending timers.
pub(crate) fn pending(rows: &[Timer], now: Timestamp) -> Table {
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
        let next = match (row.leased_until.as_deref(), row.next_attempt_at.as_deref()) {
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
pub(crate) fn ended(rows: &[Timer], now: Timestamp) -> Table {
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
        let due_at = moment(row.due_at.as_deref(), now).0;
        let attempts = row.attempts.to_string();
        let state = row.state.clone();
        let cells = [row.id.clone(), state, ended_at, distance, due_at, attempts];
        table.row(tone(&row.state), cells);
    }
    table
}

/// Dead letters.
pub(crate) fn dead(rows: &[Timer], now: Timestamp) -> Table {
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
            moment(row.due_at.as_deref(), now).0,
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
pub(crate) fn firings(rows: &[Firing], now: Timestamp) -> Table {
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
        let (due_at, distance) = moment(row.due_at.as_deref(), now);
        let cells = [
            row.id.clone(),
            row.attempt.to_string(),
            due_at,
            distance,
            moment(row.leased_until.as_deref(), now).1,
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
        Err(_) => at.to_owned(),
    }
}

/// What a state looks like; one that is newer than this command looks plain.
fn tone(state: &str) -> Tone {
    match State::parse(state) {
        Some(State::InFlight) => Tone::Busy,
        Some(State::Retrying) => Tone::Warning,
        Some(State::Dead) => Tone::Bad,
        Some(State::Finished | State::Cancelled) => Tone::Faint,
        Some(State::Scheduled | State::Due) | None => Tone::Plain,
    }
}

/// A time, and how far away it is.
fn moment(at: Option<&str>, now: Timestamp) -> (String, String) {
    let at = at.unwrap_or_default();
    let distance = Timestamp::parse(at).map(|at| when::relative(at, now));
    (at.to_owned(), distance.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &str) -> String {
        let timer = format!(r#"{{"id":"a","state":"due"{fields}}}"#);
        serde_json::from_str::<Timer>(&timer).expect("a timer").payload()
    }

    #[test]
    fn a_payload_nested_deeper_than_a_parser_goes_is_shown_all_the_same() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(shown(&format!(r#","payload":{deep}"#)).starts_with("[[["));
    }

    #[test]
    fn a_payload_is_shown_as_what_it_was_given_as() {
        for (fields, expected) in [
            (",\"payload\":{\n\"a\": 1}", "{ \"a\": 1}"),
            (r#","payload_text":"a\u001b""#, "a\\u{1b}"),
            (r#","payload_base64":"YWI=""#, "ab"),
            (r#","payload_base64":"/w==""#, "(1 bytes, not text)"),
            ("", ""),
        ] {
            assert_eq!(shown(fields), expected);
        }
    }
}
