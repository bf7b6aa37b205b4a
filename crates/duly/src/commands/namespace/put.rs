//! `duly namespace put`: creates a namespace, or replaces all its settings.
//!
//! 1. A change of the receivers of timers that exist needs `--replace`: a setting that is left out would drop them
//!    without a word.
//! 2. Each change of an existing namespace is printed.

use duly_api::{Fallback, Namespace, NamespaceSettings};
use duly_core::NamespaceName;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    counts,
    settings::{Given, Settings},
};
use crate::{
    Outcome,
    args::NamespaceArg,
    commands::get,
    failure::Failure,
    http::Hint,
    output::{note, text},
    session::Session,
};

/// Create a namespace or replace its settings
///
/// All settings are replaced: an absent setting returns to its default. Signing secrets stay if none
/// is given. To change some settings and keep the others: `duly namespace set`. If the namespace has
/// timers and their receiver would be another one, the command needs --replace.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// Replace the settings although timers of the namespace get another receiver
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    settings: Settings,
}

/// The receivers of a namespace: its destination, and its fallback.
#[derive(Debug, PartialEq, Eq)]
struct Receivers {
    destination: String,
    fallback: String,
}

/// A namespace, or a problem if it does not exist.
#[derive(Deserialize)]
struct Present {
    name: Option<String>,
}

/// The hint for a key that permits the change and not the look.
const HINTS: &[Hint] =
    &[("permission_denied", "`--replace` needs no look at the present settings")];

/// Runs the command.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let given = args.settings.read()?;
    let call = session.http.get(namespace, &[]).accepting(StatusCode::NOT_FOUND).hints(HINTS);
    let present = match call.send().await {
        // A key may permit the change and not the look.
        Err(_) if args.replace => None,
        response => {
            Some(response?).filter(|it| it.parse::<Present>().is_ok_and(|it| it.name.is_some()))
        }
    };
    if let Some(present) = present.as_ref().filter(|_| !args.replace) {
        let before: Namespace = present.parse()?;
        let before = Receivers::new(before.destination.as_ref(), before.fallback.as_ref());
        let after = given.receivers()?;
        if before != after && has_timers(namespace, session).await {
            return Err(needs_replace(namespace, &before, &after));
        }
    }
    let call = session.http.namespace(Method::PUT, namespace, &[]).body(&given);
    let now = get::show_response(session, call).await?;
    if let Some(present) = present.filter(|_| !session.printer.is_quiet) {
        let changed = changes(&present.parse()?, &now.parse()?);
        if !changed.is_empty() {
            note(&format!("{namespace} existed; changed: {}", changed.join("; ")));
        }
    }
    Ok(())
}

/// Returns `true` if the namespace has timers or dead letters, and if their number is not known.
async fn has_timers(namespace: &NamespaceName, session: &Session) -> bool {
    counts(session, namespace).await.map_or(true, |stats| stats.pending + stats.dead > 0)
}

fn needs_replace(namespace: &NamespaceName, before: &Receivers, after: &Receivers) -> Failure {
    let changes = [
        ("destination", &before.destination, &after.destination),
        ("fallback", &before.fallback, &after.fallback),
    ];
    let changes = changes.into_iter().filter(|(_, before, after)| before != after);
    let changes: Vec<_> =
        changes.map(|(name, before, after)| format!("{name} {before} → {after}")).collect();
    Failure::coded(
        "needs_replace",
        format_args!(
            "namespace {namespace} has timers, and this command would change their receiver ({}): nothing was changed. \
             `duly namespace set {namespace}` changes the settings that it names and keeps the others; --replace \
             replaces all of them",
            text::line(&changes.join(", "))
        ),
    )
}

impl Given {
    /// Returns the receivers that a namespace has after a PUT of these settings.
    fn receivers(&self) -> Result<Receivers, Failure> {
        let parsed: NamespaceSettings;
        let settings = match self {
            Self::Options(settings) => settings.as_ref(),
            Self::File(document) => {
                // The server refuses what cannot be read, and names the field.
                parsed = serde_json::from_str(document.get()).unwrap_or_default();
                &parsed
            }
        };
        Ok(Receivers::new(settings.destination.as_ref(), settings.fallback.as_ref()))
    }
}

impl Receivers {
    fn new(destination: Option<&duly_api::Destination>, fallback: Option<&Fallback>) -> Self {
        let fallback = fallback.and_then(|fallback| fallback.destination.as_ref());
        Self {
            destination: receiver(destination).unwrap_or_else(|| "pull".to_owned()),
            fallback: receiver(fallback).unwrap_or_else(|| "none".to_owned()),
        }
    }
}

/// Returns the URL of a webhook, as a server writes it.
fn receiver(destination: Option<&duly_api::Destination>) -> Option<String> {
    let url = &destination?.http.as_ref()?.url;
    Some(Url::parse(url).map_or_else(|_| url.clone(), |url| url.to_string()))
}

/// Returns each setting that changed, with its value before and after.
fn changes(before: &Value, after: &Value) -> Vec<String> {
    let [before, after] = [before, after].map(|namespace| {
        let mut leaves = Map::new();
        collect("", namespace, &mut leaves);
        leaves
    });
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let value = |of: &Map<String, Value>, name: &String| match of.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "none".to_owned(),
    };
    // The time of the last put is no setting.
    let settings = names.filter(|name| *name != "updated_at");
    let changed = settings.filter(|name| before.get(*name) != after.get(*name));
    changed
        .map(|name| format!("{name} {} → {}", value(&before, name), value(&after, name)))
        .collect()
}

/// Collects the values of a document by their paths.
fn collect(path: &str, value: &Value, leaves: &mut Map<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&path, value, leaves);
            }
        }
        _ => drop(leaves.insert(path.to_owned(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_changed_setting_is_named_with_both_values() {
        let before = json!({ "name": "n", "destination": { "http": { "url": "http://a/" } }, "weight": 5, "lease": "30s" });
        let after =
            json!({ "name": "n", "destination": { "pull": {} }, "weight": 1, "lease": "30s" });
        assert_eq!(
            changes(&before, &after),
            ["destination.http.url http://a/ → none", "weight 5 → 1", "destination.pull none → {}"]
        );
        assert_eq!(changes(&before, &before), <[&str; 0]>::default());
    }

    #[test]
    fn a_url_is_compared_as_a_server_writes_it() {
        let receiver = |url: &str| {
            let settings: NamespaceSettings =
                serde_json::from_value(json!({ "destination": { "http": { "url": url } } }))
                    .expect("settings");
            Receivers::new(settings.destination.as_ref(), None)
        };
        assert_eq!(receiver("http://A.example"), receiver("http://a.example/"));
        assert_ne!(receiver("http://a.example"), Receivers::new(None, None));
    }
}
