//! `duly settle`: says what became of a leased firing.

use duly_client::{Error, Settled, Settlement, Verdict};
use duly_core::{Millis, NamespaceName};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    answer::{self, problem},
    args::values,
    cli::Session,
    failure::Failure,
    output::{
        table::{Column, Table},
        terminal::Tone,
        text,
    },
};

/// Settle leased firings: confirm them, hand them back, give them up, or hold them longer
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// The tokens of the leases, as `duly lease` showed them
    #[arg(value_name = "TOKEN", required = true)]
    tokens: Vec<String>,
    #[command(flatten)]
    verdict: VerdictArgs,
    /// With --retry: wait this long before the next attempt, instead of what the policy says
    #[arg(
        long,
        value_name = "DURATION",
        conflicts_with_all = ["ack", "dead", "extend"],
        value_parser = values::duration
    )]
    after: Option<Millis>,
    /// With --retry and --dead: why; --dead needs it
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with_all = ["ack", "extend"],
        required_if_eq("dead", "true"),
        allow_hyphen_values = true
    )]
    reason: Option<String>,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct VerdictArgs {
    /// It was processed
    #[arg(long)]
    ack: bool,
    /// It was not; try again
    #[arg(long)]
    retry: bool,
    /// It can never be; make it a dead letter, with a --reason
    #[arg(long)]
    dead: bool,
    /// Hold it for this long from now
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    extend: Option<Millis>,
}

/// One result for each token, in order.
type Results = Vec<Result<Settled, Error>>;

/// The results as a document.
#[derive(Serialize)]
struct ResultsOut {
    results: Vec<ResultOut>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ResultOut {
    Outcome(&'static str),
    Error(Box<RawValue>),
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let verdict = args.verdict.verdict(args.after, args.reason);
    let results = settle(session, &args.namespace, &args.tokens, &verdict).await?;
    let printer = session.printer;
    printer.document(&document(&results), || {
        let words = results.iter().map(word);
        if args.tokens.len() == 1 {
            return Ok(words.map(|word| text::preview(&word, usize::MAX)).collect());
        }
        let mut table = Table::new([Column::Whole("token"), Column::Whole("outcome")]);
        for (token, word) in args.tokens.iter().zip(words) {
            table.row(Tone::Plain, [token.clone(), word]);
        }
        Ok(table.text(printer.screen()))
    })?;
    refused(&results)
}

/// Confirms the firings of these tokens.
pub(crate) async fn ack(
    session: &Session,
    namespace: &NamespaceName,
    tokens: &[String],
) -> Outcome {
    refused(&settle(session, namespace, tokens, &Verdict::Ack).await?)
}

async fn settle(
    session: &Session,
    namespace: &NamespaceName,
    tokens: &[String],
    verdict: &Verdict,
) -> Result<Results, Failure> {
    let settlements = tokens.iter().map(|token| Settlement::new(token, verdict.clone())).collect();
    let results = session.client()?.settle(namespace.as_str(), settlements).await;
    results.map_err(|error| problem::failure(&error, &[]))
}

fn document(results: &Results) -> String {
    let results = results.iter().map(|result| match result {
        Ok(settled) => ResultOut::Outcome(answer::settled(*settled)),
        Err(error) => {
            let problem = RawValue::from_string(problem::of_item(error));
            ResultOut::Error(problem.expect("it was written as JSON just now"))
        }
    });
    answer::json(&ResultsOut { results: results.collect() })
}

/// Fails where a settlement changed nothing that it should have changed.
fn refused(results: &Results) -> Outcome {
    let mut refused = results.iter().filter(|result| !is_taken(result));
    let Some(first) = refused.next() else {
        return Ok(());
    };
    let others = match refused.count() {
        0 => String::new(),
        others => format!(", and {others} more were not settled either"),
    };
    Err(Failure::coded("not_settled", format_args!("{}{others}", explained(first))))
}

const fn is_taken(result: &Result<Settled, Error>) -> bool {
    matches!(result, Ok(Settled::Done | Settled::Dead | Settled::Already))
}

fn word(result: &Result<Settled, Error>) -> String {
    match result {
        Ok(settled) => answer::settled(*settled).to_owned(),
        Err(error) => match error.refusal() {
            Some(refusal) => refusal.detail.clone(),
            None => error.to_string(),
        },
    }
}

fn explained(result: &Result<Settled, Error>) -> String {
    match result {
        Ok(Settled::LeaseLost) => {
            "the lease is not held any more (lease_lost): nothing changed; lease the firing again"
                .to_owned()
        }
        Ok(Settled::InvalidToken) => {
            "no lease of this namespace has this token (invalid_token): take it from `duly lease`"
                .to_owned()
        }
        _ => word(result),
    }
}

impl VerdictArgs {
    fn verdict(self, after: Option<Millis>, reason: Option<String>) -> Verdict {
        match self.extend {
            Some(lease) => Verdict::Extend { lease: lease.to_std() },
            None if self.retry => Verdict::Retry { after: after.map(Millis::to_std), reason },
            None if self.dead => Verdict::Dead { reason: reason.unwrap_or_default() },
            None => Verdict::Ack,
        }
    }
}
