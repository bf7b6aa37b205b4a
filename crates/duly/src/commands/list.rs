//! `duly list`: shows timers, page by page.

use std::collections::BTreeSet;

use duly_api::{ListResponse, State, Time, Timer, View, Words as _};
use duly_core::{NamespaceName, Timestamp};
use serde_json::json;

use crate::{
    Outcome,
    args::{Filter, NamespaceArg, values},
    output::{Printer, Progress, Table, text, timers, warn_if_incomplete, when},
    session::Session,
};

/// List timers in the order of their due times
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// Only timers in this state; default all pending ones
    #[arg(long, value_parser = values::named(&values::STATES, State::as_str))]
    state: Option<State>,
    #[command(flatten)]
    filter: Filter,
}

/// Formats a page as a table.
pub(crate) type PageFormat = fn(&[Timer], Timestamp) -> Table;

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let show = match args.state {
        Some(State::Dead) => timers::dead,
        Some(State::Finished | State::Cancelled) => timers::ended,
        _ => timers::pending,
    };
    pages(session, &args.named.namespace, args.state, &args.filter, show).await
}

/// Prints the requested page, or all pages one after the other.
pub(crate) async fn pages(
    session: &Session,
    namespace: &NamespaceName,
    state: Option<State>,
    filter: &Filter,
    show: PageFormat,
) -> Outcome {
    let printer = session.printer;
    // All pages are one JSON document, which is printed piece by piece.
    let is_one_document = printer.is_json() && !printer.is_ndjson() && filter.all;
    let mut progress = Progress::new(printer);
    let mut cursor = filter.cursor.clone();
    let (mut shown, mut searched) = (0, 0);
    let mut unavailable_shards = BTreeSet::new();
    if is_one_document {
        printer.line(r#"{"timers":["#)?;
    }
    loop {
        let call = session.http.get(namespace, &["timers"]);
        // A table shows no payloads, so none are requested.
        let view = (!printer.is_json()).then_some(View::Summary);
        let reply = match call
            .query(&filter.query(state, cursor.as_deref(), view))
            .send_patiently(printer)
            .await
        {
            Ok(reply) => reply,
            Err(failure) => {
                // A later call that goes on from here would not tell of them.
                end(printer, unavailable_shards)?;
                return Err(failure);
            }
        };
        let page: ListResponse = reply.parse()?;
        progress.clear();
        unavailable_shards.extend(page.unavailable_shards);
        if printer.is_ndjson() || is_one_document {
            for timer in reply.items("timers")? {
                let comma = if is_one_document && shown > 0 { "," } else { "" };
                printer.json(&format!("{comma}{}", timer.get()))?;
                shown += 1;
            }
        } else if printer.is_json() {
            printer.json(&reply.text)?;
        } else if !page.timers.is_empty() {
            printer.line(&show(&page.timers, when::now()).text(printer.screen))?;
            shown += page.timers.len();
        }
        let Some(next) = &page.cursor else { break };
        searched += page.examined.unwrap_or_default();
        let so_far = page.examined.map(|_| search_progress(searched, page.up_to.as_ref()));
        if !filter.all {
            end(printer, unavailable_shards)?;
            return more(printer, next, so_far);
        }
        if let Some(so_far) = so_far {
            progress.show(0, None, &format!("{so_far}; --cursor {next}"));
        }
        cursor = page.cursor;
    }
    if is_one_document {
        let missing = match unavailable_shards.is_empty() {
            true => String::new(),
            false => format!(r#","unavailable_shards":{}"#, json!(unavailable_shards)),
        };
        printer.line(&format!("]{missing}}}"))?;
    }
    end(printer, unavailable_shards)?;
    match printer.is_json() {
        false if shown == 0 => printer.line("none"),
        _ => Ok(()),
    }
}

/// Prints the unavailable shards whose timers are missing.
fn end(printer: Printer, unavailable_shards: BTreeSet<u32>) -> Outcome {
    let shards = Vec::from_iter(unavailable_shards);
    warn_if_incomplete(&shards);
    if printer.is_ndjson() && !shards.is_empty() {
        printer.json(&json!({ "unavailable_shards": shards }).to_string())?;
    }
    Ok(())
}

/// Prints that there is a next page.
fn more(printer: Printer, cursor: &str, so_far: Option<String>) -> Outcome {
    if printer.is_ndjson() {
        return printer.json(&json!({ "cursor": cursor }).to_string());
    }
    if printer.is_json() {
        return Ok(());
    }
    let cursor = text::line(cursor);
    if let Some(so_far) = so_far {
        printer.line(&so_far)?;
    }
    printer.line(&format!("more: --cursor {cursor}, or --all for all of them"))
}

/// Returns the progress of a search as text.
fn search_progress(examined: u64, up_to: Option<&Time>) -> String {
    let timers = text::count(examined, "timer");
    match up_to {
        Some(up_to) => format!("examined {timers}, due up to {up_to}"),
        None => format!("examined {timers}"),
    }
}
