//! Tables of timers and firings.

use duly_api::{Firing, State, Time, Timer};
use duly_core::Timestamp;

use super::{Table, Tone, text, when};

/// Returns a payload, in the form in which it was given.
fn payload(firing: &Firing) -> String {
    match (&firing.payload, &firing.payload_text, &firing.payload_base64) {
        (Some(json), ..) => text::line(&text::one_line(&String::from_utf8_lossy(json))),
        (_, Some(plain), _) => text::line(&String::from_utf8_lossy(plain)),
        (_, _, Some(bytes)) => text::preview_bytes(bytes, usize::MAX),
        (None, None, None) => String::new(),
    }
}

/// Returns a table of pending timers.
pub(crate) fn pending(rows: &[Timer], now: Timestamp) -> Table {
    let headings = ["id", "state", "due", "", "attempts", "next", "tags"];
    let mut table = Table::new(&headings).numbers(&["attempts"]).cut("tags");
    for row in rows {
        let (due_at, distance) = moment(row.due_at.as_ref(), now);
        let next = match (&row.leased_until, &row.next_attempt_at) {
            (Some(at), _) => format!("lease ends {}", moment(Some(at), now).1),
            (None, Some(at)) => next_attempt(at, now),
            (None, None) => String::new(),
        };
        let (state, attempts) = (row.state().to_string(), row.attempts.to_string());
        let cells = [row.id.clone(), state, due_at, distance, attempts, next, row.tags.join(" ")];
        table.row(tone(row), cells);
    }
    table
}

/// Returns a table of timers that have ended.
pub(crate) fn ended(rows: &[Timer], now: Timestamp) -> Table {
    let headings = ["id", "state", "ended", "", "due", "attempts"];
    let mut table = Table::new(&headings).numbers(&["attempts"]);
    for row in rows {
        let ended_at = row.finished_at.as_ref().or(row.cancelled_at.as_ref());
        let (ended_at, distance) = moment(ended_at, now);
        let due_at = moment(row.due_at.as_ref(), now).0;
        let (state, attempts) = (row.state().to_string(), row.attempts.to_string());
        table.row(tone(row), [row.id.clone(), state, ended_at, distance, due_at, attempts]);
    }
    table
}

/// Returns a table of dead letters.
pub(crate) fn dead(rows: &[Timer], now: Timestamp) -> Table {
    let headings = ["id", "delivery id", "due", "dead at", "attempts", "reason", "last error"];
    let mut table = Table::new(&headings).numbers(&["attempts"]).cut("last error");
    for row in rows {
        let cells = [
            row.id.clone(),
            row.delivery_id().to_owned(),
            moment(row.due_at.as_ref(), now).0,
            moment(row.dead_at.as_ref(), now).1,
            row.attempts.to_string(),
            row.dead_reason().to_string(),
            row.last_error().to_owned(),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

/// Returns a table of leased firings, each with its whole token, so that it can be copied.
pub(crate) fn firings(rows: &[Firing], now: Timestamp) -> Table {
    let headings = ["id", "attempt", "due", "", "lease ends", "payload", "token"];
    let mut table = Table::new(&headings).numbers(&["attempt"]).cut("payload");
    for row in rows {
        let (due_at, distance) = moment(row.due_at.as_ref(), now);
        let cells = [
            row.id.clone(),
            row.attempt.to_string(),
            due_at,
            distance,
            moment(row.leased_until.as_ref(), now).1,
            payload(row),
            row.token.clone(),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

/// Returns the time of the next attempt. An attempt whose time has passed waits for its lane.
fn next_attempt(at: &Time, now: Timestamp) -> String {
    match at.check("") {
        Ok(at) if at < now => {
            format!("overdue {}", when::distance(now.saturating_since(at).ms()))
        }
        Ok(at) => format!("attempt {}", when::relative(at, now)),
        Err(_) => at.to_string(),
    }
}

fn tone(timer: &Timer) -> Tone {
    match timer.state() {
        State::InFlight => Tone::Busy,
        State::Retrying => Tone::Warning,
        State::Dead => Tone::Bad,
        State::Finished | State::Cancelled => Tone::Faint,
        State::Scheduled | State::Due | State::Unspecified => Tone::Plain,
    }
}

/// Returns a time, and its distance from now.
fn moment(at: Option<&Time>, now: Timestamp) -> (String, String) {
    let distance = at.and_then(|at| at.check("").ok()).map(|at| when::relative(at, now));
    (at.map(Time::to_string).unwrap_or_default(), distance.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &str) -> String {
        let firing = format!(
            r#"{{"token":"t","delivery_id":"d","id":"a","occurrence":0,"attempt":1{fields}}}"#
        );
        payload(&serde_json::from_str(&firing).expect("a firing"))
    }

    #[test]
    fn deeply_nested_payload_is_shown() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(shown(&format!(r#","payload":{deep}"#)).starts_with("[[["));
    }

    #[test]
    fn payload_is_shown_in_its_original_form() {
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
