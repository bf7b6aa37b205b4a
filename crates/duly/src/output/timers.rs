//! Timers and firings as tables.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use duly_core::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{table, text, when};

/// Longest payload, tag list or error in a column, in characters.
const COLUMN_CHARS_MAX: usize = 60;

/// What a list shows of a timer.
#[derive(Deserialize)]
pub(crate) struct TimerRow {
    id: String,
    state: String,
    due_at: Option<String>,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    tags: Vec<String>,
    last_error: Option<String>,
    delivery_id: Option<String>,
    #[serde(flatten)]
    payload: PayloadRow,
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
    #[serde(flatten)]
    payload: PayloadRow,
}

/// A payload in the form in which it was given. Flattened fields are buffered, which raw text
/// cannot be; a preview does not need the exact text.
#[derive(Deserialize)]
struct PayloadRow {
    payload: Option<serde_json::Value>,
    payload_text: Option<String>,
    payload_base64: Option<String>,
}

impl PayloadRow {
    fn preview(&self) -> String {
        match (&self.payload, &self.payload_text, &self.payload_base64) {
            (Some(json), _, _) => text::preview(&json.to_string(), COLUMN_CHARS_MAX),
            (_, Some(plain), _) => text::preview(plain, COLUMN_CHARS_MAX),
            (_, _, Some(encoded)) => match STANDARD.decode(encoded) {
                Ok(bytes) => text::preview_bytes(&bytes, COLUMN_CHARS_MAX),
                Err(_) => text::preview(encoded, COLUMN_CHARS_MAX),
            },
            _ => String::new(),
        }
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
pub(crate) fn pending(rows: &[TimerRow], now: Timestamp) -> String {
    let mut table =
        table::with_headings(&["id", "state", "due", "", "attempts", "tags", "payload"]);
    for row in rows {
        let (due_at, distance) = due(row.due_at.as_deref(), now);
        table.add_row([
            text::preview(&row.id, usize::MAX),
            row.state.clone(),
            due_at,
            distance,
            row.attempts.to_string(),
            text::preview(&row.tags.join(" "), COLUMN_CHARS_MAX),
            row.payload.preview(),
        ]);
    }
    table::shown(&table)
}

/// Dead letters.
pub(crate) fn dead(rows: &[TimerRow], now: Timestamp) -> String {
    let mut table =
        table::with_headings(&["id", "delivery id", "due", "", "attempts", "last error"]);
    for row in rows {
        let (due_at, distance) = due(row.due_at.as_deref(), now);
        table.add_row([
            text::preview(&row.id, usize::MAX),
            row.delivery_id.clone().unwrap_or_default(),
            due_at,
            distance,
            row.attempts.to_string(),
            text::preview(row.last_error.as_deref().unwrap_or(""), COLUMN_CHARS_MAX),
        ]);
    }
    table::shown(&table)
}

/// Leased firings: each with its token on a line of its own, whole, to be copied.
pub(crate) fn firings(rows: &[FiringRow], now: Timestamp) -> String {
    let mut table =
        table::with_headings(&["id", "attempt", "due", "lease ends", "payload", "token"]);
    for row in rows {
        let distance = |at: &str| match Timestamp::parse(at) {
            Ok(at) => when::relative(at, now),
            Err(_) => text::preview(at, COLUMN_CHARS_MAX),
        };
        table.add_row([
            text::preview(&row.id, usize::MAX),
            row.attempt.to_string(),
            distance(&row.due_at),
            distance(&row.leased_until),
            row.payload.preview(),
            row.token.clone(),
        ]);
    }
    table::shown(&table)
}

fn due(due_at: Option<&str>, now: Timestamp) -> (String, String) {
    let text = due_at.unwrap_or("").to_owned();
    let distance =
        Timestamp::parse(&text).map_or_else(|_| String::new(), |at| when::relative(at, now));
    (text, distance)
}
