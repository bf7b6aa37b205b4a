//! `duly import`: imports the namespaces of an export into this server.
//!
//! Timers are sent in batches. A timer that already exists is no error: an import that was interrupted
//! is repeated from the beginning.

mod batch;
mod lines;
mod section;
mod target_namespace;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use duly_core::NamespaceName;
use serde_json::json;

use self::{
    batch::{Batch, Counts, Fault},
    lines::{Lines, Text},
    section::Section,
};
use crate::{
    Outcome,
    args::{input, values},
    cli::Session,
    commands::export::line::{ExportLine, NamespaceHead},
    failure::Failure,
    output::{Progress, Tone, text},
};

/// Import timers and dead letters that `duly export` wrote
///
/// They keep their delivery ids, attempts and history. A timer that already exists here, in any state,
/// stays as it is. So an interrupted import can be repeated, and a timer that was cancelled here does
/// not come back. Refused lines are printed with their number, and the import continues. Exit code 1 if
/// any was refused.
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
    /// Steps for the operator to do by hand afterwards.
    notes: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let source = input::open(&args.file, "timers")?;
    let total = fs::metadata(&args.file).ok().filter(|_| args.file != Path::new("-"));
    let total = total.map(|metadata| metadata.len());
    let mut lines = Lines::new(source);
    let mut import = Import {
        args: &args,
        session,
        name: text::line(&input::name(&args.file)),
        section: None,
        batch: Batch::default(),
        counts: Counts::default(),
        progress: Progress::new(session.printer),
        notes: Vec::new(),
    };
    let ended = import.read(&mut lines, total).await;
    import.progress.clear();
    ended?;
    import.print_summary()
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
            Ok(ExportLine { namespace: Some(raw), timer: None, end: None }) => {
                self.close(number).await?;
                self.open(number, raw.get()).await
            }
            Ok(ExportLine { namespace: None, timer: Some(timer), end: None }) => {
                self.timer(number, timer).await
            }
            Ok(ExportLine { namespace: None, timer: None, end: Some(end) }) => {
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
                let allowed = "it must have exactly one of namespace, timer, end".to_owned();
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
