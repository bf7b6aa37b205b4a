//! Documents about Duly itself: `duly openapi`, `duly completions` and `duly man`.
//!
//! Two hidden commands print pages of the reference without a server: `duly __openapi` and `duly
//! __cli-docs`.

use std::{fmt::Write as _, fs, path::PathBuf};

use clap::{Arg, Command};
use clap_complete::{Shell, env::Shells};
use clap_mangen::Man;
use serde_json::json;

use crate::{
    Outcome,
    failure::Failure,
    output::{Printer, text},
    session::Session,
};

/// Prints the OpenAPI document of the server.
pub(crate) async fn openapi(session: &Session) -> Outcome {
    let response = session.http.root(&["openapi.json"]).send().await?;
    session.printer.json(&response.text)
}

/// Prints the OpenAPI document of this binary, `docs/reference/openapi.json`.
pub(crate) fn print_own_openapi(printer: Printer) -> Outcome {
    printer.json(&duly_server::openapi_json())
}

/// The variable in which a shell asks for completions.
pub(crate) const COMPLETE: &str = "DULY_COMPLETE";

/// Print the completions for a shell
///
/// bash:        duly completions bash > ~/.local/share/bash-completion/completions/duly
/// zsh:         duly completions zsh > ~/.zfunc/_duly, with that directory in fpath before compinit
/// fish:        duly completions fish > ~/.config/fish/completions/duly.fish
/// powershell:  duly completions powershell | Out-String | Invoke-Expression, in $PROFILE
/// elvish:      eval (duly completions elvish | slurp), in rc.elv
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the completions of a shell: a short script that asks this program, so that they have the names of
/// namespaces.
pub(crate) fn completions(args: CompletionsArgs, printer: Printer) -> Outcome {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell).expect("every shell has one");
    let mut script = Vec::new();
    let written = completer.write_registration(COMPLETE, "duly", "duly", "duly", &mut script);
    written.map_err(Failure::new)?;
    let script = String::from_utf8_lossy(&script);
    let document = json!({ "shell": shell, "script": script });
    printer.document(&document.to_string(), || Ok(script.to_string()))
}

/// Write the manual pages, one for each command
///
/// Use a directory in which `man` searches: ~/.local/share/man/man1 for yourself,
/// /usr/local/share/man/man1 for all users. Then: man duly, man duly-schedule.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The directory; created if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// The end of each manual page.
const CLOSING: &[u8] = br#".SH "EXIT STATUS"
.TP
0
Done; also when the reader of the output has closed it.
.TP
1
Refused or failed.
.TP
2
The command line is invalid: nothing was sent.
.TP
74
duly serve: the store has ended; the last line of the log has the reason.
.SH ENVIRONMENT
.TP
DULY_SERVER
The server, where \-\-server does not name it.
.TP
NO_COLOR
Any value disables colours.
"#;

/// Writes the manual pages of a command line.
pub(crate) fn man(args: ManArgs, command: &Command, printer: Printer) -> Outcome {
    let cannot = |what: &PathBuf, error: std::io::Error| {
        let what = what.display();
        Failure::new(format_args!(
            "cannot write {what}: {error}; name another directory with --dir"
        ))
    };
    let mut pages = Vec::new();
    collect_man(&mut pages, command)?;
    fs::create_dir_all(&args.dir).map_err(|error| cannot(&args.dir, error))?;
    for (file, text) in &pages {
        let path = args.dir.join(file);
        fs::write(&path, text).map_err(|error| cannot(&path, error))?;
    }
    let directory = args.dir.display().to_string();
    let files: Vec<_> = pages.iter().map(|(file, _)| file).collect();
    let document = json!({ "path": directory, "files": files });
    printer.document(&document.to_string(), || {
        let directory = text::lines(&directory);
        Ok(format!("{directory}  {} written: duly.1 and one for each command", files.len()))
    })
}

/// Collects the file name and text of a command's page, and of its subcommands' pages.
fn collect_man(pages: &mut Vec<(String, String)>, command: &Command) -> Outcome {
    let page = Man::new(command.clone()).source(concat!("duly ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    text.extend_from_slice(CLOSING);
    pages.push((page.get_filename(), ascii(&String::from_utf8_lossy(&text))));
    let mut inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    inner.try_for_each(|inner| collect_man(pages, inner))
}

/// Escapes characters that are not ASCII: not every `man` knows the encoding of a page.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() { out.push(c) } else { out.push_str(&format!("\\[u{:04X}]", u32::from(c))) }
    }
    out
}

/// The beginning of the reference of the command line.
const INTRODUCTION: &str = include_str!("documents/cli_introduction.md");

/// Prints the reference of a command line, `docs/reference/cli.md`.
pub(crate) fn print_cli_reference(command: Command, printer: Printer) -> Outcome {
    let mut command = command.term_width(100);
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
