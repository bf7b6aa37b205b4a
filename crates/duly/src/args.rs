//! Parts of the command line that several commands share.

pub(crate) mod connection;
pub(crate) mod delivery;
pub(crate) mod environment;
pub(crate) mod input;
pub(crate) mod key;
pub(crate) mod lines;
pub(crate) mod secret;
pub(crate) mod server;
pub(crate) mod timer;
pub(crate) mod values;

use std::io::{self, BufRead, IsTerminal as _, Write};

use clap_complete::ArgValueCandidates;
use duly_api::{State, View};
use duly_core::{NamespaceName, TimerId, Timestamp};
use reqwest::Method;

use crate::{
    Outcome,
    failure::Failure,
    http::{Call, Http},
    output::text,
};

/// A namespace.
#[derive(clap::Args)]
pub(crate) struct NamespaceArg {
    /// The namespace; `.` stands for that of the context
    #[arg(value_parser = values::namespace, add = ArgValueCandidates::new(connection::completed_namespaces))]
    pub(crate) namespace: NamespaceName,
}

/// A timer of a namespace.
#[derive(clap::Args)]
pub(crate) struct TimerArg {
    #[command(flatten)]
    pub(crate) named: NamespaceArg,
    /// The timer's id
    #[arg(value_parser = values::timer_id)]
    pub(crate) id: TimerId,
}

impl TimerArg {
    /// Returns a call about the timer.
    pub(crate) fn call<'a>(&self, method: Method, http: &'a Http) -> Call<'a> {
        let below = ["timers", self.id.as_str()];
        http.namespace(method, &self.named.namespace, &below)
    }
}

/// Conditions; a timer must meet all of them.
#[derive(clap::Args)]
pub(crate) struct Conditions {
    /// Due at or after this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) due_from: Option<Timestamp>,
    /// Due before this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) due_to: Option<Timestamp>,
    /// The id begins with this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) id_prefix: Option<String>,
    /// The timer has this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
}

/// A selection of timers of a namespace, and a page of it.
#[derive(clap::Args)]
pub(crate) struct Filter {
    #[command(flatten)]
    conditions: Conditions,
    /// Most timers per page
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::within::<1, 1000>)]
    limit: u16,
    /// Continue at this cursor, which the previous page printed
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// All pages, one after the other; with --cursor from there on
    #[arg(long)]
    pub(crate) all: bool,
}

impl Filter {
    /// Returns the query parameters of a page.
    pub(crate) fn query(
        &self,
        state: Option<State>,
        cursor: Option<&str>,
        view: Option<View>,
    ) -> Vec<(&'static str, String)> {
        let Conditions { due_from, due_to, id_prefix, tag } = &self.conditions;
        let parameters = [
            ("state", state.map(|state| state.to_string())),
            ("due_from", due_from.map(|from| from.to_string())),
            ("due_to", due_to.map(|to| to.to_string())),
            ("id_prefix", id_prefix.clone()),
            ("tag", tag.clone()),
            ("limit", Some(self.limit.to_string())),
            ("cursor", cursor.map(str::to_owned)),
            ("view", view.map(|view| view.to_string())),
        ];
        parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The option that skips the confirmation of a command that cannot be undone.
///
/// A command asks only at a terminal, and only without `--yes`. A script is not asked: its command line
/// is explicit, and there is no person to reply.
#[derive(clap::Args)]
pub(crate) struct Confirm {
    /// Do not ask for confirmation; a command asks only at a terminal
    #[arg(long, short)]
    yes: bool,
}

impl Confirm {
    /// Returns `true` if the command must ask for confirmation.
    pub(crate) fn is_needed(&self) -> bool {
        !self.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a question, and fails unless the reply is yes. Call it if [`is_needed`](Self::is_needed).
    pub(crate) fn ask(question: &str) -> Outcome {
        ask(question, &mut io::stdin().lock(), &mut io::stderr())
    }
}

fn ask(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> Outcome {
    let question = text::lines(question);
    write!(output, "{question} [y/N] ").and_then(|()| output.flush()).ok();
    let mut answer = String::new();
    input
        .read_line(&mut answer)
        .map_err(|error| Failure::new(format_args!("cannot read the answer: {error}")))?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::coded("not_confirmed", "not confirmed: nothing was done"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_and_yes_confirm() {
        for (typed, is_yes) in [
            ("y\n", true),
            ("YES\n", true),
            (" yes ", true),
            ("\n", false),
            ("", false),
            ("n\n", false),
            ("yep\n", false),
        ] {
            let mut asked = Vec::new();
            let outcome = ask("Drop \u{1b}it?", &mut typed.as_bytes(), &mut asked);
            assert_eq!(outcome.is_ok(), is_yes, "{typed:?}");
            assert_eq!(String::from_utf8_lossy(&asked), "Drop \\u{1b}it? [y/N] ");
        }
    }
}
