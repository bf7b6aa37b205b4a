//! `duly reschedule`: changes a pending timer.

use clap::ValueEnum;
use duly_core::{NamespaceName, TimerId};
use reqwest::Method;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    Outcome,
    args::{
        due::{Due, DueFields},
        labels::{HeaderFields, Labels},
        payload::{PayloadArgs, PayloadFields},
        place::{DestinationField, Place},
        retry::Retry,
        values,
    },
    cli::Session,
    client::Hint,
    commands::get,
    failure::Failure,
};

/// Change a pending timer: its time, payload, headers, tags, destination or retry policy
///
/// What is not named stays. After it is answered, the timer is never delivered for its old time.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// The timer's id
    #[arg(value_parser = values::timer_id)]
    id: TimerId,
    #[command(flatten)]
    due: Due,
    #[command(flatten)]
    payload: PayloadArgs,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    place: Place,
    /// Take this back to what it is without being set; repeat it for more
    #[arg(long, value_name = "FIELD")]
    reset: Vec<Reset>,
    /// Only if the timer has this revision
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>)]
    if_revision: Option<u32>,
    #[command(flatten)]
    retry: Retry,
}

/// What can be reset.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reset {
    /// No payload
    Payload,
    /// No headers
    Headers,
    /// No tags
    Tags,
    /// The namespace's destination
    Destination,
    /// The namespace's retry policy
    Retry,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    due: DueFields,
    #[serde(flatten)]
    payload: PayloadFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<HeaderFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<DestinationField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Map<String, Value>>,
    #[serde(flatten)]
    reset: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_revision: Option<u32>,
}

/// What to type when the revision is another one.
pub(crate) const REVISION_HINTS: &[Hint] =
    &[("revision_mismatch", "`duly get` shows the present revision")];

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let headers = args.labels.headers();
    let tags = args.labels.tags();
    let payload_is_given = args.payload.is_given();
    let destination = args.place.field();
    let retry = args.retry.field();
    let given = [
        (Reset::Payload, payload_is_given),
        (Reset::Headers, headers.is_some()),
        (Reset::Tags, tags.is_some()),
        (Reset::Destination, destination.is_some()),
        (Reset::Retry, retry.is_some()),
    ];
    let nothing = !args.due.is_given() && args.reset.is_empty() && given.iter().all(|(_, is)| !is);
    if nothing {
        return Err(Failure::usage(
            "nothing to change: name a time (--in, --at), payload, header, tag, destination, retry policy or --reset",
        ));
    }
    for (field, is_given) in given {
        if is_given && args.reset.contains(&field) {
            let name = field.name();
            return Err(Failure::usage(format_args!(
                "--reset {name} is given together with a new {name}; only one of them can be"
            )));
        }
    }
    let body = Body {
        due: args.due.fields(),
        payload: args.payload.fields()?,
        headers,
        tags,
        destination,
        retry,
        reset: args.reset.iter().map(|field| (field.name(), Value::Null)).collect(),
        if_revision: args.if_revision,
    };
    let call = session.client.timer(Method::PATCH, (&args.namespace, &args.id), &[]);
    get::show(session.printer, &call.body(&body).hints(REVISION_HINTS).send().await?)
}

impl Reset {
    /// The field's name, typed and sent alike.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
