//! `duly resume`: resumes every namespace, as after a restore.

use crate::{
    Outcome,
    commands::{dead, namespace},
    output::text,
    session::Session,
};

/// Resume every paused namespace, as after a restore
///
/// Overdue timers fire at once, including those that had fired since the backup was made. With
/// `--overdue dead` they become dead letters instead, which you can inspect, redrive or purge. Inspect
/// first: `duly namespace list` shows the paused namespaces, `duly namespace stats NAMESPACE` the due
/// timers there. For a single namespace: `duly namespace resume`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// All namespaces; required, since overdue timers fire
    #[arg(long, required = true)]
    all: bool,
    /// Action for timers that are already due: deliver or dead-letter them
    #[arg(long, value_name = "ACTION", default_value = "fire")]
    overdue: Overdue,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Overdue {
    /// Deliver them late
    Fire,
    /// Dead-letter them, with the reason `overdue`
    Dead,
}

/// Runs the command. Repeated after a failure, it continues with the namespaces that are still paused.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    debug_assert!(args.all, "clap requires it");
    let mut resumed = Vec::new();
    let mut dead_lettered = 0;
    let mut moment = None;
    let (all, _) = namespace::all(session).await?;
    for one in all.into_iter().filter(|one| one.paused) {
        let namespace = namespace::checked_name(&one)?;
        let dead = match args.overdue {
            Overdue::Fire => None,
            Overdue::Dead => {
                Some(dead::dead_letter_overdue(session, &namespace, &mut moment).await?)
            }
        };
        session.http.post(&namespace, &["resume"]).send().await?;
        if !session.printer.is_json() {
            let made = dead.map(|dead| format!(", {} made", text::count(dead, "dead letter")));
            let made = made.unwrap_or_default();
            session.printer.line(&format!("{namespace}  resumed{made}"))?;
        }
        dead_lettered += dead.unwrap_or(0);
        resumed.push(one.name);
    }
    if session.printer.is_json() {
        let mut response = serde_json::json!({ "resumed": resumed });
        if args.overdue == Overdue::Dead {
            response["dead_lettered"] = dead_lettered.into();
        }
        return session.printer.json(&response.to_string());
    }
    if resumed.is_empty() { session.printer.line("none was paused") } else { Ok(()) }
}
