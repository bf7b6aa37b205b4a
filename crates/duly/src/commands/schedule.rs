//! `duly schedule`: makes a timer.

use clap::{ArgGroup, ValueEnum};
use duly_core::{Millis, NamespaceName, State, TimerId, Timestamp};
use reqwest::Method;

use crate::{
    Outcome,
    args::{
        due::Due, fields::RequestFields, labels::Labels, payload::PayloadArgs, place::Place,
        retry::Retry, values,
    },
    cli::Session,
    http::Hint,
    output::{text, timers::Timer, when},
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
    let mut fields = RequestFields::default();
    fields.set_some("id", args.id.as_ref().map(TimerId::as_str));
    args.due.set(&mut fields);
    args.payload.set(&mut fields)?;
    args.labels.set(&mut fields);
    fields.set_some("destination", args.place.field()?);
    fields.set_some("expire_after", args.expire_after.map(|after| after.to_string()));
    fields.set_some("slot_key", args.slot_key);
    fields.set_some("retry", args.retry.field());
    let if_exists = args.if_exists.and_then(|what| what.to_possible_value());
    fields.set_some("if_exists", if_exists.map(|what| what.get_name().to_owned()));
    let call = session.http.namespace(Method::POST, &args.namespace, &["timers"]);
    let reply = call.body(&fields).hints(HINTS).send().await?;
    session.printer.answer(&reply, || {
        let timer: Timer = reply.parse()?;
        let what = match (timer.existing, timer.replaced) {
            (true, _) => format!("exists already, {}", timer.state),
            (_, true) => "replaced".to_owned(),
            (false, false) => "scheduled".to_owned(),
        };
        let id = text::preview(&timer.id, usize::MAX);
        let (now, due_at) = (when::now(), timer.due_at.unwrap_or_default());
        let is_past = Timestamp::parse(&due_at).is_ok_and(|due_at| due_at < now);
        let is_waiting = timer.state == State::Scheduled.as_str();
        let at_once = if is_past && is_waiting { ", so at once" } else { "" };
        Ok(format!("{id}  {what}, due {}{at_once}", when::with_distance(&due_at, now)))
    })
}
