//! `duly namespace stats`, `lanes` and `forecast`: counts, the state of each lane, and the timers that
//! become due, with a bar for each bucket of time.

use duly_api::{Lane, NamespaceForecast, NamespaceStats, PushLane};
use duly_core::{Millis, NamespaceName, Timestamp};

use crate::{
    Outcome,
    args::{NamespaceArg, values},
    output::{Fields, OutputStream, Table, Tone, table, text, warn_if_incomplete, when},
    session::Session,
};

/// Length of the longest bar, in columns.
const BAR_COLUMNS: u64 = 40;

/// Prints the counts and the lanes.
pub(super) async fn stats(namespace: &NamespaceName, session: &Session) -> Outcome {
    let response = session.http.get(namespace, &["stats"]).send().await?;
    let printer = session.printer;
    printer.document(&response.text, || {
        let fields: Fields = response.parse()?;
        let NamespaceStats { lanes, unavailable_shards, .. } = response.parse()?;
        warn_if_incomplete(&unavailable_shards);
        let pairs = fields.pairs(when::now(), printer.screen).into_iter();
        // A row without a name continues the one before it: another lane.
        let counts = pairs.filter(|(name, _)| name != "lanes" && !name.is_empty());
        let counts = table::of_pairs(printer.screen, counts);
        let lanes = if lanes.is_empty() {
            String::new()
        } else {
            format!("\n{}", of_lanes(&lanes).text(printer.screen))
        };
        Ok(counts + &lanes)
    })
}

/// Prints the lanes alone.
pub(super) async fn lanes(namespace: &NamespaceName, session: &Session) -> Outcome {
    let response = session.http.get(namespace, &["stats"]).send().await?;
    let printer = session.printer;
    let NamespaceStats { lanes, unavailable_shards, .. } = response.parse()?;
    warn_if_incomplete(&unavailable_shards);
    if printer.is_json() {
        return printer.json_list("lanes", response.items("lanes")?);
    }
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

/// Show how many timers become due in each bucket of future time
///
/// Each pending timer is counted once: as overdue, in flight, in the bucket of its due time or next
/// attempt, or later. Buckets begin at multiples of their length. If timers change meanwhile, the counts
/// are approximate.
#[derive(clap::Args)]
pub(super) struct ForecastArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Length of a bucket, 1s to 366d
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = values::duration)]
    bucket: Millis,
    /// Number of buckets, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = values::whole::<u32, 1, 1000>)]
    count: u32,
}

/// Prints the forecast.
pub(super) async fn forecast(args: &ForecastArgs, session: &Session) -> Outcome {
    let call = session.http.get(&args.named.namespace, &["forecast"]);
    let query = [("bucket", args.bucket.to_string()), ("count", args.count.to_string())];
    let screen = session.printer.screen;
    session.print(call.query(&query), |forecast| chart(&forecast, when::now(), screen)).await
}

fn chart(forecast: &NamespaceForecast, now: Timestamp, screen: OutputStream) -> String {
    let NamespaceForecast { overdue, in_flight, buckets, later, unavailable_shards, .. } = forecast;
    warn_if_incomplete(unavailable_shards);
    let ends = [overdue, later].into_iter().copied();
    let most = buckets.iter().map(|bucket| bucket.due).chain(ends).max().unwrap_or(0);
    let mut rows = Table::new(&["from", "due", ""]).numbers(&["due"]).cut("");
    let mut row = |name: String, due: u64| {
        rows.row(Tone::Plain, [name, due.to_string(), bar(due, most)]);
    };
    row("overdue".to_owned(), *overdue);
    for run in buckets.chunk_by(|bucket, next| bucket.due == 0 && next.due == 0) {
        let [first, others @ ..] = run else { continue };
        let from = when::with_distance(&first.from.clone().unwrap_or_default(), now);
        match others.len() {
            0 => row(from, first.due),
            _ => row(format!("{from} and {} more", text::count(others.len() as u64, "bucket")), 0),
        }
    }
    row("later".to_owned(), *later);
    let mut shown = rows.text(screen);
    if *in_flight > 0 {
        shown.push_str(&format!("and {in_flight} in flight\n"));
    }
    shown
}

/// Returns a bar in eighths of a column; a value above 0 has at least one eighth.
fn bar(due: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if due == 0 {
        return String::new();
    }
    let share = u128::from(due) * u128::from(BAR_COLUMNS) * 8 / u128::from(most.max(due));
    let eighths = usize::try_from(share).unwrap_or(usize::MAX).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use duly_api::{Bucket, Time};

    use super::*;

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

    #[test]
    fn bars_are_proportional_and_never_empty() {
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(50, 100), "█".repeat(20));
        assert_eq!(bar(100, 100), "█".repeat(40));
        assert_eq!(bar(3, 640), "▏");
        assert_eq!(bar(u64::MAX, u64::MAX), "█".repeat(40));
    }

    #[test]
    fn empty_buckets_in_a_row_are_one_row() {
        let bucket = |minute: u64, due| {
            let from = Timestamp::from_unix_ms(minute * 60_000).expect("in range");
            Bucket { from: Some(Time::from(from)), due }
        };
        let due = [0, 0, 0, 4, 0, 2, 0, 0];
        let buckets = (0..).zip(due).map(|(minute, due)| bucket(minute, due)).collect();
        let forecast = NamespaceForecast { buckets, ..NamespaceForecast::default() };
        let text = chart(&forecast, Timestamp::MIN, OutputStream::default());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 8, "{text}");
        for (line, part) in [
            (2, "00:00:00.000Z (now) and 2 buckets more"),
            (3, "00:03:00.000Z (in 3m)"),
            (4, "00:04:00.000Z (in 4m)  "),
            (5, "00:05:00.000Z"),
            (6, "00:06:00.000Z (in 6m) and 1 bucket more "),
        ] {
            assert!(lines[line].contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_bucket_and_both_ends() {
        let bucket = |from: &str, due| Bucket { from: Some(Time::Text(from.to_owned())), due };
        let forecast = NamespaceForecast {
            overdue: 2,
            in_flight: 3,
            buckets: vec![
                bucket("1970-01-01T00:00:00.000Z", 0),
                bucket("1970-01-01T00:01:00.000Z", 4),
            ],
            later: 1,
            ..NamespaceForecast::default()
        };
        let text = chart(
            &forecast,
            Timestamp::from_unix_ms(30_000).expect("in range"),
            OutputStream::default(),
        );
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(lines[1].contains("overdue") && lines[1].ends_with(&"█".repeat(20)), "{text}");
        assert!(lines[2].contains("30s ago") && lines[2].ends_with('0'), "{text}");
        assert!(lines[3].contains("in 30s") && lines[3].ends_with(&"█".repeat(40)), "{text}");
        assert!(lines[4].contains("later") && lines[4].ends_with(&"█".repeat(10)), "{text}");
        assert_eq!(lines[5], "and 3 in flight");
    }
}
