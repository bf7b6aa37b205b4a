//! `duly namespace put`: creates a namespace, or replaces all its settings.
//!
//! 1. A change of the receivers of timers that exist needs `--replace`: a setting that is left out would drop them, or
//!    their headers, without a word. What responses hide is not compared: the values of headers, the query of a URL.
//! 2. Each change of an existing namespace is printed, with `-q` too if it has timers.

use duly_api::{Destination, Fallback, Namespace, NamespaceSettings, headers::CredentialsForm};
use duly_core::{
    NamespaceName,
    namespace::{FALLBACK_ATTEMPTS_DEFAULT, FALLBACK_OPEN_DEFAULT},
};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

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
/// timers and their receiver would be another one, or be called with other headers, method or timeout,
/// the command needs --replace. Values that are not shown (of headers, of a URL's query) are not
/// compared.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// Replace the settings although the receiver of the namespace's timers changes
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    settings: Settings,
}

/// The receivers of a namespace as responses show them: its destination, and its fallback.
struct Receivers {
    destination: Destination,
    fallback: Option<Fallback>,
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
        let before = Receivers::new(before.destination, before.fallback);
        let after = given.receivers();
        let changes = before.changes_to(&after);
        if !changes.is_empty() && has_timers(namespace, session).await {
            return Err(needs_replace(namespace, &changes));
        }
    }
    let call = session.http.namespace(Method::PUT, namespace, &[]).body(&given);
    let now = get::show_response(session, call).await?;
    if let Some(present) = present {
        let changed = changes(&present.parse()?, &now.parse()?);
        let is_told = !changed.is_empty()
            && (!session.printer.is_quiet || has_timers(namespace, session).await);
        if is_told {
            note(&format!("{namespace} existed; changed: {}", changed.join("; ")));
        }
    }
    Ok(())
}

/// Returns `true` if the namespace has timers or dead letters, and if their number is not known.
async fn has_timers(namespace: &NamespaceName, session: &Session) -> bool {
    counts(session, namespace).await.map_or(true, |stats| stats.pending + stats.dead > 0)
}

fn needs_replace(namespace: &NamespaceName, changes: &[String]) -> Failure {
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
    fn receivers(&self) -> Receivers {
        let settings = match self {
            Self::Options(settings) => settings.as_ref().clone(),
            // The server refuses what cannot be read, and names the field.
            Self::File(document) => serde_json::from_str(document.get()).unwrap_or_default(),
        };
        let NamespaceSettings { destination, fallback, .. } = settings;
        Receivers::new(destination, fallback)
    }
}

impl Receivers {
    fn new(destination: Option<Destination>, fallback: Option<Fallback>) -> Self {
        let fallback = fallback.map(|fallback| Fallback {
            destination: fallback.destination.map(shown),
            after_attempts: fallback.after_attempts.or(Some(FALLBACK_ATTEMPTS_DEFAULT)),
            after_open: fallback.after_open.or_else(|| Some(FALLBACK_OPEN_DEFAULT.into())),
        });
        Self { destination: shown(destination.unwrap_or_else(Destination::pull)), fallback }
    }

    /// Returns each difference to other receivers. For another place, its settings are left out.
    fn changes_to(&self, after: &Self) -> Vec<String> {
        let [(place, set), (new_place, new_set)] = [self, after].map(|receivers| {
            let fallback = receivers.fallback.as_ref();
            let destinations =
                [Some(&receivers.destination), fallback.and_then(|it| it.destination.as_ref())];
            let places = destinations.map(|it| it.and_then(|it| Some(&*it.http.as_ref()?.url)));
            let settings = [
                json!({ "destination": receivers.destination }),
                fallback.map_or(Value::Null, |fallback| json!({ "fallback": fallback })),
            ];
            (places, settings)
        });
        let names = [("destination", "pull"), ("fallback", "none")];
        let changes = names.into_iter().enumerate().flat_map(|(at, (name, none))| {
            if place[at] == new_place[at] {
                return changes(&set[at], &new_set[at]);
            }
            let [before, after] = [place[at], new_place[at]].map(|place| place.unwrap_or(none));
            vec![format!("{name} {before} → {after}")]
        });
        changes.collect()
    }
}

/// Returns a destination as a response shows it; one that is not allowed, or was already shown, stays as it is.
fn shown(destination: Destination) -> Destination {
    match destination.clone().check("") {
        Ok(checked) => Destination::shown(&checked, CredentialsForm::Redacted),
        Err(_) => destination,
    }
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
    fn receivers_are_compared_as_a_response_shows_them() {
        let receivers = |http: Value| {
            let settings = json!({
                "destination": { "http": http }, "fallback": { "destination": { "http": http } },
            });
            let settings: NamespaceSettings = serde_json::from_value(settings).expect("settings");
            Receivers::new(settings.destination, settings.fallback)
        };
        let given = receivers(json!({
            "url": "http://A.example?a=b", "headers": { "Authorization": "Bearer x" }, "timeout": "5s",
        }));
        let present = receivers(json!({
            "url": "http://a.example/?***", "headers": { "authorization": "***" }, "timeout": "5s", "method": "POST",
        }));
        assert_eq!(given.changes_to(&present), <[&str; 0]>::default());
        let other = receivers(json!({ "url": "http://a.example?a=b", "method": "PUT" }));
        let changes = |name: &str| {
            ["headers.authorization *** → none", "method POST → PUT", "timeout 5s → 30s"]
                .map(|change| format!("{name}destination.http.{change}"))
        };
        assert_eq!(present.changes_to(&other), [changes(""), changes("fallback.")].concat());
        assert_eq!(
            given.changes_to(&Receivers::new(None, None)),
            ["destination http://a.example/?*** → pull", "fallback http://a.example/?*** → none"]
        );
    }
}
