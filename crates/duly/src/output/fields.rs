//! Formats any JSON object as pairs for people: in the server's order, nested names joined by a full
//! stop, times with their distance from now.
//!
//! The values are kept as raw text, so that a payload is shown unchanged.

use duly_api::Time;
use duly_core::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_with::{Map, serde_as};

use super::{OutputStream, text, when};

/// Longest value that is shown on a terminal, in characters.
const VALUE_CHARS_MAX: usize = 200;

/// The fields of a JSON object, in their order.
#[serde_as]
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Fields(#[serde_as(as = "Map<_, _>")] Vec<(String, Box<RawValue>)>);

/// The moment for which values are shown, and the length at which they are cut.
#[derive(Clone, Copy)]
struct View {
    now: Timestamp,
    chars_max: usize,
}

impl Fields {
    /// Returns the pairs for people, at `now`. Values are whole unless the screen is a terminal.
    pub(crate) fn pairs(&self, now: Timestamp, screen: OutputStream) -> Vec<(String, String)> {
        let chars_max = screen.cut_at(VALUE_CHARS_MAX);
        let mut pairs = Vec::new();
        self.collect("", View { now, chars_max }, &mut pairs);
        pairs
    }

    fn collect(&self, prefix: &str, view: View, pairs: &mut Vec<(String, String)>) {
        for (name, value) in &self.0 {
            let path = format!("{prefix}{}", text::preview(name, VALUE_CHARS_MAX));
            let raw = value.get();
            if name == "payload" {
                pairs.push((path, text::preview(raw, view.chars_max)));
            } else if let Ok(inner) = serde_json::from_str::<Self>(raw) {
                if inner.0.is_empty() {
                    pairs.push((path, "{}".to_owned()));
                } else {
                    inner.collect(&format!("{path}."), view, pairs);
                }
            } else if let Ok(items) = serde_json::from_str::<Vec<Box<RawValue>>>(raw) {
                collect_items(&path, &items, view, pairs);
            } else {
                pairs.push((path, scalar(raw, view)));
            }
        }
    }
}

/// Formats a list of plain values as one line, and a list of objects as one line each.
fn collect_items(
    path: &str,
    items: &[Box<RawValue>],
    view: View,
    pairs: &mut Vec<(String, String)>,
) {
    let objects: Option<Vec<Fields>> =
        items.iter().map(|item| serde_json::from_str(item.get()).ok()).collect();
    match objects {
        Some(objects) if !objects.is_empty() => {
            for (place, object) in objects.iter().enumerate() {
                let mut values = Vec::new();
                object.collect("", view, &mut values);
                let line: Vec<_> =
                    values.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
                let path = if place == 0 { path } else { "" };
                pairs.push((path.to_owned(), line.join(", ")));
            }
        }
        _ if items.is_empty() => pairs.push((path.to_owned(), "(none)".to_owned())),
        _ => {
            let line: Vec<_> = items.iter().map(|item| scalar(item.get(), view)).collect();
            pairs.push((path.to_owned(), line.join(", ")));
        }
    }
}

/// Formats text without quotes, times with their distance from now, and other values unchanged.
fn scalar(raw: &str, view: View) -> String {
    let View { now, chars_max } = view;
    match serde_json::from_str::<String>(raw) {
        Ok(text) => text::preview(&when::with_distance(&Time::Text(text), now), chars_max),
        Err(_) => text::preview(raw, chars_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_pairs_in_their_order() {
        let fields: Fields = serde_json::from_str(
            r#"{"z":1,"due_at":"1970-01-01T00:01:00.000Z","payload":{"b": 1.0},
                "retry":{"jitter":0.2,"none":{}},"tags":["a","b"],
                "history":[{"attempt":1,"outcome":"failed"},{"attempt":2,"outcome":"x"}],"empty":[]}"#,
        )
        .expect("an object");
        let now = Timestamp::MIN;
        let pairs: Vec<String> = fields
            .pairs(now, OutputStream::default())
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            pairs,
            [
                "z=1",
                "due_at=1970-01-01T00:01:00.000Z (in 1m)",
                r#"payload={"b": 1.0}"#,
                "retry.jitter=0.2",
                "retry.none={}",
                "tags=a, b",
                "history=attempt 1, outcome failed",
                "=attempt 2, outcome x",
                "empty=(none)",
            ]
        );
    }

    #[test]
    fn values_are_cut_on_a_terminal_alone() {
        let long = "x".repeat(VALUE_CHARS_MAX + 1);
        let document = serde_json::json!({ "id": long, "payload": [long], "tags": [long], "a": [{ "b": long }] });
        let fields: Fields = serde_json::from_str(&document.to_string()).expect("an object");
        let is_cut = |screen| {
            let pairs = fields.pairs(Timestamp::MIN, screen).into_iter();
            pairs.map(|(_, value)| value.contains('…')).collect::<Vec<_>>()
        };
        assert_eq!(is_cut(OutputStream::default()), [false; 4]);
        assert_eq!(is_cut(OutputStream::terminal(80)), [true; 4]);
    }
}
