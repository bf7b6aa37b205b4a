//! `duly namespace`: looks after namespaces.

mod forecast;
mod settings;

use clap::Subcommand;
use duly_core::NamespaceName;
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::settings::Settings;
use crate::{
    Outcome,
    args::values,
    cli::Session,
    client::{Answer, Hint},
    commands::get,
    failure::Failure,
    output::{table, text},
};

/// Make, show, list, delete, pause and resume namespaces
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a namespace or replace its settings
    ///
    /// The settings are replaced whole: what is not named goes back to its default. Signing
    /// secrets stay when none is given.
    Put {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Show the settings of a namespace
    Get(Named),
    /// List namespaces
    List,
    /// Delete a namespace
    Delete {
        #[command(flatten)]
        named: Named,
        /// With its pending timers and dead letters
        #[arg(long)]
        force: bool,
    },
    /// Hand out no firing until it is resumed; scheduling and cancelling go on
    Pause(Named),
    /// Hand out firings again
    Resume(Named),
    /// Show what is pending and what was done
    Stats(Named),
    Forecast(forecast::Args),
}

#[derive(clap::Args)]
struct Named {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
}

#[derive(Deserialize)]
struct Page {
    namespaces: Vec<Box<RawValue>>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    destination: serde_json::Value,
    #[serde(default)]
    lease: String,
    #[serde(default)]
    retention: String,
}

/// What to type when there is something to lose.
const NOT_EMPTY: &[Hint] = &[("namespace_not_empty", "`--force` deletes it with everything in it")];

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let client = &session.client;
    match args.action {
        Action::Put { named, settings } => {
            let call = client.namespace(Method::PUT, &named.namespace, &[]);
            let answer = call.body(&settings.body()?).send().await?;
            get::show(session.printer, &answer)
        }
        Action::Get(named) => {
            let call = client.namespace(Method::GET, &named.namespace, &[]);
            get::show(session.printer, &call.send().await?)
        }
        Action::Stats(named) => {
            let call = client.namespace(Method::GET, &named.namespace, &["stats"]);
            get::show(session.printer, &call.send().await?)
        }
        Action::Forecast(args) => forecast::run(&args, session).await,
        Action::List => list(session).await,
        Action::Delete { named, force } => {
            let force = force.then(|| ("force", "true".to_owned()));
            let call = client.namespace(Method::DELETE, &named.namespace, &[]);
            let answer = call.query(force.as_slice()).hints(NOT_EMPTY).send().await?;
            done(session, &answer, &named.namespace, "deleted")
        }
        Action::Pause(named) => {
            let call = client.namespace(Method::POST, &named.namespace, &["pause"]);
            done(session, &call.send().await?, &named.namespace, "paused")
        }
        Action::Resume(named) => {
            let call = client.namespace(Method::POST, &named.namespace, &["resume"]);
            done(session, &call.send().await?, &named.namespace, "resumed")
        }
    }
}

/// Says what was done; the answer may have no body.
fn done(session: &Session, answer: &Answer, namespace: &NamespaceName, what: &str) -> Outcome {
    if session.printer.is_json() && answer.text.trim().is_empty() {
        return session.printer.line("{}");
    }
    session.printer.answer(answer, || Ok(format!("{namespace}  {what}")))
}

/// Every namespace, as the server tells of it.
pub(super) async fn all(session: &Session) -> Result<Vec<Box<RawValue>>, Failure> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let cursor_parameter = cursor.take().map(|cursor| ("cursor", cursor));
        let call = session.client.call(Method::GET, &[]);
        let answer = call.query(cursor_parameter.as_slice()).send().await?;
        let page: Page = answer.parse()?;
        all.extend(page.namespaces);
        match page.cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

/// Every namespace, as one document.
async fn list(session: &Session) -> Outcome {
    let all = all(session).await?;
    if session.printer.is_json() {
        let items: Vec<_> = all.iter().map(|item| item.get()).collect();
        let document = format!(r#"{{"namespaces":[{}]}}"#, items.join(","));
        return session.printer.line(&document);
    }
    if all.is_empty() {
        return session.printer.line("none");
    }
    let headings = ["name", "state", "destination", "lease", "retention"];
    let mut rows = table::with_headings(&headings);
    for item in &all {
        let Ok(row) = serde_json::from_str::<Row>(item.get()) else {
            continue;
        };
        rows.add_row([
            text::preview(&row.name, usize::MAX),
            if row.paused { "paused" } else { "running" }.to_owned(),
            destination(&row.destination),
            row.lease,
            row.retention,
        ]);
    }
    session.printer.line(&table::shown(&rows))
}

/// The kind of a destination, or its URL.
fn destination(value: &serde_json::Value) -> String {
    let url = value.pointer("/http/url").and_then(|url| url.as_str());
    let kind = || value.as_object().and_then(|kinds| kinds.keys().next());
    match url {
        Some(url) => text::preview(url, usize::MAX),
        None => kind().cloned().unwrap_or_default(),
    }
}
