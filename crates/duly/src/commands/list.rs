//! `duly list`: shows timers, page by page.

use clap::ValueEnum;
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;

use crate::{
    Outcome,
    args::{filter::Filter, values},
    cli::Session,
    output::{
        timers::{self, Page, RawPage, TimerRow},
        when,
    },
};

/// List timers in the order in which they are due
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// Only those in this state; without it all that are pending
    #[arg(long)]
    state: Option<State>,
    #[command(flatten)]
    filter: Filter,
}

/// The states that can be asked for.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum State {
    /// Waiting for its due time
    Scheduled,
    /// Due, not yet claimed
    Due,
    /// Being delivered
    InFlight,
    /// Waiting for its next attempt
    Retrying,
    /// Delivered
    Finished,
    /// Cancelled
    Cancelled,
    /// Given up
    Dead,
}

/// How a page is shown to people.
pub(crate) type Show = fn(&[TimerRow], Timestamp) -> String;

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let state = args.state.and_then(|state| state.to_possible_value());
    let state = state.as_ref().map(clap::builder::PossibleValue::get_name);
    let show = if state == Some("dead") { timers::dead } else { timers::pending };
    pages(session, &args.namespace, state, &args.filter, show).await
}

/// Prints the page that was asked for, or all of them as one document.
pub(crate) async fn pages(
    session: &Session,
    namespace: &NamespaceName,
    state: Option<&str>,
    filter: &Filter,
    show: Show,
) -> Outcome {
    let printer = session.printer;
    let one_document = printer.is_json() && filter.all;
    let mut cursor = filter.cursor();
    let mut shown = 0_usize;
    if one_document {
        printer.line(r#"{"timers":["#)?;
    }
    loop {
        let call = session.client.namespace(Method::GET, namespace, &["timers"]);
        let answer = call.query(&filter.query(state, cursor)).send().await?;
        if one_document {
            let page: RawPage = answer.parse()?;
            for timer in &page.timers {
                let comma = if shown == 0 { "" } else { "," };
                printer.line(&format!("{comma}{}", timer.get()))?;
                shown += 1;
            }
            cursor = page.cursor;
        } else if printer.is_json() {
            return printer.line(&answer.text);
        } else {
            let page: Page<TimerRow> = answer.parse()?;
            if !page.timers.is_empty() {
                printer.line(&show(&page.timers, when::now()))?;
            }
            shown += page.timers.len();
            cursor = page.cursor;
            if let (Some(next), false) = (&cursor, filter.all) {
                return printer.line(&format!("more: --cursor {next}, or --all for all of them"));
            }
        }
        if cursor.is_none() {
            break;
        }
    }
    if one_document {
        printer.line("]}")
    } else if shown == 0 {
        printer.line("none")
    } else {
        Ok(())
    }
}
