//! `duly reschedule`: changes a pending timer.

use clap::ValueEnum;
use duly_client::TimerField;
use duly_core::{NamespaceName, TimerId};

use crate::{
    Outcome,
    answer::problem,
    args::{due::Due, labels::Labels, payload::PayloadArgs, place::Place, retry::Retry, values},
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
    let headers = args.labels.headers();
    let tags = args.labels.tags();
    let payload_is_given = args.payload.is_given();
    let destination = args.place.destination()?;
    let retry = args.retry.policy();
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
    let client = session.client()?;
    let mut change = args.due.change();
    if let Some(payload) = args.payload.payload()? {
        change = change.payload(payload);
    }
    if let Some(headers) = headers {
        change = change.headers(headers.iter().cloned());
    }
    if let Some(tags) = tags {
        change = change.tags(tags);
    }
    if let Some(destination) = destination {
        change = change.destination(destination);
    }
    if let Some(policy) = retry {
        change = change.retry(policy);
    }
    for field in args.reset {
        change = change.reset(field.into());
    }
    if let Some(revision) = args.if_revision {
        change = change.if_revision(revision);
    }
    let timer = client.reschedule(args.namespace.as_str(), args.id.as_str(), change).await;
    let timer = timer.map_err(|error| problem::failure(&error, REVISION_HINTS))?;
    get::show_timer(session.printer, &timer)
}

impl From<Reset> for TimerField {
    fn from(field: Reset) -> Self {
        match field {
            Reset::Payload => Self::Payload,
            Reset::Headers => Self::Headers,
            Reset::Tags => Self::Tags,
            Reset::Destination => Self::Destination,
            Reset::Retry => Self::Retry,
        }
    }
}

impl Reset {
    /// The field's name, typed and sent alike.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
