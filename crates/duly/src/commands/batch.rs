//! `duly batch`: many operations, line by line, from a file or stdin.
//!
//! The server answers while it is sent, so neither side holds more than what is under way, whatever
//! the length.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use duly_core::NamespaceName;
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    args::{input, values},
    cli::Session,
    failure::Failure,
    http,
    output::{terminal::Tone, text},
};

/// Schedule, cancel, reschedule and fire many timers: operations as lines of JSON
///
/// Each line is one of
///   {"schedule": {"id": "order:1", "delay": "30m", "payload": {"n": 1}}}
///   {"cancel": {"id": "order:1"}}
///   {"reschedule": {"id": "order:1", "due_at": "2100-01-01T00:00:00Z"}}
///   {"fire": {"id": "order:1"}}
///
/// with the fields of the HTTP interface. There is no limit to their number. One id's operations run
/// in order, a line that is refused refuses only itself, and refused lines are shown with their
/// number. With --output json every line is answered with one line. Exit code 1 if any was refused.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// Where the operations are, `-` for stdin
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// With --output json: answer only lines that are refused, and a summary at the end
    #[arg(long)]
    errors_only: bool,
}

/// A line of the answer: what happened to a line, how many there were, or why it ends early.
#[derive(Deserialize)]
struct Line {
    line: Option<u64>,
    error: Option<Box<RawValue>>,
    summary: Option<Summary>,
    stopped: Option<Stopped>,
}

#[derive(Deserialize)]
struct Summary {
    lines: u64,
    accepted: u64,
    refused: u64,
}

#[derive(Deserialize)]
struct Stopped {
    after_line: u64,
    error: Box<RawValue>,
}

/// What was answered so far.
#[derive(Default)]
struct Progress {
    accepted: u64,
    refused: u64,
    summary: Option<Summary>,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let printer = session.printer;
    let source = input::open(&args.file, "operations")?;
    if args.file == Path::new("-") && io::stdin().is_terminal() {
        let told = "reading operations, one JSON object a line; Ctrl-D ends\n";
        io::stderr().write_all(told.as_bytes()).ok();
    }
    let errors_only = args.errors_only || !printer.is_json();
    let results = if errors_only { "errors" } else { "all" };
    let call = session.http.namespace(Method::POST, &args.namespace, &["batch"]);
    let call = call.query(&[("results", results.to_owned())]);
    let mut answer = call.lines(source).await?;
    let mut progress = Progress::default();
    while let Some(text) = answer.next().await? {
        let line: Line = answer.parse(&text)?;
        if printer.is_json() {
            printer.json(&text)?;
        } else if let (Some(number), Some(error)) = (line.line, &line.error) {
            let refusal = text::preview(&http::sentence(error.get()), usize::MAX);
            printer.line(&printer.paint(Tone::Bad, &format!("line {number}  {refusal}")))?;
        }
        progress.add(line)?;
    }
    let Progress { accepted, refused, summary, .. } = &progress;
    let (lines, accepted, refused) = match summary {
        Some(summary) => (summary.lines, summary.accepted, summary.refused),
        None if errors_only => return Err(Progress::cut_off()),
        None => (accepted + refused, *accepted, *refused),
    };
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

impl Progress {
    fn add(&mut self, line: Line) -> Outcome {
        if let Some(Stopped { after_line, error }) = line.stopped {
            return Err(Failure::coded(
                "stopped",
                format_args!(
                    "the server stopped after line {after_line}: {}; send the lines behind it again",
                    http::sentence(error.get())
                ),
            ));
        }
        match line.error {
            Some(_) => self.refused += 1,
            None if line.line.is_some() => self.accepted += 1,
            None => {}
        }
        self.summary = line.summary.or(self.summary.take());
        Ok(())
    }

    fn cut_off() -> Failure {
        Failure::coded(
            "outcome_unknown",
            "the answer ended before its summary: it is not known which lines were taken. Lines that \
             name an id can be sent again: what was taken is answered as existing",
        )
    }
}
