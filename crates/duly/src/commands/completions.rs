//! `duly completions`: prints a script by which a shell completes commands, options and their values.

use clap_complete::Shell;
use serde_json::json;

use crate::{Outcome, cli, output::Printer};

/// Print the completions for a shell
///
/// bash:        duly completions bash > ~/.local/share/bash-completion/completions/duly
/// zsh:         duly completions zsh > ~/.zfunc/_duly, with that directory in fpath before compinit
/// fish:        duly completions fish > ~/.config/fish/completions/duly.fish
/// powershell:  duly completions powershell | Out-String | Invoke-Expression, in $PROFILE
/// elvish:      eval (duly completions elvish | slurp), in rc.elv
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    // Generated in memory first: on a closed pipe the generator would panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::shown(), "duly", &mut script);
    let script = String::from_utf8_lossy(&script);
    let document = json!({ "shell": args.shell.to_string(), "script": script });
    printer.document(&document.to_string(), || Ok(script.to_string()))
}
