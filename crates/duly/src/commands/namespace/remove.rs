//! `duly namespace delete`.

use crate::{
    Outcome,
    answer::problem,
    args::{confirm::Confirm, named::Named},
    cli::Session,
    http::Hint,
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

/// What to type when there is something to lose.
const NOT_EMPTY: &[Hint] = &[("namespace_not_empty", "`--force` deletes it with everything in it")];

/// Runs it.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let client = session.client()?;
    let failed = |error| problem::failure(&error, NOT_EMPTY);
    if args.force && args.confirm.is_needed() {
        let stats = client.stats(namespace.as_str()).await.map_err(failed)?;
        if stats.pending + stats.dead > 0 {
            let pending = text::count(stats.pending, "pending timer");
            let dead = text::count(stats.dead, "dead letter");
            Confirm::ask(&format!("Delete {namespace} with {pending} and {dead}?"))?;
        }
    }
    let deleted = match args.force {
        true => client.delete_namespace_and_timers(namespace.as_str()).await,
        false => client.delete_namespace(namespace.as_str()).await,
    };
    deleted.map_err(failed)?;
    session.printer.document("{}", || Ok(format!("{namespace}  deleted")))
}
