//! `duly lease`: takes due firings of the pull lane.

use duly_core::{Millis, NamespaceName};
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    args::{fields::RequestFields, values},
    cli::Session,
    commands::settle,
    failure::Failure,
    output::{
        timers::{self, Firing},
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

/// What was leased.
#[derive(Deserialize)]
struct Leased {
    firings: Vec<Box<RawValue>>,
    #[serde(default)]
    paused: bool,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let mut fields = RequestFields::default();
    fields.set("max", &args.max);
    fields.set_some("max_bytes", args.max_bytes);
    fields.set_some("lease", args.lease.map(|lease| lease.to_string()));
    fields.set_some("wait", args.wait.map(|wait| wait.to_string()));
    let call = session.http.namespace(Method::POST, &args.namespace, &["lease"]);
    let call = call.body(&fields).waiting(args.wait.unwrap_or_default().to_std());
    let reply = call.send().await?;
    let leased: Leased = reply.parse()?;
    let firings = leased.firings.iter().map(|firing| reply.parse_part(firing));
    let firings: Vec<Firing> = firings.collect::<Result<_, Failure>>()?;
    let printer = session.printer;
    // Printed before it is confirmed: what nobody read is leased again.
    if printer.is_ndjson() {
        printer.json_list("firings", leased.firings.iter().map(|firing| firing.get()))?;
    } else {
        printer.answer(&reply, || {
            Ok(match (firings.is_empty(), leased.paused) {
                (true, true) => "none: the namespace is paused".to_owned(),
                (true, false) => "none".to_owned(),
                (false, _) => timers::firings(&firings, when::now()).text(printer.screen()),
            })
        })?;
    }
    let tokens: Vec<_> = firings.into_iter().map(|firing| firing.token).collect();
    if args.ack && !tokens.is_empty() {
        settle::ack(session, &args.namespace, &tokens).await?;
    }
    Ok(())
}
