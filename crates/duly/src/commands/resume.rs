//! `duly resume`: lets every namespace fire again, as after a restore.

use reqwest::Method;

use crate::{
    Outcome,
    cli::Session,
    commands::{dead::overdue, namespace},
    output::text,
};

/// Let every paused namespace fire again, as after a restore
///
/// What is overdue fires at once, also what had fired since the backup was made; with `--overdue
/// dead` it becomes dead letters instead, to be looked at, redriven or purged. Look first: `duly
/// namespace list` shows what is paused, `duly namespace stats NAMESPACE` what is due there. One
/// namespace alone: `duly namespace resume`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// All namespaces: said in full, since what is overdue fires
    #[arg(long, required = true)]
    all: bool,
    /// What becomes of timers that are due already: delivered, or dead letters
    #[arg(long, value_name = "FATE", default_value = "fire")]
    overdue: Overdue,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Overdue {
    /// They are delivered, late
    Fire,
    /// They become dead letters with the reason `overdue`
    Dead,
}

/// Runs it. Repeated after a failure, it goes on with those that are still paused.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    debug_assert!(args.all, "clap asks for it");
    let mut resumed = Vec::new();
    let mut dead_lettered = 0;
    let mut moment = None;
    let (all, _) = namespace::all(session).await?;
    for one in all.into_iter().filter(|one| one.paused) {
        let namespace = namespace::checked_name(&one)?;
        let dead = match args.overdue {
            Overdue::Fire => 0,
            Overdue::Dead => overdue::give_up(session, &namespace, &mut moment).await?,
        };
        session.http.namespace(Method::POST, &namespace, &["resume"]).send().await?;
        if !session.printer.is_json() {
            let dead = match args.overdue {
                Overdue::Fire => String::new(),
                Overdue::Dead => format!(", {} made", text::count(dead, "dead letter")),
            };
            session.printer.line(&format!("{namespace}  resumed{dead}"))?;
        }
        dead_lettered += dead;
        resumed.push(one.name);
    }
    if session.printer.is_json() {
        let mut answer = serde_json::json!({ "resumed": resumed });
        if args.overdue == Overdue::Dead {
            answer["dead_lettered"] = dead_lettered.into();
        }
        return session.printer.json(&answer.to_string());
    }
    if resumed.is_empty() { session.printer.line("none was paused") } else { Ok(()) }
}
