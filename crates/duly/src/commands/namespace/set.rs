//! `duly namespace set`: changes some settings and keeps the others.
//!
//! A request replaces `retry` and `limits` whole. So that naming one limit keeps the others, they
//! are read first and sent back with what changes.

use clap::ValueEnum;
use duly_core::NamespaceName;
use reqwest::Method;
use serde_json::{Map, Value};

use super::settings::{self, Given, Object, Settings};
use crate::{
    Outcome, args::named::Named, cli::Session, commands::get, failure::Failure, http::Hint,
};

/// Change settings of a namespace; what is not named stays
///
/// A single limit, or part of the retry policy, can be named alone: what is there is read, changed
/// and written back, so two such changes at the same moment may lose one of them. A destination or
/// fallback is replaced whole.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    named: Named,
    /// Take this back to its default; repeat it for more
    #[arg(long, value_name = "SETTING")]
    reset: Vec<Reset>,
    #[command(flatten)]
    settings: Settings,
}

/// What can be reset.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Reset {
    Destination,
    Fallback,
    Retry,
    Lease,
    Retention,
    Weight,
    SigningSecrets,
    /// All limits
    Limits,
    SchedulePerSecond,
    DeliverPerSecond,
    MaxInFlight,
    MaxPending,
    MaxPayloadBytes,
    MaxDelay,
    MaxDead,
    MaxRetained,
}

/// What to type where there is none.
const HINTS: &[Hint] = &[("not_found", "`duly namespace put` makes one")];

/// Runs it.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let body = match args.settings.read()? {
        Given::File(_) if !args.reset.is_empty() => {
            return Err(Failure::usage(
                "--file holds the settings: it cannot be combined with --reset; null in it resets",
            ));
        }
        Given::File(document) => document,
        Given::Options(given) => {
            check(&given, &args.reset)?;
            let present = if needs_present(&given, &args.reset) {
                present(namespace, session).await?
            } else {
                Object::new()
            };
            settings::raw(changes(given, &args.reset, &present))?
        }
    };
    let call = session.http.namespace(Method::PATCH, namespace, &[]);
    get::show(session.printer, &call.body(&body).hints(HINTS).send().await?)
}

/// Something must change, and nothing both ways.
fn check(given: &Object, reset: &[Reset]) -> Outcome {
    if given.is_empty() && reset.is_empty() {
        return Err(Failure::usage("nothing to change: name a setting, or --reset one"));
    }
    let limits = given.get("limits").and_then(Value::as_object);
    // A new part beside `--reset limits` or `--reset retry` says: this, and else the defaults.
    for field in reset.iter().filter(|field| !matches!(field, Reset::Limits | Reset::Retry)) {
        let name = field.name();
        let within = match field.scope() {
            Some(scope) => limits.and_then(|limits| limits.get(scope)).and_then(Value::as_object),
            None => Some(given),
        };
        if within.is_some_and(|within| within.contains_key(&name)) {
            return Err(Failure::usage(format_args!(
                "--reset {name} is given together with a new {name}; only one of them can be"
            )));
        }
    }
    Ok(())
}

/// Whether a part of something that is replaced whole changes.
fn needs_present(given: &Object, reset: &[Reset]) -> bool {
    given.contains_key("limits")
        || given.contains_key("retry")
        || reset.iter().any(|field| field.scope().is_some())
}

/// The settings as they are.
async fn present(namespace: &NamespaceName, session: &Session) -> Result<Object, Failure> {
    let call = session.http.namespace(Method::GET, namespace, &[]);
    call.hints(HINTS).send().await?.parse()
}

/// The body of the request.
fn changes(given: Object, reset: &[Reset], present: &Object) -> Object {
    let part = |name: &str| present.get(name).and_then(Value::as_object).cloned();
    let mut body = given;
    let limits = body.remove("limits");
    if limits.is_some() || reset.iter().any(|field| field.scope().is_some()) {
        let all_reset = reset.contains(&Reset::Limits);
        let mut merged = if all_reset { Object::new() } else { part("limits").unwrap_or_default() };
        for (scope, field) in reset.iter().filter_map(|field| Some((field.scope()?, field))) {
            if let Some(Value::Object(limits)) = merged.get_mut(scope) {
                limits.remove(&field.name());
            }
        }
        merge(&mut merged, limits);
        body.insert("limits".to_owned(), Value::Object(merged));
    }
    if let Some(retry) = body.remove("retry") {
        // Waits of one kind say nothing beside those of the other.
        let kind = |retry: &Object| retry.contains_key("delays");
        let is_same =
            |present: &Object| retry.as_object().is_some_and(|new| kind(new) == kind(present));
        let kept = part("retry").filter(is_same).filter(|_| !reset.contains(&Reset::Retry));
        let mut merged = kept.unwrap_or_default();
        merge(&mut merged, Some(retry));
        body.insert("retry".to_owned(), Value::Object(merged));
    }
    for field in reset.iter().filter(|field| field.scope().is_none()) {
        body.entry(field.name()).or_insert(Value::Null);
    }
    body
}

fn merge(into: &mut Map<String, Value>, changes: Option<Value>) {
    let Some(Value::Object(changes)) = changes else { return };
    for (name, change) in changes {
        match into.get_mut(&name) {
            Some(Value::Object(part)) if change.is_object() => merge(part, Some(change)),
            _ => drop(into.insert(name, change)),
        }
    }
}

impl Reset {
    /// The field's name, typed and sent alike.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the scope of a limit; none of another setting.
    fn scope(self) -> Option<&'static str> {
        match self {
            Self::DeliverPerSecond | Self::MaxInFlight => Some("lane"),
            Self::SchedulePerSecond
            | Self::MaxPending
            | Self::MaxPayloadBytes
            | Self::MaxDelay
            | Self::MaxDead
            | Self::MaxRetained => Some("namespace"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn one_limit_or_part_of_a_policy_keeps_the_others() {
        let present = object(json!({
            "limits": {
                "namespace": {"max_dead": 5, "max_pending": 6},
                "lane": {"max_in_flight": 100},
            },
            "retry": {"max_attempts": 3, "min_backoff": "1s"},
        }));
        for (given, reset, expected) in [
            (
                json!({"limits": {"namespace": {"max_dead": 9}}, "weight": 2}),
                vec![Reset::MaxPending],
                json!({
                    "limits": {"namespace": {"max_dead": 9}, "lane": {"max_in_flight": 100}},
                    "weight": 2
                }),
            ),
            (
                json!({"limits": {"namespace": {"max_dead": 9}}}),
                vec![Reset::Limits],
                json!({"limits": {"namespace": {"max_dead": 9}}}),
            ),
            (
                json!({"retry": {"max_attempts": 7}}),
                vec![Reset::Lease],
                json!({"retry": {"max_attempts": 7, "min_backoff": "1s"}, "lease": null}),
            ),
            (json!({"retry": {"delays": ["1s"]}}), vec![], json!({"retry": {"delays": ["1s"]}})),
            (json!({}), vec![Reset::Limits], json!({"limits": null})),
            (
                json!({"retry": {"jitter": 0.5}}),
                vec![Reset::Retry],
                json!({"retry": {"jitter": 0.5}}),
            ),
        ] {
            let body = changes(object(given.clone()), &reset, &present);
            assert_eq!(Value::Object(body), expected, "{given}");
        }
    }

    #[test]
    fn nothing_and_both_ways_are_refused() {
        let limits = object(json!({"limits": {"namespace": {"max_dead": 9}}}));
        assert!(check(&Object::new(), &[]).is_err());
        assert!(check(&limits, &[Reset::MaxDead]).is_err());
        assert!(check(&limits, &[Reset::Limits]).is_ok());
        assert!(check(&limits, &[Reset::MaxDelay]).is_ok());
    }
}
