//! Confirmation of commands that cannot be undone.
//!
//! A command asks only at a terminal, and only without `--yes`. A script is not asked: its command line
//! is explicit, and there is no person to reply.

use std::io::{self, BufRead, IsTerminal as _, Write};

use crate::{Outcome, failure::Failure, output::text};

/// The option that skips the confirmation.
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
