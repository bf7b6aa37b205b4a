//! `duly namespace repair`.

use duly_api::RepairNamespaceResponse;
use reqwest::Method;

use crate::{
    Outcome,
    args::{confirm::Confirm, identity::NamespaceArg},
    cli::Session,
    output::text,
};

/// Restore the record of a namespace that its coordinator shard in Redis has lost
///
/// The other shards have the settings, and their timers are kept; the timers of a lost shard are gone.
/// If no record is lost, nothing changes. If the shards have the namespace under several numbers, as
/// after a master of Redis was rolled back, the refusal lists the numbers, and `--keep` selects one.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// Keep the namespace under this number and discard the timers under any other; at a terminal you
    /// are asked for confirmation
    #[arg(long, value_name = "NUMBER")]
    keep: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
}

/// Runs the command.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if let Some(keep) = args.keep.as_ref().filter(|_| args.confirm.is_needed()) {
        Confirm::ask(&format!(
            "Keep {namespace} under number {keep} and discard its timers under any other?"
        ))?;
    }
    let keep: Vec<_> = args.keep.map(|keep| ("keep", keep)).into_iter().collect();
    let call = session.http.namespace(Method::POST, namespace, &["repair"]);
    let response = call.query(&keep).send().await?;
    session.printer.document(&response.text, || {
        let repaired: RepairNamespaceResponse = response.parse()?;
        let done = if repaired.restored { "record restored" } else { "its record is intact" };
        let mut line = format!("{namespace}  {done}");
        if repaired.pending_lost + repaired.dead_lost > 0 {
            let pending = text::count(repaired.pending_lost, "pending timer");
            let dead = text::count(repaired.dead_lost, "dead letter");
            line.push_str(&format!(", {pending} and {dead} discarded"));
        }
        Ok(line)
    })
}
