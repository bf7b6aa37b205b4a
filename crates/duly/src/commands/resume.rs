//! `duly resume`: lets every namespace fire again, as after a restore.

use std::io::{self, IsTerminal as _, Write as _};

use duly_core::NamespaceName;
use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::{Outcome, cli::Session, commands::namespace, failure::Failure, output::text};

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

#[derive(Deserialize)]
struct Row {
    name: String,
    #[serde(default)]
    paused: bool,
}

#[derive(Default, Serialize)]
struct GiveUp {
    #[serde(skip_serializing_if = "Option::is_none")]
    due_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct GivenUp {
    given_up: u64,
    due_by: String,
    cursor: Option<String>,
}

/// Runs it. Repeated after a failure, it goes on with those that are still paused.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    debug_assert!(args.all, "clap asks for it");
    let mut resumed = Vec::new();
    let mut given_up = 0;
    let mut moment = None;
    for item in namespace::all(session).await? {
        let Ok(Row { name, paused: true }) = serde_json::from_str(item.get()) else {
            continue;
        };
        let namespace = NamespaceName::new(&name)
            .map_err(|error| Failure::new(format_args!("the server named {name:?}: {error}")))?;
        let dead = match args.overdue {
            Overdue::Fire => 0,
            Overdue::Dead => give_up(session, &namespace, &mut moment).await?,
        };
        session.client.namespace(Method::POST, &namespace, &["resume"]).send().await?;
        if !session.printer.is_json() {
            let dead = match args.overdue {
                Overdue::Fire => String::new(),
                Overdue::Dead => format!(", {} made", text::count(dead, "dead letter")),
            };
            session.printer.line(&format!("{namespace}  resumed{dead}"))?;
        }
        given_up += dead;
        resumed.push(name);
    }
    if session.printer.is_json() {
        let mut answer = serde_json::json!({ "resumed": resumed });
        if args.overdue == Overdue::Dead {
            answer["given_up"] = given_up.into();
        }
        return session.printer.line(&answer.to_string());
    }
    if resumed.is_empty() { session.printer.line("none was paused") } else { Ok(()) }
}

/// Makes dead letters of what is overdue in a namespace; answers how many. `moment` is by when they
/// must be due: that of the first call, for all namespaces.
async fn give_up(
    session: &Session,
    namespace: &NamespaceName,
    moment: &mut Option<String>,
) -> Result<u64, Failure> {
    let mut body = GiveUp { due_by: moment.clone(), cursor: None };
    let mut total = 0;
    let watched = io::stderr().is_terminal();
    loop {
        let call = session.client.namespace(Method::POST, namespace, &["dead", "overdue"]);
        let step: GivenUp = call.body(&body).send().await?.parse()?;
        total += step.given_up;
        *moment = Some(step.due_by.clone());
        let is_done = step.cursor.is_none();
        body = GiveUp { due_by: Some(step.due_by), cursor: step.cursor };
        if watched && (!is_done || total > step.given_up) {
            let end = if is_done { "\n" } else { "" };
            let line = format!("\r{namespace}: {total} given up{end}");
            // It does not matter whether anybody sees it.
            io::stderr().write_all(line.as_bytes()).ok();
        }
        if is_done {
            return Ok(total);
        }
    }
}
