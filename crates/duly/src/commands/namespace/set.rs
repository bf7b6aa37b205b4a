//! `duly namespace set`: changes some settings and keeps the others.
//!
//! A request replaces `retry` and `limits` as a whole. To change one limit and keep the others, the
//! command reads the current values and sends them back with the change.

use clap::ValueEnum;
use reqwest::Method;
use serde_json::{Value, json, value::to_raw_value};

use super::settings::{Given, Settings};
use crate::{
    Outcome, args::NamespaceArg, commands::get, failure::Failure, http::Hint, session::Session,
};

/// Change settings of a namespace; other settings stay
///
/// A single limit, or one part of the retry policy, can be changed alone: the command reads the current
/// value, changes it and writes it back. So one of two such changes at the same moment may be lost. A
/// destination or fallback is replaced as a whole.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// Reset this setting to its default; repeat it for more
    #[arg(long, value_name = "SETTING")]
    reset: Vec<Reset>,
    #[command(flatten)]
    settings: Settings,
}

/// The settings that can be reset.
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

/// The hint for a namespace that does not exist.
const HINTS: &[Hint] = &[("not_found", "`duly namespace put` creates one")];

/// Runs the command.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let body = match args.settings.read()? {
        Given::File(_) if !args.reset.is_empty() => {
            return Err(Failure::usage(
                "--file contains the settings: it cannot be combined with --reset; null in it \
                 resets",
            ));
        }
        Given::File(document) => document,
        Given::Options(given) => {
            let given = json!(given);
            check(&given, &args.reset)?;
            let present = if needs_present(&given, &args.reset) {
                session.http.get(namespace, &[]).hints(HINTS).send().await?.parse()?
            } else {
                Value::Null
            };
            to_raw_value(&changes(&given, &args.reset, &present)).map_err(Failure::new)?
        }
    };
    let call = session.http.namespace(Method::PATCH, namespace, &[]);
    get::show(session, call.body(&body).hints(HINTS)).await
}

/// Checks that there is a change, and that no field is both set and reset.
fn check(given: &Value, reset: &[Reset]) -> Outcome {
    if *given == json!({}) && reset.is_empty() {
        return Err(Failure::usage("nothing to change: name a setting, or --reset one"));
    }
    // A new part together with `--reset limits` or `--reset retry` means: this part, and defaults for
    // the rest.
    for field in reset.iter().filter(|field| !matches!(field, Reset::Limits | Reset::Retry)) {
        let name = field.name();
        let path = field.scope().map_or_else(String::new, |scope| format!("/limits/{scope}"));
        if given.pointer(&format!("{path}/{name}")).is_some() {
            return Err(Failure::usage(format_args!(
                "--reset {name} is given together with a new {name}; use only one of them"
            )));
        }
    }
    Ok(())
}

/// Returns `true` if the change needs the current values, because only a part of `retry` or `limits`
/// changes.
fn needs_present(given: &Value, reset: &[Reset]) -> bool {
    given.get("retry").is_some() || changes_limits(given, reset)
}

fn changes_limits(given: &Value, reset: &[Reset]) -> bool {
    given.get("limits").is_some() || reset.iter().any(|field| field.scope().is_some())
}

/// Returns the body of the request.
fn changes(given: &Value, reset: &[Reset], present: &Value) -> Value {
    let mut body = json!({});
    if changes_limits(given, reset) && !reset.contains(&Reset::Limits) {
        body["limits"] = present["limits"].clone();
    }
    // Waits of one kind have no effect on those of the other.
    let has_delays = |retry: &Value| retry.get("delays").is_some();
    let is_same = |retry: &Value| has_delays(retry) == has_delays(&present["retry"]);
    if given.get("retry").is_some_and(is_same) {
        body["retry"] = present["retry"].clone();
    }
    for field in reset {
        let scope = field.scope().map(|scope| format!("/limits/{scope}"));
        match scope.map(|scope| body.pointer_mut(&scope).and_then(Value::as_object_mut)) {
            Some(Some(limits)) => drop(limits.remove(&field.name())),
            Some(None) => {}
            None => body[field.name()] = Value::Null,
        }
    }
    merge(&mut body, given);
    body
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, change) in change {
                merge(into.entry(name).or_insert(Value::Null), change);
            }
        }
        (into, change) => change.clone_into(into),
    }
}

impl Reset {
    /// Returns the field's name, the same on the command line and in a request.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the scope of a limit; none for another setting.
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
    use super::*;

    #[test]
    fn one_limit_or_part_of_a_policy_keeps_the_others() {
        let present = json!({
            "limits": {
                "namespace": {"max_dead": 5, "max_pending": 6},
                "lane": {"max_in_flight": 100},
            },
            "retry": {"max_attempts": 3, "min_backoff": "1s"},
        });
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
            assert_eq!(changes(&given, &reset, &present), expected, "{given}");
        }
    }

    #[test]
    fn empty_and_contradictory_changes_are_refused() {
        let limits = json!({"limits": {"namespace": {"max_dead": 9}}});
        assert!(check(&json!({}), &[]).is_err());
        assert!(check(&limits, &[Reset::MaxDead]).is_err());
        assert!(check(&limits, &[Reset::Limits]).is_ok());
        assert!(check(&limits, &[Reset::MaxDelay]).is_ok());
    }
}
