//! Cancels all timers that match a filter.

use duly_api::{CancelFilter, CancelManyRequest, CancelManyResponse, State, Time, Words as _};
use duly_core::NamespaceName;
use reqwest::Method;

use crate::{
    Outcome,
    args::{confirm::Confirm, filter::Conditions, values},
    cli::Session,
    failure::Failure,
    output::text,
};

/// A filter of timers: all conditions must be met.
#[derive(clap::Args)]
pub(super) struct Filter {
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

/// Runs the command. Repeated after a failure, it continues with the timers that are left.
pub(super) async fn run(
    namespace: &NamespaceName,
    filter: &Filter,
    confirm: &Confirm,
    session: &Session,
) -> Outcome {
    if !filter.dry_run && confirm.is_needed() {
        let count = filter.cancel(namespace, true, session).await?.cancelled;
        if count > 0 {
            let timers = text::count(count, "timer");
            Confirm::ask(&format!("Cancel {timers} of {namespace}?"))?;
        }
    }
    let total = filter.cancel(namespace, filter.dry_run, session).await?;
    let document = serde_json::to_string(&total).expect("counts are JSON");
    session.printer.document(&document, || Ok(shown(&total)))
}

impl Filter {
    /// Cancels the matching timers, call by call, or counts them.
    async fn cancel(
        &self,
        namespace: &NamespaceName,
        dry_run: bool,
        session: &Session,
    ) -> Result<CancelManyResponse, Failure> {
        let mut total = CancelManyResponse { dry_run, ..CancelManyResponse::default() };
        let mut request = CancelManyRequest {
            namespace: String::new(),
            filter: (!self.all).then(|| self.conditions()),
            all: self.all.then_some(true),
            limit: self.limit.map(u32::from),
            cursor: None,
            dry_run: dry_run.then_some(true),
        };
        loop {
            let call = session.http.namespace(Method::POST, namespace, &["cancel"]);
            let step: CancelManyResponse = call.body(&request).send().await?.parse()?;
            total.cancelled += step.cancelled;
            total.maybe_delivered += step.maybe_delivered;
            total.skipped += step.skipped;
            let cancelled = u32::try_from(step.cancelled).unwrap_or(u32::MAX);
            request.limit = request.limit.map(|left| left.saturating_sub(cancelled));
            request.cursor = step.cursor;
            if request.cursor.is_none() || request.limit == Some(0) {
                return Ok(total);
            }
        }
    }

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

fn shown(total: &CancelManyResponse) -> String {
    let done = if total.dry_run { "would be cancelled" } else { "cancelled" };
    let mut line = format!("{} {done}", text::count(total.cancelled, "timer"));
    if total.maybe_delivered > 0 {
        line.push_str(&format!(
            "; {} of them may have been delivered: the outcome of an attempt is unknown",
            total.maybe_delivered
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
