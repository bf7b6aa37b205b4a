//! `duly __cli-docs`: prints the reference of the command line, `docs/reference/cli.md`.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::{Outcome, cli, output::Printer};

const INTRODUCTION: &str = include_str!("cli_docs/introduction.md");

/// Runs the command.
pub(crate) fn run(printer: Printer) -> Outcome {
    let mut command = cli::shown().term_width(100);
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, &mut command, "duly");
    printer.line(&page)
}

/// Writes the help of a command and of its subcommands. Global options are shown for the first command
/// only.
fn section(page: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.trim().lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n"))
        .expect("writing to a String does not fail");
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        let own = |arg: Arg| if arg.is_global_set() { arg.hide(true) } else { arg };
        let mut inner = inner.clone().mut_args(own);
        let name = format!("{name} {}", inner.get_name());
        section(page, &mut inner, &name);
    }
}
