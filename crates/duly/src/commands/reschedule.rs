//! `duly reschedule`: changes a pending timer.

use std::collections::BTreeMap;

use duly_api::{HeaderList, Reschedule, Schedule, TagList, TimerField, Words as _};
use reqwest::Method;
use serde::Serialize;

use crate::{
    Outcome,
    args::{TimerArg, delivery::Retry, timer::TimerArgs, values},
    commands::get,
    failure::Failure,
    http::Hint,
    session::Session,
};

/// Change a pending timer: its time, payload, headers, tags, destination or retry policy
///
/// Other fields stay. When the command succeeds, the timer is never delivered at its old time.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    named: TimerArg,
    #[command(flatten)]
    timer: TimerArgs,
    /// Reset this field to its default; repeat it for more
    #[arg(long, value_name = "FIELD", value_parser = values::named(&RESETS, TimerField::as_str))]
    reset: Vec<TimerField>,
    /// Only if the timer has this revision
    #[arg(long, value_name = "N", value_parser = values::revision)]
    if_revision: Option<u32>,
    #[command(flatten)]
    retry: Retry,
}

/// The fields that can be reset.
const RESETS: [(TimerField, &str); 5] = [
    (TimerField::Payload, "No payload"),
    (TimerField::Headers, "No headers"),
    (TimerField::Tags, "No tags"),
    (TimerField::Destination, "The namespace's destination"),
    (TimerField::Retry, "The namespace's retry policy"),
];

/// The body of the request: the new values, and the fields that are reset, as `null`.
#[derive(Serialize)]
struct Change {
    #[serde(flatten)]
    change: Reschedule,
    #[serde(flatten)]
    reset: BTreeMap<&'static str, ()>,
}

/// The hint for another revision than the expected one.
pub(crate) const REVISION_HINTS: &[Hint] =
    &[("revision_mismatch", "`duly get` shows the current revision")];

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let given = Schedule { retry: args.retry.policy(), ..args.timer.read()? };
    if given == Schedule::default() && args.reset.is_empty() {
        return Err(Failure::usage(
            "nothing to change: name a time (--in, --at), payload, header, tag, destination, retry policy or --reset",
        ));
    }
    if let Some(name) = args.reset.iter().find(|field| is_given(&given, **field)) {
        return Err(Failure::usage(format_args!(
            "--reset {name} is given together with a new {name}; use only one of them"
        )));
    }
    let Schedule { headers, tags, .. } = given;
    let change = Reschedule {
        due_at: given.due_at,
        delay: given.delay,
        payload: given.payload,
        payload_text: given.payload_text,
        payload_base64: given.payload_base64,
        headers: (!headers.is_empty()).then_some(HeaderList { headers }),
        tags: (!tags.is_empty()).then_some(TagList { tags }),
        destination: given.destination,
        retry: given.retry,
        if_revision: args.if_revision,
        ..Reschedule::default()
    };
    let reset = args.reset.iter().map(|field| (field.as_str(), ())).collect();
    let call = args.named.call(Method::PATCH, &session.http).body(&Change { change, reset });
    get::show(session, call.hints(REVISION_HINTS)).await
}

/// Returns `true` if the field has a new value.
fn is_given(given: &Schedule, field: TimerField) -> bool {
    match field {
        TimerField::Payload => [&given.payload, &given.payload_text, &given.payload_base64]
            .iter()
            .any(|it| it.is_some()),
        TimerField::Headers => !given.headers.is_empty(),
        TimerField::Tags => !given.tags.is_empty(),
        TimerField::Destination => given.destination.is_some(),
        TimerField::Retry => given.retry.is_some(),
        TimerField::Unspecified => false,
    }
}
