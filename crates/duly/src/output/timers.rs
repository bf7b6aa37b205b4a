//! Timers and firings as tables.

use std::time::SystemTime;

use duly_client::{Firing, Payload, PayloadForm, State, Timer};
use duly_core::Timestamp;

use super::{
    table::{Column, Table},
    terminal::Tone,
    text, when,
};
use crate::answer;

/// Most of a payload that is looked at for a column, in characters.
const PAYLOAD_CHARS_MAX: usize = 200;

/// What a payload begins with.
fn preview(payload: Option<&Payload>) -> String {
    let Some(payload) = payload else { return String::new() };
    match payload.form {
        // JSON stays text: what is nested too deep to be read as values is shown all the same.
        PayloadForm::Json => {
            let text = String::from_utf8_lossy(&payload.bytes);
            text::preview(&text::one_line(&text), PAYLOAD_CHARS_MAX)
        }
        PayloadForm::Text => {
            text::preview(&String::from_utf8_lossy(&payload.bytes), PAYLOAD_CHARS_MAX)
        }
        PayloadForm::Bytes => text::preview_bytes(&payload.bytes, PAYLOAD_CHARS_MAX),
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
        let (due_at, distance) = moment(row.due_at, now);
        let next = match (row.leased_until, row.next_attempt_at) {
            (Some(at), _) => format!("lease ends {}", moment(Some(at), now).1),
            (None, Some(at)) => next_attempt(at, now),
            (None, None) => String::new(),
        };
        let cells = [
            row.id.clone(),
            row.state.as_str().to_owned(),
            due_at,
            distance,
            row.attempts.to_string(),
            next,
            row.tags.join(" "),
            preview(row.payload.as_ref()),
        ];
        table.row(tone(row.state), cells);
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
        let ended_at = row.finished_at.or(row.cancelled_at);
        let (ended_at, distance) = moment(ended_at, now);
        let due_at = moment(row.due_at, now).0;
        let attempts = row.attempts.to_string();
        let state = row.state.as_str().to_owned();
        let cells = [row.id.clone(), state, ended_at, distance, due_at, attempts];
        table.row(tone(row.state), cells);
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
            moment(row.due_at, now).0,
            moment(row.dead_at, now).1,
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
        let (due_at, distance) = moment(row.due_at, now);
        let cells = [
            row.id.clone(),
            row.attempt.to_string(),
            due_at,
            distance,
            moment(row.leased_until, now).1,
            preview(row.payload.as_ref()),
            row.token.clone(),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

/// When the next attempt is; one that could have begun and has not waits for its lane.
fn next_attempt(at: SystemTime, now: Timestamp) -> String {
    let at = answer::moment(at);
    if at < now {
        return format!("overdue {}", when::distance(now.saturating_since(at).ms()));
    }
    format!("attempt {}", when::relative(at, now))
}

/// What a state looks like.
const fn tone(state: State) -> Tone {
    match state {
        State::InFlight => Tone::Busy,
        State::Retrying => Tone::Warning,
        State::Dead => Tone::Bad,
        State::Finished | State::Cancelled => Tone::Faint,
        State::Scheduled | State::Due => Tone::Plain,
    }
}

/// A time, and how far away it is.
fn moment(at: Option<SystemTime>, now: Timestamp) -> (String, String) {
    let Some(at) = at.map(answer::moment) else { return Default::default() };
    (at.to_string(), when::relative(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_nested_deeper_than_a_parser_goes_is_shown_all_the_same() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(preview(Some(&Payload::json_text(deep))).starts_with("[[["));
    }

    #[test]
    fn a_payload_is_shown_as_what_it_was_given_as() {
        for (payload, shown) in [
            (Payload::json_text("{\n\"a\": 1}"), "{ \"a\": 1}"),
            (Payload::text("a\u{1b}"), "a\\u{1b}"),
            (Payload::bytes(&b"ab"[..]), "ab"),
            (Payload::bytes(&b"\xff"[..]), "(1 bytes, not text)"),
        ] {
            assert_eq!(preview(Some(&payload)), shown);
        }
        assert_eq!(preview(None), "");
    }
}
