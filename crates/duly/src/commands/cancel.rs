//! `duly cancel`: cancels timers: one by its id, with a definite result, or all that match a filter.

use duly_api::{
    CancelFilter, CancelManyRequest, CancelManyResponse, CancelResponse, State, Time, Words as _,
};
use duly_core::{NamespaceName, TimerId};
use reqwest::Method;

use crate::{
    Outcome,
    args::{Conditions, Confirm, NamespaceArg, values},
    commands::reschedule,
    failure::Failure,
    http::Hint,
    output::text,
    place::Place,
    session::Session,
};

/// Cancel a timer, or all that match a filter
///
/// When the command succeeds, the timer is never delivered. Without an id, every pending timer that
/// meets all given conditions is cancelled. `--dry-run` counts them first, and at a terminal you are
/// asked for confirmation. Timers that are being delivered are refused, or skipped and counted, unless
/// `--no-further-attempt` is given.
#[derive(clap::Args)]
#[command(
    override_usage = "duly cancel [OPTIONS] <NAMESPACE> <ID>\n       duly cancel [OPTIONS] <NAMESPACE> <--tag <TAG>|--id-prefix <TEXT>|--due-from <TIME>|--due-to <TIME>|--state <STATE>|--all>"
)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// The timer's id
    #[arg(
        value_parser = values::timer_id,
        required_unless_present_any = ["tag", "id_prefix", "due_from", "due_to", "state", "all"],
        conflicts_with_all = ["tag", "id_prefix", "due_from", "due_to", "state", "all", "limit", "dry_run"]
    )]
    id: Option<TimerId>,
    /// Only if the timer has this revision
    #[arg(long, value_name = "N", requires = "id", value_parser = values::revision)]
    if_revision: Option<u32>,
    /// If an attempt is under way, it is the last one: unless it succeeds, the timer is cancelled when it ends
    #[arg(long)]
    no_further_attempt: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    confirm: Confirm,
}

/// A filter of timers: all conditions must be met.
#[derive(clap::Args)]
struct Filter {
    #[command(flatten)]
    conditions: Conditions,
    /// In this state
    #[arg(long, value_parser = values::named(&STATES, State::as_str))]
    state: Option<State>,
    /// Every pending timer of the namespace, in place of a condition
    #[arg(
        long,
        conflicts_with_all = ["tag", "id_prefix", "due_from", "due_to", "state"]
    )]
    all: bool,
    /// Cancel at most this many; the same command again continues with the rest
    #[arg(
        long,
        value_name = "N",
        value_parser = values::within::<1, 10_000>
    )]
    limit: Option<u16>,
    /// Cancel nothing, and print the number of timers that would be cancelled
    #[arg(long)]
    dry_run: bool,
}

/// The states in which a timer can be cancelled.
const STATES: [(State, &str); 3] = [values::STATES[0], values::STATES[1], values::STATES[3]];

/// The hints for a timer that another caller has changed, or that is in flight.
const HINTS: &[Hint] =
    &[reschedule::REVISION_HINTS[0], ("in_flight", "as an option: `--no-further-attempt`")];

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let Some(id) = &args.id else {
        return cancel_matching(namespace, &args, session).await;
    };
    let if_revision = args.if_revision.map(|revision| ("if_revision", revision.to_string()));
    let stops = args.no_further_attempt.then(|| ("no_further_attempt", "true".to_owned()));
    let query: Vec<_> = if_revision.into_iter().chain(stops).collect();
    let call = session.http.namespace(Method::DELETE, namespace, &["timers", id.as_str()]);
    let call = call.query(&query).hints(HINTS);
    let result = |cancelled: CancelResponse| {
        let word = if cancelled.no_further_attempt {
            "in flight, no further attempt follows"
        } else {
            "cancelled"
        };
        let mut line = format!("{}  {word}", text::line(id.as_str()));
        if cancelled.already && !cancelled.no_further_attempt {
            line.push_str(" already");
        }
        if cancelled.attempts > 0 && !cancelled.no_further_attempt {
            let attempts = text::count(cancelled.attempts.into(), "attempt");
            line.push_str(&format!(", after {attempts}"));
        }
        if cancelled.maybe_delivered {
            line.push_str("; it may have been delivered: the outcome of an attempt is unknown");
        }
        line
    };
    session.print(call, result).await
}

/// Cancels all timers that match the filter. Repeated after a failure, it continues with the timers that are left.
async fn cancel_matching(namespace: &NamespaceName, args: &Args, session: &Session) -> Outcome {
    let dry_run = args.filter.dry_run;
    if !dry_run && args.confirm.is_needed() {
        let found = args.cancel_many(namespace, true, session).await?;
        let count = found.cancelled + found.stopped;
        if count > 0 {
            let timers = text::count(count, "timer");
            let place = session.http.place();
            Confirm::ask(&format!("Cancel {timers} of {namespace} at {place}?"))?;
        }
    }
    let total = args.cancel_many(namespace, dry_run, session).await?;
    let document = serde_json::to_string(&total).expect("counts are JSON");
    session.printer.document(&document, || Ok(shown(&total, &session.http.place())))
}

impl Args {
    /// Cancels the matching timers, call by call, or counts them.
    async fn cancel_many(
        &self,
        namespace: &NamespaceName,
        dry_run: bool,
        session: &Session,
    ) -> Result<CancelManyResponse, Failure> {
        let mut total = CancelManyResponse { dry_run, ..CancelManyResponse::default() };
        let mut request = CancelManyRequest {
            namespace: String::new(),
            filter: (!self.filter.all).then(|| self.filter.conditions()),
            all: self.filter.all.then_some(true),
            limit: self.filter.limit.map(u32::from),
            cursor: None,
            dry_run: dry_run.then_some(true),
            no_further_attempt: self.no_further_attempt.then_some(true),
        };
        loop {
            let call = session.http.post(namespace, &["cancel"]);
            let step: CancelManyResponse =
                call.body(&request).send_patiently(session.printer).await?.parse()?;
            total.cancelled += step.cancelled;
            total.maybe_delivered += step.maybe_delivered;
            total.skipped += step.skipped;
            total.stopped += step.stopped;
            let done = u32::try_from(step.cancelled + step.stopped).unwrap_or(u32::MAX);
            request.limit = request.limit.map(|left| left.saturating_sub(done));
            request.cursor = step.cursor;
            if request.cursor.is_none() || request.limit == Some(0) {
                return Ok(total);
            }
        }
    }
}

impl Filter {
    fn conditions(&self) -> CancelFilter {
        let Conditions { due_from, due_to, id_prefix, tag } = &self.conditions;
        CancelFilter {
            tag: tag.clone(),
            id_prefix: id_prefix.clone(),
            due_from: due_from.map(Time::from),
            due_to: due_to.map(Time::from),
            state: self.state.unwrap_or_default().into(),
        }
    }
}

fn shown(total: &CancelManyResponse, place: &Place) -> String {
    let done = if total.dry_run { "would be cancelled" } else { "cancelled" };
    let mut line = format!("{} {done} at {place}", text::count(total.cancelled, "timer"));
    if total.maybe_delivered > 0 {
        line.push_str(&format!(
            "; {} of them may have been delivered: the outcome of an attempt is unknown",
            total.maybe_delivered
        ));
    }
    if total.stopped > 0 {
        line.push_str(&format!(
            "; {} in flight: no further attempt follows",
            text::count(total.stopped, "timer")
        ));
    }
    if total.skipped > 0 {
        line.push_str(&format!(
            "; {} skipped, being delivered or changed meanwhile: `duly list` shows the pending \
             timers",
            text::count(total.skipped, "timer")
        ));
    }
    line
}
