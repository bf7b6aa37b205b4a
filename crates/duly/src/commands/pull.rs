//! `duly lease` and `duly settle`: lease due firings of the pull lane, and settle them.

use duly_api::{
    Ack, DeadVerdict, Duration, ExtendVerdict, LeaseRequest, LeaseResponse, RetryVerdict,
    SettleOutcome, SettleResponse, SettleResult, Settlement, SnoozeVerdict, lease::LEASE_BYTES_MAX,
};
use duly_core::{Millis, NamespaceName};
use serde_json::json;

use crate::{
    Outcome,
    args::{NamespaceArg, values},
    failure::Failure,
    http::{self, HttpResponse},
    output::{Table, Tone, text, timers, when},
    session::Session,
};

/// Lease due firings whose destination is pull
///
/// Until the lease ends no other consumer gets them; settle them with `duly settle`.
#[derive(clap::Args)]
pub(crate) struct LeaseArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Most firings to lease
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::within::<1, 10_000>)]
    max: u16,
    /// Wait up to this long for the first one, at most 60s
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    wait: Option<Millis>,
    /// Length of the lease, 1s to 12h; default is the namespace's setting
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    lease: Option<Millis>,
    /// Most bytes of payload
    #[arg(long, value_name = "N", value_parser = values::whole::<u64, 1, LEASE_BYTES_MAX>)]
    max_bytes: Option<u64>,
    /// Acknowledge the firings after they are printed
    #[arg(long)]
    ack: bool,
}

/// Leases firings.
pub(crate) async fn lease(args: LeaseArgs, session: &Session) -> Outcome {
    let request = LeaseRequest {
        namespace: String::new(),
        max: Some(args.max.into()),
        max_bytes: args.max_bytes,
        lease: args.lease.map(Duration::from),
        wait: args.wait.map(Duration::from),
    };
    let printer = session.printer;
    let namespace = &args.named.namespace;
    let wait = args.wait.unwrap_or_default();
    let call = session.http.post(namespace, &["lease"]);
    let reply = call.body(&request).waiting(wait.to_std()).send().await?;
    let LeaseResponse { firings, paused } = reply.parse()?;
    // Printed before it is acknowledged: a firing that could not be printed is leased again.
    if printer.is_ndjson() {
        printer.json_list("firings", reply.items("firings")?)?;
    } else {
        printer.document(&reply.text, || {
            Ok(match (firings.is_empty(), paused) {
                (true, true) => "none: the namespace is paused".to_owned(),
                (true, false) => "none".to_owned(),
                (false, _) => timers::firings(&firings, when::now()).text(printer.screen),
            })
        })?;
    }
    let tokens: Vec<_> = firings.into_iter().map(|firing| firing.token).collect();
    if args.ack && !tokens.is_empty() {
        let verdict = Settlement { ack: Some(Ack {}), ..Settlement::default() };
        refused(&request_settlements(session, &args.named.namespace, &tokens, &verdict).await?.1)?;
    }
    Ok(())
}

/// Settle leased firings: acknowledge, retry, put off or dead-letter them, or extend their leases
#[derive(clap::Args)]
pub(crate) struct SettleArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// The tokens of the leases, as `duly lease` printed them
    #[arg(value_name = "TOKEN", required = true)]
    tokens: Vec<String>,
    #[command(flatten)]
    verdict: VerdictArgs,
    /// With --retry: wait this long before the next attempt, instead of the policy's wait
    #[arg(
        long,
        value_name = "DURATION",
        conflicts_with_all = ["ack", "snooze", "dead", "extend"],
        value_parser = values::duration
    )]
    after: Option<Millis>,
    /// With --retry and --dead: the reason; required with --dead
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with_all = ["ack", "snooze", "extend"],
        required_if_eq("dead", "true"),
        allow_hyphen_values = true
    )]
    reason: Option<String>,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct VerdictArgs {
    /// Acknowledge: the firing was handled
    #[arg(long)]
    ack: bool,
    /// Retry: the firing was not handled
    #[arg(long)]
    retry: bool,
    /// Put the firing off by this long: it cannot be handled yet, and the attempt does not count
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    snooze: Option<Millis>,
    /// Dead-letter: the firing can never be handled; needs a --reason
    #[arg(long)]
    dead: bool,
    /// Extend the lease to this long from now
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    extend: Option<Millis>,
}

/// Settles firings.
pub(crate) async fn settle(args: SettleArgs, session: &Session) -> Outcome {
    let verdict = args.verdict.settlement(args.after, args.reason);
    let SettleArgs { named: NamespaceArg { namespace }, tokens, .. } = args;
    let (reply, results) = request_settlements(session, &namespace, &tokens, &verdict).await?;
    let printer = session.printer;
    printer.document(&reply.text, || {
        let words = results.iter().map(word);
        if tokens.len() == 1 {
            return Ok(words.map(|word| text::line(&word)).collect());
        }
        let mut table = Table::new(&["token", "outcome"]);
        for (token, word) in tokens.iter().zip(words) {
            table.row(Tone::Plain, [token.clone(), word]);
        }
        Ok(table.text(printer.screen))
    })?;
    refused(&results)
}

async fn request_settlements(
    session: &Session,
    namespace: &NamespaceName,
    tokens: &[String],
    verdict: &Settlement,
) -> Result<(HttpResponse, Vec<SettleResult>), Failure> {
    let of_token = |token: &String| Settlement { token: token.clone(), ..verdict.clone() };
    let settlements: Vec<_> = tokens.iter().map(of_token).collect();
    let call = session.http.post(namespace, &["settle"]);
    let reply = call.body(&json!({ "settlements": settlements })).send().await?;
    let SettleResponse { results, .. } = reply.parse()?;
    Ok((reply, results))
}

/// Fails if a settlement was refused or came too late.
fn refused(results: &[SettleResult]) -> Outcome {
    let is_taken = |result: &SettleResult| {
        use SettleOutcome::{AlreadySettled, Cancelled, Dead, Ok};
        result.error.is_none() && matches!(result.outcome(), Ok | Dead | Cancelled | AlreadySettled)
    };
    let mut refused = results.iter().filter(|result| !is_taken(result));
    let Some(first) = refused.next() else {
        return Ok(());
    };
    let others = match refused.count() {
        0 => String::new(),
        others => format!(", and {others} more were not settled either"),
    };
    let first = match first.outcome() {
        SettleOutcome::LeaseLost => {
            "the lease is not held any more (lease_lost): nothing changed; lease the firing again"
                .to_owned()
        }
        SettleOutcome::InvalidToken => {
            "no lease of this namespace has this token (invalid_token): take it from `duly lease`"
                .to_owned()
        }
        _ => word(first),
    };
    Err(Failure::coded("not_settled", format_args!("{first}{others}")))
}

fn word(result: &SettleResult) -> String {
    match &result.error {
        Some(problem) => http::sentence(problem, &[]),
        None => result.outcome().to_string(),
    }
}

impl VerdictArgs {
    /// Returns the verdict, without a token.
    fn settlement(self, after: Option<Millis>, reason: Option<String>) -> Settlement {
        let after = after.map(Duration::from);
        let lease = self.extend.map(Duration::from);
        Settlement {
            token: String::new(),
            ack: self.ack.then_some(Ack {}),
            retry: self.retry.then(|| RetryVerdict { after, reason: reason.clone() }),
            snooze: self.snooze.map(|after| SnoozeVerdict { after: Some(after.into()) }),
            dead: self.dead.then(|| DeadVerdict { reason: reason.unwrap_or_default() }),
            extend: lease.map(|lease| ExtendVerdict { lease: Some(lease) }),
        }
    }
}
