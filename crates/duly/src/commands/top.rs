//! `duly top`: shows the activity of a server, updated at every interval.
//!
//! ```text
//!   scrape (two polls of the server) ──► rates (differences) ──► view ──► screen ──► live
//!                                                                 └──► JSON
//! ```
//!
//! 1. At a terminal it is a screen with keys. Otherwise it prints a number of snapshots, for scripts.
//! 2. If the first poll fails, the command fails like any other.
//! 3. If a later poll fails, the server is shown as not reachable and is polled again.

mod live;
mod rates;
mod scrape;
mod screen;
mod view;

use duly_core::Millis;
use serde_json::json;
use tokio::time::sleep;

use self::{
    scrape::NAMESPACES_MAX,
    screen::{ScreenFrame, Size},
    view::View,
};
use crate::{Outcome, args::values, failure::Failure, session::Session};

/// Columns of a snapshot that is not printed to a terminal.
const SNAPSHOT_COLUMNS: usize = 100;
/// Lines of a snapshot, including those of the namespaces.
const SNAPSHOT_ROWS: usize = NAMESPACES_MAX + 40;

/// Watch the activity of the server: rates, lateness, backlog
///
/// At a terminal it is a screen that is updated at every interval: q or Ctrl-C ends it, p pauses it, the
/// keys + and - change the interval. Otherwise, and with --once, --count or --output json, it prints one
/// snapshot after each interval and ends.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Time between two polls of the server, 200ms to 1m
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Millis,
    /// Print one snapshot and end
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print this many snapshots and end
    #[arg(long, value_name = "N", value_parser = values::within::<1, 10_000>)]
    count: Option<u16>,
}

fn interval(text: &str) -> Result<Millis, String> {
    let refuse = || "it must be a duration from 200ms to 1m, such as 500ms or 5s".to_owned();
    let interval = values::duration(text).map_err(|why| format!("{}: {why}", refuse()))?;
    if (200..=60_000).contains(&interval.ms()) { Ok(interval) } else { Err(refuse()) }
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let printer = session.printer;
    let first = scrape::poll(session).await?;
    let version = scrape::version(session).await;
    let is_live = printer.screen.is_terminal && !printer.is_json() && !printer.is_quiet;
    if is_live && !args.once && args.count.is_none() {
        return live::run(session, args.interval, version, first).await;
    }
    let mut last = first;
    let mut failed = None;
    for left in (0..args.count.unwrap_or(1)).rev() {
        sleep(args.interval.to_std()).await;
        match scrape::poll(session).await {
            Ok(now) => {
                print(session, &View::between(&last, &now, version.clone()))?;
                last = now;
                failed = None;
            }
            Err(failure) if left > 0 => {
                print_unreachable(session, &failure)?;
                failed = Some(failure);
            }
            Err(failure) => failed = Some(failure),
        }
    }
    failed.map_or(Ok(()), Err)
}

fn print(session: &Session, view: &View) -> Outcome {
    let printer = session.printer;
    if printer.is_json() {
        return printer.json(&serde_json::to_string(view).expect("counts and texts are JSON"));
    }
    let server = session.http.shown();
    let frame = ScreenFrame { server: &server, unreachable_reason: None, keys: None };
    let columns = printer.screen.width.map_or(SNAPSHOT_COLUMNS, usize::from);
    let lines = screen::lines(Some(view), &frame, Size { columns, rows: SNAPSHOT_ROWS });
    let lines: Vec<_> = lines.iter().map(|line| printer.screen.paint(line.0, &line.1)).collect();
    printer.line(&(lines.join("\n") + "\n"))
}

/// Prints that an interval has no snapshot; others follow.
fn print_unreachable(session: &Session, failure: &Failure) -> Outcome {
    let why = failure.to_string();
    if session.printer.is_json() {
        return session.printer.json(&json!({ "unreachable": why }).to_string());
    }
    session.printer.line(&format!("no response: {}", crate::output::text::lines(&why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_refusal_names_the_bounds() {
        for text in ["200ms", "1m", "60000ms", "1s"] {
            interval(text).expect(text);
        }
        for text in ["199ms", "61s", "0", "5", "soon", "-1s"] {
            let refusal = interval(text).expect_err(text);
            assert!(refusal.contains("200ms to 1m"), "{refusal}");
        }
    }
}
