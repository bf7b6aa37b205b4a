//! `duly namespace list`.

use duly_api::{Duration, ListNamespacesResponse, Namespace};
use duly_core::NamespaceName;
use reqwest::Method;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    cli::Session,
    failure::Failure,
    output::{Table, Tone, when},
};

/// Returns every namespace, and the JSON of each as the server sent it.
pub(crate) async fn all(
    session: &Session,
) -> Result<(Vec<Namespace>, Vec<Box<RawValue>>), Failure> {
    let (mut all, mut texts, mut query) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let call = session.http.service(Method::GET, &["namespaces"]);
        let reply = call.query(&query).send().await?;
        let page: ListNamespacesResponse = reply.parse()?;
        texts.extend(reply.items("namespaces")?.into_iter().map(RawValue::to_owned));
        all.extend(page.namespaces);
        match page.cursor {
            Some(next) => query = vec![("cursor", next)],
            None => return Ok((all, texts)),
        }
    }
}

/// Checks the name of a namespace in a server's response, and returns it.
pub(crate) fn checked_name(namespace: &Namespace) -> Result<NamespaceName, Failure> {
    let name = &namespace.name;
    NamespaceName::new(name)
        .map_err(|error| Failure::new(format_args!("the server named {name:?}: {error}")))
}

/// Prints every namespace: as one document, one table, or line by line.
pub(super) async fn run(session: &Session) -> Outcome {
    let printer = session.printer;
    let (all, texts) = all(session).await?;
    if printer.is_json() {
        return printer.json_list("namespaces", texts);
    }
    let headings = ["name", "state", "weight", "lease", "retention", "destination"];
    let mut table = Table::new(&headings).numbers(&["weight"]).cut("destination");
    for row in all {
        let (tone, state) = match (row.paused, &row.resumes_at) {
            (true, Some(at)) => {
                let at = when::with_distance(at, when::now());
                (Tone::Warning, format!("paused until {at}"))
            }
            (true, None) => (Tone::Warning, "paused".to_owned()),
            (false, _) => (Tone::Plain, "running".to_owned()),
        };
        let text = |duration: Option<Duration>| duration.unwrap_or_default().to_string();
        let (weight, destination) = (row.weight.to_string(), destination(&row));
        let cells = [row.name, state, weight, text(row.lease), text(row.retention), destination];
        table.row(tone, cells);
    }
    printer.table(&table)
}

/// Returns the URL of a namespace's destination, or `pull`.
pub(crate) fn destination(namespace: &Namespace) -> String {
    match namespace.destination.as_ref().and_then(|destination| destination.http.as_ref()) {
        Some(http) => http.url.clone(),
        None => "pull".to_owned(),
    }
}
