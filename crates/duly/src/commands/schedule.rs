//! `duly schedule`: creates a timer.

use clap::ArgGroup;
use duly_api::{Duration, IfExists, Schedule, State, Timer, Words as _};
use duly_core::{Millis, TimerId};

use crate::{
    Outcome,
    args::{NamespaceArg, delivery::Retry, timer::TimerArgs, values},
    http::Hint,
    output::{note, text, when},
    session::Session,
};

/// Schedule a timer: deliver this payload at that time, unless cancelled
///
/// With an ID, the same command again returns the existing timer, with exit code 3: nothing changed.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("when").args(TimerArgs::WHEN).required(true))]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// The timer's id, unique in its namespace; the server creates one if it is absent
    #[arg(value_parser = values::timer_id)]
    id: Option<TimerId>,
    #[command(flatten)]
    timer: TimerArgs,
    /// Action if another timer has this id
    #[arg(long, value_name = "ACTION", value_parser = values::named(&IF_EXISTS, IfExists::as_str))]
    if_exists: Option<IfExists>,
    /// Dead-letter the timer if it is later than this after its due time
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    expire_after: Option<Millis>,
    /// Key by which a broker partitions
    #[arg(long, value_name = "TEXT")]
    slot_key: Option<String>,
    #[command(flatten)]
    retry: Retry,
}

/// The actions if another timer has the id.
const IF_EXISTS: [(IfExists, &str); 4] = [
    (IfExists::Fail, "Refuse (the default)"),
    (IfExists::Keep, "Return the existing timer"),
    (IfExists::Replace, "Replace the existing timer, unless the same request made it"),
    (IfExists::Restart, "Replace the existing timer in any case: its time starts again"),
];

/// The hints for an id that is in use.
const HINTS: &[Hint] = &[
    ("already_exists in_flight", "as an option: `--if-exists keep`"),
    ("already_exists", "as an option: `--if-exists keep` or `--if-exists replace`"),
    ("finished", "as an option: `--if-exists replace`"),
    (
        "dead",
        "`duly dead redrive`, `duly dead purge`, or `--if-exists replace`: the dead letter stays",
    ),
];

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    if let Some(id) = args.id.as_ref().map(TimerId::as_str)
        && id.trim() != id
        && !session.printer.is_quiet
    {
        note(&format!("the id {id:?} begins or ends with a space, which is part of it"));
    }
    let request = Schedule {
        id: args.id.map(|id| id.as_str().to_owned()),
        expire_after: args.expire_after.map(Duration::from),
        slot_key: args.slot_key,
        if_exists: args.if_exists.unwrap_or_default().into(),
        retry: args.retry.policy(),
        ..args.timer.read()?
    };
    let call = session.http.post(&args.named.namespace, &["timers"]).body(&request).hints(HINTS);
    let response = call.send().await?;
    let timer: Timer = response.parse()?;
    let result = || {
        let what = match (timer.existing, timer.replaced) {
            (true, _) => format!("exists already, {}", timer.state()),
            (_, true) => "replaced".to_owned(),
            (false, false) => "scheduled".to_owned(),
        };
        let id = text::line(&timer.id);
        let (now, due_at) = (when::now(), timer.due_at.clone().unwrap_or_default());
        let is_past = due_at.check("").is_ok_and(|due_at| due_at < now);
        let is_waiting = timer.state() == State::Scheduled;
        let at_once = if is_past && is_waiting { ", so at once" } else { "" };
        format!("{id}  {what}, due {}{at_once}", when::with_distance(&due_at, now))
    };
    session.printer.document(&response.text, || Ok(result()))?;
    response.check_change()
}
