//! `duly lease`: takes due firings of the pull lane.

use duly_client::Lease;
use duly_core::{Millis, NamespaceName};

use crate::{
    Outcome,
    answer::{self, problem},
    args::values,
    cli::Session,
    commands::settle,
    output::{timers, when},
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

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let mut lease = Lease::up_to(args.max.into()).wait(args.wait.unwrap_or_default().to_std());
    if let Some(bytes) = args.max_bytes {
        lease = lease.max_bytes(bytes);
    }
    if let Some(lasting) = args.lease {
        lease = lease.lasting(lasting.to_std());
    }
    let client = session.client()?;
    let leased = client.lease(args.namespace.as_str(), lease).await;
    let leased = leased.map_err(|error| problem::failure(&error, &[]))?;
    let printer = session.printer;
    // Printed before it is confirmed: what nobody read is leased again.
    if printer.is_ndjson() {
        let firings = answer::firings(&leased)?;
        printer.json_list("firings", firings.iter().map(String::as_str))?;
    } else {
        printer.document(&answer::leased(&leased)?, || {
            Ok(match (leased.firings.is_empty(), leased.paused) {
                (true, true) => "none: the namespace is paused".to_owned(),
                (true, false) => "none".to_owned(),
                (false, _) => timers::firings(&leased.firings, when::now()).text(printer.screen()),
            })
        })?;
    }
    let tokens: Vec<_> = leased.firings.into_iter().map(|firing| firing.token).collect();
    if args.ack && !tokens.is_empty() {
        settle::ack(session, &args.namespace, &tokens).await?;
    }
    Ok(())
}
