//! `duly audit`: what administrators have done.

use std::time::Duration;

use duly_api::access::{AuditRecord, ListAuditResponse};
use reqwest::Method;
use serde_json::json;

use crate::{
    Outcome,
    failure::Failure,
    output::{Table, Tone},
    session::Session,
};

/// Most records of one call.
const PAGE_MAX: u32 = 1_000;
/// Time between two polls for new records.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Show what administrators have done, the newest last
///
/// The server keeps the last 10,000 changes of 90 days: of keys, tenants, namespaces and of the store, and
/// changes of many timers at once. All changes and refusals are in the file of audit.file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Most records, 1 to 1000
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Wait for new records and show them, until Ctrl-C; as JSON each time a document of its own
    #[arg(long)]
    follow: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let mut records = newest(session, PAGE_MAX).await?;
    let first = records.len().saturating_sub(args.limit as usize);
    print(session, &records[first..], true)?;
    if !args.follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        let page = newest(session, PAGE_MAX).await?;
        let is_new = |record: &&AuditRecord| !records.contains(record);
        let new: Vec<_> = page.iter().filter(is_new).cloned().collect();
        if !new.is_empty() {
            print(session, &new, false)?;
        }
        records = page;
    }
}

/// Returns the newest records, the newest last.
async fn newest(session: &Session, limit: u32) -> Result<Vec<AuditRecord>, Failure> {
    let call = session.http.service(Method::GET, &["audit"]);
    let page: ListAuditResponse =
        call.query(&[("limit", limit.to_string())]).send().await?.parse()?;
    Ok(page.records.into_iter().rev().collect())
}

/// Prints records; without `has_head` only their rows.
fn print(session: &Session, records: &[AuditRecord], has_head: bool) -> Outcome {
    let document = json!({ "records": records }).to_string();
    session.printer.document(&document, || {
        let mut table =
            Table::new(&["time", "key", "address", "operation", "target", "items", "outcome"]);
        for record in records {
            let tone = if record.outcome == "ok" { Tone::Plain } else { Tone::Warning };
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            let items = record.items.map_or_else(|| "-".to_owned(), |items| items.to_string());
            let cells = [
                record.time.to_string(),
                match (&record.key, &record.subject) {
                    (Some(key), Some(subject)) => format!("{key} ({subject})"),
                    (key, _) => text(key),
                },
                text(&record.address),
                record.operation.clone(),
                text(&record.namespace.clone().or_else(|| record.target.clone())),
                items,
                record.outcome.clone(),
            ];
            table.row(tone, cells);
        }
        let text = table.text(session.printer.screen);
        Ok(match has_head {
            true => text,
            false => text.split_once('\n').map_or(String::new(), |(_, rows)| rows.to_owned()),
        })
    })
}
