//! `duly import`: imports the namespaces of an export into this server.
//!
//! Timers are sent in batches. A timer that already exists is no error: an import that was interrupted
//! is repeated from the beginning.

mod batch;
mod section;
mod target_namespace;

use std::{
    io::{self, Read, Seek as _},
    path::PathBuf,
};

use duly_core::NamespaceName;
use serde_json::json;

use self::{
    batch::{Batch, Counts, Fault},
    section::Section,
};
use crate::{
    Outcome,
    args::{
        input,
        lines::{Lines, Text},
        values,
    },
    commands::{
        export::{
            checksum::{Check, Checked},
            line::{ExportLine, NamespaceHead},
        },
        line_format::LineFormat,
    },
    failure::Failure,
    output::{Progress, Tone, text, warn},
    session::Session,
};

/// Import timers and dead letters that `duly export` wrote
///
/// They keep their delivery ids, attempts and history. A timer that already exists here, in any state,
/// stays as it is. So an interrupted import can be repeated, and a timer that was cancelled here does
/// not come back. Refused lines are printed with their number, and the import continues. Exit code 1 if
/// any was refused.
///
/// The file has a checksum. A file that is not as it was exported is refused, and nothing is imported. From
/// stdin, the lines are imported as they come, and a difference is reported at the end.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file of `duly export`, `-` for stdin
    file: PathBuf,
    /// The only namespace that the file may contain; it keeps its name, since delivery ids depend on it
    #[arg(long, value_name = "NAME", value_parser = values::namespace)]
    namespace: Option<NamespaceName>,
    /// Create namespaces that do not exist here, with the settings of the file
    #[arg(long)]
    create_namespaces: bool,
}

/// The state of a running import.
struct Import<'a> {
    args: &'a Args,
    session: &'a Session,
    name: String,
    section: Option<Section>,
    batch: Batch,
    counts: Counts,
    progress: Progress,
    /// The check of the lines so far. The file may have changed since it was verified.
    check: Check,
    /// Steps for the operator to do by hand afterwards.
    notes: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let unreadable = |error| input::unreadable(&args.file, "timers", &error);
    let name = text::line(&input::name(&args.file));
    let (source, total, is_verified): (Box<dyn Read + Send>, _, _) =
        match input::open_file(&args.file, "timers")? {
            None => (Box::new(io::stdin()), None, false),
            Some(mut file) => {
                let metadata = file.metadata().map_err(unreadable)?;
                let is_readable_twice = metadata.is_file();
                if is_readable_twice {
                    let verified = input::text_from(&file).and_then(|it| verify(Lines::new(it)));
                    match verified.map_err(unreadable)? {
                        Verified::Operation(line) => return Err(of_a_batch(&name, line, 0)),
                        Verified::Checked(Checked::Whole) => {}
                        Verified::Checked(Checked::Unknown) => warn(&unknown(&name)),
                        Verified::Checked(Checked::Differs(cause)) => {
                            return Err(refused(&name, &cause));
                        }
                    }
                    file.rewind().map_err(unreadable)?;
                }
                (Box::new(file), Some(metadata.len()), is_readable_twice)
            }
        };
    let mut lines = Lines::new(input::text_from(source).map_err(unreadable)?);
    let mut import = Import {
        args: &args,
        session,
        name,
        section: None,
        batch: Batch::default(),
        counts: Counts::default(),
        progress: Progress::new(session.printer),
        check: Check::default(),
        notes: Vec::new(),
    };
    let ended = import.read(&mut lines, total).await;
    import.progress.clear();
    ended?;
    let checked = std::mem::take(&mut import.check).end(lines.number());
    let summary = import.print_summary();
    match checked {
        Checked::Differs(cause) => return Err(differed(&import.name, &cause)),
        Checked::Unknown if !is_verified => warn(&unknown(&import.name)),
        Checked::Unknown | Checked::Whole => {}
    }
    summary
}

/// The result of the check of a file before it is imported.
enum Verified {
    /// The line with this number is an operation of a batch.
    Operation(u64),
    /// Its lines are those of an export, or damaged.
    Checked(Checked),
}

/// Checks a file before it is imported.
fn verify(mut lines: Lines<impl Read>) -> io::Result<Verified> {
    let mut check = Check::default();
    while let Some(text) = lines.next()? {
        if !check.add(lines.number(), text.whole()) && is_operation(&text) {
            return Ok(Verified::Operation(lines.number()));
        }
    }
    Ok(Verified::Checked(check.end(lines.number())))
}

fn is_operation(text: &Text) -> bool {
    text.whole().and_then(LineFormat::of) == Some(LineFormat::Operation)
}

/// Returns the failure for a line of the other format, after this number of timers.
fn of_a_batch(name: &str, line: u64, done: u64) -> Failure {
    let done = match done {
        0 => "Nothing was imported".to_owned(),
        done => format!("{} were imported before it", text::count(done, "timer")),
    };
    Failure::coded(
        "other_format",
        format_args!(
            "line {line} of {name} is an operation of a batch, and no line of an export: `duly batch NAMESPACE --file \
             {name}` takes operations. {done}"
        ),
    )
}

fn unknown(name: &str) -> String {
    format!(
        "{name} has no checksum, since an older version of duly wrote it: a changed line in it is not \
         noticed"
    )
}

/// Returns the failure for a file of which nothing is imported.
fn refused(name: &str, cause: &str) -> Failure {
    Failure::coded(
        "file_differs",
        format_args!(
            "{name} is not as it was exported: {cause}. Nothing was imported. Copy the file again, or \
             export again. If both are impossible, `duly import -` with the file as stdin imports the \
             lines that can be read, the changed ones too. An export of an older version has no \
             checksum: import it on its own, not in one file with others"
        ),
    )
}

/// Returns the failure for lines that were imported while they were read.
fn differed(name: &str, cause: &str) -> Failure {
    Failure::coded(
        "file_differs",
        format_args!(
            "{name} is not as it was exported: {cause}. The lines that could be read were imported, as \
             counted above, and changed ones as they are in the file. Compare the counts with `duly \
             namespace stats`, export again and import that: existing timers stay as they are"
        ),
    )
}

impl Import<'_> {
    async fn read(&mut self, lines: &mut Lines<impl Read>, total: Option<u64>) -> Outcome {
        loop {
            let next = lines.next();
            let next = next.map_err(|e| input::unreadable(&self.args.file, "timers", &e))?;
            let number = lines.number();
            let Some(text) = next else {
                return self.close(number).await;
            };
            if !self.check.add(number, text.whole()) && is_operation(&text) {
                self.flush().await?;
                return Err(of_a_batch(&self.name, number, self.counts.done()));
            }
            self.take(number, text).await?;
            let timers = text::count(self.counts.done(), "timer");
            self.progress.show(lines.read_bytes(), total, &format!("{timers} processed"));
        }
    }

    /// Processes a line.
    async fn take(&mut self, number: u64, text: Text) -> Outcome {
        let line = match &text {
            Text::TooLong => Err("the line is longer than any timer".to_owned()),
            Text::Whole(text) => serde_json::from_slice::<ExportLine>(text).map_err(|error| {
                format!("not a line of an export ({})", without_line(&error.to_string()))
            }),
        };
        match line {
            Ok(ExportLine { namespace: Some(raw), timer: None, end: None, trailer: None }) => {
                self.close(number).await?;
                self.open(number, raw.get()).await
            }
            Ok(ExportLine { namespace: None, timer: Some(timer), end: None, trailer: None }) => {
                self.timer(number, timer).await
            }
            // The check reads it.
            Ok(ExportLine { namespace: None, timer: None, end: None, trailer: Some(_) }) => Ok(()),
            Ok(ExportLine { namespace: None, timer: None, end: Some(end), trailer: None }) => {
                self.flush().await?;
                let fault = match self.section.take() {
                    Some(section) => section.end(number, &end),
                    None => Some(Fault::of(number, "the end of a namespace without its beginning")),
                };
                fault.map_or(Ok(()), |fault| self.failed(&fault))
            }
            other => {
                if let Some(section) = &mut self.section {
                    section.damaged += 1;
                }
                let allowed =
                    "it must have exactly one of namespace, timer, end, trailer".to_owned();
                self.failed(&Fault::of(number, other.err().unwrap_or(allowed)))
            }
        }
    }

    /// Begins a namespace.
    async fn open(&mut self, number: u64, raw: &str) -> Outcome {
        let read = serde_json::from_str::<NamespaceHead>(raw).map_err(|error| error.to_string());
        let read = read.and_then(|head| {
            let name = NamespaceName::new(&head.name).map_err(|invalid| invalid.to_string())?;
            Ok((head, name))
        });
        let (head, name) = match read {
            Ok(read) => read,
            Err(error) => {
                self.section = Some(Section::default());
                return self.failed(&Fault::of(number, without_line(&error)));
            }
        };
        self.check_namespace(&name)?;
        let ensured = target_namespace::ensure_namespace(
            &head,
            &name,
            self.args.create_namespaces,
            self.session,
        );
        let ensured = ensured.await?;
        let is_sent = ensured.is_ok();
        self.section = Some(Section { name: Some(name), is_sent, ..Section::default() });
        match ensured {
            Ok(notes) => self.notes.extend(notes),
            Err(sentence) => self.failed(&Fault::of(number, sentence))?,
        }
        Ok(())
    }

    /// Refuses a file that contains another namespace than `--namespace`.
    fn check_namespace(&self, name: &NamespaceName) -> Outcome {
        match self.args.namespace.as_ref().filter(|wanted| *wanted != name) {
            None => Ok(()),
            Some(wanted) => Err(Failure::coded(
                "other_namespace",
                format_args!(
                    "{} contains {name}, not {wanted}. A namespace keeps its name when it moves: \
                     delivery ids depend on it, so under another name receivers could not recognise \
                     repeated deliveries. Leave --namespace out, or schedule the timers again in \
                     {wanted}",
                    self.name
                ),
            )),
        }
    }

    async fn timer(&mut self, number: u64, timer: Box<serde_json::value::RawValue>) -> Outcome {
        let Some(section) = &mut self.section else {
            let sentence = "a timer outside a namespace: lines are missing before it";
            return self.failed(&Fault::of(number, sentence));
        };
        section.count(&timer);
        if section.target().is_none() {
            self.counts.skipped += 1;
            return Ok(());
        }
        self.batch.push(number, timer);
        if self.batch.is_full() { self.flush().await } else { Ok(()) }
    }

    /// Sends the timers that were read.
    async fn flush(&mut self) -> Outcome {
        let Some(namespace) = self.section.as_ref().and_then(Section::target) else {
            return Ok(());
        };
        let first = self.batch.first();
        let sent = self.batch.send(namespace, &mut self.counts, self.session).await;
        let faults = sent.map_err(|failure| {
            let first = first.unwrap_or_default();
            failure.with_note(&format!(
                "the import stopped: the outcome of the lines from {}:{first} on is unknown, and \
                 {} were processed before; repeat the import, existing timers stay as they are",
                self.name,
                text::count(self.counts.done(), "timer")
            ))
        })?;
        faults.iter().try_for_each(|fault| self.failed(fault))
    }

    /// Ends the current namespace without its end line.
    async fn close(&mut self, number: u64) -> Outcome {
        self.flush().await?;
        match self.section.take() {
            Some(section) => self.failed(&section.truncated(number)),
            None => Ok(()),
        }
    }

    /// Prints the fault of a line.
    fn failed(&mut self, fault: &Fault) -> Outcome {
        self.counts.failed += 1;
        self.progress.clear();
        let printer = self.session.printer;
        if printer.is_json() {
            return printer.json(&fault.document());
        }
        let sentence = text::line(&fault.sentence);
        let line = format!("{}:{}: {sentence}", self.name, fault.number);
        printer.line(&printer.screen.paint(Tone::Bad, &line))
    }

    /// Prints the summary.
    fn print_summary(&self) -> Outcome {
        let printer = self.session.printer;
        let counts = self.counts;
        if printer.is_json() {
            printer.json(&json!({ "summary": counts, "notes": self.notes }).to_string())?;
        } else {
            printer.line(&format!("{}: {}", self.name, counts.sentence()))?;
            self.notes.iter().try_for_each(|note| printer.line(note))?;
        }
        match counts.failed {
            0 => Ok(()),
            failed => Err(Failure::coded(
                "some_refused",
                format_args!(
                    "{} of {} failed: correct the faults and import the file again, existing \
                     timers stay as they are",
                    text::count(failed, "line"),
                    self.name
                ),
            )),
        }
    }
}

/// Removes the line number of a JSON error, which is always 1.
fn without_line(message: &str) -> String {
    message.replacen(" at line 1 column ", " at column ", 1)
}
