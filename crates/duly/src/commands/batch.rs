//! `duly batch`: many operations, line by line, from a file or stdin.
//!
//! The operations are sent in steps ([`input`]). Lines that a limit of the server refuses are sent again ([`sender`]), so
//! a batch ends whole under a rate limit. Memory holds only a few steps, however long the input is.

mod input;
mod sender;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use serde_json::json;

use self::{
    input::{Fault, Steps},
    sender::{Sender, StepResults},
};
use crate::{
    Outcome,
    args::{self, NamespaceArg},
    failure::Failure,
    http,
    output::{Printer, Tone, text},
    session::Session,
};

/// Schedule, cancel, reschedule and fire many timers: operations as lines of JSON
///
/// Each line is one of
///   {"schedule": {"id": "order:1", "delay": "30m", "payload": {"n": 1}}}
///   {"cancel": {"id": "order:1"}}
///   {"reschedule": {"id": "order:1", "due_at": "2100-01-01T00:00:00Z"}}
///   {"fire": {"id": "order:1"}}
///
/// with the fields of the HTTP interface. Their number is not limited. The operations on one id run
/// in order. A refused line refuses only itself; refused lines are printed with their number. A line
/// that a limit such as a rate refuses is sent again after the time that the server names. Accepted
/// lines that changed nothing, such as a schedule of an equal timer, are counted apart. With
/// --output json there is one line of output for every line of input. Exit code 1 if any was refused.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// The file with the operations, `-` for stdin
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// With --output json: print only refused lines, and a summary at the end
    #[arg(long)]
    errors_only: bool,
}

/// The results of the lines so far.
#[derive(Default)]
struct Counts {
    accepted: u64,
    /// Those of the accepted lines that changed nothing.
    unchanged: u64,
    refused: u64,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let printer = session.printer;
    let unreadable = |error| args::input::unreadable(&args.file, "operations", &error);
    let source = args::input::open(&args.file, "operations")?;
    if args.file == Path::new("-") && io::stdin().is_terminal() {
        let told = "reading operations, one JSON object a line; Ctrl-D ends\n";
        io::stderr().write_all(told.as_bytes()).ok();
    }
    let errors_only = args.errors_only || !printer.is_json();
    let mut steps = Steps::of(args::input::text_from(source).map_err(unreadable)?);
    let mut sender = Sender::new(session, &args.named.namespace, errors_only);
    let mut counts = Counts::default();
    let ended = loop {
        let step = match steps.next().await {
            Ok(Some(step)) => step,
            Ok(None) => break Ok(()),
            Err(Fault::Unreadable(error)) => break Err(unreadable(error)),
            Err(Fault::TooLong(line)) => break Err(too_long(line)),
            Err(Fault::Export(line)) => break Err(of_an_export(line, &args.file)),
        };
        match sender.carry_out(step).await {
            Ok(results) => counts.print(results, printer)?,
            Err((results, failure)) => {
                counts.print(results, printer)?;
                break Err(failure);
            }
        }
    };
    counts.print_summary(errors_only, printer)?;
    ended?;
    let Counts { accepted, refused, unchanged: _ } = counts;
    if refused > 0 {
        let lines = text::count(accepted + refused, "line");
        let message =
            format!("{refused} of {lines} were refused: correct them and send them again");
        return Err(Failure::coded("some_refused", message));
    }
    Ok(())
}

impl Counts {
    /// Counts and prints the results of a step.
    fn print(&mut self, results: StepResults, printer: Printer) -> Outcome {
        for (number, result) in results {
            *(if result.error.is_some() { &mut self.refused } else { &mut self.accepted }) += 1;
            self.unchanged += u64::from(result.is_unchanged);
            match (&result.text, &result.error) {
                (Some(text), _) if printer.is_json() => printer.json(text)?,
                (_, Some(error)) => {
                    let refusal = text::line(&http::sentence(error, &[]));
                    let line = format!("line {number}  {refusal}");
                    printer.line(&printer.screen.paint(Tone::Bad, &line))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Prints the counts. In JSON they follow only if not every line has its own result.
    fn print_summary(&self, errors_only: bool, printer: Printer) -> Outcome {
        let Self { accepted, unchanged, refused } = *self;
        let lines = accepted + refused;
        if !printer.is_json() {
            let lines = text::count(lines, "line");
            let nothing = match unchanged {
                0 => String::new(),
                _ => format!(", {unchanged} changed nothing"),
            };
            let changed = accepted - unchanged;
            return printer
                .line(&format!("{lines}: {changed} accepted{nothing}, {refused} refused"));
        }
        if !errors_only {
            return Ok(());
        }
        let summary = json!({ "lines": lines, "accepted": accepted, "unchanged": unchanged, "refused": refused });
        printer.json(&json!({ "summary": summary }).to_string())
    }
}

/// Returns the failure for a line that no server takes.
fn too_long(line: u64) -> Failure {
    Failure::coded(
        "stopped",
        format_args!(
            "line {line} is longer than any operation: correct it, and send the lines from there on again"
        ),
    )
}

/// Returns the failure for the lines of an export.
fn of_an_export(line: u64, file: &Path) -> Failure {
    let file = file.display();
    Failure::coded(
        "other_format",
        format_args!(
            "line {line} is of an export and no operation: `duly import {file}` takes exports. The line and those after \
             it were not sent"
        ),
    )
}
