//! `duly schedule`: makes a timer.

use clap::{ArgGroup, ValueEnum};
use duly_core::{Millis, NamespaceName, State, TimerId};

use crate::{
    Outcome,
    answer::{self, problem},
    args::{due::Due, labels::Labels, payload::PayloadArgs, place::Place, retry::Retry, values},
    cli::Session,
    http::Hint,
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
#[derive(Clone, Copy, ValueEnum)]
enum IfExists {
    /// Refuse (the default)
    Fail,
    /// Answer the timer that is there
    Keep,
    /// Put this one in its place
    Replace,
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
    let client = session.client()?;
    let mut schedule = args.due.schedule();
    if let Some(id) = args.id {
        schedule = schedule.id(id.as_str());
    }
    if let Some(payload) = args.payload.payload()? {
        schedule = schedule.payload(payload);
    }
    for (name, value) in args.labels.headers().unwrap_or_default() {
        schedule = schedule.header(name, value);
    }
    for tag in args.labels.tags().unwrap_or_default() {
        schedule = schedule.tag(tag);
    }
    if let Some(destination) = args.place.destination()? {
        schedule = schedule.destination(destination);
    }
    if let Some(after) = args.expire_after {
        schedule = schedule.expire_after(after.to_std());
    }
    if let Some(key) = args.slot_key {
        schedule = schedule.slot_key(key);
    }
    if let Some(policy) = args.retry.policy() {
        schedule = schedule.retry(policy);
    }
    if let Some(if_exists) = args.if_exists {
        schedule = schedule.if_exists(if_exists.into());
    }
    let scheduled = client.schedule(args.namespace.as_str(), schedule).await;
    let scheduled = scheduled.map_err(|error| problem::failure(&error, HINTS))?;
    session.printer.document(&answer::scheduled(&scheduled)?, || {
        let timer = &scheduled.timer;
        let what = match scheduled.outcome {
            duly_client::Outcome::Created => "scheduled".to_owned(),
            duly_client::Outcome::Existing => format!("exists already, {}", timer.state.as_str()),
            duly_client::Outcome::Replaced => "replaced".to_owned(),
        };
        let id = text::preview(&timer.id, usize::MAX);
        let (now, due_at) = (when::now(), timer.due_at.map(answer::moment));
        let is_past = due_at.is_some_and(|due_at| due_at < now);
        let at_once = if is_past && timer.state == State::Scheduled { ", so at once" } else { "" };
        let due_at = due_at.map(|due_at| when::with_distance(&due_at.to_string(), now));
        let due_at = due_at.unwrap_or_default();
        Ok(format!("{id}  {what}, due {due_at}{at_once}"))
    })
}

impl From<IfExists> for duly_client::IfExists {
    fn from(if_exists: IfExists) -> Self {
        match if_exists {
            IfExists::Fail => Self::Fail,
            IfExists::Keep => Self::Keep,
            IfExists::Replace => Self::Replace,
        }
    }
}
