//! `duly settle`: says what became of a leased firing.

use duly_core::{Millis, NamespaceName};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    Outcome,
    args::values,
    cli::Session,
    failure::Failure,
    http::{self, Answer},
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
#[derive(Deserialize)]
struct Results {
    results: Vec<SettleResult>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SettleResult {
    Outcome(String),
    Error(Box<RawValue>),
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let verdict = args.verdict.field(args.after, args.reason);
    let (reply, results) = settle(session, &args.namespace, &args.tokens, &verdict).await?;
    let printer = session.printer;
    printer.answer(&reply, || {
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
    refused(&settle(session, namespace, tokens, &("ack", json!({}))).await?.1)
}

/// The name of a verdict and its fields.
type Verdict = (&'static str, Value);

async fn settle(
    session: &Session,
    namespace: &NamespaceName,
    tokens: &[String],
    (verdict, fields): &Verdict,
) -> Result<(Answer, Vec<SettleResult>), Failure> {
    let settlements: Vec<_> =
        tokens.iter().map(|token| json!({ "token": token, *verdict: fields })).collect();
    let call = session.http.namespace(Method::POST, namespace, &["settle"]);
    let reply = call.body(&json!({ "settlements": settlements })).send().await?;
    let Results { results } = reply.parse()?;
    Ok((reply, results))
}

/// Fails where a settlement changed nothing that it should have changed.
fn refused(results: &[SettleResult]) -> Outcome {
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

fn is_taken(result: &SettleResult) -> bool {
    let taken = ["ok", "dead", "already_settled"];
    matches!(result, SettleResult::Outcome(word) if taken.contains(&word.as_str()))
}

fn word(result: &SettleResult) -> String {
    match result {
        SettleResult::Outcome(word) => word.clone(),
        SettleResult::Error(problem) => http::detail(problem.get()),
    }
}

fn explained(result: &SettleResult) -> String {
    match result {
        SettleResult::Outcome(word) if word == "lease_lost" => {
            "the lease is not held any more (lease_lost): nothing changed; lease the firing again"
                .to_owned()
        }
        SettleResult::Outcome(word) if word == "invalid_token" => {
            "no lease of this namespace has this token (invalid_token): take it from `duly lease`"
                .to_owned()
        }
        _ => word(result),
    }
}

impl VerdictArgs {
    fn field(self, after: Option<Millis>, reason: Option<String>) -> Verdict {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Option<String>| {
            fields.extend(value.map(|value| (name.to_owned(), value.into())));
        };
        let name = match self.extend {
            Some(lease) => {
                set("lease", Some(lease.to_string()));
                "extend"
            }
            None if self.retry => {
                set("after", after.map(|after| after.to_string()));
                set("reason", reason);
                "retry"
            }
            None if self.dead => {
                set("reason", reason);
                "dead"
            }
            None => "ack",
        };
        (name, fields.into())
    }
}
