//! `duly list`: shows timers, page by page.

use clap::ValueEnum;
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    args::{filter::Filter, values},
    cli::Session,
    failure::Failure,
    http::Answer,
    output::{
        Printer,
        progress::Progress,
        table::Table,
        text,
        timers::{self, Timer},
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

impl From<State> for duly_core::State {
    fn from(state: State) -> Self {
        match state {
            State::Scheduled => Self::Scheduled,
            State::Due => Self::Due,
            State::InFlight => Self::InFlight,
            State::Retrying => Self::Retrying,
            State::Finished => Self::Finished,
            State::Cancelled => Self::Cancelled,
            State::Dead => Self::Dead,
        }
    }
}

/// A page of the list.
#[derive(Deserialize)]
struct Page {
    timers: Vec<Box<RawValue>>,
    cursor: Option<String>,
    examined: Option<u64>,
    up_to: Option<String>,
}

/// How a page is shown to people.
pub(crate) type Show = fn(&[Timer], Timestamp) -> Table;

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let state = args.state.map(Into::into);
    let show = match state {
        Some(duly_core::State::Dead) => timers::dead,
        Some(duly_core::State::Finished | duly_core::State::Cancelled) => timers::ended,
        _ => timers::pending,
    };
    pages(session, &args.namespace, state, &args.filter, show).await
}

/// Prints the page that was asked for, or all of them, one after the other.
pub(crate) async fn pages(
    session: &Session,
    namespace: &NamespaceName,
    state: Option<duly_core::State>,
    filter: &Filter,
    show: Show,
) -> Outcome {
    let printer = session.printer;
    let mut cursor = filter.cursor();
    let progress = Progress::new(printer);
    let mut shown = Shown { printer, show, timers: 0, examined: 0, progress };
    shown.begin(filter)?;
    loop {
        let call = session.http.namespace(Method::GET, namespace, &["timers"]);
        let reply = call.query(&filter.query(state, cursor.as_deref())).send().await?;
        let page: Page = reply.parse()?;
        shown.page(&reply, &page, filter)?;
        let Page { examined, up_to, .. } = page;
        cursor = page.cursor;
        match &cursor {
            Some(next) if !filter.all => return shown.more(next, examined, up_to.as_deref()),
            Some(next) => shown.searched(next, examined, up_to.as_deref()),
            None => return shown.end(filter),
        }
    }
}

/// What was printed of a list.
struct Shown {
    printer: Printer,
    show: Show,
    timers: usize,
    examined: u64,
    progress: Progress,
}

impl Shown {
    /// Whether all pages are one JSON document, which is printed piece by piece.
    fn is_one_document(&self, filter: &Filter) -> bool {
        self.printer.is_json() && !self.printer.is_ndjson() && filter.all
    }

    fn begin(&self, filter: &Filter) -> Outcome {
        if self.is_one_document(filter) { self.printer.line(r#"{"timers":["#) } else { Ok(()) }
    }

    fn page(&mut self, reply: &Answer, page: &Page, filter: &Filter) -> Outcome {
        self.progress.clear();
        let first = self.timers == 0;
        self.timers += page.timers.len();
        if !self.printer.is_json() {
            if page.timers.is_empty() {
                return Ok(());
            }
            let rows = page.timers.iter().map(|timer| reply.parse_part(timer));
            let rows: Vec<_> = rows.collect::<Result<_, Failure>>()?;
            let table = (self.show)(&rows, when::now());
            return self.printer.line(&table.text(self.printer.screen()));
        }
        if !self.is_one_document(filter) && !self.printer.is_ndjson() {
            return self.printer.json(&reply.text);
        }
        for (place, timer) in page.timers.iter().enumerate() {
            let is_next = self.is_one_document(filter) && !(first && place == 0);
            let comma = if is_next { "," } else { "" };
            self.printer.json(&format!("{comma}{}", timer.get()))?;
        }
        Ok(())
    }

    /// Says how far a search is that goes on, and from where it can be gone on with.
    fn searched(&mut self, cursor: &str, examined: Option<u64>, up_to: Option<&str>) {
        if let Some(examined) = examined {
            self.examined += examined;
            let so_far = looked_at(self.examined, up_to);
            self.progress.show(0, None, &format!("{so_far}; --cursor {cursor}"));
        }
    }

    /// Says that there is more.
    fn more(&self, cursor: &str, examined: Option<u64>, up_to: Option<&str>) -> Outcome {
        if self.printer.is_ndjson() {
            return self.printer.json(&serde_json::json!({ "cursor": cursor }).to_string());
        }
        if self.printer.is_json() {
            return Ok(());
        }
        let cursor = text::preview(cursor, usize::MAX);
        if let Some(examined) = examined {
            self.printer.line(&looked_at(examined, up_to))?;
        }
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

/// Says how far a search is.
fn looked_at(examined: u64, up_to: Option<&str>) -> String {
    let timers = text::count(examined, "timer");
    match up_to {
        Some(up_to) => format!("looked at {timers}, due up to {up_to}"),
        None => format!("looked at {timers}"),
    }
}
