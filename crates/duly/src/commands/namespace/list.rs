//! `duly namespace list`.

use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    cli::Session,
    failure::Failure,
    output::{
        table::{Column, Table},
        terminal::Tone,
        when,
    },
};

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
    resumes_at: Option<String>,
    #[serde(default)]
    weight: u32,
    #[serde(default)]
    destination: serde_json::Value,
    #[serde(default)]
    lease: String,
    #[serde(default)]
    retention: String,
}

/// Every namespace, as the server tells of it.
pub(crate) async fn all(session: &Session) -> Result<Vec<Box<RawValue>>, Failure> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = page(session, cursor).await?;
        all.extend(page.namespaces);
        match page.cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

async fn page(session: &Session, cursor: Option<String>) -> Result<Page, Failure> {
    let cursor_parameter = cursor.map(|cursor| ("cursor", cursor));
    let call = session.http.call(Method::GET, &[]);
    call.query(cursor_parameter.as_slice()).send().await?.parse()
}

/// Prints every namespace: as one document, one table, or line by line.
pub(super) async fn run(session: &Session) -> Outcome {
    let printer = session.printer;
    let all = all(session).await?;
    if printer.is_json() {
        return printer.json_list("namespaces", all.iter().map(|item| item.get()));
    }
    if all.is_empty() {
        return printer.line("none");
    }
    let columns = [
        Column::Whole("name"),
        Column::Whole("state"),
        Column::Number("weight"),
        Column::Whole("lease"),
        Column::Whole("retention"),
        Column::Cut("destination"),
    ];
    let mut table = Table::new(columns);
    for item in &all {
        let Ok(row) = serde_json::from_str::<Row>(item.get()) else {
            continue;
        };
        let (tone, state) = match (row.paused, row.resumes_at) {
            (true, Some(at)) => {
                let at = when::with_distance(&at, when::now());
                (Tone::Warning, format!("paused until {at}"))
            }
            (true, None) => (Tone::Warning, "paused".to_owned()),
            (false, _) => (Tone::Plain, "running".to_owned()),
        };
        let weight = row.weight.to_string();
        let destination = destination(&row.destination);
        table.row(tone, [row.name, state, weight, row.lease, row.retention, destination]);
    }
    printer.line(&table.text(printer.screen()))
}

/// The kind of a destination, or its URL.
pub(crate) fn destination(value: &serde_json::Value) -> String {
    let url = value.pointer("/http/url").and_then(|url| url.as_str());
    let kind = || value.as_object().and_then(|kinds| kinds.keys().next());
    match url {
        Some(url) => url.to_owned(),
        None => kind().cloned().unwrap_or_default(),
    }
}
