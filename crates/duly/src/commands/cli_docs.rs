//! `duly __cli-docs`: prints the reference of the command line, `docs/reference/cli.md`.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use crate::{Outcome, cli::Cli, output::Printer};

const OPENING: &str = "\
# The command line

Exit codes: 0 done, 1 refused or failed, 2 typed wrong. Durations are written `250ms`, `30m`, `2h30m`, `7d`, or as integer milliseconds; times as RFC 3339 with any offset, or as Unix milliseconds.

This page is printed by the program itself: `cargo xtask cli-docs`.
";

/// Runs it.
pub(crate) fn run(printer: Printer) -> Outcome {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut page = OPENING.to_owned();
    section(&mut page, &mut command, "duly");
    printer.line(&page)
}

/// The help of a command and of those below it.
fn section(page: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.trim().lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n"))
        .expect("writing to a String does not fail");
    for inner in command.get_subcommands_mut() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            let name = format!("{name} {}", inner.get_name());
            section(page, inner, &name);
        }
    }
}
