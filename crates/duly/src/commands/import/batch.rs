//! Batches of timers that are sent together, and their results: counts, and the faults of single lines.

use duly_api::Problem;
use duly_core::NamespaceName;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::{failure::Failure, http, session::Session};

/// Most timers of one call.
const TIMERS_MAX: usize = 1_000;
/// Bytes of timers after which a batch is sent. A server accepts this size, unless it is configured with
/// a very small limit.
const BYTES_MAX: usize = 1 << 20;

/// Timers of one namespace that were read and not yet sent.
#[derive(Default, Serialize)]
pub(super) struct Batch {
    timers: Vec<Box<RawValue>>,
    #[serde(skip)]
    numbers: Vec<u64>,
    #[serde(skip)]
    bytes: usize,
}

#[derive(Deserialize)]
struct ImportResponse {
    results: Vec<ImportResult>,
}

/// The result of one timer.
#[derive(Deserialize)]
struct ImportResult {
    #[serde(default)]
    existing: bool,
    state: Option<String>,
    error: Option<Box<RawValue>>,
}

impl Batch {
    /// Adds a timer.
    pub(super) fn push(&mut self, number: u64, timer: Box<RawValue>) {
        self.bytes += timer.get().len();
        self.numbers.push(number);
        self.timers.push(timer);
    }

    /// Returns `true` if the batch must be sent.
    pub(super) fn is_full(&self) -> bool {
        self.timers.len() >= TIMERS_MAX || self.bytes >= BYTES_MAX
    }

    /// Returns the line number of its first timer.
    pub(super) fn first(&self) -> Option<u64> {
        self.numbers.first().copied()
    }

    /// Sends the timers, and returns the faults with their line numbers.
    pub(super) async fn send(
        &mut self,
        namespace: &NamespaceName,
        counts: &mut Counts,
        session: &Session,
    ) -> Result<Vec<Fault>, Failure> {
        if self.timers.is_empty() {
            return Ok(Vec::new());
        }
        let call = session.http.post(namespace, &["import"]);
        let response: ImportResponse =
            call.body(self).send_patiently(session.printer).await?.parse()?;
        let sent = std::mem::take(self);
        if response.results.len() != sent.numbers.len() {
            return Err(Failure::coded(
                "not_duly",
                "the number of results differs from the number of timers: check that the server \
                 has the same version as this command",
            ));
        }
        let mut faults = Vec::new();
        for (index, (number, done)) in (0..).zip(sent.numbers.into_iter().zip(response.results)) {
            match (done.error, done.existing, done.state.as_deref()) {
                (Some(error), ..) => {
                    let problem = serde_json::from_str::<Problem>(error.get());
                    let sentence = problem.map_or_else(
                        |_| error.get().to_owned(),
                        |problem| for_line(&http::sentence(&problem, &[]), index),
                    );
                    faults.push(Fault::refused(number, sentence, error));
                }
                (None, true, Some("cancelled")) => counts.cancelled += 1,
                (None, true, _) => counts.existing += 1,
                (None, false, _) => counts.imported += 1,
            }
        }
        Ok(faults)
    }
}

/// Rewrites a sentence of the server about a timer of the call as one about its line.
fn for_line(sentence: &str, index: u64) -> String {
    let path = format!("timers[{index}]");
    let sentence = sentence.replacen(&format!("{path}."), "", 1);
    sentence.replacen(&path, "the timer", 1)
}

/// The results of the timers of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Timers that were imported.
    pub(super) imported: u64,
    /// Timers that existed before.
    pub(super) existing: u64,
    /// Timers that existed before and were cancelled.
    pub(super) cancelled: u64,
    /// Lines with a fault.
    pub(super) failed: u64,
    /// Timers that were not sent, since their namespace does not exist.
    pub(super) skipped: u64,
}

impl Counts {
    /// Returns the number of timers that were processed.
    pub(super) fn done(self) -> u64 {
        self.imported + self.existing + self.cancelled
    }

    /// Returns the counts as text.
    pub(super) fn sentence(self) -> String {
        let Self { imported, existing, cancelled, failed, skipped } = self;
        let mut sentence = format!("{imported} imported, {existing} existing");
        for (count, words) in
            [(cancelled, "cancelled here and kept"), (skipped, "not sent"), (failed, "failed")]
        {
            if count > 0 {
                sentence.push_str(&format!(", {count} {words}"));
            }
        }
        sentence
    }
}

/// The fault of a line.
pub(super) struct Fault {
    /// Line number.
    pub(super) number: u64,
    /// Message for people.
    pub(super) sentence: String,
    /// Error document for programs.
    error: Option<Box<RawValue>>,
}

impl Fault {
    /// Returns the fault of a line that is invalid itself.
    pub(super) fn of(number: u64, sentence: impl Into<String>) -> Self {
        Self { number, sentence: sentence.into(), error: None }
    }

    /// Returns the fault of a line that the server refused.
    pub(super) fn refused(number: u64, sentence: String, error: Box<RawValue>) -> Self {
        Self { number, sentence, error: Some(error) }
    }

    /// Returns the fault as JSON, in the form of a line's result in a batch.
    pub(super) fn document(&self) -> String {
        let own = || {
            json!({ "code": "damaged_line", "title": "The line cannot be read", "detail": self.sentence })
                .to_string()
        };
        let error = self.error.as_ref().map_or_else(own, |error| error.get().to_owned());
        format!(r#"{{"line":{},"error":{error}}}"#, self.number)
    }
}
