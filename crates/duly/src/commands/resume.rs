//! `duly resume`: lets every namespace fire again, as after a restore.

use duly_core::NamespaceName;
use reqwest::Method;
use serde::Deserialize;

use crate::{Outcome, cli::Session, commands::namespace, failure::Failure};

/// Let every paused namespace fire again, as after a restore
///
/// What is overdue fires at once. Look first: `duly namespace list` shows what is paused, `duly
/// namespace stats NAMESPACE` what is due there. One namespace alone: `duly namespace resume`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// All namespaces: said in full, since what is overdue fires
    #[arg(long, required = true)]
    all: bool,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    #[serde(default)]
    paused: bool,
}

/// Runs it. Repeated after a failure, it goes on with those that are still paused.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    debug_assert!(args.all, "clap asks for it");
    let mut resumed = Vec::new();
    for item in namespace::all(session).await? {
        let Ok(Row { name, paused: true }) = serde_json::from_str(item.get()) else {
            continue;
        };
        let namespace = NamespaceName::new(&name)
            .map_err(|error| Failure::new(format_args!("the server named {name:?}: {error}")))?;
        session.client.namespace(Method::POST, &namespace, &["resume"]).send().await?;
        if !session.printer.is_json() {
            session.printer.line(&format!("{namespace}  resumed"))?;
        }
        resumed.push(name);
    }
    if session.printer.is_json() {
        return session.printer.line(&serde_json::json!({ "resumed": resumed }).to_string());
    }
    if resumed.is_empty() { session.printer.line("none was paused") } else { Ok(()) }
}
