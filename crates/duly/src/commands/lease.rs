//! `duly lease`: leases due firings of the pull lane.

use duly_api::{Duration, LeaseRequest, LeaseResponse};
use duly_core::Millis;

use crate::{
    Outcome,
    args::{NamespaceArg, values},
    cli::Session,
    commands::settle,
    output::{timers, when},
};

/// Lease due firings whose destination is pull
///
/// Until the lease ends no other consumer gets them; settle them with `duly settle`.
#[derive(clap::Args)]
pub(crate) struct Args {
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
    #[arg(long, value_name = "N", value_parser = values::whole::<u64>)]
    max_bytes: Option<u64>,
    /// Acknowledge the firings after they are printed
    #[arg(long)]
    ack: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let request = LeaseRequest {
        namespace: String::new(),
        max: Some(args.max.into()),
        max_bytes: args.max_bytes,
        lease: args.lease.map(Duration::from),
        wait: args.wait.map(Duration::from),
    };
    let call = session.http.post(&args.named.namespace, &["lease"]);
    let call = call.body(&request).waiting(args.wait.unwrap_or_default().to_std());
    let reply = call.send().await?;
    let LeaseResponse { firings, paused } = reply.parse()?;
    let printer = session.printer;
    // Printed before it is acknowledged: a firing that could not be printed is leased again.
    if printer.is_ndjson() {
        printer.json_list("firings", reply.items("firings")?)?;
    } else {
        printer.document(&reply.text, || {
            Ok(match (firings.is_empty(), paused) {
                (true, true) => "none: the namespace is paused".to_owned(),
                (true, false) => "none".to_owned(),
                (false, _) => timers::firings(&firings, when::now()).text(printer.screen()),
            })
        })?;
    }
    let tokens: Vec<_> = firings.into_iter().map(|firing| firing.token).collect();
    if args.ack && !tokens.is_empty() {
        settle::ack(session, &args.named.namespace, &tokens).await?;
    }
    Ok(())
}
