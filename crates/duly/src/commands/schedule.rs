//! `duly schedule`: makes a timer.

use clap::{ArgGroup, ValueEnum};
use duly_core::{Millis, NamespaceName, TimerId, Timestamp};
use reqwest::Method;
use serde::{Deserialize, Serialize};
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
    output::{text, when},
};

/// Schedule a timer: deliver this payload at that time, unless cancelled
///
/// The same command again answers the timer that is there, if it names an ID.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("when").args(Due::ARGS).required(true))]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// The timer's id, unique in its namespace; the server makes one when it is left out
    #[arg(value_parser = values::timer_id)]
    id: Option<TimerId>,
    #[command(flatten)]
    due: Due,
    #[command(flatten)]
    payload: PayloadArgs,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    place: Place,
    /// What to do when another timer has this id
    #[arg(long, value_name = "WHAT")]
    if_exists: Option<IfExists>,
    /// Give it up when it is later than this after it was due
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    expire_after: Option<Millis>,
    /// What a broker partitions by
    #[arg(long, value_name = "TEXT")]
    slot_key: Option<String>,
    #[command(flatten)]
    retry: Retry,
}

/// What happens when another timer has the id.
#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum IfExists {
    /// Refuse (the default)
    Fail,
    /// Answer the timer that is there
    Keep,
    /// Put this one in its place
    Replace,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
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
    expire_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_exists: Option<IfExists>,
}

#[derive(Deserialize)]
struct Scheduled {
    id: String,
    state: String,
    due_at: Option<String>,
    #[serde(default)]
    existing: bool,
    #[serde(default)]
    replaced: bool,
}

/// What to type when the id is taken.
const HINTS: &[Hint] = &[
    ("already_exists in_flight", "as an option: `--if-exists keep`"),
    ("already_exists", "as an option: `--if-exists keep` or `--if-exists replace`"),
    ("finished", "as an option: `--if-exists replace`"),
    (
        "dead",
        "`duly dead redrive`, `duly dead purge`, or `--if-exists replace`: the dead letter stays",
    ),
];

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let body = Body {
        id: args.id.as_ref().map(TimerId::as_str),
        due: args.due.fields(),
        payload: args.payload.fields()?,
        headers: args.labels.headers(),
        tags: args.labels.tags(),
        destination: args.place.field(),
        expire_after: args.expire_after.map(|after| after.to_string()),
        slot_key: args.slot_key.as_deref(),
        retry: args.retry.field(),
        if_exists: args.if_exists,
    };
    let call = session.client.namespace(Method::POST, &args.namespace, &["timers"]);
    let answer = call.body(&body).hints(HINTS).send().await?;
    session.printer.answer(&answer, || {
        let scheduled: Scheduled = answer.parse()?;
        let what = match (scheduled.existing, scheduled.replaced) {
            (true, _) => format!("exists already, {}", text::preview(&scheduled.state, usize::MAX)),
            (_, true) => "replaced".to_owned(),
            _ => "scheduled".to_owned(),
        };
        let id = text::preview(&scheduled.id, usize::MAX);
        let due_at = scheduled.due_at.unwrap_or_default();
        let now = when::now();
        let is_past = Timestamp::parse(&due_at).is_ok_and(|due_at| due_at < now);
        let at_once = if is_past && scheduled.state == "scheduled" { ", so at once" } else { "" };
        let due_at = text::preview(&when::with_distance(&due_at, now), usize::MAX);
        Ok(format!("{id}  {what}, due {due_at}{at_once}"))
    })
}
