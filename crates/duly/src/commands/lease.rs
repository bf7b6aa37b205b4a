//! `duly lease`: takes due firings of the pull lane.

use duly_core::{Millis, NamespaceName};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    Outcome,
    args::values,
    cli::Session,
    commands::settle,
    output::{
        timers::{self, FiringRow},
        when,
    },
};

/// Lease due firings whose destination is pull
///
/// They belong to you until the lease ends; say what became of them with `duly settle`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::within::<1, 10_000>)]
    max: u16,
    /// Wait up to this long for the first one, at most 60s
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    wait: Option<Millis>,
    /// How long they belong to you, 1s to 12h; without it what the namespace says
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    lease: Option<Millis>,
    /// At most this many bytes of payload
    #[arg(long, value_name = "N", value_parser = values::whole::<u64>)]
    max_bytes: Option<u64>,
    /// Confirm what was received, after it is printed
    #[arg(long)]
    ack: bool,
}

#[derive(Serialize)]
struct Body {
    max: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<String>,
}

#[derive(Deserialize)]
struct Leased {
    firings: Vec<FiringRow>,
    #[serde(default)]
    paused: bool,
}

/// The firings as they came.
#[derive(Deserialize)]
struct RawFirings {
    firings: Vec<Box<RawValue>>,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let body = Body {
        max: args.max,
        max_bytes: args.max_bytes,
        lease: args.lease.map(|lease| lease.to_string()),
        wait: args.wait.map(|wait| wait.to_string()),
    };
    let answer = session
        .client
        .namespace(Method::POST, &args.namespace, &["lease"])
        .body(&body)
        .waiting(args.wait.unwrap_or_default().to_std())
        .send()
        .await?;
    let leased: Leased = answer.parse()?;
    let printer = session.printer;
    // Printed before it is confirmed: what nobody read is leased again.
    if printer.is_ndjson() {
        let RawFirings { firings } = answer.parse()?;
        printer.json_list("firings", firings.iter().map(|firing| firing.get()))?;
    } else {
        printer.answer(&answer, || {
            Ok(match (leased.firings.is_empty(), leased.paused) {
                (true, true) => "none: the namespace is paused".to_owned(),
                (true, false) => "none".to_owned(),
                (false, _) => timers::firings(&leased.firings, when::now()).text(printer.screen()),
            })
        })?;
    }
    let tokens: Vec<_> = leased.firings.into_iter().map(|row| row.token).collect();
    if args.ack && !tokens.is_empty() {
        settle::ack(session, &args.namespace, &tokens).await?;
    }
    Ok(())
}
