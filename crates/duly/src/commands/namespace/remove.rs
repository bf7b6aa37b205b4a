//! `duly namespace delete`.

use reqwest::Method;
use serde::Deserialize;

use crate::{
    Outcome,
    args::{confirm::Confirm, named::Named},
    cli::Session,
    client::Hint,
    output::text,
};

/// Delete a namespace
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    named: Named,
    /// With its pending timers and dead letters; at a terminal you are asked
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirm: Confirm,
}

/// What would be lost.
#[derive(Deserialize)]
struct Holding {
    pending: u64,
    dead: u64,
}

/// What to type when there is something to lose.
const NOT_EMPTY: &[Hint] = &[("namespace_not_empty", "`--force` deletes it with everything in it")];

/// Runs it.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if args.force && args.confirm.is_needed() {
        let call = session.client.namespace(Method::GET, namespace, &["stats"]);
        let Holding { pending, dead } = call.send().await?.parse()?;
        if pending + dead > 0 {
            let pending = text::count(pending, "pending timer");
            let dead = text::count(dead, "dead letter");
            Confirm::ask(&format!("Delete {namespace} with {pending} and {dead}?"))?;
        }
    }
    let force = args.force.then(|| ("force", "true".to_owned()));
    let call = session.client.namespace(Method::DELETE, namespace, &[]);
    call.query(force.as_slice()).hints(NOT_EMPTY).send().await?;
    // The answer has no body.
    session.printer.document("{}", || Ok(format!("{namespace}  deleted")))
}
