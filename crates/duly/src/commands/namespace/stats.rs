//! `duly namespace stats` and `lanes`: counts, and what each lane does.

use duly_core::NamespaceName;
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    cli::Session,
    output::{
        fields::Fields,
        table::{self, Column, Table},
        terminal::Tone,
        when,
    },
};

/// The lanes of an answer; of its other fields the table shows whatever there is.
#[derive(Deserialize)]
struct Stats<Lane> {
    lanes: Vec<Lane>,
}

/// A lane; what only push lanes have is absent for others.
#[derive(Deserialize)]
struct LaneRow {
    lane: String,
    due: u64,
    retry_due: u64,
    in_flight: u64,
    state: Option<String>,
    backlog: Option<u64>,
    in_flight_max: Option<u64>,
    per_second_max: Option<u64>,
    breaker: Option<String>,
    failures_in_a_row: Option<u64>,
    next_probe_in_ms: Option<u64>,
    diverted: Option<bool>,
}

/// Everything.
pub(super) async fn stats(namespace: &NamespaceName, session: &Session) -> Outcome {
    let answer = session.http.namespace(Method::GET, namespace, &["stats"]).send().await?;
    let printer = session.printer;
    printer.answer(&answer, || {
        let fields: Fields = answer.parse()?;
        let Stats { lanes }: Stats<LaneRow> = answer.parse()?;
        let pairs = fields.pairs(when::now()).into_iter();
        // A row without a name goes on with the one before it: another lane.
        let counts = pairs.filter(|(name, _)| name != "lanes" && !name.is_empty());
        let counts = table::of_pairs(printer.screen(), counts);
        let lanes = if lanes.is_empty() {
            String::new()
        } else {
            format!("\n{}", of_lanes(&lanes).text(printer.screen()))
        };
        Ok(counts + &lanes)
    })
}

/// The lanes alone.
pub(super) async fn lanes(namespace: &NamespaceName, session: &Session) -> Outcome {
    let answer = session.http.namespace(Method::GET, namespace, &["stats"]).send().await?;
    let printer = session.printer;
    if printer.is_json() {
        let Stats { lanes }: Stats<Box<RawValue>> = answer.parse()?;
        return printer.json_list("lanes", lanes.iter().map(|lane| lane.get()));
    }
    let Stats { lanes }: Stats<LaneRow> = answer.parse()?;
    if lanes.is_empty() {
        return printer.line("none");
    }
    printer.line(&of_lanes(&lanes).text(printer.screen()))
}

fn of_lanes(lanes: &[LaneRow]) -> Table {
    let columns = [
        Column::Whole("lane"),
        Column::Whole("state"),
        Column::Whole("breaker"),
        Column::Number("due"),
        Column::Number("retries due"),
        Column::Number("in flight"),
        Column::Number("at most"),
        Column::Number("a second"),
        Column::Number("backlog"),
    ];
    let mut table = Table::new(columns);
    for lane in lanes {
        let number = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
        let mut state = lane.state.clone().unwrap_or_default();
        if lane.diverted == Some(true) {
            state.push_str(", to the fallback");
        }
        let tone = match lane.breaker.as_deref() {
            Some("open") => Tone::Bad,
            Some("half_open") => Tone::Warning,
            _ => Tone::Plain,
        };
        let cells = [
            lane.lane.clone(),
            state,
            lane.breaker_in_words(),
            lane.due.to_string(),
            lane.retry_due.to_string(),
            lane.in_flight.to_string(),
            number(lane.in_flight_max),
            number(lane.per_second_max),
            number(lane.backlog),
        ];
        table.row(tone, cells);
    }
    table
}

impl LaneRow {
    fn breaker_in_words(&self) -> String {
        let Some(breaker) = &self.breaker else {
            return String::new();
        };
        let failures = match self.failures_in_a_row {
            Some(failures) if failures > 0 => format!(", {failures} failures"),
            _ => String::new(),
        };
        let probe = self
            .next_probe_in_ms
            .map_or_else(String::new, |ms| format!(", next attempt in {}", when::distance(ms)));
        format!("{breaker}{failures}{probe}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::terminal::Screen;

    #[test]
    fn a_lane_that_is_left_alone_says_why_and_until_when() {
        let stats: Stats<LaneRow> = serde_json::from_str(
            r#"{"lanes":[
                {"lane":"pull","due":1,"retry_due":0,"in_flight":2},
                {"lane":"http://a:1","due":3,"retry_due":4,"in_flight":0,"state":"shut","backlog":7,
                 "in_flight_max":100,"breaker":"open","failures_in_a_row":10,
                 "next_probe_in_ms":61000,"diverted":true,"attempts_in_flight":0,
                 "retries_in_flight":0}]}"#,
        )
        .expect("an answer");
        let text = of_lanes(&stats.lanes).text(Screen::default());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with(" pull"), "{text}");
        for part in ["shut, to the fallback", "open, 10 failures, next attempt in 1m 1s", "100"] {
            assert!(lines[2].contains(part), "{part}: {text}");
        }
    }
}
