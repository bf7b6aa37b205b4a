//! `duly batch`: many operations, line by line, from a file or stdin.
//!
//! The server responds while the request is still being sent. So neither side holds more than the
//! operations under way, however long the input is.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use duly_api::{Problem, batch::LastLine};
use serde::Deserialize;

use crate::{
    Outcome,
    args::{NamespaceArg, input},
    failure::Failure,
    http,
    output::{Tone, text},
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
/// in order. A refused line refuses only itself; refused lines are printed with their number. With
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

/// A line of the response: the result of a line, or the last line.
#[derive(Deserialize)]
struct Line {
    line: Option<u64>,
    error: Option<Problem>,
    #[serde(flatten)]
    last: Option<LastLine>,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let printer = session.printer;
    let source = input::open(&args.file, "operations")?;
    if args.file == Path::new("-") && io::stdin().is_terminal() {
        let told = "reading operations, one JSON object a line; Ctrl-D ends\n";
        io::stderr().write_all(told.as_bytes()).ok();
    }
    let errors_only = args.errors_only || !printer.is_json();
    let results = if errors_only { "errors" } else { "all" };
    let call = session.http.post(&args.named.namespace, &["batch"]);
    let call = call.query(&[("results", results.to_owned())]);
    let mut response = call.lines(source).await?;
    // The counts come from the summary, if there is one.
    let (mut lines, mut accepted, mut refused) = (0, 0, 0);
    let mut has_summary = false;
    while let Some(text) = response.next().await? {
        let Line { line, error, last } = response.parse(&text)?;
        if printer.is_json() {
            printer.json(&text)?;
        } else if let (Some(number), Some(error)) = (line, &error) {
            let refusal = text::line(&http::sentence(error, &[]));
            printer.line(&printer.screen.paint(Tone::Bad, &format!("line {number}  {refusal}")))?;
        }
        match last {
            Some(LastLine::Stopped { after_line, error }) => {
                let why = http::sentence(&error, &[]);
                return Err(Failure::coded(
                    "stopped",
                    format_args!(
                        "the server stopped after line {after_line}: {why}; send the lines behind it again"
                    ),
                ));
            }
            Some(LastLine::Summary { lines: read, accepted: taken, refused: not_taken }) => {
                (lines, accepted, refused, has_summary) = (read, taken, not_taken, true);
            }
            None if line.is_some() => {
                let count = if error.is_some() { &mut refused } else { &mut accepted };
                *count += 1;
                lines += 1;
            }
            None => {}
        }
    }
    if errors_only && !has_summary {
        return Err(Failure::coded(
            "outcome_unknown",
            "the response ended before its summary: the outcome of the lines is unknown. Lines \
             with an id can be sent again: accepted ones are returned as existing",
        ));
    }
    let lines = text::count(lines, "line");
    if !printer.is_json() {
        printer.line(&format!("{lines}: {accepted} accepted, {refused} refused"))?;
    }
    if refused > 0 {
        let message =
            format!("{refused} of {lines} were refused: correct them and send them again");
        return Err(Failure::coded("some_refused", message));
    }
    Ok(())
}
