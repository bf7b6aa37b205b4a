//! `duly list`: shows timers, page by page.

use clap::ValueEnum;
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;

use crate::{
    Outcome,
    args::{filter::Filter, values},
    cli::Session,
    client::Answer,
    failure::Failure,
    output::{
        Printer,
        table::Table,
        text,
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
pub(crate) type Show = fn(&[TimerRow], Timestamp) -> Table;

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let state = args.state.and_then(|state| state.to_possible_value());
    let state = state.as_ref().map(clap::builder::PossibleValue::get_name);
    let show = match state {
        Some("dead") => timers::dead,
        Some("finished" | "cancelled") => timers::ended,
        _ => timers::pending,
    };
    pages(session, &args.namespace, state, &args.filter, show).await
}

/// Prints the page that was asked for, or all of them, one after the other.
pub(crate) async fn pages(
    session: &Session,
    namespace: &NamespaceName,
    state: Option<&str>,
    filter: &Filter,
    show: Show,
) -> Outcome {
    let printer = session.printer;
    let mut cursor = filter.cursor();
    let mut shown = Shown { printer, show, timers: 0 };
    shown.begin(filter)?;
    loop {
        let call = session.client.namespace(Method::GET, namespace, &["timers"]);
        let answer = call.query(&filter.query(state, cursor)).send().await?;
        cursor = shown.page(&answer, filter)?;
        match &cursor {
            Some(next) if !filter.all => return shown.more(next),
            Some(_) => {}
            None => return shown.end(filter),
        }
    }
}

/// What was printed of a list.
struct Shown {
    printer: Printer,
    show: Show,
    timers: usize,
}

impl Shown {
    /// Whether all pages are one JSON document, which is printed piece by piece.
    fn is_one_document(&self, filter: &Filter) -> bool {
        self.printer.is_json() && !self.printer.is_ndjson() && filter.all
    }

    fn begin(&self, filter: &Filter) -> Outcome {
        if self.is_one_document(filter) { self.printer.line(r#"{"timers":["#) } else { Ok(()) }
    }

    /// Prints a page; answers where to go on.
    fn page(&mut self, answer: &Answer, filter: &Filter) -> Result<Option<String>, Failure> {
        if !self.printer.is_json() {
            let page: Page<TimerRow> = answer.parse()?;
            if !page.timers.is_empty() {
                let table = (self.show)(&page.timers, when::now());
                self.printer.line(&table.text(self.printer.screen()))?;
            }
            self.timers += page.timers.len();
            return Ok(page.cursor);
        }
        let page: RawPage = answer.parse()?;
        if self.is_one_document(filter) {
            for timer in &page.timers {
                let comma = if self.timers == 0 { "" } else { "," };
                self.printer.json(&format!("{comma}{}", timer.get()))?;
                self.timers += 1;
            }
        } else if self.printer.is_ndjson() {
            page.timers.iter().try_for_each(|timer| self.printer.json(timer.get()))?;
        } else {
            self.printer.json(&answer.text)?;
        }
        Ok(page.cursor)
    }

    /// Says that there is more.
    fn more(&self, cursor: &str) -> Outcome {
        if self.printer.is_ndjson() {
            return self.printer.json(&serde_json::json!({ "cursor": cursor }).to_string());
        }
        if self.printer.is_json() {
            return Ok(());
        }
        let cursor = text::preview(cursor, usize::MAX);
        self.printer.line(&format!("more: --cursor {cursor}, or --all for all of them"))
    }

    fn end(&self, filter: &Filter) -> Outcome {
        if self.is_one_document(filter) {
            self.printer.line("]}")
        } else if self.timers == 0 && !self.printer.is_json() {
            self.printer.line("none")
        } else {
            Ok(())
        }
    }
}
