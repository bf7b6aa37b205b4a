//! `duly namespace stats` and `lanes`: counts, and the state of each lane.

use duly_api::{Lane, NamespaceStats, PushLane};
use duly_core::NamespaceName;

use crate::{
    Outcome,
    cli::Session,
    output::{Fields, Table, Tone, table, when},
};

/// Prints the counts and the lanes.
pub(super) async fn stats(namespace: &NamespaceName, session: &Session) -> Outcome {
    let response = session.http.get(namespace, &["stats"]).send().await?;
    let printer = session.printer;
    printer.document(&response.text, || {
        let fields: Fields = response.parse()?;
        let NamespaceStats { lanes, .. } = response.parse()?;
        let pairs = fields.pairs(when::now()).into_iter();
        // A row without a name continues the one before it: another lane.
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

/// Prints the lanes alone.
pub(super) async fn lanes(namespace: &NamespaceName, session: &Session) -> Outcome {
    let response = session.http.get(namespace, &["stats"]).send().await?;
    let printer = session.printer;
    if printer.is_json() {
        return printer.json_list("lanes", response.items("lanes")?);
    }
    let NamespaceStats { lanes, .. } = response.parse()?;
    printer.table(&of_lanes(&lanes))
}

fn of_lanes(lanes: &[Lane]) -> Table {
    let texts = ["lane", "state", "breaker"];
    let numbers = ["due", "retries due", "in flight", "at most", "a second", "backlog"];
    let mut table = Table::new(&[&texts[..], &numbers].concat()).numbers(&numbers);
    for lane in lanes {
        let counts = [lane.due, lane.retry_due, lane.in_flight].map(|count| count.to_string());
        let push = lane.push.clone().unwrap_or_default();
        let tone = match &*push.breaker {
            "open" => Tone::Bad,
            "half_open" => Tone::Warning,
            _ => Tone::Plain,
        };
        let most = push.in_flight_max.map(|most| most.to_string()).unwrap_or_default();
        let rate = push.per_second_max.map(|rate| rate.to_string()).unwrap_or_default();
        let backlog = lane.push.as_ref().map(|push| push.backlog.to_string()).unwrap_or_default();
        let to_fallback = if push.diverted { ", to the fallback" } else { "" };
        let first = [lane.lane.clone(), format!("{}{to_fallback}", push.state), breaker(&push)];
        table.row(tone, first.into_iter().chain(counts).chain([most, rate, backlog]));
    }
    table
}

/// Returns the breaker of a push lane as text; empty for another lane.
fn breaker(push: &PushLane) -> String {
    let failures = match push.failures_in_a_row {
        0 => String::new(),
        failures => format!(", {failures} failures"),
    };
    let probe = push
        .next_probe_in_ms
        .map_or_else(String::new, |ms| format!(", next attempt in {}", when::distance(ms)));
    format!("{}{failures}{probe}", push.breaker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::OutputStream;

    #[test]
    fn lane_with_an_open_breaker_shows_its_next_attempt() {
        let lanes: Vec<Lane> = serde_json::from_str(
            r#"[
                {"lane":"pull","due":1,"retry_due":0,"in_flight":2},
                {"lane":"http://a:1","due":3,"retry_due":4,"in_flight":0,"state":"shut","backlog":7,
                 "in_flight_max":100,"breaker":"open","failures_in_a_row":10,
                 "next_probe_in_ms":61000,"diverted":true,"attempts_in_flight":0,
                 "retries_in_flight":0}]"#,
        )
        .expect("an answer");
        let text = of_lanes(&lanes).text(OutputStream::default());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with(" pull"), "{text}");
        for part in ["shut, to the fallback", "open, 10 failures, next attempt in 1m 1s", "100"] {
            assert!(lines[2].contains(part), "{part}: {text}");
        }
    }
}
