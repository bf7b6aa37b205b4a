//! `duly reschedule`: changes a pending timer.

use clap::ValueEnum;
use duly_core::{NamespaceName, TimerId};
use reqwest::Method;

use crate::{
    Outcome,
    args::{
        due::Due, fields::RequestFields, labels::Labels, payload::PayloadArgs, place::Place,
        retry::Retry, values,
    },
    cli::Session,
    commands::get,
    failure::Failure,
    http::Hint,
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

/// What to type when the revision is another one.
pub(crate) const REVISION_HINTS: &[Hint] =
    &[("revision_mismatch", "`duly get` shows the present revision")];

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let mut fields = RequestFields::default();
    args.due.set(&mut fields);
    args.payload.set(&mut fields)?;
    args.labels.set(&mut fields);
    fields.set_some("destination", args.place.field()?);
    fields.set_some("retry", args.retry.field());
    for reset in args.reset {
        let name = reset.name();
        let is_payload =
            reset == Reset::Payload && (fields.has("payload_text") || fields.has("payload_base64"));
        if fields.has(name) || is_payload {
            return Err(Failure::usage(format_args!(
                "--reset {name} is given together with a new {name}; only one of them can be"
            )));
        }
        fields.set(name, &());
    }
    if fields.is_empty() {
        return Err(Failure::usage(
            "nothing to change: name a time (--in, --at), payload, header, tag, destination, retry policy or --reset",
        ));
    }
    fields.set_some("if_revision", args.if_revision);
    let below = ["timers", args.id.as_str()];
    let call = session.http.namespace(Method::PATCH, &args.namespace, &below);
    let reply = call.body(&fields).hints(REVISION_HINTS).send().await?;
    get::show(session.printer, &reply)
}

impl Reset {
    /// The field's name, typed and sent alike.
    const fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Headers => "headers",
            Self::Tags => "tags",
            Self::Destination => "destination",
            Self::Retry => "retry",
        }
    }
}
