//! `duly namespace delete`.

use reqwest::Method;

use crate::{
    Outcome,
    args::{confirm::Confirm, identity::NamespaceArg},
    cli::Session,
    commands::namespace::counts,
    http::Hint,
    output::text,
};

/// Delete a namespace
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// Also delete its pending timers and dead letters; at a terminal you are asked for confirmation
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirm: Confirm,
}

/// The hint for a namespace that is not empty.
const NOT_EMPTY: &[Hint] = &[("namespace_not_empty", "`--force` deletes it with everything in it")];

/// Runs the command.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if args.force && args.confirm.is_needed() {
        let stats = counts(session, namespace).await?;
        if stats.pending + stats.dead > 0 {
            let pending = text::count(stats.pending, "pending timer");
            let dead = text::count(stats.dead, "dead letter");
            Confirm::ask(&format!("Delete {namespace} with {pending} and {dead}?"))?;
        }
    }
    let query = if args.force { vec![("force", "true".to_owned())] } else { Vec::new() };
    let call = session.http.namespace(Method::DELETE, namespace, &[]).query(&query);
    call.hints(NOT_EMPTY).send().await?;
    session.printer.document("{}", || Ok(format!("{namespace}  deleted")))
}
