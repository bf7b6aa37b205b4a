//! `duly settle`: says what became of a leased firing.

use duly_core::{Millis, NamespaceName};
use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::{
    Outcome,
    args::values,
    cli::Session,
    client::{Answer, Client},
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

/// A verdict as a request says it.
#[derive(Clone, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ack {},
    Retry {
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Dead {
        reason: String,
    },
    Extend {
        lease: String,
    },
}

#[derive(Serialize)]
struct Body<'a> {
    settlements: Vec<Settlement<'a>>,
}

#[derive(Serialize)]
struct Settlement<'a> {
    token: &'a str,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Settled>,
}

#[derive(Deserialize)]
struct Settled {
    outcome: Option<String>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    detail: String,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let verdict = args.verdict.verdict(args.after, args.reason);
    let answer = settle(&session.client, &args.namespace, &args.tokens, &verdict).await?;
    let printer = session.printer;
    printer.answer(&answer, || {
        let results: Results = answer.parse()?;
        let words = results.results.iter().map(Settled::word);
        if args.tokens.len() == 1 {
            return Ok(words.map(|word| text::preview(&word, usize::MAX)).collect());
        }
        let mut table = Table::new([Column::Whole("token"), Column::Whole("outcome")]);
        for (token, word) in args.tokens.iter().zip(words) {
            table.row(Tone::Plain, [token.clone(), word]);
        }
        Ok(table.text(printer.screen()))
    })?;
    refused(&answer)
}

/// Confirms the firings of these tokens.
pub(crate) async fn ack(
    session: &Session,
    namespace: &NamespaceName,
    tokens: &[String],
) -> Outcome {
    let answer = settle(&session.client, namespace, tokens, &Verdict::Ack {}).await?;
    refused(&answer)
}

async fn settle(
    client: &Client,
    namespace: &NamespaceName,
    tokens: &[String],
    verdict: &Verdict,
) -> Result<Answer, Failure> {
    let settlements =
        tokens.iter().map(|token| Settlement { token, verdict: verdict.clone() }).collect();
    let call = client.namespace(Method::POST, namespace, &["settle"]);
    call.body(&Body { settlements }).send().await
}

/// Fails where a settlement changed nothing that it should have changed.
fn refused(answer: &Answer) -> Outcome {
    let results: Results = answer.parse()?;
    let mut refused = results.results.iter().filter(|settled| !settled.is_taken());
    let Some(first) = refused.next() else {
        return Ok(());
    };
    let others = match refused.count() {
        0 => String::new(),
        others => format!(", and {others} more were not settled either"),
    };
    Err(Failure::coded("not_settled", format_args!("{}{others}", first.explained())))
}

impl VerdictArgs {
    fn verdict(self, after: Option<Millis>, reason: Option<String>) -> Verdict {
        match self.extend {
            Some(lease) => Verdict::Extend { lease: lease.to_string() },
            None if self.retry => {
                Verdict::Retry { after: after.map(|after| after.to_string()), reason }
            }
            None if self.dead => Verdict::Dead { reason: reason.unwrap_or_default() },
            None => Verdict::Ack {},
        }
    }
}

impl Settled {
    fn is_taken(&self) -> bool {
        matches!(self.outcome.as_deref(), Some("ok" | "dead" | "already_settled"))
    }

    fn word(&self) -> String {
        match (&self.outcome, &self.error) {
            (Some(outcome), _) => outcome.clone(),
            (None, Some(refusal)) => refusal.detail.clone(),
            (None, None) => "no answer".to_owned(),
        }
    }

    fn explained(&self) -> String {
        match self.outcome.as_deref() {
            Some("lease_lost") => {
                "the lease is not held any more (lease_lost): nothing changed; lease the firing again"
                    .to_owned()
            }
            Some("invalid_token") => {
                "no lease of this namespace has this token (invalid_token): take it from `duly lease`"
                    .to_owned()
            }
            _ => self.word(),
        }
    }
}
